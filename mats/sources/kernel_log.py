"""Reads what the kernel's log says about GPUs: live from /dev/kmsg, journalctl or dmesg, or from saved text.

Parsing is pure and takes every form those tools write. A log that may not be read, or is not there, is absent with its
reason; a log that was read and names no event is no proof of health either: :func:`coverage` says what it covers.
"""

from __future__ import annotations

import errno
import io
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO, TypeVar

from mats.model import AbsenceKind, Absent
from mats.sources._events import KernelLog, LogError
from mats.sources._kernel_collect import Collector

_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 16
_RECORD = 8192
"""The kernel never gives more than this for one record."""
_LIVE_LIMIT = 64 << 20
_PATIENCE = 20.0
_ABOUT = ("NVRM", "nvidia", "nouveau", "SXid", "AER", "PCIe", "BAR ", "Linux version", "amdgpu", "pcieport")
_SURE = ("NVRM: ", "SXid (PCI:", "PCIe Bus Error:", "available PCIe bandwidth", ": BAR ")


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that came to its end."""

    code: int
    output: bytes
    errors: bytes


T = TypeVar("T")
Run = Callable[[tuple[str, ...], float], Finished]
"""Runs a command for at most so many seconds; raises OSError or TimeoutError."""


def run_command(command: tuple[str, ...], seconds: float) -> Finished:
    """The real one: no input, untranslated output. Raises OSError when it cannot start, TimeoutError when it hangs."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} did not end within {seconds:g} s") from error
    return Finished(done.returncode, done.stdout, done.stderr)


def recognises(text: str) -> bool:
    """Whether a text (its beginning is enough) holds lines of a kernel log that this reader takes."""
    if "\x00" in text:
        return False
    if any(needle in text for needle in _SURE):
        return True
    collector = Collector()
    collector.feed(text.split("\n", 200)[:200])
    collector.result()
    return collector.known_lines > 0


def parse_kernel_log(text: str, *, now: datetime | None = None, uptime: float | None = None) -> KernelLog:
    """Events of a kernel log in any form; several forms may be mixed, other text between them is passed over.

    ``now`` and ``uptime`` (seconds of the kernel's clock) tell when it was taken: they give the age of events, ``now``
    also the year of a syslog date. Raises LogError where no line is one of a kernel log.
    """
    return _collected(iter([text.removesuffix("\n").split("\n")]), now, uptime)


def read_kernel_log(source: Path | bytes, *, now: datetime | None = None, uptime: float | None = None) -> KernelLog:
    """As :func:`parse_kernel_log`, from a file or bytes, of any size, in pieces. Raises LogError and OSError."""
    if isinstance(source, bytes):
        return _collected(_batches(io.BytesIO(source)), now, uptime)
    with open(source, "rb") as file:
        return _collected(_batches(file), now, uptime)


def _collected(batches: Iterator[list[str]], now: datetime | None, uptime: float | None) -> KernelLog:
    collector = Collector(now, uptime)
    empty = True
    for batch in batches:
        if any("\x00" in line for line in batch):
            raise LogError("not a kernel log: it holds bytes that are no text")
        empty = empty and not any(batch)
        collector.feed([line.rstrip("\r") for line in batch] if any("\r" in line for line in batch) else batch)
    if empty:
        raise LogError("not a kernel log: it is empty")
    log = collector.result()
    if not (log.events or log.driver_lines or log.gpus or collector.known_lines):
        raise LogError("not a kernel log: no line has the form of one")
    return log


def _batches(file: IO[bytes]) -> Iterator[list[str]]:
    """Lines in pieces of about a megabyte; a line longer than 64 KiB is cut into several."""
    rest = b""
    while chunk := file.read(_CHUNK):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            yield whole.decode("utf-8", "replace").split("\n")
        while len(rest) > _LONGEST_LINE:
            yield [rest[:_LONGEST_LINE].decode("utf-8", "replace")]
            rest = rest[_LONGEST_LINE:]
    if rest:
        yield [rest.decode("utf-8", "replace")]


def coverage(log: KernelLog) -> str:
    """What the log covers, in a sentence: a clean log says nothing about the time before its first line."""
    reach = "from the start of the system" if log.from_start else "not from the start of the system"
    named = f"{log.driver_lines} of the NVIDIA driver" if log.driver_lines else "none of the NVIDIA driver"
    lost = f"; of {log.left_out} older lines that may be events nothing is known" if log.left_out else ""
    quoted = f"; {log.quoted} lines written by programs were not taken" if log.quoted else ""
    return f"{log.lines} lines, {named}, {reach}{lost}{quoted}"


@dataclass(frozen=True, slots=True)
class LogText:
    """The kernel's log as a door of it gave it. ``notes``: what a reader should know of how it came about."""

    origin: str
    data: bytes
    notes: tuple[str, ...] = ()


