"""What each simulated driver is read as: the real nvidia-ml-py asks, every fact is there or absent with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from mats.facts import UNASKED, LinkFacts, PairFacts, RecoveryAction
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import _mock_profiles as profiles

from .stand_in import celsius, count, gpus, library, machine, only, watts, why

MIB = 1 << 20
UNREADABLE = {"no_driver": "is not loaded", "driver_mismatch": "different versions", "blocked": "code 999"}
NOT_OF_NVML = {
    "asleep",
    "pcie.loaded",
    "pcie.idle_generation",
    "pcie.idle_width",
    "pcie.corrected_loaded",
    "pcie.loaded_seconds",
}
"""What only another source can tell."""


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a picture that may be absent, by its path."""
    if isinstance(value, Absent | Quantity) or not dataclasses.is_dataclass(value):
        yield path, value
        return
    for field in dataclasses.fields(value):
        yield from leaves(getattr(value, field.name), f"{path}.{field.name}".strip("."))


@pytest.mark.parametrize("profile", sorted(set(profiles.names()) - set(UNREADABLE) - {"no_gpu"}))
def test_every_field_that_nvml_could_tell_was_asked_for(profile: str) -> None:
    for gpu in gpus(profile):
        unasked = {path for path, value in leaves(gpu) if value == UNASKED}
        assert unasked <= NOT_OF_NVML
        assert isinstance(gpu.index, Quantity)
        assert all(": " in value.reason for _, value in leaves(gpu) if isinstance(value, Absent) and value != UNASKED)


@pytest.mark.parametrize("profile", sorted(UNREADABLE))
def test_a_library_that_does_not_start_says_why(profile: str) -> None:
    facts = machine(profile)

    assert isinstance(facts.nvml_failure, str) and UNREADABLE[profile] in facts.nvml_failure
    assert isinstance(facts.gpus, Absent) and isinstance(facts.attached, Absent)


def test_a_library_tells_its_own_version_although_the_driver_is_of_another() -> None:
    assert machine("driver_mismatch").library == "570.172.08"
    assert "different versions" in str(machine("driver_mismatch").driver)


def test_a_driver_without_a_gpu_lists_none() -> None:
    facts = machine("no_gpu")

    assert (facts.attached, facts.gpus, facts.driver) == (count(0), (), "575.57.08")


def test_eight_healthy_gpus_are_one_machine() -> None:
    facts, read = machine("h100x8"), gpus("h100x8")

    assert (facts.driver, facts.cuda, facts.library) == ("575.57.08", "12.9", "575.57.08")
    assert (facts.attached, facts.virtualisation, facts.slow_calls) == (count(8), "None", ())
    assert isinstance(facts.nvml_failure, Absent)
    assert facts.pairs is not None and PairFacts(0, 7, "NV18") in facts.pairs  # type: ignore[operator]
    assert len({gpu.uuid for gpu in read}) == len({gpu.pci for gpu in read}) == 8
    assert [gpu.numa for gpu in read] == [count(0)] * 4 + [count(1)] * 4
    assert (read[0].cpus, read[7].cpus) == ("0-47", "48-95")


def test_a_healthy_gpu_is_read_whole_and_in_base_units() -> None:
    gpu = only("healthy")

    assert (gpu.name, gpu.architecture, gpu.compute_capability) == ("NVIDIA H100 80GB HBM3", "Hopper", "9.0")
    assert (gpu.pci, gpu.serial, gpu.vbios) == ("0000:1b:00.0", "1650023000000", "96.00.89.00.01")
    assert (gpu.answers, gpu.persistence, gpu.compute_mode, gpu.addressing) == (True, True, "Default", "HMM")
    assert (gpu.gsp, gpu.busy, gpu.processes) == ("575.57.08", Quantity(0.0, Unit.RATIO), ())
    memory = gpu.memory
    assert (memory.total, memory.used) == (Quantity(81559 * MIB, Unit.BYTE), Quantity(MIB, Unit.BYTE))
    assert (memory.reserved, memory.used_with_reserved) == (
        Quantity(562 * MIB, Unit.BYTE),
        Quantity(563 * MIB, Unit.BYTE),
    )
    assert (memory.bus, gpu.window.total) == (count(5120), Quantity(128 << 30, Unit.BYTE))
    assert (gpu.temperature, gpu.heat.memory, gpu.heat.margin) == (celsius(31), celsius(39), celsius(56))
    assert (gpu.heat.shutdown_margin, gpu.heat.slowdown_margin) == (celsius(-8), celsius(-2))
    assert why(gpu.heat.shutdown) is AbsenceKind.NOT_SUPPORTED
    power = gpu.power_limits
    assert (gpu.power, power.average) == (watts(71_234 * 1e-3), watts(70_950 * 1e-3))
    assert (power.limit, power.minimum_limit, power.maximum_limit) == (watts(700.0), watts(200.0), watts(700.0))


