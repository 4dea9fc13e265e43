"""Runs the steps of memory tests over the chunks of a device and writes down what happens. It never judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mats.device import Buffer, Conditions, Device
from mats.model import Quantity

from ._algorithms import Algorithm, Draw, Operation, Part, Step
from ._diagnosis import ErrorRecord
from ._errors import (
    COMPARED,
    PER_LAUNCH,
    RECHECKED,
    RECORD_BYTES,
    REPORT_WORDS,
    Book,
    Ledger,
    RawRecord,
    raw_records,
    words,
)
from ._patterns import Pattern, rotated
from ._space import Chunk

WRITING = frozenset({Operation.WRITE, Operation.EXCHANGE, Operation.OTHERS, Operation.IDS_WRITE})
VERIFYING = frozenset({Operation.VERIFY, Operation.EXCHANGE, Operation.IDS_VERIFY})
DISTURB_DISTANCE = 16384
"""Bytes between the two rows of a pair of aggressors."""


class Stopped(Exception):
    """The test must end now; the text says why."""


@dataclass(slots=True)
class Sweep:
    """One launch: ``time`` and ``duration`` in seconds, ``size`` in bytes moved once."""

    time: float
    test: str
    operation: str
    kind: int
    chunk: int
    size: int
    duration: float

    @property
    def bandwidth(self) -> float:
        return self.size / self.duration if self.duration > 0 else 0.0


@dataclass(slots=True)
class TestAccount:
    """What one test did over the whole run. Bytes and seconds."""

    passes: int = 0
    written: int = 0
    verified: int = 0
    duration: float = 0.0
    full_verifies: float = 0.0


@dataclass(slots=True)
class _Content:
    """What a chunk holds now and held before."""

    current: Pattern | None = None
    before: Pattern | None = None


@dataclass(slots=True)
class Tester:
    """The running test. ``tick`` is called with the launches' bytes and may raise :class:`Stopped`."""

    device: Device
    chunks: tuple[Chunk, ...]
    book: Book
    cache: int
    tick: Callable[[float], None]
    evicts_lines: bool = True
    """Whether the device's uncached load evicts its own line (CPU, simulator)."""
    ledger: Ledger = field(default_factory=Ledger)
    sweeps: list[Sweep] = field(default_factory=list)
    accounts: dict[str, TestAccount] = field(default_factory=dict)
    seen: list[tuple[float, Conditions]] = field(default_factory=list)
    activations: float = 0.0
    forced: dict[int, int] = field(default_factory=dict)
    """Words in which a bit is to be flipped on purpose, and the bits."""
    _contents: dict[int, _Content] = field(default_factory=dict)
    _start: float = 0.0
    _keep_every: int = 1
    _launches: int = 0

    def __post_init__(self) -> None:
        self._start = self.device.now()
        self._contents = {chunk.first: _Content() for chunk in self.chunks}

    @property
    def tested(self) -> int:
        """Bytes of the tested space."""
        return sum(chunk.buffer.size for chunk in self.chunks)

    def elapsed(self) -> float:
        return self.device.now() - self._start

    def sense(self) -> Conditions:
        """Reads the passive state and writes it down."""
        conditions = self.device.conditions()
        self.seen.append((self.elapsed(), conditions))
        return conditions

    def run(self, algorithm: Algorithm, draw: Draw) -> None:
        """One pass of one test. Raises :class:`Stopped`, DeviceError."""
        account = self.accounts.setdefault(algorithm.name, TestAccount())
        for step in algorithm.steps(draw):
            if step.operation is Operation.DWELL:
                self._dwell(step.seconds)
            elif step.operation is Operation.DISTURB:
                self._disturb()
            else:
                self._sweep(algorithm.name, step, draw.pass_index, account)
        account.passes += 1

    def reference(self) -> None:
        """Reads everything without checking it: the bandwidth that later readings are compared with."""
        for index, chunk in enumerate(self.chunks):
            started = self.elapsed()
            duration = self.device.launch("read_sweep", chunk.tiles, data=chunk.buffer, sink=self.book.sink)
            self._note(Sweep(started, "reference", "read", 0, index, chunk.buffer.size, duration))
            self.tick(chunk.buffer.size)

    def copy_bound(self) -> list[float]:
        """Traffic in bytes a second of copying one chunk to another, several times; empty with one chunk."""
        whole = [chunk for chunk in self.chunks if chunk.buffer.size == self.chunks[0].buffer.size]
        if len(whole) < 2:
            return []
        found = []
        for turn in range(8):
            source, target = whole[turn % len(whole)], whole[(turn + 1) % len(whole)]
            duration = self.device.launch("copy_sweep", source.tiles, destination=target.buffer, source=source.buffer)
            found.append(2 * source.buffer.size / duration)
        return found

    def prove(self, flips: Sequence[tuple[int, int]]) -> list[int] | None:
        """Flips bits of words of the first chunk, (word, bits) each, and gives the words that were not reported.

        None when the memory's own errors fill the report, so that the planted ones cannot be looked for.
        """
        chunk = self.chunks[0]
        pattern = rotated(7)
        self._launch("pattern_write", chunk, pattern)
        for word, bits in flips:
            self.device.launch("inject", 1, data=chunk.buffer, word=word, flips=bits)
        self._launch("pattern_verify", chunk, pattern, **self._reporting(PER_LAUNCH))
        recorded = words(self.device.fetch(self.book.report, 0, 16))[1]
        found = {record.word for record in self._fetch_records(min(recorded, PER_LAUNCH))}
        self._clear(chunk)
        missed = [word for word, _ in flips if word + chunk.first not in found]
        return None if missed and recorded > PER_LAUNCH else missed

    # ---- one sweep ----

    def _parts(self, part: Part) -> list[tuple[int, Chunk]]:
        numbered = list(enumerate(self.chunks))
        split = max(1, len(numbered) // 8)
        if part is Part.ALL or len(numbered) < 2:
            return numbered if part is not Part.REST else []
        return numbered[:split] if part is Part.WINDOW else numbered[split:]

    def _sweep(self, test: str, step: Step, pass_index: int, account: TestAccount) -> None:
        chunks = self._parts(step.part)
        begun = self.device.now()
        for index, chunk in reversed(chunks) if step.descending else chunks:
            self._force(chunk, step)
            started = self.elapsed()
            duration = self._launch_step(test, step, chunk)
            size = chunk.buffer.size
            share = 16 / 4096 if step.operation in (Operation.IDS_WRITE, Operation.IDS_VERIFY) else 1.0
            swept = int(size * share)
            self._note(Sweep(started, test, step.operation.value, step.pattern.kind, index, swept, duration))
            if step.operation in WRITING:
                account.written += int(size * (0.95 if step.operation is Operation.OTHERS else share))
            if step.operation in VERIFYING:
                times = 2 if step.reread else 1
                account.verified += int(size * share) * times
                account.full_verifies += share * times * size / self.tested
                self.ledger.add_verified(test, int(chunk.words * share) * times)
                self._collect(test, step, chunk, pass_index)
            self._remember(step, chunk)
            self.tick(size * step.moved)
        account.duration += self.device.now() - begun

    def _launch_step(self, test: str, step: Step, chunk: Chunk) -> float:
        device, reporting = self.device, self._reporting(self.ledger.room(test))
        match step.operation:
            case Operation.WRITE:
                return self._launch("pattern_write", chunk, step.pattern, descending=step.descending)
            case Operation.VERIFY:
                return self._launch("pattern_verify", chunk, step.pattern, descending=step.descending, **reporting)
            case Operation.EXCHANGE:
                after = step.after or step.pattern
                return self._launch(
                    "pattern_exchange",
                    chunk,
                    step.pattern,
                    new_a=after.a,
                    new_b=after.b,
                    new_mask=after.mask,
                    descending=step.descending,
                    reread=int(step.reread),
                    **reporting,
                )
            case Operation.OTHERS:
                return device.launch(
                    "modulo_others", chunk.tiles, data=chunk.buffer, first=chunk.first, skip=step.skip, value=step.value
                )
            case Operation.IDS_WRITE:
                return device.launch("page_ids_write", chunk.tiles, data=chunk.buffer, first=chunk.first)
            case _:
                return device.launch("page_ids_verify", chunk.tiles, data=chunk.buffer, first=chunk.first, **reporting)

    def _launch(self, kernel: str, chunk: Chunk, pattern: Pattern, **more: Buffer | int) -> float:
        more.setdefault("descending", 0)
        more["descending"] = int(more["descending"]) if not isinstance(more["descending"], Buffer) else 0
        return self.device.launch(
            kernel,
            chunk.tiles,
            data=chunk.buffer,
            first=chunk.first,
            kind=pattern.kind,
            a=pattern.a,
            b=pattern.b,
            mask=pattern.mask,
            **more,
        )

    def _reporting(self, room: int) -> dict[str, Buffer | int]:
        book = self.book
        return {"report": book.report, "pages": book.pages, "records": book.records, "capacity": room}

    def _remember(self, step: Step, chunk: Chunk) -> None:
        content = self._contents[chunk.first]
        if step.operation is Operation.WRITE:
            content.before, content.current = content.current, step.pattern
        elif step.operation is Operation.EXCHANGE:
            content.before, content.current = step.pattern, step.after
        elif step.operation is Operation.IDS_WRITE:
            content.before, content.current = None, None

    def _force(self, chunk: Chunk, step: Step) -> None:
        """Flips the bits that the user wants flipped, just before the words are verified; each once."""
        if step.operation is not Operation.VERIFY:
            return
        here = [word for word in self.forced if chunk.first <= word < chunk.first + chunk.words]
        for word in here:
            bits = self.forced.pop(word)
            self.device.launch("inject", 1, data=chunk.buffer, word=word - chunk.first, flips=bits)

    def _note(self, sweep: Sweep) -> None:
        """Keeps at most 20,000 launches: then every second one goes, and only every second is kept from there on."""
        self._launches += 1
        if self._launches % self._keep_every:
            return
        self.sweeps.append(sweep)
        if len(self.sweeps) > 20_000:
            del self.sweeps[::2]
            self._keep_every *= 2

    @property
    def kept_every(self) -> int:
        """One of so many launches is in ``sweeps``."""
        return self._keep_every

    # ---- errors ----

    def _collect(self, test: str, step: Step, chunk: Chunk, pass_index: int) -> None:
        failed, recorded = words(self.device.fetch(self.book.report, 0, 16))
        if not failed and not recorded:
            return
        report = words(self.device.fetch(self.book.report, 0, 8 * REPORT_WORDS))
        pages = words(self.device.fetch(self.book.pages, 0, 8 * (chunk.buffer.size >> 21)))
        self.ledger.add_report(test, report, pages, chunk.first >> 18)
        count = min(recorded, self.ledger.room(test))
        if count:
            self._recheck(test, step, chunk, pass_index, count)
        self._clear(chunk)

    def _clear(self, chunk: Chunk) -> None:
        self.device.copy(self.book.report, bytes(8 * REPORT_WORDS))
        self.device.copy(self.book.pages, bytes(8 * (chunk.buffer.size >> 21)))

    def _fetch_records(self, count: int) -> list[RawRecord]:
        return list(raw_records(self.device.fetch(self.book.records, 0, RECORD_BYTES * count))) if count else []

    def _recheck(self, test: str, step: Step, chunk: Chunk, pass_index: int, count: int) -> None:
        """Reads failed words again (past the cache), compares some on the CPU, rewrites them, and keeps records.

        An exchange has overwritten what it read: its words are only rewritten with the expected value, read, and
        given the new pattern's value back.
        """
        again = min(count, RECHECKED)
        exchanged = step.operation is Operation.EXCHANGE
        compared: list[bool | None] = []
        if not exchanged:
            for turn in (0, 1):
                self._pass_cache(chunk)
                self.device.launch("recheck", again, records=self.book.records, step=turn)
            compared = [self._differs_on_cpu(chunk, record) for record in self._fetch_records(min(again, COMPARED))]
        self.device.launch("recheck", again, records=self.book.records, step=2)
        self._pass_cache(chunk)
        self.device.launch("recheck", again, records=self.book.records, step=3)
        raw = self._fetch_records(count)
        temperature = self._temperature()
        for index, record in enumerate(raw):
            rereads = () if exchanged or index >= again else record.rereads
            rewrite = record.rewrite if index < again else None
            recheck = compared[index] if index < len(compared) else None
            self._keep(test, step, chunk, pass_index, record, rereads, rewrite, recheck, temperature)
        if exchanged and step.after is not None:
            self._restore(step.after, raw[:again])

    def _keep(
        self,
        test: str,
        step: Step,
        chunk: Chunk,
        pass_index: int,
        record: RawRecord,
        rereads: tuple[int, ...],
        rewrite: int | None,
        recheck: bool | None,
        temperature: float | None,
    ) -> None:
        after = step.after
        second = after is not None and record.expected != step.pattern.value(record.word)
        pattern = after if second and after is not None else step.pattern
        before = step.pattern if second else self._contents[chunk.first].before
        origin = pattern.origin(record.actual, self.tested // 8)
        if step.operation is Operation.IDS_VERIFY:
            before = None
        self.ledger.add_record(
            ErrorRecord(
                word=record.word,
                expected=record.expected,
                actual=record.actual,
                rereads=rereads,
                rewrite=rewrite,
                recheck=recheck,
                previous=None if before is None else before.value(record.word),
                origin=None if origin == record.word else origin,
                test=test,
                step=step.words,
                pass_index=pass_index,
                time=self.elapsed(),
                temperature=temperature,
            ),
            record.address,
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

    def _temperature(self) -> float | None:
        if not self.seen:
            return None
        reading = self.seen[-1][1].temperature
        return float(reading.value) if isinstance(reading, Quantity) else None

    # ---- waiting and disturbing ----

    def _dwell(self, seconds: float) -> None:
        end = self.device.now() + seconds
        while (left := end - self.device.now()) > 0:
            self.tick(0)
            self.device.wait(min(left, 0.2))

    def _disturb(self) -> None:
        """Reads pairs of rows again and again over each chunk; notes the reads a second and row that were reached.

        Where a line can be evicted from the cache one by one (CPU, simulator) few pairs are read often; on a GPU the
        pairs together must exceed the cache, or every read would end there.
        """
        for chunk in self.chunks:
            if self.evicts_lines:
                pairs, repeats, positions = 4, 65536, 16
            else:
                pairs, repeats, positions = min(2 * self.cache // 64, chunk.words // 32), 2000, 1
            step = (chunk.words - DISTURB_DISTANCE // 8) // (pairs * positions)
            for position in range(positions):
                duration = self.device.launch(
                    "row_disturb",
                    pairs,
                    data=chunk.buffer,
                    offset_words=position * pairs * step,
                    step_words=step,
                    distance_words=DISTURB_DISTANCE // 8,
                    repeats=repeats,
                    sink=self.book.sink,
                )
                self.activations = max(self.activations, repeats / duration)
                self.tick(0)
