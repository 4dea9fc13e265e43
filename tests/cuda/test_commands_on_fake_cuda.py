"""The commands that users type, from beginning to end, through real CuPy on the fake driver.

The fake clock gives each launch the time that its largest buffer takes at ``bytes_per_second``, so that bandwidths are
those of a healthy device whatever else this machine does.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mats.codec import run_from_json
from mats.model import Run, Verdict

from .on_fake import ROOT, command, environment, folder, on_fake

__all__ = ["folder"]
MATS = "mats.cli.main"
HEALTHY = "memory=134217728;clock=manual;bytes_per_second=2.4e12;host=4e9"
SMALL = ("--size", "8", "--reserve", "16", "--tests", "own_address,random,march_c")
PEAK = 2.56e12
LIMIT_S = 120


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Where the fake driver writes what was left when the process ended."""
    return tmp_path / "left.txt"


def stress(folder: str, out: Path, left: Path, *arguments: str, setting: str = "") -> subprocess.CompletedProcess[str]:
    words = ["stress", *SMALL, "--out", str(out), *arguments]
    return on_fake(folder, MATS, words, cwd=out.parent, MATS_FAKE_CUDA=f"{HEALTHY};report={left};{setting}")


def saved(out: Path) -> Run:
    return run_from_json((out / "run.json").read_text())


def nothing_left(left: Path) -> bool:
    return left.read_text() == "allocations 0\nevents 0\nstreams 0\n"


