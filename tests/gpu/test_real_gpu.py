"""On a real GPU: the device does what its protocol promises, and the whole check of benchmarks/gpu_check.py holds.

Without a GPU every test is skipped with the reason. Alone: ``pytest -m gpu``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mats.device import DeviceError, OutOfMemory
from mats.devices import cuda
from mats.model import Quantity, TargetInfo
from mats.target import parse_target

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
PAGE = 2 << 20
TILES = PAGE >> 16
CHECK_LIMIT_S = 240
NO_GPU = 3
LINUX_DRIVER = (Path("/proc/driver/nvidia/version"), Path("/dev/dxg"), Path("/dev/nvhost-gpu"))


@pytest.fixture(scope="module")
def gpus() -> tuple[TargetInfo, ...]:
    fake = "MATS_FAKE_CUDA" in os.environ  # these tests are themselves tried on the fake driver
    if sys.platform == "linux" and not fake and not any(path.exists() for path in LINUX_DRIVER):
        pytest.skip("no GPU: no NVIDIA driver is loaded")
    try:
        return cuda.discover()
    except DeviceError as error:
        pytest.skip(f"no GPU: {error}")


@pytest.fixture
def device(gpus: tuple[TargetInfo, ...]) -> Iterator[cuda.CudaDevice]:
    opened = cuda.open_device(parse_target(gpus[0].name))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def checked(gpus: tuple[TargetInfo, ...], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What gpu_check found, run once."""
    file = tmp_path_factory.mktemp("gpu_check") / "check.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_check.py"), "--target", gpus[0].name, "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHECK_LIMIT_S, check=False)
    if done.returncode == NO_GPU:
        pytest.skip(done.stderr)
    assert file.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_every_kernel_is_right_and_every_injected_error_found(checked: dict[str, Any]) -> None:
    wrong = [row for row in checked["checks"] if not row["passed"]]

    assert checked["checks"] and not wrong


def test_bandwidths_reach_their_targets(checked: dict[str, Any]) -> None:
    below = [row for row in checked["speeds"] if not row["passed"]]

    assert checked["speeds"] and not below


def test_a_gpu_tells_what_it_is(gpus: tuple[TargetInfo, ...]) -> None:
    for info in gpus:
        assert info.uuid.startswith(("GPU-", "MIG-")) and len(info.uuid) == 40
        assert isinstance(info.memory_total, Quantity) and info.memory_total.value >= 1 << 30
        assert isinstance(info.cache_size, Quantity)


@pytest.mark.parametrize("name", ["uuid", "pci"])
def test_a_gpu_is_opened_by_its_other_names(gpus: tuple[TargetInfo, ...], name: str) -> None:
    opened = cuda.open_device(parse_target(f"cuda:{dict(gpus[-1].identity)[name]}"))

    identity = opened.describe().identity
    opened.close()
    assert identity == gpus[-1].identity


@pytest.mark.parametrize("pages", [1, 3, 129])
def test_pieces_start_on_a_page_and_keep_what_they_are_given(device: cuda.CudaDevice, pages: int) -> None:
    buffer = device.allocate(pages * PAGE)
    words = bytes(range(256)) * 16

    device.copy(buffer, words, offset=buffer.size - len(words))

    assert buffer.address % PAGE == 0
    assert device.fetch(buffer, buffer.size - len(words), len(words)) == words


def test_more_memory_than_there_is_is_refused_and_the_device_works(device: cuda.CudaDevice) -> None:
    with pytest.raises(OutOfMemory):
        device.allocate(device.memory().total * 2)

    buffer = device.allocate(PAGE)
    device.copy(buffer, b"fine")
    assert device.fetch(buffer, 0, 4) == b"fine"


def test_memory_is_given_back(device: cuda.CudaDevice) -> None:
    device.free(device.allocate(PAGE))
    before = device.memory().free

    device.free(device.allocate(512 * PAGE))

    assert device.memory().free >= before


def test_a_launch_takes_time_and_writes(device: cuda.CudaDevice) -> None:
    buffer = device.allocate(PAGE)

    seconds = device.launch("pattern_write", TILES, data=buffer, first=0, kind=2, a=7, b=7, mask=0, descending=0)

    assert 0 < seconds < 1
    assert device.fetch(buffer, 0, PAGE) == (7).to_bytes(8, "little") * (PAGE // 8)


def test_every_gpu_works_at_the_same_moment(gpus: tuple[TargetInfo, ...]) -> None:
    contents: dict[str, bytes] = {}

    def work(info: TargetInfo, value: int) -> None:
        opened = cuda.open_device(parse_target(info.name))
        buffer = opened.allocate(PAGE)
        opened.launch("pattern_write", TILES, data=buffer, first=0, kind=2, a=value, b=value, mask=0, descending=0)
        contents[info.name] = opened.fetch(buffer, 0, 8)
        opened.close()

    threads = [threading.Thread(target=work, args=(info, value)) for value, info in enumerate(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert contents == {info.name: value.to_bytes(8, "little") for value, info in enumerate(gpus)}


def test_nvml_knows_the_gpu_by_its_uuid(device: cuda.CudaDevice) -> None:
    conditions = device.conditions()

    assert isinstance(conditions.temperature, Quantity), conditions.temperature
    assert conditions.ecc in ("on", "off")
