"""The tables of the health check for people: a row for each GPU, the incidents, the paths, the links, the processes."""

from __future__ import annotations

from collections.abc import Sequence

from mats.facts import GpuFacts, LogFacts, MachineFacts, RecoveryAction
from mats.model import AbsenceKind, Absent, Cell, Column, Quantity, Reading, Table, Unit

from ._health_bus import link_text, path
from ._health_card import Card, first_known, value_of
from ._health_errors import lifetime, uncorrected
from ._health_events import card_of, title
from ._health_links import active_links
from ._health_text import age

_ROWS = 200
"""Rows of the log's incidents that are kept; a machine in trouble writes thousands."""


def tables(machine: MachineFacts, cards: Sequence[Card]) -> tuple[Table, ...]:
    """Those that have a row."""
    made = (
        gpus(cards),
        incidents(machine, cards),
        paths(machine, cards),
        links(cards),
        pairs(machine),
        instances(cards),
        processes(cards),
    )
    return tuple(table for table in made if table.rows)


def _cell(reading: Reading) -> Cell:
    return reading if isinstance(reading, Absent) else reading.value


def gpus(cards: Sequence[Card]) -> Table:
    """State of each GPU in one row."""
    columns = (
        Column("gpu"),
        Column("name"),
        Column("pci"),
        Column("temp", Unit.CELSIUS),
        Column("power", Unit.WATT),
        Column("used", Unit.BYTE),
        Column("total", Unit.BYTE),
        Column("ecc_new", Unit.COUNT),
        Column("ecc_life", Unit.COUNT),
        Column("replaced"),
        Column("pcie"),
        Column("links", Unit.COUNT),
        Column("driver_asks"),
    )
    return Table("gpus", "GPUs", columns, tuple(_row(card) for card in cards))


def _row(card: Card) -> tuple[Cell, ...]:
    gpu = card.gpu
    return (
        card.label,
        card.name or gpu.name,
        gpu.pci,
        _cell(gpu.temperature),
        _cell(gpu.power),
        _cell(first_known(gpu.memory.used, gpu.memory.used_with_reserved)),
        _cell(gpu.memory.total),
        _cell(uncorrected(card)),
        _cell(lifetime(gpu.ecc.aggregate)),
        _replaced(gpu),
        _link(card),
        _cell(active_links(card)),
        _asked(gpu),
    )


def _replaced(gpu: GpuFacts) -> Cell:
    """Replaced rows or pages, and what waits: ``3 rows, pending``."""
    rows = gpu.remap
    if isinstance(rows.pending, Quantity) or isinstance(rows.uncorrectable, Quantity):
        count = int((value_of(rows.correctable) or 0) + (value_of(rows.uncorrectable) or 0))
        state = "failed" if value_of(rows.failed) else "pending" if value_of(rows.pending) else ""
        return f"{count} {'row' if count == 1 else 'rows'}" + (f", {state}" if state else "")
    pages = gpu.retired
    if isinstance(pages.double_bit, Quantity) or isinstance(pages.single_bit, Quantity):
        count = int((value_of(pages.double_bit) or 0) + (value_of(pages.single_bit) or 0))
        return f"{count} {'page' if count == 1 else 'pages'}" + (", pending" if pages.pending is True else "")
    if isinstance(rows.pending, Absent) and rows.pending.kind is AbsenceKind.NOT_SUPPORTED:
        return first_absent(pages.double_bit, rows.pending)
    return rows.pending if isinstance(rows.pending, Absent) else ""


def first_absent(*readings: Reading) -> Absent:
    return next(reading for reading in readings if isinstance(reading, Absent))


def _link(card: Card) -> Cell:
    """``Gen1 x16 of 4 x16``."""
    way = path(card)
    if isinstance(way.now, Absent):
        return way.now
    most = link_text(way.most).removeprefix("Gen")
    return f"{link_text(way.now)} of {most}"


def _asked(gpu: GpuFacts) -> Cell:
    action = gpu.recovery.action
    if isinstance(action, RecoveryAction):
        return "nothing" if action is RecoveryAction.NONE else action.value
    if gpu.recovery.reset_required is True:
        return "reset the GPU"
    if gpu.recovery.reset_required is False:
        return "nothing"
    return action


def incidents(machine: MachineFacts, cards: Sequence[Card]) -> Table:
    """What the log tells, each fault once."""
    columns = tuple(Column(name) for name in ("no", "age", "gpu", "what", "xids", "grade"))
    log = machine.log
    rows: list[tuple[Cell, ...]] = []
    if isinstance(log, LogFacts):
        for place, incident in enumerate(log.incidents[:_ROWS]):
            card = card_of(incident, cards)
            where = card.label if card else incident.pci if isinstance(incident.pci, str) else "not named"
            when = "not told" if isinstance(incident.age, Absent) else age(incident.age).removesuffix(" ago")
            numbers = ", ".join(map(str, incident.xids))
            rows.append((str(place + 1), when, where, title(incident, card), numbers, incident.grade.value))
    return Table("incidents", "Incidents of the log", columns, tuple(rows))


