"""Where the bounds of the health check come from, and the two shapes in which most of them are written."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

READ = "2026-11-30"
COUNT = Unit.COUNT


def _source(title: str, locator: str, kind: SourceKind = SourceKind.VENDOR) -> Source:
    return Source(title, locator, kind, READ)


HONESTY = _source("README of mats", "unknown is not healthy", SourceKind.CONVENTION)
OWN = _source("README of mats", "a convention of this project; set your own with --limits", SourceKind.CONVENTION)
NVML = _source("NVIDIA NVML API reference", "return codes, field values and flags of the calls that are named")
MEMORY_ERRORS = _source("NVIDIA, GPU Memory Error Management", "row remapping, error containment, RMA criteria")
RETIREMENT = _source("NVIDIA, Dynamic Page Retirement", "64 entries; pending until the driver is loaded again")
XIDS = _source("NVIDIA, Xid Errors (catalogue of 2025-10-29)", "immediate action of each number")
DEBUG = _source("NVIDIA, GPU Debug Guidelines", "clock events, InfoROM, PCIe, driver and libraries")
FABRIC = _source("NVIDIA, Fabric Manager User Guide", "states of registration; versions must be equal")
DCGM = _source("NVIDIA/DCGM 72fa3fe", "DcgmHealthWatch.cpp, DcgmGPUHardwareLimits.h, nvvs/plugin_src/software")
PCIE = _source("PCI Express Base Specification", "a link trains to what both of its ends can", SourceKind.DEFINITION)
KERNEL_AER = _source("Linux kernel documentation", "PCIe AER: counters of correctable, non-fatal and fatal errors")


def peers(locator: str) -> Source:
    """What other checkers do, read in their sources."""
    return _source("other health checkers (their sources)", locator, SourceKind.CONVENTION)


def none(
    code: str,
    measurement: str,
    title: str,
    severity: Severity,
    source: Source,
    reasoning: str,
    advice: str,
) -> Limit:
    """A limit of not one."""
    return most(code, measurement, title, 0, severity, source, reasoning, advice)


def most(
    code: str,
    measurement: str,
    title: str,
    bound: float,
    severity: Severity,
    source: Source,
    reasoning: str,
    advice: str,
    unit: Unit = COUNT,
) -> Limit:
    name = f"health.{measurement}"
    return Limit(code, name, title, Relation.AT_MOST, Quantity(bound, unit), severity, source, reasoning, advice)


def least(
    code: str,
    measurement: str,
    title: str,
    bound: float,
    severity: Severity,
    source: Source,
    reasoning: str,
    advice: str,
    unit: Unit = COUNT,
    required: bool = False,
) -> Limit:
    name = f"health.{measurement}"
    return Limit(
        code, name, title, Relation.AT_LEAST, Quantity(bound, unit), severity, source, reasoning, advice, required
    )
