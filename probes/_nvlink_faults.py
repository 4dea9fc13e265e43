"""The faults of links, for the fault catalogue: what each looks like, what usually causes it, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._catalogue import FaultClass

_CLASSES = (
    FaultClass(
        name="link_slow",
        title="A link that carries less than its lanes and links should",
        signature="the bandwidth of a pair is below 0.78 of its target, or 15 % below other pairs that are joined "
        "alike; the data are whole",
        cause="links or lanes that are down or trained to a lower speed, a riser, a shared switch, or other work",
        advice="Look at the counters and the topology; reseat cards, bridges and risers, reset the GPUs, and measure "
        "again.",
        source="Azure/azhpc-diagnostics issue 73; NVIDIA/NVSentinel issue 890 (silent downtraining)",
    ),
    FaultClass(
        name="link_corrupt",
        title="A link that changes data",
        signature="words that were written on one GPU are others on another one, by copies, loads or stores, while "
        "each GPU's own memory is whole",
        cause="a peer mapping that the driver, the IOMMU or a patched driver gets wrong, or a damaged link",
        advice="Do not use this link for work. Run mats stress on both GPUs to see whether it is their memory; look at "
        "the IOMMU, ACS and the driver.",
        source="NVIDIA/nvbandwidth issues 34 and 19; club-3090 PR 926",
    ),
    FaultClass(
        name="link_p2p_slower",
        title="Direct copies that are slower than those through the host",
        signature="the same copy is faster with peer access off than on",
        cause="ACS on a PCIe switch sends peer traffic up to the root; IOMMU translation; two sockets in between",
        advice="Where no GPU is passed to a virtual machine, turn off ACS on the PCIe switches and the IOMMU's "
        "translation (iommu=pt); else let programs copy through the host (NCCL_P2P_DISABLE=1).",
        source="NVIDIA/nccl issues 814 and 1127; nccl-tests issues 74 and 112",
    ),
    FaultClass(
        name="link_inactive",
        title="NVLinks that are down",
        signature="fewer links are up than the GPU has, or than its neighbours have",
        cause="a bridge or module that sits badly, a fabric manager that does not run, or a dead link",
        advice="Save nvidia-bug-report; reset the GPUs, restart the fabric manager, reseat; service if they stay down.",
        source="NVIDIA/DCGM issue 198; Azure/azhpc-diagnostics issue 73",
    ),
    FaultClass(
        name="link_errors",
        title="A link that repairs errors",
        signature="counters of replays, recoveries, checksum or bus errors grow while the link is busy; the data are "
        "whole",
        cause="signal quality: seating, a riser, a cable, a connector, heat",
        advice="Reseat cards, bridges, risers and cables, and measure again; service if the counters grow each time.",
        source="NVIDIA/DCGM diag; Linux kernel documentation, PCIe AER",
    ),
)

CATALOGUE: Mapping[str, FaultClass] = MappingProxyType({fault.name: fault for fault in _CLASSES})
"""The fault classes of links by name."""
