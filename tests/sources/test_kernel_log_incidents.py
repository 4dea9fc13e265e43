"""Lines that have one cause become one incident; lines that only look alike stay apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mats.facts import RecoveryAction
from mats.model import Absent, Quantity, Unit
from mats.sources._events import XidEvent
from mats.sources._incident_words import words
from mats.sources._incidents import Incident, Kind, group
from mats.sources._xid_details import EccPlace, RowRemap, ecc_place, nvlink5, recovery, row_remap
from mats.sources._xid_table import Action
from mats.sources.kernel_log import parse_kernel_log

DBE = "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 9"


def line(second: float, number: int, text: str = "x", gpu: str = "4e") -> str:
    return f"[{second:13.6f}] NVRM: Xid (PCI:0000:{gpu}:00): {number}, {text}\n"


def grouped(text: str, **taken: float) -> tuple[Incident, ...]:
    return group(parse_kernel_log(text, **taken))  # type: ignore[arg-type]


def shape(text: str) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(incident.kind, incident.xids) for incident in grouped(text)]


def test_the_memory_xids_of_one_gpu_are_one_incident() -> None:
    text = "".join(line(second, number) for second, number in enumerate((48, 171, 63, 94, 95, 64, 172), start=10))

    (incident,) = grouped(text)

    assert (incident.kind, incident.xids) == (Kind.MEMORY, (48, 171, 63, 94, 95, 64, 172))
    assert incident.action is Action.RESET


def test_memory_errors_of_two_gpus_or_of_another_hour_stay_apart() -> None:
    text = line(10, 48) + line(11, 63, gpu="5d") + line(5000, 94)

    assert shape(text) == [(Kind.MEMORY, (48,)), (Kind.MEMORY, (63,)), (Kind.MEMORY, (94,))]


@pytest.mark.parametrize(
    ("number", "text", "action"),
    [
        (63, "Row Remapper: New row marked for remapping, reset gpu to activate", Action.MONITOR),
        (63, "Row Remapper: New row (0x12) marked for remapping, reset gpu to activate.", Action.MONITOR),
        (64, "Row Remapper: Error: Row Remapping table is full", Action.SERVICE),
        (64, "All reserved rows for bank are remapped", Action.SERVICE),
        (64, "Attempting to remap a reserved row", Action.RESET),
        (64, "DRAM Retirement failed due to 0x3", Action.RESET),
        (94, "Contained: SM (0x1)", Action.APPLICATION),
        (95, "Uncontained: LTC TAG", Action.RESET),
    ],
)
def test_what_a_memory_xid_asks_for(number: int, text: str, action: Action) -> None:
    (incident,) = grouped(line(1, number, text))

    assert (incident.kind, incident.action) == (Kind.MEMORY, action)


def test_a_row_remapper_that_speaks_without_an_xid_is_a_memory_incident() -> None:
    (incident,) = grouped("[    1.000000] NVRM: GPU 0000:4e:00.0: Row Remapping table is full\n")

    assert (incident.kind, incident.pci, incident.action) == (Kind.MEMORY, "0000:4e:00.0", Action.SERVICE)


def test_a_clean_up_goes_to_the_xid_the_driver_names_however_much_later() -> None:
    text = line(10, 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 06 (0x1 0x0)") + line(500, 31)
    text += line(510, 45, "Ch 0000000c caused by previous Xid 149")

    link, fault = grouped(text)

    assert (link.xids, fault.xids) == ((149, 45), (31,))


def test_a_clean_up_alone_says_that_its_cause_is_missing() -> None:
    (incident,) = grouped(line(10, 45, "Ch 00000010"))

    assert (incident.kind, incident.action) == (Kind.CLEANUP, Action.INFO)
    assert "restart the fabric manager" in words(incident).advice


def test_clean_ups_follow_their_cause_within_a_minute_of_each_other() -> None:
    assert shape(line(10, 62) + line(60, 45) + line(110, 45) + line(400, 45)) == [
        (Kind.CONTROLLER, (62, 45)),
        (Kind.CLEANUP, (45,)),
    ]


def test_a_lost_gpu_its_recovery_action_and_its_other_words_are_one_incident() -> None:
    text = (
        line(10, 79, "GPU has fallen off the bus.")
        + "[   10.100000] NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.\n"
        + line(12, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)")
        + "[   13.000000] nvidia-nvswitch1: SXid (PCI:0000:09:00.0): 20034, Fatal, Link 31 LTSSM Fault Up\n"
        + "[   90.000000] NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
    )

    (incident,) = grouped(text)

    assert (incident.kind, incident.action, len(incident.events)) == (Kind.OFF_BUS, Action.REBOOT, 5)
    assert incident.related == ("0000:09:00.0",)


def test_a_fatal_switch_event_long_after_a_lost_gpu_is_its_own() -> None:
    text = line(10, 79) + "[  900.000000] nvidia-nvswitch1: SXid (PCI:0000:09:00.0): 20034, Fatal, Link 31 LTSSM\n"

    lost, switch = grouped(text)

    assert (lost.kind, switch.kind, switch.action) == (Kind.OFF_BUS, Kind.SWITCH, Action.LINK)


def test_a_gpu_that_fell_off_without_an_xid_is_lost_all_the_same() -> None:
    (incident,) = grouped("NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.\n")

    assert (incident.kind, incident.pci, incident.action, incident.xids) == (
        Kind.OFF_BUS,
        "0000:a1:00.0",
        Action.REBOOT,
        (),
    )


def test_a_burst_of_119_with_120_and_154_is_one_incident() -> None:
    text = "".join(line(second, 119) for second in (10, 16, 22, 190, 1500)) + line(1501, 120)
    text += line(1502, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)")

    (incident,) = grouped(text)

    assert (incident.kind, incident.action, incident.xids) == (Kind.GSP, Action.RESET, (119, 120, 154))
    assert not isinstance(incident.recovery, Absent)
    assert incident.recovery.advice is RecoveryAction.RESET


def test_repeated_program_faults_are_one_application_incident() -> None:
    text = line(10, 13, "pid=1, name=a, x") + line(500, 43, "pid=1, name=a, x") + line(900, 31, "pid=2, name=b, x")

    (incident,) = grouped(text)

    assert (incident.kind, incident.action, incident.xids) == (Kind.APPLICATION, Action.APPLICATION, (13, 43, 31))
    assert incident.victims == ((1, "a"), (2, "b"))


def test_a_program_fault_long_before_a_halted_controller_is_its_own() -> None:
    assert shape(line(10, 31) + line(500, 62)) == [(Kind.APPLICATION, (31,)), (Kind.CONTROLLER, (62,))]


def test_nothing_is_put_together_across_a_restart() -> None:
    text = (
        line(100, 119)
        + "[  101.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30\n"
        + line(102, 119)
    )

    before, after = grouped(text)

    assert (before.restarts_after, after.restarts_after) == (1, 0)
    assert any("started again after it" in sentence for sentence in words(before).explains)


@pytest.mark.parametrize("number", [999, 58, 14, 200, 51])
def test_a_number_nobody_lists_is_unknown_and_kept_with_its_text(number: int) -> None:
    (incident,) = grouped(line(1, number, "BAD_TSG encountered on runlist"))

    assert (incident.kind, incident.action) == (Kind.UNKNOWN, Action.UNKNOWN)
    assert isinstance(incident.root, XidEvent)
    assert incident.root.text == "BAD_TSG encountered on runlist"
    assert "not known to be harmless" in words(incident).advice


def test_an_unknown_recovery_action_is_not_none() -> None:
    (incident,) = grouped(line(1, 154, "GPU recovery action changed from 0x0 (None) to 0x9 (Fly)"))

    assert (incident.kind, incident.action) == (Kind.RECOVERY, Action.UNKNOWN)
    assert "0x9 is not known" in words(incident).advice


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", 1),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", 1),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)", 2),
        ("GPU recovery action changed from 0x0 (None) to 0x2", 2),
        ("GPU recovery action changed from 0x2 (OS Reboot) to 0x0 (None)", 0),
        ("GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX)", 5),
    ],
)
def test_the_number_behind_to_decides(text: str, number: int) -> None:
    found = recovery(text)

    assert not isinstance(found, Absent)
    assert found.number == number


@pytest.mark.parametrize(
    ("number", "text", "place"),
    [
        (48, DBE, EccPlace.DRAM),
        (48, "An uncorrectable double bit error (DBE) has been detected on GPU in the L2 cache", EccPlace.SRAM),
        (48, "", None),
        (171, "", EccPlace.DRAM),
        (172, "", EccPlace.SRAM),
        (94, "Contained: SM (0x1)", None),
    ],
)
def test_the_place_of_an_ecc_error(number: int, text: str, place: EccPlace | None) -> None:
    found = ecc_place(number, text)

    assert (None if isinstance(found, Absent) else found) is place


def test_the_row_remapper_says_pending_or_exhausted() -> None:
    assert row_remap("Attempting to remap a row that is already pending remapping.") is RowRemap.ALREADY_PENDING
    assert row_remap("Dynamic Page Retirement: New page retired, reboot to activate") is RowRemap.PENDING
    assert row_remap("Row Remapper Error: (0x12) - Internal table error") is RowRemap.FAILED
    assert row_remap("Row Remapping table is full") is RowRemap.EXHAUSTED
    assert isinstance(row_remap("x"), Absent)


@pytest.mark.parametrize(
    ("number", "text", "action"),
    [
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 04 (0x0409a0c2 0x00000008)", Action.INFO),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 04 (0x0409a0c2 0x00000010)", Action.DECODE),
        (145, "RLW_RXPIPE Fatal XC0 i0 Link 04 (0x0409a0c2 0x00000008)", Action.RESET),
        (146, "TLW_RX Non-fatal XC1 i3 Link 11", Action.DECODE),
        (150, "garbage", Action.DECODE),
    ],
)
def test_what_cannot_be_decoded_is_said_and_not_guessed(number: int, text: str, action: Action) -> None:
    decoded = nvlink5(number, text)

    assert not isinstance(decoded, Absent)
    assert decoded.action is action
    assert ("not decoded here" in decoded.why) is (action is Action.DECODE)


def test_errors_of_two_links_are_two_incidents() -> None:
    text = line(1, 145, "RLW_RXPIPE Fatal XC0 i0 Link 04 (0x1 0x2)") + line(
        2, 145, "RLW_RXPIPE Fatal XC0 i0 Link 05 (0x1 0x2)"
    )

    assert len(grouped(text)) == 2


def test_the_age_is_counted_to_the_moment_the_log_was_taken() -> None:
    (incident,) = grouped(line(100, 79), uptime=400.0)

    assert incident.age == Quantity(300.0, Unit.SECOND)


def test_the_age_without_any_time_is_absent() -> None:
    (incident,) = grouped("NVRM: Xid (PCI:0000:4e:00): 79, gone\n")

    assert isinstance(incident.age, Absent)


def test_the_age_of_a_dated_event() -> None:
    text = "2026-03-02T08:00:00+00:00 host kernel: NVRM: Xid (PCI:0000:4e:00): 79, gone\n"

    (incident,) = group(parse_kernel_log(text, now=datetime(2026, 3, 2, 9, tzinfo=UTC)))

    assert incident.age == Quantity(3600.0, Unit.SECOND)


def test_a_reset_that_is_required_without_an_address_says_so() -> None:
    (incident,) = grouped("NVRM: nvAssertOk: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned\n")

    assert (incident.kind, incident.action) == (Kind.RESET_REQUIRED, Action.RESET)
    assert words(incident).title.endswith("the card is not named")


def test_different_versions_are_one_incident_for_the_machine() -> None:
    text = (
        "[   9.1] NVRM: API mismatch: the client has the version 550.54.15, but\n"
        "[   9.1] NVRM: this kernel module has the version 550.90.07.  Please\n"
    )

    (incident,) = grouped(text * 3)

    assert (incident.kind, incident.action, len(incident.events)) == (Kind.MISMATCH, Action.CHECK, 3)
    assert "state of the GPUs is unknown" in words(incident).advice
    assert "550.54.15" in words(incident).explains[0]


def test_a_start_that_fails_for_its_firmware_is_one_incident() -> None:
    text = (
        "[   9.1] NVRM: GPU 0000:4e:00.0: Cannot initialize GSP firmware RM\n"
        "[   9.2] NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0x40:2477)\n"
        "[   9.3] NVRM: GPU 0000:4e:00.0: rm_init_adapter failed, device minor number 0\n"
    )

    (incident,) = grouped(text)

    assert (incident.kind, incident.action, len(incident.events)) == (Kind.GSP, Action.REBOOT, 3)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_words(kind: Kind) -> None:
    from mats.sources._incident_words import _TITLES

    assert all(_TITLES[kind])
