"""What made-up figures of pairs come to: each limit on both sides, what is not judged, and what is said of it."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from mats.device import DeviceLost
from mats.facts import AerFacts, HostFacts, MigFacts, empty_device
from mats.model import AbsenceKind, Absent, Observation, Verdict
from mats.probes._health_card import cards_of
from mats.probes._nvlink_access import why_no_access
from mats.probes._nvlink_bench import at_once
from mats.probes._nvlink_counters import growth
from mats.probes._nvlink_limits import LIMITS
from mats.probes._nvlink_rates import pcie_link
from mats.probes._nvlink_results import observe
from mats.probes._nvlink_seen import Check, Own, PairSeen, Taken

from .bench import GB, codes, count, gpu, judged, link, machine, pcie, picture, rate, reason, seconds, value

NV4 = [link(n, 14.062, "3.0") for n in range(4)]
PAIR = machine(gpu(0, NV4), gpu(1, NV4), pairs="NV4")
GOOD = PairSeen("0", "1", True, one_way=rate(47), through_host=rate(18), both_ways=rate(46), copy_latency=seconds(2e-6))


def see(*pairs: PairSeen, facts: Any = PAIR, **more: Any) -> Observation:
    seen: Observation = observe(picture(facts, *pairs, **more))
    return seen


def verdict(seen: Observation) -> Verdict:
    return judged(seen, "file").verdict


@pytest.mark.parametrize(
    ("reached", "expected", "found"),
    [
        (44.0, Verdict.PASS, []),
        (43.8, Verdict.WARN, ["LNK-002"]),
        (36.7, Verdict.WARN, ["LNK-002"]),
        (36.4, Verdict.FAIL, ["LNK-001", "LNK-002"]),
    ],
)
def test_a_link_is_held_against_what_its_active_links_carry(
    reached: float, expected: Verdict, found: list[str]
) -> None:
    seen = see(dataclasses.replace(GOOD, one_way=rate(reached)))

    assert verdict(seen) is expected
    assert codes(seen, "file") == found


def test_the_same_rate_over_more_links_is_a_failure() -> None:
    links = [link(n) for n in range(18)]

    seen = see(GOOD, facts=machine(gpu(0, links), gpu(1, links), pairs="NV18"))

    assert "LNK-001" in codes(seen, "file")


def test_below_the_most_that_may_be_nothing_is_failed() -> None:
    links = [link(n) for n in range(18)]
    facts = machine(gpu(0, links), gpu(1, links), gpu(2, links))  # where the links lead is not told

    fast = dataclasses.replace(GOOD, one_way=rate(390), both_ways=rate(380))
    low, high = see(GOOD, facts=facts), see(fast, facts=facts)

    assert verdict(low) is Verdict.UNKNOWN
    assert "only the most that may be" in judged(low, "file").reason
    assert verdict(high) is Verdict.PASS


def test_without_a_target_a_bound_of_ones_own_is_judged() -> None:
    facts = machine(gpu(0, name=""), gpu(1, name=""))
    facts = dataclasses.replace(facts, gpus=Absent(AbsenceKind.NOT_FOUND, "no word of GPUs"))

    assert verdict(see(GOOD, facts=facts)) is Verdict.UNKNOWN
    assert verdict(see(GOOD, facts=facts, own=Own(40 * GB))) is Verdict.PASS
    assert codes(see(GOOD, facts=facts, own=Own(50 * GB)), "file") == ["LNK-020"]


@pytest.mark.parametrize(("direct", "found"), [(17.2, []), (17.0, ["LNK-003"])])
def test_a_direct_way_slower_than_through_the_host_is_a_failure_of_its_own(direct: float, found: list[str]) -> None:
    facts = machine(gpu(0, pcie=pcie(3)), gpu(1, pcie=pcie(3)), pairs="PHB", host=HostFacts(iommu="on"))
    pair = dataclasses.replace(GOOD, one_way=rate(direct), both_ways=Taken())

    seen = see(pair, facts=facts, own=Own(1 * GB))

    assert [code for code in codes(seen, "file") if code == "LNK-003"] == found


def test_a_pair_is_compared_with_pairs_that_are_joined_alike_and_no_others() -> None:
    # given: two pairs by NVLink, four ways by PCIe, which are half as fast
    links = [gpu(n, NV4, pcie=pcie(4)) for n in range(4)]
    facts = machine(*links, pairs="SYS")
    assert not isinstance(facts.pairs, Absent)
    joined = tuple(
        dataclasses.replace(pair, connection="NV4") if (pair.first, pair.second) in ((0, 1), (2, 3)) else pair
        for pair in facts.pairs
    )
    facts = dataclasses.replace(facts, pairs=joined)
    ways = [("0", "1", 47), ("2", "3", 46), ("0", "2", 26), ("1", "3", 25.8), ("0", "3", 25)]
    # when
    seen = see(*(PairSeen(start, end, True, one_way=rate(speed)) for start, end, speed in ways), facts=facts)
    slow = see(
        *(PairSeen(start, end, True, one_way=rate(speed)) for start, end, speed in [*ways[:4], ("0", "3", 21.0)]),
        facts=facts,
    )
    # then
    assert codes(seen, "file") == []
    assert "LNK-006" in codes(slow, "file")
    assert value(slow, "link.below_class", start="0", end="3") == pytest.approx(1 - 21 / 25.9, abs=0.01)


def test_without_peer_access_there_is_no_verdict_and_no_figure_over_it() -> None:
    pair = PairSeen("0", "1", False, "the driver gives none", through_host=rate(19))

    seen = see(pair, facts=machine(gpu(0, pcie=pcie(4)), gpu(1, pcie=pcie(4)), pairs="PHB"))

    assert verdict(seen) is Verdict.UNKNOWN
    assert "no peer access (P2P)" in judged(seen, "file").reason and "the driver gives none" in judged(seen).reason
    assert any(note.startswith("NO P2P between any pair: the driver gives none") for note in seen.notes)
    assert value(seen, "link.bandwidth_through_host") == 19 * GB


def test_nvlinks_without_peer_access_are_a_failure() -> None:
    assert codes(see(PairSeen("0", "1", False, "fabric not ready")), "file") == ["LNK-009"]


def test_some_pairs_without_access_leave_the_others_their_verdict() -> None:
    other = PairSeen("0", "2", False, "another socket", through_host=rate(18))

    seen = see(GOOD, other, facts=machine(gpu(0, NV4), gpu(1, NV4), gpu(2), pairs="NV4"), own=Own())

    assert any("NO P2P between 0-2: another socket" in note for note in seen.notes)


def test_wrong_data_fail_whatever_the_speed() -> None:
    bad = Check("copies", 1 << 20, 16, ("word at byte 8: 0x0 was sent, 0x1 arrived (1 bits)",))

    seen = see(dataclasses.replace(GOOD, checks=(bad,)))

    (finding,) = judged(seen, "file").findings
    assert (finding.code, finding.fault) == ("LNK-004", "link_corrupt")
    assert "word at byte 8: 0x0 was sent, 0x1 arrived (1 bits)" in finding.evidence


def test_a_live_test_that_verified_nothing_has_no_verdict() -> None:
    assert verdict(see(GOOD, live=True)) is Verdict.UNKNOWN
    clean = dataclasses.replace(GOOD, checks=(Check("copies", 1 << 20, 0),))
    assert verdict(see(clean, live=True, others=count(0))) is Verdict.PASS


def test_the_work_of_another_process_voids_what_is_slow_and_not_what_is_wrong() -> None:
    slow = dataclasses.replace(GOOD, one_way=rate(10), checks=(Check("copies", 8, 8),))

    assert codes(see(slow, others=count(1)), "file") == ["LNK-004", "LNK-022"]


@pytest.mark.parametrize(("busy", "found"), [(31.0, []), (30.0, ["LNK-007"])])
def test_a_way_that_gives_in_while_the_other_one_is_busy_is_warned_of(busy: float, found: list[str]) -> None:
    assert codes(see(dataclasses.replace(GOOD, both_ways=rate(busy))), "file") == found


def test_one_slow_engine_is_not_the_link() -> None:
    pair = dataclasses.replace(GOOD, engines=(("by kernels", 5.7 * GB), ("by the copy engine", 47 * GB)))

    assert any("it is the engine, not the link" in note for note in see(pair).notes)
    assert codes(see(pair), "file") == []


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (Own(latency=82e-9), "no load over any link can be so quick"),
        (Own(latency=500e-9), "no link is known to be so quick"),
        (Own(bandwidth=60 * GB), "healthy NV4 ways of this machine cannot reach it"),
        (Own(bandwidth=10 * GB), "pass that though they lost 82% of the 56.2 GB/s"),
    ],
)
def test_a_bound_that_means_something_else_than_it_seems_is_explained(own: Own, words: str) -> None:
    seen = see(dataclasses.replace(GOOD, load_latency=seconds(700e-9)), own=own)

    assert any(words in note for note in seen.notes)


def test_a_bound_of_ones_own_that_fits_needs_no_words() -> None:
    seen = see(dataclasses.replace(GOOD, load_latency=seconds(810e-9)), own=Own(40 * GB, 900e-9))

    assert not any(note.startswith("--") for note in seen.notes)
    assert codes(seen, "file") == []


def test_a_latency_of_ones_own_is_that_of_a_load() -> None:
    seen = see(dataclasses.replace(GOOD, load_latency=seconds(810e-9)), own=Own(latency=100e-9))

    assert codes(seen, "file") == ["LNK-021"]
    assert value(seen, "link.own_latency_share") == pytest.approx(8.1)


def test_small_copies_that_take_as_long_as_through_the_host_are_warned_of() -> None:
    late = dataclasses.replace(GOOD, copy_latency=seconds(11e-6))

    assert codes(see(late), "file") == ["LNK-008"]


@pytest.mark.parametrize(
    ("counter", "by", "found"),
    [
        ("replay errors", 1, ["LNK-012"]),
        ("recovery errors", 1, ["LNK-011"]),
        ("crc errors", 5, ["LNK-014"]),
        ("crc errors", 5000, ["LNK-013", "LNK-014"]),
        ("effective errors", 1, ["LNK-023"]),
        ("link recovery successful events", 1, []),
        ("symbol errors", 1000, []),
        ("replay errors", 0, []),
    ],
)
def test_counters_are_judged_by_what_they_grew(counter: str, by: int, found: list[str]) -> None:
    assert codes(grown(counter, 7, 7 + by), "file") == found


def grown(counter: str, before: int, after: int, version: str = "4.0") -> Observation:
    def cards(number: int) -> dict[str, Any]:
        one = dataclasses.replace(link(0, version=version), errors=((counter, count(number)),))
        return {card.label: card for card in cards_of(machine(gpu(0, [one])))}

    parts = tuple(growth(cards(before), cards(after), 10.0))
    return see(GOOD, growth=parts)


def test_a_counter_that_went_back_is_absent() -> None:
    assert "went back" in reason(grown("replay errors", 7, 3), "link.nvlink_replays")


def test_before_nvlink_5_no_packet_loss_is_told() -> None:
    seen = grown("crc errors", 0, 0)

    assert "count no lost packets" in reason(seen, "link.packet_loss")


def test_packet_loss_is_discards_over_packets_of_nvlink_5() -> None:
    def cards(sent: int, lost: int) -> dict[str, Any]:
        one = dataclasses.replace(link(0, 53.125, "5.0"), errors=(("tx discards", count(lost)),), packets=count(sent))
        return {card.label: card for card in cards_of(machine(gpu(0, [one])))}

    seen = see(GOOD, growth=tuple(growth(cards(1000, 0), cards(2000, 5), 1.0)))

    assert value(seen, "link.packet_loss") == pytest.approx(0.005)
    assert "LNK-019" in codes(seen, "file")


@pytest.mark.parametrize(("errors", "found"), [(0, []), (1, ["LNK-017"]), (17, ["LNK-016", "LNK-017"])])
def test_errors_of_the_bus_are_judged_by_the_minute(errors: int, found: list[str]) -> None:
    absent = Absent(AbsenceKind.NOT_FOUND, "not told")

    def cards(number: int) -> dict[str, Any]:
        counts = AerFacts((("BadDLLP", count(number)),), (), ())
        device = dataclasses.replace(
            empty_device("0000:00:00.0", absent), errors=counts, upstream=(), class_code=0x0302, now=pcie_link(4, 16)
        )
        return {card.label: card for card in cards_of(machine(gpu(0), devices=(device,)))}

    seen = see(GOOD, growth=tuple(growth(cards(3), cards(3 + errors), 5.0)))

    assert codes(seen, "file") == found


def test_links_that_are_down_fail_though_the_sum_is_large() -> None:
    half = [*NV4[:2], link(2, up=False), link(3, up=False)]

    seen = see(
        dataclasses.replace(GOOD, one_way=rate(24), both_ways=rate(23)),
        facts=machine(gpu(0, half), gpu(1, half), pairs="NV2"),
    )

    assert codes(seen, "file") == ["LNK-005"]


def test_a_card_without_a_bridge_has_no_fault() -> None:
    down = [link(n, up=False) for n in range(4)]
    cards = [gpu(n, down, name="NVIDIA A40", pcie=pcie(4)) for n in (0, 1)]
    pair = PairSeen("0", "1", True, one_way=rate(26), through_host=rate(18))

    assert codes(see(pair, facts=machine(*cards, pairs="PHB")), "file") == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mig": MigFacts(enabled=True)}, "MIG is on"),
        ({"virtualisation": "vGPU"}, "virtual GPU"),
        ({"driver_model": "WDDM"}, "WDDM"),
        ({"name": "NVIDIA GeForce RTX 4090"}, "consumer cards"),
    ],
)
def test_what_keeps_gpus_apart_is_named(change: dict[str, Any], words: str) -> None:
    facts = machine(gpu(0, **change), gpu(1, **change))
    first, second = cards_of(facts)

    said = why_no_access(facts, first, second, "the driver offers none.")

    assert said.startswith("the driver offers none; ") and words in said


@pytest.mark.parametrize(
    ("host", "words"), [(HostFacts(wsl=True), "under WSL"), (HostFacts(iommu="on"), "the IOMMU is on")]
)
def test_a_host_that_stands_in_the_way_is_named(host: HostFacts, words: str) -> None:
    facts = machine(gpu(0), gpu(1), host=host)

    first, second = cards_of(facts)

    assert words in why_no_access(facts, first, second, "")


def test_absent_figures_never_pass() -> None:
    nothing = Absent(AbsenceKind.TIMED_OUT, "the driver did not answer")
    pair = PairSeen("0", "1", True, one_way=Taken(nothing))

    assert verdict(see(pair, live=True)) is Verdict.UNKNOWN
    assert "the driver did not answer" in judged(see(pair, live=True)).reason


def test_a_bound_of_the_users_own_does_not_stand_in_for_a_tool_that_failed() -> None:
    seen = see(GOOD, own=Own(GB), failed=("nvbandwidth itself failed: host_to_device_memcpy_ce: error",))

    assert verdict(seen) is Verdict.UNKNOWN
    assert "nvbandwidth itself failed" in judged(seen, "file").reason


def test_a_gpu_that_reaches_no_other_one_has_no_verdict_beside_others_that_do() -> None:
    facts = machine(gpu(0, NV4), gpu(1, NV4), gpu(2), pairs="NV4")
    checked = dataclasses.replace(GOOD, checks=(Check("copies", 8, 0),))
    apart = [
        PairSeen(start, end, False, "no peer access", through_host=rate(18), checks=(Check("copies", 8, 0),))
        for start, end in (("0", "2"), ("2", "0"), ("1", "2"), ("2", "1"))
    ]

    seen = see(checked, dataclasses.replace(checked, start="1", end="0"), *apart, facts=facts, live=True)

    told = {
        dict(one.labels)["gpu"]: one.reading for one in seen.measurements if dict(one.labels).get("what") == "bandwidth"
    }
    assert isinstance(told["2"], Absent) and "no peer access" in told["2"].reason
    assert not any(isinstance(told[label], Absent) for label in ("0", "1"))


def test_work_on_two_members_that_does_not_end_is_given_up() -> None:
    hung = threading.Event()

    def wait() -> float:
        hung.wait(5.0)
        return 1.0

    try:
        with pytest.raises(DeviceLost, match=r"GPU 1 has not ended its work over the link within 0\.05 s"):
            at_once([("GPU 0", lambda: 0.5), ("GPU 1", wait)], 0.05)
    finally:
        hung.set()


def test_what_one_of_two_raises_is_raised() -> None:
    def lost() -> float:
        raise DeviceLost("GPU 1 is gone")

    with pytest.raises(DeviceLost, match="GPU 1 is gone"):
        at_once([("GPU 0", lambda: 0.5), ("GPU 1", lost)], 5.0)


def test_every_measurement_of_a_limit_is_one_that_is_made() -> None:
    made = {one.name for one in grown("crc errors", 0, 0).measurements}
    made |= {one.name for one in see(GOOD, own=Own(GB, 1e-6)).measurements}
    wrong = see(dataclasses.replace(GOOD, checks=(Check("copies", 8, 8),)))
    made |= {one.name for one in wrong.measurements}

    assert {limit.measurement for limit in LIMITS} <= made
