"""A context and small devices for the tests of the memory test."""

from __future__ import annotations

from collections.abc import Mapping

from mats.devices._plans import MIB, Plan, built_in
from mats.devices.sim import SimDevice
from mats.model import Measurement, Observation, Quantity, Reading, Result, Table
from mats.registry import probes

STRESS = probes()["stress"]


class Bench:
    """The probe's context: options as given over the defaults; stops when it was polled ``polls`` times."""

    def __init__(self, options: Mapping[str, object] | None = None, *, polls: int | None = None) -> None:
        self.options = {option.name: option.default for option in STRESS.options} | dict(options or {})
        self.seed = 0
        self.resumed: Result | None = None
        self.saved: list[Observation] = []
        self.told: list[tuple[float, float, str]] = []
        self._polls = polls

    def stopping(self) -> str:
        if self._polls is None:
            return ""
        self._polls -= 1
        return "" if self._polls >= 0 else "interrupted by the user"

    def progress(self, done: float, total: float, text: str) -> None:
        self.told.append((done, total, text))

    def save(self, observation: Observation) -> None:
        self.saved.append(observation)


def simulate(
    plan: str | Plan, capacity: int = 16 * MIB, context: Bench | None = None, **options: object
) -> Observation:
    """The observation of a simulated card; options by name with underscores."""
    given = {name.replace("_", "-"): value for name, value in options.items()}
    device = SimDevice(built_in(plan, capacity=capacity) if isinstance(plan, str) else plan)
    try:
        return STRESS.measure(device, context or Bench(given))
    finally:
        device.close()


def reading(observation: Observation, name: str) -> Reading:
    return measurement(observation, name).reading


def value(observation: Observation, name: str) -> float:
    found = reading(observation, name)
    assert isinstance(found, Quantity), found
    return found.value


def measurement(observation: Observation, name: str) -> Measurement:
    return next(found for found in observation.measurements if found.name == name)


def table(observation: Observation, name: str) -> Table:
    return next(found for found in observation.tables if found.name == name)
