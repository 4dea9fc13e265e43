"""The whole way to a GPU, executed without one: real CuPy on the fake driver of ``tests/fake_cuda``, each suite in a
process of its own, so that no other test sees a GPU that is not there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .on_fake import HERE, REAL_DRIVER, ROOT, folder, on_fake

__all__ = ["folder"]
SUITES = sorted(path.name for path in HERE.glob("suite_*.py"))

PYTEST = ("-q", "-p", "no:cacheprovider", "--color=no")


@pytest.mark.parametrize("suite", SUITES)
def test_suite_on_the_fake_driver(folder: str, suite: str) -> None:
    done = on_fake(folder, "pytest", [*PYTEST, "-p", "fake_plugin", str(HERE / suite)])

    said = done.stdout + done.stderr
    passed = re.search(r"(\d+) passed in", said)
    assert done.returncode == 0, said
    assert passed and int(passed[1]) > 0 and "skipped" not in said, said


def test_the_tests_of_a_real_gpu_hold_on_the_fake_driver(folder: str) -> None:
    without = "not checked and not kernel_is_right and not bandwidths and not nvml"

    files = [str(ROOT / "tests" / "gpu" / f"test_{name}.py") for name in ("real_gpu", "links")]

    done = on_fake(folder, "pytest", [*PYTEST, "-k", without, *files], MATS_FAKE_CUDA="memory=4294967296;devices=3")

    assert done.returncode == 0, done.stdout
    assert "13 passed, 1 skipped" in done.stdout, done.stdout  # with several GPUs there is none alone


def test_the_fake_driver_refuses_to_work_unasked(folder: str) -> None:
    program = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); count = ctypes.c_int();"
        "sys.exit(library.cuInit(0) != 803 or library.cuDeviceGetCount(ctypes.byref(count)) != 803)"
    )
    kept = {name: value for name, value in os.environ.items() if name != "MATS_FAKE_CUDA"}

    done = subprocess.run(
        [sys.executable, "-c", program, f"{folder}/libcuda.so.1"], env=kept, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "for the tests of mats only" in done.stderr


def test_without_any_driver_the_reason_is_said() -> None:
    pytest.importorskip("cupy")
    if any(Path(path).exists() for path in REAL_DRIVER):
        pytest.skip("a real NVIDIA driver is here")
    program = "from mats.devices import cuda; cuda.discover()"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert "DeviceError: no NVIDIA driver was found: install it, or use --target host" in done.stderr


def test_without_cupy_the_reason_is_said() -> None:
    driver = "import ctypes; ctypes.CDLL = lambda *_: None"  # as if one were installed
    program = f"import sys; {driver}; sys.modules['cupy'] = None; from mats.devices import cuda; cuda.discover()"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert "DeviceError: cuda targets need CuPy: install gpu-mats[cuda13]" in done.stderr
