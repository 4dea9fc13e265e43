"""Unknown is not healthy: no fact that is missing turns into a pass, whatever is missing beside it."""

from __future__ import annotations

import dataclasses
import functools
import random
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mats.facts import UNASKED, GpuFacts, IncidentGrade, MachineFacts
from mats.judge import judge
from mats.model import AbsenceKind, Absent, Quantity, Severity, Verdict
from mats.probes._health_examine import SUBJECTS, examine
from mats.probes._health_limits import LIMITS

from .machines import count, incident, logged, machine
from .rows import ROWS, Row
from .test_checks import broken, named

KINDS = tuple(AbsenceKind)


def emptied(value: Any, chance: float, luck: random.Random) -> Any:
    """The value with facts taken out of it at random; what tells which GPU it is stays."""
    if isinstance(value, tuple):
        return tuple(emptied(each, chance, luck) for each in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, Absent | Quantity | type):
        return value
    hints = optional(type(value))
    changes = {
        field.name: _absent(luck)
        if hints[field.name] and luck.random() < chance
        else emptied(getattr(value, field.name), chance, luck)
        for field in dataclasses.fields(value)
        if field.name not in ("index", "gpus")
    }
    if isinstance(value, MachineFacts):
        changes["gpus"] = emptied(value.gpus, chance, luck)
    return dataclasses.replace(value, **changes)


@functools.cache
def optional(kind: type) -> dict[str, bool]:
    """By field, whether it may be absent."""
    return {name: Absent in typing.get_args(hint) for name, hint in typing.get_type_hints(kind).items()}


def _absent(luck: random.Random) -> Absent:
    """For any reason but that the GPU is lost, which is a fault of its own."""
    kinds = [kind for kind in KINDS if kind is not AbsenceKind.DEVICE_LOST]
    return Absent(luck.choice(kinds), "taken out at random")


def with_gaps(facts: MachineFacts, chance: float, seed: int) -> MachineFacts:
    holes = emptied(facts, chance, random.Random(seed))
    assert isinstance(holes, MachineFacts)
    return holes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
def test_nothing_known_at_all_is_unknown(kind: AbsenceKind) -> None:
    nothing = Absent(kind, "nothing was read")
    observation = examine(dataclasses.replace(MachineFacts(), gpus=nothing, devices=nothing, log=nothing))

    verdict, reason, findings = judge(observation, LIMITS, "cuda")

    assert (verdict, findings) == (Verdict.UNKNOWN, ())
    assert "nothing was read" in reason


def test_a_gpu_of_which_only_the_index_is_known_is_unknown() -> None:
    observation = examine(dataclasses.replace(MachineFacts(), gpus=(GpuFacts(index=count(0)),)))

    assert judge(observation, LIMITS, "cuda")[0] is Verdict.UNKNOWN
    assert [each.reading for each in observation.measurements if each.name == "health.gpu.answers"] == [UNASKED]


@given(chance=st.floats(0.05, 1.0), seed=st.integers(0, 2**32))
def test_gaps_in_a_healthy_machine_never_raise_and_never_find_a_fault(chance: float, seed: int) -> None:
    verdict, reason, findings = judge(examine(with_gaps(machine(), chance, seed)), LIMITS, "cuda")

    graver = [each for each in findings if each.severity in (Severity.FAIL, Severity.WARN)]
    assert not graver
    assert verdict in (Verdict.PASS, Verdict.UNKNOWN)
    assert bool(reason) is (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize("row", [row for row in ROWS if row.severity is Severity.FAIL], ids=named)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_a_failing_fact_still_fails_with_gaps_in_what_it_does_not_need(row: Row, seed: int) -> None:
    # given: everything may be missing but the broken facts themselves and what they are compared with
    facts = broken(row)
    # when
    verdict = judge(examine(_around(facts, seed)), LIMITS, "cuda")[0]
    # then
    assert verdict is Verdict.FAIL


UNRELATED = (
    *("uuid", "serial", "vbios", "architecture", "compute_mode", "addressing", "numa", "cpus", "persistence", "asleep"),
    *("driver_model", "inforom", "processes", "gsp"),
)


def _around(facts: MachineFacts, seed: int) -> MachineFacts:
    luck = random.Random(seed)
    assert isinstance(facts.gpus, tuple)
    gpus = tuple(
        dataclasses.replace(
            each, **{name: emptied(getattr(each, name), 0.5, luck) for name in UNRELATED if luck.random() < 0.7}
        )
        for each in facts.gpus
    )
    return dataclasses.replace(facts, gpus=gpus, cuda=_absent(luck), taken=_absent(luck))


@given(seed=st.integers(0, 2**32), chance=st.floats(0.0, 1.0))
def test_a_serious_incident_fails_whatever_else_is_missing(seed: int, chance: float) -> None:
    facts = with_gaps(machine(), chance, seed)
    facts = dataclasses.replace(facts, log=logged(incident(IncidentGrade.REBOOT)))

    assert judge(examine(facts), LIMITS, "cuda")[0] is Verdict.FAIL


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_had_to_be_seen_and_was_not_is_unknown(subject: str) -> None:
    bare = dataclasses.replace(MachineFacts(), gpus=(GpuFacts(index=count(0)),))

    verdict, reason, _ = judge(examine(bare, {"must-see": subject}), LIMITS, "cuda")

    assert verdict is Verdict.UNKNOWN
    assert "what had to be seen was not seen" in reason


@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name not in ("retired", "load", "claims")])
def test_what_had_to_be_seen_and_was_seen_passes(subject: str) -> None:
    assert judge(examine(machine(), {"must-see": subject}), LIMITS, "cuda")[0] is Verdict.PASS
