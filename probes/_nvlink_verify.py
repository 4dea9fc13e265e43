"""Whether what is sent is what arrives: by copies, and by kernels that load and store over the link, both ways at once.

A copy that is right proves nothing for loads and stores, which go another way through the GPU; nor does either prove
what a library does with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mats.device import Buffer
from mats.fabric import Copy, Fabric

from ._errors import PER_LAUNCH, REPORT_WORDS, raw_records, words
from ._nvlink_bench import PATIENCE, TILE, Seat, at_once
from ._nvlink_seen import Check, name_of
from ._patterns import Pattern, rotated

_NAMED = 4
"""Words that are named one by one for each way to move data."""


def verify_pair(fabric: Fabric, seats: tuple[Seat, Seat], draw: int, loads: bool) -> dict[str, list[Check]]:
    """Checks by the label of the member that sends. ``loads``: both reach the other's memory with kernels as well."""
    found: dict[str, list[Check]] = {seat.label: [] for seat in seats}
    for sender, check in zip(seats, _copies(fabric, seats, draw), strict=True):
        found[sender.label].append(check)
    if loads:
        for sender, check in zip(seats, _stores(seats, draw + 2), strict=True):
            found[sender.label].append(check)
        for sender, check in zip(reversed(seats), _loads(seats, draw + 4), strict=True):
            found[sender.label].append(check)
    return found


def verify_own(seat: Seat, draw: int) -> Check:
    """Whether a member's own memory keeps what it holds: else nothing could be said of a link."""
    pattern = rotated(draw)
    _write(seat, seat.sink, pattern)
    return _verify(seat, seat.sink, pattern, "its own memory")


def _copies(fabric: Fabric, seats: tuple[Seat, Seat], draw: int) -> list[Check]:
    """Each sends its pattern to the other; what was there before is the other one's complement."""
    patterns = (rotated(draw), rotated(draw + 1))
    for place, seat in enumerate(seats):
        _write(seat, seat.source, patterns[place])
        _write(seat, seat.sink, patterns[1 - place].complement())
    copies = [
        Copy(seats[place].number, seats[place].source, seats[1 - place].number, seats[1 - place].sink)
        for place in (0, 1)
    ]
    fabric.exchange(copies, 1, PATIENCE)
    return [_verify(seats[1 - place], seats[1 - place].sink, patterns[place], "copies") for place in (0, 1)]


def _stores(seats: tuple[Seat, Seat], draw: int) -> list[Check]:
    """Each writes into the other's memory with a kernel, at one moment; each then looks at its own."""
    patterns = (rotated(draw), rotated(draw + 1))
    for place, seat in enumerate(seats):
        _write(seat, seat.sink, patterns[1 - place].complement())
    at_once(
        [
            (name_of(seat.label), partial(_write, seat, seats[1 - place].sink, patterns[place]))
            for place, seat in enumerate(seats)
        ]
    )
    return [_verify(seats[1 - place], seats[1 - place].sink, patterns[place], "stores") for place in (0, 1)]


def _loads(seats: tuple[Seat, Seat], draw: int) -> list[Check]:
    """Each reads the other's memory with a kernel, at one moment; what it finds was sent by the other."""
    patterns = (rotated(draw), rotated(draw + 1))
    for place, seat in enumerate(seats):
        _write(seat, seat.sink, patterns[place])
        _clear(seat)
    at_once(
        [
            (name_of(seat.label), partial(_compare, seat, seats[1 - place].sink, patterns[1 - place]))
            for place, seat in enumerate(seats)
        ]
    )
    return [_collect(seat, seat.sink.size, "loads") for seat in seats]


def _arguments(pattern: Pattern) -> dict[str, int]:
    return {"first": 0, "kind": pattern.kind, "a": pattern.a, "b": pattern.b, "mask": pattern.mask, "descending": 0}


def _write(seat: Seat, buffer: Buffer, pattern: Pattern) -> float:
    return seat.device.launch("pattern_write", buffer.size // TILE, data=buffer, **_arguments(pattern))


def _clear(seat: Seat) -> None:
    seat.device.copy(seat.book.report, bytes(8 * REPORT_WORDS))
    seat.device.copy(seat.book.pages, bytes(seat.book.pages.size))


def _compare(seat: Seat, buffer: Buffer, pattern: Pattern) -> float:
    book = seat.book
    return seat.device.launch(
        "pattern_verify",
        buffer.size // TILE,
        data=buffer,
        **_arguments(pattern),
        report=book.report,
        pages=book.pages,
        records=book.records,
        capacity=PER_LAUNCH,
    )


def _verify(seat: Seat, buffer: Buffer, pattern: Pattern, by: str) -> Check:
    _clear(seat)
    _compare(seat, buffer, pattern)
    return _collect(seat, buffer.size, by)


def _collect(seat: Seat, size: int, by: str) -> Check:
    """What the last comparison of a member has found."""
    failed, recorded = words(seat.device.fetch(seat.book.report, 0, 16))
    return Check(by, size, 8 * failed, tuple(_lines(seat, min(recorded, _NAMED), failed)) if failed else ())


def _lines(seat: Seat, count: int, failed: int) -> Sequence[str]:
    raw = sorted(raw_records(seat.device.fetch(seat.book.records, 0, 64 * count)), key=lambda record: record.word)
    lines = [
        f"word at byte {8 * record.word:,}: 0x{record.expected:016x} was sent, 0x{record.actual:016x} arrived "
        f"({(record.expected ^ record.actual).bit_count()} bits)"
        for record in raw
    ]
    return [*lines, f"and {failed - count:,} more words"] if failed > count else lines
