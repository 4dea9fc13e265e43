"""What the text behind an Xid's number tells: the recovery action, the place of an ECC error, the fate of a row
replacement, and the events of NVLink generation 5.

What cannot be decoded is said to be unknown and never guessed.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from mats.facts import RecoveryAction
from mats.model import AbsenceKind, Absent
from mats.sources._events import not_shown
from mats.sources._late_pattern import LatePattern
from mats.sources._xid_table import Action

_RECOVERY = LatePattern(
    r"changed from (?:0x[0-9a-fA-F]{1,8})?\s?(?:\([^()]{0,60}\))?\s?"
    r"to 0x(?P<number>[0-9a-fA-F]{1,8})(?:\s?\((?P<words>[^()]{0,60})\))?"
)

_RECOVERY_ACTIONS: dict[int, tuple[RecoveryAction, Action]] = {
    0: (RecoveryAction.NONE, Action.INFO),
    1: (RecoveryAction.RESET, Action.RESET),
    2: (RecoveryAction.REBOOT, Action.REBOOT),
    3: (RecoveryAction.DRAIN_P2P, Action.CHECK),
    4: (RecoveryAction.DRAIN_AND_RESET, Action.RESET),
    5: (RecoveryAction.RECOVER_IMEX, Action.LINK),
    6: (RecoveryAction.BUS_RESET, Action.RESET),
    7: (RecoveryAction.SYSTEM_REBOOT, Action.REBOOT),
}
"""By the driver's number. Source: NVML's field 230; 5 to 7 are newer than most checkers."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """An Xid 154: the driver's own advice. ``number`` decides; ``words`` are the driver's and vary by its version."""

    number: int
    words: str
    advice: RecoveryAction | Absent
    action: Action


def recovery(text: str) -> Recovery | Absent:
    """The new recovery action of an Xid 154, by the number behind "to"; a number without meaning is UNKNOWN."""
    found = _RECOVERY.search(text)
    if found is None:
        return not_shown("new recovery action")
    number, words = int(found["number"], 16), found["words"] or ""
    if number not in _RECOVERY_ACTIONS:
        why = f"recovery action: the driver's number {number:#x} is not known"
        return Recovery(number, words, Absent(AbsenceKind.UNREADABLE, why), Action.UNKNOWN)
    advice, action = _RECOVERY_ACTIONS[number]
    return Recovery(number, words, advice, action)


class EccPlace(enum.StrEnum):
    DRAM = "DRAM"
    SRAM = "SRAM"


_NO_PLACE = not_shown("place of the ECC error")
_NO_OUTCOME = not_shown("outcome of a row replacement")


def ecc_place(number: int, text: str) -> EccPlace | Absent:
    """Where the bad cell of a 48, 171 or 172 is: the framebuffer is DRAM, any other unit that is named is SRAM.

    The unit of a 94 ("Contained: SM") is the one that met the error, not the place of the cell.
    """
    if number in (171, 172):
        return EccPlace.DRAM if number == 171 else EccPlace.SRAM
    if number != 48:
        return _NO_PLACE
    found = re.search(r"detected on GPU in (?:the )?(\w+)|\b(framebuffer|subpartition|DRAM)\b", text, re.IGNORECASE)
    if found is None:
        return _NO_PLACE
    dram = re.search(r"framebuffer|partition|dram|\bfb", text, re.IGNORECASE)
    return EccPlace.DRAM if dram else EccPlace.SRAM


class RowRemap(enum.StrEnum):
    """What became of the replacement of a row; the order is from harmless to worst."""

    PENDING = "a reset activates the replacement"
    ALREADY_PENDING = "it was already waiting for a reset"
    FAILED = "the replacement could not be recorded"
    EXHAUSTED = "no spare rows are left"


_ROW_REMAPS: tuple[tuple[str, RowRemap], ...] = (
    ("remapping table is full", RowRemap.EXHAUSTED),
    ("all reserved rows for bank are remapped", RowRemap.EXHAUSTED),
    ("attempting to remap a reserved row", RowRemap.FAILED),
    ("dram retirement failed", RowRemap.FAILED),
    ("already pending", RowRemap.ALREADY_PENDING),
    ("marked for remapping", RowRemap.PENDING),
    ("new page retired", RowRemap.PENDING),
    ("page is pending retirement", RowRemap.PENDING),
)
"""Texts of the kernel module's row remapper, and of page retirement before it."""


