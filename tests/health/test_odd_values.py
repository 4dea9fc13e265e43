"""Values that no driver should tell: the check goes on, and what cannot be is not taken for a pass."""

from __future__ import annotations

import dataclasses
import enum
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mats.facts import LinkFacts, MachineFacts, RecoveryAction
from mats.judge import judge
from mats.model import Absent, Quantity, Verdict
from mats.probes._health_examine import examine
from mats.probes._health_limits import LIMITS

from .machines import changed, count, machine

NUMBERS = (0, 1, -1, 2**63, 1e-9, 17, 63, 1e12, -273.0)
TEXTS = ("", "N/A", "x" * 500, "0000:10:00.0", "Completed", "None", "\x1b[31m", "VGPU", "NVIDIA H100 NVL", "0.0")


def odd(value: Any, luck: random.Random) -> Any:
    """The value with some of its facts replaced by others of their type."""
    if isinstance(value, enum.Enum):
        return luck.choice(list(type(value)))
    if isinstance(value, Quantity):
        return Quantity(luck.choice(NUMBERS), value.unit) if luck.random() < 0.3 else value
    if isinstance(value, bool):
        return not value if luck.random() < 0.2 else value
    if isinstance(value, str):
        return luck.choice(TEXTS) if luck.random() < 0.2 else value
    if isinstance(value, tuple):
        listed = bool(value) and dataclasses.is_dataclass(value[0])
        return () if listed and luck.random() < 0.05 else tuple(odd(each, luck) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, Absent | type):
        names = [field.name for field in dataclasses.fields(value)]
        kept = ("link",) if isinstance(value, LinkFacts) else ()
        return dataclasses.replace(
            value, **{name: odd(getattr(value, name), luck) for name in names if name not in kept}
        )
    return value


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_odd_values_never_end_the_check(seed: int) -> None:
    facts = odd(machine(3), random.Random(seed))
    assert isinstance(facts, MachineFacts)

    observation = examine(facts)
    verdict, reason, _ = judge(observation, LIMITS, "cuda")

    assert bool(reason) is (verdict is Verdict.UNKNOWN)
    assert {limit.measurement for limit in LIMITS} <= {each.name for each in observation.measurements}


def test_a_link_without_lanes_is_not_judged() -> None:
    facts = changed(changed(machine(), "device.maximum.width", count(0)), "gpu.pcie.loaded", True)
    observation = examine(facts)
    share = next(
        each.reading
        for each in observation.measurements
        if each.name == "health.pcie.loaded_share" and each.labels == (("gpu", "0"),)
    )

    assert isinstance(share, Absent)
    assert "without lanes" in share.reason


def test_two_gpus_of_one_index_are_told_apart() -> None:
    facts = changed(machine(), "gpu.index", count(1))
    labels = {dict(each.labels).get("gpu") for each in examine(facts).measurements} - {None}

    assert labels == {"1", "1 (2)"}


def test_an_action_of_the_driver_is_never_lost() -> None:
    for action in RecoveryAction:
        verdict = judge(examine(changed(machine(), "gpu.recovery.action", action)), LIMITS, "cuda").verdict

        assert (verdict is Verdict.PASS) is (action is RecoveryAction.NONE)
