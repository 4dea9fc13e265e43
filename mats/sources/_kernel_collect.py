"""Puts the lines of one kernel log together into events: what takes several lines becomes one event."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime

from mats.model import Absent
from mats.sources import _kernel_lines as lines
from mats.sources._events import (
    NO_ADDRESS,
    AerEvent,
    BarEvent,
    DriverEvent,
    DriverEventKind,
    Event,
    KernelLog,
    LoggedGpu,
    Stamp,
    SwitchEvent,
    not_shown,
)
from mats.sources._late_pattern import LatePattern
from mats.sources._log_prefix import PrefixReader, Writer

KEPT_LINES = 25_000
"""So many of the newest lines that may be events are read; older ones are only counted. A log can be made of them."""
_KEPT_WIDTH = 2_000
_FOLLOW_LINES = 20
"""How many lines may lie between the lines of one event."""

_WORDS = ("NVRM", "SXid", "PCIe", "BAR ", "AER", "Linux version", "callbacks suppressed", "error status/mask")
"""One of them stands in every line that may be of an event, but for those that name an error of a port again."""
_MANY = 20
"""With one line of so many kept, all are looked at in turn."""
_HOSTS_AT_MOST = 100
_HEAD_LINES = 5
"""A log that is whole has the kernel's own name within its first lines."""

_GPU_AT = LatePattern(r"NVRM: GPU at (?:PCI:)?(\S+?): (GPU-[0-9a-fA-F-]{36})")
_SERIAL = LatePattern(r"NVRM: (?:GPU (\S+): )?GPU (?:Board Serial Number:|serial number is) (\d{1,20})")
_LOADED = LatePattern(r"NVRM: loading NVIDIA UNIX .{0,80}?(\d{3}\.\d{1,4}(?:\.\d{1,4})?)\b")
_RM_INIT = LatePattern(r"RmInitAdapter failed! \(([^)]{1,60})\)")
_MINOR = LatePattern(r"rm_init_adapter failed, device minor number (\d{1,5})")
_RATE = LatePattern(r"printing 1 (?:of|in) every (\d{1,6})")
_SUPPRESSED = LatePattern(r"\b(?:nv\w*|os_\w+|aer_\w+): (\d{1,9}) callbacks suppressed")
_VERSION = r"(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)"
_CLIENT_VERSION = LatePattern(r"the client\b.{0,80}?has the version " + _VERSION, re.DOTALL)
_MODULE_VERSION = LatePattern(r"kernel module has the version " + _VERSION)
_AER_RECEIVED = LatePattern(r"AER: (?:Multiple )?(.{4,40}?) (?:error (?:message )?)?received(?: from|:) (\S{7,17})")
_AER_ERROR = LatePattern(
    r"PCIe Bus Error: severity=([^,]{1,40}), type=([^,]{1,40}), (?:id=[0-9a-fA-F]{1,8})?\(?([^()]{1,40})\)?"
)
_AER_STATUS = LatePattern(
    r"device \[([0-9a-fA-F]{4}:[0-9a-fA-F]{4})\] error status/mask=([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})"
)
_AER_FIRMWARE = LatePattern(
    r"AER: aer_(?:cor_|uncor_)?status: 0x([0-9a-fA-F]{1,8}), aer_(?:cor_|uncor_)?mask: 0x(\w{1,8})"
)
_AER_BIT = LatePattern(r"\[\s*(\d{1,2})\] ([A-Za-z][\w ]{0,40}?)\s*(?:\(First\)\s*)?$")

_SINGLE: tuple[tuple[str, DriverEventKind], ...] = (
    ("Cannot initialize GSP firmware RM", DriverEventKind.GSP_FAILED),
    ("NV_ERR_RESET_REQUIRED", DriverEventKind.RESET_REQUIRED),
    ("A GPU crash dump has been created", DriverEventKind.CRASH_DUMP),
)


