"""Are the errors confined to a part of the memory's channels? A test that needs no map of the hardware.

Which channel serves an address is a XOR hash of many address bits that no vendor publishes, and the bits
above a 2 MiB page are hidden by the page table. Differences of failing addresses *within* a page do not
hold the hidden bits. If every failing address gives the same value of some parity of address bits, every
difference gives 0: the differences span fewer dimensions over GF(2) than there are address bits, and each
missing dimension halves the part of the memory in which the errors can lie.

With ``m`` differences of ``b`` bits the chance that unconfined errors lose one dimension is about
``2**(b - m)``. What this cannot see: a channel count that is not a power of two shows only its
power-of-two part (5 times 8 channels look like 8), so the result is a lower bound and the failing share of
the sectors is given beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SECTOR_SHIFT = 2
"""Words to 32-byte sectors."""
PAGE_SECTOR_BITS = 16
"""Sectors of a 2 MiB page, as bits of address."""
MINIMUM_PAGES = 4
"""A single failing row lies in one page and looks confined as well; several pages rule it out."""
CLAIM_PROBABILITY = 1e-6


@dataclass(frozen=True, slots=True)
class SliceTest:
    """Errors lie in 1 of ``2**k`` address slices; ``probability`` that unconfined errors look like this.

    ``bits``: address bits over which the errors of a page vary; ``differences``: distinct differences.
    """

    k: int
    bits: int
    rank: int
    differences: int
    pages: int
    probability: float

    @property
    def chance(self) -> float:
        """Bound on the chance that unconfined errors lose ``k`` dimensions, from the count of such subspaces.

        It needs fewer differences than ``probability``, which also guards against one dimension too many.
        """
        return min(1.0, 3.5 * 2.0 ** min(10, max(-1000, self.k * (self.bits - self.k - self.differences))))

    @property
    def confined(self) -> bool:
        """Whether a claim may be made."""
        return self.k > 0 and self.pages >= MINIMUM_PAGES and self.probability < CLAIM_PROBABILITY


def slice_test(words: Iterable[int]) -> SliceTest:
    """The GF(2) slice test over the indexes of failing 64-bit words.

    Only the bits up to the highest that ever differs count as free: errors that lie close together in every
    page (a burst, one tile) are local, not confined to a slice.
    """
    pages: dict[int, set[int]] = {}
    for word in words:
        sector = word >> SECTOR_SHIFT
        pages.setdefault(sector >> PAGE_SECTOR_BITS, set()).add(sector & ((1 << PAGE_SECTOR_BITS) - 1))
    differences: set[int] = set()
    useful = 0
    for sectors in pages.values():
        if len(sectors) < 2:
            continue
        useful += 1
        base = min(sectors)
        differences.update(sector ^ base for sector in sectors if sector != base)
    bits = max((value.bit_length() for value in differences), default=0)
    rank = gf2_rank(differences)
    k = bits - rank
    probability = 1.0 if k == 0 else min(1.0, 2.0 ** max(bits - len(differences), -1000))
    return SliceTest(k, bits, rank, len(differences), useful, probability)


def gf2_rank(vectors: Iterable[int]) -> int:
    """Number of linearly independent vectors over GF(2), each an integer's bits."""
    basis: dict[int, int] = {}
    for vector in vectors:
        rest = vector
        while rest:
            pivot = rest.bit_length()
            if pivot not in basis:
                basis[pivot] = rest
                break
            rest ^= basis[pivot]
    return len(basis)


def slice_sentence(test: SliceTest) -> str:
    """The finding in words, or an empty text where no claim may be made."""
    if not test.confined:
        return ""
    reach = "one channel, not the whole card" if test.k >= 3 else "a part of the channels, not the whole card"
    return f"errors are confined to 1 of {1 << test.k} address slices (p < 1e-6): {reach}"


@dataclass(frozen=True, slots=True)
class FailingFraction:
    """Failing sectors of the sectors tested, with the 95 % interval of the share."""

    failing: int
    tested: int
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.failing / self.tested


def failing_fraction(
    words: Iterable[int], page_errors: Mapping[int, int], records: Mapping[int, int], tested_words: int
) -> FailingFraction | None:
    """The share of 32-byte sectors that fail, over the pages whose errors were all recorded.

    ``page_errors``: full error counts per page; ``records``: recorded errors per page, of any fault. Pages
    without errors count as tested. None when errors were left out in every page that has some.
    """
    complete = {page for page, errors in page_errors.items() if 0 < errors <= records.get(page, 0)}
    if not complete:
        return None
    page_words = 1 << (PAGE_SECTOR_BITS + SECTOR_SHIFT)
    incomplete = sum(1 for page, errors in page_errors.items() if errors and page not in complete)
    tested = (tested_words - incomplete * page_words) >> SECTOR_SHIFT
    failing = len({word >> SECTOR_SHIFT for word in words if word // page_words in complete})
    if tested < failing or not failing:
        return None
    low, high = wilson_interval(failing, tested)
    return FailingFraction(failing, tested, low, high)


def wilson_interval(part: int, whole: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, JASA 22 (1927) 209-212)."""
    z = 1.959964
    share = part / whole
    centre = share + z * z / (2 * whole)
    spread = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def fraction_sentence(fraction: FailingFraction) -> str:
    """The failing share in words; its inverse hints at the number of channels."""
    return (
        f"{fraction.failing:,} of {fraction.tested:,} tested sectors of 32 bytes fail: "
        f"{100 * fraction.share:.3g} % (95 %: {100 * fraction.low:.3g} to {100 * fraction.high:.3g} %), "
        f"about 1 in {1 / fraction.share:,.0f}"
    )
