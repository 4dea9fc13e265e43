"""The working side of the runner: one thread that opens targets in turn, runs their probes and closes them.

A device is opened, used and closed in one thread, since a CUDA context belongs to the thread that made it current; a
source of passive state likewise. Nothing that a probe or a door raises leaves this thread: it ends as a result with its
reason.
"""

from __future__ import annotations

import dataclasses
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from mats.device import Device, DeviceError, DeviceLost, HeldBy
from mats.fabric import Fabric, Lender
from mats.model import Result, TargetInfo, Verdict
from mats.probe import UsageError
from mats.slot import Clock, Recorded, Slot, Stop, Task, Terms, describe, not_opened, recorded_result, resumed_result
from mats.source import NothingThere, Source, SourceError
from mats.target import Target

Door = Device | Source | Fabric | Lender
"""What a target is worked on through: a device by the probes that load it, a source by those that only read, a fabric
or a lender by those that work on several devices together."""


@dataclass(frozen=True, slots=True)
class Opened:
    """``info`` stands in for a target that could not be opened where ``usable`` is false.

    ``whole``: it is of one device or source, and not of several together, of which less is told.
    """

    target: Target
    info: TargetInfo
    usable: bool = True
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Started:
    slot: Slot


@dataclass(frozen=True, slots=True)
class Finished:
    result: Result


@dataclass(frozen=True, slots=True)
class Skipped:
    """A probe that was not asked for by name and found nothing that it could tell about.

    ``result``: what is said of it where every other one was skipped as well.
    """

    info: TargetInfo
    result: Result


@dataclass(frozen=True, slots=True)
class Note:
    text: str


@dataclass(frozen=True, slots=True)
class Crash:
    """An exception that nobody foresaw: where, and its traceback for the details."""

    where: str
    details: str


@dataclass(frozen=True, slots=True)
class Done:
    lane: Lane


THREAD = "mats lane"
"""How the threads of lanes are called."""

Message = Opened | Started | Finished | Skipped | Note | Crash | Done


