"""The words that every reader of PCI state shares: a link, a memory window (BAR), error counters, a device.

Nothing is judged here. A link's speed is kept as transfers per second and lane (hertz), since that is what all sources
tell; generation and bandwidth follow by a named formula. Source of the formulas: PCI Express Base Specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

MEBIBYTE = 1 << 20
LEGACY_WINDOW = 256 * MEBIBYTE
"""The window onto a GPU's memory that every firmware can place; a larger one needs a resizable or a large BAR."""
NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
_DISPLAY = (0x0300, 0x0302, 0x0380)
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_DEAD_WIDTH = 63
_NO_FLAGS = Absent(AbsenceKind.NOT_FOUND, "error flags: not shown in this source")
_ADDRESS = re.compile(
    r"\s*(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?\s*", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PciLink:
    """``rate``: transfers per second and lane, in hertz; ``width``: lanes, as a count."""

    rate: Reading
    width: Reading

    @property
    def generation(self) -> Reading:
        """1 for 2.5 GT/s ... 6 for 64 GT/s, as a count."""
        if isinstance(self.rate, Absent):
            return self.rate
        known = _GENERATIONS.get(self.rate.value / 1e9)
        if known is None:
            return Absent(AbsenceKind.UNREADABLE, f"PCIe generation: none runs at {self.rate.value / 1e9} GT/s")
        return Quantity(known, Unit.COUNT)

    @property
    def bandwidth(self) -> Reading:
        """Bytes per second and direction after line coding: rate x lanes x coding / 8.

        Coding is 8/10 up to 5 GT/s, 128/130 up to 32 GT/s and 242/256 (flits) above; packet heads are not taken off.
        """
        if isinstance(self.rate, Absent):
            return self.rate
        if isinstance(self.width, Absent):
            return self.width
        rate = self.rate.value
        coding = 8 / 10 if rate <= 5e9 else 128 / 130 if rate <= 32e9 else 242 / 256
        return Quantity(rate * self.width.value * coding / 8, Unit.BYTE_PER_SECOND)


def link_by_generation(generation: Reading, width: Reading) -> PciLink:
    """The link of a generation of PCIe, 1 to 6, and so many lanes."""
    if isinstance(generation, Absent):
        return PciLink(generation, width)
    rates = [rate for rate, number in _GENERATIONS.items() if number == generation.value]
    if not rates:
        wrong = Absent(AbsenceKind.UNREADABLE, f"PCIe generation: {generation.value} is none that is known")
        return PciLink(wrong, width)
    return PciLink(Quantity(rates[0] * 1e9, Unit.HERTZ), width)


@dataclass(frozen=True, slots=True)
class Bar:
    """A window of a device in the address space. ``index``: the number of its first register; ``size`` in bytes."""

    index: int
    address: int
    size: int
    memory: bool
    """A memory window; otherwise I/O ports."""
    wide: bool = False
    """64-bit: it takes two registers."""
    prefetchable: bool = False
    placed: bool = True
    """The system has given it an address."""

    @property
    def beyond_legacy(self) -> bool:
        """Larger than any firmware could place without a resizable or a large BAR."""
        return self.size > LEGACY_WINDOW


@dataclass(frozen=True, slots=True)
class Resizable:
    """What a resizable BAR can be set to; sizes in bytes. ``current`` is absent where only the choice is known."""

    index: int
    current: Reading
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AerFacts:
    """Errors that a device's own end of its link has seen, by name; counts since the system started."""

    correctable: tuple[tuple[str, Quantity], ...] | Absent
    nonfatal: tuple[tuple[str, Quantity], ...] | Absent
    fatal: tuple[tuple[str, Quantity], ...] | Absent

    def total(self, kind: str) -> Reading:
        """Of ``correctable``, ``nonfatal`` or ``fatal``: the kernel's own total where it gives one, else the sum."""
        counts: tuple[tuple[str, Quantity], ...] | Absent = getattr(self, kind)
        if isinstance(counts, Absent):
            return counts
        stated = [count for name, count in counts if name.startswith("TOTAL_")]
        return stated[0] if stated else Quantity(sum(int(count.value) for _, count in counts), Unit.COUNT)


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function on the PCI bus: a GPU, a port above it, or a neighbour. ``address`` as 0000:01:00.0."""

    address: str
    vendor: int | Absent
    device: int | Absent
    class_code: int | Absent
    """The upper 16 bits: 0x0300 is a display adapter, 0x0302 a 3D controller, 0x0604 a bridge."""
    name: str | Absent
    driver: str | Absent
    now: PciLink
    maximum: PciLink
    """What this end of the link can do."""
    bars: tuple[Bar, ...] | Absent
    resizable: tuple[Resizable, ...] | Absent
    errors: AerFacts
    numa_node: Reading
    power_state: str | Absent
    """The system's word for runtime power management: active, suspended ..."""
    upstream: tuple[str, ...] | Absent
    """Addresses of the ports above, nearest first."""
    answers: bool = True
    """False: its registers read as all ones, as those of a device that is gone."""
    error_flags: tuple[str, ...] | Absent = _NO_FLAGS
    """Names of the error bits that are set, of sources that tell flags instead of counts."""
    marks: tuple[str, ...] = ()
    """The source's own words about the link, such as "speed: downgraded"."""

    @property
    def is_gpu(self) -> bool:
        """A display adapter of any maker; the audio function beside it and switches are none."""
        return not isinstance(self.class_code, Absent) and self.class_code in _DISPLAY

    @property
    def framebuffer(self) -> Bar | Absent:
        """The window onto the GPU's memory, NVML's BAR1: the largest 64-bit prefetchable one, whatever its number."""
        if isinstance(self.bars, Absent):
            return self.bars
        wide = [bar for bar in self.bars if bar.memory and bar.wide and bar.prefetchable]
        if not wide:
            return Absent(AbsenceKind.NOT_FOUND, "BAR1: the device has no 64-bit prefetchable window")
        return max(wide, key=lambda bar: bar.size)


@dataclass(frozen=True, slots=True)
class PathLink:
    """The narrowest link between a GPU and the processor."""

    link: PciLink
    at: str
    """The device whose end of the link it is."""
    unread: tuple[str, ...]
    """Ports whose link could not be read: the path may be narrower than it says."""
    assumed: str = ""
    """Why it is not certain that these devices lie on one path; empty when the source tells."""


def empty_device(address: str, absent: Absent) -> PciDevice:
    """A device of which nothing but the address is known, for ``absent``'s reason."""
    link = PciLink(absent, absent)
    errors = AerFacts(absent, absent, absent)
    words = (absent,) * 5
    return PciDevice(address, *words, link, link, absent, absent, errors, absent, absent, absent)


def narrowest(path: tuple[PciDevice, ...], *, maximum: bool = False, assumed: str = "") -> PathLink | Absent:
    """The link with the least bandwidth of a path (GPU first); of what it could do with ``maximum``."""
    best: tuple[float, PciDevice, PciLink] | None = None
    unread = []
    for device in path:
        link = device.maximum if maximum else device.now
        bandwidth = link.bandwidth
        if isinstance(bandwidth, Absent):
            unread.append(device.address)
        elif best is None or bandwidth.value < best[0]:
            best = (float(bandwidth.value), device, link)
    if best is None:
        return Absent(AbsenceKind.UNREADABLE, "PCIe path: the link of no device on it could be read")
    return PathLink(best[2], best[1].address, tuple(unread), assumed)


def path_of(devices: tuple[PciDevice, ...], address: str) -> tuple[PciDevice, ...] | Absent:
    """The device and every port above it, nearest first; ports that the source does not describe are empty devices."""
    known = {device.address: device for device in devices}
    if address not in known:
        return Absent(AbsenceKind.NOT_FOUND, f"PCIe path: {address} is not there")
    upstream = known[address].upstream
    if isinstance(upstream, Absent):
        return upstream
    missing = Absent(AbsenceKind.NOT_FOUND, "not shown in this source")
    return (known[address], *(known.get(port) or empty_device(port, missing) for port in upstream))


def endpoints(devices: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """The GPUs among the devices; where a source tells neither class nor name, what stands above no other device.

    A few copied link files of a port and the card below it say nothing of what the two are.
    """
    above = {port for device in devices if not isinstance(device.upstream, Absent) for port in device.upstream}
    return tuple(
        device
        for device in devices
        if device.is_gpu
        or (isinstance(device.class_code, Absent) and isinstance(device.name, Absent) and device.address not in above)
    )


def address_of(text: str) -> str | None:
    """The one spelling of a PCI address, ``domain:bus:device.function`` in lower case with at least 4 digits of domain.

    Takes the forms of nvidia-smi (``00000000:4E:00.0``), of the kernel log (``PCI:0000:4e:00``, no function) and of
    lspci (``4e:00.0``, no domain); what is missing is 0. None when it is no address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return None
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}".lower()


def rate_of(text: str) -> Reading:
    """Transfers per second and lane from "16.0 GT/s PCIe", "16GT/s", "Unknown"."""
    found = re.match(r"\s*(\d{1,4}(?:\.\d{1,3})?)\s*GT/s", text)
    if found is None or float(found[1]) == 0:
        said = text.strip()[:40] or "nothing"
        return Absent(AbsenceKind.UNREADABLE, f"PCIe speed: the system says {said!r}")
    return Quantity(float(found[1]) * 1e9, Unit.HERTZ)


def width_of(text: str) -> Reading:
    """Lanes from "16" or "x16". 63 and 255 are what a device that is gone reads as; 0 is no link."""
    found = re.fullmatch(r"\s*x?(\d{1,3})\s*", text)
    if found is None:
        said = text.strip()[:40] or "nothing"
        return Absent(AbsenceKind.UNREADABLE, f"PCIe width: the system says {said!r}")
    lanes = int(found[1])
    if lanes in (_DEAD_WIDTH, 255):
        return Absent(AbsenceKind.DEVICE_LOST, f"PCIe width: reads {lanes}, as that of a device that does not answer")
    if lanes == 0:
        return Absent(AbsenceKind.UNREADABLE, "PCIe width: reads 0: no link is up, or a virtual machine hides it")
    return Quantity(lanes, Unit.COUNT)
