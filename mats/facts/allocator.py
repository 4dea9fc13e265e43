"""What is known of a process's own cache of GPU memory: the allocator that keeps what the driver once gave.

A driver gives pages that need not be neighbours; what fragments is each process's cache, holes between tensors in
ranges it already owns. The same picture whether it comes from a snapshot file, a message of an allocator that ran out
of memory, a table of statistics, or live from within the process. Nothing here is judged. Sizes are bytes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mats.facts.gpu import UNASKED, Text
from mats.model import Absent, Reading


class Allocator(enum.StrEnum):
    """Whose cache it is. The values are words for people."""

    TORCH = "torch caching allocator"
    ASYNC = "cudaMallocAsync pool"
    CUPY = "CuPy pool"
    BFC = "BFC allocator (JAX, TensorFlow)"
    ENGINE = "page pool of an inference engine"


class BlockState(enum.StrEnum):
    """What a block of a segment is."""

    USED = "in use"
    PENDING = "freed, waits for a stream"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """A piece of a segment. ``offset`` from the segment's start; ``asked``: what the program asked for, of a used one.

    ``stack``: number of the code that asked for it in :attr:`CacheFacts.stacks`, or -1.
    """

    offset: int
    size: int
    state: BlockState
    asked: int
    stack: int = -1


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A range the driver gave at once, or a mapped range of an expandable one. ``pool``: empty for the default pool."""

    address: int
    size: int
    small: bool
    """It serves requests of at most 1 MiB."""
    stream: int
    pool: str
    expandable: bool
    blocks: tuple[BlockFacts, ...]


@dataclass(frozen=True, slots=True)
class StuckFacts:
    """Free bytes of the cache that emptying it would not give back, by what holds them there."""

    gaps: Reading = UNASKED
    """Live blocks lie between."""
    other_stream: Reading = UNASKED
    """In segments of another stream than the default one: only requests on that stream can take them."""
    private_pool: Reading = UNASKED
    """In pools of CUDA graphs or of the program's own, which stay while their owner lives."""
    small_pool: Reading = UNASKED
    """In segments for requests of at most 1 MiB."""


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """Another process that holds memory of the same GPU."""

    pid: int
    memory: Reading


@dataclass(frozen=True, slots=True)
class RefusalFacts:
    """A request that was refused. ``wanted``: of the program; ``asked``: what was asked of the driver for it.

    ``limit``: what the process may have at most, where it was set; ``stack``: the program's code, innermost first.
    """

    wanted: Reading
    free: Reading = UNASKED
    """Of the device at that moment."""
    total: Reading = UNASKED
    """Of the device."""
    limit: Reading = UNASKED
    process: Reading = UNASKED
    """What this process holds of the device, its context included."""
    others: tuple[HolderFacts, ...] = ()
    stack: tuple[str, ...] = ()
    text: str = ""
    """The message itself, where there is one."""


@dataclass(frozen=True, slots=True)
class MomentFacts:
    """Bytes at one moment of a history. ``second``: since its first dated event; absent where nothing is dated."""

    event: int
    second: Reading
    allocated: int
    reserved: int


@dataclass(frozen=True, slots=True)
class ShareFacts:
    """Bytes and blocks that one place of the program holds. ``stack``: number in :attr:`CacheFacts.stacks`, or -1."""

    stack: int
    size: int
    blocks: int


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """What was recorded of a cache's past, which may begin in its midst."""

    events: int
    moments: tuple[MomentFacts, ...]
    """In time order, thinned; lowest and highest of every stretch are kept."""
    peak: MomentFacts
    at_peak: tuple[ShareFacts, ...]
    """Who held what at the peak, largest first."""
    before: int
    """Bytes in use at the peak that were had before the record begins."""
    lasting: tuple[ShareFacts, ...]
    """Places whose blocks had within the record were never given back, largest first."""
    largest_request: Reading


@dataclass(frozen=True, slots=True)
class ExtentFacts:
    """Free blocks of one size class: at least ``least`` and less than twice as many bytes."""

    least: int
    blocks: int
    size: int


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """The cache of one process for one device."""

    allocator: Allocator
    device: Reading = UNASKED
    origin: str = ""
    """What told it, such as the name of a file."""
    writer: Text = UNASKED
    """What wrote the evidence, as far as its form tells: "torch 2.4 to 2.7"."""
    reserved: Reading = UNASKED
    allocated: Reading = UNASKED
    """In blocks of live tensors, rounding included."""
    pending: Reading = UNASKED
    """Freed by the program and still waiting for a stream."""
    requested: Reading = UNASKED
    """What the program asked for, of ``allocated``."""
    cached: Reading = UNASKED
    """Free within the cache: reserved less allocated less pending."""
    returnable: Reading = UNASKED
    """What emptying the cache gives back to the driver."""
    tail: Reading = UNASKED
    """Free end of the last expandable range that is not returnable and could still be grown."""
    stuck: StuckFacts = StuckFacts()
    largest_free: Reading = UNASKED
    largest_usable: Reading = UNASKED
    """The largest free block that a request above 1 MiB on the default stream can take."""
    largest_small: Reading = UNASKED
    """The same for a request of at most 1 MiB."""
    segments: Reading = UNASKED
    blocks: Reading = UNASKED
    free_blocks: Reading = UNASKED
    retries: Reading = UNASKED
    """How often the allocator emptied itself because the driver had refused."""
    refused: Reading = UNASKED
    """How often it gave up."""
    limit: Reading = UNASKED
    extents: tuple[ExtentFacts, ...] = ()
    map: tuple[SegmentFacts, ...] = ()
    stacks: tuple[tuple[str, ...], ...] = ()
    """Code that asked for memory, innermost first, each line as function and file:line."""
    refusals: tuple[RefusalFacts, ...] = ()
    history: HistoryFacts | Absent = UNASKED
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
