"""Runs of a machine with many GPUs, built by hand: many checks of each GPU, most of them in order.

The runs have the shape of `mats health`: readings with a label for the GPU, tables for the machine, few findings. They
are judged here by hand, so that a report is tested without the judge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mats.model import (
    AbsenceKind,
    Absent,
    Cell,
    Column,
    Finding,
    Measurement,
    Observation,
    Quantity,
    Reading,
    Relation,
    Result,
    Run,
    Severity,
    Table,
    TargetInfo,
    Unit,
    Verdict,
    worst,
)

from .example_tables import absent, count, seconds, size
from .health_checks import CHECKS, LIMITS

QUESTION = "Is anything known to be wrong with the GPUs of this machine?"
STARTED = "2026-11-30T22:11:03+00:00"
NO_PERMISSION = absent(
    AbsenceKind.NO_PERMISSION, "kernel log: /dev/kmsg may not be read by this user; run as root or in group adm"
)
NOT_HERE = absent(AbsenceKind.NOT_SUPPORTED, "PCIe lane errors: this GPU does not count them")


@dataclass(slots=True)
class Machine:
    """What is to be told of a machine: its GPUs, what reads differently from the usual, and the tables."""

    name: str
    gpu: str = "NVIDIA H100 80GB HBM3"
    memory: int = 85520809984
    gpus: int = 8
    simulated: bool = False
    readings: dict[tuple[str, str], Reading] = field(default_factory=dict)
    """By the measurement's name without ``health.`` and the GPU (empty: every GPU)."""
    machine: dict[str, Reading] = field(default_factory=dict)
    """Readings of the machine as a whole."""
    evidence: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    advice: dict[str, str] = field(default_factory=dict)
    """What a diagnosis advises instead of the limit, by measurement."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    reason: str = ""


def build(machine: Machine) -> Run:
    measurements = tuple(_measurements(machine))
    findings = tuple(_findings(machine, measurements))
    severities = {finding.severity for finding in findings}
    verdict = machine.verdict or worst(
        [Verdict.PASS, *(Verdict(item.value) for item in severities if item is not Severity.NOTE)]
    )
    observation = Observation(measurements, (_gpus_table(machine), *machine.tables), notes=machine.notes)
    result = Result(
        "health",
        QUESTION,
        machine.name,
        verdict,
        machine.reason,
        observation,
        findings,
        LIMITS,
        STARTED,
        seconds(0.412),
    )
    from .example_runs import HOST

    nothing = absent(AbsenceKind.NOT_TESTED, "of several GPUs: see the table of GPUs")
    target = TargetInfo(
        name=machine.name,
        kind="sim" if machine.simulated else "cuda",
        title=f"{machine.gpus} x {machine.gpu}, driver 570.133.20",
        memory_total=nothing if machine.gpus > 1 else size(machine.memory),
        cache_size=nothing,
        peak_bandwidth=nothing,
        peak_formula="",
        simulated=machine.simulated,
        origin_kind="sim" if machine.simulated else "cuda",
    )
    command = ("mats", "health")
    return Run(1, "mats 0.1.0", STARTED, seconds(0.431), HOST, command, (target,), (result,))


def _measurements(machine: Machine) -> Iterable[Measurement]:
    for name, reading in machine.machine.items():
        yield Measurement(f"health.{name}", reading)
    for check in CHECKS:
        for gpu in range(machine.gpus):
            usual = machine.readings.get((check.name, ""), check.usual)
            reading = machine.readings.get((check.name, str(gpu)), usual)
            yield Measurement(f"health.{check.name}", reading, (("gpu", str(gpu)),), method=check.method)


def _findings(machine: Machine, measurements: Sequence[Measurement]) -> Iterable[Finding]:
    for limit in LIMITS:
        for measurement in measurements:
            reading = measurement.reading
            if measurement.name != limit.measurement or isinstance(reading, Absent):
                continue
            if reading > limit.bound if limit.relation is Relation.AT_MOST else reading < limit.bound:
                name = limit.measurement.removeprefix("health.")
                gpu = dict(measurement.labels).get("gpu", "")
                yield Finding(
                    limit.code,
                    limit.severity,
                    limit.title,
                    machine.name,
                    measurement,
                    limit,
                    "",
                    machine.evidence.get((name, gpu), ()),
                    machine.advice.get(name, limit.advice),
                )


def _gpus_table(machine: Machine) -> Table:
    columns = (
        Column("gpu"),
        Column("name"),
        Column("memory", Unit.BYTE),
        Column("used", Unit.BYTE),
        Column("core", Unit.CELSIUS),
        Column("power", Unit.WATT),
        Column("ecc_errors", Unit.COUNT),
        Column("pci"),
        Column("uuid"),
    )
    rows = []
    for gpu in range(machine.gpus):
        lost = machine.readings.get(("answers", str(gpu))) == count(0)
        gone = absent(AbsenceKind.DEVICE_LOST, f"GPU {gpu} does not answer (NVML: GPU is lost)")
        cells: tuple[Cell, ...] = (machine.memory, 3 * 2**20, 31.0 + gpu % 5, 71.25 + gpu, 0)
        told = machine.readings.get(("ecc.uncorrected", str(gpu)))
        if isinstance(told, Quantity):
            cells = (*cells[:4], told.value)
        rows.append(
            (
                str(gpu),
                machine.gpu,
                *((gone,) * 5 if lost else cells),
                f"0000:{0x1B + 0x11 * gpu:02x}:00.0",
                f"GPU-5e10000{gpu:x}-0000-4000-8000-00000000000{gpu:x}",
            )
        )
    return Table("gpus", "GPUs", columns, tuple(rows))


INCIDENT_COLUMNS = (
    Column("gpu"),
    Column("grade"),
    Column("age", Unit.SECOND),
    Column("title"),
    Column("explains"),
    Column("advice"),
    Column("lines"),
)


def healthy_machine() -> Run:
    """Eight GPUs in order; the kernel log may not be read, lanes are not counted."""
    return build(
        Machine(
            "cuda:all",
            readings={("pcie.lane_errors", ""): NOT_HERE},
            machine={"log.read": NO_PERMISSION, "driver.mismatch": count(0), "gpus.missing": count(0)},
            notes=("The PCIe links were idle, so their speed was not judged; add --load to warm them first.",),
        )
    )


def broken_machine() -> Run:
    """Eight GPUs: on one a row waits for a reset after an uncorrected error, two are held down by heat."""
    return build(
        Machine(
            "cuda:all",
            readings={
                ("pcie.lane_errors", ""): NOT_HERE,
                ("ecc.uncorrected", "3"): count(4),
                ("remap.pending", "3"): count(1),
                ("clocks.thermal", "5"): count(1),
                ("clocks.thermal", "6"): count(1),
                ("heat.margin", "5"): Quantity(-1.0, Unit.CELSIUS),
                ("heat.margin", "6"): Quantity(-2.5, Unit.CELSIUS),
                ("persistence", ""): count(1),
                ("heat.memory", "7"): absent(AbsenceKind.TIMED_OUT, "memory temperature: no answer within 2 s"),
            },
            machine={"log.read": count(1), "driver.mismatch": count(0), "gpus.missing": count(0)},
            evidence={
                ("remap.pending", "3"): (
                    "Xid 48, 63 and 94 on 0000:4e:00.0, 2 h 28 min ago: a row of memory was marked for replacement",
                    "1 row was replaced before, 2,559 of 2,560 banks have all their spare rows",
                ),
                ("ecc.uncorrected", "3"): ("4 uncorrected in DRAM, 0 in SRAM, since the driver was loaded",),
                ("clocks.thermal", "5"): ("core 88 °C, slowed down for 42 s of the last hour",),
                ("clocks.thermal", "6"): ("core 89 °C, slowed down for 61 s of the last hour",),
            },
            tables=(_incidents_table(), _path_table(8, slow=5), _processes_table(), _links_table(8, down=((6, 3),))),
            notes=("The PCIe links were idle, so their speed was not judged; add --load to warm them first.",),
        )
    )


def lost_gpu() -> Run:
    """A simulated machine of which one GPU has fallen off the bus: nothing of it can be read."""
    gone = absent(AbsenceKind.DEVICE_LOST, "GPU 2 does not answer (NVML: GPU is lost)")
    readings: dict[tuple[str, str], Reading] = {(check.name, "2"): gone for check in CHECKS}
    readings[("answers", "2")] = count(0)
    readings[("pcie.lane_errors", "")] = NOT_HERE
    return build(
        Machine(
            "sim:fallen_off_bus",
            simulated=True,
            readings=readings,
            machine={"log.read": count(1), "driver.mismatch": count(0), "gpus.missing": count(0)},
            evidence={
                ("answers", "2"): (
                    "NVML: GPU is lost (15) for 0000:3d:00.0",
                    "Xid 79 on 0000:3d:00.0, 12 min ago: the GPU has fallen off the bus",
                )
            },
        )
    )


def laptop() -> Run:
    """One GeForce: no ECC, no remapping, no NVLink, and a link that rests."""
    no_ecc = absent(AbsenceKind.NOT_SUPPORTED, "ECC: this GPU does not have it, so its errors cannot be counted")
    readings: dict[tuple[str, str], Reading] = {
        (check.name, ""): dataclasses.replace(no_ecc, reason=f"{check.subject}: this GPU does not have it")
        for check in CHECKS
        if check.subject in ("remap", "nvlink", "fabric", "retired")
    }
    readings |= {(check.name, ""): no_ecc for check in CHECKS if check.subject == "ecc"}
    readings[("power.limit_share", "")] = absent(
        AbsenceKind.NOT_SUPPORTED, "power limit: laptops leave it to the firmware"
    )
    return build(
        Machine(
            "cuda:all",
            "NVIDIA GeForce RTX 4060 Laptop GPU",
            8585740288,
            1,
            readings=readings,
            machine={"log.read": NO_PERMISSION, "driver.mismatch": count(0), "gpus.missing": count(0)},
            notes=("This GPU has no ECC: mats stress tests its memory itself.",),
        )
    )


def sixteen() -> Run:
    """Sixteen GPUs with several findings on many of them."""
    readings: Mapping[tuple[str, str], Reading] = {
        **{("remap.failed", str(gpu)): count(1) for gpu in (2, 3, 11)},
        **{("remap.pending", str(gpu)): count(1) for gpu in (4, 9)},
        **{("ecc.uncorrected", str(gpu)): count(gpu) for gpu in (2, 3, 4, 9, 11)},
        **{("nvlink.down", str(gpu)): count(18) for gpu in (12, 13, 14, 15)},
    }
    return build(
        Machine(
            "cuda:all",
            "NVIDIA A100-SXM4-40GB",
            42949672960,
            16,
            readings=dict(readings),
            machine={"log.read": NO_PERMISSION, "driver.mismatch": count(0), "gpus.missing": count(0)},
            tables=(_links_table(16, down=tuple((gpu, link) for gpu in range(12, 16) for link in range(12))),),
        )
    )


def _incidents_table() -> Table:
    lines = (
        "[Mon Nov 30 19:42:07 2026] NVRM: Xid (PCI:0000:4e:00): 48, pid=91231, name=python3, DBE (double bit error) "
        "occurred at FBPA 3, sub-partition 1\n"
        "[Mon Nov 30 19:42:07 2026] NVRM: Xid (PCI:0000:4e:00): 63, Row Remapper: New row (0x00000000012f3a40) marked "
        "for remapping, reset gpu to activate.\n"
        "[Mon Nov 30 19:42:08 2026] NVRM: Xid (PCI:0000:4e:00): 94, pid=91231, name=python3, Contained: L2 (0x1)"
    )
    return Table(
        "incidents",
        "Incidents in the kernel log",
        INCIDENT_COLUMNS,
        (
            (
                "3",
                "reset",
                8936.0,
                "Uncorrected memory error, contained to one program; its row waits to be replaced",
                "Xid 48 (the error), 63 (the row) and 94 (the program that was stopped) are one event.",
                "Drain the GPU and reset it: nvidia-smi --gpu-reset -i 3.",
                lines,
            ),
            (
                "6",
                "application",
                266400.0,
                "A program used an address that is not there",
                "Xid 31 by pid 20417; usually the program's own mistake.",
                "Look at the program; test the memory if other programs fail on this GPU, too.",
                "[Fri Nov 27 20:11:02 2026] NVRM: Xid (PCI:0000:81:00): 31, pid=20417, name=python, MMU Fault",
            ),
        ),
    )


def _path_table(gpus: int, slow: int) -> Table:
    columns = (
        Column("gpu"),
        Column("device"),
        Column("what"),
        Column("rate_now", Unit.HERTZ),
        Column("lanes_now", Unit.COUNT),
        Column("rate_max", Unit.HERTZ),
        Column("lanes_max", Unit.COUNT),
    )
    rows = []
    for gpu in range(gpus):
        bus = 0x1B + 0x11 * gpu
        rows.append((str(gpu), f"0000:{bus:02x}:00.0", "GPU", 2.5e9 if gpu != slow else 32e9, 16, 32e9, 16))
        rows.append((str(gpu), f"0000:{bus - 1:02x}:02.0", "switch port", 32e9, 16, 32e9, 16))
        rows.append((str(gpu), f"0000:{bus - 2:02x}:01.1", "root port", 32e9, 8 if gpu == slow else 16, 32e9, 16))
    return Table("path", "PCIe path of each GPU, from the card to the processor", columns, tuple(rows))


def _processes_table() -> Table:
    columns = (Column("gpu"), Column("pid"), Column("name"), Column("memory", Unit.BYTE))
    return Table(
        "processes", "Processes", columns, (("0", "91231", "python3", 31 * 2**30), ("1", "91232", "python3", 0))
    )


def _links_table(gpus: int, down: tuple[tuple[int, int], ...]) -> Table:
    columns = (Column("gpu"), Column("link"), Column("state"), Column("speed", Unit.BYTE_PER_SECOND))
    rows = tuple(
        (str(gpu), str(link), *(("down", 0.0) if (gpu, link) in down else ("up", 26.562e9)))
        for gpu in range(gpus)
        for link in range(12)
    )
    return Table("links", "NVLinks", columns, rows)


HEALTH = {
    "health_in_order": healthy_machine,
    "health_broken": broken_machine,
    "health_lost": lost_gpu,
    "health_laptop": laptop,
    "health_sixteen": sixteen,
}
