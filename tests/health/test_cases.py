"""Saved evidence, one row a file: the conclusions a correct tool reaches, printed for a person, and the exit code."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from mats.cli.exits import ExitCode
from mats.cli.main import main
from mats.cli.world import World
from mats.judge import judge
from mats.probes._health_examine import examine
from mats.probes._health_limits import LIMITS
from mats.sources.saved import open_source
from tests.sources.saved import path

OK, FINDINGS, UNUSABLE, UNKNOWN = ExitCode.OK, ExitCode.FINDINGS, ExitCode.UNUSABLE, ExitCode.UNKNOWN


@dataclass(frozen=True)
class Case:
    """``codes``: all that is found; ``says``: what stands in the report; ``never``: what must not."""

    name: str
    exit: ExitCode
    codes: tuple[str, ...]
    says: tuple[str, ...]
    never: tuple[str, ...] = ()


CASES = (
    Case(
        "health/smi_xml_t4_v13.xml",
        OK,
        (),
        ("PASS", "Tesla T4", "0 pages"),
        ("resizable BAR is off", "row of memory"),
    ),
    Case(
        "health/smi_xml_a100_mig_v11.xml",
        UNKNOWN,
        ("HLT-089",),
        ("MIG is on", "19.50", "with MIG on the driver hides those of the whole GPU"),
        ("PASS",),
    ),
    Case(
        "health/smi_xml_rtx4090_v12.xml",
        OK,
        ("HLT-018", "HLT-065"),
        (
            "PASS",
            "ECC is switched off",
            "the slot allows Gen3, the card could do Gen4",
            "normal at rest",
            "--load judges it",
        ),
        ("FAIL", "WARN"),
    ),
    Case(
        "health/smi_table_v100x8_inforom.txt",
        UNKNOWN,
        ("HLT-089", "HLT-090"),
        ("HLT-090 GPU 7: the InfoROM is damaged", "only this GPU is named"),
        ("FAIL",),
    ),
    Case(
        "health/smi_q_a100x8.txt",
        OK,
        ("HLT-089",),
        ("PASS", "persistence mode is off", "8 of 8 GPUs answer"),
        ("FAIL", "WARN"),
    ),
    Case(
        "health/smi_q_retired_pages_x8.txt",
        FINDINGS,
        ("HLT-028", "HLT-029", "HLT-030", "HLT-031"),
        (
            "HLT-030 GPU 0, 1, 5, 7: the table of retired pages is full or nearly so",
            "HLT-028 GPU 1, 5, 7:",
            "HLT-029 GPU 3:",
            "65 cannot be",
        ),
    ),
    Case(
        "health/dmesg_xid119_gsp_rpc.log",
        FINDINGS,
        ("HLT-042",),
        ("(GSP) does not answer", "0000:9b:00.0", "the number of lines means nothing"),
    ),
    Case(
        "health/dcgm3_diag_x4.json",
        FINDINGS,
        ("HLT-096", "HLT-098"),
        ("HLT-096 GPU 0, 2, 3: another tool has found a fault", "sm_stress", "skipped is not passed", "memory (GPU 0)"),
        ("GPU 0-3: another tool",),
    ),
    Case(
        "health/dmesg_xid79_then_sxid.txt",
        FINDINGS,
        ("HLT-042",),
        ("the GPU has fallen off the bus", "0000:0b:00.0, 0000:09:00.0", "Save nvidia-bug-report", "power cycle"),
    ),
    Case(
        "health/dmesg_x_iso_sxid_nonfatal.txt",
        UNKNOWN,
        ("HLT-047",),
        ("SXid 22013 (non-fatal)", "0000:c1:00.0"),
        ("FAIL", "WARN"),
    ),
    Case(
        "health/dmesg_xid31_62_45.txt",
        FINDINGS,
        ("HLT-042",),
        ("the power-management controller of the GPU halted", "0000:65:00.0", "(4 times)", "31, 62, 45"),
    ),
    Case(
        "health/dmesg_T_three_gpus.txt",
        UNKNOWN,
        ("HLT-044", "HLT-047"),
        (
            "HLT-044 GPU 0000:00:0b.0",
            "contained memory error, 3 days before the log ends",
            "HLT-047 GPU 0000:00:06.0, 0000:00:0a.0",
            "6 days before the log ends",
            "sources differ on Xid 94",
        ),
        ("FAIL",),
    ),
    Case(
        "health/smi_dmesg_xid79_handle.txt",
        FINDINGS,
        ("HLT-001", "HLT-042", "HLT-081"),
        ("0000:db:00.0", "does not answer", "Save nvidia-bug-report before the driver is unloaded", "may be fine"),
    ),
    Case(
        "health/syslog_xid48_63.txt",
        FINDINGS,
        ("HLT-042",),
        ("uncorrectable memory error", "0000:20:1d.0", "in DRAM", "a reset activates the replacement"),
    ),
    Case(
        "health/xid154_recovery_actions.txt",
        FINDINGS,
        ("HLT-042",),
        ("The driver says: reset the GPU", "0000:c3:00.0", "0000:5d:00.0", "reboot the node", "has fallen off the bus"),
    ),
    Case(
        "health/nvlink5_xid149_145.txt",
        FINDINGS,
        ("HLT-042", "HLT-047"),
        ("HLT-042 GPU 0009:01:00.0", "on link 6", "HLT-047 GPU 0008:01:00.0", "on link 4", "known to need nothing"),
    ),
    Case(
        "health/smi_driver_mismatch.txt",
        UNKNOWN,
        ("HLT-080",),
        (
            "kernel module: 570.133.07",
            "libraries: 570.172",
            "Reload the kernel module or restart",
            "unknown, not failed",
        ),
        ("FAIL",),
    ),
    Case(
        "health/ipmi_sel_and_rminit.txt",
        FINDINGS,
        ("HLT-042", "HLT-097"),
        ("could not initialise the GPU", "0000:21:00.0", "Bus Correctable error", "(2 times)"),
    ),
    Case(
        "health/dmesg_bar0_no_space.txt",
        UNKNOWN,
        ("HLT-044", "HLT-047"),
        ("BAR0 (16 MiB) could not be placed", "A driver will not start", "0000:00:03.0", "x8"),
    ),
    Case(
        "health/smi_table_err_power.txt",
        UNKNOWN,
        ("HLT-056",),
        ("ERR!", "250 W", "Read again", "0.3916"),
        ("FAIL",),
    ),
    Case(
        "health/smi_table_gb10.txt",
        UNKNOWN,
        (),
        ("NVIDIA GB10", "shares the processor's", "43"),
        ("FAIL", "WARN"),
    ),
    Case("health/smi_csv_gb10.csv", UNKNOWN, (), ("44", "several samples"), ("FAIL", "WARN")),
    Case(
        "health/smi_table_mig.txt",
        UNKNOWN,
        (),
        ("GI 1", "GI 5", "GI 2", "42", "they are unknown and not in order"),
        ("FAIL", "WARN"),
    ),
    Case(
        "health/smi_q_ecc_sram.txt",
        FINDINGS,
        ("HLT-010", "HLT-013", "HLT-014"),
        (
            "2 uncorrected memory errors",
            "7 uncorrected SRAM errors",
            "no row replacement mends",
            "not told",
            "service case",
        ),
    ),
    Case(
        "health/smi_q_remap_pending.txt",
        UNKNOWN,
        ("HLT-022", "HLT-025"),
        ("for corrected: 2", "when convenient", "638 with all spares, 2 with most"),
        ("FAIL",),
    ),
    Case(
        "health/recovery_action_dmon_health.txt",
        FINDINGS,
        ("HLT-040", "HLT-097"),
        ("HLT-040 GPU 6:", "reset the GPU", "Xid 119", "no verdict here", "Healthy"),
    ),
    Case(
        "health/dcgm4_text_table.txt",
        UNKNOWN,
        ("HLT-099",),
        ("the evidence is cut off", "software", "memory: passed (GPU 0)"),
        ("PASS",),
    ),
    Case("health/gpustat_line_v100.txt", UNKNOWN, (), ("308 MiB", "nothing leaks"), ("FAIL", "WARN")),
    Case(
        "health/nvidia_bug_report_head.txt",
        UNKNOWN,
        ("HLT-099",),
        ("sleeps to save power", "not lost, not failed"),
        ("FAIL", "WARN"),
    ),
    Case(
        "health/windows_event_153.txt",
        UNKNOWN,
        ("HLT-097",),
        ("nvlddmkm event 153", "0000:09:00.0", "the cause is unknown"),
        ("FAIL",),
    ),
    Case(
        "links/lspci_a5000_idle_bar256m.txt",
        UNKNOWN,
        ("HLT-065",),
        ("RTX A5000", "resizable BAR is off", "up to 32 GiB", "x16"),
        ("FAIL", "WARN"),
    ),
    Case(
        "links/lspci_gtx1080_idle_no_rebar.txt",
        UNKNOWN,
        (),
        ("GTX 1080", "x16"),
        ("FAIL", "WARN", "resizable BAR is off"),
    ),
    Case(
        "links/sysfs_link_files_path.txt",
        UNKNOWN,
        (),
        ("the path runs Gen3 x16, the least of it at port 0000:20:00.0",),
        ("FAIL", "WARN"),
    ),
    Case("links/sysfs_resource_8g_rebar.txt", UNKNOWN, (), ("not asked",), ("FAIL", "WARN", "resizable BAR is off")),
    Case("links/nvlink_s_a100_all_inactive.txt", FINDINGS, ("HLT-070",), ("HLT-070 GPU 6:", "joined by NVLink")),
    Case(
        "links/nvlink_s_v100_two_inactive.txt",
        FINDINGS,
        ("HLT-070",),
        ("HLT-070 GPU 5:", "2 of its NVLinks are down", "4 of its links are up", "link 0, 4"),
    ),
    Case(
        "links/nvlink_e_and_s_h100.txt",
        UNKNOWN,
        ("HLT-073",),
        ("link 9, crc errors: 3", "26.56", "18"),
        ("FAIL", "WARN"),
    ),
    Case(
        "links/dcgmi_nvlink_status.txt",
        FINDINGS,
        ("HLT-070",),
        ("HLT-070 GPU 2:", "all its NVLinks are down", "12 are up on other GPUs"),
    ),
    Case("links/topo_m_a40x4_nv4_pairs.txt", UNKNOWN, (), ("4 GPUs", "NV4", "0-1, 2-3", "4 NVLinks"), ("FAIL", "WARN")),
    Case(
        "links/syslog_aer_correctable.txt",
        UNKNOWN,
        ("HLT-047",),
        ("0000:00:01.1", "correctable PCIe errors", "must come from the PCI tree"),
        ("FAIL", "WARN"),
    ),
)


def report(*names: str) -> tuple[int, str]:
    """The exit code and what is printed, on one line."""
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={})
    code = main(["health", "--from", *(str(path(name)) for name in names)], world)
    assert isinstance(world.stdout, io.StringIO)
    return code, re.sub(r"\s+", " ", world.stdout.getvalue())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_saved_evidence_comes_to_its_conclusion(case: Case) -> None:
    # given
    facts = open_source([path(case.name)]).read()
    # when
    _, _, findings = judge(examine(facts), LIMITS, "file")
    # then
    assert sorted({finding.code for finding in findings}) == sorted(case.codes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_conclusion_is_printed_for_a_person(case: Case) -> None:
    code, text = report(case.name)

    assert code == case.exit
    for words in case.says:
        assert words in text
    for words in case.never:
        assert f" {words} " not in f" {text} "


@pytest.mark.parametrize(
    "name",
    ["links/nvbandwidth_gen3.json", "links/all_reduce_nv4_pair.txt", "links/p2p_l40s_x2_pcie4.txt"],
)
def test_results_of_speed_tests_are_unknown_in_a_sentence(name: str) -> None:
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={})

    code = main(["health", "--from", str(path(name))], world)

    assert code == UNKNOWN
    assert isinstance(world.stderr, io.StringIO)
    assert "nothing of the state of a GPU: mats nvlink-test --from reads it" in world.stderr.getvalue()


def test_several_files_are_one_machine() -> None:
    code, text = report("health/smi_table_gb10.txt", "health/dmesg_x_iso_sxid_nonfatal.txt")

    assert code == UNKNOWN
    assert "NVIDIA GB10" in text
    assert "SXid 22013" in text


def test_what_a_cut_file_lacks_is_not_said_to_be_unreadable(tmp_path: Path) -> None:
    """given an output that ends before the power"""
    text = path("health/smi_xml_t4_v13.xml").read_text()
    cut = tmp_path / "cut.xml"
    cut.write_text(text[: text.index("<gpu_power_readings>")])

    _, _, findings = judge(examine(open_source([cut]).read()), LIMITS, "file")

    assert [finding.code for finding in findings] == ["HLT-099"]


def test_links_that_lead_in_a_circle_are_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={})

    code = main(["health", "--from", str(loop)], world)

    assert code == UNUSABLE
    assert isinstance(world.stderr, io.StringIO)
    assert "too many levels of symbolic links" in world.stderr.getvalue()
