"""A table of evidence as CSV (RFC 4180), for spreadsheets and scripts.

The head names each column with its unit, cells are in base units and unrounded, but for temperature and power, of which
no sensor tells more than three decimals; an absent cell is written ``not seen: reason``. Words and addresses stay
hexadecimal text.
"""

from __future__ import annotations

import csv
import io

from mats.model import Absent, Cell, Column, Table, Unit

from ._format import absent_text, printable

_SENSED = (Unit.CELSIUS, Unit.WATT)
_DECIMALS = 3


def table_to_csv(table: Table) -> str:
    """The table with a head line, lines ending in CR LF."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow([_head(column) for column in table.columns])
    units = [column.unit for column in table.columns]
    writer.writerows([_cell(cell, unit) for cell, unit in zip(row, units, strict=True)] for row in table.rows)
    return stream.getvalue()


def _head(column: Column) -> str:
    return printable(column.name if column.unit is None else f"{column.name} [{column.unit.value}]")


def _cell(cell: Cell, unit: Unit | None) -> str:
    """A text that a spreadsheet would run as a formula is quoted with an apostrophe."""
    if isinstance(cell, Absent):
        return printable(absent_text(cell))
    if isinstance(cell, str):
        text = printable(cell)
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return repr(round(cell, _DECIMALS) if unit in _SENSED else cell)
