"""Names of GPUs as words: however a person, a shop or a driver writes them, the same card gives the same words."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Collection

LONGEST = 120
"""Characters of a name that are looked at."""

DECORATION = frozenset(
    {
        *("nvidia", "geforce", "tesla", "quadro", "jetson", "rtx", "gtx", "corporation", "corp", "inc", "tm"),
        *("gpu", "graphics", "card", "series", "generation", "edition", "workstation", "module", "board", "pci"),
        *("the", "one", "its", "with"),
    }
)
"""Words that tell no two cards of the table apart: they may be there or not."""

_SIZE = re.compile(r"\b(\d{1,4})\s*(?:gib|gb|g)\b")
_LAPTOP = re.compile(r"\b(?:laptop|notebook|mobile)(?:\s+gpu)?\b")
_SPELLINGS = (
    (re.compile(r"\bmax[\s-]?q\b"), "maxq"),
    (re.compile(r"\bpci[\s-]?(?:e|express)\b"), "pcie"),
    (re.compile(r"\bdata[\s-]?cent(?:er|re)\b"), "datacentre"),
    (_LAPTOP, "laptop"),
    (_SIZE, r"\1gb"),
)
_ACCENTS = re.compile(r"[\u0300-\u036f\u00ae\u2122]")


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words of letters and digits in their order, in one spelling: ``40gb``, ``pcie``, ``laptop``."""
    return _words_of(text[:LONGEST])


@functools.lru_cache(maxsize=1024)  # the names of a table, which are looked at for every question
def _words_of(text: str) -> tuple[str, ...]:
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", text)).casefold()
    plain = re.sub(r"\(r\)|\(tm\)", " ", plain)
    plain = re.sub(r"[_/,;:()\[\]-]+", " ", plain.replace("max-q", "maxq").replace("pci-e", "pcie"))
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    return tuple(re.findall(r"[a-z0-9]+", plain))


def split_glued(word: str, known: Collection[str]) -> tuple[str, ...]:
    """``rtx4070ti`` as ``rtx``, ``4070``, ``ti`` where every part is a known word; else the word as it is."""
    if word in known:
        return (word,)
    best: list[tuple[str, ...] | None] = [(), *(None for _ in word)]
    for end in range(1, len(word) + 1):
        for start in range(end):
            before, part = best[start], word[start:end]
            if before is None or part not in known:
                continue
            shorter = best[end]
            if shorter is None or len(before) + 1 < len(shorter):
                best[end] = (*before, part)
    return best[-1] or (word,)
