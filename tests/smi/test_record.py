"""A recording is read back as what was seen: numbers, absence, processes."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from datetime import datetime

import pytest

from mats.cli._smi_record import FIELDS, NOTHING, Recorder
from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent
from mats.units import GIB, MIB

from .planned import HIDDEN, HUNG, LOST, gone, gpu, machine, process, sample

SEEN = machine(
    gpu(0, processes=(process(4121), process(977, HIDDEN, "Xorg"))),
    dataclasses.replace(gpu(1), temperature=HUNG),
    gone(2),
)


def recorded(form: str, *facts: MachineFacts) -> str:
    recorder = Recorder(form)
    return "".join(recorder.text(sample(each, number)) for number, each in enumerate(facts, 1))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_one_head_and_a_line_for_each_gpu_and_sample() -> None:
    read = rows(recorded("csv", SEEN, SEEN))

    assert len(read) == 6
    assert list(read[0]) == [*(field.name for field in FIELDS), "simulated"]
    assert [(row["sample"], row["gpu_index"]) for row in read[:4]] == [("1", "0"), ("1", "1"), ("1", "2"), ("2", "0")]


def test_csv_holds_base_units_and_empty_cells_for_what_is_absent() -> None:
    healthy, hung, lost = rows(recorded("csv", SEEN))

    assert (healthy["temperature_celsius"], hung["temperature_celsius"], lost["temperature_celsius"]) == ("31", "", "")
    assert healthy["memory_total_bytes"] == str(80 * GIB)
    assert healthy["core_clock_hertz"] == "1980000000"
    assert (healthy["power_watts"], healthy["busy_ratio"]) == ("71.234", "0.07")
    assert (healthy["answers"], lost["answers"]) == ("yes", "no")
    assert healthy["simulated"] == "no"


def test_csv_tells_no_process_from_processes_that_are_not_known() -> None:
    healthy, hung, lost = rows(recorded("csv", SEEN))

    assert healthy["process_memory_bytes"] == f"4121:{512 * MIB} 977:"
    assert (hung["process_memory_bytes"], lost["process_memory_bytes"]) == (NOTHING, "")


def test_json_holds_numbers_and_the_reason_of_what_is_absent() -> None:
    healthy, hung, lost = (json.loads(line) for line in recorded("json", SEEN).splitlines())

    assert healthy["temperature_celsius"] == 31 and healthy["answers"] is True
    assert hung["temperature_celsius"] == {"absent": HUNG.reason}
    assert lost["temperature_celsius"] == {"absent": LOST.reason} and lost["answers"] is False
    assert healthy["clocks_held_by"] == ["idle"]
    assert healthy["process_memory_bytes"] == [
        {"pid": 4121, "name": "python train.py", "memory_bytes": 512 * MIB, "draws_only": False},
        {"pid": 977, "name": "Xorg", "memory_bytes": {"absent": HIDDEN.reason}, "draws_only": False},
    ]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_both_forms_have_the_same_fields_and_times_with_a_zone(form: str) -> None:
    text = recorded(form, SEEN)

    first = rows(text)[0] if form == "csv" else json.loads(text.splitlines()[0])

    assert list(first) == [*(field.name for field in FIELDS), "simulated"]
    assert datetime.fromisoformat(first["time"]).utcoffset() is not None


def test_a_name_with_commas_quotes_and_line_breaks_stays_one_cell() -> None:
    odd = dataclasses.replace(gpu(), name='a "b", c\nd')

    assert rows(recorded("csv", machine(odd)))[0]["gpu_name"] == 'a "b", c\nd'
    assert json.loads(recorded("json", machine(odd)))["gpu_name"] == 'a "b", c\nd'


def test_a_moment_without_a_list_of_gpus_leaves_no_line_of_zeros() -> None:
    nobody = MachineFacts(gpus=Absent(AbsenceKind.DEVICE_LOST, "NVML: the driver is gone"))

    assert recorded("json", nobody) == ""
    assert len(recorded("csv", nobody).splitlines()) == 1