def test_errors_replacements_and_links_of_a_healthy_gpu_are_known_to_be_none() -> None:
    gpu = only("healthy")

    ecc, none = gpu.ecc, count(0)
    assert (ecc.enabled, ecc.pending, ecc.corrected, ecc.uncorrected) == (True, True, none, none)
    for counts in (ecc.volatile, ecc.aggregate):
        assert {value for _, value in leaves(counts)} == {none}
    assert (ecc.sram_threshold_exceeded, ecc.channel_repair_pending, ecc.tpc_repair_pending) == (False,) * 3
    assert dict(ecc.sram_sources) == dict.fromkeys(("l2", "sm", "microcontroller", "pcie", "other"), none)
    assert (gpu.remap.pending, gpu.remap.failed, gpu.remap.banks.full) == (none, none, count(2560))
    assert gpu.recovery.action is RecoveryAction.NONE
    assert (gpu.recovery.reset_required, gpu.inforom.corrupted, gpu.inforom.ecc) == (False, False, "7.16")
    assert (gpu.pcie.generation, gpu.pcie.width, gpu.pcie.generation_device) == (count(5), count(16), count(5))
    assert (gpu.pcie.replays, gpu.pcie.replay_rollovers) == (none, none)
    assert set(dict(gpu.pcie.errors).values()) == {none}
    assert gpu.clocks.reasons == ("idle",)
    assert dict(gpu.clocks.held)["hardware thermal slowdown"] == Quantity(0.0, Unit.SECOND)
    assert gpu.nvlink.active == count(18)
    assert isinstance(gpu.nvlink.links, tuple)
    assert gpu.nvlink.links[17] == LinkFacts(
        17,
        active=True,
        speed=Quantity(26562e6, Unit.BYTE_PER_SECOND),
        version="4.0",
        remote="0000:0a:00.0",
        errors=(("replay errors", none), ("recovery errors", none), ("crc errors", none)),
        packets=Absent(AbsenceKind.NOT_SUPPORTED, "NVLink packets: counted by NVLink 5 and newer only"),
    )


def test_the_health_of_a_fabric_is_told_field_by_field_and_a_set_bit_is_no_fault() -> None:
    fabric = only("healthy").fabric

    assert (fabric.state, fabric.status, fabric.clique) == ("Completed", "Success", "0")
    assert fabric.cluster == "abababab-abab-abab-abab-abababababab"
    assert dict(fabric.health) == {
        "summary": "Healthy",
        "bandwidth": "Full",
        "route_recovery_in_progress": "False",
        "route_unhealthy": "False",
        "access_timeout_recovery": "False",
        "incorrect_configuration": "None",
        "partition_assigned": "True",
        "fabric_manager_connected": "True",
    }


def test_a_fabric_that_failed_or_waits_is_told_apart() -> None:
    failed, waiting = gpus("fabric_failed")[1].fabric, gpus("fabric_waiting")[0].fabric

    assert failed.status == "failed with NVML code 999"
    assert dict(failed.health)["route_unhealthy"] == "True"
    assert (dict(failed.health)["summary"], dict(failed.health)["bandwidth"]) == ("Unhealthy", "Full")
    assert waiting.state == "In Progress"
    assert why(dict(waiting.health)["bandwidth"]) is AbsenceKind.NOT_SUPPORTED


