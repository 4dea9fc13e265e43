"""What is built is what stands in the tree: a wheel from the sdist, made without a compiler, file by file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOMS = {"mats/": "mats/", "probes/": "mats/probes/", "kernels/": "mats/kernels/", "reports/": "mats/reports/"}
"""Folder of the tree -> folder of the wheel."""

BUILD_ONLY = ("kernels/native/*", "mats/sources/mock_nvml/*.[ch]")
"""Read by the compiler when the wheel is built, of no use afterwards."""

NOT_IN_SDIST = (".gitignore", ".gitattributes")


@pytest.fixture(scope="module")
def distributions(root: Path, project_files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it, on a machine whose compiler does not work."""
    copy = tmp_path_factory.mktemp("tree")
    for name in project_files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, copy / name)
    made = tmp_path_factory.mktemp("dist")
    environment = os.environ | {"CC": "no-such-compiler", "CXX": "no-such-compiler"}
    outcome = subprocess.run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(made), str(copy)],
        env=environment,
        cwd=made,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout[-2000:] + outcome.stderr[-2000:]
    return made


def wheel_path(name: str) -> str:
    folder = name.split("/")[0] + "/"
    return ROOMS[folder] + name.removeprefix(folder)


def test_the_wheel_holds_the_tree(distributions: Path, project_files: list[str]) -> None:
    (wheel,) = distributions.glob("*.whl")
    expected = {
        wheel_path(name)
        for name in project_files
        if name.startswith(tuple(ROOMS)) and not any(fnmatch(name, pattern) for pattern in BUILD_ONLY)
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == expected


@pytest.mark.parametrize(
    "pattern", ["mats/py.typed", "mats/probes/__init__.py", "mats/kernels/*.cu*", "mats/kernels/include/*"]
)
def test_the_wheel_holds_what_is_read_at_run_time(distributions: Path, pattern: str) -> None:
    (wheel,) = distributions.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert any(fnmatch(name, pattern) for name in names)


def test_the_sdist_holds_the_project(distributions: Path, project_files: list[str]) -> None:
    (sdist,) = distributions.glob("*.tar.gz")

    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    assert sorted(set(project_files) - held - set(NOT_IN_SDIST)) == []


def test_the_command_is_declared(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()

    assert "mats = mats.cli.main:run" in text
