"""Runs on the fake driver: a GPU of this process and one that another process lends, the whole way between them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mats.device import Buffer, DeviceError, DeviceLost
from mats.devices import _cuda_ipc
from mats.fabric import Copy, Fabric
from mats.model import Absent
from mats.peer.meeting import join
from mats.target import Target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

HERE = Path(__file__).resolve().parent
PAGE = 2 << 20
TILES = PAGE >> 16
LIMIT_S = 60
PATTERN = {"first": 0, "kind": 2, "mask": 0, "descending": 0}
LENT = "GPU-f2a000c0-de00-0102-0304-050607080902"


class Server:
    """The other process, which lends GPU 2 to one client after the other."""

    def __init__(self) -> None:
        built = Path(os.environ["MATS_FAKE_CUDA_KERNELS"]).parent
        launch = HERE.parent / "fake_cuda" / "launch.py"
        self.process = subprocess.Popen(
            [sys.executable, str(launch), str(built), str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lend(self, folder: Path, setting: str = "") -> Path:
        """Where it waits for a client."""
        assert self.process.stdin
        path = folder / "meeting"
        self.process.stdin.write(f"2 {path} devices=8;{setting}\n")
        self.process.stdin.flush()
        assert "waiting for a client" in self._says()["progress"]
        return path

    def ended(self) -> dict[str, Any]:
        """How it says that it went."""
        told = self._says()
        while "progress" in told:
            told = self._says()
        return told

    def _says(self) -> dict[str, Any]:
        assert self.process.stdout
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.process.kill()
    made.process.communicate(timeout=LIMIT_S)


@contextlib.contextmanager
def joined(path: Path, gpu: str = "1", wanted: str = "2") -> Iterator[Fabric]:
    options = {"mode": "client", "gpu": gpu, "server-gpu": wanted, "socket": str(path)}
    fabric = join(_cuda_ipc.open_family(Target("cuda", "all")), options, None)
    try:
        yield fabric
    finally:
        fabric.close()


def test_the_whole_way_between_two_processes(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    """Memory is taken there; kernels on either side write into the other's; copies go both ways at one moment."""
    path = server.lend(tmp_path)

    with joined(path) as fabric:
        own, other = fabric.members()
        here, there = own.allocate(2 * PAGE), other.allocate(2 * PAGE)
        fabric.connect(0, 1)
        fabric.connect(1, 0)
        lower = [Buffer(buffer.address, PAGE) for buffer in (here, there)]
        upper = [Buffer(buffer.address + PAGE, PAGE) for buffer in (here, there)]
        own.launch("pattern_write", TILES, data=lower[1], a=11, b=11, **PATTERN)
        other.launch("pattern_write", TILES, data=lower[0], a=22, b=22, **PATTERN)
        copies = [Copy(0, lower[0], 1, upper[1]), Copy(1, lower[1], 0, upper[0])]
        seconds = fabric.exchange(copies, 3, 10.0)
        got = [own.fetch(here, PAGE, 8)[0], other.fetch(there, PAGE, 8)[0], own.fetch(lower[1], 0, 8)[0]]
        reach = fabric.reach(0, 1).direct, fabric.reach(1, 0).direct

    served = server.ended()
    assert got == [11, 22, 11]
    assert len(seconds) == 2 and reach == (True, True)
    assert (served["broken"], served["lent"]) == ("", 2 * PAGE)
    assert served["borrower"] == "GPU-f1a000c0-de00-0102-0304-050607080901"
    assert served["left"] == {"allocations": 0, "events": 0, "streams": 0}


def test_two_processes_on_one_gpu(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path)

    with joined(path, gpu="2") as fabric:
        own, other = fabric.members()
        here, there = own.allocate(PAGE), other.allocate(PAGE)
        other.copy(there, b"\x42" * PAGE)
        fabric.exchange([Copy(1, there, 0, here)], 1, 10.0)
        got = own.fetch(here, 0, PAGE)
        direct, gpus = fabric.reach(0, 1).direct, fabric.facts().gpus

    assert got == b"\x42" * PAGE and direct
    assert not isinstance(gpus, Absent) and [gpu.uuid for gpu in gpus] == [LENT]
    assert server.ended()["broken"] == ""


def test_the_picture_is_of_both_gpus(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path)

    with joined(path) as fabric:
        identity = dict(fabric.describe().identity)

    assert server.ended()["broken"] == ""
    assert identity["member_1"] == LENT


def test_an_error_of_the_lent_gpu_arrives_here(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path, "fail=cuLaunchKernel:0:1:719:sticky:2")

    with joined(path) as fabric, pytest.raises(DeviceLost, match="cuda:2 was lost while running the kernel"):
        other = fabric.members()[1]
        other.launch("pattern_write", TILES, data=other.allocate(PAGE), a=1, b=1, **PATTERN)

    server.ended()


def test_a_gpu_that_does_not_lend_is_said(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path, "fail=cuIpcGetMemHandle:0:9:801")

    with joined(path) as fabric, pytest.raises(DeviceError, match="the driver lends no memory of this GPU"):
        fabric.members()[1].allocate(PAGE)

    server.ended()


def test_a_copy_between_the_processes_that_never_ends(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path)
    fake.control(hang="1:2")

    with (
        joined(path) as fabric,
        pytest.raises(DeviceLost, match=r"cuda:1 or cuda:2 was lost: .* not ended"),
    ):
        own, other = fabric.members()
        fabric.exchange([Copy(0, own.allocate(PAGE), 1, other.allocate(PAGE))], 1, 0.2)

    server.ended()


def test_at_last_a_server_that_dies_is_said(fake: FakeCuda, tmp_path: Path, server: Server) -> None:
    path = server.lend(tmp_path)

    with joined(path) as fabric, pytest.raises(DeviceLost, match="the server"):
        other = fabric.members()[1]
        there = other.allocate(PAGE)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(LIMIT_S)
        begun = time.monotonic()
        other.launch("pattern_write", TILES, data=there, a=1, b=1, **PATTERN)

    assert time.monotonic() - begun < LIMIT_S
