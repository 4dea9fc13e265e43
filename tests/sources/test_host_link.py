"""The way from a GPU to the processor: the narrowest link of the system's tree, NVML where the tree says nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mats.device import PCIE, HostLink
from mats.devices._host_link import COHERENT, LinkReader, describe
from mats.facts import PcieFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources import sysfs
from mats.sources._sysfs_copy import parse_copy

from .machine import H100, PORT, pci

NONE = Absent(AbsenceKind.NOT_FOUND, "NVML: it is not installed")
GPU = "0000:22:00.0"


def count(number: int) -> Quantity:
    return Quantity(number, Unit.COUNT)


def files(speed: str, width: int, best: str = "32.0", best_width: int = 16) -> dict[str, str]:
    return {
        "current_link_speed": f"{speed} GT/s PCIe",
        "current_link_width": str(width),
        "max_link_speed": f"{best} GT/s PCIe",
        "max_link_width": str(best_width),
    }


def tree(root: Path, gpu: dict[str, str], port: dict[str, str] | None = None) -> Path:
    chain = "22:00.0" if port is None else "20:00.0/22:00.0"
    if port is not None:
        pci(root, "20:00.0", **{**PORT, **port})
    pci(root, chain, **{**H100, **gpu})
    return root / "sys"


def read(root: Path, coherent: bool = False) -> HostLink:
    return LinkReader(NONE, GPU, coherent, root).read()


def gigabytes(reading: Reading) -> float:
    assert isinstance(reading, Quantity)
    return reading.value / 1e9


def test_the_narrowest_link_of_the_way_counts(tmp_path: Path) -> None:
    link = read(tree(tmp_path, files("16.0", 16), files("8.0", 16, best="8.0")))

    assert (link.kind, link.generation, link.width) == (PCIE, count(4), count(16))
    assert gigabytes(link.bandwidth) == pytest.approx(15.75, abs=0.01)
    assert gigabytes(link.bandwidth_maximum) == pytest.approx(15.75, abs=0.01)
    assert (link.narrowest, link.unseen) == ("0000:20:00.0", "")


def test_a_link_is_read_anew_each_time(tmp_path: Path) -> None:
    root = tree(tmp_path, files("2.5", 16), files("2.5", 16))
    reader = LinkReader(NONE, GPU, False, root)
    idle = reader.read()
    tree(tmp_path, files("32.0", 16), files("32.0", 16))

    busy = reader.read()

    assert (idle.generation, busy.generation) == (count(1), count(5))
    assert gigabytes(busy.bandwidth) == pytest.approx(63.0, abs=0.1)
    assert idle.bandwidth_maximum == busy.bandwidth_maximum == busy.bandwidth


def test_without_ports_above_the_way_may_be_narrower(tmp_path: Path) -> None:
    link = read(tree(tmp_path, files("32.0", 16)))

    assert "virtual machine" in link.unseen
    assert gigabytes(link.bandwidth) == pytest.approx(63.0, abs=0.1)


def test_a_port_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    link = read(tree(tmp_path, files("32.0", 16), {"max_link_speed": "Unknown"}))

    assert "0000:20:00.0" in link.unseen


def test_errors_of_all_ends_are_added(tmp_path: Path) -> None:
    def errors(number: int) -> dict[str, str]:
        return {"aer_dev_correctable": f"RxErr {number}\nBadTLP 1\nTOTAL_ERR_COR {number + 1}"}

    link = read(tree(tmp_path, {**files("16.0", 16), **errors(4)}, {**files("16.0", 16), **errors(30)}))

    counters = dict(link.counters)
    assert counters["aer.correctable"] == count(36)
    assert isinstance(counters["aer.fatal"], Absent)
    assert counters["pcie.replays"] == NONE


def test_a_gpu_that_the_system_does_not_show_has_a_reason(tmp_path: Path) -> None:
    link = read(tree(tmp_path, files("16.0", 16)).parent / "nothing")

    assert link.bandwidth == NONE
    assert link.unseen


def test_a_coherent_processor_is_another_way(tmp_path: Path) -> None:
    assert read(tree(tmp_path, files("16.0", 16)), coherent=True).kind == COHERENT


def told(generation: int, width: int, most: tuple[int, int] = (4, 16)) -> PcieFacts:
    return PcieFacts(count(generation), count(width), count(most[0]), count(most[1]), replays=count(5))


def test_the_driver_speaks_where_the_system_is_silent() -> None:
    link = describe(NONE, told(3, 8), PCIE)

    assert (link.generation, link.width, link.generation_maximum) == (count(3), count(8), count(4))
    assert gigabytes(link.bandwidth) == pytest.approx(7.88, abs=0.01)
    assert gigabytes(link.bandwidth_maximum) == pytest.approx(31.5, abs=0.01)
    assert dict(link.counters)["pcie.replays"] == count(5)
    assert link.unseen == NONE.reason


def test_the_drivers_maximum_is_that_of_card_and_slot(tmp_path: Path) -> None:
    path = sysfs.read_pci(tree(tmp_path, files("16.0", 8), files("16.0", 16))).path(GPU)

    link = describe(path, told(4, 8, most=(4, 8)), PCIE)

    assert gigabytes(link.bandwidth_maximum) == pytest.approx(15.75, abs=0.01)


def test_a_generation_that_nobody_knows_is_not_guessed() -> None:
    link = describe(NONE, replace(told(3, 8), generation=count(9)), PCIE)

    assert isinstance(link.bandwidth, Absent) and "9" in link.bandwidth.reason


def test_the_files_of_a_real_machine_give_the_narrower_port(tmp_path: Path) -> None:
    folder = os.environ.get("MATS_CASES")
    if not folder:
        pytest.skip("MATS_CASES is not set: the path of a real machine is not checked")

    text = (Path(folder) / "links" / "sysfs_link_files_path.txt").read_text()

    link = describe(parse_copy(text).path("22:00.0"), NONE, PCIE)

    assert (link.generation, link.width) == (count(4), count(16))
    assert gigabytes(link.bandwidth) == pytest.approx(15.75, abs=0.01)
