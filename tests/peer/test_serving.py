"""What a server says to clients that are strange, silent, from the future, or ask for what cannot be."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mats.device import DeviceError
from mats.peer import messages as say
from mats.peer.client import borrow
from mats.peer.greeting import why_not

from .bench import SHORT, Talk, client_of, member, refused, serving, talking
from .side import DEADLINES, lent_memory

IDENTITY = say.Identity("mats 0.1.0", "boot", 7, "pid:[1]", "GPU-1", "0000:01:00.0", "580.1")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"tool": "mats 9.0"}, "the client is mats 9.0, this is mats 0.1.0: start the same mats on both sides"),
        ({"boot": "other"}, "the client runs on another machine"),
        ({"process": 7}, "the client is this very process"),
        ({"process": 7, "namespace": "pid:[2]"}, ""),
        ({"driver": "570.1"}, "the client uses driver 570.1, this process 580.1"),
        ({"driver": ""}, "the client uses driver unknown"),
        ({"uuid": "GPU-1"}, ""),
    ],
)
def test_what_keeps_two_processes_apart_is_named(changed: dict[str, Any], why: str) -> None:
    other = client_of(IDENTITY, **changed).identity

    assert why_not(IDENTITY, other, "client").startswith(why)
    assert bool(why_not(IDENTITY, other, "client")) is bool(why)


def test_a_client_that_does_not_fit_is_refused_and_the_next_is_served(folder: Path) -> None:
    with serving(folder) as server:
        assert "the client is mats 9.0" in refused(server, say.encode(client_of(server.identity, tool="mats 9.0")))
        assert "the client wants GPU-x" in refused(server, say.encode(client_of(server.identity, "GPU-x")))
        with talking(server) as talk:
            assert talk.say(say.Bye()) == say.Done()

        assert server.end().broken == ""


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not begin as a message of mats"),
        (struct.pack(">4sI", b"mats", 1 << 31), "a message of 2147483648 bytes was announced"),
        (say.encode(say.AskMemory()), "the client began with askmemory instead of a hello"),
        (b"", r"the client did not say who it is for 0.3 s"),
        (b"mats\0\0", r"the client did not say who it is for 0.3 s"),
    ],
)
def test_a_stranger_is_refused_with_the_reason(folder: Path, data: bytes, why: str) -> None:
    with serving(folder, deadlines=SHORT) as server:
        assert why in refused(server, data)

        served = server.end("the test is over")

    assert (served.borrower, served.lent) == ("", 0)
    assert why in served.broken


def test_a_version_from_the_future_is_named_on_both_sides(folder: Path) -> None:
    text = json.dumps({"protocol": 7, "kind": "hello", "body": {"soul": 1}}).encode()

    with serving(folder) as server:
        why = refused(server, struct.pack(">4sI", b"mats", len(text)) + text)

        assert "speaks version 7 of the protocol, this mats version 1" in why
        assert any("speaks version 7" in said for said in server.said)


def test_a_client_in_this_process_is_refused(folder: Path) -> None:
    own = member("1")

    with serving(folder) as server, pytest.raises(DeviceError, match="refused: the client is this very process"):
        borrow(server.path, own, server.identity.uuid, DEADLINES)
    own.device.close()


def test_a_server_to_which_nobody_comes_ends_after_its_deadline(folder: Path) -> None:
    with serving(folder, deadlines=replace(DEADLINES, waiting=0.05)) as server:
        served = server.end()

    assert served.broken == "no client came within 0.05 s"
    assert list(folder.iterdir()) == []


def test_a_client_may_be_silent_for_as_long_as_it_has_announced(folder: Path) -> None:
    with serving(folder, deadlines=SHORT) as server, talking(server) as talk:
        assert talk.say(say.Quiet(5.0)) == say.Done()
        time.sleep(SHORT.silence * 1.5)
        assert talk.say(say.Synchronise()) == say.Done()  # what was announced holds once
        ended = talk.hear()

        served = server.end()

    assert ended == say.Ended("the client did not ask anything for 1 s")
    assert served.broken == "the client did not ask anything for 1 s"


def test_what_a_silent_client_borrowed_is_given_back(folder: Path) -> None:
    lent = member()
    free = lent.device.memory().free
    with serving(folder, lent, SHORT) as server, talking(server) as talk:
        assert isinstance(talk.say(say.Allocate(2 << 20)), say.Loan)
        assert lent.device.memory().free == free - (2 << 20)
        server.end()

        assert lent.device.memory().free == free
        assert lent_memory() == 0


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\x01garbage", "does not begin as a message of mats"),
        (say.encode(say.Done()), "done is nothing that a server can be asked"),
        (say.encode(say.Fetch(say.Place(1, 0, say.PIECE + 1))), "one message carries"),
        (say.encode(say.Put(say.Place(1, 0, 8), 0, "no base64", 1)), "not written as base64"),
        (say.encode(say.Wait(1e9)), "a wait of 1e+09 s"),
        (say.encode(say.Wait(-1.0)), "a wait of -1 s"),
    ],
)
def test_what_cannot_be_read_within_a_session_ends_it(folder: Path, data: bytes, why: str) -> None:
    with serving(folder) as server, talking(server) as talk:
        talk.say(say.Allocate(2 << 20))
        talk.send(data)
        ended = talk.hear()

        served = server.end()

    assert isinstance(ended, say.Ended)
    assert why in ended.why
    assert served.broken.startswith("the client sent what cannot be read")
    assert served.lent == 2 << 20


@pytest.mark.parametrize(
    ("call", "kind", "why"),
    [
        (say.Free(9), "DeviceError", "nothing is lent under number 9"),
        (say.Fetch(say.Place(9, 0, 8)), "DeviceError", "nothing is lent under number 9"),
        (say.Fetch(say.Place(1, (2 << 20) - 4, 8)), "DeviceError", "are not within the 2097152 that are lent"),
        (say.Fetch(say.Place(1, -8, 8)), "DeviceError", "are not within"),
        (say.Allocate(1 << 50), "OutOfMemory", "are more than"),
        (say.Allocate(-1), "DeviceError", "a size must be positive"),
        (say.Launch("no_such", 1, ()), "TypeError", "no kernel named 'no_such'"),
        (say.Launch("copy_sweep", 1, (say.Argument("source", 5),)), "TypeError", "missing"),
        (say.Copy(say.Place(1, 0, 8), say.Handle("bm9uZQ==", 8), 0, 1), "DeviceError", "is none of a simulated"),
        (say.Copy(say.Place(1, 0, 8), say.Place(1, 8, 8), 0, 0), "DeviceError", "cannot be made 0 times"),
    ],
)  # fmt: skip
def test_what_the_device_refuses_is_told_and_the_session_goes_on(
    folder: Path, call: say.Message, kind: str, why: str
) -> None:
    with serving(folder) as server, talking(server) as talk:
        assert talk.say(say.Allocate(2 << 20)) is not None
        answer = talk.say(call)

        assert isinstance(answer, say.Failure)
        assert answer.kind == kind
        assert why in answer.text
        assert talk.say(say.Bye()) == say.Done()
        assert server.end().broken == ""


def test_a_client_that_knocks_during_a_session_is_told_to_come_later(folder: Path) -> None:
    with serving(folder) as server, talking(server) as talk:
        second = Talk(server.path)
        answer = second.hear()

        assert isinstance(answer, say.Refusal)
        assert "it is busy with another client" in answer.why
        assert second.is_closed()
        second.close()
        assert talk.say(say.Bye()) == say.Done()
        assert server.end().broken == ""
