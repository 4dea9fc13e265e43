"""Runs on the fake driver with an nvml module of the tests: the device tells what NVML knows, matched by UUID."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mats.device import DeviceError, HeldBy
from mats.devices import cuda
from mats.devices._cuda_runtime import load
from mats.model import Quantity, Unit
from mats.target import parse_target

from .fake_nvml import Code, FakeNvml, process

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

GIB = 1 << 30
PLAN: dict[str, Any] = {
    "nvmlDeviceGetMaxClockInfo": {(2,): 2619},
    "nvmlDeviceGetMemoryInfo": {
        (0x02000028,): SimpleNamespace(total=GIB + 1000, reserved=1000, used=0, free=GIB),
    },
    "nvmlDeviceGetComputeRunningProcesses_v3": [process(os.getpid()), process(4_000_001, 123)],
}


def test_a_device_with_nvml_tells_what_it_knows(fake: FakeCuda) -> None:
    nvml = FakeNvml(**PLAN)

    device = cuda.connect(load(), nvml, parse_target("cuda:1"))

    info, memory, conditions = device.describe(), device.memory(), device.conditions()
    device.close()
    assert "2619 MHz (highest memory clock by NVML)" in info.peak_formula
    assert dict(info.identity)["driver"] == "580.65.06"
    assert info.memory_total == Quantity(GIB + 1000, Unit.BYTE)
    assert (memory.total, memory.free) == (GIB + 1000, GIB)
    assert (memory.reserved, memory.others) == (Quantity(1000, Unit.BYTE), Quantity(123, Unit.BYTE))
    assert conditions.temperature == Quantity(41, Unit.CELSIUS)


def test_nvml_is_asked_by_the_uuid_that_cuda_tells(fake: FakeCuda) -> None:
    asked = []

    def answer(uuid: str) -> str:
        asked.append(uuid)
        return uuid

    device = cuda.connect(load(), FakeNvml(**PLAN, nvmlDeviceGetHandleByUUID=answer), parse_target("cuda:5"))

    device.close()
    assert asked[-1] == "GPU-f5a000c0-de00-0102-0304-050607080905"


def test_other_processes_are_told(fake: FakeCuda) -> None:
    device = cuda.connect(load(), FakeNvml(**PLAN), parse_target("cuda:0"))

    holders = device.holders()

    device.close()
    assert holders == (HeldBy(4_000_001, "", Quantity(123, Unit.BYTE)),)


def test_nvml_is_shut_down_when_the_device_closes(fake: FakeCuda) -> None:
    nvml = FakeNvml(**PLAN)
    device = cuda.connect(load(), nvml, parse_target("cuda:0"))
    device.close()
    device.close()

    assert nvml.asked.count("nvmlShutdown") == 1


def test_nvml_is_shut_down_when_the_device_does_not_open(fake: FakeCuda) -> None:
    nvml = FakeNvml(**PLAN)
    fake.control(devices=0)

    with pytest.raises(DeviceError):
        cuda.connect(load(), nvml, parse_target("cuda:0"))

    assert nvml.asked.count("nvmlShutdown") == 1


def test_a_gpu_that_nvml_has_lost_still_works(fake: FakeCuda) -> None:
    nvml = FakeNvml(nvmlDeviceGetHandleByUUID=Code(15))

    device = cuda.connect(load(), nvml, parse_target("cuda:0"))
    buffer = device.allocate(4096)
    device.copy(buffer, b"words")

    read, holders = device.fetch(buffer, 0, 5), device.holders()
    device.close()
    assert read == b"words"
    assert "fallen off the bus" in str(holders)
