"""What one NVLink or one PCIe link carries, and which links a rate would fit; each figure with where it is from.

All rates are payload in bytes per second and direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mats.facts import LinkFacts, PciLink
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

GB = 1e9
TRANSFERS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
"""By PCIe generation, transfers per second and lane (PCI Express Base Specification)."""
_NEAR = 0.01
"""How far the driver's figure of a link may be from a known one and still be it: it is cut to three digits."""


@dataclass(frozen=True, slots=True)
class LinkRate:
    """A kind of NVLink: what the driver says of one link (before coding) and what it carries."""

    generation: int
    told: float
    payload: float
    source: str


LINK_RATES = (
    LinkRate(1, 20 * GB, 20 * GB, "NVIDIA, Tesla P100: 20 GB/s for each link and direction"),
    LinkRate(2, 25.78125 * GB, 25 * GB, "NVIDIA, Tesla V100: 25 GB/s; the driver's 25.781 is that before 64/66 coding"),
    LinkRate(3, 25 * GB, 25 * GB, "NVIDIA, A100: 25 GB/s, as the driver says"),
    LinkRate(3, 14.0625 * GB, 14.0625 * GB, "NVIDIA, RTX 3090, A40, RTX A6000: 56.25 GB/s for 4 links"),
    LinkRate(4, 26.5625 * GB, 25 * GB, "NVIDIA, H100: 25 GB/s; the driver's 26.562 is that before 16/17 coding"),
    LinkRate(5, 53.125 * GB, 50 * GB, "NVIDIA, B200: 50 GB/s; the driver's 53.125 is that before 16/17 coding"),
)
"""What is known of each kind; a newer one is taken to be coded as generations 4 and 5 are."""
_NEWEST_CODING = 16 / 17
_BUNDLES = ((1, 4), (2, 6), (3, 4), (3, 12), (4, 12), (4, 18), (5, 18))
"""Links that products have together, by generation: P100; V100; RTX 3090 and A40; A100; H100 PCIe; H100, H200; B200."""


def link_payload(link: LinkFacts) -> Reading:
    """What one link that is up carries, by the driver's speed of it, else by its generation."""
    generation = _generation(link)
    if isinstance(link.speed, Quantity):
        told = float(link.speed.value)
        for known in LINK_RATES:
            if math.isclose(told, known.told, rel_tol=_NEAR) and generation in (None, known.generation):
                return _rate(known.payload)
        newer = generation is None or generation > 3
        return _rate(told * _NEWEST_CODING if newer else told)
    rates = {known.payload for known in LINK_RATES if known.generation == generation}
    if len(rates) == 1:
        return _rate(rates.pop())
    return link.speed


def _generation(link: LinkFacts) -> int | None:
    text = link.version.partition(".")[0] if isinstance(link.version, str) else ""
    return int(text) if text.isdecimal() else None


def _rate(value: float) -> Quantity:
    return Quantity(value, Unit.BYTE_PER_SECOND)


def pcie_link(generation: int, lanes: int) -> PciLink:
    """The link of a generation with so many lanes."""
    return PciLink(Quantity(TRANSFERS[generation], Unit.HERTZ), Quantity(lanes, Unit.COUNT))


def pcie_payload(generation: Reading, lanes: Reading) -> Reading:
    """What a PCIe link of a generation and so many lanes carries after line coding."""
    if isinstance(generation, Absent):
        return generation
    if isinstance(lanes, Absent):
        return lanes
    if int(generation.value) not in TRANSFERS or lanes.value < 1:
        return Absent(
            AbsenceKind.UNREADABLE, f"PCIe link: Gen{generation.value:g} x{lanes.value:g} is none that is known"
        )
    return pcie_link(int(generation.value), int(lanes.value)).bandwidth


@dataclass(frozen=True, slots=True)
class Fit:
    """The least link that could carry a rate, by its names, and the share of it that the rate is."""

    names: tuple[str, ...]
    payload: float
    share: float


def fit_pcie(rate: float) -> Fit | None:
    """Which PCIe links of 4 lanes and more are just large enough; of Gen6 no healthy figure was published."""
    found: dict[str, float] = {}
    for generation in range(1, 6):
        for lanes in (4, 8, 16):
            payload = pcie_link(generation, lanes).bandwidth
            assert isinstance(payload, Quantity)
            found[f"Gen{generation} x{lanes}"] = float(payload.value)
    return _fit(rate, found)


def fit_nvlink(rate: float) -> Fit | None:
    """Which bundles of NVLinks, as products have them, are just large enough."""
    found = {
        f"{links} links of NVLink {known.generation}": links * known.payload
        for generation, links in _BUNDLES
        for known in LINK_RATES
        if known.generation == generation and (links == 4) == (known.payload < 25 * GB)
    }
    return _fit(rate, found)


def _fit(rate: float, known: dict[str, float]) -> Fit | None:
    able = {name: payload for name, payload in known.items() if payload >= rate}
    if not able or rate <= 0:
        return None
    least = min(able.values())
    names = tuple(name for name, payload in able.items() if math.isclose(payload, least, rel_tol=_NEAR))
    return Fit(names, least, rate / least)


def gigabytes(value: float) -> str:
    """``25.7 GB/s``, for a sentence."""
    return f"{value / GB:.3g} GB/s" if value < 1000 * GB else f"{value / GB:.0f} GB/s"
