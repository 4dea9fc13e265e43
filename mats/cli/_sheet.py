"""What is to be said of one GPU: each fact once, from its driver where it can be asked, else from the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from mats.architectures import (
    CUDA_NEWEST,
    EXTRAS,
    Architecture,
    Product,
    architecture,
    cuda_extra,
    gencode,
)
from mats.architectures.products import pcie_bandwidth
from mats.facts import GpuFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.registry import report_module
from mats.units import MIB, peak_bandwidth

PACKAGE = "gpu-mats"
UNLISTED = Absent(AbsenceKind.NOT_FOUND, "the driver does not tell it and the table has no such GPU")
_NEAR_ENOUGH = 0.03
"""Share by which two peaks may differ: published ones are rounded, and reserved bus bits are counted by some."""

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact. ``short`` is for a column; ``origin``: driver, table or rule; ``differs``: what another source says."""

    key: str
    label: str
    short: str
    long: str
    value: object
    """For JSON."""
    origin: str
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """A GPU by name, by its driver, or both. ``driver_cuda``: the newest CUDA that its driver serves, if known."""

    product: Product | None
    facts: GpuFacts | None = None
    driver_cuda: str = ""


def capability_of(subject: Subject) -> str | Absent:
    """The driver's own answer where there is one."""
    told = subject.facts.compute_capability if subject.facts is not None else UNLISTED
    if isinstance(told, Absent) and subject.product is not None:
        return subject.product.capability
    return told


def sheet(subject: Subject) -> tuple[Entry, ...]:
    """Every fact, in the order in which a person needs them."""
    capability = capability_of(subject)
    entries = [_capability(subject, capability)]
    if not isinstance(capability, Absent):
        entries += compiling(capability, subject.driver_cuda)
    parts: tuple[Callable[[Subject], Entry | None], ...] = (_chip, _memory, _peak, _cache, _pcie, _nvlink, _source)
    made = (part(subject) for part in parts)
    return (*entries, *(entry for entry in made if entry is not None))


def compiling(capability: str, driver_cuda: str = "") -> list[Entry]:
    """What a compute capability means for a compiler and for CuPy."""
    known = architecture(capability)
    machine, portable = gencode(capability)
    flags = [
        Entry("gencode", "nvcc, this GPU", machine, machine, machine, "rule"),
        Entry("gencode_ptx", "nvcc, later GPUs", portable, f"{portable} (PTX)", portable, "rule"),
    ]
    if isinstance(known, Absent):
        text = f"{known.reason}: ask the documentation of your CUDA"
        return [*flags, Entry("cuda", "CUDA", "unknown", text, _absent(known), "table")]
    return [_architecture(known), *flags, _cuda(known), _cupy(known, driver_cuda)]


def _capability(subject: Subject, capability: str | Absent) -> Entry:
    listed = subject.product.capability if subject.product is not None else None
    live = subject.facts is not None and not isinstance(subject.facts.compute_capability, Absent)
    if isinstance(capability, Absent):
        return Entry("compute_capability", "compute capability", "unknown", capability.reason, _absent(capability), "")
    differs = f"the table says {listed}: the driver is right" if live and listed not in (None, capability) else ""
    origin = "driver" if live else "table"
    return Entry("compute_capability", "compute capability", capability, capability, capability, origin, differs)


def _architecture(known: Architecture) -> Entry:
    return Entry("architecture", "architecture", known.name, known.name, known.name, "table")


def _cuda(known: Architecture) -> Entry:
    last: object = known.cuda_last or _absent(Absent(AbsenceKind.NOT_FOUND, f"not dropped by CUDA {CUDA_NEWEST}"))
    short = f"{known.cuda_first} to {known.cuda_last}" if known.cuda_last else f"{known.cuda_first} on"
    if known.cuda_last:
        text = f"{known.cuda_first} to {known.cuda_last}; later ones do not compile for it"
    else:
        text = f"from {known.cuda_first} on (still in {CUDA_NEWEST}, the newest that was asked)"
    value = {"first": known.cuda_first, "last": last, "source": known.source}
    return Entry("cuda", "CUDA", short, text, value, "table")


