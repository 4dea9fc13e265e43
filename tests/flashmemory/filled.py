"""Pools whose pages hold known words, and storage whose copies take time on a clock that stands still otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from numpy.typing import NDArray

from mats.flashmemory.pool import ArrayFrames, PagePool

WORDS = 4


class Ticking:
    """A clock that only copies move on, and frames that move it by ``cost(frames)`` seconds."""

    def __init__(self, data: NDArray[Any], cost: Callable[[int], float]) -> None:
        self.now = 0.0
        self.data = data
        self.cost = cost
        self.moved: list[tuple[int, int]] = []
        self._inner = ArrayFrames(data)

    def clock(self) -> float:
        return self.now

    @property
    def count(self) -> int:
        return self._inner.count

    @property
    def size(self) -> int:
        return self._inner.size

    def copy(self, sources: NDArray[Any], targets: NDArray[Any]) -> None:
        assert not set(sources.tolist()) & set(targets.tolist()), "a source is a target"
        assert len(set(targets.tolist())) == len(targets) == len(sources)
        self.now += self.cost(len(sources))
        self._inner.copy(sources, targets)

    def checksums(self, frames: NDArray[Any]) -> NDArray[numpy.uint64]:
        return self._inner.checksums(frames)


def frames(count: int, cost: Callable[[int], float] = lambda frames: frames * 1e-4) -> Ticking:
    return Ticking(numpy.zeros((count, WORDS), dtype=numpy.uint32), cost)


def fill(pool: PagePool, data: NDArray[Any], owner: int, page: int, value: int, heat: float = 0.0) -> None:
    """Allocates a page and writes ``value`` into all its words."""
    data[pool.allocate(owner, page, heat).frame] = value
    pool.unpin(owner, page)


def scattered(store: Ticking, owners: int, pages: int, share: float = 0.9, seed: int = 1) -> PagePool:
    """Pages in random order in ``share`` of the frames, each holding its number; owner o has heat o % 7."""
    pool = PagePool(store, owners, pages)
    chosen = numpy.random.default_rng(seed).permutation(owners * pages)[: int(store.count * share)]
    for number in chosen.tolist():
        fill(pool, store.data, number // pages, number % pages, number, float(number // pages % 7))
    return pool


def contents(pool: PagePool, data: NDArray[Any], owners: int, pages: int) -> dict[int, list[int]]:
    """The words of every page that is here, by its number."""
    with pool.reading() as reader:
        places = {o * pages + p: f for o in range(owners) for p, f in enumerate(reader.frames(o).tolist()) if f >= 0}
    return {number: data[frame].tolist() for number, frame in places.items()}
