"""The part of gpu_check.py on the commands: what they say of a healthy card, read from their runs.

How wide the regions of a healthy card spread, how often a block finds itself on the multiprocessor it wants, what the
ladder of caches looks like, what copies to and from the host carry of the link, and whether two processes share memory
of the GPU: all of that is known of no GPU before it was measured there. Not a program: gpu_check.py loads it.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mats.codec import run_from_json
from mats.model import Absent, Cell, Measurement, Quantity, Result, Severity, Table, Unit

TIMED_MIB = 16 << 10
"""Memory that is walked: 256 regions show how they spread, and take seconds."""
PASSES = 7
SPREAD_TARGET = 0.02
"""Of the regions of a healthy card, by the median deviation: four times less than what is warned of."""
SHARE_TARGET = 0.78
"""Of the link's payload that pinned copies carry on machines in order (PCIe 3 to 5: 0.79 to 0.88)."""
LIMIT_S = 100
LENT_MIB = 256
STRESSED_MIB = 1024
GIGA, NANO = 1e9, 1e-9

Row = tuple[str, bool, str]


@dataclass(frozen=True, slots=True)
class Found:
    """What must hold (name, whether it does, detail), and lines to read."""

    checks: list[Row] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    figures: list[dict[str, object]] = field(default_factory=list)


def check_stress(start: Sequence[str], target: str, mebibytes: int) -> Found:
    """A short test that must pass, and one with forced errors that must not."""
    checks: list[Row] = []
    for name, more, wanted in (("mats stress", [], 0), ("mats stress --force-errors", ["--force-errors"], 1)):
        # --force: this check itself is a process on the GPU, and perhaps the one that started it, too
        words = ["stress", "--target", target, "--size", str(mebibytes), "--duration", "10", "--force", *more]
        code, said = _run([*start, *words])
        detail = f"exit code {code}, expected {wanted}"
        checks.append((name, code == wanted, detail if code == wanted else f"{detail}: {said}"))
    return Found(checks)


def check_latency(start: Sequence[str], target: str, mebibytes: int) -> Found:
    """Map, ladder and transfers of one GPU, as ``mats latency-test`` measures them; ``start``: how mats is started."""
    words = ("latency-test", "--target", target, "--size", str(mebibytes), "--passes", str(PASSES), "--force")
    with tempfile.TemporaryDirectory() as scratch:
        code, said = _run([*start, *words, "--out", scratch])
        result = _result(Path(scratch))
    if result is None:
        return Found([("mats latency-test", False, f"exit code {code}, no result: {said}")])
    return Found(
        [("mats latency-test", _no_failure(result), _summary(code, result)), *_map(result), *_transfers(result)],
        [*_ladder(result), *_listed(result, "latency.transfer_")],
        _figures(result, "latency."),
    )


def _map(result: Result) -> Iterator[Row]:
    spread, pinned = _one(result, "latency.region_spread"), _one(result, "latency.pinned_share")
    regions = _one(result, "latency.regions")
    wide = isinstance(spread, Quantity) and spread.value <= SPREAD_TARGET
    detail = f"{_shown(spread)} over {_shown(regions)} regions, target at most {SPREAD_TARGET:.0%}"
    yield "spread of the region map", wide, detail
    yield "pinning to a multiprocessor", isinstance(pinned, Quantity) and pinned.value > 0, f"{_shown(pinned)} of walks"
    ends = _one(result, "latency.wrong_ends")
    yield "chains end where they must", isinstance(ends, Quantity) and ends.value == 0, f"{_shown(ends)} did not"


def _transfers(result: Result) -> Iterator[Row]:
    link = _one(result, "latency.link_bandwidth")
    for share in _all(result, "latency.link_share"):
        way = dict(share.labels).get("direction", "")
        enough = isinstance(share.reading, Quantity) and share.reading.value >= SHARE_TARGET
        detail = f"{_shown(share.reading)} of the link ({_shown(link)} while busy), target {SHARE_TARGET:.0%}"
        yield f"pinned copies, {way}", enough, detail
    for wrong in _all(result, "latency.transfer_mismatches"):
        right = isinstance(wrong.reading, Quantity) and wrong.reading.value == 0
        way = ", ".join(value for _, value in wrong.labels)
        yield f"copied data, {way}", right, f"{_shown(wrong.reading)} words changed"


def _ladder(result: Result) -> Iterator[str]:
    table = _table(result, "levels")
    if table is None:
        return
    yield "ladder of caches and memory"
    names = [column.name for column in table.columns]
    for row in table.rows:
        cell = dict(zip(names, row, strict=True))
        yield f"  {cell['level']!s:<8} {_nanoseconds(cell['latency']):>10} {_plain(cell['cycles']):>8} cycles"


