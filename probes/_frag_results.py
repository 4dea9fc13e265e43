"""From caches to measurements, tables and diagnoses. Nothing here touches a process or a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mats.facts.allocator import Allocator, CacheFacts, RefusalFacts
from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Observation, Quantity, Reading, Unit

from ._frag_limits import FLOOR, FLOOR_SHARE
from ._frag_tables import tables
from ._frag_verdict import Cause, Explanation, explain, reach
from ._frag_words import short, size

NAMES = {
    Cause.IMPOSSIBLE: "unmet.capacity",
    Cause.CAPACITY: "unmet.capacity",
    Cause.FRAGMENTED: "unmet.fragmented",
    Cause.STREAM: "unmet.stream_locked",
    Cause.POOL: "unmet.pool_locked",
    Cause.PENDING: "unmet.pending",
    Cause.LIMIT: "unmet.limit",
    Cause.REFUSED: "unmet.refused",
    Cause.UNKNOWN_POOL: "unmet.unknown",
    Cause.UNKNOWN: "unmet.unknown",
}
"""Which measurement counts a cause; what fits counts nowhere."""
_TITLES = {
    Cause.IMPOSSIBLE: "more is wanted than the whole device has",
    Cause.CAPACITY: "lack of memory: no packing would help",
    Cause.FRAGMENTED: "fragmentation: the memory lies between live blocks",
    Cause.STREAM: "the memory belongs to another stream",
    Cause.POOL: "private pools hold the memory",
    Cause.PENDING: "the memory waits for a stream",
    Cause.LIMIT: "a limit of the process was reached",
    Cause.REFUSED: "not fragmentation: it fits in what is free",
    Cause.UNKNOWN_POOL: "what the pool keeps is not told",
    Cause.UNKNOWN: "what was seen does not say why",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asks. ``need``: bytes that are to be had; ``free``: of the device, where the evidence lacks it."""

    threshold: float
    need: int | None = None
    free: int | None = None
    timeline: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A cache with the labels its measurements carry."""

    cache: CacheFacts
    labels: tuple[tuple[str, str], ...]
    figures: Mapping[str, Reading]
    """By the names of their measurements."""

    @property
    def name(self) -> str:
        return " ".join(value if key == "of" else f"{key} {value}" for key, value in self.labels) or "the cache"


def observe(caches: Sequence[CacheFacts], question: Question, notes: Sequence[str] = ()) -> Observation:
    """Everything that the caches tell."""
    named = name(caches, question)
    measurements: list[Measurement] = []
    diagnoses: list[Diagnosis] = []
    said: list[str] = list(notes)
    for each in named:
        measurements += _measured(each)
        requests = tuple(_requests(each.cache, question))
        for request, refused in requests:
            explanation = explain(each.cache, request, refused=refused)
            diagnoses += _diagnosis(each, explanation)
            said += _sentence(each, request, explanation, refused)
        measurements += _unmet(each, diagnoses if requests else None)
        said += [f"{each.name}: {note}." for note in each.cache.notes]
    measurements += _changes(named)
    return Observation(
        tuple(measurements), tables(named, question.timeline), tuple(diagnoses), tuple(dict.fromkeys(said))
    )


def name(caches: Sequence[CacheFacts], question: Question) -> list[Named]:
    """Each cache by its GPU and, where there are several of one GPU, by where it was read."""
    gpus = [int(each.device.value) if isinstance(each.device, Quantity) else None for each in caches]
    keys = list(zip(gpus, [each.origin for each in caches], strict=True))
    counts: dict[tuple[int | None, str], int] = {}
    found = []
    for gpu, cache, key in zip(gpus, caches, keys, strict=True):
        counts[key] = counts.get(key, 0) + 1
        labels = [] if gpu is None else [("gpu", str(gpu))]
        if gpus.count(gpu) > 1 and len({origin for other, origin in keys if other == gpu}) > 1:
            labels.append(("of", cache.origin))
        if keys.count(key) > 1:
            labels.append(("message", str(counts[key])))
        found.append(Named(cache, tuple(labels), figures(cache, question)))
    return found


def free_on_device(cache: CacheFacts, question: Question) -> Reading:
    """As the user says, else as the last refusal says."""
    if question.free is not None:
        return Quantity(question.free, Unit.BYTE)
    if cache.refusals:
        return cache.refusals[-1].free
    return Absent(AbsenceKind.NOT_FOUND, "free memory of the device: the evidence does not tell; give it with --free")


def stuck(cache: CacheFacts) -> Reading:
    """Free bytes of the cache that emptying it does not return."""
    if isinstance(cache.cached, Absent):
        return cache.cached
    if isinstance(cache.returnable, Absent):
        return cache.returnable
    return Quantity(int(max(0, cache.cached.value - cache.returnable.value)), Unit.BYTE)


def share(part: Reading, whole: Reading) -> Reading:
    if isinstance(part, Absent):
        return part
    if isinstance(whole, Absent):
        return whole
    return Quantity(part.value / whole.value if whole.value else 0.0, Unit.RATIO)


_METHODS = {
    "reserved": "had from the driver",
    "allocated": "in live tensors, rounding included",
    "pending": "freed, and a stream has not done with it",
    "cached": "free within the cache",
    "returnable": "what emptying the cache gives back",
    "stuck": "free, and not given back when emptied",
    "stuck_share": "stuck of reserved",
    "stuck_of_threshold": "stuck share of the threshold, 0 below the floor",
    "rounding": "allocated less what was asked for",
    "largest_free": "largest free block, whoever can use it",
    "reach": "largest tensor that can be had now on the default stream",
    "external_fragmentation": "1 less largest over free: high in healthy caches too, not judged",
    "retries": "since the process began",
}


def figures(cache: CacheFacts, question: Question) -> Mapping[str, Reading]:
    """What is told of a cache, by the names of the measurements."""
    lost = stuck(cache)
    rounding: Reading = cache.requested
    if isinstance(cache.requested, Quantity) and isinstance(cache.allocated, Quantity):
        rounding = Quantity(int(cache.allocated.value - cache.requested.value), Unit.BYTE)
    return {
        "reserved": cache.reserved,
        "allocated": cache.allocated,
        "pending": cache.pending,
        "cached": cache.cached,
        "returnable": cache.returnable,
        "stuck": lost,
        "stuck_share": share(lost, cache.reserved),
        "stuck_of_threshold": _of_threshold(cache, lost, question),
        "rounding": rounding,
        "largest_free": cache.largest_free,
        "reach": reach(cache, free_on_device(cache, question)),
        "external_fragmentation": _external(cache),
        "retries": cache.retries,
    }


def _measured(each: Named) -> Iterator[Measurement]:
    for key, reading in each.figures.items():
        yield Measurement(f"frag.{key}", reading, each.labels, method=_METHODS[key])
    counted: Reading = each.cache.refused
    if each.cache.refusals:
        counted = Absent(AbsenceKind.NOT_SUPPORTED, "count of refusals: each of them is judged for itself")
    yield Measurement("frag.refusals_counted", counted, each.labels, method="since the process began")


def _of_threshold(cache: CacheFacts, lost: Reading, question: Question) -> Reading:
    part = share(lost, cache.reserved)
    if isinstance(part, Absent) or isinstance(lost, Absent):
        return part
    totals = [refusal.total.value for refusal in cache.refusals if isinstance(refusal.total, Quantity)]
    floor = min(FLOOR, FLOOR_SHARE * totals[-1]) if totals else FLOOR
    return Quantity(part.value / question.threshold if lost.value >= floor else 0.0, Unit.RATIO)


def _external(cache: CacheFacts) -> Reading:
    part = share(cache.largest_free, cache.cached)
    if isinstance(part, Absent):
        return part
    assert isinstance(cache.cached, Quantity)
    return Quantity(1.0 - part.value if cache.cached.value else 0.0, Unit.RATIO)


def _requests(cache: CacheFacts, question: Question) -> Iterator[tuple[RefusalFacts, bool]]:
    """Requests that were refused, and the one that the user asks about."""
    for refusal in cache.refusals:
        known = refusal
        if isinstance(refusal.free, Absent) and question.free is not None:
            known = replace(refusal, free=Quantity(question.free, Unit.BYTE))
        yield known, True
    if question.need is not None:
        total = cache.refusals[-1].total if cache.refusals else Absent(AbsenceKind.NOT_FOUND, "capacity: not told")
        yield (
            RefusalFacts(
                Quantity(question.need, Unit.BYTE), free=free_on_device(cache, question), total=total, limit=cache.limit
            ),
            False,
        )


def _diagnosis(each: Named, explanation: Explanation) -> Iterator[Diagnosis]:
    measurement = NAMES.get(explanation.cause)
    if measurement is not None:
        yield Diagnosis(
            explanation.cause.value.replace("-", "_"),
            _TITLES[explanation.cause],
            f"frag.{measurement}",
            explanation.steps,
            explanation.remedy,
            each.labels,
        )


def _sentence(each: Named, request: RefusalFacts, explanation: Explanation, refused: bool) -> Iterator[str]:
    if explanation.cause is Cause.FITS:
        yield f"{each.name}: {size(request.wanted)} can be had now."
    elif refused and request.stack:
        yield f"{each.name}: {short(request.wanted)} was asked for by {' < '.join(request.stack[:4])}."


def _unmet(each: Named, diagnoses: Sequence[Diagnosis] | None) -> Iterator[Measurement]:
    """How many requests fail for which reason, 0 of each where none does; absent where there is no request (None)."""
    own = [diagnosis.explains for diagnosis in diagnoses or () if diagnosis.labels == each.labels]
    none = Absent(AbsenceKind.NOT_SUPPORTED, "requests: none was refused, and none is asked about")
    for key in dict.fromkeys(NAMES.values()):
        reading = none if diagnoses is None else Quantity(own.count(f"frag.{key}"), Unit.COUNT)
        yield Measurement(f"frag.{key}", reading, each.labels, method="requests")


def _changes(named: Sequence[Named]) -> Iterator[Measurement]:
    """What came since the earlier reading of the same cache."""
    earlier = {id(second): first for first, second in pairs(named)}
    once = Absent(AbsenceKind.NOT_SUPPORTED, "retries since an earlier reading: there is one reading of it")
    for each in named:
        before = earlier.get(id(each))
        added: Reading = once
        if before is not None:
            added = _added(before.cache.retries, each.cache.retries)
        since = f"since {before.cache.origin}" if before is not None else ""
        yield Measurement("frag.retries_added", added, each.labels, method=since)


def _added(before: Reading, after: Reading) -> Reading:
    if isinstance(before, Absent) or isinstance(after, Absent):
        return before if isinstance(before, Absent) else after
    if after.value < before.value:
        return Absent(AbsenceKind.UNREADABLE, "retries: the later reading has fewer, so that it is of another process")
    return Quantity(int(after.value - before.value), Unit.COUNT)


def pairs(named: Iterable[Named]) -> Iterator[tuple[Named, Named]]:
    """Readings of the same GPU's cache, one after the other, in the order in which they were given."""
    latest: dict[tuple[Allocator, float], Named] = {}
    for each in named:
        if isinstance(each.cache.device, Absent):
            continue
        key = each.cache.allocator, each.cache.device.value
        if key in latest and latest[key].cache.origin != each.cache.origin:
            yield latest[key], each
        latest[key] = each
