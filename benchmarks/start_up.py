"""Processor time of start-up: help of mats beside an interpreter that only imports typer, in turn.

    python benchmarks/start_up.py [--repeats 9] [--mats COMMAND]

Each command runs once to compile and then all of them in turn, again and again; medians with their range are printed.
Measure an installed wheel: an editable installation looks for its modules longer. Exit code: 0, 1 when the median of a
help page is above the bound of the project (0.25 s of processor time), 2 when a command failed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys

BOUND = 0.25
BARE = "import typer.main"


def processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of one run, user and system. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--mats", default=f"{sys.executable} -m mats", help="how mats is started")
    given = parser.parse_args()
    mats = shlex.split(given.mats)
    commands = {BARE: [sys.executable, "-c", BARE]}
    commands |= {f"mats {words}": [*mats, *words.split()] for words in ("--help", "stress --help", "health --help")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    try:
        for command in commands.values():
            processor_seconds(command, environment)
        for _ in range(max(given.repeats, 1)):
            for name, command in commands.items():
                times[name].append(processor_seconds(command, environment))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"start_up: {error}", file=sys.stderr)
        return 2
    bare = statistics.median(times[BARE])
    for name, taken in times.items():
        middle = statistics.median(taken)
        print(f"{name:20} {middle:.3f} s ({min(taken):.3f}-{max(taken):.3f}), {middle / bare:.2f}x the bare one")
    return int(any(statistics.median(taken) > BOUND for name, taken in times.items() if name != BARE))


if __name__ == "__main__":
    sys.exit(main())
