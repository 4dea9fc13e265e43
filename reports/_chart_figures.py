"""A plot for each table with a chart, as a Plotly specification: a curve, a histogram, a heat map or a matrix.

Nothing here knows a table's name. The colours of maps are the page's (``plots.js``), so that they suit its ground.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mats.model import Cell, Chart, ChartKind, Observation, Quantity, Table, Unit

from ._charts import (
    HeatMap,
    Line,
    bins_of,
    cells_of,
    drawable,
    heat_map,
    histogram_grid,
    histogram_title,
    lines_of,
    marks_words,
    matrix_grid,
    matrix_scale,
    matrix_text,
    numbers_of,
    place_noun,
    square_of,
    told,
    unit_of,
)
from ._format import number_text, plural, printable, quantity_text, scale_for, spelled
from ._grid import grid_of
from ._part_tables import cell_part
from ._plot import COLOURS, MAX_ROWS, Figure, axis, colours, extremes, rounded

_MOST_MARKS = 6144
_MOST_BINS = 40
_TICKS = 9
_LINE_HEIGHT = 22
_AROUND_MAP = 90
_CELL_HEIGHT = 30
_CALM = "#7f8a99"
_TALL = 900
"""Pixels of the highest plot."""


def chart_figures(observation: Observation) -> tuple[Figure, ...]:
    """The plots of every table with a chart, in the order of the tables."""
    made = [figure for table in observation.tables if table.chart for figure in _figures(table, table.chart)]
    return tuple(replace(figure, key=f"chart-{number}") for number, figure in enumerate(made, start=1))


def _figures(table: Table, chart: Chart) -> Iterator[Figure]:
    if chart.kind is ChartKind.CURVE:
        yield from _curve(table, chart)
    elif chart.kind is ChartKind.MATRIX:
        yield from _matrix(table, chart)
    else:
        if chart.kind is ChartKind.HEAT_MAP:
            yield from _heat_map(table, chart)
        yield from _histogram(table, chart)


def _title(table: Table) -> str:
    return printable(table.title or table.name)


def _name(column: str) -> str:
    return printable(spelled(column))


def _hover(table: Table, names: Sequence[str], row: int) -> str:
    """What is told of a row to one who points at it; Plotly reads markup in it."""
    at = {column.name: index for index, column in enumerate(table.columns)}
    cells = table.rows[row]
    named = [name for name in dict.fromkeys(names) if name]
    return "<br>".join(html.escape(told(name, cells[at[name]], table.columns[at[name]].unit)) for name in named)


# --- curve


def _curve(table: Table, chart: Chart) -> Iterator[Figure]:
    """A line with its points for each value of the series."""
    lines = lines_of(table, chart)
    if not lines:
        return
    across, xs = _axis_of(table, chart.x, chart.log_x, lines)
    up, ys = _axis_of(table, chart.value, chart.log_y, lines)
    data, total, drawn = [], 0, 0
    for line, colour in zip(lines, colours(len(lines)), strict=True):
        kept = [line.rows[at] for at in extremes([ys[row] for row in line.rows])]
        total, drawn = total + len(line.rows), drawn + len(kept)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(line.name or _name(chart.value)),
                "x": rounded(xs[row] for row in kept),
                "y": rounded(ys[row] for row in kept),
                "text": [_hover(table, chart.columns, row) for row in kept],
                "hovertemplate": "%{text}<extra></extra>",
                "line": {"color": colour, "width": 1.5},
                "marker": {"color": colour, "size": 5},
            }
        )
    caption = f"{plural(total, 'point')}."
    if drawn < total:
        caption = f"{drawn:,} of {total:,} points drawn: the lowest and the highest of every stretch."
    layout = {"xaxis": across, "yaxis": up, "showlegend": len(lines) > 1}
    wide = len(lines) > len(COLOURS) or total > _TICKS * len(COLOURS)
    yield Figure("", _title(table), caption, tuple(data), layout, grid_of(table, MAX_ROWS), wide=wide)


def _axis_of(
    table: Table, name: str, logs: bool, lines: Sequence[Line]
) -> tuple[dict[str, Any], dict[int, int | float]]:
    """The axis of a column, and the numbers of its rows on that axis."""
    cells, unit = cells_of(table, name), unit_of(table, name) or Unit.COUNT
    values = {row: number for line in lines for row in line.rows if (number := drawable(cells[row])) is not None}
    if logs:
        ticks = _log_ticks(unit, min(values.values()), max(values.values()))
        scales = [scale_for(unit, (tick,)) for tick in ticks]
        words = [f"{tick / scale.divisor:g} {scale.unit}".rstrip() for tick, scale in zip(ticks, scales, strict=True)]
        return axis(_name(name), "") | {"type": "log", "tickvals": ticks, "ticktext": words}, values
    scale = scale_for(unit, list(values.values()))
    made = axis(_name(name), scale.unit) | {"rangemode": "tozero"}
    return made, {row: value / scale.divisor for row, value in values.items()}


def _log_ticks(unit: Unit, low: float, high: float) -> list[int | float]:
    """Few round numbers between the lowest and the highest: powers of two for sizes, of ten for all else."""
    base = 2 if unit is Unit.BYTE else 10
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    step = max(1, -(-(last - first) // _TICKS))
    ticks = [base**power if power >= 0 else float(base) ** power for power in range(first, last + 1, step)]
    if base == 10 and last - first <= 2:
        ticks = sorted([tick * times for tick in ticks for times in (1, 2, 5)])
    return [tick if isinstance(tick, int) else float(f"{tick:.6g}") for tick in ticks]


# --- heat map and histogram


def _heat_map(table: Table, chart: Chart) -> Iterator[Figure]:
    """The places in lines below one another, blue below the median, orange above it."""
    seen = heat_map(table, chart, _MOST_MARKS)
    if seen is None:
        return
    unit = unit_of(table, chart.value) or Unit.COUNT
    scale = scale_for(unit, [value for value in seen.values if value is not None])
    width = _width(len(seen.groups))
    starts = range(0, len(seen.groups), width)
    numbers = [None if (value := seen.values[row]) is None else value / scale.divisor for row in seen.groups]
    padded = [*numbers, *[None] * (len(starts) * width - len(numbers))]
    texts = [_hover(table, (chart.x, chart.value, *chart.hover), row) for row in seen.groups]
    texts += [""] * (len(padded) - len(texts))
    names = cells_of(table, chart.x) if chart.x else tuple(range(len(seen.values)))
    half = max(seen.median - seen.low, seen.high - seen.median) / scale.divisor
    middle = seen.median / scale.divisor
    trace = {
        "type": "heatmap",
        "z": [_cells(padded[start : start + width]) for start in starts],
        "y": [printable(cell_part(names[start * seen.each])) for start in starts],
        "text": [texts[start : start + width] for start in starts],
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "coloraxis": "coloraxis",
    }
    layout = {
        "xaxis": {"showticklabels": False, "ticks": "", "showgrid": False, "zeroline": False, "fixedrange": True},
        "yaxis": axis(place_noun(chart), "")
        | {"type": "category", "autorange": "reversed", "showgrid": False, "fixedrange": True},
        "coloraxis": {
            "cmin": middle - half,
            "cmid": middle,
            "cmax": middle + half,
            "colorbar": _colour_bar(chart, scale.unit),
        },
    }
    height = min(_TALL, max(_AROUND_MAP * 2, _AROUND_MAP + _LINE_HEIGHT * len(starts)))
    grid = grid_of(table, MAX_ROWS)
    yield Figure("", _title(table), _map_caption(chart, seen, unit), (trace,), layout, grid, height, wide=True)


def _colour_bar(chart: Chart, unit: str) -> dict[str, Any]:
    title = axis(_name(chart.value), unit)["title"] | {"side": "right"}
    return {"title": title, "thickness": 12}


def _cells(values: Sequence[int | float | None]) -> list[int | float | None]:
    return [None if value is None else rounded([value])[0] for value in values]


def _width(count: int) -> int:
    """Marks of one line: a power of two, so that places are easily counted; about eight times as wide as high."""
    return max(16, min(128, 1 << math.ceil(math.log2(max(1, math.sqrt(count * 8)))))) if count > 16 else count


def _map_caption(chart: Chart, seen: HeatMap, unit: Unit) -> str:
    middle = Quantity(seen.median, unit)
    low, high = (quantity_text(Quantity(value, unit), middle) for value in (seen.low, seen.high))
    unseen = sum(value is None for value in seen.values)
    gaps = f" {plural(unseen, place_noun(chart))} not seen: left empty." if unseen else ""
    return (
        f"{marks_words(chart, seen).capitalize()}: blue below and orange above the median of {quantity_text(middle)}, "
        f"from {low} to {high}.{gaps}"
    )


def _histogram(table: Table, chart: Chart) -> Iterator[Figure]:
    values = numbers_of(cells_of(table, chart.value))
    if not values:
        return
    bins = bins_of(values, _MOST_BINS)
    scale = scale_for(unit_of(table, chart.value) or Unit.COUNT, values)
    edges = [edge / scale.divisor for edge in bins.edges]
    unit = f" {scale.unit}" if scale.unit else ""
    words = [number_text(edge, scale) for edge in bins.edges]
    trace = {
        "type": "bar",
        "x": rounded((edges[at] + edges[at + 1]) / 2 for at in range(len(bins.counts))),
        "y": list(bins.counts),
        "width": float(f"{edges[-1] - edges[0]:.6g}") / len(bins.counts) or 1,
        "text": [f"{count:,}" if count else "" for count in bins.counts],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [f"{words[at]} to {words[at + 1]}{unit}: {count:,}" for at, count in enumerate(bins.counts)],
        "hoverinfo": "text",
        "marker": {"color": COLOURS[0]},
    }
    caption = f"{plural(len(values), 'value')} in {plural(len(bins.counts), 'bin')}."
    layout = {"xaxis": axis(_name(chart.value), scale.unit), "yaxis": axis("n", ""), "bargap": 0.05}
    grid = histogram_grid(table, chart, _MOST_BINS)
    if grid and chart.kind is ChartKind.HEAT_MAP:
        grid = replace(grid, name="")  # the table itself stands with the map
    yield Figure("", histogram_title(chart), caption, (trace,), layout, grid)


# --- matrix


def _matrix(table: Table, chart: Chart) -> Iterator[Figure]:
    """Each pair as a coloured cell with its number or word in it."""
    square, values, scale = square_of(table, chart), cells_of(table, chart.value), matrix_scale(table, chart)
    if not square.cells:
        return
    words = [word for word, _ in Counter(cell for cell in values if isinstance(cell, str)).most_common()]

    def shade(pair: tuple[str, str]) -> int | float | None:
        cell: Cell = values[square.cells[pair]] if pair in square.cells else ""
        if pair not in square.cells:
            return None
        number = drawable(cell)
        if scale is None:
            return words.index(cell) if isinstance(cell, str) else None
        return None if number is None else rounded([number / scale.divisor])[0]

    texts = {
        (down, across): html.escape(matrix_text((down, across), square, values, scale))
        for down in square.rows
        for across in square.columns
    }
    pairs = [[(down, across) for across in square.columns] for down in square.rows]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [printable(across) for across in square.columns],
        "y": [printable(down) for down in square.rows],
        "z": [[shade(pair) for pair in line] for line in pairs],
        "text": [[texts[pair] for pair in line] for line in pairs],
        "texttemplate": "%{text}",
        "customdata": [[_pair_hover(table, chart, square.cells.get(pair)) for pair in line] for line in pairs],
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
    }
    layout: dict[str, Any] = {
        "xaxis": axis(_name(chart.column), "") | {"type": "category", "side": "top", "showgrid": False},
        "yaxis": axis(_name(chart.row), "") | {"type": "category", "autorange": "reversed", "showgrid": False},
        "annotations": [
            {"x": printable(pair[1]), "y": printable(pair[0]), "text": texts[pair], "showarrow": False}
            for pair in texts
            if texts[pair] and shade(pair) is None
        ],
    }
    if scale is None:
        count = max(len(words), 1)  # none, where every cell is absent
        trace |= {"colorscale": _steps(count), "zmin": -0.5, "zmax": count - 0.5, "showscale": False}
    else:
        trace["coloraxis"] = "coloraxis"
        layout["coloraxis"] = {"colorbar": _colour_bar(chart, scale.unit)}
    height = min(_TALL, max(_AROUND_MAP * 3, _AROUND_MAP + _CELL_HEIGHT * len(square.rows)))
    grid = matrix_grid(table, chart)
    if grid and len(table.columns) > len({chart.row, chart.column, chart.value}):
        grid = replace(grid, name="")  # the table tells more, and stands on its own as well
    unit = f", in {scale.unit}" if scale and scale.unit else ""
    caption = f"{plural(len(square.cells), 'pair')}{unit}. Rows: {_name(chart.row)}; columns: {_name(chart.column)}."
    wide = len(square.columns) > _TICKS
    yield Figure("", _title(table), caption, (trace,), layout, grid, height, wide)


def _pair_hover(table: Table, chart: Chart, row: int | None) -> str:
    return "" if row is None else _hover(table, (chart.row, chart.column, chart.value, *chart.hover), row)


def _steps(count: int) -> list[list[float | str]]:
    """A colour for each of ``count`` words as steps of one scale; the most frequent word is the calm one."""
    made: list[list[float | str]] = []
    for at, colour in enumerate((_CALM, *colours(count - 1))):
        made += [[at / count, colour], [(at + 1) / count, colour]]
    return made
