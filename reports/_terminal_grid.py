"""A table of text for a terminal: columns set by spaces where they fit, otherwise a paragraph for each row."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ._format import spelled
from ._grid import Grid, clause
from ._terminal import STYLE, heading, line, note

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WRAPPED = 28
"""A column of sentences may be wrapped down to this width; numbers, words and addresses are never wrapped."""

_LONG = 60
"""A cell of this length is prose to read, not a word to compare with the one below it."""

_HEAD = 6
"""A head is not broken below this width."""

_ROOM = {
    "gpus": (
        "gpu",
        "verdict",
        "findings",
        "name",
        "ecc_new",
        "replaced",
        "driver_asks",
        "temp",
        "pcie",
        "power",
        "pci",
    ),
    "errors": ("address", "expected", "actual", "test", "pass", "region", "time"),
    "tests": ("test", "passes", "errors", "verified", "duration", "finds", "written"),
}
"""The columns that are given room first where not all of them fit; those not named follow in their order."""


def fits(grid: Grid, width: int) -> bool:
    """Whether all columns have room in ``width`` without a sentence being wrapped."""
    cells = [max(_widest(_wrapped_head(grid, at)), *(_widest(row[at]) for row in grid.rows)) for at in _columns(grid)]
    return sum(cells) + 2 * (len(cells) - 1) <= width


def print_grid(console: Console, grid: Grid) -> None:
    """The table under its title, and what was left out of it."""
    heading(console, grid.title or grid.name)
    kept = _fitting(grid, console.width)
    dropped = [grid.heads[index] for index in _columns(grid) if index not in kept]
    if dropped and len(grid.rows) == 1:
        cells = zip(grid.heads, grid.rows[0], strict=True)
        line(console, None, "; ".join(clause(head, cell) for head, cell in cells if cell), hang=2)
    elif dropped and any(_widest(cell) >= _LONG for row in grid.rows for cell in row):
        _print_paragraphs(console, grid)
    else:
        _print_columns(console, grid, kept)
        if dropped:
            note(console, f"no room here for {', '.join(dropped)}; see the HTML report or the saved run (JSON)")
    if grid.note:
        note(console, grid.note)


def _print_columns(console: Console, grid: Grid, kept: list[int]) -> None:
    from rich.table import Table as RichTable

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
        table.add_row(*(_styled(grid.heads[index], row[index]) for index in kept))
    console.print(table)


def _styled(head: str, cell: str) -> str | Text:
    """A verdict in its colour."""
    from rich.text import Text

    return Text(cell, style=STYLE.get(cell.lower(), "")) if head == "verdict" else cell


def _print_paragraphs(console: Console, grid: Grid) -> None:
    """Each row as its short cells in one line, and its sentences below."""
    columns = _columns(grid)
    long = [index for index in columns if any(_widest(row[index]) > _WRAPPED for row in grid.rows)]
    for row in grid.rows:
        short = [clause(grid.heads[index], row[index]) for index in columns if index not in long and row[index]]
        line(console, None, ", ".join(short), "bold", hang=2)
        for index in long:
            for number, text in enumerate(row[index].split("\n") if row[index] else ()):
                line(console, grid.heads[index] if not number else "", text, label_style="dim", indent=2)


def _columns(grid: Grid) -> range:
    return range(len(grid.heads))


def _widest(text: str) -> int:
    return max((len(part) for part in text.split("\n")), default=0)


def _is_prose(grid: Grid, index: int) -> bool:
    return any(" " in row[index] for row in grid.rows) and not grid.numeric[index]


def _wrapped_head(grid: Grid, index: int) -> str:
    """The head in lines no longer than the cells below it, where its words allow."""
    longest = max(_widest(row[index]) for row in grid.rows)
    word = max(len(word) for word in grid.heads[index].split(" "))
    return "\n".join(textwrap.wrap(grid.heads[index], max(longest, word, _HEAD), break_on_hyphens=False))


def _fitting(grid: Grid, width: int) -> list[int]:
    """The columns that fit into ``width`` without wrapping a number."""
    first = [grid.heads.index(head) for name in _ROOM.get(grid.name, ()) for head in grid.heads if _names(head, name)]
    kept: list[int] = []
    room = width + 2
    for index in dict.fromkeys((*first, *_columns(grid))):
        head = max(len(text) for text in _wrapped_head(grid, index).split("\n"))
        longest = max(head, *(_widest(row[index]) for row in grid.rows))
        wanted = 2 + (min(longest, max(_WRAPPED, head)) if _is_prose(grid, index) else longest)
        if wanted <= room or not kept:
            kept.append(index)
            room -= wanted
    return sorted(kept)


def _names(head: str, column: str) -> bool:
    return head.partition(" [")[0] == spelled(column)
