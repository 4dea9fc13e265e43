"""From the rungs of a ladder to the levels of caches and memory: pure functions, which inform and never judge.

A level is a flat stretch: working sets of several sizes whose loads take the same. On a host it is named by the sizes
of caches that the system tells; on a GPU by the size of its L2 cache, since no driver tells that of L1.
"""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mats.model import (
    Absent,
    Cell,
    Chart,
    Column,
    Measurement,
    Observation,
    Quantity,
    Table,
    TargetInfo,
    Unit,
)

from ._latency_climb import Rung
from ._latency_references import READ, SOURCES, Reference, references

FLAT = 0.08
"""The slowest of a level's rungs takes at most so much longer than its fastest."""
FEWEST_RUNGS = 3
MEMORY = "memory"
LIKE_MEMORY = 0.8
"""Of the memory's latency: what takes longer is no cache, whatever its size should hold."""
FIRST_CACHE = 32 << 10
"""On a GPU the first level is L1 when it begins below; every GPU of today has more of it."""
GROWTH_TOLD = 0.01
_CACHE = re.compile(r"(L\d) (\d+) KiB")


@dataclass(frozen=True, slots=True)
class Plateau:
    """Rungs ``first`` to ``last`` (inclusive) are flat."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Level:
    """A cache, a slower part of one, or the memory. ``growth``: the last rung's time over the first one's, less one.

    One that is not ``flat`` has no plateau: its only one is then all that lies well within its size.
    """

    name: str
    plateaus: tuple[Plateau, ...]
    seconds: float
    growth: float
    flat: bool = True


def find_plateaus(values: Sequence[float]) -> tuple[Plateau, ...]:
    """Flat stretches of at least three values, the earliest first."""
    found: list[Plateau] = []
    start = 0
    while start < len(values):
        low = high = values[start]
        end = start
        while end + 1 < len(values):
            low, high = min(low, values[end + 1]), max(high, values[end + 1])
            if high > (1 + FLAT) * low:
                break
            end += 1
        if end - start + 1 >= FEWEST_RUNGS:
            found.append(Plateau(start, end))
            start = end
        start += 1
    return tuple(found)


def caches_of(info: TargetInfo) -> tuple[tuple[str, int], ...]:
    """Names and bytes of the caches that the device tells of, the smallest first."""
    told = _CACHE.findall(dict(info.identity).get("caches", ""))
    if told:
        return tuple((name, int(size) << 10) for name, size in told)
    size = info.cache_size
    return (("L1", FIRST_CACHE), ("L2", int(size.value))) if isinstance(size, Quantity) else ()


def name_levels(sizes: Sequence[int], values: Sequence[float], caches: Sequence[tuple[str, int]]) -> tuple[Level, ...]:
    """The levels of a curve of latencies (in any unit) over working sets in bytes.

    A plateau belongs to the smallest cache that holds its middle; the first of a GPU's to L1. A second one of the same
    cache is a slower part of it. What takes as long as the memory is the memory, also where a cache that others use as
    well should have held it.
    """
    plateaus = find_plateaus(values)
    last = caches[-1][1] if caches else 0
    beyond = [value for size, value in zip(sizes, values, strict=True) if size >= 1.5 * last]
    memory = statistics.median(beyond) if beyond and caches else math.inf
    named: dict[str, list[Plateau]] = {}
    for plateau in plateaus:
        named.setdefault(_name(plateau, sizes, values, caches, memory, named), []).append(plateau)
    found = [_level(name, tuple(parts), values) for name, parts in named.items()]
    found += _uneven(sizes, values, [cache for cache in _ranges(caches) if cache[0] not in named])
    return tuple(sorted(found, key=lambda level: level.plateaus[0].first))


def _ranges(caches: Sequence[tuple[str, int]]) -> list[tuple[str, float, float]]:
    """Names, and the sizes of working sets that lie well within each: of caches that follow one another, and beyond."""
    told = len(caches) > 2 or caches[:1] != (("L1", FIRST_CACHE),)  # of a GPU the sizes of L1 and so of L2 are guesses
    bounds = [0, *(size for _, size in caches)]
    inside = [(name, 1.5 * bounds[index], 0.75 * size) for index, (name, size) in enumerate(caches) if told]
    return [*inside, (MEMORY, 1.5 * bounds[-1], math.inf)] if caches else []


def _uneven(
    sizes: Sequence[int], values: Sequence[float], ranges: Sequence[tuple[str, float, float]]
) -> Iterator[Level]:
    for name, least, most in ranges:
        inside = [index for index, size in enumerate(sizes) if least <= size <= most]
        if inside:
            level = _level(name, (Plateau(inside[0], inside[-1]),), values)
            fastest = min(values[index] for index in inside)  # what others leave of a cache is its smallest sets
            yield dataclasses.replace(level, flat=False, seconds=level.seconds if name == MEMORY else fastest)


def _name(
    plateau: Plateau,
    sizes: Sequence[int],
    values: Sequence[float],
    caches: Sequence[tuple[str, int]],
    memory: float,
    taken: dict[str, list[Plateau]],
) -> str:
    if not caches:
        return f"flat from {sizes[plateau.first] >> 10} KiB"
    if statistics.median(values[plateau.first : plateau.last + 1]) >= LIKE_MEMORY * memory:
        return MEMORY
    middle = math.sqrt(sizes[plateau.first] * sizes[plateau.last])
    name = next((name for name, size in caches if middle <= size), MEMORY)
    return f"{name}, slower part" if name in taken and name != MEMORY else name


def _level(name: str, parts: tuple[Plateau, ...], values: Sequence[float]) -> Level:
    inside = [value for part in parts for value in values[part.first : part.last + 1]]
    return Level(name, parts, statistics.median(inside), inside[-1] / inside[0] - 1)


def observe_ladder(ladder: tuple[Rung, ...] | Absent, info: TargetInfo) -> Observation:
    """Measurements, the curve and its levels."""
    if isinstance(ladder, Absent):
        return Observation((Measurement("latency.ladder", ladder),))
    sizes, values = [rung.size for rung in ladder], [rung.seconds for rung in ladder]
    caches = caches_of(info)
    levels = name_levels(sizes, values, caches)
    known = {reference.level: reference for reference in references(info)}
    measurements = tuple(
        Measurement(
            "latency.ladder",
            Quantity(level.seconds, Unit.SECOND),
            labels=(("level", level.name),),
            statistic=_of_what(level),
        )
        for level in levels
    )
    tables = (_curve(ladder, levels, info), _levels(ladder, levels, known, info))
    notes = (*_notes(ladder, levels, caches, info.kind), *_published(known, info))
    return Observation(measurements, tuple(table for table in tables if table.rows), notes=notes)


def _of_what(level: Level) -> str:
    count = sum(part.last - part.first + 1 for part in level.plateaus)
    if level.flat:
        return f"median of {count} working sets"
    return f"{'median' if level.name == MEMORY else 'fastest'} of {count} working sets, which are not flat"


def _curve(ladder: Sequence[Rung], levels: Sequence[Level], info: TargetInfo) -> Table:
    names = {
        index: level.name for level in levels for part in level.plateaus for index in range(part.first, part.last + 1)
    }
    cycles = info.kind != "host"
    columns = [Column("working_set", Unit.BYTE), Column("latency", Unit.SECOND)]
    columns += [Column("cycles", Unit.COUNT)] * cycles + [Column("level")]
    rows: list[tuple[Cell, ...]] = []
    for index, rung in enumerate(ladder):
        figures = (rung.size, rung.seconds, *([round(rung.cycles, 1)] * cycles))
        rows.append((*figures, names.get(index, "between")))
    chart = Chart.curve("working_set", "latency", hover=("level",), log_x=True, log_y=True)
    return Table("ladder", "Latency by the size of the working set", tuple(columns), tuple(rows), chart)


def _levels(ladder: Sequence[Rung], levels: Sequence[Level], known: dict[str, Reference], info: TargetInfo) -> Table:
    cycles = info.kind != "host"
    columns = [Column("level"), Column("from", Unit.BYTE), Column("to", Unit.BYTE), Column("latency", Unit.SECOND)]
    columns += [Column("cycles", Unit.COUNT)] * cycles + [Column("growth", Unit.RATIO)]
    columns += [Column("published"), Column("source")] if known else []
    rows: list[tuple[Cell, ...]] = []
    for level in levels:
        inside = [rung for part in level.plateaus for rung in ladder[part.first : part.last + 1]]
        row: list[Cell] = [level.name, inside[0].size, inside[-1].size, level.seconds]
        row += [round(statistics.median(rung.cycles for rung in inside), 1)] * cycles + [round(level.growth, 4)]
        if known:
            reference = known.get(level.name)
            row += [reference.words, reference.source] if reference else ["no figure is known", ""]
        rows.append(tuple(row))
    return Table("levels", "Caches and memory, as the latency shows them", tuple(columns), tuple(rows))


def _notes(
    ladder: Sequence[Rung], levels: Sequence[Level], caches: Sequence[tuple[str, int]], kind: str
) -> tuple[str, ...]:
    notes = ["The ladder of caches informs and is not judged: no vendor states what its levels must take."]
    memory = next((level for level in levels if level.name == MEMORY), None)
    if memory is None or not memory.flat:
        return (
            *notes,
            "Beyond the last cache no stretch of the ladder is flat: the device was busy, or pages are small.",
        )
    first = ladder[memory.plateaus[0].first].size
    if caches and first < caches[-1][1] / 2:
        notes.append(
            f"From {first / (1 << 20):g} MiB on loads take as long as from the memory, though {caches[-1][0]} has "
            f"{caches[-1][1] / (1 << 20):g} MiB: others use it as well, or it is shared out."
        )
    last = memory.plateaus[-1]
    ends = ladder[last.first], ladder[last.last]
    growth = ends[1].seconds / ends[0].seconds - 1
    if growth > GROWTH_TOLD and kind != "host":  # a host's other users make more of a difference
        notes.append(
            f"From {ends[0].size / (1 << 20):g} to {ends[1].size / (1 << 20):g} MiB the memory's latency grows by "
            f"{growth:.1%}, as where addresses of more pages have to be translated."
        )
    return tuple(notes)


def _published(known: dict[str, Reference], info: TargetInfo) -> tuple[str, ...]:
    """Where the published figures are from, or that there is none."""
    if info.origin_kind != "cuda":
        return ()
    keys = dict.fromkeys(key for reference in known.values() for key in reference.source.split(", "))
    if not keys:
        return (f"No published ladder of {info.title} is known to compare with.",)
    return (f"Published figures, read {READ}: {'; '.join(f'{key} is {SOURCES[key]}' for key in keys)}.",)
