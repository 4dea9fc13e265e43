"""The borrowing process: a device of the other process that is used as one of this process is."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mats.device import (
    Buffer,
    Conditions,
    DeviceError,
    DeviceLost,
    HeldBy,
    HostBuffer,
    HostLink,
    MemoryState,
)
from mats.model import TargetInfo
from mats.peer import messages as say
from mats.peer.calls import RAISED
from mats.peer.channel import Channel, Gone, Late, knock
from mats.peer.greeting import DEADLINES, Deadlines, Watch, describe_peer, identify, ignore, why_not
from mats.peer.lending import Lending, Member

T = TypeVar("T", bound=say.Message)
ENDING = 1.0
"""Seconds that a call has to see that its connection was ended."""
_RAISED = {kind.__name__: kind for kind in RAISED}


def borrow(
    path: Path, own: Member, wanted: str, deadlines: Deadlines = DEADLINES, watch: Watch = ignore
) -> RemoteDevice:
    """The device with the UUID ``wanted``, lent by the server at ``path``, for work together with ``own``.

    Raises DeviceError where nobody lends it, in a sentence that says what to do, UsageError for a bad path.
    """
    identity = identify(own.device.describe())
    nonce = secrets.token_hex(8)
    channel = knock(path, deadlines.knocking)
    try:
        watch("knocked")
        _process, user = channel.peer()
        if user != os.getuid():
            raise DeviceError(
                f"the server at {path} belongs to another user (number {user}): memory is lent within one"
            )
        with contextlib.suppress(Gone):  # why it has gone may be there to be read
            channel.send(say.Hello(identity, wanted, nonce), deadlines.greeting)
        watch("hello sent")
        answer = channel.receive(deadlines.greeting)
        watch("welcomed")
        return RemoteDevice(channel, _checked(answer, identity, wanted, nonce), own.lending, identity, deadlines, watch)
    except (Gone, Late, say.MessageError) as error:
        channel.close()
        doing = "" if isinstance(error, say.MessageError) else "it "
        raise DeviceError(f"the server at {path} cannot be worked with: {doing}{error}") from None
    except BaseException:
        channel.close()
        raise


def _checked(answer: say.Message, own: say.Identity, wanted: str, nonce: str) -> say.Welcome:
    if isinstance(answer, say.Refusal | say.Ended):
        raise DeviceError(f"the server refused: {answer.why}")
    if not isinstance(answer, say.Welcome) or answer.nonce != nonce:
        raise DeviceError(f"the server answered a hello with {say.name_of(answer)}, which is not for this process")
    why = why_not(own, answer.identity, "server")
    if not why and answer.identity.uuid != wanted:
        why = f"the server lends {answer.identity.uuid}, not {wanted}"
    if why:
        raise DeviceError(why)
    return answer


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """Memory of the server under its number, and where it is opened here."""

    number: int
    buffer: Buffer


class RemoteDevice:
    """Implements :class:`mats.device.Device` over a channel; buffers are memory of the server, opened here.

    They are therefore good for copies and kernels of this process' own device as well. Kernels and copies of this
    device run in the server; memory of this process that they are given is lent to the server for the call.
    """

    def __init__(
        self,
        channel: Channel,
        welcome: say.Welcome,
        lending: Lending,
        own: say.Identity,
        deadlines: Deadlines,
        watch: Watch,
    ) -> None:
        self._channel, self._lending, self._deadlines, self._watch = channel, lending, deadlines, watch
        self._info = welcome.info
        self._processes = (own.process, welcome.identity.process)
        self._server = f"the server ({describe_peer(welcome.identity, own)})"
        self._lock = threading.Lock()
        self._held: dict[int, _Borrowed] = {}
        self._lost = ""
        self._closed = False

    def describe(self) -> TargetInfo:
        return self._info

    def owns(self, buffer: Buffer) -> bool:
        """Whether it is a piece of memory that was borrowed."""
        return self._borrowed(buffer) is not None

    def memory(self) -> MemoryState:
        return self._ask(say.AskMemory(), say.State).state

    def allocate(self, size: int) -> Buffer:
        loan = self._ask(say.Allocate(size), say.Loan)
        try:
            opened = self._lending.open(self._unpacked(loan.handle), size)
        except DeviceError:
            self._ask(say.Free(loan.number), say.Done)  # DeviceLost where the server's end is why it cannot be opened
            raise
        self._watch("opened")
        self._held[opened.address] = _Borrowed(loan.number, opened)
        return opened

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        raise DeviceError("the other process lends memory of its device, not of the host: take the own device's")

    def free(self, buffer: Buffer | HostBuffer) -> None:
        held = self._held.pop(buffer.address, None) if isinstance(buffer, Buffer) else None
        if held is None:
            raise DeviceError(
                f"no buffer at {buffer.address:#x} is borrowed: it was freed before or is not of the server"
            )
        self._lending.close(held.buffer)
        self._ask(say.Free(held.number), say.Done)

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        with self._lent(value for value in arguments.values() if isinstance(value, Buffer)) as place:
            given = tuple(
                say.Argument(name, place(value) if isinstance(value, Buffer) else value)
                for name, value in arguments.items()
            )
            return self._ask(say.Launch(kernel, tiles, given), say.Seconds).seconds

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        if isinstance(destination, HostBuffer) or isinstance(source, HostBuffer):
            raise DeviceError("the other process cannot reach host memory of this one: copy by the own device")
        if isinstance(source, bytes):
            return self._put(destination, source, offset, repeats)
        with self._lent((destination, source)) as place:
            return self._ask(say.Copy(place(destination), place(source), offset, repeats), say.Seconds).seconds

    def _put(self, destination: Buffer, source: bytes, offset: int, repeats: int) -> float:
        place, seconds = self._place(destination), 0.0
        if offset < 0 or offset + len(source) > destination.size:
            raise DeviceError(f"a copy of {len(source)} bytes to offset {offset} does not fit {destination.size} bytes")
        for start in range(0, max(len(source), 1), say.PIECE):
            data = say.pack_bytes(source[start : start + say.PIECE])
            seconds += self._ask(say.Put(place, offset + start, data, repeats), say.Seconds).seconds
        return seconds

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        if isinstance(buffer, HostBuffer):
            raise DeviceError("the other process cannot reach host memory of this one: fetch by the own device")
        place = self._place(buffer)
        if offset < 0 or size < 0 or offset + size > buffer.size:
            raise DeviceError(f"bytes {offset} to {offset + size} are not within a buffer of {buffer.size}")
        found = bytearray()
        while len(found) < size:
            start, length = place.offset + offset + len(found), min(say.PIECE, size - len(found))
            data = self._unpacked(self._ask(say.Fetch(say.Place(place.number, start, length)), say.Content).data)
            if len(data) != length:
                raise self._lose(f"{self._server} gave {len(data)} bytes where {length} were asked for")
            found += data
        return bytes(found)

    def synchronise(self) -> None:
        self._ask(say.Synchronise(), say.Done)

    def conditions(self) -> Conditions:
        return self._ask(say.AskConditions(), say.Surroundings).conditions

    def host_link(self) -> HostLink:
        return self._ask(say.AskHostLink(), say.ToHost).link

    def holders(self) -> tuple[HeldBy, ...] | str:
        """Other processes than the two that work together."""
        holders = self._ask(say.AskHolders(), say.Holders).holders
        if isinstance(holders, str):
            return holders
        return tuple(holder for holder in holders if holder.pid not in self._processes)

    def now(self) -> float:
        return self._ask(say.AskTime(), say.Seconds).seconds

    def wait(self, seconds: float) -> None:
        self._ask(say.Wait(seconds), say.Done, seconds)

    def announce(self, seconds: float) -> None:
        """Tell the server that this process works on its own for up to so many seconds."""
        self._ask(say.Quiet(min(seconds, self._deadlines.quiet)), say.Done)

    def close(self) -> None:
        """Close what was opened, then say so; the server gives its memory back. Also from another thread."""
        free = self._lock.acquire(blocking=False)
        if not free:  # a call is waiting for its answer: it ends now, before the socket that it waits at is closed
            self._channel.shut()
            ended = self._lock.acquire(timeout=ENDING)
        if free or ended:
            self._lock.release()
        if self._closed:
            return
        for held in tuple(self._held.values()):
            with contextlib.suppress(DeviceError):
                self._lending.close(held.buffer)
        self._held.clear()
        if free and not self._lost:
            with contextlib.suppress(DeviceError):
                self._ask(say.Bye(), say.Done)
        self._closed = True
        self._channel.close()

    def _borrowed(self, buffer: Buffer) -> _Borrowed | None:
        for held in self._held.values():
            start = buffer.address - held.buffer.address
            if start >= 0 and start + buffer.size <= held.buffer.size:
                return held
        return None

    def _place(self, buffer: Buffer) -> say.Place:
        held = self._borrowed(buffer)
        if held is None:
            raise DeviceError(
                f"no buffer at {buffer.address:#x} is borrowed: it was freed before or is not of the server"
            )
        return say.Place(held.number, buffer.address - held.buffer.address, buffer.size)

    @contextlib.contextmanager
    def _lent(self, buffers: Iterable[Buffer]) -> Iterator[Callable[[Buffer], say.Place | say.Handle]]:
        """How the server knows these buffers; those of this process are lent to it until the end."""
        exported: dict[Buffer, say.Handle] = {}
        try:
            for buffer in buffers:
                if not self.owns(buffer) and buffer not in exported:
                    exported[buffer] = say.Handle(say.pack_bytes(self._lending.export(buffer)), buffer.size)
            yield lambda buffer: exported[buffer] if buffer in exported else self._place(buffer)
        finally:
            for buffer in exported:
                self._lending.withdraw(buffer)

    def _ask(self, call: say.Call, answer: type[T], more: float = 0.0) -> T:
        """The server's answer, which must be of this type. ``more``: seconds that the call takes by itself."""
        name = say.name_of(call)
        with self._lock:
            if self._lost:
                raise DeviceLost(self._lost)
            if self._closed:
                raise DeviceError(f"{self._info.name} is closed")
            begun = time.monotonic()
            try:
                self._watch(f"{name} begins")
                with contextlib.suppress(Gone):  # why it has gone may be there to be read
                    self._channel.send(call, self._deadlines.answer)
                self._watch(f"{name} sent")
                found = self._channel.receive(self._deadlines.answer + more)
                self._watch(f"{name} answered")
            except (Gone, Late, say.MessageError) as error:
                took = time.monotonic() - begun
                raise self._lose(f"{self._server} {_did(error)} ({name}, after {took:.1f} s)") from None
            if isinstance(found, say.Ended | say.Refusal):
                raise self._lose(f"{self._server} ended the session: {found.why} ({name})")
        if isinstance(found, answer):
            return found
        if isinstance(found, say.Failure):
            raised = _RAISED.get(found.kind, DeviceError)(found.text)
            if isinstance(raised, DeviceLost):
                self._lose(found.text)
            raise raised
        raise self._lose(f"{self._server} answered {name} with {say.name_of(found)}")

    def _unpacked(self, text: str) -> bytes:
        try:
            return say.unpack_bytes(text)
        except say.MessageError as error:
            raise self._lose(f"{self._server} {_did(error)}") from None

    def _lose(self, why: str) -> DeviceLost:
        """From now on every call says so; the server is told by the end of the connection."""
        self._lost = self._lost or why
        self._channel.shut()
        return DeviceLost(self._lost)


def _did(error: Gone | Late | say.MessageError) -> str:
    return f"sent what cannot be read: {error}" if isinstance(error, say.MessageError) else str(error)
