"""Memory of a GPU lent to another process of this machine, by CUDA's own handles (IPC).

A handle stands for a whole allocation as the driver made it, so that what goes to the other process is the handle, the
distance of the buffer from its beginning, and the GPU's UUID: numbers of GPUs differ between processes. The driver
makes small allocations out of a larger one and would lend all of that; a device that lends allocates whole pages.

Calls and errors: NVIDIA's CUDA Runtime API reference, and the CUDA programming guide on interprocess communication.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mats.device import Buffer, Device, DeviceError
from mats.devices import _cuda_fabric, cuda
from mats.devices import _cuda_facts as facts
from mats.devices._cuda_runtime import Cuda, index_of, load
from mats.devices.cuda import CudaDevice
from mats.fabric import Fabric
from mats.peer.lending import Member
from mats.target import Target

OpenDevice = Callable[[Target], Device]
HANDLE_BYTES = 64
_CONTAINERS = (
    "processes in containers need one PID and IPC namespace for it (docker: --ipc=host --pid=host, or both in one)"
)
_ADVICE = {
    1: "the driver does not know the handle: the memory was freed, or its process has ended",
    201: "the driver does not open it here: it was made by this very process, or the GPU has no context here",
    304: f"the operating system refused it: {_CONTAINERS}",
    400: f"the driver does not know the handle here: its process has ended, or its GPU is hidden; {_CONTAINERS}",
    801: "the driver lends no memory of this GPU",
}
"""What an error means where memory is lent or opened; the others mean what they mean in any call."""
_PLACEMENTS = {
    "MIG": "it is a MIG instance, whose memory is not lent across instances",
    "vGPU": "it is a virtual GPU, which lends memory only where its host allows it",
    "WDDM": "Windows' display driver model moves memory, and does not lend it",
    "WSL": "WSL does not offer it",
    "integrated": "an integrated GPU has no memory of its own to lend",
}


@dataclass(frozen=True, slots=True)
class Handle:
    """What another process needs: CUDA's handle as hexadecimal digits, and where in its memory the buffer lies.

    ``process``: which process made it, so that it is not opened there, where CUDA refuses it.
    """

    process: str
    uuid: str
    offset: int
    size: int
    cuda: str


def parse_handle(data: bytes) -> Handle:
    """Raises DeviceError for what is no handle."""
    try:
        made = Handle(**json.loads(data))
        named = isinstance(made.process, str) and isinstance(made.uuid, str)
        whole = named and len(bytes.fromhex(made.cuda)) == HANDLE_BYTES
        placed = all(type(number) is int and number >= 0 for number in (made.offset, made.size))
    except (ValueError, TypeError) as error:
        raise DeviceError(f"what the other process sent is no handle of GPU memory: {error}") from None
    if not whole or not placed:
        raise DeviceError("what the other process sent is no handle of GPU memory: it is incomplete")
    return made


def this_process(root: Path = Path("/")) -> str:
    """What tells this process from every other one of the machine, also of those in other containers."""
    try:
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(root / "proc/self/ns/pid")
    except OSError:  # not Linux
        boot = namespace = ""
    return f"{boot} {namespace} {os.getpid()}"


class CudaLending:
    """Implements :class:`mats.peer.lending.Lending` for one GPU that is open in this process."""

    def __init__(self, runtime: Cuda, device: CudaDevice) -> None:
        self._cuda = runtime
        self._device = device
        self._info = device.describe()
        self._opened: dict[int, list[int]] = {}
        device.unit = cuda.PAGE

    def export(self, buffer: Buffer) -> bytes:
        piece = self._device.piece(buffer)
        if piece.size % cuda.PAGE:
            raise DeviceError(
                f"{self._info.name}: memory of {piece.size} bytes is not lent: "
                "the driver would lend what else it made of the same page"
            )
        with self._device.hold("lending memory"), self._words("lending memory"):
            raw = bytes(self._cuda.runtime.ipcGetMemHandle(piece.base))
        made = Handle(this_process(), self._info.uuid, buffer.address - piece.base, buffer.size, raw.hex())
        return json.dumps(asdict(made)).encode()

    def withdraw(self, buffer: Buffer) -> None:
        """CUDA keeps nothing for a handle: the end of the memory is its end."""
        self._device.piece(buffer)

    def open(self, handle: bytes, size: int) -> Buffer:
        made = parse_handle(handle)
        if made.process == this_process():
            raise DeviceError("memory of this very process cannot be borrowed: server and client must be two processes")
        if size > made.size:
            raise DeviceError(f"the other process lends {made.size} bytes, not {size}")
        index_of(self._cuda, made.uuid)
        with self._device.hold("opening memory of another process"), self._words("opening memory of another process"):
            base = int(self._cuda.runtime.ipcOpenMemHandle(bytes.fromhex(made.cuda)))
        buffer = Buffer(base + made.offset, size)
        self._opened.setdefault(buffer.address, []).append(base)
        return buffer

    def close(self, buffer: Buffer) -> None:
        bases = self._opened.get(buffer.address)
        if not bases:
            raise DeviceError(f"no memory of another process is open at {buffer.address:#x}")
        base = bases.pop()
        if not bases:
            del self._opened[buffer.address]
        with self._device.hold("closing memory of another process"), self._words("closing memory of another process"):
            self._cuda.runtime.ipcCloseMemHandle(base)

    @contextlib.contextmanager
    def _words(self, doing: str) -> Iterator[None]:
        """What CUDA says of lending, in words; what it says of any call goes on as it is."""
        try:
            yield
        except self._cuda.runtime.CUDARuntimeError as error:
            why = _PLACEMENTS.get(dict(self._info.identity).get("placement", "")) or _ADVICE.get(error.status)
            if why is None:
                raise
            raise DeviceError(f"{self._info.name}: {doing} failed: {why} ({error})") from error


def open_family(target: Target, open_device: OpenDevice = cuda.open_device) -> CudaFamily:
    """The GPUs of this machine, of which two processes each take one. Raises DeviceError where there is none."""
    return CudaFamily(load(), target.name, open_device)


class CudaFamily:
    """Implements :class:`mats.peer.lending.Family`."""

    def __init__(self, runtime: Cuda, name: str, open_device: OpenDevice) -> None:
        self._cuda = runtime
        self._name = name
        self._open_device = open_device

    def open_member(self, name: str) -> Member:
        device = self._open_device(Target("cuda", name))
        if not isinstance(device, CudaDevice):
            raise TypeError(f"{name} was opened as {type(device).__name__}, which is no GPU")
        return Member(device, CudaLending(self._cuda, device))

    def find(self, name: str) -> str:
        infos = cuda.discover()
        uuid = infos[facts.select(name, infos)].uuid
        if not uuid:
            raise DeviceError(f"the driver does not tell the UUID of cuda:{name}, by which two processes know a GPU")
        return uuid

    def join(self, members: Sequence[Device]) -> Fabric:
        return _cuda_fabric.join(members, self._name)
