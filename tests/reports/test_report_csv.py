"""Tables as CSV: base units in the head, no digit lost that was measured, nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io

from mats.model import AbsenceKind, Absent, Column, Table, Unit
from mats.reports._csv import table_to_csv

from .example_runs import failing_sim
from .golden import check_golden


def test_the_error_records_are_as_their_golden_file_shows() -> None:
    errors = next(table for table in failing_sim().results[0].observation.tables if table.name == "errors")

    text = table_to_csv(errors)

    check_golden("failing_sim/errors.csv", text)


def test_cells_come_back_unrounded_and_absent_ones_with_their_reason() -> None:
    absent = Absent(AbsenceKind.NOT_TESTED, 'the "second", re-read')
    table = Table("t", "", (Column("a"), Column("b", Unit.SECOND)), (("x,y\nz", 1 / 3), (absent, 2**70)))

    rows = list(csv.reader(io.StringIO(table_to_csv(table))))

    assert rows == [
        ["a", "b [s]"],
        ["x,y z", repr(1 / 3)],
        ['not seen: the "second", re-read', str(2**70)],
    ]


def test_temperatures_have_the_decimals_of_a_sensor() -> None:
    table = Table("t", "", (Column("core", Unit.CELSIUS), Column("board", Unit.WATT)), ((45.02855603796703, 71),))

    assert table_to_csv(table).splitlines()[1] == "45.029,71"


def test_a_text_that_a_spreadsheet_would_run_is_defused() -> None:
    table = Table("t", "", (Column("name"), Column("n", Unit.COUNT)), (("=cmd()", -1), ("@x", 0)))

    rows = list(csv.reader(io.StringIO(table_to_csv(table))))

    assert rows[1:] == [["'=cmd()", "-1"], ["'@x", "0"]]


def test_an_empty_table_is_its_head() -> None:
    table = Table("t", "", (Column("address"), Column("errors", Unit.COUNT)), ())

    assert table_to_csv(table) == "address,errors [count]\r\n"
