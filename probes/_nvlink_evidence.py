"""What other tools have measured, as pairs: the same picture as of our own measurement, judged by the same limits.

Figures of one run stay together and each says what it is. A way is held against its target by the best that was reached
over it: where one engine is slower than another on the same way it is the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mats.fabric import Fabric
from mats.facts import GpuFacts, MachineFacts
from mats.facts.transfers import End, Engine, Figure, MeasuredGpu, Place, TransferFacts, TransferRun, Ways
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, Table, Unit
from mats.probe import Context

from ._health_card import Card, cards_of
from ._health_text import listed
from ._nvlink_access import why_no_access
from ._nvlink_collectives import collectives
from ._nvlink_curves import curve_notes
from ._nvlink_results import observe
from ._nvlink_seen import BYTE, COUNT, HOST, RATE, SECOND, Own, PairSeen, Picture, Seen, Taken, checked
from ._nvlink_session import own_target
from ._nvlink_state import state_notes

_NO_CARD = Absent(AbsenceKind.NOT_FOUND, "PCI device: the files do not show the bus")
_NO_GPUS = "these files hold no bandwidth of a way between GPUs, or between a GPU and its host"
_ENGINES = {Engine.COPY_ENGINE: "by the copy engine", Engine.KERNELS: "by kernels"}


def judge_evidence(fabric: Fabric, context: Context) -> Observation:
    """What the files of a fabric without members come to. Raises UsageError, DeviceError."""
    own = own_target(context.options)
    context.progress(0, 1, "reading what other tools have measured")
    return evidence(fabric.facts(), own.bandwidth, own.latency)


def evidence(machine: MachineFacts, bandwidth: float | None = None, latency: float | None = None) -> Observation:
    """What tools have said of one machine comes to: a pure function. ``bandwidth``, ``latency``: what was asked for."""
    cards = {card.label: card for card in cards_of(machine)}
    pairs: list[PairSeen] = []
    more: list[Seen] = []
    untold: list[str] = []
    notes: list[str] = []
    tables: list[Table] = []
    for place, run in enumerate(machine.transfers):
        names = _labels(run, cards)
        cards |= {label: card for label, card in _measured_cards(run, machine, names).items() if label not in cards}
        tool = _tool(run, place, machine.transfers)
        pairs += [replace(pair, tool=tool) for pair in pairs_of(run, names, machine, cards)]
        more += _mismatches(run, tool)
        together = collectives(run, machine, [cards[name] for name in names.values() if name in cards], tool)
        more += together.seen
        untold += together.untold
        tables += together.tables
        notes += [*_run_notes(run), *together.notes, *curve_notes(run)]
    failed = [f"{run.tool} itself failed: {error}" for run in machine.transfers for error in run.errors]
    return observe(
        Picture(
            machine=machine,
            cards=cards,
            pairs=tuple(pairs),
            own=Own(bandwidth, latency),
            others=Absent(AbsenceKind.NOT_FOUND, "who else used the GPUs is not told by these files"),
            live=False,
            unasked="; ".join(failed[:2]) or _NO_GPUS,
            notes=(*dict.fromkeys(notes), *state_notes(machine, cards)),
            partial=machine.partial,
            more=tuple(more),
            tables=tuple(tables),
            untold=tuple(dict.fromkeys(untold)),
            failed=tuple(dict.fromkeys(failed)),
        )
    )


def _tool(run: TransferRun, place: int, runs: Sequence[TransferRun]) -> str:
    """A name that tells runs apart; empty where there is only one."""
    if len(runs) < 2:
        return ""
    same = [other for other in runs if other.tool == run.tool]
    return run.tool if len(same) == 1 else f"{run.tool} ({run.origin or place + 1})"


def _labels(run: TransferRun, cards: Mapping[str, Card]) -> dict[int, str]:
    """The machine's own label of each GPU that a tool numbers: by its address, else its number is taken for it."""
    by_address = {card.gpu.pci: card.label for card in cards.values() if isinstance(card.gpu.pci, str)}
    listed_gpus = {gpu.number: gpu for gpu in run.gpus}
    numbers = {
        end.number
        for each in run.transfers
        for end in (each.start, each.end)
        if end.place is Place.GPU and not isinstance(end.number, Absent)
    }
    found = {}
    for number in sorted(numbers | set(listed_gpus)):
        gpu = listed_gpus.get(number)
        known = by_address.get(gpu.pci) if gpu is not None and isinstance(gpu.pci, str) else None
        found[number] = known or str(number)
    return found


def _measured_cards(run: TransferRun, machine: MachineFacts, names: Mapping[int, str]) -> dict[str, Card]:
    """GPUs of which only the tool's own list tells."""
    return {names[gpu.number]: _card(gpu, machine, names[gpu.number]) for gpu in run.gpus}


def _card(gpu: MeasuredGpu, machine: MachineFacts, label: str) -> Card:
    facts = GpuFacts(index=Quantity(gpu.number, COUNT), name=gpu.name, pci=gpu.pci)
    return Card(facts, machine, label, _NO_CARD)


def pairs_of(
    run: TransferRun, names: Mapping[int, str], machine: MachineFacts, cards: Mapping[str, Card]
) -> list[PairSeen]:
    """Every way that a run has figures of, each direction for itself; a GPU's own memory is no link."""
    ways: dict[tuple[str, str], list[TransferFacts]] = defaultdict(list)
    for each in run.transfers:
        ends = _end(each.start, names), _end(each.end, names)
        if not each.own_memory and all(ends) and ends[0] != ends[1]:
            ways[ends].append(each)
            if each.ways is Ways.SUM and ends[::-1] not in ways:
                ways[ends[::-1]] = []
    numbers = {label: number for number, label in names.items()}
    return [_pair(run, ends, figures, ways, numbers, machine, cards) for ends, figures in ways.items()]


