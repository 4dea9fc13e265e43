"""The sentences of the health check: what was seen first, then what a person should know to read it rightly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mats.facts import AMD, INTEL, NVIDIA, LogFacts, MachineFacts, endpoints
from mats.model import AbsenceKind, Absent, Measurement, Quantity

from ._health_bus import slot_limit
from ._health_card import PREFIX, Card, value_of
from ._health_errors import has_no_ecc
from ._health_events import praise
from ._health_links import active_links
from ._health_text import listed, plural, size

_RESERVE = 1 << 30
"""Bytes up to which an idle GPU's use is taken for what its driver reserves."""
_BESIDE = ("change", "known", "asked", "taken", "source", "claims")
"""Subjects that are only there when the user asks for them or another tool has spoken."""
_TOOLS = {AMD: ("AMD", "amd-smi, rvs and rocm-bandwidth-test"), INTEL: ("Intel", "xpu-smi")}


def notes(machine: MachineFacts, cards: Sequence[Card], measured: Sequence[Measurement]) -> tuple[str, ...]:
    """The first says what was seen; the others what to know beside the findings."""
    said = [first_sentence(cards, measured)]
    said += _attached(machine, cards)
    said += foreign(machine)
    said += _ecc(cards)
    said += _hidden(machine, cards)
    said += _memory(cards)
    said += _bus(machine, cards)
    said += _links(cards)
    said += _log(machine)
    said += _others(machine)
    said += [_as_sentence(note) for note in machine.notes if note]
    return tuple(dict.fromkeys(said))


def _as_sentence(note: str) -> str:
    """A note with a full stop; a file's or a tool's name at its beginning stays as it is."""
    if note.endswith("."):
        return note
    words = _opening(note) if note.partition(" ")[0].rstrip(":,").isalpha() else note
    return f"{words}."


def first_sentence(cards: Sequence[Card], measured: Sequence[Measurement]) -> str:
    """``8 of 8 GPUs answer. Not seen, at least in part: pcie, log.`` The report counts the checks."""
    names: dict[str, list[Measurement]] = {}
    for measurement in measured:
        if measurement.name.split(".")[1] not in _BESIDE:
            names.setdefault(measurement.name, []).append(measurement)
    rest = [each for each in names.values() if not any(isinstance(m.reading, Quantity) for m in each)]
    subjects = dict.fromkeys(each[0].name.split(".")[1] for each in rest if not all(map(_does_not_apply, each)))
    missing = f" Not seen, at least in part: {listed(subjects, 12)}." if subjects else ""
    return _who_answers(cards, names.get(f"{PREFIX}gpu.answers", [])) + missing


def _who_answers(cards: Sequence[Card], measured: Sequence[Measurement]) -> str:
    known = [measurement.reading.value for measurement in measured if isinstance(measurement.reading, Quantity)]
    if not cards:
        return "No GPU is named in what was read."
    if not known:
        return "The GPU was not asked." if len(cards) == 1 else f"None of {len(cards)} GPUs was asked."
    if len(cards) == 1:
        return "The GPU answers." if known[0] else "The GPU does not answer."
    unasked = f", {len(cards) - len(known)} not asked" if len(known) < len(cards) else ""
    return f"{sum(map(bool, known))} of {len(cards)} GPUs answer{unasked}."


def _does_not_apply(measurement: Measurement) -> bool:
    reading = measurement.reading
    return isinstance(reading, Absent) and reading.kind is AbsenceKind.NOT_SUPPORTED


def foreign(machine: MachineFacts) -> Iterator[str]:
    """GPUs of other makers: named, and pointed to their own tools."""
    devices = () if isinstance(machine.devices, Absent) else endpoints(machine.devices)
    for vendor, (maker, tools) in _TOOLS.items():
        mine = [
            f"{device.address}" + (f" ({device.name})" if isinstance(device.name, str) else "")
            for device in devices
            if device.vendor == vendor
        ]
        if mine:
            yield f"{maker} GPU at {listed(mine)}: no CUDA device and not judged here; its own tools are {tools}."
    passed_on = [device.address for device in devices if device.vendor == NVIDIA and device.driver == "vfio-pci"]
    if passed_on:
        yield f"Passed on to a virtual machine and not asked: {listed(passed_on)}."


def _of(cards: Sequence[Card], every: Sequence[Card]) -> str:
    if len(every) == 1:
        return "the GPU"
    return "every GPU" if len(cards) == len(every) else f"GPU {listed(card.label for card in cards)}"


def _opening(words: str) -> str:
    return words[0].upper() + words[1:]


def _ecc(cards: Sequence[Card]) -> Iterator[str]:
    without = [card for card in cards if has_no_ecc(card)]
    if without:
        yield (
            f"ECC does not exist on {_of(without, cards)}: memory errors cannot be counted there, so none seen means "
            "nothing; mats stress tests the memory itself."
        )


