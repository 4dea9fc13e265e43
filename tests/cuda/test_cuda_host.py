"""Host memory for a GPU lies on the GPU's own node, where the system tells which processors are there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mats.devices._cuda_host import HostMemory, nearby, parse_processors

PCI = "0000:41:00.0"


def runtime(ran_on: list[set[int]]) -> Any:
    """The part of CuPy's runtime that is needed; ``ran_on`` gets the processors it was called on."""

    def allocate(size: int, flags: int) -> int:
        ran_on.append(os.sched_getaffinity(0))
        return 4096

    return SimpleNamespace(hostAllocDefault=0, hostAlloc=allocate)


def tree(root: Path, processors: str) -> Path:
    folder = root / "sys/bus/pci/devices" / PCI
    folder.mkdir(parents=True)
    (folder / "local_cpulist").write_text(processors)
    return root


@pytest.mark.parametrize(
    ("text", "processors"),
    [("0-3,8\n", {0, 1, 2, 3, 8}), ("5\n", {5}), ("\n", set()), ("0-1,4-5", {0, 1, 4, 5})],
)
def test_processors_are_read_as_the_kernel_writes_them(text: str, processors: set[int]) -> None:
    assert parse_processors(text) == processors


@pytest.mark.parametrize("text", ["a-b\n", "1-\n-", "0x3\n"])
def test_what_is_no_list_of_processors_means_none(tmp_path: Path, text: str) -> None:
    assert nearby(PCI, tree(tmp_path, text)) == frozenset()


def test_a_device_that_the_system_does_not_list_is_near_to_nothing(tmp_path: Path) -> None:
    assert nearby(PCI, tmp_path) == frozenset()


def test_memory_is_taken_from_the_processors_beside_the_gpu(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    near = min(allowed)
    ran_on: list[set[int]] = []

    HostMemory(runtime(ran_on), PCI, tree(tmp_path, f"{near},4000\n")).allocate(64, True)

    assert ran_on == [{near}]
    assert os.sched_getaffinity(0) == allowed


def test_processors_that_are_not_allowed_are_left_alone(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    ran_on: list[set[int]] = []

    HostMemory(runtime(ran_on), PCI, tree(tmp_path, "4000-4003\n")).allocate(64, True)

    assert ran_on == [allowed]
