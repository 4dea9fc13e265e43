"""``nvidia-smi nvlink`` (status, errors, remote ends) and ``nvidia-smi topo -m``."""

from __future__ import annotations

import re
from dataclasses import replace

from mats.facts import GpuFacts, LinkFacts, MachineFacts, NvlinkFacts, PairFacts, pci_address
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._join import join
from mats.sources._smi_machine import bare_gpu, bare_machine
from mats.sources._smi_values import NOT_SHOWN, Fields, Section, SmiError, to_quantity

_GPU = re.compile(r"GPU\s+([0-9]{1,4}):\s+(.+?)\s+\(UUID:\s*(\S+)\)")
_LINK = re.compile(r"Link\s+([0-9]{1,3})\s*[:,]\s*(\S.*)")
_COUNTER = re.compile(r"([A-Za-z][A-Za-z0-9 /_()-]*?)\s*:\s*(\S+)")
_REMOTE = re.compile(r"Remote Device\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]).*", re.IGNORECASE)
_SPEED = re.compile(r"[0-9.]+\s*[GMK]i?B/s", re.IGNORECASE)
_ALL_INACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)
_INACTIVE = frozenset({"inactive", "down", "disabled", "off"})
_HEAD = re.compile(r"\s*(?:GPU[0-9]{1,4}\s+)*GPU[0-9]{1,4}\b.*")
_ROW = re.compile(r"GPU([0-9]{1,4})\s+(\S.*)")
_CLASS = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|N/A|C2C")


def looks_like_links(text: str) -> bool:
    """Whether GPUs with a UUID in brackets stand in it and something of NVLink below them."""
    return (
        "(UUID:" in text
        and bool(_GPU.search(text))
        and bool(re.search(r"^\s*Link\s+[0-9]|NVLink", text, re.MULTILINE | re.IGNORECASE))
    )


def parse_links(text: str) -> MachineFacts:
    """NVLinks of each GPU; several commands in one text are one picture. Raises SmiError when there is no GPU."""
    gpus: dict[int, GpuFacts] = {}
    rows: dict[int, list[str]] = {}
    number = -1
    for line in map(str.strip, text.splitlines()):
        head = _GPU.fullmatch(line)
        if head is not None:
            number = int(head[1])
            rows.setdefault(number, [])
            gpus[number] = _named(number, head[2], head[3])
        elif number >= 0 and (_LINK.fullmatch(line) or _ALL_INACTIVE.search(line)):
            rows[number].append(line)
    if not gpus:
        raise SmiError("this text holds no GPU of nvidia-smi nvlink")
    found = {at: replace(gpu, nvlink=_nvlink(rows[at])) for at, gpu in gpus.items()}
    cut = "the text is cut off in its last line" if _cut(text) else ""
    if cut:  # a link that is not counted is not one that is down
        unknown = Absent(AbsenceKind.UNREADABLE, "active NVLinks: the file is cut off within them")
        found[number] = replace(found[number], nvlink=replace(found[number].nvlink, active=unknown))
    return replace(bare_machine(), gpus=tuple(found.values()), partial=cut)


def _cut(text: str) -> bool:
    """Whether the last line begins as one of a link and does not end as one."""
    last = text.rpartition("\n")[2].strip()
    match = _LINK.fullmatch(last)
    begun = bool(re.fullmatch(r"L(?:i(?:n(?:k(?:\s+[0-9]*:?)?)?)?)?", last)) if match is None else True
    return begun and (match is None or _link(int(match[1]), match[2]) is None)


def _named(number: int, name: str, uuid: str) -> GpuFacts:
    return replace(bare_gpu(), index=Quantity(number, Unit.COUNT), name=name, uuid=uuid)


def _nvlink(rows: list[str]) -> NvlinkFacts:
    what = "NVLinks"
    links: dict[int, LinkFacts] = {}
    silent = False
    for row in rows:
        silent = silent or bool(_ALL_INACTIVE.search(row))
        match = _LINK.fullmatch(row)
        link = _link(int(match[1]), match[2]) if match is not None else None
        if link is not None:
            links[link.link] = join(links[link.link], link) if link.link in links else link
            links[link.link] = _with_errors(links[link.link], link)
    if not links:
        gone = Absent(AbsenceKind.NOT_FOUND, f"{what}: {NOT_SHOWN}")
        if not silent:
            return NvlinkFacts(gone, gone)
        inactive = Absent(AbsenceKind.NOT_FOUND, f"{what}: the driver lists none, since all of them are inactive")
        return NvlinkFacts(Quantity(0, Unit.COUNT), inactive)
    ordered = tuple(links[number] for number in sorted(links))
    states = [link.active for link in ordered]
    if any(isinstance(state, Absent) for state in states):
        return NvlinkFacts(Absent(AbsenceKind.NOT_FOUND, f"active {what}: {NOT_SHOWN}"), ordered)
    return NvlinkFacts(Quantity(sum(state is True for state in states), Unit.COUNT), ordered)


