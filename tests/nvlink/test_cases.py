"""Saved output of other tools, one row a file: the conclusion a correct tool reaches, as a person reads it, and the
exit code.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from mats.cli.exits import ExitCode
from mats.cli.main import main
from mats.cli.world import World
from mats.facts import MachineFacts
from mats.model import Observation
from mats.probes._nvlink_evidence import evidence
from mats.sources.saved import open_links
from tests.sources.saved import path

from .bench import GB, codes, judged, readings, reason, value

OK, FINDINGS, UNKNOWN, UNUSABLE = ExitCode.OK, ExitCode.FINDINGS, ExitCode.UNKNOWN, ExitCode.UNUSABLE


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
        "nvbandwidth_v0.6_gh200.txt",
        UNKNOWN,
        (),
        ("more than any PCIe link carries", "NVLink-C2C", "772.6", "waived is not failed"),
        ("FAIL", "WARN"),
    ),
    Case(
        "nvbandwidth_gen3.json",
        UNKNOWN,
        (),
        (
            "12.4 GB/s would be 79% of 15.8 GB/s (Gen3 x16",
            "13.2 GB/s would be 84% of 15.8 GB/s (Gen3 x16",
            "as much as a healthy one has",
            "left out 17 of its tests",
        ),
        ("FAIL", "WARN"),
    ),
    Case(
        "nvbandwidth_v0.10_h100x4.txt",
        UNKNOWN,
        (),
        (
            "392 GB/s would be 87% of 450 GB/s (18 links of NVLink 4), as much as a healthy one has",
            "55.1 GB/s would be 87% of 63 GB/s (Gen5 x16), as much as a healthy one has",
            "810.2",
            "nvidia-smi nvlink -s",
        ),
        ("FAIL", "WARN"),
    ),
    Case(
        "nvbandwidth_v0.7_pattern_mismatch.txt",
        FINDINGS,
        ("LNK-004",),
        ("data came back other than they were sent", "0x7c20c4000000", "at byte 163,840"),
    ),
    Case(
        "all_reduce_a100x8_old.txt",
        OK,
        (),
        (
            "PASS",
            "235 GB/s bus bandwidth at the largest size, 78% of 300 GB/s",
            "average over all 33 sizes is not judged",
        ),
        ("68.4",),
    ),
    Case(
        "all_reduce_nv4_pair.txt",
        UNKNOWN,
        (),
        ("47 GB/s would be 84% of 56.2 GB/s (4 links of NVLink 3)", "what joins them, is not told"),
        ("FAIL", "WARN", "PASS"),
    ),
    Case(
        "gpu_copy_a100x2.txt",
        UNKNOWN,
        (),
        (
            "it is the engine, not the link",
            "6.41 GB/s by kernels beside 26.1 GB/s by the copy engine",
            "279 GB/s would be 93%",
        ),
        ("FAIL", "WARN"),
    ),
    Case(
        "bandwidthTest_shmoo_v100.txt",
        OK,
        (),
        ("PASS", "n / 12.2 GB/s over 81 sizes", "is the time of their start and not the link"),
        ("FAIL", "WARN"),
    ),
    Case(
        "p2p_4090x4_no_p2p.txt",
        UNKNOWN,
        (),
        ("NO P2P between any pair", "goes through the host's memory", "no peer access (P2P) between any two"),
        ("FAIL", "WARN", "PASS"),
    ),
    Case(
        "p2p_l40s_x2_pcie4.txt",
        OK,
        (),
        ("PASS", "25.71", "81.60", "1.200", "31.51"),
        ("FAIL", "WARN", "NVLinks are down"),
    ),
    Case("nvlink_s_a100_all_inactive.txt", FINDINGS, ("LNK-005",), ("GPU 6", "all its NVLinks are down")),
    Case(
        "nvlink_s_v100_two_inactive.txt",
        FINDINGS,
        ("LNK-005",),
        ("GPU 5", "2 of its NVLinks are down", "link 0, 4", "4 of 6 NVLinks are up at 25.781 GB/s each"),
    ),
    Case(
        "nvlink_e_and_s_h100.txt",
        UNKNOWN,
        (),
        (
            "18 of 18 NVLinks are up at 26.562 GB/s each, 478 GB/s together, of which 450 GB/s are payload",
            "link 9, crc errors: 3",
            "a count without a rate",
        ),
        ("FAIL", "WARN"),
    ),
    Case(
        "dcgmi_nvlink_status.txt",
        FINDINGS,
        ("LNK-005",),
        ("GPU 2", "all its NVLinks are down", "12 are up on other GPUs"),
    ),
    Case(
        "topo_m_a40x4_nv4_pairs.txt",
        UNKNOWN,
        (),
        ("4 NVLinks between GPU 0-1, 2-3.", "SYS: 0-2, 0-3, 1-2, 1-3", "joined alike"),
        ("FAIL", "WARN"),
    ),
    Case(
        "lspci_a5000_idle_bar256m.txt",
        UNKNOWN,
        (),
        ("Gen1 x16 of Gen4 x16", "at rest a link slows down, no finding"),
        ("FAIL", "WARN"),
    ),
    Case("lspci_gtx1080_idle_no_rebar.txt", UNKNOWN, (), ("Gen1 x16 of Gen3 x16", "at rest"), ("FAIL", "WARN")),
    Case("sysfs_link_files_path.txt", UNKNOWN, (), ("its PCIe path is Gen3 x16 of Gen4 x16",), ("FAIL", "WARN")),
    Case(
        "syslog_aer_correctable.txt",
        UNKNOWN,
        (),
        ("0000:00:01.1", "correctable PCIe errors", "the PCI tree"),
        ("FAIL", "WARN"),
    ),
)


def report(*files: Path | str, more: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code and what is printed, on one line."""
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={"COLUMNS": "200"})
    code = main(["nvlink-test", "--from", *map(str, files), *more], world)
    assert isinstance(world.stdout, io.StringIO)
    return code, re.sub(r"\s+", " ", world.stdout.getvalue())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_saved_output_comes_to_its_conclusion(case: Case) -> None:
    code, text = report(path(f"links/{case.name}"))

    found = tuple(sorted(set(re.findall(r"(?:FAIL|WARN|UNKNOWN) (LNK-\d+)", text))))
    assert (code, found) == (case.exit, case.codes)
    for words in case.says:
        assert words in text
    for words in case.never:
        assert f" {words} " not in f" {text} "


