"""Which page lies in which frame, and its reverse: the book of a pool. Its caller holds the pool's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.integer[Any]]

FREE, WAITING, OWNED = 0, 1, 2
"""What a frame is: can be given out; left by its page, may still be read; holds a page."""

FRAME_BITS = 32
GENERATIONS = 1 << 31
"""Generations begin again at 0 after so many; a place that old is not recognised as stale."""
NO_FRAME = (1 << FRAME_BITS) - 1


class Book:
    """The arrays of a pool of ``frames`` frames and a table [owners, pages]; page p of owner o is number o*pages+p."""

    __slots__ = (
        "free_list",
        "free_top",
        "generations",
        "heat",
        "last_use",
        "pages",
        "pins",
        "state",
        "table",
        "waiting",
    )

    def __init__(self, frames: int, owners: int, pages: int) -> None:
        import numpy

        self.table = numpy.full(owners * pages, NO_FRAME, dtype=numpy.int64)
        """Generation * 2**32 + frame of each page; the frame is 2**32 - 1 where the page is not here."""
        self.pins = numpy.zeros(owners * pages, dtype=numpy.int32)
        self.heat = numpy.zeros(owners * pages, dtype=numpy.float32)
        self.last_use = numpy.full(owners * pages, -1, dtype=numpy.int64)
        self.pages = numpy.full(frames, -1, dtype=numpy.int64)
        """Number of the page in each frame, or -1."""
        self.generations = numpy.zeros(frames, dtype=numpy.int64)
        """Generation of the page in each frame."""
        self.state = numpy.full(frames, FREE, dtype=numpy.uint8)
        self.free_list = numpy.arange(frames - 1, -1, -1, dtype=numpy.int32)
        """A stack: the last one is given out next."""
        self.free_top = frames
        self.waiting: list[tuple[int, Integers]] = []
        """Epoch and frames that were left in it, oldest first."""

    def frames_of(self, pages: Integers) -> Integers:
        """The frame of each page, NO_FRAME where it is not here."""
        return self.table[pages] & NO_FRAME

    def next_frame(self) -> int:
        """The frame that :meth:`take` puts the next page into; there is one."""
        return int(self.free_list[self.free_top - 1])

    def take(self, page: int) -> tuple[int, int]:
        """Puts a page into the next free frame (there is one); gives frame and generation."""
        frame = self.next_frame()
        self.free_top -= 1
        generation = ((int(self.table[page]) >> FRAME_BITS) + 1) % GENERATIONS
        self.pages[frame], self.generations[frame], self.state[frame] = page, generation, OWNED
        self.table[page] = (generation << FRAME_BITS) | frame
        return frame, generation

    def drop(self, page: int) -> int:
        """Takes a page out of its frame, which waits for its readers; gives the frame. Its generation stays known."""
        word = int(self.table[page])
        frame = word & NO_FRAME
        self.table[page] = word | NO_FRAME
        self.pages[frame], self.state[frame] = -1, WAITING
        self.heat[page], self.last_use[page] = 0, -1
        return frame

    def swap(self, pages: Integers, targets: Integers) -> Integers:
        """The pages are in the frames ``targets`` from now on; gives the frames they left, which wait for readers."""
        words = self.table[pages]
        left = words & NO_FRAME
        generations = ((words >> FRAME_BITS) + 1) % GENERATIONS
        self.pages[targets], self.generations[targets], self.state[targets] = pages, generations, OWNED
        self.table[pages] = (generations << FRAME_BITS) | targets
        self.pages[left], self.state[left] = -1, WAITING
        return left

    def reclaim(self, oldest: int, listed: bool = True) -> None:
        """Frames that were left in an epoch before ``oldest`` can be given out again.

        Not ``listed``: :meth:`sort_free` is called before the next one is.
        """
        while self.waiting and self.waiting[0][0] < oldest:
            _, frames = self.waiting.pop(0)
            self.state[frames] = FREE
            if not listed:
                continue
            self.free_list[self.free_top : self.free_top + len(frames)] = frames
            self.free_top += len(frames)

    def sort_free(self, highest_next: bool = False) -> None:
        """Orders the free list, so that the lowest free frames are given out next, or the highest."""
        import numpy

        free = numpy.flatnonzero(self.state == FREE)
        self.free_list[: len(free)] = free if highest_next else free[::-1]
        self.free_top = len(free)

    def broken(self) -> tuple[str, ...]:
        """The invariants that do not hold, a sentence each."""
        import numpy

        frames = len(self.state)
        given = self.free_list[: self.free_top]
        waiting = numpy.concatenate([numpy.empty(0, numpy.int64), *(left for _, left in self.waiting)])
        owned = numpy.flatnonzero(self.pages >= 0)
        words = self.table[self.pages[owned]]
        here = numpy.flatnonzero((self.table & NO_FRAME) != NO_FRAME)
        held = self.frames_of(here)
        counts = len(given) + len(waiting) + len(owned)
        checks = (
            (counts == frames, f"{counts} frames are free, waiting or owned, and there are {frames}"),
            (len(numpy.unique(given)) == len(given), "a frame is in the free list twice"),
            (bool((self.state[given] == FREE).all()), "a frame of the free list is not free"),
            (bool((self.state[waiting] == WAITING).all()), "a frame that waits for its readers is in use"),
            (bool((self.state[owned] == OWNED).all()), "a frame with a page is not marked as owned"),
            (len(numpy.unique(held)) == len(held), "two pages are in one frame"),
            (len(here) == len(owned), f"{len(here)} pages have a frame, and {len(owned)} frames a page"),
            (bool(((words & NO_FRAME) == owned).all()), "owner and table disagree about a frame"),
            (bool(((words >> FRAME_BITS) == self.generations[owned]).all()), "owner and table differ in a generation"),
            (bool((self.pins >= 0).all()), "a page was unpinned more often than pinned"),
            (not self.pins.any() or numpy.isin(numpy.flatnonzero(self.pins), here).all(), "a pinned page is not here"),
        )
        return tuple(sentence for holds, sentence in checks if not holds)
