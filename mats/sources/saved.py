"""One picture of a machine from saved files of any mix: what each tool told of it, joined GPU by GPU.

Later pictures have the word over earlier ones, fuller forms over shorter ones; what no file holds stays absent. Files
that tell of different machines are listed side by side with a note, and nothing of one is taken for the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from mats.facts import UNASKED, GpuFacts, HostFacts, LogFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Run, TargetInfo
from mats.probe import UsageError
from mats.source import NothingThere, Source
from mats.sources import _claims
from mats.sources._events import KernelLog, LoggedGpu
from mats.sources._join import join_machines
from mats.sources._log_facts import log_facts
from mats.sources._outside_logs import ControllerEvent, WindowsEvent
from mats.sources._picture import describe, nothing_there, title_of
from mats.sources._recognise import MEASURED, OF_MEMORY
from mats.sources.bug_report import BugReport
from mats.sources.dcgm import DcgmDiag, DcgmHealth, DcgmSample
from mats.sources.evidence import Evidence, EvidenceError, Found, Kind, read_evidence
from mats.sources.kernel_log import NamedLog
from mats.sources.sysfs import PciFacts

HOUR = 3600.0
FULLNESS = (
    Kind.MATS_CAPTURE,
    Kind.SMI_XML,
    Kind.SMI_QUERY,
    Kind.SMI_CSV,
    Kind.SMI_TABLE,
    Kind.SMI_ERROR,
    Kind.NVLINK,
    Kind.TOPOLOGY,
    Kind.DCGM_NVLINK,
    Kind.GPUSTAT,
)
"""Kinds by how much they tell of a GPU; the bus and what is not here come last."""
_NAMED_AT_MOST = 5
_TIMES = ("%a %b %d %H:%M:%S %Y", "%a %b %d %I:%M:%S %p %Y", "%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S")
_ZONE = re.compile(r" [A-Z]{3,5}(?= \d{4}$)")


@dataclass(frozen=True, slots=True)
class Piece:
    """What one part of a file adds to the picture."""

    origin: str
    kind: Kind
    machine: MachineFacts


@dataclass(frozen=True, slots=True)
class SavedSource:
    """Implements :class:`mats.source.Source`: it was read when it was opened and says the same each time."""

    machine: MachineFacts
    info: TargetInfo

    def describe(self) -> TargetInfo:
        return self.info

    def read(self, *, load: bool = False) -> MachineFacts:
        if not load:
            return self.machine
        note = "the links could not be kept busy: these are saved files, and not the machine itself"
        return replace(self.machine, notes=(*self.machine.notes, note))

    def close(self) -> None:
        """Nothing is held."""


def open_source(paths: Sequence[Path], shown: Sequence[str] = ()) -> Source:
    """The machine that these files tell of. Raises UsageError for a file that is none, NothingThere without a GPU.

    ``shown``: a name for people of each file; without them their paths.

    Of what other tools measured of speeds only wrong data and versions tell of the state of a GPU: files of nothing
    else are NothingThere, with the command that reads them.
    """
    evidence = read_files(paths, shown)
    speeds = [found for found in evidence.found if found.kind in MEASURED]
    machine = machine_of(evidence)
    if speeds and len(speeds) == len(evidence.found) and not machine.claims:
        raise NothingThere(f"{_speed(speeds[0])} and nothing of the state of a GPU: mats nvlink-test --from reads it")
    notes = [f"{_speed(found)}: mats nvlink-test --from judges that" for found in speeds]
    return _source(shown or [str(path) for path in paths], evidence, replace(machine, notes=(*machine.notes, *notes)))


def open_links(paths: Sequence[Path], shown: Sequence[str] = ()) -> Source:
    """As :func:`open_source`, for who asks how fast links were: files of nothing but that are as good as others."""
    evidence = read_files(paths, shown)
    return _source(shown or [str(path) for path in paths], evidence, machine_of(evidence))


def _speed(found: Found) -> str:
    return f"{found.origin}: is output of {found.kind.value}, which tells how fast links or memory were"


def _source(names: Sequence[str], evidence: Evidence, machine: MachineFacts) -> Source:
    real = [each.origin for each in evidence.found if not getattr(each.facts, "simulated", False)]
    if machine.simulated and real:
        raise UsageError(f"{real[0]} is of a real machine and another file of a simulated one: they are never mixed")
    why = "" if _is_evidence(machine) else nothing_there(machine)
    if why:
        raise NothingThere(f"{','.join(names)}: {why}", machine)
    count = len(names)
    title = f"{title_of(machine)}, from {'1 file' if count == 1 else f'{count} files'}"
    return SavedSource(machine, describe(machine, f"file:{','.join(names)}", "file", title))


def _is_evidence(machine: MachineFacts) -> bool:
    """Of a machine without a list of GPUs: events of a log, or a driver's tool that fails where no bus is seen."""
    if isinstance(machine.log, LogFacts) and machine.log.incidents:
        return True
    return isinstance(machine.nvml_failure, str) and isinstance(machine.devices, Absent)


