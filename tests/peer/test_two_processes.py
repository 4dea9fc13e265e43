"""Sessions of two real processes, one of which is killed, stopped or interrupted at every step."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mats.device import DeviceError, DeviceLost
from mats.fabric import Served
from mats.peer.channel import SOCKET, Door
from mats.peer.greeting import Deadlines
from mats.peer.server import Server

from .bench import PATIENCE, Side, Sides, member, within
from .side import DEADLINES, lent_memory, work

BOUNDED = replace(DEADLINES, step=0.5, silence=0.5)
"""Of the side that lives on while the other one hangs; where it is killed, no deadline has to pass."""
LIMIT = 10.0
"""Seconds that any end may take, with a busy machine's share in it; without deadlines it would be for ever."""

SERVER_STEPS = (
    *("accepted", "hello", "welcome sent", "allocate asked", "exported", "allocate answered", "put asked"),
    *("put answered", "quiet asked", "wait asked", "launch asked", "launching", "launch answered", "fetch asked"),
    *("fetch answered", "free asked"),
)
GREETING = ("knocked", "hello sent")
CLIENT_STEPS = (
    *("welcomed", "allocate begins", "allocate sent", "allocate answered", "opened", "put sent", "put answered"),
    *("quiet sent", "wait sent", "launch begins", "launch sent", "launch answered", "fetch sent", "free begins"),
    *("free answered", "bye begins"),
)


def client(folder: Path, deadlines: Deadlines = DEADLINES) -> int:
    return work(folder / SOCKET, "1", "0", lambda _step: None, deadlines)


def serve(folder: Path, stopping: Callable[[], str] = lambda: "", deadlines: Deadlines = DEADLINES) -> Served:
    server = Server(folder / SOCKET, member(), deadlines)
    try:
        return server.serve(stopping, lambda _text: None)
    finally:
        server.close()


def gone_for_a_while(side: Side) -> Callable[[], str]:
    """Stops a server that still waits some time after the only client has ended."""
    left: list[float] = []

    def stopping() -> str:
        if not left and side.state() == "Z":
            left.append(time.monotonic())
        return "the test is over" if left and time.monotonic() - left[0] > 0.3 else ""

    return stopping


def test_a_session_of_two_processes_goes_through_every_call(sides: Sides, folder: Path) -> None:
    server = sides.start("server", folder)
    borrowing = sides.start("client", folder)

    borrowed, lent = borrowing.wait(), server.wait()

    assert (borrowed.code, lent.code) == (0, 0), borrowed.text + lent.text
    assert borrowed.told["arrived"] and borrowed.told["answered"]
    assert lent.told["lent"] == 2 << 20
    assert lent.told["borrower"].endswith("01")
    assert (borrowed.told["mapped"], lent.told["mapped"]) == (0, 0)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("step", SERVER_STEPS)
def test_a_server_that_is_killed_is_a_lost_device(sides: Sides, folder: Path, step: str) -> None:
    server = sides.start("server", folder, "--at", step)

    with pytest.raises(DeviceError, match="closed the connection") as raised:
        within(LIMIT, lambda: client(folder))

    assert isinstance(raised.value, DeviceLost) or step in ("accepted", "hello", "welcome sent")
    assert server.wait().code == -signal.SIGKILL
    assert lent_memory() == 0
    with Door(folder / SOCKET):  # what the killed one has left is no hindrance
        pass


@pytest.mark.parametrize("step", ["free answered", "bye asked", "given back"])
def test_a_server_that_is_killed_when_all_is_done_spoils_nothing(sides: Sides, folder: Path, step: str) -> None:
    server = sides.start("server", folder, "--at", step)

    code = within(LIMIT, lambda: client(folder))

    assert code == 0
    assert server.wait().code == -signal.SIGKILL


@pytest.mark.parametrize("step", CLIENT_STEPS)
def test_a_client_that_is_killed_ends_the_session(sides: Sides, folder: Path, step: str) -> None:
    borrowing = sides.start("client", folder, "--at", step)

    served = within(LIMIT, lambda: serve(folder))

    assert borrowing.wait().code == -signal.SIGKILL
    assert f"(process {borrowing.process}, GPU-" in served.broken
    assert "closed the connection" in served.broken
    assert lent_memory() == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("step", GREETING)
def test_a_client_that_is_killed_before_it_is_served_leaves_the_server_waiting(
    sides: Sides, folder: Path, step: str
) -> None:
    borrowing = sides.start("client", folder, "--at", step)

    served = within(LIMIT, lambda: serve(folder, gone_for_a_while(borrowing)))

    assert served.borrower == "" or "closed the connection" in served.broken
    assert borrowing.wait().code == -signal.SIGKILL


