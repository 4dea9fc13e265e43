"""The real nvidia-ml-py, and other clients of NVML, run on the stand-in as they do on a driver."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mats.sources._mock_profiles import Profile, find_profile

from . import build

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def environment(profile: str | Path) -> dict[str, str]:
    try:
        return build.environment(profile)
    except build.CannotBuildError as error:
        pytest.skip(f"NOT TESTED: the stand-in for NVML cannot be built: {error}")


def run(profile: str | Path, code: str, seconds: float = 60, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Python in a process whose NVML is the profile's."""
    command = [sys.executable, "-W", "error", "-c", code]
    own = {**environment(profile), **changes, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=own, cwd=ROOT, capture_output=True, timeout=seconds)


def in_process(profile: str | Path, code: str) -> Any:
    """The value that ``code`` leaves in ``result``, with pynvml as ``n`` and the first GPU as ``h``."""
    start = "import json, ctypes, pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"
    finished = run(profile, f"{start}{code}\nprint(json.dumps(result))")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_mig_devices_are_found_by_uuid() -> None:
    code = (
        "def one(i):\n"
        "    m = n.nvmlDeviceGetMigDeviceHandleByIndex(h, i)\n"
        "    a = n.nvmlDeviceGetAttributes(m)\n"
        "    again = n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(m))\n"
        "    return [n.nvmlDeviceGetGpuInstanceId(again), a.multiprocessorCount, a.memorySizeMB,\n"
        "            n.nvmlDeviceGetMemoryInfo(m).used, n.nvmlDeviceIsMigDeviceHandle(m).value]\n"
        "found = []\n"
        "for i in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):\n"
        "    try: found.append(one(i))\n"
        "    except n.NVMLError_NotFound: pass\n"
        "result = [n.nvmlDeviceGetMigMode(h), found]"
    )

    assert in_process("a100_mig", code) == [[1, 1], [[1, 42, 19968, 19 * MIB, 1], [2, 42, 19968, 19 * MIB, 1]]]


def test_a_call_that_hangs_holds_its_process_and_no_call_before_it() -> None:
    code = (
        "import sys, pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print(n.nvmlDeviceGetName(h), n.nvmlDeviceGetPowerUsage(h), flush=True)\nn.nvmlDeviceGetTemperature(h, 0)"
    )
    started = time.monotonic()

    with pytest.raises(subprocess.TimeoutExpired) as hung:
        run("hanging_call", code, seconds=3)

    assert time.monotonic() - started < 10
    output = hung.value.stdout
    assert output is not None and b"NVIDIA H100 80GB HBM3 71234" in output


def test_a_slow_call_takes_its_time_and_answers() -> None:
    code = (
        "import time\nt = time.monotonic()\n"
        "c = n.nvmlDeviceGetTotalEccErrors(h, 0, 0)\nresult = [c, time.monotonic() - t]"
    )

    count, seconds = in_process("slow_call", code)

    assert count == 54_700_000_000
    assert 1 <= seconds < 20


def test_structures_carry_their_versions_and_layouts() -> None:
    code = (
        "def refused(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except n.NVMLError as error: return error.value\n"
        "s = n.c_nvmlEccSramErrorStatus_v1_t()\nn.nvmlDeviceGetSramEccErrorStatus(h, ctypes.byref(s))\n"
        "w = n.c_nvmlEccSramErrorStatus_v1_t()\nw.version = 7\n"
        "i = n.c_nvmlGpuFabricInfo_v3_t()\nn.nvmlDeviceGetGpuFabricInfoV(h, ctypes.byref(i))\n"
        "result = [getattr(s, name) for name, _ in s._fields_[1:]] + [\n"
        "    refused(n.nvmlDeviceGetMemoryInfo, h, 0x01000028),\n"
        "    refused(n.nvmlDeviceGetSramEccErrorStatus, h, ctypes.byref(w)),\n"
        "    n.nvmlDeviceGetTemperatureV(h, 0), n.nvmlDeviceGetMarginTemperature(h),\n"
        "    i.state, i.healthMask, i.healthSummary]"
    )

    sram = [2, 5, 0, 0, 0, 0, 5, 2, 0, 0, 0, 1]
    assert in_process("sram_threshold", code) == [*sram, 25, 25, 31, 56, 3, 0x51AA, 1]


