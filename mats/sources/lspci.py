"""Reads saved ``lspci -vv`` text of old and new pciutils: links, windows, resizable BARs, error flags.

Where sysfs answers, it is asked instead; this is for files that somebody sends. lspci says "(ok)" or "(downgraded)" of
endpoints only, and newer versions no longer say "(ok)": the words are kept as marks and never needed.
Source of the layout: pciutils, ls-caps.c, ls-ecaps.c and lspci.c.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mats.facts.pci import (
    AMD,
    INTEL,
    NVIDIA,
    AerFacts,
    Bar,
    PciDevice,
    PciLink,
    Resizable,
    address_of,
    rate_of,
    width_of,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources.sysfs import PciFacts

HEAD = re.compile(
    r"^(?P<at>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:\n]{1,80}): (?P<name>.*)$", re.M
)
DEVICES_AT_MOST = 10_000
_CLASSES = {
    "VGA compatible controller": 0x0300,
    "3D controller": 0x0302,
    "Display controller": 0x0380,
    "PCI bridge": 0x0604,
    "Bridge": 0x0680,
    "Audio device": 0x0403,
}
_VENDORS = {"NVIDIA": NVIDIA, "Advanced Micro Devices": AMD, "AMD": AMD, "Intel": INTEL}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_REGION = re.compile(
    r"^[ \t]+Region (?P<number>\d): (?P<kind>Memory|I/O ports) at (?P<at>\S+)(?P<rest>.*?)"
    r"\[size=(?P<size>\d{1,12})(?P<unit>[KMGT]?)\]",
    re.M,
)
_RESIZABLE = re.compile(
    r"^[ \t]+BAR (?P<number>\d): current size: (?P<size>\d{1,9})(?P<unit>[KMGT]?)B, supported:(?P<choice>[^\n]*)$", re.M
)
_CHOICE = re.compile(r"(\d{1,9})([KMGT]?)B")
_SPEED = re.compile(r"Speed (?P<speed>[^,(\n]+?)(?: \((?P<sm>\w+)\))?, Width (?P<width>x?\d+)(?: \((?P<wm>\w+)\))?")
_BUSES = re.compile(r"^[ \t]+Bus: primary=(?P<primary>[0-9a-f]{2}), secondary=(?P<secondary>[0-9a-f]{2})", re.M)


class LspciError(ValueError):
    """The text is no output of lspci; the sentence says why."""


@dataclass(frozen=True, slots=True)
class _Section:
    head: re.Match[str]
    body: str


def parse_lspci(text: str) -> PciFacts:
    """Every device of the text; ports above it as far as bridges and their buses are listed. Raises LspciError."""
    sections = list(_sections(text))
    if not sections:
        raise LspciError("this text has no line '01:00.0 CLASS: NAME' of lspci")
    devices = [_device(section) for section in sections]
    parents = _parents(sections)
    return PciFacts(tuple(replace(device, upstream=_upstream(device.address, parents)) for device in devices))


def _sections(text: str) -> Iterator[_Section]:
    heads = list(itertools.islice(HEAD.finditer(text), DEVICES_AT_MOST + 1))
    if len(heads) > DEVICES_AT_MOST:
        raise LspciError(f"this text lists more than {DEVICES_AT_MOST} devices, which no machine has")
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=False):
        body = text[head.end() : end]
        yield _Section(head, body.split("\n\n")[0])


def _device(section: _Section) -> PciDevice:
    head, body = section.head, section.body
    ids = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", head["name"])
    vendor = int(ids[1], 16) if ids else _vendor(head["name"])
    hidden = _hidden(body)
    now, marks = _link(body, "LnkSta", hidden)
    maximum, _ = _link(body, "LnkCap", hidden)
    gone = "(rev ff)" in head["name"] or "Unknown header type 7f" in body
    counts = Absent(AbsenceKind.NOT_FOUND, "PCIe errors: lspci shows flags and no counts")
    return PciDevice(
        address=address_of(head["at"]) or head["at"],
        vendor=vendor,
        device=int(ids[2], 16) if ids else Absent(AbsenceKind.NOT_FOUND, "device number: lspci ran without -nn"),
        class_code=_class(head["kind"]),
        name=re.sub(r" ?(\(rev [0-9a-f]+\)|\(prog-if [^)]*\)|\[[0-9a-f]{4}:[0-9a-f]{4}\])", "", head["name"]).strip(),
        driver=_word(body, "Kernel driver in use", "driver: none is shown as bound to the device"),
        now=now,
        maximum=maximum,
        bars=_bars(body),
        resizable=_resizable(body, hidden),
        errors=AerFacts(counts, counts, counts),
        numa_node=_numa(body),
        power_state=Absent(AbsenceKind.NOT_FOUND, "power state: lspci does not show it"),
        upstream=(),
        answers=not gone,
        error_flags=_flags(body, hidden),
        marks=(*marks, *_other_maximum(body, maximum)),
    )


def _hidden(body: str) -> Absent:
    """Why the body does not show a capability."""
    if "<access denied>" in body:
        return Absent(AbsenceKind.NO_PERMISSION, "lspci could not read capabilities (run it as root)")
    return Absent(AbsenceKind.NOT_FOUND, "not shown in this file")


def _link(body: str, name: str, hidden: Absent) -> tuple[PciLink, tuple[str, ...]]:
    """The link of one register and lspci's marks beside its numbers."""
    line = re.search(rf"^[ \t]+{name}:(.*)$", body, re.M)
    found = _SPEED.search(line[1]) if line else None
    if found is None:
        absent = Absent(hidden.kind, f"PCIe link: {hidden.reason}")
        return PciLink(absent, absent), ()
    marks = tuple(f"{what}: {found[key]}" for what, key in (("speed", "sm"), ("width", "wm")) if found[key])
    return PciLink(rate_of(found["speed"]), width_of(found["width"])), marks


