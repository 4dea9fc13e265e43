"""What the tests of two processes share: starting the other one, and a conversation that is spoken by hand."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mats.device import Device
from mats.devices._sim_ipc import open_family
from mats.fabric import Served
from mats.peer.channel import SOCKET
from mats.peer.greeting import Deadlines, identify
from mats.peer.lending import Member
from mats.peer.messages import Decoder, Hello, Identity, Message, Refusal, Welcome, encode
from mats.peer.server import Server
from mats.target import Target

from .side import DEADLINES, PLAN

PATIENCE = 60.0
"""Seconds that a test waits for another process at most: above every deadline of a session."""
SHORT = replace(DEADLINES, greeting=0.3, silence=1.0)
"""For tests in which they pass; in all others none may, also on a busy machine."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a side ended: its exit code, negative for a signal, and what it told last."""

    code: int | None
    told: dict[str, Any]
    text: str


@dataclass(slots=True, eq=False)
class Side:
    """A started side."""

    process: int
    output: Path
    sides: Sides
    ended: Ended | None = None

    def wait(self) -> Ended:
        if self.ended is None:
            code = self.sides.ask({"wait": self.process, "seconds": PATIENCE})
            text = self.output.read_text(encoding="utf-8")
            told = [json.loads(line) for line in text.splitlines() if line.startswith('{"')]
            self.ended = Ended(code, told[-1] if told else {}, text)
        return self.ended

    def wait_for(self, words: str) -> None:
        """Until it has said something."""
        end = time.monotonic() + PATIENCE
        while words not in (self.output.read_text(encoding="utf-8") if self.output.exists() else ""):
            assert time.monotonic() < end, f"{words!r} was not said"
            time.sleep(0.005)

    def wait_for_file(self, path: Path) -> None:
        """Until it has made a file."""
        end = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < end and self.state() != "Z", self.wait().text
            time.sleep(0.005)

    def wait_until(self, state: str) -> None:
        """Until the kernel says of it T (stopped) or Z (ended)."""
        end = time.monotonic() + PATIENCE
        while self.state() != state:
            assert time.monotonic() < end, f"it is {self.state()} and not {state}"
            time.sleep(0.005)

    def state(self) -> str:
        return Path(f"/proc/{self.process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process, number)


@dataclass(slots=True, eq=False)
class Sides:
    """Starts processes; see ``side.py``."""

    folder: Path
    parent: subprocess.Popen[str]
    started: list[Side] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def ask(self, command: dict[str, Any]) -> Any:
        assert self.parent.stdin is not None and self.parent.stdout is not None
        self.parent.stdin.write(json.dumps(command) + "\n")
        self.parent.stdin.flush()
        return json.loads(self.parent.stdout.readline())

    def start(self, side: str, folder: Path, *options: str) -> Side:
        output = self.folder / f"{next(self.numbers)}.txt"
        process = self.ask({"start": [side, str(folder), *options], "output": str(output)})
        self.started.append(Side(process, output, self))
        return self.started[-1]

    def end_all(self) -> None:
        for side in self.started:
            if side.ended is None:
                side.kill(signal.SIGCONT)
                side.kill()
                side.wait()
        self.started.clear()


def start_parent() -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("side.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def refuse(target: Target) -> Device:
    raise AssertionError(f"{target.name} was to be opened")


def member(card: str = "0") -> Member:
    """A simulated card and what lends it."""
    return open_family(Target("sim", PLAN), refuse).open_member(card)


@dataclass(slots=True, eq=False)
class Serving:
    """A server at work in a thread of this process."""

    path: Path
    identity: Identity
    stopped: str = ""
    said: list[str] = field(default_factory=list)
    served: Served | None = None
    raised: BaseException | None = None
    thread: threading.Thread | None = None

    def end(self, stopped: str = "") -> Served:
        """What it gave at its end, to which it is brought where ``stopped`` says why."""
        self.stopped = stopped
        assert self.thread is not None
        self.thread.join(PATIENCE)
        if self.raised is not None:
            raise self.raised
        assert self.served is not None, "the server did not end"
        return self.served


@contextmanager
def serving(folder: Path, lent: Member | None = None, deadlines: Deadlines = DEADLINES) -> Iterator[Serving]:
    lent = lent or member()
    server = Server(folder / SOCKET, lent, deadlines)
    at_work = Serving(folder / SOCKET, identify(lent.device.describe()))
    listening = threading.Event()

    def progress(text: str) -> None:
        at_work.said.append(text)
        listening.set()

    def work() -> None:
        try:
            at_work.served = server.serve(lambda: at_work.stopped, progress)
        except BaseException as error:
            at_work.raised = error
        listening.set()

    at_work.thread = threading.Thread(target=work, daemon=True)
    at_work.thread.start()
    try:
        assert listening.wait(PATIENCE)
        yield at_work
    finally:
        at_work.stopped = "the test is over"
        at_work.thread.join(PATIENCE)
        server.close()


class Talk:
    """A client whose every word is the test's."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(os.fspath(path))
        self._decoder = Decoder()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def say(self, message: Message) -> Message:
        self.send(encode(message))
        return self.hear()

    def hear(self) -> Message:
        while True:
            data = self._socket.recv(1 << 16)
            assert data, "the other side has closed"
            found = self._decoder.feed(data)
            if found:
                return found[0]

    def is_closed(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


def client_of(identity: Identity, wanted: str | None = None, **changed: Any) -> Hello:
    """The first word of a client that fits a server, or differs from it in what is given."""
    values = {name: getattr(identity, name) for name in Identity.__dataclass_fields__}
    own = Identity(**{**values, "process": identity.process + 1, "uuid": "GPU-other", **changed})
    return Hello(own, wanted if wanted is not None else identity.uuid, "once")


@contextmanager
def talking(serving: Serving) -> Iterator[Talk]:
    """A client that was welcomed."""
    talk = Talk(serving.path)
    try:
        assert isinstance(talk.say(client_of(serving.identity)), Welcome)
        yield talk
    finally:
        talk.close()


def refused(serving: Serving, data: bytes) -> str:
    """Why a client whose first words these are is refused."""
    talk = Talk(serving.path)
    try:
        talk.send(data)
        answer = talk.hear()
        assert isinstance(answer, Refusal)
        assert talk.is_closed()
    finally:
        talk.close()
    return answer.why


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """The result of ``work``, which must not take longer than it may; raises what it raises."""
    begun = time.monotonic()
    try:
        return work()
    finally:
        assert time.monotonic() - begun < seconds