def test_mig_hides_what_it_hides_and_its_instances_are_listed() -> None:
    gpu = only("a100_mig")

    assert gpu.memory.total == Quantity(40960 * MIB, Unit.BYTE)
    assert why(gpu.remap.pending) is why(gpu.ecc.uncorrected) is why(gpu.busy) is AbsenceKind.NOT_SUPPORTED
    assert gpu.ecc.aggregate.dram_uncorrected == count(0)
    assert gpu.mig.enabled is True and isinstance(gpu.mig.instances, tuple)
    first, second = gpu.mig.instances
    assert (first.gpu_instance, second.gpu_instance, first.multiprocessors) == (1, 2, count(42))
    assert (first.memory.used, first.sram_uncorrected) == (Quantity(19 * MIB, Unit.BYTE), count(0))
    assert gpu.nvlink.active == count(0)
    assert (gpu.heat.shutdown, gpu.heat.memory_maximum) == (celsius(92), celsius(95))


def test_a_geforce_card_has_a_desktop_ecc_off_and_a_window_of_256_mib() -> None:
    gpu = only("rtx4090")

    assert gpu.ecc.enabled is False
    assert "switched off" in str(gpu.ecc.volatile.dram_uncorrected)
    assert isinstance(gpu.processes, tuple)
    assert [(each.pid, each.draws_only) for each in gpu.processes] == [(1893, True)]
    assert gpu.window.total == Quantity(256 * MIB, Unit.BYTE)
    assert (gpu.pcie.generation, gpu.pcie.generation_maximum, gpu.pcie.generation_device) == (
        count(1),
        count(3),
        count(4),
    )
    assert why(gpu.nvlink.active) is why(gpu.fabric.state) is AbsenceKind.NOT_SUPPORTED
    assert why(gpu.recovery.action) is AbsenceKind.MISSING_SYMBOL
    assert (gpu.heat.margin, gpu.heat.target, gpu.persistence) == (celsius(43), celsius(84), False)


def test_a_laptop_card_has_neither_ecc_nor_a_power_limit() -> None:
    gpu = only("rtx4060_laptop")

    assert why(gpu.ecc.enabled) is why(gpu.remap.pending) is why(gpu.power_limits.limit) is AbsenceKind.NOT_SUPPORTED
    assert "no ECC" in str(gpu.ecc.aggregate.dram_uncorrected)
    assert (gpu.pcie.width, gpu.pcie.width_maximum) == (count(8), count(8))
    assert gpu.power == watts(1830 * 1e-3)


def test_a_t4_has_ecc_pages_and_no_row_remapping_and_is_passed_through() -> None:
    gpu = only("t4")

    assert (gpu.ecc.enabled, gpu.ecc.uncorrected) == (True, count(0))
    assert (gpu.ecc.aggregate.sram_uncorrected, gpu.ecc.aggregate.dram_uncorrected) == (count(0), count(0))
    assert why(gpu.remap.failed) is AbsenceKind.NOT_SUPPORTED
    assert (gpu.retired.single_bit, gpu.retired.double_bit, gpu.retired.pending) == (count(0), count(0), False)
    assert (gpu.virtualisation, machine("t4").virtualisation) == ("Pass-Through", "Pass-Through")
    assert "not in use" in str(gpu.gsp)


def test_a_v100_lists_its_retired_pages_and_tells_places_one_by_one() -> None:
    gpu = only("v100_retired")

    assert (gpu.retired.single_bit, gpu.retired.double_bit, gpu.retired.pending) == (count(2), count(61), True)
    assert (gpu.ecc.volatile.dram_uncorrected, gpu.ecc.volatile.sram_uncorrected) == (count(1), count(0))
    assert (gpu.ecc.aggregate.sram_corrected, gpu.ecc.aggregate.dram_corrected) == (count(2), count(116))
    assert isinstance(gpu.nvlink.links, tuple)
    assert (gpu.nvlink.active, gpu.nvlink.links[0].version) == (count(6), "2.0")
    assert dict(gpu.nvlink.links[0].errors)["replay errors"] == count(0)


def test_a_gb10_tells_no_memory_and_that_is_not_zero() -> None:
    gpu = only("gb10")

    for value in (gpu.memory.total, gpu.memory.used, gpu.memory.free, gpu.ecc.enabled, gpu.pcie.generation):
        assert why(value) is AbsenceKind.NOT_SUPPORTED
    assert (gpu.pci, gpu.addressing, gpu.answers) == ("000f:01:00.0", "ATS", True)
    assert isinstance(gpu.processes, tuple)
    assert gpu.processes[0].memory == Quantity(1 << 30, Unit.BYTE)


