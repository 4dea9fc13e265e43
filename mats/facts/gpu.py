"""What is known of a GPU from outside: one typed picture, the same whether it came live or from a file.

Every value that a driver, a board, a permission or a short file may withhold is a value or absent with its reason;
nothing here is judged. Reading the picture is the business of ``mats.sources``; a field nobody was asked for says so.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from mats.facts.pci import address_of
from mats.model import AbsenceKind, Absent, Reading

Text = str | Absent
Flag = bool | Absent

UNASKED: Final = Absent(AbsenceKind.NOT_TESTED, "no source that was read tells it")
RETIRED_PAGES_MAXIMUM: Final = 64
"""Entries of the table of retired pages (NVIDIA, Dynamic Page Retirement): a higher count cannot be."""


def pci_address(text: str) -> Text:
    """A PCI address as :func:`mats.facts.pci.address_of` spells it; absent when it is none."""
    return address_of(text) or Absent(AbsenceKind.UNREADABLE, f"PCI address: {text.strip()[:40]!r} is none")


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Bytes of the whole GPU. ``reserved``: held by driver and firmware, and for ECC where it takes its share there."""

    total: Reading = UNASKED
    reserved: Reading = UNASKED
    used: Reading = UNASKED
    """By processes and contexts; without ``reserved`` where the driver tells them apart."""
    free: Reading = UNASKED
    used_with_reserved: Reading = UNASKED
    """As the older call counts it: what is reserved is in it, so that a GPU without any process is not at 0."""
    bus: Reading = UNASKED
    """Width of the bus to the memory in bits, as a count."""


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """Bytes of BAR1, the window through which the processor and other devices reach the memory."""

    total: Reading = UNASKED
    used: Reading = UNASKED
    free: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """A process on the GPU. ``pid`` is the host's number, also within a container; memory in bytes."""

    pid: int
    memory: Reading
    draws_only: bool = False
    """It draws and does not compute, as a desktop does."""
    name: Text = UNASKED
    gpu_instance: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class EccCounts:
    """Errors by where they were. ``sram_uncorrected`` is the sum of parity and SEC-DED where only these are told."""

    sram_corrected: Reading = UNASKED
    sram_uncorrected: Reading = UNASKED
    sram_parity: Reading = UNASKED
    """Uncorrected, found by parity."""
    sram_secded: Reading = UNASKED
    """Uncorrected, found by a code that corrects one bit and detects two."""
    dram_corrected: Reading = UNASKED
    dram_uncorrected: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class EccFacts:
    """Whether ECC is on, now and after the next start; errors since the driver was loaded, as counts."""

    enabled: Flag = UNASKED
    pending: Flag = UNASKED
    corrected: Reading = UNASKED
    uncorrected: Reading = UNASKED
    volatile: EccCounts = EccCounts()
    """Since the driver was loaded or the GPU was reset; ``corrected`` and ``uncorrected`` are its totals."""
    aggregate: EccCounts = EccCounts()
    """In the life of the card."""
    sram_threshold_exceeded: Flag = UNASKED
    """NVIDIA's own bound for replacing the card because of uncorrected errors in SRAM."""
    sram_sources: tuple[tuple[str, Reading], ...] = ()
    """Uncorrected errors in the life of the card, by the unit whose SRAM it was; empty where they are not told."""
    channel_repair_pending: Flag = UNASKED
    tpc_repair_pending: Flag = UNASKED
    unrepairable_memory: Flag = UNASKED


@dataclass(frozen=True, slots=True)
class BankHistogram:
    """Banks of memory by how many of their spare rows are left; their sum is the number of banks."""

    full: Reading = UNASKED
    """All spares left; the driver calls it Max."""
    high: Reading = UNASKED
    partial: Reading = UNASKED
    low: Reading = UNASKED
    none: Reading = UNASKED
    """No spare left."""


@dataclass(frozen=True, slots=True)
class RemapFacts:
    """Rows of memory that were replaced, as counts; whether a replacement waits for a reset, or has failed."""

    correctable: Reading = UNASKED
    uncorrectable: Reading = UNASKED
    pending: Reading = UNASKED
    """1 when a remapping waits for a reset, else 0."""
    failed: Reading = UNASKED
    """1 when a remapping has failed, else 0."""
    banks: BankHistogram = BankHistogram()


