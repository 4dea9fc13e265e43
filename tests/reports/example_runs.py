"""Runs as Python values, from which every report's golden files are made.

They have the shape of real runs: a clean host, a simulated card with a stuck data line and every table, a machine
without a GPU, a run in which one probe failed and another was interrupted, and a run that could see nothing.
"""

from __future__ import annotations

from mats.model import (
    AbsenceKind,
    Diagnosis,
    Finding,
    HostInfo,
    Limit,
    Measurement,
    Observation,
    Reading,
    Relation,
    Result,
    Run,
    Severity,
    Source,
    SourceKind,
    TargetInfo,
    Verdict,
)

from .example_tables import (
    absent,
    conditions_table,
    count,
    coverage_table,
    error_tables,
    latency_table,
    rate,
    ratio,
    seconds,
    size,
    sweeps_table,
    tests_table,
    timing,
)

GIB = 2**30
STARTED = "2026-11-30T19:11:03+00:00"
QUESTION = "Does the memory give back what was written to it?"


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
