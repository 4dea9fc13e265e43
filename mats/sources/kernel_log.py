"""Reads what the kernel's log says about GPUs: live from /dev/kmsg, journalctl or dmesg, or from saved text.

Parsing is pure and takes every form those tools write. A log that may not be read, or is not there, is absent with its
reason; a log that was read and names no event is no proof of health either: :func:`coverage` says what it covers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO

from mats.model import AbsenceKind, Absent
from mats.sources._events import KernelLog, LogError
from mats.sources._kernel_collect import Collector
from mats.sources._kernel_doors import LogText

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16
_SURE = ("NVRM: ", "SXid (PCI:", "PCIe Bus Error:", "available PCIe bandwidth", ": BAR ")


def recognises(text: str) -> bool:
    """Whether a text (its beginning is enough) holds lines of a kernel log that this reader takes."""
    if "\x00" in text:
        return False
    if any(needle in text for needle in _SURE):
        return True
    collector = Collector()
    collector.feed("\n".join(text.split("\n", 200)[:200]))
    collector.result()
    return collector.known_lines > 0


def parse_kernel_log(text: str, *, now: datetime | None = None, uptime: float | None = None) -> KernelLog:
    """Events of a kernel log in any form; several forms may be mixed, other text between them is passed over.

    ``now`` and ``uptime`` (seconds of the kernel's clock) tell when it was taken: they give the age of events, ``now``
    also the year of a syslog date. Raises LogError where no line is one of a kernel log.
    """
    return _collected(iter([text.removesuffix("\n")]), now, uptime)


def read_kernel_log(source: Path | bytes, *, now: datetime | None = None, uptime: float | None = None) -> KernelLog:
    """As :func:`parse_kernel_log`, from a file or bytes, of any size, in pieces. Raises LogError and OSError."""
    if isinstance(source, bytes):
        return _collected(_pieces(io.BytesIO(source)), now, uptime)
    with open(source, "rb") as file:
        return _collected(_pieces(file), now, uptime)


def _collected(pieces: Iterator[str], now: datetime | None, uptime: float | None) -> KernelLog:
    collector = Collector(now, uptime)
    empty = True
    for piece in pieces:
        if "\x00" in piece:
            raise LogError("not a kernel log: it holds bytes that are no text")
        empty = empty and not piece.strip("\n")
        collector.feed(piece.replace("\r\n", "\n").rstrip("\r") if "\r" in piece else piece)
    if empty:
        raise LogError("not a kernel log: it is empty")
    log = collector.result()
    if not (log.events or log.driver_lines or log.gpus or collector.known_lines):
        raise LogError("not a kernel log: no line has the form of one")
    return log


def _pieces(file: IO[bytes]) -> Iterator[str]:
    """Whole lines in pieces of about a megabyte; a line longer than 64 KiB is cut into several."""
    rest = b""
    while chunk := file.read(_CHUNK):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            yield whole.decode("utf-8", "replace")
        while len(rest) > _LONGEST_LINE:
            yield rest[:_LONGEST_LINE].decode("utf-8", "replace")
            rest = rest[_LONGEST_LINE:]
    if rest:
        yield rest.decode("utf-8", "replace")


def coverage(log: KernelLog) -> str:
    """What the log covers, in a sentence: a clean log says nothing about the time before its first line."""
    reach = "from the start of the system" if log.from_start else "not from the start of the system"
    named = f"{log.driver_lines} of the NVIDIA driver" if log.driver_lines else "none of the NVIDIA driver"
    lost = f"; of {log.left_out} older lines that may be events nothing is known" if log.left_out else ""
    quoted = f"; {log.quoted} lines written by programs were not taken" if log.quoted else ""
    return f"{log.lines} lines, {named}, {reach}{lost}{quoted}"


@dataclass(frozen=True, slots=True)
class NamedLog:
    """A log and where it was read."""

    origin: str
    log: KernelLog


def live_log(text: LogText, *, now: datetime | None = None, uptime: float | None = None) -> NamedLog | Absent:
    """What a door of the running kernel gave, parsed. ``uptime``: seconds of its monotonic clock, for events' ages."""
    try:
        log = read_kernel_log(text.data, now=now, uptime=uptime)
    except LogError as error:
        return Absent(AbsenceKind.UNREADABLE, f"{text.origin}: {error}")
    return NamedLog(text.origin, replace(log, notes=(*log.notes, *text.notes)))
