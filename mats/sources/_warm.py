"""The links of a GPU while copies keep them busy: at rest a link slows down, and nothing can be said of it then.

Only a GPU that nobody uses is loaded, by copies of 64 MiB to it for about a second. What it reached is the most that
was seen in that time, of the GPU's own link and of every port above it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mats.device import Device, DeviceError
from mats.facts import GpuFacts, MachineFacts, PciDevice, PciLink, path_of
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._aside import THREAD
from mats.target import Target

COPIED = 64 << 20
"""Bytes of one copy: milliseconds on any link, and little beside any GPU's memory."""
HEADROOM = 8 * COPIED
SECONDS = 1.0
"""For how long the links are looked at; a link speeds up within some milliseconds of work."""
INTERVAL = 0.05
READY_SECONDS = 20.0
"""For opening the GPU: without persistence mode its start takes seconds."""

CLOSE_SECONDS = 5.0
"""For giving the GPU back; one that hangs in it is left behind."""

OpenDevice = Callable[[Target], Device]
ReadLinks = Callable[[tuple[str, ...]], Mapping[str, PciLink]]
ReadErrors = Callable[[tuple[str, ...]], Mapping[str, Reading]]


@dataclass(frozen=True, slots=True)
class Port:
    """How the ends of links are read again and again: their state, and the corrected errors they have counted."""

    links: ReadLinks
    corrected: ReadErrors


@dataclass(frozen=True, slots=True)
class _Seen:
    """The best state of each link on a path while it was busy, and what was counted meanwhile."""

    links: Mapping[str, PciLink]
    corrected: Reading
    seconds: float


@dataclass(slots=True)
class _Copies:
    """A thread that copies until it is told to stop. ``refused``: why it does not."""

    uuid: str
    open_device: OpenDevice
    running: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    refused: str = ""

    def work(self) -> None:
        try:
            device = self.open_device(Target("cuda", self.uuid))
        except Exception as error:  # a GPU that CUDA cannot open is a note, whatever it was
            self._refuse(str(error) or type(error).__name__)
            return
        try:
            self._copy(device)
        except Exception as error:
            self._refuse(str(error) or type(error).__name__)
        finally:
            device.close()

    def _copy(self, device: Device) -> None:
        holders = device.holders()
        if isinstance(holders, str):
            raise DeviceError(f"it is not known whether it is in use: {holders}")
        if busy := [holder for holder in holders if not holder.draws_only]:
            raise DeviceError(f"it is in use by process {busy[0].pid}")
        if device.memory().free < HEADROOM:
            raise DeviceError("too little of its memory is free")
        buffer, data = device.allocate(COPIED), bytes(COPIED)
        try:
            while not self.stop.is_set():
                device.copy(buffer, data)
                self.running.set()
        finally:
            device.free(buffer)

    def _refuse(self, why: str) -> None:
        self.refused = why.strip().rstrip(".")
        self.running.set()


def warm(
    machine: MachineFacts,
    open_device: OpenDevice,
    port: Port,
    remaining: Callable[[], float],
    sleep: Callable[[float], None] = time.sleep,
) -> MachineFacts:
    """The picture with each GPU's links as they were under load; where that could not be, the reason in ``notes``.

    ``remaining``: seconds that are left for all of it.
    """
    if isinstance(machine.gpus, Absent):
        return machine
    devices = {} if isinstance(machine.devices, Absent) else {each.address: each for each in machine.devices}
    gpus, notes = [], []
    for gpu in machine.gpus:
        seen = _reached(gpu, machine, open_device, port, remaining, sleep)
        if isinstance(seen, str):
            notes.append(f"the link of {_called(gpu)} could not be kept busy: {seen}")
            why = Absent(AbsenceKind.NOT_TESTED, f"whether the link was busy: {seen}")
            gpus.append(replace(gpu, pcie=replace(gpu.pcie, loaded=why)))
            continue
        gpus.append(_loaded(gpu, seen))
        for address, link in seen.links.items():
            devices[address] = _faster(devices[address], link)
    kept = machine.devices if isinstance(machine.devices, Absent) else tuple(devices.values())
    return replace(machine, gpus=tuple(gpus), devices=kept, notes=(*machine.notes, *notes))


