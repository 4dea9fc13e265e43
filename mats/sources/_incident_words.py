"""What an incident is called, what it means and what to do: plain sentences from an incident, nothing measured.

The advice is this project's own; the driver's own recovery action and disagreeing sources stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mats.model import Absent
from mats.sources._events import (
    AerEvent,
    AerSeverity,
    BarEvent,
    DriverEvent,
    DriverEventKind,
    LinkLimitEvent,
    SwitchEvent,
    XidEvent,
)
from mats.sources._incidents import Incident, Kind
from mats.sources._xid_details import EccPlace, Recovery, RowRemap, ecc_place, nvlink5, row_remap
from mats.sources._xid_table import ACTION_WORDS, Action, describe, describe_switch

_NVIDIA_VENDOR = "10de:"


@dataclass(frozen=True, slots=True)
class Words:
    """``title``: one clause; ``explains``: sentences of evidence; ``advice``: what to do."""

    title: str
    explains: tuple[str, ...]
    advice: str


def words(incident: Incident) -> Words:
    """The incident for a person."""
    title, advice = _TITLES[incident.kind]
    explains = [*_evidence(incident)]
    if not isinstance(incident.recovery, Absent):
        said = f' ("{incident.recovery.words}")' if incident.recovery.words else ""
        explains.append(f"the driver's own advice is: {_advised(incident.recovery)}{said}")
    if not incident.count_known:
        explains.append("the driver limits how often it prints this: the number of lines means nothing")
    if incident.restarts_after:
        explains.append("the system or the driver was started again after it: what it left may be gone")
    where = f" on {incident.pci}" if isinstance(incident.pci, str) else ", the card is not named"
    return Words(_specific_title(incident) or title + where, tuple(explains), _specific_advice(incident) or advice)


_TITLES: dict[Kind, tuple[str, str]] = {
    Kind.MEMORY: (
        "uncorrectable memory error",
        "Drain the GPU and reset it, which activates a pending row replacement; service if it comes again.",
    ),
    Kind.OFF_BUS: (
        "the GPU has fallen off the bus",
        "Save nvidia-bug-report before the driver is unloaded, then power cycle the machine; check power and seating, "
        "and have the card serviced if it comes again. Other GPUs of the machine may be fine.",
    ),
    Kind.GSP: (
        "the GPU's system processor (GSP) does not answer",
        "Reset the GPU, or restart the machine if that fails; report it as a driver fault. Processes that are named "
        "are victims.",
    ),
    Kind.CONTROLLER: ("the power-management controller of the GPU halted", "Drain the GPU and reset it."),
    Kind.APPLICATION: (
        "a program did something illegal",
        "Look at the program; hardware is suspected only if different programs fail on this GPU and on no other.",
    ),
    Kind.NVLINK: ("NVLink error", "Reset the GPU; reseat or service if the same link fails again."),
    Kind.SWITCH: ("NVSwitch event", "Restart the fabric manager, or the machine if the link stays down."),
    Kind.CLEANUP: (
        "channels were torn down and the log does not show why",
        "Look for the Xid that caused it in older logs; if there is none, restart the fabric manager.",
    ),
    Kind.RECOVERY: ("the driver changed its recovery action", "Do what the driver advises."),
    Kind.INIT: (
        "the driver could not initialise the GPU",
        "PCIe or hardware is suspected: power cycle, check seating and power, then service.",
    ),
    Kind.RESET_REQUIRED: ("the driver says that a reset is required", "Drain the GPU and reset it."),
    Kind.MISMATCH: (
        "kernel module and driver libraries have different versions",
        "Reload the kernel module or restart the machine. The state of the GPUs is unknown until then.",
    ),
    Kind.PCIE: (
        "PCIe errors",
        "Which card hangs below this port must come from the PCI tree. Corrected errors are a matter of link quality: "
        "watch their rate, reseat the card or its riser if they go on.",
    ),
    Kind.BAR: (
        "a memory window (BAR) could not be placed",
        "A driver will not start on this device: switch on decoding above 4 GB in the firmware, or free address space.",
    ),
    Kind.LINK_LIMIT: (
        "a port above limits the PCIe bandwidth",
        "Compare with how the slot is meant to be wired; reseat if it should be wider or faster.",
    ),
    Kind.OTHER: ("driver event", "See what is said of the number."),
    Kind.UNKNOWN: ("unknown driver event", "Ask the vendor, with the raw lines; it is not known to be harmless."),
}


def _specific_title(incident: Incident) -> str:
    serious = incident.serious
    where = f" on {incident.pci}" if isinstance(incident.pci, str) else ""
    if incident.kind is Kind.SWITCH and isinstance(serious, SwitchEvent):
        grade = "Fatal or not is not shown" if isinstance(serious.fatal, Absent) else _grade(serious.fatal)
        return f"SXid {serious.number} ({grade}){where}"
    if incident.kind is Kind.PCIE and isinstance(serious, AerEvent):
        grade = "PCIe" if isinstance(serious.severity, Absent) else f"{serious.severity.value} PCIe"
        return f"{grade} errors{where}"
    if not isinstance(serious, XidEvent):
        return ""
    if incident.kind in (Kind.OTHER, Kind.UNKNOWN):
        return f"Xid {serious.number}{where}: {describe(serious.number).meaning}"
    if incident.kind is Kind.MEMORY and serious.number in (63, 160):
        return f"memory was taken out of use{where}"
    if incident.kind is Kind.MEMORY and serious.number == 94:
        return f"contained memory error{where}"
    return ""


def _advised(recovery: Recovery) -> str:
    return recovery.advice.reason if isinstance(recovery.advice, Absent) else recovery.advice.value


def _grade(fatal: bool) -> str:
    return "fatal" if fatal else "non-fatal"


def _specific_advice(incident: Incident) -> str:
    if not isinstance(incident.recovery, Absent) and incident.kind is Kind.RECOVERY:
        return f"The driver says: {_advised(incident.recovery)}."
    serious = incident.serious
    if incident.kind is Kind.MEMORY:
        return _memory_advice(incident)
    if incident.kind is Kind.SWITCH and isinstance(serious, SwitchEvent) and serious.fatal is False:
        return "Nothing to do by itself; watch whether it comes again."
    if incident.kind is Kind.NVLINK and incident.action in (Action.INFO, Action.DECODE):
        return ACTION_WORDS[incident.action][0].upper() + ACTION_WORDS[incident.action][1:] + "."
    if incident.kind is Kind.PCIE and isinstance(serious, AerEvent) and serious.severity is not AerSeverity.CORRECTABLE:
        return "Which card hangs below this port must come from the PCI tree. Reseat that card and check its riser."
    if incident.kind is Kind.OTHER and isinstance(serious, XidEvent):
        return ACTION_WORDS[incident.action][0].upper() + ACTION_WORDS[incident.action][1:] + "."
    return ""


def _memory_advice(incident: Incident) -> str:
    numbers = set(incident.xids)
    if incident.action is Action.SERVICE:
        return "No spare rows are left: have the card serviced after field diagnostics."
    if numbers == {63} or not numbers:
        return "Reset the GPU when convenient: it activates the replacement."
    if numbers <= {94, 63, 43, 45}:
        return (
            "Start the program again, and see whether a row replacement is pending on this GPU: a reset activates it."
        )
    return ""


def _evidence(incident: Incident) -> list[str]:
    """One sentence for each kind of event, in the order of the log."""
    said: dict[str, int] = {}
    for event in incident.events:
        if isinstance(event, XidEvent):
            text = _xid(event)
        elif isinstance(event, SwitchEvent):
            text = _switch(event)
        elif isinstance(event, DriverEvent):
            text = _driver(event)
        elif isinstance(event, AerEvent):
            text = _aer(event)
        elif isinstance(event, BarEvent):
            size = "size not shown" if isinstance(event.size, Absent) else f"{event.size / (1 << 20):g} MiB"
            text = f"BAR{event.bar} ({size}) could not be placed"
        else:
            text = _limit(event)
        said[text] = said.get(text, 0) + 1
    return [text if count == 1 else f"{text} ({count} times)" for text, count in said.items()]


def _xid(event: XidEvent) -> str:
    info = describe(event.number)
    text = f"Xid {event.number}: {info.meaning}"
    place, outcome, link = (
        ecc_place(event.number, event.text),
        row_remap(event.text),
        nvlink5(event.number, event.text),
    )
    if isinstance(place, EccPlace):
        text += f", in {place.value}"
    if isinstance(outcome, RowRemap):
        text += f"; {outcome.value}"
    if not isinstance(link, Absent):
        where = "" if isinstance(link.link, Absent) else f" on link {link.link}"
        text += f"{where}; {link.why}"
    if isinstance(event.cause, int):
        text += f", caused by Xid {event.cause}"
    if isinstance(event.gpu_instance, int):
        text += f", in MIG instance {event.gpu_instance}"
    return text


def _switch(event: SwitchEvent) -> str:
    where = f" on switch {event.pci}" if isinstance(event.pci, str) else ""
    link = "" if isinstance(event.link, Absent) else f", link {event.link}"
    grade = "" if isinstance(event.fatal, Absent) else f", {_grade(event.fatal)}"
    return f"SXid {event.number}{where}{link}{grade}: {describe_switch(event.number).meaning}"


def _driver(event: DriverEvent) -> str:
    if event.kind is DriverEventKind.API_MISMATCH:
        client, module = event.detail("client"), event.detail("module")
        shown = [name if isinstance(name, str) else "a version not shown" for name in (client, module)]
        return f"a program's libraries are of driver {shown[0]}, the kernel module is of {shown[1]}"
    outcome = row_remap(event.text)
    if isinstance(outcome, RowRemap):
        return f"row remapper: {outcome.value}"
    return event.text.removeprefix("NVRM:").strip()


def _aer(event: AerEvent) -> str:
    grade = "error of unknown severity" if isinstance(event.severity, Absent) else f"{event.severity.value} error"
    names = f" ({', '.join(event.bits)})" if event.bits else ""
    owner = ", whose maker is not shown"
    if isinstance(event.device, str):
        nvidia = event.device.startswith(_NVIDIA_VENDOR)
        owner = f", device {event.device}, " + ("made by NVIDIA" if nvidia else "which is not an NVIDIA GPU")
    return f"{grade}{names} seen at {event.pci if isinstance(event.pci, str) else 'a port not shown'}{owner}"


def _limit(event: LinkLimitEvent) -> str:
    return (
        f"{event.available / 1e9:.3f} of {event.capable / 1e9:.3f} GB/s: port {event.limiter} runs x{event.width} at "
        f"{event.speed / 1e9:g} GT/s, the device could do x{event.capable_width} at {event.capable_speed / 1e9:g} GT/s"
    )
