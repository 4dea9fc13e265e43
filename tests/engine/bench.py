"""A bench to run probes on planned devices, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mats.cli.world import WallClock
from mats.device import Device
from mats.model import Run, Verdict
from mats.probe import Probe
from mats.runner import Outside, Plan, run
from mats.slot import Stop, Task, Terms
from mats.source import Source
from mats.target import Target

from .fakes import (
    HOST,
    FakeDevice,
    FakeFabric,
    FakeSource,
    Listening,
    RecordedDevice,
)

HOST_TARGET = Target("host")


class Bench:
    """Runs probes on planned devices and keeps what was saved and heard."""

    def __init__(self) -> None:
        self.saved: list[Run] = []
        self.listener = Listening()
        self.devices: dict[str, FakeDevice | Exception] = {"host": FakeDevice()}
        self.sources: dict[str, FakeSource | RecordedDevice | Exception] = {}
        self.fabrics: dict[str, FakeFabric | RecordedDevice | Exception] = {}
        self.options: list[Mapping[str, object]] = []
        """Those that fabrics were opened with."""
        self.seconds: list[float | None] = []
        """What the sources were given of the time limit."""
        self.stop = Stop()
        self.save: Callable[[Run], None] = self.saved.append

    def __call__(
        self,
        probes: Sequence[Probe],
        targets: Sequence[Target] = (HOST_TARGET,),
        terms: Terms | None = None,
        *,
        grace: float = 5.0,
        asked: bool = True,
        options: dict[str, object] | None = None,
        sources: Sequence[Target] = (),
        fabrics: Sequence[Target] = (),
    ) -> Run:
        tasks = tuple(Task(item, options or {}, asked) for item in probes)
        plan = Plan(
            tuple(targets), tasks, terms or Terms(), grace=grace, sources=tuple(sources), fabrics=tuple(fabrics)
        )
        outside = Outside(
            open_device=self._open,
            open_source=self._open_source,
            open_fabric=self._open_fabric,
            clock=WallClock(),
            host=HOST,
            listener=self.listener,
            save=lambda saved: self.save(saved),
        )
        return run(plan, outside, self.stop)

    def _open(self, target: Target) -> Device:
        device = self.devices[target.name]
        if isinstance(device, Exception):
            raise device
        return device

    def _open_source(self, target: Target, seconds: float | None) -> Source:
        self.seconds.append(seconds)
        source = self.sources[target.name]
        if isinstance(source, Exception):
            raise source
        return source

    def _open_fabric(self, target: Target, options: Mapping[str, object], seconds: float | None) -> Any:
        self.options.append(options)
        self.seconds.append(seconds)
        fabric = self.fabrics[target.name]
        if isinstance(fabric, Exception):
            raise fabric
        return fabric

    @property
    def device(self) -> FakeDevice:
        device = self.devices["host"]
        assert isinstance(device, FakeDevice)
        return device


def verdicts(finished: Run) -> dict[tuple[str, str], Verdict]:
    return {(result.target, result.probe): result.verdict for result in finished.results}
