"""The vocabulary of mats: every value that travels from a measurement to a report.

One frozen :class:`Run` holds everything that was seen; every report is a view of it. Of ours this module imports
nothing but the readings these words are made of, so that each room of the project can speak them without knowing
another room.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from mats.readings import AbsenceKind as AbsenceKind
from mats.readings import Absent as Absent
from mats.readings import Cell as Cell
from mats.readings import Quantity as Quantity
from mats.readings import Reading as Reading
from mats.readings import Unit as Unit
from mats.readings import UnitError as UnitError

SCHEMA_VERSION = 1
"""Version of the saved run's layout; raised when a field changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A named reading: how it was taken, of what it is a statistic, and the raw samples behind it.

    ``name`` is dotted (``memory.errors``); ``labels`` tell apart several readings of one name
    (``(("operation", "write"),)``); ``samples`` share the reading's unit.
    """

    name: str
    reading: Reading
    labels: tuple[tuple[str, str], ...] = ()
    statistic: str = ""
    method: str = ""
    samples: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; without a unit its cells are text."""

    name: str
    unit: Unit | None = None


class ChartKind(enum.StrEnum):
    """How a table is best seen."""

    CURVE = "curve"
    HISTOGRAM = "histogram"
    HEAT_MAP = "heat_map"
    MATRIX = "matrix"


_CHART_COLUMNS = {
    ChartKind.CURVE: (("x",), ("series",)),
    ChartKind.HISTOGRAM: ((), ()),
    ChartKind.HEAT_MAP: ((), ("x",)),
    ChartKind.MATRIX: (("row", "column"), ()),
}
"""Of each kind, the fields beside ``value`` that it needs, and those that it may have."""


@dataclass(frozen=True, slots=True)
class Chart:
    """How a table is best seen; every report that draws follows from it. All names are names of the table's columns.

    Made by one of the four constructors, and given to the table beside its rows::

        Table("ladder", title, columns, rows, Chart.curve("working_set", "latency", hover=("level",), log_x=True))
        Table("transfers", title, columns, rows, Chart.curve("bytes", "duration", "way", log_x=True, log_y=True))
        Table("region_map", title, columns, rows, Chart.heat_map("latency", "region", hover=("address", "excess")))
        Table("bandwidth", title, columns, rows, Chart.matrix("from", "to", "bandwidth"))
        Table("topology", title, columns, rows, Chart.matrix("from", "to", "way"))

    What is drawn (``value``, ``x`` of a curve) has a unit; only a matrix may also hold words. A row whose cell is
    absent is left out of a plot and told among what was not seen. ``hover``: columns told beside the value of a point.
    """

    kind: ChartKind
    value: str
    x: str = ""
    series: str = ""
    row: str = ""
    column: str = ""
    hover: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False

    @classmethod
    def curve(
        cls, x: str, y: str, series: str = "", *, hover: tuple[str, ...] = (), log_x: bool = False, log_y: bool = False
    ) -> Chart:
        """``y`` over ``x``; a line for each value of the column ``series``. Values over decades: logarithmic axes."""
        return cls(ChartKind.CURVE, y, x=x, series=series, hover=hover, log_x=log_x, log_y=log_y)

    @classmethod
    def histogram(cls, value: str) -> Chart:
        """How often which value of a column comes; the reports choose the bins."""
        return cls(ChartKind.HISTOGRAM, value)

    @classmethod
    def heat_map(cls, value: str, x: str = "", *, hover: tuple[str, ...] = ()) -> Chart:
        """The rows in their order as coloured cells, wrapped into lines, and the histogram of their values beside them.

        ``x``: the column that names a place; without it the places are numbered.
        """
        return cls(ChartKind.HEAT_MAP, value, x=x, hover=hover)

    @classmethod
    def matrix(cls, row: str, column: str, value: str, *, hover: tuple[str, ...] = ()) -> Chart:
        """One cell for each row of the table: its ``value``, a number or a word, from ``row`` (down) to ``column``.

        The diagonal needs no rows; where a pair comes twice, its last row is shown.
        """
        return cls(ChartKind.MATRIX, value, row=row, column=column, hover=hover)

    def __post_init__(self) -> None:
        needed, optional = _CHART_COLUMNS[self.kind]
        for name in ("value", *needed):
            if not getattr(self, name):
                raise ValueError(f"a chart of kind {self.kind.value} needs a column as {name}")
        for name in ("x", "series", "row", "column"):
            if getattr(self, name) and name not in (*needed, *optional):
                raise ValueError(f"a chart of kind {self.kind.value} has no {name}")
        if (self.log_x or self.log_y) and self.kind is not ChartKind.CURVE:
            raise ValueError(f"a chart of kind {self.kind.value} has no logarithmic axes")

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it names."""
        named = (self.x, self.series, self.row, self.column, self.value, *self.hover)
        return tuple(dict.fromkeys(name for name in named if name))


@dataclass(frozen=True, slots=True)
class Table:
    """Evidence that is more than one number: error records, histograms, series over time.

    64-bit words and addresses are text in hexadecimal, since JSON readers lose their low bits. ``chart`` tells how the
    table is best seen; without one it is shown as rows.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    chart: Chart | None = None

    def __post_init__(self) -> None:
        width = len(self.columns)
        for row in self.rows:
            if len(row) != width:
                raise ValueError(f"table {self.name}: a row has {len(row)} cells for {width} columns")
        if self.chart is not None:
            self._check_chart(self.chart)

    def _check_chart(self, chart: Chart) -> None:
        units = {column.name: column.unit for column in self.columns}
        missing = [name for name in chart.columns if name not in units]
        if missing:
            raise ValueError(f"table {self.name}: its chart names {', '.join(missing)}, which is no column of it")
        drawn = [] if chart.kind is ChartKind.MATRIX else [chart.value]
        drawn += [chart.x] if chart.kind is ChartKind.CURVE else []
        for name in drawn:
            if units[name] is None:
                raise ValueError(f"table {self.name}: column {name} is drawn as a number and has no unit")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A named pattern in the evidence, e.g. ``stuck_dq``; "unstructured" rather than a wrong name.

    ``explains``: the measurement it stands under; of several of that name, those that carry all of its ``labels``.
    """

    fault: str
    title: str
    explains: str
    evidence: tuple[str, ...]
    advice: str
    labels: tuple[tuple[str, str], ...] = ()

    def explains_measurement(self, measurement: Measurement) -> bool:
        return self.explains == measurement.name and set(self.labels) <= set(measurement.labels)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe saw on one target. It holds no verdict: judging is another step."""

    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    notes: tuple[str, ...] = ()
    partial: str = ""
    """Why the probe stopped early, or empty when it ran to its end."""

    @property
    def figures(self) -> bool:
        """Whether anything was measured at all."""
        return any(isinstance(measurement.reading, Quantity) for measurement in self.measurements)


