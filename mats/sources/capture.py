"""Everything passive of one machine in one file, for a colleague to judge elsewhere: the facts, and the raw texts.

The facts alone decide what ``mats health --from`` says of the file, so that it comes to the same as on the machine; the
texts beside them are for people. The file is gzipped JSON whose first key says what it is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mats.codec import SavedRunError, from_data, to_data
from mats.facts import GpuFacts, MachineFacts
from mats.model import Absent
from mats.sources._json_cut import loads
from mats.sources._kernel_doors import LogText, Run, about_gpus, read_live_text, run_command
from mats.sources._sysfs_copy import copy_text

SCHEMA_VERSION = 1
"""Of the layout; raised when a key changes its meaning or goes."""
LARGEST_TEXT = 16 << 20
"""Bytes of one raw text that are kept."""
COMMANDS = (("nvidia-smi", "-q", "-x"), ("lspci", "-D", "-nn", "-vv"))
"""Asked only where no GPU sleeps: both wake it."""


class CaptureError(ValueError):
    """The text is no capture that this version can read; one sentence says why."""


@dataclass(frozen=True, slots=True)
class Capture:
    """``tool``: name and version of what wrote it; ``taken``: ISO 8601 with zone; ``raw``: name and text of each."""

    tool: str
    taken: str
    facts: MachineFacts
    raw: tuple[tuple[str, str], ...] = ()
    redacted: bool = False


def capture_to_bytes(capture: Capture) -> bytes:
    """The file. The same capture gives the same bytes."""
    data = {
        "mats_capture": capture.tool,
        "schema_version": SCHEMA_VERSION,
        "taken": capture.taken,
        "redacted": capture.redacted,
        "facts": to_data(capture.facts),
        "raw": dict(capture.raw),
    }
    return gzip.compress(json.dumps(data, indent=1).encode("ascii"), mtime=0)


def parse_capture(text: str) -> MachineFacts:
    """The facts of a capture's JSON, with a note of when and by what it was taken. Raises CaptureError."""
    try:
        data, cut = loads(text.lstrip())
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"its JSON cannot be read: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("mats_capture"), str):
        raise CaptureError("this JSON is no capture of mats")
    version = data.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise CaptureError("this capture does not say which layout it has: it is damaged")
    if version > SCHEMA_VERSION:
        raise CaptureError(f"it was written by a newer mats ({data['mats_capture'][:40]}): update mats to read it")
    if "facts" not in data:
        raise CaptureError("the capture is cut before its facts" if cut else "this capture holds no facts")
    try:
        facts = from_data(MachineFacts, data["facts"])
    except SavedRunError as error:
        raise CaptureError(str(error).replace("this saved run", "this capture").rstrip(".")) from None
    taken = data.get("taken") if isinstance(data.get("taken"), str) else "at a time not told"
    redacted = ", names and numbers of identity replaced" if data.get("redacted") is True else ""
    note = f"captured {str(taken)[:40]} by {data['mats_capture'][:40]}{redacted}"
    return replace(facts, notes=(*facts.notes, note), partial=facts.partial or _cut(cut, data))


def _cut(cut: str, data: dict[str, object]) -> str:
    """A capture that ends within its raw texts has lost nothing that is judged."""
    return cut if cut and "raw" not in data else ""


def collect(facts: MachineFacts, seconds: float, root: Path, run: Run = run_command) -> tuple[tuple[str, str], ...]:
    """The raw texts of this machine beside its facts; what cannot be had is left out or says why.

    ``seconds``: for each command that is asked.
    """
    return tuple(_texts(facts, seconds, root, run))


def _texts(facts: MachineFacts, seconds: float, root: Path, run: Run) -> Iterator[tuple[str, str]]:
    log = read_live_text(root, run)
    if isinstance(log, LogText):
        yield f"kernel log ({log.origin}), lines about GPUs", about_gpus(log.data)[-LARGEST_TEXT:]
    devices = () if isinstance(facts.devices, Absent) else facts.devices
    files = copy_text(root / "sys", [device.address for device in devices])
    if files:
        yield "sysfs", files
    version = _file(root / "proc/driver/nvidia/version")
    if version:
        yield "/proc/driver/nvidia/version", version
    gpus: tuple[GpuFacts, ...] = () if isinstance(facts.gpus, Absent) else facts.gpus
    if any(gpu.asleep is True for gpu in gpus):
        yield " and ".join(command[0] for command in COMMANDS), "not asked: they would wake a GPU that sleeps"
        return
    for command in COMMANDS:
        yield " ".join(command), _output(command, seconds, run)


def _output(command: tuple[str, ...], seconds: float, run: Run) -> str:
    try:
        done = run(command, seconds)
    except FileNotFoundError:
        return "not asked: there is no such command here"
    except OSError as error:  # TimeoutError is one, too
        return f"not had: {error.strerror or error}"
    text = (done.output + done.errors)[:LARGEST_TEXT].decode(errors="replace")
    return text if done.code == 0 else f"{text}\n(ended with code {done.code})"


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_TEXT).decode(errors="replace")
    except OSError:
        return ""
