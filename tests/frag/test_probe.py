"""The command on saved evidence: the conclusion is printed for a person, with the exit code of the finding."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path

import pytest

from mats.cli.exits import ExitCode
from mats.cli.main import main
from mats.cli.world import World
from mats.codec import run_from_json
from mats.model import Quantity, Unit
from tests.frag.test_torch_snapshot import FREE, MIB, USED, cases, event, frame, segment
from tests.sources.saved import path as case

GIB = 1 << 30


def mats(*words: str) -> tuple[int, str, str]:
    """Exit code, what is printed on one line, and what is said on standard error."""
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={})
    code = main(list(words), world)
    assert isinstance(world.stdout, io.StringIO) and isinstance(world.stderr, io.StringIO)
    return code, re.sub(r"\s+", " ", world.stdout.getvalue()), world.stderr.getvalue()


def saved(folder: Path, name: str, *segments: dict[str, object], events: tuple[dict[str, object], ...] = ()) -> str:
    file = folder / name
    file.write_bytes(pickle.dumps({"segments": list(segments), "device_traces": [list(events)]}))
    return str(file)


MESSAGES = {
    "oom_t25_fragmented.txt": (ExitCode.FINDINGS, "FRG-002", "expandable_segments:True"),
    "oom_t20_allowed_capacity.txt": (ExitCode.FINDINGS, "FRG-006", "the limit is the whole device: none was set"),
    "oom_hip_allowed_limit.txt": (ExitCode.FINDINGS, "FRG-007", "set_per_process_memory_fraction"),
    "oom_cupy_limit.txt": (ExitCode.FINDINGS, "FRG-007", "2.00 GiB"),
    "oom_xla_allocatable.txt": (ExitCode.FINDINGS, "FRG-002", "XLA_PYTHON_CLIENT_ALLOCATOR"),
    "oom_t25_three_processes.txt": (ExitCode.OK, "FRG-008", "Process 7302 holds 21.35 GiB"),
    "oom_cudaMallocAsync.txt": (ExitCode.UNKNOWN, "FRG-009", "17,718,879,192 bytes"),
    "oom_memory_summary_table.txt": (ExitCode.OK, "PASS", "2.537"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_explained_for_a_person(name: str) -> None:
    exit_code, finding, words = MESSAGES[name]

    code, text, _ = mats("frag", str(case(f"frag/{name}")))

    assert code == exit_code
    assert finding in text and words in text


def test_made_snapshots_are_explained_for_a_person(tmp_path: Path) -> None:
    cases(tmp_path)

    code, text, _ = mats("frag", str(tmp_path / "d_t23_stream_locked.pickle"))
    plain, other, _ = mats("frag", str(tmp_path / "b_t20_comb_oom.json"))

    assert (code, plain) == (ExitCode.FINDINGS, ExitCode.FINDINGS)
    assert "FRG-003" in text and "reach): 700.00 MiB" in text
    assert "FRG-002" in other


@pytest.mark.parametrize("name", ["h1_reduce.pickle", "h6_huge_length.pickle", "h7_truncated.pickle"])
def test_a_file_that_means_harm_is_a_sentence(tmp_path: Path, name: str) -> None:
    cases(tmp_path)

    code, text, said = mats("frag", str(tmp_path / name))

    assert code == ExitCode.UNUSABLE
    assert text == ""
    assert name in said and len(said.splitlines()) == 1


def test_a_need_is_answered_with_what_the_device_has_free(tmp_path: Path) -> None:
    comb = segment(*(((USED, 64 * MIB), (FREE, 64 * MIB)) * 16))
    file = saved(tmp_path, "comb.pickle", comb)

    unknown, _, said = mats("frag", file, "--need", "512MiB")
    refused, text, _ = mats("frag", file, "--need", "512MiB", "--free", "100MiB", "--threshold", "100%")
    fits, other, _ = mats("frag", file, "--need", "512MiB", "--free", "1GiB", "--threshold", "100%")

    assert unknown == ExitCode.UNKNOWN and "what was seen does not say why" in said
    assert refused == ExitCode.FINDINGS and "FRG-002" in text
    assert fits == ExitCode.OK and "512.00 MiB (536,870,912 bytes) can be had now" in other


@pytest.mark.parametrize(
    ("hole", "threshold", "warned"),
    [(2 * GIB, "18%", True), (2 * GIB, "40%", False), (500 * MIB, "1%", False)],
    ids=["above", "a higher threshold", "below the floor"],
)
def test_stuck_memory_warns_above_its_share_and_floor(tmp_path: Path, hole: int, threshold: str, warned: bool) -> None:
    file = saved(tmp_path, "cache.pickle", segment((USED, 4 * GIB), (FREE, hole), (USED, MIB)))

    code, text, _ = mats("frag", file, "--threshold", threshold)

    assert code == ExitCode.OK
    assert ("FRG-001" in text) is warned


def test_what_grew_between_two_snapshots_is_told(tmp_path: Path) -> None:
    early = saved(tmp_path, "early.pickle", segment((USED, 8 * MIB), (FREE, 12 * MIB)))
    grown = segment((USED, 8 * MIB), (USED, 4 * MIB), (FREE, 8 * MIB))
    grown["blocks"][1]["frames"] = [frame("leak", 3)]
    late = saved(tmp_path, "late.pickle", grown)

    code, text, _ = mats("frag", early, late)

    assert code == ExitCode.OK
    assert "What grew from early.pickle to late.pickle" in text
    assert "leak (/app/train.py:3) 0 4" in text


def test_the_timeline_names_who_held_the_peak(tmp_path: Path) -> None:
    events = (
        event("alloc", 0, 30 * MIB, frames=[frame("attention", 3)]),
        event("free_completed", 0, 30 * MIB),
        event("alloc", 0, 8 * MIB, frames=[frame("norm", 5)]),
    )
    file = saved(tmp_path, "past.pickle", segment((USED, 8 * MIB), (FREE, 32 * MIB)), events=events)

    _, text, _ = mats("frag", file, "--timeline")
    _, without, _ = mats("frag", file)

    assert "Who held the memory at the peak" in text and "attention (/app/train.py:3) 30" in text
    assert "What was had within the record and never given back" in text
    assert "Who held the memory at the peak" not in without


def test_the_saved_run_has_exact_bytes(tmp_path: Path) -> None:
    file = saved(tmp_path, "cache.pickle", segment((USED, 3 * MIB + 512), (FREE, 17 * MIB - 512)))

    _, text, _ = mats("frag", file, "--json")

    (result,) = run_from_json(text).results
    told = {each.name: each.reading for each in result.observation.measurements}
    assert told["frag.stuck"] == Quantity(17 * MIB - 512, Unit.BYTE)


def test_statistics_that_tell_nothing_of_what_is_free_are_not_in_order(tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    file.write_text('{"allocated_bytes.all.current": 5}')

    code, _, said = mats("frag", str(file))

    assert code == ExitCode.UNKNOWN
    assert "none was refused, and none is asked about" in said


def test_evidence_of_gpus_tells_nothing_of_a_process() -> None:
    code, _, said = mats("frag", str(case("health/smi_csv_gb10.csv")))

    assert code == ExitCode.UNKNOWN
    assert "nothing here tells of a process's own memory" in said


def test_health_names_the_command_that_reads_memory() -> None:
    code, _, said = mats("health", "--from", str(case("frag/oom_t25_fragmented.txt")))

    assert code == ExitCode.UNKNOWN
    assert "mats frag --from reads it" in said


def test_a_message_at_the_end_of_a_long_log_is_found(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.3\n" * 50_000 + case("frag/oom_t210_capacity.txt").read_text())

    code, text, _ = mats("frag", str(log))

    assert code == ExitCode.FINDINGS
    assert "FRG-006 GPU 3" in text
