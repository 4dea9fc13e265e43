"""Several simulated cards and the ways between them: bytes move for real in the machine's memory, time is simulated.

What a way does wrong is done to the bytes that pass it: copies, and what the kernels of a connected card load from
another card's memory or store there. Built-in plans and how a plan is written are in ``_fabric_plans``.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from mats.device import Buffer, Conditions, DeviceError, DeviceLost, HostBuffer
from mats.devices._fabric_plans import FabricPlan, WayFault
from mats.devices._library import library
from mats.devices._plans import Plan
from mats.devices._sim_drivers import is_driver_only, no_memory
from mats.devices._sim_fabric_facts import Counters, address_of_card, machine_facts, uuid_of
from mats.devices._sim_ways import Way, link_of_card, seconds_of, way_between
from mats.devices.sim import LAUNCH_SECONDS, SimDevice, find_plan
from mats.fabric import Copy, Reach
from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent, TargetInfo
from mats.source import NothingThere
from mats.target import Target

NO_PEER = "the simulated driver offers no direct access between these cards"
_NOISE = 0.01
"""Share by which the time of a copy varies."""

Flips = Mapping[int, int]
"""Bits to flip by the number of their byte."""


def open_fabric(target: Target) -> SimFabric:
    """The simulated cards of ``sim:PLAN``. Raises UsageError for a bad plan, NothingThere for one card alone."""
    if is_driver_only(target.argument):
        raise no_memory(target.argument)
    plan = find_plan(target.argument)
    if plan.fabric is None:
        raise NothingThere(
            f"{target.name} is one card, and there is no way between cards in it: "
            "give a plan of several, such as sim:links_healthy (mats explain sim lists them)"
        )
    return SimFabric(plan, plan.fabric, target.name)


class Member(SimDevice):
    """One card of a fabric; its kernels reach the memory of the cards it is connected to."""

    def __init__(self, plan: Plan, name: str, card: int, remote: Callable[[int, Buffer], _Remote | None]) -> None:
        super().__init__(plan, name)
        self.card = card
        self.lost = ""
        """Why it answers no more, or empty."""
        self._find_remote = remote
        self._over: tuple[Way, int] | None = None

    def describe(self) -> TargetInfo:
        info = super().describe()
        own = (("uuid", uuid_of(self.card)), ("pci", address_of_card(self.card)))
        return replace(info, title=f"card {self.card} of {info.title}", identity=(*own, *info.identity))

    def owns(self, buffer: Buffer) -> bool:
        """Whether it is a piece of this card's memory that is allocated."""
        return any(start <= buffer.address < start + size for start, (size, _) in self._held.items())

    def check(self) -> None:
        """Raises DeviceLost where the card answers no more."""
        if self.lost:
            raise DeviceLost(self.lost)

    def allocate(self, size: int) -> Buffer:
        self.check()
        return super().allocate(size)

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        self.check()
        return super().copy(destination, source, offset=offset, repeats=repeats)

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        self.check()
        return super().fetch(buffer, offset, size)

    def synchronise(self) -> None:
        self.check()

    def conditions(self) -> Conditions:
        self.check()
        return super().conditions()

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        """As on one card; what it takes of another card's memory goes over the way between them."""
        self.check()
        buffers = [value for value in arguments.values() if isinstance(value, Buffer)]
        remotes = [remote for buffer in buffers if (remote := self._find_remote(self.card, buffer)) is not None]
        if not remotes:
            return super().launch(kernel, tiles, **arguments)
        before = [remote.load() for remote in remotes]
        self._over = remotes[0].way, sum(remote.buffer.size for remote in remotes)
        library().mats_sim_away(self._model, remotes[0].way.hop)
        try:
            return super().launch(kernel, tiles, **arguments)
        finally:
            self._over = None
            library().mats_sim_away(self._model, 0.0)
            for remote, was in zip(remotes, before, strict=True):
                remote.store(was)

    def _spend(self, moved: int) -> float:
        if self._over is None:
            return super()._spend(moved)
        way, size = self._over
        seconds = LAUNCH_SECONDS + way.startup + min(moved, size) / way.bandwidth
        self._clock += seconds
        return seconds


