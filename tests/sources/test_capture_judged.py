"""What ``mats health`` says of a capture is what it says of the machine, also without names and numbers of identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.registry import open_source
from mats.sources._redact import Identity, redacted
from mats.sources.capture import Capture, capture_to_bytes
from mats.sources.saved import open_source as open_saved
from mats.target import Target

from .judged import said
from .stand_in import library


@pytest.mark.parametrize("names_kept", [True, False])
@pytest.mark.parametrize(
    "profile", ["h100x8", "fallen_off_bus", "remap_pending", "rtx4090", "v100_retired", "a100_mig"]
)
def test_a_capture_is_judged_as_the_machine_is(tmp_path: Path, profile: str, names_kept: bool) -> None:
    library(profile)  # skips the test, and says so, where it was not built
    live = open_source(Target("sim", profile), 30.0)
    capture = Capture("mats 1", "2026-11-30T12:00:00+00:00", live.read())
    path = tmp_path / "capture.gz"

    path.write_bytes(capture_to_bytes(capture if names_kept else redacted(capture, Identity(("vm",), ("root",)))))
    saved = open_saved((path,))

    assert said(saved, saved.describe()) == said(live, live.describe())
    live.close()
