"""Runs a schedule of sweeps over faulty words: the records and the full counts that a memory test would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mats.probes._diagnosis import ErrorRecord, ErrorTotals

from .faults import Fault
from .geometry import Memory
from .sweeps import MASK, Sweep


def _record(word: int, sweep: Sweep, fault: Fault, memory: Memory, time: float) -> ErrorRecord | None:
    seen = fault.effect(word, sweep)
    if seen is None:
        return None
    origin = sweep.decode(seen.actual) if sweep.decode else None
    return ErrorRecord(
        word=word,
        expected=sweep.expected(word),
        actual=seen.actual,
        rereads=seen.rereads,
        rewrite=seen.rewrite,
        recheck=seen.recheck,
        previous=sweep.previous(word) if sweep.previous else None,
        origin=origin if origin is not None and 0 <= origin < memory.words and origin != word else None,
        test=sweep.test,
        step=sweep.step,
        pass_index=sweep.pass_index,
        time=time,
        temperature=60.0,
    )


def run(
    memory: Memory, faults: Sequence[Fault], sweeps: Sequence[Sweep], *, cap: int = 65_536, sparse: bool = False
) -> tuple[list[ErrorRecord], ErrorTotals]:
    """All errors of the faults in the order of the sweeps and of the addresses; records of the first ``cap``.

    ``sparse``: as on a device, where a sweep that overwrites what it verified can read nothing again and only
    the first errors of a sweep are tried again.
    """
    errors: list[ErrorRecord] = []
    for time, sweep in enumerate(sweeps):
        met: dict[int, ErrorRecord] = {}
        for fault in faults:
            for word in fault.words:
                record = _record(word, sweep, fault, memory, float(time))
                if record is not None:
                    met.setdefault(word, record)
        seen = [met[word] for word in sorted(met)]
        errors += [_thinned(one, index, time % 2 == 1) for index, one in enumerate(seen)] if sparse else seen
    return errors[:cap], count(errors, memory.words, sweeps)


def _thinned(record: ErrorRecord, index: int, overwritten: bool) -> ErrorRecord:
    """The record without what was not tried."""
    return replace(
        record,
        rereads=() if overwritten or index >= 64 else record.rereads,
        rewrite=record.rewrite if index < 64 else None,
        recheck=None if overwritten or index >= 16 else record.recheck,
    )


def count(errors: Sequence[ErrorRecord], words: int, sweeps: Sequence[Sweep]) -> ErrorTotals:
    """The full counts of these errors."""
    up, down, popcounts = [0] * 64, [0] * 64, [0] * 65
    for error in errors:
        flips = (error.expected ^ error.actual) & MASK
        popcounts[flips.bit_count()] += 1
        for counts, mask in ((up, flips & error.actual), (down, flips & error.expected)):
            while mask:
                counts[(mask & -mask).bit_length() - 1] += 1
                mask &= mask - 1
    failed = Counter(error.test for error in errors)
    verified = Counter(sweep.test for sweep in sweeps)
    return ErrorTotals(
        words_verified=words * len(sweeps),
        words_failed=len(errors),
        zero_to_one=tuple(up),
        one_to_zero=tuple(down),
        flipped_bits=tuple(popcounts),
        pages=dict(Counter(error.word >> 18 for error in errors)),
        by_test={test: (failed[test], sweeps_of * words) for test, sweeps_of in verified.items()},
        tested_words=words,
    )
