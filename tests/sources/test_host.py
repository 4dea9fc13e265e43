"""The machine around the GPUs, from files below a root: what is not there is absent, nothing of a GPU is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mats.facts import HostFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import host
from mats.sources._kernel_doors import Finished
from mats.sources.host import Surroundings

from .machine import Commands, write

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri Mar 14 13:12:07 UTC 2025\nGCC version: 13\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
UNITS = (
    "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=failed\n\n"
    "Id=nvidia-persistenced.service\nLoadState=not-found\nActiveState=inactive\n"
)


def around(root: Path, commands: Commands | None = None, **environment: str) -> Surroundings:
    return Surroundings(root, commands or Commands(), environment, "testhost")


def read(root: Path, commands: Commands | None = None, **environment: str) -> HostFacts:
    return host.read_host(around(root, commands, **environment)).host


def test_an_empty_root_gives_absence_and_no_guess(tmp_path: Path) -> None:
    facts = host.read_host(around(tmp_path))

    assert facts.host.name == "testhost"
    assert (facts.host.container, facts.host.wsl) == ("none", False)
    for value in (facts.kernel_module, facts.virtualisation, facts.gpus, facts.host.modules, facts.host.iommu):
        assert isinstance(value, Absent) and value.kind is AbsenceKind.NOT_FOUND
    assert isinstance(facts.host.nodes, Absent) and isinstance(facts.host.memory_total, Absent)


def test_device_files_are_listed_in_their_order_and_those_that_may_not_be_opened_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "null"):
        write(tmp_path, f"dev/{name}")
    (tmp_path / "dev/nvidia-caps").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(("nvidia2", "nvidiactl")))

    facts = read(tmp_path)

    assert facts.nodes == ("nvidia2", "nvidia10")
    assert set(facts.unreadable_nodes) == {"nvidia2", "nvidiactl"}


def test_only_kernel_modules_that_concern_gpus_are_told(tmp_path: Path) -> None:
    write(
        tmp_path, "proc/modules", "nvidia_uvm 1 0\nnvidia 1 0\next4 1 0\nnouveau 1 0\nnvidia_peermem 1 0\namdgpu 1 0\n"
    )

    assert read(tmp_path).modules == ("amdgpu", "nouveau", "nvidia", "nvidia_peermem", "nvidia_uvm")


@pytest.mark.parametrize(("text", "version"), [(VERSION, "570.133.07"), (OPEN, "580.95.05")])
def test_the_loaded_kernel_module_tells_its_version(tmp_path: Path, text: str, version: str) -> None:
    write(tmp_path, "proc/driver/nvidia/version", text)

    assert host.read_host(around(tmp_path)).kernel_module == version


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"proc/1/cgroup": "0::/kubepods.slice/pod1\n"}, {}, "kubernetes"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"container": "oci"}, "oci"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, "none"),
    ],
)
def test_containers_are_recognised(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], kind: str
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)

    assert read(tmp_path, None, **environment).container == kind


GUEST, OWN = "flags\t\t: fpu hypervisor\n", "flags\t\t: fpu\n"


@pytest.mark.parametrize(
    ("vendor", "product", "cpuinfo", "kind"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", GUEST, "QEMU"),
        ("Amazon EC2", "p5.48xlarge", GUEST, "Amazon EC2"),
        ("Amazon EC2", "g4dn.metal", OWN, "none"),
        ("Microsoft Corporation", "Virtual Machine", GUEST, "Hyper-V"),
        ("Microsoft Corporation", "Surface Book", OWN, "none"),
        ("VMware, Inc.", "VMware7,1", GUEST, "VMware"),
        ("Dell Inc.", "PowerEdge XE9680", OWN, "none"),
        ("", "", GUEST, "a hypervisor that does not give its name"),
    ],
)
def test_virtual_machines_are_told_from_machines_of_their_own(
    tmp_path: Path, vendor: str, product: str, cpuinfo: str, kind: str
) -> None:
    write(tmp_path, "sys/class/dmi/id/sys_vendor", vendor)
    write(tmp_path, "sys/class/dmi/id/product_name", product)
    write(tmp_path, "proc/cpuinfo", cpuinfo)

    assert host.read_host(around(tmp_path)).virtualisation == kind


def test_both_services_are_asked_for_in_one_question(tmp_path: Path) -> None:
    write(tmp_path, "run/systemd/system/x")
    write(tmp_path, "usr/bin/nv-fabricmanager")
    said = Finished(0, b"Fabric Manager version is : 575.57.08\n", b"")
    commands = Commands({"systemctl": Finished(0, UNITS.encode(), b""), "nv-fabricmanager": said})

    facts = read(tmp_path, commands)

    assert (facts.fabric_manager, facts.persistence_daemon) == ("failed", "not installed")
    assert facts.fabric_manager_version == "575.57.08"
    assert commands.asked == ["systemctl", "nv-fabricmanager"]


def test_a_service_manager_that_hangs_costs_its_answer_only(tmp_path: Path) -> None:
    write(tmp_path, "run/systemd/system/x")
    write(tmp_path, "proc/meminfo", "MemTotal:       16384 kB\n")

    facts = read(tmp_path, Commands({"systemctl": TimeoutError()}))

    assert isinstance(facts.fabric_manager, Absent) and facts.fabric_manager.kind is AbsenceKind.TIMED_OUT
    assert facts.memory_total == Quantity(16 << 20, Unit.BYTE)


def test_without_systemd_the_persistence_daemon_is_known_by_its_socket(tmp_path: Path) -> None:
    write(tmp_path, "run/nvidia-persistenced/socket")

    facts = read(tmp_path)

    assert facts.persistence_daemon == "active"
    assert isinstance(facts.fabric_manager, Absent)


@pytest.mark.parametrize(
    ("groups", "line", "state"), [(0, "", "off"), (2, "", "on"), (2, "iommu=pt", "on, passing through")]
)
def test_the_iommu_is_on_where_there_are_groups(tmp_path: Path, groups: int, line: str, state: str) -> None:
    (tmp_path / "sys/kernel/iommu_groups").mkdir(parents=True)
    for number in range(groups):
        (tmp_path / f"sys/kernel/iommu_groups/{number}").mkdir()
    write(tmp_path, "proc/cmdline", f"quiet {line}\n")

    assert read(tmp_path).iommu == state


def test_wsl_is_known_by_its_kernel(tmp_path: Path) -> None:
    write(tmp_path, "proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")

    facts = read(tmp_path)

    assert facts.wsl is True
    assert facts.kernel == "5.15.167.4-microsoft-standard-WSL2"


def test_the_kernel_module_names_the_gpus_it_holds_and_nothing_that_it_has_not_asked(tmp_path: Path) -> None:
    known = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-1-2\nVideo BIOS: \t 92.00.19\nBus Location: \t 0000:4e:00.0\n"
    write(tmp_path, "proc/driver/nvidia/gpus/0000:4e:00.0/information", known)
    write(tmp_path, "proc/driver/nvidia/gpus/0000:4f:00.0/information", "Model: Unknown\nGPU UUID: GPU-????????-????\n")

    gpus = host.read_host(around(tmp_path)).gpus

    assert not isinstance(gpus, Absent)
    assert (gpus[0].uuid, gpus[0].name, gpus[0].pci) == ("GPU-1-2", "NVIDIA A100", "0000:4e:00.0")
    assert isinstance(gpus[1].uuid, Absent) and isinstance(gpus[1].name, Absent) and gpus[1].pci == "0000:4f:00.0"


def test_no_file_of_a_gpu_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidiactl"):
        write(tmp_path, f"dev/{name}")
    opened: list[str] = []
    real = Path.open

    def watch(self: Path, *arguments: object, **named: object) -> object:
        opened.append(str(self))
        return real(self, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", watch)

    read(tmp_path)

    assert opened and not any("/dev/" in name for name in opened)
