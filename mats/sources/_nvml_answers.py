"""What NVML's answers mean: return codes as reasons of absence, numbers as quantities, bits and enumerations as words.

Codes, bits and enumerations: NVIDIA's NVML API reference. Words are those of nvidia-smi, so that facts that are read
live and facts from its output compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mats.facts import Flag, Text
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._nvml_child import BROKEN, TOO_OLD

MEGAHERTZ = 1e6
_FAILURES: dict[int, tuple[AbsenceKind, str]] = {
    TOO_OLD: (AbsenceKind.MISSING_SYMBOL, "the installed nvidia-ml-py is too old to ask for it"),
    3: (AbsenceKind.NOT_SUPPORTED, "this GPU or its driver does not support it"),
    4: (AbsenceKind.NO_PERMISSION, "reading it needs more permission"),
    6: (AbsenceKind.NOT_FOUND, "NVML does not know this GPU"),
    9: (AbsenceKind.NOT_FOUND, "the NVIDIA driver is not loaded"),
    10: (AbsenceKind.TIMED_OUT, "the driver did not answer in time"),
    12: (AbsenceKind.NOT_FOUND, "the NVML library is not installed (it comes with the NVIDIA driver)"),
    13: (AbsenceKind.MISSING_SYMBOL, "the installed driver is too old to tell it"),
    14: (AbsenceKind.UNREADABLE, "the driver says that the InfoROM is corrupted"),
    15: (AbsenceKind.DEVICE_LOST, "the GPU has fallen off the bus or is otherwise inaccessible"),
    16: (AbsenceKind.DEVICE_LOST, "the GPU needs a reset before it answers"),
    17: (AbsenceKind.NO_PERMISSION, "the operating system or the container blocks access to the GPU"),
    18: (AbsenceKind.UNREADABLE, "the driver and its libraries have different versions (reload the driver or reboot)"),
    22: (AbsenceKind.NOT_SUPPORTED, "a virtual GPU does not have it"),
    25: (AbsenceKind.MISSING_SYMBOL, "the installed driver does not know this form of the question"),
}
"""By NVML's return code, what it means for a value."""

CLOCK_REASONS = {
    0x0001: "idle",
    0x0002: "application clocks",
    0x0004: "software power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "hardware power brake",
    0x0100: "display clocks",
}
"""Bits of the clock-event reasons; several may be set at once."""


class Asked(Protocol):
    """A GPU that can be asked, in this process or through another one."""

    def ask(self, what: str, call: str, *arguments: Any) -> Any | Absent:
        """The answer of ``nvmlDeviceGet`` + ``call`` as plain Python, or absent with ``what`` and why.

        A call that does not begin so is written whole.
        """
        ...

    def ahead(self, call: str, arguments: Iterable[tuple[Any, ...]]) -> None:
        """Says what will be asked next, so that it can be answered in one go."""
        ...


def failure(what: str, code: int, text: str) -> Absent:
    """Why a value is not there, by NVML's return code; ``text`` is NVML's own word for it."""
    if code == BROKEN:
        return Absent(AbsenceKind.UNREADABLE, f"{what}: nvidia-ml-py failed: {text}")
    kind, why = _FAILURES.get(code, (AbsenceKind.UNREADABLE, f"NVML failed with {text} (code {code})"))
    return Absent(kind, f"{what}: {why}")


def full_name(call: str) -> str:
    """The function's name in NVML."""
    return call if call.startswith("nvml") else f"nvmlDeviceGet{call}"


def quantity(value: Any | Absent, unit: Unit, factor: float | None = None) -> Reading:
    """A number in ``unit``; ``factor`` turns NVML's unit into it."""
    if isinstance(value, Absent):
        return value
    return Quantity(int(value) if factor is None else value * factor, unit)


def count(value: Any | Absent) -> Reading:
    return quantity(value, Unit.COUNT)


def text(value: Any | Absent) -> Text:
    return value if isinstance(value, Absent) else str(value)


def flag(value: Any | Absent) -> Flag:
    return value if isinstance(value, Absent) else bool(value)


def part(value: Any | Absent, name: str | int) -> Any | Absent:
    """One member of a structure or a list; absent as the whole is."""
    return value if isinstance(value, Absent) else value[name]


def word(what: str, value: Any | Absent, words: Mapping[int, str]) -> Text:
    """The word of an enumeration; a number that is not in it is unknown and never taken for the first."""
    if isinstance(value, Absent):
        return value
    known = words.get(int(value))
    return known if known is not None else Absent(AbsenceKind.UNREADABLE, f"{what}: {value} is not a known value")


def lacks(value: object) -> bool:
    """Whether it is absent because this driver or package does not know the question."""
    return isinstance(value, Absent) and value.kind is AbsenceKind.MISSING_SYMBOL


def signed(value: int) -> int:
    """Of a number that the driver holds as 32 bits with a sign and that was read without."""
    return value - (1 << 32) if 1 << 31 <= value < 1 << 32 else value - (1 << 64) if value >= 1 << 63 else value


class Fields:
    """Values of ``nvmlDeviceGetFieldValues``, of one question; each may be absent by itself."""

    def __init__(self, gpu: Asked, what: str, *fields: int | tuple[int, int]) -> None:
        asked = tuple(each if isinstance(each, tuple) else (each, 0) for each in fields)
        answer = gpu.ask(what, "FieldValues", asked)
        self._failed = answer if isinstance(answer, Absent) else None
        values = () if isinstance(answer, Absent) else answer
        self._values = {(field, scope): (code, number) for field, scope, code, _type, number in values}

    def get(self, what: str, field: int, scope: int = 0) -> Any | Absent:
        if self._failed is not None:
            return Absent(self._failed.kind, f"{what}: {self._failed.reason.partition(': ')[2]}")
        code, number = self._values[field, scope]
        if code == 2:  # invalid argument: the field is newer than the driver
            return Absent(AbsenceKind.MISSING_SYMBOL, f"{what}: the installed driver is too old to tell it")
        return number if code == 0 else failure(what, code, "an error")
