"""How often the map and the line test of `mats latency-test` err, in simulation: python benchmarks/latency_rates.py

The statistics are the project's own; the noise they meet is assumed (multiprocessors that differ by 25 of 640 cycles as
on an NVIDIA L40, arXiv 2606.22588; a clock step of 2 to 8 %, drift, one walk in a hundred 1.05 to 3 times as late).
A line's time from the cache depends on its half and slice of it, that from the memory on its channel as well; loads
from the memory vary by 20 cycles, from the cache by 4, and 6 in 100 of the first wait for something else. Nothing here
was measured on a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy

from mats.probes._latency_hops import LINES, ROUNDS, Line
from mats.probes._latency_limits import LINES as NAMES
from mats.probes._latency_limits import bound_of
from mats.probes._latency_lines import Classes, classify
from mats.probes._latency_map import Comparison, Times, compare
from mats.probes._latency_rates import upper_bound

CYCLES, UNIT_SPREAD, PER_HOP, HOPS = 640.0, 25.0, 110.0, 2048
UNITS, WALKERS = 80, 7
DISTURBED, DRIFT = 0.01, 0.0003

HIT, OTHER_HALF, MEMORY = 230.0, 110.0, 330.0
SLICES, SLICE_SPREAD, CHANNEL_SPREAD, JITTER, HIT_JITTER = 64, 15.0, 8.0, 20.0, 4.0
DELAYED, DELAY = 0.06, (100.0, 400.0)
CHANNELS = (4, 8, 16, 32, 64)


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


def lines_world(channels: int, slower: float, draw: numpy.random.Generator) -> list[Line]:
    """The lines of one run, of which one channel answers later; the clock steps once between two rounds."""
    channel = draw.integers(0, channels, LINES)
    slices = draw.normal(0, SLICE_SPREAD, SLICES)[draw.integers(0, SLICES, LINES)]
    hit = HIT + OTHER_HALF * draw.integers(0, 2, LINES) + slices
    cold = hit + MEMORY + draw.normal(0, CHANNEL_SPREAD, channels)[channel]
    cold = numpy.where(channel == 1, cold * slower, cold)
    clock = numpy.ones(ROUNDS)
    clock[draw.integers(1, ROUNDS) :] += draw.choice([-1, 1]) * draw.uniform(0.02, 0.08)
    size = (LINES, ROUNDS)
    late = (draw.random(size) < DELAYED) * draw.uniform(*DELAY, size)
    colds = (cold[:, None] + draw.normal(0, JITTER, size) + late) * clock
    hits = (hit[:, None] + draw.normal(0, HIT_JITTER, size)) * clock
    regions = numpy.arange(LINES) // 64
    rows = zip(regions.tolist(), colds.astype(int).tolist(), hits.astype(int).tolist(), strict=True)
    return [Line(region, tuple(from_memory), tuple(from_cache)) for region, from_memory, from_cache in rows]


def shares(worlds: int, channels: int, slower: float, seed: int) -> list[float]:
    """The share of slow lines that each world shows."""
    draw = numpy.random.default_rng(seed)
    found = [classify(lines_world(channels, slower, draw)) for _ in range(worlds)]
    return [one.share for one in found if isinstance(one, Classes)]


def print_lines(clean: int, faulty: int) -> None:
    print("\nchannels  slower by  wanted   least    mean    most  worlds  warned  within 0.02")
    bound = bound_of(NAMES[0])
    for channels in CHANNELS:
        for slower in (1.0, 1.1, 1.2, 1.47):
            worlds = -(-clean // len(CHANNELS)) if slower == 1.0 else faulty
            seen = shares(worlds, channels, slower, channels * 1000 + int(slower * 100))
            wanted = 1 / channels if slower > 1 else 0.0
            warned = sum(share > bound for share in seen)
            within = sum(abs(share - wanted) <= 0.02 for share in seen)
            print(
                f"{channels:8} {slower - 1:10.0%} {wanted:7.4f} {min(seen):7.4f} {sum(seen) / len(seen):7.4f} "
                f"{max(seen):7.4f} {worlds:7} {warned:7} {within:7}"
            )


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
    print_lines(given.clean, given.faulty)
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
