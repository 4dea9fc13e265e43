"""Every kernel file compiles for every GPU architecture of the toolkit, without a GPU.

With nvcc (the compiler that reads the files as they stand) and with NVRTC (the one that mats uses, on the
self-contained text). Neither needs a driver.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from mats.kernel import kernel_files, kernel_source, kernels

OLDEST = 75
"""Compute capability 7.5: the oldest that CUDA 13 compiles for."""

BROKEN = '#include "include/mats.cuh"\nMATS_KERNEL(broken, u64 tiles, u64* data) { data[0] = no_such_name; }\n'


def find_nvcc() -> str | None:
    """nvcc of the toolkit, or of the package nvidia-cuda-nvcc in this environment."""
    packaged = [str(folder) for folder in Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin")]
    return shutil.which("nvcc") or shutil.which("nvcc", path=":".join(packaged))


@pytest.fixture(scope="module")
def nvcc() -> str:
    found = find_nvcc()
    if found is None:
        pytest.skip("NO NVCC: the kernels were compiled with NVRTC only (install a CUDA toolkit to check both)")
    return found


@pytest.fixture(scope="module")
def nvcc_architectures(nvcc: str) -> list[int]:
    listing = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    found = [int(line.removeprefix("compute_")) for line in listing.split() if line[-1].isdigit()]
    return [architecture for architecture in found if architecture >= OLDEST]


def compile_with_nvcc(nvcc: str, file: Path, architectures: list[int], made: Path) -> str:
    """Compiles for all architectures in one call; gives what the compiler complained of, empty when nothing."""
    targets = [f"-gencode=arch=compute_{one},code=sm_{one}" for one in architectures]
    command = [nvcc, "-std=c++17", "--Werror", "all-warnings", *targets, "-fatbin", "-o", str(made), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode or done.stderr else ""


@pytest.mark.parametrize("file", kernel_files())
def test_nvcc_compiles_for_every_architecture(
    file: str, nvcc: str, nvcc_architectures: list[int], kernel_folder: Path, tmp_path: Path
) -> None:
    made = tmp_path / "kernels.fatbin"

    complaint = compile_with_nvcc(nvcc, kernel_folder / f"{file}.cu", nvcc_architectures, made)

    assert complaint == ""
    assert made.stat().st_size > 0


def test_nvcc_rejects_a_broken_kernel(nvcc: str, kernel_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "broken.cu"
    file.write_text(BROKEN.replace("include/mats.cuh", str(kernel_folder / "include" / "mats.cuh")))

    complaint = compile_with_nvcc(nvcc, file, [OLDEST], tmp_path / "broken.fatbin")

    assert "no_such_name" in complaint


def find_nvrtc() -> Any:
    """CuPy's binding of NVRTC; it needs the package nvidia-cuda-nvrtc and no driver."""
    return pytest.importorskip("cupy.cuda", reason="NO CUPY: the kernels were not compiled with NVRTC").nvrtc


def compile_with_nvrtc(text: str, name: str, architecture: int) -> tuple[bytes, str]:
    """The machine code and the compiler's log; the code is empty when it did not compile."""
    nvrtc = find_nvrtc()
    program = nvrtc.createProgram(text, name, (), ())
    # 177: a helper that this file does not use; in a header it is none, in a self-contained text it is.
    options = (f"--gpu-architecture=sm_{architecture}", "--std=c++17", "--diag-suppress=177")
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError:
        return b"", nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


@pytest.fixture(scope="module")
def nvrtc_architectures() -> list[int]:
    return [one for one in find_nvrtc().getSupportedArchs() if one >= OLDEST]


@pytest.mark.parametrize("file", kernel_files())
def test_nvrtc_compiles_for_every_architecture(file: str, nvrtc_architectures: list[int]) -> None:
    text = kernel_source(file)
    expected = [kernel.name for kernel in kernels().values() if kernel.file == file]
    wrong = {}

    for architecture in nvrtc_architectures:
        code, log = compile_with_nvrtc(text, f"{file}.cu", architecture)
        missing = [name for name in expected if name.encode() + b"\0" not in code]
        if missing or log.strip(" \n\0"):
            wrong[architecture] = (missing, log)

    assert nvrtc_architectures
    assert wrong == {}


def test_nvrtc_rejects_a_broken_kernel() -> None:
    text = kernel_source(kernel_files()[0]) + BROKEN.partition("\n")[2]

    code, log = compile_with_nvrtc(text, "broken.cu", OLDEST)

    assert code == b""
    assert "no_such_name" in log


def test_every_kernel_file_is_part_of_the_cpu_build(kernel_folder: Path) -> None:
    text = (kernel_folder / "native" / "flavour.inc").read_text()

    missing = [file for file in kernel_files() if f'"../{file}.cu"' not in text]

    assert missing == []
