"""Runs on the fake driver: host memory is pinned or plain, near the GPU, copied both ways and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mats.device import PCIE, Buffer, DeviceError, DeviceLost, OutOfMemory
from mats.devices import _cuda_facts, _cuda_host
from mats.devices._host_link import COHERENT
from mats.model import Absent
from mats.probes import _latency_transfer
from mats.probes._latency_transfer import Transfers, measure_transfers
from mats.probes._latency_transfer_fit import Fit, fit

from .suite_memory import MIB, PAGE, opened

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

OUT_OF_MEMORY = 2
ILLEGAL_ADDRESS = 700
WORDS = bytes(range(256)) * 16


@pytest.mark.parametrize("pinned", [True, False])
def test_what_goes_to_the_gpu_and_back_is_whole(fake: FakeCuda, pinned: bool) -> None:
    with opened() as device:
        there, here = device.allocate(PAGE), device.allocate_host(MIB, pinned=pinned)
        device.copy(here, WORDS, offset=8)
        device.copy(there, here)
        device.copy(here, bytes(MIB))
        device.copy(here, Buffer(there.address, MIB), repeats=3)
        read = device.fetch(here, 8, len(WORDS))

    assert read == WORDS
    assert (fake.calls("cuMemHostAlloc"), fake.calls("cuMemFreeHost")) == (int(pinned), int(pinned))


def test_repeats_are_timed_together(fake: FakeCuda) -> None:
    fake.control(clock="manual", bytes_per_second=1e9)

    with opened() as device:
        there, here = device.allocate(PAGE), device.allocate_host(PAGE, pinned=True)
        seconds = device.copy(there, here, repeats=5)

    assert seconds == pytest.approx(5 * PAGE / 1e9, rel=1e-3)


def test_pinned_memory_that_is_refused_leaves_the_device_working(fake: FakeCuda) -> None:
    fake.fail("cuMemHostAlloc", OUT_OF_MEMORY)

    with opened() as device:
        with pytest.raises(OutOfMemory, match=f"the host has no {MIB} bytes of memory to pin"):
            device.allocate_host(MIB, pinned=True)
        again = device.allocate_host(MIB, pinned=True)
        device.free(again)
        with pytest.raises(DeviceError, match="freed before"):
            device.free(again)


def test_more_than_the_host_has_is_refused_unasked(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda_host, "available", lambda root: 2 * MIB)

    with opened() as device:
        device.allocate_host(MIB, pinned=False)
        with pytest.raises(OutOfMemory, match="to give"):
            device.allocate_host(MIB + 1, pinned=False)


def test_closing_gives_pinned_memory_back(fake: FakeCuda) -> None:
    with opened() as device:
        device.allocate_host(MIB, pinned=True)
        device.allocate_host(MIB, pinned=False)

    assert fake.query("allocations") == 0


def test_a_gpu_lost_in_a_copy_is_lost(fake: FakeCuda) -> None:
    with opened() as device:
        there, here = device.allocate(PAGE), device.allocate_host(PAGE, pinned=True)
        fake.fail("cuMemcpyDtoHAsync", ILLEGAL_ADDRESS, sticky=True)
        with pytest.raises(DeviceLost):
            device.copy(here, there)
        with pytest.raises(DeviceLost):
            device.allocate_host(MIB, pinned=False)
    fake.control(restart="")


@pytest.mark.parametrize("kind", [PCIE, COHERENT])
def test_the_way_to_the_processor_is_told(fake: FakeCuda, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda_facts, "is_coherent", lambda cuda, index: kind == COHERENT)

    with opened() as device:
        link = device.host_link()

    assert link.kind == kind
    assert [name for name, _ in link.counters] == ["pcie.replays", "aer.correctable", "aer.nonfatal", "aer.fatal"]


def test_a_gpu_is_asked_whether_it_shares_page_tables_with_the_processor(fake: FakeCuda) -> None:
    with opened() as device:
        link = device.host_link()

    assert link.kind == PCIE


def test_transfers_are_measured_from_kernel_to_figure(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_latency_transfer, "LOAD_SECONDS", 0.05)
    fake.control(clock="manual", bytes_per_second=1e10, memory=32 * MIB)

    with opened() as device:
        seen = measure_transfers(device, lambda: "", lambda share, text: None)

    assert isinstance(seen, Transfers)
    assert len(seen.points) == len(seen.arrivals) == 4
    assert [arrival for arrival in seen.arrivals.values() if isinstance(arrival, Absent) or arrival.wrong] == []
    lines = [fit([(point.size, min(point.times)) for point in points]) for points in seen.points.values()]
    assert [line.bandwidth for line in lines if isinstance(line, Fit)] == pytest.approx([1e10] * 4, rel=0.05)
