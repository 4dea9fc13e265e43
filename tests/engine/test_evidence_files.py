"""Files that are none, named as evidence: nobody waits for them, and one sentence says what they are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mats.cli.exits import ExitCode
from mats.model import Observation
from mats.probe import Context, Option, OptionKind
from mats.registry import open_source
from mats.source import Source

from .commands import do
from .fakes import CLEAN, probe, told


def looks(source: Source, _context: Context) -> Observation:
    source.read()
    return CLEAN


FROM = Option("from", OptionKind.EVIDENCE, "Files to look at.")
HEALTH = probe(looks, "health", kinds=("cuda", "file"), options=(FROM,), passive=True)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


@pytest.mark.parametrize(
    ("make", "says"),
    [(pipe, "is a pipe"), (loop, "symbolic links"), (binary, "binary, not text"), (Path.touch, "is empty")],
)
def test_what_is_no_file_of_evidence_is_said_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None], says: str
) -> None:
    make(tmp_path / "saved")
    ended: list[tuple[int, str]] = []

    def work() -> None:
        code, world = do(tmp_path, "health --from saved --quiet", HEALTH, open_source=open_source)
        ended.append((code, told(world)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)

    assert ended, "it waits"
    ((code, sentence),) = ended
    assert code == ExitCode.UNUSABLE
    assert says in sentence and sentence.count("\n") == 1
