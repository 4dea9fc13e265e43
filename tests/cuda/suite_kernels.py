"""Runs on the fake driver: every kernel, launched through CuPy with its real arguments, does what it does on the host.

The kernel was compiled for the GPU by NVRTC, its parameter table was read from that, and its CPU build ran with the
values that CuPy had put into place for the launch: a wrong number, order or width of arguments changes the outcome.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mats.device import Buffer, Device, DeviceError
from mats.devices import cuda, host
from mats.devices._cuda_runtime import load
from mats.kernel import Kernel, bind, kernel_source, kernels
from mats.target import parse_target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

PAGE = 2 << 20
PAGES = 2
TILES = PAGES * PAGE >> 16
WORDS = PAGES * PAGE // 8
KINDS = range(6)
FIRST = 1 << 33
"""Index of the chunk's first word: beyond 32 bits, so that a halved argument shows."""
CAPACITY = 64
REPORT_WORDS, RECORD_WORDS = 256, 8
ADDRESS, UNIT = 1, 7
"""Words of a record that differ between devices: where the buffer lies, and which multiprocessor saw the error."""
FLIPS = {0: 1, 77: 1 << 63, 9000: 0b1010, WORDS - 1: (1 << 64) - 1}
VALUES = {"a": 0x0123456789ABCDEF, "b": 7, "mask": 0xF0F0_0F0F_1234_8765}


@dataclass(frozen=True, slots=True)
class Bench:
    """A device with the buffers that kernels work on, and what they hold afterwards."""

    device: Device
    data: Buffer
    other: Buffer
    report: Buffer
    pages: Buffer
    records: Buffer
    sink: Buffer

    @property
    def found(self) -> dict[str, Any]:
        return {"report": self.report, "pages": self.pages, "records": self.records, "capacity": CAPACITY}

    def words(self, buffer: Buffer) -> tuple[int, ...]:
        return struct.unpack(f"<{buffer.size // 8}Q", self.device.fetch(buffer, 0, buffer.size))

    def write(self, kind: int = 4, descending: int = 0) -> None:
        known = {**VALUES, "first": FIRST, "kind": kind, "descending": descending}
        self.device.launch("pattern_write", TILES, data=self.data, **known)

    def inject(self) -> None:
        for word, flips in FLIPS.items():
            self.device.launch("inject", 1, data=self.data, word=word, flips=flips)

    def verify(self, kind: int = 4, descending: int = 0) -> None:
        known = {**VALUES, "first": FIRST, "kind": kind, "descending": descending}
        self.device.launch("pattern_verify", TILES, data=self.data, **known, **self.found)

    def errors(self) -> object:
        """Report, pages and records in an order and a form that do not depend on the device."""
        words = self.words(self.records)
        records = []
        for start in range(0, len(words), RECORD_WORDS):
            record = list(words[start : start + RECORD_WORDS])
            record[ADDRESS] -= self.data.address if record[ADDRESS] else 0
            record[UNIT] = 0
            records.append(tuple(record))
        return self.words(self.report), self.words(self.pages), sorted(records)


@contextlib.contextmanager
def bench(device: Device) -> Iterator[Bench]:
    sizes = (PAGES * PAGE, PAGES * PAGE, REPORT_WORDS * 8, PAGES * 8, CAPACITY * RECORD_WORDS * 8, 8)
    try:
        buffers = [device.allocate(size) for size in sizes]
        for buffer in buffers:
            device.copy(buffer, bytes(buffer.size))
        yield Bench(device, *buffers)
    finally:
        device.close()


def pattern_write(on: Bench) -> object:
    contents = []
    for kind in KINDS:
        for descending in (0, 1):
            on.write(kind, descending)
            contents.append(on.words(on.data))
    return contents


def pattern_verify(on: Bench) -> object:
    for kind in KINDS:
        on.write(kind)
        on.inject()
        on.verify(kind, descending=kind % 2)
    return on.errors()


def pattern_exchange(on: Bench) -> object:
    known = {**VALUES, "first": FIRST, "new_a": 3, "new_b": 9, "new_mask": 1 << 40, "kind": 4}
    for reread in (0, 1):
        on.write()
        on.inject()
        on.device.launch("pattern_exchange", TILES, data=on.data, descending=reread, reread=reread, **known, **on.found)
    return on.words(on.data), on.errors()


def modulo_others(on: Bench) -> object:
    on.device.launch("modulo_others", TILES, data=on.data, first=FIRST, skip=13, value=VALUES["a"])
    return on.words(on.data)


def copy_sweep(on: Bench) -> object:
    on.write()
    on.device.launch("copy_sweep", TILES, destination=on.other, source=on.data)
    return on.words(on.other)


def read_sweep(on: Bench) -> object:
    on.write()
    on.inject()
    on.device.launch("read_sweep", TILES, data=on.data, sink=on.sink)
    return None  # the order in which blocks add to the sink is free: only that it runs to its end is seen


def page_ids_write(on: Bench) -> object:
    on.device.launch("page_ids_write", TILES, data=on.data, first=FIRST)
    return on.words(on.data)


def page_ids_verify(on: Bench) -> object:
    on.device.launch("page_ids_write", TILES, data=on.data, first=FIRST)
    aliased = on.device.fetch(on.data, 0, 4096)
    on.device.copy(on.data, aliased, offset=40 * 4096)
    on.device.launch("page_ids_verify", TILES, data=on.data, first=FIRST, **on.found)
    return on.errors()


def inject(on: Bench) -> object:
    on.inject()
    return on.words(on.data)


def recheck(on: Bench) -> object:
    on.write()
    on.inject()
    on.verify()
    for step in range(4):
        on.device.launch("recheck", len(FLIPS), records=on.records, step=step)
    return on.errors(), on.words(on.data)


def row_disturb(on: Bench) -> object:
    on.write()
    before = on.words(on.data)
    known = {"offset_words": 8, "step_words": 1024, "distance_words": 512, "repeats": 3}
    on.device.launch("row_disturb", 100, data=on.data, sink=on.sink, **known)
    return before, on.words(on.data)


SCENARIOS: dict[str, Callable[[Bench], object]] = {
    function.__name__: function
    for function in (
        pattern_write,
        pattern_verify,
        pattern_exchange,
        modulo_others,
        copy_sweep,
        read_sweep,
        page_ids_write,
        page_ids_verify,
        inject,
        recheck,
        row_disturb,
    )
}


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
