"""Folding over the parts of a target: names of parts, groups of findings, checks, the account and the gaps."""

from __future__ import annotations

import dataclasses

import pytest

from mats.model import (
    AbsenceKind,
    Absent,
    Column,
    Measurement,
    Observation,
    Quantity,
    Result,
    Run,
    Table,
    Unit,
    Verdict,
)
from mats.reports._gaps import gaps
from mats.reports._grid import grid_of
from mats.reports._matrix import matrices
from mats.reports._part_tables import PartTables, without_constants
from mats.reports._parts import (
    Standing,
    account_text,
    checks_of,
    evidence_lines,
    grouped,
    part_label,
    part_text,
    parts_of,
    reading_text_of,
    verdicts_by_part,
)
from mats.reports._view import target_views

from .example_runs import clean_host, failing_sim
from .example_tables import absent, count
from .health_runs import HEALTH, broken_machine, healthy_machine, laptop, lost_gpu, sixteen


def only(run: Run) -> Result:
    (result,) = run.results
    return result


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["3"], "GPU 3"),
        (["7", "5", "6", "0"], "GPU 0, 5-7"),
        (["0", "1"], "GPU 0, 1"),
        (["10", "9", "8", "2"], "GPU 2, 8-10"),
        (["0000:3b:00.0", "2"], "GPU 2, 0000:3b:00.0"),
        (["1", "1"], "GPU 1"),
        ([], ""),
        ([""], ""),
    ],
)
def test_parts_are_named_as_people_write_them(parts: list[str], text: str) -> None:
    assert part_text("gpu", parts) == text


@pytest.mark.parametrize("example", HEALTH)
def test_a_machine_is_divided_by_its_gpus(example: str) -> None:
    observation = only(HEALTH[example]()).observation

    assert part_label(observation) == "gpu"
    assert parts_of(observation) == tuple(str(at) for at in range(len(parts_of(observation))))


@pytest.mark.parametrize("example", [clean_host, failing_sim])
def test_a_single_device_is_not_divided(example: object) -> None:
    run = example()  # type: ignore[operator]

    assert part_label(only(run).observation) == ""
    assert all(outcome.part == "" for check in checks_of(only(run), "host") for outcome in check.outcomes)


def test_the_same_finding_on_several_gpus_is_one_group_with_all_of_them() -> None:
    groups = grouped(only(sixteen()).findings, "gpu")

    assert [(group.where, group.first.code) for group in groups] == [
        ("GPU 2-4, 9, 11", "HLT-003"),
        ("GPU 4, 9", "HLT-008"),
        ("GPU 2, 3, 11", "HLT-009"),
        ("GPU 12-15", "HLT-022"),
    ]


def test_findings_with_different_advice_are_not_one() -> None:
    findings = only(sixteen()).findings
    other = (dataclasses.replace(findings[0], advice="Something else."), *findings[1:])

    groups = grouped(other, "gpu")

    assert [group.where for group in groups][:2] == ["GPU 2", "GPU 3, 4, 9, 11"]


def test_readings_that_differ_are_told_for_each_gpu_and_equal_ones_once() -> None:
    groups = {group.first.code: group for group in grouped(only(sixteen()).findings, "gpu")}

    assert reading_text_of(groups["HLT-008"]) == "health.remap.pending 1, in order is at most 0"
    assert reading_text_of(groups["HLT-003"], limit=2) == (
        "health.ecc.uncorrected, in order is at most 0: GPU 2 reads 2, GPU 3 reads 3 and 3 more readings"
    )


def test_evidence_stands_with_its_gpu_and_once_where_it_is_the_same() -> None:
    groups = {group.first.code: group for group in grouped(only(broken_machine()).findings, "gpu")}
    heat = groups["HLT-014"]
    same = dataclasses.replace(
        heat, findings=tuple(dataclasses.replace(item, evidence=("the fans stand still",)) for item in heat.findings)
    )

    assert evidence_lines(heat) == (
        "GPU 5: core 88 °C, slowed down for 42 s of the last hour",
        "GPU 6: core 89 °C, slowed down for 61 s of the last hour",
    )
    assert evidence_lines(same) == ("the fans stand still",)


def test_every_check_has_an_outcome_on_every_gpu() -> None:
    result = only(broken_machine())

    checks = {check.limit.measurement: check for check in checks_of(result, "cuda")}

    assert len(checks) == len(result.limits)
    assert [outcome.part for outcome in checks["health.remap.pending"].outcomes] == [str(at) for at in range(8)]
    assert [outcome.part for outcome in checks["health.log.read"].outcomes] == [""]
    by_part = {outcome.part: outcome.standing for outcome in checks["health.heat.memory"].outcomes}
    assert by_part == {"7": Standing.NOT_SEEN} | {str(at): Standing.IN_ORDER for at in range(7)}
    lanes = checks["health.pcie.lane_errors"]
    assert {outcome.standing for outcome in lanes.outcomes} == {Standing.NOT_SUPPORTED}


