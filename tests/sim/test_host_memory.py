"""Host memory beside a device: what is copied over the link arrives, and the simulated link takes its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from mats.device import DeviceError, HostBuffer, OutOfMemory
from mats.devices._plans import MIB, built_in
from mats.devices._sim_link import SimLink
from mats.devices.host import HostDevice
from mats.devices.sim import SimDevice

WORDS = bytes(range(256)) * 32


@pytest.fixture(params=["host", "sim"])
def device(request: pytest.FixtureRequest) -> Iterator[SimDevice | HostDevice]:
    made = HostDevice() if request.param == "host" else SimDevice(built_in("healthy"))
    yield made
    made.close()


@pytest.mark.parametrize("pinned", [True, False])
def test_what_goes_to_the_device_and_back_is_whole(device: SimDevice | HostDevice, pinned: bool) -> None:
    there, here = device.allocate(2 * MIB), device.allocate_host(1 * MIB, pinned=pinned)

    device.copy(here, WORDS, offset=8)
    device.copy(there, here, offset=64)
    device.copy(here, bytes(1 * MIB))
    seconds = device.copy(here, dataclasses.replace(there, address=there.address + 64, size=1 * MIB), repeats=3)

    assert device.fetch(here, 8, len(WORDS)) == WORDS
    assert here.pinned is pinned and seconds > 0


def test_host_memory_is_freed_once(device: SimDevice | HostDevice) -> None:
    here = device.allocate_host(4096, pinned=False)
    device.free(here)
    with pytest.raises(DeviceError, match="freed before"):
        device.free(here)


def test_more_host_memory_than_there_is_is_refused(device: SimDevice | HostDevice) -> None:
    with pytest.raises(OutOfMemory):
        device.allocate_host(1 << 50, pinned=True)


@pytest.mark.parametrize("repeats", [0, -1])
def test_a_copy_is_made_at_least_once(device: SimDevice | HostDevice, repeats: int) -> None:
    with pytest.raises(DeviceError, match="cannot be made"):
        device.copy(device.allocate(4096), b"data", repeats=repeats)


def test_a_host_that_locks_no_memory_pins_none(monkeypatch: pytest.MonkeyPatch) -> None:
    device = HostDevice()
    kept = device._take
    monkeypatch.setattr(device, "_take", lambda size: (kept(size)[0], False))

    with pytest.raises(OutOfMemory, match="does not lock"):
        device.allocate_host(4096, pinned=True)

    assert device._held == {}


@pytest.mark.parametrize(("pinned", "share"), [(True, 1.0), (False, 0.5)])
def test_a_simulated_copy_takes_the_time_of_its_link(pinned: bool, share: float) -> None:
    # 1 lane of generation 3: 8 GT/s x 128/130 / 8 = 0.985 GB/s, of which the plan says that half is data.
    link = SimLink(reached_generation=3, reached_width=1, startup=1e-3, payload=0.5, unpinned=0.5)
    device = SimDevice(dataclasses.replace(built_in("healthy"), link=link))
    there, here = device.allocate(2 * MIB), device.allocate_host(2 * MIB, pinned=pinned)

    before = device.now()
    seconds = device.copy(there, here, repeats=4)

    expected = 4 * (1e-3 + 2 * MIB / (8e9 * 128 / 130 / 8 * 0.5 * share))
    assert seconds == pytest.approx(expected, rel=0.02)
    assert device.now() - before == pytest.approx(seconds)


def test_what_a_simulated_card_sends_has_passed_its_faults() -> None:
    device = SimDevice(built_in("dead_channel"))
    there, here = device.allocate(2 * MIB), device.allocate_host(2 * MIB, pinned=True)

    device.copy(there, HostBuffer(here.address, here.size, True))
    device.copy(here, there)

    assert device.fetch(here, 0, here.size) == device.fetch(there, 0, there.size) != bytes(2 * MIB)
