"""The limits of the latency test, each with its source and its reason."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

from ._latency_transfer_limits import LINK_SHARE

READ = "2026-11-30"
GPU_LIKE = ("cuda", "sim")
MAP = ("latency.region_excess", "latency.region_excess_confirmed")
"""What the region map says of the memory."""
LINES = ("latency.slow_line_share", "latency.slow_line_factor_confirmed")
"""What the line test says of it."""

_SIMULATED = Source(
    "benchmarks/RESULTS.md of mats",
    "region map, simulated: 0 false alarms in 360 clean worlds, each region of +15 % and +47 % found",
    SourceKind.CONVENTION,
    READ,
)
_LINES_SIMULATED = Source(
    "benchmarks/RESULTS.md of mats",
    "line test, simulated: no slow line in clean worlds; one slow channel of 4 to 64 found within 0.02 of its share",
    SourceKind.CONVENTION,
    READ,
)
_HONESTY = Source("README of mats", "unknown is not healthy", SourceKind.CONVENTION, READ)
_DEFINITION = Source("definition", "memory must return what was written", SourceKind.DEFINITION, READ)
_CLOCKS = Source("gpu-benches README, RX 6900 XT", "a low memory clock doubles the latency", SourceKind.MEASURED, READ)
_RATIO, _COUNT = Unit.RATIO, Unit.COUNT


def _excess(
    code: str, confirmed: bool, bound: float, severity: Severity, kinds: tuple[str, ...], reasoning: str
) -> Limit:
    return Limit(
        code,
        MAP[1] if confirmed else MAP[0],
        "a region of the memory answers late, in two allocations"
        if confirmed
        else "a region of the memory answers late",
        Relation.AT_MOST,
        Quantity(bound, _RATIO),
        severity,
        _SIMULATED,
        reasoning,
        _ADVICE if kinds == GPU_LIKE else _HOST_ADVICE,
        required=True,
        kinds=kinds,
    )


_ADVICE = (
    "Run it again on an idle device; if it stays, run mats stress and mats health, and compare with a card of the same "
    "model. Which chip it is cannot be told from here."
)
_HOST_ADVICE = (
    "Repeat on an idle machine, with huge pages if they can be had; look at NUMA nodes and at the hypervisor."
)


def _lines(
    code: str, confirmed: bool, bound: float, severity: Severity, kinds: tuple[str, ...], reasoning: str
) -> Limit:
    return Limit(
        code,
        LINES[1] if confirmed else LINES[0],
        "a share of all lines answers late, in two allocations" if confirmed else "a share of all lines answers late",
        Relation.AT_MOST,
        Quantity(bound, _RATIO),
        severity,
        _LINES_SIMULATED,
        reasoning,
        _ADVICE if kinds == GPU_LIKE else _HOST_ADVICE,
        required=kinds == GPU_LIKE,
        kinds=kinds,
    )


LIMITS = (
    _excess(
        "LAT-001",
        False,
        0.12,
        Severity.WARN,
        GPU_LIKE,
        "Regions of a healthy memory differ by less than 2 % when each is walked by the same multiprocessors.",
    ),
    _excess(
        "LAT-002",
        True,
        0.25,
        Severity.FAIL,
        GPU_LIKE,
        "What is late by a quarter in most passes and in two allocations, far outside of the spread, is no noise.",
    ),
    Limit(
        "LAT-003",
        "latency.wrong_ends",
        "a chain of loads led somewhere else: the memory gave back wrong data",
        Relation.AT_MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DEFINITION,
        "Each line of a chain holds where the next one is: a walk that ends elsewhere has read a wrong word.",
        "Do not use this memory for work, and run mats stress: it finds and names faults of data.",
        required=True,
    ),
    Limit(
        "LAT-004",
        "latency.coverage",
        "too little of the memory was timed",
        Relation.AT_LEAST,
        Quantity(0.80, _RATIO),
        Severity.UNKNOWN,
        _HONESTY,
        "A slow part that was not allocated stays unseen, and what is normal is told by what was timed.",
        "Stop other programs that hold memory on this device, and leave out --size.",
        required=True,
        kinds=GPU_LIKE,
        voids=MAP,
    ),
    Limit(
        "LAT-005",
        "latency.memory_clock_change",
        "the memory clock moved during the test",
        Relation.AT_MOST,
        Quantity(0.02, _RATIO),
        Severity.UNKNOWN,
        _CLOCKS,
        "Latency follows the memory clock: regions that were walked at another clock cannot be compared.",
        "Run it again on a device that is warm and idle; a power or heat limit may hold the clock down.",
        required=True,
        kinds=GPU_LIKE,
        voids=(*MAP, *LINES),
    ),
    Limit(
        "LAT-006",
        "latency.other_processes",
        "another process used the device",
        Relation.AT_MOST,
        Quantity(0, _COUNT),
        Severity.UNKNOWN,
        _HONESTY,
        "Loads of another process wait in the same queues: a late answer may be its doing.",
        "End the other work and run it again without --force.",
        kinds=GPU_LIKE,
        voids=(*MAP, *LINES, LINK_SHARE),
    ),
    Limit(
        "LAT-007",
        "latency.chance_alarms",
        "the device was too busy for a verdict",
        Relation.AT_MOST,
        Quantity(0.01, _COUNT),
        Severity.UNKNOWN,
        Source("binomial distribution", "expected regions late in most passes by chance", SourceKind.DEFINITION, READ),
        "When many single walks are disturbed, a region may be late in most of its passes by chance alone.",
        "Run it on a machine that is idle, or with more --passes.",
        required=True,
        voids=MAP,
    ),
    Limit(
        "LAT-008",
        "latency.passes",
        "too few passes for a verdict",
        Relation.AT_LEAST,
        Quantity(7, _COUNT),
        Severity.UNKNOWN,
        _SIMULATED,
        "With 3 passes one run in ten raises a false alarm in the simulation; with 7 none of 360 does.",
        "Leave out --passes, and give the test the time it asks for.",
        required=True,
        voids=MAP,
    ),
    _excess(
        "LAT-009",
        False,
        0.12,
        Severity.NOTE,
        ("host",),
        "A host's pages differ in size, node and place under a hypervisor: a late region is no fault yet.",
    ),
    _excess(
        "LAT-010",
        True,
        0.25,
        Severity.WARN,
        ("host",),
        "Late by a quarter in two allocations is worth a look; on a host it is rarely the memory itself.",
    ),
    _lines(
        "LAT-011",
        False,
        0.004,
        Severity.WARN,
        GPU_LIKE,
        "Of lines of a healthy memory none needs 25 % more than usual; one channel of 96 would have 1 % of them.",
    ),
    _lines(
        "LAT-012",
        True,
        1.25,
        Severity.FAIL,
        GPU_LIKE,
        "Slow lines in two allocations, in the same unusual share, are a part of the memory and no chance.",
    ),
    _lines(
        "LAT-013",
        False,
        0.004,
        Severity.NOTE,
        ("host",),
        "A host's lines differ by page, node and what a hypervisor does: a slow share is no fault yet.",
    ),
)


def bound_of(measurement: str) -> float:
    """The bound of the first limit of a measurement: what is worth a closer look."""
    return float(next(limit.bound.value for limit in LIMITS if limit.measurement == measurement))
