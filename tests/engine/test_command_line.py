"""The command line through ``main(argv)``: what is run, written, said, and the exit code."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mats import __version__, registry
from mats.cli.app import HELPERS
from mats.cli.world import host_info, parse_memory_total, parse_processor
from mats.codec import run_from_json
from mats.device import Device, DeviceError
from mats.model import AbsenceKind, Absent, Observation, Quantity, Run, Severity, Unit, Verdict
from mats.probe import Context, Option, OptionKind, Probe

from .commands import HEALTHY, NOT_SEEN, OPTIONS, SICK, Keeping, do, raises
from .fakes import BROKEN, CLEAN, FakeDevice, FakeSource, limit, printed, probe, seen, target_info, told


def saved(path: Path) -> Run:
    return run_from_json(path.read_text())


@pytest.mark.parametrize(
    ("planned", "argv", "code"),
    [
        (HEALTHY, "stress", 0),
        (SICK, "stress", 1),
        (NOT_SEEN, "stress", 3),
        (probe(CLEAN, "stress", kinds=("cuda",)), "stress", 3),
        (HEALTHY, "all --require stress", 0),
        (NOT_SEEN, "all", 3),
    ],
)
def test_exit_codes(tmp_path: Path, planned: Probe, argv: str, code: int) -> None:
    assert do(tmp_path, f"{argv} --json", planned)[0] == code


@pytest.mark.parametrize(
    ("severity", "argv", "code"),
    [
        (Severity.WARN, "stress", 0),
        (Severity.WARN, "stress --fail-on warn", 1),
        (Severity.WARN, "stress --fail-on fail", 0),
        (Severity.FAIL, "stress --fail-on warn", 1),
        (Severity.NOTE, "stress --fail-on warn", 0),
        (Severity.UNKNOWN, "stress", 3),
    ],
)
def test_fail_on(tmp_path: Path, severity: Severity, argv: str, code: int) -> None:
    planned = probe(BROKEN, "stress", limits=(limit(severity=severity),))

    assert do(tmp_path, f"{argv} --json", planned)[0] == code


@pytest.mark.parametrize(("argv", "fails"), [("stress", False), ("stress --fail-on warn", True)])
def test_junit_fails_where_the_exit_code_does(tmp_path: Path, argv: str, fails: bool) -> None:
    # given
    planned = probe(BROKEN, "stress", limits=(limit(severity=Severity.WARN),))
    # when
    do(tmp_path, f"{argv} --junit junit.xml", planned, reports=registry.reports())
    # then
    assert (int(ET.parse(tmp_path / "junit.xml").getroot().attrib["failures"]) > 0) is fails


def test_findings_win_over_errors_and_errors_over_unknown(tmp_path: Path) -> None:
    failing = raises(DeviceError("the launch failed"))

    unseen = probe(Observation(), "unseen")

    assert do(tmp_path, "all --json", SICK, failing, unseen)[0] == 1
    assert do(tmp_path, "all --json", failing, unseen)[0] == 2
    assert do(tmp_path, "all --json", HEALTHY, failing)[0] == 2


def test_what_is_not_required_may_be_unknown(tmp_path: Path) -> None:
    other = probe(CLEAN, "other")

    assert do(tmp_path, "all --json --require other", NOT_SEEN, other)[0] == 0
    assert do(tmp_path, "all --json --require other,stress", NOT_SEEN, other)[0] == 3
    assert do(tmp_path, "all --json", NOT_SEEN, other)[0] == 3


def test_what_may_be_left_out_is_for_the_user_to_say(tmp_path: Path) -> None:
    # given
    other = probe(CLEAN, "other")
    hint = "mats: exit code 3, since mats all asks for every probe that applies; --require other asks for"
    # when
    code, world = do(tmp_path, "all --json", NOT_SEEN, other)
    # then
    assert code == 3
    assert told(world).splitlines()[-1].startswith(hint)
    assert "exit code 3" not in told(do(tmp_path, "all --json --require stress,other", NOT_SEEN, other)[1])
    assert "exit code 3" not in told(do(tmp_path, "all --json", NOT_SEEN)[1])
    assert "exit code 3" not in told(do(tmp_path, "stress --json", NOT_SEEN, other)[1])


def test_what_is_required_but_does_not_apply_is_unknown(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all --json --require link", HEALTHY, probe(CLEAN, "link", kinds=("cuda",)))

    assert code == 3
    assert "mats: not known: link on host: link works on cuda, not on host" in told(world)


@pytest.mark.parametrize("argv", ["stress", "mem-pattern", "--stress", "--mem-pattern", "--gpu-id 0 --stress"])
def test_older_spellings(tmp_path: Path, argv: str) -> None:
    gpu = FakeDevice(target_info("cuda:0", "cuda"))

    code, world = do(tmp_path, f"{argv} --json", HEALTHY, gpus=(gpu.info,), devices={"cuda:0": gpu})

    assert code == 0
    run = run_from_json(printed(world))
    assert [(result.probe, result.target) for result in run.results] == [("stress", "cuda:0")]
    assert run.command == ("mats", *argv.split(), "--json")


def test_the_older_all(tmp_path: Path) -> None:
    code, world = do(tmp_path, "--all --timeout 30 --json", HEALTHY)

    assert code == 0
    assert len(run_from_json(printed(world)).results) == 1


@pytest.mark.parametrize("name", ["health", "latency-test", "flash-test", "frag", "defrag", "nvlink-test", "stres"])
def test_a_command_that_does_not_exist_names_those_that_do(tmp_path: Path, name: str) -> None:
    code, world = do(tmp_path, [name, "--gpu-id", "0"], HEALTHY)

    assert code == 2
    assert told(world) == f"mats: there is no command '{name}'; there are stress, {', '.join(HELPERS)}\n"


def test_the_older_flag_of_a_command_that_does_not_exist_yet(tmp_path: Path) -> None:
    code, world = do(tmp_path, "--health --gpu-id 0 --timeout 30", HEALTHY)

    assert code == 2
    assert "there is no command 'health'" in told(world)


def test_without_a_gpu_the_host_is_tested_and_that_is_the_first_line(tmp_path: Path) -> None:
    code, world = do(tmp_path, "stress", HEALTHY)

    first = printed(world).splitlines()[0]
    assert code == 0
    assert first == (
        "No GPU can be tested: no NVIDIA driver is loaded. This is the memory of the machine itself (host)."
    )


def test_with_json_the_first_line_goes_to_standard_error(tmp_path: Path) -> None:
    _code, world = do(tmp_path, "stress --json", HEALTHY)

    run = run_from_json(printed(world))
    assert told(world).startswith("No GPU can be tested")
    assert run.notes[0].startswith("No GPU can be tested")
    assert run.notes[1] == "seed 7"


def test_without_target_all_gpus_are_tested(tmp_path: Path) -> None:
    gpus = {f"cuda:{index}": FakeDevice(target_info(f"cuda:{index}", "cuda", f"GPU-{index}")) for index in range(8)}

    _code, world = do(tmp_path, "stress --json", HEALTHY, gpus=tuple(gpu.info for gpu in gpus.values()), devices=gpus)

    assert [result.target for result in run_from_json(printed(world)).results] == list(gpus)


def test_all_gpus_asked_for_where_there_is_none_is_unknown_and_not_the_host(tmp_path: Path) -> None:
    code, world = do(tmp_path, "stress --target cuda:all --json", HEALTHY)

    (result,) = run_from_json(printed(world)).results
    assert code == 3
    assert (result.target, result.reason) == ("cuda:all", "no NVIDIA driver is loaded")


def test_options_are_converted_to_base_units(tmp_path: Path) -> None:
    kept = Keeping()
    argv = (
        "stress --json --size 6GiB --duration 5m --coverage 50% --passes 3 --factor 2 --pattern 0xdead --fast --force"
    )

    code, _world = do(tmp_path, argv, probe(kept, "stress", options=OPTIONS))

    assert code == 0
    assert kept.options == {
        "size": 6 << 30,
        "duration": 300.0,
        "coverage": 0.5,
        "passes": 3,
        "factor": 2.0,
        "pattern": "0xdead",
        "fast": True,
        "force": True,
        "bad-ranges": None,
        "resume": None,
    }


def test_options_have_their_defaults(tmp_path: Path) -> None:
    kept = Keeping()

    do(tmp_path, "stress --json", probe(kept, "stress", options=OPTIONS))

    assert kept.options["duration"] == 60.0
    assert kept.options["coverage"] == 0.9
    assert kept.options["fast"] is kept.options["force"] is False


def test_all_uses_the_quick_values(tmp_path: Path) -> None:
    kept = Keeping()
    quick = (("duration", 5.0), ("size", "1GiB"))

    do(tmp_path, "all --json", probe(kept, "stress", options=OPTIONS, quick=quick))

    assert (kept.options["duration"], kept.options["size"], kept.options["passes"]) == (5.0, 1 << 30, 2)


def test_a_table_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    code, _world = do(tmp_path, "stress --json --bad-ranges bad.csv", probe(Keeping(), "stress", options=OPTIONS))

    rows = list(csv.reader((tmp_path / "bad.csv").read_text().splitlines()))
    assert code == 0
    assert rows[0] == ["address", "size [B]"]
    assert rows[1] == ["0x10", "4"]
    assert "gone" in rows[2][0]


def test_the_tables_of_several_targets_name_them(tmp_path: Path) -> None:
    devices = {"host": FakeDevice(), "sim:x": FakeDevice(target_info("sim:x", "sim"))}

    do(
        tmp_path,
        "stress --json --target host,sim:x --bad-ranges bad.csv",
        probe(Keeping(), "stress", options=OPTIONS),
        devices=devices,
    )

    rows = list(csv.reader((tmp_path / "bad.csv").read_text().splitlines()))
    assert [row[0] for row in rows] == ["target", "host", "host", "sim:x", "sim:x"]


def test_a_table_that_was_not_measured_is_said(tmp_path: Path) -> None:
    code, world = do(tmp_path, "stress --json --bad-ranges bad.csv", probe(CLEAN, "stress", options=OPTIONS))

    assert code == 2
    assert "bad.csv was not written: stress gave no table bad" in told(world)


def test_a_table_of_what_could_not_be_seen_leaves_the_result_unknown(tmp_path: Path) -> None:
    nothing = Observation((seen(Absent(AbsenceKind.NOT_TESTED, "no room")),))
    code, world = do(tmp_path, "stress --json --bad-ranges bad.csv", probe(nothing, "stress", options=OPTIONS))

    assert code == 3
    assert "no room" in told(world)
    assert "was not written" not in told(world)


def test_all_writes_a_folder_of_its_own(tmp_path: Path) -> None:
    code, world = do(tmp_path, "all", SICK)

    (folder,) = (tmp_path / "mats-runs").iterdir()
    assert code == 1
    assert saved(folder / "run.json").results[0].verdict is Verdict.FAIL
    assert (folder / "junit.xml").read_text() == "stress host fail\n"
    assert f"Saved in {folder}" in printed(world)


def test_runs_that_begin_in_the_same_second_have_a_folder_each(tmp_path: Path) -> None:
    do(tmp_path, "all", SICK)
    do(tmp_path, "all", HEALTHY)

    folders = sorted((tmp_path / "mats-runs").iterdir())
    assert [saved(folder / "run.json").results[0].verdict for folder in folders] == [Verdict.FAIL, Verdict.PASS]
    assert folders[1].name == f"{folders[0].name}-2"


def test_out_writes_all_reports_and_the_finished_run(tmp_path: Path) -> None:
    do(tmp_path, "stress --out here/there", HEALTHY)

    folder = tmp_path / "here" / "there"
    assert saved(folder / "run.json").partial == ""
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "run.json"]


def test_json_is_all_of_standard_output(tmp_path: Path) -> None:
    _code, world = do(tmp_path, "all --json", HEALTHY)

    assert json.loads(printed(world))["schema_version"] == 1


def test_quiet_prints_nothing_but_errors(tmp_path: Path) -> None:
    code, world = do(tmp_path, "stress --target host --quiet", SICK)

    assert (code, printed(world), told(world)) == (1, "", "")


def test_limits_are_used_and_marked(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[limits.STRESS-001]\nbound = 5\nunit = "count"\n')

    code, world = do(tmp_path, "stress --json --limits my.toml", SICK)

    assert code == 0
    assert run_from_json(printed(world)).results[0].limits[0].overridden


def test_a_saved_run_can_be_judged_by_other_limits(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[limits.STRESS-001]\nseverity = "warn"\n')
    do(tmp_path, "stress --out run", SICK)

    assert do(tmp_path, "judge run/run.json --json", SICK)[0] == 1
    assert do(tmp_path, "judge run/run.json --json --limits my.toml", SICK)[0] == 0
    assert do(tmp_path, "judge run --json --limits my.toml --fail-on warn", SICK)[0] == 1


def test_limits_of_a_probe_that_is_gone_can_still_be_overridden(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[limits.STRESS-001]\nseverity = "warn"\n')
    do(tmp_path, "stress --out run", SICK)

    assert do(tmp_path, "judge run/run.json --json --limits my.toml", probe(CLEAN, "other"))[0] == 0


def test_reports_can_be_made_of_a_saved_run(tmp_path: Path) -> None:
    do(tmp_path, "stress --out run", SICK)

    code, world = do(tmp_path, "report run/run.json --junit again.xml --out copy", SICK)

    assert code == 0
    assert (tmp_path / "again.xml").read_text() == "stress host fail\n"
    assert saved(tmp_path / "copy" / "run.json") == saved(tmp_path / "run" / "run.json")
    assert printed(world) == ""


def test_a_saved_run_can_be_printed(tmp_path: Path) -> None:
    do(tmp_path, "stress --out run", SICK)

    assert "fake.errors 3" in printed(do(tmp_path, "report run", SICK)[1])


def test_a_run_can_be_resumed(tmp_path: Path) -> None:
    def resumes(_device: Device, context: Context) -> Observation:
        return context.resumed.observation if context.resumed else BROKEN

    planned = probe(resumes, "stress", options=OPTIONS)
    do(tmp_path, "stress --out run", planned)

    assert do(tmp_path, "stress --json --resume run/run.json", planned)[0] == 1


@pytest.mark.parametrize(
    ("simulated", "line"),
    [
        (FakeDevice(), "sim:PLAN  simulated: 2 plans are built in, see mats explain sim"),
        (DeviceError("there is no C++ compiler"), "sim       cannot be used: there is no C++ compiler"),
    ],
)
def test_targets_are_listed_with_the_reason_when_there_is_none(
    tmp_path: Path, simulated: FakeDevice | Exception, line: str
) -> None:
    code, world = do(tmp_path, "targets", HEALTHY, devices={"host": FakeDevice(), "sim:healthy": simulated})

    assert code == 0
    assert printed(world).splitlines() == [
        "cuda      none: no NVIDIA driver is loaded",
        "host      a planned host, 1.0 GiB",
        line,
    ]


def test_a_gpu_that_can_only_be_looked_at_is_listed_with_the_reason(tmp_path: Path) -> None:
    _code, world = do(tmp_path, "targets", HEALTHY, sources={"cuda:all": FakeSource()})

    assert printed(world).splitlines()[0] == (
        "cuda:all  a planned cuda; no memory of it can be tested: no NVIDIA driver is loaded"
    )


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("stress", ["The page of stress.", "STRESS-001", "stuck_bit"]),
        ("mem-pattern", ["The page of stress."]),
        (
            "stress-001",
            ["fake.errors at most 0 count", "fail", "A definition, section 1", "planned so.", "[limits.STRESS-001]"],
        ),
        ("sim", ["sim:healthy", "one bit is stuck", "[[fault]]"]),
        ("stuck_bit", ["sim:stuck_bit  one bit is stuck", "found by    stress", "mats stress --target sim:stuck_bit"]),
        ("sim:healthy", ["sim:healthy  nothing is wrong", "mats all --target sim:healthy"]),
    ],
)
def test_explain(tmp_path: Path, topic: str, words: list[str]) -> None:
    code, world = do(tmp_path, ["explain", topic], HEALTHY)

    assert code == 0
    for word in words:
        assert word in printed(world)


def test_help_shows_the_options_of_a_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _world = do(tmp_path, "stress --help", probe(CLEAN, "stress", options=OPTIONS))

    text = capsys.readouterr().out
    assert code == 0
    for words in (
        "Is stress in order?",
        "--size SIZE",
        "bare number is MiB",
        "[default: 1m]",
        "--passes N",
        "[default: 2]",
        "--target TARGET",
        "--fail-on",
    ):
        assert words in text
    assert text.count("--force") == 1


def test_help_of_a_probe_that_only_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = Option("from", OptionKind.EVIDENCE, "Files to look at.")
    window = Option("window", OptionKind.SECONDS, "How long.", 604800.0)

    do(tmp_path, "health --help", probe(CLEAN, "health", options=(evidence, window), passive=True))

    text = " ".join(capsys.readouterr().out.split())
    assert "[FILE]..." in text
    assert "--from FILE... Files to look at." in text
    assert "[default: 7d]" in text
    assert "--seed" not in text and "--force" not in text and "list[" not in text


def test_the_version_is_told(tmp_path: Path) -> None:
    assert printed(do(tmp_path, "--version")[1]) == f"mats {__version__}\n"


def test_nothing_asked_for_is_wrong_usage(tmp_path: Path) -> None:
    code, world = do(tmp_path, "")

    assert code == 2
    assert "Usage: mats" in told(world)


def test_the_machine_is_read_from_its_files(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor : 0\nmodel name\t: A Processor 9000\n")
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16 kB\nMemFree: 3 kB\n")

    host = host_info(tmp_path)

    assert (host.processor, host.memory_total) == ("A Processor 9000", Quantity(16384, Unit.BYTE))


def test_what_the_machine_does_not_tell_is_absent() -> None:
    assert parse_processor("") == ""
    assert isinstance(parse_memory_total("MemTotal: many kB"), Absent)
