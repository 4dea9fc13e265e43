"""Saved outputs of other tools for the tests: our own lie beside them, those of others where MATS_CASES says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

OWN = Path(__file__).resolve().parents[1] / "data" / "cases"


def path(name: str) -> Path:
    """Where a saved output is, such as ``links/topo.txt``; skips the test, and says so, where it cannot be had."""
    own = OWN / name
    if own.exists():
        return own
    elsewhere = os.environ.get("MATS_CASES")
    if not elsewhere:
        pytest.skip(f"NOT TESTED: {name} belongs to another project; MATS_CASES names the folder that holds it")
    return Path(elsewhere) / name


def text(name: str) -> str:
    """Its text."""
    return path(name).read_text(encoding="utf-8")
