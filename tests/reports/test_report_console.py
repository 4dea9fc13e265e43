"""The console report: the verdict first, readable in 80 columns, plain when redirected, and honest about gaps."""

from __future__ import annotations

import dataclasses
import re

import pytest

from mats.model import Absent, Column, Measurement, Observation, Quantity, Table, Unit, Verdict
from mats.reports.console import REPORT, render_console

from .example_runs import EXAMPLES, all_absent, broken_and_partial, clean_host, failing_sim, host_target, result, run

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [40, 80, 100, 160])
@pytest.mark.parametrize("example", EXAMPLES)
def test_no_line_is_wider_than_asked(example: str, width: int) -> None:
    text = render_console(EXAMPLES[example](), width=width, colour=False)

    assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_plain_report_has_no_escapes_no_box_drawing_and_no_trailing_spaces(example: str) -> None:
    text = REPORT.render(EXAMPLES[example]())

    assert not re.search(r"[\x1b\r\u2500-\u259f]", text)
    assert not re.search(r" $", text, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_colour_changes_no_word(example: str) -> None:
    plain = render_console(EXAMPLES[example](), width=80, colour=False)

    coloured = render_console(EXAMPLES[example](), width=80, colour=True)

    assert coloured != plain
    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


def test_the_environment_of_the_process_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    coloured = render_console(clean_host(), width=80, colour=True)

    assert "\x1b[" in coloured
    assert max(len(ESCAPES.sub("", line)) for line in coloured.splitlines()) > 70


@pytest.mark.parametrize(
    ("example", "first"),
    [
        ("clean_host", "PASS     host: nothing out of order in 1 probe (stress)"),
        ("failing_sim", "FAIL     sim:stuck_dq: One data line of one channel is stuck: memory.errors"),
        ("no_gpu", "UNKNOWN  cuda:0: stress could not tell: no NVIDIA driver is loaded: libcuda.so.1"),
        ("broken_and_partial", "ERROR    2 targets: 1 error, 1 unknown; required and not measured: links"),
        ("all_absent", "UNKNOWN  host: stress could not tell: nothing was measured: the allocation was"),
    ],
)
def test_the_first_line_is_the_verdict_and_why(example: str, first: str) -> None:
    text = render_console(EXAMPLES[example](), width=80, colour=False)

    assert text.splitlines()[0] == first


def test_a_simulated_run_is_stamped_and_a_host_is_not_passed_off_as_a_gpu() -> None:
    simulated = render_console(failing_sim(), width=160, colour=False)
    host = render_console(clean_host(), width=160, colour=False)

    assert "SIMULATED" in simulated.splitlines()[1]
    assert "SIMULATED" not in host
    assert "host memory (DRAM), not a GPU" in host.splitlines()[1]


def test_a_replay_of_a_simulated_run_stays_stamped() -> None:
    saved = failing_sim()
    replayed = dataclasses.replace(saved.targets[0], kind="replay", origin_kind="sim", simulated=False)

    text = render_console(dataclasses.replace(saved, targets=(replayed,)), width=160, colour=False)

    assert "SIMULATED" in text.splitlines()[1]


def test_the_gravest_finding_comes_first_with_reading_bound_evidence_advice_and_source() -> None:
    text = render_console(failing_sim(), width=160, colour=False)

    order = [
        "FAIL     MEM-101 The memory gave back other data than was written [stuck_dq]",
        "  reading  memory.errors 4,096, in order is at most 0",
        "  evidence One data line of one channel is stuck",
        "           errors are confined to 1 of 8 address slices (p < 1e-6)",
        "  advice   Have the solder joints",
        "  source   memory that works, what is read is what was written (definition, read 2026-11-30)",
        "WARN     MEM-201",
        "in order is at most 1.000 % (set by the user)",
        "What was tested, and what was not",
        "Tests",
        "Duration of a chunk sweep",
        "Wrong bits by position",
        "  5      20       0  ########################",
        "Error records",
        "(the first 8 of 40 rows; the saved run (JSON) has them all)",
        "Not seen",
    ]
    assert [text.index(line) for line in order] == sorted(text.index(line) for line in order)


def test_every_absent_reading_is_listed_with_its_reason() -> None:
    example = all_absent()

    text = render_console(example, width=160, colour=False)

    absent = [item for item in example.results[0].observation.measurements if isinstance(item.reading, Absent)]
    assert len(absent) == 9
    for item in absent:
        assert isinstance(item.reading, Absent)
        assert f"{item.name}, not seen: {item.reading.reason}" in text


def test_a_partial_run_says_so_and_why() -> None:
    text = render_console(broken_and_partial(), width=80, colour=False)

    assert text.splitlines()[1].strip() == "PARTIAL: interrupted with Ctrl-C"
    assert "PARTIAL: stress stopped early: the device was lost" in text


def test_notes_are_printed_in_full() -> None:
    sentence = clean_host().results[0].observation.notes[0]

    text = render_console(clean_host(), width=80, colour=False)

    assert sentence in " ".join(text.split())


def test_a_run_of_nothing_is_unknown_and_says_that_nothing_was_measured() -> None:
    text = render_console(run((), (), partial="the limits file could not be read"), width=80, colour=False)

    assert text.startswith("UNKNOWN  nothing was measured: the limits file could not be read")
    assert "every reading, not seen: there was nothing to measure" in text


def test_a_target_without_results_is_unknown() -> None:
    text = render_console(run((host_target(),), ()), width=80, colour=False)

    assert text.startswith("UNKNOWN  host: nothing was measured: no probe was run")
    assert "every reading, not seen: no probe was run" in text


def test_text_that_drives_a_terminal_is_shown_as_unprintable() -> None:
    text = render_console(broken_and_partial(), width=160, colour=False)

    assert "\x1b" not in text
    assert "\ufffd[31m" in text


@pytest.mark.parametrize(
    ("verdicts", "required", "overall"),
    [
        (("pass", "pass"), (), "PASS"),
        (("pass", "warn"), (), "WARN"),
        (("warn", "unknown"), (), "UNKNOWN"),
        (("unknown", "error"), (), "ERROR"),
        (("error", "fail"), (), "FAIL"),
        (("pass", "unknown"), ("probe_0",), "PASS"),
        (("pass", "unknown"), ("probe_1",), "UNKNOWN"),
        (("pass", "pass"), ("probe_2",), "UNKNOWN"),
    ],
)
def test_the_run_is_as_its_gravest_verdict(verdicts: tuple[str, ...], required: tuple[str, ...], overall: str) -> None:
    results = tuple(
        result("host", Verdict(verdict), Observation(), probe=f"probe_{at}", reason="why")
        for at, verdict in enumerate(verdicts)
    )

    text = render_console(run((host_target(),), results, required=required), width=80, colour=False)

    assert text.split()[0] == overall


def test_a_table_that_no_report_knows_is_shown_too() -> None:
    columns = (Column("pair"), Column("bandwidth", Unit.BYTE_PER_SECOND))
    table = Table("pairs", "Bandwidth between GPUs", columns, (("0 and 1", 21.5e9),))
    observation = Observation((Measurement("links.pairs", Quantity(1, Unit.COUNT)),), (table,))
    example = run((host_target(),), (result("host", Verdict.PASS, observation),))

    text = render_console(example, width=160, colour=False)

    assert "Bandwidth between GPUs" in text
    assert "0 and 1      21.50" in text
