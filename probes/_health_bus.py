"""Checks of the way to the host: the PCIe link and every port above it, its errors, and the memory windows (BARs)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mats.facts import LEGACY_WINDOW, PathLink, PciDevice, PciLink, narrowest, path_of
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_card import NONE, ONE, Card, CardCheck, Seen, value_of
from ._health_text import number, size

_RATES = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
_GUEST = "a virtual machine shows ports and windows of its own making"
_UNCORRECTED = ("non-fatal errors", "fatal errors")
_BUSY, _FAST = 0.5, 2
"""The share of time and the slowest performance state in which a GPU at work keeps its link up."""


@dataclass(frozen=True, slots=True)
class Path:
    """The link of a GPU as the driver and the bus tell it. ``now`` and ``most`` are the narrowest of the whole way."""

    now: PathLink | Absent
    most: PathLink | Absent
    assumed: str
    ports: tuple[PciDevice, ...]


def path(card: Card) -> Path:
    """The way through the bus; of a source that shows no bus, what the driver tells of both ends."""
    devices = card.machine.devices
    if isinstance(devices, tuple) and isinstance(card.device, PciDevice) and not card.in_guest:
        way = path_of(devices, card.device.address)
        ports = (card.device,) if isinstance(way, Absent) else way
        assumed = card.machine.devices_assumed
        now, most = narrowest(ports, assumed=assumed), narrowest(ports, maximum=True, assumed=assumed)
        if not isinstance(now, Absent):
            return Path(now, most, assumed, ports)
    facts = card.gpu.pcie
    where = card.gpu.pci if isinstance(card.gpu.pci, str) else "the GPU"
    return Path(
        _told(facts.generation, facts.width, where), _told(facts.generation_maximum, facts.width_maximum, where), "", ()
    )


def _told(generation: Reading, width: Reading, where: str) -> PathLink | Absent:
    """A link from the driver's two numbers."""
    if isinstance(generation, Absent):
        return generation
    if isinstance(width, Absent):
        return width
    rate = _RATES.get(int(generation.value))
    if rate is None or width.value < 1:
        return Absent(AbsenceKind.UNREADABLE, f"PCIe link: the driver says Gen{generation.value:g} x{width.value:g}")
    return PathLink(PciLink(Quantity(rate, Unit.HERTZ), width), where, ())


def link_text(link: PathLink | Absent) -> str:
    """``Gen4 x16``."""
    if isinstance(link, Absent):
        return "not seen"
    return f"Gen{number(link.link.generation)} x{number(link.link.width)}"


def lanes(card: Card) -> Iterator[Seen]:
    """Lanes that are missing at rest: a link lowers its speed then, and keeps its width."""
    facts = card.gpu.pcie
    ours = card.device.now.width if isinstance(card.device, PciDevice) else facts.width
    most = card.device.maximum.width if isinstance(card.device, PciDevice) else facts.width_maximum
    if isinstance(ours, Absent):
        ours = facts.width
    if isinstance(facts.width_maximum, Quantity):  # the driver's maximum is that of card and slot together
        most = facts.width_maximum
    yield from card.check("pcie.width", ours)
    reading: Reading
    if card.in_guest:
        reading = Absent(AbsenceKind.NOT_SUPPORTED, f"PCIe lanes: {_GUEST}")
    elif card.laptop and facts.loaded is not True:
        reading = Absent(AbsenceKind.NOT_TESTED, "PCIe lanes: a laptop may drop some at rest; --load judges them")
    elif isinstance(ours, Absent) or isinstance(most, Absent):
        reading = ours if isinstance(ours, Absent) else most
    else:
        slot = _slot_width(card)
        able = min(most.value, slot) if slot else most.value
        reading = Quantity(max(0, able - ours.value), Unit.COUNT)
    yield from card.check(
        "pcie.lanes_lost",
        reading,
        f"the link runs x{number(ours)} where card and slot can x{number(most)}",
        evidence=_ways(card),
    )


def _slot_width(card: Card) -> float:
    """Lanes of the port right above, 0 where it is not told."""
    ports = path(card).ports
    return value_of(ports[1].maximum.width) or 0 if len(ports) > 1 else 0


