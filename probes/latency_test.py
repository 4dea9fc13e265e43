"""Does any part of this memory answer later than it should?

Method. One thread walks a chain of loads, each of which says where the next one is, so that none can start before the
one ahead has ended; the clock is read by forms that wait for the load. The memory is cut into regions, each with the
same chain of lines that are visited once a walk: no cache can answer for them, and the translation of their addresses
is warmed first. Every region is walked by the same few multiprocessors, in another order in each pass. A pass is taken
relative to its own median, then the median over the passes is compared with that of all regions. A region that stands
out is looked at again in a second allocation, on other pages, before it counts as a failure.

What it cannot see. Less than 12 % (a warning) or 25 % (a failure) of one region; the rates of false alarms and of
detection that it prints are simulated, with assumed noise, until they were measured on GPUs. A slow channel whose lines
are spread over all regions. Memory that was not allocated. Where a region lies: a virtual address knows no chip and no
place on the board, and is another one in the next run. On a host it times the whole way to the memory: page sizes,
nodes and a hypervisor show as well, so that there it never fails for what is late, and a machine that is busy gives no
verdict. Bandwidth: see mats stress.

Sources. Saavedra and Smith 1995, and Mei and Chu 2017 (chains of loads); arXiv 2606.22588 (a load from the same line
takes 222 to 339 cycles on an NVIDIA L40, by which multiprocessor asks); gpu-benches and nvbandwidth (chains on GPUs);
Rousseeuw and Croux 1993 (median absolute deviation).
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
