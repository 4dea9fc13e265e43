"""Sizes, durations, shares and targets as users write them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.model import Quantity, Unit, UnitError
from mats.probe import UsageError
from mats.target import Target, parse_gpu_ids, parse_target, parse_targets
from mats.units import (
    parse_count,
    parse_duration,
    parse_number,
    parse_share,
    parse_size,
    peak_bandwidth,
    quantity,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_size, "1024", 1 << 30),
        (parse_size, "6GiB", 6 << 30),
        (parse_size, "0.5 GiB", 1 << 29),
        (parse_size, "2g", 2 << 30),
        (parse_size, "1GB", 10**9),
        (parse_size, "4096B", 4096),
        (parse_size, "0", 0),
        (parse_duration, "90", 90.0),
        (parse_duration, "5m", 300.0),
        (parse_duration, "2h", 7200.0),
        (parse_duration, "1h30m", 5400.0),
        (parse_duration, "250ms", 0.25),
        (parse_share, "0.9", 0.9),
        (parse_share, "90%", 0.9),
        (parse_share, "1", 1.0),
        (parse_count, "12", 12),
        (parse_count, "0x10", 16),
        (parse_number, "1.5e3", 1500.0),
    ],
)
def test_values_are_read_in_base_units(parse: Callable[[str], float], text: str, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "sentence"),
    [
        (parse_size, "-1", "'-1' is negative"),
        (parse_size, "lots", "'lots' is not a size such as 1024 (MiB) or 6GiB"),
        (parse_size, "5 parsecs", "no size suffix that is known"),
        (parse_size, "1e999", "too large"),
        (parse_size, "", "'' is not a size"),
        (parse_duration, "1y", "no time suffix that is known"),
        (parse_duration, "nan", "is not a duration"),
        (parse_share, "1.5", "not between 0 and 1"),
        (parse_share, "150%", "not between 0 and 1"),
        (parse_share, "-0.1", "not between 0 and 1"),
        (parse_share, "3GiB", "not a share"),
        (parse_count, "1.5", "not a whole number"),
        (parse_count, "-3", "negative"),
        (parse_number, "5s", "not a number"),
    ],
)
def test_what_cannot_be_read_gets_one_sentence(parse: Callable[[str], float], text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=12), st.sampled_from([parse_size, parse_duration, parse_share, parse_count, parse_number]))
def test_any_text_is_a_finite_value_or_a_sentence(text: str, parse: Callable[[str], float]) -> None:
    try:
        value = parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert math.isfinite(value) and value >= 0


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (3, "count", Quantity(3, Unit.COUNT)),
        (15, "%", Quantity(0.15, Unit.RATIO)),
        (2, "GB/s", Quantity(2 * 10**9, Unit.BYTE_PER_SECOND)),
        (2, "GiB", Quantity(2 << 30, Unit.BYTE)),
        (1.5, "GHz", Quantity(1.5e9, Unit.HERTZ)),
        (90, "degC", Quantity(90, Unit.CELSIUS)),
        (5, "B/s", Quantity(5, Unit.BYTE_PER_SECOND)),
    ],
)
def test_prefixes_are_taken_off(value: float, unit: str, expected: Quantity) -> None:
    assert quantity(value, unit) == expected


def test_milliseconds_are_thousandths() -> None:
    assert quantity(20, "ms").value == pytest.approx(0.02)


@pytest.mark.parametrize("unit", ["", "furlong", "kcount", "GHZ", "kdegC", "mB"])
def test_a_unit_that_is_not_known_is_refused(unit: str) -> None:
    with pytest.raises(ValueError, match="is not known"):
        quantity(1, unit)


def test_peak_bandwidth_of_a_card_of_known_peak() -> None:
    # An RTX 3090: 9751 MHz memory clock, 384-bit bus, 936 GB/s in the vendor's table.
    peak = peak_bandwidth(Quantity(9_751e6, Unit.HERTZ), Quantity(384, Unit.COUNT))

    assert peak.unit is Unit.BYTE_PER_SECOND
    assert peak.value == pytest.approx(936e9, rel=1e-3)


def test_formulas_refuse_other_units() -> None:
    second, byte = Quantity(1, Unit.SECOND), Quantity(1, Unit.BYTE)

    with pytest.raises(UnitError):
        peak_bandwidth(second, second)
    with pytest.raises(UnitError):
        peak_bandwidth(Quantity(1, Unit.HERTZ), byte)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cuda:0", "cuda:0"),
        ("cuda:07", "cuda:7"),
        ("cuda", "cuda:all"),
        ("cuda:GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301", "cuda:GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        ("cuda:0000:01:00.0", "cuda:0000:01:00.0"),
        ("host", "host"),
        ("sim:stuck_dq", "sim:stuck_dq"),
        ("file:C:/runs/run.json", "file:C:/runs/run.json"),
    ],
)
def test_a_target_is_parsed_into_a_value(text: str, name: str) -> None:
    assert parse_target(text).name == name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpu:0", "unknown target 'gpu:0'"),
        ("", "unknown target ''"),
        ("host:0", "host takes no argument"),
        ("sim", "sim needs a plan"),
        ("file:", "file needs a saved run"),
        ("cuda:-1", "unknown GPU '-1'"),
        ("cuda:", "unknown GPU ''"),
    ],
)
def test_an_unknown_target_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_target(text)


def test_targets_may_be_repeated_joined_by_commas_and_named_twice() -> None:
    targets = parse_targets(["cuda:0,1,host", "sim:a,b.toml,cuda:0", "host"])

    assert [target.name for target in targets] == ["cuda:0", "cuda:1", "host", "sim:a,b.toml"]


def test_gpu_ids_are_cuda_targets() -> None:
    assert parse_gpu_ids(["0,2", "cuda:1"]) == (Target("cuda", "0"), Target("cuda", "2"), Target("cuda", "1"))
