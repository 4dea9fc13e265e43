"""Compiles and runs every kernel on a real GPU, compares it with the CPU build, and measures how near it comes to peak.

    python benchmarks/gpu_check.py [--target cuda:0] [--size 8192] [--repeats 20] [--json FILE]
                                   [--tune] [--kernels-only | --links-only]

Prints a short table with the device and the day. Bandwidths are medians of single launches timed by the device's own
events, with their range; writes and verifies stand beside a plain memset and a plain device-to-device copy of the same
memory in the same minute. Then the commands (gpu_commands.py): stress, the ladder of caches, how far the regions of the
card spread, what copies to and from the host carry of the link, memory lent to another process. Under four minutes.

Targets, of the peak that follows from the device's own clock and bus: writing at least 90 %, verifying at least 85 %;
on an H200 75 % each (best figures seen there by others: 81 % write, 79 % mixed).
Exit code: 0 all as it should be, 1 something is not, 2 wrong usage, 3 no GPU to check.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import random
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from mats import __version__
from mats.device import Buffer, Device, DeviceError
from mats.devices import cuda, host
from mats.kernel import kernel_files, kernels
from mats.model import Absent, TargetInfo
from mats.probe import UsageError
from mats.target import parse_target

MIB = 1 << 20
PAGE = 2 * MIB
TILE = 64 << 10
WARM_UP_S = 0.5
"""Seconds of work before the first measurement: clocks rise with load."""
WARM_UP_LAUNCHES = 400
LARGEST = 8 << 30
"""Bytes of each of the two buffers, at most: far beyond any cache, and a launch still takes milliseconds."""
COMPARED_PAGES = 8
REPORT_BYTES, RECORD_BYTES, CAPACITY = 256 * 8, 64, 1024
SCENARIOS = Path(__file__).resolve().parents[1] / "tests" / "cuda" / "kernel_scenarios.py"
COMMANDS = Path(__file__).resolve().parent / "gpu_commands.py"
KINDS = ("address", "rotated", "constant", "walking", "random", "modulo")
WRITE_TARGET, VERIFY_TARGET, H200_TARGET = 0.90, 0.85, 0.75
OK, WRONG, USAGE, NO_GPU = 0, 1, 2, 3
WORDS = {"a": 0x0123456789ABCDEF, "b": 7, "mask": 0, "descending": 0, "first": 0}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Speed:
    """An operation's bandwidth in bytes per second; ``target`` is a share of peak, or none."""

    name: str
    median: float
    lowest: float
    highest: float
    share: float | None
    target: float | None

    @property
    def passed(self) -> bool:
        return self.target is None or (self.share is not None and self.share >= self.target)


@dataclass(frozen=True, slots=True)
class Field:
    """The device with what is measured on it."""

    device: cuda.CudaDevice
    info: TargetInfo
    data: Buffer
    other: Buffer
    report: Buffer
    pages: Buffer
    records: Buffer
    sink: Buffer

    @property
    def tiles(self) -> int:
        return self.data.size // TILE

    def write(self, kind: int) -> float:
        return self.device.launch("pattern_write", self.tiles, data=self.data, kind=kind, **WORDS)

    def verify(self, kind: int) -> float:
        return self.device.launch("pattern_verify", self.tiles, data=self.data, kind=kind, **WORDS, **self.found)

    def exchange(self, kind: int) -> float:
        new = {"new_a": WORDS["a"], "new_b": WORDS["b"], "new_mask": 0, "reread": 0}
        return self.device.launch(
            "pattern_exchange", self.tiles, data=self.data, kind=kind, **WORDS, **new, **self.found
        )

    @property
    def found(self) -> dict[str, Any]:
        return {"report": self.report, "pages": self.pages, "records": self.records, "capacity": CAPACITY}

    def clear(self) -> None:
        for buffer in (self.report, self.pages, self.records):
            self.device.copy(buffer, bytes(buffer.size))

    def report_words(self, buffer: Buffer, count: int) -> list[int]:
        raw = self.device.fetch(buffer, 0, 8 * count)
        return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]


