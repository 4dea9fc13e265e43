"""The page: complete without a network and without JavaScript, and safe from what a run's texts hold."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
from typing import Any

import pytest

from mats.model import Column, Observation, Run, Table, Unit, Verdict
from mats.reports import html as page
from mats.reports._figures import figures_of
from mats.reports._plot import MAX_POINTS, thinned

from .example_runs import (
    EXAMPLES,
    broken_and_partial,
    clean_host,
    failing_sim,
    host_target,
    result,
    run,
)
from .example_tables import sweeps_table

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(html.parser.HTMLParser):
    """Collects the elements, checks that they close in order, and keeps the text outside scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.text.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader


def render(example: Run) -> str:
    return str(page.render_page(example, lambda: "/* Plotly */"))


def plots_of(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="plots">(.*?)</script>', text, re.DOTALL)
    assert found
    plots: list[dict[str, Any]] = json.loads(found[1])
    return plots


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_is_well_formed_and_names_no_other_place(example: str) -> None:
    reader = read(render(EXAMPLES[example]()))

    for tag, attributes in reader.elements:
        assert tag not in ("link", "iframe", "img", "object", "base"), tag
        assert not {"src", "href", "action", "srcset"} & attributes.keys(), (tag, attributes)
    policy = next(attrs["content"] for tag, attrs in reader.elements if "http-equiv" in attrs)
    assert policy and policy.startswith("default-src 'none'")
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_whole_page_holds_plotly_and_stays_under_six_megabytes() -> None:
    text = page.render(failing_sim())

    script = page.plotly_script()
    assert script in text
    assert "</script" not in script
    assert len(text.encode("utf-8")) < 6_000_000


def test_a_run_with_nothing_to_draw_goes_without_the_script() -> None:
    text = page.render(EXAMPLES["no_gpu"]())

    assert "<script" not in text
    assert len(text) < 20_000


def test_markup_in_a_title_is_shown_and_not_obeyed() -> None:
    text = render(broken_and_partial())

    reader = read(text)
    assert '<script>alert("card")</script> & "Sons"' in "".join(reader.text)
    assert "alert" not in "".join(reader.scripts)
    assert "\x1b" not in text


def test_markup_in_names_that_are_drawn_cannot_end_the_script() -> None:
    hostile = "</script><script>alert(1)</script>"
    table = sweeps_table(4, 0.1)
    rows = tuple((*row[:2], hostile, *row[3:]) for row in table.rows)
    observation = Observation(tables=(dataclasses.replace(table, rows=rows),))
    example = run((host_target(),), (result("host", Verdict.PASS, observation),))

    text = render(example)

    assert hostile not in text
    assert plots_of(text)[0]["data"][0]["name"] == hostile
    read(text)


@pytest.mark.parametrize(
    ("example", "heading"),
    [
        ("clean_host", "PASS host: nothing out of order in 1 probe (stress)"),
        ("failing_sim", "FAIL sim:stuck_dq: One data line of one channel is stuck: memory.errors 4,096"),
        ("broken_and_partial", "ERROR 2 targets: 1 error, 1 unknown"),
    ],
)
def test_the_verdict_is_the_first_text_of_the_body(example: str, heading: str) -> None:
    text = render(EXAMPLES[example]())

    reader = read(text[text.index("<body>") :].replace("</html>", ""))
    assert " ".join("".join(reader.text).split()).startswith(heading)


def test_a_simulated_run_is_stamped() -> None:
    assert "SIMULATED" in "".join(read(render(failing_sim())).text)
    assert "SIMULATED" not in render(clean_host())


def test_everything_of_the_run_is_readable_without_javascript() -> None:
    example = failing_sim()

    text = "".join(read(render(example)).text)

    observation = example.results[0].observation
    for wanted in (
        *observation.notes,
        *(measurement.name for measurement in observation.measurements),
        *(str(row[0]) for table in observation.tables if table.name in ("errors", "page_errors") for row in table.rows),
        *(limit.reasoning for limit in example.results[0].limits),
        "this card has no ECC",
        "448.0 GB/s",
    ):
        assert wanted in text, wanted


def test_every_plot_has_its_figures_as_a_table() -> None:
    figures = figures_of(failing_sim().results[0].observation)

    assert [figure.key for figure in figures] == [
        "page-errors",
        "error-map",
        "bit-histogram",
        "popcount",
        "sweeps-duration",
        "sweeps-bandwidth",
        "conditions-celsius",
        "conditions-hertz",
        "conditions-watt",
        "conditions-count",
    ]
    for figure in figures:
        assert figure.grid or "table stands with the first plot" in figure.caption, figure.key


def test_plotly_accepts_every_plot() -> None:
    import plotly.graph_objects

    for plot in plots_of(render(failing_sim())):
        plotly.graph_objects.Figure({"data": plot["data"], "layout": plot["layout"]})


def test_the_error_map_shows_the_wrong_bits_and_their_direction() -> None:
    figures = {figure.key: figure for figure in figures_of(failing_sim().results[0].observation)}

    (trace,) = figures["error-map"].data

    assert trace["name"] == "0 to 1"
    assert set(trace["y"]) == {5, 21}
    assert trace["x"][0] == 0


def test_a_long_series_is_thinned_without_losing_its_extremes_and_says_so() -> None:
    table = sweeps_table(100_000, 0.001)

    figures = {figure.key: figure for figure in figures_of(Observation(tables=(table,)))}

    figure = figures["sweeps-duration"]
    drawn = [y for trace in figure.data for y in trace["y"]]
    assert len(drawn) <= 2 * MAX_POINTS
    slowest = max(row[5] for row in table.rows if isinstance(row[5], float))
    assert max(drawn) == pytest.approx(slowest * 1e3, rel=1e-5)
    assert figure.caption.startswith("3,000 of 100,000 chunk sweeps drawn")
    assert figure.grid and 12 <= len(figure.grid.rows) <= 26


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 1000])
def test_thinning_keeps_the_order_the_lowest_and_the_highest(count: int) -> None:
    points = [(at, (at * 7919) % 1009) for at in range(count)]

    kept = thinned(points, 10)

    assert len(kept) <= max(10, 0)
    assert kept == sorted(kept)
    if points:
        assert min(y for _, y in kept) == min(y for _, y in points)
        assert max(y for _, y in kept) == max(y for _, y in points)


def test_long_evidence_is_cut_and_says_so() -> None:
    columns = (Column("address"), Column("errors", Unit.COUNT))
    table = Table("page_errors", "Errors per page", columns, tuple((f"0x{at << 21:x}", 1) for at in range(5000)))
    example = run((host_target(),), (result("host", Verdict.FAIL, Observation(tables=(table,))),))

    text = render(example)

    assert "the first 500 of 5,000 rows" in text
    assert "The 3,000 pages with most errors of 5,000 with any." in text


def test_the_page_follows_light_and_dark() -> None:
    text = render(clean_host())

    assert '<meta name="color-scheme" content="light dark">' in text
    assert "prefers-color-scheme: dark" in text
