"""What the line test says: measurements, the histogram of its lines, and a slow share's diagnosis in honest words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mats.model import (
    AbsenceKind,
    Absent,
    Chart,
    Column,
    Diagnosis,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Table,
    Unit,
)

from ._latency_faults import CATALOGUE
from ._latency_limits import LINES, bound_of
from ._latency_lines import SLOW, Classes, channels
from ._latency_rates import LINES_CLEAN, LINES_FAULTY, rates
from ._statistics import thin

BIN = 0.1
LARGEST_BIN = 3.0
_RATIO, _COUNT, _SECOND = Unit.RATIO, Unit.COUNT, Unit.SECOND


@dataclass(frozen=True, slots=True)
class LineTest:
    """``second``: the lines of the second allocation, or None: not needed. ``tick``: seconds of one tick of the clock
    that lines are timed by. ``left_out``: regions that stand out of the map, of which no line was taken. ``rated``:
    whether the simulated rates of error are of devices like this one."""

    first: Classes | Absent
    second: Classes | Absent | None
    tick: float
    left_out: int
    rated: bool


def is_slow(found: Classes | Absent) -> bool:
    """Whether so many lines are slow that it is worth a second look."""
    return isinstance(found, Classes) and found.share > bound_of(LINES[0])


def observe_lines(test: LineTest) -> Observation:
    """Measurements, table, diagnoses and notes of a line test."""
    first = test.first
    if isinstance(first, Absent):
        absent = tuple(Measurement(name, first) for name in LINES)
        return Observation(absent, notes=(f"Lines are not told apart: {first.reason}.",))
    return Observation(
        tuple(_measurements(test, first)), (_histogram(first),), tuple(_diagnoses(first)), tuple(_notes(test, first))
    )


def _measurements(test: LineTest, first: Classes) -> Iterator[Measurement]:
    of_what = f"of {first.lines} lines in {first.regions} regions"
    share, confirmed = LINES
    yield Measurement("latency.line_count", Quantity(first.lines, _COUNT))
    yield Measurement(
        "latency.line_memory",
        Quantity(first.usual * test.tick, _SECOND),
        statistic=f"median {of_what}",
        method="shortest time from the memory less the median time from the cache, of each line",
    )
    yield Measurement("latency.line_scatter", Quantity(first.scatter, _RATIO), statistic="from the median deviation")
    yield Measurement(
        share,
        Quantity(first.share, _RATIO),
        statistic=of_what,
        method=f"lines that need more than {SLOW:g} times the usual",
        samples=thin(first.parts),
    )
    yield Measurement("latency.slow_line_factor", Quantity(first.factor, _RATIO), statistic="median of the slow lines")
    yield Measurement(confirmed, _confirmed(test), method="seen in two allocations; 1 where it was not")
    if test.rated:
        yield from rates("latency.line_", LINES_CLEAN, LINES_FAULTY, "one slow channel")


def _confirmed(test: LineTest) -> Reading:
    if not is_slow(test.first):
        return Quantity(1.0, _RATIO)
    assert isinstance(test.first, Classes)
    second = test.second
    if second is None:
        return Absent(AbsenceKind.INSUFFICIENT, "the second look was not made")
    if isinstance(second, Absent):
        return Absent(second.kind, f"the second look: {second.reason}")
    return Quantity(min(test.first.factor, second.factor) if is_slow(second) else 1.0, _RATIO)


def describe(found: Classes) -> str:
    """The share of slow lines in one sentence that claims no more than was seen."""
    seen = f"{found.share:.1%} of the sampled lines need {found.factor:.1f}x the usual time of the memory"
    if not found.is_spread:
        return f"{seen}; they lie in {found.touched} of {found.regions} regions only, so that no channel explains them."
    likely, fewest, most = channels(found.share, found.lines)
    within = "" if fewest == most else f" ({fewest} to {most})"
    return f"{seen}; consistent with one slow channel out of {likely}{within}."


def _diagnoses(first: Classes) -> Iterator[Diagnosis]:
    if not is_slow(first):
        return
    fault = CATALOGUE["slow_channel" if first.is_spread else "slow_region"]
    lines = (
        describe(first),
        f"They lie in {first.touched} of {first.regions} regions; {first.lines} lines were sampled.",
        "How addresses are spread over channels is not documented: no chip and no place on the board can be told.",
    )
    for measurement in LINES:
        yield Diagnosis(fault.name, fault.title, measurement, lines, fault.advice)


def _notes(test: LineTest, first: Classes) -> Iterator[str]:
    if test.left_out:
        yield f"The lines of {test.left_out} regions that stand out are left out of the line test."
    if first.longer_half:
        yield (
            f"{first.longer_half:.0%} of the lines need longer than the others: too many for one slow channel, and as "
            "where a cache has a near and a far half. They were taken as usual; a slow channel shows in them alone."
        )
    if not is_slow(first) or test.second is None:
        return
    if isinstance(test.second, Classes) and is_slow(test.second):
        yield f"Line test, second allocation: {describe(test.second)}"
    elif isinstance(test.second, Classes):
        yield "Line test: what was slow in the first allocation was not in a second one: it is not confirmed."


def _histogram(first: Classes) -> Table:
    counted = Counter(min(int(part / BIN), int(LARGEST_BIN / BIN)) for part in first.parts)
    lowest, highest = min(counted), max(counted)
    rows = tuple((round(index * BIN, 2), counted[index]) for index in range(lowest, highest + 1))
    columns = (Column("relative_time", _RATIO), Column("lines", _COUNT))
    title = "Lines by the time that they need from the memory, relative to the usual"
    return Table("lines", title, columns, rows, Chart.curve("relative_time", "lines"))
