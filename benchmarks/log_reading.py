"""Time of the processor to read a million lines of a kernel log, of several kinds, beside what reading alone costs.

    python benchmarks/log_reading.py [--lines 1000000] [--repeats 3]

A machine's log is mostly ordinary lines; a fault or a broken link fills it with lines that have to be read closely, of
which the newest are read and the others counted. ``grep`` for two words is the least that a search can cost, going
over the lines in Python the least that this language can. The median is printed with its range. Exit code: 0, or 1
when ordinary lines take longer than the project's bound (3 s for a million).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mats.sources._log_facts import log_facts
from mats.sources.kernel_log import NamedLog, read_kernel_log

BOUND = 3.0
"""Seconds for a million ordinary lines."""

XID = "NVRM: Xid (PCI:0000:{0:02x}:00): 31, pid={1}, name=train, Ch 0000001a, intr 00000000. MMU Fault: ENGINE CE3"
AUDIT = "audit: type=1400 audit(17:{0}): apparmor=STATUS operation=profile_load profile=unconfined pid={0}"
AER = (
    "pcieport 0000:00:01.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
    "pcieport 0000:00:01.1:   device [1022:1483] error status/mask=00001000/00006000",
    "pcieport 0000:00:01.1:    [12] Timeout",
)


def ordinary(lines: int) -> Iterator[str]:
    """No line of a GPU but one."""
    for number in range(lines):
        text = XID.format(0x9B, 17) if number == lines // 2 else AUDIT.format(number)
        yield f"[{number / 10:12.6f}] {text}"


def syslog(lines: int) -> Iterator[str]:
    """Dates, a host and a program before each line; one in a hundred is of the driver."""
    for number in range(lines):
        text = XID.format(number % 8, number) if number % 100 == 0 else AUDIT.format(number)
        yield f"Feb {1 + number * 27 // lines:2d} 04:12:{number % 60:02d} node02 kernel: [{number / 10:12.6f}] {text}"


def flood_of_xids(lines: int) -> Iterator[str]:
    """Every line is an Xid, as of a program that fails again and again."""
    for number in range(lines):
        yield f"[{number / 10:12.6f}] {XID.format(number % 8, number)}"


def flood_of_link_errors(lines: int) -> Iterator[str]:
    """Every line is of a PCIe error, as of a riser that makes bad contact."""
    for number in range(lines):
        yield f"[{number / 10:12.6f}] {AER[number % 3]}"


KINDS: tuple[Callable[[int], Iterator[str]], ...] = (ordinary, syslog, flood_of_xids, flood_of_link_errors)


def ours(path: Path) -> None:
    """From the file to incidents with their words."""
    log_facts([NamedLog(str(path), read_kernel_log(path))])


def lines_only(path: Path) -> None:
    """Every line once, decoded."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for _ in file:
            pass


def grep(path: Path) -> None:
    """Lines that hold either of two words."""
    subprocess.run(["grep", "-c", "-e", "NVRM", "-e", "PCIe", str(path)], stdout=subprocess.DEVNULL, check=False)


def cpu_seconds(read: Callable[[Path], None], path: Path) -> float:
    """Of this process and of what it started."""
    before = os.times()
    read(path)
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    wanted = parser.parse_args()
    readers = [ours, lines_only, *([grep] if shutil.which("grep") else [])]
    late = False
    print(f"{wanted.lines:,} lines, seconds of the processor: median (least to most) of {wanted.repeats}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = Path(folder) / kind.__name__
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in kind(wanted.lines))
            times: dict[str, list[float]] = {reader.__name__: [] for reader in readers}
            for _ in range(wanted.repeats):
                for reader in readers:
                    times[reader.__name__].append(cpu_seconds(reader, path))
                    time.sleep(0.1)
            size = path.stat().st_size / 1e6
            path.unlink()
            said = ", ".join(
                f"{name} {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
                for name, each in times.items()
            )
            print(f"{kind.__name__.replace('_', ' '):22s} {size:6.0f} MB  {said}")
            bound = BOUND * wanted.lines / 1e6
            late = late or (kind is ordinary and statistics.median(times["ours"]) > bound)
    if late:
        print(f"ordinary lines take longer than the bound of {BOUND:g} s for a million", file=sys.stderr)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
