"""One row a check: the facts that break it, and those without which it sees nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mats.facts import (
    AerFacts,
    Bar,
    CallFacts,
    ClaimFacts,
    ClaimStatus,
    IncidentGrade,
    LinkFacts,
    MigFacts,
    MigInstance,
    NvlinkFacts,
    ProcessFacts,
    RecoveryAction,
    Resizable,
)
from mats.model import (
    AbsenceKind,
    Absent,
    Quantity,
    Severity,
    Unit,
)

from .machines import (
    GIBIBYTE,
    NEVER,
    NOT_THERE,
    count,
    degrees,
    device,
    incident,
    logged,
    nvlink,
    size,
    watts,
)

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL
UNREADABLE = Absent(AbsenceKind.UNREADABLE, "power: the driver failed to read it (ERR!)")
NEW_ACTION = Absent(AbsenceKind.UNREADABLE, "recovery action: 'Dance' is not known to this version")


@dataclass(frozen=True)
class Row:
    """``broken``: facts by path that make the finding; ``absent``: those without which the check sees nothing."""

    code: str
    severity: Severity
    broken: dict[str, Any]
    absent: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Codes that come with it, since one fact is seen by several checks."""
    core: bool = False
    """Absent it makes the verdict unknown."""
    name: str = ""


ECC, REMAP, RETIRED = "gpu.ecc", "gpu.remap", "gpu.retired"
OLD_CARD = {f"{REMAP}.{name}": NEVER for name in ("correctable", "uncorrectable", "pending", "failed")}
SLOW_PORT = dataclasses.replace(device(0).now, rate=Quantity(8e9, Unit.HERTZ))  # Gen3 of Gen5
FATAL = AerFacts((), (("TOTAL_ERR", count(0)),), (("TOTAL_ERR", count(2)),))
UNPLACED = (Bar(0, 0, 16 << 20, True, placed=False),)
GROWN = (Bar(2, 0x10000, 8 * GIBIBYTE, True, True, True),)
LEGACY = (Bar(2, 0x10000, 256 << 20, True, True, True),)
CHOICES = (Resizable(2, size(256 << 20), (256 << 20, 8 * GIBIBYTE, 128 * GIBIBYTE)),)
SLOW_LINK = NvlinkFacts(
    count(2),
    (
        LinkFacts(0, True, Quantity(26.562e9, Unit.BYTE_PER_SECOND)),
        LinkFacts(1, True, Quantity(13.281e9, Unit.BYTE_PER_SECOND)),
    ),
)
ENDED = (
    ProcessFacts(
        4711,
        size(60 << 30),
        name=Absent(AbsenceKind.NOT_FOUND, "name of a process: it has ended, or is not seen from here"),
    ),
)
MIG_BROKEN = MigFacts(True, True, (MigInstance(1, count(0), count(42), count(3)),))


def hit(name: str, status: ClaimStatus) -> tuple[ClaimFacts, ...]:
    return (ClaimFacts("dcgmi diag", name, status, count(0), "as planned"),)


