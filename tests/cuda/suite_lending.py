"""Runs on the fake driver: memory of a GPU of this process in another process, by CUDA's handles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mats.device import Buffer, DeviceError
from mats.devices import _cuda_ipc
from mats.devices.cuda import CudaDevice
from mats.peer.lending import Member
from mats.probe import UsageError
from mats.target import Target

if TYPE_CHECKING:
    from tests.fake_cuda.fake_plugin import FakeCuda

HERE = Path(__file__).resolve().parent
PAGE = 2 << 20
LIMIT_S = 60


@pytest.fixture
def lender(fake: FakeCuda) -> Iterator[Member]:
    member = _cuda_ipc.open_family(Target("cuda", "all")).open_member("0")
    yield member
    member.device.close()


def filled(member: Member, size: int = PAGE) -> Buffer:
    buffer = member.device.allocate(size)
    member.device.copy(buffer, b"\x21" * size)
    return buffer


class Borrower:
    """The other process."""

    def __init__(self) -> None:
        folder = Path(os.environ["MATS_FAKE_CUDA_KERNELS"]).parent
        launch = HERE.parent / "fake_cuda" / "launch.py"
        self._process = subprocess.Popen(
            [sys.executable, str(launch), str(folder), str(HERE / "borrower.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, handle: bytes, size: int, action: str = "read", gpu: str = "1", setting: str = "devices=8"
    ) -> str:
        """What it says of a request."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{gpu} {action} {setting} {size} {handle.hex()}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> int:
        self._process.communicate(timeout=LIMIT_S)
        return self._process.returncode


@pytest.fixture(scope="module")
def borrow() -> Iterator[Borrower]:
    borrower = Borrower()
    yield borrower
    assert borrower.end() == 0


@pytest.mark.parametrize("gpu", ["0", "1"])
def test_another_process_reads_what_is_lent(lender: Member, gpu: str, borrow: Borrower) -> None:
    buffer = filled(lender)

    said = borrow(lender.lending.export(buffer), PAGE, gpu=gpu)

    assert said == repr(b"\x21" * 8)


def test_what_another_process_writes_is_there(lender: Member, borrow: Borrower) -> None:
    buffer = filled(lender, 2 * PAGE)
    piece = Buffer(buffer.address + PAGE, PAGE)

    borrow(lender.lending.export(piece), PAGE, "write")

    lender.lending.withdraw(piece)
    words = [lender.device.fetch(buffer, offset, 8) for offset in (0, PAGE - 8, PAGE, 2 * PAGE - 8)]
    assert words == [b"\x21" * 8] * 2 + [(77).to_bytes(8, "little")] * 2


@pytest.mark.parametrize("gpu", ["0", "5"])
def test_copies_go_both_ways_between_the_processes(lender: Member, gpu: str, borrow: Borrower) -> None:
    buffer = filled(lender)

    said = borrow(lender.lending.export(buffer), PAGE, "exchange", gpu)

    assert said == repr(b"\x21" * 8 + b" direct timed")
    assert lender.device.fetch(buffer, PAGE // 2, PAGE // 2) == b"\x55" * (PAGE // 2)


def test_memory_that_does_not_begin_where_its_allocation_does(fake: FakeCuda, borrow: Borrower) -> None:
    """The driver may put an allocation beside a page: the handle is of the allocation, and the buffer within it."""
    fake.control(misaligned=1)
    member = _cuda_ipc.open_family(Target("cuda", "all")).open_member("0")
    buffer = filled(member, 1000)
    assert isinstance(member.device, CudaDevice) and member.device.piece(buffer).base != buffer.address

    said = borrow(member.lending.export(buffer), 1000)

    member.device.close()
    assert said == repr(b"\x21" * 8)


def test_memory_that_is_opened_twice_is_there_until_it_is_closed_twice(lender: Member, borrow: Borrower) -> None:
    assert borrow(lender.lending.export(filled(lender)), PAGE, "twice") == repr(b"\x21" * 8)


def test_small_memory_of_a_device_that_lends_has_its_own_page(lender: Member, fake: FakeCuda) -> None:
    before = fake.used()

    lender.device.allocate(8)

    assert fake.used() - before == PAGE


def test_a_process_does_not_borrow_from_itself(lender: Member) -> None:
    handle = lender.lending.export(filled(lender))

    with pytest.raises(DeviceError, match="server and client must be two processes"):
        lender.lending.open(handle, PAGE)


def test_cuda_itself_refuses_what_this_process_made(lender: Member) -> None:
    """As for processes that cannot be told apart from outside."""
    made = _cuda_ipc.parse_handle(lender.lending.export(filled(lender)))
    foreign = json.dumps({**{name: getattr(made, name) for name in made.__slots__}, "process": "another"})

    with pytest.raises(DeviceError, match=r"opening memory of another process failed: .* made by this very process"):
        lender.lending.open(foreign.encode(), PAGE)


@pytest.mark.parametrize(
    "handle", [b"", b"[]", b"{}", b"{", b'{"process": 1, "uuid": "", "offset": 0, "size": 0, "cuda": ""}', b"\xff"]
)
def test_what_is_no_handle_is_refused(lender: Member, handle: bytes) -> None:
    with pytest.raises(DeviceError, match="no handle of GPU memory"):
        lender.lending.open(handle, PAGE)


def test_more_than_is_lent_is_refused(lender: Member, borrow: Borrower) -> None:
    assert "lends 2097152 bytes, not 2097153" in borrow(lender.lending.export(filled(lender)), PAGE + 1)


def test_memory_that_was_freed_is_not_known_any_more(lender: Member, borrow: Borrower) -> None:
    buffer = filled(lender)
    handle = lender.lending.export(buffer)
    lender.device.free(buffer)

    said = borrow(handle, PAGE)

    assert said.startswith("DeviceError cuda:1: opening memory of another process failed: ")
    assert "its process has ended" in said and "--ipc=host" in said


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (205, "BAR1"),
        (400, "its process has ended, or its GPU is hidden"),
        (304, "one PID and IPC namespace"),
        (217, "cannot reach each other's memory"),
        (711, "as many others"),
        (801, "lends no memory of this GPU"),
    ],
)
def test_what_forbids_it_is_said(lender: Member, code: int, says: str, borrow: Borrower) -> None:
    handle = lender.lending.export(filled(lender))

    said = borrow(handle, PAGE, setting=f"devices=8;fail=cuIpcOpenMemHandle:0:1:{code}")

    assert said.startswith("DeviceError cuda:1: ") and says in said


