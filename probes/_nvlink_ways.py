"""What lies between two GPUs, or a GPU and its host, and what it should carry: from the facts of the machine."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mats.facts import LinkFacts, MachineFacts, PciDevice, narrowest
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_bus import link_text, path
from ._health_card import Card, value_of
from ._health_links import active_links
from ._nvlink_rates import gigabytes, link_payload, pcie_payload

if TYPE_CHECKING:
    from mats.architectures import Product

ASK_FOR = "nvidia-smi nvlink -s, nvidia-smi topo -m and lspci -vv tell it; or give --min-bandwidth-gbps"
NOT_KNOWN = f"what lies between these GPUs, and so what it should carry, is not told: {ASK_FOR}"
_SUPERCHIP = re.compile(r"\bG[HB]\d{2,3}\b")
"""GPUs beside a Grace processor: they reach its memory by NVLink-C2C and not by PCIe."""
_ACROSS_SOCKETS = ("SYS", "SOC")
_BY_NVLINKS = re.compile(r"NV(\d{1,3})")


class Kind(enum.StrEnum):
    NVLINK = "NVLink"
    PCIE = "PCIe"
    CHIP = "NVLink-C2C"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Target:
    """What should be carried one way, payload in bytes per second. ``formula``: how it comes about.

    ``at_most``: why the way may be narrower than that, which then proves health and no fault; empty where it is sure.
    """

    bandwidth: Reading
    formula: str = ""
    at_most: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """``name``: the class within which pairs are compared: NV4, PIX, SYS ..., or the kind where no more is told."""

    kind: Kind
    name: str
    target: Target


UNKNOWN_WAY = Way(Kind.UNKNOWN, "not known", Target(Absent(AbsenceKind.NOT_FOUND, NOT_KNOWN)))


def way_between(machine: MachineFacts, first: Card | None, second: Card | None) -> Way:
    """The way that the driver takes between two GPUs: NVLinks where any join them, else PCIe."""
    told = _told_pair(machine, first, second)
    by_links = _BY_NVLINKS.fullmatch(told)
    if first is None or second is None:
        return UNKNOWN_WAY if not told else _way_of(told, UNKNOWN_WAY.target)
    if by_links:
        return Way(Kind.NVLINK, told, _of_links(int(by_links[1]), first, second))
    if told:
        return Way(Kind.PCIE, told, _across(told, _pcie(first, second)))
    counted = _counted(machine, first, second)
    if counted is not None:
        links, doubt = counted
        if links:
            target = _of_links(links, first, second, doubt)
            return Way(Kind.NVLINK, f"NV{links}" if not doubt else "NVLink", target)
        return Way(Kind.PCIE, "PCIe", _pcie(first, second))
    return _by_product(first, second)


def _way_of(told: str, target: Target) -> Way:
    return Way(Kind.NVLINK if _BY_NVLINKS.fullmatch(told) else Kind.PCIE, told, target)


def _told_pair(machine: MachineFacts, first: Card | None, second: Card | None) -> str:
    """How the driver says that the two reach each other; empty where it does not."""
    if first is None or second is None or isinstance(machine.pairs, Absent):
        return ""
    both = {value_of(first.gpu.index), value_of(second.gpu.index)}
    return next((pair.connection for pair in machine.pairs if {pair.first, pair.second} == both), "")


def _counted(machine: MachineFacts, first: Card, second: Card) -> tuple[int, str] | None:
    """How many links join the two by their lists, and why that may be too many; None where no list is told."""
    most = value_of(active_links(first)), value_of(active_links(second))
    if most[0] is None or most[1] is None:
        return None
    least = int(min(most[0], most[1]))
    ups = [_up(card) for card in (first, second)]
    if not least:
        return 0, ""
    ends = [link.remote for link in ups[0] if isinstance(link.remote, str)]
    gpus = () if isinstance(machine.gpus, Absent) else machine.gpus
    others = {gpu.pci for gpu in gpus if isinstance(gpu.pci, str)}
    if ends and any(end in others for end in ends):
        return sum(end == second.gpu.pci for end in ends), ""
    if ends and len(ends) == len(ups[0]):
        return least, ""  # they all end at something that is no GPU: a switch, through which each reaches all
    if len(gpus) == 2 and value_of(machine.attached) in (2, None):
        return least, ""
    return least, "how many of its links lead to which GPU is not told"


def _up(card: Card) -> list[LinkFacts]:
    told = card.gpu.nvlink.links
    return [] if isinstance(told, Absent) else [link for link in told if link.active is True]


def _of_links(count: int, first: Card, second: Card, at_most: str = "") -> Target:
    """So many active links times the payload of one."""
    told: list[Reading] = [link_payload(link) for card in (first, second) for link in _up(card)]
    known = [float(each.value) for each in told if isinstance(each, Quantity)]
    if not known:
        known = [rate for card in (first, second) if (rate := _product_link(card))]
    if not known:
        why = next((each.reason for each in told if isinstance(each, Absent)), "the speed of its links is not told")
        return Target(Absent(AbsenceKind.NOT_FOUND, f"what {count} NVLinks should carry: {why}"))
    one = min(known)
    formula = f"{count} active {'link' if count == 1 else 'links'} x {gigabytes(one)}"
    return Target(Quantity(count * one, Unit.BYTE_PER_SECOND), formula, at_most)


def _across(told: str, target: Target) -> Target:
    """Between sockets data also pass the processors' own link, which no source tells of."""
    if told not in _ACROSS_SOCKETS or target.at_most:
        return target
    return replace(target, at_most="the link between the processors is on the way, and its speed is not told")


