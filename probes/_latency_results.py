"""From the walks of a latency test to measurements, tables and diagnoses. Nothing here touches a device."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mats.device import Conditions, HeldBy
from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Chart,
    Column,
    Diagnosis,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Table,
    TargetInfo,
    Unit,
)

from ._latency_climb import Rung
from ._latency_faults import CATALOGUE
from ._latency_ladder import observe_ladder
from ._latency_limits import LIMITS
from ._latency_line_results import LineTest, observe_lines
from ._latency_map import Comparison, Standing, chance_alarms
from ._latency_rates import CLEAN, FAULTY, rates
from ._statistics import thin

if TYPE_CHECKING:
    from ._latency_session import Survey

FEWEST_PASSES = 7
"""A second look with fewer confirms nothing."""
MOSTLY = 0.9
"""Of a host's memory: with less in huge pages, small ones show in the times."""
NAMED = 8
"""So many regions at most are named one by one in a finding's evidence."""
_RATIO, _COUNT, _SECOND = Unit.RATIO, Unit.COUNT, Unit.SECOND


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run brought. ``second``: the survey of the second allocation, why there is none, or None: not needed."""

    info: TargetInfo
    total: int
    untested: tuple[tuple[str, int], ...]
    first: Survey
    second: Survey | Absent | None
    seen: tuple[tuple[float, Conditions], ...]
    others: tuple[HeldBy, ...] | str
    partial: str
    refused: str
    ladder: tuple[Rung, ...] | Absent
    parts: tuple[Observation, ...] = ()
    """What further parts of the test saw."""


def nothing_timed(kind: AbsenceKind, reason: str) -> Observation:
    """An observation of a device on which nothing was timed."""
    absent = Absent(kind, reason)
    names = sorted({limit.measurement for limit in LIMITS})
    return Observation(tuple(Measurement(name, absent) for name in names), notes=(f"Nothing was timed: {reason}.",))


def observe(outcome: Outcome) -> Observation:
    """Everything that one run tells."""
    seen = outcome.first.comparison
    parts = (_map_part(outcome, seen), _lines_part(outcome, seen), observe_ladder(outcome.ladder, outcome.info))
    return merge((*parts, *outcome.parts), outcome.partial)


def merge(parts: Sequence[Observation], partial: str) -> Observation:
    """The parts of a test one after another."""
    return Observation(
        tuple(one for part in parts for one in part.measurements),
        tuple(table for part in parts for table in part.tables),
        tuple(diagnosis for part in parts for diagnosis in part.diagnoses),
        tuple(note for part in parts for note in part.notes),
        partial,
    )


def _lines_part(outcome: Outcome, seen: Comparison | None) -> Observation:
    """The line test; its ticks are those of the walks over the map."""
    ticks = [walk.seconds / walk.cycles for one in outcome.first.walks for walk in one if walk and walk.cycles]
    first, second = outcome.first.lines, outcome.second
    if not ticks:
        first = Absent(AbsenceKind.NOT_TESTED, "no chain was walked to its end, so that the clock is not known")
    return observe_lines(
        LineTest(
            first=first,
            second=second if second is None or isinstance(second, Absent) else second.lines,
            tick=statistics.median(ticks) if ticks else 0.0,
            left_out=len(seen.outstanding) if seen else 0,
            rated=outcome.info.kind != "host",
        )
    )


def _map_part(outcome: Outcome, seen: Comparison | None) -> Observation:
    """The region map."""
    first = outcome.first
    notes = [f"The device refused more memory: {outcome.refused}."] if outcome.refused else []
    measurements = list(_conditions(outcome))
    notes += _small_pages(outcome.info)
    if seen is None:
        why = "no chain was walked to its end" if first.walks else first.unlaid or outcome.partial or "no pass was made"
        absent = Absent(AbsenceKind.NOT_TESTED, why)
        measurements += [Measurement(name, absent) for name in (*_MAP_NAMES, "latency.region_excess_confirmed")]
        return Observation(tuple(measurements), _tables(outcome, None), notes=tuple(notes))
    measurements += _map_measurements(outcome, seen)
    diagnoses = tuple(_diagnoses(outcome, seen))
    notes += _second_look(outcome, seen)
    return Observation(tuple(measurements), _tables(outcome, seen), diagnoses, tuple(notes))


def _conditions(outcome: Outcome) -> Iterator[Measurement]:
    """How the run was made: what may void it."""
    first = outcome.first
    timed = sum(region.buffer.size for region in first.regions)
    yield Measurement("latency.coverage", Quantity(timed / outcome.total, _RATIO), method="timed of all of its memory")
    yield Measurement("latency.regions", Quantity(len(first.regions), _COUNT))
    yield Measurement("latency.passes", Quantity(len(first.walks), _COUNT))
    wrong = first.wrong + (outcome.second.wrong if outcome.second and not isinstance(outcome.second, Absent) else 0)
    yield Measurement("latency.wrong_ends", Quantity(wrong, _COUNT), method="walks that ended elsewhere")
    if outcome.info.kind == "host":
        yield Measurement("latency.huge_page_share", _huge_pages(outcome.info), method="of the memory that was timed")
    pinned: Reading = Absent(AbsenceKind.NOT_TESTED, "no walk was tried")
    if first.tried:
        pinned = Quantity(first.landed / first.tried, _RATIO)
    yield Measurement("latency.pinned_share", pinned, method="walks that ran on the multiprocessor they were meant for")
    yield Measurement("latency.memory_clock_change", _clock_change(outcome), method="highest over lowest, less one")
    yield Measurement("latency.other_processes", _other_processes(outcome.others), method="but for desktops")


def _huge_pages(info: TargetInfo) -> Reading:
    """What the host told of its memory while it was held."""
    told = dict(info.identity).get("held_in_huge_pages")
    if told is None:
        return Absent(AbsenceKind.NOT_FOUND, "the system does not tell which pages it gave")
    return Quantity(float(told), _RATIO)


def _small_pages(info: TargetInfo) -> list[str]:
    share = _huge_pages(info) if info.kind == "host" else None
    if not isinstance(share, Quantity) or share.value >= MOSTLY:
        return []
    return [
        f"{share.value:.0%} of the memory that was timed lies in huge pages: where it does not, the translation of "
        "addresses is part of what a load takes."
    ]


def _clock_change(outcome: Outcome) -> Reading:
    clocks = [conditions.memory_clock for _, conditions in outcome.seen]
    told = [float(clock.value) for clock in clocks if isinstance(clock, Quantity) and clock.value > 0]
    if len(told) < max(len(clocks), 1):
        absent = next((clock for clock in clocks if isinstance(clock, Absent)), None)
        return absent or Absent(AbsenceKind.UNREADABLE, "the memory clock reads 0")
    return Quantity(max(told) / min(told) - 1, _RATIO)


def _other_processes(others: tuple[HeldBy, ...] | str) -> Reading:
    if isinstance(others, str):
        return Absent(AbsenceKind.UNREADABLE, others)
    return Quantity(sum(not holder.draws_only for holder in others), _COUNT)


_MAP_NAMES = ("latency.memory", "latency.region_excess", "latency.chance_alarms")


def _map_measurements(outcome: Outcome, seen: Comparison) -> Iterator[Measurement]:
    first = outcome.first
    known = [region for region in seen.regions if region]
    of_what = f"median of {len(known)} regions, each the median of {len(first.walks)} passes"
    times = [region.seconds for region in known]
    yield Measurement(
        "latency.memory", Quantity(statistics.median(times), _SECOND), statistic=of_what, samples=thin(times)
    )
    if outcome.info.kind != "host":
        cycles = [walk.cycles for one in first.walks for walk in one if walk]
        yield Measurement(
            "latency.memory_cycles",
            Quantity(statistics.median(cycles), _COUNT),
            statistic=f"median of {len(cycles)} walks",
        )
    yield Measurement("latency.slowest_region", Quantity(max(times), _SECOND), statistic="of the regions' medians")
    yield Measurement("latency.region_spread", Quantity(seen.spread, _RATIO), statistic="from the median deviation")
    yield Measurement("latency.pass_noise", Quantity(seen.noise, _RATIO), statistic="from the median deviation")
    yield Measurement("latency.disturbed_walks", Quantity(seen.disturbed, _RATIO), method="late in single passes")
    chance = chance_alarms(seen.disturbed, len(first.walks), len(known))
    yield Measurement(
        "latency.chance_alarms", Quantity(chance, _COUNT), method="regions late in most passes by chance: expected"
    )
    yield Measurement(
        "latency.region_excess",
        Quantity(seen.excess, _RATIO),
        statistic="of the slowest region that stands out; 0 where none does",
        samples=thin([region.excess for region in known]),
    )
    yield Measurement("latency.region_excess_confirmed", _confirmed(outcome, seen), method="seen in two allocations")
    if outcome.info.kind != "host":
        yield from rates("latency.", CLEAN, FAULTY, "one slow region")


def _confirmed(outcome: Outcome, seen: Comparison) -> Reading:
    """The excess that a second allocation shows as well."""
    second = outcome.second
    if not seen.outstanding:
        return Quantity(0.0, _RATIO)
    if second is None:
        return Absent(AbsenceKind.INSUFFICIENT, outcome.partial or "the second look was not made")
    if isinstance(second, Absent):
        return second
    if len(second.walks) < min(FEWEST_PASSES, len(outcome.first.walks)):
        return Absent(AbsenceKind.INSUFFICIENT, outcome.partial or "the second look has too few passes")
    again = second.comparison
    if again is None:
        return Absent(AbsenceKind.UNREADABLE, "the second look: no chain was walked to its end")
    return Quantity(min(seen.excess, again.excess), _RATIO)


def _name(outcome: Outcome, index: int, standing: Standing) -> str:
    region = outcome.first.regions[index]
    return (
        f"virtual region {index} of this allocation (0x{region.buffer.address:x}, {region.buffer.size >> 10:,} KiB): "
        f"{standing.seconds * 1e9:.0f} ns, {standing.excess:+.0%}, late in {standing.votes} of {standing.passes} passes"
    )


def _diagnoses(outcome: Outcome, seen: Comparison) -> Iterator[Diagnosis]:
    if not seen.outstanding:
        return
    standings = {index: region for index, region in enumerate(seen.regions) if region and region.stands_out}
    worst = sorted(standings, key=lambda index: -standings[index].excess)
    lines = [_name(outcome, index, standings[index]) for index in worst[:NAMED]]
    if len(worst) > NAMED:
        lines.append(f"and {len(worst) - NAMED} more, see the region map")
    lines.append("A virtual address is no place on a chip, and it is another one in the next run.")
    fault = CATALOGUE["slow_region"]
    for measurement in ("latency.region_excess", "latency.region_excess_confirmed"):
        yield Diagnosis(fault.name, fault.title, measurement, tuple(lines), fault.advice)


def _second_look(outcome: Outcome, seen: Comparison) -> list[str]:
    second = outcome.second
    again = None if second is None or isinstance(second, Absent) else second.comparison
    if again is None or not seen.outstanding:
        return []
    if not again.outstanding:
        return ["What stood out in the first allocation did not in a second one: it is not confirmed."]
    if set(again.outstanding) == set(seen.outstanding):
        return [
            "The same places of the allocation are late again though it was shifted: the cause may be how they are "
            "mapped, and not where their pages lie."
        ]
    named = ", ".join(str(index) for index in again.outstanding[:NAMED])
    return [f"In a second, shifted allocation regions {named} stand out: the lateness moved with the pages."]


def _tables(outcome: Outcome, seen: Comparison | None) -> tuple[Table, ...]:
    made = [_coverage(outcome)]
    if seen is not None:
        made.append(_region_map(outcome, seen))
    made.append(_over_time(outcome.seen))
    return tuple(table for table in made if table.rows)


def _region_map(outcome: Outcome, seen: Comparison) -> Table:
    rows: list[tuple[Cell, ...]] = []
    absent = Absent(AbsenceKind.NOT_TESTED, "no walk over this region came to its end")
    for index, (region, standing) in enumerate(zip(outcome.first.regions, seen.regions, strict=True)):
        cycles = [walk.cycles for one in outcome.first.walks if (walk := one[index])]
        place: tuple[Cell, ...] = (index, f"0x{region.buffer.address:x}", region.chunk, region.buffer.size)
        if standing is None:
            rows.append((*place, absent, absent, absent, absent))
            continue
        figures = (standing.seconds, round(statistics.median(cycles), 1), round(standing.excess, 4), standing.votes)
        rows.append((*place, *figures))
    columns = (
        Column("region", _COUNT),
        Column("address"),
        Column("chunk", _COUNT),
        Column("bytes", Unit.BYTE),
        Column("latency", _SECOND),
        Column("cycles", _COUNT),
        Column("excess", _RATIO),
        Column("late_passes", _COUNT),
    )
    chart = Chart.heat_map("latency", "region", hover=("excess", "late_passes", "address", "bytes"))
    return Table("region_map", "Latency of each region of the memory", columns, tuple(rows), chart)


def _coverage(outcome: Outcome) -> Table:
    timed = sum(region.buffer.size for region in outcome.first.regions)
    title = "Where every byte of the device is accounted for"
    return Table(
        "coverage", title, (Column("reason"), Column("bytes", Unit.BYTE)), (("timed", timed), *outcome.untested)
    )


def _over_time(seen: Sequence[tuple[float, Conditions]]) -> Table:
    columns = (
        Column("time", _SECOND),
        Column("temperature", Unit.CELSIUS),
        Column("core_clock", Unit.HERTZ),
        Column("memory_clock", Unit.HERTZ),
    )
    rows = tuple(
        (round(time, 6), *(_cell(reading) for reading in (now.temperature, now.core_clock, now.memory_clock)))
        for time, now in seen
    )
    return Table("conditions", "Conditions over time", columns, rows)


def _cell(reading: Reading) -> Cell:
    return reading.value if isinstance(reading, Quantity) else reading
