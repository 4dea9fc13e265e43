"""Builds the fake driver of ``tests/fake_cuda`` when it is not there yet, and runs programs on it.

A machine that cannot build it, or has a real driver, skips the tests that need it and says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAKE = ROOT / "tests" / "fake_cuda"
CANNOT_BUILD = 77
LIMIT_S = 600
REAL_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu")


@pytest.fixture(scope="module")
def folder() -> str:
    """Where the fake driver lies."""
    real = [path for path in REAL_DRIVER if Path(path).exists()]
    if real:
        pytest.skip(f"a real NVIDIA driver is here ({real[0]}): the fake one does not load beside it")
    built = subprocess.run([sys.executable, FAKE / "build.py"], capture_output=True, text=True, timeout=LIMIT_S)
    if built.returncode == CANNOT_BUILD:
        pytest.skip(f"the fake CUDA driver cannot be built: {built.stdout.strip()}")
    assert built.returncode == 0, built.stderr
    return built.stdout.strip()


def command(folder: str, module: str, arguments: Sequence[str]) -> list[str]:
    """Runs a Python module or file with CuPy on the fake driver."""
    return [sys.executable, str(FAKE / "launch.py"), folder, module, *arguments]


def environment(**setting: str) -> dict[str, str]:
    """This process's environment without what would change the outcome, with ``setting``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CUDA_", "MATS_"))}
    return {**kept, **setting}


def on_fake(
    folder: str, module: str, arguments: Sequence[str], cwd: Path = ROOT, **setting: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, module, arguments),
        cwd=cwd,
        env=environment(**setting),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
