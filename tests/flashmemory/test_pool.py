"""Pages, their places, and who holds on to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from mats.flashmemory.pool import ArrayFrames, PagePool, PoolError, PoolFull

from .filled import fill, frames


def test_a_page_is_where_its_place_says_until_it_goes() -> None:
    store = frames(4)
    pool = PagePool(store, owners=2, pages=3)

    place = pool.allocate(1, 2, heat=0.5)
    with pool.reading() as reader:
        found, row, absent = reader.place(1, 2), reader.frames(1).tolist(), reader.place(0, 0)
    pool.unpin(1, 2)
    pool.release(1, 2)

    assert (found, row, absent) == (place, [-1, -1, place.frame], None)
    assert not pool.is_current(place)
    assert pool.validate() == ()


def test_a_page_that_came_back_to_its_frame_is_not_the_page_it_was() -> None:
    pool = PagePool(frames(1), 1, 1)
    before = pool.allocate(0, 0)
    pool.unpin(0, 0)
    pool.release(0, 0)

    after = pool.allocate(0, 0)

    assert (after.frame, after.generation) == (before.frame, before.generation + 1)
    assert pool.is_current(after) and not pool.is_current(before)


def test_a_released_page_keeps_its_bytes_while_it_is_read() -> None:
    store = frames(1)
    pool = PagePool(store, 1, 2)
    fill(pool, store.data, 0, 0, 7)

    with pool.reading() as reader:
        place = reader.place(0, 0)
        pool.release(0, 0)
        with pytest.raises(PoolFull, match="none of 1 frames is free; 1 wait"):
            pool.allocate(0, 1)
        waiting = pool.figures().waiting
        assert place is not None and store.data[place.frame].tolist() == [7] * 4

    assert waiting == 1
    assert pool.allocate(0, 1).frame == place.frame


def test_heat_and_last_use_are_what_the_owner_gave() -> None:
    pool = PagePool(frames(2), 1, 2)
    pool.allocate(0, 1, heat=0.25)
    first = (pool.heat(0, 1), pool.last_use(0, 1))

    pool.touch(0, 1, step=9, heat=0.75)
    pool.touch(0, 1, step=10)

    assert first == (0.25, -1)
    assert (pool.heat(0, 1), pool.last_use(0, 1)) == (0.75, 10)


def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    pool = PagePool(frames(4), 2, 2)
    pool.allocate(0, 0)
    refusals: dict[str, Callable[[], object]] = {
        "in the pool already": lambda: pool.allocate(0, 0),
        "is pinned": lambda: pool.release(0, 0),
        "is not in the pool": lambda: pool.pin(1, 1),
        "no page 2 of owner 0": lambda: pool.allocate(0, 2),
        "no page 0 of owner -1": lambda: pool.touch(-1, 0, 1),
    }

    for sentence, call in refusals.items():
        with pytest.raises(PoolError, match=sentence):
            call()
    pool.unpin(0, 0)
    with pytest.raises(PoolError, match="is not pinned"):
        pool.unpin(0, 0)

    assert pool.validate() == ()


@pytest.mark.parametrize(
    "data", [numpy.zeros(4), numpy.zeros((0, 4)), numpy.zeros((4, 3), numpy.uint8), numpy.zeros((4, 4)).T[:2]]
)
def test_an_array_that_cannot_hold_frames_is_refused(data: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="frame"):
        ArrayFrames(data)


def test_checksums_tell_any_change_and_exchange_of_words() -> None:
    data = numpy.random.default_rng(3).integers(0, 2**32, (1, 64), dtype=numpy.uint32)
    changed = numpy.repeat(data, 65, axis=0)
    for word in range(64):
        changed[word, word] ^= 1 << (word % 32)
    changed[64, [3, 4]] = changed[64, [4, 3]]

    sums = ArrayFrames(changed).checksums(numpy.arange(65)).tolist()

    assert len({*sums, *ArrayFrames(data).checksums(numpy.arange(1)).tolist()}) == 66


def test_figures_count_runs_and_holes() -> None:
    store = frames(8)
    pool = PagePool(store, 2, 4)
    for owner, page in ((0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 3)):
        fill(pool, store.data, owner, page, 0)
    pool.release(1, 1)
    pool.pin(0, 0)

    found = pool.figures()

    assert (found.frames, found.used, found.free, found.waiting, found.pinned) == (8, 5, 3, 0, 1)
    assert (found.runs, found.owners, found.free_runs, found.largest_free_run) == (4, 2, 2, 2)
    assert found.scatter == 0.5 and not found.is_compact


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ("book.free_list[0] = book.free_list[1]", "in the free list twice"),
        ("book.free_top -= 1", "5 frames are free, waiting or owned, and there are 6"),
        ("book.table[1] = book.table[0]", "two pages are in one frame"),
        ("book.table[0] += 1 << 32", "differ in a generation"),
        ("book.pages[0], book.pages[1] = book.pages[1], book.pages[0]", "disagree about a frame"),
        ("book.pins[3] = 1", "a pinned page is not here"),
    ],
)
def test_a_broken_book_is_told(spoil: str, sentence: str) -> None:
    store = frames(6)
    pool = PagePool(store, 1, 4)
    for page in range(2):
        fill(pool, store.data, 0, page, page)
    assert pool.validate() == ()

    exec(spoil, {"book": pool._book})

    assert any(sentence in broken for broken in pool.validate())