def test_wsl_does_not_tell_the_memory_of_a_process() -> None:
    gpu = only("wsl")

    assert isinstance(gpu.processes, tuple)
    (process,) = gpu.processes
    assert (process.pid, why(process.memory)) == (412, AbsenceKind.NOT_SUPPORTED)
    assert gpu.memory.used == Quantity(8741 * MIB, Unit.BYTE)
    assert gpu.driver_model == "WDDM"


def test_a_virtual_gpu_tells_little_and_a_link_of_0_is_not_one() -> None:
    gpu = only("vgpu")

    assert (gpu.virtualisation, why(gpu.ecc.enabled)) == ("VGPU", AbsenceKind.NOT_SUPPORTED)
    assert why(gpu.pcie.generation) is AbsenceKind.UNREADABLE
    assert why(gpu.temperature) is why(gpu.power) is AbsenceKind.NOT_SUPPORTED
    assert gpu.answers is True


def test_a_jetson_answers_although_it_tells_hardly_anything() -> None:
    gpu = only("jetson")

    assert (gpu.name, gpu.answers) == ("Orin (nvgpu)", True)
    assert {why(gpu.temperature), why(gpu.memory.total), why(gpu.pci), why(gpu.processes)} == {
        AbsenceKind.NOT_SUPPORTED
    }


def test_a_b200_answers_the_calls_of_its_generation() -> None:
    gpu = only("b200")

    assert (gpu.ecc.channel_repair_pending, gpu.ecc.unrepairable_memory) == (False, False)
    assert isinstance(gpu.nvlink.links, tuple)
    link = gpu.nvlink.links[4]
    assert (link.version, link.speed) == ("5.0", Quantity(53125e6, Unit.BYTE_PER_SECOND))
    errors = dict(link.errors)
    assert (errors["rx errors"], errors["link recovery events"]) == (count(0), count(0))
    assert link.packets == count(3_000_000)
    assert errors["effective ber"] == Quantity(0.0, Unit.RATIO)
    assert "replay errors" not in errors


def test_faults_of_a_b200_stand_on_their_own_link_and_memory() -> None:
    repair, bad = only("b200_repair").ecc, only("b200_link_errors").nvlink

    assert (repair.channel_repair_pending, repair.tpc_repair_pending, repair.unrepairable_memory) == (True, False, True)
    assert isinstance(bad.links, tuple)
    errors = dict(bad.links[4].errors)
    assert (errors["rx errors"], errors["tx discards"], errors["effective errors"]) == (count(12), count(3), count(801))
    assert errors["effective ber"] == Quantity(5e-6, Unit.RATIO)
    assert dict(bad.links[5].errors)["effective errors"] == count(0)


def test_a_gpu_that_needs_a_reset_says_so_and_the_other_does_not() -> None:
    fine, stuck = gpus("needs_reset")

    assert (fine.answers, fine.recovery.action, fine.temperature) == (True, RecoveryAction.NONE, celsius(31))
    assert (stuck.answers, stuck.recovery.action, stuck.recovery.reset_required) == (False, RecoveryAction.RESET, True)
    assert (stuck.name, stuck.pci) == ("NVIDIA H100 80GB HBM3", "0000:2a:00.0")
    for value in (stuck.temperature, stuck.memory.total, stuck.ecc.uncorrected, stuck.remap.pending, stuck.processes):
        assert why(value) is AbsenceKind.DEVICE_LOST


def test_a_gpu_that_has_fallen_off_the_bus_takes_only_its_own_values() -> None:
    lost, fine = gpus("fallen_off_bus")

    for value in (lost.temperature, lost.power, lost.memory.total, lost.clocks.reasons, lost.recovery.action):
        assert why(value) is AbsenceKind.DEVICE_LOST
        assert "fallen off the bus" in str(value)
    assert (lost.answers, lost.uuid) == (False, "GPU-00000000-0000-0000-0000-000000000000")
    assert (fine.answers, fine.remap.pending) == (True, count(0))


def test_a_gpu_without_a_handle_does_not_hide_the_next() -> None:
    lost, fine = gpus("handle_lost")

    assert (lost.index, lost.answers, why(lost.uuid)) == (count(0), False, AbsenceKind.DEVICE_LOST)
    assert (fine.index, fine.temperature) == (count(1), celsius(31))


