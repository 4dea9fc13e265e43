"""What every check came to on every part of a target, and every reading of every part: rows of words for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mats.model import Absent, Limit, Quantity, Result

from ._format import measurement_name, quantity_text
from ._grid import Grid
from ._parts import Check, Outcome, Standing, checks_of, part_label, part_of, part_text, parts_of

_SYMBOL = {
    Standing.FAIL: "\u2717",
    Standing.UNKNOWN: "?",
    Standing.WARN: "!",
    Standing.NOT_SEEN: "?",
    Standing.NOTE: "i",
    Standing.NOT_SUPPORTED: "\u2013",
    Standing.IN_ORDER: "\u2713",
}
"""A mark beside the word, so that neither colour nor reading alone is needed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A cell: how a check came out, in a symbol and a word, with the reading or why there is none."""

    symbol: str
    word: str
    text: str

    @property
    def name(self) -> str:
        """The word as the name of a style."""
        return self.word.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Checks in rows, parts in columns; ``quiet`` rows are in order or not supported on every part."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Limit, tuple[Mark | None, ...]], ...]
    quiet: tuple[tuple[Limit, tuple[Mark | None, ...]], ...]


def matrix_of(result: Result, kind: str) -> Matrix:
    """The gravest rows first. A check of the whole target stands in a column of its own, where there is one."""
    label, parts = part_label(result.observation), parts_of(result.observation)
    checks = sorted(checks_of(result, kind), key=lambda check: list(Standing).index(check.standing))
    whole = any(not outcome.part for check in checks for outcome in check.outcomes)
    columns = (*(("",) if whole else ()), *parts)
    calm = (Standing.IN_ORDER, Standing.NOT_SUPPORTED)
    rows = [
        (check.limit, _marks(check, columns), all(item.standing in calm for item in check.outcomes)) for check in checks
    ]
    return Matrix(
        heads=tuple(part_text(label, [part]) if part else "machine" for part in columns),
        rows=tuple((limit, marks) for limit, marks, quiet in rows if not quiet),
        quiet=tuple((limit, marks) for limit, marks, quiet in rows if quiet),
    )


def _marks(check: Check, columns: Sequence[str]) -> tuple[Mark | None, ...]:
    outcomes = {outcome.part: outcome for outcome in check.outcomes}
    return tuple(_mark(outcomes[part]) if part in outcomes else None for part in columns)


def _mark(outcome: Outcome) -> Mark:
    readings = [item.reading for item in outcome.measurements if isinstance(item.reading, Quantity)]
    broken = [finding.measurement.reading for finding in outcome.findings]
    shown = [reading for reading in broken if isinstance(reading, Quantity)] or readings
    text = ", ".join(dict.fromkeys(quantity_text(reading) for reading in shown)) or outcome.why
    return Mark(_SYMBOL[outcome.standing], outcome.standing.value, text)


def readings_matrix(result: Result) -> Grid:
    """Every reading by its name, a column for each part."""
    label, parts = part_label(result.observation), parts_of(result.observation)
    cells: dict[str, dict[str, str]] = {}
    for measurement in result.observation.measurements:
        reading = measurement.reading
        text = "not seen" if isinstance(reading, Absent) else quantity_text(reading)
        cells.setdefault(measurement_name(measurement, label), {})[part_of(measurement, label)] = text
    whole = any("" in row for row in cells.values())
    columns = (*(("",) if whole else ()), *parts)
    heads = tuple(part_text(label, [part]) if part else "machine" for part in columns)
    return Grid(
        name="readings",
        title="Readings",
        heads=("reading", *heads),
        rows=tuple((name, *(row.get(part, "") for part in columns)) for name, row in cells.items()),
        numeric=(False, *(True for _ in columns)),
    )
