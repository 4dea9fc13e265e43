"""Runs a Python module or file with the real CuPy on the fake driver: ``launch.py FOLDER MODULE [ARGUMENT ...]``.

FOLDER is what build.py printed. The driver is loaded first and for the whole process; of CuPy one module is taken from
FOLDER in place of the installed one, which has NVIDIA's runtime within it and cannot work on a driver that is not real.
``MATS_FAKE_CUDA`` may hold commands for the start (see README.md).
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

MODULE = "cupy_backends.cuda.api.runtime"
REAL_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu")


class RuntimeFinder:
    """Finds CuPy's runtime module in the folder of the build, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, self._path)
        return importlib.util.spec_from_file_location(name, self._path, loader=loader)


def install(folder: Path) -> None:
    """Makes this process use the fake. Raises RuntimeError beside a real driver or when CuPy is there already."""
    for path in REAL_DRIVER:
        if Path(path).exists():
            raise RuntimeError(f"the fake CUDA driver does not load beside a real one ({path})")
    if "cupy_backends" in sys.modules:
        raise RuntimeError("the fake CUDA driver must be installed before CuPy is imported")
    os.environ.setdefault("MATS_FAKE_CUDA", "")
    os.environ.setdefault("MATS_FAKE_CUDA_KERNELS", str(folder / "libkernels.so"))
    os.environ.setdefault("CUPY_CACHE_DIR", str(folder / "cupy"))
    ctypes.CDLL(str(folder / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    sys.meta_path.insert(0, RuntimeFinder(folder / "runtime.so"))


def main(arguments: Sequence[str]) -> None:
    folder, module, *rest = arguments
    install(Path(folder))
    sys.argv = [module, *rest]
    if module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
