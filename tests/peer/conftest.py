from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .bench import Sides, start_parent


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    process = start_parent()
    yield Sides(tmp_path_factory.mktemp("sides"), process)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def sides(parent: Sides) -> Iterator[Sides]:
    """Starts other processes, and ends those that a test has left."""
    yield parent
    parent.end_all()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this user alone whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="mats-") as name:
        yield Path(name)
