"""Passive probes in the runner: once, before all others, on a source instead of a device."""

from __future__ import annotations

import threading
import time

import pytest

from mats.device import DeviceError
from mats.facts import GpuFacts, MachineFacts
from mats.model import Observation, TargetInfo, Verdict
from mats.probe import Context, Option, OptionKind, Probe, UsageError
from mats.slot import Terms
from mats.source import NothingThere, Source, SourceError
from mats.target import Target, evidence

from .bench import Bench, verdicts
from .fakes import ABSENT, BROKEN, CLEAN, FakeDevice, FakeSource, RecordedDevice, probe, seen, target_info

ALL_GPUS = Target("cuda", "all")
NO_GPU = "there is no NVIDIA GPU in this machine"


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.sources["cuda:all"] = FakeSource(facts=MachineFacts(gpus=(GpuFacts(), GpuFacts())))
    return bench


def counting_gpus(source: Source, _context: Context) -> Observation:
    gpus = source.read().gpus
    assert isinstance(gpus, tuple)
    return Observation(tuple(seen(0, labels=(("gpu", str(index)),)) for index in range(len(gpus))))


HEALTH = probe(counting_gpus, "health", kinds=("cuda", "sim", "file"), passive=True)
STRESS = probe(CLEAN, "stress", kinds=("cuda", "host", "sim"))


def test_a_passive_probe_reads_its_source_once_for_all_gpus(bench: Bench) -> None:
    bench.devices |= {f"cuda:{index}": FakeDevice(target_info(f"cuda:{index}", "cuda")) for index in range(2)}

    finished = bench([HEALTH, STRESS], [Target("cuda", "0"), Target("cuda", "1")], sources=[ALL_GPUS])

    assert [(result.target, result.probe) for result in finished.results] == [
        ("cuda:all", "health"),
        ("cuda:0", "stress"),
        ("cuda:1", "stress"),
    ]
    assert [measurement.labels for measurement in finished.results[0].observation.measurements] == [
        (("gpu", "0"),),
        (("gpu", "1"),),
    ]
    assert [info.name for info in finished.targets] == ["cuda:all", "cuda:0", "cuda:1"]
    source = bench.sources["cuda:all"]
    assert isinstance(source, FakeSource) and (source.loads, source.closed) == ([False], 1)


def test_passive_probes_end_before_a_device_is_opened(bench: Bench) -> None:
    def looks(_source: Source, _context: Context) -> Observation:
        time.sleep(0.1)
        return CLEAN

    bench([probe(looks, "health", passive=True, kinds=("cuda",)), STRESS], sources=[ALL_GPUS])

    told = [words for words in bench.listener.heard if words[0] in ("started", "finished")]
    assert [words[:3] for words in told] == [
        ("started", "cuda:all", "health"),
        ("finished", "cuda:all", "health"),
        ("started", "host", "stress"),
        ("finished", "host", "stress"),
    ]


def test_a_source_of_one_gpu_does_not_take_the_device_from_the_others(bench: Bench) -> None:
    info = target_info("cuda:0", "cuda", "GPU-0")
    bench.sources["cuda:0"] = FakeSource(info)
    bench.devices["cuda:0"] = FakeDevice(info)

    finished = bench(
        [probe(CLEAN, "health", passive=True), STRESS], [Target("cuda", "0")], sources=[Target("cuda", "0")]
    )

    assert verdicts(finished) == {("cuda:0", "health"): Verdict.PASS, ("cuda:0", "stress"): Verdict.PASS}
    assert len(finished.targets) == 1


def test_what_a_source_told_of_a_target_stays_where_its_device_cannot_be_opened(bench: Bench) -> None:
    bench.sources["cuda:0"] = FakeSource(target_info("cuda:0", "cuda", "GPU-0"))
    bench.devices["cuda:0"] = DeviceError("CuPy is not installed")

    finished = bench(
        [probe(CLEAN, "health", passive=True), STRESS], [Target("cuda", "0")], sources=[Target("cuda", "0")]
    )

    assert finished.targets == (target_info("cuda:0", "cuda", "GPU-0"),)
    assert finished.results[1].reason == "CuPy is not installed"