@dataclass(slots=True, eq=False)
class Lane:
    """Targets that are worked through in turn, in one thread."""

    targets: Sequence[Target]
    tasks: Sequence[Task]
    terms: Terms
    stop: Stop
    clock: Clock
    open_door: Callable[[Target], Door]
    claim: Callable[[TargetInfo], str]
    """Gives the name under which a device is already tested in this run, or nothing: then it is this one's."""
    post: Callable[[Message], None]
    passive: bool = False
    """Its probes only read: nothing is lost when they are not waited for."""
    together: bool = False
    """Its probe works on several devices at once."""
    deadline: float | None = None
    """Of all its probes together, on the clock; None: each has its own."""
    slot: Slot | None = None
    door: Door | None = None
    step: tuple[str, float] | None = None
    """What is done to the door between probes, "opening" or "closing", and since when on the clock."""
    abandoned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while something is said or the lane is abandoned: what it was doing is told by exactly one side."""

    @property
    def door_is(self) -> str:
        """What its door is called."""
        return "the source" if self.passive else "the devices" if self.together else "the device"

    def start(self) -> None:
        threading.Thread(target=self._work, name=f"{THREAD} {self.targets[0].name}", daemon=True).start()

    def abandon(self) -> None:
        """From the supervisor: whatever this lane still says is not heard, and it does nothing more."""
        with self.lock:
            self.abandoned = True

    def _work(self) -> None:
        try:
            for target in self.targets:
                if not self.abandoned:
                    self._on(target)
        except BaseException as error:  # a mistake in this file must not leave the supervisor waiting
            self._say(Crash("the runner", traceback.format_exc()))
            self._say(Note(f"the runner failed: {describe(error)}"))
        finally:
            self._say(Done(self))

    def _say(self, message: Message) -> None:
        """Post unless abandoned: then the supervisor has already written what this lane was doing."""
        with self.lock:
            if not self.abandoned:
                self.slot = None if isinstance(message, Finished | Skipped) else self.slot
                self.post(message)

    def _on(self, target: Target) -> None:
        info = self._open(target)
        if info is None:
            return
        same = self.claim(info)
        if same:
            self._close()
            self._say(Note(f"{target.name} is the same device as {same}: it was tested once"))
            return
        self._say(Opened(target, info, whole=not self.together))
        try:
            for task in self.tasks:
                if not self.abandoned and self._wanted(task, info):
                    self._task(target, info, task)
                    self._free()
        finally:
            self._close()

    def _free(self) -> None:
        """After a probe its memory is for the next one: the device is closed, which frees it, and opened again."""
        if not self.passive and not isinstance(self.door, Recorded):
            self._close()

    def _wanted(self, task: Task, info: TargetInfo) -> bool:
        """Whether to run a task; of a saved run only what it holds, unless it was asked for by name."""
        if isinstance(self.door, Recorded) and not task.asked:
            return self.door.recorded(task.probe.name) is not None
        return applies(task, info)

    def _open(self, target: Target) -> TargetInfo | None:
        """Open the door and describe it, or end every probe that was to run on it with the reason."""
        nothing = False
        try:
            if not self.stop.reason:
                self.step = ("opening", self.clock.monotonic())
                self.door = self.open_door(target)
                return dataclasses.replace(self.door.describe(), name=target.name)
            why, error = f"not run: {self.stop.reason}", False
        except DeviceError as caught:
            why, error, nothing = describe(caught), False, isinstance(caught, NothingThere)
        except BaseException as caught:
            if not isinstance(caught, UsageError):
                self._say(Crash(f"opening {target.name}", traceback.format_exc()))
            why, error = describe(caught), True
        finally:
            self.step = None
        self._close()
        info = not_opened(target, why)
        missed = [task for task in self.tasks if applies(task, info)]
        if nothing:
            self._pass_over([self._slot(target, info, task) for task in missed if not task.asked], why)
            missed = [task for task in missed if task.asked]
            if not missed:
                return None
        self._say(Opened(target, info, usable=False))
        for task in missed:
            self._say(Finished(self._slot(target, info, task).ended(why, error)))
        return None

    def _pass_over(self, slots: Sequence[Slot], why: str) -> None:
        """Note that probes nobody asked for by name found nothing they could tell about."""
        if slots:
            self._say(Note(f"{', '.join(slot.task.probe.name for slot in slots)} was not run: {why}"))
        for slot in slots:
            self._say(Skipped(slot.info, slot.ended(why)))

    def _slot(self, target: Target, info: TargetInfo, task: Task) -> Slot:
        return Slot(target, info, task, self.terms, self.stop, self.clock, self.deadline)

    def _close(self) -> None:
        door, self.door = self.door, None
        if door is None:
            return
        self.step = ("closing", self.clock.monotonic())
        try:
            door.close()
        except BaseException as error:
            self._say(Note(f"closing {self.door_is} failed: {describe(error)}"))
        finally:
            self.step = None

    def _task(self, target: Target, info: TargetInfo, task: Task) -> None:
        slot = self.slot = self._slot(target, info, task)
        self._say(Started(slot))
        try:
            slot.resumed = resumed_result(task, target, info)
            result = self._result(slot)
        except SourceError as error:
            if isinstance(error, NothingThere) and not task.asked:
                self._pass_over([slot], describe(error))
                return
            result = slot.ended(describe(error))
        except DeviceError as error:
            if isinstance(error, DeviceLost):
                self._close()
            result = slot.ended(describe(error), error=True)
        except UsageError as error:
            result = slot.ended(describe(error), error=True)
        except BaseException as error:
            self._say(Crash(f"{task.probe.name} on {target.name}", traceback.format_exc()))
            result = slot.ended(describe(error), error=True)
        if target.paths and not task.asked and result.verdict is Verdict.UNKNOWN and not result.observation.figures:
            self._pass_over([slot], result.reason)  # of several that read files, each is for files of its own
        else:
            self._say(Finished(result))

    def _result(self, slot: Slot) -> Result:
        """What comes of a probe. Raises what the probe and the device raise."""
        probe, door = slot.task.probe, self.door
        if self.stop.reason:
            return slot.ended(f"not run: {self.stop.reason}")
        if door is None:  # closed after an earlier probe, or lost in it
            door = self.door = self.open_door(slot.target)
        if isinstance(door, Recorded):
            return recorded_result(slot, door.recorded(probe.name))
        if slot.info.kind not in probe.kinds:
            return slot.ended(f"{probe.name} works on {', '.join(probe.kinds)}, not on {slot.info.kind}")
        if probe.exclusive and not probe.passive:
            members = door.members() if isinstance(door, Fabric) else ()
            devices = [(member.describe().name, member) for member in members]
            devices = devices if self.together else [(slot.target.name, cast(Device, door))]
            refusals = [refusal for name, device in devices if (refusal := self._refusal(name, device, slot))]
            if refusals:
                return slot.ended("; ".join(refusals))
        observation = probe.measure(door, slot)
        if slot.told and not observation.partial:
            observation = dataclasses.replace(observation, partial=slot.told)
        return slot.result(observation)

    def _refusal(self, target: str, device: Device, slot: Slot) -> str:
        """Why a probe that needs the device to itself must not run, or nothing."""
        holders = device.holders()
        if isinstance(holders, str):
            self._say(Note(f"{target}: other processes could not be listed: {holders}"))
            return ""
        drawing = [_named(holder) for holder in holders if holder.draws_only]
        holders = tuple(holder for holder in holders if not holder.draws_only)
        if drawing:
            self._say(Note(f"{target} also drew for {', '.join(drawing[:3])}: times may be unsteady"))
        if not holders:
            return ""
        users = ", ".join(_named(holder) for holder in holders[:3]) + (", ..." if len(holders) > 3 else "")
        name = slot.task.probe.name
        if self.terms.force:
            self._say(Note(f"{target} was in use by {users} while {name} ran (--force)"))
            return ""
        return f"{target} is in use by {users}: {name} needs it to itself; end them or add --force"


def applies(task: Task, info: TargetInfo) -> bool:
    """Whether a task gives a result for a target: asked for by name, answered from a file, or of its kinds."""
    return task.asked or info.kind == "replay" or info.kind in task.probe.kinds


def _named(holder: HeldBy) -> str:
    return f"{holder.name or 'a process'} (pid {holder.pid})"
