"""Why is there no room on the GPU though memory is free, and what would give it back?

Method. A process does not give memory back to the driver when a tensor dies: its allocator keeps it. So free memory is
of two kinds, on the device and in the cache, and holes in the cache are seen only from within the process, or in what
it has written: a memory snapshot of torch, the message of an allocator that ran out of memory, a table of statistics.
From these the bytes are summed by what holds them: what emptying the cache would return, and what is stuck between
live blocks, on another stream, in pools of CUDA graphs, in segments for small requests. The reach is the largest tensor
that can be had now: the larger of the largest usable block and of what the driver has free with what comes back. A
request beyond all that is free fails for capacity, one between the reach and that for fragmentation, of a named kind.

What it cannot see. The free memory of the device, unless a refusal tells it or --free does. Physical pages: the driver
glues pages of 2 MiB that need not be neighbours, so that the device itself does not fragment in this way. Why a request
was refused that fits in what is free. What a pool of cudaMallocAsync keeps. Which memory is used often: no counter of a
GPU tells it. Nothing in a snapshot is executed; what is no plain data is refused.

Judged by a convention: stuck memory above 18 % of what is reserved and of 512 MiB or 2 % of the device at least. Of
nine public snapshots that were held against it, it speaks of the one that had lost memory that mattered.

Not judged: 1 less the largest free block over all free memory. It is above 0.95 in healthy programs.

Sources. pytorch, c10/cuda/CUDACachingAllocator (order of the search, units of segments); torch/cuda/memory (snapshots,
statistics); Linux mm/vmstat (indices of fragmentation); GMLake and STAlloc (what stuck memory costs).
"""

from __future__ import annotations

from mats.model import Observation
from mats.probe import Context, Option, OptionKind, Probe, UsageError
from mats.source import NothingThere, Source

from ._frag_limits import LIMITS, THRESHOLD


def measure(source: Source, context: Context) -> Observation:
    """Reads the source once and explains it. Raises UsageError, SourceError."""
    from ._frag_results import Question, observe  # not needed to print a help page

    options = context.options
    threshold, need, free = options.get("threshold"), options.get("need"), options.get("free")
    if not isinstance(threshold, float | int) or threshold <= 0:
        raise UsageError("--threshold must be above 0 %")
    context.progress(0, 1, "reading what is known of the memory")
    machine = source.read()
    if not machine.caches:
        raise NothingThere(
            "nothing here tells of a process's own memory: give a snapshot (torch.cuda.memory._dump_snapshot), the "
            "message of an allocator that ran out of memory, or torch.cuda.memory_summary()",
            machine,
        )
    question = Question(
        float(threshold),
        need if isinstance(need, int) else None,
        free if isinstance(free, int) else None,
        bool(options.get("timeline")),
    )
    return observe(machine.caches, question, machine.notes)


OPTIONS = (
    Option(
        "from",
        OptionKind.EVIDENCE,
        "Snapshots of torch (pickle or JSON), messages of running out of memory, tables and dumps of statistics; of "
        "two of the same GPU what grew is told.",
    ),
    Option("need", OptionKind.MEBIBYTES, "A request to ask about: whether so much could be had now, and why not."),
    Option("free", OptionKind.MEBIBYTES, "What the device has free, where the evidence does not tell."),
    Option(
        "threshold",
        OptionKind.SHARE,
        "Share of the reserved memory that may be stuck before it is said.",
        default=THRESHOLD,
    ),
    Option(
        "timeline", OptionKind.FLAG, "Show memory over time, who held it at the peak, and what lasts.", default=False
    ),
)

PROBE = Probe(
    name="frag",
    question="Why is there no room though memory is free, and what would give it back?",
    kinds=("file", "sim"),
    order=150,
    exclusive=False,
    limits=LIMITS,
    faults=("cache_gaps", "cache_stream", "cache_graphs", "cache_full"),
    options=OPTIONS,
    measure=measure,
    passive=True,
)
