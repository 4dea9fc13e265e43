"""Reads the output of nvbandwidth, text and JSON (``-j``), of versions 0.6 to 0.10.

What it says is told as it is: a test that was waived is none that failed, N/A is not 0, and where the data came back
other than they were sent it stops without any figure. Its sums and averages are left alone: they are of all pairs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mats.facts import (
    UNASKED,
    MachineFacts,
    MeasuredGpu,
    MismatchFacts,
    Text,
    TransferFacts,
    TransferRun,
    WaivedFacts,
    Ways,
    pci_address,
)
from mats.model import Quantity, Unit
from mats.sources._json_cut import dict_of, list_of, loads, text_of
from mats.sources._measured import ROWS_AT_MOST, MeasuredError, distinct, lines_of, matrix_at, picture
from mats.sources._nvbandwidth_tests import (
    BOTH_WAYS_BY_KERNELS,
    Grid,
    blocks_of,
    is_test,
    part_of,
    peers_of,
    transfers_of,
    unit_of,
)

TOOL = "nvbandwidth"
_VERSION = re.compile(r"nvbandwidth Version:\s*v?(\S+)")
_DRIVER = re.compile(r"Driver Version:\s*([0-9][0-9.]{2,20})\s*")
_CUDA = re.compile(r"CUDA Driver Version(?: \(API\))?:\s*([0-9.]{3,8})(?: \([0-9]+\))?\s*")
_DEVICE = re.compile(r"Device ([0-9]{1,4}): (.{1,120}?) \(([0-9a-fA-F:.]{7,16})\)\s*")
_PROCESS = re.compile(
    r"Process\s+([0-9]{1,4}) \((.{1,200})\): device [0-9]{1,4}: (.{1,120}?) \(([0-9a-fA-F:.]{7,16})\)\s*"
)
_RUNNING = re.compile(r"Running ([a-z][a-z0-9_]{2,80})\.\s*")
_WAIVED = re.compile(r"Waived:\s*(.{0,200}?)\s*")
_PATTERN = re.compile(r"\s*Invalid value when checking the pattern at <?(0x[0-9a-fA-F]{1,16})>?\s*(.*)")
_OFFSET = re.compile(r"\s*Current offset\s*(?::\s*([0-9]{1,18})|\[\s*([0-9]{1,18})\s*/\s*[0-9]{1,18}\s*\])\s*(.*)")
_ERROR = re.compile(r"(?:ERROR|Error):.*|\[(?:CUDA|NVML)_[A-Z0-9_]+\].*|ASSERT in expression .*|terminate called .*")
_WHOLE = r"[0-9]+\.[0-9]{2}|N/A"
_WORD = 4
"""Bytes of the numbers that newer versions compare; they print the offset as the number of such a word."""


@dataclass(slots=True)
class _Reader:
    """What was read of one run so far."""

    version: Text = UNASKED
    driver: Text = UNASKED
    cuda: Text = UNASKED
    gpus: list[MeasuredGpu] = field(default_factory=list)
    transfers: list[TransferFacts] = field(default_factory=list)
    waived: list[WaivedFacts] = field(default_factory=list)
    mismatches: list[MismatchFacts] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    test: str = ""
    """The test that runs; empty before the first."""
    told: bool = True
    """It has given figures, or said why not."""
    cut: str = ""

    def take(self, grid: Grid) -> None:
        found = list(transfers_of(grid))
        self.transfers += found
        if not found:
            self.notes.append(f"{grid.test}: its table is not taken, since it is not known what it measures")
        if any(each.test.endswith("_sm") and each.ways is Ways.SUM and not _between(each) for each in found):
            self.notes.append(BOTH_WAYS_BY_KERNELS)

    def run(self) -> TransferRun:
        if not (self.transfers or self.waived or self.mismatches or self.errors):
            raise MeasuredError("it holds no result of a test: the file ends before the first")
        if len(self.hosts) > 1:
            self.notes.append(f"its processes ran on {len(self.hosts)} machines")
        return TransferRun(
            tool=TOOL,
            version=self.version,
            gpus=distinct(self.gpus),
            transfers=tuple(self.transfers),
            waived=tuple(self.waived),
            mismatches=tuple(self.mismatches),
            peers=tuple(peers_of(self.transfers)),
            errors=tuple(self.errors),
            notes=tuple(dict.fromkeys(self.notes)),
            cut=self.cut,
        )


def _between(each: TransferFacts) -> bool:
    return each.start.place is each.end.place


def parse_nvbandwidth(text: str) -> MachineFacts:
    """Every run that stands in the text, text or JSON. Raises MeasuredError."""
    key = re.search(r'"nvbandwidth"\s*+:', text)
    if key is not None:
        return _of_json(text, max(text.rfind("{", 0, key.start()), 0))
    lines = lines_of(text)
    starts = [at for at, line in enumerate(lines) if _VERSION.match(line)] or [0]
    readers = [_read_text(lines[start:end]) for start, end in itertools.pairwise([*starts, len(lines)])]
    driver = next((each.driver for each in readers if isinstance(each.driver, str)), UNASKED)
    cuda = next((each.cuda for each in readers if isinstance(each.cuda, str)), UNASKED)
    return replace(picture((each.run() for each in readers), driver), cuda=cuda)


def _cuda(said: str) -> Text:
    """``13.1`` of "13.1" and of "13010". The tool asks the driver, also where it calls it the runtime's version."""
    if re.fullmatch(r"[0-9]{5,6}", said):
        return f"{int(said) // 1000}.{int(said) % 1000 // 10}"
    return said if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", said) else UNASKED


