"""Quantities as users write them, and the named formulas that make one quantity of others.

Inside mats everything is in base units; prefixes are read here and written in reports, nowhere else. What cannot
be read raises ValueError with one sentence; the caller adds which option or file it came from.
"""

from __future__ import annotations

import math
import re

from mats.model import Quantity, Unit, UnitError

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_SIZES = {
    "": MIB,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    "k": KIB,
    "m": MIB,
    "g": GIB,
    "t": TIB,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_TIMES = {"": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PREFIXES = {
    "": 1,
    "p": 1e-12,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": KIB,
    "Mi": MIB,
    "Gi": GIB,
    "Ti": TIB,
}
_PREFIXED = {
    Unit.BYTE: ("k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"),
    Unit.BYTE_PER_SECOND: ("k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"),
    Unit.SECOND: ("p", "n", "u", "m"),
    Unit.HERTZ: ("k", "M", "G"),
    Unit.WATT: ("m", "k"),
}
_NUMBER = r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\s*"
_PART = r"([0-9]+(?:\.[0-9]+)?)(ms|s|sec|m|min|h|d)"


def parse_number(text: str) -> float:
    """A number that is not negative."""
    value, suffix = _split(text, "a number")
    if suffix:
        raise ValueError(f"{text.strip()!r} is not a number")
    return _not_negative(value, text)


def parse_count(text: str) -> int:
    """A whole number that is not negative; ``0x...`` works too."""
    stripped = text.strip()
    try:
        value = int(stripped, 0) if stripped.lower().startswith(("0x", "-0x")) else int(stripped)
    except ValueError:
        raise ValueError(f"{stripped!r} is not a whole number") from None
    return int(_not_negative(value, stripped))


def parse_size(text: str) -> int:
    """Bytes of a size: a bare number is MiB; suffixes B, KiB, MiB, GiB, TiB (or K, M, G, T), decimal kB, MB, GB, TB."""
    value, suffix = _split(text, "a size such as 1024 (MiB) or 6GiB")
    if suffix.lower() not in _SIZES:
        raise ValueError(f"{text.strip()!r} has no size suffix that is known: use MiB, GiB, MB or GB, or none for MiB")
    return math.floor(_not_negative(value, text) * _SIZES[suffix.lower()])


def parse_duration(text: str) -> float:
    """Seconds of a duration: a bare number is seconds; suffixes ms, s, m, h, d, also joined as in ``1h30m``."""
    stripped = text.strip()
    parts = re.findall(_PART, stripped)
    if len(parts) > 1 and "".join(number + suffix for number, suffix in parts) == stripped:
        return sum(float(number) * _TIMES[suffix] for number, suffix in parts)
    value, suffix = _split(text, "a duration such as 90, 5m or 2h")
    if suffix.lower() not in _TIMES:
        raise ValueError(f"{stripped!r} has no time suffix that is known: use s, m, h or d, or none for seconds")
    return _not_negative(value, text) * _TIMES[suffix.lower()]


def parse_share(text: str) -> float:
    """A share between 0 and 1, as ``0.9`` or ``90%``."""
    value, suffix = _split(text, "a share such as 0.9 or 90%")
    if suffix not in ("", "%"):
        raise ValueError(f"{text.strip()!r} is not a share: use a number from 0 to 1, or a percentage")
    share = value / 100 if suffix else value
    if not 0 <= share <= 1:
        raise ValueError(f"{text.strip()!r} is not between 0 and 1 (0% and 100%)")
    return share


def quantity(value: int | float, unit: str) -> Quantity:
    """The quantity in base units of a value with a unit that may have a prefix, e.g. ``(3, "GB/s")``, ``(15, "%")``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    if unit == "%":
        return Quantity(value / 100, Unit.RATIO)
    for base in Unit:
        prefix = unit.removesuffix(base.value)
        if unit.endswith(base.value) and (not prefix or prefix in _PREFIXED.get(base, ())):
            return Quantity(value * _PREFIXES[prefix], base)
    known = ", ".join(base.value for base in Unit)
    raise ValueError(f"the unit {unit!r} is not known: use {known}, with a prefix where one is usual, or %")


def peak_bandwidth(memory_clock: Quantity, bus_width: Quantity) -> Quantity:
    """Peak rate in bytes per second of double-data-rate memory: clock x 2 x bus width / 8.

    ``memory_clock`` in hertz as the driver gives it (NVML's maximum memory clock, or ``memoryClockRate``), for which
    two transfers per clock hold for GDDR as for HBM; ``bus_width`` in bits, as a count.
    Source: CUDA C++ Best Practices Guide, section "Theoretical Bandwidth Calculation".
    """
    _expect(memory_clock, Unit.HERTZ, "memory clock")
    _expect(bus_width, Unit.COUNT, "bus width")
    return Quantity(memory_clock.value * 2 * bus_width.value / 8, Unit.BYTE_PER_SECOND)


def _expect(given: Quantity, unit: Unit, what: str) -> None:
    if given.unit is not unit:
        raise UnitError(f"the {what} must be in {unit.value}, not in {given.unit.value}")


def _split(text: str, wanted: str) -> tuple[float, str]:
    match = re.fullmatch(_NUMBER, text)
    if match is None:
        raise ValueError(f"{text.strip()!r} is not {wanted}")
    value = float(match[1])
    if not math.isfinite(value):
        raise ValueError(f"{text.strip()!r} is too large")
    return value, match[2]


def _not_negative(value: float, text: str) -> float:
    if value < 0:
        raise ValueError(f"{text.strip()!r} is negative")
    return value
