"""A pool of page frames that compacts itself while it is read: pages, their owners, and where each page lies.

An owner is whatever has pages in an order: one layer and head of one sequence of one model, or a program's buffer. Page
p of owner o may be here, in a frame, or not. Three ways of holding on to a page:

- **Reading** (:meth:`PagePool.reading`): what is looked up within stays readable, with the bytes it had, until the end
  of it, even if the page is moved or released meanwhile. A look-up waits for a batch; bytes are read without lock.
- **Pinning** (:meth:`PagePool.pin`): the page stays in its frame. Needed to write to it, and where others know its
  address (registered buffers, captured graphs).
- **A place kept** for later: :meth:`PagePool.is_current` tells whether it still is the page's, by its generation.

**Heat** is a number that the owner gives, such as a mean of attention scores. No counter of a GPU tells how often a
page is used, and nothing here pretends to. It decides only which pages are put in place first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._book import FRAME_BITS, FREE, NO_FRAME, Book
from ._compaction import BUDGET, Compaction, Step, Stop, order_of
from ._figures import Figures, figures_of
from ._frames import ArrayFrames, Frames, PoolError
from ._readers import Readers

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.integer[Any]]

__all__ = [
    "BUDGET",
    "ArrayFrames",
    "Compaction",
    "Figures",
    "Frames",
    "PagePool",
    "Place",
    "PoolError",
    "PoolFull",
    "Reader",
    "Step",
    "Stop",
]


class PoolFull(PoolError):
    """No frame is free; the sentence says how many wait for readers to go."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page was when somebody looked. ``generation`` rises each time the page gets another frame."""

    owner: int
    page: int
    frame: int
    generation: int


class Reader:
    """Looks pages up in the table, as long as its reading lasts. A look-up takes the pool's lock for a moment."""

    __slots__ = ("_book", "_lock", "_row")

    def __init__(self, book: Book, row: int, lock: threading.Lock) -> None:
        self._book, self._row, self._lock = book, row, lock

    def place(self, owner: int, page: int) -> Place | None:
        """Where the page is, frame and generation of one moment; None if it is not here."""
        with self._lock:
            word = int(self._book.table[owner * self._row + page])
        frame = word & NO_FRAME
        return None if frame == NO_FRAME else Place(owner, page, frame, word >> FRAME_BITS)

    def frames(self, owner: int) -> Integers:
        """The frame of each of the owner's pages, -1 where it is not here; [pages], int64.

        A page that is being moved is shown in its old or its new frame; either holds its bytes.
        """
        with self._lock:
            found = self._book.table[owner * self._row : (owner + 1) * self._row] & NO_FRAME
        found[found == NO_FRAME] = -1
        return found


