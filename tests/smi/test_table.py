"""The table as a person sees it, wide and narrow, healthy and not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mats.cli._smi_table import NARROWEST, lines
from mats.facts import UNASKED, CallFacts, ClockFacts, GpuFacts, MachineFacts, MemoryFacts, PowerFacts, ProcessFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit

from .planned import HIDDEN, HUNG, frame, gone, gpu, machine, process, sample

BUSY = machine(
    gpu(0, processes=(process(4121), process(977, HIDDEN, "Xorg"))),
    dataclasses.replace(
        gpu(1), clocks=dataclasses.replace(gpu(1).clocks, reasons=("software power cap", "hardware thermal slowdown"))
    ),
    gone(2),
    dataclasses.replace(gpu(3), temperature=HUNG),
    slow=(CallFacts("nvmlDeviceGetTemperature", "3", 2.0, answered=False),),
)


def text(facts: MachineFacts, width: int = 100, height: int | None = None, **changes: object) -> str:
    return "\n".join(line.text for line in lines(frame(facts, **changes), width, height)) + "\n"


def test_the_table_as_it_looks_at_100_columns() -> None:
    shown = text(BUSY, names=((2, "NVIDIA H100 80GB HBM3"),))

    assert (
        shown
        == """\
2026-01-31 12:00:01+00:00  driver 575.57.08  4 GPUs

GPU  name                   temp °C    power W  busy %   memory GiB  core MHz  memory MHz  P-state
  0  NVIDIA H100 80GB HBM3       31   71 / 700       7   1.0 / 80.0     1,980       2,619        0
  1  NVIDIA H100 80GB HBM3       32   71 / 700       7   1.0 / 80.0     1,980       2,619        0
  2  NVIDIA H100 80GB HBM3  does not answer: the GPU has fallen off the bus or is otherwise
                            inaccessible
  3  NVIDIA H100 80GB HBM3        ?   71 / 700       7   1.0 / 80.0     1,980       2,619        0

GPU  process  memory MiB  program
  0     4121         512  python train.py
  0      977     unknown  Xorg

GPU 1: clocks held down by software power cap, hardware thermal slowdown

? GPU 0 memory of a process: this operating system does not tell it to NVML
? GPU 3 temperature: nvmlDeviceGetTemperature did not return within 2.0 s

Sample 1 took 12 ms (median 12 ms, longest 12 ms), one every 1 s. mats itself: 1.2% of one core.
nvmlDeviceGetTemperature did not return on GPU 3 within 2.0 s.
"""
    )


def test_what_finds_no_room_is_named() -> None:
    shown = text(machine(gpu()), width=60)

    assert "GPU  name                   temp °C  busy %   memory GiB\n" in shown
    assert "No room here for power W, core MHz, memory MHz, P-state." in " ".join(shown.split())


@pytest.mark.parametrize("width", [20, NARROWEST, 60, 80, 100, 160, 400])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    shown = text(BUSY, width=width, simulated="sim:h100x8", waiting=3.2, left_out=1200)

    assert max(map(len, shown.splitlines())) <= max(width, NARROWEST)


@pytest.mark.parametrize("height", [10, 24, 40])
def test_many_processes_leave_room_for_the_rest(height: int) -> None:
    crowd = machine(gpu(processes=tuple(process(pid) for pid in range(100, 200))))

    shown = text(crowd, height=height)

    assert "more processes, for which there is no room" in shown
    assert len(shown.splitlines()) <= max(height, 13)
    assert "mats itself" in shown


def test_a_column_keeps_its_width_while_its_numbers_change() -> None:
    hot = dataclasses.replace(gpu(), power=Quantity(699.6, Unit.WATT), memory=gpu().memory)
    heads = {text(machine(each)).splitlines()[2] for each in (gpu(), hot)}

    assert len(heads) == 1


def test_a_gpu_at_rest_is_not_said_to_be_held_down() -> None:
    assert "held down" not in text(machine(gpu()))


def test_one_sample_alone_has_no_pace() -> None:
    shown = text(machine(gpu()), interval=0.0)

    assert "The sample took 12 ms, and mats itself 500 ms of processor time." in shown
    assert "one every" not in shown


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sample": sample(BUSY, seconds=0.25), "interval": 0.1}, "took longer than the interval of 100 ms"),
        ({"left_out": 3}, "3 moments passed without a sample"),
        ({"waiting": 1.44}, "The driver has not answered for 1.4 s; what is shown is of before"),
        ({"simulated": "sim:x"}, "SIMULATED: sim:x, no real GPU"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in text(BUSY, **changes)
    assert sentence not in text(BUSY)


def test_gpus_without_names_and_drivers_without_lists_are_shown() -> None:
    empty = MachineFacts(gpus=Absent(AbsenceKind.NOT_FOUND, "NVML: not installed"))

    assert "driver unknown  0 GPUs" in text(empty)
    assert "does not answer" in text(machine(GpuFacts(answers=False)))


def test_a_programs_name_cannot_drive_the_terminal() -> None:
    shown = text(machine(gpu(processes=(process(1, name="\x1b[2Jevil\nname"),))))

    assert "\x1b" not in shown and "evil\ufffdname" in shown


READINGS = st.one_of(
    st.just(UNASKED),
    st.just(HUNG),
    st.builds(Quantity, st.floats(-1e20, 1e20), st.sampled_from(list(Unit))),
)
TEXTS = st.one_of(st.just(UNASKED), st.text(max_size=40))
PROCESSES = st.builds(ProcessFacts, st.integers(0, 2**31), READINGS, st.booleans(), TEXTS)
GPUS = st.builds(
    GpuFacts,
    uuid=TEXTS,
    name=TEXTS,
    temperature=READINGS,
    power=READINGS,
    performance_state=READINGS,
    clocks=st.builds(
        ClockFacts,
        core=READINGS,
        memory=READINGS,
        reasons=st.one_of(st.just(UNASKED), st.lists(st.text(max_size=20), max_size=3).map(tuple)),
    ),
    memory=st.builds(MemoryFacts, total=READINGS, used=READINGS),
    processes=st.one_of(st.just(UNASKED), st.lists(PROCESSES, max_size=3).map(tuple)),
    index=READINGS,
    pci=TEXTS,
    answers=st.one_of(st.booleans(), st.just(HUNG)),
    power_limits=st.builds(PowerFacts, limit=READINGS),
    busy=READINGS,
)


@settings(max_examples=150)
@given(st.lists(GPUS, max_size=4), st.integers(1, 200), st.one_of(st.none(), st.integers(1, 60)))
def test_any_facts_make_a_table(gpus: list[GpuFacts], width: int, height: int | None) -> None:
    shown = lines(frame(machine(*gpus)), width, height)

    assert all("\n" not in line.text for line in shown)
