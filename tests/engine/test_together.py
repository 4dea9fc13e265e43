"""Probes that work on several devices at once: which they get, when, and what becomes of them."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mats import registry
from mats.codec import run_from_json, run_to_json
from mats.device import Device, DeviceError, DeviceLost, HeldBy
from mats.devices._sim_fabric import SimFabric
from mats.fabric import Fabric, Lender
from mats.model import AbsenceKind, Absent, Observation, Run, Verdict
from mats.probe import Context, Option, OptionKind, UsageError
from mats.slot import Terms
from mats.source import NothingThere
from mats.target import Target

from .bench import HOST_TARGET, Bench, verdicts
from .commands import do
from .fakes import (
    ABSENT,
    BROKEN,
    CLEAN,
    FakeDevice,
    FakeFabric,
    FakeSource,
    RecordedDevice,
    printed,
    probe,
    seen,
    target_info,
    told,
)

ALL = Target("cuda", "all")
FROM = Option("from", OptionKind.EVIDENCE, "Files to look at instead of this machine.")
KINDS = ("cuda", "sim", "file")
LINKS = probe(CLEAN, "links", kinds=KINDS, options=(FROM,), together=True, order=90)
HEALTH = probe(CLEAN, "health", kinds=KINDS, options=(FROM,), passive=True)
STRESS = probe(CLEAN, "stress", kinds=("cuda", "host", "sim"))
HOLDER = HeldBy(4711, "python", ABSENT)
GPUS = tuple(target_info(f"cuda:{index}", "cuda", f"GPU-{index}") for index in range(2))


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.fabrics["cuda:all"] = FakeFabric(devices=tuple(FakeDevice(info) for info in GPUS))
    made.devices |= {info.name: FakeDevice(info) for info in GPUS}
    return made


def fabric_of(bench: Bench) -> FakeFabric:
    fabric = bench.fabrics["cuda:all"]
    assert isinstance(fabric, FakeFabric)
    return fabric


def test_they_run_last_on_all_devices_with_their_options(bench: Bench) -> None:
    # given
    at_work: list[int] = []

    def works(_device: Device, _context: Context) -> Observation:
        at_work.append(1)
        time.sleep(0.05)
        at_work.remove(1)
        return CLEAN

    def measures(fabric: Fabric, _context: Context) -> Observation:
        assert not at_work
        assert len(fabric.members()) == 2
        return CLEAN

    probes = [probe(measures, "links", kinds=KINDS, together=True, order=1), probe(works, "stress")]
    # when
    finished = bench(
        probes, [Target("cuda", "0"), Target("cuda", "1")], options={"mode": "x"}, fabrics=[ALL], terms=Terms(timeout=9)
    )
    # then
    assert list(verdicts(finished)) == [("cuda:0", "stress"), ("cuda:1", "stress"), ("cuda:all", "links")]
    assert set(verdicts(finished).values()) == {Verdict.PASS}
    assert (bench.options, bench.seconds) == ([{"mode": "x"}], [9])
    assert fabric_of(bench).closed == 1
    assert [info.name for info in finished.targets] == ["cuda:0", "cuda:1", "cuda:all"]


def test_what_a_source_told_of_all_gpus_stands_beside_the_fabric(bench: Bench) -> None:
    bench.sources["cuda:all"] = FakeSource(target_info("cuda:all", "cuda", "GPU-told"))

    finished = bench([HEALTH, LINKS], [], sources=[ALL], fabrics=[ALL])

    assert verdicts(finished) == {("cuda:all", "health"): Verdict.PASS, ("cuda:all", "links"): Verdict.PASS}
    assert [info.uuid for info in finished.targets] == ["GPU-told"]


def test_a_fabric_that_opens_is_told_of_where_the_source_did_not(bench: Bench) -> None:
    bench.sources["cuda:all"] = DeviceError("the driver does not answer")

    finished = bench([HEALTH, LINKS], [], sources=[ALL], fabrics=[ALL])

    assert [info.title for info in finished.targets] == ["a planned cuda"]


def test_running_work_on_any_member_is_not_disturbed(bench: Bench) -> None:
    fabric_of(bench).devices[1].held = (HOLDER,)
    alone = probe(CLEAN, "links", kinds=KINDS, together=True, exclusive=True)

    (result,) = bench([alone], [], fabrics=[ALL]).results
    forced = bench([alone], [], fabrics=[ALL], terms=Terms(force=True))

    assert (result.verdict, result.reason) == (
        Verdict.UNKNOWN,
        "cuda:1 is in use by python (pid 4711): links needs it to itself; end them or add --force",
    )
    assert forced.results[0].verdict is Verdict.PASS
    assert forced.notes == ("cuda:1 was in use by python (pid 4711) while links ran (--force)",)


def test_a_lender_has_no_members_to_ask(bench: Bench) -> None:
    class Lending:
        def describe(self) -> Any:
            return target_info("cuda:0", "cuda")

        def serve(self, _stopping: object, _progress: object) -> Any:
            raise AssertionError("serve was not planned")

        def close(self) -> None: ...

    def lends(door: Lender, _context: Context) -> Observation:
        assert isinstance(door, Lending)
        return CLEAN

    bench.fabrics["cuda:all"] = Lending()  # type: ignore[assignment]
    finished = bench([probe(lends, "links", kinds=KINDS, together=True, exclusive=True)], [], fabrics=[ALL])

    assert finished.results[0].verdict is Verdict.PASS


def test_a_lost_device_ends_the_probe_with_what_it_saw(bench: Bench) -> None:
    def loses(_fabric: Fabric, context: Context) -> Observation:
        context.save(CLEAN)
        raise DeviceLost("cuda:1 does not answer")

    (result,) = bench([probe(loses, "links", kinds=KINDS, together=True)], [], fabrics=[ALL]).results

    assert (result.verdict, result.reason) == (Verdict.ERROR, "cuda:1 does not answer")
    assert result.observation.measurements == CLEAN.measurements
    assert fabric_of(bench).closed == 1


def test_one_that_never_ends_is_given_up_and_its_devices_closed(bench: Bench) -> None:
    release = threading.Event()

    def hangs(_fabric: Fabric, context: Context) -> Observation:
        context.save(CLEAN)
        release.wait(20)
        return CLEAN

    (result,) = bench(
        [probe(hangs, "links", kinds=KINDS, together=True)], [], Terms(timeout=0.05), grace=0.05, fabrics=[ALL]
    ).results
    release.set()

    assert result.verdict is Verdict.UNKNOWN
    assert "did not end within" in result.reason
    assert result.observation.measurements == CLEAN.measurements
    assert fabric_of(bench).closed >= 1


def test_no_device_is_shared_with_a_probe_that_was_given_up(bench: Bench) -> None:
    release = threading.Event()

    def hangs(_device: Device, _context: Context) -> Observation:
        release.wait(20)
        return CLEAN

    finished = bench(
        [probe(hangs, "stress"), LINKS], [Target("cuda", "0")], Terms(timeout=0.05), grace=0.05, fabrics=[ALL]
    )
    release.set()

    assert bench.options == []
    assert verdicts(finished)["cuda:all", "links"] is Verdict.UNKNOWN
    assert finished.results[-1].reason == ("not run: a probe on cuda:0 was given up and may still be at work there")


def test_one_of_them_that_was_given_up_leaves_the_devices_to_no_other(bench: Bench) -> None:
    release = threading.Event()

    def hangs(_fabric: Fabric, _context: Context) -> Observation:
        release.wait(20)
        return CLEAN

    finished = bench(
        [probe(hangs, "first", kinds=KINDS, together=True, order=80), LINKS],
        [],
        Terms(timeout=0.05),
        grace=0.05,
        fabrics=[ALL],
    )
    release.set()

    assert verdicts(finished)["cuda:all", "links"] is Verdict.UNKNOWN
    assert "a probe on cuda:all was given up and may still be at work there" in finished.results[-1].reason


def test_after_a_stop_they_are_not_run(bench: Bench) -> None:
    def stops(_device: Device, _context: Context) -> Observation:
        bench.stop.request("stopped by Ctrl-C")
        return CLEAN

    finished = bench([probe(stops, "stress"), LINKS], fabrics=[ALL])

    assert verdicts(finished) == {("host", "stress"): Verdict.PASS, ("cuda:all", "links"): Verdict.UNKNOWN}
    assert finished.results[-1].reason == "not run: stopped by Ctrl-C"
    assert bench.options == []


def test_a_saved_run_answers_instead_of_a_measurement(bench: Bench) -> None:
    saved = bench([probe(BROKEN, "links", kinds=KINDS, together=True)], [], fabrics=[ALL]).results
    info = target_info("file:run.json", "replay")
    bench.fabrics["file:run.json"] = RecordedDevice(info, results=saved)

    (result,) = bench([LINKS], [], fabrics=[Target("file", "run.json")]).results

    assert (result.verdict, result.observation) == (Verdict.FAIL, BROKEN)


def test_where_all_was_passed_over_each_reason_is_the_result(bench: Bench) -> None:
    bench.sources["cuda:all"] = NothingThere("no word of a GPU")
    bench.fabrics["cuda:all"] = NothingThere("one GPU")

    finished = bench([HEALTH, LINKS], [], sources=[ALL], fabrics=[ALL], asked=False)

    assert [(result.probe, result.verdict, result.reason) for result in finished.results] == [
        ("health", Verdict.UNKNOWN, "no word of a GPU"),
        ("links", Verdict.UNKNOWN, "one GPU"),
    ]


def fabrics_of(tmp_path: Path, argv: str, **planned: Any) -> list[str]:
    """The names of the targets that were opened together."""
    names: list[str] = []

    def opens(target: Target, _options: object, _seconds: object) -> FakeFabric:
        names.append(target.name)
        return FakeFabric(target_info(target.name, target.kind))

    code, world = do(tmp_path, f"{argv} --json", LINKS, STRESS, open_fabric=opens, **planned)
    assert code == 0, told(world)
    results = run_from_json(printed(world)).results
    assert [result.target for result in results if result.probe == "links"] == names
    return names


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("links", ["cuda:all"]),
        ("links --gpu-id 0,3", ["cuda:0,3"]),
        ("links --target cuda:0 --target cuda:3", ["cuda:0,3"]),
        ("links --target cuda:all", ["cuda:all"]),
        ("links --target sim:a,sim:b", ["sim:a", "sim:b"]),
        ("links --from a.txt b.txt", ["file:a.txt,b.txt"]),
        ("links a.txt", ["file:a.txt"]),
        ("links --target file:a.txt", ["file:a.txt"]),
        ("all --target cuda:0,1", ["cuda:0,1"]),
        ("all", ["cuda:all"]),
        ("all a.txt", ["file:a.txt"]),
    ],
)
def test_what_is_worked_on_together(tmp_path: Path, argv: str, named: list[str]) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    devices = {info.name: FakeDevice(info) for info in GPUS}

    assert fabrics_of(tmp_path, argv, devices=devices, gpus=GPUS) == named


def test_without_need_of_single_devices_they_are_not_looked_for(tmp_path: Path) -> None:
    assert fabrics_of(tmp_path, "links", gpus="discover was not planned") == ["cuda:all"]


def test_standard_input_is_evidence(tmp_path: Path) -> None:
    assert fabrics_of(tmp_path, "links -", stdin=lambda: io.BytesIO(b"NV4")) == ["file:standard input"]


def test_by_name_one_gpu_is_unknown_with_the_reason(tmp_path: Path) -> None:
    code, world = do(tmp_path, "links --target cuda:0", LINKS)

    assert (code, printed(world)) == (3, "")
    assert told(world) == "mats: not known: links on cuda:0: cuda:0 is no more than one GPU\n"


def test_all_on_one_gpu_passes_over_it_with_a_note(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json", STRESS, LINKS, devices={"cuda:0": FakeDevice(GPUS[0])}, gpus=GPUS[:1])

    run = run_from_json(printed(world))
    assert code == 0
    assert verdicts(run) == {("cuda:0", "stress"): Verdict.PASS}
    assert run.notes[-1] == "links was not run: cuda:all is no more than one GPU"


def test_all_without_a_gpu_passes_over_it_with_a_note(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json", STRESS, LINKS)

    run = run_from_json(printed(world))
    assert code == 0
    assert verdicts(run) == {("host", "stress"): Verdict.PASS}
    assert run.notes[-1] == "links was not run: no NVIDIA driver is loaded"


def test_gpus_that_are_there_and_cannot_be_used_are_unknown(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json", STRESS, LINKS, sources={"cuda:all": FakeSource()})

    run = run_from_json(printed(world))
    assert code == 3
    assert verdicts(run) == {("cuda:all", "stress"): Verdict.UNKNOWN, ("cuda:all", "links"): Verdict.UNKNOWN}


def test_all_of_the_host_leaves_gpus_alone(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json --target host", STRESS, LINKS)

    assert code == 0
    assert verdicts(run_from_json(printed(world))) == {("host", "stress"): Verdict.PASS}


def nothing_there(_fabric: Fabric, _context: Context) -> Observation:
    raise NothingThere("the files tell of no link")


def nothing_measured(_fabric: Fabric, _context: Context) -> Observation:
    return Observation((seen(Absent(AbsenceKind.NOT_FOUND, "the files tell of no link")),))


@pytest.mark.parametrize("measure", [nothing_there, nothing_measured])
def test_files_that_tell_of_no_link_are_unknown_by_name_and_passed_over_by_all(tmp_path: Path, measure: Any) -> None:
    # given
    (tmp_path / "a.txt").write_text("a")
    reads_links = probe(measure, "links", kinds=KINDS, options=(FROM,), together=True, order=90)
    planned = {
        "fabrics": {"file:a.txt": FakeFabric(target_info("file:a.txt", "file"))},
        "sources": {"file:a.txt": FakeSource(target_info("file:a.txt", "file"))},
    }
    # when
    by_name, named_world = do(tmp_path, "links --json a.txt", reads_links, **planned)
    by_all, world = do(tmp_path, "all --json a.txt", HEALTH, reads_links, **planned)
    required, _world = do(tmp_path, "all --json a.txt --require links", HEALTH, reads_links, **planned)
    # then
    run = run_from_json(printed(world))
    assert (by_name, by_all, required) == (3, 0, 3)
    assert "the files tell of no link" in told(named_world)
    assert verdicts(run) == {("file:a.txt", "health"): Verdict.PASS}
    (note,) = run.notes
    assert note.startswith("links was not run: ")
    assert note.endswith("the files tell of no link")


def saved_run() -> Run:
    bench = Bench()
    bench.fabrics["cuda:all"] = FakeFabric()
    bench.devices["cuda:0"] = FakeDevice(GPUS[0])
    return bench([STRESS, probe(BROKEN, "links", kinds=KINDS, together=True)], [Target("cuda", "0")], fabrics=[ALL])


@pytest.mark.parametrize("argv", ["links run.json", "links --target file:run.json", "all run.json"])
def test_a_saved_run_is_shown_again(tmp_path: Path, argv: str) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    def opens(target: Target, options: dict[str, object], seconds: float | None) -> Any:
        return registry.open_fabric(Target("file", str(tmp_path / target.argument), part=target.part), options)

    code, world = do(tmp_path, f"{argv} --json", LINKS, open_fabric=opens)

    (result,) = run_from_json(printed(world)).results
    assert code == 1
    assert (result.target, result.verdict) == ("file:run.json#cuda:all", Verdict.FAIL)


def test_the_registry_opens_cards_of_a_plan_and_files(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n"
    )

    simulated = registry.open_fabric(Target("sim", "links_healthy"), {})
    saved = registry.open_fabric(Target("file", "topo.txt", (str(tmp_path / "topo.txt"),)), {})

    assert isinstance(simulated, SimFabric)
    simulated.close()
    assert isinstance(saved, Fabric)
    assert saved.members() == ()
    assert isinstance(saved.facts().pairs, tuple)
    with pytest.raises(DeviceError, match="saved files hold no GPU"):
        saved.reach(0, 1)
    saved.close()


def test_its_page_says_that_it_wants_several(tmp_path: Path) -> None:
    _code, world = do(tmp_path, "explain links", probe(CLEAN, "links", kinds=KINDS, together=True, exclusive=True))

    assert "Works on cuda, sim, file, all named devices together. Needs them to itself." in printed(world)


def test_the_registry_refuses_what_has_no_ways() -> None:
    with pytest.raises(NothingThere, match="host is one memory"):
        registry.open_fabric(HOST_TARGET, {})
    with pytest.raises(UsageError, match="--mode server works with GPUs and with simulated cards, not with host"):
        registry.open_fabric(HOST_TARGET, {"mode": "server"})
