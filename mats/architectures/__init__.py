"""What is known of NVIDIA's GPUs by name: their architecture, what compiles for them, and what is said of them.

It names things and fills in where nobody can be asked. Of a GPU that is there its driver knows better, and wins.
"""

from __future__ import annotations

from mats.architectures.capabilities import (
    CUDA_NEWEST,
    EXTRAS,
    Architecture,
    architecture,
    architectures,
    cuda_extra,
    gencode,
    parse_capability,
)
from mats.architectures.lookup import Answer, Elsewhere, Found, Near, find, of_driver
from mats.architectures.notes import notes
from mats.architectures.products import Product, products

__all__ = [
    "CUDA_NEWEST",
    "EXTRAS",
    "Answer",
    "Architecture",
    "Elsewhere",
    "Found",
    "Near",
    "Product",
    "architecture",
    "architectures",
    "cuda_extra",
    "find",
    "gencode",
    "notes",
    "of_driver",
    "parse_capability",
    "products",
]
