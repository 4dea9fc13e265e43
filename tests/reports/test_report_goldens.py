"""Every report of every example run, compared with its golden file in tests/data/runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mats.model import Run
from mats.reports import console, html, json_run, junit, prometheus

from .example_charts import charted
from .example_runs import EXAMPLES
from .golden import check_golden
from .health_runs import broken_machine, laptop

RUNS = {**EXAMPLES, "charted": charted, "health_broken": broken_machine, "health_laptop": laptop}

REPORTS: dict[str, Callable[[Run], str]] = {
    "run.json": json_run.REPORT.render,
    "junit.xml": junit.REPORT.render,
    "metrics.prom": prometheus.REPORT.render,
    "report.html": lambda run: html.render_page(run, lambda: "/* Plotly stands here */"),
    "console-80.txt": lambda run: console.render_console(run, width=80, colour=False),
    "console-160.txt": lambda run: console.render_console(run, width=160, colour=False),
}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("example", RUNS)
def test_a_report_is_as_its_golden_file_shows(example: str, report: str) -> None:
    run = RUNS[example]()

    text = REPORTS[report](run)

    check_golden(f"{example}/{report}", text)


def test_colour_is_as_its_golden_file_shows() -> None:
    run = EXAMPLES["failing_sim"]()

    text = console.render_console(run, width=80, colour=True)

    check_golden("failing_sim/console-colour.txt", text)
