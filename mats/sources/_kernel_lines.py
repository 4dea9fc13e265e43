"""From the message of one kernel line to an event; the texts are those of the NVIDIA module and of the PCI core.

Pure: what needs several lines is put together by ``mats.sources._kernel_collect``.
"""

from __future__ import annotations

import re

from mats.model import AbsenceKind, Absent
from mats.sources._events import (
    NO_ADDRESS,
    NO_CAUSE,
    NO_INSTANCE,
    NO_PID,
    NO_PROCESS,
    AerSeverity,
    BarEvent,
    BarState,
    LinkLimitEvent,
    Stamp,
    SwitchEvent,
    XidEvent,
    not_shown,
    pci_address,
)
from mats.sources._late_pattern import LatePattern

_BDF = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
ADDRESS = LatePattern(_BDF)
_XID = LatePattern(r"NVRM:\s*Xid\s*\(([^)]{0,100})\)\s*:\s*(\d{1,6})(?!\d)\s*,?\s*(.*)")
_WHO = LatePattern(r"pid=\s*'?(?:(\d{1,10})|<unknown>)'?\s*,\s*")
_NAME = LatePattern(r"name=\s*([^,]*?)\s*(?:,\s*|$)")
_CAUSE = LatePattern(r"caused by previous Xid (\d{1,6})")
_GI = LatePattern(r"GPU-I:(\d{1,4})")
_CI = LatePattern(r"GPU-CI:(\d{1,4})")
_SXID = LatePattern(r"SXid\s{0,4}\(([^)]{0,100})\)\s*:\s*(\d{1,6})(?!\d)\s*,?\s*(.*)")
_GRADE = LatePattern(r"(Non-?fatal|Fatal)\s*,?\s*(.*)", re.IGNORECASE)
_SEVERITY = LatePattern(r"Severity (\d{1,6}) Engine instance (\d{1,6})")
_DATA = LatePattern(r"Data \{([^}]{0,2000})\}")
_LINK = LatePattern(r"\bLink (\d{1,4})\b")
_BAR = LatePattern(
    rf"({_BDF}): BAR (\d{{1,2}})(?: \[[^\]]*\])?: "
    r"(assigned|no space for|failed to assign|can't assign|can't claim|invalid)"
)
_DRIVER_BAR = LatePattern(rf"NVRM: BAR(\d) is (\d{{1,9}})M @ 0x[0-9a-fA-F]{{1,16}} \((?:PCI:)?({_BDF})\)")
_RANGE = LatePattern(r"\[(mem|io)\s+(?:size 0x([0-9a-fA-F]{1,16})|0x([0-9a-fA-F]{1,16})-0x([0-9a-fA-F]{1,16}))")
_RATE = r"([\d.]{1,10}) GT/s(?: PCIe)? x(\d{1,2}) link"
_LIMIT = LatePattern(
    rf"({_BDF}): ([\d.]{{1,12}}) Gb/s available PCIe bandwidth, limited by {_RATE} at ({_BDF})"
    rf" \(capable of ([\d.]{{1,12}}) Gb/s with {_RATE}\)"
)


def address_in(text: str) -> str | Absent:
    """The first PCI address with a domain in a text."""
    found = ADDRESS.search(text)
    return pci_address(found[0]) if found else NO_ADDRESS


def _number_in(pattern: LatePattern, text: str, absent: Absent) -> int | Absent:
    found = pattern.search(text)
    return int(found[1]) if found else absent


def xid(message: str, line: int, stamp: Stamp) -> XidEvent | None:
    """With or without ``PCI:``, MIG instance, comma, pid and name."""
    found = _XID.search(message)
    if found is None:
        return None
    where, number, text = found[1], int(found[2]), found[3].strip()
    pid: int | Absent = NO_PID
    process: str | Absent = NO_PROCESS
    if who := _WHO.match(text):
        pid = int(who[1]) if who[1] else Absent(AbsenceKind.UNREADABLE, "process number: the driver does not know it")
        text = text[who.end() :]
    if name := _NAME.match(text):
        unknown = name[1].strip("'") == "<unknown>"
        process = name[1]
        if unknown or not process:
            process = Absent(AbsenceKind.UNREADABLE, "process name: the driver does not know it")
        text = text[name.end() :]
    return XidEvent(
        line,
        stamp,
        address_in(where),
        number,
        text,
        pid,
        process,
        _number_in(_CAUSE, text, NO_CAUSE) if "caused by" in text else NO_CAUSE,
        _number_in(_GI, where, NO_INSTANCE) if "GPU" in where else NO_INSTANCE,
        _number_in(_CI, where, NO_INSTANCE) if "GPU" in where else NO_INSTANCE,
    )


