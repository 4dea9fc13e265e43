"""Opens a saved file safely: gzip and zip are unpacked in a stream up to a stated maximum, others are refused by name.

Whatever a file holds, opening it ends in texts or in one sentence; nothing is written, no member's name is ever used as
a path, and neither memory nor time grows beyond the maxima below.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1 << 20


class EvidenceError(ValueError):
    """The file cannot be read as evidence; one sentence says what it is and what to do."""


class _TooLarge(EvidenceError):
    """A maximum is passed: nothing of the file is taken, whatever came before."""


@dataclass(frozen=True, slots=True)
class Maxima:
    """Bytes and counts beyond which a file is refused."""

    packed: int = 64 * MEBIBYTE
    """Of a compressed file."""
    text: int = 256 * MEBIBYTE
    """Of all text together, unpacked: 100 times the largest report of a machine with 8 GPUs."""
    members: int = 1000
    """Files of an archive; of its directory no more than a mebibyte is read."""
    streams: int = 10_000
    """Streams of one gzip file: a bug report is made of hundreds."""


USUAL = Maxima()


@dataclass(frozen=True, slots=True)
class Saved:
    """One text. ``name``: the file, and the member behind a colon; ``cut``: why it is not whole, or empty."""

    name: str
    text: str
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """``notes``: members that hold no text, a sentence each. ``huge``: a text too large to be taken whole."""

    texts: tuple[Saved, ...]
    notes: tuple[str, ...] = ()
    huge: bool = False


_PACKERS = {
    b"\xfd7zXZ\x00": "an xz file: unpack it with unxz first",
    b"BZh": "a bzip2 file: unpack it with bunzip2 first",
    b"\x28\xb5\x2f\xfd": "a zstd file: unpack it with unzstd first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first",
    b"Rar!": "a RAR archive: unpack it first",
    b"\x7fELF": "a program",
    b"%PDF": "a PDF: save the output of the tool as text",
    b"\x89PNG": "a picture: save the output of the tool as text",
    b"\xff\xd8\xff": "a picture: save the output of the tool as text",
}
_CHUNK = 64 * 1024
_LOOKED_AT = 64 * 1024
_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1b")) + b"\x7f"


def open_saved(path: Path, maxima: Maxima = USUAL) -> Opened:
    """Every text of a file. Raises EvidenceError."""
    data, size = _bytes(path, maxima)
    name = str(path)
    if size > maxima.text or len(data) > maxima.text:
        if _is_binary(data[:_LOOKED_AT]):
            raise EvidenceError(f"{name}: is binary, not text ({_size(max(size, len(data)))})")
        return Opened((Saved(name, _decoded(data[:_LOOKED_AT], name)),), huge=True)
    return open_bytes(data, name, maxima)


def open_bytes(data: bytes, name: str, maxima: Maxima = USUAL) -> Opened:
    """As :func:`open_saved`, of bytes that are already there."""
    if not data.strip():
        raise EvidenceError(f"{name}: is empty")
    if data[:2] == b"\x1f\x8b":
        text, cut = _gunzip(data, name, maxima.text, maxima)
        if text[:2] in (b"\x1f\x8b", b"PK"):
            raise EvidenceError(f"{name}: is packed twice; unpack it once first")
        return Opened((Saved(name, _decoded(text, name), cut),))
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _unzip(data, name, maxima)
    return Opened((Saved(name, _decoded(data, name)),))


def _bytes(path: Path, maxima: Maxima) -> tuple[bytes, int]:
    """The bytes and the size the system tells; of a file that is too large the beginning only."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: {_why(error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise EvidenceError(f"{path}: is a folder; name the files in it")
        if not stat.S_ISREG(status.st_mode):
            raise EvidenceError(f"{path}: is a pipe, a socket or a device, not a saved file")
        try:
            head = file.read(_LOOKED_AT)
            packed = head[:2] in (b"\x1f\x8b", b"PK")
            if packed and status.st_size > maxima.packed:
                raise EvidenceError(
                    f"{path}: is {_size(status.st_size)} packed, more than the {_size(maxima.packed)} that are read"
                )
            if status.st_size > maxima.text:
                return head, status.st_size
            return head + file.read(maxima.text + 1 - len(head)), status.st_size
        except OSError as error:
            raise EvidenceError(f"{path}: {_why(error)}") from None


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return "is no name of a file"
    known = {
        errno.ENOENT: "there is no such file",
        errno.EACCES: "there is no permission to read it",
        errno.ELOOP: "its symbolic links lead in a circle",
        errno.EISDIR: "is a folder; name the files in it",
        errno.ENAMETOOLONG: "its name is too long",
        errno.ENXIO: "is a socket, not a saved file",
    }
    return known.get(error.errno or 0, f"cannot be read ({error.strerror})")


def _gunzip(data: bytes, name: str, room: int, maxima: Maxima) -> tuple[bytes, str]:
    """What a gzip file holds, also one made of many streams; the second value says why it is not whole."""
    unpacked = bytearray()
    streams, place, rest = 0, 0, b""
    unpacker = zlib.decompressobj(wbits=31)
    while True:
        if not rest:
            rest, place = data[place : place + _CHUNK], place + _CHUNK
        if not rest:
            return _kept(unpacked, name, "the packed file ends early" if not unpacker.eof else "")
        try:
            unpacked += unpacker.decompress(rest, room - len(unpacked) + 1)
        except zlib.error:
            return _kept(unpacked, name, "the packed file is damaged")
        if len(unpacked) > room:
            raise _TooLarge(f"{name}: unpacks to more than the {_size(maxima.text)} that are read")
        rest = unpacker.unconsumed_tail
        if unpacker.eof:
            rest = unpacker.unused_data
            streams += 1
            if not rest.strip(b"\0") and not data[place : place + 1]:
                return bytes(unpacked), ""
            if streams > maxima.streams:
                raise _TooLarge(f"{name}: is made of more than {maxima.streams} packed streams")
            rest = rest or data[place : place + _CHUNK]
            place = place if unpacker.unused_data else place + _CHUNK
            unpacker = zlib.decompressobj(wbits=31)


