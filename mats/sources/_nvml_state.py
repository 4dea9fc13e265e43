"""What a GPU does now, through NVML: heat, power, clocks and what holds them down, how busy it is, its processes."""

from __future__ import annotations

from typing import Any

from mats.facts import ClockFacts, HeatFacts, PowerFacts, ProcessFacts, Text
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._nvml_answers import (
    CLOCK_REASONS,
    MEGAHERTZ,
    Asked,
    Fields,
    count,
    lacks,
    part,
    quantity,
    signed,
    text,
)

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_UNKNOWN_STATE = 32
_THRESHOLDS = (
    ("shutdown temperature", 0),
    ("slowdown temperature", 1),
    ("highest core temperature", 3),
    ("highest memory temperature", 2),
    ("target temperature", 5),
)
_MEMORY_TEMPERATURE = 82
_MARGINS = (
    ("shutdown margin", 193),
    ("slowdown margin", 194),
    ("core margin", 196),
    ("memory margin", 195),
)
_AVERAGE_POWER, _INSTANT_POWER = 185, 186
_MODULE = 1
"""Scope of a power field: not the GPU's board but the module that it is on."""
_HELD = (
    ("software power cap", 74),
    ("sync boost", 76),
    ("software thermal slowdown", 269),
    ("hardware thermal slowdown", 270),
    ("hardware power brake", 271),
)
"""Causes that hold clocks down, and the fields that count the nanoseconds."""
_POLICIES = (("power", 0), ("thermal", 1))
_NO_INSTANCE = 0xFFFFFFFF


def read_temperature(gpu: Asked) -> Reading:
    """Of the GPU's core, in degrees Celsius."""
    return quantity(gpu.ask("temperature", "Temperature", 0), Unit.CELSIUS)


def read_heat(gpu: Asked) -> HeatFacts:
    """Temperature of the memory, limits and margins; a margin may be negative."""
    fields = Fields(gpu, "temperatures", _MEMORY_TEMPERATURE, *(field for _, field in _MARGINS))

    def margin(value: Any | Absent) -> Reading:
        return value if isinstance(value, Absent) else Quantity(signed(int(value)), Unit.CELSIUS)

    limits = [quantity(gpu.ask(what, "TemperatureThreshold", number), Unit.CELSIUS) for what, number in _THRESHOLDS]
    memory = fields.get("memory temperature", _MEMORY_TEMPERATURE)
    if memory == 0:  # boards without a sensor there
        memory = Absent(AbsenceKind.UNREADABLE, "memory temperature: the driver says 0")
    return HeatFacts(
        quantity(memory, Unit.CELSIUS),
        margin(gpu.ask("temperature margin", "MarginTemperature")),
        *limits,
        *(margin(fields.get(what, field)) for what, field in _MARGINS),
    )


def read_power(gpu: Asked) -> Reading:
    """Of the whole board, in watts."""
    return quantity(gpu.ask("power", "PowerUsage"), Unit.WATT, 1e-3)


def read_power_facts(gpu: Asked) -> tuple[Reading, PowerFacts]:
    """The board's power now and its limits. Where the call fails the field of the same meaning is asked."""
    fields = Fields(gpu, "power", _AVERAGE_POWER, _INSTANT_POWER, (_INSTANT_POWER, _MODULE))

    def field(what: str, number: int, scope: int = 0) -> Reading:
        return quantity(fields.get(what, number, scope), Unit.WATT, 1e-3)

    now = read_power(gpu)
    instant = field("power", _INSTANT_POWER)
    if isinstance(now, Absent) and isinstance(instant, Quantity):
        now = instant
    constraints = gpu.ask("bounds of the power limit", "PowerManagementLimitConstraints")
    lowest, highest = (quantity(part(constraints, place), Unit.WATT, 1e-3) for place in (0, 1))
    return now, PowerFacts(
        average=field("average power", _AVERAGE_POWER),
        limit=quantity(gpu.ask("power limit", "EnforcedPowerLimit"), Unit.WATT, 1e-3),
        default_limit=quantity(gpu.ask("default power limit", "PowerManagementDefaultLimit"), Unit.WATT, 1e-3),
        minimum_limit=lowest,
        maximum_limit=highest,
        module=field("power of the module", _INSTANT_POWER, _MODULE),
    )


def read_power_limit(gpu: Asked) -> PowerFacts:
    """The limit in force alone."""
    return PowerFacts(limit=quantity(gpu.ask("power limit", "EnforcedPowerLimit"), Unit.WATT, 1e-3))


def read_performance_state(gpu: Asked) -> Reading:
    """As a count: 0 is the fastest; 32 is NVML's word for unknown."""
    state = gpu.ask("performance state", "PerformanceState")
    if state == _UNKNOWN_STATE:
        return Absent(AbsenceKind.UNREADABLE, "performance state: the driver says it is unknown")
    return count(state)


def read_busy(gpu: Asked) -> Reading:
    """Share of the last moments in which any kernel ran."""
    return quantity(part(gpu.ask("utilisation", "UtilizationRates"), "gpu"), Unit.RATIO, 0.01)


def read_clocks(gpu: Asked) -> ClockFacts:
    """Clocks now, the highest memory clock, and what holds them down: what is looked at again and again."""
    return ClockFacts(
        core=_clock(gpu, "core clock", "ClockInfo", _SM_CLOCK),
        memory=_clock(gpu, "memory clock", "ClockInfo", _MEMORY_CLOCK),
        memory_maximum=read_memory_clock_maximum(gpu),
        reasons=read_reasons(gpu),
        held=read_held(gpu),
    )


