"""The passive state of a simulated machine: the real nvidia-ml-py over the stand-in for NVML, its log and its bus.

A driver profile tells what NVML answers, and if wanted the kernel's log and the PCI state. A plan of a memory has the
driver of a healthy card.
"""

from __future__ import annotations

import math
from dataclasses import replace

from mats.device import DeviceError
from mats.devices._sim_caches import PLANS, WITH_CACHE, caches
from mats.facts import GpuFacts, HostFacts, LogFacts, MachineFacts, PciDevice
from mats.model import AbsenceKind, Absent, Quantity, Reading, TargetInfo, Unit
from mats.probe import UsageError
from mats.source import NothingThere, SourceError
from mats.sources import _mock_profiles as profiles
from mats.sources._mock_profiles import Profile
from mats.sources._picture import describe, nothing_there, title_of
from mats.sources.nvml import begin
from mats.target import Target

HEALTHY = "healthy"
_NOT_SIMULATED = Absent(AbsenceKind.NOT_TESTED, "this simulated machine does not tell it")


def find_profile(argument: str) -> Profile:
    """The driver profile of ``sim:ARGUMENT``; that of a healthy card for a plan of a memory. Raises UsageError."""
    if argument.endswith(profiles.SUFFIX) or argument in profiles.names():
        return profiles.find_profile(argument)
    from mats.devices._plans import plan_names  # all that memories can be, which a driver is asked without

    if argument.endswith(".toml") or argument.partition("@")[0] in dict(plan_names()) or argument in PLANS:
        return profiles.find_profile(HEALTHY)
    return profiles.find_profile(argument)


def open_source(target: Target, timeout: float | None = None) -> SimSource:
    """The simulated machine of ``sim:PROFILE``. Raises UsageError, NothingThere, or SourceError without a compiler."""
    source = SimSource(find_profile(target.argument), target.name, timeout, target.argument)
    source.describe()
    return source


class SimSource:
    """Implements :class:`mats.source.Source` over one driver profile."""

    def __init__(self, profile: Profile, name: str, timeout: float | None = None, plan: str = "") -> None:
        """``plan``: what a process on the machine does with its memory; none of it where there is no such plan."""
        self._profile, self._name, self._plan = profile, name, plan
        self._timeout = math.inf if timeout is None else timeout
        self._first: MachineFacts | None = None

    def describe(self) -> TargetInfo:
        if self._first is None:
            self._first = self._read()
        why = nothing_there(self._first)
        if why:
            raise NothingThere(f"{self._name}: {why}")
        title = f"simulated driver, profile {self._profile.name} ({title_of(self._first)})"
        return replace(describe(self._first, self._name, "sim", title, "sim"), simulated=True)

    def read(self, *, load: bool = False) -> MachineFacts:
        machine, self._first = self._first or self._read(), None
        if not load or isinstance(machine.gpus, Absent):
            return machine
        return replace(machine, gpus=tuple(self._loaded(place, gpu) for place, gpu in enumerate(machine.gpus)))

    def close(self) -> None:
        """Nothing is held between two readings."""

    def _read(self) -> MachineFacts:
        try:
            library = self._profile.library
        except DeviceError as error:
            raise SourceError(str(error)) from error
        reading = begin(timeout=self._timeout, library=library)
        try:  # while the other process starts and asks
            devices, log, host = _devices(self._profile), _log(self._profile), _host(self._profile)
        except UsageError:
            reading.close()
            raise
        module = self._profile.entries.get(("host", "module"), _NOT_SIMULATED)
        told = reading.result()
        held = caches(self._plan) if self._plan in WITH_CACHE else ()
        return replace(told, devices=devices, log=log, host=host, kernel_module=module, caches=held, simulated=True)

    def _loaded(self, index: int, gpu: GpuFacts) -> GpuFacts:
        """A link that is kept busy is as fast as it can be, unless the profile says ``pcie.loaded``."""
        now = gpu.pcie
        told = self._profile.value(index, "pcie.loaded")
        generation, width = _numbers(told, self._profile) if told else (now.generation_maximum, now.width_maximum)
        if isinstance(now.generation, Absent) or isinstance(now.width, Absent):
            return gpu  # there is no link that could be seen
        idle = replace(now, loaded=True, idle_generation=now.generation, idle_width=now.width)
        return replace(gpu, pcie=replace(idle, generation=generation, width=width))


def _devices(profile: Profile) -> tuple[PciDevice, ...] | Absent:
    if not profile.pci:
        return _NOT_SIMULATED
    from mats.sources.lspci import LspciError, parse_lspci

    try:
        return parse_lspci(profile.pci).devices
    except LspciError as error:
        raise UsageError(f"{profile.path}, [pci]: {error}") from error


def _log(profile: Profile) -> LogFacts | Absent:
    if not profile.log:
        return _NOT_SIMULATED
    from mats.sources._events import LogError
    from mats.sources._log_facts import log_facts
    from mats.sources.kernel_log import NamedLog, parse_kernel_log

    try:
        return log_facts([NamedLog(f"the log of sim:{profile.name}", parse_kernel_log(profile.log))])
    except LogError as error:
        raise UsageError(f"{profile.path}, [log]: {error}") from error


def _host(profile: Profile) -> HostFacts:
    """What ``[host]`` tells; nothing of the machine that simulates is taken for it."""

    def told(key: str) -> str | Absent:
        return profile.entries.get(("host", key), _NOT_SIMULATED)

    def flag(key: str) -> bool | Absent:
        text = told(key)
        return text if isinstance(text, Absent) else text == "yes"

    def listed(key: str) -> tuple[str, ...] | Absent:
        text = told(key)
        return text if isinstance(text, Absent) else tuple(part.strip() for part in text.split(",") if part.strip())

    memory = told("memory")
    if not isinstance(memory, Absent) and not memory.isdecimal():
        raise UsageError(f"{profile.path}, [host]: memory wants a number of bytes")
    return HostFacts(
        system=told("system"),
        kernel=told("kernel"),
        wsl=flag("wsl"),
        container=told("container"),
        nodes=listed("nodes"),
        modules=listed("modules"),
        fabric_manager=told("fabric_manager"),
        fabric_manager_version=told("fabric_manager_version"),
        persistence_daemon=told("persistence_daemon"),
        memory_total=memory if isinstance(memory, Absent) else Quantity(int(memory), Unit.BYTE),
    )


def _numbers(text: str, profile: Profile) -> tuple[Reading, Reading]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise UsageError(f"{profile.path}: pcie.loaded wants a generation and a width, such as 4, 8")
    return Quantity(int(parts[0]), Unit.COUNT), Quantity(int(parts[1]), Unit.COUNT)
