"""A simulated card: the kernels' own sources run on the CPU, every access passing a fault model.

Its clock is simulated (bytes moved / bandwidth), its memory small: a full pass takes as long as on a real card. Every
report of it is stamped SIMULATED.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from dataclasses import astuple
from pathlib import Path

from mats.device import Buffer, Conditions, DeviceError, HeldBy, HostBuffer, HostLink, MemoryState, OutOfMemory
from mats.devices._fabric_plans import FABRIC_EXAMPLE
from mats.devices._library import allocate, library, pack, plan_copy, release
from mats.devices._plan_files import EXAMPLE, parse_plan
from mats.devices._plans import (
    DEFAULT_GEOMETRY,
    FAULT_KINDS,
    GEOMETRIES,
    MIB,
    Plan,
    built_in,
    layout,
    plan_names,
)
from mats.devices._sim_drivers import DRIVER_EXAMPLE, driver_plans, is_driver_only, no_memory
from mats.devices._sim_link import AWAKE_SECONDS, LINK_EXAMPLE
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo, Unit
from mats.probe import UsageError
from mats.target import Target

PAGE = 2 << 20
LAUNCH_SECONDS = 10e-6
BLOCKS = 4
CACHE = 256 << 10


class _Geometry(ctypes.Structure):
    _fields_ = (
        ("channel_bits", ctypes.c_ulonglong),
        ("masks", ctypes.c_ulonglong * 8),
        ("groups", ctypes.c_ulonglong),
        ("banks", ctypes.c_ulonglong),
        ("row_bytes", ctypes.c_ulonglong),
    )


class _Fault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("mask", ctypes.c_ulonglong),
        ("value", ctypes.c_ulonglong),
        ("threshold", ctypes.c_ulonglong),
        ("probability", ctypes.c_double),
        ("after", ctypes.c_double),
        ("channel", ctypes.c_ulonglong),
        ("bank", ctypes.c_ulonglong),
        ("row", ctypes.c_ulonglong),
        ("column", ctypes.c_ulonglong),
        ("sector", ctypes.c_ulonglong),
        ("word", ctypes.c_ulonglong),
        ("page", ctypes.c_ulonglong),
        ("factor", ctypes.c_double),
    )


def plans() -> tuple[tuple[str, str], ...]:
    """What ``sim:`` can be, for ``mats explain sim``, as (name, summary): memories, geometries, drivers."""
    return memory_plans() + driver_plans()


def memory_plans() -> tuple[tuple[str, str], ...]:
    """Plans of memories and the geometries they can have."""
    shapes = tuple((f"PLAN@{shape.name}", shape.title) for shape in GEOMETRIES.values())
    return plan_names() + shapes


def plan_example() -> str:
    """A plan and a driver of the user's own, for ``mats explain sim``, and the kinds of fault."""
    kinds = f"# Kinds of fault: {', '.join(FAULT_KINDS[:7])},\n# {', '.join(FAULT_KINDS[7:])}"
    return f"{EXAMPLE}\n{kinds}\n\n{LINK_EXAMPLE}\n{FABRIC_EXAMPLE}\n{DRIVER_EXAMPLE}"


def find_plan(argument: str) -> Plan:
    """The plan that ``sim:ARGUMENT`` names: NAME, NAME@GEOMETRY or a file ending in .toml. Raises UsageError."""
    if argument.endswith(".toml"):
        try:
            text = Path(argument).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the plan {argument}: {getattr(error, 'strerror', None) or error}") from error
        return parse_plan(text, argument)
    name, _, geometry = argument.partition("@")
    return built_in(name, geometry=geometry or DEFAULT_GEOMETRY)


def open_device(target: Target) -> SimDevice:
    """The simulated card of ``sim:PLAN``. Raises UsageError for a bad plan, DeviceError without memory or module."""
    if is_driver_only(target.argument):
        raise no_memory(target.argument)
    return SimDevice(find_plan(target.argument), target.name)


