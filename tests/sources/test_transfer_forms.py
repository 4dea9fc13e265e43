"""Layouts of the tools that measure links which no saved file shows: other versions, JSON, several runs, damage."""

from __future__ import annotations

import json

import pytest

from mats.facts import End, Place, TransferFacts, TransferRun, Ways
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources import evidence
from mats.sources._measured import MeasuredError
from mats.sources._recognise import Kind
from mats.sources.bandwidth_test import parse_bandwidth_test
from mats.sources.gpu_copy import parse_gpu_copy
from mats.sources.nccl_tests import parse_nccl_tests
from mats.sources.nvbandwidth import parse_nvbandwidth
from mats.sources.p2p_test import parse_p2p_test

from . import saved

GB = 10**9
HEAD = "nvbandwidth Version: v0.9\nBuilt from Git version: \n\n"


def one(runs: tuple[TransferRun, ...]) -> TransferRun:
    (run,) = runs
    return run


def rate(reading: Reading) -> float:
    assert isinstance(reading, Quantity) and reading.unit is Unit.BYTE_PER_SECOND, reading
    return reading.value / GB


def ways(found: tuple[TransferFacts, ...]) -> list[tuple[str, str, Ways, float]]:
    return [(each.start.label, each.end.label, each.ways, rate(each.reading)) for each in found]


def table(test: str, title: str, *rows: str, key: str = "") -> str:
    columns = "".join(f"{column:>10}" for column in range(len(rows[0].split())))
    body = "\n".join(f" {at}" + "".join(f"{cell:>10}" for cell in row.split()) for at, row in enumerate(rows))
    return f"{title}\n  {columns}\n{body}\n\nSUM {key or test} 1.00\n\n"


def test_a_bidirectional_test_of_nvbandwidth_tells_each_way_and_their_sum() -> None:
    test = "device_to_device_bidirectional_memcpy_read_ce"
    title = "memcpy CE GPU(row) <-> GPU(column) {} bandwidth (GB/s)"
    text = HEAD + f"Running {test}.\n"
    for part, rows in (("Read1", ("N/A 1.00", "2.00 N/A")), ("Read2", ("N/A 3.00", "4.00 N/A"))):
        text += table(test, title.format(part), *rows)
    text += table(test, title.format("Total"), "N/A 4.00", "6.00 N/A")

    run = one(parse_nvbandwidth(text).transfers)

    assert ways(run.transfers) == [
        ("1", "0", Ways.ONE_OF_TWO, 1.0),
        ("0", "1", Ways.ONE_OF_TWO, 2.0),
        ("0", "1", Ways.ONE_OF_TWO, 3.0),
        ("1", "0", Ways.ONE_OF_TWO, 4.0),
        ("0", "1", Ways.SUM, 4.0),
        ("1", "0", Ways.SUM, 6.0),
    ]
    assert run.peers == ()


def test_the_three_tables_of_a_bidirectional_test_stand_in_one_matrix_of_json() -> None:
    case = {
        "name": "device_to_device_bidirectional_memcpy_write_sm",
        "status": "Passed",
        "bandwidth_description": "memcpy SM GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
        "bandwidth_matrix": [["N/A", "1"], ["2", "N/A"], ["N/A", "3"], ["4", "N/A"], ["N/A", "4"], ["6", "N/A"]],
    }

    run = one(parse_nvbandwidth(json.dumps({"nvbandwidth": {"testcases": [case]}})).transfers)

    assert [(each.ways, rate(each.reading)) for each in run.transfers] == [
        (Ways.ONE_OF_TWO, 1.0),
        (Ways.ONE_OF_TWO, 2.0),
        (Ways.ONE_OF_TWO, 3.0),
        (Ways.ONE_OF_TWO, 4.0),
        (Ways.SUM, 4.0),
        (Ways.SUM, 6.0),
    ]


@pytest.mark.parametrize("left_out", ["N/A", "0.00"])
def test_a_pair_that_nvbandwidth_leaves_out_has_no_access_and_no_rate_of_0(left_out: str) -> None:
    test = "device_to_device_memcpy_write_ce"
    title = "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)"
    text = (
        HEAD
        + f"Running {test}.\n"
        + table(
            test, title, *(row.replace("N/A", left_out) for row in ("N/A 20.00 N/A", "21.00 N/A N/A", "N/A N/A N/A"))
        )
    )

    run = one(parse_nvbandwidth(text).transfers)

    known = {(each.start.label, each.end.label): each.reading for each in run.transfers}
    assert rate(known["0", "1"]) == 20.0 and rate(known["1", "0"]) == 21.0
    gone = known["0", "2"]
    assert isinstance(gone, Absent) and gone.kind is AbsenceKind.NOT_SUPPORTED
    assert run.peer(0, 1) is not None and {(each.start, each.end) for each in run.peers if not each.access} == {
        (0, 2),
        (1, 2),
        (2, 0),
        (2, 1),
    }


