"""The limits of the fragmentation analysis, each with its source and its reason."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

READ = "2026-12-01"
THRESHOLD = 0.18
"""Share of the reserved memory that may be stuck."""
FLOOR, FLOOR_SHARE = 512 << 20, 0.02
"""Below so many bytes, or that share of the device where it is less, no share alarms."""

_OWN = Source(
    "mats explain frag, a convention of this project",
    "18 % of what is reserved and at least 512 MiB or 2 % of the device: quiet on eight of nine public snapshots, of "
    "which none but the ninth lost memory that mattered",
    SourceKind.CONVENTION,
    READ,
)
_ARITHMETIC = Source(
    "c10/cuda/CUDACachingAllocator (pytorch)",
    "a free block, else the driver, else the driver after the cache was emptied",
    SourceKind.DEFINITION,
    READ,
)
_STATISTICS = Source("torch.cuda.memory_stats", "num_alloc_retries, num_ooms", SourceKind.VENDOR, READ)


def _none(
    code: str, measurement: str, title: str, severity: Severity, source: Source, reasoning: str, advice: str
) -> Limit:
    bound = Quantity(0, Unit.COUNT)
    return Limit(code, f"frag.{measurement}", title, Relation.AT_MOST, bound, severity, source, reasoning, advice)


_FAIL, _WARN, _NOTE, _UNKNOWN = Severity.FAIL, Severity.WARN, Severity.NOTE, Severity.UNKNOWN
_READ_MORE = "See the arithmetic in the evidence."

LIMITS = (
    Limit(
        "FRG-001",
        "frag.stuck_of_threshold",
        "much of the cache is free and can neither be used nor given back",
        Relation.AT_MOST,
        Quantity(1.0, Unit.RATIO),
        _WARN,
        _OWN,
        "The share of free to reserved alarms on healthy caches, 1 less largest over free on every one; what counts is "
        "what emptying the cache would not return, of a size that matters.",
        "See what holds it: gaps between live blocks, another stream, pools of graphs, small segments.",
    ),
    _none(
        "FRG-002",
        "unmet.fragmented",
        "a request fails though the memory is there: it lies between live blocks",
        _FAIL,
        _ARITHMETIC,
        "The bytes that are free together are enough, the largest piece that can be had is not.",
        _READ_MORE,
    ),
    _none(
        "FRG-003",
        "unmet.stream_locked",
        "a request fails though the memory is there: it belongs to another stream",
        _FAIL,
        _ARITHMETIC,
        "Free blocks serve only requests on the stream they were made for.",
        _READ_MORE,
    ),
    _none(
        "FRG-004",
        "unmet.pool_locked",
        "a request fails though the memory is there: private pools hold it",
        _FAIL,
        _ARITHMETIC,
        "Pools of CUDA graphs keep their segments while a graph that uses them lives.",
        _READ_MORE,
    ),
    _none(
        "FRG-005",
        "unmet.pending",
        "a request fails though the memory was freed: a stream has not done with it",
        _FAIL,
        _ARITHMETIC,
        "Blocks that another stream has used (record_stream) are free only when it has passed them.",
        _READ_MORE,
    ),
    _none(
        "FRG-006",
        "unmet.capacity",
        "a request fails for lack of memory: no packing would help",
        _FAIL,
        _ARITHMETIC,
        "It is more than everything that is free on the device and in the cache together.",
        _READ_MORE,
    ),
    _none(
        "FRG-007",
        "unmet.limit",
        "a request fails at a limit that was set for the process",
        _FAIL,
        _ARITHMETIC,
        "What the cache holds and the request together pass the limit; the device itself may be nearly empty.",
        _READ_MORE,
    ),
    _none(
        "FRG-008",
        "unmet.refused",
        "a request was refused though it fits in what is free",
        _WARN,
        _ARITHMETIC,
        "Neither lack of memory nor fragmentation explains it from what is seen.",
        _READ_MORE,
    ),
    _none(
        "FRG-009",
        "unmet.unknown",
        "a request was refused, and what was seen does not say why",
        _UNKNOWN,
        _ARITHMETIC,
        "Too little of the cache is told: a verdict would be a guess.",
        _READ_MORE,
    ),
    _none(
        "FRG-010",
        "refusals_counted",
        "the process ran out of memory before",
        _WARN,
        _STATISTICS,
        "The allocator counts requests that it refused for good; why is not in its statistics.",
        "Save a snapshot when it happens (torch.cuda.memory._dump_snapshot), or the message, and read it here.",
    ),
    _none(
        "FRG-011",
        "retries_added",
        "the allocator had to empty itself again",
        _WARN,
        _STATISTICS,
        "Each retry gives the whole cache back and stalls every stream: it hurts, whatever the shares are.",
        "Hold less, or use expandable segments; see which phase has the peak.",
    ),
    _none(
        "FRG-012",
        "retries",
        "the allocator has emptied itself before",
        _NOTE,
        _STATISTICS,
        "The count is of the whole life of the process: one while it warms up is harmless.",
        "Read the statistics twice and compare (mats frag A B).",
    ),
)
