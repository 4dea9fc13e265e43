"""JUnit: never empty; unknown is skipped with its reason, a failing tool an error, a broken limit a failure."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from mats.model import Observation, Run, Severity, Verdict
from mats.reports.junit import render_junit

from .example_runs import EXAMPLES, failing_sim, host_target, result, run


def parse(example: Run, fail_on: Severity = Severity.FAIL) -> ET.Element:
    return ET.fromstring(render_junit(example, fail_on=fail_on).encode("utf-8"))


def outcomes(root: ET.Element) -> dict[str, str]:
    """Outcome by the first word of each test case's name."""
    found = {}
    for case in root.iter("testcase"):
        kinds = [child.tag for child in case if child.tag != "system-out"]
        assert len(kinds) <= 1
        found[case.attrib["name"].split()[0].rstrip(":")] = kinds[0] if kinds else "passed"
    return found


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (
            "clean_host",
            {"stress": "passed", "MEM-101": "passed", "MEM-201": "passed", "MEM-301": "passed", "MEM-401": "skipped"},
        ),
        (
            "failing_sim",
            {"stress": "failure", "MEM-101": "failure", "MEM-201": "passed", "MEM-301": "passed", "MEM-401": "skipped"},
        ),
        ("no_gpu", {"stress": "skipped", "MEM-101": "skipped", "MEM-401": "skipped"}),
        (
            "all_absent",
            {
                "stress": "skipped",
                "MEM-101": "skipped",
                "MEM-201": "skipped",
                "MEM-301": "skipped",
                "MEM-401": "skipped",
            },
        ),
    ],
)
def test_every_probe_and_limit_has_its_outcome(example: str, expected: dict[str, str]) -> None:
    root = parse(EXAMPLES[example]())

    assert outcomes(root) == expected


def test_each_target_is_a_suite_and_a_required_probe_that_was_not_run_is_one_more() -> None:
    root = parse(EXAMPLES["broken_and_partial"]())

    assert [suite.attrib["name"] for suite in root] == ["cuda:0", "host", "mats"]
    assert outcomes(root[0])["stress"] == "error"
    assert outcomes(root[1])["MEM-301"] == "skipped"
    assert outcomes(root[2]) == {"links": "skipped"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_totals_are_those_of_the_cases_and_what_is_skipped_says_why(example: str) -> None:
    root = parse(EXAMPLES[example]())

    for element in (root, *root):
        for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            assert element.attrib[attribute] == str(len(list(element.iter(tag))))
    assert all(skipped.attrib["message"] for skipped in root.iter("skipped"))


def test_a_warning_fails_only_when_warnings_are_to_fail() -> None:
    example = failing_sim()

    assert outcomes(parse(example))["MEM-201"] == "passed"
    assert outcomes(parse(example, Severity.WARN))["MEM-201"] == "failure"


def test_a_warning_that_passes_shows_what_was_seen() -> None:
    root = parse(failing_sim())

    case = next(case for case in root.iter("testcase") if case.attrib["name"].startswith("MEM-201"))
    assert "WARN MEM-201" in (case.findtext("system-out") or "")


def test_a_broken_limit_carries_reading_evidence_and_source() -> None:
    root = parse(failing_sim())

    case = next(case for case in root.iter("testcase") if case.attrib["name"].startswith("MEM-101"))
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "memory.errors 4,096, in order is at most 0"
    assert "confined to 1 of 8 address slices" in (failure.text or "")


def test_a_simulated_suite_says_so() -> None:
    root = parse(failing_sim())

    properties = {item.attrib["name"]: item.attrib["value"] for item in root.iter("property")}
    assert properties["simulated"] == "true"
    assert properties["stamp"].startswith("SIMULATED")


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (run((), ()), "nothing was measured: no target was named or found"),
        (run((), (), notes=("No driver.",)), "nothing was measured: No driver."),
        (run((host_target(),), ()), "nothing was measured: no probe was run"),
        (run((host_target(),), (result("host", Verdict.UNKNOWN, Observation(), limits=()),)), "no reason was recorded"),
    ],
)
def test_it_is_never_empty(example: Run, reason: str) -> None:
    root = parse(example)

    (skipped,) = root.iter("skipped")
    assert skipped.attrib["message"] == reason
