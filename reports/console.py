"""The report for a terminal, a pipe or a log: plain lines, columns set by spaces, the verdict first.

It holds no box drawing, so that it reads the same redirected; colour only repeats what the words say.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mats.model import Finding, Quantity, Result, Run, Severity, Table, TargetInfo, Verdict
from mats.report import Report

from ._format import (
    against_text,
    duration_text,
    plural,
    printable,
    quantity_text,
    reading_text,
    source_text,
    time_text,
)
from ._grid import SERIES, Grid, grid_of, ranges_grid, readings_grid
from ._view import (
    NOTHING_MISSING,
    TargetView,
    not_seen,
    partial_lines,
    run_partial,
    run_sentence,
    run_verdict,
    target_views,
)

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_WIDTH = 100
_LABEL = 9
"""Width of the verdict and of the names before a finding's lines."""

_FEW_ROWS = 8
"""Rows of a table that are shown; all of them are in the saved run."""

_WRAPPED = 28
"""A column of sentences may be wrapped down to this width; numbers, words and addresses are never wrapped."""

_HEAD = 6
"""A head is not broken below this width."""

_VERDICT_STYLE = {
    Verdict.PASS: "bold green",
    Verdict.WARN: "bold yellow",
    Verdict.UNKNOWN: "bold magenta",
    Verdict.ERROR: "bold red",
    Verdict.FAIL: "bold red",
}
_SEVERITY_STYLE = {
    Severity.NOTE: "bold",
    Severity.WARN: "bold yellow",
    Severity.UNKNOWN: "bold magenta",
    Severity.FAIL: "bold red",
}

_ORDER = ("coverage", "tests", "latency", "readings", "conditions", "sweeps", "bit_histogram", "popcount_histogram")
_ROOM = {
    "errors": ("address", "expected", "actual", "test", "pass", "region", "time"),
    "tests": ("test", "passes", "errors", "verified", "duration", "finds", "written"),
}
"""The columns that are given room first where not all of them fit; those not named follow in their order."""


def render(run: Run) -> str:
    """The report as plain text, 100 columns wide."""
    return render_console(run, width=DEFAULT_WIDTH, colour=False)


def render_console(run: Run, *, width: int, colour: bool) -> str:
    """The report ``width`` columns wide (at least 40); ``colour`` adds the terminal's codes for it and nothing else."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(width, 40),
        color_system="standard" if colour else None,
        force_terminal=colour,
        no_color=not colour,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    views = target_views(run)
    _line(console, run_verdict(run).value.upper(), run_sentence(run), _VERDICT_STYLE[run_verdict(run)])
    for line in run_partial(run):
        _line(console, "", line, "bold yellow")
    for view in views:
        if len(views) > 1:
            console.print()
            text = f"{view.name}: {view.sentence}"
            _line(console, view.verdict.value.upper(), text, _VERDICT_STYLE[view.verdict])
        _target(console, view)
    if not views:
        _heading(console, "Not seen")
        _line(console, None, "every reading, not seen: there was nothing to measure")
    _footer(console, run)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _target(console: Console, view: TargetView) -> None:
    if view.stamp:
        _line(console, "", view.stamp, "bold" if view.simulated else "")
    if view.info:
        _line(console, "", _title(view.info))
    for line in partial_lines(view):
        _line(console, "", line, "bold yellow")
    for result in view.results:
        _sentences(console, result, len(view.results) > 1)
    if view.findings or view.diagnoses:
        _heading(console, "Findings")
        for finding in view.findings:
            _finding(console, finding)
        for diagnosis in view.diagnoses:
            _line(console, "NOTE", f"{diagnosis.title} [{diagnosis.fault}]", "bold")
            _lines(console, "evidence", diagnosis.evidence)
            _lines(console, "advice", (diagnosis.advice,))
    for result in view.results:
        for grid in _grids(result):
            _grid(console, grid)
    _not_seen(console, view)


def _title(info: TargetInfo) -> str:
    parts = [info.title]
    if isinstance(info.memory_total, Quantity):
        parts.append(quantity_text(info.memory_total))
    if isinstance(info.peak_bandwidth, Quantity):
        formula = f" ({info.peak_formula})" if info.peak_formula else ""
        parts.append(f"peak {quantity_text(info.peak_bandwidth)}{formula}")
    return ", ".join(parts + [f"{name} {value}" for name, value in info.identity])


def _sentences(console: Console, result: Result, several: bool) -> None:
    """The probe's own sentences, in full; of several probes each with its verdict."""
    if several:
        reason = f": {result.reason}" if result.reason else ""
        console.print()
        text = f"{result.probe}, {duration_text(result.duration.value)}{reason}"
        _line(console, result.verdict.value.upper(), text, _VERDICT_STYLE[result.verdict])
    for note in result.observation.notes:
        if not several:
            console.print()
        for line in note.splitlines():
            _line(console, "" if several else None, line)


def _finding(console: Console, finding: Finding) -> None:
    fault = f" [{finding.fault}]" if finding.fault else ""
    style = _SEVERITY_STYLE[finding.severity]
    _line(console, finding.severity.value.upper(), f"{finding.code} {finding.title}{fault}", style)
    _lines(console, "reading", (against_text(finding),))
    _lines(console, "evidence", finding.evidence)
    _lines(console, "advice", (finding.advice,))
    _lines(console, "why", (finding.limit.reasoning,))
    _lines(console, "source", (source_text(finding.limit),))


