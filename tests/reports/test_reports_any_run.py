"""Every report is made of whatever a run may hold, and keeps the rules of its format."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from mats.codec import run_to_json
from mats.model import Run
from mats.reports import console, html, junit, prometheus
from mats.reports._schema import run_schema

from .exposition import parse_exposition
from .strategies import runs

RELAXED = settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@RELAXED
@given(runs)
def test_the_console_report_of_any_run_fits_its_width_and_drives_no_terminal(run: Run) -> None:
    text = console.render_console(run, width=80, colour=False)

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@RELAXED
@given(runs)
def test_the_page_of_any_run_can_be_made_and_encoded(run: Run) -> None:
    text = html.render_page(run, lambda: "")

    assert text.encode("utf-8").endswith(b"</html>\n")


@RELAXED
@given(runs)
def test_the_junit_report_of_any_run_is_xml_with_a_test_case(run: Run) -> None:
    root = ET.fromstring(junit.render(run).encode("utf-8"))

    assert root.find("testsuite/testcase") is not None


@RELAXED
@given(runs)
def test_the_metrics_of_any_run_keep_the_rules_of_the_format(run: Run) -> None:
    families = parse_exposition(prometheus.render(run))

    assert "mats_run_verdict" in families


@RELAXED
@given(runs)
def test_any_saved_run_is_valid_by_the_schema(run: Run) -> None:
    Draft202012Validator(run_schema()).validate(json.loads(run_to_json(run)))
