"""Errors that are explained by the value that was read: a constant, an older value, another address's value.

A 64-bit word that equals one of these by chance is next to impossible in a test whose words look random and
differ from address to address. Constant patterns (march, checkerboard) are ambiguous: a word that holds the
complement may be an old value, another address's or a constant. They are given to a fault that the
addressed tests have shown, and name one by themselves only where one reading is left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ._diagnosis_bits import concentrated_in_lane, within_lane
from ._diagnosis_records import (
    ADDRESSED_TESTS,
    MIXED_TESTS,
    OWN_ADDRESS,
    PAGE_SHIFT,
    WORD_MASK,
    ErrorRecord,
    ErrorTotals,
    Group,
    distinct_words,
    rereads_wrong,
    rewrites_wrong,
)

_MANY_BITS = 4
"""Flipped bits from which a word cannot be a plain value with a few bits wrong."""
_PAGE_MASK = (1 << PAGE_SHIFT) - 1


def split_by_value(records: Sequence[ErrorRecord], totals: ErrorTotals) -> tuple[list[Group], list[ErrorRecord]]:
    """Groups explained by value, and the records that are left.

    Constants go first: a region that reads 0 equals the expected value of one address too. Old values go
    before other addresses: the pattern of an earlier pass is often today's pattern of another address.
    """
    groups: list[Group] = []
    rest = list(records)
    for split in (_split_constant, _split_previous, _split_origin):
        group, rest = split(rest, totals)
        if group is not None:
            groups.append(group)
    return groups, rest


_Split = tuple[Group | None, list[ErrorRecord]]


def _is_bad_marker(value: int) -> bool:
    """Whether both halves are the 0xBADxxxxx or 0x0BADxxxx that a controller answers for memory it lost."""
    halves = (value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF)
    return all(half >> 20 == 0xBAD or half >> 16 == 0x0BAD for half in halves)


def _split_constant(records: list[ErrorRecord], totals: ErrorTotals) -> _Split:
    judged = [r for r in records if r.test in ADDRESSED_TESTS] or records
    strong = [r for r in judged if r.difference.bit_count() >= _MANY_BITS]
    counts = Counter("bad" if _is_bad_marker(r.actual) else f"{r.actual & WORD_MASK:#018x}" for r in strong)
    names = {
        name
        for name, count in counts.most_common(3)
        if count >= max(5, 0.02 * len(strong)) and _is_constant([r for r in strong if _constant_name(r) == name], name)
    }
    if not names:
        return None, records
    group = _constant_group([r for r in records if _constant_name(r) in names])
    taken = set(map(id, group))
    rest = [r for r in records if id(r) not in taken]
    shown = ", ".join(sorted("0xBADxxxxx" if name == "bad" else name for name in names))
    expected = len({r.expected for r in group})
    evidence = (f"{len(group):,} errors read the constant {shown} where {expected:,} different values were expected",)
    return Group("dead_channel", group, evidence), rest


def _constant_group(records: Sequence[ErrorRecord]) -> tuple[ErrorRecord, ...]:
    """Without the words that took the next write; beside such ones, a word that was not tried proves nothing."""
    kept = [r for r in records if not _is_cleared(r)]
    if len(records) - len(kept) <= 0.02 * len(records):
        return tuple(kept)
    seen = {r.word for r in kept if r.rewrite is not None}
    return tuple(r for r in kept if r.word in seen)


def _constant_name(record: ErrorRecord) -> str:
    return "bad" if _is_bad_marker(record.actual) else f"{record.actual & WORD_MASK:#018x}"


def _is_cleared(record: ErrorRecord) -> bool:
    return record.rewrite is not None and record.rewrite & WORD_MASK == record.expected & WORD_MASK


def _is_constant(records: Sequence[ErrorRecord], name: str) -> bool:
    """Whether these records of one value show a constant rather than an old value that happens to repeat."""
    flips = 0
    for record in records:
        flips |= record.difference
    # A byte that is lost makes own addresses of neighbours equal.
    if distinct_words(records) < 5 or within_lane(flips):
        return False
    if rewrites_wrong(records).below(0.5):
        return False
    expected = {r.expected for r in records}
    plain = name in ("bad", "0x0000000000000000", "0xffffffffffffffff")
    stale = sum(r.previous is not None and r.previous == r.actual for r in records)
    if stale > 0.5 * len(records) and not rewrites_wrong(records).at_least(0.5):
        return False
    if len(expected) >= 5:
        return True
    return plain and (len(expected) >= 2 or stale < 0.8 * len(records) or rewrites_wrong(records).at_least(0.8))


def _is_stale(record: ErrorRecord) -> bool:
    return record.previous is not None and record.previous & WORD_MASK == record.actual & WORD_MASK


def _split_previous(records: list[ErrorRecord], totals: ErrorTotals) -> _Split:
    """Whole words that hold what was there before; in memory never written before, one value in whole runs."""
    strong = [r for r in records if _is_stale(r) and r.difference.bit_count() >= _MANY_BITS]
    shown = [r for r in strong if r.test in ADDRESSED_TESTS]
    mixed = [r for r in records if r.test in MIXED_TESTS and r.previous is not None]
    known = distinct_words(shown) >= 2 and not rewrites_wrong(shown).at_least(0.5) and len(shown) >= 0.02 * len(mixed)
    known = known or _only_constant_patterns(records, strong, totals)
    fresh = _fresh(records)
    if not known and (mixed or _longest_run(fresh) < 4):
        return None, records
    if known:
        strong = [r for r in records if _is_stale(r)]
        fresh = [r for r in records if r.previous is None and _is_cleared(r) and not rereads_wrong([r]).below(0.5)]
    group = tuple(strong + fresh) if known else tuple(fresh)
    taken = set(map(id, group))
    evidence = [f"the longest run is {_longest_run(group) * 8:,} bytes; writing again clears it"]
    if known:
        evidence.insert(
            0, f"{len(strong):,} errors read what the pattern before had put at the same address, all 64 bits of it"
        )
    if fresh:
        values = {f"{r.actual & WORD_MASK:#x}" for r in fresh}
        several = next(iter(values)) if len(values) == 1 else f"{len(values):,} different values"
        evidence.append(f"{len(fresh):,} errors read {several} where the test had written nothing before")
    return Group("lost_write", group, tuple(evidence)), [r for r in records if id(r) not in taken]


def _only_constant_patterns(records: Sequence[ErrorRecord], strong: Sequence[ErrorRecord], totals: ErrorTotals) -> bool:
    """Old values in constant patterns, where addressed tests ran and saw nothing: it is no other address's value."""
    pairs = {(r.expected, r.actual) for r in strong}
    clean = any(verified and not failed for test, (failed, verified) in totals.by_test.items() if test in MIXED_TESTS)
    whole = len(strong) >= 0.95 * sum(r.difference.bit_count() >= _MANY_BITS for r in records)
    return clean and whole and len(pairs) >= 3 and distinct_words(strong) >= 2 and rewrites_wrong(strong).part == 0


