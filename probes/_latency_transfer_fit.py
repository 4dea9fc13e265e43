"""What copies of several sizes come to: a time to start and a speed, and what a link should carry. Pure functions.

A copy of n bytes takes t = a + n / b: a is its start, b the speed once it runs, and of a copy of a x b bytes half of
the time is its start. The line is that of the least sum of relative deviations, so that a copy of 4 KiB counts as much
as one of 1 GiB, and a size that was disturbed does not move it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mats.device import PCIE, HostLink
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

FEWEST_SIZES = 3
WIDEST = 4.0
"""Sizes this many times apart at least: from closer ones a start cannot be told from the speed."""
ROUNDS = 60
SAME_WAY = 1.02
"""Above this share of a link its data cannot have gone over it: 2 % for the clocks that both are measured by."""


@dataclass(frozen=True, slots=True)
class Fit:
    """``startup`` in seconds, ``bandwidth`` in bytes per second; ``worst``: the largest relative deviation of all."""

    startup: float
    bandwidth: float
    worst: float

    @property
    def half_size(self) -> float:
        """Bytes of a copy that reaches half of the bandwidth."""
        return self.startup * self.bandwidth

    def seconds(self, size: float) -> float:
        return self.startup + size / self.bandwidth


def fit(points: Sequence[tuple[float, float]]) -> Fit | Absent:
    """From sizes in bytes and their times in seconds, both above 0; absent where they do not lie on a rising line."""
    sizes = sorted({size for size, _ in points})
    if len(sizes) < FEWEST_SIZES or sizes[-1] < WIDEST * sizes[0]:
        return Absent(AbsenceKind.INSUFFICIENT, f"copies of {len(sizes)} sizes are too few, or too alike, for a line")
    weights = [1 / time**2 for _, time in points]
    for _ in range(ROUNDS):  # each round turns squares of relative deviations nearer to their absolute values
        start, slope = _weighted(points, weights)
        off = [abs(start + slope * size - time) / time for size, time in points]
        weights = [1 / (time**2 * max(one, 1e-6)) for (_, time), one in zip(points, off, strict=True)]
    if slope <= 0 or not math.isfinite(slope):
        return Absent(AbsenceKind.UNREADABLE, "larger copies took no longer than smaller ones")
    if start < 0:  # nothing starts ahead of time: then the line goes through zero
        start, slope = 0.0, _median([time / size for size, time in points])
    worst = max(abs(start + slope * size - time) / time for size, time in points)
    return Fit(start, 1 / slope, worst)


def _weighted(points: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float]:
    """Start and slope of the line of least weighted squares."""
    total = math.fsum(weights)
    mean_x = math.fsum(w * size for w, (size, _) in zip(weights, points, strict=True)) / total
    mean_y = math.fsum(w * time for w, (_, time) in zip(weights, points, strict=True)) / total
    above = math.fsum(w * (size - mean_x) * (time - mean_y) for w, (size, time) in zip(weights, points, strict=True))
    below = math.fsum(w * (size - mean_x) ** 2 for w, (size, _) in zip(weights, points, strict=True))
    slope = above / below
    return mean_y - slope * mean_x, slope


def _median(values: Iterable[float]) -> float:
    import statistics

    return statistics.median(values)


def carried(points: Sequence[tuple[float, float]], line: Fit) -> float:
    """Bytes per second of the largest copy once it ran: its start, as the line has it, is taken off."""
    size, time = max(points)
    return size / max(time - line.startup, size / 1e15)


def share_of_link(bandwidth: float, link: HostLink, enough: float) -> Reading:
    """What of the narrowest link's bandwidth under load was carried, or why it cannot be judged by that.

    ``enough``: a share with which all is well, also where the way may be narrower than was seen.
    """
    if link.kind != PCIE:
        what = f"data go over {link.kind}" if link.kind else "no link lies between"
        return Absent(AbsenceKind.NOT_SUPPORTED, f"{what}: what a healthy one carries of it is not settled")
    if isinstance(link.bandwidth, Absent):
        return link.bandwidth
    share = bandwidth / link.bandwidth.value
    if share > SAME_WAY:
        why = f"more arrived than the link that is shown can carry ({share:.2f} times): it is not the way of the data"
        return Absent(AbsenceKind.UNREADABLE, why)
    if link.unseen and share < enough:
        return Absent(AbsenceKind.INSUFFICIENT, f"the way may be narrower than the link that is shown: {link.unseen}")
    return Quantity(share, Unit.RATIO)


def share_of_possible(link: HostLink) -> Reading:
    """Bandwidth of the narrowest link under load over what every end on the way can; at most 1."""
    if link.kind != PCIE:
        return Absent(AbsenceKind.NOT_SUPPORTED, f"data go over {link.kind}" if link.kind else "no link lies between")
    if link.unseen:
        return Absent(AbsenceKind.INSUFFICIENT, f"what the whole way can is not known: {link.unseen}")
    for reading in (link.bandwidth, link.bandwidth_maximum):
        if isinstance(reading, Absent):
            return reading
    assert isinstance(link.bandwidth, Quantity) and isinstance(link.bandwidth_maximum, Quantity)
    if link.bandwidth_maximum.value <= 0:
        return Absent(AbsenceKind.UNREADABLE, "the way reads as one without lanes")
    return Quantity(min(1.0, link.bandwidth.value / link.bandwidth_maximum.value), Unit.RATIO)


def fastest(links: Iterable[HostLink]) -> HostLink | None:
    """Of readings under load the one with the most bandwidth: a link speeds up when copies come, not beyond itself."""
    known = list(links)
    told = [link for link in known if isinstance(link.bandwidth, Quantity)]
    if told:
        return max(told, key=lambda link: link.bandwidth.value if isinstance(link.bandwidth, Quantity) else 0)
    return known[-1] if known else None


def grown(before: HostLink, after: HostLink, name: str) -> Reading:
    """By how much one of the counters grew; absent where it is not told, or was reset meanwhile."""
    first, last = dict(before.counters).get(name), dict(after.counters).get(name)
    if first is None or last is None:
        return Absent(AbsenceKind.NOT_SUPPORTED, f"{name}: not counted here")
    for reading in (first, last):
        if isinstance(reading, Absent):
            return reading
    assert isinstance(first, Quantity) and isinstance(last, Quantity)
    if last.value < first.value:
        return Absent(AbsenceKind.UNREADABLE, f"{name}: it was reset while it was watched")
    return Quantity(int(last.value - first.value), Unit.COUNT)
