"""The doors through which a running kernel gives its log: /dev/kmsg, journalctl, dmesg. Nothing is parsed here.

A door that is shut is absent with its reason: no permission, not there, empty, too slow.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mats.model import AbsenceKind, Absent

KMSG = "/dev/kmsg"
_RECORD = 8192
"""The kernel never gives more than this for one record."""
_LIVE_LIMIT = 64 << 20
_JOURNAL_LINES = 300_000
"""The newest that are asked for: a journal may hold months."""
_PATIENCE = 20.0
_ABOUT = ("NVRM", "nvidia", "nouveau", "SXid", "AER", "PCIe", "BAR ", "Linux version", "amdgpu", "pcieport")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that came to its end."""

    code: int
    output: bytes
    errors: bytes


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
        return _refused(KMSG, error)
    try:
        data, overwritten = _drain(descriptor)
    except OSError as error:
        return _refused(KMSG, error)
    finally:
        os.close(descriptor)
    notes = ("lines were overwritten while the log was read",) if overwritten else ()
    return _had(KMSG, data, notes)


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
    return _command(run, ("journalctl", "-k", "-o", "short-unix", "--no-pager", "-n", str(_JOURNAL_LINES)))


def read_dmesg(run: Run = run_command) -> LogText | Absent:
    """The kernel's buffer through dmesg, where the device itself is not there."""
    return _command(run, ("dmesg",))


def read_live_text(root: Path = Path("/"), run: Run = run_command) -> LogText | Absent:
    """What the first of the three that can be read gives; else absent with the reasons of all."""
    return first_door(root, run, lambda text: text)


def first_door(root: Path, run: Run, read: Callable[[LogText], T | Absent]) -> T | Absent:
    """What ``read`` makes of the first door's text that it takes; else absent with the reasons of all."""
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
