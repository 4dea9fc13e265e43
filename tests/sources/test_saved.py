"""Several saved files as one machine: what belongs together is joined, what does not is said."""

from __future__ import annotations

import dataclasses
import gzip
import os
import random
import zipfile
from pathlib import Path

import pytest

from mats.codec import run_from_json, run_to_json
from mats.facts import UNASKED, ClaimStatus, GpuFacts, LogFacts, MachineFacts
from mats.model import Absent, Quantity, Unit
from mats.probe import UsageError
from mats.source import NothingThere
from mats.sources.capture import Capture, capture_to_bytes
from mats.sources.saved import open_source

from . import saved

CSV = "index, uuid, pci.bus_id, temperature.gpu\n0, {uuid}, 00000000:4E:00.0, {heat}\n"
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
NVLINK = "GPU 0: NVIDIA H100 (UUID: {uuid})\n\t Link 0: 26.562 GB/s\n"
LSPCI = (
    "4e:00.0 3D controller: NVIDIA Corporation GH100 [H100] (rev a1)\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n"
)
XID = "{prefix}NVRM: Xid (PCI:0000:4e:00): 79, pid=17, name=train, GPU has fallen off the bus.\n"
LOGGED = "[    9.000000] NVRM: GPU at PCI:0000:4e:00: {uuid}\n"


def picture(folder: Path, **texts: str | bytes) -> MachineFacts:
    """What files of these names and contents tell together."""
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return open_source(paths).read()


def gpus(machine: MachineFacts) -> tuple[GpuFacts, ...]:
    assert not isinstance(machine.gpus, Absent)
    return machine.gpus


def test_a_gpu_in_three_files_is_one_whatever_each_knows_it_by(tmp_path: Path) -> None:
    machine = picture(tmp_path, bus=LSPCI, links=NVLINK.format(uuid=A), smi=CSV.format(uuid=A, heat=40))

    (gpu,) = gpus(machine)
    assert (gpu.uuid, gpu.pci, gpu.temperature.value) == (A, "0000:4e:00.0", 40)  # type: ignore[union-attr]
    assert gpu.nvlink.active == Quantity(1, gpu.nvlink.active.unit)  # type: ignore[union-attr]
    assert gpu.pcie.generation_device.value == 5  # type: ignore[union-attr]
    assert machine.notes == ()


def test_a_gpu_known_by_its_address_and_one_known_by_its_uuid_are_one_where_the_log_says_so(tmp_path: Path) -> None:
    log = LOGGED.format(uuid=A) + XID.format(prefix="[   10.000000] ")

    machine = picture(tmp_path, bus=LSPCI, links=NVLINK.format(uuid=A), log=log)

    (gpu,) = gpus(machine)
    assert (gpu.uuid, gpu.pci) == (A, "0000:4e:00.0")


def test_a_card_that_was_changed_since_the_log_keeps_its_own_uuid(tmp_path: Path) -> None:
    log = LOGGED.format(uuid=B) + XID.format(prefix="[   10.000000] ")

    machine = picture(tmp_path, smi=CSV.format(uuid=A, heat=40), log=log)

    assert [gpu.uuid for gpu in gpus(machine)] == [A]


def test_files_of_two_machines_are_listed_side_by_side_and_said(tmp_path: Path) -> None:
    machine = picture(tmp_path, one=CSV.format(uuid=A, heat=40), other=CSV.format(uuid=B, heat=90))

    first, second = gpus(machine)
    assert (first.uuid, first.temperature.value) == (A, 40)  # type: ignore[union-attr]
    assert (second.uuid, second.temperature.value) == (B, 90)  # type: ignore[union-attr]
    assert isinstance(second.index, Absent) and isinstance(second.pci, Absent)
    (note,) = machine.notes
    assert "of two machines, or cards were changed" in note


def test_the_later_of_two_pictures_has_the_word_and_the_time_between_is_said(tmp_path: Path) -> None:
    head = "timestamp, index, uuid, temperature.gpu\n"
    old, new = (f"{head}2026/01/0{day} 10:00:00.000, 0, {A}, {heat}\n" for day, heat in ((1, 40), (3, 70)))

    machine = picture(tmp_path, old=old, new=new)

    (gpu,) = gpus(machine)
    assert gpu.temperature.value == 70  # type: ignore[union-attr]
    assert any("was taken 48 h after" in note for note in machine.notes)


