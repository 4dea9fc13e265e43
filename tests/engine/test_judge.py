"""What measurements and limits come to."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.cli.exits import ExitCode, exit_code
from mats.judge import judge, rejudge
from mats.limits import Override
from mats.model import (
    SCHEMA_VERSION,
    AbsenceKind,
    Absent,
    Diagnosis,
    Measurement,
    Observation,
    Quantity,
    Relation,
    Result,
    Run,
    Severity,
    Unit,
    UnitError,
    Verdict,
    worst,
)

from .fakes import ABSENT, HOST, count, limit, seen, target_info

AT_MOST, AT_LEAST = Relation.AT_MOST, Relation.AT_LEAST
NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL


@pytest.mark.parametrize(
    ("relation", "value", "severity", "verdict"),
    [
        (AT_MOST, 2, FAIL, Verdict.PASS),
        (AT_MOST, 3, FAIL, Verdict.PASS),
        (AT_MOST, 4, FAIL, Verdict.FAIL),
        (AT_MOST, 4, WARN, Verdict.WARN),
        (AT_MOST, 4, UNKNOWN, Verdict.UNKNOWN),
        (AT_MOST, 4, NOTE, Verdict.PASS),
        (AT_LEAST, 4, FAIL, Verdict.PASS),
        (AT_LEAST, 3, FAIL, Verdict.PASS),
        (AT_LEAST, 2, FAIL, Verdict.FAIL),
        (AT_LEAST, 2, WARN, Verdict.WARN),
        (AT_LEAST, 2, UNKNOWN, Verdict.UNKNOWN),
        (AT_LEAST, 2, NOTE, Verdict.PASS),
    ],
)
def test_both_sides_of_each_relation(relation: Relation, value: int, severity: Severity, verdict: Verdict) -> None:
    judged = judge(Observation((seen(value),)), [limit(relation=relation, bound=count(3), severity=severity)], "host")

    assert judged.verdict is verdict
    assert bool(judged.findings) is (value not in (3, {AT_MOST: 2, AT_LEAST: 4}[relation]))
    assert bool(judged.reason) is (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        ((FAIL, UNKNOWN, WARN), Verdict.FAIL),
        ((UNKNOWN, WARN), Verdict.UNKNOWN),
        ((WARN, NOTE), Verdict.WARN),
        ((NOTE,), Verdict.PASS),
    ],
)
def test_the_worst_finding_decides(severities: tuple[Severity, ...], verdict: Verdict) -> None:
    limits = [limit(f"FAKE-{number}", severity=severity) for number, severity in enumerate(severities)]

    judged = judge(Observation((seen(1),)), limits, "host")

    assert judged.verdict is verdict
    assert len(judged.findings) == len(severities)


def test_a_broken_limit_takes_the_findings_with_it_that_it_says_are_not_to_be_believed() -> None:
    # given
    doubt = limit("X-1", measurement="noise", severity=UNKNOWN, voids=("slow",))
    slow, wrong = limit("X-2", measurement="slow"), limit("X-3", measurement="wrong")
    everything = (seen(9, "noise"), seen(9, "slow"), seen(9, "wrong"))

    # when
    noisy = judge(Observation(everything[:2]), [doubt, slow, wrong], "host")
    also_wrong = judge(Observation(everything), [doubt, slow, wrong], "host")
    not_asked = judge(Observation(everything[:2]), [dataclasses.replace(doubt, severity=NOTE), slow], "host")

    # then
    assert (noisy.verdict, [finding.code for finding in noisy.findings]) == (Verdict.UNKNOWN, ["X-1"])
    assert (also_wrong.verdict, [finding.code for finding in also_wrong.findings]) == (Verdict.FAIL, ["X-1", "X-3"])
    assert not_asked.verdict is Verdict.FAIL


def test_several_verdicts_come_to_the_worst() -> None:
    assert worst([Verdict.PASS, Verdict.WARN]) is Verdict.WARN
    assert worst([Verdict.UNKNOWN, Verdict.WARN]) is Verdict.UNKNOWN
    assert worst([Verdict.UNKNOWN, Verdict.ERROR]) is Verdict.ERROR
    assert worst([Verdict.FAIL, Verdict.ERROR]) is Verdict.FAIL
    assert worst([]) is Verdict.UNKNOWN


def test_a_required_reading_that_is_absent_is_unknown_with_its_reason() -> None:
    observation = Observation((seen(ABSENT), seen(1, "fake.other")))

    judged = judge(observation, [limit(required=True), limit("FAKE-002", "fake.other", bound=count(5))], "host")

    assert judged.verdict is Verdict.UNKNOWN
    assert judged.reason == f"not known whether fake.errors is in order ({ABSENT.reason})"


def test_a_required_reading_that_was_never_taken_is_unknown() -> None:
    judged = judge(Observation((seen(1, "fake.other"),)), [limit(required=True)], "host")

    assert (judged.verdict, judged.reason) == (
        Verdict.UNKNOWN,
        "not known whether fake.errors is in order (not measured)",
    )


def test_readings_that_are_missing_for_one_reason_are_named_together() -> None:
    observation = Observation((seen(ABSENT), seen(ABSENT, "fake.other"), seen(0, "fake.third")))
    limits = [limit(required=True), limit("FAKE-002", "fake.other", required=True), limit("FAKE-003", "fake.third")]

    told = "not known whether fake.errors is in order, fake.other is in order"
    assert judge(observation, limits, "host").reason == f"{told} ({ABSENT.reason})"


def test_a_reading_that_is_not_required_may_be_absent() -> None:
    observation = Observation((seen(ABSENT), seen(1, "fake.other")))

    judged = judge(observation, [limit(), limit("FAKE-002", "fake.other", bound=count(5))], "host")

    assert judged.verdict is Verdict.PASS


def test_a_limit_holds_for_all_labels_of_its_measurement() -> None:
    observation = Observation((seen(0, labels=(("operation", "read"),)), seen(2, labels=(("operation", "write"),))))

    judged = judge(observation, [limit()], "host")

    assert [finding.measurement.labels for finding in judged.findings] == [(("operation", "write"),)]


def test_required_means_each_label() -> None:
    observation = Observation((seen(0, labels=(("link", "0"),)), seen(ABSENT, labels=(("link", "1"),))))

    assert judge(observation, [limit(required=True)], "host").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("kind", "verdict"), [("cuda", Verdict.FAIL), ("host", Verdict.UNKNOWN)])
def test_a_limit_for_one_kind_is_not_held_against_another(kind: str, verdict: Verdict) -> None:
    assert judge(Observation((seen(1),)), [limit(kinds=("cuda",))], kind).verdict is verdict


def test_a_probe_without_limits_passes_when_it_measured() -> None:
    assert judge(Observation((seen(1),)), [], "host").verdict is Verdict.PASS
    assert judge(Observation(), [], "host").verdict is Verdict.UNKNOWN


def test_a_probe_whose_limits_met_no_reading_is_unknown() -> None:
    judged = judge(Observation((seen(1, "fake.other"), seen(ABSENT))), [limit()], "host")

    assert judged.verdict is Verdict.UNKNOWN
    assert ABSENT.reason in judged.reason


def test_a_probe_that_ended_early_is_unknown_however_good_it_looked() -> None:
    judged = judge(Observation((seen(0),), partial="stopped by Ctrl-C"), [limit()], "host")

    assert (judged.verdict, judged.reason) == (Verdict.UNKNOWN, "stopped by Ctrl-C")


def test_a_probe_that_ended_early_still_fails_by_what_it_found() -> None:
    assert judge(Observation((seen(1),), partial="stopped by Ctrl-C"), [limit()], "host").verdict is Verdict.FAIL


def test_two_units_are_never_compared() -> None:
    with pytest.raises(UnitError):
        judge(Observation((seen(1),)), [limit(bound=Quantity(1, Unit.SECOND))], "host")


def test_a_diagnosis_of_the_measurement_is_attached_to_the_finding() -> None:
    named = Diagnosis("stuck_dq", "One data line is stuck", "fake.errors", ("bit 5 in 99 %",), "Replace it.")
    other = Diagnosis("hot", "It is hot", "fake.temperature", (), "Cool it.")

    (finding,) = judge(Observation((seen(1),), diagnoses=(other, named)), [limit()], "host", "cuda:0").findings

    assert (finding.fault, finding.target, finding.advice) == ("stuck_dq", "cuda:0", "Replace it.")
    assert finding.evidence == ("One data line is stuck", "bit 5 in 99 %")


def test_two_diagnoses_of_one_measurement_are_both_named() -> None:
    line = Diagnosis("stuck_dq", "One data line is stuck", "fake.errors", ("bit 5",), "Replace it.")
    cell = Diagnosis("stuck_cell", "One cell is stuck", "fake.errors", ("byte 8",), "Keep the page out of use.")

    (finding,) = judge(Observation((seen(1),), diagnoses=(line, cell)), [limit()], "host").findings

    assert finding.fault == "stuck_dq, stuck_cell"
    assert finding.advice == "Replace it. Keep the page out of use."


def test_the_evidence_of_one_part_never_stands_under_the_finding_of_another() -> None:
    readings = tuple(Measurement("fake.errors", count(1), (("gpu", part),)) for part in ("0", "3"))
    third = Diagnosis("stuck_dq", "GPU 3: a line is stuck", "fake.errors", ("bit 5",), "Replace it.", (("gpu", "3"),))

    first, second = judge(Observation(readings, diagnoses=(third,)), [limit()], "host").findings

    assert (first.fault, first.evidence) == ("", ())
    assert (second.fault, second.evidence) == ("stuck_dq", ("GPU 3: a line is stuck", "bit 5"))


def test_without_a_diagnosis_the_limit_advises() -> None:
    (finding,) = judge(Observation((seen(1),)), [limit()], "host").findings

    assert (finding.fault, finding.evidence, finding.advice) == ("", (), "Change the plan.")


absences = st.builds(Absent, st.sampled_from(AbsenceKind), st.text(min_size=1))
relations = st.sampled_from(Relation)


@given(
    readings=st.lists(st.tuples(st.sampled_from(["fake.a", "fake.b", "fake.c"]), absences)),
    rules=st.lists(
        st.tuples(st.sampled_from(["fake.a", "fake.b"]), relations, st.sampled_from(Severity), st.booleans())
    ),
)
def test_when_all_is_absent_it_is_unknown_and_exits_3(
    readings: list[tuple[str, Absent]], rules: list[tuple[str, Relation, Severity, bool]]
) -> None:
    observation = Observation(tuple(seen(reading, name) for name, reading in readings))
    limits = tuple(
        limit(f"FAKE-{number}", name, relation, count(1), severity, required)
        for number, (name, relation, severity, required) in enumerate(rules)
    )

    judged = judge(observation, limits, "host")

    assert judged.verdict is Verdict.UNKNOWN
    assert judged.reason
    assert judged.findings == ()
    run = a_run(a_result(observation, judged.verdict, limits))
    assert exit_code(run, Severity.FAIL) is exit_code(run, Severity.WARN) is ExitCode.UNKNOWN


def a_result(observation: Observation, verdict: Verdict, limits: tuple[object, ...] = ()) -> Result:
    seconds = Quantity(1.0, Unit.SECOND)
    return Result("fake", "Is it?", "host", verdict, "", observation, (), limits or (limit(),), "2025", seconds)  # type: ignore[arg-type]


def a_run(*results: Result, required: tuple[str, ...] = ()) -> Run:
    return Run(
        SCHEMA_VERSION,
        "mats",
        "2025",
        Quantity(1.0, Unit.SECOND),
        HOST,
        ("mats",),
        (target_info(),),
        results,
        required=required,
    )


def test_judging_again_uses_the_overrides_and_marks_them() -> None:
    before = a_run(a_result(Observation((seen(3),)), Verdict.FAIL))

    after = rejudge(before, (Override("FAKE-001", count(3), None, "", "my.toml"),))

    (result,) = after.results
    assert result.verdict is Verdict.PASS
    assert result.limits[0].overridden
    assert before.results[0].verdict is Verdict.FAIL


def test_judging_again_without_overrides_changes_nothing() -> None:
    observation = Observation((seen(3),))
    judged = judge(observation, [limit()], "host", "host")
    before = a_run(dataclasses.replace(a_result(observation, judged.verdict), findings=judged.findings))

    assert rejudge(before) == before


def test_judging_again_does_not_turn_an_error_into_a_pass() -> None:
    broken = dataclasses.replace(a_result(Observation((seen(0),)), Verdict.ERROR), reason="it fell over")

    (result,) = rejudge(a_run(broken)).results

    assert (result.verdict, result.reason) == (Verdict.ERROR, "it fell over")


def test_judging_again_keeps_why_nothing_was_seen() -> None:
    not_run = dataclasses.replace(a_result(Observation(), Verdict.UNKNOWN), reason="the driver is too old")

    (result,) = rejudge(a_run(not_run)).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "the driver is too old")


def test_what_a_run_that_stopped_early_did_not_see_is_told_once() -> None:
    stopped = "the time limit of 1 s was reached"
    absent = Absent(AbsenceKind.NOT_TESTED, f"{stopped} while memory was being had")
    judged = judge(Observation((seen(absent),), partial=stopped), [limit(required=True)], "host")

    assert (judged.verdict, judged.reason) == (Verdict.UNKNOWN, stopped)
