"""Reads what the Linux kernel tells of PCI devices: links of a GPU and of every port above it, windows, errors.

``read_pci`` reads a tree: ``/sys``, or a copy of it, since the root is a parameter. Only files that every user may read
are read, nothing is written. Files of it that somebody saved in a text are read by ``_sysfs_copy``.
Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci and -aer_stats, include/linux/ioport.h for the flags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mats.facts import Flag, GpuFacts, MachineFacts, PcieFacts, WindowFacts
from mats.facts.pci import (
    NVIDIA,
    AerFacts,
    Bar,
    PathLink,
    PciDevice,
    PciLink,
    Resizable,
    address_of,
    narrowest,
    path_of,
    rate_of,
    width_of,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

MEMORY_FLAG, IO_FLAG = 0x200, 0x100
PREFETCH_FLAG, WIDE_FLAG, UNSET_FLAG = 0x2000, 0x100000, 0x20000000
ORDINARY_BARS = 6
"""Lines 0 to 5 of ``resource`` are BARs; then come the ROM, windows of virtual functions and of bridges."""
READ_AT_MOST = 64 * 1024
ATTRIBUTES = (
    "vendor",
    "device",
    "class",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "resource",
    "numa_node",
    "power/runtime_status",
    *(f"resource{number}_resize" for number in range(ORDINARY_BARS)),
    *(f"{folder}aer_dev_{kind}" for folder in ("", "aer/") for kind in ("correctable", "nonfatal", "fatal")),
)
CORRECTED = ("aer_dev_correctable", "aer/aer_dev_correctable")
RESOURCE_LINE = re.compile(r"\s*0x([0-9a-fA-F]{1,16}) 0x([0-9a-fA-F]{1,16}) 0x([0-9a-fA-F]{1,16})\s*")


class SysfsError(ValueError):
    """The text or the tree holds no PCI state; the sentence says what was found instead."""


@dataclass(frozen=True, slots=True)
class PciFacts:
    """PCI devices of one machine, as far as the source shows them."""

    devices: tuple[PciDevice, ...]
    assumed: str = ""
    """Why the listed devices are taken as one path although the source does not say so; empty when it does."""

    @property
    def gpus(self) -> tuple[PciDevice, ...]:
        """Display adapters of any maker."""
        return tuple(device for device in self.devices if device.is_gpu)

    def find(self, address: str) -> PciDevice | Absent:
        """The device at this address, in any of the usual forms."""
        wanted = address_of(address)
        found = [device for device in self.devices if device.address == wanted]
        return found[0] if found else Absent(AbsenceKind.NOT_FOUND, f"PCI device {address}: not shown in this source")

    def path(self, address: str) -> tuple[PciDevice, ...] | Absent:
        """The device and every port above it, nearest first."""
        return path_of(self.devices, address_of(address) or address)

    def path_link(self, address: str, *, maximum: bool = False) -> PathLink | Absent:
        """The narrowest link from the device to the processor: now, or of what each port could do."""
        path = self.path(address)
        return path if isinstance(path, Absent) else narrowest(path, maximum=maximum, assumed=self.assumed)

    def machine(self) -> MachineFacts:
        """The GPUs of NVIDIA among them, in the words of the whole picture."""
        gpus = tuple(as_gpu(gpu) for gpu in self.gpus if gpu.vendor == NVIDIA)
        return MachineFacts(gpus=gpus or Absent(AbsenceKind.NOT_FOUND, "GPUs: this source shows none of NVIDIA"))


def read_pci(root: Path = Path("/sys")) -> PciFacts:
    """Display adapters and the ports above them in the tree at ``root``. Raises SysfsError when it has no PCI bus."""
    bus = root / "bus" / "pci" / "devices"
    try:
        names = sorted(os.listdir(bus))
    except OSError as error:
        raise SysfsError(f"{bus}: the PCI bus cannot be listed ({error.strerror})") from None
    wanted: dict[str, None] = {}
    lineages: dict[str, tuple[str, ...] | Absent] = {}
    for name in names:
        address = address_of(name)
        if address is None or not is_display(_read(bus / name / "class")):
            continue
        if os.path.lexists(bus / name / "physfn"):
            continue  # a share of a GPU made for a virtual machine, not a card
        lineages[address] = lineage = _lineage(bus / name, root)
        wanted.update(dict.fromkeys((address, *(lineage if not isinstance(lineage, Absent) else ()))))
    devices = []
    for address in wanted:
        folder = bus / address
        above = lineages.get(address) or _lineage(folder, root)
        devices.append(device_of(address, attributes_of(folder), above, _driver(folder)))
    return PciFacts(tuple(devices))


def read_links(root: Path, addresses: Iterable[str]) -> dict[str, PciLink]:
    """The present state of these devices' links in the tree at ``root``; quick enough to be asked again and again."""
    found = {}
    for address in addresses:
        folder = root / "bus" / "pci" / "devices" / address
        names = ("current_link_speed", "current_link_width")
        texts = {name: text for name in names if (text := _read(folder / name)) is not None}
        found[address] = _link(texts, "current", "PCIe", "the system does not offer it")
    return found