def _hidden(machine: MachineFacts, cards: Sequence[Card]) -> Iterator[str]:
    """What does not exist in such a place, so that nobody looks for it."""
    sliced = [card for card in cards if card.sliced]
    if sliced:
        yield (
            f"MIG is on ({_of(sliced, cards)}): the driver hides ECC totals, replaced rows and NVLinks of the whole "
            "GPU then; they are unknown and not in order."
        )
    if any(card.virtual for card in cards):
        yield "A virtual GPU has no counters of errors, no power and no links of its own: ask its host for them."
    if machine.host.wsl is True:
        yield "Within WSL there is no kernel log of the driver, no PCIe tree and no memory of processes: see Windows."
    unified = [card for card in cards if card.unified]
    if unified:
        host = machine.host.memory_total
        has = f" ({size(host)})" if isinstance(host, Quantity) else ""
        yield (
            f"{_opening(_of(unified, cards))} has no memory of its own: it shares the processor's{has}, so that the "
            "driver tells no total, no replaced rows and no memory window; mats stress --target host tests it."
        )
    asleep = [card for card in cards if card.gpu.asleep is True]
    if asleep:
        yield f"{_opening(_of(asleep, cards))} sleeps to save power: not lost, not failed, not woken to be asked."
    if isinstance(machine.host.container, str) and machine.host.container != "none":
        yield f"This runs in a container ({machine.host.container}): it sees the GPUs it was given, and no host log."


def _memory(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        memory = card.gpu.memory
        with_reserved, used = value_of(memory.used_with_reserved) or 0, value_of(memory.used)
        if 0 < with_reserved < _RESERVE and not used and not isinstance(card.gpu.processes, tuple):
            counted = size(memory.used_with_reserved)
            yield (
                f"{counted} used on GPU {card.label} by the older call are what driver and firmware reserve: "
                "an idle GPU is never at 0, and nothing leaks."
            )
    desktop = [
        card
        for card in cards
        if isinstance(card.gpu.processes, tuple) and any(process.draws_only for process in card.gpu.processes)
    ]
    if desktop:
        yield f"{_opening(_of(desktop, cards))} also draws a desktop: its memory and load are part of what is seen."


def _bus(machine: MachineFacts, cards: Sequence[Card]) -> Iterator[str]:
    limits: dict[str, list[Card]] = {}
    for card in cards:
        said = slot_limit(card)
        if said:
            limits.setdefault(said, []).append(card)
    for said, mine in limits.items():
        yield f"PCIe of {_of(mine, cards)}: {said}; a limit of the machine and no fault."
    idle = [
        card
        for card in cards
        if card.gpu.pcie.loaded is not True
        and (value_of(card.gpu.pcie.generation) or 9) < (value_of(card.gpu.pcie.generation_maximum) or 0)
    ]
    if idle:
        yield f"The PCIe link of {_of(idle, cards)} runs slower than it can: normal at rest; --load judges it."
    if machine.devices_assumed and cards:
        yield f"PCIe path: {machine.devices_assumed}; so it is never failed on."


def _log(machine: MachineFacts) -> Iterator[str]:
    log = machine.log
    if isinstance(log, LogFacts):
        what = f"{plural(len(log.incidents), 'incident')}" if log.incidents else "no event of a GPU"
        yield f"Log ({log.origin}): {what} in {log.covers}."
        if log.left_out:
            yield f"{plural(log.left_out, 'line')} of the log were not read, since there are too many."
        if log.quoted:
            yield f"{plural(log.quoted, 'line')} look like events and were written by a program: not counted."


def _attached(machine: MachineFacts, cards: Sequence[Card]) -> Iterator[str]:
    """More GPUs than are told of: a file of one GPU, or one that is cut."""
    attached = value_of(machine.attached)
    if attached and cards and attached > len(cards):
        verb = "is" if len(cards) == 1 else "are"
        yield f"The driver counts {attached:g} GPUs; {len(cards)} of them {verb} told of here."


def _others(machine: MachineFacts) -> Iterator[str]:
    good = praise(machine)
    if good:
        yield f"Said by other tools, and no verdict here: {listed(good, 6)}."
    if isinstance(machine.cuda, str):
        yield f"Driver {_word(machine.driver)} serves programs of CUDA {machine.cuda} and older."


def _word(text: str | Absent) -> str:
    return text if isinstance(text, str) else "(version not seen)"


def _links(cards: Sequence[Card]) -> Iterator[str]:
    """NVLinks of a GPU alone: down means nothing there."""
    alone = [card for card in cards if value_of(active_links(card)) == 0 and not card.sliced]
    if alone and not any(value_of(active_links(card)) for card in cards):
        yield (
            f"No NVLink is up on {_of(alone, cards)}: normal without a partner or bridge, a fault where others "
            "of the machine have theirs."
        )
