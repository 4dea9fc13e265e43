"""Published latencies of caches and memories of GPUs, each with its source: to compare with, never to judge.

In cycles of the multiprocessors' clock where the source gives them, otherwise in seconds. What was found to differ
between sources, cards of one product, or positions of the multiprocessor is given as a range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mats.model import Quantity, TargetInfo, Unit

BENCHES = "gpu-benches"
KERNELS = "AI_kernels"
MICRO = "gpu-micro-bench"
SOURCES = {
    BENCHES: "RRZE-HPC/gpu-benches, gpu-latency: README and data",
    KERNELS: "markdewing/AI_kernels, latency sweeps",
    MICRO: "arabel1a/gpu-micro-bench, results",
    "2606.22588": "arXiv 2606.22588: one line of L2 from each multiprocessor of an NVIDIA L40",
}
READ = "2026-11-30"


@dataclass(frozen=True, slots=True)
class Reference:
    """What one level of a product takes. ``source``: a key of SOURCES, or several of them."""

    product: str
    level: str
    low: Quantity
    high: Quantity
    source: str

    @property
    def words(self) -> str:
        scale, unit = (1.0, "cycles") if self.low.unit is Unit.COUNT else (1e9, "ns")
        low, high = self.low.value * scale, self.high.value * scale
        return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"


def _cycles(product: str, level: str, low: float, high: float, source: str) -> Reference:
    return Reference(product, level, Quantity(low, Unit.COUNT), Quantity(high, Unit.COUNT), source)


def _seconds(product: str, level: str, low: float, high: float, source: str) -> Reference:
    return Reference(product, level, Quantity(low, Unit.SECOND), Quantity(high, Unit.SECOND), source)


_BOTH = f"{BENCHES}, {KERNELS}"
_PRODUCTS: tuple[tuple[str, str], ...] = (
    ("V100", r"V100"),
    ("A100", r"A100"),
    ("H100", r"H100"),
    ("GH200", r"GH200"),
    ("B200", r"\bB200"),
    ("B300", r"\bB300"),
    ("RTX 2080 SUPER", r"RTX 2080 SUPER"),
    ("RTX 3090", r"RTX 3090(?! *Ti)"),
    ("RTX 4090", r"RTX 4090(?! *(Laptop|D\b))"),
    ("L40", r"\bL40\b"),
    ("RTX 5090", r"RTX 5090(?! *(Laptop|D\b))"),
    ("RTX PRO 6000 Blackwell", r"RTX PRO 6000 Blackwell"),
)
REFERENCES: tuple[Reference, ...] = (
    _cycles("V100", "L1", 30, 36, _BOTH),
    _cycles("V100", "L2", 215, 221, _BOTH),
    _cycles("V100", "memory", 437, 460, _BOTH),
    _cycles("A100", "L1", 36, 39, _BOTH),
    _cycles("A100", "L2", 210, 210, _BOTH),
    _cycles("A100", "L2, slower part", 378, 415, _BOTH),
    _cycles("A100", "memory", 550, 572, _BOTH),
    _cycles("H100", "L1", 34, 40, _BOTH),
    _cycles("H100", "L2", 265, 291, _BOTH),
    _cycles("H100", "L2, slower part", 320, 500, _BOTH),
    _cycles("H100", "memory", 655, 700, _BOTH),
    _cycles("GH200", "L1", 40, 40, KERNELS),
    _cycles("GH200", "L2", 281, 281, KERNELS),
    _cycles("GH200", "memory", 690, 690, KERNELS),
    _cycles("B200", "L1", 40, 40, KERNELS),
    _cycles("B200", "L2", 295, 295, KERNELS),
    _cycles("B200", "L2, slower part", 636, 662, KERNELS),
    _cycles("B200", "memory", 860, 860, KERNELS),
    _cycles("B300", "L1", 40, 40, KERNELS),
    _cycles("B300", "L2", 295, 295, KERNELS),
    _cycles("B300", "L2, slower part", 636, 662, KERNELS),
    _cycles("B300", "memory", 810, 848, KERNELS),
    _seconds("RTX 2080 SUPER", "L1", 24e-9, 24e-9, MICRO),
    _seconds("RTX 2080 SUPER", "L2", 116e-9, 116e-9, MICRO),
    _seconds("RTX 2080 SUPER", "memory", 234e-9, 238e-9, MICRO),
    _seconds("RTX 3090", "L1", 23e-9, 23e-9, MICRO),
    _seconds("RTX 3090", "L2", 142e-9, 150e-9, MICRO),
    _seconds("RTX 3090", "memory", 264e-9, 269e-9, MICRO),
    _cycles("RTX 4090", "L1", 40, 40, KERNELS),
    _cycles("RTX 4090", "L2", 296, 296, KERNELS),
    _cycles("RTX 4090", "memory", 636, 636, KERNELS),
    _cycles("L40", "L1", 36, 36, BENCHES),
    _cycles("L40", "L2", 222, 339, "2606.22588"),
    _cycles("L40", "memory", 369, 630, BENCHES),
    _cycles("RTX 5090", "L1", 44, 44, KERNELS),
    _cycles("RTX 5090", "L2", 360, 360, KERNELS),
    _cycles("RTX 5090", "memory", 936, 936, KERNELS),
    _cycles("RTX PRO 6000 Blackwell", "L1", 44, 44, KERNELS),
    _cycles("RTX PRO 6000 Blackwell", "L2", 352, 352, KERNELS),
    _cycles("RTX PRO 6000 Blackwell", "memory", 864, 864, KERNELS),
)


def product_of(title: str) -> str:
    """The product of the table that a device's title names, or nothing."""
    return next((name for name, form in _PRODUCTS if re.search(form, title, re.IGNORECASE)), "")


def references(info: TargetInfo) -> tuple[Reference, ...]:
    """What is published for this device; nothing for one that is not in the table, or not a GPU."""
    product = product_of(info.title) if info.origin_kind == "cuda" else ""
    return tuple(reference for reference in REFERENCES if reference.product == product)
