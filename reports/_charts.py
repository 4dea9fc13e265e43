"""What a table's chart says, as values and as text: the same figures for every report that draws or prints it.

Nothing here knows a table's name: all follows from :class:`mats.model.Chart`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mats.model import Absent, Cell, Chart, Column, Table, Unit

from ._format import Scale, number_text, plural, printable, scale_for, spelled
from ._grid import NOT_SEEN, Grid, cell_words, grid_of
from ._part_tables import cell_part
from ._parts import sorted_parts

Number = int | float

UNREMARKABLE = 0.1
"""A heat map's colours reach at least this share to either side of the median, so that noise looks like noise."""

DIAGONAL = "-"
UNSEEN = "?"

_HUGE = 1e300
"""What is no measured number; beyond it differences of two would overflow."""

_BAR = 24
_BINS = 12
_DECADE = 10


def cells_of(table: Table, name: str) -> tuple[Cell, ...]:
    """The cells of a column of the table."""
    at = next(index for index, column in enumerate(table.columns) if column.name == name)
    return tuple(row[at] for row in table.rows)


def unit_of(table: Table, name: str) -> Unit | None:
    return next(column.unit for column in table.columns if column.name == name)


def drawable(cell: Cell, logarithmic: bool = False) -> Number | None:
    """The number of a cell that can be drawn, on a logarithmic axis or not; None for any other cell."""
    if not isinstance(cell, int | float) or abs(cell) >= _HUGE or (logarithmic and cell <= 1 / _HUGE):
        return None
    return cell


def numbers_of(cells: Sequence[Cell]) -> list[Number]:
    return [number for cell in cells if (number := drawable(cell)) is not None]


def told(name: str, cell: Cell, unit: Unit | None) -> str:
    """A cell with its column's name, for one who points at it: ``latency 560.0 ns``."""
    return f"{printable(spelled(name))} {cell_words(cell, unit)}"


# --- heat map


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Places in their order. ``groups``: for each mark the rows it stands for, the telling one of them first.

    ``low`` and ``high`` are where the colours end: the lowest and the highest value, or 10 % from the median.
    """

    values: tuple[Number | None, ...]
    groups: tuple[int, ...]
    each: int
    low: float
    median: float
    high: float

    def level(self, value: Number, steps: int) -> int:
        """From ``-steps`` to ``steps``, 0 at the median."""
        reach = self.high - self.median if value > self.median else self.median - self.low
        return max(-steps, min(steps, round(steps * (value - self.median) / reach))) if reach else 0


def heat_map(table: Table, chart: Chart, most: int) -> HeatMap | None:
    """At most ``most`` marks; where there are more places, one mark tells of several: of the farthest from the median.

    None where nothing was seen.
    """
    cells = cells_of(table, chart.value)
    values = tuple(drawable(cell) for cell in cells)
    seen = numbers_of(cells)
    if not seen:
        return None
    median = statistics.median(seen)
    least = abs(median) * UNREMARKABLE
    each = -(-len(values) // most)

    def distance(index: int) -> float:
        value = values[index]
        return -1.0 if value is None else abs(value - median)

    groups = tuple(
        max(range(start, min(start + each, len(values))), key=distance) for start in range(0, len(values), each)
    )
    low, high = min(min(seen), median - least), max(max(seen), median + least)
    return HeatMap(values, groups, each, float(low), float(median), float(high))


def place_noun(chart: Chart) -> str:
    return printable(spelled(chart.x)) if chart.x else "place"


def marks_words(chart: Chart, seen: HeatMap) -> str:
    """What one mark of a heat map stands for."""
    if seen.each == 1:
        return f"one mark for each {place_noun(chart)}"
    return f"one mark for {plural(seen.each, place_noun(chart))}, by that farthest from the median"


# --- histogram


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins from the lowest to the highest value: ``edges`` has one more than ``counts``."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


def bins_of(values: Sequence[Number], most: int) -> Bins:
    """The values in about as many bins as their number is worth (twice its cube root), at most ``most``."""
    low, high = float(min(values)), float(max(values))
    count = min(most, max(1, round(2 * len(values) ** (1 / 3)))) if high > low else 1
    width = (high - low) / count
    counts = [0] * count
    for value in values:
        counts[min(int((value - low) / width), count - 1) if width else 0] += 1
    return Bins((*(low + width * at for at in range(count)), high), tuple(counts))


def histogram_grid(table: Table, chart: Chart, most: int = _BINS) -> Grid | None:
    """Bins with their counts, and a bar of each."""
    values = numbers_of(cells_of(table, chart.value))
    if not values:
        return None
    bins, scale = bins_of(values, most), scale_for(unit_of(table, chart.value) or Unit.COUNT, values)
    edges = [number_text(edge, scale) for edge in bins.edges]
    rows = tuple(
        (edges[at], edges[at + 1], f"{count:,}", bar(count, max(bins.counts))) for at, count in enumerate(bins.counts)
    )
    unit = f" [{scale.unit}]" if scale.unit else ""
    name = printable(spelled(chart.value))
    heads = (f"{name} from{unit}", f"to{unit}", "n", "share of the most frequent")
    return Grid(table.name, histogram_title(chart), heads, rows, (True, True, True, False))


def histogram_title(chart: Chart) -> str:
    return f"Distribution of {printable(spelled(chart.value))}"


def bar(value: float, top: float) -> str:
    """A bar of ``#``; what is not zero is never without one."""
    return "#" * (max(1, round(_BAR * value / top)) if value > 0 and top > 0 else 0)


