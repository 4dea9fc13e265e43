"""Reads a GPU's passive state through NVML, by UUID; a call that fails makes one value absent and never sinks the rest.

Every function takes the nvml module, so that a test can give its own. Only nvidia-ml-py is meant: older packages that
bring a module of the same name lack calls that are used here and are refused.
Calls, support and errors: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mats.facts import ClockFacts, EccFacts, GpuFacts, MemoryFacts, ProcessFacts, RemapFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

MEGAHERTZ = 1e6
_NEEDED = ("nvmlMemory_v2", "nvmlDeviceGetRowRemapperHistogram")

_FAILURES: dict[int, tuple[AbsenceKind, str]] = {
    3: (AbsenceKind.NOT_SUPPORTED, "this GPU or its driver does not support it"),
    4: (AbsenceKind.NO_PERMISSION, "reading it needs more permission"),
    6: (AbsenceKind.NOT_FOUND, "NVML does not know this GPU"),
    9: (AbsenceKind.NOT_FOUND, "the NVIDIA driver is not loaded"),
    10: (AbsenceKind.TIMED_OUT, "the driver did not answer in time"),
    12: (AbsenceKind.NOT_FOUND, "the NVML library is not installed (it comes with the NVIDIA driver)"),
    13: (AbsenceKind.MISSING_SYMBOL, "the installed driver is too old to tell it"),
    15: (AbsenceKind.DEVICE_LOST, "the GPU has fallen off the bus or is otherwise inaccessible"),
    16: (AbsenceKind.DEVICE_LOST, "the GPU needs a reset before it answers"),
    17: (AbsenceKind.NO_PERMISSION, "the operating system or the container blocks access to the GPU"),
    18: (AbsenceKind.UNREADABLE, "the driver and its libraries have different versions (reload the driver or reboot)"),
    22: (AbsenceKind.NOT_SUPPORTED, "a virtual GPU does not have it"),
    25: (AbsenceKind.MISSING_SYMBOL, "the installed driver does not know this form of the question"),
}
"""By NVML's return code, what it means for a value."""

CLOCK_REASONS = {
    0x0001: "idle",
    0x0002: "application clocks",
    0x0004: "software power cap",
    0x0008: "hardware slowdown",
    0x0010: "sync boost",
    0x0020: "software thermal slowdown",
    0x0040: "hardware thermal slowdown",
    0x0080: "hardware power brake",
    0x0100: "display clocks",
}
"""Bits of the clock-event reasons; several may be set at once."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that NVML knows: the module and the handle that every reading needs."""

    nvml: Any
    handle: Any
    uuid: str


def start(load: Callable[[str], Any] = importlib.import_module) -> Any | Absent:
    """The nvml module, initialised, or absent with the reason. Each start wants one ``nvmlShutdown``."""
    try:
        nvml = load("pynvml")
    except ImportError:
        return Absent(AbsenceKind.NOT_FOUND, "NVML: the Python package nvidia-ml-py is not installed")
    if not all(hasattr(nvml, name) for name in _NEEDED):
        where = getattr(nvml, "__file__", "an unknown place")
        return Absent(
            AbsenceKind.MISSING_SYMBOL,
            f"NVML: {where} is not a current nvidia-ml-py (uninstall packages named pynvml or nvidia-ml-py3)",
        )
    started = _ask(nvml, "NVML", "nvmlInit")
    return started if isinstance(started, Absent) else nvml


def find(nvml: Any, uuid: str) -> Gpu | Absent:
    """The GPU with this UUID; temperatures and counters are never matched by index."""
    handle = _ask(nvml, "NVML", "nvmlDeviceGetHandleByUUID", uuid)
    return handle if isinstance(handle, Absent) else Gpu(nvml, handle, uuid)


def read_gpu(gpu: Gpu) -> GpuFacts:
    """Everything at once."""
    return GpuFacts(
        uuid=gpu.uuid,
        name=_text(_get(gpu, "name", "Name")),
        driver=read_driver(gpu.nvml),
        temperature=read_temperature(gpu),
        power=read_power(gpu),
        performance_state=read_performance_state(gpu),
        clocks=read_clocks(gpu),
        ecc=read_ecc(gpu),
        remap=read_remap(gpu),
        memory=read_memory(gpu),
        processes=read_processes(gpu),
    )


