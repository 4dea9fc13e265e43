"""The fault matrix and the clean runs of benchmarks/fault_matrix.py, held to what the project promises.

Everything here is simulated: the tests and the classifier are measured against the project's own fault model.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mats.model import Verdict

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fault_matrix.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fault_matrix", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fault_matrix"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


MATRIX = load()
SHAPES = ("gddr6-256", "hbm3-5", "hbm3-6")
CLEAN_RUNS, GROUP = 1000, 50

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("shape", "capacity"), [*((shape, 16) for shape in SHAPES), ("gddr6-384", 32)], ids=lambda value: str(value)
)
def test_every_fault_is_found_and_named(shape: str, capacity: int) -> None:
    # when
    seen = MATRIX.run_all(MATRIX.faulty_cases((11,), (shape,), capacity << 20), workers=1)
    # then: each location-bound hard fault is found; names are right, and "unstructured" rather than wrong
    right, wrong = MATRIX.shares(seen)
    named = [(case.case.fault, case.names, case.records) for case in seen if not case.right or case.wrong]
    assert [case.case for case in seen if case.case.fault in MATRIX.HARD and not case.found] == []
    assert right >= 0.95, named
    assert wrong < 0.01, named
    assert [case.names for case in seen if case.records < MATRIX.ENOUGH_RECORDS and case.wrong] == []


@pytest.mark.parametrize("first", range(0, CLEAN_RUNS, GROUP))
def test_clean_memory_raises_no_alarm(first: int) -> None:
    cases = MATRIX.clean_cases(CLEAN_RUNS)[first : first + GROUP]
    alarms = [result for result in MATRIX.run_all(cases, 1) if result.verdict is not Verdict.PASS or result.codes]
    assert alarms == []
