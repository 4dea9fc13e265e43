"""Copies between GPUs that start at one moment: one stream for each, held back by a gate until all of them are queued.

A copy runs in a stream of the GPU that it comes from. That GPU then writes into the other one's memory; the other way
round it would have to ask for each piece and wait for it, which is slower over PCIe and no faster over NVLink. Where
only the other end is a device of this process, as with borrowed memory, that one asks.

The gate is a kernel (``hold_stream``) that looks at a word in the host's memory, with a clock of its own: should the
host be held up, the stream goes on after :data:`GATE_SECONDS` all the same, and the copies are made again.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mats.device import Buffer, DeviceError, DeviceLost, HostBuffer
from mats.devices._cuda_host import running_on
from mats.devices._cuda_runtime import Cuda
from mats.devices.cuda import CudaDevice

GATE_SECONDS = 1.0
"""How long a gate stays closed at most; thousands of copies are queued in a tenth of it."""
QUEUED = 256
"""Copies of one stream that are queued ahead of the gate: it takes about a thousand before it holds up the host."""
TURN = 32
"""Copies of one stream that are queued in one go while the others wait for theirs, once the gate is open."""
ATTEMPTS = 3
PATIENCE_SECONDS = 0.002
"""For so long the end is looked for without a pause: most copies are shorter."""
PAUSE_SECONDS = 0.0005
READY, NOT_READY = 0, 600
"""cudaSuccess, cudaErrorNotReady."""


@dataclass(frozen=True, slots=True)
class Job:
    """One copy: addresses in this process, CUDA's numbers of the GPUs they are on, and the device that makes it.

    ``borrowed``: one of the two is another process's memory, which CUDA knows as its opener's. ``near``: processors
    next to the device. ``ends``: the members' numbers. ``locals``: the devices of this process that it has to do with.
    """

    source: int
    source_index: int
    destination: int
    destination_index: int
    size: int
    driver: CudaDevice
    borrowed: bool
    near: frozenset[int]
    ends: tuple[int, int]
    locals: tuple[CudaDevice, ...]


class Gate:
    """The word that opens the streams, in pinned memory of the host, which every GPU of the process sees."""

    def __init__(self, device: CudaDevice) -> None:
        self._held: HostBuffer = device.allocate_host(ctypes.sizeof(ctypes.c_uint64), pinned=True)
        self._ready: set[int] = set()

    @property
    def word(self) -> Buffer:
        return Buffer(self._held.address, self._held.size)

    def set(self, is_open: bool) -> None:
        ctypes.c_uint64.from_address(self._held.address).value = int(is_open)

    def prepare(self, device: CudaDevice) -> None:
        """Let the device load the kernel now: loading one may wait for all that runs, a closed gate among it."""
        if device.index in self._ready:
            return
        self.set(True)
        device.launch("hold_stream", 1, open=self.word, nanoseconds=1)
        self._ready.add(device.index)


class Track:
    """A stream with two events for one copy; what it took lies between them."""

    def __init__(self, cuda: Cuda, job: Job) -> None:
        self.job = job
        self._runtime = cuda.runtime
        self._stream = 0
        self._events: list[int] = []
        try:
            with job.driver.hold("starting a copy"):
                self._stream = int(self._runtime.streamCreateWithFlags(self._runtime.streamNonBlocking))
                for _ in range(2):
                    self._events.append(int(self._runtime.eventCreate()))
        except BaseException:
            self.close()
            raise

    def queue(self, repeats: int, *, gate: Gate | None = None, last: bool = False) -> None:
        """The copy ``repeats`` times; behind a gate the start is marked ahead of them, with ``last`` the end after."""
        job, runtime = self.job, self._runtime
        with running_on(job.near), job.driver.hold("copying to another GPU"):
            if gate is not None:
                nanoseconds = round(GATE_SECONDS * 1e9)
                job.driver.queue("hold_stream", self._stream, open=gate.word, nanoseconds=nanoseconds)
                runtime.eventRecord(self._events[0], self._stream)
            for _ in range(repeats):
                self._copy()
            if last:
                runtime.eventRecord(self._events[1], self._stream)

    def _copy(self) -> None:
        job, runtime = self.job, self._runtime
        if job.borrowed:
            kind = runtime.memcpyDeviceToDevice
            runtime.memcpyAsync(job.destination, job.source, job.size, kind, self._stream)
            return
        runtime.memcpyPeerAsync(
            job.destination, job.destination_index, job.source, job.source_index, job.size, self._stream
        )

    def ended(self) -> bool:
        """Whether what was queued last has ended. Raises DeviceLost where it failed."""
        with self.job.driver.hold("copying to another GPU"):
            status = int(self._runtime.eventQuery(self._events[1]))
            if status not in (READY, NOT_READY):
                raise self._runtime.CUDARuntimeError(status)
        return status == READY

    @property
    def seconds(self) -> float:
        start, end = self._events
        with self.job.driver.hold("timing a copy"):
            return float(self._runtime.eventElapsedTime(start, end)) / 1e3

    def close(self) -> None:
        """Give stream and events back, unless the device was given up or lost: then it goes with the process."""
        with contextlib.suppress(DeviceError), self.job.driver.hold("ending a copy"):
            for event in self._events:
                self._runtime.eventDestroy(event)
            if self._stream:
                self._runtime.streamDestroy(self._stream)
        self._events, self._stream = [], 0


def run_together(
    cuda: Cuda, gate: Gate, jobs: Sequence[Job], repeats: int, timeout: float, name: Callable[[int], str]
) -> tuple[float, ...]:
    """Seconds that each job took for its repeats, all started at one moment. Raises DeviceError, DeviceLost.

    Each is made once ahead of it: the driver then has what it needs for it, and the links are awake. ``name``: of a
    member, for the sentence that says which did not end within ``timeout`` seconds.
    """
    for driver in {job.driver.index: job.driver for job in jobs}.values():
        gate.prepare(driver)
    tracks: list[Track] = []
    try:
        for job in jobs:
            tracks.append(Track(cuda, job))
            tracks[-1].queue(1, last=True)
        _wait(tracks, timeout, name)
        for _ in range(ATTEMPTS):
            in_time = _start(tracks, gate, repeats)
            _wait(tracks, timeout, name)
            if in_time:
                return tuple(track.seconds for track in tracks)
    finally:
        gate.set(True)
        for track in tracks:
            track.close()
    raise DeviceError(
        f"copies could not be started at one moment: {GATE_SECONDS:g} s were not enough to queue them, "
        f"{ATTEMPTS} times over; the machine is too busy, or the driver takes no copy before the one ahead has ended"
    )


def _start(tracks: Sequence[Track], gate: Gate, repeats: int) -> bool:
    """Queue everything and open the gate; whether no stream can have gone ahead of the others."""
    ahead = min(repeats, QUEUED)
    gate.set(False)
    begun = time.monotonic()
    try:
        for track in tracks:
            track.queue(ahead, gate=gate, last=ahead == repeats)
        in_time = time.monotonic() - begun < GATE_SECONDS
    finally:
        gate.set(True)
    left = repeats - ahead
    while left:
        turn = min(left, TURN)
        left -= turn
        for track in tracks:
            track.queue(turn, last=not left)
    return in_time


def _wait(tracks: Sequence[Track], timeout: float, name: Callable[[int], str]) -> None:
    """Until all have ended. Raises DeviceLost, and gives the devices up, where that takes longer than ``timeout``."""
    begun = time.monotonic()
    pending = [track for track in tracks if not track.ended()]
    while pending:
        spent = time.monotonic() - begun
        if spent > timeout:
            raise DeviceLost(_give_up([track.job for track in pending], timeout, name))
        if spent > PATIENCE_SECONDS:
            time.sleep(PAUSE_SECONDS)
        pending = [track for track in pending if not track.ended()]


def _give_up(jobs: Sequence[Job], timeout: float, name: Callable[[int], str]) -> str:
    """Which member was lost: the one that all copies that have not ended have in common. One copy tells of two.

    Both ends of each are given up: freeing memory there would wait for the copy.
    """
    common = set(jobs[0].ends).intersection(*(job.ends for job in jobs))
    start, end = (name(member) for member in jobs[0].ends)
    others = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    if len(common) == 1:
        lost = name(common.pop())
        why = f"{lost} was lost: {len(jobs)} copies from it or to it have not ended within {timeout:g} s"
    elif len(common) == 2:
        why = f"{start} or {end} was lost: what is copied between them has not ended within {timeout:g} s"
    else:
        why = f"GPUs were lost: the copy from {start} to {end}{others} have not ended within {timeout:g} s"
    why += "; see the kernel log for an Xid"
    for job in jobs:
        for device in job.locals:
            device.give_up(why)
    return why
