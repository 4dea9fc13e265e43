"""The one narrow door to memory that can be worked on.

A probe has nothing else: no cupy, no clock of its own, no path. A device is opened by
:func:`mats.registry.open_device` from a target and closed by the runner, also after an error.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mats.model import Reading, TargetInfo


class DeviceError(Exception):
    """The device could not do what was asked; the text says what and what to do about it."""


class OutOfMemory(DeviceError):
    """An allocation was refused; the device goes on working."""


class DeviceLost(DeviceError):
    """The device answers no more (fallen off the bus, sticky error, needs a reset)."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of device memory: ``address`` (virtual) and ``size`` in bytes."""

    address: int
    size: int


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """A piece of the host's memory, near the device where the system allows it: ``address`` and ``size`` in bytes.

    ``pinned``: locked in its place, so that the device copies by itself; otherwise the processor carries every byte
    through a pinned piece of the driver's.
    """

    address: int
    size: int
    pinned: bool


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Bytes of the device at one moment. ``reserved``: held by driver or system; ``others``: by other processes."""

    total: int
    free: int
    reserved: Reading
    others: Reading


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Another process on the device: its name (empty when not told) and its bytes there.

    ``draws_only``: a desktop or a viewer, which a test of the memory that is left does not disturb.
    """

    pid: int
    name: str
    memory: Reading
    draws_only: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """Passive state at one moment; each is a reading with a unit or absent with a reason.

    ``counters``: monotonic event counters by name (``ecc.corrected``, ``remap.uncorrectable``,
    ``throttle.thermal`` in seconds ...), compared before and after a test.
    """

    temperature: Reading
    core_clock: Reading
    memory_clock: Reading
    power: Reading
    performance_state: Reading
    """P-state as a count: 0 is the fastest."""
    ecc: str
    """"on", "off", or why it is not known, in words."""
    counters: tuple[tuple[str, Reading], ...] = ()


PCIE = "PCIe"


@dataclass(frozen=True, slots=True)
class HostLink:
    """The way between the device and the processor at one moment: its own link, and the narrowest one up to the root.

    At rest a link slows down: only what was read while copies ran says what it can. ``generation``, ``width``: of the
    device's own end, as counts; the maxima are what it and its slot can together. ``bandwidth``: bytes per second and
    direction, after line coding, of the narrowest link now; its maximum: of what every end on the way can.
    """

    kind: str
    """PCIE, or the name of another way, which the figures of PCIe do not describe; empty where there is none."""
    generation: Reading
    width: Reading
    generation_maximum: Reading
    width_maximum: Reading
    bandwidth: Reading
    bandwidth_maximum: Reading
    narrowest: str = ""
    """PCI address of the end that is the narrowest now; empty when not known."""
    unseen: str = ""
    """Why the way may be narrower than this: ports that could not be read; empty when all of it was."""
    counters: tuple[tuple[str, Reading], ...] = ()
    """Events since a start of the system or the driver, of all ends on the way: replays, errors (AER)."""


class Device(Protocol):
    """Describe, allocate, free, launch, copy, fetch, synchronise; and the passive state beside them.

    Every call may raise :class:`DeviceError`; after :class:`DeviceLost` only ``close`` is called.
    """

    def describe(self) -> TargetInfo: ...

    def memory(self) -> MemoryState: ...

    def allocate(self, size: int) -> Buffer:
        """``size`` bytes aligned to at least 2 MiB where ``size`` is a multiple of 2 MiB. Raises OutOfMemory."""
        ...

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        """``size`` bytes of the host's memory, each page there. Raises OutOfMemory, also where it cannot be pinned."""
        ...

    def free(self, buffer: Buffer | HostBuffer) -> None: ...

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        """Run a kernel of ``kernels/`` over ``tiles`` tiles and wait for it; gives its duration in seconds.

        Arguments go by the names of the kernel's own parameters: a missing, unknown or ill-typed one raises
        TypeError before anything runs. Pointers take a :class:`Buffer`, which may be a piece of an allocated one.
        """
        ...

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        """Copy all of ``source`` to ``destination`` at ``offset`` bytes, ``repeats`` times in a row, and wait for it.

        Gives the seconds of all repeats as the device's clock sees them, from the start of the first to the end of the
        last. From pinned memory, that is the start of each copy and its way over the link, and the gaps where copies
        are so short that issuing them takes longer. From other memory (``bytes`` among it) the processor's own
        copying through the driver's pinned piece is in it as well, since the device waits for it.
        """
        ...

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes: ...

    def synchronise(self) -> None: ...

    def conditions(self) -> Conditions: ...

    def host_link(self) -> HostLink:
        """The way to the processor now; may be asked from another thread while a copy runs."""
        ...

    def holders(self) -> tuple[HeldBy, ...] | str:
        """Other processes that use the device, or a sentence saying why they cannot be listed."""
        ...

    def now(self) -> float:
        """Seconds on the device's clock (simulated on ``sim``)."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass on the device's clock; used to test retention."""
        ...

    def close(self) -> None:
        """Free everything that was allocated; safe to call twice and after DeviceLost."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """A part of a host's memory and how many processors are next to it; ``free`` in bytes."""

    number: int
    processors: int
    free: int


@runtime_checkable
class NodeDevice(Protocol):
    """What a device can besides whose memory lies on nodes, each nearer to some of its processors than to others."""

    def nodes(self) -> tuple[MemoryNode, ...]:
        """Those with memory; none where the system does not tell."""
        ...

    def placed(self, near: int, on: int) -> AbstractContextManager[None]:
        """Within it kernels run on the processors of one node, and new memory lies on another. Raises DeviceError."""
        ...

    def lies_on(self, buffer: Buffer, offset: int) -> int:
        """The node of a byte of a buffer. Raises DeviceError."""
        ...
