"""What a GPU says of itself: its identity and peak from CUDA and NVML, its passive state and its users from NVML."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from typing import Any

from mats import units
from mats.device import Conditions, DeviceError, HeldBy
from mats.devices._cuda_errors import version
from mats.devices._cuda_runtime import Cuda, read_uuid
from mats.facts import ProcessFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, TargetInfo, Unit
from mats.probe import UsageError
from mats.sources import nvml as source

Nvml = Any
"""The nvml module, or absent with the reason."""
KILOHERTZ = 1e3
VIRTUAL_GPU = 2
"""NVML_GPU_VIRTUALIZATION_MODE_VGPU."""
OWN_DRIVER_MODELS = (1, 2)
"""TCC and MCDM of Windows, under which a GPU's memory stays where it is."""
COUNTERS = (
    "ecc.corrected",
    "ecc.uncorrected",
    "remap.correctable",
    "remap.uncorrectable",
    "remap.pending",
    "remap.failed",
    "throttle.power",
    "throttle.thermal",
)
"""What a GPU counts, in the order it is read; throttling in seconds."""
_PCI = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?")


def describe_device(cuda: Cuda, nvml: Nvml, index: int, name: str) -> TargetInfo:
    """What the GPU with this CUDA index is. One that does not answer is described as such, with everything absent."""
    try:
        properties = cuda.properties(index)
    except DeviceError as error:
        lost = Absent(AbsenceKind.DEVICE_LOST, str(error))
        return TargetInfo(name, "cuda", f"GPU {index} (does not answer)", lost, lost, lost, "", origin_kind="cuda")
    digits = read_uuid(index)
    gpu = find_gpu(nvml, digits)
    peak, formula = peak_bandwidth(properties, gpu)
    uuid = _uuid(gpu, digits)
    if uuid.startswith("MIG-"):
        peak = Absent(AbsenceKind.NOT_SUPPORTED, "peak bandwidth: how much of it a MIG instance has is not told")
    return TargetInfo(
        name=name,
        kind="cuda",
        title=properties["name"].decode(errors="replace"),
        memory_total=memory_total(properties, gpu),
        cache_size=_positive(properties["l2CacheSize"], Unit.BYTE, "size of the L2 cache"),
        peak_bandwidth=peak,
        peak_formula=formula,
        identity=_identity(cuda, nvml, index, properties, uuid),
        origin_kind="cuda",
    )


def find_gpu(nvml: Nvml, digits: str) -> source.Gpu | Absent:
    """NVML's door to the GPU with these UUID digits, which may belong to a slice of one (MIG)."""
    if isinstance(nvml, Absent):
        return nvml
    if not digits:
        return Absent(AbsenceKind.UNREADABLE, "NVML: the driver does not tell the UUID that it finds a GPU by")
    gpu = source.find(nvml, f"GPU-{digits}")
    if isinstance(gpu, Absent) and gpu.kind is AbsenceKind.NOT_FOUND:
        piece = source.find(nvml, f"MIG-{digits}")
        return gpu if isinstance(piece, Absent) else piece
    return gpu


def _uuid(gpu: source.Gpu | Absent, digits: str) -> str:
    """With the prefix under which NVML knows it; without NVML it is taken for a whole GPU. Empty when not told."""
    if isinstance(gpu, source.Gpu):
        return gpu.uuid
    return f"GPU-{digits}" if digits else ""


def _identity(cuda: Cuda, nvml: Nvml, index: int, properties: dict[str, Any], uuid: str) -> tuple[tuple[str, str], ...]:
    driver = nvml if isinstance(nvml, Absent) else source.read_driver(nvml)
    gpu = find_gpu(nvml, read_uuid(index))
    pairs = {
        "uuid": uuid,
        "pci": f"{properties['pciDomainID']:04x}:{properties['pciBusID']:02x}:{properties['pciDeviceID']:02x}.0",
        "index": str(index),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": str(properties["multiProcessorCount"]),
        "placement": placement(properties, gpu, uuid, platform.release(), sys.platform),
        "driver": "" if isinstance(driver, Absent) else driver,
        "driver_cuda": version(cuda.runtime.driverGetVersion()),
        "runtime_cuda": version(cuda.runtime.runtimeGetVersion()),
        "cupy": str(cuda.cupy.__version__),
    }
    return tuple((key, value) for key, value in pairs.items() if value)


