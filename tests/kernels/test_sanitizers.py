"""The kernels' own sources on the CPU, under the address, undefined-behaviour and thread sanitizers.

A GPU's memory checker needs a GPU; this needs a C++ compiler. What it cannot see: inline PTX, and races that
only the GPU's weaker memory order shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from mats.kernel import Kernel, kernels, parse_kernels

BROKEN = Path(__file__).with_name("broken")
SIMULATE = Path(__file__).with_name("simulate.py")
PROCESSOR = Path("/proc/cpuinfo")

Exercise = Callable[[Iterable[Kernel], Any], str]


def has_avx2() -> bool:
    return PROCESSOR.exists() and " avx2 " in PROCESSOR.read_text()


@pytest.mark.parametrize(
    ("flavour", "layout", "sanitizer"),
    [
        ("grid", "grid", "address,undefined"),
        ("grid", "grid", "thread"),
        ("host_base", "host", "address,undefined"),
        ("host_base", "host", "thread"),
        pytest.param(
            "host_avx2",
            "host",
            "address,undefined",
            marks=pytest.mark.skipif(not has_avx2(), reason="this processor has no AVX2"),
        ),
    ],
)
def test_every_kernel_runs_clean(
    flavour: str,
    layout: str,
    sanitizer: str,
    build_driver: Callable[..., Any],
    exercise_script: Exercise,
    shapes: dict[str, Any],
    kernel_folder: Path,
) -> None:
    driver = build_driver(f"mats_{flavour}", sanitizer, kernel_folder / "native" / f"{flavour}.cpp")
    script = exercise_script(kernels().values(), shapes[layout])

    outcome = driver.run(script)

    assert outcome.code == 0, outcome.report[:4000]
    assert outcome.report == ""


@pytest.mark.parametrize(
    ("kernel", "arguments", "sanitizer", "complaint"),
    [
        ("write_past_the_end", "2 @data", "address,undefined", "heap-buffer-overflow"),
        ("shift_too_far", "2 @sink", "address,undefined", "shift exponent 64 is too large"),
        ("count_without_atomic", "64 @sink", "thread", "data race"),
    ],
)
def test_a_broken_kernel_is_caught(
    kernel: str, arguments: str, sanitizer: str, complaint: str, build_driver: Callable[..., Any]
) -> None:
    driver = build_driver("broken", sanitizer, BROKEN / "broken.cpp")
    assert kernel in {found.name for found in parse_kernels("broken", (BROKEN / "broken.cu").read_text())}

    outcome = driver.run(f"buffer data 131072\nbuffer sink 8\nlaunch {kernel} 2 8 16 {arguments}\n")

    assert outcome.code not in (0, 3, 4)
    assert complaint in outcome.report
    assert "broken.cu" in outcome.report, "the report names the line of the kernel"


def test_the_driver_refuses_what_it_does_not_know(build_driver: Callable[..., Any]) -> None:
    driver = build_driver("broken", "address,undefined", BROKEN / "broken.cpp")

    outcome = driver.run("launch no_such_kernel 1 1 1\n")

    assert outcome.code == 4


def test_the_driver_notices_a_wrong_word(build_driver: Callable[..., Any]) -> None:
    driver = build_driver("broken", "address,undefined", BROKEN / "broken.cpp")

    outcome = driver.run("buffer sink 8\nexpect sink 0 1\n")

    assert outcome.code == 3
    assert "it is 0" in outcome.report


@pytest.fixture(scope="module")
def sanitized_module(compiler: str, kernel_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native module with its simulator under the address and undefined-behaviour sanitizers."""
    folder = tmp_path_factory.mktemp("native")
    watched = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    jobs = []
    for name in ("module", "simulator", "host_base", "host_avx2"):
        extra = watched if name in ("module", "simulator") else ()  # the host flavours have a test of their own
        command = [compiler, "-std=c++17", "-O1", "-g", "-fPIC", "-pthread", f"-I{sysconfig.get_path('include')}"]
        command += [*extra, "-c", "-o", str(folder / f"{name}.o"), str(kernel_folder / "native" / f"{name}.cpp")]
        jobs.append(command)
    made = folder / "_native.so"
    objects = [str(folder / f"{name}.o") for name in ("module", "simulator", "host_base", "host_avx2")]
    for command in (*jobs, [compiler, *watched, "-shared", "-pthread", "-o", str(made), *objects]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
    return made


def test_the_simulator_runs_clean(sanitized_module: Path, compiler: str) -> None:
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = os.environ | {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}

    done = subprocess.run(
        [sys.executable, "-P", str(SIMULATE), str(sanitized_module)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    failed = dict(re.findall(r"^([\w@-]+): (\d+) words failed$", done.stdout, re.M))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    assert failed["healthy"] == "0"
    assert int(failed["stuck_dq"]) > 0
