"""Numbers as text: prefixes by the rules, never zero for what is not zero, never 100 % for what is less."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.model import AbsenceKind, Absent, Column, Measurement, Quantity, Table, Unit
from mats.reports._format import (
    against_text,
    duration_text,
    number_text,
    printable,
    quantity_text,
    reading_text,
    scale_for,
    time_text,
)
from mats.reports._grid import grid_of, intervals_grid, ranges_grid, statistic_text

from .example_runs import failing_sim


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.BYTE, "0 B"),
        (1023, Unit.BYTE, "1,023 B"),
        (1024, Unit.BYTE, "1.000 KiB"),
        (8188 * 2**20, Unit.BYTE, "7.996 GiB"),
        (16 * 2**40, Unit.BYTE, "16.00 TiB"),
        (999, Unit.BYTE_PER_SECOND, "999 B/s"),
        (8.1239e9, Unit.BYTE_PER_SECOND, "8.124 GB/s"),
        (3.3e12, Unit.BYTE_PER_SECOND, "3.300 TB/s"),
        (1.5, Unit.SECOND, "1.500 s"),
        (0.0041, Unit.SECOND, "4.100 ms"),
        (81e-6, Unit.SECOND, "81.00 µs"),
        (4.2e-9, Unit.SECOND, "4.200 ns"),
        (1.98e9, Unit.HERTZ, "1,980 MHz"),
        (1.4e10, Unit.HERTZ, "14.00 GHz"),
        (41, Unit.CELSIUS, "41 °C"),
        (90.5, Unit.WATT, "90.50 W"),
        (4096, Unit.COUNT, "4,096"),
        (2**200, Unit.COUNT, "about 10^60"),
        (1.0, Unit.RATIO, "100.0 %"),
        (0.0, Unit.RATIO, "0 %"),
        (0.9999999, Unit.RATIO, "99.99999 %"),
        (0.0141, Unit.RATIO, "1.410 %"),
        (5.8e-12, Unit.RATIO, "5.8e-12"),
        (6.0, Unit.RATIO, "6"),
        (2.5, Unit.RATIO, "2.500"),
        (-0.5, Unit.SECOND, "-500.0 ms"),
    ],
)
def test_a_quantity_has_the_prefix_of_its_unit(value: float, unit: Unit, text: str) -> None:
    assert quantity_text(Quantity(value, unit)) == text


@given(st.floats(min_value=1e-30, max_value=1e30), st.sampled_from(Unit))
def test_what_is_not_zero_is_not_shown_as_zero(value: float, unit: Unit) -> None:
    text = quantity_text(Quantity(value, unit))

    assert float(text.split()[0].replace(",", "")) > 0


@given(st.floats(min_value=0, max_value=1, exclude_max=True))
def test_a_share_below_one_is_not_shown_as_all(value: float) -> None:
    text = quantity_text(Quantity(value, Unit.RATIO))

    assert not text.startswith("100")


def test_a_column_has_one_prefix_and_small_values_stay_visible() -> None:
    scale = scale_for(Unit.SECOND, [2.5, 0.0000012])

    assert scale.unit == "s"
    assert [number_text(value, scale) for value in (2.5, 0.0000012, 0.0)] == ["2.500", "1.2e-06", "0.000"]


def test_columns_of_one_unit_share_their_prefix_but_a_moment_has_its_own() -> None:
    columns = (Column("time", Unit.SECOND), Column("mean", Unit.SECOND), Column("deviation", Unit.SECOND))
    table = Table("latency", "", columns, ((3.5, 0.0041, 0.00005),))

    grid = grid_of(table)

    assert grid.heads == ("time [s]", "mean [ms]", "deviation [ms]")
    assert grid.rows == (("3.500", "4.100", "0.05000"),)


def test_a_cut_table_says_so() -> None:
    table = Table("t", "", (Column("n", Unit.COUNT),), tuple((at,) for at in range(1200)))

    grid = grid_of(table, 3)

    assert grid.rows == (("0",), ("1",), ("2",))
    assert grid.note == "the first 3 of 1,200 rows; the saved run (JSON) has them all"


def test_an_absent_reading_says_not_seen_and_why() -> None:
    assert reading_text(Absent(AbsenceKind.NO_PERMISSION, "root only")) == "not seen: root only"


def test_a_finding_names_reading_and_bound_in_one_prefix() -> None:
    finding = failing_sim().results[0].findings[0]
    limit = dataclasses.replace(finding.limit, bound=Quantity(0.25, Unit.SECOND), overridden=False)
    measurement = Measurement("memory.wait", Quantity(3, Unit.SECOND))

    text = against_text(dataclasses.replace(finding, limit=limit, measurement=measurement))

    assert text == "memory.wait 3 s, in order is at most 0.2500 s"


def test_whole_multiples_are_written_whole_on_both_sides_of_a_bound() -> None:
    reading, bound = Quantity(2.0, Unit.RATIO), Quantity(4.0, Unit.RATIO)

    assert (quantity_text(reading), quantity_text(bound, reading)) == ("2", "4")


@pytest.mark.parametrize(
    ("statistic", "samples", "text"),
    [
        ("mean", (1.0, 2.0), "mean, n = 2"),
        ("median of 2 sweeps", (1.0, 2.0), "median of 2 sweeps"),
        ("", (1.0,), "of 1 sample"),
        ("total", (), "total"),
    ],
)
def test_a_statistic_says_of_how_many(statistic: str, samples: tuple[float, ...], text: str) -> None:
    measurement = Measurement("a.b", Quantity(1, Unit.SECOND), statistic=statistic, samples=samples)

    assert statistic_text(measurement) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.25, "250.0 ms"), (21.5, "21.50 s"), (60, "1 min 0 s"), (7500, "2 h 5 min")]
)
def test_a_duration_is_written_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("started", "text"),
    [
        ("2026-11-30T19:11:03+00:00", "2026-11-30 19:11:03 +00:00"),
        ("2026-11-30T19:11:03", "2026-11-30 19:11:03"),
        ("yesterday", "yesterday"),
    ],
)
def test_a_moment_is_written_for_people(started: str, text: str) -> None:
    assert time_text(started) == text


def test_text_is_made_printable_on_one_line() -> None:
    assert printable("a\x1b[31m\r\nb\u202ec\udce9 \t µ°é 漢") == "a\ufffd[31m b\ufffdc\ufffd   µ°é 漢"


def test_a_series_is_shown_by_its_range_without_what_is_absent() -> None:
    unseen = Absent(AbsenceKind.TIMED_OUT, "late")
    columns = (Column("time", Unit.SECOND), Column("power", Unit.WATT), Column("temperature", Unit.CELSIUS))
    table = Table("conditions", "", columns, ((0, 90, unseen), (1, unseen, unseen), (2, 80, unseen)))

    grid = ranges_grid(table)

    assert grid and grid.rows == (("power [W]", "90", "80", "90", "80", "2"),)


@pytest.mark.parametrize("rows", [(), ((1, "write", 0.5),), ((2, "write", 0.5), (2, "write", 0.7))])
def test_intervals_of_a_short_series(rows: tuple[tuple[float, str, float], ...]) -> None:
    columns = (Column("time", Unit.SECOND), Column("operation"), Column("duration", Unit.SECOND))
    table = Table("sweeps", "", columns, rows)

    grid = intervals_grid(table, "duration", "operation")

    assert (grid is None) == (not rows)
    assert grid is None or sum(int(row[2]) for row in grid.rows) == len(rows)
