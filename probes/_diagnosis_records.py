"""What the classifier is given: error records, full counts, and the questions that are asked of them.

Words are 64 bits. A word's index counts through the tested space (chunks laid end to end), so the 2 MiB
page it lies in is ``word >> 18`` and its 32-byte sector, one burst of the memory, is ``word >> 2``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WORD_BITS = 64
WORD_MASK = (1 << WORD_BITS) - 1
PAGE_SHIFT = 18
SECTOR_SHIFT = 2

OWN_ADDRESS = "own_address"
MIXED_TESTS = frozenset({"rotated_address", "random"})
"""Tests whose words look random and differ from address to address: a value says where it came from."""
ADDRESSED_TESTS = MIXED_TESTS | {OWN_ADDRESS}


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """One wrong word and what was tried on it at once."""

    word: int
    """Index of the 64-bit word in the tested space."""
    expected: int
    actual: int
    rereads: tuple[int, ...]
    """0 to 2 later reads of the same word, after the cache was passed."""
    rewrite: int | None
    """What was read after ``expected`` was written again and the cache passed."""
    recheck: bool | None
    """True: the same bytes compared on the CPU were wrong as well; False: clean there; None: not done."""
    previous: int | None
    """What the pattern written before this one had put there."""
    origin: int | None
    """Another word of the tested space whose expected value equals ``actual``."""
    test: str
    step: str
    pass_index: int
    time: float
    """Seconds since the test began."""
    temperature: float | None
    """Degrees Celsius."""
    unit: int | None = None
    """The multiprocessor (on a CPU: the worker) that saw it, or None."""

    @property
    def difference(self) -> int:
        return (self.expected ^ self.actual) & WORD_MASK

    @property
    def page(self) -> int:
        return self.word >> PAGE_SHIFT

    @property
    def sector(self) -> int:
        return self.word >> SECTOR_SHIFT


@dataclass(frozen=True, slots=True)
class ErrorTotals:
    """Full counts, kept for every error, where records are kept for the first errors only."""

    words_verified: int
    words_failed: int
    zero_to_one: tuple[int, ...]
    """64 counts: bits that read 1 where 0 was expected, by position."""
    one_to_zero: tuple[int, ...]
    flipped_bits: tuple[int, ...]
    """65 counts: words by their number of flipped bits."""
    pages: Mapping[int, int]
    """Errors per 2 MiB page of the tested space."""
    by_test: Mapping[str, tuple[int, int]]
    """Words failed and words verified, by test."""
    tested_words: int


class Family(enum.StrEnum):
    """What a test does to a word between writing and reading it."""

    WRITE_VERIFY = "write_verify"
    INVERSION = "inversion"
    DWELL = "dwell"
    DISTURB = "disturb"


def family(test: str, step: str = "") -> Family:
    """The family of a test by its name; a step that verifies right after writing is no dwell."""
    if test.startswith("row_disturb"):
        return Family.DISTURB
    if test in ("bit_fade", "window"):
        return Family.WRITE_VERIFY if step == "write-verify" else Family.DWELL
    if test.startswith(("march", "mats_plus", "moving_inversions", "modulo")):
        return Family.INVERSION
    return Family.WRITE_VERIFY


@dataclass(frozen=True, slots=True)
class Group:
    """Records that one fault explains, with the sentences that say why."""

    fault: str
    records: tuple[ErrorRecord, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """``part`` of ``whole``; nothing is known when ``whole`` is 0."""

    part: int
    whole: int

    @property
    def known(self) -> bool:
        return self.whole > 0

    def at_least(self, ratio: float) -> bool:
        """Known, and at least ``ratio``."""
        return self.whole > 0 and self.part >= ratio * self.whole

    def below(self, ratio: float) -> bool:
        """Known, and below ``ratio``."""
        return self.whole > 0 and self.part < ratio * self.whole


def rereads_wrong(records: Iterable[ErrorRecord]) -> Share:
    """Of all re-reads, those that were wrong again."""
    part = whole = 0
    for record in records:
        whole += len(record.rereads)
        part += sum((value ^ record.expected) & WORD_MASK != 0 for value in record.rereads)
    return Share(part, whole)


def rewrites_wrong(records: Iterable[ErrorRecord]) -> Share:
    """Of all words written again, those that were wrong again."""
    part = whole = 0
    for record in records:
        if record.rewrite is not None:
            whole += 1
            part += (record.rewrite ^ record.expected) & WORD_MASK != 0
    return Share(part, whole)


def rechecks_wrong(records: Iterable[ErrorRecord]) -> Share:
    """Of all words compared on the CPU, those that were wrong there too."""
    known = [record.recheck for record in records if record.recheck is not None]
    return Share(sum(known), len(known))


def directions(records: Iterable[ErrorRecord]) -> tuple[int, int]:
    """Bits that went 0 to 1, and 1 to 0."""
    up = down = 0
    for record in records:
        up += (record.difference & record.actual).bit_count()
        down += (record.difference & record.expected).bit_count()
    return up, down


def fold(mask: int, width: int) -> int:
    """The 64-bit mask laid over itself every ``width`` bits."""
    result = 0
    for shift in range(0, WORD_BITS, width):
        result |= mask >> shift
    return result & ((1 << width) - 1)


def by_word(records: Iterable[ErrorRecord]) -> dict[int, list[ErrorRecord]]:
    """Records by the word they are of, in the order of their first appearance."""
    words: dict[int, list[ErrorRecord]] = {}
    for record in records:
        words.setdefault(record.word, []).append(record)
    return words


def distinct_words(records: Iterable[ErrorRecord]) -> int:
    return len({record.word for record in records})


def occasions(records: Sequence[ErrorRecord]) -> int:
    """How many different sweeps saw these errors."""
    return len({(record.test, record.pass_index, record.step) for record in records})


def contradictions(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[str, ...]:
    """Why these counts cannot be, one sentence each; empty when they are consistent."""
    found = []
    failed = totals.words_failed
    if failed > totals.words_verified:
        found.append(f"{failed:,} words failed of only {totals.words_verified:,} verified")
    if (len(totals.zero_to_one), len(totals.one_to_zero), len(totals.flipped_bits)) != (64, 64, 65):
        return (*found, "a histogram has lost entries")
    by_popcount = sum(totals.flipped_bits)
    if by_popcount != failed:
        found.append(f"{failed:,} words failed, but {by_popcount:,} were counted by their number of flipped bits")
    by_position = sum(totals.zero_to_one) + sum(totals.one_to_zero)
    flips = sum(bits * words for bits, words in enumerate(totals.flipped_bits))
    if by_position != flips:
        found.append(f"{flips:,} bits flipped counted by word, but {by_position:,} counted by position")
    by_page = sum(totals.pages.values())
    if by_page != failed:
        found.append(f"{failed:,} words failed, but {by_page:,} were counted by page")
    if totals.flipped_bits[0]:
        found.append(f"{totals.flipped_bits[0]:,} words were called wrong without a flipped bit")
    for test, (test_failed, test_verified) in totals.by_test.items():
        if test_failed > test_verified:
            found.append(f"{test}: {test_failed:,} words failed of only {test_verified:,} verified")
    counts = (*totals.zero_to_one, *totals.one_to_zero, *totals.flipped_bits, *totals.pages.values())
    if min(counts) < 0 or min(failed, totals.words_verified) < 0:
        found.append("a count is negative")
    if len(records) > max(failed, 0):
        found.append(f"{len(records):,} errors were recorded, but only {failed:,} counted")
    equal = sum(not record.difference for record in records)
    if equal:
        found.append(f"{equal:,} recorded errors hold the expected value")
    return tuple(found)
