"""Devices, probes and a world for tests: they do what was planned and refuse everything else."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mats.cli.world import World
from mats.codec import run_to_json
from mats.device import Buffer, Conditions, Device, DeviceError, HeldBy, HostBuffer, HostLink, MemoryState
from mats.fabric import Copy, Reach
from mats.facts import MachineFacts
from mats.model import (
    AbsenceKind,
    Absent,
    HostInfo,
    Limit,
    Measurement,
    Observation,
    Quantity,
    Relation,
    Result,
    Run,
    Severity,
    Source,
    SourceKind,
    TargetInfo,
    Unit,
)
from mats.probe import Context, Option, Probe, UsageError
from mats.report import Report
from mats.source import NothingThere
from mats.target import Target

ABSENT = Absent(AbsenceKind.NOT_SUPPORTED, "this device has no such counter")
SOURCE = Source("A definition", "section 1", SourceKind.DEFINITION, "2025-01-31")


def count(value: float) -> Quantity:
    return Quantity(value, Unit.COUNT)


def limit(
    code: str = "FAKE-001",
    measurement: str = "fake.errors",
    relation: Relation = Relation.AT_MOST,
    bound: Quantity | None = None,
    severity: Severity = Severity.FAIL,
    required: bool = False,
    kinds: tuple[str, ...] = (),
    voids: tuple[str, ...] = (),
) -> Limit:
    return Limit(
        code=code,
        measurement=measurement,
        title=f"{measurement} is in order",
        relation=relation,
        bound=bound or count(0),
        severity=severity,
        source=SOURCE,
        reasoning="It was planned so.",
        advice="Change the plan.",
        required=required,
        kinds=kinds,
        voids=voids,
    )


def seen(value: float | Absent, name: str = "fake.errors", labels: tuple[tuple[str, str], ...] = ()) -> Measurement:
    return Measurement(name, value if isinstance(value, Absent) else count(value), labels)


def target_info(name: str = "host", kind: str = "host", uuid: str = "") -> TargetInfo:
    return TargetInfo(
        name=name,
        kind=kind,
        title=f"a planned {kind}",
        memory_total=Quantity(1 << 30, Unit.BYTE),
        cache_size=ABSENT,
        peak_bandwidth=ABSENT,
        peak_formula="",
        identity=(("uuid", uuid),) if uuid else (),
        origin_kind=kind,
    )


@dataclass
class FakeDevice:
    """A device that can be described, held and closed; working on its memory was not planned."""

    info: TargetInfo = field(default_factory=target_info)
    held: tuple[HeldBy, ...] | str = ()
    closed: int = 0

    def describe(self) -> TargetInfo:
        return self.info

    def holders(self) -> tuple[HeldBy, ...] | str:
        return self.held

    def close(self) -> None:
        self.closed += 1

    def memory(self) -> MemoryState:
        raise AssertionError("memory was not planned")

    def allocate(self, size: int) -> Buffer:
        raise AssertionError("allocate was not planned")

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        raise AssertionError("allocate_host was not planned")

    def free(self, buffer: Buffer | HostBuffer) -> None:
        raise AssertionError("free was not planned")

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        raise AssertionError("launch was not planned")

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        raise AssertionError("copy was not planned")

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        raise AssertionError("fetch was not planned")

    def synchronise(self) -> None:
        raise AssertionError("synchronise was not planned")

    def conditions(self) -> Conditions:
        raise AssertionError("conditions were not planned")

    def host_link(self) -> HostLink:
        raise AssertionError("host_link was not planned")

    def now(self) -> float:
        raise AssertionError("now was not planned")

    def wait(self, seconds: float) -> None:
        raise AssertionError("wait was not planned")


@dataclass
class FakeSource:
    """A source that tells the facts it was made with; what is an exception is raised."""

    info: TargetInfo | Exception = field(default_factory=lambda: target_info("cuda:all", "cuda"))
    facts: MachineFacts | Exception = field(default_factory=MachineFacts)
    closed: int = 0
    loads: list[bool] = field(default_factory=list)

    def describe(self) -> TargetInfo:
        if isinstance(self.info, Exception):
            raise self.info
        return self.info

    def read(self, *, load: bool = False) -> MachineFacts:
        self.loads.append(load)
        if isinstance(self.facts, Exception):
            raise self.facts
        return self.facts

    def close(self) -> None:
        self.closed += 1


@dataclass
class FakeFabric:
    """Devices that are held together; what goes between them was not planned."""

    info: TargetInfo = field(default_factory=lambda: target_info("cuda:all", "cuda"))
    devices: tuple[FakeDevice, ...] = ()
    picture: MachineFacts = field(default_factory=MachineFacts)
    closed: int = 0

    def describe(self) -> TargetInfo:
        return self.info

    def members(self) -> tuple[Device, ...]:
        return self.devices

    def facts(self, *, load: bool = False) -> MachineFacts:
        return self.picture

    def reach(self, start: int, end: int) -> Reach:
        raise AssertionError("reach was not planned")

    def connect(self, start: int, end: int) -> None:
        raise AssertionError("connect was not planned")

    def disconnect(self, start: int, end: int) -> None:
        raise AssertionError("disconnect was not planned")

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        raise AssertionError("exchange was not planned")

    def close(self) -> None:
        self.closed += 1


@dataclass
class RecordedDevice(FakeDevice):
    """A device that answers from saved results."""

    results: tuple[Result, ...] = ()

    def read(self, *, load: bool = False) -> MachineFacts:
        raise AssertionError("read was not planned")

    def recorded(self, probe: str) -> Result | None:
        return next((result for result in self.results if result.probe == probe), None)


Measure = Callable[[Any, Context], Observation]
"""On a device, a source or a fabric, as the probe is."""


def probe(
    measure: Measure | Observation,
    name: str = "fake",
    kinds: tuple[str, ...] = ("host", "sim", "cuda"),
    limits: tuple[Limit, ...] | None = None,
    options: tuple[Option, ...] = (),
    exclusive: bool = False,
    order: int = 10,
    aliases: tuple[str, ...] = (),
    quick: tuple[tuple[str, object], ...] = (),
    passive: bool = False,
    together: bool = False,
) -> Probe:
    def planned(_device: Device, _context: Context) -> Observation:
        assert isinstance(measure, Observation)
        return measure

    return Probe(
        name=name,
        question=f"Is {name} in order?",
        kinds=kinds,
        order=order,
        exclusive=exclusive,
        limits=(limit(f"{name.upper()}-001"),) if limits is None else limits,
        faults=("stuck_bit",),
        options=options,
        measure=planned if isinstance(measure, Observation) else measure,
        aliases=aliases,
        quick=quick,
        passive=passive,
        together=together,
    )


CLEAN = Observation(measurements=(seen(0),))
BROKEN = Observation(measurements=(seen(3),))


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2025, 1, 31, 12, 0, 0, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Listening:
    """A listener that keeps what it was told."""

    heard: list[tuple[str, ...]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def started(self, target: str, probe: str) -> None:
        self._hear("started", target, probe)

    def progressed(self, target: str, probe: str, done: float, total: float, text: str) -> None:
        self._hear("progressed", target, probe, f"{done:g}/{total:g}", text)

    def finished(self, result: Result) -> None:
        self._hear("finished", result.target, result.probe)

    def skipped(self, target: str, probe: str) -> None:
        self._hear("skipped", target, probe)

    def stopping(self, reason: str, killed: bool) -> None:
        self._hear("stopping", reason, str(killed))

    def noted(self, text: str) -> None:
        self._hear("noted", text)

    def crashed(self, where: str, details: str) -> None:
        self._hear("crashed", where, details)

    def _hear(self, *words: str) -> None:
        self.heard.append(words)
        self.threads.add(threading.current_thread().name)


HOST = HostInfo("box", "Linux", "3.11", "a processor", Quantity(1 << 30, Unit.BYTE))


def fake_world(
    folder: Path,
    probes: tuple[Probe, ...],
    devices: Mapping[str, FakeDevice | Exception] | None = None,
    gpus: tuple[TargetInfo, ...] | str = "no NVIDIA driver is loaded",
    reports: Mapping[str, Report] | None = None,
    environment: Mapping[str, str] | None = None,
    sources: Mapping[str, FakeSource | RecordedDevice | Exception] | None = None,
    fabrics: Mapping[str, FakeFabric | RecordedDevice | Exception] | None = None,
    **doors: Callable[..., Any],
) -> World:
    """A world with these doors; its streams are texts, files under ``folder``; ``doors`` replace what is planned."""
    planned = {"host": FakeDevice()} if devices is None else devices

    def open_device(target: Target) -> FakeDevice:
        device = planned.get(target.name)
        if device is None:
            raise UsageError(f"there is no target {target.name}")
        if isinstance(device, Exception):
            raise device
        return device

    def open_source(target: Target, _seconds: float | None) -> FakeSource | RecordedDevice:
        source: FakeSource | RecordedDevice | Exception
        source = NothingThere("there is no NVIDIA GPU in this machine") if sources is None else sources[target.name]
        if isinstance(source, Exception):
            raise source
        return source

    def open_fabric(target: Target, _options: Mapping[str, object], _seconds: float | None) -> Any:
        fabric = (fabrics or {}).get(target.name, NothingThere(f"{target.name} is no more than one GPU"))
        if isinstance(fabric, Exception):
            raise fabric
        return fabric

    def discover() -> tuple[TargetInfo, ...]:
        if isinstance(gpus, str):
            raise DeviceError(gpus)
        return gpus

    return World(
        probes=lambda: {item.name: item for item in probes},
        reports=lambda: {"json": JSON_REPORT, "junit": TEXT_REPORT} if reports is None else reports,
        faults=dict,
        plans=lambda: (("healthy", "nothing is wrong"), ("stuck_bit", "one bit is stuck")),
        page=lambda item: f"The page of {item.name}.",
        discover=discover,
        open_device=doors.get("open_device", open_device),
        open_source=doors.get("open_source", open_source),
        open_fabric=doors.get("open_fabric", open_fabric),
        seed=lambda: 7,
        root=folder / "root",
        folder=folder,
        stdin=doors.get("stdin", lambda: None),
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        environment=environment or {},
    )


def _verdicts(run: Run) -> str:
    return "".join(f"{result.probe} {result.target} {result.verdict.value}\n" for result in run.results)


TEXT_REPORT = Report("text", "txt", _verdicts)
JSON_REPORT = Report("json", "json", run_to_json)


def printed(world: World) -> str:
    assert isinstance(world.stdout, io.StringIO)
    return world.stdout.getvalue()


def told(world: World) -> str:
    assert isinstance(world.stderr, io.StringIO)
    return world.stderr.getvalue()
