"""From events to incidents: lines that have one cause are one incident, with its root, its victims and its age.

A driver in trouble writes many lines about one fault: an uncorrectable memory error gives 48, 63 and 94; a GPU that
falls off the bus gives 79, 154 and an SXid on every switch it hung on; everything that dies of it gives 45. Lines are
put together only for the same card (by PCI address), within a short time, and never across a restart. The rules follow
NVIDIA's Xid catalogue; the times are this project's convention.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._events import (
    AerEvent,
    AerSeverity,
    BarEvent,
    BarState,
    DriverEvent,
    DriverEventKind,
    Event,
    KernelLog,
    LinkLimitEvent,
    Stamp,
    SwitchEvent,
    XidEvent,
)
from mats.sources._xid_details import Recovery, RowRemap, nvlink5, recovery, row_remap
from mats.sources._xid_table import Action, conflicts, describe, describe_switch

SHORT = 60.0
"""Seconds within which clean-up (45, 43) and switches follow their cause."""
MEMORY = 300.0
FOLLOWING = 600.0
"""Seconds within which a recovery action or a failed start follows its cause."""
SAME = 3600.0
"""Seconds within which the same trouble on the same card is one incident."""
DAY = 86400.0
_NEAR_LINES = 50
"""Where lines carry no time, so many lines count as near."""
_LOOK_BACK = 16
_SLACK = 2.0
"""Seconds by which lines may be out of order."""


class Kind(enum.StrEnum):
    """What an incident is about."""

    MEMORY = "memory"
    OFF_BUS = "off_bus"
    GSP = "gsp"
    CONTROLLER = "controller"
    APPLICATION = "application"
    NVLINK = "nvlink"
    SWITCH = "switch"
    CLEANUP = "cleanup"
    RECOVERY = "recovery"
    INIT = "init"
    RESET_REQUIRED = "reset_required"
    MISMATCH = "mismatch"
    PCIE = "pcie"
    BAR = "bar"
    LINK_LIMIT = "link_limit"
    OTHER = "other"
    UNKNOWN = "unknown"


MEMORY_XIDS = frozenset({48, 63, 64, 94, 95, 140, 160, 161, 171, 172})
GSP_XIDS = frozenset({119, 120})
_WINDOWS = {Kind.MEMORY: MEMORY, Kind.OFF_BUS: FOLLOWING, Kind.APPLICATION: DAY, Kind.PCIE: DAY}
_SERIOUS = (Kind.OFF_BUS, Kind.GSP, Kind.MEMORY, Kind.CONTROLLER, Kind.NVLINK, Kind.OTHER, Kind.UNKNOWN, Kind.INIT)
_MILD = (Kind.APPLICATION, Kind.RECOVERY, Kind.RESET_REQUIRED)


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault. ``root``: the event that came first in the chain of causes; ``serious``: the one that decides.

    ``pci``: the card or port; ``events`` in the order of the log; ``related``: addresses of others that were hit.
    ``age``: seconds until the log was taken, or until its last line where ``age_from`` says so.
    """

    kind: Kind
    pci: str | Absent
    action: Action
    root: Event
    serious: Event
    events: tuple[Event, ...]
    age: Reading
    age_from: str
    restarts_after: int
    """Starts of the system or of the driver that followed in this log: what it left behind may be gone."""
    count_known: bool
    """False: the driver limits how often it prints, so the number of lines means nothing."""
    recovery: Recovery | Absent
    related: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Where sources disagree on its Xids."""

    @property
    def xids(self) -> tuple[int, ...]:
        """The different Xids, in the order of their coming."""
        return tuple(dict.fromkeys(event.number for event in self.events if isinstance(event, XidEvent)))

    @property
    def victims(self) -> tuple[tuple[int, str], ...]:
        """Processes that are named, by number and name; whether they are at fault is another question."""
        named = [
            (event.pid, event.process if isinstance(event.process, str) else "")
            for event in self.events
            if isinstance(event, XidEvent) and isinstance(event.pid, int)
        ]
        return tuple(dict.fromkeys(named))


def group(log: KernelLog) -> tuple[Incident, ...]:
    """The incidents of one log, in the order of their first lines."""
    grouping = _Grouping()
    for event in log.events:
        grouping.add(event)
    restarts = grouping.restarts
    incidents = [_closed(part, log, restarts) for part in grouping.parts]
    return tuple(sorted(incidents, key=lambda incident: incident.events[0].line))


@dataclass(slots=True)
class _Part:
    """An incident that still grows."""

    kind: Kind
    pci: str | Absent
    events: list[Event]
    serious: Event
    related: list[str] = field(default_factory=list)
    mark: object = None
    """What else must be equal: the Xid, the link."""

    @property
    def last(self) -> Event:
        return self.events[-1]


@dataclass(slots=True)
class _Grouping:
    parts: list[_Part] = field(default_factory=list)
    by_card: dict[str | Absent, list[_Part]] = field(default_factory=dict)
    restarts: list[int] = field(default_factory=list)

    def add(self, event: Event) -> None:
        if isinstance(event, XidEvent):
            self._xid(event)
        elif isinstance(event, SwitchEvent):
            self._switch(event)
        elif isinstance(event, DriverEvent):
            self._driver(event)
        elif isinstance(event, AerEvent):
            self._join_or_open(Kind.PCIE, event, mark=event.severity)
        elif isinstance(event, BarEvent):
            if event.state is BarState.FAILED and event.memory and event.bar <= 5:
                self._join_or_open(Kind.BAR, event)
        else:
            self._join_or_open(Kind.LINK_LIMIT, event)

    def _open(self, kind: Kind, event: Event, mark: object = None) -> None:
        part = _Part(kind, event.pci, [event], event, mark=mark)
        self.parts.append(part)
        self.by_card.setdefault(event.pci, []).append(part)

    def _find(
        self, event: Event, kinds: tuple[Kind, ...], window: float, *, anywhere: bool = False, mark: object = None
    ) -> _Part | None:
        """The latest incident of these kinds (all when empty) on the same card that is near enough."""
        parts = self.parts if anywhere else self.by_card.get(event.pci, [])
        for part in reversed(parts[-_LOOK_BACK:]):
            fits = (not kinds or part.kind in kinds) and (mark is None or part.mark == mark)
            if fits and self._near(part.last, event, window):
                return part
        return None

    def _near(self, earlier: Event, later: Event, window: float) -> bool:
        if self.restarts and self.restarts[-1] > earlier.line:
            return False
        apart = later.stamp.since(earlier.stamp)
        if isinstance(apart, Absent):
            return later.line - earlier.line <= _NEAR_LINES
        return -_SLACK <= apart <= window

    def _join_or_open(self, kind: Kind, event: Event, mark: object = None) -> None:
        part = self._find(event, (kind,), _WINDOWS.get(kind, SAME), mark=mark)
        if part is None:
            self._open(kind, event, mark)
        else:
            part.events.append(event)

    def _xid(self, event: XidEvent) -> None:
        if self._follows(event):
            return
        kind = _kind(event.number)
        before = self._find(event, (Kind.APPLICATION,), SHORT) if kind is Kind.CONTROLLER else None
        if before and any(isinstance(old, XidEvent) and old.number == 31 for old in before.events):
            before.kind, before.serious = Kind.CONTROLLER, event
            before.events.append(event)
            return
        mark = _mark(kind, event)
        part = self._find(event, (kind,), _WINDOWS.get(kind, SAME), mark=mark)
        if part is None:
            self._open(kind, event, mark)
            return
        part.events.append(event)
        if _weight(event) > _weight(part.serious):
            part.serious = event

    def _follows(self, event: XidEvent) -> bool:
        """Attached to the incident that caused it: by the driver's own words, or as clean-up, or as advice."""
        part: _Part | None = None
        if isinstance(event.cause, int):
            part = self._caused(event, event.cause)
        if part is None and event.number == 45:
            part = self._find(event, (*_SERIOUS, *_MILD, Kind.CLEANUP), SHORT)
        if part is None and event.number == 43:
            part = self._find(event, (*_SERIOUS, *_MILD), SHORT)
        if part is None and event.number == 154:
            part = self._find(event, (*_SERIOUS, Kind.RESET_REQUIRED, Kind.RECOVERY), FOLLOWING)
        if part is not None:
            part.events.append(event)
        return part is not None

    def _caused(self, event: XidEvent, cause: int) -> _Part | None:
        for part in reversed(self.by_card.get(event.pci, [])[-_LOOK_BACK:]):
            held = any(isinstance(old, XidEvent) and old.number == cause for old in part.events)
            if held and self._near(part.last, event, DAY):
                return part
        return None

    def _switch(self, event: SwitchEvent) -> None:
        if event.fatal is True:
            lost = self._find(event, (Kind.OFF_BUS,), SHORT, anywhere=True)
            if lost is not None:
                lost.events.append(event)
                if isinstance(event.pci, str) and event.pci not in lost.related:
                    lost.related.append(event.pci)
                return
        self._join_or_open(Kind.SWITCH, event, mark=(event.number, event.fatal))

    def _driver(self, event: DriverEvent) -> None:
        what = event.kind
        if what in (DriverEventKind.DRIVER_LOADED, DriverEventKind.SYSTEM_STARTED):
            self.restarts.append(event.line)
        elif what is DriverEventKind.OFF_BUS:
            self._join_or_open(Kind.OFF_BUS, event)
        elif what is DriverEventKind.ROW_REMAP:
            self._join_or_open(Kind.MEMORY, event)
        elif what is DriverEventKind.API_MISMATCH:
            self._join_or_open(Kind.MISMATCH, event)
        else:
            self._trouble(event)

    def _trouble(self, event: DriverEvent) -> None:
        """Start failures, firmware, reset required: what a known fault leads to, else a fault of their own."""
        what = event.kind
        unnamed = isinstance(event.pci, Absent)
        own = {
            DriverEventKind.INIT_FAILED: Kind.INIT,
            DriverEventKind.GSP_FAILED: Kind.GSP,
            DriverEventKind.RESET_REQUIRED: Kind.RESET_REQUIRED,
            DriverEventKind.RATE_LIMITED: Kind.GSP,
        }.get(what)
        kinds = (*_SERIOUS, Kind.RESET_REQUIRED)
        part = self._find(event, (own,), SAME) if own else None
        part = part or self._find(event, kinds, SHORT if unnamed else FOLLOWING, anywhere=unnamed)
        if part is not None:
            part.events.append(event)
        elif own and what is not DriverEventKind.RATE_LIMITED:
            self._open(own, event)
        elif what is DriverEventKind.RATE_LIMITED and "GSP" in event.text:
            self._open(Kind.GSP, event)


