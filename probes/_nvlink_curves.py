"""Bandwidth over the size of a transfer, as t = a + n/b: the start of a copy is not the speed of its link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mats.facts.transfers import CurveFacts, TransferRun
from mats.model import Quantity, Unit

from ._nvlink_rates import gigabytes


def curve_notes(run: TransferRun) -> Iterator[str]:
    """What each curve over transfer sizes comes to."""
    for curve in run.curves:
        fitted = fit(times_of(curve))
        if fitted is not None:
            start, rate = fitted
            yield (
                f"{curve.test}: t = {start * 1e6:.1f} us + n / {gigabytes(rate)} over {len(curve.points)} sizes. What "
                "small sizes reach is the time of their start and not the link."
            )
        elif curve.over != "transfer" and curve.unit in (Unit.SECOND, Unit.COUNT) and curve.points:
            yield _of_memory(curve)


def _of_memory(curve: CurveFacts) -> str:
    """What a curve over working sets shows: caches and memory of one GPU, of which this test judges nothing."""
    known = [float(reading.value) for _, reading in curve.points if isinstance(reading, Quantity)]
    said = "no figure"
    if known and curve.unit is Unit.SECOND:
        said = f"{min(known) * 1e9:.0f} to {max(known) * 1e9:.0f} ns"
    elif known:
        said = f"{min(known):.0f} to {max(known):.0f} cycles"
    return f"{curve.test}: {said} over {len(known)} working sets. That is a GPU's own memory and no link."


def times_of(curve: CurveFacts) -> list[tuple[float, float]]:
    """Size in bytes and seconds of each point of a curve over transfer sizes; none of another one."""
    if curve.over != "transfer":
        return []
    known = [
        (float(size.value), float(reading.value))
        for size, reading in curve.points
        if isinstance(size, Quantity) and isinstance(reading, Quantity) and size.value > 0 and reading.value > 0
    ]
    if curve.unit is Unit.BYTE_PER_SECOND:
        return [(size, size / rate) for size, rate in known]
    return known if curve.unit is Unit.SECOND else []


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """``a`` in seconds and ``b`` in bytes per second: least squares of the relative error, so that all sizes count."""
    if len({size for size, _ in points}) < 3:
        return None
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_size = sum(weight * size for weight, (size, _) in zip(weights, points, strict=True)) / total
    mean_time = sum(weight * seconds for weight, (_, seconds) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (size - mean_size) ** 2 for weight, (size, _) in zip(weights, points, strict=True))
    joint = sum(
        weight * (size - mean_size) * (seconds - mean_time)
        for weight, (size, seconds) in zip(weights, points, strict=True)
    )
    if joint <= 0:
        return None
    slope = joint / spread
    return max(0.0, mean_time - slope * mean_size), 1 / slope
