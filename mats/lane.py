"""The working side of the runner: one thread that opens targets in turn, runs their probes and closes them.

A device is opened, used and closed in one thread, since a CUDA context belongs to the thread that made it current.
Nothing that a probe or a device raises leaves this thread: it ends as a result with its reason.
"""

from __future__ import annotations

import dataclasses
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mats.device import Device, DeviceError, DeviceLost, HeldBy
from mats.model import Result, TargetInfo
from mats.probe import UsageError
from mats.slot import Clock, Recorded, Slot, Stop, Task, Terms, describe, not_opened, recorded_result, resumed_result
from mats.target import Target


@dataclass(frozen=True, slots=True)
class Opened:
    target: Target
    info: TargetInfo


@dataclass(frozen=True, slots=True)
class Started:
    slot: Slot


@dataclass(frozen=True, slots=True)
class Finished:
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

Message = Opened | Started | Finished | Note | Crash | Done


@dataclass(slots=True, eq=False)
class Lane:
    """Targets that are worked through in turn, in one thread."""

    targets: Sequence[Target]
    tasks: Sequence[Task]
    terms: Terms
    stop: Stop
    clock: Clock
    open_device: Callable[[Target], Device]
    claim: Callable[[TargetInfo], str]
    """Gives the name under which a device is already tested in this run, or nothing: then it is this one's."""
    post: Callable[[Message], None]
    slot: Slot | None = None
    device: Device | None = None
    step: tuple[str, float] | None = None
    """What is done to the device between probes, "opening" or "closing", and since when on the clock."""
    abandoned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while something is said or the lane is abandoned: what it was doing is told by exactly one side."""

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
                self.slot = None if isinstance(message, Finished) else self.slot
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
        self._say(Opened(target, info))
        try:
            for task in self.tasks:
                if not self.abandoned and self._wanted(task, info):
                    self._task(target, info, task)
        finally:
            self._close()

    def _wanted(self, task: Task, info: TargetInfo) -> bool:
        """Whether to run a task; of a saved run only what it holds, unless it was asked for by name."""
        if isinstance(self.device, Recorded) and not task.asked:
            return self.device.recorded(task.probe.name) is not None
        return applies(task, info)

    def _open(self, target: Target) -> TargetInfo | None:
        """Open the device and describe it, or end every probe that was to run on it with the reason."""
        try:
            if not self.stop.reason:
                self.step = ("opening", self.clock.monotonic())
                self.device = self.open_device(target)
                return dataclasses.replace(self.device.describe(), name=target.name)
            why, error = f"not run: {self.stop.reason}", False
        except DeviceError as caught:
            why, error = describe(caught), False
        except BaseException as caught:
            if not isinstance(caught, UsageError):
                self._say(Crash(f"opening {target.name}", traceback.format_exc()))
            why, error = describe(caught), True
        finally:
            self.step = None
        self._close()
        info = not_opened(target, why)
        self._say(Opened(target, info))
        for task in self.tasks:
            if applies(task, info):
                slot = Slot(target, info, task, self.terms, self.stop, self.clock)
                self._say(Finished(slot.ended(why, error)))
        return None

    def _close(self) -> None:
        device, self.device = self.device, None
        if device is None:
            return
        self.step = ("closing", self.clock.monotonic())
        try:
            device.close()
        except BaseException as error:
            self._say(Note(f"closing the device failed: {describe(error)}"))
        finally:
            self.step = None

    def _task(self, target: Target, info: TargetInfo, task: Task) -> None:
        slot = self.slot = Slot(target, info, task, self.terms, self.stop, self.clock)
        self._say(Started(slot))
        try:
            slot.resumed = resumed_result(task, target, info)
            result = self._result(slot)
        except DeviceError as error:
            if isinstance(error, DeviceLost):
                self._close()
            result = slot.ended(describe(error), error=True)
        except UsageError as error:
            result = slot.ended(describe(error), error=True)
        except BaseException as error:
            self._say(Crash(f"{task.probe.name} on {target.name}", traceback.format_exc()))
            result = slot.ended(describe(error), error=True)
        self._say(Finished(result))

    def _result(self, slot: Slot) -> Result:
        """What comes of a probe. Raises what the probe and the device raise."""
        probe, device = slot.task.probe, self.device
        if self.stop.reason:
            return slot.ended(f"not run: {self.stop.reason}")
        if device is None:  # lost in an earlier probe
            device = self.device = self.open_device(slot.target)
        if isinstance(device, Recorded):
            return recorded_result(slot, device.recorded(probe.name))
        if slot.info.kind not in probe.kinds:
            return slot.ended(f"{probe.name} works on {', '.join(probe.kinds)}, not on {slot.info.kind}")
        if probe.exclusive:
            refusal = self._refusal(device, slot)
            if refusal:
                return slot.ended(refusal)
        observation = probe.measure(device, slot)
        if slot.told and not observation.partial:
            observation = dataclasses.replace(observation, partial=slot.told)
        return slot.result(observation)

    def _refusal(self, device: Device, slot: Slot) -> str:
        """Why a probe that needs the device to itself must not run, or nothing."""
        holders = device.holders()
        if isinstance(holders, str):
            self._say(Note(f"{slot.target.name}: other processes could not be listed: {holders}"))
            return ""
        drawing = [_named(holder) for holder in holders if holder.draws_only]
        holders = tuple(holder for holder in holders if not holder.draws_only)
        if drawing:
            self._say(Note(f"{slot.target.name} also drew for {', '.join(drawing[:3])}: times may be unsteady"))
        if not holders:
            return ""
        users = ", ".join(_named(holder) for holder in holders[:3]) + (", ..." if len(holders) > 3 else "")
        name = slot.task.probe.name
        if self.terms.force:
            self._say(Note(f"{slot.target.name} was in use by {users} while {name} ran (--force)"))
            return ""
        return f"{slot.target.name} is in use by {users}: {name} needs it to itself; end them or add --force"


def applies(task: Task, info: TargetInfo) -> bool:
    """Whether a task gives a result for a target: asked for by name, answered from a file, or of its kinds."""
    return task.asked or info.kind == "replay" or info.kind in task.probe.kinds


def _named(holder: HeldBy) -> str:
    return f"{holder.name or 'a process'} (pid {holder.pid})"
