"""What is done about words that failed: read again, compared on the CPU, written again, and written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mats.device import Device

from ._algorithms import Operation, Step
from ._diagnosis import ErrorRecord
from ._errors import COMPARED, RECHECKED, RECORD_BYTES, REPORT_WORDS, Book, Ledger, RawRecord, raw_records, words
from ._patterns import Pattern
from ._space import Chunk


@dataclass(frozen=True, slots=True)
class Occasion:
    """One sweep over one chunk in which words failed. ``before``: what its pattern was written over, if known."""

    test: str
    step: Step
    chunk: Chunk
    pass_index: int
    before: Pattern | None
    time: float
    temperature: float | None

    @property
    def exchanged(self) -> bool:
        """Whether the sweep has overwritten what it read."""
        return self.step.operation is Operation.EXCHANGE


@dataclass(frozen=True, slots=True)
class Collector:
    """Takes the kernels' reports into the ledger. ``cache``: bytes of the last-level cache."""

    device: Device
    chunks: tuple[Chunk, ...]
    book: Book
    cache: int
    ledger: Ledger

    @property
    def tested_words(self) -> int:
        return sum(chunk.words for chunk in self.chunks)

    def recorded(self) -> int:
        """How many records the last sweep claimed."""
        return words(self.device.fetch(self.book.report, 0, 16))[1]

    def collect(self, occasion: Occasion) -> None:
        """Adds what the sweep reported to the ledger and clears the report."""
        failed, recorded = words(self.device.fetch(self.book.report, 0, 16))
        if not failed and not recorded:
            return
        chunk, test = occasion.chunk, occasion.test
        report = words(self.device.fetch(self.book.report, 0, 8 * REPORT_WORDS))
        pages = words(self.device.fetch(self.book.pages, 0, 8 * (chunk.buffer.size >> 21)))
        self.ledger.add_report(test, report, pages, chunk.first >> 18)
        count = min(recorded, self.ledger.room(test))
        if count:
            self._recheck(occasion, count)
        self.clear(chunk)

    def clear(self, chunk: Chunk) -> None:
        """Sets the counters to zero for the next sweep."""
        self.device.copy(self.book.report, bytes(8 * REPORT_WORDS))
        self.device.copy(self.book.pages, bytes(8 * (chunk.buffer.size >> 21)))

    def records(self, count: int) -> list[RawRecord]:
        """The first ``count`` records of the last sweep."""
        return list(raw_records(self.device.fetch(self.book.records, 0, RECORD_BYTES * count))) if count else []

    def _recheck(self, occasion: Occasion, count: int) -> None:
        """Reads failed words again (past the cache), compares some on the CPU, rewrites them, and keeps records.

        An exchange has overwritten what it read: its words are only rewritten with the expected value, read, and
        given the new pattern's value back.
        """
        again, launch, after = min(count, RECHECKED), self.device.launch, occasion.step.after
        compared: list[bool] = []
        if not occasion.exchanged:
            for turn in (0, 1):
                self._pass_cache(occasion.chunk)
                launch("recheck", again, records=self.book.records, step=turn)
            some = self.records(min(again, COMPARED))
            compared = [self._differs_on_cpu(occasion.chunk, record) for record in some]
        launch("recheck", again, records=self.book.records, step=2)
        self._pass_cache(occasion.chunk)
        launch("recheck", again, records=self.book.records, step=3)
        raw = self.records(count)
        seen = Counter(record.word for record in raw)
        for index, record in enumerate(raw):
            recheck = compared[index] if index < len(compared) else None
            # A word that failed both reads of an r,w,r element was rewritten with two values at once.
            kept = self._record(occasion, record, tried=index < again and seen[record.word] == 1, recheck=recheck)
            self.ledger.add_record(kept, record.address)
        if occasion.exchanged and after is not None:
            self._restore(after, raw[:again])

    def _record(self, occasion: Occasion, record: RawRecord, *, tried: bool, recheck: bool | None) -> ErrorRecord:
        step = occasion.step
        second = step.after is not None and record.expected != step.pattern.value(record.word)
        pattern = step.after if second and step.after is not None else step.pattern
        before = step.pattern if second else occasion.before
        origin = pattern.origin(record.actual, self.tested_words)
        return ErrorRecord(
            word=record.word,
            expected=record.expected,
            actual=record.actual,
            rereads=record.rereads if tried and not occasion.exchanged else (),
            rewrite=record.rewrite if tried else None,
            recheck=recheck,
            previous=None if before is None else before.value(record.word),
            origin=None if origin == record.word else origin,
            test=occasion.test,
            step=step.words,
            pass_index=occasion.pass_index,
            time=occasion.time,
            temperature=occasion.temperature,
            unit=record.unit,
        )

    def _differs_on_cpu(self, chunk: Chunk, record: RawRecord) -> bool:
        fetched = words(self.device.fetch(chunk.buffer, 8 * (record.word - chunk.first), 8))
        return fetched[0] != record.expected

    def _restore(self, pattern: Pattern, raw: Sequence[RawRecord]) -> None:
        """Gives the words the values that the sweep had written."""
        fixed = bytearray(self.device.fetch(self.book.records, 0, RECORD_BYTES * len(raw)))
        for index, record in enumerate(raw):
            at = RECORD_BYTES * index + 16
            fixed[at : at + 8] = pattern.value(record.word).to_bytes(8, "little")
        self.device.copy(self.book.records, bytes(fixed))
        self.device.launch("recheck", len(raw), records=self.book.records, step=2)

    def _pass_cache(self, chunk: Chunk) -> None:
        """Reads at least twice the cache from elsewhere, so that the next read of a word comes from memory."""
        left = 2 * self.cache
        others = [other for other in self.chunks if other is not chunk] or [chunk]
        for other in others:
            if left <= 0:
                return
            self.device.launch("read_sweep", other.tiles, data=other.buffer, sink=self.book.sink)
            left -= other.buffer.size