@dataclass(slots=True)
class Collector:
    """Feed it every line in order, then take the result; ``now`` and ``uptime``: when the log was taken."""

    now: datetime | None = None
    uptime: float | None = None
    events: list[Event] = field(default_factory=list)
    lines: int = 0
    driver_lines: int = 0
    quoted: int = 0
    known_lines: int = 0
    from_start: bool = False
    _prefixes: PrefixReader = field(init=False)
    _first: Stamp | None = None
    _kept: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    _candidates: int = 0
    _port: str = ""
    _last_line: str = ""
    _gpus: dict[str, LoggedGpu] = field(default_factory=dict)
    _gpu_at: str = ""
    _switch_open: dict[tuple[str | Absent, int], int] = field(default_factory=dict)
    _bars: dict[tuple[str | Absent, int], BarEvent] = field(default_factory=dict)
    _aer_address: str = ""
    _aer_line: int = 0
    _aer_at: int = -1
    _aer_source: tuple[str, str] = ("", "")
    _lost: tuple[int, str | Absent] = (0, NO_ADDRESS)
    _mismatch: DriverEvent | None = None
    _uptime: float = 0.0
    _hosts: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prefixes = PrefixReader(self.now)

    def feed(self, text: str) -> None:
        """The next lines, the last without its end. Pieces without any of the words cost a search and nothing else."""
        if self._first is None and self.lines < _FOLLOW_LINES:
            for line in text.split("\n", _FOLLOW_LINES)[: _FOLLOW_LINES - self.lines]:
                self._start(line)
        if "PCIe Bus Error" in text or (self._port and self._port in text):
            self._one_by_one(text)
        else:
            self._by_words(text)
        self.lines += text.count("\n") + 1
        stripped = text.rstrip()
        if stripped:
            self._last_line = stripped[stripped.rfind("\n") + 1 :]

    def _by_words(self, text: str) -> None:
        """Keeps the lines that hold one of the words: a search for each, which is fast where they are few."""
        starts: set[int] = set()
        many = text.count("\n") // _MANY
        for word in _WORDS:
            place = text.find(word)
            while place >= 0:
                if len(starts) > many:
                    self._one_by_one(text)
                    return
                starts.add(text.rfind("\n", 0, place) + 1)
                end = text.find("\n", place)
                place = text.find(word, end) if end >= 0 else -1
        number, before = self.lines + 1, 0
        for start in sorted(starts):
            number += text.count("\n", before, start)
            before = start
            end = text.find("\n", start)
            self._kept.append((number, text[start : end if end >= 0 else None][:_KEPT_WIDTH]))
        self._candidates += len(starts)

    def _one_by_one(self, text: str) -> None:
        """As above, and what follows a line of a PCIe error: it names the port and none of the words."""
        keep, port, before = self._kept.append, self._port, self._candidates
        for number, line in enumerate(text.split("\n"), self.lines + 1):
            if "NVRM" in line or (port and port in line) or any(word in line for word in _WORDS):
                keep((number, line[:_KEPT_WIDTH]))
                before += 1
                if "PCIe Bus Error" in line:
                    port = _port(line)
        self._port, self._candidates = port, before

    def _start(self, line: str) -> None:
        if self._first is not None:
            return
        read = PrefixReader(self.now).read(line)
        if read.known:
            self.known_lines += 1
            self._first = read.stamp

    def _take(self, number: int, line: str) -> None:
        read = self._prefixes.read(line)
        if read.writer is Writer.PROGRAM:
            self.quoted += 1
            return
        message, stamp = read.message, read.stamp
        self.known_lines += read.known
        if read.host and len(self._hosts) < _HOSTS_AT_MOST:
            self._hosts.setdefault(read.host)
        self._boot(number, message, stamp)
        if "NVRM" in message:
            self.driver_lines += 1
            self._driver(number, message, stamp)
        elif "SXid" in message:
            self.driver_lines += 1
            self._switch(number, message, stamp)
        elif not self._aer(number, message, stamp):
            self._bus(number, message, stamp)

    def _add(self, event: Event) -> int:
        """The event's place in the list."""
        self.events.append(event)
        return len(self.events) - 1

    def _boot(self, number: int, message: str, stamp: Stamp) -> None:
        """A new start of the system: its first line, or the kernel's clock going back."""
        uptime = None if isinstance(stamp.uptime, Absent) else stamp.uptime
        first_line = message.startswith("Linux version ")
        back = uptime is not None and uptime < self._uptime - 60.0
        if first_line and number <= _HEAD_LINES and not self.from_start:
            self.from_start = True
        elif first_line or back:
            self._add(DriverEvent(number, stamp, NO_ADDRESS, DriverEventKind.SYSTEM_STARTED, message))
        if uptime is not None:
            self._uptime = uptime

    def _driver(self, number: int, message: str, stamp: Stamp) -> None:
        if found := lines.xid(message, number, stamp):
            self._add(found)
        elif refused := lines.driver_bar(message, number, stamp):
            self._bars[(refused.pci, refused.bar)] = refused
        elif self._identity(message) or self._mismatched(number, message, stamp):
            pass
        elif "fallen off the bus" in message or "The NVIDIA GPU " in message:
            self._off_bus(number, message, stamp)
        else:
            self._other(number, message, stamp)

    def _other(self, number: int, message: str, stamp: Stamp) -> None:
        pci = lines.address_in(message)
        text = message.strip()

        def add(kind: DriverEventKind, *details: tuple[str, str]) -> None:
            self._add(DriverEvent(number, stamp, pci, kind, text, details))

        if loaded := _LOADED.search(message):
            add(DriverEventKind.DRIVER_LOADED, ("version", loaded[1]))
        elif failed := _RM_INIT.search(message):
            add(DriverEventKind.INIT_FAILED, ("code", failed[1]))
        elif minor := _MINOR.search(message):
            add(DriverEventKind.INIT_FAILED, ("minor", minor[1]))
        elif "Rate limiting" in message:
            every = _RATE.search(message)
            add(DriverEventKind.RATE_LIMITED, *((("every", every[1]),) if every else ()))
        elif lines.tells_remap(text):
            add(DriverEventKind.ROW_REMAP)
        else:
            for needle, kind in _SINGLE:
                if needle in message:
                    add(kind)
                    return

    def _identity(self, message: str) -> bool:
        if found := _GPU_AT.search(message):
            pci = lines.address_in(found[1])
            if not isinstance(pci, Absent):
                known = self._gpus.get(pci)
                serial = known.serial if known else not_shown("serial number")
                self._gpu_at = pci
                self._gpus[pci] = LoggedGpu(pci, found[2], serial)
            return True
        if found := _SERIAL.search(message):
            told = lines.address_in(found[1] or "")
            pci = self._gpu_at if isinstance(told, Absent) else told
            known = self._gpus.get(pci)
            if pci:
                uuid = known.uuid if known else not_shown("UUID")
                self._gpus[pci] = LoggedGpu(pci, uuid, found[2])
            return True
        return False

    def _off_bus(self, number: int, message: str, stamp: Stamp) -> None:
        pci = lines.address_in(message)
        if "fallen off the bus" not in message:  # first of three lines: the address comes alone
            self._lost = (number, pci)
            return
        if isinstance(pci, Absent) and self._lost[0] and number - self._lost[0] <= _FOLLOW_LINES:
            pci = self._lost[1]
        self._lost = (0, NO_ADDRESS)
        self._add(DriverEvent(number, stamp, pci, DriverEventKind.OFF_BUS, message.strip()))

    def _mismatched(self, number: int, message: str, stamp: Stamp) -> bool:
        """The versions stand on the lines that follow."""
        started = "API mismatch" in message
        if started:
            self._close_mismatch()
            self._mismatch = DriverEvent(number, stamp, NO_ADDRESS, DriverEventKind.API_MISMATCH, "")
        waiting = self._mismatch
        if waiting is None or number - waiting.line > _FOLLOW_LINES or len(waiting.text) > 1000:
            self._close_mismatch()
            return False
        text = f"{waiting.text} {message.replace('NVRM:', '').strip()}".strip()
        client, module = _CLIENT_VERSION.search(text), _MODULE_VERSION.search(text)
        found = (("client", client), ("module", module))
        self._mismatch = replace(waiting, text=text, details=tuple((name, hit[1]) for name, hit in found if hit))
        if client and module:
            self._close_mismatch()
        return started or "version" in message

    def _close_mismatch(self) -> None:
        if self._mismatch is not None:
            self._add(self._mismatch)
            self._mismatch = None

    def _switch(self, number: int, message: str, stamp: Stamp) -> None:
        """Fatal or Non-fatal opens an event; Severity and Data belong to the last one of that switch and number."""
        part = lines.sxid(message, number, stamp)
        if part is None:
            return
        key = (part.pci, part.number)
        detail = not isinstance(part.severity, Absent) or not isinstance(part.data, Absent)
        place = self._switch_open.get(key, -1) if detail else -1
        whole = self.events[place] if place >= 0 else None
        if isinstance(whole, SwitchEvent) and number - whole.line <= _FOLLOW_LINES:
            merged = replace(
                whole,
                severity=whole.severity if isinstance(part.severity, Absent) else part.severity,
                instance=whole.instance if isinstance(part.instance, Absent) else part.instance,
                data=whole.data if isinstance(part.data, Absent) else part.data,
            )
            self.events[place] = merged
            return
        self._switch_open[key] = self._add(part)

    def _aer(self, number: int, message: str, stamp: Stamp) -> bool:
        if self._aer_address and number - self._aer_line > _FOLLOW_LINES:
            self._aer_address, self._aer_at = "", -1
        if received := _AER_RECEIVED.search(message):
            self._aer_source = (_port(message), received[2].rstrip(":"))
            return True
        if error := _AER_ERROR.search(message):
            self._aer_open(number, message, stamp, error)
            return True
        if firmware := _AER_FIRMWARE.search(message):
            status = int(firmware[1], 16)
            self._add(AerEvent(number, stamp, lines.address_in(message), message.strip(), status=status))
            return True
        return self._aer_more(message)

    def _aer_open(self, number: int, message: str, stamp: Stamp, error: re.Match[str]) -> None:
        pci = lines.address_in(message)
        port, source = self._aer_source
        self._aer_source = ("", "")
        sender: str | Absent = lines.address_in(source) if port == _port(message) else NO_ADDRESS
        if isinstance(sender, Absent):
            sender = not_shown("device that sent the message")
        event = AerEvent(
            number, stamp, pci, message.strip(), lines.aer_severity(error[1]), error[2], error[3].strip(), sender
        )
        self._aer_at = self._add(event)
        self._aer_address, self._aer_line = _port(message), number

    def _aer_more(self, message: str) -> bool:
        """Status and names of the errors, on lines of the same port."""
        if self._aer_at < 0 or not self._aer_address or self._aer_address not in message:
            return False
        whole = self.events[self._aer_at]
        if not isinstance(whole, AerEvent):
            return False
        if status := _AER_STATUS.search(message):
            numbers = int(status[2], 16), int(status[3], 16)
            whole = replace(whole, device=status[1].lower(), status=numbers[0], mask=numbers[1])
        elif (bit := _AER_BIT.search(message)) and len(whole.bits) < 32:
            whole = replace(whole, bits=(*whole.bits, bit[2]))
        else:
            return False
        self.events[self._aer_at] = whole
        return True

    def _bus(self, number: int, message: str, stamp: Stamp) -> None:
        if "BAR " in message and (found := lines.bar(message, number, stamp)):
            key = (found.pci, found.bar)
            known = self._bars.get(key)
            if known and isinstance(found.size, Absent):
                found = replace(found, size=known.size)
            self._bars[key] = found
        elif "limited by" in message and (limit := lines.link_limit(message, number, stamp)):
            self._add(limit)
        elif suppressed := _SUPPRESSED.search(message):
            kind = DriverEventKind.RATE_LIMITED
            self._add(DriverEvent(number, stamp, NO_ADDRESS, kind, message, (("suppressed", suppressed[1]),)))

    def result(self) -> KernelLog:
        """Everything that was seen; the events in the order of the log, BARs with their last state."""
        for number, line in self._kept:
            self._take(number, line)
        self._close_mismatch()
        read = self._prefixes.read(self._last_line)
        self.known_lines += read.known
        first = self._first or Stamp()
        last = read.stamp
        if not read.known and self.events:
            last = self.events[-1].stamp
        ordered = sorted([*self.events, *self._bars.values()], key=lambda event: event.line)
        told = {event.line for event in ordered}
        taken = Stamp()
        if self.now is not None:
            taken = replace(taken, wall=self.now)
        if self.uptime is not None:
            taken = replace(taken, uptime=self.uptime)
        return KernelLog(
            events=tuple(ordered),
            gpus=tuple(self._gpus.values()),
            lines=self.lines,
            driver_lines=self.driver_lines,
            first=first,
            last=last,
            taken=taken,
            from_start=self.from_start,
            quoted=self.quoted,
            left_out=self._candidates - len(self._kept),
            hosts=tuple(self._hosts),
            raw=tuple((number, line.strip()) for number, line in self._kept if number in told),
        )


def _port(message: str) -> str:
    """The address at the head of a line, as the line writes it, to find the lines that follow."""
    found = lines.ADDRESS.search(message)
    return found[0] if found else ""
