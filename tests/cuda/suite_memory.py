"""Runs on the fake driver: memory is taken, filled, copied and given back, and never from a pool."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mats.device import Buffer, DeviceError, OutOfMemory
from mats.devices import cuda
from mats.model import Absent
from mats.target import parse_target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

MIB = 1 << 20
PAGE = 2 * MIB
OUT_OF_MEMORY = 2


@contextlib.contextmanager
def opened(argument: str = "0") -> Iterator[cuda.CudaDevice]:
    device = cuda.open_device(parse_target(f"cuda:{argument}"))
    try:
        yield device
    finally:
        device.close()


@pytest.mark.parametrize("misaligned", [0, 1])
def test_large_pieces_start_on_a_page(fake: FakeCuda, misaligned: int) -> None:
    fake.control(misaligned=misaligned)

    with opened() as device:
        pieces = [device.allocate(size) for size in (PAGE, 3 * PAGE, PAGE)]
        ends = [device.fetch(piece, piece.size - 8, 8) for piece in pieces]

    assert [piece.address % PAGE for piece in pieces] == [0, 0, 0]
    assert [len(end) for end in ends] == [8, 8, 8]


def test_memory_is_counted(fake: FakeCuda) -> None:
    fake.control(memory=64 * MIB, others=16 * MIB)

    with opened("1") as device:
        before = device.memory()
        device.allocate(8 * MIB)
        after = device.memory()

    assert (before.total, before.free, after.free) == (64 * MIB, 48 * MIB, 40 * MIB)
    assert isinstance(before.reserved, Absent)


def test_chunks_down_to_the_last(fake: FakeCuda) -> None:
    fake.control(memory=64 * MIB, others=15 * MIB)
    chunks: list[Buffer] = []

    with opened() as device:
        with pytest.raises(OutOfMemory, match="not enough free memory"):
            while True:
                chunks.append(device.allocate(8 * MIB))
        held = fake.used()
        for chunk in chunks:
            device.free(chunk)
        again = device.allocate(48 * MIB)

    assert (len(chunks), held, again.size) == (6, 48 * MIB, 48 * MIB)


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_refused_allocation_leaves_the_device_working(fake: FakeCuda, nth: int) -> None:
    fake.fail("cuMemAlloc", OUT_OF_MEMORY, skip=nth - 1)

    with opened() as device:
        granted = 0
        with contextlib.suppress(OutOfMemory):
            for _ in range(9):
                device.allocate(PAGE)
                granted += 1
        buffer = device.allocate(PAGE)
        device.copy(buffer, b"still here")
        read = device.fetch(buffer, 0, 10)

    assert (granted, read) == (nth - 1, b"still here")


def test_what_was_written_is_read_back(fake: FakeCuda) -> None:
    words = bytes(range(256)) * 16

    with opened() as device:
        first, second = device.allocate(PAGE), device.allocate(PAGE + len(words))
        device.copy(first, words, offset=100)
        device.copy(second, first, offset=len(words))
        read = device.fetch(second, len(words) + 100, len(words))

    assert read == words


def test_a_copy_is_timed_on_the_device(fake: FakeCuda) -> None:
    fake.control(clock="manual", bytes_per_second=1e9)

    with opened() as device:
        first, second = device.allocate(PAGE), device.allocate(PAGE)
        seconds = device.copy(first, second)

    assert seconds == pytest.approx(PAGE / 1e9, rel=1e-3)


@pytest.mark.parametrize(("offset", "size"), [(-1, 4), (PAGE - 3, 4), (0, PAGE + 1), (0, -1)])
def test_nothing_is_read_beyond_a_buffer(fake: FakeCuda, offset: int, size: int) -> None:
    with opened() as device:
        buffer = device.allocate(PAGE)
        with pytest.raises(DeviceError, match="not within a buffer"):
            device.fetch(buffer, offset, size)


def test_nothing_is_written_beyond_a_buffer(fake: FakeCuda) -> None:
    with opened() as device:
        buffer = device.allocate(64)
        with pytest.raises(DeviceError, match="not within a buffer"):
            device.copy(buffer, bytes(64), offset=1)


def test_a_buffer_is_freed_once(fake: FakeCuda) -> None:
    with opened() as device:
        buffer = device.allocate(PAGE)
        device.free(buffer)
        with pytest.raises(DeviceError, match="freed before"):
            device.free(buffer)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_is_positive(fake: FakeCuda, size: int) -> None:
    with opened() as device, pytest.raises(DeviceError, match="must be positive"):
        device.allocate(size)


def test_memory_comes_from_the_driver_itself(fake: FakeCuda) -> None:
    import cupy

    with opened() as device:
        device.allocate(PAGE)
        taken = fake.calls("cuMemAlloc")

    assert (taken, fake.calls("cuMemAllocManaged")) == (1, 0)
    assert cupy.get_default_memory_pool().total_bytes() == 0


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt])
def test_closing_gives_everything_back(fake: FakeCuda, ending: type[BaseException] | None) -> None:
    with contextlib.suppress(ValueError, KeyboardInterrupt), opened() as device:
        device.allocate(PAGE)
        device.allocate(100)
        if ending:
            raise ending

    assert (fake.used(), fake.query("allocations"), fake.query("events")) == (0, 0, 0)


def test_a_closed_device_does_nothing_more(fake: FakeCuda) -> None:
    device = cuda.open_device(parse_target("cuda:0"))
    device.close()
    device.close()

    with pytest.raises(DeviceError, match="is closed"):
        device.allocate(PAGE)


def test_pieces_of_two_devices_lie_on_them(fake: FakeCuda) -> None:
    with opened("0") as first, opened("3") as second:
        first.allocate(PAGE)
        second.allocate(3 * PAGE)
        held = [fake.used(index) for index in (0, 1, 3)]

    assert held == [PAGE, 0, 3 * PAGE]
