"""Reads saved evidence of any mix: says what each file is by what stands in it, opens it safely, hands it on.

A file that cannot be read ends in one sentence (:class:`EvidenceError`); a part of a readable file that no parser takes
ends as a note, so that nothing is passed over in silence. Where the parsers are is a table below.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mats.sources._opening import USUAL, EvidenceError, Maxima, Opened, Saved, open_bytes, open_saved
from mats.sources._recognise import Kind, Part, parts, recognise

__all__ = [
    "Evidence",
    "EvidenceError",
    "Found",
    "Kind",
    "Maxima",
    "gather",
    "parts",
    "read_bytes",
    "read_evidence",
    "recognise",
]

Parser = Callable[[str], object]
_SMI = "mats.sources.nvidia_smi:parse"
_NCCL = "mats.sources.nccl_tests:parse_nccl_tests"
PARSERS: Mapping[Kind, str] = {
    Kind.SMI_XML: _SMI,
    Kind.SMI_QUERY: _SMI,
    Kind.SMI_TABLE: _SMI,
    Kind.SMI_CSV: _SMI,
    Kind.SMI_ERROR: _SMI,
    Kind.NVLINK: _SMI,
    Kind.TOPOLOGY: _SMI,
    Kind.DRIVER_VERSION: _SMI,
    Kind.KERNEL_LOG: "mats.sources.kernel_log:parse_kernel_log",
    Kind.WINDOWS_EVENT: "mats.sources._outside_logs:parse_windows_event",
    Kind.IPMI_SEL: "mats.sources._outside_logs:parse_controller_log",
    Kind.GPUSTAT: "mats.sources.gpustat:parse_gpustat",
    Kind.LSPCI: "mats.sources.lspci:parse_lspci",
    Kind.SYSFS: "mats.sources._sysfs_copy:parse_copy",
    Kind.DCGM_DIAG: "mats.sources.dcgm:parse_diag",
    Kind.DCGM_HEALTH: "mats.sources.dcgm:parse_health",
    Kind.DCGM_NVLINK: "mats.sources.dcgm:parse_nvlink",
    Kind.DCGM_DMON: "mats.sources.dcgm:parse_dmon",
    Kind.BUG_REPORT: "mats.sources.bug_report:parse_bug_report",
    Kind.MATS_RUN: "mats.codec:run_from_json",
    Kind.MATS_CAPTURE: "mats.sources.capture:parse_capture",
    Kind.NVBANDWIDTH: "mats.sources.nvbandwidth:parse_nvbandwidth",
    Kind.NCCL_TESTS: _NCCL,
    Kind.P2P_TEST: "mats.sources.p2p_test:parse_p2p_test",
    Kind.BANDWIDTH_TEST: "mats.sources.bandwidth_test:parse_bandwidth_test",
    Kind.GPU_COPY: "mats.sources.gpu_copy:parse_gpu_copy",
    Kind.GPU_LATENCY: "mats.sources.latency_curves:parse_gpu_latency",
    Kind.LATENCY_SWEEP: "mats.sources.latency_curves:parse_latency_sweep",
    Kind.MEMORY_SET: "mats.sources.latency_curves:parse_memory_set",
    Kind.MEMORY_MESSAGE: "mats.sources.memory_messages:parse",
}
"""Which function reads a kind."""
_SNAPSHOT_HEAD = 4096
_UNKNOWN = (
    "this text is not known here; what is read: nvidia-smi in its forms, kernel logs, lspci -vv, files of /sys, dcgmi, "
    "gpustat, nvidia-bug-report.log, nvbandwidth, p2pBandwidthLatencyTest, nccl-tests, memory snapshots of torch, "
    "messages of running out of memory, runs and captures of mats"
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one parser read. ``origin``: file, member, section and line, for people; ``cut``: why it is not whole."""

    kind: Kind
    facts: object
    origin: str
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read of some files, and a sentence for each part that was not."""

    found: tuple[Found, ...]
    notes: tuple[str, ...] = ()

    def of(self, kind: Kind) -> tuple[object, ...]:
        """The facts of one kind, in the order of the files."""
        return tuple(each.facts for each in self.found if each.kind is kind)


def read_evidence(path: Path, maxima: Maxima = USUAL) -> Evidence:
    """What a file says, plain, gzip or zip; of a folder, what a copy of /sys says. Raises EvidenceError."""
    if os.path.isdir(path):  # never raises, unlike the method of a path
        return _read_tree(path)
    if _is_snapshot(path):
        return _read_snapshot(path)
    opened = open_saved(path, maxima)
    if opened.huge:
        return _read_huge(path, opened)
    return _gathered(opened)


def read_bytes(data: bytes, name: str, maxima: Maxima = USUAL) -> Evidence:
    """As :func:`read_evidence`, of bytes that are already there."""
    return _gathered(open_bytes(data, name, maxima))


def gather(text: str, name: str = "text", cut: str = "") -> Evidence:
    """What a text says: every part to its parser. Raises EvidenceError when no part is known."""
    found: list[Found] = []
    notes: list[str] = []
    for part in parts(text):
        origin = name if part.line == 1 else f"{name}, line {part.line}"
        for each in _parsed(part, origin):
            if isinstance(each, str):
                notes.append(each)
            else:
                found.append(Found(each.kind, each.facts, each.origin, each.cut or cut))
    if not found:
        raise EvidenceError(notes[0] if notes else f"{name}: is no output of a tool that is known here")
    return Evidence(tuple(found), tuple(notes))


def _gathered(opened: Opened) -> Evidence:
    found: list[Found] = []
    notes = list(opened.notes)
    refusals: list[EvidenceError] = []
    for saved in opened.texts:
        try:
            evidence = gather(saved.text, saved.name, saved.cut)
        except EvidenceError as error:
            refusals.append(error)
            notes.append(str(error))
            continue
        found += evidence.found
        notes += evidence.notes
        notes += _cut_note(saved)
    if not found:
        raise refusals[0] if refusals else EvidenceError(notes[0])
    return Evidence(tuple(found), tuple(notes))


def _cut_note(saved: Saved) -> list[str]:
    return [f"{saved.name}: {saved.cut}; what follows is unknown"] if saved.cut else []


def _parsed(part: Part, origin: str) -> Iterator[Found | str]:
    """What each parser of the part's kinds gives: facts, or the sentence why not."""
    if not part.kinds:
        if part.text.strip():
            what = f"the output of '{part.command}' is not known here" if part.command else _UNKNOWN
            yield f"{origin}: {what}"
        return
    used = set()
    for kind in part.kinds:
        where = PARSERS[kind]
        if where not in used:
            used.add(where)
            yield from _parsed_as(kind, where, part, origin)


