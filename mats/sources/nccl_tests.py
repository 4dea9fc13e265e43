"""Reads nccl-tests (all_reduce_perf and its like): text in its three layouts, and JSON (``-J``).

Each line of results is kept with its size. The line of the average bus bandwidth is not: it averages the smallest
sizes, where nothing but the start counts, with the largest. Of JSON the environment of the process, which may hold
secrets, is left alone. Sources: NVIDIA/nccl-tests, src/common.cu and src/util.cu; doc/PERFORMANCE.md for what busbw is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mats.facts import (
    UNASKED,
    CollectiveFacts,
    MachineFacts,
    MeasuredGpu,
    MismatchFacts,
    Text,
    TransferRun,
    pci_address,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._json_cut import dict_of, list_of, loads, text_of
from mats.sources._measured import (
    GIGABYTE,
    MICROSECOND,
    ROWS_AT_MOST,
    MeasuredError,
    distinct,
    lines_of,
    number_of,
    picture,
    plain,
    reading_of,
)

TOOL = "nccl-tests"
_HEAD = re.compile(r"#\s+size\s+count\s+.*")
_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,6}) (?:Group\s+[0-9]+ )?Pid\s+[0-9]+ on\s+(\S+) device\s+[0-9]+ "
    r"\[([0-9a-fA-Fx:]{1,16})\] (.+)"
)
_VERSION = re.compile(r"# nccl-tests version ([0-9][\w.]*)")
_NAME = re.compile(r"(?:^|[\s/\"])([a-z][a-z_]{2,30})_perf\b")
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*([0-9]+) (OK|FAILED)")
_START = re.compile(r"# nccl-tests version |# Collective test starting|# nThread |(?!#).*\b[a-z_]{3,30}_perf\b")
"""With which another run begins."""
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:")
_TROUBLE = re.compile(r"(?:# error: |.*Test (?:NCCL|CUDA) failure |.*NCCL failure ).*|.* NCCL WARN .*")
_IN_GROUP = frozenset({"time", "cputime", "algbw", "busbw", "error", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"})
_MAYBE_BLANK = ("root", "redop")
_UNCHECKED = Absent(AbsenceKind.NOT_TESTED, "wrong values: the tool did not check them")
_NO_NAME = Absent(AbsenceKind.NOT_FOUND, "which collective operation it is: not shown in this file")


@dataclass(slots=True)
class _Reader:
    version: Text = UNASKED
    name: Text = _NO_NAME
    gpus: list[MeasuredGpu] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    columns: tuple[str, ...] = ()
    found: list[CollectiveFacts] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ranks: int = 0
    """At least so many took part, where not all of them are listed."""
    closed: bool = False
    cut: str = ""

    def run(self) -> TransferRun:
        if not self.found:
            why = f" ({self.errors[0]})" if self.errors else ""
            raise MeasuredError(f"it holds no line of results{why}")
        if len(self.hosts) > 1:
            self.notes.append(
                f"its ranks ran on {len(self.hosts)} machines: the network between them is in the figures"
            )
        found = tuple(replace(each, name=self.name) for each in self.found)
        ranks = max(len(self.gpus), self.ranks)
        return TransferRun(
            tool=TOOL,
            version=self.version,
            gpus=distinct(self.gpus),
            collectives=found,
            mismatches=tuple(_mismatches(found)),
            ranks=Quantity(ranks, Unit.COUNT) if ranks else UNASKED,
            errors=tuple(self.errors),
            notes=tuple(dict.fromkeys(self.notes)),
            cut=self.cut,
        )


def parse_nccl_tests(text: str) -> MachineFacts:
    """Every line of results. Raises MeasuredError."""
    if re.match(r"\s*\{", text):
        return _of_json(text)
    lines = lines_of(text)
    readers = [_Reader()]
    for number, line in enumerate(lines):
        if readers[-1].closed and readers[-1].found and _START.match(line):
            readers.append(_Reader())
        _read_line(readers[-1], line, number == len(lines) - 1 and not text.endswith("\n"))
    if not readers[-1].closed:
        readers[-1].cut = readers[-1].cut or "it ends before the lines with which the tool ends"
    runs = [reader.run() for reader in readers if reader.found or len(readers) == 1]
    return picture(replace(run, cut=readers[-1].cut) if run is runs[-1] else run for run in runs)


def _read_line(reader: _Reader, line: str, last: bool) -> None:
    if line[:1].isspace() or line[:1].isdecimal():
        if reader.columns and re.match(r"\s*[0-9]+\s+[0-9]+\s", line):
            _read_row(reader, line, last)
        return
    if found := _RANK.match(line):
        reader.gpus.append(MeasuredGpu(int(found[1]), found[4].strip()[:120], _pci(found[3])))
        reader.hosts.add(found[2])
    elif _HEAD.match(line):
        reader.columns = tuple(line.lstrip("#").split())
    elif found := _VERSION.match(line):
        reader.version = found[1]
    elif found := _BOUNDS.match(line):
        reader.closed = True
        if found[2] == "FAILED":
            reader.errors.append(line[2:300])
    elif _AVERAGE.match(line):
        reader.closed = True
    elif _TROUBLE.match(line):
        reader.errors.append(line[:300].strip())
    if isinstance(reader.name, Absent) and (found := _NAME.search(line[:2000])):
        reader.name = found[1]


def _pci(text: str) -> Text:
    """Newer versions give the whole address; older ones the bus alone, which is not enough to know a card by."""
    if ":" in text:
        return pci_address(text)
    return Absent(AbsenceKind.NOT_FOUND, "PCI address: this version tells the bus alone")


def _read_row(reader: _Reader, line: str, last: bool) -> None:
    cells = line.split()
    names = [name for name in reader.columns if name != "timestamp"]
    if "timestamp" in reader.columns:
        cells = cells[: len(names)] if len(cells) in (len(names) + 2, len(names)) else cells
    for blank in _MAYBE_BLANK:  # some operations have neither
        if len(cells) < len(names) and blank in names:
            names.remove(blank)
    if last or len(cells) != len(names):
        if last:
            reader.cut = "it ends within a line of results"
        else:
            reader.notes.append(
                f"a line of results has {len(cells)} columns where {len(names)} are named: {line[:80]!r}"
            )
        return
    groups = _groups(names)
    head = dict(zip(names[: groups[0].start] if groups else names, cells, strict=False))
    for place, group in enumerate(groups):
        reader.found.append(_collective(reader, head, names, cells, group, place))


def _groups(names: Sequence[str]) -> list[range]:
    """The stretches of columns that are of one way to do it: out of place, then in place."""
    starts = [at for at, name in enumerate(names) if name in ("time", "cputime")]
    ends = [*starts[1:], len(names)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _collective(
    reader: _Reader, head: dict[str, str], names: Sequence[str], cells: Sequence[str], group: range, place: int
) -> CollectiveFacts:
    said = {names[at]: cells[at] for at in group if names[at] in _IN_GROUP}
    size = number_of(head.get("size", ""))
    what = f"{head.get('size', '?')} bytes"
    if "cputime" in said:
        reader.notes.append("times are those of the processor (-C)")
    return CollectiveFacts(
        name=reader.name,
        size=Quantity(int(size), Unit.BYTE) if size is not None else UNASKED,
        time=reading_of(f"time of {what}", said.get("time", said.get("cputime", "")), "us"),
        algorithm=reading_of(f"algbw of {what}", said.get("algbw", ""), "GB/s"),
        bus=reading_of(f"busbw of {what}", said.get("busbw", ""), "GB/s"),
        wrong=_wrong(said.get("#wrong", said.get("error", "N/A")), "#wrong" in said),
        in_place=place == 1,
        data_type=head.get("type", ""),
        operation=head.get("redop", ""),
    )


def _wrong(said: str, counted: bool) -> Reading:
    """Newer versions count wrong values; older ones tell the largest difference, of which only 0 says how many."""
    value = number_of(said)
    if value is None:
        return _UNCHECKED
    if counted:
        return Quantity(int(value), Unit.COUNT)
    if value == 0:
        return Quantity(0, Unit.COUNT)
    return Absent(
        AbsenceKind.UNREADABLE, f"wrong values: this version tells the largest difference, {said}, not how many"
    )


def _mismatches(found: Sequence[CollectiveFacts]) -> Iterator[MismatchFacts]:
    for each in found:
        if isinstance(each.wrong, Quantity) and each.wrong.value > 0:
            name = each.name if isinstance(each.name, str) else "a collective operation"
            size = each.size.value if isinstance(each.size, Quantity) else "?"
            where = "in place" if each.in_place else "out of place"
            yield MismatchFacts(
                test=name, text=f"{each.wrong.value} wrong values of {size} bytes, {where}", count=each.wrong
            )


def _of_json(text: str) -> MachineFacts:
    try:
        whole, cut = loads(text)
    except ValueError as error:
        raise MeasuredError(f"its JSON is damaged ({error})") from None
    root = dict_of(whole)
    reader = _Reader(cut=cut)
    name = _NAME.search(" ".join(_word(each) for each in list_of(root.get("args"))[:1]))
    reader.name = name[1] if name else _NO_NAME
    for device in map(dict_of, list_of(dict_of(root.get("config")).get("devices"))):
        rank = device.get("rank")
        if isinstance(rank, int) and not isinstance(rank, bool):
            reader.gpus.append(
                MeasuredGpu(
                    rank, _word(device.get("device_info"))[:120] or UNASKED, _pci(_word(device.get("device_hex")))
                )
            )
            reader.hosts.add(_word(device.get("hostname")))
    config = dict_of(root.get("config"))
    threads, gpus = config.get("nthreads"), config.get("ngpus")
    if isinstance(threads, int) and isinstance(gpus, int) and 0 < threads * gpus < ROWS_AT_MOST:
        reader.ranks = threads * gpus  # without MPI only the first is listed
    for line in itertools.islice(map(dict_of, list_of(root.get("results"))), ROWS_AT_MOST):
        reader.found += _json_line(reader, line)
    if _word(dict_of(root.get("out_of_bounds")).get("okay")) == "false":
        reader.errors.append(f"values out of bounds: {_word(dict_of(root.get('out_of_bounds')).get('count'))}")
    reader.errors += [each for each in (_word(said).strip()[:300] for said in list_of(root.get("errors"))) if each]
    return picture((reader.run(),))


def _json_line(reader: _Reader, line: dict[str, Any]) -> Iterator[CollectiveFacts]:
    size = plain(line.get("size"), Unit.BYTE, "1", "size")
    for key in ("out_of_place", "in_place"):
        said = dict_of(line.get(key))
        if not said:
            continue
        wrong = said.get("nwrong")
        counted = plain(wrong, Unit.COUNT, "1", "wrong values")
        yield CollectiveFacts(
            name=reader.name,
            size=size,
            time=plain(said.get("time", said.get("cpu_time")), Unit.SECOND, MICROSECOND, "time"),
            algorithm=plain(said.get("alg_bw"), Unit.BYTE_PER_SECOND, GIGABYTE, "algbw"),
            bus=plain(said.get("bus_bw"), Unit.BYTE_PER_SECOND, GIGABYTE, "busbw"),
            wrong=_UNCHECKED if wrong is None else counted,
            in_place=key == "in_place",
            data_type=_word(line.get("type")),
            operation=_word(line.get("redop")),
        )


def _word(value: Any) -> str:
    return text_of(value, "") if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
