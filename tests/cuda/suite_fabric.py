"""Runs on the fake driver: several GPUs and the ways between them, their copies, and what can go wrong with them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mats.device import Buffer, Device, DeviceError, DeviceLost
from mats.devices import _cuda_tracks, cuda
from mats.devices._cuda_fabric import CudaFabric, open_fabric
from mats.devices._cuda_runtime import load
from mats.fabric import Copy, Reach
from mats.facts import MachineFacts, ProcessFacts
from mats.model import Absent, Quantity, Unit
from mats.probe import UsageError
from mats.source import NothingThere
from mats.sources.live import Machine
from mats.target import Target, parse_target
from tests.sources.machine import PORT, Commands, card, pci, told

from .fake_nvml import FakeNvml, process

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

PAGE = 2 << 20
TILES = PAGE >> 16
PATIENCE_S = 10.0


@contextlib.contextmanager
def opened(argument: str = "all") -> Iterator[CudaFabric]:
    fabric = open_fabric(Target("cuda", argument))
    try:
        yield fabric
    finally:
        fabric.close()


def filled(device: Device, value: int) -> Buffer:
    buffer = device.allocate(PAGE)
    device.copy(buffer, value.to_bytes(8, "little") * (PAGE // 8))
    return buffer


def send(fabric: CudaFabric, start: int, end: int, value: int = 7) -> tuple[Copy, float, bytes]:
    """One copy of a page full of ``value``; what arrived."""
    members = fabric.members()
    copy = Copy(start, filled(members[start], value), end, members[end].allocate(PAGE))
    (seconds,) = fabric.exchange([copy], 3, PATIENCE_S)
    return copy, seconds, members[end].fetch(copy.destination, 0, PAGE)


def test_every_gpu_is_a_member_in_order(fake: FakeCuda) -> None:
    with opened() as fabric:
        uuids = [member.describe().uuid[4:6] for member in fabric.members()]
        info = fabric.describe()

    assert uuids == [f"f{index}" for index in range(8)]
    assert (info.kind, info.title.count("1 x Fake GPU")) == ("cuda", 8)
    assert dict(info.identity)["member_3"] == "GPU-f3a000c0-de00-0102-0304-050607080903"


def test_members_are_numbered_by_the_target(fake: FakeCuda) -> None:
    with opened("5,GPU-f2a0,0000:01:00.0") as fabric:
        indices = [dict(member.describe().identity)["index"] for member in fabric.members()]

    assert indices == ["5", "2", "0"]


@pytest.mark.parametrize(
    ("devices", "argument", "says"),
    [(1, "all", "this machine shows one GPU"), (2, "0", "cuda:0 is one GPU: a way has two ends")],
)
def test_one_gpu_has_no_way(fake: FakeCuda, devices: int, argument: str, says: str) -> None:
    fake.control(devices=devices)

    with pytest.raises(NothingThere, match=says):
        open_fabric(Target("cuda", argument))


def test_a_gpu_named_twice_is_refused(fake: FakeCuda) -> None:
    with pytest.raises(UsageError, match="are the same GPU"):
        open_fabric(Target("cuda", "1,GPU-f1a0"))


def test_a_gpu_that_cannot_be_opened_closes_the_others(fake: FakeCuda) -> None:
    with pytest.raises(UsageError, match="there is no GPU 11"):
        open_fabric(Target("cuda", "0,1,11"))

    assert fake.query("events") == 0


def test_what_the_driver_says_of_each_way(fake: FakeCuda) -> None:
    fake.control(apart="2:3")

    with opened() as fabric:
        seen = {(i, j): fabric.reach(i, j).direct for i in range(8) for j in range(8)}

    assert [way for way, direct in seen.items() if not direct] == [(2, 3), (3, 2)]


def test_an_unexplained_refusal_is_said_to_be_one(fake: FakeCuda) -> None:
    fake.control(apart="0:1")

    with opened("0,1") as fabric:
        reach = fabric.reach(0, 1)

    assert reach == Reach(False, "the driver offers no direct access between them and does not say why")


@pytest.mark.parametrize(
    ("status", "says"),
    [(1, "chipset"), (2, "this product"), (3, "different roots"), (4, "forbids"), (6, "not say why")],
)
def test_nvml_tells_why_a_way_is_not_direct(fake: FakeCuda, status: int, says: str) -> None:
    fake.control(apart="0:1")
    nvml = FakeNvml(nvmlDeviceGetP2PStatus=status)
    devices = tuple(cuda.connect(load(), nvml, parse_target(f"cuda:{index}")) for index in range(2))
    fabric = CudaFabric(load(), devices, "cuda:0,1")

    reach = fabric.reach(0, 1)

    fabric.close()
    assert says in reach.reason


def test_connecting_is_for_one_direction_and_twice_is_as_good_as_once(fake: FakeCuda) -> None:
    with opened("0,1") as fabric:
        fabric.connect(0, 1)
        fabric.connect(0, 1)
        during = [fake.query(f"peers.{index}") for index in range(2)]
        fabric.disconnect(0, 1)
        fabric.disconnect(0, 1)
        after = fake.query("peers.0")

    assert (during, after) == ([1, 0], 0)


def test_closing_disconnects(fake: FakeCuda) -> None:
    with opened("0,1,2") as fabric:
        for start, end in ((0, 1), (1, 0), (2, 0)):
            fabric.connect(start, end)

    assert [fake.query(f"peers.{index}") for index in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("code", "says"), [(217, "cannot reach each other's memory"), (205, "BAR1"), (711, "as many others")]
)
def test_a_way_that_cannot_be_connected_is_said(fake: FakeCuda, code: int, says: str) -> None:
    with opened("0,1") as fabric:
        fake.fail("cuCtxEnablePeerAccess", code)
        with pytest.raises(DeviceError, match=f"connecting it to cuda:1 failed: .*{says}") as caught:
            fabric.connect(0, 1)

    assert not isinstance(caught.value, DeviceLost)


@pytest.mark.parametrize("connected", [True, False])
def test_what_is_sent_arrives(fake: FakeCuda, connected: bool) -> None:
    with opened("1,6") as fabric:
        if connected:
            fabric.connect(0, 1)
        _, _, arrived = send(fabric, 0, 1, 0x1122334455667788)

    assert arrived == (0x1122334455667788).to_bytes(8, "little") * (PAGE // 8)


def test_a_way_that_corrupts_shows_in_what_arrives(fake: FakeCuda) -> None:
    fake.control(corrupt="1:6")

    with opened("1,6") as fabric:
        _, _, good = send(fabric, 1, 0)
        _, _, bad = send(fabric, 0, 1)

    assert len(set(good[::8])) == 1 and len(set(bad[::8])) == 2


def test_direct_and_staged_ways_take_their_own_time(fake: FakeCuda) -> None:
    fake.control(clock="manual", direct=f"{PAGE}e3", staged=f"{PAGE}e2", copy_seconds=1e-4)

    with opened("0,1") as fabric:
        _, staged, _ = send(fabric, 0, 1)
        fabric.connect(0, 1)
        _, direct, _ = send(fabric, 0, 1)

    assert [staged, direct] == pytest.approx([3 * 1.01e-2, 3 * 1.1e-3], rel=0.02)


def test_copies_of_one_exchange_go_side_by_side(fake: FakeCuda) -> None:
    """Each takes what it takes alone, whatever the others take."""
    fake.control(clock="manual", direct=f"{PAGE}e3")
    fake.control(direct=f"0:3:{PAGE}e2")

    with opened("0,1,2,3") as fabric:
        members = fabric.members()
        source = filled(members[0], 9)
        copies = [Copy(0, source, end, members[end].allocate(PAGE)) for end in (1, 2, 3)]
        for end in (1, 2, 3):
            fabric.connect(0, end)
        seconds = fabric.exchange(copies, 300, PATIENCE_S)

    assert list(seconds) == pytest.approx([0.3, 0.3, 3.0])


def test_all_pairs_of_eight_at_once(fake: FakeCuda) -> None:
    with opened() as fabric:
        members = fabric.members()
        sources = [filled(member, number) for number, member in enumerate(members)]
        copies = [
            Copy(start, sources[start], end, members[end].allocate(PAGE))
            for start in range(8)
            for end in range(8)
            if start != end
        ]
        seconds = fabric.exchange(copies, 2, PATIENCE_S)
        arrived = [members[copy.end].fetch(copy.destination, PAGE - 8, 8)[0] for copy in copies]

    assert len(seconds) == 56 and arrived == [copy.start for copy in copies]


def test_copies_wait_for_the_gate(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing moves while copies are queued: the gate opens after the last of them."""
    order: list[str] = []
    seen = _cuda_tracks.Gate.set
    queue = _cuda_tracks.Track.queue

    def opening(gate: _cuda_tracks.Gate, is_open: bool) -> None:
        order.append("open" if is_open else "closed")
        seen(gate, is_open)

    def queueing(track: _cuda_tracks.Track, *arguments: int, **more: object) -> None:
        order.append("queue")
        queue(track, *arguments, **more)  # type: ignore[arg-type]

    with opened("0,1") as fabric:
        send(fabric, 0, 1)
        send(fabric, 1, 0)  # now both have loaded what they need
        monkeypatch.setattr(_cuda_tracks.Gate, "set", opening)
        monkeypatch.setattr(_cuda_tracks.Track, "queue", queueing)
        members = fabric.members()
        copies = [Copy(i, members[i].allocate(PAGE), 1 - i, members[1 - i].allocate(PAGE)) for i in (0, 1)]
        fabric.exchange(copies, 2, PATIENCE_S)

    assert order == ["queue", "queue", "closed", "queue", "queue", "open", "open"]


