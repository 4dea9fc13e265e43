"""Memory of simulated devices lent to another process: shared memory that is gone when the last process is.

The driver of a GPU lends what was allocated long before. Here the pages of a buffer are replaced, in their place, by
those of an unnamed file with the same content, which the other process opens through ``/proc``: nothing is left
behind, however the two end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from mats.device import Buffer, DeviceError, OutOfMemory
from mats.devices._library import allocate, release

_NAME = "mats lent memory"
_MAP_FIXED = 0x10
_PAGE = mmap.PAGESIZE
_FIELDS = ("process", "file", "inode", "offset", "card")


@dataclass(frozen=True, slots=True)
class _Exported:
    """Whole pages of this process from ``start`` on, which lie in an open file."""

    start: int
    size: int
    file: int

    def holds(self, buffer: Buffer) -> bool:
        return self.start <= buffer.address and buffer.address + buffer.size <= self.start + self.size

    def touches(self, buffer: Buffer) -> bool:
        return self.start < buffer.address + buffer.size and buffer.address < self.start + self.size


@dataclass(frozen=True, slots=True)
class _Opened:
    """Whole pages of this process that are those of another one's card."""

    start: int
    length: int
    card: int


class SimLending:
    """Implements :class:`mats.peer.lending.Lending` for memory that was allocated by the simulator.

    ``card``: whose memory it is. ``proc`` is where the system shows the files of other processes.
    """

    def __init__(self, card: int = 0, proc: Path = Path("/proc")) -> None:
        self._card, self._proc = card, proc
        self._exported: list[_Exported] = []
        self._opened: dict[int, _Opened] = {}

    def card_of(self, buffer: Buffer) -> int | None:
        """Whose memory it is, where it is a piece of what is open here."""
        for address, opened in self._opened.items():
            if address <= buffer.address and buffer.address + buffer.size <= opened.start + opened.length:
                return opened.card
        return None

    def export(self, buffer: Buffer) -> bytes:
        """The handle is JSON that names this process' open file, its number as a file, and where in it to begin."""
        held = next((each for each in self._exported if each.holds(buffer)), None)
        if held is None:
            if any(each.touches(buffer) for each in self._exported):
                raise DeviceError(f"a part of the {buffer.size} bytes at {buffer.address:#x} is lent already")
            held = _replace_pages(buffer)
            self._exported.append(held)
        values = (os.getpid(), held.file, os.fstat(held.file).st_ino, buffer.address - held.start, self._card)
        return json.dumps(dict(zip(_FIELDS, values, strict=True))).encode("ascii")

    def withdraw(self, buffer: Buffer) -> None:
        """The memory stays as it is for this process, and whoever has opened it keeps it until it closes."""
        for held in [each for each in self._exported if each.holds(buffer)]:
            self._exported.remove(held)
            os.close(held.file)

    def open(self, handle: bytes, size: int) -> Buffer:
        process, number, inode, offset, card = _read_handle(handle)
        path = self._proc / str(process) / "fd" / str(number)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise DeviceError(
                f"memory that process {process} lent cannot be opened: {error.strerror or error}"
            ) from None
        try:
            state = os.fstat(file)
            before = offset % _PAGE
            if state.st_ino != inode or size <= 0 or offset + size > state.st_size:
                raise DeviceError(f"memory that process {process} lent is not what its handle says")
            length = -(-(before + size) // _PAGE) * _PAGE
            start = _room(length)
            _map_file(start, length, file, offset - before)
        finally:
            os.close(file)
        self._opened[start + before] = _Opened(start, length, card)
        return Buffer(start + before, size)

    def close(self, buffer: Buffer) -> None:
        opened = self._opened.pop(buffer.address, None)
        if opened is None:
            raise DeviceError(f"no lent memory is open at {buffer.address:#x}: it was closed before")
        release(opened.start, opened.length)


def _replace_pages(buffer: Buffer) -> _Exported:
    """Put a file's pages in the place of the buffer's, with their content."""
    start = buffer.address // _PAGE * _PAGE
    size = -(-(buffer.address + buffer.size - start) // _PAGE) * _PAGE
    try:
        file = os.memfd_create(_NAME, os.MFD_CLOEXEC)
    except (AttributeError, OSError) as error:
        raise DeviceError(f"memory can be lent on Linux alone: {error}") from None
    try:
        os.ftruncate(file, size)
        content = memoryview((ctypes.c_char * size).from_address(start)).cast("B")
        written = 0
        while written < size:
            written += os.pwrite(file, content[written:], written)
        _map_file(start, size, file, 0)
    except OSError as error:
        os.close(file)
        raise OutOfMemory(f"the machine that simulates cannot lend {size} bytes: {error.strerror or error}") from None
    except BaseException:
        os.close(file)
        raise
    return _Exported(start, size, file)


def _room(length: int) -> int:
    start, _ = allocate(length)
    if not start:
        raise OutOfMemory("the machine that simulates has no memory left")
    return start


def _map_file(start: int, size: int, file: int, offset: int) -> None:
    """Replace mapped pages of this process by those of a file, shared with whoever else has it open."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (*(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),)
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if libc.mmap(start, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset) != start:
        raise OutOfMemory(f"{size} bytes cannot be shared: {os.strerror(ctypes.get_errno())}")


def _read_handle(handle: bytes) -> tuple[int, int, int, int, int]:
    values: list[int] = []
    with contextlib.suppress(ValueError, TypeError, KeyError):
        data = json.loads(handle)
        values = [data[name] for name in _FIELDS]
    if len(values) != len(_FIELDS) or not all(type(value) is int and value >= 0 for value in values):
        raise DeviceError("the handle of lent memory is none of a simulated device")
    process, number, inode, offset, card = values
    return process, number, inode, offset, card