def _end(end: End, names: Mapping[int, str]) -> str:
    """The label of one end; empty where it is none that could be told."""
    if end.place is Place.HOST:
        return HOST
    return names.get(end.number, "") if end.place is Place.GPU and not isinstance(end.number, Absent) else ""


def _pair(
    run: TransferRun,
    ends: tuple[str, str],
    figures: Sequence[TransferFacts],
    ways: Mapping[tuple[str, str], Sequence[TransferFacts]],
    numbers: Mapping[str, int],
    machine: MachineFacts,
    cards: Mapping[str, Card],
) -> PairSeen:
    access: bool | None = True if HOST in ends else _access(run, figures, [numbers.get(end) for end in ends])
    said = f"{run.tool} found no peer access" if access is False else ""
    why = why_no_access(machine, cards.get(ends[0]), cards.get(ends[1]), said) if access is False else ""
    direct = [each for each in figures if each.access is not False or HOST in ends]
    staged = [each for each in figures if each.access is False and HOST not in ends]
    one_way = _best(_of(direct, Figure.BANDWIDTH, Ways.ONE))
    if access is False:
        one_way = Taken(Absent(AbsenceKind.NOT_SUPPORTED, f"no peer access (P2P): {why}"))
    both = [each for each in ways.get(ends[::-1], ()) if each.ways is Ways.SUM and each.access is not False]
    return PairSeen(
        *ends,
        access,
        why,
        one_way=one_way,
        through_host=_best(_of(staged, Figure.BANDWIDTH, Ways.ONE)),
        both_ways=_both([*direct, *both]),
        copy_latency=_least(_of(direct, Figure.COPY_LATENCY)),
        copy_latency_through_host=_least(_of(staged, Figure.COPY_LATENCY)),
        load_latency=_least(_of(direct, Figure.LOAD_LATENCY)),
        engines=_engines(_of(direct, Figure.BANDWIDTH, Ways.ONE)),
    )


def _access(run: TransferRun, figures: Iterable[TransferFacts], ends: Sequence[int | None]) -> bool | None:
    """Whether the two reach each other, by the tool's own list, else by what it says of its figures."""
    if ends[0] is not None and ends[1] is not None:
        told = run.peer(ends[0], ends[1])
        if told is not None:
            return told.access
    said = [each.access for each in figures if not isinstance(each.access, Absent)]
    return True if True in said else False if said else None


def _of(figures: Iterable[TransferFacts], figure: Figure, ways: Ways | None = None) -> list[TransferFacts]:
    return [each for each in figures if each.figure is figure and (ways is None or each.ways is ways)]


def _best(figures: Sequence[TransferFacts]) -> Taken:
    """The highest bandwidth of one way, with its test."""
    return _picked(figures, -1, RATE)


def _least(figures: Sequence[TransferFacts]) -> Taken:
    """The shortest time on one way, with its test."""
    return _picked(figures, 0, SECOND)


def _picked(figures: Sequence[TransferFacts], place: int, unit: Unit) -> Taken:
    """The one at a place of all in the order of their readings."""
    known = [(float(each.reading.value), each) for each in figures if isinstance(each.reading, Quantity)]
    if not known:
        return next((Taken(each.reading) for each in figures), Taken())
    value, chosen = sorted(known, key=lambda pair: pair[0])[place]
    several = len(known) > 1
    samples = tuple(value for value, _ in known) if several else ()
    statistic = f"the best of {len(known)}" if several else ""
    return Taken(Quantity(value, unit), samples, f"{chosen.test}, {chosen.figure.value}", statistic)


def _both(figures: Iterable[TransferFacts]) -> Taken:
    """What one direction had while the other was as busy; of a sum of both its half."""
    found = []
    for each in figures:
        if each.figure is Figure.BANDWIDTH and isinstance(each.reading, Quantity):
            if each.ways is Ways.ONE_OF_TWO:
                found.append(each)
            elif each.ways is Ways.SUM:
                half = Quantity(each.reading.value / 2, RATE)
                found.append(replace(each, reading=half, test=f"{each.test}, half of the sum"))
    return _best(found)


def _engines(figures: Iterable[TransferFacts]) -> tuple[tuple[str, float], ...]:
    """The best of each way to move the data, where the tool tells what it was."""
    best: dict[str, float] = {}
    for each in figures:
        name = _ENGINES.get(each.engine, "")
        if name and isinstance(each.reading, Quantity):
            best[name] = max(best.get(name, 0.0), float(each.reading.value))
    return tuple(best.items())


def _mismatches(run: TransferRun, tool: str) -> Iterator[Seen]:
    """Wrong data, whatever the speed: a tool that stops at the first wrong value tells of that one."""
    for each in run.mismatches:
        count = each.count.value if isinstance(each.count, Quantity) else 1
        labels = (("test", each.test), *((("tool", tool),) if tool else ()))
        where = [each.text]
        if isinstance(each.offset, Quantity):
            where.append(f"at byte {each.offset.value:,} of the buffer")
        measured = Measurement(
            "link.mismatched_bytes", Quantity(count, BYTE), labels, statistic="at least: values that the tool tells of"
        )
        says = f"{run.tool}, {each.test}: data came back other than they were sent"
        yield from checked(measured, "link_corrupt", says, where)


def _run_notes(run: TransferRun) -> Iterator[str]:
    if run.waived:
        named = [each.test for each in run.waived if isinstance(each.test, str)]
        which = f" ({listed(named)})" if named else ""
        yield f"{run.tool} left out {len(run.waived)} of its tests{which}: waived is not failed."
    yield from (f"{run.tool}: {text}." for text in run.notes)
