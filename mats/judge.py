"""From measurements and limits to a verdict: a pure function, so that a saved run can be judged again.

Unknown is not healthy: a required reading that is absent, a probe that ended early, or nothing measured at all
gives ``unknown`` with its reason. Precedence: fail, error, unknown, warn, pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mats.limits import Override, apply_overrides
from mats.model import (
    Absent,
    Diagnosis,
    Finding,
    Limit,
    Measurement,
    Observation,
    Quantity,
    Relation,
    Result,
    Run,
    Severity,
    TargetInfo,
    Verdict,
)


class Judgement(NamedTuple):
    """What an observation means. ``reason``: why it is unknown, otherwise empty."""

    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]


def judge(observation: Observation, limits: Sequence[Limit], target_kind: str, target: str = "") -> Judgement:
    """The verdict on an observation of a target of ``target_kind`` (of a replay: the kind that was recorded).

    A limit is held against every measurement of its name. Raises UnitError where units differ.
    """
    applicable = [limit for limit in limits if not limit.kinds or target_kind in limit.kinds]
    findings: list[Finding] = []
    doubts = [observation.partial] if observation.partial else []
    missing: dict[str, list[Limit]] = {}  # what is missing, by the reason
    used = False
    for limit in applicable:
        named = [measurement for measurement in observation.measurements if measurement.name == limit.measurement]
        present = [measurement for measurement in named if isinstance(measurement.reading, Quantity)]
        used = used or bool(present)
        if limit.required and len(present) < max(len(named), 1):
            missing.setdefault(_why_missing(named), []).append(limit)
        findings += [
            _finding(limit, measurement, observation.diagnoses, target)
            for measurement in present
            if _broken(limit, measurement)
        ]
    findings = _standing(findings)
    doubts += [_not_known(lacking, why) for why, lacking in missing.items() if not _told(why, doubts)]
    doubts += [_too_little(finding) for finding in findings if finding.severity is Severity.UNKNOWN]
    if not used and not doubts:
        doubts += _nothing_judged(observation, limits, applicable, target_kind)
    return _judgement(findings, doubts)


def rejudge(run: Run, overrides: Sequence[Override] = ()) -> Run:
    """The run judged again by its own limits with the overrides; nothing is measured."""
    kinds = {info.name: kind_of(info) for info in run.targets}
    results = tuple(_rejudged(result, overrides, kinds.get(result.target, "")) for result in run.results)
    return dataclasses.replace(run, results=results)


def kind_of(info: TargetInfo) -> str:
    """The kind of target that limits are asked for: of a replay, what was recorded."""
    return info.origin_kind or info.kind


def _rejudged(result: Result, overrides: Sequence[Override], kind: str) -> Result:
    limits = apply_overrides(result.limits, overrides)
    if result.observation == Observation():  # it never ran, or saw nothing: the reason stands
        return dataclasses.replace(result, limits=limits)
    verdict, reason, findings = judge(result.observation, limits, kind, result.target)
    if result.verdict is Verdict.ERROR and verdict is not Verdict.FAIL:
        verdict, reason = Verdict.ERROR, result.reason
    return dataclasses.replace(result, verdict=verdict, reason=reason, findings=findings, limits=limits)


def _broken(limit: Limit, measurement: Measurement) -> bool:
    reading = measurement.reading
    assert isinstance(reading, Quantity)
    return reading > limit.bound if limit.relation is Relation.AT_MOST else reading < limit.bound


def _finding(limit: Limit, measurement: Measurement, diagnoses: Iterable[Diagnosis], target: str) -> Finding:
    explaining = [diagnosis for diagnosis in diagnoses if diagnosis.explains_measurement(measurement)]
    evidence = tuple(line for diagnosis in explaining for line in (diagnosis.title, *diagnosis.evidence))
    advice = " ".join(dict.fromkeys(diagnosis.advice for diagnosis in explaining if diagnosis.advice))
    return Finding(
        code=limit.code,
        severity=limit.severity,
        title=limit.title,
        target=target,
        measurement=measurement,
        limit=limit,
        fault=", ".join(dict.fromkeys(diagnosis.fault for diagnosis in explaining)),
        evidence=evidence,
        advice=advice or limit.advice,
    )


def _standing(findings: Sequence[Finding]) -> list[Finding]:
    """Without those of measurements that a broken limit says are not to be believed."""
    voided = {name for finding in findings if finding.severity is Severity.UNKNOWN for name in finding.limit.voids}
    return [finding for finding in findings if finding.measurement.name not in voided]


def _why_missing(named: Sequence[Measurement]) -> str:
    reasons = dict.fromkeys(
        measurement.reading.reason for measurement in named if isinstance(measurement.reading, Absent)
    )
    return "; ".join(reasons) or "not measured"


def _told(why: str, doubts: Iterable[str]) -> bool:
    return any(why.startswith(doubt) for doubt in doubts)


def _not_known(limits: Sequence[Limit], why: str) -> str:
    """What cannot be told for a reason, in the words of the limits; of many the first two."""
    named = {limit.measurement: limit for limit in reversed(limits)}  # the first of each reading
    asked = [named[name] for name in dict.fromkeys(limit.measurement for limit in limits)]
    told = [limit.title for limit in asked if limit.severity is Severity.UNKNOWN]
    whether = [limit.title for limit in asked if limit.severity is not Severity.UNKNOWN]
    if whether:
        rest = f" and {len(whether) - 2} more" if len(whether) > 2 else ""
        told.append(f"not known whether {', '.join(whether[:2])}{rest}")
    return f"{', '.join(told)} ({why})"


def _too_little(finding: Finding) -> str:
    reading, bound = finding.measurement.reading, finding.limit.bound
    assert isinstance(reading, Quantity)
    side = "above" if finding.limit.relation is Relation.AT_MOST else "below"
    return f"{finding.title}: {finding.measurement.name} is {reading.value:.6g}, {side} {bound.value:.6g}"


def _nothing_judged(
    observation: Observation, limits: Sequence[Limit], applicable: Sequence[Limit], kind: str
) -> list[str]:
    """Why no limit met a reading, or nothing for a probe that has no limits but did measure."""
    absent = dict.fromkeys(
        measurement.reading.reason
        for measurement in observation.measurements
        if isinstance(measurement.reading, Absent)
    )
    why = "; ".join(absent)
    if not observation.figures:
        return [f"nothing was measured: {why}" if why else "nothing was measured"]
    if limits and not applicable:
        return [f"no limit of this probe applies to a target of kind {kind or '(not known)'}"]
    if applicable:
        return [f"none of the limits met a reading: {why}" if why else "none of the limits met a reading"]
    return []


def _judgement(findings: Sequence[Finding], doubts: Sequence[str]) -> Judgement:
    severities = {finding.severity for finding in findings}
    if Severity.FAIL in severities:
        return Judgement(Verdict.FAIL, "", tuple(findings))
    if doubts:
        return Judgement(Verdict.UNKNOWN, "; ".join(dict.fromkeys(doubts)), tuple(findings))
    return Judgement(Verdict.WARN if Severity.WARN in severities else Verdict.PASS, "", tuple(findings))
