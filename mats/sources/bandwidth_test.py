"""Reads bandwidthTest of the CUDA samples: one size (quick mode), or many (range and shmoo modes), as lists or as CSV.

Sizes are bytes as they stand. Rates are kept as printed, to a tenth; the times beside them are those rates turned round
and rounded to 10 us, and are left alone. ``GB/s`` is decimal; the ``MB/s`` of older versions are 2^20 bytes per second
(printResultsCSV in bandwidthTest.cu). Of a copy within one GPU the tool counts what is read and what is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mats.facts import (
    UNASKED,
    CurveFacts,
    End,
    Figure,
    Flag,
    MachineFacts,
    MeasuredGpu,
    Place,
    TransferFacts,
    TransferRun,
)
from mats.model import Quantity, Reading, Unit
from mats.sources._measured import (
    HOST,
    ROWS_AT_MOST,
    MeasuredError,
    distinct,
    gpu,
    lines_of,
    number_of,
    picture,
    reading_of,
)

TOOL = "bandwidthTest"
_RATE = Unit.BYTE_PER_SECOND
_CSV = re.compile(
    r"bandwidthTest-(?P<test>(?:H2D|D2H|D2D)(?:-\w+)*), Bandwidth = (?P<rate>[0-9.]+) (?P<unit>GB/s|MB/s), "
    r"Time = [0-9.]+ s, Size = (?P<size>[0-9]+) bytes(?:, NumDevsUsed = (?P<devices>[0-9]+))?\s*",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"\s*Device ([0-9]{1,4}): (.{1,120}?)\s*")
_SECTION = re.compile(r"\s*(Host to Device|Device to Host|Device to Device) Bandwidth, ([0-9]+) Device\(s\)\s*")
_MEMORY = re.compile(r"\s*(PINNED|PAGEABLE) Memory Transfers\s*")
_HEAD = re.compile(r"\s*Transfer Size \(Bytes\)\s+Bandwidth\s*\((GB/s|MB/s)\)\s*")
_ROW = re.compile(r"\s*([0-9]{1,15})\s+([0-9]+\.[0-9])\s*")
_RESULT = re.compile(r"\s*Result = (PASS|FAIL)\s*")
_WAYS = {"Host to Device": "H2D", "Device to Host": "D2H", "Device to Device": "D2D"}
_ROUNDED = "rates are printed to a tenth of the unit"


@dataclass(frozen=True, slots=True)
class _Point:
    test: str
    size: int
    rate: Reading
    devices: int


def parse_bandwidth_test(text: str) -> MachineFacts:
    """A figure for the largest size of each test, and a curve where there are several sizes. Raises MeasuredError."""
    gpus: list[MeasuredGpu] = []
    points: list[_Point] = []
    errors: list[str] = []
    closed = False
    section, memory, unit, devices = "", "", "", 1
    for line in lines_of(text)[:ROWS_AT_MOST]:
        if found := _CSV.fullmatch(line.strip()):
            points.append(
                _point(found["test"], found["size"], found["rate"], found["unit"], int(found["devices"] or 1))
            )
        elif found := _DEVICE.fullmatch(line):
            gpus.append(MeasuredGpu(int(found[1]), found[2]))
        elif found := _SECTION.fullmatch(line):
            section, devices, memory, unit = _WAYS[found[1]], int(found[2]), "", ""
        elif found := _MEMORY.fullmatch(line):
            memory = "" if section == "D2D" else "-Pinned" if found[1] == "PINNED" else "-Paged"
        elif found := _HEAD.fullmatch(line):
            unit = found[1]
        elif unit and (found := _ROW.fullmatch(line)):
            points.append(_point(section + memory, found[1], found[2], unit, devices))
        elif found := _RESULT.fullmatch(line):
            closed = True
            errors += ["the tool says: Result = FAIL"] if found[1] == "FAIL" else []
    if not points:
        raise MeasuredError("it holds no figure")
    return picture((_run(gpus, points, errors, closed),))


def _point(test: str, size: str, rate: str, unit: str, devices: int) -> _Point:
    value = number_of(rate)
    if value is None:
        raise MeasuredError(f"the rate {rate[:20]!r} is no number")
    reading = reading_of(test, rate, unit) if unit == "GB/s" else Quantity(value * (1 << 20), _RATE)
    return _Point(test, int(size[:15]), reading, devices)


def _run(gpus: list[MeasuredGpu], points: list[_Point], errors: list[str], closed: bool) -> TransferRun:
    by_test: dict[str, list[_Point]] = {}
    for point in points:
        by_test.setdefault(point.test, []).append(point)
    several = {point.devices for point in points} - {1}
    notes = [_ROUNDED] + ["several GPUs took part, whose rates are added" for _ in list(several)[:1]]
    return TransferRun(
        tool=TOOL,
        gpus=distinct(gpus),
        transfers=tuple(_largest(test, found, gpus) for test, found in by_test.items()),
        curves=tuple(_curve(test, found, gpus) for test, found in by_test.items() if len(found) > 1),
        errors=tuple(errors),
        notes=tuple(notes),
        cut="" if closed else "it ends before the tool's own result",
    )


def _ends(test: str, gpus: list[MeasuredGpu]) -> tuple[End, End]:
    only = gpu(gpus[0].number) if len(gpus) == 1 else End(Place.GPU)
    return {"H2D": (HOST, only), "D2H": (only, HOST)}.get(test[:3].upper(), (only, only))


def _pinned(test: str) -> Flag:
    return True if "pinned" in test.lower() else False if "paged" in test.lower() else UNASKED


def _largest(test: str, found: list[_Point], gpus: list[MeasuredGpu]) -> TransferFacts:
    point = max(found, key=lambda each: each.size)
    start, end = _ends(test, gpus)
    return TransferFacts(
        test=f"{TOOL}-{test}",
        start=start,
        end=end,
        figure=Figure.BANDWIDTH,
        reading=point.rate,
        size=Quantity(point.size, Unit.BYTE),
        pinned=_pinned(test),
    )


def _curve(test: str, found: list[_Point], gpus: list[MeasuredGpu]) -> CurveFacts:
    start, end = _ends(test, gpus)
    points = tuple((Quantity(each.size, Unit.BYTE), each.rate) for each in found)
    return CurveFacts(
        test=f"{TOOL}-{test}",
        quantity="bandwidth",
        unit=_RATE,
        points=points,
        over="transfer",
        start=start,
        end=end,
        pinned=_pinned(test),
        note=_ROUNDED,
    )
