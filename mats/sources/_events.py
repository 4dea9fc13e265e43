"""What a kernel log tells about GPUs and their links, event by event, as values; nothing here is judged.

The words are those of the log. What a line does not show is absent with its reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from mats.facts import address_of
from mats.model import AbsenceKind, Absent


class LogError(ValueError):
    """The text is not what the reader takes; one sentence says why."""


def not_shown(what: str) -> Absent:
    """Absent because the line does not hold it."""
    return Absent(AbsenceKind.NOT_FOUND, f"{what}: not shown in this line")


NO_ADDRESS = not_shown("PCI address")
NO_PID = not_shown("process number")
NO_PROCESS = not_shown("process name")
NO_CAUSE = not_shown("earlier Xid as the cause")
NO_INSTANCE = not_shown("MIG instance")
NO_BOOT_TIME = not_shown("seconds since the start of the system")
NO_DATE = not_shown("date")
_NO_FATAL_OR_NON_FATAL = not_shown("Fatal or Non-fatal")
_NO_LINK = not_shown("link")
_NO_SEVERITY = not_shown("severity")
_NO_ENGINE_INSTANCE = not_shown("engine instance")
_NO_DATA = not_shown("data")
_NO_LAYER = not_shown("layer")
_NO_AGENT = not_shown("agent")
_NO_DEVICE_THAT_SENT_THE_MESSAGE = not_shown("device that sent the message")
_NO_VENDOR_AND_DEVICE_NUMBER = not_shown("vendor and device number")
_NO_ERROR_STATUS = not_shown("error status")
_NO_ERROR_MASK = not_shown("error mask")


def pci_address(text: str) -> str:
    """As :func:`mats.facts.address_of` spells it, so that one card has one name. Raises LogError when it is none."""
    address = address_of(text)
    if address is None:
        raise LogError(f"{text[:40]!r} is not a PCI address such as 0000:4e:00.0")
    return address


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a line was written, as far as it says so.

    ``uptime``: seconds on the kernel's clock, which starts at boot and stands still during suspend. ``wall``: date and
    time, with a zone only where the line has one; with ``dmesg -T`` it is wrong by the time spent suspended.
    """

    uptime: float | Absent = NO_BOOT_TIME
    wall: datetime | Absent = NO_DATE
    year_told: bool = True
    """False: the line has no year and nothing else told it; only differences count."""

    def since(self, earlier: Stamp) -> float | Absent:
        """Seconds from ``earlier`` to this one; a time without a zone is taken to be of the other's zone."""
        same_years = self.year_told == earlier.year_told
        if same_years and isinstance(self.wall, datetime) and isinstance(earlier.wall, datetime):
            return _difference(self.wall, earlier.wall)
        if not isinstance(self.uptime, Absent) and not isinstance(earlier.uptime, Absent):
            return self.uptime - earlier.uptime
        return Absent(AbsenceKind.NOT_FOUND, "time between two lines: they carry no times that can be compared")


def _difference(later: datetime, earlier: datetime) -> float:
    if (later.tzinfo is None) != (earlier.tzinfo is None):
        later, earlier = later.replace(tzinfo=None), earlier.replace(tzinfo=None)
    return (later - earlier).total_seconds()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One ``NVRM: Xid`` line. ``pci``: the card; ``text``: what stands behind number, pid and name."""

    line: int
    stamp: Stamp
    pci: str | Absent
    number: int
    text: str
    pid: int | Absent = NO_PID
    process: str | Absent = NO_PROCESS
    """As the kernel knows it: at most 15 characters."""
    cause: int | Absent = NO_CAUSE
    """The number N of "caused by previous Xid N"."""
    gpu_instance: int | Absent = NO_INSTANCE
    compute_instance: int | Absent = NO_INSTANCE


@dataclass(frozen=True, slots=True)
class SwitchEvent:
    """One SXid of an NVSwitch: its lines (Fatal or Non-fatal, Severity, Data) as one event."""

    line: int
    stamp: Stamp
    pci: str | Absent
    number: int
    text: str
    switch: str
    """Name of the driver's device, such as nvidia-nvswitch2, or empty."""
    fatal: bool | Absent = _NO_FATAL_OR_NON_FATAL
    link: int | Absent = _NO_LINK
    severity: int | Absent = _NO_SEVERITY
    instance: int | Absent = _NO_ENGINE_INSTANCE
    data: tuple[int, ...] | Absent = _NO_DATA


