"""Numbers, sizes, ages and lists for the sentences of the health check."""

from __future__ import annotations

from collections.abc import Iterable

from mats.model import Absent, Reading

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def number(reading: Reading) -> str:
    """A count for a sentence, ``not seen`` where it is absent."""
    if isinstance(reading, Absent):
        return "not seen"
    return f"{reading.value:,.6g}" if abs(reading.value) < 1e6 else f"{reading.value:,.0f}"


def size(reading: Reading) -> str:
    """Bytes with a binary prefix, for a sentence."""
    if isinstance(reading, Absent):
        return "not seen"
    for divisor, name in _UNITS:
        if abs(reading.value) >= divisor:
            scaled = reading.value / divisor
            return f"{scaled:.0f} {name}" if scaled == round(scaled) or scaled >= 1000 else f"{scaled:.2f} {name}"
    return f"{reading.value:.0f} B"


def age(seconds: Reading, until: str = "ago") -> str:
    """``3 min ago``, ``5 h ago``, ``12 days ago``, in the largest unit that fits."""
    if isinstance(seconds, Absent):
        return "at a time that is not told"
    value = seconds.value
    for divisor, name in ((86400 * 2, "days"), (3600, "h"), (60, "min")):
        if value >= divisor:
            unit = 86400 if name == "days" else divisor
            return f"{value / unit:.0f} {name} {until}"
    return f"{value:.0f} s {until}"


def plural(count: int, noun: str) -> str:
    """``1 row``, ``2 rows``; the first word of a noun with words behind it takes the s: ``2 rows of memory``."""
    first, _, rest = noun.partition(" of ")
    text = first if count == 1 else f"{first}s"
    return f"{count:,} {text}" + (f" of {rest}" if rest else "")


def many(reading: Reading, noun: str) -> str:
    """As :func:`plural`, of a count that may be absent."""
    return f"{noun}: not seen" if isinstance(reading, Absent) else plural(int(reading.value), noun)


def listed(words: Iterable[str], most: int = 8) -> str:
    """``a, b, c and 4 more``."""
    every = list(dict.fromkeys(words))
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown
