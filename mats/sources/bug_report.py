"""Reads the sections of an ``nvidia-bug-report.log``: what the script collected, and what it could not.

Sections are opened by a rule line; then comes "*** FILE", a command, "Skipping: ..." or "Error: ...". A section is
handed to its parser by its name first and by its content second. A report without its last line was cut, or the script
hung: what would have followed is unknown. Source of the layout: nvidia-bug-report.sh of the driver packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mats.facts import pci_address
from mats.model import AbsenceKind, Absent
from mats.sources._recognise import Kind, recognise

RULE = "_" * 44
LAST_LINE = "End of NVIDIA bug report log file."
NEVER_ENDED = "the report has no last line: it was cut, or the script that wrote it hung"
SECTIONS_AT_MOST = 10_000
"""Blocks that are told apart; a report has some hundred."""
NAME_AT_MOST = 500
_SPLIT = re.compile(rf"^{RULE}_*[ \t]*$", re.MULTILINE)
_VERSION = re.compile(r"^nvidia-bug-report\.sh Version: (\S+)", re.MULTILINE)
_DATE = re.compile(r"^Date: (.+)$", re.MULTILINE)
_UNAME = re.compile(r"^uname: (.+)$", re.MULTILINE)
_FILE = re.compile(r"\*\*\* (?P<name>\S.*?)(?P<missing> does not exist)?$")
_BY_NAME: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"nvidia-smi\b.*(?:-x\b|--xml)"), Kind.SMI_XML),
    (re.compile(r"nvidia-smi\b.*(?:--query|-q\b)"), Kind.SMI_QUERY),
    (re.compile(r"nvidia-smi\b.*\bnvlink\b"), Kind.NVLINK),
    (re.compile(r"nvidia-smi\b.*\btopo\b"), Kind.TOPOLOGY),
    (re.compile(r"nvidia-smi\s*$"), Kind.SMI_TABLE),
    (re.compile(r"/proc/driver/nvidia/(?:\./)?version$"), Kind.DRIVER_VERSION),
    (
        re.compile(r"\bdmesg\b|/var/log/(?:messages|kern|syslog|dmesg)|^Scanning kernel log|journalctl .*-k"),
        Kind.KERNEL_LOG,
    ),
    (re.compile(r"\blspci\b.*-\w*v"), Kind.LSPCI),
    (re.compile(r"^/sys/bus/pci/devices/"), Kind.SYSFS),
)


class BugReportError(ValueError):
    """The text is no nvidia-bug-report.log; the sentence says so."""


@dataclass(frozen=True, slots=True)
class Section:
    """One file or command of the report. ``there``: False when the file did not exist or the step was skipped."""

    name: str
    text: str
    there: bool = True
    why: str = ""
    """Of a section that is not there: the script's reason."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What the section can be read as: by its name when its content agrees or is not known, else by its content."""
        if not self.there or not self.text.strip():
            return ()
        seen = recognise(f"*** {self.name}\n{self.text}" if self.name.startswith("/sys/") else self.text)
        named = next((kind for pattern, kind in _BY_NAME if pattern.search(self.name)), None)
        if named is None:
            return seen
        return (named,) if named in seen or not seen else seen


@dataclass(frozen=True, slots=True)
class GpuPower:
    """Runtime power state of a GPU when the report was written, in the driver's own words."""

    pci: str
    runtime_status: str | Absent
    """Of the kernel: active, suspended ... A suspended GPU answers nothing until something wakes it."""
    runtime_d3: str | Absent
    """Of the driver: "Enabled (fine-grained)", "Disabled by default" ..."""
    video_memory: str | Absent
    """"Active" or "Off"."""

    @property
    def suspended(self) -> bool | Absent:
        """Asleep to save power, which is neither lost nor broken."""
        if isinstance(self.runtime_status, Absent):
            return self.runtime_status
        return self.runtime_status == "suspended"


