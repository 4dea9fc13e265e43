"""Host memory for a GPU: pinned by the driver, or plain, and where the system allows it on the GPU's own node.

The node is that of the processors that the system lists beside the GPU's PCI address: a page lies on the node of the
processor that touches it first, and a way through another node would be taken for a slow link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mats.device import DeviceError, HostBuffer, OutOfMemory
from mats.devices._host_memory import available

DEVICES = "sys/bus/pci/devices"


class HostMemory:
    """What one device holds of the host's memory. ``runtime`` is cupy.cuda.runtime; ``pci``: the GPU's address."""

    def __init__(self, runtime: Any, pci: str, root: Path = Path("/")) -> None:
        self._runtime = runtime
        self._near = nearby(pci, root)
        self._root = root
        self._pinned: set[int] = set()
        self._plain: dict[int, Any] = {}

    def allocate(self, size: int, pinned: bool) -> HostBuffer:
        """Raises OutOfMemory; an error of CUDA comes as CuPy's."""
        import numpy

        # Linux grants more than it has and kills later, and what is pinned cannot give way to others.
        if size > available(self._root) // 2:
            raise OutOfMemory(f"{size} bytes are more than half of the host's memory that is available")
        with running_on(self._near):
            if pinned:
                address = int(self._runtime.hostAlloc(size, self._runtime.hostAllocDefault))
                self._pinned.add(address)
            else:
                pages = numpy.empty(size, numpy.uint8)
                pages.fill(0)  # so that each page is there and not the same page of zeros
                address = int(pages.ctypes.data)
                self._plain[address] = pages
        return HostBuffer(address, size, pinned)

    def free(self, buffer: HostBuffer) -> None:
        """Raises DeviceError for what is not held; an error of CUDA comes as CuPy's."""
        if buffer.address in self._plain:
            del self._plain[buffer.address]
        elif buffer.address in self._pinned:
            self._pinned.remove(buffer.address)
            self._runtime.freeHost(buffer.address)
        else:
            raise DeviceError(f"no host memory at {buffer.address:#x} is held: it was freed before or is not ours")

    @property
    def pinned(self) -> tuple[int, ...]:
        """Addresses of what the driver still holds for us."""
        return tuple(self._pinned)

    def forget(self) -> None:
        """Let go of plain memory; pinned memory is the driver's to give back."""
        self._plain.clear()
        self._pinned.clear()


def nearby(pci: str, root: Path) -> frozenset[int]:
    """Numbers of the processors next to the device with this PCI address; none where the system does not tell."""
    try:
        return parse_processors((root / DEVICES / pci / "local_cpulist").read_text())
    except (OSError, ValueError):
        return frozenset()


def parse_processors(text: str) -> frozenset[int]:
    """Numbers in the kernel's own form, such as ``0-3,8``. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


@contextlib.contextmanager
def running_on(processors: frozenset[int]) -> Iterator[None]:
    """Let this thread run on these processors only; without effect where none of them is allowed to it."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    wanted = processors & allowed
    if not wanted:
        yield
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
