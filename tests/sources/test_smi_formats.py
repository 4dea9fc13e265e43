"""Formats of nvidia-smi beyond the saved cases: old and new layouts, and what stands in place of a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.facts import GpuFacts, MachineFacts, RecoveryAction
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources import nvidia_smi

DATA = Path(__file__).resolve().parents[1] / "data" / "smi"
MIB = 1 << 20


def gpus(machine: MachineFacts) -> tuple[GpuFacts, ...]:
    assert not isinstance(machine.gpus, Absent)
    return machine.gpus


def number(reading: Reading) -> int | float:
    assert isinstance(reading, Quantity), reading
    return reading.value


def absent(value: object) -> Absent:
    assert isinstance(value, Absent), value
    return value


def test_newest_xml_tells_errors_by_code_and_unit_and_what_waits_for_repair() -> None:
    ecc = gpus(nvidia_smi.read(DATA / "h100_reset_v13.xml"))[0].ecc

    assert (ecc.enabled, ecc.pending) == (True, False)
    assert [number(each) for each in (ecc.volatile.sram_parity, ecc.volatile.sram_secded)] == [1, 3]
    assert (number(ecc.volatile.sram_uncorrected), number(ecc.uncorrected), number(ecc.corrected)) == (4, 9, 14)
    assert number(ecc.aggregate.sram_uncorrected) == 6
    assert ecc.sram_threshold_exceeded is True
    assert [(name, number(count)) for name, count in ecc.sram_sources] == [("l2", 1), ("sm", 5), ("microcontroller", 0)]
    assert (ecc.channel_repair_pending, ecc.tpc_repair_pending, ecc.unrepairable_memory) == (False, True, False)


def test_newest_xml_tells_the_rest_of_the_gpu() -> None:
    gpu = gpus(nvidia_smi.read(DATA / "h100_reset_v13.xml"))[0]

    assert gpu.recovery.action is RecoveryAction.DRAIN_AND_RESET
    assert "no longer told" in absent(gpu.recovery.reset_required).reason
    banks = gpu.remap.banks
    assert [number(each) for each in (banks.full, banks.high, banks.partial, banks.low, banks.none)] == [
        2555,
        3,
        1,
        0,
        1,
    ]
    assert (number(gpu.remap.pending), number(gpu.remap.failed), number(gpu.remap.uncorrectable)) == (1, 1, 4)
    assert gpu.clocks.reasons == ("software power cap", "hardware slowdown", "hardware power brake")
    held = {name: number(seconds) for name, seconds in gpu.clocks.held}
    assert held == {"software power cap": 2.5, "hardware power brake": 4e-05}
    assert (number(gpu.power), number(gpu.power_limits.average)) == (655.31, 640.12)
    assert (number(gpu.heat.margin), number(gpu.heat.memory)) == (-1, 78)
    assert (gpu.fabric.state, gpu.fabric.status, dict(gpu.fabric.health)["bandwidth"]) == (
        "Completed",
        "Success",
        "Full",
    )
    assert not isinstance(gpu.processes, Absent)
    assert [(each.pid, each.name, each.draws_only) for each in gpu.processes] == [
        (41207, "python train.py --a & --b", False),
        (2201, "Xorg", True),
    ]
    assert number(gpu.processes[0].memory) == 70196 * MIB
    assert isinstance(gpu.processes[1].memory, Absent)
    assert number(gpu.pcie.replays) == 150


def test_a_lost_gpu_and_an_unknown_action_are_never_good() -> None:
    gpu = gpus(nvidia_smi.read(DATA / "h100_reset_v13.xml"))[1]

    assert gpu.answers is False
    assert absent(gpu.temperature).kind is AbsenceKind.DEVICE_LOST
    assert absent(gpu.heat.memory).kind is AbsenceKind.UNREADABLE
    assert "'Undock the Flux'" in absent(gpu.recovery.action).reason
    assert absent(gpu.ecc.aggregate.dram_uncorrected).kind is AbsenceKind.NOT_SUPPORTED


def test_oldest_xml_tells_errors_by_bits_and_place() -> None:
    gpu = gpus(nvidia_smi.read(DATA / "v100_old_v9.xml"))[0]

    volatile, aggregate = gpu.ecc.volatile, gpu.ecc.aggregate
    assert (number(gpu.ecc.corrected), number(gpu.ecc.uncorrected)) == (10, 1)
    assert (number(volatile.dram_corrected), number(volatile.sram_corrected)) == (7, 3)
    assert (number(volatile.dram_uncorrected), number(volatile.sram_uncorrected)) == (1, 0)
    assert (number(aggregate.dram_corrected), number(aggregate.sram_corrected)) == (70, 30)
    assert absent(aggregate.dram_uncorrected).kind is AbsenceKind.NOT_SUPPORTED
    assert (number(gpu.retired.single_bit), number(gpu.retired.double_bit), gpu.retired.pending) == (2, 1, True)
    assert gpu.clocks.reasons == ("software thermal slowdown", "unknown")
    assert (number(gpu.pcie.width), number(gpu.pcie.width_maximum)) == (8, 16)
    assert (number(gpu.power), number(gpu.power_limits.limit), number(gpu.heat.slowdown)) == (201.55, 250, 87)
    assert "not shown" in absent(gpu.processes).reason


def test_text_with_an_instance_keeps_it_apart_from_the_gpu() -> None:
    machine = nvidia_smi.read(DATA / "a30_mig_and_l4.txt")

    gpu, other = gpus(machine)
    assert not machine.partial
    assert not isinstance(gpu.mig.instances, Absent)
    (instance,) = gpu.mig.instances
    assert (instance.gpu_instance, number(instance.multiprocessors), number(instance.sram_uncorrected)) == (3, 14, 2)
    assert (number(instance.memory.total), number(gpu.memory.total)) == (5952 * MIB, 24576 * MIB)
    assert (gpu.mig.enabled, gpu.mig.pending) == (True, False)
    assert number(gpu.ecc.aggregate.sram_secded) == 6
    assert "MIG" in absent(gpu.ecc.volatile.sram_secded).reason
    assert gpu.ecc.unrepairable_memory is True
    assert gpu.recovery.action is RecoveryAction.REBOOT
    assert gpu.clocks.reasons == ("hardware slowdown", "hardware thermal slowdown")
    assert [(name, number(seconds)) for name, seconds in gpu.clocks.held][1] == ("hardware thermal slowdown", 3.0)
    assert (number(gpu.heat.margin), number(gpu.heat.shutdown_margin), number(gpu.power)) == (12, -5, 88.2)
    pcie = gpu.pcie
    facts = (pcie.generation, pcie.generation_device, pcie.generation_host, pcie.width, pcie.replays)
    assert [number(each) for each in facts] == [1, 4, 4, 8, 3]
    assert not isinstance(gpu.processes, Absent)
    assert [(each.pid, each.name, number(each.gpu_instance)) for each in gpu.processes] == [
        (501, "python: a.py", 3),
        (502, "server", 3),
    ]
    assert (other.name, other.processes, other.pci) == ("NVIDIA L4", (), "0000:5e:00.0")
    assert absent(other.temperature).kind is AbsenceKind.UNREADABLE


def test_table_with_processes_errors_and_a_warning() -> None:
    machine = nvidia_smi.read(DATA / "table_processes_inforom.txt")

    first, second = gpus(machine)
    assert machine.taken == "Tue Mar  3 08:15:00 2026"
    assert (number(first.ecc.uncorrected), first.ecc.enabled, second.ecc.enabled) == (3, True, False)
    assert first.compute_mode == "E. Process"
    assert not isinstance(first.processes, Absent)
    assert [(each.pid, each.name, each.draws_only) for each in first.processes] == [
        (9312, "python big model.py", False),
        (1204, "/usr/lib/xorg/Xorg", True),
    ]
    assert second.processes == ()
    assert second.inforom.corrupted is True and isinstance(first.inforom.corrupted, Absent)
    for unreadable in (second.temperature, second.power, second.memory.used, second.busy):
        assert absent(unreadable).kind is AbsenceKind.UNREADABLE
    assert (first.mig.enabled, second.mig.enabled) == (False, True)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("N/A", AbsenceKind.NOT_SUPPORTED),
        ("[N/A]", AbsenceKind.NOT_SUPPORTED),
        ("[Not Supported]", AbsenceKind.NOT_SUPPORTED),
        ("Requested functionality has been deprecated", AbsenceKind.NOT_SUPPORTED),
        ("[Unknown Error]", AbsenceKind.UNREADABLE),
        ("ERR!", AbsenceKind.UNREADABLE),
        ("[Insufficient Permissions]", AbsenceKind.NO_PERMISSION),
        ("[GPU is lost]", AbsenceKind.DEVICE_LOST),
        ("[GPU requires reset]", AbsenceKind.DEVICE_LOST),
        ("[Function Not Found]", AbsenceKind.MISSING_SYMBOL),
        ("", AbsenceKind.UNREADABLE),
        ("plenty", AbsenceKind.UNREADABLE),
        ("-3", AbsenceKind.UNREADABLE),
        ("2.5", AbsenceKind.UNREADABLE),
        ("3 apples", AbsenceKind.UNREADABLE),
        ("9" * 40, AbsenceKind.UNREADABLE),
    ],
)
def test_what_stands_in_place_of_a_count_is_absent_and_never_zero(said: str, kind: AbsenceKind) -> None:
    text = f"index, ecc.errors.uncorrected.volatile.total\n0, {said}\n"

    (gpu,) = gpus(nvidia_smi.parse(text))

    assert absent(gpu.ecc.uncorrected).kind is kind


def test_csv_with_head_tells_gpus_by_index_and_samples_by_return() -> None:
    head = (
        "timestamp, index, remapped_rows.pending, remapped_rows.failure, clocks_event_reasons.active, power.draw [W]\n"
    )
    rows = [
        f"2026/01/01 10:00:0{second}.000, {gpu}, 1, No, 0x0000000000000044, 5{second}.5 W"
        for second in range(2)
        for gpu in range(2)
    ]

    samples = nvidia_smi.parse_samples(head + "\n".join(rows))
    last = gpus(nvidia_smi.parse(head + "\n".join(rows)))

    assert [len(gpus(sample)) for sample in samples] == [2, 2]
    assert [number(gpu.index) for gpu in last] == [0, 1]
    assert [number(gpu.power) for gpu in last] == [51.5, 51.5]
    assert (number(last[0].remap.pending), number(last[0].remap.failed)) == (1, 0)
    assert last[0].clocks.reasons == ("software power cap", "hardware thermal slowdown")


def test_csv_that_is_cut_says_so() -> None:
    machine = nvidia_smi.parse("index, uuid, memory.used [MiB]\n0, GPU-1, 5 MiB\n1, GP")

    assert "cut off" in machine.partial
    assert len(gpus(machine)) == 1


def test_processes_of_csv_go_to_their_gpu() -> None:
    text = (
        "$ nvidia-smi --query-gpu=uuid,index --format=csv\nuuid, index\nGPU-1, 0\nGPU-2, 1\n"
        "$ nvidia-smi --query-compute-apps=gpu_uuid,pid,used_gpu_memory --format=csv\n"
        "gpu_uuid, pid, used_gpu_memory [MiB]\nGPU-2, 77, 12 MiB\nGPU-2, 78, 13 MiB\n"
    )

    first, second = gpus(nvidia_smi.parse(text))

    assert isinstance(first.processes, Absent)
    assert not isinstance(second.processes, Absent)
    assert [(each.pid, number(each.memory)) for each in second.processes] == [(77, 12 * MIB), (78, 13 * MIB)]


@pytest.mark.parametrize("word", ["<inactive>", "inactive", "inActive", "Inactive"])
def test_a_link_that_is_down_is_known_in_every_spelling(word: str) -> None:
    text = f"GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: {word}\n\t Link 1: 26.562 GB/s\n"

    (gpu,) = gpus(nvidia_smi.parse(text))

    assert gpu.nvlink.active == Quantity(1, Unit.COUNT)


def test_counters_of_nvlink5_keep_their_names() -> None:
    text = (
        "GPU 0: NVIDIA B300 SXM6 AC (UUID: GPU-1)\n"
        "\t Link 0: Malformed packet Errors: 0\n\t Link 0: Link recovery failed events: 2\n\t Link 0: Rx Errors: N/A\n"
        "\t Link 0: Remote Device 00000000:0A:00.0: Link 3\n"
    )

    (gpu,) = gpus(nvidia_smi.parse(text))

    assert not isinstance(gpu.nvlink.links, Absent)
    (link,) = gpu.nvlink.links
    errors = dict(link.errors)
    assert (number(errors["malformed packet errors"]), number(errors["link recovery failed events"])) == (0, 2)
    assert absent(errors["rx errors"]).kind is AbsenceKind.NOT_SUPPORTED
    assert link.remote == "0000:0a:00.0"
    assert isinstance(gpu.nvlink.active, Absent)


def test_topology_of_a_terminal_with_network_cards() -> None:
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A\nNIC0\tPIX\tSYS\t X \n\nLegend:\n"
    )

    machine = nvidia_smi.parse(text)

    assert not isinstance(machine.pairs, Absent)
    assert [(pair.first, pair.second, pair.connection) for pair in machine.pairs] == [(0, 1, "NV18")]
    assert [number(gpu.numa) for gpu in gpus(machine)] == [0, 1]


@pytest.mark.parametrize(
    ("line", "pci", "index"),
    [
        ("Unable to determine the device handle for GPU 0000:01:00.0: Not Found", "0000:01:00.0", None),
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", "0000:5f:00.0", 3),
        ("Unable to determine the device handle for GPU2: Unknown Error", None, 2),
        (
            "Unable to determine the device handle for gpu 0000:0A:00.0: GPU is lost.  Reboot the system",
            "0000:0a:00.0",
            None,
        ),
    ],
)
def test_a_gpu_without_a_handle_is_named(line: str, pci: str | None, index: int | None) -> None:
    (gpu,) = gpus(nvidia_smi.parse(line + "\n"))

    assert gpu.answers is False
    assert gpu.pci == pci if pci else isinstance(gpu.pci, Absent)
    assert gpu.index == Quantity(index, Unit.COUNT) if index is not None else isinstance(gpu.index, Absent)


def test_a_listing_beside_a_lost_gpu_keeps_both() -> None:
    text = (
        "Unable to determine the device handle for GPU1: 0000:04:00.0: Unknown Error\n"
        "index, pci.bus_id, temperature.gpu\n0, 00000000:01:00.0, 40\n2, 00000000:05:00.0, 41\n"
    )

    found = gpus(nvidia_smi.parse(text))

    assert sorted((number(gpu.index), gpu.answers is False) for gpu in found) == [(0, False), (1, True), (2, False)]


@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Unknown Error",
        "Failed to initialize NVML: Insufficient Permissions",
    ],
)
def test_a_failure_of_nvml_makes_everything_unknown_with_its_words(line: str) -> None:
    machine = nvidia_smi.parse(line)

    assert machine.nvml_failure == line
    assert line in absent(machine.gpus).reason


def test_no_devices_is_a_count_of_zero() -> None:
    machine = nvidia_smi.parse("No devices were found\n")

    assert (machine.gpus, machine.attached) == ((), Quantity(0, Unit.COUNT))


def test_two_outputs_of_one_machine_are_one_picture_and_a_clipped_name_yields() -> None:
    table = (
        (DATA / "table_processes_inforom.txt").read_text(encoding="utf-8").replace("A100-SXM4-80GB ", "A100-SXM4-...  ")
    )
    text = (
        table
        + "\n$ nvidia-smi --query-gpu=index,name,uuid --format=csv\n"
        + "index, name, uuid\n0, NVIDIA A100-SXM4-80GB, GPU-1\n"
    )

    found = gpus(nvidia_smi.parse(text))

    (whole,) = [gpu for gpu in found if gpu.uuid == "GPU-1"]
    assert (whole.name, number(whole.ecc.uncorrected)) == ("NVIDIA A100-SXM4-80GB", 3)
    assert len(found) == 2
