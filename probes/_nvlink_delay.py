"""How long one load over the link takes: a chain in one GPU's memory, walked by a thread of another one.

The chain is short and walked once ahead, so that it lies in the cache of the GPU that owns it: what is timed is the way
and not the memory. (nvbandwidth's device_to_device_latency_sm does alike.)
"""

from __future__ import annotations

import random
import struct

from mats.device import Buffer
from mats.model import AbsenceKind

from ._latency_chain import ALL_BLOCKS, WALK_WORDS, draw_order, units_of
from ._nvlink_bench import CHAIN_LINES, PAGE, Seat, part
from ._nvlink_seen import SECOND, Taken, median_of, not_taken

UNITS = 3
"""Multiprocessors from which it is walked: the way from each of them to the link has its own length."""
ATTEMPTS = 3
METHOD = "a chain of dependent loads by one thread, per load; the lines lie in the other GPU's cache"


def draw_chain(seed: int) -> tuple[int, ...]:
    """Where the lines of the chain are, as word offsets within a page, in the order in which they are walked."""
    return draw_order(PAGE, CHAIN_LINES, random.Random(f"link {seed}"))


def load_delay(walker: Seat, owner: Seat, order: tuple[int, ...]) -> Taken:
    """Seconds of one load by ``walker`` from the memory of ``owner``, to which it is connected. Raises DeviceError."""
    chain = part(owner.sink, PAGE)
    piece = Buffer(owner.order.address, 8 * len(order))
    owner.device.copy(piece, struct.pack(f"<{len(order)}Q", *order))
    owner.device.launch("lay_chain", 1, data=chain, stride_words=PAGE // 8, order=piece, lines=len(order))
    units = units_of(walker.device.describe())
    chosen = units[:: max(1, len(units) // UNITS)][:UNITS]
    walks = [walk for unit in chosen if (walk := _walk(walker, chain, order, unit)) is not None]
    if not walks:
        return not_taken(AbsenceKind.UNREADABLE, "no chain of loads was walked to its end")
    return median_of(walks, SECOND, METHOD)


def _walk(walker: Seat, chain: Buffer, order: tuple[int, ...], unit: int) -> float | None:
    """Seconds of a load; None where no thread ran on the multiprocessor, or the chain led somewhere else."""
    device = walker.device
    for _ in range(ATTEMPTS):
        device.copy(walker.walk, bytes(walker.walk.size))
        device.launch(
            "walk_chain",
            ALL_BLOCKS,
            data=chain,
            mask=chain.size // 8 - 1,
            start=order[0],
            ahead=len(order),
            hops=len(order),
            pages=1,
            unit=unit,
            near=0,
            walk=walker.walk,
        )
        claimed, _cycles, nanoseconds, end = struct.unpack(
            f"<{WALK_WORDS}Q", device.fetch(walker.walk, 0, WALK_WORDS * 8)
        )[:4]
        if claimed:
            return nanoseconds / 1e9 / len(order) if end == order[0] and nanoseconds else None
    return None
