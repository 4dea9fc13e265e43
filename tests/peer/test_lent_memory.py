"""Memory of simulated cards as another process opens it, and the two cards joined."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from mats.device import Buffer, Device, DeviceError, DeviceLost
from mats.devices._library import allocate, release
from mats.devices._sim_ipc import open_family
from mats.devices._sim_lending import SimLending
from mats.fabric import Copy, Fabric
from mats.probe import UsageError
from mats.target import Target

from .bench import refuse
from .side import lent_memory

SIZE = 4 << 20


@pytest.fixture
def buffer() -> Iterator[Buffer]:
    """Memory as a simulated card has it, holding a value."""
    address, _ = allocate(SIZE)
    ctypes.memset(address, 0x11, SIZE)
    yield Buffer(address, SIZE)
    release(address, SIZE)


def first_byte(buffer: Buffer) -> int:
    return ctypes.string_at(buffer.address, 1)[0]


def test_opened_memory_is_the_same_memory(buffer: Buffer) -> None:
    ours, theirs = SimLending(), SimLending()
    opened = theirs.open(ours.export(buffer), SIZE)
    before = first_byte(opened)

    ctypes.memset(opened.address, 0x22, 1)
    ctypes.memset(buffer.address + SIZE - 1, 0x33, 1)

    assert opened.address != buffer.address
    assert (before, first_byte(buffer)) == (0x11, 0x22)
    assert ctypes.string_at(opened.address + SIZE - 1, 1) == b"\x33"
    theirs.close(opened)
    ours.withdraw(buffer)


def test_a_piece_of_lent_memory_is_opened_at_its_place(buffer: Buffer) -> None:
    ours, theirs = SimLending(), SimLending()
    ours.export(buffer)
    ctypes.memset(buffer.address + 5000, 0x44, 1)

    piece = theirs.open(ours.export(Buffer(buffer.address + 5000, 16)), 16)

    assert first_byte(piece) == 0x44
    theirs.close(piece)
    ours.withdraw(buffer)


def test_memory_stays_with_its_owner_after_it_was_lent(buffer: Buffer) -> None:
    ours, theirs = SimLending(), SimLending()
    opened = theirs.open(ours.export(buffer), SIZE)
    theirs.close(opened)

    ours.withdraw(buffer)

    assert ctypes.string_at(buffer.address, SIZE) == b"\x11" * SIZE
    assert lent_memory() == 1  # the mapping, which goes with the allocation; no open file


def test_nothing_is_left_when_the_allocation_is_freed() -> None:
    address, _ = allocate(SIZE)
    ours = SimLending()
    ours.export(Buffer(address, SIZE))
    ours.withdraw(Buffer(address, SIZE))

    release(address, SIZE)

    assert lent_memory() == 0


def test_two_loans_do_not_overlap(buffer: Buffer) -> None:
    ours = SimLending()
    ours.export(Buffer(buffer.address, 2 << 20))

    with pytest.raises(DeviceError, match="is lent already"):
        ours.export(buffer)
    ours.withdraw(Buffer(buffer.address, 2 << 20))


def test_memory_whose_loan_has_ended_is_not_opened(buffer: Buffer) -> None:
    ours = SimLending()
    handle = ours.export(buffer)
    ours.withdraw(buffer)

    with pytest.raises(DeviceError, match=f"process {os.getpid()} lent cannot be opened: No such file"):
        SimLending().open(handle, SIZE)


@pytest.mark.parametrize("changed", [{"inode": 1}, {"offset": SIZE}])
def test_a_handle_that_names_other_memory_is_refused(buffer: Buffer, changed: dict[str, int]) -> None:
    ours = SimLending()
    handle = json.dumps({**json.loads(ours.export(buffer)), **changed}).encode()

    with pytest.raises(DeviceError, match="is not what its handle says"):
        SimLending().open(handle, SIZE)
    ours.withdraw(buffer)


@pytest.mark.parametrize("handle", [b"", b"\x00" * 64, b"[1]", b'{"process": "../1"}', b'{"process": 1}'])
def test_bytes_that_are_no_handle_are_refused(handle: bytes) -> None:
    with pytest.raises(DeviceError, match="is none of a simulated device"):
        SimLending().open(handle, SIZE)


def test_memory_is_closed_once(buffer: Buffer) -> None:
    ours, theirs = SimLending(), SimLending()
    opened = theirs.open(ours.export(buffer), SIZE)
    theirs.close(opened)

    with pytest.raises(DeviceError, match="it was closed before"):
        theirs.close(opened)
    ours.withdraw(buffer)


@dataclass(frozen=True, slots=True)
class Joined:
    """Two cards as two processes have them, in one: the device of the second stands for what the channel gives.

    ``opened`` is the memory ``lent`` of the second, as the first has it; ``source`` is the first one's own.
    """

    fabric: Fabric
    other: Device
    source: Buffer
    lent: Buffer
    opened: Buffer


@contextmanager
def joined(plan: str, own_card: str, other_card: str) -> Iterator[Joined]:
    here, there = (open_family(Target("sim", plan), refuse) for _ in range(2))
    own, other = here.open_member(own_card), there.open_member(other_card)
    fabric = here.join((own.device, other.device))
    lent, source = other.device.allocate(SIZE), own.device.allocate(SIZE)
    opened = own.lending.open(other.lending.export(lent), SIZE)
    yield Joined(fabric, other.device, source, lent, opened)
    own.lending.close(opened)
    other.lending.withdraw(lent)
    fabric.close()


@pytest.mark.parametrize(("plan", "share"), [("links_healthy", 1.0), ("link_slow", 0.5)])
def test_a_way_between_processes_is_as_fast_as_the_plan_says(plan: str, share: float) -> None:
    with joined(plan, "0", "1") as cards:
        cards.fabric.connect(0, 1)

        (seconds,) = cards.fabric.exchange([Copy(0, cards.source, 1, cards.opened)], 100, 10.0)

    assert SIZE * 100 / seconds == pytest.approx(share * 4 * 14.0625e9 * 0.84, rel=0.1)


@pytest.mark.parametrize(("plan", "damaged"), [("links_healthy", False), ("link_corrupt", True)])
def test_a_way_that_corrupts_does_so_between_processes(plan: str, damaged: bool) -> None:
    with joined(plan, "2", "3") as cards:
        cards.fabric.members()[0].copy(cards.source, bytes(SIZE))
        cards.fabric.connect(0, 1)

        cards.fabric.exchange([Copy(0, cards.source, 1, cards.opened)], 1, 10.0)

        assert any(cards.other.fetch(cards.lent, 0, SIZE)) is damaged


def test_a_kernel_reaches_the_memory_of_the_other_process_once_it_is_connected() -> None:
    with joined("links_healthy", "0", "1") as cards:
        own = cards.fabric.members()[0]
        own.copy(cards.source, b"\x77" * SIZE)
        cards.fabric.connect(0, 1)

        own.launch("copy_sweep", 1, destination=cards.opened, source=cards.source)

        assert cards.other.fetch(cards.lent, 0, 64) == b"\x77" * 64
        cards.fabric.disconnect(0, 1)
        with pytest.raises(DeviceLost, match="used memory of card 1 and is not connected to it"):
            own.launch("copy_sweep", 1, destination=cards.opened, source=cards.source)


def test_a_card_of_the_server_that_answers_no_more_is_lost() -> None:
    with joined("link_silent", "3", "2") as cards:
        copies = [Copy(0, cards.source, 1, cards.opened)]
        for _ in range(3):
            cards.fabric.exchange(copies, 1, 10.0)

        with pytest.raises(DeviceLost, match="card 2 of sim:link_silent has not answered within 10 s"):
            cards.fabric.exchange(copies, 1, 10.0)


def test_a_card_is_not_joined_to_itself() -> None:
    family = open_family(Target("sim", "links_healthy"), refuse)
    own = family.open_member("1")

    with pytest.raises(DeviceError, match="card 1, which is this process' own"):
        family.join((own.device, own.device))
    own.device.close()


def test_both_processes_simulate_the_same_plan() -> None:
    here, there = (open_family(Target("sim", plan), refuse) for plan in ("links_healthy", "link_slow"))
    own, other = here.open_member("0"), there.open_member("1")

    with pytest.raises(DeviceError, match="simulates the plan link_slow, this process links_healthy"):
        here.join((own.device, other.device))
    own.device.close()
    other.device.close()


@pytest.mark.parametrize("name", ["1", "GPU-51300000-0000-4000-8000-000000000001", "0000:13:00.0", "13:00.0"])
def test_a_card_has_several_names(name: str) -> None:
    assert open_family(Target("sim", "links_healthy"), refuse).find(name).endswith("1")


def test_a_name_or_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="has no card '4': it has 0 to 3"):
        open_family(Target("sim", "links_healthy"), refuse).find("4")
    with pytest.raises(UsageError, match="sim:healthy is one card"):
        open_family(Target("sim", "healthy"), refuse)
