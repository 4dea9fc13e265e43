"""From what was seen of pairs to measurements, tables, diagnoses and notes. Nothing here touches a device."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Observation, Quantity, Reading

from . import _health_bus, _health_card, _health_links
from ._health_card import PREFIX
from ._nvlink_access import in_the_way
from ._nvlink_rates import gigabytes
from ._nvlink_seen import (
    BYTE,
    HOST,
    NONE,
    ONE,
    RATIO,
    Own,
    PairSeen,
    Picture,
    Seen,
    Taken,
    bound,
    checked,
    name_of,
    of_gpu,
)
from ._nvlink_tables import tables
from ._nvlink_ways import Kind, Way, way_between, way_to_host
from ._nvlink_words import notes, own_words

Ways = Mapping[tuple[str, str], Way]
_FROM_HEALTH = {"pcie.loaded_share": "link.pcie_loaded_share", "nvlink.down": "link.down"}
_FAULTS = {"link.pcie_loaded_share": "link_slow", "link.down": "link_inactive"}
_NOT_DIRECT = "what goes through the host's memory has no link whose target it could be held against"


def observe(picture: Picture) -> Observation:
    """Everything that one test, or what other tools have measured, comes to."""
    ways = {(pair.start, pair.end): way_of(picture, pair) for pair in picture.pairs}
    seen: list[Seen] = []
    for pair in picture.pairs:
        seen += _pair(picture, pair, ways[pair.start, pair.end])
    seen += _beside_others(picture.pairs, ways)
    seen += [group.taken.measured(group.name, group.labels) for group in picture.groups]
    seen += [*picture.growth, *_of_cards(picture), *picture.more]
    seen += _not_asked(picture.own)
    seen.append(Measurement("link.other_processes", picture.others, method="but for desktops"))
    seen += _measured(picture, ways)
    return Observation(
        measurements=tuple(part for part in seen if isinstance(part, Measurement)),
        tables=tables(picture, ways, seen),
        diagnoses=tuple(part for part in seen if isinstance(part, Diagnosis)),
        notes=notes(picture, ways, seen),
        partial=picture.partial,
    )


def way_of(picture: Picture, pair: PairSeen) -> Way:
    """The way between the two of a pair, by the facts of the machine."""
    if HOST in (pair.start, pair.end):
        return way_to_host(picture.cards.get(pair.end if pair.start == HOST else pair.start))
    return way_between(picture.machine, picture.cards.get(pair.start), picture.cards.get(pair.end))


def share(taken: Taken, way: Way) -> Reading:
    """What is carried over what should be, or why that cannot be said."""
    if isinstance(taken.reading, Absent):
        return taken.reading
    target = way.target
    if isinstance(target.bandwidth, Absent):
        return target.bandwidth
    ratio = Quantity(taken.reading.value / target.bandwidth.value, RATIO)
    if target.at_most and ratio.value < bound("LNK-002"):
        most = gigabytes(float(target.bandwidth.value))
        why = f"{ratio.value:.0%} of {most} ({target.formula}), which is only the most that may be: {target.at_most}"
        return Absent(AbsenceKind.INSUFFICIENT, why)
    return ratio


def _pair(picture: Picture, pair: PairSeen, way: Way) -> Iterator[Seen]:
    labels = (*pair.labels, ("way", way.kind.value))
    yield pair.one_way.measured("link.bandwidth", labels)
    yield pair.through_host.measured("link.bandwidth_through_host", pair.labels)
    yield pair.both_ways.measured("link.bandwidth_both_ways", labels)
    yield pair.load_latency.measured("link.load_latency", labels)
    yield pair.copy_latency_through_host.measured("link.copy_latency_through_host", pair.labels)
    late = f"{pair.title}: a direct copy of 16 bytes takes {(pair.copy_latency.value or 0) * 1e6:.1f} us"
    yield from checked(pair.copy_latency.measured("link.copy_latency", labels), "link_p2p_slower", late)
    yield from _shares(pair, way)
    yield from _gain(picture, pair, way)
    yield from data_of(pair)
    yield from _own(picture, pair)
    if way.kind is Kind.NVLINK and pair.access is not None:
        lost = Measurement("link.access_lost", NONE if pair.access else ONE, pair.labels)
        says = f"{pair.title}: {way.name} joins them, and there is no direct access: {pair.why or 'no reason is given'}"
        yield from checked(lost, "link_inactive", says)


def _shares(pair: PairSeen, way: Way) -> Iterator[Seen]:
    """What a direct way carries of its target, and what it keeps while the other way is as busy."""
    reading: Reading = Absent(AbsenceKind.NOT_SUPPORTED, pair.why or _NOT_DIRECT)
    if pair.access is not False:
        reading = share(pair.one_way, way)
    part = f"{reading.value:.0%}" if isinstance(reading, Quantity) else ""
    says = f"{pair.title} ({way.name}): it carries {gigabytes(pair.one_way.value or 0)}, {part} of what it should"
    method = way.target.formula and f"of {way.target.formula}"
    measured = Measurement("link.share", reading, pair.labels, method=method)
    yield from checked(measured, "link_slow", says, _target_line(way))
    kept = _kept(pair, way)
    says = (
        f"{pair.title} ({way.name}): {gigabytes(pair.one_way.value or 0)} alone, "
        f"{gigabytes(pair.both_ways.value or 0)} while the other way is as busy"
    )
    yield from checked(Measurement("link.kept_both_ways", kept, pair.labels), "link_slow", says)


def _kept(pair: PairSeen, way: Way) -> Reading:
    """The part of its bandwidth that a direction keeps while the other one is as busy."""
    alone, busy = pair.one_way.reading, pair.both_ways.reading
    if way.kind is Kind.CHIP:
        why = "of NVLink-C2C each way is known to carry half while both are busy"
        return Absent(AbsenceKind.NOT_SUPPORTED, why)
    if isinstance(alone, Absent) or isinstance(busy, Absent):
        return alone if isinstance(alone, Absent) else busy
    if alone.value <= 0:
        return Absent(AbsenceKind.UNREADABLE, "the bandwidth one way reads 0")
    return Quantity(busy.value / alone.value, RATIO)


def _target_line(way: Way) -> list[str]:
    target = way.target.bandwidth
    return [f"target: {gigabytes(float(target.value))}, {way.target.formula}"] if isinstance(target, Quantity) else []


def _gain(picture: Picture, pair: PairSeen, way: Way) -> Iterator[Seen]:
    """What going straight brings over a stop in the host's memory."""
    direct, staged = pair.one_way.reading, pair.through_host.reading
    reading: Reading
    if pair.access is not True:
        reading = Absent(AbsenceKind.NOT_SUPPORTED, pair.why or "whether the copy went directly is not told")
    elif isinstance(direct, Absent) or isinstance(staged, Absent):
        reading = direct if isinstance(direct, Absent) else staged
    elif staged.value <= 0:
        reading = Absent(AbsenceKind.UNREADABLE, "the bandwidth through the host reads 0")
    else:
        reading = Quantity(direct.value / staged.value, RATIO)
    says = (
        f"{pair.title} ({way.name}): directly {gigabytes(pair.one_way.value or 0)}, "
        f"through the host {gigabytes(pair.through_host.value or 0)}"
    )
    hints = in_the_way(picture.machine, picture.cards.get(pair.start), picture.cards.get(pair.end))
    yield from checked(Measurement("link.direct_gain", reading, pair.labels), "link_p2p_slower", says, hints)


