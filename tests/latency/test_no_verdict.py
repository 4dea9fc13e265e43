"""When nothing can be said of the memory, and why: unknown with its reason, even where a region looks slow."""

from __future__ import annotations

import dataclasses
import importlib
import itertools

import pytest

from mats.device import HeldBy, MemoryState
from mats.devices._plans import MIB
from mats.devices._sim_link import SimLink
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo, Unit, Verdict
from mats.probe import UsageError

from .bench import PROBE, Card, Quiet, hertz, judged, not_told, plan, reading, run, value

session = importlib.import_module("mats.probes._latency_session")


def test_a_memory_clock_that_moves_voids_what_was_seen() -> None:
    clocks = itertools.chain(itertools.repeat(hertz(2e9), 5), itertools.repeat(hertz(1e9)))
    seen = run(Card(plan("slow_region"), memory_clock=lambda: next(clocks)))
    verdict, reason, findings = judged(seen)
    assert verdict is Verdict.UNKNOWN
    assert "the memory clock moved" in reason
    assert [finding.code for finding in findings] == ["LAT-005"]


def test_a_memory_clock_that_is_not_told_is_no_pass() -> None:
    verdict, reason, _ = judged(run(Card(plan(), memory_clock=not_told)))
    assert verdict is Verdict.UNKNOWN
    assert "the memory clock is not told" in reason


def test_another_process_voids_what_was_seen_and_a_desktop_does_not() -> None:
    # given
    unknown = Absent(AbsenceKind.UNREADABLE, "not told")
    busy, desktop = HeldBy(7, "training", unknown), HeldBy(8, "Xorg", unknown, draws_only=True)
    # when
    shared = judged(run(Card(plan("slow_region"), holders=lambda: (busy, desktop))))
    drawn = judged(run(Card(plan(), holders=lambda: (desktop,))))
    # then
    assert (shared.verdict, [finding.code for finding in shared.findings]) == (Verdict.UNKNOWN, ["LAT-006"])
    assert drawn.verdict is Verdict.PASS


def test_processes_that_cannot_be_listed_are_said_and_forgiven() -> None:
    seen = run(Card(plan(), holders=lambda: "as in containers"))
    assert reading(seen, "latency.other_processes") == Absent(AbsenceKind.UNREADABLE, "as in containers")
    assert judged(seen).verdict is Verdict.PASS


def test_a_small_part_of_the_memory_is_too_little() -> None:
    seen = run(Card(plan("slow_region")), Quiet(size=8 * MIB))
    verdict, reason, findings = judged(seen)
    assert verdict is Verdict.UNKNOWN
    assert "too little of the memory was timed" in reason
    assert "LAT-002" not in [finding.code for finding in findings]


def test_a_device_that_is_too_busy_gives_no_verdict() -> None:
    # given: a card whose walks are disturbed half of the time
    observation = run(Card(plan("slow_region")))
    busy = tuple(
        dataclasses.replace(one, reading=Quantity(3.0, Unit.COUNT)) if one.name == "latency.chance_alarms" else one
        for one in observation.measurements
    )
    # when
    verdict, reason, findings = judged(dataclasses.replace(observation, measurements=busy))
    # then
    assert verdict is Verdict.UNKNOWN
    assert "too busy" in reason
    assert [finding.code for finding in findings] == ["LAT-007"]


@pytest.mark.parametrize("placement", ["MIG", "vGPU", "WDDM", "WSL", "integrated"])
def test_memory_that_is_shared_or_moved_is_not_timed(placement: str) -> None:
    class Odd(Card):
        def describe(self) -> TargetInfo:
            info = super().describe()
            return dataclasses.replace(info, identity=(*info.identity, ("placement", placement)))

    seen = run(Odd(plan()))
    verdict, reason, _ = judged(seen, "cuda")
    assert verdict is Verdict.UNKNOWN
    assert session.unfit(Odd(plan()).describe()) in reason


def test_a_mig_instance_is_known_by_its_uuid() -> None:
    info = dataclasses.replace(Card(plan()).describe(), identity=(("uuid", "MIG-1234"),))
    assert "MIG instance" in session.unfit(info)


def test_a_device_without_room_is_unknown() -> None:
    def full() -> MemoryState:
        return MemoryState(16 * MIB, MIB, Quantity(0, Unit.BYTE), Quantity(15 * MIB, Unit.BYTE))

    verdict, reason, _ = judged(run(Card(plan(), memory=full)))
    assert verdict is Verdict.UNKNOWN
    assert "1 MiB are free" in reason


def test_no_pass_at_all_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="--passes must be at least 1"):
        run(Card(plan()), Quiet(passes=0))


@pytest.mark.parametrize(("disturbed", "walked"), [(0.0, 15), (0.4, 60)])
def test_more_passes_are_made_while_walks_are_disturbed(
    disturbed: float, walked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy device is given up to four times the passes before no verdict is given."""
    compare = session.compare
    monkeypatch.setattr(session, "compare", lambda times: dataclasses.replace(compare(times), disturbed=disturbed))
    seen = run(Card(plan()))
    assert value(seen, "latency.passes") == walked
    assert judged(seen).verdict is (Verdict.PASS if not disturbed else Verdict.UNKNOWN)


def test_every_reading_that_a_limit_needs_is_there_on_a_healthy_card() -> None:
    seen = run(Card(plan()))
    names = {one.name for one in seen.measurements if isinstance(one.reading, Quantity)}
    assert {limit.measurement for limit in PROBE.limits if "sim" in limit.kinds or not limit.kinds} <= names


def test_no_kernel_follows_a_list_of_places_that_the_link_has_changed() -> None:
    """A flipped bit in a list leads a chain out of its region, and on a GPU ends the context."""
    # given: a link that turns a thousand bits of each MiB
    broken = dataclasses.replace(plan("host_link_corrupt"), link=SimLink(flips=1000.0))
    # when
    seen = run(Card(broken))
    verdict, _, findings = judged(seen)
    # then
    for name in ("latency.region_excess", "latency.slow_line_share", "latency.ladder"):
        found = reading(seen, name)
        assert isinstance(found, Absent), name
    assert "came back changed" in str(reading(seen, "latency.region_excess"))
    assert verdict is Verdict.FAIL
    assert "LAT-023" in [finding.code for finding in findings]
