"""How much of the machine's memory there is and how much of it can be had, also within a control group."""

from __future__ import annotations

from pathlib import Path

CGROUP_LIMIT = "sys/fs/cgroup/memory.max"
CGROUP_USED = "sys/fs/cgroup/memory.current"
CGROUP_STATISTICS = "sys/fs/cgroup/memory.stat"


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
