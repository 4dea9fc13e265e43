"""What a GPU does in the output of nvidia-smi: its processes, its slices, and what holds its clocks down."""

from __future__ import annotations

from mats.facts import MemoryFacts, MigFacts, MigInstance, ProcessFacts, WindowFacts
from mats.model import Absent, Reading, Unit
from mats.sources._smi_values import Fields, Section, absence, cut_within, to_flag, to_quantity, unreadable
from mats.sources.nvml import CLOCK_REASONS

_REASONS = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "application clocks",
    "display_clocks_setting": "display clocks",
    "display_clock_setting": "display clocks",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "hardware power brake",
    "sw_power_cap": "software power cap",
    "sw_thermal_slowdown": "software thermal slowdown",
    # as the counters of time call them
    "sw_power_capping": "software power cap",
    "sw_therm_slowdown": "software thermal slowdown",
    "hw_therm_slowdown": "hardware thermal slowdown",
    "hw_power_brake": "hardware power brake",
    "hw_power_braking": "hardware power brake",
}
_BLOCKS = ("clocks_event_reasons", "clocks_throttle_reasons")
_PREFIXES = (
    "clocks_event_reasons_counters_",
    "clocks_event_reason_",
    "clocks_throttle_reason_",
    *(f"{b}_" for b in _BLOCKS),
)
_MASKS = tuple(f"{block}_active" for block in _BLOCKS)