@dataclass(frozen=True, slots=True)
class RetirementFacts:
    """Pages of memory taken out of use, by what they had shown; cards before Ampere have this instead of remapping."""

    single_bit: Reading = UNASKED
    double_bit: Reading = UNASKED
    pending: Flag = UNASKED
    """A page waits for a reset to be taken out."""


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """Clocks in hertz. ``reasons``: what holds them down now, in words; ``held``: seconds of it, by cause.

    ``held`` is empty where it is not told.
    """

    core: Reading = UNASKED
    memory: Reading = UNASKED
    memory_maximum: Reading = UNASKED
    reasons: tuple[str, ...] | Absent = UNASKED
    held: tuple[tuple[str, Reading], ...] = ()
    core_maximum: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class HeatFacts:
    """Temperatures and their limits in degrees Celsius. Newer cards tell limits as margins: degrees left then."""

    memory: Reading = UNASKED
    margin: Reading = UNASKED
    """Degrees left before the core is slowed down; may be negative."""
    shutdown: Reading = UNASKED
    slowdown: Reading = UNASKED
    core_maximum: Reading = UNASKED
    memory_maximum: Reading = UNASKED
    target: Reading = UNASKED
    shutdown_margin: Reading = UNASKED
    slowdown_margin: Reading = UNASKED
    core_maximum_margin: Reading = UNASKED
    memory_maximum_margin: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """Limits and means of the board's power in watts."""

    average: Reading = UNASKED
    limit: Reading = UNASKED
    """In force now."""
    default_limit: Reading = UNASKED
    minimum_limit: Reading = UNASKED
    maximum_limit: Reading = UNASKED
    module: Reading = UNASKED
    """Drawn by the whole module, where it is more than the GPU (Grace-type)."""


@dataclass(frozen=True, slots=True)
class PcieFacts:
    """The link to the host: generation and lanes, as counts, now and at most."""

    generation: Reading = UNASKED
    """Now; a GPU at rest goes down to 1."""
    width: Reading = UNASKED
    generation_maximum: Reading = UNASKED
    """What card and slot can together."""
    width_maximum: Reading = UNASKED
    generation_device: Reading = UNASKED
    """What the card can."""
    generation_host: Reading = UNASKED
    """What the slot can."""
    replays: Reading = UNASKED
    replay_rollovers: Reading = UNASKED
    errors: tuple[tuple[str, Reading], ...] = ()
    """Counters of the card's end of the link since the driver was loaded, by name; empty where none is told."""
    loaded: Flag = UNASKED
    """The link was kept busy with copies while ``generation`` and ``width`` were read: they are the most it reached."""
    idle_generation: Reading = UNASKED
    """What it was before it was kept busy."""
    idle_width: Reading = UNASKED
    corrected_loaded: Reading = UNASKED
    """Corrected errors that the ends of every link up to the root counted while it was kept busy."""
    loaded_seconds: Reading = UNASKED
    """For how long they were counted."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One NVLink. ``speed`` in bytes per second and direction, as the driver tells it (before coding overhead)."""

    link: int
    active: Flag = UNASKED
    speed: Reading = UNASKED
    version: Text = UNASKED
    remote: Text = UNASKED
    """PCI address of the other end."""
    errors: tuple[tuple[str, Reading], ...] = ()
    """Counters by the driver's own names, lower case, since the driver was loaded."""
    packets: Reading = UNASKED
    """Sent and received since the driver was loaded, which NVLink 5 and newer count."""


@dataclass(frozen=True, slots=True)
class NvlinkFacts:
    """NVLinks of a GPU. ``active``: how many are up; known to be 0 also where the driver does not list them."""

    active: Reading = UNASKED
    links: tuple[LinkFacts, ...] | Absent = UNASKED


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """How the GPU is registered with the NVSwitch fabric, in the driver's words. ``health``: empty where not told."""

    state: Text = UNASKED
    status: Text = UNASKED
    clique: Text = UNASKED
    cluster: Text = UNASKED
    health: tuple[tuple[str, Text], ...] = ()


