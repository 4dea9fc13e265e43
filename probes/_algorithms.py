"""The memory tests as lists of steps. Nothing here touches a device.

Faults: SAF stuck-at, TF transition, CF coupling (in inversion, id idempotent, st state), AF address decoder, DRF
retention, IF interface. "Moved" is bytes moved per tested byte (writes and reads). March notation after van de Goor,
Testing Semiconductor Memories (1991); moving inversions, modulo-20, bit fade and block patterns as memtest86 and its
kin know them; rotated addresses after memtest_vulkan. On a device that runs many blocks at once the sweeps of a March
test are ordered between launches and within a block only: they are block-ordered.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._patterns import (
    ADDRESS,
    BACKGROUNDS,
    CONSTANT,
    MASK,
    MODULO,
    Pattern,
    constant,
    random_words,
    rotated,
    walking_ones,
)


class Operation(enum.StrEnum):
    WRITE = "write"
    VERIFY = "verify"
    EXCHANGE = "exchange"
    """Verify a pattern and write the next one in the same sweep."""
    OTHERS = "modulo_others"
    IDS_WRITE = "page_ids_write"
    IDS_VERIFY = "page_ids_verify"
    DWELL = "dwell"
    DISTURB = "row_disturb"


class Part(enum.StrEnum):
    """Which chunks a step sweeps."""

    ALL = "all"
    WINDOW = "window"
    REST = "rest"


_ZEROS = Pattern(CONSTANT)


@dataclass(frozen=True, slots=True)
class Step:
    """One sweep. ``pattern`` is written or verified, ``after`` is what an exchange writes; ``words`` go to reports."""

    operation: Operation
    words: str
    pattern: Pattern = _ZEROS
    after: Pattern | None = None
    descending: bool = False
    reread: bool = False
    seconds: float = 0.0
    part: Part = Part.ALL
    skip: int = 0
    value: int = 0

    @property
    def moved(self) -> float:
        """Bytes moved per byte swept."""
        match self.operation:
            case Operation.EXCHANGE:
                return 3.0 if self.reread else 2.0
            case Operation.OTHERS:
                return 0.95
            case Operation.IDS_WRITE | Operation.IDS_VERIFY:
                return 16 / 4096
            case Operation.DWELL | Operation.DISTURB:
                return 0.0
            case _:
                return 1.0


@dataclass(frozen=True, slots=True)
class Draw:
    """What changes from pass to pass. ``dwell``: seconds between writing and verifying in the retention test."""

    pass_index: int
    seed: int
    dwell: float
    user_pattern: int | None


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One test. ``complementary``: each pass holds and verifies every bit as 0 and as 1."""

    name: str
    finds: str
    steps: Callable[[Draw], tuple[Step, ...]]
    complementary: bool = True
    standard: bool = True
    """Part of the default set."""
    ordered: bool = False
    """What it finds depends on the order in which addresses are visited."""

    def moved(self, draw: Draw) -> float:
        """Bytes moved per tested byte in one pass (a step over a part counts as if over all)."""
        return sum(step.moved for step in self.steps(draw))


def _write(pattern: Pattern, words: str = "write", *, descending: bool = False) -> Step:
    return Step(Operation.WRITE, words, pattern, descending=descending)


def _verify(pattern: Pattern, words: str = "write-verify", *, descending: bool = False) -> Step:
    return Step(Operation.VERIFY, words, pattern, descending=descending)


def _exchange(pattern: Pattern, after: Pattern, words: str, *, descending: bool = False, reread: bool = False) -> Step:
    return Step(Operation.EXCHANGE, words, pattern, after, descending=descending, reread=reread)


def _chain(patterns: Sequence[Pattern]) -> tuple[Step, ...]:
    """Each pattern verified by the sweep that writes the next: a verified pattern costs one read and one write."""
    steps = [_write(patterns[0])]
    for before, after in itertools.pairwise(patterns):
        steps.append(_exchange(before, after, "write-verify"))
    return (*steps, _verify(patterns[-1]))


def _with_complements(patterns: Sequence[Pattern]) -> list[Pattern]:
    return [each for pattern in patterns for each in (pattern, pattern.complement())]


def _page_ids(draw: Draw) -> tuple[Step, ...]:
    ids = Pattern(ADDRESS)
    return Step(Operation.IDS_WRITE, "write", ids), Step(Operation.IDS_VERIFY, "write-verify", ids)


def _own_address(draw: Draw) -> tuple[Step, ...]:
    own = Pattern(ADDRESS)
    up, down = _write(own), _verify(own)
    other = own.complement()
    return up, down, _write(other, descending=True), _verify(other, descending=True)


def _rotated_address(draw: Draw) -> tuple[Step, ...]:
    first = draw.seed + 3 * draw.pass_index
    return _chain(_with_complements([rotated(first + turn) for turn in (1, 2, 3)]))


def _moving_inversions(draw: Draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for pattern in (BACKGROUNDS[0], BACKGROUNDS[1 + draw.pass_index % 6]):
        other = pattern.complement()
        steps += [
            _write(pattern),
            _exchange(pattern, other, "ascending inversion"),
            _exchange(other, pattern, "descending inversion", descending=True),
            _verify(pattern, "after inversion"),
        ]
    return tuple(steps)


def _walking(draw: Draw) -> tuple[Step, ...]:
    shifts = [walking_ones((draw.pass_index + step) % 64) for step in range(0, 64, 8)]
    return _chain([*shifts, *(pattern.complement() for pattern in shifts)])


def _walking_full(draw: Draw) -> tuple[Step, ...]:
    shifts = [walking_ones(shift) for shift in range(64)]
    return _chain([*shifts, *(pattern.complement() for pattern in shifts)])


def _checkerboard(draw: Draw) -> tuple[Step, ...]:
    return _chain(_with_complements([Pattern(CONSTANT, a=0xAAAAAAAAAAAAAAAA, b=0x5555555555555555)]))


def _user_pattern(draw: Draw) -> tuple[Step, ...]:
    return _chain(_with_complements([constant(draw.user_pattern or 0)]))


def _random(draw: Draw) -> tuple[Step, ...]:
    key = ((draw.seed << 20) + draw.pass_index + 1) * 0xA0761D6478BD642F & MASK
    return _chain(_with_complements([random_words(key)]))


def _modulo_20(draw: Draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for offset in (2 * draw.pass_index % 20, (2 * draw.pass_index + 1) % 20):
        for value in (0, MASK):
            steps += [
                _write(Pattern(MODULO, a=value, b=offset)),
                Step(Operation.OTHERS, "others again", skip=offset, value=value ^ MASK),
                _verify(Pattern(MODULO, a=value, b=offset), "after writing the others again"),
            ]
    return tuple(steps)


def _march_c(draw: Draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for zero in (BACKGROUNDS[0], BACKGROUNDS[1 + draw.pass_index % 6]):
        one = zero.complement()
        steps += [
            _write(zero, "march element 1 (w0)"),
            _exchange(zero, one, "march element 2 (up r0,w1)"),
            _exchange(one, zero, "march element 3 (up r1,w0)"),
            _exchange(zero, one, "march element 4 (down r0,w1)", descending=True),
            _exchange(one, zero, "march element 5 (down r1,w0)", descending=True),
            _verify(zero, "march element 6 (r0)"),
        ]
    return tuple(steps)


def _mats_plus(draw: Draw) -> tuple[Step, ...]:
    zero = BACKGROUNDS[draw.pass_index % 7]
    one = zero.complement()
    return (
        _write(zero, "march element 1 (w0)"),
        _exchange(zero, one, "march element 2 (up r0,w1)"),
        _exchange(one, zero, "march element 3 (down r1,w0)", descending=True),
    )


def _mats_plus_plus(draw: Draw) -> tuple[Step, ...]:
    zero = BACKGROUNDS[draw.pass_index % 7]
    one = zero.complement()
    return (
        _write(zero, "march element 1 (w0)"),
        _exchange(zero, one, "march element 2 (up r0,w1)"),
        _exchange(one, zero, "march element 3 (down r1,w0,r0)", descending=True, reread=True),
        _verify(zero, "r0 again, past the cache"),  # the r0 of element 3 may come from the cache
    )


def _bit_fade(draw: Draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for pattern in (constant(0), constant(MASK)):
        dwell = Step(Operation.DWELL, f"dwell of {draw.dwell:g} s", seconds=draw.dwell)
        steps += [_write(pattern), dwell, _verify(pattern, "after dwell")]
    return tuple(steps)


def _window(draw: Draw) -> tuple[Step, ...]:
    kept = rotated(draw.seed + 1000 + draw.pass_index)
    steps = [Step(Operation.WRITE, "write once", kept, part=Part.WINDOW)]
    for turn in range(3):
        other = rotated(draw.seed + 2000 + 3 * draw.pass_index + turn)
        steps += [
            Step(Operation.WRITE, "write", other, part=Part.REST),
            Step(Operation.VERIFY, "write-verify", other, part=Part.REST),
            Step(Operation.VERIFY, "read again without writing", kept, part=Part.WINDOW),
        ]
    return tuple(steps)


def _row_disturb(draw: Draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for pattern in (constant(0), constant(MASK)):
        steps += [
            _write(pattern),
            Step(Operation.DISTURB, "rows read again and again"),
            _verify(pattern, "after reading neighbouring rows"),
        ]
    return tuple(steps)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("page_ids", "fake capacity, AF above 4 KiB", _page_ids, complementary=False),
        Algorithm("own_address", "AF, SAF", _own_address),
        Algorithm("rotated_address", "AF, SAF, TF, IF", _rotated_address),
        Algorithm("moving_inversions", "SAF, TF, part of CF", _moving_inversions, ordered=True),
        Algorithm("checkerboard", "SAF, IF, leakage between neighbours", _checkerboard),
        Algorithm("user_pattern", "SAF, IF for the pattern given", _user_pattern, standard=False),
        Algorithm("random", "SAF, TF, IF, CF by chance", _random),
        Algorithm("walking", "SAF, TF, CF inside a word, IF; 8 of 64 positions a pass", _walking),
        Algorithm("walking_full", "as walking, all 64 positions in one pass", _walking_full, standard=False),
        Algorithm("modulo_20", "CF between far words, through caches and buffers", _modulo_20, complementary=False),
        Algorithm("mats_plus", "SAF, AF", _mats_plus, ordered=True),
        Algorithm("mats_plus_plus", "SAF, AF, TF", _mats_plus_plus, ordered=True),
        Algorithm("march_c", "SAF, AF, TF, CFin, CFid, CFst", _march_c, ordered=True),
        Algorithm("window", "disturbance of cells that are read and not rewritten", _window, complementary=False),
        Algorithm("bit_fade", "DRF up to the dwell", _bit_fade),
        Algorithm("row_disturb", "row disturb, as far as the access rate reaches it", _row_disturb, standard=False),
    )
}
"""Every test by name, in the order in which they run: cheap and telling ones first."""


def standard_tests() -> tuple[str, ...]:
    return tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.standard)
