"""Checks of clocks, heat, power, processes and the size of the memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mats.facts import HeatFacts, MemoryFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_card import NONE, ONE, Card, CardCheck, Seen, difference, value_of
from ._health_sizes import NOMINAL, SOURCE
from ._health_text import listed, size

HARDWARE = ("hardware slowdown", "hardware thermal slowdown", "hardware power brake")
HEAT = "software thermal slowdown"
_GIBIBYTE = 1 << 30
_OTHER_SIZES = (" LAPTOP ", " MOBILE ", " MAX-Q ")
"""Variants of a model that have less than it."""
_NAMED_SIZE = re.compile(r"(?<![0-9])([0-9]{1,3}) ?GB\b", re.IGNORECASE)


def clock_events(card: Card) -> Iterator[Seen]:
    """What holds the clocks down now; idle, application clocks and the power cap are normal."""
    reasons = card.gpu.clocks.reasons
    if isinstance(reasons, Absent):
        yield from card.check("clocks.hardware", reasons)
        yield from card.check("clocks.thermal", reasons)
        return
    hard = [reason for reason in reasons if reason in HARDWARE]
    soft = [reason for reason in reasons if reason == HEAT]
    if card.laptop:  # a laptop brakes on battery or on a weak adapter, by design
        soft, hard = [*soft, *hard], []
    heat = card.gpu.temperature
    now = [f"core temperature {heat.value:g} degrees"] if isinstance(heat, Quantity) else []
    also = [reason for reason in reasons if reason not in (*hard, *soft)]
    evidence = [*now, *([f"also: {listed(also)}"] if also else [])]
    yield from card.check(
        "clocks.hardware",
        Quantity(len(hard), Unit.COUNT),
        f"the clocks are held down by {listed(hard)}",
        evidence=evidence,
        advice=_advice(hard),
    )
    yield from card.check(
        "clocks.thermal",
        Quantity(len(soft), Unit.COUNT),
        f"the clocks are held down by {listed(soft)}",
        evidence=[*evidence, *(["a laptop does so on battery or on a weak adapter"] if card.laptop else [])],
    )


def _advice(reasons: list[str]) -> str:
    if "hardware power brake" in reasons:
        return "The machine asks for less power: look at power supplies, their cables and the management controller."
    if "hardware thermal slowdown" in reasons:
        return "Look at fans, airflow and the room; stop the load until it has cooled."
    return ""


def time_held(card: Card) -> Iterator[Seen]:
    """Seconds for which the hardware has held the clocks down since the driver was loaded."""
    told = [(name, each) for name, each in card.gpu.clocks.held if name in (*HARDWARE, "thermal")]
    known = [(name, each) for name, each in told if isinstance(each, Quantity)]
    reading: Reading
    if known:
        reading = Quantity(float(max(each.value for _, each in known)), Unit.SECOND)
    else:
        missing = Absent(AbsenceKind.NOT_FOUND, "time held down by the hardware: the driver does not tell it")
        reading = next((each for _, each in told if isinstance(each, Absent)), missing)
    yield from card.check(
        "clocks.held",
        reading,
        f"the hardware has held the clocks down for {value_of(reading) or 0:.0f} s since the driver was loaded",
        evidence=[f"{name}: {each.value:.3g} s" for name, each in known if each.value],
    )


def heat(card: Card) -> Iterator[Seen]:
    """Degrees left to the limits that this card's own driver tells."""
    facts, core = card.gpu.heat, card.gpu.temperature
    now = f"{core.value:g} degrees" if isinstance(core, Quantity) else "a temperature that is not told"
    slowdown = _to_slowdown(facts, core)
    yield from card.check(
        "heat.to_slowdown",
        slowdown,
        f"the core is at {now}, {abs(value_of(slowdown) or 0):g} degrees above where it must slow down",
    )
    maximum = difference(facts.core_maximum, core)
    yield from card.check(
        "heat.to_maximum",
        maximum,
        f"the core is at {now}, {abs(value_of(maximum) or 0):g} degrees above its highest temperature for work",
    )
    memory = difference(facts.memory_maximum, facts.memory)
    hot = f"{facts.memory.value:g} degrees" if isinstance(facts.memory, Quantity) else ""
    yield from card.check(
        "heat.memory_left",
        memory,
        f"the memory is at {hot}, {abs(value_of(memory) or 0):g} degrees above its highest temperature for work",
    )


def _to_slowdown(facts: HeatFacts, core: Reading) -> Reading:
    """By the fixed limit, else by the margin: the driver counts down and slows the core at the margin it names."""
    fixed = difference(facts.slowdown, core)
    if isinstance(fixed, Quantity):
        return fixed
    return difference(facts.margin, facts.slowdown_margin)


def power(card: Card) -> Iterator[Seen]:
    """Whether the power can be read, and whether its limit was lowered."""
    drawn, limits = card.gpu.power, card.gpu.power_limits
    unreadable: Reading = NONE
    if card.gpu.answers is False:
        unreadable = Absent(AbsenceKind.DEVICE_LOST, "power: the GPU does not answer")
    elif isinstance(drawn, Absent):
        unreadable = ONE if drawn.kind is AbsenceKind.UNREADABLE else drawn
    reason = drawn.reason if isinstance(drawn, Absent) else ""
    limit = f", its limit is {limits.limit.value:g} W" if isinstance(limits.limit, Quantity) else ""
    yield from card.check("power.unreadable", unreadable, f"{reason}{limit}")
    below = difference(limits.default_limit, limits.limit)
    if card.laptop:
        below = Absent(AbsenceKind.NOT_SUPPORTED, "power limit against its default: a laptop moves it as it likes")
    lowered: Reading = below if isinstance(below, Absent) else ONE if below.value > 0.5 else NONE
    yield from card.check(
        "power.lowered",
        lowered,
        f"the power limit is {value_of(limits.limit) or 0:g} W of {value_of(limits.default_limit) or 0:g} W",
    )