def test_gpus_that_cannot_reach_each_other_are_named(lender: Member, borrow: Borrower) -> None:
    said = borrow(lender.lending.export(filled(lender)), PAGE, setting="devices=8;apart=0:1")

    assert "the two GPUs cannot reach each other's memory" in said


def test_a_gpu_that_is_hidden_from_the_other_process_is_said(fake: FakeCuda, borrow: Borrower) -> None:
    member = _cuda_ipc.open_family(Target("cuda", "all")).open_member("3")
    handle = member.lending.export(filled(member))

    said = borrow(handle, PAGE, setting="devices=2")

    member.device.close()
    assert said.startswith("DeviceError the other process's GPU GPU-f3a000c0") and "not visible here" in said


def test_ways_between_processes_cannot_be_disconnected(lender: Member, borrow: Borrower) -> None:
    said = borrow(lender.lending.export(filled(lender)), PAGE, "disconnect")

    assert "reached directly or not at all" in said


def test_a_gpu_that_lends_nothing_says_why(lender: Member, fake: FakeCuda) -> None:
    buffer = filled(lender)
    fake.fail("cuIpcGetMemHandle", 801)

    with pytest.raises(DeviceError, match="cuda:0: lending memory failed: the driver lends no memory of this GPU"):
        lender.lending.export(buffer)


@pytest.mark.parametrize(("placement", "says"), [("MIG", "MIG instance"), ("WSL", "WSL"), ("WDDM", "Windows")])
def test_the_kind_of_gpu_is_the_better_reason(fake: FakeCuda, placement: str, says: str) -> None:
    device = _cuda_ipc.open_family(Target("cuda", "all")).open_member("0").device
    assert isinstance(device, CudaDevice)
    info = device.describe()
    device._info = replace(info, identity=(*info.identity, ("placement", placement)))
    lending = _cuda_ipc.CudaLending(device._cuda, device)
    buffer = device.allocate(PAGE)
    fake.fail("cuIpcGetMemHandle", 801)

    with pytest.raises(DeviceError, match=f"lending memory failed: .*{says}"):
        lending.export(buffer)
    device.close()


def test_memory_that_is_not_held_is_not_lent(lender: Member) -> None:
    with pytest.raises(DeviceError, match="no buffer at 0x1000 is held"):
        lender.lending.export(Buffer(0x1000, PAGE))


def test_only_what_is_open_is_closed(lender: Member) -> None:
    with pytest.raises(DeviceError, match="no memory of another process is open at 0x1000"):
        lender.lending.close(Buffer(0x1000, PAGE))


def test_a_gpu_is_found_by_each_of_its_names_without_being_opened(fake: FakeCuda) -> None:
    family = _cuda_ipc.open_family(Target("cuda", "all"))

    found = {family.find(name) for name in ("2", "GPU-f2a0", "0000:03:00.0")}

    assert found == {"GPU-f2a000c0-de00-0102-0304-050607080902"}
    assert fake.calls("cuDevicePrimaryCtxRetain") == 0
    with pytest.raises(UsageError, match="there is no GPU 9"):
        family.find("9")
