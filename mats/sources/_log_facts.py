"""A kernel log in the words of the whole picture: incidents with what they mean, and what part of the past it holds."""

from __future__ import annotations

from collections.abc import Sequence

from mats.facts import IncidentFacts, LogFacts
from mats.sources._events import DriverEvent, DriverEventKind, Event, KernelLog
from mats.sources.kernel_log import NamedLog, coverage

_STARTS = (DriverEventKind.DRIVER_LOADED, DriverEventKind.SYSTEM_STARTED)


def log_facts(logs: Sequence[NamedLog]) -> LogFacts:
    """One or more logs of one machine as one: what two of them tell of is one incident. ``logs`` is not empty.

    A ring buffer, a journal and a syslog of one machine hold the same lines in different forms; an incident of one is
    taken for that of another when card, events and texts agree and their times do not contradict.
    """
    many = len(logs) > 1
    return LogFacts(
        incidents=_incidents(logs),
        origin=", ".join(dict.fromkeys(named.origin for named in logs)),
        covers="; ".join(f"{named.origin}: {_covers(named.log)}" if many else _covers(named.log) for named in logs),
        from_start=any(named.log.from_start for named in logs),
        left_out=sum(named.log.left_out for named in logs),
        quoted=sum(named.log.quoted for named in logs),
    )


def _incidents(logs: Sequence[NamedLog]) -> tuple[IncidentFacts, ...]:
    """What events mean is loaded where there are some: a log of a healthy machine tells of starts alone."""
    if all(_is_start(event) for named in logs for event in named.log.events):
        return ()
    from mats.sources._incident_facts import incident_facts

    return incident_facts([named.log for named in logs])


def _is_start(event: Event) -> bool:
    return isinstance(event, DriverEvent) and event.kind in _STARTS


def _covers(log: KernelLog) -> str:
    return "; ".join((coverage(log), *log.notes))
