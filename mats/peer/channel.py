"""A connection between two processes of one user, with a deadline on everything, and the place where they meet.

The meeting place is a Unix socket (mode 0600) in a folder that is this user's alone (0700). Who is at the other end is
asked of the kernel, not of the message. While a server lives, it holds a lock on the folder, which the kernel gives
back however the process ends: a socket without that lock is left over and is replaced.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import stat
import struct
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Protocol

from mats.device import DeviceError
from mats.peer.messages import Decoder, Message, encode
from mats.probe import UsageError

SOCKET = "nvlink-test.sock"
LONGEST_PATH = 107
"""Bytes of a Unix socket's path that Linux takes."""
_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 20


class Gone(Exception):
    """The other process has closed the connection, or has ended."""


class Late(Exception):
    """The other process did not do its part within the deadline."""


def meeting_place(user: int, running: Path = Path("/run/user"), otherwise: Path = Path("/tmp")) -> Path:
    """Where processes of a user meet if nothing else was said: the same from every terminal, whatever its variables."""
    own = running / str(user)
    with contextlib.suppress(OSError):
        if own.stat().st_uid == user:
            return own / "mats" / SOCKET
    return otherwise / f"mats-{user}" / SOCKET


class Waitable(Protocol):
    def fileno(self) -> int: ...


def wait_for(seconds: float, *reading: Waitable, writing: Waitable | None = None) -> list[Waitable]:
    """Which of them can be read, or written, or have lost their other end, within so many seconds."""
    poll = select.poll()  # select() itself takes no file above number 1023
    wanted = {each.fileno(): each for each in reading}
    for number in wanted:
        poll.register(number, select.POLLIN)
    if writing is not None:
        wanted[writing.fileno()] = writing
        poll.register(writing.fileno(), select.POLLOUT)
    return [wanted[number] for number, _ in poll.poll(math.ceil(seconds * 1e3))]


class Channel:
    """One connected socket that carries messages. Not for several threads, except :meth:`shut`."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._decoder = Decoder()
        self._messages: deque[Message] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    def peer(self) -> tuple[int, int]:
        """Process and user at the other end, as the kernel knows them; process 0 is one of another PID namespace."""
        held = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _group = _CREDENTIALS.unpack(held)
        return process, user

    def send(self, message: Message, seconds: float) -> None:
        """Raises Gone, Late, and MessageError for one that is too long."""
        data = memoryview(encode(message))
        end = time.monotonic() + seconds
        while data:
            try:
                data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    raise Late(f"took nothing for {seconds:g} s") from None
                wait_for(left, writing=self._socket)
            except OSError as error:
                raise Gone("closed the connection") from error

    def receive(self, seconds: float) -> Message:
        """The next message. Raises Gone, Late, MessageError."""
        end = time.monotonic() + seconds
        while not self._messages:
            left = end - time.monotonic()
            if left <= 0 or not wait_for(left, self._socket):
                raise Late(f"did not answer within {seconds:g} s")
            self.read()
        return self._messages.popleft()

    def take(self) -> Message | None:
        """A message that has come already, or None."""
        return self._messages.popleft() if self._messages else None

    def read(self) -> None:
        """Take what has come, without waiting. Raises Gone, MessageError."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise Gone("closed the connection") from error
        if not data:
            raise Gone(
                "closed the connection in the middle of a message" if self._decoder.begun else "closed the connection"
            )
        self._messages.extend(self._decoder.feed(data))

    def shut(self) -> None:
        """End the conversation from any thread: whoever waits for a message gets Gone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class Door:
    """The listening end of the meeting place; a context manager that leaves nothing behind but the folder."""

    def __init__(self, path: Path) -> None:
        """Raises DeviceError where the place cannot be used or a server is there already, UsageError for a bad path."""
        check_path(path)
        self._path = path
        self._folder = _own_folder(path.parent)
        try:
            self._listening = self._listen()
        except BaseException:
            os.close(self._folder)
            raise
        self._inode = path.stat().st_ino

    def _listen(self) -> socket.socket:
        import fcntl  # of Linux alone, as the rest of this class

        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeviceError(
                f"another mats of this user lends already at {self._path}: wait for it, or name another place with "
                "--socket"
            ) from None
        except OSError as error:
            why = error.strerror or str(error)
            raise DeviceError(f"the folder {self._path.parent} cannot be locked, as on some networks: {why}") from error
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(self._path.lstat().st_mode):
                raise DeviceError(f"{self._path} is not a socket: move it away, or name another place with --socket")
            self._path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listening.bind(os.fspath(self._path))
            self._path.chmod(0o600)
            listening.listen(8)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise DeviceError(f"no socket can be made at {self._path}: {error.strerror or error}") from error
        return listening

    def fileno(self) -> int:
        return self._listening.fileno()

    def accept(self) -> Channel | None:
        """Whoever is waiting at the door, or None."""
        try:
            connected, _ = self._listening.accept()
        except OSError:  # nobody, or gone again
            return None
        return Channel(connected)

    def close(self) -> None:
        self._listening.close()
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        os.close(self._folder)

    def __enter__(self) -> Door:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def knock(path: Path, seconds: float) -> Channel:
    """The connection to the server that lends at ``path``, waiting so long for one to come.

    Raises DeviceError where there is none or it may not be spoken to, UsageError for a bad path.
    """
    check_path(path)
    end = time.monotonic() + seconds
    while True:
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connecting.setblocking(False)  # a server that accepts no more refuses instead of holding us
            connecting.connect(os.fspath(path))
            return Channel(connecting)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
            connecting.close()
            if time.monotonic() >= end:
                raise DeviceError(_nobody(path, seconds, error)) from None
            time.sleep(min(0.05, seconds / 10))
        except OSError as error:
            connecting.close()
            why = "it belongs to another user" if isinstance(error, PermissionError) else error.strerror or str(error)
            raise DeviceError(f"the server at {path} cannot be spoken to: {why}") from None


def _nobody(path: Path, seconds: float, error: OSError) -> str:
    if isinstance(error, BlockingIOError):
        return f"the server at {path} has let nobody in for {seconds:g} s: end it, or wait until it is done"
    return (
        f"no server lends a GPU at {path} (waited {seconds:g} s): start one in another terminal, as this user, with "
        "mats nvlink-test --mode server --gpu N"
    )


def check_path(path: Path) -> None:
    """Raises UsageError for a path that no socket can have, DeviceError on a system without such sockets."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise DeviceError("two processes can only meet on Linux: use mats nvlink-test without --mode")
    length = len(os.fsencode(path))
    if length > LONGEST_PATH:
        raise UsageError(f"the path of the socket has {length} bytes, the system takes {LONGEST_PATH}: {path}")


def _own_folder(folder: Path) -> int:
    """The open folder, made where it is missing. Raises DeviceError where others could get in."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise DeviceError(f"the folder {folder} for the socket cannot be used: {error.strerror or error}") from error
    state = os.fstat(opened)
    if state.st_uid != os.getuid():
        os.close(opened)
        raise DeviceError(f"the folder {folder} belongs to another user: name another place with --socket")
    if state.st_mode & 0o077:
        os.close(opened)
        raise DeviceError(
            f"the folder {folder} is open to other users: give the socket a folder of its own, which is made if missing"
        )
    return opened