def test_stress_passes_a_healthy_gpu(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:0")

    run = saved(out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(result.target, result.verdict) for result in run.results] == [("cuda:0", Verdict.PASS)]
    assert run.targets[0].uuid == "GPU-f0a000c0-de00-0102-0304-050607080900"
    assert "Fake GPU 0 (tests)" in done.stdout
    assert nothing_left(left)


def test_forced_errors_are_found(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:0", "--force-errors")

    assert done.returncode == 1, done.stdout + done.stderr
    assert saved(out).results[0].verdict is Verdict.FAIL
    assert nothing_left(left)


def test_all_gpus_are_tested_in_one_run(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:all", setting="devices=3")

    assert done.returncode == 0, done.stdout + done.stderr
    assert {result.target: result.verdict for result in saved(out).results} == {
        f"cuda:{index}": Verdict.PASS for index in range(3)
    }


def test_a_gpu_lost_in_the_middle_does_not_take_the_other(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:0,1", setting="devices=2;fail=cuLaunchKernel:30:1:719:sticky:0")

    verdicts = {result.target: result for result in saved(out).results}
    assert done.returncode == 2, done.stdout + done.stderr
    assert (verdicts["cuda:0"].verdict, verdicts["cuda:1"].verdict) == (Verdict.ERROR, Verdict.PASS)
    assert "cuda:0 was lost while running the kernel" in verdicts["cuda:0"].reason


@pytest.mark.parametrize("nth", [1, 3])
def test_a_refused_allocation_is_no_crash(folder: str, tmp_path: Path, left: Path, nth: int) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:0", setting=f"fail=cuMemAlloc:{nth - 1}:1:2")

    assert "Traceback" not in done.stdout + done.stderr
    assert saved(out).results[0].verdict in (Verdict.PASS, Verdict.UNKNOWN, Verdict.ERROR)
    assert nothing_left(left)


def test_memory_that_is_never_granted_is_not_a_pass(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = stress(folder, out, left, "--target", "cuda:0", setting="fail=cuMemAlloc:0:100000:2")

    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert saved(out).results[0].verdict is not Verdict.PASS


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("init=100", "sees no GPU"),
        ("init=35;driver=0", "no NVIDIA driver was found"),
        ("init=35;driver=12040", "too old: it supports CUDA 12.4"),
        ("devices=1", "there is no GPU 1"),
    ],
)
def test_a_gpu_that_is_not_there_is_said(folder: str, tmp_path: Path, left: Path, setting: str, says: str) -> None:
    done = stress(folder, tmp_path / "out", left, "--target", "cuda:1", setting=setting)

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in (2, 3), said
    assert says in said
    assert "Traceback" not in said


def test_ctrl_c_frees_the_memory_and_keeps_what_was_measured(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"
    words = ["stress", *SMALL, "--out", str(out), "--target", "cuda:0", "--duration", "600"]
    setting = environment(MATS_FAKE_CUDA=f"{HEALTHY};report={left}", PYTHONUNBUFFERED="1")
    process = subprocess.Popen(
        command(folder, MATS, words),
        cwd=tmp_path,
        env=setting,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + LIMIT_S
    while not (out / "run.json").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)

    process.send_signal(signal.SIGINT)

    said, _ = process.communicate(timeout=LIMIT_S)
    run = saved(out)
    assert run.partial and run.results[0].observation.partial, said
    assert "Traceback" not in said
    assert nothing_left(left)


def test_all_runs_every_probe_that_applies(folder: str, tmp_path: Path, left: Path) -> None:
    out = tmp_path / "out"

    done = on_fake(
        folder,
        MATS,
        ["all", "--out", str(out)],
        cwd=tmp_path,
        MATS_FAKE_CUDA=f"{HEALTHY};memory=301989888;devices=2;report={left}",
    )

    run = saved(out)
    assert "Traceback" not in done.stdout + done.stderr
    by_probe = {(result.target, result.probe): result.verdict for result in run.results}
    assert by_probe == {
        # no NVML here tells the memory clock, without which a latency proves nothing
        **{(target, "latency-test"): Verdict.UNKNOWN for target in ("cuda:0", "cuda:1")},
        **{(target, "stress"): Verdict.WARN for target in ("cuda:0", "cuda:1")},
        ("cuda:all", "nvlink-test"): Verdict.UNKNOWN,  # nor what lies between the two, and what it should carry
    }
    assert {finding.code for result in run.results for finding in result.findings} >= {"MEM-007"}  # mostly headroom
    assert done.returncode == 3
    assert {"report.html", "junit.xml", "metrics.prom", "run.json"} <= {path.name for path in out.iterdir()}
    assert nothing_left(left)


@pytest.mark.parametrize(("share", "code"), [(0.95, 0), (0.5, 1)])
def test_the_check_for_real_gpus_judges_what_it_measures(folder: str, tmp_path: Path, share: float, code: int) -> None:
    setting = f"memory=134217728;clock=manual;bytes_per_second={share * PEAK}"

    done = on_fake(
        folder,
        str(ROOT / "benchmarks" / "gpu_check.py"),
        ["--size", "4", "--repeats", "2", "--kernels-only", "--tune", "--json", str(tmp_path / "check.json")],
        MATS_FAKE_CUDA=setting,
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    assert ("BELOW" in done.stdout) is (code == 1)
    assert f"{share:.1%}" in done.stdout
    assert (tmp_path / "check.json").exists()


def test_the_check_for_real_gpus_looks_at_delays_and_links(folder: str, tmp_path: Path) -> None:
    """What the figures are is this machine's and busy or not: they are there, and what must hold anyway does."""
    check = str(ROOT / "benchmarks" / "gpu_check.py")
    start = shlex.join(command(folder, MATS, ()))

    done = on_fake(
        folder,
        check,
        ["--links-only", "--timed-size", "16", "--mats", start, "--json", str(tmp_path / "check.json")],
        MATS_FAKE_CUDA="devices=1;memory=1073741824",
    )

    record = json.loads((tmp_path / "check.json").read_text())
    held = {row["name"]: row["passed"] for row in record["checks"]}
    assert done.returncode in (0, 1), done.stdout + done.stderr
    for name in (
        "chains end where they must",
        "pinning to a multiprocessor",
        "lending memory to another process",
        "borrowing memory of another process",
        "data between two processes",
        "copied data, to device, pinned",
    ):
        assert held[name], done.stdout
    assert {"spread of the region map", "pinned copies, to device", "pinned copies, from device"} <= set(held)
    assert "ladder of caches and memory" in done.stdout
    assert {figure["name"] for figure in record["figures"]} >= {
        "latency.region_spread",
        "latency.pinned_share",
        "latency.transfer_bandwidth",
        "link.bandwidth",
        "link.load_latency",
    }


def test_the_check_for_real_gpus_needs_one(folder: str) -> None:
    done = on_fake(folder, str(ROOT / "benchmarks" / "gpu_check.py"), [], MATS_FAKE_CUDA="devices=0")

    assert done.returncode == 3
    assert "there is no GPU to check: the NVIDIA driver is there but sees no GPU" in done.stderr
