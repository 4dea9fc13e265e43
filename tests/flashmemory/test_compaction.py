"""Compaction: everything in its place afterwards, nothing lost on the way, in steps that keep their time."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mats.flashmemory.pool import BUDGET, ArrayFrames, PagePool, PoolError, Step, Stop

from .filled import Ticking, contents, fill, frames, scattered


def steps(pool: PagePool, store: Ticking, budget: float = BUDGET) -> list[Step]:
    compaction = pool.compaction(store.clock)
    made = []
    while not compaction.is_over:
        made.append(compaction.step(budget))
    return made


def test_every_owner_lies_in_one_piece_afterwards_the_hottest_first() -> None:
    store = frames(256)
    pool = scattered(store, owners=20, pages=16)
    before, words = pool.figures(), contents(pool, store.data, 20, 16)

    steps(pool, store)

    after = pool.figures()
    with pool.reading() as reader:
        starts = {owner: [f for f in reader.frames(owner).tolist() if f >= 0] for owner in range(20)}
    assert before.scatter > 0.8
    assert after.is_compact and (after.scatter, after.runs, after.largest_free_run) == (0, 20, after.free)
    assert sorted(range(20), key=lambda o: starts[o][0]) == sorted(range(20), key=lambda o: (-(o % 7), o))
    assert all(row == list(range(row[0], row[0] + len(row))) for row in starts.values())
    assert contents(pool, store.data, 20, 16) == words
    assert pool.validate() == ()


@pytest.mark.parametrize("free", [1, 2, 50])
def test_one_free_frame_is_room_enough(free: int) -> None:
    store = frames(200)
    pool = scattered(store, 10, 20, share=(200 - free) / 200)

    made = steps(pool, store)

    assert made[-1].stop is Stop.DONE and pool.figures().is_compact


def test_a_full_pool_is_told_and_left_as_it_is() -> None:
    store = frames(40)
    pool = scattered(store, 4, 10, share=1.0)
    words = contents(pool, store.data, 4, 10)
    compaction = pool.compaction(store.clock)

    step = compaction.step()

    assert step.stop is Stop.NO_ROOM and not compaction.is_over
    assert contents(pool, store.data, 4, 10) == words


def test_what_is_compact_is_not_moved_when_other_pages_get_hot() -> None:
    store = frames(64)
    pool = scattered(store, 4, 16)
    steps(pool, store)
    with pool.reading() as reader:
        page = int((reader.frames(3) >= 0).argmax())
    pool.touch(3, page, 1, heat=1e6)

    (step,) = steps(pool, store)

    assert (step.stop, step.placed, step.size) == (Stop.DONE, 0, 0)


def test_pinned_pages_stay_also_those_pinned_on_the_way() -> None:
    store = frames(128)
    pool = scattered(store, 8, 16)
    with pool.reading() as reader:
        here = [(o, p) for o in range(8) for p, f in enumerate(reader.frames(o).tolist()) if f >= 0]
    held = [pool.pin(*page) for page in here[::9]]
    compaction = pool.compaction(store.clock)

    for page in here[1::9]:
        compaction.step(0.002)
        held.append(pool.pin(*page))
    while not compaction.is_over:
        compaction.step()

    assert all(pool.is_current(place) for place in held)
    assert pool.figures().runs < 70
    assert pool.validate() == ()


def test_a_compaction_can_be_left_and_ended_and_another_begun() -> None:
    store = frames(256)
    pool = scattered(store, 16, 16)
    words = contents(pool, store.data, 16, 16)
    first = pool.compaction(store.clock)
    first.step(0.004)

    with pytest.raises(PoolError, match="finish or cancel"):
        pool.compaction(store.clock)
    sound, left = pool.validate(), first.left
    first.cancel()
    ended = first.step()

    assert (sound, ended.stop, ended.placed) == ((), Stop.CANCELLED, 0)
    assert 0 < left < 230 and contents(pool, store.data, 16, 16) == words
    assert steps(pool, store)[-1].stop is Stop.DONE and pool.figures().is_compact


def test_it_waits_for_readers_whose_pages_stay_as_they_were() -> None:
    store = frames(64)
    pool = scattered(store, 4, 16)
    words = contents(pool, store.data, 4, 16)
    compaction = pool.compaction(store.clock)

    with pool.reading() as reader:
        seen = {owner: reader.frames(owner).tolist() for owner in range(4)}
        held = [compaction.step() for _ in range(5)]
        still = {o * 16 + p: store.data[f].tolist() for o in seen for p, f in enumerate(seen[o]) if f >= 0}
    while not compaction.is_over:
        compaction.step()

    assert [step.stop for step in held[1:]] == [Stop.READERS] * 4 and held[0].evacuated + held[0].placed > 0
    assert still == words == contents(pool, store.data, 4, 16)
    assert pool.figures().is_compact


def test_a_copy_that_differs_is_never_swapped_in() -> None:
    store = frames(64)
    pool = scattered(store, 4, 16)
    words = contents(pool, store.data, 4, 16)
    copy = store.copy

    def torn(sources: NDArray[Any], targets: NDArray[Any]) -> None:
        copy(sources, targets)
        store.data[targets[-1], 1] ^= 1

    store.copy = torn  # type: ignore[method-assign]
    with pytest.raises(PoolError, match="a page and its copy differ"):
        pool.compaction(store.clock).step()

    assert contents(pool, store.data, 4, 16) == words
    assert pool.validate() == ()


def test_a_step_too_short_for_one_page_does_nothing_more_once_that_is_known() -> None:
    store = frames(64, lambda count: 0.02 * count)
    pool = scattered(store, 4, 16)
    compaction = pool.compaction(store.clock)

    first, second = compaction.step(), compaction.step()

    assert first.seconds > BUDGET and first.placed == 1
    assert (second.stop, second.seconds, second.placed) == (Stop.TOO_SLOW, 0, 0)


def test_65536_pages_are_compacted_in_steps_that_keep_the_budget() -> None:
    noise = numpy.random.default_rng(5)
    store = frames(65_536, lambda count: 3e-4 + count * 8e-6 * float(noise.uniform(0.7, 1.3)))
    pool = scattered(store, 256, 512, share=0.95)

    made = steps(pool, store)

    assert sum(step.seconds <= BUDGET for step in made) >= 0.99 * len(made)
    assert pool.figures().is_compact and pool.figures().used == 62_259
    assert pool.validate() == ()
    with pool.reading() as reader:
        rows = numpy.concatenate([reader.frames(owner) for owner in range(256)])
    here = numpy.flatnonzero(rows >= 0)
    assert (store.data[rows[here]] == here[:, None]).all()


@settings(max_examples=20)
@given(
    fixed=st.floats(0, 1e-3),
    each=st.floats(1e-6, 1e-3),
    spread=st.floats(0, 0.2),
    jump=st.floats(0.5, 1.5),
    free=st.integers(1, 120),
    seed=st.integers(0, 2**32 - 1),
)
def test_steps_keep_their_budget_whatever_copies_cost(
    fixed: float, each: float, spread: float, jump: float, free: int, seed: int
) -> None:
    noise = numpy.random.default_rng(seed)
    store = frames(
        240, lambda n: (fixed + n * each * noise.uniform(1 - spread, 1 + spread)) * jump ** (store.now > 0.05)
    )
    pool = scattered(store, 12, 20, share=(240 - free) / 240, seed=seed)

    made = steps(pool, store)

    assert sum(step.seconds > BUDGET for step in made) <= 0.01 * len(made)
    assert pool.figures().is_compact


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["allocate", "release", "pin", "unpin", "step", "cancel", "read"]), st.integers(0, 35)),
    max_size=120,
)


@settings(max_examples=60)
@given(ACTIONS)
def test_no_page_is_lost_or_seen_twice_whatever_happens_between_steps(actions: list[tuple[str, int]]) -> None:
    store = frames(24, lambda count: 1e-3 * count)
    pool = scattered(store, 6, 6, share=0.6)
    model = {number: words[0] for number, words in contents(pool, store.data, 6, 6).items()}
    pinned: dict[int, int] = {}
    fresh = 1000
    compaction = pool.compaction(store.clock)
    for action, number in actions:
        page = divmod(number, 6)
        here = number in model
        if action == "allocate" and not here and len(model) < 24:
            fresh += 1
            fill(pool, store.data, *page, fresh, float(fresh % 5))
            model[number] = fresh
        elif action == "release" and here and number not in pinned:
            pool.release(*page)
            del model[number]
        elif action == "pin" and here and number not in pinned:
            pinned[number] = pool.pin(*page).frame
        elif action == "unpin" and pinned.pop(number, None) is not None:
            pool.unpin(*page)
        elif action == "step":
            compaction = pool.compaction(store.clock) if compaction.is_over else compaction
            compaction.step(0.006)
        elif action == "cancel":
            compaction.cancel()
        assert pool.validate() == ()
        assert contents(pool, store.data, 6, 6) == {n: [value] * 4 for n, value in model.items()}
        with pool.reading() as reader:
            assert all((at := reader.place(*divmod(n, 6))) and at.frame == frame for n, frame in pinned.items())


def test_readers_in_another_thread_never_see_a_torn_page() -> None:
    owners, pages = 16, 32
    data = numpy.zeros((480, 256), dtype=numpy.uint32)
    pool = PagePool(ArrayFrames(data), owners, pages)
    order = numpy.random.default_rng(2)
    for number in order.permutation(owners * pages)[:440].tolist():
        fill(pool, data, number // pages, number % pages, number)
    torn: list[tuple[int, int]] = []
    moved = 0
    looks, over = [0], threading.Event()

    def read() -> None:
        while not over.is_set():
            for owner in range(owners):
                with pool.reading() as reader:
                    row = reader.frames(owner)
                    here = numpy.flatnonzero(row >= 0)
                    for _ in range(2):
                        words = data[row[here]] % (owners * pages)
                        torn.extend((owner, int(p)) for p in here[(words != (owner * pages + here)[:, None]).any(1)])
                looks[0] += 1

    thread = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for turn in range(1, 9):
            compaction = pool.compaction()
            for _ in range(2000):
                step = compaction.step()
                moved += step.placed
                if step.stop is Stop.DONE:
                    break
            compaction.cancel()
            for number in order.permutation(owners * pages)[:120].tolist():
                page = divmod(number, pages)
                with pool.reading() as reader:
                    at = reader.place(*page)
                if at is not None:
                    pool.release(*page)
                elif pool.figures().free:
                    fill(pool, data, page[0], page[1], number + turn * owners * pages)
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)

    assert torn == []
    assert looks[0] > owners and moved > 400
    assert pool.validate() == ()
