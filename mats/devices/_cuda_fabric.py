"""Several GPUs of this machine through CuPy, and the ways between them.

The driver is asked which GPU can reach which; why not is told by NVML and by what is known of the machine. Copies are
timed by :mod:`mats.devices._cuda_tracks`. A member may belong to another process: its memory was opened here, its
kernels run there, and copies from it or to it are made by the member that is of this process.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from mats.device import Device, DeviceError
from mats.devices import _cuda_facts, cuda
from mats.devices._cuda_host import nearby
from mats.devices._cuda_peers import NOTHING_SAID, why_apart
from mats.devices._cuda_runtime import Cuda, index_of, load
from mats.devices._cuda_tracks import Gate, Job, run_together
from mats.devices.cuda import CudaDevice
from mats.fabric import Copy, Reach
from mats.facts import GpuFacts, MachineFacts
from mats.model import AbsenceKind, Absent, TargetInfo
from mats.probe import UsageError
from mats.source import NothingThere, SourceError
from mats.sources import live
from mats.target import Target

ALREADY_CONNECTED, NOT_CONNECTED = 704, 705
"""cudaErrorPeerAccessAlreadyEnabled, cudaErrorPeerAccessNotEnabled."""
SEVERAL = Absent(AbsenceKind.NOT_SUPPORTED, "several GPUs have no one memory")

OpenDevice = Callable[[Target], Device]


def open_fabric(target: Target, open_device: OpenDevice = cuda.open_device) -> CudaFabric:
    """The GPUs that ``target`` names (cuda:all: every one), open.

    Raises NothingThere where they are fewer than two, UsageError for a name without GPU or a GPU named twice, and
    DeviceError where one of them cannot be used.
    """
    runtime = load()
    names = target.selection or tuple(str(index) for index in range(runtime.count()))
    if len(names) < 2:
        raise NothingThere(_alone(runtime, target))
    members: list[Device] = []
    try:
        members.extend(open_device(Target("cuda", name)) for name in names)  # those ahead of a failure stay in it
        return CudaFabric(runtime, tuple(members), target.name)
    except BaseException:
        for member in members:
            member.close()
        raise


def join(members: Sequence[Device], name: str = "cuda") -> CudaFabric:
    """The ways between open devices, of which some may belong to another process. Closing the fabric closes them."""
    return CudaFabric(load(), tuple(members), name)


def _alone(runtime: Cuda, target: Target) -> str:
    info = _cuda_facts.describe_device(runtime, Absent(AbsenceKind.NOT_TESTED, "not asked"), 0, target.name)
    if target.selection:
        return f"{target.name} is one GPU: a way has two ends, name two or more, such as cuda:0,1 or cuda:all"
    more = "; CUDA shows a process one MIG instance only" if info.uuid.startswith("MIG-") else ""
    return f"this machine shows one GPU ({info.title}): there is no other one to reach from it{more}"


@dataclass(frozen=True, slots=True)
class _Member:
    """``index``: CUDA's number of the GPU in this process; ``local``: None where another process has it open."""

    device: Device
    local: CudaDevice | None
    info: TargetInfo
    index: int
    near: frozenset[int]


