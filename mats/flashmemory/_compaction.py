"""Scattered pages into contiguous runs, hottest owner first, a step of bounded time after the other.

**Copy, then swap, with the old frame kept for its readers** was chosen over reading twice (a sequence lock): who reads
on a GPU has queued a kernel over frames and cannot read again when a number has changed meanwhile. So nobody ever has
to: a page is copied to a free frame, both copies are compared by checksum, its entry of the table is replaced by one
store, and the frame it left is given out again only when every reader that came before has gone.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._book import FREE, NO_FRAME, OWNED, WAITING, Book
from ._frames import Frames, PoolError
from ._pace import Pace
from ._readers import Readers

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.integer[Any]]

BUDGET = 0.012
"""Seconds of a step where nothing else is asked for: what users' documents allow a reorganisation to take."""
WINDOW = 256
"""Pages looked at in one batch; also bounds the memory a copy takes."""


class Stop(enum.StrEnum):
    """Why a step ended. The values are words for people."""

    DONE = "all pages are in their places"
    BUDGET = "the time of the step is used up"
    READERS = "a frame that is needed is still being read"
    NO_ROOM = "no frame is free to move a page through"
    TOO_SLOW = "moving one page is expected to take longer than a step may"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. ``placed``, ``evacuated``: pages moved into place, and out of the way of others."""

    placed: int
    evacuated: int
    size: int
    """Bytes copied."""
    seconds: float
    stop: Stop


@dataclass(frozen=True, slots=True)
class _Batch:
    placed: int = 0
    evacuated: int = 0
    stop: Stop | None = None


def order_of(pages: Integers, heat: NDArray[Any], row: int) -> Integers:
    """``pages`` in the order they are to lie in: owners by the mean heat of their pages, hottest first, each in order.

    ``pages`` and ``heat``: [pages]; page p belongs to owner p // row. Equal owners lie in the order of their numbers.
    """
    import numpy

    owners, which, counts = numpy.unique(pages // row, return_inverse=True, return_counts=True)
    means = numpy.bincount(which, weights=heat, minlength=len(owners)) / counts
    return pages[numpy.lexsort((pages, -means[which]))]


class Compaction:
    """One compaction of a pool, made by :meth:`mats.flashmemory.pool.PagePool.compaction`; resumable, cancelable.

    Steps may be far apart, and the pool is used as ever between them and, batch by batch, during them: pages that came
    since are moved out of the way, pages that went or were pinned since are passed over. :meth:`step` is for one thread
    at a time; :meth:`cancel` may come from any.
    """

    __slots__ = (
        "_book",
        "_cancelled",
        "_clock",
        "_cursor",
        "_finished",
        "_frames",
        "_lock",
        "_next",
        "_order",
        "_pace",
        "_readers",
    )

    def __init__(
        self,
        book: Book,
        frames: Frames,
        readers: Readers,
        lock: threading.Lock,
        clock: Callable[[], float],
        order: Integers,
    ) -> None:
        self._book, self._frames, self._readers, self._lock, self._clock = book, frames, readers, lock, clock
        self._order = order
        self._next = 0  # of the order
        self._cursor = 0  # the frame that page is to get
        self._pace = Pace()
        self._cancelled = threading.Event()
        self._finished = False

    @property
    def is_over(self) -> bool:
        """It is done or was cancelled: the pool may begin another."""
        return self._finished or self._cancelled.is_set()

    @property
    def left(self) -> int:
        """Pages that have not had their turn yet."""
        return 0 if self._finished else len(self._order) - self._next

    def cancel(self) -> None:
        """Ends it between two batches; every page is whole, where it was or where it is to be."""
        self._cancelled.set()

    def step(self, budget: float = BUDGET) -> Step:
        """Moves pages for at most ``budget`` seconds of the clock, as far as can be foreseen from the copies before.

        It opens with one page, to learn what copies cost now. Raises PoolError when a copy is not equal to its page
        (which was written while it was not pinned, or the memory is bad): that page then stays where it is.
        """
        start = self._clock()
        placed = evacuated = 0
        opened, stop = False, None
        while stop is None:
            begun = self._clock()
            copies = self._pace.allowed(budget, begun - start)
            if self._cancelled.is_set() or self._finished:
                stop = Stop.CANCELLED if self._cancelled.is_set() else Stop.DONE
            elif not copies:
                stop = Stop.BUDGET if opened else Stop.TOO_SLOW
            else:
                batch = self._batch(max(1, copies // 2) if opened else 1)
                moved = batch.placed + batch.evacuated
                placed, evacuated, stop = placed + batch.placed, evacuated + batch.evacuated, batch.stop
                if moved:
                    seconds = self._clock() - begun
                    self._pace.saw(seconds, moved) if opened else self._pace.saw_first(seconds)
                    opened = True
                elif stop is None and self._clock() - start >= budget:
                    stop = Stop.BUDGET
        if stop is Stop.TOO_SLOW:
            self._pace.doubt()
        if self.is_over:
            with self._lock:
                self._book.sort_free()
        size = (placed + evacuated) * self._frames.size
        return Step(placed, evacuated, size, self._clock() - start, stop)

    def _batch(self, limit: int) -> _Batch:
        """Moves the next ``limit`` pages that are not in place into their frames, and what lies there elsewhere."""
        with self._lock:
            try:
                return self._batch_locked(limit)
            finally:  # what comes meanwhile is not to lie where pages are put next
                self._reclaim()
                self._book.sort_free(highest_next=True)

    def _batch_locked(self, limit: int) -> _Batch:
        book = self._book
        self._reclaim()
        pages, targets, turns = self._pairs(limit)
        if not len(pages):
            return _Batch(stop=Stop.DONE if self._finished else None)
        fitting = self._fitting(pages, targets)
        if not fitting:
            return _Batch(stop=Stop.READERS if book.waiting else Stop.NO_ROOM)
        pages, targets = pages[:fitting], targets[:fitting]
        evacuated = self._evacuate(pages, targets)
        self._reclaim()
        blocked = book.state[targets] == WAITING
        ready = int(blocked.argmax()) if blocked.any() else fitting
        away = book.frames_of(pages[:ready]) != targets[:ready]
        self._move(pages[:ready][away], targets[:ready][away])
        if ready:
            self._next += int(turns[ready - 1]) + 1
            self._cursor = int(targets[ready - 1]) + 1
        return _Batch(int(away.sum()), evacuated, Stop.READERS if ready < fitting else None)

    def _reclaim(self) -> None:
        self._book.reclaim(self._readers.oldest(), listed=False)

    def _pairs(self, limit: int) -> tuple[Integers, Integers, Integers]:
        """The next pages, the frame of each, and their turns in the order; empty where only turns were passed over."""
        import numpy

        book = self._book
        turn = self._order[self._next : self._next + WINDOW]
        usable = numpy.flatnonzero((book.frames_of(turn) != NO_FRAME) & (book.pins[turn] == 0))
        there = book.pages[self._cursor : self._cursor + len(usable)]
        targets = numpy.flatnonzero((there < 0) | (book.pins[there] == 0)) + self._cursor
        usable = usable[: len(targets)]
        pages = turn[usable]
        if not len(usable):
            if not len(there):
                self._next += len(turn)
            self._cursor += len(there)
            self._finished = self._next >= len(self._order) or self._cursor >= len(book.pages)
            return pages, targets, usable
        wanted = numpy.cumsum(book.frames_of(pages) != targets) <= limit
        count = int(wanted.sum())
        return pages[:count], targets[:count], usable[:count]

    def _fitting(self, pages: Integers, targets: Integers) -> int:
        """How many pairs can be served: what lies in their way has frames to go to, and no frame is waited for."""
        import numpy

        state = self._book.state[targets]
        occupied = (state == OWNED) & (self._book.frames_of(pages) != targets)
        room = int(numpy.count_nonzero(self._book.state == FREE)) - numpy.cumsum(state == FREE)
        fits = (numpy.cumsum(occupied) <= room) & (state != WAITING)
        return len(pages) if fits.all() else int(fits.argmin())

    def _evacuate(self, pages: Integers, targets: Integers) -> int:
        """Moves what does not belong into the frames ``targets`` to the highest free frames beside them."""
        import numpy

        book = self._book
        wrong = (book.state[targets] == OWNED) & (book.frames_of(pages) != targets)
        leaving = book.pages[targets[wrong]]
        if len(leaving):
            free = numpy.flatnonzero(book.state == FREE)
            beside = free[(free < targets[0]) | (free > targets[-1])]
            self._move(leaving, beside[-len(leaving) :])
        return len(leaving)

    def _move(self, pages: Integers, targets: Integers) -> None:
        """Copies, compares, swaps; the frames left are given out again when their readers have gone."""
        if not len(pages):
            return
        sources = self._book.frames_of(pages)
        before = self._frames.checksums(sources)
        self._frames.copy(sources, targets)
        if (self._frames.checksums(targets) != before).any():
            raise PoolError("a page and its copy differ: it was written without being pinned, or memory is bad")
        left = self._book.swap(pages, targets)
        self._book.waiting.append((self._readers.end_epoch(), left))
