"""The tables of the link test: each pair in a row, and matrices of bandwidth, latency and topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mats.model import AbsenceKind, Absent, Cell, Chart, Column, Measurement, Quantity, Reading, Table

from ._health_bus import link_text, path
from ._health_card import Card
from ._health_links import active_links
from ._nvlink_seen import BYTE, COUNT, RATE, RATIO, SECOND, GroupSeen, PairSeen, Picture, Seen
from ._nvlink_ways import Kind, Way

Ways = Mapping[tuple[str, str], Way]
_ENDS = (Column("from"), Column("to"))
_AT_A_GLANCE = 12
"""Of more ways the weakest come first: a terminal shows the first rows only."""


def tables(picture: Picture, ways: Ways, seen: Sequence[Seen]) -> tuple[Table, ...]:
    """Those that have a row."""
    made = (
        _bandwidth(picture.pairs),
        _latency(picture.pairs),
        _topology(picture.pairs, ways),
        _pairs(picture.pairs, ways, seen),
        _together(picture.groups),
        _cards(picture, seen),
        *picture.tables,
        _mismatches(picture.pairs),
    )
    return tuple(table for table in made if table.rows)


def _cell(reading: Reading, digits: int | None = None) -> Cell:
    if isinstance(reading, Absent):
        return reading
    return reading.value if digits is None else round(reading.value, digits)


def _pairs(pairs: Sequence[PairSeen], ways: Ways, seen: Sequence[Seen]) -> Table:
    """Everything of a pair in one row."""
    shares = {part.labels: part.reading for part in seen if isinstance(part, Measurement) and part.name == "link.share"}
    columns = (
        *_ENDS,
        Column("way"),
        Column("target", RATE),
        Column("one_way", RATE),
        Column("share", RATIO),
        Column("both_ways", RATE),
        Column("through_host", RATE),
        Column("copy_latency", SECOND),
        Column("load_latency", SECOND),
        Column("verified", BYTE),
        Column("changed", BYTE),
    )
    many = len(pairs) > _AT_A_GLANCE
    ordered = sorted(pairs, key=lambda pair: _share_of(shares.get(pair.labels))) if many else pairs
    rows = tuple(_row(pair, ways[pair.start, pair.end], shares) for pair in ordered)
    title = "What each way carries, and what it should" + (", the weakest first" if many else "")
    return Table("pairs", title, columns, rows)


def _share_of(reading: Reading | None) -> float:
    return float(reading.value) if isinstance(reading, Quantity) else 0.0


def _row(pair: PairSeen, way: Way, shares: Mapping[tuple[tuple[str, str], ...], Reading]) -> tuple[Cell, ...]:
    unchecked = Absent(AbsenceKind.NOT_TESTED, "the data were not verified")
    checked = bool(pair.checks)
    verified: Cell = sum(check.verified for check in pair.checks) if checked else unchecked
    changed: Cell = sum(check.mismatched for check in pair.checks) if checked else unchecked
    return (
        pair.start,
        pair.end,
        _way_cell(pair, way),
        _cell(way.target.bandwidth),
        _cell(pair.one_way.reading),
        _cell(shares.get(pair.labels, pair.one_way.reading), 4),
        _cell(pair.both_ways.reading),
        _cell(pair.through_host.reading),
        _cell(pair.copy_latency.reading),
        _cell(pair.load_latency.reading),
        verified,
        changed,
    )


def _way_cell(pair: PairSeen, way: Way) -> Cell:
    if way.kind is Kind.UNKNOWN:
        return way.target.bandwidth if isinstance(way.target.bandwidth, Absent) else way.name
    return way.name if pair.access is not False else f"{way.name}, no P2P"


def _bandwidth(pairs: Sequence[PairSeen]) -> Table:
    """Of a pair without direct access, what goes through the host."""
    rows = tuple(
        (pair.start, pair.end, _cell((pair.through_host if pair.access is False else pair.one_way).reading))
        for pair in pairs
        if isinstance((pair.through_host if pair.access is False else pair.one_way).reading, Quantity)
    )
    chart = Chart.matrix("from", "to", "bandwidth")
    columns = (*_ENDS, Column("bandwidth", RATE))
    return Table("bandwidth", "Bandwidth one way, from (row) to (column)", columns, rows, chart)


def _latency(pairs: Sequence[PairSeen]) -> Table:
    rows = tuple(
        (pair.start, pair.end, _cell(pair.load_latency.reading))
        for pair in pairs
        if isinstance(pair.load_latency.reading, Quantity)
    )
    title = "One load over the link, by the GPU of the row from the memory of the column's"
    return Table("latency", title, (*_ENDS, Column("latency", SECOND)), rows, Chart.matrix("from", "to", "latency"))


def _topology(pairs: Sequence[PairSeen], ways: Ways) -> Table:
    rows = tuple(
        (pair.start, pair.end, _way_cell(pair, ways[pair.start, pair.end]))
        for pair in pairs
        if ways[pair.start, pair.end].kind is not Kind.UNKNOWN
    )
    title = "How the GPUs are joined: NV4 is 4 NVLinks; PIX, PXB, PHB, NODE, SYS are PCIe, the nearer the earlier"
    return Table("topology", title, (*_ENDS, Column("way")), rows, Chart.matrix("from", "to", "way"))


_GROUPS = {
    "link.into_one": "all to one",
    "link.from_one": "one to all",
    "link.ring": "round a ring, the slowest",
}


def _together(groups: Sequence[GroupSeen]) -> Table:
    """Copies of many GPUs at one moment."""
    rows = tuple(
        (
            _GROUPS.get(group.name, group.name),
            ", ".join(f"{what} {value}" for what, value in group.labels),
            _cell(group.taken.reading),
        )
        for group in groups
    )
    columns = (Column("copies"), Column("gpus"), Column("bandwidth", RATE))
    return Table("together", "Copies of several GPUs at one moment", columns, rows)


_GROWN = ("nvlink_replays", "nvlink_recoveries", "nvlink_crc_errors", "pcie_replays")


def _cards(picture: Picture, seen: Sequence[Seen]) -> Table:
    """The links of each GPU, and by how much its counters grew during a test of our own."""
    grown = {
        (part.name, dict(part.labels).get("gpu", "")): part.reading
        for part in seen
        if isinstance(part, Measurement) and part.name.startswith("link.")
    }
    untold = Absent(AbsenceKind.NOT_TESTED, "no counter was read before and after")
    columns = (
        Column("gpu"),
        Column("name"),
        Column("pcie"),
        Column("links", COUNT),
        Column("links_down", COUNT),
        *(Column(name.removeprefix("nvlink_"), COUNT) for name in _GROWN if picture.live),
    )
    rows = tuple(
        (
            label,
            card.name or "not told",
            _pcie_cell(card),
            _cell(active_links(card)),
            _cell(grown.get(("link.down", label), untold)),
            *(_cell(grown.get((f"link.{name}", label), untold)) for name in _GROWN if picture.live),
        )
        for label, card in picture.cards.items()
    )
    return Table(
        "gpus", "Links of each GPU" + (", and what its counters grew by" if picture.live else ""), columns, rows
    )


def _pcie_cell(card: Card) -> Cell:
    """``Gen4 x16``, with a word where it was at rest."""
    now = path(card).now
    if isinstance(now, Absent):
        return now
    return link_text(now) if card.gpu.pcie.loaded is True else f"{link_text(now)} at rest"


def _mismatches(pairs: Sequence[PairSeen]) -> Table:
    rows = tuple(
        (pair.start, pair.end, check.by, line) for pair in pairs for check in pair.checks for line in check.where
    )
    columns = (*_ENDS, Column("by"), Column("word"))
    return Table("mismatches", "Words that arrived as others", columns, rows)
