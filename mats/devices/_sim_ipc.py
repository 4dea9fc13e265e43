"""Simulated cards of one plan in two processes: each opens one of them, and reaches the other one's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mats.device import Buffer, Device, DeviceError, DeviceLost
from mats.devices._fabric_plans import FabricPlan
from mats.devices._plans import Plan
from mats.devices._sim_fabric import SimFabric
from mats.devices._sim_fabric_facts import address_of_card, uuid_of
from mats.devices._sim_lending import SimLending
from mats.devices.sim import find_plan
from mats.fabric import Copy, Reach
from mats.facts import MachineFacts
from mats.model import TargetInfo
from mats.peer.lending import Member
from mats.probe import UsageError
from mats.target import Target


def open_family(target: Target, open_device: Callable[[Target], Device]) -> SimFamily:
    """The cards of ``sim:PLAN``, none of them open. Raises UsageError for a bad plan, or one of a single card."""
    plan = find_plan(target.argument)
    if plan.fabric is None:
        raise UsageError(
            f"{target.name} is one card: give a plan of several, such as sim:links_healthy "
            "(mats explain sim lists them)"
        )
    return SimFamily(plan, plan.fabric, target.name)


class SimFamily:
    """Implements :class:`mats.peer.lending.Family`: this process opens one card, the others are elsewhere."""

    def __init__(self, plan: Plan, ways: FabricPlan, name: str) -> None:
        self._plan, self._ways, self._name = plan, ways, name
        self._fabric: SimFabric | None = None
        self._elsewhere: Mapping[int, Elsewhere] = {}

    def open_member(self, name: str) -> Member:
        """As a driver does, it connects the card to another one when it opens memory of that."""
        card = self._card(name)
        lending = SimLending(card)
        others = [other for other in range(self._ways.cards) if other != card]
        self._elsewhere = {other: Elsewhere(other, lending) for other in others}
        self._fabric = SimFabric(self._plan, self._ways, self._name, self._elsewhere)
        for other in others:
            if self._fabric.reach(card, other).direct:
                self._fabric.connect(card, other)
        (member,) = self._fabric.members()
        return Member(member, lending)

    def find(self, name: str) -> str:
        return uuid_of(self._card(name))

    def join(self, members: Sequence[Device]) -> JoinedCards:
        """Raises DeviceError where the other process simulates another plan, or the same card."""
        own, remote = members
        cards = [self._card(member.describe().uuid) for member in members]
        plans = [dict(member.describe().identity).get("plan", "") for member in members]
        if plans[0] != plans[1]:
            raise DeviceError(f"the server simulates the plan {plans[1]}, this process {plans[0]}: give both the same")
        if self._fabric is None or cards[0] == cards[1]:
            raise DeviceError(f"the server lends card {cards[1]}, which is this process' own: give another with --gpu")
        self._fabric.disconnect(cards[0], cards[1])  # from here on it is for the probe to say
        self._elsewhere[cards[1]].device = remote
        return JoinedCards(self._fabric, (cards[0], cards[1]), (own, remote))

    def _card(self, name: str) -> int:
        for card in range(self._ways.cards):
            address = address_of_card(card)
            if name.lower() in (str(card), uuid_of(card).lower(), address, address.removeprefix("0000:")):
                return card
        raise UsageError(f"{self._name} has no card {name!r}: it has 0 to {self._ways.cards - 1}")


class Elsewhere:
    """A card of another process, as the ways know it: by what it has lent to this one.

    ``device``: through which it can be asked, where it can.
    """

    def __init__(self, card: int, lending: SimLending) -> None:
        self.card = card
        self.lost = ""
        self.device: Device | None = None
        self._lending = lending

    def owns(self, buffer: Buffer) -> bool:
        return self._lending.card_of(buffer) == self.card

    def check(self) -> None:
        """Raises DeviceLost where it answers no more."""
        if self.lost:
            raise DeviceLost(self.lost)

    def fetch(self, buffer: Buffer, offset: int, size: int) -> bytes:
        return ctypes.string_at(buffer.address + offset, size)

    def wait(self, seconds: float) -> None:
        if self.device is not None:
            self.device.wait(seconds)

    def close(self) -> None:
        """Its own process closes it."""


class JoinedCards:
    """Implements :class:`mats.fabric.Fabric` over two cards of a plan: this process' own and that of the server."""

    def __init__(self, fabric: SimFabric, cards: tuple[int, int], members: tuple[Device, Device]) -> None:
        self._fabric, self._cards, self._members = fabric, cards, members

    def describe(self) -> TargetInfo:
        own, other = self._cards
        info = self._fabric.describe()
        return replace(info, title=f"simulated cards {own} (this process) and {other} (the server), {info.title}")

    def members(self) -> tuple[Device, ...]:
        return self._members

    def facts(self, *, load: bool = False) -> MachineFacts:
        return self._fabric.facts(load=load)

    def reach(self, start: int, end: int) -> Reach:
        return self._fabric.reach(self._cards[start], self._cards[end])

    def connect(self, start: int, end: int) -> None:
        self._fabric.connect(self._cards[start], self._cards[end])

    def disconnect(self, start: int, end: int) -> None:
        self._fabric.disconnect(self._cards[start], self._cards[end])

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        named = [replace(copy, start=self._cards[copy.start], end=self._cards[copy.end]) for copy in copies]
        return self._fabric.exchange(named, repeats, timeout)

    def close(self) -> None:
        for member in reversed(self._members):
            member.close()