def test_what_could_not_be_queued_in_time_is_done_again(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [True]
    queue = _cuda_tracks.Track.queue

    def queueing(track: _cuda_tracks.Track, *arguments: int, **more: object) -> None:
        queue(track, *arguments, **more)  # type: ignore[arg-type]
        if "gate" in more and slow:
            time.sleep(0.06)
            slow.pop()

    monkeypatch.setattr(_cuda_tracks, "GATE_SECONDS", 0.05)
    monkeypatch.setattr(_cuda_tracks.Track, "queue", queueing)

    with opened("0,1") as fabric:
        send(fabric, 0, 1)
        copies = fake.calls("cuMemcpyPeerAsync")

    assert (slow, copies) == ([], 1 + 3 + 3)


def test_a_machine_that_never_queues_in_time_gives_no_figure(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda_tracks, "GATE_SECONDS", 0.0)

    with opened("0,1") as fabric, pytest.raises(DeviceError, match="could not be started at one moment"):
        send(fabric, 0, 1)


def test_a_copy_that_never_ends_loses_one_of_its_two_gpus(fake: FakeCuda) -> None:
    fake.control(hang="0:3")

    with opened("0,1,2,3") as fabric:
        assert send(fabric, 1, 2)[2][0] == 7
        begun = time.monotonic()
        with pytest.raises(DeviceLost, match=r"^cuda:0 or cuda:3 was lost: .* not ended within 0\.2 s; see"):
            members = fabric.members()
            fabric.exchange([Copy(0, members[0].allocate(PAGE), 3, members[3].allocate(PAGE))], 1, 0.2)
        took = time.monotonic() - begun
        with pytest.raises(DeviceLost, match="cuda:0 or cuda:3 was lost"):
            members[3].memory()

    assert took < PATIENCE_S
    assert [fake.used(index) for index in (1, 2)] == [0, 0]


def test_a_gpu_that_stops_answering_is_told_from_its_peers(fake: FakeCuda) -> None:
    fake.control(hang="2")

    with (
        opened("0,1,2,3") as fabric,
        pytest.raises(DeviceLost, match=r"^cuda:2 was lost: 3 copies from it or to it have"),
    ):
        members = fabric.members()
        ways = ((0, 2), (2, 1), (3, 2), (0, 1))
        copies = [Copy(i, members[i].allocate(PAGE), j, members[j].allocate(PAGE)) for i, j in ways]
        fabric.exchange(copies, 1, 0.2)


def test_two_ways_that_never_end_have_no_gpu_in_common(fake: FakeCuda) -> None:
    fake.control(hang="0:1")
    fake.control(hang="3:2")

    with (
        opened("0,1,2,3") as fabric,
        pytest.raises(DeviceLost, match=r"^GPUs were lost: .* cuda:0 to cuda:1 and 1 more"),
    ):
        members = fabric.members()
        copies = [Copy(i, members[i].allocate(PAGE), j, members[j].allocate(PAGE)) for i, j in ((0, 1), (3, 2))]
        fabric.exchange(copies, 1, 0.2)


def test_a_copy_that_fails_loses_the_gpu(fake: FakeCuda) -> None:
    with opened("0,1") as fabric:
        fake.fail("cuMemcpyPeerAsync", 220, sticky=True)
        with pytest.raises(DeviceLost, match=r"cuda:0 was lost while copying to another GPU: .*NVLink"):
            send(fabric, 0, 1)


def test_a_kernel_takes_the_memory_of_a_connected_peer(fake: FakeCuda) -> None:
    with opened("0,1") as fabric:
        first, second = fabric.members()
        fabric.connect(0, 1)
        there = second.allocate(PAGE)
        seconds = first.launch("pattern_write", TILES, data=there, first=0, kind=2, a=5, b=5, mask=0, descending=0)
        arrived = second.fetch(there, 0, PAGE)

    assert seconds >= 0 and set(arrived[::8]) == {5}


@pytest.mark.parametrize("connected", [None, (1, 0)], ids=["not connected", "connected the other way"])
def test_a_kernel_does_not_reach_what_is_not_connected(fake: FakeCuda, connected: tuple[int, int] | None) -> None:
    with opened("0,1") as fabric:
        first, second = fabric.members()
        if connected:
            fabric.connect(*connected)
        there = second.allocate(PAGE)
        with pytest.raises(DeviceLost, match="touched memory it does not own"):
            first.launch("pattern_write", TILES, data=there, first=0, kind=2, a=5, b=5, mask=0, descending=0)


LINK = {"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16", "max_link_width": "16"}
CARD = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "max_link_speed": "32.0 GT/s PCIe"}