def _parsed_as(kind: Kind, where: str, part: Part, origin: str) -> Iterator[Found | str]:
    typed = where in (_SMI, _NCCL) and part.command  # CSV without a head is only numbers; a collective has no name
    text = f"$ {part.command}\n{part.text}" if typed else part.text
    try:
        facts = _load(where)(text)
    except ValueError as error:
        yield f"{origin}: looks like {kind.value}, but {' '.join(str(error).split())}"
        return
    yield Found(kind, facts, origin, _cut_of(facts))
    if kind is Kind.BUG_REPORT:
        yield from _sections(facts, origin)


def _sections(report: object, origin: str) -> Iterator[Found | str]:
    from mats.sources.bug_report import BugReport

    if not isinstance(report, BugReport):
        return
    readable = list(report.readable())
    pieces = [(Part(kinds, each.text), each.name) for each, kinds in readable if Kind.SYSFS not in kinds]
    files = [f"*** {each.name}\n{each.text}" for each, kinds in readable if Kind.SYSFS in kinds]
    if files:
        pieces.append((Part((Kind.SYSFS,), "\n".join(files)), "files of /sys"))
    for part, name in pieces:
        for found in _parsed(part, f"{origin}, section {name}"):
            yield found if isinstance(found, str) else replace(found, cut=found.cut or report.partial)


def _cut_of(facts: object) -> str:
    """Parsers say in ``cut`` or ``partial`` why there is less than was written."""
    for name in ("cut", "partial"):
        said = getattr(facts, name, "")
        if isinstance(said, str) and said:
            return said
    return ""


def _is_snapshot(path: Path) -> bool:
    """A pickle, or JSON that begins with segments. What cannot be opened is left to who opens it."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_SNAPSHOT_HEAD)
    except OSError:
        return False
    if head[:1] == b"\x80":
        return head[1:2] <= b"\x05"
    return head.lstrip()[:1] in (b"{", b"[") and b'"segment_type"' in head and b'"total_size"' in head


def _read_snapshot(path: Path) -> Evidence:
    from mats.sources._snapshot_load import SnapshotError
    from mats.sources.torch_snapshot import read

    try:
        return Evidence((Found(Kind.TORCH_SNAPSHOT, read(path), str(path)),))
    except SnapshotError as error:
        raise EvidenceError(f"{path}: {error}") from None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from None


def _read_tree(path: Path) -> Evidence:
    from mats.sources import sysfs

    root = next((each for each in (path, path / "sys") if (each / "bus" / "pci" / "devices").is_dir()), None)
    if root is None:
        raise EvidenceError(f"{path}: is a folder and no copy of /sys; name the files in it")
    try:
        return Evidence((Found(Kind.SYSFS, sysfs.read_pci(root), str(path)),))
    except sysfs.SysfsError as error:
        raise EvidenceError(str(error)) from None


def _read_huge(path: Path, opened: Opened) -> Evidence:
    """A text above the maximum: only a kernel log is read, piece by piece, since logs do grow so large."""
    from mats.sources import kernel_log

    kinds = recognise(opened.texts[0].text)
    if Kind.KERNEL_LOG not in kinds:
        what = kinds[0].value if kinds else "no output of a tool that is known here"
        raise EvidenceError(f"{path}: is larger than any saved output ({what}); cut out the part that matters")
    try:
        return Evidence((Found(Kind.KERNEL_LOG, kernel_log.read_kernel_log(path), str(path)),))
    except (ValueError, OSError) as error:
        raise EvidenceError(f"{path}: looks like a kernel log, but {error}") from None


def _load(where: str) -> Parser:
    module, _, name = where.partition(":")
    parser: Parser = getattr(importlib.import_module(module), name)
    return parser
