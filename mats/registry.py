"""What exists: probes, reports, devices, limits and faults, found by looking in their folders.

Core never imports a leaf by name: a probe is there because its file is in ``probes/`` and ends with ``PROBE``.
Nothing is kept here between calls; Python's own module table makes the second look cheap.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from mats.device import Device, DeviceError
from mats.probe import Probe, UsageError
from mats.report import Report
from mats.source import NothingThere

if TYPE_CHECKING:
    from mats.fabric import Fabric, Lender
    from mats.model import Limit, TargetInfo
    from mats.source import Source
    from mats.target import Target

PROBES = "mats.probes"
REPORTS = "mats.reports"
DEVICES = "mats.devices"
SOURCES = "mats.sources"
PEER = "mats.peer"
_FAMILIES = {"cuda": "_cuda_ipc", "sim": "_sim_ipc"}
"""Kinds of device whose memory another process can borrow, and the module that makes it known."""
_MODULES = {"file": "replay"}
"""Kinds of target whose device module has another name."""


class RegistryError(Exception):
    """A leaf is not made as it must be: a mistake in its file, not of the user."""


class Fault(Protocol):
    """One entry of the fault catalogue: what its errors look like, what causes it, what to do."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OwnedLimit:
    """A limit with the probe that declares it."""

    probe: Probe
    limit: Limit


def probes(package: str = PROBES) -> dict[str, Probe]:
    """Every probe by its name, in the order of ``mats all``. Raises RegistryError."""
    found = {}
    for name, module in _modules(package):
        probe = getattr(module, "PROBE", None)
        if not isinstance(probe, Probe):
            raise RegistryError(
                f"{package}.{name} has no PROBE: a probe's file ends with one, a helper's starts with _"
            )
        if probe.name in found:
            raise RegistryError(f"two probes are named {probe.name}")
        found[probe.name] = probe
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def reports(package: str = REPORTS) -> dict[str, Report]:
    """Every report by its name. Raises RegistryError."""
    found = {}
    for name, module in _modules(package):
        report = getattr(module, "REPORT", None)
        if not isinstance(report, Report):
            raise RegistryError(
                f"{package}.{name} has no REPORT: a report's file ends with one, a helper's starts with _"
            )
        found[report.name] = report
    return found


def report_module(name: str, package: str = REPORTS) -> ModuleType:
    """The module of a report, for what it offers beside ``render``. Raises RegistryError."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        raise RegistryError(f"there is no report {name}") from error


def page(probe: Probe, package: str = PROBES) -> str:
    """The docstring of the file that a probe is in: its page."""
    for _name, module in _modules(package):
        if getattr(module, "PROBE", None) is probe and module.__doc__:
            return module.__doc__.strip()
    return probe.question


def limits(found: Mapping[str, Probe]) -> dict[str, OwnedLimit]:
    """Every limit of these probes by its code. Raises RegistryError for a code used twice."""
    by_code: dict[str, OwnedLimit] = {}
    for probe in found.values():
        for limit in probe.limits:
            if limit.code in by_code:
                raise RegistryError(
                    f"limit {limit.code} is declared by {by_code[limit.code].probe.name} and {probe.name}"
                )
            by_code[limit.code] = OwnedLimit(probe, limit)
    return by_code


def faults(package: str = PROBES) -> dict[str, Fault]:
    """The fault catalogue: what the probes' files offer as ``CATALOGUE``, together."""
    catalogue: dict[str, Fault] = {}
    for _name, module in _modules(package):
        catalogue.update(getattr(module, "CATALOGUE", None) or {})
    return catalogue


def open_device(target: Target) -> Device:
    """The device of one target, open; the caller closes it. Raises DeviceError or UsageError."""
    if target.paths:
        raise DeviceError(
            f"{target.argument} is saved evidence and no run of mats: there is no memory in it to work on; "
            "mats health --from reads it"
        )
    device: Device = _device_function(target.kind, "open_device")(target)
    return device


def open_source(
    target: Target, timeout: float | None = None, open_device: Callable[[Target], Device] = open_device
) -> Source:
    """The source of passive state that ``target`` names, open; the caller closes it.

    The function is found by the target's kind, under one name everywhere:

    - cuda: ``mats.sources.live.open_source(selection: tuple[str, ...], timeout: float | None,
      open_device: Callable[[Target], Device])``. ``selection``: indices, UUIDs and PCI addresses as the user wrote
      them; empty: all GPUs. ``open_device(Target("cuda", UUID))`` opens the device that warms a link.
    - sim: ``mats.devices._sim_source.open_source(target: Target, timeout: float | None)``; the simulated card beside it
      takes long to load.
    - file: ``mats.sources.saved.open_source(paths: tuple[Path, ...], shown: tuple[str, ...])`` of files, which together
      tell of one machine, with their names for people;
      ``mats.devices.replay.open_source(target: Target)`` of a saved run.

    ``timeout``: seconds from now within which describe and read have to be done together; what could not be had in
    them is absent as timed out. None: no bound of the whole, each call to a driver still has one of its own.
    Raises NothingThere where there is no GPU to tell about, else SourceError, or UsageError for a selection or a name
    that does not exist.
    """
    source: Source
    match target.kind:
        case "cuda":
            source = _function(SOURCES, "live", "cuda", "open_source")(target.selection, timeout, open_device)
        case "file" if target.paths:
            paths = tuple(Path(path) for path in target.paths)
            source = _function(SOURCES, "saved", "file", "open_source")(paths, target.shown)
        case "sim":
            source = _function(DEVICES, "_sim_source", "sim", "open_source")(target, timeout)
        case kind:
            source = _device_function(kind, "open_source")(target)
    return source