class PagePool:
    """Pages of ``owners`` owners, up to ``pages`` each, in the frames of ``frames``.

    Every method may be called from any thread. They take one lock, which a compaction holds for a
    batch at a time, about half a step's budget at most. A page that is not here, or an owner or a page that cannot be,
    raises PoolError. Raises ValueError for a table without entries, or of 2**32 - 1 frames and more.
    """

    def __init__(self, frames: Frames, owners: int, pages: int) -> None:
        if owners < 1 or pages < 1 or not 0 < frames.count < NO_FRAME:
            raise ValueError("a pool needs at least one owner, one page and one frame, and fewer than 2**32 - 1 frames")
        self.frames = frames
        self._owners, self._row = owners, pages
        self._book = Book(frames.count, owners, pages)
        self._readers = Readers()
        self._lock = threading.Lock()
        self._compaction: Compaction | None = None

    def allocate(self, owner: int, page: int, heat: float = 0.0, fill: Callable[[int], object] | None = None) -> Place:
        """A frame for a page that has none, pinned so that it can be written to; :meth:`unpin` it when it was.

        ``fill`` is called with the number of the frame before readers can find the page, with the pool's lock held; it
        must not call the pool, and if it raises, the page is not here. Without it, readers find what the frame held
        before until the owner has written: right for an owner who knows how much of a page is written.
        Raises PoolFull, and PoolError if the page is here already.
        """
        number = self._number(owner, page)
        with self._lock:
            book = self._book
            if int(book.table[number]) & NO_FRAME != NO_FRAME:
                raise PoolError(f"page {page} of owner {owner} is in the pool already")
            if not book.free_top:
                book.reclaim(self._readers.oldest())
            if not book.free_top:
                waiting = sum(len(frames) for _, frames in book.waiting)
                raise PoolFull(f"none of {self.frames.count} frames is free; {waiting} wait for their readers to go")
            if fill is not None:
                fill(book.next_frame())
            frame, generation = book.take(number)
            book.pins[number], book.heat[number] = 1, heat
            return Place(owner, page, frame, generation)

    def release(self, owner: int, page: int) -> None:
        """The page is not needed any more. Who reads it already can go on. Raises PoolError if it is pinned."""
        import numpy

        with self._lock:
            number = self._here(owner, page)
            if self._book.pins[number]:
                raise PoolError(f"page {page} of owner {owner} is pinned")
            frame = self._book.drop(number)
            self._book.waiting.append((self._readers.end_epoch(), numpy.array([frame])))
            self._book.reclaim(self._readers.oldest())

    def pin(self, owner: int, page: int) -> Place:
        """The page stays in its frame until it was unpinned as often as pinned. Waits for a batch that runs."""
        with self._lock:
            number = self._here(owner, page)
            self._book.pins[number] += 1
            word = int(self._book.table[number])
            return Place(owner, page, word & NO_FRAME, word >> FRAME_BITS)

    def unpin(self, owner: int, page: int) -> None:
        """Takes one pin away. Raises PoolError if there is none."""
        with self._lock:
            number = self._here(owner, page)
            if not self._book.pins[number]:
                raise PoolError(f"page {page} of owner {owner} is not pinned")
            self._book.pins[number] -= 1

    def touch(self, owner: int, page: int, step: int, heat: float | None = None) -> None:
        """Notes that the page was used at ``step``, a count of the owner's own, and its heat now where it is given."""
        with self._lock:
            number = self._here(owner, page)
            self._book.last_use[number] = step
            if heat is not None:
                self._book.heat[number] = heat

    def heat(self, owner: int, page: int) -> float:
        """The heat that was last given, 0 at first; in single precision."""
        with self._lock:
            return float(self._book.heat[self._here(owner, page)])

    def last_use(self, owner: int, page: int) -> int:
        """The step of the last :meth:`touch`, -1 if there was none since it was allocated."""
        with self._lock:
            return int(self._book.last_use[self._here(owner, page)])

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """What is looked up within can be read until the end. Where a GPU reads, end it when its kernels are done."""
        epoch = self._readers.enter()
        try:
            yield Reader(self._book, self._row, self._lock)
        finally:
            self._readers.leave(epoch)

    def is_current(self, place: Place) -> bool:
        """The page still is where ``place`` says, and was there all the time (2**31 moves apart it cannot be told)."""
        word = int(self._book.table[self._number(place.owner, place.page)])
        return word == (place.generation << FRAME_BITS) | place.frame

    def compaction(self, clock: Callable[[], float] = time.perf_counter) -> Compaction:
        """Plans to lay the pages that are here in one run for each owner, hottest owner first, from frame 0 on.

        Pinned pages stay, and runs are broken by them. A pool that is compact already is left as it is, whatever is
        hot now. The plan is made from copies, so that nobody waits for the sorting; the pages are moved by
        :meth:`Compaction.step`. ``clock`` gives seconds. Raises PoolError while another compaction is not over.
        """
        with self._lock:
            self._book.reclaim(self._readers.oldest())
            held = self._book.pages.copy()
            free = self._book.state == FREE
            here = held[held >= 0]
            heat, pins = self._book.heat[here], self._book.pins[here]
        order = order_of(here[pins == 0], heat[pins == 0], self._row)
        if figures_of(held, free, 0, self._row).is_compact:
            order = order[:0]
        made = Compaction(self._book, self.frames, self._readers, self._lock, clock, order)
        with self._lock:
            if self._compaction is not None and not self._compaction.is_over:
                raise PoolError("a compaction of this pool is not over: finish or cancel it")
            self._compaction = made
        return made

    def figures(self) -> Figures:
        """How the pool lies now; computed from copies, so that nobody waits for it."""
        with self._lock:
            self._book.reclaim(self._readers.oldest())
            held = self._book.pages.copy()
            free = self._book.state == FREE
            pinned = int((self._book.pins[held[held >= 0]] > 0).sum())
        return figures_of(held, free, pinned, self._row)

    def validate(self) -> tuple[str, ...]:
        """The invariants that do not hold, a sentence each; empty when the pool is sound.

        Free, waiting and owned frames are all there are; owner and table are inverse; no frame holds two pages or is
        free twice; generations are equal. Costs some time in proportion to frames and table, with the lock held.
        """
        with self._lock:
            return self._book.broken()

    def _number(self, owner: int, page: int) -> int:
        if not (0 <= owner < self._owners and 0 <= page < self._row):
            raise PoolError(f"there is no page {page} of owner {owner}: {self._owners} owners of {self._row} pages")
        return owner * self._row + page

    def _here(self, owner: int, page: int) -> int:
        number = self._number(owner, page)
        if int(self._book.table[number]) & NO_FRAME == NO_FRAME:
            raise PoolError(f"page {page} of owner {owner} is not in the pool")
        return number
