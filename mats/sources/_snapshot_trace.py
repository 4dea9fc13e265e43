"""The recorded past of a cache: how much was in use when, who held it at the peak, and what was never given back.

The events of a device are a ring that may begin in the midst: what is in use at its end is known from the segments, and
what was before it follows by going backwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mats.facts.allocator import HistoryFacts, MomentFacts, ShareFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._snapshot_load import SnapshotError, shown

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

MOMENTS_MAXIMUM = 2000
SHARES_MAXIMUM = 100
REFUSALS_MAXIMUM = 100
FRAMES_MAXIMUM = 40
_LOOKED_AT = 8 * FRAMES_MAXIMUM
"""Frames of a stack, those of compiled code among them."""
_AT_ONCE = 1024
"""Events of which one column after the other is taken: so few stay in the processor's cache meanwhile."""
_OTHER, _ALLOC, _FREED, _HAD, _GIVEN, _REFUSED = range(6)
_CODES = {
    "alloc": _ALLOC,
    "free_completed": _FREED,
    "segment_alloc": _HAD,
    "segment_map": _HAD,
    "segment_free": _GIVEN,
    "segment_unmap": _GIVEN,
    "oom": _REFUSED,
}
"""Events that move bytes; the others (a request to free, a snapshot, an annotation, what is yet to come) do not."""


@dataclass(slots=True)
class Stacks:
    """Code that asked for memory, each place once.

    Torch shares lists of frames between events, and frames between lists: what was seen is known by its identity, which
    holds as long as the snapshot does.
    """

    numbers: dict[tuple[str, ...], int] = field(default_factory=dict)
    lists: dict[int, int] = field(default_factory=dict)
    contents: dict[tuple[int, ...], int] = field(default_factory=dict)
    frames: dict[int, tuple[bool, str]] = field(default_factory=dict)
    """Whether a frame is of compiled code, and its line."""

    def number(self, frames: Any) -> int:
        """The number of a list of frames, -1 where none was recorded. Raises SnapshotError."""
        found = self.lists.get(id(frames))
        if found is None:
            found = self.lists[id(frames)] = self._number(frames)
        return found

    def _number(self, frames: Any) -> int:
        if not frames and frames != {}:
            return -1
        if not isinstance(frames, list | tuple):
            raise SnapshotError("the frames of an event are no list: it is no memory snapshot of torch")
        content = tuple(map(id, frames[:_LOOKED_AT]))
        found = self.contents.get(content)
        if found is None:
            lines = self.lines(frames)
            found = self.contents[content] = self.numbers.setdefault(lines, len(self.numbers))
        return found

    def lines(self, frames: Sequence[Any]) -> tuple[str, ...]:
        """``function (file:line)``, innermost first; those of compiled code only where there are no others."""
        known = self.frames
        read = [known.get(id(frame)) or self._line(frame) for frame in frames[:_LOOKED_AT]]
        ours = [line for compiled, line in read if not compiled]
        return tuple((ours or [line for _, line in read])[:FRAMES_MAXIMUM])

    def _line(self, frame: Any) -> tuple[bool, str]:
        if not isinstance(frame, dict):
            raise SnapshotError("a frame of an event is no dictionary: it is no memory snapshot of torch")
        name, file = (_text(frame.get(key, missing)) for key, missing in (("name", "?"), ("filename", "??")))
        compiled = file == "??" or file.endswith((".cpp", ".cc", ".cu", ".h"))
        line = compiled, f"{name[:200]} ({file[-120:]}:{_text(frame.get('line', '?'))[:12]})"
        self.frames[id(frame)] = line
        return line

    def named(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self.numbers)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown(value).strip("'")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event of running out: bytes that were wanted, bytes that the device had free."""

    size: int
    free: int
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one device by column; the codes say what each did."""

    events: Sequence[Mapping[str, Any]]
    codes: NDArray[numpy.int8]
    addresses: NDArray[numpy.uint64]
    sizes: NDArray[numpy.int64]
    times: NDArray[numpy.int64] | None
    frames: NDArray[numpy.int64]
    """Identity of the list of frames of each event."""
    refusals: tuple[Refusal, ...]


def read_trace(events: Sequence[Any], stacks: Stacks) -> Trace:
    """The columns of a device's events. Raises SnapshotError."""
    import numpy

    codes = numpy.empty(len(events), numpy.int8)
    address_column = numpy.empty(len(events), numpy.uint64)
    sizes_column, time_column, frames_column = (numpy.empty(len(events), numpy.int64) for _ in range(3))
    try:
        for start in range(0, len(events), _AT_ONCE):
            few = events[start : start + _AT_ONCE]
            here = slice(start, start + len(few))
            codes[here] = [_CODES.get(event["action"], _OTHER) for event in few]
            sizes_column[here] = _whole([event["size"] for event in few])
            address_column[here] = _whole([event.get("addr", 0) for event in few])
            time_column[here] = _whole([event.get("time_us", -1) for event in few])
            frames_column[here] = [id(event.get("frames")) for event in few]
    except (KeyError, TypeError, AttributeError):
        raise SnapshotError("an event has no action or size: it is no memory snapshot of torch") from None
    except OverflowError:
        raise SnapshotError("the size, address or time of an event is beyond 64 bits: it is no snapshot") from None
    if len(events) and int(sizes_column.min()) < 0:
        raise SnapshotError("the size of an event is negative: it is no memory snapshot of torch")
    refused = [events[int(at)] for at in numpy.flatnonzero(codes == _REFUSED)[-REFUSALS_MAXIMUM:]]
    dated = bool(len(events)) and int(time_column.min()) >= 0
    return Trace(
        events=events,
        codes=codes,
        addresses=address_column,
        sizes=sizes_column,
        times=time_column if dated else None,
        frames=frames_column,
        refusals=tuple(_refusal(event, stacks) for event in refused),
    )