def _cupy(known: Architecture, driver_cuda: str) -> Entry:
    extra = cuda_extra(known, driver_cuda)
    if isinstance(extra, Absent):
        return Entry("cupy_extra", "CuPy", "none", extra.reason, _absent(extra), "rule")
    text = f'pip install "{PACKAGE}[{extra}]"'
    older = cuda_extra(known, "12.9")
    if driver_cuda:
        text += f" (the driver serves CUDA {driver_cuda})"
    elif extra != EXTRAS[12] and older == EXTRAS[12]:
        text += f"; driver < 580: [{older}]"
    return Entry("cupy_extra", "CuPy", extra, text, extra, "rule")


def _chip(subject: Subject) -> Entry | None:
    product = subject.product
    if product is None:
        return None
    text = f"{product.chip}, {product.form}"
    return Entry("chip", "chip", text, text, {"name": product.chip, "form": product.form}, "table")


def _memory(subject: Subject) -> Entry | None:
    product, facts = subject.product, subject.facts
    sold = f"{product.memory} {product.memory_type}" if product else ""
    bus = _bus(subject)
    width = f"{bus.value:g} bit" if isinstance(bus, Quantity) else ""
    value: Json = {"bus": _value(bus)}
    if product is not None:
        value |= {"sold_as": product.memory, "type": product.memory_type}
    total: Reading = facts.memory.total if facts is not None else UNLISTED
    if isinstance(total, Quantity):
        value["total"] = _value(total)
        told = f"{quantity_text(total)}" + (f", sold as {sold}" if sold else "")
        return Entry("memory", "memory", quantity_text(total), _joined(told, width), value, "driver")
    if not sold:
        return None
    return Entry("memory", "memory", _joined(sold, width), _joined(sold, width), value, "table")


def _bus(subject: Subject) -> Reading:
    told: Reading = subject.facts.memory.bus if subject.facts is not None else UNLISTED
    if isinstance(told, Absent) and subject.product is not None:
        return subject.product.bus
    return told


def _peak(subject: Subject) -> Entry | None:
    product, facts = subject.product, subject.facts
    listed: Reading = product.peak if product is not None else UNLISTED
    bus = _bus(subject)
    clock: Reading = facts.clocks.memory_maximum if facts is not None else UNLISTED
    if isinstance(clock, Quantity) and isinstance(bus, Quantity):
        peak = peak_bandwidth(clock, bus)
        formula = f"2 x {clock.value / 1e6:g} MHz x {bus.value:g} bit / 8"
        apart = isinstance(listed, Quantity) and abs(listed.value / peak.value - 1) > _NEAR_ENOUGH
        differs = f"the table says {rate_text(listed)}" if apart and isinstance(listed, Quantity) else ""
        return _bandwidth(peak, formula, "driver", differs)
    if product is None:
        return None
    if isinstance(listed, Absent) or isinstance(product.rate, Absent):
        return Entry("peak_bandwidth", "peak bandwidth", "", "not known", _value(listed), "table")
    formula = (
        f"{product.rate.value / 1e9:g} Gbit/s per pin x {bus.value:g} bit / 8" if isinstance(bus, Quantity) else ""
    )
    return _bandwidth(listed, formula, "table")


def _bandwidth(peak: Quantity, formula: str, origin: str, differs: str = "") -> Entry:
    text = rate_text(peak)
    value = {**_value(peak), "formula": formula}
    return Entry("peak_bandwidth", "peak bandwidth", text, f"{text} = {formula}", value, origin, differs)


def _cache(subject: Subject) -> Entry | None:
    if subject.product is None:
        return None
    size = subject.product.cache
    text = f"{size.value / MIB:g} MiB" if isinstance(size, Quantity) else ""
    return Entry("l2_cache", "L2 cache", text, text or "not in the table", _value(size), "table")


