"""Plots of the tables that need one of their own, such as error records, each with its figures as a table of text.

Long series are thinned for the eye, keeping the lowest and highest of every interval, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mats.model import Cell, Observation, Table, Unit

from ._format import plural, printable, scale_for
from ._grid import grid_of, intervals_grid, ranges_grid
from ._plot import COLOURS, MAX_POINTS, MAX_ROWS, Figure, Number, axis, colours, rounded, thinned


def figures_of(observation: Observation) -> tuple[Figure, ...]:
    """Every plot that the tables of an observation allow, errors first."""
    tables = {table.name: table for table in observation.tables if table.rows and not table.chart}
    made: list[Figure | None] = []
    if "page_errors" in tables:
        made.append(_pages(tables["page_errors"]))
    if "errors" in tables:
        made.append(_error_map(tables["errors"]))
    if "bit_histogram" in tables:
        made.append(_bits(tables["bit_histogram"]))
    if "popcount_histogram" in tables:
        made.append(_popcount(tables["popcount_histogram"]))
    if "sweeps" in tables:
        made += [_sweeps(tables["sweeps"], "duration"), _sweeps(tables["sweeps"], "bandwidth")]
    if "conditions" in tables:
        made += list(_conditions(tables["conditions"]))
    return tuple(figure for figure in made if figure)


def _columns(table: Table, *names: str) -> list[list[Cell]] | None:
    """The cells of the named columns, or None where one is not there."""
    index = {column.name: at for at, column in enumerate(table.columns)}
    if not all(name in index for name in names):
        return None
    return [[row[index[name]] for row in table.rows] for name in names]


def _unit(table: Table, name: str) -> Unit:
    return next((column.unit for column in table.columns if column.name == name), None) or Unit.COUNT


def _points(xs: Iterable[Cell], ys: Iterable[Cell]) -> list[tuple[Number, Number]]:
    return [(x, y) for x, y in zip(xs, ys, strict=True) if isinstance(x, int | float) and isinstance(y, int | float)]


def _sweeps(table: Table, value: str) -> Figure | None:
    """Duration or bandwidth of every chunk sweep over time, a line for each operation."""
    columns = _columns(table, "time", "operation", value)
    if columns is None:
        return None
    times, operations, values = columns
    names = [str(name) for name in dict.fromkeys(cell for cell in operations if isinstance(cell, str))]
    time_scale = scale_for(Unit.SECOND, [cell for cell in times if isinstance(cell, int | float)])
    scale = scale_for(_unit(table, value), [cell for cell in values if isinstance(cell, int | float)])
    data, drawn, total = [], 0, 0
    for name, colour in zip(names, colours(len(names)), strict=True):
        chosen = [at for at, operation in enumerate(operations) if operation == name]
        points = _points((times[at] for at in chosen), (values[at] for at in chosen))
        kept = thinned(points)
        drawn, total = drawn + len(kept), total + len(points)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": printable(name),
                "x": rounded(x / time_scale.divisor for x, _ in kept),
                "y": rounded(y / scale.divisor for _, y in kept),
                "marker": {"color": colour, "size": 5},
            }
        )
    if not total:
        return None
    caption = f"{plural(total, 'chunk sweep')}, one point each."
    if drawn < total:
        caption = f"{drawn:,} of {total:,} chunk sweeps drawn: the lowest and the highest of every interval of time."
    layout = {
        "xaxis": axis("time", time_scale.unit),
        "yaxis": axis(value, scale.unit) | {"rangemode": "tozero"},
        "showlegend": True,
    }
    title = "Duration of chunk sweeps over time" if value == "duration" else "Bandwidth of chunk sweeps over time"
    return Figure(f"sweeps-{value}", title, caption, tuple(data), layout, intervals_grid(table, value, "operation"))


def _conditions(table: Table) -> Iterator[Figure]:
    """Passive state over time, a plot for each unit."""
    grid = ranges_grid(table)
    units = dict.fromkeys(column.unit for column in table.columns if column.unit and column.name != "time")
    titles = {
        Unit.CELSIUS: "Temperature over time",
        Unit.HERTZ: "Clocks over time",
        Unit.WATT: "Power over time",
        Unit.COUNT: "Performance state over time (0 is the fastest)",
    }
    for unit in units:
        names = [column.name for column in table.columns if column.unit is unit and column.name != "time"]
        columns = _columns(table, "time", *names)
        if columns is None:
            return
        times, *series = columns
        all_points = [_points(times, values) for values in series]
        if not any(all_points):
            continue
        scale = scale_for(unit, [y for points in all_points for _, y in points])
        data = tuple(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": printable(name.replace("_", " ")),
                "x": rounded(x for x, _ in thinned(points)),
                "y": rounded(y / scale.divisor for _, y in thinned(points)),
                "line": {"color": colour, "shape": "hv"},
                "marker": {"color": colour, "size": 4},
            }
            for name, points, colour in zip(names, all_points, colours(len(names)), strict=True)
            if points
        )
        total = sum(len(points) for points in all_points)
        drawn = sum(len(trace["x"]) for trace in data)
        caption = f"{plural(total, 'reading')}."
        if drawn < total:
            caption = f"{drawn:,} of {total:,} readings drawn: the lowest and the highest of every interval of time."
        if grid is None:
            caption += " Its table stands with the first plot of the conditions."
        name = names[0].replace("_", " ") if len(names) == 1 else "clock" if unit is Unit.HERTZ else "reading"
        heights = axis(name, scale.unit)
        if unit is Unit.COUNT:
            heights |= {"rangemode": "tozero", "tickformat": ",d"}
        layout = {"xaxis": axis("time", "s"), "yaxis": heights, "showlegend": len(names) > 1}
        title = titles.get(unit) or f"{names[0].replace('_', ' ').capitalize()} over time"
        yield Figure(f"conditions-{unit.name.lower()}", title, caption, data, layout, grid)
        grid = None  # one table has the ranges of all of them


def _address(cell: Cell) -> int | None:
    if isinstance(cell, str):
        try:
            return int(cell, 16)
        except ValueError:
            return None
    return cell if isinstance(cell, int) else None


def _offsets(addresses: Sequence[int]) -> tuple[list[Number], str]:
    """Distances from the lowest address, which a plot's 53-bit numbers hold exactly, and the axis' name."""
    lowest = min(addresses)
    scale = scale_for(Unit.BYTE, [address - lowest for address in addresses])
    offsets = [(address - lowest) / scale.divisor for address in addresses]
    return offsets, f"offset from 0x{lowest:x} [{scale.unit}]"


def _pages(table: Table) -> Figure | None:
    """Errors of every page over the address: whether the fault is in one place."""
    columns = _columns(table, "address", "errors")
    if columns is None:
        return None
    pages = [
        (address, errors)
        for cell, errors in zip(*columns, strict=True)
        if (address := _address(cell)) is not None and isinstance(errors, int | float)
    ]
    if not pages:
        return None
    kept = sorted(sorted(pages, key=lambda page: -page[1])[: MAX_POINTS * 2])
    offsets, place = _offsets([address for address, _ in kept])
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "errors",
        "x": rounded(offsets),
        "y": [errors for _, errors in kept],
        "text": [f"0x{address:x}" for address, _ in kept],
        "marker": {"color": COLOURS[5], "size": 6},
        "cliponaxis": False,
    }
    caption = f"{plural(len(pages), 'page')} with errors. A virtual address is not a place on a chip."
    if len(kept) < len(pages):
        caption = f"The {len(kept):,} pages with most errors of {len(pages):,} with any. {caption.partition('. ')[2]}"
    layout = {"xaxis": {"title": {"text": place}}, "yaxis": axis("errors", "") | {"rangemode": "tozero"}}
    return Figure("page-errors", "Errors by address", caption, (trace,), layout, grid_of(table, MAX_ROWS))


def _error_map(table: Table) -> Figure | None:
    """Every wrong bit of the recorded errors: address against bit position."""
    columns = _columns(table, "address", "expected", "actual")
    if columns is None:
        return None
    flips: dict[str, list[tuple[int, int]]] = {"0 to 1": [], "1 to 0": []}
    for cells in zip(*columns, strict=True):
        address, expected, actual = (_address(cell) for cell in cells)
        if address is None or expected is None or actual is None:
            continue
        wrong = expected ^ actual
        for bit in range(64):
            if wrong >> bit & 1:
                flips["0 to 1" if actual >> bit & 1 else "1 to 0"].append((address, bit))
    total = sum(len(found) for found in flips.values())
    if not total:
        return None
    step = -(-total // (MAX_POINTS * 2))
    kept = {name: found[::step] for name, found in flips.items()}
    addresses = [address for found in kept.values() for address, _ in found]
    offsets, place = _offsets(addresses)
    placed = dict(zip(addresses, offsets, strict=True))
    data = tuple(
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": rounded(placed[address] for address, _ in found),
            "y": [bit for _, bit in found],
            "marker": {"color": colour, "size": 5},
        }
        for (name, found), colour in zip(kept.items(), (COLOURS[1], COLOURS[0]), strict=True)
        if found
    )
    caption = f"{plural(total, 'wrong bit')} of {plural(len(table.rows), 'recorded error')}."
    if step > 1:
        caption = f"{caption[:-1]}, one of {step:,} drawn."
    layout = {
        "xaxis": {"title": {"text": place}},
        "yaxis": axis("bit of the 64-bit word", "") | {"range": [-1, 64], "dtick": 8},
        "showlegend": True,
    }
    return Figure("error-map", "Wrong bits by address", caption, data, layout, grid_of(table, MAX_ROWS))


def _bits(table: Table) -> Figure | None:
    """How often each of the 64 bits was wrong, by direction."""
    columns = _columns(table, "bit", "zero_to_one", "one_to_zero")
    if columns is None:
        return None
    bits, up, down = columns
    if not any(isinstance(cell, int | float) and cell for cell in (*up, *down)):
        return None
    data = tuple(
        {
            "type": "bar",
            "name": name,
            "x": [x for x, _ in _points(bits, values)],
            "y": [y for _, y in _points(bits, values)],
            "marker": {"color": colour},
        }
        for name, values, colour in (("0 to 1", up, COLOURS[1]), ("1 to 0", down, COLOURS[0]))
    )
    layout = {
        "barmode": "stack",
        "xaxis": axis("bit of the 64-bit word", "") | {"range": [-1, 64], "dtick": 8},
        "yaxis": axis("wrong bits", ""),
        "showlegend": True,
    }
    seen = Table(
        table.name,
        table.title,
        table.columns,
        tuple(
            row
            for row, *counts in zip(table.rows, up, down, strict=True)
            if any(isinstance(cell, int | float) and cell for cell in counts)
        ),
    )
    caption = "A stuck data line shows as one or two bits, a bad byte lane as eight."
    return Figure("bit-histogram", "Wrong bits by position", caption, data, layout, grid_of(seen))


def _popcount(table: Table) -> Figure | None:
    """How many bits were wrong in a word: one by one, or whole words."""
    columns = _columns(table, "flipped_bits", "words")
    points = _points(*columns) if columns else []
    if not any(words for _, words in points):
        return None
    most = max(bits for bits, words in points if words)
    trace = {
        "type": "bar",
        "name": "words",
        "x": [bits for bits, _ in points],
        "y": [words for _, words in points],
        "marker": {"color": COLOURS[2]},
    }
    bits = axis("wrong bits in a word", "") | {"range": [0, most + 1], "dtick": 1 if most < 16 else 8}
    layout = {"xaxis": bits, "yaxis": axis("words", "")}
    caption = "Single bits point to cells or lines; about half of the bits, to words from another place."
    return Figure("popcount", "Wrong bits in a word", caption, (trace,), layout, grid_of(table))
