"""The command as a process on simulated drivers: Ctrl-C, pipes, terminals, drivers that hang."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.sources import _mock_profiles as profiles

COMMAND = (sys.executable, "-P", "-c", "from mats.cli.main import run; run()", "smi")


def built() -> bool:
    try:
        profiles.library_path()
    except DeviceError:
        return False
    return True


pytestmark = pytest.mark.skipif(not built(), reason="simulated drivers are not built on this machine")


def begin(*words: str, **streams: int) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *words], text=True, stderr=subprocess.PIPE, **streams)  # type: ignore[call-overload, no-any-return]


def lines_of(path: Path, least: int) -> list[str]:
    """The file's lines, once it has that many."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count("\n") >= least:
            return path.read_text().splitlines()
        time.sleep(0.05)
    raise AssertionError(f"{path} did not get {least} lines")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_all_lines_whole(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "record.jsonl"
    process = begin("--target", "sim:h100x8", "--interval", "100ms", "-o", str(path), stdout=subprocess.PIPE)
    lines_of(path, 24)

    process.send_signal(number)
    printed, told = process.communicate(timeout=10)

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert process.returncode == 0
    assert len(rows) % 8 == 0 and rows[-1]["gpu_index"] == 7
    assert rows[-1]["simulated"] is True
    assert printed == ""
    assert f"{rows[-1]['sample']} samples in {path}" in told and "stopped by" in told


def test_ctrl_c_in_the_middle_of_a_call_that_hangs_ends_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "record.csv"
    process = begin("--target", "sim:hanging_call", "--interval", "100ms", "-o", str(path), stdout=subprocess.PIPE)
    lines_of(path, 0)
    time.sleep(0.3)

    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _printed, told = process.communicate(timeout=10)

    assert time.monotonic() - started < 3
    assert "Traceback" not in told
    assert (process.returncode, told) == (3, "mats: no sample was taken: stopped by Ctrl-C\n")


def test_a_call_that_hangs_is_named_and_the_rest_goes_on() -> None:
    done = subprocess.run(
        [*COMMAND, "--target", "sim:gsp_hangs", "--interval", "100ms", "--count", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    first, _, second = done.stdout.partition("\n\n20")
    assert done.returncode == 3
    assert "did not return within 2.0 s" in first
    assert "does not answer" in second and "moments passed without a sample" in second
    assert "1  NVIDIA H100 80GB HBM3       31" in second


def test_a_reader_that_leaves_ends_it() -> None:
    process = begin("--target", "sim:h100x8", "--interval", "50ms", "--csv", stdout=subprocess.PIPE)
    assert process.stdout is not None
    head = process.stdout.readline()
    process.stdout.close()

    assert process.stderr is not None
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=10) == 0
    assert head.startswith("time,sample,") and told == ""


def test_a_terminal_is_given_back_as_it_was_with_the_last_table_on_it() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [*COMMAND, "--target", "sim:h100x8", "--interval", "100ms", "--count", "5"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen = _read_all(ours)

    assert process.wait(timeout=10) == 0
    assert "\x1b[?1049h" in seen and "\x1b[?1049l" in seen, "another screen, and back"
    after = seen.rpartition("\x1b[?1049l")[2]
    assert after.count("GPU  name") == 1 and "Sample 5 took" in after
    assert "\x1b[31m" not in seen and "\x1b[1m" not in seen.replace("\x1b[1;1H", "")


def _read_all(descriptor: int) -> str:
    seen = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(descriptor)
    return seen.decode(errors="replace")


def test_its_own_cost_at_ten_samples_a_second_is_small(tmp_path: Path) -> None:
    path = tmp_path / "record.csv"
    before = os.times()
    done = subprocess.run(
        [*COMMAND, "--target", "sim:h100x8", "--interval", "100ms", "--duration", "5", "-o", str(path)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    after = os.times()

    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert done.returncode == 0
    assert len(path.read_text().splitlines()) > 100
    assert spent < 2.5, "half of one core, start-up among it, on eight GPUs and a busy machine"
