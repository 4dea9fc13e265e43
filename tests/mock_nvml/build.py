"""Builds the stand-in for libnvidia-ml.so.1 for a profile, and tells how a process finds it.

A profile of an old driver names symbols that its driver did not have; the linker leaves them out of the library, as if
it were that driver's. Built libraries are kept in ``build/mock_nvml/`` by what they are made of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from mats.sources._mock_profiles import find_profile, read_profile

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "mats" / "sources" / "mock_nvml"
STORE = ROOT / "build" / "mock_nvml"
SOURCES = ("mock_nvml.c", "profile.c", "profile.h")
FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread"),
    *("-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"),
)
LIBRARY = "libnvidia-ml.so.1"


class CannotBuildError(Exception):
    """There is no C compiler on this machine."""


def path_of(profile: str) -> Path:
    """Where a profile is."""
    return find_profile(profile).path


def environment(profile: str | Path) -> dict[str, str]:
    """The environment of a process whose NVML is the profile's. Raises CannotBuildError."""
    found = find_profile(profile) if isinstance(profile, str) else read_profile(profile)
    folder = build(tuple(sorted(found.entries.get(("system", "missing"), "").split())))
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    own = {"MATS_MOCK_NVML": str(found.path), "MATS_MOCK_NVML_PROFILES": str(HERE / "profiles")}
    return {**kept, **own, "LD_LIBRARY_PATH": str(folder)}


def build(missing: tuple[str, ...] = ()) -> Path:
    """The folder of a library without the named symbols. Raises CannotBuildError; a failing compiler is an error."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CannotBuildError("no C compiler is installed")
    parts = [(HERE / name).read_bytes() for name in SOURCES]
    made_of = b"\0".join([*parts, " ".join(FLAGS).encode(), " ".join(missing).encode()])
    folder = STORE / hashlib.sha256(made_of).hexdigest()[:16]
    if not (folder / LIBRARY).exists():
        _compile(compiler, folder, missing)
    return folder


def _compile(compiler: str, folder: Path, missing: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    own = f"{os.getpid()}.tmp"  # two test processes may build at once: the last rename wins, both are the same
    script, built = folder / f"symbols-{own}", folder / f"library-{own}"
    script.write_text(f"{{ global: nvml*; local: {''.join(f'{name}; ' for name in missing)}*; }};\n")
    sources = [str(HERE / name) for name in SOURCES if name.endswith(".c")]
    command = [compiler, *FLAGS, f"-Wl,--version-script={script}", *sources, "-o", str(built)]
    subprocess.run(command, check=True, timeout=120)
    built.rename(folder / LIBRARY)
    script.unlink()
