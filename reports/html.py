"""The report as one page: opens offline, asks the network for nothing, and says all without JavaScript.

The verdict comes first. Plots are drawn by Plotly, whose script is part of the page; the figures of every plot are
also in a table. The page forbids itself every request (Content-Security-Policy), and all text of a run is escaped.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from mats.model import Quantity, Result, Run
from mats.report import Report

from ._chart_figures import chart_figures
from ._figures import figures_of
from ._format import (
    duration_text,
    measurement_name,
    printable,
    quantity_text,
    reading_text,
    relation_text,
    source_text,
    time_text,
)
from ._gaps import Gap, gaps
from ._grid import SERIES, Grid, grid_of, ranges_grid, statistic_text
from ._matrix import Matrix, matrices, readings_matrix
from ._part_tables import PartTables, without_constants
from ._parts import account_text, evidence_lines, part_label, reading_text_of
from ._plot import MAX_ROWS, Figure
from ._view import (
    NOTHING_MISSING,
    TargetView,
    partial_lines,
    run_partial,
    run_sentence,
    run_verdict,
    target_views,
)

if TYPE_CHECKING:
    import jinja2

_LOG_LINE = re.compile(r"\bNVRM: |\bkernel: |\bnvidia-nvswitch|\bXid \(|^\[ *\d+\.\d+\]")

_BEFORE_READINGS = ("coverage", "tests", "latency")


@dataclass(frozen=True, slots=True)
class _Plot:
    id: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class _Folded:
    """What is shown of a result of many parts instead of its readings in one list."""

    overview: Grid | None
    account: str
    telling: Matrix
    quiet: Matrix
    readings: Grid


@dataclass(frozen=True, slots=True)
class _Part:
    """One probe's part of a target's section: its charts come before its tables, the other plots after them."""

    result: Result
    charts: tuple[_Plot, ...]
    grids: tuple[Grid, ...]
    plots: tuple[_Plot, ...]
    limits: Grid
    folded: _Folded | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    view: TargetView
    partial: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    parts: tuple[_Part, ...]
    gaps: tuple[Gap, ...]


def render(run: Run) -> str:
    """The page, about 5 MB with Plotly's script; a run without anything to draw goes without the script."""
    return render_page(run, plotly_script)


def plotly_script() -> str:
    """Plotly's own script, as the installed package carries it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def render_page(run: Run, script: Callable[[], str]) -> str:
    """The page with what ``script()`` gives as Plotly's script; it is asked for only when something is to be drawn."""
    from markupsafe import Markup

    targets = tuple(_target(view, number) for number, view in enumerate(target_views(run), start=1))
    plots = [plot for target in targets for part in target.parts for plot in (*part.charts, *part.plots)]
    environment = _environment()
    return environment.get_template("run.html.j2").render(
        run=run,
        verdict=run_verdict(run).value,
        sentence=run_sentence(run),
        partial=run_partial(run),
        targets=targets,
        run_facts=tuple(_run_facts(run)),
        nothing_missing=NOTHING_MISSING,
        style=Markup(_resource("style.css").rstrip()),
        script=Markup(_resource("plots.js").rstrip()),
        plots=Markup(_plots_json(plots)) if plots else "",
        plotly=Markup(script()) if plots else "",
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath("templates").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    """Templates in which every text is escaped and printable, and a misspelt name is an error; compiled once."""
    import jinja2
    from markupsafe import Markup

    def clean(value: object) -> object:
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=clean,
        loader=jinja2.FunctionLoader(_resource),
        keep_trailing_newline=True,
    )
    environment.filters.update(
        readings=reading_text_of,
        evidence=evidence_lines,
        source=source_text,
        duration=duration_text,
        time=time_text,
        loglike=_is_log_line,
    )
    return environment


def _is_log_line(text: str) -> bool:
    """Whether a text is a line of the kernel's log, which is shown as it was printed."""
    return bool(_LOG_LINE.search(text))


def _plots_json(plots: list[_Plot]) -> str:
    """The plots for the script, with nothing in it that could end the element it stands in."""
    data = [{"id": plot.id, "data": plot.figure.data, "layout": plot.figure.layout} for plot in plots]
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _target(view: TargetView, number: int) -> _Target:
    return _Target(
        view=view,
        partial=partial_lines(view),
        facts=tuple(_target_facts(view)),
        parts=tuple(_part(view, result, f"plot-{number}-{at}") for at, result in enumerate(view.results, start=1)),
        gaps=gaps(view),
    )


