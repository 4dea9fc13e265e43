"""One run of the link test over open devices: each pair both ways, groups, counters; never a verdict."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mats.device import Device, DeviceError
from mats.fabric import Copy, Fabric
from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent, Observation, Quantity, Reading, TargetInfo
from mats.probe import Context, UsageError

from ._health_card import Card, cards_of
from ._nvlink_access import why_no_access
from ._nvlink_bench import SMALL, Seat, Timer, copy_size, part, seat
from ._nvlink_counters import growth
from ._nvlink_delay import draw_chain, load_delay
from ._nvlink_groups import measure_groups
from ._nvlink_results import data_of, observe
from ._nvlink_seen import COUNT, Own, PairSeen, Picture, Seen, Taken, not_taken
from ._nvlink_verify import verify_own, verify_pair

_ONE_WAY = "copies by the GPU's copy engine, one way, directly; without the start of each"
_HOST_WAY = "copies by the GPU's copy engine, one way, with peer access off: by way of the host's memory"
_BOTH_WAYS = "as one way, while the other way is as busy; what this one carries"
_SMALL = "copies of 16 bytes, many in a row, per copy: its start is in it"
_PAIR = re.compile(r"\s*(\S+?)\s*[-:]\s*(\S+?)\s*")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, read; base units."""

    own: Own
    size: int | None
    samples: int
    pairs: str
    seed: int


def read_settings(context: Context) -> Settings:
    """Raises UsageError."""
    options = context.options
    samples = int(str(options["repeats"]))
    if samples < 1:
        raise UsageError("--repeats must be at least 1")
    return Settings(
        own_target(options),
        None if options["size"] is None else int(str(options["size"])),
        samples,
        str(options["pairs"] or ""),
        context.seed,
    )


def own_target(options: Mapping[str, object]) -> Own:
    """What the user asks of each link. Raises UsageError."""
    given: dict[str, float | None] = {}
    for name, factor in (("min-bandwidth-gbps", 1e9), ("max-latency-ns", 1e-9)):
        value = options[name]
        if value is not None and float(str(value)) <= 0:
            raise UsageError(f"--{name} must be above 0")
        given[name] = None if value is None else float(str(value)) * factor
    return Own(given["min-bandwidth-gbps"], given["max-latency-ns"])


def chosen_pairs(text: str, labels: Sequence[str]) -> list[tuple[int, int]]:
    """Places of the two of each pair, all of them where ``text`` is empty: ``0-1,2-3``. Raises UsageError."""
    if not text.strip():
        return list(itertools.combinations(range(len(labels)), 2))
    found: dict[tuple[int, int], None] = {}
    for word in text.split(","):
        match = _PAIR.fullmatch(word)
        names = match.groups() if match else ()
        if len(names) != 2 or any(name not in labels for name in names) or names[0] == names[1]:
            known = ", ".join(labels)
            raise UsageError(f"--pairs: {word.strip()!r} is no pair such as 0-1; the GPUs are {known}")
        first, second = sorted(labels.index(name) for name in names)
        found.setdefault((first, second))
    return list(found)


def labels_of(infos: Sequence[TargetInfo], cards: Sequence[Card]) -> tuple[str, ...]:
    """A short name for each member: the driver's index, else its number among the members."""
    by_uuid = {card.gpu.uuid: card.label for card in cards if isinstance(card.gpu.uuid, str)}
    found = [by_uuid.get(info.uuid, "") if info.uuid else "" for info in infos]
    if all(found) and len(set(found)) == len(found):
        return tuple(found)
    return tuple(str(number) for number in range(len(infos)))


def cards_by_label(machine: MachineFacts, infos: Sequence[TargetInfo], labels: Sequence[str]) -> dict[str, Card]:
    """What is known of each member, found by its UUID."""
    known = {card.gpu.uuid: card for card in cards_of(machine) if isinstance(card.gpu.uuid, str)}
    return {label: known[info.uuid] for label, info in zip(labels, infos, strict=True) if info.uuid in known}


def test_links(fabric: Fabric, context: Context) -> Observation:
    """Measures every way between the members. Raises UsageError, DeviceError."""
    settings = read_settings(context)
    members = fabric.members()
    infos = [member.describe() for member in members]
    context.progress(0, 1, "reading what is known of the links")
    before = fabric.facts()
    labels = labels_of(infos, cards_of(before))
    pairs = chosen_pairs(settings.pairs, labels)
    size = copy_size(members, settings.size)
    used = sorted({place for pair in pairs for place in pair})
    seats = {place: seat(place, labels[place], members[place], size) for place in used}
    return _Session(fabric, context, settings, before, infos, labels, seats, draw_chain(settings.seed)).measure(pairs)


