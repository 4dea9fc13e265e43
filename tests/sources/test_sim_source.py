"""The source of a simulated machine: driver, log, bus and surroundings of one profile, stamped as simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.devices import _sim_source, sim
from mats.facts import LogFacts, MachineFacts
from mats.model import AbsenceKind, Absent
from mats.probe import UsageError
from mats.source import NothingThere, SourceError
from mats.sources import _mock_profiles as profiles
from mats.target import parse_target

from .stand_in import count, library, why


def read(profile: str, *, load: bool = False) -> MachineFacts:
    library("healthy")
    source = _sim_source.open_source(parse_target(f"sim:{profile}"), 30.0)
    try:
        return source.read(load=load)
    finally:
        source.close()


def test_a_simulated_machine_says_that_it_is_one() -> None:
    library("healthy")

    info = _sim_source.open_source(parse_target("sim:h100x8")).describe()

    assert (info.kind, info.origin_kind, info.simulated) == ("sim", "sim", True)
    assert info.title == "simulated driver, profile h100x8 (8 x NVIDIA H100 80GB HBM3)"


def test_the_whole_picture_of_a_lost_gpu_is_there() -> None:
    facts = read("fallen_off_bus")

    assert isinstance(facts.gpus, tuple) and facts.gpus[0].answers is False
    assert isinstance(facts.log, LogFacts)
    (incident,) = facts.log.incidents
    assert (incident.kind, incident.pci) == ("off_bus", "0000:1b:00.0")
    assert isinstance(facts.devices, tuple)
    states = {device.address: device.answers for device in facts.devices if device.is_gpu}
    assert states == {"0000:1b:00.0": False, "0000:2a:00.0": True}
    assert (facts.host.nodes, facts.host.container) == (("nvidia0", "nvidia1"), "none")
    assert facts.kernel_module == facts.driver


def test_the_log_of_a_healthy_machine_is_read_from_its_start_and_clean() -> None:
    facts = read("healthy")

    assert isinstance(facts.log, LogFacts)
    assert (facts.log.incidents, facts.log.from_start) == ((), True)
    assert isinstance(facts.devices, tuple)
    assert [device.driver for device in facts.devices if device.is_gpu] == ["nvidia"]


def test_what_a_profile_does_not_tell_is_not_taken_from_this_machine(tmp_path: Path) -> None:
    own = tmp_path / "own.profile"
    own.write_text("[system]\ndriver = 1.2\ncount = 1\n[0]\nname = X\nuuid = GPU-1\n")

    facts = read(str(own))

    for value in (facts.log, facts.devices, facts.host.kernel, facts.host.nodes, facts.kernel_module):
        assert why(value) is AbsenceKind.NOT_TESTED


@pytest.mark.parametrize("plan", ["healthy", "stuck_dq", "stuck_dq@gddr6-256"])
def test_a_plan_of_a_memory_has_the_driver_of_a_healthy_card(plan: str) -> None:
    facts = read(plan)

    assert isinstance(facts.gpus, tuple)
    assert [gpu.remap.pending for gpu in facts.gpus] == [count(0)]


def test_a_link_that_is_kept_busy_is_as_fast_as_it_can_be_or_as_the_profile_says() -> None:
    idle, fast, narrow = read("rtx4090"), read("rtx4090", load=True), read("pcie_narrow", load=True)

    assert isinstance(idle.gpus, tuple) and isinstance(fast.gpus, tuple) and isinstance(narrow.gpus, tuple)
    assert (idle.gpus[0].pcie.generation, fast.gpus[0].pcie.generation) == (count(1), count(3))
    assert (fast.gpus[0].pcie.loaded, fast.gpus[0].pcie.idle_generation) == (True, count(1))
    assert (narrow.gpus[0].pcie.width, narrow.gpus[0].pcie.width_maximum) == (count(8), count(16))


def test_a_virtual_gpu_has_no_link_to_be_kept_busy() -> None:
    facts = read("vgpu", load=True)

    assert isinstance(facts.gpus, tuple)
    assert why(facts.gpus[0].pcie.loaded) is AbsenceKind.NOT_TESTED


def test_each_reading_is_of_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    library("healthy")
    source = _sim_source.open_source(parse_target("sim:healthy"))
    first = source.read()

    assert source.read() == first
    assert source.read() is not first


def test_a_driver_without_a_gpu_is_nothing_there_and_one_that_fails_beside_a_card_is_not() -> None:
    with pytest.raises(NothingThere, match="the driver lists none"):
        read("no_gpu")

    facts = read("driver_mismatch")
    assert isinstance(facts.gpus, Absent)
    assert (facts.library, facts.kernel_module) == ("570.172.08", "570.133.07")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[log]\n| no line of a log\n", r"\[log\]"),
        ("[pci]\n| nothing of lspci\n", r"\[pci\]"),
        ("[host]\nmemory = much\n", "memory wants a number of bytes"),
    ],
)
def test_a_mistake_in_a_users_profile_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    own = tmp_path / "own.profile"
    own.write_text(f"[system]\nlike = healthy\n{text}")

    with pytest.raises(UsageError, match=says):
        read(str(own))


def test_the_memory_of_a_driver_cannot_be_worked_on() -> None:
    for profile in ("needs_reset", "mine.profile"):
        with pytest.raises(DeviceError, match="has no memory to work on"):
            sim.open_device(parse_target(f"sim:{profile}"))


def test_without_a_compiler_a_simulated_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise DeviceError(profiles.MISSING)

    monkeypatch.setattr(profiles, "library_path", missing)

    with pytest.raises(SourceError, match="install a C compiler"):
        _sim_source.open_source(parse_target("sim:healthy"))


def test_drivers_are_listed_beside_memories_and_neither_twice() -> None:
    names = [name for name, _ in sim.plans()]

    assert len(names) == len(set(names))
    assert {"stuck_dq", "healthy", "needs_reset", "PLAN@hbm3-5"} <= set(names)
    assert all(summary.startswith("driver: ") for name, summary in sim.plans() if name == "needs_reset")
    assert "like = healthy" in sim.plan_example()
