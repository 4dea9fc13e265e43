"""Who reads from a pool at the moment: what keeps a frame that a page has left from being written again too early.

A reader is given the number of the epoch it came in. What leaves its frame ends an epoch: those who came in it, or
before, may still look at the old frame. Once all of them have gone, nobody can.
"""

from __future__ import annotations

import threading


class Readers:
    """Counts readers by epoch. Its lock is held for a few instructions only, never while bytes are copied."""

    __slots__ = ("_epoch", "_inside", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._inside: dict[int, int] = {}

    def enter(self) -> int:
        """A reader comes; gives its epoch, to be handed to :meth:`leave`."""
        with self._lock:
            self._inside[self._epoch] = self._inside.get(self._epoch, 0) + 1
            return self._epoch

    def leave(self, epoch: int) -> None:
        """A reader of that epoch goes."""
        with self._lock:
            left = self._inside[epoch] - 1
            if left:
                self._inside[epoch] = left
            else:
                del self._inside[epoch]

    def end_epoch(self) -> int:
        """The number of the epoch that ends here. To be called after the table no longer shows the old frames."""
        with self._lock:
            self._epoch += 1
            return self._epoch - 1

    def oldest(self) -> int:
        """The oldest epoch somebody is still in: what left its frame in an earlier one is seen by nobody."""
        with self._lock:
            return min(self._inside, default=self._epoch)