def under_load(card: Card) -> Iterator[Seen]:
    """The link while it is kept busy; at rest it is never judged, since it lowers its speed by design."""
    way = path(card)
    loaded = card.gpu.pcie.loaded is True
    share = _share(card, way)
    says = f"the path runs {link_text(way.now)} and could run {link_text(way.most)}"
    sure = loaded and not way.assumed and not card.in_guest
    rest = "at rest a link lowers its speed, which is normal: --load judges it"
    if loaded:
        rest = f"{_GUEST if card.in_guest else way.assumed}; so it is not failed"
    judged = share if sure or isinstance(share, Absent) else Absent(AbsenceKind.NOT_TESTED, f"PCIe under load: {rest}")
    yield from card.check("pcie.loaded_share", judged, says, evidence=_ways(card))
    facts = card.gpu.pcie
    full_width = value_of(facts.width) == value_of(facts.width_maximum)  # lanes are a check of their own
    busy = isinstance(share, Quantity) and not sure and (loaded or (_at_work(card) and full_width))
    held: Reading = share if isinstance(share, Absent) or busy else judged
    if isinstance(share, Quantity) and sure:
        held = Absent(AbsenceKind.NOT_TESTED, "PCIe while the GPU works: it was judged under load")
    doubt = _GUEST if card.in_guest else way.assumed
    yield from card.check("pcie.busy_share", held, says, evidence=[*_ways(card), *([doubt] if doubt else [])])


def _share(card: Card, way: Path) -> Reading:
    """Bandwidth of the narrowest link now over that of the narrowest at its best."""
    if isinstance(way.now, Absent):
        return way.now
    if isinstance(way.most, Absent):
        return way.most
    now, most = way.now.link.bandwidth, way.most.link.bandwidth
    if isinstance(now, Absent) or isinstance(most, Absent):
        return now if isinstance(now, Absent) else most
    best = min(most.value, _driver_best(card) or most.value)
    if best <= 0 or now.value <= 0:
        return Absent(AbsenceKind.UNREADABLE, "PCIe link: it reads as one without lanes")
    return Quantity(min(1.0, now.value / best), Unit.RATIO)


def _driver_best(card: Card) -> float:
    """What the driver says that card and slot can together; 0 where it says nothing."""
    told = _told(card.gpu.pcie.generation_maximum, card.gpu.pcie.width_maximum, "")
    return 0 if isinstance(told, Absent) else value_of(told.link.bandwidth) or 0


def _at_work(card: Card) -> bool:
    busy, state = value_of(card.gpu.busy), value_of(card.gpu.performance_state)
    return busy is not None and busy >= _BUSY and state is not None and state <= _FAST


def _ways(card: Card) -> list[str]:
    """Each end of each link of the path, and what the driver says of card and slot."""
    facts, said = card.gpu.pcie, []
    for device in path(card).ports:
        now, most = PathLink(device.now, device.address, ()), PathLink(device.maximum, device.address, ())
        said.append(f"{device.address}: {link_text(now)} of {link_text(most)}")
    card_most, slot_most = value_of(facts.generation_device), value_of(facts.generation_host)
    if card_most and slot_most and slot_most < card_most:
        said.append(f"the slot is Gen{slot_most:g}, the card Gen{card_most:g}: the slot limits it, which is no fault")
    if isinstance(facts.idle_generation, Quantity):
        said.append(f"before the load: Gen{number(facts.idle_generation)} x{number(facts.idle_width)}")
    return said


def slot_limit(card: Card) -> str:
    """A sentence where slot or ports are slower than the card; empty otherwise."""
    way, facts = path(card), card.gpu.pcie
    if card.in_guest:
        return ""
    device, host = value_of(facts.generation_device), value_of(facts.generation_host)
    if device and host and host < device:
        return f"the slot allows Gen{host:g}, the card could do Gen{device:g}"
    ports = way.ports
    if len(ports) > 1 and not isinstance(way.now, Absent) and not isinstance(way.most, Absent):
        own = ports[0].maximum
        if way.most.at != ports[0].address and way.most.link != own:
            return (
                f"port {way.most.at} allows {link_text(way.most)}, the card could do {link_text(PathLink(own, '', ()))}"
            )
        if way.now.at != ports[0].address and way.now.link != ports[0].now:
            return f"the path runs {link_text(way.now)}, the least of it at port {way.now.at}"
    return ""


def link_errors(card: Card) -> Iterator[Seen]:
    """Errors at the GPU and at the ports above it; corrected ones and replays are judged by rate only.

    The system's counters (AER) have the word; where it has none, the driver's own of the card's end.
    """
    ports = path(card).ports
    own = [("the card, " + name, count) for name, count in card.gpu.pcie.errors if name in _UNCORRECTED]
    counts = [(device.address, device.errors.total(kind)) for device in ports for kind in ("nonfatal", "fatal")]
    reading, hit = _sum(counts if _known(counts) else own or counts)
    yield from card.check("pcie.fatal", reading, "uncorrected PCIe errors were seen on its path", evidence=hit)
    corrected = [(device.address, device.errors.total("correctable")) for device in ports]
    driver = [("the card", count) for name, count in card.gpu.pcie.errors if name == "correctable errors"]
    yield from card.check("pcie.corrected", _sum(corrected if _known(corrected) else driver or corrected)[0])
    yield from card.check("pcie.replays", card.gpu.pcie.replays)
    facts = card.gpu.pcie
    loaded = facts.corrected_loaded
    if facts.loaded is not True:
        loaded = Absent(AbsenceKind.NOT_TESTED, "PCIe errors under load: --load counts them")
    seconds = value_of(facts.loaded_seconds) or 0
    yield from card.check(
        "pcie.corrected_loaded", loaded, f"{number(loaded)} corrected errors on its path in {seconds:.1f} s of copies"
    )


