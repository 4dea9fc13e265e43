"""How long a page pool takes to compact itself, on this machine: python benchmarks/page_pool.py

Pages are put into the frames in random order, in 90 % of them, and compacted in steps of a budget. Times are of the
wall clock, with whatever else the machine does in them; the processor time beside it tells how much that is. The copies
are numpy's, in the machine's own memory: nothing here says how long a GPU takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence

import numpy

from mats.flashmemory.pool import ArrayFrames, Figures, PagePool, Step

ROW = 512
"""Pages of an owner."""


def scattered(frames: int, size: int, share: float) -> PagePool:
    """Pages in random order, of as many owners as twice the frames allow."""
    data = numpy.random.default_rng(0).integers(0, 2**32, (frames, size // 4), dtype=numpy.uint32)
    owners = max(1, 2 * frames // ROW)
    pool = PagePool(ArrayFrames(data), owners, ROW)
    for number in numpy.random.default_rng(1).permutation(owners * ROW)[: int(frames * share)].tolist():
        pool.allocate(number // ROW, number % ROW, heat=float(number // ROW % 17))
        pool.unpin(number // ROW, number % ROW)
    return pool


def contents(pool: PagePool) -> dict[int, int]:
    """The checksum of every page."""
    found: dict[int, int] = {}
    with pool.reading() as reader:
        for owner in range(2 * pool.frames.count // ROW):
            row = reader.frames(owner)
            here = numpy.flatnonzero(row >= 0)
            sums = pool.frames.checksums(row[here]).tolist()
            found.update(zip((owner * ROW + here).tolist(), sums, strict=True))
    return found


def told(name: str, found: Figures) -> None:
    print(
        f"{name:7} runs {found.runs:6} of {found.owners:4} at least, scatter {found.scatter:.3f}, "
        f"holes {found.free_runs:5}, the largest of {found.largest_free_run:5} frames"
    )


def compacted(pool: PagePool, budget: float) -> tuple[list[Step], list[float], float]:
    """The steps of one compaction, the seconds of a processor each had, and seconds of the plan."""
    start = time.perf_counter()
    compaction = pool.compaction()
    plan = time.perf_counter() - start
    steps, busy = [], []
    while not compaction.is_over:
        start = time.thread_time()
        steps.append(compaction.step(budget))
        busy.append(time.thread_time() - start)
    return steps, busy, plan


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=65_536)
    parser.add_argument("--size", type=int, default=4096, help="bytes of a frame")
    parser.add_argument("--share", type=float, default=0.9, help="of the frames that hold a page")
    parser.add_argument("--budget-ms", type=float, default=12.0)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(arguments)
    print(f"{given.frames} frames of {given.size} bytes, {given.share:.0%} in use; load {os.getloadavg()[0]:.1f}")
    for repeat in range(given.repeats):
        pool = scattered(given.frames, given.size, given.share)
        if not repeat:
            told("before", pool.figures())
        words = contents(pool)
        steps, busy, plan = compacted(pool, given.budget_ms / 1e3)
        if not repeat:
            told("after", pool.figures())
            print(
                "   plan  steps  within budget  median   99 %  longest  [ms]  total  CPU  [s]  "
                "CPU within budget  copies a page  bytes"
            )
        times = sorted(step.seconds * 1e3 for step in steps)
        copies = sum(step.placed + step.evacuated for step in steps)
        sound = contents(pool) == words and not pool.validate() and pool.figures().is_compact
        on_cpu = sum(one * 1e3 <= given.budget_ms for one in busy)
        within = sum(one <= given.budget_ms for one in times)
        print(
            f"{plan * 1e3:7.1f} {len(times):6} {within / len(times):13.1%} {statistics.median(times):8.2f} "
            f"{times[int(len(times) * 0.99)]:6.2f} {times[-1]:8.2f} {sum(times) / 1e3:12.2f} {sum(busy):4.2f} "
            f"{on_cpu / len(times):23.1%} {copies / pool.figures().used:14.2f}  {'the same' if sound else 'BROKEN'}"
        )


if __name__ == "__main__":
    main()
