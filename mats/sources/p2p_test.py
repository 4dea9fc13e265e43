"""Reads p2pBandwidthLatencyTest of the CUDA samples: who reaches whom, and what copies between pairs of GPUs took.

The tables titled ``P2P=Enabled`` have figures for pairs that cannot reach each other, too: such a copy stops in the
host's memory. Only the connectivity matrix tells; without it nothing is said to have gone directly. The diagonal is a
GPU's own memory, where the tool counts what is read and what is written; both ways are counted together (performP2PCopy
and outputBidirectionalBandwidthMatrix in p2pBandwidthLatencyTest.cu). A write goes from the row to the column, a read
back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mats.facts import (
    UNASKED,
    End,
    Figure,
    Flag,
    MachineFacts,
    MeasuredGpu,
    PeerFacts,
    TransferFacts,
    TransferRun,
    Ways,
)
from mats.model import AbsenceKind, Absent
from mats.sources._measured import MeasuredError, distinct, gpu, lines_of, matrix_at, pci_of, picture, reading_of

TOOL = "p2pBandwidthLatencyTest"
_DEVICE = re.compile(
    r"Device: ([0-9]{1,4}), (.{1,120}?), pciBusID: ([0-9a-fA-F]{1,2}), pciDeviceID: ([0-9a-fA-F]{1,2}), "
    r"pciDomainID: ?([0-9a-fA-F]{1,8})\s*"
)
_CAN = re.compile(r"Device=([0-9]{1,4}) (CAN|CANNOT) Access Peer Device=([0-9]{1,4})\s*")
_BANDWIDTH = re.compile(
    r"(Unidirectional|Bidirectional) P2P=(Enabled|Disabled) Bandwidth(?: \(P2P (Writes|Reads)\))? "
    r"Matrix \(([A-Za-z/]+)\)\s*"
)
_LATENCY = re.compile(r"P2P=(Enabled|Disabled) Latency(?: \(P2P (Writes|Reads)\))? Matrix \(([a-z]+)\)\s*")
_CONNECTIVITY = re.compile(r"P2P Connectivity Matrix\s*")
_WHOLE = r"[0-9]+\.[0-9]{2}|N/A|nan|inf"
_TROUBLE = re.compile(r"Cuda failure .*|CUDA error .*|Two or more GPUs .*required.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Title:
    test: str
    enabled: bool
    unit: str
    figure: Figure
    ways: Ways = Ways.ONE
    reads: bool = False


@dataclass(slots=True)
class _Reader:
    gpus: list[MeasuredGpu] = field(default_factory=list)
    access: dict[tuple[int, int], bool] = field(default_factory=dict)
    tables: list[tuple[_Title, int, tuple[int, ...], tuple[str, ...]]] = field(default_factory=list)
    """A title, the number of a row, the numbers of the columns and the cells of that row."""
    errors: list[str] = field(default_factory=list)
    cut: str = ""


def parse_p2p_test(text: str) -> MachineFacts:
    """What the tool found of each pair. Raises MeasuredError."""
    lines = lines_of(text)
    reader = _Reader()
    at = 0
    while at < len(lines):
        at = _read_line(reader, lines, at)
    transfers = tuple(each for row in reader.tables for each in _transfers(reader, *row))
    peers = tuple(PeerFacts(start, end, access) for (start, end), access in sorted(reader.access.items()))
    if not transfers and not peers:
        why = f" ({reader.errors[0]})" if reader.errors else ""
        raise MeasuredError(f"it holds no figure and no connectivity matrix{why}")
    notes = () if peers else ("the connectivity matrix is missing: which pairs went directly is not known",)
    run = TransferRun(
        tool=TOOL,
        gpus=distinct(reader.gpus),
        transfers=transfers,
        peers=peers,
        errors=tuple(reader.errors),
        notes=notes,
        cut=reader.cut,
    )
    return picture((run,))


def _read_line(reader: _Reader, lines: list[str], at: int) -> int:
    line = lines[at].strip()
    if found := _DEVICE.fullmatch(line):
        reader.gpus.append(MeasuredGpu(int(found[1]), found[2], pci_of(found[5], found[3], found[4])))
    elif found := _CAN.fullmatch(line):
        reader.access[int(found[1]), int(found[3])] = found[2] == "CAN"
    elif _CONNECTIVITY.fullmatch(line):
        return _read_connectivity(reader, lines, at + 1)
    elif title := _title(line):
        return _read_tables(reader, title, lines, at + 1)
    elif _TROUBLE.fullmatch(line):
        reader.errors.append(line[:300])
    return at + 1


def _title(line: str) -> _Title | None:
    name = line.partition(" Matrix")[0]
    if found := _BANDWIDTH.fullmatch(line):
        ways = Ways.SUM if found[1] == "Bidirectional" else Ways.ONE
        return _Title(name, found[2] == "Enabled", found[4], Figure.BANDWIDTH, ways, found[3] == "Reads")
    if found := _LATENCY.fullmatch(line):
        return _Title(name, found[1] == "Enabled", found[3], Figure.COPY_LATENCY, reads=found[2] == "Reads")
    return None


def _read_connectivity(reader: _Reader, lines: list[str], at: int) -> int:
    matrix = matrix_at(lines, at, r"D\\D", None, whole_cell="[01]")
    if matrix is None:
        reader.cut = reader.cut or ("it ends before the connectivity matrix" if at >= len(lines) else "")
        return at
    for row, cells in matrix.rows:
        for column, cell in zip(matrix.columns, cells, strict=True):
            if row != column and cell in ("0", "1"):
                reader.access[row, column] = cell == "1"
    if len(matrix.rows) < len(matrix.columns):
        reader.cut = "it ends within the connectivity matrix"
    return matrix.end


def _read_tables(reader: _Reader, title: _Title, lines: list[str], at: int) -> int:
    """One table of bandwidths; of delays a table as the GPUs see them and one as the processor does."""
    delay = title.figure is Figure.COPY_LATENCY
    corners = {"GPU": Figure.COPY_LATENCY, "CPU": Figure.COPY_ISSUE} if delay else {r"D\\D": Figure.BANDWIDTH}
    taken = False
    for corner, figure in corners.items():
        matrix = matrix_at(lines, at, corner, None, whole_cell=_WHOLE)
        if matrix is None:
            continue
        taken = True
        titled = _Title(title.test, title.enabled, title.unit, figure, title.ways, title.reads)
        reader.tables += [(titled, row, matrix.columns, cells) for row, cells in matrix.rows]
        at = matrix.end
        if len(matrix.rows) < len(matrix.columns):
            reader.cut = f"it ends within the table {title.test!r}"
    if not taken and at >= len(lines):
        reader.cut = f"it ends before the table {title.test!r}"
    return at


def _transfers(
    reader: _Reader, title: _Title, row: int, columns: tuple[int, ...], cells: tuple[str, ...]
) -> list[TransferFacts]:
    found = []
    for column, cell in zip(columns, cells, strict=True):
        start, end = (column, row) if title.reads else (row, column)
        found.append(
            TransferFacts(
                test=title.test,
                start=gpu(start),
                end=gpu(end),
                figure=title.figure,
                reading=reading_of(f"{title.test} {start} to {end}", cell, title.unit),
                ways=title.ways,
                access=_access(reader, title, gpu(start), gpu(end)),
                operation=("read" if title.reads else "write") if title.enabled else UNASKED,
            )
        )
    return found


def _access(reader: _Reader, title: _Title, start: End, end: End) -> Flag:
    if start == end:
        return Absent(AbsenceKind.NOT_SUPPORTED, "direct access: it is the GPU's own memory")
    if not title.enabled:
        return False
    assert isinstance(start.number, int) and isinstance(end.number, int)
    reached = reader.access.get((start.number, end.number))
    if reached is None:
        return Absent(
            AbsenceKind.NOT_FOUND, "direct access: the connectivity matrix is missing, and 'Enabled' alone says nothing"
        )
    return reached
