"""Runs on the fake driver: what goes wrong is one clear sentence of the right class, and other devices go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from mats.device import Buffer, DeviceError, DeviceLost
from mats.devices import cuda
from mats.devices.cuda import CudaDevice
from mats.target import parse_target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

MIB = 1 << 20
PAGE = 2 * MIB
TILES = PAGE >> 16


def open_cuda(index: int) -> CudaDevice:
    return cuda.open_device(parse_target(f"cuda:{index}"))


def write(device: CudaDevice, data: Buffer, tiles: int = TILES, a: int = 1) -> float:
    return device.launch("pattern_write", tiles, data=data, first=0, kind=2, a=a, b=a, mask=0, descending=0)


def test_a_failing_launch_is_said_and_passes(fake: FakeCuda) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)
    fake.fail("cuLaunchKernel", 701)

    with pytest.raises(DeviceError, match=r"running the kernel pattern_write failed: .*registers") as caught:
        write(device, data)

    write(device, data)
    device.close()
    assert not isinstance(caught.value, DeviceLost)


@pytest.mark.parametrize("code", [214, 226, 700, 702, 715, 716, 719, 999])
def test_a_sticky_error_loses_the_device(fake: FakeCuda, code: int) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)
    fake.fail("cuLaunchKernel", code, sticky=True)

    with pytest.raises(DeviceLost, match="cuda:0 was lost while running the kernel pattern_write: "):
        write(device, data)


def test_a_device_lost_between_two_calls_is_noticed(fake: FakeCuda) -> None:
    device = open_cuda(2)
    device.allocate(PAGE)
    fake.control(sticky__2=999)

    with pytest.raises(DeviceLost, match="asking for its free memory"):
        device.memory()


def test_a_lost_device_says_so_to_every_call_and_closes(fake: FakeCuda) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)
    fake.fail("cuLaunchKernel", 719, sticky=True)
    with pytest.raises(DeviceLost) as lost:
        write(device, data)
    asked = fake.calls("cuCtxSetCurrent")

    for call in (lambda: write(device, data), lambda: device.free(data), device.synchronise, device.memory):
        with pytest.raises(DeviceLost) as again:
            call()
        assert str(again.value) == str(lost.value)
    device.close()
    device.close()

    assert fake.calls("cuCtxSetCurrent") == asked, "a lost device was asked again"


def test_a_device_lost_in_the_middle_of_a_run_does_not_take_the_others(fake: FakeCuda) -> None:
    devices = [open_cuda(index) for index in range(3)]
    buffers = [device.allocate(PAGE) for device in devices]
    fake.fail("cuLaunchKernel", 999, skip=4, sticky=True, device=1)

    ended = [0, 0, 0]
    for _ in range(8):
        for index in (0, 1, 2):
            try:
                write(devices[index], buffers[index])
                ended[index] += 1
            except DeviceLost:
                pass
    for device in devices:
        device.close()

    assert ended == [8, 4, 8]
    assert [fake.used(index) for index in (0, 2)] == [0, 0]


def test_a_kernel_that_leaves_its_buffer_is_caught(fake: FakeCuda) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)

    with pytest.raises(DeviceLost, match="touched memory it does not own"):
        write(device, data, TILES + 1)


def test_a_kernel_that_does_not_compile_is_said(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)
    monkeypatch.setattr(cuda, "kernel_source", lambda file: "this is not C++")

    with pytest.raises(DeviceError, match="the kernel could not be compiled"):
        write(device, data)
    device.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": "no_such_kernel", "tiles": 1},
        {"kernel": "inject", "tiles": 1, "word": 0, "flips": 1},
        {"kernel": "inject", "tiles": 1, "data": 0, "word": 0, "flips": 1},
        {"kernel": "inject", "tiles": 1, "data": Buffer(0, 8), "word": 0, "flips": 1, "more": 1},
        {"kernel": "inject", "tiles": 1, "data": Buffer(0, 8), "word": -1, "flips": 1},
        {"kernel": "inject", "tiles": 1, "data": Buffer(0, 8), "word": 1 << 64, "flips": 1},
        {"kernel": "inject", "tiles": 1, "data": Buffer(0, 8), "word": 1.0, "flips": 1},
    ],
)
def test_wrong_arguments_fail_before_anything_runs(fake: FakeCuda, arguments: dict[str, int]) -> None:
    device = open_cuda(0)

    with pytest.raises(TypeError):
        device.launch(**arguments)  # type: ignore[arg-type]

    device.close()
    assert fake.calls("cuLaunchKernel") == 0


def test_a_launch_is_timed_on_the_device(fake: FakeCuda) -> None:
    fake.control(clock="manual", launch_seconds=0.25)
    device = open_cuda(0)
    data = device.allocate(PAGE)

    seconds = write(device, data)

    device.close()
    assert seconds == pytest.approx(0.25)


def test_no_more_blocks_than_tiles(fake: FakeCuda) -> None:
    device = open_cuda(0)
    data = device.allocate(PAGE)
    write(device, data, 3)
    few = fake.query("last_grid")
    write(device, data)
    many = fake.query("last_grid")

    device.close()
    assert (few, many) == (3, TILES)


def test_devices_work_in_parallel_threads(fake: FakeCuda) -> None:
    contents: dict[int, bytes] = {}

    def work(index: int) -> None:
        device = open_cuda(index)
        data = device.allocate(PAGE)
        for step in range(5):
            write(device, data, a=index * 1000 + step)
        contents[index] = device.fetch(data, 0, PAGE)
        device.close()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert contents == {i: (i * 1000 + 4).to_bytes(8, "little") * (PAGE // 8) for i in range(4)}