def _read_text(lines: list[str]) -> _Reader:
    reader = _Reader()
    at = 0
    while at < len(lines):
        at = _read_line(reader, lines, at)
    if not reader.told and not reader.cut and not reader.mismatches and not reader.errors:
        reader.cut = f"it ends before the figures of {reader.test}"
    return reader


def _read_line(reader: _Reader, lines: list[str], at: int) -> int:
    """Takes what begins at a line; gives the line behind it."""
    line = lines[at]
    if unit_of(line) and reader.test:
        return _read_table(reader, lines, at)
    if found := _VERSION.match(line):
        reader.version = found[1]
    elif found := _DRIVER.fullmatch(line):
        reader.driver = found[1]
    elif found := _CUDA.fullmatch(line):
        reader.cuda = _cuda(found[1])
    elif found := _DEVICE.fullmatch(line):
        reader.gpus.append(MeasuredGpu(int(found[1]), found[2], pci_address(found[3])))
    elif found := _PROCESS.fullmatch(line):
        reader.gpus.append(MeasuredGpu(int(found[1]), found[3], pci_address(found[4])))
        reader.hosts.add(found[2])
    elif found := _RUNNING.fullmatch(line):
        reader.test, reader.told = found[1], False
    elif found := _WAIVED.fullmatch(line):
        reader.waived.append(_waived(found[1]))
    elif found := _PATTERN.fullmatch(line):
        return _read_mismatch(reader, lines, at)
    elif _ERROR.fullmatch(line) and not (reader.mismatches and "h_errorFlag" in line):
        reader.errors.append(f"{reader.test}: {line[:300]}" if reader.test else line[:300])
    return at + 1


def _waived(said: str) -> WaivedFacts:
    return WaivedFacts(test=said) if is_test(said) else WaivedFacts(reason=said or UNASKED)


def _read_table(reader: _Reader, lines: list[str], at: int) -> int:
    title = lines[at].strip()
    matrix = matrix_at(lines, at + 1, "", None, whole_cell=_WHOLE)
    if matrix is None:
        if at + 1 >= len(lines):
            reader.cut = f"it ends before the figures of {reader.test}"
        else:
            reader.notes.append(f"{reader.test}: its table has a head that is not known")
        reader.told = True
        return at + 1
    reader.told = True
    if matrix.rows:
        reader.take(Grid(reader.test, title, part_of(title), matrix.rows, matrix.columns))
    if not any(line.startswith("SUM ") for line in lines[matrix.end : matrix.end + 3]):
        reader.cut = f"it ends within the table of {reader.test}"
    return matrix.end + (1 if matrix.cut else 0)


