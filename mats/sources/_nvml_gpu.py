"""One GPU through NVML: every fact that the driver can tell of it, each by itself or absent with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mats.facts import (
    Flag,
    GpuFacts,
    InforomFacts,
    MigFacts,
    MigInstance,
    RecoveryAction,
    RecoveryFacts,
    Text,
    pci_address,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading
from mats.sources import _nvml_links as links
from mats.sources import _nvml_memory as memory
from mats.sources import _nvml_state as state
from mats.sources._nvml_answers import Asked, Fields, count, flag, full_name, part, text, word
from mats.sources._nvml_child import HANDLE
from mats.sources._nvml_process import Question, Subject

_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}
_ADDRESSING = {0: "None", 1: "HMM", 2: "ATS"}
_VIRTUALISATION = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
_INFOROM = (("OEM object", 0), ("ECC object", 1), ("power object", 2))
_CORRUPTED_INFOROM = "InfoROM is corrupted"
_RECOVERY, _RESET_STATUS, _DRAIN_STATUS = 230, 226, 227
_ACTIONS = tuple(RecoveryAction)
"""In the order of NVML's numbers, 0 to 7."""
_WORDS_OF_A_MASK = 32
"""64-bit words: 2048 processors."""
_MASK_OF_NODES = 16


class Asks(Protocol):
    """A conversation with NVML, as :class:`mats.sources._nvml_process.Nvml` holds it."""

    def ask(self, subject: Subject, what: str, call: str, *arguments: Any) -> Any | Absent: ...

    def send(self, questions: Iterable[Question]) -> None: ...