@dataclass(frozen=True, slots=True)
class BugReport:
    """``partial``: why the report stops early, or empty."""

    version: str | Absent
    date: str | Absent
    uname: str | Absent
    sections: tuple[Section, ...]
    partial: str

    def named(self, name: str) -> Section | Absent:
        """The first section whose name ends so."""
        for section in self.sections:
            if section.name.endswith(name):
                return section
        return Absent(AbsenceKind.NOT_FOUND, f"{name}: not shown in this report")

    def readable(self) -> Iterator[tuple[Section, tuple[Kind, ...]]]:
        """Sections that a parser can read, with what they are."""
        for section in self.sections:
            kinds = section.kinds
            if kinds:
                yield section, kinds

    @property
    def power(self) -> tuple[GpuPower, ...]:
        """Every PCI address for which the report holds a power state."""
        found: dict[str, dict[str, str]] = {}
        for section in self.sections:
            match = re.search(r"/(?:devices|gpus)/([0-9a-fA-F:.]+)/power(?:/runtime_status)?$", section.name)
            address = pci_address(match[1]) if match else None
            if isinstance(address, str) and section.there:
                found.setdefault(address, {})[section.name.split("/")[-1]] = section.text
        return tuple(_power(address, files) for address, files in found.items())


def parse_bug_report(text: str) -> BugReport:
    """Raises BugReportError when the text does not begin as such a report does."""
    if not _VERSION.search(text[:65536]) and "Start of NVIDIA bug report log file" not in text[:65536]:
        raise BugReportError("this text does not begin as an nvidia-bug-report.log does")
    blocks = _SPLIT.split(text, SECTIONS_AT_MOST)
    head = next((block for block in blocks if _VERSION.search(block)), "")
    sections = [section for block in blocks if block is not head for section in _sections(block)]
    ended = LAST_LINE in text[-4096:]
    return BugReport(
        version=_first(_VERSION, head, "version of the script"),
        date=_first(_DATE, head, "date"),
        uname=_first(_UNAME, head, "kernel"),
        sections=tuple(sections),
        partial="" if ended else NEVER_ENDED,
    )


def _sections(block: str) -> Iterator[Section]:
    """Sections of one block; several files may follow each other without a rule between them."""
    body = block.strip("\n")
    if not body.strip() or body.strip() == LAST_LINE or "Start of NVIDIA bug report log file" in body:
        return
    lines = body.split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("*** ") and not line.startswith("*** ls:")]
    if not starts or starts[0] > 0:
        yield _command(lines[: starts[0] if starts else len(lines)])
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        yield _file(lines[start:end])


def _file(lines: list[str]) -> Section:
    found = _FILE.fullmatch(lines[0].rstrip())
    name = (found["name"] if found else lines[0])[:NAME_AT_MOST]
    if found and found["missing"]:
        return Section(name, "", False, "does not exist")
    body = "\n".join(line for line in lines[1:] if not line.startswith("*** ls:"))
    return Section(name, body.strip("\n"))


def _command(lines: list[str]) -> Section:
    name = lines[0].strip()[:NAME_AT_MOST]
    text = "\n".join(lines[1:]).strip("\n")
    skipped = re.match(r"(?:Skipping:?|Error:) (?P<what>.+)", name)
    if skipped:
        inner = re.fullmatch(r"(?P<what>.+?) \((?P<why>.+)\)", skipped["what"])
        what, why = (inner["what"], inner["why"]) if inner else (skipped["what"], " ".join(text.split()))
        return Section(what, "", False, why or "the script says no more")
    return Section(name, text)


def _power(address: str, files: dict[str, str]) -> GpuPower:
    table = files.get("power", "")
    status = files.get("runtime_status", "").strip()
    return GpuPower(
        pci=address,
        runtime_status=status or Absent(AbsenceKind.NOT_FOUND, "runtime power state: not shown in this report"),
        runtime_d3=_first(re.compile(r"^Runtime D3 status:\s+(.+)$", re.MULTILINE), table, "runtime D3 status"),
        video_memory=_first(re.compile(r"^Video Memory:\s+(.+)$", re.MULTILINE), table, "power of the video memory"),
    )


def _first(pattern: re.Pattern[str], text: str, what: str) -> str | Absent:
    found = pattern.search(text)
    return found[1].strip() if found else Absent(AbsenceKind.NOT_FOUND, f"{what}: not shown in this report")
