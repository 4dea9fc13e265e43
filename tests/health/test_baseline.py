"""What changed since an earlier run: GPUs by UUID, counters by what they count, GPUs that are gone or new."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mats.codec import from_data, to_data
from mats.facts import AerFacts, MachineFacts
from mats.judge import Judgement, judge
from mats.model import Absent, Observation, Quantity, Result, Table, Unit, Verdict
from mats.probes._health_baseline import compare, moment
from mats.probes._health_examine import examine
from mats.probes._health_limits import LIMITS

from .machines import NOT_THERE, changed, count, gpu, machine, nvlink

LATER = "2026-11-30T21:00:00+00:00"


def result_of(facts: MachineFacts) -> Result:
    """As a saved run holds it."""
    observation = examine(facts)
    verdict, reason, findings = judge(observation, LIMITS, "cuda")
    second = Quantity(1.0, Unit.SECOND)
    kept = Result("health", "?", "cuda:all", verdict, reason, observation, findings, LIMITS, "2026-11-30", second)
    return from_data(Result, to_data(kept))


def after(changes: dict[str, Any], before: MachineFacts | None = None) -> tuple[Observation, Judgement]:
    """An hour later, with these facts changed."""
    facts = dataclasses.replace(machine(), taken=LATER)
    for path, value in changes.items():
        facts = changed(facts, path, value)
    observation = examine(facts, {}, result_of(before or machine()))
    return observation, judge(observation, LIMITS, "cuda")


def rows(observation: Observation) -> tuple[tuple[Any, ...], ...]:
    table = next((table for table in observation.tables if table.name == "changes"), None)
    return table.rows if isinstance(table, Table) else ()


def reading(observation: Observation, name: str, part: str = "0") -> object:
    return next(
        each.reading
        for each in observation.measurements
        if each.name == f"health.{name}" and part in dict(each.labels).values()
    )


def test_nothing_changed_is_no_finding() -> None:
    observation, judged = after({})

    assert judged == Judgement(Verdict.PASS, "", ())
    assert rows(observation) == ()
    assert any("0 changes" in note for note in observation.notes)


@pytest.mark.parametrize(
    ("changes", "code", "row"),
    [
        ({"gpu.remap.uncorrectable": count(1)}, "HLT-110", ("0", "replaced rows", "0", "1")),
        (
            {"gpu.ecc.aggregate.dram_uncorrected": count(2)},
            "HLT-110",
            ("0", "uncorrected errors in the card's life", "0", "2"),
        ),
        ({"gpu.pcie.replays": count(2000)}, "HLT-111", ("0", "PCIe replays", "0", "2,000")),
        (
            {"gpu.nvlink": nvlink(18, 18, (("replay errors", count(4)),))},
            "HLT-112",
            ("0", "NVLink replays and recoveries", "0", "4"),
        ),
        (
            {"device.errors": AerFacts((("TOTAL_ERR_COR", count(9)),), (), ())},
            "HLT-112",
            ("0", "corrected PCIe errors", "0", "9"),
        ),
        ({"gpu.pcie.width": count(8), "device.now.width": count(8)}, "HLT-113", ("0", "PCIe lanes", "16", "8")),
        ({"gpu.vbios": "96.00.99.00.01"}, "HLT-115", ("0", "vbios", "96.00.89.00.01", "96.00.99.00.01")),
        ({"gpu.driver": "580.65.06"}, "HLT-115", ("0", "driver", "575.57.08", "580.65.06")),
    ],
)
def test_a_change_is_found_and_stands_in_the_table(changes: dict[str, Any], code: str, row: tuple[str, ...]) -> None:
    observation, judged = after(changes)

    assert code in {finding.code for finding in judged.findings}
    assert row in rows(observation)


def test_a_few_replays_are_no_finding() -> None:
    observation, judged = after({"gpu.pcie.replays": count(150)})

    assert judged.verdict is Verdict.PASS
    assert ("0", "PCIe replays", "0", "150") in rows(observation)


def test_gpus_are_matched_by_uuid_and_not_by_index() -> None:
    swapped = tuple(dataclasses.replace(gpu(1 - index), index=count(index), pci=gpu(index).pci) for index in range(2))
    before = changed(machine(), "gpu.remap.uncorrectable", count(3))
    now = tuple(
        dataclasses.replace(each, remap=dataclasses.replace(each.remap, uncorrectable=count(3 if index else 0)))
        for index, each in enumerate(swapped)
    )

    _, judged = after({"gpus": now}, before)

    assert "HLT-110" not in {finding.code for finding in judged.findings}


def test_a_gpu_that_is_gone_fails_and_is_named() -> None:
    observation, judged = after({"gpus": (gpu(0),), "devices": ()})

    (finding,) = [finding for finding in judged.findings if finding.code == "HLT-114"]
    assert "GPU-00000001-0000-0000-0000-000000000000" in finding.evidence[0]
    assert judged.verdict is Verdict.FAIL
    assert ("1", "GPU", "GPU-00000001-0000-0000-0000-000000000000", "gone") in rows(observation)


def test_a_new_gpu_is_a_note() -> None:
    _, judged = after({}, machine(1))

    (finding,) = [finding for finding in judged.findings if finding.code == "HLT-115"]
    assert "GPU 1 is new" in finding.evidence[0]


def test_a_counter_that_was_set_back_counts_anew() -> None:
    before = changed(machine(), "gpu.nvlink", nvlink(18, 18, (("replay errors", count(50)),)))
    observation, judged = after({"gpu.nvlink": nvlink(18, 18, (("replay errors", count(2)),))}, before)

    assert ("0", "NVLink replays and recoveries", "50", "2 (counted anew)") in rows(observation)
    (finding,) = [finding for finding in judged.findings if finding.code == "HLT-112"]
    assert finding.measurement.reading == count(2)


def test_what_the_baseline_does_not_hold_is_absent_and_no_change() -> None:
    bare = changed(machine(), "gpu.nvlink.links", NOT_THERE)
    observation, judged = after({}, bare)

    assert judged.verdict is Verdict.PASS
    assert isinstance(reading(observation, "change.memory"), Quantity)


def test_without_a_time_replays_are_not_judged() -> None:
    observation, judged = after({"taken": NOT_THERE, "gpu.pcie.replays": count(9999)})

    assert isinstance(reading(observation, "change.replay_share"), Absent)
    assert "HLT-111" not in {finding.code for finding in judged.findings}


def test_without_a_baseline_every_change_is_absent_and_says_so() -> None:
    changes = compare(machine(), (), (), None)

    assert changes.table is None
    assert all("no --baseline" in str(part) for part in changes.seen)


@pytest.mark.parametrize(
    "text",
    ["2026-11-30T20:00:00+00:00", "Mon Nov 30 20:00:00 2026", "2026/11/30 20:00:00.000"],
)
def test_a_time_is_read_in_each_form(text: str) -> None:
    assert moment(dataclasses.replace(machine(), taken=text)) == Quantity(1796068800.0, Unit.SECOND)


def test_a_time_that_cannot_be_read_says_so() -> None:
    found = moment(dataclasses.replace(machine(), taken="yesterday"))

    assert isinstance(found, Absent)
    assert "yesterday" in found.reason