ROWS = (
    Row("HLT-001", FAIL, {"gpu.answers": False}, ()),
    Row(
        "HLT-010",
        FAIL,
        {f"{ECC}.uncorrected": count(2)},
        (f"{ECC}.uncorrected", f"{ECC}.volatile.dram_uncorrected"),
        core=True,
    ),
    Row(
        "HLT-011",
        FAIL,
        {"gpu.mig": MIG_BROKEN},
        ("gpu.mig.instances",),
        also=("HLT-095",),
    ),
    Row("HLT-012", FAIL, {f"{ECC}.sram_threshold_exceeded": True}, (f"{ECC}.sram_threshold_exceeded",)),
    Row(
        "HLT-013",
        WARN,
        {f"{ECC}.aggregate.sram_uncorrected": count(5)},
        (f"{ECC}.aggregate.sram_uncorrected",),
        also=("HLT-014",),
    ),
    Row(
        "HLT-014",
        NOTE,
        {f"{ECC}.aggregate.dram_uncorrected": count(1)},
        (f"{ECC}.aggregate.dram_uncorrected",),
    ),
    Row(
        "HLT-015",
        NOTE,
        {f"{ECC}.aggregate.sram_corrected": count(10_001)},
        (f"{ECC}.aggregate.sram_corrected", f"{ECC}.volatile.sram_corrected"),
    ),
    Row(
        "HLT-016",
        NOTE,
        {f"{ECC}.corrected": count(54_700_000_000)},
        (f"{ECC}.corrected", f"{ECC}.aggregate.dram_corrected", f"{ECC}.volatile.dram_corrected"),
    ),
    Row("HLT-017", WARN, {f"{ECC}.pending": False}, (f"{ECC}.pending",)),
    Row(
        "HLT-018",
        NOTE,
        {f"{ECC}.enabled": False, f"{ECC}.pending": False},
        (f"{ECC}.enabled", f"{ECC}.uncorrected"),
        also=("HLT-095",),
    ),
    Row(
        "HLT-019",
        WARN,
        {f"{ECC}.channel_repair_pending": True},
        (f"{ECC}.channel_repair_pending",),
    ),
    Row("HLT-019", WARN, {f"{ECC}.tpc_repair_pending": True}, (), name="tpc"),
    Row("HLT-020", FAIL, {f"{ECC}.unrepairable_memory": True}, (f"{ECC}.unrepairable_memory",)),
    Row(
        "HLT-021",
        FAIL,
        {f"{REMAP}.pending": count(1), f"{REMAP}.uncorrectable": count(1)},
        (f"{REMAP}.pending",),
        also=("HLT-025",),
        core=True,
    ),
    Row(
        "HLT-021", FAIL, {f"{REMAP}.pending": count(1), f"{REMAP}.uncorrectable": NOT_THERE}, (), name="cause not told"
    ),
    Row(
        "HLT-022",
        WARN,
        {f"{REMAP}.pending": count(1), f"{REMAP}.correctable": count(2)},
        (f"{REMAP}.pending",),
        also=("HLT-025",),
        core=True,
    ),
    Row("HLT-023", FAIL, {f"{REMAP}.failed": count(1)}, (f"{REMAP}.failed",), core=True),
    Row("HLT-024", FAIL, {f"{REMAP}.uncorrectable": count(512)}, (f"{REMAP}.uncorrectable",), also=("HLT-025",)),
    Row("HLT-025", NOTE, {f"{REMAP}.uncorrectable": count(3)}, (f"{REMAP}.uncorrectable",)),
    Row("HLT-026", WARN, {f"{REMAP}.banks.none": count(1)}, (f"{REMAP}.banks.none",)),
    Row("HLT-027", NOTE, {f"{REMAP}.banks.low": count(2)}, (f"{REMAP}.banks.low",)),
    Row(
        "HLT-028",
        FAIL,
        OLD_CARD | {f"{RETIRED}.pending": True, f"{RETIRED}.double_bit": count(1)},
        (f"{RETIRED}.pending",),
    ),
    Row(
        "HLT-029",
        WARN,
        OLD_CARD | {f"{RETIRED}.pending": True, f"{RETIRED}.double_bit": count(0)},
        (f"{RETIRED}.pending",),
    ),
    Row(
        "HLT-030",
        FAIL,
        OLD_CARD | {f"{RETIRED}.pending": False, f"{RETIRED}.double_bit": count(3), f"{RETIRED}.single_bit": count(60)},
        (f"{RETIRED}.double_bit",),
    ),
    Row(
        "HLT-031",
        NOTE,
        OLD_CARD | {f"{RETIRED}.pending": False, f"{RETIRED}.double_bit": count(16)},
        (f"{RETIRED}.double_bit",),
    ),
    Row("HLT-032", WARN, {"gpu.memory.total": size(60 * GIBIBYTE)}, ("gpu.memory.total",), also=("HLT-092",)),
    Row(
        "HLT-033",
        NOTE,
        {"gpu.name": "NVIDIA GeForce RTX 4090", "gpu.memory.total": size(48 * GIBIBYTE)},
        ("gpu.memory.total",),
        also=("HLT-093",),
    ),
    Row("HLT-034", WARN, {"gpu.memory.used": size(60 * GIBIBYTE)}, ("gpu.processes",)),
    Row("HLT-035", UNKNOWN, {"gpu.recovery.action": NEW_ACTION}, ("gpu.recovery.action",)),
    *(
        Row(
            "HLT-040",
            FAIL,
            {"gpu.recovery.action": action},
            ("gpu.recovery.action", "gpu.recovery.reset_required", "gpu.recovery.drain_and_reset"),
            name=action.value,
        )
        for action in (
            RecoveryAction.RESET,
            RecoveryAction.REBOOT,
            RecoveryAction.DRAIN_AND_RESET,
            RecoveryAction.BUS_RESET,
            RecoveryAction.SYSTEM_REBOOT,
        )
    ),
    Row(
        "HLT-040", FAIL, {"gpu.recovery.action": NOT_THERE, "gpu.recovery.reset_required": True}, (), name="older flag"
    ),
    *(
        Row("HLT-041", WARN, {"gpu.recovery.action": action}, (), name=action.value)
        for action in (RecoveryAction.DRAIN_P2P, RecoveryAction.RECOVER_IMEX)
    ),
    *(
        Row("HLT-042", FAIL, {"log": logged(incident(grade))}, ("log",), name=grade.value)
        for grade in (IncidentGrade.LINK, IncidentGrade.RESET, IncidentGrade.REBOOT, IncidentGrade.SERVICE)
    ),
    Row("HLT-042", FAIL, {"log": logged(incident(IncidentGrade.RESET, age=None))}, ("log",), name="undated"),
    Row("HLT-044", WARN, {"log": logged(incident(IncidentGrade.CHECK))}, ("log",)),
    Row(
        "HLT-044",
        WARN,
        {"log": logged(incident(IncidentGrade.APPLICATION, "memory"))},
        ("log",),
        name="contained memory error",
    ),
    Row("HLT-046", UNKNOWN, {"log": logged(incident(IncidentGrade.UNCLEAR, "unknown"))}, ("log",)),
    *(
        Row("HLT-047", NOTE, {"log": logged(incident(grade))}, ("log",), name=grade.value)
        for grade in (IncidentGrade.NOTE, IncidentGrade.WATCH, IncidentGrade.APPLICATION)
    ),
    Row(
        "HLT-048", NOTE, {"log": logged(incident(IncidentGrade.REBOOT, restarts=1))}, ("log",), name="before a restart"
    ),
    Row("HLT-048", NOTE, {"log": logged(incident(IncidentGrade.REBOOT, age=8 * 86400.0))}, ("log",), name="long ago"),
    *(
        Row("HLT-050", FAIL, {"gpu.clocks.reasons": (reason,)}, ("gpu.clocks.reasons",), name=reason)
        for reason in ("hardware slowdown", "hardware thermal slowdown", "hardware power brake")
    ),
    Row("HLT-051", WARN, {"gpu.clocks.reasons": ("software thermal slowdown",)}, ("gpu.clocks.reasons",)),
    Row(
        "HLT-052",
        NOTE,
        {"gpu.clocks.held": (("hardware power brake", Quantity(55.0, Unit.SECOND)),)},
        ("gpu.clocks.held",),
    ),
    Row("HLT-053", FAIL, {"gpu.temperature": degrees(90)}, ("gpu.temperature",), also=("HLT-054",)),
    Row("HLT-054", WARN, {"gpu.temperature": degrees(86)}, ("gpu.heat.core_maximum",)),
    Row("HLT-055", WARN, {"gpu.heat.memory": degrees(96)}, ("gpu.heat.memory",)),
    Row("HLT-056", UNKNOWN, {"gpu.power": UNREADABLE}, ("gpu.power",)),
    Row("HLT-057", NOTE, {"gpu.power_limits.limit": watts(400)}, ("gpu.power_limits.limit",), also=("HLT-095",)),
    Row(
        "HLT-060",
        WARN,
        {"gpu.pcie.width": count(8), "device.now.width": count(8)},
        ("gpu.pcie.width", "gpu.pcie.width_maximum", "device.now.width", "device.maximum.width"),
    ),
    Row("HLT-061", FAIL, {"gpu.pcie.loaded": True, "device.now": SLOW_PORT}, ("gpu.pcie.loaded",)),
    Row(
        "HLT-062",
        WARN,
        {"gpu.busy": Quantity(0.97, Unit.RATIO), "device.now": SLOW_PORT},
        ("gpu.busy",),
    ),
    Row("HLT-063", FAIL, {"device.bars": UNPLACED}, ("device.bars",)),
    Row(
        "HLT-064",
        WARN,
        {"device.bars": GROWN, "device.resizable": CHOICES, "gpu.window.total": size(8 * GIBIBYTE)},
        ("gpu.window.total", "device.bars"),
    ),
    Row(
        "HLT-065",
        NOTE,
        {"device.bars": LEGACY, "device.resizable": CHOICES, "gpu.window.total": size(256 << 20)},
        ("gpu.window.total", "device.bars"),
    ),
    Row("HLT-066", WARN, {"device.errors": FATAL}, ("device.errors.fatal", "device.errors.nonfatal")),
    Row(
        "HLT-067",
        WARN,
        {"gpu.pcie.loaded": True, "gpu.pcie.corrected_loaded": count(1)},
        ("gpu.pcie.loaded",),
    ),
    Row(
        "HLT-068",
        FAIL,
        {"gpu.pcie.loaded": True, "gpu.pcie.corrected_loaded": count(17)},
        ("gpu.pcie.loaded",),
        also=("HLT-067",),
    ),
    Row("HLT-070", FAIL, {"gpu.nvlink": nvlink(16, 18)}, ("gpu.nvlink.active", "gpu.nvlink.links"), name="a part"),
    Row("HLT-070", FAIL, {"gpu.nvlink": nvlink(0, 18)}, (), name="all, and the neighbour has its own"),
    Row("HLT-072", WARN, {"gpu.nvlink": nvlink(18, 18, (("replay errors", count(1)),))}, ("gpu.nvlink.links",)),
    Row("HLT-073", NOTE, {"gpu.nvlink": nvlink(18, 18, (("crc errors", count(3)),))}, ("gpu.nvlink.links",)),
    Row(
        "HLT-074",
        WARN,
        {"gpu.nvlink": SLOW_LINK, "gpu.name": "NVIDIA H100 NVL"},
        ("gpu.nvlink.links",),
        also=("HLT-093",),
    ),
    Row("HLT-075", FAIL, {"gpu.fabric.state": "Not Started"}, ("gpu.fabric.state",), name="not started"),
    Row("HLT-075", FAIL, {"gpu.fabric.status": "Failure"}, (), name="status"),
    Row("HLT-075", FAIL, {"gpu.fabric.health": (("route unhealthy", "True"),)}, (), name="route"),
    Row(
        "HLT-075",
        FAIL,
        {"gpu.fabric.health": (("incorrect configuration", "Wrong partition"),)},
        (),
        name="configuration",
    ),
    Row("HLT-076", WARN, {"gpu.fabric.state": "In Progress"}, ("gpu.fabric.state",), name="in progress"),
    Row("HLT-076", WARN, {"gpu.fabric.health": (("degraded bandwidth", "True"),)}, (), name="bandwidth"),
    Row("HLT-077", WARN, {"host.fabric_manager_version": "570.86.10"}, ("host.fabric_manager",)),
    Row("HLT-080", UNKNOWN, {"library": "570.172"}, ("library", "kernel_module")),
    Row("HLT-081", UNKNOWN, {"nvml_failure": "NVML: Unknown Error"}, ()),
    Row("HLT-082", WARN, {"slow_calls": (CallFacts("nvmlDeviceGetTotalEccErrors", "0", 1.4, True),)}, ()),
    Row("HLT-083", FAIL, {"slow_calls": (CallFacts("nvmlDeviceGetTemperature", "0", 5.0, False),)}, ()),
    Row("HLT-036", NOTE, {"gpu.processes": ENDED}, ("gpu.processes",)),
    Row("HLT-079", UNKNOWN, {"slow_calls": (CallFacts("nvmlDeviceGetTemperature", "0", 0.5, False),)}, ()),
    Row("HLT-084", WARN, {"gpu.gsp": "570.86.10"}, ("gpu.gsp",)),
    Row("HLT-085", WARN, {"host.modules": ("nvidia", "nouveau")}, ("host.modules",)),
    Row("HLT-086", FAIL, {"devices": (*(device(index) for index in range(3)),)}, ("devices",)),
    Row("HLT-087", WARN, {"host.nodes": ("nvidia0", "nvidiactl")}, ("host.nodes",)),
    Row("HLT-088", NOTE, {"host.unreadable_nodes": ("nvidia1",)}, ("host.nodes",)),
    Row(
        "HLT-089",
        NOTE,
        {"gpu.persistence": False, "host.persistence_daemon": "inactive"},
        ("gpu.persistence",),
        also=("HLT-095",),
    ),
    Row("HLT-090", WARN, {"gpu.inforom.corrupted": True}, ("gpu.inforom.corrupted",)),
    Row("HLT-091", NOTE, {"gpu.vbios": "96.00.74.00.0D"}, ("gpu.vbios",)),
    Row("HLT-092", WARN, {"gpu.memory.total": size(78 * GIBIBYTE)}, ("gpu.memory.total",)),
    Row("HLT-093", NOTE, {"gpu.name": "NVIDIA H100 80GB PCIe"}, ("gpu.name", "device.name")),
    Row("HLT-094", WARN, {"gpu.driver": "570.86.10", "gpu.gsp": "570.86.10"}, ("gpu.driver",)),
    Row("HLT-095", NOTE, {"gpu.mig.enabled": NEVER, "gpu.power_limits.limit": watts(700.5)}, ()),
    Row("HLT-096", FAIL, {"claims": hit("sm_stress", ClaimStatus.FAIL)}, ()),
    Row("HLT-097", WARN, {"claims": hit("memory", ClaimStatus.WARN)}, ()),
    Row("HLT-098", NOTE, {"claims": hit("memory", ClaimStatus.SKIP)}, ()),
    Row("HLT-099", UNKNOWN, {"partial": "the file is cut off"}, ()),
)
