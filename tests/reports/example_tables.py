"""Values, measurements and tables from which the example runs are put together."""

from __future__ import annotations

import math

from mats.model import AbsenceKind, Absent, Cell, Column, Measurement, Quantity, Table, Unit


def seconds(value: float) -> Quantity:
    return Quantity(value, Unit.SECOND)


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


def ratio(value: float) -> Quantity:
    return Quantity(value, Unit.RATIO)


def rate(value: float) -> Quantity:
    return Quantity(value, Unit.BYTE_PER_SECOND)


def size(value: int) -> Quantity:
    return Quantity(value, Unit.BYTE)


def absent(kind: AbsenceKind, reason: str) -> Absent:
    return Absent(kind, reason)


def timing(write: float, read: float, samples: int) -> tuple[Measurement, ...]:
    """Latency and bandwidth of chunk sweeps; ``write`` and ``read`` are mean durations in seconds of 32 MiB."""
    out: list[Measurement] = []
    for operation, mean in (("write", write), ("read", read)):
        values = tuple(mean * (1 + 0.02 * math.sin(index)) for index in range(samples))
        out.append(
            Measurement(
                f"memory.{operation}_latency",
                seconds(mean),
                statistic="mean of chunk sweeps of 32 MiB",
                method="duration of the launch",
                samples=values,
            )
        )
        out.append(Measurement(f"memory.{operation}_latency_deviation", ratio(0.0141), statistic="deviation / mean"))
    out.append(Measurement("memory.write_bandwidth", rate(2**25 / write), statistic=f"median of {samples} sweeps"))
    out.append(Measurement("memory.verify_bandwidth", rate(2**25 / read), statistic=f"median of {samples} sweeps"))
    return tuple(out)


def latency_table(write: float, read: float) -> Table:
    return Table(
        "latency",
        "Duration of a chunk sweep",
        (
            Column("operation"),
            Column("count", Unit.COUNT),
            Column("mean", Unit.SECOND),
            Column("standard_deviation", Unit.SECOND),
            Column("median", Unit.SECOND),
            Column("p99", Unit.SECOND),
        ),
        (
            ("write", 64, write, write * 0.0141, write * 1.001, write * 1.02),
            ("verify", 64, read, read * 0.0141, read * 1.001, read * 1.02),
        ),
    )


def coverage_table(tested: int, untested: tuple[tuple[str, int], ...]) -> Table:
    columns = (Column("reason"), Column("bytes", Unit.BYTE))
    return Table("coverage", "What was tested, and what was not", columns, (("tested", tested), *untested))


def tests_table(errors: int) -> Table:
    return Table(
        "tests",
        "Tests",
        (
            Column("test"),
            Column("finds"),
            Column("moved_per_byte", Unit.RATIO),
            Column("passes", Unit.COUNT),
            Column("written", Unit.BYTE),
            Column("verified", Unit.BYTE),
            Column("errors", Unit.COUNT),
            Column("duration", Unit.SECOND),
        ),
        (
            ("own_address", "address lines, aliased pages", 2.0, 2, 2 * 224 * 2**20, 2 * 224 * 2**20, errors, 0.11),
            ("moving_inversions", "stuck and coupled bits", 6.0, 4, 12 * 224 * 2**20, 12 * 224 * 2**20, 0, 0.74),
        ),
    )


def sweeps_table(rows: int, duration: float) -> Table:
    body: list[tuple[Cell, ...]] = []
    for index in range(rows):
        took = duration * (1 + 0.02 * math.sin(index) + (3 if index == rows // 2 else 0))
        operation = "write" if index % 2 == 0 else "verify"
        body.append((index * duration, "own_address", operation, index % 7, 2**25, took, 2**25 / took))
    return Table(
        "sweeps",
        "Every chunk sweep",
        (
            Column("time", Unit.SECOND),
            Column("test"),
            Column("operation"),
            Column("chunk", Unit.COUNT),
            Column("bytes", Unit.BYTE),
            Column("duration", Unit.SECOND),
            Column("bandwidth", Unit.BYTE_PER_SECOND),
        ),
        tuple(body),
    )


def conditions_table(rows: int) -> Table:
    no_power = absent(AbsenceKind.TIMED_OUT, "the power reading did not answer within 1 s")
    return Table(
        "conditions",
        "Conditions during the test",
        (
            Column("time", Unit.SECOND),
            Column("temperature", Unit.CELSIUS),
            Column("core_clock", Unit.HERTZ),
            Column("memory_clock", Unit.HERTZ),
            Column("power", Unit.WATT),
            Column("performance_state", Unit.COUNT),
        ),
        tuple(
            (index * 0.1, 41 + index, 2.1e9 - index * 5e6, 8.001e9, no_power if index == 2 else 90.5 + index, 2)
            for index in range(rows)
        ),
    )


def error_tables(words: int) -> tuple[Table, ...]:
    """The evidence of a stuck data line: bits 5 and 21 of words in one slice of the addresses."""
    base = 0x7F3A_4000_0000
    unread = absent(AbsenceKind.NOT_TESTED, "the second re-read is taken of the first 16 errors")
    records: list[tuple[Cell, ...]] = []
    for index in range(words):
        address = base + 0x2000 * index
        expected = (address * 0x9E3779B97F4A7C15) & (2**64 - 1) & ~(1 << (5 if index % 2 else 21))
        actual = expected | 1 << (5 if index % 2 else 21)
        again = f"0x{actual:016x}"
        records.append(
            (
                f"0x{address:012x}",
                index // 8,
                f"0x{expected:016x}",
                again,
                again,
                again if index < 16 else unread,
                "persists",
                "own_address",
                1,
                0.02 + index * 0.001,
                41 + index // 10,
            )
        )
    names = ("address", "region", "expected", "actual", "reread_1", "reread_2", "rewrite", "test", "pass")
    units = {"region": Unit.COUNT, "pass": Unit.COUNT}
    columns = (*(Column(name, units.get(name)) for name in names), Column("time", Unit.SECOND))
    bits = tuple((bit, words // 2 if bit in (5, 21) else 0, 0) for bit in range(64))
    pages = tuple((f"0x{base + page * 2**21:012x}", words // 4) for page in (0, 3, 9, 14))
    return (
        Table("errors", "Error records", (*columns, Column("temperature", Unit.CELSIUS)), tuple(records)),
        Table(
            "bit_histogram",
            "Wrong bits by position",
            (Column("bit", Unit.COUNT), Column("zero_to_one", Unit.COUNT), Column("one_to_zero", Unit.COUNT)),
            bits,
        ),
        Table(
            "popcount_histogram",
            "Wrong bits in a word",
            (Column("flipped_bits", Unit.COUNT), Column("words", Unit.COUNT)),
            ((1, words - 4), (2, 4)),
        ),
        Table("page_errors", "Errors per 2 MiB page", (Column("address"), Column("errors", Unit.COUNT)), pages),
    )
