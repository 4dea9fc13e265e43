"""Lines of text for a terminal: wrapped paragraphs, with a label beside them where there is one, and headings."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mats.model import Severity, Verdict

from ._format import printable

if TYPE_CHECKING:
    from rich.console import Console

LABEL = 9
"""Width of the verdict and of the names before a finding's lines."""

STYLE = {
    Verdict.PASS.value: "bold green",
    Verdict.WARN.value: "bold yellow",
    Verdict.UNKNOWN.value: "bold magenta",
    Verdict.ERROR.value: "bold red",
    Verdict.FAIL.value: "bold red",
    Severity.NOTE.value: "bold",
}
"""Colour of verdicts and severities by their word; it only repeats what the word says."""


def console_of(stream: io.StringIO, width: int, colour: bool) -> Console:
    """A console that depends on nothing but its arguments."""
    from rich.console import Console

    return Console(
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


def heading(console: Console, text: str) -> None:
    from rich.text import Text

    console.print()
    console.print(Text(printable(text), style="bold"))


def note(console: Console, text: str) -> None:
    line(console, None, f"({text})")


def lines(console: Console, label: str, texts: Iterable[str]) -> None:
    """Paragraphs below a finding; the label stands beside the first."""
    for text in texts:
        if text:
            line(console, label, text, label_style="dim", indent=2)
            label = ""


def line(
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
        wrapped = Text(text, style=style).wrap(console, console.width - hang)
        for number, part in enumerate(wrapped):
            console.print(Padding(part, (0, 0, 0, hang if number else 0)))
        return
    width = LABEL if len(label) < LABEL else len(label) + 2
    room = console.width - width - indent
    for number, part in enumerate(Text(text, style=style if not label else "").wrap(console, room)):
        head = Text(" " * indent)
        head.append(f"{label if number == 0 else '':<{width}}", style=style if label_style is None else label_style)
        console.print(head + part, soft_wrap=True)
