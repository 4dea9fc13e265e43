"""Copies between the device and the host, of many sizes, both ways, from pinned memory and from other; never a verdict.

The link is read while copies run: at rest it slows down. Its counters are read before the first copy and after the
last.
"""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from mats.device import Buffer, Device, DeviceError, DeviceLost, HostBuffer, HostLink, OutOfMemory
from mats.model import AbsenceKind, Absent

from ._latency_transfer_check import TILE, Arrival, Checker
from ._latency_transfer_fit import fastest

SIZES = tuple(4096 << 2 * step for step in range(10))
"""4 KiB to 1 GiB."""
LEAST_LARGEST = 1 << 20
"""Where no copy of this size can be made, nothing is measured: there would be no speed, only starts."""
SHARE = 16
"""The largest copy is at most this part of the device's free memory."""
SAMPLES, FEWEST_SAMPLES = 20, 5
SIZE_SECONDS = 0.25
"""After so long a size has enough samples, once it has the fewest."""
LARGEST_SECONDS = 1.0
"""A size whose fewest samples would take longer ends the sweep of a way."""
LOAD_SECONDS = 1.0
"""For how long the link is kept busy while it is read; a GPU at rest needs some tenths of it to speed up."""
ROUND_SECONDS = 0.1
MOST_REPEATS, MOST_ROUNDS = 10_000, 1000
LOOK_SECONDS = 0.02

TO_DEVICE, FROM_DEVICE = "to device", "from device"
PINNED, PAGEABLE = "pinned", "pageable"


@dataclass(frozen=True, slots=True)
class Way:
    """``memory``: what the host's end is. Labels of measurements, and the name of a curve."""

    direction: str
    memory: str

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        return (("direction", self.direction), ("memory", self.memory))

    @property
    def name(self) -> str:
        return f"{self.direction}, {self.memory}"


@dataclass(frozen=True, slots=True)
class Point:
    """The seconds that single copies of one size took."""

    size: int
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """How the link was while copies ran, for how long, and how many bytes went over it meanwhile."""

    link: HostLink
    seconds: float
    copied: int


@dataclass(slots=True)
class Transfers:
    """What was seen. ``absent``: kinds of host memory that could not be had. ``partial``: why it ended early."""

    idle: HostLink
    points: dict[Way, list[Point]] = field(default_factory=dict)
    arrivals: dict[Way, Arrival | Absent] = field(default_factory=dict)
    absent: dict[str, Absent] = field(default_factory=dict)
    load: Load | None = None
    after: HostLink | None = None
    seconds: float = 0.0
    partial: str = ""


def measure_transfers(
    device: Device, stopping: Callable[[], str], progress: Callable[[float, str], None]
) -> Transfers | Absent:
    """Measures the ways between the device and the host; what it takes it gives back. Raises DeviceLost.

    Absent where the device refuses: what else was measured on it stands. ``progress`` is told the share that is done
    and what is going on.
    """
    try:
        return _measure(device, stopping, progress)
    except DeviceLost:
        raise
    except DeviceError as error:
        return Absent(AbsenceKind.UNREADABLE, f"copies between the device and the host: {error}")


def _measure(device: Device, stopping: Callable[[], str], progress: Callable[[float, str], None]) -> Transfers | Absent:
    idle = device.host_link()
    if not idle.kind:
        return idle.bandwidth if isinstance(idle.bandwidth, Absent) else _nothing("the device is the host")
    there = _allocate(device)
    if there is None:
        return _nothing("there is too little free memory on the device for a copy that shows a speed")
    try:
        return _Measuring(device, stopping, progress, there, Transfers(idle)).run()
    finally:
        device.free(there)


def _nothing(why: str) -> Absent:
    return Absent(AbsenceKind.INSUFFICIENT, why)


def _allocate(device: Device) -> Buffer | None:
    """The device's end of the largest copy that its free memory allows."""
    room = device.memory().free // SHARE
    for size in reversed([size for size in SIZES if LEAST_LARGEST <= size <= room]):
        try:
            return device.allocate(size)
        except OutOfMemory:
            continue
    return None


