"""``mats capture``: what is written and where, and what is refused before anything is read."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mats.cli.capture import capture
from mats.cli.exits import ExitCode
from mats.cli.world import World
from mats.facts import GpuFacts, HostFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.probe import UsageError
from mats.source import NothingThere, SourceError
from mats.sources.saved import open_source

from .commands import HEALTHY, do
from .fakes import Clock, FakeSource, fake_world, printed, target_info, told

UUID = "GPU-12345678-1111-2222-3333-123456789abc"
NOT_READ = Absent(AbsenceKind.NO_PERMISSION, "kernel log: no permission")
FACTS = MachineFacts(
    gpus=(GpuFacts(index=Quantity(0, Unit.COUNT), uuid=UUID),), host=HostFacts(name="falcon-node07"), log=NOT_READ
)
SOURCES: Mapping[str, FakeSource | Exception] = {
    name: FakeSource(target_info(name, name.split(":")[0]), dataclasses.replace(FACTS, simulated="sim" in name))
    for name in ("cuda:all", "cuda:0", "sim:h100x8")
}


def saved(path: Path) -> MachineFacts:
    return open_source((path,)).read()


def raw(facts: MachineFacts, seconds: float, root: Path) -> tuple[tuple[str, str], ...]:
    return (("nvidia-smi", f"of {UUID}"),)


def world_of(tmp_path: Path, **changed: object) -> World:
    """A world whose clock stands still, with these fields changed."""
    world = fake_world(tmp_path, (HEALTHY,), sources=SOURCES)
    return dataclasses.replace(world, **{"clock": Clock(), **changed})  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def captured(tmp_path: Path, **values: object) -> tuple[int, World]:
    world = world_of(tmp_path)
    return capture(values, world, raw), world


def test_a_simulated_machine_is_written_and_said(tmp_path: Path) -> None:
    code, world = do(tmp_path, "capture --target sim:h100x8 -o out.gz", HEALTHY, sources=SOURCES)

    assert code == ExitCode.OK, told(world)
    assert saved(tmp_path / "out.gz").gpus == FACTS.gpus
    assert open_source((tmp_path / "out.gz",)).describe().simulated is True
    lines = printed(world).splitlines()
    assert lines[0].startswith("out.gz: 1 simulated GPU, ")
    assert lines[1] == "No kernel log: no permission."
    assert lines[-1] == "To judge it, here or elsewhere: mats health --from out.gz"


def test_raw_texts_stand_beside_the_facts_of_this_machine_only(tmp_path: Path) -> None:
    captured(tmp_path, output="own.gz")
    captured(tmp_path, output="sim.gz", target=["sim:h100x8"])

    texts = [json.loads(gzip.decompress((tmp_path / name).read_bytes()))["raw"] for name in ("own.gz", "sim.gz")]

    assert texts == [{"nvidia-smi": f"of {UUID}"}, {}]


def test_without_a_name_the_file_is_named_by_the_time(tmp_path: Path) -> None:
    captured(tmp_path)

    assert [path.name for path in tmp_path.glob("*.gz")] == ["mats-capture-20250131-120000.json.gz"]


def test_redacted_facts_and_texts_hold_no_identity(tmp_path: Path) -> None:
    _, world = captured(tmp_path, output="out.gz", redact=True)

    text = gzip.decompress((tmp_path / "out.gz").read_bytes()).decode()
    assert UUID not in text and "falcon" not in text
    assert "Names and numbers of identity are replaced" in printed(world)


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "out.gz").write_text("precious")

    refused, world = do(tmp_path, "capture -o out.gz --target sim:h100x8", HEALTHY, sources=SOURCES)
    kept = (tmp_path / "out.gz").read_text()
    forced, _ = do(tmp_path, "capture -o out.gz --target sim:h100x8 --force", HEALTHY, sources=SOURCES)

    assert (refused, forced) == (ExitCode.UNUSABLE, ExitCode.OK)
    assert kept == "precious"
    assert "is there already; --force writes over it" in told(world)
    assert saved(tmp_path / "out.gz").gpus == FACTS.gpus


@pytest.mark.parametrize(
    ("name", "says"),
    [("folder", "is a folder"), ("none/out.gz", "there is no folder"), ("locked/out.gz", "no permission")],
)
def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(
    tmp_path: Path, name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path))

    code, world = do(tmp_path, f"capture -o {name} --target sim:h100x8", HEALTHY, sources={})

    assert code == ExitCode.UNUSABLE
    assert says in told(world) and told(world).count("\n") == 1


def test_a_disk_that_is_full_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    code, world = do(tmp_path, "capture -o out.gz --target sim:h100x8", HEALTHY, sources=SOURCES)

    assert code == ExitCode.UNUSABLE
    assert told(world).strip().endswith("cannot be written: No space left on device")
    assert list(tmp_path.glob("*out*")) == []


def test_standard_output_carries_the_packed_file_and_nothing_else(tmp_path: Path) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    world = world_of(tmp_path, stdout=stream)

    code = capture({"output": "-", "target": ["sim:h100x8"]}, world, raw)

    data = stream.buffer.getvalue()
    assert code == ExitCode.OK
    assert json.loads(gzip.decompress(data))["schema_version"] == 1


def test_a_terminal_is_not_filled_with_a_packed_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no text for a terminal"):
        capture({"output": "-", "target": ["sim:h100x8"]}, world_of(tmp_path, stdout=Terminal()), raw)


def test_a_machine_without_a_gpu_is_captured_all_the_same(tmp_path: Path) -> None:
    seen = MachineFacts(gpus=(), host=HostFacts(name="x"))
    world = fake_world(tmp_path, (HEALTHY,), sources={"cuda:all": NothingThere("there is no NVIDIA GPU here", seen)})

    code = capture({"output": "out.gz"}, world, raw)

    assert code == ExitCode.OK
    assert "0 GPUs" in printed(world) and "There is no NVIDIA GPU here." in printed(world)
    assert (tmp_path / "out.gz").exists()


def test_a_source_that_cannot_be_read_leaves_no_file(tmp_path: Path) -> None:
    sources = {"cuda:all": SourceError("the driver does not answer")}

    code, world = do(tmp_path, "capture -o out.gz", HEALTHY, sources=sources)

    assert code == ExitCode.UNUSABLE
    assert told(world) == "mats: the driver does not answer\n"
    assert not (tmp_path / "out.gz").exists()
