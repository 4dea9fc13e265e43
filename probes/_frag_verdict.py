"""Why a request was refused, or whether one would be: arithmetic on what a cache holds. Nothing here is measured.

S is what is wanted, F what is free on the device, C what is free within the cache. A caching allocator looks for a free
block, then asks the driver, then gives back what it can and asks again: so the largest tensor that can be had now, the
reach, is the larger of its largest usable block and of F with what it gives back. Beyond F + C no packing helps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mats.facts.allocator import Allocator, CacheFacts, RefusalFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._frag_words import size

LIMIT_SHARE = 0.99
"""A limit above this share of the device's memory limits nothing: it is the device."""


class Cause(enum.StrEnum):
    """What stands in the way of a request."""

    FITS = "fits"
    IMPOSSIBLE = "impossible"
    """More than the whole device."""
    CAPACITY = "capacity"
    """More than everything free: no packing would have helped."""
    FRAGMENTED = "fragmented"
    """The bytes are there, between live blocks."""
    STREAM = "stream-locked"
    """The bytes are there, for requests on another stream."""
    POOL = "pool-locked"
    """The bytes are there, in pools of graphs or of the program's own."""
    PENDING = "pending"
    """The bytes are there as soon as a stream has done with them."""
    LIMIT = "limit"
    """A limit that was set for the process."""
    REFUSED = "free-but-refused"
    """It fits in what the driver called free, and was refused."""
    UNKNOWN_POOL = "unknown-pool"
    """What a pool keeps is not told."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Explanation:
    """``steps``: the arithmetic, a line each; ``remedy``: what really helps."""

    cause: Cause
    steps: tuple[str, ...]
    remedy: str


SMALL, MEDIUM = 1 << 20, 10 << 20
"""Requests up to the first come from small segments; from the second on a segment is made for the request alone."""
UNIT, SMALL_SEGMENT, MEDIUM_SEGMENT = 2 << 20, 2 << 20, 20 << 20
"""What torch asks the driver for: multiples of the first, or one of the others (c10/cuda/CUDACachingAllocator)."""


def segment_for(wanted: float) -> int:
    """Bytes that torch asks the driver for when no free block fits a request."""
    if wanted <= SMALL:
        return SMALL_SEGMENT
    return MEDIUM_SEGMENT if wanted < MEDIUM else -(-int(wanted) // UNIT) * UNIT


def reach(cache: CacheFacts, free: Reading) -> Reading:
    """The largest tensor that can be had now, bytes, or why it is not known.

    Of torch what comes from the driver comes in whole units, and not below 10 MiB.
    """
    if isinstance(cache.largest_usable, Absent):
        return cache.largest_usable
    if isinstance(free, Absent) or isinstance(cache.returnable, Absent):
        gone = free if isinstance(free, Absent) else cache.returnable
        assert isinstance(gone, Absent)
        return Absent(gone.kind, f"reach: at least {size(cache.largest_usable)} from the cache; {gone.reason}")
    tail = 0 if isinstance(cache.tail, Absent) else cache.tail.value
    fresh = int(free.value + cache.returnable.value + tail)
    if cache.allocator is Allocator.TORCH:
        fresh = fresh // UNIT * UNIT if fresh >= MEDIUM else 0
    return Quantity(max(int(cache.largest_usable.value), fresh), Unit.BYTE)


def fits(cache: CacheFacts, free: Reading, wanted: float) -> bool | None:
    """Whether a request on the default stream could be had now; None where the cache's blocks are not known."""
    largest = cache.largest_small if wanted <= SMALL else cache.largest_usable
    if isinstance(largest, Absent) or isinstance(free, Absent) or isinstance(cache.returnable, Absent):
        return None
    if wanted <= largest.value:
        return True
    needed = segment_for(wanted) if cache.allocator is Allocator.TORCH else wanted
    tail = 0 if isinstance(cache.tail, Absent) else cache.tail.value
    return needed <= free.value + cache.returnable.value + tail