def read_kmsg(root: Path = Path("/")) -> LogText | Absent:
    """The kernel's own buffer, without waiting for new lines."""
    path = root / "dev/kmsg"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _refused("/dev/kmsg", error)
    try:
        data, overwritten = _drain(descriptor)
    except OSError as error:
        return _refused("/dev/kmsg", error)
    finally:
        os.close(descriptor)
    notes = ("lines were overwritten while the log was read",) if overwritten else ()
    return _had("/dev/kmsg", data, notes)


def _drain(descriptor: int) -> tuple[bytes, bool]:
    """Every record until the last; EPIPE means that the kernel has overwritten the next one."""
    data = bytearray()
    overwritten = False
    while len(data) < _LIVE_LIMIT:
        try:
            record = os.read(descriptor, _RECORD)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            overwritten = True
            continue
        if not record:
            break
        data += record
    return bytes(data), overwritten


def read_journal(run: Run = run_command) -> LogText | Absent:
    """The kernel's lines since the last start from systemd's journal, which outlives the kernel's buffer."""
    return _command(run, ("journalctl", "-k", "-o", "short-unix", "--no-pager"))


def read_dmesg(run: Run = run_command) -> LogText | Absent:
    """The kernel's buffer through dmesg, where the device itself is not there."""
    return _command(run, ("dmesg",))


def read_live_text(root: Path = Path("/"), run: Run = run_command) -> LogText | Absent:
    """What the first of the three that can be read gives; else absent with the reasons of all."""
    return _first(root, run, lambda text: text)


def read_live(
    root: Path = Path("/"), run: Run = run_command, *, now: datetime | None = None, uptime: float | None = None
) -> LiveLog | Absent:
    """The log of the first of the three that can be read; else absent with the reasons of all.

    ``uptime``: seconds of the monotonic clock, for the age of events.
    """
    return _first(root, run, lambda text: _read(text, now, uptime))


@dataclass(frozen=True, slots=True)
class LiveLog:
    """A log that was read now, and through which door."""

    origin: str
    log: KernelLog


def _first(root: Path, run: Run, read: Callable[[LogText], T | Absent]) -> T | Absent:
    doors: tuple[Callable[[], LogText | Absent], ...] = (
        lambda: read_kmsg(root),
        lambda: read_journal(run),
        lambda: read_dmesg(run),
    )
    refused: list[Absent] = []
    for door in doors:
        text = door()
        found = text if isinstance(text, Absent) else read(text)
        if not isinstance(found, Absent):
            return found
        refused.append(found)
    kinds = [absent.kind for absent in refused]
    kind = AbsenceKind.NO_PERMISSION if AbsenceKind.NO_PERMISSION in kinds else kinds[0]
    return Absent(kind, "kernel log: " + "; ".join(absent.reason for absent in refused))


def _command(run: Run, command: tuple[str, ...]) -> LogText | Absent:
    name = command[0]
    try:
        done = run(command, _PATIENCE)
    except OSError as error:  # TimeoutError is one, too
        return _refused(name, error)
    said = done.errors.decode("utf-8", "replace").strip()
    words = said.casefold()
    if "not permitted" in words or "permission" in words or "not seeing messages" in words:
        return Absent(AbsenceKind.NO_PERMISSION, f"{name}: no permission to read the kernel's messages")
    if done.code != 0:
        why = said.splitlines()[0][:120] if said else f"it ended with code {done.code}"
        return Absent(AbsenceKind.UNREADABLE, f"{name}: {why}")
    if done.output.strip() == b"-- No entries --":
        return Absent(AbsenceKind.INSUFFICIENT, f"{name}: it holds no line of the kernel")
    return _had(name, done.output, ())


def _had(name: str, data: bytes, notes: tuple[str, ...]) -> LogText | Absent:
    if not data.strip():
        return Absent(AbsenceKind.INSUFFICIENT, f"{name}: it holds no line")
    return LogText(name, data, notes)


def _read(text: LogText, now: datetime | None, uptime: float | None) -> LiveLog | Absent:
    try:
        log = read_kernel_log(text.data, now=now, uptime=uptime)
    except LogError as error:
        return Absent(AbsenceKind.UNREADABLE, f"{text.origin}: {error}")
    return LiveLog(text.origin, replace(log, notes=(*log.notes, *text.notes)))


def about_gpus(data: bytes) -> str:
    """The lines of a log that name a GPU's driver, a PCIe error or a memory window, as they stand there."""
    lines = data.decode("utf-8", "replace").splitlines()
    return "".join(f"{line}\n" for line in lines if any(word in line for word in _ABOUT))


def _refused(name: str, error: OSError) -> Absent:
    if isinstance(error, PermissionError):
        return Absent(AbsenceKind.NO_PERMISSION, f"{name}: no permission to read the kernel's messages")
    if isinstance(error, FileNotFoundError):
        return Absent(AbsenceKind.NOT_FOUND, f"{name}: not there")
    if isinstance(error, TimeoutError):
        return Absent(AbsenceKind.TIMED_OUT, f"{name}: it did not answer in time")
    return Absent(AbsenceKind.UNREADABLE, f"{name}: {error.strerror or type(error).__name__}")
