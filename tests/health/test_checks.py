"""One row a check: what is healthy, each failing state, and the fact absent; verdict, code and exit as declared."""

from __future__ import annotations

import dataclasses

import pytest

from mats.cli.exits import ExitCode, exit_code
from mats.facts import (
    GpuFacts,
    MachineFacts,
    ProcessFacts,
)
from mats.judge import Judgement, judge
from mats.model import (
    SCHEMA_VERSION,
    Absent,
    HostInfo,
    Observation,
    Quantity,
    Result,
    Run,
    Severity,
    Unit,
    Verdict,
)
from mats.probes._health_examine import examine
from mats.probes._health_limits import LIMITS
from mats.probes.health import PROBE

from .machines import (
    NOT_THERE,
    address,
    changed,
    count,
    machine,
    size,
)
from .rows import ROWS, Row

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL
VERDICTS = {NOTE: Verdict.PASS, WARN: Verdict.WARN, UNKNOWN: Verdict.UNKNOWN, FAIL: Verdict.FAIL}
EXITS = {NOTE: ExitCode.OK, WARN: ExitCode.OK, UNKNOWN: ExitCode.UNKNOWN, FAIL: ExitCode.FINDINGS}


def named(row: Row) -> str:
    return f"{row.code} {row.name}".strip().replace(" ", "-")


def verdict_of(facts: MachineFacts, options: dict[str, object] | None = None) -> tuple[Observation, Judgement]:
    observation = examine(facts, options)
    return observation, judge(observation, LIMITS, "cuda")


def exit_of(observation: Observation, judged: Judgement) -> ExitCode:
    second = Quantity(1.0, Unit.SECOND)
    result = Result(
        "health",
        PROBE.question,
        "cuda:all",
        judged.verdict,
        judged.reason,
        observation,
        judged.findings,
        LIMITS,
        "",
        second,
    )
    host = HostInfo("h", "s", "p", "c", NOT_THERE)
    return exit_code(Run(SCHEMA_VERSION, "mats", "", second, host, ("mats",), (), (result,)))


def broken(row: Row) -> MachineFacts:
    facts = machine()
    for path, value in row.broken.items():
        facts = changed(facts, path, value)
    return facts


def test_a_healthy_machine_passes_without_a_finding() -> None:
    observation, judged = verdict_of(machine())

    assert judged == Judgement(Verdict.PASS, "", ())
    assert observation.diagnoses == ()
    assert exit_of(observation, judged) is ExitCode.OK
    assert observation.notes[0].startswith("2 of 2 GPUs answer. ")


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_broken_state_is_found_under_its_code(row: Row) -> None:
    # when
    observation, judged = verdict_of(broken(row))
    # then
    found = [finding for finding in judged.findings if finding.code == row.code]
    assert found
    assert {finding.code for finding in judged.findings} == {row.code, *row.also}
    assert {finding.severity for finding in found} == {row.severity}
    assert judged.verdict is VERDICTS[row.severity]
    assert exit_of(observation, judged) is EXITS[row.severity]
    assert all(finding.evidence and finding.advice for finding in found)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_finding_of_one_gpu_names_it_and_no_other(row: Row) -> None:
    _, judged = verdict_of(broken(row))

    for finding in judged.findings:
        where = dict(finding.measurement.labels).get("gpu")
        if where is not None:
            assert where == "0"
            assert "GPU 0" in finding.evidence[0]


@pytest.mark.parametrize("row", [row for row in ROWS if row.absent], ids=named)
def test_an_absent_fact_is_never_in_order(row: Row) -> None:
    # given
    facts = machine()
    for path in row.absent:
        facts = changed(facts, path, () if path == "gpu.clocks.held" else NOT_THERE)
    name = next(limit.measurement for limit in LIMITS if limit.code == row.code)
    # when
    observation, judged = verdict_of(facts)
    # then
    readings = [each.reading for each in observation.measurements if each.name == name]
    labelled = [each for each in observation.measurements if each.name == name and each.labels == (("gpu", "0"),)]
    assert any(isinstance(each.reading, Absent) for each in labelled) or all(isinstance(r, Absent) for r in readings)
    assert row.code not in {finding.code for finding in judged.findings}
    if row.core:
        assert judged.verdict is Verdict.UNKNOWN
        assert exit_of(observation, judged) is ExitCode.UNKNOWN


def test_a_gpu_that_nobody_asked_is_unknown() -> None:
    bare = GpuFacts(index=count(0), pci=address(0), answers=NOT_THERE)
    observation, judged = verdict_of(dataclasses.replace(machine(1), gpus=(bare,)))

    assert judged.verdict is Verdict.UNKNOWN
    assert "not told in this test" in judged.reason
    assert exit_of(observation, judged) is ExitCode.UNKNOWN


def test_every_limit_has_a_row() -> None:
    elsewhere = {"HLT-002", "HLT-003", "HLT-071", "HLT-100", *(f"HLT-11{n}" for n in range(6))}

    assert {row.code for row in ROWS} == {limit.code for limit in LIMITS} - elsewhere


def test_everything_is_measured_on_every_gpu() -> None:
    observation, _ = verdict_of(machine())

    per_gpu: dict[str, set[str]] = {}
    for each in observation.measurements:
        if "gpu" in dict(each.labels):
            per_gpu.setdefault(each.name, set()).add(dict(each.labels)["gpu"])
    assert {frozenset(gpus) for gpus in per_gpu.values()} == {frozenset({"0", "1"})}


def test_no_limit_goes_without_a_measurement() -> None:
    for facts in (machine(), MachineFacts()):
        observation, _ = verdict_of(facts)
        assert {limit.measurement for limit in LIMITS} <= {each.name for each in observation.measurements}


def test_processes_of_a_desktop_are_no_fault() -> None:
    drawing = (ProcessFacts(812, size(100 << 20), True, "Xorg"),)
    observation, judged = verdict_of(changed(machine(), "gpu.processes", drawing))

    assert judged.verdict is Verdict.PASS
    assert any("draws a desktop" in note for note in observation.notes)
