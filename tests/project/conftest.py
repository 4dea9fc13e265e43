"""What the tests about the project itself share: where the checkout is, and which files belong to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

IGNORED_FOLDERS = {".git", ".venv", "build", "dist", "mats-runs", "__pycache__", "gpu_mats.egg-info"}


def list_files(root: Path) -> list[str]:
    """The project's files, relative to ``root``: what git tracks or would track; in an unpacked sdist, all there is."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return sorted(
        name
        for name in names
        if not IGNORED_FOLDERS.intersection(Path(name).parts)
        and not any(part.startswith(".") and part.endswith("_cache") for part in Path(name).parts)
        and (root / name).is_file()
    )


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project_files(root: Path) -> list[str]:
    return list_files(root)