class CudaFabric:
    """Implements :class:`mats.fabric.Fabric`. ``machine``: how the picture around the GPUs is read."""

    def __init__(
        self, runtime: Cuda, devices: tuple[Device, ...], name: str, machine: live.Machine | None = None
    ) -> None:
        self._cuda = runtime
        self._name = name
        self._machine = machine or live.Machine()
        self._members = tuple(_member(runtime, device, self._machine.root) for device in devices)
        self._refuse_twins()
        self._locals = tuple(member.local for member in self._members if member.local is not None)
        if not self._locals:
            raise DeviceError(f"{name}: none of the GPUs is open in this process")
        self._gate: Gate | None = None
        self._connected: set[tuple[int, int]] = set()

    def _refuse_twins(self) -> None:
        known: dict[int, str] = {}
        for member in self._members:
            if member.local is None:
                continue
            if member.index in known:
                raise UsageError(f"{known[member.index]} and {member.info.name} are the same GPU: name it once")
            known[member.index] = member.info.name

    def describe(self) -> TargetInfo:
        titles = Counter(member.info.title for member in self._members)
        first = dict(self._members[0].info.identity)
        shared = [(key, first.get(key, "")) for key in ("driver", "driver_cuda", "runtime_cuda", "cupy")]
        uuids = [(f"member_{number}", member.info.uuid) for number, member in enumerate(self._members)]
        return TargetInfo(
            name=self._name,
            kind="cuda",
            title=", ".join(f"{count} x {title}" for title, count in titles.items()),
            memory_total=SEVERAL,
            cache_size=SEVERAL,
            peak_bandwidth=SEVERAL,
            peak_formula="",
            identity=tuple((key, value) for key, value in (*uuids, *shared) if value),
            origin_kind="cuda",
        )

    def members(self) -> tuple[Device, ...]:
        return tuple(member.device for member in self._members)

    def facts(self, *, load: bool = False) -> MachineFacts:
        """The picture of the members' machine; where it cannot be had, what CUDA says of them, and the reason."""
        uuids = tuple(member.info.uuid for member in self._members)
        whole = all(uuid.startswith("GPU-") for uuid in uuids)  # a slice is part of a GPU that is told as a whole
        ours = frozenset[int]().union(*(device.own_processes for device in self._locals), {os.getpid()})
        machine = replace(self._machine, own=ours)
        try:
            source = live.open_source(tuple(dict.fromkeys(uuids)) if whole else (), None, self._lend, machine)
        except (SourceError, UsageError) as error:
            return self._by_cuda(str(error))
        with contextlib.closing(source):
            return source.read(load=load)

    def _by_cuda(self, why: str) -> MachineFacts:
        untold = Absent(AbsenceKind.NOT_FOUND, why)
        gpus = []
        for member in {each.info.uuid: each for each in self._members}.values():  # two processes may share one GPU
            identity = dict(member.info.identity)
            gpus.append(GpuFacts(uuid=member.info.uuid, name=member.info.title, pci=identity.get("pci", untold)))
        return MachineFacts(gpus=tuple(gpus), notes=(f"the machine around the GPUs could not be read: {why}",))

    def _lend(self, target: Target) -> Device:
        """The open member with this UUID, which nobody else closes."""
        for member in self._members:
            if member.local is not None and member.info.uuid == target.argument:
                return cast(Device, _Lent(member.local))
        raise DeviceError("another process has it open")

    def reach(self, start: int, end: int) -> Reach:
        first, second = self._members[start], self._members[end]
        if first.index == second.index:
            return Reach(True)
        with self._cuda.errors(first.info.name, f"asking whether it reaches {second.info.name}"):
            direct = bool(self._cuda.runtime.deviceCanAccessPeer(first.index, second.index))
        return Reach(True) if direct else Reach(False, self._why_apart(first, second))

    def _why_apart(self, first: _Member, second: _Member) -> str:
        door = next(member.local.seen for member in (first, second) if member.local is not None)
        other = second if first.local is not None else first
        return why_apart(first.info, second.info, door, other.info.uuid) or NOTHING_SAID

    def connect(self, start: int, end: int) -> None:
        first, second = self._members[start], self._members[end]
        if first.index == second.index or first.local is None or second.local is None:
            return  # one memory; or opened for its borrower, which connects the two
        with first.local.hold(f"connecting it to {second.info.name}"), self._tolerating(ALREADY_CONNECTED):
            self._cuda.runtime.deviceEnablePeerAccess(second.index)
        self._connected.add((start, end))

    def disconnect(self, start: int, end: int) -> None:
        first, second = self._members[start], self._members[end]
        if first.local is None or second.local is None:
            raise DeviceError(
                f"{first.info.name} and {second.info.name} cannot be disconnected: "
                "memory of another process is reached directly or not at all"
            )
        if first.index == second.index:
            return
        with first.local.hold(f"disconnecting it from {second.info.name}"), self._tolerating(NOT_CONNECTED):
            self._cuda.runtime.deviceDisablePeerAccess(second.index)
        self._connected.discard((start, end))

    @contextlib.contextmanager
    def _tolerating(self, status: int) -> Any:
        """What is so already is no failure."""
        try:
            yield
        except self._cuda.runtime.CUDARuntimeError as error:
            if error.status != status:
                raise

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        if repeats < 1:
            raise DeviceError(f"a copy cannot be made {repeats} times")
        jobs = [self._job(copy) for copy in copies]
        if not jobs:
            return ()
        if self._gate is None:
            self._gate = Gate(self._locals[0])
        return run_together(self._cuda, self._gate, jobs, repeats, timeout, self._called)

    def _called(self, member: int) -> str:
        return self._members[member].info.name

    def _job(self, copy: Copy) -> Job:
        start, end = self._members[copy.start], self._members[copy.end]
        if not 0 < copy.source.size <= copy.destination.size:
            raise DeviceError(f"{copy.source.size} bytes do not fit {copy.destination.size} bytes")
        driver = start if start.local is not None else end
        if driver.local is None:
            raise DeviceError(f"neither {start.info.name} nor {end.info.name} is open in this process")
        return Job(
            source=copy.source.address,
            source_index=start.index,
            destination=copy.destination.address,
            destination_index=end.index,
            size=copy.source.size,
            driver=driver.local,
            borrowed=start.local is None or end.local is None,
            near=driver.near,
            ends=(copy.start, copy.end),
            locals=tuple(member.local for member in (start, end) if member.local is not None),
        )

    def close(self) -> None:
        """Leaves the GPUs as they were: not connected, and closed."""
        for start, end in sorted(self._connected):
            with contextlib.suppress(DeviceError):
                self.disconnect(start, end)
        self._connected.clear()
        for member in sorted(self._members, key=lambda each: each.local is not None):  # what was opened here is closed
            member.device.close()  # while that which opened it is there


class _Lent:
    """A member for somebody who closes what was opened."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def close(self) -> None:
        """It stays open: it is the fabric's."""


def _member(runtime: Cuda, device: Device, root: Path) -> _Member:
    info = device.describe()
    identity = dict(info.identity)
    local = device if isinstance(device, CudaDevice) else None
    index = local.index if local is not None else index_of(runtime, info.uuid)
    return _Member(device, local, info, index, nearby(identity.get("pci", ""), root))
