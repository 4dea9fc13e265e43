"""What could not be had, and why: each reading on a line of its own, or folded by the reason over a target's parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mats.model import AbsenceKind, Absent, Result, TargetInfo, Verdict

from ._format import measurement_name, printable
from ._grid import absent_cells
from ._part_tables import cell_part, column_of_parts
from ._parts import part_label, part_of, part_text, split_reason
from ._view import TargetView

_TOPICS = 8
"""What is told of one reason where room is scarce."""

_LINES = 16
"""Readings of a single device that are each given a line; more of them are folded by their reasons."""

_WHETHER = "not looked at, so that it is not known whether"
"""Stands before the titles of limits that met no reading."""

_LABELS = re.compile(r"(?<=[a-z]) \((?!every cell).*\)$")
"""Of a reading's name."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What was not seen for one reason. ``where``: the parts it concerns, or empty for the target as a whole.

    ``names``: of the readings; ``topics``: the same in the words of their reasons. ``supported``: False where the
    hardware does not have what was asked for.
    """

    where: str
    reason: str
    names: tuple[str, ...]
    topics: tuple[str, ...] = ()
    folded: bool = False
    supported: bool = True

    def text(self) -> str:
        """One paragraph, with a few topics where it is folded."""
        if not self.folded:
            return f"{self.names[0]}, not seen: {self.reason}"
        if len(self.topics) == 1:
            return f"{self.topics[0]}: {self.reason}"
        shown = self.topics if len(self.topics) <= _TOPICS + 1 else self.topics[:_TOPICS]
        rest = f" and {len(self.topics) - len(shown):,} more" if len(shown) < len(self.topics) else ""
        return f"{self.reason.rstrip('.')}: {'; '.join(shown)}{rest}"


@dataclass(frozen=True, slots=True)
class _Missing:
    part: str
    name: str
    reason: str
    supported: bool = True
    topic: str = ""
    """In words, where neither the reading's name nor its reason has any."""


def gaps(view: TargetView) -> tuple[Gap, ...]:
    """Everything of a target that was not seen: its facts, its readings and cells of its tables."""
    made: list[Gap] = []
    of_results = [_of_result(result, view.kind) for result in view.results]
    if view.info and not (of_results and all(gap.folded for told in of_results for gap in told)):
        made += [
            Gap("", reason, (name,)) for name, reason in _facts(view.info)
        ]  # where many are read, none of these is
    for told in of_results:
        made += told
    if not view.results:
        made.append(Gap("", "no probe was run", ("every reading",)))
    return tuple(dict.fromkeys(made))


def _of_result(result: Result, kind: str) -> list[Gap]:
    """Folded where the target has parts, or where more is missing than one can read line by line."""
    label, single = part_label(result.observation), list(_single(result, kind))
    return _folded(label, _of_parts(result, label, kind)) if label or len(single) > _LINES else single


def _facts(info: TargetInfo) -> list[tuple[str, str]]:
    facts = {
        "target.memory_total": info.memory_total,
        "target.cache_size": info.cache_size,
        "target.peak_bandwidth": info.peak_bandwidth,
    }
    return [(name, printable(reading.reason)) for name, reading in facts.items() if isinstance(reading, Absent)]


def _single(result: Result, kind: str) -> Iterator[Gap]:
    """A line for each reading, then for each column of a table, then for each limit that met nothing."""
    for measurement in result.observation.measurements:
        if isinstance(measurement.reading, Absent):
            yield Gap("", printable(measurement.reading.reason), (printable(measurement_name(measurement)),))
    for table in result.observation.tables:
        for name, reason in absent_cells(table):
            yield Gap("", printable(reason), (printable(name),))
    for name, reason in _unasked(result, kind):
        yield Gap("", printable(reason), (printable(name),))


def _of_parts(result: Result, label: str, kind: str) -> Iterator[_Missing]:
    told = set()
    for measurement in result.observation.measurements:
        reading, part = measurement.reading, part_of(measurement, label)
        if isinstance(reading, Absent):
            told.add((part, reading.reason))
            name = measurement_name(measurement, label)
            yield _Missing(part, name, reading.reason, reading.kind is not AbsenceKind.NOT_SUPPORTED)
    for table in result.observation.tables:
        at = column_of_parts(table, label)
        if at is None:
            yield from (_Missing("", name, reason) for name, reason in absent_cells(table))
            continue
        for row in table.rows:
            part = cell_part(row[at])
            for column, cell in zip(table.columns, row, strict=True):
                if isinstance(cell, Absent) and (part, cell.reason) not in told:
                    supported = cell.kind is not AbsenceKind.NOT_SUPPORTED
                    yield _Missing(part, f"{table.name}.{column.name}", cell.reason, supported)
    for name, reason in _unasked(result, kind):
        yield _Missing("", name, reason, topic=_title(result, name) if reason == _unmeasured(result) else "")


def _folded(label: str, missing: Iterator[_Missing]) -> list[Gap]:
    """By reason and parts; what the hardware does not have comes last."""
    parts: dict[_Missing, dict[str, None]] = {}
    for item in missing:
        parts.setdefault(replace(item, part=""), {}).setdefault(item.part)
    alike: dict[tuple[str, tuple[str, ...], bool], list[_Missing]] = {}
    for item, concerned in parts.items():
        alike.setdefault((_split(item)[1], tuple(concerned), item.supported), []).append(item)
    made = [
        Gap(
            where=printable(part_text(label, concerned)),
            reason=printable(why),
            names=tuple(printable(item.name) for item in items),
            topics=_topics(printable(_split(item)[0]) for item in items),
            folded=True,
            supported=supported,
        )
        for (why, concerned, supported), items in alike.items()
    ]
    return sorted(made, key=lambda gap: not gap.supported)


def _topics(told: Iterable[str]) -> tuple[str, ...]:
    """Each once; of many that differ in their labels alone, such as the pairs of GPUs, without these."""
    topics = dict.fromkeys(told)
    if len(topics) > _TOPICS:
        topics = dict.fromkeys(_LABELS.sub("", topic) for topic in topics)
    return tuple(topics)


def _split(item: _Missing) -> tuple[str, str]:
    """Subject and why of a reason; without a subject the reading's name stands for it."""
    if item.topic:
        return item.topic, _WHETHER
    subject, why = split_reason(item.reason)
    return subject or item.name, why


def _unasked(result: Result, kind: str) -> list[tuple[str, str]]:
    """Readings that a limit asks for and that are not there at all."""
    measurements = result.observation.measurements
    names = {measurement.name for measurement in measurements}
    asked = dict.fromkeys(
        limit.measurement
        for limit in result.limits
        if limit.measurement not in names and (not limit.kinds or kind in limit.kinds)
    )
    if measurements and result.verdict is not Verdict.ERROR:
        return [(name, _unmeasured(result)) for name in asked]
    reason = result.reason or result.observation.partial
    if not measurements and not asked:
        return [(f"every reading of {result.probe}", reason or "it measured nothing")]
    return [(name, reason or f"{result.probe} measured nothing") for name in asked]


def _unmeasured(result: Result) -> str:
    return f"a limit asks for it, and {result.probe} did not measure it"


def _title(result: Result, name: str) -> str:
    """What the first limit on a reading calls the fault that it would show."""
    return next((limit.title for limit in result.limits if limit.measurement == name), name)
