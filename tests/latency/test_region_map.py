"""Which regions stand out of the others: the statistics alone, and the whole way from kernel to verdict."""

from __future__ import annotations

import importlib
import random

import pytest

from mats.devices._plans import MIB, SimFault
from mats.model import AbsenceKind, Absent, Severity, Verdict

from .bench import Card, Quiet, StopsAt, judged, measurement, plan, reading, run, value

chains = importlib.import_module("mats.probes._latency_chain")
maps = importlib.import_module("mats.probes._latency_map")


def times(regions: int, passes: int, late: dict[int, float] | None = None, seed: int = 1) -> list[list[float | None]]:
    """Regions of 400 ns and 0.5 % noise; each pass on a multiprocessor of its own, up to a tenth faster or slower."""
    draw = random.Random(seed)
    made: list[list[float | None]] = []
    for _ in range(passes):
        unit = draw.uniform(0.9, 1.1)
        made.append([400e-9 * unit * draw.gauss(1, 0.005) * (late or {}).get(i, 1.0) for i in range(regions)])
    return made


def test_what_a_multiprocessor_costs_is_not_laid_on_a_region() -> None:
    seen = maps.compare(times(64, 7))
    assert seen.outstanding == ()
    assert seen.excess == 0.0
    assert seen.spread < 0.005


@pytest.mark.parametrize("slower", [1.15, 1.25, 1.47, 3.0])
def test_a_late_region_is_found_where_it_is_and_by_how_much(slower: float) -> None:
    seen = maps.compare(times(128, 7, {17: slower}))
    assert seen.outstanding == (17,)
    assert seen.excess == pytest.approx(slower - 1, abs=0.01)


def test_what_is_less_than_is_looked_for_does_not_stand_out() -> None:
    assert maps.compare(times(128, 7, {17: 1.05})).outstanding == ()


def test_single_disturbed_walks_are_outvoted() -> None:
    # given: each pass comes late in three regions, always in others
    made = times(64, 7)
    for index, one in enumerate(made):
        for region in range(3 * index, 3 * index + 3):
            one[region] = (one[region] or 0) * 2
    # when
    seen = maps.compare(made)
    # then
    assert seen.outstanding == ()
    assert seen.disturbed == pytest.approx(3 / 64)


def test_a_third_of_the_memory_may_be_late_together() -> None:
    late = dict.fromkeys(range(40, 60), 1.3)
    assert maps.compare(times(64, 7, late)).outstanding == tuple(late)


def test_walks_that_are_missing_leave_the_others_to_be_compared() -> None:
    # given
    made = times(32, 7, {5: 1.4})
    for one in made[:3]:
        one[5] = one[6] = None
    for one in made:
        one[9] = None
    # when
    seen = maps.compare(made)
    # then
    assert seen.outstanding == (5,)
    assert seen.regions[5].passes == 4
    assert seen.regions[9] is None


def test_nothing_walked_is_no_map() -> None:
    with pytest.raises(ValueError, match="no region was walked"):
        maps.compare([[None, None]])


@pytest.mark.parametrize(
    ("disturbed", "passes", "regions", "expected"),
    [(0.0, 7, 384, 0.0), (1.0, 7, 384, 384.0), (0.01, 7, 384, 384 * 35 * 1e-8), (0.5, 1, 10, 5.0)],
)
def test_chance_alone_is_counted(disturbed: float, passes: int, regions: int, expected: float) -> None:
    assert maps.chance_alarms(disturbed, passes, regions) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("tested", "expected"),
    [
        (24 << 30, 64 * MIB),
        (8 << 30, 64 * MIB),
        (6 << 30, 32 * MIB),
        (1 << 30, 8 * MIB),
        (32 * MIB, 256 << 10),
        (2 * MIB, 256 << 10),
    ],
)
def test_regions_are_of_64_mib_and_smaller_where_there_is_little(tested: int, expected: int) -> None:
    assert chains.region_size(tested) == expected


