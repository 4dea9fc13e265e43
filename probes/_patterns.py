"""The data patterns as functions of a word's index; the same as in kernels/include/pattern.cuh.

Used on the few words that failed: which value was expected, which was there before, and of which other address a
wrong value would be the right one. A test compares these functions with the kernels, word by word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MASK = (1 << 64) - 1
ODD = 0x9E3779B97F4A7C15
ODD_INVERSE = pow(ODD, -1, 1 << 64)

ADDRESS, ROTATED, CONSTANT, WALKING, RANDOM, MODULO = range(6)

_MIX = (0x7FEB352D, 0x846CA68B)
_MIX_INVERSE = tuple(pow(factor, -1, 1 << 32) for factor in _MIX)
_M32 = (1 << 32) - 1


def rotate_left(value: int, by: int) -> int:
    by &= 63
    return ((value << by) | (value >> (64 - by))) & MASK


def mix32(value: int) -> int:
    """The bijective 32-bit finaliser of the kernels."""
    value ^= value >> 16
    value = value * _MIX[0] & _M32
    value ^= value >> 15
    value = value * _MIX[1] & _M32
    return value ^ (value >> 16)


def unmix32(value: int) -> int:
    """The argument for which :func:`mix32` gives ``value``."""
    value ^= value >> 16
    value = value * _MIX_INVERSE[1] & _M32
    value ^= (value >> 15) ^ (value >> 30)
    value = value * _MIX_INVERSE[0] & _M32
    return value ^ (value >> 16)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern with its parameters; see PatternKind in kernels/include/pattern.cuh."""

    kind: int
    a: int = 0
    b: int = 0
    mask: int = 0

    def complement(self) -> Pattern:
        """Every bit the other way round."""
        return replace(self, mask=self.mask ^ MASK)

    def value(self, word: int) -> int:
        """The 64-bit value of the word at this index of the tested space."""
        if self.kind == ADDRESS:
            value = word + self.a
        elif self.kind == ROTATED:
            value = rotate_left((word * ODD + self.a) & MASK, self.b)
        elif self.kind == CONSTANT:
            value = self.b if word & 1 else self.a
        elif self.kind == WALKING:
            value = rotate_left(self.a, (word + self.b) & 63)
        elif self.kind == RANDOM:
            low, (first, second) = word & _M32, self._keys(word >> 32)
            value = mix32(low ^ first) | mix32(low ^ second) << 32
        else:
            value = self.a if (word >> 1) % 20 == self.b else self.a ^ MASK
        return (value ^ self.mask) & MASK

    def _keys(self, high: int) -> tuple[int, int]:
        first = (self.a + high * 0x9E3779B9) & _M32
        second = (self.a >> 32) ^ ((high * 0x85EBCA6B + 0x68E31DA4) & _M32)
        return first, second

    def origin(self, value: int, words: int) -> int | None:
        """The index below ``words`` whose value is ``value``; None for none, or where many words share a value."""
        value ^= self.mask
        if self.kind == ADDRESS:
            found = (value - self.a) & MASK
            return found if found < words else None
        if self.kind == ROTATED:
            found = (rotate_left(value, 64 - self.b) - self.a) * ODD_INVERSE & MASK
            return found if found < words else None
        if self.kind == RANDOM:
            for high in range((words >> 32) + 1):
                first, _ = self._keys(high)
                found = high << 32 | unmix32(value & _M32) ^ first
                if found < words and self.value(found) ^ self.mask == value:
                    return found
        return None


def walking_ones(shift: int) -> Pattern:
    return Pattern(WALKING, a=1, b=shift)


def constant(word: int) -> Pattern:
    return Pattern(CONSTANT, a=word, b=word)


def rotated(draw: int) -> Pattern:
    """The rotated-address pattern number ``draw``: another key and another rotation each time."""
    return Pattern(ROTATED, a=draw * 0xD1342543DE82EF95 & MASK, b=draw * 29 % 63 + 1)


def random_words(key: int) -> Pattern:
    return Pattern(RANDOM, a=key & MASK)


BACKGROUNDS = tuple(
    constant(word)
    for word in (
        0x0000000000000000,
        0x5555555555555555,
        0x3333333333333333,
        0x0F0F0F0F0F0F0F0F,
        0x00FF00FF00FF00FF,
        0x0000FFFF0000FFFF,
        0x00000000FFFFFFFF,
    )
)
"""The log2(64) + 1 data backgrounds a 64-bit word memory needs, with their complements, for faults inside a word."""