def test_waived_tests_of_nvbandwidth_are_kept_with_their_name_where_it_stands_there() -> None:
    text = HEAD + "Waived: \nWaived: device_to_device_memcpy_read_ce\nWaived: no peers\n"

    run = one(parse_nvbandwidth(text).transfers)

    assert [each.test for each in run.waived if isinstance(each.test, str)] == ["device_to_device_memcpy_read_ce"]
    assert [each.reason for each in run.waived if isinstance(each.reason, str)] == ["no peers"]


@pytest.mark.parametrize("holder", ["root", "tool", "test", "before"])
def test_wrong_data_are_found_wherever_nvbandwidth_writes_them_beside_its_json(holder: str) -> None:
    message = " Invalid value when checking the pattern at <0x7f00>  Current offset [ 4096/67108864]"
    case: dict[str, object] = {"name": "device_to_device_memcpy_read_ce", "status": "Running"}
    tool: dict[str, object] = {"testcases": [case]}
    root: dict[str, object] = {"nvbandwidth": tool}
    place = {"root": root, "tool": tool, "test": case}.get(holder)
    if place is not None:
        place["error"] = message
    text = (f"{message}\n" if holder == "before" else "") + json.dumps(root)

    facts = parse_nvbandwidth(text)

    (wrong,) = one(facts.transfers).mismatches
    assert (wrong.test, wrong.address) == ("device_to_device_memcpy_read_ce", "0x7f00")
    assert wrong.offset == Quantity(4096, Unit.BYTE)
    assert len(facts.claims) == 1


def test_the_minimum_0_of_json_with_pairs_left_out_is_no_figure() -> None:
    case = {
        "name": "device_to_device_memcpy_read_ce",
        "status": "Passed",
        "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [["N/A", "50.5"], ["50.4", "N/A"]],
        "min": 0.0,
        "average": 50.45,
    }

    run = one(parse_nvbandwidth(json.dumps({"nvbandwidth": {"testcases": [case]}})).transfers)

    assert [rate(each.reading) for each in run.transfers] == [50.5, 50.4]


def test_an_error_of_nvbandwidth_that_is_not_of_data_is_kept_in_its_words() -> None:
    line = "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression cuMemAlloc(&buffer, size) in memcpy.cpp:41"

    run = one(parse_nvbandwidth(HEAD + "Running host_to_device_memcpy_ce.\n" + line + "\n").transfers)

    assert run.errors == (f"host_to_device_memcpy_ce: {line}",) and run.mismatches == ()


def test_a_test_of_nvbandwidth_that_failed_says_so_though_it_has_figures() -> None:
    case = {
        "name": "host_to_device_memcpy_ce",
        "status": "Error",
        "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [["55.0"]],
    }

    run = one(parse_nvbandwidth(json.dumps({"nvbandwidth": {"testcases": [case]}})).transfers)

    assert [rate(each.reading) for each in run.transfers] == [55.0]
    assert run.errors == ("host_to_device_memcpy_ce: error",)


def test_two_runs_in_one_text_are_kept_apart() -> None:
    text = saved.text("links/nvbandwidth_v0.10_h100x4.txt") + saved.text("links/nvbandwidth_v0.7_pattern_mismatch.txt")

    runs = parse_nvbandwidth(text).transfers

    assert [run.version for run in runs] == ["0.10.0", "0.7"]
    assert [bool(run.mismatches) for run in runs] == [False, True]


def test_a_cut_test_is_said_to_be_cut_and_one_that_was_not_reached_is_not_known() -> None:
    whole = saved.text("links/nvbandwidth_v0.10_h100x4.txt")

    within = parse_nvbandwidth(whole[: whole.index(" 2    812.08")])
    before = parse_nvbandwidth(whole[: whole.index("memcpy CE CPU(row) <- GPU")])

    assert within.partial == "it ends within the table of device_to_device_latency_sm"
    assert before.partial == "it ends before the figures of device_to_host_memcpy_ce"


