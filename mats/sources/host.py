"""Reads the machine around the GPUs: device files, kernel modules, services, virtualisation; no GPU is opened or woken.

Everything is below a root that is a parameter; only services are asked through a command, for a short time. Sources:
proc(5), sysfs(5), systemd's man pages, NVIDIA's driver README (/proc/driver/nvidia), Linux Documentation/ABI.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mats.facts import Flag, GpuFacts, HostFacts, MachineFacts, Text, pci_address
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._kernel_doors import Run, run_command

READ_AT_MOST = 1 << 20
SERVICES = ("nvidia-fabricmanager", "nvidia-persistenced")
_PATIENCE = 2.0
"""Seconds a service manager may take; it answers in milliseconds or hangs."""
_MODULES = ("nouveau", "nova_core", "gdrdrv", "nv_peer_mem", "amdgpu", "radeon", "i915", "xe", "vfio_pci")
"""Kernel modules that concern GPUs, beside those whose names begin with nvidia."""
_NODE = re.compile(r"nvidia\d{1,4}")
_MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+([0-9][0-9.]*)")
_FABRIC_VERSION = re.compile(r"version is\s*:?\s*([0-9][0-9.]*)", re.IGNORECASE)
_CONTAINERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)
"""What stands in the name of a control group, and the kind of container that says."""
_MAKERS = (
    ("amazon ec2", "Amazon EC2"),
    ("google", "Google Compute Engine"),
    ("vmware", "VMware"),
    ("qemu", "QEMU"),
    ("xen", "Xen"),
    ("innotek", "VirtualBox"),
    ("parallels", "Parallels"),
    ("openstack", "OpenStack"),
    ("bochs", "Bochs"),
    ("nutanix", "Nutanix"),
)
"""Makers that only virtual machines name, unless the processor says otherwise."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where and how the machine is read. ``environment``: of this process."""

    root: Path = Path("/")
    run: Run = run_command
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    hostname: str = ""

    def text(self, name: str) -> str:
        """The beginning of a file below the root; empty when it is not there or may not be read."""
        try:
            with (self.root / name).open("rb") as file:
                return file.read(READ_AT_MOST).decode(errors="replace")
        except OSError:
            return ""

    def there(self, name: str) -> bool:
        return os.path.lexists(self.root / name)


def read_host(around: Surroundings | None = None) -> MachineFacts:
    """The machine around its GPUs, and what the kernel module itself tells of them."""
    around = around or Surroundings()
    wsl = _wsl(around)
    nodes, refused = _nodes(around)
    fabric, persistence = _services(around)
    host = HostFacts(
        system=_system(around),
        kernel=_word(around.text("proc/sys/kernel/osrelease").strip(), "kernel: /proc does not tell it"),
        wsl=wsl,
        container=container_of(around),
        nodes=nodes,
        unreadable_nodes=refused,
        modules=_modules(around),
        fabric_manager=fabric,
        fabric_manager_version=_fabric_version(around, fabric),
        persistence_daemon=persistence,
        name=_word(around.hostname or socket.gethostname(), "name of the machine: it has none"),
        product=_product(around),
        processor=_word(parse_processor(around.text("proc/cpuinfo")), "processor: /proc/cpuinfo does not name it"),
        memory_total=parse_memory_total(around.text("proc/meminfo")),
        iommu=_iommu(around),
    )
    return MachineFacts(
        kernel_module=parse_module_version(around.text("proc/driver/nvidia/version")),
        virtualisation=virtualisation_of(around),
        gpus=_gpus(around),
        host=host,
    )


def parse_module_version(text: str) -> Text:
    """Of the loaded kernel module, from ``/proc/driver/nvidia/version``."""
    found = _MODULE_VERSION.search(text)
    if found:
        return found[1].rstrip(".")
    why = (
        "the NVIDIA kernel module is not loaded" if not text.strip() else "/proc/driver/nvidia/version does not tell it"
    )
    return Absent(AbsenceKind.NOT_FOUND, f"version of the kernel module: {why}")