def data_of(pair: PairSeen) -> Iterator[Seen]:
    """What was verified of what a pair moved."""
    for check in pair.checks:
        own = pair.start == pair.end
        labels = (*of_gpu(pair.start), ("by", check.by)) if own else (*pair.labels, ("by", check.by))
        title = name_of(pair.start) if own else pair.title
        yield Measurement("link.verified_bytes", Quantity(check.verified, BYTE), labels)
        wrong = Measurement("link.mismatched_bytes", Quantity(check.mismatched, BYTE), labels)
        says = f"{title}, {check.by}: {check.mismatched:,} of {check.verified:,} bytes lie in words that changed"
        yield from checked(wrong, "link_corrupt", says, check.where)


def _own(picture: Picture, pair: PairSeen) -> Iterator[Seen]:
    """What the user asked for, held against what a direct way reached."""
    for name, asked, taken in (
        ("link.own_bandwidth_share", picture.own.bandwidth, pair.one_way),
        ("link.own_latency_share", picture.own.latency, pair.load_latency),
    ):
        if asked is None:
            continue
        reading = taken.reading if isinstance(taken.reading, Absent) else Quantity(taken.reading.value / asked, RATIO)
        measured = Measurement(name, reading, pair.labels, method="of what was asked for")
        yield from checked(measured, "", f"{pair.title}: {own_words(name, taken, asked)}")


def _not_asked(own: Own) -> Iterator[Measurement]:
    """Bounds of the user's own that were not given, each once and not for every pair."""
    absent = Absent(AbsenceKind.NOT_TESTED, "no bound of your own was given")
    if own.bandwidth is None:
        yield Measurement("link.own_bandwidth_share", absent)
    if own.latency is None:
        yield Measurement("link.own_latency_share", absent)


def _beside_others(pairs: Sequence[PairSeen], ways: Ways) -> Iterator[Seen]:
    """How far each pair is below the others that are joined alike; every direction counts for itself."""
    classes: dict[str, list[PairSeen]] = defaultdict(list)
    for pair in pairs:
        way = ways[pair.start, pair.end]
        comparable = way.kind in (Kind.NVLINK, Kind.PCIE) and HOST not in (pair.start, pair.end)
        if comparable and pair.access is not False and pair.one_way.value is not None:
            classes[f"{way.name} {pair.tool}".strip()].append(pair)
    for name, alike in classes.items():
        for pair in alike:
            others = [other.one_way.value or 0 for other in alike if other is not pair]
            reading: Reading = Absent(AbsenceKind.INSUFFICIENT, "there is no other pair that is joined alike")
            middle = statistics.median(others) if others else 0.0
            if middle > 0:
                reading = Quantity(max(0.0, 1 - (pair.one_way.value or 0) / middle), RATIO)
            says = (
                f"{pair.title} ({name}): {gigabytes(pair.one_way.value or 0)}, "
                f"the median of the {len(others)} others is {gigabytes(middle)}"
            )
            yield from checked(Measurement("link.below_class", reading, pair.labels), "link_slow", says)


