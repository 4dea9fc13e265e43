"""What each kernel is asked to do, on any device, and what of the outcome must agree between devices.

Used on the fake driver (suite_kernels.py) and on a real GPU (benchmarks/gpu_check.py), each time against the host.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mats.device import Buffer, Device

PAGE = 2 << 20
TILE = 64 << 10
KINDS = range(6)
FIRST = 1 << 33
"""Index of the chunk's first word: beyond 32 bits, so that a halved argument shows."""
CAPACITY = 64
REPORT_WORDS, RECORD_WORDS = 256, 8
ADDRESS, UNIT = 1, 7
"""Words of a record that differ between devices: where the buffer lies, and which multiprocessor saw the error."""
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
    def tiles(self) -> int:
        return self.data.size // TILE

    @property
    def flips(self) -> dict[int, int]:
        """Which bits are flipped, by word: the first and the last one, one bit, several, all."""
        return {0: 1, 77: 1 << 63, 9000: 0b1010, self.data.size // 8 - 1: (1 << 64) - 1}

    @property
    def found(self) -> dict[str, Any]:
        return {"report": self.report, "pages": self.pages, "records": self.records, "capacity": CAPACITY}

    def content(self, buffer: Buffer) -> bytes:
        return self.device.fetch(buffer, 0, buffer.size)

    def words(self, buffer: Buffer) -> tuple[int, ...]:
        return struct.unpack(f"<{buffer.size // 8}Q", self.content(buffer))

    def write(self, kind: int = 4, descending: int = 0) -> None:
        known = {**VALUES, "first": FIRST, "kind": kind, "descending": descending}
        self.device.launch("pattern_write", self.tiles, data=self.data, **known)

    def inject(self) -> None:
        for word, flips in self.flips.items():
            self.device.launch("inject", 1, data=self.data, word=word, flips=flips)

    def verify(self, kind: int = 4, descending: int = 0) -> None:
        known = {**VALUES, "first": FIRST, "kind": kind, "descending": descending}
        self.device.launch("pattern_verify", self.tiles, data=self.data, **known, **self.found)

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
def bench(device: Device, pages: int = 2) -> Iterator[Bench]:
    """The buffers on a device, ``pages`` of 2 MiB for the data; the device is closed afterwards."""
    sizes = (pages * PAGE, pages * PAGE, REPORT_WORDS * 8, pages * 8, CAPACITY * RECORD_WORDS * 8, 8)
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
            contents.append(on.content(on.data))
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
        on.device.launch(
            "pattern_exchange", on.tiles, data=on.data, descending=reread, reread=reread, **known, **on.found
        )
    return on.content(on.data), on.errors()


def modulo_others(on: Bench) -> object:
    on.device.launch("modulo_others", on.tiles, data=on.data, first=FIRST, skip=13, value=VALUES["a"])
    return on.content(on.data)


def copy_sweep(on: Bench) -> object:
    on.write()
    on.device.launch("copy_sweep", on.tiles, destination=on.other, source=on.data)
    return on.content(on.other)


def read_sweep(on: Bench) -> object:
    on.write()
    on.inject()
    on.device.launch("read_sweep", on.tiles, data=on.data, sink=on.sink)
    return on.words(on.sink) != (0,)  # what is added up is a thread's own share, which differs between devices


def page_ids_write(on: Bench) -> object:
    on.device.launch("page_ids_write", on.tiles, data=on.data, first=FIRST)
    return on.content(on.data)


def page_ids_verify(on: Bench) -> object:
    on.device.launch("page_ids_write", on.tiles, data=on.data, first=FIRST)
    aliased = on.device.fetch(on.data, 0, 4096)
    on.device.copy(on.data, aliased, offset=40 * 4096)
    on.device.launch("page_ids_verify", on.tiles, data=on.data, first=FIRST, **on.found)
    return on.errors()


def inject(on: Bench) -> object:
    on.inject()
    return on.content(on.data)


def recheck(on: Bench) -> object:
    on.write()
    on.inject()
    on.verify()
    for step in range(4):
        on.device.launch("recheck", len(on.flips), records=on.records, step=step)
    return on.errors(), on.content(on.data)


def row_disturb(on: Bench) -> object:
    on.write()
    before = on.content(on.data)
    known = {"offset_words": 8, "step_words": 1024, "distance_words": 512, "repeats": 3}
    on.device.launch("row_disturb", 100, data=on.data, sink=on.sink, **known)
    return before, on.content(on.data)


ORDER = (16, 4096, 80, 1024, 8000)
"""Where the lines of a chain are, in words, within a region of 64 KiB."""
WALK_WORDS = 8


def lay(on: Bench) -> Buffer:
    """The chain in each of the data's regions; gives the buffer with its order."""
    order = Buffer(on.other.address, len(ORDER) * 8)
    on.device.copy(order, struct.pack(f"<{len(ORDER)}Q", *ORDER))
    on.device.launch("lay_chain", on.tiles, data=on.data, stride_words=TILE // 8, order=order, lines=len(ORDER))
    return order


def walked(on: Bench, kernel: str, unit: int, **known: Buffer | int) -> object:
    """What of a walk does not depend on the device: who took it, where it ended, whether its clocks went on."""
    report = Buffer(on.report.address, WALK_WORDS * 8)
    on.device.copy(report, bytes(report.size))
    chain: dict[str, Buffer | int] = {"data": on.data, "mask": TILE // 8 - 1, "start": ORDER[0], "hops": 7, "pages": 1}
    chain["walk"] = report
    on.device.launch(kernel, 1 << 20, unit=unit, **chain, **known)
    claimed, cycles, nanoseconds, end, total, *_ = on.words(report)
    return claimed > 0, end, total, cycles > 0, nanoseconds < 10**9


def lay_chain(on: Bench) -> object:
    lay(on)
    return on.content(on.data)


def evict_lines(on: Bench) -> object:
    on.write()
    order = Buffer(on.other.address, len(ORDER) * 8)
    on.device.copy(order, struct.pack(f"<{len(ORDER)}Q", *ORDER))
    on.device.launch("evict_lines", len(ORDER), data=on.data, order=order, done=on.sink)
    return on.content(on.data)


def walk_chain(on: Bench) -> object:
    lay(on)
    walks = [walked(on, "walk_chain", 0, ahead=ahead, near=near) for ahead in (0, 3) for near in (0, 1)]
    return walks, walked(on, "walk_chain", 1 << 20, ahead=0, near=0)


def time_hops(on: Bench) -> object:
    lay(on)
    times = Buffer(on.records.address, 7 * 8)
    walk = walked(on, "time_hops", 0, times=times)
    return walk, all(on.words(times))


def hold_stream(on: Bench) -> object:
    """It ends where the gate is open, and where it is not after the time it is given; the word stays as it was."""
    gate = Buffer(on.sink.address, 8)
    seconds = []
    for word, nanoseconds in ((1, 10**10), (0, 20_000_000)):
        on.device.copy(gate, struct.pack("<Q", word))
        seconds.append(on.device.launch("hold_stream", 1, open=gate, nanoseconds=nanoseconds))
    return seconds[0] < 5, seconds[1] < 5, on.words(gate)


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
        lay_chain,
        evict_lines,
        walk_chain,
        time_hops,
        hold_stream,
    )
}
