"""What can be said of a whole picture: how it is titled, whether there is a GPU in it, and which GPUs were chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mats.facts import AMD, INTEL, NVIDIA, GpuFacts, LogFacts, MachineFacts, PciDevice, pci_address
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo
from mats.probe import UsageError

_OTHERS = {AMD: ("AMD", "amd-smi or rocm-smi"), INTEL: ("Intel", "xpu-smi")}
_PCI_NAMES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")
_LISTED = 16


def describe(machine: MachineFacts, name: str, kind: str, title: str, origin_kind: str = "cuda") -> TargetInfo:
    """The target that a source stands for. Of one GPU its identity; of several, their number is in the title."""
    gpus = () if isinstance(machine.gpus, Absent) else machine.gpus
    several = Absent(AbsenceKind.NOT_SUPPORTED, "a machine with several GPUs has no one memory")
    unknown = Absent(AbsenceKind.NOT_TESTED, "a source of passive state does not measure it")
    only = gpus[0] if len(gpus) == 1 else None
    identity = (
        [
            (word, value)
            for word, value in (("uuid", only.uuid), ("pci", only.pci), ("driver", machine.driver))
            if isinstance(value, str)
        ]
        if only
        else [("driver", machine.driver)]
        if isinstance(machine.driver, str)
        else []
    )
    return TargetInfo(
        name=name,
        kind=kind,
        title=title,
        memory_total=only.memory.total if only else several,
        cache_size=unknown,
        peak_bandwidth=unknown,
        peak_formula="",
        identity=tuple(identity),
        simulated=machine.simulated,
        origin_kind=origin_kind,
    )


def title_of(machine: MachineFacts) -> str:
    """How many GPUs, and what they are: "8 x NVIDIA H100 80GB HBM3"."""
    if isinstance(machine.gpus, Absent) or not machine.gpus:
        listed = max((run.gpus for run in machine.transfers), key=len, default=())
        if listed:
            return _named_alike([gpu.name for gpu in listed if isinstance(gpu.name, str)], len(listed))
        return f"no list of GPUs ({', '.join(_beside(machine)) or 'nothing else is told'})"
    names = [gpu.name for gpu in machine.gpus if isinstance(gpu.name, str)]
    return _named_alike(names, len(machine.gpus))


def _named_alike(names: list[str], count: int) -> str:
    if len(set(names)) == 1 and len(names) == count:
        return names[0] if count == 1 else f"{count} x {names[0]}"
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _beside(machine: MachineFacts) -> list[str]:
    """What a picture without GPUs holds."""
    held = ["events of a kernel log"] if isinstance(machine.log, LogFacts) else []
    if not isinstance(machine.devices, Absent):
        held.append("PCI devices")
    held += dict.fromkeys([run.tool for run in machine.transfers] + [claim.tool for claim in machine.claims])
    held += dict.fromkeys(cache.allocator.value for cache in machine.caches)
    if isinstance(machine.nvml_failure, str):
        held.append("a message of the driver's tool")
    return held


def nothing_there(machine: MachineFacts, root: Path | None = None) -> str:
    """Why there is no NVIDIA GPU that the picture could tell about, in a sentence; empty when there is one.

    A trace is enough: a card on the bus, a device file, an event of the driver in the log, what another tool said.
    ``root``: where names of other makers' cards are looked up; without it numbers are given.
    """
    devices = () if isinstance(machine.devices, Absent) else machine.devices
    nodes = () if isinstance(machine.host.nodes, Absent) else machine.host.nodes
    incidents = machine.log.incidents if isinstance(machine.log, LogFacts) else ()
    traces = (
        not isinstance(machine.gpus, Absent) and machine.gpus,
        [device for device in devices if device.vendor == NVIDIA or isinstance(device.vendor, Absent)],
        nodes,
        isinstance(machine.kernel_module, str),  # it does not load without a card
        isinstance(machine.host.product, str) and "NVIDIA" in machine.host.product,  # a Jetson, a DGX
        [each for each in incidents if each.kind not in ("pcie", "bar", "link_limit")],
        machine.claims,
        machine.transfers,
        machine.caches,
    )
    if any(traces):
        return ""
    return "; ".join(["there is no NVIDIA GPU here: " + _why_none(machine), *other_makers(machine, root)])


def _why_none(machine: MachineFacts) -> str:
    why = []
    if isinstance(machine.nvml_failure, str):
        why.append(machine.nvml_failure.rstrip("."))
    elif isinstance(machine.attached, Quantity) and machine.attached.value == 0:
        why.append("the driver lists none")
    if isinstance(machine.devices, Absent):
        why.append("the PCI bus could not be looked at")
    else:
        why.append("none is on the PCI bus")
    if not isinstance(machine.host.nodes, Absent):
        why.append("there is no device file of one")
    return ", ".join(why)


def other_makers(machine: MachineFacts, root: Path | None = None) -> list[str]:
    """A clause for each GPU of another maker, with the tool to look at it with."""
    devices = () if isinstance(machine.devices, Absent) else machine.devices
    clauses = []
    for device in devices:
        if device.is_gpu and device.vendor in _OTHERS:
            maker, tools = _OTHERS[device.vendor]
            clauses.append(
                f"{_name(device, maker, root)} at {device.address} is no CUDA device, look at it with {tools}"
            )
    processor = machine.host.processor
    if clauses and isinstance(processor, str) and "ryzen ai" in processor.casefold():
        clauses.append(f"{processor} is an AMD APU: it has no CUDA compute capability")
    return clauses


def _name(device: PciDevice, maker: str, root: Path | None) -> str:
    if isinstance(device.name, str):
        return device.name if maker.casefold() in device.name.casefold() else f"{maker} {device.name}"
    assert isinstance(device.vendor, int)
    if isinstance(device.device, Absent):
        return f"an {maker} GPU"
    known = _look_up(device.vendor, device.device, root) if root else ""
    return f"{maker} {known}".strip() if known else f"an {maker} GPU ({device.vendor:04x}:{device.device:04x})"


def _look_up(vendor: int, device: int, root: Path) -> str:
    """The name of a device in the system's own list of PCI numbers; empty without it."""
    for name in _PCI_NAMES:
        try:
            with (root / name).open(encoding="utf-8", errors="replace") as lines:
                return _find_name(lines, f"{vendor:04x}", f"{device:04x}")
        except OSError:
            continue
    return ""


