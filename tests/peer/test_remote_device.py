"""A device of another process, used as one's own: each call, its data, and its errors as the same exceptions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mats.device import Buffer, Device, DeviceError, DeviceLost, HeldBy, HostBuffer, MemoryState, OutOfMemory
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.peer import messages as say
from mats.peer.calls import Desk
from mats.peer.channel import Channel, Gone
from mats.peer.client import RemoteDevice
from mats.peer.greeting import Deadlines, identify
from mats.peer.lending import Member
from mats.source import SourceError

from .bench import PATIENCE, member
from .side import DEADLINES, lent_memory

SIZE = 2 << 20
Answer = Callable[[say.Message], say.Message | None]


@contextmanager
def remote(answer: Answer, own: Member, server: Member, deadlines: Deadlines = DEADLINES) -> Iterator[RemoteDevice]:
    """The device as a client has it, whose calls are answered in another thread of this process."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    here, there = Channel(first), Channel(second)

    def work() -> None:
        with suppress(Gone):
            while True:
                call = there.receive(PATIENCE)
                reply = say.Done() if isinstance(call, say.Bye) else answer(call)
                if reply is not None:
                    there.send(reply, PATIENCE)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    info = server.device.describe()
    identity = identify(info)
    device = RemoteDevice(
        here, say.Welcome(identity, "", info), own.lending, identify(own.device.describe()), deadlines, lambda _: None
    )
    try:
        yield device
    finally:
        device.close()
        thread.join(PATIENCE)
        there.close()


@dataclass(slots=True)
class Two:
    """A card of this process, one of the server, and that one as it is seen from here."""

    own: Member
    server: Member
    device: RemoteDevice
    asked: list[say.Message]


@pytest.fixture
def two() -> Iterator[Two]:
    own, server = member("1"), member("0")
    desk, asked = Desk(server, lambda _step: None), []

    def answer(call: say.Message) -> say.Message:
        asked.append(call)
        return desk.do(call)

    with remote(answer, own, server) as device:
        yield Two(own, server, device, asked)
    desk.give_back()
    own.device.close()
    server.device.close()
    assert lent_memory() == 0


def test_what_the_device_is_and_how_it_does_are_the_servers_words(two: Two) -> None:
    real, device = two.server.device, two.device

    assert device.describe() == real.describe()
    assert device.memory() == real.memory()
    assert device.conditions() == real.conditions()
    assert device.host_link() == real.host_link()
    assert device.holders() == real.holders()
    assert device.now() == real.now()


def test_time_passes_on_the_servers_clock(two: Two) -> None:
    before = two.server.device.now()

    two.device.wait(2.5)

    assert two.server.device.now() == before + 2.5


def test_borrowed_memory_is_taken_from_the_server_and_given_back(two: Two) -> None:
    free = two.server.device.memory().free

    buffer = two.device.allocate(SIZE)
    taken = free - two.server.device.memory().free
    two.device.free(buffer)

    assert (taken, free - two.server.device.memory().free) == (SIZE, 0)
    with pytest.raises(DeviceError, match="it was freed before or is not of the server"):
        two.device.free(buffer)