def read_driver(nvml: Any) -> str | Absent:
    """The driver's own version, such as 580.65.06."""
    return _text(_ask(nvml, "driver version", "nvmlSystemGetDriverVersion"))


def read_temperature(gpu: Gpu) -> Reading:
    """Of the GPU's core, in degrees Celsius."""
    return _quantity(_get(gpu, "temperature", "Temperature", gpu.nvml.NVML_TEMPERATURE_GPU), Unit.CELSIUS)


def read_power(gpu: Gpu) -> Reading:
    """Of the whole board, in watts."""
    return _quantity(_get(gpu, "power", "PowerUsage"), Unit.WATT, 1e-3)


def read_performance_state(gpu: Gpu) -> Reading:
    """As a count: 0 is the fastest; 32 is NVML's word for unknown."""
    state = _get(gpu, "performance state", "PerformanceState")
    if state == gpu.nvml.NVML_PSTATE_UNKNOWN:
        return Absent(AbsenceKind.UNREADABLE, "performance state: the driver says it is unknown")
    return _quantity(state, Unit.COUNT)


def read_clocks(gpu: Gpu) -> ClockFacts:
    """Clocks now, the highest memory clock, and what holds them down."""
    nvml = gpu.nvml
    return ClockFacts(
        core=_quantity(_get(gpu, "core clock", "ClockInfo", nvml.NVML_CLOCK_SM), Unit.HERTZ, MEGAHERTZ),
        memory=_quantity(_get(gpu, "memory clock", "ClockInfo", nvml.NVML_CLOCK_MEM), Unit.HERTZ, MEGAHERTZ),
        memory_maximum=read_memory_clock_maximum(gpu),
        reasons=_reasons(gpu),
        held=read_held(gpu),
    )


def read_memory_clock_maximum(gpu: Gpu) -> Reading:
    """The highest memory clock the device offers, in hertz: half the data rate of a memory that transfers twice."""
    clock = _get(gpu, "maximum memory clock", "MaxClockInfo", gpu.nvml.NVML_CLOCK_MEM)
    if clock == 0:
        return Absent(AbsenceKind.UNREADABLE, "maximum memory clock: the driver says 0")
    return _quantity(clock, Unit.HERTZ, MEGAHERTZ)


def read_held(gpu: Gpu) -> tuple[tuple[str, Reading], ...]:
    """Seconds for which power or heat has held the clocks down; they only grow."""
    policies = (("power", gpu.nvml.NVML_PERF_POLICY_POWER), ("thermal", gpu.nvml.NVML_PERF_POLICY_THERMAL))
    held = []
    for name, policy in policies:
        status = _get(gpu, f"time held down by {name}", "ViolationStatus", policy)
        held.append((name, _quantity(_field(status, "violationTime"), Unit.SECOND, 1e-9)))
    return tuple(held)


def read_ecc(gpu: Gpu) -> EccFacts:
    """The mode, and the volatile counts: since the driver was loaded or the GPU was reset."""
    nvml = gpu.nvml
    mode = _get(gpu, "ECC mode", "EccMode")
    counts = []
    for word, kind in (
        ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    ):
        count = _get(gpu, f"{word} ECC errors", "TotalEccErrors", kind, nvml.NVML_VOLATILE_ECC)
        counts.append(_quantity(count, Unit.COUNT))
    current, pending = (mode, mode) if isinstance(mode, Absent) else (bool(mode[0]), bool(mode[1]))
    return EccFacts(current, pending, corrected=counts[0], uncorrected=counts[1])


def read_remap(gpu: Gpu) -> RemapFacts:
    """Rows that were replaced; Ampere and newer. Zeros do not mean that a board has ECC."""
    rows = _get(gpu, "remapped rows", "RemappedRows")
    values = [rows] * 4 if isinstance(rows, Absent) else list(rows)
    correctable, uncorrectable, pending, failed = (_quantity(value, Unit.COUNT) for value in values)
    return RemapFacts(correctable, uncorrectable, pending, failed)


