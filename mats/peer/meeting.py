"""The two sides of ``mats nvlink-test`` in two processes, opened from what the user asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mats.device import Device
from mats.fabric import Copy, Fabric, Lender, Reach
from mats.model import TargetInfo
from mats.peer.channel import check_path, meeting_place
from mats.peer.client import RemoteDevice, borrow
from mats.peer.greeting import DEADLINES, Deadlines
from mats.peer.lending import Family
from mats.peer.server import Server
from mats.probe import UsageError

if TYPE_CHECKING:
    from mats.facts import MachineFacts


def serve(family: Family, options: Mapping[str, object], timeout: float | None) -> Lender:
    """Lends the device that ``options["gpu"]`` names, at ``options["socket"]`` or where this user's processes meet.

    ``timeout``: how long it waits for a client, in seconds. Raises UsageError, DeviceError.
    """
    path = _place(options)
    member = family.open_member(_named(options, "gpu", "the GPU to lend"))
    return Server(path, member, _deadlines(timeout))


def join(family: Family, options: Mapping[str, object], timeout: float | None) -> Fabric:
    """The device that ``options["gpu"]`` names and the one of the server, ``options["server-gpu"]``; in this order.

    Raises UsageError; DeviceError where the server is not there, is another's, or lends another device.
    """
    path = _place(options)
    own = _named(options, "gpu", "the GPU of this process")
    wanted = family.find(_named(options, "server-gpu", "the GPU that the server lends"))
    member = family.open_member(own)
    try:
        remote = borrow(path, member, wanted, _deadlines(timeout))
    except BaseException:
        member.device.close()
        raise
    try:
        return Borrowed(family.join((member.device, remote)), remote)
    except BaseException:
        remote.close()
        member.device.close()
        raise


def _place(options: Mapping[str, object]) -> Path:
    named = options.get("socket")
    path = Path(str(named)) if named else meeting_place(os.getuid())
    check_path(path)
    return path


def _named(options: Mapping[str, object], option: str, what: str) -> str:
    name = options.get(option)
    if name is None or name == "":
        raise UsageError(f"--mode {options.get('mode')} needs --{option}: {what}")
    return str(name)


def _deadlines(timeout: float | None) -> Deadlines:
    if timeout is None:
        return DEADLINES
    return replace(DEADLINES, waiting=timeout, knocking=min(DEADLINES.knocking, timeout))


class Borrowed:
    """Implements :class:`mats.fabric.Fabric` by the family's own; tells the server when this process works alone."""

    def __init__(self, fabric: Fabric, remote: RemoteDevice) -> None:
        self._fabric, self._remote = fabric, remote

    def describe(self) -> TargetInfo:
        return self._fabric.describe()

    def members(self) -> tuple[Device, ...]:
        return self._fabric.members()

    def facts(self, *, load: bool = False) -> MachineFacts:
        return self._fabric.facts(load=load)

    def reach(self, start: int, end: int) -> Reach:
        return self._fabric.reach(start, end)

    def connect(self, start: int, end: int) -> None:
        self._fabric.connect(start, end)

    def disconnect(self, start: int, end: int) -> None:
        self._fabric.disconnect(start, end)

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        self._remote.announce(timeout)
        return self._fabric.exchange(copies, repeats, timeout)

    def close(self) -> None:
        with contextlib.closing(self._fabric):
            self._remote.close()
