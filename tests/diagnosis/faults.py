"""Each fault of the catalogue as an effect on words: what is read, read again, and read after writing again.

A fault answers for one word in one sweep with what a test would see, or None when the word is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .geometry import BANKS, Memory
from .sweeps import MASK, Sweep

DWELL = frozenset({"bit_fade", "window"})
INVERSION = frozenset({"moving_inversions", "march_c", "modulo_20"})


@dataclass(frozen=True)
class Seen:
    """What a test sees of a wrong word."""

    actual: int
    rereads: tuple[int, ...]
    rewrite: int | None
    recheck: bool | None


Effect = Callable[[int, Sweep], Seen | None]


@dataclass(frozen=True)
class Fault:
    """The words a fault may touch, and its effect on one of them."""

    name: str
    words: list[int]
    effect: Effect


def hard(change: Callable[[int, int], int]) -> Effect:
    """Wrong at every read, whatever is written."""

    def effect(word: int, sweep: Sweep) -> Seen | None:
        expected = sweep.expected(word)
        actual = change(word, expected)
        return None if actual == expected else Seen(actual, (actual, actual), actual, True)

    return effect


def _lost_charge(change: Callable[[int, int], int], when: Callable[[Sweep], bool], rng: random.Random) -> Effect:
    """Wrong in the cell until it is written again, under a condition."""

    def effect(word: int, sweep: Sweep) -> Seen | None:
        expected = sweep.expected(word)
        actual = change(word, expected)
        if actual == expected or not when(sweep) or rng.random() < 0.2:
            return None
        return Seen(actual, (actual, actual), expected, True)

    return effect


def _each_read(read: Callable[[int], int]) -> Effect:
    """Wrong on the way: every read is disturbed anew."""

    def effect(word: int, sweep: Sweep) -> Seen | None:
        expected = sweep.expected(word)
        actual = read(expected)
        if actual == expected:
            return None
        return Seen(actual, (read(expected), read(expected)), read(expected), read(expected) != expected)

    return effect


def _set_bits(mask: int, value: int) -> Callable[[int, int], int]:
    return lambda word, expected: expected | mask if value else expected & ~mask


def stuck_cell(memory: Memory, rng: random.Random) -> Fault:
    bit, value = 1 << rng.randrange(64), rng.randrange(2)
    return Fault("stuck_cell", [memory.random_word()], hard(_set_bits(bit, value)))


def _cells(memory: Memory, rng: random.Random, count: int) -> tuple[list[int], Callable[[int, int], int]]:
    """Cells that fall to a value of their own."""
    bits = {memory.random_word(): 1 << rng.randrange(64) for _ in range(count)}
    value = rng.randrange(2)
    return sorted(bits), lambda word, expected: expected | bits[word] if value else expected & ~bits[word]


def weak_retention(memory: Memory, rng: random.Random) -> Fault:
    words, change = _cells(memory, rng, rng.choice((3, 30, 400)))
    return Fault("weak_retention", words, _lost_charge(change, lambda sweep: sweep.test in DWELL, rng))


def coupling(memory: Memory, rng: random.Random) -> Fault:
    words, change = _cells(memory, rng, rng.choice((1, 2, 6)))
    return Fault("coupling", words, _lost_charge(change, lambda sweep: sweep.test in INVERSION, rng))


def row_disturb(memory: Memory, rng: random.Random) -> Fault:
    row = memory.row_words(memory.random_word())
    bits = {word: 1 << rng.randrange(0, 64, 2) for word in rng.sample(row, 24)}
    change = _lost_charge(lambda word, expected: expected ^ bits[word], lambda s: s.test == "row_disturb", rng)
    return Fault("row_disturb", sorted(bits), change)


def stuck_dq(memory: Memory, rng: random.Random) -> Fault:
    words = memory.words_where(rng.choice((60, 160)), channel=rng.randrange(memory.organisation.channels))
    mask = memory.line_mask(rng.randrange(memory.organisation.lines))
    return Fault("stuck_dq", words, hard(_set_bits(mask, rng.randrange(2))))


def flaky_dq(memory: Memory, rng: random.Random) -> Fault:
    words = memory.words_where(160, channel=rng.randrange(memory.organisation.channels))
    mask = memory.line_mask(rng.randrange(memory.organisation.lines))
    chance = rng.choice((0.01, 0.05, 0.3))

    def read(expected: int) -> int:
        flips = 0
        for bit in range(64):
            if mask >> bit & 1 and rng.random() < chance:
                flips |= 1 << bit
        return expected ^ flips

    return Fault("flaky_dq", words, _each_read(read))


def dbi_line(memory: Memory, rng: random.Random) -> Fault:
    words = memory.words_where(160, channel=rng.randrange(memory.organisation.channels))
    beats = memory.lane_masks(rng.randrange(memory.organisation.lines // 8))
    chance = rng.choice((0.02, 0.1, 0.5))

    def read(expected: int) -> int:
        return expected ^ sum(beat for beat in beats if rng.random() < chance)

    return Fault("dbi_line", words, _each_read(read))


def byte_lane(memory: Memory, rng: random.Random) -> Fault:
    words = memory.words_where(rng.choice((60, 160)), channel=rng.randrange(memory.organisation.channels))
    beats = memory.lane_masks(rng.randrange(memory.organisation.lines // 8))
    lane = sum(beats)
    kind = rng.choice(("random", "00", "ff", "sometimes"))
    if kind == "00":
        return Fault("byte_lane", words, hard(_set_bits(lane, 0)))
    if kind == "ff":
        return Fault("byte_lane", words, hard(_set_bits(lane, 1)))

    def read(expected: int) -> int:
        if kind == "sometimes" and rng.random() < 0.9:
            return expected
        return expected & ~lane | rng.getrandbits(64) & lane

    return Fault("byte_lane", words, _each_read(read))


def dead_channel(memory: Memory, rng: random.Random) -> Fault:
    words = memory.words_where(rng.choice((60, 160)), channel=rng.randrange(memory.organisation.channels))
    value = rng.choice((0, MASK, 0xBAD0FBADBAD0FBAD, 0x0BADAC010BADAC02, 0x1234567812345678))
    return Fault("dead_channel", words, hard(lambda word, expected: value))


def address_alias(memory: Memory, rng: random.Random) -> Fault:
    """A and A xor mask share a cell: the one that is written first loses its value."""
    bits = (memory.pages * (2 << 20)).bit_length() - 1
    mask = 1 << rng.randrange(5, bits)
    if rng.random() < 0.5:
        mask |= 1 << rng.randrange(5, bits)
    words = [memory.random_word() for _ in range(40)]

    def effect(word: int, sweep: Sweep) -> Seen | None:
        other = memory.word(memory.physical(word) ^ mask)
        if other is None:
            return None
        expected = sweep.expected(word)
        if sweep.test == "march_c":
            return Seen(expected ^ MASK, (expected ^ MASK,) * 2, expected, True) if other < word else None
        actual = sweep.expected(other)
        return None if actual == expected or other < word else Seen(actual, (actual, actual), expected, True)

    return Fault("address_alias", sorted({word ^ part for word in words for part in range(4)}), effect)


def wrong_row(memory: Memory, rng: random.Random) -> Fault:
    words = [4 * (memory.random_word() // 4) for _ in range(40)]

    def effect(word: int, sweep: Sweep) -> Seen | None:
        if rng.random() < 0.9:
            return None
        expected = sweep.expected(word)
        actual = sweep.expected(memory.random_word() // 4 * 4 + word % 4)
        if sweep.test == "march_c" and rng.random() < 0.5:
            actual = expected ^ MASK
        return None if actual == expected else Seen(actual, (expected, expected), expected, False)

    return Fault("wrong_row", sorted({word + part for word in words for part in range(4)}), effect)


def lost_write(memory: Memory, rng: random.Random) -> Fault:
    run = rng.choice((4, 4, 16, 128))
    starts = [run * (memory.random_word() // run) for _ in range(max(2, 200 // run))]
    chosen = {start + part for start in starts for part in range(run)}
    lost: dict[tuple[int, Sweep], bool] = {}

    def effect(word: int, sweep: Sweep) -> Seen | None:
        key = (word // run, sweep)
        lost.setdefault(key, rng.random() < 0.1)
        expected = sweep.expected(word)
        actual = rng.choice((0, 0)) if sweep.previous is None else sweep.previous(word)
        if not lost[key] or actual == expected or sweep.test == "window":
            return None
        return Seen(actual, (actual, actual), expected, True)

    return Fault("lost_write", sorted(chosen), effect)


def failing_row(memory: Memory, rng: random.Random) -> Fault:
    words: list[int] = []
    while len(words) < 64:
        words = memory.row_words(memory.random_word())
    if rng.random() < 0.3:
        return Fault("failing_row", words, hard(lambda word, expected: 0))
    garbage = {word: rng.getrandbits(64) for word in words}
    return Fault("failing_row", words, hard(lambda word, expected: garbage[word]))


def failing_column(memory: Memory, rng: random.Random) -> Fault:
    words: list[int] = []
    while len(words) < 8:
        words = memory.column_words(memory.random_word())
    return Fault("failing_column", words, hard(_set_bits(1 << rng.randrange(64), rng.randrange(2))))


def failing_bank(memory: Memory, rng: random.Random) -> Fault:
    channel, bank = rng.randrange(memory.organisation.channels), rng.randrange(BANKS)
    words = memory.bank_words(channel, bank, column=rng.randrange(4))
    garbage = {word: rng.getrandbits(64) for word in words}
    return Fault("failing_bank", words, hard(lambda word, expected: garbage[word]))


def core_fault(memory: Memory, rng: random.Random) -> Fault:
    def effect(word: int, sweep: Sweep) -> Seen | None:
        if rng.random() < 0.9:
            return None
        expected = sweep.expected(word)
        flips = rng.getrandbits(64) if rng.random() < 0.5 else 1 << rng.randrange(64)
        return Seen(expected ^ (flips or 1), (expected, expected), expected, False)

    return Fault("core_fault", sorted(memory.random_word() for _ in range(150)), effect)


def unstructured(memory: Memory, rng: random.Random) -> Fault:
    """Errors at random, of any number of bits; some stay, some go."""
    few, stay, clear = rng.random() < 0.5, rng.random(), rng.random()

    def effect(word: int, sweep: Sweep) -> Seen | None:
        if rng.random() < 0.9:
            return None
        expected = sweep.expected(word)
        flips = 1 << rng.randrange(64) if few else rng.getrandbits(64) or 1
        again = tuple(expected ^ flips if rng.random() < stay else expected for _ in range(2))
        return Seen(expected ^ flips, again, expected if rng.random() < clear else expected ^ flips, True)

    return Fault("unstructured", sorted(memory.random_word() for _ in range(150)), effect)


def soft_upset(memory: Memory, rng: random.Random) -> Fault:
    flips, left = 1 << rng.randrange(64), [1]

    def effect(word: int, sweep: Sweep) -> Seen | None:
        if not left or rng.random() < 0.9:
            return None
        left.pop()
        expected = sweep.expected(word)
        return Seen(expected ^ flips, (expected ^ flips,) * 2, expected, True)

    return Fault("soft_upset", [memory.random_word()], effect)


MAKERS: tuple[Callable[[Memory, random.Random], Fault], ...] = (
    stuck_cell, weak_retention, stuck_dq, flaky_dq, dbi_line, byte_lane, dead_channel, address_alias, wrong_row,
    lost_write, coupling, row_disturb, failing_row, failing_column, failing_bank, core_fault, unstructured,
)  # fmt: skip
"""Every fault that gives many errors."""
