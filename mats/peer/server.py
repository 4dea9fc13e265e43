"""The lending process: waits for a client, does on its device what the client asks, and gives everything back.

One thread talks: it waits for the client, for whoever else knocks, and for the end of a step, each with a deadline, so
that a client or a device that hangs holds nobody. The step itself, a call of the device, runs beside it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mats.device import DeviceLost
from mats.fabric import Served
from mats.model import TargetInfo
from mats.peer import messages as say
from mats.peer.calls import Desk
from mats.peer.channel import Channel, Door, Gone, Late, Waitable, wait_for
from mats.peer.greeting import DEADLINES, Deadlines, Watch, describe_peer, identify, ignore, why_not
from mats.peer.lending import Member

TICK = 0.1
"""Seconds between two looks at whether to stop."""


class _Over(Exception):
    """The session ends; why, in a clause, or empty when the client is done. ``told``: the client knows it already."""

    def __init__(self, why: str, told: bool = False) -> None:
        super().__init__(why)
        self.told = told


class Server:
    """Implements :class:`mats.fabric.Lender` for one device, at one meeting place."""

    def __init__(self, path: Path, member: Member, deadlines: Deadlines = DEADLINES, watch: Watch = ignore) -> None:
        self._path, self._member, self._deadlines, self._watch = path, member, deadlines, watch
        self._stuck = False

    def describe(self) -> TargetInfo:
        return self._member.device.describe()

    def serve(self, stopping: Callable[[], str], progress: Callable[[str], None]) -> Served:
        """See :meth:`mats.fabric.Lender.serve`. Raises DeviceError where the meeting place cannot be used."""
        identity = identify(self.describe())
        begun = time.monotonic()
        with Door(self._path) as door:
            progress(f"waiting for a client at {self._path}")
            self._watch("listening")
            refused = ""
            while True:
                left = begun + self._deadlines.waiting - time.monotonic()
                why = stopping() or (f"no client came within {self._deadlines.waiting:g} s" if left <= 0 else "")
                if why:
                    seconds = time.monotonic() - begun
                    return Served(0, 0, seconds, "", f"{why}; {refused}" if refused else why)
                channel = door.accept() if wait_for(min(TICK, left), door) else None
                if channel is None:
                    continue
                session = _Session(channel, door, identity, self._member, self._deadlines, stopping, self._watch)
                try:
                    refused = session.greet()
                    if not refused:
                        progress(f"lending to process {session.client.process}")
                        return session.run()
                    progress(refused)
                finally:
                    self._stuck = self._stuck or session.stuck
                    channel.close()

    def close(self) -> None:
        """Close the device, unless it hangs: then its memory goes with this process."""
        if not self._stuck:
            self._member.device.close()


@dataclass(slots=True, eq=False)
class _Session:
    """One client, from its first message to the end of what was lent."""

    channel: Channel
    door: Door
    own: say.Identity
    member: Member
    deadlines: Deadlines
    stopping: Callable[[], str]
    watch: Watch
    client: say.Identity = field(init=False)
    stuck: bool = False
    """A call of the device has not come back: nothing more may be asked of it."""
    calls: int = 0
    quiet: float = 0.0
    desk: Desk = field(init=False)

    def greet(self) -> str:
        """Why this client is not served, in a clause, after it was told so; empty when it is."""
        try:
            _process, user = self.channel.peer()
            if user != os.getuid():
                return self._refuse(f"the client belongs to another user (number {user}): memory is lent within one")
            self.watch("accepted")
            hello = self._next(self.deadlines.greeting, "say who it is")
            self.watch("hello")
            if not isinstance(hello, say.Hello):
                return self._refuse(f"the client began with {say.name_of(hello)} instead of a hello")
            why = why_not(self.own, hello.identity, "client")
            if not why and hello.wanted != self.own.uuid:
                why = f"the client wants {hello.wanted}, this server lends {self.own.uuid}: see --server-gpu and --gpu"
            if why:
                return self._refuse(why)
            self.client, self.desk = hello.identity, Desk(self.member, self.watch)
            welcome = say.Welcome(self.own, hello.nonce, self.member.device.describe())
            self.channel.send(welcome, self.deadlines.greeting)
            self.watch("welcome sent")
        except say.MessageError as error:
            return self._refuse(str(error))
        except _Over as over:
            return self._refuse(str(over))
        except (Gone, Late) as error:
            return f"a client {error} before it was served"
        return ""

    def _refuse(self, why: str) -> str:
        with contextlib.suppress(Gone, Late):
            self.channel.send(say.Refusal(why), self.deadlines.greeting)
        return f"a client was refused: {why}"

    def run(self) -> Served:
        """Do what the client asks until the session is over; everything lent is given back before this returns."""
        begun = time.monotonic()
        why, told = "", False
        try:
            while True:
                self._serve_one()
        except _Over as over:
            why, told = str(over), over.told
        except (Gone, Late) as error:
            why, told = f"the client ({describe_peer(self.client, self.own)}) {error}", True
        except say.MessageError as error:
            why = f"the client sent what cannot be read: {error}"
        finally:
            returned = self._give_back()
        if why and not told:
            with contextlib.suppress(Gone, Late):
                self.channel.send(say.Ended(why), self.deadlines.greeting)
        if not why:
            with contextlib.suppress(Gone, Late):
                self.channel.send(say.Done(), self.deadlines.greeting)
        self.watch("given back")
        broken = "; ".join(text for text in (why, returned) if text)
        return Served(self.desk.most, self.calls, time.monotonic() - begun, self.client.uuid, broken)

    def _serve_one(self) -> None:
        allowed, self.quiet = self.deadlines.silence + self.quiet, 0.0
        call = self._next(allowed, "ask anything")
        self.calls += 1
        name = say.name_of(call)
        self.watch(f"{name} asked")
        match call:
            case say.Bye():
                raise _Over("")
            case say.Quiet(seconds):
                self.quiet = min(max(seconds, 0.0), self.deadlines.quiet)
                reply: say.Reply = say.Done()
            case say.Wait(seconds):
                if not 0 <= seconds <= self.deadlines.quiet:
                    raise say.MessageError(f"a wait of {seconds:g} s")
                reply = self._step(lambda: self.desk.do(call), name, seconds)
            case _:
                reply = self._step(lambda: self.desk.do(call), name)
        self.channel.send(reply, self.deadlines.step)
        self.watch(f"{name} answered")
        if isinstance(reply, say.Failure) and reply.kind == DeviceLost.__name__:
            raise _Over(reply.text, told=True)

    def _next(self, seconds: float, what: str) -> say.Message:
        """The client's next message; others who knock meanwhile are turned away. Raises _Over, Gone, MessageError."""
        end = time.monotonic() + seconds
        while True:
            found = self.channel.take()
            if found is not None:
                return found
            why = self.stopping()
            left = end - time.monotonic()
            if why or left <= 0:
                raise _Over(f"the server was stopped: {why}" if why else f"the client did not {what} for {seconds:g} s")
            if self.channel in self._wait(min(TICK, left), self.channel):
                self.channel.read()

    def _wait(self, seconds: float, other: Waitable) -> list[Waitable]:
        """What is ready of the two, the door or ``other``, within so many seconds."""
        ready = wait_for(seconds, self.door, other)
        if self.door in ready:
            self._turn_away()
        return ready

    def _turn_away(self) -> None:
        knocking = self.door.accept()
        if knocking is None:
            return
        busy = say.Refusal(f"it is busy with another client (process {self.channel.peer()[0]}): try again later")
        with contextlib.suppress(Gone, Late):
            knocking.send(busy, TICK)
        knocking.close()

    def _step(self, work: Callable[[], say.Reply], name: str, more: float = 0.0) -> say.Reply:
        """What comes of a call of the device, or the session's end where it does not come in time."""
        step = _Step(work)
        end = time.monotonic() + self.deadlines.step + more
        with step.woken:
            step.thread.start()
            while not step.done:
                left = end - time.monotonic()
                if left <= 0:
                    self.stuck = True
                    raise _Over(f"the device did not end {name} within {self.deadlines.step + more:g} s")
                self._wait(min(TICK, left), step.woken)
        if step.raised is not None:
            raise step.raised
        return step.reply

    def _give_back(self) -> str:
        """Free what was lent. Gives what could not be given back, in a clause, or nothing."""
        if self.stuck:
            return "what it lent goes with this process"
        why = ""

        def free() -> say.Reply:
            nonlocal why
            why = self.desk.give_back()
            return say.Done()

        try:
            self._step(free, "giving back")
        except _Over as over:
            return f"{over}: what it lent goes with this process"
        return why


class _Step:
    """One call of the device in a thread of its own, which wakes the one that waits."""

    def __init__(self, work: Callable[[], say.Reply]) -> None:
        self.woken, self._waking = socket.socketpair()
        self.thread = threading.Thread(target=self._run, args=(work,), name="mats lending", daemon=True)
        self.reply: say.Reply = say.Done()
        self.raised: BaseException | None = None
        self.done = False

    def _run(self, work: Callable[[], say.Reply]) -> None:
        try:
            self.reply = work()
        except BaseException as error:
            self.raised = error
        self.done = True
        self._waking.close()