def _of_cards(picture: Picture) -> Iterator[Seen]:
    """What the picture of the machine says of the links of each GPU: those that are down, PCIe under load."""
    cards = tuple(picture.cards.values())
    if not cards:
        return
    yield from _renamed(_health_links.links(picture.machine, cards))
    for card in cards:
        yield from _renamed(_health_bus.under_load(card))
        yield Measurement("link.active", _health_links.active_links(card), of_gpu(card.label))


def _renamed(parts: Iterable[_health_card.Seen]) -> Iterator[Seen]:
    """Checks of the health probe that are asked here as well, under the names of this one."""
    for part in parts:
        name = part.name if isinstance(part, Measurement) else part.explains
        own = _FROM_HEALTH.get(name.removeprefix(PREFIX))
        if own and isinstance(part, Measurement):
            reading = part.reading
            if isinstance(reading, Absent):  # this test has no option for it: it keeps the links busy by itself
                reading = replace(reading, reason=reading.reason.replace(": --load judges it", ""))
            yield replace(part, name=own, reading=reading)
        elif own and isinstance(part, Diagnosis):
            yield replace(part, explains=own, fault=_FAULTS[own])


def _measured(picture: Picture, ways: Ways) -> Iterator[Measurement]:
    """Whether what was asked for could be told of each GPU: each part 1, or absent with the reason."""
    told = {end for pair in picture.pairs for end in (pair.start, pair.end)}
    named = [label for label in picture.cards if label in told or (picture.live and not told)]
    for label in named or [""]:
        pairs = tuple(pair for pair in picture.pairs if not label or label in (pair.start, pair.end))
        own = replace(picture, pairs=pairs)
        for what, reading in (
            ("bandwidth", _bandwidth_known(own)),
            ("target", _target_known(own, ways)),
            ("data", _data_known(own)),
        ):
            yield Measurement("link.measured", reading, (*(of_gpu(label) if label else ()), ("what", what)))


def _bandwidth_known(picture: Picture) -> Reading:
    absent = Absent(AbsenceKind.NOT_TESTED, picture.unasked or picture.partial or "no pair was measured")
    if not picture.pairs:
        return ONE if picture.more and not picture.live else absent
    direct = [pair for pair in picture.pairs if pair.access is not False]
    if not direct:
        whys = list(dict.fromkeys(pair.why for pair in picture.pairs if pair.why))
        why = "; ".join(whys[:3]) or "the driver gives no reason"
        return Absent(AbsenceKind.NOT_SUPPORTED, f"no peer access (P2P) between any two of the GPUs: {why}")
    missing = [pair for pair in direct if isinstance(pair.one_way.reading, Absent) and not pair.checks]
    for pair in missing if picture.live else ():
        assert isinstance(pair.one_way.reading, Absent)
        return Absent(pair.one_way.reading.kind, f"{pair.title}: {pair.one_way.reading.reason}")
    return ONE


def _target_known(picture: Picture, ways: Ways) -> Reading:
    """A target is needed for each direct way that was measured; the user's own stands in for one."""
    if picture.own.bandwidth is not None and not picture.failed:
        return ONE
    whys: dict[str, list[str]] = defaultdict(list)
    measured = [pair for pair in picture.pairs if pair.access is not False and pair.one_way.value is not None]
    for pair in measured:
        reading = share(pair.one_way, ways[pair.start, pair.end])
        if isinstance(reading, Absent):
            whys[reading.reason].append(pair.title)
    said = [*(f"{_few(titles)}: {reason}" for reason, titles in whys.items()), *picture.untold, *picture.failed]
    if not said:
        return ONE
    return Absent(AbsenceKind.NOT_FOUND, "; ".join(said[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else ""))


def _few(titles: Sequence[str]) -> str:
    return ", ".join(titles[:2]) + (f" and {len(titles) - 2} more" if len(titles) > 2 else "")


def _data_known(picture: Picture) -> Reading:
    """A live test verifies what it moves; other tools' figures stand for what they are."""
    direct = [pair for pair in picture.pairs if pair.access is not False]
    if not picture.live or not direct:
        return ONE
    unchecked = [pair.title for pair in direct if not pair.checks]
    if unchecked:
        return Absent(AbsenceKind.NOT_TESTED, f"the data of {_few(unchecked)} were not verified")
    return ONE


def nothing_measured(kind: AbsenceKind, reason: str) -> Observation:
    """An observation where no link could be looked at."""
    return Observation(
        (Measurement("link.measured", Absent(kind, reason)),), notes=(f"No link was measured: {reason}.",)
    )
