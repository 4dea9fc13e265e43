"""From error records to the name of a fault, with the evidence for it. No map of the hardware is needed.

The order is that of certainty: totals that contradict themselves; values that say where they came from;
conditions under which cells fail; data lines and byte lanes; single cells; places. What is explained is
taken out, and the rest is looked at again, so that two faults at once get two names. What fits nothing is
called unstructured: a wrong name costs more than none. A name describes the evidence; it never says which
memory device or which place on the board is at fault, which no virtual address tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mats.model import Diagnosis

from ._catalogue import CATALOGUE
from ._diagnosis_bits import split_by_bits
from ._diagnosis_cells import split_conditional, split_stuck, split_upset
from ._diagnosis_places import relocate_constant, split_by_place
from ._diagnosis_records import (
    ErrorRecord,
    ErrorTotals,
    Group,
    contradictions,
    directions,
    distinct_words,
    rechecks_wrong,
    rereads_wrong,
    rewrites_wrong,
)
from ._diagnosis_values import split_by_value
from ._slices import failing_fraction, fraction_sentence, slice_sentence, slice_test

__all__ = ["EXPLAINS", "ErrorRecord", "ErrorTotals", "diagnose"]

EXPLAINS = "memory.errors"
"""The measurement that a diagnosis explains."""
_FEW = 10
_CONFINED = frozenset({"stuck_dq", "flaky_dq", "dbi_line", "byte_lane", "dead_channel", "failing_bank"})
"""Faults whose place is a slice of the addresses, where the slice test means something."""
_LINES = frozenset({"stuck_dq", "flaky_dq", "dbi_line", "byte_lane", "dead_channel"})


def diagnose(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[Diagnosis, ...]:
    """Names for what the records show, the fault with the most records first; empty without an error.

    ``records`` may be the first few of many; ``totals`` counts every error of the same run.
    """
    wrong = contradictions(records, totals)
    if wrong:
        return (_diagnosis("tester_unreliable", tuple(f"{sentence}." for sentence in wrong)),)
    if not records:
        if not totals.words_failed:
            return ()
        return (_diagnosis("unstructured", (f"{totals.words_failed:,} errors were counted, but none was recorded.",)),)
    groups = _groups(records, totals)
    ordered = sorted(groups, key=lambda group: -len(group.records))
    several = sum(group.fault in _LINES for group in ordered) > 1
    return tuple(_finish(group, records, totals, several=several) for group in ordered)


def _groups(records: Sequence[ErrorRecord], totals: ErrorTotals) -> list[Group]:
    groups, rest = split_by_value(records, totals)
    groups = [relocate_constant(group, records, totals) if group.fault == "dead_channel" else group for group in groups]
    found, rest = split_conditional(rest, records, totals)
    groups += found
    found, rest = split_by_bits(rest, records, totals)
    groups += found
    for split in (split_stuck, split_upset):
        found, rest = split(rest, totals)
        groups += found
    found, rest = split_by_place(rest, records, totals)
    groups += found
    if rest and (not groups or len(rest) >= max(3, 0.05 * len(records))):
        groups.append(Group("unstructured", tuple(rest), _unnamed(rest, totals)))
    elif rest:
        largest = max(range(len(groups)), key=lambda index: len(groups[index].records))
        group = groups[largest]
        more = f"{len(rest):,} further {'error does' if len(rest) == 1 else 'errors do'} not fit a name"
        groups[largest] = Group(group.fault, group.records, (*group.evidence, more))
    return groups


def _unnamed(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[str, ...]:
    """What is known about errors without a name."""
    up, down = directions(records)
    bits = Counter(record.difference.bit_count() for record in records)
    usual, count = bits.most_common(1)[0]
    words, pages = distinct_words(records), len({record.page for record in records})
    tests = sorted({record.test for record in records})
    sentences = [
        f"{len(records):,} errors in {words:,} words of {pages:,} pages, seen by {', '.join(tests)}",
        f"{usual} flipped {'bit' if usual == 1 else 'bits'} in {count:,} of them; {up:,} bits 0->1, {down:,} 1->0",
    ]
    again, rewritten, checked = rereads_wrong(records), rewrites_wrong(records), rechecks_wrong(records)
    known = [
        (again, "re-reads were wrong again"),
        (rewritten, "were wrong again after writing again"),
        (checked, "were wrong on the CPU as well"),
    ]
    told = [f"{share.part:,} of {share.whole:,} {what}" for share, what in known if share.known]
    if told:
        sentences.append("; ".join(told))
    return tuple(sentences)


def _finish(group: Group, records: Sequence[ErrorRecord], totals: ErrorTotals, *, several: bool) -> Diagnosis:
    """The group as a diagnosis: evidence about its place, and words of care where the evidence is thin."""
    evidence = list(group.evidence)
    if group.fault in _CONFINED:
        evidence += _place(group, records, totals)
    if len(group.records) <= _FEW:
        count = len(group.records)
        evidence.append(
            f"only {count} {'error' if count == 1 else 'errors'} of this kind recorded: "
            f"{'too few for a name' if group.fault == 'unstructured' else 'the name is a pointer, not a proof'}"
        )
    if totals.words_failed > len(records):
        evidence.append(
            f"records exist of the first {len(records):,} of {totals.words_failed:,} errors; "
            "a fault that shows later would only be in the counts"
        )
    extra = ""
    if several and group.fault in _LINES:
        extra = " Several such faults at once point to the controller or its supply rather than to single lines."
    return _diagnosis(group.fault, tuple(f"{sentence}." for sentence in evidence), extra)


def _place(group: Group, records: Sequence[ErrorRecord], totals: ErrorTotals) -> list[str]:
    words = {record.word for record in group.records}
    sentences = [slice_sentence(slice_test(words))]
    recorded = Counter(record.page for record in records)
    fraction = failing_fraction(words, totals.pages, recorded, totals.tested_words)
    if fraction is not None:
        sentences.append(fraction_sentence(fraction))
    return [sentence for sentence in sentences if sentence]


def _diagnosis(fault: str, evidence: tuple[str, ...], extra: str = "") -> Diagnosis:
    known = CATALOGUE[fault]
    return Diagnosis(fault, known.title, EXPLAINS, evidence, known.advice + extra)
