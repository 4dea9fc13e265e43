"""Runs on the fake driver: which GPUs there are, how they are named and described, and why none can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mats.device import DeviceError
from mats.devices import cuda
from mats.model import Absent, Quantity, Unit
from mats.probe import UsageError
from mats.target import parse_target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

MIB = 1 << 20


@pytest.mark.parametrize("count", [1, 2, 8])
def test_every_gpu_is_found_and_told_apart(fake: FakeCuda, count: int) -> None:
    fake.control(devices=count)

    infos = cuda.discover()

    assert [info.name for info in infos] == [f"cuda:{index}" for index in range(count)]
    assert len({info.uuid for info in infos}) == count
    assert len({dict(info.identity)["pci"] for info in infos}) == count


def test_a_gpu_is_described_by_its_own_figures(fake: FakeCuda) -> None:
    fake.control(memory__1=512 * MIB)

    info = cuda.discover()[1]

    assert (info.kind, info.origin_kind, info.title, info.simulated) == ("cuda", "cuda", "Fake GPU 1 (tests)", False)
    assert info.memory_total == Quantity(512 * MIB, Unit.BYTE)
    assert info.cache_size == Quantity(MIB, Unit.BYTE)
    assert info.peak_bandwidth == Quantity(2 * 2e9 * 5120 / 8, Unit.BYTE_PER_SECOND)
    assert info.peak_formula == "2 x 2000 MHz (memory clock by CUDA) x 5120 bit / 8"
    identity = dict(info.identity)
    assert identity["uuid"] == "GPU-f1a000c0-de00-0102-0304-050607080901"
    assert (identity["pci"], identity["compute_capability"], identity["driver_cuda"]) == ("0000:02:00.0", "9.0", "13.0")


def test_finding_makes_no_context(fake: FakeCuda) -> None:
    cuda.discover()

    assert fake.calls("cuDevicePrimaryCtxRetain") == 0


@pytest.mark.parametrize(
    "argument",
    [
        "1",
        "GPU-f1a000c0-de00-0102-0304-050607080901",
        "GPU-F1A0",
        "0000:02:00.0",
        "00000000:02:00.0",
        "02:00",
        "02:00.1",
    ],
)
def test_a_gpu_is_opened_by_each_of_its_names(fake: FakeCuda, argument: str) -> None:
    target = parse_target(f"cuda:{argument}")

    device = cuda.open_device(target)

    info = device.describe()
    device.close()
    assert (info.name, dict(info.identity)["index"]) == (target.name, "1")


@pytest.mark.parametrize("argument", ["2", "GPU-ffff", "05:00.0", "0001:02:00.0"])
def test_a_name_without_gpu_is_answered_with_those_there_are(fake: FakeCuda, argument: str) -> None:
    fake.control(devices=2)

    with pytest.raises(UsageError, match=r"there is no GPU .* cuda:0 .* cuda:1 \(Fake GPU 1"):
        cuda.open_device(parse_target(f"cuda:{argument}"))


def test_the_beginning_of_two_uuids_is_refused(fake: FakeCuda) -> None:
    fake.control(devices=2, same_uuids=1)

    with pytest.raises(UsageError, match="names 2 GPUs"):
        cuda.open_device(parse_target("cuda:GPU-f0a0"))


@pytest.mark.parametrize(
    ("driver", "init", "says"),
    [
        (0, 35, "no NVIDIA driver was found"),
        (12040, 35, r"too old: it supports CUDA 12\.4 and this CuPy needs 13\.0"),
        (13000, 100, "sees no GPU"),
        (13000, 802, "start the fabric manager"),
        (13000, 803, "reload the driver or reboot"),
        (13000, 999, "see the kernel log"),
    ],
)
def test_no_usable_gpu_is_said_with_the_reason(fake: FakeCuda, driver: int, init: int, says: str) -> None:
    fake.control(driver=driver, init=init)

    with pytest.raises(DeviceError, match=says):
        cuda.discover()


def test_no_gpu_at_all(fake: FakeCuda) -> None:
    fake.control(devices=0)

    with pytest.raises(DeviceError, match="sees no GPU"):
        cuda.open_device(parse_target("cuda:0"))


def test_gpus_that_the_environment_hides(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.control(devices=0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")

    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES is '7'"):
        cuda.discover()


def test_one_silent_gpu_does_not_hide_the_others(fake: FakeCuda) -> None:
    fake.control(devices=3)
    fake.fail("cuDeviceGetName", 999, skip=1)

    first, silent, last = cuda.discover()

    assert isinstance(silent.memory_total, Absent)
    assert "does not answer" in silent.title
    assert [isinstance(info.memory_total, Quantity) for info in (first, last)] == [True, True]


def test_a_busy_gpu_is_said_when_it_is_opened(fake: FakeCuda) -> None:
    fake.fail("cuDevicePrimaryCtxRetain", 46, times=9)

    with pytest.raises(DeviceError, match="busy or closed to others"):
        cuda.open_device(parse_target("cuda:0"))
