"""Several simulated cards and what joins them: the built-in plans of links, and a user's own ``[fabric]``.

Figures of a healthy link are those that drivers tell and users measure: NVLink 3 between two A40 carries 0.84 of
4 x 14.06 GB/s, NVLink 4 through a switch 0.81 to 0.88 of 18 x 25 GB/s, a copy through the host's memory 18 to 38 GB/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from mats.probe import UsageError

MOST_CARDS = 16
MOST_LINKS = 18
JOINED = ("pairs", "switch", "none")
FAULT_KINDS = ("slow", "corrupt", "inactive", "errors", "silent", "no_peer", "detour", "narrow")
_ONE_WAY = ("slow", "corrupt")
"""Faults of the way from one card to another; of the others those with ``to`` concern both ways."""
_OF_ONE_CARD = ("silent", "narrow")

FABRIC_EXAMPLE = """\
# Several such cards and what joins them, for mats nvlink-test; each as the rest of the plan says:
[fabric]
cards = 4
joined = "pairs"        # or "switch", "none": PCIe alone
links = 4               # NVLinks of a pair, or of each card to the switch
link_gbps = 14.0625     # of each link and direction; and, if wanted: told_gbps, version, carried,
cards_per_bridge = 2    # which is how many hang on one host bridge

[[fabric.fault]]
kind = "slow"           # the way from one card to another carries the factor of what it should
from = 0
to = 1
factor = 0.5

# Other kinds: corrupt (probability of a flipped bit in each word), inactive (links that are down),
# errors (counters rise), silent (card "from" answers no more after so many exchanges: after),
# no_peer (no direct way), detour (the direct way over PCIe is slower by the factor), narrow (lanes
# that the slot of card "from" gives). Without from and to, no_peer and detour are of all ways.
"""
"""Links as a user writes them."""


@dataclass(frozen=True, slots=True)
class WayFault:
    """What is wrong with the way from card ``start`` to card ``end``, with the links between them, or with a card."""

    kind: str
    start: int | None = None
    end: int | None = None
    factor: float = 0.5
    probability: float = 1e-4
    links: int = 2
    lanes: int = 4
    after: int = 3

    def concerns(self, start: int, end: int) -> bool:
        """Whether it is of this way."""
        if self.start is None:
            return True
        way = (self.start, self.end)
        return way == (start, end) or (self.kind not in _ONE_WAY and way == (end, start))


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """``links``: of a pair, or of each card to the switch. Speeds are in bytes a second and direction.

    ``link_speed``: what a link can carry of data; ``told_speed``: what the driver says of it. ``carried``: the share of
    ``link_speed`` that a copy reaches. ``cards_per_bridge``: cards that hang on one host bridge.
    """

    cards: int = 4
    joined: str = "pairs"
    links: int = 4
    link_speed: float = 14.0625e9
    told_speed: float = 14.062e9
    version: str = "3.0"
    carried: float = 0.84
    cards_per_bridge: int = 2
    faults: tuple[WayFault, ...] = field(default=())

    def links_between(self, start: int, end: int) -> tuple[int, ...]:
        """Numbers of the NVLinks of ``start`` that lead to ``end``, the ones that are down among them."""
        joined = self.joined == "switch" or (self.joined == "pairs" and start // 2 == end // 2)
        return tuple(range(self.links)) if joined and start != end else ()

    def active_links(self, card: int) -> int:
        """How many NVLinks of a card are up."""
        down = [fault.links for fault in self.faults if fault.kind == "inactive" and card in (fault.start, fault.end)]
        return max(0, self.links - max(down, default=0)) if self.has_links(card) else 0

    def has_links(self, card: int) -> bool:
        """Whether the card has any NVLink that leads somewhere."""
        return any(self.links_between(card, other) for other in range(self.cards))

    def of(self, kind: str, start: int, end: int) -> WayFault | None:
        """The fault of this kind on a way."""
        return next((fault for fault in self.faults if fault.kind == kind and fault.concerns(start, end)), None)

    def of_card(self, kind: str, card: int) -> WayFault | None:
        """The fault of this kind of a card."""
        return next((fault for fault in self.faults if fault.kind == kind and fault.start == card), None)


_PCIE = FabricPlan(joined="none", links=0)
_SWITCH = FabricPlan(
    8, "switch", 18, link_speed=25e9, told_speed=26.562e9, version="4.0", carried=0.85, cards_per_bridge=4
)
FABRICS: dict[str, tuple[str, FabricPlan]] = {
    "links_healthy": ("4 cards, 0-1 and 2-3 joined by 4 NVLinks, the others by PCIe; nothing is wrong", FabricPlan()),
    "links_pcie": ("4 cards joined by PCIe alone; nothing is wrong", _PCIE),
    "link_switch8": ("8 cards joined by 18 NVLinks each to a switch; nothing is wrong", _SWITCH),
    "link_slow": (
        "4 cards in pairs; the way from 0 to 1 carries half of what its links can",
        FabricPlan(faults=(WayFault("slow", 0, 1, factor=0.5),)),
    ),
    "link_corrupt": (
        "4 cards in pairs; some words that go from 2 to 3 arrive with a flipped bit",
        FabricPlan(faults=(WayFault("corrupt", 2, 3),)),
    ),
    "link_inactive": (
        "4 cards in pairs; 2 of the 4 links between 2 and 3 are down",
        FabricPlan(faults=(WayFault("inactive", 2, 3, links=2),)),
    ),
    "link_errors": (
        "4 cards in pairs; the links between 0 and 1 replay and recover under load; data are whole",
        FabricPlan(faults=(WayFault("errors", 0, 1),)),
    ),
    "link_silent": (
        "4 cards in pairs; card 2 answers no more after its third exchange",
        FabricPlan(faults=(WayFault("silent", 2),)),
    ),
    "link_narrow": (
        "4 cards joined by PCIe alone; the slot of card 1 gives 4 of its lanes",
        FabricPlan(joined="none", links=0, faults=(WayFault("narrow", 1, lanes=4),)),
    ),
    "link_no_p2p": (
        "4 cards joined by PCIe alone; none reaches the memory of another directly",
        FabricPlan(joined="none", links=0, faults=(WayFault("no_peer"),)),
    ),
    "link_p2p_slower": (
        "4 cards joined by PCIe alone; the direct way is slower than that through the host's memory",
        FabricPlan(joined="none", links=0, faults=(WayFault("detour", factor=0.3),)),
    ),
}
"""Built-in plans of links: what is said of each, and its fabric. The cards themselves are healthy."""


def parse_fabric(data: object, origin: str) -> FabricPlan | None:
    """The ``[fabric]`` of a plan's TOML; None where there is none. Raises UsageError with one sentence."""
    if data is None:
        return None
    origin = f"{origin}, [fabric]"
    if not isinstance(data, dict):
        raise UsageError(f"{origin}: must be a table")
    known = ("cards", "joined", "links", "link_gbps", "told_gbps", "version", "carried", "cards_per_bridge", "fault")
    _refuse_unknown(data, known, "[fabric]", origin)
    cards = _count(data, "cards", 4, 2, MOST_CARDS, origin)
    joined = data.get("joined", "pairs")
    if joined not in JOINED:
        raise UsageError(f"{origin}: joined must be one of {', '.join(JOINED)}, not {joined!r}")
    if joined == "pairs" and cards % 2:
        raise UsageError(f"{origin}: cards joined in pairs must be an even number, not {cards}")
    speed = _share(data, "link_gbps", 14.0625, 1e6, origin) * 1e9
    faults = data.get("fault", [])
    if not isinstance(faults, list):
        raise UsageError(f"{origin}: write each fault as its own [[fabric.fault]] table")
    links = 0 if joined == "none" else _count(data, "links", 4, 1, MOST_LINKS, origin)
    return FabricPlan(
        cards=cards,
        joined=joined,
        links=links,
        link_speed=speed,
        told_speed=_share(data, "told_gbps", speed / 1e9, 1e6, origin) * 1e9,
        version=str(data.get("version", "3.0")),
        carried=_share(data, "carried", 0.84, 1, origin),
        cards_per_bridge=_count(data, "cards_per_bridge", 2, 1, MOST_CARDS, origin),
        faults=tuple(
            _parse_fault(fault, cards, links, f"{origin}, fault {number}") for number, fault in enumerate(faults, 1)
        ),
    )


