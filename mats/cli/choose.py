"""Which targets a command works on, alone or together, what its passive probes look at, and what is said about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mats.cli.options import Values, evidence_option
from mats.cli.outputs import RUN_FILE, load_run
from mats.cli.world import World
from mats.device import Device, DeviceError
from mats.fabric import Fabric, Lender
from mats.model import Run
from mats.probe import Probe, UsageError
from mats.source import NothingThere
from mats.target import ALL, Target, evidence, gpus_together, parse_gpu_ids, parse_targets

ALL_GPUS = Target("cuda", ALL)
PRESENCE_LIMIT = 5.0
"""Seconds that may be spent to learn whether there is a GPU at all."""


OpenDevice = Callable[[Target], Device]
OpenFabric = Callable[[Target, Mapping[str, object], float | None], Fabric | Lender]


@dataclass(frozen=True, slots=True)
class Choice:
    """Devices to work on, sources to look at, and devices to work on together; ``note`` says why these, when the user
    named none.
    """

    targets: tuple[Target, ...]
    sources: tuple[Target, ...]
    fabrics: tuple[Target, ...]
    note: str
    open_device: OpenDevice
    open_fabric: OpenFabric

    @property
    def everything(self) -> tuple[Target, ...]:
        """All that is opened."""
        return (*self.targets, *self.sources, *self.fabrics)


def choose(values: Values, files: Mapping[str, str], world: World, probes: Sequence[Probe], asked: bool) -> Choice:
    """What was named by ``--target``, ``--gpu-id`` or as files; else all GPUs; else the host. Raises UsageError.

    ``files``: each with its name for people; ``probes``: those that are to be run; ``asked``: by name, so that each
    gets a target even if it does not fit.
    """
    named, gpus = values.get("target") or [], values.get("gpu-id") or []
    if named and gpus:
        raise UsageError("give --target or --gpu-id, not both")
    if files and (named or gpus):
        raise UsageError(f"give files or --{'target' if named else 'gpu-id'}, not both: files are what is looked at")
    active = [probe for probe in probes if not (probe.passive or probe.together)]
    passive = [probe for probe in probes if probe.passive]
    together = [probe for probe in probes if probe.together]
    if files:
        targets = _from_files(files, values, world, probes)
    elif named or gpus:
        targets = _with_evidence(parse_gpu_ids(gpus) if gpus else parse_targets(named), world, {})
    else:
        found = _found(world) if active else Choice((), (), (), "", _no_device, world.open_fabric)
        everything = (ALL_GPUS,)
        return dataclasses.replace(found, sources=everything * bool(passive), fabrics=everything * bool(together))
    devices, opener = _devices(targets, world) if active else ((), _no_device)
    return Choice(
        _of_runs([target for target in devices if asked or not target.paths], active, world, asked),
        _of_runs(_sources(targets), passive, world, asked) if passive else (),
        _of_runs(_fabrics(targets), together, world, asked) if together else (),
        "",
        opener,
        world.open_fabric,
    )


def _sources(targets: Iterable[Target]) -> tuple[Target, ...]:
    """What passive probes look at: all named GPUs as one machine, the host too stands for it, the rest one by one."""
    return _joined(targets, ("cuda", "host"))


def _fabrics(targets: Iterable[Target]) -> tuple[Target, ...]:
    """What is worked on together: all named GPUs, the rest one by one; without a GPU's name the GPUs are left alone."""
    return _joined(targets, ("cuda",))


def _joined(targets: Iterable[Target], kinds: tuple[str, ...]) -> tuple[Target, ...]:
    targets = tuple(targets)
    gpus = [target for target in targets if target.kind in kinds]
    return tuple(dict.fromkeys(gpus_together(gpus) if target in gpus else target for target in targets))


def _devices(targets: Iterable[Target], world: World) -> tuple[tuple[Target, ...], OpenDevice]:
    """The devices that are named, groups taken apart, and how they are opened."""
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
    return tuple(expanded), opener


