"""The simulated clock: a walk over a chain takes the time of the caches it finds and of the faults in its way."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mats.device import Buffer
from mats.devices._plans import built_in
from mats.devices.host import HostDevice
from mats.devices.sim import SimDevice

MIB = 1 << 20
REGION = 256 << 10
LINES = 512


@dataclass(frozen=True, slots=True)
class Walk:
    claimed: int
    cycles: int
    nanoseconds: int
    end: int


@dataclass(slots=True)
class Track:
    """A chain in each region of a piece of memory, and the buffers that its walks need."""

    device: SimDevice | HostDevice
    data: Buffer
    order: tuple[int, ...]
    report: Buffer
    sweep: Buffer
    sink: Buffer

    def flush(self) -> None:
        self.device.launch("read_sweep", self.sweep.size >> 16, data=self.sweep, sink=self.sink)

    def undisturbed(self, region: int) -> Walk:
        """The quickest of three walks: one in a hundred shares its multiprocessor with something else."""
        return min((self.walk(region) for _ in range(3)), key=lambda walk: walk.cycles)

    def walk(self, region: int, *, ahead: int = 0, near: int = 0, unit: int = 0, flush: bool = True) -> Walk:
        if flush:
            self.flush()
        self.device.copy(self.report, bytes(64))
        piece = Buffer(self.data.address + region * REGION, REGION)
        self.device.launch(
            "walk_chain",
            64,
            data=piece,
            mask=REGION // 8 - 1,
            start=self.order[0],
            ahead=ahead,
            hops=LINES,
            pages=1,
            unit=unit,
            near=near,
            walk=self.report,
        )
        return Walk(*struct.unpack("<4Q", self.device.fetch(self.report, 0, 32)))


def track(device: SimDevice | HostDevice, size: int) -> Track:
    lines = random.Random(5).sample(range(1, REGION // 128), LINES)
    order = tuple(line * 16 for line in lines)
    data, orders, report = device.allocate(size), device.allocate(LINES * 8), device.allocate(64)
    device.copy(orders, struct.pack(f"<{LINES}Q", *order))
    device.launch("lay_chain", size // REGION, data=data, stride_words=REGION // 8, order=orders, lines=LINES)
    return Track(device, data, order, report, device.allocate(576 << 10), device.allocate(8))


@pytest.fixture
def card() -> Iterator[Track]:
    device = SimDevice(built_in("healthy", capacity=8 * MIB))
    yield track(device, 8 * MIB)
    device.close()


def test_a_walk_ends_where_it_began_after_a_whole_round(card: Track) -> None:
    walk = card.walk(3)
    assert (walk.claimed, walk.end) == (1, card.order[0])


def test_only_the_wanted_multiprocessor_walks(card: Track) -> None:
    assert card.walk(0, unit=99) == Walk(0, 0, 0, 0)


def test_the_caches_are_told_apart_by_time(card: Track) -> None:
    # when
    memory = card.undisturbed(0).cycles / LINES
    cache = card.walk(0, flush=False).cycles / LINES
    # the nearest cache holds 16 KiB: a round of 64 KiB is not in it
    near = card.walk(0, ahead=LINES, near=1, flush=False).cycles / LINES
    # then
    assert 500 < memory < 900
    assert 200 < cache < 400
    assert near == pytest.approx(cache, rel=0.2)


def test_nanoseconds_and_cycles_are_of_one_clock(card: Track) -> None:
    walk = card.walk(1)
    assert walk.cycles / walk.nanoseconds == pytest.approx(1.5, rel=0.01)


def test_a_walk_takes_its_time_on_the_devices_clock(card: Track) -> None:
    before = card.device.now()
    walk = card.walk(1)
    assert card.device.now() - before > walk.nanoseconds / 1e9


def test_a_slow_page_is_slow_where_it_is_and_its_data_are_whole() -> None:
    # given
    device = SimDevice(built_in("slow_region", capacity=8 * MIB))
    slow = track(device, 8 * MIB)
    # when
    walks = [slow.undisturbed(region) for region in range(8 * MIB // REGION)]
    device.close()
    # then
    fast = sorted(walk.cycles for walk in walks)[len(walks) // 2]
    late = [region for region, walk in enumerate(walks) if walk.cycles > 1.3 * fast]
    pages = {region * REGION // (2 * MIB) for region in late}
    assert len(pages) == 1 and len(late) == 2 * MIB // REGION
    assert all(walk.end == slow.order[0] for walk in walks)


def test_a_slow_channel_is_slow_everywhere_alike() -> None:
    # given
    device = SimDevice(built_in("slow_channel", geometry="gddr6-128", capacity=8 * MIB))
    slow = track(device, 8 * MIB)
    # when
    walks = sorted(slow.undisturbed(region).cycles for region in range(8 * MIB // REGION))
    device.close()
    # then: an eighth of the lines answers 1.47 times as late, in each region
    assert walks[-1] < 1.1 * walks[len(walks) // 2]


def test_a_host_walks_on_its_own_clock() -> None:
    # given
    device = HostDevice(workers=2)
    here = track(device, 4 * MIB)
    # when
    walk = here.walk(2, unit=1, ahead=LINES)
    device.close()
    # then
    assert (walk.claimed, walk.end) == (1, here.order[0])
    assert 0 < walk.nanoseconds / LINES < 10_000
