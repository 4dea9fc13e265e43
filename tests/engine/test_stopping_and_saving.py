"""Time limits, stopping from outside, and what is on the disk meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from mats.device import Device
from mats.model import Observation, Run, TargetInfo, Verdict
from mats.probe import Context
from mats.saving import replace_file
from mats.slot import Terms
from mats.target import Target

from .bench import HOST_TARGET, Bench, verdicts
from .fakes import (
    BROKEN,
    CLEAN,
    FakeDevice,
    probe,
    target_info,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_probe_that_heeds_its_time_limit_is_unknown_with_what_it_saw(bench: Bench) -> None:
    def until_told(_device: Device, context: Context) -> Observation:
        while not context.stopping():
            time.sleep(0.005)
        return CLEAN

    (result,) = bench([probe(until_told)], terms=Terms(timeout=0.05)).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "the time limit of 0.05 s was reached")
    assert result.observation.measurements == CLEAN.measurements


def test_a_probe_that_never_ends_is_given_up_and_the_run_goes_on(bench: Bench) -> None:
    release = threading.Event()

    def hangs(_device: Device, context: Context) -> Observation:
        context.save(CLEAN)
        release.wait(20)
        return CLEAN

    bench.devices["cuda:0"] = FakeDevice(target_info("cuda:0", "cuda"))
    finished = bench(
        [probe(hangs, "one", kinds=("cuda",)), probe(CLEAN, "two")],
        [Target("cuda", "0"), HOST_TARGET],
        Terms(timeout=0.05),
        grace=0.05,
    )
    release.set()

    assert verdicts(finished) == {
        ("cuda:0", "one"): Verdict.UNKNOWN,
        ("cuda:0", "two"): Verdict.UNKNOWN,
        ("host", "one"): Verdict.UNKNOWN,
        ("host", "two"): Verdict.PASS,
    }
    assert "did not end" in finished.results[0].reason
    assert finished.results[0].observation.measurements == CLEAN.measurements
    assert "not run" in finished.results[1].reason
    given_up = bench.devices["cuda:0"]
    assert isinstance(given_up, FakeDevice) and given_up.closed >= 1


def test_the_first_stop_asks_and_what_remains_is_not_run(bench: Bench) -> None:
    def stops(_device: Device, context: Context) -> Observation:
        bench.stop.request("stopped by Ctrl-C")
        assert context.stopping() == "stopped by Ctrl-C"
        return CLEAN

    finished = bench([probe(stops, "one"), probe(CLEAN, "two")])

    assert [(result.verdict, result.reason) for result in finished.results] == [
        (Verdict.UNKNOWN, "stopped by Ctrl-C"),
        (Verdict.UNKNOWN, "not run: stopped by Ctrl-C"),
    ]
    assert finished.partial == "stopped by Ctrl-C"
    assert bench.saved[-1] == finished or bench.saved[-1].results == finished.results


def test_the_second_stop_does_not_wait(bench: Bench) -> None:
    release = threading.Event()

    def deaf(_device: Device, context: Context) -> Observation:
        context.save(BROKEN)
        bench.stop.request("stopped by Ctrl-C")
        bench.stop.request("stopped by Ctrl-C")
        release.wait(20)
        return CLEAN

    begun = time.monotonic()
    finished = bench([probe(deaf, "one"), probe(CLEAN, "two")])
    release.set()

    assert time.monotonic() - begun < 10
    assert verdicts(finished) == {("host", "one"): Verdict.FAIL, ("host", "two"): Verdict.UNKNOWN}
    assert bench.device.closed >= 1
    assert ("stopping", "stopped by Ctrl-C", "True") in bench.listener.heard


def test_a_device_that_never_opens_is_given_up(bench: Bench) -> None:
    release = threading.Event()

    class Stuck(FakeDevice):
        def describe(self) -> TargetInfo:
            release.wait(20)
            return self.info

    bench.devices["cuda:0"] = Stuck(target_info("cuda:0", "cuda"))
    finished = bench([probe(CLEAN)], [Target("cuda", "0"), HOST_TARGET], Terms(timeout=0.05), grace=0.05)
    release.set()

    assert verdicts(finished) == {("cuda:0", "fake"): Verdict.UNKNOWN, ("host", "fake"): Verdict.PASS}
    assert "opening the device took more than 0.1 s" in finished.results[0].reason


def test_the_run_is_saved_after_each_probe(bench: Bench) -> None:
    bench([probe(CLEAN, "one"), probe(CLEAN, "two")])

    assert [len(saved.results) for saved in bench.saved] == [1, 2, 2]
    assert [saved.partial for saved in bench.saved] == ["not finished", "not finished", ""]


def test_what_a_probe_keeps_is_saved_while_it_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mats.runner.SAVE_EVERY", 0.0)

    def keeps(_device: Device, context: Context) -> Observation:
        context.save(BROKEN)
        for _ in range(1000):
            if bench.saved:
                break
            time.sleep(0.01)
        return CLEAN

    bench([probe(keeps)])

    (interim,) = bench.saved[0].results
    assert interim.verdict is Verdict.FAIL
    assert interim.observation.partial.startswith("not finished")


def test_a_disk_that_refuses_is_said_once_and_the_run_goes_on(bench: Bench) -> None:
    def full(_saved: Run) -> None:
        raise OSError(28, "No space left on device")

    bench.save = full
    finished = bench([probe(CLEAN, "one"), probe(CLEAN, "two")])

    assert set(verdicts(finished).values()) == {Verdict.PASS}
    assert finished.notes == ("the run could not be saved: No space left on device",)


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("before")
    path.chmod(0o640)

    replace_file(path, "after")

    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("before")

    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "\ud800")

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
