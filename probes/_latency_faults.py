"""The faults of timing, for the fault catalogue: what each looks like, what usually causes it, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._catalogue import FaultClass

_CLASSES = (
    FaultClass(
        name="slow_region",
        title="A part of the memory that answers late",
        signature="one or several regions take longer for each load than the others, in most passes and in a second "
        "allocation; the data are whole",
        cause="memory that sends again what arrived with errors, a slower part of an uneven memory, or pages "
        "that are not where they should be (in the host, moved by a driver)",
        advice="Compare ECC and replay counters before and after, remove any memory overclock, and test again; if it "
        "stays, compare with a card of the same model before you return it.",
        source="memtest_vulkan issue 75 (retransmissions as the usual cause); reports of cards with an uneven memory",
    ),
    FaultClass(
        name="slow_channel",
        title="A share of all lines that answers late, everywhere alike",
        signature="no region stands out, but a fixed share of the lines of each region takes longer from memory, "
        "though not from the cache",
        cause="one of the channels over which addresses are spread; its memory, its controller, or the way between",
        advice="Compare ECC and replay counters before and after, remove any memory overclock, and test again; if it "
        "stays, compare with a card of the same model before you return it.",
        source="address hashing over channels is assumed from published measurements; no vendor documents it",
    ),
    FaultClass(
        name="host_link_slow",
        title="The link to the host is slower than both its ends can",
        signature="while copies run, a link on the way to the processor has fewer lanes or a lower generation than its "
        "ends can, or copies from pinned memory carry far less than it could",
        cause="a card that sits badly, a riser or cable that does not carry the speed, a firmware setting of the slot, "
        "or a device or processor that shares or throttles the way",
        advice="Reseat the card, check riser, cable and the slot's firmware settings; compare with another slot.",
        source="PCI Express Base Specification (link training); reports of degraded links under load",
    ),
    FaultClass(
        name="host_link_corrupt",
        title="Data change on the way between host and device",
        signature="words arrive other than they were sent, though both memories hold what is written to them directly",
        cause="a fault behind the link's own checks: a bridge, a controller or a buffer at one of its ends, or an "
        "IOMMU or driver that is patched",
        advice="Do not use this device for work. Run mats stress on the device and on the host, then try another slot.",
        source="definition: the link checks every packet, so that what it delivers wrong was damaged beside it",
    ),
    FaultClass(
        name="host_link_errors",
        title="The link to the host sends again what did not arrive whole",
        signature="while copies run, a link on the way counts corrected errors or replays; the data are whole",
        cause="a contact, riser or cable that does not carry the speed well, or a failing end of the link",
        advice="Reseat the card, check riser, cable and slot; see mats health --load, which looks at each end.",
        source="PCI Express Base Specification (advanced error reporting, replays)",
    ),
)

CATALOGUE: Mapping[str, FaultClass] = MappingProxyType({fault.name: fault for fault in _CLASSES})
"""The fault classes of timing by name."""