# --- curve


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a curve: the indices of its rows, by ascending x."""

    name: str
    rows: tuple[int, ...]


def lines_of(table: Table, chart: Chart) -> tuple[Line, ...]:
    """The lines in the order in which the table has them; a row without x or value is on none."""
    xs, ys = cells_of(table, chart.x), cells_of(table, chart.value)
    names = cells_of(table, chart.series) if chart.series else ("",) * len(xs)
    lines: dict[str, list[tuple[Number, int]]] = {}
    for index, (x, y, name) in enumerate(zip(xs, ys, names, strict=True)):
        place = drawable(x, chart.log_x)
        if place is not None and drawable(y, chart.log_y) is not None:
            lines.setdefault(cell_part(name) or (NOT_SEEN if chart.series else ""), []).append((place, index))
    return tuple(
        Line(printable(name), tuple(index for _, index in sorted(points, key=lambda point: point[0])))
        for name, points in lines.items()
    )


def curve_grid(table: Table, chart: Chart, most: int) -> Grid | None:
    """The curve in at most ``most`` rows, evenly chosen: x, and a column for each line; of a single line with a bar."""
    lines = lines_of(table, chart)
    if not lines:
        return None
    xs = cells_of(table, chart.x)
    places: dict[Cell, dict[str, int]] = {}
    for line in lines:
        for index in line.rows:
            places.setdefault(xs[index], {})[line.name] = index
    if len(lines) > 1 and sum(len(found) for found in places.values()) * 2 < len(places) * len(lines):
        return grid_of(table, most)  # the lines share no places: side by side most cells would be empty
    chosen = _evenly(sorted(places, key=lambda x: x if isinstance(x, int | float) else 0), most)
    note = ""
    if len(chosen) < len(places):
        note = f"{len(chosen)} of {len(places):,} points; the HTML report and the saved run (JSON) have them all"
    rows = [places[x] for x in chosen]
    grid = _single_line(table, chart, rows) if len(lines) == 1 else _side_by_side(table, chart, lines, rows)
    return replace(grid, note=note)


def _evenly(items: Sequence[Cell], most: int) -> list[Cell]:
    """The first, the last, and those at equal steps between them."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _single_line(table: Table, chart: Chart, rows: Sequence[dict[str, int]]) -> Grid:
    indices = [index for row in rows for index in row.values()]
    names = dict.fromkeys((chart.x, *chart.hover, chart.value))
    columns = tuple(next(column for column in table.columns if column.name == name) for name in names)
    kept = tuple(tuple(cells_of(table, name)[index] for name in names) for index in indices)
    grid = grid_of(Table(table.name, table.title, columns, kept, replace(chart, series="")))
    ys = cells_of(table, chart.value)
    heights = numbers_of([ys[index] for index in indices])
    bars = [_height(value, heights, chart.log_y) for value in heights]
    return replace(
        grid,
        heads=(*grid.heads, "logarithmic scale" if chart.log_y else "share of the highest"),
        rows=tuple((*row, bar(height, 1.0)) for row, height in zip(grid.rows, bars, strict=True)),
        numeric=(*grid.numeric, False),
    )


