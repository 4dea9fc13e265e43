"""The real nvidia-ml-py runs on the stand-in for NVML; ``mats.sources.nvml`` reads every profile in its own process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mats.facts import GpuFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit

from . import build

READER = Path(__file__).with_name("read_all.py")
ROOT = Path(__file__).resolve().parents[2]
UNREADABLE = ("driver_mismatch", "no_driver", "blocked")
HANGING = "hanging_call"
MIB = 1 << 20


def run(profile: str | Path, code: str, seconds: float = 60) -> subprocess.CompletedProcess[bytes]:
    """Python in a process whose NVML is the profile's."""
    try:
        environment = build.environment(profile)
    except build.CannotBuildError as error:
        pytest.skip(f"NOT TESTED: the stand-in for NVML cannot be built: {error}")
    command = [sys.executable, "-W", "error", "-c", code]
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=seconds)


@cache
def answer(profile: str) -> Any:
    """What the profile's machine is read as."""
    finished = run(profile, READER.read_text(encoding="utf-8"))
    assert (finished.returncode, finished.stderr) == (0, b"")
    return pickle.loads(finished.stdout)


def gpus(profile: str) -> list[GpuFacts]:
    found: list[GpuFacts] = answer(profile)
    return found


def only(profile: str) -> GpuFacts:
    (gpu,) = gpus(profile)
    return gpu


def why(value: object) -> AbsenceKind:
    assert isinstance(value, Absent), value
    return value.kind


def in_process(profile: str | Path, code: str) -> Any:
    """The value that ``code`` leaves in ``result``, with pynvml as ``n`` and the first GPU as ``h``."""
    start = "import json, ctypes, pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"
    finished = run(profile, f"{start}{code}\nprint(json.dumps(result))")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize("profile", [name for name in build.profiles() if name not in (*UNREADABLE, HANGING)])
def test_every_profile_has_a_name_and_never_a_value_that_its_driver_does_not_give(profile: str) -> None:
    text = build.path_of(profile).read_text(encoding="utf-8")

    for facts in answer(profile):
        if isinstance(facts, int):
            continue
        assert isinstance(facts.name, str)
        assert f"name = {facts.name}" in text
        for key, value in (("ecc.mode", facts.ecc.enabled), ("remap", facts.remap.pending), ("power", facts.power)):
            assert isinstance(value, Absent) or f"\n{key} = " in text


def test_eight_healthy_gpus_are_read_by_uuid() -> None:
    read = gpus("h100x8")

    assert len({gpu.uuid for gpu in read}) == 8
    for gpu in read:
        assert gpu.temperature == Quantity(31, Unit.CELSIUS)
        assert gpu.memory.total == Quantity(81559 * MIB, Unit.BYTE)
        assert gpu.memory.used == Quantity(MIB, Unit.BYTE)
        assert (gpu.ecc.enabled, gpu.ecc.uncorrected) == (True, Quantity(0, Unit.COUNT))
        assert gpu.remap.pending == gpu.remap.failed == Quantity(0, Unit.COUNT)
        assert gpu.clocks.reasons == ("idle",)
        assert gpu.processes == ()


def test_a_row_that_waits_for_a_reset_stands_on_its_own_gpu() -> None:
    first, second = gpus("remap_pending")

    assert (first.remap.pending, second.remap.pending) == (Quantity(0, Unit.COUNT), Quantity(1, Unit.COUNT))
    assert second.ecc.uncorrected == Quantity(1, Unit.COUNT)


def test_mig_hides_what_it_hides_and_its_instances_are_found_by_uuid() -> None:
    gpu = only("a100_mig")

    assert gpu.memory.total == Quantity(40960 * MIB, Unit.BYTE)
    assert why(gpu.remap.pending) is why(gpu.ecc.uncorrected) is AbsenceKind.NOT_SUPPORTED
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


def test_a_geforce_card_has_a_desktop_ecc_off_and_a_window_of_256_mib() -> None:
    gpu = only("rtx4090")

    assert gpu.ecc.enabled is False
    assert why(gpu.ecc.uncorrected) is AbsenceKind.NOT_SUPPORTED
    assert isinstance(gpu.processes, tuple)
    assert [(each.pid, each.draws_only) for each in gpu.processes] == [(1893, True)]
    assert in_process("rtx4090", "result = n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total") == 256 * MIB


