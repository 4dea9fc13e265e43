"""Which lines need longer from the memory than the others: pure functions of the times of single lines.

What a line takes from the cache is taken off what it takes from the memory: the place of the multiprocessor, of the
line's part of the cache and the way between them are in both, and what is left is the memory's own part. A channel that
answers late then shows as a fixed share of all lines, which the regions' averages cannot show.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from mats.model import AbsenceKind, Absent

from ._latency_hops import Line
from ._latency_limits import LINES, bound_of

SLOW = 1.25
"""A line is slow when its memory part is longer than so many usual ones."""
MOST_SLOW = 0.35
"""One channel of four has a quarter of the lines: of more, the longer part is a usual one as well."""
MOST_SCATTER = 0.08
"""Deviation of usual lines above which 25 % more is no longer far outside."""
MOST_STEP = 0.05
"""Of the usual part: the clock must be read in finer steps."""
FEWEST_LINES = 1000
CONSISTENT = 1.4826
"""Makes the median absolute deviation that of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Classes:
    """``usual``: the memory part that most lines need, in ticks. ``share``: of lines that are slow, and ``factor``
    their median part over the usual one (1 where none is slow). ``longer_half``: the share of lines that belong to a
    second usual class, or 0. ``regions``: of how many regions lines were timed, and in ``touched`` of them one is slow.
    """

    lines: int
    usual: float
    scatter: float
    share: float
    factor: float
    longer_half: float
    regions: int
    touched: int
    parts: tuple[float, ...]
    """The memory part of each line over the usual one."""

    @property
    def is_spread(self) -> bool:
        """Whether slow lines lie in about as many regions as chance would put them into."""
        expected = self.regions * (1 - (1 - self.share) ** (self.lines / self.regions))
        return bool(self.touched >= expected / 2)


def memory_part(line: Line) -> float:
    """Ticks of the memory itself: the shortest time from the memory less the usual one from the cache."""
    return min(line.cold) - statistics.median(line.hit)


def classify(lines: Sequence[Line]) -> Classes | Absent:
    """Usual and slow lines, or why single lines cannot be told apart on this device."""
    if len(lines) < FEWEST_LINES:
        return Absent(AbsenceKind.INSUFFICIENT, f"{len(lines)} lines were timed, {FEWEST_LINES} are needed")
    parts = [memory_part(line) for line in lines]
    usual = _usual(parts)
    if why := _unusable(lines, parts, usual):
        return Absent(AbsenceKind.NOT_SUPPORTED, why)
    scatter = _scatter(parts, usual)
    longer = [part for part in parts if part > SLOW * usual]
    longer_half = 0.0
    if len(longer) > MOST_SLOW * len(parts):
        longer_half, usual = len(longer) / len(parts), _usual(longer)
        longer = [part for part in parts if part > SLOW * usual]
    factor = statistics.median(longer) / usual if longer else 1.0
    border = _border(len(longer) / len(parts), factor) * usual
    slow = [line.region for line, part in zip(lines, parts, strict=True) if part > border]
    return Classes(
        lines=len(lines),
        usual=usual,
        scatter=scatter,
        share=len(slow) / len(parts),
        factor=factor,
        longer_half=longer_half,
        regions=len({line.region for line in lines}),
        touched=len(set(slow)),
        parts=tuple(round(part / usual, 4) for part in parts),
    )


def _border(share: float, factor: float) -> float:
    """From which part on a line is counted: where there are slow ones, from halfway to them, if that is sooner.

    Of a class that is little slower, some lines lie below the border by which it is found.
    """
    return min(SLOW, (1 + factor) / 2) if share > bound_of(LINES[0]) else SLOW


def _usual(parts: Sequence[float]) -> float:
    """The median of all but the slow ones, which would pull it up by their share."""
    middle = statistics.median(parts)
    return statistics.median(part for part in parts if part <= max(SLOW * middle, middle))


def _unusable(lines: Sequence[Line], parts: Sequence[float], usual: float) -> str:
    """Why times of single lines mean nothing here, or nothing."""
    if usual <= 0:
        return "a line takes no longer after the cache was passed than before"
    step = clock_step(lines)
    if step > MOST_STEP * usual:
        return f"the clock is too coarse for single loads: its steps are {step / usual:.0%} of what the memory takes"
    scatter = _scatter(parts, usual)
    if scatter > MOST_SCATTER:
        return f"the times of single lines scatter by {scatter:.0%} of what the memory takes: a slow one is lost in it"
    return ""


def clock_step(lines: Sequence[Line]) -> int:
    """Ticks between two readings that the clock can give: values a tick apart are one reading that was rounded."""
    readings = sorted({time for line in lines for time in (*line.cold, *line.hit)})
    gaps = [after - before for before, after in itertools.pairwise(readings)]
    if any(first == second == 1 for first, second in itertools.pairwise(gaps)):
        return 1  # three in a row are no rounding
    return min((gap for gap in gaps if gap > 1), default=1)


def _scatter(parts: Sequence[float], usual: float) -> float:
    """Deviation of the lines below the usual one, which no slow line is among, relative to it."""
    return CONSISTENT * statistics.median(usual - part for part in parts if part <= usual) / usual


def channels(share: float, lines: int) -> tuple[int, int, int]:
    """Of how many equal channels one has this share of the lines: likely, fewest and most (two deviations)."""
    deviation = math.sqrt(share * (1 - share) / lines)
    most = 1 / (share - 2 * deviation) if share > 2 * deviation else float(lines)
    return round(1 / share), round(1 / (share + 2 * deviation)), round(most)
