"""How a table says how it is best seen: what is refused when it is made, and what a saved run keeps of it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from mats.codec import SavedRunError, run_from_json, run_to_json, to_data
from mats.model import Chart, ChartKind, Column, Observation, Run, Table, Unit, Verdict

from .example_runs import clean_host, result

COLUMNS = (Column("size", Unit.BYTE), Column("time", Unit.SECOND), Column("way"), Column("back"))
ROWS = ((4096, 1e-6, "up", "down"),)
CHARTS = {
    ChartKind.CURVE: Chart.curve("size", "time", "way", hover=("back",), log_x=True),
    ChartKind.HISTOGRAM: Chart.histogram("time"),
    ChartKind.HEAT_MAP: Chart.heat_map("time", "way", hover=("size",)),
    ChartKind.MATRIX: Chart.matrix("way", "back", "time"),
}


def with_table(table: Table) -> Run:
    observation = Observation(tables=(table,))
    return dataclasses.replace(clean_host(), results=(result("host", Verdict.PASS, observation),))


@pytest.mark.parametrize("kind", ChartKind)
def test_a_chart_of_each_kind_comes_back_from_a_saved_run(kind: ChartKind) -> None:
    run = with_table(Table("t", "", COLUMNS, ROWS, CHARTS[kind]))

    back = run_from_json(run_to_json(run))

    assert back == run
    assert back.results[0].observation.tables[0].chart == CHARTS[kind]


def test_a_run_saved_before_there_were_charts_has_none() -> None:
    data: Any = to_data(with_table(Table("t", "", COLUMNS, ROWS)))
    del data["results"][0]["observation"]["tables"][0]["chart"]

    back = run_from_json(json.dumps(data))

    assert back.results[0].observation.tables[0].chart is None


def test_a_saved_chart_of_a_column_that_is_not_there_is_refused() -> None:
    data: Any = to_data(with_table(Table("t", "", COLUMNS, ROWS, CHARTS[ChartKind.CURVE])))
    data["results"][0]["observation"]["tables"][0]["chart"]["x"] = "length"

    with pytest.raises(SavedRunError, match="its chart names length, which is no column of it"):
        run_from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("chart", "sentence"),
    [
        (Chart.curve("length", "time"), "names length, which is no column"),
        (Chart.curve("size", "time", hover=("length",)), "names length, which is no column"),
        (Chart.curve("way", "time"), "column way is drawn as a number and has no unit"),
        (Chart.histogram("way"), "column way is drawn as a number and has no unit"),
        (Chart.heat_map("back", "way"), "column back is drawn as a number and has no unit"),
    ],
)
def test_a_table_refuses_a_chart_that_does_not_fit_it(chart: Chart, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Table("t", "", COLUMNS, ROWS, chart)


def test_a_matrix_may_hold_words_and_a_heat_map_may_name_its_places_with_them() -> None:
    matrix = Table("t", "", COLUMNS, ROWS, Chart.matrix("way", "size", "back"))
    heat_map = Table("t", "", COLUMNS, ROWS, Chart.heat_map("time", "way"))

    assert matrix.chart and matrix.chart.columns == ("way", "size", "back")
    assert heat_map.chart and heat_map.chart.columns == ("way", "time")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kind": ChartKind.CURVE, "value": "time"}, "curve needs a column as x"),
        ({"kind": ChartKind.MATRIX, "value": "time", "row": "way"}, "matrix needs a column as column"),
        ({"kind": ChartKind.HISTOGRAM, "value": ""}, "histogram needs a column as value"),
        ({"kind": ChartKind.HISTOGRAM, "value": "time", "x": "size"}, "histogram has no x"),
        ({"kind": ChartKind.HEAT_MAP, "value": "time", "series": "way"}, "heat_map has no series"),
        ({"kind": ChartKind.HEAT_MAP, "value": "time", "log_y": True}, "heat_map has no logarithmic axes"),
    ],
)
def test_a_chart_refuses_what_its_kind_does_not_draw(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Chart(**fields)
