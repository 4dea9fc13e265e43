"""A host's own memory: copies by size, and from each node's processors to each node's memory. Only informs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from mats.device import Buffer, Device, DeviceError, MemoryNode, NodeDevice, OutOfMemory
from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Chart,
    Column,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Table,
    Unit,
)

from ._latency_chain import LINES, TILE, Flusher, Region, Track, draw_order

SIZES = tuple(4096 << 2 * step for step in range(9))
"""4 KiB to 256 MiB."""
SHARE = 16
"""A copy is of at most this part of the free memory, and so is what is read on a node."""
SAMPLES = 7
SAMPLE_SECONDS = 2e-3
"""A sample is of so many copies in a row that the call that starts them does not count."""
MOST_REPEATS = 1000
NODE_SIZE = 64 << 20
WALKS = 5
_SECOND, _BYTE, _SPEED, _COUNT = Unit.SECOND, Unit.BYTE, Unit.BYTE_PER_SECOND, Unit.COUNT


@dataclass(frozen=True, slots=True)
class Pair:
    """From the processors of one node to the memory of another: seconds of one load, and bytes read a second."""

    processors: int
    memory: int
    latency: Reading
    bandwidth: Reading


@dataclass(frozen=True, slots=True)
class HostMemory:
    """``copies``: size in bytes and the seconds of a copy. ``nodes``: those with memory; ``pairs``: where several."""

    copies: tuple[tuple[int, tuple[float, ...]], ...]
    nodes: tuple[MemoryNode, ...]
    pairs: tuple[Pair, ...]


def measure_host(
    device: Device, flusher: Flusher, seed: int, stopping: Callable[[], str], progress: Callable[[float, str], None]
) -> HostMemory | None:
    """What a host tells of its memory; None of a device that has no nodes of its own. Raises DeviceError."""
    if not isinstance(device, NodeDevice):
        return None
    progress(0.0, "copying memory of the host")
    copies = _copy(device, stopping)
    nodes = device.nodes()
    pairs = []
    for number, (near, on) in enumerate((near, on) for near in nodes for on in nodes if len(nodes) > 1):
        if stopping():
            break
        progress((1 + number) / (1 + len(nodes) ** 2), f"reading node {on.number} from node {near.number}")
        pairs.append(_read(device, flusher, near, on, seed))
    return HostMemory(copies, nodes, tuple(pairs))


def _copy(device: Device, stopping: Callable[[], str]) -> tuple[tuple[int, tuple[float, ...]], ...]:
    sizes = [size for size in SIZES if size <= device.memory().free // SHARE]
    if not sizes:
        return ()
    try:
        ends = [device.allocate(sizes[-1]), device.allocate(sizes[-1])]
    except OutOfMemory:
        return ()
    found = []
    for size in sizes:
        if stopping():
            break
        here, there = (Buffer(end.address, size) for end in ends)
        one = device.copy(there, here)
        repeats = max(1, min(MOST_REPEATS, int(SAMPLE_SECONDS / max(one, 1e-9))))
        times = tuple(device.copy(there, here, repeats=repeats) / repeats for _ in range(SAMPLES))
        found.append((size, times))
    for end in ends:
        device.free(end)
    return tuple(found)


def _read(device: Device, flusher: Flusher, near: MemoryNode, on: MemoryNode, seed: int) -> Pair:
    """One pair of nodes; where it cannot be had, the reason stands for its figures."""

    def missing(why: str) -> Pair:
        absent = Absent(AbsenceKind.NOT_SUPPORTED, why)
        return Pair(near.number, on.number, absent, absent)

    assert isinstance(device, NodeDevice)
    if not near.processors:
        return missing("the node has no processors")
    if on.free < SHARE * NODE_SIZE:
        return missing("too little of the node's memory is free")
    try:
        with device.placed(near.number, on.number):
            buffer = device.allocate(NODE_SIZE)
            try:
                lies = {device.lies_on(buffer, offset) for offset in (0, NODE_SIZE // 2, NODE_SIZE - 1)}
                if lies != {on.number}:
                    return missing("the system put the memory on another node")
                return Pair(near.number, on.number, _latency(device, flusher, buffer, seed), _bandwidth(device, buffer))
            finally:
                device.free(buffer)
    except DeviceError as error:
        return missing(str(error))


def _latency(device: Device, flusher: Flusher, buffer: Buffer, seed: int) -> Reading:
    draw = random.Random(f"nodes {seed}")
    track = Track(device, flusher, (Region(buffer, 0),), draw_order(buffer.size, LINES, draw))
    try:
        walks = [walk for _ in range(WALKS) for walk in track.walk_all([0], 0) if walk]
    finally:
        track.close()
    if not walks:
        return Absent(AbsenceKind.UNREADABLE, "no chain was walked to its end")
    return Quantity(statistics.median(walk.seconds for walk in walks), _SECOND)


def _bandwidth(device: Device, buffer: Buffer) -> Reading:
    sink = device.allocate(64)
    try:
        times = [device.launch("read_sweep", buffer.size // TILE, data=buffer, sink=sink) for _ in range(SAMPLES)]
    finally:
        device.free(sink)
    return Quantity(buffer.size / statistics.median(times), _SPEED)


def observe_host(seen: HostMemory | None) -> Observation:
    """Measurements and tables of a host; nothing of another device."""
    if seen is None:
        return Observation()
    measurements = [_copied(seen), Measurement("latency.nodes", Quantity(len(seen.nodes), _COUNT))]
    for pair in seen.pairs:
        labels = (("processors", str(pair.processors)), ("memory", str(pair.memory)))
        walks = f"median of {WALKS} walks"
        measurements.append(Measurement("latency.node_memory", pair.latency, labels, walks))
        measurements.append(Measurement("latency.node_bandwidth", pair.bandwidth, labels, f"median of {SAMPLES} reads"))
    notes = ("The host has one memory node: there is no other to compare it with.",) if len(seen.nodes) == 1 else ()
    if not seen.nodes:
        notes = ("The system does not tell which memory nodes the host has.",)
    tables = tuple(table for table in (_copies(seen), _pairs(seen)) if table.rows)
    return Observation(tuple(measurements), tables, notes=notes)


def _copied(seen: HostMemory) -> Measurement:
    reading: Reading = Absent(AbsenceKind.NOT_TESTED, "no memory was copied")
    statistic = ""
    if seen.copies:
        size, times = seen.copies[-1]
        reading, statistic = Quantity(size / statistics.median(times), _SPEED), f"median of {len(times)}"
    method = "of the largest copy within the memory, by one processor: each byte is read and written"
    return Measurement("latency.copy_bandwidth", reading, statistic=statistic, method=method)


def _copies(seen: HostMemory) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for size, times in seen.copies:
        middle = statistics.median(times)
        off = statistics.median(abs(time - middle) for time in times)
        rows.append((size, middle, off, size / middle))
    columns = (
        Column("bytes", _BYTE),
        Column("time", _SECOND),
        Column("deviation", _SECOND),
        Column("bandwidth", _SPEED),
    )
    chart = Chart.curve("bytes", "bandwidth", hover=("time",), log_x=True, log_y=True)
    return Table(
        "memory_copies", "Copies within the host's memory by size, by one processor", columns, tuple(rows), chart
    )


def _pairs(seen: HostMemory) -> Table:
    def cell(reading: Reading) -> Cell:
        return reading.value if isinstance(reading, Quantity) else reading

    rows = tuple(
        (str(pair.processors), str(pair.memory), cell(pair.latency), cell(pair.bandwidth)) for pair in seen.pairs
    )
    columns = (Column("processors"), Column("memory"), Column("latency", _SECOND), Column("bandwidth", _SPEED))
    title = "From the processors of each node to the memory of each"
    return Table("nodes", title, columns, rows, Chart.matrix("processors", "memory", "latency"))