def test_bytes_longer_than_a_message_go_there_and_come_back(two: Two) -> None:
    data = bytes(range(256)) * (3 * SIZE // 256)
    buffer = two.device.allocate(4 * SIZE)

    seconds = two.device.copy(buffer, data, offset=SIZE // 2)
    found = two.device.fetch(Buffer(buffer.address + SIZE // 2, 3 * SIZE + 1), 1, 3 * SIZE - 1)

    assert found == data[1:]
    assert seconds > 0
    assert sum(isinstance(call, say.Put) for call in two.asked) == 3
    assert two.own.device.fetch(buffer, SIZE // 2, 64) == data[:64], "the own device reaches the same memory"


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, SIZE + 1), (SIZE, 1)])
def test_what_does_not_fit_is_refused(two: Two, offset: int, size: int) -> None:
    buffer = two.device.allocate(SIZE)

    with pytest.raises(DeviceError, match="does not fit"):
        two.device.copy(buffer, bytes(size), offset=offset)
    with pytest.raises(DeviceError, match="not within"):
        two.device.fetch(buffer, offset, size)


def test_copies_and_kernels_run_in_the_server_on_memory_of_either(two: Two) -> None:
    there, here = two.device.allocate(2 * SIZE), two.own.device.allocate(SIZE)
    two.own.device.copy(here, b"\x21" * SIZE)
    upper = Buffer(there.address + SIZE, SIZE)
    before = two.server.device.now()

    copied = two.device.copy(there, here, repeats=3)
    launched = two.device.launch("copy_sweep", 1, destination=upper, source=there)
    back = two.device.copy(here, upper)

    assert two.server.device.now() - before == pytest.approx(copied + launched + back)
    assert two.server.device.fetch(_of_server(two, there), SIZE, 64) == b"\x21" * 64
    assert two.own.device.fetch(here, 0, 64) == b"\x21" * 64


def _of_server(two: Two, borrowed: Buffer) -> Buffer:
    """The one buffer of the server's card."""
    held: dict[int, Any] = cast(Any, two.server.device)._held
    (address,) = held
    return Buffer(address, borrowed.size)


def test_memory_of_this_process_is_lent_only_while_it_is_used(two: Two) -> None:
    there, here = two.device.allocate(SIZE), two.own.device.allocate(SIZE)

    two.device.copy(there, here)
    two.own.device.free(here)
    two.device.free(there)

    assert lent_memory() == 0


def test_a_kernel_that_is_wrongly_called_raises_as_on_the_own_device(two: Two) -> None:
    with pytest.raises(TypeError, match="kernel copy_sweep: missing"):
        two.device.launch("copy_sweep", 1)
    with pytest.raises(OutOfMemory, match="are more than"):
        two.device.allocate(1 << 50)
    two.device.synchronise()  # it goes on working


def test_host_memory_is_refused(two: Two) -> None:
    buffer = two.device.allocate(SIZE)
    host = HostBuffer(1, SIZE, pinned=True)

    for call in (
        lambda: two.device.allocate_host(SIZE, pinned=True),
        lambda: two.device.copy(buffer, host),
        lambda: two.device.copy(host, buffer),
        lambda: two.device.fetch(host, 0, 8),
    ):
        with pytest.raises(DeviceError, match="own device"):
            call()
    with pytest.raises(DeviceError, match="is not of the server"):
        two.device.free(host)


def test_memory_of_neither_is_refused(two: Two) -> None:
    with pytest.raises(DeviceError, match="is not of the server"):
        two.device.copy(Buffer(1 << 40, 8), b"x")


def test_closing_closes_what_was_opened_and_may_be_done_twice(two: Two) -> None:
    two.device.allocate(SIZE)
    opened = lent_memory()

    two.device.close()
    two.device.close()

    assert lent_memory() == opened - 1
    with pytest.raises(DeviceError, match="is closed"):
        two.device.synchronise()


@dataclass
class Raising:
    """A device of a server whose every call raises."""

    error: Exception
    real: Device = field(default_factory=lambda: member("0").device)

    def __getattr__(self, name: str) -> Any:
        def call(*_arguments: object, **_named: object) -> Any:
            raise self.error

        return self.real.describe if name == "describe" else call


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DeviceError("not now"), DeviceError),
        (OutOfMemory("no more"), OutOfMemory),
        (DeviceLost("fell off the bus"), DeviceLost),
        (SourceError("a kind that a client does not know"), DeviceError),
    ],
)
def test_errors_of_the_servers_device_are_raised_as_what_they_are(error: Exception, kind: type[Exception]) -> None:
    own, server = member("1"), Member(cast(Device, Raising(error)), member("0").lending)
    desk = Desk(server, lambda _step: None)

    with remote(desk.do, own, server) as device:
        for call in (device.synchronise, device.memory, lambda: device.allocate(SIZE), device.conditions):
            with pytest.raises(kind, match=str(error)) as raised:
                call()
            assert type(raised.value) is kind
    own.device.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (say.Seconds(1.0), "answered synchronise with seconds"),
        (say.Ended("the server was stopped: Ctrl-C"), "ended the session: the server was stopped: Ctrl-C"),
    ],
)
def test_a_server_that_does_not_do_what_it_is_asked_is_lost(answer: say.Message, why: str) -> None:
    own, server = member("1"), member("0")

    with remote(lambda _call: answer, own, server) as device:
        for _ in range(2):
            with pytest.raises(DeviceLost, match=why):
                device.synchronise()
    own.device.close()
    server.device.close()


def test_a_server_that_gives_too_few_bytes_is_lost() -> None:
    own, server = member("1"), member("0")
    desk = Desk(server, lambda _step: None)

    def answer(call: say.Message) -> say.Message:
        return say.Content("AAAA") if isinstance(call, say.Fetch) else desk.do(call)

    with remote(answer, own, server) as device:
        buffer = device.allocate(SIZE)
        with pytest.raises(DeviceLost, match="gave 3 bytes where 64 were asked for"):
            device.fetch(buffer, 0, 64)
    desk.give_back()
    own.device.close()
    server.device.close()


def test_memory_that_cannot_be_opened_is_given_back_at_once() -> None:
    own, server = member("1"), member("0")
    desk, asked = Desk(server, lambda _step: None), []

    def answer(call: say.Message) -> say.Message:
        asked.append(say.name_of(call))
        reply = desk.do(call)
        return say.Loan(reply.number, say.pack_bytes(b"nothing")) if isinstance(reply, say.Loan) else reply

    with remote(answer, own, server) as device:
        with pytest.raises(DeviceError, match="is none of a simulated device"):
            device.allocate(SIZE)
        assert asked == ["allocate", "free"]
    own.device.close()
    server.device.close()


def test_a_device_is_closed_while_another_thread_waits_for_it() -> None:
    own, server = member("1"), member("0")
    asked = threading.Event()
    raised: list[BaseException] = []

    def answer(_call: say.Message) -> None:
        asked.set()

    def wait() -> None:
        try:
            device.synchronise()
        except DeviceLost as lost:
            raised.append(lost)

    with remote(answer, own, server) as device:
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        assert asked.wait(PATIENCE)
        device.close()
        waiting.join(PATIENCE)
    assert "closed the connection (synchronise" in str(raised[0])
    own.device.close()
    server.device.close()


def test_the_two_processes_themselves_do_not_count_as_others() -> None:
    own, server = member("1"), member("0")
    here = identify(own.device.describe()).process
    none = Absent(AbsenceKind.NOT_SUPPORTED, "not told")
    holders = (HeldBy(here, "python", none), HeldBy(1, "another", none))

    with remote(lambda _call: say.Holders(holders), own, server) as device:
        assert device.holders() == holders[1:]
    own.device.close()
    server.device.close()


def test_memory_that_is_told_keeps_its_units() -> None:
    own, server = member("1"), member("0")
    state = MemoryState(10, 5, Quantity(1, Unit.BYTE), Absent(AbsenceKind.TIMED_OUT, "too slow"))

    with remote(lambda _call: say.State(state), own, server) as device:
        assert device.memory() == state
    own.device.close()
    server.device.close()
