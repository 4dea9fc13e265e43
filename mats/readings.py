"""What a measurement gives: a quantity with its unit, or nothing with its reason. Spoken through :mod:`mats.model`."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


class UnitError(ValueError):
    """Two quantities of different units were compared or combined."""


class Unit(enum.StrEnum):
    """Base units; prefixes exist only in reports."""

    BYTE = "B"
    SECOND = "s"
    BYTE_PER_SECOND = "B/s"
    HERTZ = "Hz"
    CELSIUS = "degC"
    WATT = "W"
    COUNT = "count"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A finite number with its unit; comparing two units raises :class:`UnitError`."""

    value: int | float
    unit: Unit

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise TypeError(f"a quantity needs a number, not {self.value!r}")
        if not math.isfinite(self.value):
            raise ValueError(f"a quantity must be finite, not {self.value!r}: absent is a value of its own")

    def _same(self, other: Quantity) -> None:
        if self.unit is not other.unit:
            raise UnitError(f"cannot compare {self.unit.value} with {other.unit.value}")

    def __lt__(self, other: Quantity) -> bool:
        self._same(other)
        return self.value < other.value

    def __le__(self, other: Quantity) -> bool:
        self._same(other)
        return self.value <= other.value

    def __gt__(self, other: Quantity) -> bool:
        self._same(other)
        return self.value > other.value

    def __ge__(self, other: Quantity) -> bool:
        self._same(other)
        return self.value >= other.value


class AbsenceKind(enum.StrEnum):
    """Why a value is not there."""

    NOT_SUPPORTED = "not_supported"
    NO_PERMISSION = "no_permission"
    MISSING_SYMBOL = "missing_symbol"
    TIMED_OUT = "timed_out"
    NOT_FOUND = "not_found"
    NOT_TESTED = "not_tested"
    INSUFFICIENT = "insufficient"
    DEVICE_LOST = "device_lost"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Absent:
    """A value that could not be had, with the reason in one sentence. Never None, "N/A" or 0."""

    kind: AbsenceKind
    reason: str

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError("an absent value must carry its reason")


Reading = Quantity | Absent
Cell = int | float | str | Absent
