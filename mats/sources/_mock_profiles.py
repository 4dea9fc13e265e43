"""Profiles of the stand-in for NVML: a machine's driver, and if wanted its kernel log and PCI state, in a text file.

``mock_nvml/README.md`` tells the form. The stand-in reads a profile by itself; here it is checked first, since a
mistake is the user's to mend, and read for what is not the driver's: symbols to hide, the log, the state of the bus.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mats.device import DeviceError
from mats.probe import UsageError
from mats.sources._nvml_library import PROFILES, Library

SUFFIX = ".profile"
MISSING = (
    "simulated drivers are not built on this machine: install a C compiler "
    "(Debian, Ubuntu: apt-get install gcc python3-dev), then reinstall mats"
)
_SECTION = re.compile(r"\[(system|all|host|log|pci|[0-9]{1,2}(?:\.[0-9])?)\]")
_LIKE_AT_MOST = 3
_LONGEST_LINE = 4000
_TEXTS = ("log", "pci")

Entries = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Profile:
    """``entries``: value by section and key, without ranges taken apart; ``log`` and ``pci``: empty where not told."""

    name: str
    path: Path
    summary: str
    entries: Entries
    log: str = ""
    pci: str = ""

    @property
    def library(self) -> Library:
        """What NVML is asked through. Raises DeviceError where the stand-in was not built."""
        return Library(library_path(), self.path, tuple(self.entries.get(("system", "missing"), "").split()))

    def value(self, gpu: int, key: str) -> str | None:
        """The text of a GPU's key, or of all GPUs."""
        return self.entries.get((str(gpu), key), self.entries.get(("all", key)))


def library_path() -> Path:
    """The stand-in that was built when mats was installed. Raises DeviceError where it was not."""
    found = importlib.util.find_spec("mats.sources._mock_nvml")
    if found is None or found.origin is None:
        raise DeviceError(MISSING)
    return Path(found.origin)


def names() -> tuple[str, ...]:
    """Profiles that are built in."""
    return tuple(sorted(path.stem for path in PROFILES.glob(f"*{SUFFIX}")))


def summaries() -> tuple[tuple[str, str], ...]:
    """Name and summary of each that is built in."""
    return tuple((name, find_profile(name).summary) for name in names())


def find_profile(argument: str) -> Profile:
    """A profile by its name, or a file ending in .profile. Raises UsageError with one sentence."""
    if argument.endswith(SUFFIX):
        return read_profile(Path(argument))
    if argument in names():
        return read_profile(PROFILES / f"{argument}{SUFFIX}")
    near = difflib.get_close_matches(argument, names(), n=1, cutoff=0.7)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UsageError(f"no simulated driver is named {argument!r}{hint}: `mats explain sim` lists them")


def read_profile(path: Path) -> Profile:
    """A profile from its file, with what it takes from those that it is like. Raises UsageError."""
    entries: Entries = {}
    texts: dict[str, str] = {}
    summary, place = "", path
    for depth in range(_LIKE_AT_MOST + 1):
        first, own, own_texts = parse_profile(_text(place), str(place))
        summary = summary or first
        entries = own | entries
        texts = own_texts | texts
        like = own.get(("system", "like"))
        if like is None:
            return Profile(path.stem, path, summary or f"read from {path}", entries, **texts)
        beside = place.with_name(f"{like}{SUFFIX}")
        built_in = PROFILES / f"{like}{SUFFIX}"
        if depth == _LIKE_AT_MOST or not (beside.is_file() or built_in.is_file()):
            break
        place = beside if beside.is_file() else built_in
    raise UsageError(f"{place}: it is like a profile that is not there, or like too many")


def parse_profile(text: str, origin: str) -> tuple[str, Entries, dict[str, str]]:
    """Summary (the comment at its head), entries, and the lines of ``[log]`` and ``[pci]``. Raises UsageError."""
    entries: Entries = {}
    texts: dict[str, list[str]] = {}
    section, summary = "", ""
    for number, line in _lines(text, origin):
        if line.startswith("#"):
            summary = summary or ("" if entries or section else line.lstrip("# "))
        elif line.startswith("["):
            match = _SECTION.fullmatch(line)
            if match is None:
                known = "[system], [all], [host], [log], [pci], a GPU's number [0], or a MIG device of it [0.1]"
                raise UsageError(f"{origin}:{number}: a section is {known}")
            section = match[1]
            if section in _TEXTS:
                texts.setdefault(section, [])
        elif section in _TEXTS:
            if not line.startswith("|"):
                raise UsageError(f"{origin}:{number}: a line of [{section}] begins with |")
            texts[section].append(line[1:].removeprefix(" "))
        else:
            key, equals, value = (part.strip() for part in line.partition("="))
            if not (key and equals and section):
                raise UsageError(f"{origin}:{number}: a line is 'key = value' within a section")
            entries.setdefault((section, key), value)
    if not any(each == "system" for each, _key in entries):
        raise UsageError(f"{origin}: it has no section [system] and is no profile of a driver")
    return summary, entries, {name: "\n".join(lines) for name, lines in texts.items()}


def _lines(text: str, origin: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _LONGEST_LINE:
            raise UsageError(f"{origin}:{number}: the line is too long")
        if line.strip():
            yield number, line.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the profile {path}: {getattr(error, 'strerror', None) or error}") from error
