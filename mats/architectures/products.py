"""Products by name, from the table beside this file; what a row leaves empty is absent.

The peak is computed here, by the formula that a driver's own figures go into; the published one stands in the table
to check it against.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

from mats.facts import PciLink
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.units import MIB

TABLE = "products.csv"
FORMS = ("datacentre", "desktop", "laptop", "workstation", "embedded")
_TRANSFERS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
"""By PCIe generation, transfers per second and lane (PCI Express Base Specification)."""


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU as it is sold. ``names``: all it is known by, the first is shown; ``driver_name``: NVML's, if it differs.

    ``rate``: bits per second and pin of its memory, in hertz; ``bus``: pins, as a count; ``published``: the peak as its
    source has it, in bytes per second; ``nvlink``: both directions of all links together, in bytes per second.
    """

    names: tuple[str, ...]
    driver_name: str
    chip: str
    capability: str
    form: str
    memory_type: str
    memory: str
    """Its size as it is sold, in words: makers count in powers of two and of ten."""
    bus: Reading
    rate: Reading
    published: Reading
    cache: Reading
    """L2, in bytes."""
    pcie_generation: Reading
    pcie_lanes: Reading
    nvlink_generation: Reading
    nvlink_links: Reading
    nvlink: Reading
    confidence: str
    source: str

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def peak(self) -> Reading:
        """Bytes per second: rate per pin x bus / 8."""
        if isinstance(self.rate, Absent):
            return self.rate
        if isinstance(self.bus, Absent):
            return self.bus
        return Quantity(self.rate.value * self.bus.value / 8, Unit.BYTE_PER_SECOND)

    @property
    def pcie(self) -> Reading:
        """Bytes per second and direction that the card's link can carry at most, after line coding."""
        return pcie_bandwidth(self.pcie_generation, self.pcie_lanes)


def pcie_bandwidth(generation: Reading, lanes: Reading) -> Reading:
    """Bytes per second and direction of a link, after line coding; both arguments are counts."""
    if isinstance(generation, Absent):
        return generation
    transfers = _TRANSFERS.get(int(generation.value))
    if transfers is None:
        return Absent(AbsenceKind.NOT_SUPPORTED, f"PCIe: generation {generation.value} is not known here")
    return PciLink(Quantity(transfers, Unit.HERTZ), lanes).bandwidth


def products() -> tuple[Product, ...]:
    """Every product of the table, in its order: by compute capability, then by what it is built for."""
    text = resources.files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    return parse_products(text)


def parse_products(text: str) -> tuple[Product, ...]:
    """The products of a table with the columns of ``products.csv``."""
    return tuple(_product(row) for row in csv.DictReader(text.splitlines()))


def _product(row: dict[str, str]) -> Product:
    def reading(column: str, unit: Unit = Unit.COUNT, factor: float = 1) -> Reading:
        if not row[column]:
            return Absent(AbsenceKind.NOT_FOUND, f"{column.partition('_')[0]}: not in the table")
        value = float(row[column])
        return Quantity(int(value) if factor == 1 and value.is_integer() else value * factor, unit)

    others = (name.strip() for name in row["other_names"].split(";"))
    return Product(
        names=(row["name"], *(name for name in others if name)),
        driver_name=row["driver_name"],
        chip=row["chip"],
        capability=row["capability"],
        form=row["form"],
        memory_type=row["memory_type"],
        memory=f"{row['memory_gb']} GB",
        bus=reading("bus_bits"),
        rate=reading("rate_gbit_s", Unit.HERTZ, 1e9),
        published=reading("published_gb_s", Unit.BYTE_PER_SECOND, 1e9),
        cache=reading("l2_mib", Unit.BYTE, MIB),
        pcie_generation=reading("pcie_generation"),
        pcie_lanes=reading("pcie_lanes"),
        nvlink_generation=reading("nvlink_generation"),
        nvlink_links=reading("nvlink_links"),
        nvlink=reading("nvlink_gb_s", Unit.BYTE_PER_SECOND, 1e9),
        confidence=row["confidence"],
        source=row["source"],
    )