def placement(properties: dict[str, Any], gpu: source.Gpu | Absent, uuid: str, release: str, system: str) -> str:
    """Why the memory is not this GPU's alone or may be moved, in a word; empty for a GPU that has its own."""
    if uuid.startswith("MIG-"):
        return "MIG"
    if properties.get("integrated"):
        return "integrated"
    if "microsoft" in release.lower():
        return "WSL"
    mode = gpu if isinstance(gpu, Absent) else gpu.ask("virtualisation", "VirtualizationMode")
    if mode == VIRTUAL_GPU:
        return "vGPU"
    model = gpu if isinstance(gpu, Absent) else gpu.ask("driver model", "DriverModel")
    own = isinstance(model, list | tuple) and model[0] in OWN_DRIVER_MODELS
    return "WDDM" if system == "win32" and not own else ""


def memory_total(properties: dict[str, Any], gpu: source.Gpu | Absent) -> Reading:
    """Bytes of the whole GPU: NVML's figure has the share that the driver keeps, CUDA's has not."""
    usable = int(properties["totalGlobalMem"])
    total = gpu if isinstance(gpu, Absent) else source.read_memory(gpu).total
    return Quantity(usable if isinstance(total, Absent) else max(usable, int(total.value)), Unit.BYTE)


def peak_bandwidth(properties: dict[str, Any], gpu: source.Gpu | Absent) -> tuple[Reading, str]:
    """Bytes per second by the device's own figures, and the formula in words: never from a table of products."""
    bus = int(properties["memoryBusWidth"])
    clock = gpu if isinstance(gpu, Absent) else source.read_memory_clock_maximum(gpu)
    origin = "highest memory clock by NVML"
    if isinstance(clock, Absent):
        clock = _positive(properties["memoryClockRate"] * KILOHERTZ, Unit.HERTZ, "memory clock")
        origin = "memory clock by CUDA"
    if isinstance(clock, Absent) or not bus:
        return Absent(AbsenceKind.NOT_SUPPORTED, "peak bandwidth: the device does not tell its memory clock or bus"), ""
    formula = f"2 x {clock.value / 1e6:g} MHz ({origin}) x {bus} bit / 8"
    return units.peak_bandwidth(clock, Quantity(bus, Unit.COUNT)), formula


def _positive(value: float, unit: Unit, what: str) -> Reading:
    if value > 0:
        return Quantity(value, unit)
    return Absent(AbsenceKind.NOT_SUPPORTED, f"{what}: the device does not tell it")


def select(argument: str, infos: Sequence[TargetInfo]) -> int:
    """The index that an index, a UUID or its beginning, or a PCI address names. Raises UsageError."""
    if argument.isdecimal():
        matches = [int(argument)] if int(argument) < len(infos) else []
    elif argument.upper().startswith(("GPU-", "MIG-")):
        matches = [i for i, info in enumerate(infos) if info.uuid.lower().startswith(argument.lower())]
    else:
        matches = [i for i, info in enumerate(infos) if same_pci(argument, dict(info.identity).get("pci", ""))]
    if len(matches) == 1:
        return matches[0]
    found = ", ".join(f"{info.name} ({info.title}, {info.uuid or 'no UUID'})" for info in infos)
    wrong = f"{argument} names {len(matches)} GPUs" if matches else f"there is no GPU {argument}"
    raise UsageError(f"{wrong}: this machine has {found}")


def same_pci(wanted: str, address: str) -> bool:
    """Whether two PCI addresses mean the same place; a missing domain means any, the function does not count."""
    left, right = _PCI.fullmatch(wanted.lower()), _PCI.fullmatch(address.lower())
    if left is None or right is None:
        return False
    domains = {int(match[1], 16) for match in (left, right) if match[1]}
    return len(domains) <= 1 and left.group(2, 3) == right.group(2, 3)


