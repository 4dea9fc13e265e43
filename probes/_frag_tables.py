"""Tables of the fragmentation analysis: the caches, what is stuck, free sizes, the map, the past, who holds what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mats.facts.allocator import BlockState, CacheFacts, SegmentFacts, ShareFacts
from mats.model import AbsenceKind, Absent, Cell, Chart, Column, Quantity, Reading, Table, Unit

if TYPE_CHECKING:
    from ._frag_results import Named

ROWS_MAXIMUM = 30
"""Of tables that name code."""
SEGMENTS_MAXIMUM = 20_000
_BYTE, _COUNT, _RATIO = Unit.BYTE, Unit.COUNT, Unit.RATIO
NO_CODE = "not recorded"
_FIGURES = {
    "reserved": _BYTE, "allocated": _BYTE, "pending": _BYTE, "cached": _BYTE, "returnable": _BYTE, "stuck": _BYTE,
    "stuck_share": _RATIO, "reach": _BYTE, "largest_free": _BYTE, "rounding": _BYTE,
}  # fmt: skip
"""Figures of a cache that stand in its row, by the names of their measurements."""
_UNCOUNTED = Absent(AbsenceKind.NOT_FOUND, "blocks from before the record are not counted")


def tables(named: Sequence[Named], timeline: bool) -> tuple[Table, ...]:
    """All that have a row; those of the past where they were asked for."""
    made = [_caches(named), _stuck(named), _extents(named), _holders(named), _segments(named), *_grown(named)]
    if timeline:
        made += [_history(named), _peak(named), _lasting(named)]
    return tuple(table for table in made if table.rows)


def cell(reading: Reading) -> Cell:
    return reading.value if isinstance(reading, Quantity) else reading


def code(cache: CacheFacts, stack: int) -> str:
    """The innermost places of the code that asked, outermost last."""
    lines = cache.stacks[stack] if 0 <= stack < len(cache.stacks) else ()
    return " < ".join(lines[:4]) or NO_CODE


def _caches(named: Sequence[Named]) -> Table:
    columns = (
        Column("cache"),
        Column("allocator"),
        Column("written by"),
        *(Column(key.replace("_", " "), unit) for key, unit in _FIGURES.items()),
        Column("segments", _COUNT),
        Column("free blocks", _COUNT),
    )
    rows = [_cache_row(each) for each in named]
    told = [at for at in range(len(columns)) if any(not isinstance(row[at], Absent) for row in rows)]
    kept = tuple(tuple(row[at] for at in told) for row in rows)
    return Table("caches", "What each cache holds", tuple(columns[at] for at in told), kept)


def _cache_row(each: Named) -> tuple[Cell, ...]:
    cache = each.cache
    figures = tuple(cell(each.figures[key]) for key in _FIGURES)
    return (each.name, cache.allocator.value, cache.writer, *figures, cell(cache.segments), cell(cache.free_blocks))


def _stuck(named: Sequence[Named]) -> Table:
    columns = (Column("cache"), Column("held by"), Column("stuck", _BYTE))
    rows: list[tuple[Cell, ...]] = []
    for each in named:
        kinds = (
            ("live blocks between", each.cache.stuck.gaps),
            ("another stream", each.cache.stuck.other_stream),
            ("private pools", each.cache.stuck.private_pool),
            ("segments for small requests", each.cache.stuck.small_pool),
        )
        rows += [
            (each.name, words, reading.value)
            for words, reading in kinds
            if isinstance(reading, Quantity) and reading.value
        ]
    return Table("stuck", "Free memory that emptying the cache does not give back", columns, tuple(rows))


def _extents(named: Sequence[Named]) -> Table:
    columns = (Column("cache"), Column("at_least", _BYTE), Column("blocks", _COUNT), Column("bytes", _BYTE))
    rows = tuple(
        (each.name, extent.least, extent.blocks, extent.size) for each in named for extent in each.cache.extents
    )
    chart = Chart.curve("at_least", "bytes", "cache", log_x=True)
    return Table("extents", "Free blocks by size: from so many bytes to twice as many", columns, rows, chart)


def _free(segment: SegmentFacts) -> int:
    return sum(block.size for block in segment.blocks if block.state is BlockState.FREE)


def _segments(named: Sequence[Named]) -> Table:
    columns = (
        Column("segment", _COUNT),
        Column("cache"),
        Column("address"),
        Column("bytes", _BYTE),
        Column("free", _BYTE),
        Column("free_share", _RATIO),
        Column("blocks", _COUNT),
        Column("serves"),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in named:
        for number, segment in enumerate(each.cache.map):
            free = _free(segment)
            rows.append(
                (
                    number,
                    each.name,
                    f"0x{segment.address:x}",
                    segment.size,
                    free,
                    round(free / segment.size, 4) if segment.size else 0.0,
                    len(segment.blocks),
                    _serves(segment),
                )
            )
    chart = Chart.heat_map("free_share", "segment", hover=("address", "bytes", "free", "blocks", "serves"))
    title = "Segments by address, and how much of each is free"
    return Table("segments", title, columns, tuple(rows[:SEGMENTS_MAXIMUM]), chart)


def _serves(segment: SegmentFacts) -> str:
    words = ["small requests" if segment.small else "large requests"]
    if segment.stream:
        words.append(f"stream {segment.stream:#x}")
    if segment.pool:
        words.append(f"pool {segment.pool}")
    if segment.expandable:
        words.append("expandable")
    return ", ".join(words)


def _holders(named: Sequence[Named]) -> Table:
    """Whose live blocks keep free memory from being given back: of segments that are partly free."""
    columns = (
        Column("cache"),
        Column("code"),
        Column("live", _BYTE),
        Column("keeps", _BYTE),
        Column("segments", _COUNT),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in named:
        kept: dict[int, list[int]] = {}
        for segment in each.cache.map:
            free = _free(segment)
            live = [block for block in segment.blocks if block.state is BlockState.USED]
            if not (free and live) or segment.pool:
                continue
            for stack in {block.stack for block in live}:
                share = kept.setdefault(stack, [0, 0, 0])
                share[0] += sum(block.size for block in live if block.stack == stack)
                share[1] += free
                share[2] += 1
        ordered = sorted(kept.items(), key=lambda item: (-item[1][1], item[0]))
        rows += [(each.name, code(each.cache, stack), *share) for stack, share in ordered[:ROWS_MAXIMUM]]
    return Table(
        "holders", "Whose live blocks lie in partly free segments, and how much is free in these", columns, tuple(rows)
    )


def _history(named: Sequence[Named]) -> Table:
    dated = all(
        isinstance(moment.second, Quantity)
        for each in named
        if not isinstance(each.cache.history, Absent)
        for moment in each.cache.history.moments
    )
    columns = (
        Column("second", Unit.SECOND) if dated else Column("event", _COUNT),
        Column("bytes", _BYTE),
        Column("what"),
    )
    rows: list[tuple[Cell, ...]] = []
    for each in named:
        if isinstance(each.cache.history, Absent):
            continue
        for what in ("allocated", "reserved"):
            rows += [
                (cell(moment.second) if dated else moment.event, getattr(moment, what), _series(named, each, what))
                for moment in each.cache.history.moments
            ]
    return Table("history", "Memory over time", columns, tuple(rows), Chart.curve(columns[0].name, "bytes", "what"))


def _series(named: Sequence[Named], each: Named, what: str) -> str:
    return what if len(named) == 1 else f"{each.name}: {what}"


def _by_code(each: Named, shares: Sequence[ShareFacts]) -> list[tuple[Cell, ...]]:
    return [(each.name, code(each.cache, share.stack), share.size, share.blocks) for share in shares[:ROWS_MAXIMUM]]


_CODE_COLUMNS = (Column("cache"), Column("code"), Column("bytes", _BYTE), Column("blocks", _COUNT))


def _peak(named: Sequence[Named]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for each in named:
        past = each.cache.history
        if isinstance(past, Absent):
            continue
        rows += _by_code(each, past.at_peak)
        if past.before:
            rows.append((each.name, "had before the record begins", past.before, _UNCOUNTED))
    return Table("peak", "Who held the memory at the peak", _CODE_COLUMNS, tuple(rows))


def _lasting(named: Sequence[Named]) -> Table:
    rows = [
        row
        for each in named
        if not isinstance(each.cache.history, Absent)
        for row in _by_code(each, each.cache.history.lasting)
    ]
    return Table("lasting", "What was had within the record and never given back", _CODE_COLUMNS, tuple(rows))


def _grown(named: Sequence[Named]) -> Iterator[Table]:
    """Live memory by code, in the later of two readings against the earlier."""
    from ._frag_results import pairs

    columns = (Column("code"), Column("before", _BYTE), Column("after", _BYTE), Column("grown", _BYTE))
    for number, (first, second) in enumerate(pairs(named)):
        before, after = _live(first.cache), _live(second.cache)
        grown = {key: after.get(key, 0) - before.get(key, 0) for key in before.keys() | after.keys()}
        ordered = sorted((key for key in grown if grown[key]), key=lambda key: (-grown[key], key))
        rows = tuple((key, before.get(key, 0), after.get(key, 0), grown[key]) for key in ordered[:ROWS_MAXIMUM])
        title = f"What grew from {first.cache.origin} to {second.cache.origin}"
        yield Table("grown" if not number else f"grown_{number + 1}", title, columns, rows)


def _live(cache: CacheFacts) -> dict[str, int]:
    held: dict[str, int] = {}
    for segment in cache.map:
        for block in segment.blocks:
            if block.state is BlockState.USED:
                words = code(cache, block.stack)
                held[words] = held.get(words, 0) + block.size
    return held
