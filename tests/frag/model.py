"""An independent model of a caching allocator, for the truth about a snapshot: it does what it is asked.

It is played, not calculated: what emptying the cache returns is learnt by emptying a copy, and the largest tensor by
trying. Sizes and rules of torch's allocator without expandable segments: requests are rounded to 512 bytes; up to 1 MiB
they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, else from a segment of their own in units of
2 MiB; the smallest free block that fits is taken and split where enough is left; neighbours that are free are joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

MIB = 1 << 20
USED, PENDING, FREE = "active_allocated", "active_pending_free", "inactive"


class NoMemory(Exception):
    """The device has no more, even after the cache was emptied."""


@dataclass
class Piece:
    size: int
    state: str = FREE
    asked: int = 0


@dataclass
class Range:
    address: int
    small: bool
    stream: int
    pool: tuple[int, int]
    pieces: list[Piece]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass
class Model:
    """``capacity``: bytes of the device; ``events``: what torch would have recorded."""

    capacity: int
    ranges: list[Range] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    next_address: int = 0x7F0000000000

    @property
    def reserved(self) -> int:
        return sum(each.size for each in self.ranges)

    @property
    def free_on_device(self) -> int:
        return self.capacity - self.reserved

    def had(self, wanted: int, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> Piece:
        """A piece for a request. Raises NoMemory."""
        size = max(512, -(-wanted // 512) * 512)
        small = size <= MIB
        found = self._best(size, small, stream, pool)
        if found is None:
            self._segment(self._segment_size(size), small, stream, pool)
            found = self._best(size, small, stream, pool)
            assert found is not None
        place, index = found
        piece = place.pieces[index]
        left = piece.size - size
        if left >= 512 if small else left > MIB:
            place.pieces.insert(index + 1, Piece(left))
            piece.size = size
        piece.state, piece.asked = USED, wanted
        return piece

    def _best(self, size: int, small: bool, stream: int, pool: tuple[int, int]) -> tuple[Range, int] | None:
        fitting = [
            (piece.size, place.address, place, index)
            for place in self.ranges
            if (place.small, place.stream, place.pool) == (small, stream, pool)
            for index, piece in enumerate(place.pieces)
            if piece.state == FREE and piece.size >= size
        ]
        if not fitting:
            return None
        _, _, place, index = min(fitting, key=lambda each: each[:2])
        return place, index

    @staticmethod
    def _segment_size(size: int) -> int:
        if size <= MIB:
            return 2 * MIB
        return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    def _segment(self, size: int, small: bool, stream: int, pool: tuple[int, int]) -> None:
        if size > self.free_on_device:
            self.empty()
        if size > self.free_on_device:
            raise NoMemory
        self.ranges.append(Range(self.next_address, small, stream, pool, [Piece(size)]))
        self.next_address += size + 64 * MIB

    def empty(self) -> int:
        """Gives back what can be; the bytes."""
        before = self.reserved
        self.ranges = [
            each for each in self.ranges if each.pool != (0, 0) or len(each.pieces) > 1 or each.pieces[0].state != FREE
        ]
        return before - self.reserved

    def given_back(self, piece: Piece, pending: bool = False) -> None:
        """A piece is freed, at once or as soon as a stream has done with it."""
        piece.state, piece.asked = (PENDING if pending else FREE), 0
        for place in self.ranges:
            kept: list[Piece] = []
            for each in place.pieces:
                if kept and kept[-1].state == each.state == FREE:
                    kept[-1].size += each.size
                else:
                    kept.append(each)
            place.pieces = kept

    def largest(self) -> int:
        """The largest request on the default stream that a copy of this can serve, by trying.

        From 10 MiB on what is larger is harder; below, a request may fail where one of 10 MiB would not.
        """
        for low, high in ((10 * MIB, self.capacity + 512), (MIB + 512, 10 * MIB)):
            if self.copy().serves(low):
                while high - low > 512:
                    middle = (low + high) // 1024 * 512
                    low, high = (middle, high) if self.copy().serves(middle) else (low, middle)
                return low
        return 0

    def copy(self) -> Model:
        ranges = [replace(place, pieces=[replace(piece) for piece in place.pieces]) for place in self.ranges]
        return Model(self.capacity, ranges, [], self.next_address)

    def serves(self, wanted: int) -> bool:
        try:
            self.had(wanted)
        except NoMemory:
            return False
        return True

    def snapshot(self) -> dict[str, Any]:
        """As torch 2.12 would write it; free blocks keep a stale size."""
        return {
            "segments": [
                {
                    "device": 0,
                    "address": place.address,
                    "total_size": place.size,
                    "stream": place.stream,
                    "segment_type": "small" if place.small else "large",
                    "segment_pool_id": place.pool,
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [
                        {"size": piece.size, "state": piece.state, "requested_size": piece.asked or 77, "frames": []}
                        for piece in place.pieces
                    ],
                }
                for place in self.ranges
            ],
            "device_traces": [self.events],
        }
