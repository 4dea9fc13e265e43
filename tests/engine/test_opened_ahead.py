"""A source that is opened while the program loads: opened once, given to who asks for it, closed where nobody does."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mats.cli.ahead import opened_ahead
from mats.cli.world import World
from mats.source import NothingThere
from mats.target import Target

from .fakes import CLEAN, FakeSource, fake_world, probe

LOOKS = probe(CLEAN, "health", passive=True)
ALL = Target("cuda", "all")


class Doors:
    """Opens one source when it may, and remembers who asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.opened: list[str] = []
        self.source = FakeSource()
        self.may = threading.Event()
        self.error = error

    def __call__(self, target: Target, _seconds: float | None) -> FakeSource:
        self.opened.append(target.name)
        assert self.may.wait(10)
        if self.error is not None:
            raise self.error
        return self.source


def world(folder: Path, doors: Doors) -> World:
    return replace(fake_world(folder, (LOOKS,)), open_source=doors)


def test_what_was_begun_is_given_to_who_asks_first(tmp_path: Path) -> None:
    # given
    doors = Doors()
    doors.may.set()

    # when
    with opened_ahead(LOOKS, {}, world(tmp_path, doors)) as begun:
        first, second = begun.open_source(ALL, None), begun.open_source(ALL, None)

    # then
    assert first is second is doors.source
    assert doors.opened == ["cuda:all", "cuda:all"]  # the second is opened anew
    assert doors.source.closed == 0  # it is of who took it


def test_an_error_is_raised_where_the_source_is_asked_for(tmp_path: Path) -> None:
    doors = Doors(NothingThere("there is no GPU"))
    doors.may.set()

    with opened_ahead(LOOKS, {}, world(tmp_path, doors)) as begun, pytest.raises(NothingThere, match="no GPU"):
        begun.open_source(ALL, None)


@pytest.mark.parametrize("late", [False, True])
def test_a_source_that_nobody_takes_is_closed(tmp_path: Path, late: bool) -> None:
    doors = Doors()

    with opened_ahead(LOOKS, {}, world(tmp_path, doors)):
        if not late:
            doors.may.set()
    doors.may.set()

    end = time.monotonic() + 10
    while not doors.source.closed and time.monotonic() < end:
        time.sleep(0.01)
    assert doors.source.closed == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ["cuda:all"]),
        ({"target": ["sim:healthy"]}, ["sim:healthy"]),
        ({"gpu-id": ["0,3"]}, ["cuda:0,3"]),
        ({"target": ["sim:a,sim:b"]}, []),
        ({"target": ["nonsense"]}, []),
        ({"target": ["file:run.json"]}, []),
        ({"files": ["a.txt"]}, []),
        ({"timeout": "5"}, []),
    ],
)
def test_only_what_is_clear_is_begun(tmp_path: Path, given: dict[str, Any], named: list[str]) -> None:
    doors = Doors()
    doors.may.set()

    with opened_ahead(LOOKS, given, world(tmp_path, doors)):
        end = time.monotonic() + 10
        while len(doors.opened) < len(named) and time.monotonic() < end:
            time.sleep(0.01)

    assert doors.opened == named


def test_nothing_is_begun_for_a_probe_that_works_on_devices(tmp_path: Path) -> None:
    doors = Doors()

    with opened_ahead(probe(CLEAN), {}, world(tmp_path, doors)):
        pass

    assert doors.opened == []