def _find_name(lines: Iterable[str], vendor: str, device: str) -> str:
    own = False
    for line in lines:
        if not line.startswith(("\t", "#")) and line.strip():
            own = line.startswith(vendor)
        elif own and line.startswith(f"\t{device} "):
            return line.strip().partition(" ")[2].strip()
    return ""


def chosen(machine: MachineFacts, selection: tuple[str, ...]) -> MachineFacts:
    """The picture with the selected GPUs only, by index, UUID or PCI address. Raises UsageError for one not there.

    What is of the machine stays whole: the bus, the log (events of other GPUs too) and the host.
    """
    if not selection or isinstance(machine.gpus, Absent):
        return machine
    kept: dict[int, GpuFacts] = {}
    for wanted in selection:
        found = [(place, gpu) for place, gpu in enumerate(machine.gpus) if _is(gpu, wanted)]
        if len(found) != 1:
            what = "there is no GPU" if not found else "more than one GPU is meant by"
            raise UsageError(f"{what} {wanted}; there {_all(machine.gpus)}")
        kept.setdefault(*found[0])
    return replace(machine, gpus=tuple(kept.values()))


def _is(gpu: GpuFacts, wanted: str) -> bool:
    if wanted.isascii() and wanted.isdigit():
        return isinstance(gpu.index, Quantity) and gpu.index.value == int(wanted)
    if wanted.startswith(("GPU-", "MIG-")):  # the driver takes the beginning of a UUID, too
        return isinstance(gpu.uuid, str) and gpu.uuid.casefold().startswith(wanted.casefold())
    return gpu.pci == pci_address(wanted)


def _all(gpus: tuple[GpuFacts, ...]) -> str:
    """ "are 0 (NVIDIA H100, 0000:1b:00.0), 1 (...)"."""
    if not gpus:
        return "is none"
    texts = []
    for gpu in gpus[:_LISTED]:
        words = [word for word in (gpu.name, gpu.pci) if isinstance(word, str)]
        number = str(gpu.index.value) if isinstance(gpu.index, Quantity) else "one without a number"
        texts.append(f"{number} ({', '.join(words)})" if words else number)
    more = f" and {len(gpus) - _LISTED} more" if len(gpus) > _LISTED else ""
    return f"{'is' if len(gpus) == 1 else 'are'} {', '.join(texts)}{more}"
