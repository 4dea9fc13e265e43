"""The machine's own memory: a real test of a real memory by the CPU build of the kernels. Never passed off as a GPU."""

from __future__ import annotations

import os
import platform
import time
from contextlib import AbstractContextManager
from pathlib import Path

from mats.device import (
    Buffer,
    Conditions,
    DeviceError,
    HeldBy,
    HostBuffer,
    HostLink,
    MemoryNode,
    MemoryState,
    OutOfMemory,
)
from mats.devices._host_memory import CPU_CACHE, available, caches, huge_share, total
from mats.devices._host_nodes import node_of, placed, read_nodes
from mats.devices._library import allocate, library, pack, plan_copy, release
from mats.model import AbsenceKind, Absent, Quantity, Reading, TargetInfo, Unit
from mats.target import Target

EDAC = "sys/devices/system/edac/mc"


def open_device(target: Target) -> HostDevice:
    """The machine's memory as a device. Raises DeviceError where the native module was not built."""
    library()
    return HostDevice(target.name)


class HostDevice:
    """Implements :class:`mats.device.Device`. ``root`` is where the system's files are read (``/``)."""

    def __init__(self, name: str = "host", *, root: Path = Path("/"), workers: int | None = None) -> None:
        self._name = name
        self._root = root
        self._workers = workers or len(os.sched_getaffinity(0))
        self._held: dict[int, int] = {}

    def describe(self) -> TargetInfo:
        return TargetInfo(
            name=self._name,
            kind="host",
            title=f"host memory ({_processor(self._root)})",
            memory_total=Quantity(total(self._root), Unit.BYTE),
            cache_size=cache_size(self._root),
            peak_bandwidth=Absent(AbsenceKind.NOT_SUPPORTED, "a host does not tell its memory clock and width"),
            peak_formula="a copy bound is measured in the same run instead",
            identity=tuple((name, value) for name, value in self._identity() if value),
            origin_kind="host",
        )

    def _identity(self) -> tuple[tuple[str, str], ...]:
        return (
            ("host", platform.node()),
            ("processor", _processor(self._root)),
            ("workers", str(self._workers)),
            ("instructions", library().mats_host_instructions().decode()),
            ("caches", ", ".join(f"{name} {size >> 10} KiB" for name, size in caches(self._root))),
            ("held_in_huge_pages", self._huge_share()),
        )

    def _huge_share(self) -> str:
        """Of what is held now; empty while nothing is, and where the system does not tell."""
        share = huge_share(self._root, self._held.items())
        return "" if share is None else f"{share:.4f}"

    def memory(self) -> MemoryState:
        whole, free = total(self._root), available(self._root)
        return MemoryState(
            total=whole,
            free=free,
            reserved=Absent(AbsenceKind.NOT_SUPPORTED, "the kernel's own share is part of what others use"),
            others=Quantity(max(whole - free, 0), Unit.BYTE),
        )

    def allocate(self, size: int) -> Buffer:
        return Buffer(self._take(size)[0], size)

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        """The same memory: here the device is the host."""
        address, locked = self._take(size)
        if pinned and not locked:
            self.free(Buffer(address, size))
            raise OutOfMemory(f"the system does not lock {size} bytes in their place: see `ulimit -l`")
        return HostBuffer(address, size, pinned)

    def _take(self, size: int) -> tuple[int, bool]:
        """Address of ``size`` bytes, and whether they are locked in their place."""
        if size <= 0:
            raise DeviceError(f"cannot allocate {size} bytes: a size must be positive")
        # Linux grants more than it has and kills later; so what is not available is refused here.
        if size > self.memory().free:
            raise OutOfMemory(f"{size} bytes are more than the memory that is available")
        address, locked = allocate(size)
        if not address:
            raise OutOfMemory(f"the system refused {size} bytes")
        self._held[address] = size
        return address, locked

    def free(self, buffer: Buffer | HostBuffer) -> None:
        size = self._held.pop(buffer.address, None)
        if size is None:
            raise DeviceError(f"no buffer at {buffer.address:#x} is held: it was freed before or is not ours")
        release(buffer.address, size)

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        slots, _kept = pack(kernel, tiles, arguments)
        seconds: float = library().mats_host_launch(kernel.encode(), slots, self._workers)
        if seconds < 0:
            raise DeviceError(f"the native module has no kernel {kernel}: reinstall mats")
        return seconds

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        import ctypes

        start, size = plan_copy(destination, source, offset, repeats)
        began = time.perf_counter()
        for _ in range(repeats):
            ctypes.memmove(destination.address + offset, start, size)
        return time.perf_counter() - began

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        import ctypes

        if offset < 0 or size < 0 or offset + size > buffer.size:
            raise DeviceError(f"cannot fetch {size} bytes at offset {offset} of {buffer.size} bytes")
        return ctypes.string_at(buffer.address + offset, size)

    def synchronise(self) -> None:
        """Launches return when they are done: nothing to wait for."""

    def conditions(self) -> Conditions:
        return Conditions(
            temperature=_temperature(),
            core_clock=_clock(),
            memory_clock=Absent(AbsenceKind.NOT_SUPPORTED, "a host does not tell its memory clock"),
            power=Absent(AbsenceKind.NOT_SUPPORTED, "not read on a host"),
            performance_state=Absent(AbsenceKind.NOT_SUPPORTED, "a host has no P-state"),
            ecc="on" if _controllers(self._root) else "not told by the system (no memory controller in EDAC)",
            counters=edac_counters(self._root),
        )

    def host_link(self) -> HostLink:
        none = Absent(AbsenceKind.NOT_SUPPORTED, "the memory is the host's own: no link lies between")
        return HostLink("", *(none,) * 6)

    def nodes(self) -> tuple[MemoryNode, ...]:
        return tuple(each.node for each in read_nodes(self._root))

    def placed(self, near: int, on: int) -> AbstractContextManager[None]:
        processors = {each.node.number: each.processors for each in read_nodes(self._root)}
        return placed(processors.get(near, frozenset()), on)

    def lies_on(self, buffer: Buffer, offset: int) -> int:
        return node_of(buffer.address + offset)

    def holders(self) -> tuple[HeldBy, ...] | str:
        """Nobody: a host's memory is shared by every process, and the headroom is left to them."""
        return ()

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        for address, size in tuple(self._held.items()):
            release(address, size)
        self._held.clear()