def _kind(number: int) -> Kind:
    if number in MEMORY_XIDS:
        return Kind.MEMORY
    if number in GSP_XIDS:
        return Kind.GSP
    fixed = {79: Kind.OFF_BUS, 62: Kind.CONTROLLER, 45: Kind.CLEANUP, 154: Kind.RECOVERY, 43: Kind.APPLICATION}
    if number in fixed:
        return fixed[number]
    if 144 <= number <= 150 or number in (74, 136, 155):
        return Kind.NVLINK
    action = describe(number).action
    if action is Action.UNKNOWN:
        return Kind.UNKNOWN
    return Kind.APPLICATION if action is Action.APPLICATION else Kind.OTHER


def _mark(kind: Kind, event: XidEvent) -> object:
    """What must be equal within one incident beside the card."""
    if kind in (Kind.OTHER, Kind.UNKNOWN):
        return event.number
    if kind is Kind.NVLINK:
        decoded = nvlink5(event.number, event.text)
        return event.number if isinstance(decoded, Absent) else (event.number, decoded.link, decoded.action)
    return None


def _weight(event: Event) -> Action:
    """How serious one event is by itself."""
    if isinstance(event, XidEvent):
        return _xid_weight(event)
    if isinstance(event, SwitchEvent):
        return Action.LINK if event.fatal is not False else Action.MONITOR
    if isinstance(event, AerEvent):
        return Action.MONITOR if event.severity is AerSeverity.CORRECTABLE else Action.CHECK
    if isinstance(event, LinkLimitEvent):
        return Action.MONITOR
    if isinstance(event, BarEvent):
        return Action.CHECK
    if event.kind is DriverEventKind.RATE_LIMITED and "needs to be reset" in event.text:
        return Action.RESET
    return _DRIVER_WEIGHTS.get(event.kind, Action.INFO)


