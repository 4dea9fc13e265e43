"""The machine itself: parts are joined, a part that fails or hangs costs itself only, sleeping GPUs are left alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mats.device import Device
from mats.facts import AMD, GpuFacts, LogFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity
from mats.probe import UsageError
from mats.source import NothingThere, Source
from mats.sources._aside import THREAD, side_by_side
from mats.sources._kernel_doors import Finished
from mats.sources.live import Selection, open_source
from mats.sources.nvml import read_machine
from mats.target import Target

from .machine import H100, LINK, NOW, PORT, RADEON, Commands, Nvml, card, count, machine, pci, told, uuid, write
from .stand_in import library

XID = b"[    9.000000] NVRM: Xid (PCI:0000:10:00): 79, pid=17, name=train, GPU has fallen off the bus.\n"
NOT_INSTALLED = Absent(AbsenceKind.NOT_FOUND, "NVML: the Python package nvidia-ml-py is not installed")


def refuse(target: Target) -> Device:
    raise AssertionError(f"{target.name} is not to be opened")


def opened(
    root: Path, facts: MachineFacts, commands: Commands | None = None, selection: Selection = (), **more: object
) -> Source:
    return open_source(selection, None, refuse, machine(root, Nvml(facts), commands, **more))


def gpus(facts: MachineFacts) -> tuple[GpuFacts, ...]:
    assert not isinstance(facts.gpus, Absent)
    return facts.gpus


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two H100, each below a port."""
    for bus in ("10", "11"):
        pci(tmp_path, f"00:{bus}.0", **PORT, **LINK)
        pci(tmp_path, f"00:{bus}.0/{bus}:00.0", **H100, **LINK, power__runtime_status="active")
    write(tmp_path, "dev/nvidia0")
    write(tmp_path, "dev/nvidia1")
    return tmp_path


