"""Reading a log live or from a file: what may not be read is absent with its reason, and size or rubbish do no harm."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mats.model import AbsenceKind, Absent
from mats.sources._events import LogError, XidEvent, pci_address
from mats.sources._incident_words import words
from mats.sources._incidents import group
from mats.sources._kernel_collect import KEPT_LINES
from mats.sources._kernel_doors import (
    Finished,
    LogText,
    Run,
    about_gpus,
    first_door,
    read_dmesg,
    read_journal,
    read_kmsg,
    run_command,
)
from mats.sources._outside_logs import lost_handles, parse_controller_log, parse_windows_event
from mats.sources._xid_details import nvlink5, recovery
from mats.sources._xid_table import conflicts, describe
from mats.sources.kernel_log import NamedLog, coverage, live_log, parse_kernel_log, read_kernel_log, recognises

XID = b"4,812,9051117204,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=17, name=train, GPU has fallen off the bus.\n"
NO_JOURNAL = "Hint: You are currently not seeing messages from other users and the system.\n"


def answers(code: int = 0, output: bytes = b"", errors: str = "") -> Run:
    return lambda command, seconds: Finished(code, output, errors.encode())


def raises(error: Exception) -> Callable[..., Finished]:
    def run(command: tuple[str, ...], seconds: float) -> Finished:
        raise error

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    return tmp_path


def absent(value: object) -> Absent:
    assert isinstance(value, Absent)
    return value


def no_command(command: tuple[str, ...], seconds: float) -> Finished:
    raise AssertionError(f"{command[0]} is not needed")


def test_the_kernels_buffer_is_read_to_its_end(root: Path) -> None:
    (root / "dev/kmsg").write_bytes(XID + b" SUBSYSTEM=pci\n" + XID)

    live = first_door(root, no_command, lambda text: live_log(text, uptime=9060.0))

    assert isinstance(live, NamedLog)
    assert live.origin == "/dev/kmsg"
    assert len(live.log.events) == 2
    (incident,) = group(live.log)
    assert incident.age.value == pytest.approx(8.882796)  # type: ignore[union-attr]


def test_records_come_one_by_one_and_overwritten_ones_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dev/kmsg").write_bytes(b"")
    script: list[bytes | OSError] = [XID, OSError(errno.EPIPE, "overwritten"), XID, BlockingIOError()]

    def read(descriptor: int, size: int) -> bytes:
        step = script.pop(0)
        if isinstance(step, OSError):
            raise step
        return step

    monkeypatch.setattr(os, "read", read)

    live = first_door(root, no_command, live_log)

    assert isinstance(live, NamedLog)
    assert len(live.log.events) == 2
    assert live.log.notes == ("lines were overwritten while the log was read",)


def test_the_end_of_a_device_that_goes_on_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "dev/kmsg")
    keeper = os.open(root / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
    os.write(keeper, XID)

    text = read_kmsg(root)

    os.close(keeper)
    assert text == LogText("/dev/kmsg", XID)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(errno.EPERM, "no"), AbsenceKind.NO_PERMISSION),
        (FileNotFoundError(errno.ENOENT, "no"), AbsenceKind.NOT_FOUND),
        (OSError(errno.EIO, "broken"), AbsenceKind.UNREADABLE),
    ],
)
def test_a_device_that_cannot_be_opened_is_absent(
    error: OSError, kind: AbsenceKind, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)

    assert absent(read_kmsg(root)).kind is kind


def test_an_empty_buffer_is_not_a_clean_one(root: Path) -> None:
    (root / "dev/kmsg").write_bytes(b"")

    assert absent(read_kmsg(root)).kind is AbsenceKind.INSUFFICIENT


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (answers(1, errors="dmesg: read kernel buffer failed: Operation not permitted\n"), AbsenceKind.NO_PERMISSION),
        (answers(0, b"-- No entries --\n", NO_JOURNAL), AbsenceKind.NO_PERMISSION),
        (answers(0, b"-- No entries --\n"), AbsenceKind.INSUFFICIENT),
        (answers(0), AbsenceKind.INSUFFICIENT),
        (answers(1, errors="no such option\n"), AbsenceKind.UNREADABLE),
        (raises(FileNotFoundError()), AbsenceKind.NOT_FOUND),
        (raises(PermissionError()), AbsenceKind.NO_PERMISSION),
        (raises(TimeoutError()), AbsenceKind.TIMED_OUT),
    ],
)
def test_a_command_that_gives_no_log_is_absent_with_its_reason(run: Run, kind: AbsenceKind) -> None:
    for read, name in ((read_journal, "journalctl: "), (read_dmesg, "dmesg: ")):
        found = absent(read(run))

        assert found.kind is kind
        assert found.reason.startswith(name)


def test_the_first_log_that_can_be_read_is_taken(root: Path) -> None:
    asked: list[str] = []

    def run(command: tuple[str, ...], seconds: float) -> Finished:
        asked.append(command[0])
        if command[0] == "journalctl":
            return Finished(1, b"", b"No journal files were found.\n")
        return Finished(0, b"[    1.000000] NVRM: Xid (PCI:0000:9b:00): 79, x\n", b"")

    live = first_door(root, run, live_log)

    assert isinstance(live, NamedLog)
    assert live.origin == "dmesg"
    assert asked == ["journalctl", "dmesg"]
    assert len(live.log.events) == 1


def test_no_log_at_all_names_every_reason(root: Path) -> None:
    found = absent(first_door(root, answers(1, errors="dmesg: Operation not permitted"), live_log))

    assert found.kind is AbsenceKind.NO_PERMISSION
    assert found.reason.startswith("kernel log: /dev/kmsg: not there; journalctl: no permission")


def test_output_that_is_no_log_is_not_taken_for_a_clean_one(root: Path) -> None:
    found = absent(first_door(root, answers(0, b"usage: something else\n"), live_log))

    assert found.kind is AbsenceKind.NOT_FOUND
    assert "dmesg: not a kernel log" in found.reason


def test_lines_about_gpus_are_kept_as_they_stand(root: Path) -> None:
    lines = about_gpus(b"[1.0] usb 1-1: new device\n" + XID + b"[2.0] nouveau: bound\n")

    assert lines == XID.decode() + "[2.0] nouveau: bound\n"


def test_a_real_command_runs_without_input_and_is_stopped_in_time() -> None:
    assert run_command(("cat",), 5.0) == Finished(0, b"", b"")
    with pytest.raises(TimeoutError, match="did not end"):
        run_command(("sleep", "5"), 0.05)


def test_an_event_among_many_pieces_of_ordinary_lines_is_found(tmp_path: Path) -> None:
    ordinary = "[%12.6f] audit: type=1400 audit(17:%d): apparmor=STATUS operation=profile_load pid=%d"
    lines = [ordinary % (number / 10, number, number) for number in range(50_000)]
    lines[27_777] = "[ 2777.700000] NVRM: Xid (PCI:0000:9b:00): 79, pid=17, name=train, GPU has fallen off the bus."
    path = tmp_path / "syslog"
    path.write_text("\n".join(lines))

    log = read_kernel_log(path)

    assert path.stat().st_size > 3 << 20  # several pieces
    assert (log.lines, [event.line for event in log.events]) == (50_000, [27_778])


def test_of_a_flood_the_newest_lines_are_read_and_the_others_counted() -> None:
    extra = 500
    text = "".join(f"NVRM: Xid (PCI:0000:9b:00): 13, pid={number}, x\n" for number in range(KEPT_LINES + extra))

    log = parse_kernel_log(text)

    assert (len(log.events), log.left_out) == (KEPT_LINES, extra)
    assert log.events[-1].line == KEPT_LINES + extra
    assert f"{extra} older lines" in coverage(log)
    assert not group(log)[0].count_known


def test_a_clean_log_says_how_far_it_reaches() -> None:
    whole = parse_kernel_log("[    0.000000] Linux version 6.8\n[    1.000000] usb 1-1: new device\n")
    cut = parse_kernel_log("[ 5000.000000] usb 1-1: new device\n")

    assert coverage(whole) == "2 lines, none of the NVIDIA driver, from the start of the system"
    assert coverage(cut) == "1 lines, none of the NVIDIA driver, not from the start of the system"


def test_a_line_without_an_end_is_cut_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20) + b"\n[    1.000000] NVRM: Xid (PCI:0000:9b:00): 79, x\n")
    assert len(read_kernel_log(path).events) == 1

    path.write_bytes(b"\x7fELF\x00\x00" * 100)
    with pytest.raises(LogError):
        read_kernel_log(path)


def test_line_ends_of_windows_do_no_harm() -> None:
    (event,) = read_kernel_log(b"[    1.000000] NVRM: Xid (PCI:0000:9b:00): 46\r\n").events

    assert isinstance(event, XidEvent)
    assert (event.number, event.text) == (46, "")


PIECES = st.sampled_from(
    [
        "NVRM: ",
        "Xid ",
        "(PCI:0000:9b:00)",
        "(PCI:0000:01:00 GPU-I:05)",
        ": ",
        "154",
        "149",
        "79",
        "45",
        "119",
        "62",
        ", ",
        "pid=",
        "'<unknown>'",
        "name=",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): ",
        "20034, Fatal, Link 3",
        "Severity 1 Engine instance 2",
        "Data {0x1, 0x",
        "}",
        "[ 9051.117204] ",
        "[Mon Jan 12 12:34:56 2026] ",
        "Feb 30 25:61:61 host kernel: ",
        "2026-02-30T12:34:56,8+99:99 ",
        "6,3973,227996636,-;",
        "99999999999.000001 h kernel: ",
        "kern  :err   : ",
        "0\n",
        "\n",
        "\r\n",
        "\x1b[31m",
        "\t",
        " ",
        "0x",
        "9" * 30,
        "changed from 0x0 (None) to 0x",
        "NETIR_LINK_EVT Fatal XC0 i0 Link 06 (0x025001c6 0x",
        ")",
        "caused by previous Xid ",
        "pci 0000:05:00.0: BAR 0: ",
        "no space for [mem size 0x",
        "[mem 0x5-0x1]",
        "PCIe Bus Error: severity=Corrected, type=x, (y)",
        "AER: ",
        "error status/mask=00000001/0000a000",
        "device [10de:2204] ",
        "    [ 7] BadDLLP",
        "API mismatch: the client",
        " has the version 1.2, but",
        "this kernel module has the version 550.90.07",
        "GPU at PCI:0000:9b:00: GPU-",
        "GPU Board Serial Number: ",
        "The NVIDIA GPU ",
        "fallen off the bus",
        "Rate limiting ",
        "(printing 1 of every 30)",
        "RmInitAdapter failed! (",
        "available PCIe bandwidth, limited by ",
        "1.2.3 Gb/s",
        "é",
        "月",
        "4月 20 12:00:00 h kernel: ",
        '{"MESSAGE":"NVRM: Xid (PCI:0000:9b:00): 13", "__REALTIME_TIMESTAMP":"',
        '1"}',
        "Linux version ",
        "{",
        "<4>",
        "[[[[",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=400)), st.booleans())
@example('{"a":' + "[" * 100_000 + "NVRM: Xid (", False)
@example("NVRM: Xid (PCI:0000:9b:00): 154, changed from 0x0 (" + "(" * 5000, True)
def test_no_text_makes_it_fail_in_another_way_than_by_a_sentence(text: str, dated: bool) -> None:
    try:
        log = parse_kernel_log(text, now=datetime(2026, 2, 28) if dated else None, uptime=5.0 if dated else None)
    except LogError as error:
        assert "\n" not in str(error)
        return
    finally:
        recognises(text)
    incidents = group(log)
    grouped = [event for incident in incidents for event in incident.events]
    assert len(grouped) == len(set(map(id, grouped))), "no event is in two incidents"
    for incident in incidents:
        assert words(incident).title
        assert words(incident).advice
    assert {event.line for event in log.events if isinstance(event, XidEvent)} <= {event.line for event in grouped}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(0, 400))
def test_details_of_any_text_are_a_value_or_absent(text: str, number: int) -> None:
    for read in (parse_controller_log, parse_windows_event, pci_address):
        try:
            read(text)
        except LogError as error:
            assert str(error)
    lost_handles(text)
    recovery(text)
    nvlink5(number, text)
    conflicts(number)
    assert describe(number).meaning


@given(
    st.integers(0, 0xFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 999), st.booleans(), st.booleans()
)
@settings(deadline=None)
def test_every_address_and_number_is_read_back(
    domain: int, bus: int, device: int, number: int, prefix: bool, comma: bool
) -> None:
    where = f"{'PCI:' if prefix else ''}{domain:04x}:{bus:02x}:{device:02x}"

    (event,) = parse_kernel_log(f"NVRM: Xid ({where}): {number}{',' if comma else ''}").events

    assert isinstance(event, XidEvent)
    assert (event.pci, event.number) == (f"{domain:04x}:{bus:02x}:{device:02x}.0", number)


@pytest.mark.parametrize(
    "line",
    [
        "x" * 1900 + " SXid (",
        "a:" * 950 + "SXid (PCI:0000:c1:00.0)",
        "NVRM: Xid (PCI:0000:c1:00): 149, " + "A" * 1900,
        "NVRM: Xid (PCI:0000:c1:00): 154, " + "changed from 0x0 (" * 100,
        "PCIe Bus Error: severity=Corrected, type=x, (y) 0000:c1:00.0" + "[ 1] A" * 200 + " " * 500 + ".",
    ],
    ids=lambda line: line[:40],
)
def test_lines_made_to_be_slow_are_not(line: str) -> None:
    start = time.process_time()

    group(parse_kernel_log("[    0.000000] Linux version 6.8\n" + f"{line}\n" * 1000))

    assert time.process_time() - start < 1.5
