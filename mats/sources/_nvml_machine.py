"""A machine through NVML: its driver and its GPUs, within a time limit and whatever the driver does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from mats.facts import UNASKED, GpuFacts, MachineFacts, PairFacts, Text, pci_address
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._nvml_answers import count, text
from mats.sources._nvml_gpu import Reader, Rehearsal, RemoteGpu, named_by, read_gpu, sample_gpu, unknown_gpu
from mats.sources._nvml_library import Library
from mats.sources._nvml_links import read_pairs
from mats.sources._nvml_process import CALL_SECONDS, START_SECONDS, Nvml, Question

READ_SECONDS = 30.0
SAMPLE_SECONDS = 10.0
_CALLS_THAT_HANG = 4
"""So many may use up the time that there is for all: a short one leaves some for the rest, too."""
_OF_THE_SYSTEM = ("nvmlDeviceGetCount", "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion")


def read_machine(
    selection: Sequence[str] = (),
    *,
    timeout: float = READ_SECONDS,
    call_timeout: float = CALL_SECONDS,
    start_timeout: float = START_SECONDS,
    library: Library | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> MachineFacts:
    """Everything that NVML tells of this machine; never raises for what the driver does.

    ``selection``: GPUs by index, UUID or PCI address; all when empty. One that is not there is a GPU that does not
    answer. ``timeout``: seconds for all of it; ``call_timeout``: for one call, ``start_timeout``: for NVML's start and
    for the first sight of a GPU. ``library``: a stand-in for NVML.
    """
    reading = begin(
        selection,
        timeout=timeout,
        call_timeout=call_timeout,
        start_timeout=start_timeout,
        library=library,
        clock=clock,
    )
    return reading.result()


class Reading:
    """A reading that goes on while something else is done; :meth:`result` waits for it. To be closed if not awaited."""

    def __init__(self, nvml: Nvml, selection: tuple[str, ...]) -> None:
        self._nvml, self._selection = nvml, selection

    def result(self) -> MachineFacts:
        try:
            return _read(self._nvml, self._selection, read_gpu, whole=True)
        finally:
            self._nvml.close()

    def close(self) -> None:
        """Ends it. Safe to call twice."""
        self._nvml.close()


def begin(
    selection: Sequence[str] = (),
    *,
    timeout: float = READ_SECONDS,
    call_timeout: float = CALL_SECONDS,
    start_timeout: float = START_SECONDS,
    library: Library | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reading:
    """As :func:`read_machine`, without waiting for it."""
    nvml = Nvml(
        library,
        timeout=timeout,
        call_timeout=min(call_timeout, timeout / _CALLS_THAT_HANG),
        start_timeout=start_timeout,
        clock=clock,
    )
    nvml.send([(None, call, ()) for call in _OF_THE_SYSTEM])
    return Reading(nvml, tuple(selection))


class Sampler:
    """Reads again and again what changes from moment to moment, through one child process that is kept.

    ``with Sampler() as sampler: sampler.sample()``; ``seconds`` is what the last sample took.
    """

    def __init__(
        self,
        selection: Sequence[str] = (),
        *,
        timeout: float = SAMPLE_SECONDS,
        call_timeout: float = CALL_SECONDS,
        library: Library | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._selection, self._timeout, self._clock = tuple(selection), timeout, clock
        self._nvml = Nvml(library, timeout=timeout, call_timeout=call_timeout, clock=clock)
        self.seconds = 0.0

    def sample(self) -> MachineFacts:
        """Temperature, power, clocks, P-state, how busy, memory and processes of each GPU."""
        started = self._clock()
        self._nvml.forget(self._timeout)
        facts = _read(self._nvml, self._selection, sample_gpu, whole=False)
        self.seconds = self._clock() - started
        return facts

    @property
    def child(self) -> int | None:
        """Process number of the child, whose cost is the tool's own."""
        return self._nvml.child_number

    def close(self) -> None:
        """Ends the child. Safe to call twice."""
        self._nvml.close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(nvml: Nvml, selection: tuple[str, ...], read: Reader, *, whole: bool) -> MachineFacts:
    attached = nvml.ask(None, "number of GPUs", "nvmlDeviceGetCount")
    driver = text(nvml.ask(None, "driver version", "nvmlSystemGetDriverVersion"))
    if isinstance(attached, Absent):
        refused = nvml.refused or attached
        why = refused.reason
        return MachineFacts(
            driver=driver,
            library=_library(nvml),
            nvml_failure=why if why.startswith("NVML") else f"NVML: {why}",
            attached=attached,
            gpus=refused,
            slow_calls=tuple(nvml.slow_calls),
        )
    wanted = _chosen(nvml, int(attached), selection)
    gpus = _read_gpus(nvml, [index for index in wanted if isinstance(index, int)], read, driver)
    lost = [_not_there(name, int(attached), driver) for name in wanted if isinstance(name, str)]
    return MachineFacts(
        driver=driver,
        cuda=_cuda(nvml) if whole else UNASKED,
        library=_library(nvml) if whole else UNASKED,
        nvml_failure=Absent(AbsenceKind.NOT_FOUND, "NVML: it has started and told of its GPUs"),
        virtualisation=_virtualisation(gpus) if whole else UNASKED,
        attached=count(attached),
        gpus=(*gpus, *lost),
        pairs=_pairs(nvml, gpus) if whole else UNASKED,
        slow_calls=tuple(nvml.slow_calls),
    )


