"""Text made to be slow to read is read or refused in a moment: no pattern goes over it again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mats.sources import _sysfs_copy, bug_report, dcgm, gpustat, lspci, sysfs
from mats.sources.evidence import EvidenceError, gather, recognise

SIZE = 50_000
SECONDS = 2.0
PIECES = (
    *(
        "\n",
        " ",
        "\t",
        "{",
        "[",
        '"',
        "\\",
        "(",
        "|",
        "||",
        "*** ",
        "*** a\n",
        "_" * 44 + "\n",
        "# cat x\n",
        "$ dmesg\n",
    ),
    *('{"a":', "[0] ", "0000:", "00:00.0 ", "00:00.0 VGA: x\n", "\tUESta: A+\n", " U", "U ", "gpuId 0:\n U", "GPU0 "),
    *("| 0 1MiB / ", "| 0 x |\n", "|  | GPU0: Pass |\n", "==> /sys/0000:00:00.0/a <==\n", "/sys/0000:00:00.0/a:1\n"),
    *("0x0000000000000000 ", "a, ", "index, ", "#Entity a\n", "GPU 0 0\n", "kernel: ", "[ 1.0] ", "\0", "é", "\r\n"),
)
HEADS: dict[Callable[[str], object], str] = {
    bug_report.parse_bug_report: "nvidia-bug-report.sh Version: 1\n",
    dcgm.parse_diag: '{"DCGM Diagnostic": {',
    dcgm.parse_health: '{"Overall Health": {',
}
READERS: tuple[Callable[[str], object], ...] = (
    *(recognise, gather, bug_report.parse_bug_report, dcgm.parse_diag, dcgm.parse_health, dcgm.parse_nvlink),
    *(dcgm.parse_dmon, gpustat.parse_gpustat, lspci.parse_lspci, _sysfs_copy.parse_copy, sysfs.parse_resource),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: f"{reader.__module__}.{reader.__name__}")
def test_no_repetition_is_slow_to_read(reader: Callable[[str], object]) -> None:
    head = HEADS.get(reader, "")
    for piece in PIECES:
        text = head + piece * (SIZE // len(piece))
        started = time.process_time()

        try:
            reader(text)
        except ValueError as error:
            assert isinstance(error, EvidenceError) or type(error) is not ValueError

        assert time.process_time() - started < SECONDS, repr(piece)