def explain(cache: CacheFacts, request: RefusalFacts, *, refused: bool = True) -> Explanation:
    """Why ``request`` cannot be had from ``cache``. ``refused``: it was, and is not only asked about."""
    wanted = request.wanted
    if isinstance(wanted, Absent):
        return Explanation(Cause.UNKNOWN, (wanted.reason,), _REMEDIES[Cause.UNKNOWN])
    steps = _known(cache, request)
    cause = _cause(cache, request, wanted.value, steps, refused)
    return Explanation(cause, tuple(steps), remedy(cause, cache, request))


def _known(cache: CacheFacts, request: RefusalFacts) -> list[str]:
    """The figures that enter, a line each; those that are not told are left out."""
    figures = (
        ("wanted", request.wanted),
        ("free on the device", request.free),
        ("free in the cache", cache.cached),
        ("waits for a stream", cache.pending),
        ("of it given back when emptied", cache.returnable),
        ("largest block that the request could take", cache.largest_usable),
        ("limit of the process", request.limit),
        ("whole device", request.total),
    )
    return [f"{name}: {size(reading)}" for name, reading in figures if isinstance(reading, Quantity)]


def _cause(cache: CacheFacts, request: RefusalFacts, wanted: float, steps: list[str], refused: bool) -> Cause:
    total, free = request.total, request.free
    if isinstance(total, Quantity) and wanted > total.value:
        return Cause.IMPOSSIBLE
    if _limited(cache, request, wanted, steps):
        return Cause.LIMIT
    if cache.allocator is Allocator.ASYNC and isinstance(cache.cached, Absent):
        return _slack(cache, request, steps)
    if isinstance(free, Absent) or isinstance(cache.cached, Absent):
        return Cause.UNKNOWN
    within = free.value + cache.cached.value
    largest = reach(cache, free)
    if isinstance(largest, Quantity):
        steps.append(f"largest tensor now (reach): {size(largest)}")
    there = fits(cache, free, wanted)
    if there is None:
        there = wanted <= (largest.value if isinstance(largest, Quantity) else free.value)
    if there:
        steps.append("the request fits in it" if isinstance(largest, Quantity) else "the request fits in what is free")
        return Cause.REFUSED if refused else Cause.FITS
    if wanted > within:
        steps.append(f"free altogether: {size(Quantity(int(within), Unit.BYTE))}, less than is wanted")
        pending = 0 if isinstance(cache.pending, Absent) else cache.pending.value
        return Cause.PENDING if wanted <= within + pending else Cause.CAPACITY
    steps.append(
        f"free altogether: {size(Quantity(int(within), Unit.BYTE))}, more than is wanted, but not in one piece"
    )
    return _kind(cache, wanted, within)


def _limited(cache: CacheFacts, request: RefusalFacts, wanted: float, steps: list[str]) -> bool:
    limit, total, held = request.limit, request.total, cache.reserved
    if isinstance(limit, Absent) or isinstance(held, Absent):
        return False
    if isinstance(total, Quantity) and limit.value > LIMIT_SHARE * total.value:
        steps.append("the limit is the whole device: none was set")
        return False
    if held.value + wanted <= limit.value:
        return False
    steps.append(f"held by the cache and wanted together: {size(Quantity(int(held.value + wanted), Unit.BYTE))}")
    return True


def _slack(cache: CacheFacts, request: RefusalFacts, steps: list[str]) -> Cause:
    """What the device has beside the tensors and what is free: the pool's slack and others, told apart by nobody."""
    readings = (request.total, request.free, cache.allocated)
    if any(isinstance(reading, Absent) for reading in readings):
        return Cause.UNKNOWN_POOL
    total, free, used = (reading.value for reading in readings if isinstance(reading, Quantity))
    steps.append(f"not explained by the message: {size(Quantity(int(total - free - used), Unit.BYTE))}")
    return Cause.UNKNOWN_POOL


def _kind(cache: CacheFacts, wanted: float, within: float) -> Cause:
    """Which bytes it takes beside those between live blocks to come to what is wanted."""
    stream = 0 if isinstance(cache.stuck.other_stream, Absent) else cache.stuck.other_stream.value
    pool = 0 if isinstance(cache.stuck.private_pool, Absent) else cache.stuck.private_pool.value
    if wanted <= within - stream - pool:
        return Cause.FRAGMENTED
    return Cause.STREAM if stream >= pool else Cause.POOL


