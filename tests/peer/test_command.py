"""``mats nvlink-test --mode server`` in one terminal and ``--mode client`` in another, on simulated cards."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mats.peer.channel import SOCKET, Door

from .bench import Ended, Side, Sides


def mats(sides: Sides, folder: Path, mode: str, *options: str, plan: str = "links_healthy") -> Side:
    place = ("--socket", str(folder / SOCKET), "--target", f"sim:{plan}", "--timeout", "60")
    return sides.start("mats", Path("nvlink-test"), "--mode", mode, *place, *options, "--json")


def server(sides: Sides, folder: Path, gpu: str = "0", plan: str = "links_healthy") -> Side:
    started = mats(sides, folder, "server", "--gpu", gpu, plan=plan)
    started.wait_for_file(folder / SOCKET)
    return started


def client(sides: Sides, folder: Path, gpu: str = "1", lent: str = "0", plan: str = "links_healthy") -> Side:
    return mats(sides, folder, "client", "--gpu", gpu, "--server-gpu", lent, "--size", "2", "--repeats", "1", plan=plan)


def result(ended: Ended) -> dict[str, Any]:
    run, _ = json.JSONDecoder().raw_decode(ended.text[ended.text.index("{\n") :])  # what is for people is around it
    (found,) = run["results"]
    assert isinstance(found, dict)
    return found


def reading(ended: Ended, name: str) -> Any:
    return next(each["reading"] for each in result(ended)["observation"]["measurements"] if each["name"] == name)


@pytest.mark.parametrize(("plan", "code", "verdict"), [("links_healthy", 0, "pass"), ("link_slow", 1, "fail")])
def test_a_link_is_judged_by_the_process_that_borrows(
    sides: Sides, folder: Path, plan: str, code: int, verdict: str
) -> None:
    lending = server(sides, folder, plan=plan)

    measured, lent = client(sides, folder, plan=plan).wait(), lending.wait()

    assert (measured.code, lent.code) == (code, 0), measured.text[:400] + lent.text[:400]
    assert result(measured)["verdict"] == verdict
    assert reading(lent, "link.lent_bytes")["value"] >= 2 << 20
    assert list(folder.iterdir()) == []


def test_a_client_looks_for_a_server_no_longer_than_it_may(sides: Sides, folder: Path) -> None:
    place = ("--socket", str(folder / SOCKET), "--target", "sim:links_healthy", "--timeout", "0.5")
    ended = sides.start(
        "mats", Path("nvlink-test"), "--mode", "client", *place, "--gpu", "1", "--server-gpu", "0"
    ).wait()

    assert ended.code == 3
    assert "(waited 0.5 s)" in ended.text


def test_a_server_that_is_killed_leaves_no_verdict(sides: Sides, folder: Path) -> None:
    lending = sides.start("server", folder, "--at", "launch answered")

    ended = client(sides, folder).wait()

    assert lending.wait().code == -signal.SIGKILL
    assert ended.code == 2  # as for any device that is lost while it is measured
    assert "closed the connection" in result(ended)["reason"]
    with Door(folder / SOCKET):
        pass


def test_a_client_that_is_killed_leaves_the_server_without_a_verdict(sides: Sides, folder: Path) -> None:
    lending = server(sides, folder)
    sides.start("client", folder, "--at", "launch answered").wait()

    ended = lending.wait()

    assert ended.code == 3
    assert "closed the connection" in result(ended)["reason"]
    assert list(folder.iterdir()) == []


def test_a_server_to_which_nobody_comes_is_stopped_by_ctrl_c(sides: Sides, folder: Path) -> None:
    lending = server(sides, folder)
    lending.kill(signal.SIGINT)

    ended = lending.wait()

    assert ended.code == 3
    assert "stopped by Ctrl-C" in result(ended)["reason"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("gpu", "lent", "plan", "why"),
    [
        ("1", "2", "links_healthy", "the client wants GPU-51300000-0000-4000-8000-000000000002, this server lends"),
        ("0", "0", "links_healthy", "the server lends card 0, which is this process' own"),
        ("1", "0", "link_slow", "the server simulates the plan links_healthy, this process link_slow"),
    ],
)
def test_what_does_not_fit_is_said_and_not_known(
    sides: Sides, folder: Path, gpu: str, lent: str, plan: str, why: str
) -> None:
    server(sides, folder)

    ended = client(sides, folder, gpu, lent, plan).wait()

    assert ended.code == 3
    assert why in result(ended)["reason"]