_OF_ROWS = LatePattern("remap|retire|recording failure", re.IGNORECASE)


def row_remap(text: str) -> RowRemap | Absent:
    """The fate of a row replacement, from the row remapper's words."""
    if not _OF_ROWS.search(text):  # most lines: there may be very many
        return _NO_OUTCOME
    words = text.casefold()
    for needle, outcome in _ROW_REMAPS:
        if needle in words:
            return outcome
    if "row remapper error" in words or "recording failure" in words:
        return RowRemap.FAILED
    return _NO_OUTCOME


_NVLINK5 = LatePattern(
    r"\b(?P<unit>[A-Z][A-Z0-9_]{0,60})\s{1,8}(?P<grade>Fatal|Non-?fatal)\b(?:\s+(?P<where>(?!Link\b)\S+(?:\s+(?!Link\b)\S+)?))?"
    r"(?:\s+Link\s+(?P<link>-?\d{1,4}))?(?:\s+\((?P<words>[^)]*)\))?",
    re.IGNORECASE,
)
_IGNORED = frozenset({(145, "RLW_RXPIPE", False, 0x8)})
"""(Xid, unit, fatal, status word) that are known to need nothing; the vendor's full sheet has 94 rules."""

_RULES: dict[int, tuple[int, int, int]] = {
    144: (4, 2, 0),
    145: (16, 9, 8),
    146: (15, 5, 0),
    147: (2, 0, 0),
    148: (1, 0, 0),
    149: (7, 24, 0),
    150: (0, 1, 0),
}
"""How many of the vendor's rules for the number say: ignore, reset, follow Xid 154."""


@dataclass(frozen=True, slots=True)
class Nvlink5Event:
    """Xid 144 to 150. ``code``: bits 20 to 25 of the first word; ``status``: the second word.

    ``action``: RESET for an event that the log calls fatal, INFO for one known to need nothing, else DECODE, with
    ``why`` in a sentence.
    """

    number: int
    unit: str | Absent
    fatal: bool | Absent
    link: int | Absent
    code: int | Absent
    status: int | Absent
    words: tuple[int, ...] | Absent
    action: Action
    why: str


_NOT_NVLINK5 = Absent(AbsenceKind.NOT_SUPPORTED, "NVLink event: the Xid is none of NVLink generation 5")


def nvlink5(number: int, text: str) -> Nvlink5Event | Absent:
    """The event of an Xid 144 to 150, as far as its text can be decoded; absent for other numbers."""
    if number not in _RULES:
        return _NOT_NVLINK5
    found = _NVLINK5.search(text)
    unit: str | Absent = found["unit"].upper() if found else not_shown("unit")
    fatal: bool | Absent = found["grade"].casefold() == "fatal" if found else not_shown("Fatal or Nonfatal")
    link: int | Absent = int(found["link"]) if found and found["link"] else not_shown("link")
    words = _words(found["words"] or "") if found else not_shown("words of the event")
    code: int | Absent = words if isinstance(words, Absent) else (words[0] >> 20) & 0x3F
    status: int | Absent = not_shown("status") if isinstance(words, Absent) or len(words) < 2 else words[1]
    action, why = _nvlink5_action(number, unit, fatal, status)
    return Nvlink5Event(number, unit, fatal, link, code, status, words, action, why)


def _nvlink5_action(number: int, unit: str | Absent, fatal: bool | Absent, status: int | Absent) -> tuple[Action, str]:
    if fatal is True:
        return Action.RESET, "the log itself calls it fatal"
    if (number, unit, fatal, status) in _IGNORED:
        return Action.INFO, "known to need nothing with this unit and status"
    ignore, reset, follow = _RULES[number]
    counts = f"of the vendor's rules for Xid {number}, {ignore} say ignore, {reset} say reset, {follow} follow Xid 154"
    grade = "the log calls it non-fatal" if fatal is False else "the log does not say whether it is fatal"
    return Action.DECODE, f"{grade}; its numbers are not decoded here: {counts}"


def _words(text: str) -> tuple[int, ...] | Absent:
    try:
        words = tuple(int(word, 16) for word in re.split(r"[\s,]+", text.strip()) if word)
    except ValueError:
        return Absent(AbsenceKind.UNREADABLE, "words of the event: not hexadecimal numbers")
    if not words:
        return not_shown("words of the event")
    if max(words) >> 64:
        return Absent(AbsenceKind.UNREADABLE, "words of the event: larger than 64 bits")
    return words
