"""Error records and totals as they come from the kernels' reports; layout in kernels/include/report.cuh."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from mats.device import Buffer, Device

from ._diagnosis import ErrorRecord, ErrorTotals

REPORT_WORDS = 256
RISEN, FALLEN, FLIPPED = 8, 72, 136
RECORD_BYTES = 64
PER_LAUNCH = 2048
PER_TEST = 4096
IN_ALL = 65536
RECHECKED = 512
"""Records of one launch that are read again and rewritten."""
COMPARED = 64
"""Records of one launch whose bytes are compared on the CPU as well."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record as a kernel wrote it."""

    word: int
    address: int
    expected: int
    actual: int
    rereads: tuple[int, int]
    rewrite: int
    unit: int


@dataclass(frozen=True, slots=True)
class Book:
    """The device buffers that kernels report into."""

    report: Buffer
    pages: Buffer
    records: Buffer
    sink: Buffer


def open_book(device: Device, largest_chunk: int) -> Book:
    """Allocates and clears the buffers for chunks of up to ``largest_chunk`` bytes."""
    pages = largest_chunk >> 21
    book = Book(
        device.allocate(8 * REPORT_WORDS),
        device.allocate(8 * pages),
        device.allocate(RECORD_BYTES * PER_LAUNCH),
        device.allocate(64),
    )
    for buffer in (book.report, book.pages, book.records, book.sink):
        device.copy(buffer, bytes(buffer.size))
    return book


def words(data: bytes) -> tuple[int, ...]:
    """Little-endian 64-bit words."""
    return struct.unpack(f"<{len(data) // 8}Q", data)


def raw_records(data: bytes) -> Iterator[RawRecord]:
    for one in struct.iter_unpack("<8Q", data):
        yield RawRecord(one[0], one[1], one[2], one[3], (one[4], one[5]), one[6], one[7])


@dataclass(slots=True)
class Ledger:
    """Everything that failed, added up over the run."""

    records: list[ErrorRecord] = field(default_factory=list)
    addresses: dict[int, int] = field(default_factory=dict)
    """Virtual address by word, for reports."""
    failed: int = 0
    verified: int = 0
    risen: list[int] = field(default_factory=lambda: [0] * 64)
    fallen: list[int] = field(default_factory=lambda: [0] * 64)
    flipped: list[int] = field(default_factory=lambda: [0] * 65)
    pages: Counter[int] = field(default_factory=Counter)
    failed_by_test: Counter[str] = field(default_factory=Counter)
    verified_by_test: Counter[str] = field(default_factory=Counter)
    recorded_by_test: Counter[str] = field(default_factory=Counter)

    def room(self, test: str) -> int:
        """How many more records of this test are kept."""
        return max(0, min(PER_LAUNCH, PER_TEST - self.recorded_by_test[test], IN_ALL - len(self.records)))

    def add_verified(self, test: str, count: int) -> None:
        self.verified += count
        self.verified_by_test[test] += count

    def add_report(self, test: str, report: tuple[int, ...], pages: tuple[int, ...], first_page: int) -> None:
        """Adds one launch's counters."""
        self.failed += report[0]
        self.failed_by_test[test] += report[0]
        for bit in range(64):
            self.risen[bit] += report[RISEN + bit]
            self.fallen[bit] += report[FALLEN + bit]
        for count in range(65):
            self.flipped[count] += report[FLIPPED + count]
        for page, errors in enumerate(pages):
            if errors:
                self.pages[first_page + page] += errors

    def add_record(self, record: ErrorRecord, address: int) -> None:
        self.records.append(record)
        self.addresses[record.word] = address
        self.recorded_by_test[record.test] += 1

    def totals(self, tested_words: int) -> ErrorTotals:
        tests = set(self.failed_by_test) | set(self.verified_by_test)
        return ErrorTotals(
            words_verified=self.verified,
            words_failed=self.failed,
            zero_to_one=tuple(self.risen),
            one_to_zero=tuple(self.fallen),
            flipped_bits=tuple(self.flipped),
            pages=dict(self.pages),
            by_test={test: (self.failed_by_test[test], self.verified_by_test[test]) for test in tests},
            tested_words=tested_words,
        )
