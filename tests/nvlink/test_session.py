"""The whole chain on simulated cards: from copies and kernels to findings."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mats.device import DeviceError, DeviceLost, HeldBy, OutOfMemory
from mats.devices._fabric_plans import WayFault
from mats.devices._sim_fabric import SimFabric
from mats.fabric import Reach
from mats.model import AbsenceKind, Absent, Observation, Quantity, Verdict
from mats.probe import UsageError
from mats.probes._nvlink_bench import copy_size

from .bench import GB, Quiet, codes, fabric, judged, measured, named, readings, reason, value


@pytest.fixture(scope="module")
def healthy() -> Observation:
    return measured(fabric())


def test_healthy_links_pass(healthy: Observation) -> None:
    assert judged(healthy) == (Verdict.PASS, "", ())


def test_each_direction_has_its_figures(healthy: Observation) -> None:
    for start, end in (("0", "1"), ("1", "0")):
        assert value(healthy, "link.bandwidth", start=start, end=end) == pytest.approx(47.25 * GB, rel=0.05)
        assert value(healthy, "link.bandwidth_through_host", start=start, end=end) == pytest.approx(20 * GB, rel=0.1)
        assert value(healthy, "link.bandwidth_both_ways", start=start, end=end) == pytest.approx(47.25 * GB, rel=0.05)
        assert 1e-6 < value(healthy, "link.copy_latency", start=start, end=end) < 4e-6
        assert 10e-6 < value(healthy, "link.copy_latency_through_host", start=start, end=end) < 21e-6


def test_the_load_latency_is_that_of_the_link_and_apart_from_that_of_a_copy(healthy: Observation) -> None:
    assert value(healthy, "link.load_latency", start="0", end="1") == pytest.approx(700e-9, rel=0.1)


def test_every_way_to_move_data_is_verified_each_way(healthy: Observation) -> None:
    for start, end in (("0", "1"), ("1", "0")):
        for by in ("copies", "stores", "loads"):
            assert value(healthy, "link.verified_bytes", start=start, end=end, by=by) == 2 << 20
            assert value(healthy, "link.mismatched_bytes", start=start, end=end, by=by) == 0


def test_a_clean_check_says_what_it_is_not(healthy: Observation) -> None:
    (note,) = [
        note for note in healthy.notes if note.startswith("Copy and load/store verified (copies, stores, loads)")
    ]
    assert "no statement about any library" in note


def test_what_was_verified_and_counted_stands_in_one_sentence(healthy: Observation) -> None:
    assert any(
        note.startswith("Data: 0 B of 12 MiB changed; replays +0, recoveries +0, checksum errors +0, PCIe replays +0")
        and "discards not counted by these GPUs" in note
        for note in healthy.notes
    )


def test_a_ring_says_what_it_bounds(healthy: Observation) -> None:
    (ring,) = named(healthy, "link.ring")

    assert isinstance(ring.reading, Quantity)
    assert "2(n-1)/n for n = 2" in ring.method and "no measurement of NCCL" in ring.method


def test_samples_and_what_they_are_of_are_kept(healthy: Observation) -> None:
    one = next(one for one in healthy.measurements if one.name == "link.bandwidth")

    assert (len(one.samples), one.statistic) == (3, "median of 3")


def test_figures_and_matrices_are_there_to_look_at(healthy: Observation) -> None:
    tables = {table.name: table for table in healthy.tables}

    assert list(tables) == ["bandwidth", "latency", "topology", "pairs", "together", "gpus"]
    assert all(tables[name].chart is not None for name in ("bandwidth", "latency", "topology"))
    assert [row[:3] for row in tables["topology"].rows] == [("0", "1", "NV4"), ("1", "0", "NV4")]


@pytest.mark.parametrize(
    ("fault", "plan", "expected", "direction"),
    [
        (WayFault("slow", 0, 1, factor=0.9), "links_healthy", ["LNK-002"], ("0", "1")),
        (WayFault("slow", 1, 0, factor=0.5), "links_healthy", ["LNK-001", "LNK-002", "LNK-006"], ("1", "0")),
        (WayFault("detour", factor=0.3), "links_pcie", ["LNK-001", "LNK-002", "LNK-003"], ("0", "1")),
        (WayFault("narrow", 1, lanes=4), "links_pcie", ["LNK-010"], None),
        (WayFault("inactive", 0, 1, links=2), "links_healthy", ["LNK-005"], None),
        (WayFault("errors", 0, 1), "links_healthy", ["LNK-011", "LNK-012"], None),
    ],
    ids=lambda given: given.kind if isinstance(given, WayFault) else "",
)
def test_a_fault_is_found_and_named(
    fault: WayFault, plan: str, expected: list[str], direction: tuple[str, str] | None
) -> None:
    seen = measured(fabric(plan, fault))

    assert codes(seen) == expected
    for finding in judged(seen).findings:
        assert finding.fault and finding.evidence
        if direction and plan == "links_healthy":
            assert dict(finding.measurement.labels)["from"] == direction[0]


def test_data_that_change_on_the_way_are_found_by_copies_loads_and_stores_and_only_that_way() -> None:
    seen = measured(fabric("links_healthy", WayFault("corrupt", 0, 1, probability=1e-3)))

    assert codes(seen) == ["LNK-004"]
    wrong = {
        (dict(one.labels)["from"], dict(one.labels)["by"])
        for one in named(seen, "link.mismatched_bytes")
        if isinstance(one.reading, Quantity) and one.reading.value
    }
    assert wrong == {("0", "copies"), ("0", "stores"), ("0", "loads")}
    table = next(table for table in seen.tables if table.name == "mismatches")
    assert all("was sent" in str(row[3]) or "more words" in str(row[3]) for row in table.rows)


def test_without_peer_access_the_way_through_the_host_is_measured_and_verified() -> None:
    seen = measured(fabric("links_pcie", WayFault("no_peer")))

    verdict, why, findings = judged(seen)
    assert (verdict, findings) == (Verdict.UNKNOWN, ())
    assert "no peer access (P2P) between any two of the GPUs: the simulated driver offers no direct access" in why
    assert value(seen, "link.bandwidth_through_host", start="0", end="1") > 0
    assert value(seen, "link.verified_bytes", start="0", end="1", by="copies") > 0
    assert "no peer access" in reason(seen, "link.load_latency", start="0", end="1")


def test_a_card_that_answers_no_more_is_lost_by_name_and_keeps_what_was_measured() -> None:
    context = Quiet(pairs="0-1,0-2")

    with pytest.raises(DeviceLost, match="card 2"):
        measured(fabric("links_healthy", WayFault("silent", 2, after=3), cards=4), context)

    assert readings(context.saved[-1], "link.bandwidth", start="0", end="1")


def test_a_test_that_is_told_to_stop_is_partial_and_keeps_what_it_has() -> None:
    seen = measured(fabric(cards=4), Quiet(turns=1))

    assert seen.partial == "told to stop"
    assert judged(seen).verdict is Verdict.UNKNOWN
    assert [pair[:2] for pair in next(t for t in seen.tables if t.name == "pairs").rows] == [("0", "1"), ("1", "0")]


def test_only_the_pairs_that_are_asked_for_are_measured() -> None:
    seen = measured(fabric(cards=4), Quiet(pairs="1-3"))

    assert {dict(one.labels)["from"] for one in named(seen, "link.bandwidth")} == {"1", "3"}


@pytest.mark.parametrize("pairs", ["0-7", "0", "0-0", "0-1-2", "a-b", "0-1,"])
def test_a_pair_that_is_none_is_refused_in_a_sentence(pairs: str) -> None:
    with pytest.raises(UsageError, match=r"--pairs: .* is no pair such as 0-1; the GPUs are 0, 1"):
        measured(fabric(), Quiet(pairs=pairs))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"repeats": 0}, "--repeats"),
        ({"size": 1 << 20}, "--size must be at least 2 MiB"),
        ({"size": 1 << 40}, "one has"),
        ({"min_bandwidth_gbps": 0.0}, "--min-bandwidth-gbps must be above 0"),
        ({"max_latency_ns": 0.0}, "--max-latency-ns must be above 0"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        measured(fabric(), Quiet(**options))


def test_bounds_of_ones_own_are_held_against_each_direction() -> None:
    seen = measured(fabric(), Quiet(min_bandwidth_gbps=48.5, max_latency_ns=100.0))

    assert codes(seen) == ["LNK-020", "LNK-021"]
    assert any("no load over any link can be so quick" in note for note in seen.notes)


def test_gpus_of_eight_at_a_switch_send_to_one_and_from_one_at_once() -> None:
    seen = measured(fabric("link_switch8", cards=3))

    assert judged(seen).verdict is Verdict.PASS
    assert value(seen, "link.into_one", end="1") == pytest.approx(382 * GB, rel=0.1)
    assert value(seen, "link.from_one", start="1") == pytest.approx(382 * GB, rel=0.1)


class Answering(SimFabric):
    """A simulated fabric of which single answers are replaced."""

    def __init__(self, door: SimFabric, **answers: Any) -> None:
        self.__dict__.update(door.__dict__)
        self._answers = answers

    def reach(self, start: int, end: int) -> Reach:
        told = self._answers.get("reach")
        return told(start, end) if told else super().reach(start, end)

    def connect(self, start: int, end: int) -> None:
        if "connect" in self._answers:
            raise self._answers["connect"]
        super().connect(start, end)


def test_access_that_the_driver_promises_and_refuses_is_no_access() -> None:
    door = Answering(fabric("links_pcie"), connect=DeviceError("mapping of buffer object failed"))

    seen = measured(door)

    assert judged(seen).verdict is Verdict.UNKNOWN
    assert "mapping of buffer object failed" in judged(seen).reason


def test_a_gpu_that_is_lost_while_connecting_ends_the_test() -> None:
    door = Answering(fabric("links_pcie"), connect=DeviceLost("GPU 1 has fallen off the bus"))

    with pytest.raises(DeviceLost, match="fallen off"):
        measured(door)


def test_one_way_access_is_measured_one_way() -> None:
    door = Answering(fabric("links_pcie"), reach=lambda start, end: Reach(start == 0, "one way only"))

    seen = measured(door)

    assert value(seen, "link.bandwidth", start="0", end="1") > 0
    assert isinstance(readings(seen, "link.bandwidth", start="1", end="0")[0], Absent)


def test_a_memory_that_does_not_keep_its_data_is_not_taken_for_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    from mats.probes import _nvlink_session as session
    from mats.probes._nvlink_verify import verify_own

    monkeypatch.setattr(
        session, "verify_own", lambda seat, draw: dataclasses.replace(verify_own(seat, draw), mismatched=8)
    )

    seen = measured(fabric())

    labels = [dict(finding.measurement.labels) for finding in judged(seen).findings]
    assert labels == [{"gpu": "0", "by": "its own memory"}, {"gpu": "1", "by": "its own memory"}]


def test_other_processes_are_counted_once_and_desktops_are_not() -> None:
    door = fabric()
    desktop = HeldBy(1, "Xorg", Absent(AbsenceKind.NOT_SUPPORTED, "not told"), draws_only=True)
    work = HeldBy(2, "train", Absent(AbsenceKind.NOT_SUPPORTED, "not told"))
    for member in door.members():
        member.holders = lambda: (desktop, work)  # type: ignore[method-assign]

    seen = measured(door)

    assert value(seen, "link.other_processes") == 1
    assert judged(seen).verdict is Verdict.UNKNOWN


def test_no_room_for_the_buffers_is_said_with_the_gpu() -> None:
    door = fabric()
    for member in door.members()[1:]:

        def refuse(size: int) -> Any:
            raise OutOfMemory("nothing is left")

        member.allocate = refuse  # type: ignore[method-assign]

    with pytest.raises(OutOfMemory, match="GPU 1 has no room for copies of 2 MiB: nothing is left"):
        measured(door)


def test_a_copy_is_whole_pages_and_small_beside_what_is_free() -> None:
    door = fabric()
    try:
        assert copy_size(door.members(), None) == 2 << 20
        assert copy_size(door.members(), 5 << 20) == 4 << 20
    finally:
        door.close()
