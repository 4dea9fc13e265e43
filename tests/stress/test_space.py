"""How much is tested, and that every other byte is accounted for."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.device import Buffer, Device, MemoryState, OutOfMemory
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.probe import UsageError
from mats.probes import _space as space

MIB = 1 << 20


class Lender:
    """A device that lends ``free`` bytes, at most ``largest`` at once, each of which takes ``seconds`` to be found."""

    def __init__(self, free: int, largest: int = 1 << 40, seconds: float = 0.0) -> None:
        self.free_bytes, self.largest, self.seconds = free, largest, seconds
        self.calls, self.clock = 0, 0.0

    def now(self) -> float:
        return self.clock

    def allocate(self, size: int) -> Buffer:
        self.calls += 1
        if size > self.free_bytes or size > self.largest:
            raise OutOfMemory(f"no {size} bytes")
        self.free_bytes -= size
        self.clock += size * self.seconds
        return Buffer(self.calls << 40, size)

    def free(self, buffer: Buffer) -> None:
        self.free_bytes += buffer.size


def lender(free: int, largest: int = 1 << 40, seconds: float = 0.0) -> Device:
    return cast(Device, Lender(free, largest, seconds))


def state(total: int, free: int, reserved: int | None = 0, others: int | None = 0) -> MemoryState:
    def told(size: int | None) -> Quantity | Absent:
        return Absent(AbsenceKind.NOT_SUPPORTED, "not told") if size is None else Quantity(size, Unit.BYTE)

    return MemoryState(total, free, told(reserved), told(others))


@given(
    total=st.integers(64, 200_000),
    used=st.integers(0, 60),
    reserved=st.one_of(st.none(), st.integers(0, 100)),
    others=st.one_of(st.none(), st.integers(0, 100)),
    tested=st.floats(0, 1),
    limited=st.booleans(),
)
def test_every_byte_is_accounted_for(
    total: int, used: int, reserved: int | None, others: int | None, tested: float, limited: bool
) -> None:
    # given
    mib = MIB
    now = state(
        total * mib,
        (total - used) * mib,
        None if reserved is None else reserved * mib,
        None if others is None else others * mib,
    )
    size = int(tested * (total - used)) * mib
    # when
    parts = space.account(now, size, space.Request(size, 256 * mib, limited))
    # then
    assert size + sum(part for _, part in parts) == now.total
    assert all(part > 0 for _, part in parts)


@pytest.mark.parametrize("wanted", [2, 4, 30, 512, 5000, 81920])
def test_chunks_cover_what_is_wanted(wanted: int) -> None:
    chunks, refused = space.allocate_chunks(lender(1 << 50), wanted * MIB)
    assert sum(chunk.buffer.size for chunk in chunks) == wanted * MIB
    assert refused == ""
    assert [chunk.first for chunk in chunks] == [sum(c.words for c in chunks[:i]) for i in range(len(chunks))]


def test_a_fragmented_device_is_tested_in_smaller_chunks() -> None:
    chunks, refused = space.allocate_chunks(lender(1 << 50, largest=16 * MIB), 1024 * MIB)
    assert sum(chunk.buffer.size for chunk in chunks) == 1024 * MIB
    assert refused == ""


def test_a_refusal_is_told() -> None:
    chunks, refused = space.allocate_chunks(lender(100 * MIB), 200 * MIB)
    assert sum(chunk.buffer.size for chunk in chunks) == 100 * MIB
    assert "bytes" in refused


def test_more_than_the_device_has_is_refused() -> None:
    with pytest.raises(UsageError, match="asks for 2048 MiB, the device has 1024 MiB"):
        space.request("cuda", state(1 << 30, 1 << 30), 2 << 30, None, None)


def test_size_and_coverage_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        space.request("cuda", state(1 << 30, 1 << 30), 64 * MIB, 0.5, None)


def test_a_host_lends_half_of_what_is_available() -> None:
    asked = space.request("host", state(64 << 30, 40 << 30), None, None, None)
    assert asked.wanted == 20 << 30
    assert asked.limited


def test_a_gpu_is_tested_down_to_its_headroom() -> None:
    asked = space.request("cuda", state(80 << 30, 79 << 30), None, None, None)
    assert (79 << 30) - asked.wanted - asked.headroom <= space.OWN + space.PAGE
    assert not asked.limited


def test_what_was_not_asked_for_is_not_called_refused() -> None:
    # given: half of a card, all of which is given
    now = state(16 << 30, 16 << 30)
    asked = space.request("cuda", now, None, 0.5, None)
    # when
    reasons = dict(space.account(now, asked.wanted, asked))
    # then
    assert "refused by the device" not in reasons
    assert reasons["not asked for"] > 7 << 30


def test_what_was_asked_for_and_refused_is_told_as_such() -> None:
    now = state(16 << 30, 15 << 30)
    asked = space.request("cuda", now, 8 << 30, None, None)
    reasons = dict(space.account(now, 6 << 30, asked))
    assert reasons["refused by the device"] == 2 << 30


@pytest.mark.parametrize("kind", ["cuda", "host"])
def test_room_for_the_testers_own_reports_is_kept(kind: str) -> None:
    now = state(16 << 30, 8 << 30)
    asked = space.request(kind, now, 8 << 30, None, None)
    assert space.room(kind, now, asked) <= now.free - space.OWN


def test_a_host_is_never_taken_whole() -> None:
    now = state(16 << 30, 8 << 30)
    asked = space.request("host", now, 8 << 30, None, None)
    assert space.room("host", now, asked) < 0.91 * now.free


def test_a_simulated_card_gives_nothing_to_the_tester() -> None:
    now = state(16 * MIB, 16 * MIB)
    asked = space.request("sim", now, 8 * MIB, None, None)
    assert dict(space.account(now, 8 * MIB, asked)) == {"not asked for": 8 * MIB}


def test_a_wish_to_stop_is_heeded_between_two_chunks() -> None:
    asked = iter(["", "", "stopped by Ctrl-C"])

    chunks, refused = space.allocate_chunks(lender(1 << 50), 1024 * MIB, lambda: next(asked))

    assert (len(chunks), refused) == (2, "stopped by Ctrl-C")


@pytest.mark.parametrize(("seconds", "largest"), [(0.1, 1024), (1.0, 256), (8.0, 64), (100.0, 64)])
def test_where_memory_is_long_in_coming_chunks_are_small_and_alike(seconds: float, largest: int) -> None:
    device = Lender(1 << 50, seconds=seconds / (1 << 30))

    chunks, refused = space.allocate_chunks(cast(Device, device), 16 << 30)

    assert {chunk.buffer.size for chunk in chunks} == {largest * MIB}
    assert sum(chunk.buffer.size for chunk in chunks) == 16 << 30 == (1 << 50) - device.free_bytes
    assert refused == ""


def test_a_device_that_has_too_little_for_a_trial_is_taken_as_it_is() -> None:
    chunks, refused = space.allocate_chunks(lender(48 * MIB), 1024 * MIB)

    assert sum(chunk.buffer.size for chunk in chunks) == 48 * MIB
    assert refused
