"""The catalogue of memory faults: what each looks like in the data, what usually causes it, what to do.

One list serves the classifier, the reports, ``mats explain`` and the simulator's built-in plans, so that a
fault has one name everywhere. A name describes a pattern in the evidence. A virtual address does not name
a memory device or a place on the board, so no text here does either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class FaultClass:
    """A named fault: its signature in the data, the usual cause, the advice and where the knowledge is from."""

    name: str
    title: str
    signature: str
    cause: str
    advice: str
    source: str

    def __post_init__(self) -> None:
        for field in ("name", "title", "signature", "cause", "advice", "source"):
            if not getattr(self, field):
                raise ValueError(f"fault class {self.name or '?'} needs a {field}")


_CELLS = "fault models of the memory test literature (van de Goor, Testing Semiconductor Memories, 1991)"
_PATH = "memtest_vulkan README, section on error patterns; repair reports of MATS users"
_LOCALITY = "Sullivan et al., Characterizing and Mitigating Soft Errors in GPU DRAM, MICRO 2021"

_CLASSES = (
    FaultClass(
        name="stuck_cell",
        title="A memory cell that always reads the same value",
        signature="one address, one bit, one direction; re-reads repeat it, writing again does not clear it; "
        "seen in each pass whose pattern holds the opposite value, about half of them",
        cause="a weak or dead memory cell",
        advice="Keep the page out of use (see the quarantine list); where the GPU has row remapping, reset it so "
        "that a pending remap takes place, and test again. If new cells appear, return the board.",
        source=_CELLS,
    ),
    FaultClass(
        name="weak_retention",
        title="Cells that lose their value while they wait",
        signature="errors only after data rested for a while; each cell fails in one direction; re-reads repeat it, "
        "writing again clears it",
        cause="cells whose charge leaks faster than the refresh renews it; heat makes it worse",
        advice="Lower the memory temperature and repeat the bit-fade test with several dwell times; quarantine the "
        "pages. If it remains at normal temperatures, return the board.",
        source="data retention faults: van de Goor 1991; Liu et al., An Experimental Study of Data Retention "
        "Behavior in Modern DRAM Devices, ISCA 2013",
    ),
    FaultClass(
        name="stuck_dq",
        title="A data line that is stuck",
        signature="one or two bit positions hold nearly all errors, at thousands of addresses confined to one "
        "address slice; re-reads repeat it",
        cause="one data line between the memory controller and the memory: solder joint, trace, or an input or "
        "output stage at either end",
        advice="Do not use the board for work. Power down, reseat and test again; if the same bit position fails, "
        "the board needs repair or return. The test shows the path, not which part of it.",
        source=_PATH,
    ),
    FaultClass(
        name="flaky_dq",
        title="A data line with transmission errors",
        signature="one or two bit positions hold nearly all errors, but re-reads are often correct, or writing "
        "again clears them",
        cause="signal integrity: memory clock too high, supply noise, temperature, or a marginal joint",
        advice="Remove any memory overclock, improve cooling, and test again at a lower memory clock. If it stays "
        "at stock settings, the board needs repair or return.",
        source=_PATH,
    ),
    FaultClass(
        name="dbi_line",
        title="Bytes that arrive inverted",
        signature="7 or 8 of the 8 bits of one byte lane flip together",
        cause="the line that signals data bus inversion (or error detection) of one byte lane",
        advice="Remove any memory overclock and test again; if it stays, the board needs repair or return.",
        source="memtest_vulkan README (7 to 8 toggled bits); JEDEC JESD250 (GDDR6), data bus inversion",
    ),
    FaultClass(
        name="byte_lane",
        title="A byte lane that delivers wrong bytes",
        signature="all flipped bits lie in one byte lane, with any number of bits or as a constant 00 or FF",
        cause="one byte lane (its strobe, clock or group of data lines), or a fault that a byte shares",
        advice="Remove any memory overclock and test again; if it stays, the board needs repair or return.",
        source=_LOCALITY,
    ),
    FaultClass(
        name="dead_channel",
        title="An address slice that answers with a constant",
        signature="whole words read as all ones, all zeros, 0xBADxxxxx or one other value whatever was written, in "
        "a fixed share of all addresses",
        cause="a memory channel that does not answer: its memory, its controller, or its supply",
        advice="Do not use the board. Check the kernel log for Xid messages and power; a cold start may tell a "
        "controller state from a hard fault. Otherwise return the board.",
        source="memtest_vulkan README (0x0BADAC?? on NVIDIA); repair reports of MATS users",
    ),
    FaultClass(
        name="address_alias",
        title="Two addresses that share one cell",
        signature="the value read is the expected value of another address, and the XOR of the two addresses is "
        "the same for all errors",
        cause="an address line or row decoder that ignores one bit, or less memory than is reported",
        advice="Compare the reported memory size with the product's; if it is right, the board needs return.",
        source="address decoder faults: van de Goor 1991; own-address tests",
    ),
    FaultClass(
        name="wrong_row",
        title="Reads served from another address",
        signature="values are the expected values of far addresses without a constant relation; about half of "
        "the bits differ",
        cause="command or address transmission errors: a row or column address was misunderstood",
        advice="Remove any memory overclock, improve cooling and test again; if it stays, return the board.",
        source="memtest_vulkan README (samples with 12 to 20 flipped bits of 32)",
    ),
    FaultClass(
        name="lost_write",
        title="Writes that did not arrive",
        signature="the value read is what the pattern before had put at the same address, in runs of 32 bytes or "
        "more; writing again clears it",
        cause="write commands lost on the way: power, clocking, or a marginal command line",
        advice="Check power supply and cabling, remove any overclock, and test again; if it stays, return the board.",
        source="stressapptest issue 53",
    ),
    FaultClass(
        name="coupling",
        title="A cell that flips when another is written",
        signature="a fixed victim fails in march, modulo or inversion tests and never in write-then-verify tests; "
        "writing again clears it",
        cause="coupling between cells",
        advice="Quarantine the page; return the board if there are more than a few such cells.",
        source=_CELLS,
    ),
    FaultClass(
        name="row_disturb",
        title="Cells disturbed by much-used neighbours",
        signature="single-bit errors only where the row-disturb test hammered; one direction per cell",
        cause="the row hammer effect: many activations of one row leak charge in its neighbours",
        advice="Enable ECC where it can be; do not share the GPU between tenants who do not trust each other.",
        source="Lin et al., GPUHammer, USENIX Security 2025",
    ),
    FaultClass(
        name="failing_row",
        title="A small dense block of failing addresses",
        signature="a dense cluster, no more than one memory row spread over the channels, in one 2 MiB page",
        cause="one memory row that does not store",
        advice="Where the GPU has row remapping, reset it so that the remap takes place, and look at its pending "
        "and failed remaps. Elsewhere quarantine the page; return the board if it grows.",
        source=_CELLS,
    ),
    FaultClass(
        name="failing_column",
        title="One bit that fails at the same place of many rows",
        signature="one bit position of one word of the 32-byte sector, at addresses that repeat across pages",
        cause="one memory column (bit line or sense amplifier)",
        advice="Row remapping does not mend a column. Quarantine is seldom practical: return the board.",
        source=_CELLS,
    ),
    FaultClass(
        name="failing_bank",
        title="A small address slice fails as a whole",
        signature="whole sectors of wrong data, whatever the bits, in a small regular share of all addresses",
        cause="a bank, or another subdivision of one channel, that does not store",
        advice="Return the board. Row remapping has too few spare rows for this.",
        source=_CELLS,
    ),
    FaultClass(
        name="soft_upset",
        title="A single bit that flipped once",
        signature="one event, one bit; re-reads repeat it, writing again clears it, later passes are clean",
        cause="a particle strike or another rare disturbance; any memory without ECC has them",
        advice="It counts against the error bound. Test longer; a second event at the same address is a weak cell.",
        source=_LOCALITY,
    ),
    FaultClass(
        name="core_fault",
        title="The processor computes wrong, the memory holds the right data",
        signature="no structure in bits or addresses; re-reads are clean, and the same bytes compared on the CPU are "
        "clean as well",
        cause="a processing core, its registers or caches: clock, voltage or temperature of the GPU core",
        advice="Remove any core overclock or undervolting, check cooling and power, and test again. It is not a "
        "fault of the memory.",
        source="memtest_vulkan issue 77",
    ),
    FaultClass(
        name="counter_corrupt",
        title="The test's own counters are corrupted",
        signature="more errors than words tested, errors without a flipped bit, or counts that contradict each other",
        cause="the memory or core that runs the test is unreliable itself",
        advice="Nothing this run says about the memory can be trusted. Power down, test again with stock clocks.",
        source="memtest_vulkan issues 41 and 60",
    ),
    FaultClass(
        name="silent_retry",
        title="Bandwidth falls while the data stay clean",
        signature="no error, but falling bandwidth at constant clocks",
        cause="transmission errors that error detection repairs by sending again",
        advice="Compare ECC and replay counters before and after; lower the memory clock and improve cooling.",
        source="memtest_vulkan issues 61 and 75",
    ),
    FaultClass(
        name="spilled",
        title="The tested memory is not on the device",
        signature="bandwidth far below the device's peak, and the driver's used memory did not rise",
        cause="the driver placed the allocation in system memory",
        advice="Free device memory and test a smaller size: this was a test of the link, not of the device memory.",
        source="WSL issues 11050 and 41176",
    ),
    FaultClass(
        name="unstructured",
        title="Errors without a pattern that has a name",
        signature="none of the named patterns fits well enough",
        cause="unknown; several faults at once, a supply or controller fault, or too few errors to tell",
        advice="The errors are real even without a name. Remove any overclock, check power and cooling, and test "
        "again for longer; if they return, do not use the board.",
        source="convention of this tool: no name rather than a wrong one",
    ),
    FaultClass(
        name="tester_unreliable",
        title="The test contradicts itself",
        signature="totals that cannot be: more errors than words tested, errors without a flipped bit, or counts of "
        "the same errors that differ",
        cause="the core or memory that runs the test, the driver, or this tool is at fault",
        advice="Nothing this run says about the memory can be trusted, good or bad. Test again with stock clocks "
        "after a cold start; if it stays, report it with the saved run.",
        source="memtest_vulkan issues 41 and 60",
    ),
)

CATALOGUE: Mapping[str, FaultClass] = MappingProxyType({fault.name: fault for fault in _CLASSES})
"""Every fault class by its name."""
