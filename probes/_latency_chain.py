"""Chains of dependent loads in regions of a device's memory, and walks over them from one chosen multiprocessor."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mats.device import Buffer, Device
from mats.model import Quantity, TargetInfo

from ._space import Chunk

LINE_WORDS = 16
"""Words of a line of 128 bytes, the unit in which caches are filled."""
PAGE_WORDS = (2 << 20) // 8
LINES = 2048
"""Lines of a chain: each is visited once a walk, so that no cache can answer for it."""
LARGEST_REGION = 64 << 20
SMALLEST_REGION = 256 << 10
REGIONS = 128
"""So many regions at least, where they can be that small."""
ALL_BLOCKS = 1 << 20
"""More blocks than fit on any device: one of them then runs on the wanted multiprocessor."""
WALK_WORDS = 8
TILE = 64 << 10
UNITS = 7
ATTEMPTS = 5


class Garbled(Exception):
    """A list of places did not arrive as it was sent: the link changed it. No kernel may follow such a list."""


@dataclass(frozen=True, slots=True)
class Region:
    """One piece that is timed: ``chunk`` is the number of its allocation."""

    buffer: Buffer
    chunk: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Per hop: cycles of the multiprocessor (of a host, ticks of its constant clock) and seconds."""

    cycles: float
    seconds: float


def region_size(tested: int) -> int:
    """A power of two: 64 MiB from 8 GiB on, otherwise so that there are at least 128, and no less than 256 KiB."""
    size = LARGEST_REGION
    while size > SMALLEST_REGION and size * REGIONS > tested:
        size //= 2
    return size


def regions_of(chunks: Sequence[Chunk], size: int) -> tuple[Region, ...]:
    """Every whole region within the chunks, in the order of their addresses within each."""
    return tuple(
        Region(Buffer(chunk.buffer.address + offset, size), index)
        for index, chunk in enumerate(chunks)
        for offset in range(0, chunk.buffer.size - size + 1, size)
    )


def draw_order(size: int, lines: int, draw: random.Random) -> tuple[int, ...]:
    """Word offsets of ``lines`` lines spread over a region of ``size`` bytes, in the order of a walk.

    One in each equal share of the region, never the first line of a 2 MiB page: that one warms the translation.
    """
    share = size // 8 // LINE_WORDS / lines
    chosen = []
    for index in range(lines):
        first, last = int(index * share), max(int((index + 1) * share) - 1, int(index * share))
        line = draw.randint(first, last)
        if line * LINE_WORDS % PAGE_WORDS == 0:
            line += 1
        chosen.append(line * LINE_WORDS)
    chosen = sorted(set(chosen))
    draw.shuffle(chosen)
    return tuple(chosen)


