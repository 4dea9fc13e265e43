"""What goes over the socket: every message as it was, and one clause for whatever is none."""

from __future__ import annotations

import json
import struct
import typing
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.device import Conditions, HeldBy, HostLink, MemoryState
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo, Unit
from mats.peer import messages as say

ABSENT = Absent(AbsenceKind.NOT_SUPPORTED, "it does not tell")
BYTES = Quantity(1 << 30, Unit.BYTE)
IDENTITY = say.Identity("mats 0.1.0", "boot", 7, "pid:[1]", "GPU-1", "0000:01:00.0", "580.1")
INFO = TargetInfo("sim:x", "sim", "a card", BYTES, ABSENT, ABSENT, "", (("uuid", "GPU-1"),), True, "sim")
PLACE = say.Place(1, 4096, 64)
EVERY: tuple[say.Message, ...] = (
    say.Hello(IDENTITY, "GPU-2", "nonce"),
    say.Welcome(IDENTITY, "nonce", INFO),
    say.Refusal("it is busy"),
    say.Ended("it was stopped"),
    say.AskMemory(),
    say.Allocate(2 << 20),
    say.Free(1),
    say.Launch("copy_sweep", 1 << 40, (say.Argument("a", PLACE), say.Argument("b", (1 << 64) - 1))),
    say.Copy(PLACE, say.Handle("aGFuZGxl", 64), 8, 2),
    say.Put(PLACE, 0, say.pack_bytes(b"\x00\xff"), 1),
    say.Fetch(PLACE),
    say.Synchronise(),
    say.AskConditions(),
    say.AskHostLink(),
    say.AskHolders(),
    say.AskTime(),
    say.Wait(0.5),
    say.Quiet(3.0),
    say.Bye(),
    say.Done(),
    say.Seconds(1e-6),
    say.Loan(1, "aGFuZGxl"),
    say.Content(say.pack_bytes(bytes(range(256)))),
    say.State(MemoryState(10, 5, BYTES, ABSENT)),
    say.Surroundings(Conditions(ABSENT, ABSENT, ABSENT, ABSENT, Quantity(0, Unit.COUNT), "off", (("ecc.x", ABSENT),))),
    say.ToHost(HostLink("PCIe", ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, "", "", (("replays", ABSENT),))),
    say.Holders((HeldBy(7, "python", BYTES),)),
    say.Holders("the driver does not say"),
    say.Failure("OutOfMemory", "there is none"),
)


def framed(data: object) -> bytes:
    text = json.dumps(data).encode()
    return struct.pack(">4sI", b"mats", len(text)) + text


@pytest.mark.parametrize("message", EVERY, ids=say.name_of)
def test_a_message_arrives_as_it_was_sent(message: say.Message) -> None:
    assert say.Decoder().feed(say.encode(message)) == (message,)


def test_every_kind_of_message_is_among_those_tested() -> None:
    assert {type(message) for message in EVERY} == set(typing.get_args(say.Message))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_pieces_of_any_size_give_the_same_messages(sizes: list[int]) -> None:
    data = b"".join(say.encode(message) for message in EVERY[:4])
    found: list[say.Message] = []
    decoder, at = say.Decoder(), 0
    for size in (*sizes, len(data)):
        found += decoder.feed(data[at : at + size])
        at += size

    assert tuple(found) == EVERY[:4]
    assert not decoder.begun


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not begin as a message of mats does, but with b'GET '"),
        (b"x", "but with b'x'"),
        (struct.pack(">4sI", b"mats", say.LARGEST + 1), f"a message of {say.LARGEST + 1} bytes was announced"),
        (struct.pack(">4sI", b"mats", 4) + b"\xff\x00\x01\x02", "is not the JSON of a message"),
        (struct.pack(">4sI", b"mats", 6) + b"[[[[[[", "is not the JSON of a message"),
        (struct.pack(">4sI", b"mats", 90000) + b"[" * 90000, "is not the JSON of a message"),
        (framed([1, 2]), "names no protocol"),
        (framed({"kind": "bye"}), "names no protocol"),
        (framed({"protocol": True, "kind": "bye", "body": {}}), "names no protocol"),
        (framed({"protocol": 2, "kind": "bye", "body": {}}), "speaks version 2 of the protocol, this mats version 1"),
        (framed({"protocol": 1, "kind": "format_disk", "body": {}}), "no message of the kind 'format_disk'"),
        (framed({"protocol": 1, "kind": ["bye"], "body": {}}), "no message of the kind"),
        (framed({"protocol": 1, "kind": "free", "body": {}}), "free message is damaged: its top level lacks number"),
        (framed({"protocol": 1, "kind": "free", "body": {"number": "1"}}), "number is text where a whole"),
        (framed({"protocol": 1, "kind": "free"}), "is null where an object belongs"),
        (framed({"protocol": 1, "kind": "wait", "body": {"seconds": float("inf")}}), "is not the JSON of a message"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_its_reason(data: bytes, why: str) -> None:
    with pytest.raises(say.MessageError) as raised:
        say.Decoder().feed(data)

    assert why in str(raised.value)
    assert len(str(raised.value)) < 200


@given(st.binary(max_size=64), st.booleans())
def test_no_bytes_at_all_raise_anything_else(data: bytes, marked: bool) -> None:
    head = struct.pack(">4sI", b"mats", len(data)) if marked else b""
    try:
        found = say.Decoder().feed(head + data)
    except say.MessageError:
        return
    assert found == ()


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(say.MessageError, match="is more than the"):
        say.encode(say.Content("x" * say.LARGEST))


def test_the_largest_piece_of_memory_fits_a_message() -> None:
    encoded = say.encode(say.Put(PLACE, 0, say.pack_bytes(b"\xff" * say.PIECE), 1))

    assert len(encoded) < say.LARGEST


def test_bytes_that_are_not_base64_are_refused() -> None:
    with pytest.raises(say.MessageError, match="base64"):
        say.unpack_bytes("a?b")


def test_no_two_kinds_that_stand_for_each_other_share_their_fields() -> None:
    """Of a union the codec tells objects apart by the names of their fields."""
    assert {field.name for field in fields(say.Place)} != {field.name for field in fields(say.Handle)}