def parse_processor(cpuinfo: str) -> str:
    """The processor's name in the text of ``/proc/cpuinfo``, or nothing."""
    found = re.search(r"^(?:model name|Model)\s*:\s*(\S.*)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else ""


def parse_memory_total(meminfo: str) -> Reading:
    """Total memory in the text of ``/proc/meminfo``, in bytes."""
    found = re.search(r"^MemTotal:\s*(\d{1,12}) kB$", meminfo, re.MULTILINE)
    if found is None:
        return Absent(AbsenceKind.NOT_FOUND, "memory of the machine: /proc/meminfo does not tell it")
    return Quantity(int(found[1]) << 10, Unit.BYTE)


def parse_gpu_information(address: str, text: str) -> GpuFacts | Absent:
    """A GPU in the words of ``/proc/driver/nvidia/gpus/ADDRESS/information``.

    The module writes question marks for what it has not asked the GPU yet.
    """
    pci = pci_address(address)
    if isinstance(pci, Absent):
        return pci

    def value(key: str, what: str) -> Text:
        found = re.search(rf"^{key}:[ \t]+(\S.*?)[ \t]*$", text, re.MULTILINE)
        if found is None or "?" in found[1] or found[1] == "Unknown":
            return Absent(AbsenceKind.NOT_FOUND, f"{what}: the kernel module has not asked the GPU for it")
        return found[1]

    return GpuFacts(
        pci=pci,
        uuid=value("GPU UUID", "UUID"),
        name=value("Model", "name"),
        vbios=value("Video BIOS", "VBIOS"),
    )


def container_of(around: Surroundings) -> Text:
    """The kind of container this process runs in, or "none"."""
    told = around.environment.get("container") or around.text("run/systemd/container").strip()
    if told:
        return told[:40]
    if "KUBERNETES_SERVICE_HOST" in around.environment:
        return "kubernetes"
    for name, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if around.there(name):
            return kind
    groups = around.text("proc/1/cgroup")
    return next((kind for word, kind in _CONTAINERS if word in groups), "none")


def virtualisation_of(around: Surroundings) -> Text:
    """By what the machine is run, e.g. "Amazon EC2", or "none" for a machine of its own."""
    folder = "sys/class/dmi/id"
    vendor, product = (around.text(f"{folder}/{name}").strip() for name in ("sys_vendor", "product_name"))
    words = f"{vendor} {product}".casefold()
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", around.text("proc/cpuinfo"), re.MULTILINE)
    guest = flags is not None and "hypervisor" in flags[1].split()
    maker = next((name for word, name in _MAKERS if word in words), "")
    if vendor == "Microsoft Corporation" and "virtual machine" in words:
        maker = "Hyper-V"
    kind = around.text("sys/hypervisor/type").strip()
    if maker and "metal" not in words:
        return maker
    if kind and kind != "none":
        return kind
    if guest:
        return "a hypervisor that does not give its name"
    if flags is None and not words.strip():
        return Absent(AbsenceKind.NOT_FOUND, "virtualisation: neither processor nor firmware tells it")
    return "none"


def _wsl(around: Surroundings) -> Flag:
    return "microsoft" in around.text("proc/sys/kernel/osrelease").casefold() or around.there("dev/dxg")


def _system(around: Surroundings) -> Text:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', around.text("etc/os-release"), re.MULTILINE)
    return _word(found[1] if found else "", "system: /etc/os-release does not name it")


def _nodes(around: Surroundings) -> tuple[tuple[str, ...] | Absent, tuple[str, ...]]:
    """Device files of GPUs, and files of the driver that this user may not open; none is opened, which could wake."""
    folder = around.root / "dev"
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return Absent(AbsenceKind.UNREADABLE, f"device files: /dev cannot be listed ({error.strerror})"), ()
    own = [name for name in names if name.startswith("nvidia") and not (folder / name).is_dir()]
    nodes = sorted((name for name in own if _NODE.fullmatch(name)), key=lambda name: int(name[6:]))
    opened = [name for name in own if name in nodes or name in ("nvidiactl", "nvidia-uvm")]
    return tuple(nodes), tuple(name for name in opened if not os.access(folder / name, os.R_OK | os.W_OK))


def _modules(around: Surroundings) -> tuple[str, ...] | Absent:
    text = around.text("proc/modules")
    if not text and not around.there("proc/modules"):
        return Absent(AbsenceKind.NOT_FOUND, "kernel modules: /proc/modules is not there")
    loaded = (line.split(" ", 1)[0] for line in text.splitlines())
    return tuple(sorted(name for name in loaded if name in _MODULES or name.startswith("nvidia")))


def _services(around: Surroundings) -> tuple[Text, Text]:
    """States of fabric manager and persistence daemon, by one question to systemd."""
    if not around.there("run/systemd/system"):
        absent = Absent(AbsenceKind.NOT_FOUND, "services: systemd does not run here")
        return absent, _daemon(around, absent)
    command = ("systemctl", "show", *SERVICES, "--property=Id,LoadState,ActiveState")
    try:
        done = around.run(command, _PATIENCE)
    except OSError as error:  # TimeoutError is one, too
        slow = isinstance(error, TimeoutError)
        kind = AbsenceKind.TIMED_OUT if slow else AbsenceKind.NOT_FOUND
        absent = Absent(kind, f"services: systemctl {'did not answer in time' if slow else 'cannot be run'}")
        return absent, _daemon(around, absent)
    states = parse_units(done.output.decode(errors="replace"))
    missing = Absent(AbsenceKind.UNREADABLE, "services: systemctl tells nothing of them")
    fabric, persistence = (states.get(name, missing) for name in SERVICES)
    return fabric, persistence if persistence == "active" else _daemon(around, persistence)


def parse_units(text: str) -> dict[str, Text]:
    """State of each unit in the words of ``systemctl show``: active, inactive, failed ..., or "not installed"."""
    states: dict[str, Text] = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name, state = values.get("Id", "").removesuffix(".service"), values.get("ActiveState", "")
        if name and state:
            states[name] = "not installed" if values.get("LoadState") == "not-found" else state
    return states


def _daemon(around: Surroundings, otherwise: Text) -> Text:
    """The persistence daemon may run without systemd: its socket is there then."""
    return "active" if around.there("run/nvidia-persistenced/socket") else otherwise


def _fabric_version(around: Surroundings, state: Text) -> Text:
    if isinstance(state, Absent):
        return state
    if state == "not installed" or not around.there("usr/bin/nv-fabricmanager"):
        return Absent(AbsenceKind.NOT_FOUND, "version of the fabric manager: it is not installed")
    try:
        done = around.run(("nv-fabricmanager", "--version"), _PATIENCE)
    except OSError:
        return Absent(AbsenceKind.UNREADABLE, "version of the fabric manager: its program cannot be run")
    found = _FABRIC_VERSION.search((done.output + done.errors).decode(errors="replace"))
    return _word(found[1] if found else "", "version of the fabric manager: its program does not tell it")


def _product(around: Surroundings) -> Text:
    names = (around.text(f"sys/class/dmi/id/{name}").strip() for name in ("sys_vendor", "product_name"))
    model = around.text("proc/device-tree/model").strip("\0 \n")
    return _word(
        " ".join(dict.fromkeys(name for name in names if name)) or model, "maker: the firmware does not tell it"
    )


def _iommu(around: Surroundings) -> Text:
    try:
        groups = os.listdir(around.root / "sys/kernel/iommu_groups")
    except OSError:
        return Absent(AbsenceKind.NOT_FOUND, "IOMMU: the system does not tell")
    if not groups:
        return "off"
    return "on, passing through" if re.search(r"\biommu=pt\b", around.text("proc/cmdline")) else "on"


def _gpus(around: Surroundings) -> tuple[GpuFacts, ...] | Absent:
    folder = around.root / "proc/driver/nvidia/gpus"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return Absent(AbsenceKind.NOT_FOUND, "GPUs: the NVIDIA kernel module is not loaded")
    read = (parse_gpu_information(name, around.text(f"proc/driver/nvidia/gpus/{name}/information")) for name in names)
    return tuple(gpu for gpu in read if not isinstance(gpu, Absent))


def _word(text: str, missing: str) -> Text:
    return text or Absent(AbsenceKind.NOT_FOUND, missing)
