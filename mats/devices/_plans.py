"""Plans of the simulator: a geometry of a memory and the faults in it.

Built-in plans carry the names of the fault catalogue. ``sim:stuck_dq`` uses the default geometry,
``sim:stuck_dq@hbm3-5`` another one. Geometries follow JEDEC's organisations (sector, DQ lines per channel); the
address hash and the page shuffle are made from a seed, since no vendor publishes them. Source of the catalogue:
what memory testers' users report, and JEDEC's organisations of GDDR and HBM.
"""

from __future__ import annotations

import difflib
import random
from dataclasses import dataclass, field, replace

from mats.devices._fabric_plans import FABRICS, FabricPlan
from mats.devices._sim_link import HEALTHY_LINK, SimLink
from mats.probe import UsageError

ALL = (1 << 64) - 1
"""Matches every channel, bank, row, column, sector or word."""

MIB = 1 << 20
SECTOR = 32
"""Bytes of the smallest piece of memory that is read or written at once."""
FAULT_KINDS = (
    "stuck_bits",
    "flip_bits",
    "random_lane",
    "invert_lane",
    "constant_words",
    "alias",
    "wrong_row",
    "lost_write",
    "decay",
    "couple",
    "disturb",
    "damaged",
    "upset",
    "core",
    "slow",
)
"""In the order of FaultKind in kernels/include/faults.hpp."""
SLOWER = 1.47
"""How much later the slow plans answer; the figure of the reports from which the latency test was asked for."""
MOST_FAULTS = 31
"""Of one plan: the model keeps a bit for each in a 32-bit mask."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a simulated memory is laid out. ``dq_period``: a data line returns every so many bits of a burst."""

    name: str
    channel_bits: int
    groups: int
    banks: int
    row_bytes: int
    dq_period: int
    title: str

    @property
    def channels(self) -> int:
        return self.groups << self.channel_bits


GEOMETRIES = {
    geometry.name: geometry
    for geometry in (
        Geometry("gddr6-128", 3, 1, 4, 512, 16, "GDDR6, 128 bit: 8 channels"),
        Geometry("gddr6-256", 4, 1, 4, 512, 16, "GDDR6, 256 bit: 16 channels"),
        Geometry("gddr6-384", 3, 3, 4, 512, 16, "GDDR6, 384 bit: 24 channels"),
        Geometry("hbm2-4", 5, 1, 4, 512, 64, "HBM2, 4 stacks: 32 channels"),
        Geometry("hbm3-5", 4, 5, 4, 512, 32, "HBM3, 5 stacks: 80 channels"),
        Geometry("hbm3-6", 4, 6, 4, 512, 32, "HBM3, 6 stacks: 96 channels"),
    )
}
DEFAULT_GEOMETRY = "hbm3-5"


PHYSICAL_PAGES = 4096
"""Physical 2 MiB pages among which the simulated memory's pages are scattered (8 GiB)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sector lies; ``column`` in sectors."""

    channel: int
    bank: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The address hash and the page shuffle of one simulated card: made from a seed, as no vendor publishes theirs."""

    geometry: Geometry
    masks: tuple[int, ...]
    pages: tuple[int, ...]
    """The physical page of each of the card's pages."""

    def place(self, sector: int) -> Place:
        """Where a sector (number = page x 65536 + sector within the page) lies. As Model::place in C++."""
        physical = self.pages[sector >> 16] * 2 * MIB + (sector & 0xFFFF) * 32
        bits = sum(((physical & mask).bit_count() & 1) << i for i, mask in enumerate(self.masks))
        channel = ((physical >> 12) % self.geometry.groups) << self.geometry.channel_bits | bits
        local = (physical >> 8) // self.geometry.channels * 256 + (physical & 255)
        row = local // self.geometry.row_bytes
        return Place(
            channel, row % self.geometry.banks, row // self.geometry.banks, local % self.geometry.row_bytes // 32
        )


