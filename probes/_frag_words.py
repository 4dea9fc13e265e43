"""Sizes and shares in words, for the evidence of mats frag."""

from __future__ import annotations

from mats.model import Absent, Reading

_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB")


def size(reading: Reading) -> str:
    """``1.50 GiB (1,610,612,736 bytes)``; below a kibibyte only the bytes."""
    if isinstance(reading, Absent):
        return "not known"
    return f"{short(reading)} ({int(reading.value):,} bytes)" if abs(reading.value) >= 1024 else short(reading)


def short(reading: Reading) -> str:
    """``1.50 GiB``."""
    if isinstance(reading, Absent):
        return "not known"
    value, step = float(reading.value), 0
    while abs(value) >= 1024 and step < len(_PREFIXES) - 1:
        value, step = value / 1024, step + 1
    return f"{value:.2f} {_PREFIXES[step]}" if step else f"{int(reading.value)} B"
