"""What a family of devices gives so that its memory can be lent to another process and measured from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mats.device import Buffer, Device
from mats.fabric import Fabric


class Lending(Protocol):
    """Makes memory of one device known to another process, and memory of another process known here.

    Each process has one, for the device that it has opened itself. Every call may raise
    :class:`mats.device.DeviceError`, in a sentence that says what forbids it and what to do.
    """

    def export(self, buffer: Buffer) -> bytes:
        """A handle for memory of this process: all of an allocation, or a piece of one (that starts on a page).

        Exporting what is exported already gives a handle for the same memory.
        """
        ...

    def withdraw(self, buffer: Buffer) -> None:
        """The end of what :meth:`export` was given: before its memory is freed, after the other process has closed."""
        ...

    def open(self, handle: bytes, size: int) -> Buffer:
        """The other process' memory in the address space of this one, for copies and kernels of this one's device."""
        ...

    def close(self, buffer: Buffer) -> None:
        """The end of what :meth:`open` gave; safe to call when the other process is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A device of this process, open, and what lends and opens memory for it; that needs no end of its own."""

    device: Device
    lending: Lending


class Family(Protocol):
    """One kind of device, as :mod:`mats.peer.meeting` needs it. The registry makes it of the functions it finds."""

    def open_member(self, name: str) -> Member:
        """The device that ``name`` (an index, a UUID, a PCI address) is in the target. Raises DeviceError, UsageError.

        Its description has a ``uuid`` in its identity, the same in every process; ``pci`` and ``driver`` where known.
        """
        ...

    def find(self, name: str) -> str:
        """UUID of the device that ``name`` is, without opening it. Raises DeviceError, UsageError."""
        ...

    def join(self, members: Sequence[Device]) -> Fabric:
        """The ways between these devices, of which the second belongs to another process.

        Its kernels run there; copies between the two are made by this process, from and to the buffers as they are
        opened here. A member is found by the UUID of its description. Closing the fabric closes its members.
        """
        ...
