"""What every probe promises, checked on each one the registry finds.

No finding on a clean simulated device or machine; each declared fault found; absence gives unknown; a saved run
replays to the same result; every limit has a source, a unit and holds on one side and breaks on the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mats.cli.world import WallClock
from mats.codec import run_from_json, run_to_json
from mats.device import Device
from mats.devices import replay
from mats.devices._plans import built_in
from mats.devices._sim_fabric import open_fabric
from mats.devices.sim import SimDevice
from mats.facts import GpuFacts, MachineFacts
from mats.judge import judge, rejudge
from mats.model import (
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
    TargetInfo,
    Verdict,
)
from mats.probe import OptionKind, Probe
from mats.registry import open_source, probes
from mats.runner import Outside, Plan, run
from mats.slot import Task
from mats.target import Target

PROBES = list(probes().values())
CAPACITY = 16 << 20
LIMITS = [(probe, limit) for probe in PROBES for limit in probe.limits]
CLEAN = [
    (probe, plan)
    for probe in PROBES
    for plan in (("links_healthy", "links_pcie", "link_switch8") if probe.together else ("healthy",))
]
"""Each probe on everything simulated that has no fault for it."""
QUICK = [probe for probe in PROBES if probe.passive or probe.together]
"""Those that read, and those of links: they test no memory."""
FAULTS = [
    pytest.param(probe, fault, id=f"{probe.name}-{fault}", marks=() if probe in QUICK else pytest.mark.slow)
    for probe in PROBES
    for fault in probe.faults
]
NOTHING = Absent(AbsenceKind.NOT_TESTED, "there was nothing to test")
UNSEEN = (
    MachineFacts(),
    MachineFacts(gpus=NOTHING),
    MachineFacts(gpus=()),
    MachineFacts(gpus=(GpuFacts(), GpuFacts())),
)
"""Machines of which nothing is known: no word of GPUs, none listed, two that told nothing."""


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


def open_door(probe: Probe, plan: str) -> Any:
    """A simulated machine where the probe is passive, the cards of a plan of links where it wants several."""
    if probe.passive:
        return open_source(Target("sim", plan))
    return open_fabric(Target("sim", plan)) if probe.together else SimDevice(built_in(plan, capacity=CAPACITY))


def run_on(probe: Probe, plan: str) -> tuple[Observation, TargetInfo]:
    """What the probe sees of a simulated card, of a simulated machine, or of several cards."""
    door = open_door(probe, plan)
    try:
        return probe.measure(door, Quiet(probe)), door.describe()
    finally:
        door.close()


def named(probe: Probe) -> str:
    return probe.name


@pytest.mark.parametrize(("probe", "plan"), CLEAN, ids=[f"{probe.name}-{plan}" for probe, plan in CLEAN])
def test_a_clean_device_gives_no_finding(probe: Probe, plan: str) -> None:
    observation, _ = run_on(probe, plan)
    assert judge(observation, probe.limits, "sim") == (Verdict.PASS, "", ())


@pytest.mark.parametrize(("probe", "fault"), FAULTS)
def test_a_declared_fault_is_found(probe: Probe, fault: str) -> None:
    observation, _ = run_on(probe, fault)
    verdict, _, findings = judge(observation, probe.limits, "sim")
    assert verdict in ((Verdict.FAIL, Verdict.WARN) if probe in QUICK else (Verdict.FAIL,))
    assert all(finding.advice and finding.evidence is not None for finding in findings)


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_absence_is_unknown(probe: Probe) -> None:
    measured = tuple(Measurement(limit.measurement, NOTHING) for limit in probe.limits)
    verdict, reason, findings = judge(Observation(measured), probe.limits, "cuda")
    assert verdict is Verdict.UNKNOWN
    assert "there was nothing to test" in reason
    assert findings == ()


@dataclasses.dataclass
class Unseen:
    """A source that could be opened and learnt nothing, or the files of a fabric."""

    picture: MachineFacts

    def describe(self) -> TargetInfo:
        return TargetInfo("cuda:all", "cuda", "a machine", NOTHING, NOTHING, NOTHING, "", origin_kind="cuda")

    def read(self, *, load: bool = False) -> MachineFacts:
        return self.picture

    def facts(self, *, load: bool = False) -> MachineFacts:
        return self.picture

    def members(self) -> tuple[Device, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("facts", UNSEEN, ids=["no_word", "not_listed", "no_gpu", "two_silent_gpus"])
@pytest.mark.parametrize("probe", QUICK, ids=named)
def test_a_machine_of_which_nothing_is_known_is_unknown(probe: Probe, facts: MachineFacts) -> None:
    (result,) = run_in(probe, lambda _target: Unseen(facts), Target("cuda", "all")).results
    assert result.verdict is Verdict.UNKNOWN
    assert result.reason
    assert result.findings == ()


def run_in(probe: Probe, opens: Callable[[Target], Any], target: Target) -> Run:
    """The run of one probe on one target, which the runner opens by ``opens``."""
    options = {option.name: option.default for option in probe.options}
    passive, together = (target,) * probe.passive, (target,) * probe.together
    alone = () if passive or together else (target,)
    plan = Plan(alone, (Task(probe, options),), sources=passive, fabrics=together)
    outside = Outside(
        open_device=opens,
        open_source=lambda target, _seconds: opens(target),
        open_fabric=lambda target, _options, _seconds: opens(target),
        clock=WallClock(),
        host=HostInfo("h", "s", "p", "c", NOTHING),
        listener=Unheard(),
        save=lambda _run: None,
    )
    return run(plan, outside)


class Unheard:
    """A listener that keeps nothing."""

    def started(self, target: str, probe: str) -> None: ...
    def progressed(self, target: str, probe: str, done: float, total: float, text: str) -> None: ...
    def finished(self, result: Result) -> None: ...
    def skipped(self, target: str, probe: str) -> None: ...
    def stopping(self, reason: str, killed: bool) -> None: ...
    def noted(self, text: str) -> None: ...
    def crashed(self, where: str, details: str) -> None:
        raise AssertionError(f"{where}: {details}")


@pytest.mark.parametrize("probe", PROBES, ids=named)
def test_a_saved_run_replays_to_the_same_result(probe: Probe, tmp_path: Path) -> None:
    # given
    plan = probe.faults[0] if probe in QUICK else "stuck_dq" if "stuck_dq" in probe.faults else "healthy"
    measured = run_in(probe, lambda target: open_door(probe, target.argument), Target("sim", plan))
    file = tmp_path / "run.json"
    file.write_text(run_to_json(measured), encoding="utf-8")
    # when
    again = rejudge(run_from_json(file.read_text(encoding="utf-8")), ())
    replayed = run_in(probe, replay.open_device, Target("file", str(file)))
    # then
    assert again.results == measured.results
    (was,), (result,) = measured.results, replayed.results
    renamed = tuple(dataclasses.replace(finding, target=result.target) for finding in was.findings)
    assert (result.verdict, result.reason, result.observation) == (was.verdict, was.reason, was.observation)
    assert result.findings == renamed
    assert replayed.targets[0].origin_kind == "sim"


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
