"""The fault matrix: every fault of the catalogue x geometries x seeds on simulated cards, and clean runs.

``python benchmarks/fault_matrix.py`` prints the table; ``--clean 1000`` adds clean runs,
``--capacity 32`` makes the cards larger. The same functions are run
by tests/stress/test_fault_matrix.py. Everything here is SIMULATED: it measures the tests and the classifier against
the project's own fault model, not against hardware.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mats.devices._plans import MIB, built_in
from mats.devices.sim import SimDevice
from mats.judge import judge
from mats.model import Observation, Result, Severity, Verdict
from mats.registry import probes

GEOMETRIES = ("gddr6-256", "gddr6-384", "hbm3-5", "hbm3-6")
HARD = (
    "stuck_cell",
    "stuck_dq",
    "dead_channel",
    "address_alias",
    "failing_row",
    "failing_column",
    "failing_bank",
    "fake_capacity",
)
"""Location-bound faults that show whenever the opposite value is expected: all of them must be found."""
FAULTS = (
    *HARD,
    "weak_retention",
    "flaky_dq",
    "dbi_line",
    "byte_lane",
    "wrong_row",
    "lost_write",
    "coupling",
    "row_disturb",
    "soft_upset",
    "core_fault",
    "counter_corrupt",
    "silent_retry",
    "spilled",
)
NAMES: Mapping[str, str] = {"fake_capacity": "address_alias", "counter_corrupt": "tester_unreliable"}
"""The name a plan's fault gets, where it is not the plan's own."""
ENOUGH_RECORDS = 50


@dataclass(frozen=True, slots=True)
class Case:
    fault: str
    geometry: str
    seed: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the test said of a case. ``names``: fault classes of its findings and diagnoses."""

    case: Case
    verdict: Verdict
    names: tuple[str, ...]
    records: int
    codes: tuple[str, ...]
    evidence: tuple[str, ...]

    @property
    def expected(self) -> str:
        return NAMES.get(self.case.fault, self.case.fault)

    @property
    def found(self) -> bool:
        return self.verdict is Verdict.FAIL

    @property
    def right(self) -> bool:
        return bool(self.names) and self.names[0] == self.expected

    @property
    def wrong(self) -> bool:
        """Any name that is not the fault's: a wrong name sends its reader to the wrong place."""
        return any(name not in (self.expected, "unstructured") for name in self.names)


class BenchContext:
    """The probe's context without a runner: options as given, nobody to stop or to watch."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = {option.name: option.default for option in probes()["stress"].options} | dict(options)
        self.seed = 0
        self.resumed: Result | None = None

    def stopping(self) -> str:
        return ""

    def progress(self, done: float, total: float, text: str) -> None:
        """Nobody watches."""

    def save(self, observation: Observation) -> None:
        """Nothing is kept."""


def examine(case: Case) -> Seen:
    """Run the default tests on the simulated card of the case."""
    probe = probes()["stress"]
    device = SimDevice(built_in(case.fault, geometry=case.geometry, seed=case.seed, capacity=case.capacity))
    try:
        observation = probe.measure(device, BenchContext({}))
    finally:
        device.close()
    verdict, _, findings = judge(observation, probe.limits, "sim")
    errors = next((table for table in observation.tables if table.name == "errors"), None)
    bad = [finding for finding in findings if finding.severity in (Severity.FAIL, Severity.WARN)]
    diagnosed = {finding.measurement.name for finding in bad}
    named = [diagnosis for diagnosis in observation.diagnoses if diagnosis.explains in diagnosed]
    return Seen(
        case,
        verdict,
        tuple(diagnosis.fault for diagnosis in named),
        len(errors.rows) if errors else 0,
        tuple(finding.code for finding in findings),
        tuple(line for diagnosis in named for line in diagnosis.evidence),
    )


def run_all(cases: Sequence[Case], workers: int) -> list[Seen]:
    if workers < 2:
        return [examine(case) for case in cases]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.map(examine, cases, chunksize=4)


def faulty_cases(seeds: Iterable[int], geometries: Sequence[str] = GEOMETRIES, capacity: int = 16 * MIB) -> list[Case]:
    return [Case(fault, shape, seed, capacity) for seed in seeds for fault in FAULTS for shape in geometries]


def clean_cases(count: int, capacity: int = 4 * MIB) -> list[Case]:
    return [Case("healthy", GEOMETRIES[i % len(GEOMETRIES)], i, capacity) for i in range(count)]


def judged_by_times(seen: Seen) -> bool:
    """Faults without wrong data or without countable records: named from times or from contradictions."""
    return seen.case.fault in ("silent_retry", "spilled", "counter_corrupt")


def shares(results: Sequence[Seen]) -> tuple[float, float]:
    """Share named right and share with a wrong name, of the cases with enough records (or judged by times)."""
    judged = [seen for seen in results if seen.records >= ENOUGH_RECORDS or judged_by_times(seen)]
    if not judged:
        raise ValueError("no case has enough error records to be judged")
    return sum(seen.right for seen in judged) / len(judged), sum(seen.wrong for seen in judged) / len(judged)


def print_table(results: Sequence[Seen]) -> None:
    rows: dict[str, list[Seen]] = defaultdict(list)
    for seen in results:
        rows[seen.case.fault].append(seen)
    print("SIMULATED. Default test set; names in order of their number of errors.")
    print(f"{'fault':16} {'found':>7} {'named':>7} {'wrong':>7}  names given")
    for fault, group in rows.items():
        names = Counter(name for seen in group for name in (seen.names or ("none",)))
        given = ", ".join(f"{name} {count}" for name, count in names.most_common())
        total = len(group)
        print(
            f"{fault:16} {sum(s.found for s in group):>3}/{total:<3} {sum(s.right for s in group):>3}/{total:<3} "
            f"{sum(s.wrong for s in group):>3}/{total:<3}  {given}"
        )
    right, wrong = shares(results)
    print(f"of cases with {ENOUGH_RECORDS} records or more: named right {right:.1%}, wrong name {wrong:.1%}")
    everywhere = sum(seen.wrong for seen in results) / len(results)
    print(f"of all {len(results)} cases: named right {sum(s.right for s in results) / len(results):.1%}, ", end="")
    print(f"wrong name {everywhere:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clean", type=int, default=0, help="clean runs to add")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--capacity", type=int, default=16, metavar="MIB", help="memory of each card (default 16)")
    given = parser.parse_args()
    start = time.monotonic()
    results = run_all(faulty_cases(range(1, given.seeds + 1), capacity=given.capacity * MIB), given.workers)
    print(f"Cards of {given.capacity} MiB.")
    print_table(results)
    if given.clean:
        clean = run_all(clean_cases(given.clean), given.workers)
        alarms = [seen for seen in clean if seen.verdict is not Verdict.PASS or seen.codes]
        print(f"clean runs: {len(clean)}, false alarms: {len(alarms)} {[s.codes for s in alarms][:5]}")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
