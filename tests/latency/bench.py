"""A context nobody watches, and devices that are other than they say in one point."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mats.device import Conditions, HeldBy, MemoryState
from mats.devices._plans import MIB, Plan, SimFault, built_in
from mats.devices.sim import SimDevice
from mats.judge import Judgement, judge
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, Reading, Result, Unit
from mats.registry import probes

PROBE = probes()["latency-test"]


class Quiet:
    """A context with the probe's defaults and a few of its options; told to stop after ``turns`` looks."""

    def __init__(self, turns: int | None = None, seed: int = 0, **options: object) -> None:
        self.options = {option.name: option.default for option in PROBE.options} | options
        self.seed = seed
        self.resumed: Result | None = None
        self._turns = turns

    def stopping(self) -> str:
        if self._turns is None:
            return ""
        self._turns -= 1
        return "" if self._turns >= 0 else "told to stop"

    def progress(self, done: float, total: float, text: str) -> None:
        assert 0 <= done < total and text

    def save(self, observation: Observation) -> None:
        """Nothing is kept."""


class StopsAt(Quiet):
    """A context that is told to stop once the test has said so many times that it does something."""

    def __init__(self, doing: str, times: int = 1, passes: int = 15) -> None:
        super().__init__(passes=passes)
        self._doing, self._left = doing, times

    def progress(self, done: float, total: float, text: str) -> None:
        super().progress(done, total, text)
        self._left -= text.startswith(self._doing)

    def stopping(self) -> str:
        return "told to stop" if self._left <= 0 else ""


class Card(SimDevice):
    """A simulated card of which single answers are replaced."""

    def __init__(self, plan: Plan, **answers: Callable[[], Any]) -> None:
        super().__init__(plan)
        self._answers = answers

    def conditions(self) -> Conditions:
        made = super().conditions()
        clock = self._answers.get("memory_clock")
        return dataclasses.replace(made, memory_clock=clock()) if clock else made

    def holders(self) -> tuple[HeldBy, ...] | str:
        held: tuple[HeldBy, ...] | str = self._answers.get("holders", super().holders)()
        return held

    def memory(self) -> MemoryState:
        state: MemoryState = self._answers.get("memory", super().memory)()
        return state


def plan(name: str = "healthy", *faults: SimFault, seed: int = 1, geometry: str = "hbm3-5", mib: int = 16) -> Plan:
    made = built_in(name, seed=seed, geometry=geometry, capacity=mib * MIB)
    return dataclasses.replace(made, faults=faults) if faults else made


def run(device: SimDevice, context: Quiet | None = None) -> Observation:
    """What the probe sees on a device, which is closed afterwards."""
    try:
        seen: Observation = PROBE.measure(device, context or Quiet())
        return seen
    finally:
        device.close()


def judged(seen: Observation, kind: str = "sim") -> Judgement:
    return judge(seen, PROBE.limits, kind)


def reading(seen: Observation, name: str) -> Reading:
    return measurement(seen, name).reading


def value(seen: Observation, name: str) -> float:
    found = reading(seen, name)
    assert isinstance(found, Quantity), found
    return float(found.value)


def measurement(seen: Observation, name: str) -> Measurement:
    return next(one for one in seen.measurements if one.name == name)


def hertz(number: float) -> Quantity:
    return Quantity(number, Unit.HERTZ)


def not_told() -> Absent:
    return Absent(AbsenceKind.NOT_SUPPORTED, "the memory clock is not told")
