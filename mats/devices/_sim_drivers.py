"""Simulated drivers beside simulated memories: which names of ``sim:`` are theirs, and what is said of them."""

from __future__ import annotations

from mats.devices._plans import plan_names
from mats.devices._sim_caches import PLANS
from mats.source import NothingThere
from mats.sources import _mock_profiles as profiles

DRIVER_EXAMPLE = """\
# A driver of your own, as mine.profile, for mats health --target sim:mine.profile:
#
#   # One H100 that is hot and has a damaged InfoROM.    (its summary)
#   [system]
#   like = healthy             # the rest is as of this one
#   [0]                        # the first GPU
#   temperature.0 = 88
#   inforom.valid = !14        # the call fails with this NVML code
#   power = @2.5 412000        # the call takes 2.5 s
#   [log]
#   | [ 120.5] NVRM: Xid (PCI:0000:1b:00): 63, ...
"""
"""A driver profile as a user writes it; ``mats/sources/mock_nvml/README.md`` has all of it."""


def driver_plans() -> tuple[tuple[str, str], ...]:
    """Name and summary of each driver profile, and of each process, that is built in and has no memory to work on."""
    drivers = tuple((name, f"driver: {summary}") for name, summary in profiles.summaries() if name not in _memories())
    return drivers + tuple((name, f"process: {summary}") for name, summary in PLANS.items())


def is_driver_only(argument: str) -> bool:
    """Whether it names a driver profile, or a process, and no memory."""
    if argument in PLANS:
        return True
    return argument.endswith(profiles.SUFFIX) or (argument in profiles.names() and argument not in _memories())


def no_memory(argument: str) -> NothingThere:
    """What is said when the memory of a driver profile is to be worked on."""
    what, command = ("process", "frag") if argument in PLANS else ("driver", "health")
    return NothingThere(
        f"sim:{argument} is a simulated {what} and has no memory to work on: "
        f"it is for mats {command}; give a plan of a memory, such as sim:healthy or sim:stuck_dq, "
        "or of several cards, such as sim:links_healthy"
    )


def _memories() -> set[str]:
    return {name for name, _ in plan_names()}
