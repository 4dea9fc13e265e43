"""Saved outputs of nvidia-smi, as people send them: each gives the facts that its conclusion rests on."""

from __future__ import annotations

from mats.facts import RETIRED_PAGES_MAXIMUM, GpuFacts, LinkFacts, MachineFacts, PairFacts, RecoveryAction
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources import nvidia_smi

from . import saved

MIB = 1 << 20
GB = 10**9


def read(name: str) -> MachineFacts:
    return nvidia_smi.read(saved.path(name))


def gpus(machine: MachineFacts) -> tuple[GpuFacts, ...]:
    assert not isinstance(machine.gpus, Absent)
    return machine.gpus


def only(name: str) -> GpuFacts:
    (gpu,) = gpus(read(name))
    return gpu


def number(reading: Reading) -> int | float:
    assert isinstance(reading, Quantity), reading
    return reading.value


def why(value: object) -> str:
    assert isinstance(value, Absent), value
    return value.reason


def links(gpu: GpuFacts) -> tuple[LinkFacts, ...]:
    assert not isinstance(gpu.nvlink.links, Absent)
    return gpu.nvlink.links


def test_t4_in_xml_v13_is_healthy_and_has_retirement_where_others_have_remapping() -> None:
    gpu = only("health/smi_xml_t4_v13.xml")

    assert (gpu.retired.single_bit, gpu.retired.double_bit) == (Quantity(0, Unit.COUNT),) * 2
    assert gpu.retired.pending is False
    assert isinstance(gpu.remap.pending, Absent) and gpu.remap.pending.kind is AbsenceKind.NOT_SUPPORTED
    assert gpu.ecc.enabled is True
    assert number(gpu.ecc.uncorrected) == number(gpu.ecc.aggregate.sram_uncorrected) == 0
    assert number(gpu.window.total) == 256 * MIB
    assert gpu.recovery.action is RecoveryAction.NONE
    assert gpu.virtualisation == "Pass-Through"
    assert gpu.pci == "0000:00:1e.0"
    assert (number(gpu.pcie.width), number(gpu.pcie.width_maximum)) == (8, 16)


def test_a100_with_mig_in_xml_v11_keeps_instances_and_whole_apart() -> None:
    gpu = only("health/smi_xml_a100_mig_v11.xml")

    assert not isinstance(gpu.mig.instances, Absent)
    assert [each.gpu_instance for each in gpu.mig.instances] == [1, 2]
    assert [number(each.memory.total) for each in gpu.mig.instances] == [19968 * MIB] * 2
    assert [number(each.memory.used) for each in gpu.mig.instances] == [19 * MIB] * 2
    assert (number(gpu.memory.total), number(gpu.memory.used)) == (40960 * MIB, 38 * MIB)
    assert gpu.mig.enabled is True
    assert "MIG" in why(gpu.busy)
    assert "MIG" in why(gpu.ecc.volatile.dram_uncorrected)
    assert "MIG" in why(gpu.remap.pending)


def test_rtx4090_in_xml_v12_is_idle_and_its_ecc_is_off() -> None:
    gpu = only("health/smi_xml_rtx4090_v12.xml")

    assert (number(gpu.temperature), number(gpu.memory.used), number(gpu.memory.total)) == (40, 2 * MIB, 24564 * MIB)
    pcie = gpu.pcie
    assert [number(each) for each in (pcie.generation, pcie.generation_host, pcie.generation_device)] == [1, 3, 4]
    assert number(pcie.width) == 16
    assert gpu.clocks.reasons == ("idle",)
    assert gpu.ecc.enabled is False
    assert "ECC is switched off" in why(gpu.ecc.volatile.dram_uncorrected)
    assert "ECC is switched off" in why(gpu.ecc.uncorrected)
    assert number(gpu.window.total) == 256 * MIB
    assert (number(gpu.heat.margin), number(gpu.heat.shutdown_margin)) == (43, -7)
    assert number(gpu.power) == 26.84
    assert "N/A" in why(gpu.power_limits.module)


def test_eight_v100_in_a_table_have_one_corrupted_inforom() -> None:
    machine = read("health/smi_table_v100x8_inforom.txt")

    corrupted = [gpu for gpu in gpus(machine) if gpu.inforom.corrupted is True]
    assert [(gpu.index, gpu.pci) for gpu in corrupted] == [(Quantity(7, Unit.COUNT), "0008:00:00.0")]
    assert len(gpus(machine)) == 8
    assert "no warning for this GPU" in why(gpus(machine)[0].inforom.corrupted)
    assert all(number(gpu.ecc.uncorrected) == 0 for gpu in gpus(machine))
    assert all(gpu.processes == () for gpu in gpus(machine))
    assert machine.driver == "460.32.03"