def memory_size(card: Card) -> Iterator[Seen]:
    """The capacity against what the model has: by its name, else by a table with its source."""
    memory = card.gpu.memory
    nominal = nominal_size(card.name)
    reading: Reading = memory.total
    if card.unified:
        reading = Absent(AbsenceKind.NOT_SUPPORTED, "size of the memory: the GPU shares the processor's memory")
    elif card.virtual:
        reading = Absent(AbsenceKind.NOT_SUPPORTED, "size of the memory: a virtual GPU has a share of its card's")
    elif isinstance(memory.total, Quantity):
        missing = Absent(AbsenceKind.NOT_FOUND, f"nominal size of the memory: {card.name or 'the model'} is not known")
        reading = Quantity(memory.total.value / nominal, Unit.RATIO) if nominal else missing
    yield from card.check(
        "memory.share",
        reading,
        f"{size(memory.total)} of the {size(Quantity(nominal, Unit.BYTE))} that the model has",
        evidence=_differences(card, memory, nominal),
        method=f"total of the driver / nominal size ({'by its name' if _by_name(card.name) else SOURCE})",
    )


def nominal_size(name: str) -> int:
    """Bytes that a model has, 0 where it is not known or the model comes in several sizes."""
    named = _by_name(name)
    if named:
        return named
    words = f" {name.upper()} "
    fitting = [(len(model), gibibytes) for model, gibibytes in NOMINAL if f" {model} " in words]
    if not fitting or any(word in words for word in _OTHER_SIZES):
        return 0
    return max(fitting)[1] * _GIBIBYTE


def _by_name(name: str) -> int:
    """Of Grace-type modules the name tells the processor's memory."""
    found = _NAMED_SIZE.search(name)
    return int(found[1]) * _GIBIBYTE if found and not re.search(r"\bG[HB][0-9]{3}", name) else 0


def _differences(card: Card, memory: MemoryFacts, nominal: int) -> list[str]:
    said = []
    missing = nominal - (value_of(memory.total) or 0)
    if missing > 0:
        said.append(f"{size(Quantity(missing, Unit.BYTE))} are missing")
    if card.gpu.ecc.enabled is True:
        said.append("ECC is on: on GDDR cards it takes a sixteenth of the memory")
    if isinstance(memory.reserved, Quantity):
        said.append(f"driver and firmware reserve {size(memory.reserved)}")
    if card.sliced:
        said.append("MIG is on")
    return said


def leftover(card: Card) -> Iterator[Seen]:
    """Memory that is used while no process is seen: of one that died, or that is hidden from here."""
    memory, processes, host = card.gpu.memory, card.gpu.processes, card.machine.host
    reading: Reading = memory.used
    hidden = isinstance(host.container, str) and host.container != "none"
    if isinstance(processes, Absent):
        reading = processes
    elif card.sliced or card.unified or hidden or host.wsl is True:
        why = "processes of others are not seen from here"
        reading = Absent(AbsenceKind.NOT_SUPPORTED, f"memory without a holder: {why}")
    elif isinstance(memory.reserved, Absent) and isinstance(memory.used, Quantity):
        why = "the driver counts what it reserves as used, so that an idle GPU is not at 0"
        reading = Absent(memory.reserved.kind, f"memory without a holder: {why}")
    elif processes and isinstance(memory.used, Quantity):
        reading = Quantity(0, Unit.BYTE)
    yield from card.check(
        "memory.leftover",
        reading,
        f"{size(memory.used)} are used and no process is listed",
        evidence=[f"beside it driver and firmware reserve {size(memory.reserved)}"],
    )


def ghosts(card: Card) -> Iterator[Seen]:
    """Processes that the driver lists and the system does not know: they have ended and still hold memory."""
    processes, host = card.gpu.processes, card.machine.host
    hidden = isinstance(host.container, str) and host.container != "none"
    reading: Reading
    held: list[str] = []
    if isinstance(processes, Absent):
        reading = processes
    elif hidden or host.wsl is True:
        why = "processes of others are not seen from here"
        reading = Absent(AbsenceKind.NOT_SUPPORTED, f"processes that have ended: {why}")
    else:
        gone = [each for each in processes if isinstance(each.name, Absent) and "has ended" in each.name.reason]
        held = [f"process {each.pid}: {size(each.memory)}" for each in gone]
        reading = Quantity(len(gone), Unit.COUNT)
    yield from card.check(
        "memory.ghosts", reading, "memory is held by a process that has ended or is not seen", evidence=held
    )


def inforom(card: Card) -> Iterator[Seen]:
    """Whether the card's own record is intact."""
    damaged = card.gpu.inforom.corrupted
    reading: Reading = damaged if isinstance(damaged, Absent) else ONE if damaged else NONE
    yield from card.check(
        "inforom.corrupted",
        reading,
        "the driver says that its InfoROM is corrupted",
        evidence=["only this GPU is named; the others of the machine are not concerned"],
    )


CHECKS: tuple[CardCheck, ...] = (clock_events, time_held, heat, power, memory_size, leftover, ghosts, inforom)
