"""PCI state from a tree like /sys and from saved copies of it: links with the whole path, windows, errors."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts.pci import Bar, PathLink, PciLink, rate_of, width_of
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import _sysfs_copy, sysfs

from . import saved

GPU, DOWN, UP, ROOT_PORT = "0000:05:00.0", "0000:04:00.0", "0000:03:00.0", "0000:00:01.0"
RESOURCE = (
    "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n"
    "0x0000007c00000000 0x0000007dffffffff 0x000000000014220c\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
)


def link(generation: int, width: int) -> dict[str, str]:
    speed = {1: "2.5", 3: "8.0", 4: "16.0", 5: "32.0"}[generation]
    return {"current_link_speed": f"{speed} GT/s PCIe\n", "current_link_width": f"{width}\n"}


def tree(root: Path, devices: dict[str, dict[str, str]], *, links: bool = True) -> Path:
    """A tree with one path of devices, the processor's port first, as the kernel lays it out."""
    folder = root / "devices" / "pci0000:00"
    bus = root / "bus" / "pci" / "devices"
    bus.mkdir(parents=True)
    for address, files in devices.items():
        folder = folder / address if links else bus / address
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        if links:
            (bus / address).symlink_to(folder)
    return root


def gpu_files(**more: str) -> dict[str, str]:
    maximum = {"max_link_speed": "32.0 GT/s PCIe\n", "max_link_width": "16\n"}
    numbers = {"vendor": "0x10de\n", "device": "0x2331\n", "class": "0x030200\n", "numa_node": "1\n"}
    return {**numbers, **link(5, 16), **maximum, "resource": RESOURCE, **more}


def whole_path(root: Path, slow: dict[str, str]) -> Path:
    port = {"class": "0x060400\n"}
    return tree(
        root, {ROOT_PORT: {**port, **slow}, UP: {**port, **slow}, DOWN: {**port, **link(5, 16)}, GPU: gpu_files()}
    )


def found(value: object) -> PathLink:
    assert isinstance(value, PathLink)
    return value


def test_the_narrowest_link_of_the_path_is_found_above_a_gpu_whose_own_link_is_whole(tmp_path: Path) -> None:
    facts = sysfs.read_pci(whole_path(tmp_path, link(4, 8)))

    (gpu,) = facts.gpus
    assert (gpu.now.generation, gpu.now.width) == (Quantity(5, Unit.COUNT), Quantity(16, Unit.COUNT))
    assert gpu.upstream == (DOWN, UP, ROOT_PORT)
    narrow = found(facts.path_link(GPU))
    assert narrow.link == PciLink(Quantity(16e9, Unit.HERTZ), Quantity(8, Unit.COUNT))
    assert (narrow.at, narrow.unread, narrow.assumed) == (UP, (), "")


def test_a_port_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    facts = sysfs.read_pci(whole_path(tmp_path, {}))

    narrow = found(facts.path_link(GPU))
    assert narrow.at == GPU
    assert narrow.unread == (UP, ROOT_PORT)


def test_a_narrow_new_link_is_held_against_a_wide_old_one_by_bandwidth() -> None:
    new, old = PciLink(rate_of("32.0 GT/s PCIe"), width_of("4")), PciLink(rate_of("5.0 GT/s PCIe"), width_of("16"))

    assert isinstance(new.bandwidth, Quantity) and isinstance(old.bandwidth, Quantity)
    assert new.bandwidth.value == pytest.approx(32e9 * 4 * 128 / 130 / 8)
    assert old.bandwidth.value == pytest.approx(8e9)


def test_numbers_driver_and_memory_window_are_read(tmp_path: Path) -> None:
    root = tree(tmp_path, {GPU: gpu_files()})
    (tmp_path / "drivers" / "nvidia").mkdir(parents=True)
    (root / "bus" / "pci" / "devices" / GPU / "driver").symlink_to(tmp_path / "drivers" / "nvidia")

    (gpu,) = sysfs.read_pci(root).gpus

    assert (gpu.vendor, gpu.device, gpu.class_code, gpu.driver) == (0x10DE, 0x2331, 0x0302, "nvidia")
    assert gpu.numa_node == Quantity(1, Unit.COUNT)
    assert isinstance(gpu.framebuffer, Bar)
    assert gpu.framebuffer.size == 8 << 30
    machine = sysfs.read_pci(root).machine()
    assert isinstance(machine.gpus, tuple)
    assert machine.gpus[0].window.total == Quantity(8 << 30, Unit.BYTE)
    assert machine.gpus[0].pcie.generation == Quantity(5, Unit.COUNT)