def machine_with_two(root: Path) -> Machine:
    """The GPUs 0 and 1 of the fake driver as a bus and NVML show them; this process uses both, nobody else does."""
    processors = sorted(os.sched_getaffinity(0))
    addresses = []
    for index in range(2):
        pci(root, f"{index:02x}:01.0", **PORT, **LINK)
        near = str(processors[index % len(processors)])
        addresses.append(pci(root, f"{index:02x}:01.0/{index + 1:02x}:00.0", **CARD, **LINK, local_cpulist=near))
    uuids = [f"GPU-f{index}a000c0-de00-0102-0304-05060708090{index}" for index in range(2)]
    us = (ProcessFacts(os.getpid(), Quantity(1 << 20, Unit.BYTE)),)
    cards = tuple(card(index, addresses[index], uuid=uuids[index], processes=us) for index in range(2))

    def read(selection: tuple[str, ...], seconds: float) -> MachineFacts:
        return told(*(each for each in cards if not selection or each.uuid in selection))

    return Machine(
        root=root,
        run=Commands(),
        read_nvml=read,
        find_program=lambda name: None,
        sleep=lambda seconds: None,
        hostname="here",
        environment={},
    )


@contextlib.contextmanager
def on_machine(root: Path) -> Iterator[CudaFabric]:
    nvml = FakeNvml(nvmlDeviceGetComputeRunningProcesses_v3=[process(os.getpid())])
    devices = tuple(cuda.connect(load(), nvml, parse_target(f"cuda:{index}")) for index in range(2))
    fabric = CudaFabric(load(), devices, "cuda:0,1", machine_with_two(root))
    try:
        yield fabric
    finally:
        fabric.close()


