"""Why memory was refused: the saved messages and snapshots come to their conclusions, and each cause on both sides."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mats.facts.allocator import Allocator, CacheFacts, RefusalFacts, StuckFacts
from mats.model import Absent, Quantity, Reading, Unit
from mats.probes._frag_verdict import Cause, explain, reach, unexplained
from mats.sources.memory_messages import MessageError, parse
from mats.sources.torch_snapshot import read
from tests.frag.test_torch_snapshot import cases
from tests.sources.saved import path as case
from tests.sources.saved import text

GIB = 1 << 30
MESSAGES = (
    "oom_t112_fragmented", "oom_t20_allowed_capacity", "oom_t210_capacity", "oom_t25_fragmented",
    "oom_t25_three_processes", "oom_t29_alloc_conf_name", "oom_hip_allowed_limit", "oom_cudaMallocAsync",
    "oom_cupy_limit", "oom_xla_allocatable",
)  # fmt: skip


def expected(name: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = json.loads(case("frag/oom_expected.json").read_text())
    return known[f"{name}.txt"]


def value(reading: Reading) -> float:
    assert isinstance(reading, Quantity)
    return reading.value


def of(size: float) -> Quantity:
    return Quantity(int(size), Unit.BYTE)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_to_its_conclusion(name: str) -> None:
    wanted = expected(name)

    (cache,) = parse(text(f"frag/{name}.txt"))

    (refusal,) = cache.refusals
    assert explain(cache, refusal).cause == wanted["verdict"]
    figures = {
        "S": refusal.wanted, "F": refusal.free, "T": refusal.total, "M": refusal.process, "A": cache.allocated,
        "U": cache.cached, "gpu": cache.device, "reserved": cache.reserved, "free": cache.cached,
        "largest": cache.largest_free,
    }  # fmt: skip
    told = wanted.keys() & figures.keys()
    assert {key: value(figures[key]) for key in told} == {key: wanted[key] for key in told}
    if "others" in wanted:
        assert {str(other.pid): value(other.memory) for other in refusal.others} == wanted["others"]
    if "unexplained" in wanted:
        assert value(unexplained(cache, refusal)) == wanted["unexplained"]
    if wanted["verdict"] == "limit":
        assert value(refusal.limit) == wanted["L"]


def test_the_largest_holder_is_named() -> None:
    (cache,) = parse(text("frag/oom_t25_three_processes.txt"))

    assert "Process 7302 holds 21.35 GiB" in explain(cache, cache.refusals[0]).remedy


def test_a_healthy_table_has_little_that_is_stuck() -> None:
    wanted = expected("oom_memory_summary_table")

    (cache,) = parse(text("frag/oom_memory_summary_table.txt"))

    assert (value(cache.reserved), value(cache.allocated)) == (
        wanted["reserved_MiB"] << 20,
        wanted["allocated_MiB"] << 20,
    )
    assert value(cache.stuck.gaps) == wanted["stuck_KiB"] << 10
    assert (value(cache.refused), value(cache.retries)) == (wanted["ooms"], wanted["retries"])
    assert cache.refusals == ()


def test_the_made_snapshots_come_to_their_conclusions(tmp_path: Path) -> None:
    told = {}
    for name, devices in cases(tmp_path).items():
        for cache in read(tmp_path / name) if "must" not in devices else ():
            figures = devices[str(value(cache.device))]
            if "oom" in figures:
                refusal = cache.refusals[-1]
                told[name] = explain(cache, refusal).cause
                assert told[name] == figures["oom"]["verdict"]
                assert value(reach(cache, refusal.free)) == figures["oom"]["reach"]

    assert set(told.values()) == {Cause.FRAGMENTED, Cause.CAPACITY, Cause.STREAM}


BASE = CacheFacts(
    Allocator.TORCH,
    reserved=of(40 * GIB),
    allocated=of(30 * GIB),
    pending=of(0),
    cached=of(10 * GIB),
    returnable=of(2 * GIB),
    largest_usable=of(3 * GIB),
    largest_free=of(3 * GIB),
    stuck=StuckFacts(of(8 * GIB), of(0), of(0), of(0)),
)


def request(wanted: float, **changes: Any) -> RefusalFacts:
    return dataclasses.replace(RefusalFacts(of(wanted), free=of(1 * GIB), total=of(48 * GIB)), **changes)


def cause(cache: CacheFacts, wanted: float, refused: bool = True, **changes: Any) -> Cause:
    return explain(cache, request(wanted, **changes), refused=refused).cause


def test_each_cause_begins_where_the_one_before_ends() -> None:
    assert cause(BASE, 3 * GIB, refused=False) is Cause.FITS
    assert cause(BASE, 3 * GIB) is Cause.REFUSED
    assert cause(BASE, 3 * GIB + 1) is Cause.FRAGMENTED
    assert cause(BASE, 11 * GIB) is Cause.FRAGMENTED
    assert cause(BASE, 11 * GIB + 1) is Cause.CAPACITY
    assert cause(BASE, 48 * GIB + 1) is Cause.IMPOSSIBLE


def test_memory_of_another_stream_or_pool_is_named_where_it_is_needed() -> None:
    stream = dataclasses.replace(BASE, stuck=StuckFacts(of(2 * GIB), of(6 * GIB), of(0), of(0)))
    pool = dataclasses.replace(BASE, stuck=StuckFacts(of(2 * GIB), of(0), of(6 * GIB), of(0)))

    assert cause(stream, 5 * GIB) is Cause.FRAGMENTED
    assert cause(stream, 5 * GIB + 1) is Cause.STREAM
    assert cause(pool, 5 * GIB + 1) is Cause.POOL


def test_what_waits_for_a_stream_is_named_where_it_would_be_enough() -> None:
    waiting = dataclasses.replace(BASE, pending=of(2 * GIB))

    assert cause(waiting, 13 * GIB) is Cause.PENDING
    assert cause(waiting, 13 * GIB + 1) is Cause.CAPACITY


def test_a_limit_counts_where_it_is_less_than_the_device() -> None:
    assert cause(BASE, 4 * GIB, limit=of(44 * GIB)) is Cause.FRAGMENTED
    assert cause(BASE, 4 * GIB, limit=of(44 * GIB - 1)) is Cause.LIMIT
    assert cause(BASE, 4 * GIB, limit=of(48 * GIB)) is Cause.FRAGMENTED


def test_without_the_free_memory_of_the_device_there_is_no_verdict() -> None:
    gone = RefusalFacts(of(4 * GIB))

    assert explain(BASE, gone).cause is Cause.UNKNOWN
    assert isinstance(reach(BASE, gone.free), Absent)


def test_messages_in_a_log_are_all_read_in_their_order() -> None:
    log = "\n".join(("start", text("frag/oom_t25_fragmented.txt"), "noise 3 GiB", text("frag/oom_cupy_limit.txt")))

    assert [cache.allocator for cache in parse(log)] == [Allocator.TORCH, Allocator.CUPY]


def test_statistics_are_read_as_json_and_as_python_prints_them() -> None:
    held = {
        "allocated_bytes.all.current": 5, "reserved_bytes.all.current": 20, "active_bytes.all.current": 7,
        "inactive_split_bytes.all.current": 4, "num_alloc_retries": 2, "num_ooms": 1,
    }  # fmt: skip

    for form in (json.dumps(held), str(held), f"OrderedDict({list(held.items())})"):
        (cache,) = parse(form)

        assert (value(cache.cached), value(cache.returnable), value(cache.pending)) == (13, 9, 2)
        assert (value(cache.retries), value(cache.refused)) == (2, 1)


def test_the_sentence_and_statistics_of_tensorflow_are_read() -> None:
    said = (
        "W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_1_bfc) ran out of memory trying to "
        "allocate 2.00GiB (rounded to 2147483648)requested by op x\n"
        "Stats: \nLimit:  16000000000\nInUse:  13000000000\nMaxInUse: 14000000000\nLargestFreeBlock: 1000000000\n"
    )

    (cache,) = parse(said)

    assert explain(cache, cache.refusals[0]).cause is Cause.FRAGMENTED
    assert (value(cache.device), value(cache.cached)) == (1, 3_000_000_000)


def test_vllm_that_finds_the_device_taken_lacks_capacity() -> None:
    said = (
        "ValueError: Free memory on device (21.35/23.65 GiB) on startup is less than desired GPU memory utilization "
        "(0.92, 21.76 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )

    (cache,) = parse(said)

    assert explain(cache, cache.refusals[0]).cause is Cause.CAPACITY


@pytest.mark.parametrize("said", ["", "hello", "CUDA error: an illegal memory access was encountered"])
def test_a_text_without_a_message_is_refused(said: str) -> None:
    with pytest.raises(MessageError):
        parse(said)
