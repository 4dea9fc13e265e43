"""The report for CI systems as JUnit XML: a test suite per target, a test case per probe and per limit.

It is never empty: what could not be known is skipped with its reason, so that a machine on which nothing was tested
does not look like one on which all is well. A failure of the tool is an error, a broken limit a failure; a warning
passes with what was seen as its output, unless warnings are to fail.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from mats.model import Finding, Limit, Quantity, Result, Run, Severity, Verdict
from mats.report import Report

from ._format import against_text, measurement_name, printable, quantity_text, relation_text, source_text
from ._parts import Outcome, Standing, checks_of, folded_readings, part_label, part_text
from ._view import TargetView, run_partial, run_sentence, target_views


def render(run: Run) -> str:
    """The XML text; warnings pass."""
    return render_junit(run)


def render_junit(run: Run, fail_on: Severity = Severity.FAIL) -> str:
    """The XML text; with ``fail_on`` WARN a warning is a failure too."""
    root = ET.Element("testsuites", name="mats", time=_seconds(run.duration))
    views = target_views(run)
    for view in views:
        _add_suite(root, view, run, fail_on)
    missing = [probe for probe in run.required if all(result.probe != probe for result in run.results)]
    if not views or missing:
        _add_unmeasured(root, run, missing)
    _count(root, root)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="utf-8"?>\n', "\n")
    )


def _add_suite(root: ET.Element, view: TargetView, run: Run, fail_on: Severity) -> None:
    duration = sum(result.duration.value for result in view.results)
    suite = ET.SubElement(
        root,
        "testsuite",
        name=printable(view.name),
        time=f"{duration:.3f}",
        timestamp=printable(view.results[0].started if view.results else run.started),
        hostname=printable(run.host.name),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(view, run):
        ET.SubElement(properties, "property", name=printable(name), value=printable(value))
    if not view.results:
        case = _case(suite, f"mats.{view.name}", "every probe", 0)
        _skip(case, view.sentence)
    for result in view.results:
        _add_probe(suite, view, result, fail_on)
        checks = {check.limit: check for check in checks_of(result, view.kind)}
        for limit in result.limits:
            for outcome in checks[limit].outcomes if limit in checks else ():
                _add_outcome(suite, view, result, limit, outcome, fail_on)
            if limit not in checks:
                case = _case(suite, f"mats.{view.name}.{result.probe}", _limit_name(limit), 0)
                _skip(case, f"this limit is for targets of kind {', '.join(limit.kinds)}")
    _count(suite, suite)


def _properties(view: TargetView, run: Run) -> Iterator[tuple[str, str]]:
    yield "tool", run.tool
    yield "verdict", view.verdict.value
    yield "kind", view.kind
    yield "simulated", "true" if view.simulated else "false"
    if view.stamp:
        yield "stamp", view.stamp
    for line in run_partial(run):
        yield "partial", line.removeprefix("PARTIAL: ")
    if view.info:
        yield "title", view.info.title
        yield from view.info.identity


def _add_probe(suite: ET.Element, view: TargetView, result: Result, fail_on: Severity) -> None:
    name = f"{result.probe}: {result.question}"
    case = _case(suite, f"mats.{view.name}.{result.probe}", name, result.duration.value)
    if result.verdict is Verdict.ERROR:
        message = printable(result.reason or "no reason was recorded")
        ET.SubElement(case, "error", type="error", message=message).text = message
    elif result.verdict is Verdict.UNKNOWN:
        _skip(case, result.reason or result.observation.partial or "no reason was recorded")
    elif result.verdict is Verdict.FAIL or (result.verdict is Verdict.WARN and fail_on is not Severity.FAIL):
        failing = [finding for finding in result.findings if _fails(finding.severity, fail_on)]
        message = "; ".join(f"{finding.code} {finding.title}" for finding in failing) or result.verdict.value
        failure = ET.SubElement(case, "failure", type=result.verdict.value, message=printable(message))
        failure.text = "\n".join(line for finding in failing for line in _finding_lines(finding))
    lines = list(_probe_lines(result))
    if lines:
        ET.SubElement(case, "system-out").text = "\n".join(lines)


def _fails(severity: Severity, fail_on: Severity) -> bool:
    return severity is Severity.FAIL or (severity is Severity.WARN and fail_on is not Severity.FAIL)


def _probe_lines(result: Result) -> Iterator[str]:
    """The probe's sentences and every reading, as text beside the outcome."""
    if result.observation.partial:
        yield printable(f"PARTIAL: {result.observation.partial}")
    for note in result.observation.notes:
        yield printable(note)
    label = part_label(result.observation)
    for name, places in folded_readings(result.observation).items():
        for text, parts in places.items():
            where = f", {part_text(label, parts)}" if any(parts) else ""
            yield printable(f"{name}{where}{text}")