def test_copies_are_queued_from_beside_their_gpu(
    fake: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: dict[int, set[int]] = {}
    queue = cuda.CudaDevice.queue

    def queueing(device: cuda.CudaDevice, kernel: str, stream: int, **arguments: Buffer | int) -> None:
        places[device.index] = os.sched_getaffinity(0)
        queue(device, kernel, stream, **arguments)

    monkeypatch.setattr(cuda.CudaDevice, "queue", queueing)
    before = os.sched_getaffinity(0)

    with on_machine(tmp_path) as fabric:
        send(fabric, 0, 1)
        send(fabric, 1, 0)

    processors = sorted(before)
    assert places == {index: {processors[index % len(processors)]} for index in range(2)}
    assert os.sched_getaffinity(0) == before


def test_the_picture_is_of_the_members_and_does_not_count_this_process(fake: FakeCuda, tmp_path: Path) -> None:
    with on_machine(tmp_path) as fabric:
        facts = fabric.facts()

    assert not isinstance(facts.gpus, Absent)
    assert [gpu.processes for gpu in facts.gpus] == [(), ()]


def test_the_links_are_kept_busy_by_the_members_themselves(fake: FakeCuda, tmp_path: Path) -> None:
    with on_machine(tmp_path) as fabric:
        at_rest, busy = fabric.facts(), fabric.facts(load=True)
        opened_since = fabric.members()[0].memory().free  # the members are open as before

    assert not isinstance(at_rest.gpus, Absent) and not isinstance(busy.gpus, Absent)
    assert [gpu.pcie.loaded for gpu in busy.gpus] == [True, True], busy.notes
    assert [gpu.pcie.width for gpu in busy.gpus] == [Quantity(16, Unit.COUNT)] * 2
    assert opened_since > 0


def test_a_gpu_in_use_by_others_is_not_loaded(fake: FakeCuda, tmp_path: Path) -> None:
    with on_machine(tmp_path) as fabric:
        fabric._machine = replace(fabric._machine, read_nvml=_with_others(fabric._machine))
        facts = fabric.facts(load=True)

    assert not isinstance(facts.gpus, Absent)
    assert all("in use by process 4000001" in note for note in facts.notes if "kept busy" in note)
    assert [isinstance(gpu.pcie.loaded, Absent) for gpu in facts.gpus] == [True, True]


def _with_others(machine: Machine) -> Callable[[tuple[str, ...], float], MachineFacts]:
    def read(selection: tuple[str, ...], seconds: float) -> MachineFacts:
        seen = machine.read_nvml(selection, seconds)
        assert not isinstance(seen.gpus, Absent)
        others = (ProcessFacts(4_000_001, Quantity(1 << 20, Unit.BYTE)),)
        return replace(seen, gpus=tuple(replace(gpu, processes=others) for gpu in seen.gpus))

    return read


@pytest.mark.parametrize(
    ("size", "room", "repeats", "says"),
    [(PAGE, PAGE // 2, 1, "do not fit"), (0, PAGE, 1, "do not fit"), (PAGE, PAGE, 0, "cannot be made 0 times")],
)
def test_copies_that_cannot_be_are_refused(fake: FakeCuda, size: int, room: int, repeats: int, says: str) -> None:
    with opened("0,1") as fabric:
        source, destination = (member.allocate(PAGE) for member in fabric.members())
        copy = Copy(0, Buffer(source.address, size), 1, Buffer(destination.address, room))
        with pytest.raises(DeviceError, match=says):
            fabric.exchange([copy], repeats, PATIENCE_S)


def test_no_copies_take_no_time(fake: FakeCuda) -> None:
    with opened("0,1") as fabric:
        assert fabric.exchange([], 5, PATIENCE_S) == ()


def test_the_picture_without_a_driver_names_the_members(fake: FakeCuda) -> None:
    """This machine has no NVIDIA driver beside the fake one: what CUDA says of the members stays."""
    with opened("0,1") as fabric:
        facts = fabric.facts()

    assert not isinstance(facts.gpus, Absent)
    assert [str(gpu.uuid)[:8] for gpu in facts.gpus] == ["GPU-f0a0", "GPU-f1a0"]
    assert "could not be read" in facts.notes[0]
