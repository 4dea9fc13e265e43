"""Caches and memory as levels of a ladder: recorded sweeps of real GPUs, made-up curves, and the simulated card."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mats.device import Buffer, OutOfMemory
from mats.facts import MachineFacts
from mats.model import Absent, Quantity, TargetInfo, Unit
from mats.sources.latency_curves import parse_gpu_latency, parse_latency_sweep, parse_memory_set

from .bench import Card, Quiet, plan, run

climbing = importlib.import_module("mats.probes._latency_climb")
ladders = importlib.import_module("mats.probes._latency_ladder")
tables = importlib.import_module("mats.probes._latency_references")
chains = importlib.import_module("mats.probes._latency_chain")

Curve = list[tuple[int, float]]


def recorded(name: str, parse: Callable[[str], MachineFacts], quantity: str, test: str = "") -> Curve:
    """The curve of a file that another tool wrote; the test is skipped, and says so, where it cannot be had."""
    folder = os.environ.get("MATS_CASES")
    if not folder:
        pytest.skip(f"NOT TESTED: links/{name} belongs to another project; MATS_CASES names the folder that holds it")
    (run,) = parse((Path(folder) / "links" / name).read_text()).transfers
    chosen = next(one for one in run.curves if one.quantity == quantity and test in one.test)
    return [
        (int(size.value), float(told.value) * (1e9 if told.unit is Unit.SECOND else 1))
        for size, told in chosen.points
        if isinstance(size, Quantity) and isinstance(told, Quantity)
    ]


def levels_of(curve: Curve, caches: tuple[tuple[str, int], ...]) -> dict[str, tuple[float, int, int]]:
    """Each level's value, and its first and last working set."""
    sizes = [size for size, _ in curve]
    found = ladders.name_levels(sizes, [value for _, value in curve], caches)
    return {
        level.name: (level.seconds, sizes[level.plateaus[0].first], sizes[level.plateaus[-1].last])
        for level in found
        if level.flat
    }


def gpu_caches(l2: int) -> tuple[tuple[str, int], ...]:
    return ("L1", ladders.FIRST_CACHE), ("L2", l2)


def test_a_sweep_of_an_a100() -> None:
    levels = levels_of(
        recorded("latency_sweep_a100sxm.dat", parse_latency_sweep, "latency in cycles"), gpu_caches(40 << 20)
    )
    assert list(levels) == ["L1", "L2", "memory"]
    assert levels["L1"][0] == pytest.approx(38.9, abs=0.1)
    assert levels["L2"][0] == pytest.approx(210, abs=1), "the near part"
    assert levels["L2"][2] >> 20 == 17
    assert levels["memory"][0] == pytest.approx(550, abs=2)
    assert levels["memory"][1] >> 20 == 61
    # what is published of an A100 was taken from more sweeps than this one, which lies within it
    known = {one.level: one for one in tables.REFERENCES if one.product == "A100"}
    for name, (cycles, _, _) in levels.items():
        assert 0.99 * known[name].low.value <= cycles <= 1.01 * known[name].high.value, name


def test_a_sweep_of_a_v100() -> None:
    levels = levels_of(recorded("gpu_latency_v100.txt", parse_gpu_latency, "latency in cycles"), gpu_caches(6 << 20))
    assert list(levels) == ["L1", "L2", "memory"]
    assert (round(levels["L1"][0]), levels["L1"][2]) == (30, 118 << 10)
    assert (round(levels["L2"][0]), levels["L2"][2]) == (215, 5_770 << 10)
    assert 420 < levels["memory"][0] < 437
    assert levels["memory"][2] == 1_529_075 << 10


def test_a_sweep_of_an_rtx_3090() -> None:
    curve = recorded("memtest_latency_rtx3090.json", parse_memory_set, "latency", "ca_ns")
    levels = levels_of(curve, gpu_caches(6 << 20))
    assert list(levels) == ["L1", "L2", "memory"]
    assert levels["L1"][0] == pytest.approx(23.2, abs=0.2)
    assert 142 < levels["L2"][0] <= 150
    assert 264 <= levels["memory"][0] <= 270
    assert levels["memory"][1] == 8 << 20


