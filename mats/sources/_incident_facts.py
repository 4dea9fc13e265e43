"""The incidents of one or more kernel logs of one machine as facts, each once, with what it means and its lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mats.facts import IncidentFacts, IncidentGrade
from mats.model import Absent
from mats.sources._events import KernelLog
from mats.sources._incident_words import words
from mats.sources._incidents import DAY, Incident, group
from mats.sources._xid_table import Action

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


def incident_facts(logs: Sequence[KernelLog]) -> tuple[IncidentFacts, ...]:
    """What two of the logs tell of is one incident."""
    kept: list[tuple[Incident, Mapping[int, str]]] = []
    for number, log in enumerate(logs):
        others = list(kept) if number else []
        raw = dict(log.raw)
        for incident in group(log):
            twin = next((each for each in others if _same(each[0], incident)), None)
            if twin is None:
                kept.append((incident, raw))
            else:
                others.remove(twin)
    return tuple(_facts(incident, raw) for incident, raw in kept)


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
