"""Nodes of a host's memory, on made-up trees and with a kernel that answers as planned."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from mats.device import DeviceError, MemoryNode
from mats.devices._host_nodes import node_of, placed, prefer, read_nodes
from mats.devices.host import HostDevice

X86 = "x86_64"
SET, GET = 238, 239


def node(root: Path, number: int, processors: str, free_kib: int | None = 1024) -> None:
    folder = root / "sys/devices/system/node" / f"node{number}"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text(processors + "\n")
    if free_kib is not None:
        (folder / "meminfo").write_text(
            f"Node {number} MemTotal:  99999 kB\nNode {number} MemFree:  {free_kib} kB\nNode {number} Dirty: 0 kB\n"
        )


class Kernel:
    """Keeps the policies that were set; tells that all memory lies on ``lies_on``, or refuses with ``error``."""

    def __init__(self, lies_on: int = 0, error: int = 0) -> None:
        self.policies: list[tuple[int, int]] = []
        self._lies_on, self._error = lies_on, error

    def __call__(self, number: int, *arguments: object) -> int:
        if self._error:
            return -self._error
        first = arguments[0]
        if number == SET:
            assert isinstance(first, ctypes.c_int)
            mask = getattr(arguments[1], "_obj", (0,))
            self.policies.append((first.value, sum(word << 64 * at for at, word in enumerate(mask))))
            return 0
        assert number == GET
        first._obj.value = self._lies_on  # type: ignore[attr-defined]
        return 0


def test_nodes_are_read_with_their_processors_and_free_memory(tmp_path: Path) -> None:
    node(tmp_path, 1, "4-7", 2048)
    node(tmp_path, 0, "0-3,8")
    node(tmp_path, 2, "", 4096)
    node(tmp_path, 3, "12", None)

    nodes = read_nodes(tmp_path)

    assert [each.node for each in nodes] == [
        MemoryNode(0, 5, 1 << 20),
        MemoryNode(1, 4, 2 << 20),
        MemoryNode(2, 0, 4 << 20),
    ]
    assert nodes[0].processors == {0, 1, 2, 3, 8}
    assert HostDevice(root=tmp_path).nodes() == tuple(each.node for each in nodes)


def test_a_system_without_the_tree_has_no_nodes(tmp_path: Path) -> None:
    assert read_nodes(tmp_path) == ()


@pytest.mark.parametrize("wanted", [0, 3, 70])
def test_new_memory_is_asked_for_on_a_node_and_then_anywhere(wanted: int) -> None:
    kernel = Kernel()
    allowed = os.sched_getaffinity(0)
    near = frozenset({min(allowed)})

    with placed(near, wanted, kernel, X86):
        inside = os.sched_getaffinity(0)

    assert inside == near
    assert os.sched_getaffinity(0) == allowed
    assert kernel.policies == [(1, 1 << wanted), (0, 0)]


def test_an_error_within_gives_everything_back() -> None:
    kernel = Kernel()
    allowed = os.sched_getaffinity(0)

    with pytest.raises(ValueError), placed(frozenset({min(allowed)}), 1, kernel, X86):
        raise ValueError

    assert os.sched_getaffinity(0) == allowed
    assert kernel.policies[-1] == (0, 0)


def test_processors_that_this_process_may_not_use_are_refused() -> None:
    with pytest.raises(DeviceError, match="may not run"), placed(frozenset({4000}), 0, Kernel(), X86):
        pass


@pytest.mark.parametrize(("error", "words"), [(errno.EPERM, "not permitted"), (errno.ENOSYS, "not implemented")])
def test_what_a_container_forbids_is_said(error: int, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        prefer(0, Kernel(error=error), X86)
    with pytest.raises(DeviceError, match=words):
        node_of(4096, Kernel(error=error), X86)


def test_another_kind_of_processor_is_not_guessed() -> None:
    with pytest.raises(DeviceError, match="riscv64"):
        prefer(0, Kernel(), "riscv64")


def test_where_memory_lies_is_asked_of_the_kernel() -> None:
    assert node_of(4096, Kernel(lies_on=3), X86) == 3


def test_this_machines_own_kernel_is_asked() -> None:
    device = HostDevice()
    nodes = [node for node in device.nodes() if node.processors]
    if not nodes:
        pytest.skip("this system shows no memory nodes")
    try:
        with device.placed(nodes[0].number, nodes[0].number):
            buffer = device.allocate(2 << 20)
        lies_on = device.lies_on(buffer, 1 << 20)
    except DeviceError as refused:
        pytest.skip(f"not allowed here: {refused}")
    finally:
        device.close()

    assert lies_on == nodes[0].number
