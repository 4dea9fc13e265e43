"""Every Xid and SXid that is known by number: its name, what it means, what to do, and who disagrees.

Numbers, names and NVIDIA's own actions: NVIDIA's Xid catalogue as of 2025-10-29; 173 to 176: names in the header
nverror.h of the open kernel modules 595.45.04. Meanings and action classes are this project's own. A number that is
not here, or that the catalogue calls unused, is unknown: never healthy.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

CATALOGUE = "NVIDIA Xid catalogue, 2025-10-29"
HEADER = "open-gpu-kernel-modules 595.45.04, nverror.h (name only; the action is inferred)"


class Action(enum.IntEnum):
    """What to do about it; the larger number is the more that is lost if it is left undone."""

    INFO = 0
    MONITOR = 1
    APPLICATION = 2
    CHECK = 3
    DECODE = 4
    UNKNOWN = 5
    LINK = 6
    RESET = 7
    REBOOT = 8
    SERVICE = 9


ACTION_WORDS: dict[Action, str] = {
    Action.INFO: "nothing to do by itself",
    Action.MONITOR: "watch whether it comes again",
    Action.APPLICATION: "look at the application and start it again",
    Action.CHECK: "check cabling, seating or configuration",
    Action.DECODE: "not decoded: its numbers decide whether it matters",
    Action.UNKNOWN: "unknown: ask the vendor, with the raw line",
    Action.LINK: "reset the GPU, then reseat; service if the same link fails again",
    Action.RESET: "drain the GPU and reset it",
    Action.REBOOT: "restart the machine, by power cycle where the GPU is gone",
    Action.SERVICE: "field diagnostics and service",
}


@dataclass(frozen=True, slots=True)
class XidInfo:
    """One number. ``immediate`` and ``investigate``: NVIDIA's own words; ``views``: what other checkers do with it."""

    number: int
    mnemonic: str
    meaning: str
    action: Action
    immediate: str
    investigate: str
    source: str
    views: tuple[str, ...] = ()
    remark: str = ""


_VIEWS: dict[str, str] = {
    "D": "DCGM: always a failure",
    "d": "DCGM: a warning while it watches",
    "E": "EKS node agent: fatal",
    "N": "Azure health checks: drain the node",
    "G": "gpud: fatal",
    "I": "imbue: on its list of hardware failures",
    "S": "sichek: critical",
    "k": "Kubernetes device plugin: ignored",
    "m": "gcm: ignored",
    "c": "cyclecloud-healthagent: a warning only, where it takes most for errors",
}
_SEVERE = frozenset("DENGIS")
_LENIENT = frozenset("kmc")
_MILD = ("IGNORE", "RESTART_APP")

_SHORT = {
    "info": Action.INFO,
    "app": Action.APPLICATION,
    "mon": Action.MONITOR,
    "check": Action.CHECK,
    "link": Action.LINK,
    "decode": Action.DECODE,
    "reset": Action.RESET,
    "reboot": Action.REBOOT,
    "service": Action.SERVICE,
}

