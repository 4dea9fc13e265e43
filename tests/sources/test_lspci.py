"""Saved lspci text of old and new pciutils gives the same picture as sysfs, and says what it could not show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts.pci import Bar, PathLink, PciDevice
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import lspci

from . import saved

TREE = """\
00:01.0 PCI bridge: Intel Corporation Device 460d (prog-if 00 [Normal decode])
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), IntMsgNum 0
\t\tLnkCap:\tPort #2, Speed 32GT/s, Width x8, ASPM L1, Exit Latency L1 <16us
\t\tLnkSta:\tSpeed 16GT/s, Width x8

01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [10de:2204] (rev a1) (prog-if 00 [VGA controller])
\tNUMA node: 1
\tRegion 2: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=32G]
\tCapabilities: [78] Express (v2) Endpoint, IntMsgNum 0
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)
\tCapabilities: [100 v2] Advanced Error Reporting
\t\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO+ CmpltAbrt-
\t\t\tECRC- UnsupReq+
\t\tUEMsk:\tDLP+ SDES+
\t\tCESta:\tRxErr- BadTLP+

01:00.1 Audio device [0403]: NVIDIA Corporation GA102 High Definition Audio Controller [10de:1aef] (rev a1)
\tCapabilities: <access denied>
"""


def only(name: str) -> PciDevice:
    (device,) = lspci.parse_lspci(saved.text(name)).devices
    return device


def test_an_idle_a5000_has_its_full_width_and_a_small_window_that_could_be_larger() -> None:
    gpu = only("links/lspci_a5000_idle_bar256m.txt")

    assert (gpu.address, gpu.vendor, gpu.driver, gpu.is_gpu) == ("0000:21:00.0", 0x10DE, "nvidia", True)
    assert gpu.now.rate == Quantity(2.5e9, Unit.HERTZ)
    assert gpu.now.width == gpu.maximum.width == Quantity(16, Unit.COUNT)
    assert gpu.maximum.generation == Quantity(4, Unit.COUNT)
    assert gpu.marks == ("speed: downgraded", "width: ok")
    assert isinstance(gpu.framebuffer, Bar)
    assert (gpu.framebuffer.index, gpu.framebuffer.size) == (1, 256 << 20)
    assert isinstance(gpu.resizable, tuple)
    window = next(each for each in gpu.resizable if each.index == gpu.framebuffer.index)
    assert (window.current, max(window.sizes)) == (Quantity(256 << 20, Unit.BYTE), 32 << 30)
    assert gpu.error_flags == ()


def test_an_idle_gtx1080_of_newer_pciutils_has_no_resizable_window() -> None:
    gpu = only("links/lspci_gtx1080_idle_no_rebar.txt")

    assert gpu.now.generation == Quantity(1, Unit.COUNT)
    assert gpu.maximum.generation == Quantity(3, Unit.COUNT)
    assert gpu.now.width == Quantity(16, Unit.COUNT)
    assert gpu.marks == ("speed: downgraded",)
    assert isinstance(gpu.framebuffer, Bar)
    assert gpu.framebuffer.size == 256 << 20
    assert isinstance(gpu.resizable, Absent)
    assert gpu.resizable.kind is AbsenceKind.NOT_SUPPORTED
    assert gpu.error_flags == ()


def test_bridges_give_the_path_and_the_slot_is_told_from_the_card() -> None:
    facts = lspci.parse_lspci(TREE)

    (gpu,) = facts.gpus
    assert (gpu.vendor, gpu.device, gpu.class_code) == (0x10DE, 0x2204, 0x0300)
    assert gpu.upstream == ("0000:00:01.0",)
    assert gpu.numa_node == Quantity(1, Unit.COUNT)
    assert gpu.error_flags == ("UESta.CmpltTO", "UESta.UnsupReq", "CESta.BadTLP")
    widest = facts.path_link("01:00.0", maximum=True)
    assert isinstance(widest, PathLink)
    assert (widest.at, widest.link.width) == ("0000:01:00.0", Quantity(16, Unit.COUNT))


def test_the_window_is_found_by_its_kind_and_may_be_without_a_place() -> None:
    (gpu,) = lspci.parse_lspci(TREE).gpus

    assert isinstance(gpu.framebuffer, Bar)
    assert (gpu.framebuffer.index, gpu.framebuffer.size, gpu.framebuffer.placed) == (2, 32 << 30, False)


def test_capabilities_that_were_denied_are_no_permission_and_not_missing_hardware() -> None:
    audio = lspci.parse_lspci(TREE).devices[2]

    assert not audio.is_gpu
    for value in (audio.now.rate, audio.now.width, audio.resizable, audio.error_flags):
        assert isinstance(value, Absent)
        assert value.kind is AbsenceKind.NO_PERMISSION


@pytest.mark.parametrize("sign", ["(rev ff) (prog-if ff)", "(rev a1)\n\t!!! Unknown header type 7f"])
def test_a_device_that_reads_as_all_ones_does_not_answer(sign: str) -> None:
    (gpu,) = lspci.parse_lspci(f"01:00.0 VGA compatible controller: NVIDIA Corporation AD102 {sign}\n").devices

    assert not gpu.answers
    assert isinstance(gpu.now.width, Absent)


def test_a_card_whose_capability_follows_the_slot_keeps_what_it_could_do() -> None:
    text = TREE.replace(", ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s, Width x8 (d", "\n\t\tLnkSta:\tSpeed 16GT/s, Width x8 (d")
    text += "\n02:00.0 3D controller: NVIDIA Corporation X\n\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16\n"
    text += "\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s, Crosslink-\n"

    assert lspci.parse_lspci(text).devices[-1].marks == ("supported speeds reach 16GT/s",)


def test_text_of_another_tool_is_refused() -> None:
    with pytest.raises(lspci.LspciError, match="no line"):
        lspci.parse_lspci("NVRM: Xid (PCI:0000:01:00): 79\n")


PIECES = (
    *("01:00.0 VGA compatible controller: NVIDIA X\n", "\tLnkSta: Speed ", "9GT/s", ", Width x0", "\n\n"),
    *("\tBus: primary=01, secondary=01,\n", "\tRegion 9: Memory at ", "[size=99T]", "Physical Resizable BAR\n"),
    *("\tBAR 1: current size: 1MB, supported:", "\tUESta: A+\n"),
)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30).map("".join))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        facts = lspci.parse_lspci(text)
    except lspci.LspciError:
        return
    for device in facts.devices:
        assert device.framebuffer is not None
        facts.path_link(device.address)
