"""Comparing a report with its golden file; MATS_REWRITE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "runs"


def check_golden(name: str, text: str) -> None:
    """Fails when ``text`` is not what tests/data/runs/``name`` holds."""
    path = GOLDEN / name
    if os.environ.get("MATS_REWRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    assert path.is_file(), f"{path} is missing: run with MATS_REWRITE_GOLDEN=1 and look at what it holds"
    with path.open(encoding="utf-8", newline="") as stream:
        assert text == stream.read(), f"{path} differs; if the change is meant, run with MATS_REWRITE_GOLDEN=1"
