"""Memory of a GPU through NVML: how much there is, the errors in it, what was replaced, and how it is sliced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mats.facts import (
    BankHistogram,
    EccCounts,
    EccFacts,
    MemoryFacts,
    RemapFacts,
    RetirementFacts,
    WindowFacts,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._nvml_answers import Asked, count, flag, lacks, part, quantity
from mats.sources._nvml_child import STRUCT

_SECOND_VERSION = 0x02000028
"""nvmlMemory_v2: size of the structure and its version."""
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_DRAM, _SRAM = 2, 7
_OLDER_SRAM = (0, 1, 3, 4, 5, 6)
"""L1, L2, register file, texture, shared memory, CBU: the places that boards before Turing tell one by one."""
_SRAM_UNITS = (
    ("l2", "aggregateUncBucketL2"),
    ("sm", "aggregateUncBucketSm"),
    ("microcontroller", "aggregateUncBucketMcu"),
    ("pcie", "aggregateUncBucketPcie"),
    ("other", "aggregateUncBucketOther"),
)


def read_memory(gpu: Asked) -> MemoryFacts:
    """Version 2 tells what is reserved from what is used; before it, both are "used" and reserved is absent."""
    info = gpu.ask("memory", "MemoryInfo", _SECOND_VERSION)
    reserved = part(info, "reserved")
    older: Any | Absent = None
    if lacks(info):
        info = older = gpu.ask("memory", "MemoryInfo")
    total, used, free = (part(info, name) for name in ("total", "used", "free"))
    if total == 0:  # some systems with unified memory answer with zeros
        total = reserved = used = free = Absent(AbsenceKind.UNREADABLE, "memory: the driver says 0 bytes")
    values = [quantity(value, Unit.BYTE) for value in (total, reserved, used, free)]
    with_reserved = values[2] if older is not None else _sum("used memory", values[2], values[1])
    total_bytes, reserved_bytes, used_bytes, free_bytes = values
    return MemoryFacts(total_bytes, reserved_bytes, used_bytes, free_bytes, with_reserved)


def read_whole_memory(gpu: Asked) -> MemoryFacts:
    """As :func:`read_memory`, with the width of the bus."""
    return replace(read_memory(gpu), bus=count(gpu.ask("width of the memory bus", "MemoryBusWidth")))


def read_window(gpu: Asked) -> WindowFacts:
    """Bytes of BAR1."""
    info = gpu.ask("BAR1", "BAR1MemoryInfo")
    return WindowFacts(*(quantity(part(info, name), Unit.BYTE) for name in ("bar1Total", "bar1Used", "bar1Free")))


def read_ecc(gpu: Asked) -> EccFacts:
    """The mode, and the totals since the driver was loaded or the GPU was reset."""
    mode = gpu.ask("ECC mode", "EccMode")
    totals = [
        count(gpu.ask(f"{word} ECC errors", "TotalEccErrors", kind, _VOLATILE))
        for word, kind in (("corrected", _CORRECTED), ("uncorrected", _UNCORRECTED))
    ]
    return EccFacts(flag(part(mode, 0)), flag(part(mode, 1)), corrected=totals[0], uncorrected=totals[1])


def read_all_ecc(gpu: Asked) -> EccFacts:
    """As :func:`read_ecc`, with where the errors were, those of the card's life, and repairs that wait."""
    ecc = read_ecc(gpu)
    repair = gpu.ask("repair", "RepairStatus")
    unrepairable = gpu.ask("unrepairable memory", "UnrepairableMemoryFlag_v1")
    if ecc.enabled is False or (isinstance(ecc.enabled, Absent) and ecc.enabled.kind is AbsenceKind.NOT_SUPPORTED):
        why = "ECC is switched off" if ecc.enabled is False else "this GPU has no ECC"
        off = Absent(AbsenceKind.NOT_SUPPORTED, f"ECC errors: {why}")
        status: Any | Absent = off
        volatile = aggregate = EccCounts(off, off, off, off, off, off)
    else:
        status = gpu.ask("SRAM errors", "SramEccErrorStatus", (STRUCT, "c_nvmlEccSramErrorStatus_v1_t"))
        volatile = _counts(gpu, "volatile", _VOLATILE, status)
        aggregate = _counts(gpu, "aggregate", _AGGREGATE, status)
    return EccFacts(
        enabled=ecc.enabled,
        pending=ecc.pending,
        corrected=ecc.corrected,
        uncorrected=ecc.uncorrected,
        volatile=volatile,
        aggregate=aggregate,
        sram_threshold_exceeded=flag(part(status, "bThresholdExceeded")),
        sram_sources=()
        if isinstance(status, Absent)
        else tuple((name, count(status[member])) for name, member in _SRAM_UNITS),
        channel_repair_pending=flag(part(repair, 0)),
        tpc_repair_pending=flag(part(repair, 1)),
        unrepairable_memory=flag(unrepairable),
    )


