"""What a pair is measured with: the buffers of each member, copies timed again and again, kernels at one moment."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mats.device import Buffer, Device, DeviceLost, OutOfMemory
from mats.fabric import Copy, Fabric
from mats.model import AbsenceKind
from mats.probe import UsageError

from ._errors import Book, open_book
from ._latency_chain import WALK_WORDS
from ._nvlink_seen import RATE, SECOND, Taken, median_of, not_taken

PAGE = 2 << 20
TILE = 64 << 10
LARGEST = 256 << 20
"""Bytes of one copy where nothing is said: large enough that its start counts for less than 1 %."""
SHARE = 16
"""At most this part of what is free on the member that has least."""
SMALL = 16
"""Bytes of a small message: one access of a GPU."""
SMALL_REPEATS = 100
LASTING = 0.02
"""Seconds that the copies of one sample should last together."""
MOST_REPEATS = 64
MOST_START = 0.5
"""Share of a copy's time that its start may be: beyond it the rest is not known well."""
PATIENCE = 30.0
"""Seconds after which a member that has not ended a copy or a kernel is lost."""
CHAIN_LINES = 2048


@dataclass(frozen=True, slots=True)
class Seat:
    """A member with its label and its buffers: what is sent, what arrives, and the tester's reports."""

    number: int
    label: str
    device: Device
    source: Buffer
    sink: Buffer
    book: Book
    order: Buffer
    walk: Buffer


def copy_size(members: Sequence[Device], asked: int | None) -> int:
    """Bytes of one copy, whole 2 MiB. Raises UsageError where so much cannot be had."""
    free = min(device.memory().free for device in members)
    if asked is None:
        return max(PAGE, min(LARGEST, free // SHARE) // PAGE * PAGE)
    if asked < PAGE:
        raise UsageError(f"--size must be at least 2 MiB, not {asked / (1 << 20):g} MiB")
    if 2 * asked > free:
        raise UsageError(f"--size {asked >> 20} MiB needs twice that on each GPU, and one has {free >> 20} MiB free")
    return asked // PAGE * PAGE


def seat(number: int, label: str, device: Device, size: int) -> Seat:
    """Allocates what a member needs. Raises OutOfMemory, DeviceError."""
    try:
        return Seat(
            number,
            label,
            device,
            device.allocate(size),
            device.allocate(size),
            open_book(device, size),
            device.allocate(CHAIN_LINES * 8),
            device.allocate(WALK_WORDS * 8),
        )
    except OutOfMemory as error:
        why = f"GPU {label} has no room for copies of {size >> 20} MiB: {error}; give a smaller --size"
        raise OutOfMemory(why) from error


def part(buffer: Buffer, size: int, at: int = 0) -> Buffer:
    """A piece of a buffer."""
    return Buffer(buffer.address + at, size)


@dataclass(frozen=True, slots=True)
class Timer:
    """Times copies; ``samples``: how often each is timed."""

    fabric: Fabric
    samples: int

    def rates(self, copies: Sequence[Copy], method: str, start: Taken) -> tuple[Taken, ...]:
        """Bytes per second of each of several copies that are begun at one moment, without the ``start`` of each.

        ``start``: what a copy of next to nothing takes on the same way.
        """
        first = max(self.fabric.exchange(copies, 1, PATIENCE))
        repeats = min(MOST_REPEATS, max(1, math.ceil(LASTING / max(first, 1e-9))))
        taken = [self.fabric.exchange(copies, repeats, PATIENCE) for _ in range(self.samples)]
        return tuple(
            _rates(copy.source.size, [each[place] / repeats for each in taken], start.value or 0.0, method)
            for place, copy in enumerate(copies)
        )

    def delay(self, copy: Copy, method: str) -> Taken:
        """Seconds of one small copy of many in a row."""
        self.fabric.exchange((copy,), 1, PATIENCE)
        taken = [self.fabric.exchange((copy,), SMALL_REPEATS, PATIENCE)[0] for _ in range(self.samples)]
        return median_of([seconds / SMALL_REPEATS for seconds in taken], SECOND, method)


def _rates(size: int, seconds: Sequence[float], start: float, method: str) -> Taken:
    """From the seconds of single copies of ``size`` bytes."""
    if min(seconds) <= 0:
        return not_taken(AbsenceKind.UNREADABLE, "the device's clock says that the copy took no time")
    if start > MOST_START * statistics.median(seconds):
        why = f"copies of {size >> 10:,} KiB are too short: most of the time is their start; give a larger --size"
        return not_taken(AbsenceKind.INSUFFICIENT, why)
    return median_of([size / max(each - start, each * (1 - MOST_START)) for each in seconds], RATE, method)


def at_once(calls: Sequence[tuple[str, Callable[[], float]]], patience: float = PATIENCE) -> list[float]:
    """Runs what works on different members at one moment; gives what each returns.

    ``calls``: who, and what. Raises what the first of them raises, and DeviceLost for one that does not end in time.
    """
    results: list[float | BaseException | None] = [None] * len(calls)

    def work(place: int, call: Callable[[], float]) -> None:
        try:
            results[place] = call()
        except BaseException as error:  # handed to the caller's thread
            results[place] = error

    threads = [
        threading.Thread(target=work, args=(place, call), name=f"mats link {who}", daemon=True)
        for place, (who, call) in enumerate(calls)
    ]
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for result in results:
        if isinstance(result, BaseException):
            raise result
    done = []
    for (who, _), result in zip(calls, results, strict=True):
        if result is None:
            raise DeviceLost(f"{who} has not ended its work over the link within {patience:g} s")
        assert isinstance(result, float | int)
        done.append(float(result))
    return done
