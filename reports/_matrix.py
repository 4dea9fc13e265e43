"""What every check came to on every part of a target, and every reading of every part: rows of words for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mats.model import Absent, Limit, Quantity, Result

from ._format import measurement_name, quantity_text
from ._grid import NOT_SEEN, Grid
from ._parts import (
    Check,
    Outcome,
    Standing,
    checks_of,
    hidden_parts,
    part_label,
    part_of,
    part_text,
    parts_of,
    sorted_parts,
)

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
    """A cell: how a check came out, in a symbol and a word, with the reading that broke it."""

    symbol: str
    word: str
    text: str

    @property
    def name(self) -> str:
        """The word as the name of a style."""
        return self.word.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Checks in rows, parts in columns."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Limit, tuple[Mark | None, ...]], ...]


def matrices(result: Result, kind: str) -> tuple[Matrix, Matrix]:
    """The checks that found something or tell parts apart, the gravest first; and those that came out alike.

    A part of which most was not seen tells nothing here.
    """
    checks = sorted(checks_of(result, kind), key=lambda check: list(Standing).index(check.standing))
    hidden = hidden_parts(checks)
    quiet = [check for check in checks if _is_quiet(check, hidden)]
    return _matrix(result, [check for check in checks if check not in quiet]), _matrix(result, quiet)


def _is_quiet(check: Check, hidden: Sequence[str]) -> bool:
    seen = {
        outcome.standing
        for outcome in check.outcomes
        if not (outcome.part in hidden and outcome.standing is Standing.NOT_SEEN)
    }
    return seen <= {Standing.IN_ORDER, Standing.NOT_SUPPORTED} or seen == {Standing.NOT_SEEN}


def _matrix(result: Result, checks: Sequence[Check]) -> Matrix:
    """A check of the whole target stands in a column of its own."""
    label, concerned = part_label(result.observation), {outcome.part for check in checks for outcome in check.outcomes}
    columns = (*(("",) if "" in concerned else ()), *sorted_parts(concerned))
    heads = tuple(part_text(label, [part]) if part else "machine" for part in columns)
    return Matrix(heads, tuple((check.limit, _marks(check, columns)) for check in checks))


def _marks(check: Check, columns: Sequence[str]) -> tuple[Mark | None, ...]:
    outcomes = {outcome.part: outcome for outcome in check.outcomes}
    return tuple(_mark(outcomes[part]) if part in outcomes else None for part in columns)


def _mark(outcome: Outcome) -> Mark:
    """With the reading of what is out of order; the others stand in the list of every reading."""
    broken = [finding.measurement.reading for finding in outcome.findings]
    told = dict.fromkeys(quantity_text(reading) for reading in broken if isinstance(reading, Quantity))
    return Mark(_SYMBOL[outcome.standing], outcome.standing.value, ", ".join(told))


def readings_matrix(result: Result) -> Grid:
    """Every reading by its name, a column for each part."""
    label, parts = part_label(result.observation), parts_of(result.observation)
    cells: dict[str, dict[str, str]] = {}
    for measurement in result.observation.measurements:
        reading = measurement.reading
        text = NOT_SEEN if isinstance(reading, Absent) else quantity_text(reading)
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
