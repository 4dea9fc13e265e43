"""Which NVML is asked: the driver's own, or a stand-in with the profile that it answers from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROFILES = Path(__file__).parent / "mock_nvml" / "profiles"
"""Profiles of the stand-in that come with mats."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library to be asked instead of the driver's: the path of a stand-in, its profile, symbols it is not to have."""

    path: Path
    profile: Path
    hidden: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What the stand-in reads from the environment of its process."""
        return {"MATS_MOCK_NVML": str(self.profile), "MATS_MOCK_NVML_PROFILES": str(PROFILES)}