def test_without_its_connectivity_matrix_the_p2p_test_does_not_say_what_went_directly() -> None:
    whole = saved.text("links/p2p_l40s_x2_pcie4.txt")
    text = whole[whole.index("Unidirectional P2P=Disabled") :]

    run = one(parse_p2p_test(text).transfers)

    access = {each.access for each in run.transfers if "Enabled" in each.test and not each.own_memory}
    assert len(access) == 1 and isinstance(access.pop(), Absent)
    assert {each.access for each in run.transfers if "Disabled" in each.test and not each.own_memory} == {False}
    assert any("connectivity matrix is missing" in note for note in run.notes)


def test_a_read_of_the_p2p_test_goes_from_the_column_to_the_row() -> None:
    text = "P2P Connectivity Matrix\n     D\\D     0     1\n     0\t     1     1\n     1\t     1     1\n" + (
        "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)\n"
        "   D\\D     0      1 \n     0 900.00  25.00 \n     1  26.00 901.00 \n"
    )

    run = one(parse_p2p_test(text).transfers)

    known = {(each.start.label, each.end.label): rate(each.reading) for each in run.transfers}
    assert known["1", "0"] == 25.0 and known["0", "1"] == 26.0
    assert {each.operation for each in run.transfers} == {"read"}


NCCL = """# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: {name}_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on one device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6733 on {other} device  0 [0000:05:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    35.20    0.00    0.00      0    34.05    0.00    0.00    N/A
          16             4     float     sum      -1  1.2e+06   10.00   17.50      3    34.05    0.00    0.00    N/A
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 8.75
#
"""


def test_nccl_tests_count_wrong_values_and_name_their_gpus() -> None:
    facts = parse_nccl_tests(NCCL.format(name="all_gather", other="one"))

    run = one(facts.transfers)
    assert (run.version, run.ranks) == ("2.17.6", Quantity(2, Unit.COUNT))
    assert [each.pci for each in run.gpus] == ["0000:04:00.0", "0000:05:00.0"]
    assert [each.name for each in run.collectives] == ["all_gather"] * 4
    (wrong,) = run.mismatches
    assert (wrong.test, wrong.count) == ("all_gather", Quantity(3, Unit.COUNT))
    assert run.collectives[2].time == Quantity(1.2, Unit.SECOND)
    assert isinstance(run.collectives[3].wrong, Absent)
    assert len(facts.claims) == 1 and run.notes == () and run.cut == ""


def test_nccl_tests_of_two_machines_say_that_a_network_is_in_the_figures() -> None:
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in NCCL.format(name="x_y", other="two").splitlines())

    run = one(parse_nccl_tests(tagged).transfers)

    assert len(run.collectives) == 4 and any("2 machines" in note for note in run.notes)


def test_several_nccl_tests_in_one_text_are_several_runs() -> None:
    text = NCCL.format(name="all_gather", other="one") + NCCL.format(name="alltoall", other="one")

    runs = parse_nccl_tests(text).transfers

    assert [run.collectives[0].name for run in runs] == ["all_gather", "alltoall"]


def test_figures_of_each_iteration_do_not_shift_the_columns_of_nccl_tests() -> None:
    head = "time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    text = (
        f"# size count type redop root {head} {head} timestamp\n"
        "  8 2 float sum -1 35.20 1.00 1.75 0 1 2 3 4 34.05 2.00 3.50 0 1 2 3 4 2026-01-01 10:00:00\n"
        "# Out of bounds values : 0 OK\n"
    )

    run = one(parse_nccl_tests(text).transfers)

    assert [rate(each.bus) for each in run.collectives] == [1.75, 3.5]


def test_operations_without_a_reduction_and_root_are_read_by_nccl_tests_of_any_age() -> None:
    text = (
        "#  size  count   type  redop  root    time  algbw  busbw  error    time  algbw  busbw  error\n"
        "     16      4  float                35.00   1.00   1.75  0e+00   35.61   2.00   3.50  3e-07\n"
        "# Avg bus bandwidth    : 2\n"
    )

    run = one(parse_nccl_tests(text).transfers)

    assert [rate(each.bus) for each in run.collectives] == [1.75, 3.5]
    assert run.collectives[0].wrong == Quantity(0, Unit.COUNT)
    assert isinstance(run.collectives[1].wrong, Absent) and "3e-07" in run.collectives[1].wrong.reason


