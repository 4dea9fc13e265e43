"""Sentences for people: what a target of the user's own means, what was not there and why, what a rate would fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from mats.model import Absent, Measurement, Quantity

from ._health_text import listed, size
from ._nvlink_rates import Fit, fit_nvlink, fit_pcie, gigabytes
from ._nvlink_seen import BYTE, HOST, PairSeen, Picture, Seen, Taken, bound
from ._nvlink_ways import Kind, Way

Ways = Mapping[tuple[str, str], Way]
_LOCAL_MEMORY = 250e-9
"""Below what a load from a GPU's own memory takes (230 to 450 ns, published chains on RTX 3090 to B200)."""
_OVER_NVLINK = 800e-9
"""Below what a load over NVLink was measured at (807 to 825 ns, nvbandwidth 0.10 on HGX H100)."""
_PCIE_AT_MOST = 121e9
"""No PCIe link of 16 lanes carries more (Gen6)."""


def own_words(name: str, taken: Taken, asked: float) -> str:
    """``12.1 GB/s, 36 GB/s were asked for``."""
    value = taken.value or 0
    if name.endswith("bandwidth_share"):
        return f"{gigabytes(value)}, and {gigabytes(asked)} were asked for"
    return f"a load over the link takes {value * 1e9:.0f} ns, and {asked * 1e9:.0f} ns were asked for"


def notes(picture: Picture, ways: Ways, seen: Sequence[Seen]) -> tuple[str, ...]:
    """Every sentence, each once."""
    return tuple(
        dict.fromkeys(
            (
                *picture.notes,
                *_own_target(picture, ways),
                *_no_access(picture.pairs),
                *_fits(picture.pairs, ways),
                *_engines(picture.pairs),
                *_chips(picture.pairs, ways),
                *_above_target(picture.pairs, ways),
                *_loss(picture, seen),
                *_verified(picture),
            )
        )
    )


def _own_target(picture: Picture, ways: Ways) -> Iterator[str]:
    """Where a target of the user's own cannot mean what it seems to."""
    latency, bandwidth = picture.own.latency, picture.own.bandwidth
    if latency is not None and latency < _OVER_NVLINK:
        beyond = (
            "no load over any link can be so quick" if latency < _LOCAL_MEMORY else "no link is known to be so quick"
        )
        yield (
            f"--max-latency-ns {latency * 1e9:g}: {beyond}. A load from a GPU's own L2 takes 110 to 150 ns, from its "
            "own memory 230 to 450 ns, over NVLink through a switch about 810 to 825 ns (H100), over PCIe more."
        )
    if bandwidth is None:
        return
    targets = {
        way.name: float(way.target.bandwidth.value)
        for way in ways.values()
        if isinstance(way.target.bandwidth, Quantity) and not way.target.at_most
    }
    for name, target in targets.items():
        if bandwidth > target:
            yield (
                f"--min-bandwidth-gbps {bandwidth / 1e9:g}: healthy {name} ways of this machine cannot reach it, "
                f"they carry {gigabytes(target)}."
            )
        elif bandwidth < bound("LNK-001") * target:
            yield (
                f"--min-bandwidth-gbps {bandwidth / 1e9:g}: {name} ways pass that though they lost "
                f"{1 - bandwidth / target:.0%} of the {gigabytes(target)} that they should carry; the limits of the "
                "link itself say more."
            )


