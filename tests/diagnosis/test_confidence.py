"""Error bounds against published values, and the sentence that tells what a run supports."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.probes._confidence import (
    Account,
    error_rate,
    miss_probability,
    poisson_interval,
    regularised_gamma,
    sentence,
    zero_error_bound,
)

MIB = 2**20
ACCOUNT = Account(
    total=8188 * MIB, tested=7927 * MIB,
    untested=(("driver", 180 * MIB), ("other processes", 49 * MIB), ("headroom", 32 * MIB)),
    tests=("march_c", "moving_inversions", "own_address"), passes=62, bytes_verified=515_000_000_000, duration=4.5,
    memory_clocks=(Quantity(8_001_000_000, Unit.HERTZ),),
    temperatures=(Quantity(41, Unit.CELSIUS), Quantity(63, Unit.CELSIUS)), ecc="unsupported", errors=0,
    failing_words=Quantity(0, Unit.COUNT),
)  # fmt: skip


def test_no_error_bounds_the_rate_by_the_rule_of_three() -> None:
    assert zero_error_bound(100) == pytest.approx(-math.log(0.05) / 100, rel=1e-15)


def test_five_minutes_of_an_h200_bound_the_rate_as_the_literature_says() -> None:
    assert zero_error_bound(5.7e14) == pytest.approx(5.3e-15, rel=0.01)


@pytest.mark.parametrize(
    ("events", "low", "high"),
    # Garwood's exact limits, rounded as tables print them.
    [(1, 0.0253, 5.572), (2, 0.2422, 7.225), (5, 1.623, 11.668), (10, 4.795, 18.390), (100, 81.364, 121.627)],
)
def test_errors_give_the_exact_poisson_interval(events: int, low: float, high: float) -> None:
    assert poisson_interval(events) == pytest.approx((low, high), rel=1e-3)


@pytest.mark.parametrize("events", [1, 7, 300, 50_000])
def test_the_interval_leaves_the_tails_it_promises(events: int) -> None:
    low, high = poisson_interval(events)

    assert 1 - regularised_gamma(events, low) == pytest.approx(0.975, abs=1e-9)
    assert regularised_gamma(events + 1, high) == pytest.approx(0.975, abs=1e-9)


def test_the_interval_has_no_step_where_the_closed_form_takes_over() -> None:
    below, above = poisson_interval(1_000_000), poisson_interval(1_000_002)

    assert above[0] - below[0] == pytest.approx(2, abs=0.01)
    assert above[1] - below[1] == pytest.approx(2, abs=0.01)


def test_no_event_gives_a_one_sided_interval() -> None:
    assert poisson_interval(0) == pytest.approx((0.0, 2.995732), rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [(1, 1, 1 - math.exp(-1)), (0.5, 0.5, math.erf(math.sqrt(0.5))), (10, 10, 0.5420703)],
)
def test_the_incomplete_gamma_function_has_its_known_values(shape: float, value: float, expected: float) -> None:
    assert regularised_gamma(shape, value) == pytest.approx(expected, rel=1e-6)


def test_a_rate_is_the_interval_over_the_trials() -> None:
    assert error_rate(1, 1000) == pytest.approx((2.53e-5, 5.572e-3), rel=1e-3)


@pytest.mark.parametrize(("hours", "missed"), [(0, 1.0), (168, math.exp(-1)), (504, math.exp(-3)), (1 / 6, 0.999008)])
def test_a_weekly_fault_is_missed_by_a_short_run(hours: float, missed: float) -> None:
    assert miss_probability(hours) == pytest.approx(missed, rel=1e-5)


@pytest.mark.parametrize("call", [
    lambda: zero_error_bound(0), lambda: zero_error_bound(1, 1.0), lambda: poisson_interval(-1),
    lambda: error_rate(1, 0), lambda: miss_probability(-1), lambda: poisson_interval(3, 0.0),
])  # fmt: skip
def test_bounds_of_nothing_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"bound|confidence|negative"):
        call()  # type: ignore[operator]


def test_a_clean_run_is_told_in_one_paragraph() -> None:
    assert sentence(ACCOUNT) == (
        "96.8 % of 8,188 MiB verified (261 MiB not tested: driver 180, other processes 49, headroom 32); 3 tests, "
        "62 passes, 0.515 TB verified in 4.5 s at 8,001 MHz, 41 to 63 °C, ECC unsupported. Finds every stuck bit, "
        "transition or decoder fault in the tested part; for intermittent faults: < 5.8·10⁻¹² errors per byte "
        "verified (95 %). A fault that shows once a week would be missed with p > 99.99 %."
    )


def test_what_could_not_be_read_is_told_with_its_reason() -> None:
    reason = Absent(AbsenceKind.NOT_SUPPORTED, "the host has no such sensor")

    text = sentence(replace(ACCOUNT, memory_clocks=(reason,), temperatures=()))

    assert "memory clock not known (the host has no such sensor), temperature not known, ECC unsupported" in text


def test_errors_are_told_with_their_interval_and_its_assumption() -> None:
    text = sentence(replace(ACCOUNT, errors=14, failing_words=Quantity(3, Unit.COUNT)))

    assert "14 errors in 3 words: 1.5·10⁻¹¹ to 4.6·10⁻¹¹ errors per byte verified" in text
    assert "if they were independent" in text
    assert "Finds every" not in text


def test_only_the_faults_that_the_tests_find_are_claimed() -> None:
    text = sentence(replace(ACCOUNT, tests=("checkerboard",)))

    assert "Finds every stuck bit in the tested part;" in text


@pytest.mark.parametrize("change", [{"tests": ("window",)}, {"passes": 0}])
def test_without_a_complete_test_nothing_is_claimed(change: dict[str, Any]) -> None:
    text = sentence(replace(ACCOUNT, **change))

    assert "Finds every" not in text
    assert "does not show every stuck bit" in text


def test_nothing_verified_is_said_as_such() -> None:
    text = sentence(replace(ACCOUNT, bytes_verified=0, tested=0))

    assert text.startswith("0 of 8,188 MiB allocated")
    assert text.endswith("nothing was verified, so nothing can be said about this memory.")


def test_nearly_all_is_not_rounded_to_all() -> None:
    text = sentence(replace(ACCOUNT, total=8188 * MIB, tested=8187 * MIB, untested=(("headroom", MIB),)))

    assert text.startswith("99.9 % of 8,188 MiB verified (1 MiB not tested: headroom 1)")


def test_a_small_test_says_that_it_stayed_in_the_cache() -> None:
    assert "fits into the cache" in sentence(replace(ACCOUNT, cache_resident=True))


def test_a_long_run_tells_its_chance_of_missing_a_weekly_fault() -> None:
    assert "missed with p = 36.8 %" in sentence(replace(ACCOUNT, duration=168 * 3600.0))


def test_no_percent_of_health_is_ever_printed() -> None:
    assert "health" not in sentence(ACCOUNT).lower()
