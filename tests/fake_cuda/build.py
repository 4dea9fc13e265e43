"""Builds the fake driver and the one CuPy module that has to be rebuilt for it; prints the folder they are in.

Everything goes to ``build/fake_cuda/`` and is kept by a hash of what it was made from, so that only the first run takes
its minute. Exit code 77: it cannot be built here (the reason is printed), which is a reason to skip and not a failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DRIVER = (
    "state.cpp",
    "device.cpp",
    "memory.cpp",
    "lending.cpp",
    "streams.cpp",
    "execution.cpp",
    "cubin.cpp",
    "errors.cpp",
)
MODULE = "cupy_backends/cuda/api/runtime"
SOURCES = {".cu", ".cuh", ".hpp", ".cpp", ".inc"}
DRIVER_SOURCES = {".cpp", ".h"}
LIBRARY = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
NOT_SUPPORTED = 801
CANNOT = 77
TIME_LIMIT_S = 600


class CannotBuildError(Exception):
    """Something that the build needs is not on this machine; the text says what."""


def build() -> Path:
    """The folder with libcuda.so.1, libkernels.so and runtime.so. Raises CannotBuildError."""
    _check_platform()
    store = Path(os.environ.get("MATS_FAKE_CUDA_BUILD") or ROOT / "build" / "fake_cuda")
    store.mkdir(parents=True, exist_ok=True)
    headers = _cuda_headers()
    driver, kernels = _digest(_bytes(HERE.iterdir(), DRIVER_SOURCES)), _digest(_bytes(_kernel_sources(), SOURCES))
    module = _digest([_compiler(), *(str(part).encode() for part in (*_cupy(), sys.version))])
    with _locked(store / "lock"):
        parts = (
            _cached(store, f"driver-{driver}", lambda folder: _build_driver(folder, headers)),
            _cached(store, f"kernels-{kernels}", _build_kernels),
            _cached(store, f"module-{module}", lambda folder: _build_module(folder, headers)),
        )
        whole = _digest(part.name.encode() for part in parts)
        return _cached(store, f"whole-{whole}", lambda folder: _join(folder, headers, parts))


def _kernel_sources() -> Iterable[Path]:
    return (HERE / "kernels.cpp", *(ROOT / "kernels").rglob("*"))


def _check_platform() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise CannotBuildError("the fake CUDA driver is built on Linux on x86-64 only")
    if not shutil.which("g++"):
        raise CannotBuildError("no C++ compiler: install g++ (Debian, Ubuntu: apt install g++)")
    if importlib.util.find_spec("Cython") is None:
        raise CannotBuildError("no Cython: install the extra 'test'")
    _cupy()


def _cupy() -> tuple[str, int]:
    """Version of CuPy and the CUDA generation its wheel is for."""
    for generation in (13,):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(f"cupy-cuda{generation}x"), generation
    raise CannotBuildError("no CuPy for CUDA 13: install the extra 'test'")


def _cuda_headers() -> Path:
    """Where cuda.h and cuda_runtime_api.h are: the packages of the extra 'test', else a toolkit."""
    installed = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "include")
    for folder in (installed, Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")):
        if all((folder / name).is_file() for name in ("cuda.h", "cuda_runtime_api.h", "crt/host_defines.h")):
            return folder
    raise CannotBuildError("no CUDA headers: install nvidia-cuda-runtime and nvidia-cuda-crt (the extra 'test')")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time; the others then find it done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:16]


def _compiler() -> bytes:
    return _run(["g++", "--version"]).encode()


def _bytes(paths: Iterable[Path], suffixes: set[str]) -> list[bytes]:
    """What a library is made from: the files, the compiler and this script."""
    files = sorted(path for path in paths if path.suffix in suffixes and path.is_file())
    return [_compiler(), Path(__file__).read_bytes(), *(path.read_bytes() for path in files)]


def _cached(store: Path, name: str, make: Callable[[Path], None]) -> Path:
    """``store/name``, made in a folder beside it and moved there when it is whole."""
    done = store / name
    if not done.is_dir():
        with tempfile.TemporaryDirectory(dir=store) as scratch:
            folder = Path(scratch, name)
            folder.mkdir()
            make(folder)
            folder.rename(done)
    return done


def _build_driver(folder: Path, headers: Path) -> None:
    """libcuda.so.1. Unfortified: leaving a faulty kernel is a jump that fortification refuses."""
    sources = [str(HERE / name) for name in DRIVER]
    library = ["-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1"), "-ldl"]
    _run([*LIBRARY, "-g1", "-U_FORTIFY_SOURCE", f"-isystem{headers}", *sources, *library])


def _build_kernels(folder: Path) -> None:
    """libkernels.so."""
    _run([*LIBRARY, "-fvisibility=hidden", str(HERE / "kernels.cpp"), "-o", str(folder / "libkernels.so"), "-pthread"])


def _join(folder: Path, headers: Path, parts: tuple[Path, Path, Path]) -> None:
    """runtime.so: CuPy's runtime module, unchanged, over the fake; and the libraries beside it."""
    driver, kernels, module = parts
    runtime, stubs = folder / "runtime.o", folder / "stubs.cpp"
    compiler = ["g++", "-std=c++17", "-O1", "-fPIC"]
    _run([*compiler, "-Wall", "-Wextra", f"-isystem{headers}", "-c", str(HERE / "runtime.cpp"), "-o", str(runtime)])
    wanted = _symbols(module / "module.o", "U") - _symbols(runtime, "T")
    stubs.write_text("".join(f'extern "C" int {name}() {{ return {NOT_SUPPORTED}; }}\n' for name in sorted(wanted)))
    shutil.copy(driver / "libcuda.so.1", folder)
    shutil.copy(kernels / "libkernels.so", folder)
    inputs = [str(part) for part in (stubs, module / "module.o", runtime, folder / "libcuda.so.1")]
    _run([*compiler, "-shared", *inputs, "-o", str(folder / "runtime.so"), "-Wl,-Bsymbolic"])


