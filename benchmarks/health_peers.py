"""Time of one look at eight GPUs: ``mats health`` beside the tools people look with today, on one stand-in for NVML.

    python benchmarks/health_peers.py [--repeats 15] [--profile h100x8] [--clients PYTHON]

Runs each tool once to warm the caches and then all of them in turn, again and again, so that a change of the machine's
load meets all of them. Wall time and CPU time (of the tool and every process it started) are from its start to its
end; the median and the range are printed, and the ratio to nvitop pair by pair. ``mats health`` reads some 150 calls a
GPU where nvitop makes some 20, judges them and prints its report, with ``--quiet`` none; the others print a table.

The others are those of ``--clients``, a Python that has them (pip install nvitop gpustat); by default this one. Exit
code: 0, 1 when a bound of the project is broken (0.6 s, 1.5 times nvitop), 3 when nvitop could not be run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the stand-in is built by the tests

from tests.mock_nvml import build  # noqa: E402

WALL_BOUND = 0.6
RATIO_BOUND = 1.5
PEER = "nvitop -1"


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one run: seconds by the clock, and of the processor."""

    wall: float
    cpu: float


@dataclass(slots=True)
class Tool:
    """A tool with its command and what it took each time; ``failure``: why it could not be run."""

    name: str
    command: list[str]
    environment: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""

    def run(self, folder: Path) -> Sample:
        """Raises RuntimeError when it does not do its work."""
        started = time.perf_counter()
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                self.command, stdout=output, stderr=subprocess.STDOUT, env=self.environment, cwd=folder
            )
            _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        text = (folder / "output").read_text(errors="replace")
        if process.returncode != 0:
            last = (text.strip().splitlines() or ["it prints nothing"])[-1]
            raise RuntimeError(f"exit code {process.returncode}: {last[:100]}")
        return Sample(wall, used.ru_utime + used.ru_stime)


def tools(profile: str, clients: str) -> list[Tool]:
    """The tools, each with the environment in which it finds the stand-in."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    others = {**own, **{k: v for k, v in build.environment(profile).items() if k not in os.environ or k[:2] == "LD"}}
    mats = [sys.executable, "-m", "mats", "health", "--target", f"sim:{profile}"]
    return [
        Tool("mats health", mats, own),
        Tool(PEER, [clients, "-m", "nvitop", "-1"], others),
        Tool("mats --quiet", [*mats, "--quiet"], own),
        Tool("gpustat", [clients, "-m", "gpustat", "--no-color"], others),
    ]


def measure(all_tools: list[Tool], repeats: int) -> None:
    """Takes ``repeats`` samples of each tool, in turn, after one that warms the caches."""
    with tempfile.TemporaryDirectory() as name:
        for turn in range(repeats + 1):
            for tool in all_tools:
                if tool.failure:
                    continue
                try:
                    sample = tool.run(Path(name))
                except (OSError, RuntimeError) as error:
                    tool.failure = str(error)
                    continue
                if turn:
                    tool.samples.append(sample)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def ratios(ours: Tool, theirs: Tool) -> list[float]:
    """Prints how two tools compare, pair by pair. The ratios of wall time."""
    pairs = list(zip(ours.samples, theirs.samples, strict=True))
    walls = [mine.wall / other.wall for mine, other in pairs]
    cpus = [mine.cpu / other.cpu for mine, other in pairs]
    print(f"{ours.name} / {theirs.name}: wall {spread(walls)}, CPU {spread(cpus)}")
    return walls


def report(all_tools: list[Tool]) -> int:
    """Prints the table and the ratios. The exit code."""
    print(f"{'tool':<14}{'wall [s]':>26}{'CPU [s]':>26}")
    for tool in all_tools:
        if tool.failure:
            print(f"{tool.name:<14}NOT RUN: {tool.failure}")
            continue
        wall, cpu = ([getattr(sample, name) for sample in tool.samples] for name in ("wall", "cpu"))
        print(f"{tool.name:<14}{spread(wall):>26}{spread(cpu):>26}")
    mats, peer, quiet, *_ = all_tools
    if mats.failure or quiet.failure or peer.failure:
        return 1 if mats.failure or quiet.failure else 3
    print()
    ratios(quiet, peer)
    walls = ratios(mats, peer)
    median = statistics.median(sample.wall for sample in mats.samples)
    kept = median <= WALL_BOUND and statistics.median(walls) <= RATIO_BOUND
    print(f"bounds: {WALL_BOUND} s wall and {RATIO_BOUND} times {PEER}: {'kept' if kept else 'BROKEN'}")
    return 0 if kept else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="samples of each tool")
    parser.add_argument("--profile", default="h100x8", help="the simulated driver that is looked at")
    parser.add_argument("--clients", default=sys.executable, help="a Python that has nvitop and gpustat")
    arguments = parser.parse_args()
    try:
        all_tools = tools(arguments.profile, arguments.clients)
    except build.CannotBuildError as error:
        print(f"the stand-in for NVML cannot be built: {error}", file=sys.stderr)
        return 3
    measure(all_tools, max(1, arguments.repeats))
    return report(all_tools)


if __name__ == "__main__":
    sys.exit(main())
