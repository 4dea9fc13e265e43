"""Compute capabilities: which CUDA compiles for each, with which flags, and which of our extras serves it.

First versions from 11.7 on, and every last version, were asked of NVRTC itself, 11.7 to 13.5; older ones are those that
clang knows. How code of one capability runs on another: NVIDIA, CUDA Programming Guide, section Compute Capabilities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mats.model import AbsenceKind, Absent

CUDA_NEWEST: Final = "13.5"
"""The newest CUDA that was asked; of later ones nothing is known here."""

EXTRAS: Final = {12: "cuda12", 13: "cuda13"}
"""By major version of CUDA, the extra of this package that brings its CuPy."""

_ASKED = "NVRTC 11.7 to 13.5, each asked"
_MATRIX = "first: NVIDIA, CUDA toolkit, driver and architecture matrix; last: NVRTC, asked"
_CLANG = "first: clang/lib/Basic/Cuda.cpp; last: NVRTC, asked"
_CAPABILITY = re.compile(r"(?:sm|compute|cc|compute capability)?[\s_-]*(\d{1,2})(?:\.(\d)|(\d))[af]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A compute capability. Versions of CUDA as text; ``cuda_last`` is empty while none has dropped it."""

    capability: str
    name: str
    cuda_first: str
    cuda_last: str
    source: str
    specific_first: str = ""
    """CUDA that brought the target with an ``a``, code for this capability and no other; empty: there is none."""
    family_first: str = ""
    """CUDA that brought the target with an ``f``, code for this capability and later ones of its major number."""
    formerly: str = ""
    """The name it had in older versions of CUDA, in words."""

    @property
    def number(self) -> str:
        """As in ``sm_89``."""
        return self.capability.replace(".", "")

    @property
    def order(self) -> tuple[int, int]:
        return version_of(self.capability)


def architectures() -> tuple[Architecture, ...]:
    """Every one that is known here, the oldest first."""
    return (
        Architecture("5.0", "Maxwell", "6.5", "12.9", _MATRIX),
        Architecture("5.2", "Maxwell", "6.5", "12.9", _MATRIX),
        Architecture("5.3", "Maxwell", "7.0", "12.9", _CLANG),
        Architecture("6.0", "Pascal", "8.0", "12.9", _CLANG),
        Architecture("6.1", "Pascal", "8.0", "12.9", _CLANG),
        Architecture("6.2", "Pascal", "8.0", "12.9", _CLANG),
        Architecture("7.0", "Volta", "9.0", "12.9", _CLANG),
        Architecture("7.2", "Volta", "9.1", "12.9", _CLANG),
        Architecture("7.5", "Turing", "10.0", "", _CLANG),
        Architecture("8.0", "Ampere", "11.0", "", _CLANG),
        Architecture("8.6", "Ampere", "11.1", "", _CLANG),
        Architecture("8.7", "Ampere", "11.4", "", _CLANG),
        Architecture("8.8", "Ampere", "13.0", "", _ASKED),
        Architecture("8.9", "Ada Lovelace", "11.8", "", _ASKED),
        Architecture("9.0", "Hopper", "11.8", "", _ASKED, specific_first="12.0"),
        Architecture("10.0", "Blackwell", "12.8", "", _ASKED, "12.8", "12.9"),
        Architecture("10.3", "Blackwell Ultra", "12.9", "", _ASKED, "12.9", "12.9"),
        Architecture("10.7", "Rubin", "13.4", "", _ASKED),
        Architecture(
            "11.0", "Blackwell (Thor)", "13.0", "", _ASKED, "13.0", "13.0", "sm_101 (10.1) in CUDA 12.8 and 12.9"
        ),
        Architecture("12.0", "Blackwell (RTX)", "12.8", "", _ASKED, "12.8", "12.9"),
        Architecture("12.1", "Blackwell (GB10)", "12.9", "", _ASKED, "12.9", "12.9"),
    )


def architecture(capability: str) -> Architecture | Absent:
    """The architecture with this compute capability, such as ``8.9``."""
    for known in architectures():
        if known.capability == capability:
            return known
    return Absent(AbsenceKind.NOT_FOUND, f"compute capability {capability} is not known here")


def gencode(capability: str) -> tuple[str, str]:
    """nvcc's flags: machine code (SASS) for this capability, and PTX that the driver compiles for later ones."""
    number = capability.replace(".", "")
    return (
        f"-gencode arch=compute_{number},code=sm_{number}",
        f"-gencode arch=compute_{number},code=compute_{number}",
    )


def cuda_extra(known: Architecture, driver_cuda: str = "") -> str | Absent:
    """Our extra whose CuPy serves it: that of the newest CUDA which compiles for it and which the driver serves.

    ``driver_cuda``: the newest CUDA that the driver serves; empty where it is not known.
    """
    newest = version_of(known.cuda_last or CUDA_NEWEST)[0]
    if driver_cuda:
        newest = min(newest, version_of(driver_cuda)[0])
    for major in sorted(EXTRAS, reverse=True):
        if version_of(known.cuda_first)[0] <= major <= newest:
            return EXTRAS[major]
    served = f", and this driver serves CUDA {driver_cuda}" if driver_cuda else ""
    last = f" to {known.cuda_last}" if known.cuda_last else " on"
    return Absent(
        AbsenceKind.NOT_SUPPORTED,
        f"CuPy: compute capability {known.capability} is compiled for from CUDA {known.cuda_first}{last}{served}",
    )


def parse_capability(text: str) -> str | None:
    """``8.9`` of ``8.9``, ``sm_89``, ``compute_120a``, ``cc 9.0``; None when it is no compute capability.

    A bare number without its point, such as 89, is none: it may be a part of a product's name.
    """
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None or (match[2] is None and text.strip()[:1].isdigit()):
        return None
    return f"{int(match[1])}.{match[2] or match[3]}"


def version_of(text: str) -> tuple[int, int]:
    """Major and minor number of a version such as ``12.9``, to be compared."""
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
