"""The tests of a run as a list of sweeps: what each expects in a word, and what was there before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MASK = (1 << 64) - 1
ONES = MASK
_STRIDE = 0x9E3779B97F4A7C15
_ODD = 0xD1342543DE82EF95
_INVERSE = pow(_ODD, -1, 1 << 64)

Pattern = Callable[[int], int]


@dataclass(frozen=True)
class Sweep:
    """One verify sweep. ``decode`` gives the word whose expected value a value is, where the pattern tells."""

    test: str
    step: str
    pass_index: int
    expected: Pattern
    previous: Pattern | None
    decode: Callable[[int], int] | None


def own_address(word: int) -> int:
    return word * 8


def _own_decode(value: int) -> int:
    return value // 8 if value % 8 == 0 else -1


def mixed(salt: int) -> tuple[Pattern, Callable[[int], int]]:
    """A bijection of 64-bit words that looks random, and its inverse."""

    def forward(word: int) -> int:
        value = (word + salt * _STRIDE) * _ODD & MASK
        value ^= value >> 32
        return value * _ODD & MASK

    def backward(value: int) -> int:
        value = value * _INVERSE & MASK
        value ^= value >> 32
        return (value * _INVERSE - salt * _STRIDE) & MASK

    return forward, backward


def constant(value: int) -> Pattern:
    return lambda word: value


def schedule(passes: int, tests: frozenset[str] | None = None) -> list[Sweep]:
    """The sweeps of ``passes`` passes over the tests (all of them unless named), in order."""
    sweeps: list[Sweep] = []
    last: Pattern | None = None
    window, window_decode = mixed(999)

    def add(test: str, step: str, index: int, pattern: Pattern, decode: Callable[[int], int] | None = None) -> None:
        nonlocal last
        if tests is None or test in tests:
            sweeps.append(Sweep(test, step, index, pattern, last, decode))
            last = pattern

    for index in range(passes):
        add("own_address", "write-verify", index, own_address, _own_decode)
        for test, salt in (("rotated_address", 2 * index + 1), ("random", 2 * index + 2)):
            forward, backward = mixed(salt)
            add(test, "write-verify", index, forward, backward)
        for value in (0x5555555555555555, 0xAAAAAAAAAAAAAAAA):
            add("checkerboard", "write-verify", index, constant(value))
        for bit in range(0, 8, 3):
            add("walking", "write-verify", index, constant(0x0101010101010101 << bit))
        for base in (0, 0x3333333333333333):
            add("moving_inversions", "write-verify", index, constant(base))
            add("moving_inversions", "after inversion", index, constant(base ^ ONES))
        add("modulo_20", "write-verify", index, constant(0x00FF00FF00FF00FF))
        for background in (0, 0x0F0F0F0F0F0F0F0F):
            for element in range(1, 6):
                add(
                    "march_c",
                    f"march element {element}",
                    index,
                    constant(background ^ (ONES if element % 2 == 0 else 0)),
                )
        for value in (0, ONES):
            add("bit_fade", "after dwell", index, constant(value))
        if tests is None or "window" in tests:
            sweeps.append(Sweep("window", "after dwell", index, window, None, window_decode))
        add("row_disturb", "after hammering", index, constant(0x5555555555555555))
    return sweeps
