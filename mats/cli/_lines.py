"""Plain text in columns: a table where it fits, a list of sentences where it does not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

GAP = "  "


def wrapped(text: str, width: int, first: str = "") -> list[str]:
    """``text`` broken at blanks; later lines begin under the end of ``first``. Long words are kept whole."""
    return textwrap.wrap(
        text,
        max(width, len(first) + 20),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def pairs(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Names on the left, what belongs to them on the right; a text's own line breaks are kept."""
    room = max((len(name) for name, _text in rows), default=0) + len(GAP)
    lines = []
    for name, text in rows:
        for number, line in enumerate(text.split("\n")):
            lines += wrapped(line, width, (GAP + ("" if number else name)).ljust(len(GAP) + room))
    return lines


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Columns under their heads; where they are wider than ``width``, each row as a list behind its first cell."""
    kept = [place for place in range(len(heads)) if place == 0 or any(row[place] for row in rows)]
    cells = [[row[place] for place in kept] for row in rows]
    titles = [heads[place] for place in kept]
    rooms = [max(len(line[place]) for line in (titles, *cells)) for place in range(len(kept))]
    if len(GAP) + sum(rooms) + len(GAP) * (len(rooms) - 1) <= width:
        return [_row(line, rooms) for line in (titles, *cells)]
    return _list(titles, cells, width)


def _row(line: Sequence[str], rooms: Sequence[int]) -> str:
    return (GAP + GAP.join(cell.ljust(room) for cell, room in zip(line, rooms, strict=True))).rstrip()


def _list(titles: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    lines = []
    for first, *others in cells:
        said = "; ".join(f"{title} {cell}" for title, cell in zip(titles[1:], others, strict=True) if cell)
        lines += [GAP + first, *wrapped(said, width, GAP * 2)]
    return lines
