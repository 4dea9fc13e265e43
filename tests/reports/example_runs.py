"""Runs as Python values, from which every report's golden files are made.

They have the shape of real runs: a clean host, a simulated card with a stuck data line and every table, a machine
without a GPU, a run in which one probe failed and another was interrupted, and a run that could see nothing.
"""

from __future__ import annotations

import math

from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Column,
    Diagnosis,
    Finding,
    HostInfo,
    Limit,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Relation,
    Result,
    Run,
    Severity,
    Source,
    SourceKind,
    Table,
    TargetInfo,
    Unit,
    Verdict,
)

GIB = 2**30
STARTED = "2026-11-30T19:11:03+00:00"
QUESTION = "Does the memory give back what was written to it?"


def seconds(value: float) -> Quantity:
    return Quantity(value, Unit.SECOND)


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


def ratio(value: float) -> Quantity:
    return Quantity(value, Unit.RATIO)


def rate(value: float) -> Quantity:
    return Quantity(value, Unit.BYTE_PER_SECOND)


def size(value: int) -> Quantity:
    return Quantity(value, Unit.BYTE)


def absent(kind: AbsenceKind, reason: str) -> Absent:
    return Absent(kind, reason)


HOST = HostInfo("bench-01", "Linux 6.1.0-28-amd64", "3.11.2", "AMD EPYC 7J13 64-Core Processor", size(16 * GIB))
NO_SENSOR = absent(AbsenceKind.NOT_SUPPORTED, "host memory has no temperature sensor that can be read")

ERRORS = Limit(
    code="MEM-101",
    measurement="memory.errors",
    title="The memory gave back other data than was written",
    relation=Relation.AT_MOST,
    bound=count(0),
    severity=Severity.FAIL,
    source=Source("memory that works", "what is read is what was written", SourceKind.DEFINITION, "2026-11-30"),
    reasoning="A memory that changes data is broken, however rarely it does so.",
    advice="Do not use this memory for work; run again to see whether the errors repeat.",
    required=True,
)
DEVIATION = Limit(
    code="MEM-201",
    measurement="memory.write_latency_deviation",
    title="Chunk sweeps differ widely in duration",
    relation=Relation.AT_MOST,
    bound=ratio(0.15),
    severity=Severity.WARN,
    source=Source("the order for this tool", "warn above 15 % of the mean", SourceKind.CONVENTION, "2026-11-30"),
    reasoning="Equal sweeps over equal chunks take equal time unless something else uses the memory.",
    advice="Stop other loads on this memory and measure again.",
)
TESTED = Limit(
    code="MEM-301",
    measurement="memory.tested_share",
    title="Less was tested than was asked for",
    relation=Relation.AT_LEAST,
    bound=ratio(0.9),
    severity=Severity.UNKNOWN,
    source=Source("coverage rule", "design, section 7", SourceKind.CONVENTION, "2026-11-30"),
    reasoning="A part that was not visited may hold any number of faults.",
    advice="Free memory and run again.",
)
ECC = Limit(
    code="MEM-401",
    measurement="memory.ecc_corrected_delta",
    title="The memory corrected errors during the test",
    relation=Relation.AT_MOST,
    bound=count(0),
    severity=Severity.WARN,
    source=Source("NVML API reference", "nvmlDeviceGetTotalEccErrors", SourceKind.VENDOR, "2026-11-30"),
    reasoning="Corrected errors did no harm, and more of them than before is a change.",
    advice="Watch the counter; ask for a replacement when it goes on rising.",
    kinds=("cuda", "sim"),
)
LIMITS = (ERRORS, DEVIATION, TESTED, ECC)


def host_target() -> TargetInfo:
    return TargetInfo(
        name="host",
        kind="host",
        title="Memory of bench-01",
        memory_total=size(16 * GIB),
        cache_size=size(32 * 2**20),
        peak_bandwidth=rate(11.2e9),
        peak_formula="copy bound measured in this run",
        origin_kind="host",
    )


def sim_target() -> TargetInfo:
    return TargetInfo(
        name="sim:stuck_dq",
        kind="sim",
        title="Simulated GDDR6 card, 8 channels",
        memory_total=size(256 * 2**20),
        cache_size=size(2 * 2**20),
        peak_bandwidth=rate(448e9),
        peak_formula="2 x memory clock x bus width / 8",
        identity=(("uuid", "GPU-51390000-0000-0000-0000-000000000001"), ("pci", "0000:01:00.0")),
        simulated=True,
        origin_kind="sim",
    )