def _with_errors(joined: LinkFacts, link: LinkFacts) -> LinkFacts:
    """Counters come one a line: each is added, the later of one name has the word."""
    return replace(joined, errors=tuple((dict(joined.errors) | dict(link.errors)).items()))


def _link(number: int, said: str) -> LinkFacts | None:
    """What one line tells of a link; None when it tells nothing that is kept, such as what it could do."""
    fields = Fields(Section(""))
    what = f"NVLink {number}"
    gone = fields.missing(f"{what}, state")
    link = LinkFacts(
        number,
        active=gone,
        speed=fields.missing(f"{what}, speed"),
        version=fields.missing(f"{what}, version"),
        remote=fields.missing(f"{what}, other end"),
    )
    word = said.strip("<> ").lower()
    if word in _INACTIVE:
        down = Absent(AbsenceKind.NOT_SUPPORTED, f"{what}, speed: the link is down")
        return replace(link, active=False, speed=down)
    if _SPEED.fullmatch(said.strip()):
        speed = to_quantity(f"{what}, speed", said, Unit.BYTE_PER_SECOND)
        up = isinstance(speed, Quantity) and speed.value > 0
        return replace(link, active=up if isinstance(speed, Quantity) else gone, speed=speed)
    remote = _REMOTE.fullmatch(said)
    if remote is not None:
        return replace(link, remote=pci_address(remote[1]))
    counter = _COUNTER.fullmatch(said)
    if counter is None or not ("error" in said.lower() or counter[2].isdecimal() or counter[2] == "N/A"):
        return None
    name = counter[1].lower()
    return replace(link, errors=((name, to_quantity(f"{what}, {name}", counter[2], Unit.COUNT)),))


def looks_like_topology(text: str) -> bool:
    """Whether a matrix of GPUs stands in it."""
    return "CPU Affinity" in text and any("CPU Affinity" in line and _HEAD.fullmatch(line) for line in _plain(text))


def _plain(text: str) -> list[str]:
    """Lines without the underlining of a terminal."""
    return [line.expandtabs(8) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def parse_topology(text: str) -> MachineFacts:
    """Which class each pair of GPUs is of, and where each sits. Raises SmiError when there is no matrix."""
    columns: list[str] = []
    pairs: dict[tuple[int, int], str] = {}
    gpus: list[GpuFacts] = []
    for line in _plain(text):
        if "CPU Affinity" in line and _HEAD.fullmatch(line):
            columns, pairs, gpus = line[: line.index("CPU Affinity")].split(), {}, []
            continue
        row = _ROW.fullmatch(line.strip()) if columns else None
        cells = row[2].split() if row is not None else []
        if row is None or len(cells) < len(columns):
            continue
        number = int(row[1])
        for column, cell in zip(columns, cells, strict=False):
            other = int(column[3:]) if re.fullmatch(r"GPU[0-9]{1,4}", column) else number
            if other != number and _CLASS.fullmatch(cell):
                pairs.setdefault((min(number, other), max(number, other)), cell)
        gpus.append(_placed(number, cells[len(columns) :]))
    if not gpus:
        raise SmiError("this text holds no matrix of nvidia-smi topo -m")
    found = tuple(PairFacts(first, second, word) for (first, second), word in sorted(pairs.items()))
    return replace(bare_machine(), gpus=tuple(gpus), pairs=found)


def _placed(number: int, rest: list[str]) -> GpuFacts:
    """``rest``: processors, then the NUMA node."""
    children = [Section(name, said) for name, said in zip(("cpus", "numa"), rest, strict=False)]
    fields = Fields(Section("", children=children))
    return replace(
        bare_gpu(),
        index=Quantity(number, Unit.COUNT),
        cpus=fields.text("processor affinity", "cpus"),
        numa=fields.count("NUMA node", "numa"),
    )
