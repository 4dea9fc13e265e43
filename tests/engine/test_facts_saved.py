"""Facts are saved as a run is: whatever they hold comes back, and what is damaged is said in one sentence."""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import random
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mats.facts
from mats.codec import SavedRunError, from_data, looks_like_run, to_data
from mats.facts import LogFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit

KINDS = [
    kind
    for kind in (getattr(mats.facts, name) for name in mats.facts.__all__)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]
WORDS = ("", "GPU-0", "0000:01:00.0", "caf\udce9", "ü\n")


def filled(annotation: Any, chance: random.Random) -> Any:
    """Any value of this type, each choice of the annotation as likely as the others."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return filled(chance.choice(typing.get_args(annotation)), chance)
    if origin is tuple:
        arguments = typing.get_args(annotation)
        if arguments[-1] is Ellipsis:
            return tuple(filled(arguments[0], chance) for _ in range(chance.randrange(3)))
        return tuple(filled(argument, chance) for argument in arguments)
    if annotation is Quantity:
        return Quantity(chance.choice((0, 2**64 + 1, 0.1, -1.5)), chance.choice(tuple(Unit)))
    if annotation is Absent:
        return Absent(chance.choice(tuple(AbsenceKind)), "not asked")
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        made: Any = annotation
        return made(**{field.name: filled(hints[field.name], chance) for field in dataclasses.fields(annotation)})
    if issubclass(annotation, enum.Enum):
        return chance.choice(tuple(annotation))
    return {
        str: chance.choice(WORDS),
        bool: chance.random() < 0.5,
        int: chance.choice((0, 63, 1 << 40)),
        float: chance.choice((0.0, 0.25, 1e300)),
    }[annotation]


def saved(value: object) -> object:
    return json.loads(json.dumps(to_data(value)))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32))
def test_any_facts_come_back_as_they_were(seed: int) -> None:
    facts = filled(MachineFacts, random.Random(seed))

    back = from_data(MachineFacts, saved(facts))

    assert back == facts
    assert repr(back) == repr(facts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_facts_comes_back(kind: Any) -> None:
    facts = filled(kind, random.Random(0))

    assert from_data(kind, saved(facts)) == facts


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"gpus": 3}, r"gpus is 3 where a list or \{kind, reason\} belongs"),
        ({"gpus": [3]}, r"gpus\[0\] is a whole number where an object belongs"),
        ({"gpus": [{"clocks": {"reasons": "idle"}}]}, r"gpus\[0\].clocks.reasons is \"idle\" where a list or"),
        ({"log": {"origin": "x"}}, r"log is .* where .*\{incidents, origin, covers"),
    ],
)
def test_damaged_facts_are_named_by_their_place(damage: dict[str, object], says: str) -> None:
    with pytest.raises(SavedRunError, match=f"^this capture is damaged: {says}"):
        from_data(MachineFacts, damage, "capture")


def test_facts_of_an_older_version_take_defaults_for_what_they_lack() -> None:
    assert from_data(LogFacts, {"incidents": [], "origin": "dmesg", "covers": "all"}) == LogFacts((), "dmesg", "all")


@pytest.mark.parametrize(
    ("text", "is_run"),
    [
        ('{"schema_version": 1, "tool": "mats 0.1"', True),
        ('\n{\n "duration": {}, "results": [' + "1," * 9000 + '1], "schema_version": 1, "tool": "mats"}', True),
        ('{"mats_capture": 1, "schema_version": 1, "claims": [{"tool": "dcgmi"}]}', False),
        ('{"DCGM Diagnostic": {}}', False),
        ("[ 1.0] NVRM: Xid schema_version tool", False),
        ("", False),
    ],
)
def test_a_saved_run_is_told_from_other_files(text: str, is_run: bool) -> None:
    assert looks_like_run(io.StringIO(text)) is is_run