def layout(geometry: Geometry, capacity: int, seed: int) -> Layout:
    """The layout of a card of ``capacity`` bytes: the masks are linearly independent within a page's address bits."""
    draw = random.Random(f"layout {geometry.name} {seed}")
    masks: list[int] = []
    span: set[int] = {0}
    while len(masks) < geometry.channel_bits:
        low = draw.randrange(1, 1 << 13)
        if low in span:  # dependent on the others: two channels would never be told apart inside a page
            continue
        span |= {low ^ other for other in span}
        masks.append(low << 8 | draw.randrange(1 << 12) << 21)
    pages = draw.sample(range(PHYSICAL_PAGES), capacity // (2 * MIB))
    return Layout(geometry, tuple(masks), tuple(pages))


@dataclass(frozen=True, slots=True)
class SimFault:
    """One fault of the model; see FaultKind in kernels/include/faults.hpp for what each kind does."""

    kind: str
    mask: int = ALL
    value: int = 0
    threshold: int = 0
    probability: float = 1.0
    after: float = 0.0
    channel: int = ALL
    bank: int = ALL
    row: int = ALL
    column: int = ALL
    sector: int = ALL
    word: int = ALL
    page: int = ALL
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A simulated memory: capacity in bytes, peak in bytes a second, faults, and what the device itself shows.

    ``slow_after``/``slow_factor``: the bandwidth falls by the factor after so many simulated seconds.
    ``spilled``: memory is served from somewhere else: allocations do not show, bandwidth is a share of the peak.
    ``corrupt_counters``: the tester's own counters are damaged. ``fabric``: there are several such cards, joined so.
    """

    name: str
    summary: str
    geometry: Geometry
    capacity: int = 32 * MIB
    peak: float = 4e9
    seed: int = 1
    faults: tuple[SimFault, ...] = ()
    slow_after: float = 0.0
    slow_factor: float = 1.0
    spilled: bool = False
    corrupt_counters: bool = False
    temperature: float = 45.0
    link: SimLink = HEALTHY_LINK
    fabric: FabricPlan | None = None


@dataclass(frozen=True, slots=True)
class _Seeded:
    """Draws the place of a fault from a seed."""

    layout: Layout
    capacity: int
    random: random.Random = field(repr=False)

    def place(self) -> Place:
        """A place that exists on this card: drawn as a sector."""
        return self.layout.place(self.sector())

    def channel(self) -> int:
        return self.place().channel

    def sector(self) -> int:
        return self.random.randrange(self.capacity // 32)

    def bit(self) -> int:
        return 1 << self.random.randrange(64)

    def line(self) -> int:
        """One data line: its bits in a 64-bit word."""
        period = self.layout.geometry.dq_period
        return sum(1 << bit for bit in range(self.random.randrange(period), 64, period))

    def lane(self) -> int:
        """One byte lane of each 32-bit word (of each 64-bit word where a line returns every 64 bits)."""
        width = max(32, self.layout.geometry.dq_period)
        byte = self.random.randrange(width // 8)
        return sum(0xFF << (8 * byte + shift) for shift in range(0, 64, width))


_SUMMARIES = {
    "healthy": "nothing is wrong",
    "stuck_cell": "one bit of one word always reads the same",
    "weak_retention": "bits of some words are lost when not rewritten for half a second",
    "stuck_dq": "one data line of one channel always reads the same",
    "flaky_dq": "one data line of one channel flips now and then on reads",
    "dbi_line": "eight bits of one byte lane of one channel are inverted now and then",
    "byte_lane": "one byte lane of one channel reads at random",
    "dead_channel": "one channel answers all ones",
    "address_alias": "two addresses share each cell: an address line is stuck",
    "wrong_row": "reads of one channel are now and then served from another row",
    "lost_write": "writes are now and then dropped, a burst at a time",
    "coupling": "a rising bit forces a bit of another word",
    "row_disturb": "many reads of neighbouring rows flip bits of a row",
    "failing_row": "one row of one bank of one channel is damaged",
    "failing_column": "one bit of one column of one bank of one channel reads always the same",
    "failing_bank": "one bank of one channel is damaged",
    "soft_upset": "one bit flips once",
    "core_fault": "one multiprocessor compares wrong; the memory is whole",
    "counter_corrupt": "the tester's own counters are damaged",
    "silent_retry": "data are whole, bandwidth falls in the middle of the run",
    "spilled": "the memory is not the device's own: slow, and allocations do not show",
    "fake_capacity": "half of the capacity does not exist: addresses wrap around",
    "slow_region": "one page of 2 MiB answers 1.47 times as late as the rest; data are whole",
    "slow_channel": "one channel answers 1.47 times as late as the others; data are whole",
    "host_link_slow": "under load the link to the host runs at Gen1 x4 where it could run at Gen4 x16",
    "host_link_corrupt": "bits are turned on the way between card and host; both memories are whole",
    "host_link_errors": "the link to the host sends packets again and counts corrected errors; data are whole",
    **{name: summary for name, (summary, _fabric) in FABRICS.items()},
}


def plan_names() -> tuple[tuple[str, str], ...]:
    """Built-in plans: name and summary."""
    return tuple(_SUMMARIES.items())


def built_in(name: str, *, geometry: str = DEFAULT_GEOMETRY, seed: int = 1, capacity: int = 32 * MIB) -> Plan:
    """The built-in plan of that name. Raises UsageError for an unknown plan or geometry."""
    if name not in _SUMMARIES:
        near = difflib.get_close_matches(name, _SUMMARIES, n=1, cutoff=0.7)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UsageError(
            f"no plan named {name!r}{hint}: `mats explain sim` lists them, or give a plan file ending in .toml"
        )
    if geometry not in GEOMETRIES:
        raise UsageError(f"no geometry named {geometry!r}: use one of {', '.join(GEOMETRIES)}")
    shape = GEOMETRIES[geometry]
    plan = Plan(name, _SUMMARIES[name], shape, capacity=capacity, seed=seed, fabric=fabric_of(name))
    at = _Seeded(layout(shape, capacity, seed), capacity, random.Random(f"{name} {geometry} {seed}"))
    own: dict[str, dict[str, object]] = {
        "counter_corrupt": {"corrupt_counters": True},
        "silent_retry": {"slow_after": 0.4, "slow_factor": 0.7},
        "spilled": {"spilled": True},
        "host_link_slow": {"link": SimLink(reached_generation=1, reached_width=4)},
        "host_link_corrupt": {"link": SimLink(flips=4.0)},
        "host_link_errors": {"link": SimLink(replays=0.01)},
    }
    return replace(plan, faults=_faults(name, at), **own.get(name, {}))  # type: ignore[arg-type]


def fabric_of(name: str) -> FabricPlan | None:
    """The cards and links of a built-in plan; None of one card."""
    return FABRICS[name][1] if name in FABRICS else None


def _faults(name: str, at: _Seeded) -> tuple[SimFault, ...]:
    if name == "stuck_cell":
        bit = at.bit()
        return (
            SimFault("stuck_bits", bit, bit * at.random.randrange(2), sector=at.sector(), word=at.random.randrange(4)),
        )
    if name == "weak_retention":
        return tuple(
            SimFault(
                "decay", bit, bit * at.random.randrange(2), after=0.5, sector=at.sector(), word=at.random.randrange(4)
            )
            for bit in (at.bit() for _ in range(24))
        )
    if name == "stuck_dq":
        line = at.line()
        return (SimFault("stuck_bits", line, line * at.random.randrange(2), channel=at.channel()),)
    if name == "flaky_dq":
        line = at.line()
        bit = 1 << at.random.choice([i for i in range(64) if line >> i & 1])
        return (SimFault("flip_bits", bit, probability=0.01, channel=at.channel()),)
    if name == "dbi_line":
        lane = at.lane()
        low = 0xFFFFFFFF if at.random.randrange(2) else 0xFFFFFFFF << 32
        return (SimFault("invert_lane", lane & low or lane, probability=0.01, channel=at.channel()),)
    if name == "byte_lane":
        return (SimFault("random_lane", at.lane(), probability=0.2, channel=at.channel()),)
    if name == "dead_channel":
        return (SimFault("constant_words", value=at.random.choice([ALL, 0, 0x0BADAC000BADAC00]), channel=at.channel()),)
    if name == "address_alias":
        return (SimFault("alias", value=1 << at.random.randrange(8, 21)),)
    if name == "wrong_row":
        return (SimFault("wrong_row", probability=0.002, channel=at.channel()),)
    if name == "lost_write":
        return (SimFault("lost_write", probability=0.0005),)
    return _cell_array_faults(name, at)


def _cell_array_faults(name: str, at: _Seeded) -> tuple[SimFault, ...]:
    if name == "coupling":
        return tuple(_coupled(at) for _ in range(6))
    if name == "row_disturb":
        return (SimFault("disturb", threshold=1000, channel=at.channel()),)
    place = at.place()
    if name == "failing_row":
        damage = at.random.getrandbits(32)
        return (SimFault("damaged", value=damage, channel=place.channel, bank=place.bank, row=place.row),)
    if name == "failing_column":
        bit = at.bit()
        level, word = bit * at.random.randrange(2), at.random.randrange(4)
        return (
            SimFault("stuck_bits", bit, level, channel=place.channel, bank=place.bank, column=place.column, word=word),
        )
    if name == "failing_bank":
        return (SimFault("damaged", value=at.random.getrandbits(32), channel=place.channel, bank=place.bank),)
    if name == "soft_upset":
        # The third write of a sector belongs to a test that reads it back before it writes again.
        return (SimFault("upset", at.bit(), threshold=3, sector=at.sector()),)
    if name == "core_fault":
        return (SimFault("core", value=at.random.randrange(4), probability=1e-4),)
    if name == "fake_capacity":
        return (SimFault("alias", value=at.capacity // 2),)
    if name == "slow_region":
        return (SimFault("slow", page=at.sector() * SECTOR // (2 * MIB), factor=SLOWER),)
    if name == "slow_channel":
        return (SimFault("slow", channel=at.channel(), factor=SLOWER),)
    return ()


def _coupled(at: _Seeded) -> SimFault:
    """An aggressor and a victim behind it: an ascending write of everything repairs what the aggressor did."""
    aggressor = at.random.randrange(at.capacity // 64)
    victim = at.random.randrange(aggressor * 4 + 1024, at.capacity // 8)
    bit = at.bit()
    return SimFault(
        "couple", bit, victim, threshold=at.random.randrange(2), sector=aggressor, word=at.random.randrange(4)
    )
