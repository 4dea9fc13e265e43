"""Errors without structure in their bits: a place in the address space, or the processor.

A row is a dense block inside one 2 MiB page. A bank, or another subdivision of a channel, is a small
regular share of every page whose address differences span fewer dimensions than there are address bits.
Errors that nobody sees when looking again, also not the CPU, and that lie anywhere, are the processor's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from ._diagnosis_records import (
    MIXED_TESTS,
    PAGE_SHIFT,
    SECTOR_SHIFT,
    ErrorRecord,
    ErrorTotals,
    Group,
    fold,
    rechecks_wrong,
    rereads_wrong,
    rewrites_wrong,
)
from ._slices import CLAIM_PROBABILITY, gf2_rank, slice_test

_ROW_SECTORS = (8, 320)
"""Sectors of a row: 1 to 8 KiB, with room for a row that a page boundary or two records of it divide."""
_ROW_SPAN = 8192
"""Sectors over which one row may be spread by interleaving the channels: 256 KiB."""
_SPREAD_SECTORS = 64
"""Where banks are interleaved as well, one row of 2 KiB may be spread over the page."""
_SPREAD_RANK = 10


def split_by_place(
    records: Sequence[ErrorRecord], every: Sequence[ErrorRecord], totals: ErrorTotals
) -> tuple[list[Group], list[ErrorRecord]]:
    """Rows, banks and the processor: one group for all records, or none.

    ``every``: all records of the run, to know which errors were counted but not recorded.
    """
    found = _row(records, every, totals) or _bank(records, totals) or _core(records)
    return ([], list(records)) if found is None else ([Group(found[0], tuple(records), found[1])], [])


def relocate_constant(group: Group, every: Sequence[ErrorRecord], totals: ErrorTotals) -> Group:
    """A constant in one dense block is a row that does not store, not a channel that does not answer."""
    kept = [record for record in group.records if record.rewrite is not None and record.rewrite != record.expected]
    row = _row(kept or group.records, every, totals)
    return group if row is None else Group(row[0], group.records, (*group.evidence, *row[1]))


_Found = tuple[str, tuple[str, ...]] | None


def _stays(records: Sequence[ErrorRecord]) -> bool:
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    return (again.at_least(0.8) and not rewritten.below(0.5)) or (not again.known and rewritten.at_least(0.8))


def _row(records: Sequence[ErrorRecord], every: Sequence[ErrorRecord], totals: ErrorTotals) -> _Found:
    pages = {record.page for record in records}
    tested = totals.tested_words >> PAGE_SHIFT
    if not records or len(pages) > 2 or tested < 4 or not _stays(records):
        return None
    sectors = {record.sector for record in records}
    words = {record.word for record in records}
    if not _ROW_SECTORS[0] <= len(sectors) <= _ROW_SECTORS[1] or len(words) < 1.2 * len(sectors):
        return None
    parts = [sorted(sector for sector in sectors if sector >> PAGE_SHIFT - SECTOR_SHIFT == page) for page in pages]
    if not all(_is_one_row(part) for part in parts):
        return None
    if _elsewhere(pages, every, totals):
        return None
    return "failing_row", (
        f"{len(words):,} words in {len(sectors):,} sectors of 32 bytes, within "
        f"{max(part[-1] - part[0] + 1 for part in parts) * 32 / 1024:,.0f} KiB of "
        f"{'one 2 MiB page' if len(pages) == 1 else 'two 2 MiB pages'}; the other {tested - len(pages):,} pages "
        "do not show it",
    )


def _is_one_row(sectors: Sequence[int]) -> bool:
    """Whether these sectors of one page, in order, are near each other, or few and of few address dimensions."""
    if sectors[-1] - sectors[0] < _ROW_SPAN:
        return True
    return len(sectors) <= _SPREAD_SECTORS and gf2_rank(sector ^ sectors[0] for sector in sectors[1:]) <= _SPREAD_RANK


def _elsewhere(pages: set[int], every: Sequence[ErrorRecord], totals: ErrorTotals) -> bool:
    """Whether the full counts hold errors in other pages that were not recorded: the row may be more than that."""
    inside = sum(count for page, count in totals.pages.items() if page in pages)
    recorded = sum(record.page not in pages for record in every)
    return totals.words_failed - inside - recorded > 0.05 * inside


def _bank(records: Sequence[ErrorRecord], totals: ErrorTotals) -> _Found:
    sectors = {record.sector for record in records}
    if len(sectors) < 8 or not _stays(records):
        return None
    mixed = [record for record in records if record.test in MIXED_TESTS] or records
    full = len({r.word for r in mixed}) / len({r.sector for r in mixed})
    test = slice_test(record.word for record in records)
    touched = sum(count > 0 for count in totals.pages.values())
    certain = full >= 1.5 and test.k >= 2 and test.chance < CLAIM_PROBABILITY
    regular = full >= 2.5 and _neighbours(sectors) >= 0.5 and _is_regular(totals.pages, totals.tested_words)
    if touched < 4 or not (certain or regular):
        return None
    sentence = (
        f"whole sectors fail ({full:.1f} of 4 words on average) with {len(sectors):,} sectors recorded, in "
        f"{touched:,} of {max(touched, totals.tested_words >> PAGE_SHIFT):,} pages"
    )
    return "failing_bank", (sentence,)


def _neighbours(sectors: set[int]) -> float:
    """The share of failing sectors beside another one: the bytes that stay in one bank fail together."""
    return sum(sector ^ 1 in sectors for sector in sectors) / len(sectors)


def _is_regular(pages: Mapping[int, int], tested_words: int) -> bool:
    """Whether the errors are spread over most pages and no page has far more than the others."""
    counts = [count for count in pages.values() if count]
    spread = len(counts) >= 8 and len(counts) >= 0.5 * (tested_words >> PAGE_SHIFT)
    return spread and fmean(counts) >= 32 and max(counts) <= 3 * fmean(counts)


def _core(records: Sequence[ErrorRecord]) -> _Found:
    again, checked = rereads_wrong(records), rechecks_wrong(records)
    if len(records) < 5 or checked.whole < 5 or checked.part > 0.05 * checked.whole:
        return None
    lines = Counter(fold(record.difference, 16) for record in records)
    if lines.most_common(1)[0][1] > 0.5 * len(records):
        return None
    units = {record.unit for record in records if record.unit is not None}
    # A processor reads every so-manieth tile: its errors lie in a slice of the addresses, too.
    if again.at_least(0.2) or not again.known or (len(units) != 1 and slice_test(r.word for r in records).confined):
        return None
    seen_by = "the addresses in no slice"
    if len(units) == 1:
        seen_by = f"and all were seen by one and the same processor (number {min(units)})"
    return "core_fault", (
        f"{again.whole - again.part:,} of {again.whole:,} re-reads were right, and so were "
        f"{checked.whole - checked.part:,} of {checked.whole:,} words compared on the CPU",
        f"the flipped bits lie in no data line and no byte lane, {seen_by}",
    )
