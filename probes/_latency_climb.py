"""The ladder of caches: how long one load takes, by how much memory the loads go to. One multiprocessor climbs it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from mats.device import Buffer, Device, OutOfMemory
from mats.model import AbsenceKind, Absent, TargetInfo

from ._latency_chain import ALL_BLOCKS, PAGE_WORDS, WALK_WORDS, Flusher, Garbled, cache_of, deliver

SMALLEST = 2 << 10
LEAST_TOP, MOST_TOP = 256 << 20, 1 << 30
"""The largest working set is of eight last caches, and within these, where so much can be had."""
NEAR = 256 << 10
"""So small sets are loaded through the nearest cache: none is larger. Beyond it the two ways cost the same."""
HOPS = 4096
WALKS, NEAR_WALKS = 7, 11
"""The fastest of so many counts: whatever disturbs a walk makes it longer."""
LARGEST_RING = 4 << 20
"""Lines of the longest chain that is laid and walked once around: of half a GiB."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A working set in bytes, and what one load in it takes in the fastest of ``walks`` walks."""

    size: int
    seconds: float
    cycles: float
    walks: int


def climb(
    device: Device, flusher: Flusher, info: TargetInfo, unit: int, seed: int, stopping: Callable[[], str]
) -> tuple[Rung, ...] | Absent:
    """Rungs from 2 KiB to beyond the last cache, two for each doubling. Raises DeviceError."""
    data = _allocate(device, cache_of(info))
    if data is None:
        return Absent(AbsenceKind.INSUFFICIENT, "there is too little free memory for a working set beyond the caches")
    climber = Climber(device, flusher, data, cache_of(info), 8 if info.kind == "host" else 16, unit)
    rungs: list[Rung] = []
    try:
        size = SMALLEST
        while size <= data.size:
            for each in (size, size * 3 // 2):
                if why := stopping():
                    return Absent(AbsenceKind.NOT_TESTED, why)
                if each <= data.size and (rung := climber.stand(each, seed)):
                    rungs.append(rung)
            size *= 2
    except Garbled as error:
        return Absent(AbsenceKind.UNREADABLE, str(error))
    finally:
        climber.close()
        device.free(data)
    return tuple(rungs) or Absent(AbsenceKind.UNREADABLE, "no walk over a working set came to its end")


def _allocate(device: Device, cache: int) -> Buffer | None:
    """A power of two; None where less than twice the cache can be had."""
    wanted = min(max(8 * cache, LEAST_TOP), MOST_TOP)
    size = 1 << (wanted - 1).bit_length()
    while size > device.memory().free // 2:
        size //= 2
    while size >= max(2 * cache, PAGE_WORDS * 8):
        try:
            return device.allocate(size)
        except OutOfMemory:
            size //= 2
    return None


class Climber:
    """The memory that is climbed on; ``words`` is what a line has."""

    def __init__(self, device: Device, flusher: Flusher, data: Buffer, cache: int, words: int, unit: int) -> None:
        self._device, self._flusher, self._data = device, flusher, data
        self._cache, self._words, self._unit = cache, words, unit
        ring = min(2 * cache // (words * 8), LARGEST_RING)
        self._order = device.allocate(max(ring, HOPS) * 8)
        self._walk = device.allocate(WALK_WORDS * 8)

    def close(self) -> None:
        self._device.free(self._order)
        self._device.free(self._walk)

    def stand(self, size: int, seed: int) -> Rung | None:
        """What a load within ``size`` bytes takes; None where no walk came to its end. Raises Garbled, DeviceError.

        Up to twice the last cache every line of the set is in the chain, and it is walked once around before it is
        timed, so that each cache holds what it can of it. Beyond, lines all over the set are put out of the caches.
        """
        lines = size // (self._words * 8)
        kept = size <= 2 * self._cache and lines <= LARGEST_RING
        order = self._lay_ring(lines, seed) if kept else self._lay_sparse(size, seed)
        near = size <= NEAR
        at, found = 0, []
        for turn in range(NEAR_WALKS if near else WALKS):
            ahead = len(order) if kept and (near or turn == 0) else 0
            if not kept:
                self._flusher.flush(self._data, Buffer(self._order.address, len(order) * 8), len(order))
            hops = HOPS if kept else len(order)
            walked = self._step(order[at], ahead, hops, near, size)
            at = (at + ahead + hops) % len(order)
            if walked is not None and walked[2] == order[at]:
                found.append(walked)
        if not found:
            return None
        return Rung(
            size, min(ns for _, ns, _ in found) / hops / 1e9, min(ticks for ticks, _, _ in found) / hops, len(found)
        )

    def _lay_ring(self, lines: int, seed: int) -> memoryview:
        """All lines of the set, in an order drawn at random."""
        import numpy

        order = numpy.random.default_rng(seed ^ lines).permutation(lines).astype("<u8") * self._words
        return self._lay(order.tobytes())

    def _lay_sparse(self, size: int, seed: int) -> memoryview:
        """One line in each equal share of the set, never the first of a page: that one warms the translation."""
        import numpy

        draw = numpy.random.default_rng(seed ^ size)
        lines = size // (self._words * 8)
        count = min(HOPS, lines // 2)
        chosen = ((numpy.arange(count) + draw.random(count)) * (lines / count)).astype("<u8")
        chosen += chosen * self._words % PAGE_WORDS == 0
        return self._lay((draw.permutation(numpy.unique(chosen)) * self._words).astype("<u8").tobytes())

    def _lay(self, order: bytes) -> memoryview:
        deliver(self._device, self._order, order)
        lines = len(order) // 8
        piece = Buffer(self._order.address, len(order))
        self._device.launch("lay_chain", 1, data=self._data, stride_words=0, order=piece, lines=lines)
        return memoryview(order).cast("Q")

    def _step(self, start: int, ahead: int, hops: int, near: bool, size: int) -> tuple[int, int, int] | None:
        """Cycles, nanoseconds and the end of one walk; None where no block was on the multiprocessor."""
        self._device.copy(self._walk, bytes(self._walk.size))
        self._device.launch(
            "walk_chain",
            ALL_BLOCKS,
            data=self._data,
            mask=self._data.size // 8 - 1,
            start=start,
            ahead=ahead,
            hops=hops,
            pages=max(1, size // (2 << 20)),
            unit=self._unit,
            near=int(near),
            walk=self._walk,
        )
        claimed, cycles, nanoseconds, end = struct.unpack("<4Q", self._device.fetch(self._walk, 0, 32))
        return (cycles, nanoseconds, end) if claimed else None