def test_different_drivers_in_two_files_are_said(tmp_path: Path) -> None:
    text = "driver_version, uuid\n{0}, {1}\n"

    machine = picture(tmp_path, one=text.format("570.1", A), other=text.format("580.2", A))

    assert any("570.1" in note and "580.2" in note for note in machine.notes)


def test_one_incident_in_two_logs_of_a_machine_is_one(tmp_path: Path) -> None:
    ring = XID.format(prefix="[   10.000000] ")
    syslog = XID.format(prefix="Feb  1 10:00:00 node1 kernel: [   10.000000] ")

    machine = picture(tmp_path, ring=ring, syslog=syslog)

    assert isinstance(machine.log, LogFacts)
    assert len(machine.log.incidents) == 1
    assert "ring: 1 lines" in machine.log.covers and "syslog: 1 lines" in machine.log.covers


def test_logs_of_several_machines_are_said(tmp_path: Path) -> None:
    one, other = (XID.format(prefix=f"Feb  1 10:00:00 {name} kernel: ") for name in ("node1", "node2.example"))

    machine = picture(tmp_path, one=one, other=other)
    alone = picture(tmp_path, one=one, ring=XID.format(prefix="[   10.000000] "))

    (note,) = machine.notes
    assert note.startswith("2 machines are named: node1 (") and "node2 (" in note
    assert alone.notes == ()


def test_incidents_of_two_days_in_two_logs_are_two(tmp_path: Path) -> None:
    first, second = (XID.format(prefix=f"[Mon Feb  {day} 10:00:00 2026] ") for day in (2, 9))

    machine = picture(tmp_path, first=first, second=second)

    assert isinstance(machine.log, LogFacts)
    assert len(machine.log.incidents) == 2


def test_the_same_fault_twice_in_one_log_and_once_in_another_is_two(tmp_path: Path) -> None:
    twice = "".join(XID.format(prefix=f"[Mon Feb  {day} 10:00:00 2026] ") for day in (2, 9))

    machine = picture(tmp_path, first=twice, second=XID.format(prefix="[Mon Feb  9 10:00:01 2026] "))

    assert isinstance(machine.log, LogFacts)
    assert len(machine.log.incidents) == 2


def test_an_earlier_run_of_our_own_is_a_claim_beside_the_facts(tmp_path: Path) -> None:
    run = Path(__file__).resolve().parents[1] / "data" / "runs" / "clean_host" / "run.json"

    machine = picture(tmp_path, run=run.read_bytes(), smi=CSV.format(uuid=A, heat=40))

    assert [(claim.tool.split()[0], claim.status) for claim in machine.claims] == [("mats", ClaimStatus.PASS)]
    assert [gpu.uuid for gpu in gpus(machine)] == [A]


def test_a_simulated_machine_is_said_to_be_one_and_never_mixed_with_a_real_one(tmp_path: Path) -> None:
    gpu = GpuFacts(index=Quantity(0, Unit.COUNT))
    made_up, real = tmp_path / "made_up.gz", tmp_path / "real"
    made_up.write_bytes(capture_to_bytes(Capture("mats 1", "now", MachineFacts(gpus=(gpu,), simulated=True))))
    real.write_text(CSV.format(uuid=A, heat=40))

    assert open_source((made_up,)).describe().simulated is True
    assert open_source((real,)).describe().simulated is False
    with pytest.raises(UsageError, match=r"real is of a real machine and another file of a simulated one"):
        open_source((made_up, real))


def test_nothing_of_a_simulated_run_is_taken(tmp_path: Path) -> None:
    path = Path(__file__).resolve().parents[1] / "data" / "runs" / "failing_sim" / "run.json"
    run = run_from_json(path.read_text())
    assert any(info.simulated for info in run.targets)

    machine = picture(tmp_path, run=run_to_json(run), smi=CSV.format(uuid=A, heat=40))

    assert machine.claims == ()
    assert any("simulated card" in note for note in machine.notes)


def test_a_speed_test_among_the_files_is_a_note(tmp_path: Path) -> None:
    speed = (saved.OWN / "links" / "nvbandwidth_v0.10_h100x4.txt").read_text()

    machine = picture(tmp_path, speed=speed, smi=CSV.format(uuid=A, heat=40))

    assert any("speed: is output of nvbandwidth" in note and "nvlink-test" in note for note in machine.notes)
    (run,) = machine.transfers
    assert (run.tool, run.origin) == ("nvbandwidth", str(tmp_path / "speed"))


