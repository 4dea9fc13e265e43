"""Runs on the fake driver: every kernel, launched through CuPy with its real arguments, does what it does on the host.

The kernel was compiled for the GPU by NVRTC, its parameter table was read from that, and its CPU build ran with the
values that CuPy had put into place for the launch: a wrong number, order or width of arguments changes the outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from mats.device import Buffer, DeviceError
from mats.devices import cuda, host
from mats.devices._cuda_runtime import load
from mats.kernel import Kernel, bind, kernel_source, kernels
from mats.target import parse_target

from .kernel_scenarios import SCENARIOS, Bench, bench, pattern_write

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda


@pytest.fixture
def gpu(fake: FakeCuda) -> Iterator[Bench]:
    with bench(cuda.open_device(parse_target("cuda:0"))) as made:
        yield made


@pytest.fixture
def here() -> Iterator[Bench]:
    with bench(host.open_device(parse_target("host"))) as made:
        yield made


def test_there_is_a_scenario_for_every_kernel() -> None:
    assert set(SCENARIOS) == set(kernels())


@pytest.mark.parametrize("kernel", sorted(kernels()))
def test_a_kernel_does_on_the_gpu_what_it_does_on_the_host(gpu: Bench, here: Bench, kernel: str) -> None:
    seen = SCENARIOS[kernel](gpu)

    expected = SCENARIOS[kernel](here)
    assert seen == expected


@pytest.mark.parametrize("kernel", sorted(kernels()))
def test_the_gpu_takes_the_parameters_that_python_reads_from_the_source(fake: FakeCuda, kernel: str) -> None:
    known = kernels()[kernel]
    launchable(known)

    count = fake.query(f"parameters.{kernel}")
    sizes = [fake.query(f"bytes.{kernel}.{index}") for index in range(count)]

    assert sizes == [8 if parameter.pointer or parameter.type == "u64" else 4 for parameter in known.parameters]


def launchable(kernel: Kernel) -> Any:
    """The kernel through CuPy alone, without any check of ours."""
    module = load().cupy.RawModule(code=kernel_source(kernel.file), options=cuda.OPTIONS)
    function = module.get_function(kernel.name)
    _ = function.kernel
    return function


@pytest.mark.parametrize("change", [-1, 1], ids=["one too few", "one too many"])
def test_the_fake_driver_refuses_a_wrong_number_of_arguments(gpu: Bench, change: int) -> None:
    import numpy

    function = launchable(kernels()["inject"])
    arguments = tuple(numpy.uint64(value) for value in (1, gpu.data.address, 0, 1, 0)[: 4 + change])

    with pytest.raises(load().driver.CUDADriverError, match="CUDA_ERROR_INVALID_VALUE"):
        function((1,), (cuda.BLOCK,), arguments)


def test_a_wrong_order_of_arguments_would_be_seen(gpu: Bench, here: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(kernel: Kernel, tiles: int, arguments: dict[str, Buffer | int]) -> object:
        bound = list(bind(kernel, tiles, arguments))
        bound[5], bound[6] = bound[6], bound[5]
        return tuple(bound)

    monkeypatch.setattr(cuda, "bind", swapped)
    seen = pattern_write(gpu)

    assert seen != pattern_write(here)


def test_a_wrong_type_of_an_argument_would_be_seen(gpu: Bench, here: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def narrowed(kernel: Kernel, tiles: int, arguments: dict[str, Buffer | int]) -> object:
        bound = bind(kernel, tiles, {**arguments, "first": int(arguments["first"]) & 0xFFFFFFFF})  # type: ignore[arg-type]
        return tuple(
            (dataclasses.replace(parameter, type="u32") if parameter.name == "first" else parameter, value)
            for parameter, value in bound
        )

    monkeypatch.setattr(cuda, "bind", narrowed)
    seen = pattern_write(gpu)

    assert seen != pattern_write(here)


def test_an_argument_outside_of_its_type_is_refused(gpu: Bench) -> None:
    with pytest.raises(TypeError, match="does not fit u32"):
        gpu.write(kind=1 << 32)


def test_a_device_that_ran_every_kernel_keeps_nothing(fake: FakeCuda) -> None:
    device = cuda.open_device(parse_target("cuda:0"))
    with bench(device) as made:
        for scenario in SCENARIOS.values():
            scenario(made)

    with pytest.raises(DeviceError, match="is closed"):
        device.synchronise()
    assert (fake.used(), fake.query("events"), fake.query("allocations")) == (0, 0, 0)
