"""Plans of the user's own, read from TOML: every mistake gets one sentence that names where it is."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

from mats.devices._fabric_plans import parse_fabric
from mats.devices._plans import (
    ALL,
    DEFAULT_GEOMETRY,
    FAULT_KINDS,
    GEOMETRIES,
    MIB,
    MOST_FAULTS,
    SECTOR,
    Geometry,
    Plan,
    SimFault,
)
from mats.devices._sim_link import parse_link
from mats.probe import UsageError

EXAMPLE = """\
geometry = "hbm3-5"     # and, if wanted: name, seed, temperature, peak_gbps, slow_after with slow_factor,
capacity_mib = 32       # spilled = true, corrupt_counters = true

[[fault]]
kind = "stuck_bits"     # the bits of mask read as those of value
mask = 0x20             # of each 64-bit word
value = 0x20
channel = 3             # where: channel, bank, row, column, sector, word, page; all where left out

[[fault]]
kind = "flip_bits"      # other kinds use probability, after (seconds), threshold or factor
mask = 0x1
probability = 0.001
bank = 2
"""
"""A plan as a user writes it."""
_PLAN_KEYS = {
    "name",
    "summary",
    "geometry",
    "capacity_mib",
    "peak_gbps",
    "seed",
    "slow_after",
    "slow_factor",
    "spilled",
    "corrupt_counters",
    "temperature",
    "fault",
    "fabric",
    "link",
}


def parse_plan(text: str, origin: str) -> Plan:
    """A plan from TOML. Raises UsageError with one sentence that names the key that is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin} is not a plan: {error}") from error
    unknown = sorted(set(data) - _PLAN_KEYS)
    if unknown:
        raise UsageError(f"{origin}: unknown key {unknown[0]!r}; a plan has {', '.join(sorted(_PLAN_KEYS))}")
    geometry = data.get("geometry", DEFAULT_GEOMETRY)
    if not isinstance(geometry, str) or geometry not in GEOMETRIES:
        raise UsageError(f"{origin}: no geometry named {geometry!r}: use one of {', '.join(GEOMETRIES)}")
    shape = GEOMETRIES[geometry]
    capacity = int(_number(data, "capacity_mib", 32, origin)) * MIB
    if capacity < 2 * MIB or capacity % (2 * MIB) or capacity > 4096 * MIB:
        raise UsageError(f"{origin}: capacity_mib must be an even number from 2 to 4096")
    faults = data.get("fault", [])
    if not isinstance(faults, list):
        raise UsageError(f"{origin}: write each fault as its own [[fault]] table")
    if len(faults) > MOST_FAULTS:
        raise UsageError(f"{origin}: {len(faults)} faults; a plan holds at most {MOST_FAULTS}")
    return Plan(
        name=str(data.get("name", Path(origin).stem)),
        summary=str(data.get("summary", f"read from {origin}")),
        geometry=shape,
        capacity=capacity,
        peak=_positive(data, "peak_gbps", 4.0, origin) * 1e9,
        seed=int(_number(data, "seed", 1, origin)),
        faults=tuple(
            _parse_fault(fault, shape, capacity, f"{origin}, fault {i + 1}") for i, fault in enumerate(faults)
        ),
        slow_after=_number(data, "slow_after", 0.0, origin),
        slow_factor=_positive(data, "slow_factor", 1.0, origin),
        spilled=_flag(data, "spilled", origin),
        corrupt_counters=_flag(data, "corrupt_counters", origin),
        temperature=_number(data, "temperature", 45.0, origin),
        link=parse_link(data.get("link"), origin),
        fabric=parse_fabric(data.get("fabric"), origin),
    )


def _parse_fault(data: object, shape: Geometry, capacity: int, origin: str) -> SimFault:
    known = set(SimFault.__slots__)
    if not isinstance(data, dict) or data.get("kind") not in FAULT_KINDS:
        raise UsageError(f"{origin}: kind must be one of {', '.join(FAULT_KINDS)}")
    unknown = sorted(set(data) - known)
    if unknown:
        raise UsageError(f"{origin}: unknown key {unknown[0]!r}; a fault has {', '.join(sorted(known))}")
    numbers: dict[str, float] = {}
    for key in (known - {"kind"}) & set(data):
        value = _number(data, key, 0, origin)
        if key in ("probability", "after", "factor"):
            numbers[key] = value
            continue
        numbers[key] = int(data[key])  # of the value as it was written: a float has not all digits of a 64-bit word
        if numbers[key] != data[key] or numbers[key] > ALL:
            raise UsageError(f"{origin}: {key} must be a whole number below 2^64")
    if not 0 <= numbers.get("probability", 1.0) <= 1:
        raise UsageError(f"{origin}: probability must be between 0 and 1")
    if data["kind"] == "alias" and int(numbers.get("value", 0)) % SECTOR:
        raise UsageError(f"{origin}: value of an alias must be a multiple of {SECTOR}: whole sectors share cells")
    fault = SimFault(kind=data["kind"], **numbers)  # type: ignore[arg-type]
    _check_place(fault, shape, capacity, origin)
    return fault


def _check_place(fault: SimFault, shape: Geometry, capacity: int, origin: str) -> None:
    """A fault somewhere else than on this card would be a card without a fault. Raises UsageError."""
    ends = {
        "channel": shape.channels,
        "bank": shape.banks,
        "column": shape.row_bytes // SECTOR,
        "sector": capacity // SECTOR,
        "word": SECTOR // 8,
        "page": capacity // (2 * MIB),
    }
    for key, end in ends.items():
        if end <= getattr(fault, key) < ALL:
            raise UsageError(f"{origin}: {key} must be below {end} on this card ({shape.name}, {capacity // MIB} MiB)")
    if fault.kind == "alias" and not 0 < fault.value < capacity:
        raise UsageError(f"{origin}: an alias needs a value, the distance in bytes, above 0 and below the capacity")


def _number(data: Mapping[str, object], key: str, default: float, origin: str) -> float:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{origin}: {key} must be a number that is not negative, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{origin}: {key} is too large a number") from None


def _positive(data: Mapping[str, object], key: str, default: float, origin: str) -> float:
    value = _number(data, key, default, origin)
    if not value:
        raise UsageError(f"{origin}: {key} must be above 0")
    return value


def _flag(data: Mapping[str, object], key: str, origin: str) -> bool:
    value = data.get(key, False)
    if not isinstance(value, bool):
        raise UsageError(f"{origin}: {key} must be true or false, not {value!r}")
    return value
