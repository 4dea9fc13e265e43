"""What is said beside the findings: what a person must know to read them rightly, and nothing that frightens."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mats.facts import (
    AMD,
    ClaimFacts,
    ClaimStatus,
    GpuFacts,
    IncidentGrade,
    MachineFacts,
    PciLink,
    ProcessFacts,
    RecoveryAction,
    empty_device,
)
from mats.judge import judge
from mats.model import AbsenceKind, Absent, Quantity, Severity, Unit, Verdict
from mats.probe import UsageError
from mats.probes._health_examine import examine
from mats.probes._health_limits import LIMITS

from .machines import NEVER, NOT_THERE, changed, count, device, gpu, incident, logged, machine, nvlink, size


def said(facts: MachineFacts) -> str:
    return " ".join(examine(facts).notes)


def codes(facts: MachineFacts, options: dict[str, object] | None = None) -> set[str]:
    return {finding.code for finding in judge(examine(facts, options), LIMITS, "cuda").findings}


def with_all(facts: MachineFacts, **changes: Any) -> MachineFacts:
    assert isinstance(facts.gpus, tuple)
    return dataclasses.replace(facts, gpus=tuple(dataclasses.replace(each, **changes) for each in facts.gpus))


def test_a_geforce_without_ecc_is_in_order_and_its_errors_cannot_be_counted() -> None:
    bare = dataclasses.replace(gpu(0).ecc, enabled=NEVER, pending=NEVER, uncorrected=NEVER, corrected=NEVER)
    facts = with_all(machine(), ecc=bare)

    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.PASS
    assert "memory errors cannot be counted" in said(facts)
    assert "mats stress" in said(facts)


def test_a_sleeping_gpu_is_neither_lost_nor_healthy() -> None:
    asleep = GpuFacts(index=count(0), pci=gpu(0).pci, asleep=True, answers=NOT_THERE)
    facts = dataclasses.replace(machine(1), gpus=(asleep,))

    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.UNKNOWN
    assert "sleeps to save power" in said(facts)


def test_a_gpu_of_another_maker_is_named_and_pointed_to_its_tools() -> None:
    amd = dataclasses.replace(
        empty_device("0000:c1:00.0", NOT_THERE), vendor=AMD, class_code=0x0300, name="Radeon 8060S"
    )
    facts = dataclasses.replace(MachineFacts(), gpus=(), devices=(amd,))

    assert "AMD GPU at 0000:c1:00.0 (Radeon 8060S): no CUDA device" in said(facts)
    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.UNKNOWN


def test_an_idle_link_at_gen1_is_normal() -> None:
    slow = PciLink(Quantity(2.5e9, Unit.HERTZ), count(16))
    facts = changed(changed(machine(), "gpu.pcie.generation", count(1)), "device.now", slow)

    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.PASS
    assert "normal at rest; --load judges it" in said(facts)


def test_a_slot_that_is_slower_than_the_card_is_a_limit_and_no_fault() -> None:
    facts = changed(changed(machine(), "gpu.pcie.generation_host", count(3)), "gpu.pcie.generation_maximum", count(3))

    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.PASS
    assert "the slot allows Gen3, the card could do Gen5" in said(facts)


def test_a_path_that_is_assumed_is_never_failed() -> None:
    slow = PciLink(Quantity(2.5e9, Unit.HERTZ), count(16))
    facts = changed(changed(machine(), "device.now", slow), "gpu.pcie.loaded", True)
    sure, assumed = facts, dataclasses.replace(facts, devices_assumed="the order of the file")

    assert "HLT-061" in codes(sure)
    assert codes(assumed) == {"HLT-062"}


def test_a_virtual_machine_has_no_verdict_on_ports_and_windows() -> None:
    facts = changed(machine(), "gpu.pcie.width", count(1))
    facts = dataclasses.replace(facts, virtualisation="Pass-Through")
    facts = changed(facts, "gpu.window.total", size(256 << 20))

    assert not codes(facts) & {"HLT-060", "HLT-064", "HLT-065"}


def test_all_links_down_is_normal_with_mig_and_without_a_partner() -> None:
    alone = with_all(machine(1), nvlink=nvlink(0, 18))
    sliced = changed(changed(machine(), "gpu.mig.enabled", True), "gpu.nvlink", nvlink(0, 18))

    assert "HLT-070" not in codes(alone)
    assert "normal without a partner" in said(alone)
    assert "HLT-070" not in codes(sliced)


def test_a_card_without_a_bridge_is_no_fault() -> None:
    cards = with_all(machine(), name="NVIDIA A40")
    facts = changed(cards, "gpu.nvlink", nvlink(0, 4))

    assert "HLT-071" in codes(facts)
    assert "HLT-070" not in codes(facts)


def test_a_praising_tool_never_wins() -> None:
    praised = dataclasses.replace(
        changed(machine(), "gpu.recovery.action", RecoveryAction.RESET),
        claims=(ClaimFacts("dcgmi health", "overall", ClaimStatus.PASS, NOT_THERE, "Healthy"),),
    )

    assert judge(examine(praised), LIMITS, "cuda").verdict is Verdict.FAIL
    assert "no verdict here: dcgmi health, overall: Healthy" in said(praised)


def test_a_container_sees_a_part_of_the_gpus_by_design() -> None:
    facts = dataclasses.replace(machine(), devices=tuple(device(index) for index in range(8)))
    inside = changed(facts, "host.container", "docker")

    assert "HLT-086" in codes(facts)
    assert "HLT-086" not in codes(inside)
    assert "container (docker)" in said(inside)


def test_a_laptop_that_brakes_on_battery_is_warned_of_and_not_failed() -> None:
    facts = with_all(machine(1), name="NVIDIA GeForce RTX 4060 Laptop GPU")
    facts = changed(facts, "gpu.clocks.reasons", ("hardware slowdown", "hardware power brake"))
    found = judge(examine(facts), LIMITS, "cuda").findings

    assert {(finding.code, finding.severity) for finding in found if finding.code.startswith("HLT-05")} == {
        ("HLT-051", Severity.WARN)
    }


def test_power_that_cannot_be_read_from_a_lost_gpu_is_no_second_finding() -> None:
    lost = Absent(AbsenceKind.UNREADABLE, "the driver got no answer from this GPU")
    facts = changed(changed(machine(), "gpu.answers", False), "gpu.power", lost)

    assert codes(facts) == {"HLT-001"}


def test_memory_that_a_process_holds_is_not_left_over() -> None:
    working = (ProcessFacts(4711, size(60 << 30), name="python3"),)
    facts = changed(changed(machine(), "gpu.memory.used", size(60 << 30)), "gpu.processes", working)

    assert codes(facts) == set()


def test_an_incident_within_the_window_the_user_sets_counts() -> None:
    facts = dataclasses.replace(machine(), log=logged(incident(IncidentGrade.REBOOT, age=3600.0)))

    assert codes(facts, {"log-window": 7200.0}) == {"HLT-042"}
    assert codes(facts, {"log-window": 60.0}) == {"HLT-048"}


@pytest.mark.parametrize(("age", "code"), [(60.0, "HLT-042"), (7200.0, "HLT-044")])
def test_a_gpu_whose_driver_wants_nothing_done_any_more_is_warned_of(age: float, code: str) -> None:
    facts = dataclasses.replace(machine(), log=logged(incident(IncidentGrade.RESET, age=age)))
    untold = changed(facts, "gpu.recovery.action", NOT_THERE)

    assert codes(facts) == {code}
    assert codes(untold) == {"HLT-042"}


def test_a_recovery_action_of_none_stands_beside_the_log_that_says_otherwise() -> None:
    facts = dataclasses.replace(machine(), log=logged(incident(IncidentGrade.RESET)))
    (finding,) = judge(examine(facts), LIMITS, "cuda").findings

    assert any("recovery action is 'none' now" in line for line in finding.evidence)
    assert any("sources differ" in line for line in finding.evidence)


def test_an_incident_of_a_port_is_told_of_the_card_below_it() -> None:
    below = dataclasses.replace(device(0), upstream=("0000:00:01.0",))
    port = dataclasses.replace(incident(IncidentGrade.CHECK, "pcie"), pci="0000:00:01.0")
    facts = dataclasses.replace(machine(), devices=(below, device(1)), log=logged(port))
    (finding,) = judge(examine(facts), LIMITS, "cuda").findings

    assert ("gpu", "0") in finding.measurement.labels


def test_a_subject_that_does_not_exist_is_a_mistake_of_the_user() -> None:
    with pytest.raises(UsageError, match=r"must-see.*'colour'.*ecc"):
        examine(machine(), {"must-see": "ecc,colour"})


def test_a_link_in_a_virtual_machine_is_warned_of_at_most() -> None:
    slow = changed(changed(machine(), "gpu.pcie.loaded", True), "gpu.pcie.generation", count(3))

    assert "HLT-062" in codes(dataclasses.replace(slow, virtualisation="Pass-Through"))
    assert "HLT-061" not in codes(dataclasses.replace(slow, virtualisation="Pass-Through"))


def test_lanes_of_a_laptop_are_judged_under_load_only() -> None:
    laptop = with_all(machine(1), name="NVIDIA GeForce RTX 4060 Laptop GPU")
    narrow = changed(changed(laptop, "gpu.pcie.width", count(4)), "device.now.width", count(4))

    assert "HLT-060" not in codes(narrow)
    assert "HLT-060" in codes(changed(narrow, "gpu.pcie.loaded", True))


def test_a_file_of_one_gpu_of_eight_says_so() -> None:
    facts = dataclasses.replace(machine(1), attached=count(8))

    assert "The driver counts 8 GPUs; 1 of them is told of here." in said(facts)
    assert judge(examine(facts), LIMITS, "cuda").verdict is Verdict.PASS


def test_gpus_that_were_not_asked_about_are_neither_missing_nor_blamed() -> None:
    whole = dataclasses.replace(machine(2), log=logged(incident(IncidentGrade.REBOOT, index=1)))
    chosen = dataclasses.replace(whole, gpus=(gpu(0),))

    assert codes(whole) == {"HLT-042"}
    assert codes(chosen) == {"HLT-047"}
    assert codes(dataclasses.replace(chosen, attached=count(1))) == {"HLT-042", "HLT-086"}


def test_an_incident_of_an_address_that_no_gpu_has_says_so() -> None:
    facts = dataclasses.replace(machine(2), devices=NOT_THERE, log=logged(incident(IncidentGrade.REBOOT, index=7)))
    (finding,) = judge(examine(facts), LIMITS, "cuda").findings

    assert finding.measurement.labels[0] == ("gpu", "0000:17:00.0")
    assert any("no GPU that is listed has this address" in line for line in finding.evidence)


def test_a_card_that_nouveau_holds_is_said_once() -> None:
    held = dataclasses.replace(device(2), driver="nouveau")
    facts = dataclasses.replace(machine(2), devices=(device(0), device(1), held))

    assert codes(changed(facts, "host.modules", ("nvidia", "nouveau"))) == {"HLT-085"}


def test_a_claim_by_address_stands_under_the_gpu_that_has_it() -> None:
    claim = ClaimFacts("a tool", "an event", ClaimStatus.WARN, NOT_THERE, "as planned", gpu(1).pci)
    facts = dataclasses.replace(machine(), claims=(claim,))
    (finding,) = judge(examine(facts), LIMITS, "cuda").findings

    assert dict(finding.measurement.labels)["gpu"] == "1"


@pytest.mark.parametrize(
    ("note", "sentence"),
    [
        ("the links could not be kept busy", "The links could not be kept busy."),
        ("links.txt: is output of nvbandwidth", "links.txt: is output of nvbandwidth."),
        ("nvidia-smi says 570, the log 571", "nvidia-smi says 570, the log 571."),
        ("two machines are named.", "two machines are named."),
    ],
)
def test_a_note_is_a_sentence_and_a_name_at_its_beginning_stays_as_it_is(note: str, sentence: str) -> None:
    facts = dataclasses.replace(machine(), notes=(note,))

    assert examine(facts).notes[-1] == sentence
