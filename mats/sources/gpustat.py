"""Reads lines of gpustat. It asks NVML in the older way, so that what the driver reserves counts as used memory.

Hundreds of megabytes on a GPU without any process are therefore no leak. "MB" stands for MiB there.
"""

from __future__ import annotations

import re

from mats.facts import GpuFacts, MachineFacts, MemoryFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

_LINE = re.compile(
    r"^\[(?P<index>\d{1,4})\] (?P<name>[^|\n]{1,100}?) *\| *(?P<heat>[^|'°\n]{0,20})['°]C,"
    r"[^|\n]{0,100}?(?P<busy>[\d?]{1,4}) %[^|\n]{0,200}"
    r"\| *(?P<used>[\d?]{1,9}) */ *(?P<total>[\d?]{1,9}) M",
    re.MULTILINE,
)
_RESERVED = Absent(AbsenceKind.NOT_FOUND, "used memory: gpustat does not tell it from what the driver reserves")


class GpustatError(ValueError):
    """The text holds no line of gpustat."""


def parse_gpustat(text: str) -> MachineFacts:
    """Index, name, temperature, use and memory of each GPU. Raises GpustatError."""
    gpus = tuple(_gpu(found) for found in _LINE.finditer(text))
    if not gpus:
        raise GpustatError("this text holds no line of gpustat")
    return MachineFacts(gpus=gpus)


def _gpu(found: re.Match[str]) -> GpuFacts:
    total, used = (_number(found[key], Unit.BYTE, 1 << 20) for key in ("total", "used"))
    busy = _number(found["busy"], Unit.RATIO, 1)
    return GpuFacts(
        index=Quantity(int(found["index"]), Unit.COUNT),
        name=found["name"],
        temperature=_number(found["heat"].strip(), Unit.CELSIUS, 1),
        busy=busy if isinstance(busy, Absent) else Quantity(busy.value / 100, Unit.RATIO),
        memory=MemoryFacts(total=total, used=_RESERVED, used_with_reserved=used),
    )


def _number(text: str, unit: Unit, factor: int) -> Reading:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return Absent(AbsenceKind.UNREADABLE, f"gpustat shows {text or 'nothing'!r}")
    return Quantity(int(text) * factor, unit)