_DRIVER_WEIGHTS = {
    DriverEventKind.OFF_BUS: Action.REBOOT,
    DriverEventKind.INIT_FAILED: Action.REBOOT,
    DriverEventKind.GSP_FAILED: Action.RESET,
    DriverEventKind.RESET_REQUIRED: Action.RESET,
    DriverEventKind.API_MISMATCH: Action.CHECK,
    DriverEventKind.ROW_REMAP: Action.MONITOR,
}


def _xid_weight(event: XidEvent) -> Action:
    advised = recovery(event.text) if event.number == 154 else None
    if isinstance(advised, Recovery):
        return advised.action
    decoded = nvlink5(event.number, event.text)
    return describe(event.number).action if isinstance(decoded, Absent) else decoded.action


def _action(part: _Part) -> Action:
    """The most that one of its events asks for; a row replacement that failed for lack of spares asks for service."""
    action = max(
        _weight(event) for event in part.events if isinstance(event, SwitchEvent) is (part.kind is Kind.SWITCH)
    )
    outcomes = {row_remap(event.text) for event in part.events if isinstance(event, XidEvent | DriverEvent)}
    if RowRemap.EXHAUSTED in outcomes:
        return Action.SERVICE
    if RowRemap.FAILED in outcomes:
        return max(action, Action.RESET)
    if part.kind is Kind.APPLICATION:
        return Action.APPLICATION
    return action


