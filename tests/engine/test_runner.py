"""A run keeps what was measured: failing probes, several devices, guests, saved runs."""

from __future__ import annotations

import threading
import time

import pytest

from mats.device import Device, DeviceError, DeviceLost, HeldBy, OutOfMemory
from mats.limits import Override
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, TargetInfo, Unit, Verdict
from mats.probe import Context, Option, OptionKind, UsageError
from mats.runner import phases
from mats.slot import Terms
from mats.target import Target

from .bench import HOST_TARGET, Bench, verdicts
from .fakes import (
    BROKEN,
    CLEAN,
    FakeDevice,
    RecordedDevice,
    count,
    probe,
    seen,
    target_info,
)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_each_probe_is_judged_and_the_device_closed(bench: Bench) -> None:
    finished = bench([probe(CLEAN, "one"), probe(BROKEN, "two")])

    assert verdicts(finished) == {("host", "one"): Verdict.PASS, ("host", "two"): Verdict.FAIL}
    assert finished.targets == (bench.device.info,)
    assert finished.partial == ""
    assert bench.device.closed == 2  # after each probe, so that its memory is there for the next


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DeviceError("the launch failed"), "the launch failed"),
        (OutOfMemory("no memory is left"), "no memory is left"),
        (UsageError("--size is above the memory"), "--size is above the memory"),
        (KeyError("x"), "KeyError: 'x'"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_a_failing_probe_ends_as_error_and_the_next_one_runs(bench: Bench, error: BaseException, reason: str) -> None:
    def fails(_device: Device, _context: Context) -> Observation:
        raise error

    finished = bench([probe(fails, "one"), probe(CLEAN, "two")])

    assert verdicts(finished) == {("host", "one"): Verdict.ERROR, ("host", "two"): Verdict.PASS}
    assert finished.results[0].reason == reason
    assert bench.device.closed == 2
    unforeseen = [heard for heard in bench.listener.heard if heard[0] == "crashed"]
    assert bool(unforeseen) is (not isinstance(error, DeviceError | UsageError))


def test_what_a_failing_probe_saved_is_kept_and_judged(bench: Bench) -> None:
    def saves_then_fails(_device: Device, context: Context) -> Observation:
        context.save(BROKEN)
        raise DeviceError("the launch failed")

    (result,) = bench([probe(saves_then_fails)]).results

    assert result.verdict is Verdict.FAIL
    assert result.observation.partial == "the launch failed"
    assert len(result.findings) == 1


def test_a_lost_device_is_opened_again_for_the_next_probe(bench: Bench) -> None:
    def loses(_device: Device, _context: Context) -> Observation:
        raise DeviceLost("it fell off the bus")

    finished = bench([probe(loses, "one"), probe(CLEAN, "two")])

    assert verdicts(finished) == {("host", "one"): Verdict.ERROR, ("host", "two"): Verdict.PASS}
    assert bench.device.closed == 2


def test_a_target_that_cannot_be_opened_is_unknown_with_the_reason(bench: Bench) -> None:
    bench.devices["cuda:0"] = DeviceError("the driver is too old")

    finished = bench([probe(CLEAN)], [Target("cuda", "0"), HOST_TARGET])

    assert verdicts(finished) == {("cuda:0", "fake"): Verdict.UNKNOWN, ("host", "fake"): Verdict.PASS}
    assert finished.results[0].reason == "the driver is too old"
    assert isinstance(finished.targets[0].memory_total, Absent)


def test_a_target_that_does_not_exist_is_an_error(bench: Bench) -> None:
    bench.devices["sim:nosuch"] = UsageError("there is no plan nosuch")

    (result,) = bench([probe(CLEAN)], [Target("sim", "nosuch")]).results

    assert (result.verdict, result.reason) == (Verdict.ERROR, "there is no plan nosuch")


def test_cuda_devices_run_at_the_same_moment(bench: Bench) -> None:
    together = threading.Barrier(2, timeout=20)

    def meets(_device: Device, _context: Context) -> Observation:
        together.wait()
        return CLEAN

    for index in "01":
        bench.devices[f"cuda:{index}"] = FakeDevice(target_info(f"cuda:{index}", "cuda", f"GPU-{index}"))
    finished = bench([probe(meets)], [Target("cuda", "0"), Target("cuda", "1")])

    assert set(verdicts(finished).values()) == {Verdict.PASS}
    assert [result.target for result in finished.results] == ["cuda:0", "cuda:1"]
    assert bench.listener.threads == {threading.current_thread().name}


def test_everything_but_cuda_runs_in_turn_after_it() -> None:
    cuda, other, host, sim = Target("cuda", "0"), Target("cuda", "1"), HOST_TARGET, Target("sim", "x")

    assert phases([host, cuda, sim, other]) == (((cuda,), (other,)), ((host, sim),))


def test_one_gpu_named_twice_is_tested_once(bench: Bench) -> None:
    for name in ("cuda:0", "cuda:GPU-a"):
        bench.devices[name] = FakeDevice(target_info("cuda:0", "cuda", "GPU-a"))

    finished = bench([probe(CLEAN)], [Target("cuda", "0"), Target("cuda", "GPU-a")])

    assert len(finished.results) == 1
    assert "is the same device as" in finished.notes[0]


HOLDER = HeldBy(4711, "python", Absent(AbsenceKind.NOT_SUPPORTED, "not told"))


def test_an_exclusive_probe_does_not_disturb_running_work(bench: Bench) -> None:
    bench.device.held = (HOLDER,)

    finished = bench([probe(CLEAN, "alone", exclusive=True), probe(CLEAN, "guest")])

    assert verdicts(finished) == {("host", "alone"): Verdict.UNKNOWN, ("host", "guest"): Verdict.PASS}
    assert finished.results[0].reason == (
        "host is in use by python (pid 4711): alone needs it to itself; end them or add --force"
    )


def test_a_desktop_that_only_draws_does_not_stop_a_test(bench: Bench) -> None:
    bench.device.held = (HeldBy(99, "Xorg", HOLDER.memory, draws_only=True),)

    finished = bench([probe(CLEAN, exclusive=True)])

    assert finished.results[0].verdict is Verdict.PASS
    assert finished.notes == ("host also drew for Xorg (pid 99): times may be unsteady",)


def test_force_goes_ahead(bench: Bench) -> None:
    bench.device.held = (HOLDER,)

    finished = bench([probe(CLEAN, exclusive=True)], terms=Terms(force=True))

    assert finished.results[0].verdict is Verdict.PASS
    assert finished.notes == ("host was in use by python (pid 4711) while fake ran (--force)",)


def test_holders_that_cannot_be_listed_are_noted(bench: Bench) -> None:
    bench.device.held = "no permission to see other processes"

    finished = bench([probe(CLEAN, exclusive=True)])

    assert finished.results[0].verdict is Verdict.PASS
    assert finished.notes == ("host: other processes could not be listed: no permission to see other processes",)


def test_a_probe_asked_for_on_a_target_it_does_not_work_on_is_unknown(bench: Bench) -> None:
    (result,) = bench([probe(CLEAN, "link", kinds=("cuda",))]).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "link works on cuda, not on host")