def read_files(paths: Sequence[Path], shown: Sequence[str] = ()) -> Evidence:
    """The evidence of all files. A file that cannot be read ends all: the user meant it. Raises UsageError.

    ``shown``: the name by which each file is called in what is said of it; without them its path.
    """
    if not paths:
        raise UsageError("no file of saved evidence is named")
    found: list[Found] = []
    notes: list[str] = []
    for path, name in dict(zip(paths, shown or map(str, paths), strict=True)).items():
        try:
            evidence = read_evidence(path)
        except EvidenceError as error:
            raise UsageError(_called(str(error), path, name)) from None
        found += [replace(each, origin=_called(each.origin, path, name)) for each in evidence.found]
        notes += [_called(note, path, name) for note in evidence.notes]
    return Evidence(tuple(found), tuple(dict.fromkeys(notes)))


def _called(text: str, path: Path, name: str) -> str:
    """A sentence or an origin that begins with a file's path, with its name for people in that place."""
    return name + text.removeprefix(str(path)) if text.startswith(str(path)) else text


def machine_of(evidence: Evidence) -> MachineFacts:
    """Everything that was read as one picture."""
    logs = [NamedLog(found.origin, found.facts) for found in evidence.found if isinstance(found.facts, KernelLog)]
    pieces = sorted((_piece(found) for found in evidence.found), key=_order)
    if logs:
        pieces.append(Piece(logs[0].origin, Kind.KERNEL_LOG, MachineFacts(log=log_facts(logs))))
    pieces, notes = _apart(_identified(pieces, [gpu for named in logs for gpu in named.log.gpus]))
    machine = join_machines(piece.machine for piece in pieces)
    cuts: dict[str, str] = {}
    for found in evidence.found:
        if found.cut:
            cuts.setdefault(found.cut, found.origin)
    said = (
        *machine.notes,
        *evidence.notes,
        *notes,
        *_names(pieces, logs),
        *_two_moments(pieces),
        *_contradictions(pieces),
    )
    return replace(
        machine, partial="; ".join(f"{origin}: {cut}" for cut, origin in cuts.items()), notes=tuple(dict.fromkeys(said))
    )


def _piece(found: Found) -> Piece:
    if found.kind in OF_MEMORY and isinstance(found.facts, tuple):
        caches = tuple(replace(cache, origin=Path(found.origin).name) for cache in found.facts)
        return Piece(found.origin, found.kind, MachineFacts(caches=caches))
    return Piece(found.origin, found.kind, _machine(found.facts, found.origin))