def _fresh(records: Sequence[ErrorRecord]) -> list[ErrorRecord]:
    """Words never written before that hold one value at every re-read and take the next write."""
    first = [
        r
        for r in records
        if r.previous is None
        and r.test in ADDRESSED_TESTS
        and r.rereads
        and all(value == r.actual for value in r.rereads)
        and r.rewrite == r.expected
    ]
    if not first:
        return []
    value, _ = Counter(r.actual for r in first).most_common(1)[0]
    return [r for r in first if r.actual == value]


def _longest_run(records: Sequence[ErrorRecord]) -> int:
    """The most words in a row that one sweep saw wrong."""
    sweeps: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for record in records:
        sweeps[record.test, record.pass_index, record.step].add(record.word)
    longest = 0
    for words in sweeps.values():
        run, last = 0, -2
        for word in sorted(words):
            run = run + 1 if word == last + 1 else 1
            longest, last = max(longest, run), word
    return longest


def _split_origin(records: list[ErrorRecord], totals: ErrorTotals) -> _Split:
    """Values of other addresses. Own-address words alone may lie: a flipped bit there is another address."""
    decoded = [r for r in records if r.origin is not None and r.origin != r.word]
    if not decoded:
        return None, records
    mixed = [r for r in records if r.test in MIXED_TESTS and r.difference.bit_count() >= _MANY_BITS]
    found = [r for r in mixed if r.origin is not None and r.origin != r.word]
    if found:
        if distinct_words(found) < 2 or len(found) < 0.05 * len(mixed):
            return None, records
    elif not _own_address_decodes(records, decoded, mixed, totals):
        return None, records
    judged = found or decoded
    if 2 * len({r.origin for r in judged}) < distinct_words(judged):
        return None, records  # one value everywhere, which one address happens to expect
    fault, sentence = _relation(judged)
    few = len(found) >= 0.3 * len(mixed)
    peers: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for r in records:
        peers[r.test, r.pass_index, r.step].add(r.expected)
    values = {value & WORD_MASK for r in judged for value in (r.expected, r.actual, ~r.expected, ~r.actual)}
    masks = (
        {(r.word ^ r.origin) & _PAGE_MASK for r in judged if r.origin is not None} if fault == "address_alias" else ()
    )
    group = tuple(
        r
        for r in records
        if _from_elsewhere(r, values, trust_few_bits=few)
        or (r.test not in ADDRESSED_TESTS and r.actual in peers[r.test, r.pass_index, r.step])
        or (r.origin is not None and r.test == OWN_ADDRESS and (r.word ^ r.origin) & _PAGE_MASK in masks)
    )
    taken = set(map(id, group))
    blind = [r for r in mixed if id(r) not in taken and _is_blind(r)]
    if len(blind) <= len(found):
        # The other address may already have held the value that the sweep wrote there.
        group += tuple(blind)
        taken.update(map(id, blind))
    evidence = (
        f"{len(group):,} errors; {len(judged):,} of the values decode to the expected value of another address",
        sentence,
        f"on average {sum(r.difference.bit_count() for r in judged) / len(judged):.1f} of 64 bits differ",
    )
    return Group(fault, group, evidence), [r for r in records if id(r) not in taken]


