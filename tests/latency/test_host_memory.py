"""What latency-test says of a host's own memory: copies by size, and its nodes where there are several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from mats.device import Buffer, DeviceError, MemoryNode
from mats.devices._plans import MIB, built_in
from mats.devices.host import HostDevice
from mats.devices.sim import SimDevice
from mats.model import Absent, Measurement, Observation, Quantity, Unit
from mats.probes import _latency_host
from mats.probes._latency_chain import open_flusher
from mats.probes._latency_host import measure_host, observe_host

FREE = 64 << 30


class Sockets(HostDevice):
    """A host that says it has these nodes. Its memory lies where it was asked for, or on node 0 where it ``strays``."""

    def __init__(self, *nodes: MemoryNode, strays: bool = False, refuses: str = "") -> None:
        super().__init__()
        self._nodes, self._strays, self._refuses = nodes, strays, refuses
        self._on = 0

    def nodes(self) -> tuple[MemoryNode, ...]:
        return self._nodes

    @contextlib.contextmanager
    def placed(self, near: int, on: int) -> Iterator[None]:
        if self._refuses:
            raise DeviceError(self._refuses)
        self._on = on
        yield

    def lies_on(self, buffer: Buffer, offset: int) -> int:
        return 0 if self._strays else self._on


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that are copied and read in no time."""
    monkeypatch.setattr(_latency_host, "SIZES", (4096, 64 << 10, 1 << 20))
    monkeypatch.setattr(_latency_host, "NODE_SIZE", 2 * MIB)


def seen_on(device: HostDevice) -> Observation:
    try:
        observed: Observation = observe_host(
            measure_host(device, open_flusher(device), 0, lambda: "", lambda share, text: None)
        )
        return observed
    finally:
        device.close()


def named(seen: Observation, name: str) -> list[Measurement]:
    return [one for one in seen.measurements if one.name == name]


def test_a_host_of_one_node_is_said_to_be_one() -> None:
    seen = seen_on(Sockets(MemoryNode(0, 2, FREE)))

    assert named(seen, "latency.nodes")[0].reading == Quantity(1, Unit.COUNT)
    assert not named(seen, "latency.node_memory")
    assert any("one memory node" in note for note in seen.notes)
    (copies,) = seen.tables
    assert [row[0] for row in copies.rows] == [4096, 64 << 10, 1 << 20]
    (copied,) = named(seen, "latency.copy_bandwidth")
    assert isinstance(copied.reading, Quantity) and copied.reading.value == copies.rows[-1][3]


def test_each_node_is_read_from_each() -> None:
    seen = seen_on(Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 1, FREE)))

    latencies = named(seen, "latency.node_memory")
    assert [dict(one.labels) for one in latencies] == [
        {"processors": near, "memory": on} for near in "01" for on in "01"
    ]
    figures = (*latencies, *named(seen, "latency.node_bandwidth"))
    assert all(isinstance(one.reading, Quantity) and one.reading.value > 0 for one in figures)
    assert [table.name for table in seen.tables] == ["memory_copies", "nodes"]


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 1, 1 << 20)), "too little"),
        (Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 1, FREE), strays=True), "another node"),
        (Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 1, FREE), refuses="the container forbids it"), "forbids"),
    ],
)
def test_a_pair_that_cannot_be_read_has_its_reason(device: Sockets, words: str) -> None:
    seen = seen_on(device)

    pair = next(one for one in named(seen, "latency.node_memory") if dict(one.labels)["memory"] == "1")
    assert isinstance(pair.reading, Absent) and words in pair.reading.reason


def test_a_node_without_processors_is_only_read_from_others() -> None:
    seen = seen_on(Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 0, FREE)))

    known = {
        (dict(one.labels)["processors"], dict(one.labels)["memory"]): isinstance(one.reading, Quantity)
        for one in named(seen, "latency.node_memory")
    }
    assert known == {("0", "0"): True, ("0", "1"): True, ("1", "0"): False, ("1", "1"): False}


def test_a_system_that_tells_no_nodes_is_said_so() -> None:
    assert any("does not tell" in note for note in seen_on(Sockets()).notes)


def test_other_devices_have_no_nodes() -> None:
    device = SimDevice(built_in("healthy", capacity=16 * MIB))

    seen = measure_host(device, open_flusher(device), 0, lambda: "", lambda share, text: None)

    assert observe_host(seen) == Observation()
    device.close()


def test_told_to_stop_it_keeps_what_it_has() -> None:
    turns = iter(["", "told to stop"])
    device = Sockets(MemoryNode(0, 1, FREE), MemoryNode(1, 1, FREE))

    seen = measure_host(device, open_flusher(device), 0, lambda: next(turns, "told to stop"), lambda share, text: None)

    assert seen is not None and len(seen.copies) == 1 and seen.pairs == ()
    device.close()
