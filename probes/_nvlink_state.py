"""What files say of the links themselves, in sentences: links that are up, what they carry, counters without a rate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from mats.facts import MachineFacts
from mats.model import Absent, Quantity

from ._health_bus import link_text, path
from ._health_card import Card, value_of
from ._health_links import active_links
from ._health_text import listed
from ._nvlink_rates import gigabytes, link_payload
from ._nvlink_seen import name_of


def state_notes(machine: MachineFacts, cards: Mapping[str, Card]) -> tuple[str, ...]:
    """Every sentence."""
    found = [*_joined(machine)]
    for label, card in cards.items():
        found += [*_links(label, card), *_counted(label, card), *_bus(label, card)]
    found += _logged(machine, {card.gpu.pci for card in cards.values() if isinstance(card.gpu.pci, str)})
    return tuple(dict.fromkeys(found))


def _joined(machine: MachineFacts) -> Iterator[str]:
    """Which GPUs are joined by NVLinks."""
    pairs = () if isinstance(machine.pairs, Absent) else machine.pairs
    by_links: dict[str, list[str]] = {}
    for pair in pairs:
        by_links.setdefault(pair.connection, []).append(f"{pair.first}-{pair.second}")
    for name, joined in by_links.items():
        if name.startswith("NV"):
            yield f"{name.removeprefix('NV')} NVLinks between GPU {listed(joined)}."
    others = [name for name in by_links if not name.startswith("NV")]
    if others:
        which = "; ".join(f"{name}: {listed(by_links[name])}" for name in others)
        yield f"By PCIe alone: {which}. Pairs are compared with pairs that are joined alike."


def _links(label: str, card: Card) -> Iterator[str]:
    told = card.gpu.nvlink.links
    links = [] if isinstance(told, Absent) else [link for link in told if link.active is True]
    speeds = [link.speed.value for link in links if isinstance(link.speed, Quantity)]
    payloads = [rate.value for link in links if isinstance(rate := link_payload(link), Quantity)]
    up = value_of(active_links(card))
    if not speeds or up is None:
        return
    each = f"{min(speeds) / 1e9:.3f} GB/s" if min(speeds) == max(speeds) else f"from {min(speeds) / 1e9:.3f} GB/s"
    yield (
        f"{name_of(label)}: {up:g} of {len(told) if not isinstance(told, Absent) else up:g} NVLinks are up at {each} "
        f"each, {gigabytes(sum(speeds))} together, of which {gigabytes(sum(payloads))} are payload."
    )


def _counted(label: str, card: Card) -> Iterator[str]:
    """Totals since the driver was loaded: a count without a rate is no finding here."""
    told = card.gpu.nvlink.links
    hit = [
        f"link {link.link}, {name}: {count.value:,g}"
        for link in (() if isinstance(told, Absent) else told)
        for name, count in link.errors
        if isinstance(count, Quantity) and count.value and ("err" in name or "crc" in name or "recover" in name)
    ]
    if hit:
        yield f"{name_of(label)} has counted {listed(hit)} since the driver was loaded: a count without a rate, a note."


def _bus(label: str, card: Card) -> Iterator[str]:
    """The PCIe link as it was read, which says nothing of its speed at work unless it was busy."""
    way = path(card)
    if isinstance(way.now, Absent) or isinstance(way.most, Absent) or card.in_guest:
        return
    state = "under load" if card.gpu.pcie.loaded is True else "as it was read: at rest a link slows down, no finding"
    yield f"{name_of(label)}: its PCIe path is {link_text(way.now)} of {link_text(way.most)}, {state}."


def _logged(machine: MachineFacts, known: Collection[str]) -> Iterator[str]:
    """Errors of PCIe or NVLink in a log, which mats health judges."""
    incidents = () if isinstance(machine.log, Absent) else machine.log.incidents
    for each in incidents:
        if each.kind in ("pcie", "nvlink", "switch", "link_limit"):
            where = each.pci if isinstance(each.pci, str) else "a device that is not named"
            behind = "" if where in known else " Which GPU is behind it is not told: the PCI tree (lspci -t) tells."
            yield f"The log tells of {where}: {each.title}. mats health --from judges events.{behind}"
