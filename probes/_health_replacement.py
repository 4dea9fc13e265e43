"""Checks of how bad memory is replaced: rows since Ampere, pages before it, and what the driver wants done."""

from __future__ import annotations

from collections.abc import Iterator

from mats.facts import RETIRED_PAGES_MAXIMUM, RecoveryAction
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_card import NONE, ONE, Card, CardCheck, Seen, as_count, total, value_of
from ._health_errors import has_no_ecc
from ._health_text import many, number, plural

_RESETS = (RecoveryAction.RESET, RecoveryAction.REBOOT, RecoveryAction.DRAIN_AND_RESET)
_NEWER = (RecoveryAction.BUS_RESET, RecoveryAction.SYSTEM_REBOOT)
_LATER = (RecoveryAction.DRAIN_P2P, RecoveryAction.RECOVER_IMEX)
_KEEPS = "What is running on it is lost with the reset: drain first. "


def known_replacement(card: Card) -> Iterator[Seen]:
    """Whether it is known that rows or pages wait to be replaced, or that this card has neither."""
    rows, pages = card.gpu.remap, as_count(card.gpu.retired.pending)
    told = isinstance(rows.pending, Quantity) and isinstance(rows.failed, Quantity)
    reading: Reading = ONE
    if not told and isinstance(pages, Absent):
        first = next(each for each in (rows.pending, rows.failed, pages) if isinstance(each, Absent))
        if card.sliced:
            reading = Absent(first.kind, "replaced rows of memory: with MIG on the driver hides those of the whole GPU")
        elif card.virtual:
            reading = Absent(first.kind, "replaced rows of memory: only the host of a virtual GPU can see them")
        elif not has_no_ecc(card) and not (_never(rows.pending) and _never(pages)):
            reading = pages if _never(rows.pending) else first
    yield from card.check("known.replacement", reading)


def _never(reading: Reading) -> bool:
    return isinstance(reading, Absent) and reading.kind is AbsenceKind.NOT_SUPPORTED


def pending_rows(card: Card) -> Iterator[Seen]:
    """A replacement that waits for a reset: after uncorrectable errors, or after corrected ones only."""
    rows = card.gpu.remap
    only_corrected = value_of(rows.uncorrectable) == 0 and (value_of(rows.correctable) or 0) > 0
    graver: Reading = NONE if only_corrected and isinstance(rows.pending, Quantity) else rows.pending
    milder: Reading = rows.pending if only_corrected or isinstance(rows.pending, Absent) else NONE
    recorded = (
        f"recorded for uncorrectable errors: {number(rows.uncorrectable)}, for corrected: {number(rows.correctable)}"
    )
    spares = _spares(card)
    yield from card.check(
        "remap.pending",
        graver,
        "a row of memory waits for a reset to be replaced",
        evidence=(recorded, *spares),
        advice=_KEEPS + "A reset or a restart activates the replacement; no service is needed for that.",
    )
    yield from card.check(
        "remap.pending_corrected",
        milder,
        "a row of memory with corrected errors waits for a reset to be replaced",
        evidence=(recorded, *spares),
    )


def _spares(card: Card) -> tuple[str, ...]:
    banks = card.gpu.remap.banks
    told = [
        f"{number(count)} {name}"
        for name, count in (
            ("with all spares", banks.full),
            ("with most", banks.high),
            ("with some", banks.partial),
            ("with few", banks.low),
            ("with none", banks.none),
        )
        if isinstance(count, Quantity)
    ]
    every = total(banks.full, banks.high, banks.partial, banks.low, banks.none)
    return (f"of {number(every)} banks: {', '.join(told)}",) if told else ()


def replaced_rows(card: Card) -> Iterator[Seen]:
    """Whether one failed, how many there were, and how many spares are left."""
    rows, banks = card.gpu.remap, card.gpu.remap.banks
    spares = _spares(card)
    yield from card.check(
        "remap.failed", rows.failed, "the replacement of a row of memory has failed: no spare is left", evidence=spares
    )
    yield from card.check(
        "remap.uncorrectable",
        rows.uncorrectable,
        f"{many(rows.uncorrectable, 'row')} replaced for uncorrectable errors, and 512 is the most",
        evidence=spares,
    )
    every = total(rows.correctable, rows.uncorrectable)
    yield from card.check(
        "remap.rows",
        every,
        f"{many(every, 'row of memory')} replaced",
        evidence=(
            f"for uncorrectable errors: {number(rows.uncorrectable)}, for corrected: {number(rows.correctable)}",
            *spares,
        ),
    )
    yield from card.check(
        "remap.banks_without_spares",
        banks.none,
        f"{many(banks.none, 'bank of memory')} without a spare row",
        evidence=spares,
    )
    yield from card.check(
        "remap.banks_low", banks.low, f"{many(banks.low, 'bank of memory')} with few spare rows", evidence=spares
    )


