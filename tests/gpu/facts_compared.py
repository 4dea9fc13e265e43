"""Two pictures of one GPU, live and from nvidia-smi of the same moment, field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mats.facts import GpuFacts
from mats.model import Absent, Quantity, Unit

MOVING = {
    *("temperature", "power", "performance_state", "busy", "processes", "pcie.generation", "pcie.replays"),
    *("clocks.core", "clocks.memory", "clocks.reasons", "clocks.held", "heat.memory", "heat.margin"),
    *("memory.used", "memory.free", "window.used", "window.free", "power_limits.average", "power_limits.module"),
}
"""What may differ between two looks; only that both tell it, and near each other where that can be said."""
NEAR = {Unit.CELSIUS: 8.0, Unit.BYTE: float(1 << 20), Unit.WATT: 0.01}
"""How far apart two figures may be: nvidia-smi prints whole MiB and hundredths of a watt."""
NOT_OF_NVML = {"pcie.generation_host"}
"""What nvidia-smi knows from elsewhere."""
OWN_TOTALS = {"ecc.corrected", "ecc.uncorrected"}
"""Sums of nvidia-smi's rows here, NVML's own counters there: compared by their parts."""


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a picture by its path; lists of values are one."""
    if isinstance(value, Absent | Quantity) or not dataclasses.is_dataclass(value):
        yield path, value
        return
    for field in dataclasses.fields(value):
        yield from leaves(getattr(value, field.name), f"{path}.{field.name}".strip("."))


def differences(live: GpuFacts, told: GpuFacts) -> list[str]:
    """Where the two contradict, and what nvidia-smi tells and the live picture does not; a line for each."""
    seen = dict(leaves(live))
    return [line for path, value in leaves(told) if (line := _difference(path, seen[path], value))]


def _difference(path: str, live: object, told: object) -> str:
    if isinstance(told, Absent) or told == () or path in NOT_OF_NVML | OWN_TOTALS:
        return ""
    if isinstance(live, Absent):
        return f"{path}: nvidia-smi says {_shown(told)}; live: {live.reason}"
    if isinstance(live, tuple) and isinstance(told, tuple) and path not in MOVING:
        return _difference_of_lists(path, live, told)
    if path in MOVING and not (isinstance(told, Quantity) and told.unit is Unit.CELSIUS):
        return ""
    near = isinstance(live, Quantity) and isinstance(told, Quantity) and live.unit is told.unit
    if near and isinstance(live, Quantity) and isinstance(told, Quantity):
        if abs(live.value - told.value) <= NEAR.get(told.unit, 0.0):
            return ""
    elif live == told:
        return ""
    return f"{path}: nvidia-smi says {_shown(told)}, live {_shown(live)}"


def _difference_of_lists(path: str, live: tuple[object, ...], told: tuple[object, ...]) -> str:
    """Of named values by name; of others as a whole."""
    own, theirs = _named(live), _named(told)
    if own is None or theirs is None:
        return "" if live == told else f"{path}: nvidia-smi says {told}, live {live}"
    wrong = [
        f"{name}: nvidia-smi says {_shown(value)}, live {_shown(own.get(name))}"
        for name, value in theirs.items()
        if not isinstance(value, Absent) and own.get(name) != value
    ]
    return f"{path}: {'; '.join(wrong)}" if wrong else ""


def _named(values: tuple[object, ...]) -> dict[str, object] | None:
    """Pairs of a name and a value by name; None for anything else."""
    pairs = [each for each in values if isinstance(each, tuple) and len(each) == 2]
    return {str(name): value for name, value in pairs} if len(pairs) == len(values) else None


def _shown(value: object) -> str:
    return f"{value.value} {value.unit.value}" if isinstance(value, Quantity) else repr(value)