@pytest.mark.parametrize("step", ["allocate asked", "launching"])
def test_a_server_that_stands_still_is_lost_after_the_deadline(sides: Sides, folder: Path, step: str) -> None:
    sides.start("server", folder, "--at", step, "--do", "stop")

    with pytest.raises(DeviceLost, match=r"did not answer within 0\.625 s \(\w+, after \d\.\d s\)"):
        within(LIMIT, lambda: client(folder, BOUNDED))

    assert lent_memory() == 0


def test_a_device_that_hangs_is_said_by_the_server_itself(sides: Sides, folder: Path) -> None:
    server = sides.start("server", folder, "--at", "launching", "--do", "hang", "--step", "0.4")

    with pytest.raises(DeviceLost, match=r"the device did not end launch within 0\.4 s"):
        within(PATIENCE, lambda: client(folder))

    ended = server.wait()
    assert ended.code == 3
    assert "what it lent goes with this process" in ended.told["broken"]


@pytest.mark.parametrize("step", ["welcomed", "launch answered"])
def test_a_client_that_stands_still_is_given_up_after_the_deadline(sides: Sides, folder: Path, step: str) -> None:
    sides.start("client", folder, "--at", step, "--do", "stop")

    served = within(LIMIT, lambda: serve(folder, deadlines=BOUNDED))

    assert served.broken == "the client did not ask anything for 0.5 s"
    assert lent_memory() == 0


@pytest.mark.parametrize("step", ["welcome sent", "allocate answered", "launching"])
def test_ctrl_c_ends_a_server_in_order_and_the_client_is_told(sides: Sides, folder: Path, step: str) -> None:
    server = sides.start("server", folder, "--at", step, "--do", "interrupt")

    with pytest.raises(DeviceLost, match=r"ended the session: the server was stopped: interrupted \(Ctrl-C\)"):
        within(LIMIT, lambda: client(folder))

    ended = server.wait()
    assert ended.code == 3
    assert ended.told["broken"] == "the server was stopped: interrupted (Ctrl-C)"
    assert ended.told["mapped"] == 0
    assert list(folder.iterdir()) == []


def test_ctrl_c_ends_a_server_to_which_nobody_came(sides: Sides, folder: Path) -> None:
    server = sides.start("server", folder, "--at", "listening", "--do", "interrupt")

    ended = server.wait()

    assert ended.code == 3
    assert ended.told["broken"] == "interrupted (Ctrl-C)"
    assert list(folder.iterdir()) == []


def test_ctrl_c_in_the_client_ends_both(sides: Sides, folder: Path) -> None:
    borrowing = sides.start("client", folder, "--at", "launch answered", "--do", "interrupt")

    served = within(LIMIT, lambda: serve(folder))

    ended = borrowing.wait()
    assert ended.code == 1  # the script does not catch it; its memory was given back on the way out
    assert "KeyboardInterrupt" in ended.text
    assert served.broken == ""
    assert lent_memory() == 0


def test_a_second_client_is_told_that_the_server_is_busy(sides: Sides, folder: Path) -> None:
    server = sides.start("server", folder)
    first = sides.start("client", folder, "--at", "allocate answered", "--do", "stop")
    server.wait_for("lending to")

    with pytest.raises(DeviceError, match=f"busy with another client \\(process {first.process}\\)"):
        within(LIMIT, lambda: client(folder))

    first.wait_until("T")
    first.kill(signal.SIGCONT)
    assert (first.wait().code, server.wait().code) == (0, 0)


def test_a_second_server_is_refused_while_the_first_lives(sides: Sides, folder: Path) -> None:
    first = sides.start("server", folder)
    first.wait_for("waiting for a client")

    with pytest.raises(DeviceError, match="lends already"):
        serve(folder)

    assert client(folder) == 0
    assert first.wait().code == 0


def test_a_client_that_wants_another_gpu_is_refused_by_its_name(sides: Sides, folder: Path) -> None:
    server = sides.start("server", folder, "--gpu", "2")

    wrong = sides.start("client", folder, "--wanted", "3").wait()
    right = sides.start("client", folder, "--wanted", "2").wait()

    assert wrong.code == 3
    assert "wants GPU-51300000-0000-4000-8000-000000000003" in wrong.told["error"]
    assert "this server lends GPU-51300000-0000-4000-8000-000000000002" in wrong.told["error"]
    assert (right.code, server.wait().code) == (0, 0), "a refused client does not end the server"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to be root to start a process of another user")
@pytest.mark.parametrize("opened", [False, True])
def test_a_process_of_another_user_is_kept_out(sides: Sides, folder: Path, opened: bool) -> None:
    server = sides.start("server", folder)
    server.wait_for("waiting for a client")
    if opened:  # as if the folder had been opened to everybody later
        folder.chmod(0o755)
        (folder / SOCKET).chmod(0o666)

    stranger = sides.start("client", folder, "--user", "65534").wait()

    assert stranger.code == 3
    assert "belongs to another user" in stranger.told["error"]
    assert client(folder) == 0
    assert server.wait().code == 0