class _Measuring:
    """One measurement: holds what its steps share."""

    def __init__(
        self,
        device: Device,
        stopping: Callable[[], str],
        progress: Callable[[float, str], None],
        there: Buffer,
        seen: Transfers,
    ) -> None:
        self._device, self._stopping, self._progress = device, stopping, progress
        self._there, self._seen = there, seen

    def run(self) -> Transfers:
        seen, device = self._seen, self._device
        began = device.now()
        for memory in (PINNED, PAGEABLE):
            here = self._take(memory)
            if isinstance(here, Absent):
                seen.absent[memory] = here
                continue
            try:
                self._work(here, memory)
            finally:
                device.free(here)
            if seen.partial:
                break
        seen.after = device.host_link()
        seen.seconds = device.now() - began
        return seen

    def _take(self, memory: str) -> HostBuffer | Absent:
        """The host's end of the largest copy that can be had."""
        refused = "none was asked for"
        for size in reversed([size for size in SIZES if LEAST_LARGEST <= size <= self._there.size]):
            try:
                return self._device.allocate_host(size, pinned=memory == PINNED)
            except OutOfMemory as error:
                refused = str(error)
        return Absent(AbsenceKind.INSUFFICIENT, f"{memory} memory of the host: {refused}")

    def _work(self, here: HostBuffer, memory: str) -> None:
        """Everything that is done with one piece of host memory."""
        if self._seen.load is None:
            self._seen.load = self._keep_busy(here)
        for turn, direction in enumerate((TO_DEVICE, FROM_DEVICE)):
            way = Way(direction, memory)
            share = (2 * (memory == PAGEABLE) + turn) / 4
            self._sweep(way, here, share)
            if self._seen.partial:
                return
        self._check(here, memory)

    # ---- the link under load ----

    def _keep_busy(self, here: HostBuffer) -> Load:
        """Copies both ways in turn while the link is read beside them; the fastest reading counts."""
        device = self._device
        size = min(here.size, self._there.size)
        ends = (Buffer(self._there.address, size), HostBuffer(here.address, size, here.pinned))
        one = device.copy(*ends)
        repeats = max(1, min(MOST_REPEATS, round(ROUND_SECONDS / max(one, 1e-9))))
        links, began, copied = [], device.now(), 0
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="copies") as pool:
            for turn in itertools.count():
                self._progress(0.0, "reading the link while copies keep it busy")
                source, destination = (ends[1], ends[0]) if turn % 2 == 0 else (ends[0], ends[1])
                running = pool.submit(device.copy, destination, source, repeats=repeats)
                while not running.done():
                    links.append(device.host_link())
                    concurrent.futures.wait((running,), timeout=LOOK_SECONDS)
                running.result()
                copied += size * repeats
                links.append(device.host_link())
                self._seen.partial = self._stopping()
                if self._seen.partial or device.now() - began >= LOAD_SECONDS or turn >= MOST_ROUNDS:
                    break
        best = fastest(links)
        assert best is not None
        return Load(best, device.now() - began, copied)

    # ---- time by size ----

    def _sweep(self, way: Way, here: HostBuffer, share: float) -> None:
        points = self._seen.points.setdefault(way, [])
        sizes = [size for size in SIZES if size <= min(here.size, self._there.size)]
        self._copy(way, here, sizes[0])  # the first copy of a way may set something up
        for number, size in enumerate(sizes):
            self._seen.partial = self._stopping()
            if self._seen.partial or _too_long(points, size):
                return
            words = f"copying {_words(size)} {way.direction}, {way.memory} memory"
            self._progress(share + number / len(sizes) / 4, words)
            points.append(self._sample(way, here, size))

    def _sample(self, way: Way, here: HostBuffer, size: int) -> Point:
        times: list[float] = []
        while len(times) < SAMPLES:
            times.append(self._copy(way, here, size))
            if len(times) >= FEWEST_SAMPLES and sum(times) >= SIZE_SECONDS:
                break
        return Point(size, tuple(times))

    def _copy(self, way: Way, here: HostBuffer, size: int) -> float:
        there, piece = Buffer(self._there.address, size), HostBuffer(here.address, size, here.pinned)
        if way.direction == TO_DEVICE:
            return self._device.copy(there, piece)
        return self._device.copy(piece, there)

    # ---- the data ----

    def _check(self, here: HostBuffer, memory: str) -> None:
        size = min(here.size, self._there.size) // TILE * TILE
        checker = Checker(self._device, Buffer(self._there.address, size))
        try:
            self._seen.arrivals[Way(TO_DEVICE, memory)] = checker.to_device(here)
            self._seen.arrivals[Way(FROM_DEVICE, memory)] = checker.from_device(here)
        finally:
            checker.close()


def _too_long(points: list[Point], size: int) -> bool:
    """Whether even the fewest samples of a size would take too long, by what the last one took for each byte."""
    if not points:
        return False
    last = points[-1]
    return FEWEST_SAMPLES * min(last.times) * size / last.size > LARGEST_SECONDS


def _words(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"
