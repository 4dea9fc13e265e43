"""What tests of collective operations say of the links: the largest size, never an average over all of them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mats.facts import MachineFacts
from mats.facts.transfers import CollectiveFacts, TransferRun
from mats.model import AbsenceKind, Absent, Cell, Column, Measurement, Quantity, Reading, Table

from ._health_card import Card, cards_of, value_of
from ._nvlink_rates import fit_nvlink, gigabytes
from ._nvlink_results import share
from ._nvlink_seen import BYTE, COUNT, RATE, SECOND, Labels, Seen, Taken, bound, checked
from ._nvlink_ways import ASK_FOR, Kind, Target, Way, way_between

_WHO = f"which GPUs took part, and what joins them, is not told: {ASK_FOR}"
_MIXED = "the GPUs are joined in several ways, and how the operation used them is not told"
FORMULA = "bus bandwidth = bytes / time x 2(n-1)/n for an all-reduce of n ranks, as nccl-tests computes it"


@dataclass(frozen=True, slots=True)
class Together:
    """What a run's collective operations come to. ``untold``: targets that are not known, each with its reason."""

    seen: tuple[Seen, ...] = ()
    untold: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def collectives(run: TransferRun, machine: MachineFacts, cards: Sequence[Card], tool: str) -> Together:
    """Each operation by its largest size."""
    by_name: dict[str, list[CollectiveFacts]] = defaultdict(list)
    for each in run.collectives:
        by_name[each.name if isinstance(each.name, str) else "collective operation"].append(each)
    seen: list[Seen] = []
    untold: list[str] = []
    notes: list[str] = []
    way = way_of_ranks(run, machine, cards) if by_name else None
    for name, lines in by_name.items():
        assert way is not None
        labels = (("collective", name), *((("tool", tool),) if tool else ()))
        taken = largest(lines)
        reading = share(taken, way)
        target = way.target
        seen.append(taken.measured("link.bus_bandwidth", labels))
        part = f"{reading.value:.0%} of {_rate(target)} ({target.formula})" if isinstance(reading, Quantity) else ""
        says = f"{name}: a bus bandwidth of {gigabytes(taken.value or 0)} at the largest size, {part}"
        seen += checked(Measurement("link.share", reading, labels, method=target.formula), "link_slow", says)
        seen += _wrong(name, lines, labels)
        if isinstance(reading, Absent):
            untold.append(f"{name}: {reading.reason}")
            notes += _fit_note(name, taken)
        notes += _notes(name, lines, taken, target)
    return Together(tuple(seen), tuple(untold), tuple(notes), (_table(run, tool),) if run.collectives else ())


def largest(lines: Sequence[CollectiveFacts]) -> Taken:
    """The bus bandwidth of the largest size, in or out of place, whichever is better."""
    sizes = [each.size.value for each in lines if isinstance(each.size, Quantity)]
    most = max(sizes, default=0)
    rates = [each.bus.value for each in lines if value_of(each.size) == most and isinstance(each.bus, Quantity)]
    if not rates or not max(rates):
        return Taken(Absent(AbsenceKind.NOT_FOUND, "no bus bandwidth is told"))
    method = f"the largest of {len(set(sizes))} sizes, {most / (1 << 20):,.0f} MiB; {FORMULA}"
    return Taken(Quantity(max(rates), RATE), (), method, "the better of in place and out of place")


def way_of_ranks(run: TransferRun, machine: MachineFacts, cards: Sequence[Card]) -> Way:
    """The one way that joins all that took part; absent where nobody tells, or where there are several."""
    told = list(cards) or list(cards_of(machine))
    ranks = value_of(run.ranks)
    if len(told) < 2 or (ranks is not None and ranks != len(told) and cards):
        return Way(Kind.UNKNOWN, "not known", Target(Absent(AbsenceKind.NOT_FOUND, _WHO)))
    ways = [way_between(machine, first, second) for first, second in itertools.combinations(told, 2)]
    if len({way.name for way in ways}) > 1:
        why = _MIXED if cards else _WHO
        return Way(Kind.UNKNOWN, "several", Target(Absent(AbsenceKind.NOT_FOUND, why)))
    return min(ways, key=lambda way: value_of(way.target.bandwidth) or 0.0)


def _table(run: TransferRun, tool: str) -> Table:
    """Every line of the tool's table, the largest sizes first: they are what is judged."""
    columns = (
        Column("operation"),
        Column("size", BYTE),
        Column("time", SECOND),
        Column("algorithm", RATE),
        Column("bus", RATE),
        Column("wrong", COUNT),
        Column("place"),
    )

    def cell(reading: Reading) -> Cell:
        return reading if isinstance(reading, Absent) else reading.value

    rows = tuple(
        (
            each.name,
            *(cell(reading) for reading in (each.size, each.time, each.algorithm, each.bus, each.wrong)),
            "in place" if each.in_place else "out of place",
        )
        for each in sorted(run.collectives, key=lambda each: -(value_of(each.size) or 0))
    )
    return Table(f"collectives {tool}".strip(), f"Collective operations, as {tool or run.tool} says", columns, rows)


def _rate(target: Target) -> str:
    return gigabytes(float(target.bandwidth.value)) if isinstance(target.bandwidth, Quantity) else "an unknown target"


def _wrong(name: str, lines: Sequence[CollectiveFacts], labels: Labels) -> Iterator[Seen]:
    """Values that were wrong in any line; absent where the tool did not look."""
    known = [each.wrong.value for each in lines if isinstance(each.wrong, Quantity)]
    if not known:
        why = next((each.wrong for each in lines if isinstance(each.wrong, Absent)), None)
        yield Measurement("link.mismatched_bytes", why or Absent(AbsenceKind.NOT_TESTED, "not checked"), labels)
        return
    reading = Quantity(sum(known), BYTE)
    measured = Measurement("link.mismatched_bytes", reading, labels, statistic="at least: one a value that was wrong")
    yield from checked(measured, "link_corrupt", f"{name}: {sum(known):,g} values were wrong")


def _fit_note(name: str, taken: Taken) -> Iterator[str]:
    fit = fit_nvlink(taken.value or 0.0)
    if fit is not None:
        healthy = "as much as a healthy one has" if fit.share >= bound("LNK-002") else "less than it should"
        yield (
            f"{name}: {gigabytes(taken.value or 0)} would be {fit.share:.0%} of {gigabytes(fit.payload)} "
            f"({' or '.join(fit.names)}), {healthy}, if the GPUs are joined so."
        )


def _notes(name: str, lines: Sequence[CollectiveFacts], taken: Taken, target: Target) -> Iterator[str]:
    sizes = {each.size.value for each in lines if isinstance(each.size, Quantity)}
    if len(sizes) > 1 and taken.value:
        part = ""
        if isinstance(target.bandwidth, Quantity):
            part = f", {taken.value / target.bandwidth.value:.0%} of {_rate(target)} ({target.formula})"
        yield (
            f"{name}: {gigabytes(taken.value)} bus bandwidth at the largest size{part}. The tool's average over all "
            f"{len(sizes)} sizes is not judged: small ones measure their start and not the links."
        )
    if isinstance(target.bandwidth, Quantity) and (taken.value or 0) > 1.05 * target.bandwidth.value:
        yield f"{name}: more than the links of one GPU carry; reductions in the switch (NVLS) do that."
