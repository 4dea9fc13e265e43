"""A result whose readings belong to many parts of one target, such as the GPUs of a machine: folded over the parts.

The rule is general: where readings of a result carry a label that names a part (``gpu``), its values are the parts.
Then a finding is told once with the parts it was made on, a check is a limit held against every part, and what was
not seen is told once for each reason.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mats.model import (
    AbsenceKind,
    Absent,
    Diagnosis,
    Finding,
    Limit,
    Measurement,
    Observation,
    Result,
    Severity,
    Verdict,
)

from ._format import (
    absent_text,
    against_text,
    measurement_name,
    plural,
    quantity_text,
    reading_text,
    relation_text,
    spelled,
)

PART_LABELS = ("gpu",)
"""Labels of readings that name a part of the target, and do not only tell apart readings of one thing."""
END_LABELS = ("from", "to")
"""Labels of readings of what lies between two parts: it belongs to neither, and what is wrong with it is to both."""

_SUBJECT = re.compile(r"([^:;(]{1,60}): (.+)", re.DOTALL)

GRAVEST_FIRST = (Severity.FAIL, Severity.UNKNOWN, Severity.WARN, Severity.NOTE)


class Standing(enum.StrEnum):
    """How a check came out on a part; the gravest first."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    NOT_SEEN = "not seen"
    NOTE = "note"
    NOT_SUPPORTED = "not supported"
    IN_ORDER = "in order"


