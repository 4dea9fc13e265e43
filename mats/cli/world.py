"""What the command line needs of the world, passed in as one value so that tests can give another."""

from __future__ import annotations

import errno
import os
import sys
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from mats import registry
from mats.model import AbsenceKind, Absent, HostInfo, Quantity, Reading, TargetInfo, Unit
from mats.units import KIB

if TYPE_CHECKING:
    from mats.device import Device
    from mats.fabric import Fabric, Lender
    from mats.probe import Probe
    from mats.registry import Fault
    from mats.report import Report
    from mats.slot import Clock
    from mats.source import Source
    from mats.target import Target


class WallClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now().astimezone()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class World:
    """Leaves by the registry, time, chance, files and the three streams."""

    probes: Callable[[], Mapping[str, Probe]] = registry.probes
    reports: Callable[[], Mapping[str, Report]] = registry.reports
    faults: Callable[[], Mapping[str, Fault]] = registry.faults
    plans: Callable[[], tuple[tuple[str, str], ...]] = registry.plans
    page: Callable[[Probe], str] = registry.page
    discover: Callable[[], tuple[TargetInfo, ...]] = registry.discover
    open_device: Callable[[Target], Device] = registry.open_device
    open_source: Callable[[Target, float | None], Source] = registry.open_source
    open_fabric: Callable[[Target, Mapping[str, object], float | None], Fabric | Lender] = registry.open_fabric
    clock: Clock = field(default_factory=WallClock)
    seed: Callable[[], int] = lambda: int.from_bytes(os.urandom(8)) >> 1
    root: Path = Path("/")
    """Where the machine's own files are read (/proc)."""
    folder: Path = field(default_factory=Path.cwd)
    """What relative names of files the user gives are relative to."""
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    stdin: Callable[[], BinaryIO | None] = lambda: sys.stdin.buffer if sys.stdin else None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def say(self, text: str) -> None:
        """To standard output. A reader that went away (``| head``, a closed terminal) is no error."""
        _write(self.stdout, text)

    def tell(self, text: str) -> None:
        """To standard error; where it takes nothing, there is nobody left to be told."""
        with suppress(OSError):
            _write(self.stderr, text)

    def path(self, name: str) -> Path:
        return self.folder / Path(name).expanduser()


def host_info(root: Path) -> HostInfo:
    """This machine, as it is named in a run; no other program is started to learn it."""
    system = os.uname()
    library = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    words = (system.sysname, system.release, system.machine, *(("with", library.replace(" ", "")) if library else ()))
    return HostInfo(
        name=system.nodename or "unnamed",
        system="-".join(words),
        python=sys.version.split()[0],
        processor=parse_processor(_text(root / "proc/cpuinfo")) or system.machine,
        memory_total=parse_memory_total(_text(root / "proc/meminfo")),
    )


def parse_processor(cpuinfo: str) -> str:
    """The processor's name in the text of ``/proc/cpuinfo``, or nothing."""
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() in ("model name", "Model"):
            return value.strip()
    return ""


def parse_memory_total(meminfo: str) -> Reading:
    """Total memory in the text of ``/proc/meminfo``, in bytes."""
    for line in meminfo.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "MemTotal:" and words[1].isdigit() and words[2] == "kB":
            return Quantity(int(words[1]) * KIB, Unit.BYTE)
    return Absent(AbsenceKind.NOT_FOUND, "/proc/meminfo has no MemTotal line or is not there")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def forget_lost_terminal() -> None:
    """Let both streams go nowhere where their terminal is gone, so that what is left to do can be done."""
    for stream in (1, 2):
        try:
            termios.tcgetattr(stream)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except OSError as error:
        # What follows goes nowhere; the interpreter's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if error.errno not in (errno.EPIPE, errno.EIO):  # EIO: the terminal is gone
            why = (error.strerror or str(error)).lower()
            raise OSError(error.errno, f"standard output could not take what was to be shown: {why}") from None
