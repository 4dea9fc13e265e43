"""A run with a table for each kind of chart: what the reports draw of any probe's tables."""

from __future__ import annotations

import math

from mats.model import AbsenceKind, Cell, Chart, Column, Measurement, Observation, Run, Table, Unit, Verdict

from .example_runs import result, run, sim_target
from .example_tables import absent, seconds

WORN = absent(AbsenceKind.NOT_TESTED, "no walk over this region came to its end")
REFUSED = absent(AbsenceKind.NO_PERMISSION, "GPU 5 may not look into GPU 2")


def region_table(count: int = 150) -> Table:
    """Regions of about 560 ns; number 17 is late by 47 %, number 90 was not seen."""
    rows: list[tuple[Cell, ...]] = []
    for region in range(count):
        excess = 0.47 if region == 17 else 0.01 * math.sin(region)
        latency: Cell = WORN if region == 90 else round(560e-9 * (1 + excess), 12)
        rows.append((region, f"0x{0x7F3A_4000_0000 + region * 2**26:x}", latency, round(excess, 4)))
    columns = (
        Column("region", Unit.COUNT),
        Column("address"),
        Column("latency", Unit.SECOND),
        Column("excess", Unit.RATIO),
    )
    chart = Chart.heat_map("latency", "region", hover=("excess", "address"))
    return Table("region_map", "Latency of each region of the memory", columns, tuple(rows), chart)


def ladder_table() -> Table:
    """One line: four plateaus from 4 KiB to 256 MiB, four sizes for each doubling."""
    plateaus = ((2**15, "L1", 1.2e-9), (2**20, "L2", 4.3e-9), (2**25, "L3", 19.0e-9), (2**40, "DRAM", 92.5e-9))
    rows: list[tuple[Cell, ...]] = []
    for step in range(65):
        size = round(2 ** (12 + step / 4))
        rows.append(next((size, latency, level) for end, level, latency in plateaus if size <= end))
    columns = (Column("working_set", Unit.BYTE), Column("latency", Unit.SECOND), Column("level"))
    chart = Chart.curve("working_set", "latency", hover=("level",), log_x=True)
    return Table("ladder", "Latency by the size of the working set", columns, tuple(rows), chart)


def transfers_table() -> Table:
    """Two lines over the same sizes, both axes over decades."""
    rows: list[tuple[Cell, ...]] = []
    for way, start, rate in (("to the device", 1.9e-6, 25.1e9), ("to the host", 2.4e-6, 26.3e9)):
        rows += [(4**step, way, start + 4**step / rate) for step in range(6, 16)]
    columns = (Column("bytes", Unit.BYTE), Column("way"), Column("duration", Unit.SECOND))
    chart = Chart.curve("bytes", "duration", "way", log_x=True, log_y=True)
    return Table("transfers", "Duration of a transfer by its size", columns, tuple(rows), chart)


def deviation_table() -> Table:
    rows = tuple((round(1e-6 * (1 + 0.1 * math.sin(at) ** 3), 12),) for at in range(200))
    return Table("walks", "Walks", (Column("duration", Unit.SECOND),), rows, Chart.histogram("duration"))


def pair_tables(count: int = 8) -> tuple[Table, Table]:
    """Bandwidth and connection of every pair; 0 and 1 lost links, 5 may not look into 2."""
    pairs = [(first, second) for first in range(count) for second in range(count) if first != second]
    rates: list[tuple[Cell, ...]] = []
    for first, second in pairs:
        rate: Cell = 178.4e9 if {first, second} == {0, 1} else 391.2e9 + 1e9 * ((first * 7 + second) % 5)
        rates.append((first, second, REFUSED if (first, second) == (5, 2) else rate))
    ways = tuple((first, second, "NV8" if {first, second} == {0, 1} else "NV18") for first, second in pairs)
    ends = (Column("from", Unit.COUNT), Column("to", Unit.COUNT))
    return (
        Table(
            "bandwidth",
            "Bandwidth one way",
            (*ends, Column("bandwidth", Unit.BYTE_PER_SECOND)),
            tuple(rates),
            Chart.matrix("from", "to", "bandwidth"),
        ),
        Table("topology", "How the GPUs are joined", (*ends, Column("way")), ways, Chart.matrix("from", "to", "way")),
    )


def charted() -> Run:
    """A heat map, two curves, a histogram, and matrices of numbers and of words."""
    tables = (region_table(), ladder_table(), transfers_table(), deviation_table(), *pair_tables())
    latency = Measurement("latency.memory", seconds(560.1e-9), statistic="median of 149 regions")
    observation = Observation((latency,), tables)
    return run((sim_target(),), (result("sim:stuck_dq", Verdict.PASS, observation, limits=()),))
