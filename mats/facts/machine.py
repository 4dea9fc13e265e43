"""What is known of a machine with GPUs from outside: its driver, its bus, its log and what other tools have said.

The same picture whether it was read live or from files; nothing here is judged.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mats.facts.allocator import CacheFacts
from mats.facts.gpu import UNASKED, Flag, GpuFacts, Text
from mats.facts.pci import PciDevice
from mats.facts.transfers import TransferRun
from mats.model import Absent, Reading


@dataclass(frozen=True, slots=True)
class PairFacts:
    """How two GPUs reach each other, by index: ``NV4`` (4 NVLinks), ``PIX``, ``PXB``, ``PHB``, ``NODE`` or ``SYS``."""

    first: int
    second: int
    connection: str


class IncidentGrade(enum.StrEnum):
    """What an incident of the log asks for; the later the more is lost if it is left undone."""

    NOTE = "note"
    """Nothing to do by itself."""
    WATCH = "watch"
    """See whether it comes again."""
    APPLICATION = "application"
    """A program's own mistake, as long as it does not follow one GPU."""
    CHECK = "check"
    """Cabling, seating or configuration."""
    UNCLEAR = "unclear"
    """Not decoded, or a number nobody knows: the vendor decides."""
    LINK = "link"
    RESET = "reset"
    REBOOT = "reboot"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class IncidentFacts:
    """One fault that a log tells of, with everything that followed from it.

    ``pci``: the card or port; ``lines``: the log's own lines, the decisive first; ``age`` in seconds until the log was
    taken, or until its last line where ``age_from`` says so; ``related``: addresses of others that were hit by it.
    """

    kind: str
    """memory, off_bus, gsp, controller, application, nvlink, switch, cleanup, recovery, init, reset_required, mismatch,
    pcie, bar, link_limit, other or unknown."""
    pci: Text
    grade: IncidentGrade
    title: str
    explains: tuple[str, ...]
    advice: str
    age: Reading
    age_from: str = ""
    xids: tuple[int, ...] = ()
    restarts_after: int = 0
    """Starts of system or driver that followed in the log: what the incident left behind may be gone."""
    count_known: bool = True
    """False: the driver limits how often it prints, so the number of lines means nothing."""
    related: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Where sources disagree on what it means."""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the kernel's log says about GPUs. No incident means only that none stands in what ``covers`` says."""

    incidents: tuple[IncidentFacts, ...]
    origin: str
    """Where it was read: /dev/kmsg, journalctl, or a file."""
    covers: str
    """What part of the past it holds, in a clause."""
    from_start: bool = False
    """It reaches back to the start of the system."""
    left_out: int = 0
    """Lines that may be events and were not read, since there are too many."""
    quoted: int = 0
    """Lines that look like events and were written by a program, not by the kernel."""


class ClaimStatus(enum.StrEnum):
    """What another tool concluded; a skipped test is not a passed one."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What another tool said: evidence, not our verdict. ``gpu``: its own number of the GPU, or absent."""

    tool: str
    what: str
    status: ClaimStatus
    gpu: Reading = UNASKED
    text: str = ""
    pci: Text = UNASKED
    """Address of the GPU or port, where the tool names one."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A question to the driver that took long or was given up. ``gpu``: index or UUID, empty for the whole machine."""

    call: str
    gpu: str
    seconds: float
    answered: bool


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The machine around the GPUs."""

    system: Text = UNASKED
    kernel: Text = UNASKED
    wsl: Flag = UNASKED
    """Windows Subsystem for Linux."""
    container: Text = UNASKED
    """The kind of container this runs in, or "none"."""
    nodes: tuple[str, ...] | Absent = UNASKED
    """Names of the GPUs' device files, such as nvidia0."""
    unreadable_nodes: tuple[str, ...] = ()
    """Those this user may not open."""
    modules: tuple[str, ...] | Absent = UNASKED
    """Kernel modules that are loaded and concern GPUs: nvidia, nouveau, nvidia_uvm, amdgpu ..."""
    fabric_manager: Text = UNASKED
    """The service's state: active, inactive, failed, not installed."""
    fabric_manager_version: Text = UNASKED
    persistence_daemon: Text = UNASKED
    """The service's state."""
    name: Text = UNASKED
    """Its own name in the network."""
    product: Text = UNASKED
    """Maker and model of the machine, as its firmware says."""
    processor: Text = UNASKED
    memory_total: Reading = UNASKED
    """Bytes of the processors' memory, which some GPUs share."""
    iommu: Text = UNASKED
    """Whether devices' access to memory goes through translation: on, off; it slows or breaks peer-to-peer copies."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """A machine: its driver, its GPUs and what its log says."""

    driver: Text = UNASKED
    cuda: Text = UNASKED
    """Newest CUDA the driver serves."""
    kernel_module: Text = UNASKED
    library: Text = UNASKED
    """Version of the NVML library, which must be that of the kernel module."""
    nvml_failure: Text = UNASKED
    """What NVML said when it could not start or could not list the GPUs."""
    virtualisation: Text = UNASKED
    """By what the machine itself is run, in words."""
    attached: Reading = UNASKED
    """How many GPUs the driver counts; more than ``gpus`` where a file is cut."""
    gpus: tuple[GpuFacts, ...] | Absent = UNASKED
    pairs: tuple[PairFacts, ...] | Absent = UNASKED
    devices: tuple[PciDevice, ...] | Absent = UNASKED
    """PCI devices with their links: GPUs of any maker and the ports above them."""
    devices_assumed: str = ""
    """Why it is not certain that the devices lie on one path; empty when the source tells."""
    log: LogFacts | Absent = UNASKED
    claims: tuple[ClaimFacts, ...] = ()
    slow_calls: tuple[CallFacts, ...] = ()
    host: HostFacts = HostFacts()
    taken: Text = UNASKED
    """When, as the source writes it."""
    partial: str = ""
    """Why the source stops early, or empty."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how the picture came about: parts of files that are not known, assumptions."""
    caches: tuple[CacheFacts, ...] = ()
    """Processes' own caches of GPU memory, in the order in which they were read."""
    transfers: tuple[TransferRun, ...] = ()
    """What other tools measured of links and of memory, run by run."""
    simulated: bool = False
    """It is of a simulator, and no evidence of any hardware; kept in a capture of it."""
