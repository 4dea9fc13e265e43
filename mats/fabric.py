"""The door to several devices of one machine and to the ways between them.

A probe of ways (:attr:`mats.probe.Probe.together`) is given a fabric in the place of a device. It is opened by
:func:`mats.registry.open_fabric`; its members are numbered from 0 in the order of their targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mats.device import Buffer, Device

if TYPE_CHECKING:
    from mats.facts import MachineFacts
    from mats.model import TargetInfo


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether one member can reach the memory of another without a stop in the host's.

    ``reason``: why it cannot, as far as it is known, in a clause.
    """

    direct: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """All of ``source``, memory of the member ``start``, to the beginning of ``destination`` on the member ``end``."""

    start: int
    source: Buffer
    end: int
    destination: Buffer


@runtime_checkable
class Fabric(Protocol):
    """Members, ways between them, and the passive picture of the machine they are in.

    Every call may raise :class:`mats.device.DeviceError`; after DeviceLost only ``close`` is called.
    """

    def describe(self) -> TargetInfo:
        """Of the members together; the name is given by the runner. ``kind``: cuda, sim, or file of saved evidence."""
        ...

    def members(self) -> tuple[Device, ...]:
        """Open devices, which the fabric closes; none where only saved evidence is there.

        A connected member's kernels take buffers of the other one as they take their own.
        """
        ...

    def facts(self, *, load: bool = False) -> MachineFacts:
        """The picture of this moment, counters of errors among it; a member is the GPU with its UUID.

        ``load``: keep the links to the host busy meanwhile, so that their speed is that of work and not of rest.
        """
        ...

    def reach(self, start: int, end: int) -> Reach:
        """What the driver says, whether connected or not; nothing is changed."""
        ...

    def connect(self, start: int, end: int) -> None:
        """From now on ``start`` reaches the memory of ``end`` directly. Twice is as good as once."""
        ...

    def disconnect(self, start: int, end: int) -> None:
        """From now on copies from ``start`` to ``end`` stop in the host's memory. Twice is as good as once."""
        ...

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        """Start all copies at one moment, each ``repeats`` times in a row; gives the seconds each took for its repeats.

        The time it takes to issue them is not in it. Raises DeviceLost, naming the member, where one has not ended
        within ``timeout`` seconds.
        """
        ...

    def close(self) -> None:
        """Close the members; safe to call twice and after DeviceLost."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """How lending a device's memory to another process went."""

    lent: int
    """Bytes that were lent at most."""
    calls: int
    seconds: float
    borrower: str
    """UUID of the device of the process that borrowed; empty when none came."""
    broken: str
    """Why it did not end in order, in a sentence; empty when the borrower said that it is done."""


class Lender(Protocol):
    """A device whose memory another process of this user on this machine may borrow, once."""

    def describe(self) -> TargetInfo: ...

    def serve(self, stopping: Callable[[], str], progress: Callable[[str], None]) -> Served:
        """Wait for a borrower and do what it asks until it is done, gone, silent for too long, or ``stopping`` speaks.

        Every step has a deadline. Memory is given back in every case. ``progress`` is told what goes on, in a clause.
        """
        ...

    def close(self) -> None: ...
