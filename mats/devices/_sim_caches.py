"""Simulated processes with a cache of GPU memory: snapshots as torch would write them, of invented programs.

Each plan is the state of one program on the simulated card; the reader of snapshots turns it into facts as it does with
a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # most simulated machines have none
    from mats.facts.allocator import CacheFacts

MIB, GIB = 1 << 20, 1 << 30
BASE = 0x7F2000000000
USED, FREE = "active_allocated", "inactive"
HEALTHY = "healthy"
PLANS = {
    "cache_gaps": "A program with live blocks between free ones: 6 GiB are free and 2 GiB in one piece are refused.",
    "cache_stream": "A program whose free memory belongs to a side stream, where a small live block holds it.",
    "cache_graphs": "A program whose free memory is in the pools of CUDA graphs.",
    "cache_full": "A program that holds nearly the whole card in live tensors: 4 GiB are refused for lack of memory.",
}
"""Plans of caches and what is wrong with them."""
WITH_CACHE = (HEALTHY, *PLANS)
"""Plans on whose machine a process has a cache."""


def caches(plan: str) -> tuple[CacheFacts, ...]:
    """The caches of a plan; those of a healthy program for any other name."""
    from mats.sources.torch_snapshot import parse

    made = {
        "cache_gaps": _gaps,
        "cache_stream": _stream,
        "cache_graphs": _graphs,
        "cache_full": _full,
    }.get(plan, _healthy)()
    return tuple(replace(cache, origin=f"sim:{plan}") for cache in parse(made))


def _segment(place: int, blocks: Sequence[tuple[str, int, str]], **changes: Any) -> dict[str, Any]:
    """A segment of (state, bytes, who asked)."""
    return {
        "device": 0,
        "address": BASE + place * 128 * GIB,
        "total_size": sum(size for _, size, _ in blocks),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "size": size,
                "state": state,
                "requested_size": size,
                "frames": [{"name": who, "filename": "/app/train.py", "line": 10 + len(who)}] if who else [],
            }
            for state, size, who in blocks
        ],
    } | changes


def _refused(wanted: int, free: int) -> list[dict[str, Any]]:
    frames = [{"name": "scores", "filename": "/app/attention.py", "line": 88}]
    return [{"action": "oom", "size": wanted, "device_free": free, "stream": 0, "time_us": 9_000_000, "frames": frames}]


def _snapshot(segments: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"segments": segments, "device_traces": [events or []], "allocator_settings": {"expandable_segments": False}}


def _healthy() -> dict[str, Any]:
    """A cache with 3 GiB free that all goes back, and many small holes, which are nothing."""
    layers = [(USED, 600 * MIB, "weights"), (FREE, 4 * MIB, "")] * 16
    return _snapshot(
        [_segment(0, layers), _segment(1, [(FREE, 3 * GIB, "")]), _segment(2, [(USED, MIB, "norm"), (FREE, MIB, "")])]
    )


def _gaps() -> dict[str, Any]:
    comb = [(USED, 512 * MIB, "layer.forward"), (FREE, 512 * MIB, "")] * 12
    return _snapshot([_segment(0, [(USED, 60 * GIB, "weights")]), _segment(1, comb)], _refused(2 * GIB, 300 * MIB))


def _stream() -> dict[str, Any]:
    side = [(USED, 2 * MIB, "prefetch"), (FREE, 6 * GIB, "")]
    return _snapshot(
        [_segment(0, [(USED, 66 * GIB, "weights")]), _segment(1, side, stream=0x55AA1000)], _refused(2 * GIB, 300 * MIB)
    )


def _graphs() -> dict[str, Any]:
    pool = [(USED, 20 * MIB, "graph.capture"), (FREE, 5 * GIB, "")]
    return _snapshot(
        [_segment(0, [(USED, 66 * GIB, "weights")]), _segment(1, pool, segment_pool_id=(0, 3))],
        _refused(2 * GIB, 300 * MIB),
    )


def _full() -> dict[str, Any]:
    held = [(USED, 70 * GIB, "weights"), (USED, 6 * GIB, "optimizer.step"), (FREE, 400 * MIB, "")]
    return _snapshot([_segment(0, held)], _refused(4 * GIB, 500 * MIB))
