"""What the two processes say to each other, each message one line of JSON behind its length.

A frame is ``mats``, the length of the text in four bytes (the highest first), the text:
``{"protocol": 1, "kind": "fetch", "body": {...}}``. What does not fit is refused with one sentence; nothing that comes
over the socket is trusted to be well made.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from mats.codec import SavedRunError, from_data, to_data
from mats.device import Conditions, HeldBy, HostLink, MemoryState
from mats.model import TargetInfo

PROTOCOL = 1
"""Raised when a message changes its meaning or a new one is needed."""
MARK = b"mats"
LARGEST = 4 << 20
"""Bytes of the text of a message, at most."""
PIECE = 2 << 20
"""Bytes of memory that one message carries, at most: in base64 they are a third more."""
_HEAD = struct.Struct(">4sI")


class MessageError(ValueError):
    """What came is not a message that this version can take; a clause that says why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who speaks: the program, the machine (its start), the process, and the device that it works on."""

    tool: str
    boot: str
    process: int
    namespace: str
    """The PID namespace, which tells one container from another; empty where it is not told."""
    uuid: str
    pci: str
    driver: str


@dataclass(frozen=True, slots=True)
class Hello:
    """A client's first message. ``wanted``: UUID of the device it wants to borrow. ``nonce``: comes back in Welcome."""

    identity: Identity
    wanted: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Welcome:
    identity: Identity
    nonce: str
    info: TargetInfo


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server does not work for this client; it may for another."""

    why: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The server's last message of a session that it ends itself."""

    why: str


@dataclass(frozen=True, slots=True)
class Place:
    """``size`` bytes at ``offset`` of the memory that the server lent under ``number``."""

    number: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Handle:
    """Memory of the client, which the server opens for one call. ``handle``: as :func:`pack_bytes` gives it."""

    handle: str
    length: int


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: int | Place | Handle


@dataclass(frozen=True, slots=True)
class AskMemory:
    pass


@dataclass(frozen=True, slots=True)
class Allocate:
    size: int


@dataclass(frozen=True, slots=True)
class Free:
    number: int


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: str
    tiles: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    destination: Place | Handle
    source: Place | Handle
    offset: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Put:
    destination: Place
    offset: int
    data: str
    repeats: int


@dataclass(frozen=True, slots=True)
class Fetch:
    source: Place


@dataclass(frozen=True, slots=True)
class Synchronise:
    pass


@dataclass(frozen=True, slots=True)
class AskConditions:
    pass


@dataclass(frozen=True, slots=True)
class AskHostLink:
    pass


@dataclass(frozen=True, slots=True)
class AskHolders:
    pass


@dataclass(frozen=True, slots=True)
class AskTime:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Quiet:
    """The client works on its own now and may say nothing for so many seconds more."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Bye:
    """The client is done: it has closed what it opened. Answered when the memory was given back."""


@dataclass(frozen=True, slots=True)
class Done:
    pass


@dataclass(frozen=True, slots=True)
class Seconds:
    seconds: float


@dataclass(frozen=True, slots=True)
class Loan:
    """Memory that was allocated and may be opened by its handle."""

    number: int
    handle: str


@dataclass(frozen=True, slots=True)
class Content:
    data: str


@dataclass(frozen=True, slots=True)
class State:
    state: MemoryState


@dataclass(frozen=True, slots=True)
class Surroundings:
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class ToHost:
    link: HostLink


@dataclass(frozen=True, slots=True)
class Holders:
    holders: tuple[HeldBy, ...] | str


@dataclass(frozen=True, slots=True)
class Failure:
    """The call raised; ``kind`` is the name of the exception's class."""

    kind: str
    text: str


Call = (
    AskMemory
    | Allocate
    | Free
    | Launch
    | Copy
    | Put
    | Fetch
    | Synchronise
    | AskConditions
    | AskHostLink
    | AskHolders
    | AskTime
    | Wait
    | Quiet
    | Bye
)
Reply = Done | Seconds | Loan | Content | State | Surroundings | ToHost | Holders | Failure
Message = Hello | Welcome | Refusal | Ended | Call | Reply

_KINDS: Mapping[str, type[Message]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Hello, Welcome, Refusal, Ended),
        *(AskMemory, Allocate, Free, Launch, Copy, Put, Fetch, Synchronise),
        *(AskConditions, AskHostLink, AskHolders, AskTime, Wait, Quiet, Bye),
        *(Done, Seconds, Loan, Content, State, Surroundings, ToHost, Holders, Failure),
    )
}


def name_of(message: Message) -> str:
    """The step that a message is, as it is said to people."""
    return type(message).__name__.lower()


def encode(message: Message) -> bytes:
    """The frame of a message. Raises MessageError where it would be too long."""
    data = {"protocol": PROTOCOL, "kind": name_of(message), "body": to_data(message)}
    text = json.dumps(data, separators=(",", ":")).encode("ascii")
    if len(text) > LARGEST:
        raise MessageError(f"a message of {len(text)} bytes is more than the {LARGEST} that one may have")
    return _HEAD.pack(MARK, len(text)) + text


def decode(text: bytes) -> Message:
    """The message of a frame's text. Raises MessageError and nothing else."""
    try:
        data = json.loads(text.decode("ascii"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError("what came is not the JSON of a message") from error
    protocol, kind = (data.get("protocol"), data.get("kind")) if isinstance(data, dict) else (None, None)
    if isinstance(protocol, bool) or not isinstance(protocol, int):
        raise MessageError("what came is JSON, but no message of mats: it names no protocol")
    if protocol != PROTOCOL:
        raise MessageError(
            f"the other side speaks version {str(protocol)[:20]} of the protocol, this mats version {PROTOCOL}: "
            "start the same mats on both sides"
        )
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise MessageError(f"there is no message of the kind {str(kind)[:40]!r}")
    try:
        message: Message = from_data(known, data.get("body"), f"{kind} message")
    except (SavedRunError, RecursionError) as error:
        raise MessageError(str(error).removesuffix(".") or "a message is nested too deeply") from error
    return message


class Decoder:
    """Puts frames together from what comes in pieces. It holds one unfinished message, never more than LARGEST."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def begun(self) -> bool:
        """Whether a part of a message is here whose rest is not."""
        return bool(self._held)

    def feed(self, data: bytes) -> tuple[Message, ...]:
        """The messages that are complete now. Raises MessageError, after which nothing more can be read."""
        self._held += data
        found: list[Message] = []
        while self._held:
            start = bytes(self._held[: len(MARK)])
            if not MARK.startswith(start):
                raise MessageError(f"what came does not begin as a message of mats does, but with {start!r}")
            if len(self._held) < _HEAD.size:
                break
            _, length = _HEAD.unpack_from(self._held)
            if length > LARGEST:
                raise MessageError(f"a message of {length} bytes was announced; one may have {LARGEST}")
            end = _HEAD.size + length
            if len(self._held) < end:
                break
            found.append(decode(bytes(self._held[_HEAD.size : end])))
            del self._held[:end]
        return tuple(found)


def pack_bytes(data: bytes) -> str:
    """Bytes as text of a message."""
    return base64.b64encode(data).decode("ascii")


def unpack_bytes(text: str) -> bytes:
    """Raises MessageError."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageError("bytes in a message are not written as base64") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
