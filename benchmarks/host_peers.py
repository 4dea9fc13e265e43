"""Written-and-verified bytes per CPU-second and per second: mats beside the host memory testers people use today.

    python benchmarks/host_peers.py [--size 256] [--seconds 15] [--repeats 5] [--threads 2]

Runs the tools that are installed one after the other, again and again (interleaved, so that a change of the
machine's load meets all of them), and prints medians with their range. "Written and verified" counts a byte once
when it was written and later compared with what it should be; what each tool's own counter means stands beside its
parser. The bound is the machine's own memcpy: a copied byte is one byte read and one written, the least traffic
that writing and verifying a byte can cost.

Install the others with: apt-get install memtester stressapptest stress-ng mbw sysbench
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shlex import split

MIB = 1 << 20
GB = 1e9
COMPILED = str(Path(tempfile.gettempdir()) / "mats-host-peers")
SETTLE_SECONDS = 1.0
"""Between two tools, so that pages are given back."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What every tool is asked for."""

    size: int
    """Bytes under test; well above the last-level cache."""
    seconds: int
    threads: int


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its command, how to read bytes from its output, and what those bytes are."""

    name: str
    command: Callable[[Setting], list[str]]
    count: Callable[[str, Setting], float]
    counts: str
    verifies: bool = True
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: bytes, wall seconds and CPU-seconds of the whole process, start-up included."""

    amount: float
    wall: float
    cpu: float


@dataclass(slots=True)
class Row:
    tool: Tool
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""


def find_number(pattern: str, text: str) -> float:
    """The first group of the last match. Raises ValueError when the output does not look as expected."""
    found = re.findall(pattern, text)
    if not found:
        raise ValueError(f"its output has no {pattern!r}")
    return float(found[-1])


MEMTESTER_PAIRS = 144
"""Stuck address (16) and bit spread (128): sweeps that write all the memory and then compare all of it."""

STRESS_NG_WORDS = 4096
STRESS_NG_PAIRS = 4 / 3
"""move-inv counts three of its sweeps, 4,096 words of 8 bytes a bogo-op, and does four write-and-verify pairs."""


def find_program(name: str) -> str | None:
    """Beside this Python first, then on the path, then where Debian puts memtester."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin")


def mats_command(setting: Setting, tests: str = "default") -> list[str]:
    size, seconds = setting.size // MIB, setting.seconds
    return split(f"mats stress --target host --size {size} --duration {seconds} --tests {tests} --json")


def on_one_processor(command: list[str]) -> list[str]:
    """Pinned, so that a tool of one thread per processor has one thread, as memtester has."""
    program, *words = command
    return ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), find_program(program) or program, *words]


def mats_amount(output: str, _setting: Setting) -> float:
    """The lesser of what was written and what was verified, from the saved run."""
    run, _ = json.JSONDecoder().raw_decode(output)
    measurements = run["results"][0]["observation"]["measurements"]
    readings = {one["name"]: one["reading"] for one in measurements}
    return min(float(readings[name]["value"]) for name in ("memory.bytes_written", "memory.bytes_verified"))


TOOLS = (
    Tool("mats", mats_command, mats_amount, "all default tests; the lesser of bytes written and bytes verified"),
    Tool(
        "mats rotated_address",
        lambda s: mats_command(s, "rotated_address"),
        mats_amount,
        "one pattern, new for each pass, as stressapptest does; counted as above",
    ),
    Tool(
        "mats one thread",
        lambda s: on_one_processor(mats_command(s, "rotated_address")),
        mats_amount,
        "the same on one processor, beside memtester, which has one thread",
    ),
    Tool(
        "stressapptest -W",
        lambda s: split(f"stressapptest -W -s {s.seconds} -M {s.size // MIB} -m {s.threads}"),
        lambda text, _: find_number(r"Memory Copy: ([\d.]+)M at", text) * MIB / 2,
        "Memory Copy counts a copied byte twice: half of it was written and checked",
    ),
    Tool(
        "memtester",
        lambda s: split(f"memtester {s.size // MIB}M 1"),
        lambda _, s: float(MEMTESTER_PAIRS * s.size),
        "its address and bit spread tests: 144 sweeps written and compared; one thread, for as long as it takes",
        environment=(("MEMTESTER_TEST_MASK", "2048"),),
    ),
    Tool(
        "stress-ng move-inv",
        lambda s: split(
            f"stress-ng --vm {s.threads} --vm-bytes {s.size} --vm-method move-inv --vm-keep --verify --metrics"
            f" -t {s.seconds}"
        ),
        lambda text, _: find_number(r"\] vm +(\d+)", text) * STRESS_NG_WORDS * 8 * STRESS_NG_PAIRS,
        "a bogo-op is 4,096 counted words; 4 pairs of sweeps for 3 counted",
    ),
    Tool(
        "mbw (copies only)",
        lambda s: split(f"mbw -q -n 8 -t 0 {s.size // MIB}"),
        lambda _, s: float(8 * s.size),
        "libc memcpy in one thread; nothing is verified",
        verifies=False,
    ),
    Tool(
        "sysbench (writes only)",
        lambda s: split(
            f"sysbench memory --memory-block-size={s.size // MIB}M --memory-total-size=1024G --memory-oper=write"
            f" --threads={s.threads} --time={s.seconds} run"
        ),
        lambda text, _: find_number(r"([\d.]+) MiB transferred", text) * MIB,
        "plain stores; nothing is verified",
        verifies=False,
    ),
)


def run_tool(tool: Tool, setting: Setting) -> Sample:
    """One run. Raises ValueError when the tool failed or its output cannot be read."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": COMPILED} | dict(tool.environment)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its files compiled
    program, *words = tool.command(setting)
    command = [find_program(program) or program, *words]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text = output.read() + errors.read()
    if process.returncode != 0:
        raise ValueError(f"it ended with {process.returncode}: {text.strip().splitlines()[-1:]}")
    return Sample(tool.count(text, setting), wall, usage.ru_utime + usage.ru_stime)


