"""Runs the steps of memory tests over the chunks of a device and writes down what happens. It never judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mats.device import Buffer, Conditions, Device
from mats.model import Quantity

from ._algorithms import Algorithm, Draw, Operation, Part, Step
from ._collector import Collector, Occasion
from ._errors import PER_LAUNCH, Book, Ledger
from ._patterns import Pattern, rotated
from ._space import Chunk

WRITING = frozenset({Operation.WRITE, Operation.EXCHANGE, Operation.OTHERS, Operation.IDS_WRITE})
VERIFYING = frozenset({Operation.VERIFY, Operation.EXCHANGE, Operation.IDS_VERIFY})
HAMMER_REPEATS = 65536
"""How often row_disturb reads a pair of rows where lines are evicted one by one."""
DISTURB_DISTANCE = 16384
"""Bytes between the two rows of a pair of aggressors."""


class Stopped(Exception):
    """The test must end now; the text says why."""


@dataclass(slots=True)
class Sweep:
    """One launch: ``time`` and ``duration`` in seconds, ``size`` in bytes swept, ``moved`` read and written."""

    time: float
    test: str
    operation: str
    kind: int
    chunk: int
    size: int
    duration: float
    moved: int

    @property
    def bandwidth(self) -> float:
        """Bytes read and written a second."""
        return self.moved / self.duration if self.duration > 0 else 0.0


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
    hammer_repeats: int = HAMMER_REPEATS
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
    _references: int = 0

    def __post_init__(self) -> None:
        self._start = self.device.now()
        self._contents = {chunk.first: _Content() for chunk in self.chunks}

    @property
    def tested(self) -> int:
        """Bytes of the tested space."""
        return sum(chunk.buffer.size for chunk in self.chunks)

    @property
    def collector(self) -> Collector:
        return Collector(self.device, self.chunks, self.book, self.cache, self.ledger)

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
        """Reads two chunks without checking them, other ones each time: the bandwidth over the run, at little cost."""
        whole = [chunk for chunk in self.chunks if chunk.buffer.size == self.chunks[0].buffer.size]
        for index in sorted({(2 * self._references + turn) % len(whole) for turn in (0, 1)}):
            started, size = self.elapsed(), whole[index].buffer.size
            duration = self.device.launch(
                "read_sweep", whole[index].tiles, data=whole[index].buffer, sink=self.book.sink
            )
            self._note(Sweep(started, "reference", "read", 0, self.chunks.index(whole[index]), size, duration, size))
            self.tick(0)
        self._references += 1

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
            self.tick(0)
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
        recorded = self.collector.recorded()
        found = {record.word for record in self.collector.records(min(recorded, PER_LAUNCH))}
        self.collector.clear(chunk)
        self.tick(0)
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
            kind, moved = step.pattern.kind, int(size * step.moved)
            self._note(Sweep(started, test, step.operation.value, kind, index, swept, duration, moved))
            if step.operation in WRITING:
                account.written += int(size * (0.95 if step.operation is Operation.OTHERS else share))
            if step.operation in VERIFYING:
                # The second read of an r,w,r element is not counted: the cache may have answered it.
                account.verified += int(size * share)
                account.full_verifies += share * size / self.tested
                self.ledger.add_verified(test, int(chunk.words * share))
                content = self._contents[chunk.first]
                before = None if step.operation is Operation.IDS_VERIFY else content.before
                self.collector.collect(
                    Occasion(test, step, chunk, pass_index, before, self.elapsed(), self._temperature())
                )
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
                pairs, repeats, positions = 4, self.hammer_repeats, 16
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
