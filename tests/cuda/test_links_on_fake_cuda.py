"""``mats nvlink-test`` as users type it, through real CuPy on the fake driver: several GPUs, and two processes.

The fake clock gives copies the time of their ways, so that bandwidths are those of the plan whatever this machine does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mats.codec import run_from_json
from mats.model import Quantity, Result, Verdict

from .on_fake import HERE, command, environment, folder, on_fake

__all__ = ["folder"]
MATS = "mats.cli.main"
GB = 1e9
DIRECT, STAGED = 400 * GB, 20 * GB
PLAN = (
    "clock=manual;memory=67108864;bytes_per_second=2e12;launch_seconds=3e-6;copy_seconds=2e-6;"
    f"direct={DIRECT};staged={STAGED}"
)
QUICK = ("--size", "2", "--repeats", "1")
LIMIT_S = 120
NOTHING = "allocations 0\nevents 0\nstreams 0\n"


def saved(out: Path) -> Result:
    (result,) = run_from_json((out / "run.json").read_text()).results
    return result


def figures(result: Result, name: str) -> dict[tuple[str, str], float]:
    """Of each way that has this figure."""
    found = {}
    for measurement in result.observation.measurements:
        labels = dict(measurement.labels)
        if measurement.name == name and isinstance(measurement.reading, Quantity) and "from" in labels:
            found[labels["from"], labels["to"]] = float(measurement.reading.value)
    return found


def test_eight_gpus_with_a_way_that_is_missing_and_one_that_corrupts(folder: str, tmp_path: Path) -> None:
    out, left = tmp_path / "out", tmp_path / "left.txt"

    done = on_fake(
        folder,
        MATS,
        ["nvlink-test", *QUICK, "--out", str(out)],
        cwd=tmp_path,
        MATS_FAKE_CUDA=f"devices=8;{PLAN};apart=2:3;corrupt=5:6;report={left}",
    )

    result = saved(out)
    assert done.returncode == 1, done.stdout + done.stderr
    one_way = figures(result, "link.bandwidth")
    through_host = figures(result, "link.bandwidth_through_host")
    names = [f"0000:{index + 1:02x}:00.0" for index in range(8)]
    ways = {(start, end) for start in names for end in names if start != end}
    assert set(one_way) == ways - {(names[2], names[3]), (names[3], names[2])}
    assert set(through_host) == ways
    assert list(one_way.values()) == pytest.approx([DIRECT] * 54, rel=0.01)
    assert list(through_host.values()) == pytest.approx([STAGED] * 56, rel=0.05)
    (wrong,) = result.findings
    assert (wrong.code, dict(wrong.measurement.labels)["from"], dict(wrong.measurement.labels)["to"]) == (
        "LNK-004",
        names[5],
        names[6],
    )
    assert "the driver offers no direct access between them and does not say why" in " ".join(done.stdout.split())
    assert left.read_text() == NOTHING


def test_a_gpu_that_stops_answering_is_named_in_time(folder: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = on_fake(
        folder,
        str(HERE / "impatient.py"),
        ["nvlink-test", *QUICK, "--out", str(out)],
        cwd=tmp_path,
        MATS_FAKE_CUDA=f"devices=3;{PLAN};hang=1:2",
    )

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert "cuda:1 or cuda:2 was lost: what is copied between them has not ended within 1 s" in said
    assert "Traceback" not in said
    assert figures(saved(out), "link.bandwidth"), "what was measured before is kept"


@pytest.mark.parametrize(
    ("setting", "says"),
    [("devices=1", "this machine shows one GPU"), ("devices=0", "the NVIDIA driver is there but sees no GPU")],
)
def test_a_machine_without_a_way_says_so(folder: str, tmp_path: Path, setting: str, says: str) -> None:
    done = on_fake(folder, MATS, ["nvlink-test"], cwd=tmp_path, MATS_FAKE_CUDA=setting)

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 3, said
    assert says in said and "Traceback" not in said


def test_server_and_client_are_two_processes(folder: str, tmp_path: Path) -> None:
    out, meeting = tmp_path / "out", str(tmp_path / "meeting" / "socket")
    reports = {side: tmp_path / f"{side}.txt" for side in ("server", "client")}
    serve = ["nvlink-test", "--mode", "server", "--gpu", "3", "--socket", meeting]
    join = ["nvlink-test", "--mode", "client", "--gpu", "1", "--server-gpu", "3", "--socket", meeting, *QUICK]
    server = subprocess.Popen(
        command(folder, MATS, serve),
        cwd=tmp_path,
        env=environment(MATS_FAKE_CUDA=f"devices=8;{PLAN};report={reports['server']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    done = on_fake(
        folder,
        MATS,
        [*join, "--min-bandwidth-gbps", "300", "--out", str(out)],
        cwd=tmp_path,
        MATS_FAKE_CUDA=f"devices=8;{PLAN};report={reports['client']}",
    )

    lent, _ = server.communicate(timeout=LIMIT_S)
    result = saved(out)
    assert (server.returncode, done.returncode) == (0, 0), lent + done.stdout + done.stderr
    assert result.verdict is Verdict.PASS
    assert list(figures(result, "link.bandwidth").values()) == pytest.approx([DIRECT] * 2, rel=0.01)
    assert not figures(result, "link.bandwidth_through_host"), "borrowed memory has no way through the host"
    assert "GPU-f1a000c0-de00-0102-0304-050607080901" in lent
    assert {side: report.read_text() for side, report in reports.items()} == dict.fromkeys(reports, NOTHING)