def timing(write: float, read: float, samples: int) -> tuple[Measurement, ...]:
    """Latency and bandwidth of chunk sweeps; ``write`` and ``read`` are mean durations in seconds of 32 MiB."""
    out: list[Measurement] = []
    for operation, mean in (("write", write), ("read", read)):
        values = tuple(mean * (1 + 0.02 * math.sin(index)) for index in range(samples))
        out.append(
            Measurement(
                f"memory.{operation}_latency",
                seconds(mean),
                statistic="mean of chunk sweeps of 32 MiB",
                method="duration of the launch",
                samples=values,
            )
        )
        out.append(Measurement(f"memory.{operation}_latency_deviation", ratio(0.0141), statistic="deviation / mean"))
    out.append(Measurement("memory.write_bandwidth", rate(2**25 / write), statistic=f"median of {samples} sweeps"))
    out.append(Measurement("memory.verify_bandwidth", rate(2**25 / read), statistic=f"median of {samples} sweeps"))
    return tuple(out)


def latency_table(write: float, read: float) -> Table:
    return Table(
        "latency",
        "Duration of a chunk sweep",
        (
            Column("operation"),
            Column("count", Unit.COUNT),
            Column("mean", Unit.SECOND),
            Column("standard_deviation", Unit.SECOND),
            Column("median", Unit.SECOND),
            Column("p99", Unit.SECOND),
        ),
        (
            ("write", 64, write, write * 0.0141, write * 1.001, write * 1.02),
            ("verify", 64, read, read * 0.0141, read * 1.001, read * 1.02),
        ),
    )


def coverage_table(tested: int, untested: tuple[tuple[str, int], ...]) -> Table:
    columns = (Column("reason"), Column("bytes", Unit.BYTE))
    return Table("coverage", "What was tested, and what was not", columns, (("tested", tested), *untested))


def tests_table(errors: int) -> Table:
    return Table(
        "tests",
        "Tests",
        (
            Column("test"),
            Column("finds"),
            Column("moved_per_byte", Unit.RATIO),
            Column("passes", Unit.COUNT),
            Column("written", Unit.BYTE),
            Column("verified", Unit.BYTE),
            Column("errors", Unit.COUNT),
            Column("duration", Unit.SECOND),
        ),
        (
            ("own_address", "address lines, aliased pages", 2.0, 2, 2 * 224 * 2**20, 2 * 224 * 2**20, errors, 0.11),
            ("moving_inversions", "stuck and coupled bits", 6.0, 4, 12 * 224 * 2**20, 12 * 224 * 2**20, 0, 0.74),
        ),
    )


