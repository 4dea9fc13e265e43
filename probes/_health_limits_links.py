"""Limits of the ways out of a GPU: PCIe and its windows, NVLink, the NVSwitch fabric."""

from __future__ import annotations

from mats.model import Severity, Unit

from ._health_sources import DCGM, FABRIC, KERNEL_AER, OWN, PCIE, least, most, none, peers

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL

BUS = (
    none(
        "HLT-060",
        "pcie.lanes_lost",
        "fewer PCIe lanes than card and slot can",
        WARN,
        PCIE,
        "A link at rest lowers its speed and keeps its width; missing lanes are mostly a card that sits badly. "
        "Some laptops drop lanes to save power, which is why it is no failure until read under load.",
        "Read again with --load; reseat the card, check riser and slot.",
    ),
    least(
        "HLT-061",
        "pcie.loaded_share",
        "the PCIe link is slow under load",
        0.99,
        FAIL,
        PCIE,
        "Kept busy with copies, a link runs at the most that both ends and every port above can; NVSentinel fails at "
        "rest, too, which is a false alarm.",
        "Reseat the card, check riser, slot and firmware settings of the slot.",
        unit=Unit.RATIO,
    ),
    least(
        "HLT-062",
        "pcie.busy_share",
        "the PCIe link is slow though the GPU works",
        0.99,
        WARN,
        PCIE,
        "A GPU at work in its fast states keeps its link up, but nothing proves that the link itself was busy.",
        "Read again with --load, which judges it.",
        unit=Unit.RATIO,
    ),
    none(
        "HLT-063",
        "bar.unplaced",
        "a memory window (BAR) of the GPU has no address",
        FAIL,
        PCIE,
        "Without its windows the driver cannot start the card.",
        "Switch on decoding above 4 GB in the firmware, or free address space.",
    ),
    none(
        "HLT-064",
        "bar.partly_resized",
        "the memory window is larger than usual and smaller than the memory",
        WARN,
        peers("open-gpu-kernel-modules issue 510: 8 of 32 GiB"),
        "Resizable BAR is on and the firmware gave less than the card asks for; peer copies may not reach all memory.",
        "Update the firmware of the machine, or give the bridge above a larger window.",
    ),
    none(
        "HLT-065",
        "bar.resizable_off",
        "resizable BAR is off",
        NOTE,
        peers("nobody judges it"),
        "A window of 256 MiB is what every firmware can place: it says nothing about how much memory the card has.",
        "Switch on resizable BAR and decoding above 4 GB in the firmware where host access matters.",
    ),
    none(
        "HLT-066",
        "pcie.fatal",
        "uncorrected PCIe errors since the system was started",
        WARN,
        KERNEL_AER,
        "Corrected errors are a matter of rate; uncorrected ones mean that a transfer was lost or the link fell.",
        "Look at the kernel log for the time; reseat the card and check its riser.",
    ),
    none(
        "HLT-067",
        "pcie.corrected_loaded",
        "corrected PCIe errors while the link was busy",
        WARN,
        KERNEL_AER,
        "A good link counts none in a second of copies; each was sent again, so that data are right and time is lost.",
        "Read again with --load; where it goes on, reseat the card, check riser, slot and cable.",
    ),
    most(
        "HLT-068",
        "pcie.corrected_loaded",
        "many corrected PCIe errors while the link was busy",
        16,
        FAIL,
        DCGM,
        "DCGM fails above 16 in a minute; here that many came within seconds.",
        "Reseat the card, check riser, slot and cable; service if it stays.",
    ),
)

LINKS = (
    none(
        "HLT-070",
        "nvlink.down",
        "NVLinks are down that should be up",
        FAIL,
        peers("DCGM fails unless MIG is on; imbue, azhpc: bad; gpud only if no GPU has a link, so it misses a part"),
        "Some links of a GPU down, or all of them while its neighbours have theirs: its share of the fabric is gone.",
        "Save nvidia-bug-report; reset the GPUs, restart the fabric manager, reseat; service if they stay down.",
    ),
    none(
        "HLT-071",
        "nvlink.unbridged",
        "no NVLink bridge on this card",
        NOTE,
        DCGM,
        "PCIe cards have NVLinks only with a bridge between two of them (DCGM issue 49 expects them everywhere).",
        "Nothing to do; check the bridge if there should be one.",
    ),
    none(
        "HLT-072",
        "nvlink.replays",
        "NVLink replays or recoveries",
        WARN,
        DCGM,
        "DCGM fails on one; as totals since the driver was loaded they may be long ago.",
        "Compare with --baseline after work over the links; reseat or service if they grow.",
    ),
    none(
        "HLT-073",
        "nvlink.checksums",
        "NVLink checksum or other link errors",
        NOTE,
        DCGM,
        "Sent again and so corrected: DCGM warns from 1 and fails from 100 a second; a total alone says little.",
        "Compare with --baseline after work over the links.",
    ),
    none(
        "HLT-074",
        "nvlink.slow",
        "NVLinks slower than others of the same GPU",
        WARN,
        OWN,
        "All links of a GPU are of one generation and train to one speed.",
        "Reset the GPU; service if the link stays slow.",
    ),
    none(
        "HLT-075",
        "fabric.failed",
        "the GPU is not part of the NVSwitch fabric",
        FAIL,
        FABRIC,
        "Without registration CUDA does not start on a GPU behind NVSwitch, or its links carry nothing.",
        "Restart nvidia-fabricmanager, whose version must be that of the driver; then reset the GPU.",
    ),
    none(
        "HLT-076",
        "fabric.limited",
        "the GPU's part of the fabric is limited or not ready",
        WARN,
        FABRIC,
        "Registration in progress, degraded bandwidth or a recovery that runs: it may pass by itself.",
        "Read again in a minute; restart nvidia-fabricmanager if it stays.",
    ),
    none(
        "HLT-077",
        "fabric.manager",
        "the fabric manager is not as it must be",
        WARN,
        FABRIC,
        "On machines with NVSwitch the service must run, in the driver's own version (imbue, Azure, sichek check it).",
        "systemctl enable --now nvidia-fabricmanager, in the version of the driver.",
    ),
)

LINK_LIMITS = (*BUS, *LINKS)