def _kept(unpacked: bytearray, name: str, cut: str) -> tuple[bytes, str]:
    if not unpacked:
        raise EvidenceError(f"{name}: {cut or 'the packed file is empty'}, and nothing of it could be unpacked")
    return bytes(unpacked), cut


def _unzip(data: bytes, name: str, maxima: Maxima) -> Opened:
    _check_directory(data, name, maxima)
    texts: list[Saved] = []
    notes: list[str] = []
    room = maxima.text
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                label = f"{name}:{_printable(member.filename)}"
                try:
                    content, cut = _member(archive, member, label, room, maxima)
                    texts.append(Saved(label, _decoded(content, label), cut))
                    room -= len(content)
                except _TooLarge:
                    raise
                except EvidenceError as skipped:
                    notes.append(str(skipped))
    except EvidenceError:
        raise
    except Exception as error:  # zipfile raises many kinds for damaged archives
        raise EvidenceError(f"{name}: is a damaged zip archive ({type(error).__name__})") from None
    if not texts:
        raise EvidenceError(f"{name}: holds no text" + (f" ({notes[0]})" if notes else ""))
    return Opened(tuple(texts), tuple(notes))


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str, room: int, maxima: Maxima
) -> tuple[bytes, str]:
    if member.flag_bits & 1:
        raise EvidenceError(f"{label}: is encrypted")
    content, cut = bytearray(), ""
    try:
        with archive.open(member) as file:
            for chunk in _chunks(file.read):
                content += chunk
                if len(content) > room:
                    raise _TooLarge(f"{label}: unpacks to more than the {_size(maxima.text)} that are read")
    except EvidenceError:
        raise
    except NotImplementedError:
        raise EvidenceError(f"{label}: is packed in a way that is not known here") from None
    except Exception as error:  # a damaged member: what came before is kept
        cut = f"the packed file is damaged ({type(error).__name__})"
    whole = bytes(content)
    if not whole.strip():
        raise EvidenceError(f"{label}: is empty" + (f", {cut}" if cut else ""))
    if whole[:2] == b"\x1f\x8b":
        whole, cut = _gunzip(whole, label, room, maxima)
    if whole[:4] == b"PK\x03\x04" or _is_binary(whole[:_LOOKED_AT]):
        raise EvidenceError(f"{label}: is {_packer(whole) or 'binary, not text'}")
    return whole, cut


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(_CHUNK):
        yield chunk


def _check_directory(data: bytes, name: str, maxima: Maxima) -> None:
    """Refuses an archive whose directory alone would fill the memory, before it is read."""
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - 65_557))
    if end < 0 or len(data) < end + 22:
        raise EvidenceError(f"{name}: is a zip archive without its end: it was cut")
    count, size = struct.unpack_from("<HI", data, end + 10)
    if count > maxima.members or size > MEBIBYTE or b"PK\x06\x07" in data[max(0, end - 20) : end]:
        raise _TooLarge(f"{name}: holds more than {maxima.members} files; name those that matter")


def _decoded(data: bytes, name: str) -> str:
    """Text of UTF-8 or UTF-16 with plain line ends and without colours. Raises EvidenceError for what is no text."""
    packer = _packer(data)
    if packer:
        raise EvidenceError(f"{name}: is {packer}")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    elif _looks_like_utf16(data[:4096]):
        text = data.decode("utf-16-le", errors="replace")
    elif _is_binary(data[:_LOOKED_AT]):
        raise EvidenceError(f"{name}: is binary, not text ({_size(len(data))})")
    else:
        text = data.decode("utf-8-sig", errors="replace")
    text = text.replace("\r\n", "\n").replace("\0", "")
    if not text.strip():
        raise EvidenceError(f"{name}: is empty")
    return _COLOURS.sub("", text) if "\x1b[" in text else text


def _packer(data: bytes) -> str:
    if data[257:262] == b"ustar":
        return "a tar archive: unpack it first"
    if data[:4] == b"PK\x03\x04":
        return "a zip archive within another: unpack it first"
    return next((what for magic, what in _PACKERS.items() if data.startswith(magic)), "")


def _is_binary(head: bytes) -> bool:
    """More than one byte in ten that no text has; a log may hold a few zeros from a crash."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or _looks_like_utf16(head[:4096]):
        return False
    return len(head) - len(head.translate(None, _NO_TEXT)) > len(head) // 10


def _looks_like_utf16(head: bytes) -> bool:
    """UTF-16 without a mark: every other byte is zero and the rest is plain."""
    even, odd = head[::2], head[1::2]
    return len(head) >= 16 and odd.count(0) > 0.9 * len(odd) and even.count(0) < 0.02 * len(even)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def _size(count: int) -> str:
    return f"{count / MEBIBYTE:.0f} MiB" if count >= MEBIBYTE else f"{count} bytes"
