"""What every report says about a run: verdicts, stamps, the sentence per target, and what was not seen.

The words are made once here; the reports differ in layout alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from mats.model import (
    PRECEDENCE,
    Absent,
    Diagnosis,
    Finding,
    Result,
    Run,
    Severity,
    Table,
    TargetInfo,
    Verdict,
    worst,
)

from ._format import against_text, measurement_name, plural, printable
from ._grid import absent_cells

SIMULATED = "SIMULATED: the memory and its faults are invented; nothing here is evidence about real hardware."
HOST = "This is host memory (DRAM), not a GPU."

NOTHING_MISSING = "no reading that was asked for is missing"

_GRAVEST_FIRST = (Severity.FAIL, Severity.UNKNOWN, Severity.WARN, Severity.NOTE)


@dataclass(frozen=True, slots=True)
class TargetView:
    """One target's part of a report. ``info`` is None where the target could not be opened."""

    name: str
    info: TargetInfo | None
    verdict: Verdict
    sentence: str
    stamp: str
    results: tuple[Result, ...]

    @property
    def kind(self) -> str:
        """The kind of target that was measured; of a replay, that which was recorded."""
        return kind_of(self.info) if self.info else self.name.partition(":")[0]

    @property
    def simulated(self) -> bool:
        return is_simulated(self.info, self.name)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The gravest first."""
        found = [finding for result in self.results for finding in result.findings]
        return tuple(sorted(found, key=lambda finding: _GRAVEST_FIRST.index(finding.severity)))

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """Those that no finding carries already."""
        told = {fault for finding in self.findings for fault in finding.fault.split(", ")}
        found = (diagnosis for result in self.results for diagnosis in result.observation.diagnoses)
        return tuple(diagnosis for diagnosis in found if diagnosis.fault not in told)


def kind_of(info: TargetInfo) -> str:
    return info.origin_kind or info.kind


def is_simulated(info: TargetInfo | None, name: str) -> bool:
    """Whether a target is simulated; one that could not be opened is told by its name."""
    return name.startswith("sim:") if info is None else info.simulated or kind_of(info) == "sim"


def run_verdict(run: Run) -> Verdict:
    """The gravest of all targets'. A probe that was not required may be unknown; one that was, may not be missing."""
    if not run.required:
        return worst(view.verdict for view in target_views(run))
    verdicts = [
        result.verdict
        for result in run.results
        if result.verdict is not Verdict.UNKNOWN or result.probe in run.required
    ]
    measured = {result.probe for result in run.results}
    if not set(run.required) <= measured:
        verdicts.append(Verdict.UNKNOWN)
    return worst(verdicts)


def target_views(run: Run) -> tuple[TargetView, ...]:
    """Every target of the run in its order, also those of which only a result tells."""
    infos = {info.name: info for info in run.targets}
    names = dict.fromkeys((*infos, *(result.target for result in run.results)))
    return tuple(_target_view(name, infos.get(name), run) for name in names)


def _target_view(name: str, info: TargetInfo | None, run: Run) -> TargetView:
    results = tuple(result for result in run.results if result.target == name)
    verdict = worst(result.verdict for result in results)
    stamp = ""
    if is_simulated(info, name):
        stamp = SIMULATED
    elif (kind_of(info) if info else name) == "host":
        stamp = HOST
    return TargetView(name, info, verdict, _sentence(verdict, results, run), stamp, results)