def read_all_clocks(gpu: Asked) -> ClockFacts:
    """As :func:`read_clocks`, with the highest core clock and the time held down by each cause."""
    return ClockFacts(
        core=_clock(gpu, "core clock", "ClockInfo", _SM_CLOCK),
        memory=_clock(gpu, "memory clock", "ClockInfo", _MEMORY_CLOCK),
        memory_maximum=read_memory_clock_maximum(gpu),
        reasons=read_reasons(gpu),
        held=read_all_held(gpu),
        core_maximum=_clock(gpu, "maximum core clock", "MaxClockInfo", _SM_CLOCK),
    )


def read_sampled_clocks(gpu: Asked) -> ClockFacts:
    """Clocks now and what holds them down."""
    return ClockFacts(
        core=_clock(gpu, "core clock", "ClockInfo", _SM_CLOCK),
        memory=_clock(gpu, "memory clock", "ClockInfo", _MEMORY_CLOCK),
        reasons=read_reasons(gpu),
    )


def read_memory_clock_maximum(gpu: Asked) -> Reading:
    """The highest memory clock the device offers, in hertz: half the data rate of a memory that transfers twice."""
    return _clock(gpu, "maximum memory clock", "MaxClockInfo", _MEMORY_CLOCK)


def _clock(gpu: Asked, what: str, call: str, kind: int) -> Reading:
    clock = gpu.ask(what, call, kind)
    if clock == 0 and call == "MaxClockInfo":
        return Absent(AbsenceKind.UNREADABLE, f"{what}: the driver says 0")
    return quantity(clock, Unit.HERTZ, MEGAHERTZ)


def read_held(gpu: Asked) -> tuple[tuple[str, Reading], ...]:
    """Seconds for which power or heat has held the clocks down; they only grow."""
    held = []
    for name, policy in _POLICIES:
        status = gpu.ask(f"time held down by {name}", "ViolationStatus", policy)
        held.append((name, quantity(part(status, "violationTime"), Unit.SECOND, 1e-9)))
    return tuple(held)


def read_all_held(gpu: Asked) -> tuple[tuple[str, Reading], ...]:
    """By every cause that the driver counts; of older drivers, by power and by heat altogether."""
    fields = Fields(gpu, "time held down", *(field for _, field in _HELD))
    held = tuple(
        (name, quantity(fields.get(f"time held down by {name}", field), Unit.SECOND, 1e-9)) for name, field in _HELD
    )
    known = dict(held)
    if isinstance(known["hardware thermal slowdown"], Absent) or isinstance(known["software power cap"], Absent):
        held += read_held(gpu)
    return held


def read_reasons(gpu: Asked) -> tuple[str, ...] | Absent:
    """What holds the clocks down now. The call was renamed with driver 535; older ones have the older name."""
    mask = gpu.ask("clock-event reasons", "CurrentClocksEventReasons")
    if lacks(mask):
        mask = gpu.ask("clock-event reasons", "CurrentClocksThrottleReasons")
    if isinstance(mask, Absent):
        return mask
    known = [word for bit, word in CLOCK_REASONS.items() if mask & bit]
    rest = mask & ~sum(CLOCK_REASONS)
    return (*known, f"reason {rest:#x}") if rest else tuple(known)


def read_processes(gpu: Asked, *, named: bool = False) -> tuple[ProcessFacts, ...] | Absent:
    """Processes that compute or draw on the GPU, each once. Absent when those that compute cannot be read."""
    found: dict[int, ProcessFacts] = {}
    for kind in ("Compute", "MPSCompute", "Graphics"):
        listed = gpu.ask("processes", f"{kind}RunningProcesses_v3")
        if lacks(listed):
            listed = gpu.ask("processes", f"{kind}RunningProcesses_v2")
        if isinstance(listed, Absent):
            if kind == "Compute":
                return listed
            continue
        for process in listed:
            pid = int(process["pid"])
            if pid in found:
                continue
            facts = ProcessFacts(pid, _process_memory(process), draws_only=kind == "Graphics")
            if named:
                facts = ProcessFacts(pid, facts.memory, facts.draws_only, _name(gpu, pid), _instance(process))
            found[pid] = facts
    return tuple(found.values())


def _name(gpu: Asked, pid: int) -> Text:
    name = gpu.ask("name of a process", "nvmlSystemGetProcessName", pid)
    if isinstance(name, Absent) and name.kind is AbsenceKind.NOT_FOUND:
        return Absent(AbsenceKind.NOT_FOUND, "name of a process: it has ended, or is not seen from here")
    return text(name)


def _instance(process: Any) -> Reading:
    number = process.get("gpuInstanceId", _NO_INSTANCE)
    if number == _NO_INSTANCE:
        return Absent(AbsenceKind.NOT_SUPPORTED, "MIG instance of a process: it has the whole GPU")
    return count(number)


def _process_memory(process: Any) -> Reading:
    if process["usedGpuMemory"] is None:
        return Absent(AbsenceKind.NOT_SUPPORTED, "memory of a process: this operating system does not tell it to NVML")
    return quantity(process["usedGpuMemory"], Unit.BYTE)