def open_fabric(
    target: Target,
    options: Mapping[str, object],
    timeout: float | None = None,
    open_device: Callable[[Target], Device] = open_device,
) -> Fabric | Lender:
    """The devices that ``target`` names and the ways between them, open; the caller closes it.

    ``options``: those of the probe. With ``mode`` "server" it is a Lender, with "client" a Fabric of a device of this
    process and one of the server's; else a Fabric of all devices of the target. What is opened is found by its kind:

    - cuda: ``mats.devices._cuda_fabric.open_fabric(target: Target, open_device: Callable[[Target], Device])``.
      ``open_device(Target("cuda", UUID))`` opens a member; ``target.selection`` as for a source.
    - sim: ``mats.devices._sim_fabric.open_fabric(target: Target)``.
    - file: ``mats.devices._saved_fabric.open_fabric(paths: tuple[Path, ...], shown: tuple[str, ...])`` of files: no
      members, facts alone;
      ``mats.devices.replay.open_device(target: Target)`` of a saved run.
    - server: ``mats.peer.meeting.serve(family, options, timeout) -> Lender``, client:
      ``mats.peer.meeting.join(family, options, timeout) -> Fabric``. ``family``: a :class:`mats.peer.lending.Family`,
      given by ``open_family(target: Target, open_device: Callable[[Target], Device])`` of
      ``mats.devices._cuda_ipc`` or ``mats.devices._sim_ipc``; a target of all GPUs stands for any one of them.

    ``timeout``: seconds that the whole probe may take, or None. Raises NothingThere where there are not two devices,
    DeviceError, or UsageError for options or names that cannot be.
    """
    mode = options.get("mode")
    if mode in ("server", "client"):
        if target.kind not in _FAMILIES:
            raise UsageError(f"--mode {mode} works with GPUs and with simulated cards, not with {target.name}")
        family = _function(DEVICES, _FAMILIES[target.kind], target.kind, "open_family")(target, open_device)
        door: Fabric | Lender = _function(PEER, "meeting", target.kind, "serve" if mode == "server" else "join")(
            family, options, timeout
        )
        return door
    match target.kind:
        case "cuda":
            door = _function(DEVICES, "_cuda_fabric", "cuda", "open_fabric")(target, open_device)
        case "sim":
            door = _function(DEVICES, "_sim_fabric", "sim", "open_fabric")(target)
        case "file" if target.paths:
            paths = tuple(Path(path) for path in target.paths)
            door = _function(DEVICES, "_saved_fabric", "file", "open_fabric")(paths, target.shown)
        case "file":
            door = _device_function("file", "open_device")(target)
        case kind:
            raise NothingThere(f"{kind} is one memory: there is no way between GPUs in it")
    return door


def discover() -> tuple[TargetInfo, ...]:
    """The GPUs of this machine. Raises DeviceError with the reason when there is none that can be used."""
    found: tuple[TargetInfo, ...] = tuple(_device_function("cuda", "discover")())
    if not found:
        raise DeviceError("no GPU was found")
    return found


def plans() -> tuple[tuple[str, str], ...]:
    """Name and summary of each plan that is built into the simulator. Raises DeviceError."""
    return tuple(_device_function("sim", "plans")())


def plan_example() -> str:
    """A plan of the user's own as it is written for the simulator. Raises DeviceError."""
    example: str = _device_function("sim", "plan_example")()
    return example


def _device_function(kind: str, function: str) -> Callable[..., Any]:
    return _function(DEVICES, _MODULES.get(kind, kind), kind, function)


def _function(package: str, module_name: str, kind: str, function: str) -> Callable[..., Any]:
    """A function of the module that serves a kind of target. Raises UsageError, DeviceError."""
    name = f"{package}.{module_name}"
    what = "source" if package == SOURCES else "device"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise UsageError(f"this mats has no {what} for {kind} targets") from error
        raise DeviceError(f"{kind} targets need the Python module {error.name}, which is not installed") from error
    except ImportError as error:
        raise DeviceError(f"{kind} targets cannot be used: {error}") from error
    found: Callable[..., Any] | None = getattr(module, function, None)
    if found is None:
        raise UsageError(f"{kind} targets cannot be used so: {name} has no {function}")
    return found


def _modules(package: str) -> list[tuple[str, ModuleType]]:
    """The public modules of a package, by name."""
    folder = importlib.import_module(package)
    names = sorted(info.name for info in pkgutil.iter_modules(folder.__path__) if not info.name.startswith("_"))
    return [(name, importlib.import_module(f"{package}.{name}")) for name in names]
