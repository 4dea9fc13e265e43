"""The kernels' own sources on the CPU, under the address, undefined-behaviour and thread sanitizers.

A GPU's memory checker needs a GPU; this needs a C++ compiler. What it cannot see: inline PTX, and races that
only the GPU's weaker memory order shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from mats.kernel import Kernel, kernels, parse_kernels

BROKEN = Path(__file__).with_name("broken")
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