def _height(value: Number, values: Sequence[Number], logs: bool) -> float:
    """The share of a bar that a value fills; on a logarithmic axis one decade below the lowest is nothing."""
    top = max(values)
    if not logs:
        return value / top if top > 0 else 0.0
    floor = min(values) / _DECADE
    return math.log(value / floor) / math.log(top / floor)


def _side_by_side(table: Table, chart: Chart, lines: Sequence[Line], rows: Sequence[dict[str, int]]) -> Grid:
    xs, ys = cells_of(table, chart.x), cells_of(table, chart.value)
    missing: Cell = ""
    unit = unit_of(table, chart.value)
    columns = (Column(chart.x, unit_of(table, chart.x)), *(Column(line.name, unit) for line in lines))
    body = tuple(
        (xs[next(iter(row.values()))], *(ys[row[line.name]] if line.name in row else missing for line in lines))
        for row in rows
    )
    alone = tuple(column.name for column in columns if (chart.log_x if column.name == chart.x else chart.log_y))
    return grid_of(Table(table.name, table.title, columns, body), alone=alone)


# --- matrix


@dataclass(frozen=True, slots=True)
class Square:
    """A matrix: ``rows`` down, ``columns`` across, and the row of the table for each pair that it tells of."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], int]


def square_of(table: Table, chart: Chart) -> Square:
    """Both ends in natural order; those of one kind (some are rows as well as columns) on both sides."""
    downs = [cell_part(cell) for cell in cells_of(table, chart.row)]
    acrosses = [cell_part(cell) for cell in cells_of(table, chart.column)]
    rows, columns = sorted_parts(downs), sorted_parts(acrosses)
    if set(rows) & set(columns):
        rows = columns = sorted_parts((*rows, *columns))
    return Square(rows, columns, {pair: at for at, pair in enumerate(zip(downs, acrosses, strict=True))})


def matrix_scale(table: Table, chart: Chart) -> Scale | None:
    """The one scale of all numbers of a matrix; None where it holds words."""
    numbers = numbers_of(cells_of(table, chart.value))
    unit = unit_of(table, chart.value)
    return scale_for(unit or Unit.COUNT, numbers) if numbers or unit else None


def matrix_text(pair: tuple[str, str], square: Square, values: Sequence[Cell], scale: Scale | None) -> str:
    """What stands in a cell: a number or a word, ``-`` on the diagonal, ``?`` for what was not seen."""
    if pair not in square.cells:
        return DIAGONAL if pair[0] == pair[1] else ""
    cell = values[square.cells[pair]]
    if isinstance(cell, Absent):
        return UNSEEN
    return number_text(cell, scale) if scale and isinstance(cell, int | float) else printable(str(cell))


def matrix_grid(table: Table, chart: Chart) -> Grid | None:
    """The matrix with its unit in the title."""
    square, values, scale = square_of(table, chart), cells_of(table, chart.value), matrix_scale(table, chart)
    if not square.rows or not square.columns:
        return None
    rows = tuple(
        (printable(down), *(matrix_text((down, across), square, values, scale) for across in square.columns))
        for down in square.rows
    )
    unit = f" [{scale.unit}]" if scale and scale.unit else ""
    heads = (
        printable(f"{spelled(chart.row)}\\{spelled(chart.column)}"),
        *(printable(across) for across in square.columns),
    )
    unseen = any(isinstance(cell, Absent) for cell in values)
    note = f"{UNSEEN}: not seen, the reasons are told below" if unseen else ""
    return Grid(
        table.name, f"{table.title or table.name}{unit}", heads, rows, (False, *(True for _ in square.columns)), note
    )
