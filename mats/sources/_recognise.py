"""Says what a saved text is, by what stands in it and never by its name; one text may hold output of several tools."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

HEAD = 256 * 1024
"""Characters that are looked at; every tool shows in its first lines what it is."""
COMMANDS_AT_MOST = 200
"""Commands that one text is cut at; what follows stays with the last."""


class Kind(enum.StrEnum):
    """What a text is the output of. The values are words for people."""

    SMI_XML = "nvidia-smi -q -x"
    SMI_QUERY = "nvidia-smi -q"
    SMI_TABLE = "nvidia-smi"
    SMI_CSV = "nvidia-smi --query-gpu"
    SMI_ERROR = "a message of nvidia-smi instead of its output"
    NVLINK = "nvidia-smi nvlink"
    TOPOLOGY = "nvidia-smi topo -m"
    DRIVER_VERSION = "/proc/driver/nvidia/version"
    KERNEL_LOG = "a kernel log"
    LSPCI = "lspci -v"
    SYSFS = "files of /sys"
    DCGM_DIAG = "dcgmi diag"
    DCGM_HEALTH = "dcgmi health"
    DCGM_NVLINK = "dcgmi nvlink"
    DCGM_DMON = "dcgmi dmon"
    BUG_REPORT = "nvidia-bug-report.log"
    MATS_RUN = "a saved run of mats"
    MATS_CAPTURE = "a capture of mats"
    GPUSTAT = "gpustat"
    IPMI_SEL = "the event log of a management controller"
    WINDOWS_EVENT = "a Windows event of the display driver"
    NVBANDWIDTH = "nvbandwidth"
    NCCL_TESTS = "nccl-tests"
    P2P_TEST = "p2pBandwidthLatencyTest"
    BANDWIDTH_TEST = "bandwidthTest"
    GPU_COPY = "gpu_copy of superbench"
    GPU_LATENCY = "gpu-latency"
    LATENCY_SWEEP = "a sweep of latency by working set"
    MEMORY_SET = "gpu-micro-bench"
    TORCH_SNAPSHOT = "a memory snapshot of torch"
    MEMORY_MESSAGE = "what an allocator says of its memory"


OF_MEMORY = (Kind.TORCH_SNAPSHOT, Kind.MEMORY_MESSAGE)
"""Kinds that tell of a process's own cache and of nothing else."""
MEASURED = (
    Kind.NVBANDWIDTH,
    Kind.NCCL_TESTS,
    Kind.P2P_TEST,
    Kind.BANDWIDTH_TEST,
    Kind.GPU_COPY,
    Kind.GPU_LATENCY,
    Kind.LATENCY_SWEEP,
    Kind.MEMORY_SET,
)
"""Kinds that tell how fast links and memory were."""
WHOLE = (Kind.MATS_CAPTURE, Kind.BUG_REPORT, Kind.SMI_XML, Kind.MATS_RUN, Kind.MEMORY_SET)
"""Kinds that are all of their text: what looks like another output within belongs to them. A capture may hold all."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a text. ``command``: what was typed for it, where the text shows that; ``line`` counts from 1."""

    kinds: tuple[Kind, ...]
    text: str
    command: str = ""
    line: int = 1


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE)


