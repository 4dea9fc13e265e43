"""The way from a GPU to the processor: from what the system and the driver tell of each link on it.

``describe`` is pure; ``LinkReader`` reads the system's tree of devices, NVML where that says nothing, and the counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mats.device import PCIE, HostLink
from mats.facts import PcieFacts
from mats.facts.pci import PciDevice, PciLink, address_of, link_by_generation, narrowest
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources import nvml, sysfs
from mats.sources._nvml_links import read_pcie

COHERENT = "the processor's own NVLink (NVLink-C2C or alike)"
ERRORS = ("correctable", "nonfatal", "fatal")
_NO_PORTS = "no port above the device is shown, as in virtual machines"


class LinkReader:
    """Reads one GPU's way to the processor again and again. ``coherent``: data do not go over PCIe."""

    def __init__(self, gpu: nvml.Gpu | Absent, pci: str, coherent: bool, root: Path = Path("/sys")) -> None:
        self._gpu, self._coherent, self._root = gpu, coherent, root
        self._address = address_of(pci) or pci
        self._path: tuple[PciDevice, ...] | Absent | None = None

    def read(self) -> HostLink:
        """The way now. Which devices are on it is asked once."""
        if self._path is None:
            self._path = self._find()
        told = self._gpu if isinstance(self._gpu, Absent) else read_pcie(self._gpu)
        path = self._path if isinstance(self._path, Absent) else tuple(self._now(device) for device in self._path)
        return describe(path, told, COHERENT if self._coherent else PCIE)

    def _find(self) -> tuple[PciDevice, ...] | Absent:
        try:
            return sysfs.read_pci(self._root).path(self._address)
        except sysfs.SysfsError as error:
            return Absent(AbsenceKind.NOT_FOUND, str(error))

    def _now(self, device: PciDevice) -> PciDevice:
        folder = self._root / "bus" / "pci" / "devices" / device.address
        again = sysfs.device_of(device.address, sysfs.attributes_of(folder), device.upstream, device.driver)
        return replace(device, now=again.now, errors=again.errors)


def describe(path: Sequence[PciDevice] | Absent, told: PcieFacts | Absent, kind: str) -> HostLink:
    """The way of these devices, the GPU first; ``told``: what the driver says of the GPU's own link."""
    driver = PcieFacts(*(told,) * 4, replays=told) if isinstance(told, Absent) else told
    own = link_by_generation(driver.generation, driver.width)
    most = link_by_generation(driver.generation_maximum, driver.width_maximum)
    if isinstance(path, Absent) or not path:
        why = path.reason if isinstance(path, Absent) else "no device is on it"
        return _link(kind, own, most, own.bandwidth, most.bandwidth, unseen=why, counters=_counters((), driver))
    first = path[0]
    now, best = narrowest(tuple(path)), narrowest(tuple(path), maximum=True)
    unread = () if isinstance(now, Absent) else now.unread
    unseen = f"not all of it could be read: {', '.join(unread)}" if unread else "" if len(path) > 1 else _NO_PORTS
    return _link(
        kind,
        _known(first.now, own),
        _known(most, first.maximum),  # the driver's is that of card and slot together
        own.bandwidth if isinstance(now, Absent) else now.link.bandwidth,
        most.bandwidth if isinstance(best, Absent) else _less(best.link.bandwidth, most.bandwidth),
        narrowest="" if isinstance(now, Absent) else now.at,
        unseen=unseen,
        counters=_counters(path, driver),
    )


def _link(
    kind: str,
    own: PciLink,
    most: PciLink,
    bandwidth: Reading,
    bandwidth_maximum: Reading,
    narrowest: str = "",
    unseen: str = "",
    counters: tuple[tuple[str, Reading], ...] = (),
) -> HostLink:
    return HostLink(
        kind,
        own.generation,
        own.width,
        most.generation,
        most.width,
        bandwidth,
        bandwidth_maximum,
        narrowest,
        unseen,
        counters,
    )


def _known(first: PciLink, second: PciLink) -> PciLink:
    return second if isinstance(first.bandwidth, Absent) else first


def _less(first: Reading, second: Reading) -> Reading:
    if isinstance(first, Absent):
        return second
    return first if isinstance(second, Absent) or first <= second else second


def _counters(path: Sequence[PciDevice], driver: PcieFacts) -> tuple[tuple[str, Reading], ...]:
    """Replays as the driver counts them, and errors (AER) of all ends together."""
    errors = tuple((f"aer.{kind}", _sum(kind, path)) for kind in ERRORS)
    return (("pcie.replays", driver.replays), *errors)


def _sum(kind: str, path: Sequence[PciDevice]) -> Reading:
    totals = [device.errors.total(kind) for device in path]
    told = [total for total in totals if isinstance(total, Quantity)]
    if not told:
        missing = Absent(AbsenceKind.NOT_FOUND, f"{kind} errors (AER): the system does not show them")
        return next((total for total in totals if isinstance(total, Absent)), missing)
    return Quantity(int(sum(total.value for total in told)), Unit.COUNT)
