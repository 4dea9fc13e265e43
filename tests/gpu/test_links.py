"""On real GPUs: the ways between them, where there are several, and the gate that starts copies at one moment.

Without a GPU, or with one alone where two are needed, a test is skipped with the reason. Memory lent to another process
is part of benchmarks/gpu_check.py, which needs one GPU only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mats.device import Buffer
from mats.devices import cuda
from mats.devices._cuda_fabric import CudaFabric, open_fabric
from mats.fabric import Copy
from mats.model import TargetInfo
from mats.source import NothingThere
from mats.target import Target, parse_target

from .test_real_gpu import gpus

__all__ = ["gpus"]
pytestmark = pytest.mark.gpu

SIZE = 64 << 20
PATIENCE_S = 30.0
SLOWEST = 1e9
"""Bytes per second: less than a link of one PCIe lane of the third generation carries no GPU's way."""


@pytest.fixture
def fabric(gpus: tuple[TargetInfo, ...]) -> Iterator[CudaFabric]:
    if len(gpus) < 2:
        pytest.skip(f"one GPU alone ({gpus[0].title}): a way needs two")
    opened = open_fabric(Target("cuda", "all"))
    yield opened
    opened.close()


def test_one_gpu_alone_has_no_way(gpus: tuple[TargetInfo, ...]) -> None:
    if len(gpus) > 1:
        pytest.skip("several GPUs")

    with pytest.raises(NothingThere, match="one GPU"):
        open_fabric(Target("cuda", "all"))


def test_a_closed_gate_opens_by_its_own_clock(gpus: tuple[TargetInfo, ...]) -> None:
    """The kernel reads the word from the host's memory; it ends at once where that is set, and in time where not."""
    device = cuda.open_device(parse_target(gpus[0].name))
    word = device.allocate_host(8, pinned=True)
    gate = Buffer(word.address, word.size)
    seconds = []
    try:
        for value, nanoseconds in ((1, 10**10), (0, 50_000_000)):
            device.copy(word, value.to_bytes(8, "little"))
            seconds.append(device.launch("hold_stream", 1, open=gate, nanoseconds=nanoseconds))
    finally:
        device.close()

    assert seconds[0] < 1.0
    assert seconds[1] < 5.0


def test_what_is_sent_between_gpus_arrives(fabric: CudaFabric) -> None:
    members = fabric.members()
    sent = [member.allocate(SIZE) for member in members]
    got = [member.allocate(SIZE) for member in members]
    for number, (member, buffer) in enumerate(zip(members, sent, strict=True)):
        member.copy(buffer, bytes([number + 1]) * SIZE)
    count = len(members)
    ring = [Copy(start, sent[start], (start + 1) % count, got[(start + 1) % count]) for start in range(count)]
    for copy in ring:
        if fabric.reach(copy.start, copy.end).direct:
            fabric.connect(copy.start, copy.end)

    seconds = fabric.exchange(ring, 4, PATIENCE_S)

    arrived = [members[copy.end].fetch(copy.destination, SIZE - 8, 8)[0] for copy in ring]
    assert arrived == [copy.start + 1 for copy in ring]
    assert all(4 * SIZE / each > SLOWEST for each in seconds), seconds


def test_a_kernel_reaches_the_memory_of_a_connected_gpu(fabric: CudaFabric) -> None:
    ways = [(i, j) for i in range(len(fabric.members())) for j in range(i) if fabric.reach(i, j).direct]
    if not ways:
        pytest.skip(f"no direct access between these GPUs: {fabric.reach(0, 1).reason}")
    start, end = ways[0]
    fabric.connect(start, end)
    there = fabric.members()[end].allocate(2 << 20)

    fabric.members()[start].launch("pattern_write", 32, data=there, first=0, kind=2, a=9, b=9, mask=0, descending=0)

    assert set(fabric.members()[end].fetch(there, 0, 2 << 20)[::8]) == {9}