@dataclass(frozen=True, slots=True)
class InforomFacts:
    """Versions of the small memory where a card keeps its record. ``corrupted``: the driver found it damaged."""

    image: Text = UNASKED
    oem: Text = UNASKED
    ecc: Text = UNASKED
    power: Text = UNASKED
    corrupted: Flag = UNASKED


class RecoveryAction(enum.StrEnum):
    """What the driver wants done before the GPU is used again (NVML field 230)."""

    NONE = "none"
    RESET = "reset the GPU"
    REBOOT = "reboot the node"
    DRAIN_P2P = "drain peer-to-peer work"
    DRAIN_AND_RESET = "drain the work, then reset the GPU"
    RECOVER_IMEX = "recover the IMEX domain"
    BUS_RESET = "reset the bus"
    SYSTEM_REBOOT = "reboot the system"


@dataclass(frozen=True, slots=True)
class RecoveryFacts:
    """What the driver asks for. The two flags are the older form, of drivers before 570."""

    action: RecoveryAction | Absent = UNASKED
    reset_required: Flag = UNASKED
    drain_and_reset: Flag = UNASKED


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A slice of a GPU with its own share of memory and multiprocessors, as counts and bytes."""

    gpu_instance: int
    compute_instance: Reading = UNASKED
    multiprocessors: Reading = UNASKED
    sram_uncorrected: Reading = UNASKED
    """Since the driver was loaded."""
    memory: MemoryFacts = MemoryFacts()
    window: WindowFacts = WindowFacts()


@dataclass(frozen=True, slots=True)
class MigFacts:
    """Whether the GPU is sliced, now and after the next reset, and its slices."""

    enabled: Flag = UNASKED
    pending: Flag = UNASKED
    instances: tuple[MigInstance, ...] | Absent = UNASKED


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU. ``performance_state``: P-state as a count, 0 is the fastest."""

    uuid: Text = UNASKED
    name: Text = UNASKED
    driver: Text = UNASKED
    temperature: Reading = UNASKED
    """Of the core."""
    power: Reading = UNASKED
    """Drawn now by the board, in watts."""
    performance_state: Reading = UNASKED
    clocks: ClockFacts = ClockFacts()
    ecc: EccFacts = EccFacts()
    remap: RemapFacts = RemapFacts()
    memory: MemoryFacts = MemoryFacts()
    processes: tuple[ProcessFacts, ...] | Absent = UNASKED
    index: Reading = UNASKED
    pci: Text = UNASKED
    """As :func:`pci_address` spells it."""
    serial: Text = UNASKED
    vbios: Text = UNASKED
    architecture: Text = UNASKED
    compute_capability: Text = UNASKED
    """As CUDA writes it, such as 8.9."""
    answers: Flag = UNASKED
    """False: the driver knows the GPU and gets no answer from it."""
    asleep: Flag = UNASKED
    """Suspended to save power, which is neither lost nor broken; it was not woken to be asked."""
    retired: RetirementFacts = RetirementFacts()
    heat: HeatFacts = HeatFacts()
    power_limits: PowerFacts = PowerFacts()
    pcie: PcieFacts = PcieFacts()
    window: WindowFacts = WindowFacts()
    nvlink: NvlinkFacts = NvlinkFacts()
    fabric: FabricFacts = FabricFacts()
    inforom: InforomFacts = InforomFacts()
    recovery: RecoveryFacts = RecoveryFacts()
    mig: MigFacts = MigFacts()
    persistence: Flag = UNASKED
    compute_mode: Text = UNASKED
    driver_model: Text = UNASKED
    """WDDM, TCC or MCDM on Windows."""
    addressing: Text = UNASKED
    """How host memory is reached: none, HMM or ATS; ATS shares one memory with the processor."""
    virtualisation: Text = UNASKED
    gsp: Text = UNASKED
    """Version of the firmware on the GPU's own processor; absent also where it is not used."""
    busy: Reading = UNASKED
    """Share of the last moments in which any kernel ran, as a ratio."""
    numa: Reading = UNASKED
    """Node of the processor it is next to."""
    cpus: Text = UNASKED
    """Processors it is next to, as a list of ranges."""
