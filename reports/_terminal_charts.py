"""Charts in a terminal: a heat map as lines of blocks, a curve as a short table, a matrix in columns that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mats.model import Chart, ChartKind, Quantity, Table, Unit

from ._charts import (
    UNSEEN,
    HeatMap,
    cells_of,
    curve_grid,
    heat_map,
    histogram_grid,
    marks_words,
    matrix_grid,
    place_noun,
    unit_of,
)
from ._format import plural, printable, quantity_text
from ._grid import Grid
from ._part_tables import cell_part, columns_of
from ._terminal import heading, line, note
from ._terminal_grid import fits, print_grid

if TYPE_CHECKING:
    from rich.console import Console

BLOCKS = "\u2581\u2582\u2583\u2584\u2586\u2587\u2588"
MARKS = ".:-=+*#"
"""Marks of a heat map from the lowest to the highest, the median in the middle: with blocks, and in plain letters."""

_POINTS = 14
_LINES = 4


def print_chart(console: Console, table: Table, chart: Chart, blocks: bool) -> None:
    """The table as its chart shows it; ``blocks``: whether the terminal has block characters."""
    if chart.kind is ChartKind.HEAT_MAP:
        _print_heat_map(console, table, chart, BLOCKS if blocks else MARKS)
    elif chart.kind is ChartKind.MATRIX:
        _print_matrix(console, matrix_grid(table, chart))
    else:
        grid = curve_grid(table, chart, _POINTS) if chart.kind is ChartKind.CURVE else histogram_grid(table, chart)
        if grid:
            print_grid(console, grid)


def _print_heat_map(console: Console, table: Table, chart: Chart, marks: str) -> None:
    names = _places(table, chart)
    label = max((len(name) for name in names), default=0)
    width = _round(console.width - label - 1)
    seen = heat_map(table, chart, width * _LINES)
    if seen is None:
        return
    heading(console, table.title or table.name)
    steps = len(marks) // 2
    drawn = "".join(_mark(seen, index, marks, steps) for index in seen.groups)
    for start in range(0, len(drawn), width):
        name = names[start * seen.each]
        line(console, None, f"{name:>{label}} {drawn[start : start + width]}")
    note(console, _scale_words(seen, chart, marks, unit_of(table, chart.value) or Unit.COUNT))


def _round(room: int) -> int:
    """The marks of one line: a power of two, or half as many more, so that their places are easily counted."""
    power = 1 << max(room, 16).bit_length() - 1
    return power * 3 // 2 if power * 3 // 2 <= room else power


def _places(table: Table, chart: Chart) -> list[str]:
    if not chart.x:
        return [f"{at:,}" for at in range(len(table.rows))]
    return [printable(f"{cell:,}" if isinstance(cell, int) else cell_part(cell)) for cell in cells_of(table, chart.x)]


def _mark(seen: HeatMap, index: int, marks: str, steps: int) -> str:
    value = seen.values[index]
    return UNSEEN if value is None else marks[steps + seen.level(value, steps)]


def _scale_words(seen: HeatMap, chart: Chart, marks: str, unit: Unit) -> str:
    middle = Quantity(seen.median, unit)
    told = f"{marks_words(chart, seen)}: {marks[len(marks) // 2]} is the median of {quantity_text(middle)}, "
    told += f"{marks[0]} {quantity_text(Quantity(seen.low, unit), middle)}, "
    told += f"{marks[-1]} {quantity_text(Quantity(seen.high, unit), middle)}"
    unseen = sum(value is None for value in seen.values)
    return f"{told}, {UNSEEN} not seen ({plural(unseen, place_noun(chart))})" if unseen else told


def _print_matrix(console: Console, grid: Grid | None) -> None:
    """All columns where they fit, otherwise in blocks, each with the heads of the rows."""
    for part in _blocks(grid, console.width) if grid else ():
        print_grid(console, part)


def _blocks(grid: Grid, width: int) -> Iterator[Grid]:
    """The grid cut into as few parts as fit into ``width``, as even as can be; a column is never left out."""
    across = len(grid.heads) - 1
    for parts in range(1, across + 1):
        each = -(-across // parts)
        made = [_columns(grid, start, min(start + each, across)) for start in range(0, across, each)]
        if all(fits(part, width) for part in made) or each == 1:
            yield from (replace(part, note="") for part in made[:-1])
            yield made[-1]
            return


def _columns(grid: Grid, start: int, end: int) -> Grid:
    kept = (0, *range(start + 1, end + 1))
    span = f": {grid.heads[start + 1]} to {grid.heads[end]}" if end - start < len(grid.heads) - 1 else ""
    return replace(columns_of(grid, kept), title=f"{grid.title}{span}")