@dataclass(slots=True)
class _Session:
    """One measurement: holds what its steps share."""

    fabric: Fabric
    context: Context
    settings: Settings
    before: MachineFacts
    infos: Sequence[TargetInfo]
    labels: Sequence[str]
    seats: Mapping[int, Seat]
    order: tuple[int, ...]
    partial: str = ""
    pairs: list[PairSeen] = field(default_factory=list)
    own_checks: list[PairSeen] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def measure(self, pairs: Sequence[tuple[int, int]]) -> Observation:
        started = next(iter(self.seats.values())).device.now()
        self._own_memories()
        for done, (first, second) in enumerate(pairs):
            self.partial = self.context.stopping()
            if self.partial:
                break
            words = f"GPU {self.labels[first]} and {self.labels[second]}"
            self.context.progress(done, len(pairs) + 2, words)
            self.pairs += self._pair(self.seats[first], self.seats[second])
            self.context.save(observe(self._picture(self.before)))
        groups = []
        if not self.partial:
            self.context.progress(len(pairs), len(pairs) + 2, "several GPUs at once")
            groups = measure_groups(Timer(self.fabric, self.settings.samples), tuple(self.seats.values()), self.pairs)
        self.context.progress(len(pairs) + 1, len(pairs) + 2, "reading counters, and the links under load")
        after = self.fabric.facts()
        lasted = next(iter(self.seats.values())).device.now() - started
        cards = (self._cards(self.before), self._cards(after))
        picture = self._picture(self.fabric.facts(load=True))
        grown: tuple[Seen, ...] = tuple(growth(*cards, lasted))
        return observe(replace(picture, groups=tuple(groups), growth=grown))

    def _picture(self, machine: MachineFacts) -> Picture:
        return Picture(
            machine=machine,
            cards=self._cards(machine),
            pairs=tuple(self.pairs),
            own=self.settings.own,
            others=_others([seat.device for seat in self.seats.values()]),
            notes=tuple(self.notes),
            partial=self.partial,
            more=self._own_wrong(),
        )

    def _cards(self, machine: MachineFacts) -> dict[str, Card]:
        return cards_by_label(machine, self.infos, self.labels)

    def _own_memories(self) -> None:
        """A memory that does not keep what it holds would pass for a bad link."""
        for seat_ in self.seats.values():
            check = verify_own(seat_, self.settings.seed)
            self.own_checks.append(PairSeen(seat_.label, seat_.label, True, checks=(check,)))

    def _own_wrong(self) -> tuple[Seen, ...]:
        wrong = [pair for pair in self.own_checks if any(check.mismatched for check in pair.checks)]
        return tuple(part for pair in wrong for part in data_of(pair))

    def _pair(self, first: Seat, second: Seat) -> list[PairSeen]:
        """Both directions. Through the host first, since a driver may keep what was once connected."""
        timer = Timer(self.fabric, self.settings.samples)
        ways = ((first, second), (second, first))
        seen = []
        joined = self._disconnect(ways)
        for start, end in ways:
            reach = self.fabric.reach(start.number, end.number)
            cards = self._cards(self.before)
            ends = cards.get(start.label), cards.get(end.label)
            why = "" if reach.direct else why_no_access(self.before, *ends, reach.reason)
            if joined:
                late = staged = not_taken(AbsenceKind.NOT_SUPPORTED, joined)
            else:
                late = timer.delay(_copy(start, end, SMALL), _SMALL)
                (staged,) = timer.rates([_copy(start, end)], _HOST_WAY, late)
            pair = PairSeen(start.label, end.label, reach.direct, why, through_host=staged)
            seen.append(replace(pair, copy_latency_through_host=late))
        if any(pair.access for pair in seen):
            seen = self._direct(timer, ways, seen)
        absent = [_without_access(pair) for pair in seen]
        checks = verify_pair(self.fabric, (first, second), self.settings.seed, all(pair.access for pair in seen))
        return [replace(pair, checks=tuple(checks[pair.start])) for pair in absent]

    def _disconnect(self, ways: Sequence[tuple[Seat, Seat]]) -> str:
        """Why nothing can go through the host, as where the memory is another process's, or empty."""
        try:
            for start, end in ways:
                self.fabric.disconnect(start.number, end.number)
        except DeviceError as error:
            if type(error) is not DeviceError:
                raise
            return str(error)
        return ""

    def _direct(self, timer: Timer, ways: Sequence[tuple[Seat, Seat]], seen: Sequence[PairSeen]) -> list[PairSeen]:
        """What goes straight, where the driver offers it; both ways at once where it does so for both."""
        measured = []
        for (start, end), pair in zip(ways, seen, strict=True):
            if not pair.access:
                measured.append(pair)
                continue
            try:
                self.fabric.connect(start.number, end.number)
            except DeviceError as error:
                if type(error) is not DeviceError:
                    raise
                measured.append(replace(pair, access=False, why=str(error)))
                continue
            late = timer.delay(_copy(start, end, SMALL), _SMALL)
            (rate,) = timer.rates([_copy(start, end)], _ONE_WAY, late)
            measured.append(replace(pair, one_way=rate, copy_latency=late))
        if all(pair.access for pair in measured):
            start_of_one = min((pair.copy_latency for pair in measured), key=lambda taken: taken.value or 0.0)
            both = timer.rates([_copy(start, end) for start, end in ways], _BOTH_WAYS, start_of_one)
            measured = [replace(pair, both_ways=rate) for pair, rate in zip(measured, both, strict=True)]
        loads = [
            load_delay(start, end, self.order) if pair.access else Taken()
            for (start, end), pair in zip(ways, measured, strict=True)
        ]
        return [replace(pair, load_latency=load) for pair, load in zip(measured, loads, strict=True)]


def _copy(start: Seat, end: Seat, size: int | None = None) -> Copy:
    source = start.source if size is None else part(start.source, size)
    return Copy(start.number, source, end.number, end.sink)


def _without_access(pair: PairSeen) -> PairSeen:
    """What could not be measured says why."""
    if pair.access:
        return pair
    missing = not_taken(AbsenceKind.NOT_SUPPORTED, f"no peer access: {pair.why}" if pair.why else "no peer access")
    return replace(pair, one_way=missing, both_ways=missing, copy_latency=missing, load_latency=missing)


def _others(devices: Sequence[Device]) -> Reading:
    """How many other processes are on the members, but for desktops."""
    pids: set[int] = set()
    for device in devices:
        holders = device.holders()
        if isinstance(holders, str):
            return Absent(AbsenceKind.UNREADABLE, holders)
        pids |= {holder.pid for holder in holders if not holder.draws_only}
    return Quantity(len(pids), COUNT)
