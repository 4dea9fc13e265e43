"""What was seen of pairs of GPUs, whoever measured it: plain values, before anything is held against a target."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Quantity, Reading, Relation, Table, Unit

from ._health_card import Card
from ._nvlink_limits import LIMITS

Seen = Measurement | Diagnosis
Labels = tuple[tuple[str, str], ...]
RATE, SECOND, RATIO, COUNT, BYTE = Unit.BYTE_PER_SECOND, Unit.SECOND, Unit.RATIO, Unit.COUNT, Unit.BYTE
ONE, NONE = Quantity(1, COUNT), Quantity(0, COUNT)
_NOT_TAKEN = Absent(AbsenceKind.NOT_TESTED, "it was not measured")
_UNASKED = Absent(AbsenceKind.NOT_TESTED, "who else uses the GPUs was not asked")


@dataclass(frozen=True, slots=True)
class Taken:
    """A figure with its samples and how it was taken."""

    reading: Reading = _NOT_TAKEN
    samples: tuple[float, ...] = ()
    method: str = ""
    statistic: str = ""

    def measured(self, name: str, labels: Labels = ()) -> Measurement:
        return Measurement(name, self.reading, labels, self.statistic, self.method, self.samples)

    @property
    def value(self) -> float | None:
        return float(self.reading.value) if isinstance(self.reading, Quantity) else None


def median_of(samples: Sequence[float], unit: Unit, method: str) -> Taken:
    """The median of at least one sample."""
    statistic = f"median of {len(samples)}" if len(samples) > 1 else "one sample"
    return Taken(Quantity(statistics.median(samples), unit), tuple(samples), method, statistic)


def not_taken(kind: AbsenceKind, reason: str) -> Taken:
    return Taken(Absent(kind, reason))


@dataclass(frozen=True, slots=True)
class Check:
    """Data that went over the link and were compared. ``where``: the first words that differed, a line each."""

    by: str
    verified: int
    """Bytes."""
    mismatched: int
    """Bytes of the words that differed; of a tool that stops at the first one, those of that word."""
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairSeen:
    """One direction between two GPUs, or a GPU and its host. ``access``: whether it went directly; None: not told."""

    start: str
    end: str
    access: bool | None
    why: str = ""
    """Why there is no direct access."""
    one_way: Taken = Taken()
    through_host: Taken = Taken()
    both_ways: Taken = Taken()
    """This direction while the other one was as busy."""
    copy_latency: Taken = Taken()
    copy_latency_through_host: Taken = Taken()
    load_latency: Taken = Taken()
    checks: tuple[Check, ...] = ()
    engines: tuple[tuple[str, float], ...] = ()
    """What each way to move data reached, in bytes per second, where several were tried."""
    tool: str = ""
    """Which run of which tool it is from, where there are several."""

    @property
    def labels(self) -> Labels:
        return (("from", self.start), ("to", self.end), *((("tool", self.tool),) if self.tool else ()))

    @property
    def title(self) -> str:
        return f"{name_of(self.start)} to {name_of(self.end)}"


HOST = "host"


def name_of(label: str) -> str:
    """``GPU 3``, ``the host``."""
    return "the host" if label == HOST else f"GPU {label}"


def of_gpu(label: str) -> Labels:
    """Labels of what is of one GPU."""
    return (("gpu", label),)


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """Several copies at one moment. ``name``: the measurement; ``members``: the labels it is about."""

    name: str
    labels: Labels
    taken: Taken


@dataclass(frozen=True, slots=True)
class Own:
    """What the user asked of each link, in base units; None: nothing."""

    bandwidth: float | None = None
    latency: float | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that was seen. ``cards``: by the labels of the pairs; ``live``: measured now, by this tool."""

    machine: MachineFacts
    cards: Mapping[str, Card]
    pairs: tuple[PairSeen, ...]
    groups: tuple[GroupSeen, ...] = ()
    growth: tuple[Seen, ...] = ()
    own: Own = Own()
    others: Reading = _UNASKED
    live: bool = True
    unasked: str = ""
    """Why pairs are missing though nothing stopped early."""
    notes: tuple[str, ...] = ()
    partial: str = ""
    more: tuple[Seen, ...] = ()
    """What was seen beside the pairs."""
    tables: tuple[Table, ...] = ()
    """Of what is in ``more``."""
    untold: tuple[str, ...] = ()
    """Targets of what is in ``more`` that are not known, each with its reason."""
    failed: tuple[str, ...] = ()
    """Tools that failed themselves, for which no bound of the user's own can stand in."""


def breaks(name: str, reading: Reading) -> bool:
    """Whether the reading breaks a bound of its name, so that there is something to explain."""
    if not isinstance(reading, Quantity):
        return False
    return any(
        reading > limit.bound if limit.relation is Relation.AT_MOST else reading < limit.bound
        for limit in LIMITS
        if limit.measurement == name
    )


def checked(
    measurement: Measurement, fault: str, says: str, evidence: Iterable[str] = (), advice: str = ""
) -> Iterator[Seen]:
    """A measurement, and what explains it where it breaks a bound."""
    yield measurement
    if says and breaks(measurement.name, measurement.reading):
        yield Diagnosis(fault, says, measurement.name, tuple(evidence), advice, measurement.labels)


def bound(code: str) -> float:
    """The bound of one of the limits."""
    return next(float(limit.bound.value) for limit in LIMITS if limit.code == code)
