"""Which targets a command works on, and what is said about the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mats.cli.options import Values
from mats.cli.world import World
from mats.device import Device, DeviceError
from mats.probe import UsageError
from mats.target import Target, parse_gpu_ids, parse_targets


@dataclass(frozen=True, slots=True)
class Choice:
    """Targets to open; ``note`` says why these, when the user named none."""

    targets: tuple[Target, ...]
    note: str
    open_device: Callable[[Target], Device]


def choose(values: Values, world: World) -> Choice:
    """The targets named by ``--target`` and ``--gpu-id``; else all GPUs; else the host. Raises UsageError."""
    named, gpus = values.get("target") or [], values.get("gpu-id") or []
    if named and gpus:
        raise UsageError("give --target or --gpu-id, not both")
    if not named and not gpus:
        return _found(world)
    targets = parse_gpu_ids(gpus) if gpus else parse_targets(named)
    expanded: dict[Target, None] = {}
    opener = world.open_device
    for target in targets:
        if not target.is_group:
            expanded.setdefault(target)
            continue
        try:
            expanded.update(dict.fromkeys(_gpus(world)))
        except DeviceError as error:
            # Kept as it was named: it shows in the run as what could not be measured, with the reason.
            expanded.setdefault(target)
            opener = _refusing(target, str(error), opener)
    return Choice(tuple(expanded), "", opener)


def _found(world: World) -> Choice:
    try:
        return Choice(_gpus(world), "", world.open_device)
    except DeviceError as error:
        reason = str(error).strip().rstrip(".")
    note = f"No GPU can be tested: {reason}. This is the memory of the machine itself (host)."
    return Choice((Target("host"),), note, world.open_device)


def _gpus(world: World) -> tuple[Target, ...]:
    found = parse_targets(info.name for info in world.discover())
    if not found:
        raise DeviceError("no GPU was found")
    return found


def _refusing(group: Target, reason: str, opener: Callable[[Target], Device]) -> Callable[[Target], Device]:
    def open_device(target: Target) -> Device:
        if target == group:
            raise DeviceError(reason)
        return opener(target)

    return open_device
