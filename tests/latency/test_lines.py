"""A slow channel shows as a share of all lines: the statistics on simulated worlds, and the whole way to a verdict."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mats.devices._plans import MIB, SimFault
from mats.devices.sim import SimDevice
from mats.model import AbsenceKind, Absent, Observation, Quantity, Unit, Verdict

from .bench import Card, Quiet, StopsAt, judged, measurement, plan, reading, run, value

hops = importlib.import_module("mats.probes._latency_hops")
lines = importlib.import_module("mats.probes._latency_lines")
results = importlib.import_module("mats.probes._latency_line_results")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "latency_rates.py"


@pytest.fixture(scope="module")
def rates() -> ModuleType:
    """The simulated worlds of the benchmark."""
    spec = importlib.util.spec_from_file_location("latency_rates", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(region: int, part: float, hit: int = 300) -> Any:
    """A line of which the memory takes ``part`` ticks; one of its five times from the memory was disturbed."""
    cold = hit + int(part)
    return hops.Line(region, (cold + 9, cold + 200, cold, cold + 4, cold + 7), (hit - 3, hit, hit + 50, hit, hit + 1))


def made(part: Callable[[int], float], count: int = 4096) -> list[Any]:
    """Lines of 64 regions, two of three of them in the farther half of a cache."""
    return [line(index % 64, part(index), 230 + 110 * (index % 3 > 0)) for index in range(count)]


def even(index: int) -> float:
    return 330 + index % 7


@pytest.mark.parametrize("channels", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("slower", [1.2, 1.47])
def test_one_slow_channel_of_many_is_found_with_its_share(rates: ModuleType, channels: int, slower: float) -> None:
    shares = rates.shares(2, channels, slower, seed=channels)
    assert len(shares) == 2
    assert all(share == pytest.approx(1 / channels, abs=0.02) for share in shares)
    assert all(share > lines_bound() for share in shares)


def test_clean_worlds_have_no_slow_share(rates: ModuleType) -> None:
    shares = [share for channels in (4, 64) for share in rates.shares(8, channels, 1.0, seed=channels)]
    assert len(shares) == 16
    assert max(shares) < lines_bound() / 4


def lines_bound() -> float:
    limits = importlib.import_module("mats.probes._latency_limits")
    return float(limits.bound_of("latency.slow_line_share"))


def test_what_the_cache_costs_and_single_disturbed_loads_are_taken_off() -> None:
    found = lines.classify(made(even))
    assert found.usual == pytest.approx(333)
    assert (found.share, found.factor, found.touched) == (0.0, 1.0, 0)


def test_slow_lines_are_counted_with_their_factor_and_their_regions() -> None:
    # when: every 16th line, in whatever region, takes 1.8 times as long
    found = lines.classify(made(lambda index: 594 if (index + index // 64) % 16 == 3 else 330))
    # then
    assert found.share == pytest.approx(1 / 16, abs=0.005)
    assert found.factor == pytest.approx(1.8)
    assert results.describe(found).startswith("6.2% of the sampled lines need 1.8x the usual time of the memory")
    assert "consistent with one slow channel out of 16" in results.describe(found)


@pytest.mark.parametrize("relative", [1.0, 1.2])
def test_what_is_not_a_quarter_longer_is_not_slow(relative: float) -> None:
    assert lines.classify(made(lambda index: 330 * (relative if index % 8 == 0 else 1))).share == 0.0


def test_slow_lines_of_few_regions_are_no_channel() -> None:
    found = lines.classify(made(lambda index: 600 if index % 64 < 3 else 330))
    assert not found.is_spread
    assert "no channel explains them" in results.describe(found)


def test_half_of_the_lines_longer_is_how_a_cache_is_made_and_not_a_slow_channel() -> None:
    """A first load from the far half of a cache crosses over, a second one may be answered on the near side."""
    # given: half of the lines need 1.4 times as long, and of those every 16th is late on top
    halves = made(lambda index: (330, 462)[index % 2] * (1.5 if index % 32 == 1 else 1))
    # when
    found = lines.classify(halves)
    # then
    assert found.longer_half == pytest.approx(0.5, abs=0.02)
    assert found.share == pytest.approx(1 / 32, abs=0.005)


def absent_reason(given: list[Any]) -> str:
    found = lines.classify(given)
    assert isinstance(found, Absent)
    return found.reason


def test_a_clock_of_coarse_steps_tells_no_lines_apart() -> None:
    def stepped(one: Any) -> Any:
        up = [tuple(round(time / 25) * 25 + (time & 1) for time in times) for times in (one.cold, one.hit)]
        return hops.Line(one.region, *up)

    assert "the clock is too coarse" in absent_reason([stepped(one) for one in made(even)])


def test_a_fine_clock_has_steps_of_one() -> None:
    assert lines.clock_step(made(even)) == 1


def test_times_that_scatter_tell_no_lines_apart() -> None:
    draw = random.Random(1)
    assert "scatter by" in absent_reason(made(lambda _: draw.gauss(330, 60)))


def test_a_cache_that_was_not_passed_tells_nothing() -> None:
    assert "takes no longer" in absent_reason(made(lambda _: 0))


def test_few_lines_are_too_few() -> None:
    assert "999 lines were timed" in absent_reason(made(even, 999))


@pytest.mark.parametrize(("share", "expected"), [(0.25, 4), (0.0625, 16), (1 / 96, 96)])
def test_a_share_stands_for_channels_within_its_error(share: float, expected: int) -> None:
    likely, fewest, most = lines.channels(share, 4096)
    assert likely == expected
    assert fewest <= expected <= most


@pytest.mark.parametrize("geometry", ["gddr6-128", "hbm3-6"])
def test_a_slow_channel_fails_in_two_allocations(geometry: str) -> None:
    # when
    seen = run(Card(plan("slow_channel", geometry=geometry)), Quiet(passes=7))
    verdict, _, findings = judged(seen)
    # then
    assert verdict is Verdict.FAIL
    assert [finding.code for finding in findings] == ["LAT-011", "LAT-012"]
    assert {finding.fault for finding in findings} == {"slow_channel"}
    share = {"gddr6-128": 1 / 8, "hbm3-6": 1 / 96}[geometry]
    assert value(seen, "latency.slow_line_share") == pytest.approx(share, abs=0.02)
    assert any("consistent with one slow channel out of" in text for text in findings[0].evidence)
    assert value(seen, "latency.region_excess") == 0.0, "no region of it stands out"


def test_twenty_per_cent_of_one_channel_are_found_on_the_device() -> None:
    (fault,) = plan("slow_channel", geometry="gddr6-256").faults
    card = Card(plan("healthy", dataclasses.replace(fault, factor=1.2), geometry="gddr6-256"))
    seen = run(card, Quiet(passes=7))
    assert judged(seen).verdict is Verdict.FAIL
    assert value(seen, "latency.slow_line_share") == pytest.approx(1 / 16, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", ["gddr6-128", "gddr6-256", "gddr6-384", "hbm2-4", "hbm3-5", "hbm3-6"])
def test_a_channel_that_is_a_fifth_slower_is_always_found(geometry: str) -> None:
    missed = []
    for seed in range(2):
        broken = plan("slow_channel", geometry=geometry, seed=seed)
        card = dataclasses.replace(broken, faults=(dataclasses.replace(broken.faults[0], factor=1.2),))
        seen = run(Card(card), Quiet(seed=seed, passes=7))
        off = value(seen, "latency.slow_line_share") - 1 / broken.geometry.channels
        if judged(seen).verdict is not Verdict.FAIL or abs(off) > 0.02:
            missed.append((seed, off, judged(seen)))
    assert missed == []


def test_lines_of_a_slow_region_are_left_to_the_map() -> None:
    seen = run(Card(plan("slow_region")), Quiet(passes=7))
    assert value(seen, "latency.slow_line_share") == 0.0
    assert any("left out of the line test" in note for note in seen.notes)


def test_both_faults_at_once_are_both_found() -> None:
    # given
    faults = (*plan("slow_channel", geometry="gddr6-128").faults, SimFault("slow", page=3, factor=1.47))
    # when
    _, _, findings = judged(run(Card(plan("healthy", *faults, geometry="gddr6-128")), Quiet(passes=7)))
    # then
    assert [finding.code for finding in findings] == ["LAT-001", "LAT-002", "LAT-011", "LAT-012"]


class Healed(Card):
    """A card of which nothing is slow any more once its memory was given back."""

    def free(self, buffer: Any) -> None:
        super().free(buffer)
        if buffer.size >= 2 * MIB:
            self._plan = dataclasses.replace(self._plan, faults=())
            if not self._held_pages():
                self._model = self._create()

    def _held_pages(self) -> bool:
        return any(slots for _, slots in self._held.values())


def test_a_share_that_a_second_allocation_does_not_show_is_a_warning() -> None:
    seen = run(Healed(plan("slow_channel", geometry="gddr6-128")), Quiet(passes=7))
    verdict, _, findings = judged(seen)
    assert (verdict, [finding.code for finding in findings]) == (Verdict.WARN, ["LAT-011"])
    assert value(seen, "latency.slow_line_factor_confirmed") == 1.0
    assert any("not confirmed" in note for note in seen.notes)


def test_a_test_that_is_stopped_at_its_lines_is_unknown() -> None:
    seen = run(Card(plan("slow_channel")), StopsAt("timing single lines", passes=7))
    assert reading(seen, "latency.slow_line_share") == Absent(AbsenceKind.NOT_TESTED, "told to stop")
    assert reading(seen, "latency.ladder") == Absent(AbsenceKind.NOT_TESTED, "told to stop")
    assert seen.partial == "told to stop"
    assert judged(seen).verdict is Verdict.UNKNOWN


def test_a_test_that_is_stopped_on_the_ladder_keeps_what_was_found() -> None:
    seen = run(Card(plan("slow_channel")), StopsAt("climbing", passes=7))
    assert reading(seen, "latency.ladder") == Absent(AbsenceKind.NOT_TESTED, "told to stop")
    assert seen.partial == "told to stop"
    assert judged(seen).verdict is Verdict.FAIL


def test_lines_that_no_block_was_pinned_for_are_left_out() -> None:
    """Of a walk that found no block on the multiprocessor there are no times."""

    class Elsewhere(SimDevice):
        def launch(self, kernel: str, tiles: int, **arguments: Any) -> float:
            if kernel == "time_hops":
                arguments["unit"] = 99
            return super().launch(kernel, tiles, **arguments)

    seen = run(Elsewhere(plan("slow_channel")), Quiet(passes=7))
    assert "0 lines were timed" in str(reading(seen, "latency.slow_line_share"))
    assert judged(seen).verdict is Verdict.UNKNOWN


def with_readings(seen: Observation, **changed: float) -> Observation:
    """What was seen with other figures of the line test."""
    names = {f"latency.{name}": figure for name, figure in changed.items()}
    return dataclasses.replace(
        seen,
        measurements=tuple(
            dataclasses.replace(one, reading=Quantity(names[one.name], Unit.RATIO)) if one.name in names else one
            for one in seen.measurements
        ),
    )


@pytest.fixture(scope="module")
def healthy() -> Observation:
    return run(Card(plan()), Quiet(passes=7))


def test_a_host_is_never_failed_for_its_lines(healthy: Observation) -> None:
    seen = with_readings(healthy, slow_line_share=0.25, slow_line_factor_confirmed=1.9)
    verdict, _, findings = judged(seen, "host")
    assert verdict is not Verdict.FAIL
    assert "LAT-013" in [finding.code for finding in findings]


def test_the_histogram_has_every_line(healthy: Observation) -> None:
    table = next(table for table in healthy.tables if table.name == "lines")
    assert sum(int(str(row[1])) for row in table.rows) == 4096
    assert measurement(healthy, "latency.slow_line_share").samples