class SimDevice:
    """Implements :class:`mats.device.Device` over one plan."""

    def __init__(self, plan: Plan, name: str = "") -> None:
        self._plan = plan
        self._name = name or f"sim:{plan.name}"
        self._clock = 0.0
        self._carried = -math.inf
        self._replays = 0.0
        self._reserved = plan.capacity // 64  # what a simulated driver keeps for itself
        self._random = random.Random(plan.seed)
        self._held: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.layout = layout(plan.geometry, plan.capacity, plan.seed)
        self._free_slots = list(range(plan.capacity // PAGE))
        self._model = self._create()

    def _create(self) -> int:
        shape = self._plan.geometry
        masks = (ctypes.c_ulonglong * 8)(*self.layout.masks)
        geometry = _Geometry(shape.channel_bits, masks, shape.groups, shape.banks, shape.row_bytes)
        faults = (_Fault * max(len(self._plan.faults), 1))()
        for slot, fault in zip(faults, self._plan.faults, strict=False):
            kind, *numbers = astuple(fault)
            values = iter((FAULT_KINDS.index(kind), 0, *numbers))
            for (field, _), value in zip(_Fault._fields_, values, strict=True):
                setattr(slot, field, value)
        created: int = library().mats_sim_create(
            ctypes.byref(geometry), faults, len(self._plan.faults), self._plan.seed
        )
        return created

    def describe(self) -> TargetInfo:
        plan = self._plan
        return TargetInfo(
            name=self._name,
            kind="sim",
            title=f"simulated card, plan {plan.name} ({plan.geometry.title})",
            memory_total=Quantity(plan.capacity + self._reserved, Unit.BYTE),
            cache_size=Quantity(CACHE, Unit.BYTE),
            peak_bandwidth=Quantity(plan.peak, Unit.BYTE_PER_SECOND),
            peak_formula="the plan's own figure",
            identity=(
                ("plan", plan.name),
                ("geometry", plan.geometry.name),
                ("summary", plan.summary),
                ("multiprocessors", str(BLOCKS)),
            ),
            simulated=True,
            origin_kind="sim",
        )

    def memory(self) -> MemoryState:
        used = 0 if self._plan.spilled else sum(size for size, _ in self._held.values() if size >= PAGE)
        return MemoryState(
            total=self._plan.capacity + self._reserved,
            free=self._plan.capacity - used,
            reserved=Quantity(self._reserved, Unit.BYTE),
            others=Quantity(0, Unit.BYTE),
        )

    def allocate(self, size: int) -> Buffer:
        if size <= 0:
            raise DeviceError(f"cannot allocate {size} bytes: a size must be positive")
        pages = size // PAGE if size % PAGE == 0 else 0  # small buffers lie outside of the simulated array
        if pages > len(self._free_slots):
            raise OutOfMemory(f"{size} bytes are more than the {len(self._free_slots) * PAGE} that are free")
        address, _ = allocate(size)
        if not address:
            raise OutOfMemory("the machine that simulates has no memory left")
        slots = tuple(self._free_slots[:pages])
        del self._free_slots[:pages]
        self._held[address] = (size, slots)
        if pages:
            numbers = itertools.chain.from_iterable((slot, self.layout.pages[slot]) for slot in slots)
            library().mats_sim_map(self._model, address, size, (ctypes.c_ulonglong * (2 * pages))(*numbers))
        return Buffer(address, size)

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        """Memory of the machine that simulates; that it is pinned shows in the simulated time alone."""
        if size <= 0:
            raise DeviceError(f"cannot allocate {size} bytes: a size must be positive")
        address, _ = allocate(size)
        if not address:
            raise OutOfMemory("the machine that simulates has no memory left")
        self._held[address] = (size, ())
        return HostBuffer(address, size, pinned)

    def free(self, buffer: Buffer | HostBuffer) -> None:
        if buffer.address not in self._held:
            raise DeviceError(f"no buffer at {buffer.address:#x} is held: it was freed before or is not ours")
        size, slots = self._held.pop(buffer.address)
        library().mats_sim_unmap(self._model, buffer.address)
        self._free_slots = sorted((*self._free_slots, *slots))
        release(buffer.address, size)

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        slots, _kept = pack(kernel, tiles, arguments)
        library().mats_sim_time(self._model, self._clock)
        moved = library().mats_sim_call(self._model, kernel.encode(), slots, BLOCKS)
        if moved < 0:
            raise DeviceError(f"the native module has no kernel {kernel}: reinstall mats")
        if self._plan.corrupt_counters and "report" in arguments:
            self._damage(arguments["report"])
        walked: float = library().mats_sim_walked(self._model)
        self._clock += walked
        return self._spend(moved) + walked

    def _damage(self, report: Buffer | int) -> None:
        # The first word of a report counts failed words: a tester whose counters lie in damaged memory.
        if isinstance(report, Buffer):
            word = ctypes.c_ulonglong.from_address(report.address)
            word.value |= 1 << 60

    def _spend(self, moved: int) -> float:
        plan = self._plan
        bandwidth = plan.peak * (0.05 if plan.spilled else 0.9)
        if plan.slow_after and self._clock > plan.slow_after:
            bandwidth *= plan.slow_factor
        seconds = LAUNCH_SECONDS + moved / bandwidth * self._random.uniform(0.99, 1.01)
        self._clock += seconds
        return seconds

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        """As on a card: what comes from its memory passes its faults. Repeats cost their time, and move data once."""
        start, size = plan_copy(destination, source, offset, repeats)
        if isinstance(source, Buffer) and isinstance(destination, HostBuffer):
            start = self.fetch(source, 0, size)
        ctypes.memmove(destination.address + offset, start, size)
        if isinstance(source, Buffer) and isinstance(destination, Buffer):
            return sum(self._spend(2 * size) for _ in range(repeats))
        host = destination if isinstance(destination, HostBuffer) else source
        pinned = isinstance(host, HostBuffer) and host.pinned
        self._damage_on_way(destination.address + offset, size)
        return self._carry(size, repeats, pinned)

    def _damage_on_way(self, address: int, size: int) -> None:
        flips = self._plan.link.flips * size / MIB
        for _ in range(int(flips + self._random.random()) if flips else 0):
            at = address + self._random.randrange(size)
            ctypes.c_ubyte.from_address(at).value ^= 1 << self._random.randrange(8)

    def _carry(self, size: int, repeats: int, pinned: bool) -> float:
        """Seconds of copies between the card and the host."""
        one = self._plan.link.seconds(size, pinned)
        seconds = sum(one * self._random.uniform(0.99, 1.01) for _ in range(repeats))
        self._clock += seconds
        self._carried = self._clock
        self._replays += self._plan.link.replays * size * repeats / MIB
        return seconds

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > buffer.size:
            raise DeviceError(f"cannot fetch {size} bytes at offset {offset} of {buffer.size} bytes")
        start, end = offset // 8 * 8, -(-(offset + size) // 8) * 8
        words = (ctypes.c_ulonglong * ((end - start) // 8))()
        library().mats_sim_time(self._model, self._clock)
        library().mats_sim_fetch(self._model, buffer.address + start, words, len(words))
        return bytes(words)[offset - start : offset - start + size]

    def synchronise(self) -> None:
        """Launches return when they are done: nothing to wait for."""

    def conditions(self) -> Conditions:
        absent = Absent(AbsenceKind.NOT_SUPPORTED, "the simulated card does not tell")
        return Conditions(
            temperature=Quantity(self._plan.temperature + min(self._clock, 10.0), Unit.CELSIUS),
            core_clock=Quantity(1.5e9, Unit.HERTZ),
            memory_clock=Quantity(2.0e9, Unit.HERTZ),
            power=absent,
            performance_state=Quantity(0, Unit.COUNT),
            ecc="off",
            counters=(),
        )

    def host_link(self) -> HostLink:
        awake = self._clock - self._carried < AWAKE_SECONDS
        return self._plan.link.read(awake, int(self._replays))

    def holders(self) -> tuple[HeldBy, ...] | str:
        return ()

    def now(self) -> float:
        return self._clock

    def wait(self, seconds: float) -> None:
        self._clock += seconds

    def close(self) -> None:
        for address, (size, _) in tuple(self._held.items()):
            library().mats_sim_unmap(self._model, address)
            release(address, size)
        self._held.clear()
        if self._model:
            library().mats_sim_destroy(self._model)
            self._model = 0