def test_a_laptop_card_has_neither_ecc_nor_a_power_limit() -> None:
    gpu = only("rtx4060_laptop")

    assert why(gpu.ecc.enabled) is why(gpu.remap.pending) is AbsenceKind.NOT_SUPPORTED
    assert why(gpu.clocks.held[0][1]) is AbsenceKind.NOT_SUPPORTED
    assert gpu.power == Quantity(1830 * 1e-3, Unit.WATT)


def test_a_t4_has_ecc_and_no_row_remapping() -> None:
    gpu = only("t4")

    assert (gpu.ecc.enabled, gpu.ecc.uncorrected) == (True, Quantity(0, Unit.COUNT))
    assert why(gpu.remap.failed) is AbsenceKind.NOT_SUPPORTED
    assert in_process("t4", "result = [len(n.nvmlDeviceGetRetiredPages(h, c)) for c in (0, 1)]") == [0, 0]


def test_a_v100_lists_its_retired_pages_and_the_one_that_waits() -> None:
    code = (
        "result = [len(n.nvmlDeviceGetRetiredPages(h, 0)), len(n.nvmlDeviceGetRetiredPages_v2(h, 1)),"
        " n.nvmlDeviceGetRetiredPagesPendingStatus(h)]"
    )

    assert in_process("v100_retired", code) == [2, 61, 1]
    assert only("v100_retired").ecc.uncorrected == Quantity(1, Unit.COUNT)


def test_a_gb10_tells_no_memory_and_that_is_not_zero() -> None:
    gpu = only("gb10")

    for value in (gpu.memory.total, gpu.memory.used, gpu.memory.free, gpu.ecc.enabled, gpu.clocks.memory):
        assert why(value) is AbsenceKind.NOT_SUPPORTED
    assert isinstance(gpu.processes, tuple)
    assert gpu.processes[0].memory == Quantity(1 << 30, Unit.BYTE)
    assert in_process("gb10", "p = n.nvmlDeviceGetPciInfo(h)\nresult = [p.domain, p.busId]") == [15, "0000000F:01:00.0"]


def test_wsl_does_not_tell_the_memory_of_a_process() -> None:
    gpu = only("wsl")

    assert isinstance(gpu.processes, tuple)
    (process,) = gpu.processes
    assert (process.pid, why(process.memory)) == (412, AbsenceKind.NOT_SUPPORTED)
    assert gpu.memory.used == Quantity(8741 * MIB, Unit.BYTE)


def test_a_b200_answers_the_calls_of_its_generation() -> None:
    code = (
        "i = n.c_nvmlGpuFabricInfo_v3_t()\nn.nvmlDeviceGetGpuFabricInfoV(h, ctypes.byref(i))\n"
        "result = [n.nvmlDeviceGetRepairStatus(h), n.nvmlDeviceGetUnrepairableMemoryFlag_v1(h), i.state, i.healthMask,"
        " i.healthSummary, n.nvmlDeviceGetNvLinkVersion(h, 17)]"
    )

    assert in_process("b200", code) == [[0, 0], 0, 3, 0x5AAA, 1, 5]
    assert only("b200").memory.total == Quantity(192265846784, Unit.BYTE)


def test_a_gpu_that_needs_a_reset_is_lost_and_the_other_is_not() -> None:
    fine, stuck = gpus("needs_reset")

    assert fine.temperature == Quantity(31, Unit.CELSIUS)
    assert isinstance(stuck.name, str)
    for value in (stuck.temperature, stuck.memory.total, stuck.ecc.uncorrected, stuck.remap.pending, stuck.processes):
        assert why(value) is AbsenceKind.DEVICE_LOST
    code = "result = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(1), [230])[0].value.ullVal"
    assert in_process("needs_reset", code) == 1


def test_a_gpu_that_has_fallen_off_the_bus_takes_only_its_own_values() -> None:
    lost, fine = gpus("fallen_off_bus")

    for value in (lost.temperature, lost.power, lost.memory.total, lost.clocks.reasons, lost.remap.pending):
        assert why(value) is AbsenceKind.DEVICE_LOST
        assert isinstance(value, Absent) and "fallen off the bus" in value.reason
    assert fine.remap.pending == Quantity(0, Unit.COUNT)


def test_a_gpu_without_a_handle_does_not_hide_the_next() -> None:
    lost, fine = answer("handle_lost")

    assert lost == 15
    assert fine.temperature == Quantity(31, Unit.CELSIUS)