def read_memory(gpu: Gpu) -> MemoryFacts:
    """Version 2 tells what is reserved from what is used; before it, both are "used" and reserved is absent."""
    info = _get(gpu, "memory", "MemoryInfo", gpu.nvml.nvmlMemory_v2)
    reserved = _field(info, "reserved")
    if isinstance(info, Absent) and info.kind is AbsenceKind.MISSING_SYMBOL:
        info = _get(gpu, "memory", "MemoryInfo")
    total, used, free = (_field(info, name) for name in ("total", "used", "free"))
    if total == 0:  # some systems with unified memory answer with zeros
        total = reserved = used = free = Absent(AbsenceKind.UNREADABLE, "memory: the driver says 0 bytes")
    return MemoryFacts(*(_quantity(value, Unit.BYTE) for value in (total, reserved, used, free)))


def read_processes(gpu: Gpu) -> tuple[ProcessFacts, ...] | Absent:
    """Processes that compute or draw on the GPU, each once. Absent when those that compute cannot be read."""
    found: dict[int, ProcessFacts] = {}
    for kind in ("Compute", "MPSCompute", "Graphics"):
        listed = _get(gpu, "processes", f"{kind}RunningProcesses_v3")
        if isinstance(listed, Absent) and listed.kind is AbsenceKind.MISSING_SYMBOL:
            listed = _get(gpu, "processes", f"{kind}RunningProcesses_v2")
        if isinstance(listed, Absent):
            if kind == "Compute":
                return listed
            continue
        for process in listed:
            facts = ProcessFacts(int(process.pid), _process_memory(process), draws_only=kind == "Graphics")
            found.setdefault(facts.pid, facts)
    return tuple(found.values())


def _process_memory(process: Any) -> Reading:
    if process.usedGpuMemory is None:
        return Absent(AbsenceKind.NOT_SUPPORTED, "memory of a process: this operating system does not tell it to NVML")
    return Quantity(int(process.usedGpuMemory), Unit.BYTE)


def _reasons(gpu: Gpu) -> tuple[str, ...] | Absent:
    """What holds the clocks down now. The call was renamed with driver 535; older ones have the older name."""
    mask = _get(gpu, "clock-event reasons", "CurrentClocksEventReasons")
    if isinstance(mask, Absent) and mask.kind is AbsenceKind.MISSING_SYMBOL:
        mask = _get(gpu, "clock-event reasons", "CurrentClocksThrottleReasons")
    if isinstance(mask, Absent):
        return mask
    known = [text for bit, text in CLOCK_REASONS.items() if mask & bit]
    rest = mask & ~sum(CLOCK_REASONS)
    return (*known, f"reason {rest:#x}") if rest else tuple(known)


def _get(gpu: Gpu, what: str, call: str, *arguments: Any) -> Any | Absent:
    return _ask(gpu.nvml, what, f"nvmlDeviceGet{call}", gpu.handle, *arguments)


def _ask(nvml: Any, what: str, call: str, *arguments: Any) -> Any | Absent:
    """The answer of one call, or absent with ``what`` and why."""
    function = getattr(nvml, call, None)
    if function is None:
        return Absent(AbsenceKind.MISSING_SYMBOL, f"{what}: the installed nvidia-ml-py is too old to ask for it")
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        code = getattr(error, "value", None)
        kind, why = _FAILURES.get(code or 0, (AbsenceKind.UNREADABLE, f"NVML failed with {error} (code {code})"))
        return Absent(kind, f"{what}: {why}")


def _quantity(value: Any | Absent, unit: Unit, factor: float | None = None) -> Reading:
    if isinstance(value, Absent):
        return value
    return Quantity(int(value) if factor is None else value * factor, unit)


def _text(value: Any | Absent) -> str | Absent:
    if isinstance(value, Absent):
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _field(value: Any | Absent, name: str) -> Any | Absent:
    return value if isinstance(value, Absent) else getattr(value, name)
