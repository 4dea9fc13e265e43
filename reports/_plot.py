"""What every plot is made of: its specification with caption and text, thinning, axes, and colours.

Specifications are plain data: nothing of Plotly is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ._grid import Grid

MAX_POINTS = 1500
"""Points of one line of a plot."""

MAX_ROWS = 500
"""Rows of evidence shown as text; the saved run has all."""

COLOURS = ("#2f7ed8", "#d9730d", "#2a9d67", "#b0489b", "#7a6ff0", "#c0392b")
"""Told apart on light and on dark ground."""

Number = int | float


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption; ``grid`` holds its figures for those who see no plot. ``data``, ``layout``: Plotly's.

    ``height`` in pixels, 0 for the usual one; a ``wide`` plot has the width of the page.
    """

    key: str
    title: str
    caption: str
    data: tuple[dict[str, Any], ...]
    layout: dict[str, Any]
    grid: Grid | None
    height: int = 0
    wide: bool = False


def thinned(points: Sequence[tuple[Number, Number]], limit: int = MAX_POINTS) -> list[tuple[Number, Number]]:
    """At most ``limit`` of the points in their order: the lowest and the highest of every equal share of them."""
    return [points[at] for at in extremes([y for _, y in points], limit)]


def extremes(values: Sequence[Number], limit: int = MAX_POINTS) -> list[int]:
    """Where at most ``limit`` of the values are: the lowest and the highest of every equal share of them."""
    if len(values) <= limit:
        return list(range(len(values)))
    shares = max(limit // 2, 1)
    kept: list[int] = []
    for share in range(shares):
        part = range(share * len(values) // shares, (share + 1) * len(values) // shares)
        kept += sorted({min(part, key=values.__getitem__), max(part, key=values.__getitem__)})
    return kept


def axis(name: str, unit: str) -> dict[str, Any]:
    return {"title": {"text": f"{name} [{unit}]" if unit else name}}


def rounded(values: Iterable[Number]) -> list[Number]:
    """Six digits are more than a screen shows, and keep the page small."""
    return [value if isinstance(value, int) else float(f"{value:.6g}") for value in values]


def colours(count: int) -> Iterator[str]:
    return (COLOURS[at % len(COLOURS)] for at in range(count))