def _reason(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return _REASONS.get(name, name.replace("_", " "))


def read_reasons(fields: Fields) -> tuple[str, ...] | Absent:
    """What holds the clocks down now, in the words that NVML's bits have too."""
    what = "clock-event reasons"
    mask = fields.text(what, " ".join(_MASKS))
    if not isinstance(mask, Absent):
        return _from_mask(what, mask)
    block = fields.find(" ".join(_BLOCKS))
    if block is not None and block.open:
        return cut_within(what)
    lines = _lines(block) if block is not None else _columns(fields)
    if not lines:
        return fields.missing(what) if block is None else absence(what, block.text) or unreadable(what, block.text)
    active, told, first = [], False, None
    for line in lines:
        value = to_flag(what, line.text, fields.not_applicable)
        told = told or not isinstance(value, Absent)
        first = first or (value if isinstance(value, Absent) else None)
        active += [_reason(line.name)] if value is True else []
    return first if not told and first is not None else tuple(dict.fromkeys(active))


def _lines(block: Section) -> list[Section]:
    """Lines with a word, at whichever depth: in text, the causes of a hardware slowdown stand below it."""
    found = []
    for child in block.children:
        found += [child] if child.text else []
        found += _lines(child)
    return found


def _columns(fields: Fields) -> list[Section]:
    return [each for each in fields.section.children if each.name.startswith(tuple(f"{block}_" for block in _BLOCKS))]


def _from_mask(what: str, said: str) -> tuple[str, ...] | Absent:
    try:
        mask = int(said[:20], 16)
    except ValueError:
        return unreadable(what, said)
    rest = mask & ~sum(CLOCK_REASONS)
    known = [text for bit, text in CLOCK_REASONS.items() if mask & bit]
    return (*known, f"reason {rest:#x}") if rest > 0 else tuple(known)


def read_time_held(fields: Fields) -> tuple[tuple[str, Reading], ...]:
    """Seconds for which each cause has held the clocks down since the driver was loaded; drivers of 2025 and newer."""
    block = fields.find("clocks_event_reasons_counters")
    if block is None:
        return ()
    found = []
    for line in _lines(block):
        what = f"time held down by {_reason(line.name)}"
        found.append((_reason(line.name), to_quantity(what, line.text, Unit.SECOND, fields.not_applicable)))
    return tuple(found)


def read_processes(fields: Fields) -> tuple[ProcessFacts, ...] | Absent:
    """Processes on the GPU; an empty list only where the file lists none."""
    what = "processes"
    block = fields.find("processes")
    if block is None:
        return fields.missing(what)
    if block.open:
        return cut_within(what)
    if not block.children:
        word = block.text.strip().lower()
        if word in ("", "none"):
            return ()
        return absence(what, word, fields.not_applicable) or unreadable(what, word)
    listed = list(block.all("process_info")) or _groups(block)
    found = []
    for each in listed:
        process = read_process(Fields(each, fields.gone))
        if isinstance(process, Absent):
            return process
        found.append(process)
    return tuple(found)


def _groups(block: Section) -> list[Section]:
    """The processes of ``-q`` text: lines on one level, of which each process opens with its instance or its number."""
    groups: list[Section] = []
    for line in block.children:
        open_group = groups[-1] if groups else None
        starts = line.name == "gpu_instance_id" or (line.name == "process_id" and _holds(open_group, "process_id"))
        if open_group is None or starts:
            open_group = Section("process_info")
            groups.append(open_group)
        open_group.children += [line, *line.children]
    return groups


def _holds(group: Section | None, name: str) -> bool:
    return group is None or group.child(name) is not None


def read_process(fields: Fields) -> ProcessFacts | Absent:
    """One process of any format; absent when not even its number can be read."""
    fields = fields.because("N/A; the driver does not tell it")
    pid = fields.count("number of a process", "pid process_id")
    if isinstance(pid, Absent):
        return pid
    kind = fields.text("type of a process", "type")
    return ProcessFacts(
        pid=int(pid.value),
        memory=fields.quantity("memory of a process", Unit.BYTE, "used_memory used_gpu_memory"),
        draws_only=kind == "G",
        name=fields.text("name of a process", "process_name name"),
        gpu_instance=fields.count("instance of a process", "gpu_instance_id"),
    )


def read_mig(fields: Fields) -> MigFacts:
    """Whether the GPU is sliced, and its slices; they stand before the figures of the whole GPU."""
    enabled = fields.flag("MIG mode", "mig_mode/current_mig mig_mode/current mig_mode_current")
    pending = fields.flag("MIG mode after a reset", "mig_mode/pending_mig mig_mode/pending mig_mode_pending")
    block = fields.find("mig_devices")
    listed = [*fields.section.all("mig_device"), *(block.all("mig_device") if block is not None else ())]
    what = "MIG instances"
    if any(each.open for each in (*listed, *([block] if block is not None else ()))):
        return MigFacts(enabled, pending, cut_within(what))
    if not listed:
        gone: tuple[MigInstance, ...] | Absent = fields.missing(what)
        if block is not None:
            word = block.text.strip().lower()
            gone = () if word in ("", "none") else absence(what, word) or unreadable(what, word)
        elif enabled is False:
            gone = ()
        return MigFacts(enabled, pending, gone)
    instances = [_instance(Fields(each, fields.gone, "N/A for an instance")) for each in listed]
    broken = next((each for each in instances if isinstance(each, Absent)), None)
    whole = tuple(each for each in instances if not isinstance(each, Absent))
    return MigFacts(enabled, pending, broken or whole)


def _instance(fields: Fields) -> MigInstance | Absent:
    number = fields.count("number of a MIG instance", "gpu_instance_id")
    if isinstance(number, Absent):
        return number
    errors = "ecc_error_count/volatile_count/sram_uncorrectable ecc_errors/volatile/sram_uncorrectable"

    def size(block: str, part: str) -> Reading:
        return fields.quantity(f"{block} of an instance, {part}", Unit.BYTE, f"{block}/{part}")

    memory = "fb_memory_usage"
    window = "bar1_memory_usage"
    return MigInstance(
        gpu_instance=int(number.value),
        compute_instance=fields.count("compute instance", "compute_instance_id"),
        multiprocessors=fields.count("multiprocessors of an instance", "device_attributes/shared/multiprocessor_count"),
        sram_uncorrected=fields.count("uncorrected SRAM errors of an instance", errors),
        memory=MemoryFacts(size(memory, "total"), size(memory, "reserved"), size(memory, "used"), size(memory, "free")),
        window=WindowFacts(size(window, "total"), size(window, "used"), size(window, "free")),
    )