def made(*steps: tuple[int, float]) -> Curve:
    """A curve of two sizes for each doubling from 2 KiB on: each step is (up to this size in KiB, value)."""
    curve: Curve = []
    size = 2 << 10
    for limit, value in steps:
        while size <= limit << 10:
            curve += [(size, value), (size * 3 // 2, value)]
            size *= 2
    return curve


HOST = (("L1", 32 << 10), ("L2", 512 << 10), ("L3", 32 << 20))


def test_levels_of_a_host_carry_the_names_of_its_caches() -> None:
    levels = levels_of(made((16, 2.0), (256, 6.0), (16 << 10, 20.0), (256 << 10, 110.0)), HOST)
    assert [(name, value) for name, (value, _, _) in levels.items()] == [
        ("L1", 2.0),
        ("L2", 6.0),
        ("L3", 20.0),
        ("memory", 110.0),
    ]


def test_a_cache_that_others_use_ends_early_and_what_follows_is_memory() -> None:
    levels = levels_of(made((16, 2.0), (256, 6.0), (2 << 10, 20.0), (256 << 10, 110.0)), HOST)
    assert levels["L3"][2] == 3 << 20
    assert levels["memory"][1] == 4 << 20


def test_a_second_flat_stretch_of_a_cache_is_its_slower_part() -> None:
    levels = levels_of(
        made((128, 38.0), (16 << 10, 210.0), (32 << 10, 400.0), (256 << 10, 550.0)), gpu_caches(50 << 20)
    )
    assert list(levels) == ["L1", "L2", "memory"]
    far = made((128, 38.0), (8 << 10, 210.0), (32 << 10, 400.0), (256 << 10, 550.0))
    assert levels_of(far, gpu_caches(50 << 20))["L2, slower part"][0] == 400.0


def test_what_is_not_flat_is_told_as_such() -> None:
    # given: on a busy machine every working set beyond L1 is slower than the one ahead of it
    curve = made((16, 2.0), (256 << 10, 0.0))
    curve = [(size, value or 6.0 * 1.2**index) for index, (size, value) in enumerate(curve)]
    # when
    found = ladders.name_levels([size for size, _ in curve], [value for _, value in curve], HOST)
    # then
    assert [(level.name, level.flat) for level in found] == [
        ("L1", True),
        ("L2", False),
        ("L3", False),
        ("memory", False),
    ]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0], [1.0, 1.2, 1.5, 1.9]])
def test_two_equal_rungs_are_no_level(values: list[float]) -> None:
    assert ladders.find_plateaus(values) == ()


def test_without_any_cache_size_levels_are_named_by_where_they_begin() -> None:
    levels = levels_of(made((16, 2.0), (256, 6.0)), ())
    assert list(levels) == ["flat from 2 KiB", "flat from 32 KiB"]


def test_the_simulated_card_shows_what_it_is_made_of() -> None:
    # when
    seen = run(Card(plan()), Quiet(passes=1))
    # then
    told = {
        dict(one.labels)["level"]: float(one.reading.value)
        for one in seen.measurements
        if one.name == "latency.ladder" and isinstance(one.reading, Quantity)
    }
    assert list(told) == ["L1", "L2", "memory"]
    assert told["L1"] == pytest.approx(33 / 1.5e9, rel=0.01)
    assert told["L2"] == pytest.approx(285 / 1.5e9, rel=0.15)
    assert told["memory"] == pytest.approx(615 / 1.5e9, rel=0.1)
    ladder = next(table for table in seen.tables if table.name == "ladder")
    assert ladder.rows[0][0] == 2 << 10
    assert [int(str(row[0])) for row in ladder.rows] == sorted(int(str(row[0])) for row in ladder.rows)
    assert any("informs and is not judged" in note for note in seen.notes)


class Full(Card):
    """A card whose memory is all taken when the ladder wants some."""

    def allocate(self, size: int) -> Buffer:
        if size >= 4 << 20:
            raise OutOfMemory("there is nothing left")
        return super().allocate(size)


def test_without_room_beyond_the_caches_there_is_no_ladder() -> None:
    device = Full(plan(mib=16))
    flusher = chains.open_flusher(device)
    info = device.describe()
    small = climbing.climb(device, flusher, info, 0, 1, lambda: "")
    stopped = climbing.climb(Card(plan()), chains.open_flusher(device), info, 0, 1, lambda: "told to stop")
    assert isinstance(small, tuple) and small[-1].size <= 3 << 20
    assert isinstance(stopped, Absent) and stopped.reason == "told to stop"
    device.close()


def card(title: str, kind: str = "cuda") -> TargetInfo:
    size = Quantity(6 << 20, Unit.BYTE)
    return TargetInfo("cuda:0", kind, title, size, size, size, "", origin_kind=kind)


@pytest.mark.parametrize(
    ("title", "product"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-PCIE-16GB", "V100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", ""),
        ("NVIDIA H200", ""),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", ""),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", ""),
        ("NVIDIA GeForce RTX 4090 D", ""),
        ("NVIDIA GeForce RTX 3090 Ti", ""),
        ("NVIDIA GeForce RTX 2080 SUPER", "RTX 2080 SUPER"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
    ],
)
def test_a_product_is_known_by_its_name_and_another_one_is_not_taken_for_it(title: str, product: str) -> None:
    assert tables.product_of(title) == product
    assert {one.product for one in tables.references(card(title))} == ({product} if product else set())


def test_neither_host_nor_simulated_card_has_a_published_figure() -> None:
    assert tables.references(card("simulated card like an A100", "sim")) == ()


def test_every_published_figure_has_a_source_and_is_a_range() -> None:
    for one in tables.REFERENCES:
        assert one.low <= one.high
        assert all(key in tables.SOURCES for key in one.source.split(", "))


def test_a_known_product_is_shown_beside_what_is_published() -> None:
    curve = made((128, 38.0), (8 << 10, 210.0), (256 << 10, 550.0))
    rungs = tuple(climbing.Rung(size, cycles / 1.41e9, cycles, 7) for size, cycles in curve)
    seen = ladders.observe_ladder(rungs, card("NVIDIA A100-SXM4-40GB"))
    table: Any = next(table for table in seen.tables if table.name == "levels")
    published = {row[0]: row[-2:] for row in table.rows}
    assert published["L1"] == ("36 to 39 cycles", "gpu-benches, AI_kernels")
    assert published["memory"][0] == "550 to 572 cycles"
    assert any("RRZE-HPC/gpu-benches" in note for note in seen.notes)
