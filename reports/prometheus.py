"""The report for monitoring: Prometheus text exposition, version 0.0.4, for node_exporter's textfile collector.

Every reading is a gauge named after its measurement, in base units that its name ends with. An absent reading has no
sample, which would be a number: ``mats_unseen`` counts them, and ``mats_absent`` tells the reason of each but for a
target of many parts (GPUs), where that would be hundreds of series. A verdict is a set of five states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mats.model import AbsenceKind, Absent, Measurement, Result, Run, Unit, Verdict
from mats.report import Report

from ._format import printable
from ._part_tables import cell_part, column_of_parts
from ._parts import part_label, part_of, verdicts_by_part
from ._view import TargetView, run_verdict, target_views

_SUFFIX = {
    Unit.BYTE: "bytes",
    Unit.SECOND: "seconds",
    Unit.BYTE_PER_SECOND: "bytes_per_second",
    Unit.HERTZ: "hertz",
    Unit.CELSIUS: "celsius",
    Unit.WATT: "watts",
    Unit.RATIO: "ratio",
    Unit.COUNT: "",
}
_RESERVED = ("bucket", "count", "sum", "total")
"""Endings that say of a metric that it is no gauge."""

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_]+")

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Families:
    """Metric families in order of their first sample; of two samples of one series the later one stands."""

    help: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[Labels, int | float]] = field(default_factory=dict)

    def add(self, name: str, help: str, labels: Labels, value: int | float) -> None:
        self.help.setdefault(name, help)
        self.samples.setdefault(name, {})[labels] = value

    def lines(self) -> Iterator[str]:
        for name, series in self.samples.items():
            yield f"# HELP {name} {_escaped_help(self.help[name])}"
            yield f"# TYPE {name} gauge"
            for labels, value in series.items():
                pairs = ",".join(f'{key}="{_escaped_value(text)}"' for key, text in labels)
                yield f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}"


def render(run: Run) -> str:
    """The exposition text, ending in a newline."""
    families = _Families()
    _add_run(families, run)
    for view in target_views(run):
        for result in view.results:
            _add_result(families, view, result)
    return "\n".join(families.lines()) + "\n"


def _add_run(families: _Families, run: Run) -> None:
    """The run as a whole; it counts as simulated when any of its targets is."""
    labels: Labels = (("simulated", _flag(any(view.simulated for view in target_views(run)))),)
    about = (("tool", run.tool), ("host", run.host.name))
    families.add("mats_run_info", "The tool and the machine of this run; always 1.", (*labels, *about), 1)
    _add_states(families, "mats_run_verdict", "Verdict of the whole run.", labels, run_verdict(run))
    families.add("mats_run_partial", "1 when the run stopped early.", labels, int(bool(run.partial)))
    families.add("mats_run_duration_seconds", "How long the run took.", labels, run.duration.value)
    started = _timestamp(run.started)
    if started is not None:
        families.add("mats_run_started_timestamp_seconds", "When the run began, in Unix time.", labels, started)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _add_states(families: _Families, name: str, help: str, labels: Labels, verdict: Verdict) -> None:
    for state in Verdict:
        families.add(
            name, f"{help} 1 for the state it is in.", (*labels, ("verdict", state.value)), int(state is verdict)
        )


def _add_result(families: _Families, view: TargetView, result: Result) -> None:
    named = (
        ("target", view.name),
        ("kind", view.kind),
        ("uuid", view.info.uuid if view.info else ""),
        ("simulated", _flag(view.simulated)),
        ("probe", result.probe),
    )
    labels: Labels = tuple((name, value) for name, value in named if value)
    _add_states(families, "mats_verdict", "Verdict of a probe on a target.", labels, result.verdict)
    families.add("mats_probe_duration_seconds", "How long a probe took.", labels, result.duration.value)
    partial = int(bool(result.observation.partial))
    families.add("mats_probe_partial", "1 when a probe stopped early.", labels, partial)
    for finding in result.findings:
        own = _own_labels(finding.measurement.labels, ["code", "severity", "fault", *(name for name, _ in labels)])
        broken: Labels = (
            ("code", finding.code),
            ("severity", finding.severity.value),
            ("fault", finding.fault or "none"),
        )
        families.add("mats_finding", "A limit that was broken; always 1.", (*labels, *own, *broken), 1)
    if result.verdict in (Verdict.UNKNOWN, Verdict.ERROR):
        about = (("verdict", result.verdict.value), ("reason", result.reason))
        families.add("mats_undecided", "Why a probe came to no verdict; always 1.", (*labels, *about), 1)
    _add_parts(families, labels, result, view.kind)
    label, uuids = part_label(result.observation), _uuids(result)
    for measurement in result.observation.measurements:
        of_part = _named(labels, uuids.get(part_of(measurement, label), ""))
        _add_measurement(families, of_part, measurement, reasons=not label)


def _uuids(result: Result) -> dict[str, str]:
    """The UUID of each part, where a table of the result tells it."""
    label = part_label(result.observation)
    found: dict[str, str] = {}
    for table in result.observation.tables:
        at = column_of_parts(table, label)
        uuid = next((index for index, column in enumerate(table.columns) if column.name == "uuid"), None)
        for row in table.rows if at is not None and uuid is not None else ():
            cell = row[uuid or 0]
            if isinstance(cell, str) and cell:
                found.setdefault(cell_part(row[at or 0]), cell)
    return found


def _named(labels: Labels, uuid: str) -> Labels:
    """The labels with the part's own UUID."""
    return (*(pair for pair in labels if pair[0] != "uuid"), ("uuid", uuid)) if uuid else labels