def _parse_fault(data: object, cards: int, links: int, origin: str) -> WayFault:
    if not isinstance(data, dict) or data.get("kind") not in FAULT_KINDS:
        raise UsageError(f"{origin}: kind must be one of {', '.join(FAULT_KINDS)}")
    kind = data["kind"]
    known = ("kind", "from", "to", *(each.name for each in fields(WayFault)[3:]))
    _refuse_unknown(data, known, "a fault of [fabric]", origin)
    start = _count(data, "from", 0, 0, cards - 1, origin) if "from" in data else None
    end = _count(data, "to", 0, 0, cards - 1, origin) if "to" in data else None
    if kind in _OF_ONE_CARD and start is None:
        raise UsageError(f"{origin}: {kind} needs a card, from")
    if kind not in (*_OF_ONE_CARD, "no_peer", "detour") and (start is None or end is None):
        raise UsageError(f"{origin}: {kind} needs two cards, from and to")
    if kind not in _OF_ONE_CARD and ((start is None) != (end is None) or (start is not None and start == end)):
        raise UsageError(f"{origin}: from and to must be two cards")
    if kind == "inactive" and not links:
        raise UsageError(f"{origin}: cards joined by PCIe alone have no links that could be down")
    return WayFault(
        kind,
        start,
        end,
        factor=_share(data, "factor", 0.5, 1, origin),
        probability=_share(data, "probability", 1e-4, 1, origin),
        links=_count(data, "links", min(2, links or 2), 1, links or MOST_LINKS, origin),
        lanes=_count(data, "lanes", 4, 1, 16, origin),
        after=_count(data, "after", 3, 0, 1 << 30, origin),
    )


def _refuse_unknown(data: Mapping[str, object], known: tuple[str, ...], what: str, origin: str) -> None:
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{origin}: unknown key {unknown[0]!r}; {what} has {', '.join(sorted(known))}")


def _count(data: Mapping[str, object], key: str, default: int, least: int, most: int, origin: str) -> int:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{origin}: {key} must be a whole number from {least} to {most}, not {value!r}")
    return value


def _share(data: Mapping[str, object], key: str, default: float, most: float, origin: str) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most or math.isnan(value):
        raise UsageError(f"{origin}: {key} must be a number above 0 and at most {most:g}, not {value!r}")
    return float(value)
