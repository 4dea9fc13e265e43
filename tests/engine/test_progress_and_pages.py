"""What is seen while a run goes on, and the pages of ``mats explain``."""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from mats.cli.explain import fault_page, plans_page, probe_page
from mats.cli.main import main
from mats.cli.outputs import has_blocks
from mats.cli.progress import Bars, Lines, Silent, Watcher, crash_sentence, meter, progress_text
from mats.cli.world import World
from mats.model import Quantity, Result, Unit, Verdict

from .fakes import CLEAN, Clock, fake_world, printed, probe, told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def world_with(tmp_path: Path, *, terminal: bool = False, **environment: str) -> tuple[World, Clock]:
    clock = Clock()
    world = dataclasses.replace(fake_world(tmp_path, ()), clock=clock, environment=environment)
    return (dataclasses.replace(world, stderr=Terminal()) if terminal else world), clock


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "words"),
    [
        (1, 4, 10.0, "25%, about 30 s left: pass 1"),
        (1, 100, 10.0, "1%, about 16 min left: pass 1"),
        (1, 1000, 10.0, "0%, about 2.8 h left: pass 1"),
        (0, 4, 10.0, "0%: pass 1"),
        (9, 4, 10.0, "100%, about 0 s left: pass 1"),
        (3, 0, 10.0, "pass 1"),
    ],
)
def test_progress_in_words(done: float, total: float, elapsed: float, words: str) -> None:
    assert progress_text(done, total, elapsed, "pass 1") == words


def test_redirected_progress_is_a_line_now_and_then(tmp_path: Path) -> None:
    world, clock = world_with(tmp_path)
    lines = meter(world, json=False, quiet=False)

    for second in range(0, 40):
        clock.seconds = second
        lines.show("host", "stress", second, 40, "pass 1")

    assert isinstance(lines, Lines)
    assert told(world).splitlines() == [
        "stress on host: 38%, about 25 s left: pass 1",
        "stress on host: 75%, about 10 s left: pass 1",
    ]


def test_a_terminal_gets_a_bar_that_goes_away(tmp_path: Path) -> None:
    world, _clock = world_with(tmp_path, terminal=True, COLUMNS="100")
    bars = meter(world, json=False, quiet=False)

    bars.show("host", "stress", 1, 4, "pass [1]")
    bars.line("note: [something]")
    bars.end("host", "stress")
    bars.close()

    assert isinstance(bars, Bars)
    assert "stress on host" in told(world)
    assert "note: [something]" in told(world)


@pytest.mark.parametrize(("json", "quiet"), [(True, False), (False, True)])
def test_json_to_a_pipe_and_quiet_show_no_progress(tmp_path: Path, json: bool, quiet: bool) -> None:
    world, _clock = world_with(tmp_path, terminal=True)
    silent = meter(world, json=json, quiet=quiet)

    silent.show("host", "stress", 1, 4, "pass 1")
    silent.line("note: something")
    silent.close()

    assert isinstance(silent, Silent)
    assert told(world) == ("" if quiet else "note: something\n")


def test_the_watcher_ends_a_meter_with_its_probe(tmp_path: Path) -> None:
    world, clock = world_with(tmp_path)
    watcher = Watcher(world, Lines(world), None)

    watcher.started("host", "stress")
    clock.seconds = 50
    watcher.progressed("host", "stress", 1, 2, "")
    watcher.finished(Result("stress", "", "host", Verdict.PASS, "", CLEAN, (), (), "", Quantity(1, Unit.SECOND)))
    watcher.progressed("host", "stress", 1, 2, "")

    assert told(world) == "stress on host: 50%, about 50 s left\n"


def test_a_crash_without_room_for_details_is_still_a_sentence(tmp_path: Path) -> None:
    world, _clock = world_with(tmp_path)

    sentence = crash_sentence("Traceback\nKeyError: 'x'\n", world, tmp_path / "nosuch")

    assert sentence == "KeyError: 'x' (MATS_DEBUG=1 shows the details)"


@dataclass(frozen=True)
class PlannedFault:
    name: str = "stuck_bit"
    title: str = "A bit that never changes"
    signature: str = "one bit, one direction"
    cause: str = "a cell"
    advice: str = "Take it out of use."
    source: str = "a book"


def test_the_page_of_a_fault_says_who_catches_it_and_how_to_see_it() -> None:
    text = fault_page(PlannedFault(), [probe(CLEAN, "stress")])

    assert text.splitlines() == [
        "stuck_bit  A bit that never changes",
        "  looks like  one bit, one direction",
        "  cause       a cell",
        "  advice      Take it out of use.",
        "  source      a book",
        "  caught by   stress",
        "  simulate    mats stress --target sim:stuck_bit",
    ]


def test_a_fault_is_explained(tmp_path: Path) -> None:
    world = dataclasses.replace(
        fake_world(tmp_path, (probe(CLEAN, "stress"),)), faults=lambda: {"stuck_bit": PlannedFault()}
    )

    assert main(["explain", "stuck_bit"], world) == 0
    assert "one bit, one direction" in printed(world)


def test_the_page_of_a_probe_without_limits_says_so() -> None:
    assert "it measures and does not judge" in probe_page(probe(CLEAN, limits=()), "Page.")


def test_plans_are_listed_in_a_column() -> None:
    assert plans_page([("a", "first"), ("longer", "second")]).splitlines()[2:] == [
        "sim:a       first",
        "sim:longer  second",
    ]


class Screen(io.TextIOWrapper):
    """A terminal of an encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "terminal", "blocks"),
    [
        (Screen("utf-8"), "xterm-256color", True),
        (Screen("UTF8"), "", True),
        (Screen("ascii"), "xterm", False),
        (Screen("iso-8859-1"), "xterm", False),
        (Screen("utf-8"), "linux", False),
        (Screen("utf-8"), "dumb", False),
        (io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), "xterm", False),
        (io.StringIO(), "xterm", False),
    ],
)
def test_maps_have_block_characters_only_on_a_terminal_that_shows_them(
    tmp_path: Path, stream: TextIO, terminal: str, blocks: bool
) -> None:
    world, _ = world_with(tmp_path, TERM=terminal)

    assert has_blocks(dataclasses.replace(world, stdout=stream)) is blocks
