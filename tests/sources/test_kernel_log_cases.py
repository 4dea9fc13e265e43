"""Saved logs lead to the conclusions that a person who knows them would draw: which card, which fault, what to do."""

from __future__ import annotations

from datetime import datetime

import pytest

from mats.facts import RecoveryAction
from mats.model import Absent, Quantity, Unit
from mats.sources._events import AerEvent, BarEvent, DriverEvent, LinkLimitEvent, SwitchEvent, XidEvent
from mats.sources._incident_words import words
from mats.sources._incidents import Incident, Kind, group
from mats.sources._outside_logs import lost_handles, parse_controller_log, parse_windows_event
from mats.sources._xid_details import nvlink5
from mats.sources._xid_table import Action
from mats.sources.kernel_log import parse_kernel_log

from . import saved


def incidents(name: str, now: datetime | None = None) -> tuple[Incident, ...]:
    return group(parse_kernel_log(saved.text(name), now=now))


def test_a_gpu_off_the_bus_takes_the_switches_with_it_as_one_fault() -> None:
    (incident,) = incidents("health/dmesg_xid79_then_sxid.txt")

    assert (incident.kind, incident.pci, incident.action) == (Kind.OFF_BUS, "0000:4e:00.0", Action.REBOOT)
    assert isinstance(incident.root, XidEvent)
    assert incident.root.number == 79
    assert incident.related == ("0000:0b:00.0", "0000:09:00.0")
    switches = [event for event in incident.events if isinstance(event, SwitchEvent)]
    assert [(event.link, event.fatal) for event in switches] == [(12, True), (31, True)]
    assert "power and seating" in words(incident).advice


def test_a_non_fatal_event_of_a_switch_is_a_note() -> None:
    (incident,) = incidents("health/dmesg_x_iso_sxid_nonfatal.txt")

    assert (incident.kind, incident.pci, incident.action) == (Kind.SWITCH, "0000:c1:00.0", Action.MONITOR)
    (event,) = incident.events
    assert isinstance(event, SwitchEvent)
    assert (event.number, event.fatal, event.link, event.severity) == (22013, False, 21, 0)
    assert not isinstance(event.data, Absent)
    assert words(incident).advice.startswith("Nothing to do by itself")


def test_a_page_fault_then_a_halted_controller_is_the_controllers_incident() -> None:
    (incident,) = incidents("health/dmesg_xid31_62_45.txt")

    assert (incident.kind, incident.pci, incident.action) == (Kind.CONTROLLER, "0000:65:00.0", Action.RESET)
    assert isinstance(incident.root, XidEvent)
    assert isinstance(incident.serious, XidEvent)
    assert (incident.root.number, incident.root.pid, incident.serious.number) == (31, 20417, 62)
    assert incident.serious.stamp.since(incident.root.stamp) == pytest.approx(27.543702)
    assert (len(incident.events), incident.xids) == (6, (31, 62, 45))


def test_three_gpus_have_three_incidents_with_their_ages() -> None:
    application, memory, fault = incidents("health/dmesg_T_three_gpus.txt", now=datetime(2026, 1, 21, 11, 57, 30))

    assert (application.kind, application.pci, len(application.events)) == (Kind.APPLICATION, "0000:00:06.0", 2)
    assert (memory.kind, memory.pci, memory.xids, memory.action) == (
        Kind.MEMORY,
        "0000:00:0b.0",
        (94,),
        Action.APPLICATION,
    )
    assert "see whether a row replacement is pending on this GPU" in words(memory).advice
    assert (fault.kind, fault.pci, fault.age) == (Kind.APPLICATION, "0000:00:0a.0", Quantity(86400.0, Unit.SECOND))
    assert fault.age_from == "until the log was taken"
    assert isinstance(application.age, Quantity)
    assert application.age.value > 6 * 86400


def test_a_lost_gpu_is_named_the_same_by_the_listing_and_by_the_log() -> None:
    name = "health/smi_dmesg_xid79_handle.txt"
    (incident,) = incidents(name)
    (lost,) = lost_handles(saved.text(name))

    assert (incident.kind, incident.pci, incident.action) == (Kind.OFF_BUS, "0000:db:00.0", Action.REBOOT)
    assert (lost.pci, lost.reason) == (incident.pci, "Unknown Error")
    advice = words(incident).advice
    assert advice.index("Save nvidia-bug-report before the driver is unloaded") < advice.index("power cycle")
    assert "Other GPUs of the machine may be fine" in advice


def test_a_double_bit_error_and_its_remapping_are_one_memory_incident() -> None:
    (incident,) = incidents("health/syslog_xid48_63.txt")

    assert (incident.kind, incident.pci, incident.action) == (Kind.MEMORY, "0000:20:1d.0", Action.RESET)
    assert incident.xids == (48, 63)
    text = words(incident)
    assert "reset it, which activates a pending row replacement" in text.advice
    assert any("in DRAM" in line for line in text.explains)


