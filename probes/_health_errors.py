"""Checks of memory errors: what ECC has counted, whether it is on, and what can no longer be repaired."""

from __future__ import annotations

from collections.abc import Iterator

from mats.facts import EccCounts, Flag
from mats.model import AbsenceKind, Absent, Quantity, Reading

from ._health_card import NONE, ONE, Card, CardCheck, Seen, as_count, first_known, total
from ._health_text import listed, many, number

_NOT_SUPPORTED = AbsenceKind.NOT_SUPPORTED


def known_errors(card: Card) -> Iterator[Seen]:
    """Whether it is known how many uncorrected errors there were, or that this card cannot count any."""
    reading = uncorrected(card)
    yield from card.check("known.errors", ONE if _settled(card, reading) else _why(card, reading))


def _settled(card: Card, reading: Reading) -> bool:
    if isinstance(reading, Quantity):
        return True
    if card.sliced or card.virtual:
        return False
    return card.gpu.ecc.enabled is False or has_no_ecc(card) or reading.kind is _NOT_SUPPORTED


def has_no_ecc(card: Card) -> bool:
    """The driver was asked for the mode and says that there is none to ask for."""
    mode: Flag = card.gpu.ecc.enabled
    hidden = card.sliced or card.virtual
    return isinstance(mode, Absent) and mode.kind is _NOT_SUPPORTED and not hidden


def _why(card: Card, reading: Reading) -> Absent:
    assert isinstance(reading, Absent)
    if card.sliced:
        return Absent(reading.kind, "uncorrected ECC errors: with MIG on the driver hides those of the whole GPU")
    if card.virtual:
        return Absent(reading.kind, "uncorrected ECC errors: only the host of a virtual GPU can see them")
    return reading


def uncorrected(card: Card) -> Reading:
    """Since the driver was loaded: the driver's total, else the sum of the places it tells."""
    ecc = card.gpu.ecc
    places = (ecc.volatile.dram_uncorrected, ecc.volatile.sram_uncorrected)
    return first_known(ecc.uncorrected, total(*places) if all(isinstance(p, Quantity) for p in places) else places[0])


def lifetime(counts: EccCounts) -> Reading:
    return total(counts.dram_uncorrected, counts.sram_uncorrected)


def uncorrected_errors(card: Card) -> Iterator[Seen]:
    ecc = card.gpu.ecc
    reading = uncorrected(card)
    where = [
        f"{name}: {number(count)}"
        for name, count in (
            ("in DRAM", ecc.volatile.dram_uncorrected),
            ("in SRAM", ecc.volatile.sram_uncorrected),
            ("SRAM parity", ecc.volatile.sram_parity),
            ("SRAM SEC-DED", ecc.volatile.sram_secded),
            ("in the card's life", lifetime(ecc.aggregate)),
        )
        if isinstance(count, Quantity)
    ]
    advice = ""
    if _positive(ecc.volatile.sram_uncorrected) and not _positive(ecc.volatile.dram_uncorrected):
        advice = (
            "The errors are in SRAM, which no row replacement mends: drain the GPU and reset it now; open a service "
            "case if NVIDIA's threshold flag is set or errors come again."
        )
    yield from card.check(
        "ecc.uncorrected",
        reading,
        f"{many(reading, 'uncorrected memory error')} since the driver was loaded",
        evidence=where,
        advice=advice,
    )


def _positive(reading: Reading) -> bool:
    return isinstance(reading, Quantity) and reading.value > 0


def instance_errors(card: Card) -> Iterator[Seen]:
    """Of each MIG instance, the only counters that are told while MIG is on."""
    instances = card.gpu.mig.instances
    if isinstance(instances, Absent) or not instances:
        why = instances if isinstance(instances, Absent) else Absent(_NOT_SUPPORTED, "MIG instances: there are none")
        yield from card.check("ecc.instance_uncorrected", why)
        return
    for instance in instances:
        reading, within = instance.sram_uncorrected, instance.compute_instance
        name = f"{instance.gpu_instance}" + (f".{int(within.value)}" if isinstance(within, Quantity) else "")
        yield from card.check(
            "ecc.instance_uncorrected",
            reading,
            f"{many(reading, 'uncorrected SRAM error')} in MIG instance {name}",
            labels=(("instance", name),),
        )


