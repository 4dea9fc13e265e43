"""Checks of the driver and the machine: versions, calls that hang, how many GPUs there are, and how they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mats.facts import NVIDIA, CallFacts, MachineFacts, PciDevice, endpoints
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_bus import dead_device
from ._health_card import NONE, ONE, Card, MachineCheck, Seen, as_count, check, value_of
from ._health_text import listed, number, plural, size

_SHORTEST = 1.0
"""Seconds after which a call that was given up is the driver's fault and not that of too little time."""
_RESET_FIRST = (
    "Save nvidia-bug-report, end what uses the GPU and reset it (nvidia-smi --gpu-reset); restart if that fails."
)
_REASONS = (
    ("not loaded", "Load the driver (modprobe nvidia) or install it; dmesg tells why it did not start."),
    ("Unknown Error", "A container that lost its GPUs is started again: they are in order. Elsewhere see dmesg."),
    ("nvidia-ml-py", "Remove the packages pynvml and nvidia-ml-py3 and install nvidia-ml-py."),
    ("permission", "Run it as a user who may open /dev/nvidia*."),
    ("device handle", "Other GPUs may be fine: nvidia-smi lists none when it cannot open one; see dmesg for this one."),
)
"""By a word of what NVML said, what to do."""
_ELSEWHERE = ("vfio-pci", "pci-stub", "nouveau")
"""Drivers that hold a card on purpose, or by a mistake that is a check of its own."""


