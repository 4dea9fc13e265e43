"""How long copies between simulated cards take, alone and at the same moment: pure functions of a plan of links.

A way is a list of stretches, each with what it can carry; copies that share a stretch share it evenly, and what one
cannot use is left to the others. A card has one stretch to its host bridge and one from it, so that many copies to one
card share the last, and both ways at once do not disturb each other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from mats.devices._fabric_plans import FabricPlan
from mats.devices._sim_link import SimLink, link_of
from mats.model import Quantity

NVLINK_STARTUP, SWITCH_STARTUP, PCIE_STARTUP, HOST_STARTUP = 2e-6, 2.5e-6, 3e-6, 14e-6
"""Seconds before a copy's first byte: 1.1 to 3.4 us were measured where cards reach each other, 10 to 20 elsewhere."""
NVLINK_HOP, SWITCH_HOP, PCIE_HOP = 700e-9, 825e-9, 1400e-9
"""Seconds of one load from another card's memory: 825 ns were measured through a switch of NVLink 4."""
STAGED = 0.75
"""Share of its link that a copy reaches which stops in the host's memory: it is copied on while the next part comes."""
BETWEEN_BRIDGES = 60e9
"""Bytes a second and direction between two host bridges."""

Stretch = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """``stretches``: what is passed, and its bytes per second. ``hop``: seconds of one load over it, 0: none can be."""

    stretches: tuple[tuple[Stretch, float], ...]
    startup: float
    hop: float
    nvlink: bool = False

    @property
    def bandwidth(self) -> float:
        """What a copy gets that has it to itself, in bytes per second."""
        return min(speed for _, speed in self.stretches)


@functools.cache
def way_between(plan: FabricPlan, link: SimLink, start: int, end: int, *, direct: bool) -> Way:
    """The way of a copy from ``start`` to ``end``; ``direct``: they are connected, else it stops in the host."""
    slow = plan.of("slow", start, end)
    factor = slow.factor if slow else 1.0
    active = min(plan.active_links(start), plan.active_links(end)) if plan.links_between(start, end) else 0
    if direct and active:
        return _over_nvlink(plan, start, end, active * plan.link_speed * plan.carried, factor)
    stretches: list[tuple[Stretch, float]] = [
        (("up", start), _carried(plan, link, start)),
        (("down", end), _carried(plan, link, end)),
    ]
    bridges = start // plan.cards_per_bridge, end // plan.cards_per_bridge
    if bridges[0] != bridges[1]:
        stretches.append((("bridges", *bridges), BETWEEN_BRIDGES))
    alone = min(speed for _, speed in stretches)
    if direct:
        detour = plan.of("detour", start, end)
        factor *= detour.factor if detour else 1.0
        return Way((*stretches, (("way", start, end), alone * factor)), PCIE_STARTUP, PCIE_HOP)
    return Way((*stretches, (("way", start, end), alone * STAGED)), HOST_STARTUP, 0.0)


def _over_nvlink(plan: FabricPlan, start: int, end: int, speed: float, factor: float) -> Way:
    way: tuple[Stretch, float] = (("way", start, end), speed * factor)
    if plan.joined != "switch":
        return Way((way,), NVLINK_STARTUP, NVLINK_HOP, nvlink=True)
    ends: tuple[tuple[Stretch, float], ...] = ((("out", start), speed), (("in", end), speed))
    return Way((*ends, way), SWITCH_STARTUP, SWITCH_HOP, nvlink=True)


def link_of_card(plan: FabricPlan, link: SimLink, card: int) -> tuple[int, int]:
    """Generation and lanes that a card's link to its bridge reaches under load."""
    narrow = plan.of_card("narrow", card)
    return link.reached_generation, min(link.reached_width, narrow.lanes) if narrow else link.reached_width


def _carried(plan: FabricPlan, link: SimLink, card: int) -> float:
    bandwidth = link_of(*link_of_card(plan, link, card)).bandwidth
    assert isinstance(bandwidth, Quantity)
    return bandwidth.value * link.payload


def seconds_of(ways: Sequence[Way], sizes: Sequence[int], repeats: int) -> tuple[float, ...]:
    """How long each of several copies takes that start at one moment, each ``repeats`` times in a row."""
    left = {number: float(size * repeats) for number, size in enumerate(sizes)}
    ended = [0.0] * len(sizes)
    now = 0.0
    while left:
        rates = _shared({number: ways[number] for number in left})
        step = min(left[number] / rates[number] for number in left)
        now += step
        for number in tuple(left):
            left[number] -= rates[number] * step
            if left[number] <= 1e-6 * sizes[number]:
                del left[number]
                ended[number] = now
    return tuple(seconds + way.startup * repeats for seconds, way in zip(ended, ways, strict=True))


def _shared(ways: dict[int, Way]) -> dict[int, float]:
    """Bytes per second of each: the narrowest stretch is divided first, then what is left of the others."""
    capacity: dict[Stretch, float] = {}
    users: dict[Stretch, set[int]] = {}
    for number, way in ways.items():
        for stretch, speed in way.stretches:
            capacity[stretch] = min(speed, capacity.get(stretch, speed))
            users.setdefault(stretch, set()).add(number)
    rates: dict[int, float] = {}
    while len(rates) < len(ways):
        narrowest = min((name for name in users if users[name]), key=lambda name: capacity[name] / len(users[name]))
        rate = capacity[narrowest] / len(users[narrowest])
        for number in tuple(users[narrowest]):
            rates[number] = rate
            for stretch, _ in ways[number].stretches:
                users[stretch].discard(number)
                capacity[stretch] -= rate
    return rates
