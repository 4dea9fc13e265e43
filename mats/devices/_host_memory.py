"""How much of the machine's memory there is and how much of it can be had, also within a control group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

CGROUP_LIMIT = "sys/fs/cgroup/memory.max"
CGROUP_USED = "sys/fs/cgroup/memory.current"
CGROUP_STATISTICS = "sys/fs/cgroup/memory.stat"
CPU_CACHE = "sys/devices/system/cpu/cpu0/cache"
MAPPINGS = "proc/self/smaps"
_SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


def total(root: Path = Path("/")) -> int:
    """Bytes of the machine's memory, or of what the control group may have of it."""
    import psutil

    whole = int(psutil.virtual_memory().total)
    limit = _cgroup(root, CGROUP_LIMIT)
    return whole if limit is None else min(whole, limit)


def available(root: Path = Path("/")) -> int:
    """Bytes that can be taken now without pushing others out."""
    import psutil

    free = int(psutil.virtual_memory().available)
    limited = _cgroup_room(root)
    return free if limited is None else min(free, limited)


def _cgroup(root: Path, file: str) -> int | None:
    try:
        text = (root / file).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _cgroup_room(root: Path) -> int | None:
    """Bytes left under the control group's limit, or None without a limit. Cached files give way and count as free."""
    limit, used = _cgroup(root, CGROUP_LIMIT), _cgroup(root, CGROUP_USED)
    return None if limit is None or used is None else max(limit - used + _cgroup_cached(root), 0)


def _cgroup_cached(root: Path) -> int:
    """Bytes of files in the control group's page cache that were not used lately."""
    try:
        lines = (root / CGROUP_STATISTICS).read_text().splitlines()
    except OSError:
        return 0
    found = (line.partition(" ")[2] for line in lines if line.startswith("inactive_file "))
    return next((int(text) for text in found if text.isdigit()), 0)


def caches(root: Path) -> tuple[tuple[str, int], ...]:
    """Names (L1, L2 ...) and bytes of the first processor's caches that hold data, the smallest first."""
    found: dict[str, int] = {}
    for entry in sorted((root / CPU_CACHE).glob("index*")):
        try:
            kind, level, size = ((entry / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                found[f"L{int(level)}"] = parse_cache_size(size)
        except (OSError, ValueError):
            continue
    return tuple(sorted(found.items(), key=lambda one: one[1]))


def parse_cache_size(text: str) -> int:
    """Bytes of sysfs' cache size, e.g. ``32768K``. Raises ValueError."""
    text = text.strip()
    unit = _SUFFIX.get(text[-1:].upper(), 1)
    return int(text.rstrip("KMGkmg")) * unit


def huge_share(root: Path, held: Iterable[tuple[int, int]]) -> float | None:
    """The share of what is held (addresses and bytes) that the system put into huge pages; None where it is not told.

    The system joins mappings that touch each other: what lies in one of them is counted once.
    """
    pieces = tuple(held)
    whole = sum(size for _, size in pieces)
    if not whole:
        return None
    try:
        with (root / MAPPINGS).open() as lines:
            huge = parse_huge_pages(lines, pieces)
    except OSError:
        return None
    return None if huge is None else min(huge / whole, 1.0)


def parse_huge_pages(lines: Iterable[str], held: Iterable[tuple[int, int]]) -> int | None:
    """Bytes in huge pages of the mappings that hold any of the pieces, by the text of ``smaps``; None: not told."""
    pieces = tuple(held)
    inside, found = False, None
    for line in lines:
        if mapping := _MAPPING.match(line):
            start, end = (int(word, 16) for word in mapping.groups())
            inside = any(start < address + size and address < end for address, size in pieces)
        elif inside and line.startswith("AnonHugePages:"):
            found = (found or 0) + (int(line.split()[1]) << 10)
    return found