def test_a_gpu_that_a_check_has_no_reading_of_is_not_seen_on_it() -> None:
    result = only(healthy_machine())
    kept = tuple(
        item
        for item in result.observation.measurements
        if not (item.name == "health.remap.pending" and item.labels == (("gpu", "4"),))
    )
    lacking = dataclasses.replace(result, observation=dataclasses.replace(result.observation, measurements=kept))

    (check,) = (check for check in checks_of(lacking, "cuda") if check.limit.measurement == "health.remap.pending")

    assert [outcome.part for outcome in check.outcomes if outcome.standing is Standing.NOT_SEEN] == ["4"]


def test_a_gpu_without_an_incident_has_no_outcome_on_it_where_incidents_are_counted() -> None:
    result = only(healthy_machine())
    kept = tuple(item for item in result.observation.measurements if item.name != "health.remap.pending")
    incident = Measurement("health.remap.pending", count(0), (("gpu", "4"), ("incident", "1")))
    counted = dataclasses.replace(
        result, observation=dataclasses.replace(result.observation, measurements=(*kept, incident))
    )

    (check,) = (check for check in checks_of(counted, "cuda") if check.limit.measurement == "health.remap.pending")

    assert [(outcome.part, outcome.standing) for outcome in check.outcomes] == [("4", Standing.IN_ORDER)]


def test_the_verdict_on_each_gpu_follows_from_its_own_checks() -> None:
    verdicts = verdicts_by_part(only(broken_machine()), "cuda")

    assert verdicts == {
        "0": Verdict.PASS,
        "1": Verdict.PASS,
        "2": Verdict.PASS,
        "3": Verdict.FAIL,
        "4": Verdict.PASS,
        "5": Verdict.WARN,
        "6": Verdict.WARN,
        "7": Verdict.PASS,
    }


def test_no_gpu_has_passed_where_the_run_ended_before_all_was_seen() -> None:
    whole = only(healthy_machine())
    cut = dataclasses.replace(whole, observation=dataclasses.replace(whole.observation, partial="stopped"))

    assert set(verdicts_by_part(whole, "cuda").values()) == {Verdict.PASS}
    assert set(verdicts_by_part(cut, "cuda").values()) == {Verdict.UNKNOWN}


def test_a_gpu_of_which_a_required_reading_was_not_seen_is_unknown() -> None:
    result = only(healthy_machine())
    hidden = absent(AbsenceKind.TIMED_OUT, "no answer within 2 s")
    measurements = tuple(
        dataclasses.replace(item, reading=hidden)
        if item.name == "health.known.errors" and item.labels == (("gpu", "1"),)
        else item
        for item in result.observation.measurements
    )
    unseen = dataclasses.replace(result, observation=dataclasses.replace(result.observation, measurements=measurements))

    verdicts = verdicts_by_part(unseen, "cuda")

    assert [part for part, verdict in verdicts.items() if verdict is not Verdict.PASS] == ["1"]
    assert verdicts["1"] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (healthy_machine, "32 checks on 8 GPUs: 30 in order, 1 not seen, 1 not supported here"),
        (
            broken_machine,
            "32 checks on 8 GPUs: 25 in order, 4 findings, 1 note, 1 not seen, 1 not supported here",
        ),
        (
            lost_gpu,
            "32 checks on 7 of 8 GPUs: 31 in order, 1 not supported here; GPU 2, hardly seen: 1 finding, 28 not seen",
        ),
        (laptop, "32 checks on 1 GPU: 17 in order, 1 not seen, 14 not supported here"),
    ],
)
def test_the_account_counts_each_check_once_and_sets_a_lost_gpu_apart(run: object, text: str) -> None:
    assert account_text(only(run()), "cuda") == text  # type: ignore[operator]


def test_gaps_are_told_once_for_each_reason_with_the_gpus_they_concern() -> None:
    (view,) = target_views(lost_gpu())

    told = [(gap.where, len(gap.names), gap.reason, gap.supported) for gap in gaps(view)]

    assert told == [
        ("GPU 2", 28, "GPU 2 does not answer (NVML: GPU is lost)", True),
        ("GPU 0, 1, 3-7", 1, "this GPU does not count them", False),
    ]
    assert gaps(view)[0].text().endswith("health.remap.failed and 20 more")
    assert gaps(view)[1].text() == "PCIe lane errors: this GPU does not count them"


def test_no_absent_reading_is_missing_from_the_gaps() -> None:
    for build in HEALTH.values():
        run = build()
        (view,) = target_views(run)

        told = {name for gap in gaps(view) for name in gap.names}

        measurements = only(run).observation.measurements
        assert told >= {item.name for item in measurements if isinstance(item.reading, Absent)}