def _add_parts(families: _Families, labels: Labels, result: Result, kind: str) -> None:
    """Of each part its verdict, and how many of its readings are absent."""
    label, uuids = part_label(result.observation), _uuids(result)
    absent = Counter(
        (part_of(measurement, label), measurement.reading.kind is not AbsenceKind.NOT_SUPPORTED)
        for measurement in result.observation.measurements
        if isinstance(measurement.reading, Absent)
    )
    verdicts = verdicts_by_part(result, kind)
    whole = dict.fromkeys(part_of(measurement, label) for measurement in result.observation.measurements)
    for part in whole:
        named = _named(labels, uuids.get(part, ""))
        about: Labels = (*named, *_own_labels(((label, part),) if part else (), [name for name, _ in named]))
        for supported in (True, False):
            help = "How many readings could not be had; supported: whether the hardware has what was asked for."
            families.add("mats_unseen", help, (*about, ("supported", _flag(supported))), absent[part, supported])
        if part in verdicts:
            help = "Verdict on a part of a target, such as a GPU."
            _add_states(families, "mats_part_verdict", help, about, verdicts[part])


def _add_measurement(families: _Families, labels: Labels, measurement: Measurement, reasons: bool) -> None:
    own = _own_labels(measurement.labels, [name for name, _ in labels])
    reading = measurement.reading
    if isinstance(reading, Absent) and not reasons:
        return
    if isinstance(reading, Absent):
        about = (("measurement", measurement.name), ("absence", reading.kind.value), ("reason", reading.reason))
        families.add("mats_absent", "A reading that could not be had, and why; always 1.", (*labels, *own, *about), 1)
        return
    unit = "" if reading.unit is Unit.COUNT else f" in {_SUFFIX[reading.unit].replace('_', ' ')}"
    help = f"Reading {measurement.name}{unit}."  # the same in every file, as the collector merges them
    families.add(metric_name(measurement.name, reading.unit), help, (*labels, *own), reading.value)


def metric_name(measurement: str, unit: Unit) -> str:
    """``memory.bytes_tested`` as ``mats_memory_tested_bytes``: the base unit is named once, at the end."""
    words = [word for word in _NOT_NAME.sub("_", measurement).split("_") if word]
    suffix = _SUFFIX[unit]
    if suffix in words:
        words.remove(suffix)
    if not suffix and words and words[-1] in _RESERVED:
        words.append("value")
    return "_".join(("mats", *words, suffix) if suffix else ("mats", *words))


def _own_labels(labels: Labels, taken: Sequence[str]) -> Labels:
    """A measurement's labels under valid names that are not taken."""
    used = {*taken, "measurement", "absence", "reason", "verdict"}
    named: list[tuple[str, str]] = []
    for key, value in labels:
        name = _NOT_NAME.sub("_", key).strip("_") or "label"
        if name[0].isdigit() or name in used:
            name = f"label_{name}"
        while name in used:
            name += "_"
        used.add(name)
        named.append((name, value))
    return tuple(named)


def _timestamp(started: str) -> float | None:
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _escaped_help(text: str) -> str:
    return printable(text).replace("\\", "\\\\")


def _escaped_value(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


REPORT = Report("prometheus", "prom", render)
