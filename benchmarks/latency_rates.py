"""How often the region map of `mats latency-test` errs, on simulated worlds: python benchmarks/latency_rates.py

The statistics are the project's own; the noise they meet is assumed (multiprocessors that differ by 25 of 640 cycles as
on an NVIDIA L40, arXiv 2606.22588; a clock step of 2 to 8 %, drift, one walk in a hundred 1.05 to 3 times as late).
Nothing here was measured on a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy

from mats.probes._latency_map import Comparison, Times, compare
from mats.probes._latency_rates import upper_bound

CYCLES, UNIT_SPREAD, PER_HOP, HOPS = 640.0, 25.0, 110.0, 2048
UNITS, WALKERS = 80, 7
DISTURBED, DRIFT = 0.01, 0.0003


def world(regions: int, passes: int, draw: numpy.random.Generator, slow: dict[int, float]) -> Times:
    """The times of one run, [pass][region]: regions are walked in another order in each pass, by the same units."""
    offsets = draw.normal(0, UNIT_SPREAD, UNITS)
    walkers = offsets[draw.integers(0, UNITS, WALKERS)]
    total = regions * passes
    drift = numpy.cumsum(draw.normal(0, DRIFT, total))
    step = draw.integers(total // 10, total * 9 // 10)
    drift[step:] += draw.choice([-1, 1]) * draw.uniform(0.02, 0.08)
    factors = numpy.ones(regions)
    for region, factor in slow.items():
        factors[region] = factor
    times: list[list[float]] = []
    for index in range(passes):
        order = draw.permutation(regions)
        cycles = (CYCLES + walkers[index % WALKERS]) * factors[order]
        cycles = cycles * (1 + drift[index * regions : (index + 1) * regions])
        cycles += draw.normal(0, PER_HOP / HOPS**0.5, regions)
        late = draw.random(regions) < DISTURBED
        cycles = numpy.where(late, cycles * draw.uniform(1.05, 3.0, regions), cycles)
        one = numpy.empty(regions)
        one[order] = cycles
        times.append(one.tolist())
    return times


def is_found(seen: Comparison, region: int, bound: float) -> bool:
    standing = seen.regions[region]
    return standing is not None and standing.stands_out and standing.excess > bound


def rate(worlds: int, regions: int, passes: int, seed: int, slower: float, bound: float) -> int:
    """Worlds in which a warning was given: anywhere on a clean one, at the slow region on another."""
    draw = numpy.random.default_rng(seed)
    hits = 0
    for _ in range(worlds):
        slow = int(draw.integers(regions))
        seen = compare(world(regions, passes, draw, {slow: slower} if slower > 1 else {}))
        hits += is_found(seen, slow, bound) if slower > 1 else seen.excess > bound
    return hits


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=int, default=384)
    parser.add_argument("--clean", type=int, default=360, help="clean worlds")
    parser.add_argument("--faulty", type=int, default=120, help="worlds for each strength of a fault")
    given = parser.parse_args(arguments)
    start = time.monotonic()
    print("passes  slower by   limit   warned        95 % bound")
    for passes in (7, 15):
        for slower, bound in ((1.0, 0.12), (1.08, 0.12), (1.15, 0.12), (1.47, 0.12), (1.47, 0.25)):
            worlds = given.clean if slower == 1.0 else given.faulty
            hits = rate(worlds, given.regions, passes, passes * 1000 + int(slower * 100), slower, bound)
            bounded = f"<= {upper_bound(hits, worlds):.4f}" if slower == 1.0 else ""
            print(f"{passes:6} {slower - 1:10.0%} {bound:7.0%}   {hits:4} of {worlds:4}  {bounded}")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
