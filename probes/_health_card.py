"""One GPU as the checks see it, and the one way in which a check tells what it saw.

A check is a generator: it gives its measurement, absent with a reason where it could not look, and where a bound is
broken the diagnosis that names the GPU and the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mats.facts import NVIDIA, Flag, GpuFacts, MachineFacts, PciDevice, endpoints
from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Quantity, Reading, Unit

from ._health_limits import breaks

Seen = Measurement | Diagnosis
Labels = tuple[tuple[str, str], ...]
PREFIX = "health."
NONE, ONE = Quantity(0, Unit.COUNT), Quantity(1, Unit.COUNT)
_BARE = ("none", "", "n/a", "host vgpu", "host vsga", "bare metal")
PORTS = ("switch", "pcie")
"""Kinds of incidents whose address may be that of a switch or a port."""


def check(
    name: str,
    reading: Reading,
    says: str = "",
    *,
    evidence: Iterable[str] = (),
    advice: str = "",
    labels: Labels = (),
    method: str = "",
    statistic: str = "",
    fault: str = "",
) -> Iterator[Seen]:
    """The measurement ``health.NAME``, and its diagnosis where the reading breaks a bound.

    ``says``: one clause for a person. Without ``advice`` that of the limit stands, without ``fault`` the name.
    """
    whole = PREFIX + name
    yield Measurement(whole, reading, labels, statistic, method)
    if says and breaks(whole, reading):
        yield Diagnosis(fault or name.replace(".", "_"), says, whole, tuple(evidence), advice, labels)


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU within its machine. ``label`` tells it apart in measurements: its index, else its address or UUID."""

    gpu: GpuFacts
    machine: MachineFacts
    label: str
    device: PciDevice | Absent

    @property
    def labels(self) -> Labels:
        return (("gpu", self.label),)

    @property
    def title(self) -> str:
        """``GPU 3 (0000:9b:00.0, NVIDIA H100)``, as far as it is known."""
        known = [text for text in (self.gpu.pci, self.name) if isinstance(text, str) and text not in ("", self.label)]
        return f"GPU {self.label}" + (f" ({', '.join(known)})" if known else "")

    @property
    def name(self) -> str:
        """Its model, or empty."""
        if isinstance(self.gpu.name, str):
            return self.gpu.name
        named = self.device.name if isinstance(self.device, PciDevice) else ""
        return named if isinstance(named, str) else ""

    @property
    def laptop(self) -> bool:
        return any(word in self.name for word in ("Laptop", "Mobile", "Max-Q"))

    @property
    def sliced(self) -> bool:
        """With MIG on much of what the whole GPU would tell is hidden, and links read as down."""
        return self.gpu.mig.enabled is True

    @property
    def virtual(self) -> bool:
        """A share of a GPU whose host keeps errors, links and power to itself."""
        said = self.gpu.virtualisation if isinstance(self.gpu.virtualisation, str) else ""
        return said.lower().replace(" ", "").startswith("vgpu")

    @property
    def in_guest(self) -> bool:
        """A virtual machine shows invented ports and windows."""
        said = (self.gpu.virtualisation, self.machine.virtualisation)
        words = [text.lower() for text in said if isinstance(text, str)]
        guest = any(word not in _BARE for word in words)
        return guest or self.machine.host.wsl is True

    @property
    def unified(self) -> bool:
        """It has no memory of its own but shares the processor's (GB10, Jetson)."""
        return any(word in self.name for word in ("GB10", "Thor", "Orin", "Tegra", "Xavier"))

    def check(
        self,
        name: str,
        reading: Reading,
        says: str = "",
        *,
        evidence: Iterable[str] = (),
        advice: str = "",
        labels: Labels = (),
        method: str = "",
        statistic: str = "",
    ) -> Iterator[Seen]:
        """As :func:`check`, of this GPU; ``labels`` are added to its own."""
        said = f"{self.title}: {says}" if says else ""
        yield from check(
            name,
            reading,
            said,
            evidence=evidence,
            advice=advice,
            labels=(*self.labels, *labels),
            method=method,
            statistic=statistic,
        )


CardCheck = Callable[[Card], Iterator[Seen]]
MachineCheck = Callable[[MachineFacts, tuple[Card, ...]], Iterator[Seen]]


