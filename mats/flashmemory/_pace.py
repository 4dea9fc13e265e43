"""How many copies the rest of a time budget allows: learnt from the batches before, with room to err."""

from __future__ import annotations

AIM = 0.5
"""The share of a budget that work is planned for. The other half is for what a busy machine takes from it: a thread
that loses its processor gets it back some 4 ms later."""
MARGIN = 1.25
"""What is foreseen is taken this many times."""


class Pace:
    """Seconds of a batch of one page, and of each further copy, as they were last seen.

    Rises are believed at once, falls by half: a batch too small costs little, one too large breaks the budget.
    """

    __slots__ = ("_copy", "_first")

    def __init__(self) -> None:
        self._first: float | None = None
        self._copy = 0.0

    def allowed(self, budget: float, spent: float) -> int:
        """Copies that fit when ``spent`` of ``budget`` seconds are gone; 0 if not one page does, which may take two."""
        if self._first is None:
            return 2
        room = (budget * AIM - spent) / MARGIN - self._first
        if room < 0:
            return 0
        return 2 + int(min(room / self._copy, 1e9)) if self._copy else 1 << 30

    def saw_first(self, seconds: float) -> None:
        """A batch of one page took so long; where that is longer than before, so is everything."""
        if self._first is None:
            self._first = self._copy = seconds
            return
        if self._first > 0:
            self._copy *= max(1.0, seconds / self._first)
        self._first = max(seconds, (self._first + seconds) / 2)

    def saw(self, seconds: float, copies: int) -> None:
        """A batch of so many copies took so long; what it takes whatever their number is counted among them."""
        each = seconds / copies
        self._copy = max(each, (self._copy + each) / 2)

    def doubt(self) -> None:
        """Nothing fitted: believe half of what was seen, so that one late batch does not end all work."""
        self._first = self._first / 2 if self._first is not None else None