def _no_access(pairs: Sequence[PairSeen]) -> Iterator[str]:
    """Pairs that do not reach each other, by the reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    gpus = [pair for pair in pairs if HOST not in (pair.start, pair.end)]
    for pair in gpus:
        if pair.access is False:
            by_reason[pair.why].append(f"{pair.start}-{pair.end}")
    for why, names in by_reason.items():
        who = "any pair" if len(names) == len(gpus) else listed(names)
        because = f": {why}" if why else ""
        yield f"NO P2P between {who}{because}. What is copied there goes through the host's memory, over PCIe twice."


def _fits(pairs: Sequence[PairSeen], ways: Ways) -> Iterator[str]:
    """Where no target is known: the least link that could carry what was measured, which is no verdict."""
    groups: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for pair in pairs:
        way = ways[pair.start, pair.end]
        unknown = isinstance(way.target.bandwidth, Absent) and way.kind is not Kind.CHIP
        if pair.one_way.value and pair.access is not False and unknown:
            groups[HOST in (pair.start, pair.end), _direction(pair)].append(pair.one_way.value)
    for (host, direction), rates in groups.items():
        best = max(rates)
        fit = fit_nvlink(best) if not host and best > fit_limit() else fit_pcie(best)
        if fit is None:
            continue
        few = f"{gigabytes(min(rates))} to {gigabytes(best)}" if min(rates) < 0.99 * best else gigabytes(best)
        yield f"{direction}: {few} would be {_fit_words(fit, min(rates), best)}, the least that could carry it."


def fit_limit() -> float:
    """What is more than that goes over no PCIe."""
    return _PCIE_AT_MOST


def _direction(pair: PairSeen) -> str:
    if pair.start == HOST:
        return "Host to GPU"
    return "GPU to host" if pair.end == HOST else "GPU to GPU"


def _fit_words(fit: Fit, least: float, best: float) -> str:
    healthy = bound("LNK-002") <= least / fit.payload
    part = f"{best / fit.payload:.0%} of {gigabytes(fit.payload)}"
    return f"{part} ({' or '.join(fit.names)}), {'as much as a healthy one has' if healthy else 'less than it should'}"


def _engines(pairs: Sequence[PairSeen]) -> Iterator[str]:
    """One way to move data much slower than another over the same link: it is not the link."""
    for pair in pairs:
        if len(pair.engines) < 2:
            continue
        best, worst = (pick(pair.engines, key=lambda each: each[1]) for pick in (max, min))
        if worst[1] < bound("LNK-001") * best[1]:
            yield (
                f"{pair.title[0].upper()}{pair.title[1:]}: {gigabytes(worst[1])} {worst[0]} beside "
                f"{gigabytes(best[1])} {best[0]} over the same link: it is the engine, not the link."
            )


def _chips(pairs: Sequence[PairSeen], ways: Ways) -> Iterator[str]:
    """Processors that are joined to their GPU by more than PCIe."""
    rates = [
        pair.one_way.value
        for pair in pairs
        if pair.one_way.value and ways[pair.start, pair.end].kind is Kind.CHIP and pair.start == HOST
    ]
    if rates and max(rates) > _PCIE_AT_MOST:
        yield (
            f"Host to GPU {gigabytes(max(rates))}: more than any PCIe link carries, since this GPU is joined to its "
            "processor by NVLink-C2C (450 GB/s each way)."
        )


def _above_target(pairs: Sequence[PairSeen], ways: Ways) -> Iterator[str]:
    for pair in pairs:
        target = ways[pair.start, pair.end].target
        if isinstance(target.bandwidth, Quantity) and (pair.one_way.value or 0) > 1.05 * target.bandwidth.value:
            yield (
                f"{pair.title[0].upper()}{pair.title[1:]}: {gigabytes(pair.one_way.value or 0)} is more than "
                f"{gigabytes(float(target.bandwidth.value))} ({target.formula}): the target is too low."
            )


def _loss(picture: Picture, seen: Sequence[Seen]) -> Iterator[str]:
    """In place of one percentage of lost packets: what was verified, and what the hardware counts."""
    if not picture.live:
        return
    checks = [check for pair in picture.pairs for check in pair.checks]
    verified, changed = sum(check.verified for check in checks), sum(check.mismatched for check in checks)
    grown = ", ".join(f"{name} {_sum_of(seen, what)}" for name, what in _COUNTED)
    readings = [part.reading for part in seen if isinstance(part, Measurement) and part.name == "link.packet_loss"]
    known = [reading.value for reading in readings if isinstance(reading, Quantity)]
    told = f"discarded {max(known):.2g} of all" if known else "discards not counted by these GPUs (NVLink 5 does)"
    data = f"{size(Quantity(changed, BYTE))} of {size(Quantity(verified, BYTE))} changed"
    yield f"Data: {data}; {grown}; packets: {told}."


_COUNTED = (
    ("replays", "link.nvlink_replays"),
    ("recoveries", "link.nvlink_recoveries"),
    ("checksum errors", "link.nvlink_crc_errors"),
    ("PCIe replays", "link.pcie_replays"),
)


def _sum_of(seen: Sequence[Seen], name: str) -> str:
    """``+3``, of all GPUs that tell it."""
    parts = [part.reading for part in seen if isinstance(part, Measurement) and part.name == name]
    known = [reading.value for reading in parts if isinstance(reading, Quantity)]
    return f"+{sum(known):,g}" if known else "not told"


def _verified(picture: Picture) -> Iterator[str]:
    """What a clean check of data means."""
    checks = [check for pair in picture.pairs for check in pair.checks]
    if picture.live and checks and not any(check.mismatched for check in checks):
        how = listed([check.by for check in checks])
        what = "Copy and load/store verified" if any(check.by != "copies" for check in checks) else "Copy verified"
        yield f"{what} ({how}). That is no statement about any library's own ways over the links."
