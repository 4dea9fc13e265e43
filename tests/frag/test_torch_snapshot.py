"""Memory snapshots of torch: every figure to the byte, and files that are none or mean harm end in a sentence."""

from __future__ import annotations

import concurrent.futures
import functools
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mats.facts.allocator import BlockState, CacheFacts
from mats.model import Absent, Quantity, Reading
from mats.sources._snapshot_load import SnapshotError, load
from mats.sources.torch_snapshot import parse, read
from tests.sources.saved import path as case

MIB = 1 << 20
MEGABYTES = 1 << 10
"""A kibibyte count of ``ru_maxrss`` to mebibytes."""
KEPT = {
    "reserved": "reserved", "allocated": "allocated", "pending": "pending", "requested": "requested",
    "cached_free": "cached", "releasable": "returnable", "largest_free": "largest_free",
    "largest_usable": "largest_usable", "segments": "segments", "blocks": "blocks", "free_blocks": "free_blocks",
}  # fmt: skip
STUCK = {
    "gaps": "gaps",
    "stream_locked": "other_stream",
    "pool_locked": "private_pool",
    "small_locked": "small_pool",
}


def value(reading: Reading) -> float:
    assert isinstance(reading, Quantity)
    return reading.value


def frame(name: str = "step", line: int = 7) -> dict[str, Any]:
    return {"name": name, "filename": "/app/train.py", "line": line}


def segment(*blocks: tuple[str, int], **changes: Any) -> dict[str, Any]:
    """A segment as torch 2.1 and newer write it, of (state, size)."""
    made = [{"state": state, "size": size, "requested_size": size, "frames": [frame()]} for state, size in blocks]
    return {
        "device": 0,
        "address": 0x7F0000000000,
        "total_size": sum(size for _, size in blocks),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": made,
    } | changes


def event(action: str, address: int, size: int, **changes: Any) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0} | changes


USED, FREE = "active_allocated", "inactive"


