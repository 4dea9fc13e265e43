"""Saved files of any mix: recognised by content, opened safely, and refused in one sentence."""

from __future__ import annotations

import gzip
import io
import os
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts import MachineFacts
from mats.model import Absent, Quantity, Run, Unit
from mats.sources import evidence
from mats.sources._opening import Maxima
from mats.sources.evidence import EvidenceError, Kind, gather, read_bytes, read_evidence, recognise

from . import saved

XID = "[ 1234.567890] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
HEALTH = '{"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}\n'
SMALL = Maxima(packed=1 << 20, text=1 << 20, members=10, streams=50)


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def refusal(data: bytes, maxima: Maxima = SMALL) -> str:
    with pytest.raises(EvidenceError) as refused:
        read_bytes(data, "saved", maxima)
    sentence = str(refused.value)
    assert sentence.startswith("saved") and "\n" not in sentence and len(sentence) < 300
    return sentence


CASES = {
    "health/smi_xml_t4_v13.xml": [Kind.SMI_XML],
    "health/smi_table_v100x8_inforom.txt": [Kind.SMI_TABLE],
    "health/smi_q_a100x8.txt": [Kind.SMI_QUERY],
    "health/smi_q_retired_pages_x8.txt": [Kind.SMI_QUERY],
    "health/smi_q_ecc_sram.txt": [Kind.SMI_QUERY],
    "health/smi_q_remap_pending.txt": [Kind.SMI_QUERY],
    "health/smi_table_err_power.txt": [Kind.SMI_TABLE],
    "health/smi_table_gb10.txt": [Kind.SMI_TABLE],
    "health/smi_table_mig.txt": [Kind.SMI_TABLE],
    "health/smi_csv_gb10.csv": [Kind.SMI_CSV],
    "health/smi_driver_mismatch.txt": [Kind.SMI_ERROR, Kind.DRIVER_VERSION],
    "health/smi_dmesg_xid79_handle.txt": [Kind.SMI_ERROR, Kind.KERNEL_LOG],
    "health/recovery_action_dmon_health.txt": [Kind.SMI_CSV, Kind.DCGM_DMON, Kind.DCGM_HEALTH],
    "health/ipmi_sel_and_rminit.txt": [Kind.KERNEL_LOG, Kind.IPMI_SEL],
    "health/dmesg_xid119_gsp_rpc.log": [Kind.KERNEL_LOG],
    "health/dmesg_x_iso_sxid_nonfatal.txt": [Kind.KERNEL_LOG],
    "health/dmesg_bar0_no_space.txt": [Kind.KERNEL_LOG],
    "health/syslog_xid48_63.txt": [Kind.KERNEL_LOG],
    "health/xid154_recovery_actions.txt": [Kind.KERNEL_LOG],
    "health/nvlink5_xid149_145.txt": [Kind.KERNEL_LOG],
    "health/windows_event_153.txt": [Kind.WINDOWS_EVENT],
    "health/dcgm3_diag_x4.json": [Kind.DCGM_DIAG],
    "health/dcgm4_text_table.txt": [Kind.DCGM_DIAG],
    "health/nvidia_bug_report_head.txt": [Kind.BUG_REPORT],
    "health/gpustat_line_v100.txt": [Kind.GPUSTAT],
    "links/nvlink_s_a100_all_inactive.txt": [Kind.NVLINK],
    "links/nvlink_s_v100_two_inactive.txt": [Kind.NVLINK],
    "links/nvlink_e_and_s_h100.txt": [Kind.NVLINK, Kind.NVLINK],
    "links/topo_m_a40x4_nv4_pairs.txt": [Kind.TOPOLOGY],
    "links/dcgmi_nvlink_status.txt": [Kind.DCGM_NVLINK],
    "links/lspci_a5000_idle_bar256m.txt": [Kind.LSPCI],
    "links/lspci_gtx1080_idle_no_rebar.txt": [Kind.LSPCI],
    "links/sysfs_link_files_path.txt": [Kind.SYSFS],
    "links/sysfs_resource_8g_rebar.txt": [Kind.SYSFS],
    "links/syslog_aer_correctable.txt": [Kind.KERNEL_LOG],
    "links/nvbandwidth_gen3.json": [Kind.NVBANDWIDTH],
    "links/nvbandwidth_v0.7_pattern_mismatch.txt": [Kind.NVBANDWIDTH],
    "links/all_reduce_nv4_pair.txt": [Kind.NCCL_TESTS],
    "links/p2p_l40s_x2_pcie4.txt": [Kind.P2P_TEST],
    "links/bandwidthTest_shmoo_v100.txt": [Kind.BANDWIDTH_TEST],
    "links/nvbandwidth_v0.10_h100x4.txt": [Kind.NVBANDWIDTH],
    "links/nvbandwidth_v0.6_gh200.txt": [Kind.NVBANDWIDTH],
    "links/all_reduce_a100x8_old.txt": [Kind.NCCL_TESTS],
    "links/p2p_4090x4_no_p2p.txt": [Kind.P2P_TEST],
    "links/gpu_copy_a100x2.txt": [Kind.GPU_COPY],
    "links/gpu_latency_v100.txt": [Kind.GPU_LATENCY],
    "links/latency_sweep_a100sxm.dat": [Kind.LATENCY_SWEEP],
    "links/memtest_latency_rtx3090.json": [Kind.MEMORY_SET],
}