@pytest.mark.parametrize("when", ["opening", "describing", "reading"])
def test_where_there_is_nothing_a_probe_asked_for_is_unknown(bench: Bench, when: str) -> None:
    bench.sources["cuda:all"] = absent(when)

    (result,) = bench([HEALTH], [], sources=[ALL_GPUS]).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, NO_GPU)


@pytest.mark.parametrize("when", ["opening", "describing", "reading"])
def test_where_there_is_nothing_the_rest_goes_on_with_a_note(bench: Bench, when: str) -> None:
    bench.sources["cuda:all"] = absent(when)

    finished = bench([HEALTH, STRESS], sources=[ALL_GPUS], asked=False)

    assert verdicts(finished) == {("host", "stress"): Verdict.PASS}
    assert finished.notes == (f"health was not run: {NO_GPU}",)
    assert [info.name for info in finished.targets] == ["host"]
    assert ("skipped", "cuda:all", "health") in bench.listener.heard or when != "reading"


def absent(when: str) -> FakeSource | Exception:
    nothing = NothingThere(NO_GPU)
    if when == "opening":
        return nothing
    return FakeSource(info=nothing) if when == "describing" else FakeSource(facts=nothing)


@pytest.mark.parametrize("asked", [True, False])
def test_a_source_that_cannot_be_read_is_unknown_also_in_all(bench: Bench, asked: bool) -> None:
    bench.sources["cuda:all"] = FakeSource(facts=SourceError("the driver does not answer"))

    (result,) = bench([HEALTH], [], sources=[ALL_GPUS], asked=asked).results

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "the driver does not answer")


def test_a_gpu_that_does_not_exist_is_wrong_usage(bench: Bench) -> None:
    bench.sources["cuda:9"] = UsageError("there is no GPU 9: there are 0 to 7")

    (result,) = bench([HEALTH], [], sources=[Target("cuda", "9")]).results

    assert (result.verdict, result.reason) == (Verdict.ERROR, "there is no GPU 9: there are 0 to 7")


def test_the_source_is_given_the_time_limit_less_what_the_end_takes(bench: Bench) -> None:
    bench([HEALTH], [], Terms(timeout=30), sources=[ALL_GPUS])
    bench([HEALTH], [], sources=[ALL_GPUS])

    limited, unlimited = bench.seconds
    assert limited is not None and 28 < limited <= 29
    assert unlimited is None


def hanging(release: threading.Event) -> Probe:
    def hangs(_source: Source, _context: Context) -> Observation:
        release.wait(20)
        return CLEAN

    return probe(hangs, "health", passive=True)


def test_a_source_that_hangs_is_given_up_at_the_time_limit_and_the_rest_goes_on(bench: Bench) -> None:
    release = threading.Event()
    begun = time.monotonic()

    finished = bench([hanging(release), STRESS], terms=Terms(timeout=0.3), sources=[ALL_GPUS], grace=20)

    took = time.monotonic() - begun
    release.set()
    assert verdicts(finished) == {("cuda:all", "health"): Verdict.UNKNOWN, ("host", "stress"): Verdict.PASS}
    assert finished.results[0].reason == "the time limit of 0.3 s was reached"
    assert took < 2


def test_a_source_that_hangs_while_it_is_opened_is_given_up(bench: Bench) -> None:
    release = threading.Event()

    class Hanging(FakeSource):
        def describe(self) -> TargetInfo:
            release.wait(20)
            return super().describe()

    bench.sources["cuda:all"] = Hanging()
    (result,) = bench([HEALTH], [], Terms(timeout=0.2), sources=[ALL_GPUS]).results
    release.set()

    assert (result.verdict, result.reason) == (Verdict.UNKNOWN, "not run: the time limit of 0.2 s was reached")


