"""Reads what three programs measured of latency by working set: gpu-latency, a sweep in cycles, a set in JSON.

- gpu-latency (RRZE-HPC/gpu-benches): iterations, MHz, kB, milliseconds, cycles; its kB are taken to be 1024 bytes.
- the sweep (markdewing/AI_kernels): bytes, KiB, MiB, cycles. KiB and MiB are rounded down: only bytes are taken.
- the set (arabel1a/gpu-micro-bench): nanoseconds and GB/s by how a load may use the caches; null where not measured.

Cycles are counts; they are turned into seconds only where the file tells the clock they were counted by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mats.facts import UNASKED, CurveFacts, MachineFacts, MeasuredGpu, Text, TransferRun
from mats.model import Quantity, Reading, Unit
from mats.sources._json_cut import dict_of, list_of, loads
from mats.sources._measured import (
    GIGABYTE,
    MICROSECOND,
    ROWS_AT_MOST,
    MeasuredError,
    lines_of,
    number_of,
    picture,
    plain,
)

_KIB = 1 << 10
_CLOCKS = re.compile(r"clock:((?:\s+[0-9]{2,5})+)\s*")
_CHASE = re.compile(r"\s*([0-9]+)\s+([0-9]{1,5})\s+([0-9]+)\s+([0-9]+\.[0-9])\s+([0-9]+\.[0-9])\s*")
_SWEEP_HEAD = re.compile(r"#\s*N \(bytes\)\s+\(KiB\)\s+\(MiB\)\s+cycles\s*")
_SWEEP = re.compile(r"\s*([0-9]{1,15})\s+[0-9]+\s+[0-9]+\s+([0-9]+(?:\.[0-9]+)?)\s*")
_UNITS = {"ns": (Unit.SECOND, "1e-9", "latency"), "gbps": (Unit.BYTE_PER_SECOND, GIGABYTE, "bandwidth")}
_HINTS = {
    "ca": "may use every cache (ca)",
    "cg": "passes by L1 (cg)",
    "cs": "streams (cs)",
    "cn": "after the caches were flushed (cn)",
    "cold": "the first pass",
    "warm": "later passes",
}
_COUNTED = (
    ("size_bytes", Unit.BYTE, "working set"),
    ("n_warps", Unit.COUNT, "warps"),
    ("n_blocks", Unit.COUNT, "blocks"),
)


def parse_gpu_latency(text: str) -> MachineFacts:
    """The curve in cycles and in seconds. Raises MeasuredError."""
    points: list[tuple[Reading, Reading]] = []
    seconds: list[tuple[Reading, Reading]] = []
    clocks: set[int] = set()
    notes: list[str] = []
    lines = lines_of(text)
    cut = ""
    for number, line in enumerate(lines[:ROWS_AT_MOST]):
        if found := _CLOCKS.fullmatch(line):
            clocks |= {int(word) for word in found[1].split()}
        elif found := _CHASE.fullmatch(line):
            size = Quantity(int(found[3][:12]) * _KIB, Unit.BYTE)
            clocks.add(int(found[2]))
            points.append((size, Quantity(float(found[5]), Unit.COUNT)))
            if int(found[1]):
                seconds.append((size, Quantity(float(found[4]) / 1e3 / int(found[1]), Unit.SECOND)))
        elif line.strip() and number == len(lines) - 1:
            cut = "it ends within a line"
    if not points:
        raise MeasuredError("it holds no line of a working set")
    if len(clocks) > 1:
        notes.append(f"the clock was not the same throughout: {min(clocks)} to {max(clocks)} MHz")
    clock = Quantity(clocks.pop() * 10**6, Unit.HERTZ) if len(clocks) == 1 else UNASKED
    curves = (
        CurveFacts("gpu-latency", "latency in cycles", Unit.COUNT, tuple(points), clock=clock),
        CurveFacts("gpu-latency", "latency", Unit.SECOND, tuple(seconds), clock=clock),
    )
    return picture((TransferRun("gpu-latency", curves=curves, notes=tuple(notes), cut=cut),))


def parse_latency_sweep(text: str) -> MachineFacts:
    """The curve in cycles. Raises MeasuredError."""
    points: list[tuple[Reading, Reading]] = []
    lines = lines_of(text)
    cut = ""
    headed = False
    for number, line in enumerate(lines[:ROWS_AT_MOST]):
        if _SWEEP_HEAD.fullmatch(line):
            headed = True
        elif line.strip() and number == len(lines) - 1 and not text.endswith("\n"):
            cut = "its last line has no end and is not taken"
        elif found := _SWEEP.fullmatch(line):
            cycles = number_of(found[2])
            if cycles is not None:
                points.append((Quantity(int(found[1]), Unit.BYTE), Quantity(cycles, Unit.COUNT)))
    if not (headed and points):
        raise MeasuredError("it holds no line of a working set")
    note = "the clock is not told: cycles cannot be turned into time"
    curve = CurveFacts("latency sweep", "latency in cycles", Unit.COUNT, tuple(points), note=note)
    return picture((TransferRun("latency sweep", curves=(curve,), cut=cut),))


def parse_memory_set(text: str) -> MachineFacts:
    """A curve for each test and way to load. Raises MeasuredError."""
    try:
        whole, cut = loads(text)
    except ValueError as error:
        raise MeasuredError(f"its JSON is damaged ({error})") from None
    root = dict_of(whole)
    curves = [
        curve
        for name, rows in dict_of(root.get("tests")).items()
        for curve in _curves(str(name)[:60], [dict_of(row) for row in list_of(rows)][:ROWS_AT_MOST])
    ]
    if not curves:
        raise MeasuredError("its JSON is cut before any result" if cut else "its JSON holds no results")
    card = dict_of(root.get("gpu"))
    named: Text = str(card["name"])[:120] if isinstance(card.get("name"), str) else UNASKED
    gpus = (MeasuredGpu(0, named),) if isinstance(named, str) else ()
    return picture((TransferRun("gpu-micro-bench", gpus=gpus, curves=tuple(curves), cut=cut),))


def _curves(test: str, rows: Sequence[dict[str, Any]]) -> Iterator[CurveFacts]:
    axis = next((each for each in _COUNTED if any(each[0] in row for row in rows)), None)
    if axis is None:
        return
    key, size_unit, over = axis
    for name in dict.fromkeys(name for row in rows for name in row):
        told = _told(name)
        if told is None:
            continue
        unit, factor, quantity = told
        points = tuple(
            (plain(row.get(key), size_unit, "1", over), plain(row.get(name), unit, factor, f"{test} {name}"))
            for row in rows
        )
        hint = _HINTS.get(name.partition("_")[0], "")
        yield CurveFacts(f"{test} {name}", quantity, unit, points, over, note=hint)


def _told(name: str) -> tuple[Unit, str, str] | None:
    """What a column holds, by its name: ``ca_ns``, ``ns_per_hop``, ``cold_bw_gbps``; None of those without a figure."""
    if name == "ns_per_hop":
        return _UNITS["ns"]
    if name == "us_per_block":
        return Unit.SECOND, MICROSECOND, "time to start a block"
    return _UNITS.get(name.rpartition("_")[2])
