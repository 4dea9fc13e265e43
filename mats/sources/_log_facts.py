"""A kernel log in the words of the whole picture: incidents with what they mean, and what part of the past it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mats.facts import IncidentFacts, IncidentGrade, LogFacts
from mats.model import Absent
from mats.sources._events import KernelLog
from mats.sources._incident_words import words
from mats.sources._incidents import DAY, Incident, group
from mats.sources._xid_table import Action
from mats.sources.kernel_log import NamedLog, coverage

LINES_AT_MOST = 20
"""Lines of the log that an incident carries as evidence."""
_WIDTH = 500

GRADES: dict[Action, IncidentGrade] = {
    Action.INFO: IncidentGrade.NOTE,
    Action.MONITOR: IncidentGrade.WATCH,
    Action.APPLICATION: IncidentGrade.APPLICATION,
    Action.CHECK: IncidentGrade.CHECK,
    Action.DECODE: IncidentGrade.UNCLEAR,
    Action.UNKNOWN: IncidentGrade.UNCLEAR,
    Action.LINK: IncidentGrade.LINK,
    Action.RESET: IncidentGrade.RESET,
    Action.REBOOT: IncidentGrade.REBOOT,
    Action.SERVICE: IncidentGrade.SERVICE,
}


def log_facts(logs: Sequence[NamedLog]) -> LogFacts:
    """One or more logs of one machine as one: what two of them tell of is one incident. ``logs`` is not empty.

    A ring buffer, a journal and a syslog of one machine hold the same lines in different forms; an incident of one is
    taken for that of another when card, events and texts agree and their times do not contradict.
    """
    kept: list[tuple[Incident, Mapping[int, str]]] = []
    for number, named in enumerate(logs):
        others = list(kept) if number else []
        raw = dict(named.log.raw)
        for incident in group(named.log):
            twin = next((each for each in others if _same(each[0], incident)), None)
            if twin is None:
                kept.append((incident, raw))
            else:
                others.remove(twin)
    many = len(logs) > 1
    return LogFacts(
        incidents=tuple(_facts(incident, raw) for incident, raw in kept),
        origin=", ".join(dict.fromkeys(named.origin for named in logs)),
        covers="; ".join(f"{named.origin}: {_covers(named.log)}" if many else _covers(named.log) for named in logs),
        from_start=any(named.log.from_start for named in logs),
        left_out=sum(named.log.left_out for named in logs),
        quoted=sum(named.log.quoted for named in logs),
    )


def _covers(log: KernelLog) -> str:
    return "; ".join((coverage(log), *log.notes))


def _same(first: Incident, second: Incident) -> bool:
    if (first.kind, first.pci, first.xids, _texts(first)) != (second.kind, second.pci, second.xids, _texts(second)):
        return False
    apart = second.root.stamp.since(first.root.stamp)
    return isinstance(apart, Absent) or abs(apart) <= DAY


def _texts(incident: Incident) -> tuple[str, ...]:
    """What its lines say without their prefixes; a log may hold more or fewer repetitions of one line."""
    return tuple(dict.fromkeys(" ".join(event.text.split()) for event in incident.events))


def _facts(incident: Incident, raw: Mapping[int, str]) -> IncidentFacts:
    said = words(incident)
    victims = [f"process {pid}{f' ({name})' if name else ''} is named in it" for pid, name in incident.victims]
    return IncidentFacts(
        kind=incident.kind.value,
        pci=incident.pci,
        grade=GRADES[incident.action],
        title=said.title,
        explains=(*said.explains, *victims[:LINES_AT_MOST]),
        advice=said.advice,
        age=incident.age,
        age_from=incident.age_from,
        xids=incident.xids,
        restarts_after=incident.restarts_after,
        count_known=incident.count_known,
        related=incident.related,
        conflicts=incident.conflicts,
        lines=_lines(incident, raw),
    )


def _lines(incident: Incident, raw: Mapping[int, str]) -> tuple[str, ...]:
    """The lines of the log, the decisive one first."""
    numbers = dict.fromkeys((incident.serious.line, *(event.line for event in incident.events)))
    lines = [raw[number][:_WIDTH] for number in numbers if number in raw]
    return tuple(dict.fromkeys(lines))[:LINES_AT_MOST]
