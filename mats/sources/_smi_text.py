"""``nvidia-smi -q`` as text: whole, one section of it (``-d ECC``), or a part that somebody copied.

Indentation carries the structure: the same few words (Current, Max, Pending) mean different things below other heads.
"""

from __future__ import annotations

import re
from itertools import pairwise

from mats.facts import MachineFacts
from mats.sources._smi_machine import build_machine
from mats.sources._smi_values import Section, SmiError, key

_HEAD = "NVSMI LOG"
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_KNOWN = frozenset(
    (
        "retired_pages", "remapped_rows", "ecc_errors", "ecc_mode", "fb_memory_usage", "bar1_memory_usage",
        "temperature", "clocks", "max_clocks", "clocks_throttle_reasons", "clocks_event_reasons", "power_readings",
        "gpu_power_readings", "inforom_version", "mig_mode", "fabric", "gpu_reset_status", "gpu_link_info",
        "utilization", "pci", "processes",
    )
)  # fmt: skip
"""Heads by which a part without the first lines is known."""
_SOME_HEAD = re.compile(
    r"^[ \t]+(?:" + "|".join(name.replace("_", " ") for name in _KNOWN) + r")[ \t\r]*$", re.M | re.I
)
_LAST = ("processes", "accounted_processes", "capabilities")
"""With what a whole GPU ends."""


def looks_like_text(text: str) -> bool:
    """Whether lines of ``-q`` are in it: its first line, or one of its heads alone on a line."""
    if _HEAD in text:
        return True
    if " : " not in text or not _SOME_HEAD.search(text):
        return False
    return any(_is_head(line, below) for line, below in pairwise(text.splitlines()))


def _is_head(line: str, below: str) -> bool:
    return 0 < _indent(line) < _indent(below) and ":" not in line and key(line) in _KNOWN


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def parse_text(text: str) -> MachineFacts:
    """The machine of a ``-q``; a part without a head is one GPU of unknown place. Raises SmiError when it is none.

    Of several in one text, as ``-l`` writes, the last has the word.
    """
    logs = text.split(_HEAD)
    log = next((each for each in reversed(logs) if _has_gpu(each)), logs[-1])
    root, blocks = _tree(log)
    if not blocks:
        raise SmiError("this text holds no GPU of nvidia-smi -q")
    cut = _cut(log, root, blocks)
    if cut:
        root, blocks = _tree(log[: log.rfind("\n") + 1], cut=True)  # the last value may itself be cut short
    return build_machine(root, blocks, cut)


def _has_gpu(log: str) -> bool:
    return any(_GPU.fullmatch(line) for line in log.splitlines()) or looks_like_text(log)


def _tree(log: str, cut: bool = False) -> tuple[Section, list[Section]]:
    """The lines before the first GPU, and a block for each GPU."""
    root, blocks = Section(""), []
    open_at: list[tuple[int, Section]] = [(-1, root)]
    for raw in log.splitlines():
        line = raw.expandtabs(8).rstrip()
        head = _GPU.fullmatch(line.strip())
        if head is not None and _indent(line) < 4:
            block = Section("gpu", children=[Section("id", head[1])])
            blocks.append(block)
            open_at = [(_indent(line), block)]
            continue
        if not line.strip() or line.lstrip().startswith(("|", "+", "=", "#", "$", "[")):
            continue
        if _indent(line) == 0 and blocks:
            open_at = [(-1, root)]  # something else follows
        while len(open_at) > 1 and open_at[-1][0] >= _indent(line):
            open_at.pop()
        section = _line(line.strip())
        if _indent(line) > 0 and not blocks and len(open_at) == 1 and open_at[0][1] is root:
            blocks.append(Section("gpu"))  # a part that begins below the head of its GPU
            open_at = [(-1, blocks[0])]
        open_at[-1][1].children.append(section)
        open_at.append((_indent(line), section))
    for _, section in open_at if cut else ():
        section.open = True
    return root, blocks


def _line(line: str) -> Section:
    """``Name : value``; a colon within a value, as in a path, has no blank behind it or comes later."""
    name, colon, value = (line + " ").partition(": ")
    return Section(key(name), value.strip()) if colon else Section(key(line))


def _cut(log: str, root: Section, blocks: list[Section]) -> str:
    """Why the text is not whole, or empty. Only a full log, and one that counts its GPUs, can tell."""
    last = blocks[-1]
    attached = root.child("attached_gpus")
    if attached is not None and attached.text.isdecimal() and 1 < len(blocks) < int(attached.text[:9]):
        return f"the text is cut off: {len(blocks)} of {int(attached.text[:9])} GPUs stand in it"
    full = last.child("product_name") is not None and attached is not None
    if full and not any(last.child(name) for name in _LAST):
        return "the text is cut off in its last GPU"
    if full and last.children[-1].name == "processes" and last.children[-1].children and not log.endswith("\n\n"):
        return "the text is cut off in its last processes"  # a blank line stands behind each GPU
    if len(blocks) > 1:
        first = {each.name for each in blocks[0].children}
        if blocks[0].children[-1].name not in {each.name for each in last.children} and len(first) > 1:
            return "the text is cut off in its last GPU"
    if not log.endswith("\n") and ":" not in log.rpartition("\n")[2] and key(log.rpartition("\n")[2]) not in _KNOWN:
        return "the text is cut off in its last line"
    return ""
