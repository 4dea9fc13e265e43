"""``mats smi`` through its options: when it ends, what it shows, keeps and says, and the exit code."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mats.cli.main import main
from mats.cli.smi import smi
from mats.cli.world import World
from mats.device import DeviceError
from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent
from mats.probe import UsageError
from mats.target import Target

from .planned import PlannedSampler, gone, gpu, machine

TWO = machine(gpu(0), gpu(1))
NOBODY = MachineFacts(
    nvml_failure="NVML: the NVIDIA driver is not loaded", gpus=Absent(AbsenceKind.NOT_FOUND, "NVML: not loaded")
)


def world_of(folder: Path) -> World:
    return World(stdout=io.StringIO(), stderr=io.StringIO(), environment={"COLUMNS": "100"}, folder=folder, root=folder)


def do(folder: Path, sampler: PlannedSampler, **values: Any) -> tuple[int, str, str]:
    """Exit code, what was printed and what was told."""
    world = world_of(folder)
    code = smi({"interval": "10ms", **values}, world, lambda _target: sampler)
    assert isinstance(world.stdout, io.StringIO) and isinstance(world.stderr, io.StringIO)
    return code, world.stdout.getvalue(), world.stderr.getvalue()


def test_once_shows_one_table_and_ends(tmp_path: Path) -> None:
    sampler = PlannedSampler([TWO])

    code, printed, told = do(tmp_path, sampler, once=True)

    assert (code, told) == (0, "")
    assert printed.count("GPU  name") == 1
    assert "The sample took" in printed


def test_where_no_terminal_is_each_sample_is_lines_of_its_own(tmp_path: Path) -> None:
    code, printed, _told = do(tmp_path, PlannedSampler([TWO]), count="3")

    assert code == 0
    assert printed.count("GPU  name") == 3
    assert "\x1b" not in printed


def test_a_duration_ends_it(tmp_path: Path) -> None:
    code, printed, _told = do(tmp_path, PlannedSampler([TWO]), duration="200ms")

    assert code == 0
    assert 1 <= printed.count("GPU  name") <= 22


def test_a_recording_goes_to_standard_output_alone(tmp_path: Path) -> None:
    _code, printed, told = do(tmp_path, PlannedSampler([TWO]), json=True, count="2")

    rows = [json.loads(line) for line in printed.splitlines()]
    assert [(row["sample"], row["gpu_index"]) for row in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert told == ""


@pytest.mark.parametrize(("name", "form"), [("a.csv", "csv"), ("a.jsonl", "json"), ("a", "json")])
def test_the_form_of_a_file_follows_its_name(tmp_path: Path, name: str, form: str) -> None:
    code, printed, told = do(tmp_path, PlannedSampler([TWO]), output=name, count="2")

    text = (tmp_path / name).read_text()
    rows = (
        list(csv.DictReader(io.StringIO(text))) if form == "csv" else [json.loads(line) for line in text.splitlines()]
    )
    assert (code, printed) == (0, "")
    assert len(rows) == 4
    assert told == f"2 samples in {tmp_path / name}\n"


def test_a_dash_is_standard_output(tmp_path: Path) -> None:
    _code, printed, _told = do(tmp_path, PlannedSampler([TWO]), output="-", count="1")

    assert len(printed.splitlines()) == 2


def test_a_file_that_is_there_is_not_written_over_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("of yesterday")

    with pytest.raises(UsageError, match=r"a\.csv is there already"):
        do(tmp_path, PlannedSampler([TWO]), output="a.csv", count="1")
    assert (tmp_path / "a.csv").read_text() == "of yesterday"

    do(tmp_path, PlannedSampler([TWO]), output="a.csv", count="1", force=True)
    assert "of yesterday" not in (tmp_path / "a.csv").read_text()


def test_without_a_gpu_it_ends_at_once_with_the_reason(tmp_path: Path) -> None:
    sampler = PlannedSampler([NOBODY])

    code, printed, told = do(tmp_path, sampler)

    assert (code, printed) == (3, "")
    assert told == "mats: no NVIDIA GPU can be watched: NVML: the NVIDIA driver is not loaded\n"
    assert sampler.asked <= 2


def test_a_gpu_that_dies_meanwhile_is_shown_by_its_name_and_the_others_go_on(tmp_path: Path) -> None:
    code, printed, _told = do(tmp_path, PlannedSampler([TWO, machine(gpu(0), gone(1))]), count="3")

    last = printed.rpartition("GPU  name")[2]
    assert code == 3
    assert "1  NVIDIA H100 80GB HBM3  does not answer: the GPU has fallen off the bus" in last
    assert "0  NVIDIA H100 80GB HBM3       31" in last


def test_a_driver_that_goes_meanwhile_is_unknown(tmp_path: Path) -> None:
    code, _printed, told = do(tmp_path, PlannedSampler([TWO, NOBODY]), count="2")

    assert code == 3
    assert "not loaded" in told


def test_what_sampling_raises_ends_it_with_what_was_seen_kept(tmp_path: Path) -> None:
    with pytest.raises(DeviceError):
        do(tmp_path, PlannedSampler([TWO, DeviceError("gone")]), output="a.jsonl")

    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"interval": "1ms"}, "--interval: 10 ms is the shortest"),
        ({"interval": "soon"}, "--interval: 'soon' is not a duration"),
        ({"count": "0"}, "--count: must be above 0"),
        ({"duration": "0"}, "--duration: must be above 0"),
        ({"count": "-1"}, "--count: '-1' is negative"),
        ({"once": True, "count": "4"}, "--once is --count 1"),
        ({"csv": True, "json": True}, "give --csv or --json"),
        ({"output": ""}, "--output needs the name of a file"),
        ({"gpu-id": ["abc"]}, "unknown GPU 'abc'"),
        ({"target": ["host"]}, "give GPUs, or one sim:PROFILE"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        do(tmp_path, PlannedSampler([TWO]), **values)


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    world = world_of(tmp_path)

    code = main(["smi", "--target", "sim:h100x8", "-o", "nowhere/a.csv"], world)

    assert code == 2
    assert isinstance(world.stderr, io.StringIO)
    assert world.stderr.getvalue().count("\n") == 1 and "nowhere" in world.stderr.getvalue()


@pytest.mark.parametrize(
    ("values", "name"),
    [({}, "cuda:all"), ({"gpu-id": ["0", "3"]}, "cuda:0,3"), ({"target": ["sim:wsl"]}, "sim:wsl")],
)
def test_the_gpus_that_were_named_are_watched(tmp_path: Path, values: dict[str, Any], name: str) -> None:
    opened: list[Target] = []

    def opening(target: Target) -> PlannedSampler:
        opened.append(target)
        return PlannedSampler([TWO])

    smi({"once": True, **values}, world_of(tmp_path), opening)

    assert [target.name for target in opened] == [name]