_TAG = r"(?:\[\d+,\d+\]<std(?:out|err)>:)?"
"""What a starter of several processes puts before a line."""
_SIGNS: dict[Kind, re.Pattern[str]] = {
    Kind.MATS_CAPTURE: _pattern(r'\A\s*+\{\s*+"mats_capture"\s*:'),
    Kind.BUG_REPORT: _pattern(r"^Start of NVIDIA bug report log file\.|^nvidia-bug-report\.sh Version: "),
    Kind.SMI_XML: _pattern(r"<nvidia_smi_log\b|<!DOCTYPE nvidia_smi_log"),
    Kind.MATS_RUN: _pattern(r'\A\s*+\{(?=[\s\S]{0,4000}"schema_version"\s*:)(?=[\s\S]{0,4000}"tool"\s*:\s*"mats[ "])'),
    Kind.NVBANDWIDTH: _pattern(r'^nvbandwidth Version: |^[ \t]*"nvbandwidth"\s*:|^\{\s*"nvbandwidth"'),
    Kind.SMI_QUERY: _pattern(
        r"^=+NVSMI LOG=+$|^[ \t]{4,}(?:Ecc Mode|ECC Mode|ECC Errors|Remapped Rows|Retired Pages|FB Memory Usage"
        r"|Clocks (?:Throttle|Event) Reasons|GPU Link Info|Performance State)\s*(?::.*)?$"
    ),
    Kind.SMI_TABLE: _pattern(
        r"^\| NVIDIA-SMI \d|^\| MIG devices:"
        r"|^\|[ ]{0,4}(?:\d+%?|N/A)[ ][^\n]{0,200}?(?:MiB /|\d ?MiB\b|Not Supported)[^\n]{0,200}\|[ \t]*$"
    ),
    Kind.SMI_CSV: _pattern(
        r"\A\s*+(?=[^,\n]*+,)(?:[\w.]+(?: \[[^\]\n]*\])?, ?)*"
        r"(?:index|name|uuid|timestamp|pci\.\w+|gpu_\w+|memory\.\w+|utilization\.\w+|temperature\.\w+|driver_version)\b"
    ),
    Kind.SMI_ERROR: _pattern(
        r"^(?:NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle"
        r"|No devices were found)"
    ),
    Kind.NVLINK: _pattern(
        r"^[ \t]+Link \d+: (?:<?in[aA]ctive>?|[\d.]+ GB/s|(?:Replay|Recovery|CRC)\b)"
        r"|^NVML: Unable to retrieve NVLink info"
    ),
    Kind.TOPOLOGY: _pattern(r"^[ \t]*GPU0\s+(?:GPU1|NIC0|mlx\d|CPU Affinity)\b"),
    Kind.DRIVER_VERSION: _pattern(r"^NVRM version: "),
    Kind.KERNEL_LOG: _pattern(
        r"NVRM: |\bS?Xid \(|^\[ *\d+\.\d+\] |^\[\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\] |^\d{1,3},\d+,\d+,[-c]"
        r"|^kern +:\w+ *: |^pci(?:eport)? [0-9a-f]{4}:|^.{0,200}?\bkernel: "
    ),
    Kind.LSPCI: _pattern(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][^:\n]{2,80}: \S"),
    Kind.SYSFS: _pattern(
        r"^(?:==> |\*\*\* )?/sys/(?:bus/pci/)?devices/[^\s]*[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/"
        r"|\A\s*(?:0x[0-9a-f]{16} 0x[0-9a-f]{16} 0x[0-9a-f]{16}\s+)+\Z"
    ),
    Kind.DCGM_DIAG: _pattern(r'"DCGM (?:GPU )?Diagnostic"|^\| Diagnostic\s+\| Result\s'),
    Kind.DCGM_HEALTH: _pattern(r'"Health Monitor Report"|"Overall Health"'),
    Kind.DCGM_NVLINK: _pattern(r"NvLink Link Status|^[ \t]+gpuId \d+:\s*$"),
    Kind.DCGM_DMON: _pattern(r"^#Entity\s+\S"),
    Kind.GPUSTAT: _pattern(r"^\[\d+\] [^|\n]{1,200}\|[^|\n]{0,20}['°]C,"),
    Kind.IPMI_SEL: _pattern(r"^[ \t]*[0-9a-f]{1,4} \| \d\d/\d\d/\d{2,4} \| \d\d:\d\d:\d\d"),
    Kind.WINDOWS_EVENT: _pattern(r"\bnvlddmkm\b"),
    Kind.NCCL_TESTS: _pattern(
        rf"^{_TAG}# (?:nThread \d|nccl-tests version |Collective test starting)|^{_TAG}#\s+size\s+count\s+type"
        r'|\A\s*+\{"version":\d+,"start_time":|\A\s*+\{(?=[\s\S]{0,200000}"(?:bus_bw|nccl_version)"\s*:)'
    ),
    Kind.P2P_TEST: _pattern(
        r"P2P Connectivity Matrix|p2pBandwidthLatencyTest|P2P=(?:En|Dis)abled (?:Bandwidth|Latency)\b"
    ),
    Kind.BANDWIDTH_TEST: _pattern(
        r"^\[CUDA Bandwidth Test\]|^bandwidthTest-|^ *(?:Host|Device) to (?:Host|Device) Bandwidth, \d+ Device\(s\)"
    ),
    Kind.GPU_COPY: _pattern(
        r"^(?:\S{1,80}[:/])?(?:cpu|gpu\d+|gpu_all)_(?:to|and)_(?:cpu|gpu\d+|gpu_all)(?:_(?:read|write))?_by_(?:sm|dma)"
    ),
    Kind.GPU_LATENCY: _pattern(r"^clock:(?: \d{2,5}){5,} *$"),
    Kind.LATENCY_SWEEP: _pattern(r"^# *N \(bytes\) +\(KiB\) +\(MiB\) +cycles"),
    Kind.MEMORY_SET: _pattern(r'\A\s*+\{(?=[\s\S]{0,4000}"tests"\s*:)(?=[\s\S]{0,9000}"(?:LAT|BW|CONC)_[A-Z]+"\s*:)'),
}
_PROMPT = re.compile(
    r"^(?:[#$>]|\[?[\w.-]{1,40}@[\w.-]{1,60}[^\n#$]{0,80}[#$]) {1,3}"
    r"(?P<command>(?:sudo )?(?:[\w./-]*/)?"
    r"(?:nvidia-smi|dmesg|dcgmi|lspci|cat|journalctl|head|tail|grep|gpustat|ipmitool"
    r"|nvbandwidth|p2pBandwidthLatencyTest|bandwidthTest|gpu_copy|gpu-latency|[a-z_]{3,30}_perf)\b[^\n]*)$",
    re.MULTILINE,
)
_BY_COMMAND = (
    (re.compile(r"nvidia-smi\b.*--query-(?:gpu|compute-apps|remapped-rows|retired-pages)"), Kind.SMI_CSV),
    (re.compile(r"dcgmi\b.*\bdmon\b"), Kind.DCGM_DMON),
)


