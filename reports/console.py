"""The report for a terminal, a pipe or a log: plain lines, columns set by spaces, the verdict first.

It holds no box drawing, so that it reads the same redirected; colour only repeats what the words say. A target of many
parts, such as the GPUs of a machine, is shown folded: what is out of order with its parts, the rest as counts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mats.model import Quantity, Result, Run, Table, TargetInfo
from mats.report import Report

from ._format import duration_text, plural, quantity_text, reading_text, source_text, time_text
from ._gaps import gaps
from ._grid import SERIES, Grid, grid_of, ranges_grid, readings_grid
from ._part_tables import MANY_ROWS, PartTables, without_constants, without_unseen
from ._parts import FindingGroup, account_text, evidence_lines, part_label, reading_text_of
from ._terminal import STYLE, console_of, heading, line, lines, note
from ._terminal_charts import print_chart
from ._terminal_grid import fits, print_grid
from ._view import NOTHING_MISSING, TargetView, partial_lines, run_partial, run_sentence, run_verdict, target_views

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_WIDTH = 100

_FEW_ROWS = 8
"""Rows of a table that are shown; all of them are in the saved run."""

_FEW_LINES = 12
"""Lines of evidence of one finding on many parts."""

_WHERE = 12
"""The parts that fit beside what was not seen of them."""

_ORDER = ("coverage", "tests", "latency", "readings", "conditions", "sweeps", "bit_histogram", "popcount_histogram")


def render(run: Run) -> str:
    """The report as plain text, 100 columns wide."""
    return render_console(run, width=DEFAULT_WIDTH, colour=False)


def render_console(run: Run, *, width: int, colour: bool, blocks: bool = False) -> str:
    """The report ``width`` columns wide (at least 40); ``colour`` adds the terminal's codes for it and nothing else.

    ``blocks``: maps are drawn with block characters, which not every terminal has, and not with plain letters.
    """
    stream = io.StringIO()
    console = console_of(stream, width, colour)
    views, verdict = target_views(run), run_verdict(run).value
    line(console, verdict.upper(), run_sentence(run), STYLE[verdict])
    for text in run_partial(run):
        line(console, "", text, "bold yellow")
    for view in views:
        if len(views) > 1:
            console.print()
            line(console, view.verdict.value.upper(), f"{view.name}: {view.sentence}", STYLE[view.verdict.value])
        _target(console, view, blocks)
    if not views:
        heading(console, "Not seen")
        line(console, None, "every reading, not seen: there was nothing to measure")
    _footer(console, run)
    return "\n".join(text.rstrip() for text in stream.getvalue().splitlines()) + "\n"


def _target(console: Console, view: TargetView, blocks: bool) -> None:
    if view.advice:
        line(console, "", f"Advice: {view.advice}")
    if view.stamp:
        line(console, "", view.stamp, "bold" if view.simulated else "")
    if view.info:
        line(console, "", _title(view.info))
    for text in partial_lines(view):
        line(console, "", text, "bold yellow")
    folded = {id(result): PartTables(result, view.kind) for result in view.results if part_label(result.observation)}
    for result in view.results:
        _sentences(console, result, len(view.results) > 1, id(result) not in folded)
    for tables in folded.values():
        if tables.overview:
            overview = grid_of(tables.overview)
            print_grid(console, without_constants(overview, lambda grid: fits(grid, console.width)))
    _findings(console, view)
    for result in view.results:
        _tables(console, result, folded.get(id(result)), blocks)
    _not_seen(console, view)


def _title(info: TargetInfo) -> str:
    parts = [info.title]
    if isinstance(info.memory_total, Quantity):
        parts.append(quantity_text(info.memory_total))
    if isinstance(info.peak_bandwidth, Quantity):
        formula = f" ({info.peak_formula})" if info.peak_formula else ""
        parts.append(f"peak {quantity_text(info.peak_bandwidth)}{formula}")
    return ", ".join(
        parts + [f"{name} {value}" for name, value in info.identity if f"{name} {value}" not in info.title]
    )


def _sentences(console: Console, result: Result, several: bool, notes: bool) -> None:
    """The probe's own sentences, in full; of several probes each with its verdict."""
    if several:
        reason = f": {result.reason}" if result.reason else ""
        console.print()
        text = f"{result.probe}, {duration_text(result.duration.value)}{reason}"
        line(console, result.verdict.value.upper(), text, STYLE[result.verdict.value])
    for paragraph in result.observation.notes if notes else ():
        if not several:
            console.print()
        for text in paragraph.splitlines():
            line(console, "" if several else None, text)


def _findings(console: Console, view: TargetView) -> None:
    if view.groups or view.diagnoses:
        heading(console, "Findings")
    for group in view.groups:
        _finding(console, group)
    for diagnosis in view.diagnoses:
        line(console, "NOTE", f"{diagnosis.title} [{diagnosis.fault}]", "bold")
        lines(console, "evidence", diagnosis.evidence)
        lines(console, "advice", (diagnosis.advice,))
    explained = next((group.first.code for group in view.groups if group.label), "")
    if explained:
        note(console, f"mats explain {explained} tells why, and where the limit comes from")