@dataclass(frozen=True, slots=True)
class _Remote:
    """A piece of another card's memory that a kernel was given. ``inwards``, ``outwards``: flips on the two ways."""

    buffer: Buffer
    way: Way
    inwards: Flips
    outwards: Flips

    def load(self) -> bytes:
        """What was there; what the kernel will see of it is put there while it runs."""
        if not (self.inwards or self.outwards):
            return b""
        was = ctypes.string_at(self.buffer.address, self.buffer.size)
        self._put(_flipped(was, self.inwards))
        return was

    def store(self, was: bytes) -> None:
        """After the kernel: a word that it wrote passed the other way, one that it only read is as it was."""
        if not (self.inwards or self.outwards):
            return
        now = bytearray(ctypes.string_at(self.buffer.address, self.buffer.size))
        seen = _flipped(was, self.inwards)
        read = {at // 8 * 8 for at in self.inwards if _word(now, at) == _word(seen, at)}
        stored = {at: bits for at, bits in self.outwards.items() if _word(now, at) != _word(seen, at)}
        for start in read:
            now[start : start + 8] = was[start : start + 8]
        self._put(_flipped(bytes(now), stored))

    def _put(self, data: bytes) -> None:
        ctypes.memmove(self.buffer.address, data, len(data))


def _flipped(data: bytes, flips: Flips) -> bytes:
    damaged = bytearray(data)
    for at, bits in flips.items():
        damaged[at] ^= bits
    return bytes(damaged)


def _word(data: bytes | bytearray, at: int) -> bytes:
    return bytes(data[at // 8 * 8 : at // 8 * 8 + 8])


class Card(Protocol):
    """What the ways need of a card; that of another process is reached by memory that it lent (see ``_sim_ipc``)."""

    card: int
    lost: str

    def owns(self, buffer: Buffer) -> bool: ...

    def check(self) -> None: ...

    def fetch(self, buffer: Buffer, offset: int, size: int) -> bytes: ...

    def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class SimFabric:
    """Implements :class:`mats.fabric.Fabric` over the cards of one plan. ``elsewhere``: those of other processes."""

    def __init__(
        self, plan: Plan, fabric: FabricPlan, name: str, elsewhere: Mapping[int, Card] = MappingProxyType({})
    ) -> None:
        self._plan, self._fabric, self._name = plan, fabric, name
        self._random = random.Random(f"ways {plan.seed}")
        self._counters = Counters()
        self._connected: set[tuple[int, int]] = set()
        self._exchanges = [0] * fabric.cards
        self._members: tuple[Card, ...] = tuple(
            elsewhere[card] if card in elsewhere else self._member(card) for card in range(fabric.cards)
        )

    def _member(self, card: int) -> Member:
        generation, width = link_of_card(self._fabric, self._plan.link, card)
        link = replace(self._plan.link, reached_generation=generation, reached_width=width)
        plan = replace(self._plan, seed=self._plan.seed + card, link=link)
        return Member(plan, f"{self._name}/{card}", card, self._remote)

    def describe(self) -> TargetInfo:
        several = Absent(AbsenceKind.NOT_SUPPORTED, "several cards have no one memory")
        return TargetInfo(
            name=self._name,
            kind="sim",
            title=f"{self._fabric.cards} simulated cards, plan {self._plan.name}",
            memory_total=several,
            cache_size=several,
            peak_bandwidth=several,
            peak_formula="",
            identity=(("plan", self._plan.name), ("summary", self._plan.summary)),
            simulated=True,
            origin_kind="sim",
        )

    def members(self) -> tuple[Member, ...]:
        """Those of this process."""
        return tuple(member for member in self._members if isinstance(member, Member))

    def facts(self, *, load: bool = False) -> MachineFacts:
        lost = {member.card: member.lost for member in self._members if member.lost}
        return machine_facts(self._fabric, self._plan.link, self._plan.capacity, self._counters, lost, load=load)

    def reach(self, start: int, end: int) -> Reach:
        if self._fabric.of("no_peer", start, end):
            return Reach(False, NO_PEER)
        return Reach(True)

    def connect(self, start: int, end: int) -> None:
        reach = self.reach(start, end)
        if not reach.direct:
            raise DeviceError(f"{self._called(start)} cannot be connected to {self._called(end)}: {reach.reason}")
        self._members[start].check()
        self._connected.add((start, end))

    def disconnect(self, start: int, end: int) -> None:
        self._members[start].check()
        self._connected.discard((start, end))

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        if repeats < 1:
            raise DeviceError(f"a copy cannot be made {repeats} times")
        for copy in copies:
            self._check(copy)
        self._count(copies, timeout)
        ways = [self._way(copy.start, copy.end) for copy in copies]
        sizes = [copy.source.size for copy in copies]
        took = [seconds * self._random.uniform(1 - _NOISE, 1 + _NOISE) for seconds in seconds_of(ways, sizes, repeats)]
        for copy, seconds in zip(copies, took, strict=True):
            if seconds > timeout:
                raise DeviceLost(f"{self._called(copy.start)} has not ended its copy within {timeout:g} s")
            for card in {copy.start, copy.end}:
                self._members[card].wait(seconds)
        for copy in copies:
            self._move(copy, repeats)
        return tuple(took)

    def close(self) -> None:
        for member in self._members:
            member.close()

    def _called(self, card: int) -> str:
        return f"card {card} of {self._name}"

    def _check(self, copy: Copy) -> None:
        for card, buffer in ((copy.start, copy.source), (copy.end, copy.destination)):
            if not self._members[card].owns(buffer):
                raise DeviceError(f"{buffer.address:#x} is no memory of {self._called(card)}")
        if copy.source.size > copy.destination.size:
            raise DeviceError(f"{copy.source.size} bytes do not fit {copy.destination.size} bytes")

    def _count(self, copies: Sequence[Copy], timeout: float) -> None:
        """Counts the exchanges of each card. Raises DeviceLost where one of them answers no more."""
        for card in sorted({card for copy in copies for card in (copy.start, copy.end)}):
            silent = self._fabric.of_card("silent", card)
            self._exchanges[card] += 1
            if silent and self._exchanges[card] > silent.after:
                self._members[card].lost = f"{self._called(card)} has not answered within {timeout:g} s"
        for card in sorted({card for copy in copies for card in (copy.start, copy.end)}):
            self._members[card].check()

    def _way(self, start: int, end: int) -> Way:
        direct = (start, end) in self._connected and self.reach(start, end).direct
        if start == end:
            return Way(((("memory", start), self._plan.peak * 0.45),), LAUNCH_SECONDS, 0.0)  # it is read and written
        return way_between(self._fabric, self._plan.link, start, end, direct=direct)

    def _move(self, copy: Copy, repeats: int) -> None:
        """The bytes that arrive; repeats of a copy move the same ones."""
        size, arrived = copy.source.size, copy.destination.address
        if self._plan.faults:
            ctypes.memmove(arrived, self._members[copy.start].fetch(copy.source, 0, size), size)
        else:
            ctypes.memmove(arrived, copy.source.address, size)
        for at, bits in self._flips(copy.start, copy.end, size).items():
            ctypes.c_ubyte.from_address(arrived + at).value ^= bits
        if self._on_link("errors", copy.start, copy.end):
            self._counters.add(self._fabric, copy.start, copy.end, size * repeats)

    def _flips(self, start: int, end: int, size: int) -> Flips:
        """Bits that the way from ``start`` to ``end`` flips in ``size`` bytes, one in each word that it damages."""
        fault = self._on_link("corrupt", start, end)
        flips: dict[int, int] = {}
        word = -1
        while fault is not None:
            word += 1 + int(math.log(1 - self._random.random()) / math.log1p(-min(fault.probability, 1 - 1e-9)))
            if (word + 1) * 8 > size:
                break
            flips[word * 8 + self._random.randrange(8)] = 1 << self._random.randrange(8)
        return flips

    def _on_link(self, kind: str, start: int, end: int) -> WayFault | None:
        """A fault of the link between two cards; none where what goes between them stops in the host instead."""
        if start == end or not self._way(start, end).hop:
            return None
        return self._fabric.of(kind, start, end)

    def _remote(self, card: int, buffer: Buffer) -> _Remote | None:
        """A buffer of another card, as ``card`` sees it; None for its own. Raises DeviceLost where it has no way."""
        owner = next((member.card for member in self._members if member.owns(buffer)), card)
        if owner == card:
            return None
        self._members[owner].check()
        if (card, owner) not in self._connected:
            member = self._members[card]
            member.lost = f"{self._called(card)} used memory of card {owner} and is not connected to it"
            member.check()
        return _Remote(
            buffer,
            self._way(card, owner),
            inwards=self._flips(owner, card, buffer.size),
            outwards=self._flips(card, owner, buffer.size),
        )