@pytest.mark.parametrize("name", CASES)
def test_a_saved_file_is_recognised_by_what_stands_in_it(name: str) -> None:
    parts = evidence.parts(saved.text(name))

    assert [kind for part in parts for kind in part.kinds] == CASES[name]


@pytest.mark.parametrize("name", CASES)
def test_a_saved_file_is_read_whole_by_the_parsers_of_its_kinds(name: str) -> None:
    read = read_evidence(saved.path(name))

    wanted = {evidence.PARSERS[kind] for kind in CASES[name]}
    assert {evidence.PARSERS[each.kind] for each in read.found} >= wanted
    assert read.notes == ()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.TORCH_SNAPSHOT])  # which is no text
def test_every_kind_is_read(kind: Kind) -> None:
    assert callable(evidence._load(evidence.PARSERS[kind]))


def test_our_own_saved_run_is_recognised_and_read() -> None:
    path = Path(__file__).resolve().parents[1] / "data" / "runs" / "failing_sim" / "run.json"

    (read,) = read_evidence(path).of(Kind.MATS_RUN)

    assert isinstance(read, Run)


def test_gpustat_counts_what_the_driver_reserves() -> None:
    (machine,) = read_evidence(saved.path("health/gpustat_line_v100.txt")).of(Kind.GPUSTAT)

    assert isinstance(machine, MachineFacts) and isinstance(machine.gpus, tuple)
    (gpu,) = machine.gpus
    assert gpu.memory.used_with_reserved == Quantity(308 << 20, Unit.BYTE)
    assert gpu.memory.total == Quantity(32768 << 20, Unit.BYTE)
    assert isinstance(gpu.memory.used, Absent)
    assert gpu.temperature == Quantity(31, Unit.CELSIUS)


def test_a_part_that_is_not_known_is_named_and_does_not_sink_the_others() -> None:
    read = gather(f"$ cat /etc/motd\nwelcome\n$ dmesg | grep NVRM\n{XID}", "notes.txt")

    assert [each.kind for each in read.found] == [Kind.KERNEL_LOG]
    assert read.found[0].origin == "notes.txt, line 4"
    assert read.notes == ("notes.txt: the output of 'cat /etc/motd' is not known here",) or "motd" in read.notes[0]


