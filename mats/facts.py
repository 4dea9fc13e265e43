"""What is known of a GPU from outside: one typed picture, the same whether it came from NVML live or from a file.

Every value that a driver, a board or a permission may withhold is a reading or absent with its reason; nothing here is
judged. Reading the picture is the business of ``mats.sources``.
"""

from __future__ import annotations

from dataclasses import dataclass

from mats.model import Absent, Reading


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Bytes of the whole GPU. ``reserved``: held by driver and firmware, and for ECC where it takes its share there."""

    total: Reading
    reserved: Reading
    used: Reading
    """By processes and contexts; without ``reserved`` where the driver tells them apart."""
    free: Reading


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """A process on the GPU. ``pid`` is the host's number, also within a container; memory in bytes."""

    pid: int
    memory: Reading
    draws_only: bool = False
    """It draws and does not compute, as a desktop does."""


@dataclass(frozen=True, slots=True)
class EccFacts:
    """Whether ECC is on, now and after the next start; errors since the driver was loaded, as counts."""

    enabled: bool | Absent
    pending: bool | Absent
    corrected: Reading
    uncorrected: Reading


@dataclass(frozen=True, slots=True)
class RemapFacts:
    """Rows of memory that were replaced, as counts; whether a replacement waits for a reset, or has failed."""

    correctable: Reading
    uncorrectable: Reading
    pending: Reading
    """1 when a remapping waits for a reset, else 0."""
    failed: Reading
    """1 when a remapping has failed, else 0."""


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """Clocks in hertz. ``reasons``: what holds them down now, in words; ``held``: seconds of it, by cause."""

    core: Reading
    memory: Reading
    memory_maximum: Reading
    reasons: tuple[str, ...] | Absent
    held: tuple[tuple[str, Reading], ...]


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU. ``performance_state``: P-state as a count, 0 is the fastest."""

    uuid: str
    name: str | Absent
    driver: str | Absent
    temperature: Reading
    power: Reading
    performance_state: Reading
    clocks: ClockFacts
    ecc: EccFacts
    remap: RemapFacts
    memory: MemoryFacts
    processes: tuple[ProcessFacts, ...] | Absent