def _pcie(first: Card, second: Card) -> Target:
    """The narrowest PCIe link between the two: up from each to where the ways meet."""
    ways = path(first), path(second)
    loaded = all(card.gpu.pcie.loaded is True for card in (first, second))
    ports = _between(ways[0].ports, ways[1].ports)
    found = [narrowest(ports, maximum=not loaded)] if ports else [way.now if loaded else way.most for way in ways]
    known = [
        (float(carries.value), link)
        for link in found
        if not isinstance(link, Absent) and isinstance(carries := link.link.bandwidth, Quantity) and carries.value > 0
    ]
    if len(known) < len(found):
        target = _pcie_of_products(first, second)
        if isinstance(target.bandwidth, Quantity):
            return target
        return Target(next((link for link in found if isinstance(link, Absent)), target.bandwidth))
    least, narrow = min(known, key=lambda each: each[0])
    state = "as read under load" if loaded else "at its best"
    formula = f"the narrowest link between them, {link_text(narrow)} at {narrow.at}, {state}"
    doubt = next((way.assumed for way in ways if way.assumed), "")
    unread = f"the links of {', '.join(narrow.unread)} could not be read" if narrow.unread else ""
    return Target(Quantity(least, Unit.BYTE_PER_SECOND), formula, doubt or unread)


def _between(first: Sequence[PciDevice], second: Sequence[PciDevice]) -> tuple[PciDevice, ...]:
    """The devices whose links lead from one GPU to the other; the part above where their ways meet is not used."""
    shared = {device.address for device in first} & {device.address for device in second}
    if not first or not second:
        return ()
    return tuple(device for device in (*first, *second) if device.address not in shared)


def _by_product(first: Card, second: Card) -> Way:
    """Where nobody tells of links: what the two are sold with."""
    cards = (first, second)
    links = [_product_links(card) for card in cards]
    if all(links) and all("SXM" in card.name for card in cards):
        most, one = min(int(number) for number in links), min(_product_link(card) for card in cards)
        target = Target(
            Quantity(most * one, Unit.BYTE_PER_SECOND),
            f"the product's {most} links x {gigabytes(one)}",
            "how many links are up, and where they lead, is not told",
        )
        return Way(Kind.NVLINK, "NVLink", target)
    if all(_products(card) for card in cards) and not any(links):
        return Way(Kind.PCIE, "PCIe", _pcie(first, second))
    return UNKNOWN_WAY


def _pcie_of_products(first: Card, second: Card) -> Target:
    rates = [_product_pcie(card) for card in (first, second)]
    known = [float(rate.value) for rate in rates if isinstance(rate, Quantity)]
    if len(known) < len(rates):
        return UNKNOWN_WAY.target
    return Target(
        Quantity(min(known), Unit.BYTE_PER_SECOND),
        "the PCIe link that the product can",
        "a slot, a riser or a port may be slower than the card, and none of them is told",
    )


def _products(card: Card) -> tuple[Product, ...]:
    return _products_called(card.name, card.gpu.memory.total) if card.name else ()


@functools.cache
def _products_called(name: str, memory: Reading) -> tuple[Product, ...]:
    """Kept, since every way asks for both its ends, and the table is read and compared whole each time."""
    from mats.architectures import of_driver, products

    return of_driver(name, products(), memory)


def _agreed(values: Sequence[float | None]) -> float:
    """What all of them say, 0 where they differ or one says nothing."""
    known = {value for value in values if value}
    return known.pop() if len(known) == 1 and all(values) else 0


def _product_links(card: Card) -> float:
    return _agreed([value_of(product.nvlink_links) for product in _products(card)])


def _product_link(card: Card) -> float:
    """Payload of one link and direction: the product's figure is of all links and both directions."""
    made = _products(card)
    links, both = (
        _agreed([value_of(product.nvlink_links) for product in made]),
        [value_of(each.nvlink) for each in made],
    )
    return _agreed(both) / 2 / links if links else 0


def _product_pcie(card: Card) -> Reading:
    rates = {pcie_payload(product.pcie_generation, product.pcie_lanes) for product in _products(card)}
    if len(rates) == 1:
        return rates.pop()
    return Absent(AbsenceKind.NOT_FOUND, f"PCIe link: of which product this is ({card.name or 'no name'}) is not known")


def way_to_host(card: Card | None) -> Way:
    """The way between a GPU and its processor's memory."""
    if card is None:
        absent = Absent(AbsenceKind.NOT_FOUND, "the PCIe link of this GPU is not told: lspci -vv or mats capture does")
        return Way(Kind.UNKNOWN, "host", Target(absent))
    if _SUPERCHIP.search(card.name):
        why = (
            "this GPU is beside its processor by NVLink-C2C, of 450 GB/s each way; how much of that a healthy one "
            "reaches is published for few machines only (0.66 to 0.9 one way, 0.4 each of both ways at once)"
        )
        return Way(Kind.CHIP, "host by NVLink-C2C", Target(Absent(AbsenceKind.NOT_FOUND, why)))
    way = path(card)
    link = way.now if card.gpu.pcie.loaded is True else way.most
    if not isinstance(link, Absent):
        rate = link.link.bandwidth
        state = "as read under load" if card.gpu.pcie.loaded is True else "at its best"
        return Way(Kind.PCIE, "host", Target(rate, f"{link_text(link)} at {link.at}, {state}", way.assumed))
    rate = _product_pcie(card)
    doubt = "a slot, a riser or a port may be slower than the card, and none of them is told"
    return Way(Kind.PCIE, "host", Target(rate, "the PCIe link that the product can", doubt))
