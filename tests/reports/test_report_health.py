"""Every report of a machine with many GPUs: what is wrong, where, and what to do, without a line for each reading."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest

from mats.model import (
    AbsenceKind,
    Absent,
    Diagnosis,
    Finding,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Run,
    Severity,
    Unit,
    Verdict,
)
from mats.reports import html, prometheus
from mats.reports._view import run_sentence, unknown_reasons
from mats.reports.console import render_console
from mats.reports.junit import render_junit

from .example_runs import ERRORS, result, run
from .exposition import parse_exposition
from .health_runs import HEALTH, broken_machine, healthy_machine, laptop, lost_gpu, sixteen
from .test_report_console import ESCAPES
from .test_report_html import read


def console(run: Run, width: int = 80) -> str:
    return str(render_console(run, width=width, colour=False))


@pytest.mark.parametrize("width", [40, 80, 100, 160])
@pytest.mark.parametrize("example", HEALTH)
def test_no_line_is_wider_than_asked(example: str, width: int) -> None:
    text = console(HEALTH[example](), width)

    assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("example", HEALTH)
def test_colour_changes_no_word(example: str) -> None:
    plain, coloured = console(HEALTH[example]()), render_console(HEALTH[example](), width=80, colour=True)

    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


def test_the_verdict_on_each_gpu_has_its_colour() -> None:
    coloured = render_console(broken_machine(), width=80, colour=True)

    assert "\x1b[1;31mFAIL" in coloured and "\x1b[1;33mWARN" in coloured and "\x1b[1;32mpass" in coloured


@pytest.mark.parametrize(
    ("example", "where", "what", "advice"),
    [
        (broken_machine, "GPU 3", "a row of memory waits to be replaced", "Drain the GPU and reset it"),
        (lost_gpu, "GPU 2", "the GPU does not answer", "Restart the machine with its power off."),
        (sixteen, "GPU 2-4, 9, 11", "uncorrected memory errors", "Drain the GPU and reset it"),
    ],
)
def test_the_first_screen_says_what_is_wrong_where_and_what_to_do(
    example: object, where: str, what: str, advice: str
) -> None:
    screen = " ".join("\n".join(console(example()).splitlines()[:24]).split())  # type: ignore[operator]

    assert screen.startswith("FAIL")
    assert where in screen and what in screen and advice in screen
    assert re.search(rf"\b{where.split()[1].split('-')[0].rstrip(',')} FAIL HLT-", screen), "the row of the GPU"


def with_reading(run: Run, name: str, gpu: str, reading: Reading, verdict: Verdict, reason: str) -> Run:
    (result,) = run.results
    measurements = tuple(
        dataclasses.replace(item, reading=reading) if item.name == name and item.labels == (("gpu", gpu),) else item
        for item in result.observation.measurements
    )
    observation = dataclasses.replace(result.observation, measurements=measurements)
    judged = dataclasses.replace(result, observation=observation, verdict=verdict, reason=reason)
    return dataclasses.replace(run, results=(judged,))


def test_what_had_to_be_known_and_was_not_seen_is_said_first_with_its_gpu_and_advice() -> None:
    unseen = Absent(AbsenceKind.TIMED_OUT, "ECC errors: no answer within 2 s")
    run = with_reading(
        healthy_machine(), "health.known.errors", "4", unseen, Verdict.UNKNOWN, "health.known.errors: ..."
    )

    lines = console(run, 160).splitlines()

    assert lines[0] == (
        "UNKNOWN  cuda:all: health could not tell: GPU 4: whether memory errors happened is not known "
        "(no answer within 2 s)"
    )
    assert lines[1].strip() == "Advice: GPU 4: See the reason."


def test_what_the_hardware_cannot_tell_has_no_advice() -> None:
    hidden = Absent(AbsenceKind.NOT_SUPPORTED, "ECC errors: only the host of a virtual GPU can see them")
    run = with_reading(
        healthy_machine(), "health.known.errors", "4", hidden, Verdict.UNKNOWN, "health.known.errors: ..."
    )

    text = console(run)

    assert "only the host of a virtual" in text.splitlines()[1] + text.splitlines()[2]
    assert "Advice" not in text


def test_a_machine_in_order_is_told_on_one_screen() -> None:
    lines = console(healthy_machine()).splitlines()

    assert lines[0].startswith("PASS")
    assert len(lines) <= 32


def test_a_gpu_has_one_row_and_a_finding_on_many_one_entry() -> None:
    text = console(sixteen())

    assert len(re.findall(r"^(?:\d|1\d) +(?:pass|FAIL) ", text, re.MULTILINE)) == 16
    assert len(re.findall(r"^FAIL     HLT-", text, re.MULTILINE)) == 4
    assert "HLT-022 GPU 12-15: NVLinks are down" in text


def test_no_line_is_made_for_each_gpu_and_reading() -> None:
    for build in (healthy_machine, lost_gpu, laptop):
        run = build()
        readings = len(run.results[0].observation.measurements)

        assert len(console(run).splitlines()) < 45
        assert readings >= 32


def test_what_was_not_seen_names_the_gpus_once() -> None:
    text = console(broken_machine())

    assert "GPU 7    memory temperature: no answer within 2 s" in text
    assert "GPU 0-7  PCIe lane errors: this GPU does not count them" in text


def test_sentences_that_do_not_fit_a_column_become_paragraphs() -> None:
    narrow, wide = console(broken_machine(), 80), console(broken_machine(), 200)

    assert "GPU 3, grade reset, age 2 h 28 min" in narrow
    assert "  lines    [Mon Nov 30 19:42:07 2026] NVRM: Xid (PCI:0000:4e:00): 48, pid=91231," in narrow
    assert re.search(r"^GPU +grade +age +title", wide, re.MULTILINE)


def parse(run: Run, fail_on: Severity = Severity.FAIL) -> ET.Element:
    return ET.fromstring(render_junit(run, fail_on=fail_on).encode("utf-8"))


def outcome(case: ET.Element) -> str:
    return next((child.tag for child in case if child.tag != "system-out"), "passed")


@pytest.mark.parametrize("example", HEALTH)
def test_junit_has_a_case_for_each_check_and_gpu(example: str) -> None:
    run = HEALTH[example]()
    result = run.results[0]
    gpus = len({labels for item in result.observation.measurements for labels in item.labels})

    names = [case.attrib["name"] for case in parse(run).iter("testcase")]

    of_gpus = len(
        [limit for limit in result.limits if not re.search(r"health\.(log|driver|gpus)\.", limit.measurement)]
    )
    assert len(names) == len(set(names)) == 1 + of_gpus * gpus + (len(result.limits) - of_gpus)


def test_junit_fails_the_gpu_that_is_broken_and_skips_what_was_not_seen() -> None:
    cases = {case.attrib["name"]: case for case in parse(broken_machine()).iter("testcase")}
    pending = {name[-1]: outcome(case) for name, case in cases.items() if "health.remap.pending" in name}
    heat = {name[-1]: case for name, case in cases.items() if "health.heat.memory" in name}

    assert pending == {"3": "failure"} | dict.fromkeys("0124567", "passed")
    skipped = heat["7"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "not seen: memory temperature: no answer within 2 s"
    failure = next(case.find("failure") for name, case in cases.items() if "remap.pending" in name and name[-1] == "3")
    assert failure is not None and failure.text is not None
    assert "evidence: Xid 48, 63 and 94" in failure.text and "advice: Drain the GPU" in failure.text


@pytest.mark.parametrize(("fail_on", "expected"), [(Severity.FAIL, "passed"), (Severity.WARN, "failure")])
def test_junit_heeds_from_where_a_finding_fails(fail_on: Severity, expected: str) -> None:
    cases = {case.attrib["name"]: outcome(case) for case in parse(broken_machine(), fail_on).iter("testcase")}

    assert {found for name, found in cases.items() if "clocks.thermal" in name and name[-1] in "56"} == {expected}
    assert {found for name, found in cases.items() if "health.persistence" in name} == {"passed"}


@pytest.mark.parametrize("example", HEALTH)
def test_metrics_keep_the_rules_of_the_format(example: str) -> None:
    families = parse_exposition(prometheus.render(HEALTH[example]()))

    assert "mats_absent" not in families


def test_metrics_name_the_gpu_and_its_uuid_and_count_what_is_absent() -> None:
    run = lost_gpu()
    families = parse_exposition(prometheus.render(run))

    pending = {dict(labels)["gpu"]: dict(labels) for labels in families["mats_health_remap_pending"].samples}
    assert sorted(pending) == ["0", "1", "3", "4", "5", "6", "7"]
    assert pending["7"]["uuid"] == "GPU-5e100007-0000-4000-8000-000000000007"
    unseen = {
        (dict(labels)["gpu"], dict(labels)["supported"]): value
        for labels, value in families["mats_unseen"].samples.items()
        if "gpu" in dict(labels)
    }
    absent = [item for item in run.results[0].observation.measurements if isinstance(item.reading, Absent)]
    assert unseen["2", "true"] == 28 and unseen["7", "false"] == 1 and unseen["7", "true"] == 0
    assert sum(unseen.values()) == len(absent)


def test_metrics_give_each_gpu_its_verdict() -> None:
    families = parse_exposition(prometheus.render(broken_machine()))

    states = {
        dict(labels)["gpu"]: dict(labels)["verdict"]
        for labels, value in families["mats_part_verdict"].samples.items()
        if value
    }
    assert states["3"] == "fail" and states["5"] == "warn" and states["0"] == "pass"


@pytest.mark.parametrize("example", HEALTH)
def test_the_page_is_well_formed(example: str) -> None:
    reader = read(html.render_page(HEALTH[example](), lambda: ""))

    text = " ".join("".join(reader.text).split())
    assert "Checks" in text and "Every reading" in text


def test_the_page_says_in_words_how_every_check_came_out() -> None:
    text = "".join(read(html.render_page(broken_machine(), lambda: "")).text)

    for words in ("✗ fail", "! warn", "✓ in order", "? not seen", "\u2013 not supported", "i note"):
        assert words in text


def test_the_page_shows_lines_of_the_log_as_they_were_printed() -> None:
    reader = read(html.render_page(broken_machine(), lambda: ""))

    assert sum(attributes.get("class") == "log" for tag, attributes in reader.elements if tag == "td") == 2


def diagnosed(part: str, title: str) -> tuple[Finding, Diagnosis]:
    """A finding on a part, and what was diagnosed of it."""
    labels = (("gpu", part),)
    measurement = Measurement("health.log.serious", Quantity(1, Unit.COUNT), labels)
    limit = dataclasses.replace(ERRORS, measurement="health.log.serious", title="a serious incident in the log")
    finding = Finding("HLT-042", Severity.FAIL, limit.title, "cuda:all", measurement, limit, "off_bus", (), "Reset it.")
    return finding, Diagnosis("off_bus", title, "health.log.serious", (), "", labels)


@pytest.mark.parametrize(
    ("titles", "sentence"),
    [
        (("GPU 0 (0000:1b:00.0): it fell off the bus",), "GPU 0: it fell off the bus"),
        (("it fell off the bus", "it fell off the bus"), "GPU 0, 1: it fell off the bus"),
        (("it fell off the bus", "it hangs"), "GPU 0, 1: a serious incident in the log"),
    ],
)
def test_the_opening_sentence_names_what_was_diagnosed_where_it_is_the_same_on_all_parts(
    titles: tuple[str, ...], sentence: str
) -> None:
    found = [diagnosed(str(part), title) for part, title in enumerate(titles)]
    observation = Observation(
        tuple(finding.measurement for finding, _ in found), diagnoses=tuple(diagnosis for _, diagnosis in found)
    )
    findings = tuple(finding for finding, _ in found)
    judged = result("cuda:all", Verdict.FAIL, observation, probe="health", findings=findings, limits=())

    assert run_sentence(run((), (judged,))) == f"cuda:all: {sentence}"


def test_what_is_not_known_is_said_in_the_words_of_the_report() -> None:
    silent = Absent(AbsenceKind.TIMED_OUT, "ECC errors: no answer within 2 s")
    machine = with_reading(
        healthy_machine(), "health.known.errors", "4", silent, Verdict.UNKNOWN, "health.known.errors: no answer"
    )

    reasons = unknown_reasons(machine)

    said = "GPU 4: whether memory errors happened is not known (no answer within 2 s)"
    assert reasons == {("health", "cuda:all"): said}
    assert run_sentence(machine) == f"cuda:all: health could not tell: {said}"