def is_coherent(cuda: Cuda, index: int) -> bool:
    """Whether the GPU and the processor share page tables: then NVLink joins them, and copies do not go over PCIe."""
    runtime = cuda.runtime
    with cuda.errors(f"cuda:{index}", "reading its properties"):
        return bool(runtime.deviceGetAttribute(runtime.cudaDevAttrPageableMemoryAccessUsesHostPageTables, index))


def read_conditions(gpu: source.Gpu | Absent, ecc_by_cuda: bool) -> Conditions:
    """The passive state now. Whether ECC is on is also known to CUDA, where NVML cannot say."""
    if isinstance(gpu, Absent):
        counters = tuple((name, gpu) for name in COUNTERS)
        return Conditions(gpu, gpu, gpu, gpu, gpu, "on" if ecc_by_cuda else "off", counters)
    clocks, ecc, remap = source.read_clocks(gpu), source.read_ecc(gpu), source.read_remap(gpu)
    enabled = ecc_by_cuda if isinstance(ecc.enabled, Absent) else ecc.enabled
    counts = (ecc.corrected, ecc.uncorrected, remap.correctable, remap.uncorrectable, remap.pending, remap.failed)
    return Conditions(
        temperature=source.read_temperature(gpu),
        core_clock=clocks.core,
        memory_clock=clocks.memory,
        power=source.read_power(gpu),
        performance_state=source.read_performance_state(gpu),
        ecc="on" if enabled else "off",
        counters=tuple(zip(COUNTERS, (*counts, *(held for _, held in clocks.held)), strict=True)),
    )


def list_processes(gpu: source.Gpu | Absent) -> frozenset[int]:
    """Numbers of the processes that NVML lists; none where it cannot."""
    listed = gpu if isinstance(gpu, Absent) else source.read_processes(gpu)
    return frozenset() if isinstance(listed, Absent) else frozenset(process.pid for process in listed)


def own_numbers(before: frozenset[int], after: frozenset[int]) -> frozenset[int]:
    """Under which numbers NVML lists this process: in a container another one than its own.

    ``before``, ``after``: the processes listed around the start of this process's work on the GPU. Empty when unknown.
    """
    if os.getpid() in after:
        return frozenset({os.getpid()})
    new = after - before
    return new if len(new) == 1 else frozenset()


def other_holders(gpu: source.Gpu | Absent, own: frozenset[int]) -> tuple[HeldBy, ...] | str:
    """The other processes on the GPU, or why they are not known. This process holds a context, so it must be listed."""
    listed = gpu if isinstance(gpu, Absent) else source.read_processes(gpu)
    if isinstance(listed, Absent):
        return listed.reason
    if not listed:
        return "the driver lists no processes here, not even this one, as in containers and under WSL"
    if not own & {process.pid for process in listed}:
        if len(listed) == 1:
            return ()
        return f"the driver lists {len(listed)} processes and does not tell which is this one, as in containers"
    names = os.getpid() in own
    others = (process for process in listed if process.pid not in own)
    return tuple(
        HeldBy(process.pid, _name(process) if names else "", process.memory, process.draws_only) for process in others
    )


def _name(process: ProcessFacts) -> str:
    """The name of a process of this machine, or nothing when it is not told."""
    import psutil

    try:
        return str(psutil.Process(process.pid).name())
    except psutil.Error:
        return ""


def memory_of(holders: tuple[HeldBy, ...] | str) -> Reading:
    """Bytes that other processes hold together; absent when one of them is not known."""
    if isinstance(holders, str):
        return Absent(AbsenceKind.UNREADABLE, f"memory of other processes: {holders}")
    total = 0
    for holder in holders:
        if isinstance(holder.memory, Absent):
            return holder.memory
        total += int(holder.memory.value)
    return Quantity(total, Unit.BYTE)