def _counts(gpu: Asked, span: str, counter: int, status: Any | Absent) -> EccCounts:
    """Of one span; SRAM from its own structure where the driver has one, else by place."""

    def told(place: int, word: str, kind: int) -> Reading:
        name = {_DRAM: "DRAM", _SRAM: "SRAM"}.get(place, f"place {place}")
        what = f"{span} {word} ECC errors in {name}"
        return count(gpu.ask(what, "MemoryErrorCounter", kind, counter, place))

    def sram(word: str, kind: int) -> Reading:
        whole = told(_SRAM, word, kind)
        if not isinstance(whole, Absent) or whole.kind is not AbsenceKind.NOT_SUPPORTED:
            return whole
        parts = [told(place, word, kind) for place in _OLDER_SRAM]
        known = [int(each.value) for each in parts if isinstance(each, Quantity)]
        hidden = [e for e in parts if isinstance(e, Absent) and e.kind is not AbsenceKind.NOT_SUPPORTED]
        return hidden[0] if hidden else Quantity(sum(known), Unit.COUNT) if known else whole

    dram = (told(_DRAM, "corrected", _CORRECTED), told(_DRAM, "uncorrected", _UNCORRECTED))
    if isinstance(status, Absent):
        corrected, uncorrected = sram("corrected", _CORRECTED), sram("uncorrected", _UNCORRECTED)
        return EccCounts(corrected, uncorrected, status, status, *dram)
    parity, secded, corrected = (count(status[f"{span}{name}"]) for name in ("UncParity", "UncSecDed", "Cor"))
    return EccCounts(corrected, _sum(f"{span} SRAM errors", parity, secded), parity, secded, *dram)


def _sum(what: str, first: Reading, second: Reading) -> Reading:
    """Absent where one of the two is, since the other alone would be too small."""
    if isinstance(first, Quantity) and isinstance(second, Quantity):
        return Quantity(first.value + second.value, first.unit)
    gone = first if isinstance(first, Absent) else second
    assert isinstance(gone, Absent)
    return Absent(gone.kind, f"{what}: {gone.reason.partition(': ')[2] or gone.reason}")


def read_remap(gpu: Asked) -> RemapFacts:
    """Rows that were replaced; Ampere and newer. Zeros do not mean that a board has ECC."""
    rows = gpu.ask("remapped rows", "RemappedRows")
    correctable, uncorrectable, pending, failed = (count(part(rows, place)) for place in range(4))
    return RemapFacts(correctable, uncorrectable, pending, failed)


def read_all_remap(gpu: Asked) -> RemapFacts:
    """As :func:`read_remap`, with what is left of the spare rows."""
    rows = read_remap(gpu)
    banks = gpu.ask("spare rows of the banks", "RowRemapperHistogram")
    histogram = BankHistogram(*(count(part(banks, name)) for name in ("max", "high", "partial", "low", "none")))
    return RemapFacts(rows.correctable, rows.uncorrectable, rows.pending, rows.failed, histogram)


def read_retired(gpu: Asked) -> RetirementFacts:
    """Pages taken out of use; boards with ECC before Ampere."""

    def pages(word: str, cause: int) -> Reading:
        listed = gpu.ask(f"pages retired for {word} errors", "RetiredPages", cause)
        return listed if isinstance(listed, Absent) else Quantity(len(listed), Unit.COUNT)

    pending = flag(gpu.ask("pages to be retired", "RetiredPagesPendingStatus"))
    return RetirementFacts(pages("single-bit", 0), pages("double-bit", 1), pending)