def sram_lifetime(card: Card) -> Iterator[Seen]:
    """NVIDIA's own threshold flag, and the count that others go by."""
    ecc = card.gpu.ecc
    count = ecc.aggregate.sram_uncorrected
    units = [f"{name.replace('_', ' ')}: {number(each)}" for name, each in ecc.sram_sources if _positive(each)]
    flag = ecc.sram_threshold_exceeded
    yield from card.check(
        "ecc.sram_threshold",
        as_count(flag),
        "the driver says that its threshold for uncorrected SRAM errors is exceeded",
        evidence=[f"{many(count, 'uncorrected SRAM error')} in the card's life", *units],
    )
    said = "not told" if isinstance(flag, Absent) else "exceeded" if flag else "not exceeded"
    yield from card.check(
        "ecc.sram_lifetime",
        count,
        f"{many(count, 'uncorrected SRAM error')} in the card's life",
        evidence=[f"NVIDIA's own threshold: {said}", *units],
    )


def history(card: Card) -> Iterator[Seen]:
    """Uncorrected errors of the card's life."""
    counts = card.gpu.ecc.aggregate
    reading = lifetime(counts)
    yield from card.check(
        "ecc.lifetime",
        reading,
        f"{many(reading, 'uncorrected error')} in the card's life",
        evidence=[f"in DRAM {number(counts.dram_uncorrected)}, in SRAM {number(counts.sram_uncorrected)}"],
    )


def corrected_errors(card: Card) -> Iterator[Seen]:
    """As notes: they cost no data, and the bounds of other checkers differ a thousandfold."""
    ecc = card.gpu.ecc
    sram = _larger(ecc.aggregate.sram_corrected, ecc.volatile.sram_corrected)
    dram = _larger(ecc.aggregate.dram_corrected, ecc.volatile.dram_corrected, ecc.corrected)
    yield from card.check("ecc.sram_corrected", sram, f"{number(sram)} corrected errors in SRAM")
    yield from card.check("ecc.dram_corrected", dram, f"{number(dram)} corrected errors, of which most are in DRAM")


def _larger(*counts: Reading) -> Reading:
    """The life's count is the larger one, where it is told."""
    known = [count for count in counts if isinstance(count, Quantity)]
    return max(known, key=lambda count: count.value) if known else counts[0]


def ecc_mode(card: Card) -> Iterator[Seen]:
    """Whether ECC is on, and whether that changes with the next reset."""
    ecc = card.gpu.ecc
    now, later = ecc.enabled, ecc.pending
    change: Reading
    if isinstance(now, Absent):
        change = now
    elif isinstance(later, Absent):
        change = later
    else:
        change = ONE if now is not later else NONE
    words = {True: "on", False: "off"}
    said = [words[flag] for flag in (now, later) if not isinstance(flag, Absent)]
    yield from card.check("ecc.mode_pending", change, f"ECC is {' now and will be '.join(said)} after the next reset")
    off: Reading = now if isinstance(now, Absent) else NONE if now else ONE
    if isinstance(now, Absent) and isinstance(ecc.uncorrected, Quantity):
        off = NONE  # what is counted is on
    yield from card.check("ecc.off", off, "ECC is switched off: errors are neither corrected nor counted")


def repairs(card: Card) -> Iterator[Seen]:
    """Channel and TPC repair, and memory that is beyond it (Blackwell)."""
    ecc = card.gpu.ecc
    waiting = [
        name
        for name, flag in (("a memory channel", ecc.channel_repair_pending), ("a TPC", ecc.tpc_repair_pending))
        if flag is True
    ]
    told = total(as_count(ecc.channel_repair_pending), as_count(ecc.tpc_repair_pending))
    yield from card.check("ecc.repair_pending", told, f"the repair of {listed(waiting)} waits for a restart")
    yield from card.check(
        "ecc.unrepairable", as_count(ecc.unrepairable_memory), "the driver says that it has memory it cannot repair"
    )


CHECKS: tuple[CardCheck, ...] = (
    known_errors,
    uncorrected_errors,
    instance_errors,
    sram_lifetime,
    history,
    corrected_errors,
    ecc_mode,
    repairs,
)