def test_the_drivers_own_recovery_actions() -> None:
    reset, lost = incidents("health/xid154_recovery_actions.txt")

    assert (reset.pci, reset.action) == ("0000:c3:00.0", Action.RESET)
    assert not isinstance(reset.recovery, Absent)
    assert (reset.recovery.number, reset.recovery.advice) == (1, RecoveryAction.RESET)
    assert (lost.kind, lost.pci, lost.action, lost.xids) == (Kind.OFF_BUS, "0000:5d:00.0", Action.REBOOT, (79, 154))
    assert not isinstance(lost.recovery, Absent)
    assert (lost.recovery.number, lost.recovery.advice) == (2, RecoveryAction.REBOOT)


def test_a_fatal_nvlink_event_is_serious_and_a_known_non_fatal_one_is_not() -> None:
    serious, ignored = incidents("health/nvlink5_xid149_145.txt")

    assert (serious.pci, serious.action) == ("0009:01:00.0", Action.RESET)
    assert isinstance(serious.root, XidEvent)
    decoded = nvlink5(149, serious.root.text)
    assert not isinstance(decoded, Absent)
    assert (decoded.link, decoded.code, decoded.fatal) == (6, 37, True)
    assert (ignored.pci, ignored.action) == ("0008:01:00.0", Action.INFO)
    assert isinstance(ignored.root, XidEvent)
    decoded = nvlink5(145, ignored.root.text)
    assert not isinstance(decoded, Absent)
    assert (decoded.link, decoded.unit, decoded.status, decoded.fatal) == (4, "RLW_RXPIPE", 8, False)


def test_two_failed_starts_are_one_fault_and_the_controller_saw_the_bus_before() -> None:
    name = "health/ipmi_sel_and_rminit.txt"
    (incident,) = incidents(name)
    (entry,) = parse_controller_log(saved.text(name))

    assert (incident.kind, incident.pci, incident.action) == (Kind.INIT, "0000:21:00.0", Action.REBOOT)
    starts = [event for event in incident.events if isinstance(event, DriverEvent)]
    assert [event.detail("minor") for event in starts if isinstance(event.detail("minor"), str)] == ["1", "1"]
    assert words(incident).advice.startswith("PCIe or hardware is suspected")
    assert (entry.text, entry.asserted, entry.zone) == ("Bus Correctable error ()", True, "CST")
    assert entry.about_bus
    assert isinstance(entry.wall, datetime)
    assert isinstance(incident.root.stamp.wall, datetime)
    assert (incident.root.stamp.wall.date() - entry.wall.date()).days == 2


def test_a_bar_without_room_and_a_narrow_port() -> None:
    name = "health/dmesg_bar0_no_space.txt"
    window, limit = incidents(name)

    assert (window.kind, window.pci, window.action) == (Kind.BAR, "0000:05:00.0", Action.CHECK)
    assert words(window).explains == ("BAR0 (16 MiB) could not be placed",)
    assert "driver will not start" in words(window).advice
    sizes = {
        event.bar: event.size for event in parse_kernel_log(saved.text(name)).events if isinstance(event, BarEvent)
    }
    assert sizes == {0: 16 << 20, 1: 64 << 30}
    assert isinstance(limit.root, LinkLimitEvent)
    assert (limit.root.limiter, limit.root.width, limit.root.capable_width) == ("0000:00:03.0", 8, 16)
    assert (limit.root.available * 8 / 1e9, limit.root.capable * 8 / 1e9) == (126.024, 252.048)


def test_gsp_timeouts_are_one_incident_whose_lines_do_not_count() -> None:
    (incident,) = incidents("health/dmesg_xid119_gsp_rpc.log")

    assert (incident.kind, incident.pci, incident.action) == (Kind.GSP, "0000:9b:00.0", Action.RESET)
    assert sum(isinstance(event, XidEvent) for event in incident.events) == 5
    assert not incident.count_known
    assert incident.root.stamp.wall == datetime(2025, 2, 23, 16, 24, 18)
    assert {name for _, name in incident.victims} == {"nvidia-smi", "cache_mgr_main", "gpud"}
    text = words(incident)
    assert "are victims" in text.advice
    assert any("likely needs to be reset" in line for line in text.explains)


def test_corrected_pcie_errors_on_a_port_do_not_name_a_gpu() -> None:
    (incident,) = incidents("links/syslog_aer_correctable.txt")

    assert (incident.kind, incident.pci, incident.action) == (Kind.PCIE, "0000:00:01.1", Action.MONITOR)
    reports = [event for event in incident.events if isinstance(event, AerEvent)]
    assert [event.bits for event in reports] == [("BadDLLP",), ("Timeout",)]
    assert reports[0].source == "0000:00:00.0"
    text = words(incident)
    assert any("which is not an NVIDIA GPU" in line for line in text.explains)
    assert "must come from the PCI tree" in text.advice
    assert "link quality" in text.advice


def test_an_event_of_the_windows_driver_names_a_card_and_no_cause() -> None:
    event = parse_windows_event(saved.text("health/windows_event_153.txt"))

    assert (event.number, event.pci, event.device) == (153, "0000:09:00.0", "Video5")


def test_gsp_timeouts_in_a_log_of_our_own() -> None:
    (incident,) = group(parse_kernel_log((saved.OWN.parent / "logs" / "gsp_timeouts.log").read_text()))

    assert (incident.kind, incident.pci, incident.action) == (Kind.GSP, "0000:c1:00.0", Action.RESET)
    assert (incident.count_known, incident.victims) == (False, ((4711, "monitor"), (5200, "train")))
