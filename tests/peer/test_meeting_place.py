"""Where two processes of one user meet, and who is let in there."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.peer.channel import LONGEST_PATH, SOCKET, Channel, Door, Gone, Late, check_path, knock, meeting_place
from mats.peer.messages import Bye, Content, MessageError
from mats.probe import UsageError


def test_a_door_is_this_users_alone_and_leaves_nothing_behind(folder: Path) -> None:
    path = folder / "new" / SOCKET

    with Door(path):
        modes = [each.stat().st_mode & 0o777 for each in (path.parent, path)]

    assert modes == [0o700, 0o600]
    assert list(path.parent.iterdir()) == []


def test_a_socket_that_a_dead_server_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(os.fspath(folder / SOCKET))

    with Door(folder / SOCKET) as door:
        channel = knock(folder / SOCKET, 0.0)
        accepted = door.accept()

    assert accepted is not None
    channel.close()
    accepted.close()


def test_a_second_door_is_refused_while_the_first_is_open(folder: Path) -> None:
    with Door(folder / SOCKET):
        with pytest.raises(DeviceError, match="another mats of this user lends already"):
            Door(folder / SOCKET)
        knock(folder / SOCKET, 0.0).close()  # the first one's socket is still there
    with Door(folder / SOCKET):
        pass


def test_a_file_that_is_no_socket_is_kept(folder: Path) -> None:
    (folder / SOCKET).write_text("mine")

    with pytest.raises(DeviceError, match="is not a socket: move it away"):
        Door(folder / SOCKET)

    assert (folder / SOCKET).read_text() == "mine"


def test_a_folder_that_cannot_be_locked_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(DeviceError, match="cannot be locked, as on some networks: No locks available"):
        Door(folder / SOCKET)


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    folder.chmod(0o750)

    with pytest.raises(DeviceError, match="is open to other users: give the socket a folder of its own"):
        Door(folder / SOCKET)


def test_a_folder_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "real").mkdir(mode=0o700)
    (folder / "link").symlink_to(folder / "real")

    with pytest.raises(DeviceError, match="cannot be used"):
        Door(folder / "link" / SOCKET)


@pytest.mark.skipif(os.getuid() != 0, reason="needs to be root to give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    try:
        with pytest.raises(DeviceError, match="belongs to another user"):
            Door(folder / SOCKET)
    finally:
        os.chown(folder, os.getuid(), os.getgid())


@pytest.mark.parametrize("more", [0, 1])
def test_a_path_has_a_longest_length(folder: Path, more: int) -> None:
    path = folder / ("x" * (LONGEST_PATH - len(os.fsencode(folder)) - 1 + more))

    if more:
        with pytest.raises(UsageError, match=f"has {LONGEST_PATH + 1} bytes, the system takes {LONGEST_PATH}"):
            check_path(path)
    else:
        with Door(path):
            knock(path, 0.0).close()


def test_a_server_that_is_not_there_is_said_with_what_to_do(folder: Path) -> None:
    with pytest.raises(DeviceError, match=r"no server lends a GPU at .* \(waited 0\.01 s\): start one") as raised:
        knock(folder / SOCKET, 0.01)

    assert "--mode server --gpu N" in str(raised.value)


def test_a_server_that_lets_nobody_in_is_said(folder: Path) -> None:
    with Door(folder / SOCKET):
        waiting: list[Channel] = []
        with pytest.raises(DeviceError, match="has let nobody in for 0 s"):
            waiting.extend(knock(folder / SOCKET, 0.0) for _ in range(64))  # the queue at the door is shorter
        for channel in waiting:
            channel.close()


def test_users_meet_in_their_runtime_folder_or_in_tmp(folder: Path) -> None:
    user = os.getuid()
    without = meeting_place(user, folder, Path("/tmp"))
    (folder / str(user)).mkdir()
    with_one = meeting_place(user, folder, Path("/tmp"))
    (folder / str(user + 1)).mkdir()
    of_another = meeting_place(user + 1, folder, Path("/tmp"))

    assert without == Path(f"/tmp/mats-{user}/{SOCKET}")
    assert with_one == folder / str(user) / "mats" / SOCKET
    assert of_another == Path(f"/tmp/mats-{user + 1}/{SOCKET}")


def connected() -> tuple[Channel, Channel]:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(first), Channel(second)


def test_who_is_at_the_other_end_is_asked_of_the_kernel() -> None:
    first, second = connected()

    assert first.peer() == (os.getpid(), os.getuid())
    first.close()
    second.close()


def test_an_answer_has_a_deadline() -> None:
    first, second = connected()

    with pytest.raises(Late, match=r"did not answer within 0\.01 s"):
        first.receive(0.01)
    first.close()
    second.close()


def test_a_message_that_is_not_taken_has_a_deadline() -> None:
    first, second = connected()

    with pytest.raises(Late, match=r"took nothing for 0\.05 s"):
        first.send(Content("x" * (3 << 20)), 0.05)
    first.close()
    second.close()


def test_the_end_of_the_other_side_is_noticed_also_within_a_message() -> None:
    first, second = connected()
    os.write(second.fileno(), b"mats\0")
    second.close()

    with pytest.raises(Gone, match="in the middle of a message"):
        first.receive(5.0)
    with pytest.raises(Gone):
        first.send(Bye(), 5.0)
    first.close()


def test_what_was_said_before_the_end_is_still_heard() -> None:
    first, second = connected()
    second.send(Bye(), 5.0)
    second.close()

    assert first.receive(5.0) == Bye()
    first.close()


def test_garbage_is_no_message() -> None:
    first, second = connected()
    os.write(second.fileno(), b"\x16\x03\x01\x02\x00\x01")

    with pytest.raises(MessageError, match="does not begin as a message of mats"):
        first.receive(5.0)
    first.close()
    second.close()
