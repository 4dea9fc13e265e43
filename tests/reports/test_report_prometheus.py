"""Prometheus text: valid by its rules, base units, no number for what was not seen."""

from __future__ import annotations

import dataclasses

import pytest

from mats.model import Measurement, Observation, Quantity, Unit, Verdict
from mats.reports.prometheus import metric_name, render

from .example_runs import (
    EXAMPLES,
    broken_and_partial,
    clean_host,
    failing_sim,
    host_target,
    result,
    run,
)
from .exposition import parse_exposition


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_text_keeps_the_rules_of_the_format(example: str) -> None:
    families = parse_exposition(render(EXAMPLES[example]()))

    assert sum(families["mats_run_verdict"].samples.values()) == 1


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_sample_says_whether_it_is_simulated(example: str) -> None:
    families = parse_exposition(render(EXAMPLES[example]()))

    simulated = "true" if example == "failing_sim" else "false"
    for family in families.values():
        for labels in family.samples:
            assert dict(labels)["simulated"] == simulated


def test_a_verdict_is_a_set_of_states_of_which_one_holds() -> None:
    families = parse_exposition(render(failing_sim()))

    states = {dict(labels)["verdict"]: value for labels, value in families["mats_verdict"].samples.items()}
    assert states == {"pass": 0, "warn": 0, "unknown": 0, "error": 0, "fail": 1}


def test_an_absent_reading_has_no_number_but_its_reason() -> None:
    families = parse_exposition(render(clean_host()))

    absent = [dict(labels) for labels in families["mats_absent"].samples]
    assert "mats_memory_temperature_celsius" not in families
    assert [(item["measurement"], item["absence"]) for item in absent] == [
        ("memory.temperature", "not_supported"),
        ("memory.ecc_corrected_delta", "not_found"),
    ]
    assert absent[1]["reason"] == "no EDAC driver is loaded"


def test_label_values_are_escaped() -> None:
    text = render(broken_and_partial())

    assert 'uuid="GPU-\\"quoted\\"\\\\back slash"' in text
    parse_exposition(text)


@pytest.mark.parametrize(
    ("measurement", "unit", "name"),
    [
        ("memory.errors", Unit.COUNT, "mats_memory_errors"),
        ("memory.bytes_tested", Unit.BYTE, "mats_memory_tested_bytes"),
        ("memory.write_latency", Unit.SECOND, "mats_memory_write_latency_seconds"),
        ("memory.write_bandwidth", Unit.BYTE_PER_SECOND, "mats_memory_write_bandwidth_bytes_per_second"),
        ("gpu.temperature", Unit.CELSIUS, "mats_gpu_temperature_celsius"),
        ("gpu.power", Unit.WATT, "mats_gpu_power_watts"),
        ("gpu.clock", Unit.HERTZ, "mats_gpu_clock_hertz"),
        ("memory.coverage", Unit.RATIO, "mats_memory_coverage_ratio"),
        ("link 0/rx-bytes", Unit.BYTE, "mats_link_0_rx_bytes"),
    ],
)
def test_a_metric_is_named_after_its_measurement_with_its_base_unit_at_the_end(
    measurement: str, unit: Unit, name: str
) -> None:
    assert metric_name(measurement, unit) == name


def test_labels_of_a_measurement_get_valid_names_that_are_free() -> None:
    labels = (("operation", "write"), ("target", "x"), ("2nd-try", "y"), ("", "z"))
    observation = Observation((Measurement("memory.latency", Quantity(1, Unit.SECOND), labels),))

    families = parse_exposition(render(run((host_target(),), (result("host", Verdict.PASS, observation),))))

    (sample,) = families["mats_memory_latency_seconds"].samples
    assert {"operation": "write", "label_target": "x", "label_2nd_try": "y", "label": "z"}.items() <= dict(
        sample
    ).items()
    assert dict(sample)["target"] == "host"


def test_a_probe_that_ran_twice_gives_its_later_reading_once() -> None:
    first, second = (
        result("host", Verdict.PASS, Observation((Measurement("memory.errors", Quantity(count, Unit.COUNT)),)))
        for count in (1, 2)
    )

    families = parse_exposition(render(run((host_target(),), (first, second))))

    assert list(families["mats_memory_errors"].samples.values()) == [2]


def test_a_start_that_is_no_moment_is_left_out() -> None:
    text = render(dataclasses.replace(clean_host(), started="yesterday"))

    assert "timestamp" not in text