_MEMORY_WORDS = (
    "out of memory", "Out of memory", "exceed allowed memory", "bytes allocatable", "CUDA memory summary",
    "allocated_bytes.all.current", "KV cache is needed", "less than desired GPU memory utilization",
)  # fmt: skip
"""Words of allocators, which stand anywhere in a log and mostly at its end."""


def recognise(text: str, command: str = "") -> tuple[Kind, ...]:
    """Every kind whose signs the text shows; empty when none is known."""
    head = text[:HEAD]
    for kind in WHOLE:
        if _SIGNS[kind].search(head):
            return (kind,)
    found = [kind for kind, sign in _SIGNS.items() if kind not in WHOLE and sign.search(head)]
    found += [kind for pattern, kind in _BY_COMMAND if pattern.search(command) and kind not in found and text.strip()]
    if any(words in text for words in _MEMORY_WORDS) and _says_of_memory(text):
        found.append(Kind.MEMORY_MESSAGE)
    if Kind.DRIVER_VERSION in found and not re.search(r"NVRM: |Xid \(", head):
        found = [kind for kind in found if kind is not Kind.KERNEL_LOG]
    return tuple(found)


def _says_of_memory(text: str) -> bool:
    from mats.sources.memory_messages import is_message

    return is_message(text)


def parts(text: str) -> tuple[Part, ...]:
    """The text cut at lines that show a typed command, each part with its kinds; at least one part."""
    kinds = recognise(text)
    if any(kind in WHOLE for kind in kinds):
        return (Part(kinds, text),)
    prompts = list(itertools.islice(_PROMPT.finditer(text), COMMANDS_AT_MOST))
    if not prompts:
        return (Part(kinds, text),)
    return tuple(_cut_at(text, prompts))


def _cut_at(text: str, prompts: list[re.Match[str]]) -> Iterator[Part]:
    before = text[: prompts[0].start()]
    if before.strip():
        yield Part(recognise(before), before)
    ends = [prompt.start() for prompt in prompts[1:]] + [len(text)]
    for prompt, end in zip(prompts, ends, strict=True):
        body = text[prompt.end() + 1 : end]
        command = prompt["command"].strip()
        yield Part(recognise(body, command), body, command, text.count("\n", 0, prompt.start()) + 2)
