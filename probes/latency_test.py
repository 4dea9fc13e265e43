"""Does any part of this memory answer later than it should?

Method. One thread walks a chain of loads, each of which says where the next one is, so that none can start before the
one ahead has ended; the clock is read by forms that wait for the load. Four parts:

Regions. The memory is cut into regions, each with the same chain of lines that are visited once a walk: no cache can
answer for them, and the translation of their addresses is warmed first. Every region is walked by the same few
multiprocessors, in another order in each pass. A pass is taken relative to its own median, then the median over the
passes is compared with that of all regions.

Lines. Addresses are spread over the channels of a memory line by line, so that one slow channel makes no region late,
but a share of the lines of every region. 4096 lines are timed one by one by one multiprocessor, five times from the
memory and five times from the cache. What the cache took is taken off: the place of the multiprocessor and the way to
the line's part of the cache are in both, and the memory's own part is left. Lines that need more than 1.25 times the
usual part are counted. What stands out of either part is looked at again in a second allocation, on other pages, before
it counts as a failure.

Ladder. Working sets from 2 KiB to several times the last cache show what a load takes from each cache and from the
memory, beside published figures of the same product where there are any. It informs and is not judged: no vendor states
what these levels must take.

Transfers. Copies of 4 KiB to 1 GiB between device and host, both ways, from pinned memory and from other, give a start
and a speed (t = a + n / b). The link is read while it is busy, its errors are counted, and what arrives is compared.
Speeds from pinned memory are held against the narrowest link up to the processor as it runs then, and that against what
every end on the way can; a way that is not seen whole, or is no PCIe, is not judged by it. On a host: copies by size,
and from each memory node's processors to each node's memory.

What it cannot see. Less than 12 % (a warning) or 25 % (a failure) of one region; a channel whose lines need less than a
quarter more of the memory's own time, or that has fewer than 4 of 1000 lines. Where half of the lines need longer, as
where a cache has a near and a far half, a slow channel shows among these alone. The rates of false alarms and of
detection that it prints are simulated, with assumed noise, until they were measured on GPUs. Memory that was not
allocated. Where a region or a channel lies: a virtual address knows no chip and no place on the board, and is another
one in the next run. On a host it times the whole way to the memory: page sizes, nodes and a hypervisor show as well, so
that there it never fails for what is late, and a machine that is busy gives no verdict; lines are told apart only where
the processor's clock is read in fine enough steps, and no link lies between. Bandwidth of the memory: see mats stress.

Sources. Saavedra and Smith 1995, and Mei and Chu 2017 (chains of loads); arXiv 2606.22588 (a load from the same line
takes 222 to 339 cycles on an NVIDIA L40, by which multiprocessor asks); gpu-benches, AI_kernels, gpu-micro-bench and
nvbandwidth (chains and copies on GPUs); PCI Express Base Specification and NVIDIA DCGM (links); Rousseeuw and Croux
1993 (median absolute deviation).
"""

from __future__ import annotations

from mats.device import Device
from mats.model import Observation
from mats.probe import Context, Option, OptionKind, Probe

from ._latency_faults import CATALOGUE
from ._latency_limits import LIMITS
from ._latency_transfer_limits import TRANSFER_LIMITS

__all__ = ["CATALOGUE", "PROBE"]


def measure(device: Device, context: Context) -> Observation:
    """Times the device's memory. Raises UsageError, DeviceError; memory is freed when the caller closes the device."""
    from ._latency_session import test_latency  # the machinery is not needed to print a help page

    return test_latency(device, context)


OPTIONS = (
    Option(
        "size",
        OptionKind.MEBIBYTES,
        "How much to time; default: all that can be had less the headroom (of a host, at most 4 GiB).",
    ),
    Option("passes", OptionKind.COUNT, "How often each region is walked; fewer than 7 give no verdict.", default=15),
    Option(
        "reserve",
        OptionKind.MEBIBYTES,
        "The headroom that is left free; default: 1 % and at least 256 MiB of a GPU, "
        "10 % and at least 1 GiB of a host.",
    ),
)

PROBE = Probe(
    name="latency-test",
    question="Does any part of this memory answer later than it should?",
    kinds=("cuda", "host", "sim"),
    order=300,
    exclusive=True,
    limits=(*LIMITS, *TRANSFER_LIMITS),
    faults=("slow_region", "slow_channel", "host_link_slow", "host_link_corrupt", "host_link_errors"),
    options=OPTIONS,
    measure=measure,
    quick=(("passes", 7),),
)
