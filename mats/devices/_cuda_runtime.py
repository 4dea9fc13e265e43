"""CuPy as it is used here: loaded when first needed, and its failures turned into those of the device protocol."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mats.device import DeviceError
from mats.devices._cuda_errors import NO_DEVICE, NO_DRIVER, classify, unusable

UUID_BYTES = 16
COMPILING = threading.Lock()
"""Held while a kernel is compiled: CuPy loads the compiler with the first one, and not safely from several threads."""


DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@dataclass(frozen=True, slots=True)
class Cuda:
    """The parts of CuPy that are used: ``runtime`` is cupy.cuda.runtime, ``driver`` is cupy.cuda.driver."""

    cupy: Any
    runtime: Any
    driver: Any

    @contextlib.contextmanager
    def errors(self, device: str, doing: str) -> Iterator[None]:
        """Turns CuPy's errors into one sentence each. Raises DeviceError, OutOfMemory or DeviceLost."""
        try:
            yield
        except (self.runtime.CUDARuntimeError, self.driver.CUDADriverError) as error:
            raise classify(error.status, str(error), device, doing) from error
        except self.cupy.cuda.compiler.CompileException as error:
            first = str(error).strip().splitlines()[0]
            raise DeviceError(f"{device}: {doing} failed: the kernel could not be compiled: {first}") from error
        except (RuntimeError, ImportError) as error:  # CuPy's words for a library it cannot load
            first = str(error).strip().splitlines()[0]
            advice = "install CuPy with its CUDA libraries (pip install nvidia-cuda-nvrtc) or the CUDA toolkit"
            raise DeviceError(f"{device}: {doing} failed: {first}; {advice}") from error

    def count(self) -> int:
        """How many GPUs there are, at least one. Raises DeviceError with the reason when none can be used."""
        try:
            found = int(self.runtime.getDeviceCount())
        except self.runtime.CUDARuntimeError as error:
            raise self._unusable(error.status, str(error)) from error
        if not found:
            raise self._unusable(NO_DEVICE, "the driver counts 0 devices")
        return found

    def _unusable(self, status: int, text: str) -> DeviceError:
        versions = self.runtime.driverGetVersion(), self.runtime.runtimeGetVersion()
        return unusable(status, text, *versions, os.environ.get("CUDA_VISIBLE_DEVICES"))

    def properties(self, index: int) -> dict[str, Any]:
        """The device's properties by CuPy's names for them; reading them makes no context. Raises DeviceError."""
        with self.errors(f"cuda:{index}", "reading its properties"):
            return dict(self.runtime.getDeviceProperties(index))


def load() -> Cuda:
    """CuPy, ready. Raises DeviceError when it is not installed or does not load.

    GPUs are counted in the order of their PCI addresses, as nvidia-smi does, unless the user says otherwise.
    """
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        cupy = importlib.import_module("cupy")
    except ModuleNotFoundError as error:
        if not _has_driver():  # then CuPy would not help
            raise DeviceError(NO_DRIVER) from error
        raise DeviceError(
            "cuda targets need CuPy: install gpu-mats[cuda13], or gpu-mats[cuda12] for a driver of CUDA 12"
        ) from error
    except ImportError as error:
        first = str(error).strip().splitlines()[0]
        raise DeviceError(f"CuPy is installed but does not load: {first}") from error
    return Cuda(cupy, cupy.cuda.runtime, cupy.cuda.driver)


def _has_driver() -> bool:
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def read_uuid(index: int) -> str:
    """The UUID of the device with this CUDA index, as 8-4-4-4-12 digits without prefix; empty when refused.

    Asked of the driver itself, since CuPy cuts the UUID in its device properties at the first zero byte.
    """
    try:
        library = ctypes.CDLL(DRIVER)
        question = getattr(library, "cuDeviceGetUuid_v2", None) or library.cuDeviceGetUuid
    except (OSError, AttributeError):
        return ""
    device, raw = ctypes.c_int(), (ctypes.c_ubyte * UUID_BYTES)()
    refused = library.cuInit(0) or library.cuDeviceGet(ctypes.byref(device), index) or question(raw, device)
    digits = bytes(raw).hex()
    return "" if refused else "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def index_of(cuda: Cuda, uuid: str) -> int:
    """CUDA's number in this process of the GPU with this UUID. Raises DeviceError where it is hidden from it."""
    digits = uuid.removeprefix("GPU-").removeprefix("MIG-")
    for index in range(cuda.count()):
        if digits and read_uuid(index) == digits:
            return index
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f": CUDA_VISIBLE_DEVICES is {visible!r} here; name both GPUs in it"
    raise DeviceError(f"the other process's GPU {uuid or 'without a UUID'} is not visible here{hidden}")