def test_gzip_of_one_and_of_many_streams_is_unpacked() -> None:
    one, many = gzip.compress(XID.encode()), b"".join(gzip.compress(line.encode()) for line in [XID] * 40)

    for data in (one, many, many + b"\0" * 512):
        read = read_bytes(data, "log.gz", SMALL)
        assert [each.kind for each in read.found] == [Kind.KERNEL_LOG]
        assert read.notes == ()


@pytest.mark.parametrize("chunk", [1, 2, 7, 30, 64])
def test_streams_are_joined_wherever_the_pieces_that_are_read_end(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mats.sources._opening._CHUNK", chunk)
    texts = [f"line {number} of a text\n" for number in range(30)]
    data = b"".join(gzip.compress(text.encode()) for text in texts)

    from mats.sources._opening import open_bytes

    assert open_bytes(data, "x", SMALL).texts[0].text == "".join(texts)


def test_a_cut_gzip_keeps_what_came_and_says_so() -> None:
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=20_000))
    data = gzip.compress(f"{XID}{noise}\n{XID}".encode())

    read = read_bytes(data[: len(data) // 2], "log.gz", SMALL)

    assert read.found[0].cut == "the packed file ends early"
    assert "what follows is unknown" in read.notes[0]


def test_a_damaged_gzip_keeps_what_came_and_says_so() -> None:
    data = gzip.compress(XID.encode()) + b"and then something else"

    assert "damaged" in read_bytes(data, "log.gz", SMALL).found[0].cut


def test_every_member_of_a_zip_is_read_and_the_others_are_named() -> None:
    data = zipped(
        {
            "a/dmesg.txt": XID,
            "health.json.gz": gzip.compress(HEALTH.encode()),
            "photo.png": b"\x89PNG\r\n",
            "empty": "",
        }
    )

    read = read_bytes(data, "all.zip", SMALL)

    assert [(each.kind, each.origin) for each in read.found] == [
        (Kind.KERNEL_LOG, "all.zip:a/dmesg.txt"),
        (Kind.DCGM_HEALTH, "all.zip:health.json.gz"),
    ]
    assert len(read.notes) == 2
    assert "photo.png: is a picture" in read.notes[0]


def test_a_name_within_an_archive_is_never_used_as_a_path(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    read = read_bytes(zipped({"../../escape\n.txt": XID}), str(tmp_path / "x.zip"), SMALL)

    assert read.found[0].origin.endswith("../../escape?.txt")
    assert sorted(tmp_path.rglob("*")) == before


def test_bombs_are_refused_without_being_unpacked() -> None:
    zeros = b" " * (64 << 20)
    tracemalloc.start()
    started = time.process_time()

    sentences = [refusal(gzip.compress(zeros, 9)), refusal(zipped({"bomb": zeros}))]

    sentences.append(refusal(zipped({str(number): b"x" * 300_000 for number in range(5)})))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all("more than the 1 MiB that are read" in sentence for sentence in sentences)
    assert peak < 96 << 20
    assert time.process_time() - started < 10


def test_many_members_many_streams_and_a_lying_directory_are_refused() -> None:
    assert "more than 10 files" in refusal(zipped({str(number): "x" for number in range(11)}))
    assert "more than 50 packed streams" in refusal(gzip.compress(b"x") * 60)
    lying = bytearray(zipped({"a": "x"}))
    struct.pack_into("<I", lying, len(lying) - 10, 1 << 30)
    assert "more than 10 files" in refusal(bytes(lying))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\n\t", "is empty"),
        (bytes(range(256)) * 40, "binary, not text"),
        (b"\0" * 4096, "is empty|binary, not text"),
        (b"PK\x03\x04 but not really", "without its end"),
        (b"\x1f\x8b but not really", "nothing of it could be unpacked"),
        (gzip.compress(gzip.compress(b"x")), "packed twice"),
        (gzip.compress(b""), "empty"),
        (b"BZh91AY&SY", "bunzip2"),
        (b"\xfd7zXZ\x00\x00", "unxz"),
        (b"\x28\xb5\x2f\xfd\x00", "unzstd"),
        (b"\x00" * 257 + b"ustar", "tar archive"),
        (b"\x7fELF\x02", "program"),
        (b"Dear colleague, the machine is slow.\n", "not known here"),
        (b'{"hello": "world"}', "not known here"),
        (b'<?xml version="1.0"?><html/>', "not known here"),
    ],
    ids=range(16),  # not the data: packed bytes carry the time they were packed at
)
def test_what_is_no_evidence_is_said_in_one_sentence(data: bytes, says: str) -> None:
    sentence = refusal(data)

    assert any(word in sentence for word in says.split("|"))


def test_paths_that_are_no_saved_file_are_said_in_one_sentence(tmp_path: Path) -> None:
    loop, pipe, empty = tmp_path / "loop", tmp_path / "pipe", tmp_path / "empty"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    empty.touch()
    says = {
        loop: "lead in a circle",
        pipe: "a pipe, a socket or a device",
        Path("/dev/null"): "a pipe, a socket or a device",
        empty: "is empty",
        tmp_path: "no copy of /sys",
        tmp_path / "none": "no such file",
        tmp_path / ("x" * 300): "too long",
        Path("a\0b"): "no name of a file",
    }

    for path, word in says.items():
        with pytest.raises(EvidenceError, match=word):
            read_evidence(path)


def test_a_file_of_two_gigabytes_that_holds_nothing_is_refused_at_once(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(2 << 30)
    started = time.process_time()

    with pytest.raises(EvidenceError, match=r"binary, not text \(2048 MiB\)"):
        read_evidence(sparse)

    assert time.process_time() - started < 1


def test_a_log_above_the_maximum_is_read_in_pieces_and_other_texts_are_refused(tmp_path: Path) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    log.write_text(XID * 100)
    table.write_text('{"Overall Health": 1}\n' * 100)
    tiny = Maxima(text=1000)

    assert [each.kind for each in read_evidence(log, tiny).found] == [Kind.KERNEL_LOG]
    with pytest.raises(EvidenceError, match="larger than any saved output"):
        read_evidence(table, tiny)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_of_other_systems_are_read(encoding: str, end: str) -> None:
    text = XID.replace("\n", end) * 3

    assert recognise(text) == (Kind.KERNEL_LOG,)
    assert read_bytes(text.encode(encoding), "log", SMALL).found[0].kind is Kind.KERNEL_LOG


def test_colours_of_dmesg_and_zeros_of_a_crash_do_not_hide_a_log() -> None:
    text = f"\x1b[32m[ 1234.567890] \x1b[0m\x1b[33mNVRM: \x1b[0mXid (PCI:0000:01:00): 79, x\n{XID * 50}".encode()

    read = read_bytes(text + b"\0" * 64 + b"\n" + XID.encode(), "log", SMALL)

    assert [each.kind for each in read.found] == [Kind.KERNEL_LOG]
    assert read.notes == ()


def test_a_copy_of_the_tree_is_read_from_its_folder(tmp_path: Path) -> None:
    gpu = tmp_path / "sys" / "bus" / "pci" / "devices" / "0000:01:00.0"
    gpu.mkdir(parents=True)
    (gpu / "class").write_text("0x030000\n")

    assert [each.kind for each in read_evidence(tmp_path).found] == [Kind.SYSFS]


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for each in (data, b"\x1f\x8b" + data, gzip.compress(data), b"PK\x03\x04" + data, XID.encode() + data):
        try:
            read_bytes(each, "saved", SMALL)
        except EvidenceError as error:
            assert str(error).startswith("saved")


WHOLE = zipped({"dmesg.txt": XID, "health.json.gz": gzip.compress(HEALTH.encode())})


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_no_damage_to_an_archive_raises_anything_else(place: int, byte: int, end: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] = byte
    for data in (bytes(damaged), WHOLE[:end]):
        try:
            read_bytes(data, "saved", SMALL)
        except EvidenceError as error:
            assert str(error).startswith("saved")
