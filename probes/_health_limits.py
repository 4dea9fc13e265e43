"""The limits of the health check, each with its source and its reason."""

from __future__ import annotations

from collections import defaultdict

from mats.model import Limit, Quantity, Reading, Relation

from ._health_limits_links import LINK_LIMITS
from ._health_limits_machine import MACHINE_LIMITS
from ._health_limits_memory import MEMORY_LIMITS
from ._health_limits_others import OTHER_LIMITS

__all__ = ["LIMITS", "WINDOW", "breaks"]

WINDOW = 7 * 86400.0
"""Seconds for which an incident of the log counts as of now; a convention."""

LIMITS: tuple[Limit, ...] = tuple(
    sorted((*MEMORY_LIMITS, *MACHINE_LIMITS, *LINK_LIMITS, *OTHER_LIMITS), key=lambda limit: limit.code)
)
_BY_NAME: dict[str, list[Limit]] = defaultdict(list)
for _limit in LIMITS:
    _BY_NAME[_limit.measurement].append(_limit)


def breaks(name: str, reading: Reading) -> bool:
    """Whether the reading breaks a bound of its name, so that there is something to explain."""
    if not isinstance(reading, Quantity):
        return False
    return any(
        reading > limit.bound if limit.relation is Relation.AT_MOST else reading < limit.bound
        for limit in _BY_NAME[name]
    )
