"""Errors that are explained by where in the word they lie: one data line, or one byte lane.

How a line of the memory appears in a 64-bit word depends on the width of a channel: 16 data lines (GDDR6)
put one line into bits k and k+16 of each 32-bit word, 32 lines (GDDR5, HBM3) into bit k of each 32-bit
word, 64 lines (HBM2) into bit k of each 64-bit word. All three fold onto one of 16 positions, so lines are
looked for modulo 16 and then told apart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ._diagnosis_records import (
    ADDRESSED_TESTS,
    MIXED_TESTS,
    OWN_ADDRESS,
    WORD_BITS,
    ErrorRecord,
    ErrorTotals,
    Group,
    directions,
    distinct_words,
    fold,
    rereads_wrong,
    rewrites_wrong,
)

_LINE_POSITIONS = 16
_MINIMUM_LINE_WORDS = 5
"""Five words that agree in one of 16 positions by chance: 16**-4, under 2e-5."""
_MINIMUM_COLUMN_WORDS = 8
_MOST_LANES = 2
_MANY_FLIPS = 4
"""Flipped bits of a word that fall into one lane by chance at most once in 8 words, seldom in most words."""
_MINIMUM_LANE_BITS = 24.0
"""Evidence for a byte lane in bits: log2 of how unlikely it is that flips fall into it by chance."""


def split_by_bits(
    records: Sequence[ErrorRecord], every: Sequence[ErrorRecord], totals: ErrorTotals
) -> tuple[list[Group], list[ErrorRecord]]:
    """Groups explained by a line or a lane, and the records that are left. ``every``: all records of the run."""
    groups, rest = _split_lines(list(records), totals)
    for _ in range(2 if groups else 0):  # what one line hid beside it
        more, rest = _split_lines(rest, totals)
        groups += more
    for _ in range(_MOST_LANES):
        lane, rest = _split_lane(rest, every, totals)
        if lane is None:
            break
        more, rest = _split_lines(rest, totals)
        groups += [lane, *more]
    return groups, rest


def _word_masks(records: Sequence[ErrorRecord]) -> dict[int, int]:
    """All bits that ever flipped, by word."""
    masks: dict[int, int] = defaultdict(int)
    for record in records:
        masks[record.word] |= record.difference
    return masks


def _find_lines(records: Sequence[ErrorRecord], masks: Mapping[int, int]) -> list[int]:
    """Positions modulo 16 that stand out: words fail there alone, few at the others, none elsewhere in the byte."""
    seen = {(record.word, fold(record.difference, _LINE_POSITIONS)) for record in records}
    alone = Counter(mask for _, mask in seen)
    single = [alone[1 << position] for position in range(_LINE_POSITIONS)]
    usual = median(single)
    floor = max(_MINIMUM_LINE_WORDS, 3 * usual + 1, usual + 6 * math.sqrt(usual) + _MINIMUM_LINE_WORDS)
    lanes = [sum(fold(mask, _LINE_POSITIONS) & ~(0xFF << first) == 0 for mask in masks.values()) for first in (0, 8)]
    found = [position for position, count in enumerate(single) if count >= max(floor, 0.4 * lanes[position // 8])]
    return found if len(found) <= 3 else []


def _split_lines(records: list[ErrorRecord], totals: ErrorTotals) -> tuple[list[Group], list[ErrorRecord]]:
    masks = _word_masks(records)
    lines = _find_lines(records, masks)
    wanted = sum(1 << line for line in lines)
    inside = [r for r in records if fold(masks[r.word], _LINE_POSITIONS) & ~wanted == 0]
    outside = [r for r in records if fold(masks[r.word], _LINE_POSITIONS) & ~wanted != 0]
    if not lines or distinct_words(inside) < _MINIMUM_LINE_WORDS:
        return [], records
    several = {word for word in {r.word for r in inside} if fold(masks[word], _LINE_POSITIONS).bit_count() > 1}
    if len(lines) == 1 or len(several) >= 0.05 * distinct_words(inside):
        return [_line_group(inside, totals, len(records))], outside
    parts: dict[int, list[ErrorRecord]] = {line: [] for line in lines}
    for record in inside:
        folded = fold(masks[record.word], _LINE_POSITIONS)
        parts[next(line for line in lines if folded >> line & 1)].append(record)
    groups = [_line_group(part, totals, len(records)) for part in parts.values()]
    return groups, outside


def _line_group(records: Sequence[ErrorRecord], totals: ErrorTotals, of: int) -> Group:
    up, down = directions(records)
    again, rewritten = rereads_wrong(records), rewrites_wrong(records)
    repeats = f"; re-reads repeat in {_percent(again.part, again.whole)}" if again.known else ""
    sentence = f"{_line_name(records)}: {len(records):,} of {of:,} errors, {_direction(up, down)}{repeats}"
    words = distinct_words(records)
    evidence = (sentence, f"{words:,} different words fail there")
    if _is_undecided_alias(records, totals):
        own = "only own-address words were tested: a stuck line and an ignored address bit look the same there"
        return Group("unstructured", tuple(records), (*evidence, own))
    if _is_column(records) and not again.below(0.5):
        if words < _MINIMUM_COLUMN_WORDS:
            few = "all in the same word of the 32-byte sector: too few to tell a line from a column"
            return Group("unstructured", tuple(records), (*evidence, few))
        pages = len({r.page for r in records})
        same = f"always the same word of the 32-byte sector and the same bit, in {pages:,} pages of 2 MiB"
        return Group("failing_column", tuple(records), (*evidence, same))
    if again.at_least(0.9) and not rewritten.below(0.5):
        return Group("stuck_dq", tuple(records), evidence)
    if again.known or rewritten.known:
        steady = not again.known and rewritten.at_least(0.9)
        return Group("stuck_dq" if steady else "flaky_dq", tuple(records), evidence)
    unknown = "whether the errors stay is not known: nothing was read again"
    return Group("unstructured", tuple(records), (*evidence, unknown))


def _is_undecided_alias(records: Sequence[ErrorRecord], totals: ErrorTotals) -> bool:
    if any(totals.by_test.get(test, (0, 0))[1] for test in MIXED_TESTS):
        return False
    decoded = [r for r in records if r.test == OWN_ADDRESS and r.origin is not None and r.origin != r.word]
    return len(decoded) >= 0.8 * len(records) and not rewrites_wrong(decoded).at_least(0.5)


def _is_column(records: Sequence[ErrorRecord]) -> bool:
    """One bit of one word of the sector. A data line carries a bit of every word of the burst."""
    places = Counter((r.word & 3, r.difference) for r in records)
    (_, difference), count = places.most_common(1)[0]
    return difference.bit_count() == 1 and count >= 0.99 * len(records)


def _line_name(records: Sequence[ErrorRecord]) -> str:
    """The positions in words, by the width of the period that they show."""
    counts: Counter[int] = Counter()
    for record in records:
        mask = record.difference
        while mask:
            counts[(mask & -mask).bit_length() - 1] += 1
            mask &= mask - 1
    floor = 0.03 * sum(counts.values())
    positions = {position for position, count in counts.items() if count > floor}
    halves = {position % 32 for position in positions}
    if len(positions) == len(halves):
        return f"{_bits(positions)} of every 64-bit word"
    return f"{_bits(halves)} of every 32-bit word"


def _bits(positions: set[int]) -> str:
    listed = [str(position) for position in sorted(positions)]
    return f"bit {listed[0]}" if len(listed) == 1 else f"bits {', '.join(listed[:-1])} and {listed[-1]}"


def _direction(up: int, down: int) -> str:
    if not down:
        return "all 0->1"
    if not up:
        return "all 1->0"
    return f"{_percent(up, up + down)} 0->1"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    if 0 < part < whole and not 0.1 <= share <= 99.9:
        return "under 0.1 %" if share < 1 else "over 99.9 %"
    return f"{share:.0f} %" if part in (0, whole) or 1 <= share <= 99 else f"{share:.1f} %"


@dataclass(frozen=True, slots=True)
class _Lane:
    """Bytes ``first``, ``first + period`` ... of a 64-bit word: one byte lane of a channel 8 x period bits wide."""

    first: int
    period: int

    @property
    def mask(self) -> int:
        return sum(0xFF << 8 * byte for byte in range(self.first, WORD_BITS // 8, self.period))

    @property
    def name(self) -> str:
        if self.period == 8:
            return f"byte {self.first} of every 64-bit word"
        if self.period == 4:
            return f"byte {self.first} of every 32-bit word"
        return f"byte {self.first} of every 16-bit half-word"


_LANES = tuple(_Lane(first, period) for period in (8, 4, 2) for first in range(period))


def concentrated_in_lane(histogram: Sequence[int], share: float) -> bool:
    """Whether ``share`` of the flips of a 64-bit position histogram lie in one byte lane."""
    total = sum(histogram)
    return any(
        sum(count for position, count in enumerate(histogram) if lane.mask >> position & 1) >= share * total
        for lane in _LANES
    )


def within_lane(mask: int) -> bool:
    """Whether these bits of a 64-bit word lie in one byte lane."""
    return any(mask & ~lane.mask == 0 for lane in _LANES)


def _split_lane(
    records: list[ErrorRecord], every: Sequence[ErrorRecord], totals: ErrorTotals
) -> tuple[Group | None, list[ErrorRecord]]:
    masks = _word_masks(records)
    lane = _find_lane(list(masks.values()))
    if lane is None:
        return None, records
    inside = [r for r in records if masks[r.word] & ~lane.mask == 0]
    outside = [r for r in records if masks[r.word] & ~lane.mask != 0]
    # The full counts also know the errors that were not recorded, but only when they are of one fault.
    flips = directions(inside)
    if len(inside) >= 0.95 * len(every):
        flips = sum(totals.zero_to_one), sum(totals.one_to_zero)
    return _lane_group(inside, lane, flips, len(records)), outside


def _find_lane(masks: Sequence[int]) -> _Lane | None:
    """The narrowest lane that holds nearly all words, or words whose many bits all fall into it."""
    counts = {lane: sum(mask & ~lane.mask == 0 for mask in masks) for lane in _LANES}
    for lane in _LANES:
        inside = [mask for mask in masks if mask & ~lane.mask == 0]
        if len(inside) < _MINIMUM_LINE_WORDS or not _fills(inside, lane):
            continue
        many = sum(mask.bit_count() >= _MANY_FLIPS for mask in inside)
        stands_out = many >= max(_MINIMUM_LINE_WORDS, 0.5 * len(inside), 0.02 * len(masks))
        evidence = sum(mask.bit_count() for mask in inside) * math.log2(lane.period)
        wider = [one for one in _LANES if one.period < lane.period and lane.first % one.period == one.first]
        if any(counts[one] > 1.1 * len(inside) for one in wider):
            continue
        if evidence >= _MINIMUM_LANE_BITS and (len(inside) >= 0.95 * len(masks) or stands_out):
            return lane
    return None


def _fills(masks: Sequence[int], lane: _Lane) -> bool:
    """Whether most lines of the byte take part; one or two would be faults of lines."""
    seen = 0
    for mask in masks:
        seen |= fold(mask, 8 * lane.period)
    return seen.bit_count() >= 5


def _lane_group(records: Sequence[ErrorRecord], lane: _Lane, flips: tuple[int, int], of: int) -> Group:
    full, touched = _full_bytes(records)
    up, down = flips
    inverted = full >= 0.8 * touched and min(up, down) >= 0.05 * (up + down)
    again = rereads_wrong(records)
    repeats = f"; re-reads repeat in {_percent(again.part, again.whole)}" if again.known else ""
    evidence = (
        f"{lane.name}: {len(records):,} of {of:,} errors{repeats}",
        f"7 or 8 bits of the byte flip together in {_percent(full, touched)}, {_direction(up, down)}",
    )
    return Group("dbi_line" if inverted else "byte_lane", tuple(records), evidence)


def _full_bytes(records: Sequence[ErrorRecord]) -> tuple[int, int]:
    """Bytes with 7 or 8 flipped bits, of all bytes with a flipped bit.

    Random-looking words are asked first: in a constant pattern a byte stuck at 00 or FF looks inverted.
    """
    sample = [r for r in records if r.test in MIXED_TESTS] or [r for r in records if r.test in ADDRESSED_TESTS]
    full = touched = 0
    for record in sample or records:
        for byte in record.difference.to_bytes(8, "little"):
            touched += byte != 0
            full += byte.bit_count() >= 7
    return full, touched
