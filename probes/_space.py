"""The tested space: what is allocated, in chunks, and where every other byte of the device is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mats.device import Buffer, Device, MemoryState, OutOfMemory
from mats.model import Absent, Quantity
from mats.probe import UsageError

PAGE = 2 << 20
TILE = 64 << 10
WORD = 8
LARGEST_CHUNK = 1 << 30
PILOT = 64 << 20
"""The time that so much takes tells that of a chunk."""
CHUNK_SECONDS = 0.25
"""A chunk is had in about this time or less, where smaller ones can be had sooner."""
FULL = 0.9
"""A share of the device from which on all of it counts as asked for."""
OWN = 4 << 20
"""Room for the tester's own reports, in bytes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One allocation of the tested space; ``first`` is the index of its first word."""

    buffer: Buffer
    first: int

    @property
    def tiles(self) -> int:
        return self.buffer.size // TILE

    @property
    def words(self) -> int:
        return self.buffer.size // WORD


@dataclass(frozen=True, slots=True)
class Request:
    """How much is to be tested, in bytes, and why not more. ``limited``: the user asked for a part only.

    ``own``: what the tester's reports take of the device.
    """

    wanted: int
    headroom: int
    limited: bool
    own: int = OWN


def request(kind: str, state: MemoryState, size: int | None, share: float | None, reserve: int | None) -> Request:
    """What to test of a device. Raises UsageError when it cannot be had by any means."""
    headroom = default_headroom(kind, state.total) if reserve is None else reserve
    own = 0 if kind == "sim" else OWN  # a simulated card keeps the tester's reports outside of its memory
    if size is not None and share is not None:
        raise UsageError("--size and --coverage both say how much to test: give one of them")
    if size is not None:
        if size > state.total:
            raise UsageError(
                f"--size asks for {size >> 20} MiB, the device has {state.total >> 20} MiB in all: ask for less"
            )
        if size < PAGE:
            raise UsageError(f"--size must be at least 2 MiB, not {size / (1 << 20):g} MiB")
        return Request(size // PAGE * PAGE, headroom, True, own)
    if share is not None:
        if not 0 < share <= 1:
            raise UsageError(f"--coverage must be above 0 and at most 1 (or 100 %), not {share:g}")
        return Request(int(share * state.total) // PAGE * PAGE, headroom, share < FULL, own)
    free = max(state.free - headroom - own, 0)
    if kind == "host":  # other programs live here: half of what is available is a guest's share
        return Request(min(free, state.free // 2) // PAGE * PAGE, headroom, True, own)
    return Request(free // PAGE * PAGE, headroom, False, own)


def default_headroom(kind: str, total: int) -> int:
    """Bytes left free so that the device's other users go on working."""
    if kind == "sim":
        return 0
    if kind == "host":
        return max(1 << 30, total // 10)
    return max(256 << 20, total // 100)


def allocate_chunks(
    device: Device, wanted: int, stopping: Callable[[], str] = lambda: ""
) -> tuple[tuple[Chunk, ...], str]:
    """Chunks of together at most ``wanted`` bytes, and why it is less (empty when it is not).

    Large chunks first; when the device refuses one, smaller ones, down to one page: a fragmented device is still
    tested nearly whole. ``stopping`` is asked ahead of each: a machine takes seconds to find hundreds of GiB.
    """
    size = _soon_had(device, chunk_size(wanted))
    chunks: list[Chunk] = []
    got, refused = 0, ""
    while wanted - got >= PAGE:
        if why := stopping():
            return tuple(chunks), why
        size = min(size, (wanted - got) // PAGE * PAGE)
        try:
            buffer = device.allocate(size)
        except OutOfMemory as error:
            refused = str(error)
            if size <= PAGE:
                break
            size = max(size // 2 // PAGE * PAGE, PAGE)
            continue
        chunks.append(Chunk(buffer, got // WORD))
        got += size
    return tuple(chunks), refused if wanted - got >= PAGE else ""


def _soon_had(device: Device, size: int) -> int:
    """Of a machine that needs long to find memory, a size so small that it is asked between two whether to stop."""
    if size <= PILOT:
        return size
    began = device.now()
    try:
        pilot = device.allocate(PILOT)
    except OutOfMemory:
        return size
    took = device.now() - began
    device.free(pilot)
    while size > PILOT and took * size / PILOT > CHUNK_SECONDS:
        size //= 2
    return size


def room(kind: str, state: MemoryState, asked: Request) -> int:
    """Bytes that may be allocated. Of a part that was asked for the headroom may go; what the tester needs may not.

    A host ends programs when its memory runs out, so that a tenth of what is available stays free there in any case.
    """
    kept = asked.headroom
    if asked.limited:
        kept = min(kept, state.free // 10) if kind == "host" else 0
    return max(state.free - kept - asked.own, 0)


def chunk_size(wanted: int) -> int:
    """About an eighth of the whole, a power of two from 2 MiB to 1 GiB: enough samples, few launches."""
    size = PAGE
    while size * 2 <= min(wanted // 8, LARGEST_CHUNK):
        size *= 2
    return size


def account(state: MemoryState, tested: int, asked: Request) -> tuple[tuple[str, int], ...]:
    """Bytes of the device that were not tested, by reason; with ``tested`` they add up to its total."""
    parts: list[tuple[str, int]] = []
    used = state.total - state.free
    if isinstance(state.reserved, Quantity) and isinstance(state.others, Quantity):
        reserved = min(int(state.reserved.value), used)
        others = min(int(state.others.value), used - reserved)
        parts += [
            ("driver", reserved),
            ("other processes", others),
            ("in use, not told by whom", used - reserved - others),
        ]
    elif isinstance(state.others, Quantity):
        parts.append(("in use by the system and other processes", used))
    else:
        assert isinstance(state.others, Absent)
        parts.append(("driver and other processes", used))
    left = state.free - tested
    own = min(asked.own, max(left, 0))
    headroom = min(asked.headroom, max(left - own, 0))
    rest = max(left - own - headroom, 0)
    refused = min(rest, max(asked.wanted - tested, 0))
    parts += [("the tester's own reports", own), ("headroom", headroom)]
    parts += [("refused by the device", refused), ("not asked for", rest - refused)]
    return tuple((reason, size) for reason, size in parts if size > 0)
