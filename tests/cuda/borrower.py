"""The other process of suite_lending: opens memory by its handle on the fake driver and does what it is told.

Each line of its standard input is a request: a GPU, an action, commands for the fake driver, the size of the buffer and
its handle as hexadecimal digits. It answers with a line: what came of it, or the error.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mats.device import Buffer, Device, DeviceError
from mats.devices import _cuda_fabric, _cuda_ipc
from mats.fabric import Copy
from mats.model import AbsenceKind, Absent, TargetInfo
from mats.peer.lending import Member
from mats.target import Target

TILE = 64 << 10
NOTHING = Absent(AbsenceKind.NOT_TESTED, "of no matter here")


@dataclass(frozen=True)
class Elsewhere:
    """The lender's device as this process knows it."""

    uuid: str

    def describe(self) -> TargetInfo:
        identity = (("uuid", self.uuid), ("index", "15"))
        return TargetInfo("lent", "cuda", "a GPU", NOTHING, NOTHING, NOTHING, "", identity, origin_kind="cuda")

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Loan:
    """What was opened, by which device, and where it is from."""

    member: Member
    lent: Buffer
    handle: bytes

    @property
    def other(self) -> Device:
        return Elsewhere(_cuda_ipc.parse_handle(self.handle).uuid)  # type: ignore[return-value]


def read(loan: Loan) -> bytes:
    return loan.member.device.fetch(loan.lent, 0, 8)


def write(loan: Loan) -> bytes:
    """A kernel of this process's GPU writes into the other one's memory."""
    known = {"first": 0, "kind": 2, "a": 77, "b": 77, "mask": 0, "descending": 0}
    loan.member.device.launch("pattern_write", loan.lent.size // TILE, data=loan.lent, **known)
    return b"written"


def exchange(loan: Loan) -> bytes:
    """Copies both ways between the two GPUs, at one moment."""
    device, half = loan.member.device, loan.lent.size // 2
    fabric = _cuda_fabric.join((device, loan.other))
    mine = device.allocate(loan.lent.size)
    device.copy(mine, b"\x55" * half)
    lower, upper = Buffer(loan.lent.address, half), Buffer(loan.lent.address + half, half)
    fabric.connect(0, 1)
    direct = fabric.reach(0, 1).direct
    copies = [Copy(0, Buffer(mine.address, half), 1, upper), Copy(1, lower, 0, Buffer(mine.address + half, half))]
    seconds = fabric.exchange(copies, 2, 10)
    got = device.fetch(mine, half, 8)
    return got + (b" direct" if direct else b" apart") + (b" timed" if all(each >= 0 for each in seconds) else b"")


def disconnect(loan: Loan) -> bytes:
    _cuda_fabric.join((loan.member.device, loan.other)).disconnect(0, 1)
    return b"disconnected"


def twice(loan: Loan) -> bytes:
    """The same memory is opened again and closed once: it is still there."""
    lending = loan.member.lending
    lending.close(lending.open(loan.handle, loan.lent.size))
    return loan.member.device.fetch(loan.lent, 0, 8)


ACTIONS: dict[str, Callable[[Loan], bytes]] = {
    function.__name__: function for function in (read, write, exchange, disconnect, twice)
}


def answer(gpu: str, action: str, size: int, handle: bytes) -> str:
    member = _cuda_ipc.open_family(Target("cuda", "all")).open_member(gpu)
    try:
        loan = Loan(member, member.lending.open(handle, size), handle)
        said = ACTIONS[action](loan)
        member.lending.close(loan.lent)
    finally:
        member.device.close()
    return repr(said)


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    for line in sys.stdin:
        gpu, action, setting, size, handle = line.split()
        if driver.fake_control(f"restart=;reset=;{setting}".encode()):
            raise ValueError(f"the fake driver does not know {setting}")
        try:
            said = answer(gpu, action, int(size), bytes.fromhex(handle))
        except DeviceError as error:
            said = f"{type(error).__name__} {error}"
        print(said, flush=True)


if __name__ == "__main__":
    main()