def _finding(console: Console, group: FindingGroup) -> None:
    """On a single device with reason and source of the limit; on many parts what was seen and what to do come first."""
    first = group.first
    fault = f" [{group.fault}]" if group.fault else ""
    where = f"{group.where}: " if group.where else ""
    severity = first.severity.value
    line(console, severity.upper(), f"{first.code} {where}{first.title}{fault}", STYLE[severity])
    reading = (reading_text_of(group),)
    lines(console, "reading", () if group.label else reading)
    lines(console, "evidence", _evidence(group))
    lines(console, "advice", (first.advice,))
    lines(console, "reading", reading if group.label else ())
    if not group.label:
        lines(console, "why", (first.limit.reasoning,))
        lines(console, "source", (source_text(first.limit),))


def _evidence(group: FindingGroup) -> tuple[str, ...]:
    """All lines of a finding; of one made on many parts as many as a screen holds."""
    told = evidence_lines(group)
    if not group.label or len(told) <= _FEW_LINES:
        return told
    rest = plural(len(told) - _FEW_LINES, "more line")
    return (*told[:_FEW_LINES], f"({rest} in the HTML report and the saved run)")


def _tables(console: Console, result: Result, folded: PartTables | None, blocks: bool) -> None:
    """Its tables and readings; of a result of many parts the other tables, and the account of its checks."""
    shown = folded.others if folded else tuple(_ordered(result))
    for table in shown:
        if isinstance(table, Table) and table.chart:
            print_chart(console, table, table.chart, blocks)
            continue
        grid = table if isinstance(table, Grid) else folded.short(table) if folded else _grid(table)
        if grid and grid.rows:
            print_grid(console, grid)
    if folded is None:
        return
    heading(console, "Checks")
    line(console, None, f"{account_text(result, folded.kind)}.", hang=2)
    for paragraph in result.observation.notes:
        for text in paragraph.splitlines():
            line(console, None, text, hang=2)


def _ordered(result: Result) -> Iterator[Table | Grid]:
    """What has a chart, then the tables, and the readings as one, in the order of the report; the others come last."""
    tables: dict[str, Table | Grid] = {"readings": readings_grid(result.observation.measurements)}
    for table in result.observation.tables:
        if table.chart:
            yield table
        else:
            tables[table.name] = table
    for name in (*_ORDER, *(name for name in tables if name not in _ORDER)):
        if name in tables:
            yield tables[name]


def _grid(table: Table) -> Grid | None:
    if table.name in SERIES:
        return ranges_grid(table)
    if table.name == "bit_histogram":
        return _bit_bars(table)
    if table.name == "errors":
        return grid_of(table, _FEW_ROWS)
    if table.name == "page_errors":
        return grid_of(_worst_first(table), _FEW_ROWS)
    return grid_of(without_unseen(table), MANY_ROWS)


def _worst_first(table: Table) -> Table:
    """Rows by their last column, the highest first."""

    def weight(row: Sequence[object]) -> float:
        last = row[-1] if row else 0
        return -last if isinstance(last, int | float) else 0

    return Table(table.name, table.title, table.columns, tuple(sorted(table.rows, key=weight)))


def _bit_bars(table: Table) -> Grid | None:
    """Bits that were ever wrong, with a bar of the share of the most frequent one."""
    counts = []
    for row in table.rows:
        numbers = [cell for cell in row if isinstance(cell, int | float)]
        if len(numbers) == 3 and numbers[1] + numbers[2]:
            counts.append((numbers[0], numbers[1], numbers[2]))
    if not counts:
        return None
    top = max(up + down for _, up, down in counts)
    rows = tuple(
        (f"{bit:g}", f"{up:,.0f}", f"{down:,.0f}", "#" * max(1, round(24 * (up + down) / top)))
        for bit, up, down in sorted(counts, key=lambda count: -(count[1] + count[2]))[:16]
    )
    rest = len(counts) - len(rows)
    note = f"and {plural(rest, 'bit position')} with fewer errors" if rest else ""
    heads = ("bit", "0 to 1", "1 to 0", "share of the most frequent")
    return Grid(table.name, table.title, heads, rows, (True, True, True, False), note)


def _not_seen(console: Console, view: TargetView) -> None:
    heading(console, "Not seen")
    missing = gaps(view)
    if not missing:
        line(console, None, NOTHING_MISSING)
    for gap in missing:
        where = gap.where or "machine"
        if gap.folded and len(where) <= _WHERE:
            line(console, where, gap.text(), label_style="")
        elif gap.folded:
            line(console, None, f"{where}: {gap.text()}", hang=2)
        else:
            line(console, None, gap.text(), hang=2)


def _footer(console: Console, run: Run) -> None:
    console.print()
    for text in run.notes:
        line(console, None, text)
    host = run.host
    memory = reading_text(host.memory_total)
    line(console, None, f"{run.tool} on {host.name} ({host.system}, {host.processor}, memory {memory})")
    line(console, None, f"started {time_text(run.started)}, took {duration_text(run.duration.value)}")


REPORT = Report("console", "txt", render)
