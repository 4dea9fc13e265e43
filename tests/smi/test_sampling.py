"""Samples come at a steady pace, late ones are left out, and the end does not wait for a driver that hangs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from mats.cli._smi_sampling import Cost, Durations, Pace, Sample, Stream
from mats.device import DeviceError

from .planned import Clock, PlannedSampler, gpu, machine, sample

ONE = machine(gpu())


def take(stream: Stream, number: int) -> list[Sample]:
    found: list[Sample] = []
    while len(found) < number:
        got = stream.next(10)
        assert got is not None
        found.append(got)
    return found


def test_the_pace_is_that_of_the_first_sample_however_long_they_take() -> None:
    clock = Clock()
    pace = Pace(1.0, clock)

    waits = []
    for takes in (0.25, 0.75, 0.0, 0.5):
        wait, missed = pace.next()
        waits.append((wait, missed))
        clock.seconds += wait + takes

    assert waits == [(0.0, 0), (0.75, 0), (0.25, 0), (1.0, 0)]


@pytest.mark.parametrize(("takes", "missed", "wait"), [(1.5, 0, 0.0), (2.5, 1, 0.0), (10.25, 9, 0.0), (1.0, 0, 0.0)])
def test_moments_that_passed_meanwhile_are_left_out_and_not_made_up_for(takes: float, missed: int, wait: float) -> None:
    clock = Clock()
    pace = Pace(1.0, clock)
    pace.next()
    clock.seconds += takes

    assert pace.next() == (wait, missed)
    assert pace.next()[0] == pytest.approx(int(takes) + 1 - takes)


def test_a_slow_driver_is_asked_less_often_and_never_in_a_hurry() -> None:
    clock = Clock()
    sampler = PlannedSampler([ONE], clock, takes=0.3125)
    idle = threading.Event()

    def wait(seconds: float) -> bool:
        clock.seconds += seconds
        return idle.is_set()

    stream = Stream(sampler, 0.125, clock, wait)
    stream.start()
    taken = take(stream, 5)
    idle.set()
    stream.stop()

    begun = [(each.taken - taken[0].taken).total_seconds() for each in taken]
    assert begun == [0, 0.3125, 0.625, 0.9375, 1.25]
    assert [each.left_out for each in taken] == [0, 1, 2, 1, 2]
    assert {each.seconds for each in taken} == {0.3125}


def test_who_takes_samples_slowly_never_gets_old_ones() -> None:
    sampler = PlannedSampler([ONE])
    stream = Stream(sampler, 0.01, Clock(), lambda _seconds: False)
    stream.start()
    while sampler.asked < 2:
        time.sleep(0.01)

    time.sleep(0.3)

    assert sampler.asked == 2, "one that waits to be taken, and the next"
    stream.stop()


def test_what_sampling_raises_is_raised_to_who_asks() -> None:
    stream = Stream(PlannedSampler([ONE, DeviceError("the driver is gone")]), 0.01, Clock(), lambda _seconds: False)
    stream.start()

    assert stream.next(10) is not None
    with pytest.raises(DeviceError, match="the driver is gone"):
        stream.next(10)


def test_the_end_does_not_wait_for_a_call_that_hangs() -> None:
    stream = Stream(PlannedSampler([ONE], hangs_at=1), 1.0, Clock())
    stream.start()
    assert stream.next(0.05) is None

    started = time.monotonic()
    stream.stop()

    assert time.monotonic() - started < 5
    assert stream.next(0.05) is None


def test_a_sample_that_is_waited_for_is_told_of() -> None:
    class Moving(Clock):
        def monotonic(self) -> float:
            self.seconds += 0.5
            return self.seconds

    stream = Stream(PlannedSampler([ONE], hangs_at=1), 1.0, Moving())
    assert stream.waiting == 0.0
    stream.start()
    while stream.waiting == 0.0:
        time.sleep(0.01)

    first = stream.waiting

    assert stream.waiting > first > 0
    stream.stop()


def test_durations_tell_median_longest_and_what_was_left_out() -> None:
    durations = Durations()
    for seconds, left_out in ((0.1, 0), (0.3, 2), (0.2, 1)):
        durations.add(sample(ONE, seconds=seconds, left_out=left_out))

    assert (durations.median, durations.longest, durations.left_out) == (0.2, 0.3, 3)
    assert Durations().median == 0.0


def test_the_cost_holds_the_process_that_asks_the_driver(tmp_path: Path) -> None:
    clock = Clock()
    cost = Cost(tmp_path, clock)
    stat = tmp_path / "proc/77/stat"
    stat.parent.mkdir(parents=True)
    fields = ["0"] * 50
    fields[11], fields[12] = "150", "50"  # of the line after the name: user and system time, in ticks
    stat.write_text(f"77 (a ) name) {' '.join(fields)}\n")
    clock.seconds = 4.0

    seconds, share = cost.spent(77)

    assert 2.0 <= seconds < 3.0
    assert share == pytest.approx(seconds / 4)
    stat.unlink()
    assert cost.spent(77)[0] >= seconds, "what an ended process has taken stays counted"


def test_the_cost_is_that_of_the_last_seconds() -> None:
    clock = Clock()
    cost = Cost(Path("/nowhere"), clock)
    ended = time.process_time() + 0.1
    while time.process_time() < ended:
        pass
    clock.seconds = 1.0
    busy = cost.spent(None)[1]
    for second in range(2, 40):
        clock.seconds = float(second)
        share = cost.spent(None)[1]

    assert busy >= 0.1
    assert share < busy / 2


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_the_cost_of_a_real_process_is_read() -> None:
    seconds, _share = Cost(Path("/"), Clock()).spent(os.getpid())

    assert seconds >= 0
