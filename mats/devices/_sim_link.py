"""The simulated card's link to the host: what it can, what it reaches under load, and how long a copy over it takes.

The link is as fast as a real one while the simulated memory is scaled down with its size: copies over the link take the
link's time alone. That under load a healthy link carries 0.84 of what its lanes do is the middle of what was measured
on links of generations 3 to 5 (0.79 to 0.88).
"""

from __future__ import annotations

from dataclasses import dataclass

from mats.device import PCIE, HostLink
from mats.facts.pci import PciLink, link_by_generation
from mats.model import Quantity, Unit

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
        counted = Quantity(replays, Unit.COUNT)
        return HostLink(
            PCIE,
            now.generation,
            now.width,
            most.generation,
            most.width,
            now.bandwidth,
            most.bandwidth,
            narrowest="0000:01:00.0",
            counters=(("pcie.replays", counted), ("aer.correctable", counted)),
        )


HEALTHY_LINK = SimLink()


def link_of(generation: int, width: int) -> PciLink:
    """A link of this generation and so many lanes."""
    return link_by_generation(Quantity(generation, Unit.COUNT), Quantity(width, Unit.COUNT))
