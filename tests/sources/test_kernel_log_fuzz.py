"""Every mixture of the forms in which the driver has written an Xid: what was put in is what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from mats.model import Absent
from mats.sources._events import KernelLog, XidEvent
from mats.sources._incidents import group
from mats.sources.kernel_log import parse_kernel_log

PREFIXES = (
    "",
    "[ 9051.117204] ",
    "[ 9051.117204][  T812] ",
    "[Mon Jan 12 12:34:56 2026] ",
    "kern  :err   : 2026-01-12T12:34:56,859532+00:00 ",
    "6,3973,227996636,-;",
    "4,3973,227996636,-,caller=T12;",
    "<4>[   17.500000] ",
    "Jan 12 12:34:56 host7 kernel: ",
    "Jan 12 12:34:56 host7 kernel: [93544.103318] ",
    "4月 20 12:34:56 host7 kernel: ",
    "2026-01-12T12:34:56+0800 host7 kernel: ",
    "2026-01-12T12:34:56.250000+08:00 host7 kernel: [    3.000000] ",
    "1768221296.250000 host7 kernel: ",
    "\x1b[32m[    2.500000] \x1b[0m",
)
ENDS = ("\n", "\r\n", "\n\n", "\nusb 1-1: new device\n")


@dataclass(frozen=True)
class Written:
    """A line of the driver and what it says."""

    line: str
    pci: str
    number: int
    pid: int | None
    process: str | None
    text: str
    instance: int | None


hexadecimal = st.sampled_from("0123456789abcdef")
# As the driver writes texts: words, numbers and signs, no comma or "=" that would begin another field.
words = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEF0123456789 .:_-@()<>/", max_size=60)


@st.composite
def lines(draw: st.DrawFn) -> Written:
    """One line in any of the forms of the drivers from 2015 to today."""
    domain = draw(st.sampled_from(["0000", "0009", "a2f1", "10000", "00000000"]))
    bus, device = (draw(hexadecimal) + draw(hexadecimal) for _ in range(2))
    function = draw(st.sampled_from(["", ".0", ".1"]))
    address = f"{domain}:{bus}:{device}{function}"
    shown = draw(st.sampled_from([address, address.upper()]))
    instance = draw(st.none() | st.integers(0, 14))
    place = draw(st.sampled_from(["PCI:", ""])) + shown + (f" GPU-I:{instance:02d}" if instance is not None else "")
    number = draw(st.integers(1, 999).filter(lambda each: each != 154))
    pid = draw(st.none() | st.integers(1, 4_194_304))
    name = draw(st.none() | st.text(alphabet="abcXYZ019._-:/", min_size=1, max_size=15))
    text = draw(words).strip().strip(".:")
    fields: list[str] = []
    if draw(st.booleans()) or pid is not None:
        fields.append("pid='<unknown>'" if pid is None else f"pid={pid}")
        fields.append("name=<unknown>" if name is None else f"name={name}")
    else:
        name = None
    rest = ", ".join([*fields, *([text] if text else [])])
    tail = f", {rest}" if rest else draw(st.sampled_from(["", ",", ", "]))
    line = f"{draw(st.sampled_from(PREFIXES))}NVRM: Xid ({place}): {number}{tail}"
    pci = f"{int(domain, 16):04x}:{bus}:{device}{function or '.0'}"
    return Written(line, pci, number, pid, name, text, instance)


def shown(value: object) -> object:
    return None if isinstance(value, Absent) else value


@settings(max_examples=500, deadline=None)
@given(lines(), st.sampled_from(ENDS))
def test_whatever_form_an_xid_is_written_in_it_says_what_was_put_in(written: Written, end: str) -> None:
    log = parse_kernel_log(written.line + end, now=datetime(2026, 3, 1))

    (event,) = log.events
    assert isinstance(event, XidEvent)
    assert (event.pci, event.number) == (written.pci, written.number)
    assert (shown(event.pid), shown(event.process)) == (written.pid, written.process)
    assert " ".join(event.text.split()) == " ".join(written.text.split())
    assert shown(event.gpu_instance) == written.instance


@settings(max_examples=100, deadline=None)
@given(st.lists(lines(), min_size=1, max_size=8), st.integers(0, 3))
def test_no_xid_is_lost_among_others_and_each_is_in_one_incident(many: list[Written], noise: int) -> None:
    between = "\n" + "[    5.000000] usb 1-1: new device\n" * noise

    log: KernelLog = parse_kernel_log(between.join(each.line for each in many), now=datetime(2026, 3, 1))

    found = [event for event in log.events if isinstance(event, XidEvent)]
    assert [(event.pci, event.number) for event in found] == [(each.pci, each.number) for each in many]
    grouped = [event for incident in group(log) for event in incident.events]
    assert sorted(event.line for event in grouped) == sorted(event.line for event in found)


@settings(max_examples=200, deadline=None)
@given(lines(), st.integers(0, 200))
def test_a_line_that_was_cut_gives_no_other_number_or_card(written: Written, end: int) -> None:
    place = written.line.index(f"): {written.number}") + len(f"): {written.number}")

    log = parse_kernel_log(f"[    1.000000] usb 1-1: x\n{written.line[: place + end]}\n", now=datetime(2026, 3, 1))

    assert [event.number for event in log.events if isinstance(event, XidEvent)] == [written.number]
    assert [event.pci for event in log.events] == [written.pci]
