"""The command as users type it: bounds, exit codes, and what stands in each output."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mats.cli.exits import ExitCode
from mats.cli.main import main
from mats.cli.world import World


def command(*words: str, columns: int = 80) -> tuple[int, str, str]:
    """The exit code, what was printed, and what was said of errors."""
    world = World(stdout=io.StringIO(), stderr=io.StringIO(), environment={"COLUMNS": str(columns)})
    code = main(["nvlink-test", *words], world)
    assert isinstance(world.stdout, io.StringIO) and isinstance(world.stderr, io.StringIO)
    return code, world.stdout.getvalue(), world.stderr.getvalue()


@pytest.mark.parametrize("columns", [80, 160])
def test_a_slow_link_is_a_finding_that_fits_the_terminal(columns: int) -> None:
    words = ("--target", "sim:link_slow", "--repeats", "1", "--pairs", "0-1")

    code, text, _ = command(*words, columns=columns)

    assert code == ExitCode.FINDINGS
    assert "LNK-001 the link carries far less than it should [link_slow]" in text
    assert "SIMULATED" in text
    assert max(map(len, text.splitlines())) <= columns


def test_the_bounds_that_users_typed_are_held_and_explained() -> None:
    code, text, _ = command(
        *("--target", "sim:links_healthy", "--repeats", "1", "--pairs", "0-1"),
        *("--min-bandwidth-gbps", "36", "--max-latency-ns", "100"),
        columns=400,
    )

    assert code == ExitCode.FINDINGS
    assert "LNK-021" in text and "LNK-020" not in text
    assert "--max-latency-ns 100: no load over any link can be so quick" in text
    assert "--min-bandwidth-gbps 36: NV4 ways pass that though they lost 36% of the 56.2 GB/s" in text


def test_the_run_holds_every_figure_with_its_unit() -> None:
    _, text, _ = command("--target", "sim:links_healthy", "--repeats", "2", "--pairs", "2-3", "--json")

    (result,) = json.loads(text)["results"]
    measured = {one["name"]: one for one in result["observation"]["measurements"]}
    assert measured["link.bandwidth"]["reading"]["unit"] == "B/s"
    assert len(measured["link.bandwidth"]["samples"]) == 2
    assert "reason" in measured["link.packet_loss"]["reading"]


def test_the_page_for_a_browser_holds_the_matrices(tmp_path: Path) -> None:
    file = tmp_path / "report.html"

    code, _, _ = command(
        *("--target", "sim:links_healthy", "--repeats", "1", "--pairs", "0-1", "--quiet", "--html", str(file))
    )

    page = file.read_text(encoding="utf-8")
    assert code == ExitCode.OK
    assert "Bandwidth one way, from (row) to (column)" in page
    assert "NV4" in page


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--target", "sim:healthy"), ExitCode.UNKNOWN, "is one card, and there is no way between cards in it"),
        (("--target", "host"), ExitCode.UNKNOWN, "there is no way between GPUs in it"),
        (("--target", "sim:link_no_p2p", "--repeats", "1", "--pairs", "0-1"), ExitCode.UNKNOWN, "no peer access (P2P)"),
        (("--target", "sim:links_healthy", "--mode", "both"), ExitCode.UNUSABLE, "there are pairs, server, client"),
        (("--target", "sim:links_healthy", "--pairs", "0-9"), ExitCode.UNUSABLE, "'0-9' is no pair such as 0-1"),
        (("--target", "sim:link_silent", "--repeats", "1", "--pairs", "1-2"), ExitCode.UNUSABLE, "has not answered"),
        (("--min-bandwidth-gbps", "fast"), ExitCode.UNUSABLE, "--min-bandwidth-gbps"),
    ],
    ids=["one_card", "host", "no_p2p", "mode", "pair", "silent", "no_number"],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(words: tuple[str, ...], code: ExitCode, said: str) -> None:
    found, text, errors = command(*words, columns=400)

    assert found == code
    assert said in text + errors
    assert "Traceback" not in text + errors


def test_what_is_wrong_between_two_gpus_is_on_both_and_on_no_other() -> None:
    _, text, _ = command("--target", "sim:link_corrupt", "--repeats", "1", columns=160)

    rows = [line.split() for line in text.splitlines() if line[:3] in ("0  ", "1  ", "2  ", "3  ")]
    verdicts = {row[0]: row[1] for row in rows if row[1] in ("pass", "FAIL")}
    assert verdicts == {"0": "pass", "1": "pass", "2": "FAIL", "3": "FAIL"}
