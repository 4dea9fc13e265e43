"""What a passive probe looks at, by what the user names: GPUs, a simulated machine, files, a saved run, or nothing."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mats.cli.world import World
from mats.codec import run_from_json, run_to_json
from mats.model import Observation, Run, Verdict
from mats.probe import Context, Option, OptionKind, Probe
from mats.source import NothingThere, Source, SourceError
from mats.target import Target

from .bench import Bench
from .commands import do
from .fakes import BROKEN, CLEAN, FakeDevice, FakeSource, printed, probe, target_info, told

FROM = Option("from", OptionKind.EVIDENCE, "Files to look at instead of this machine.")
OPTIONS = (FROM, Option("load", OptionKind.FLAG, "Warm the links."), Option("baseline", OptionKind.RUN_IN, "Compare."))
NO_GPU = "there is no NVIDIA GPU in this machine"


def looks(source: Source, _context: Context) -> Observation:
    source.read()
    return CLEAN


HEALTH = probe(looks, "health", kinds=("cuda", "sim", "file"), options=OPTIONS, passive=True)
STRESS = probe(CLEAN, "stress", kinds=("cuda", "host", "sim"))


class Anything(Mapping[str, FakeSource]):
    """A source for every name, which are kept."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getitem__(self, name: str) -> FakeSource:
        self.names.append(name)
        return FakeSource(target_info(name, name.split(":")[0]))

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("listing was not planned")

    def __len__(self) -> int:
        return 1


def sources_of(tmp_path: Path, argv: str, *probes: Probe) -> list[str]:
    """The names of the targets that passive probes ran on."""
    code, world = do(tmp_path, f"{argv} --json", *(probes or (HEALTH,)), sources=Anything())
    assert code == 0, told(world)
    return [result.target for result in run_from_json(printed(world)).results if result.probe == "health"]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("health", ["cuda:all"]),
        ("--health --gpu-id 0 --timeout 30", ["cuda:0"]),
        ("health --gpu-id 0,3", ["cuda:0,3"]),
        ("health --gpu-id 0 --gpu-id GPU-1234abcd", ["cuda:0,GPU-1234abcd"]),
        ("health --gpu-id 0,all", ["cuda:all"]),
        ("health --target cuda:0 --target cuda:3", ["cuda:0,3"]),
        ("health --target cuda", ["cuda:all"]),
        ("health --target host", ["cuda:all"]),
        ("health --target cuda:1,host", ["cuda:all"]),
        ("health --target sim:needs_reset", ["sim:needs_reset"]),
        ("health --target sim:a,sim:b", ["sim:a", "sim:b"]),
        ("health --target cuda:0,sim:a,cuda:1", ["cuda:0,1", "sim:a"]),
    ],
)
def test_what_is_looked_at(tmp_path: Path, argv: str, named: list[str]) -> None:
    assert sources_of(tmp_path, argv) == named


def files(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("NVRM: Xid (PCI:0000:01:00): 79\n")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("health --from a.txt", "file:a.txt"),
        ("health --from a.txt b.log", "file:a.txt,b.log"),
        ("health --from a.txt --from b.log", "file:a.txt,b.log"),
        ("health a.txt b.log", "file:a.txt,b.log"),
        ("--health --from a.txt b.log", "file:a.txt,b.log"),
        ("health --from a.txt a.txt", "file:a.txt"),
        ("health --target file:a.txt,file:b.log", "file:a.txt,b.log"),
        ("health --target file:deep/c.txt", "file:deep/c.txt"),
        ("health --from deep/c.txt a.txt", "file:c.txt,a.txt"),
        ("health --from a.txt b.log deep/c.txt d e", "file:a.txt,b.log,c.txt,+2"),
        ("health --from deep", "file:deep"),
        ("health --from a-very-long-folder-name/another-long-name/saved.txt", "file:saved.txt"),
        ("all --from a.txt b.log", "file:a.txt,b.log"),
        ("all a.txt", "file:a.txt"),
        ("all --target file:a.txt", "file:a.txt"),
    ],
)
def test_files_are_the_evidence_of_one_machine_with_a_short_name(tmp_path: Path, argv: str, named: str) -> None:
    files(tmp_path, "a.txt", "b.log", "deep/c.txt", "d", "e", "a-very-long-folder-name/another-long-name/saved.txt")

    assert sources_of(tmp_path, argv, HEALTH, STRESS) == [named]


