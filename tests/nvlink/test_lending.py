"""The side that lends: what it says of a session that ended well, and of each that did not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mats.fabric import Served
from mats.model import TargetInfo, Verdict
from mats.probes.nvlink_test import measure

from .bench import Quiet, judged, reason, value


class Lending:
    """A lender whose session comes to what it is given."""

    def __init__(self, comes_to: Served) -> None:
        self.comes_to = comes_to
        self.told: list[str] = []

    def describe(self) -> TargetInfo:
        raise AssertionError("nobody asks here")

    def serve(self, stopping: Callable[[], str], progress: Callable[[str], None]) -> Served:
        progress("GPU-1 has borrowed 4 MiB")
        return self.comes_to

    def close(self) -> None:
        """Nothing is held."""


def test_a_session_that_ended_in_order_passes_and_points_to_the_other_report() -> None:
    seen = measure(Lending(Served(4 << 20, 141, 1.0, "GPU-1", "")), Quiet(mode="server"))

    assert judged(seen) == (Verdict.PASS, "", ())
    assert value(seen, "link.lent_bytes") == 4 << 20
    assert "its own report has the figures and the verdict" in seen.notes[0]
    assert "the one that borrowed has measured" in reason(seen, "link.share")


@pytest.mark.parametrize(
    ("comes_to", "words"),
    [
        (Served(0, 0, 30.0, "", ""), "no other process has borrowed"),
        (Served(0, 3, 9.0, "GPU-1", "the borrower was silent for 5 s"), "the borrower was silent for 5 s"),
        (Served(0, 0, 1.0, "", "a process of another user knocked"), "a process of another user knocked"),
    ],
)
def test_a_session_that_did_not_is_unknown_with_its_reason(comes_to: Served, words: str) -> None:
    verdict, why, _ = judged(measure(Lending(comes_to), Quiet(mode="server")))

    assert verdict is Verdict.UNKNOWN
    assert words in why


def test_a_server_that_was_told_to_stop_says_so() -> None:
    seen = measure(Lending(Served(0, 0, 1.0, "", "")), Quiet(turns=0, mode="server"))

    assert (seen.partial, judged(seen).verdict) == ("told to stop", Verdict.UNKNOWN)