# number | mnemonic | action | NVIDIA: immediate / investigate | who | meaning | remark
_ROWS = """
8|FIFO_ERROR_IDLE_TIMEOUT|app|RESTART_APP/CONTACT_SUPPORT||A channel sat idle past its limit and its work stopped
11|GR_ERROR_MISSING_HW|app|RESTART_APP/CHECK_APP/CUDA||The graphics or compute front end got a bad command stream
13|GR_EXCEPTION|app|RESTART_APP/WORKFLOW_XID_13|kmc|A kernel did something illegal: instruction, address or \
alignment|Hardware only if it follows one GPU with different programs
25|GR_ILLEGAL_NOTIFY|app|RESTART_APP/CHECK_APP/CUDA||Illegal notification in the command stream
31|FIFO_ERROR_MMU_ERR_FLT|app|RESTART_APP/WORKFLOW_XID_31|dSkmc|Memory page fault: access to an address that is not \
mapped|Usually the application; hardware only if it follows one GPU with different programs
32|PBDMA_ERROR|app|RESTART_APP/CHECK_APP/CUDA|dG|A corrupt push buffer reached the GPU|Check PCIe if it repeats
37|FECS_ERR_UNIMP_FIRMWARE_METHOD|info|IGNORE/CHECK_APP/CUDA||Context firmware got a method it does not have
38|FECS_ERR_WATCHDOG_TIMEOUT|mon|IGNORE/CONTACT_SUPPORT|dG|The watchdog of the context firmware expired
43|RESETCHANNEL_VERIF_ERROR|info|IGNORE/CONTACT_SUPPORT|dkmc|A channel was reset after a software error; the GPU goes \
on|Follow the Xid before it; alone it points to the application
44|GR_FAULT_DURING_CTXSW|mon|IGNORE/CONTACT_SUPPORT|G|Graphics fault while contexts were switched
45|PREEMPTIVE_REMOVAL|info|WORKFLOW_XID_45/RESTART_FM when alone, else IGNORE|km|Channels were torn down because \
something else failed|Follow the Xid that caused it; alone: restart the fabric manager
46|GPU_TIMEOUT_ERROR|reset|RESET_GPU/CONTACT_SUPPORT|EG|An engine stopped making progress
48|GPU_ECC_DBE|reset|WORKFLOW_XID_48/WORKFLOW_XID_48|DENGIS|Uncorrectable ECC error|Drain first if 63 or 64 comes with \
it; service if the SRAM threshold is exceeded
54|SILENT_RUNNING_PWR_REDUCED_CLOCKING|check|CHECK_MECHANICALS/CONTACT_SUPPORT|dE|An auxiliary power plug of the board \
is missing
60|SEC2_ERROR|app|RESTART_APP/INVESTIGATE_SW|dG|Exception in the security or video processor
62|PMU_HALT_ERROR|reset|RESET_GPU/CONTACT_SUPPORT|dENGI|The power-management micro-controller halted
63|INFOROM_DRAM_RETIREMENT_EVENT|mon|IGNORE/IGNORE|dENGISmc|A memory page or row was recorded for \
replacement|A reset activates the replacement; the counters show whether one is pending
64|INFOROM_DRAM_RETIREMENT_FAILURE|reset|RESET_GPU/CONTACT_SUPPORT|dENGIS|Recording a replacement of memory \
failed|Public advice differs between reset and replacement: service if the remap-failure flag is set
66|FECS_ERR_REG_ACCESS_VIOLATION|info|IGNORE/INVESTIGATE_SW|c|The driver accessed a register of the context firmware \
illegally
67|FECS_ERR_VERIF_VIOLATION|info|IGNORE/CONTACT_SUPPORT|d|The driver violated a check of the context firmware
69|GR_CLASS_ERROR|app|RESTART_APP/CHECK_APP/CUDA|NGI|Wrong method data for graphics or compute
74|NVLINK_ERROR|link|WORKFLOW_NVLINK_ERR/CONTACT_SUPPORT|DENGIS|NVLink error, generations 1 to 4|Its seven register \
words are not decoded here
78|VGPU_START_ERROR|check|UPDATE_SWFW/UPDATE_SWFW|dG|A virtual GPU did not start: host and guest drivers do not fit
79|GPU_HAS_FALLEN_OFF_THE_BUS|reboot|RESTART_BM/CONTACT_SUPPORT|DENGIS|The GPU no longer answers on PCIe|Power, \
seating or hardware; service if it comes again
80|PBDMA_PUSHBUFFER_CRC_MISMATCH|app|RESTART_APP/CHECK_APP/CUDA|NI|Data pushed to the GPU arrived with a wrong \
checksum|Check PCIe
92|EXCESSIVE_SBE_INTERRUPTS|mon|IGNORE/CONTACT_SUPPORT|NISm|Corrected ECC errors come too often
93|INFOROM_ERASE_LIMIT_EXCEEDED|mon|IGNORE/CONTACT_SUPPORT|d|The InfoROM has reached its limit of erasures
94|CONTAINED_ERROR|app|RESTART_APP/IGNORE (sympathetic)|dGISc|Uncorrectable memory error, contained to one \
program|Restart that program; a row replacement may be pending on that GPU
95|UNCONTAINED_ERROR|reset|RESET_GPU/IGNORE (sympathetic)|DEGIS|Uncorrectable memory error that was not contained
109|CTXSW_TIMEOUT_ERROR|reset|RESET_GPU/CONTACT_SUPPORT|Ekm|A context switch timed out|Reset if it repeats
110|SEC_FAULT_ERROR|reset|RESET_GPU/INVESTIGATE_SW|EGI|Fault in the security engine
119|GSP_RPC_TIMEOUT|reset|RESET_GPU/INVESTIGATE_SW|DENGI|The GPU's system processor (GSP) did not answer in \
time|Restart the machine if the reset fails; report it as a driver fault
120|GSP_ERROR|reset|RESET_GPU/INVESTIGATE_SW|DENGI|The firmware of the GPU's system processor (GSP) crashed|Restart \
the machine if the reset fails
121|C2C_ERROR|mon|IGNORE/CONTACT_SUPPORT|dG|Corrected errors on the chip-to-chip link to the CPU
136|ALI_TRAINING_FAIL|reset|RESET_GPU/INVESTIGATE_LINK_SI|E|Training of an NVLink failed|Check the link's signal
137|NVLINK_PRIV_ERR|app|IGNORE/XID_137_FLOW|d|Access to a peer GPU over NVLink was refused: an illegal pointer|Not a \
fault of the link
140|UNRECOVERABLE_ECC_ERROR_ESCAPE|reset|RESET_GPU/CONTACT_SUPPORT|DEG|An ECC error escaped the recovery
141|FAST_PATH_ERROR|info|IGNORE/CONTACT_SUPPORT||Error in the fast path of CUDA
143|GPU_INIT_ERROR|reset|RESET_GPU/CONTACT_SUPPORT|EG|The GPU could not be initialised|Restart the machine if the \
reset fails
151|KEY_ROTATION_ERROR|reboot|RESTART_VM/CONTACT_SUPPORT|E|Rotation of a confidential-computing key failed|Restart the \
virtual machine
154|GPU_RECOVERY_ACTION_CHANGED|info|XID_154/informational beside another Xid|c|The driver changed the recovery \
action|The number behind "to" decides
155|NVLINK_SW_DEFINED_ERROR|reset|RESET_GPU/INVESTIGATE_SW_USER|E|Software-defined NVLink event|Reset if the link \
stays down
156|RESOURCE_RETIREMENT_EVENT|reset|RESET_GPU/IGNORE|E|A resource of the GPU was retired|A reset activates it
157|RESOURCE_RETIREMENT_FAILURE|service|IGNORE/CONTACT_SUPPORT||A resource could not be retired: no spares are left
158|GPU_FATAL_TIMEOUT|reset|RESET_GPU/CONTACT_SUPPORT|E|Fatal timeout of the GPU
159|CHI_NON_DATA_ERROR|check|CHECK_UVM/SYMPATHETIC_REPORT_SOLO||Error on the coherent fabric that is not one of \
data|Follow the other Xid; check managed memory
160|CHANNEL_RETIREMENT_EVENT|mon|IGNORE/INVESTIGATE_SW||A memory channel was retired
161|CHANNEL_RETIREMENT_FAILURE|service|IGNORE/INVESTIGATE_SW||A memory channel could not be retired
162|PSHC_REENGAGED|mon|/||The power-smoothing circuit was engaged again
163|PSHC_DISENGAGED|mon|/||The power-smoothing circuit was disengaged
164|PSHC_LIFETIME_LOW|mon|/||The life of the power-smoothing circuit is nearly used up
165|PSHC_LIFETIME_USED_UP|mon|/||The life of the power-smoothing circuit is used up
166|NVLINK_SECURE_CRYPTO_ERR|reset|/||NVLink traffic before its encryption was set up
167|PCIE_FATAL_TIMEOUT|reboot|/||Fatal timeout of PCIe
168|REDUCED_GPU_MEMORY_CAPACITY|service|/||Errors in a protected part of the memory: its capacity is reduced|AWS \
advises a restart
169|SEC2_HALT_ERROR|reset|/||The security micro-controller halted
170|NVLINK_SECURE_OTHER|reset|/||NVLink interrupt in confidential mode
171|UNCORRECTABLE_DRAM_ERROR|reset|/||Detail of an uncorrectable error: the cell is in DRAM
172|UNCORRECTABLE_SRAM_ERROR|reset|/||Detail of an uncorrectable error: the cell is in SRAM|Check the SRAM threshold
"""

