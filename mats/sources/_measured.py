"""What the readers of other tools' measurements share: figures, tables of GPUs, and the finished picture."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mats.facts import UNASKED, ClaimFacts, ClaimStatus, End, MachineFacts, MeasuredGpu, Place, Text, TransferRun
from mats.facts import pci_address as _pci_address
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

GIGABYTE: Final = "1e9"
MICROSECOND: Final = "1e-6"
LARGEST: Final = 16 << 20
"""Characters that are read; the longest output of such a tool is below a mebibyte."""
ROWS_AT_MOST: Final = 20_000
HOST: Final = End(Place.HOST)
EVERY_GPU: Final = End(Place.ALL_GPUS)
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,3})?")
_RATES: Final = {"gb/s": "1e9", "mb/s": "1e6", "tb/s": "1e12"}
_BEYOND: Final = 10**18
"""No figure of any tool is so large, whatever its unit."""
_TIMES: Final = {"ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": "1"}


class MeasuredError(ValueError):
    """The text looks like the output of the tool and holds no result of it; the sentence says why."""


def gpu(number: int) -> End:
    return End(Place.GPU, number)


def number_of(text: str) -> float | None:
    """A finite number that is not negative, or None."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def reading_of(what: str, text: str, unit: str) -> Reading:
    """Of a figure in ``unit`` as the tool writes it (GB/s, ns ...): bytes per second or seconds."""
    word = unit.lower()
    if number_of(text.strip()) is None:
        gone = text.strip().upper() in ("N/A", "NA", "-", "")
        kind = AbsenceKind.NOT_TESTED if gone else AbsenceKind.UNREADABLE
        return Absent(kind, f"{what}: the tool {'gives none' if gone else f'says {text.strip()[:40]!r}'}")
    if word in _RATES:
        return Quantity(_times(text.strip(), _RATES[word]), Unit.BYTE_PER_SECOND)
    if word in _TIMES:
        return Quantity(_times(text.strip(), _TIMES[word]), Unit.SECOND)
    return Absent(AbsenceKind.UNREADABLE, f"{what}: the unit {unit[:20]!r} is not known")


def _times(text: str, factor: str) -> float:
    """810.19 ns as 8.1019e-07 and not 8.101900000000001e-07."""
    return float(Decimal(text) * Decimal(factor))


def plain(reading: Any, unit: Unit, factor: str, what: str) -> Reading:
    """A number of JSON, times ``factor`` in decimal; null and what is no number are absent."""
    if reading is None:
        return Absent(AbsenceKind.NOT_TESTED, f"{what}: the tool gives none")
    if isinstance(reading, bool) or not isinstance(reading, int | float) or not 0 <= reading < _BEYOND:
        return Absent(AbsenceKind.UNREADABLE, f"{what}: the tool says {str(reading)[:40]!r}")
    return Quantity(reading if isinstance(reading, int) and factor == "1" else _times(repr(reading), factor), unit)


def pci_of(domain: str, bus: str, device: str) -> Text:
    """From the three numbers in hexadecimal."""
    return _pci_address(f"{domain.zfill(4)}:{bus.zfill(2)}:{device.zfill(2)}.0")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of figures. ``columns``: numbers of GPUs; ``rows``: a number and as many cells as there are columns.

    ``cut``: the text ends within it, so that rows may be missing; ``end``: the line behind it.
    """

    columns: tuple[int, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    cut: bool
    end: int


def matrix_at(lines: Sequence[str], start: int, corner: str, rows: int | None, *, whole_cell: str) -> Matrix | None:
    """The table whose head is the first line from ``start`` that is not empty; None when there is no head.

    ``corner``: a pattern of what stands left of the head's numbers. ``rows``: how many there are to be, None for as
    many as there are. ``whole_cell``: a pattern of a cell that is written out to its end; only the text's last line may
    hold another one.
    """
    at = start
    while at < len(lines) and not lines[at].strip():
        at += 1
    head = re.fullmatch(rf"\s*{corner}((?:\s+[0-9]{{1,4}})+)\s*", lines[at]) if at < len(lines) else None
    if head is None:
        return None
    columns = tuple(map(int, head[1].split()))
    found: list[tuple[int, tuple[str, ...]]] = []
    cut = False
    at += 1
    while at < len(lines) and (rows is None or len(found) < rows):
        cells = lines[at].split()
        if not cells or not cells[0].isdecimal() or len(cells[0]) > 4:
            break
        broken = len(cells) != len(columns) + 1 or not all(re.fullmatch(whole_cell, cell) for cell in cells[1:])
        if broken and at >= len(lines) - 1:
            cut = True
            break
        if len(cells) != len(columns) + 1:
            break
        found.append((int(cells[0]), tuple(cells[1:])))
        at += 1
    missing = rows is not None and len(found) < rows
    return Matrix(columns, tuple(found), cut or (missing and at >= len(lines)), at)


def lines_of(text: str) -> list[str]:
    """Lines without what a terminal or a starter of several processes puts around them; no empty one at the end."""
    if len(text) > LARGEST:
        raise MeasuredError(f"it is longer than any output of the tool ({len(text) >> 20} MiB)")
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [re.sub(r"^\[[0-9]+,[0-9]+\]<std(?:out|err)>:\s?", "", line.rstrip("\r")) for line in bare.split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def picture(runs: Iterable[TransferRun], driver: Text = UNASKED) -> MachineFacts:
    """The runs as a picture of the machine. Data that came back wrong are also what the tool claims of it."""
    runs = tuple(runs)
    claims = tuple(
        ClaimFacts(run.tool, "data that were moved came back wrong", ClaimStatus.FAIL, text=f"{each.test}: {each.text}")
        for run in runs
        for each in run.mismatches
    )
    cuts = dict.fromkeys(run.cut for run in runs if run.cut)
    return MachineFacts(driver=driver, transfers=runs, claims=claims, partial="; ".join(cuts))


def distinct(gpus: Iterable[MeasuredGpu]) -> tuple[MeasuredGpu, ...]:
    """Each number once, in order; the first that is told has the word."""
    known: dict[int, MeasuredGpu] = {}
    for each in gpus:
        known.setdefault(each.number, each)
    return tuple(known[number] for number in sorted(known))