def test_the_table_of_gpus_carries_the_verdict_and_the_codes_of_what_is_wrong() -> None:
    overview = PartTables(only(broken_machine()), "cuda").overview

    assert overview is not None
    assert [column.name for column in overview.columns[:4]] == ["gpu", "verdict", "findings", "name"]
    assert [row[1:3] for row in overview.rows[2:6]] == [
        ("pass", ""),
        ("FAIL", "HLT-003, HLT-008"),
        ("pass", ""),
        ("WARN", "HLT-014, HLT-016"),
    ]


def test_a_gpu_of_which_only_a_finding_tells_does_not_take_the_table_away() -> None:
    result = only(broken_machine())
    gone = Measurement("health.change.gone", count(1), (("gpu", "12"),))
    changes = Table(
        "changes", "Changes", (Column("gpu"), Column("now")), tuple((str(at), "gone") for at in range(8, 20))
    )
    observation = dataclasses.replace(
        result.observation,
        measurements=(*result.observation.measurements, gone),
        tables=(changes, *result.observation.tables),
    )

    overview = PartTables(dataclasses.replace(result, observation=observation), "cuda").overview

    assert overview is not None and overview.name == "gpus"


def test_rows_that_differ_in_gpu_and_number_only_are_folded() -> None:
    tables = PartTables(only(broken_machine()), "cuda")
    links = next(table for table in tables.others if table.name == "links")

    grid = tables.short(links)

    assert grid is not None
    assert [row[:3] for row in grid.rows] == [("0-5, 7", "0-11", "up"), ("6", "0-2, 4-11", "up"), ("6", "3", "down")]


def test_of_a_long_table_that_does_not_fold_only_the_gpus_out_of_order_are_shown() -> None:
    tables = PartTables(only(broken_machine()), "cuda")
    path = next(table for table in tables.others if table.name == "path")

    grid = tables.short(path)

    assert grid is not None
    assert {row[0] for row in grid.rows} == {"3", "5", "6"}
    assert grid.title.endswith(": GPU 3, 5, 6")
    assert grid.note == "15 more rows in the HTML report and the saved run (JSON)"


def test_a_long_table_of_a_machine_in_order_is_left_to_the_page() -> None:
    result, path = only(healthy_machine()), only(broken_machine()).observation.tables[2]
    observation = dataclasses.replace(result.observation, tables=(*result.observation.tables, path))

    tables = PartTables(dataclasses.replace(result, observation=observation), "cuda")

    assert tables.short(path) is None


def test_columns_that_say_the_same_everywhere_are_told_in_the_title() -> None:
    columns = (Column("gpu"), Column("verdict"), Column("name"), Column("memory", Unit.BYTE), Column("serial"))
    table = Table("gpus", "GPUs", columns, (("0", "pass", "T4", 2**34, "1"), ("1", "pass", "T4", 2**34, "2")))

    grid = without_constants(grid_of(table), lambda grid: False)

    assert grid.title == "GPUs (all: name T4, memory 16.00 GiB)"
    assert grid.heads == ("GPU", "verdict", "serial")


def test_the_matrix_shows_what_tells_something_before_what_is_in_order() -> None:
    telling, quiet = matrices(only(broken_machine()), "cuda")

    assert [limit.code for limit, _ in telling.rows] == [
        "HLT-003",
        "HLT-008",
        "HLT-014",
        "HLT-016",
        "HLT-017",
        "HLT-026",
    ]
    assert len(quiet.rows) == 26
    marks = telling.rows[0][1]
    assert [mark.word for mark in marks if mark] == ["in order"] * 3 + ["fail"] + ["in order"] * 4
    assert telling.heads == tuple(f"GPU {at}" for at in range(8))
    assert quiet.heads[0] == "machine"


def test_a_lost_gpu_does_not_hide_the_matrix_of_the_others() -> None:
    telling, quiet = matrices(only(lost_gpu()), "cuda")

    assert [limit.code for limit, _ in telling.rows] == ["HLT-001"]
    assert any(mark and mark.word == "not seen" for _, marks in quiet.rows for mark in marks)


def test_labels_beside_the_part_are_kept_in_findings_and_gaps() -> None:
    labels = (("gpu", "1"), ("link", "5"))
    crc = Measurement("links.crc", count(3), labels)
    gone = Measurement("links.replays", absent(AbsenceKind.NOT_FOUND, "no counter"), labels)
    result = only(sixteen())
    finding = dataclasses.replace(result.findings[0], measurement=crc)
    other = dataclasses.replace(finding, measurement=dataclasses.replace(crc, reading=Quantity(4, Unit.COUNT)))

    (group,) = grouped((finding, other), "gpu")
    (view,) = target_views(
        dataclasses.replace(
            sixteen(), results=(dataclasses.replace(result, observation=Observation((crc, gone)), limits=()),)
        )
    )

    assert group.where == "GPU 1"
    assert reading_text_of(group) == (
        "links.crc, in order is at most 0: GPU 1 (link 5) reads 3, GPU 1 (link 5) reads 4"
    )
    assert [gap.names for gap in gaps(view)] == [("links.replays (link 5)",)]