def _symbols(path: Path, kind: str) -> set[str]:
    """Names of the CUDA runtime's functions that an object file defines (T) or wants (U)."""
    rows = (line.split() for line in _run(["nm", str(path)]).splitlines())
    return {row[-1] for row in rows if row[-2] == kind and row[-1].startswith("cuda")}


def _build_module(folder: Path, headers: Path) -> None:
    """module.o: runtime.pyx of CuPy's own source distribution, as CuPy builds it."""
    source = folder / "source"
    _fetch_source(source)
    script = folder / "translate.py"
    script.write_text(_TRANSLATE.format(generation=_cupy()[1], module=MODULE))
    _run([sys.executable, str(script)], cwd=source)
    include = [f"-I{sysconfig.get_path('include')}", f"-I{headers}", f"-I{HERE / 'include'}"]
    output = ["-c", f"{MODULE}.cpp", "-o", str(folder / "module.o")]
    _run(["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-DNDEBUG", *include, *output], cwd=source)
    shutil.rmtree(source)


_TRANSLATE = """
from Cython.Build import cythonize
from setuptools import Extension

cythonize(
    [Extension("cupy_backends.cuda.api.runtime", ["{module}.pyx"], language="c++")],
    language_level=3,
    compiler_directives={{
        "embedsignature": True,
        "c_api_binop_methods": True,
        "binding": False,
        "warn.deprecated.IF": False,
        "freethreading_compatible": True,
    }},
    compile_time_env={{
        "CUPY_USE_CUDA_PYTHON": False,
        "CUPY_CUFFT_STATIC": False,
        "CUPY_CYTHON_VERSION": "3.2",
        "CUPY_CUDA_VERSION": {generation}000,
        "CUPY_HIP_VERSION": 0,
    }},
)
"""


def _fetch_source(folder: Path) -> None:
    """The part of CuPy's source distribution that is translated, of the installed version. Raises CannotBuildError."""
    version, _ = _cupy()
    download = folder.parent / "download"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    chosen = ["--no-binary", "cupy", "--no-deps", "--dest", str(download), f"cupy=={version}"]
    environment = {**os.environ, "CUPY_INSTALL_USE_STUB": "1"}
    try:
        _run([*pip, *chosen], env=environment)
    except RuntimeError as error:
        raise CannotBuildError(f"the source distribution of CuPy {version} cannot be had: {error}") from error
    top = f"cupy-{version}/"
    with tarfile.open(next(download.glob("*.tar.gz"))) as archive:
        members = [member for member in archive if member.name.startswith(f"{top}cupy_backends/")]
        for member in members:
            member.name = member.name.removeprefix(top)
        archive.extractall(folder, members, filter="data")
    shutil.rmtree(download)


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What the command printed. Raises RuntimeError with its last lines."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    if done.returncode:
        said = (done.stderr or done.stdout)[-4000:]
        raise RuntimeError(f"{' '.join(command[:4])} ... failed ({done.returncode}):\n{said}")
    return done.stdout


def main() -> int:
    try:
        print(build())
    except CannotBuildError as error:
        print(error)
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main())
