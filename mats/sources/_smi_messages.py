"""What nvidia-smi says when it cannot do its work, and the version lines people save beside it."""

from __future__ import annotations

import re
from dataclasses import replace

from mats.facts import GpuFacts, MachineFacts, pci_address
from mats.model import Quantity, Unit
from mats.sources._smi_machine import bare_gpu, bare_machine
from mats.sources._smi_values import NOT_SHOWN, SmiError

_FAILED = re.compile(
    r"^.*?(Failed to initialize NVML: .+|NVIDIA-SMI has failed because .+|No devices were found.*"
    r"|Failed to properly shut down NVML: .+|Unable to determine the device handle for .+"
    r"|couldn't find libnvidia-ml.+|NVIDIA-SMI couldn't find .+)$",
    re.MULTILINE | re.IGNORECASE,
)
_NEEDED = ("NVML", "NVIDIA-SMI", "No devices", "device handle", "libnvidia-ml", "NVRM version")
"""One of them stands in every such line: a file of a day's samples is passed over fast."""
_LIBRARY = re.compile(r"NVML library version:\s*([0-9][0-9.]*)")
_MODULE = re.compile(r"^NVRM version:.*?Kernel Module(?: for \S+)?\s+([0-9][0-9.]*)", re.MULTILINE)
_HANDLE = re.compile(
    r"device handle for\s+(?:gpu\s*)?([0-9]{1,3}(?=\s*:\s))?\s*:?\s*"
    r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?\s*:\s*(.+)",
    re.IGNORECASE,
)


def looks_like_message(text: str) -> bool:
    """Whether one of these lines is in it."""
    if not any(word in text for word in _NEEDED):
        return False
    return bool(_FAILED.search(text) or _LIBRARY.search(text) or _MODULE.search(text))


def parse_messages(text: str) -> MachineFacts:
    """A machine whose GPUs are unknown with the reason; those that gave no answer by address. Raises SmiError."""
    if not looks_like_message(text):
        raise SmiError("this text holds no message of nvidia-smi")
    failures = [" ".join(said.split())[:200] for said in _FAILED.findall(text)]
    library, module = _LIBRARY.search(text), _MODULE.search(text)
    lost = tuple(_silent(*match.groups()) for match in map(_HANDLE.search, failures) if match is not None)
    why = f"nvidia-smi said: {failures[0]}" if failures else NOT_SHOWN
    none = any(said.lower().startswith("no devices") for said in failures)
    machine = bare_machine(why)
    return replace(
        machine,
        kernel_module=module[1].rstrip(".") if module else machine.kernel_module,
        library=library[1].rstrip(".") if library else machine.library,
        nvml_failure=failures[0] if failures else machine.nvml_failure,
        attached=Quantity(0, Unit.COUNT) if none else machine.attached,
        gpus=lost or (() if none else machine.gpus),
    )


def _silent(number: str | None, address: str | None, why: str) -> GpuFacts:
    """A GPU that the driver knows and that does not answer: all else of it is unknown for this reason."""
    reason = f"the driver got no answer from this GPU ({why.strip().rstrip('.')[:60]})"
    gpu = replace(bare_gpu(reason), answers=False)
    if address:
        gpu = replace(gpu, pci=pci_address(address))
    return replace(gpu, index=Quantity(int(number), Unit.COUNT)) if number else gpu