def test_eight_a100_in_text_are_healthy_without_persistence() -> None:
    machine = read("health/smi_q_a100x8.txt")

    found = gpus(machine)
    assert len(found) == 8 and not machine.partial
    for gpu in found:
        assert gpu.ecc.enabled is True
        assert number(gpu.ecc.uncorrected) == number(gpu.ecc.aggregate.dram_uncorrected) == 0
        assert number(gpu.remap.correctable) == number(gpu.remap.pending) == number(gpu.remap.failed) == 0
        assert number(gpu.remap.banks.full) == 640
        assert (number(gpu.pcie.generation), number(gpu.pcie.width)) == (4, 16)
        assert 38 <= number(gpu.temperature) <= 41
        assert gpu.persistence is False
        assert gpu.processes == ()
    assert {gpu.vbios for gpu in found} == {"92.00.36.00.04"}
    assert [number(gpu.index) for gpu in found] == list(range(8))
    assert len({gpu.uuid for gpu in found}) == 8


def test_retired_pages_of_eight_gpus_and_an_impossible_count() -> None:
    found = gpus(read("health/smi_q_retired_pages_x8.txt"))

    pages = [(number(gpu.retired.single_bit), number(gpu.retired.double_bit), gpu.retired.pending) for gpu in found]
    assert pages == [
        (60, 5, False),
        (2, 61, True),
        (0, 0, False),
        (6, 0, True),
        (0, 0, False),
        (20, 45, True),
        (0, 0, False),
        (8, 56, True),
    ]
    too_many = [place for place, (single, double, _) in enumerate(pages, 1) if single + double > RETIRED_PAGES_MAXIMUM]
    assert too_many == [1, 6]
    assert found[0].pci == "0001:00:00.0"
    assert "not shown" in why(found[0].ecc.uncorrected)


def test_a_power_that_is_err_is_unreadable_and_the_rest_is_not() -> None:
    gpu = only("health/smi_table_err_power.txt")

    assert isinstance(gpu.power, Absent) and gpu.power.kind is AbsenceKind.UNREADABLE
    assert "momentary" in gpu.power.reason
    assert (number(gpu.index), gpu.pci) == (3, "a2f1:00:00.0")
    assert (number(gpu.power_limits.limit), number(gpu.temperature)) == (250, 34)
    assert (number(gpu.memory.used), number(gpu.memory.total)) == (401 * MIB, 32510 * MIB)
    assert number(gpu.ecc.uncorrected) == 0


def test_gb10_in_a_table_does_not_tell_its_memory() -> None:
    machine = read("health/smi_table_gb10.txt")

    (gpu,) = gpus(machine)
    assert (gpu.name, machine.cuda, gpu.pci) == ("NVIDIA GB10", "13.0", "000f:01:00.0")
    assert (number(gpu.temperature), number(gpu.power), number(gpu.busy)) == (43, 11, 0.06)
    assert isinstance(gpu.memory.total, Absent) and gpu.memory.total.kind is AbsenceKind.NOT_SUPPORTED
    for unknown in (gpu.ecc.uncorrected, gpu.remap.pending, gpu.pcie.width, gpu.power_limits.limit):
        assert isinstance(unknown, Absent)


def test_gb10_in_csv_gives_two_samples_and_no_memory() -> None:
    samples = nvidia_smi.parse_samples(saved.text("health/smi_csv_gb10.csv"))

    (first,), (second,) = (gpus(sample) for sample in samples)
    assert (number(first.busy), number(second.busy)) == (0.12, 0.14)
    assert (number(first.temperature), number(second.temperature)) == (44, 44)
    assert isinstance(first.memory.used, Absent)
    assert samples[0].taken == "2026/02/11 07:41:20.318"
    assert number(only("health/smi_csv_gb10.csv").busy) == 0.14


def test_mig_rows_of_a_table_stand_below_their_gpu() -> None:
    found = gpus(read("health/smi_table_mig.txt"))

    slices = []
    for gpu in found:
        assert not isinstance(gpu.mig.instances, Absent)
        for each in gpu.mig.instances:
            errors = number(each.sram_uncorrected)
            total = number(each.memory.total) // MIB
            slices.append((number(gpu.index), each.gpu_instance, number(each.multiprocessors), total, errors))
    assert slices == [(0, 1, 42, 20096, 0), (0, 5, 14, 9856, 0), (3, 2, 42, 20096, 0)]
    assert "not shown" in why(found[0].remap.pending)


def test_uncorrected_sram_errors_of_an_older_layout() -> None:
    ecc = only("health/smi_q_ecc_sram.txt").ecc

    assert (number(ecc.volatile.sram_uncorrected), number(ecc.aggregate.sram_uncorrected)) == (2, 7)
    assert number(ecc.uncorrected) == 2
    for unknown in (ecc.volatile.sram_parity, ecc.volatile.sram_secded, ecc.sram_threshold_exceeded, ecc.enabled):
        assert "not shown" in why(unknown)


