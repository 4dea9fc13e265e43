"""The machine this runs on, as one picture: the driver, the bus, the kernel's log and the machine around them.

They are asked side by side, and one that fails or hangs makes its own part absent with the reason. A GPU that sleeps to
save power is not woken. NVML is asked through Python; nvidia-smi only where that cannot be done.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mats.device import Device
from mats.facts import NVIDIA, UNASKED, GpuFacts, MachineFacts, PciDevice
from mats.model import AbsenceKind, Absent, Quantity, Reading, TargetInfo, Unit
from mats.probe import UsageError
from mats.source import NothingThere, Source
from mats.sources import host, nvml, sysfs
from mats.sources._aside import side_by_side
from mats.sources._join import join, join_machines
from mats.sources._kernel_doors import KMSG, LogText, Run, first_door, read_journal, run_command
from mats.sources._nvml_gpu import unknown_gpu
from mats.sources._picture import chosen, describe, nothing_there, title_of
from mats.sources._warm import Port, warm
from mats.target import Target

PATIENCE = 60.0
"""Seconds for a part when the user gave no limit: none takes a second on a machine that is well."""
_SHARE = 0.85
"""Of a limit that reading may take: what comes after it, judging and writing, needs the rest."""
_LEAST = 0.2
_NVML_SHARE = 0.9
"""Of the time for all parts; NVML keeps to its limit itself and then still gives what it had by then."""
_SMI_SECONDS = 20.0
_OF_DRIVER = (b"NVRM", b"SXid", b"nvidia")
_HANDED_ON = ("vfio-pci", "vfio_pci")

if TYPE_CHECKING:
    from mats.sources.kernel_log import NamedLog

Selection = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """How each part is read, so that a test can give its own. ``root``: of /proc, /sys and /dev."""

    root: Path = Path("/")
    run: Run = run_command
    read_nvml: Callable[[Selection, float], MachineFacts] = lambda selection, seconds: nvml.read_machine(
        selection, timeout=seconds
    )
    find_program: Callable[[str], str | None] = shutil.which
    now: Callable[[], datetime] = lambda: datetime.now().astimezone()
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    hostname: str = ""
    environment: dict[str, str] | None = field(default=None)
    own: frozenset[int] = frozenset()
    """Processes, by the numbers under which the driver lists them, that are this one's and not users of a GPU."""


def open_source(
    selection: Selection, timeout: float | None, open_device: Callable[[Target], Device], machine: Machine | None = None
) -> Source:
    """This machine, read for the first time. ``selection``: GPUs by index, UUID or PCI address; all when empty.

    Raises NothingThere when there is no trace of an NVIDIA GPU, UsageError for a GPU that is not there.
    """
    return LiveSource(selection, timeout, open_device, machine or Machine())


class LiveSource:
    """Implements :class:`mats.source.Source`. ``timeout`` counts from its opening, over everything."""

    def __init__(
        self, selection: Selection, timeout: float | None, open_device: Callable[[Target], Device], machine: Machine
    ) -> None:
        self._selection, self._open_device, self._machine = selection, open_device, machine
        self._deadline = None if timeout is None else machine.clock() + _SHARE * timeout
        self._first: MachineFacts | None = read_machine(selection, self._remaining(), machine)
        self._info = describe(self._first, f"cuda:{','.join(selection) or 'all'}", "cuda", title_of(self._first))

    def describe(self) -> TargetInfo:
        return self._info

    def read(self, *, load: bool = False) -> MachineFacts:
        """The picture of the opening the first time, a new one each time after."""
        facts = self._first or read_machine(self._selection, self._remaining(), self._machine)
        self._first = None
        if not load:
            return facts
        return warm(facts, self._open_device, self._port, self._remaining, self._machine.sleep)

    def close(self) -> None:
        """Nothing is held."""

    def _remaining(self) -> float:
        if self._deadline is None:
            return PATIENCE
        return max(_LEAST, self._deadline - self._machine.clock())

    @property
    def _port(self) -> Port:
        tree = self._machine.root / "sys"
        return Port(partial(sysfs.read_links, tree), partial(sysfs.read_corrected, tree))


def read_machine(selection: Selection, seconds: float, machine: Machine) -> MachineFacts:
    """Everything at once. Raises NothingThere and UsageError."""
    end = machine.clock() + seconds
    bus = _bus(machine)
    sleeping = _sleeping(bus)
    asked = _questions(selection, bus, sleeping)
    parts = side_by_side(
        {
            **({} if asked is None else {"NVML": lambda: machine.read_nvml(asked, _NVML_SHARE * seconds)}),
            "kernel log": lambda: _log(machine, bool(_nvidia(bus))),
            "host": lambda: host.read_host(_around(machine)),
        },
        seconds,
    )
    driver = _driver(parts.get("NVML"), machine, max(_LEAST, end - machine.clock()))
    around = _part(parts["host"], "")
    log = parts["kernel log"]
    whole = join_machines((driver, bus, MachineFacts(log=log) if isinstance(log, Absent) else log, around))
    whole = replace(whole, taken=machine.now().isoformat(timespec="seconds"))
    why = nothing_there(whole, machine.root)
    if why:
        raise NothingThere(why, whole)
    whole = _without(_settled(whole, around, driver, sleeping), machine.own)
    if not selection:
        return whole

    def others() -> MachineFacts:
        """All that there are, for the sentence that names them; nobody is woken for it."""
        return MachineFacts() if sleeping else machine.read_nvml((), max(_LEAST, end - machine.clock()))

    return _narrowed(whole, selection, others)