def test_a_source_of_files_is_given_their_paths(tmp_path: Path) -> None:
    # given
    files(tmp_path, "a.txt", "deep/b.log")
    opened: list[Target] = []

    def opens(target: Target, _seconds: float | None) -> FakeSource:
        opened.append(target)
        return FakeSource(target_info(target.name, "file"))

    code, _world = do(tmp_path, "health --json --from a.txt deep/b.log", HEALTH, open_source=opens)
    # then
    assert code == 0
    assert opened[0].paths == (str(tmp_path / "a.txt"), str(tmp_path / "deep/b.log"))
    assert opened[0].shown == ("a.txt", "deep/b.log")


@pytest.mark.parametrize("argv", ["health --from -", "health -", "health --from - -", "--health --from -"])
def test_standard_input_is_evidence(tmp_path: Path, argv: str) -> None:
    # given
    read: list[tuple[str, bytes]] = []

    def opens(target: Target, _seconds: float | None) -> FakeSource:
        (path,) = (Path(path) for path in target.paths)
        assert target.shown == ("standard input",)
        read.append((str(path), path.read_bytes()))
        return FakeSource(target_info(target.name, "file"))

    # when
    code, world = do(tmp_path, f"{argv} --json", HEALTH, open_source=opens, stdin=lambda: io.BytesIO(b"Xid"))
    # then
    ((name, content),) = read
    assert code == 0
    assert run_from_json(printed(world)).results[0].target == "file:standard input"
    assert content == b"Xid"
    assert not Path(name).exists()


def test_a_pipe_that_a_shell_hands_over_is_evidence(tmp_path: Path) -> None:
    # given
    taken, given = os.pipe()
    os.write(given, b"Xid")
    os.close(given)
    read: list[bytes] = []

    def opens(target: Target, _seconds: float | None) -> FakeSource:
        read.extend(Path(path).read_bytes() for path in target.paths)
        return FakeSource(target_info(target.name, "file"))

    # when
    code, _world = do(tmp_path, f"health --json --from /dev/fd/{taken}", HEALTH, open_source=opens)
    os.close(taken)
    # then
    assert (code, read) == (0, [b"Xid"])


def test_nothing_on_standard_input_is_wrong_usage(tmp_path: Path) -> None:
    code, world = do(tmp_path, "health --from -", HEALTH, stdin=lambda: None)

    assert code == 2
    assert "nothing is piped into it" in told(world)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("health --from missing.txt", "missing.txt cannot be read: there is no such file or folder"),
        ("health --from a.txt missing.txt", "missing.txt cannot be read: there is no such file or folder"),
        ("health 0", "there is no file '0': files are named here, GPUs with --gpu-id"),
        ("health --from a.txt --gpu-id 0", "give files or --gpu-id, not both: files are what is looked at"),
        ("health --target sim:a a.txt", "give files or --target, not both: files are what is looked at"),
        ("health --from run.json a.txt", "run.json is a saved run of mats and the other files are not"),
        ("health --from cut.json", "cut.json cannot be read: the file is cut off"),
        (["health", "--from", ""], "a file to look at needs a name, and an empty one was given"),
        ("stress a.txt", "Got unexpected extra argument(s) (a.txt)"),
        ("stress --from a.txt", "No such option: --from"),
    ],
)
def test_files_that_cannot_be_looked_at_get_one_sentence(tmp_path: Path, argv: str | list[str], says: str) -> None:
    files(tmp_path, "a.txt")
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))
    (tmp_path / "cut.json").write_text('{"schema_version": 1, "tool": "ma')

    code, world = do(tmp_path, argv, HEALTH, STRESS, sources=Anything())

    assert code == 2
    assert told(world).startswith(f"mats: {says}")
    assert told(world).count("\n") == 1