def unexplained(cache: CacheFacts, request: RefusalFacts) -> Reading:
    """Bytes of the device that neither tensors nor the driver's free memory account for, of an asynchronous pool."""
    total, free, used = request.total, request.free, cache.allocated
    if isinstance(total, Absent) or isinstance(free, Absent) or isinstance(used, Absent):
        return Absent(AbsenceKind.NOT_FOUND, "the message does not say enough")
    return Quantity(int(total.value - free.value - used.value), Unit.BYTE)


_REMEDIES = {
    Cause.FITS: ("Nothing stands in the way now."),
    Cause.IMPOSSIBLE: ("No setting helps: split the tensor, or take a device with more memory."),
    Cause.CAPACITY: (
        "Emptying the cache or another allocator setting does not help: hold less (smaller batch, shorter "
        "sequence, recomputation, offloading), or take a device with more memory."
    ),
    Cause.STREAM: (
        "The free memory belongs to another stream: ask on that stream, or have the tensors made on the default "
        "one. Emptying the cache gives back only segments without a live block."
    ),
    Cause.POOL: (
        "The free memory is in pools of CUDA graphs or of the program's own: let graphs share a pool, or let go of "
        "those that are not replayed any more. Emptying the cache does not touch a pool in use."
    ),
    Cause.PENDING: (
        "Freed memory waits for a stream that used it (record_stream): synchronise that stream before the request."
    ),
    Cause.LIMIT: (
        "The process has come to a limit that was set for it: raise it (torch: set_per_process_memory_fraction; "
        "CuPy: set_limit or CUPY_GPU_MEMORY_LIMIT), or hold less."
    ),
    Cause.REFUSED: (
        "This is not fragmentation. Another process may have had the memory at that moment, a graph was being "
        "captured, or the driver needs more than is asked; look at the processes on the GPU."
    ),
    Cause.UNKNOWN_POOL: (
        "What the pool of cudaMallocAsync keeps is not in the message: read torch.cuda.memory_stats() or mats frag "
        "within the process, and other processes on the GPU."
    ),
    Cause.UNKNOWN: ("Save a snapshot (torch.cuda.memory._dump_snapshot) or the whole message and read it here."),
}


def remedy(cause: Cause, cache: CacheFacts, request: RefusalFacts) -> str:
    """What really helps; of fragmentation by allocator and setting."""
    if cause is Cause.FRAGMENTED:
        return _against_gaps(cache)
    text = _REMEDIES[cause]
    if cause in (Cause.CAPACITY, Cause.REFUSED) and request.others:
        known = [other for other in request.others if isinstance(other.memory, Quantity)]
        if known:
            largest = max(known, key=lambda other: other.memory.value if isinstance(other.memory, Quantity) else 0)
            text += f" Process {largest.pid} holds {size(largest.memory)} of the same GPU."
    return text


def _against_gaps(cache: CacheFacts) -> str:
    if cache.allocator is Allocator.BFC:
        return (
            "The allocator's free memory lies between live arrays: let go of large arrays before others are made, or "
            "see whether XLA_PYTHON_CLIENT_ALLOCATOR=platform or cuda_async helps."
        )
    if cache.allocator is not Allocator.TORCH:
        return "Free memory lies between live blocks: empty the pool between phases, when large blocks are not in use."
    expandable = any(name == "expandable_segments" and value == "True" for name, value in cache.settings)
    if expandable or any(segment.expandable for segment in cache.map):
        return (
            "Live blocks lie between the free ones though segments are expandable: let go of the blocks that hold the "
            "ranges (see who lasts), or make long-lived tensors first."
        )
    return (
        "Live blocks lie between the free ones, which emptying the cache cannot move: start with "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (since torch 2.9 also PYTORCH_ALLOC_CONF), or make "
        "long-lived tensors first; see who holds the segments."
    )