def paths(machine: MachineFacts, cards: Sequence[Card]) -> Table:
    """Every end of a link from each GPU up to the processor."""
    columns = tuple(Column(name) for name in ("gpu", "device", "now", "at_most", "driver"))
    rows: list[tuple[Cell, ...]] = []
    for card in cards:
        for device in path(card).ports:
            now = _ends(device.now.generation, device.now.width)
            most = _ends(device.maximum.generation, device.maximum.width)
            rows.append((card.label, device.address, now, most, device.driver))
    return Table("path", "PCIe path of each GPU", columns, tuple(rows))


def _ends(generation: Reading, width: Reading) -> Cell:
    if isinstance(generation, Absent):
        return generation
    return width if isinstance(width, Absent) else f"Gen{generation.value:g} x{width.value:g}"


def links(cards: Sequence[Card]) -> Table:
    """NVLinks of those GPUs that have any."""
    columns = (
        Column("gpu"),
        Column("up", Unit.COUNT),
        Column("listed", Unit.COUNT),
        Column("down"),
        Column("speed", Unit.BYTE_PER_SECOND),
        Column("errors", Unit.COUNT),
    )
    rows: list[tuple[Cell, ...]] = []
    for card in cards:
        told = card.gpu.nvlink.links
        active = active_links(card)
        if isinstance(told, Absent):
            if isinstance(active, Quantity) and active.value:
                rows.append((card.label, active.value, told, told, told, told))
            continue
        down = [str(link.link) for link in told if link.active is False]
        speeds = [link.speed.value for link in told if isinstance(link.speed, Quantity)]
        counts = [count.value for link in told for _, count in link.errors if isinstance(count, Quantity)]
        silent = Absent(AbsenceKind.NOT_FOUND, "not shown in this source")
        rows.append(
            (
                card.label,
                _cell(active),
                len(told),
                ", ".join(down) or "none",
                max(speeds) if speeds else silent,
                sum(counts) if counts else silent,
            )
        )
    return Table("links", "NVLinks", columns, tuple(rows))


_WAYS = {
    "PIX": "through one PCIe switch",
    "PXB": "through several PCIe switches",
    "PHB": "through the processor's PCIe bridge",
    "NODE": "across PCIe bridges of one NUMA node",
    "SYS": "across the link between processors",
    "SOC": "across the link between processors",
}


def pairs(machine: MachineFacts) -> Table:
    """How GPUs reach each other, the pairs of one kind together: each pair is judged by its own kind."""
    columns = (Column("connection"), Column("pairs"), Column("meaning"))
    kinds: dict[str, list[str]] = {}
    for pair in () if isinstance(machine.pairs, Absent) else machine.pairs:
        kinds.setdefault(pair.connection, []).append(f"{pair.first}-{pair.second}")
    rows = tuple((kind, ", ".join(found), _meaning(kind)) for kind, found in sorted(kinds.items()))
    return Table("pairs", "Ways between GPUs", columns, rows)


def _meaning(kind: str) -> str:
    number = kind.removeprefix("NV")
    if kind != number and number.isdigit():
        return "one NVLink" if number == "1" else f"{number} NVLinks"
    return _WAYS.get(kind, "not known")


def instances(cards: Sequence[Card]) -> Table:
    """MIG instances with their share."""
    columns = (
        Column("gpu"),
        Column("instance"),
        Column("processors", Unit.COUNT),
        Column("used", Unit.BYTE),
        Column("total", Unit.BYTE),
        Column("ecc_new", Unit.COUNT),
    )
    rows: list[tuple[Cell, ...]] = []
    for card in cards:
        found = card.gpu.mig.instances
        for each in () if isinstance(found, Absent) else found:
            name = f"GI {each.gpu_instance}"
            used, total = _cell(each.memory.used), _cell(each.memory.total)
            rows.append((card.label, name, _cell(each.multiprocessors), used, total, _cell(each.sram_uncorrected)))
    return Table("instances", "MIG instances", columns, tuple(rows))


def processes(cards: Sequence[Card]) -> Table:
    """Who is on the GPUs."""
    columns = (Column("gpu"), Column("pid"), Column("memory", Unit.BYTE), Column("name"), Column("kind"))
    rows: list[tuple[Cell, ...]] = []
    for card in cards:
        listed = card.gpu.processes
        for process in () if isinstance(listed, Absent) else listed:
            kind = "draws" if process.draws_only else "computes"
            rows.append((card.label, str(process.pid), _cell(process.memory), process.name, kind))
    return Table("processes", "Processes on the GPUs", columns, tuple(rows))
