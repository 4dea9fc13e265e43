"""Tables of text, as the console and the HTML page both show them: scaled, one prefix a column, named in the head."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mats.model import Absent, Cell, ChartKind, Column, Measurement, Quantity, Table, Unit

from ._format import duration_text, measurement_name, number_text, plural, printable, quantity_text, scale_for, spelled

SERIES = ("sweeps", "conditions")
"""Tables with a row for each moment: shown as their range, or in intervals, and in full only as JSON and CSV."""

_INTERVALS = 12

_MOMENTS = ("time", "from", "to")
"""Columns that say when, not how long; their prefix is their own."""


NOT_SEEN = "not seen"
"""What stands in a cell that is absent."""

_PREFIXED = (Unit.BYTE, Unit.SECOND, Unit.BYTE_PER_SECOND, Unit.HERTZ)
_FAR = 10_000
"""From this ratio of the highest to the lowest on, one prefix does not suit a column."""

_LONG = 7200
"""From this many seconds on a duration is told in hours and minutes."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Text in rows and columns. ``numeric`` columns are set flush right; ``note`` says what was left out."""

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    note: str = ""


def grid_of(table: Table, limit: int | None = None, *, alone: Sequence[str] = ()) -> Grid:
    """A table as text, at most its first ``limit`` rows; says how many were left out.

    Columns named ``alone``, and those of a curve that run over decades, have a prefix in each of their cells.
    """
    rows = table.rows if limit is None else table.rows[:limit]
    alone = (*alone, *_over_decades(table))
    columns = [
        _alone(column, [row[index] for row in rows])
        if column.name in alone
        else _column_of(column, [row[index] for row in rows], _beside(table, rows, index))
        for index, column in enumerate(table.columns)
    ]
    note = ""
    if len(rows) < len(table.rows):
        note = f"the first {len(rows):,} of {plural(len(table.rows), 'row')}; the saved run (JSON) has them all"
    return Grid(
        name=table.name,
        title=table.title,
        heads=tuple(head for head, _, _ in columns),
        rows=tuple(zip(*(cells for _, cells, _ in columns), strict=True)),
        numeric=tuple(numeric for _, _, numeric in columns),
        note=note,
    )


def _over_decades(table: Table) -> tuple[str, ...]:
    """The columns that a curve draws on a logarithmic axis, and those beside them that run as far."""
    chart = table.chart
    if chart is None or chart.kind is not ChartKind.CURVE:
        return ()
    named = [name for name, logs in ((chart.x, chart.log_x), (chart.value, chart.log_y)) if logs]
    for index, column in enumerate(table.columns):
        numbers = [cell for row in table.rows if isinstance(cell := row[index], int | float) and cell > 0]
        if column.unit in _PREFIXED and numbers and max(numbers) >= min(numbers) * _FAR:
            named.append(column.name)
    return tuple(named)


def _alone(column: Column, cells: Sequence[Cell]) -> tuple[str, tuple[str, ...], bool]:
    return printable(spelled(column.name)), tuple(cell_words(cell, column.unit) for cell in cells), True


def cell_words(cell: Cell, unit: Unit | None) -> str:
    """A cell with its unit, in the prefix that suits it alone; a size that is a whole number of it without decimals."""
    if isinstance(cell, int | float):
        scale = scale_for(unit or Unit.COUNT, (cell,))
        whole = unit is Unit.BYTE and float(cell / scale.divisor).is_integer()
        text = number_text(cell, replace(scale, decimals=0) if whole else scale)
        return f"{text} {scale.unit}" if scale.unit else text
    return cell_text(cell)


def _beside(table: Table, rows: Sequence[Sequence[Cell]], index: int) -> list[int | float]:
    """The numbers of the other columns of the same unit, but for moments: mean and deviation share their prefix."""
    unit = table.columns[index].unit
    if unit in (None, Unit.COUNT, Unit.RATIO) or table.columns[index].name in _MOMENTS:
        return []
    others = [
        at
        for at, column in enumerate(table.columns)
        if at != index and column.unit is unit and column.name not in _MOMENTS
    ]
    return [cell for row in rows for at in others if isinstance(cell := row[at], int | float)]


def _column_of(
    column: Column, cells: Sequence[Cell], beside: Sequence[int | float]
) -> tuple[str, tuple[str, ...], bool]:
    """Head, cells and whether they are set flush right."""
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    name = spelled(column.name)
    if column.unit is Unit.SECOND and column.name not in _MOMENTS and max(numbers, default=0) >= _LONG:
        told = (duration_text(cell) if isinstance(cell, int | float) else cell_text(cell) for cell in cells)
        return printable(name), tuple(told), True
    if column.unit is None:
        scale = scale_for(Unit.COUNT, numbers)
        head = name
    else:
        scale = scale_for(column.unit, numbers, beside)
        head = f"{name} [{scale.unit}]" if scale.unit else name
    texts = tuple(number_text(cell, scale) if isinstance(cell, int | float) else cell_text(cell) for cell in cells)
    return printable(head), texts, column.unit is not None or bool(numbers)


