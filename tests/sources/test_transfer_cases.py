"""Saved results of tools that measure links and latency: each gives the facts that its conclusion rests on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from mats.facts import (
    ClaimStatus,
    CurveFacts,
    End,
    Engine,
    Figure,
    GpuFacts,
    MachineFacts,
    PairFacts,
    Place,
    TransferFacts,
    TransferRun,
    Ways,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.probe import UsageError
from mats.sources.saved import open_links, open_source

from . import saved

GB = 10**9
RATE, SECOND = Unit.BYTE_PER_SECOND, Unit.SECOND
HOST = End(Place.HOST)


def machine(name: str) -> MachineFacts:
    return open_links((saved.path(f"links/{name}"),)).read()


def only(name: str) -> TransferRun:
    (run,) = machine(name).transfers
    assert run.origin.startswith(str(saved.path(f"links/{name}")))
    assert run.cut == ""
    return run


def gpu(number: int) -> End:
    return End(Place.GPU, number)


def value(reading: Reading, unit: Unit) -> float:
    assert isinstance(reading, Quantity) and reading.unit is unit, reading
    return reading.value


def rates(found: Iterable[TransferFacts]) -> list[float]:
    return [value(each.reading, RATE) / GB for each in found]


def of(run: TransferRun, test: str) -> list[TransferFacts]:
    return [each for each in run.transfers if each.test == test]


def at(curve: CurveFacts, size: int) -> float:
    """The reading of the largest size that is not above ``size``."""
    known = {value(where, Unit.BYTE): value(reading, curve.unit) for where, reading in curve.points}
    return known[max(each for each in known if each <= size)]


def curve(run: TransferRun, test: str, quantity: str) -> CurveFacts:
    (found,) = [each for each in run.curves if (each.test, each.quantity) == (test, quantity)]
    return found


def test_nvbandwidth_06_tells_rates_beyond_pcie_a_delay_in_ns_and_what_was_waived() -> None:
    run = only("nvbandwidth_v0.6_gh200.txt")

    assert (run.version, run.gpus[0].name, run.gpus[0].pci) == ("0.6", "NVIDIA GH200 480GB", "0009:01:00.0")
    to_gpu = of(run, "host_to_device_memcpy_ce")
    assert rates(to_gpu) == [369.36, 269.33, 412.11, 323.36, 299.33, 312.11]
    assert [each.start.label for each in to_gpu] == ["host node 0"] * 3 + ["host node 1"] * 3
    assert [each.end for each in to_gpu[:3]] == [gpu(0), gpu(1), gpu(2)]
    back = of(run, "device_to_host_memcpy_ce")
    assert (rates(back), back[1].start, back[1].end) == ([295.15, 312.11], gpu(1), HOST)
    (load,) = of(run, "host_device_latency_sm")
    assert load.figure is Figure.LOAD_LATENCY and value(load.reading, SECOND) == 772.58e-9
    assert (load.start, load.end) == (gpu(0), HOST)
    assert len(run.waived) == 17 and all(isinstance(each.test, Absent) for each in run.waived)
    assert run.errors == () and run.mismatches == ()


def test_nvbandwidth_06_says_what_else_moved_while_it_measured() -> None:
    run = only("nvbandwidth_v0.6_gh200.txt")

    ways = {test: {each.ways for each in of(run, test)} for test in {each.test for each in run.transfers}}
    assert ways["host_to_device_memcpy_ce"] == {Ways.ONE}
    assert ways["host_to_device_bidirectional_memcpy_ce"] == {Ways.ONE_OF_TWO}
    assert ways["host_to_all_memcpy_ce"] == {Ways.SHARED}
    assert ways["all_to_host_bidirectional_memcpy_sm"] == {Ways.SHARED_BOTH}
    (kernels,) = of(run, "device_to_host_memcpy_sm")
    assert kernels.engine is Engine.KERNELS and rates([kernels]) == [351.93]


def test_nvbandwidth_json_tells_a_healthy_link_to_the_host_and_its_waived_tests_are_no_failures() -> None:
    run = only("nvbandwidth_gen3.json")

    assert rates(of(run, "host_to_device_memcpy_ce")) == [12.3964]
    assert rates(of(run, "device_to_host_memcpy_ce")) == [13.2001]
    (load,) = of(run, "host_device_latency_sm")
    assert load.figure is Figure.LOAD_LATENCY and value(load.reading, SECOND) == 649.879e-9
    waived = [each.test for each in run.waived]
    assert "device_to_device_memcpy_read_ce" in waived and "device_to_device_latency_sm" in waived
    assert not any(of(run, test) for test in waived if isinstance(test, str))
    assert run.errors == () and run.mismatches == () and run.notes == ()


def test_nvbandwidth_010_tells_delays_of_loads_and_rates_of_every_pair() -> None:
    run = only("nvbandwidth_v0.10_h100x4.txt")

    assert run.version == "0.10.0"
    loads = of(run, "device_to_device_latency_sm")
    assert len(loads) == 12 and all(each.figure is Figure.LOAD_LATENCY for each in loads)
    delays = [value(each.reading, SECOND) for each in loads]
    assert (min(delays), max(delays)) == (807.83e-9, 816.05e-9)
    reads = of(run, "device_to_device_memcpy_read_ce")
    assert len(reads) == 12 and min(rates(reads)) >= 391.72 and max(rates(reads)) <= 392.22
    assert {each.engine for each in reads} == {Engine.COPY_ENGINE} and {each.access for each in reads} == {True}
    assert rates(of(run, "host_to_device_memcpy_ce")) == [55.01, 55.07, 55.01, 55.09]
    assert len(run.peers) == 12 and all(each.access for each in run.peers)


def test_a_read_moves_its_data_from_the_column_to_the_row_whatever_the_arrow_of_its_title_says() -> None:
    reads = of(only("nvbandwidth_v0.10_h100x4.txt"), "device_to_device_memcpy_read_ce")

    (read,) = [each for each in reads if (each.start, each.end) == (gpu(3), gpu(0))]
    assert rates([read]) == [391.79] and read.operation == "read"


def test_nvbandwidth_that_stops_at_wrong_data_tells_the_test_and_the_place_and_no_figure() -> None:
    facts = machine("nvbandwidth_v0.7_pattern_mismatch.txt")

    (run,) = facts.transfers
    (wrong,) = run.mismatches
    assert (wrong.test, wrong.address) == ("device_to_device_memcpy_write_ce", "0x7c20c4000000")
    assert value(wrong.offset, Unit.BYTE) == 40960 * 4
    assert run.transfers == () and run.errors == ()
    assert [each.pci for each in run.gpus] == ["0000:07:00.0", "0000:0b:00.0", "0000:48:00.0", "0000:4c:00.0"]


@pytest.mark.parametrize(
    ("name", "driver", "cuda"),
    [
        ("nvbandwidth_v0.6_gh200.txt", "550.54.15", "12.4"),
        ("nvbandwidth_v0.10_h100x4.txt", "590.44.01", "13.1"),
        ("nvbandwidth_gen3.json", "565.02", "12.7"),
    ],
)
def test_versions_of_driver_and_cuda_are_told_in_the_form_of_each_version(name: str, driver: str, cuda: str) -> None:
    facts = machine(name)

    assert (facts.driver, facts.cuda) == (driver, cuda)


def test_wrong_data_are_a_failure_for_health_too() -> None:
    facts = open_source((saved.path("links/nvbandwidth_v0.7_pattern_mismatch.txt"),)).read()

    (claim,) = facts.claims
    assert (claim.tool, claim.status) == ("nvbandwidth", ClaimStatus.FAIL)
    assert "0x7c20c4000000" in claim.text
    assert any("nvlink-test" in note for note in facts.notes)


def test_nccl_tests_of_the_old_layout_tell_each_size_and_that_nothing_was_checked() -> None:
    run = only("all_reduce_a100x8_old.txt")

    assert value(run.ranks, Unit.COUNT) == 8 and len(run.collectives) == 2 * 34
    largest = [each for each in run.collectives if each.size == Quantity(8589934592, Unit.BYTE)]
    assert [value(each.bus, RATE) / GB for each in largest] == [235.26, 235.03]
    assert [each.in_place for each in largest] == [False, True]
    assert [value(each.time, SECOND) for each in largest] == [63896e-6, 63959e-6]
    assert all(isinstance(each.wrong, Absent) for each in run.collectives)


def test_the_average_over_all_sizes_of_nccl_tests_is_nowhere() -> None:
    for name, average in (("all_reduce_a100x8_old.txt", 68.4048), ("all_reduce_nv4_pair.txt", 46.88)):
        run = only(name)

        assert average * GB not in {value(each.bus, RATE) for each in run.collectives}
        assert not any("68.4" in text or "46.88" in text for text in (*run.notes, *run.errors))


def test_nccl_tests_of_the_newer_layout_count_wrong_values() -> None:
    run = only("all_reduce_nv4_pair.txt")

    last = run.collectives[-2]
    assert (last.name, last.operation, last.data_type) == ("all_reduce", "sum", "float")
    assert value(last.bus, RATE) / GB == 47.03
    assert all(each.wrong == Quantity(0, Unit.COUNT) for each in run.collectives)
    assert isinstance(run.ranks, Absent) and run.mismatches == ()


def test_gpu_copy_tells_the_engine_from_the_link() -> None:
    run = only("gpu_copy_a100x2.txt")

    (kernels,) = of(run, "gpu0_to_cpu_by_sm_under_numa0")
    (engine,) = of(run, "gpu0_to_cpu_by_dma_under_numa0")
    assert (rates([kernels]), rates([engine])) == ([5.67346], [25.8516])
    assert (kernels.engine, engine.engine) == (Engine.KERNELS, Engine.COPY_ENGINE)
    assert (kernels.start, kernels.end) == (engine.start, engine.end) == (gpu(0), HOST)
    assert [value(each.near, Unit.COUNT) for each in (kernels, engine)] == [0, 0]
    pair = [each for each in run.transfers if (each.start, each.end, each.ways) == (gpu(0), gpu(1), Ways.ONE)]
    assert sorted(rates(pair)) == [258.397, 261.856, 275.854, 279.287]
    assert {each.access for each in pair} == {True}


def test_gpu_copy_both_ways_is_the_sum_and_its_own_memory_is_no_link() -> None:
    run = only("gpu_copy_a100x2.txt")

    (both,) = of(run, "gpu0_and_gpu1_write_by_dma")
    (own,) = of(run, "gpu0_to_gpu0_by_dma")
    assert both.ways is Ways.SUM and rates([both]) == [531.244]
    assert own.own_memory and isinstance(own.access, Absent)
    (all_to_one,) = of(run, "gpu_all_to_gpu1_write_by_sm")
    assert (all_to_one.start.place, all_to_one.end) == (Place.ALL_GPUS, gpu(1))


def test_bandwidth_test_tells_the_rate_of_large_sizes_and_the_curve_of_all() -> None:
    run = only("bandwidthTest_shmoo_v100.txt")

    (large,) = run.transfers
    assert (rates([large]), large.size) == ([12.4], Quantity(68_000_000, Unit.BYTE))
    assert (large.start, large.end, large.pinned) == (HOST, gpu(0), True)
    (by_size,) = run.curves
    assert len(by_size.points) == 81 and by_size.over == "transfer"
    assert (by_size.points[0][0], at(by_size, 1000) / GB) == (Quantity(1000, Unit.BYTE), 0.4)


def test_a_pair_without_access_went_through_the_host_also_where_the_table_says_enabled() -> None:
    run = only("p2p_4090x4_no_p2p.txt")

    assert len(run.peers) == 12 and not any(each.access for each in run.peers)
    enabled = of(run, "Unidirectional P2P=Enabled Bandwidth (P2P Writes)")
    between = [each for each in enabled if not each.own_memory]
    assert {each.access for each in between} == {False}
    assert (min(rates(between)), max(rates(between))) == (18.01, 20.28)
    delays = [each for each in of(run, "P2P=Enabled Latency (P2P Writes)") if not each.own_memory]
    assert {each.access for each in delays} == {False} and {each.figure for each in delays} == {Figure.COPY_LATENCY}
    assert (min(value(each.reading, SECOND) for each in delays)) == 12.26e-6


def test_the_diagonal_of_a_matrix_is_a_gpus_own_memory() -> None:
    run = only("p2p_4090x4_no_p2p.txt")

    own = [each for each in run.transfers if each.own_memory]
    assert len(own) == 3 * 4 and all(isinstance(each.access, Absent) for each in own)
    assert min(rates(each for each in own if each.figure is Figure.BANDWIDTH)) == 908.35


def test_peer_access_over_pcie_with_the_delays_of_gpu_and_processor_kept_apart() -> None:
    run = only("p2p_l40s_x2_pcie4.txt")

    assert [(each.number, each.name, each.pci) for each in run.gpus] == [
        (0, "NVIDIA L40S", "0000:41:00.0"),
        (1, "NVIDIA L40S", "0000:42:00.0"),
    ]
    assert [each.access for each in run.peers] == [True, True]
    forth = [each for each in run.transfers if (each.start, each.end) == (gpu(0), gpu(1))]
    told = {(each.figure, each.ways, each.access): each for each in forth}
    assert rates([told[Figure.BANDWIDTH, Ways.ONE, True]]) == [25.71]
    assert rates([told[Figure.BANDWIDTH, Ways.ONE, False]]) == [20.84]
    assert rates([told[Figure.BANDWIDTH, Ways.SUM, True]]) == [50.66]
    assert value(told[Figure.COPY_LATENCY, Ways.ONE, True].reading, SECOND) == 1.20e-6
    assert value(told[Figure.COPY_ISSUE, Ways.ONE, True].reading, SECOND) == 1.47e-6
    assert value(told[Figure.COPY_LATENCY, Ways.ONE, False].reading, SECOND) == 11.36e-6


def test_a_sweep_in_cycles_has_two_levels_and_takes_the_bytes() -> None:
    (by_size,) = only("latency_sweep_a100sxm.dat").curves

    assert by_size.unit is Unit.COUNT and isinstance(by_size.clock, Absent)
    assert at(by_size, 17 << 20) == pytest.approx(210, rel=0.02)
    beyond = [value(reading, Unit.COUNT) for size, reading in by_size.points if value(size, Unit.BYTE) > 80 << 20]
    assert max(beyond) / min(beyond) < 1.01 and at(by_size, 1 << 31) == 550.46


def test_gpu_latency_has_three_levels_in_cycles_and_in_time() -> None:
    run = only("gpu_latency_v100.txt")

    cycles, time = curve(run, "gpu-latency", "latency in cycles"), curve(run, "gpu-latency", "latency")
    assert [round(at(cycles, kib << 10)) for kib in (64, 118)] == [30, 30]
    assert at(cycles, 5_800 << 10) == pytest.approx(215, rel=0.05)
    assert 420 <= at(cycles, 40_000 << 10) <= 437 and at(cycles, 1 << 31) == 437.0
    assert value(time.clock, Unit.HERTZ) == 1380e6
    assert at(time, 1 << 31) * 1380e6 == pytest.approx(437.0, rel=0.001)


def test_a_set_in_json_tells_latency_by_the_way_to_load_and_null_is_absent() -> None:
    run = only("memtest_latency_rtx3090.json")

    assert run.gpus[0].name == "NVIDIA GeForce RTX 3090"
    for hint in ("ca", "cg", "cs"):
        beyond = curve(run, f"LAT_WARM {hint}_ns", "latency")
        assert all(
            263e-9 < value(reading, SECOND) < 270.5e-9
            for size, reading in beyond.points
            if value(size, Unit.BYTE) >= 8 << 20
        )
    first = curve(run, "LAT_WARM cn_ns", "latency").points[0][1]
    assert isinstance(first, Absent) and first.kind is AbsenceKind.NOT_TESTED
    many = curve(run, "CONC_BLOCK ns_per_hop", "latency")
    assert many.over == "blocks" and many.points[0][0] == Quantity(1, Unit.COUNT)
    delays = [value(reading, SECOND) for _, reading in many.points]
    assert max(delays) / min(delays) < 1.04


def test_links_that_nvidia_smi_lists_are_up_or_down_and_have_their_raw_speed() -> None:
    (hopper,) = _gpus(machine("nvlink_e_and_s_h100.txt"))
    (volta,) = _gpus(machine("nvlink_s_v100_two_inactive.txt"))
    (ampere,) = _gpus(machine("nvlink_s_a100_all_inactive.txt"))

    assert hopper.nvlink.active == Quantity(18, Unit.COUNT) and isinstance(hopper.nvlink.links, tuple)
    assert {value(link.speed, RATE) / GB for link in hopper.nvlink.links} == {26.562}
    crc = {link.link: dict(link.errors)["crc errors"] for link in hopper.nvlink.links}
    assert {number: value(count, Unit.COUNT) for number, count in crc.items() if value(count, Unit.COUNT)} == {9: 3}
    assert volta.nvlink.active == Quantity(4, Unit.COUNT) and isinstance(volta.nvlink.links, tuple)
    assert [link.link for link in volta.nvlink.links if link.active is False] == [0, 4]
    assert ampere.nvlink.active == Quantity(0, Unit.COUNT)


def test_dcgm_tells_of_links_down_and_the_topology_of_which_pairs_have_any() -> None:
    down = _gpus(machine("dcgmi_nvlink_status.txt"))
    pairs = machine("topo_m_a40x4_nv4_pairs.txt").pairs

    assert [each.nvlink.active for each in down] == [Quantity(count, Unit.COUNT) for count in (12, 12, 0, 12)]
    assert isinstance(pairs, tuple)
    assert [each for each in pairs if each.connection != "SYS"] == [PairFacts(0, 1, "NV4"), PairFacts(2, 3, "NV4")]


def test_a_mix_of_results_and_state_is_one_picture() -> None:
    names = ("p2p_l40s_x2_pcie4.txt", "nvbandwidth_v0.10_h100x4.txt", "topo_m_a40x4_nv4_pairs.txt")

    facts = open_source([saved.path(f"links/{name}") for name in names]).read()

    assert [run.tool for run in facts.transfers] == ["p2pBandwidthLatencyTest", "nvbandwidth"]
    assert isinstance(facts.pairs, tuple) and isinstance(facts.gpus, tuple)
    assert len([note for note in facts.notes if "mats nvlink-test --from judges that" in note]) == 2


def test_a_file_is_called_by_the_name_that_it_was_given(tmp_path: Path) -> None:
    kept, empty = tmp_path / "kept", tmp_path / "empty"
    kept.write_text(saved.text("links/p2p_l40s_x2_pcie4.txt"))
    empty.write_text("nvbandwidth Version: v0.7\n")

    (run,) = open_links((kept,), ("standard input",)).read().transfers
    with pytest.raises(UsageError, match=r"^standard input: looks like nvbandwidth"):
        open_links((empty,), ("standard input",))

    assert run.origin == "standard input"


def test_the_title_of_files_of_results_counts_the_gpus_that_the_tool_lists() -> None:
    described = open_links((saved.path("links/p2p_l40s_x2_pcie4.txt"),)).describe()

    assert described.title == "2 x NVIDIA L40S, from 1 file"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nvbandwidth Version: v0.7\n\nRunning", "looks like nvbandwidth, but it holds no result of a test"),
        ('{"nvbandwidth": {"testcases": [', "looks like nvbandwidth, but it holds no result"),
        ("P2P Connectivity Matrix\n     D\\D     0\n", "looks like p2pBandwidthLatencyTest, but it holds no figure"),
        ("# nThread 1 nGpus 8\n", "looks like nccl-tests, but it holds no line of results"),
        ("[CUDA Bandwidth Test] - Starting...\n", "looks like bandwidthTest, but it holds no figure"),
        ("gpu0_to_cpu_by_sm\n", "looks like gpu_copy of superbench, but it holds no figure of a copy"),
        ("clock: 1380 1380 1380 1380 1380 1380\n", "looks like gpu-latency, but it holds no line of a working set"),
    ],
)
def test_what_is_recognised_and_holds_no_result_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "saved"
    path.write_text(text)

    with pytest.raises(UsageError) as refused:
        open_links((path,))

    assert says in str(refused.value) and "\n" not in str(refused.value)


def _gpus(facts: MachineFacts) -> tuple[GpuFacts, ...]:
    assert isinstance(facts.gpus, tuple)
    return facts.gpus
