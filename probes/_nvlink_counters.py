"""What the counters of links say of the time of a test: differences of two pictures, never totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mats.facts import LinkFacts, PciDevice
from mats.model import AbsenceKind, Absent, Measurement, Quantity, Reading, Unit

from ._health_bus import path
from ._health_card import Card, value_of
from ._nvlink_seen import COUNT, RATIO, Seen, checked, name_of, of_gpu

_MINUTE = 60.0
_ALLOWED, _ALLOWED_FIFTH = 16, 32
"""Corrected PCIe errors a minute that DCGM lets pass, and those of a Gen5 x16 link."""
_DISCARDS = "tx discards"
_OTHERS = ("malformed", "overrun", "rx ", "integrity", "effective errors")
_NO_LOSS = "NVLink before 5 and PCIe count no lost packets: they send again, or the program ends"
_KINDS = ("correctable", "nonfatal", "fatal")


def growth(before: Mapping[str, Card], after: Mapping[str, Card], seconds: float) -> Iterator[Seen]:
    """What grew on each GPU in so many seconds; each counter by itself."""
    for label, card in before.items():
        later = after.get(label)
        if later is not None:
            yield from _nvlink(label, card, later, seconds)
            yield from _pcie(label, card, later)
    yield from _ports(before, after, seconds)


def _nvlink(label: str, card: Card, later: Card, seconds: float) -> Iterator[Seen]:
    labels = of_gpu(label)
    grown = _grown(card, later)
    for name, kind, fault in (
        ("link.nvlink_replays", "replay", "link_errors"),
        ("link.nvlink_recoveries", "recovery", "link_errors"),
        ("link.nvlink_crc_errors", "crc", "link_errors"),
        ("link.nvlink_other_errors", "other", "link_errors"),
    ):
        hit = {what: count for what, count in grown.items() if _kind(what[1]) == kind}
        reading = _total(hit, f"{_what(kind)}: none are counted on this GPU")
        lines = [f"link {link}, {name}: +{by:,g}" for (link, name), count in hit.items() if (by := value_of(count))]
        says = f"{name_of(label)}: {_what(kind)} grew by {_number(reading)} while its links were busy"
        yield from checked(Measurement(name, reading, labels, method="after less before"), fault, says, lines)
        if kind == "crc" and isinstance(reading, Quantity) and seconds > 0:
            rate = Measurement("link.nvlink_crc_rate", Quantity(reading.value / max(seconds, 1.0), Unit.HERTZ), labels)
            yield from checked(rate, fault, says, lines)
    yield _loss(label, card, later, grown)


def _kind(counter: str) -> str:
    """Which sum a counter goes into; empty for those that are parts of another, shares, or no errors."""
    if "recover" in counter:
        return "" if "successful" in counter or "failed" in counter else "recovery"
    for word in ("replay", "crc"):
        if word in counter:
            return word
    return "other" if any(word in counter for word in _OTHERS) and "ber" not in counter.split() else ""


def _what(kind: str) -> str:
    return {
        "replay": "NVLink replays",
        "recovery": "NVLink recoveries",
        "crc": "NVLink checksum errors",
        "other": "other NVLink errors",
    }[kind]


def _links(card: Card) -> dict[int, LinkFacts]:
    told = card.gpu.nvlink.links
    return {} if isinstance(told, Absent) else {link.link: link for link in told}


def _grown(card: Card, later: Card) -> dict[tuple[int, str], Reading]:
    """By link and counter: how much it grew."""
    now = _links(later)
    found: dict[tuple[int, str], Reading] = {}
    for number, link in _links(card).items():
        then = dict(now[number].errors) if number in now else {}
        for name, count in link.errors:
            if name in then:
                found[number, name] = _difference(count, then[name], f"NVLink {number}, {name}")
    return found


def _difference(before: Reading, after: Reading, what: str) -> Reading:
    if isinstance(before, Absent) or isinstance(after, Absent):
        return before if isinstance(before, Absent) else after
    if after.value < before.value:
        return Absent(AbsenceKind.UNREADABLE, f"{what}: the counter went back, as after a reset")
    return Quantity(after.value - before.value, before.unit)


def _total(grown: Mapping[tuple[int, str], Reading], missing: str) -> Reading:
    known = [count.value for count in grown.values() if isinstance(count, Quantity)]
    if known:
        return Quantity(sum(known), COUNT)
    first = next((count for count in grown.values() if isinstance(count, Absent)), None)
    return first or Absent(AbsenceKind.NOT_SUPPORTED, missing)


def _number(reading: Reading) -> str:
    return f"{reading.value:,g}" if isinstance(reading, Quantity) else "an unknown number"


def _loss(label: str, card: Card, later: Card, grown: Mapping[tuple[int, str], Reading]) -> Measurement:
    """Discarded of all sent and received packets, where the hardware counts both."""
    now = _links(later)
    packets: dict[tuple[int, str], Reading] = {
        (number, "packets"): _difference(link.packets, now[number].packets, f"NVLink {number}, packets")
        for number, link in _links(card).items()
        if number in now and isinstance(link.packets, Quantity)
    }
    discards = {what: count for what, count in grown.items() if what[1] == _DISCARDS}
    reading: Reading
    if not packets or not discards:
        fifth = any(_fifth(link) for link in _links(card).values())
        missing = "packet and discard counters: this driver does not tell them" if fifth else _NO_LOSS
        reading = Absent(AbsenceKind.NOT_SUPPORTED, f"packet loss: {missing}")
    else:
        sent, lost = _total(packets, ""), _total(discards, "")
        if isinstance(sent, Absent) or isinstance(lost, Absent):
            reading = sent if isinstance(sent, Absent) else lost
        elif sent.value <= 0:
            reading = Absent(AbsenceKind.INSUFFICIENT, "packet loss: no packet was counted during the test")
        else:
            reading = Quantity(lost.value / sent.value, RATIO)
    return Measurement("link.packet_loss", reading, of_gpu(label), method="discards over packets of NVLink 5")


def _fifth(link: LinkFacts) -> bool:
    text = link.version.partition(".")[0] if isinstance(link.version, str) else ""
    return text.isdecimal() and int(text) >= 5


def _pcie(label: str, card: Card, later: Card) -> Iterator[Seen]:
    reading = _difference(card.gpu.pcie.replays, later.gpu.pcie.replays, "PCIe replays")
    measured = Measurement("link.pcie_replays", reading, of_gpu(label), method="after less before")
    yield from checked(
        measured, "link_errors", f"{name_of(label)}: {_number(reading)} PCIe packets were sent again during the test"
    )


def _ports(before: Mapping[str, Card], after: Mapping[str, Card], seconds: float) -> Iterator[Seen]:
    """Errors that the system counted at the cards and at every port above them, each once."""
    then, now = _devices(before), _devices(after)
    if not then:
        absent = Absent(AbsenceKind.NOT_FOUND, "PCIe error counters (AER): the bus was not read")
        yield Measurement("link.pcie_corrected", absent)
        yield Measurement("link.pcie_corrected_share", absent)
        yield Measurement("link.pcie_uncorrected", absent)
    for address, device in then.items():
        if address not in now:
            continue
        counts = {
            kind: _difference(device.errors.total(kind), now[address].errors.total(kind), f"{address}, {kind} errors")
            for kind in _KINDS
        }
        labels = (("at", address),)
        corrected = counts["correctable"]
        names = _named(device, now[address])
        says = f"{address}: {_number(corrected)} corrected PCIe errors while its link was busy"
        yield from checked(Measurement("link.pcie_corrected", corrected, labels), "link_errors", says, names)
        allowed = _ALLOWED_FIFTH if _is_fifth(now[address]) else _ALLOWED
        share: Reading = corrected
        if isinstance(corrected, Quantity):
            share = Quantity(corrected.value / (allowed * max(seconds, _MINUTE) / _MINUTE), RATIO)
        method = f"of the {allowed} a minute that are allowed; a shorter test counts as a minute"
        measured = Measurement("link.pcie_corrected_share", share, labels, method=method)
        yield from checked(measured, "link_errors", says, names)
        graver = [count for kind, count in counts.items() if kind != "correctable"]
        total = _total({(place, ""): count for place, count in enumerate(graver)}, "")
        says = f"{address}: {_number(total)} uncorrected PCIe errors while its link was busy"
        yield from checked(Measurement("link.pcie_uncorrected", total, labels), "link_errors", says, names)


def _devices(cards: Mapping[str, Card]) -> dict[str, PciDevice]:
    return {device.address: device for card in cards.values() for device in path(card).ports}


def _named(before: PciDevice, after: PciDevice) -> list[str]:
    """The errors by the system's names, as far as they grew."""
    lines = []
    for kind in _KINDS:
        counts, later = getattr(before.errors, kind), getattr(after.errors, kind)
        if isinstance(counts, Absent) or isinstance(later, Absent):
            continue
        grown = {name: count.value - value_of(dict(counts).get(name, count)) for name, count in later}
        lines += [f"{name}: +{by:,g}" for name, by in grown.items() if by > 0 and not name.startswith("TOTAL_")]
    return lines


def _is_fifth(device: PciDevice) -> bool:
    return (value_of(device.now.generation) or 0) >= 5 and (value_of(device.now.width) or 0) >= 16
