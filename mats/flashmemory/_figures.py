"""How a pool lies: runs, holes, scatter. Computed from copies, so that nobody waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Figures:
    """How a pool lies at one moment. All are counts of frames or of runs; ``scatter`` is a ratio."""

    frames: int
    used: int
    """Frames that hold a page."""
    free: int
    """Frames that can be given out now."""
    waiting: int
    """Frames that a page has left and that a reader may still look at; used + free + waiting = frames."""
    pinned: int
    """Frames whose page must not move."""
    runs: int
    """Pieces in which the pages of all owners lie: in one, neighbouring frames hold an owner's pages in their order."""
    owners: int
    """Owners with a page here: the fewest runs there could be."""
    free_runs: int
    """Holes: ranges of free frames."""
    largest_free_run: int
    """Frames of the largest hole."""

    @property
    def scatter(self) -> float:
        """1 - fewest runs / runs: 0 with every owner in one piece, near 1 with hardly two pages together."""
        return 1 - self.owners / self.runs if self.runs else 0.0

    @property
    def is_compact(self) -> bool:
        """Every owner lies in one piece, and so does what is free: there is nothing to gain by moving pages."""
        return self.runs == self.owners and self.free_runs <= 1 and not self.waiting


def figures_of(pages: NDArray[Any], free: NDArray[Any], pinned: int, row: int) -> Figures:
    """The figures of ``pages`` [frames] (number of the page in each frame, -1: none) and ``free`` [frames] (bool).

    Page p belongs to owner p // row.
    """
    import numpy

    held = numpy.flatnonzero(pages >= 0)
    order = numpy.argsort(pages[held])
    frames, owners = held[order], pages[held][order] // row
    same = owners[1:] == owners[:-1]
    joined = same & (frames[1:] == frames[:-1] + 1)
    edges = numpy.diff(numpy.concatenate(([0], free.astype(numpy.int8), [0])))
    holes = numpy.flatnonzero(edges < 0) - numpy.flatnonzero(edges > 0)
    return Figures(
        frames=len(pages),
        used=len(held),
        free=int(free.sum()),
        waiting=len(pages) - len(held) - int(free.sum()),
        pinned=pinned,
        runs=len(held) - int(joined.sum()),
        owners=len(held) - int(same.sum()),
        free_runs=len(holes),
        largest_free_run=int(holes.max(initial=0)),
    )