def _known(counts: list[tuple[str, Reading]]) -> bool:
    return any(isinstance(count, Quantity) for _, count in counts)


def _sum(counts: list[tuple[str, Reading]]) -> tuple[Reading, list[str]]:
    """The sum of what is told, and where it is not 0."""
    missing: Reading = Absent(AbsenceKind.NOT_FOUND, "PCIe error counters (AER): not shown in this source")
    known = [(where, count.value) for where, count in counts if isinstance(count, Quantity)]
    first = next((count for _, count in counts if isinstance(count, Absent)), missing)
    hit = [f"{where}: {count:g}" for where, count in known if count]
    return (Quantity(sum(count for _, count in known), Unit.COUNT) if known else first), hit


def windows(card: Card) -> Iterator[Seen]:
    """The memory windows: placed at all, and how BAR1 stands to what it could be. It never tells how much memory is."""
    device = card.device
    bars = device if isinstance(device, Absent) else device.bars
    unplaced: Reading
    if isinstance(bars, Absent):
        unplaced = bars
    else:
        lost = [bar for bar in bars if bar.memory and not bar.placed and bar.index <= 5]
        unplaced = Quantity(len(lost), Unit.COUNT)
    yield from card.check("bar.unplaced", unplaced, f"{number(unplaced)} of its memory windows have no address")
    window = _window(card)
    choices = _choices(card)
    yield from card.check("bar.partly_resized", *_partly(card, window, choices))
    off: Reading = window
    if card.in_guest:
        off = Absent(AbsenceKind.NOT_SUPPORTED, f"resizable BAR: {_GUEST}")
    elif isinstance(window, Quantity):
        legacy = window.value <= LEGACY_WINDOW
        off = ONE if legacy and choices and max(choices) > window.value else NONE
        if legacy and not choices and _may_resize(card):
            off = ONE
    evidence = [f"it could be up to {size(Quantity(max(choices), Unit.BYTE))}"] if choices else []
    yield from card.check("bar.resizable_off", off, f"BAR1 is {size(window)}: resizable BAR is off", evidence=evidence)


def _window(card: Card) -> Reading:
    told = card.gpu.window.total
    if isinstance(told, Quantity) or isinstance(card.device, Absent):
        return told
    bar = card.device.framebuffer
    return told if isinstance(bar, Absent) else Quantity(bar.size, Unit.BYTE)


def _choices(card: Card) -> tuple[int, ...]:
    """Sizes to which the window can be set, empty where it cannot or is not told."""
    if isinstance(card.device, Absent) or isinstance(card.device.resizable, Absent):
        return ()
    bar = card.device.framebuffer
    index = None if isinstance(bar, Absent) else bar.index
    fitting = [each.sizes for each in card.device.resizable if index is None or each.index == index]
    return fitting[0] if fitting else ()


def _may_resize(card: Card) -> bool:
    """GeForce and RTX cards since Ampere have a resizable BAR, which firmware may leave at 256 MiB."""
    architecture = card.gpu.architecture if isinstance(card.gpu.architecture, str) else ""
    recent = any(word in architecture for word in ("Ampere", "Ada", "Blackwell"))
    return recent and any(word in card.name for word in ("GeForce", "RTX"))


def _partly(card: Card, window: Reading, choices: tuple[int, ...]) -> tuple[Reading, str]:
    memory = card.gpu.memory.total
    if card.in_guest:
        return Absent(AbsenceKind.NOT_SUPPORTED, f"BAR1: {_GUEST}"), ""
    if isinstance(window, Absent) or isinstance(memory, Absent):
        return (window if isinstance(window, Absent) else memory), ""
    larger = bool(choices) and max(choices) > window.value
    partly = LEGACY_WINDOW < window.value < memory.value and larger
    return (ONE if partly else NONE), f"BAR1 is {size(window)} of {size(memory)}"


def dead_device(card: Card) -> bool:
    """Its registers read as all ones: width 63, ``rev ff``."""
    device = card.device
    if isinstance(device, Absent):
        return False
    gone = isinstance(device.now.width, Absent) and device.now.width.kind is AbsenceKind.DEVICE_LOST
    return not device.answers or gone


CHECKS: tuple[CardCheck, ...] = (lanes, under_load, link_errors, windows)
