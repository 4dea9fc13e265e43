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
)

CATALOGUE: Mapping[str, FaultClass] = MappingProxyType({fault.name: fault for fault in _CLASSES})
"""The fault classes of timing by name."""