def _pcie(subject: Subject) -> Entry | None:
    product, facts = subject.product, subject.facts
    generation: Reading = facts.pcie.generation_device if facts is not None else UNLISTED
    lanes: Reading = facts.pcie.width_maximum if facts is not None else UNLISTED
    origin, differs = "driver", ""
    if isinstance(generation, Absent) or isinstance(lanes, Absent):
        if product is None:
            return None
        generation, lanes, origin = product.pcie_generation, product.pcie_lanes, "table"
    elif product is not None:
        listed = _link(product.pcie_generation, product.pcie_lanes)
        differs = f"the table says {listed}" if listed and listed != _link(generation, lanes) else ""
    text = _link(generation, lanes)
    speed = pcie_bandwidth(generation, lanes)
    value = {"generation": _value(generation), "lanes": _value(lanes), "bandwidth_each_way": _value(speed)}
    long = f"{text}, {rate_text(speed)} each way" if isinstance(speed, Quantity) else text or "not in the table"
    return Entry("pcie", "PCIe", text, long, value, origin, differs)


def _link(generation: Reading, lanes: Reading) -> str:
    shown = f"Gen{generation.value:g}" if isinstance(generation, Quantity) else ""
    return f"{shown} x{lanes.value:g}".strip() if isinstance(lanes, Quantity) else shown


def _nvlink(subject: Subject) -> Entry | None:
    product = subject.product
    if product is None:
        return None
    total, links, generation = product.nvlink, product.nvlink_links, product.nvlink_generation
    if isinstance(total, Absent) or isinstance(links, Absent) or isinstance(generation, Absent):
        return Entry("nvlink", "NVLink", "none", "none", None, "table")
    short = f"{links.value:g} links, generation {generation.value:g}"
    each = Quantity(total.value / links.value / 2, Unit.BYTE_PER_SECOND)
    several = "links" if links.value > 1 else "link"
    text = (
        f"{links.value:g} {several} of generation {generation.value:g}, {rate_text(each)} each way and link; "
        f"{rate_text(total)} in all, both ways together"
    )
    value = {"links": _value(links), "generation": _value(generation), "total_both_ways": _value(total)}
    return Entry("nvlink", "NVLink", short, text, value, "table")


def _source(subject: Subject) -> Entry | None:
    product = subject.product
    if product is None:
        return None
    value = {"confidence": product.confidence, "text": product.source}
    return Entry("source", "table's source", product.source, f"{product.source} [{product.confidence}]", value, "table")


def entry_json(entry: Entry) -> object:
    """The entry's value; where the driver was asked and another source differs, that too."""
    if entry.differs and isinstance(entry.value, dict):
        return {**entry.value, "differs": entry.differs}
    return {"value": entry.value, "differs": entry.differs} if entry.differs else entry.value


def shared(sheets: list[tuple[Entry, ...]]) -> tuple[list[Entry], list[str]]:
    """The entries that all sheets agree in, and the keys of those in which they differ, both in order."""
    same, apart = [], []
    keys = dict.fromkeys(entry.key for each in sheets for entry in each)
    for key in keys:
        found = [entry for each in sheets for entry in each if entry.key == key]
        plain = {dataclasses.replace(entry, value=None) for entry in found}
        if len(plain) == 1 and len(found) == len(sheets):
            same.append(found[0])
        else:
            apart.append(key)
    return same, apart


def rate_text(quantity: Quantity) -> str:
    """Bytes per second in GB/s, whatever the size, so that GPUs compare."""
    rate = quantity.value / 1e9
    return f"{rate:,.0f} GB/s" if rate >= 1000 or float(rate).is_integer() else f"{rate:.1f} GB/s"


def quantity_text(quantity: Quantity) -> str:
    """As every report writes it."""
    return str(report_module("_format").quantity_text(quantity))


def _value(reading: Reading) -> Json:
    if isinstance(reading, Absent):
        return _absent(reading)
    return {"value": reading.value, "unit": reading.unit.value}


def _absent(absent: Absent) -> Json:
    return {"absent": absent.reason}


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