def test_a_symbol_that_an_old_driver_lacks_is_too_old_and_not_unsupported() -> None:
    gpu = only("old_driver")

    assert why(gpu.remap.pending) is AbsenceKind.MISSING_SYMBOL
    assert why(gpu.memory.reserved) is AbsenceKind.MISSING_SYMBOL
    assert gpu.memory.total == Quantity(17_071_734_784, Unit.BYTE)
    assert gpu.clocks.reasons == ("idle",)
    assert isinstance(gpu.processes, tuple)
    assert [process.pid for process in gpu.processes] == [3001]


@pytest.mark.parametrize(
    ("profile", "says"),
    [("driver_mismatch", "different versions"), ("no_driver", "is not loaded"), ("blocked", "code 999")],
)
def test_a_library_that_does_not_start_says_why(profile: str, says: str) -> None:
    assert says in answer(profile).reason


def test_a_call_that_hangs_holds_its_process_and_no_call_before_it() -> None:
    code = (
        "import sys, pynvml as n\nn.nvmlInit()\nh = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print(n.nvmlDeviceGetName(h), n.nvmlDeviceGetPowerUsage(h), flush=True)\nn.nvmlDeviceGetTemperature(h, 0)"
    )
    started = time.monotonic()

    with pytest.raises(subprocess.TimeoutExpired) as hung:
        run(HANGING, code, seconds=3)

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
        "result = [s.bThresholdExceeded, s.aggregateUncParity, s.aggregateUncBucketOther, s.volatileCor,\n"
        "    refused(n.nvmlDeviceGetMemoryInfo, h, 0x01000028),\n"
        "    refused(n.nvmlDeviceGetSramEccErrorStatus, h, ctypes.byref(w)),\n"
        "    n.nvmlDeviceGetTemperatureV(h, 0), n.nvmlDeviceGetMarginTemperature(h)]"
    )

    profile = build.path_of("h100x8").read_text(encoding="utf-8")
    assert "ecc.sram = 0, 0" in profile
    assert in_process("h100x8", code) == [0, 0, 0, 0, 25, 25, 31, 56]


def test_sram_counts_reach_their_own_fields(tmp_path: Path) -> None:
    text = build.path_of("h100x8").read_text(encoding="utf-8")
    changed = tmp_path / "sram.profile"
    changed.write_text(
        text.replace("ecc.sram = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0", "ecc.sram = 1,2,3,4,5,6,7,8,9,10,11,1")
    )

    code = (
        "s = n.c_nvmlEccSramErrorStatus_v1_t()\nn.nvmlDeviceGetSramEccErrorStatus(h, ctypes.byref(s))\n"
        "result = [getattr(s, name) for name, _ in s._fields_[1:]]"
    )
    assert in_process(changed, code) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1]


@pytest.mark.parametrize("line", ["name", "[broken", "= =\n[", "ecc.mode = 1, 1, 1"])
def test_a_profile_with_a_mistake_is_never_answered_from(tmp_path: Path, line: str) -> None:
    broken = tmp_path / "broken.profile"
    broken.write_text(f"[system]\ncount = 1\n[all]\n{line}\n[0]\nuuid = GPU-1\n")
    code = "import pynvml as n\nn.nvmlInit()\nn.nvmlDeviceGetEccMode(n.nvmlDeviceGetHandleByIndex(0))"

    finished = run(broken, code)

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


@pytest.mark.parametrize("profile", ["h100x8", "a100_mig", "rtx4090", "needs_reset", "gb10", "wsl", "old_driver"])
@pytest.mark.parametrize("client", ["nvitop -1", "gpustat --no-color"])
def test_other_clients_of_nvml_see_the_same_machine(profile: str, client: str) -> None:
    python = os.environ.get("MATS_NVML_CLIENTS")
    if not python:
        pytest.skip("NOT TESTED: MATS_NVML_CLIENTS names a Python that has nvitop and gpustat")
    command = [python, "-m", *client.split()]

    seen = subprocess.run(command, env=build.environment(profile), capture_output=True, timeout=60, check=True)

    text = seen.stdout.decode()
    first = answer(profile)[0]
    assert first.name.removeprefix("NVIDIA ").rpartition(" ")[2][-8:] in text
    assert f"{first.temperature.value}°C" in text or f"{first.temperature.value}C" in text
    driver = next(
        line.split("= ")[1] for line in build.path_of(profile).read_text().splitlines() if "driver = " in line
    )
    assert driver in text


def test_at_least_the_promised_profiles_are_there() -> None:
    promised = {"h100x8", "a100_mig", "rtx4090", "rtx4060_laptop", "t4", "v100_retired", "gb10", "wsl", "b200"}
    promised |= {"needs_reset", "fallen_off_bus", "old_driver", HANGING}

    assert promised <= set(build.profiles())