def _sentence(verdict: Verdict, results: tuple[Result, ...], run: Run) -> str:
    """Why the verdict is what it is."""
    if not results:
        return printable(f"nothing was measured: {run.partial or 'no probe was run'}")
    if verdict in (Verdict.UNKNOWN, Verdict.ERROR):
        named = [result for result in results if result.verdict is verdict]
        words = "could not tell" if verdict is Verdict.UNKNOWN else "failed to work"
        first = f"{named[0].probe} {words}: {named[0].reason.rstrip('.') or 'no reason was recorded'}"
        return printable(first + _and_more(len(named) - 1, "probe"))
    findings = sorted(
        (finding for result in results for finding in result.findings),
        key=lambda finding: _GRAVEST_FIRST.index(finding.severity),
    )
    probes = plural(len(results), "probe")
    if verdict is Verdict.PASS:
        noted = f", {plural(len(findings), 'note')}" if findings else ""
        return f"nothing out of order in {probes} ({', '.join(result.probe for result in results)}){noted}"
    if not findings:
        return f"{probes} ended so without a finding"
    finding = findings[0]
    named_fault = f", diagnosed as {finding.fault}" if finding.fault else ""
    text = f"{finding.title}: {against_text(finding)}{named_fault}"
    return printable(text + _and_more(len(findings) - 1, "finding"))


def _and_more(count: int, noun: str) -> str:
    return f" (and {plural(count, f'more {noun}')})" if count else ""


def run_sentence(run: Run) -> str:
    """The whole run in one sentence: of one target its own, of several how many came to which verdict.

    Names the probes that were required and of which there is no result.
    """
    views = target_views(run)
    if not views:
        reason = run.partial or "; ".join(run.notes) or "no target was named or found"
        return printable(f"nothing was measured: {reason}")
    missing = [probe for probe in run.required if all(result.probe != probe for result in run.results)]
    lacking = f"; required and not measured: {', '.join(missing)}" if missing else ""
    if len(views) == 1:
        return printable(f"{views[0].name}: {views[0].sentence}{lacking}")
    counts = {verdict: sum(view.verdict is verdict for view in views) for verdict in PRECEDENCE}
    parts = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    return printable(f"{plural(len(views), 'target')}: {parts}{lacking}")


def run_partial(run: Run) -> tuple[str, ...]:
    """Why the run stopped early; nothing when it ran to its end."""
    return (printable(f"PARTIAL: {run.partial}"),) if run.partial else ()


def partial_lines(view: TargetView) -> tuple[str, ...]:
    """Which probes of a target stopped early, and why."""
    return tuple(
        printable(f"PARTIAL: {result.probe} stopped early: {result.observation.partial}")
        for result in view.results
        if result.observation.partial
    )


def not_seen(view: TargetView) -> tuple[tuple[str, str], ...]:
    """What could not be had and why: (name, reason) of facts of the target, measurements and cells of tables."""
    lines: list[tuple[str, str]] = []
    if view.info:
        facts = {
            "target.memory_total": view.info.memory_total,
            "target.cache_size": view.info.cache_size,
            "target.peak_bandwidth": view.info.peak_bandwidth,
        }
        lines += [(name, reading.reason) for name, reading in facts.items() if isinstance(reading, Absent)]
    for result in view.results:
        lines += _not_seen_by(result, view.kind)
    if not view.results:
        lines.append(("every reading", "no probe was run"))
    return tuple(dict.fromkeys((printable(name), printable(reason)) for name, reason in lines))


def _not_seen_by(result: Result, kind: str) -> list[tuple[str, str]]:
    measurements = result.observation.measurements
    lines = [
        (measurement_name(measurement), measurement.reading.reason)
        for measurement in measurements
        if isinstance(measurement.reading, Absent)
    ]
    for table in result.observation.tables:
        lines += absent_cells(table)
    names = {measurement.name for measurement in measurements}
    asked = dict.fromkeys(
        limit.measurement
        for limit in result.limits
        if limit.measurement not in names and (not limit.kinds or kind in limit.kinds)
    )
    if measurements and result.verdict is not Verdict.ERROR:
        return lines + [(name, f"a limit asks for it, and {result.probe} did not measure it") for name in asked]
    reason = result.reason or result.observation.partial
    if not measurements and not asked:
        return [*lines, (f"every reading of {result.probe}", reason or "it measured nothing")]
    return lines + [(name, reason or f"{result.probe} measured nothing") for name in asked]


def find_table(result: Result, name: str) -> Table | None:
    return next((table for table in result.observation.tables if table.name == name), None)
