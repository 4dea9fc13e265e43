"""Reads what NVIDIA's driver tells of its GPUs, through NVML; a call that fails makes one value absent and no other.

:func:`read_machine`, :func:`begin` and :class:`Sampler` ask through a child process, so that a hanging driver hangs
neither. The functions over a :class:`Gpu` ask in this process, of a GPU that is being worked on, and take the nvml
module, so that a test can give its own. Only nvidia-ml-py is meant: older packages that bring a module of the same
name are refused.
Calls, support and errors: NVIDIA's NVML API reference.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mats.facts import GpuFacts
from mats.model import AbsenceKind, Absent
from mats.sources._nvml_answers import CLOCK_REASONS, MEGAHERTZ, failure, full_name, text
from mats.sources._nvml_child import Asker, outdated
from mats.sources._nvml_library import Library
from mats.sources._nvml_machine import Reading, Sampler, begin, read_machine
from mats.sources._nvml_memory import read_ecc, read_memory, read_remap
from mats.sources._nvml_state import (
    read_clocks,
    read_held,
    read_memory_clock_maximum,
    read_performance_state,
    read_power,
    read_processes,
    read_temperature,
)

__all__ = [
    "CLOCK_REASONS",
    "MEGAHERTZ",
    "Gpu",
    "Library",
    "Reading",
    "Sampler",
    "begin",
    "find",
    "read_clocks",
    "read_driver",
    "read_ecc",
    "read_gpu",
    "read_held",
    "read_machine",
    "read_memory",
    "read_memory_clock_maximum",
    "read_peer_status",
    "read_performance_state",
    "read_power",
    "read_processes",
    "read_remap",
    "read_temperature",
    "start",
]

PEER_READ = 0
"""NVML_P2P_CAPS_INDEX_READ, which the Python package holds as a tuple."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that NVML knows, asked in this process."""

    nvml: Any
    handle: Any
    uuid: str

    def ask(self, what: str, call: str, *arguments: Any) -> Any | Absent:
        """The answer as plain Python, or absent with ``what`` and why."""
        return _ask(Asker(self.nvml, {self.uuid: self.handle}), self.uuid, what, full_name(call), *arguments)

    def ahead(self, call: str, arguments: Iterable[tuple[Any, ...]]) -> None:
        """Nothing is gained by it in one process."""


def start(load: Callable[[str], Any] = importlib.import_module) -> Any | Absent:
    """The nvml module, initialised, or absent with the reason. Each start wants one ``nvmlShutdown``."""
    try:
        with warnings.catch_warnings():  # of a package named pynvml that only leads to nvidia-ml-py
            warnings.simplefilter("ignore", FutureWarning)
            nvml = load("pynvml")
    except ImportError:
        return Absent(AbsenceKind.NOT_FOUND, "NVML: the Python package nvidia-ml-py is not installed")
    if outdated(nvml):
        return Absent(AbsenceKind.MISSING_SYMBOL, f"NVML: {outdated(nvml)}")
    started = _ask(Asker(nvml), None, "NVML", "nvmlInit")
    return started if isinstance(started, Absent) else nvml


def find(nvml: Any, uuid: str) -> Gpu | Absent:
    """The GPU with this UUID; temperatures and counters are never matched by index."""
    try:
        return Gpu(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid), uuid)
    except nvml.NVMLError as error:
        return failure("NVML", int(error.value), str(error))


def read_gpu(gpu: Gpu) -> GpuFacts:
    """What is looked at while a GPU is worked on."""
    return GpuFacts(
        uuid=gpu.uuid,
        name=text(gpu.ask("name", "Name")),
        driver=read_driver(gpu.nvml),
        temperature=read_temperature(gpu),
        power=read_power(gpu),
        performance_state=read_performance_state(gpu),
        clocks=read_clocks(gpu),
        ecc=read_ecc(gpu),
        remap=read_remap(gpu),
        memory=read_memory(gpu),
        processes=read_processes(gpu),
    )


def read_peer_status(gpu: Gpu, other: str) -> int | None:
    """NVML's number for whether ``gpu`` may read the memory of the GPU with the UUID ``other``; None if silent.

    nvml.h: NVML_P2P_STATUS_OK is 0.
    """
    peer = find(gpu.nvml, other)
    if isinstance(peer, Absent):
        return None
    told = gpu.ask("peer access", "P2PStatus", peer.handle, PEER_READ)
    return None if isinstance(told, Absent) else int(told)


def read_driver(nvml: Any) -> str | Absent:
    """The driver's own version, such as 580.65.06."""
    return text(_ask(Asker(nvml), None, "driver version", "nvmlSystemGetDriverVersion"))


def _ask(asker: Asker, subject: str | None, what: str, call: str, *arguments: Any) -> Any | Absent:
    code, answer = asker.ask(subject, call, arguments)
    return answer if code == 0 else failure(what, code, str(answer))
