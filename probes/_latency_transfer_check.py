"""Whether data arrive over the link as they were sent, each way by itself: what one way turns the other may turn back.

To the device the host's words are checked by a kernel; from it a kernel's words are checked by the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mats.device import Buffer, Device, HostBuffer
from mats.model import AbsenceKind, Absent

from ._errors import REPORT_WORDS, Book, open_book, raw_records, words
from ._patterns import MASK, ODD, Pattern, rotated

if TYPE_CHECKING:
    import numpy

LARGEST = 256 << 20
"""So many bytes at most are checked: beyond it the host takes longer than the link."""
SLICE = 16 << 20
KEPT = 8
"""So many words that differ are kept as examples."""
TILE = 64 << 10
PAGE = 2 << 20
RECORD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Difference:
    """A word that arrived as another one; ``offset`` in bytes from where the copy began."""

    offset: int
    sent: int
    arrived: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """Of so many 64-bit words that were sent, how many arrived as others, and the first of them."""

    words: int
    wrong: int
    first: tuple[Difference, ...] = ()


class Checker:
    """Checks the way between ``there``, of the device, and pieces of host memory of the same size or more."""

    def __init__(self, device: Device, there: Buffer) -> None:
        self._device = device
        self._there = Buffer(there.address, min(there.size, LARGEST) // TILE * TILE)
        self._book: Book = open_book(device, max(self._there.size, PAGE))
        self._turn = 0

    def close(self) -> None:
        for buffer in (self._book.report, self._book.pages, self._book.records, self._book.sink):
            self._device.free(buffer)

    def from_device(self, here: HostBuffer) -> Arrival | Absent:
        """What a kernel wrote on the device, as it is in ``here`` after one copy."""
        pattern = self._next()
        self._launch("pattern_write", pattern)
        if self._failed(pattern)[0]:
            return Absent(AbsenceKind.UNREADABLE, "the device's own memory gives back wrong words: see mats stress")
        self._device.copy(HostBuffer(here.address, self._there.size, here.pinned), self._there)
        wrong, first = 0, list[Difference]()
        for offset, expected in _slices(pattern, self._there.size):
            seen = _array(self._device.fetch(here, offset, expected.nbytes))
            differ = (seen != expected).nonzero()[0]
            wrong += len(differ)
            first += [
                Difference(offset + 8 * int(at), int(expected[at]), int(seen[at])) for at in differ[: KEPT - len(first)]
            ]
        return Arrival(self._there.size // 8, wrong, tuple(first))

    def to_device(self, here: HostBuffer) -> Arrival | Absent:
        """What the host wrote to ``here``, as a kernel finds it on the device after one copy."""
        pattern = self._next()
        piece = HostBuffer(here.address, self._there.size, here.pinned)
        for offset, expected in _slices(pattern, piece.size):
            self._device.copy(piece, expected.tobytes(), offset=offset)
        self._launch("pattern_write", pattern.complement())
        if self._failed(pattern.complement())[0]:
            return Absent(AbsenceKind.UNREADABLE, "the device's own memory gives back wrong words: see mats stress")
        self._device.copy(self._there, piece)
        wrong, first = self._failed(pattern)
        return Arrival(self._there.size // 8, wrong, first)

    def _next(self) -> Pattern:
        self._turn += 1
        return rotated(self._turn)

    def _launch(self, kernel: str, pattern: Pattern, **more: Buffer | int) -> None:
        self._device.launch(
            kernel,
            self._there.size // TILE,
            data=self._there,
            first=0,
            kind=pattern.kind,
            a=pattern.a,
            b=pattern.b,
            mask=pattern.mask,
            descending=0,
            **more,
        )

    def _failed(self, pattern: Pattern) -> tuple[int, tuple[Difference, ...]]:
        """How many words on the device differ from a pattern, and some of them."""
        book, device = self._book, self._device
        self._launch(
            "pattern_verify", pattern, report=book.report, pages=book.pages, records=book.records, capacity=KEPT
        )
        failed, recorded = words(device.fetch(book.report, 0, 16))
        if not failed:
            return 0, ()
        records = raw_records(device.fetch(book.records, 0, RECORD_BYTES * min(recorded, KEPT)))
        found = sorted((record.word, record.expected, record.actual) for record in records)
        device.copy(book.report, bytes(8 * REPORT_WORDS))
        device.copy(book.pages, bytes(book.pages.size))
        return failed, tuple(Difference(8 * word, expected, actual) for word, expected, actual in found)


def _slices(pattern: Pattern, size: int) -> Iterator[tuple[int, numpy.ndarray]]:
    """Offset in bytes and the words there, piece by piece: the pattern's own function, for many words at once."""
    import numpy

    for offset in range(0, size, SLICE):
        index = numpy.arange(offset // 8, (offset + min(SLICE, size - offset)) // 8, dtype=numpy.uint64)
        mixed = index * numpy.uint64(ODD) + numpy.uint64(pattern.a)
        turned = mixed << numpy.uint64(pattern.b) | mixed >> numpy.uint64(64 - pattern.b)
        yield offset, turned ^ numpy.uint64(pattern.mask & MASK)


def _array(data: bytes) -> numpy.ndarray:
    import numpy

    return numpy.frombuffer(data, numpy.uint64)
