"""What allocators say when they run out of memory, and the tables of torch's own statistics, wherever in a log.

torch (1.x to 2.15, CUDA and ROCm, with its own cache and with cudaMallocAsync), CuPy, the BFC allocator of JAX and
TensorFlow, vLLM's refusals, ``torch.cuda.memory_summary()`` and dumps of ``torch.cuda.memory_stats()``. Messages round
to two decimals: a figure is as exact as what was printed. What a message does not say is absent.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mats.facts.allocator import Allocator, CacheFacts, HolderFacts, RefusalFacts, StuckFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

MESSAGES_MAXIMUM = 1000
"""Messages of one text that are read."""
_MESSAGE_LENGTH = 4000
_UNITS = {
    "": 1, "b": 1, "byte": 1, "bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40,
}  # fmt: skip
"""Older torch wrote MB and meant MiB."""
_NO_LIMIT = 1 << 60
"""torch prints 17179869184 GiB where no limit was set."""
_SIZE = r"([0-9][0-9,]{0,25}(?:\.[0-9]{1,6})?) ?((?:[KMGT]i?B|bytes?|B)\b|(?![\w.]))"


class MessageError(ValueError):
    """The text holds no message of an allocator; one sentence says so."""


def parse(text: str) -> tuple[CacheFacts, ...]:
    """One cache for each message or table, in the order of the text. Raises MessageError."""
    found: list[tuple[int, CacheFacts]] = []
    for sign, read in _READERS:
        for match in sign.finditer(text):
            cache = read(text[match.start() : match.start() + _MESSAGE_LENGTH])
            if cache is not None:
                found.append((match.start(), cache))
            if len(found) >= MESSAGES_MAXIMUM:
                break
    found += [(0, cache) for cache in _statistics(text)]
    if not found:
        raise MessageError("holds no message of an allocator that ran out of memory and no table of its statistics")
    return tuple(cache for _, cache in sorted(found, key=lambda each: each[0]))


def is_message(text: str) -> bool:
    """Whether the text shows any sign of one."""
    return any(sign.search(text) for sign, _ in _READERS) or _STATISTICS.search(text) is not None


def _bytes(number: str, unit: str) -> Quantity:
    return Quantity(round(float(number.replace(",", "")) * _UNITS[unit.lower()]), Unit.BYTE)


def _said(text: str, *patterns: str) -> Quantity | None:
    """The size that stands where the first pattern that fits has ``@``."""
    for pattern in patterns:
        if match := re.search(pattern.replace("@", _SIZE), text):
            return _bytes(match[1], match[2])
    return None


def _or(value: Quantity | None, what: str) -> Reading:
    return value or Absent(AbsenceKind.NOT_FOUND, f"{what}: the message does not say")


def _number(text: str, pattern: str, what: str) -> Reading:
    match = re.search(pattern, text)
    return Quantity(int(match[1]), Unit.COUNT) if match else Absent(AbsenceKind.NOT_FOUND, f"{what}: not said")


def _minus(first: Reading, second: Reading) -> Reading:
    if isinstance(first, Absent):
        return first
    return second if isinstance(second, Absent) else Quantity(max(0, first.value - second.value), Unit.BYTE)


def _torch(text: str) -> CacheFacts:
    """``CUDA out of memory. Tried to allocate ...``: the older form in brackets, the newer in sentences."""
    text = re.split(r"If reserved (?:memory|but unallocated)", text)[0]
    allocated = _said(text, r"@ (?:already allocated|is allocated by PyTorch)")
    reserved = _said(text, r"@ reserved in total by PyTorch")
    cached = _said(text, r"@ is reserved by PyTorch but unallocated")
    known_cached: Reading = _or(cached, "cached and free")
    known_reserved: Reading = _or(reserved, "reserved")
    used = _or(allocated, "allocated")
    if cached is None and reserved is not None:
        known_cached = _minus(reserved, used)
    if reserved is None and cached is not None and allocated is not None:
        known_reserved = Quantity(allocated.value + cached.value, Unit.BYTE)
    private = _said(text, r"with @ allocated in private pools")
    refusal = RefusalFacts(
        wanted=_or(_said(text, r"Tried to allocate @"), "what was wanted"),
        free=_or(_said(text, "of which @ is free", "; @ free"), "free on the device"),
        total=_or(_said(text, "total capacity of @", "; @ total capacity"), "capacity"),
        limit=_limit(_said(text, r"@ allowed")),
        process=_or(_said(text, r"this process has @ memory in use"), "held by the process"),
        others=tuple(_others(text)),
        text=_shortened(text),
    )
    return CacheFacts(
        Allocator.TORCH,
        device=_number(text, r"GPU (\d{1,4})\b", "device"),
        reserved=known_reserved,
        allocated=used,
        cached=known_cached,
        limit=refusal.limit,
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
        notes=(f"{private.value:,} bytes of what is allocated are in private pools (graphs)",) if private else (),
    )


def _limit(said: Quantity | None) -> Reading:
    if said is None or said.value >= _NO_LIMIT:
        return Absent(AbsenceKind.NOT_FOUND, "limit: none was set, as far as the message says")
    return said


def _others(text: str) -> Iterator[HolderFacts]:
    for match in re.finditer(rf"Process (\d{{1,10}}) has {_SIZE} memory in use", text):
        yield HolderFacts(int(match[1]), _bytes(match[2], match[3]))


def _shortened(text: str) -> str:
    return " ".join(text.split())[:600]


def _async(text: str) -> CacheFacts:
    """torch on cudaMallocAsync: lines of name and size; what the pool keeps is not in it."""
    gap = r"[ \t]*:[ \t]*"
    refusal = RefusalFacts(
        wanted=_or(_said(text, rf"Requested{gap}@"), "what was wanted"),
        free=_or(_said(text, rf"Free \(according to \w+\){gap}@"), "free on the device"),
        total=_or(_said(text, rf"Device limit{gap}@"), "capacity"),
        limit=_limit(_said(text, rf"memory fraction\)\s*{gap}@")),
        text=_shortened(text.split("\n\n")[0]),
    )
    unknown = Absent(AbsenceKind.NOT_FOUND, "what the pool of cudaMallocAsync keeps: the message does not say")
    return CacheFacts(
        Allocator.ASYNC,
        device=_number(text, r"on device (\d{1,4})", "device"),
        reserved=unknown,
        allocated=_or(_said(text, rf"Currently allocated{gap}@"), "allocated"),
        cached=unknown,
        limit=refusal.limit,
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
    )


def _cupy(text: str) -> CacheFacts:
    """CuPy counts as allocated what its pool holds, used or free."""
    limit = _said(text, r"limit set to: @")
    refusal = RefusalFacts(
        wanted=_or(_said(text, r"allocating @"), "what was wanted"), limit=_limit(limit), text=_shortened(text[:400])
    )
    return CacheFacts(
        Allocator.CUPY,
        reserved=_or(_said(text, r"allocated so far: @"), "reserved"),
        limit=refusal.limit,
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
        notes=("CuPy calls allocated what its pool holds: used and free together",),
    )


_OWN_MEMORY = "the BFC allocator has its memory from the start: the driver's free memory does not enter"


def _xla(text: str) -> CacheFacts:
    """JAX: allocatable is the largest piece, available the sum."""
    refusal = RefusalFacts(
        wanted=_or(_said(text, r"allocate @"), "what was wanted"),
        free=Quantity(0, Unit.BYTE),
        text=_shortened(text[:300]),
    )
    largest = _or(_said(text, r"@ allocatable"), "largest piece")
    return CacheFacts(
        Allocator.BFC,
        cached=_or(_said(text, r"@ available"), "free"),
        largest_free=largest,
        largest_usable=largest,
        returnable=Quantity(0, Unit.BYTE),
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
        notes=(_OWN_MEMORY,),
    )


def _bfc(text: str) -> CacheFacts:
    """TensorFlow and older JAX: the sentence, and the lines of statistics where they follow."""

    def figure(name: str) -> Reading:
        match = re.search(rf"\b{name}:[ \t]*(-?\d{{1,20}})", text)
        if match is None or int(match[1]) < 0:
            return Absent(AbsenceKind.NOT_FOUND, f"{name}: the message does not say")
        return Quantity(int(match[1]), Unit.BYTE)

    limit, used = figure("Limit"), figure("InUse")
    exact = re.search(r"rounded to (\d{1,20})\)", text)
    wanted = Quantity(int(exact[1]), Unit.BYTE) if exact else _said(text, r"trying to allocate @")
    refusal = RefusalFacts(
        wanted=_or(wanted, "what was wanted"), free=Quantity(0, Unit.BYTE), text=_shortened(text[:400])
    )
    largest = figure("LargestFreeBlock")
    return CacheFacts(
        Allocator.BFC,
        device=_number(text, r"GPU_(\d{1,4})_bfc", "device"),
        reserved=limit,
        allocated=used,
        cached=_minus(limit, used),
        largest_free=largest,
        largest_usable=largest,
        returnable=Quantity(0, Unit.BYTE),
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
        notes=(_OWN_MEMORY,),
    )


def _vllm(text: str) -> CacheFacts:
    """vLLM that refuses to start because others hold the memory that it was promised."""
    match = re.search(rf"\(([0-9]{{1,6}}(?:\.[0-9]{{1,4}})?)/{_SIZE}\)", text)
    desired = re.search(rf"utilization \([0-9.]{{1,8}}, {_SIZE}\)", text)
    total = _bytes(match[2], match[3]) if match else None
    free = _bytes(match[1], match[3]) if match else None
    refusal = RefusalFacts(
        wanted=_or(_bytes(desired[1], desired[2]) if desired else None, "what was wanted"),
        free=_or(free, "free on the device"),
        total=_or(total, "capacity"),
        text=_shortened(text[:400]),
    )
    nothing = Quantity(0, Unit.BYTE)
    return CacheFacts(
        Allocator.ENGINE,
        reserved=nothing,
        allocated=nothing,
        cached=nothing,
        returnable=nothing,
        largest_usable=nothing,
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
        notes=("vLLM had nothing of the device yet: what is not free is held by others",),
    )


def _vllm_cache(text: str) -> CacheFacts:
    """vLLM whose pool of pages is smaller than one request."""
    needed = _said(text, r"\(@ KV cache is needed")
    there = _said(text, r"available KV cache memory \(@\)")
    refusal = RefusalFacts(
        wanted=_or(needed, "what was wanted"),
        free=Quantity(0, Unit.BYTE),
        limit=_or(there, "limit"),
        text=_shortened(text[:500]),
    )
    return CacheFacts(
        Allocator.ENGINE,
        reserved=_or(there, "pages"),
        allocated=Quantity(0, Unit.BYTE),
        cached=_or(there, "pages"),
        limit=refusal.limit,
        refused=Quantity(1, Unit.COUNT),
        refusals=(refusal,),
    )


_ROWS = {
    "allocated": "Allocated memory",
    "active": "Active memory",
    "requested": "Requested memory",
    "reserved": "GPU reserved memory",
    "stuck": "Non-releasable memory",
}


def _summary(text: str) -> CacheFacts | None:
    """``torch.cuda.memory_summary()``: the column of current use."""

    def row(name: str) -> Reading:
        match = re.search(rf"\| {name} *\| *([0-9]{{1,20}}) ([KMGTP]i?B|B) *\|", text)
        if match is None:
            return Absent(AbsenceKind.NOT_FOUND, f"{name}: the table has no such row")
        return _bytes(match[1], match[2])

    text = text[: end.end()] if (end := re.search(r"\|=+\|\s*$", text)) else text
    rows = {key: row(name) for key, name in _ROWS.items()}
    if isinstance(rows["reserved"], Absent):
        return None
    head = re.search(r"CUDA OOMs: (\d{1,12}) *\| *cudaMalloc retries: (\d{1,12})", text)
    unknown = Absent(AbsenceKind.NOT_FOUND, "retries: the table does not say")
    pending = _minus(rows["active"], rows["allocated"])
    cached = _minus(_minus(rows["reserved"], rows["allocated"]), pending)
    return CacheFacts(
        Allocator.TORCH,
        device=_number(text, r"device ID (\d{1,4})", "device"),
        reserved=rows["reserved"],
        allocated=rows["allocated"],
        pending=pending,
        requested=rows["requested"],
        cached=cached,
        returnable=_minus(cached, rows["stuck"]),
        stuck=StuckFacts(gaps=rows["stuck"]),
        segments=_number(text, r"\| GPU reserved segments *\| *(\d{1,12}) ", "segments"),
        refused=Quantity(int(head[1]), Unit.COUNT) if head else unknown,
        retries=Quantity(int(head[2]), Unit.COUNT) if head else unknown,
        notes=("torch's table does not tell why memory is stuck, and counts 0 where segments are expandable",),
    )


_STATISTICS = re.compile(r"allocated_bytes\.all\.current")


def _statistics(text: str) -> Iterator[CacheFacts]:
    """A dump of ``torch.cuda.memory_stats()``, as JSON or as Python prints it."""
    if not _STATISTICS.search(text):
        return
    start, end = text.find("{"), text.rfind("}")
    held = _plain(text[start : end + 1]) if 0 <= start < end else None
    if not isinstance(held, dict):
        held = dict(re.findall(r"(?<![a-z_.])([a-z_]+(?:\.[a-z_]+){0,2})[\"']?\)?\s*[:=,]\s*(\d{1,20})", text))
    yield _of_statistics(held)


def _plain(text: str) -> Any:
    readers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)
    for read in readers:
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _of_statistics(held: Mapping[str, Any]) -> CacheFacts:
    def figure(key: str, unit: Unit = Unit.BYTE) -> Reading:
        try:
            value = int(held[key])
        except (KeyError, TypeError, ValueError, OverflowError):
            return Absent(AbsenceKind.NOT_FOUND, f"{key}: the statistics do not hold it")
        return Quantity(value, unit) if value >= 0 else Absent(AbsenceKind.UNREADABLE, f"{key} is negative")

    reserved, allocated = figure("reserved_bytes.all.current"), figure("allocated_bytes.all.current")
    pending = _minus(figure("active_bytes.all.current"), allocated)
    cached = _minus(_minus(reserved, allocated), pending)
    stuck = figure("inactive_split_bytes.all.current")
    return CacheFacts(
        Allocator.TORCH,
        reserved=reserved,
        allocated=allocated,
        pending=pending,
        requested=figure("requested_bytes.all.current"),
        cached=cached,
        returnable=_minus(cached, stuck),
        stuck=StuckFacts(gaps=stuck),
        segments=figure("segment.all.current", Unit.COUNT),
        retries=figure("num_alloc_retries", Unit.COUNT),
        refused=figure("num_ooms", Unit.COUNT),
        notes=("torch's statistics do not tell why memory is stuck, and count 0 where segments are expandable",),
    )


_READERS: tuple[tuple[re.Pattern[str], Callable[[str], CacheFacts | None]], ...] = (
    (re.compile(r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate"), _torch),
    (re.compile(r"Allocation on device \d{1,4} would exceed allowed memory"), _async),
    (re.compile(r"Out of memory allocating [0-9,]{1,25} bytes \(allocated so far"), _cupy),
    (re.compile(r"Could not allocate \d{1,20} bytes in memory \S{1,60}; \d{1,20} bytes allocatable"), _xla),
    (re.compile(r"Allocator \(\S{1,60}\) ran out of memory trying to allocate"), _bfc),
    (re.compile(r"Free memory on device .{0,60} on startup is less than desired GPU memory utilization"), _vllm),
    (re.compile(r"To serve at least one request with the models?'s max seq len"), _vllm_cache),
    (re.compile(r"PyTorch CUDA memory summary, device ID"), _summary),
)
