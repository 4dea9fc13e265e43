"""GPUs through CuPy: kernels compiled for the exact device, CUDA events for time, memory straight from the driver.

Memory never comes from CuPy's pool, which would keep it, nor is it managed memory, which may lie in the host. Passive
state comes from NVML, found by UUID; without NVML it is absent and everything else works.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mats.device import (
    Buffer,
    Conditions,
    DeviceError,
    DeviceLost,
    HeldBy,
    HostBuffer,
    HostLink,
    MemoryState,
    OutOfMemory,
)
from mats.devices import _cuda_facts as facts
from mats.devices._cuda_host import HostMemory
from mats.devices._cuda_runtime import COMPILING, Cuda, load, read_uuid
from mats.devices._host_link import LinkReader
from mats.kernel import Kernel, bind, kernel_source, kernels
from mats.model import Absent, TargetInfo
from mats.sources import nvml as nvml_source
from mats.target import Target

PAGE = 2 << 20
"""Bytes of a page of device memory."""
BLOCK = 256
"""Threads of a block: what the kernels are bounded to and share a tile among."""
WAVES = 4
"""Blocks launched for each that fits on the device at once: a block that ends early is then followed by another."""
OPTIONS = ("-std=c++17",)


def discover() -> tuple[TargetInfo, ...]:
    """Every GPU, by index; no context is made on it. Raises DeviceError with the reason when there is none."""
    cuda = load()
    nvml = nvml_source.start()
    try:
        return tuple(facts.describe_device(cuda, nvml, index, f"cuda:{index}") for index in range(cuda.count()))
    finally:
        _shut_down(nvml)


def open_device(target: Target) -> CudaDevice:
    """The GPU that an index, a UUID (or its unique beginning) or a PCI address names.

    Raises DeviceError when it cannot be used, UsageError when the argument names none or several.
    """
    return connect(load(), nvml_source.start(), target)


def connect(cuda: Cuda, nvml: Any | Absent, target: Target) -> CudaDevice:
    """As :func:`open_device`, over a CuPy and an nvml module that are given. The device ends NVML when it closes."""
    try:
        infos = [facts.describe_device(cuda, nvml, index, f"cuda:{index}") for index in range(cuda.count())]
        index = facts.select(target.argument, infos)
        return CudaDevice(cuda, nvml, index, facts.describe_device(cuda, nvml, index, target.name))
    except BaseException:
        _shut_down(nvml)
        raise


def _shut_down(nvml: Any | Absent) -> None:
    if not isinstance(nvml, Absent):
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


@dataclass(frozen=True, slots=True)
class Piece:
    """An allocation as the driver made it: where it begins, which may be ahead of its buffer, and its bytes."""

    base: int
    size: int


@dataclass(frozen=True, slots=True)
class Stream:
    """All that CuPy asks of a stream for a launch; its own class for one that it did not make differs by version."""

    ptr: int


class CudaDevice:
    """One GPU. Each call chooses the device for its thread first, so that several work in parallel threads."""

    def __init__(self, cuda: Cuda, nvml: Any | Absent, index: int, info: TargetInfo) -> None:
        self._cuda = cuda
        self._nvml = nvml
        self._index = index
        self._info = info
        self._gpu = facts.find_gpu(nvml, read_uuid(index))
        self._link = LinkReader(self._gpu, dict(info.identity).get("pci", ""), facts.is_coherent(cuda, index))
        self._lock = threading.Lock()
        self._pieces: dict[int, Piece] = {}
        self._host = HostMemory(cuda.runtime, dict(info.identity).get("pci", ""))
        self._functions: dict[str, Any] = {}
        self._resident: dict[str, int] = {}
        self.waves = WAVES
        self.unit = 1
        """Bytes that an allocation is a whole number of."""
        self._lost = ""
        self._closed = False
        properties = cuda.properties(index)
        self._multiprocessors = int(properties["multiProcessorCount"])
        self._ecc = bool(properties["ECCEnabled"])
        before = facts.list_processes(self._gpu)
        self._events: tuple[int, ...] = ()
        with self.hold("starting work on it"):
            runtime = cuda.runtime
            self._events = tuple(runtime.eventCreateWithFlags(runtime.eventBlockingSync) for _ in range(2))
        self._own = facts.own_numbers(before, facts.list_processes(self._gpu))

    @property
    def index(self) -> int:
        """CUDA's number of it in this process."""
        return self._index

    @property
    def seen(self) -> nvml_source.Gpu | Absent:
        """NVML's door to it."""
        return self._gpu

    @property
    def own_processes(self) -> frozenset[int]:
        """Under which numbers NVML lists this process; empty when not known."""
        return self._own

    def describe(self) -> TargetInfo:
        return self._info

    def memory(self) -> MemoryState:
        with self.hold("asking for its free memory"):
            free, total = self._cuda.runtime.memGetInfo()
        known = self._info.memory_total
        reserved = self._gpu if isinstance(self._gpu, Absent) else nvml_source.read_memory(self._gpu).reserved
        others = facts.memory_of(facts.other_holders(self._gpu, self._own))
        return MemoryState(total if isinstance(known, Absent) else int(known.value), free, reserved, others)

    def allocate(self, size: int) -> Buffer:
        if size <= 0:
            raise DeviceError(f"cannot allocate {size} bytes: a size must be positive")
        whole = -(-size // self.unit) * self.unit
        aligned = whole % PAGE == 0
        with self.hold(f"an allocation of {size} bytes"):
            base = address = int(self._cuda.runtime.malloc(whole))
            if aligned and address % PAGE:  # drivers start such a piece on a page, but do not promise it
                self._cuda.runtime.free(base)
                whole += PAGE
                base = int(self._cuda.runtime.malloc(whole))
                address = -(-base // PAGE) * PAGE
            self._pieces[address] = Piece(base, whole)
        return Buffer(address, size)

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        if size <= 0:
            raise DeviceError(f"cannot allocate {size} bytes: a size must be positive")
        try:
            with self.hold(f"an allocation of {size} bytes of the host's memory"):
                return self._host.allocate(size, pinned)
        except (OutOfMemory, MemoryError) as error:
            raise OutOfMemory(f"the host has no {size} bytes of memory to {'pin' if pinned else 'give'}") from error

    def free(self, buffer: Buffer | HostBuffer) -> None:
        with self.hold("freeing memory"):
            if isinstance(buffer, HostBuffer):
                self._host.free(buffer)
                return
            piece = self._pieces.pop(buffer.address, None)
            if piece is None:
                raise DeviceError(
                    f"no buffer at {buffer.address:#x} is held on {self._info.name}: it was freed before or is not ours"
                )
            self._cuda.runtime.free(piece.base)

    def piece(self, buffer: Buffer) -> Piece:
        """The allocation, as the driver made it, that a buffer lies in."""
        for piece in self._pieces.values():
            if piece.base <= buffer.address and buffer.address + buffer.size <= piece.base + piece.size:
                return piece
        raise DeviceError(f"no buffer at {buffer.address:#x} is held on {self._info.name}")

    def queue(self, kernel: str, stream: int, **arguments: Buffer | int) -> None:
        """Put a kernel of one thread into a stream and go on. The caller holds the device."""
        known = kernels()[kernel]
        self._function(known)((1,), (1,), _scalars(known, 1, arguments), stream=Stream(stream))

    def give_up(self, why: str) -> None:
        """It has not answered: nothing is asked of it any more, so that nobody waits for it."""
        with self._lock:
            self._lost = self._lost or why

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        known = kernels().get(kernel)
        if known is None:
            raise TypeError(f"no kernel named {kernel!r}")
        values = _scalars(known, tiles, arguments)
        with self.hold(f"running the kernel {kernel}"):
            function = self._function(known)
            grid = max(1, min(tiles, self._resident[kernel] * self.waves))
            stream = self._cuda.cupy.cuda.Stream.null
            return self._timed(lambda: function((grid,), (BLOCK,), values, stream=stream))

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        start, size = (_address(source), len(source)) if isinstance(source, bytes) else (source.address, source.size)
        _check_range(destination, offset, size)
        if repeats < 1:
            raise DeviceError(f"a copy cannot be made {repeats} times")
        runtime = self._cuda.runtime
        target, kind = destination.address + offset, _direction(runtime, destination, source)

        def work() -> None:
            for _ in range(repeats):
                runtime.memcpyAsync(target, start, size, kind, 0)

        with self.hold("copying memory"):
            return self._timed(work) if size else 0.0

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        import ctypes

        import numpy

        _check_range(buffer, offset, size)
        start = buffer.address + offset
        if isinstance(buffer, HostBuffer):
            return ctypes.string_at(start, size)
        held = numpy.empty(size, numpy.uint8)
        runtime = self._cuda.runtime
        with self.hold("reading memory back"):
            if size:
                runtime.memcpy(held.ctypes.data, start, size, runtime.memcpyDeviceToHost)
        return held.tobytes()

    def synchronise(self) -> None:
        with self.hold("waiting for it"):
            self._cuda.runtime.deviceSynchronize()

    def conditions(self) -> Conditions:
        return facts.read_conditions(self._gpu, self._ecc)

    def host_link(self) -> HostLink:
        return self._link.read()

    def holders(self) -> tuple[HeldBy, ...] | str:
        return facts.other_holders(self._gpu, self._own)

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Free everything. What a lost device still holds goes with this process, or with its reset."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if not self._lost:
            with contextlib.suppress(DeviceError), self._cuda.errors(self._info.name, "closing it"):
                self._cuda.runtime.setDevice(self._index)
                self._cuda.runtime.deviceSynchronize()
                for event in self._events:
                    self._cuda.runtime.eventDestroy(event)
            for piece in tuple(self._pieces.values()):
                with contextlib.suppress(DeviceError), self._cuda.errors(self._info.name, "closing it"):
                    self._cuda.runtime.free(piece.base)
            for address in self._host.pinned:
                with contextlib.suppress(DeviceError), self._cuda.errors(self._info.name, "closing it"):
                    self._cuda.runtime.freeHost(address)
        self._pieces.clear()
        self._host.forget()
        self._events = ()
        self._functions.clear()
        _shut_down(self._nvml)

    @contextlib.contextmanager
    def hold(self, doing: str) -> Iterator[None]:
        """One call at a time, on this device, with its errors in our words; after a loss every call says so again.

        Also for what puts work on several devices (:mod:`mats.devices._cuda_fabric`).
        """
        with self._lock:
            if self._lost:
                raise DeviceLost(self._lost)
            if self._closed:
                raise DeviceError(f"{self._info.name} is closed")
            try:
                with self._cuda.errors(self._info.name, doing):
                    self._cuda.runtime.setDevice(self._index)
                    yield
            except DeviceLost as lost:
                self._lost = str(lost)
                raise

    def _timed(self, work: Callable[[], object]) -> float:
        """Seconds that ``work``, once started, takes on the device.

        Waiting for the second event is also what brings an error of a kernel to light.
        """
        runtime = self._cuda.runtime
        start, end = self._events
        runtime.eventRecord(start, 0)
        work()
        runtime.eventRecord(end, 0)
        runtime.eventSynchronize(end)
        return float(runtime.eventElapsedTime(start, end)) / 1e3

    def _function(self, kernel: Kernel) -> Any:
        """The compiled kernel; CuPy keeps it by source and architecture, also from one run to the next."""
        if kernel.name not in self._functions:
            with COMPILING:
                module = self._cuda.cupy.RawModule(code=kernel_source(kernel.file), options=OPTIONS, backend="nvrtc")
                function = module.get_function(kernel.name)
                compiled = function.kernel
            resident = self._cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(compiled.ptr, BLOCK, 0)
            self._resident[kernel.name] = max(1, int(resident)) * self._multiprocessors
            self._functions[kernel.name] = function
        return self._functions[kernel.name]


def _scalars(kernel: Kernel, tiles: int, arguments: dict[str, Buffer | int]) -> tuple[Any, ...]:
    """The arguments in the kernel's order, each in its exact width. Raises TypeError."""
    import numpy

    types = {"u32": numpy.uint32, "u64": numpy.uint64}
    bound = bind(kernel, tiles, arguments)
    return tuple((numpy.uint64 if parameter.pointer else types[parameter.type])(value) for parameter, value in bound)


def _address(data: bytes) -> int:
    import numpy

    return int(numpy.frombuffer(data, numpy.uint8).ctypes.data)


def _direction(runtime: Any, destination: Buffer | HostBuffer, source: Buffer | HostBuffer | bytes) -> int:
    """CUDA's word for the way from ``source`` to ``destination``."""
    if isinstance(source, Buffer):
        kind = runtime.memcpyDeviceToDevice if isinstance(destination, Buffer) else runtime.memcpyDeviceToHost
    else:
        kind = runtime.memcpyHostToDevice if isinstance(destination, Buffer) else runtime.memcpyHostToHost
    return int(kind)


def _check_range(buffer: Buffer | HostBuffer, offset: int, size: int) -> None:
    if offset < 0 or size < 0 or offset + size > buffer.size:
        raise DeviceError(f"bytes {offset} to {offset + size} are not within a buffer of {buffer.size}")
