"""Copies of many GPUs at one moment: all into one, one to all, and round a ring, which is how collectives move data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mats.fabric import Copy
from mats.model import AbsenceKind, Quantity

from ._nvlink_bench import TILE, Seat, Timer, part
from ._nvlink_seen import RATE, GroupSeen, PairSeen, Taken, not_taken

INTO, FROM, RING = "link.into_one", "link.from_one", "link.ring"
_RING_METHOD = (
    "every GPU sends to the next at one moment; the slowest of them. No ring all-reduce has a bus bandwidth above it "
    "(nccl-tests: busbw = bytes / time x 2(n-1)/n for n = {ranks}); it is no measurement of NCCL"
)


def measure_groups(timer: Timer, seats: Sequence[Seat], pairs: Sequence[PairSeen]) -> list[GroupSeen]:
    """Groups of members that all reach each other directly; of two there is none but the ring. Raises DeviceError."""
    direct = {(pair.start, pair.end) for pair in pairs if pair.access}
    starts = [pair.copy_latency for pair in pairs if pair.access and pair.copy_latency.value]
    begun = min(starts, key=lambda taken: taken.value or 0.0, default=Taken())
    found = []
    for hub in seats if len(seats) > 2 else ():
        into = [seat for seat in seats if seat is not hub and (seat.label, hub.label) in direct]
        outof = [seat for seat in seats if seat is not hub and (hub.label, seat.label) in direct]
        if len(into) > 1:
            copies = [_share(other, hub, place, len(into)) for place, other in enumerate(into)]
            found.append(
                GroupSeen(INTO, (("to", hub.label),), _sum(timer, copies, begun, f"from {len(into)} GPUs at once"))
            )
        if len(outof) > 1:
            copies = [_share(hub, other, place, len(outof)) for place, other in enumerate(outof)]
            found.append(
                GroupSeen(FROM, (("from", hub.label),), _sum(timer, copies, begun, f"to {len(outof)} GPUs at once"))
            )
    if len(seats) > 1:
        found.insert(0, GroupSeen(RING, (("gpus", str(len(seats))),), _ring(timer, seats, direct, begun)))
    return found


def _share(start: Seat, end: Seat, place: int, of: int) -> Copy:
    """A part of the hub's buffer for each of the others, so that none writes where another does."""
    size = max(TILE, start.source.size // of // TILE * TILE)
    at = place * size
    return Copy(start.number, part(start.source, size, at), end.number, part(end.sink, size, at))


def _sum(timer: Timer, copies: Sequence[Copy], begun: Taken, how: str) -> Taken:
    """What all of them carry together, as if each went on for as long as the slowest."""
    rates = timer.rates(copies, how, begun)
    slowest = min(rate.value or 0.0 for rate in rates)
    if not slowest:
        return next(rate for rate in rates if not rate.value)
    return Taken(Quantity(slowest * len(copies), RATE), method=f"{how}: the slowest times their number")


def _ring(timer: Timer, seats: Sequence[Seat], direct: set[tuple[str, str]], begun: Taken) -> Taken:
    steps = [(seat, seats[(place + 1) % len(seats)]) for place, seat in enumerate(seats)]
    missing = [f"{start.label}-{end.label}" for start, end in steps if (start.label, end.label) not in direct]
    if missing:
        return not_taken(
            AbsenceKind.NOT_SUPPORTED, f"not every GPU reaches the next directly: {', '.join(missing[:4])}"
        )
    rates = timer.rates([Copy(start.number, start.source, end.number, end.sink) for start, end in steps], "", begun)
    slowest = min(rates, key=lambda rate: rate.value or 0.0)
    return replace(slowest, method=_RING_METHOD.format(ranks=len(seats)))
