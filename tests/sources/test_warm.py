"""Links under load: the most that was reached counts, and a GPU that is used by anybody is left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mats.device import Buffer, Device, DeviceError, HeldBy, MemoryState
from mats.facts import GpuFacts, MachineFacts, PciDevice, ProcessFacts
from mats.model import AbsenceKind, Absent, Quantity
from mats.source import Source
from mats.sources import _warm
from mats.sources.live import open_source
from mats.target import Target

from .machine import H100, LINK, PORT, Nvml, card, count, machine, pci, told, uuid, write

GONE = Absent(AbsenceKind.NOT_FOUND, "not told")
FULL = {"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}
SIZE = 80 << 30


@dataclass
class Card:
    """The part of a device that is needed here; its first copy sets the links of ``paths`` to ``busy``."""

    root: Path
    busy: dict[str, dict[str, str]]
    held: tuple[HeldBy, ...] | str = ()
    free_bytes: int = SIZE
    fails: str = ""
    opened: list[str] = field(default_factory=list)
    copies: int = 0
    buffers: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def open(self, target: Target) -> Device:
        self.opened.append(target.name)
        if self.fails == "open":
            raise DeviceError("CUDA cannot use it.")
        return self  # type: ignore[return-value]

    def holders(self) -> tuple[HeldBy, ...] | str:
        return self.held

    def memory(self) -> MemoryState:
        return MemoryState(SIZE, self.free_bytes, GONE, GONE)

    def allocate(self, size: int) -> Buffer:
        self.buffers += 1
        return Buffer(1 << 21, size)

    def copy(self, buffer: Buffer, data: bytes) -> float:
        assert len(data) == buffer.size
        if self.fails == "copy":
            raise DeviceError("the GPU has fallen off the bus")
        self.copies += 1
        time.sleep(0.001)
        for address, files in self.busy.items():
            for name, text in files.items():
                path = self.root / f"sys/bus/pci/devices/{address}/{name}"
                new = write(self.root, f"new/{name}", text + "\n")
                new.replace(path)  # at once, as the kernel's own files change
        return 0.001

    def free(self, buffer: Buffer) -> None:
        self.buffers -= 1

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pci(tmp_path, "00:10.0", **PORT, **LINK)
    pci(tmp_path, "00:10.0/10:00.0", **H100, **LINK, power__runtime_status="active")
    return tmp_path


def source(root: Path, device: Card, gpu: GpuFacts | None = None, timeout: float | None = None) -> Source:
    return open_source((), timeout, device.open, machine(root, Nvml(told(gpu or card(0)))))


def device_at(facts: MachineFacts, address: str) -> PciDevice:
    assert isinstance(facts.devices, tuple)
    return next(device for device in facts.devices if device.address == address)


def only(facts: MachineFacts) -> GpuFacts:
    assert isinstance(facts.gpus, tuple)
    (gpu,) = facts.gpus
    return gpu


def test_a_link_under_load_is_read_beside_what_it_was_at_rest(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL, "0000:00:10.0": FULL})

    facts = source(root, own).read(load=True)

    pcie = only(facts).pcie
    assert (pcie.loaded, pcie.generation, pcie.width) == (True, count(5), count(16))
    assert (pcie.idle_generation, pcie.idle_width) == (count(1), count(16))
    assert device_at(facts, "0000:10:00.0").now.generation == count(5)
    assert device_at(facts, "0000:00:10.0").now.generation == count(5)
    assert facts.notes == ()


def test_corrected_errors_are_counted_while_the_link_is_busy(root: Path) -> None:
    for folder in ("00:10.0", "00:10.0/10:00.0"):
        pci(root, folder, aer_dev_correctable="Receiver Error 40\nTOTAL_ERR_COR 40\n")
    own = Card(
        root, {"0000:00:10.0": {"aer_dev_correctable": "Receiver Error 43\nTOTAL_ERR_COR 43"}, "0000:10:00.0": FULL}
    )

    pcie = only(source(root, own).read(load=True)).pcie

    assert pcie.corrected_loaded == count(3)
    assert isinstance(pcie.loaded_seconds, Quantity) and pcie.loaded_seconds.value > 0


def test_errors_are_not_known_where_one_end_does_not_count_them(root: Path) -> None:
    pci(root, "00:10.0", aer_dev_correctable="TOTAL_ERR_COR 40\n")
    own = Card(root, {"0000:10:00.0": FULL})

    pcie = only(source(root, own).read(load=True)).pcie

    assert isinstance(pcie.corrected_loaded, Absent)
    assert "0000:10:00.0: correctable PCIe errors" in pcie.corrected_loaded.reason


def test_a_port_above_that_stays_slow_is_seen(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL})

    facts = source(root, own).read(load=True)

    assert device_at(facts, "0000:00:10.0").now.generation == count(1)
    assert only(facts).pcie.generation == count(5)


def test_the_gpu_is_opened_by_its_uuid_and_given_back(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL})

    source(root, own).read(load=True)

    assert own.opened == [f"cuda:{uuid(0)}"]
    assert own.copies > 0 and own.buffers == 0
    assert own.closed.is_set()


def test_without_load_nothing_is_opened(root: Path) -> None:
    own = Card(root, {})

    facts = source(root, own).read()

    assert own.opened == []
    assert isinstance(only(facts).pcie.loaded, Absent)


BUSY = ProcessFacts(4711, GONE)
DESKTOP = ProcessFacts(12, GONE, draws_only=True)


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (card(0, processes=(BUSY,)), "it is in use by process 4711"),
        (card(0, answers=False), "it does not answer"),
        (card(0, uuid=GONE), "its UUID and PCI address are not known"),
    ],
)
def test_a_gpu_that_is_not_to_be_loaded_is_not_even_opened(root: Path, gpu: GpuFacts, why: str) -> None:
    own = Card(root, {})

    facts = source(root, own, gpu).read(load=True)

    assert own.opened == []
    assert facts.notes == (f"the link of GPU 0 (0000:10:00.0) could not be kept busy: {why}",)
    loaded = only(facts).pcie.loaded
    assert isinstance(loaded, Absent) and loaded.kind is AbsenceKind.NOT_TESTED


def test_a_sleeping_gpu_is_not_woken_for_its_link(root: Path) -> None:
    write(root, "sys/bus/pci/devices/0000:10:00.0/power/runtime_status", "suspended\n")
    own = Card(root, {})

    facts = source(root, own).read(load=True)

    assert own.opened == []
    assert "could not be kept busy" in facts.notes[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"held": (HeldBy(4711, "train", GONE),)}, "it is in use by process 4711"),
        ({"held": "the processes are not told"}, "it is not known whether it is in use: the processes are not told"),
        ({"free_bytes": 1 << 20}, "too little of its memory is free"),
        ({"fails": "open"}, "CUDA cannot use it"),
        ({"fails": "copy"}, "the GPU has fallen off the bus"),
    ],
)
def test_a_gpu_that_turns_out_not_to_be_free_is_given_back_unloaded(
    root: Path, change: dict[str, object], why: str
) -> None:
    own = Card(root, {"0000:10:00.0": FULL}, **change)  # type: ignore[arg-type]

    facts = source(root, own, card(0, processes=(DESKTOP,))).read(load=True)

    assert facts.notes == (f"the link of GPU 0 (0000:10:00.0) could not be kept busy: {why}",)
    assert own.copies == 0 and own.buffers == 0
    assert own.closed.is_set() is (own.fails != "open")


def test_a_gpu_that_only_draws_is_free(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL}, held=(HeldBy(12, "desktop", GONE, draws_only=True),))

    facts = source(root, own, card(0, processes=(DESKTOP,))).read(load=True)

    assert only(facts).pcie.loaded is True


def test_a_link_whose_state_the_system_does_not_tell_stays_unjudged(root: Path) -> None:
    for name in LINK:
        if name.startswith("current"):
            (root / "sys/bus/pci/devices/0000:10:00.0" / name).unlink()
    own = Card(root, {})

    facts = source(root, own).read(load=True)

    assert "does not tell the state of its link" in facts.notes[0]
    assert isinstance(only(facts).pcie.loaded, Absent)


def test_copies_that_never_start_are_given_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_warm, "READY_SECONDS", 0.05)
    monkeypatch.setattr(_warm, "CLOSE_SECONDS", 0.05)
    release = threading.Event()

    def hang(target: Target) -> Device:
        release.wait(20)
        raise DeviceError("too late")

    facts = open_source((), None, hang, machine(root, Nvml(told(card(0))))).read(load=True)
    release.set()

    assert "copies to it did not start in time" in facts.notes[0]


def test_near_the_time_limit_no_copy_is_begun(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL})

    facts = source(root, own, timeout=1.5).read(load=True)

    assert own.opened == []
    assert "the time limit is near" in facts.notes[0]


def test_what_a_link_reached_at_any_moment_counts(root: Path) -> None:
    own = Card(root, {"0000:10:00.0": FULL})
    calls: list[float] = []

    def slow_down(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 10:  # the driver may lower the link between two copies
            own.busy["0000:10:00.0"] = {"current_link_speed": "2.5 GT/s PCIe"}

    read: Callable[..., MachineFacts] = open_source(
        (), None, own.open, machine(root, Nvml(told(card(0))), sleep=slow_down)
    ).read

    assert only(read(load=True)).pcie.generation == count(5)