def sxid(message: str, line: int, stamp: Stamp) -> SwitchEvent | None:
    """One of the up to three lines of an SXid; ``text`` is empty on the lines that only add details."""
    found = _SXID.search(message)
    if found is None:
        return None
    before = message[max(0, found.start() - 60) : found.start()].split()
    switch = before[-1].removesuffix(":") if before else ""
    where, number, rest = found[1], int(found[2]), found[3].strip()
    severity, data, grade = _SEVERITY.search(rest), _DATA.search(rest), _GRADE.match(rest)
    text = "" if severity or data else grade[2] if grade else rest
    return SwitchEvent(
        line,
        stamp,
        address_in(where),
        number,
        text.strip(),
        switch,
        fatal=grade[1].casefold() == "fatal" if grade else not_shown("Fatal or Non-fatal"),
        link=_number_in(_LINK, text, not_shown("link")),
        severity=int(severity[1]) if severity else not_shown("severity"),
        instance=int(severity[2]) if severity else not_shown("engine instance"),
        data=_data(data[1]) if data else not_shown("data"),
    )


def _data(text: str) -> tuple[int, ...] | Absent:
    try:
        return tuple(int(word, 16) for word in text.replace(",", " ").split())
    except ValueError:
        return Absent(AbsenceKind.UNREADABLE, "data: not hexadecimal numbers")


def bar(message: str, line: int, stamp: Stamp) -> BarEvent | None:
    """Older kernels ``BAR 0: no space for [mem size 0x1]``, newer ``BAR 0 [mem size 0x1]: can't assign; no space``."""
    found = _BAR.search(message)
    if found is None:
        return None
    window = _RANGE.search(message)
    size: int | Absent = not_shown("size of the BAR")
    if window and window[2]:
        size = int(window[2], 16)
    elif window and int(window[4], 16) >= int(window[3], 16):
        size = int(window[4], 16) - int(window[3], 16) + 1
    state = BarState.ASSIGNED if found[3] == "assigned" else BarState.FAILED
    memory = window is None or window[1] == "mem"
    return BarEvent(line, stamp, pci_address(found[1]), int(found[2]), state, size, memory, message.strip())


def driver_bar(message: str, line: int, stamp: Stamp) -> BarEvent | None:
    """The driver refuses a BAR: "This PCI I/O region assigned to your NVIDIA device is invalid: BAR1 is 0M @ 0x0"."""
    found = _DRIVER_BAR.search(message)
    if found is None:
        return None
    size = int(found[2]) << 20
    known = size or Absent(AbsenceKind.UNREADABLE, "size of the BAR: the driver says 0")
    return BarEvent(line, stamp, pci_address(found[3]), int(found[1]), BarState.FAILED, known, True, message.strip())


def link_limit(message: str, line: int, stamp: Stamp) -> LinkLimitEvent | None:
    found = _LIMIT.search(message)
    if found is None:
        return None
    try:
        available, speed, capable, capable_speed = (float(found[index]) for index in (2, 3, 6, 7))
    except ValueError:
        return None
    return LinkLimitEvent(
        line,
        stamp,
        pci_address(found[1]),
        limiter=pci_address(found[5]),
        available=available * 1e9 / 8,
        capable=capable * 1e9 / 8,
        speed=speed * 1e9,
        width=int(found[4]),
        capable_speed=capable_speed * 1e9,
        capable_width=int(found[8]),
        text=message.strip(),
    )


def aer_severity(text: str) -> AerSeverity | Absent:
    """Old and new words: Corrected, Correctable, Uncorrected (Non-Fatal), Uncorrectable (Fatal) ..."""
    words = text.casefold()
    if "non-fatal" in words or "nonfatal" in words:
        return AerSeverity.NON_FATAL
    if "fatal" in words:
        return AerSeverity.FATAL
    if re.search(r"\bcorrect", words):
        return AerSeverity.CORRECTABLE
    return not_shown("severity")


def tells_remap(text: str) -> bool:
    """Whether the driver tells of replaced rows or pages."""
    from mats.sources._xid_details import row_remap  # with all that is known of Xids: most logs need none of it

    return not isinstance(row_remap(text), Absent)