def sweeps_table(rows: int, duration: float) -> Table:
    body: list[tuple[Cell, ...]] = []
    for index in range(rows):
        took = duration * (1 + 0.02 * math.sin(index) + (3 if index == rows // 2 else 0))
        operation = "write" if index % 2 == 0 else "verify"
        body.append((index * duration, "own_address", operation, index % 7, 2**25, took, 2**25 / took))
    return Table(
        "sweeps",
        "Every chunk sweep",
        (
            Column("time", Unit.SECOND),
            Column("test"),
            Column("operation"),
            Column("chunk", Unit.COUNT),
            Column("bytes", Unit.BYTE),
            Column("duration", Unit.SECOND),
            Column("bandwidth", Unit.BYTE_PER_SECOND),
        ),
        tuple(body),
    )


def conditions_table(rows: int) -> Table:
    no_power = absent(AbsenceKind.TIMED_OUT, "the power reading did not answer within 1 s")
    return Table(
        "conditions",
        "Conditions during the test",
        (
            Column("time", Unit.SECOND),
            Column("temperature", Unit.CELSIUS),
            Column("core_clock", Unit.HERTZ),
            Column("memory_clock", Unit.HERTZ),
            Column("power", Unit.WATT),
            Column("performance_state", Unit.COUNT),
        ),
        tuple(
            (index * 0.1, 41 + index, 2.1e9 - index * 5e6, 8.001e9, no_power if index == 2 else 90.5 + index, 2)
            for index in range(rows)
        ),
    )


def error_tables(words: int) -> tuple[Table, ...]:
    """The evidence of a stuck data line: bits 5 and 21 of words in one slice of the addresses."""
    base = 0x7F3A_4000_0000
    unread = absent(AbsenceKind.NOT_TESTED, "the second re-read is taken of the first 16 errors")
    records: list[tuple[Cell, ...]] = []
    for index in range(words):
        address = base + 0x2000 * index
        expected = (address * 0x9E3779B97F4A7C15) & (2**64 - 1) & ~(1 << (5 if index % 2 else 21))
        actual = expected | 1 << (5 if index % 2 else 21)
        again = f"0x{actual:016x}"
        records.append(
            (
                f"0x{address:012x}",
                index // 8,
                f"0x{expected:016x}",
                again,
                again,
                again if index < 16 else unread,
                "persists",
                "own_address",
                1,
                0.02 + index * 0.001,
                41 + index // 10,
            )
        )
    names = ("address", "region", "expected", "actual", "reread_1", "reread_2", "rewrite", "test", "pass")
    units = {"region": Unit.COUNT, "pass": Unit.COUNT}
    columns = (*(Column(name, units.get(name)) for name in names), Column("time", Unit.SECOND))
    bits = tuple((bit, words // 2 if bit in (5, 21) else 0, 0) for bit in range(64))
    pages = tuple((f"0x{base + page * 2**21:012x}", words // 4) for page in (0, 3, 9, 14))
    return (
        Table("errors", "Error records", (*columns, Column("temperature", Unit.CELSIUS)), tuple(records)),
        Table(
            "bit_histogram",
            "Wrong bits by position",
            (Column("bit", Unit.COUNT), Column("zero_to_one", Unit.COUNT), Column("one_to_zero", Unit.COUNT)),
            bits,
        ),
        Table(
            "popcount_histogram",
            "Wrong bits in a word",
            (Column("flipped_bits", Unit.COUNT), Column("words", Unit.COUNT)),
            ((1, words - 4), (2, 4)),
        ),
        Table("page_errors", "Errors per 2 MiB page", (Column("address"), Column("errors", Unit.COUNT)), pages),
    )


def result(
    target: str,
    verdict: Verdict,
    observation: Observation,
    *,
    reason: str = "",
    findings: tuple[Finding, ...] = (),
    probe: str = "stress",
    limits: tuple[Limit, ...] = LIMITS,
) -> Result:
    return Result(probe, QUESTION, target, verdict, reason, observation, findings, limits, STARTED, seconds(20.125))


def run(
    targets: tuple[TargetInfo, ...],
    results: tuple[Result, ...],
    *,
    notes: tuple[str, ...] = (),
    partial: str = "",
    required: tuple[str, ...] = (),
) -> Run:
    command = ("mats", "stress")
    return Run(1, "mats 0.1.0", STARTED, seconds(21.5), HOST, command, targets, results, notes, partial, required)


def clean_host() -> Run:
    """Nothing out of order in 512 MiB of the machine's own memory."""
    tested = 512 * 2**20
    measurements = (
        Measurement("memory.errors", count(0), statistic="total of 14 passes"),
        Measurement("memory.tested_share", ratio(1.0), statistic="tested / requested"),
        Measurement("memory.coverage", ratio(0.03125), statistic="tested / total"),
        Measurement("memory.bytes_tested", size(tested)),
        Measurement("memory.bytes_verified", size(14 * tested)),
        Measurement("memory.passes", count(14)),
        Measurement("memory.error_bound", ratio(3 / (14 * tested)), statistic="95 % upper bound per byte verified"),
        *timing(0.0041, 0.0036, 64),
        Measurement("memory.temperature", NO_SENSOR),
        Measurement("memory.ecc_corrected_delta", absent(AbsenceKind.NOT_FOUND, "no EDAC driver is loaded")),
    )
    sentence = (
        "3.13 % of 16 GiB verified (15.5 GiB not tested: not asked for); 2 tests, 14 passes, 7 GiB verified in 20.1 s. "
        "Finds every stuck bit, transition or decoder fault in the tested part; for intermittent faults: less than "
        "4.0e-10 errors per byte verified (95 %)."
    )
    observation = Observation(
        measurements,
        (
            coverage_table(tested, (("not asked for", 16 * GIB - tested),)),
            tests_table(0),
            latency_table(0.0041, 0.0036),
            sweeps_table(64, 0.004),
        ),
        notes=(sentence,),
    )
    note = "No GPU was found (no NVIDIA driver is loaded), so the memory of this machine was tested."
    return run((host_target(),), (result("host", Verdict.PASS, observation),), notes=(note,))


def failing_sim() -> Run:
    """A simulated card with a stuck data line, with every table; one limit was set by the user."""
    tested, words = 224 * 2**20, 40
    errors = Measurement("memory.errors", count(4096), statistic="total of 6 passes")
    spread = Measurement("memory.write_latency_deviation", ratio(0.0141), statistic="deviation / mean")
    measurements = (
        errors,
        Measurement("memory.tested_share", ratio(1.0), statistic="tested / requested"),
        Measurement("memory.coverage", ratio(0.875), statistic="tested / total"),
        *timing(0.000081, 0.000076, 32),
        Measurement("memory.write_share_of_peak", ratio(0.92461), statistic="median of 32 sweeps"),
        Measurement("memory.ecc_corrected_delta", absent(AbsenceKind.NOT_SUPPORTED, "this card has no ECC")),
    )
    diagnosis = Diagnosis(
        fault="stuck_dq",
        title="One data line of one channel is stuck",
        explains="memory.errors",
        evidence=(
            "bits 5 and 21 hold 100 % of 4,096 wrong bits, all 0 to 1",
            "errors are confined to 1 of 8 address slices (p < 1e-6)",
        ),
        advice="Have the solder joints and traces of the memory checked; a data line of one channel does not follow.",
    )
    deviation = Limit(
        **{name: getattr(DEVIATION, name) for name in DEVIATION.__slots__ if name not in ("bound", "overridden")},
        bound=ratio(0.01),
        overridden=True,
    )
    findings = (
        Finding(
            deviation.code, Severity.WARN, deviation.title, "sim:stuck_dq", spread, deviation, "", (), deviation.advice
        ),
        Finding(
            ERRORS.code,
            Severity.FAIL,
            ERRORS.title,
            "sim:stuck_dq",
            errors,
            ERRORS,
            "stuck_dq",
            (diagnosis.title, *diagnosis.evidence),
            diagnosis.advice,
        ),
    )
    untested = (("headroom for the driver", 24 * 2**20), ("refused by the device", 8 * 2**20))
    observation = Observation(
        measurements,
        (
            coverage_table(tested, untested),
            tests_table(4096),
            latency_table(0.000081, 0.000076),
            sweeps_table(32, 0.00008),
            conditions_table(8),
            *error_tables(words),
        ),
        (diagnosis,),
        (
            "87.5 % of 256 MiB verified (32 MiB not tested: headroom 24, refused 8); 2 tests, 6 passes; 4,096 errors.",
            "A virtual address is not a chip: the slice is known, the chip is not.",
        ),
    )
    limits = (ERRORS, deviation, TESTED, ECC)
    results = (result("sim:stuck_dq", Verdict.FAIL, observation, findings=findings, limits=limits),)
    return run((sim_target(),), results)


def no_gpu() -> Run:
    """A GPU was asked for and there is none: unknown, not healthy."""
    reason = "no NVIDIA driver is loaded: libcuda.so.1 was not found"
    unknown = result("cuda:0", Verdict.UNKNOWN, Observation(), reason=reason, limits=(ERRORS, ECC))
    return run((), (unknown,), notes=("Install the NVIDIA driver, or test this machine's memory with --target host.",))


def broken_and_partial() -> Run:
    """Two targets: on one the probe failed with markup in its title, the other was interrupted."""
    tested = 64 * 2**20
    hostile = TargetInfo(
        name="cuda:0",
        kind="cuda",
        title='<script>alert("card")</script> & "Sons"\x1b[31m',
        memory_total=size(24 * GIB),
        cache_size=absent(AbsenceKind.NO_PERMISSION, "the driver <refuses> it"),
        peak_bandwidth=rate(1008e9),
        peak_formula="2 x memory clock x bus width / 8",
        identity=(("uuid", 'GPU-"quoted"\\back\nslash'),),
        origin_kind="cuda",
    )
    lost = Observation(
        (Measurement("memory.errors", absent(AbsenceKind.DEVICE_LOST, "the device was lost")),),
        partial="the device was lost",
    )
    stopped = Observation(
        (
            Measurement("memory.errors", count(0), statistic="total of 1 pass"),
            Measurement("memory.tested_share", ratio(0.12503), statistic="tested / requested"),
            *timing(0.0041, 0.0036, 2),
        ),
        (coverage_table(tested, (("interrupted", 448 * 2**20),)),),
        notes=("0.39 % of 16 GiB verified; stopped early.",),
        partial="interrupted with Ctrl-C",
    )
    share = stopped.measurements[1]
    little = Finding(TESTED.code, Severity.UNKNOWN, TESTED.title, "host", share, TESTED, "", (), TESTED.advice)
    return run(
        (hostile, host_target()),
        (
            result("cuda:0", Verdict.ERROR, lost, reason="the device was lost: it has fallen off the bus (Xid 79)."),
            result("host", Verdict.UNKNOWN, stopped, reason="interrupted with Ctrl-C", findings=(little,)),
        ),
        partial="interrupted with Ctrl-C",
        required=("stress", "links"),
    )


def all_absent() -> Run:
    """Every reading is absent, each for another reason."""
    readings: tuple[tuple[str, Reading], ...] = tuple(
        (f"memory.{kind.value}", absent(kind, f"a reason of kind {kind.value.replace('_', ' ')}"))
        for kind in AbsenceKind
    )
    nothing = absent(AbsenceKind.UNREADABLE, "/proc/meminfo could not be read")
    target = TargetInfo("host", "host", "Memory of bench-01", nothing, nothing, nothing, "", origin_kind="host")
    observation = Observation(tuple(Measurement(name, reading) for name, reading in readings))
    reason = "nothing was measured: the allocation was refused"
    return run((target,), (result("host", Verdict.UNKNOWN, observation, reason=reason),))


EXAMPLES = {
    "clean_host": clean_host,
    "failing_sim": failing_sim,
    "no_gpu": no_gpu,
    "broken_and_partial": broken_and_partial,
    "all_absent": all_absent,
}
