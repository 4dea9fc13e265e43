"""The words of nvidia-smi as values: one tree for all of its formats, and what stands in place of a value.

A value that is not there is absent: not shown in this file, cut off, N/A, refused or garbled, each with its own reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mats.facts import Flag, Text
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit


class SmiError(ValueError):
    """The text is no output of nvidia-smi that can be read; the message is one sentence."""


@dataclass(slots=True)
class Section:
    """A line or block of the output: its name in the one spelling of :func:`key`, its text, what stands below it."""

    name: str
    text: str = ""
    children: list[Section] = field(default_factory=list)
    open: bool = False
    """The file is cut off within it: a list below it may lack its end."""

    def child(self, name: str) -> Section | None:
        return next((each for each in self.children if each.name == name), None)

    def all(self, name: str) -> Iterator[Section]:
        return (each for each in self.children if each.name == name)


def key(name: str) -> str:
    """One spelling for the names of all formats: ``FB Memory Usage`` and ``fb_memory_usage`` are the same."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


_SAID: dict[str, tuple[AbsenceKind, str]] = {
    "not supported": (AbsenceKind.NOT_SUPPORTED, "not supported on this GPU or by its driver"),
    "requested functionality has been deprecated": (AbsenceKind.NOT_SUPPORTED, "no longer told by this driver"),
    "not available in wddm driver model": (AbsenceKind.NOT_SUPPORTED, "Windows does not tell it (driver model WDDM)"),
    "insufficient permissions": (AbsenceKind.NO_PERMISSION, "reading it needed more permission"),
    "no permission": (AbsenceKind.NO_PERMISSION, "reading it needed more permission"),
    "err!": (AbsenceKind.UNREADABLE, "the driver failed to read it (ERR!); it may be momentary"),
    "error": (AbsenceKind.UNREADABLE, "the driver failed to read it (Error)"),
    "unknown error": (AbsenceKind.UNREADABLE, "the driver failed to read it (Unknown Error)"),
    "unknown": (AbsenceKind.UNREADABLE, "the driver says it is unknown"),
    "gpu is lost": (AbsenceKind.DEVICE_LOST, "the driver says that the GPU is lost"),
    "gpu requires reset": (AbsenceKind.DEVICE_LOST, "the driver says that the GPU needs a reset"),
    "function not found": (AbsenceKind.MISSING_SYMBOL, "the installed driver is too old to tell it"),
    "not found": (AbsenceKind.NOT_FOUND, "the driver did not find it"),
    "timeout": (AbsenceKind.TIMED_OUT, "the driver did not answer in time"),
}
"""By what nvidia-smi prints in place of a value, without brackets and in lower case."""

NOT_SHOWN = "not shown in this file"
CUT_OFF = "not shown: the file is cut off"
NOT_APPLICABLE = "N/A, so not supported on this GPU or by its driver"

_FACTORS: dict[Unit, dict[str, int | float]] = {
    Unit.BYTE: {"": 1 << 20, "mib": 1 << 20, "kib": 1 << 10, "gib": 1 << 30, "b": 1, "bytes": 1, "mb": 1 << 20},
    Unit.CELSIUS: {"": 1, "c": 1},
    Unit.WATT: {"": 1, "w": 1, "mw": 1e-3},
    Unit.HERTZ: {"": 1e6, "mhz": 1e6},
    Unit.RATIO: {"": 0.01, "%": 0.01},
    Unit.SECOND: {"": 1e-6, "us": 1e-6, "ns": 1e-9, "ms": 1e-3, "s": 1},
    Unit.COUNT: {"": 1, "x": 1, "bank(s)": 1, "page(s)": 1},
    Unit.BYTE_PER_SECOND: {"gb/s": 1e9, "mb/s": 1e6, "kb/s": 1e3, "gib/s": 1 << 30},
}
"""What the printed unit stands for; without one, as in CSV with ``nounits``, the usual one of nvidia-smi."""

_NUMBER = re.compile(r"([-+]?[0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z%(][A-Za-z/()]*|)")
_TRUE = frozenset({"yes", "enabled", "active", "on", "true", "1"})
_FALSE = frozenset({"no", "disabled", "not active", "off", "false", "0"})


def absence(what: str, said: str, not_applicable: str = NOT_APPLICABLE) -> Absent | None:
    """What ``said`` means where it stands in place of a value; None when it is none of these words."""
    word = said.strip().strip("[]").strip().lower()
    if word in ("n/a", ""):
        reason = not_applicable if word else "the file holds nothing in its place"
        return Absent(AbsenceKind.NOT_SUPPORTED if word else AbsenceKind.UNREADABLE, f"{what}: {reason}")
    known = _SAID.get(word)
    return None if known is None else Absent(known[0], f"{what}: {known[1]}")


