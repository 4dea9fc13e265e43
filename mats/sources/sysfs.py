"""Reads what the Linux kernel tells of PCI devices: links of a GPU and of every port above it, windows, errors.

``read_pci`` reads a tree (``/sys``, or a copy of it: the root is a parameter), ``parse_copy`` a text in which somebody
saved some of its files. Both end in the same picture. Only files that every user may read are read, nothing is written.
Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci and -aer_stats, include/linux/ioport.h for the flags.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mats.facts import GpuFacts, MachineFacts, PcieFacts, WindowFacts
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
_ATTRIBUTES = (
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
_RESOURCE_LINE = re.compile(r"\s*0x([0-9a-fA-F]{1,16}) 0x([0-9a-fA-F]{1,16}) 0x([0-9a-fA-F]{1,16})\s*")
_TITLE = re.compile(r"^==> (?P<a>/\S+) <==$|^\*\*\* (?P<b>/sys/\S+)$", re.MULTILINE)
_INLINE = re.compile(
    r"^(?P<path>/sys/\S{0,200}[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]/[\w/]+):(?P<value>.*)$", re.MULTILINE
)


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
        if address is None or not _is_display(_read(bus / name / "class")):
            continue
        lineages[address] = lineage = _lineage(bus / name, root)
        wanted.update(dict.fromkeys((address, *(lineage if not isinstance(lineage, Absent) else ()))))
    devices = []
    for address in wanted:
        folder = bus / address
        above = lineages.get(address) or _lineage(folder, root)
        devices.append(_device(address, _attributes(folder), above, _driver(folder)))
    return PciFacts(tuple(devices))


def parse_resource(text: str) -> tuple[Bar, ...]:
    """The BARs (lines 0 to 5) of a ``resource`` file; the shadow of a ROM and windows of bridges are none.

    Raises SysfsError when a line is not "start end flags" in hexadecimal.
    """
    bars = []
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        found = _RESOURCE_LINE.fullmatch(line)
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


def parse_copy(text: str) -> PciFacts:
    """Files of ``/sys`` saved as text: titled by ``head`` or ``tail``, by a bug report, or as ``path:value`` of grep.

    A bare ``resource`` file is taken too (its device is then unknown: address "?"). Raises SysfsError for other text.
    """
    files = _titled(text) or _inline(text)
    if not files and text.strip() and all(_RESOURCE_LINE.fullmatch(line) for line in _lines(text)):
        missing = Absent(AbsenceKind.NOT_FOUND, "not shown in this file")
        return PciFacts((_device("?", {"resource": text}, missing, missing),))
    by_address: dict[str, dict[str, str]] = {}
    lineages: dict[str, tuple[str, ...]] = {}
    for path, value in files:
        parts = path.split("/")
        places = [number for number, part in enumerate(parts) if address_of(part)]
        if not places:
            continue
        chain = [address_of(parts[number]) or "" for number in places]
        by_address.setdefault(chain[-1], {})["/".join(parts[places[-1] + 1 :])] = value
        if len(chain) > 1 or any(part.startswith("pci") and ":" in part for part in parts):
            lineages[chain[-1]] = tuple(reversed(chain[:-1]))
    if not by_address:
        raise SysfsError("this text holds no file of /sys/bus/pci")
    return _assembled(by_address, lineages)


def _assembled(by_address: Mapping[str, Mapping[str, str]], lineages: dict[str, tuple[str, ...]]) -> PciFacts:
    unknown = Absent(AbsenceKind.NOT_FOUND, "ports above the device: the paths in this file do not show them")
    bound = Absent(AbsenceKind.NOT_FOUND, "driver: not shown in this file")
    assumed = "" if lineages else _one_path(by_address)
    if assumed:
        order = tuple(by_address)
        lineages = {address: tuple(reversed(order[:number])) for number, address in enumerate(order)}
    devices = [
        _device(address, files, lineages.get(address, unknown), bound, "not shown in this file")
        for address, files in by_address.items()
    ]
    return PciFacts(tuple(devices), assumed)


def _one_path(by_address: Mapping[str, Mapping[str, str]]) -> str:
    """Why devices without a stated tree are taken as one path: few, of one domain, buses rising, one GPU at most."""
    places = [address.split(":") for address in by_address]
    buses = [int(bus, 16) for _, bus, _ in places]
    displays = sum(_is_display(files.get("class", "")) for files in by_address.values())
    rising = all(one < other for one, other in itertools.pairwise(buses))
    if not 2 <= len(places) <= 5 or len({domain for domain, _, _ in places}) > 1 or not rising or displays > 1:
        return ""
    return "the file does not show which port lies above which device; they are taken as one path in their order"


def _device(
    address: str,
    files: Mapping[str, str],
    upstream: tuple[str, ...] | Absent,
    driver: str | Absent,
    why: str = "the system does not offer it",
) -> PciDevice:
    def value(name: str, what: str) -> str | Absent:
        text = files.get(name)
        return Absent(AbsenceKind.NOT_FOUND, f"{what}: {why}") if text is None else text.strip()

    def link(prefix: str, what: str) -> PciLink:
        speed, width = value(f"{prefix}_link_speed", f"{what} speed"), value(f"{prefix}_link_width", f"{what} width")
        return PciLink(
            speed if isinstance(speed, Absent) else rate_of(speed),
            width if isinstance(width, Absent) else width_of(width),
        )

    now = link("current", "PCIe")
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
        maximum=link("max", "highest PCIe"),
        bars=_bars(value("resource", "BARs")),
        resizable=_resizable(files, why),
        errors=AerFacts(*(_counters(files, kind, why) for kind in ("correctable", "nonfatal", "fatal"))),
        numa_node=_numa(value("numa_node", "NUMA node")),
        power_state=value("power/runtime_status", "power state"),
        upstream=upstream,
        answers=not lost,
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


def _is_display(text: str | Absent | None) -> bool:
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


def _attributes(folder: Path) -> dict[str, str]:
    read = ((name, _read(folder / name)) for name in _ATTRIBUTES)
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


def _lines(text: str) -> Iterable[str]:
    return (line for line in text.splitlines() if line.strip())


def _titled(text: str) -> list[tuple[str, str]]:
    titles = list(_TITLE.finditer(text))
    ends = [title.start() for title in titles[1:]] + [len(text)]
    found = []
    for title, end in zip(titles, ends, strict=False):
        body = [line for line in text[title.end() : end].splitlines() if not line.startswith(("*** ls:", "____"))]
        found.append((title["a"] or title["b"], "\n".join(body).strip()))
    return [(path, value) for path, value in found if value]


def _inline(text: str) -> list[tuple[str, str]]:
    values: dict[str, list[str]] = {}
    for found in _INLINE.finditer(text):
        values.setdefault(found["path"], []).append(found["value"])
    return [(path, "\n".join(lines)) for path, lines in values.items()]


def as_gpu(device: PciDevice) -> GpuFacts:
    """What the bus tells of a GPU, in the words of the whole picture; the path above it stays in the PCI picture."""
    window = device.framebuffer
    return GpuFacts(
        pci=device.address,
        name=device.name,
        answers=device.answers,
        numa=device.numa_node,
        window=WindowFacts(total=window if isinstance(window, Absent) else Quantity(window.size, Unit.BYTE)),
        pcie=PcieFacts(
            generation=device.now.generation,
            width=device.now.width,
            generation_device=device.maximum.generation,
            width_maximum=device.maximum.width,
        ),
    )
