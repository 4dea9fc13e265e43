"""What every report says about a run: verdicts, stamps, the sentence per target, and what was not seen.

The words are made once here; the reports differ in layout alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mats.model import (
    PRECEDENCE,
    Diagnosis,
    Result,
    Run,
    Severity,
    TargetInfo,
    Verdict,
    worst,
)

from ._format import against_text, plural, printable
from ._parts import GRAVEST_FIRST, FindingGroup, Standing, account_text, grouped, part_label, required_unseen

SIMULATED = "SIMULATED: invented hardware and faults, no evidence about real ones."
HOST = "This is host memory (DRAM), not a GPU."

NOTHING_MISSING = "no reading that was asked for is missing"

_NAMED = 2
"""Findings that the sentence of a target of many parts names."""


@dataclass(frozen=True)
class TargetView:
    """One target's part of a report. ``info`` is None where the target could not be opened.

    ``stopped``: why the run stopped early, or empty.
    """

    name: str
    info: TargetInfo | None
    results: tuple[Result, ...]
    stopped: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        return worst(result.verdict for result in self.results)

    @cached_property
    def sentence(self) -> str:
        """Why the verdict is what it is."""
        return printable(_sentence(self))

    @property
    def stamp(self) -> str:
        """What the figures are not evidence of; empty for a GPU."""
        if self.simulated:
            return SIMULATED
        return HOST if self.kind == "host" else ""

    @property
    def kind(self) -> str:
        """The kind of target that was measured; of a replay, that which was recorded."""
        return kind_of(self.info) if self.info else self.name.partition(":")[0]

    @property
    def simulated(self) -> bool:
        return is_simulated(self.info, self.name)

    @cached_property
    def groups(self) -> tuple[FindingGroup, ...]:
        """The findings, the gravest first; the same one on several parts of the target is one."""
        made = [
            group
            for result in self.results
            for group in grouped(result.findings, part_label(result.observation), result.observation.diagnoses)
        ]
        return tuple(sorted(made, key=lambda group: GRAVEST_FIRST.index(group.first.severity)))

    @cached_property
    def advice(self) -> str:
        """What to do first, for a target of many parts, whose findings stand below a table of them."""
        told = [
            (group.where, group.first.advice)
            for group in self.groups
            if group.label and group.first.severity.value == self.verdict.value
        ]
        if self.verdict is Verdict.UNKNOWN:  # the advice of other limits is for what was seen
            unseen = (
                item for result in self.results for item in required_unseen(result, self.kind, (Standing.NOT_SEEN,))
            )
            told += [(where, limit.advice) for where, limit, _ in unseen if limit.severity is Severity.UNKNOWN]
        return printable(": ".join(filter(None, told[0]))) if told else ""

    def doubts(self, result: Result) -> str:
        """Why a result is unknown or failed."""
        return _doubts(result, self) or result.reason

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """Those that no finding carries already."""
        findings = (finding for result in self.results for finding in result.findings)
        told = {fault for finding in findings for fault in finding.fault.split(", ")}
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
    return tuple(
        TargetView(name, infos.get(name), tuple(result for result in run.results if result.target == name), run.partial)
        for name in names
    )


def _sentence(view: TargetView) -> str:
    if not view.results:
        return f"nothing was measured: {view.stopped or 'no probe was run'}"
    if view.verdict in (Verdict.UNKNOWN, Verdict.ERROR):
        named = [result for result in view.results if result.verdict is view.verdict]
        words = "could not tell" if view.verdict is Verdict.UNKNOWN else "failed to work"
        reason = view.doubts(named[0]).rstrip(".") or "no reason was recorded"
        warned = [group for group in view.groups if group.label and group.first.severity is Severity.WARN]
        beside = f"; {_places(warned)}" if warned else ""
        return f"{named[0].probe} {words}: {reason}{_and_more(len(named) - 1, 'probe')}{beside}"
    groups, probes = view.groups, plural(len(view.results), "probe")
    if view.verdict is Verdict.PASS:
        accounts = [account_text(result, view.kind) for result in view.results if part_label(result.observation)]
        names = ", ".join(result.probe for result in view.results)
        noted = f", {plural(len(groups), 'note')}" if groups and not accounts else ""
        return "; ".join((f"nothing out of order in {probes} ({names}){noted}", *accounts))
    if not groups:
        return f"{probes} ended so without a finding"
    if groups[0].label:
        return _places(groups)
    finding = groups[0].first
    named_fault = f", diagnosed as {finding.fault}" if finding.fault else ""
    return f"{groups[0].title}: {against_text(finding)}{named_fault}{_and_more_findings(groups[1:])}"


def unknown_reasons(run: Run) -> dict[tuple[str, str], str]:
    """By probe and target, why a result is unknown, as the report says it."""
    return {
        (result.probe, view.name): printable(view.doubts(result))
        for view in target_views(run)
        for result in view.results
        if result.verdict is Verdict.UNKNOWN
    }


def _doubts(result: Result, view: TargetView) -> str:
    """Why a result of many parts is unknown: what was found that hides the rest, or what had to be seen and was not."""
    if result.verdict is not Verdict.UNKNOWN or result.observation.partial or not part_label(result.observation):
        return ""
    groups = [group for group in view.groups if group.first.severity is Severity.UNKNOWN]
    if groups:
        return _places(groups)
    unseen: dict[tuple[str, str], list[str]] = {}
    for where, limit, why in required_unseen(result, view.kind):
        said = limit.title if limit.severity is Severity.UNKNOWN else f"not known whether {limit.title}"
        unseen.setdefault((where, why), []).append(said)
    return "; ".join(
        ": ".join(filter(None, (where, f"{', '.join(titles)} ({why})"))) for (where, why), titles in unseen.items()
    )


def _places(groups: Sequence[FindingGroup]) -> str:
    """The gravest findings by the parts they were made on."""
    gravest = [group for group in groups if group.first.severity is groups[0].first.severity][:_NAMED]
    titles: dict[str, list[str]] = {}
    for group in gravest:
        titles.setdefault(group.where, []).append(group.title)
    named = "; ".join(": ".join(filter(None, (where, _listed(told)))) for where, told in titles.items())
    return named + _and_more_findings(groups[len(gravest) :])


def _listed(titles: Sequence[str]) -> str:
    """Titles with commas of their own are told apart by semicolons."""
    return ("; " if any("," in title for title in titles) else ", ").join(titles)


def _and_more_findings(groups: Sequence[FindingGroup]) -> str:
    """`` (and 2 more findings, 1 note)``."""
    notes = sum(group.first.severity is Severity.NOTE for group in groups)
    findings = len(groups) - notes
    told = [plural(findings, "more finding")] if findings else []
    return f" (and {', '.join(told + ([plural(notes, 'note')] if notes else []))})" if groups else ""


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