class SourceKind(enum.StrEnum):
    DEFINITION = "definition"
    VENDOR = "vendor"
    MEASURED = "measured"
    CONVENTION = "convention"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a bound comes from."""

    title: str
    locator: str
    kind: SourceKind
    read: str
    """The day it was read, as YYYY-MM-DD."""


class Relation(enum.StrEnum):
    """How a reading must stand to the bound to be in order."""

    AT_MOST = "at_most"
    AT_LEAST = "at_least"


class Severity(enum.StrEnum):
    """What breaking a limit means. ``unknown``: too little was seen to say anything."""

    NOTE = "note"
    WARN = "warn"
    UNKNOWN = "unknown"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound with unit, severity, source and one sentence of reasoning; never a bare number in code.

    ``required``: without this measurement the probe's verdict is unknown. ``kinds``: the kinds of target
    it is applied to (empty: all).
    """

    code: str
    measurement: str
    title: str
    relation: Relation
    bound: Quantity
    severity: Severity
    source: Source
    reasoning: str
    advice: str
    required: bool = False
    kinds: tuple[str, ...] = ()
    overridden: bool = False
    voids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("code", "measurement", "title", "reasoning", "advice"):
            if not getattr(self, name):
                raise ValueError(f"limit {self.code or '?'} needs a {name}")
        if not (self.source.title and self.source.locator):
            raise ValueError(f"limit {self.code} needs a source")


class Verdict(enum.StrEnum):
    PASS = "pass"
    WARN = "warn"
    UNKNOWN = "unknown"
    ERROR = "error"
    FAIL = "fail"


PRECEDENCE = (Verdict.FAIL, Verdict.ERROR, Verdict.UNKNOWN, Verdict.WARN, Verdict.PASS)
"""The worst first: what several verdicts come to is the first of these that is among them."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """What several verdicts come to; of none, unknown."""
    given = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in given), Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Finding:
    """A limit that was broken: the reading, the evidence and what to do."""

    code: str
    severity: Severity
    title: str
    target: str
    measurement: Measurement
    limit: Limit
    fault: str
    """The diagnosed fault class (of several each, with commas), or empty when nothing was diagnosed."""
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What a target is, once opened.

    ``kind``: cuda, host, sim, file (saved evidence) or replay (a saved run). ``identity``: ordered pairs for reports,
    e.g. ("uuid", "GPU-..."), ("pci", "0000:01:00.0"). ``origin_kind`` of a replay is the kind that was recorded;
    elsewhere it equals ``kind``.
    """

    name: str
    kind: str
    title: str
    memory_total: Reading
    cache_size: Reading
    """Size of the last-level cache a verify sweep must exceed (L2 of a GPU, L3 of a host), in bytes."""
    peak_bandwidth: Reading
    peak_formula: str
    identity: tuple[tuple[str, str], ...] = ()
    simulated: bool = False
    origin_kind: str = ""

    @property
    def uuid(self) -> str:
        return dict(self.identity).get("uuid", "")


@dataclass(frozen=True, slots=True)
class Result:
    """One probe on one target: what was seen and what it means."""

    probe: str
    question: str
    target: str
    verdict: Verdict
    reason: str
    """For unknown and error: why. Otherwise empty."""
    observation: Observation
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    """The limits it was judged by."""
    started: str
    duration: Quantity


@dataclass(frozen=True, slots=True)
class HostInfo:
    name: str
    system: str
    python: str
    processor: str
    memory_total: Reading


@dataclass(frozen=True, slots=True)
class Run:
    """The frozen record of one invocation; saved after each probe."""

    schema_version: int
    tool: str
    """Name and version, e.g. "mats 0.1.0"."""
    started: str
    """ISO 8601 with zone."""
    duration: Quantity
    host: HostInfo
    command: tuple[str, ...]
    targets: tuple[TargetInfo, ...]
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    partial: str = ""
    """Why the run stopped early, or empty."""
    required: tuple[str, ...] = ()
    """Probes without which the run is unknown; empty: every probe that was run."""
