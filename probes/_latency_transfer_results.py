"""From the copies between device and host to measurements, a table and diagnoses. Nothing here touches a device."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from mats.device import HostLink
from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Chart,
    Column,
    Diagnosis,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Table,
    Unit,
)

from ._latency_faults import CATALOGUE
from ._latency_transfer import FROM_DEVICE, PAGEABLE, PINNED, TO_DEVICE, Load, Point, Transfers, Way
from ._latency_transfer_check import Arrival
from ._latency_transfer_fit import Fit, carried, fit, grown, share_of_link, share_of_possible
from ._latency_transfer_limits import (
    CORRECTED,
    ENOUGH_SHARE,
    LINK_SHARE,
    LINK_TRAINED,
    MISMATCHES,
    REPLAYS,
    TRAINED,
    UNCORRECTED,
)

_COUNT, _RATIO, _SECOND, _BYTE, _SPEED = Unit.COUNT, Unit.RATIO, Unit.SECOND, Unit.BYTE, Unit.BYTE_PER_SECOND
WAYS = tuple(Way(direction, memory) for memory in (PINNED, PAGEABLE) for direction in (TO_DEVICE, FROM_DEVICE))
OF_WAYS = ("latency.transfer_startup", "latency.transfer_bandwidth", "latency.transfer_half_size", MISMATCHES)
OF_LINK = (
    "latency.link_generation",
    "latency.link_width",
    "latency.link_bandwidth",
    LINK_TRAINED,
    LINK_SHARE,
    CORRECTED,
    UNCORRECTED,
    REPLAYS,
)


def observe_transfers(seen: Transfers | Absent) -> Observation:
    """Everything that the copies tell; where there were none, why: once of a device that has no link."""
    if isinstance(seen, Absent):
        names = OF_WAYS[1:2] if seen.kind is AbsenceKind.NOT_SUPPORTED else (*OF_WAYS, *OF_LINK)
        return Observation(tuple(Measurement(name, seen) for name in names))
    lines = {way: _line(seen, way) for way in WAYS}
    measurements = [one for way in WAYS for one in _of_way(seen, way, lines[way])]
    measurements += _of_link(seen)
    measurements += _shares(seen, lines)
    measurements += _counted(seen)
    diagnoses = tuple(_diagnoses(seen, measurements))
    return Observation(tuple(measurements), _tables(seen), diagnoses, tuple(_notes(seen)))


def _line(seen: Transfers, way: Way) -> Fit | Absent:
    points = seen.points.get(way, [])
    if not points:
        absent = seen.absent.get(way.memory)
        return absent or Absent(AbsenceKind.NOT_TESTED, seen.partial or "no copy was made")
    return fit(_medians(points))


def _medians(points: Sequence[Point]) -> list[tuple[float, float]]:
    return [(point.size, statistics.median(point.times)) for point in points]


def _of_way(seen: Transfers, way: Way, line: Fit | Absent) -> Iterator[Measurement]:
    points = seen.points.get(way, [])
    statistic = f"of t = a + n/b through the medians of {len(points)} sizes"
    found: tuple[Reading, Reading, Reading]
    if isinstance(line, Absent):
        found, statistic = (line, line, line), ""
    else:
        statistic += f", off by {line.worst:.0%} at most"
        found = (
            Quantity(line.startup, _SECOND),
            Quantity(line.bandwidth, _SPEED),
            Quantity(round(line.half_size), _BYTE),
        )
    yield Measurement(OF_WAYS[0], found[0], way.labels, f"a {statistic}" if statistic else "")
    yield Measurement(OF_WAYS[1], found[1], way.labels, f"b {statistic}" if statistic else "")
    yield Measurement(OF_WAYS[2], found[2], way.labels, "a x b: half of such a copy's time is its start")
    arrival = seen.arrivals.get(way)
    if arrival is None:
        why = seen.absent.get(way.memory) or Absent(AbsenceKind.NOT_TESTED, seen.partial or "it was not checked")
        yield Measurement(MISMATCHES, why, way.labels)
    elif isinstance(arrival, Absent):
        yield Measurement(MISMATCHES, arrival, way.labels)
    else:
        method = f"64-bit words of {arrival.words:,} that arrived other than they were sent, each checked"
        yield Measurement(MISMATCHES, Quantity(arrival.wrong, _COUNT), way.labels, method=method)


def _of_link(seen: Transfers) -> Iterator[Measurement]:
    load = seen.load
    if load is None:
        absent = Absent(AbsenceKind.NOT_TESTED, seen.partial or "no memory of the host could be had to load the link")
        for name in (*OF_LINK[:3], LINK_TRAINED):
            yield Measurement(name, absent)
        return
    link = load.link
    way = "the fastest reading while copies ran"
    yield Measurement(OF_LINK[0], link.generation, method=f"of the device's own link, {way}")
    yield Measurement(OF_LINK[1], link.width, method=f"lanes of the device's own link, {way}")
    at = f" ({link.narrowest})" if link.narrowest else ""
    method = f"of the narrowest link up to the processor{at}, after line coding, {way}"
    yield Measurement(OF_LINK[2], link.bandwidth, method=method)
    trained = share_of_possible(link)
    yield Measurement(LINK_TRAINED, trained, method="of what every end on the way can, while copies ran")


def _shares(seen: Transfers, lines: dict[Way, Fit | Absent]) -> Iterator[Measurement]:
    """What pinned copies carry of the link; others are held up by the processor and say nothing of it."""
    for way in WAYS:
        if way.memory != PINNED:
            continue
        line = lines[way]
        reading: Reading
        if isinstance(line, Absent):
            reading = line
        elif seen.load is None:
            reading = Absent(AbsenceKind.NOT_TESTED, "the link was not read under load")
        else:
            speed = carried(_medians(seen.points[way]), line)
            reading = share_of_link(speed, seen.load.link, ENOUGH_SHARE)
        yield Measurement(
            LINK_SHARE,
            reading,
            (("direction", way.direction),),
            statistic="of the largest copy, without its start",
            method="of the narrowest link's bandwidth under load",
        )


def _counted(seen: Transfers) -> Iterator[Measurement]:
    if seen.after is None:
        absent = Absent(AbsenceKind.NOT_TESTED, seen.partial or "the copies did not come to their end")
        yield from (Measurement(name, absent) for name in (CORRECTED, UNCORRECTED, REPLAYS))
        return
    before, after = seen.idle, seen.after
    over = f"over {seen.seconds:.1f} s of copies"
    yield Measurement(CORRECTED, grown(before, after, "aer.correctable"), method=f"of all ends on the way, {over}")
    parts = [grown(before, after, name) for name in ("aer.nonfatal", "aer.fatal")]
    told = [part for part in parts if isinstance(part, Quantity)]
    total = Quantity(int(sum(part.value for part in told)), _COUNT) if len(told) == len(parts) else None
    missing = next((part for part in parts if isinstance(part, Absent)), None)
    yield Measurement(UNCORRECTED, total or missing or parts[0], method=f"of all ends on the way, {over}")
    yield Measurement(REPLAYS, grown(before, after, "pcie.replays"), method=f"as the driver counts them, {over}")


def _tables(seen: Transfers) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = []
    for way in WAYS:
        for point in seen.points.get(way, []):
            middle = statistics.median(point.times)
            off = statistics.median(abs(time - middle) for time in point.times)
            rows.append((way.name, point.size, len(point.times), middle, off, point.size / middle))
    columns = (
        Column("way"),
        Column("bytes", _BYTE),
        Column("copies", _COUNT),
        Column("time", _SECOND),
        Column("deviation", _SECOND),
        Column("bandwidth", _SPEED),
    )
    chart = Chart.curve("bytes", "bandwidth", "way", hover=("time", "copies"), log_x=True, log_y=True)
    title = "Copies between device and host: bandwidth by size, from the median time of a copy"
    return (Table("transfers", title, columns, tuple(rows), chart),) if rows else ()


def _diagnoses(seen: Transfers, measurements: Sequence[Measurement]) -> Iterator[Diagnosis]:
    fault = CATALOGUE["host_link_slow"]
    for name, enough in ((LINK_TRAINED, TRAINED), (LINK_SHARE, ENOUGH_SHARE)):
        readings = [one.reading for one in measurements if one.name == name]
        if seen.load and any(isinstance(one, Quantity) and one.value < enough for one in readings):
            yield Diagnosis(fault.name, fault.title, name, tuple(_describe(seen.load, seen.idle)), fault.advice)
    fault = CATALOGUE["host_link_errors"]
    for one in measurements:
        if one.name in (CORRECTED, UNCORRECTED, REPLAYS) and isinstance(one.reading, Quantity) and one.reading.value:
            yield Diagnosis(fault.name, fault.title, one.name, (f"{one.reading.value:,} {one.method}",), fault.advice)
    fault = CATALOGUE["host_link_corrupt"]
    for way, arrival in seen.arrivals.items():
        if isinstance(arrival, Arrival) and arrival.wrong:
            yield Diagnosis(fault.name, fault.title, MISMATCHES, tuple(_differences(arrival)), fault.advice, way.labels)


def _differences(arrival: Arrival) -> Iterator[str]:
    for one in arrival.first:
        flips = one.sent ^ one.arrived
        yield (
            f"byte {one.offset:,}: sent 0x{one.sent:016x}, arrived 0x{one.arrived:016x}, "
            f"{flips.bit_count()} bits turned (0x{flips:016x})"
        )
    if arrival.wrong > len(arrival.first):
        yield f"and {arrival.wrong - len(arrival.first):,} more words"


def _describe(load: Load, idle: HostLink) -> Iterator[str]:
    link = load.link
    yield (
        f"under load the device's own link ran {_link(link.generation, link.width)}; card and slot can "
        f"{_link(link.generation_maximum, link.width_maximum)}"
    )
    if isinstance(link.bandwidth, Quantity) and isinstance(link.bandwidth_maximum, Quantity):
        at = f" at {link.narrowest}" if link.narrowest else ""
        now, best = link.bandwidth.value / 1e9, link.bandwidth_maximum.value / 1e9
        yield f"the narrowest link of the way{at}: {now:.2f} GB/s each way under load, {best:.2f} GB/s possible"
    yield f"read over {load.seconds:.1f} s in which {load.copied / 1e9:.1f} GB were copied"
    yield f"at rest it was {_link(idle.generation, idle.width)}, which is not judged"


def _link(generation: Reading, width: Reading) -> str:
    numbers = [str(one.value) if isinstance(one, Quantity) else "?" for one in (generation, width)]
    return f"Gen{numbers[0]} x{numbers[1]}"


def _notes(seen: Transfers) -> Iterator[str]:
    if seen.load is not None:
        link = seen.load.link
        if link.unseen and link.kind:
            yield f"The way to the host may be narrower than the link that is shown: {link.unseen}."
    for memory, absent in seen.absent.items():
        yield f"No copies from {memory} memory: {absent.reason}."