class Rehearsal:
    """Answers nothing and notes what would be asked of any GPU, whatever it answers."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def ask(self, subject: Subject, what: str, call: str, *arguments: Any) -> Any | Absent:
        self.asked.append((subject, call, arguments))
        return None if call == HANDLE else Absent(AbsenceKind.NOT_TESTED, f"{what}: a rehearsal")

    def send(self, questions: Iterable[Question]) -> None:
        self.asked.extend(questions)


@dataclass(frozen=True, slots=True)
class RemoteGpu:
    """A GPU, or a MIG device of one, that is asked through the child process."""

    nvml: Asks
    subject: int | tuple[int, int]

    def ask(self, what: str, call: str, *arguments: Any) -> Any | Absent:
        name = full_name(call)
        return self.nvml.ask(None if name.startswith("nvmlSystem") else self.subject, what, name, *arguments)

    def ahead(self, call: str, arguments: Iterable[tuple[Any, ...]]) -> None:
        self.nvml.send([(self.subject, full_name(call), each) for each in arguments])


def read_gpu(nvml: Asks, index: int, driver: Text) -> GpuFacts:
    """Everything of the GPU of this index, what health rests on first. Without a handle only the index is known."""
    gpu = RemoteGpu(nvml, index)
    handle = gpu.ask("GPU", HANDLE)
    if isinstance(handle, Absent):
        return unknown_gpu(index, driver, handle)
    known = _identified(gpu, index, driver)
    known = replace(known, recovery=_recovery(gpu), ecc=memory.read_all_ecc(gpu), remap=memory.read_all_remap(gpu))
    known = replace(known, retired=memory.read_retired(gpu), memory=memory.read_whole_memory(gpu), mig=_mig(gpu))
    temperature, speed, pcie = state.read_temperature(gpu), state.read_performance_state(gpu), links.read_pcie(gpu)
    now, power = state.read_power_facts(gpu)
    return replace(
        known,
        temperature=temperature,
        power=now,
        performance_state=speed,
        clocks=state.read_all_clocks(gpu),
        processes=state.read_processes(gpu, named=True),
        compute_capability=_capability(gpu),
        answers=_answers(temperature, known.memory.total, speed, pcie.generation),
        heat=state.read_heat(gpu),
        power_limits=power,
        pcie=pcie,
        window=memory.read_window(gpu),
        nvlink=links.read_nvlink(gpu),
        fabric=links.read_fabric(gpu),
        inforom=_inforom(gpu),
        persistence=flag(gpu.ask("persistence mode", "PersistenceMode")),
        compute_mode=word("compute mode", gpu.ask("compute mode", "ComputeMode"), _COMPUTE_MODES),
        driver_model=word("driver model", part(gpu.ask("driver model", "DriverModel"), 0), _DRIVER_MODELS),
        addressing=word("addressing mode", gpu.ask("addressing mode", "AddressingMode"), _ADDRESSING),
        virtualisation=word("virtualisation", gpu.ask("virtualisation", "VirtualizationMode"), _VIRTUALISATION),
        gsp=_gsp(gpu),
        busy=state.read_busy(gpu),
        numa=_numa(gpu),
        cpus=_cpus(gpu),
    )


def _identified(gpu: Asked, index: int, driver: Text) -> GpuFacts:
    """Which GPU it is: asked first, since the driver knows it of a GPU that answers nothing else, too."""
    pci = part(gpu.ask("PCI address", "PciInfo"), "busId")
    return GpuFacts(
        uuid=text(gpu.ask("UUID", "UUID")),
        name=text(gpu.ask("name", "Name")),
        driver=driver,
        index=count(index),
        pci=pci if isinstance(pci, Absent) else pci_address(str(pci)),
        serial=text(gpu.ask("serial number", "Serial")),
        vbios=text(gpu.ask("VBIOS version", "VbiosVersion")),
        architecture=word("architecture", gpu.ask("architecture", "Architecture"), _ARCHITECTURES),
    )


def sample_gpu(nvml: Asks, index: int, driver: Text) -> GpuFacts:
    """What changes from moment to moment: heat, power, clocks, how busy it is, memory and processes."""
    gpu = RemoteGpu(nvml, index)
    handle = gpu.ask("GPU", HANDLE)
    if isinstance(handle, Absent):
        return unknown_gpu(index, driver, handle)
    temperature, whole, speed = (
        state.read_temperature(gpu),
        memory.read_memory(gpu),
        state.read_performance_state(gpu),
    )
    pci = part(gpu.ask("PCI address", "PciInfo"), "busId")
    return GpuFacts(
        uuid=text(gpu.ask("UUID", "UUID")),
        name=text(gpu.ask("name", "Name")),
        driver=driver,
        temperature=temperature,
        power=state.read_power(gpu),
        performance_state=speed,
        clocks=state.read_sampled_clocks(gpu),
        memory=whole,
        processes=state.read_processes(gpu, named=True),
        index=count(index),
        pci=pci if isinstance(pci, Absent) else pci_address(str(pci)),
        answers=_answers(temperature, whole.total, speed),
        power_limits=state.read_power_limit(gpu),
        busy=state.read_busy(gpu),
    )


def unknown_gpu(index: int, driver: Text, why: Absent) -> GpuFacts:
    """A GPU of which the driver tells nothing but that it is there."""
    answers: Flag = False if why.kind is AbsenceKind.DEVICE_LOST else why
    base = GpuFacts()
    gone = {name: _absent(getattr(base, name), why) for name in GpuFacts.__slots__}
    return GpuFacts(**{**gone, "driver": driver, "index": count(index), "answers": answers})


def _absent(value: Any, why: Absent) -> Any:
    """A picture in which everything that may be absent is, for the same reason."""
    if isinstance(value, Absent):
        return why
    names = getattr(type(value), "__dataclass_fields__", None)
    return value if names is None else type(value)(**{name: _absent(getattr(value, name), why) for name in names})


def _answers(*readings: Reading) -> Flag:
    """Whether the GPU itself answers, by questions that no driver can answer without it."""
    absent = [each for each in readings if isinstance(each, Absent)]
    if len(absent) < len(readings):
        return True
    if any(each.kind is AbsenceKind.DEVICE_LOST for each in absent):
        return False
    late = [each for each in absent if each.kind in (AbsenceKind.TIMED_OUT, AbsenceKind.UNREADABLE)]
    return late[0] if late else True  # a refusal is an answer


def _capability(gpu: Asked) -> Text:
    told = gpu.ask("compute capability", "CudaComputeCapability")
    return told if isinstance(told, Absent) else f"{told[0]}.{told[1]}"


def _mig(gpu: RemoteGpu) -> MigFacts:
    mode = gpu.ask("MIG mode", "MigMode")
    enabled, pending = flag(part(mode, 0)), flag(part(mode, 1))
    if enabled is not True:
        return MigFacts(enabled, pending, enabled if isinstance(enabled, Absent) else ())
    most = gpu.ask("MIG instances", "MaxMigDeviceCount")
    if isinstance(most, Absent):
        return MigFacts(enabled, pending, most)
    assert isinstance(gpu.subject, int)
    instances = []
    for place in range(int(most)):
        instance = _instance(RemoteGpu(gpu.nvml, (gpu.subject, place)))
        if isinstance(instance, MigInstance):
            instances.append(instance)
        elif instance.kind not in (AbsenceKind.NOT_FOUND, AbsenceKind.NOT_SUPPORTED):
            return MigFacts(enabled, pending, instance)
    return MigFacts(enabled, pending, tuple(instances))


def _instance(device: RemoteGpu) -> MigInstance | Absent:
    number = device.ask("MIG instance", "GpuInstanceId")
    if isinstance(number, Absent):
        return number
    return MigInstance(
        gpu_instance=int(number),
        compute_instance=count(device.ask("compute instance", "ComputeInstanceId")),
        multiprocessors=count(part(device.ask("multiprocessors of an instance", "Attributes"), "multiprocessorCount")),
        sram_uncorrected=count(device.ask("uncorrected SRAM errors of an instance", "MemoryErrorCounter", 1, 0, 7)),
        memory=memory.read_memory(device),
        window=memory.read_window(device),
    )


def _inforom(gpu: Asked) -> InforomFacts:
    oem, ecc, power = (text(gpu.ask(f"InfoROM {name}", "InforomVersion", number)) for name, number in _INFOROM)
    valid = gpu.ask("InfoROM validation", "nvmlDeviceValidateInforom")
    corrupted: Flag = valid if isinstance(valid, Absent) else False
    if isinstance(valid, Absent) and _CORRUPTED_INFOROM in valid.reason:
        corrupted = True
    return InforomFacts(text(gpu.ask("InfoROM image", "InforomImageVersion")), oem, ecc, power, corrupted)


def _recovery(gpu: Asked) -> RecoveryFacts:
    """Field 230; drivers before 570 have two flags instead."""
    fields = Fields(gpu, "recovery action", _RECOVERY, _RESET_STATUS, _DRAIN_STATUS)
    told = fields.get("recovery action", _RECOVERY)
    action: RecoveryAction | Absent
    if isinstance(told, Absent):
        action = told
    elif 0 <= told < len(_ACTIONS):
        action = _ACTIONS[int(told)]
    else:  # never "none": it is something that this version does not know
        action = Absent(AbsenceKind.UNREADABLE, f"recovery action: {told} is not known to this version")
    return RecoveryFacts(
        action,
        flag(fields.get("reset required", _RESET_STATUS)),
        flag(fields.get("drain and reset recommended", _DRAIN_STATUS)),
    )


def _gsp(gpu: Asked) -> Text:
    enabled = part(gpu.ask("GSP firmware", "GspFirmwareMode"), 0)
    if enabled == 0:
        return Absent(AbsenceKind.NOT_SUPPORTED, "GSP firmware: it is not in use")
    return text(gpu.ask("GSP firmware", "GspFirmwareVersion"))


def _numa(gpu: Asked) -> Reading:
    nodes = gpu.ask("NUMA node", "MemoryAffinity", _MASK_OF_NODES, 0)
    if isinstance(nodes, Absent):
        return nodes
    numbers = _bits(nodes)
    return count(numbers[0]) if numbers else Absent(AbsenceKind.NOT_FOUND, "NUMA node: the driver names none")


def _cpus(gpu: Asked) -> Text:
    mask = gpu.ask("processor affinity", "CpuAffinity", _WORDS_OF_A_MASK)
    if isinstance(mask, Absent):
        return mask
    return _ranges(_bits(mask)) or Absent(AbsenceKind.NOT_FOUND, "processor affinity: the driver names none")


def _bits(words: tuple[int, ...]) -> list[int]:
    whole = sum(value << 64 * place for place, value in enumerate(words))
    return [number for number in range(whole.bit_length()) if whole >> number & 1]


def _ranges(numbers: list[int]) -> str:
    """``0-31,64-95`` of a rising list."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


Reader = Callable[[Asks, int, Text], GpuFacts]
"""Reads one GPU: :func:`read_gpu` or :func:`sample_gpu`."""


def named_by(gpu: GpuFacts) -> tuple[str, ...]:
    """What a user may call the GPU: its index, its UUID, its PCI address."""
    index = (str(int(gpu.index.value)),) if isinstance(gpu.index, Quantity) else ()
    return (*index, *(name.lower() for name in (gpu.uuid, gpu.pci) if isinstance(name, str)))
