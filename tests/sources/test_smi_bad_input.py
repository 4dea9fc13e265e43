"""Cut, broken and hostile files: a cut one says so and keeps what was whole, any other is refused in one sentence."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts import MachineFacts
from mats.model import Absent
from mats.sources import nvidia_smi

DATA = Path(__file__).resolve().parents[1] / "data"
KINDS = ("smi_*", "*smi*", "nvlink_*", "topo_*")
FILES = sorted({*(DATA / "smi").iterdir(), *(path for kind in KINDS for path in (DATA / "cases").rglob(kind))})
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in FILES}


LISTS = (".processes", ".instances", ".reasons")
"""Lists whose end matters: one process or one reason less is another conclusion."""


def values(thing: object, path: str = "") -> dict[str, object]:
    """Every value of a picture that is not absent, by its path; of a list also how long it is."""
    if isinstance(thing, Absent) or (isinstance(thing, tuple) and not thing and not path.endswith(LISTS)):
        return {}
    if isinstance(thing, tuple) and path.endswith(LISTS):
        listed = {f"{path}.length": len(thing)}
        return listed | {
            at: value for n, each in enumerate(thing) for at, value in values(each, f"{path}[{n}]").items()
        }
    if isinstance(thing, tuple):
        return {at: value for place, each in enumerate(thing) for at, value in values(each, f"{path}[{place}]").items()}
    names = getattr(thing, "__dataclass_fields__", None)
    if names is None or not hasattr(type(thing), "__slots__") or type(thing).__name__ == "Quantity":
        return {path: thing}
    return {at: value for name in names for at, value in values(getattr(thing, name), f"{path}.{name}").items()}


@pytest.mark.parametrize("name", ["h100_reset_v13.xml", "v100_old_v9.xml"])
def test_xml_cut_anywhere_says_so_and_holds_no_value_that_the_whole_has_not(name: str) -> None:
    whole = values(nvidia_smi.parse(TEXTS[name]))

    for length in range(TEXTS[name].index("<gpu ") + 60, TEXTS[name].rindex("</nvidia_smi_log>"), 37):
        cut = nvidia_smi.parse(TEXTS[name][:length])

        assert "cut off" in cut.partial
        for path, value in values(cut).items():
            assert path == ".partial" or whole.get(path) == value, (length, path)


def test_text_cut_anywhere_holds_no_value_that_the_whole_has_not() -> None:
    text = TEXTS["a30_mig_and_l4.txt"]
    whole = values(nvidia_smi.parse(text))

    for length in range(text.index("    Product Name"), text.index("GPU 00000000:5E"), 37):
        cut = nvidia_smi.parse(text[:length])

        for path, value in values(cut).items():
            assert path == ".partial" or whole.get(path) == value, (length, path)


@pytest.mark.parametrize("name", ["table_processes_inforom.txt", "nvlink_s_v100_two_inactive.txt"])
def test_lines_cut_anywhere_hold_no_value_that_the_whole_has_not(name: str) -> None:
    whole = values(nvidia_smi.parse(TEXTS[name]))

    for length in range(0, len(TEXTS[name]), 5):
        try:
            cut = nvidia_smi.parse(TEXTS[name][:length])
        except nvidia_smi.SmiError:
            continue
        for path, value in values(cut).items():
            counted = path.endswith(".active") and "links" not in path
            assert counted or path.endswith(".partial") or whole.get(path) == value, (length, path)


def test_a_cell_that_lacks_the_unit_of_its_column_is_cut() -> None:
    machine = nvidia_smi.parse("index, memory.used [MiB]\n0, 57 MiB\n1, 57")

    assert "cut off" in machine.partial
    assert not isinstance(machine.gpus, Absent) and len(machine.gpus) == 1


def test_a_recording_of_a_day_is_read_fast() -> None:
    head = "timestamp, index, uuid, utilization.gpu [%], memory.used [MiB]\n"
    text = head + "".join(f"2026/01/01 10:00:00.000, {n % 8}, GPU-{n % 8}, 97 %, {n} MiB\n" for n in range(100_000))
    started = time.process_time()

    machine = nvidia_smi.parse(text)

    assert time.process_time() - started < 5
    assert not isinstance(machine.gpus, Absent) and len(machine.gpus) == 8


def test_a_link_cut_in_its_speed_leaves_the_number_of_links_unknown() -> None:
    text = TEXTS["nvlink_s_v100_two_inactive.txt"]

    machine = nvidia_smi.parse(text[: text.rindex(" GB/s") - 2])

    assert not isinstance(machine.gpus, Absent)
    assert "cut off" in machine.partial
    assert isinstance(machine.gpus[0].nvlink.active, Absent)


def test_the_gaps_of_a_cut_gpu_say_that_the_file_is_cut() -> None:
    text = TEXTS["v100_old_v9.xml"]

    machine = nvidia_smi.parse(text[: text.index("<retired_pages>")])

    assert not isinstance(machine.gpus, Absent)
    (gpu,) = machine.gpus
    assert isinstance(gpu.retired.pending, Absent) and "cut off" in gpu.retired.pending.reason


def test_text_cut_in_its_second_gpu_says_so() -> None:
    text = TEXTS["a30_mig_and_l4.txt"]

    whole_first = nvidia_smi.parse(text[: text.index("GPU 00000000:5E")])
    in_second = nvidia_smi.parse(text[: text.index("        GPU Current Temp                  : Unknown Error") + 40])
    in_first = nvidia_smi.parse(text[: text.index("    Compute Mode") + 20])

    assert "cut off" in in_second.partial and "cut off" in in_first.partial
    assert not isinstance(whole_first.attached, Absent)  # 2 are attached and 1 is shown: the check counts them


def test_a_table_cut_in_a_row_says_so() -> None:
    text = TEXTS["table_processes_inforom.txt"]

    machine = nvidia_smi.parse(text[: text.index("| N/A   ERR!")])

    assert "cut off" in machine.partial
    assert not isinstance(machine.gpus, Absent)
    last = machine.gpus[-1]
    assert isinstance(last.memory.used, Absent) and "cut off" in last.memory.used.reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        "hello",
        "a,b,c\n1,2,3\n",
        "<html><body/></html>",
        "<nvidia_smi_logo/>",
        "GPU",
        "| a | b | c |",
        "+---+",
    ],
)
def test_another_tool_s_text_is_refused_in_one_sentence(text: str) -> None:
    assert not nvidia_smi.looks_like_smi(text) or text.startswith("<nvidia")
    with pytest.raises(nvidia_smi.SmiError) as refused:
        nvidia_smi.parse(text)

    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("data", [b"\x7fELF\0\0\1", b"\0" * 100, bytes(range(256))])
def test_a_binary_file_is_refused(data: bytes) -> None:
    with pytest.raises(nvidia_smi.SmiError, match="binary"):
        nvidia_smi.read(data)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(2 << 30)

    with pytest.raises(nvidia_smi.SmiError, match="larger than 64 MiB"):
        nvidia_smi.read(large)
    with pytest.raises(nvidia_smi.SmiError, match="cannot be read"):
        nvidia_smi.read(tmp_path / "none.txt")
    with pytest.raises(nvidia_smi.SmiError, match="cannot be read"):
        nvidia_smi.read(tmp_path)


def test_a_file_redirected_by_powershell_is_read() -> None:
    machine = nvidia_smi.read(("\ufeff" + TEXTS["table_processes_inforom.txt"]).encode("utf-16-le"))

    assert not isinstance(machine.gpus, Absent) and len(machine.gpus) == 2


def test_declared_entities_are_refused_and_never_expanded() -> None:
    lines = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    bomb = (
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{lines}]><nvidia_smi_log><gpu>&a11;</gpu></nvidia_smi_log>'
    )
    started = time.perf_counter()

    with pytest.raises(nvidia_smi.SmiError, match="entities"):
        nvidia_smi.parse(bomb)

    assert time.perf_counter() - started < 1


def test_an_outside_entity_is_not_fetched() -> None:
    text = '<!DOCTYPE x SYSTEM "file:///etc/hostname"><nvidia_smi_log><driver_version>&x;</driver_version></nvidia_smi_log>'

    assert nvidia_smi.parse(text).driver == "&x;"


@pytest.mark.parametrize(
    "hostile",
    [
        "<nvidia_smi_log>" + "<a>" * 100_000,
        "<nvidia_smi_log>" + "<a/>" * 1_000_000,
        "    ECC Errors\n        Volatile : 1\n" + "a " * 300_000 + "\n",
        "    ECC Errors\n        Volatile : 1\n" + ("x" + " " * 3000 + "y\n") * 300,
        "NVSMI LOG" + "=" * 1_000_000,
        "| " * 200_000 + "|",
        "NVIDIA-SMI 1 " * 20_000,
        "GPU 0: a (UUID: b)\n" + "Link 0: " + "a " * 200_000,
        "index, name\n" + "0, " * 200_000,
    ],
    ids=["deep", "many", "long line", "blanks", "rule", "cells", "banners", "link", "row"],
)
def test_a_hostile_text_takes_little_time(hostile: str) -> None:
    started = time.process_time()

    with contextlib.suppress(nvidia_smi.SmiError):
        nvidia_smi.parse(hostile)

    assert time.process_time() - started < 3


def check(text: str) -> None:
    try:
        machine = nvidia_smi.parse(text)
    except nvidia_smi.SmiError as refused:
        assert str(refused)
    else:
        assert isinstance(machine, MachineFacts)
    nvidia_smi.looks_like_smi(text)


@given(st.text(max_size=400))
def test_any_text_gives_facts_or_one_refusal(text: str) -> None:
    check(text)


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_damaged_output_gives_facts_or_one_refusal(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 200))
    put = data.draw(
        st.one_of(
            st.just(""), st.text(max_size=20), st.sampled_from(["|", ":", "<", "&", "\n", "N/A", "\t", "9" * 5000])
        )
    )

    check(text[:start] + put + text[start + length :])


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_shuffled_lines_give_facts_or_one_refusal(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].splitlines(keepends=True)
    picked = data.draw(st.lists(st.sampled_from(lines), max_size=30))

    check("".join(picked))


@given(st.binary(max_size=300))
def test_any_bytes_give_facts_or_one_refusal(data: bytes) -> None:
    try:
        nvidia_smi.read(data)
    except nvidia_smi.SmiError as refused:
        assert str(refused)
