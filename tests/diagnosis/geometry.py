"""Memory organisations for the tests: channels through a XOR hash, banks, rows, and shuffled 2 MiB pages.

Independent of the product code on purpose: what the classifier may know of a word is its index in the
tested space; which channel, bank and row hold it is decided here by seeded hashes that it never sees.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

GRANULE = 256
"""Bytes that stay in one channel."""
PAGE = 2 << 20
BANKS = 16


@dataclass(frozen=True)
class Organisation:
    """What a data sheet says: channels, data lines of a channel, and bytes of a row in one bank."""

    name: str
    power: int
    """Channels that are selected by the XOR hash, a power of two."""
    odd: int
    """The factor of the channel count that is not."""
    lines: int
    row_bytes: int

    @property
    def channels(self) -> int:
        return self.power * self.odd


ORGANISATIONS = (
    Organisation("GDDR6 128-bit", 8, 1, 16, 2048),
    Organisation("GDDR6 192-bit", 4, 3, 16, 2048),
    Organisation("GDDR6 256-bit", 16, 1, 16, 2048),
    Organisation("GDDR6 384-bit", 8, 3, 16, 2048),
    Organisation("HBM2 4 stacks", 64, 1, 64, 1024),
    Organisation("HBM3 5 stacks", 32, 5, 32, 1024),
    Organisation("HBM3 6 stacks", 64, 3, 32, 1024),
)


@dataclass(frozen=True)
class Place:
    """Where a 256-byte granule lies in the memory."""

    channel: int
    bank: int
    row: int
    column: int


@dataclass
class Memory:
    """A tested space of ``pages`` virtual 2 MiB pages on shuffled physical ones, seen through a seeded hash."""

    organisation: Organisation
    pages: int
    rng: random.Random
    _masks: list[int] = field(init=False)
    _bank_masks: list[int] = field(init=False)
    _physical: list[int] = field(init=False)
    _virtual: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        bits = self.organisation.power.bit_length() - 1
        self._masks = [self.rng.getrandbits(24) for _ in range(bits)]
        self._bank_masks = [self.rng.getrandbits(12) for _ in range(4)]
        base = self.rng.randrange(1 << 6) * self.pages
        self._physical = [base + page for page in range(self.pages)]
        self.rng.shuffle(self._physical)
        self._virtual = {physical: page for page, physical in enumerate(self._physical)}

    @property
    def words(self) -> int:
        return self.pages * PAGE // 8

    def physical(self, word: int) -> int:
        """The physical byte address of a word."""
        page, offset = divmod(word * 8, PAGE)
        return self._physical[page] * PAGE + offset

    def word(self, physical: int) -> int | None:
        """The tested word at a physical byte address, or None outside the tested space."""
        page = self._virtual.get(physical // PAGE)
        return None if page is None else (page * PAGE + physical % PAGE) // 8

    def place(self, word: int) -> Place:
        o = self.organisation
        upper, low = divmod(self.physical(word) // GRANULE, o.power)
        local, odd = divmod(upper, o.odd)
        channel = (low ^ self._hash(upper)) + o.power * odd
        rest, column = divmod(local, o.row_bytes // GRANULE)
        row, bank = divmod(rest, BANKS)
        return Place(channel, bank ^ self._bank_hash(row), row, column)

    def granule(self, place: Place) -> int | None:
        """The first word of a granule, or None outside the tested space."""
        o = self.organisation
        bank = place.bank ^ self._bank_hash(place.row)
        local = (place.row * BANKS + bank) * (o.row_bytes // GRANULE) + place.column
        odd, low = divmod(place.channel, o.power)
        upper = local * o.odd + odd
        return self.word((upper * o.power + (low ^ self._hash(upper))) * GRANULE)

    def _hash(self, upper: int) -> int:
        return sum(((upper & mask).bit_count() & 1) << bit for bit, mask in enumerate(self._masks))

    def _bank_hash(self, row: int) -> int:
        return sum(((row & mask).bit_count() & 1) << bit for bit, mask in enumerate(self._bank_masks))

    def random_word(self) -> int:
        return self.rng.randrange(self.words)

    def words_where(self, count: int, *, channel: int) -> list[int]:
        """About ``count`` words in whole sectors of a channel."""
        o = self.organisation
        found: set[int] = set()
        tries = 0
        while len(found) < count and tries < 200 * count:
            tries += 1
            near = self.place(self.random_word())
            column = self.rng.randrange(o.row_bytes // GRANULE)
            start = self.granule(Place(channel, near.bank, near.row, column))
            if start is None:
                continue
            sector = start + 4 * self.rng.randrange(GRANULE // 32)
            found.update(range(sector, sector + 4))
        return sorted(found)

    def row_words(self, near: int) -> list[int]:
        """Every tested word of the row that holds the word ``near``."""
        place = self.place(near)
        starts = (
            self.granule(Place(place.channel, place.bank, place.row, column))
            for column in range(self.organisation.row_bytes // GRANULE)
        )
        return sorted(word for start in starts if start is not None for word in range(start, start + GRANULE // 8))

    def column_words(self, near: int) -> list[int]:
        """The tested words at one place of all rows of the bank that holds ``near``."""
        place = self.place(near)
        return [word for word in self.bank_words(place.channel, place.bank, place.column) if (word - near) % 32 == 0]

    def bank_words(self, channel: int, bank: int, column: int) -> list[int]:
        """The tested words of one granule of every row of a bank."""
        row_bytes = self.organisation.row_bytes * self.organisation.channels * BANKS
        rows = {page * PAGE // row_bytes + step for page in self._physical for step in range(PAGE // row_bytes + 2)}
        starts = (self.granule(Place(channel, bank, row, column)) for row in rows)
        return sorted(word for start in starts if start is not None for word in range(start, start + GRANULE // 8))

    def line_mask(self, line: int) -> int:
        """The bits of a 64-bit word that one data line of a channel carries."""
        return sum(1 << bit for bit in range(line, 64, self.organisation.lines))

    def lane_masks(self, lane: int) -> list[int]:
        """The bytes of a 64-bit word that one byte lane of a channel carries, one mask a beat."""
        return [0xFF << bit for bit in range(8 * lane, 64, self.organisation.lines)]
