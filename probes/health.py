"""Can these GPUs be trusted with work?

The answer is by everything that is known of them without touching their memory.

Method. One picture of the machine is read, live (the driver through NVML, the bus through sysfs, the kernel's log) or
from saved output of other tools (--from, any mix of files), and each check is held against it: memory errors and ECC,
rows and pages that were replaced or wait to be, incidents of the log put together by their cause, what the driver wants
done, clocks, heat and power, the PCIe link and every port above it, memory windows, NVLink in its context, the NVSwitch
fabric, driver, firmware and device files, memory without a holder, GPUs compared with each other, other tools' claims.
No daemon, no root, no load, unless --load asks for a copy that keeps the PCIe link busy while it is read.

How it judges. Unknown is not healthy: a GPU must answer, and it must be known whether it had memory errors and whether
memory waits to be replaced; else the verdict is unknown, with the reason. Everything else that could not be seen is
listed, and makes the verdict unknown only where --must-see names it. A PCIe link at rest is never failed. Limits of
temperature are those of the card's own driver. A serious incident of the log fails until the system or the driver is
started again, or for as long as --log-window says; one of over an hour ago on a GPU whose driver wants nothing done is
a warning. Totals of errors that are corrected are notes: rates need --baseline, a saved run of this check, which also
shows new replacements, lost lanes and GPUs that are gone. Where sources disagree on an event, the finding shows it.

What it cannot see. Cells that fail without ECC: mats stress tests the memory itself. What a driver hides: with MIG the
counters of the whole GPU, in a virtual GPU all of them. Events that have left the kernel's log. What was before the
driver was loaded, but for the counters of the card's life. Why a GPU is slow: it reads what holds the clocks down at
one moment. GPUs of other makers are named and left to their own tools.

Sources. NVIDIA: NVML API reference, Xid catalogue, GPU Memory Error Management, Dynamic Page Retirement, Fabric Manager
User Guide, GPU Debug Guidelines. What thirteen other checkers do, read in their sources: DCGM, gpud, Azure, GCP, AWS,
EKS, cyclecloud-healthagent, gcm, sichek, imbue, NVSentinel, azhpc-diagnostics, the Kubernetes device plugin.
"""

from __future__ import annotations

from mats.model import Absent, Observation, Result
from mats.probe import Context, Option, OptionKind, Probe
from mats.source import NothingThere, Source

from ._health_limits import LIMITS, WINDOW


def measure(source: Source, context: Context) -> Observation:
    """Reads the source once and examines it. Raises UsageError, SourceError."""
    from ._health_examine import examine  # the checks are not needed to print a help page

    baseline = context.options.get("baseline")
    context.progress(0, 1, "reading what is known of the machine")
    machine = source.read(load=bool(context.options.get("load")))
    if machine.caches and all(isinstance(told, Absent) for told in (machine.gpus, machine.log, machine.devices)):
        why = "this tells of a process's own memory and not of a GPU's state: mats frag --from reads it"
        raise NothingThere(why, machine)
    return examine(machine, context.options, baseline if isinstance(baseline, Result) else None)


OPTIONS = (
    Option(
        "from",
        OptionKind.EVIDENCE,
        "Judge saved evidence instead of this machine: output of nvidia-smi, a kernel log, lspci, DCGM, "
        "nvidia-bug-report, a mats capture; several files are one machine.",
    ),
    Option("load", OptionKind.FLAG, "Keep the PCIe links busy with a copy while they are read.", default=False),
    Option(
        "must-see",
        OptionKind.TEXT,
        "Subjects with commas without which the verdict is unknown, e.g. log,ecc,remap,pcie,nvlink,count.",
    ),
    Option(
        "log-window",
        OptionKind.SECONDS,
        "How long an incident of the log counts as of now; older ones are notes.",
        default=WINDOW,
    ),
    Option("baseline", OptionKind.RUN_IN, "A saved run of this check: report what changed since."),
)

FAULTS = (
    *("needs_reset", "fallen_off_bus", "handle_lost", "reboot_needed", "hanging_call", "gsp_hangs", "slow_call"),
    *(
        "ecc_uncorrected",
        "ecc_pending",
        "sram_threshold",
        "remap_pending",
        "remap_failed",
        "spares_low",
        "v100_retired",
    ),
    *("b200_repair", "b200_link_errors", "nvlink_down", "nvlink_errors", "fabric_failed", "fabric_waiting"),
    *("thermal_slowdown", "power_brake", "pcie_narrow", "inforom_corrupt", "leftover_memory"),
)
"""Profiles of the simulated driver that must not pass."""

PROBE = Probe(
    name="health",
    question="Can these GPUs be trusted with work?",
    kinds=("cuda", "file", "sim"),
    order=100,
    exclusive=False,
    limits=LIMITS,
    faults=FAULTS,
    options=OPTIONS,
    measure=measure,
    passive=True,
)
