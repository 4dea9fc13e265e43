"""The command as a process: what it imports when it starts, and what real signals do to it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mats import registry
from mats.codec import run_from_json
from mats.model import Verdict

TESTS = str(Path(__file__).resolve().parent.parent)
HEAVY = ("numpy", "torch", "cupy", "plotly", "pynvml", "psutil", "jinja2", "rich", "ray", "pydantic", "mats.facts")
WORKERS = (
    "mats.runner", "mats.lane", "mats.slot", "mats.judge", "mats.codec", "mats.kernel", "mats.devices", "mats.sources",
    "mats.facts", "mats.reports", "mats.fabric", "mats.peer",
)  # fmt: skip
"""Modules that measure, judge, read or render, and their packages."""


def python(code: str, folder: Path) -> str:
    """What a fresh interpreter prints for ``code``; compiled files are kept in ``folder``, as an installation does."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    return finished.stdout


def helps() -> list[list[str]]:
    return [["--help"], *([name, "--help"] for name in registry.probes())]


@pytest.mark.parametrize("argv", helps(), ids=" ".join)
def test_help_imports_nothing_heavy(tmp_path: Path, argv: list[str]) -> None:
    code = f"import sys; from mats.cli.main import main; main({argv}); print(*sorted(sys.modules), file=sys.stdout)"

    loaded = set(python(code, tmp_path).splitlines()[-1].split())

    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("argv", [["targets"], ["explain", "sim"], ["health", "--gpu-id", "0", "--from", "nosuch"]])
def test_a_short_command_loads_no_validation(tmp_path: Path, argv: list[str]) -> None:
    code = f"import sys; from mats.cli.main import main; main({argv}); print(*sorted(sys.modules), file=sys.stdout)"

    assert "pydantic" not in python(code, tmp_path).splitlines()[-1].split()


@pytest.mark.parametrize("argv", helps(), ids=" ".join)
def test_help_loads_what_declares_and_nothing_that_works(tmp_path: Path, argv: list[str]) -> None:
    """Its processor time is measured beside typer's own by benchmarks/start_up.py."""
    code = f"import sys; from mats.cli.main import main; main({argv}); print(*sorted(sys.modules), file=sys.stdout)"

    loaded = python(code, tmp_path).splitlines()[-1].split()

    assert "mats.probes.stress" in loaded
    assert [name for name in loaded if name.startswith(WORKERS)] == []


@pytest.mark.parametrize("module", ["mats.cli.dispatch", "typer.main", "mats.probes"])
def test_ctrl_c_while_modules_are_loaded_is_a_sentence(tmp_path: Path, module: str) -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "from mats.cli.main import run\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['mats', '--help']\n"
        "run()\n"
    )

    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", "mats: interrupted\n")


def started(manner: str, folder: Path) -> subprocess.Popen[str]:
    """The process of ``interrupted.py``, measuring."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"from engine.interrupted import start; start({manner!r})"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": TESTS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(folder / "measuring", process)
    return process


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            out, error = process.communicate()
            pytest.fail(f"the process did not come to measure: {out}{error}")
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")]
)
def test_one_signal_ends_cleanly_with_a_valid_partial_run(tmp_path: Path, number: signal.Signals, name: str) -> None:
    process = started("polite", tmp_path)

    process.send_signal(number)
    out, error = process.communicate(timeout=30)

    run = run_from_json((tmp_path / "run" / "run.json").read_text())
    assert process.returncode == 3
    assert run.partial == f"stopped by {name}"
    assert [(result.probe, result.verdict, result.reason) for result in run.results] == [
        ("stress", Verdict.UNKNOWN, f"stopped by {name}"),
        ("later", Verdict.UNKNOWN, f"not run: stopped by {name}"),
    ]
    assert (tmp_path / "closed").exists()
    assert (tmp_path / "run" / "junit.xml").exists()
    assert name in out
    assert "waiting for the probe to end" in error
    assert "Traceback" not in error


def test_the_second_signal_does_not_wait_but_writes_and_frees(tmp_path: Path) -> None:
    process = started("deaf", tmp_path)

    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None, "the first one waits for the probe"
    process.send_signal(signal.SIGINT)
    _out, error = process.communicate(timeout=30)

    run = run_from_json((tmp_path / "run" / "run.json").read_text())
    assert process.returncode == 1, "what was seen until then is a finding"
    assert run.partial == "stopped by Ctrl-C"
    assert [result.verdict for result in run.results] == [Verdict.FAIL, Verdict.UNKNOWN]
    assert (tmp_path / "closed").exists()
    assert "ending at once" in error
    assert "Traceback" not in error


def test_what_was_saved_survives_a_kill(tmp_path: Path) -> None:
    process = started("polite", tmp_path)
    wait_for(tmp_path / "run" / "run.json", process)

    process.kill()
    process.communicate(timeout=30)

    run = run_from_json((tmp_path / "run" / "run.json").read_text())
    assert run.partial == "not finished"
    assert [result.verdict for result in run.results] == [Verdict.UNKNOWN]


def test_a_terminal_that_goes_away_leaves_a_valid_partial_run(tmp_path: Path) -> None:
    # given: a process whose terminal is closed, as when a connection breaks
    ours, its = pty.openpty()
    own = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{own}; from engine.interrupted import start; start('polite')"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": TESTS},
        stdin=its,
        stdout=its,
        stderr=its,
        text=True,
    )
    os.close(its)
    wait_for(tmp_path / "measuring", process)
    # when
    os.close(ours)
    process.wait(timeout=30)
    # then
    assert process.returncode == 3
    assert run_from_json((tmp_path / "run" / "run.json").read_text()).partial == "stopped by SIGHUP"
    assert (tmp_path / "run" / "junit.xml").exists()


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, closed: str) -> None:
    mats = f"{sys.executable} -c 'from mats.cli.main import run; run()'"
    code = subprocess.run(f"{mats} explain stress {closed}", shell=True, cwd=tmp_path, timeout=60).returncode
    assert code == 0


def test_a_full_disk_is_named_with_what_it_did_not_take(tmp_path: Path) -> None:
    mats = [sys.executable, "-m", "mats.cli.main"]
    with Path("/dev/full").open("w") as full:
        shown = subprocess.run([*mats, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        told = subprocess.run([*mats, "nosuch"], stdout=subprocess.PIPE, stderr=full, text=True, cwd=tmp_path)

    assert shown.stderr == "mats: standard output could not take what was to be shown: no space left on device\n"
    assert (shown.returncode, told.returncode) == (2, 2)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    finished = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m mats.cli.main --version | true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )

    assert "Traceback" not in finished.stderr and "BrokenPipe" not in finished.stderr
