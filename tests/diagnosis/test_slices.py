"""The GF(2) slice test finds how far errors are confined, through an unknown hash and shuffled pages."""

from __future__ import annotations

import random

import pytest

from mats.probes._slices import (
    failing_fraction,
    fraction_sentence,
    gf2_rank,
    slice_sentence,
    slice_test,
    wilson_interval,
)

PAGE_WORDS = 1 << 18


def hashed_errors(rng: random.Random, k: int, errors: int, pages: int = 8) -> list[int]:
    """Words whose physical address has ``k`` given parities, on shuffled physical pages."""
    masks = [rng.getrandbits(36) << 5 | 1 << 20 - bit for bit in range(k)]
    physical = [rng.getrandbits(19) for _ in range(pages)]
    found: list[int] = []
    while len(found) < errors:
        page, sector = rng.randrange(pages), rng.getrandbits(16)
        address = physical[page] << 21 | sector << 5
        if all((address & mask).bit_count() % 2 == 0 for mask in masks):
            found.append(page * PAGE_WORDS + sector * 4 + rng.randrange(4))
    return found


@pytest.mark.parametrize("errors", [60, 100, 400])
@pytest.mark.parametrize("k", [0, 2, 3, 5])
def test_the_number_of_slices_is_found_exactly(k: int, errors: int) -> None:
    rng = random.Random(f"{k} {errors}")

    found = [slice_test(hashed_errors(rng, k, errors)).k for _ in range(40)]

    assert found == [k] * 40


def test_unconfined_errors_are_never_called_confined() -> None:
    rng = random.Random(2)

    claims = [slice_test(hashed_errors(rng, 0, rng.randrange(2, 80), rng.randrange(1, 12))) for _ in range(500)]

    assert not [claim for claim in claims if claim.confined]


def test_a_channel_count_that_is_no_power_of_two_shows_its_power_of_two_part() -> None:
    rng = random.Random(3)
    physical = [rng.getrandbits(19) for _ in range(8)]
    errors = [
        page * PAGE_WORDS + sector * 4
        for page in range(8)
        for sector in rng.sample(range(1 << 16), 4000)
        if ((physical[page] << 21 | sector << 5) >> 8) % 40 == 7
    ]

    assert slice_test(errors).k == 3


def test_errors_of_one_page_are_no_ground_for_a_claim() -> None:
    row = [5 * PAGE_WORDS + 4 * sector for sector in range(0, 4096, 64)] * 2

    result = slice_test(row)

    assert result.k > 0
    assert not result.confined
    assert slice_sentence(result) == ""


def test_errors_that_lie_together_in_every_page_are_local_and_not_confined() -> None:
    rng = random.Random(4)
    starts = [page * PAGE_WORDS + 4 * rng.randrange(0, 65536, 128) for page in range(8)]

    bursts = [start + 4 * step for start in starts for step in range(128)]

    assert slice_test(bursts).k == 0


def test_the_claim_is_a_sentence_with_its_probability() -> None:
    result = slice_test(hashed_errors(random.Random(5), 3, 400))

    assert slice_sentence(result) == (
        "errors are confined to 1 of 8 address slices (p < 1e-6): one channel, not the whole card"
    )


def test_half_of_the_slices_is_not_called_one_channel() -> None:
    result = slice_test(hashed_errors(random.Random(6), 1, 400))

    assert "one channel" not in slice_sentence(result)


def test_nothing_is_claimed_of_nothing() -> None:
    result = slice_test([])

    assert (result.k, result.differences, result.pages, result.confined) == (0, 0, 0, False)


def test_the_rank_is_the_dimension_of_the_span() -> None:
    assert [gf2_rank(vectors) for vectors in ([], [0], [1, 2, 3], [4, 4], [1, 2, 4, 7, 5])] == [0, 0, 2, 1, 3]


def test_the_failing_share_of_an_odd_channel_count_is_told_with_its_interval() -> None:
    words = [4 * sector for sector in range(7, 4 * 65536, 40)]
    per_page = {page: sum(word // PAGE_WORDS == page for word in words) for page in range(4)}

    fraction = failing_fraction(words, per_page, per_page, 4 * PAGE_WORDS)

    assert fraction is not None
    assert fraction.low < 1 / 40 < fraction.high
    assert fraction_sentence(fraction).endswith("about 1 in 40")


def test_a_page_whose_errors_were_not_all_recorded_is_left_out() -> None:
    words = [4 * sector for sector in range(0, 2 * 65536, 8)]
    counted = {0: 8192, 1: 9000}
    recorded = {0: 8192, 1: 8192}

    fraction = failing_fraction(words, counted, recorded, 2 * PAGE_WORDS)

    assert fraction is not None
    assert (fraction.failing, fraction.tested) == (8192, 65536)


def test_without_a_completely_recorded_page_there_is_no_share() -> None:
    assert failing_fraction([0], {0: 10}, {0: 1}, PAGE_WORDS) is None


def test_the_interval_of_a_share_matches_a_published_value() -> None:
    low, high = wilson_interval(15, 148)

    assert (round(low, 4), round(high, 4)) == (0.0624, 0.1605)