def test_driver_bus_log_and_host_become_one_picture(root: Path) -> None:
    write(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Fri\n")
    commands = Commands({"dmesg": Finished(0, XID, b"")})

    source = opened(root, told(card(0), card(1)), commands)

    facts = source.read()
    first, second = gpus(facts)
    assert (first.index, second.index) == (count(0), count(1))
    assert first.asleep is False and first.answers is True
    assert first.pcie.generation == count(1)  # of the bus, since NVML did not tell
    assert isinstance(facts.devices, tuple) and len(facts.devices) == 4
    assert isinstance(facts.log, LogFacts) and facts.log.incidents[0].pci == "0000:10:00.0"
    assert (facts.kernel_module, facts.library, facts.host.nodes) == ("580.1", "580.1", ("nvidia0", "nvidia1"))
    assert facts.taken == NOW.isoformat(timespec="seconds")
    assert source.describe().title == "2 x NVIDIA H100"
    source.close()
    source.close()


def test_the_picture_of_the_opening_is_given_once_and_then_taken_anew(root: Path) -> None:
    nvml = Nvml(told(card(0), card(1)))
    source = open_source((), None, refuse, machine(root, nvml))

    first, second = source.read(), source.read()

    assert first == second
    assert len(nvml.asked) == 2


def test_a_gpu_that_the_driver_does_not_list_stays_among_the_devices_of_the_bus(root: Path) -> None:
    facts = opened(root, told(card(0))).read()

    assert [gpu.pci for gpu in gpus(facts)] == ["0000:10:00.0"]
    assert isinstance(facts.devices, tuple)
    assert [device.address for device in facts.devices if device.is_gpu] == ["0000:10:00.0", "0000:11:00.0"]


def test_without_a_driver_the_gpus_are_absent_with_its_reason_and_on_the_bus(root: Path) -> None:
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the NVIDIA driver is not loaded")

    facts = opened(root, told(gpus=why, attached=why, nvml_failure=why.reason)).read()

    assert facts.nvml_failure == why.reason
    assert facts.gpus == why
    assert isinstance(facts.devices, tuple) and sum(device.is_gpu for device in facts.devices) == 2


def test_where_nvml_cannot_be_asked_the_kernel_module_names_the_gpus_it_holds(root: Path) -> None:
    write(root, "proc/driver/nvidia/gpus/0000:11:00.0/information", f"Model: NVIDIA H100\nGPU UUID: {uuid(1)}\n")
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the Python package nvidia-ml-py is not installed")

    facts = opened(root, told(gpus=why, attached=why, nvml_failure=why.reason)).read()

    (gpu,) = gpus(facts)
    assert (gpu.uuid, gpu.pci, gpu.temperature) == (uuid(1), "0000:11:00.0", why)
    assert gpu.pcie.generation == count(1)


def test_a_chosen_gpu_that_the_driver_has_lost_is_told_of(root: Path) -> None:
    gone = Absent(AbsenceKind.NOT_FOUND, "GPU 0000:11:00.0: the driver knows no such GPU (it lists 1)")
    lost = replace(card(1), index=gone, uuid=gone, name=gone, answers=gone)

    facts = opened(root, told(lost, attached=count(1)), selection=("0000:11:00.0",)).read()

    assert [(gpu.pci, gpu.answers) for gpu in gpus(facts)] == [("0000:11:00.0", gone)]


@pytest.mark.parametrize("asleep", [("10",), ("10", "11")])
def test_a_sleeping_gpu_is_not_asked_for(root: Path, asleep: tuple[str, ...]) -> None:
    for bus in asleep:
        write(root, f"sys/bus/pci/devices/0000:{bus}:00.0/power/runtime_status", "suspended\n")
    nvml = Nvml(told(card(1)))

    facts = open_source((), None, refuse, machine(root, nvml)).read()

    sleeping = [gpu for gpu in gpus(facts) if gpu.asleep is True]
    assert [gpu.pci for gpu in sleeping] == [f"0000:{bus}:00.0" for bus in asleep]
    assert all("was not woken" in gpu.temperature.reason for gpu in sleeping if isinstance(gpu.temperature, Absent))
    assert nvml.asked == ([] if len(asleep) == 2 else [("1",)])


@pytest.mark.parametrize("name", ["0000:10:00.0", "0"])
def test_a_chosen_gpu_that_sleeps_is_told_and_not_asked_for(root: Path, name: str) -> None:
    write(root, "sys/bus/pci/devices/0000:10:00.0/power/runtime_status", "suspended\n")
    nvml = Nvml(told(card(1)))

    facts = open_source((name,), None, refuse, machine(root, nvml)).read()

    assert [(gpu.pci, gpu.index, gpu.asleep) for gpu in gpus(facts)] == [("0000:10:00.0", count(0), True)]
    assert nvml.asked == [("1",)]


def test_nobody_is_woken_to_say_which_gpus_there_are(root: Path) -> None:
    write(root, "sys/bus/pci/devices/0000:10:00.0/power/runtime_status", "suspended\n")
    nvml = Nvml(told(card(1)))

    with pytest.raises(UsageError, match="there is no GPU 7; there are 0"):
        open_source(("7",), None, refuse, machine(root, nvml))

    assert nvml.asked == [("1",)]


def test_nvidia_smi_is_asked_only_where_nvml_cannot_be(root: Path) -> None:
    xml = (Path(__file__).resolve().parents[1] / "data" / "smi" / "h100_reset_v13.xml").read_bytes()
    commands = Commands({"nvidia-smi": Finished(0, xml, b"")})
    broken = told(gpus=NOT_INSTALLED, attached=NOT_INSTALLED, nvml_failure=NOT_INSTALLED.reason)

    fine, replaced = opened(root, told(card(0), card(1)), commands), opened(root, broken, commands)

    assert "nvidia-smi" not in commands.asked[: len(commands.asked) // 2]
    assert commands.asked.count("nvidia-smi") == 1
    facts = replaced.read()
    assert any(gpu.name == "NVIDIA H100 80GB HBM3" for gpu in gpus(facts))
    assert isinstance(facts.nvml_failure, Absent)
    assert f"{NOT_INSTALLED.reason}; nvidia-smi was asked in its place" in facts.notes
    assert fine.read().notes == ()


@pytest.mark.parametrize(
    "answer", [TimeoutError(), Finished(9, b"NVIDIA-SMI has failed because it couldn't communicate\n", b"")]
)
def test_nvidia_smi_that_fails_too_leaves_the_reason_of_nvml(root: Path, answer: Finished | Exception) -> None:
    broken = told(gpus=NOT_INSTALLED, attached=NOT_INSTALLED, nvml_failure=NOT_INSTALLED.reason)

    facts = opened(root, broken, Commands({"nvidia-smi": answer})).read()

    assert facts.nvml_failure == NOT_INSTALLED.reason


def test_a_part_that_fails_costs_itself_only(root: Path) -> None:
    def fail(selection: Selection, seconds: float) -> MachineFacts:
        raise RuntimeError("unheard of")

    facts = open_source((), None, refuse, machine(root, fail)).read()

    assert facts.nvml_failure == "NVML: unheard of"
    assert isinstance(facts.gpus, Absent) and isinstance(facts.devices, tuple) and len(facts.devices) == 4
    assert facts.host.name == "testhost"


def test_a_part_that_hangs_is_given_up_in_time(root: Path) -> None:
    release = threading.Event()

    def hang(selection: Selection, seconds: float) -> MachineFacts:
        release.wait(20)
        return told()

    started = time.monotonic()
    facts = open_source((), 0.5, refuse, machine(root, hang)).read()
    took = time.monotonic() - started
    release.set()

    assert took < 5
    assert isinstance(facts.devices, tuple) and len(facts.devices) == 4
    assert isinstance(facts.attached, Absent) and facts.attached.kind is AbsenceKind.TIMED_OUT
    assert facts.host.name == "testhost"


def test_answers_that_are_ready_are_kept_when_another_is_late() -> None:
    release = threading.Event()

    found = side_by_side({"slow": lambda: release.wait(20), "fast": lambda: True}, 0.2)
    names = [thread.name for thread in threading.enumerate()]
    release.set()

    assert found["fast"] is True
    assert isinstance(found["slow"], Absent) and found["slow"].kind is AbsenceKind.TIMED_OUT
    assert f"{THREAD} slow" in names


def test_gpus_are_chosen_by_index_uuid_and_address(root: Path) -> None:
    for name in ("1", uuid(1), "0000:11:00.0", "11:00.0", uuid(1)[:12]):
        facts = opened(root, told(card(0), card(1)), selection=(name,)).read()

        assert [gpu.uuid for gpu in gpus(facts)] == [uuid(1)]
        assert facts.attached == count(2)


@pytest.mark.parametrize("name", ["7", "GPU-ffffffff", "0000:99:00.0"])
def test_a_gpu_that_is_not_there_is_said_beside_those_that_are(root: Path, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        opened(root, told(card(0), card(1)), selection=(name,))

    said = str(refused.value)
    assert said.startswith(f"there is no GPU {name}; there are 0 (NVIDIA H100, 0000:10:00.0), 1 (")
    assert "\n" not in said


def test_a_machine_without_a_gpu_says_what_was_looked_at(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the NVML library is not installed")

    with pytest.raises(NothingThere) as nothing:
        opened(tmp_path, told(gpus=why, attached=why, nvml_failure=why.reason))

    assert str(nothing.value) == (
        "there is no NVIDIA GPU here: NVML: the NVML library is not installed, none is on the PCI bus, "
        "there is no device file of one"
    )
    assert nothing.value.facts is not None and nothing.value.facts.host.name == "testhost"


def test_gpus_of_other_makers_are_named_with_their_tools(tmp_path: Path) -> None:
    pci(tmp_path, "c5:00.0", **RADEON)
    write(
        tmp_path,
        "usr/share/misc/pci.ids",
        "# x\n1002  AMD\n\t1586  Strix Halo [Radeon 8060S]\n8086  Intel\n\t1586  No\n",
    )
    write(tmp_path, "proc/cpuinfo", "model name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\n")
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the NVML library is not installed")

    with pytest.raises(NothingThere) as nothing:
        opened(tmp_path, told(gpus=why, attached=why, nvml_failure=why.reason))

    said = str(nothing.value)
    assert "AMD Strix Halo [Radeon 8060S] at 0000:c5:00.0 is no CUDA device" in said
    assert "amd-smi or rocm-smi" in said
    assert "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S is an AMD APU: it has no CUDA compute capability" in said


def test_a_card_of_another_maker_beside_nvidias_is_part_of_the_picture(root: Path) -> None:
    pci(root, "c5:00.0", **RADEON)

    facts = opened(root, told(card(0), card(1))).read()

    assert isinstance(facts.devices, tuple)
    assert [device.vendor for device in facts.devices if device.is_gpu].count(AMD) == 1
    assert len(gpus(facts)) == 2


@pytest.mark.parametrize("trace", ["dev/nvidia0", "proc/driver/nvidia/version", "sys/class/dmi/id/product_name", "log"])
def test_a_trace_of_a_gpu_is_enough_to_go_on(tmp_path: Path, trace: str) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Fri\nNVIDIA DGX H100\n"
    commands = Commands({"dmesg": Finished(0, XID, b"")} if trace == "log" else {})
    if trace != "log":
        write(tmp_path, trace, text)
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the NVIDIA driver is not loaded")

    source = opened(tmp_path, told(gpus=why, attached=why, nvml_failure=why.reason), commands)

    assert isinstance(source.read().gpus, Absent)


def test_a_gpu_handed_on_to_a_virtual_machine_is_a_note_and_no_lost_gpu(root: Path) -> None:
    driver = root / "sys/bus/pci/drivers/vfio-pci"
    driver.mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:11:00.0/driver").symlink_to(driver)

    facts = opened(root, told(card(0))).read()

    assert [gpu.pci for gpu in gpus(facts)] == ["0000:10:00.0"]
    assert facts.notes == ("the GPU at 0000:11:00.0 is handed on to a virtual machine and was not looked at",)


def test_shares_of_a_gpu_made_for_virtual_machines_are_no_cards(root: Path) -> None:
    share = pci(root, "00:10.0/10:00.4", **H100)
    (root / f"sys/bus/pci/devices/{share}/physfn").symlink_to(root)

    facts = opened(root, told(card(0), card(1))).read()

    assert len(gpus(facts)) == 2


def test_what_the_machine_itself_says_of_being_virtual_wins_over_what_a_gpu_says(root: Path) -> None:
    write(root, "sys/class/dmi/id/sys_vendor", "QEMU\n")

    facts = opened(root, told(card(0), card(1), virtualisation="None")).read()

    assert facts.virtualisation == "QEMU"


@pytest.mark.parametrize("expected", [True, False])
def test_a_log_without_the_driver_says_something_only_where_a_card_is(root: Path, expected: bool) -> None:
    if not expected:
        for link in (root / "sys/bus/pci/devices").iterdir():
            link.unlink()
    commands = Commands({"dmesg": Finished(0, b"[    1.000000] usb 1-1: new device\n", b"")})

    facts = opened(root, told(card(0), card(1)), commands).read()

    assert isinstance(facts.log, LogFacts) is expected
    assert expected or (isinstance(facts.log, Absent) and "no line of the NVIDIA driver" in facts.log.reason)


@pytest.mark.parametrize("whole", [True, False])
def test_the_journal_is_read_beside_a_buffer_that_has_lost_its_beginning(root: Path, whole: bool) -> None:
    begun = "6,0,0,-;Linux version 6.8\n" if whole else ""
    old, new = (
        "NVRM: Xid (PCI:0000:10:00): 79, pid=1, name=a, off",
        "NVRM: Xid (PCI:0000:11:00): 48, pid=2, name=b, DBE",
    )
    write(root, "dev/kmsg", f"{begun}4,1,90000000,-;{new}\n")
    journal = f"1764400000.000000 h kernel: {old}\n1764500000.000000 h kernel: {new}\n".encode()
    commands = Commands({"journalctl": Finished(0, journal, b"")})

    log = opened(root, told(card(0), card(1)), commands).read().log

    assert isinstance(log, LogFacts)
    assert sorted(incident.xids for incident in log.incidents) == ([(48,)] if whole else [(48,), (79,)])
    assert ("journalctl" in commands.asked) is not whole
    assert log.origin == ("/dev/kmsg" if whole else "/dev/kmsg, journalctl")


def test_a_log_that_may_not_be_read_is_absent_with_every_reason(root: Path) -> None:
    commands = Commands({"dmesg": Finished(1, b"", b"dmesg: read kernel buffer failed: Operation not permitted")})

    log = opened(root, told(card(0), card(1)), commands).read().log

    assert isinstance(log, Absent) and log.kind is AbsenceKind.NO_PERMISSION
    assert "dmesg: no permission" in log.reason


def test_ages_of_events_count_until_now(root: Path) -> None:
    commands = Commands({"dmesg": Finished(0, b"[Sun Nov 29 12:00:00 2026] " + XID.split(b"] ")[1], b"")})

    log = opened(root, told(card(0), card(1)), commands).read().log

    assert isinstance(log, LogFacts)
    (incident,) = log.incidents
    assert isinstance(incident.age, Quantity) and incident.age.value == 86400
    assert incident.age_from == "until the log was taken"


@pytest.mark.parametrize("name", ["8", "GPU-ffffffff", "0000:99:00.0"])
def test_the_real_reader_of_nvml_knows_no_gpu_that_is_not_there(tmp_path: Path, name: str) -> None:
    own = library("h100x8")

    def read(selection: Selection, seconds: float) -> MachineFacts:
        return read_machine(selection, timeout=seconds, library=own)

    with pytest.raises(UsageError) as refused:
        open_source((name,), None, refuse, machine(tmp_path, read))
    facts = open_source(("3",), None, refuse, machine(tmp_path, read)).read()

    assert str(refused.value).startswith(f"there is no GPU {name}; there are 0 (NVIDIA H100 80GB HBM3, 0000:1b:00.0)")
    assert [gpu.index for gpu in gpus(facts)] == [count(3)]