def saved_run() -> Run:
    bench = Bench()
    bench.sources["cuda:all"] = FakeSource()
    bench.devices |= {f"cuda:{index}": FakeDevice(target_info(f"cuda:{index}", "cuda")) for index in range(2)}
    health = probe(BROKEN, "health", kinds=("cuda",), passive=True)
    return bench([health, STRESS], [Target("cuda", "0"), Target("cuda", "1")], sources=[Target("cuda", "all")])


def replaying(tmp_path: Path, argv: str, *probes: Probe) -> tuple[int, World]:
    """Run the command where every device and source of a saved run is the real replay."""
    from mats.devices import replay

    def opens(target: Target, _seconds: float | None = None) -> replay.ReplayDevice:
        return replay.open_device(Target("file", str(tmp_path / target.argument), part=target.part))

    return do(tmp_path, argv, *probes, open_source=opens, open_device=opens)


@pytest.mark.parametrize("argv", ["health --from run.json", "health --target file:run.json", "health run.json"])
def test_a_saved_run_that_holds_the_probe_is_shown_again(tmp_path: Path, argv: str) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    code, world = replaying(tmp_path, f"{argv} --json", HEALTH)

    (result,) = run_from_json(printed(world)).results
    assert code == 1
    assert (result.target, result.verdict) == ("file:run.json#cuda:all", Verdict.FAIL)


