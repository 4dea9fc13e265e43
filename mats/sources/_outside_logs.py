"""Three short texts beside the kernel's log that tell of GPUs: the event log of the management controller
(``ipmitool sel elist``), an event of the Windows driver, and the sentence with which nvidia-smi gives up on a GPU.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import datetime

from mats.model import AbsenceKind, Absent
from mats.sources._events import LogError, not_shown, pci_address

_SEL = re.compile(r"[0-9a-fA-F]{1,6}")
_SEL_TIME = re.compile(r"(\d{1,2}:\d\d:\d\d)(?:\s*([AP]M))?(?:\s+([A-Za-z]{2,5}|[+-]\d{2,4}))?")
_WINDOWS_ID = re.compile(r"Event ID (\d{1,6}) from source nvlddmkm", re.IGNORECASE)
_GPUID = re.compile(r"GPUID:?\s*([0-9a-fA-F]{1,8})\b")
_VIDEO = re.compile(r"\\Device\\(Video\d{1,4})")
_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU)?\s*(?:\d{1,3}: ?)?"
    r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):\s*(.{0,120})"
)


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """An entry of the management controller's log. ``wall`` has no zone: ``zone`` is a name of many meanings."""

    number: str
    wall: datetime | Absent
    zone: str
    sensor: str
    text: str
    asserted: bool | Absent

    @property
    def about_bus(self) -> bool:
        """It is about PCI or a bus: it can be a sign of the same fault as a lost GPU, and names no card."""
        words = f"{self.sensor} {self.text}".casefold()
        return "bus" in words or "pci" in words


def parse_controller_log(text: str) -> tuple[ControllerEvent, ...]:
    """Entries of ``ipmitool sel elist`` (or ``sel list``); other lines are passed over. Raises LogError without any."""
    events = [event for line in text.split("\n") if "|" in line and (event := _controller_event(line))]
    if not events:
        raise LogError("not a log of a management controller: no line has the columns of one")
    return tuple(events)


def _controller_event(line: str) -> ControllerEvent | None:
    cells = [cell.strip() for cell in line[:1000].split("|")]
    if len(cells) < 5 or not _SEL.fullmatch(cells[0]):
        return None
    time = _SEL_TIME.fullmatch(cells[2])
    wall: datetime | Absent = Absent(AbsenceKind.UNREADABLE, f"date: the controller wrote {cells[1][:20]!r}")
    if time:
        form = "%m/%d/%Y %I:%M:%S %p" if time[2] else "%m/%d/%Y %H:%M:%S"
        with contextlib.suppress(ValueError):
            wall = datetime.strptime(f"{cells[1]} {time[1]} {time[2] or ''}".strip(), form)
    state = cells[5] if len(cells) > 5 else ""
    asserted: bool | Absent = state == "Asserted" if state in ("Asserted", "Deasserted") else not_shown("state")
    return ControllerEvent(cells[0], wall, (time[3] or "") if time else "", cells[3], cells[4], asserted)


@dataclass(frozen=True, slots=True)
class WindowsEvent:
    """An event of the driver on Windows (source nvlddmkm). It has no Xid, and its number does not tell the cause."""

    number: int | Absent
    pci: str | Absent
    device: str | Absent
    """The display device, such as Video5."""


def parse_windows_event(text: str) -> WindowsEvent:
    """One event as text. The driver's GPUID is domain, bus and device in one hexadecimal number (open kernel modules,
    gpuGenerate32BitId), so the card's address can be told. Raises LogError when it is no such event.
    """
    if "nvlddmkm" not in text and not _GPUID.search(text):
        raise LogError("not an event of the NVIDIA driver on Windows: its source nvlddmkm is not named")
    number, gpu, device = _WINDOWS_ID.search(text), _GPUID.search(text), _VIDEO.search(text)
    pci: str | Absent = not_shown("PCI address")
    if gpu:
        code = int(gpu[1], 16)
        slot = code & 0xFF
        pci = Absent(AbsenceKind.UNREADABLE, f"PCI address: GPUID {gpu[1]} names no device")
        if slot < 32:
            pci = pci_address(f"{code >> 16:04x}:{code >> 8 & 0xFF:02x}:{slot:02x}.0")
    return WindowsEvent(
        int(number[1]) if number else not_shown("event number"), pci, device[1] if device else not_shown("device")
    )


@dataclass(frozen=True, slots=True)
class LostHandle:
    """nvidia-smi could not open one GPU and then lists none: the others may be fine."""

    pci: str
    reason: str


def lost_handles(text: str) -> tuple[LostHandle, ...]:
    """The GPUs that nvidia-smi could not open, from its words; empty where it says nothing of the kind."""
    return tuple(LostHandle(pci_address(found[1]), found[2].strip()) for found in _HANDLE.finditer(text))