def load_file(path: Path) -> ModuleType:
    """A Python file beside this one or of the tests; by path, since neither is installed."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise UsageError(f"{path} is missing: run this from a checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def compare(target: str) -> list[Check]:
    """Every kernel with the same arguments on the GPU and on the host: the outcome must agree bit for bit."""
    known = load_file(SCENARIOS)
    checks = []
    opened: list[Callable[[], Device]] = [
        lambda: cuda.open_device(parse_target(target)),
        lambda: host.open_device(parse_target("host")),
    ]
    for name in sorted(kernels()):
        begun = time.monotonic()
        outcomes = []
        try:
            for open_device in opened:
                with known.bench(open_device(), COMPARED_PAGES) as bench:
                    outcomes.append(known.SCENARIOS[name](bench))
            same = outcomes[0] == outcomes[1]
            detail = "as on the host" if same else "NOT as on the host"
        except DeviceError as error:  # one kernel that does not work hides no other
            same, detail = False, f"could not be run: {error}"
        checks.append(Check(f"kernel {name}", same, f"{detail}, {time.monotonic() - begun:.1f} s"))
    return checks


def find_injected(field: Field) -> list[Check]:
    """Flips bits all over the buffer, and expects exactly these to be reported, for every pattern."""
    words = field.data.size // 8
    chosen = random.Random(2).sample(range(1, words - 1), 14)
    flips = {word: 1 << (5 * index % 64) for index, word in enumerate([0, *chosen, words - 1])}
    checks = []
    for kind, name in enumerate(KINDS):
        field.clear()
        field.write(kind)
        for word, bits in flips.items():
            field.device.launch("inject", 1, data=field.data, word=word, flips=bits)
        field.verify(kind)
        failed = field.report_words(field.report, 1)[0]
        records = field.report_words(field.records, 8 * len(flips))
        seen = {records[at]: records[at + 2] ^ records[at + 3] for at in range(0, len(records), 8)}
        right = failed == len(flips) and seen == flips
        checks.append(Check(f"injected errors, {name}", right, f"{failed} of {len(flips)} reported"))
    field.clear()
    return checks


def measure(field: Field, repeats: int) -> list[Speed]:
    """Bandwidth of each operation. A share of peak needs a peak that the device tells."""
    size, device = field.data.size, field.device
    write, verify = (H200_TARGET, H200_TARGET) if "H200" in field.info.title else (WRITE_TARGET, VERIFY_TARGET)
    work: list[tuple[str, float, float | None, Callable[[], float]]] = [
        ("plain memset", 1, None, lambda: memset(field)),
        ("plain copy, device to device", 2, None, lambda: device.copy(field.other, field.data)),
        (
            "copy_sweep",
            2,
            None,
            lambda: device.launch("copy_sweep", field.tiles, destination=field.other, source=field.data),
        ),
        ("read_sweep", 1, None, lambda: device.launch("read_sweep", field.tiles, data=field.data, sink=field.sink)),
    ]
    for kind, name in enumerate(KINDS):
        work.append((f"write, {name}", 1, write, partial(field.write, kind)))
        work.append((f"verify, {name}", 1, verify, partial(after, field, kind, field.verify)))
    work.append(("exchange (read and write)", 2, None, partial(after, field, 4, field.exchange)))
    warm_up(field)
    return [speed(field, name, moved * size, target, action, repeats) for name, moved, target, action in work]


def after(field: Field, kind: int, action: Callable[[int], float]) -> float:
    """A read is timed on memory that holds its pattern and was written whole before, hence not from the cache."""
    field.write(kind)
    return action(kind)


def memset(field: Field) -> float:
    """Seconds of the driver's own memset, by the device's events; only this check needs it, so it is no device call."""
    import cupy

    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    cupy.cuda.runtime.memsetAsync(field.data.address, 0xA5, field.data.size, 0)
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3


def warm_up(field: Field) -> None:
    spent, launches = 0.0, 0
    while spent < WARM_UP_S and launches < WARM_UP_LAUNCHES:
        spent += field.write(4)
        launches += 1


def speed(
    field: Field, name: str, moved: float, target: float | None, action: Callable[[], float], repeats: int
) -> Speed:
    durations = [action() for _ in range(repeats)]
    peak = field.info.peak_bandwidth
    median = moved / statistics.median(durations)
    share = None if isinstance(peak, Absent) else median / float(peak.value)
    return Speed(name, median, moved / max(durations), moved / min(durations), share, target)


def tune(field: Field, repeats: int) -> None:
    """Write and verify by how many blocks are launched for each that fits at once: what ``cuda.WAVES`` should be."""
    print("\nblocks per resident block   write GB/s   verify GB/s   (random pattern, medians)")
    for waves in (1, 2, 4, 8, 16, 32):
        field.device.waves = waves
        write = speed(field, "", field.data.size, None, lambda: field.write(4), repeats)
        verify = speed(field, "", field.data.size, None, lambda: after(field, 4, field.verify), repeats)
        print(f"{waves:24d} {write.median / 1e9:14.1f} {verify.median / 1e9:13.1f}")
    field.device.waves = cuda.WAVES


def open_field(target: str, size: int | None) -> Field:
    """The device with two buffers of the same size and what the kernels report into. Raises DeviceError."""
    device = cuda.open_device(parse_target(target))
    try:
        free = device.memory().free
        chosen = min(LARGEST, free // 4) if size is None else size
        chosen = max(PAGE, chosen // PAGE * PAGE)
        sizes = (chosen, chosen, REPORT_BYTES, chosen // PAGE * 8, CAPACITY * RECORD_BYTES, 8)
        data, other, report, pages, records, sink = (device.allocate(size) for size in sizes)
        field = Field(device, device.describe(), data, other, report, pages, records, sink)
        field.clear()
        return field
    except BaseException:
        device.close()
        raise


def head(info: TargetInfo) -> str:
    identity = dict(info.identity)
    total = "unknown" if isinstance(info.memory_total, Absent) else f"{info.memory_total.value / (1 << 30):.1f} GiB"
    peak = info.peak_bandwidth
    formula = peak.reason if isinstance(peak, Absent) else f"{peak.value / 1e9:.0f} GB/s = {info.peak_formula}"
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    keys = ("uuid", "pci", "compute_capability", "multiprocessors", "driver", "driver_cuda", "runtime_cuda", "cupy")
    known = ", ".join(f"{key} {identity[key]}" for key in keys if key in identity)
    return f"mats {__version__} on {info.title}, {today}\n{known}\nmemory {total}, peak {formula}"


def print_checks(checks: Sequence[Check]) -> None:
    for check in checks:
        print(f"{'ok' if check.passed else 'WRONG':<6} {check.name:<34} {check.detail}", flush=True)


def print_speeds(speeds: Sequence[Speed]) -> None:
    print(f"\n{'operation':<34} {'GB/s':>9} {'lowest':>9} {'highest':>9} {'of peak':>8} {'target':>7}")
    for row in speeds:
        share = "unknown" if row.share is None else f"{row.share:.1%}"
        target = "" if row.target is None else f"{row.target:.0%}"
        mark = "" if row.passed else "  BELOW"
        rates = f"{row.median / 1e9:9.1f} {row.lowest / 1e9:9.1f} {row.highest / 1e9:9.1f}"
        print(f"{row.name:<34} {rates} {share:>8} {target:>7}{mark}")


def state(device: cuda.CudaDevice) -> str:
    seen = device.conditions()
    temperature = "unknown" if isinstance(seen.temperature, Absent) else f"{seen.temperature.value:.0f} degC"
    clock = "unknown" if isinstance(seen.memory_clock, Absent) else f"{seen.memory_clock.value / 1e6:.0f} MHz"
    return f"temperature {temperature}, memory clock {clock}, ECC {seen.ecc}"


def check_kernels(arguments: argparse.Namespace) -> tuple[list[Check], list[Speed]]:
    field = open_field(arguments.target, arguments.size and arguments.size * MIB)
    try:
        print(f"{len(kernel_files())} files with {len(kernels())} kernels; buffers of {field.data.size // MIB} MiB")
        checks = find_injected(field)
        print_checks(checks)  # each part as soon as it is known: a GPU may be lent for minutes only
        print(f"before: {state(field.device)}")
        speeds = measure(field, arguments.repeats)
        print_speeds(speeds)
        print(f"after: {state(field.device)}\n", flush=True)
        if arguments.tune:
            tune(field, arguments.repeats)
    finally:
        field.device.close()
    compared = compare(arguments.target)
    print_checks(compared)
    return [*checks, *compared], speeds


def check_commands(arguments: argparse.Namespace) -> tuple[list[Check], list[dict[str, Any]]]:
    known = load_file(COMMANDS)
    size = arguments.timed_size or known.TIMED_MIB
    parts = [] if arguments.links_only else [(known.check_stress, known.STRESSED_MIB)]
    parts += [(known.check_latency, size), (known.check_lending, min(size, known.LENT_MIB))]
    checks: list[Check] = []
    figures: list[dict[str, Any]] = []
    for part, mebibytes in parts:
        found = part(arguments.mats, arguments.target, mebibytes)
        rows = [Check(*row) for row in found.checks]
        print_checks(rows)
        print("\n".join(found.lines), flush=True)
        checks += rows
        figures += found.figures
    return checks, figures


def check(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    device = cuda.open_device(parse_target(arguments.target))
    about = head(device.describe())
    device.close()
    print(about, flush=True)
    checks: list[Check] = []
    speeds: list[Speed] = []
    figures: list[dict[str, Any]] = []
    if not arguments.links_only:
        checks, speeds = check_kernels(arguments)
    if not arguments.kernels_only:
        found, figures = check_commands(arguments)
        checks += found
    print(f"\nall of it took {time.monotonic() - begun:.0f} s")
    if arguments.json:
        record: dict[str, Any] = {"head": about, "checks": [asdict(row) for row in checks], "figures": figures}
        record["speeds"] = [{**asdict(row), "passed": row.passed} for row in speeds]
        Path(arguments.json).write_text(json.dumps(record, indent=1) + "\n")
    return OK if all(row.passed for row in checks) and all(row.passed for row in speeds) else WRONG


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--target", default="cuda:0", help="which GPU (index, UUID or PCI address after cuda:)")
    made.add_argument(
        "--size", type=int, metavar="MIB", help="size of each of the two buffers (default: 8 GiB at most)"
    )
    made.add_argument("--repeats", type=int, default=20, help="launches of each operation (default: 20)")
    made.add_argument("--json", metavar="FILE", help="also write everything as JSON")
    made.add_argument("--tune", action="store_true", help="also try other numbers of blocks")
    parts = made.add_mutually_exclusive_group()
    parts.add_argument("--kernels-only", action="store_true", help="do not run commands: no stress, delays and links")
    parts.add_argument("--links-only", action="store_true", help="delays and links alone")
    here = (sys.executable, "-m", "mats.cli.main")
    made.add_argument("--mats", type=shlex.split, default=here, metavar="COMMAND", help="how mats is started")
    made.add_argument("--timed-size", type=int, metavar="MIB", help="memory whose delay is timed (default: 16 GiB)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        cuda.discover()
    except DeviceError as error:
        print(f"gpu_check: there is no GPU to check: {error}", file=sys.stderr)
        return NO_GPU
    try:
        return check(arguments)
    except UsageError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return USAGE
    except DeviceError as error:
        print(f"gpu_check: the check could not be finished: {error}", file=sys.stderr)
        return WRONG


if __name__ == "__main__":
    sys.exit(main())
