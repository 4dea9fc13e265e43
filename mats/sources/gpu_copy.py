"""Reads gpu_copy, the copy benchmark of superbench: a name and a figure in GB/s a line.

The name tells everything: ``gpu0_to_gpu1_write_by_dma`` one way, ``cpu_and_gpu0_by_sm_under_numa1`` both ways together,
from a program that ran on node 1. ``dma`` is the copy engine, ``sm`` a kernel; a kernel that writes to host memory is
often far slower than the link. Source: microsoft/superbenchmark, gpu_copy_performance.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mats.facts import UNASKED, End, Engine, Figure, MachineFacts, PeerFacts, Place, TransferFacts, TransferRun, Ways
from mats.model import Quantity, Unit
from mats.sources._measured import EVERY_GPU, HOST, ROWS_AT_MOST, MeasuredError, gpu, lines_of, picture, reading_of

TOOL = "gpu_copy"
_END = r"cpu|gpu[0-9]{1,4}|gpu_all"
_LINE = re.compile(
    rf"(?:\S+[:/])?(?P<name>(?P<start>{_END})_(?P<way>to|and)_(?P<end>{_END})(?:_(?P<operation>read|write))?"
    r"_by_(?P<engine>sm|dma)(?:_under_numa(?P<node>[0-9]{1,3}))?(?:_(?P<mode>uni|bi))?(?:_bw)?)\s+(?P<figure>\S+)\s*"
)
_WHOLE = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_TROUBLE = re.compile(r".*(?:error: [0-9]+|[Mm]emory check failure|[Cc]heck data failed).*")


def parse_gpu_copy(text: str) -> MachineFacts:
    """Every line that is of a copy. Raises MeasuredError."""
    found: list[TransferFacts] = []
    errors: list[str] = []
    cut = ""
    lines = lines_of(text)
    for number, line in enumerate(lines[:ROWS_AT_MOST]):
        last = number == len(lines) - 1 and not text.endswith("\n")
        match = _LINE.fullmatch(line.strip())
        if last and line.strip():
            cut = "its last line has no end and is not taken"
        elif match is not None and _WHOLE.fullmatch(match["figure"]):
            found.append(_transfer(match))
        elif _TROUBLE.fullmatch(line):
            errors.append(line.strip()[:300])
    if not found:
        raise MeasuredError(f"it holds no figure of a copy{f' ({errors[0]})' if errors else ''}")
    reached = {_pair(each) for each in found if _by_kernels_between(each)}
    transfers = tuple(_with_access(each, reached) for each in found)
    peers = tuple(PeerFacts(start, end, True) for start, end in sorted(reached))
    return picture((TransferRun(TOOL, transfers=transfers, peers=peers, errors=tuple(errors), cut=cut),))


def _transfer(match: re.Match[str]) -> TransferFacts:
    both = match["way"] == "and" or match["mode"] == "bi"
    host = "cpu" in (match["start"], match["end"])
    return TransferFacts(
        test=match["name"],
        start=_end(match["start"]),
        end=_end(match["end"]),
        figure=Figure.BANDWIDTH,
        reading=reading_of(match["name"], match["figure"], "GB/s"),
        ways=Ways.SUM if both else Ways.ONE,
        engine=Engine.COPY_ENGINE if match["engine"] == "dma" else Engine.KERNELS,
        operation=match["operation"] or UNASKED,
        pinned=True if host else UNASKED,
        near=Quantity(int(match["node"]), Unit.COUNT) if match["node"] else UNASKED,
    )


def _end(word: str) -> End:
    if word == "cpu":
        return HOST
    return EVERY_GPU if word == "gpu_all" else gpu(int(word.removeprefix("gpu")))


def _pair(each: TransferFacts) -> tuple[int, int]:
    assert isinstance(each.start.number, int) and isinstance(each.end.number, int)
    return each.start.number, each.end.number


def _by_kernels_between(each: TransferFacts) -> bool:
    """A kernel of one GPU that worked on the memory of another one: it reaches it, or there would be no figure."""
    between = each.start.place is each.end.place is Place.GPU and not each.own_memory
    return between and each.engine is Engine.KERNELS and isinstance(each.reading, Quantity)


def _with_access(each: TransferFacts, reached: set[tuple[int, int]]) -> TransferFacts:
    between = each.start.place is each.end.place is Place.GPU and not each.own_memory
    if not between or not {_pair(each), _pair(each)[::-1]} & reached:
        return each
    return replace(each, access=True)
