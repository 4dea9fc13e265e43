"""Copies between a simulated card and its host, from the first byte to the verdict: speeds, link, data, absences."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from mats.device import DeviceError, DeviceLost, HostBuffer, HostLink, OutOfMemory
from mats.devices._plans import MIB, built_in
from mats.devices._sim_link import SimLink
from mats.devices.host import HostDevice
from mats.devices.sim import SimDevice
from mats.judge import Judgement, judge
from mats.model import Absent, Measurement, Observation, Quantity, Unit, Verdict
from mats.probes._latency_transfer import Transfers, measure_transfers
from mats.probes._latency_transfer_limits import TRANSFER_LIMITS
from mats.probes._latency_transfer_results import observe_transfers

UNHURRIED: Callable[[], str] = lambda: ""  # noqa: E731


class Card(SimDevice):
    """A simulated card whose link is given, and that may refuse host memory."""

    def __init__(self, link: SimLink | None = None, plan: str = "healthy", refuse: tuple[bool, ...] = ()) -> None:
        made = built_in(plan, capacity=16 * MIB)
        super().__init__(dataclasses.replace(made, link=link or made.link))
        self._refuse = refuse

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        if pinned in self._refuse:
            raise OutOfMemory("the host has none")
        return super().allocate_host(size, pinned=pinned)


def seen_on(device: SimDevice, stopping: Callable[[], str] = UNHURRIED) -> Transfers:
    try:
        seen = measure_transfers(device, stopping, lambda share, text: None)
        assert isinstance(seen, Transfers)
        assert device._held == {}
        return seen
    finally:
        device.close()


def reported(device: SimDevice) -> Observation:
    observed: Observation = observe_transfers(seen_on(device))
    return observed


def judged(report: Observation) -> Judgement:
    return judge(report, TRANSFER_LIMITS, "sim")


def named(report: Observation, name: str) -> list[Measurement]:
    return [one for one in report.measurements if one.name == name]


def values(report: Observation, name: str) -> list[float]:
    readings = [one.reading for one in named(report, name)]
    assert all(isinstance(reading, Quantity) for reading in readings), readings
    return [float(reading.value) for reading in readings if isinstance(reading, Quantity)]


def test_a_healthy_link_has_its_figures_and_no_finding() -> None:
    report = reported(Card())

    assert judged(report) == (Verdict.PASS, "", ())
    assert values(report, "latency.transfer_startup") == pytest.approx([5e-6] * 4, rel=0.05)
    speeds = [31.5e9 * 0.84, 31.5e9 * 0.84, 31.5e9 * 0.84 * 0.4, 31.5e9 * 0.84 * 0.4]
    assert values(report, "latency.transfer_bandwidth") == pytest.approx(speeds, rel=0.03)
    assert values(report, "latency.link_share") == pytest.approx([0.84, 0.84], rel=0.02)
    assert values(report, "latency.link_trained") == [1]
    assert (values(report, "latency.link_generation"), values(report, "latency.link_width")) == ([4], [16])
    assert report.diagnoses == ()
    (table,) = report.tables
    assert {row[0] for row in table.rows} == {
        "to device, pinned",
        "from device, pinned",
        "to device, pageable",
        "from device, pageable",
    }
    assert [row[1] for row in table.rows[:5]] == [4096, 16384, 65536, 262144, 1048576]


def test_an_idle_link_is_not_judged() -> None:
    seen = seen_on(Card())

    assert seen.load is not None
    assert (seen.idle.generation, seen.load.link.generation) == (Quantity(1, Unit.COUNT), Quantity(4, Unit.COUNT))


@pytest.mark.parametrize(
    ("link", "code", "verdict", "fault"),
    [
        (SimLink(reached_generation=1, reached_width=4), "LAT-020", Verdict.FAIL, "host_link_slow"),
        (SimLink(reached_width=8), "LAT-020", Verdict.FAIL, "host_link_slow"),
        (SimLink(payload=0.75), "LAT-021", Verdict.WARN, "host_link_slow"),
        (SimLink(payload=0.60), "LAT-022", Verdict.FAIL, "host_link_slow"),
        (SimLink(flips=4.0), "LAT-023", Verdict.FAIL, "host_link_corrupt"),
        (SimLink(replays=2e-4), "LAT-024", Verdict.WARN, "host_link_errors"),
        (SimLink(replays=0.01), "LAT-025", Verdict.FAIL, "host_link_errors"),
    ],
)
def test_what_is_wrong_with_a_link_is_found(link: SimLink, code: str, verdict: Verdict, fault: str) -> None:
    judgement = judged(reported(Card(link)))

    assert judgement.verdict is verdict
    (finding, *_) = [one for one in judgement.findings if one.code == code]
    assert finding.fault == fault
    assert finding.evidence


@pytest.mark.parametrize("link", [SimLink(payload=0.79), SimLink(generation=5, reached_generation=5, payload=0.88)])
def test_what_healthy_machines_show_is_no_finding(link: SimLink) -> None:
    assert judged(reported(Card(link))) == (Verdict.PASS, "", ())


def test_words_that_arrive_wrong_are_shown_with_their_place() -> None:
    seen = seen_on(Card(SimLink(flips=3.0)))

    assert len(seen.arrivals) == 4
    for arrival in seen.arrivals.values():
        assert not isinstance(arrival, Absent)
        assert arrival.words == MIB // 8
        assert 1 <= arrival.wrong <= 8
        assert all((one.sent ^ one.arrived).bit_count() == 1 and one.offset < MIB for one in arrival.first)


def test_a_slow_copy_from_memory_that_is_not_pinned_is_not_judged() -> None:
    assert judged(reported(Card(SimLink(unpinned=0.05)))) == (Verdict.PASS, "", ())


def test_without_pinned_memory_the_rest_is_measured() -> None:
    report = reported(Card(refuse=(True,)))

    pinned, pageable = named(report, "latency.transfer_bandwidth")[:2], named(report, "latency.transfer_bandwidth")[2:]
    assert all(isinstance(one.reading, Absent) and "the host has none" in one.reading.reason for one in pinned)
    assert all(isinstance(one.reading, Quantity) for one in pageable)
    assert all(isinstance(one.reading, Absent) for one in named(report, "latency.link_share"))
    assert values(report, "latency.link_trained") == [1]
    assert any("pinned" in note for note in report.notes)


def test_without_host_memory_each_figure_has_its_reason() -> None:
    report = reported(Card(refuse=(True, False)))

    (trained,) = named(report, "latency.link_trained")
    assert isinstance(trained.reading, Absent) and "host" in trained.reading.reason
    assert judged(report).verdict is not Verdict.FAIL


def test_a_host_has_no_link() -> None:
    device = HostDevice()

    seen = measure_transfers(device, UNHURRIED, lambda share, text: None)

    assert isinstance(seen, Absent)
    (only,) = observe_transfers(seen).measurements
    assert (only.name, only.reading) == ("latency.transfer_bandwidth", seen)


def test_a_device_without_free_memory_is_not_measured() -> None:
    device = Card()
    device.allocate(14 * MIB)

    seen = measure_transfers(device, UNHURRIED, lambda share, text: None)

    assert isinstance(seen, Absent) and "too little" in seen.reason
    report = observe_transfers(seen)
    assert {limit.measurement for limit in TRANSFER_LIMITS} <= {one.name for one in report.measurements}
    device.close()


@pytest.mark.parametrize("turns", [0, 1, 12, 16, 20])
def test_told_to_stop_it_keeps_what_it_has(turns: int) -> None:
    left = iter([""] * turns)
    seen = seen_on(Card(), lambda: next(left, "told to stop"))

    assert seen.partial == "told to stop"
    report = observe_transfers(seen)
    assert judged(report).verdict is not Verdict.FAIL
    absent = [one.reading for one in named(report, "latency.transfer_bandwidth") if isinstance(one.reading, Absent)]
    assert absent and all(reading.reason for reading in absent)


def test_the_progress_only_rises() -> None:
    told: list[float] = []
    device = Card()

    measure_transfers(device, UNHURRIED, lambda share, text: told.append(share))

    device.close()
    assert told == sorted(told)
    assert told[0] >= 0 and told[-1] < 1


def test_a_memory_that_is_wrong_itself_is_not_taken_for_the_link() -> None:
    class Leaky(Card):
        """Its kernels find every word wrong."""

        def launch(self, kernel: str, tiles: int, **arguments: object) -> float:
            seconds = super().launch(kernel, tiles, **arguments)  # type: ignore[arg-type]
            if kernel == "pattern_write":
                super().launch("inject", 1, data=arguments["data"], word=7, flips=1)  # type: ignore[arg-type]
            return seconds

    report = reported(Leaky())

    assert all(isinstance(one.reading, Absent) for one in named(report, "latency.transfer_mismatches"))


@pytest.mark.parametrize("error", [DeviceError("the driver refused"), DeviceLost("it has fallen off the bus")])
def test_an_error_gives_memory_back_and_only_a_loss_ends_the_probe(error: DeviceError) -> None:
    class Refusing(Card):
        """Its link is not told any more once copies run."""

        asked = 0

        def host_link(self) -> HostLink:
            self.asked += 1
            if self.asked > 1:
                raise error
            return super().host_link()

    device = Refusing()
    if isinstance(error, DeviceLost):
        with pytest.raises(DeviceLost):
            measure_transfers(device, UNHURRIED, lambda share, text: None)
    else:
        seen = measure_transfers(device, UNHURRIED, lambda share, text: None)
        assert isinstance(seen, Absent) and "the driver refused" in seen.reason
    assert device._held == {}
    device.close()