def _other_maximum(body: str, maximum: PciLink) -> tuple[str, ...]:
    """LnkCap may follow the slot while LnkCap2 still lists what the card could do."""
    found = re.search(r"Supported Link Speeds: [\d.]+-([\d.]+GT/s)", body)
    if found is None or isinstance(maximum.rate, Absent):
        return ()
    listed = rate_of(found[1])
    if isinstance(listed, Absent) or listed == maximum.rate:
        return ()
    return (f"supported speeds reach {found[1]}",)


def _bars(body: str) -> tuple[Bar, ...] | Absent:
    bars = []
    for found in _REGION.finditer(body):
        at = re.fullmatch(r"[0-9a-f]{1,16}", found["at"])
        rest = found["rest"]
        bars.append(
            Bar(
                index=int(found["number"]),
                address=int(at[0], 16) if at else 0,
                size=int(found["size"]) * _SIZES[found["unit"]],
                memory=found["kind"] == "Memory",
                wide="64-bit" in rest,
                prefetchable=" prefetchable" in rest,
                placed=at is not None,
            )
        )
    return tuple(bars) or Absent(AbsenceKind.NOT_FOUND, "BARs: not shown in this file (lspci wants -v)")


def _resizable(body: str, hidden: Absent) -> tuple[Resizable, ...] | Absent:
    start = body.find("Physical Resizable BAR")
    if start < 0:
        if hidden.kind is AbsenceKind.NO_PERMISSION or "Capabilities:" not in body:
            return Absent(hidden.kind, f"resizable BAR: {hidden.reason}")
        return Absent(AbsenceKind.NOT_SUPPORTED, "resizable BAR: the device lists no such capability")
    own = body[start:].split("Capabilities:")[0]
    found = []
    for bar in _RESIZABLE.finditer(own):
        sizes = tuple(int(size) * _SIZES[unit] for size, unit in _CHOICE.findall(bar["choice"]))
        now = Quantity(int(bar["size"]) * _SIZES[bar["unit"]], Unit.BYTE)
        found.append(Resizable(int(bar["number"]), now, sizes))
    return tuple(found) or Absent(AbsenceKind.UNREADABLE, "resizable BAR: the capability is listed without its sizes")


def _flags(body: str, hidden: Absent) -> tuple[str, ...] | Absent:
    """Error bits that are set, as REGISTER.NAME; a register may go on over several lines."""
    found = []
    registers = re.findall(r"^[ \t]+(UESta|CESta):(.*(?:\n[ \t]+(?!\w+:)[^\n:]*)*)", body, re.M)
    if not registers:
        return Absent(hidden.kind, f"error flags: {hidden.reason}")
    for register, bits in registers:
        found += [f"{register}.{bit}" for bit in re.findall(r"(\w+)\+", bits)]
    return tuple(found)


def _class(kind: str) -> int | Absent:
    number = re.search(r"\[([0-9a-f]{4})\]", kind)
    if number:
        return int(number[1], 16)
    known = _CLASSES.get(kind.strip())
    return (
        Absent(AbsenceKind.NOT_FOUND, f"class: {kind.strip()!r} is not a display adapter") if known is None else known
    )


def _vendor(name: str) -> int | Absent:
    for word, number in _VENDORS.items():
        if name.startswith(word):
            return number
    return Absent(AbsenceKind.NOT_FOUND, "vendor number: lspci ran without -nn")


def _numa(body: str) -> Reading:
    found = re.search(r"^[ \t]+NUMA node: (\d{1,4})$", body, re.M)
    if found is None:
        return Absent(AbsenceKind.NOT_FOUND, "NUMA node: not shown in this file")
    return Quantity(int(found[1]), Unit.COUNT)


def _word(body: str, key: str, missing: str) -> str | Absent:
    found = re.search(rf"^[ \t]+{key}: (\S+)", body, re.M)
    return found[1] if found else Absent(AbsenceKind.NOT_FOUND, missing)


def _parents(sections: list[_Section]) -> dict[str, str]:
    """By domain and bus ("0000:01"): the bridge above it."""
    parents = {}
    for section in sections:
        address = address_of(section.head["at"])
        buses = _BUSES.search(section.body)
        if address and buses and buses["secondary"] != buses["primary"]:
            parents[f"{address[:4]}:{buses['secondary']}"] = address
    return parents


def _upstream(address: str, parents: dict[str, str]) -> tuple[str, ...] | Absent:
    chain: list[str] = []
    bus = address.rsplit(":", 1)[0]
    while bus in parents and parents[bus] not in chain:
        chain.append(parents[bus])
        bus = parents[bus].rsplit(":", 1)[0]
    return tuple(chain) or Absent(AbsenceKind.NOT_FOUND, "ports above the device: no bridge above it is in this file")