def cache_size(root: Path) -> Reading:
    """The largest cache of the first processor, in bytes."""
    found = caches(root)
    if not found:
        return Absent(AbsenceKind.NOT_FOUND, f"no cache is described in /{CPU_CACHE}")
    return Quantity(found[-1][1], Unit.BYTE)


def edac_counters(root: Path) -> tuple[tuple[str, Reading], ...]:
    """Corrected and uncorrected memory errors since boot, summed over the controllers that EDAC knows."""
    found: list[tuple[str, Reading]] = []
    for name, file in (("ecc.corrected", "ce_count"), ("ecc.uncorrected", "ue_count")):
        total, seen = 0, False
        for controller in _controllers(root):
            try:
                total += int((controller / file).read_text())
                seen = True
            except (OSError, ValueError):
                continue
        absent = Absent(AbsenceKind.NOT_FOUND, f"no memory controller reports {file} in /{EDAC}")
        found.append((name, Quantity(total, Unit.COUNT) if seen else absent))
    return tuple(found)


def _controllers(root: Path) -> list[Path]:
    return sorted(path for path in (root / EDAC).glob("mc*") if path.is_dir())


def _processor(root: Path) -> str:
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _temperature() -> Reading:
    import psutil

    read = getattr(psutil, "sensors_temperatures", None)
    sensors = read() if read else {}
    for name in ("k10temp", "coretemp", "zenpower", "cpu_thermal"):
        if sensors.get(name):
            return Quantity(max(entry.current for entry in sensors[name]), Unit.CELSIUS)
    return Absent(AbsenceKind.NOT_FOUND, "the system shows no processor temperature")


def _clock() -> Reading:
    import psutil

    try:
        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        frequency = None
    if frequency is None or not frequency.current:
        return Absent(AbsenceKind.NOT_FOUND, "the system shows no processor clock")
    return Quantity(frequency.current * 1e6, Unit.HERTZ)
