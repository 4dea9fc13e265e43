"""Random histories played through an independent model: returnable, stuck and reach are what the model does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mats.model import Quantity, Reading, Unit
from mats.probes._frag_verdict import fits, reach
from mats.sources.torch_snapshot import parse

from .model import FREE, MIB, PENDING, USED, Model, NoMemory, Piece

SIZES = st.one_of(
    st.integers(1, MIB), st.integers(MIB + 1, 10 * MIB), st.integers(10 * MIB, 90 * MIB), st.just(10 * MIB - 1)
)
STEPS = st.lists(
    st.tuples(SIZES, st.sampled_from([0, 0, 0, 7]), st.sampled_from([(0, 0), (0, 0), (0, 1)]), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


def value(reading: Reading) -> float:
    assert isinstance(reading, Quantity)
    return reading.value


def played(capacity: int, steps: list[tuple[int, int, tuple[int, int], int]]) -> Model:
    """The model after requests, of which some are freed on the way."""
    model, live = Model(capacity), list[Piece]()
    for size, stream, pool, fate in steps:
        try:
            live.append(model.had(size, stream, pool))
        except NoMemory:
            continue
        if fate < 5 and live:
            model.given_back(live.pop(fate % len(live)), pending=fate == 0)
    return model


@settings(max_examples=80, deadline=None)
@given(capacity=st.sampled_from([64 * MIB, 300 * MIB, 1 << 40]), steps=STEPS, probe=SIZES)
def test_figures_are_what_the_model_does(
    capacity: int, steps: list[tuple[int, int, tuple[int, int], int]], probe: int
) -> None:
    # given
    model = played(capacity, steps)
    if not model.ranges:
        return
    # when
    (cache,) = parse(model.snapshot())
    # then
    pieces = [piece for place in model.ranges for piece in place.pieces]
    free = Quantity(model.free_on_device, Unit.BYTE)
    emptied = model.copy().empty()
    assert value(cache.reserved) == model.reserved
    assert value(cache.allocated) == sum(piece.size for piece in pieces if piece.state == USED)
    assert value(cache.pending) == sum(piece.size for piece in pieces if piece.state == PENDING)
    assert value(cache.requested) == sum(piece.asked for piece in pieces if piece.state == USED)
    assert value(cache.returnable) == emptied
    stuck = sum(piece.size for piece in pieces if piece.state == FREE) - emptied
    kinds = (cache.stuck.gaps, cache.stuck.other_stream, cache.stuck.private_pool, cache.stuck.small_pool)
    assert sum(value(kind) for kind in kinds) == stuck
    assert all(value(kind) >= 0 for kind in kinds)
    assert fits(cache, free, max(512, -(-probe // 512) * 512)) is model.copy().serves(probe)
    if capacity < 1 << 40:
        assert value(reach(cache, free)) // 512 * 512 == model.largest()
