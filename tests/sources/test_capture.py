"""A machine in one file: it comes back as it was, and without names when that was asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mats.codec import to_data
from mats.facts import HostFacts, IncidentFacts, IncidentGrade, LogFacts, MachineFacts, PciDevice, ProcessFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.source import NothingThere
from mats.sources import capture
from mats.sources._kernel_doors import Finished
from mats.sources._redact import Identity, redacted
from mats.sources.capture import SCHEMA_VERSION, Capture, CaptureError, capture_to_bytes, parse_capture
from mats.sources.evidence import Kind, read_bytes
from mats.sources.live import open_source as open_live
from mats.sources.saved import open_source

from .machine import H100, LINK, PORT, Commands, Nvml, card, machine, pci, told, write
from .stand_in import library

NONE = Absent(AbsenceKind.NOT_FOUND, "not told")
UUID_A, UUID_B = (f"GPU-{letter * 8}-1111-2222-3333-{letter * 12}" for letter in "ab")
HOST, USER, PROGRAM, SERIAL, NUMBER = "falcon-node07", "alice", "secret_trainer", "1652921004511", "192.168.44.7"
LINE = f"Feb  1 10:00:00 {HOST} kernel: NVRM: Xid (PCI:0000:10:00): 31, pid=77, name={PROGRAM}, Ch 0000000a"
RAW = (
    f'<serial>{SERIAL}</serial>\n<uuid>{UUID_A}</uuid>\n<gpu id="00000000:10:00.0">\n'
    f"<process_name>/home/{USER}/bin/{PROGRAM} --data /home/{USER}/x</process_name>\n"
    f"Linux {HOST} 6.8.0-45-generic\nconnected to {NUMBER}:4433 and fe80::1ff:fe23:4567:890a, mac 48:b0:2d:aa:bb:cc\n"
    f"Serial Number: {SERIAL}\nfabric of {HOST}.cluster.example is up\n"
    "driver 580.95.05, VBIOS 96.00.89.00.01, NVML 12.575.57.08, image G520.0200.00.05\n"
)
SECRETS = (
    HOST,
    HOST.split("-")[1],
    USER,
    PROGRAM,
    SERIAL,
    NUMBER,
    UUID_A[4:],
    UUID_B[4:],
    "fe80::1ff",
    "aa:bb:cc",
    "cluster.example",
)


def facts(**more: object) -> MachineFacts:
    gpus = (
        card(0, uuid=UUID_A, serial=SERIAL, processes=(ProcessFacts(77, NONE, name=PROGRAM),)),
        card(1, uuid=UUID_B, answers=False),
    )
    incident = IncidentFacts(
        kind="application",
        pci="0000:10:00.0",
        grade=IncidentGrade.APPLICATION,
        title="a program did something illegal on 0000:10:00.0",
        explains=(f"process 77 ({PROGRAM}) is named in it",),
        advice="Look at the program.",
        age=Quantity(60, Unit.SECOND),
        lines=(LINE,),
    )
    log = LogFacts((incident,), "dmesg", "10 lines")
    base = told(*gpus, log=log, host=HostFacts(name=HOST), notes=(f"/home/{USER}/log: is cut",))
    return dataclasses.replace(base, **more)  # type: ignore[arg-type]


def whole(**more: object) -> Capture:
    return Capture("mats 1.2.3", "2026-11-30T12:00:00+00:00", facts(**more), (("nvidia-smi -q -x", RAW),))


def saved(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "capture.json.gz"
    path.write_bytes(content)
    return path


def test_the_facts_come_back_as_they_were(tmp_path: Path) -> None:
    machine_facts = open_source((saved(tmp_path, capture_to_bytes(whole())),)).read()

    assert dataclasses.replace(machine_facts, notes=()) == dataclasses.replace(facts(), notes=())
    assert machine_facts.notes == (*facts().notes, "captured 2026-11-30T12:00:00+00:00 by mats 1.2.3")


def test_a_capture_of_a_simulated_machine_stays_simulated(tmp_path: Path) -> None:
    source = open_source((saved(tmp_path, capture_to_bytes(whole(simulated=True))),))

    assert source.read().simulated
    assert source.describe().simulated


@pytest.mark.parametrize("profile", ["h100x8", "a100_mig", "fallen_off_bus", "rtx4060_laptop", "v100_retired"])
def test_every_kind_of_machine_survives(tmp_path: Path, profile: str) -> None:
    from mats.sources.nvml import read_machine

    seen = read_machine(library=library(profile))

    kept = open_source((saved(tmp_path, capture_to_bytes(Capture("mats 1", "now", seen))),)).read()

    assert dataclasses.replace(kept, notes=()) == seen


def test_a_capture_is_known_by_what_stands_in_it_whatever_it_holds(tmp_path: Path) -> None:
    texts = "Start of NVIDIA bug report log file.\n<nvidia_smi_log>\nnvbandwidth Version: 1\n$ dmesg\n"
    data = capture_to_bytes(dataclasses.replace(whole(), raw=(("log", texts),)))

    for each in (data, gzip.decompress(data)):
        assert [found.kind for found in read_bytes(each, "x").found] == [Kind.MATS_CAPTURE]


def test_the_same_capture_gives_the_same_bytes() -> None:
    assert capture_to_bytes(whole()) == capture_to_bytes(whole())


def test_a_machine_without_a_gpu_is_captured_and_says_the_same_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    why = Absent(AbsenceKind.NOT_FOUND, "NVML: the NVML library is not installed")
    here = machine(tmp_path, Nvml(told(gpus=why, attached=why, nvml_failure=why.reason)))
    with pytest.raises(NothingThere) as live:
        open_live((), None, lambda target: pytest.fail(target.name), here)
    assert live.value.facts is not None

    with pytest.raises(NothingThere) as elsewhere:
        open_source((saved(tmp_path, capture_to_bytes(Capture("mats 1", "now", live.value.facts))),))

    assert str(elsewhere.value).endswith(str(live.value))


def damaged(change: dict[str, object]) -> str:
    data = json.loads(gzip.decompress(capture_to_bytes(whole())))
    return json.dumps({**data, **change})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (damaged({"schema_version": SCHEMA_VERSION + 1}), "written by a newer mats"),
        (damaged({"schema_version": "1"}), "does not say which layout"),
        (damaged({"facts": {"gpus": 3}}), "this capture is damaged"),
        (damaged({"facts": []}), "this capture is damaged"),
        (damaged({"mats_capture": 1}), "no capture of mats"),
        ('{"mats_capture": "mats 1", "schema_version": 1}', "holds no facts"),
        ('{"mats_capture": "mats 1", "schema_version": 1, "fac', "cut before its facts"),
        ('{"mats_capture": ' + "[" * 5000, "nested"),
        ("[1, 2", "no capture of mats"),
        ("[1}", "cannot be read"),
    ],
)
def test_a_damaged_capture_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(CaptureError) as refused:
        parse_capture(text)

    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_capture_cut_within_its_raw_texts_has_lost_nothing_that_is_judged(tmp_path: Path) -> None:
    text = gzip.decompress(capture_to_bytes(whole())).decode()

    in_raw, in_facts = text[: text.index("<serial>")], text[: text.index('"claims"')]

    assert parse_capture(in_raw).partial == ""
    assert parse_capture(in_facts).partial == "the JSON ends before it is complete"


def test_raw_texts_are_those_of_the_machine(tmp_path: Path) -> None:
    pci(tmp_path, "00:10.0", **PORT, **LINK)
    pci(tmp_path, "00:10.0/10:00.0", **H100, **LINK)
    write(tmp_path, "proc/driver/nvidia/version", "NVRM version: 580\n")
    log = b"[    1.0] usb 1-1: new\n[    9.000000] NVRM: Xid (PCI:0000:10:00): 79, x\n"
    commands = Commands(
        {"dmesg": Finished(0, log, b""), "nvidia-smi": Finished(0, b"<x/>", b""), "lspci": TimeoutError("slow")}
    )
    here = machine(tmp_path, Nvml(told(card(0))), commands)
    seen = open_live((), None, lambda target: pytest.fail(target.name), here).read()

    raw = dict(capture.collect(seen, 5.0, tmp_path, commands))

    assert raw["kernel log (dmesg), lines about GPUs"] == log.decode().splitlines(keepends=True)[1]
    assert raw["nvidia-smi -q -x"] == "<x/>"
    assert raw["lspci -D -nn -vv"] == "not had: slow"
    assert raw["/proc/driver/nvidia/version"] == "NVRM version: 580\n"
    (found,) = read_bytes(raw["sysfs"].encode(), "sysfs").found
    assert found.kind is Kind.SYSFS
    devices = found.facts.devices  # type: ignore[attr-defined]
    assert [device.address for device in devices] == ["0000:10:00.0", "0000:00:10.0"]
    assert isinstance(devices[0], PciDevice) and devices[0].upstream == ("0000:00:10.0",)


def test_a_sleeping_gpu_is_not_woken_for_raw_texts(tmp_path: Path) -> None:
    commands = Commands({"nvidia-smi": Finished(0, b"<x/>", b"")})

    raw = dict(capture.collect(told(card(0, asleep=True)), 5.0, tmp_path, commands))

    assert "nvidia-smi" not in commands.asked and "lspci" not in commands.asked
    assert raw["nvidia-smi and lspci"] == "not asked: they would wake a GPU that sleeps"


def test_nothing_of_identity_is_left_in_a_redacted_capture() -> None:
    data = gzip.decompress(capture_to_bytes(redacted(whole(), Identity((HOST,), (USER,))))).decode()

    assert [secret for secret in SECRETS if secret.casefold() in data.casefold()] == []


def test_what_is_no_identity_stays() -> None:
    new = redacted(whole(), Identity())

    (_, raw) = new.raw[0]
    for kept in ("580.95.05", "96.00.89.00.01", "12.575.57.08", "G520.0200.00.05", "00000000:10:00.0", "6.8.0-45"):
        assert kept in raw
    assert isinstance(new.facts.gpus, tuple) and isinstance(new.facts.log, LogFacts)
    assert [gpu.pci for gpu in new.facts.gpus] == ["0000:10:00.0", "0000:11:00.0"]
    assert [gpu.name for gpu in new.facts.gpus] == ["NVIDIA H100"] * 2
    assert new.facts.log.incidents[0].advice == "Look at the program."
    assert "Xid (PCI:0000:10:00): 31, pid=77" in new.facts.log.incidents[0].lines[0]
    assert new.redacted is True


def test_the_same_thing_has_the_same_replacement_everywhere() -> None:
    new = redacted(whole(), Identity())

    assert isinstance(new.facts.gpus, tuple) and isinstance(new.facts.log, LogFacts)
    first, second = new.facts.gpus
    (_, raw) = new.raw[0]
    assert isinstance(first.processes, tuple)
    assert first.uuid == "GPU-00000000-0000-0000-0000-000000000001" and f"<uuid>{first.uuid}</uuid>" in raw
    assert second.uuid == "GPU-00000000-0000-0000-0000-000000000002"
    assert f"<serial>{first.serial}</serial>" in raw and f"Serial Number: {first.serial}" in raw
    (incident,) = new.facts.log.incidents
    name = first.processes[0].name
    assert incident.explains == (f"process 77 ({name}) is named in it",)
    assert f"name={name}," in incident.lines[0]
    assert f" {new.facts.host.name} kernel:" in incident.lines[0] and f"Linux {new.facts.host.name} 6.8" in raw


def test_a_redacted_capture_is_judged_by_the_same_figures(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = open_source((saved(tmp_path / "a", capture_to_bytes(whole())),)).read()

    other = open_source((saved(tmp_path / "b", capture_to_bytes(redacted(whole(), Identity()))),)).read()

    assert figures(other) == figures(plain)


def figures(machine_facts: MachineFacts) -> list[object]:
    """Every number, flag and word of a closed list in a picture."""
    found: list[object] = []

    def walk(data: object) -> None:
        if isinstance(data, dict):
            found.extend(data[key] for key in ("kind", "grade", "unit") if key in data)
            for value in data.values():
                walk(value)
        elif isinstance(data, list):
            for value in data:
                walk(value)
        elif not isinstance(data, str):
            found.append(data)

    walk(to_data(machine_facts))
    return found


WORDS = st.sampled_from(
    ["watch", "count", "not_found", "B", "none", "python3", "reset", "NVIDIA", "s", "a.b", "x" * 40, "GPU", "77"]
)


@settings(max_examples=60)
@given(name=WORDS | st.text(min_size=1, max_size=20), host=WORDS, user=WORDS)
def test_whatever_names_there_are_the_facts_can_be_read_afterwards(name: str, host: str, user: str) -> None:
    gpus = (card(0, serial=name, processes=(ProcessFacts(1, NONE, name=name),)),)
    before = facts(gpus=gpus, host=HostFacts(name=host))

    after = redacted(Capture("mats 1", "now", before, (("raw", f"name={name}, x"),)), Identity((host,), (user,)))

    assert figures(after.facts) == figures(before)


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    for each in (text, '{"mats_capture": "mats 1", "schema_version": 1, "facts": ' + text):
        with contextlib.suppress(CaptureError):
            parse_capture(each)
