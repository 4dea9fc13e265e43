"""The limits of the link test, each with its source and reason. No speed stands here: targets come from the links."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

READ = "2026-12-01"
GPU_LIKE = ("cuda", "sim", "file")
SPEED = ("link.share", "link.kept_both_ways", "link.below_class", "link.direct_gain", "link.copy_latency")
"""What another process on the links would spoil."""

_MEASURED = Source(
    "published measurements of healthy links",
    "PCIe 3 to 5: 0.79 to 0.88 of the coded rate; NVLink 1 to 5: 0.81 to 0.93 of the payload "
    "(nvbandwidth logs of A100, H100, H200, B200; p2pBandwidthLatencyTest; nccl-tests)",
    SourceKind.MEASURED,
    READ,
)
_ACS = Source(
    "NVIDIA/nccl issues 814 and 1127, nccl-tests 74 and 112", "half speed until ACS was off", SourceKind.MEASURED, READ
)
_SPREAD = Source("cuda-samples issue 449", "5 to 10 % from run to run of five copies", SourceKind.MEASURED, READ)
_DEFINITION = Source("definition", "what arrives must be what was sent", SourceKind.DEFINITION, READ)
_DCGM = Source(
    "NVIDIA/DCGM 72fa3fe",
    "diag: CRC 100 a second, recoveries 0, replays 80, AER 16 a minute (32 at Gen5)",
    SourceKind.VENDOR,
    READ,
)
_DCGM_LINKS = Source(
    "NVIDIA/DCGM issues 198 and 49",
    "a test that passes with all links down, one that fails without a bridge",
    SourceKind.MEASURED,
    READ,
)
_PCIE = Source(
    "PCI Express Base Specification", "a link trains to what both of its ends can", SourceKind.DEFINITION, READ
)
_DUPLEX = Source(
    "nvbandwidth, p2pBandwidthLatencyTest and gpu_copy logs; cuda-samples issue 357",
    "both ways at once: 0.93 (PCIe 3), 0.985 (L40S), 0.95 (A100); 7 GB/s on some GPUs",
    SourceKind.MEASURED,
    READ,
)
_HONESTY = Source("README of mats", "unknown is not healthy", SourceKind.CONVENTION, READ)
_OWN = Source("the command line", "--min-bandwidth-gbps and --max-latency-ns", SourceKind.CONVENTION, READ)
_THROUGH = Source(
    "p2pBandwidthLatencyTest on RTX 4090, L40S and H100",
    "1.1 to 3.4 us direct, 10 to 21 us through the host",
    SourceKind.MEASURED,
    READ,
)
_LOSS = Source(
    "NVIDIA NVML API reference",
    "fields 201, 203 and 212: packets and discards, NVLink 5 and newer only",
    SourceKind.VENDOR,
    READ,
)
_RATIO, _COUNT = Unit.RATIO, Unit.COUNT
_MOST, _LEAST = Relation.AT_MOST, Relation.AT_LEAST

_SEAT = "Look at the counters and the topology; reseat cards, bridges and risers, reset the GPUs, and measure again."

LIMITS = (
    Limit(
        "LNK-001",
        "link.share",
        "the link carries far less than it should",
        _LEAST,
        Quantity(0.65, _RATIO),
        Severity.FAIL,
        _MEASURED,
        "The slowest healthy link that was published reaches 0.79; below 0.65 of the target lanes or links are gone.",
        _SEAT,
    ),
    Limit(
        "LNK-002",
        "link.share",
        "the link carries less than it should",
        _LEAST,
        Quantity(0.78, _RATIO),
        Severity.WARN,
        _MEASURED,
        "Healthy links were measured at 0.79 to 0.93 of what the links that are up carry.",
        _SEAT,
    ),
    Limit(
        "LNK-003",
        "link.direct_gain",
        "the direct way is slower than the one through the host",
        _LEAST,
        Quantity(0.95, _RATIO),
        Severity.FAIL,
        _ACS,
        "A copy that gains nothing from going straight is sent round by ACS or the IOMMU; 5 % are noise.",
        "Where no GPU is passed to a virtual machine, turn off ACS on the PCIe switches (setpci, or the firmware's "
        "setting) and the IOMMU's translation (iommu=pt); else let programs copy through the host "
        "(NCCL_P2P_DISABLE=1).",
    ),
    Limit(
        "LNK-004",
        "link.mismatched_bytes",
        "data changed on the way",
        _MOST,
        Quantity(0, Unit.BYTE),
        Severity.FAIL,
        _DEFINITION,
        "Whatever its speed, a link that delivers other bytes than were sent spoils every result.",
        "Do not use this link for work. Run mats stress on both GPUs to see whether it is their memory; look at the "
        "IOMMU, ACS and the driver; with a patched driver, use one that allows peer access by itself.",
    ),
    Limit(
        "LNK-005",
        "link.down",
        "NVLinks are down that should be up",
        _MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DCGM_LINKS,
        "Some links of a GPU down, or all of them while its neighbours have theirs: its share of the fabric is gone.",
        "Save nvidia-bug-report; reset the GPUs, restart the fabric manager, reseat; service if they stay down.",
    ),
    Limit(
        "LNK-006",
        "link.below_class",
        "a pair is slower than the others of its kind",
        _MOST,
        Quantity(0.15, _RATIO),
        Severity.WARN,
        _SPREAD,
        "Pairs that are joined alike differ by the noise of a measurement alone: 15 % below the others is beyond it.",
        _SEAT,
    ),
    Limit(
        "LNK-007",
        "link.kept_both_ways",
        "the link is slow while both ways are busy",
        _LEAST,
        Quantity(0.65, _RATIO),
        Severity.WARN,
        _DUPLEX,
        "Links carry each way at once: healthy ones keep 0.93 to 0.99 of one way while the other is as busy.",
        "Measure again on an idle machine; copies of both ways may share one copy engine or one part of the host.",
    ),
    Limit(
        "LNK-008",
        "link.copy_latency",
        "a direct copy takes as long to begin as one through the host",
        _MOST,
        Quantity(10e-6, Unit.SECOND),
        Severity.WARN,
        _THROUGH,
        "Direct copies of a few bytes take 1.1 to 3.4 us, and 10 us are where those through the host begin.",
        "See whether copies are direct at all (nvidia-smi topo -p2p r), and whether the machine was busy.",
        kinds=("cuda", "file"),
    ),
    Limit(
        "LNK-009",
        "link.access_lost",
        "NVLinks join the two, and the driver gives no direct access",
        _MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DCGM_LINKS,
        "GPUs that NVLinks join reach each other's memory; where they do not, the fabric or the driver is not ready.",
        "Restart nvidia-fabricmanager in the driver's version, reset the GPUs, and see mats health.",
    ),
    Limit(
        "LNK-010",
        "link.pcie_loaded_share",
        "a PCIe link is slow under load",
        _LEAST,
        Quantity(0.99, _RATIO),
        Severity.FAIL,
        _PCIE,
        "Kept busy with copies, a link runs at the most that both ends and every port above can; at rest it need not.",
        "Reseat the card, check riser, slot and firmware settings of the slot.",
    ),
    Limit(
        "LNK-011",
        "link.nvlink_recoveries",
        "NVLinks had to be trained anew during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DCGM,
        "A link that recovers under load stops for milliseconds, and is near to staying down: DCGM allows none.",
        "Reset the GPUs; reseat bridges or modules; service if it comes again.",
    ),
    Limit(
        "LNK-012",
        "link.nvlink_replays",
        "NVLink packets were sent again during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.WARN,
        _DCGM,
        "Packets that are sent again are whole at the end; a healthy link needs it rarely, and not in a short test.",
        "Measure again for longer; reseat bridges or modules if the count grows each time.",
    ),
    Limit(
        "LNK-013",
        "link.nvlink_crc_rate",
        "NVLink checksum errors, many a second",
        _MOST,
        Quantity(100, Unit.HERTZ),
        Severity.FAIL,
        _DCGM,
        "Corrected by sending again, and too many of them slow the link: DCGM fails from 100 a second.",
        "Reset the GPUs; reseat bridges or modules; service if it stays.",
    ),
    Limit(
        "LNK-014",
        "link.nvlink_crc_errors",
        "NVLink checksum errors during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.NOTE,
        _DCGM,
        "A few are corrected by sending again and do no harm; their rate is what counts.",
        "Nothing to do for single ones; measure again for longer.",
    ),
    Limit(
        "LNK-015",
        "link.pcie_replays",
        "PCIe packets were sent again during the test",
        _MOST,
        Quantity(80, _COUNT),
        Severity.WARN,
        _DCGM,
        "DCGM fails a run of its test from 80 on, and DCGM issue 184 tells that healthy Gen5 links reach that.",
        "Reseat the card, check riser and cables; compare with a lower generation of the slot.",
    ),
    Limit(
        "LNK-016",
        "link.pcie_corrected_share",
        "corrected PCIe errors, many a minute",
        _MOST,
        Quantity(1, _RATIO),
        Severity.FAIL,
        _DCGM,
        "As a share of what DCGM allows, 16 a minute and 32 for Gen5 x16: beyond it the link itself is bad.",
        "Reseat the card, check riser, cables and slot.",
    ),
    Limit(
        "LNK-017",
        "link.pcie_corrected",
        "corrected PCIe errors during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.WARN,
        _DCGM,
        "Counted by the system at the card or a port above while the link was busy; a good link shows none in minutes.",
        "Measure again; reseat the card, check riser and cables if they come again.",
    ),
    Limit(
        "LNK-018",
        "link.pcie_uncorrected",
        "uncorrected PCIe errors during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DCGM,
        "A transfer was lost on the way, which the link's own repair could not mend.",
        "Look at the kernel's log; reseat the card, check riser and slot; service if it comes again.",
    ),
    Limit(
        "LNK-019",
        "link.packet_loss",
        "packets were discarded",
        _MOST,
        Quantity(0, _RATIO),
        Severity.WARN,
        _LOSS,
        "Counted by the hardware of NVLink 5 and newer alone; older links send again and lose nothing.",
        "Reset the GPUs and measure again; see mats health for the fabric.",
    ),
    Limit(
        "LNK-020",
        "link.own_bandwidth_share",
        "slower than you asked for",
        _LEAST,
        Quantity(1, _RATIO),
        Severity.FAIL,
        _OWN,
        "The bandwidth of --min-bandwidth-gbps is your own; what the links themselves should carry is another limit.",
        "See the target of the links in the table of pairs; raise or lower the bound where it does not fit them.",
    ),
    Limit(
        "LNK-021",
        "link.own_latency_share",
        "later than you asked for",
        _MOST,
        Quantity(1, _RATIO),
        Severity.FAIL,
        _OWN,
        "The latency of --max-latency-ns is your own, held against one load over the link.",
        "See the notes: what no link can do is said there.",
    ),
    Limit(
        "LNK-022",
        "link.other_processes",
        "another process used the GPUs",
        _MOST,
        Quantity(0, _COUNT),
        Severity.UNKNOWN,
        _HONESTY,
        "Copies of another process share the links: a slow answer may be its doing.",
        "End the other work and run it again without --force.",
        voids=SPEED,
    ),
    Limit(
        "LNK-023",
        "link.nvlink_other_errors",
        "other NVLink errors during the test",
        _MOST,
        Quantity(0, _COUNT),
        Severity.WARN,
        _DCGM,
        "Malformed or overrun packets, errors of the receiver or such that error correction could not mend.",
        "Measure again; reset the GPUs; service if they come each time.",
    ),
    Limit(
        "LNK-030",
        "link.measured",
        "not all that was asked for could be measured",
        _LEAST,
        Quantity(1, _COUNT),
        Severity.UNKNOWN,
        _HONESTY,
        "A link that was not measured, not verified, or whose target is not known has no verdict.",
        "See the reason, and what else would tell.",
        required=True,
    ),
)
"""By code."""
