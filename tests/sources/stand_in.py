"""Machines of the stand-in for NVML, each read once through the real nvidia-ml-py in its child process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.facts import GpuFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import _mock_profiles as profiles
from mats.sources.nvml import Library, read_machine


def library(profile: str | Path) -> Library:
    """The stand-in with a profile; a test that cannot have it says so loudly."""
    try:
        return profiles.find_profile(str(profile)).library
    except DeviceError as error:
        pytest.skip(f"NOT TESTED: {error}")


@cache
def machine(profile: str) -> MachineFacts:
    """What the machine of a built-in profile is read as. Calls that hang are given up soon."""
    return read_machine(library=library(profile), call_timeout=1.5)


def gpus(profile: str) -> tuple[GpuFacts, ...]:
    found = machine(profile).gpus
    assert not isinstance(found, Absent), found
    return found


def only(profile: str) -> GpuFacts:
    (gpu,) = gpus(profile)
    return gpu


def why(value: object) -> AbsenceKind:
    assert isinstance(value, Absent), value
    return value.kind


def count(number: int) -> Quantity:
    return Quantity(number, Unit.COUNT)


def celsius(number: int) -> Quantity:
    return Quantity(number, Unit.CELSIUS)


def watts(number: float) -> Quantity:
    return Quantity(number, Unit.WATT)