def _held(bus: MachineFacts) -> list[str]:
    """Addresses of the GPUs that the driver holds, in the order in which NVML counts them: that of the addresses."""
    devices = _nvidia(bus)
    return sorted(each.address for each in devices if isinstance(each.driver, Absent) or each.driver == "nvidia")


def _sleeping(bus: MachineFacts) -> dict[str, Reading]:
    """The GPUs that sleep to save power, by their address, with their number."""
    held = _held(bus)
    asleep = [device.address for device in _nvidia(bus) if device.power_state == "suspended"]
    unknown = Absent(AbsenceKind.NOT_FOUND, "number of the GPU: its driver does not hold it")
    return {each: Quantity(held.index(each), Unit.COUNT) if each in held else unknown for each in asleep}


def _questions(selection: Selection, bus: MachineFacts, sleeping: Mapping[str, Reading]) -> Selection | None:
    """The GPUs that NVML is asked for; None when it must not be asked, since that would wake one that sleeps.

    NVML finds a GPU by its address or UUID only by asking all, so those that are awake are named by their number.
    """
    if not sleeping:
        return selection
    awake = [str(number) for number, address in enumerate(_held(bus)) if address not in sleeping]
    return tuple(awake) or None


def _bus(machine: Machine) -> MachineFacts:
    try:
        facts = sysfs.read_pci(machine.root / "sys")
    except sysfs.SysfsError as error:
        return MachineFacts(devices=Absent(AbsenceKind.UNREADABLE, f"PCI devices: {error}"))
    handed_on = [device for device in facts.gpus if device.vendor == NVIDIA and device.driver in _HANDED_ON]
    gone = {device.address for device in handed_on}
    seen = facts.machine()
    own = () if isinstance(seen.gpus, Absent) else tuple(gpu for gpu in seen.gpus if gpu.pci not in gone)
    notes = tuple(f"the GPU at {address} is handed on to a virtual machine and was not looked at" for address in gone)
    return replace(seen, gpus=own or UNASKED, devices=facts.devices, notes=notes)


def _nvidia(bus: MachineFacts) -> list[PciDevice]:
    devices = () if isinstance(bus.devices, Absent) else bus.devices
    return [device for device in devices if device.is_gpu and device.vendor == NVIDIA]


def _log(machine: Machine, expected: bool) -> MachineFacts:
    """``expected``: the bus shows a GPU of NVIDIA, so that a log which does not name its driver says something.

    The kernel's own buffer is small: where it has lost its beginning, the journal is read beside it.
    """
    first = first_door(machine.root, machine.run, lambda text: _parsed(text, machine.now(), expected))
    if isinstance(first, Absent):
        return MachineFacts(log=first)
    logs = [first]
    if first.origin == KMSG and not first.log.from_start:
        journal = read_journal(machine.run)
        more = journal if isinstance(journal, Absent) else _parsed(journal, machine.now(), True)
        logs += [] if isinstance(more, Absent) else [more]
    from mats.sources._log_facts import log_facts

    return MachineFacts(log=log_facts(logs))


def _parsed(text: LogText, now: datetime, expected: bool) -> NamedLog | Absent:
    """The parser is loaded when there is something to parse."""
    if not expected and not any(word in text.data for word in _OF_DRIVER):
        return Absent(AbsenceKind.NOT_FOUND, f"{text.origin}: it holds no line of the NVIDIA driver")
    from mats.sources import kernel_log

    return kernel_log.live_log(text, now=now, uptime=time.clock_gettime(time.CLOCK_MONOTONIC))


def _around(machine: Machine) -> host.Surroundings:
    plain = host.Surroundings(machine.root, machine.run, hostname=machine.hostname)
    return plain if machine.environment is None else replace(plain, environment=machine.environment)


def _part(part: MachineFacts | Absent, what: str) -> MachineFacts:
    return MachineFacts(notes=(part.reason,)) if isinstance(part, Absent) else part