@pytest.mark.parametrize(("size", "lines"), [(64 * MIB, 2048), (8 * MIB, 2048), (256 << 10, 1024)])
def test_a_chain_visits_each_of_its_lines_once_and_leaves_one_of_each_page(size: int, lines: int) -> None:
    # when
    order = chains.draw_order(size, lines, random.Random(3))
    # then
    assert len(set(order)) == len(order) == lines
    assert all(word % chains.LINE_WORDS == 0 and 0 < word < size // 8 for word in order)
    assert all(word % chains.PAGE_WORDS for word in order)
    # spread over all of the region
    assert min(order) < size // 8 // 100 and max(order) > size // 8 * 0.99


def test_a_healthy_card_passes_with_its_figures() -> None:
    seen = run(Card(plan()))
    assert judged(seen) == (Verdict.PASS, "", ())
    assert 350e-9 < value(seen, "latency.memory") < 450e-9
    assert value(seen, "latency.region_spread") < 0.01
    assert value(seen, "latency.pinned_share") == 1.0
    assert "simulated" in measurement(seen, "latency.false_alarm_rate").method


def test_a_slow_page_fails_in_two_allocations_and_no_chip_is_named() -> None:
    # when
    seen = run(Card(plan("slow_region")))
    verdict, _, findings = judged(seen)
    # then
    assert verdict is Verdict.FAIL
    assert [finding.code for finding in findings] == ["LAT-001", "LAT-002"]
    assert findings[1].fault == "slow_region"
    assert any("virtual region" in line and "ns" in line for line in findings[1].evidence)
    assert any("no place on a chip" in line for line in findings[1].evidence)
    assert value(seen, "latency.region_excess_confirmed") == pytest.approx(0.47, abs=0.03)
    assert any("moved with the pages" in note for note in seen.notes)


def test_fifteen_per_cent_is_a_warning() -> None:
    seen = run(Card(plan("healthy", SimFault("slow", page=3, factor=1.15))))
    verdict, _, findings = judged(seen)
    assert verdict is Verdict.WARN
    assert [finding.code for finding in findings] == ["LAT-001"]


def test_the_map_tells_each_region_with_its_address_and_time() -> None:
    seen = run(Card(plan("slow_region")))
    table = next(table for table in seen.tables if table.name == "region_map")
    names = [column.name for column in table.columns]
    late = [row for row in table.rows if float(str(row[names.index("excess")])) > 0.25]
    assert len(table.rows) == 64
    assert len(late) == 8, "the regions of one page of 2 MiB"
    assert len({row[names.index("address")] for row in table.rows}) == 64


def test_wrong_data_in_a_chain_fail_whatever_the_times_say() -> None:
    # given: every word of one channel reads as a constant
    seen = run(Card(plan("dead_channel", geometry="gddr6-128")))
    verdict, _, findings = judged(seen)
    # then
    assert verdict is Verdict.FAIL
    assert "LAT-003" in [finding.code for finding in findings]


@pytest.mark.parametrize("passes", [1, 3, 6])
def test_few_passes_give_no_verdict(passes: int) -> None:
    seen = run(Card(plan("slow_region")), Quiet(passes=passes))
    verdict, reason, findings = judged(seen)
    assert verdict is Verdict.UNKNOWN
    assert "too few passes" in reason
    assert {finding.severity for finding in findings} == {Severity.UNKNOWN}


def test_a_test_that_is_stopped_says_so_and_keeps_what_it_has() -> None:
    seen = run(Card(plan()), StopsAt("walking", times=8))
    verdict, reason, _ = judged(seen)
    assert (verdict, seen.partial) == (Verdict.UNKNOWN, "told to stop")
    assert reason.startswith("told to stop")
    assert value(seen, "latency.passes") == 8
    assert value(seen, "latency.memory") > 0


def test_a_test_that_is_stopped_at_once_has_nothing() -> None:
    seen = run(Card(plan()), Quiet(turns=0))
    assert isinstance(reading(seen, "latency.region_excess"), Absent)
    assert judged(seen).verdict is Verdict.UNKNOWN


def test_memory_is_given_back() -> None:
    device = Card(plan("slow_region"))
    before = device.memory().free
    run(device)
    assert device.memory().free == before


@pytest.fixture
def regions_and_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What neither map nor line test needs is left out where their verdicts are counted."""
    session = importlib.import_module("mats.probes._latency_session")
    absent = Absent(AbsenceKind.NOT_TESTED, "left out of this test")
    monkeypatch.setattr(session, "climb", lambda *_: absent)
    monkeypatch.setattr(session, "measure_transfers", lambda *_: absent)


@pytest.mark.slow
@pytest.mark.usefixtures("regions_and_lines_only")
@pytest.mark.parametrize("first", range(0, 360, 45))
def test_clean_cards_raise_no_alarm(first: int) -> None:
    shapes = ("gddr6-128", "gddr6-256", "gddr6-384", "hbm2-4", "hbm3-5", "hbm3-6")
    alarms = []
    for seed in range(first, first + 45):
        seen = run(Card(plan(seed=seed, geometry=shapes[seed % 6])), Quiet(seed=seed, passes=7))
        if judged(seen).verdict is not Verdict.PASS:
            alarms.append((seed, judged(seen)))
    assert alarms == []


@pytest.mark.slow
@pytest.mark.usefixtures("regions_and_lines_only")
@pytest.mark.parametrize(("factor", "verdict"), [(1.15, Verdict.WARN), (1.47, Verdict.FAIL)])
def test_a_slow_page_is_always_found(factor: float, verdict: Verdict) -> None:
    missed = []
    for seed in range(40):
        fault = SimFault("slow", page=seed % 8, factor=factor)
        seen = run(Card(plan("healthy", fault, seed=seed)), Quiet(seed=seed, passes=7))
        if judged(seen).verdict is not verdict:
            missed.append((seed, judged(seen)))
    assert missed == []