def test_audio_functions_and_switches_are_no_gpus_and_other_makers_are(tmp_path: Path) -> None:
    audio, switch, amd = ({"class": code} for code in ("0x040300\n", "0x068000\n", "0x030000\n"))
    root = tree(tmp_path, {"0000:05:00.1": audio, "0000:06:00.0": switch, "0000:07:00.0": {**amd, "vendor": "0x1002"}})

    facts = sysfs.read_pci(root)

    assert [gpu.vendor for gpu in facts.gpus] == [0x1002]
    assert isinstance(facts.machine().gpus, Absent)


def test_a_copy_without_links_tells_no_path(tmp_path: Path) -> None:
    facts = sysfs.read_pci(tree(tmp_path, {GPU: gpu_files()}, links=False))

    above = facts.gpus[0].upstream
    assert isinstance(above, Absent)
    assert "no tree of devices" in above.reason
    assert isinstance(facts.path_link(GPU), Absent)


def test_a_link_that_leads_out_of_the_tree_is_not_followed_for_the_path(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "0000:00:01.0" / GPU
    outside.mkdir(parents=True)
    (outside / "class").write_text("0x030200\n")
    bus = tmp_path / "sys" / "bus" / "pci" / "devices"
    bus.mkdir(parents=True)
    (bus / GPU).symlink_to(outside)

    facts = sysfs.read_pci(tmp_path / "sys")

    assert isinstance(facts.gpus[0].upstream, Absent)


@pytest.mark.parametrize(
    ("files", "kind", "says"),
    [
        ({"current_link_width": "63\n"}, AbsenceKind.DEVICE_LOST, "does not answer"),
        ({"current_link_width": "0\n"}, AbsenceKind.UNREADABLE, "reads 0"),
        ({"current_link_width": ""}, AbsenceKind.UNREADABLE, "nothing"),
    ],
)
def test_a_width_that_no_link_has_is_no_number(
    tmp_path: Path, files: dict[str, str], kind: AbsenceKind, says: str
) -> None:
    (gpu,) = sysfs.read_pci(tree(tmp_path, {GPU: gpu_files(**files)})).gpus

    assert isinstance(gpu.now.width, Absent)
    assert gpu.now.width.kind is kind
    assert says in gpu.now.width.reason
    assert gpu.answers is (kind is not AbsenceKind.DEVICE_LOST)


def test_a_speed_that_is_unknown_is_absent(tmp_path: Path) -> None:
    (gpu,) = sysfs.read_pci(tree(tmp_path, {GPU: gpu_files(current_link_speed="Unknown\n")})).gpus

    assert isinstance(gpu.now.rate, Absent)
    assert "'Unknown'" in gpu.now.rate.reason
    assert isinstance(gpu.now.bandwidth, Absent)


def test_what_the_kernel_does_not_offer_is_absent_and_not_zero(tmp_path: Path) -> None:
    (gpu,) = sysfs.read_pci(tree(tmp_path, {GPU: {"class": "0x030000\n", "numa_node": "-1\n"}})).gpus

    values = [getattr(gpu, field.name) for field in dataclasses.fields(gpu)]
    assert not any(isinstance(value, Quantity) for value in values)
    assert all(isinstance(gpu.errors.total(kind), Absent) for kind in ("correctable", "nonfatal", "fatal"))
    assert isinstance(gpu.numa_node, Absent)
    assert "assigns none" in gpu.numa_node.reason


@pytest.mark.parametrize("folder", ["", "aer/"])
def test_error_counters_are_read_from_both_places(tmp_path: Path, folder: str) -> None:
    counters = {
        f"{folder}aer_dev_correctable": "RxErr 0\nReceiver Error 2\nBadTLP 5\nTOTAL_ERR_COR 7\n",
        f"{folder}aer_dev_fatal": "Undefined 0\nDLP 1\n",
    }
    (gpu,) = sysfs.read_pci(tree(tmp_path, {GPU: gpu_files(**counters)})).gpus

    assert gpu.errors.total("correctable") == Quantity(7, Unit.COUNT)
    assert gpu.errors.total("fatal") == Quantity(1, Unit.COUNT)
    assert isinstance(gpu.errors.correctable, tuple)
    assert ("Receiver Error", Quantity(2, Unit.COUNT)) in gpu.errors.correctable
    assert isinstance(gpu.errors.total("nonfatal"), Absent)


def test_sizes_of_a_resizable_window_are_bits_of_mebibytes(tmp_path: Path) -> None:
    (gpu,) = sysfs.read_pci(tree(tmp_path, {GPU: gpu_files(resource1_resize="0000000000003fc0\n")})).gpus

    assert isinstance(gpu.resizable, tuple)
    (window,) = gpu.resizable
    assert (window.index, window.current) == (1, Quantity(8 << 30, Unit.BYTE))
    assert (window.sizes[0], window.sizes[-1]) == (64 << 20, 8 << 30)


def test_a_tree_without_a_pci_bus_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(sysfs.SysfsError, match="cannot be listed"):
        sysfs.read_pci(tmp_path)


def test_the_saved_path_runs_at_the_speed_of_the_port_above_the_gpu() -> None:
    facts = _sysfs_copy.parse_copy(saved.text("links/sysfs_link_files_path.txt"))

    gpu = facts.find("22:00.0")
    assert not isinstance(gpu, Absent)
    assert gpu.now.generation == Quantity(4, Unit.COUNT)
    narrow = found(facts.path_link("22:00.0"))
    assert narrow.link.generation == Quantity(3, Unit.COUNT)
    assert narrow.link.width == Quantity(16, Unit.COUNT)
    assert narrow.at == "0000:20:00.0"
    assert "does not show which port" in narrow.assumed
    assert found(facts.path_link("22:00.0", maximum=True)).link.generation == Quantity(4, Unit.COUNT)


def test_the_saved_windows_are_chosen_by_flags_and_size() -> None:
    (device,) = _sysfs_copy.parse_copy(saved.text("links/sysfs_resource_8g_rebar.txt")).devices

    assert isinstance(device.bars, tuple)
    assert [(bar.index, bar.size, bar.memory) for bar in device.bars] == [
        (0, 16 << 20, True),
        (1, 8 << 30, True),
        (3, 32 << 20, True),
        (5, 128, False),
    ]
    assert isinstance(device.framebuffer, Bar)
    assert (device.framebuffer.index, device.framebuffer.wide, device.framebuffer.beyond_legacy) == (1, True, True)
    assert isinstance(device.now.width, Absent)


def test_paths_that_hold_the_tree_are_not_assumed() -> None:
    base = f"/sys/devices/pci0000:00/{ROOT_PORT}"
    text = (
        f"{base}/current_link_speed:8.0 GT/s PCIe\n{base}/current_link_width:16\n"
        f"{base}/{GPU}/class:0x030000\n{base}/{GPU}/current_link_speed:16.0 GT/s PCIe\n"
        f"{base}/{GPU}/current_link_width:16\n"
    )

    narrow = found(_sysfs_copy.parse_copy(text).path_link(GPU))

    assert (narrow.at, narrow.assumed) == (ROOT_PORT, "")


def test_eight_gpus_side_by_side_are_not_one_path() -> None:
    text = "".join(
        f"/sys/bus/pci/devices/0000:{bus:02x}:00.0/current_link_width:16\n"
        f"/sys/bus/pci/devices/0000:{bus:02x}:00.0/current_link_speed:16.0 GT/s PCIe\n"
        for bus in range(0x10, 0x90, 0x10)
    )

    facts = _sysfs_copy.parse_copy(text)

    assert (len(facts.devices), facts.assumed) == (8, "")
    assert isinstance(facts.path_link("0000:20:00.0"), Absent)


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "==> /etc/passwd <==\nroot", "0x0 0x0\n", "1 2 3\n"])
def test_other_text_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(sysfs.SysfsError) as refused:
        _sysfs_copy.parse_copy(text)

    assert "\n" not in str(refused.value)


fragments = st.sampled_from(
    [
        "==> ",
        " <==",
        "/sys/bus/pci/devices/",
        "0000:20:00.0",
        "/resource",
        "/numa_node",
        ":",
        "\n",
        "0x",
        "ffff",
        " ",
        "²",
    ]
)


@given(st.lists(fragments | st.text(max_size=8), max_size=40).map("".join))
def test_no_text_raises_anything_else(text: str) -> None:
    for parse in (_sysfs_copy.parse_copy, sysfs.parse_resource, sysfs.parse_errors):
        try:
            parse(text)
        except sysfs.SysfsError as error:
            assert str(error)