def units_of(info: TargetInfo) -> tuple[int, ...]:
    """Multiprocessors (of a host: workers) that walk, spread over the device; each region sees the same ones."""
    identity = dict(info.identity)
    count = int(identity.get("multiprocessors") or identity.get("workers") or 1)
    return tuple(dict.fromkeys(index * count // UNITS for index in range(UNITS)))


def cache_of(info: TargetInfo) -> int:
    """Bytes of the last cache before the memory; a usual size where the device does not tell."""
    return int(info.cache_size.value) if isinstance(info.cache_size, Quantity) else 64 << 20


def deliver(device: Device, buffer: Buffer, data: bytes) -> None:
    """Copy the places of a chain to the device and see that they arrived. Raises Garbled, DeviceError."""
    for _ in range(ATTEMPTS):
        device.copy(buffer, data)
        if device.fetch(buffer, 0, len(data)) == data:
            return
    raise Garbled(f"{len(data)} bytes that were copied to the device came back changed, {ATTEMPTS} times")


@dataclass(slots=True)
class Flusher:
    """Passes the cache, so that what was read before comes from the memory again."""

    device: Device
    scratch: Buffer
    sink: Buffer
    by_line: bool | None = None
    """Whether lines can be put out one by one; not known before the first try."""

    def flush(self, region: Buffer, order: Buffer, lines: int) -> None:
        if self.by_line is not False:
            self.device.launch("evict_lines", lines, data=region, order=order, done=self.sink)
            if self.by_line is None:
                self.by_line = any(self.device.fetch(self.sink, 0, 8))
        if not self.by_line:
            self.sweep()

    def sweep(self) -> None:
        self.device.launch("read_sweep", self.scratch.size // TILE, data=self.scratch, sink=self.sink)


def open_flusher(device: Device) -> Flusher:
    """Its buffers are of an odd number of tiles: on a simulated card they then lie beside the memory that is tested."""
    size = (2 * cache_of(device.describe()) // TILE + 1) * TILE
    size += TILE * (size % (2 << 20) == 0)
    flusher = Flusher(device, device.allocate(size), device.allocate(8))
    device.copy(flusher.sink, bytes(8))
    return flusher


@dataclass(slots=True)
class Track:
    """The chains that are laid, and what their walks came to. ``landed`` of ``tried`` walks found their unit."""

    device: Device
    flusher: Flusher
    regions: tuple[Region, ...]
    order: tuple[int, ...]
    tried: int = 0
    landed: int = 0
    wrong: list[int] = field(default_factory=list)
    """Regions whose chain led somewhere else, each time that was seen."""
    _order: Buffer = field(init=False)
    _reports: Buffer = field(init=False)

    def __post_init__(self) -> None:
        self._order = self.device.allocate(len(self.order) * 8)
        self._reports = self.device.allocate(len(self.regions) * WALK_WORDS * 8)
        deliver(self.device, self._order, struct.pack(f"<{len(self.order)}Q", *self.order))
        for start, count in self._runs():
            self.device.launch(
                "lay_chain",
                count,
                data=self.regions[start].buffer,
                stride_words=self.size // 8,
                order=self._order,
                lines=len(self.order),
            )

    @property
    def size(self) -> int:
        """Bytes of a region."""
        return self.regions[0].buffer.size

    def _runs(self) -> Iterator[tuple[int, int]]:
        """First region and number of those that follow one another in one chunk."""
        start = 0
        for index in range(1, len(self.regions) + 1):
            if index == len(self.regions) or self.regions[index].chunk != self.regions[start].chunk:
                yield start, index - start
                start = index

    def close(self) -> None:
        self.device.free(self._order)
        self.device.free(self._reports)

    def walk_all(self, sequence: Sequence[int], unit: int) -> list[Walk | None]:
        """One walk over each region in the given sequence; None where no block landed on the unit.

        What a walk came to is fetched when all are done. Raises DeviceError.
        """
        found: list[Walk | None] = [None] * len(self.regions)
        left = list(sequence)
        for _ in range(ATTEMPTS):
            self.device.copy(self._reports, bytes(self._reports.size))
            for index in left:
                self._walk(index, unit)
            words = struct.unpack(
                f"<{self._reports.size // 8}Q", self.device.fetch(self._reports, 0, self._reports.size)
            )
            self.tried += len(left)
            missed = []
            for index in left:
                claimed, cycles, nanoseconds, end = words[index * WALK_WORDS : index * WALK_WORDS + 4]
                if not claimed:
                    missed.append(index)
                elif end != self.order[0]:
                    self.wrong.append(index)
                else:
                    found[index] = Walk(cycles / len(self.order), nanoseconds / 1e9 / len(self.order))
            self.landed += len(left) - len(missed)
            if not missed:
                break
            left = missed
        return found

    def _walk(self, index: int, unit: int) -> None:
        region = self.regions[index].buffer
        self.flusher.flush(region, self._order, len(self.order))
        self.device.launch(
            "walk_chain",
            ALL_BLOCKS,
            data=region,
            mask=self.size // 8 - 1,
            start=self.order[0],
            ahead=0,
            hops=len(self.order),
            pages=max(1, self.size // (2 << 20)),
            unit=unit,
            near=0,
            walk=Buffer(self._reports.address + index * WALK_WORDS * 8, WALK_WORDS * 8),
        )