def _whole(values: list[Any]) -> list[int]:
    """The same, where all are whole numbers. Raises SnapshotError."""
    if set(map(type, values)) != {int}:
        raise SnapshotError("the size, address or time of an event is no whole number: it is no snapshot of torch")
    return values


def _refusal(event: Mapping[str, Any], stacks: Stacks) -> Refusal:
    free = event.get("device_free")
    if type(free) is not int or free < 0:
        raise SnapshotError("an event of running out does not say what was free: it is no memory snapshot of torch")
    number = stacks.number(event.get("frames"))
    return Refusal(int(event["size"]), free, stacks.named()[number] if number >= 0 else ())


def read_history(trace: Trace, in_use: int, reserved: int, stacks: Stacks) -> HistoryFacts:
    """What the events tell. ``in_use`` (with what waits for a stream) and ``reserved``: at their end."""
    import numpy

    codes, sizes = trace.codes, trace.sizes
    used = numpy.cumsum(numpy.where(codes == _ALLOC, sizes, 0) - numpy.where(codes == _FREED, sizes, 0))
    held = numpy.cumsum(numpy.where(codes == _HAD, sizes, 0) - numpy.where(codes == _GIVEN, sizes, 0))
    used += max(in_use - int(used[-1]), -int(used.min()))
    held += max(reserved - int(held[-1]), -int(held.min()))
    peak = int(numpy.argmax(used))
    births, deaths = _lives(trace)
    at_peak = births[(births <= peak) & (deaths > peak)]
    lasting = births[deaths == len(trace.events)]
    asked = sizes[codes == _ALLOC]
    largest: Reading = Absent(AbsenceKind.NOT_FOUND, "the record holds no request")
    if len(asked):
        largest = Quantity(int(asked.max()), Unit.BYTE)
    moment = _Moments(trace, used, held)
    return HistoryFacts(
        events=len(trace.events),
        moments=tuple(moment.at(index) for index in _chosen(used)),
        peak=moment.at(peak),
        at_peak=_shares(trace, at_peak, stacks),
        before=max(0, int(used[peak]) - int(sizes[at_peak].sum())),
        lasting=_shares(trace, lasting, stacks),
        largest_request=largest,
    )


@dataclass(frozen=True, slots=True)
class _Moments:
    trace: Trace
    used: NDArray[numpy.int64]
    held: NDArray[numpy.int64]

    def at(self, index: int) -> MomentFacts:
        times = self.trace.times
        second: Reading = Absent(AbsenceKind.NOT_FOUND, "events have no time before torch 2.2")
        if times is not None:
            second = Quantity((int(times[index]) - int(times[0])) / 1e6, Unit.SECOND)
        return MomentFacts(index, second, int(self.used[index]), int(self.held[index]))


def _chosen(used: NDArray[numpy.int64], most: int = MOMENTS_MAXIMUM) -> list[int]:
    """Events that draw the whole curve: all, or the lowest and highest of every equal stretch, and both ends."""
    count = len(used)
    if count <= most:
        return list(range(count))
    stretches = most // 2 - 1
    kept = {0, count - 1}
    for stretch in range(stretches):
        start, end = stretch * count // stretches, (stretch + 1) * count // stretches
        part = used[start:end]
        kept |= {start + int(part.argmin()), start + int(part.argmax())}
    return sorted(kept)


def _lives(trace: Trace) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Of each allocation its event, and the event at which it was freed (the number of events where it was not)."""
    import numpy

    relevant = numpy.flatnonzero((trace.codes == _ALLOC) | (trace.codes == _FREED))
    addresses = trace.addresses[relevant]
    order = numpy.lexsort((relevant, addresses))
    events, addresses = relevant[order], addresses[order]
    following = numpy.full(len(events), len(trace.events), numpy.int64)
    if len(events) > 1:
        same = addresses[1:] == addresses[:-1]
        following[:-1][same] = events[1:][same]
    born = trace.codes[events] == _ALLOC
    return events[born], following[born]


def _shares(trace: Trace, chosen: NDArray[numpy.int64], stacks: Stacks) -> tuple[ShareFacts, ...]:
    """What these allocations make by the code that asked for them."""
    import numpy

    lists, first, place = numpy.unique(trace.frames[chosen], return_index=True, return_inverse=True)
    firsts = chosen[first].tolist()
    order = numpy.argsort(place, kind="stable")
    starts = numpy.searchsorted(place[order], numpy.arange(len(lists)))
    sums = numpy.add.reduceat(trace.sizes[chosen][order], starts) if len(lists) else lists
    by_stack: dict[int, list[int]] = {}
    for index, size, blocks in zip(firsts, sums.tolist(), numpy.bincount(place).tolist(), strict=True):
        share = by_stack.setdefault(stacks.number(trace.events[index].get("frames")), [0, 0])
        share[0] += size
        share[1] += blocks
    shares = [ShareFacts(number, size, blocks) for number, (size, blocks) in by_stack.items()]
    return tuple(sorted(shares, key=lambda share: (-share.size, share.stack))[:SHARES_MAXIMUM])