def copy_bound(setting: Setting, seconds: float = 1.5) -> float:
    """Bytes a second that ``threads`` copy with the C library's memcpy: the best of the rounds within the time."""
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    memcpy.restype = ctypes.c_void_p
    share = setting.size // 2 // setting.threads // 4096 * 4096
    memory = mmap.mmap(-1, 2 * share * setting.threads)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(base, 1, len(memory))
    best = 0.0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pieces = [
            threading.Thread(target=memcpy, args=(base + 2 * i * share, base + (2 * i + 1) * share, share))
            for i in range(setting.threads)
        ]
        started = time.monotonic()
        for piece in pieces:
            piece.start()
        for piece in pieces:
            piece.join()
        best = max(best, share * setting.threads / (time.monotonic() - started))
    return best


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ({min(values):.2f}-{max(values):.2f})"


def measure(tools: list[Tool], setting: Setting, repeats: int) -> tuple[list[Row], list[float]]:
    """All tools in turn, ``repeats`` times; a tool that fails once is left out from then on."""
    rows = [Row(tool) for tool in tools]
    bounds = []
    for repeat in range(repeats):
        bounds.append(copy_bound(setting))
        for row in rows:
            if row.failure:
                continue
            print(f"\r{repeat + 1}/{repeats} {row.tool.name:<30}", end="", file=sys.stderr, flush=True)
            try:
                row.samples.append(run_tool(row.tool, setting))
            except (ValueError, KeyError, OSError) as error:
                row.failure = str(error)
            time.sleep(SETTLE_SECONDS)
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return rows, bounds


def per_cpu(row: Row) -> list[float]:
    return [one.amount / one.cpu / GB for one in row.samples]


def per_second(row: Row) -> list[float]:
    return [one.amount / one.wall / GB for one in row.samples]


def print_table(rows: list[Row], bounds: list[float], setting: Setting) -> None:
    """The figures, ours as ratios to each tool's, and what was counted."""
    print(f"memcpy bound with {setting.threads} threads: {spread([one / GB for one in bounds])} GB/s copied\n")
    print(f"{'':24}{'GB per CPU-second':>22}{'GB per second':>22}")
    for row in rows:
        if row.failure or not row.samples:
            print(f"{row.tool.name:24}{row.failure or 'not run'}")
        else:
            print(f"{row.tool.name:24}{spread(per_cpu(row)):>22}{spread(per_second(row)):>22}")
    measured = [row for row in rows if row.samples and not row.failure]
    for ours in (row for row in measured if row.tool.name.startswith("mats")):
        share = statistics.median(per_second(ours)) * GB / statistics.median(bounds)
        print(f"\n{ours.tool.name}: {share:.0%} of the copy bound in wall time; beside the tools that verify")
        for row in (row for row in measured if row.tool.verifies and not row.tool.name.startswith("mats")):
            cpu = statistics.median(per_cpu(ours)) / statistics.median(per_cpu(row))
            wall = statistics.median(per_second(ours)) / statistics.median(per_second(row))
            print(f"  {row.tool.name:22}{cpu:6.2f}x per CPU-second{wall:8.2f}x per second")
    print("\nWhat was counted (median, range; start-up of each process included):")
    for row in rows:
        print(f"  {row.tool.name}: {row.tool.counts}")


def processor() -> str:
    """The processor's name, from Linux when it tells one."""
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    found = re.search(r"^model name\s*: (.*)$", text, re.M)
    return found[1] if found else platform.processor() or platform.machine()


def main() -> int:
    """Runs the comparison; exit code 0 when mats was measured."""
    parser = argparse.ArgumentParser(description="mats beside other host memory testers")
    parser.add_argument("--size", type=int, default=256, help="MiB under test (default 256)")
    parser.add_argument("--seconds", type=int, default=15, help="time given to each run that takes one (default 15)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    setting = Setting(asked.size * MIB, asked.seconds, asked.threads)
    load = os.getloadavg()[0]
    print(f"{time.strftime('%Y-%m-%d')}, {processor()}, {os.cpu_count()} processors, {platform.system()}")
    print(f"{asked.size} MiB, {asked.seconds} s, {asked.repeats} repeats; load of the machine before: {load:.1f}")
    here = [tool for tool in TOOLS if tool.name == "mats" or find_program(tool.command(setting)[0])]
    for tool in TOOLS:
        if tool not in here:
            print(f"not installed, left out: {tool.command(setting)[0]}")
    rows, bounds = measure(here, setting, asked.repeats)
    print_table(rows, bounds, setting)
    return 0 if rows[0].samples else 1


if __name__ == "__main__":
    sys.exit(main())
