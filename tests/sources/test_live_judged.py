"""What ``mats health`` says of a live machine whose bus holds more GPUs than its driver lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.device import Device
from mats.facts import MachineFacts
from mats.model import Absent, Verdict
from mats.sources.live import Selection, open_source
from mats.sources.nvml import read_machine
from mats.target import Target

from .judged import said
from .machine import H100, LINK, machine, pci, write
from .stand_in import library


def refuse(target: Target) -> Device:
    raise AssertionError(f"{target.name} is not to be opened")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Eight GPUs that the driver knows, with their device files, and a ninth on the bus."""
    facts = read_machine(library=library("h100x8"))
    assert not isinstance(facts.gpus, Absent)
    for number, gpu in enumerate(facts.gpus):
        assert isinstance(gpu.pci, str)
        pci(tmp_path, gpu.pci[5:], **H100, **LINK)
        write(tmp_path, f"dev/nvidia{number}")
    pci(tmp_path, "99:00.0", **H100, **LINK)
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "verdict", "codes"),
    [({}, Verdict.FAIL, ["HLT-086"]), ({"container": "docker"}, Verdict.PASS, [])],
    ids=["on its own a machine has lost a GPU", "a container was not given it"],
)
def test_a_gpu_that_only_the_bus_shows_is_lost_unless_a_container_was_not_given_it(
    root: Path, environment: dict[str, str], verdict: Verdict, codes: list[str]
) -> None:
    own = library("h100x8")

    def read(selection: Selection, seconds: float) -> MachineFacts:
        return read_machine(selection, timeout=seconds, library=own)

    source = open_source((), 30.0, refuse, machine(root, read, environment=environment))

    found, findings = said(source, source.describe())
    assert (found, [code for code, _ in findings]) == (verdict, codes)
