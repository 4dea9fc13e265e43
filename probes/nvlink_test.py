"""Do the links between these GPUs carry what they should, and do data arrive unchanged?

Method. Every pair of GPUs, each way: copies directly and by way of the host's memory (peer access on and off), with
both ways busy at once, all to one, one to all and round a ring; copies of 16 bytes; one load over the link, by a chain
of loads in the other GPU's memory. Data are verified on arrival: by copies, and by kernels that load and store over the
link, both ways at one moment, in bounded time. Counters of NVLink and PCIe (replays, recoveries, checksums, AER) are
read before and after, and judged by what they grew. The PCIe links are read while they are busy.
--mode server and --mode client measure between two processes, which is how programs with a process for each GPU share
memory (CUDA IPC); start the server first. --from judges what nvbandwidth, p2pBandwidthLatencyTest, nccl-tests,
superbench and nvidia-smi (nvlink, topo) have said; several files are one machine.

How it judges. A target comes from what is there: active NVLinks times the payload of each (the driver's speed less its
coding: 16/17 for NVLink 4 and 5), or the narrowest PCIe link between the two. 0.78 of it is in order, below 0.65 fails.
Pairs are compared with pairs that are joined alike. Failures of their own: wrong data, a direct way slower than that
through the host (ACS), NVLinks that are down where others have theirs. A card without a bridge has no fault. Where the
target is not told there is no verdict on speed, and --min-bandwidth-gbps gives one of your own. Of nccl-tests the
largest size is judged and never the average over all. A latency of 82 ns or a loss of 0 % are no figures of a link: a
load over NVLink takes about 0.8 us, and before NVLink 5 no hardware counts lost packets.

What it cannot see. Whether a library's own protocols work: "copy and load/store verified" is not "NCCL safe". Links
between machines. What a switch does under more load than these GPUs make. Which cable or connector it is. With one GPU,
without peer access, with MIG, vGPU or WSL there may be nothing to measure: it says which, and gives what goes through
the host.

Sources. NVIDIA: data sheets of P100 to B200, NVML and CUDA references, nvbandwidth, p2pBandwidthLatencyTest, nccl-tests
and DCGM with their issues; PCI Express Base Specification; Linux kernel documentation (AER); Azure's health checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mats.model import Observation
from mats.probe import Context, Option, OptionKind, Probe, UsageError

from ._nvlink_faults import CATALOGUE
from ._nvlink_limits import LIMITS

if TYPE_CHECKING:
    from mats.fabric import Fabric, Lender

__all__ = ["CATALOGUE", "PROBE"]

MODES = ("pairs", "server", "client")


def measure(door: Fabric | Lender, context: Context) -> Observation:
    """Measures the ways of a fabric, judges what files tell, or lends. Raises UsageError, DeviceError."""
    from ._nvlink_evidence import judge_evidence  # the machinery is not needed to print a help page
    from ._nvlink_peer import serve
    from ._nvlink_session import test_links

    mode = str(context.options["mode"])
    if mode not in MODES:
        raise UsageError(f"--mode {mode!r}: there are {', '.join(MODES)}")
    if mode == "server":
        return serve(cast("Lender", door), context)
    fabric = cast("Fabric", door)
    return test_links(fabric, context) if fabric.members() else judge_evidence(fabric, context)


OPTIONS = (
    Option(
        "mode",
        OptionKind.TEXT,
        "pairs: all pairs, in this process; server: lend the memory of --gpu to another process; client: measure "
        "between --gpu and the server's --server-gpu.",
        default="pairs",
    ),
    Option("gpu", OptionKind.TEXT, "The GPU of this process (index, UUID or PCI address), for server and client."),
    Option("server-gpu", OptionKind.TEXT, "The GPU that the server lends, for client."),
    Option("socket", OptionKind.TEXT, "The Unix socket where server and client meet; default: one of the user's own."),
    Option(
        "from",
        OptionKind.EVIDENCE,
        "Judge saved output instead: nvbandwidth, p2pBandwidthLatencyTest, nccl-tests, superbench, nvidia-smi nvlink "
        "and topo, a mats capture; several files are one machine.",
    ),
    Option("pairs", OptionKind.TEXT, "Only these pairs, such as 0-1,2-3; default: all."),
    Option("size", OptionKind.MEBIBYTES, "Size of a copy; default: 256 MiB, less on small GPUs."),
    Option("repeats", OptionKind.COUNT, "How often each figure is taken; the median counts.", default=7),
    Option("min-bandwidth-gbps", OptionKind.NUMBER, "Fail below this many GB/s one way: a bound of your own."),
    Option("max-latency-ns", OptionKind.NUMBER, "Fail where a load over a link takes longer: a bound of your own."),
)

FAULTS = ("link_slow", "link_corrupt", "link_inactive", "link_errors", "link_narrow", "link_p2p_slower")
"""Plans of simulated links that must not pass."""

PROBE = Probe(
    name="nvlink-test",
    question="Do the links between these GPUs carry what they should, and do data arrive unchanged?",
    kinds=("cuda", "file", "sim"),
    order=350,
    exclusive=True,
    limits=LIMITS,
    faults=FAULTS,
    options=OPTIONS,
    measure=measure,
    together=True,
    quick=(("repeats", 3),),
)