def _machine(facts: object, origin: str) -> MachineFacts:
    """What one parser gave, in the words of the whole picture; of kernel logs see :func:`machine_of`."""
    if isinstance(facts, MachineFacts):
        return replace(facts, transfers=tuple(replace(run, origin=origin) for run in facts.transfers))
    if isinstance(facts, PciFacts):
        return replace(facts.machine(), devices=facts.devices, devices_assumed=facts.assumed)
    if isinstance(facts, DcgmDiag):
        return MachineFacts(driver=facts.driver, claims=_claims.diag_claims(facts))
    if isinstance(facts, DcgmHealth):
        return MachineFacts(claims=_claims.health_claims(facts))
    if isinstance(facts, WindowsEvent):
        return MachineFacts(claims=(_claims.windows_claim(facts),))
    if isinstance(facts, BugReport):
        return _of_report(facts, origin)
    if isinstance(facts, Run):
        return _of_run(facts, origin)
    if isinstance(facts, tuple):
        return _of_list(facts, origin)
    return MachineFacts()


def _of_list(facts: tuple[object, ...], origin: str) -> MachineFacts:
    samples = tuple(each for each in facts if isinstance(each, DcgmSample))
    events = tuple(each for each in facts if isinstance(each, ControllerEvent))
    claims = (*_claims.dmon_claims(samples), *_claims.controller_claims(events))
    others = len(events) - sum(event.about_bus for event in events)
    notes = (f"{origin}: {others} entries of the management controller are not about a bus",) if others else ()
    return MachineFacts(claims=claims, notes=notes)


def _of_report(report: BugReport, origin: str) -> MachineFacts:
    """What the script itself says; its sections are pieces of their own."""
    gpus = tuple(
        GpuFacts(pci=power.pci, asleep=power.suspended)
        for power in report.power
        if isinstance(power.runtime_d3, str) or isinstance(power.video_memory, str)
    )
    uname = report.uname if isinstance(report.uname, Absent) else report.uname.split()
    long = not isinstance(uname, Absent) and len(uname) > 2
    host = HostFacts(name=uname[1], kernel=uname[2]) if long and not isinstance(uname, Absent) else HostFacts()
    missing = [f"{each.name} ({each.why})" for each in report.sections if not each.there and "nvidia-smi" in each.name]
    notes = (f"{origin}: the script left out {', '.join(missing)}",) if missing else ()
    return MachineFacts(gpus=gpus or UNASKED, host=host, taken=report.date, notes=notes)


def _of_run(run: Run, origin: str) -> MachineFacts:
    if any(info.simulated for info in run.targets):
        return MachineFacts(notes=(f"{origin}: is a run on a simulated card, and nothing of it is taken",))
    gpus = []
    for info in run.targets:
        identity = dict(info.identity)
        if "uuid" in identity or "pci" in identity:
            gpus.append(
                GpuFacts(name=info.title, uuid=identity.get("uuid") or UNASKED, pci=identity.get("pci") or UNASKED)
            )
    return MachineFacts(gpus=tuple(gpus) or UNASKED, claims=_claims.run_claims(run), taken=run.started)


def _order(piece: Piece) -> tuple[float, int]:
    """Newer pictures first, those without a time last; then the fuller forms."""
    when = _when(piece.machine)
    rank = FULLNESS.index(piece.kind) if piece.kind in FULLNESS else len(FULLNESS)
    return (-when.timestamp() if when else 0.0, rank)


def _when(machine: MachineFacts) -> datetime | None:
    """When it was taken, without its zone: most tools write none."""
    if isinstance(machine.taken, Absent):
        return None
    text = _ZONE.sub("", " ".join(machine.taken.split()))
    readers: list[Callable[[str], datetime]] = [datetime.fromisoformat]
    readers += [lambda text, form=form: datetime.strptime(text, form) for form in _TIMES]  # type: ignore[misc]
    for read in readers:
        try:
            return read(text).replace(tzinfo=None)
        except ValueError:
            continue
    return None


def _two_moments(pieces: Sequence[Piece]) -> list[str]:
    timed = [(when, piece) for piece in pieces if (when := _when(piece.machine))]
    if len(timed) < 2:
        return []
    newest, oldest = timed[0], timed[-1]
    hours = (newest[0] - oldest[0]).total_seconds() / HOUR
    if hours < 1:
        return []
    return [
        f"{newest[1].origin} was taken {hours:.0f} h after {oldest[1].origin}; where both tell, the later has the word"
    ]