def _read_mismatch(reader: _Reader, lines: list[str], at: int) -> int:
    """The message, which is spread over two lines and more."""
    found = _PATTERN.fullmatch(lines[at])
    assert found is not None
    words = [lines[at].strip()]
    offset = _OFFSET.fullmatch(found[2]) if found[2] else None
    if offset is None and at + 1 < len(lines) and (offset := _OFFSET.fullmatch(lines[at + 1])):
        words.append(lines[at + 1].strip())
        at += 1
    reader.mismatches.append(
        MismatchFacts(
            test=reader.test or "a test that is not named",
            text=", ".join(words)[:300],
            address=found[1].lower(),
            offset=_offset(offset) if offset else UNASKED,
        )
    )
    reader.told = True
    return at + 1


def _offset(found: re.Match[str]) -> Quantity:
    """In bytes; newer versions give the number of the word, older ones the byte."""
    return Quantity(int(found[1]) * _WORD if found[1] else int(found[2]), Unit.BYTE)


def _of_json(text: str, start: int) -> MachineFacts:
    before, rest = text[:start], text[start:]
    try:
        whole, cut = loads(rest)
    except ValueError as error:
        raise MeasuredError(f"its JSON is damaged ({error})") from None
    root = dict_of(dict_of(whole).get(TOOL))
    if not root:
        raise MeasuredError("its JSON is cut before any result" if cut else "its JSON holds no results")
    reader = _Reader(cut=cut)
    reader.version = _text(root.get("version")).removeprefix("v") or UNASKED
    reader.driver = _text(root.get("Driver Version")) or UNASKED
    reader.cuda = _cuda(_text(root.get("CUDA Runtime Version")))
    reader.gpus = list(_json_gpus(root))
    for case in itertools.islice(map(dict_of, list_of(root.get("testcases"))), ROWS_AT_MOST):
        _read_case(reader, case)
    for holder in (root, dict_of(whole)):  # errors stand at the root, since the tool looks for its tests there
        _read_error(reader, _text(holder.get("error")))
    for line in before.splitlines():
        _read_error(reader, line)
    return replace(picture((reader.run(),), reader.driver), cuda=reader.cuda)


def _json_gpus(root: dict[str, Any]) -> Iterator[MeasuredGpu]:
    for said in list_of(root.get("GPU Device list")):
        found = re.match(r"([0-9]{1,4}): (.{1,120}?) \(([0-9a-fA-F:.]{7,16})\)", _text(said))
        if found:
            yield MeasuredGpu(int(found[1]), found[2], pci_address(found[3]))


def _read_case(reader: _Reader, case: dict[str, Any]) -> None:
    name, status = _text(case.get("name")), _text(case.get("status")).lower()
    reader.test = name if is_test(name) else "a test that is not named"
    title = _text(case.get("bandwidth_description")).strip()
    rows = [[_text(cell) for cell in list_of(row)] for row in list_of(case.get("bandwidth_matrix"))][:ROWS_AT_MOST]
    if reader.cut and not status:
        reader.notes += (
            [f"{reader.test}: its figures are not taken, since the file ends within it"] if name or rows else []
        )
    elif status == "waived":
        reader.waived.append(_waived(name))
    elif rows and unit_of(title):
        for grid in blocks_of(reader.test, title, rows):
            reader.take(grid)
        if status not in ("passed", "running", ""):  # what it measured stands, and so does that it failed
            reader.errors.append(f"{reader.test}: {status}")
    elif status not in ("passed", "running"):
        reader.errors.append(f"{reader.test}: {status}")
    elif not reader.cut:
        reader.notes.append(f"{reader.test}: it is said to be {status} and has no figures that can be read")
    _read_error(reader, _text(case.get("error")))


def _read_error(reader: _Reader, said: str) -> None:
    """An error of the JSON, or a line before it: either may hold the message of wrong data."""
    words = " ".join(said.split())
    if not words:
        return
    if found := _PATTERN.search(words):
        offset = _OFFSET.search(found[2].lstrip(": "))
        reader.mismatches.append(
            MismatchFacts(
                test=reader.test or "a test that is not named",
                text=words[:300],
                address=found[1].lower(),
                offset=_offset(offset) if offset else UNASKED,
            )
        )
    elif reader.mismatches and _OFFSET.search(words):
        return
    else:
        reader.errors.append(words[:300])


def _text(value: Any) -> str:
    return text_of(value, "") if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
