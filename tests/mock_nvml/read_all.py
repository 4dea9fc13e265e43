"""Reads every GPU through NVML as this process sees it and writes the facts to stdout; the tests run it by itself."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from mats.facts import GpuFacts
from mats.model import Absent
from mats.sources import nvml as source


def main() -> Absent | list[GpuFacts | Absent | int]:
    """What NVML gives, GPU by GPU; a number is the code with which NVML refused the GPU's handle."""
    started = source.start()
    if isinstance(started, Absent):
        return started
    return [_gpu(started, number) for number in range(started.nvmlDeviceGetCount())]


def _gpu(nvml: Any, number: int) -> GpuFacts | Absent | int:
    try:
        uuid = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(number))
    except nvml.NVMLError as error:
        return int(error.value)
    gpu = source.find(nvml, uuid)
    return gpu if isinstance(gpu, Absent) else source.read_gpu(gpu)


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(main()))