def _apart(pieces: Sequence[Piece]) -> tuple[list[Piece], list[str]]:
    """The pieces, those of another machine made so that their GPUs are not taken for those of the first; and notes."""
    known: set[str] = set()
    first = ""
    kept, notes = [], []
    for piece in pieces:
        gpus = _gpus(piece.machine)
        uuids = {gpu.uuid for gpu in gpus if isinstance(gpu.uuid, str)}
        if known and uuids and not known & uuids:
            notes.append(
                f"{piece.origin} tells of other GPUs than {first} (no UUID is in both): they are of two machines, or "
                "cards were changed; they are listed side by side"
            )
            piece = replace(piece, machine=replace(piece.machine, gpus=tuple(_by_uuid_only(gpu) for gpu in gpus)))
        elif uuids:
            first = first or piece.origin
            known |= uuids
        kept.append(piece)
    return kept, notes


def _identified(pieces: Sequence[Piece], logged: Sequence[LoggedGpu]) -> list[Piece]:
    """The pieces with the UUIDs that the log gives to addresses, so that a GPU known by either is one.

    An address that another file knows with another UUID is left alone: the card was changed since.
    """
    told = {gpu.pci: gpu.uuid for gpu in logged if isinstance(gpu.uuid, str)}
    for gpu in (gpu for piece in pieces for gpu in _gpus(piece.machine)):
        if isinstance(gpu.pci, str) and isinstance(gpu.uuid, str) and told.get(gpu.pci) != gpu.uuid:
            told.pop(gpu.pci, None)
    if not told:
        return list(pieces)
    places = {uuid: pci for pci, uuid in told.items()}
    named = []
    for piece in pieces:
        gpus = tuple(_named_gpu(gpu, told, places) for gpu in _gpus(piece.machine))
        named.append(replace(piece, machine=replace(piece.machine, gpus=gpus)) if gpus else piece)
    return named


def _named_gpu(gpu: GpuFacts, uuids: Mapping[str, str], places: Mapping[str, str]) -> GpuFacts:
    if isinstance(gpu.pci, str) and isinstance(gpu.uuid, Absent):
        return replace(gpu, uuid=uuids.get(gpu.pci, gpu.uuid))
    if isinstance(gpu.uuid, str) and isinstance(gpu.pci, Absent):
        return replace(gpu, pci=places.get(gpu.uuid, gpu.pci))
    return gpu


def _gpus(machine: MachineFacts) -> tuple[GpuFacts, ...]:
    return () if isinstance(machine.gpus, Absent) else machine.gpus


def _by_uuid_only(gpu: GpuFacts) -> GpuFacts:
    other = Absent(AbsenceKind.UNREADABLE, "it is that of another machine than the first file's")
    return replace(gpu, index=other, pci=other)


def _names(pieces: Sequence[Piece], logs: Sequence[NamedLog]) -> list[str]:
    """Where the files name several machines: all of them are taken for one."""
    told: dict[str, str] = {}
    for piece in pieces:
        if isinstance(piece.machine.host.name, str):
            told.setdefault(piece.machine.host.name.partition(".")[0].casefold(), piece.origin)
    for named in logs:
        for host in named.log.hosts:
            told.setdefault(host.partition(".")[0].casefold(), named.origin)
    if len(told) < 2:
        return []
    said = ", ".join(f"{name} ({origin})" for name, origin in list(told.items())[:_NAMED_AT_MOST])
    return [f"{len(told)} machines are named: {said}; one picture is made of all"]


def _contradictions(pieces: Sequence[Piece]) -> list[str]:
    """Where files tell different versions of the driver: the later has the word."""
    told: dict[str, str] = {}
    for piece in pieces:
        if isinstance(piece.machine.driver, str):
            told.setdefault(piece.machine.driver, piece.origin)
    if len(told) < 2:
        return []
    said = ", ".join(f"{origin} says {driver}" for driver, origin in told.items())
    return [f"driver version: {said}; the first has the word"]
