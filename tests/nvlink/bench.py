"""Machines with links, pairs that were seen, and a context nobody watches, for the tests of the link test."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mats.devices._fabric_plans import FABRICS, FabricPlan, WayFault
from mats.devices._plans import built_in
from mats.devices._sim_fabric import SimFabric
from mats.facts import GpuFacts, LinkFacts, MachineFacts, NvlinkFacts, PairFacts, PcieFacts
from mats.judge import Judgement, judge
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, Reading, Result, Unit
from mats.probes._health_card import cards_of
from mats.probes._nvlink_limits import LIMITS
from mats.probes._nvlink_seen import PairSeen, Picture, Taken
from mats.probes._nvlink_session import test_links as measure_links

GB = 1e9
DEFAULTS: dict[str, object] = {
    "mode": "pairs",
    "gpu": None,
    "server-gpu": None,
    "socket": None,
    "pairs": None,
    "size": None,
    "repeats": 3,
    "min-bandwidth-gbps": None,
    "max-latency-ns": None,
}


class Quiet:
    """A context with the probe's defaults and a few of its options; told to stop after ``turns`` looks."""

    def __init__(self, turns: int | None = None, **options: object) -> None:
        self.options = DEFAULTS | {name.replace("_", "-"): value for name, value in options.items()}
        self.seed = 1
        self.resumed: Result | None = None
        self.saved: list[Observation] = []
        self._turns = turns

    def stopping(self) -> str:
        if self._turns is None:
            return ""
        self._turns -= 1
        return "" if self._turns >= 0 else "told to stop"

    def progress(self, done: float, total: float, text: str) -> None:
        assert 0 <= done < total and text

    def save(self, observation: Observation) -> None:
        self.saved.append(observation)


def fabric(plan: str = "links_healthy", *faults: WayFault, **changes: object) -> SimFabric:
    """Two cards of a built-in plan of links, or as many as ``changes`` say, with these faults beside its own."""
    made: FabricPlan = FABRICS[plan][1]
    of_two = {"cards": 2} | changes
    made = dataclasses.replace(made, faults=(*made.faults, *faults), **of_two)  # type: ignore[arg-type]
    return SimFabric(built_in("healthy"), made, f"sim:{plan}")


def measured(door: SimFabric, context: Quiet | None = None) -> Observation:
    """What the test sees of a fabric, which is closed afterwards."""
    try:
        seen: Observation = measure_links(door, context or Quiet())
        return seen
    finally:
        door.close()


def judged(seen: Observation, kind: str = "sim") -> Judgement:
    return judge(seen, LIMITS, kind)


def codes(seen: Observation, kind: str = "sim") -> list[str]:
    return sorted({finding.code for finding in judged(seen, kind).findings})


def readings(seen: Observation, name: str, **labels: str) -> list[Reading]:
    wanted = {("from" if key == "start" else "to" if key == "end" else key, value) for key, value in labels.items()}
    return [one.reading for one in seen.measurements if one.name == name and wanted <= set(one.labels)]


def value(seen: Observation, name: str, **labels: str) -> float:
    found = readings(seen, name, **labels)
    assert len(found) == 1, (name, labels, found)
    assert isinstance(found[0], Quantity), found[0]
    return float(found[0].value)


def reason(seen: Observation, name: str, **labels: str) -> str:
    (found,) = readings(seen, name, **labels)
    assert isinstance(found, Absent), found
    return found.reason


def count(number: int) -> Quantity:
    return Quantity(number, Unit.COUNT)


def rate(gigabytes: float) -> Taken:
    return Taken(Quantity(gigabytes * GB, Unit.BYTE_PER_SECOND))


def seconds(number: float) -> Taken:
    return Taken(Quantity(number, Unit.SECOND))


def link(number: int, speed: float = 26.562, version: str = "4.0", remote: str = "", *, up: bool = True) -> LinkFacts:
    missing = Absent(AbsenceKind.NOT_SUPPORTED, "the link is down")
    if not up:
        return LinkFacts(number, False, missing, missing, missing)
    return LinkFacts(
        number,
        True,
        Quantity(speed * GB, Unit.BYTE_PER_SECOND) if speed else missing,
        version or missing,
        remote or Absent(AbsenceKind.NOT_FOUND, "the other end is not told"),
    )


def gpu(index: int, links: Sequence[LinkFacts] = (), name: str = "NVIDIA H100 80GB HBM3", **more: object) -> GpuFacts:
    none = Absent(AbsenceKind.NOT_SUPPORTED, "NVLinks: this GPU has none")
    up = sum(one.active is True for one in links)
    nvlink = NvlinkFacts(count(up), tuple(links)) if links else NvlinkFacts(none, none)
    made = GpuFacts(uuid=f"GPU-{index}", index=count(index), name=name, pci=f"0000:{index:02x}:00.0", nvlink=nvlink)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def pcie(generation: int, lanes: int = 16, *, loaded: bool = True, most: int | None = None) -> PcieFacts:
    now = generation if loaded else 1
    return PcieFacts(count(now), count(lanes), count(most or generation), count(lanes), loaded=loaded)


def machine(*gpus: GpuFacts, pairs: str | None = None, **more: object) -> MachineFacts:
    """Of which ``pairs`` is how every two are joined."""
    indices = [int(one.index.value) for one in gpus if isinstance(one.index, Quantity)]
    told: tuple[PairFacts, ...] | Absent = Absent(AbsenceKind.NOT_FOUND, "the topology is not told")
    if pairs is not None:
        told = tuple(PairFacts(first, second, pairs) for first in indices for second in indices if first < second)
    made = MachineFacts(gpus=gpus, pairs=told, attached=count(len(gpus)))
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def picture(facts: MachineFacts, *pairs: PairSeen, **more: Any) -> Picture:
    made = Picture(facts, {card.label: card for card in cards_of(facts)}, pairs, live=False)
    return dataclasses.replace(made, **more)


def named(seen: Observation, name: str) -> list[Measurement]:
    return [one for one in seen.measurements if one.name == name]
