"""Memory snapshots of torch (1.13 to 2.15), by pickle or JSON: what the cache holds, its map and its history.

Formats: torch's own writers, whose keys came with its versions; a list of segments (1.13) or a dictionary. Each block
of a segment follows the one before it. A segment that does not add up, a state or a type that torch does not write is
refused, since every figure would be wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mats.facts.allocator import (
    Allocator,
    BlockFacts,
    BlockState,
    CacheFacts,
    ExtentFacts,
    RefusalFacts,
    SegmentFacts,
    StuckFacts,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._snapshot_load import SIZE_MAXIMUM, SnapshotError, named, read_snapshot, shown, without_collection
from mats.sources._snapshot_trace import Stacks, Trace, read_history, read_trace

MIB = 1 << 20
SMALL_UNIT, LARGE_UNIT = 2 * MIB, 20 * MIB
"""What an expandable range is mapped and given back in (c10/cuda/CUDACachingAllocator)."""
DEVICES_MAXIMUM = 1024
_LARGEST = 1 << 63
_STATES = {
    "active_allocated": BlockState.USED,
    "active_pending_free": BlockState.PENDING,
    "active_awaiting_free": BlockState.PENDING,
    "inactive": BlockState.FREE,
}
_DEFAULT_POOL = (0, 0)


def read(path: Path, maximum: int = SIZE_MAXIMUM) -> tuple[CacheFacts, ...]:
    """One cache for each device of a snapshot file. Raises SnapshotError, OSError."""
    with without_collection():
        return parse(read_snapshot(path, maximum))


def parse(snapshot: Any) -> tuple[CacheFacts, ...]:
    """One cache for each device of a snapshot as plain data. Raises SnapshotError."""
    segments, traces = _parts(snapshot)
    writer = _writer(snapshot, segments, traces)
    settings = _settings(snapshot)
    stacks = Stacks()
    books: dict[int, _Book] = defaultdict(_Book)
    lists = [id(blocks) for segment in segments if isinstance(segment, dict) and (blocks := segment.get("blocks"))]
    if len(set(lists)) < len(lists):
        raise SnapshotError("the blocks of several segments are one list, which torch does not write: it is not read")
    for number, segment in enumerate(segments):
        device, facts = _segment(segment, number, stacks)
        books[device].add(facts)
    books |= {device: _Book() for device, trace in enumerate(traces) if trace and device not in books}
    if not books:
        raise SnapshotError("holds no segment and no event: no memory was had when it was written, or on no GPU")
    found = []
    for device, book in sorted(books.items()):
        trace = read_trace(traces[device], stacks) if device < len(traces) else None
        found.append(_cache(device, book, trace, stacks, writer, settings))
    return tuple(replace(cache, stacks=stacks.named()) for cache in found)


def _parts(snapshot: Any) -> tuple[Sequence[Any], Sequence[Sequence[Any]]]:
    """The segments, and the events by device. Lists that stand in it twice are bombs: torch writes each once."""
    if isinstance(snapshot, list):
        return snapshot, ()
    if not isinstance(snapshot, dict):
        raise SnapshotError(f"holds {named(snapshot)} and no segments: it is no memory snapshot of torch")
    if "segments" not in snapshot:
        keys = ", ".join(key[:30] if isinstance(key, str) else named(key) for key in list(snapshot)[:4]) or "nothing"
        raise SnapshotError(f"has no segments (it holds {keys}): it is no memory snapshot of torch")
    segments, traces = snapshot["segments"], snapshot.get("device_traces", [])
    if not isinstance(segments, list | tuple) or not isinstance(traces, list | tuple):
        raise SnapshotError("its segments or events are no list: it is no memory snapshot of torch")
    if len(traces) > DEVICES_MAXIMUM:
        raise SnapshotError(f"has events of {len(traces)} devices, more than any machine has: it is not read")
    for trace in traces:
        if not isinstance(trace, list | tuple):
            raise SnapshotError("its events are no list: it is no memory snapshot of torch")
    filled = [id(trace) for trace in traces if trace]
    if len(set(filled)) < len(filled):
        raise SnapshotError("the events of several devices are one list, which torch does not write: it is not read")
    return segments, traces


def _writer(snapshot: Any, segments: Sequence[Any], traces: Sequence[Sequence[Any]]) -> str:
    """Which versions of torch write what is there; the file names none."""
    if isinstance(snapshot, list):
        return "torch 1.13"
    first = next((segment for segment in segments if isinstance(segment, dict)), {})
    event = next((event for trace in traces for event in trace if isinstance(event, dict)), {})
    settings = snapshot.get("allocator_settings")
    settings = settings if isinstance(settings, dict) else {}
    newest = (
        ("2.14 or newer", "host_segments" in snapshot),
        ("2.13 or newer", "max_cached_size" in settings),
        ("2.12 or newer", "pool_id" in event),
        ("2.10 or 2.11", "user_metadata" in event),
        ("2.9 or newer", "graph_capture_record_stream_reuse" in settings),
        ("2.8 or newer", "compile_context" in event),
        ("2.4 to 2.7", "external_annotations" in snapshot and bool(event)),
        ("2.4 or newer", "external_annotations" in snapshot),
        ("2.3", bool(settings)),
        ("2.2", "time_us" in event),
        ("2.1 or newer", "segment_pool_id" in first),
    )
    return "torch " + next((version for version, there in newest if there), "2.0")


def _settings(snapshot: Any) -> tuple[tuple[str, str], ...]:
    held = snapshot.get("allocator_settings") if isinstance(snapshot, dict) else None
    if not isinstance(held, dict):
        return ()
    plain = [(key, value) for key, value in list(held.items())[:100] if isinstance(key, str)]
    return tuple(
        (key[:80], value[:200] if isinstance(value, str) else shown(value).strip("'"))
        for key, value in plain
        if isinstance(value, str | int | float)
    )


def _size(holder: Mapping[str, Any], key: str, where: str) -> int:
    value = holder.get(key)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise SnapshotError(f"{where}: its {key} is {shown(value)}, no size")
    return value


def _segment(held: Any, number: int, stacks: Stacks) -> tuple[int, SegmentFacts]:
    where = f"segment {number}"
    if not isinstance(held, dict):
        raise SnapshotError(f"{where} is {named(held)}: it is no memory snapshot of torch")
    blocks = held.get("blocks")
    if not isinstance(blocks, list | tuple):
        raise SnapshotError(f"{where} has no list of blocks: it is no memory snapshot of torch")
    device = held.get("device", 0)
    if type(device) is not int or not 0 <= device < DEVICES_MAXIMUM:
        raise SnapshotError(f"{where}: its device is {shown(device)}, no number of one")
    size = _size(held, "total_size", where)
    pieces, offset = [], 0
    for block in blocks:
        piece = _block(block, offset, where, stacks)
        pieces.append(piece)
        offset += piece.size
        if offset > size:
            break
    if offset != size:
        raise SnapshotError(f"{where}: its blocks make {offset} bytes and it has {size}: the figures would be wrong")
    kind = held.get("segment_type")
    if kind not in ("small", "large"):
        raise SnapshotError(f"{where}: its type is {shown(kind)}, neither small nor large")
    stream = held.get("stream", 0)
    if type(stream) is not int:
        raise SnapshotError(f"{where}: its stream is {named(stream)}, no number")
    return device, SegmentFacts(
        address=_size(held, "address", where),
        size=size,
        small=kind == "small",
        stream=stream,
        pool=_pool(held.get("segment_pool_id", _DEFAULT_POOL), where),
        expandable=held.get("is_expandable") is True,
        blocks=tuple(pieces),
    )


def _pool(held: Any, where: str) -> str:
    if not isinstance(held, tuple | list) or len(held) != 2 or any(type(part) is not int for part in held):
        raise SnapshotError(f"{where}: its pool is {named(held)}, no pair of numbers")
    return "" if tuple(held) == _DEFAULT_POOL else f"{held[0]}, {held[1]}"


def _block(held: Any, offset: int, where: str, stacks: Stacks) -> BlockFacts:
    if type(held) is not dict:
        raise SnapshotError(f"{where}: a block is {named(held)}: it is no memory snapshot of torch")
    said, size, frames = held.get("state"), held.get("size"), held.get("frames")
    if type(size) is not int or not 0 <= size < _LARGEST:
        raise SnapshotError(f"{where}: the size of a block is {shown(size)}, no size")
    state = _STATES.get(said) if type(said) is str else None
    if state is None:
        raise SnapshotError(f"{where}: a block's state is {shown(said)}, which torch does not write")
    asked = 0
    if state is BlockState.USED:
        if history := held.get("history"):
            asked, frames = _of_history(history, where)
        else:
            asked = _size(held, "requested_size", where) if "requested_size" in held else size
    return BlockFacts(offset, size, state, asked, stacks.number(frames) if frames else -1)


def _of_history(history: Any, where: str) -> tuple[int, Any]:
    """What was asked for, of all that share the block, and the code of the latest (torch 1.13 and 2.0)."""
    if not isinstance(history, list | tuple) or not all(isinstance(entry, dict) for entry in history):
        raise SnapshotError(f"{where}: a block's history is no list of entries")
    return sum(_size(entry, "real_size", where) for entry in history), history[-1].get("frames")


@dataclass(slots=True)
class _Book:
    """Sums over the segments of one device."""

    segments: list[SegmentFacts] = field(default_factory=list)
    used: int = 0
    asked: int = 0
    pending: int = 0
    free: int = 0
    returnable: int = 0
    other_stream: int = 0
    private_pool: int = 0
    small_pool: int = 0
    largest_free: int = 0
    largest_usable: int = 0
    largest_small: int = 0
    blocks: int = 0
    free_sizes: list[int] = field(default_factory=list)

    def add(self, segment: SegmentFacts) -> None:
        self.segments.append(segment)
        self.blocks += len(segment.blocks)
        for block in segment.blocks:
            if block.state is BlockState.USED:
                self.used += block.size
                self.asked += block.asked
            elif block.state is BlockState.PENDING:
                self.pending += block.size
            else:
                self._free(segment, block)

    def _free(self, segment: SegmentFacts, block: BlockFacts) -> None:
        self.free += block.size
        self.free_sizes.append(block.size)
        self.largest_free = max(self.largest_free, block.size)
        back = returnable(segment, block)
        self.returnable += back
        if segment.pool:
            self.private_pool += block.size
        elif segment.stream:
            self.other_stream += block.size - back
        elif segment.small:
            self.small_pool += block.size - back
            self.largest_small = max(self.largest_small, block.size)
        else:
            self.largest_usable = max(self.largest_usable, block.size)

    @property
    def tail(self) -> int:
        """The free end of the highest expandable range, as far as it does not go back with the rest."""
        ranges = [part for part in self.segments if part.expandable and not (part.pool or part.stream or part.small)]
        if not ranges:
            return 0
        last = max(ranges, key=lambda part: part.address)
        end = last.blocks[-1] if last.blocks else None
        return end.size - returnable(last, end) if end is not None and end.state is BlockState.FREE else 0


def returnable(segment: SegmentFacts, block: BlockFacts) -> int:
    """Bytes of a free block that emptying the cache gives back.

    A segment goes back when it is one free block; of an expandable one the whole units within the block do. Those of
    private pools stay while the pool's owner lives.
    """
    if segment.pool:
        return 0
    if not segment.expandable:
        return block.size if len(segment.blocks) == 1 else 0
    unit = SMALL_UNIT if segment.small else LARGE_UNIT
    first, last = -(-block.offset // unit), (block.offset + block.size) // unit
    return max(0, last - first) * unit


def extents(sizes: Sequence[int]) -> tuple[ExtentFacts, ...]:
    """Free blocks by size class, each from a power of two to the next."""
    classes: dict[int, list[int]] = defaultdict(list)
    for size in sizes:
        if size:
            classes[1 << size.bit_length() - 1].append(size)
    return tuple(ExtentFacts(least, len(of), sum(of)) for least, of in sorted(classes.items()))


def _bytes(value: int) -> Quantity:
    return Quantity(value, Unit.BYTE)


def _cache(
    device: int, book: _Book, trace: Trace | None, stacks: Stacks, writer: str, settings: tuple[tuple[str, str], ...]
) -> CacheFacts:
    stuck = book.free - book.returnable
    gaps = stuck - book.other_stream - book.private_pool - book.small_pool
    unrecorded = Absent(AbsenceKind.NOT_FOUND, "the snapshot has no events: recording was off")
    recorded = trace is not None and bool(trace.events)
    reserved = sum(segment.size for segment in book.segments)
    return CacheFacts(
        allocator=Allocator.TORCH,
        device=Quantity(device, Unit.COUNT),
        writer=writer,
        reserved=_bytes(reserved),
        allocated=_bytes(book.used),
        pending=_bytes(book.pending),
        requested=_bytes(book.asked),
        cached=_bytes(book.free),
        returnable=_bytes(book.returnable),
        tail=_bytes(book.tail),
        stuck=StuckFacts(_bytes(gaps), _bytes(book.other_stream), _bytes(book.private_pool), _bytes(book.small_pool)),
        largest_free=_bytes(book.largest_free),
        largest_usable=_bytes(book.largest_usable),
        largest_small=_bytes(book.largest_small),
        segments=Quantity(len(book.segments), Unit.COUNT),
        blocks=Quantity(book.blocks, Unit.COUNT),
        free_blocks=Quantity(len(book.free_sizes), Unit.COUNT),
        refused=Quantity(len(trace.refusals), Unit.COUNT) if trace and recorded else unrecorded,
        extents=extents(book.free_sizes),
        map=tuple(sorted(book.segments, key=lambda segment: segment.address)),
        refusals=tuple(_refusals(trace)) if trace else (),
        history=read_history(trace, book.used + book.pending, reserved, stacks) if trace and recorded else unrecorded,
        settings=settings,
    )


def _refusals(trace: Trace) -> Iterator[RefusalFacts]:
    for refusal in trace.refusals:
        free: Reading = _bytes(refusal.free)
        yield RefusalFacts(wanted=_bytes(refusal.size), free=free, stack=refusal.stack)
