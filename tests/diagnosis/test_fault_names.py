"""Each fault of the catalogue, over several memory organisations, gets its name: the confusion matrix."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mats.probes._catalogue import CATALOGUE
from mats.probes._diagnosis import diagnose

from .fault_generator import run
from .faults import MAKERS, Fault
from .geometry import ORGANISATIONS, Memory, Organisation
from .sweeps import schedule

Maker = Callable[[Memory, random.Random], Fault]
SEEDS = 2
ENOUGH = 50


def names_of(maker: Maker, organisation: Organisation, seed: int) -> tuple[str, ...] | None:
    """The names for one fault in one memory; None when the run gave fewer errors than a name needs."""
    rng = random.Random(f"{maker.__name__} {organisation.name} {seed}")
    memory = Memory(organisation, rng.choice((16, 16, 48)), rng)
    fault = maker(memory, rng)
    if len(fault.words) > 1_000:
        sweeps = schedule(1, frozenset({"own_address", "rotated_address", "random", "checkerboard"}))
    else:
        sweeps = schedule(12 if len(fault.words) <= 30 else rng.choice((1, 2)))
    records, totals = run(memory, [fault], sweeps, cap=rng.choice((100, 1_000, 65_536)), sparse=seed % 2 == 1)
    if len(records) < ENOUGH:
        return None
    return tuple(diagnosis.fault for diagnosis in diagnose(records, totals))


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_a_fault_with_fifty_errors_gets_its_name_and_no_other(maker: Maker) -> None:
    trials = [names_of(maker, organisation, seed) for organisation in ORGANISATIONS for seed in range(SEEDS)]

    matrix = Counter(names for names in trials if names is not None)

    right = matrix[(maker.__name__,)]
    wrong = {names: count for names, count in matrix.items() if set(names) - {maker.__name__, "unstructured"}}
    assert matrix.total() >= 7, "too few runs gave enough errors"
    assert not wrong
    assert right >= 0.95 * (matrix.total() - 1), matrix


def test_every_fault_that_shows_in_errors_is_tried() -> None:
    not_in_errors = {"silent_retry", "spilled", "counter_corrupt", "tester_unreliable", "soft_upset"}

    assert {maker.__name__ for maker in MAKERS} == set(CATALOGUE) - not_in_errors


def test_no_text_names_a_memory_device_or_a_place_on_the_board() -> None:
    texts = [
        text.lower()
        for fault in CATALOGUE.values()
        for text in (fault.title, fault.signature, fault.cause, fault.advice)
    ]

    assert not [text for text in texts if "chip" in text or "board position" in text or "health" in text]


def test_the_generator_is_independent_of_the_classifier() -> None:
    folder = Path(__file__).parent

    texts = [(folder / name).read_text(encoding="utf-8") for name in ("geometry.py", "faults.py", "sweeps.py")]

    assert not [text for text in texts if "mats.probes" in text]
