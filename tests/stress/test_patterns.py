"""The patterns in Python against the kernels, and their inverses."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.devices.host import HostDevice, open_device
from mats.probes import _patterns as patterns
from mats.target import Target

PATTERNS = [
    patterns.Pattern(patterns.ADDRESS, a=9),
    patterns.Pattern(patterns.ADDRESS).complement(),
    patterns.rotated(1),
    patterns.rotated(62),
    patterns.rotated(12345).complement(),
    patterns.Pattern(patterns.CONSTANT, a=0xAAAAAAAAAAAAAAAA, b=0x5555555555555555),
    patterns.walking_ones(0),
    patterns.walking_ones(63).complement(),
    patterns.random_words(0x123456789ABCDEF),
    patterns.Pattern(patterns.MODULO, a=patterns.MASK, b=19),
    patterns.Pattern(patterns.MODULO, a=0, b=0),
]
WORDS = (2 << 20) // 8


@pytest.fixture(scope="module")
def host() -> Iterator[HostDevice]:
    device = open_device(Target("host"))
    yield device
    device.close()


@pytest.mark.parametrize("first", [0, 262144 * 3, (1 << 32) + 262144])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_kernel_writes_what_the_pattern_says(host: HostDevice, pattern: patterns.Pattern, first: int) -> None:
    # given
    buffer = host.allocate(2 << 20)
    # when
    host.launch(
        "pattern_write",
        32,
        data=buffer,
        first=first,
        kind=pattern.kind,
        a=pattern.a,
        b=pattern.b,
        mask=pattern.mask,
        descending=0,
    )
    # then
    data = host.fetch(buffer, 0, 2 << 20)
    host.free(buffer)
    written = struct.unpack(f"<{WORDS}Q", data)
    sampled = [*range(200), *range(0, WORDS, 997), WORDS - 1]
    assert [written[i] for i in sampled] == [pattern.value(first + i) for i in sampled]


@given(word=st.integers(0, (1 << 34) - 1), draw=st.integers(0, 1 << 20), inverted=st.booleans())
def test_a_unique_pattern_tells_the_address_of_a_value(word: int, draw: int, inverted: bool) -> None:
    for pattern in (patterns.Pattern(patterns.ADDRESS), patterns.rotated(draw), patterns.random_words(draw)):
        pattern = pattern.complement() if inverted else pattern
        assert pattern.origin(pattern.value(word), 1 << 34) == word


@given(value=st.integers(0, patterns.MASK))
def test_a_value_of_no_address_has_no_origin(value: int) -> None:
    pattern = patterns.rotated(5)
    found = pattern.origin(value, 1000)
    assert found is None or pattern.value(found) == value


def test_mixing_is_invertible() -> None:
    for number in (0, 1, 0xFFFFFFFF, 0xDEADBEEF, 12345):
        assert patterns.unmix32(patterns.mix32(number)) == number


def test_backgrounds_and_their_complements_tell_any_two_bits_of_a_word_apart() -> None:
    for low in range(64):
        for high in range(low):
            assert any(
                (background.value(0) >> low & 1) != (background.value(0) >> high & 1)
                for background in patterns.BACKGROUNDS
            )
