"""The limits of the memory test, each with its source and its reason."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

READ = "2026-11-30"
_DEFINITION = Source("definition", "memory must return what was written", SourceKind.DEFINITION, READ)
_HONESTY = Source("README of mats", "unknown is not healthy", SourceKind.CONVENTION, READ)
_OWN = Source(
    "users of mats", "asked to be warned of a latency deviation above 15 % of the mean", SourceKind.CONVENTION, READ
)
_REPORTS = Source(
    "memtest_vulkan, issues 61 and 75",
    "retransmission after EDC errors shows as falling bandwidth",
    SourceKind.MEASURED,
    READ,
)
_PEAKS = Source(
    "gpu-benches, DCGM target tables, clpeak issue 106",
    "healthy cards write at 81-99 % and read at 57-98 % of peak",
    SourceKind.MEASURED,
    READ,
)
_SPILL = Source(
    "WSL issue 11050",
    "below 10 % of peak memory is not the card's own",
    SourceKind.MEASURED,
    READ,
)
_CACHE = Source(
    "transformers-benchmarks issue 4",
    "a 4090 'measures' 3,868 GB/s on small sizes; its memory peaks at 1,008",
    SourceKind.MEASURED,
    READ,
)
_NVML = Source("NVIDIA NVML API reference", "nvmlDeviceGetMemoryErrorCounter, RemappedRows", SourceKind.VENDOR, READ)
_COUNT, _RATIO = Unit.COUNT, Unit.RATIO
GPU_LIKE = ("cuda", "sim")


def _none(
    code: str,
    measurement: str,
    title: str,
    severity: Severity,
    source: Source,
    reasoning: str,
    advice: str,
    required: bool = False,
) -> Limit:
    """A limit of no event at all."""
    return Limit(
        code, measurement, title, Relation.AT_MOST, Quantity(0, _COUNT), severity, source, reasoning, advice, required
    )


LIMITS = (
    _none(
        "MEM-001",
        "memory.errors",
        "memory returned wrong data",
        Severity.FAIL,
        _DEFINITION,
        "One wrong word is one too many: a computation that reads it is wrong, silently.",
        "Do not use this memory for work; see the diagnosis, and run the test again with other settings to confirm it.",
        required=True,
    ),
    _none(
        "MEM-002",
        "memory.aliased_pages",
        "capacity that does not exist",
        Severity.FAIL,
        _DEFINITION,
        "Two addresses that share one cell mean less memory than is claimed, or a stuck address line.",
        "Compare the capacity with the maker's data sheet; return the card if it claims more than it has.",
    ),
    _none(
        "MEM-003",
        "memory.contradictions",
        "the tester contradicts itself",
        Severity.FAIL,
        Source("memtest_vulkan, issues 41 and 60", "errors reported with impossible counts", SourceKind.MEASURED, READ),
        "Counts that cannot be true together say that the tester's own state was damaged.",
        "Nothing said about this memory in this run can be trusted: run again, then suspect core, power or driver.",
        required=True,
    ),
    _none(
        "MEM-004",
        "memory.self_test",
        "the tester missed an error that it had made itself",
        Severity.UNKNOWN,
        _HONESTY,
        "Silence counts only from a tester that was seen to find a planted error in the same run.",
        "Run again; if it stays, report it with the saved run: the result says nothing about the memory.",
        required=True,
    ),
    Limit(
        "MEM-005",
        "memory.tested_share",
        "less was tested than was asked for",
        Relation.AT_LEAST,
        Quantity(0.98, _RATIO),
        Severity.UNKNOWN,
        _HONESTY,
        "A fault in the part that was not tested stays unseen; 2 % covers rounding to pages and the last chunk.",
        "Free the device of other work, or ask for less with --size.",
        required=True,
    ),
    Limit(
        "MEM-006",
        "memory.complementary_passes",
        "not every cell was tested as 0 and as 1",
        Relation.AT_LEAST,
        Quantity(1, _COUNT),
        Severity.UNKNOWN,
        _HONESTY,
        "A stuck bit shows only while the opposite value is expected of it.",
        "Give the test more time, or a smaller --size.",
        required=True,
    ),
    Limit(
        "MEM-007",
        "memory.coverage_of_all",
        "part of the device was not tested",
        Relation.AT_LEAST,
        Quantity(0.90, _RATIO),
        Severity.WARN,
        Source("memtest_vulkan, issue 31", "90 % is its author's cap by design", SourceKind.CONVENTION, READ),
        "The escape rate of a hard fault is the share that was not tested.",
        "Stop other programs that hold memory on this device and test again.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "MEM-008",
        "memory.swept_over_cache",
        "the test stayed inside the cache",
        Relation.AT_LEAST,
        Quantity(4, _RATIO),
        Severity.WARN,
        _CACHE,
        "Each sweep must pass at least four times the cache before a word is read again, else the cache answers.",
        "Test more memory: leave out --size, or raise it.",
    ),
    _none(
        "MEM-009",
        "memory.tests_left_out",
        "the time given was too short for some tests",
        Severity.NOTE,
        _HONESTY,
        "Each test finds faults that others miss: what was left out was not looked for.",
        "Give more time with --duration, or leave it out.",
    ),
    Limit(
        "MEM-010",
        "memory.write_latency_deviation",
        "unsteady write times",
        Relation.AT_MOST,
        Quantity(0.15, _RATIO),
        Severity.WARN,
        _OWN,
        "Sweeps of equal work over equal chunks take equal time on a device that is left alone.",
        "Look at the plot over time: steps are clocks, single peaks are other programs, slow chunks are memory.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "MEM-011",
        "memory.read_latency_deviation",
        "unsteady read times",
        Relation.AT_MOST,
        Quantity(0.15, _RATIO),
        Severity.WARN,
        _OWN,
        "Sweeps of equal work over equal chunks take equal time on a device that is left alone.",
        "Look at the plot over time: steps are clocks, single peaks are other programs, slow chunks are memory.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "MEM-012",
        "memory.write_latency_deviation",
        "unsteady write times",
        Relation.AT_MOST,
        Quantity(0.15, _RATIO),
        Severity.NOTE,
        _OWN,
        "A host's memory and cores are shared with every program: unsteady times are no fault of the memory.",
        "Repeat on an idle machine if the times matter.",
        kinds=("host",),
    ),
    Limit(
        "MEM-013",
        "memory.read_latency_deviation",
        "unsteady read times",
        Relation.AT_MOST,
        Quantity(0.15, _RATIO),
        Severity.NOTE,
        _OWN,
        "A host's memory and cores are shared with every program: unsteady times are no fault of the memory.",
        "Repeat on an idle machine if the times matter.",
        kinds=("host",),
    ),
    Limit(
        "MEM-014",
        "memory.bandwidth_drop",
        "bandwidth fell during the run at constant clock",
        Relation.AT_MOST,
        Quantity(0.10, _RATIO),
        Severity.FAIL,
        _REPORTS,
        "Data that stay right while the bandwidth falls at constant clock are data that are sent again.",
        "Read the device's ECC and replay counters, lower the memory clock or cool the memory, and test again.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "MEM-015",
        "memory.write_share_of_peak",
        "far too slow for the device's own memory",
        Relation.AT_LEAST,
        Quantity(0.10, _RATIO),
        Severity.FAIL,
        _SPILL,
        "Below a tenth of the peak the memory is served over a bus from elsewhere: this was no test of the device.",
        "Free device memory and test again; on Windows turn the system-memory fallback of the driver off.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "MEM-016",
        "memory.verify_share_of_peak",
        "slow for its memory clock and bus width",
        Relation.AT_LEAST,
        Quantity(0.50, _RATIO),
        Severity.WARN,
        _PEAKS,
        "No healthy card is known to read below half of its peak with 16-byte accesses.",
        "Check clocks, power limit and other processes; compare with a second card of the same model.",
        kinds=GPU_LIKE,
    ),
    _none(
        "MEM-020",
        "memory.ecc_uncorrected_delta",
        "uncorrected ECC errors during the test",
        Severity.FAIL,
        _NVML,
        "The memory itself reports data that it could not repair.",
        "Stop using the device, save the logs, reset it, and see whether a row remap is pending.",
    ),
    _none(
        "MEM-021",
        "memory.ecc_corrected_delta",
        "corrected ECC errors during the test",
        Severity.WARN,
        _NVML,
        "The data are whole because single bits were repaired: a weak cell or line hides behind it.",
        "Test longer and watch the counter; a rising count in one place is remapped by newer devices on reset.",
    ),
    _none(
        "MEM-022",
        "memory.remap_delta",
        "rows were remapped during the test",
        Severity.FAIL,
        _NVML,
        "The device took rows out of use while being tested.",
        "Reset the device so that the remap takes effect, then test again; replace it if more rows follow.",
    ),
    _none(
        "MEM-023",
        "memory.stopped_hot",
        "stopped at the temperature limit",
        Severity.UNKNOWN,
        _HONESTY,
        "The test ended early, so what was not yet tested is not known.",
        "Improve the cooling, or raise --max-temp within the maker's limit.",
    ),
)
"""MEM-001 is broken by any wrong word; the others say what the run can and cannot claim."""