def test_each_gpu_of_a_saved_run_is_shown_again(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    code, world = replaying(tmp_path, "stress --json --target file:run.json", STRESS)

    assert code == 0
    results = run_from_json(printed(world)).results
    assert [result.target for result in results] == ["file:run.json#cuda:0", "file:run.json#cuda:1"]


@pytest.mark.parametrize(
    ("argv", "notes"),
    [
        ("", ()),
        ("--load", ("--load changed nothing: a saved run is judged again and not measured again",)),
    ],
)
def test_options_that_a_saved_run_does_not_heed_are_named(tmp_path: Path, argv: str, notes: tuple[str, ...]) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    _code, world = replaying(tmp_path, f"health --json run.json {argv}", HEALTH)

    assert run_from_json(printed(world)).notes == notes


def test_all_of_a_saved_run_is_all_it_holds(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/run.json").write_text(run_to_json(saved_run()))

    code, world = replaying(tmp_path, "all --json --target file:folder", HEALTH, STRESS, probe(CLEAN, "other"))

    results = run_from_json(printed(world)).results
    assert code == 1
    assert [(result.probe, result.target.partition("#")[2]) for result in results] == [
        ("health", "cuda:all"),
        ("stress", "cuda:0"),
        ("stress", "cuda:1"),
    ]


def test_a_saved_run_without_the_probe_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    code, world = replaying(tmp_path, "other --json --target file:run.json", probe(CLEAN, "other", passive=True))

    assert code == 3
    assert "the saved run holds no result of other" in told(world)


def test_a_run_that_others_laid_out_anew_is_still_a_run(tmp_path: Path) -> None:
    data = json.loads(run_to_json(saved_run()))
    (tmp_path / "run.json").write_text(json.dumps(data, sort_keys=True, indent=4))

    assert replaying(tmp_path, "health --json --from run.json", HEALTH)[0] == 1


def test_an_active_probe_on_evidence_is_unknown_in_one_sentence(tmp_path: Path) -> None:
    from mats import registry

    files(tmp_path, "a.txt")

    code, world = do(tmp_path, "stress --json --target file:a.txt", STRESS, open_device=registry.open_device)

    assert code == 3
    assert told(world) == (
        "mats: not known: stress on file:a.txt: a.txt is saved evidence and no run of mats: "
        "there is no memory in it to work on; mats health --from reads it\n"
    )


def test_a_seed_is_told_where_it_can_matter(tmp_path: Path) -> None:
    def notes(argv: str) -> tuple[str, ...]:
        return run_from_json(printed(do(tmp_path, f"{argv} --json", HEALTH, STRESS, sources=Anything())[1])).notes

    assert notes("health") == ()
    assert "seed 7" in notes("all")


def test_health_by_name_where_there_is_no_gpu_is_unknown(tmp_path: Path) -> None:
    code, world = do(tmp_path, "health", HEALTH, STRESS)

    assert (code, printed(world), told(world)) == (3, "", f"mats: not known: health on cuda:all: {NO_GPU}\n")


def test_all_where_there_is_no_gpu_tests_the_host_and_says_so(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json", HEALTH, STRESS)

    run = run_from_json(printed(world))
    assert code == 0
    assert [(result.probe, result.target) for result in run.results] == [("stress", "host")]
    assert run.notes[-1] == f"health was not run: {NO_GPU}"


def test_all_of_files_that_tell_of_no_gpu_is_unknown(tmp_path: Path) -> None:
    files(tmp_path, "a.txt")

    code, world = do(tmp_path, "all --json a.txt", HEALTH, STRESS)

    assert code == 3
    assert f"mats: not known: health on file:a.txt: {NO_GPU}" in told(world)


def test_all_where_health_is_required_and_there_is_no_gpu_is_unknown(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json --require health", HEALTH, STRESS)

    assert code == 3
    assert f"mats: not known: health on cuda:all: {NO_GPU}" in told(world)


@pytest.mark.parametrize("source", [FakeSource(), FakeSource(info=SourceError("the driver does not answer"))])
@pytest.mark.parametrize("command", ["all", "stress"])
def test_a_gpu_that_cuda_cannot_use_is_not_replaced_by_the_host(
    tmp_path: Path, command: str, source: FakeSource
) -> None:
    code, world = do(tmp_path, f"{command} --json", HEALTH, STRESS, sources={"cuda:all": source})

    stress = run_from_json(printed(world)).results[-1]
    assert code == 3
    assert (stress.probe, stress.target, stress.reason) == ("stress", "cuda:all", "no NVIDIA driver is loaded")
    assert "A GPU is there and cannot be used: no NVIDIA driver is loaded. --target host tests" in told(world)


@pytest.mark.parametrize("source", [NothingThere(NO_GPU), FakeSource(info=NothingThere(NO_GPU))])
def test_whether_there_is_a_gpu_is_asked_where_only_active_probes_run(
    tmp_path: Path, source: FakeSource | Exception
) -> None:
    code, world = do(tmp_path, "stress --json", STRESS, sources={"cuda:all": source})

    assert code == 0
    assert run_from_json(printed(world)).results[0].target == "host"


def test_a_baseline_is_read_from_a_saved_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run_to_json(saved_run()))

    def compares(_source: Source, context: Context) -> Observation:
        assert context.resumed is not None
        return context.resumed.observation

    now = probe(compares, "health", kinds=("cuda",), options=OPTIONS, passive=True)
    code, _world = do(tmp_path, "health --json --gpu-id 0 --baseline run.json", now, sources=Anything())

    assert code == 1


def test_a_baseline_without_health_is_wrong_usage(tmp_path: Path) -> None:
    bench = Bench()
    (tmp_path / "run.json").write_text(run_to_json(bench([STRESS])))

    code, world = do(tmp_path, "health --baseline run.json", HEALTH, sources=Anything())

    assert code == 2
    assert told(world) == ("mats: health on cuda:all: --baseline: the saved run holds no result of health\n")
