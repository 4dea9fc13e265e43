"""The live table as lines of text: one GPU a row, what is not known with its reason, what mats itself costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mats.cli._lines import wrapped
from mats.cli._smi_sampling import Sample
from mats.facts import GpuFacts, ProcessFacts
from mats.model import Absent, Quantity, Reading
from mats.units import GIB, MIB

GAP = "  "
UNKNOWN = "?"
NARROWEST = 40
_SHORTEST_NAME = 10
_LONGEST_INDEX = 12
_ROOM_BESIDE = 25
"""Columns that a sentence needs at least."""
_QUIET = ("idle",)
"""Reasons for low clocks that nobody needs to be told of."""


@dataclass(frozen=True, slots=True)
class Line:
    """``style``: head, bad, note or faint; empty for plain text. It only repeats what the words say."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is to be shown at one moment. ``interval``: 0 where there is to be one sample only.

    ``names``: of GPUs that do not tell theirs any more, by index.
    """

    sample: Sample
    interval: float
    median: float
    longest: float
    left_out: int
    spent: tuple[float, float]
    """By mats itself: seconds of processor time, and the share of one core that it takes at present."""
    waiting: float = 0.0
    """Seconds for which the driver has been asked for the next sample."""
    names: tuple[tuple[int, str], ...] = ()
    simulated: str = ""


@dataclass(frozen=True, slots=True)
class _Column:
    """``keep``: columns with a low number go first where the terminal is narrow."""

    head: str
    keep: int
    cell: Callable[[GpuFacts], str]
    readings: Callable[[GpuFacts], tuple[Reading | tuple[str, ...] | Absent, ...]]


def _number(reading: Reading, divisor: float = 1.0, decimals: int = 0) -> str:
    return UNKNOWN if isinstance(reading, Absent) else f"{reading.value / divisor:,.{decimals}f}"


def _of(now: str, limit: str) -> str:
    """Aligned by its end, so that the column keeps its width while the number changes."""
    return now if limit == UNKNOWN else f"{now.rjust(len(limit))} / {limit}"


_COLUMNS = (
    _Column("temp °C", 9, lambda gpu: _number(gpu.temperature), lambda gpu: (gpu.temperature,)),
    _Column(
        "power W",
        7,
        lambda gpu: _of(_number(gpu.power), _number(gpu.power_limits.limit)),
        lambda gpu: (gpu.power, gpu.power_limits.limit),
    ),
    _Column("busy %", 8, lambda gpu: _number(gpu.busy, 0.01), lambda gpu: (gpu.busy,)),
    _Column(
        "memory GiB",
        10,
        lambda gpu: _of(_number(gpu.memory.used, GIB, 1), _number(gpu.memory.total, GIB, 1)),
        lambda gpu: (gpu.memory.used, gpu.memory.total),
    ),
    _Column("core MHz", 6, lambda gpu: _number(gpu.clocks.core, 1e6), lambda gpu: (gpu.clocks.core,)),
    _Column("memory MHz", 5, lambda gpu: _number(gpu.clocks.memory, 1e6), lambda gpu: (gpu.clocks.memory,)),
    _Column("P-state", 4, lambda gpu: _number(gpu.performance_state), lambda gpu: (gpu.performance_state,)),
)


def lines(frame: Frame, width: int, height: int | None = None) -> list[Line]:
    """The whole table, at most ``width`` columns wide; with ``height`` the list of processes is cut to fit."""
    width = max(width, NARROWEST)
    facts = frame.sample.facts
    gpus = () if isinstance(facts.gpus, Absent) else facts.gpus
    above = _top(frame, gpus, width)
    rows, shown = _gpu_rows(gpus, dict(frame.names), width)
    notes = [*_held(gpus, width), *_unknown(gpus, shown, width)]
    below = [*_left_out(shown, width), *_foot(frame, width)]
    room = None if height is None else height - len(above) - len(rows) - len(notes) - len(below) - 2
    return [*above, *rows, *_processes(gpus, width, room), *notes, Line(""), *below]


def _top(frame: Frame, gpus: Sequence[GpuFacts], width: int) -> list[Line]:
    taken = frame.sample.taken
    driver = frame.sample.facts.driver
    parts = [
        taken.isoformat(sep=" ", timespec="seconds"),
        f"driver {driver if isinstance(driver, str) else 'unknown'}",
        f"{len(gpus)} GPU" + ("s" if len(gpus) != 1 else ""),
    ]
    found = [Line(text) for text in wrapped(GAP.join(parts), width)]
    if frame.simulated:
        found += [Line(text, "note") for text in wrapped(f"SIMULATED: {frame.simulated}, no real GPU", width)]
    return [*found, Line("")]


def answers(gpu: GpuFacts) -> bool:
    """Whether the GPU has told anything of itself at this moment."""
    return gpu.answers is True


def _gpu_rows(gpus: Sequence[GpuFacts], names: dict[int, str], width: int) -> tuple[list[Line], list[_Column]]:
    indices = [_index(gpu) for gpu in gpus]
    titles = [_name(gpu, names) for gpu in gpus]
    alive = [gpu for gpu in gpus if answers(gpu)]
    columns = list(_COLUMNS)
    first = max(3, *(len(index) for index in indices)) if indices else 3
    while True:
        rooms = [max(len(column.head), *(len(column.cell(gpu)) for gpu in alive), 0) for column in columns]
        left = width - first - sum(rooms) - len(GAP) * (len(rooms) + 1)
        if left >= min(max(map(len, titles), default=0), _SHORTEST_NAME + 8) or len(columns) <= 1:
            break
        columns.remove(min(columns, key=lambda column: column.keep))
    room = max(min(max(map(len, titles), default=0), left), _SHORTEST_NAME)
    heads = [column.head.rjust(space) for column, space in zip(columns, rooms, strict=True)]
    found = [Line(GAP.join(["GPU".rjust(first), "name".ljust(room), *heads]).rstrip(), "head")]
    for gpu, index, title in zip(gpus, indices, titles, strict=True):
        start = f"{index.rjust(first)}{GAP}{_cut(title, room).ljust(room)}"
        if not answers(gpu):
            found += [Line(text, "bad") for text in _silent_row(start, _silence(gpu), width)]
            continue
        cells = [column.cell(gpu).rjust(space) for column, space in zip(columns, rooms, strict=True)]
        found.append(Line(GAP.join([start, *cells]).rstrip()))
    return found, columns


def _silent_row(start: str, said: str, width: int) -> list[str]:
    """Beside the name where there is room, else under it."""
    if width - len(start) - len(GAP) >= _ROOM_BESIDE:
        return wrapped(said, width, start + GAP)
    return [start.rstrip(), *wrapped(said, width, " " * 5)]


def _silence(gpu: GpuFacts) -> str:
    reading = gpu.answers if isinstance(gpu.answers, Absent) else gpu.temperature
    why = reading.reason.partition(": ")[2] or reading.reason if isinstance(reading, Absent) else ""
    return f"does not answer{': ' if why else ''}{why}"


def _processes(gpus: Sequence[GpuFacts], width: int, room: int | None) -> list[Line]:
    listed = [(gpu, process) for gpu in gpus if isinstance(gpu.processes, tuple) for process in gpu.processes]
    if not listed:
        known = any(isinstance(gpu.processes, tuple) and answers(gpu) for gpu in gpus)
        return [Line(""), Line("The driver lists no process.", "faint")] if known else []
    rows = [
        (_index(gpu), str(process.pid), _process_memory(process), _process_name(process)) for gpu, process in listed
    ]
    hidden = 0
    if room is not None and len(rows) + 2 > max(room, 3):
        hidden = len(rows) - max(room, 3) + 3
        rows = rows[: len(rows) - hidden]
    heads = ("GPU", "process", "memory MiB", "program")
    rooms = [max(len(row[place]) for row in (heads, *rows)) for place in range(3)]
    found = [Line("")]
    for number, row in enumerate((heads, *rows)):
        start = GAP.join(cell.rjust(space) for cell, space in zip(row[:3], rooms, strict=True))
        text = f"{start}{GAP}{_cut(row[3], max(width - len(start) - len(GAP), _SHORTEST_NAME))}"
        found.append(Line(text.rstrip(), "" if number else "head"))
    if hidden:
        found.append(Line(f"{GAP}and {hidden} more processes, for which there is no room", "note"))
    return found


def _process_memory(process: ProcessFacts) -> str:
    return "unknown" if isinstance(process.memory, Absent) else f"{process.memory.value / MIB:,.0f}"


def _process_name(process: ProcessFacts) -> str:
    name = process.name if isinstance(process.name, str) else ""
    return f"{name} (draws only)".strip() if process.draws_only else name


def _held(gpus: Sequence[GpuFacts], width: int) -> list[Line]:
    """What holds clocks down, in words, where it is more than having nothing to do."""
    causes: dict[str, list[str]] = {}
    for gpu in gpus:
        if isinstance(gpu.clocks.reasons, tuple) and gpu.clocks.reasons not in ((), _QUIET):
            causes.setdefault(", ".join(gpu.clocks.reasons), []).append(_index(gpu))
    found = [f"GPU {', '.join(indices)}: clocks held down by {cause}" for cause, indices in causes.items()]
    return _block([Line(text, "note") for each in found for text in wrapped(each, width)])


def _unknown(gpus: Sequence[GpuFacts], shown: Sequence[_Column], width: int) -> list[Line]:
    """The reason of everything that is not shown as a number, once for all GPUs and values it holds for."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for gpu in gpus:
        if not answers(gpu):
            continue
        for value in _looked_at(gpu, shown):
            if isinstance(value, Absent):
                what, _, why = value.reason.rpartition(": ")
                indices, whats = reasons.setdefault(why, ({}, {}))
                indices[_index(gpu)] = None
                if what:
                    whats[what] = None
    found = []
    for why, (indices, whats) in reasons.items():
        subject = f" {', '.join(whats)}" if whats else ""
        found.append(f"{UNKNOWN} GPU {', '.join(indices)}{subject}: {why}")
    return _block([Line(text, "faint") for each in found for text in wrapped(each, width)])


