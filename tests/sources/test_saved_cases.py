"""Every saved output of the collection, opened as a user names it: the picture holds what its conclusion rests on."""

from __future__ import annotations

import re

import pytest

from mats.facts import LogFacts, MachineFacts, PathLink, PciDevice, endpoints, narrowest, path_of
from mats.model import Absent, Quantity
from mats.source import NothingThere
from mats.sources.saved import open_source

from . import saved

MIB = 1 << 20
Expected = dict[str, object]


def read(name: str) -> MachineFacts:
    return open_source((saved.path(name),)).read()


def at(thing: object, path: str) -> object:
    """What stands at ``gpus[6].recovery.action``: of a quantity its number, of an absent value "~kind"."""
    for name, place in re.findall(r"(\w+)|\[(-?\d+)\]", path):
        if isinstance(thing, Absent):
            break
        thing = getattr(thing, name) if name else thing[int(place)]  # type: ignore[index]
    if isinstance(thing, Absent):
        return f"~{thing.kind.value}"
    return thing.value if isinstance(thing, Quantity) else thing


CASES: dict[str, Expected] = {
    "health/smi_xml_t4_v13.xml": {
        "driver": "595.91.07",
        "virtualisation": "Pass-Through",
        "gpus[0].ecc.enabled": True,
        "gpus[0].ecc.uncorrected": 0,
        "gpus[0].retired.single_bit": 0,
        "gpus[0].retired.pending": False,
        "gpus[0].remap.pending": "~not_supported",
        "gpus[0].window.total": 256 * MIB,
    },
    "health/smi_xml_a100_mig_v11.xml": {
        "gpus[0].mig.enabled": True,
        "gpus[0].mig.instances[0].gpu_instance": 1,
        "gpus[0].mig.instances[1].gpu_instance": 2,
        "gpus[0].mig.instances[1].memory.total": 19968 * MIB,
        "gpus[0].mig.instances[1].memory.used": 19 * MIB,
        "gpus[0].busy": "~not_supported",
    },
    "health/smi_xml_rtx4090_v12.xml": {
        "gpus[0].temperature": 40,
        "gpus[0].memory.used": 2 * MIB,
        "gpus[0].ecc.enabled": False,
        "gpus[0].ecc.uncorrected": "~not_supported",
        "gpus[0].pcie.generation": 1,
        "gpus[0].pcie.width": 16,
        "gpus[0].pcie.generation_host": 3,
        "gpus[0].pcie.generation_device": 4,
        "gpus[0].pcie.loaded": "~not_tested",
        "gpus[0].window.total": 256 * MIB,
    },
    "health/smi_table_v100x8_inforom.txt": {
        "gpus[7].inforom.corrupted": True,
        "gpus[7].pci": "0008:00:00.0",
        "gpus[6].inforom.corrupted": "~not_tested",
        "gpus[7].ecc.uncorrected": 0,
    },
    "health/smi_q_a100x8.txt": {
        "attached": 8,
        "gpus[7].index": 7,
        "gpus[7].ecc.enabled": True,
        "gpus[7].remap.banks.full": 640,
        "gpus[7].remap.failed": 0,
        "gpus[7].pcie.generation": 4,
        "gpus[7].persistence": False,
    },
    "health/smi_q_retired_pages_x8.txt": {
        "gpus[0].retired.single_bit": 60,
        "gpus[0].retired.double_bit": 5,
        "gpus[1].retired.pending": True,
        "gpus[2].retired.pending": False,
        "gpus[7].retired.double_bit": 56,
        "gpus[0].ecc.uncorrected": "~not_found",
    },
    "health/smi_csv_gb10.csv": {
        "gpus[0].busy": 0.14,
        "gpus[0].temperature": 44,
        "gpus[0].memory.used": "~not_supported",
        "notes[0]": "the CSV of nvidia-smi holds several samples: the last of each GPU is taken",
    },
    "health/smi_table_gb10.txt": {
        "driver": "580.105.08",
        "cuda": "13.0",
        "gpus[0].memory.total": "~not_supported",
        "gpus[0].remap.pending": "~not_found",
    },
    "health/smi_table_mig.txt": {
        "gpus[0].mig.instances[1].gpu_instance": 5,
        "gpus[0].mig.instances[1].multiprocessors": 14,
        "gpus[1].index": 3,
        "gpus[1].mig.instances[0].sram_uncorrected": 0,
        "gpus[0].remap.pending": "~not_found",
    },
    "health/smi_table_err_power.txt": {
        "gpus[0].index": 3,
        "gpus[0].power": "~unreadable",
        "gpus[0].power_limits.limit": 250,
        "gpus[0].ecc.uncorrected": 0,
    },
    "health/smi_q_ecc_sram.txt": {
        "gpus[0].ecc.volatile.sram_uncorrected": 2,
        "gpus[0].ecc.aggregate.sram_uncorrected": 7,
        "gpus[0].ecc.volatile.sram_parity": "~not_found",
        "gpus[0].ecc.sram_threshold_exceeded": "~not_found",
    },
    "health/smi_q_remap_pending.txt": {
        "gpus[0].remap.correctable": 2,
        "gpus[0].remap.pending": 1,
        "gpus[0].remap.failed": 0,
        "gpus[0].remap.banks.high": 2,
        "gpus[0].retired.pending": "~not_supported",
    },
    "health/smi_driver_mismatch.txt": {
        "kernel_module": "570.133.07",
        "library": "570.172",
        "nvml_failure": "Failed to initialize NVML: Driver/library version mismatch",
        "gpus": "~unreadable",
    },
    "health/smi_dmesg_xid79_handle.txt": {
        "gpus[0].pci": "0000:db:00.0",
        "gpus[0].answers": False,
        "gpus[0].uuid": "GPU-000000a7-0000-0000-0000-0000000000a7",  # which only the log tells
        "log.incidents[0].kind": "off_bus",
        "log.incidents[0].xids": (79,),
    },
    "health/recovery_action_dmon_health.txt": {
        "gpus[5].recovery.action": "none",
        "gpus[6].recovery.action": "reset the GPU",
        "claims[6].text": "Xid 119",
        "claims[6].gpu": 6,
        "claims[6].status": "warn",
        "claims[8].tool": "dcgmi health",
        "claims[8].status": "pass",
    },
    "health/dmesg_xid119_gsp_rpc.log": {
        "log.incidents[0].kind": "gsp",
        "log.incidents[0].pci": "0000:9b:00.0",
        "log.incidents[0].grade": "reset",
        "log.incidents[0].count_known": False,
    },
    "health/dmesg_xid79_then_sxid.txt": {
        "log.incidents[0].kind": "off_bus",
        "log.incidents[0].pci": "0000:4e:00.0",
        "log.incidents[0].related": ("0000:0b:00.0", "0000:09:00.0"),
        "log.incidents[0].grade": "reboot",
    },
    "health/dmesg_x_iso_sxid_nonfatal.txt": {"log.incidents[0].kind": "switch", "log.incidents[0].grade": "watch"},
    "health/dmesg_xid31_62_45.txt": {
        "log.incidents[0].kind": "controller",
        "log.incidents[0].xids": (31, 62, 45),
        "log.incidents[0].grade": "reset",
    },
    "health/dmesg_T_three_gpus.txt": {
        "log.incidents[0].pci": "0000:00:06.0",
        "log.incidents[0].grade": "application",
        "log.incidents[1].xids": (94,),
        "log.incidents[1].age": 294524,
        "log.incidents[2].pci": "0000:00:0a.0",
    },
    "health/syslog_xid48_63.txt": {
        "log.incidents[0].kind": "memory",
        "log.incidents[0].xids": (48, 63),
        "log.incidents[0].pci": "0000:20:1d.0",
    },
    "health/xid154_recovery_actions.txt": {
        "log.incidents[0].grade": "reset",
        "log.incidents[1].kind": "off_bus",
        "log.incidents[1].grade": "reboot",
    },
    "health/nvlink5_xid149_145.txt": {
        "log.incidents[0].grade": "reset",
        "log.incidents[0].pci": "0009:01:00.0",
        "log.incidents[1].grade": "note",
    },
    "health/ipmi_sel_and_rminit.txt": {
        "log.incidents[0].kind": "init",
        "log.incidents[0].pci": "0000:21:00.0",
        "claims[0].tool": "management controller",
        "claims[0].status": "warn",
    },
    "health/dmesg_bar0_no_space.txt": {
        "log.incidents[0].kind": "bar",
        "log.incidents[0].pci": "0000:05:00.0",
        "log.incidents[1].kind": "link_limit",
        "log.incidents[1].grade": "watch",
    },
    "health/dcgm3_diag_x4.json": {"claims[0].status": "pass", "partial": ""},
    "health/dcgm4_text_table.txt": {
        "driver": "580.95.05",
        "claims[0].what": "software",
        "claims[1].gpu": 1,
        "claims[2].what": "memory",
    },
    "health/gpustat_line_v100.txt": {
        "gpus[0].index": 2,
        "gpus[0].memory.used": "~not_found",
        "gpus[0].memory.used_with_reserved": 308 * MIB,
    },
    "health/nvidia_bug_report_head.txt": {
        "gpus[0].pci": "0000:02:00.0",
        "gpus[0].asleep": True,
        "gpus[0].answers": "~not_tested",
        "host.kernel": "6.12.10-200.fc41.x86_64",
        "host.name": "node03",
    },
    "health/windows_event_153.txt": {
        "claims[0].pci": "0000:09:00.0",
        "claims[0].what": "nvlddmkm event 153",
        "claims[0].gpu": "~not_found",
    },
    "links/dcgmi_nvlink_status.txt": {
        "gpus[2].nvlink.active": 0,
        "gpus[3].nvlink.active": 12,
    },
    "links/nvlink_e_and_s_h100.txt": {
        "gpus[0].nvlink.active": 18,
        "gpus[0].nvlink.links[9].errors[2][1]": 3,
        "gpus[0].nvlink.links[17].speed": 26.562e9,
    },
    "links/nvlink_s_a100_all_inactive.txt": {"gpus[0].index": 6, "gpus[0].nvlink.active": 0},
    "links/nvlink_s_v100_two_inactive.txt": {
        "gpus[0].index": 5,
        "gpus[0].nvlink.active": 4,
        "gpus[0].nvlink.links[4].active": False,
    },
    "links/topo_m_a40x4_nv4_pairs.txt": {
        "pairs[0].connection": "NV4",
        "pairs[1].connection": "SYS",
        "gpus[3].numa": 1,
    },
    "links/lspci_a5000_idle_bar256m.txt": {
        "gpus[0].pci": "0000:21:00.0",
        "gpus[0].pcie.generation": 1,
        "gpus[0].pcie.generation_device": 4,
        "gpus[0].window.total": 256 * MIB,
        "gpus[0].answers": "~not_tested",
        "devices[0].resizable[1].current": 256 * MIB,
    },
    "links/lspci_gtx1080_idle_no_rebar.txt": {
        "gpus[0].pcie.generation_device": 3,
        "gpus[0].window.total": 256 * MIB,
        "devices[0].resizable": "~not_supported",
    },
    "links/sysfs_link_files_path.txt": {"devices[0].now.generation": 3, "devices[1].now.generation": 4},
    "links/sysfs_resource_8g_rebar.txt": {"devices[0].bars[1].size": 8 << 30, "devices[0].address": "?"},
    "links/syslog_aer_correctable.txt": {
        "log.incidents[0].kind": "pcie",
        "log.incidents[0].pci": "0000:00:01.1",
        "log.incidents[0].grade": "watch",
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_saved_output_becomes_the_picture_that_its_conclusion_rests_on(name: str) -> None:
    machine = read(name)

    seen = {path: at(machine, path) for path in CASES[name]}

    assert seen == CASES[name]


@pytest.mark.parametrize(
    ("name", "incidents"),
    [
        ("health/dmesg_xid79_then_sxid.txt", 1),
        ("health/dmesg_xid119_gsp_rpc.log", 1),
        ("health/dmesg_xid31_62_45.txt", 1),
        ("health/syslog_xid48_63.txt", 1),
        ("health/ipmi_sel_and_rminit.txt", 1),
        ("health/dmesg_x_iso_sxid_nonfatal.txt", 1),
        ("health/dmesg_T_three_gpus.txt", 3),
    ],
)
def test_one_fault_is_one_incident_and_carries_the_lines_of_the_log(name: str, incidents: int) -> None:
    text = saved.text(name)

    log = read(name).log

    assert isinstance(log, LogFacts)
    assert len(log.incidents) == incidents
    assert all(line in text for incident in log.incidents for line in incident.lines)
    assert all(incident.lines for incident in log.incidents)


@pytest.mark.parametrize("name", [name for name in CASES if "head" in name or name.startswith("health/dcgm4")])
def test_a_file_that_was_cut_says_so(name: str) -> None:
    machine = read(name)

    assert "ends without its closing line" in machine.partial or "has no last line" in machine.partial


def test_a_skipped_test_of_another_tool_is_not_a_passed_one() -> None:
    claims = read("health/dcgm3_diag_x4.json").claims

    stress = {at(claim, "gpu"): claim.status.value for claim in claims if claim.what == "sm_stress"}
    memory = {at(claim, "gpu"): claim.status.value for claim in claims if claim.what == "memory"}
    assert stress == {0: "fail", 1: "pass", 2: "fail", 3: "fail"}
    assert memory[0] == "skip"


def test_the_path_of_copied_link_files_is_as_narrow_as_its_narrowest_port_and_is_an_assumption() -> None:
    machine = read("links/sysfs_link_files_path.txt")

    assert isinstance(machine.devices, tuple)
    (card,) = endpoints(machine.devices)
    path = path_of(machine.devices, card.address)
    assert card.address == "0000:22:00.0" and isinstance(path, tuple)
    link = narrowest(path, assumed=machine.devices_assumed)
    assert isinstance(link, PathLink)
    assert (at(link, "link.generation"), at(link, "link.width"), link.at) == (3, 16, "0000:20:00.0")
    assert "taken as one path" in link.assumed


def test_bar1_of_a_bare_resource_file_is_found_by_its_kind_and_size() -> None:
    machine = read("links/sysfs_resource_8g_rebar.txt")

    assert isinstance(machine.devices, tuple)
    (device,) = machine.devices
    assert isinstance(device, PciDevice) and not isinstance(device.framebuffer, Absent)
    assert (device.framebuffer.index, device.framebuffer.size) == (1, 8 << 30)


@pytest.mark.parametrize(
    "name",
    ["nvbandwidth_v0.10_h100x4.txt", "all_reduce_nv4_pair.txt", "p2p_l40s_x2_pcie4.txt", "nvbandwidth_gen3.json"],
)
def test_health_refuses_results_of_a_speed_test_and_says_what_reads_them(name: str) -> None:
    with pytest.raises(
        NothingThere, match="nothing of the state of a GPU: mats nvlink-test --from reads it"
    ) as refused:
        read(f"links/{name}")

    assert "\n" not in str(refused.value)
