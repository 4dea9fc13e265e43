"""The table that ``nvidia-smi`` prints by itself: GPUs, MIG instances, processes, and the warnings below it.

Columns are told apart by their borders and never by position, since widths change with the driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from mats.facts import Flag, GpuFacts, MachineFacts, ProcessFacts, Text, pci_address
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._smi_gpu import read_gpu
from mats.sources._smi_machine import bare_gpu, bare_machine
from mats.sources._smi_values import CUT_OFF, NOT_SHOWN, Fields, Section, SmiError, absence, to_quantity

_BANNER = re.compile(r"NVIDIA-SMI\s+\S+.*?(?:Driver|KMD) Version:\s*(\S+)(?:\s+CUDA(?: UMD)? Version:\s*(\S+))?")
_BUS = re.compile(r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+(\S+)\s*")
_NAMED = re.compile(r"\s*([0-9]{1,4})\s+(\S.*?)\s+(\S+)\s*")
_STATE = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S.*?)\s*/\s*(\S.*?)\s*")
_SHARE = re.compile(r"\s*(\S+)\s*/\s*(\S+)\s*")
_LOAD = re.compile(r"\s*(\S+)\s+(\S.*?)\s*")
_INSTANCE = re.compile(r"\s*([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})\s*")
_UNITS = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_PROCESS = re.compile(r"\s*([0-9]{1,4})\s+(?:(\S+)\s+(\S+)\s+)?([0-9]{1,10})\s+([CGM+]{1,5})\s+(\S.*?)\s+(\S+)\s*")
_INFOROM = re.compile(r"infoROM is corrupted at gpu\s*:?\s*([0-9A-Fa-f:.]+)", re.IGNORECASE)
_DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4}")
_LONGEST = 400
_WINDOWS = ("WDDM", "TCC", "MCDM")


def looks_like_table(text: str) -> bool:
    """Whether rows of a table of GPUs or of instances are in it, or only the warning that follows one."""
    if _INFOROM.search(text):
        return True
    if "|" not in text:
        return False
    return any(_gpu_row(cells) or _instance_row(cells) for cells in map(_cells, text.splitlines()))


def _cells(line: str) -> list[str]:
    line = line.strip()[:_LONGEST]
    return line[1:-1].split("|") if len(line) > 2 and line[0] == line[-1] == "|" else []


def _gpu_row(cells: list[str]) -> bool:
    return len(cells) == 3 and bool(_BUS.fullmatch(cells[1]) and _NAMED.fullmatch(cells[0]))


def _instance_row(cells: list[str]) -> bool:
    return len(cells) == 4 and bool(_INSTANCE.fullmatch(cells[0]) and _SHARE.fullmatch(cells[1]))


@dataclass(slots=True)
class _Table:
    """What has been read so far: a flat block for each GPU, in the names of ``--help-query-gpu``."""

    gpus: list[Section] = field(default_factory=list)
    instances: dict[int, list[Section]] = field(default_factory=dict)
    processes: dict[int, list[ProcessFacts]] = field(default_factory=dict)
    taken: str = ""
    idle: bool = False
    closed: bool = True
    listing: bool = False
    row: int = 0
    """Rows of the open GPU so far; 0 when none is open."""
    instance: Section | None = None
    """The instance whose second row is due."""


def parse_table(text: str) -> MachineFacts:
    """The GPUs of the table in the text; of several, as ``-l`` prints, the last. Raises SmiError without any."""
    table = _Table()
    for line in text.splitlines():
        _take(table, line.strip())
    damaged = {address for address in map(pci_address, _INFOROM.findall(text)) if isinstance(address, str)}
    if not (table.gpus or table.instances or damaged):
        raise SmiError("this text holds no table of nvidia-smi")
    cut = "" if table.closed else "the table is cut off"
    banner = next(iter(reversed(list(_BANNER.finditer(text)))), None)
    fields = Fields(Section(""), CUT_OFF if cut else NOT_SHOWN)
    driver: Text = banner[1] if banner else fields.missing("driver version")
    gpus = [_gpu(table, section, driver, cut if section is table.gpus[-1] else "") for section in table.gpus]
    gpus = _with_instances(table, gpus, driver)
    return replace(
        bare_machine(fields.gone),
        driver=driver,
        cuda=(banner[2] if banner else None) or fields.missing("CUDA version"),
        gpus=tuple(_with_damage(gpus, damaged)),
        taken=table.taken or fields.missing("time"),
        partial=cut,
    )


def _take(table: _Table, line: str) -> None:
    """One more line of the text."""
    if line.startswith("+--") or line.startswith("|--") or line.startswith("|=="):
        table.closed = line.startswith("+--") and line.endswith("+")
        table.row, table.instance = 0, None
        return
    cells = _cells(line)
    if not cells:
        table.taken = line if _DATE.fullmatch(line) else table.taken
        table.closed = table.closed and not line.startswith("|")
        return
    table.closed = False
    if "NVIDIA-SMI" in line:
        table.gpus, table.instances, table.processes, table.idle, table.listing = [], {}, {}, False, False
    elif _gpu_row(cells):
        _first_row(table, cells)
    elif len(cells) == 3 and table.gpus and table.row in (1, 2):
        _next_row(table, cells)
    elif _instance_row(cells):
        _first_instance_row(table, cells)
    elif len(cells) in (3, 4) and table.instance is not None:
        _second_instance_row(table.instance, cells)
    elif len(cells) == 1:
        _process_row(table, cells[0])


def _first_row(table: _Table, cells: list[str]) -> None:
    named, bus = _NAMED.fullmatch(cells[0]), _BUS.fullmatch(cells[1])
    assert named is not None and bus is not None
    number, name, mode = named.groups()
    values = {"index": number, "name": name, "pci_bus_id": bus[1]}
    values["driver_model_current" if mode in _WINDOWS else "persistence_mode"] = mode
    errors = cells[2].strip()
    if errors in ("Off", "On"):
        values["ecc_mode_current"] = errors
    else:
        values["ecc_errors_uncorrected_volatile_total"] = errors
        values |= {"ecc_mode_current": "On"} if errors.isdecimal() else {}
    table.gpus.append(Section("gpu", children=[Section(name, said) for name, said in values.items()]))
    table.row = 1


def _next_row(table: _Table, cells: list[str]) -> None:
    """The second and third row of a GPU; drivers before 450 have two."""
    values: dict[str, str] = {}
    if table.row == 1:
        state, share, load = _STATE.fullmatch(cells[0]), _SHARE.fullmatch(cells[1]), _LOAD.fullmatch(cells[2])
        if state is not None:
            values |= dict(
                zip(("temperature_gpu", "pstate", "power_draw", "power_limit"), state.groups()[1:], strict=True)
            )
        values |= (
            {"memory_used": share[1], "memory_total": share[2]}
            if share
            else dict.fromkeys(("memory_used", "memory_total"), cells[1].strip())
        )
        if load is not None:
            values |= {"utilization_gpu": load[1], "compute_mode": load[2]}
    elif cells[2].strip():
        values["mig_mode_current"] = cells[2].strip().rstrip("*")
    table.gpus[-1].children += [Section(name, said) for name, said in values.items()]
    table.row += 1


def _first_instance_row(table: _Table, cells: list[str]) -> None:
    numbers, share, units = _INSTANCE.fullmatch(cells[0]), _SHARE.fullmatch(cells[1]), _UNITS.fullmatch(cells[2])
    assert numbers is not None and share is not None
    children = [
        Section("gpu_instance_id", numbers[2]),
        Section("compute_instance_id", numbers[3]),
        Section("fb_memory_usage", children=[Section("used", share[1]), Section("total", share[2])]),
    ]
    if units is not None:
        shared = Section("shared", children=[Section("multiprocessor_count", units[1])])
        volatile = Section("volatile", children=[Section("sram_uncorrectable", units[2])])
        children += [Section("device_attributes", children=[shared]), Section("ecc_errors", children=[volatile])]
    table.instance = Section("mig_device", children=children)
    table.instances.setdefault(int(numbers[1]), []).append(table.instance)


def _second_instance_row(instance: Section, cells: list[str]) -> None:
    share = _SHARE.fullmatch(cells[1])
    if share is not None:
        window = Section("bar1_memory_usage", children=[Section("used", share[1]), Section("total", share[2])])
        instance.children.append(window)


def _process_row(table: _Table, cell: str) -> None:
    table.listing = table.listing or cell.strip().startswith("Processes:")
    table.idle = table.idle or "No running processes found" in cell
    process = _PROCESS.fullmatch(cell) if table.listing else None
    if process is None:
        return
    number, instance, _, pid, kind, name, memory = process.groups()
    not_told = "N/A; the driver does not tell it"
    facts = ProcessFacts(
        pid=int(pid),
        memory=to_quantity("memory of a process", memory, Unit.BYTE, not_told),
        draws_only=kind == "G",
        name=absence("name of a process", name) or name,
        gpu_instance=to_quantity("instance of a process", instance or "", Unit.COUNT, not_told),
    )
    table.processes.setdefault(int(number), []).append(facts)


def _gpu(table: _Table, section: Section, driver: Text, cut: str) -> GpuFacts:
    """The GPU of one row, with its processes when the list of them is whole."""
    gpu = read_gpu(section, driver, CUT_OFF if cut else NOT_SHOWN)
    index = gpu.index
    if isinstance(index, Absent):
        return gpu
    known = table.idle or (table.listing and table.closed)
    mine = tuple(table.processes.get(int(index.value), ()))
    return replace(gpu, processes=mine) if known else gpu


def _with_instances(table: _Table, gpus: list[GpuFacts], driver: Text) -> list[GpuFacts]:
    """The instances under their GPU, which may itself not stand in the text."""
    for number, sections in table.instances.items():
        sliced = read_gpu(Section("gpu", children=sections), driver, NOT_SHOWN)
        on: Flag = True
        mig = replace(sliced.mig, enabled=on)
        place = next((at for at, gpu in enumerate(gpus) if gpu.index == Quantity(number, Unit.COUNT)), None)
        if place is None:
            gpus.append(replace(sliced, index=Quantity(number, Unit.COUNT), mig=mig))
        else:
            gpus[place] = replace(gpus[place], mig=mig)
    return gpus


def _with_damage(gpus: list[GpuFacts], damaged: set[str]) -> list[GpuFacts]:
    """The warning names a GPU by its address; a table without one says nothing about the others."""
    known = {gpu.pci for gpu in gpus}
    gpus += [replace(bare_gpu(), pci=pci) for pci in sorted(damaged - known)]
    gone = Absent(AbsenceKind.NOT_TESTED, "whether the InfoROM is intact: the file has no warning for this GPU")
    return [replace(gpu, inforom=replace(gpu.inforom, corrupted=True if gpu.pci in damaged else gone)) for gpu in gpus]
