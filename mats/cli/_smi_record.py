"""A recording of samples: one line for each GPU and sample, as CSV or as JSON lines.

Units stand in the names. What is absent is an empty cell in CSV, and ``{"absent": reason}`` in JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass

from mats.cli._smi_sampling import Sample
from mats.facts import GpuFacts, ProcessFacts
from mats.model import Absent, Quantity

NOTHING = "none"
"""In CSV, of a list that is known to be empty; an empty cell is one that is not known."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    value: Callable[[Sample, GpuFacts], object]
    """A reading, a text, a number, a flag, a tuple, or absent."""


FIELDS = (
    Field("time", lambda sample, _gpu: sample.taken.isoformat(timespec="milliseconds")),
    Field("sample", lambda sample, _gpu: sample.number),
    Field("sample_seconds", lambda sample, _gpu: round(sample.seconds, 6)),
    Field("samples_left_out", lambda sample, _gpu: sample.left_out),
    Field("gpu_index", lambda _sample, gpu: gpu.index),
    Field("gpu_uuid", lambda _sample, gpu: gpu.uuid),
    Field("gpu_pci", lambda _sample, gpu: gpu.pci),
    Field("gpu_name", lambda _sample, gpu: gpu.name),
    Field("answers", lambda _sample, gpu: gpu.answers),
    Field("temperature_celsius", lambda _sample, gpu: gpu.temperature),
    Field("power_watts", lambda _sample, gpu: gpu.power),
    Field("power_limit_watts", lambda _sample, gpu: gpu.power_limits.limit),
    Field("busy_ratio", lambda _sample, gpu: gpu.busy),
    Field("memory_used_bytes", lambda _sample, gpu: gpu.memory.used),
    Field("memory_reserved_bytes", lambda _sample, gpu: gpu.memory.reserved),
    Field("memory_total_bytes", lambda _sample, gpu: gpu.memory.total),
    Field("core_clock_hertz", lambda _sample, gpu: gpu.clocks.core),
    Field("memory_clock_hertz", lambda _sample, gpu: gpu.clocks.memory),
    Field("clocks_held_by", lambda _sample, gpu: gpu.clocks.reasons),
    Field("performance_state", lambda _sample, gpu: gpu.performance_state),
    Field("process_memory_bytes", lambda _sample, gpu: gpu.processes),
)
"""``process_memory_bytes`` in CSV: ``PID:BYTES`` of each process, with blanks between; no bytes where not told."""


class Recorder:
    """Makes the lines of a recording; the head of a CSV comes with the first."""

    def __init__(self, form: str, simulated: bool = False) -> None:
        self._form, self._simulated = form, simulated
        self._begun = False

    def text(self, sample: Sample) -> str:
        """The lines of one sample, each with its line end; nothing where no GPU was listed."""
        gpus = () if isinstance(sample.facts.gpus, Absent) else sample.facts.gpus
        if self._form == "json":
            return "".join(self._json(sample, gpu) for gpu in gpus)
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        if not self._begun:
            writer.writerow([*(field.name for field in FIELDS), "simulated"])
            self._begun = True
        for gpu in gpus:
            writer.writerow([*(_cell(field.value(sample, gpu)) for field in FIELDS), _cell(self._simulated)])
        return stream.getvalue()

    def _json(self, sample: Sample, gpu: GpuFacts) -> str:
        row = {field.name: _plain(field.value(sample, gpu)) for field in FIELDS}
        return json.dumps({**row, "simulated": self._simulated}, ensure_ascii=False) + "\n"


def _cell(value: object) -> object:
    match value:
        case Absent():
            return ""
        case Quantity():
            return _number(value)
        case bool():
            return "yes" if value else "no"
        case ():
            return NOTHING
        case tuple() if all(isinstance(each, ProcessFacts) for each in value):
            return " ".join(f"{each.pid}:{_cell(each.memory)}" for each in value)
        case tuple():
            return "; ".join(str(each) for each in value)
    return value


def _plain(value: object) -> object:
    match value:
        case Absent():
            return {"absent": value.reason}
        case Quantity():
            return _number(value)
        case ProcessFacts():
            name = value.name if isinstance(value.name, str) else {"absent": value.name.reason}
            memory = _plain(value.memory)
            return {"pid": value.pid, "name": name, "memory_bytes": memory, "draws_only": value.draws_only}
        case tuple():
            return [_plain(each) for each in value]
    return value


def _number(quantity: Quantity) -> int | float:
    """Without digits that come from the change of units alone."""
    value = quantity.value
    return int(value) if float(value).is_integer() else round(value, 6)