def _closed(part: _Part, log: KernelLog, restarts: list[int]) -> Incident:
    last = part.last
    numbers = dict.fromkeys(event.number for event in part.events if isinstance(event, XidEvent))
    disputes = [f"Xid {number}: {line}" for number in numbers for line in conflicts(number)]
    switches = dict.fromkeys(event.number for event in part.events if isinstance(event, SwitchEvent))
    disputes += [f"SXid {number}: {text}" for number in switches if (text := describe_switch(number).conflict)]
    limited = any(
        isinstance(event, DriverEvent) and event.kind is DriverEventKind.RATE_LIMITED for event in part.events
    )
    advised: Recovery | Absent = Absent(AbsenceKind.NOT_FOUND, "recovery action: no Xid 154 came with it")
    for event in part.events:
        if isinstance(event, XidEvent) and event.number == 154:
            advised = recovery(event.text)
    age, age_from = _age(last.stamp, log)
    return Incident(
        kind=part.kind,
        pci=part.pci,
        action=_action(part),
        root=part.events[0],
        serious=part.serious,
        events=tuple(part.events),
        age=age,
        age_from=age_from,
        restarts_after=sum(line > last.line for line in restarts),
        count_known=not limited and not log.left_out,
        recovery=advised,
        related=tuple(part.related),
        conflicts=tuple(dict.fromkeys(disputes)),
    )


def _age(stamp: Stamp, log: KernelLog) -> tuple[Reading, str]:
    """Seconds since its last line; a lower bound where only the log's last line tells the time."""
    for later, name in ((log.taken, "until the log was taken"), (log.last, "until the log's last line, or longer")):
        seconds = later.since(stamp)
        if not isinstance(seconds, Absent) and seconds >= -_SLACK:
            return Quantity(max(0.0, seconds), Unit.SECOND), name
    return Absent(AbsenceKind.NOT_FOUND, "age: the lines carry no time that can be compared with another"), ""
