"""``nvidia-smi --query-gpu=... --format=csv``: with or without head and units, one sample or many (``-l``).

Without a head the columns must be known from the command; a file that does not tell its columns is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mats.facts import UNASKED, GpuFacts, MachineFacts, ProcessFacts, Text
from mats.model import Absent, Quantity, Unit
from mats.sources._join import join_machines
from mats.sources._smi_gpu import read_gpu
from mats.sources._smi_machine import bare_machine, virtualisation_of
from mats.sources._smi_values import CUT_OFF, NOT_SHOWN, Fields, Section, SmiError, absence, key
from mats.sources._smi_work import read_process

_COLUMN = re.compile(r"([a-z][a-z0-9_.]*)(?: \[[A-Za-z%/]{1,8}\])?")
_NAMES = frozenset(
    (
        "index", "name", "gpu_name", "uuid", "gpu_uuid", "serial", "gpu_serial", "timestamp", "driver_version", "count",
        "pstate", "vbios_version", "persistence_mode", "compute_mode", "compute_cap", "addressing_mode",
        "gpu_recovery_action", "gpu_bus_id",
    )
)  # fmt: skip
_FAMILIES = (
    "memory.", "utilization.", "temperature.", "power.", "clocks", "ecc.", "retired_pages.", "remapped_rows.", "pci.",
    "pcie.", "mig.", "fan.", "inforom.", "enforced.", "display", "fabric.", "gsp.", "driver_model.", "gom.", "encoder.",
    "protected_memory.", "platform.", "hostname", "gpu_part", "board", "accounting.", "module", "c2c.", "bar1.",
)  # fmt: skip
_QUERY = re.compile(r"--query-gpu[= ]\s*['\"]?([a-zA-Z0-9_.,]+)")
_APPS = re.compile(r"--query-compute-apps[= ]\s*['\"]?([a-zA-Z0-9_.,]+)")
_IDENTITY = ("uuid", "gpu_uuid", "pci_bus_id", "gpu_bus_id", "index")
_NAME = Fields(Section("")).missing("name")
_LONGEST = 4096


def columns_of(command: str) -> tuple[str, ...]:
    """The columns that a command asked for, or none."""
    match = _QUERY.search(command)
    return tuple(name for name in match[1].split(",") if name) if match else ()


def apps_of(command: str) -> tuple[str, ...]:
    """The columns of processes that a command asked for, or none."""
    match = _APPS.search(command)
    return tuple(name for name in match[1].split(",") if name) if match else ()


def parse_apps(text: str, columns: Sequence[str] = ()) -> MachineFacts:
    """The processes of ``--query-compute-apps``, each below its GPU; below one without a name where none is told."""
    lines = _lines(text)
    first = [cell.split("[")[0].strip() for cell in lines[0].split(",")] if lines else []
    names = tuple(key(name) for name in (first if "pid" in first else columns))
    if "pid" not in names:
        raise SmiError("this CSV of processes has no head, and the command that tells its columns is not in the file")
    gpus: dict[str, GpuFacts] = {}
    for line in lines[1:] if "pid" in first else lines:
        cells = _cells(line, len(names))
        if not cells:
            continue
        fields = Fields(Section("", children=[Section(name, said) for name, said in zip(names, cells, strict=True)]))
        place = " ".join(cells[names.index(name)] for name in ("gpu_uuid", "gpu_bus_id") if name in names)
        gpu = gpus.setdefault(place, replace(read_gpu(fields.section, bare_machine().driver, NOT_SHOWN), name=_NAME))
        process = read_process(fields)
        before = gpu.processes
        if isinstance(process, ProcessFacts):
            gpus[place] = replace(gpu, processes=(*(() if isinstance(before, Absent) else before), process))
    return replace(bare_machine(), gpus=tuple(gpus.values()))


def adopt(machine: MachineFacts, apps: MachineFacts) -> MachineFacts:
    """The processes at their GPUs; those that name none belong to the only GPU, else they stay by themselves."""
    alone = not isinstance(machine.gpus, Absent) and len(machine.gpus) == 1
    found = () if isinstance(apps.gpus, Absent) else apps.gpus
    if alone and len(found) == 1 and _nameless(found[0]) and not isinstance(machine.gpus, Absent):
        return replace(machine, gpus=(replace(machine.gpus[0], processes=found[0].processes),))
    return join_machines((machine, apps))


def looks_like_csv(text: str) -> bool:
    """Whether its first line is a head of such columns."""
    start = text.lstrip()
    return bool(_head([start.partition("\n")[0]]))


def latest(samples: Sequence[MachineFacts]) -> MachineFacts:
    """The last picture of each GPU; the last sample alone where rows name no GPU, since nothing tells them apart."""
    gpus = samples[-1].gpus
    named = not isinstance(gpus, Absent) and not any(_nameless(gpu) for gpu in gpus)
    return join_machines(reversed(samples)) if named else samples[-1]


def _nameless(gpu: GpuFacts) -> bool:
    return all(isinstance(value, Absent) for value in (gpu.uuid, gpu.pci, gpu.index))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _head(lines: Sequence[str]) -> tuple[str, ...]:
    """The names in the first line when all of them have the form and one of them is known, else none."""
    if not lines:
        return ()
    matches = [_COLUMN.fullmatch(cell.strip()) for cell in lines[0].split(",")]
    names = tuple(match[1] for match in matches if match is not None)
    known = [name in _NAMES or name.startswith(_FAMILIES) for name in names]
    return names if len(names) == len(matches) and any(known) and known.count(False) <= len(known) // 2 else ()


def parse_csv(text: str, columns: Sequence[str] = (), last: int = 0) -> tuple[MachineFacts, ...]:
    """One picture for each sample, in the order of time. Raises SmiError without columns or without a row.

    ``last``: read only so many rows, the last ones; 0 reads all. ``columns``: what the command asked for; needed with
    ``noheader``. A GPU that comes again opens the next sample; rows that name no GPU are GPUs in the driver's order, or
    samples of one when they carry different times.
    """
    lines = _lines(text)
    head = _head(lines)
    names = tuple(key(name) for name in head or columns)
    if not names:
        raise SmiError("this CSV has no head, and the command that tells its columns is not in the file")
    rows = [_cells(line, len(names)) for line in (lines[1:] if head else lines)[-last:]]
    whole = [row for row in rows if row]
    if not whole:
        raise SmiError("this CSV of nvidia-smi holds no row")
    cut = not rows[-1] or _short(whole)
    if _short(whole):
        whole = whole[:-1]
    samples = _samples(names, whole)
    return tuple(
        _machine(sample, names, "the CSV is cut off" if cut and place == len(samples) - 1 else "")
        for place, sample in enumerate(samples)
    )


def _short(rows: list[list[str]]) -> bool:
    """Whether the last cell lacks the unit that all others of its column have, so that its digits may be short too."""
    *others, last = [row[-1] for row in rows]
    return last.isdecimal() and bool(others) and all(" " in cell or not cell.isdecimal() for cell in others)


def _cells(line: str, width: int) -> list[str]:
    """The cells of a row; none when it is no row. Only a name may hold a comma, and then nothing is certain."""
    cells = [cell.strip()[:_LONGEST] for cell in line.split(",")]
    return cells if len(cells) == width else []


def _samples(names: tuple[str, ...], rows: list[list[str]]) -> list[list[Section]]:
    samples: list[list[Section]] = []
    seen: set[str] = set()
    identity = next((names.index(name) for name in _IDENTITY if name in names), None)
    time = names.index("timestamp") if "timestamp" in names else None
    before = ""
    for row in rows:
        section = Section("gpu", children=[Section(name, said) for name, said in zip(names, row, strict=True)])
        again = row[identity] in seen if identity is not None else time is not None and row[time] != before
        if again or not samples:
            samples.append([])
            seen = set()
        samples[-1].append(section)
        before = row[time] if time is not None else ""
        if identity is not None:
            seen.add(row[identity])
    return samples


def _machine(sections: list[Section], names: tuple[str, ...], cut: str) -> MachineFacts:
    fields = Fields(sections[-1], CUT_OFF if cut else NOT_SHOWN)
    driver = fields.text("driver version", "driver_version")
    named = any(name in names for name in _IDENTITY)
    gpus = [_gpu(section, driver, place, named or "timestamp" in names) for place, section in enumerate(sections)]
    return replace(
        bare_machine(fields.gone),
        driver=driver,
        virtualisation=virtualisation_of(gpus),
        attached=fields.count("number of GPUs", "count"),
        gpus=tuple(gpus),
        taken=_time(fields),
        partial=cut,
    )


def _gpu(section: Section, driver: Text, place: int, named: bool) -> GpuFacts:
    gpu = read_gpu(section, driver, NOT_SHOWN)
    return gpu if named else replace(gpu, index=Quantity(place, Unit.COUNT))


def _time(fields: Fields) -> Text:
    """As written: YYYY/MM/DD and no zone."""
    found = fields.find("timestamp")
    said = UNASKED if found is None else absence("time", found.text) or found.text
    return fields.missing("time") if isinstance(said, Absent) and said is UNASKED else said