def _from_files(files: Mapping[str, str], values: Values, world: World, probes: Sequence[Probe]) -> tuple[Target, ...]:
    """The targets of ``--from`` and what follows it: saved runs, or all files as the evidence of one machine."""
    option = evidence_option(probes)
    named = option is not None and values.get(option.name)
    for name in files:
        if not name:
            raise UsageError("a file to look at needs a name, and an empty one was given")
        if not world.path(name).exists() and not world.path(name).is_symlink():
            if not named:
                raise UsageError(f"there is no file {name!r}: files are named here, GPUs with --gpu-id")
            raise UsageError(f"{name} cannot be read: there is no such file or folder")
    targets = _with_evidence(tuple(Target("file", name) for name in files), world, files)
    runs = [target for target in targets if not target.paths]
    if runs and len(runs) < len(targets):
        raise UsageError(
            f"{runs[0].argument} is a saved run of mats and the other files are not: give one or the other"
        )
    return targets


def _with_evidence(targets: Sequence[Target], world: World, shown: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets with all files that are no saved runs as one, the evidence of one machine. Raises UsageError.

    ``shown``: names of files for people, where they are other ones.
    """
    files = [
        target.argument for target in targets if target.kind == "file" and not _is_run(world.path(target.argument))
    ]
    names = [shown.get(name, name) for name in files]
    together = evidence([str(world.path(name)) for name in files], names) if files else None
    found: dict[Target, None] = {}
    for target in targets:
        found.setdefault(together if together and target.kind == "file" and target.argument in files else target)
    return tuple(found)


def _is_run(path: Path) -> bool:
    """Whether a file or folder is a saved run, also a damaged one; what cannot be read is left to who reads it."""
    file = path / RUN_FILE if path.is_dir() else path
    if file.exists() and not file.is_file():  # a pipe without a writer would be waited for
        return False
    from mats.codec import looks_like_run

    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            return looks_like_run(stream)
    except OSError:
        return not path.is_dir()


def _of_runs(targets: Iterable[Target], probes: Sequence[Probe], world: World, asked: bool) -> tuple[Target, ...]:
    """The targets with each saved run of several taken apart into those that hold a result of these probes."""
    found: dict[Target, None] = {}
    for target in targets:
        if target.kind != "file" or target.paths:
            found.setdefault(target)
        else:
            found.update(dict.fromkeys(_parts(target, load_run(target.argument, world), probes, asked)))
    return tuple(found)


def _parts(target: Target, run: Run, probes: Sequence[Probe], asked: bool) -> list[Target]:
    names = {probe.name for probe in probes}
    told = {result.target for result in run.results if result.probe in names}
    parts = [info.name for info in run.targets if info.name in told] or [info.name for info in run.targets[:asked]]
    return [target if len(run.targets) == 1 else dataclasses.replace(target, part=name) for name in parts]


def _found(world: World) -> Choice:
    """All GPUs; the host where there is none. One that is there and cannot be used is not replaced by the host."""
    try:
        return Choice(_gpus(world), (), (), "", world.open_device, world.open_fabric)
    except DeviceError as error:
        reason = str(error).strip().rstrip(".")
    if _gpu_is_there(world):
        note = f"A GPU is there and cannot be used: {reason}. --target host tests the memory of the machine itself."
        opener = _refusing(ALL_GPUS, reason, world.open_device)
        return Choice((ALL_GPUS,), (), (), note, opener, _no_fabric(DeviceError(reason)))
    note = f"No GPU can be tested: {reason}. This is the memory of the machine itself (host)."
    return Choice((Target("host"),), (), (), note, world.open_device, _no_fabric(NothingThere(reason)))


def _gpu_is_there(world: World) -> bool:
    """Whether the machine has an NVIDIA GPU, whatever state it is in."""
    try:
        source = world.open_source(ALL_GPUS, PRESENCE_LIMIT)
        try:
            source.describe()
        finally:
            source.close()
    except (NothingThere, UsageError):
        return False
    except DeviceError:  # it is the driver that does not answer
        return True
    return True


def _gpus(world: World) -> tuple[Target, ...]:
    found = parse_targets(info.name for info in world.discover())
    if not found:
        raise DeviceError("no GPU was found")
    return found


def _refusing(group: Target, reason: str, opener: OpenDevice) -> OpenDevice:
    def open_device(target: Target) -> Device:
        if target == group:
            raise DeviceError(reason)
        return opener(target)

    return open_device


def _no_fabric(error: DeviceError) -> OpenFabric:
    def open_fabric(target: Target, options: Mapping[str, object], timeout: float | None) -> Fabric | Lender:
        raise error

    return open_fabric


def _no_device(target: Target) -> Device:
    raise AssertionError(f"{target.name}: no probe was to work on a device")
