"""The nodes of a host's memory (NUMA): which there are, and how to work from one node on another's memory.

A page lies on the node that the thread which touches it first prefers; threads that it starts inherit where it may run.
Sources: Linux set_mempolicy(2), get_mempolicy(2), sched_setaffinity(2), Documentation/ABI/stable/sysfs-devices-node.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mats.device import DeviceError, MemoryNode
from mats.devices._cuda_host import parse_processors

NODES = "sys/devices/system/node"
DEFAULT, PREFERRED = 0, 1
OF_ADDRESS = 3
"""MPOL_F_NODE | MPOL_F_ADDR: on which node an address lies."""
MASK_BITS = 1024
_CALLS = {"x86_64": (238, 239), "aarch64": (237, 236)}
"""Numbers of set_mempolicy and get_mempolicy."""
_FREE = re.compile(r"MemFree:\s+(\d+) kB")

Call = Callable[..., int]
"""A system call by its number; gives the negative error number where it fails."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """A node and the numbers of its processors."""

    node: MemoryNode
    processors: frozenset[int]


def read_nodes(root: Path) -> tuple[HostNode, ...]:
    """The nodes that have memory, as the system's tree tells; none where it tells nothing."""
    found = []
    for folder in (root / NODES).glob("node[0-9]*"):
        try:
            processors = parse_processors((folder / "cpulist").read_text())
            free = _FREE.search((folder / "meminfo").read_text())
            number = int(folder.name.removeprefix("node"))
        except (OSError, ValueError):
            continue
        if free:
            found.append(HostNode(MemoryNode(number, len(processors), int(free[1]) << 10), processors))
    return tuple(sorted(found, key=lambda each: each.node.number))


def system_call(number: int, *arguments: object) -> int:
    """A call of the C library's ``syscall``."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    answer = int(library.syscall(ctypes.c_long(number), *arguments))
    return answer if answer >= 0 else -ctypes.get_errno()


def prefer(node: int | None, call: Call = system_call, machine: str = platform.machine()) -> None:
    """From now on this thread's new pages lie on ``node`` where it has room; None: as the system does. Raises."""
    number, _ = _numbers(machine)
    if node is None:
        answer = call(number, ctypes.c_int(DEFAULT), None, ctypes.c_ulong(0))
    else:
        mask = (ctypes.c_ulong * (MASK_BITS // 64))()
        mask[node // 64] = 1 << node % 64
        answer = call(number, ctypes.c_int(PREFERRED), ctypes.byref(mask), ctypes.c_ulong(MASK_BITS + 1))
    if answer < 0:
        raise DeviceError(f"the system does not let memory be placed on a node: {os.strerror(-answer)}")


def node_of(address: int, call: Call = system_call, machine: str = platform.machine()) -> int:
    """The node on which the page at this address lies. Raises DeviceError."""
    _, number = _numbers(machine)
    found = ctypes.c_int(-1)
    answer = call(
        number, ctypes.byref(found), None, ctypes.c_ulong(0), ctypes.c_void_p(address), ctypes.c_ulong(OF_ADDRESS)
    )
    if answer < 0:
        raise DeviceError(f"the system does not tell on which node memory lies: {os.strerror(-answer)}")
    return int(found.value)


def _numbers(machine: str) -> tuple[int, int]:
    if machine not in _CALLS:
        raise DeviceError(f"how memory is placed on nodes is not known for processors of kind {machine}")
    return _CALLS[machine]


@contextlib.contextmanager
def placed(
    processors: frozenset[int], node: int, call: Call = system_call, machine: str = platform.machine()
) -> Iterator[None]:
    """Let this thread, and those it starts, run on these processors, with new pages on ``node``. Raises DeviceError."""
    allowed = os.sched_getaffinity(0)
    if not processors & allowed:
        raise DeviceError("this process may not run on the processors of that node")
    prefer(node, call, machine)
    try:
        os.sched_setaffinity(0, processors & allowed)
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        prefer(None, call, machine)