def _grids(result: Result) -> Iterator[Grid]:
    """The tables in the order of the report; those that this report does not know come last."""
    tables = {table.name: table for table in result.observation.tables}
    made: dict[str, Grid | None] = {"readings": readings_grid(result.observation.measurements)}
    for name, table in tables.items():
        if name in SERIES:
            made[name] = ranges_grid(table)
        elif name == "bit_histogram":
            made[name] = _bit_bars(table)
        elif name == "errors":
            made[name] = grid_of(table, _FEW_ROWS)
        elif name == "page_errors":
            made[name] = grid_of(_worst_first(table), _FEW_ROWS)
        else:
            made[name] = grid_of(table, max(_FEW_ROWS, 16))
    for name in (*_ORDER, *(name for name in made if name not in _ORDER)):
        grid = made.get(name)
        if grid and grid.rows:
            yield grid


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


def _grid(console: Console, grid: Grid) -> None:
    from rich.table import Table as RichTable

    kept = _fitting(grid, console.width)
    table = RichTable(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    heads = {index: _wrapped_head(grid, index) for index in kept}
    height = max(head.count("\n") for head in heads.values())
    for index, head in heads.items():
        table.add_column(
            "\n" * (height - head.count("\n")) + head,
            justify="right" if grid.numeric[index] else "left",
            no_wrap=not _is_prose(grid, index),
            overflow="fold",
        )
    for row in grid.rows:
        table.add_row(*(row[index] for index in kept))
    _heading(console, grid.title or grid.name)
    console.print(table)
    dropped = [grid.heads[index] for index in range(len(grid.heads)) if index not in kept]
    if dropped:
        _note(console, f"no room here for {', '.join(dropped)}; see the HTML report or the saved run (JSON)")
    if grid.note:
        _note(console, grid.note)


def _is_prose(grid: Grid, index: int) -> bool:
    return any(" " in row[index] for row in grid.rows) and not grid.numeric[index]


def _wrapped_head(grid: Grid, index: int) -> str:
    """The head in lines no longer than the cells below it, where its words allow."""
    longest = max(len(row[index]) for row in grid.rows)
    word = max(len(word) for word in grid.heads[index].split(" "))
    return "\n".join(textwrap.wrap(grid.heads[index], max(longest, word, _HEAD), break_on_hyphens=False))


def _fitting(grid: Grid, width: int) -> list[int]:
    """The columns that fit into ``width`` without wrapping a number."""
    first = [grid.heads.index(head) for name in _ROOM.get(grid.name, ()) for head in grid.heads if _names(head, name)]
    kept: list[int] = []
    room = width + 2
    for index in dict.fromkeys((*first, *range(len(grid.heads)))):
        head = max(len(line) for line in _wrapped_head(grid, index).split("\n"))
        longest = max(head, *(len(row[index]) for row in grid.rows))
        wanted = 2 + (min(longest, max(_WRAPPED, head)) if _is_prose(grid, index) else longest)
        if wanted <= room or not kept:
            kept.append(index)
            room -= wanted
    return sorted(kept)


def _names(head: str, column: str) -> bool:
    return head.partition(" [")[0] == column.replace("_", " ")


def _not_seen(console: Console, view: TargetView) -> None:
    _heading(console, "Not seen")
    lines = not_seen(view)
    if not lines:
        _line(console, None, NOTHING_MISSING)
    for name, reason in lines:
        _line(console, None, f"{name}, not seen: {reason}", hang=2)


def _footer(console: Console, run: Run) -> None:
    console.print()
    for note in run.notes:
        _line(console, None, note)
    host = run.host
    memory = reading_text(host.memory_total)
    _line(console, None, f"{run.tool} on {host.name} ({host.system}, {host.processor}, memory {memory})")
    _line(console, None, f"started {time_text(run.started)}, took {duration_text(run.duration.value)}")


def _heading(console: Console, text: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(printable(text), style="bold"))


def _note(console: Console, text: str) -> None:
    _line(console, None, f"({text})")


def _lines(console: Console, label: str, texts: Iterable[str]) -> None:
    for text in texts:
        if text:
            _line(console, label, text, label_style="dim", indent=2)
            label = ""


def _line(
    console: Console,
    label: str | None,
    text: str,
    style: str = "",
    *,
    label_style: str | None = None,
    indent: int = 0,
    hang: int = 0,
) -> None:
    """A wrapped paragraph; with a label it stands beside it, hanging."""
    from rich.padding import Padding
    from rich.text import Text

    text = printable(text)
    if label is None:
        lines = Text(text, style=style).wrap(console, console.width - hang)
        for number, line in enumerate(lines):
            console.print(Padding(line, (0, 0, 0, hang if number else 0)))
        return
    room = console.width - _LABEL - indent
    for number, line in enumerate(Text(text, style=style if not label else "").wrap(console, room)):
        head = Text(" " * indent)
        head.append(f"{label if number == 0 else '':<{_LABEL}}", style=style if label_style is None else label_style)
        console.print(head + line, soft_wrap=True)


REPORT = Report("console", "txt", render)
