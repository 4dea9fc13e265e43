"""How often region map and line test err, by simulation.

As benchmarks/latency_rates.py prints it and benchmarks/RESULTS.md has it. The noise is assumed, but for the spread
between multiprocessors, which was measured on an NVIDIA L40.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mats.model import Measurement, Quantity, Unit


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``worlds`` simulated runs; ``slower``: how much later the one slow region answers."""

    slower: float
    hits: int
    worlds: int


def upper_bound(hits: int, worlds: int) -> float:
    """95 % upper bound on the rate: exact where nothing was hit, otherwise by the normal approximation."""
    if not hits:
        return float(1 - 0.05 ** (1 / worlds))
    share = hits / worlds
    return float(share + 1.645 * math.sqrt(share * (1 - share) / worlds))


CLEAN = Rate(0.0, 0, 360)
"""Runs of a memory without a fault that gave a warning, with 7 and with 15 passes alike; 384 regions."""
FAULTY = (Rate(0.08, 0, 120), Rate(0.15, 120, 120), Rate(0.47, 120, 120))
"""Runs in which the slow region was warned of."""
LINES_CLEAN = Rate(0.0, 0, 360)
"""Runs of a memory without a fault in which the line test warned; 4096 lines."""
LINES_FAULTY = (Rate(0.10, 371, 600), Rate(0.20, 600, 600), Rate(0.47, 600, 600))
"""Runs in which one slow channel of 4, 8, 16, 32 or 64 was warned of."""
METHOD = "simulated with assumed noise, not measured on a GPU: see benchmarks/RESULTS.md"


def rates(prefix: str, clean: Rate, faulty: Sequence[Rate], fault: str) -> Iterator[Measurement]:
    """How often a method errs, as ``PREFIXfalse_alarm_rate`` and ``PREFIXdetection_rate``, ratios both.

    ``fault``: what each of the faulty runs had, such as "one slow region".
    """
    yield Measurement(
        f"{prefix}false_alarm_rate",
        Quantity(upper_bound(clean.hits, clean.worlds), Unit.RATIO),
        statistic=f"95 % upper bound, {clean.hits} of {clean.worlds} clean runs",
        method=METHOD,
    )
    for rate in faulty:
        yield Measurement(
            f"{prefix}detection_rate",
            Quantity(rate.hits / rate.worlds, Unit.RATIO),
            labels=(("slower_by", f"{rate.slower:.0%}"),),
            statistic=f"{rate.hits} of {rate.worlds} runs with {fault}",
            method=METHOD,
        )