def test_a_stop_does_not_wait_for_a_source(bench: Bench) -> None:
    release = threading.Event()
    threading.Timer(0.1, bench.stop.request, ["stopped by Ctrl-C"]).start()

    finished = bench([hanging(release), STRESS], sources=[ALL_GPUS])

    release.set()
    assert [(result.verdict, result.reason) for result in finished.results] == [
        (Verdict.UNKNOWN, "stopped by Ctrl-C"),
        (Verdict.UNKNOWN, "not run: stopped by Ctrl-C"),
    ]
    assert [words[1:] for words in bench.listener.heard if words[0] == "stopping"] == [("stopped by Ctrl-C", "False")]


def test_several_sources_are_looked_at_one_by_one(bench: Bench) -> None:
    bench.sources |= {f"sim:{name}": FakeSource(target_info(kind="sim"), MachineFacts(gpus=())) for name in "ab"}

    finished = bench([HEALTH], [], sources=[Target("sim", "a"), Target("sim", "b")])

    assert [result.target for result in finished.results] == ["sim:a", "sim:b"]


def test_a_saved_run_answers_a_passive_probe(bench: Bench) -> None:
    info = TargetInfo("cuda:all", "replay", "8 recorded GPUs", ABSENT, ABSENT, ABSENT, "")
    recorded = bench([probe(BROKEN, "health", passive=True)], [], sources=[ALL_GPUS]).results
    bench.sources["file:run.json"] = RecordedDevice(info, results=recorded)

    (result,) = bench([HEALTH], [], sources=[Target("file", "run.json")]).results

    assert (result.target, result.verdict) == ("file:run.json", Verdict.FAIL)


def test_evidence_that_cannot_be_opened_is_no_replay(bench: Bench) -> None:
    files = evidence(["/a.txt"])
    bench.sources["file:a.txt"] = SourceError("a.txt: is empty")

    finished = bench([HEALTH], [], sources=[files])

    assert finished.targets[0].kind == "file"


BASELINE = Option("baseline", OptionKind.RUN_IN, "A run to compare with.")


def compares(source: Source, context: Context) -> Observation:
    assert context.resumed is not None and context.options["baseline"] is context.resumed
    return context.resumed.observation


def test_a_baseline_is_what_the_probe_saw_then_under_whatever_name(bench: Bench) -> None:
    before = bench([probe(BROKEN, "health", passive=True)], [], sources=[ALL_GPUS])
    bench.sources["cuda:0,3"] = FakeSource()
    now = probe(compares, "health", passive=True, options=(BASELINE,))

    (result,) = bench([now], [], sources=[Target("cuda", "0,3")], options={"baseline": before}).results

    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("earlier", "sources", "says"),
    [
        (STRESS, [], "--baseline: the saved run holds no result of health"),
        (
            probe(Observation(), "health", passive=True),
            ["sim:c"],
            "--baseline: health saw nothing in the saved run: nothing was measured",
        ),
        (
            probe(CLEAN, "health", passive=True),
            ["sim:a", "sim:b"],
            "--baseline: the saved run holds several results of health (sim:a, sim:b), none of cuda:all",
        ),
    ],
)
def test_a_baseline_that_does_not_fit_is_said(bench: Bench, earlier: Probe, sources: list[str], says: str) -> None:
    bench.sources |= {name: FakeSource(target_info(name, "sim")) for name in sources}
    targets = [Target("sim", name.removeprefix("sim:")) for name in sources]
    before = bench([earlier], sources=targets)
    now = probe(compares, "health", passive=True, options=(BASELINE,))

    (result,) = bench([now], [], sources=[ALL_GPUS], options={"baseline": before}).results

    assert (result.verdict, result.reason) == (Verdict.ERROR, says)
