"""What a simulated machine with several cards looks like from outside: the same facts a driver and a bus would tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mats.devices._fabric_plans import FabricPlan
from mats.devices._sim_link import SimLink, link_of
from mats.devices._sim_ways import link_of_card
from mats.facts import (
    NVIDIA,
    AerFacts,
    GpuFacts,
    LinkFacts,
    MachineFacts,
    MemoryFacts,
    NvlinkFacts,
    PairFacts,
    PciDevice,
    PcieFacts,
    empty_device,
)
from mats.model import AbsenceKind, Absent, Quantity, Unit

REST_GENERATION = 1
"""Of PCIe, where a card has nothing to do: normal on every card."""
SWITCHES = 4
"""To which the links of a card lead in turn, where they lead to switches."""
_UNTOLD = Absent(AbsenceKind.NOT_TESTED, "this simulated machine does not tell it")
_NO_LINKS = Absent(AbsenceKind.NOT_SUPPORTED, "NVLinks: this GPU has none")
_NAME = "simulated card"


@dataclass(slots=True)
class Counters:
    """What the links have counted: by card and link of NVLink, by card of PCIe."""

    replays: dict[tuple[int, int], int] = field(default_factory=dict)
    recoveries: dict[tuple[int, int], int] = field(default_factory=dict)
    pcie_replays: dict[int, int] = field(default_factory=dict)

    def add(self, plan: FabricPlan, start: int, end: int, moved: int) -> None:
        """A copy of ``moved`` bytes went over links that err: some of it was sent again."""
        replays = max(1, moved >> 22)
        for card, other in ((start, end), (end, start)):
            links = plan.links_between(card, other)[: plan.active_links(card)]
            for link in links[:1]:
                self.replays[card, link] = self.replays.get((card, link), 0) + replays
                self.recoveries[card, link] = self.recoveries.get((card, link), 0) + 1
            if not links:
                self.pcie_replays[card] = self.pcie_replays.get(card, 0) + replays


def uuid_of(card: int) -> str:
    return f"GPU-51300000-0000-4000-8000-{card:012x}"


def address_of_card(card: int) -> str:
    return f"0000:{0x10 + 2 * card + 1:02x}:00.0"


def port_of_card(card: int) -> str:
    return f"0000:{0x10 + 2 * card:02x}:01.0"


def machine_facts(
    plan: FabricPlan, link: SimLink, capacity: int, counters: Counters, lost: Mapping[int, str], *, load: bool
) -> MachineFacts:
    """The picture of this moment. ``lost``: cards that answer no more."""
    cards = range(plan.cards)
    gpus = tuple(_gpu(plan, link, capacity, counters, card, load, card in lost) for card in cards)
    return MachineFacts(
        driver="simulated",
        attached=Quantity(plan.cards, Unit.COUNT),
        gpus=gpus,
        pairs=tuple(_pair(plan, first, second) for first in cards for second in cards[first + 1 :]),
        devices=tuple(device for card in cards for device in _devices(plan, link, counters, card, load, card in lost)),
        simulated=True,
    )


def _pair(plan: FabricPlan, first: int, second: int) -> PairFacts:
    active = min(plan.active_links(first), plan.active_links(second)) if plan.links_between(first, second) else 0
    near = first // plan.cards_per_bridge == second // plan.cards_per_bridge
    return PairFacts(first, second, f"NV{active}" if active else "PHB" if near else "SYS")


def _gpu(
    plan: FabricPlan, link: SimLink, capacity: int, counters: Counters, card: int, load: bool, lost: bool
) -> GpuFacts:
    generation, width = link_of_card(plan, link, card)
    idle = Quantity(REST_GENERATION, Unit.COUNT)
    return GpuFacts(
        uuid=uuid_of(card),
        name=_NAME,
        driver="simulated",
        index=Quantity(card, Unit.COUNT),
        pci=address_of_card(card),
        answers=not lost,
        memory=MemoryFacts(total=Quantity(capacity, Unit.BYTE)),
        pcie=PcieFacts(
            generation=Quantity(generation, Unit.COUNT) if load else idle,
            width=Quantity(width, Unit.COUNT),
            generation_maximum=Quantity(link.generation, Unit.COUNT),
            width_maximum=Quantity(link.width, Unit.COUNT),
            generation_device=Quantity(link.generation, Unit.COUNT),
            replays=Quantity(counters.pcie_replays.get(card, 0), Unit.COUNT),
            loaded=load,
            idle_generation=idle,
            idle_width=Quantity(width, Unit.COUNT),
        ),
        nvlink=_nvlink(plan, counters, card),
    )


def _nvlink(plan: FabricPlan, counters: Counters, card: int) -> NvlinkFacts:
    if not plan.has_links(card):
        return NvlinkFacts(_NO_LINKS, _NO_LINKS)
    active = plan.active_links(card)
    links = tuple(_link(plan, counters, card, number, number < active) for number in range(plan.links))
    return NvlinkFacts(Quantity(active, Unit.COUNT), links)


def _link(plan: FabricPlan, counters: Counters, card: int, number: int, active: bool) -> LinkFacts:
    if not active:
        down = Absent(AbsenceKind.NOT_SUPPORTED, f"NVLink {number}: the link is down")
        return LinkFacts(number, active=False, speed=down, version=down, remote=down)
    return LinkFacts(
        number,
        active=True,
        speed=Quantity(plan.told_speed, Unit.BYTE_PER_SECOND),
        version=plan.version,
        remote=f"0000:c{number % SWITCHES}:00.0" if plan.joined == "switch" else address_of_card(card ^ 1),
        errors=(
            ("replay errors", Quantity(counters.replays.get((card, number), 0), Unit.COUNT)),
            ("recovery errors", Quantity(counters.recoveries.get((card, number), 0), Unit.COUNT)),
            ("crc errors", Quantity(0, Unit.COUNT)),
        ),
    )


def _devices(
    plan: FabricPlan, link: SimLink, counters: Counters, card: int, load: bool, lost: bool
) -> Sequence[PciDevice]:
    """The card and the port above it."""
    sent_again = (("Timeout", Quantity(counters.pcie_replays.get(card, 0), Unit.COUNT)),)
    generation, width = link_of_card(plan, link, card)
    now = link_of(generation if load else REST_GENERATION, width)
    numa = Quantity(card // plan.cards_per_bridge, Unit.COUNT)
    port = replace(
        empty_device(port_of_card(card), _UNTOLD),
        class_code=0x0604,
        name="simulated root port",
        now=now,
        maximum=link_of(link.generation, link.width),
        errors=AerFacts(correctable=sent_again, nonfatal=(), fatal=()),
        numa_node=numa,
        upstream=(),
    )
    return (
        replace(
            port,
            address=address_of_card(card),
            vendor=NVIDIA,
            class_code=0x0302,
            name=_NAME,
            upstream=(port.address,),
            answers=not lost,
        ),
        port,
    )