def _called(gpu: GpuFacts) -> str:
    number = f"GPU {gpu.index.value}" if isinstance(gpu.index, Quantity) else "a GPU"
    return f"{number} ({gpu.pci})" if isinstance(gpu.pci, str) else number


def _reached(
    gpu: GpuFacts,
    machine: MachineFacts,
    open_device: OpenDevice,
    port: Port,
    remaining: Callable[[], float],
    sleep: Callable[[float], None],
) -> _Seen | str:
    """What the path of one GPU did while it was busy, or why there is nothing of it."""
    if isinstance(gpu.uuid, Absent) or isinstance(gpu.pci, Absent):
        return "its UUID and PCI address are not known"
    if gpu.asleep is True:
        return "it sleeps to save power and was not woken"
    if gpu.answers is False:
        return "it does not answer"
    if gpu.mig.enabled is True:
        return "it is sliced (MIG), and a slice may be in use"
    if not isinstance(gpu.processes, Absent) and (busy := [each for each in gpu.processes if not each.draws_only]):
        return f"it is in use by process {busy[0].pid}"
    path = path_of(() if isinstance(machine.devices, Absent) else machine.devices, gpu.pci)
    if isinstance(path, Absent):
        return path.reason
    assert not isinstance(machine.devices, Absent)
    described = {device.address for device in machine.devices}
    addresses = tuple(device.address for device in path if device.address in described)
    if remaining() < 2 * SECONDS:
        return "the time limit is near"
    before = port.corrected(addresses)
    begun = time.monotonic()
    copies = _Copies(gpu.uuid, open_device)
    thread = threading.Thread(target=copies.work, name=f"{THREAD} copies", daemon=True)
    thread.start()
    try:
        if not copies.running.wait(min(READY_SECONDS, max(0.0, remaining() - SECONDS))):
            return "copies to it did not start in time"
        links = copies.refused or _watch(addresses, port.links, copies, sleep)
        if isinstance(links, str):
            return links
        return _Seen(links, _added(before, port.corrected(addresses)), time.monotonic() - begun)
    finally:
        copies.stop.set()
        thread.join(min(CLOSE_SECONDS, remaining()))


def _watch(
    addresses: tuple[str, ...], read_links: ReadLinks, copies: _Copies, sleep: Callable[[float], None]
) -> dict[str, PciLink] | str:
    best: dict[str, PciLink] = {}
    for _ in range(round(SECONDS / INTERVAL)):
        for address, link in read_links(addresses).items():
            best[address] = _better(best.get(address, link), link)
        sleep(INTERVAL)
        if copies.refused:
            return copies.refused
    told = {address: link for address, link in best.items() if not isinstance(link.rate, Absent)}
    return told if addresses[0] in told else "the system does not tell the state of its link"


def _added(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> Reading:
    """Corrected errors that came in between, of all ends together; absent where one of them does not count."""
    added = 0.0
    for address, later in after.items():
        earlier = before[address]
        if isinstance(earlier, Absent) or isinstance(later, Absent):
            gone = earlier if isinstance(earlier, Absent) else later
            assert isinstance(gone, Absent)
            return Absent(gone.kind, f"{address}: {gone.reason}")
        if later < earlier:
            return Absent(AbsenceKind.UNREADABLE, f"{address}: corrected PCIe errors were set back meanwhile")
        added += later.value - earlier.value
    return Quantity(int(added), Unit.COUNT)


def _better(first: PciLink, second: PciLink) -> PciLink:
    return PciLink(_more(first.rate, second.rate), _more(first.width, second.width))


def _more(first: Reading, second: Reading) -> Reading:
    if isinstance(first, Absent):
        return second
    return first if isinstance(second, Absent) or first >= second else second


def _loaded(gpu: GpuFacts, seen: _Seen) -> GpuFacts:
    assert isinstance(gpu.pci, str)
    link, before = seen.links[gpu.pci], gpu.pcie
    pcie = replace(
        before,
        generation=link.generation,
        width=link.width,
        loaded=True,
        idle_generation=before.generation,
        idle_width=before.width,
        corrected_loaded=seen.corrected,
        loaded_seconds=Quantity(seen.seconds, Unit.SECOND),
    )
    return replace(gpu, pcie=pcie)


def _faster(device: PciDevice, link: PciLink) -> PciDevice:
    return replace(device, now=_better(device.now, link))