def _read_gpus(nvml: Nvml, indices: list[int], read: Reader, driver: Text) -> list[GpuFacts]:
    """One after another. What the first was asked is sent ahead for the others: they are mostly alike."""
    gpus: list[GpuFacts] = []
    for place, index in enumerate(indices):
        if place == 0:
            rehearsal = Rehearsal()
            read(rehearsal, index, driver)
            nvml.send(rehearsal.asked)
        nvml.asked.clear()
        gpus.append(read(nvml, index, driver))
        if place == 0:
            pattern = [question for question in nvml.asked if question[0] is not None]
            nvml.send(_of_gpu(question, other) for other in indices[1:] for question in pattern)
    return gpus


def _of_gpu(question: Question, index: int) -> Question:
    subject, call, arguments = question
    return (index, subject[1]) if isinstance(subject, tuple) else index, call, arguments


def _chosen(nvml: Nvml, attached: int, selection: tuple[str, ...]) -> list[int | str]:
    """Indices of the GPUs that are meant, and the names of those that are not there."""
    if not selection:
        return list(range(attached))
    chosen: dict[int | str, None] = {}
    for name in selection:
        if name.isdecimal():
            chosen[int(name) if int(name) < attached else name] = None
            continue
        address = pci_address(name)
        wanted = (address if isinstance(address, str) else name).lower()
        found: list[int | str] = [index for index in range(attached) if wanted in _names(nvml, index)]
        chosen.update(dict.fromkeys(found or [name]))
    return list(chosen)


def _names(nvml: Nvml, index: int) -> tuple[str, ...]:
    gpu = RemoteGpu(nvml, index)
    pci = gpu.ask("PCI address", "PciInfo")
    return named_by(
        GpuFacts(
            uuid=text(gpu.ask("UUID", "UUID")), pci=pci if isinstance(pci, Absent) else pci_address(str(pci["busId"]))
        )
    )


def _not_there(name: str, attached: int, driver: Text) -> GpuFacts:
    listed = f"lists {attached}" if attached else "lists none"
    why = Absent(AbsenceKind.NOT_FOUND, f"GPU {name}: the driver knows no such GPU (it {listed})")
    gpu = unknown_gpu(0, driver, why)
    if name.isdecimal():
        return replace(gpu, index=Quantity(int(name), Unit.COUNT))
    address = pci_address(name)
    return replace(gpu, index=why, uuid=name) if isinstance(address, Absent) else replace(gpu, index=why, pci=address)


def _cuda(nvml: Nvml) -> Text:
    number = nvml.ask(None, "CUDA version", "nvmlSystemGetCudaDriverVersion_v2")
    return number if isinstance(number, Absent) else f"{number // 1000}.{number % 1000 // 10}"


def _library(nvml: Nvml) -> Text:
    """NVML's own version is that of CUDA, then that of the driver that it came with."""
    version = text(nvml.ask(None, "version of the NVML library", "nvmlSystemGetNVMLVersion"))
    return version if isinstance(version, Absent) else version.partition(".")[2] or version


def _virtualisation(gpus: list[GpuFacts]) -> Text:
    """What the GPUs say of the machine: passed through and virtual ones are those of virtual machines."""
    told = [gpu.virtualisation for gpu in gpus if isinstance(gpu.virtualisation, str)]
    if told:
        return next((word for word in told if word != "None"), told[0])
    absent = [gpu.virtualisation for gpu in gpus if isinstance(gpu.virtualisation, Absent)]
    return absent[0] if absent else Absent(AbsenceKind.NOT_FOUND, "virtualisation: no GPU tells it")


def _pairs(nvml: Nvml, gpus: list[GpuFacts]) -> tuple[PairFacts, ...] | Absent:
    alive = [
        (int(gpu.index.value), RemoteGpu(nvml, int(gpu.index.value)), gpu)
        for gpu in gpus
        if isinstance(gpu.index, Quantity) and gpu.answers is True
    ]
    return read_pairs(alive)
