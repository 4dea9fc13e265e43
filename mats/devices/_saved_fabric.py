"""What files tell of the ways between GPUs, where the GPUs themselves are not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mats.device import Device, DeviceError
from mats.fabric import Copy, Reach
from mats.facts import MachineFacts
from mats.model import TargetInfo
from mats.source import Source
from mats.sources.saved import open_links


def open_fabric(paths: Sequence[Path], shown: Sequence[str] = ()) -> SavedFabric:
    """The machine that these files tell of, as :func:`mats.sources.saved.open_links`."""
    return SavedFabric(open_links(paths, shown))


@dataclass(frozen=True, slots=True)
class SavedFabric:
    """Implements :class:`mats.fabric.Fabric` without members: nothing can be measured, facts are told."""

    source: Source

    def describe(self) -> TargetInfo:
        return self.source.describe()

    def members(self) -> tuple[Device, ...]:
        return ()

    def facts(self, *, load: bool = False) -> MachineFacts:
        return self.source.read(load=load)

    def reach(self, start: int, end: int) -> Reach:
        raise self._refused()

    def connect(self, start: int, end: int) -> None:
        raise self._refused()

    def disconnect(self, start: int, end: int) -> None:
        raise self._refused()

    def exchange(self, copies: Sequence[Copy], repeats: int, timeout: float) -> tuple[float, ...]:
        raise self._refused()

    def close(self) -> None:
        self.source.close()

    def _refused(self) -> DeviceError:
        return DeviceError("saved files hold no GPU that could be measured")