def _looked_at(gpu: GpuFacts, shown: Sequence[_Column]) -> Iterable[object]:
    for column in shown:
        yield from column.readings(gpu)
    yield gpu.clocks.reasons
    yield gpu.processes
    if isinstance(gpu.processes, tuple):
        yield from (process.memory for process in gpu.processes)


def _left_out(shown: Sequence[_Column], width: int) -> list[Line]:
    hidden = ", ".join(column.head for column in _COLUMNS if column not in shown)
    return [Line(text, "faint") for text in wrapped(f"No room here for {hidden}.", width)] if hidden else []


def _foot(frame: Frame, width: int) -> list[Line]:
    sample = frame.sample
    seconds, share = frame.spent
    if frame.interval:
        told = (
            f"Sample {sample.number:,} took {_time(sample.seconds)} (median {_time(frame.median)}, longest "
            f"{_time(frame.longest)}), one every {_time(frame.interval)}. mats itself: {share:.1%} of one core."
        )
    else:
        told = f"The sample took {_time(sample.seconds)}, and mats itself {_time(seconds)} of processor time."
    found = [Line(text, "faint") for text in wrapped(told, width)]
    late = []
    if sample.seconds > frame.interval > 0:
        late.append(f"The last sample took longer than the interval of {_time(frame.interval)}.")
    if frame.left_out:
        late.append(f"{frame.left_out:,} moments passed without a sample: they are left out, not made up for.")
    if frame.waiting:
        late.append(f"The driver has not answered for {frame.waiting:.1f} s; what is shown is of before.")
    slow = [call for call in sample.facts.slow_calls if not call.answered]
    late += [f"{call.call} did not return on GPU {call.gpu or '?'} within {call.seconds:.1f} s." for call in slow]
    return found + [Line(text, "note") for each in late for text in wrapped(each, width)]


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.{0 if seconds >= 0.01 else 1}f} ms"
    return f"{seconds:.3g} s"


def _block(found: list[Line]) -> list[Line]:
    return [Line(""), *found] if found else []


def _index(gpu: GpuFacts) -> str:
    if isinstance(gpu.index, Quantity):
        return str(int(gpu.index.value))
    named = next((text for text in (gpu.uuid, gpu.pci) if isinstance(text, str)), UNKNOWN)
    return _cut(named, _LONGEST_INDEX)


def _name(gpu: GpuFacts, names: dict[int, str]) -> str:
    if isinstance(gpu.name, str):
        return gpu.name
    index = int(gpu.index.value) if isinstance(gpu.index, Quantity) else -1
    return names.get(index, "")


def _cut(text: str, room: int) -> str:
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return plain if len(plain) <= room else f"{plain[: room - 1]}…"