def read_corrected(root: Path, addresses: Iterable[str]) -> dict[str, Reading]:
    """What these devices' ends of their links have counted of corrected errors (AER) until now."""
    found: dict[str, Reading] = {}
    for address in addresses:
        folder = root / "bus" / "pci" / "devices" / address
        texts = {name: text for name in CORRECTED if (text := _read(folder / name)) is not None}
        counts = _counters(texts, "correctable", "the system does not offer them")
        unseen = Absent(AbsenceKind.NOT_TESTED, "not read")
        found[address] = AerFacts(counts, unseen, unseen).total("correctable")
    return found


def parse_resource(text: str) -> tuple[Bar, ...]:
    """The BARs (lines 0 to 5) of a ``resource`` file; the shadow of a ROM and windows of bridges are none.

    Raises SysfsError when a line is not "start end flags" in hexadecimal.
    """
    bars = []
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        found = RESOURCE_LINE.fullmatch(line)
        if found is None:
            raise SysfsError(f"resource: line {number + 1} is not 'start end flags': {line.strip()[:40]!r}")
        start, end, flags = (int(part, 16) for part in found.groups())
        if number >= ORDINARY_BARS or not flags or end < start or not flags & (MEMORY_FLAG | IO_FLAG):
            continue
        bars.append(
            Bar(
                index=number,
                address=start,
                size=end - start + 1,
                memory=bool(flags & MEMORY_FLAG),
                wide=bool(flags & WIDE_FLAG),
                prefetchable=bool(flags & PREFETCH_FLAG),
                placed=not flags & UNSET_FLAG,
            )
        )
    if not text.strip():
        raise SysfsError("resource: the text is empty")
    return tuple(bars)


def parse_errors(text: str) -> tuple[tuple[str, Quantity], ...]:
    """Lines "NAME COUNT" of a file ``aer_dev_*``; names differ from kernel to kernel and may hold blanks."""
    counts = []
    for line in text.splitlines():
        name, _, count = line.strip().rpartition(" ")
        if name and count.isascii() and count.isdigit() and len(count) <= 20:
            counts.append((name.strip(), Quantity(int(count), Unit.COUNT)))
    if not counts:
        raise SysfsError(f"AER counters: no line 'NAME COUNT' in {text.strip()[:40]!r}")
    return tuple(counts)


def device_of(
    address: str,
    files: Mapping[str, str],
    upstream: tuple[str, ...] | Absent,
    driver: str | Absent,
    why: str = "the system does not offer it",
) -> PciDevice:
    """A device from the texts of its files, by their names below its folder. ``why``: what a missing file means."""

    def value(name: str, what: str) -> str | Absent:
        return _value(files, name, what, why)

    now = _link(files, "current", "PCIe", why)
    lost = isinstance(now.width, Absent) and now.width.kind is AbsenceKind.DEVICE_LOST
    class_code = _number(value("class", "class"), 16)
    return PciDevice(
        address=address,
        vendor=_number(value("vendor", "vendor"), 16),
        device=_number(value("device", "device"), 16),
        class_code=class_code if isinstance(class_code, Absent) else class_code >> 8,
        name=Absent(AbsenceKind.NOT_FOUND, "name: sysfs holds numbers only"),
        driver=driver,
        now=now,
        maximum=_link(files, "max", "highest PCIe", why),
        bars=_bars(value("resource", "BARs")),
        resizable=_resizable(files, why),
        errors=AerFacts(*(_counters(files, kind, why) for kind in ("correctable", "nonfatal", "fatal"))),
        numa_node=_numa(value("numa_node", "NUMA node")),
        power_state=value("power/runtime_status", "power state"),
        upstream=upstream,
        answers=not lost,
    )


def _value(files: Mapping[str, str], name: str, what: str, why: str) -> str | Absent:
    text = files.get(name)
    return Absent(AbsenceKind.NOT_FOUND, f"{what}: {why}") if text is None else text.strip()


def _link(files: Mapping[str, str], prefix: str, what: str, why: str) -> PciLink:
    speed = _value(files, f"{prefix}_link_speed", f"{what} speed", why)
    width = _value(files, f"{prefix}_link_width", f"{what} width", why)
    return PciLink(
        speed if isinstance(speed, Absent) else rate_of(speed),
        width if isinstance(width, Absent) else width_of(width),
    )


def _bars(text: str | Absent) -> tuple[Bar, ...] | Absent:
    if isinstance(text, Absent):
        return text
    try:
        return parse_resource(text)
    except SysfsError as error:
        return Absent(AbsenceKind.UNREADABLE, f"BARs: {error}")