def _part(view: TargetView, result: Result, id: str) -> _Part:
    charts = tuple(_Plot(f"{id}-{figure.key}", figure) for figure in chart_figures(result.observation))
    if part_label(result.observation):
        return _folded_part(view, result, charts)
    plots = tuple(_Plot(f"{id}-{figure.key}", figure) for figure in figures_of(result.observation))
    grids = tuple(grid for grid in _grids(result, _drawn((*charts, *plots))) if grid.rows)
    return _Part(result, charts, grids, plots, _limits_grid(result))


def _drawn(plots: Sequence[_Plot]) -> set[str]:
    """The tables that stand with a plot, and need not stand on their own."""
    return {plot.figure.grid.name for plot in plots if plot.figure.grid}


def _is_narrow(grid: Grid) -> bool:
    """Whether a table fits on a page of usual width without scrolling."""
    return sum(max(len(head), *(len(row[at]) for row in grid.rows)) + 2 for at, head in enumerate(grid.heads)) <= 130


def _folded_part(view: TargetView, result: Result, charts: tuple[_Plot, ...]) -> _Part:
    tables = PartTables(result, view.kind)
    telling, quiet = matrices(result, view.kind)
    folded = _Folded(
        overview=without_constants(grid_of(tables.overview), _is_narrow) if tables.overview else None,
        account=account_text(result, view.kind),
        telling=telling,
        quiet=quiet,
        readings=readings_matrix(result),
    )
    drawn = _drawn(charts)
    grids = tuple(grid_of(table, MAX_ROWS) for table in tables.others if table.name not in drawn)
    return _Part(result, charts, grids, (), _limits_grid(result), folded)


def _grids(result: Result, drawn: set[str]) -> Iterator[Grid]:
    """The tables that stand on their own; those of the plots stand with them."""
    tables = {table.name: table for table in result.observation.tables if table.name not in drawn}
    for name in _BEFORE_READINGS:
        if name in tables:
            yield grid_of(tables[name], MAX_ROWS)
    yield _readings_grid(result)
    for name, table in tables.items():
        if name in SERIES:
            ranges = ranges_grid(table)
            if ranges:
                yield ranges
        elif name not in _BEFORE_READINGS:
            yield grid_of(table, MAX_ROWS)


def _readings_grid(result: Result) -> Grid:
    rows = tuple(
        (
            measurement_name(measurement),
            quantity_text(measurement.reading),
            statistic_text(measurement),
            measurement.method,
        )
        for measurement in result.observation.measurements
        if isinstance(measurement.reading, Quantity)
    )
    heads = ("reading", "value", "of what", "how it was taken")
    return Grid("readings", "Readings", heads, rows, (False, True, False, False))


def _limits_grid(result: Result) -> Grid:
    """Every limit with its source, and how it came out."""
    broken = {finding.code for finding in result.findings}
    rows = tuple(
        (
            limit.code,
            limit.title,
            limit.measurement,
            relation_text(limit) + (" (set by the user)" if limit.overridden else ""),
            limit.severity.value,
            "broken" if limit.code in broken else "",
            limit.reasoning,
            source_text(limit),
        )
        for limit in result.limits
    )
    heads = ("code", "title", "reading", "in order is", "severity", "outcome", "why", "source")
    return Grid("limits", "Limits", heads, rows, (False,) * len(heads))


def _target_facts(view: TargetView) -> Iterator[tuple[str, str]]:
    if view.info is None:
        return
    info = view.info
    folded = bool(view.results) and all(part_label(result.observation) for result in view.results)
    yield "target", f"{info.title} ({view.kind}{', replayed' if info.kind == 'replay' else ''})"
    if not folded:  # a target of many parts has these of none
        yield "memory", reading_text(info.memory_total)
        yield "last-level cache", reading_text(info.cache_size)
        formula = f" = {info.peak_formula}" if info.peak_formula else ""
        yield "peak bandwidth", reading_text(info.peak_bandwidth) + formula
    yield from info.identity


def _run_facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "tool", run.tool
    yield "command", " ".join(run.command)
    yield "host", f"{run.host.name}, {run.host.system}, Python {run.host.python}"
    yield "processor", run.host.processor
    yield "memory of the host", reading_text(run.host.memory_total)
    yield "started", time_text(run.started)
    yield "took", duration_text(run.duration.value)
    if run.required:
        yield "required", ", ".join(run.required)


REPORT = Report("html", "html", render)
