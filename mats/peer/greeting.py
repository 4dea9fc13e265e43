"""Who the two processes are to each other, found out before any memory is lent."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mats import __version__
from mats.device import DeviceError
from mats.model import TargetInfo
from mats.peer.messages import Identity

TOOL = f"mats {__version__}"

Watch = Callable[[str], None]
"""Told of each step of a session as it begins and as it has been done, in a word or two."""


def ignore(step: str) -> None:
    """A :data:`Watch` that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. Whatever passes one of them ends the session, and is said."""

    waiting: float = 300.0
    """Until a client has come to the server."""
    knocking: float = 10.0
    """Until a client has found a server: both may be started at the same moment."""
    greeting: float = 10.0
    """Until the other side has said who it is."""
    step: float = 30.0
    """Of one call on the server's device: the longest kernels of nvlink-test take well under a second."""
    silence: float = 60.0
    """Between two calls of a client, beside the time that it has announced."""
    quiet: float = 600.0
    """What a client may announce at most."""

    @property
    def answer(self) -> float:
        """How long a client waits for the answer to a call: longer than a step, which the server tells of itself."""
        return self.step * 1.25


DEADLINES = Deadlines()


def identify(info: TargetInfo, proc: Path = Path("/proc")) -> Identity:
    """This process at work on the device of ``info``. Raises DeviceError where the device has no UUID."""
    known = dict(info.identity)
    if not info.uuid:
        raise DeviceError(f"{info.name} tells no UUID, by which the two processes find each other's device")
    return Identity(
        tool=TOOL,
        boot=_read(proc / "sys/kernel/random/boot_id"),
        process=os.getpid(),
        namespace=_namespace(proc),
        uuid=info.uuid,
        pci=known.get("pci", ""),
        driver=known.get("driver", ""),
    )


def why_not(own: Identity, other: Identity, other_is: str) -> str:
    """Why the two cannot work together, in a clause that names what differs; empty when they can.

    ``other_is``: "server" or "client".
    """
    if other.tool != own.tool:
        return f"the {other_is} is {other.tool}, this is {own.tool}: start the same mats on both sides"
    if other.boot != own.boot:
        return (
            f"the {other_is} runs on another machine, or on this one before it was started anew: memory is lent on one"
        )
    if other.process == own.process and other.namespace == own.namespace:
        return f"the {other_is} is this very process: a driver opens lent memory in another process only"
    if other.driver != own.driver:
        return f"the {other_is} uses driver {other.driver or 'unknown'}, this process {own.driver or 'unknown'}"
    return ""


def describe_peer(identity: Identity, own: Identity) -> str:
    """The other side for people: its process and its device."""
    apart = ", in another container" if identity.namespace != own.namespace else ""
    return f"process {identity.process}{apart}, {identity.uuid}{f' at {identity.pci}' if identity.pci else ''}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DeviceError(f"{path}, by which both processes know the machine, cannot be read: {error}") from error


def _namespace(proc: Path) -> str:
    try:
        return os.readlink(proc / "self/ns/pid")
    except OSError:  # hidden from this process: then the numbers of processes are taken as they are
        return ""
