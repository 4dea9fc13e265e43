"""What the tests of nvbandwidth measure: which end is the row and which the column, and what else moved meanwhile.

By the tool's own source (NVIDIA/nvbandwidth: testcases_ce.cpp, testcases_sm.cpp, testcase.cpp, README.md). The arrow in
the title of a test between two GPUs says who starts the copy: a *read* is titled ``GPU(row) -> GPU(column)`` and moves
the data from the column to the row, a *write* is titled ``<-`` and moves them from the row to the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mats.facts import UNASKED, End, Engine, Figure, PeerFacts, Place, TransferFacts, Ways
from mats.model import AbsenceKind, Absent, Quantity, Reading
from mats.sources._measured import EVERY_GPU, HOST, gpu, reading_of

Ends = Callable[[int, int], tuple[End, End]]
_TITLE = re.compile(r".{0,120}?\((?:row|column)s?\).{0,120}\((?P<unit>[A-Za-z/]{1,8})\)\s*")
_NAME = re.compile(r"[a-z][a-z0-9_]{2,80}")
_PLAIN_PAIR = re.compile(r"(?:multinode_)?device_to_device_(?:memcpy_(?:read|write)_|latency_)(?:ce|sm)")
BOTH_WAYS_BY_KERNELS = (
    "both ways between a GPU and its host by kernels: every other group of threads moves the other way, so that the "
    "figure is of both together; some versions of nvbandwidth counted one way"
)


def unit_of(title: str) -> str:
    """The unit in which the figures of a table with this title are, or empty when it is no title of a table."""
    match = _TITLE.fullmatch(title)
    return match["unit"] if match else ""


def is_test(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Grid:
    """The figures of one test. ``part``: read1, write2, total where a test has several tables, else empty."""

    test: str
    title: str
    part: str
    rows: Sequence[tuple[int, Sequence[str]]]
    columns: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Way:
    ends: Ends
    ways: Ways = Ways.ONE
    operation: str = ""


def transfers_of(grid: Grid) -> Iterator[TransferFacts]:
    """Each figure of a table as what it is of; none of a test whose name is not known."""
    unit = unit_of(grid.title)
    delay = unit.lower() in ("ns", "us", "ms", "s")
    way = _delay(grid) if delay else _way(grid)
    if way is None:
        return
    engine = Engine.COPY_ENGINE if grid.test.endswith("_ce") or _is_local(grid) else Engine.KERNELS
    for row, cells in grid.rows:
        for column, cell in zip(grid.columns, cells, strict=False):
            start, end = way.ends(row, column)
            between = Place.HOST not in (start.place, end.place) and not _is_local(grid)
            if between and start == end:
                continue  # the diagonal: N/A, or 0.00 in older versions
            what = f"{grid.test} {start.label} to {end.label}"
            reading = reading_of(what, cell, unit)
            if between and _left_out(reading):
                reading = Absent(AbsenceKind.NOT_SUPPORTED, f"{what}: not measured, since neither reaches the other")
            yield TransferFacts(
                test=grid.test,
                start=start,
                end=end,
                figure=Figure.LOAD_LATENCY if delay else Figure.BANDWIDTH,
                reading=reading,
                ways=way.ways,
                engine=engine,
                access=isinstance(reading, Quantity) if between else UNASKED,
                operation=way.operation or UNASKED,
                pinned=UNASKED if between or _is_local(grid) else True,
            )


def _left_out(reading: Reading) -> bool:
    """N/A, or the 0.00 of older versions, which no copy that was made comes to."""
    if isinstance(reading, Absent):
        return reading.kind is AbsenceKind.NOT_TESTED
    return reading.value == 0


def peers_of(transfers: Sequence[TransferFacts]) -> Iterator[PeerFacts]:
    """Which pairs reach each other: the tool measures no other ones."""
    seen = set()
    for each in transfers:
        if not _PLAIN_PAIR.fullmatch(each.test) or isinstance(each.access, Absent):
            continue
        start, end = each.start.number, each.end.number
        if isinstance(start, int) and isinstance(end, int) and (start, end) not in seen:
            seen.add((start, end))
            yield PeerFacts(start, end, each.access)


def blocks_of(test: str, title: str, rows: Sequence[Sequence[str]]) -> Iterator[Grid]:
    """The tables within one matrix of JSON, where those of both ways stand one below the other under the last title."""
    width = max((len(row) for row in rows), default=0)
    numbered = list(enumerate(rows))
    if "device_to_device_bidirectional" in test and width and len(rows) == 3 * width:
        for place, part in enumerate(("1", "2", "total")):
            block = [(number - place * width, row) for number, row in numbered[place * width : (place + 1) * width]]
            yield Grid(test, title, part, block, range(width))
        return
    yield Grid(test, title, part_of(title), numbered, range(width))


def part_of(title: str) -> str:
    """Which of the tables of a test both ways it is: 1, 2 or total; empty where there is one."""
    match = re.search(r"\b(?:(?:Read|Write)([12])|(Total))\b", title)
    return "" if match is None else match[1] or "total"


def _is_local(grid: Grid) -> bool:
    return grid.test.startswith("device_local")


def _delay(grid: Grid) -> _Way | None:
    """What waits for the data first, then where they are."""
    if grid.test.startswith("host_device_latency"):
        return _Way(lambda row, column: (gpu(column), _host(grid, row)))
    if "device_to_device_latency" in grid.test:
        return _Way(lambda row, column: (gpu(row), gpu(column)))
    return None


def _host(grid: Grid, row: int) -> End:
    """The host; of several rows each is another of its nodes."""
    return End(Place.HOST, row) if len(grid.rows) > 1 else HOST


def _way(grid: Grid) -> _Way | None:
    test = grid.test.removeprefix("multinode_")
    operation = next((word for word in ("read", "write") if f"_{word}_" in f"{test}_"), "")
    if _is_local(grid):
        return _Way(lambda row, column: (gpu(column), gpu(column)))
    if test.startswith(("host_to_device", "host_to_all")):
        return _Way(lambda row, column: (_host(grid, row), gpu(column)), _with_host(test))
    if test.startswith(("device_to_host", "all_to_host")):
        return _Way(lambda row, column: (gpu(column), _host(grid, row)), _with_host(test))
    if test.startswith("device_to_device_bidirectional"):
        return _both_ways(grid.part, operation)
    if test.startswith("device_to_device_memcpy") and operation == "read":
        return _Way(lambda row, column: (gpu(column), gpu(row)), operation=operation)
    if test.startswith("device_to_device_memcpy") and operation == "write":
        return _Way(lambda row, column: (gpu(row), gpu(column)), operation=operation)
    if test.startswith("all_to_one"):
        return _Way(lambda row, column: (EVERY_GPU, gpu(column)), operation=operation)
    if test.startswith("one_to_all"):
        return _Way(lambda row, column: (gpu(column), EVERY_GPU), operation=operation)
    return None


def _with_host(test: str) -> Ways:
    shared = test.startswith(("host_to_all", "all_to_host"))
    if "bidirectional" not in test:
        return Ways.SHARED if shared else Ways.ONE
    if shared:
        return Ways.SHARED_BOTH
    return Ways.SUM if test.endswith("_sm") else Ways.ONE_OF_TWO


def _both_ways(part: str, operation: str) -> _Way:
    if part == "total":
        return _Way(lambda row, column: (gpu(row), gpu(column)), Ways.SUM, operation)
    if part == "2":
        return _Way(lambda row, column: (gpu(row), gpu(column)), Ways.ONE_OF_TWO, operation)
    forth = part == "" and operation == "write"
    if forth:
        return _Way(lambda row, column: (gpu(row), gpu(column)), Ways.ONE_OF_TWO, operation)
    return _Way(lambda row, column: (gpu(column), gpu(row)), Ways.ONE_OF_TWO, operation)
