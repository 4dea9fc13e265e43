"""Saved output of nvidia-smi as facts, in any of its formats and from any driver since 390; several in one file too.

What it prints is promised to nobody: names, units and layout change with the driver. So nothing is read by position,
every value may be absent with its reason, and a word that is not known is shown and never taken for a good one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from mats.facts import MachineFacts
from mats.sources._join import join_machines
from mats.sources._smi_csv import adopt, apps_of, columns_of, latest, looks_like_csv, parse_apps, parse_csv
from mats.sources._smi_links import looks_like_links, looks_like_topology, parse_links, parse_topology
from mats.sources._smi_messages import looks_like_message, parse_messages
from mats.sources._smi_table import looks_like_table, parse_table
from mats.sources._smi_text import looks_like_text, parse_text
from mats.sources._smi_values import SmiError
from mats.sources._smi_xml import looks_like_xml, parse_xml

__all__ = ["LARGEST", "SmiError", "looks_like_smi", "parse", "parse_samples", "read"]

LARGEST = 64 << 20
"""Bytes that are read; the log of a machine with 16 GPUs and all their clocks is below 2 MiB."""

_COMMAND = re.compile(
    r"^(?:[^\s#$>%]{1,60}@\S{1,60}[: ]\S{0,80})?[ \t]*[#$>%][ \t]*(?:sudo[ \t]+)?(?:\S{0,80}/)?"
    r"(nvidia-smi|dcgmi|dmesg|journalctl|lspci|cat|grep|tail|head|ipmitool|gpustat|nvcc|uname)\b(.*)$",
    re.MULTILINE,
)
_READERS: tuple[tuple[Callable[[str], bool], Callable[[str], MachineFacts]], ...] = (
    (looks_like_text, parse_text),
    (looks_like_table, parse_table),
    (looks_like_links, parse_links),
    (looks_like_topology, parse_topology),
    (looks_like_message, parse_messages),
)
_LINES = 500_000
"""More lines than any output has; only a CSV that was recorded for days is longer."""
_ROWS = 256
"""Rows of a CSV in which the last sample of each GPU is looked for."""
_OURS = ("nvidia-smi", "cat", "tail", "head", "grep")
"""Commands whose output may be of nvidia-smi."""


def looks_like_smi(text: str) -> bool:
    """Whether output of nvidia-smi in any format is in the text."""
    return any(_wanted(part, command) for command, part in _parts(text))


def parse(text: str) -> MachineFacts:
    """Everything the text holds as one picture; where it holds a value twice, the last. Raises SmiError."""
    found, apps = [], []
    for command, part in _parts(text):
        if apps_of(command):
            apps.append(parse_apps(part, apps_of(command)))
            continue
        samples = _samples(part, command, last=_ROWS)
        found += [*_pictures(part), *([_last(samples)] if samples else [])]
    if not found and not apps:
        raise SmiError("this is no output of nvidia-smi that is known")
    return reduce(adopt, apps, join_machines(reversed(found)))


def _last(samples: Sequence[MachineFacts]) -> MachineFacts:
    """The last sample of each GPU, with a note where there are others."""
    machine = latest(samples)
    if len(samples) == 1:
        return machine
    note = "the CSV of nvidia-smi holds several samples: the last of each GPU is taken"
    return replace(machine, notes=(*machine.notes, note))


def parse_samples(text: str) -> tuple[MachineFacts, ...]:
    """The samples of a CSV (``--query-gpu`` with ``-l``) in the order of time; empty for the other formats."""
    return tuple(sample for command, part in _parts(text) for sample in _samples(part, command))


def read(source: Path | bytes) -> MachineFacts:
    """The facts of a saved file, or of its bytes. Raises SmiError also when it cannot be opened, or is too large."""
    if isinstance(source, bytes):
        return parse(_decode(source))
    try:
        with source.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise SmiError(f"{source}: cannot be read ({error.strerror or error})") from error
    return parse(_decode(data))


def _decode(data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 as a redirect of PowerShell writes it."""
    if len(data) > LARGEST:
        raise SmiError(f"the file is larger than {LARGEST >> 20} MiB, which no output of nvidia-smi is")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        raise SmiError("the file is binary")
    return data.decode("utf-8-sig", errors="replace")


def _parts(text: str) -> list[tuple[str, str]]:
    """The text by the commands written in it, each with its command line; the whole when there is none."""
    matches = list(_COMMAND.finditer(text))
    starts = [0, *(match.end() for match in matches)]
    ends = [*(match.start() for match in matches), len(text)]
    commands = ["", *(f"{match[1]}{match[2]}" for match in matches)]
    parts = zip(commands, (text[start:end] for start, end in zip(starts, ends, strict=True)), strict=True)
    return [(command, part) for command, part in parts if part.strip() and (not command or command.startswith(_OURS))]


def _wanted(part: str, command: str) -> bool:
    known = looks_like_xml(part) or any(looks(part) for looks, _ in _READERS)
    return known or looks_like_csv(_without_messages(part)) or bool(columns_of(command) or apps_of(command))


def _pictures(part: str) -> list[MachineFacts]:
    """What one command printed, in any format but CSV."""
    if looks_like_xml(part):
        return [parse_xml(part)]
    if part.count("\n") > _LINES:
        return []
    return [parse_one(part) for looks, parse_one in _READERS if looks(part)]


def _samples(part: str, command: str, last: int = 0) -> tuple[MachineFacts, ...]:
    """What one command printed as CSV, without the messages between its rows."""
    rows = "" if looks_like_xml(part) else _without_messages(part)
    if not looks_like_csv(rows) and not columns_of(command):
        return ()
    return parse_csv(rows, columns_of(command), last) if rows.strip() else ()


def _without_messages(part: str) -> str:
    """A GPU that gives no answer puts a line of words between the rows or before the head."""
    if not looks_like_message(part):
        return part
    return "\n".join(line for line in part.splitlines() if not looks_like_message(line))