def _finding_lines(finding: Finding) -> Iterator[str]:
    fault = f" [{finding.fault}]" if finding.fault else ""
    yield printable(f"{finding.severity.value.upper()} {finding.code} {finding.title}{fault}")
    yield printable(f"reading: {against_text(finding)}")
    for line in finding.evidence:
        yield printable(f"evidence: {line}")
    yield printable(f"advice: {finding.advice}")
    yield printable(f"source: {source_text(finding.limit)}")


def _limit_name(limit: Limit) -> str:
    return f"{limit.code} {limit.title}: {limit.measurement} {relation_text(limit)}"


def _add_outcome(
    suite: ET.Element, view: TargetView, result: Result, limit: Limit, outcome: Outcome, fail_on: Severity
) -> None:
    """A test case for the limit on one part of the target: broken, kept, or not judged and why."""
    label = part_label(result.observation)
    where = f", {part_text(label, [outcome.part])}" if outcome.part else ""
    case = _case(suite, f"mats.{view.name}.{result.probe}", f"{_limit_name(limit)}{where}", 0)
    if outcome.standing in (Standing.NOT_SEEN, Standing.NOT_SUPPORTED):
        _skip(case, f"not seen: {outcome.why}")
    elif not outcome.findings:
        readings = (
            f"{measurement_name(item)} {quantity_text(item.reading)}"
            for item in outcome.measurements
            if isinstance(item.reading, Quantity)
        )
        ET.SubElement(case, "system-out").text = printable("; ".join(readings))
    else:
        _add_broken(case, limit, outcome, fail_on)


def _add_broken(case: ET.Element, limit: Limit, outcome: Outcome, fail_on: Severity) -> None:
    text = "\n".join(line for finding in outcome.findings for line in _finding_lines(finding))
    message = printable("; ".join(against_text(finding) for finding in outcome.findings))
    severity = outcome.findings[0].severity
    if _fails(severity, fail_on):
        ET.SubElement(case, "failure", type=limit.code, message=message).text = text
    elif severity is Severity.UNKNOWN:
        _skip(case, message)
    else:
        ET.SubElement(case, "system-out").text = text


def _add_unmeasured(root: ET.Element, run: Run, missing: Sequence[str]) -> None:
    """A suite for what was to be measured and was not, so that a run without a target is not an empty file."""
    suite = ET.SubElement(root, "testsuite", name="mats", time="0.000", timestamp=printable(run.started))
    for probe in missing:
        _skip(_case(suite, "mats", f"{probe} is required", 0), f"{probe} was not run: {run.partial or 'no result'}")
    if not missing:
        _skip(_case(suite, "mats", "measure something", 0), run_sentence(run))
    _count(suite, suite)


def _case(suite: ET.Element, classname: str, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=printable(classname), name=printable(name), time=f"{seconds:.3f}")


def _skip(case: ET.Element, reason: str) -> None:
    ET.SubElement(case, "skipped", message=printable(reason))


def _count(element: ET.Element, holder: ET.Element) -> None:
    """The totals that readers of JUnit take from the attributes."""
    holder.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        holder.set(attribute, str(sum(1 for _ in element.iter(tag))))


def _seconds(duration: Quantity) -> str:
    return f"{duration.value:.3f}"


REPORT = Report("junit", "xml", render, render_junit)