def test_nccl_tests_in_json_are_read_without_the_environment() -> None:
    line = {"time": 10.5, "alg_bw": 2.0, "bus_bw": 3.5, "nwrong": 0.0}
    data = {
        "version": 2,
        "start_time": "2026-01-01 10:00:00",
        "args": ["./build/all_reduce_perf", "-g", "2"],
        "env": ["SECRET_TOKEN=abc"],
        "nccl_version": 22809,
        "config": {"nthreads": 1, "ngpus": 2, "devices": [{"rank": 0, "hostname": "one", "device_hex": "0000:04:00"}]},
        "results": [
            {"size": 8, "type": "float", "redop": "sum", "out_of_place": line, "in_place": {**line, "nwrong": None}}
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.23, "okay": "unchecked"},
    }
    text = json.dumps(data, separators=(",", ":"))
    assert evidence.recognise(text) == (Kind.NCCL_TESTS,)

    facts = parse_nccl_tests(text)

    run = one(facts.transfers)
    assert [rate(each.bus) for each in run.collectives] == [3.5, 3.5]
    assert run.collectives[0].wrong == Quantity(0, Unit.COUNT) and isinstance(run.collectives[1].wrong, Absent)
    assert (run.collectives[0].name, run.ranks) == ("all_reduce", Quantity(2, Unit.COUNT))
    assert "SECRET" not in repr(facts)


def test_bandwidth_test_in_quick_mode_tells_each_direction() -> None:
    text = (
        "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: Tesla T4\n Quick Mode\n\n"
        " Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
        "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t9.7\n\n"
        " Device to Host Bandwidth, 1 Device(s)\n PAGEABLE Memory Transfers\n"
        "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t5.1\n\n"
        " Device to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
        "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t239.6\n\nResult = PASS\n"
    )

    run = one(parse_bandwidth_test(text).transfers)

    assert [(each.test, rate(each.reading), each.pinned) for each in run.transfers[:2]] == [
        ("bandwidthTest-H2D-Pinned", 9.7, True),
        ("bandwidthTest-D2H-Paged", 5.1, False),
    ]
    assert run.transfers[2].own_memory and run.curves == () and run.cut == ""


def test_megabytes_of_an_old_bandwidth_test_are_binary() -> None:
    text = "bandwidthTest-D2H-Paged, Bandwidth = 1000.0 MB/s, Time = 0.03052 s, Size = 32000000 bytes\nResult = FAIL\n"

    run = one(parse_bandwidth_test(text).transfers)

    assert run.transfers[0].reading == Quantity(1000 * (1 << 20), Unit.BYTE_PER_SECOND)
    assert run.errors == ("the tool says: Result = FAIL",)


def test_the_newer_names_of_gpu_copy_are_read() -> None:
    run = one(parse_gpu_copy("gpu-copy-bw:perf/cpu_to_gpu1_by_dma_under_numa2_uni 26.5\n").transfers)

    (copy,) = run.transfers
    assert (copy.start, copy.end, rate(copy.reading)) == (End(Place.HOST), End(Place.GPU, 1), 26.5)
    assert copy.near == Quantity(2, Unit.COUNT) and copy.ways is Ways.ONE


def test_output_of_several_tools_in_one_text_goes_to_the_parser_of_each() -> None:
    names = ("topo_m_a40x4_nv4_pairs.txt", "nvbandwidth_v0.10_h100x4.txt", "p2p_l40s_x2_pcie4.txt")
    commands = ("nvidia-smi topo -m", "./nvbandwidth", "./p2pBandwidthLatencyTest")
    text = "".join(
        f"$ {command}\n{saved.text(f'links/{name}')}\n" for command, name in zip(commands, names, strict=True)
    )

    found = evidence.gather(text)

    assert [each.kind for each in found.found] == [Kind.TOPOLOGY, Kind.NVBANDWIDTH, Kind.P2P_TEST]
    assert found.notes == ()


def test_the_command_before_its_output_names_the_collective() -> None:
    table_only = saved.text("links/all_reduce_nv4_pair.txt").split("\n", 1)[1]

    (found,) = evidence.gather(f"$ mpirun -np 2 x\n$ ./build/reduce_scatter_perf -g 2\n{table_only}").found

    run = one(getattr(found.facts, "transfers"))  # noqa: B009
    assert run.collectives[0].name == "reduce_scatter"


@pytest.mark.parametrize("parse", [parse_nvbandwidth, parse_nccl_tests])
def test_damaged_json_is_said_to_be_damaged(parse: object) -> None:
    with pytest.raises(MeasuredError, match="damaged"):
        parse('{"nvbandwidth": {"testcases": ]}}')  # type: ignore[operator]
