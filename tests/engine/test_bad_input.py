"""Mistakes of the user and of mats itself: one sentence, the right exit code, nothing else lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.model import Run
from mats.report import Report

from .commands import HEALTHY, OPTIONS, Keeping, do, raises
from .fakes import TEXT_REPORT, FakeDevice, printed, probe, told


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        ("stress --size -1", 2, "--size: '-1' is negative"),
        ("stress --size lots", 2, "--size: 'lots' is not a size"),
        ("stress --passes 1.5", 2, "--passes: '1.5' is not a whole number"),
        ("stress --coverage 150%", 2, "--coverage: '150%' is not between 0 and 1"),
        ("stress --duration 1y", 2, "--duration: '1y' has no time suffix"),
        ("stress --timeout 0", 2, "--timeout: must be above 0"),
        ("stress --seed x", 2, "--seed: 'x' is not a whole number"),
        ("stress --target gpu:0", 2, "unknown target 'gpu:0': use cuda:0, cuda:all, host, sim:PLAN or file:PATH"),
        ("stress --target sim:nosuch", 2, "there is no target sim:nosuch"),
        ("stress --gpu-id first", 2, "unknown GPU 'first'"),
        ("stress --gpu-id 0 --target host", 2, "give --target or --gpu-id, not both"),
        ("stress --fail-on never", 2, "--fail-on: unknown severity 'never'"),
        ("stress --require nosuch", 2, "--require: there is no probe 'nosuch'; there are stress"),
        ("stress --limits nosuch.toml", 2, "--limits: nosuch.toml cannot be read: no such file or directory"),
        ("stress --limits typo.toml", 2, "typo.toml: [limits.STRESS-001]: unknown key 'buond'"),
        ("stress --limits code.toml", 2, "code.toml: [limits.STRESS-002]: there is no such limit"),
        ("stress --limits unit.toml", 2, "the unit must be count (fake.errors), not s"),
        ("stress --out a-file", 2, "--out: "),
        ("stress --out a-file/below", 2, "cannot be made: not a directory"),
        ("stress --junit nosuch/x.xml", 2, "nosuch: no such file or directory"),
        ("stress --junit .", 2, "it is a folder"),
        ("stress --bad-ranges nosuch/x.csv", 2, "no such file or directory"),
        (["stress", "--html", ""], 2, "--html needs the name of a file"),
        (["stress", "--html", "-"], 2, "to standard output alone: --html /dev/stdout --quiet"),
        (["stress", "--bad-ranges", "-"], 2, "--bad-ranges needs the name of a file"),
        (["stress", "--bad-ranges", ""], 2, "--bad-ranges needs the name of a file"),
        ("stress --html same --junit same", 2, "same is named for two files: one would be written over the other"),
        ("stress --out here --bad-ranges here/run.json", 2, "run.json is named for two files"),
        ("stress --resume cut.json", 2, "cut.json cannot be read: the file is cut off"),
        ("stress --resume other.json", 2, "other.json cannot be read: "),
        ("stress --siez 3", 2, "No such option"),
        ("stress --quiet --size", 2, "requires an argument"),
        ("stress host", 2, "unexpected extra argument"),
        ("--size 3 stress", 2, "--size stands before a command"),
        ("--stress --all", 2, "--stress and --all cannot be run together"),
        ("judge cut.json", 2, "cut.json cannot be read: the file is cut off"),
        ("judge nosuch.json", 2, "nosuch.json cannot be read: no such file or directory"),
        ("judge .", 2, "run.json cannot be read: no such file or directory"),
        ("judge empty.json", 2, "empty.json cannot be read: the file is empty"),
        ("judge binary.json", 2, "binary.json cannot be read: it is not text"),
        ("report cut.json", 2, "the file is cut off"),
        ("report", 2, "Missing argument"),
        ("--mem-pattern 0xdead", 2, "unexpected extra argument(s) (0xdead) (see mats stress --help)"),
        ("explain stres", 2, "nothing is known of 'stres' (did you mean 'stress'?)"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path: Path, argv: str | list[str], code: int, sentence: str) -> None:
    words = argv.split() if isinstance(argv, str) else argv
    (tmp_path / "a-file").write_text("kept")
    (tmp_path / "cut.json").write_text('{"schema_version": 1, "tool": "ma')
    (tmp_path / "other.json").write_text('{"name": "other"}')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "typo.toml").write_text('[limits.STRESS-001]\nbuond = 5\nunit = "count"\n')
    (tmp_path / "code.toml").write_text('[limits.STRESS-002]\nbound = 5\nunit = "count"\n')
    (tmp_path / "unit.toml").write_text('[limits.STRESS-001]\nbound = 5\nunit = "s"\n')
    measured = Keeping()
    quiet = [] if words[0].startswith(("explain", "report", "-")) or "--quiet" in words else ["--quiet"]
    planned = probe(measured, "stress", options=OPTIONS, aliases=("mem-pattern",))

    given, world = do(tmp_path, [*words, *quiet], planned)

    lines = [line for line in told(world).splitlines() if line.startswith("mats: ")]
    assert given == code
    assert len(lines) == 1
    assert sentence in lines[0]
    assert "Traceback" not in told(world)
    assert not measured.options, "nothing may be measured after a mistake"
    assert (tmp_path / "a-file").read_text() == "kept"


def test_a_mistake_in_mats_is_one_sentence_and_a_file_with_the_details(tmp_path: Path) -> None:
    code, world = do(tmp_path, "stress --target host --quiet --out run", raises(KeyError("x")))
    assert code == 2

    code, world = do(tmp_path, "failing --target host --quiet --out run", raises(KeyError("x")))

    (details,) = (tmp_path / "run").glob("mats-error-*.txt")
    assert code == 2
    assert "failing on host failed unexpectedly: KeyError: 'x'" in told(world)
    assert str(details) in told(world)
    assert "Traceback" in details.read_text() and "Traceback" not in told(world)


def test_where_nothing_was_seen_the_reason_is_all_that_is_said(tmp_path: Path) -> None:
    devices: dict[str, FakeDevice | Exception] = {"cuda:0": DeviceError("the driver is too old")}

    code, world = do(tmp_path, "stress --gpu-id 0", HEALTHY, devices=devices)

    assert (code, printed(world)) == (3, "")
    assert told(world) == "mats: not known: stress on cuda:0: the driver is too old\n"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    _code, world = do(tmp_path, "failing --target host --quiet", raises(KeyError("x")), environment={"MATS_DEBUG": "1"})

    assert "Traceback" in told(world)


def test_a_mistake_in_a_report_does_not_lose_the_others(tmp_path: Path) -> None:
    def full(_run: Run) -> str:
        raise OSError(28, "No space left on device")

    code, world = do(
        tmp_path,
        "stress --out run --quiet",
        HEALTHY,
        reports={"html": Report("html", "html", full), "junit": TEXT_REPORT},
    )

    assert code == 2
    assert (tmp_path / "run" / "junit.xml").exists()
    assert "report.html could not be written: no space left on device" in told(world)
