"""What an earlier run had done, so that ``--resume`` goes on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass

from mats.model import Quantity, Result
from mats.probe import UsageError

from ._algorithms import ALGORITHMS


@dataclass(frozen=True, slots=True)
class Earlier:
    """Sums of an earlier run of the same device. Bytes and seconds; ``tests``: those that had completed a pass."""

    tests: tuple[str, ...] = ()
    errors: int = 0
    verified: int = 0
    written: int = 0
    passes: int = 0
    complementary: int = 0
    duration: float = 0.0
    rows: tuple[tuple[object, ...], ...] = ()
    """The rows of its table ``tests``."""


def read_earlier(result: Result | None) -> Earlier:
    """The sums of a saved result; nothing of None. What the result does not hold counts as nothing done.

    Raises UsageError for a result whose tester contradicted itself: its counts must neither be added nor forgotten.
    """
    if result is None:
        return Earlier()
    readings = {
        measurement.name: measurement.reading.value
        for measurement in result.observation.measurements
        if isinstance(measurement.reading, Quantity)
    }
    if readings.get("memory.contradictions"):
        raise UsageError("--resume: the counts of that run contradict each other and cannot be continued: start anew")
    rows = next((table.rows for table in result.observation.tables if table.name == "tests"), ())
    done = {str(row[0]): row[3] for row in rows if isinstance(row[3], int) and row[3] > 0}
    seconds = [row[7] for row in rows if isinstance(row[7], int | float)]
    return Earlier(
        tests=tuple(done),
        errors=int(readings.get("memory.errors", 0)),
        verified=int(readings.get("memory.bytes_verified", 0)),
        written=int(readings.get("memory.bytes_written", 0)),
        passes=int(readings.get("memory.passes", 0)),
        complementary=sum(int(n) for name, n in done.items() if name in ALGORITHMS and ALGORITHMS[name].complementary),
        duration=float(sum(seconds)),
        rows=tuple(rows),
    )
