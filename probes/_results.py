"""From a tester's records to the probe's observation: measurements, tables, diagnoses and the sentence."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mats.device import Conditions
from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Observation, Quantity, Reading, TargetInfo, Unit

from ._algorithms import ALGORITHMS
from ._catalogue import CATALOGUE
from ._confidence import Account, sentence, zero_error_bound
from ._diagnosis import diagnose
from ._earlier import Earlier
from ._limits import LIMITS
from ._space import Request
from ._statistics import drop, relative_deviation, summarise, thin
from ._tables import tables
from ._tester import Sweep, Tester

_LISTED = 65_536
"""Error records that a report lists."""
SWEEP_OF_CACHE = 4
"""A sweep must exceed the last-level cache so many times before a word is read again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of the tester, finished or not. ``flips_missed``: planted errors that were not reported, absent without a
    self-test. ``done``: complete passes by test. ``copy_traffic``: bytes a second of copies in the same run."""

    tester: Tester
    info: TargetInfo
    asked: Request
    total: int
    untested: tuple[tuple[str, int], ...]
    flips_missed: Reading
    copy_traffic: tuple[float, ...]
    notes: tuple[str, ...]
    partial: str
    stopped_hot: bool
    left_out: int
    earlier: Earlier


def observe(outcome: Outcome, *, final: bool = True) -> Observation:
    """Everything that was seen, as one value. A pure function of the outcome.

    Unless ``final``, the errors are counted but not yet diagnosed or listed: that takes seconds where there are many.
    """
    tester = outcome.tester
    totals = tester.ledger.totals(tester.tested // 8)
    diagnoses = diagnose(tester.ledger.records, totals) if final else ()
    contradictory = any(diagnosis.fault in ("tester_unreliable", "counter_corrupt") for diagnosis in diagnoses)
    bandwidths = _bandwidths(outcome)
    measurements = [
        *_errors(outcome, contradictory),
        *_amounts(outcome),
        *_latencies(tester),
        *bandwidths,
        *_counters(tester.seen),
    ]
    named = [_explaining(diagnosis) for diagnosis in diagnoses]
    return Observation(
        measurements=tuple(measurements),
        tables=tables(outcome.tester, outcome.untested, outcome.earlier, _LISTED if final else 0),
        diagnoses=(*named, *_speed_diagnoses(measurements)),
        notes=(_sentence(outcome), *_order_notes(tester), *_latency_notes(tester), *outcome.notes),
        partial=outcome.partial,
    )


def _explaining(diagnosis: Diagnosis) -> Diagnosis:
    """A tester that contradicts itself explains that finding, not the errors it claims."""
    if diagnosis.fault not in ("tester_unreliable", "counter_corrupt"):
        return diagnosis
    return Diagnosis(diagnosis.fault, diagnosis.title, "memory.contradictions", diagnosis.evidence, diagnosis.advice)


def _count(name: str, value: int, method: str = "") -> Measurement:
    return Measurement(name, Quantity(value, Unit.COUNT), method=method)


def _errors(outcome: Outcome, contradictory: bool) -> list[Measurement]:
    tester = outcome.tester
    verified = tester.ledger.verified * 8 + outcome.earlier.verified
    errors = tester.ledger.failed + outcome.earlier.errors
    aliased = _aliased(tester)
    nothing = Absent(AbsenceKind.NOT_TESTED, "nothing was verified before the test ended")
    damaged = Absent(AbsenceKind.UNREADABLE, "the tester's own counters contradict each other")
    counted: Reading = damaged if contradictory else Quantity(errors, Unit.COUNT) if verified else nothing
    found = [
        Measurement("memory.errors", counted, statistic="sum over all sweeps", method="words that differed"),
        _count("memory.contradictions", int(contradictory), "sums of the report that must agree"),
        Measurement("memory.self_test", outcome.flips_missed, method="planted errors that were not reported"),
    ]
    if "page_ids" in tester.accounts and tester.accounts["page_ids"].passes and not contradictory:
        found.append(
            _count("memory.aliased_pages", aliased, "4 KiB pages recorded that answered with another page's id")
        )
    else:
        found.append(Measurement("memory.aliased_pages", Absent(AbsenceKind.NOT_TESTED, "page_ids did not complete")))
    bound: Reading = nothing
    if verified and not errors:
        bound = Quantity(zero_error_bound(verified), Unit.RATIO)
    elif verified:
        bound = Absent(AbsenceKind.INSUFFICIENT, "errors were found: a bound for none does not apply")
    found.append(Measurement("memory.error_bound", bound, statistic="95 % upper bound of errors per byte verified"))
    return found


def _aliased(tester: Tester) -> int:
    """4 KiB pages that answered with the id of another one. One id for all is a dead line, not an alias."""
    records = [record for record in tester.ledger.records if record.test == "page_ids" and record.origin is not None]
    ids = {record.origin for record in records if record.origin is not None and record.origin % 512 == 0}
    return len({record.word for record in records if record.origin in ids}) if len(ids) > 1 else 0


def _amounts(outcome: Outcome) -> list[Measurement]:
    tester, earlier = outcome.tester, outcome.earlier
    accounts = tester.accounts
    complementary = sum(
        account.passes for name, account in accounts.items() if name in ALGORITHMS and ALGORITHMS[name].complementary
    )
    whole = Quantity(tester.tested / outcome.total, Unit.RATIO)
    asked_less = Absent(AbsenceKind.NOT_TESTED, "a part of the memory was asked for, not all")
    cache = outcome.info.cache_size
    if isinstance(cache, Quantity):
        swept: Reading = Quantity(tester.tested / max(cache.value, 1), Unit.RATIO)
    else:
        swept = cache
    return [
        Measurement("memory.tested_share", Quantity(tester.tested / outcome.asked.wanted, Unit.RATIO)),
        Measurement("memory.coverage", whole, method="tested bytes over the device's total"),
        Measurement("memory.coverage_of_all", asked_less if outcome.asked.limited else whole),
        Measurement("memory.bytes_tested", Quantity(tester.tested, Unit.BYTE)),
        Measurement(
            "memory.bytes_verified",
            Quantity(tester.ledger.verified * 8 + earlier.verified, Unit.BYTE),
            statistic="sum over all sweeps",
        ),
        Measurement(
            "memory.bytes_written",
            Quantity(sum(a.written for a in accounts.values()) + earlier.written, Unit.BYTE),
            statistic="sum over all sweeps",
        ),
        _count("memory.passes", _passes(outcome), "sweeps that verified the whole tested part"),
        _count("memory.complementary_passes", complementary + earlier.complementary, "each bit verified as 0 and as 1"),
        Measurement("memory.swept_over_cache", swept, method="tested bytes over the last-level cache"),
        _count("memory.tests_left_out", outcome.left_out, "tests asked for of which no pass was completed"),
        _count("memory.stopped_hot", int(outcome.stopped_hot)),
    ]


def _passes(outcome: Outcome) -> int:
    return int(sum(account.full_verifies for account in outcome.tester.accounts.values())) + outcome.earlier.passes


def _whole_sweeps(tester: Tester, operation: str) -> list[Sweep]:
    """Sweeps over the largest chunks: a small piece of a fragmented device takes as long to start as to sweep."""
    largest = max((chunk.buffer.size for chunk in tester.chunks), default=0)
    return [sweep for sweep in tester.sweeps if sweep.size == largest and sweep.operation == operation]


def _groups(tester: Tester, operation: str) -> Mapping[int, list[float]]:
    """Durations of sweeps over the largest chunks by pattern: groups of equal work."""
    groups: dict[int, list[float]] = defaultdict(list)
    for sweep in _whole_sweeps(tester, operation):
        groups[sweep.kind].append(sweep.duration)
    return groups


def _latencies(tester: Tester) -> list[Measurement]:
    found = []
    for name, operation in (("write", "write"), ("read", "verify")):
        groups = _groups(tester, operation)
        samples = [duration for group in groups.values() for duration in group]
        summary = summarise(samples)
        deviation = relative_deviation(list(groups.values()))
        absent = Absent(AbsenceKind.INSUFFICIENT, f"fewer than 8 {operation} sweeps of whole chunks")
        found += [
            Measurement(
                f"memory.{name}_latency",
                Quantity(summary.mean, Unit.SECOND) if summary else absent,
                statistic=f"mean of {len(samples)} sweeps of one chunk",
                method="duration of one launch over one chunk",
                samples=thin(samples),
            ),
            Measurement(
                f"memory.{name}_latency_deviation",
                Quantity(deviation, Unit.RATIO) if deviation is not None else absent,
                statistic=f"standard deviation over mean of {len(samples)} sweeps, each against its pattern's median",
            ),
        ]
    return found


def _order_notes(tester: Tester) -> list[str]:
    """Which of the tests that were run need an order of addresses, and how far they had it."""
    names = [name for name in tester.accounts if ALGORITHMS[name].ordered]
    if not names:
        return []
    return [
        f"Block-ordered: {', '.join(names)}; the order of addresses is exact from launch to launch and within a block, "
        "not between blocks that run at once."
    ]


def _latency_notes(tester: Tester) -> list[str]:
    lines = []
    size = max((chunk.buffer.size for chunk in tester.chunks), default=0) >> 20
    for label, operation in (("WRITE_LATENCY_MS", "write"), ("READ_LATENCY_MS", "verify")):
        summary = summarise([d for group in _groups(tester, operation).values() for d in group])
        if summary is not None:
            lines.append(
                f"{label}: mean {summary.mean * 1e3:.3f}, standard deviation {summary.standard_deviation * 1e3:.3f}, "
                f"median {summary.median * 1e3:.3f}, p99 {summary.p99 * 1e3:.3f} "
                f"(of {summary.count} sweeps of {size} MiB, all patterns)."
            )
    return lines


def _bandwidths(outcome: Outcome) -> list[Measurement]:
    tester, found = outcome.tester, []
    peak = outcome.info.peak_bandwidth
    measured = summarise(outcome.copy_traffic)
    bound: Reading = peak
    of = "the device's peak"
    if not isinstance(peak, Quantity) and measured is not None:
        bound, of = Quantity(measured.median, Unit.BYTE_PER_SECOND), "the traffic of a copy in the same run"
        found.append(
            Measurement(
                "memory.copy_traffic",
                bound,
                statistic=f"median of {measured.count} copies",
                method="bytes read and written",
                samples=outcome.copy_traffic,
            )
        )
    for name, operation in (("write", "write"), ("verify", "verify")):
        samples = [sweep.bandwidth for sweep in _whole_sweeps(tester, operation)]
        summary = summarise(samples)
        absent = Absent(AbsenceKind.NOT_TESTED, f"no {operation} sweep was made")
        reading: Reading = Quantity(summary.median, Unit.BYTE_PER_SECOND) if summary else absent
        share: Reading = bound if isinstance(bound, Absent) else absent
        if isinstance(bound, Quantity) and summary:
            share = Quantity(summary.median / bound.value, Unit.RATIO)
        found += [
            Measurement(
                f"memory.{name}_bandwidth", reading, statistic=f"median of {len(samples)} sweeps", samples=thin(samples)
            ),
            Measurement(f"memory.{name}_share_of_peak", share, statistic=f"share of {of}"),
        ]
    return [*found, _drop(tester)]


def _drop(tester: Tester) -> Measurement:
    samples = [sweep.bandwidth for sweep in _whole_sweeps(tester, "read")]
    name, method = "memory.bandwidth_drop", "reference reads between the tests: last quarter against first, medians"
    fallen = drop(samples)
    if fallen is None:
        return Measurement(name, Absent(AbsenceKind.INSUFFICIENT, "fewer than 8 reference reads"), method=method)
    if moved := _moved(_seen_while_reading(tester)):
        return Measurement(name, Absent(AbsenceKind.INSUFFICIENT, moved), method=method)
    return Measurement(name, Quantity(fallen, Unit.RATIO), method=method, samples=thin(samples))


def _seen_while_reading(tester: Tester) -> list[Conditions]:
    """Conditions during a reference read or right after it: between tests and while waiting a device may idle."""
    times = [sweep.time for sweep in tester.sweeps]
    last = ((bisect.bisect_left(times, time), state) for time, state in tester.seen)
    return [state for index, state in last if index and tester.sweeps[index - 1].operation == "read"]


def _moved(states: Sequence[Conditions]) -> str:
    """Which clock explains a falling bandwidth, or nothing. A core clock breathes by some percent under load."""
    for name, allowed in (("memory clock", 0.01), ("core clock", 0.10)):
        clocks = [state.memory_clock if name == "memory clock" else state.core_clock for state in states]
        known = [clock.value for clock in clocks if isinstance(clock, Quantity)]
        if known and max(known) - min(known) > allowed * max(known):
            return f"the {name} moved during the run"
    return ""


_DELTAS = {
    "ecc.uncorrected": "memory.ecc_uncorrected_delta",
    "ecc.corrected": "memory.ecc_corrected_delta",
    "remap.uncorrectable": "memory.remap_delta",
    "remap.correctable": "memory.remap_delta",
}


def _counters(seen: Sequence[tuple[float, Conditions]]) -> list[Measurement]:
    """What each event counter did between the first and the last look."""
    before = dict(seen[0][1].counters) if seen else {}
    after = dict(seen[-1][1].counters) if seen else {}
    none = Absent(AbsenceKind.NOT_SUPPORTED, "the device tells of no such counter")
    found = []
    for name in {**dict.fromkeys(_DELTAS), **before}:
        first, last = before.get(name, none), after.get(name, none)
        reading: Reading
        if isinstance(first, Quantity) and isinstance(last, Quantity) and first.unit is last.unit:
            reading = Quantity(last.value - first.value, first.unit)
        else:
            reading = first if isinstance(first, Absent) else last
        found.append(
            Measurement(
                _DELTAS.get(name, "memory.counter_delta"),
                reading,
                labels=(("counter", name),),
                statistic="after the test less before",
            )
        )
    return found


_BOUNDS = {limit.code: limit.bound.value for limit in LIMITS}


def _speed_diagnoses(measurements: Sequence[Measurement]) -> list[Diagnosis]:
    """Names for what shows in the times alone."""
    readings = {m.name: m.reading.value for m in measurements if isinstance(m.reading, Quantity)}
    errors, found = readings.get("memory.errors"), []
    fallen, share = readings.get("memory.bandwidth_drop"), readings.get("memory.write_share_of_peak")
    if fallen is not None and fallen > _BOUNDS["MEM-014"] and errors == 0:
        evidence = (
            f"no wrong data, bandwidth of reference reads down by {fallen * 100:.0f} %; no clock was seen to move"
        )
        found.append(_speed("silent_retry", "memory.bandwidth_drop", evidence))
    if share is not None and share < _BOUNDS["MEM-015"] and errors == 0:
        evidence = f"written at {share * 100:.1f} % of the peak of the device's own memory"
        found.append(_speed("spilled", "memory.write_share_of_peak", evidence))
    return found


def _speed(fault: str, explains: str, evidence: str) -> Diagnosis:
    entry = CATALOGUE[fault]
    return Diagnosis(fault, entry.title, explains, (evidence,), entry.advice)


def _sentence(outcome: Outcome) -> str:
    tester, earlier = outcome.tester, outcome.earlier
    cache = outcome.info.cache_size
    resident = isinstance(cache, Quantity) and tester.tested < SWEEP_OF_CACHE * cache.value
    words = len({record.word for record in tester.ledger.records})
    full = len(tester.ledger.records) == tester.ledger.failed
    failing: Reading = Quantity(words, Unit.COUNT)
    if not full:
        failing = Absent(AbsenceKind.INSUFFICIENT, "more errors than records are kept of")
    states = [state for _, state in tester.seen]
    return sentence(
        Account(
            total=outcome.total,
            tested=tester.tested,
            untested=outcome.untested,
            tests=tuple(sorted({n for n, a in tester.accounts.items() if a.passes} | set(earlier.tests))),
            passes=_passes(outcome),
            bytes_verified=tester.ledger.verified * 8 + earlier.verified,
            duration=tester.elapsed() + earlier.duration,
            memory_clocks=tuple(state.memory_clock for state in states),
            temperatures=tuple(state.temperature for state in states),
            ecc=states[-1].ecc if states else "not read",
            errors=tester.ledger.failed + earlier.errors,
            failing_words=failing,
            cache_resident=resident,
        )
    )
