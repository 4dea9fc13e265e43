"""Which regions of a memory answer later than the others: pure functions of the times of several passes.

Each pass is taken relative to its own median, which removes the multiprocessor, the clocks and the heat of that pass;
the median over the passes removes what disturbed single walks. A region stands out when its figure lies far outside of
the spread of all (by the median absolute deviation) and most of its passes say so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LATE = 0.12
"""From this excess on a region is worth a warning; what stands out is counted from 0.6 of it on."""
MOST_OF_IT = 0.6
FAR = 6.0
"""Deviations from the median beyond which a region stands out."""
LEAST_DEVIATION = 0.002
"""Of a healthy memory the deviation may be next to nothing: a difference is then still measured in steps of 0.2 %."""
CONSISTENT = 1.4826
"""Makes the median absolute deviation that of a normal distribution."""

Times = Sequence[Sequence[float | None]]
"""Seconds per hop: of each pass, of each region; None where a walk was not taken."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One region among the others. ``excess``: its time over the median region's, less one."""

    excess: float
    deviations: float
    votes: int
    passes: int
    seconds: float
    """Median over the passes."""

    @property
    def stands_out(self) -> bool:
        return self.deviations > FAR and 2 * self.votes > self.passes and self.excess > MOST_OF_IT * LATE


@dataclass(frozen=True, slots=True)
class Comparison:
    """All regions; a region without a single walk is None. ``disturbed``: the share of walks that came late in one
    pass only; ``noise``: the deviation of a region's single passes from its median."""

    regions: tuple[Standing | None, ...]
    spread: float
    noise: float
    disturbed: float

    @property
    def outstanding(self) -> tuple[int, ...]:
        return tuple(index for index, region in enumerate(self.regions) if region and region.stands_out)

    @property
    def excess(self) -> float:
        """Of the slowest region that stands out; 0 where none does."""
        return max((region.excess for region in self.regions if region and region.stands_out), default=0.0)


def compare(times: Times) -> Comparison:
    """Compare the regions of at least one pass. Raises ValueError when nothing was walked."""
    relative = [_relative(one) for one in times]
    columns = [[value for value in column if value is not None] for column in zip(*relative, strict=True)]
    seconds = [[value for value in column if value is not None] for column in zip(*times, strict=True)]
    figures = [statistics.median(column) if column else None for column in columns]
    known = [figure for figure in figures if figure is not None]
    if not known:
        raise ValueError("no region was walked")
    middle = statistics.median(known)
    spread = CONSISTENT * statistics.median(abs(figure - middle) for figure in known)
    found: list[Standing | None] = []
    late = 1 + MOST_OF_IT * LATE
    for figure, column, own in zip(figures, columns, seconds, strict=True):
        if figure is None:
            found.append(None)
            continue
        found.append(
            Standing(
                excess=figure / middle - 1,
                deviations=(figure - middle) / max(spread, LEAST_DEVIATION),
                votes=sum(value > late for value in column),
                passes=len(column),
                seconds=statistics.median(own),
            )
        )
    return Comparison(tuple(found), spread, *_unsteadiness(columns, found))


def _relative(one: Sequence[float | None]) -> list[float | None]:
    walked = [value for value in one if value is not None]
    if not walked:
        return list(one)
    middle = statistics.median(walked)
    return [None if value is None else value / middle for value in one]


def _unsteadiness(columns: Sequence[Sequence[float]], found: Sequence[Standing | None]) -> tuple[float, float]:
    """Noise and share of disturbed walks, of the regions that do not stand out: those are late for another reason."""
    quiet = [column for column, region in zip(columns, found, strict=True) if region and not region.stands_out]
    if not quiet:
        return 0.0, 1.0
    late = 1 + MOST_OF_IT * LATE
    noise = CONSISTENT * statistics.median(
        abs(value - statistics.median(column)) for column in quiet for value in column
    )
    walks = sum(len(column) for column in quiet)
    return noise, sum(value > late for column in quiet for value in column) / walks


def chance_alarms(disturbed: float, passes: int, regions: int) -> float:
    """How many regions are late in most passes by chance alone, when each walk is disturbed with this probability.

    The expected number; below 1 it is an upper bound for the probability that there is any.
    """
    if not 0 < disturbed < 1:
        return regions * disturbed
    most = passes // 2 + 1
    chance = sum(
        math.comb(passes, votes) * disturbed**votes * (1 - disturbed) ** (passes - votes)
        for votes in range(most, passes + 1)
    )
    return regions * chance
