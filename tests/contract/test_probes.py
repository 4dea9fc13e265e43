"""What every probe promises, checked on each one the registry finds.

No finding on a clean simulated device; each declared fault found; absence gives unknown; a saved run replays to the
same result; every limit has a source, a unit and holds on one side and breaks on the other.
"""

from __future__ import annotations

import dataclasses

import pytest

from mats.codec import run_from_json, run_to_json
from mats.device import Device
from mats.devices._plans import built_in
from mats.devices.sim import SimDevice
from mats.judge import judge, rejudge
from mats.model import (
    SCHEMA_VERSION,
    AbsenceKind,
    Absent,
    HostInfo,
    Limit,
    Measurement,
    Observation,
    Quantity,
    Relation,
    Result,
    Run,
    Severity,
    Unit,
    Verdict,
)
from mats.probe import OptionKind, Probe
from mats.registry import probes

PROBES = list(probes().values())
CAPACITY = 16 << 20
LIMITS = [(probe, limit) for probe in PROBES for limit in probe.limits]
FAULTS = [(probe, fault) for probe in PROBES for fault in probe.faults]


class Quiet:
    """A context with the probe's defaults and a few of its options, whom nobody watches."""

    def __init__(self, probe: Probe, **options: object) -> None:
        self.options = {option.name: option.default for option in probe.options} | options
        self.seed = 0
        self.resumed: Result | None = None

    def stopping(self) -> str:
        return ""

    def progress(self, done: float, total: float, text: str) -> None:
        """Nobody watches."""

    def save(self, observation: Observation) -> None:
        """Nothing is kept."""


def run_on(probe: Probe, plan: str) -> tuple[Observation, Device]:
    device = SimDevice(built_in(plan, capacity=CAPACITY))
    try:
        return probe.measure(device, Quiet(probe)), device
    finally:
        device.close()


def named(probe: Probe) -> str:
    return probe.name


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_a_clean_device_gives_no_finding(probe: Probe) -> None:
    observation, _ = run_on(probe, "healthy")
    assert judge(observation, probe.limits, "sim") == (Verdict.PASS, "", ())


@pytest.mark.slow
@pytest.mark.parametrize(("probe", "fault"), FAULTS, ids=[f"{p.name}-{f}" for p, f in FAULTS])
def test_a_declared_fault_is_found(probe: Probe, fault: str) -> None:
    observation, _ = run_on(probe, fault)
    verdict, _, findings = judge(observation, probe.limits, "sim")
    assert verdict is Verdict.FAIL
    assert all(finding.advice and finding.evidence is not None for finding in findings)


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_absence_is_unknown(probe: Probe) -> None:
    absent = Absent(AbsenceKind.NOT_TESTED, "there was nothing to test")
    measured = tuple(Measurement(limit.measurement, absent) for limit in probe.limits)
    verdict, reason, findings = judge(Observation(measured), probe.limits, "cuda")
    assert verdict is Verdict.UNKNOWN
    assert "there was nothing to test" in reason
    assert findings == ()


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_a_saved_run_replays_to_the_same_result(probe: Probe) -> None:
    # given
    observation, device = run_on(probe, "stuck_dq" if "stuck_dq" in probe.faults else "healthy")
    verdict, reason, findings = judge(observation, probe.limits, "sim")
    info = device.describe()
    findings = tuple(dataclasses.replace(finding, target=info.name) for finding in findings)
    second = Quantity(1.0, Unit.SECOND)
    result = Result(
        probe.name,
        probe.question,
        info.name,
        verdict,
        reason,
        observation,
        findings,
        probe.limits,
        "2026-01-01",
        second,
    )
    host = HostInfo("h", "s", "p", "c", Absent(AbsenceKind.NOT_FOUND, "not asked"))
    run = Run(SCHEMA_VERSION, "mats", "2026-01-01", second, host, ("mats",), (info,), (result,))
    # when
    again = rejudge(run_from_json(run_to_json(run)), ())
    # then
    assert again.results[0].verdict is verdict
    assert again.results[0].findings == findings


@pytest.mark.parametrize(("probe", "limit"), LIMITS, ids=[limit.code for _, limit in LIMITS])
def test_a_limit_holds_on_one_side_and_breaks_on_the_other(probe: Probe, limit: Limit) -> None:
    # given
    kind = limit.kinds[0] if limit.kinds else "cuda"
    step = abs(limit.bound.value) / 100 or 1
    outside = limit.bound.value + (step if limit.relation is Relation.AT_MOST else -step)
    alone = (limit,)

    def status(value: float) -> tuple[Verdict, int]:
        measured = Measurement(limit.measurement, Quantity(value, limit.bound.unit))
        verdict, _, findings = judge(Observation((measured,)), alone, kind)
        return verdict, len(findings)

    # then
    broken = {
        Severity.NOTE: Verdict.PASS,
        Severity.WARN: Verdict.WARN,
        Severity.FAIL: Verdict.FAIL,
        Severity.UNKNOWN: Verdict.UNKNOWN,
    }
    assert status(limit.bound.value) == (Verdict.PASS, 0)
    assert status(outside) == (broken[limit.severity], 1)


@pytest.mark.parametrize(("probe", "limit"), LIMITS, ids=[limit.code for _, limit in LIMITS])
def test_a_limit_is_explained(probe: Probe, limit: Limit) -> None:
    assert len(limit.reasoning) > 30
    assert limit.reasoning.endswith(".")
    assert limit.advice.endswith(".")
    assert limit.source.read >= "2026"


def test_codes_are_unique() -> None:
    codes = [limit.code for _, limit in LIMITS]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_a_probe_explains_itself(probe: Probe) -> None:
    import importlib

    text = importlib.import_module(f"mats.probes.{probe.name.replace('-', '_')}").__doc__ or ""
    assert text.splitlines()[0].endswith("?")
    for part in ("Method.", "What it cannot see.", "Sources."):
        assert part in text
    files = [option for option in probe.options if option.kind is OptionKind.FILE_OUT]
    assert all(option.writes for option in files)
    assert all(option.help.endswith(".") for option in probe.options)