def test_a_range_of_keys_is_as_many_keys_and_another_profile_gives_the_rest(tmp_path: Path) -> None:
    own = tmp_path / "own.profile"
    own.write_text("[system]\nlike = h100x8\ncount = 1\n[all]\nnvlink.errors.2.3-5 = 7\n[log]\n| [0] = no [section]\n")

    code = "result = [n.nvmlDeviceGetNvLinkErrorCounter(h, l, 2) for l in range(2, 7)] + [n.nvmlDeviceGetName(h)]"

    assert in_process(own, code) == [0, 7, 7, 7, 0, "NVIDIA H100 80GB HBM3"]


MISTAKES = ["name", "[broken", "= =\n[", "ecc.mode = 1, 1, 1", "x = " + "y" * 5000]


@pytest.mark.parametrize("line", MISTAKES)
def test_a_profile_with_a_mistake_is_never_answered_from(tmp_path: Path, line: str) -> None:
    broken = tmp_path / "broken.profile"
    broken.write_text(f"[system]\ncount = 1\n[all]\n{line}\n[0]\nuuid = GPU-1\n")
    code = "import pynvml as n\nn.nvmlInit()\nn.nvmlDeviceGetEccMode(n.nvmlDeviceGetHandleByIndex(0))"

    finished = run("h100x8", code, MATS_MOCK_NVML=str(broken))

    assert finished.returncode != 0
    assert b"mock NVML: " in finished.stderr


def test_a_key_that_is_not_there_is_not_supported_and_nothing_answers_before_init() -> None:
    code = (
        "import pynvml as n\n"
        "def code(call, *a):\n"
        "    try: call(*a)\n"
        "    except n.NVMLError as error: return error.value\n"
        "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print(code(n.nvmlDeviceGetFanSpeed, h), code(n.nvmlDeviceGetHandleByIndex, 9),"
        " code(n.nvmlDeviceGetHandleByUUID, b'x'))\n"
        "n.nvmlShutdown(); print(code(n.nvmlDeviceGetCount))"
    )

    assert run("h100x8", code).stdout.split() == [b"3", b"2", b"6", b"1"]


def test_a_symbol_that_an_old_driver_lacks_is_not_in_the_library() -> None:
    code = (
        "import pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"
        "try: n.nvmlDeviceGetRemappedRows(h)\n"
        "except n.NVMLError_FunctionNotFound: print('missing')"
    )

    assert run("old_driver", code).stdout.split() == [b"missing"]


@pytest.mark.parametrize(
    "profile", ["h100x8", "a100_mig", "rtx4090", "t4", "b200", "needs_reset", "gb10", "wsl", "old_driver", "vgpu"]
)
@pytest.mark.parametrize("client", ["nvitop -1", "gpustat --no-color"])
def test_other_clients_of_nvml_see_the_same_machine(profile: str, client: str) -> None:
    name = client.split()[0]
    python = os.environ.get("MATS_NVML_CLIENTS") or (sys.executable if importlib.util.find_spec(name) else None)
    if python is None:
        pytest.skip(f"NOT TESTED: {name} is not installed, nor does MATS_NVML_CLIENTS name a Python that has it")
    command = [python, "-m", *client.split()]

    seen = subprocess.run(command, env=environment(profile), capture_output=True, timeout=60, check=True)

    text = seen.stdout.decode()
    found = find_profile(profile)
    gpu, temperature = _told(found, "name"), found.value(0, "temperature.0")
    assert gpu.removeprefix("NVIDIA ").rpartition(" ")[2][-8:] in text
    assert temperature is None or f"{temperature}°C" in text or f"{temperature}C" in text
    assert found.entries["system", "driver"] in text


def _told(profile: Profile, key: str) -> str:
    value = profile.value(0, key)
    assert value is not None
    return value