def cut_within(what: str) -> Absent:
    """A list whose end is missing is not known at all."""
    return Absent(AbsenceKind.NOT_FOUND, f"{what}: the file is cut off within them")


def unreadable(what: str, said: str) -> Absent:
    """Something stands there that is no such value."""
    return Absent(AbsenceKind.UNREADABLE, f"{what}: {' '.join(said.split())[:60]!r} cannot be read")


def to_quantity(what: str, said: str, unit: Unit, not_applicable: str = NOT_APPLICABLE) -> Reading:
    """The number in base units; a count or a size below 0 is not readable."""
    gone = absence(what, said, not_applicable)
    if gone is not None:
        return gone
    match = _NUMBER.fullmatch(said.strip())
    factor = _FACTORS[unit].get(match[2].lower()) if match else None
    if match is None or factor is None:
        return unreadable(what, said)
    number = float(match[1]) if "." in match[1] else int(match[1])
    if (number < 0 and unit is not Unit.CELSIUS) or (unit is Unit.COUNT and isinstance(number, float)):
        return unreadable(what, said)
    scaled = number / round(1 / factor) if factor < 1 else number * factor  # 0.57 and not 0.5700000000000001
    return Quantity(int(scaled) if unit is Unit.BYTE else scaled, unit)


def to_flag(what: str, said: str, not_applicable: str = NOT_APPLICABLE) -> Flag:
    """Yes or no in any of the tool's words."""
    gone = absence(what, said, not_applicable)
    if gone is not None:
        return gone
    word = " ".join(said.lower().split())
    return True if word in _TRUE else False if word in _FALSE else unreadable(what, said)


def add(what: str, *readings: Reading) -> Reading:
    """The sum, absent with the reason of the first that is absent."""
    total = 0
    for reading in readings:
        if isinstance(reading, Absent):
            return reading
        total += int(reading.value)
    return Quantity(total, Unit.COUNT) if readings else unreadable(what, "")


@dataclass(frozen=True, slots=True)
class Fields:
    """Values of one block by name. Paths are alternatives, separated by blanks: formats and drivers differ.

    The first path that holds a value has the word; where none does, the first that stands in the file gives the reason.
    """

    section: Section
    gone: str = NOT_SHOWN
    """Why a value is not there when no path leads to it."""
    not_applicable: str = NOT_APPLICABLE
    """What N/A means in this block."""

    def because(self, not_applicable: str) -> Fields:
        return replace(self, not_applicable=not_applicable)

    def find(self, paths: str) -> Section | None:
        """The block or line that the first fitting path leads to; a block that is only a word ends the path early."""
        for path in paths.split():
            place: Section | None = self.section
            for name in path.split("/"):
                below = place.child(name) if place is not None else None
                if below is None and place is not self.section and place is not None and not place.children:
                    break  # <remapped_rows>N/A</remapped_rows>: the word speaks for all that would stand below
                place = below
            if place is not None:
                return place
        return None

    def missing(self, what: str) -> Absent:
        kind = AbsenceKind.NOT_FOUND if self.gone in (NOT_SHOWN, CUT_OFF) else AbsenceKind.UNREADABLE
        return Absent(kind, f"{what}: {self.gone}")

    def quantity(self, what: str, unit: Unit, paths: str) -> Reading:
        first: Absent | None = None
        for said in self._said(paths):
            value = to_quantity(what, said, unit, self.not_applicable)
            if not isinstance(value, Absent):
                return value
            first = first or value
        return first or self.missing(what)

    def count(self, what: str, paths: str) -> Reading:
        return self.quantity(what, Unit.COUNT, paths)

    def flag(self, what: str, paths: str) -> Flag:
        first: Absent | None = None
        for said in self._said(paths):
            value = to_flag(what, said, self.not_applicable)
            if not isinstance(value, Absent):
                return value
            first = first or value
        return first or self.missing(what)

    def text(self, what: str, paths: str) -> Text:
        first: Absent | None = None
        for said in self._said(paths):
            gone = absence(what, said, self.not_applicable)
            if gone is None:
                return " ".join(said.split())
            first = first or gone
        return first or self.missing(what)

    def _said(self, paths: str) -> Iterator[str]:
        for path in paths.split():
            found = self.find(path)
            if found is not None:
                yield found.text