def _is_blind(record: ErrorRecord) -> bool:
    """A whole word from a sweep that overwrote what it verified, which is right after writing again."""
    return not record.rereads and _is_cleared(record) and not within_lane(record.difference)


def _own_address_decodes(
    records: Sequence[ErrorRecord], decoded: Sequence[ErrorRecord], mixed: Sequence[ErrorRecord], totals: ErrorTotals
) -> bool:
    """Whether own-address records can be trusted when no mixed test's record decodes.

    The full counts know the tests whose records were left out: there a moved value flips bits everywhere.
    """
    if mixed or distinct_words(decoded) < 5:
        return False
    own = [r for r in records if r.test in ADDRESSED_TESTS]
    if len(decoded) < 0.8 * len(own):
        return False
    histogram = [up + down for up, down in zip(totals.zero_to_one, totals.one_to_zero, strict=True)]
    return not concentrated_in_lane(histogram, 0.9)


def _from_elsewhere(record: ErrorRecord, values: set[int], *, trust_few_bits: bool) -> bool:
    """Whether the value is another address's, before or after a sweep that inverts what it has verified."""
    if record.actual & WORD_MASK in values and record.difference.bit_count() >= _MANY_BITS:
        return True
    if record.test in ADDRESSED_TESTS:
        few = record.difference.bit_count() < _MANY_BITS
        return record.origin is not None and record.origin != record.word and (trust_few_bits or not few)
    complement = record.actual & WORD_MASK == ~record.expected & WORD_MASK
    return (
        record.origin is not None or (_is_stale(record) and record.difference.bit_count() >= _MANY_BITS) or complement
    )


def _relation(records: Sequence[ErrorRecord]) -> tuple[str, str]:
    """Constant XOR of the two addresses, whole or within the 2 MiB page, is an alias; otherwise a wrong row."""
    moves = [(r.word, r.origin) for r in records if r.origin is not None]
    whole = Counter(word ^ origin for word, origin in moves)
    mask, count = whole.most_common(1)[0]
    if count >= 0.9 * len(moves) and distinct_words(records) >= 2:
        return "address_alias", f"the XOR of the two addresses is {mask * 8:#x} bytes in {count:,} of {len(moves):,}"
    low = Counter((word ^ origin) & _PAGE_MASK for word, origin in moves)
    masks = [mask for mask, seen in low.items() if seen >= 0.05 * len(moves)]
    covered = sum(low[mask] for mask in masks)
    if covered >= 0.9 * len(moves) and all(_has_partner_pages(moves, mask) for mask in masks):
        listed = " or ".join(f"{mask * 8:#x}" for mask in sorted(masks))
        return "address_alias", (
            f"within the 2 MiB page the XOR of the two addresses is {listed} bytes in {covered:,} of {len(moves):,}, "
            "and each page has a fixed partner page"
        )
    return "wrong_row", (
        f"the {len(moves):,} pairs of addresses have {len(whole):,} different XOR values: no constant relation"
    )


def _has_partner_pages(moves: Sequence[tuple[int, int]], mask: int) -> bool:
    """Whether the moves with this XOR within the page lead from each page to one other page."""
    targets: dict[int, Counter[int]] = defaultdict(Counter)
    for word, origin in moves:
        if (word ^ origin) & _PAGE_MASK == mask:
            targets[word >> PAGE_SHIFT][origin >> PAGE_SHIFT] += 1
    repeated = [seen for seen in targets.values() if seen.total() >= 2]
    fixed = sum(seen.most_common(1)[0][1] for seen in repeated)
    return bool(repeated) and fixed >= 0.9 * sum(seen.total() for seen in repeated)
