"""The limits of transfers between the device and the host, each with its source and its reason."""

from __future__ import annotations

from mats.model import Limit, Quantity, Relation, Severity, Source, SourceKind, Unit

READ = "2026-12-01"
GPU_LIKE = ("cuda", "sim")
LINK_SHARE = "latency.link_share"
LINK_TRAINED = "latency.link_trained"
MISMATCHES = "latency.transfer_mismatches"
CORRECTED, UNCORRECTED, REPLAYS = (
    "latency.link_corrected_errors",
    "latency.link_uncorrected_errors",
    "latency.link_replays",
)
TRAINED = 0.99
"""Of what every end on the way can; less is a lower generation or fewer lanes."""
ENOUGH_SHARE = 0.78
"""Of a link's bandwidth: from here on a pinned copy is as fast as on healthy machines."""

_MEASURED = Source(
    "nvbandwidth and bandwidthTest figures of healthy machines",
    "DCGM's and superbench's logs, HGX H100, 8x H200: 0.79 to 0.88 of PCIe 3, 4 and 5 x16 after line coding",
    SourceKind.MEASURED,
    READ,
)
_SPEC = Source(
    "PCI Express Base Specification", "a link trains to the most that both ends can", SourceKind.DEFINITION, READ
)
_DCGM = Source(
    "NVIDIA DCGM",
    "diagnostic plugin pcie: 80 replays in a run, 16 corrected errors in a minute",
    SourceKind.VENDOR,
    READ,
)
_AER = Source("Linux kernel, PCI/pcieaer-howto", "corrected and uncorrected errors", SourceKind.VENDOR, READ)
_DEFINITION = Source("definition", "a link must deliver what was sent", SourceKind.DEFINITION, READ)
_RATIO, _COUNT = Unit.RATIO, Unit.COUNT
_SHARE_ADVICE = (
    "Look at the other limits of the link first; then at what shares the way (other devices of the same switch), at "
    "the IOMMU, and at the processor's power limits."
)
_ERROR_ADVICE = "Reseat the card, check its riser, cable and slot; run it again, and see mats health --load."


def _errors(
    code: str, measurement: str, title: str, bound: float, severity: Severity, source: Source, why: str
) -> Limit:
    return Limit(
        code,
        measurement,
        title,
        Relation.AT_MOST,
        Quantity(bound, _COUNT),
        severity,
        source,
        why,
        _ERROR_ADVICE,
        kinds=GPU_LIKE,
    )


TRANSFER_LIMITS = (
    Limit(
        "LAT-020",
        LINK_TRAINED,
        "the link to the host is slow under load",
        Relation.AT_LEAST,
        Quantity(TRAINED, _RATIO),
        Severity.FAIL,
        _SPEC,
        "Kept busy with copies, every link on the way runs at the generation and lanes that both its ends can; at rest "
        "it slows down, which is normal and not judged.",
        "Reseat the card, check riser, slot and the slot's firmware settings.",
        kinds=GPU_LIKE,
    ),
    Limit(
        "LAT-021",
        LINK_SHARE,
        "copies carry less than the link can",
        Relation.AT_LEAST,
        Quantity(ENOUGH_SHARE, _RATIO),
        Severity.WARN,
        _MEASURED,
        "Packet heads take 12 to 21 % of a link on healthy machines; more than that is lost somewhere on the way.",
        _SHARE_ADVICE,
        kinds=GPU_LIKE,
    ),
    Limit(
        "LAT-022",
        LINK_SHARE,
        "copies carry far less than the link can",
        Relation.AT_LEAST,
        Quantity(0.65, _RATIO),
        Severity.FAIL,
        _MEASURED,
        "No healthy machine that was measured stays below 0.79 of its link; a sixth below that is no spread.",
        _SHARE_ADVICE,
        kinds=GPU_LIKE,
    ),
    Limit(
        "LAT-023",
        MISMATCHES,
        "data arrived other than they were sent",
        Relation.AT_MOST,
        Quantity(0, _COUNT),
        Severity.FAIL,
        _DEFINITION,
        "The link checks every packet and sends it again, so that a wrong word means a fault behind its checks.",
        "Do not use this device for work; run mats stress on it and on the host to tell the link from the memories.",
        kinds=GPU_LIKE,
    ),
    _errors(
        "LAT-024",
        CORRECTED,
        "corrected errors on the way to the host while copies ran",
        0,
        Severity.WARN,
        _AER,
        "A good link counts none in seconds of copies; each was sent again, so that data are right and time is lost.",
    ),
    _errors(
        "LAT-025",
        CORRECTED,
        "many corrected errors on the way to the host while copies ran",
        16,
        Severity.FAIL,
        _DCGM,
        "DCGM fails above 16 in a minute; here that many came in less.",
    ),
    _errors(
        "LAT-026",
        UNCORRECTED,
        "uncorrected errors on the way to the host while copies ran",
        0,
        Severity.FAIL,
        _AER,
        "A transfer was lost, or the link fell, during the test itself.",
    ),
    _errors(
        "LAT-027",
        REPLAYS,
        "the link sent packets again while copies ran",
        0,
        Severity.NOTE,
        _SPEC,
        "A link may lose a bit in 10^12 and sends such a packet again: single replays are within its specification.",
    ),
    _errors(
        "LAT-028",
        REPLAYS,
        "the link sent many packets again while copies ran",
        80,
        Severity.WARN,
        _DCGM,
        "DCGM allows 80 in a run whatever the generation, which was found too strict for fast links.",
    ),
)
