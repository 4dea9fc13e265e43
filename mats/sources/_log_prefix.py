"""What stands before the message of a log line: time, host, who wrote it; in every form that tools give a kernel log.

dmesg with seconds, -T, -x, --time-format iso and -r; /dev/kmsg; syslog old and new; journalctl short, iso, unix,
monotonic, full and json; months also in other languages. An unknown form costs the time, never the message.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

from mats.model import AbsenceKind, Absent
from mats.sources._events import Stamp
from mats.sources._late_pattern import LatePattern

_NO_STAMP = Stamp()


class Writer(enum.Enum):
    """Who wrote the line; UNKNOWN where the form does not say."""

    KERNEL = "kernel"
    PROGRAM = "program"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    message: str
    stamp: Stamp = _NO_STAMP
    writer: Writer = Writer.UNKNOWN
    known: bool = False
    """A prefix of a known form was found."""
    host: str = ""
    """Name of the machine, where the prefix tells it."""


_COLOUR = LatePattern(r"\x1b\[[0-9;]*[mK]")
_CLOCK = r"(\d{1,2}):(\d\d):(\d\d)"
_SECONDS = LatePattern(r"\[\s*(\d{1,12}\.\d{1,9})\](?:\[\s*[TC]\d+\])? ?")
_DELTA = LatePattern(r"\[\s*[+<]\s*\d+\.\d+>?\] ?")
_CTIME = LatePattern(r"\[\s*(\S+)\s+(\S+)\s+(\d{1,2})\s+" + _CLOCK + r"\s+(\d{4})\] ?")
_RELATIVE = LatePattern(r"\[(\D{1,9}?)\s*(\d{1,2}) (\d{1,2}):(\d\d)\] ?")
_RAW = LatePattern(r"<(\d{1,3})>(?:1 (?=\d{4}-))?")
_LEVEL = LatePattern(r"([a-z0-9]{2,9})\s*:\s*(?:emerg|alert|crit|err|warn|notice|info|debug)\s*:\s*")
_KMSG = LatePattern(r"(\d{1,4}),(\d{1,20}),(\d{1,19}),([^;]{0,200});")
_ISO = LatePattern(
    r"(?:[^\s\d]+ )?(\d{4})-(\d\d)-(\d\d)[T ]" + _CLOCK + r"(?:[.,](\d{1,9}))?(?:(Z)|([+-])(\d\d):?(\d\d)| (UTC)\b)? ?"
)
_UNIX = LatePattern(r"(\d{9,11})\.(\d{6}) ")
_SYSLOG = LatePattern(r"(\S{1,12})\s+(\d{1,2}) " + _CLOCK + r"(?:\.(\d{1,9}))? ")
_HOST_TAG = LatePattern(
    r"(\S{0,255}[^\s:]) (?:(kernel)(?:\[\d+\])?: ?|([^\s:\[\]]{1,64})(?:\[\d+\])?(?:: |:$| (?:\d+|-) - (?:- )?))"
)

_MONTHS: dict[str, int] = {
    word: number
    for number, words in enumerate(
        (
            "jan janv ene gen sty янв led oca",
            "feb févr fév fev fe lut фев úno şub",
            "mar mär mars mrt maa мар bře mär.",
            "apr avr avril abr kwi апр dub nis",
            "may mai mei mag maj мая май kvě",
            "jun juin giu cze июн čen haz",
            "jul juil lug lip июл čec tem",
            "aug août aoû ago sie авг srp ağu",
            "sep sept set wrz сен zář eyl",
            "oct okt ott out paź окт říj eki",
            "nov lis ноя kas",
            "dec dez déc dic gru дек pro ara",
        ),
        start=1,
    )
    for word in words.split()
}
"""First letters of the months in the languages of common system locales."""


def month_number(word: str) -> int | None:
    """1 to 12 for the name of a month as a log abbreviates it (``Mär``, ``févr.``, ``4月``); None when unknown."""
    word = word.casefold().rstrip(".")
    digits = re.fullmatch(r"(\d{1,2})[月월]", word)
    if digits:
        return int(digits[1]) if 1 <= int(digits[1]) <= 12 else None
    return _MONTHS.get(word) or _MONTHS.get(word[:4]) or _MONTHS.get(word[:3])


_MESSAGES = ("NVRM:", "nvidia-nvswitch", "pci", "Linux version")
"""How messages begin that are looked for: no prefix is left before them."""

_AHEAD = timedelta(days=1)
"""By how much a line may seem to lie ahead, for the zone of its clock is not told."""
_LEAP_YEARS = 9
"""Within so many years lies a 29 February."""
_DISORDER = 3


class PrefixReader:
    """Reads prefixes line by line, in the order of the log: a syslog date has no year.

    ``now``: when the log was taken; a date is then the latest that does not lie ahead of it. Without it years are only
    counted, so that differences across a new year are right.
    """

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now
        self._year = 2000
        self._place = 0

    def read(self, line: str) -> Line:
        """The message and what is known about it; a line without a known prefix is all message."""
        if "\x1b" in line:
            line = _COLOUR.sub("", line)
        if line.startswith("{"):
            return _json(line)
        return self._read(Line(line), 4)

    def _read(self, line: Line, depth: int) -> Line:
        step = self._step(line.message) if depth else None
        if step is None:
            return line
        stamp, new = line.stamp, step.stamp
        if stamp is _NO_STAMP:
            stamp = new
        elif new is not _NO_STAMP:
            uptime = stamp.uptime if isinstance(new.uptime, Absent) else new.uptime
            dated = stamp if isinstance(new.wall, Absent) else new
            stamp = Stamp(uptime, dated.wall, dated.year_told)
        writer = line.writer if step.writer is Writer.UNKNOWN else step.writer
        return self._read(Line(step.message, stamp, writer, True, step.host or line.host), depth - 1)

    def _step(self, text: str) -> Line | None:
        """One prefix taken off, or None when none is left."""
        if text.startswith(_MESSAGES):
            return None
        head = text[:1]
        if head == "[":
            return _seconds(text) or _ctime(text) or self._relative(text) or _boxed(text)
        if text.startswith("kernel: "):
            return Line(text[8:], writer=Writer.KERNEL)
        if head == "<" and (raw := _RAW.match(text)):
            return Line(text[raw.end() :], writer=_facility(int(raw[1])))
        if head.isdigit() and (dated := _kmsg(text) or _iso(text) or _unix(text)):
            return dated
        if level := _LEVEL.match(text):
            writer = Writer.KERNEL if level[1] == "kern" else Writer.PROGRAM
            return Line(text[level.end() :], writer=writer)
        return self._syslog(text) or _iso(text)

    def _syslog(self, text: str) -> Line | None:
        found = _SYSLOG.match(text)
        if found is None:
            return None
        month = month_number(found[1])
        stamp = Stamp(wall=Absent(AbsenceKind.UNREADABLE, f"date: {found[1]!r} is not the name of a known month"))
        if month is not None:
            fraction = int((found[6] or "0").ljust(9, "0")) // 1000
            stamp = self._dated(month, int(found[2]), int(found[3]), int(found[4]), int(found[5]), fraction)
        return _tagged(text[found.end() :], stamp)

    def _relative(self, text: str) -> Line | None:
        if delta := _DELTA.match(text):
            why = Absent(AbsenceKind.NOT_FOUND, "date: the line tells only the time since the line before")
            return Line(text[delta.end() :], Stamp(wall=why))
        found = _RELATIVE.match(text)
        month = month_number(found[1]) if found else None
        if found is None or month is None:
            return None
        return Line(text[found.end() :], self._dated(month, int(found[2]), int(found[3]), int(found[4]), 0, 0))

    def _dated(self, month: int, day: int, hour: int, minute: int, second: int, micro: int) -> Stamp:
        if self._now is not None:
            latest = self._now.replace(tzinfo=None) + _AHEAD
            for year in range(latest.year, latest.year - _LEAP_YEARS, -1):
                wall = _datetime(year, month, day, hour, minute, second, micro)
                if isinstance(wall, datetime) and wall <= latest:
                    return Stamp(wall=wall)
        place = month * 31 + day
        if place < self._place - _DISORDER:
            self._year += 1
        self._place = place
        return Stamp(wall=_datetime(self._year, month, day, hour, minute, second, micro), year_told=False)


def _datetime(*parts: int, zone: timezone | None = None) -> datetime | Absent:
    try:
        return datetime(*parts, tzinfo=zone)  # type: ignore[arg-type, misc]
    except (ValueError, OverflowError):
        return Absent(AbsenceKind.UNREADABLE, "date: the line holds an impossible one")


def _seconds(text: str) -> Line | None:
    found = _SECONDS.match(text)
    if found is None:
        return None
    rest = text[found.end() :]
    stamp = Stamp(uptime=float(found[1]))
    tag = _HOST_TAG.match(rest)  # journalctl -o short-monotonic
    return _tagged(rest, stamp) if tag and tag[2] else Line(rest, stamp)


def _ctime(text: str) -> Line | None:
    found = _CTIME.match(text)
    if found is None:
        return None
    month = month_number(found[2])
    if month is None:
        why = Absent(AbsenceKind.UNREADABLE, f"date: {found[2]!r} is not the name of a known month")
        return Line(text[found.end() :], Stamp(wall=why))
    day, hour, minute, second, year = (int(found[index]) for index in range(3, 8))
    return Line(text[found.end() :], Stamp(wall=_datetime(year, month, day, hour, minute, second)))


def _boxed(text: str) -> Line | None:
    """``[2026-01-12T12:34:56+00:00] ``, as the fabric manager writes it."""
    inner, closed, rest = text[1:].partition("] ")
    found = _ISO.fullmatch(inner) if closed else None
    dated = _iso(inner) if found else None
    return Line(rest, dated.stamp) if dated else None


def _kmsg(text: str) -> Line | None:
    found = _KMSG.match(text)
    if found is None:
        return None
    return Line(text[found.end() :], Stamp(uptime=int(found[3]) / 1e6), _facility(int(found[1])))


def _iso(text: str) -> Line | None:
    found = _ISO.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    zone = UTC if found[8] or found[12] else None
    if found[9]:
        shift = timedelta(hours=int(found[10]), minutes=int(found[11]))
        zone = timezone(-shift if found[9] == "-" else shift) if shift < timedelta(hours=24) else None
    fraction = int((found[7] or "0").ljust(9, "0")) // 1000
    wall = _datetime(year, month, day, hour, minute, second, fraction, zone=zone)
    return _tagged(text[found.end() :], Stamp(wall=wall))


def _unix(text: str) -> Line | None:
    found = _UNIX.match(text)
    if found is None:
        return None
    wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(found[1]), microseconds=int(found[2]))
    return _tagged(text[found.end() :], Stamp(wall=wall))


def _tagged(text: str, stamp: Stamp) -> Line:
    """Behind a date: ``host kernel: `` where it is there."""
    tag = _HOST_TAG.match(text)
    if tag is None:
        return Line(text, stamp)
    kernel = tag[2] or tag[3] == "kernel"
    return Line(text[tag.end() :], stamp, Writer.KERNEL if kernel else Writer.PROGRAM, host=tag[1])


def _facility(priority: int) -> Writer:
    """Facility 0 is the kernel; what a program writes into /dev/kmsg gets another."""
    return Writer.KERNEL if priority < 8 else Writer.PROGRAM


def _json(line: str) -> Line:
    """One record of ``journalctl -o json``; anything else is a message as it stands."""
    try:
        record = json.loads(line)
        message = record["MESSAGE"]
        if isinstance(message, list):  # journald writes bytes that are not text this way
            message = bytes(message).decode("utf-8", "replace")
        if not isinstance(message, str):
            return Line(line)
        micro = int(record.get("__REALTIME_TIMESTAMP", "-1"))
        monotonic = int(record.get("_SOURCE_MONOTONIC_TIMESTAMP", record.get("__MONOTONIC_TIMESTAMP", "-1")))
        wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro)
        uptime = monotonic / 1e6
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Line(line)
    stamp = Stamp()
    if micro >= 0:
        stamp = replace(stamp, wall=wall)
    if monotonic >= 0:
        stamp = replace(stamp, uptime=uptime)
    kernel = record.get("_TRANSPORT") == "kernel" or record.get("SYSLOG_IDENTIFIER") == "kernel"
    return Line(message, stamp, Writer.KERNEL if kernel else Writer.PROGRAM, known=True)
