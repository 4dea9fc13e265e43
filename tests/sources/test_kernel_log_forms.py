"""Every form in which a log line is written is read: what stands before the message, and the messages themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mats.model import Absent
from mats.sources._events import (
    AerEvent,
    AerSeverity,
    BarEvent,
    BarState,
    DriverEvent,
    DriverEventKind,
    Event,
    KernelLog,
    LinkLimitEvent,
    LogError,
    SwitchEvent,
    XidEvent,
    pci_address,
)
from mats.sources.kernel_log import parse_kernel_log, recognises

XID = "NVRM: Xid (PCI:0000:9b:00): 119, pid=17, name=train, Timeout"
NOON = (12, 34, 56)
CHINA = timezone(timedelta(hours=8))

PREFIXES: list[tuple[str, float | None, datetime | None]] = [
    ("[ 9051.117204] ", 9051.117204, None),
    ("[ 9051.117204][  T812] ", 9051.117204, None),
    ("[    5.000001] host7 kernel: ", 5.000001, None),
    ("[Mon Jan 12 12:34:56 2026] ", None, datetime(2026, 1, 12, *NOON)),
    ("[一 1月 12 12:34:56 2026] ", None, datetime(2026, 1, 12, *NOON)),
    ("kern  :err   : 2026-01-12T12:34:56,859532+00:00 ", None, datetime(2026, 1, 12, *NOON, 859532, tzinfo=UTC)),
    ("kern  :warn  : [   17.500000] ", 17.5, None),
    ("2026-01-12T12:34:56,859532+00:00 ", None, datetime(2026, 1, 12, *NOON, 859532, tzinfo=UTC)),
    ("6,3973,227996636,-;", 227.996636, None),
    ("4,3973,227996636,-,caller=T12;", 227.996636, None),
    ("<4>[   17.500000] ", 17.5, None),
    ("Jan 12 12:34:56 host7 kernel: [93544.103318] ", 93544.103318, datetime(2026, 1, 12, *NOON)),
    ("Jan 12 12:34:56 host7 kernel: ", None, datetime(2026, 1, 12, *NOON)),
    ("1月 12 12:34:56 host7 kernel: ", None, datetime(2026, 1, 12, *NOON)),
    ("janv. 12 12:34:56 host7 kernel: ", None, datetime(2026, 1, 12, *NOON)),
    ("Jan 12 12:34:56.250000 host7 kernel: ", None, datetime(2026, 1, 12, *NOON, 250000)),
    ("2026-01-12T12:34:56+0800 host7 kernel: ", None, datetime(2026, 1, 12, *NOON, tzinfo=CHINA)),
    ("2026-01-12T12:34:56.250000+08:00 host7 kernel: ", None, datetime(2026, 1, 12, *NOON, 250000, tzinfo=CHINA)),
    ("2026-01-12T12:34:56Z host7 kernel: [    3.000000] ", 3.0, datetime(2026, 1, 12, *NOON, tzinfo=UTC)),
    ("Mon 2026-01-12 12:34:56 UTC host7 kernel: ", None, datetime(2026, 1, 12, *NOON, tzinfo=UTC)),
    ("1768221296.250000 host7 kernel: ", None, datetime(2026, 1, 12, *NOON, 250000, tzinfo=UTC)),
    ("<4>1 2026-01-12T12:34:56.250000+08:00 host7 kernel - - - ", None, datetime(2026, 1, 12, *NOON, 250000, CHINA)),
    ("kernel: [   17.500000] ", 17.5, None),
    ("[2026-01-12T12:34:56.250000+00:00] ", None, datetime(2026, 1, 12, *NOON, 250000, tzinfo=UTC)),
    ("\x1b[32m[    2.500000] \x1b[0m\x1b[31m", 2.5, None),
    ("", None, None),
    ("what nobody has seen before: ", None, None),
]


def parsed(text: str) -> KernelLog:
    return parse_kernel_log(text, now=datetime(2026, 3, 1))


def only(text: str) -> Event:
    (event,) = parsed(text).events
    return event


def xid(text: str) -> XidEvent:
    event = only(text)
    assert isinstance(event, XidEvent)
    return event


@pytest.mark.parametrize(("prefix", "uptime", "wall"), PREFIXES, ids=[repr(row[0]) for row in PREFIXES])
def test_a_prefix_gives_the_time_and_never_costs_the_event(
    prefix: str, uptime: float | None, wall: datetime | None
) -> None:
    event = xid(prefix + XID)

    assert (event.number, event.pci, event.pid, event.process) == (119, "0000:9b:00.0", 17, "train")
    assert (None if isinstance(event.stamp.uptime, Absent) else event.stamp.uptime) == uptime
    assert (None if isinstance(event.stamp.wall, Absent) else event.stamp.wall) == wall


def test_a_journal_record_in_json_is_read() -> None:
    record = (
        '{"__REALTIME_TIMESTAMP":"1768221296250000","_TRANSPORT":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"5000000",'
        f'"MESSAGE":"{XID}"}}'
    )

    event = xid(record)

    assert event.stamp.uptime == 5.0
    assert event.stamp.wall == datetime(2026, 1, 12, *NOON, 250000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("word", "month"),
    [("Mär", 3), ("févr.", 2), ("мая", 5), ("4월", 4), ("12月", 12), ("paź", 10), ("Ağu", 8), ("Dez", 12), ("ago", 8)],
)
def test_months_of_other_languages(word: str, month: int) -> None:
    event = xid(f"{word} 20 12:34:56 host7 kernel: {XID}")

    assert isinstance(event.stamp.wall, datetime)
    assert event.stamp.wall.month == month


def test_an_unknown_month_costs_the_date_with_its_reason() -> None:
    event = xid(f"Foo 20 12:34:56 host7 kernel: [ 7.000000] {XID}")

    assert isinstance(event.stamp.wall, Absent)
    assert "'Foo' is not the name of a known month" in event.stamp.wall.reason
    assert event.stamp.uptime == 7.0


def test_a_date_without_a_year_is_of_the_year_before_when_it_would_lie_ahead() -> None:
    event = xid(f"Dec 31 12:34:56 host7 kernel: {XID}")

    assert event.stamp.wall == datetime(2025, 12, 31, *NOON)


@pytest.mark.parametrize(("date", "year"), [("Mar  2", 2026), ("Mar  3", 2025), ("Jan 31", 2026), ("Feb 29", 2024)])
def test_a_date_without_a_year_is_the_latest_that_does_not_lie_ahead(date: str, year: int) -> None:
    event = xid(f"{date} 00:00:00 host7 kernel: {XID}")

    assert isinstance(event.stamp.wall, datetime)
    assert event.stamp.wall.year == year


def test_dates_without_a_year_count_on_across_new_year() -> None:
    text = f"Dec 31 23:59:59 h kernel: {XID}\nJan  1 00:00:01 h kernel: {XID}"

    first, second = parse_kernel_log(text).events

    assert second.stamp.since(first.stamp) == 2.0
    assert not first.stamp.year_told


@pytest.mark.parametrize(
    "line",
    [
        f"Jan 12 12:34:56 host7 sudo[812]: root : COMMAND=/usr/bin/echo {XID}",
        f"2026-01-12T12:34:56+0800 host7 gpu-agent[9]: kmsg says {XID}",
        f"12,500,227996636,-;{XID}",
        f"user  :err   : 2026-01-12T12:34:56,859532+00:00 {XID}",
    ],
)
def test_what_a_program_wrote_is_no_event_of_the_kernel(line: str) -> None:
    log = parsed(line)

    assert log.events == ()
    assert log.quoted == 1


@pytest.mark.parametrize(
    ("text", "number", "pci", "rest"),
    [
        ("NVRM: Xid (0000:03:00): 13, 0001 00000000", 13, "0000:03:00.0", "0001 00000000"),
        ("NVRM: Xid (PCI:0000:00:05): 46", 46, "0000:00:05.0", ""),
        ("NVRM: Xid (PCI:0000:00:05): 46,", 46, "0000:00:05.0", ""),
        ("NVRM: Xid (PCI:0000:2d:00.0): 79, GPU has", 79, "0000:2d:00.0", "GPU has"),
        (
            "NVRM: Xid (PCI:0000:01:00): 32, Channel ID 00000003 intr 00041000",
            32,
            "0000:01:00.0",
            "Channel ID 00000003 intr 00041000",
        ),
        ("NVRM: Xid (PCI:0009:01:00): 149, NETIR", 149, "0009:01:00.0", "NETIR"),
        ("NVRM: Xid (PCI:10000:01:00): 31, pid=1, name=a, x", 31, "10000:01:00.0", "x"),
    ],
)
def test_forms_of_an_xid(text: str, number: int, pci: str, rest: str) -> None:
    event = xid(text)

    assert (event.number, event.pci, event.text) == (number, pci, rest)


def test_an_xid_of_a_mig_instance() -> None:
    event = xid("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:01): 13, pid=812, name=a.out, Graphics")

    assert (event.pci, event.gpu_instance, event.compute_instance) == ("0000:01:00.0", 5, 1)


def test_a_process_the_driver_does_not_know_is_absent() -> None:
    event = xid(
        "NVRM: Xid (PCI:0000:01:00): 45, pid='<unknown>', name=<unknown>, Ch 0000000c caused by previous Xid 145"
    )

    assert isinstance(event.pid, Absent)
    assert isinstance(event.process, Absent)
    assert event.cause == 145


def test_an_xid_without_an_address_is_kept() -> None:
    event = xid("NVRM: Xid (?): 79, GPU has fallen off the bus.")

    assert isinstance(event.pci, Absent)


def test_a_gpu_off_the_bus_without_an_xid_over_three_lines() -> None:
    event = only(
        "[    9.1] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "[    9.1] NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "[    9.1] NVRM: fallen off the bus and is not responding to commands.\n"
    )

    assert isinstance(event, DriverEvent)
    assert (event.kind, event.pci) == (DriverEventKind.OFF_BUS, "0000:b3:00.0")


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.", DriverEventKind.OFF_BUS, ()),
        (
            "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x25:0x40:1470)",
            DriverEventKind.INIT_FAILED,
            (("code", "0x25:0x40:1470"),),
        ),
        (
            "NVRM: GPU 0000:a1:00.0: rm_init_adapter failed, device minor number 3",
            DriverEventKind.INIT_FAILED,
            (("minor", "3"),),
        ),
        ("NVRM: _kgspBootGspRm: Cannot initialize GSP firmware RM", DriverEventKind.GSP_FAILED, ()),
        (
            "NVRM: nvAssertOkFailedNoLog: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned",
            DriverEventKind.RESET_REQUIRED,
            (),
        ),
        (
            "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:a1:00 (printing 1 of every 30).",
            DriverEventKind.RATE_LIMITED,
            (("every", "30"),),
        ),
        ("NVRM: GPU 0000:a1:00.0: Row Remapping table is full", DriverEventKind.ROW_REMAP, ()),
        (
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@host)",
            DriverEventKind.DRIVER_LOADED,
            (("version", "580.65.06"),),
        ),
    ],
)
def test_what_the_driver_says_without_an_xid(
    text: str, kind: DriverEventKind, detail: tuple[tuple[str, str], ...]
) -> None:
    event = only(text)

    assert isinstance(event, DriverEvent)
    assert (event.kind, event.details) == (kind, detail)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: API mismatch: the client has the version 550.54.15, but\n"
        "NVRM: this kernel module has the version 550.90.07.  Please\n"
        "NVRM: make sure that this kernel module and all NVIDIA driver\nNVRM: components have the same version.\n",
        "NVRM: API mismatch: the client 'smi' (pid 812)\n"
        "NVRM: has the version 550.54.15, but this kernel module has the version 550.90.07.\n",
    ],
)
def test_the_versions_of_an_api_mismatch_stand_on_several_lines(text: str) -> None:
    event = only(text)

    assert isinstance(event, DriverEvent)
    assert event.kind is DriverEventKind.API_MISMATCH
    assert (event.detail("client"), event.detail("module")) == ("550.54.15", "550.90.07")


def test_a_cut_api_mismatch_says_what_it_does_not_show() -> None:
    event = only("NVRM: API mismatch: the client has the version 550.54.15, but")

    assert isinstance(event, DriverEvent)
    assert isinstance(event.detail("module"), Absent)


def test_the_lines_of_two_switches_are_two_events_though_they_mix() -> None:
    def line(bus: str, rest: str) -> str:
        return f"[    1.000000] nvidia-nvswitch0: SXid (PCI:0000:{bus}:00.0): 20034, {rest}\n"

    text = (
        line("0b", "Fatal, Link 12 LTSSM Fault Up")
        + line("09", "Non-fatal, Link 31 LTSSM Fault Up")
        + line("0b", "Severity 1 Engine instance 12 Sub-engine instance 00")
        + line("09", "Severity 0 Engine instance 31 Sub-engine instance 00")
        + line("0b", "Data {0x10000000, 0x00000001}")
    )

    first, second = parsed(text).events

    assert isinstance(first, SwitchEvent)
    assert isinstance(second, SwitchEvent)
    assert (first.fatal, first.link, first.severity, first.data) == (True, 12, 1, (0x10000000, 1))
    assert (second.fatal, second.link, second.severity) == (False, 31, 0)
    assert isinstance(second.data, Absent)


@pytest.mark.parametrize(
    ("head", "severity"),
    [
        ("PCIe Bus Error: severity=Corrected, type=Physical Layer, id=00e0(Receiver ID)", AerSeverity.CORRECTABLE),
        ("PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)", AerSeverity.CORRECTABLE),
        (
            "PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Physical Layer, (Receiver ID)",
            AerSeverity.NON_FATAL,
        ),
        ("PCIe Bus Error: severity=Uncorrectable (Fatal), type=Physical Layer, (Receiver ID)", AerSeverity.FATAL),
    ],
)
def test_old_and_new_words_of_a_pcie_error(head: str, severity: AerSeverity) -> None:
    port = "[  7.100000] nvidia 0000:c1:00.0:"
    status = f"{port}   device [10de:2204] error status/mask=00000001/0000a000"
    text = f"{port} {head}\n{status}\n{port}    [ 0] RxErr   (First)\n"

    event = only(text)

    assert isinstance(event, AerEvent)
    assert (event.severity, event.layer, event.agent) == (severity, "Physical Layer", "Receiver ID")
    assert (event.pci, event.device, event.status, event.bits) == ("0000:c1:00.0", "10de:2204", 1, ("RxErr",))


@pytest.mark.parametrize(
    ("text", "state", "size"),
    [
        ("BAR 0: no space for [mem size 0x01000000]", BarState.FAILED, 16 << 20),
        ("BAR 0 [mem size 0x01000000]: can't assign; no space", BarState.FAILED, 16 << 20),
        ("BAR 0 [mem 0xf000000000-0xf7ffffffff 64bit pref]: assigned", BarState.ASSIGNED, 32 << 30),
        ("BAR 0: assigned [mem 0xe0000000-0xefffffff 64bit pref]", BarState.ASSIGNED, 256 << 20),
    ],
)
def test_old_and_new_words_of_a_bar(text: str, state: BarState, size: int) -> None:
    event = only(f"[    0.500000] pci 0000:05:00.0: {text}")

    assert isinstance(event, BarEvent)
    assert (event.pci, event.bar, event.state, event.size) == ("0000:05:00.0", 0, state, size)


def test_a_bar_that_the_driver_refuses() -> None:
    event = only(
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:05:00.0)\n"
    )

    assert isinstance(event, BarEvent)
    assert (event.pci, event.bar, event.state) == ("0000:05:00.0", 1, BarState.FAILED)
    assert isinstance(event.size, Absent)


def test_three_lines_of_one_record_stand_on_one_line_of_the_kernels_buffer() -> None:
    event = only(
        "3,812,9051117204,-;NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: (PCI ID: 10de:26b5) installed in this "
        "system has\\x0aNVRM: fallen off the bus and is not responding to commands."
    )

    assert isinstance(event, DriverEvent)
    assert (event.kind, event.pci) == (DriverEventKind.OFF_BUS, "0000:b3:00.0")


def test_only_the_last_word_on_a_bar_counts() -> None:
    event = only(
        "pci 0000:05:00.0: BAR 1: no space for [mem size 0x10000000]\n"
        "pci 0000:05:00.0: BAR 1: assigned [mem 0xe0000000-0xefffffff 64bit pref]\n"
    )

    assert isinstance(event, BarEvent)
    assert event.state is BarState.ASSIGNED


def test_a_limited_link_in_bytes_per_second() -> None:
    event = only(
        "pci 0000:05:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at 0000:00:03.0 "
        "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
    )

    assert isinstance(event, LinkLimitEvent)
    assert (event.limiter, event.width, event.speed, event.capable_width) == ("0000:00:03.0", 4, 8e9, 16)
    assert event.available == pytest.approx(31.504e9 / 8)


def test_a_second_start_of_the_system_is_seen_by_its_first_line_and_by_the_clock() -> None:
    text = (
        f"[    0.000000] Linux version 6.8\n[  500.000000] {XID}\n[    0.000000] Linux version 6.8\n[    9.0] {XID}\n"
    )

    log = parsed(text)

    kinds = [event.kind for event in log.events if isinstance(event, DriverEvent)]
    assert kinds == [DriverEventKind.SYSTEM_STARTED]
    assert log.from_start


@pytest.mark.parametrize(
    "written", ["0000:4e:00", "0000:4E:00.0", "00000000:4E:00.0", "4e:00.0", " 0000:4e:00.0 "], ids=repr
)
def test_one_card_has_one_address(written: str) -> None:
    assert pci_address(written) == "0000:4e:00.0"


@pytest.mark.parametrize(
    "text", ["", "\n\n", "hello\nworld\n", "\x00\x01NVRM: Xid (PCI:0000:01:00): 79", "{}"], ids=repr
)
def test_what_is_no_kernel_log_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(LogError, match=r"^not a kernel log: .+$"):
        parse_kernel_log(text)


@pytest.mark.parametrize(
    ("text", "yes"),
    [(XID, True), ("[    0.000000] Linux version 6.8", True), ("GPU 0: NVIDIA H100", False), ("\x00" + XID, False)],
)
def test_a_kernel_log_is_recognised(text: str, yes: bool) -> None:
    assert recognises(text) is yes
