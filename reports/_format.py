"""Numbers and readings as text, the same in every report.

Prefixes exist only here: capacity is binary (GiB), rates are decimal (GB/s), and a column has one prefix, named in
its head. A value that is not zero is never shown as zero, and a share below one never as 100 %. What was not seen
is written "not seen: reason".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mats.model import Absent, Finding, Limit, Measurement, Quantity, Reading, Relation, Unit

_DIGITS = 4
"""Significant digits of the largest number of a column."""

_TINY_SHARE = 1e-4
"""Below this a ratio is a rate of rare events, not a share, and is written with an exponent."""

_MULTIPLE = 2
"""From here on a ratio says how many times, not which share."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""Control characters (also those that drive a terminal), lone surrogates, and marks that reverse the text around."""


_BREAK = re.compile(r"[\t\r\n\u2028\u2029\x85]+")


@dataclass(frozen=True, slots=True)
class Scale:
    """How the numbers of one column are written: divided by ``divisor``, with ``decimals``; ``unit`` is the head's."""

    unit: str
    divisor: float
    decimals: int


_BINARY = ((2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_RATE = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_HERTZ = ((1e10, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"))
_PREFIXES: dict[Unit, Sequence[tuple[float, str]]] = {
    Unit.BYTE: _BINARY,
    Unit.BYTE_PER_SECOND: _RATE,
    Unit.SECOND: _SECONDS,
    Unit.HERTZ: _HERTZ,
    Unit.CELSIUS: ((1.0, "°C"),),
    Unit.WATT: ((1.0, "W"),),
    Unit.COUNT: ((1.0, ""),),
}


_SPELLED = {
    word.lower(): word for word in ("BAR1", "ECC", "GPU", "MIG", "NVLink", "PCI", "PCIe", "PID", "UUID", "VBIOS", "Xid")
}
"""The field's own abbreviations, which names in lower case lose."""


def printable(text: str) -> str:
    """``text`` on one line, without what drives a terminal, breaks XML or cannot be encoded: that becomes U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", _BREAK.sub(" ", text))


def scale_for(unit: Unit, values: Sequence[int | float], beside: Sequence[int | float] = ()) -> Scale:
    """The one scale in which all ``values`` (base units) are written: that of the largest of them.

    The prefix is chosen with the values of the columns ``beside`` in mind, so that they can be compared; a size that is
    nothing beside them keeps its own.
    """
    if beside:
        shared, own = scale_for(unit, (*values, *beside)), scale_for(unit, values)
        largest = max((abs(value) for value in values), default=0)
        negligible = unit is Unit.BYTE and 0 < largest * 2**10 < max(abs(value) for value in beside)
        if shared.unit != own.unit and not negligible:
            return Scale(shared.unit, shared.divisor, _decimals(largest / shared.divisor))
        return own
    largest = max((abs(value) for value in values), default=0)
    whole = all(isinstance(value, int) or value.is_integer() for value in values)
    if unit is Unit.RATIO:
        if 0 < largest < _TINY_SHARE:
            return Scale("", 1.0, 0)
        if largest >= _MULTIPLE:
            return Scale("", 1.0, 0 if whole else _decimals(largest))
        return Scale("%", 0.01, _decimals(largest * 100))
    divisor, name = next((pair for pair in _PREFIXES[unit] if largest >= pair[0]), _PREFIXES[unit][-1])
    if largest == 0:
        divisor, name = next(pair for pair in _PREFIXES[unit] if pair[0] == 1)
    if name == "GHz":
        divisor = 1e9
    if divisor == 1 and whole:
        return Scale(name, 1.0, 0)
    return Scale(name, divisor, _decimals(largest / divisor))


def _decimals(largest: float) -> int:
    if largest <= 0:
        return 0
    return max(0, _DIGITS - 1 - math.floor(math.log10(largest)))


def number_text(value: int | float, scale: Scale) -> str:
    """``value`` (base units) in ``scale``, without its unit."""
    if scale.divisor == 1 and scale.decimals == 0 and isinstance(value, int):
        return _whole_text(value)
    number = value / scale.divisor
    decimals = min(scale.decimals, 6)
    text = f"{number:,.{decimals}f}"
    if number and not float(text.replace(",", "")):
        return f"{number:.2g}"
    if scale.unit == "%" and abs(value) < 1:
        while abs(float(text)) >= 100 and decimals < 12:
            decimals += 1
            text = f"{number:.{decimals}f}"
        if abs(float(text)) >= 100:  # nearer to all than these digits can say
            text = "-99.999999999" if value < 0 else "99.999999999"
    return text


def _whole_text(value: int) -> str:
    """All digits of a whole number that a person may read; beyond that its size."""
    return f"{value:,}" if abs(value) < 10**24 else f"about 10^{len(str(abs(value))) - 1}"


def quantity_text(quantity: Quantity, beside: Quantity | None = None) -> str:
    """A quantity with its unit, e.g. ``7.996 GiB``, ``8.124 GB/s``, ``96.80 %``; in the prefix of that ``beside``."""
    scale = scale_for(quantity.unit, (quantity.value,))
    if beside is not None and quantity.value:
        other = scale_for(beside.unit, (beside.value,))
        whole = other.divisor == 1 and float(quantity.value).is_integer()
        scale = Scale(other.unit, other.divisor, 0 if whole else _decimals(abs(quantity.value) / other.divisor))
    text = number_text(quantity.value, scale)
    return f"{text} {scale.unit}" if scale.unit else text


def reading_text(reading: Reading) -> str:
    """A reading, or ``not seen: reason``."""
    return absent_text(reading) if isinstance(reading, Absent) else quantity_text(reading)


def absent_text(absent: Absent) -> str:
    return f"not seen: {absent.reason}"


def duration_text(seconds: float) -> str:
    """A duration for people: ``21.4 s``, ``4 min 12 s``, ``2 h 5 min``, ``3 d 2 h``."""
    if seconds < 60:
        return quantity_text(Quantity(round(seconds, 3) if seconds >= 0.001 else seconds, Unit.SECOND))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


def measurement_name(measurement: Measurement, but: str = "") -> str:
    """The dotted name, with the labels that tell apart several readings of one name, all ``but`` one."""
    labels = [f"{spelled(key)} {value}" for key, value in measurement.labels if not but or key != but]
    return f"{measurement.name} ({', '.join(labels)})" if labels else measurement.name


def relation_text(limit: Limit, beside: Reading | None = None) -> str:
    """What is in order: ``at most 15.00 %``, in the scale of the reading ``beside``."""
    words = "at most" if limit.relation is Relation.AT_MOST else "at least"
    same = isinstance(beside, Quantity) and beside.unit is limit.bound.unit
    return f"{words} {quantity_text(limit.bound, beside if same and isinstance(beside, Quantity) else None)}"


def against_text(finding: Finding, but: str = "") -> str:
    """The reading against its bound: ``memory.errors 4,096, in order is at most 0``; without the label ``but``."""
    reading = finding.measurement.reading
    overridden = " (set by the user)" if finding.limit.overridden else ""
    relation = relation_text(finding.limit, reading)
    return f"{measurement_name(finding.measurement, but)} {reading_text(reading)}, in order is {relation}{overridden}"


def source_text(limit: Limit) -> str:
    """Where a bound comes from: ``JESD21, 3.10 (vendor, read 2026-11-02)``."""
    source = limit.source
    day = f", read {source.read}" if source.read else ""
    return f"{source.title}, {source.locator} ({source.kind.value}{day})"


def time_text(started: str) -> str:
    """An ISO 8601 moment as ``2026-11-30 19:11:03 +00:00``; what cannot be read is given back as it is."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return started
    zone = moment.strftime("%z")
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f" {zone[:3]}:{zone[3:5]}" if zone else "")


def spelled(name: str) -> str:
    """A name of the saved run as people write it: ``gpu_index`` is ``GPU index``."""
    return " ".join(_SPELLED.get(word, word) for word in name.replace("_", " ").split(" "))


def plural(count: int, noun: str) -> str:
    """``1 finding``, ``2 findings``; ``noun`` takes a plain s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
