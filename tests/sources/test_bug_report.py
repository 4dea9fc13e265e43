"""Sections of an nvidia-bug-report.log: what was collected, what was not, and what each can be read as."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.model import Absent
from mats.sources import bug_report
from mats.sources.bug_report import NEVER_ENDED, RULE, BugReport, parse_bug_report
from mats.sources.evidence import Kind, gather, read_bytes
from mats.sources.sysfs import PciFacts

from . import saved

HEAD = f"""\
{RULE}

Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem.

nvidia-bug-report.sh Version: 34275571

Date: Tue Mar 11 07:05:33 PM CET 2025
uname: Linux node03 6.12.10
command line flags: --safe-mode

"""
REPORT = f"""{HEAD}{RULE}

*** /proc/driver/nvidia/version
*** ls: -r--r--r-- 1 root root 0 2025-03-11 18:59:12 /proc/driver/nvidia/version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri Mar 14 13:12:07 UTC 2025
GCC version:  gcc version 13.3.0

*** /var/log/nvidia-installer.log does not exist
{RULE}

Scanning kernel log files for NVIDIA kernel messages:

  /var/log/kern.log:
Mar 11 07:05:33 node03 kernel: [12960.402117] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.

{RULE}

/usr/bin/lspci -nnDvvvxxxx

0000:02:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA104 [10de:2484] (rev ff) (prog-if ff)
\t!!! Unknown header type 7f

{RULE}

Skipping: nvidia-debugdump output
base64 not found

{RULE}
Skipping ldd output (glxinfo not found)

{RULE}

End of NVIDIA bug report log file.
"""


def test_a_laptop_gpu_in_runtime_suspend_sleeps_and_is_not_lost() -> None:
    report = parse_bug_report(saved.text("health/nvidia_bug_report_head.txt"))

    (gpu,) = report.power
    assert (gpu.pci, gpu.runtime_status, gpu.suspended) == ("0000:02:00.0", "suspended", True)
    assert (gpu.runtime_d3, gpu.video_memory) == ("Enabled (fine-grained)", "Off")
    missing = report.named("runtime_usage")
    assert not isinstance(missing, Absent)
    assert (missing.there, missing.why) == (False, "does not exist")
    assert report.version == "34275571"
    assert isinstance(report.date, str) and report.date.endswith("PM CET 2025")
    assert report.partial == NEVER_ENDED


def test_sections_are_handed_on_by_name() -> None:
    report = parse_bug_report(REPORT)

    assert [(section.name, kinds) for section, kinds in report.readable()] == [
        ("/proc/driver/nvidia/version", (Kind.DRIVER_VERSION,)),
        ("Scanning kernel log files for NVIDIA kernel messages:", (Kind.KERNEL_LOG,)),
        ("/usr/bin/lspci -nnDvvvxxxx", (Kind.LSPCI,)),
    ]
    assert report.partial == ""


def test_what_the_script_skipped_keeps_its_reason() -> None:
    report = parse_bug_report(REPORT)

    gone = {section.name: section.why for section in report.sections if not section.there}
    assert gone == {
        "/var/log/nvidia-installer.log": "does not exist",
        "nvidia-debugdump output": "base64 not found",
        "ldd output": "glxinfo not found",
    }
    assert isinstance(report.named("nvidia-smi --query"), Absent)


def test_every_section_reaches_its_parser_also_from_a_gzip_of_many_streams() -> None:
    data = b"".join(gzip.compress(f"{piece}".encode()) for piece in REPORT.splitlines(keepends=True))

    evidence = read_bytes(data, "nvidia-bug-report.log.gz")

    assert [each.kind for each in evidence.found] == [
        Kind.BUG_REPORT,
        Kind.DRIVER_VERSION,
        Kind.KERNEL_LOG,
        Kind.LSPCI,
    ]
    (pci,) = evidence.of(Kind.LSPCI)
    assert isinstance(pci, PciFacts)
    assert not pci.devices[0].answers
    assert all(each.cut == "" for each in evidence.found)


def test_sections_of_a_report_that_never_ended_are_cut_too() -> None:
    evidence = gather(saved.text("health/nvidia_bug_report_head.txt"), "report")

    assert {each.cut for each in evidence.found} == {NEVER_ENDED}
    (pci,) = evidence.of(Kind.SYSFS)
    assert isinstance(pci, PciFacts)
    assert [device.power_state for device in pci.devices] == ["suspended"]


def test_a_section_whose_name_and_content_differ_is_what_it_holds() -> None:
    text = f"{HEAD}{RULE}\n\n/usr/bin/nvidia-smi --query\n\nFailed to initialize NVML: Unknown Error\n"

    (section,) = parse_bug_report(text).sections

    assert section.kinds == (Kind.SMI_ERROR,)


@pytest.mark.parametrize("text", ["", "hello", RULE, f"{RULE}\n\n*** /etc/issue\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(bug_report.BugReportError, match="does not begin"):
        parse_bug_report(text)


PIECES = (RULE, "\n", "*** ", "*** ls: ", " does not exist", "Skipping: ", "Error: ", "/gpus/0000:02:00.0/power\n", "x")


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join))
def test_no_report_raises_anything_else(text: str) -> None:
    report = parse_bug_report(HEAD + text)

    assert isinstance(report, BugReport)
    list(report.readable())
    assert isinstance(report.power, tuple)
    with pytest.raises(bug_report.BugReportError):
        parse_bug_report(text)
