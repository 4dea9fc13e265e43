"""A saved run comes back as it was, and what is no saved run is refused in one sentence."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mats.codec import SavedRunError, from_data, run_from_json, run_to_json, to_data
from mats.model import Column, Measurement, Observation, Quantity, Result, Run, Table, Unit

from .example_runs import EXAMPLES, clean_host, failing_sim, result
from .strategies import runs

RELAXED = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
SAVED = run_to_json(failing_sim())


def changed(**fields: object) -> str:
    """A small saved run with some of its top-level fields replaced."""
    return json.dumps(to_data(EXAMPLES["no_gpu"]()) | fields)


@RELAXED
@given(runs)
def test_any_run_comes_back_as_it_was(run: Run) -> None:
    assert run_from_json(run_to_json(run)) == run


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_comes_back_with_whole_numbers_still_whole(example: str) -> None:
    run = EXAMPLES[example]()

    back = run_from_json(run_to_json(run))

    assert repr(back) == repr(run)


def test_a_result_alone_comes_back() -> None:
    saved = failing_sim().results[0]

    back = from_data(Result, json.loads(json.dumps(to_data(saved))))

    assert back == saved


def test_whole_numbers_beyond_64_bits_keep_every_digit() -> None:
    number = 2**200 + 1
    table = Table("big", "", (Column("n", Unit.COUNT),), ((number,),))
    run = dataclasses.replace(
        clean_host(), results=(result("host", failing_sim().results[0].verdict, Observation(tables=(table,))),)
    )

    back = run_from_json(run_to_json(run))

    assert back.results[0].observation.tables[0].rows[0][0] == number


def test_a_file_name_that_is_no_unicode_comes_back() -> None:
    run = dataclasses.replace(clean_host(), command=("mats", "judge", "caf\udce9.json"))

    text = run_to_json(run)

    assert text.isascii()
    assert run_from_json(text) == run


def test_a_table_row_is_one_line() -> None:
    rows = [line for line in SAVED.splitlines() if '"own_address", "write"' in line]

    assert len(rows) == 16


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_sample_that_is_not_finite_is_not_saved(value: float) -> None:
    measurement = Measurement("a.b", Quantity(1, Unit.COUNT), samples=(value,))
    observation = Observation((measurement,))
    run = dataclasses.replace(clean_host(), results=(result("host", clean_host().results[0].verdict, observation),))

    with pytest.raises(ValueError, match="cannot be saved"):
        run_to_json(run)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    text = SAVED.replace('"value": 21.5', f'"value": {number}')

    with pytest.raises(SavedRunError, match=r"finite|too large"):
        run_from_json(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("hello", "this is not JSON"),
        ("[1, 2]", "not a run saved by mats: it has no schema_version"),
        ("{}", "not a run saved by mats: it has no schema_version"),
        ('{"schema_version": "1"}', "no schema_version"),
        ('{"schema_version": true}', "no schema_version"),
        ('{"schema_version": 1}', "damaged: its top level lacks command, duration"),
        (changed(schema_version=2), "newer mats .*update mats"),
        (changed(schema_version=0), "schema_version is 0"),
        (changed(results={}), "results is an object where a list belongs"),
        (changed(duration={"value": "3", "unit": "s"}), "duration.value is .*where"),
        (changed(duration={"value": True, "unit": "s"}), "duration.value is .*where"),
        (changed(duration={"value": 3, "unit": "min"}), 'duration.unit is "min", which is none of B, s'),
        (changed(command=["mats", 1]), r"command\[1\] is a whole number where text belongs"),
        (changed(partial=None), "partial is null where text belongs"),
        ("[" * 200_000, "nested too deeply"),
        ('{"schema_version": ' + "9" * 5000 + "}", "thousands of digits"),
        (changed(duration={"value": 10**400, "unit": "s"}), "does not hold together"),
    ],
)
def test_what_is_no_saved_run_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SavedRunError, match=sentence) as caught:
        run_from_json(text)

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_cut_file_is_called_cut_wherever_it_was_cut() -> None:
    compact = json.dumps(to_data(EXAMPLES["no_gpu"]()))

    for length in range(2, len(compact)):
        with pytest.raises(SavedRunError, match="cut off"):
            run_from_json(compact[:length])


def test_a_table_row_of_the_wrong_length_is_refused() -> None:
    data: Any = to_data(failing_sim())
    data["results"][0]["observation"]["tables"][0]["rows"][0].append(1)

    with pytest.raises(SavedRunError, match=r"tables\[0\] does not hold together \(table coverage: a row has 3"):
        run_from_json(json.dumps(data))


def test_a_field_of_a_later_version_is_passed_over_and_a_missing_one_takes_its_default() -> None:
    run = EXAMPLES["no_gpu"]()
    data = to_data(run)
    data["added_later"] = {"x": 1}
    del data["partial"], data["required"]

    back = run_from_json(json.dumps(data))

    assert back == run


def test_a_byte_order_mark_does_no_harm() -> None:
    assert run_from_json("\ufeff" + SAVED) == failing_sim()


def paths_of(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within ``data``."""
    found = [path]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += paths_of(value, (*path, key))
    return found


DATA = to_data(failing_sim())
PATHS = paths_of(DATA)[1:]
JUNK = st.sampled_from([None, True, -1, 1e308, "", "text", [], [1], {}, {"value": 1}, {"kind": "x", "reason": ""}])


@RELAXED
@given(st.sampled_from(PATHS), JUNK, st.booleans())
def test_a_mutated_file_is_read_or_refused_and_nothing_else(path: tuple[Any, ...], junk: Any, drop: bool) -> None:
    data = json.loads(json.dumps(DATA))
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    if drop:
        del holder[path[-1]]
    else:
        holder[path[-1]] = junk
    try:
        run = run_from_json(json.dumps(data))
    except SavedRunError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(run, Run)


@RELAXED
@given(st.integers(0, len(SAVED) - 1), st.characters())
def test_a_file_with_one_changed_character_is_read_or_refused_and_nothing_else(at: int, character: str) -> None:
    text = SAVED[:at] + character + SAVED[at + 1 :]
    try:
        run = run_from_json(text)
    except SavedRunError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(run, Run)
