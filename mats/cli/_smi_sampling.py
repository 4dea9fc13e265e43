"""Samples of all GPUs, taken in a thread of their own at a steady pace: what is late is left out, never queued."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Protocol

from mats.facts import MachineFacts
from mats.slot import Clock

REMEMBERED = 1000
"""Samples whose duration is kept for the median."""
WINDOW = 10.0
"""Seconds over which the cost of mats itself is told."""
_PATIENCE = 0.1
"""Seconds between two looks at whether samples are still wanted."""
_TICKS = 100
"""Of the kernel's clock a second, in which ``/proc`` counts a process's time (USER_HZ on Linux)."""


class Sampler(Protocol):
    """Reads what changes from moment to moment; :class:`mats.sources.nvml.Sampler` is one."""

    def sample(self) -> MachineFacts: ...

    @property
    def child(self) -> int | None:
        """Number of the process that asks the driver, if there is one."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """``taken``: when it was begun; ``seconds``: how long it took; ``left_out``: moments that passed without one."""

    number: int
    taken: datetime
    seconds: float
    facts: MachineFacts
    left_out: int = 0


class Pace:
    """When samples are due: every ``interval`` seconds from the first on; one that is missed is not made up for."""

    def __init__(self, interval: float, clock: Clock) -> None:
        self._interval, self._clock = interval, clock
        self._due: float | None = None

    def next(self) -> tuple[float, int]:
        """Seconds to wait until the next sample is due, and how many were missed."""
        now = self._clock.monotonic()
        if self._due is None:
            self._due = now
            return 0.0, 0
        due = self._due + self._interval
        missed = int((now - due) / self._interval) if self._interval > 0 and now > due else 0
        self._due = due + missed * self._interval if self._interval > 0 else now
        return max(0.0, self._due - now), missed


class Stream:
    """Takes samples in the background; :meth:`next` gives them, and lets the caller do something else meanwhile."""

    def __init__(self, sampler: Sampler, interval: float, clock: Clock, wait: Callable[[float], bool] | None = None):
        self._sampler, self._clock, self._pace = sampler, clock, Pace(interval, clock)
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        # One at most: who shows them may be slower than who takes them, and must never show the past.
        self._ready: Queue[Sample | Exception] = Queue(maxsize=1)
        self._number = 0
        self._begun: float | None = None
        self._thread = threading.Thread(target=self._work, name="mats samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def child(self) -> int | None:
        """Number of the process that asks the driver, if there is one."""
        return self._sampler.child

    def next(self, patience: float) -> Sample | None:
        """The next sample, or None when it is not there within ``patience`` seconds. Raises what sampling raised."""
        try:
            got = self._ready.get(timeout=patience)
        except Empty:
            return None
        if isinstance(got, Exception):
            raise got
        return got

    @property
    def waiting(self) -> float:
        """Seconds for which the present sample has been asked for; 0 between two samples."""
        begun = self._begun
        return 0.0 if begun is None else self._clock.monotonic() - begun

    def stop(self) -> None:
        """Ends the sampling, also in the middle of a call that does not return."""
        self._stopped.set()
        self._sampler.close()
        self._thread.join(timeout=0.5)

    def _work(self) -> None:
        while not self._stopped.is_set():
            delay, missed = self._pace.next()
            if delay and self._wait(delay):
                return
            try:
                self._hand_over(self._take(missed))
            except Exception as error:  # the caller raises it, in its own thread
                self._hand_over(error)
                return

    def _hand_over(self, got: Sample | Exception) -> None:
        """Waits until the one before has been taken, or until nobody takes any more."""
        while not self._stopped.is_set():
            try:
                self._ready.put(got, timeout=_PATIENCE)
            except Full:
                continue
            return

    def _take(self, missed: int) -> Sample:
        taken, begun = self._clock.now(), self._clock.monotonic()
        self._begun = begun
        try:
            facts = self._sampler.sample()
        finally:
            self._begun = None
        self._number += 1
        return Sample(self._number, taken, self._clock.monotonic() - begun, facts, missed)


class Durations:
    """How long samples took, and how many were left out."""

    def __init__(self) -> None:
        self._kept: deque[float] = deque(maxlen=REMEMBERED)
        self.longest = 0.0
        self.left_out = 0

    def add(self, sample: Sample) -> None:
        self._kept.append(sample.seconds)
        self.longest = max(self.longest, sample.seconds)
        self.left_out += sample.left_out

    @property
    def median(self) -> float:
        return statistics.median(self._kept) if self._kept else 0.0


class Cost:
    """Processor time of mats itself and of the process that asks the driver in its place."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root, self._clock = root, clock
        self._own = time.process_time()
        self._children: dict[int, float] = {}
        self._told_at: deque[tuple[float, float]] = deque([(clock.monotonic(), 0.0)])

    def spent(self, child: int | None) -> tuple[float, float]:
        """Seconds of processor time since the beginning, and the share of one core that the last of them were."""
        told = None if child is None else self._told(child)
        if child is not None and told is not None:
            self._children[child] = told
        seconds = time.process_time() - self._own + sum(self._children.values())
        now = self._clock.monotonic()
        self._told_at.append((now, seconds))
        while len(self._told_at) > 2 and now - self._told_at[1][0] >= WINDOW:
            self._told_at.popleft()
        begun, before = self._told_at[0]
        return seconds, (seconds - before) / (now - begun) if now > begun else 0.0

    def _told(self, process: int) -> float | None:
        try:
            text = (self._root / f"proc/{process}/stat").read_text(encoding="ascii", errors="replace")
            fields = text.rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS
        except (OSError, ValueError, IndexError):  # it has ended, or the system has no /proc
            return None
