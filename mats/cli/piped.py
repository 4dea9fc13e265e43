"""Evidence from standard input or a shell's ``<(...)``: kept in a file for as long as it is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mats.cli.world import World
from mats.probe import UsageError

STANDARD_INPUT = "-"
LARGEST = 4 << 30
"""Bytes; a log does not grow larger, and what never ends must not fill the disk."""
_CHUNK = 1 << 20
_HANDED = re.compile(r"/(?:dev|proc/self)/fd/(\d+)|/dev/stdin")


@contextmanager
def saved_input(files: Sequence[str], world: World) -> Iterator[Mapping[str, str]]:
    """Each file with its name for people; what is a pipe is in a file of its own, which is gone afterwards.

    Raises UsageError.
    """
    if not any(_is_piped(name) for name in files):
        yield {name: name for name in files}
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mats-") as folder:
        yield {_kept(name, Path(folder), world): _shown(name) if _is_piped(name) else name for name in files}


def _is_piped(name: str) -> bool:
    return name == STANDARD_INPUT or (_HANDED.fullmatch(name) is not None and Path(name).is_fifo())


def _shown(name: str) -> str:
    handed = _HANDED.fullmatch(name)
    return f"pipe {handed[1]}" if handed and handed[1] else "standard input"


def _kept(name: str, folder: Path, world: World) -> str:
    """The name of the file in which what comes through the pipe is kept, or the name as it is of what is no pipe."""
    if not _is_piped(name):
        return name
    handed = _HANDED.fullmatch(name)
    kept = folder / ("pipe" + handed[1] if handed and handed[1] else "stdin")
    if kept.exists():
        return str(kept)
    if name != STANDARD_INPUT:
        with open(name, "rb") as pipe:
            _copy(pipe, kept)
        return str(kept)
    stream = world.stdin()
    if stream is None or stream.isatty():
        raise UsageError("- is standard input, and nothing is piped into it: dmesg | mats health --from -")
    _copy(stream, kept)
    return str(kept)


def _copy(stream: BinaryIO, path: Path) -> None:
    left = LARGEST
    with path.open("wb") as file:
        while chunk := stream.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise UsageError(f"more than {LARGEST >> 30} GiB came through the pipe: save the part that matters")
            file.write(chunk)