def test_a_symbol_that_an_old_driver_lacks_is_too_old_and_not_unsupported() -> None:
    gpu = only("old_driver")

    for value in (gpu.remap.pending, gpu.memory.reserved, gpu.recovery.action, gpu.heat.margin, gpu.fabric.state):
        assert why(value) is AbsenceKind.MISSING_SYMBOL
    assert gpu.memory.total == gpu.memory.total == Quantity(17_071_734_784, Unit.BYTE)
    assert gpu.clocks.reasons == ("idle",)
    assert gpu.retired.double_bit == count(0)
    assert isinstance(gpu.processes, tuple)
    assert [(process.pid, why(process.name)) for process in gpu.processes] == [(3001, AbsenceKind.NOT_FOUND)]


def test_processes_have_names() -> None:
    processes = only("thermal_slowdown").processes

    assert isinstance(processes, tuple)
    assert [(each.pid, each.name) for each in processes] == [(20417, "python3")]
    assert why(processes[0].gpu_instance) is AbsenceKind.NOT_SUPPORTED


FAULTS: dict[str, Callable[[], bool]] = {
    "remap_pending": lambda: gpus("remap_pending")[1].remap.pending == count(1),
    "remap_failed": lambda: only("remap_failed").remap.failed == count(1),
    "spares_low": lambda: only("spares_low").remap.banks.none == count(1),
    "ecc_uncorrected": lambda: only("ecc_uncorrected").ecc.volatile.dram_uncorrected == count(1),
    "sram_threshold": lambda: (
        only("sram_threshold").ecc.sram_threshold_exceeded is True
        and dict(only("sram_threshold").ecc.sram_sources)["l2"] == count(5)
        and only("sram_threshold").ecc.aggregate.sram_uncorrected == count(7)
    ),
    "thermal_slowdown": lambda: (
        "hardware thermal slowdown" in str(only("thermal_slowdown").clocks.reasons)
        and only("thermal_slowdown").heat.margin == celsius(-3)
    ),
    "power_brake": lambda: (
        "hardware power brake" in str(gpus("power_brake")[0].clocks.reasons)
        and dict(gpus("power_brake")[0].clocks.held)["hardware power brake"] == Quantity(55.0, Unit.SECOND)
    ),
    "pcie_narrow": lambda: (
        only("pcie_narrow").pcie.width == count(8) and dict(only("pcie_narrow").pcie.errors)["bad dllp"] == count(18211)
    ),
    "nvlink_down": lambda: gpus("nvlink_down")[0].nvlink.active == count(17),
    "nvlink_errors": lambda: dict(gpus("nvlink_errors")[1].nvlink.links[9].errors)["crc errors"] == count(12873),  # type: ignore[index]
    "inforom_corrupt": lambda: [gpu.inforom.corrupted for gpu in gpus("inforom_corrupt")] == [False, True],
    "ecc_pending": lambda: (only("ecc_pending").ecc.enabled, only("ecc_pending").ecc.pending) == (True, False),
    "leftover_memory": lambda: (
        only("leftover_memory").processes == ()
        and only("leftover_memory").memory.used == Quantity(66_571_993_088, Unit.BYTE)
    ),
    "mixed_vbios": lambda: len({gpu.vbios for gpu in gpus("mixed_vbios")}) == 2,
    "no_persistence": lambda: only("no_persistence").persistence is False,
    "reboot_needed": lambda: gpus("reboot_needed")[0].recovery.action is RecoveryAction.REBOOT,
}


@pytest.mark.parametrize("profile", sorted(FAULTS))
def test_the_fault_of_a_profile_is_seen_and_is_not_on_a_healthy_one(profile: str) -> None:
    library(profile)

    assert FAULTS[profile]()


def test_nothing_is_hidden_by_what_another_gpu_lacks() -> None:
    for profile in ("remap_pending", "nvlink_errors", "inforom_corrupt", "fabric_failed", "mixed_vbios"):
        first, second = gpus(profile)
        healthy = only("healthy")
        assert (first.remap, first.inforom, first.vbios) == (healthy.remap, healthy.inforom, healthy.vbios)
        assert first != second
