"""A machine for the tests of its readers: files below a root, commands that answer as planned and refuse all others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from mats.facts import GpuFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._kernel_doors import Finished
from mats.sources.live import Machine, Selection

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
H100 = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "max_link_speed": "32.0 GT/s PCIe"}
PORT = {"vendor": "0x8086", "device": "0x352a", "class": "0x060400", "max_link_speed": "32.0 GT/s PCIe"}
RADEON = {"vendor": "0x1002", "device": "0x1586", "class": "0x038000"}
LINK = {"current_link_speed": "2.5 GT/s PCIe", "current_link_width": "16", "max_link_width": "16"}


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def pci(root: Path, chain: str, **files: str) -> str:
    """A device in the tree of ``/sys`` at ``root``; ``chain`` is its place, such as 00:01.0/01:00.0. Its address."""
    parts = [f"0000:{part}" for part in chain.split("/")]
    folder = root / "sys/devices/pci0000:00" / "/".join(parts)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write(folder, name.replace("__", "/"), text + "\n")
    link = root / "sys/bus/pci/devices" / parts[-1]
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        os.symlink(folder, link)
    return parts[-1]


def card(index: int, address: str = "", **more: object) -> GpuFacts:
    """A GPU as NVML tells of it."""
    pci_address = address or f"0000:{0x10 + index:02x}:00.0"
    known = {"index": count(index), "pci": pci_address, "uuid": uuid(index), "name": "NVIDIA H100", "answers": True}
    return GpuFacts(**{**known, "processes": (), **more})  # type: ignore[arg-type]


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def told(*gpus: GpuFacts, **more: object) -> MachineFacts:
    """What NVML tells of a machine with these GPUs."""
    fine = Absent(AbsenceKind.NOT_FOUND, "NVML: it has started")
    facts = {"driver": "580.1", "library": "580.1", "attached": count(len(gpus)), "gpus": gpus, "nvml_failure": fine}
    return MachineFacts(**{**facts, **more})  # type: ignore[arg-type]


@dataclass
class Commands:
    """Answers by the first word of a command; what is not planned is not installed."""

    answers: Mapping[str, Finished | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, command: tuple[str, ...], seconds: float) -> Finished:
        self.asked.append(command[0])
        answer = self.answers.get(command[0], FileNotFoundError(2, "not there"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Nvml:
    """Tells the same each time and keeps what it was asked for."""

    facts: MachineFacts
    asked: list[Selection] = field(default_factory=list)

    def __call__(self, selection: Selection, seconds: float) -> MachineFacts:
        self.asked.append(selection)
        return self.facts


def machine(
    root: Path, nvml: Callable[[Selection, float], MachineFacts], commands: Commands | None = None, **more: object
) -> Machine:
    run = commands or Commands()
    planned = {
        "root": root,
        "run": run,
        "read_nvml": nvml,
        "find_program": lambda name: name if name in run.answers else None,
        "now": lambda: NOW,
        "sleep": lambda seconds: None,
        "hostname": "testhost",
        "environment": {},
    }
    return Machine(**{**planned, **more})  # type: ignore[arg-type]
