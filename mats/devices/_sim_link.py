"""The simulated card's link to the host: what it can, what it reaches under load, and how long a copy over it takes.

The link is as fast as a real one while the simulated memory is scaled down with its size: copies over the link take the
link's time alone. That under load a healthy link carries 0.84 of what its lanes do is the middle of what was measured
on links of generations 3 to 5 (0.79 to 0.88).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from mats.device import PCIE, HostLink
from mats.facts.pci import PciLink, link_by_generation
from mats.model import Quantity, Unit
from mats.probe import UsageError

LINK_EXAMPLE = """\
[link]                  # to the host; what is left out is as of a healthy one of Gen4 x16
generation = 5          # what card and slot can together, and what they reach under load
width = 16
reached_generation = 3
reached_width = 8
flips = 0.5             # bits turned and packets sent again, for each MiB that is copied; and, if wanted:
replays = 0.01          # startup (seconds), payload and unpinned (shares of the speed, 0 to 1)
"""
"""A plan's link as a user writes it."""
GENERATIONS, WIDTHS = range(1, 7), (1, 2, 4, 8, 12, 16, 32)
AWAKE_SECONDS = 0.05
"""For so long after a copy a link stays as fast as it was."""


@dataclass(frozen=True, slots=True)
class SimLink:
    """``generation``, ``width``: what card and slot can together. ``reached_*``: what they reach under load.

    ``startup``: seconds before a copy's first byte. ``payload``: share of the lanes' bandwidth that is data;
    ``unpinned``: the speed of copies from and to memory that is not pinned, as a share of that of pinned. ``flips``:
    bits that arrive turned; ``replays``: packets that were sent again; both per MiB.
    """

    generation: int = 4
    width: int = 16
    reached_generation: int = 4
    reached_width: int = 16
    startup: float = 5e-6
    payload: float = 0.84
    unpinned: float = 0.4
    flips: float = 0.0
    replays: float = 0.0

    def seconds(self, size: int, pinned: bool) -> float:
        """How long a copy of ``size`` bytes takes."""
        bandwidth = link_of(self.reached_generation, self.reached_width).bandwidth
        assert isinstance(bandwidth, Quantity)
        return self.startup + size / (bandwidth.value * self.payload * (1 if pinned else self.unpinned))

    def read(self, awake: bool, replays: int) -> HostLink:
        """What the simulated system tells of it; ``awake``: a copy runs or ended just now."""
        most = link_of(self.generation, self.width)
        reached = link_of(self.reached_generation, self.reached_width)
        now = reached if awake else link_of(1, self.reached_width)
        counted, none = Quantity(replays, Unit.COUNT), Quantity(0, Unit.COUNT)
        return HostLink(
            PCIE,
            now.generation,
            now.width,
            most.generation,
            most.width,
            now.bandwidth,
            most.bandwidth,
            narrowest="0000:01:00.0",
            counters=(
                ("pcie.replays", counted),
                ("aer.correctable", counted),
                ("aer.nonfatal", none),
                ("aer.fatal", none),
            ),
        )


HEALTHY_LINK = SimLink()


def link_of(generation: int, width: int) -> PciLink:
    """A link of this generation and so many lanes."""
    return link_by_generation(Quantity(generation, Unit.COUNT), Quantity(width, Unit.COUNT))


def parse_link(data: object, origin: str) -> SimLink:
    """The link of a plan's ``[link]``, a healthy one where there is none. Raises UsageError that names the key."""
    if data is None:
        return HEALTHY_LINK
    known = [field.name for field in fields(SimLink)]
    if not isinstance(data, dict):
        raise UsageError(f"{origin}: write the link to the host as a table, [link]")
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{origin}, [link]: unknown key {unknown[0]!r}; a link has {', '.join(sorted(known))}")
    for key, value in data.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise UsageError(f"{origin}, [link]: {key} must be a number that is not negative, not {value!r}")
        if key.endswith("generation") and value not in GENERATIONS:
            raise UsageError(f"{origin}, [link]: {key} must be a whole number from 1 to 6, not {value!r}")
        if key.endswith("width") and value not in WIDTHS:
            raise UsageError(f"{origin}, [link]: {key} must be one of {', '.join(map(str, WIDTHS))}, not {value!r}")
        if key in ("payload", "unpinned") and not 0 < value <= 1:
            raise UsageError(f"{origin}, [link]: {key} must be above 0 and at most 1, not {value!r}")
    whole = {key: int(value) if key.endswith(("generation", "width")) else value for key, value in data.items()}
    whole.setdefault("reached_generation", whole.get("generation", HEALTHY_LINK.generation))
    whole.setdefault("reached_width", whole.get("width", HEALTHY_LINK.width))
    link = SimLink(**whole)
    if link.reached_generation > link.generation or link.reached_width > link.width:
        raise UsageError(f"{origin}, [link]: under load a link cannot reach more than card and slot can")
    return link
