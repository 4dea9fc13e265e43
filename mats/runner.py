"""Runs probes on targets and keeps one record of it: a failing probe never takes the run down.

The caller's thread supervises: it alone holds the record, saves it and speaks to the listener. Each lane works in a
thread of its own. First the passive probes look at the machine, before anything loads it; then different cuda devices
run at the same moment and everything else in turn, since tests of one memory would disturb each other's figures. Last
come the probes that work on several devices together, while no other probe has any of them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mats.device import Device
from mats.fabric import Fabric, Lender
from mats.lane import Crash, Done, Door, Finished, Lane, Message, Note, Opened, Skipped, Started, applies
from mats.model import SCHEMA_VERSION, HostInfo, Quantity, Result, Run, TargetInfo, Unit
from mats.slot import Clock, Slot, Stop, Task, Terms, not_opened
from mats.source import Source, SourceError
from mats.target import Target

TICK = 0.05
"""Seconds between two looks at deadlines and signals."""
SAVE_EVERY = 5.0
"""Seconds between two saves while a probe runs, at least; more when saving itself is slow."""
SAVE_SHARE = 0.05
"""Share of the time that saving may take while a probe runs."""
GRACE = 15.0
"""Seconds a probe has to end after it was told that its time is over, before it is given up."""
CLOSE_LIMIT = 5.0
"""Seconds the closing of a device that was given up may take."""
CLOSING_SHARE, CLOSING_MOST = 0.1, 1.0
"""What a source is not given of the time limit, as a share and in seconds: to judge and to write what it saw."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run: each passive task on each source, each that works on several devices together on each fabric,
    each other task on each target."""

    targets: tuple[Target, ...]
    tasks: tuple[Task, ...]
    terms: Terms = field(default_factory=Terms)
    required: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tool: str = "mats"
    grace: float = GRACE
    sources: tuple[Target, ...] = ()
    fabrics: tuple[Target, ...] = ()


class Listener(Protocol):
    """Who is told what happens, in the supervisor's thread."""

    def started(self, target: str, probe: str) -> None: ...
    def progressed(self, target: str, probe: str, done: float, total: float, text: str) -> None: ...
    def finished(self, result: Result) -> None: ...
    def skipped(self, target: str, probe: str) -> None: ...
    def stopping(self, reason: str, killed: bool) -> None: ...
    def noted(self, text: str) -> None: ...
    def crashed(self, where: str, details: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """What a run needs of the world. ``save`` may raise OSError; the run goes on and says so.

    ``open_source`` is also given the seconds that are left for all that is asked of the source, or None;
    ``open_fabric`` the options of the probe, and the seconds that it may take, or None.
    """

    open_device: Callable[[Target], Device]
    open_source: Callable[[Target, float | None], Source]
    open_fabric: Callable[[Target, Mapping[str, object], float | None], Fabric | Lender]
    clock: Clock
    host: HostInfo
    listener: Listener
    save: Callable[[Run], None]


def run(plan: Plan, outside: Outside, stop: Stop | None = None) -> Run:
    """Run the plan and give its record; saved after each probe and while one runs. Raises nothing of a probe's."""
    stop = stop or Stop()
    messages: queue.Queue[Message] = queue.Queue()
    book = _Book(plan, outside, stop)
    given_up: list[Lane] = []
    for lanes in (_passive(plan, outside, stop, messages), *_active(plan, outside, stop, messages, book)):
        given_up += _supervise(lanes, messages, book, plan, stop)
    busy = [target.name for lane in given_up if not lane.passive for target in lane.targets]
    for lane in _together(plan, outside, stop, messages):
        if busy:
            book.missing(lane, f"not run: a probe on {', '.join(busy)} was given up and may still be at work there")
        else:
            busy = [target.name for gone in _supervise([lane], messages, book, plan, stop) for target in gone.targets]
    return book.close()


def _passive(plan: Plan, outside: Outside, stop: Stop, messages: queue.Queue[Message]) -> list[Lane]:
    """The lane of the passive probes, with one time limit for all of them; none where there is none to run."""
    tasks = [task for task in plan.tasks if task.probe.passive]
    if not (tasks and plan.sources):
        return []
    timeout, clock = plan.terms.timeout, outside.clock
    deadline = None if timeout is None else clock.monotonic() + timeout

    def open_source(target: Target) -> Door:
        if timeout is None or deadline is None:
            return outside.open_source(target, None)
        left = deadline - clock.monotonic() - min(timeout * CLOSING_SHARE, CLOSING_MOST)
        if left <= 0:
            raise SourceError(plan.terms.over)
        return outside.open_source(target, left)

    lane = Lane(plan.sources, tasks, plan.terms, stop, clock, open_source, lambda _info: "", messages.put)
    lane.passive, lane.deadline = True, deadline
    return [lane]


def _active(
    plan: Plan, outside: Outside, stop: Stop, messages: queue.Queue[Message], book: _Book
) -> Iterator[list[Lane]]:
    """The lanes of the probes that work on devices, phase by phase."""
    tasks = [task for task in plan.tasks if not (task.probe.passive or task.probe.together)]
    for phase in phases(plan.targets) if tasks else ():
        yield [
            Lane(targets, tasks, plan.terms, stop, outside.clock, outside.open_device, book.claim, messages.put)
            for targets in phase
        ]


def _together(plan: Plan, outside: Outside, stop: Stop, messages: queue.Queue[Message]) -> Iterator[Lane]:
    """The lanes of the probes that work on several devices together, one at a time: each opens them in its own way."""
    for task in plan.tasks if plan.fabrics else ():
        if not task.probe.together:
            continue

        def open_fabric(target: Target, task: Task = task) -> Door:
            return outside.open_fabric(target, task.options, plan.terms.timeout)

        lane = Lane(plan.fabrics, [task], plan.terms, stop, outside.clock, open_fabric, lambda _info: "", messages.put)
        lane.together = True
        yield lane


def phases(targets: Iterable[Target]) -> tuple[tuple[tuple[Target, ...], ...], ...]:
    """Which targets run at the same moment: first the cuda devices, a lane each, then all others in one lane."""
    targets = tuple(targets)
    cuda = tuple((target,) for target in targets if target.kind == "cuda")
    rest = tuple(target for target in targets if target.kind != "cuda")
    return tuple(phase for phase in (cuda, (rest,) if rest else ()) if phase)


def _supervise(
    lanes: Sequence[Lane], messages: queue.Queue[Message], book: _Book, plan: Plan, stop: Stop
) -> Sequence[Lane]:
    """Start the lanes and take what they say until each is done or, since it does not end, given up. Gives those."""
    for lane in lanes:
        lane.start()
    working, given_up = list(lanes), []
    while working:
        try:
            message = messages.get(timeout=TICK)
        except queue.Empty:
            message = None
        if isinstance(message, Done):
            if message.lane in working:
                working.remove(message.lane)
        elif message is not None:
            book.take(message)
        book.look(working)
        if stop.killed or not all(lane.passive for lane in lanes):  # passive probes are not waited for
            book.announce()
        for lane in list(working):
            why = _given_up(lane, book, plan, stop)
            if why:
                working.remove(lane)
                given_up.append(lane)
                _abandon(lane, messages, book, why)
    return given_up


def _given_up(lane: Lane, book: _Book, plan: Plan, stop: Stop) -> str:
    """Why a lane is not waited for any longer, or nothing."""
    if stop.killed:
        return f"{stop.reason}, then ended at once"
    slot, step, timeout, now = lane.slot, lane.step, plan.terms.timeout, book.clock.monotonic()
    if lane.passive:
        return stop.reason or (plan.terms.over if lane.deadline is not None and now >= lane.deadline else "")
    if timeout is None:
        return ""
    if slot is not None and slot.deadline is not None and now >= slot.deadline + plan.grace:
        return f"it did not end within {plan.grace:g} s after its time limit of {timeout:g} s"
    if step is not None and now >= step[1] + timeout + plan.grace:
        return f"{step[0]} {lane.door_is} took more than {timeout + plan.grace:g} s"
    return ""


def _abandon(lane: Lane, messages: queue.Queue[Message], book: _Book, why: str) -> None:
    """Write what a lane was doing, close its device from outside, and go on without it."""
    lane.abandon()
    _drain(messages, book)
    slot, door = lane.slot, lane.door
    if slot is not None:
        book.finish(slot.ended(why))
    book.missing(lane, f"not run: {why}")
    if door is None:
        return
    closer = threading.Thread(target=_close, args=(door,), name="mats closing", daemon=True)
    closer.start()
    closer.join(CLOSE_LIMIT if not lane.passive else CLOSING_MOST)
    if closer.is_alive() and not lane.passive:
        names = ", ".join(target.name for target in lane.targets)
        book.note(f"{names}: {lane.door_is} did not answer while closing; memory is freed when this process ends")


def _close(door: Door) -> None:
    try:
        door.close()
    except Exception:  # the probe still works on it: whatever it says, the process is about to end
        return


def _drain(messages: queue.Queue[Message], book: _Book) -> None:
    """Take what was already said, so that a lane's last finished result is not written over."""
    kept = []
    while True:
        try:
            message = messages.get_nowait()
        except queue.Empty:
            break
        if isinstance(message, Done):
            kept.append(message)
        else:
            book.take(message)
    for message in kept:
        messages.put(message)


@dataclass(slots=True, eq=False)
class _Book:
    """The record in the making; touched by the supervisor's thread alone, except :meth:`claim`."""

    plan: Plan
    outside: Outside
    stop: Stop
    infos: dict[str, TargetInfo] = field(default_factory=dict)
    usable: set[str] = field(default_factory=set)
    skipped: list[tuple[TargetInfo, Result]] = field(default_factory=list)
    results: dict[tuple[str, str], Result] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    running: tuple[Slot, ...] = ()
    saved_at: float = 0.0
    saving_took: float = 0.0
    saved: dict[int, object] = field(default_factory=dict)
    trouble: str = ""
    claimed: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    announced: tuple[str, bool] = ("", False)
    started: str = ""
    begun: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock.now().isoformat(timespec="milliseconds")
        self.begun = self.clock.monotonic()
        self.saved_at = self.begun - SAVE_EVERY  # the first that a probe keeps is saved at once

    @property
    def clock(self) -> Clock:
        return self.outside.clock

    def claim(self, info: TargetInfo) -> str:
        """See :attr:`Lane.claim`. Only GPUs can be named in several ways."""
        key = info.uuid if info.kind == "cuda" and info.uuid else info.name
        with self.lock:
            same = self.claimed.setdefault(key, info.name)
        return "" if same == info.name else same

    def take(self, message: Message) -> None:
        listener = self.outside.listener
        match message:
            case Opened(target, info, usable, whole):
                # A source may have told of it already, and less than a device; a fabric tells less than both.
                if target.name not in self.infos or (usable and (whole or target.name not in self.usable)):
                    self.infos[target.name] = info
                self.usable |= {target.name} if usable else set()
            case Started(slot):
                listener.started(slot.target.name, slot.task.probe.name)
            case Finished(result):
                self.finish(result)
            case Skipped(info, result):
                self.skip(info, result)
            case Note(text):
                self.note(text)
            case Crash(where, details):
                listener.crashed(where, details)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            self.outside.listener.noted(text)

    def finish(self, result: Result) -> None:
        self.results[result.target, result.probe] = result
        self._ended(result.target, result.probe)
        self.outside.listener.finished(result)
        self.write("not finished")

    def skip(self, info: TargetInfo, result: Result) -> None:
        """Forget a probe that found nothing to tell about, and its target where nothing else told of it."""
        self.skipped.append((info, result))
        self._ended(result.target, result.probe)
        if all(name != result.target for name, _probe in self.results):
            self.infos.pop(result.target, None)
        self.outside.listener.skipped(result.target, result.probe)

    def _ended(self, target: str, probe: str) -> None:
        self.running = tuple(
            slot for slot in self.running if (slot.target.name, slot.task.probe.name) != (target, probe)
        )

    def look(self, working: Sequence[Lane]) -> None:
        """See how far the probes are, and save what they kept when enough time has gone by."""
        slots = (lane.slot for lane in working)
        self.running = tuple(slot for slot in slots if slot is not None)
        for slot in self.running:
            if slot.state is not None:
                self.outside.listener.progressed(slot.target.name, slot.task.probe.name, *slot.state)
        kept = {id(slot): slot.latest for slot in self.running if slot.latest is not None}
        fresh = any(self.saved.get(key) is not latest for key, latest in kept.items())
        pause = max(SAVE_EVERY, self.saving_took / SAVE_SHARE)
        if fresh and self.clock.monotonic() - self.saved_at >= pause:
            self.saved = dict(kept)
            self.write("not finished")

    def announce(self) -> None:
        """Tell the listener once that the run was asked to stop, and once that it is not waited for."""
        state = (self.stop.reason, self.stop.killed)
        if state != self.announced:
            self.announced = state
            self.outside.listener.stopping(*state)

    def missing(self, lane: Lane, why: str) -> None:
        """End what a given-up lane did not come to."""
        for target in lane.targets:
            info = self.infos.setdefault(target.name, not_opened(target, why))
            for task in lane.tasks:
                if (target.name, task.probe.name) not in self.results and applies(task, info):
                    slot = Slot(target, info, task, lane.terms, lane.stop, self.clock)
                    self.finish(slot.ended(why))

    def write(self, partial: str) -> None:
        """Save the record as it stands; a disk that refuses is said once and does not end the run."""
        begun = self.clock.monotonic()
        try:
            self.outside.save(self.record(partial))
        except OSError as error:
            if not self.trouble:
                self.trouble = f"the run could not be saved: {error.strerror or error}"
                self.note(self.trouble)
        self.saved_at = self.clock.monotonic()
        self.saving_took = self.saved_at - begun

    def record(self, partial: str) -> Run:
        """The run as it stands, with what running probes have kept so far."""
        results = dict(self.results)
        for slot in self.running:
            if slot.latest is not None:
                results[slot.target.name, slot.task.probe.name] = slot.ended("not finished: saved while it ran")
        named = (*self.plan.sources, *self.plan.targets, *self.plan.fabrics)
        targets = list(dict.fromkeys(target.name for target in named))
        probes = [task.probe.name for task in self.plan.tasks]
        ordered = sorted(
            results.values(), key=lambda result: (targets.index(result.target), probes.index(result.probe))
        )
        return Run(
            schema_version=SCHEMA_VERSION,
            tool=self.plan.tool,
            started=self.started,
            duration=Quantity(max(0.0, self.clock.monotonic() - self.begun), Unit.SECOND),
            host=self.outside.host,
            command=self.plan.command,
            targets=tuple(self.infos[name] for name in targets if name in self.infos),
            results=tuple(ordered),
            notes=(*self.plan.notes, *self.notes),
            partial=partial,
            required=self.plan.required,
        )

    def close(self) -> Run:
        """The finished record; where all was skipped, that is what it tells."""
        self.running = ()
        for info, result in () if self.results else self.skipped:
            self.infos[info.name] = info
            self.finish(result)
        self.write(self.stop.reason)
        return self.record(self.stop.reason)