_FAMILIES: tuple[tuple[str, str, str, str, str, tuple[int, ...]], ...] = (
    # mnemonic with the unit's number | action | NVIDIA | who | meaning | numbers in the order of the units
    (
        "CE{}_ERROR",
        "app",
        "RESTART_APP/CONTACT_SUPPORT",
        "d",
        "Fault of copy engine {}",
        (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
    ),
    (
        "NVDEC{}_ERROR",
        "app",
        "RESTART_APP/CONTACT_SUPPORT",
        "NGIkm",
        "Error of video decoder {}",
        (68, 83, 84, 88, 89, 96, 97, 98),
    ),
    (
        "NVJPG{}_ERROR",
        "app",
        "RESTART_APP/CONTACT_SUPPORT",
        "I",
        "Error of JPEG engine {}",
        (82, *range(99, 106)),
    ),
    ("OFA{}_ERROR", "app", "RESTART_APP/CONTACT_SUPPORT", "I", "Error of optical-flow engine {}", (86, 139)),
    ("NVENC{}_ERROR", "mon", "CONTACT_SUPPORT/", "E", "Error of video encoder {}", (47, 65, 73, 142)),
    ("SMBPBI_TEST_MESSAGE_{}", "info", "IGNORE/IGNORE", "", "Test message of the out-of-band interface", (106, 107)),
)

_OTHERS = (
    (152, "DLA_SMMU_ERROR", Action.INFO, "IGNORE", "CONTACT_SUPPORT", "Memory-unit error of the learning accelerator"),
    (153, "DLA_TIMEOUT", Action.INFO, "IGNORE", "CONTACT_SUPPORT", "Timeout of the learning accelerator"),
)
_NVLINK5 = ("SAW", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE")

_FROM_HEADER = (
    (173, "C2C_FATAL_LINK_FAILURE", Action.REBOOT, "Fatal failure of the chip-to-chip link to the CPU"),
    (174, "PROCESS_KILLED_ON_CHANNEL_RESET", Action.INFO, "A process was ended when its channel was reset"),
    (175, "MEMORY_SUBSYSTEM_ERROR", Action.RESET, "Error of the memory subsystem"),
    (176, "PCIE_CORRECTABLE_FAULT", Action.MONITOR, "Correctable fault on PCIe"),
)

_UNUSED_SPANS: tuple[tuple[int, int], ...] = (
    (1, 7),
    (9, 10),
    (12, 12),
    (14, 24),
    (26, 30),
    (33, 36),
    (42, 42),
    (49, 53),
    (55, 59),
    (61, 61),
)
_UNUSED_SPANS += ((81, 81), (87, 87), (90, 91), (108, 108), (111, 118), (122, 125), (138, 138))
_UNUSED = frozenset(number for first, last in _UNUSED_SPANS for number in range(first, last + 1))
_UNUSED_BUT_LIVE = {
    51: "the text seen in the field: BAD_TSG on a runlist, followed by 154",
    58: "framebuffer memory error",
    59: "error of the power-management controller",
    61: "breakpoint of the power-management controller",
    90: "level-2 cache error",
    108: "NVLink remote translation error",
    122: "error reading the board's flash",
    123: "error writing the board's flash",
    124: "error erasing the board's flash",
    125: "error of the InfoROM file system",
}


def _parsed(row: str) -> XidInfo:
    parts = row.split("|")
    number, mnemonic, action, nvidia, who, meaning = parts[:6]
    immediate, _, investigate = nvidia.partition("/")
    views = tuple(_VIEWS[letter] for letter in who)
    remark = parts[6] if len(parts) > 6 else ""
    return XidInfo(int(number), mnemonic, meaning, _SHORT[action], immediate, investigate, CATALOGUE, views, remark)


@functools.cache
def table() -> dict[int, XidInfo]:
    """Every number that is in use, by number."""
    known = [_parsed(row) for row in _ROWS.strip().splitlines()]
    for name, action, nvidia, who, meaning, numbers in _FAMILIES:
        for unit, number in enumerate(numbers):
            row = f"{number}|{name.format(unit)}|{action}|{nvidia}|{who}|{meaning.format(unit)}"
            known.append(_parsed(row))
    known += [XidInfo(n, name, text, act, now, then, CATALOGUE) for n, name, act, now, then, text in _OTHERS]
    for number, unit_name in enumerate(_NVLINK5, start=144):
        flow = "WORKFLOW_NVLINK5_ERR"
        meaning = f"NVLink generation 5: event of the unit {unit_name}"
        known.append(XidInfo(number, f"NVLINK_{unit_name}_ERROR", meaning, Action.DECODE, flow, flow, CATALOGUE))
    known += [XidInfo(n, name, meaning, act, "", "", HEADER) for n, name, act, meaning in _FROM_HEADER]
    return {info.number: info for info in known}


def describe(number: int) -> XidInfo:
    """What is known of an Xid; also of a number that nobody lists: its action is then UNKNOWN."""
    found = table().get(number)
    if found is not None:
        return found
    if number in _UNUSED:
        live = _UNUSED_BUT_LIVE.get(number)
        meaning = "The catalogue calls this number unused" + (f"; elsewhere it means: {live}" if live else "")
        return XidInfo(number, "UNUSED", meaning, Action.UNKNOWN, "CONTACT_SUPPORT", "", CATALOGUE)
    return XidInfo(number, "UNKNOWN", "No list names this number", Action.UNKNOWN, "", "", "no source")


def conflicts(number: int) -> tuple[str, ...]:
    """What the sources say, one a line, where they disagree on how serious an Xid is; else nothing."""
    info = describe(number)
    letters = {letter for letter, view in _VIEWS.items() if view in info.views}
    severe = bool(letters & _SEVERE)
    mild = bool(letters & _LENIENT) or info.immediate in _MILD
    harsh = severe or info.action >= Action.RESET
    if not (harsh and mild) and number not in _DISPUTED:
        return ()
    own = (f"NVIDIA: {info.immediate}",) if info.immediate else ()
    return (*own, *info.views, *((_DISPUTED[number],) if number in _DISPUTED else ()))


_DISPUTED = {
    64: "public advice: some reset the GPU, some replace it",
    154: "most other checkers do not read the number behind 'to'",
}


@dataclass(frozen=True, slots=True)
class SxidInfo:
    """One SXid of an NVSwitch. ``conflict``: where sources disagree, else empty."""

    number: int
    meaning: str
    remark: str = ""
    conflict: str = ""


_SXIDS = {
    info.number: info
    for info in (
        SxidInfo(20034, "An NVLink of the switch went down (LTSSM fault)", "Look first for a GPU that was lost"),
        SxidInfo(
            22013, "A link controller reported a failed request (Minion DLREQ)", "Also seen while a system starts"
        ),
        SxidInfo(
            12028, "This project knows no meaning for the number", "", "the log says non-fatal, gpud's table says fatal"
        ),
    )
}


def describe_switch(number: int) -> SxidInfo:
    """What is known of an SXid; only few numbers are, for the others the log's own words decide."""
    return _SXIDS.get(number) or SxidInfo(number, "This project knows no meaning for the number")
