"""Checks of a GPU as a table: name, usual reading, what breaking it means and what to do then."""

from __future__ import annotations

from dataclasses import dataclass

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL
NONE, ONE = Quantity(0, Unit.COUNT), Quantity(1, Unit.COUNT)
RESET = "Drain the GPU and reset it (nvidia-smi --gpu-reset); no service is needed for that."
SERVICE = "Save nvidia-bug-report, run the vendor's field diagnostics and open a service case."
COOLING = "Look at fans, air filters and the temperature of the room."


@dataclass(frozen=True, slots=True)
class ExampleCheck:
    """``usual``: what a GPU in order reads; ``most``: the bound of a count, or None where it must be at least 0 °C."""

    name: str
    title: str
    severity: Severity
    advice: str
    usual: Quantity = NONE
    required: bool = False
    method: str = "NVML"

    @property
    def subject(self) -> str:
        return self.name.partition(".")[0]


def _check(name: str, title: str, severity: Severity, advice: str) -> ExampleCheck:
    return ExampleCheck(name, title, severity, advice)


CHECKS = (
    ExampleCheck(
        "answers",
        "the GPU does not answer",
        FAIL,
        "Restart the machine with its power off.",
        ONE,
        True,
    ),
    ExampleCheck("known.errors", "whether memory errors happened is not known", UNKNOWN, "See the reason.", ONE, True),
    _check("ecc.uncorrected", "uncorrected memory errors since the driver was loaded", FAIL, RESET),
    _check("ecc.sram_threshold", "too many uncorrected SRAM errors in the life of the card", FAIL, SERVICE),
    _check("ecc.lifetime", "uncorrected memory errors in the life of the card", NOTE, "Nothing to do now."),
    _check("ecc.mode_pending", "the ECC mode will change with the next reset", WARN, RESET),
    _check("ecc.off", "ECC is switched off", NOTE, "Switch it on with nvidia-smi -e 1 where errors matter."),
    _check("remap.pending", "a row of memory waits to be replaced", FAIL, RESET),
    _check("remap.failed", "replacing a row of memory has failed", FAIL, SERVICE),
    _check("remap.no_spares", "banks of memory without a spare row", WARN, SERVICE),
    _check("retired.pending", "a page of memory waits to be retired", WARN, RESET),
    _check("retired.full", "the table of retired pages is full", FAIL, SERVICE),
    _check("recovery.action", "the driver asks for a recovery of the GPU", FAIL, RESET),
    _check("clocks.thermal", "the GPU is slowed down by heat", WARN, COOLING),
    _check("clocks.power_brake", "the power supply holds the GPU down", FAIL, "Look at the power supplies."),
    ExampleCheck(
        "heat.margin", "the core is above its slowdown temperature", WARN, COOLING, Quantity(31.0, Unit.CELSIUS)
    ),
    ExampleCheck("heat.memory", "the memory is hotter than it may be", WARN, COOLING, Quantity(2.0, Unit.CELSIUS)),
    _check("power.limit_share", "the power limit is below the board's own", NOTE, "Set it back with nvidia-smi -pl."),
    _check("pcie.width", "the PCIe link has fewer lanes than it can", NOTE, "Reseat the card."),
    _check("pcie.replays", "PCIe packets are sent again", WARN, "Reseat the card and its riser."),
    _check("pcie.lane_errors", "PCIe lanes with errors", WARN, "Reseat the card and its riser."),
    _check("nvlink.down", "NVLinks are down", FAIL, "Restart the fabric manager, then reset the GPUs it joins."),
    _check("nvlink.crc", "NVLink data was sent again", WARN, "Reseat the bridge."),
    _check("fabric.failed", "the GPU is not registered with the NVLink fabric", FAIL, "Restart the fabric manager."),
    _check("inforom.corrupted", "the card's own record is corrupted", WARN, SERVICE),
    _check("persistence", "persistence mode is off", NOTE, "Run nvidia-persistenced."),
    _check("mig.pending", "the MIG mode will change with the next reset", WARN, RESET),
    _check("processes.zombies", "memory is held and no process is known", WARN, "Find who holds /dev/nvidia*."),
    _check("vbios.mixed", "GPUs of one model with different firmware", NOTE, "Bring them to one version."),
)

_MACHINE = (
    _check("log.read", "the kernel log could not be read", NOTE, "Run as root."),
    _check("driver.mismatch", "driver and library are of different versions", FAIL, "Restart the machine."),
    _check("gpus.missing", "GPUs on the bus that the driver does not list", FAIL, "Restart with the power off."),
)


def _limit(number: int, check: ExampleCheck) -> Limit:
    least = check.usual != NONE or check.name == "log.read"
    bound = Quantity(1 if check.usual == ONE or check.name == "log.read" else 0, check.usual.unit)
    return Limit(
        code=f"HLT-{number:03d}",
        measurement=f"health.{check.name}",
        title=check.title,
        relation=Relation.AT_LEAST if least else Relation.AT_MOST,
        bound=bound,
        severity=check.severity,
        source=Source(
            "NVIDIA GPU memory error management", "section on row remapping", SourceKind.VENDOR, "2026-11-30"
        ),
        reasoning="What this counter shows is not there on a GPU that works as it was made.",
        advice=check.advice,
        required=check.required,
    )


LIMITS = tuple(_limit(number, check) for number, check in enumerate((*CHECKS, *_MACHINE), start=1))
