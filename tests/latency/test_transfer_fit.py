"""Start and speed from sizes and times, and what a link should carry: pure functions, tried on both sides."""

from __future__ import annotations

import dataclasses
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from mats.device import PCIE, HostLink
from mats.facts.pci import link_by_generation
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.probes._latency_transfer_fit import (
    Fit,
    carried,
    fastest,
    fit,
    grown,
    share_of_link,
    share_of_possible,
)

GONE = Absent(AbsenceKind.NOT_FOUND, "not told")
SIZES = tuple(4096 * 4**step for step in range(10))


def count(number: int) -> Quantity:
    return Quantity(number, Unit.COUNT)


def bandwidth(generation: int, width: int) -> Reading:
    return link_by_generation(count(generation), count(width)).bandwidth


def link(generation: int = 4, width: int = 16, best: tuple[int, int] = (4, 16), **more: Any) -> HostLink:
    made = HostLink(
        PCIE,
        count(generation),
        count(width),
        count(best[0]),
        count(best[1]),
        bandwidth(generation, width),
        bandwidth(*best),
    )
    return dataclasses.replace(made, **more)


def curve(startup: float, speed: float, noise: float = 0.0, seed: int = 1) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    return [(size, (startup + size / speed) * draw.uniform(1 - noise, 1 + noise)) for size in SIZES]


def found(line: Fit | Absent) -> Fit:
    assert isinstance(line, Fit), line
    return line


@pytest.mark.parametrize(("startup", "speed"), [(2e-6, 55e9), (8e-6, 12e9), (20e-6, 0.8e9)])
def test_a_line_is_found_again(startup: float, speed: float) -> None:
    line = found(fit(curve(startup, speed, noise=0.02)))

    assert line.startup == pytest.approx(startup, rel=0.05)
    assert line.bandwidth == pytest.approx(speed, rel=0.03)
    assert line.half_size == pytest.approx(startup * speed, rel=0.07)
    assert line.worst < 0.05


@pytest.mark.parametrize("disturbed", range(len(SIZES)))
def test_one_disturbed_size_does_not_move_the_line(disturbed: int) -> None:
    points = curve(6e-6, 25e9)
    points[disturbed] = (points[disturbed][0], 3 * points[disturbed][1])

    line = found(fit(points))

    assert line.startup == pytest.approx(6e-6, rel=0.1)
    assert line.bandwidth == pytest.approx(25e9, rel=0.05)
    assert line.worst > 0.5


def test_a_start_is_never_negative() -> None:
    points = [(size, size / 1e9 * (0.8 if size < 10_000 else 1.0)) for size in SIZES]

    line = found(fit(points))

    assert line.startup == 0
    assert line.bandwidth == pytest.approx(1e9, rel=0.01)


@pytest.mark.parametrize(
    "points", [[], [(4096, 1e-6)], [(4096, 1e-6), (8192, 2e-6)], [(4096, 1e-6), (5000, 2e-6), (6000, 3e-6)]]
)
def test_too_few_or_too_alike_sizes_give_no_line(points: list[tuple[float, float]]) -> None:
    line = fit(points)

    assert isinstance(line, Absent)
    assert line.kind is AbsenceKind.INSUFFICIENT


def test_times_that_do_not_rise_give_no_line() -> None:
    assert isinstance(fit([(size, 1e-3 / size) for size in SIZES]), Absent)


def test_the_speed_of_the_largest_copy_is_without_its_start() -> None:
    points = curve(6e-6, 25e9)

    assert carried(points[:3], found(fit(points))) == pytest.approx(25e9, rel=0.01)


def test_a_real_curve_of_a_v100_gives_its_link_and_its_start() -> None:
    folder = os.environ.get("MATS_CASES")
    if not folder:
        pytest.skip("MATS_CASES is not set: the curve of a real machine is not checked")
    text = (Path(folder) / "links" / "bandwidthTest_shmoo_v100.txt").read_text()
    told = re.findall(r"Bandwidth = ([\d.]+) GB/s, .*Size = (\d+) bytes", text)
    points = [(float(size), float(size) / (float(speed) * 1e9)) for speed, size in told]

    line = found(fit(points))

    assert len(points) == 81
    assert 11.5e9 < line.bandwidth < 12.8e9
    assert 2e-6 < line.startup < 4e-6
    share = share_of_link(carried(points, line), link(3, 16, (3, 16)), 0.78)
    assert isinstance(share, Quantity) and 0.78 < share.value < 0.80


# ---- what a link should carry ----


@pytest.mark.parametrize(
    ("speed", "state", "share"),
    [
        (12.4e9, (3, 16), 0.787),
        (26.2e9, (4, 16), 0.832),
        (55.3e9, (5, 16), 0.878),
        (6.6e9, (4, 4), 0.838),
        (20e9, (4, 16), 0.635),
    ],
)
def test_a_share_is_of_the_link_as_it_runs(speed: float, state: tuple[int, int], share: float) -> None:
    reading = share_of_link(speed, link(*state, best=(5, 16)), 0.78)

    assert isinstance(reading, Quantity)
    assert reading.value == pytest.approx(share, abs=0.001)


def test_another_way_than_pcie_is_not_judged_by_it() -> None:
    other = link(kind="NVLink-C2C")

    for reading in (share_of_link(369e9, other, 0.78), share_of_possible(other)):
        assert isinstance(reading, Absent)
        assert "NVLink-C2C" in reading.reason


def test_more_than_the_link_can_carry_means_another_way() -> None:
    reading = share_of_link(369e9, link(5, 16), 0.78)

    assert isinstance(reading, Absent)
    assert "not the way of the data" in reading.reason


@pytest.mark.parametrize(("speed", "known"), [(26e9, True), (12e9, False)])
def test_a_way_that_is_not_seen_whole_excuses_a_slow_copy(speed: float, known: bool) -> None:
    reading = share_of_link(speed, link(unseen="no port above is shown"), 0.78)

    assert isinstance(reading, Quantity) is known


def test_a_link_that_is_not_told_has_no_share() -> None:
    assert share_of_link(12e9, link(bandwidth=GONE), 0.78) == GONE
    assert share_of_possible(link(bandwidth=GONE)) == GONE
    assert share_of_possible(link(bandwidth_maximum=GONE)) == GONE


@pytest.mark.parametrize(
    ("now", "best", "share"), [((4, 16), (4, 16), 1.0), ((4, 8), (4, 16), 0.5), ((1, 4), (4, 16), 0.0317)]
)
def test_what_is_reached_is_compared_with_what_is_possible(
    now: tuple[int, int], best: tuple[int, int], share: float
) -> None:
    reading = share_of_possible(link(*now, best=best))

    assert isinstance(reading, Quantity)
    assert reading.value == pytest.approx(share, abs=0.001)


def test_the_fastest_reading_counts() -> None:
    assert fastest([link(1), link(4), link(2)]) == link(4)
    assert fastest([link(bandwidth=GONE)]) == link(bandwidth=GONE)
    assert fastest([]) is None


@pytest.mark.parametrize(("before", "after", "more"), [(3, 10, 7), (0, 0, 0), (9, 2, None)])
def test_counters_are_compared(before: int, after: int, more: int | None) -> None:
    first = link(counters=(("pcie.replays", count(before)),))
    last = link(counters=(("pcie.replays", count(after)),))

    reading = grown(first, last, "pcie.replays")

    assert reading == count(more) if more is not None else isinstance(reading, Absent)
    assert isinstance(grown(first, last, "aer.fatal"), Absent)
