"""Errors of single cells: when do they show, and do they stay?

A stuck cell fails whenever the pattern holds the other value, and writing again does not help. Cells that
hold a new value and fail only after a dwell, after their neighbours were written, or after hammering are
told apart by the tests that see them, against the tests that write and verify at once: when one family sees
all ``n`` errors although it verified only a share ``s`` of the words of both, the chance that the errors do
not depend on the test is ``s**n``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ._diagnosis_records import (
    ErrorRecord,
    ErrorTotals,
    Family,
    Group,
    by_word,
    directions,
    distinct_words,
    family,
    occasions,
    rereads_wrong,
    rewrites_wrong,
)

_CHANCE = 0.01
_MANY_CELLS = 16
"""More stuck cells than this are no longer a fault of single cells."""
_COLUMN_CELLS = 8
"""So many cells at one place of their sectors are a column; from half of it they are not single cells."""
_MANY_VICTIMS = 256
_FAULT_OF = {Family.DISTURB: "row_disturb", Family.DWELL: "weak_retention", Family.INVERSION: "coupling"}
_CONDITION = {
    Family.DISTURB: "where rows were hammered",
    Family.DWELL: "after data had rested",
    Family.INVERSION: "in march, modulo or inversion tests",
}

_Words = Mapping[int, Sequence[ErrorRecord]]


def split_conditional(
    records: Sequence[ErrorRecord], every: Sequence[ErrorRecord], totals: ErrorTotals
) -> tuple[list[Group], list[ErrorRecord]]:
    """Cells that take what is written and fail under one condition only, and the records that are left.

    ``every``: all records of the run, to know which errors were counted but not recorded.
    """
    soft = {word: seen for word, seen in by_word(records).items() if _is_soft(seen)}
    known = {word: seen for word, seen in soft.items() if rewrites_wrong(seen).known}
    plain = sum(family(r.test, r.step) is Family.WRITE_VERIFY for seen in known.values() for r in seen)
    groups: list[Group] = []
    for wanted in _FAULT_OF:
        words = {word: seen for word, seen in soft.items() if all(family(r.test, r.step) is wanted for r in seen)}
        judged = words if wanted is Family.DISTURB else {word: words[word] for word in words if word in known}
        count = sum(map(len, judged.values()))
        if not judged or plain > 0.02 * count or _unrecorded(Family.WRITE_VERIFY, every, totals) > 0.02 * count:
            continue
        if _fits(wanted, judged) and _depends_on(wanted, judged, totals):
            # Words that were not tried again join those that were, unless they are so many as to be something else.
            groups.append(_conditional_group(wanted, words if len(words) <= 10 * len(judged) else judged, totals))
    taken = {record.word for group in groups for record in group.records}
    victims = _victims({word: seen for word, seen in soft.items() if word not in taken})
    if victims:
        groups.append(_victim_group(victims))
        taken |= victims.keys()
    return groups, [record for record in records if record.word not in taken]


def _victims(soft: _Words) -> _Words:
    """Words whose same bit keeps changing the same way though they hold what is written to them alone.

    An aggressor that is written after its victim spoils it in every test; most of the words must have been seen at
    it in two tests at least. Nothing unless the re-reads show that the wrong value was stored.
    """
    fixed = {
        word: seen
        for word, seen in soft.items()
        if len({record.difference for record in seen}) == 1
        and seen[0].difference.bit_count() == 1
        and _one_direction(seen)
        and rewrites_wrong(seen).known
    }
    again = sum(len({record.test for record in seen}) >= 2 for seen in fixed.values())
    records = [record for seen in fixed.values() for record in seen]
    enough = again >= 1 and again >= 0.5 * len(fixed) and len(fixed) <= _MANY_VICTIMS
    return fixed if enough and rereads_wrong(records).at_least(0.9) else {}


def _victim_group(words: _Words) -> Group:
    records = tuple(record for seen in words.values() for record in seen)
    rewritten, tests = rewrites_wrong(records), len({record.test for record in records})
    cells = "1 word" if len(words) == 1 else f"{len(words):,} words"
    return Group(
        "coupling",
        records,
        (
            f"{len(records):,} errors in {cells} by {tests} tests, in each word the same bit in one direction",
            f"written alone, {rewritten.whole - rewritten.part:,} of {rewritten.whole:,} held their value: "
            "they change when other words are written",
        ),
    )


def _is_soft(records: Sequence[ErrorRecord]) -> bool:
    """A few bits that are wrong in the cell itself (re-reads repeat) and right after writing again."""
    bits = 0
    for record in records:
        bits |= record.difference
    if bits.bit_count() > 4 or max(record.difference.bit_count() for record in records) > 2:
        return False
    return not rereads_wrong(records).below(0.5) and rewrites_wrong(records).part == 0


def _unrecorded(wanted: Family, every: Sequence[ErrorRecord], totals: ErrorTotals) -> int:
    counted = sum(failed for test, (failed, _) in totals.by_test.items() if family(test) is wanted)
    return max(0, counted - sum(family(record.test, record.step) is wanted for record in every))


def _verified(wanted: Family, totals: ErrorTotals) -> int:
    return sum(verified for test, (_, verified) in totals.by_test.items() if family(test) is wanted)


def _one_direction(records: Sequence[ErrorRecord]) -> bool:
    up = down = 0
    for record in records:
        up |= record.difference & record.actual
        down |= record.difference & record.expected
    return up & down == 0


def _fits(wanted: Family, words: _Words) -> bool:
    """Whether the cells behave as the fault says: fixed victims, one direction, known to hold a new value."""
    records = [record for seen in words.values() for record in seen]
    repeated = sum(occasions(seen) >= 2 for seen in words.values()) / len(words)
    steady = sum(_one_direction(seen) for seen in words.values()) / len(words)
    if wanted is Family.DISTURB:
        return len(records) >= 2 and steady >= 0.9
    if wanted is Family.INVERSION:
        return len(records) >= 3 and len(words) <= _MANY_VICTIMS and repeated >= 0.5
    if not rereads_wrong(records).known:
        return False
    several = len(words) >= 4  # cells may fall to either level: each one of them falls to one
    return steady >= 0.95 and (repeated >= 0.3 or several)


def _depends_on(wanted: Family, words: _Words, totals: ErrorTotals) -> bool:
    inside, plain = _verified(wanted, totals), _verified(Family.WRITE_VERIFY, totals)
    count = sum(map(len, words.values()))
    if plain:
        return float(inside / (inside + plain)) ** count < _CHANCE
    # Without another test the dwell still is what happened between the clean rewrite and the next error.
    return wanted is Family.DWELL and all(occasions(seen) >= 2 for seen in words.values())


def _conditional_group(wanted: Family, words: _Words, totals: ErrorTotals) -> Group:
    records = tuple(record for seen in words.values() for record in seen)
    plain = _verified(Family.WRITE_VERIFY, totals)
    up, down = directions(records)
    cells = "1 word" if len(words) == 1 else f"{len(words):,} words"
    evidence = [
        f"{len(records):,} errors in {cells}, only {_CONDITION[wanted]}; "
        f"{plain:,} words verified right after writing showed none there",
        f"{up:,} bits went 0->1, {down:,} went 1->0",
    ]
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    if again.known and rewritten.known:
        evidence.append(
            f"{again.part:,} of {again.whole:,} re-reads were wrong again; after writing again "
            f"{rewritten.whole - rewritten.part:,} of {rewritten.whole:,} were right"
        )
    heat = [record.temperature for record in records if record.temperature is not None]
    if wanted is Family.DWELL and heat:
        evidence.append(f"memory temperature between {min(heat):.0f} and {max(heat):.0f} °C at these errors")
    return Group(_FAULT_OF[wanted], records, tuple(evidence))


def split_stuck(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[list[Group], list[ErrorRecord]]:
    """Words with one bit that stays wrong, where they are few."""
    words = by_word(records)
    stuck = {
        word: seen
        for word, seen in words.items()
        if _is_stuck(seen) and (len(words) <= 4 or (len(seen) >= 3 and occasions(seen) >= 2))
    }
    columns = _columns(stuck)
    stuck = {word: seen for word, seen in stuck.items() if all(word not in column for column in columns)}
    bits = Counter(next(iter(column.values()))[0].difference for column in columns)
    groups = [
        _column_group(column)
        for column in columns
        if len(column) >= _COLUMN_CELLS and bits[next(iter(column.values()))[0].difference] == 1
    ]
    if 0 < len(stuck) <= _MANY_CELLS:
        group = tuple(record for seen in stuck.values() for record in seen)
        evidence = tuple(_stuck_sentence(seen) for seen in list(stuck.values())[:3])
        if len(stuck) > 3:
            evidence += (f"{len(stuck):,} such cells in all",)
        groups.append(Group("stuck_cell", group, evidence))
    taken = {record.word for group in groups for record in group.records}
    return groups, [record for record in records if record.word not in taken]


def _columns(stuck: _Words) -> list[_Words]:
    """Cells that share their bit and their place in the 32-byte sector: too many for single cells."""
    places: dict[tuple[int, int], dict[int, Sequence[ErrorRecord]]] = {}
    for word, seen in stuck.items():
        places.setdefault((word & 3, seen[0].difference), {})[word] = seen
    return [column for column in places.values() if len(column) > _COLUMN_CELLS // 2]


def _column_group(column: _Words) -> Group:
    records = tuple(record for seen in column.values() for record in seen)
    bit = records[0].difference.bit_length() - 1
    pages = len({record.page for record in records})
    return Group(
        "failing_column",
        records,
        (
            f"bit {bit} of the same word of the 32-byte sector stays wrong in {len(column):,} sectors of {pages:,} "
            f"pages of 2 MiB: {len(records):,} errors",
        ),
    )


def _is_stuck(records: Sequence[ErrorRecord]) -> bool:
    bits = {record.difference for record in records}
    if len(bits) != 1 or next(iter(bits)).bit_count() != 1 or not _one_direction(records):
        return False
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    if again.below(0.9):
        return False
    if rewritten.known:
        return rewritten.at_least(0.5)
    return again.known and len(records) >= 3 and occasions(records) >= 2


def _stuck_sentence(records: Sequence[ErrorRecord]) -> str:
    first = records[0]
    value = first.actual >> (first.difference.bit_length() - 1) & 1
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    tests = len({record.test for record in records})
    text = (
        f"bit {first.difference.bit_length() - 1} of the word at byte {first.word * 8:#x} of the tested space always "
        f"reads {value}: {len(records):,} {'error' if len(records) == 1 else 'errors'} in "
        f"{tests} {'test' if tests == 1 else 'tests'}"
    )
    if again.known:
        text += f", {again.part:,} of {again.whole:,} re-reads repeat it"
    if rewritten.known:
        text += f", writing again failed {rewritten.part:,} of {rewritten.whole:,} times"
    return text


def split_upset(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[list[Group], list[ErrorRecord]]:
    """At most three bits that each flipped once and stayed right after they were written again."""
    passes = totals.words_verified // totals.tested_words if totals.tested_words > 0 else 0
    lone = 0 < len(records) <= 3 and distinct_words(records) == len(records) == totals.words_failed
    single = all(record.difference.bit_count() == 1 for record in records)
    positions = {record.difference for record in records}
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    cleared = rewritten.whole == len(records) and rewritten.part == 0
    if not (lone and single and len(positions) == len(records) and passes >= 2 and again.at_least(1.0) and cleared):
        return [], list(records)
    count = len(records)
    evidence = (
        f"{'one bit' if count == 1 else f'{count} bits'} flipped once in {passes:,} sweeps over the tested space; "
        "re-reads repeat it, writing again cleared it, and it did not come back",
    )
    return [Group("soft_upset", tuple(records), evidence)], []
