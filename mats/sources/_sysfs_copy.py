"""Files of ``/sys`` in one text: as people save them with head, grep or a bug report, and as a capture keeps them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from mats.facts.pci import address_of
from mats.model import AbsenceKind, Absent
from mats.sources.sysfs import RESOURCE_LINE, PciFacts, SysfsError, attributes_of, device_of, is_display

_TITLE = re.compile(r"^==> (?P<a>/\S+) <==$|^\*\*\* (?P<b>/sys/\S+)$", re.MULTILINE)
_INLINE = re.compile(
    r"^(?P<path>/sys/\S{0,200}[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]/[\w/]+):(?P<value>.*)$", re.MULTILINE
)


def copy_text(root: Path, addresses: Iterable[str]) -> str:
    """The files of these devices in the tree at ``root``, each below its path; what :func:`parse_copy` reads."""
    parts = []
    for address in addresses:
        folder = root / "bus/pci/devices" / address
        try:
            place = folder.resolve(strict=True).relative_to(root.resolve(strict=True))
        except (OSError, RuntimeError, ValueError):
            continue
        parts += [f"==> /sys/{place}/{name} <==\n{text.rstrip()}\n" for name, text in attributes_of(folder).items()]
    return "\n".join(parts)


def parse_copy(text: str) -> PciFacts:
    """Files of ``/sys`` saved as text: titled by ``head`` or ``tail``, by a bug report, or as ``path:value`` of grep.

    A bare ``resource`` file is taken too (its device is then unknown: address "?"). Raises SysfsError for other text.
    """
    files = _titled(text) or _inline(text)
    if not files and text.strip() and all(RESOURCE_LINE.fullmatch(line) for line in _lines(text)):
        missing = Absent(AbsenceKind.NOT_FOUND, "not shown in this file")
        return PciFacts((device_of("?", {"resource": text}, missing, missing),))
    by_address: dict[str, dict[str, str]] = {}
    lineages: dict[str, tuple[str, ...]] = {}
    for path, value in files:
        parts = path.split("/")
        places = [number for number, part in enumerate(parts) if address_of(part)]
        if not places:
            continue
        chain = [address_of(parts[number]) or "" for number in places]
        by_address.setdefault(chain[-1], {})["/".join(parts[places[-1] + 1 :])] = value
        if len(chain) > 1 or any(part.startswith("pci") and ":" in part for part in parts):
            lineages[chain[-1]] = tuple(reversed(chain[:-1]))
    if not by_address:
        raise SysfsError("this text holds no file of /sys/bus/pci")
    return _assembled(by_address, lineages)


def _assembled(by_address: Mapping[str, Mapping[str, str]], lineages: dict[str, tuple[str, ...]]) -> PciFacts:
    unknown = Absent(AbsenceKind.NOT_FOUND, "ports above the device: the paths in this file do not show them")
    bound = Absent(AbsenceKind.NOT_FOUND, "driver: not shown in this file")
    assumed = "" if lineages else _one_path(by_address)
    if assumed:
        order = tuple(by_address)
        lineages = {address: tuple(reversed(order[:number])) for number, address in enumerate(order)}
    devices = [
        device_of(address, files, lineages.get(address, unknown), bound, "not shown in this file")
        for address, files in by_address.items()
    ]
    return PciFacts(tuple(devices), assumed)


def _one_path(by_address: Mapping[str, Mapping[str, str]]) -> str:
    """Why devices without a stated tree are taken as one path: few, of one domain, buses rising, one GPU at most."""
    places = [address.split(":") for address in by_address]
    buses = [int(bus, 16) for _, bus, _ in places]
    displays = sum(is_display(files.get("class", "")) for files in by_address.values())
    rising = all(one < other for one, other in itertools.pairwise(buses))
    if not 2 <= len(places) <= 5 or len({domain for domain, _, _ in places}) > 1 or not rising or displays > 1:
        return ""
    return "the file does not show which port lies above which device; they are taken as one path in their order"


def _lines(text: str) -> Iterable[str]:
    return (line for line in text.splitlines() if line.strip())


def _titled(text: str) -> list[tuple[str, str]]:
    titles = list(_TITLE.finditer(text))
    ends = [title.start() for title in titles[1:]] + [len(text)]
    found = []
    for title, end in zip(titles, ends, strict=False):
        body = [line for line in text[title.end() : end].splitlines() if not line.startswith(("*** ls:", "____"))]
        found.append((title["a"] or title["b"], "\n".join(body).strip()))
    return [(path, value) for path, value in found if value]


def _inline(text: str) -> list[tuple[str, str]]:
    values: dict[str, list[str]] = {}
    for found in _INLINE.finditer(text):
        values.setdefault(found["path"], []).append(found["value"])
    return [(path, "\n".join(lines)) for path, lines in values.items()]