def cell_text(cell: str | Absent) -> str:
    """A cell that is no number, lines kept; an absent one is short, as its reason is told among what was not seen."""
    return NOT_SEEN if isinstance(cell, Absent) else "\n".join(printable(line) for line in cell.splitlines())


def clause(head: str, cell: str) -> str:
    """A head with its unit and a cell, as words: ``memory 79.65 GiB``."""
    name, bracket, unit = head.partition(" [")
    return f"{name} {cell} {unit.removesuffix(']')}" if bracket and cell != NOT_SEEN else f"{name} {cell}"


def readings_grid(measurements: Sequence[Measurement]) -> Grid:
    """Every reading that is there, with its unit and what it is a statistic of."""
    rows = tuple(
        (
            printable(measurement_name(measurement)),
            quantity_text(measurement.reading),
            printable(statistic_text(measurement)),
        )
        for measurement in measurements
        if isinstance(measurement.reading, Quantity)
    )
    return Grid("readings", "Readings", ("reading", "value", "of what"), rows, (False, True, False))


def statistic_text(measurement: Measurement) -> str:
    """What a reading is a statistic of, and of how many samples where the statistic does not say."""
    count = len(measurement.samples)
    if not count or f"{count}" in measurement.statistic.replace(",", ""):
        return measurement.statistic
    return f"{measurement.statistic}, n = {count:,}" if measurement.statistic else f"of {plural(count, 'sample')}"


def ranges_grid(table: Table) -> Grid | None:
    """First, lowest, highest and last value of every column with a unit but time; None when nothing was read."""
    rows = []
    for index, column in enumerate(table.columns):
        values = [row[index] for row in table.rows]
        numbers = [value for value in values if isinstance(value, int | float)]
        if column.name in ("time", "chunk") or column.unit is None or not numbers:
            continue
        scale = scale_for(column.unit, numbers)
        cells = (numbers[0], min(numbers), max(numbers), numbers[-1])
        head = f"{spelled(column.name)} [{scale.unit}]" if scale.unit else spelled(column.name)
        rows.append((printable(head), *(number_text(cell, scale) for cell in cells), f"{len(numbers):,}"))
    if not rows:
        return None
    heads = ("reading", "first", "lowest", "highest", "last", "n")
    return Grid(table.name, table.title, heads, tuple(rows), (False, True, True, True, True, True))


def intervals_grid(table: Table, value: str, group: str) -> Grid | None:
    """A long series as intervals of time: n, lowest, median and highest of column ``value``, by column ``group``."""
    names = [column.name for column in table.columns]
    if not {"time", value, group} <= set(names):
        return None
    time_at, value_at, group_at = names.index("time"), names.index(value), names.index(group)
    points = [
        (row[time_at], str(row[group_at]), row[value_at])
        for row in table.rows
        if isinstance(row[time_at], int | float) and isinstance(row[value_at], int | float)
    ]
    if not points:
        return None
    times = [float(time) for time, _, _ in points if isinstance(time, int | float)]
    start, width = min(times), (max(times) - min(times)) / _INTERVALS or 1.0
    cells: dict[tuple[int, str], list[float]] = {}
    for time, name, reading in points:
        assert isinstance(time, int | float) and isinstance(reading, int | float)
        slot = min(int((time - start) / width), _INTERVALS - 1)
        cells.setdefault((slot, name), []).append(float(reading))
    unit = table.columns[value_at].unit
    summary = Table(
        name=f"{table.name}_{value}",
        title=f"{value.replace('_', ' ')} over time",
        columns=(
            Column("from", Unit.SECOND),
            Column(group),
            Column("n", Unit.COUNT),
            Column("lowest", unit),
            Column("median", unit),
            Column("highest", unit),
        ),
        rows=tuple(
            (start + slot * width, name, len(values), min(values), statistics.median(values), max(values))
            for (slot, name), values in sorted(cells.items())
        ),
    )
    return grid_of(summary)


def absent_cells(table: Table) -> tuple[tuple[str, str], ...]:
    """For each column with absent cells: its name with their number, and their reasons."""
    lines = []
    for index, column in enumerate(table.columns):
        reasons = [cell.reason for row in table.rows if isinstance(cell := row[index], Absent)]
        if reasons:
            count = (
                "every cell" if len(reasons) == len(table.rows) else f"{len(reasons):,} of {len(table.rows):,} cells"
            )
            lines.append((f"{table.name}.{column.name} ({count})", "; ".join(dict.fromkeys(reasons))))
    return tuple(lines)
