"""What single lines cost, each for itself: once from the memory and once from the cache, by one multiprocessor."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mats.device import Buffer, Device
from mats.model import AbsenceKind, Absent

from ._latency_chain import ALL_BLOCKS, LINE_WORDS, WALK_WORDS, Flusher, Garbled, Region, deliver, draw_order

LINES = 4096
"""So many lines are sampled, as far as the memory has them."""
GROUPS = 64
"""They lie in so many regions at most, each with a chain of its own."""
ROUNDS = 5
FEWEST_ROUNDS = 3
"""A line with fewer times of each kind says nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the number of its region, and what it took in each round, in ticks of the multiprocessor's clock.

    ``cold``: from the memory; ``hit``: from the cache, asked for again at once.
    """

    region: int
    cold: tuple[int, ...]
    hit: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """``wrong``: walks that ended elsewhere than they were laid."""

    lines: tuple[Line, ...]
    wrong: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Lines of one region in the order in which they are walked; ``first`` is the index of the first of them."""

    region: int
    first: int
    order: tuple[int, ...]


def sample_lines(
    device: Device,
    flusher: Flusher,
    regions: Sequence[Region],
    among: Sequence[int],
    unit: int,
    draw: random.Random,
    stopping: Callable[[], str],
) -> Sample | Absent:
    """Times lines of the regions ``among`` on multiprocessor ``unit``. Raises DeviceError.

    Every line is timed once in each round, so that what changes from round to round meets all alike.
    """
    groups = _draw_groups(regions, among, draw)
    if not groups:
        return Absent(AbsenceKind.NOT_TESTED, "no region is left to sample lines of")
    timer = _Timer(device, flusher, regions, groups, unit)
    try:
        timer.lay()
        for turn in range(ROUNDS):
            if why := stopping():
                return Absent(AbsenceKind.NOT_TESTED, why)
            timer.time_all(turn, draw.sample(range(len(groups)), len(groups)))
        return timer.read()
    except Garbled as error:
        return Absent(AbsenceKind.UNREADABLE, str(error))
    finally:
        timer.close()


def _draw_groups(regions: Sequence[Region], among: Sequence[int], draw: random.Random) -> tuple[_Group, ...]:
    chosen = sorted(draw.sample(list(among), min(GROUPS, len(among))))
    groups: list[_Group] = []
    first = 0
    for region in chosen:
        size = regions[region].buffer.size
        order = draw_order(size, min(LINES // len(chosen), size // 8 // LINE_WORDS // 2), draw)
        groups.append(_Group(region, first, order))
        first += len(order)
    return tuple(groups)


class _Timer:
    """The chains of a sample and the buffers that their times go to."""

    def __init__(
        self, device: Device, flusher: Flusher, regions: Sequence[Region], groups: Sequence[_Group], unit: int
    ) -> None:
        self._device, self._flusher, self._regions, self._groups = device, flusher, regions, groups
        self._unit = unit
        self._count = sum(len(group.order) for group in groups)
        self._order = device.allocate(self._count * 8)
        self._times = device.allocate(2 * ROUNDS * self._count * 8)
        self._walks = device.allocate(2 * ROUNDS * len(groups) * WALK_WORDS * 8)

    def lay(self) -> None:
        """The chains. Raises Garbled, DeviceError."""
        words = [word for group in self._groups for word in group.order]
        deliver(self._device, self._order, struct.pack(f"<{len(words)}Q", *words))
        self._device.copy(self._walks, bytes(self._walks.size))
        for group in self._groups:
            self._device.launch(
                "lay_chain",
                1,
                data=self._regions[group.region].buffer,
                stride_words=0,
                order=self._piece(group),
                lines=len(group.order),
            )

    def close(self) -> None:
        for buffer in (self._order, self._times, self._walks):
            self._device.free(buffer)

    def _piece(self, group: _Group) -> Buffer:
        return Buffer(self._order.address + group.first * 8, len(group.order) * 8)

    def time_all(self, turn: int, sequence: Sequence[int]) -> None:
        """A round: each line from the memory, and once more from the cache.

        Where the cache can only be passed as a whole, once is enough: no two groups have a line in common.
        """
        for place, index in enumerate(sequence):
            group = self._groups[index]
            if place == 0 or self._flusher.by_line:
                self._flusher.flush(self._regions[group.region].buffer, self._piece(group), len(group.order))
            for again in (0, 1):
                self._walk(index, 2 * turn + again)

    def _walk(self, index: int, row: int) -> None:
        group = self._groups[index]
        region = self._regions[group.region].buffer
        walk = self._walks.address + (row * len(self._groups) + index) * WALK_WORDS * 8
        times = self._times.address + (row * self._count + group.first) * 8
        self._device.launch(
            "time_hops",
            ALL_BLOCKS,
            data=region,
            mask=region.size // 8 - 1,
            start=group.order[0],
            hops=len(group.order),
            pages=max(1, region.size // (2 << 20)),
            unit=self._unit,
            times=Buffer(times, len(group.order) * 8),
            walk=Buffer(walk, WALK_WORDS * 8),
        )

    def read(self) -> Sample:
        """What was timed; walks that found no block on the multiprocessor, or ended elsewhere, are left out."""
        times, walks = self._words(self._times), self._words(self._walks)
        lines: list[Line] = []
        wrong = 0
        for index, group in enumerate(self._groups):
            rows: tuple[list[int], list[int]] = ([], [])
            for row in range(2 * ROUNDS):
                report = (row * len(self._groups) + index) * WALK_WORDS
                landed, end = walks[report], walks[report + 3]
                if landed and end == group.order[0]:
                    rows[row % 2].append(row * self._count + group.first)
                wrong += bool(landed) and end != group.order[0]
            if min(len(row) for row in rows) < FEWEST_ROUNDS:
                continue
            cold, hit = rows
            lines += (
                Line(group.region, tuple(times[at + line] for at in cold), tuple(times[at + line] for at in hit))
                for line in range(len(group.order))
            )
        return Sample(tuple(lines), wrong)

    def _words(self, buffer: Buffer) -> tuple[int, ...]:
        return struct.unpack(f"<{buffer.size // 8}Q", self._device.fetch(buffer, 0, buffer.size))