def _driver(part: MachineFacts | Absent | None, machine: Machine, seconds: float) -> MachineFacts:
    """What NVML told; where it could not be used, what nvidia-smi tells; absent with the reason without both."""
    if part is None:
        why = Absent(AbsenceKind.NOT_TESTED, "the GPU sleeps to save power, and asking would wake it")
        return MachineFacts(nvml_failure=why, gpus=why, attached=why)
    if isinstance(part, Absent):
        return MachineFacts(nvml_failure=part.reason, gpus=part, attached=part)
    if not isinstance(part.gpus, Absent) or part.gpus.kind is AbsenceKind.TIMED_OUT:
        return part
    other = _ask_smi(machine, min(_SMI_SECONDS, seconds))
    if isinstance(other, Absent) or isinstance(other.gpus, Absent):
        return part
    note = f"{part.gpus.reason}; nvidia-smi was asked in its place"
    told = Absent(AbsenceKind.NOT_FOUND, f"a failure of NVML: {note}")
    return replace(join(other, part), nvml_failure=told, notes=(*other.notes, note))


def _ask_smi(machine: Machine, seconds: float) -> MachineFacts | Absent:
    if machine.find_program("nvidia-smi") is None:
        return Absent(AbsenceKind.NOT_FOUND, "nvidia-smi: it is not installed")
    from mats.sources import nvidia_smi

    try:
        done = machine.run(("nvidia-smi", "-q", "-x"), seconds)
        return nvidia_smi.read(done.output)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError, too
        return Absent(AbsenceKind.UNREADABLE, f"nvidia-smi: {error}")


def _settled(
    whole: MachineFacts, around: MachineFacts, driver: MachineFacts, sleeping: Mapping[str, Reading]
) -> MachineFacts:
    """The joined picture with what only all parts together tell.

    Its GPUs are those that the driver lists (where it cannot be asked, those that its kernel module holds) and those
    that sleep. What else is on the bus stays among the devices: a GPU that was lost, one that is another container's.
    """
    if isinstance(around.virtualisation, str) and around.virtualisation != "none":
        whole = replace(whole, virtualisation=around.virtualisation)
    if isinstance(whole.gpus, Absent):
        return whole
    told, held = driver.gpus, around.gpus
    listed = () if isinstance(told, Absent) else told
    known = {gpu.pci for gpu in listed}
    others = held if isinstance(told, Absent) and not isinstance(held, Absent) else ()
    wanted = {*known, *sleeping, *(gpu.pci for gpu in others)}
    gpus = [
        gpu if gpu.pci in known else _unasked(gpu, driver, sleeping)
        for gpu in whole.gpus
        if gpu.pci in wanted or isinstance(gpu.pci, Absent)
    ]
    if not gpus and isinstance(told, Absent):
        return replace(whole, gpus=told)
    return replace(whole, gpus=tuple(sorted(gpus, key=_rank)))


def _without(whole: MachineFacts, own: frozenset[int]) -> MachineFacts:
    """The picture as it would be without these processes."""
    if not own or isinstance(whole.gpus, Absent):
        return whole
    gpus = [
        gpu
        if isinstance(gpu.processes, Absent)
        else replace(gpu, processes=tuple(each for each in gpu.processes if each.pid not in own))
        for gpu in whole.gpus
    ]
    return replace(whole, gpus=tuple(gpus))


def _unasked(gpu: GpuFacts, driver: MachineFacts, sleeping: Mapping[str, Reading]) -> GpuFacts:
    """A GPU that the driver was not asked for, with the reason for all that only it could tell."""
    number = sleeping.get(gpu.pci) if isinstance(gpu.pci, str) else None
    why = Absent(AbsenceKind.NOT_TESTED, "the GPU sleeps to save power and was not woken to be asked")
    if number is None and isinstance(driver.gpus, Absent):
        why = driver.gpus
    silent = replace(unknown_gpu(0, driver.driver, why), index=number or why, answers=gpu.answers)
    return join(gpu, silent)


def _rank(gpu: GpuFacts) -> tuple[float, str]:
    index = float(gpu.index.value) if isinstance(gpu.index, Quantity) else float("inf")
    return index, gpu.pci if isinstance(gpu.pci, str) else ""


def _narrowed(whole: MachineFacts, selection: Selection, read_all: Callable[[], MachineFacts]) -> MachineFacts:
    """The selected GPUs. One that is not there is said beside those that are. Raises UsageError."""
    if isinstance(whole.gpus, Absent):
        raise UsageError(f"the GPUs of this machine cannot be told apart: {whole.gpus.reason}")
    attached = whole.attached.value if isinstance(whole.attached, Quantity) else None
    there = {device.address for device in _nvidia(whole)}
    real = tuple(gpu for gpu in whole.gpus if gpu.pci in there or not _invented(gpu, attached))
    try:
        return chosen(replace(whole, gpus=real), selection)
    except UsageError:
        every = join_machines((read_all(), replace(whole, gpus=real)))
        return chosen(every, selection)


def _invented(gpu: GpuFacts, attached: int | float | None) -> bool:
    """Made by NVML's reader for a name that the driver does not know."""
    if attached is None or not isinstance(gpu.answers, Absent) or gpu.answers.kind is not AbsenceKind.NOT_FOUND:
        return False
    beyond = isinstance(gpu.index, Quantity) and gpu.index.value >= attached
    return beyond or (isinstance(gpu.index, Absent) and "knows no such GPU" in gpu.answers.reason)
