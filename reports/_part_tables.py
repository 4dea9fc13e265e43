"""Tables about the parts of a target: the verdict on each part, and long tables folded to what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mats.model import Absent, Cell, Column, Result, Severity, Table, Verdict

from ._format import plural, spelled
from ._grid import NOT_SEEN, Grid, clause, grid_of
from ._parts import ends_of, grouped, part_label, part_text, sorted_parts, verdicts_by_part

MANY_ROWS = 16
"""Rows of a table that are shown where room is scarce."""

Row = tuple[Cell, ...]


@dataclass(frozen=True)
class PartTables:
    """The tables of a result of many parts: that with a row for each part, and the others."""

    result: Result
    kind: str

    @cached_property
    def label(self) -> str:
        return part_label(self.result.observation)

    @cached_property
    def overview(self) -> Table | None:
        """The first table with a row for each part, with the verdict on each and the codes of its findings."""
        table = self._listing
        return self._judged(table) if table else None

    @cached_property
    def others(self) -> tuple[Table, ...]:
        """Without the columns of which nothing was seen; what was not seen has a list of its own."""
        seen = [without_unseen(table) for table in self.result.observation.tables if table is not self._listing]
        return tuple(table for table in seen if table.rows and any(c.name != self.label for c in table.columns))

    @cached_property
    def _listing(self) -> Table | None:
        """The first table that names the most parts, each once; a part of which only a finding tells has no row."""
        tables = [table for table in self.result.observation.tables if self._named(table)]
        return max(tables, key=self._named, default=None)

    def _named(self, table: Table) -> int:
        return len(_listed(table, self.label) & self._verdicts.keys())

    @cached_property
    def _verdicts(self) -> dict[str, Verdict]:
        return verdicts_by_part(self.result, self.kind)

    def short(self, table: Table) -> Grid | None:
        """At most ``MANY_ROWS`` rows of a long table, or of one that lists the parts once more.

        Equal rows are folded; where they differ, those of parts that are not in order are shown (None: all are).
        """
        at = column_of_parts(table, self.label)
        if at is None or (len(table.rows) <= MANY_ROWS and not self._lists_parts(table)):
            return grid_of(table, MANY_ROWS)
        folded = _folded(table, at, self.label)
        if folded is not None and len(folded.rows) <= MANY_ROWS:
            return grid_of(folded)
        worrying = [part for part, verdict in self._verdicts.items() if verdict is not Verdict.PASS]
        rows = tuple(row for row in table.rows if cell_part(row[at]) in worrying)
        if not rows:
            return None
        if len(rows) == len(table.rows) <= MANY_ROWS:
            return grid_of(table)
        title = f"{table.title or table.name}: {part_text(self.label, worrying)}"
        grid = grid_of(Table(table.name, title, table.columns, rows[:MANY_ROWS]))
        rest = plural(len(table.rows) - len(grid.rows), "more row")
        return replace(grid, note=f"{rest} in the HTML report and the saved run (JSON)")

    def _lists_parts(self, table: Table) -> bool:
        """Whether a table has one row for each part that the overview tells of."""
        listing = self._listing
        return listing is not None and _listed(table, self.label) == _listed(listing, self.label)

    def _judged(self, table: Table) -> Table:
        at, verdicts = column_of_parts(table, self.label), self._verdicts
        if at is None or not self.result.limits:
            return table
        codes: dict[str, list[str]] = {}
        for group in grouped(self.result.findings, self.label):
            ends = (part for finding in group.findings for part in ends_of(finding.measurement))
            for part in (*group.parts, *ends) if group.first.severity is not Severity.NOTE else ():
                codes.setdefault(part, []).append(group.first.code)
        added = [Column("verdict"), *([Column("findings")] if codes else [])]
        rows: list[Row] = []
        for row in table.rows:
            part = cell_part(row[at])
            verdict = verdicts.get(part, Verdict.UNKNOWN)
            told = verdict.value if verdict is Verdict.PASS else verdict.value.upper()
            cells = [told, *([", ".join(dict.fromkeys(codes.get(part, ())))] if codes else [])]
            rows.append((*row[: at + 1], *cells, *row[at + 1 :]))
        columns = (*table.columns[: at + 1], *added, *table.columns[at + 1 :])
        return Table(table.name, table.title, columns, tuple(rows))


def _listed(table: Table, label: str) -> frozenset[str]:
    """The parts that a table names, where it names each once; otherwise none."""
    at = column_of_parts(table, label)
    named = [cell_part(row[at]) for row in table.rows] if at is not None else []
    return frozenset(named) if len(set(named)) == len(named) else frozenset()


def without_unseen(table: Table) -> Table:
    """The table without columns that are absent in every row; what its chart draws stays."""
    drawn = table.chart.columns if table.chart else ()
    kept = [
        at
        for at, column in enumerate(table.columns)
        if column.name in drawn or not all(isinstance(row[at], Absent) for row in table.rows)
    ]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[at] for at in kept), rows=rows)


def without_constants(grid: Grid, fits: Callable[[Grid], bool]) -> Grid:
    """The grid made to fit by telling once in its title what is the same in every row, the widest column first.

    A column of which nothing was seen is left out; what was not seen has a list of its own.
    """
    kept, told = grid, dict[str, str]()
    for head in grid.heads:
        at = kept.heads.index(head)
        if all(row[at] == NOT_SEEN for row in kept.rows):
            kept = _without(kept, at)
    while len(grid.rows) > 1 and not fits(kept):
        columns = range(len(kept.heads))
        same = [at for at in columns if kept.heads[at] != "verdict" and len({row[at] for row in kept.rows}) == 1]
        if not same:
            break
        widest = max(same, key=lambda at: max(len(kept.heads[at]), len(kept.rows[0][at])))
        if kept.rows[0][widest]:
            told[kept.heads[widest]] = clause(kept.heads[widest], kept.rows[0][widest])
        kept = _without(kept, widest)
    clauses = ", ".join(told[head] for head in grid.heads if head in told)
    return replace(kept, title=f"{grid.title or grid.name} (all: {clauses})") if told else kept


def _without(grid: Grid, column: int) -> Grid:
    return columns_of(grid, [at for at in range(len(grid.heads)) if at != column])


def columns_of(grid: Grid, kept: Sequence[int]) -> Grid:
    """The grid with these of its columns alone."""
    return replace(
        grid,
        heads=tuple(grid.heads[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in grid.rows),
        numeric=tuple(grid.numeric[at] for at in kept),
    )


def column_of_parts(table: Table, label: str) -> int | None:
    """The column that names the part a row belongs to."""
    return next((at for at, column in enumerate(table.columns) if label and column.name == label), None)


def cell_part(cell: Cell) -> str:
    """The part that a cell names, as labels spell it."""
    if isinstance(cell, Absent):
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _folded(table: Table, at: int, label: str) -> Table | None:
    """Rows that differ only in the part and in a number within it (a link, a port), as one with their ranges."""
    counter = next((index for index in range(len(table.columns)) if index != at and _counts(table, at, index)), None)
    keys = (at,) if counter is None else (at, counter)
    within: dict[tuple[str, Row], list[str]] = {}
    for row in table.rows:
        rest = tuple(cell for index, cell in enumerate(row) if index not in keys)
        within.setdefault((cell_part(row[at]), rest), []).append(cell_part(row[counter]) if counter is not None else "")
    over: dict[tuple[tuple[str, ...], Row], list[str]] = {}
    for (part, rest), numbers in within.items():
        over.setdefault((sorted_parts(numbers), rest), []).append(part)
    rows: list[Row] = []
    for (shown, rest), parts in over.items():
        cells: list[Cell] = list(rest)
        told = {at: _range(label, parts)} | ({counter: _range("", shown)} if counter is not None else {})
        for index in sorted(told):
            cells.insert(index, told[index])
        rows.append(tuple(cells))
    columns = tuple(
        Column(spelled(column.name) + "s") if index in keys else column for index, column in enumerate(table.columns)
    )
    return Table(table.name, table.title, columns, tuple(rows)) if len(rows) * 2 < len(table.rows) else None


def _range(label: str, parts: Sequence[str]) -> str:
    return part_text(label, parts).removeprefix(spelled(label)).strip()


def _counts(table: Table, at: int, index: int) -> bool:
    """Whether a column without a unit numbers the rows of each part: whole numbers that do not come twice."""
    if table.columns[index].unit is not None:
        return False
    seen = {(cell_part(row[at]), cell_part(row[index])) for row in table.rows}
    return len(seen) == len(table.rows) and all(number.isdigit() for _, number in seen)
