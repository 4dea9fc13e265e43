"""Arbitrary runs, as far as the model allows them."""

from __future__ import annotations

from hypothesis import strategies as st

from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Chart,
    Column,
    Diagnosis,
    Finding,
    HostInfo,
    Limit,
    Measurement,
    Observation,
    Quantity,
    Relation,
    Result,
    Run,
    Severity,
    Source,
    SourceKind,
    Table,
    TargetInfo,
    Unit,
    Verdict,
)

text = st.text(max_size=12)
some_text = st.text(min_size=1, max_size=12)
readings_names = st.sampled_from(["health.errors", "health.heat"])
numbers = st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)
absences = st.builds(Absent, st.sampled_from(AbsenceKind), some_text)
quantities = st.builds(Quantity, numbers, st.sampled_from(Unit))
readings = quantities | absences
pairs = st.lists(st.tuples(text | st.just("gpu"), text | st.sampled_from(["0", "1", "2"])), max_size=2).map(tuple)
texts = st.lists(text, max_size=2).map(tuple)
measurements = st.builds(
    Measurement,
    name=some_text | readings_names,
    reading=readings,
    labels=pairs,
    statistic=text,
    method=text,
    samples=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(tuple),
)
cells: st.SearchStrategy[Cell] = st.one_of(numbers, text, absences, st.sampled_from(["0", "1"]))


def charts(names: list[str], numbers: list[str]) -> st.SearchStrategy[Chart]:
    """Charts of every kind that a table with columns of these names may have; those of ``numbers`` have a unit."""
    if not names:
        return st.nothing()
    name, maybe, logs = st.sampled_from(names), st.sampled_from([*names, ""]), st.booleans()
    hover = st.lists(name, max_size=1).map(tuple)
    matrices = st.builds(Chart.matrix, name, name, name, hover=hover)
    if not any(numbers):
        return matrices
    number = st.sampled_from([column for column in numbers if column])
    curves = st.builds(Chart.curve, number, number, maybe, hover=hover, log_x=logs, log_y=logs)
    return (
        matrices | curves | st.builds(Chart.histogram, number) | st.builds(Chart.heat_map, number, maybe, hover=hover)
    )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    names = ["gpu", "address", "expected", "actual", "time", "errors", "bit", "operation", "duration", "words"]
    columns = draw(
        st.lists(
            st.builds(Column, st.sampled_from(names) | text, st.none() | st.sampled_from(Unit)), min_size=1, max_size=4
        )
    )
    rows = draw(st.lists(st.tuples(*(cells for _ in columns)), max_size=3))
    drawn = [column.name for column in columns if all(c.unit for c in columns if c.name == column.name)]
    chart = draw(st.none() | charts([column.name for column in columns if column.name], drawn))
    kinds = ["errors", "sweeps", "conditions", "bit_histogram", "page_errors", "popcount_histogram", "latency"]
    return Table(draw(st.sampled_from(kinds) | text), draw(text), tuple(columns), tuple(rows), chart)


observations = st.builds(
    Observation,
    measurements=st.lists(measurements, max_size=3).map(tuple),
    tables=st.lists(tables(), max_size=2).map(tuple),
    diagnoses=st.lists(st.builds(Diagnosis, text, text, text, texts, text), max_size=1).map(tuple),
    notes=texts,
    partial=text,
)
limits = st.builds(
    Limit,
    code=some_text,
    measurement=some_text | readings_names,
    title=some_text,
    relation=st.sampled_from(Relation),
    bound=quantities,
    severity=st.sampled_from(Severity),
    source=st.builds(Source, some_text, some_text, st.sampled_from(SourceKind), text),
    reasoning=some_text,
    advice=some_text,
    required=st.booleans(),
    kinds=texts,
    overridden=st.booleans(),
)
findings = st.builds(Finding, some_text, st.sampled_from(Severity), text, text, measurements, limits, text, texts, text)
target_names = st.sampled_from(["host", "cuda:0", "sim:healthy"]) | text
targets = st.builds(
    TargetInfo, target_names, text, text, readings, readings, readings, text, pairs, st.booleans(), text
)
durations = st.builds(Quantity, st.floats(0, 1e9), st.just(Unit.SECOND))
results = st.builds(
    Result,
    probe=some_text,
    question=text,
    target=target_names,
    verdict=st.sampled_from(Verdict),
    reason=text,
    observation=observations,
    findings=st.lists(findings, max_size=2).map(tuple),
    limits=st.lists(limits, max_size=2).map(tuple),
    started=text,
    duration=durations,
)
runs = st.builds(
    Run,
    schema_version=st.just(1),
    tool=text,
    started=text,
    duration=durations,
    host=st.builds(HostInfo, text, text, text, text, readings),
    command=texts,
    targets=st.lists(targets, max_size=2).map(tuple),
    results=st.lists(results, max_size=2).map(tuple),
    notes=texts,
    partial=text,
    required=texts,
)