def _resizable(files: Mapping[str, str], why: str) -> tuple[Resizable, ...] | Absent:
    """Each ``resourceN_resize`` is a mask in hexadecimal: bit n stands for 2^n MiB. The size now is that of the BAR."""
    found = []
    for number in range(ORDINARY_BARS):
        mask = _number(files.get(f"resource{number}_resize", ""), 16)
        if isinstance(mask, Absent):
            continue
        sizes = tuple(1 << (20 + bit) for bit in range(64) if mask >> bit & 1)
        found.append(Resizable(number, _size_now(files, number), sizes))
    return tuple(found) or Absent(AbsenceKind.NOT_FOUND, f"resizable BAR: {why}")


def _size_now(files: Mapping[str, str], number: int) -> Reading:
    bars = _bars(files["resource"]) if "resource" in files else ()
    sizes = [bar.size for bar in (() if isinstance(bars, Absent) else bars) if bar.index == number]
    if not sizes:
        return Absent(AbsenceKind.NOT_FOUND, f"size of BAR{number}: not shown")
    return Quantity(sizes[0], Unit.BYTE)


def _counters(files: Mapping[str, str], kind: str, why: str) -> tuple[tuple[str, Quantity], ...] | Absent:
    for folder in ("", "aer/"):
        text = files.get(f"{folder}aer_dev_{kind}")
        if text is not None:
            try:
                return parse_errors(text)
            except SysfsError as error:
                return Absent(AbsenceKind.UNREADABLE, str(error))
    return Absent(AbsenceKind.NOT_FOUND, f"{kind} PCIe errors: {why} (firmware may own the reporting)")


def _numa(text: str | Absent) -> Reading:
    node = _number(text, 10)
    if isinstance(node, Absent):
        return node
    if node < 0:
        return Absent(AbsenceKind.NOT_SUPPORTED, "NUMA node: the system assigns none")
    return Quantity(node, Unit.COUNT)


def _number(text: str | Absent, base: int) -> int | Absent:
    if isinstance(text, Absent):
        return text
    try:
        return int(text[:32], base)
    except ValueError:
        return Absent(AbsenceKind.UNREADABLE, f"no number: {text[:40]!r}")


def is_display(text: str | Absent | None) -> bool:
    """Whether the text of a file ``class`` is that of a display adapter, with or without a screen."""
    code = _number(text or "", 16)
    return not isinstance(code, Absent) and code >> 16 == 0x03


def _lineage(folder: Path, root: Path) -> tuple[str, ...] | Absent:
    """Ports above a device, nearest first, from the real place of its link; only a place within ``root`` counts."""
    try:
        real = folder.resolve(strict=True)
        inside = real.relative_to(root.resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        return Absent(AbsenceKind.UNREADABLE, "ports above the device: its place in the tree cannot be followed")
    chain = [address for part in inside.parts if (address := address_of(part))]
    if "devices" not in inside.parts[:1]:
        return Absent(AbsenceKind.NOT_FOUND, "ports above the device: this copy of /sys has no tree of devices")
    return tuple(reversed(chain[:-1]))


def attributes_of(folder: Path) -> dict[str, str]:
    """The files of a device that are read, by their names below its folder; those that are not there are left out."""
    read = ((name, _read(folder / name)) for name in ATTRIBUTES)
    return {name: text for name, text in read if text is not None}


def _read(path: Path) -> str | None:
    """A small file's text; None when it is not there or gives nothing, as files of a dead device do."""
    try:
        with path.open("rb") as file:
            return file.read(READ_AT_MOST).decode(errors="replace")
    except OSError:
        return None


def _driver(folder: Path) -> str | Absent:
    try:
        return os.path.basename(os.readlink(folder / "driver"))
    except OSError:
        return Absent(AbsenceKind.NOT_FOUND, "driver: none is bound to the device")


def _answers(device: PciDevice) -> Flag:
    """A GPU that is gone is seen on the bus; that one works is not: a dead one may hold its link as if nothing was."""
    if not device.answers:
        return False
    return Absent(AbsenceKind.NOT_TESTED, "whether it answers: the bus shows it, and only the driver can tell")


def _asleep(device: PciDevice) -> Flag:
    return device.power_state if isinstance(device.power_state, Absent) else device.power_state == "suspended"


def as_gpu(device: PciDevice) -> GpuFacts:
    """What the bus tells of a GPU, in the words of the whole picture; the path above it stays in the PCI picture."""
    window = device.framebuffer
    return GpuFacts(
        pci=device.address,
        name=device.name,
        answers=_answers(device),
        asleep=_asleep(device),
        numa=device.numa_node,
        window=WindowFacts(total=window if isinstance(window, Absent) else Quantity(window.size, Unit.BYTE)),
        pcie=PcieFacts(
            generation=device.now.generation,
            width=device.now.width,
            generation_device=device.maximum.generation,
            width_maximum=device.maximum.width,
        ),
    )
