"""The tables of the memory test's observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from mats.model import AbsenceKind, Absent, Cell, Column, Quantity, Reading, Table, Unit

from ._algorithms import ALGORITHMS, Draw
from ._diagnosis import ErrorRecord
from ._earlier import Earlier
from ._space import PAGE
from ._statistics import summarise
from ._tester import Tester

_SHOWN_SWEEPS = 4000
_FOR_FILES = ("errors", "bad_ranges")
"""Tables that a user may want as files: a run without an error has them, too, with no rows."""
_NOT_READ = Absent(AbsenceKind.NOT_TESTED, "the word was not read again")


def tables(tester: Tester, untested: Sequence[tuple[str, int]], earlier: Earlier, listed: int) -> tuple[Table, ...]:
    """Every table, empty ones left out but those that files are made of; of the error records the first ``listed``."""
    made = (
        _coverage(tester, untested),
        _tests(tester, earlier),
        _latency(tester),
        _errors(tester, listed),
        _bits(tester),
        _popcount(tester),
        _pages(tester),
        _bad_ranges(tester),
        _sweeps(tester),
        _conditions(tester),
    )
    return tuple(table for table in made if table.rows or table.name in _FOR_FILES)


def _coverage(tester: Tester, untested: Sequence[tuple[str, int]]) -> Table:
    return Table(
        "coverage",
        "Where every byte of the device is accounted for",
        (Column("reason"), Column("bytes", Unit.BYTE)),
        (("tested", tester.tested), *untested),
    )


def _tests(tester: Tester, earlier: Earlier) -> Table:
    rows: list[tuple[Cell, ...]] = []
    ledger, named = tester.ledger, {str(row[0]): row for row in earlier.rows}
    for name, algorithm in ALGORITHMS.items():
        account = tester.accounts.get(name)
        before = named.get(name)
        if account is None and before is None:
            continue
        moved = round(algorithm.moved(Draw(0, 0, 0.0, 0)), 3)
        passes = written = verified = errors = 0
        duration = 0.0
        if account is not None:
            passes, written, duration = account.passes, account.written, account.duration
            verified, errors = ledger.verified_by_test[name] * 8, ledger.failed_by_test[name]
        if before is not None:
            numbers = [cell if isinstance(cell, int | float) else 0 for cell in before[3:8]]
            passes, written, verified = passes + int(numbers[0]), written + int(numbers[1]), verified + int(numbers[2])
            errors, duration = errors + int(numbers[3]), duration + numbers[4]
        rows.append((name, algorithm.finds, moved, passes, written, verified, errors, duration))
    columns = (
        Column("test"),
        Column("finds"),
        Column("moved_per_byte", Unit.RATIO),
        Column("passes", Unit.COUNT),
        Column("written", Unit.BYTE),
        Column("verified", Unit.BYTE),
        Column("errors", Unit.COUNT),
        Column("duration", Unit.SECOND),
    )
    return Table("tests", "Tests, what they find, and what they moved", columns, tuple(rows))


def _latency(tester: Tester) -> Table:
    rows: list[tuple[Cell, ...]] = []
    largest = max((chunk.buffer.size for chunk in tester.chunks), default=0)
    for operation in ("write", "verify", "exchange", "read"):
        samples = [s.duration for s in tester.sweeps if s.operation == operation and s.size == largest]
        summary = summarise(samples)
        if summary is not None:
            rows.append((operation, *astuple(summary)))
    columns = (
        Column("operation"),
        Column("count", Unit.COUNT),
        Column("mean", Unit.SECOND),
        Column("standard_deviation", Unit.SECOND),
        Column("median", Unit.SECOND),
        Column("p99", Unit.SECOND),
    )
    title = f"Duration of one sweep over one chunk of {largest >> 20} MiB"
    return Table("latency", title, columns, tuple(rows))


def _hexadecimal(value: int) -> str:
    return f"{value:#018x}"


def _errors(tester: Tester, listed: int) -> Table:
    columns = (
        Column("address"),
        Column("region"),
        Column("expected"),
        Column("actual"),
        Column("reread_1"),
        Column("reread_2"),
        Column("rewrite"),
        Column("test"),
        Column("pass", Unit.COUNT),
        Column("time", Unit.SECOND),
        Column("temperature", Unit.CELSIUS),
    )
    ledger = tester.ledger
    rows = tuple(_error_row(record, ledger.addresses[record.word]) for record in ledger.records[:listed])
    title = f"The first {len(rows)} of {ledger.failed} errors, virtual addresses of this run"
    return Table("errors", title, columns, rows)


def _error_row(record: ErrorRecord, address: int) -> tuple[Cell, ...]:
    rereads: list[Cell] = [_hexadecimal(value) for value in record.rereads]
    rereads += [_NOT_READ] * (2 - len(rereads))
    unknown = Absent(AbsenceKind.NOT_FOUND, "no temperature was read")
    return (
        _hexadecimal(address),
        f"2 MiB page {record.page} of the tested space",
        _hexadecimal(record.expected),
        _hexadecimal(record.actual),
        *rereads,
        _NOT_READ if record.rewrite is None else _hexadecimal(record.rewrite),
        f"{record.test}: {record.step}",
        record.pass_index,
        round(record.time, 6),
        unknown if record.temperature is None else record.temperature,
    )


def _bits(tester: Tester) -> Table:
    ledger = tester.ledger
    rows: tuple[tuple[Cell, ...], ...] = ()
    if ledger.failed:
        rows = tuple((bit, ledger.risen[bit], ledger.fallen[bit]) for bit in range(64))
    columns = (Column("bit", Unit.COUNT), Column("zero_to_one", Unit.COUNT), Column("one_to_zero", Unit.COUNT))
    return Table("bit_histogram", "Flipped bits by position in the 64-bit word", columns, rows)


def _popcount(tester: Tester) -> Table:
    rows = tuple((bits, count) for bits, count in enumerate(tester.ledger.flipped) if count)
    columns = (Column("flipped_bits", Unit.COUNT), Column("words", Unit.COUNT))
    return Table("popcount_histogram", "Wrong words by their number of flipped bits", columns, rows)


def _page_addresses(tester: Tester) -> dict[int, int]:
    """Virtual address of each 2 MiB page of the tested space."""
    return {
        (chunk.first >> 18) + page: chunk.buffer.address + page * PAGE
        for chunk in tester.chunks
        for page in range(chunk.buffer.size // PAGE)
    }


def _pages(tester: Tester) -> Table:
    addresses = _page_addresses(tester)
    rows = tuple((_hexadecimal(addresses[page]), count) for page, count in sorted(tester.ledger.pages.items()))
    columns = (Column("address"), Column("errors", Unit.COUNT))
    return Table("page_errors", "Errors by 2 MiB page (virtual address)", columns, rows)


def _bad_ranges(tester: Tester) -> Table:
    """Pages with errors, neighbours joined: what an allocator should leave alone while this process lives."""
    addresses = _page_addresses(tester)
    bad = sorted((addresses[page], count) for page, count in tester.ledger.pages.items())
    ranges: list[list[int]] = []
    for address, count in bad:
        if ranges and ranges[-1][1] == address:
            ranges[-1][1] += PAGE
            ranges[-1][2] += count
        else:
            ranges.append([address, address + PAGE, count])
    rows = tuple((_hexadecimal(start), _hexadecimal(end), end - start, count) for start, end, count in ranges)
    columns = (Column("start"), Column("end"), Column("bytes", Unit.BYTE), Column("errors", Unit.COUNT))
    return Table("bad_ranges", "Ranges of virtual addresses with errors, end not included", columns, rows)


def _sweeps(tester: Tester) -> Table:
    step = -(-len(tester.sweeps) // _SHOWN_SWEEPS) if tester.sweeps else 1
    rows = tuple(
        (round(s.time, 6), s.test, s.operation, s.chunk, s.size, s.duration, s.bandwidth) for s in tester.sweeps[::step]
    )
    every = step * tester.kept_every
    title = "Launches over time" if every == 1 else f"Launches over time, one of {every}"
    columns = (
        Column("time", Unit.SECOND),
        Column("test"),
        Column("operation"),
        Column("chunk", Unit.COUNT),
        Column("bytes", Unit.BYTE),
        Column("duration", Unit.SECOND),
        Column("bandwidth", Unit.BYTE_PER_SECOND),
    )
    return Table("sweeps", title, columns, rows)


def _cell(reading: Reading) -> Cell:
    return reading.value if isinstance(reading, Quantity) else reading


def _conditions(tester: Tester) -> Table:
    rows = tuple(
        (
            round(time, 6),
            _cell(state.temperature),
            _cell(state.core_clock),
            _cell(state.memory_clock),
            _cell(state.power),
            _cell(state.performance_state),
        )
        for time, state in tester.seen
    )
    columns = (
        Column("time", Unit.SECOND),
        Column("temperature", Unit.CELSIUS),
        Column("core_clock", Unit.HERTZ),
        Column("memory_clock", Unit.HERTZ),
        Column("power", Unit.WATT),
        Column("performance_state", Unit.COUNT),
    )
    return Table("conditions", "Conditions over time", columns, rows)
