"""The tables for people: a row a GPU, the incidents, the path, the links, the processes; only those that have a row."""

from __future__ import annotations

import dataclasses

from mats.facts import IncidentGrade, MachineFacts, ProcessFacts, RecoveryAction
from mats.model import Cell, Table
from mats.probes._health_examine import examine

from .machines import NEVER, NOT_THERE, changed, count, device, incident, logged, machine, nvlink, size


def tables(facts: MachineFacts) -> dict[str, Table]:
    return {table.name: table for table in examine(facts).tables}


def row(table: Table, place: int = 0) -> dict[str, Cell]:
    return {column.name: cell for column, cell in zip(table.columns, table.rows[place], strict=True)}


def test_a_gpu_has_its_state_in_one_row() -> None:
    facts = changed(machine(), "gpu.remap.pending", count(1))
    facts = changed(facts, "gpu.remap.uncorrectable", count(3))
    first = row(tables(changed(facts, "gpu.recovery.action", RecoveryAction.RESET))["gpus"])

    assert (first["gpu"], first["temp"], first["replaced"]) == ("0", 31, "3 rows, pending")
    assert (first["pcie"], first["links"]) == ("Gen5 x16 of 5 x16", 18)
    assert first["driver_asks"] == "reset the GPU"


def test_an_older_card_has_its_pages_in_the_same_place() -> None:
    facts = machine()
    for name in ("correctable", "uncorrectable", "pending", "failed"):
        facts = changed(facts, f"gpu.remap.{name}", NEVER)
    facts = changed(changed(facts, "gpu.retired.double_bit", count(2)), "gpu.retired.pending", True)

    assert row(tables(facts)["gpus"])["replaced"] == "2 pages, pending"


def test_an_incident_has_its_age_and_its_gpu() -> None:
    facts = dataclasses.replace(machine(), log=logged(incident(IncidentGrade.REBOOT, index=1, age=7200.0)))
    told = row(tables(facts)["incidents"])

    assert (told["age"], told["gpu"], told["xids"], told["grade"]) == ("2 h", "1", "79", "reboot")
    assert told["what"] == "a planned incident"


def test_a_path_lists_each_port_above_the_gpu() -> None:
    port = dataclasses.replace(device(5), address="0000:00:01.0", class_code=0x0604, driver="pcieport")
    below = dataclasses.replace(device(0), upstream=(port.address,))
    facts = dataclasses.replace(machine(), devices=(below, port, device(1)))
    lines = [(cells[0], cells[1]) for cells in tables(facts)["path"].rows]

    assert lines == [("0", "0000:10:00.0"), ("0", "0000:00:01.0"), ("1", "0000:11:00.0")]


def test_links_tell_which_are_down() -> None:
    told = row(tables(changed(machine(), "gpu.nvlink", nvlink(16, 18)))["links"])

    assert (told["up"], told["listed"], told["down"]) == (16, 18, "16, 17")


def test_processes_tell_whether_they_compute() -> None:
    facts = changed(machine(), "gpu.processes", (ProcessFacts(812, size(1 << 20), True, "Xorg"),))

    assert row(tables(facts)["processes"]) | {"memory": 0} == {
        **{"gpu": "0", "pid": "812", "memory": 0, "name": "Xorg", "kind": "draws"}
    }


def test_only_tables_with_something_in_them_are_there() -> None:
    bare = changed(dataclasses.replace(machine(1), devices=NOT_THERE, log=NOT_THERE), "gpu.nvlink.active", count(0))

    assert set(tables(changed(bare, "gpu.nvlink.links", NOT_THERE))) == {"gpus", "cards"}
    assert tables(MachineFacts()) == {}