def cards_of(machine: MachineFacts) -> tuple[Card, ...]:
    """Every GPU that is known of; where no driver lists any, those on the bus, else those the log or a tool names."""
    devices = () if isinstance(machine.devices, Absent) else machine.devices
    known = {device.address: device for device in devices}
    gpus = () if isinstance(machine.gpus, Absent) else machine.gpus
    if not gpus:
        unlisted = Absent(AbsenceKind.NOT_FOUND, "the driver lists no GPU")
        why = machine.gpus if isinstance(machine.gpus, Absent) else unlisted
        gpus = tuple(
            GpuFacts(pci=device.address, answers=_dead(device), asleep=_asleep(device, why), name=device.name)
            for device in endpoints(devices)
            if device.vendor == NVIDIA or isinstance(device.vendor, Absent)
        )
    gpus = gpus or _named(machine)
    absent = machine.devices if isinstance(machine.devices, Absent) else None
    cards: list[Card] = []
    for gpu in gpus:
        label = _label(gpu)
        taken = {card.label for card in cards}
        if label in taken:
            label = next(f"{label} ({n})" for n in range(2, len(gpus) + 2) if f"{label} ({n})" not in taken)
        missing = absent or Absent(AbsenceKind.NOT_FOUND, "PCI device: not among the devices of this source")
        device = known.get(gpu.pci, missing) if isinstance(gpu.pci, str) else missing
        cards.append(Card(gpu, machine, label, device))
    return tuple(cards)


def not_chosen(machine: MachineFacts, address: str | Absent, cards: Iterable[Card]) -> bool:
    """Whether it is a GPU of this machine that the user did not ask about: the driver counts more than are told of."""
    told = tuple(cards)
    attached = value_of(machine.attached) or 0
    if attached <= len(told) or any(card.gpu.pci == address for card in told):
        return False
    devices = () if isinstance(machine.devices, Absent) else endpoints(machine.devices)
    return any(device.address == address for device in devices)


def _named(machine: MachineFacts) -> tuple[GpuFacts, ...]:
    """GPUs of which only events of the log or another tool's claims tell."""
    log = machine.log
    events = () if isinstance(log, Absent) else log.incidents
    found = [GpuFacts(pci=each.pci) for each in events if isinstance(each.pci, str) and each.kind not in PORTS]
    found += [GpuFacts(index=each.gpu) for each in machine.claims if isinstance(each.gpu, Quantity)]
    found += [GpuFacts(pci=each.pci) for each in machine.claims if isinstance(each.pci, str)]
    return tuple({_label(each): each for each in found}.values())


def _dead(device: PciDevice) -> Flag:
    if not device.answers:
        return False
    return Absent(AbsenceKind.NOT_FOUND, "whether the GPU answers: no driver was asked, only the bus was read")


def _asleep(device: PciDevice, why: Absent) -> Flag:
    return why if isinstance(device.power_state, Absent) else device.power_state == "suspended"


def _label(gpu: GpuFacts) -> str:
    if isinstance(gpu.index, Quantity):
        return str(int(gpu.index.value))
    return next((text for text in (gpu.pci, gpu.uuid) if isinstance(text, str)), "unnamed")


def as_count(flag: Flag) -> Reading:
    """1 for yes, 0 for no."""
    return flag if isinstance(flag, Absent) else ONE if flag else NONE


def first_known(*readings: Reading) -> Reading:
    """The first that is there, else the reason of the first."""
    return next((reading for reading in readings if isinstance(reading, Quantity)), readings[0])


def total(*readings: Reading) -> Reading:
    """The sum. Where a part is absent, more than 0 is known to be at least that, and 0 is not known at all."""
    known = [reading for reading in readings if isinstance(reading, Quantity)]
    missing = [reading for reading in readings if isinstance(reading, Absent)]
    whole = sum(reading.value for reading in known)
    return missing[0] if missing and not whole else Quantity(whole, known[0].unit)


def difference(minuend: Reading, subtrahend: Reading) -> Reading:
    """Absent with the reason of the first that is absent."""
    if isinstance(minuend, Absent):
        return minuend
    return subtrahend if isinstance(subtrahend, Absent) else Quantity(minuend.value - subtrahend.value, minuend.unit)


def value_of(reading: Reading) -> float | None:
    return None if isinstance(reading, Absent) else reading.value
