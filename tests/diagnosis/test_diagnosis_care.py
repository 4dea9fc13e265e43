"""Where the evidence is thin or contradicts itself: words of care, no name, or a tester that is not to be trusted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mats.probes._catalogue import CATALOGUE
from mats.probes._diagnosis import EXPLAINS, ErrorRecord, ErrorTotals, diagnose

from . import faults
from .fault_generator import count, run
from .geometry import ORGANISATIONS, Memory
from .sweeps import MASK, schedule

SWEEPS = schedule(3)
WORDS = 64 << 18


def one(word: int = 1000, flips: int = 1 << 7, **more: Any) -> ErrorRecord:
    """A wrong word that stays wrong until it is written again."""
    expected = 0x0123456789ABCDEF
    plain = ErrorRecord(
        word=word, expected=expected, actual=expected ^ flips, rereads=(expected ^ flips,) * 2, rewrite=expected,
        recheck=True, previous=None, origin=None, test="rotated_address", step="write-verify", pass_index=0, time=1.0,
        temperature=None,
    )  # fmt: skip
    return replace(plain, **more)


def totals_of(records: Sequence[ErrorRecord]) -> ErrorTotals:
    return count(records, WORDS, SWEEPS)


def names(records: Sequence[ErrorRecord], totals: ErrorTotals | None = None) -> list[str]:
    return [diagnosis.fault for diagnosis in diagnose(records, totals or totals_of(records))]


def test_without_an_error_there_is_nothing_to_name() -> None:
    assert diagnose([], totals_of([])) == ()


def test_errors_that_were_counted_but_not_recorded_have_no_name() -> None:
    found = diagnose([], totals_of([one()]))

    assert [diagnosis.fault for diagnosis in found] == ["unstructured"]
    assert found[0].evidence == ("1 errors were counted, but none was recorded.",)


def test_one_bit_that_flipped_once_and_never_again_is_an_upset() -> None:
    found = diagnose([one()], totals_of([one()]))

    assert [diagnosis.fault for diagnosis in found] == ["soft_upset"]
    assert any("pointer, not a proof" in sentence for sentence in found[0].evidence)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(one(flips=0b101 << 9), id="two bits"),
        pytest.param(one(rewrite=None), id="not written again"),
        pytest.param(one(rereads=()), id="not read again"),
        pytest.param(one(rereads=(0x0123456789ABCDEF, 0x0123456789ABCDEF)), id="right when read again"),
    ],
)
def test_a_single_error_of_another_kind_has_no_name(record: ErrorRecord) -> None:
    found = diagnose([record], totals_of([record]))

    assert [diagnosis.fault for diagnosis in found] == ["unstructured"]
    assert any("too few for a name" in sentence for sentence in found[0].evidence)


def test_a_single_error_in_the_only_pass_is_no_upset() -> None:
    totals = replace(totals_of([one()]), words_verified=WORDS)

    assert names([one()], totals) == ["unstructured"]


def test_one_cell_that_does_not_take_a_write_is_stuck_after_one_error() -> None:
    stuck = one(rewrite=one().actual)

    found = diagnose([stuck], totals_of([stuck]))

    assert [diagnosis.fault for diagnosis in found] == ["stuck_cell"]
    assert any("only 1 error of this kind" in sentence for sentence in found[0].evidence)


def test_four_words_with_the_same_bit_are_too_few_for_a_line() -> None:
    records = [one(word=word, rewrite=None) for word in (1, 5_000, 90_002, 700_003)]

    assert names(records) == ["unstructured"]


def test_own_address_alone_does_not_tell_a_line_from_an_ignored_address_bit() -> None:
    records = [
        one(word=word, expected=word, actual=word ^ 64, rereads=(word ^ 64,) * 2, rewrite=word, origin=word ^ 64,
            test="own_address")
        for word in range(0, 6400, 128)
    ]  # fmt: skip
    totals = replace(totals_of(records), by_test={"own_address": (len(records), WORDS)})

    found = diagnose(records, totals)

    assert [diagnosis.fault for diagnosis in found] == ["unstructured"]
    assert any("ignored address bit" in sentence for sentence in found[0].evidence)


def test_a_dead_region_that_reads_zero_is_not_taken_for_the_own_address_of_word_zero() -> None:
    records = [
        one(word=word, expected=word * 8, actual=0, rereads=(0, 0), rewrite=0, origin=0, test="own_address")
        for word in range(4000, 4100)
    ]

    assert names(records)[0] in ("dead_channel", "failing_row")


def test_the_errors_left_out_of_the_records_are_told() -> None:
    memory = Memory(ORGANISATIONS[0], 16, random.Random(1))

    records, totals = run(memory, [faults.stuck_dq(memory, random.Random(1))], SWEEPS, cap=200)
    evidence = diagnose(records, totals)[0].evidence

    assert any(f"first 200 of {totals.words_failed:,} errors" in sentence for sentence in evidence)


def test_a_line_is_told_with_its_figures_and_its_slice() -> None:
    rng = random.Random(4)
    memory = Memory(ORGANISATIONS[0], 16, rng)
    words = memory.words_where(400, channel=3)
    mask = memory.line_mask(5)
    fault = faults.Fault("stuck_dq", words, faults.hard(lambda word, expected: expected | mask))

    evidence = diagnose(*run(memory, [fault], SWEEPS))[0].evidence

    assert evidence[0].startswith("bits 5 and 21 of every 32-bit word: ")
    assert "all 0->1; re-reads repeat in 100 %" in evidence[0]
    assert "errors are confined to 1 of 8 address slices (p < 1e-6): one channel, not the whole card." in evidence


Spoil = Callable[[ErrorTotals], ErrorTotals]
SPOILT: dict[str, Spoil] = {
    "more failed than verified": lambda t: replace(t, words_verified=t.words_failed - 1),
    "popcounts do not add up": lambda t: replace(t, flipped_bits=(*t.flipped_bits[:64], t.flipped_bits[64] + 1)),
    "positions do not add up": lambda t: replace(t, zero_to_one=(t.zero_to_one[0] + 1, *t.zero_to_one[1:])),
    "pages do not add up": lambda t: replace(t, pages={**t.pages, 77: 3}),
    "an error without a flipped bit": lambda t: replace(
        t, flipped_bits=(1, *t.flipped_bits[1:]), words_failed=t.words_failed + 1, pages={**t.pages, 78: 1}
    ),
    "a test failed more than it verified": lambda t: replace(t, by_test={**t.by_test, "random": (5, 4)}),
    "fewer counted than recorded": lambda t: replace(totals_of([]), words_verified=t.words_verified),
    "a histogram too short": lambda t: replace(t, one_to_zero=t.one_to_zero[:32]),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_totals_that_cannot_be_make_the_tester_unreliable(spoil: Spoil) -> None:
    records = [one(word=word) for word in range(0, 4000, 100)]

    found = diagnose(records, spoil(totals_of(records)))

    assert [diagnosis.fault for diagnosis in found] == ["tester_unreliable"]
    assert found[0].evidence


def test_a_recorded_error_that_holds_the_expected_value_is_impossible() -> None:
    record = one(flips=0)

    assert names([record], totals_of([one()])) == ["tester_unreliable"]


words64 = st.one_of(st.sampled_from([0, MASK, 0x0BADAC010BADAC02, 0x5555555555555555]), st.integers(0, MASK))
tests = st.sampled_from(
    ["own_address", "rotated_address", "random", "march_c", "bit_fade", "window", "row_disturb", "?"]
)
maybe = st.one_of(st.none(), words64)


@st.composite
def arbitrary(draw: st.DrawFn) -> ErrorRecord:
    expected = draw(words64)
    flips = draw(st.one_of(st.integers(1, MASK), st.integers(0, 63).map(lambda bit: 1 << bit)))
    known = st.sampled_from([expected, expected ^ flips])
    return ErrorRecord(
        word=draw(st.integers(0, WORDS - 1)), expected=expected, actual=expected ^ flips,
        rereads=tuple(draw(st.lists(st.one_of(known, words64), max_size=2))), rewrite=draw(st.one_of(known, maybe)),
        recheck=draw(st.one_of(st.none(), st.booleans())), previous=draw(st.one_of(known, maybe)),
        origin=draw(st.one_of(st.none(), st.integers(0, WORDS - 1))), test=draw(tests),
        step=draw(st.sampled_from(["write-verify", "after dwell", ""])), pass_index=draw(st.integers(0, 3)), time=0.0,
        temperature=draw(st.one_of(st.none(), st.floats(0, 120))),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(records=st.lists(arbitrary(), max_size=40), more=st.integers(0, 3))
def test_whatever_is_recorded_is_named_once_and_never_raises(records: list[ErrorRecord], more: int) -> None:
    totals = totals_of(records * (1 + more))

    found = diagnose(records, totals)

    assert bool(found) == bool(records)
    assert all(d.fault in CATALOGUE and d.evidence and d.advice and d.explains == EXPLAINS for d in found)
    assert "tester_unreliable" not in {d.fault for d in found}


@settings(max_examples=60, deadline=None)
@given(records=st.lists(arbitrary(), min_size=1, max_size=10), where=st.integers(0, 63), by=st.integers(1, 9))
def test_whatever_is_recorded_contradictions_win(records: list[ErrorRecord], where: int, by: int) -> None:
    totals = totals_of(records)
    spoilt = tuple(count + (by if bit == where else 0) for bit, count in enumerate(totals.one_to_zero))

    assert names(records, replace(totals, one_to_zero=spoilt)) == ["tester_unreliable"]


def test_random_errors_rarely_get_a_name() -> None:
    """A thousand small heaps of unrelated errors: under one in a hundred may look like a fault by chance."""
    rng = random.Random(5)
    named: Counter[str] = Counter()
    for _ in range(1000):
        few = rng.random() < 0.5
        records = [
            one(
                word=rng.randrange(WORDS), flips=1 << rng.randrange(64) if few else rng.getrandbits(64) | 1,
                rewrite=None if rng.random() < 0.5 else 0x0123456789ABCDEF, rereads=(), recheck=None,
                test=rng.choice(SWEEPS).test, pass_index=rng.randrange(3),
            )
            for _ in range(rng.randrange(2, 60))
        ]  # fmt: skip
        named.update(names(records))

    assert named.total() - named["unstructured"] < 10, named