def check_lending(start: Sequence[str], target: str, mebibytes: int) -> Found:
    """Two processes on one GPU: one lends memory, the other one copies, loads and stores there (CUDA IPC)."""
    gpu = target.partition(":")[2] or "0"
    with tempfile.TemporaryDirectory() as scratch:
        meeting = str(Path(scratch, "meeting", "socket"))
        serve = ["nvlink-test", "--mode", "server", "--gpu", gpu, "--socket", meeting, "--force"]
        join = ["nvlink-test", "--mode", "client", "--gpu", gpu, "--server-gpu", gpu, "--socket", meeting, "--force"]
        server = subprocess.Popen([*start, *serve], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            code, said = _run([*start, *join, "--size", str(mebibytes), "--repeats", "3", "--out", scratch])
            lent, _ = server.communicate(timeout=LIMIT_S if code is not None else 0.1)
        except subprocess.TimeoutExpired:
            server.kill()
            lent, _ = server.communicate()
        result = _result(Path(scratch))
    checks: list[Row] = [
        ("lending memory to another process", server.returncode == 0, f"exit code {server.returncode}{_last(lent)}")
    ]
    if result is None:
        return Found([*checks, ("borrowing memory of another process", False, f"exit code {code}, no result: {said}")])
    checks.append(("borrowing memory of another process", _no_failure(result), _summary(code, result)))
    wrong = _all(result, "link.mismatched_bytes")
    clean = bool(wrong) and all(isinstance(one.reading, Quantity) and one.reading.value == 0 for one in wrong)
    checks.append(("data between two processes", clean, f"{len(wrong)} kinds of access verified"))
    lines = [*_listed(result, "link.bandwidth"), *_listed(result, "link.load_latency")]
    return Found(checks, lines, _figures(result, "link."))


def _run(command: Sequence[str]) -> tuple[int | None, str]:
    """Exit code, none where it did not end in time, and the last line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {LIMIT_S} s"
    return done.returncode, _last(done.stdout + done.stderr).removeprefix(": ")


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def _result(folder: Path) -> Result | None:
    file = folder / "run.json"
    results = run_from_json(file.read_text()).results if file.exists() else ()
    return results[0] if results else None


def _no_failure(result: Result) -> bool:
    """A verdict may be unknown here: not all memory is walked, and this very check is another process on the GPU."""
    return result.verdict.value != "error" and not any(each.severity is Severity.FAIL for each in result.findings)


def _summary(code: int | None, result: Result) -> str:
    broken = ", ".join(f"{finding.code} {finding.title}" for finding in result.findings)
    return f"exit code {code}, {result.verdict.value}{f': {broken}' if broken else ''}"


def _all(result: Result, name: str) -> list[Measurement]:
    return [each for each in result.observation.measurements if each.name == name]


def _one(result: Result, name: str) -> Quantity | Absent | None:
    found = _all(result, name)
    return found[0].reading if found else None


def _listed(result: Result, start: str) -> Iterator[str]:
    for each in result.observation.measurements:
        if each.name.startswith(start) and isinstance(each.reading, Quantity):
            labels = " ".join(value for _, value in each.labels)
            yield f"  {each.name} {labels}: {_shown(each.reading)}"


def _figures(result: Result, start: str) -> list[dict[str, object]]:
    return [
        {"name": each.name, "labels": dict(each.labels), "value": each.reading.value, "unit": each.reading.unit.value}
        for each in result.observation.measurements
        if each.name.startswith(start) and isinstance(each.reading, Quantity)
    ]


def _table(result: Result, name: str) -> Table | None:
    return next((table for table in result.observation.tables if table.name == name), None)


def _nanoseconds(cell: Cell) -> str:
    return f"{cell / NANO:.1f} ns" if isinstance(cell, int | float) else "unknown"


def _plain(cell: Cell) -> str:
    return f"{cell:.0f}" if isinstance(cell, int | float) else "unknown"


def _shown(reading: Quantity | Absent | None) -> str:
    if reading is None:
        return "not measured"
    if isinstance(reading, Absent):
        return f"unknown ({reading.reason})"
    match reading.unit:
        case Unit.RATIO:
            return f"{reading.value:.1%}"
        case Unit.BYTE_PER_SECOND:
            return f"{reading.value / GIGA:.1f} GB/s"
        case Unit.SECOND:
            return f"{reading.value / NANO:.1f} ns"
        case unit:
            return f"{reading.value:g} {unit.value}".removesuffix(" count")