def retired_pages(card: Card) -> Iterator[Seen]:
    """Pages taken out of use, on cards before Ampere."""
    pages = card.gpu.retired
    double = value_of(pages.double_bit)
    pending = as_count(pages.pending)
    only_single = double == 0
    counts = f"retired for double-bit errors: {number(pages.double_bit)}, for single-bit: {number(pages.single_bit)}"
    yield from card.check(
        "retired.pending",
        NONE if only_single and isinstance(pending, Quantity) else pending,
        "a page of memory waits for a reset to be taken out of use",
        evidence=(counts,),
        advice=_KEEPS + "A reset or a restart takes the page out of use; no service is needed for that alone.",
    )
    yield from card.check(
        "retired.pending_single",
        pending if only_single or isinstance(pending, Absent) else NONE,
        "a page of memory with corrected errors waits for a reset to be taken out of use",
        evidence=(counts,),
    )
    every: Reading = pages.double_bit if isinstance(pages.double_bit, Absent) else pages.single_bit
    if isinstance(pages.double_bit, Quantity) and isinstance(pages.single_bit, Quantity):
        every = Quantity(pages.double_bit.value + pages.single_bit.value, Unit.COUNT)
    yield from card.check(
        "retired.pages", every, f"{many(every, 'page of memory')} retired", evidence=(counts, *_full(every))
    )
    yield from card.check(
        "retired.double_bit",
        pages.double_bit,
        f"{many(pages.double_bit, 'page')} retired for double-bit errors",
        evidence=(counts,),
    )


def _full(pages: Reading) -> tuple[str, ...]:
    count = value_of(pages) or 0
    if count > RETIRED_PAGES_MAXIMUM:
        return (
            f"the table holds {RETIRED_PAGES_MAXIMUM} pages: {count:.0f} cannot be, so the values were changed or read "
            "wrongly; it is full all the same",
        )
    room = RETIRED_PAGES_MAXIMUM - count
    return ("the table of 64 is full",) if room == 0 else (f"room for {plural(int(room), 'more page')}",)


def recovery(card: Card) -> Iterator[Seen]:
    """What the driver wants done: the action of newer drivers, the two flags of older ones."""
    asked = card.gpu.recovery
    action, says = asked.action, ""
    older = total(as_count(asked.reset_required), as_count(asked.drain_and_reset))
    if isinstance(action, Absent):
        needed: Reading = (ONE if older.value else NONE) if isinstance(older, Quantity) else action
        drain: Reading = NONE if isinstance(older, Quantity) else action
        says = "the driver says that a reset is required" if asked.reset_required is True else "the driver says: reset"
    else:
        needed = ONE if action in (*_RESETS, *_NEWER) else NONE
        drain = ONE if action in _LATER else NONE
        says = f"the driver says: {action.value}"
    evidence = ("it is the driver's own recovery action; counters may all be 0 on such a GPU",)
    done = _KEEPS if action is not RecoveryAction.NONE else ""
    advice = f"{done}Do as the driver says: {action.value}." if not isinstance(action, Absent) else ""
    yield from card.check("recovery.needed", needed, says, evidence=evidence, advice=advice)
    yield from card.check("recovery.drain", drain, says, evidence=evidence, advice=advice)
    unclear: Reading = NONE
    if isinstance(action, Absent):
        unclear = ONE if action.kind is AbsenceKind.UNREADABLE and "not known" in action.reason else action
    reason = action.reason if isinstance(action, Absent) else ""
    yield from card.check("recovery.unclear", unclear, reason)


CHECKS: tuple[CardCheck, ...] = (known_replacement, pending_rows, replaced_rows, retired_pages, recovery)