def test_a_pending_remapping_of_a_card_with_640_banks() -> None:
    gpu = only("health/smi_q_remap_pending.txt")

    remap = gpu.remap
    assert [number(each) for each in (remap.correctable, remap.uncorrectable, remap.pending, remap.failed)] == [
        2,
        0,
        1,
        0,
    ]
    assert (number(remap.banks.full), number(remap.banks.high), number(remap.banks.none)) == (638, 2, 0)
    assert isinstance(gpu.retired.pending, Absent) and gpu.retired.pending.kind is AbsenceKind.NOT_SUPPORTED


def test_one_gpu_of_eight_asks_for_a_reset() -> None:
    found = gpus(read("health/recovery_action_dmon_health.txt"))

    wanted = {int(number(gpu.index)): gpu.recovery.action for gpu in found}
    assert wanted == {place: RecoveryAction.RESET if place == 6 else RecoveryAction.NONE for place in range(8)}


def test_library_and_kernel_module_differ_and_the_gpus_are_unknown() -> None:
    machine = read("health/smi_driver_mismatch.txt")

    assert (machine.library, machine.kernel_module) == ("570.172", "570.133.07")
    assert machine.nvml_failure == "Failed to initialize NVML: Driver/library version mismatch"
    assert "version mismatch" in why(machine.gpus)


def test_one_lost_gpu_ends_the_listing_of_all() -> None:
    machine = read("health/smi_dmesg_xid79_handle.txt")

    (gpu,) = gpus(machine)
    assert (gpu.pci, gpu.answers) == ("0000:db:00.0", False)
    assert "got no answer from this GPU (Unknown Error)" in why(gpu.temperature)
    assert "Unable to determine the device handle" in why(machine.attached)


def test_all_links_inactive_is_zero_links_up_and_not_silence() -> None:
    gpu = only("links/nvlink_s_a100_all_inactive.txt")

    assert (number(gpu.index), gpu.nvlink.active) == (6, Quantity(0, Unit.COUNT))
    assert "all of them are inactive" in why(gpu.nvlink.links)


def test_two_of_six_links_are_down() -> None:
    gpu = only("links/nvlink_s_v100_two_inactive.txt")

    assert (number(gpu.index), number(gpu.nvlink.active)) == (5, 4)
    assert [link.link for link in links(gpu) if link.active is False] == [0, 4]
    assert {number(link.speed) for link in links(gpu) if link.active is True} == {25.781 * GB}
    assert "down" in why(links(gpu)[0].speed)


def test_errors_and_status_of_links_are_one_picture() -> None:
    gpu = only("links/nvlink_e_and_s_h100.txt")

    assert (number(gpu.nvlink.active), len(links(gpu))) == (18, 18)
    assert sum(number(link.speed) for link in links(gpu)) == 478.116 * GB
    counts = {(link.link, name): number(count) for link in links(gpu) for name, count in link.errors}
    assert {at: count for at, count in counts.items() if count} == {(9, "crc errors"): 3}
    assert len(counts) == 54


def test_topology_names_the_class_of_each_pair() -> None:
    machine = read("links/topo_m_a40x4_nv4_pairs.txt")

    assert not isinstance(machine.pairs, Absent)
    assert PairFacts(0, 1, "NV4") in machine.pairs and PairFacts(2, 3, "NV4") in machine.pairs
    assert [pair.connection for pair in machine.pairs].count("SYS") == 4
    assert [(number(gpu.numa), gpu.cpus) for gpu in gpus(machine)][1:3] == [(0, "0-23,48-71"), (1, "24-47,72-95")]


def test_windows_does_not_tell_the_memory_of_processes() -> None:
    table, text = only("wddm/nvidia_smi_wddm_kmd_banner.txt"), only("wddm/nvidia_smi_q_processes_wddm.txt")

    assert not isinstance(table.processes, Absent) and not isinstance(text.processes, Absent)
    assert [process.pid for process in table.processes] == [2044, 9312, 31120, 110488]
    assert [process.pid for process in text.processes] == [1712, 8420]
    assert all(isinstance(process.memory, Absent) for process in (*table.processes, *text.processes))
    assert isinstance(text.processes[0].name, Absent)
    assert text.processes[0].name.kind is AbsenceKind.NO_PERMISSION
    assert (table.driver, table.driver_model) == ("612.40", "WDDM")
    assert (number(table.memory.used), number(table.memory.total)) == (10911 * MIB, 12282 * MIB)


def test_wsl_answers_without_head_and_units() -> None:
    gpu = only("wddm/wsl2_nvidia_smi.csv.txt")

    assert (number(gpu.memory.used), number(gpu.memory.total)) == (9127 * MIB, 16380 * MIB)
    assert not isinstance(gpu.processes, Absent)
    assert [process.pid for process in gpu.processes] == [412]
    assert isinstance(gpu.processes[0].memory, Absent)