class DriverEventKind(enum.StrEnum):
    """What the driver says outside its Xid lines."""

    OFF_BUS = "off_bus"
    INIT_FAILED = "init_failed"
    GSP_FAILED = "gsp_failed"
    RESET_REQUIRED = "reset_required"
    API_MISMATCH = "api_mismatch"
    RATE_LIMITED = "rate_limited"
    ROW_REMAP = "row_remap"
    CRASH_DUMP = "crash_dump"
    DRIVER_LOADED = "driver_loaded"
    SYSTEM_STARTED = "system_started"


@dataclass(frozen=True, slots=True)
class DriverEvent:
    """``details``: named parts of the text: ``code``, ``minor``, ``client``, ``module``, ``version``, ``every``."""

    line: int
    stamp: Stamp
    pci: str | Absent
    kind: DriverEventKind
    text: str
    details: tuple[tuple[str, str], ...] = ()

    def detail(self, name: str) -> str | Absent:
        return dict(self.details).get(name) or not_shown(name)


class AerSeverity(enum.StrEnum):
    CORRECTABLE = "correctable"
    NON_FATAL = "uncorrectable, non-fatal"
    FATAL = "uncorrectable, fatal"


@dataclass(frozen=True, slots=True)
class AerEvent:
    """One PCIe error report (advanced error reporting): several lines of one port.

    ``pci``: the port that saw the error, often the partner of the card concerned. ``bits``: names of the errors.
    ``device``: vendor and device number of that port, as ``1022:1483``.
    """

    line: int
    stamp: Stamp
    pci: str | Absent
    text: str
    severity: AerSeverity | Absent = _NO_SEVERITY
    layer: str | Absent = _NO_LAYER
    agent: str | Absent = _NO_AGENT
    source: str | Absent = _NO_DEVICE_THAT_SENT_THE_MESSAGE
    device: str | Absent = _NO_VENDOR_AND_DEVICE_NUMBER
    status: int | Absent = _NO_ERROR_STATUS
    mask: int | Absent = _NO_ERROR_MASK
    bits: tuple[str, ...] = ()


class BarState(enum.StrEnum):
    ASSIGNED = "assigned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BarEvent:
    """The last word of the kernel on one BAR. ``size`` in bytes; ``memory``: not an I/O window."""

    line: int
    stamp: Stamp
    pci: str | Absent
    bar: int
    state: BarState
    size: int | Absent
    memory: bool
    text: str


@dataclass(frozen=True, slots=True)
class LinkLimitEvent:
    """A port above gives a device less PCIe bandwidth than it could use; rates in bytes per second."""

    line: int
    stamp: Stamp
    pci: str | Absent
    limiter: str
    available: float
    capable: float
    speed: float
    """Of the limiting link, in transfers per second."""
    width: int
    capable_speed: float
    capable_width: int
    text: str


Event = XidEvent | SwitchEvent | DriverEvent | AerEvent | BarEvent | LinkLimitEvent


@dataclass(frozen=True, slots=True)
class LoggedGpu:
    """How the log names a card."""

    pci: str
    uuid: str | Absent
    serial: str | Absent


@dataclass(frozen=True, slots=True)
class KernelLog:
    """All that one log holds about GPUs, and how far it can be trusted to be whole.

    ``taken``: when the log was read, for ages; absent values where nobody told. ``lines``: all lines, of which
    ``driver_lines`` name the NVIDIA driver.
    """

    events: tuple[Event, ...]
    gpus: tuple[LoggedGpu, ...]
    lines: int
    driver_lines: int
    first: Stamp
    last: Stamp
    taken: Stamp
    from_start: bool
    """It reaches back to the start of the system; else earlier events may have been overwritten or left out."""
    quoted: int = 0
    """Lines that look like events and were written by a program, not by the kernel: not taken."""
    left_out: int = 0
    """Lines that may be events and are older than the many that are read."""
    notes: tuple[str, ...] = ()
    raw: tuple[tuple[int, str], ...] = ()
    """Number and text of each line that an event begins with."""
    hosts: tuple[str, ...] = ()
    """Names of the machines that its lines are of, where the lines tell them; of a collected log there are several."""

    def of(self, pci: str) -> tuple[Event, ...]:
        """The events of one card or port, by its address in any form. Raises LogError."""
        wanted = pci_address(pci)
        return tuple(event for event in self.events if event.pci == wanted)
