"""Small statistics of durations and bandwidths; each says of what it is one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Of ``count`` samples, in their unit."""

    count: int
    mean: float
    standard_deviation: float
    median: float
    p99: float


def summarise(samples: Sequence[float]) -> Summary | None:
    """The summary of at least one sample; the deviation of a single sample is 0."""
    if not samples:
        return None
    deviation = statistics.stdev(samples) if len(samples) > 1 else 0.0
    return Summary(
        len(samples), statistics.fmean(samples), deviation, statistics.median(samples), quantile(samples, 0.99)
    )


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` of the samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def relative_deviation(groups: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation over mean, each sample taken relative to its own group's median.

    Groups are sweeps that do the same work, so that a faster pattern is not taken for unsteadiness. None with fewer
    than 8 samples.
    """
    relative = [sample / statistics.median(group) for group in groups if len(group) > 1 for sample in group]
    if len(relative) < 8:
        return None
    return statistics.stdev(relative) / statistics.fmean(relative)


def drop(samples: Sequence[float]) -> float | None:
    """By which share the median of the last quarter lies below that of the first; None with fewer than 8 samples."""
    if len(samples) < 8:
        return None
    quarter = len(samples) // 4
    before, after = statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])
    return 1 - after / before


def thin(samples: Sequence[float], most: int = 2000) -> tuple[float, ...]:
    """At most ``most`` of the samples, evenly taken."""
    step = -(-len(samples) // most) if samples else 1
    return tuple(samples[::step])
