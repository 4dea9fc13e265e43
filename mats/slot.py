"""One probe on one target while it runs: what it is told, what it keeps, and the result it ends as."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from mats.device import DeviceError
from mats.judge import judge, kind_of
from mats.limits import Override, apply_overrides
from mats.model import (
    AbsenceKind,
    Absent,
    Observation,
    Quantity,
    Result,
    Run,
    TargetInfo,
    Unit,
    UnitError,
    Verdict,
)
from mats.probe import OptionKind, Probe, UsageError
from mats.target import Target


class Clock(Protocol):
    """Time, passed in: the wall's with its zone, and seconds that never go back."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Task:
    """A probe with its option values. ``asked``: by name, so that a target it does not apply to is unknown.

    An option of kind RUN_IN holds the saved :class:`Run` (or None); the probe gets the result that fits its target.
    """

    probe: Probe
    options: Mapping[str, object]
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every probe of a run.

    ``timeout``: seconds a probe may take, and all passive ones of the run together; or None.
    """

    overrides: tuple[Override, ...] = ()
    timeout: float | None = None
    force: bool = False
    seed: int = 0

    @property
    def over(self) -> str:
        """What is said when the time is up."""
        return f"the time limit of {self.timeout:g} s was reached"


@runtime_checkable
class Recorded(Protocol):
    """A device that answers from a saved run: what each probe saw is not measured again."""

    def recorded(self, probe: str) -> Result | None: ...


class Stop:
    """The wish to end, from a signal: the first asks the probes to stop, the second does not wait for them."""

    def __init__(self) -> None:
        self.reason = ""
        self.killed = False

    def request(self, reason: str) -> None:
        if self.reason:
            self.killed = True
        else:
            self.reason = reason


class Slot:
    """One probe on one target while it runs; gives the probe its :class:`mats.probe.Context`.

    Written by the lane, read by the supervisor: each attribute is replaced as a whole.
    """

    def __init__(
        self,
        target: Target,
        info: TargetInfo,
        task: Task,
        terms: Terms,
        stop: Stop,
        clock: Clock,
        deadline: float | None = None,
    ) -> None:
        """``deadline``: on the clock, where it is not the probe's own time limit from now."""
        self.target = target
        self.info = info
        self.task = task
        self.started = clock.now().isoformat(timespec="milliseconds")
        self.begun = clock.monotonic()
        self.deadline = deadline
        if deadline is None and terms.timeout is not None:
            self.deadline = self.begun + terms.timeout
        self.resumed: Result | None = None
        self.latest: Observation | None = None
        self.state: tuple[float, float, str] | None = None
        self.told = ""
        self._terms = terms
        self._stop = stop
        self._clock = clock

    @property
    def options(self) -> Mapping[str, object]:
        return {
            option.name: self.resumed if option.kind is OptionKind.RUN_IN else self.task.options[option.name]
            for option in self.task.probe.options
        }

    @property
    def seed(self) -> int:
        return self._terms.seed

    def stopping(self) -> str:
        if self._stop.reason:
            self.told = self._stop.reason
        elif self.deadline is not None and self._clock.monotonic() >= self.deadline:
            self.told = self._terms.over
        return self.told

    def progress(self, done: float, total: float, text: str) -> None:
        self.state = (done, total, text)

    def save(self, observation: Observation) -> None:
        self.latest = observation

    def result(self, observation: Observation, error: str = "") -> Result:
        """The judged result of what was seen; with ``error`` it is an error unless it is a failure of the device."""
        limits = apply_overrides(self.task.probe.limits, self._terms.overrides)
        verdict, reason, findings = judge(observation, limits, kind_of(self.info), self.target.name)
        if error and verdict is not Verdict.FAIL:
            verdict, reason = Verdict.ERROR, error
        return Result(
            probe=self.task.probe.name,
            question=self.task.probe.question,
            target=self.target.name,
            verdict=verdict,
            reason=reason,
            observation=observation,
            findings=findings,
            limits=limits,
            started=self.started,
            duration=Quantity(max(0.0, self._clock.monotonic() - self.begun), Unit.SECOND),
        )

    def ended(self, why: str, error: bool = False) -> Result:
        """The result when the probe gave none: what it saved, partial, with the reason."""
        if self.latest is None:
            verdict = Verdict.ERROR if error else Verdict.UNKNOWN
            return dataclasses.replace(self.result(Observation()), verdict=verdict, reason=why)
        seen = dataclasses.replace(self.latest, partial=why)
        try:
            return self.result(seen, why if error else "")
        except UnitError:  # that is why it ended: what was seen cannot be held against the limits
            return self.result(Observation(notes=seen.notes, partial=why), why if error else "")


def describe(error: BaseException) -> str:
    """One sentence for an exception; its type only when it was not foreseen."""
    text = " ".join(str(error).split())
    if isinstance(error, DeviceError | UsageError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def not_opened(target: Target, why: str) -> TargetInfo:
    """A stand-in for a target that could not be opened, so that reports show it with its reason."""
    absent = Absent(AbsenceKind.NOT_FOUND, why)
    kind = "replay" if target.kind == "file" and not target.paths else target.kind
    return TargetInfo(
        name=target.name,
        kind=kind,
        title="could not be opened",
        memory_total=absent,
        cache_size=absent,
        peak_bandwidth=absent,
        peak_formula="",
        simulated=target.kind == "sim",
        origin_kind=kind,
    )


def recorded_result(slot: Slot, saved: Result | None) -> Result:
    """A saved result judged again by the probe's limits; unknown when there is none."""
    if saved is None:
        return slot.ended(f"the saved run holds no result of {slot.task.probe.name}")
    failed = saved.verdict is Verdict.ERROR
    if saved.observation == Observation():
        return slot.ended(saved.reason, error=failed)
    result = slot.result(saved.observation, saved.reason if failed else "")
    return dataclasses.replace(result, started=saved.started, duration=saved.duration)


def resumed_result(task: Task, target: Target, info: TargetInfo) -> Result | None:
    """The saved result that a RUN_IN option names for this target. Raises UsageError when the run has none."""
    for option in task.probe.options:
        run = task.options.get(option.name)
        if option.kind is not OptionKind.RUN_IN or run is None:
            continue
        assert isinstance(run, Run)
        if task.probe.passive:
            return _earlier_look(option.name, run, task.probe.name, target.name)
        same = {other.name for other in run.targets if info.uuid and other.uuid == info.uuid} or {target.name}
        for result in run.results:
            if result.probe == task.probe.name and result.target in same:
                return result
        raise UsageError(f"--{option.name}: the saved run holds no result of {task.probe.name} for {target.name}")
    return None


def _earlier_look(option: str, run: Run, probe: str, target: str) -> Result:
    """What a passive probe saw of the machine then, under whatever name. Raises UsageError when it is not one thing."""
    found = [result for result in run.results if result.probe == probe]
    named = [result for result in found if result.target == target] or found
    if not named:
        raise UsageError(f"--{option}: the saved run holds no result of {probe}")
    if len(named) > 1:
        names = ", ".join(result.target for result in named)
        raise UsageError(f"--{option}: the saved run holds several results of {probe} ({names}), none of {target}")
    if named[0].observation == Observation():
        raise UsageError(f"--{option}: {probe} saw nothing in the saved run: {named[0].reason or 'no reason is saved'}")
    return named[0]