def test_a_part_of_a_file_that_nobody_knows_is_a_note(tmp_path: Path) -> None:
    machine = picture(
        tmp_path, notes=f"$ cat /etc/motd\nhello\n$ nvidia-smi --query-gpu=x --format=csv\n{CSV.format(uuid=A, heat=4)}"
    )

    assert any("cat /etc/motd" in note for note in machine.notes)


def test_a_file_that_was_cut_makes_the_picture_partial(tmp_path: Path) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=20_000))
    packed = gzip.compress((XID.format(prefix="[   10.000000] ") + noise).encode())
    table = (saved.OWN / "health" / "dcgm4_text_table.txt").read_bytes()

    machine = picture(tmp_path, log=packed[: len(packed) // 2], diag=table)

    assert isinstance(machine.log, LogFacts)
    assert "log: the packed file ends early" in machine.partial
    assert "diag: the table ends without its closing line" in machine.partial


def test_of_xml_that_was_cut_the_rest_is_unknown_and_not_healthy(tmp_path: Path) -> None:
    whole = (Path(__file__).resolve().parents[1] / "data" / "smi" / "h100_reset_v13.xml").read_text()

    machine = picture(tmp_path, smi=whole[: whole.index("<ecc_errors>")])

    (gpu,) = gpus(machine)
    assert machine.partial
    assert isinstance(gpu.ecc.uncorrected, Absent) and "cut off" in gpu.ecc.uncorrected.reason


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 40, "binary, not text"),
        (b"Dear colleague, the machine is slow.\n", "not known here"),
        (b"nvbandwidth Version: v0.6\n", "looks like nvbandwidth, but it holds no result"),
    ],
)
def test_a_file_that_is_no_evidence_ends_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "saved"
    path.write_bytes(content)

    with pytest.raises(UsageError) as refused:
        open_source((path,))

    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_no_ordinary_file_ends_in_one_sentence(tmp_path: Path) -> None:
    loop, pipe, secret, bomb, huge = (tmp_path / name for name in ("loop", "pipe", "secret", "bomb.zip", "huge"))
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    secret.write_text("x")
    secret.chmod(0)
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(300 << 20))
    with huge.open("wb") as file:
        file.truncate(2 << 30)
    says = {
        loop: "lead in a circle",
        pipe: "a pipe, a socket or a device",
        bomb: "unpacks to more than the 256 MiB",
        huge: "binary, not text (2048 MiB)",
        tmp_path: "no copy of /sys",
    }
    if os.geteuid() != 0:
        says[secret] = "no permission"

    for path, words in says.items():
        with pytest.raises(UsageError) as refused:
            open_source((path,))

        assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_not_passed_over_for_the_others(tmp_path: Path) -> None:
    smi = tmp_path / "smi"
    smi.write_text(CSV.format(uuid=A, heat=40))

    with pytest.raises(UsageError, match="there is no such file"):
        open_source((smi, tmp_path / "gone"))


def test_a_bus_with_cards_of_other_makers_only_names_them_and_their_tools(tmp_path: Path) -> None:
    text = "c5:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Strix Halo [Radeon 8060S] (rev c1)\n"
    path = tmp_path / "lspci"
    path.write_text(text)

    with pytest.raises(NothingThere) as nothing:
        open_source((path,))

    assert "Radeon 8060S" in str(nothing.value) and "amd-smi or rocm-smi" in str(nothing.value)


def test_the_target_says_what_it_is_and_saved_links_cannot_be_warmed(tmp_path: Path) -> None:
    path = tmp_path / "smi"
    path.write_text(CSV.format(uuid=A, heat=40))
    source = open_source((path,))

    info, cold, warm = source.describe(), source.read(), source.read(load=True)

    assert (info.kind, info.title) == ("file", "1 GPU, from 1 file")
    assert ("uuid", A) in info.identity
    assert dataclasses.replace(warm, notes=()) == dataclasses.replace(cold, notes=())
    assert "could not be kept busy" in warm.notes[-1]


def test_what_no_file_holds_was_not_asked_for(tmp_path: Path) -> None:
    machine = picture(tmp_path, log=XID.format(prefix="[   10.000000] "))

    assert machine.gpus == machine.devices == machine.host.nodes == UNASKED
