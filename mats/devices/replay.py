"""Answers from a saved run: what was seen then is judged and shown again; nothing is measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mats.codec import SavedRunError, run_from_json
from mats.device import Buffer, Conditions, DeviceError, HeldBy, HostBuffer, HostLink, MemoryState
from mats.facts import MachineFacts
from mats.model import Result, Run, TargetInfo
from mats.probe import UsageError
from mats.target import Target

RUN_FILE = "run.json"
"""The run in the folder of one."""


def open_device(target: Target) -> ReplayDevice:
    """The target ``target.part`` of the saved run at ``target.argument``, or its only one.

    Raises UsageError when the file cannot be read or holds no such target.
    """
    path = Path(target.argument).expanduser()
    path = path / RUN_FILE if path.is_dir() else path
    try:
        run = run_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not text'}") from error
    except SavedRunError as error:
        raise UsageError(f"{path}: {error}") from error
    if not run.targets:
        raise UsageError(f"{path} holds no target: it was saved before anything could be opened")
    names = [info.name for info in run.targets]
    if target.part and target.part not in names:
        raise UsageError(f"{path} holds no target {target.part}, but {', '.join(names)}")
    if not target.part and len(names) > 1:
        raise UsageError(
            f"{path} holds several targets ({', '.join(names)}): `mats judge` and `mats report` take the whole run"
        )
    return ReplayDevice(run, target.name, target.part)


open_source = open_device
"""What passive probes saw is answered in the same way."""


class ReplayDevice:
    """Implements :class:`mats.device.Device`, :class:`mats.source.Source` and ``recorded``.

    Every call that would touch memory or read anew is refused. ``part``: the name of the target then; else the first.
    """

    def __init__(self, run: Run, name: str, part: str = "") -> None:
        self._run = run
        self._name = name
        self._part = part
        self._info = next((info for info in run.targets if info.name == part), run.targets[0])

    def recorded(self, probe: str) -> Result | None:
        """What ``probe`` saw in the saved run, or None."""
        for result in self._run.results:
            if result.probe == probe and self._part in ("", result.target):
                return result
        return None

    def describe(self) -> TargetInfo:
        origin = self._info.origin_kind or self._info.kind
        return dataclasses.replace(self._info, name=self._name, kind="replay", origin_kind=origin)

    def read(self, *, load: bool = False) -> MachineFacts:
        raise self._refused("be read anew")

    def memory(self) -> MemoryState:
        raise self._refused("tell its memory")

    def allocate(self, size: int) -> Buffer:
        raise self._refused("allocate")

    def allocate_host(self, size: int, *, pinned: bool) -> HostBuffer:
        raise self._refused("allocate")

    def free(self, buffer: Buffer | HostBuffer) -> None:
        raise self._refused("free")

    def launch(self, kernel: str, tiles: int, **arguments: Buffer | int) -> float:
        raise self._refused(f"launch {kernel}")

    def copy(
        self,
        destination: Buffer | HostBuffer,
        source: Buffer | HostBuffer | bytes,
        *,
        offset: int = 0,
        repeats: int = 1,
    ) -> float:
        raise self._refused("copy")

    def fetch(self, buffer: Buffer | HostBuffer, offset: int, size: int) -> bytes:
        raise self._refused("fetch")

    def synchronise(self) -> None:
        raise self._refused("synchronise")

    def conditions(self) -> Conditions:
        raise self._refused("tell its conditions")

    def host_link(self) -> HostLink:
        raise self._refused("tell its link")

    def holders(self) -> tuple[HeldBy, ...] | str:
        return ()

    def now(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> None:
        raise self._refused("wait")

    def close(self) -> None:
        """Nothing is held."""

    def _refused(self, what: str) -> DeviceError:
        return DeviceError(f"a saved run cannot {what}: it answers only what was measured then")