@functools.cache
def cases(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Files made by the generator of the cases in ``folder``, and what is to be read in them."""
    subprocess.run([sys.executable, str(case("frag/make_snapshots.py")), str(folder)], check=True, capture_output=True)
    expected: dict[str, dict[str, dict[str, Any]]] = json.loads((folder / "expected.json").read_text())
    return expected


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snapshots")
    cases(folder)
    return folder


def test_every_figure_of_the_made_files_is_read_to_the_byte(made: Path) -> None:
    for name, devices in cases(made).items():
        if "must" in devices:  # a file that means harm
            continue
        caches = read(made / name)

        assert [str(value(cache.device)) for cache in caches] == sorted(devices)
        for cache in caches:
            wanted = devices[str(value(cache.device))]
            told = {key: value(getattr(cache, attribute)) for key, attribute in KEPT.items()}
            told |= {key: value(getattr(cache.stuck, attribute)) for key, attribute in STUCK.items()}
            assert told == {key: wanted[key] for key in told}, name
            if "oom" in wanted:
                refusal = cache.refusals[-1]
                assert (value(refusal.wanted), value(refusal.free)) == (wanted["oom"]["S"], wanted["oom"]["F"])


@pytest.mark.parametrize("name", ["h1_reduce.pickle", "h6_huge_length.pickle", "h7_truncated.pickle"])
def test_made_files_that_mean_harm_are_refused_and_nothing_runs(made: Path, name: str) -> None:
    mark = Path(os.environ.get("TMPDIR", "/tmp")) / "mats_snapshot_payload_ran"

    with pytest.raises(SnapshotError) as refused:
        read(made / name)

    assert "\n" not in str(refused.value)
    assert not mark.exists()


def test_the_version_is_told_by_the_form() -> None:
    plain = [segment((USED, 20 * MIB))]

    assert parse(plain)[0].writer == "torch 1.13"
    assert parse({"segments": plain})[0].writer == "torch 2.1 or newer"
    assert parse({"segments": plain, "host_segments": []})[0].writer == "torch 2.14 or newer"


def test_devices_are_kept_apart() -> None:
    first, second = segment((USED, 20 * MIB)), segment((FREE, 4 * MIB), device=1)

    caches = parse({"segments": [first, second], "device_traces": [[], [], [event("oom", 0, 5, device_free=3)]]})

    assert [(value(cache.device), value(cache.reserved)) for cache in caches] == [(0, 20 * MIB), (1, 4 * MIB), (2, 0)]
    assert isinstance(caches[0].refused, Absent) and value(caches[2].refused) == 1


def test_a_stale_size_of_a_free_block_is_not_counted() -> None:
    held = segment((USED, 2 * MIB), (FREE, 18 * MIB))

    (cache,) = parse([held])

    assert value(cache.requested) == 2 * MIB
    assert [block.state for block in cache.map[0].blocks] == [BlockState.USED, BlockState.FREE]


def history(*events: dict[str, Any], used: int = 0) -> CacheFacts:
    blocks = ((USED, used), (FREE, 64 * MIB - used)) if used else ((FREE, 64 * MIB),)
    (cache,) = parse({"segments": [segment(*blocks)], "device_traces": [list(events)]})
    return cache


def test_the_peak_is_given_to_the_code_that_held_it() -> None:
    big, small = [frame("attention", 3)], [frame("norm", 9)]

    cache = history(
        event("alloc", 0x1000, 30 * MIB, frames=big),
        event("alloc", 0x9000, 2 * MIB, frames=small),
        event("free_requested", 0x1000, 30 * MIB),
        event("free_completed", 0x1000, 30 * MIB),
        event("alloc", 0x1000, 4 * MIB, frames=small),
        used=16 * MIB,
    )

    past = cache.history
    assert not isinstance(past, Absent)
    assert (past.peak.event, past.peak.allocated) == (1, 42 * MIB)
    assert past.before == 10 * MIB
    held = [(cache.stacks[share.stack][0], share.size, share.blocks) for share in past.at_peak]
    assert held == [("attention (/app/train.py:3)", 30 * MIB, 1), ("norm (/app/train.py:9)", 2 * MIB, 1)]
    assert [(share.size, share.blocks) for share in past.lasting] == [(6 * MIB, 2)]
    assert value(past.largest_request) == 30 * MIB


def test_a_long_history_is_thinned_and_keeps_its_peak() -> None:
    events = []
    for number in range(3000):
        events += [event("alloc", 64 * number, 10), event("free_completed", 64 * number, 10)]
    events[2222:2222] = [event("alloc", 1 << 40, 1000), event("free_completed", 1 << 40, 1000)]

    past = history(*events).history

    assert not isinstance(past, Absent)
    assert len(past.moments) < 2001
    assert max(moment.allocated for moment in past.moments) == past.peak.allocated == 1000


def test_python_code_is_shown_and_compiled_code_only_where_there_is_no_other() -> None:
    compiled = {"name": "c10::malloc", "filename": "??", "line": 0}

    cache = history(
        event("alloc", 0, 8, frames=[compiled, frame("loss", 4)]), event("alloc", 64, 8, frames=[compiled]), used=16
    )

    assert set(cache.stacks) >= {("loss (/app/train.py:4)",), ("c10::malloc (??:0)",)}


def bombs() -> dict[str, Callable[[], bytes]]:
    """Small files that would take very much time or memory, or run code."""

    def nested() -> bytes:
        return b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."

    def memo() -> bytes:
        return b"\x80\x02}r\xff\xff\xff\x0f."

    def doubled() -> bytes:
        held: list[Any] = [segment((USED, 1))]
        for _ in range(40):
            held = [held] * 8
        return pickle.dumps({"segments": held, "device_traces": []})

    def shared_blocks() -> bytes:
        one = segment(*((USED, 1) for _ in range(1000)))
        return pickle.dumps({"segments": [one] * 20_000, "device_traces": []})

    def shared_traces() -> bytes:
        trace = [event("alloc", 0, 1)] * 10_000
        return pickle.dumps({"segments": [segment((USED, 1))], "device_traces": [trace] * 1000})

    def many_devices() -> bytes:
        return pickle.dumps({"segments": [], "device_traces": [[]] * 1_000_000})

    def name() -> bytes:
        return b"cos\nsystem\n(S'true'\ntR."

    def persistent() -> bytes:
        return b"\x80\x04\x8c\x01xQ."

    def extension() -> bytes:
        return b"\x80\x04\x82\x01."

    def doubled_size() -> bytes:
        held: list[Any] = ["a"]
        for _ in range(40):
            held = [held, held]
        return pickle.dumps({"segments": [segment((USED, 1), total_size=held)], "device_traces": []})

    def long_number() -> bytes:
        return pickle.dumps({"segments": [segment((USED, 1), device=1 << 100_000)], "device_traces": []})

    return {
        bomb.__name__: bomb
        for bomb in (
            nested, memo, doubled, shared_blocks, shared_traces, many_devices, name, persistent, extension,
            doubled_size, long_number,
        )
    }  # fmt: skip


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_ends_in_a_sentence_and_takes_little(tmp_path: Path, name: str) -> None:
    file = tmp_path / "bomb.pickle"
    file.write_bytes(bombs()[name]())
    before = resource.getrusage(resource.RUSAGE_SELF)

    with pytest.raises(SnapshotError) as refused:
        read(file)

    after = resource.getrusage(resource.RUSAGE_SELF)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300
    assert after.ru_utime - before.ru_utime < 5
    assert (after.ru_maxrss - before.ru_maxrss) / MEGABYTES < 500


def test_files_read_at_one_moment_leave_the_limit_of_the_process_as_it_was() -> None:
    class Slow(io.BytesIO):
        """Lets go of the interpreter at each reading, so that the other file is begun meanwhile."""

        def readline(self, size: int | None = -1, /) -> bytes:
            time.sleep(0.002)
            return super().readline(size)

        def read(self, size: int | None = -1, /) -> bytes:
            time.sleep(0.002)
            return super().read(size)

    data = pickle.dumps({"segments": [segment((USED, 1))]}, 4)
    before = resource.getrlimit(resource.RLIMIT_AS)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: load(Slow(data), len(data)), range(12)))

    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    "damage",
    [
        {"total_size": 21 * MIB},
        {"total_size": -1},
        {"total_size": True},
        {"total_size": 1 << 70},
        {"address": "x"},
        {"segment_type": "huge"},
        {"stream": None},
        {"segment_pool_id": (1,)},
        {"blocks": None},
        {"blocks": [3]},
        {"blocks": [{"state": "gone", "size": 20 * MIB}]},
        {"blocks": [{"state": USED, "size": "20"}]},
        {"blocks": [{"state": ["x"], "size": 20 * MIB}]},
        {"device": -1},
    ],
    ids=str,
)
def test_a_segment_that_torch_does_not_write_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError):
        parse({"segments": [segment((USED, 20 * MIB), **damage)]})


@pytest.mark.parametrize(
    "damaged",
    [
        3,
        {"size": 3},
        {"action": "alloc"},
        {"action": "alloc", "size": 1.5},
        {"action": "alloc", "size": -1},
        {"action": "alloc", "size": 1 << 80},
        {"action": ["alloc"], "size": 1},
        {"action": "oom", "size": 1},
        {"action": "alloc", "addr": 0, "size": 1, "frames": 7},
        {"action": "alloc", "addr": 0, "size": 1, "frames": [7]},
    ],
    ids=str,
)
def test_an_event_that_torch_does_not_write_is_refused(damaged: Any) -> None:
    with pytest.raises(SnapshotError):
        parse({"segments": [segment((USED, 1))], "device_traces": [[damaged]]})


def test_an_event_of_a_torch_to_come_is_passed_over() -> None:
    cache = history(event("alloc", 0, 8), {"action": "teleport", "size": 3, "more": {}}, used=8)

    assert not isinstance(cache.history, Absent) and cache.history.events == 2


def test_every_cut_of_a_snapshot_ends_in_a_sentence() -> None:
    whole = pickle.dumps({"segments": [segment((USED, 1), (FREE, 3))], "device_traces": [[event("alloc", 0, 1)]]}, 4)

    for length in range(len(whole)):
        with pytest.raises(SnapshotError):
            parse(load(io.BytesIO(whole[:length]), length))
