"""Two faults at once get two names, where their signatures can be told apart; never a third name."""

from __future__ import annotations

import random

import pytest

from mats.probes._diagnosis import diagnose

from . import faults
from .fault_generator import run
from .faults import Fault, Seen
from .geometry import ORGANISATIONS, Memory
from .sweeps import Sweep, schedule
from .test_fault_names import Maker

PAIRS: tuple[tuple[Maker, Maker], ...] = (
    (faults.stuck_cell, faults.stuck_dq),
    (faults.stuck_cell, faults.weak_retention),
    (faults.stuck_cell, faults.dead_channel),
    (faults.stuck_cell, faults.coupling),
    (faults.stuck_cell, faults.core_fault),
    (faults.stuck_dq, faults.dead_channel),
    (faults.stuck_dq, faults.lost_write),
    (faults.stuck_dq, faults.failing_row),
    (faults.flaky_dq, faults.weak_retention),
    (faults.byte_lane, faults.failing_row),
    (faults.address_alias, faults.failing_column),
    (faults.lost_write, faults.failing_row),
)


def memory_of(seed: str) -> tuple[Memory, random.Random]:
    rng = random.Random(seed)
    return Memory(rng.choice(ORGANISATIONS), 16, rng), rng


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].__name__} and {pair[1].__name__}")
def test_two_faults_get_two_names(pair: tuple[Maker, Maker]) -> None:
    first, second = pair
    memory, rng = memory_of(f"{first.__name__} {second.__name__}")

    records, totals = run(memory, [first(memory, rng), second(memory, rng)], schedule(2))
    names = {diagnosis.fault for diagnosis in diagnose(records, totals)}

    assert names == {first.__name__, second.__name__}


def line(memory: Memory, rng: random.Random, channel: int, number: int) -> Fault:
    def effect(word: int, sweep: Sweep) -> Seen | None:
        expected = sweep.expected(word)
        actual = expected | memory.line_mask(number)
        return None if actual == expected else Seen(actual, (actual, actual), actual, True)

    return Fault("stuck_dq", memory.words_where(160, channel=channel), effect)


def test_two_lines_in_two_channels_are_two_faults_and_point_to_the_controller() -> None:
    rng = random.Random(7)
    memory = Memory(ORGANISATIONS[0], 16, rng)

    records, totals = run(memory, [line(memory, rng, 1, 5), line(memory, rng, 6, 9)], schedule(1))
    found = diagnose(records, totals)

    assert [diagnosis.fault for diagnosis in found] == ["stuck_dq", "stuck_dq"]
    assert {diagnosis.evidence[0].split(":")[0] for diagnosis in found} == {
        "bits 5 and 21 of every 32-bit word",
        "bits 9 and 25 of every 32-bit word",
    }
    assert all("controller" in diagnosis.advice for diagnosis in found)


def test_two_lines_of_one_channel_are_one_fault() -> None:
    rng = random.Random(8)
    memory = Memory(ORGANISATIONS[0], 16, rng)
    words = memory.words_where(160, channel=1)

    def effect(word: int, sweep: Sweep) -> Seen | None:
        expected = sweep.expected(word)
        actual = expected | memory.line_mask(5) | memory.line_mask(9)
        return None if actual == expected else Seen(actual, (actual, actual), actual, True)

    records, totals = run(memory, [Fault("stuck_dq", words, effect)], schedule(1))
    found = diagnose(records, totals)

    assert [diagnosis.fault for diagnosis in found] == ["stuck_dq"]
    assert found[0].evidence[0].startswith("bits 5, 9, 21 and 25 of every 32-bit word")
