"""What changed since an earlier run of the health check: GPUs are matched by UUID, counters by what they count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent, Column, Measurement, Observation, Quantity, Reading, Result, Table, Unit

from ._health_bus import path
from ._health_card import PREFIX, Card, Labels, Seen, check, value_of
from ._health_text import listed, number, plural

_MEMORY = {
    "ecc.lifetime": "uncorrected errors in the card's life",
    "remap.rows": "replaced rows",
    "retired.pages": "retired pages",
}
_LINKS = {
    "nvlink.replays": "NVLink replays and recoveries",
    "nvlink.checksums": "NVLink errors",
    "pcie.corrected": "corrected PCIe errors",
    "pcie.fatal": "uncorrected PCIe errors",
}
_SHOWN = {"pcie.replays": "PCIe replays", "ecc.dram_corrected": "corrected errors", "ecc.uncorrected": "new errors"}
_PER_LANE = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
"""Replays a minute and lane that DCGM allows, by generation (DcgmHealthWatch.cpp)."""
_FORMS = ("%a %b %d %H:%M:%S %Y", "%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")
CARDS = "cards"
NAMES = ("change.memory", "change.replay_share", "change.link_errors", "change.narrower")


@dataclass(frozen=True, slots=True)
class Earlier:
    """A GPU of the baseline: its readings by name, and the words of the table of cards."""

    readings: dict[str, Reading]
    words: dict[str, str]


@dataclass(frozen=True, slots=True)
class Changes:
    seen: tuple[Seen, ...]
    table: Table | None
    notes: tuple[str, ...] = ()


def moment(machine: MachineFacts) -> Reading:
    """Seconds since 1970 of the moment the facts are of; a time without zone is taken as UTC."""
    if isinstance(machine.taken, Absent):
        return machine.taken
    text = machine.taken.strip()
    try:
        found: datetime | None = datetime.fromisoformat(text)
    except ValueError:
        found = next(filter(None, (_parsed(text, form) for form in _FORMS)), None)
    if found is None:
        return Absent(AbsenceKind.UNREADABLE, f"time: {text[:40]!r} cannot be read")
    return Quantity((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), Unit.SECOND)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def cards_table(cards: Sequence[Card]) -> tuple[Table, ...]:
    """Who each GPU is: what a service case asks for, and what a later run compares by; nothing where none is known."""
    columns = tuple(Column(name) for name in ("gpu", "name", "uuid", "serial", "vbios", "driver"))
    rows = tuple(
        (card.label, card.name or card.gpu.name, card.gpu.uuid, card.gpu.serial, card.gpu.vbios, card.gpu.driver)
        for card in cards
    )
    told = any(isinstance(cell, str) for row in rows for cell in row[2:5])
    return (Table(CARDS, "Cards", columns, rows),) if told else ()


def compare(
    machine: MachineFacts, cards: Sequence[Card], now: Sequence[Measurement], baseline: Result | None
) -> Changes:
    """Findings and the table of what changed; without a baseline every change is absent, and says so."""
    if baseline is None:
        none = Absent(AbsenceKind.NOT_TESTED, "changes: no --baseline was given")
        seen = tuple(part for name in (*NAMES, "change.gone", "change.software") for part in check(name, none))
        return Changes(seen, None)
    before = _cards_of(baseline.observation)
    elapsed = _elapsed(baseline.observation, machine)
    seen_now = _by_card(now)
    rows: list[tuple[str, str, str, str]] = []
    seen_parts: list[Seen] = []
    for card in cards:
        earlier = before.get(card.gpu.uuid) if isinstance(card.gpu.uuid, str) else None
        if earlier is None:
            why = Absent(AbsenceKind.NOT_FOUND, "changes: this GPU is not in the baseline")
            seen_parts += [part for name in NAMES for part in card.check(name, why)]
        else:
            seen_parts += _of_card(card, earlier, seen_now.get(card.label, {}), elapsed, rows)
    seen_parts += _machine(cards, before, rows)
    columns = tuple(Column(name) for name in ("gpu", "what", "before", "now"))
    table = Table("changes", "Changes since the baseline", columns, tuple(rows)) if rows else None
    when = f" of {baseline.started}" if baseline.started else ""
    note = f"Compared with the baseline{when}: {plural(len(rows), 'change')}."
    return Changes(tuple(seen_parts), table, (note,))


def _cards_of(observation: Observation) -> dict[str, Earlier]:
    """By UUID. A baseline without that table matches nothing."""
    table = next((table for table in observation.tables if table.name == CARDS), None)
    readings = _by_card(observation.measurements)
    found: dict[str, Earlier] = {}
    for row in table.rows if table else ():
        names = [column.name for column in table.columns] if table else []
        words = {name: cell for name, cell in zip(names, row, strict=True) if isinstance(cell, str)}
        if "uuid" in words:
            found[words["uuid"]] = Earlier(readings.get(words.get("gpu", ""), {}), words)
    return found


def _by_card(measurements: Sequence[Measurement]) -> dict[str, dict[str, Reading]]:
    found: dict[str, dict[str, Reading]] = {}
    for measurement in measurements:
        labels = dict(measurement.labels)
        if set(labels) == {"gpu"} and measurement.name.startswith(PREFIX):
            found.setdefault(labels["gpu"], {})[measurement.name.removeprefix(PREFIX)] = measurement.reading
    return found


def _elapsed(before: Observation, machine: MachineFacts) -> Reading:
    """Seconds from the baseline to now."""
    started = next((m.reading for m in before.measurements if m.name == f"{PREFIX}taken"), None)
    now = moment(machine)
    if started is None or isinstance(started, Absent):
        return Absent(AbsenceKind.NOT_FOUND, "time between baseline and now: the baseline does not tell when it was")
    if isinstance(now, Absent):
        return now
    if now.value <= started.value:
        return Absent(AbsenceKind.UNREADABLE, "time between baseline and now: the baseline is not the earlier one")
    return Quantity(now.value - started.value, Unit.SECOND)


def _of_card(
    card: Card,
    earlier: Earlier,
    now: dict[str, Reading],
    elapsed: Reading,
    rows: list[tuple[str, str, str, str]],
) -> Iterator[Seen]:
    for name, words in _SHOWN.items():
        _delta(card, earlier, now, name, words, rows)
    for group, names in (("change.memory", _MEMORY), ("change.link_errors", _LINKS)):
        deltas = {words: _delta(card, earlier, now, name, words, rows) for name, words in names.items()}
        added = {words: delta.value for words, delta in deltas.items() if isinstance(delta, Quantity)}
        missing = next((delta for delta in deltas.values() if isinstance(delta, Absent)), None)
        grown = [f"{value:,g} {words}" for words, value in added.items() if value > 0]
        total: Reading = Quantity(int(sum(max(0.0, v) for v in added.values())), Unit.COUNT)
        reading = total if added or missing is None else missing
        yield from card.check(group, reading, f"since the baseline: {listed(grown)}", evidence=_span(elapsed))
    yield from _replays(card, earlier, now, elapsed)
    narrower = _narrower(card, earlier, now, rows)
    yield from card.check("change.narrower", narrower, "its PCIe link lost lanes since the baseline")


def _span(elapsed: Reading) -> tuple[str, ...]:
    return () if isinstance(elapsed, Absent) else (f"in {elapsed.value / 3600:.1f} h",)


def _delta(
    card: Card,
    earlier: Earlier,
    now: dict[str, Reading],
    name: str,
    words: str,
    rows: list[tuple[str, str, str, str]],
) -> Reading:
    """What was added. A counter that is lower now was set back by a reset or a restart: all of it is new."""
    nowhere = Absent(AbsenceKind.NOT_FOUND, f"{words}: not in the baseline")
    before, later = earlier.readings.get(name, nowhere), now.get(name, nowhere)
    if isinstance(before, Absent) or isinstance(later, Absent):
        return later if isinstance(later, Absent) else before
    if later.value != before.value:
        restarted = " (counted anew)" if later.value < before.value else ""
        rows.append((card.label, words, number(before), number(later) + restarted))
    return Quantity(later.value - before.value if later.value >= before.value else later.value, Unit.COUNT)


def _replays(card: Card, earlier: Earlier, now: dict[str, Reading], elapsed: Reading) -> Iterator[Seen]:
    """Replays a minute over what DCGM allows for generation and lanes."""
    added = _delta(card, earlier, now, "pcie.replays", "PCIe replays", [])
    most = path(card).most
    reading: Reading
    if isinstance(added, Absent):
        reading = added
    elif isinstance(elapsed, Absent):
        reading = elapsed
    elif isinstance(most, Absent):
        reading = most
    else:
        generation, width = value_of(most.link.generation) or 1, value_of(most.link.width) or 1
        allowed = math.ceil(_PER_LANE.get(int(generation), 0.15) * width)
        reading = Quantity(added.value / (elapsed.value / 60) / allowed, Unit.RATIO)
    yield from card.check(
        "change.replay_share",
        reading,
        f"{number(added)} PCIe replays since the baseline",
        evidence=_span(elapsed),
        method="replays a minute / DCGM's bound for generation and lanes",
    )


def _narrower(card: Card, earlier: Earlier, now: dict[str, Reading], rows: list[tuple[str, str, str, str]]) -> Reading:
    nowhere = Absent(AbsenceKind.NOT_FOUND, "PCIe width: not in the baseline")
    before, later = earlier.readings.get("pcie.width", nowhere), now.get("pcie.width", nowhere)
    if isinstance(before, Absent) or isinstance(later, Absent):
        return later if isinstance(later, Absent) else before
    if before.value != later.value:
        rows.append((card.label, "PCIe lanes", number(before), number(later)))
    return Quantity(max(0, before.value - later.value), Unit.COUNT)


def _machine(
    cards: Sequence[Card], before: dict[str, Earlier], rows: list[tuple[str, str, str, str]]
) -> Iterator[Seen]:
    """GPUs that came or went, and software that changed."""
    uuids = {card.gpu.uuid for card in cards if isinstance(card.gpu.uuid, str)}
    gone = [earlier.words for uuid, earlier in before.items() if uuid not in uuids]
    rows += [(words.get("gpu", "?"), "GPU", words.get("uuid", ""), "gone") for words in gone]
    known: Reading = Quantity(len(gone), Unit.COUNT)
    if not before:
        known = Absent(AbsenceKind.NOT_FOUND, "changes: the baseline names no GPU by UUID")
    elif not uuids:
        known = Absent(AbsenceKind.NOT_FOUND, "changes: no GPU is named by UUID now")
    names = [f"GPU {words.get('gpu', '?')}, {words.get('name', '')}, {words.get('uuid', '')}" for words in gone]
    labels: Labels = ()
    yield from check("change.gone", known, f"gone since the baseline: {listed(names)}", labels=labels)
    changed: list[str] = []
    for card in cards:
        if not isinstance(card.gpu.uuid, str):
            continue
        earlier = before.get(card.gpu.uuid)
        if earlier is None:
            changed.append(f"GPU {card.label} is new")
            rows.append((card.label, "GPU", "not there", card.gpu.uuid))
            continue
        for what, later in (("vbios", card.gpu.vbios), ("driver", card.gpu.driver)):
            was = earlier.words.get(what)
            if was is not None and isinstance(later, str) and was != later:
                changed.append(f"{what} of GPU {card.label}: {was}, now {later}")
                rows.append((card.label, what, was, later))
    software: Reading = known if isinstance(known, Absent) else Quantity(len(changed), Unit.COUNT)
    yield from check("change.software", software, f"changed since the baseline: {listed(changed)}", evidence=changed)
