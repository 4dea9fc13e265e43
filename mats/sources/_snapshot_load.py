"""Memory snapshots of torch as plain data: read without executing anything, and within bounds of time and memory.

A snapshot is a pickle, and a pickle may name any function to be called. What torch writes holds none: dictionaries,
lists, tuples, texts, numbers and None. So every name is refused, whatever it is. What is left is a bomb: a length or a
memo number far above the file's own size makes the reader ask for memory before it looks; that ends at a ceiling.
"""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

SIZE_MAXIMUM = 4 << 30
"""Bytes of a file that are read; what torch writes takes about five times as much in memory."""
_CEILING_BASE, _CEILING_FACTOR = 256 << 20, 16
"""Memory that loading may take beside what the process has, in bytes and as a multiple of the file's size."""


_LIMITING = threading.Lock()
"""The limit is the whole process': of two files read at one moment, the later would take the other's for its own."""


class SnapshotError(ValueError):
    """The file is no snapshot or a damaged one; one sentence says what was found."""


class _PlainData(pickle.Unpickler):
    """Refuses everything that is not plain data."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        name = f"{module_name}.{global_name}"[:80]
        raise SnapshotError(
            f"it names {name!r} to be called, which no snapshot of torch does: nothing was executed and it is not read"
        )

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise SnapshotError("it refers to objects outside of itself, which no snapshot of torch does: it is not read")


def read_snapshot(path: Path, maximum: int = SIZE_MAXIMUM) -> Any:
    """The plain data of a snapshot, as pickle or as JSON. Raises SnapshotError, OSError."""
    size = path.stat().st_size
    if size > maximum:
        raise SnapshotError(f"is {size >> 20} MiB, more than the {maximum >> 20} MiB that are read")
    with path.open("rb") as file:
        head = file.read(64).lstrip()[:1]
        file.seek(0)
        return load(file, size, text=head in (b"{", b"["))  # no pickle begins so


def load(file: IO[bytes], size: int, *, text: bool = False) -> Any:
    """Plain data from an open file of ``size`` bytes. Raises SnapshotError."""
    with _bounded(_CEILING_BASE + _CEILING_FACTOR * size), without_collection():
        try:
            return json.load(file) if text else _PlainData(file).load()
        except SnapshotError:
            raise
        except MemoryError:
            raise SnapshotError("it asks for far more memory than its size explains: it is not read") from None
        except (EOFError, pickle.UnpicklingError) as error:
            raise SnapshotError(f"is no whole pickle: {_short(error)}; it may be cut off") from None
        except RecursionError:
            raise SnapshotError("it is nested deeper than any snapshot of torch: it is not read") from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, UnicodeError) as error:
            what = "JSON" if text else "pickle"
            raise SnapshotError(f"is no {what} that can be read: {_short(error)}") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__


def shown(value: Any) -> str:
    """A value of a file in a few words. What holds other values is named and never written out: written out, a list
    that holds another one twice, and so on thirty times over, is gigabytes, though the file is small.
    """
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 128):
        return repr(str(value)[:40])
    return named(value)


def named(value: Any) -> str:
    """What kind of value it is."""
    kinds = {str: "a text", bytes: "bytes", int: "a number", float: "a number", type(None): "nothing"}
    return kinds.get(type(value), f"a {type(value).__name__}")


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """While inside no garbage is looked for: millions of objects are made and none is any, and the search among them
    takes three times as long as making them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _bounded(more: int) -> Iterator[None]:
    """While inside, the process cannot have ``more`` bytes of address space than now; where that can be set."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        yield
        return
    with _LIMITING:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        ceiling = _address_space() + more
        if hard != resource.RLIM_INFINITY:
            ceiling = min(ceiling, hard)
        if soft != resource.RLIM_INFINITY:
            ceiling = min(ceiling, soft)
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Bytes of address space this process has."""
    import resource

    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        import psutil

        return int(psutil.Process().memory_info().vms)