def answers(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Whether each GPU answers; one that sleeps is not woken, and is neither lost nor failed."""
    if not cards:
        yield from check("gpu.answers", _no_gpu(machine))
    for card in cards:
        flag = card.gpu.answers
        reading: Reading = as_count(flag)
        evidence = ["the PCIe registers read as all ones (width 63, rev ff)"] if dead_device(card) else []
        if dead_device(card):
            reading = NONE
        elif card.gpu.asleep is True:
            reading = Absent(
                AbsenceKind.NOT_TESTED,
                "state of the GPU: it sleeps to save power, which is neither lost nor broken; a query would wake it",
            )
        elif isinstance(flag, Absent) and _has_told(card):
            reading = ONE
        if flag is False:
            evidence.append(_reason_of(card))
        advice = (
            _RESET_FIRST if any("needs a reset" in line or "GPU requires reset" in line for line in evidence) else ""
        )
        yield from card.check("gpu.answers", reading, "it does not answer", evidence=evidence, advice=advice)


def _no_gpu(machine: MachineFacts) -> Absent:
    if isinstance(machine.gpus, Absent):
        return machine.gpus
    return Absent(AbsenceKind.NOT_FOUND, "GPUs: none is listed in what was read")


def _has_told(card: Card) -> bool:
    """It has told something that only a GPU that answers can tell."""
    gpu = card.gpu
    slices = () if isinstance(gpu.mig.instances, Absent) else gpu.mig.instances
    live = (
        *(gpu.temperature, gpu.ecc.uncorrected, gpu.power, gpu.memory.used, gpu.remap.pending, gpu.busy),
        *(each.memory.used for each in slices),
    )
    return any(isinstance(each, Quantity) for each in live) or any(
        not isinstance(each, Absent) for each in (gpu.retired.pending, gpu.recovery.action, gpu.nvlink.active)
    )


def _reason_of(card: Card) -> str:
    for reading in (card.gpu.temperature, card.gpu.ecc.uncorrected, card.gpu.power, card.gpu.memory.total):
        if isinstance(reading, Absent) and reading.kind is AbsenceKind.DEVICE_LOST:
            return reading.reason
    reading = card.gpu.temperature
    return reading.reason if isinstance(reading, Absent) else ""


def driver(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Module against libraries, and what NVML said when it could not start."""
    module, library, failure = machine.kernel_module, machine.library, machine.nvml_failure
    said = failure if isinstance(failure, str) else ""
    mismatch: Reading
    if any(word in said.lower() for word in ("mismatch", "different versions")):
        mismatch = ONE
    elif isinstance(module, str) and isinstance(library, str):
        mismatch = NONE if _same_version(module, library) else ONE
    else:
        mismatch = module if isinstance(module, Absent) else library if isinstance(library, Absent) else NONE
    versions = [
        f"{what}: {version}"
        for what, version in (("kernel module", module), ("libraries", library))
        if isinstance(version, str)
    ]
    yield from check(
        "driver.mismatch",
        mismatch,
        "the kernel module of the driver is not of the libraries' version: the state of the GPUs is unknown",
        evidence=[*versions, *([said] if said else [])],
    )
    broken = bool(said) and mismatch is not ONE
    failed: Reading = ONE if broken else failure if isinstance(failure, Absent) and not cards else NONE
    advice = next((text for word, text in _REASONS if word in said), "")
    yield from check("driver.failure", failed, f"the driver could not be asked: {said}", advice=advice)


def _same_version(first: str, second: str) -> bool:
    """Two- and three-part forms of one version are the same as far as both go."""
    mine, theirs = first.split("."), second.split(".")
    shared = min(len(mine), len(theirs))
    return mine[:shared] == theirs[:shared]


def calls(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Questions to the driver that took long, and those that were given up."""
    asked = not isinstance(machine.gpus, Absent) or bool(machine.slow_calls)
    if not asked:
        missing = Absent(AbsenceKind.NOT_TESTED, "answers of the driver: no live driver was asked")
        for name in ("driver.slow_call", "driver.hanging", "driver.unanswered"):
            yield from check(name, missing)
        return
    slow = [call for call in machine.slow_calls if call.answered]
    hung = [call for call in machine.slow_calls if not call.answered and call.seconds >= _SHORTEST]
    short = [call for call in machine.slow_calls if not call.answered and call not in hung]
    for name, found in (("driver.slow_call", slow), ("driver.hanging", hung), ("driver.unanswered", short)):
        groups = dict.fromkeys(call.gpu for call in found)
        for gpu in groups:
            yield from _calls_of(name, gpu, [call for call in found if call.gpu == gpu], cards)
        if not groups:
            yield from check(name, Quantity(0.0, Unit.SECOND) if name == "driver.slow_call" else NONE)


def _calls_of(name: str, gpu: str, found: list[CallFacts], cards: tuple[Card, ...]) -> Iterator[Seen]:
    card = next((each for each in cards if gpu and gpu in (each.label, each.gpu.uuid, each.gpu.pci)), None)
    evidence = [f"{call.call}: {call.seconds:.2f} s" + ("" if call.answered else ", given up") for call in found]
    longest = max(call.seconds for call in found)
    slow = name == "driver.slow_call"
    reading = Quantity(float(longest), Unit.SECOND) if slow else Quantity(len(found), Unit.COUNT)
    says = f"a question took {longest:.1f} s" if slow else f"the driver did not answer within {longest:.1f} s"
    if card is not None:
        yield from card.check(name, reading, says, evidence=evidence)
    else:
        yield from check(name, reading, says, evidence=evidence, labels=(("gpu", gpu),) if gpu else ())


def firmware(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """The firmware of the GPU's own processor (GSP) against the driver."""
    for card in cards:
        gsp = card.gpu.gsp
        version = card.gpu.driver if isinstance(card.gpu.driver, str) else machine.driver
        reading: Reading
        if isinstance(gsp, Absent) or isinstance(version, Absent):
            reading = gsp if isinstance(gsp, Absent) else version if isinstance(version, Absent) else NONE
        else:
            reading = NONE if _same_version(gsp, version) else ONE
        yield from card.check("driver.gsp", reading, f"its firmware is of {gsp}, the driver is {version}")


def host(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Modules, device files and persistence."""
    modules = machine.host.modules
    nouveau: Reading = modules if isinstance(modules, Absent) else ONE if "nouveau" in modules else NONE
    held = [each.address for each in _nvidia(machine) if each.driver == "nouveau"]
    yield from check(
        "host.nouveau",
        nouveau,
        "the nouveau driver is loaded",
        evidence=[f"it holds {listed(held)}"] if held else [],
    )
    forbidden = machine.host.unreadable_nodes
    nodes = machine.host.nodes
    yield from check(
        "count.forbidden",
        nodes if isinstance(nodes, Absent) else Quantity(len(forbidden), Unit.COUNT),
        f"this user may not open {listed(f'/dev/{name}' for name in forbidden)}",
    )
    keeper = machine.host.persistence_daemon == "active"
    for card in cards:
        mode, listed_processes = card.gpu.persistence, card.gpu.processes
        desktop = isinstance(listed_processes, tuple) and any(process.draws_only for process in listed_processes)
        fine = mode is True or keeper or card.laptop or desktop
        off: Reading = mode if isinstance(mode, Absent) else NONE if fine else ONE
        yield from card.check("host.persistence", off, "persistence mode is off")


def count(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """GPUs by the driver, on the bus and in /dev; a container sees a part of them by design."""
    seen = 0 if isinstance(machine.gpus, Absent) else len(machine.gpus)
    mine = [each for each in _nvidia(machine) if each.driver not in _ELSEWHERE]
    inside = isinstance(machine.host.container, str) and machine.host.container != "none"
    missing: Reading
    lost: list[str] = []
    if isinstance(machine.gpus, Absent):
        missing = machine.gpus
    elif inside:
        missing = Absent(AbsenceKind.NOT_SUPPORTED, "GPUs on the bus: a container is given a part of them by design")
    elif isinstance(machine.devices, Absent):
        missing = machine.devices
    else:
        known = {card.gpu.pci for card in cards}
        lost = [each.address for each in mine if each.address not in known]
        nameless = any(isinstance(address, Absent) for address in known)  # then only their number can be compared
        counted = max(seen, int(value_of(machine.attached) or 0))  # more than are told of where some were chosen
        if nameless or counted > seen:
            lost = lost[: max(0, len(mine) - counted)]
        missing = Quantity(len(lost), Unit.COUNT) if seen else NONE
    yield from check(
        "count.missing",
        missing,
        f"{plural(len(lost), 'GPU')} on the bus that the driver does not list: {listed(lost)}",
        evidence=[f"told of by the driver: {seen}, on the bus: {len(mine)}"],
    )
    yield from check("count.driver", Quantity(seen, Unit.COUNT) if seen else _no_gpu(machine))
    nodes = machine.host.nodes
    short: Reading = nodes if isinstance(nodes, Absent) else NONE
    if not isinstance(nodes, Absent) and not inside and machine.host.wsl is not True:
        files = [name for name in nodes if name.removeprefix("nvidia").isdigit()]
        short = Quantity(max(0, seen - len(files)), Unit.COUNT)
    yield from check(
        "count.nodes", short, f"the driver lists {plural(seen, 'GPU')}, {number(short)} of them without a device file"
    )


def _nvidia(machine: MachineFacts) -> tuple[PciDevice, ...]:
    devices = machine.devices
    return () if isinstance(devices, Absent) else tuple(e for e in endpoints(devices) if e.vendor == NVIDIA)


def others(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """What is alike on GPUs of one model, and what is not."""
    models: dict[str, list[Card]] = {}
    for card in cards:
        models.setdefault(card.name, []).append(card)
    named = [name for name in models if name]
    yield from _differing("compare.models", cards, lambda card: card.name or None, "models")
    alike = max(models.values(), key=len) if named else []
    same = [group for name, group in models.items() if name and len(group) > 1]
    worst = max(same, key=lambda group: len({card.gpu.vbios for card in group}), default=alike)
    yield from _differing("compare.vbios", worst, lambda card: _text(card.gpu.vbios), "VBIOS versions")
    worst = max(same, key=lambda group: len({_megabytes(card) for card in group}), default=alike)
    yield from _differing("compare.memory", worst, _megabytes, "sizes of memory")
    yield from _differing("compare.driver", cards, lambda card: _text(card.gpu.driver), "drivers")
    worst = max(same, key=lambda group: len({_modes(card) for card in group}), default=alike)
    yield from _differing("compare.modes", worst, _modes, "settings")


def _differing(
    name: str, cards: list[Card] | tuple[Card, ...], read: Callable[[Card], str | None], what: str
) -> Iterator[Seen]:
    groups: dict[str, list[str]] = {}
    for card in cards:
        said = read(card)
        if said is not None:
            groups.setdefault(said, []).append(card.label)
    if sum(map(len, groups.values())) < 2:
        missing = Absent(AbsenceKind.NOT_SUPPORTED, f"{what} compared: fewer than two GPUs of one model tell theirs")
        yield from check(name, missing)
        return
    evidence = [f"{said}: GPU {listed(labels, 16)}" for said, labels in groups.items()]
    yield from check(name, Quantity(len(groups), Unit.COUNT), f"{len(groups)} different {what}", evidence=evidence)


def _text(said: str | Absent) -> str | None:
    return said if isinstance(said, str) else None


def _megabytes(card: Card) -> str | None:
    memory = card.gpu.memory.total
    return None if isinstance(memory, Absent) else size(memory)


def _modes(card: Card) -> str | None:
    """The settings that are told, as one text to compare."""
    gpu, words = card.gpu, {True: "on", False: "off"}
    told = [
        f"{name} {words[flag]}"
        for name, flag in (("ECC", gpu.ecc.enabled), ("MIG", gpu.mig.enabled), ("persistence", gpu.persistence))
        if not isinstance(flag, Absent)
    ]
    limit = gpu.power_limits.limit
    told += [f"power limit {limit.value:g} W"] if isinstance(limit, Quantity) else []
    most = gpu.pcie.generation_maximum, gpu.pcie.width_maximum
    told += [f"PCIe Gen{number(most[0])} x{number(most[1])}"] if all(isinstance(e, Quantity) for e in most) else []
    return ", ".join(told) or None


CHECKS: tuple[MachineCheck, ...] = (answers, driver, calls, firmware, host, count, others)
