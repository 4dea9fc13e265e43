"""Why one GPU cannot reach another one's memory, as far as anybody tells."""

from __future__ import annotations

from mats.model import Absent, TargetInfo
from mats.sources import nvml as nvml_source

NOTHING_SAID = "the driver offers no direct access between them and does not say why"

_PLACEMENTS = {
    "MIG": "CUDA offers no direct access to or from a MIG instance",
    "vGPU": "a virtual GPU offers direct access only where its host gives it the links",
    "WDDM": "Windows' display driver model offers no direct access; the compute modes TCC and MCDM may",
    "WSL": "WSL offers no direct access between GPUs",
    "integrated": "an integrated GPU shares the processor's memory and has none that another GPU could reach",
}
_STATUS = {
    1: "the machine's chipset does not carry it (NVML)",
    2: "the driver does not offer it for this product, as for GeForce cards since the RTX 40 series (NVML)",
    3: "the GPUs are under different roots of the PCIe tree, between which the machine does not carry it (NVML)",
    4: "a setting of the driver forbids it (NVML: disabled by registry key)",
    5: "the driver does not support it between these two (NVML)",
}
"""Of NVML's states of peer access, nvml.h: NVML_P2P_STATUS_*."""


def why_apart(first: TargetInfo, second: TargetInfo, door: nvml_source.Gpu | Absent, other: str) -> str:
    """A clause, or nothing. ``door``: NVML's door to one of them; ``other``: UUID of the other one."""
    for info in (first, second):
        identity = dict(info.identity)
        kind = "MIG" if info.uuid.startswith("MIG-") else identity.get("placement", "")
        if kind in _PLACEMENTS:
            return _PLACEMENTS[kind]
    if isinstance(door, Absent):
        return ""
    status = nvml_source.read_peer_status(door, other)
    return "" if status is None else _STATUS.get(status, "")