_STANDINGS = tuple(Standing)
_BROKEN = (Standing.FAIL, Standing.UNKNOWN, Standing.WARN)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One limit on one part (empty: the whole target). ``why``: of what was not seen, the reasons."""

    part: str
    standing: Standing
    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One limit, held against every part that it concerns."""

    limit: Limit
    outcomes: tuple[Outcome, ...]

    @property
    def standing(self) -> Standing:
        return gravest(outcome.standing for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """The same finding on one or several parts: ``first`` speaks for all but for readings and evidence."""

    label: str
    findings: tuple[Finding, ...]
    diagnoses: tuple[Diagnosis, ...] = ()
    """Those of the observation, of which some may explain the findings."""

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def title(self) -> str:
        """What was diagnosed, where it is the same on all parts; otherwise what the limit calls it."""
        told = {self._diagnosed(finding) for finding in self.findings}
        return told.pop() if len(told) == 1 else self.first.title

    def _diagnosed(self, finding: Finding) -> str:
        titles = (item.title for item in self.diagnoses if item.explains_measurement(finding.measurement))
        title = next(titles, "") or finding.title
        return _without_part(title, self.label, part_of(finding.measurement, self.label))

    @property
    def parts(self) -> tuple[str, ...]:
        return sorted_parts(part_of(finding.measurement, self.label) for finding in self.findings)

    @property
    def where(self) -> str:
        """``GPU 0-2, 5``; empty for what concerns the target as a whole."""
        return part_text(self.label, self.parts)

    @property
    def fault(self) -> str:
        """The diagnosed faults; one that only repeats the name of its reading tells nothing."""
        own = self.first.measurement.name.replace(".", "_")
        faults = dict.fromkeys(finding.fault for finding in self.findings if finding.fault)
        return ", ".join(fault for fault in faults if not self.label or not own.endswith(fault))


def gravest(standings: Iterable[Standing]) -> Standing:
    return min(standings, key=_STANDINGS.index, default=Standing.NOT_SEEN)


def part_label(observation: Observation) -> str:
    """The label whose values are the parts of the target; empty where no reading carries one."""
    labels = {key for measurement in observation.measurements for key, _ in measurement.labels}
    return next((label for label in PART_LABELS if label in labels), "")


def part_of(measurement: Measurement, label: str) -> str:
    """The part a measurement belongs to; empty for the whole target."""
    for key, value in measurement.labels if label else ():
        if key == label:
            return value
    return ""


def parts_of(observation: Observation) -> tuple[str, ...]:
    """Every part that a reading tells of, in natural order; the whole target is none of them."""
    label = part_label(observation)
    return sorted_parts(part_of(measurement, label) for measurement in observation.measurements)


def sorted_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """Each part once, numbers by their value and before words."""
    return tuple(
        sorted({part for part in parts if part}, key=lambda part: (_number(part) is None, _number(part) or 0, part))
    )


def _number(part: str) -> int | None:
    return int(part) if re.fullmatch(r"[0-9]{1,9}", part) else None


def part_text(label: str, parts: Sequence[str]) -> str:
    """``GPU 0-2, 5``: the label spelled as people write it, and runs of numbers as ranges."""
    spans: list[list[str]] = []
    for part in sorted_parts(parts):
        number, last = _number(part), _number(spans[-1][-1]) if spans else None
        if number is not None and last is not None and number == last + 1:
            spans[-1].append(part)
        else:
            spans.append([part])
    texts = [
        span[0] if len(span) == 1 else f"{span[0]}, {span[1]}" if len(span) == 2 else f"{span[0]}-{span[-1]}"
        for span in spans
    ]
    return f"{spelled(label)} {', '.join(texts)}" if texts else ""


def parts_noun(label: str, count: int) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return plural(count, spelled(label))


def grouped(findings: Iterable[Finding], label: str, diagnoses: tuple[Diagnosis, ...] = ()) -> tuple[FindingGroup, ...]:
    """Findings of one code with one advice as one group, the gravest first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key: tuple[object, ...] = (finding.code, finding.severity, finding.title, finding.advice)
        groups.setdefault(key if label else (id(finding),), []).append(finding)
    made = [FindingGroup(label, tuple(found), diagnoses) for found in groups.values()]
    return tuple(sorted(made, key=lambda group: GRAVEST_FIRST.index(group.first.severity)))


def checks_of(result: Result, kind: str) -> tuple[Check, ...]:
    """Every limit that applies to a target of ``kind``, with its outcome on each part."""
    label, parts = part_label(result.observation), parts_of(result.observation)
    measured: dict[str, list[Measurement]] = {}
    for measurement in result.observation.measurements:
        measured.setdefault(measurement.name, []).append(measurement)
    found: dict[str, list[Finding]] = {}
    for finding in result.findings:
        found.setdefault(finding.code, []).append(finding)
    return tuple(
        Check(limit, _outcomes(result, limit, label, parts, measured.get(limit.measurement, []), found))
        for limit in result.limits
        if not limit.kinds or kind in limit.kinds
    )


def _outcomes(
    result: Result,
    limit: Limit,
    label: str,
    parts: tuple[str, ...],
    named: list[Measurement],
    found: dict[str, list[Finding]],
) -> tuple[Outcome, ...]:
    """One outcome for the whole target, or one for each part where any reading of the limit names a part.

    Readings that are all told apart by a further label count what there is (incidents, results of another tool): a part
    of which there is none has no outcome. Otherwise a part without a reading was not seen.
    """
    by_part: dict[str, list[Measurement]] = {}
    for measurement in named:
        by_part.setdefault(part_of(measurement, label), []).append(measurement)
    broken: dict[str, list[Finding]] = {}
    for finding in found.get(limit.code, []):
        broken.setdefault(part_of(finding.measurement, label), []).append(finding)
    told = {**by_part, **broken}
    counted = bool(named) and all(any(key != label for key, _ in item.labels) for item in named)
    concerned = dict.fromkeys(
        [
            *(("",) if "" in told or not any(told) else ()),
            *(part for part in parts if any(told) and (part in told or not counted)),
        ]
    )
    return tuple(_outcome(result, part, by_part.get(part, []), broken.get(part, [])) for part in concerned)


def _outcome(result: Result, part: str, named: list[Measurement], findings: list[Finding]) -> Outcome:
    absent = [item.reading for item in named if isinstance(item.reading, Absent)]
    why = "; ".join(dict.fromkeys(reading.reason for reading in absent))
    if findings:
        gravest_finding = min(findings, key=lambda finding: GRAVEST_FIRST.index(finding.severity))
        return Outcome(part, Standing(gravest_finding.severity.value), tuple(named), tuple(findings), why)
    if absent:
        unsupported = all(reading.kind is AbsenceKind.NOT_SUPPORTED for reading in absent)
        return Outcome(part, Standing.NOT_SUPPORTED if unsupported else Standing.NOT_SEEN, tuple(named), (), why)
    if not named:
        return Outcome(part, Standing.NOT_SEEN, (), (), result.reason or f"{result.probe} did not measure it")
    return Outcome(part, Standing.IN_ORDER, tuple(named), ())


def verdicts_by_part(result: Result, kind: str) -> dict[str, Verdict]:
    """What the checks come to on each part; unknown where one that must be seen, or every one, was not."""
    made: dict[str, list[Standing]] = {part: [] for part in parts_of(result.observation)}
    for check in checks_of(result, kind):
        for outcome in check.outcomes:
            if outcome.part:
                missing = outcome.standing in (Standing.NOT_SEEN, Standing.NOT_SUPPORTED)
                standing = Standing.UNKNOWN if missing and check.limit.required else outcome.standing
                made[outcome.part].append(standing)
            for finding in () if outcome.part else outcome.findings:
                for part in set(ends_of(finding.measurement)) & set(made):
                    made[part].append(Standing(finding.severity.value))
    ended = result.verdict is not Verdict.ERROR and not result.observation.partial  # or what fails may have come later
    told = {part: _verdict(standings) for part, standings in made.items()}
    return {part: seen if ended or seen is not Verdict.PASS else Verdict.UNKNOWN for part, seen in told.items()}


def ends_of(measurement: Measurement) -> tuple[str, ...]:
    """The parts between which a reading was taken."""
    return tuple(value for key, value in measurement.labels if key in END_LABELS)


def _verdict(standings: Sequence[Standing]) -> Verdict:
    worst, seen = gravest(standings), {Standing.IN_ORDER, Standing.NOTE} & set(standings)
    return Verdict(worst.value) if worst in _BROKEN else Verdict.PASS if seen else Verdict.UNKNOWN


def _standings(checks: Iterable[Check]) -> dict[str, list[Standing]]:
    standings: dict[str, list[Standing]] = {}
    for check in checks:
        for outcome in check.outcomes:
            standings.setdefault(outcome.part, []).append(outcome.standing)
    return standings


def hidden_parts(checks: Iterable[Check]) -> tuple[str, ...]:
    """The parts of which most checks were not seen, such as a GPU that does not answer; none where all are so."""
    standings = {part: seen for part, seen in _standings(checks).items() if part}
    hidden = [part for part, seen in standings.items() if seen.count(Standing.NOT_SEEN) * 2 > len(seen)]
    return sorted_parts(hidden) if len(hidden) < len(standings) else ()


def account_text(result: Result, kind: str) -> str:
    """``47 checks on 8 GPUs: 44 in order, 2 findings, 1 not seen``; a check counts by its gravest outcome.

    A part of which most was not seen is told apart, so that it does not hide what is known of the others.
    """
    checks, label = checks_of(result, kind), part_label(result.observation)
    standings, hidden = _standings(checks), hidden_parts(checks)
    seen_parts = [part for part in parts_of(result.observation) if part not in hidden]
    counted = [
        gravest(outcome.standing for outcome in check.outcomes if outcome.part not in hidden)
        for check in checks
        if any(outcome.part not in hidden for outcome in check.outcomes)
    ]
    of = f"{len(seen_parts):,} of " if hidden else ""
    parts = parts_noun(label, len(seen_parts) + len(hidden))
    told = [f"{plural(len(checks), 'check')} on {of}{parts}: {_counts_text(counted)}"]
    told += [f"{part_text(label, [part])}, hardly seen: {_counts_text(standings[part])}" for part in hidden]
    return "; ".join(told)


def _counts_text(standings: Sequence[Standing]) -> str:
    counts = Counter(standings)
    findings = sum(counts[standing] for standing in _BROKEN)
    told = [f"{counts[Standing.IN_ORDER]} in order"] if counts[Standing.IN_ORDER] else []
    told += [plural(findings, "finding")] if findings else []
    told += [plural(counts[Standing.NOTE], "note")] if counts[Standing.NOTE] else []
    told += [f"{counts[Standing.NOT_SEEN]} not seen"] if counts[Standing.NOT_SEEN] else []
    told += [f"{counts[Standing.NOT_SUPPORTED]} not supported here"] if counts[Standing.NOT_SUPPORTED] else []
    return ", ".join(told)


def required_unseen(
    result: Result, kind: str, standings: Sequence[Standing] = (Standing.NOT_SEEN, Standing.NOT_SUPPORTED)
) -> tuple[tuple[str, Limit, str], ...]:
    """Of a result of many parts: where what has to be known was not seen, its limit, and why without its subject."""
    label = part_label(result.observation)
    told: list[tuple[str, Limit, str]] = []
    for check in checks_of(result, kind) if label else ():
        reasons: dict[str, list[str]] = {}
        for outcome in check.outcomes:
            if check.limit.required and outcome.standing in standings:
                reasons.setdefault(split_reason(outcome.why)[1], []).append(outcome.part)
        told += [(part_text(label, parts), check.limit, why) for why, parts in reasons.items()]
    return tuple(told)


def split_reason(reason: str) -> tuple[str, str]:
    """Subject and why of a reason that is written ``subject: why``; the subject may be missing."""
    found = _SUBJECT.fullmatch(reason)
    return (found[1], found[2]) if found else ("", reason)


def reading_text_of(group: FindingGroup, limit: int = 8) -> str:
    """The readings against their bound: once where all are the same, otherwise the reading of each part."""
    first = group.first
    places: dict[tuple[str, str], list[str]] = {}
    for finding in group.findings:
        beside = measurement_name(finding.measurement, group.label).removeprefix(finding.measurement.name).strip()
        text = reading_text(finding.measurement.reading)
        places.setdefault((text, beside), []).append(part_of(finding.measurement, group.label))
    if len(places) == 1:
        return against_text(first, group.label)
    told = []
    for (text, beside), parts in places.items():
        verb = "reads" if len(set(parts)) == 1 else "read"
        told.append(f"{part_text(group.label, parts)}{f' {beside}' if beside else ''} {verb} {text}")
    rest = f" and {plural(len(told) - limit, 'more reading')}" if len(told) > limit else ""
    return f"{first.measurement.name}, in order is {relation_text(first.limit)}: {', '.join(told[:limit])}{rest}"


def folded_readings(observation: Observation) -> dict[str, dict[str, list[str]]]:
    """Every reading by its name, then by its text (`` 31 °C`` or ``, not seen: why``): the parts that read it."""
    label = part_label(observation)
    made: dict[str, dict[str, list[str]]] = {}
    for measurement in observation.measurements:
        reading = measurement.reading
        statistic = f" ({measurement.statistic})" if measurement.statistic else ""
        text = f", {absent_text(reading)}" if isinstance(reading, Absent) else f" {quantity_text(reading)}{statistic}"
        places = made.setdefault(measurement_name(measurement, label), {})
        places.setdefault(text, []).append(part_of(measurement, label))
    return made


def evidence_lines(group: FindingGroup) -> tuple[str, ...]:
    """The evidence: once where it is the same on all parts, otherwise each line with its part."""
    places: dict[str, list[str]] = {}
    for finding in group.findings:
        part = part_of(finding.measurement, group.label)
        for text in finding.evidence:
            places.setdefault(_without_part(text, group.label, part), []).append(part)
    return tuple(
        text if sorted_parts(parts) == group.parts else f"{part_text(group.label, parts)}: {text}"
        for text, parts in places.items()
    )


def _without_part(text: str, label: str, part: str) -> str:
    """A line of evidence without the name of its own part, which stands before it: ``GPU 3 (0000:4e:00.0): hot``."""
    if not part:
        return text
    named = rf"^{re.escape(spelled(label))} {re.escape(part)}(?: \([^()]*\))?: "
    return re.sub(named, "", text, count=1)
