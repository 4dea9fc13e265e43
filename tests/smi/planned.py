"""Samples that were planned: facts of GPUs, a sampler that gives them, a clock that is moved."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mats.cli._smi_sampling import Sample
from mats.cli._smi_table import Frame
from mats.facts import CallFacts, ClockFacts, GpuFacts, MachineFacts, MemoryFacts, PowerFacts, ProcessFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.units import GIB, MIB

START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
HIDDEN = Absent(AbsenceKind.NOT_SUPPORTED, "memory of a process: this operating system does not tell it to NVML")
LOST = Absent(AbsenceKind.DEVICE_LOST, "temperature: the GPU has fallen off the bus or is otherwise inaccessible")
HUNG = Absent(AbsenceKind.TIMED_OUT, "temperature: nvmlDeviceGetTemperature did not return within 2.0 s")


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


def gpu(index: int = 0, name: str = "NVIDIA H100 80GB HBM3", processes: tuple[ProcessFacts, ...] = ()) -> GpuFacts:
    return GpuFacts(
        uuid=f"GPU-{index}",
        name=name,
        temperature=Quantity(31 + index, Unit.CELSIUS),
        power=Quantity(71.234, Unit.WATT),
        power_limits=PowerFacts(limit=Quantity(700.0, Unit.WATT)),
        performance_state=count(0),
        clocks=ClockFacts(core=Quantity(1980e6, Unit.HERTZ), memory=Quantity(2619e6, Unit.HERTZ), reasons=("idle",)),
        memory=MemoryFacts(
            total=Quantity(80 * GIB, Unit.BYTE), used=Quantity(GIB, Unit.BYTE), reserved=Quantity(MIB, Unit.BYTE)
        ),
        processes=processes,
        index=count(index),
        pci=f"0000:{index:02x}:00.0",
        answers=True,
        busy=Quantity(0.07, Unit.RATIO),
    )


def gone(index: int, why: Absent = LOST) -> GpuFacts:
    """A GPU that does not answer any more."""
    return GpuFacts(index=count(index), temperature=why, answers=False if why.kind is AbsenceKind.DEVICE_LOST else why)


def process(pid: int, memory: int | Absent = 512 * MIB, name: str = "python train.py") -> ProcessFacts:
    held = memory if isinstance(memory, Absent) else Quantity(memory, Unit.BYTE)
    return ProcessFacts(pid, held, name=name)


def machine(*gpus: GpuFacts, slow: tuple[CallFacts, ...] = ()) -> MachineFacts:
    return MachineFacts(driver="575.57.08", gpus=gpus, slow_calls=slow)


def sample(facts: MachineFacts, number: int = 1, seconds: float = 0.012, left_out: int = 0) -> Sample:
    return Sample(number, START + timedelta(seconds=number), seconds, facts, left_out)


def frame(facts: MachineFacts, **changes: object) -> Frame:
    taken = sample(facts)
    usual = Frame(taken, 1.0, taken.seconds, taken.seconds, 0, (0.5, 0.012))
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class PlannedSampler:
    """Gives one picture after another, the last one again and again; ``takes`` seconds each on ``clock``.

    What is an exception is raised; from picture ``hangs_at`` on it waits until it is closed.
    """

    child: int | None = None

    def __init__(
        self,
        pictures: Sequence[MachineFacts | Exception],
        clock: Clock | None = None,
        takes: float = 0.0,
        hangs_at: int | None = None,
    ) -> None:
        self._pictures, self._clock, self._takes, self._hangs_at = list(pictures), clock, takes, hangs_at
        self._closed = threading.Event()
        self.asked = 0

    def sample(self) -> MachineFacts:
        self.asked += 1
        if self._hangs_at is not None and self.asked >= self._hangs_at:
            assert self._closed.wait(30)
            raise AssertionError("closed in the middle of a call")
        if self._clock is not None:
            self._clock.seconds += self._takes
        picture = self._pictures[min(self.asked, len(self._pictures)) - 1]
        if isinstance(picture, Exception):
            raise picture
        return picture

    def close(self) -> None:
        self._closed.set()