def test_a_probe_that_was_not_asked_for_is_passed_over(bench: Bench) -> None:
    assert bench([probe(CLEAN, "link", kinds=("cuda",))], asked=False).results == ()


def test_overrides_are_judged_by_and_kept_in_the_result(bench: Bench) -> None:
    (result,) = bench([probe(BROKEN)], terms=Terms(overrides=(Override("FAKE-001", count(9), None, "", "x"),))).results

    assert result.verdict is Verdict.PASS
    assert result.limits[0].overridden


def test_a_saved_run_answers_instead_of_a_measurement(bench: Bench) -> None:
    def refuses(_device: Device, _context: Context) -> Observation:
        raise AssertionError("a replay does not measure")

    recorded = bench([probe(BROKEN)]).results
    info = TargetInfo("cuda:0", "replay", "a recorded GPU", seen_memory(), seen_memory(), seen_memory(), "")
    bench.devices["file:run.json"] = RecordedDevice(info, results=recorded)

    finished = bench([probe(refuses), probe(refuses, "other")], [Target("file", "run.json")])

    assert verdicts(finished) == {("file:run.json", "fake"): Verdict.FAIL, ("file:run.json", "other"): Verdict.UNKNOWN}
    assert finished.results[0].started == recorded[0].started
    assert finished.targets[0].name == "file:run.json"


def seen_memory() -> Absent:
    return Absent(AbsenceKind.NOT_FOUND, "not recorded")


RESUME = Option("resume", OptionKind.RUN_IN, "Go on with a saved run.")


def test_a_saved_run_gives_the_probe_its_own_result(bench: Bench) -> None:
    before = bench([probe(BROKEN)])

    def resumes(_device: Device, context: Context) -> Observation:
        assert context.resumed is not None and context.options["resume"] is context.resumed
        return context.resumed.observation

    (result,) = bench([probe(resumes, options=(RESUME,))], options={"resume": before}).results

    assert result.verdict is Verdict.FAIL


def test_a_saved_run_without_the_probe_is_said(bench: Bench) -> None:
    before = bench([probe(CLEAN, "other")])

    (result,) = bench([probe(CLEAN, options=(RESUME,))], options={"resume": before}).results

    assert (result.verdict, result.reason) == (
        Verdict.ERROR,
        "--resume: the saved run holds no result of fake for host",
    )


def test_two_units_in_one_probe_are_an_error_of_the_tool(bench: Bench) -> None:
    wrong = Observation((Measurement("fake.errors", Quantity(1, Unit.SECOND)),))

    (result,) = bench([probe(wrong)]).results

    assert result.verdict is Verdict.ERROR
    assert "cannot compare" in result.reason


def test_progress_reaches_the_listener(bench: Bench) -> None:
    def shows(_device: Device, context: Context) -> Observation:
        context.progress(1, 4, "pass 1")
        time.sleep(0.2)
        return CLEAN

    bench([probe(shows)])

    assert ("progressed", "host", "fake", "1/4", "pass 1") in bench.listener.heard


def test_no_reading_is_ever_invented(bench: Bench) -> None:
    (result,) = bench([probe(Observation((seen(Absent(AbsenceKind.TIMED_OUT, "no answer")),)))]).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "nothing was measured: no answer")


def test_all_of_a_saved_run_is_what_it_holds(bench: Bench) -> None:
    recorded = bench([probe(BROKEN)]).results
    info = TargetInfo("cuda:0", "replay", "a recorded GPU", seen_memory(), seen_memory(), seen_memory(), "")
    bench.devices["file:run.json"] = RecordedDevice(info, results=recorded)

    finished = bench([probe(CLEAN), probe(CLEAN, "other")], [Target("file", "run.json")], asked=False)

    assert verdicts(finished) == {("file:run.json", "fake"): Verdict.FAIL}
