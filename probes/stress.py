"""Does this memory return what was written to it?

Method. The memory is allocated in chunks down to a stated headroom. Each test writes patterns that the device itself
computes, reads everything back past the cache, and compares. Before its silence counts, the tester plants errors
and must find them. A wrong word is read twice more, compared on the CPU, written again and read again: that tells a
cell from the way to it. What failed is counted by bit, direction, page and test, and named by the shape of the
evidence. Between the tests reference reads watch the bandwidth, since a link that sends data again shows there only.

Tests. page_ids finds capacity that does not exist. own_address, rotated_address (another pattern each pass),
checkerboard, random, walking and a pattern of your own find stuck bits, lines and decoders. moving_inversions,
mats_plus, mats_plus_plus, march_c and modulo_20 find cells that depend on their neighbours; on a device that runs many
blocks at once their sweeps are block-ordered. bit_fade finds cells that forget, window finds words that change though
they are only read. row_disturb reads rows again and again and, on real memory, is run only when named. The table of
tests in each report says what each finds and how many bytes it moves per byte tested.

What it cannot see. Faults in memory that was not tested (the report accounts for every byte). Single-bit faults that
ECC corrects (the device's counters are read before and after). Faults that show less often than the stated bound,
at other temperatures or clocks, or after longer times than the dwell. Registers and caches. Row disturb beyond the
access rate that was reached. It never tells a chip or a place on a board: a virtual address does not know.

Sources. van de Goor, Testing Semiconductor Memories, 1991 (March tests); Haque and Pande, 2010 (modulo-20 on GPUs);
JEDEC's organisations of GDDR and HBM (data lines, bursts); memtest_vulkan (patterns that verify without a copy).
"""

from __future__ import annotations

from mats.device import Device
from mats.model import Observation
from mats.probe import Context, Option, OptionKind, Probe

from ._catalogue import CATALOGUE
from ._limits import LIMITS

__all__ = ["CATALOGUE", "PROBE"]


def measure(device: Device, context: Context) -> Observation:
    """Tests the device's memory. Raises UsageError, DeviceError; memory is freed when the caller closes the device."""
    from ._session import test_memory  # the tests' machinery is not needed to print a help page

    return test_memory(device, context)


OPTIONS = (
    Option(
        "size",
        OptionKind.MEBIBYTES,
        "How much to test; default: all that can be had less the headroom (of a host, half of what is available).",
    ),
    Option("pattern", OptionKind.TEXT, "A word in hexadecimal to test with its complement, e.g. 0xdeadbeef."),
    Option("duration", OptionKind.SECONDS, "Repeat the tests until this time is up; default: as many as --passes."),
    Option(
        "tests",
        OptionKind.TEXT,
        "Names of tests with commas, or default, or all; see mats explain stress.",
        default="default",
    ),
    Option("passes", OptionKind.COUNT, "How often each test is run.", default=1),
    Option("coverage", OptionKind.SHARE, "The share of the device that must be tested, e.g. 0.95 or 95%."),
    Option(
        "reserve",
        OptionKind.MEBIBYTES,
        "The headroom that is left free; default: 1 % and at least 256 MiB of a GPU, "
        "10 % and at least 1 GiB of a host.",
    ),
    Option("dwell", OptionKind.SECONDS, "How long bit_fade waits between writing and reading.", default=2.0),
    Option("max-temp", OptionKind.NUMBER, "Stop at this temperature in degrees Celsius.", default=90.0),
    Option("stop-on-error", OptionKind.FLAG, "End with the first sweep that finds errors.", default=False),
    Option(
        "force-errors",
        OptionKind.FLAG,
        "Make a few errors on purpose, to see the whole chain report them.",
        default=False,
    ),
    Option("resume", OptionKind.RUN_IN, "A saved run of the same device whose counts are continued."),
    Option("errors-csv", OptionKind.FILE_OUT, "Write the error records as CSV.", writes="errors"),
    Option("bad-ranges", OptionKind.FILE_OUT, "Write the address ranges with errors as CSV.", writes="bad_ranges"),
)

PROBE = Probe(
    name="stress",
    question="Does this memory return what was written to it?",
    kinds=("cuda", "host", "sim"),
    order=500,
    exclusive=True,
    limits=LIMITS,
    faults=tuple(name for name in CATALOGUE if name not in ("unstructured", "tester_unreliable")),
    options=OPTIONS,
    measure=measure,
    aliases=("mem-pattern",),
    quick=(("duration", 60.0),),
)