def facts(*names: str) -> MachineFacts:
    return open_links([path(f"links/{name}") for name in names]).read()


def test_the_all_reduce_of_a_pair_passes_where_its_links_are_told(tmp_path: Path) -> None:
    # given: what nvidia-smi nvlink -s says of two A40, and nothing else of the machine
    told = tmp_path / "links.txt"
    lines = [
        f"GPU {gpu}: NVIDIA A40 (UUID: GPU-0000000{gpu}-0000-0000-0000-000000000000)\n"
        + "".join(f"\t Link {number}: 14.062 GB/s\n" for number in range(4))
        for gpu in (2, 3)
    ]
    told.write_text("".join(lines), encoding="utf-8")
    # when
    code, text = report(path("links/all_reduce_nv4_pair.txt"), told)
    # then
    assert code == OK
    assert "47 GB/s bus bandwidth at the largest size, 84% of 56.2 GB/s (4 active links x 14.1 GB/s)" in text


def test_the_all_reduce_of_a_pair_among_several_classes_has_no_target() -> None:
    seen = evidence(facts("all_reduce_nv4_pair.txt", "topo_m_a40x4_nv4_pairs.txt"))

    assert "which GPUs took part" in reason(seen, "link.share", collective="all_reduce")


def test_the_largest_size_is_judged_and_never_the_average() -> None:
    seen = evidence(facts("all_reduce_a100x8_old.txt"))

    (bus,) = readings(seen, "link.bus_bandwidth")
    assert bus.value == pytest.approx(235.26 * GB)  # type: ignore[union-attr]


def test_a_bound_of_ones_own_stands_in_for_a_target_that_is_not_told() -> None:
    code, text = report(path("links/nvbandwidth_v0.10_h100x4.txt"), more=("--min-bandwidth-gbps", "36"))
    low, _ = report(path("links/nvbandwidth_v0.10_h100x4.txt"), more=("--min-bandwidth-gbps", "400"))

    assert (code, low) == (OK, FINDINGS)
    assert "PASS" in text


def test_the_latency_of_h100_over_its_links_is_that_of_loads() -> None:
    seen = evidence(facts("nvbandwidth_v0.10_h100x4.txt"))

    times = [one.value for one in readings(seen, "link.load_latency") if hasattr(one, "value")]
    assert len(times) == 12
    assert all(807e-9 < time < 817e-9 for time in times)


def test_figures_called_p2p_without_peer_access_are_those_through_the_host() -> None:
    seen = evidence(facts("p2p_4090x4_no_p2p.txt"))

    assert value(seen, "link.bandwidth_through_host", start="0", end="1") == pytest.approx(20.55 * GB)
    assert "no peer access" in reason(seen, "link.bandwidth", start="0", end="1")
    assert value(seen, "link.copy_latency_through_host", start="0", end="1") == pytest.approx(17.54e-6)


def test_direct_copies_of_l40s_gain_over_the_host() -> None:
    seen = evidence(facts("p2p_l40s_x2_pcie4.txt"))

    assert value(seen, "link.direct_gain", start="0", end="1") == pytest.approx(25.71 / 20.84)
    assert value(seen, "link.kept_both_ways", start="0", end="1") == pytest.approx(25.33 / 25.71)
    assert value(seen, "link.copy_latency", start="0", end="1") == pytest.approx(1.2e-6)


def test_two_runs_of_tools_are_kept_apart() -> None:
    seen: Observation = evidence(facts("p2p_l40s_x2_pcie4.txt", "gpu_copy_a100x2.txt"))

    tools = {dict(one.labels).get("tool") for one in seen.measurements if one.name == "link.bandwidth"}
    assert tools == {"p2pBandwidthLatencyTest", "gpu_copy"}


def test_wrong_data_fail_beside_figures_that_are_good() -> None:
    seen = evidence(facts("p2p_l40s_x2_pcie4.txt", "nvbandwidth_v0.7_pattern_mismatch.txt"))

    assert codes(seen, "file") == ["LNK-004"]
    assert judged(seen, "file").verdict.value == "fail"


def test_a_text_that_is_not_known_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "poem.txt"
    file.write_text("a text of nothing\nthat anybody measured\n", encoding="utf-8")
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={})

    code = main(["nvlink-test", "--from", str(file)], world)

    assert code == UNUSABLE
    assert isinstance(world.stderr, io.StringIO)
    assert "what is read: " in world.stderr.getvalue()


@pytest.mark.parametrize("name", ["latency_sweep_a100sxm.dat", "gpu_latency_v100.txt", "memtest_latency_rtx3090.json"])
def test_latencies_of_memory_are_no_links_and_have_no_verdict(name: str) -> None:
    code, text = report(path(f"links/{name}"))

    assert code in (UNKNOWN, UNUSABLE)
    assert "PASS" not in text
    assert "a GPU's own memory and no link" in " ".join(text.split())
