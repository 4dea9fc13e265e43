"""The devices sim, host and replay by their own contract: what they lend they take back, what is wrong they say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from mats.codec import run_to_json
from mats.device import Buffer, DeviceError, OutOfMemory
from mats.devices import _host_memory
from mats.devices import host as host_module
from mats.devices._plans import built_in
from mats.devices.host import HostDevice
from mats.devices.replay import ReplayDevice, open_device
from mats.devices.sim import SimDevice
from mats.model import (
    SCHEMA_VERSION,
    AbsenceKind,
    Absent,
    HostInfo,
    Observation,
    Quantity,
    Result,
    Run,
    Unit,
    Verdict,
)
from mats.probe import UsageError
from mats.target import Target

MIB = 1 << 20


@pytest.fixture(params=["sim", "host"])
def device(request: pytest.FixtureRequest) -> Iterator[SimDevice | HostDevice]:
    made = SimDevice(built_in("healthy", capacity=8 * MIB)) if request.param == "sim" else HostDevice()
    yield made
    made.close()


def test_what_is_copied_in_can_be_fetched(device: SimDevice | HostDevice) -> None:
    buffer = device.allocate(2 * MIB)
    device.copy(buffer, b"mats", offset=4093)
    assert device.fetch(buffer, 4092, 6) == b"\0mats\0"


def test_two_mebibyte_chunks_lie_on_page_boundaries(device: SimDevice | HostDevice) -> None:
    assert device.allocate(2 * MIB).address % (2 * MIB) == 0


def test_a_buffer_is_freed_once(device: SimDevice | HostDevice) -> None:
    buffer = device.allocate(2 * MIB)
    device.free(buffer)
    with pytest.raises(DeviceError, match="freed before"):
        device.free(buffer)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_must_be_positive(device: SimDevice | HostDevice, size: int) -> None:
    with pytest.raises(DeviceError, match="must be positive"):
        device.allocate(size)


def test_more_than_there_is_is_refused(device: SimDevice | HostDevice) -> None:
    with pytest.raises(OutOfMemory):
        device.allocate(1 << 50)


@pytest.mark.parametrize(("offset", "size"), [(-1, 4), (0, 2 * MIB + 1), (2 * MIB, 1), (0, -1)])
def test_nothing_outside_of_a_buffer_is_fetched(device: SimDevice | HostDevice, offset: int, size: int) -> None:
    buffer = device.allocate(2 * MIB)
    with pytest.raises(DeviceError, match="cannot fetch"):
        device.fetch(buffer, offset, size)


def test_a_copy_must_fit(device: SimDevice | HostDevice) -> None:
    buffer = device.allocate(2 * MIB)
    with pytest.raises(DeviceError, match="does not fit"):
        device.copy(buffer, b"123", offset=2 * MIB - 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": 5, "sink": Buffer(4096, 8)},
        {"data": Buffer(4096, 8)},
        {"data": Buffer(4096, 8), "sink": Buffer(4096, 8), "more": 1},
        {"data": Buffer(4096, 8), "sink": -1},
    ],
)
def test_a_launch_with_wrong_arguments_never_runs(
    device: SimDevice | HostDevice, arguments: dict[str, Buffer | int]
) -> None:
    with pytest.raises(TypeError, match="kernel read_sweep"):
        device.launch("read_sweep", 1, **arguments)


def test_an_unknown_kernel_is_refused(device: SimDevice | HostDevice) -> None:
    with pytest.raises(TypeError, match="no kernel named"):
        device.launch("melt", 1)


def test_closing_twice_is_safe(device: SimDevice | HostDevice) -> None:
    device.allocate(2 * MIB)
    device.close()
    device.close()


def test_closing_gives_all_host_memory_back() -> None:
    device = HostDevice()
    device.allocate(4 * MIB)
    device.close()
    assert device._held == {}


def test_a_host_reads_its_files_under_a_root(tmp_path: Path) -> None:
    # given
    cache = tmp_path / _host_memory.CPU_CACHE
    for index, (kind, level, size) in enumerate((("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "2M"))):
        (cache / f"index{index}").mkdir(parents=True)
        for name, text in (("type", kind), ("level", str(level)), ("size", size)):
            (cache / f"index{index}" / name).write_text(text + "\n")
    controller = tmp_path / host_module.EDAC / "mc0"
    controller.mkdir(parents=True)
    (controller / "ce_count").write_text("7\n")
    (controller / "ue_count").write_text("0\n")
    # when
    device = HostDevice(root=tmp_path)
    # then
    assert device.describe().cache_size == Quantity(2 << 20, Unit.BYTE)
    assert dict(device.describe().identity)["caches"] == "L1 48 KiB, L2 2048 KiB"
    assert device.conditions().ecc == "on"
    assert device.conditions().counters == (
        ("ecc.corrected", Quantity(7, Unit.COUNT)),
        ("ecc.uncorrected", Quantity(0, Unit.COUNT)),
    )


def test_a_host_without_those_files_says_what_it_does_not_know(tmp_path: Path) -> None:
    device = HostDevice(root=tmp_path)
    assert isinstance(device.describe().cache_size, Absent)
    assert all(isinstance(reading, Absent) for _, reading in device.conditions().counters)
    assert device.conditions().ecc.startswith("not told")


def test_a_control_group_limits_what_a_host_lends(tmp_path: Path) -> None:
    limit = tmp_path / _host_memory.CGROUP_LIMIT
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{64 * MIB}\n")
    (tmp_path / _host_memory.CGROUP_USED).write_text(f"{60 * MIB}\n")
    device = HostDevice(root=tmp_path)
    assert device.memory().total == 64 * MIB
    assert device.memory().free == 4 * MIB
    with pytest.raises(OutOfMemory):
        device.allocate(8 * MIB)


@pytest.mark.parametrize(("text", "size"), [("32768K", 32 << 20), ("2M", 2 << 20), ("64", 64)])
def test_cache_sizes_are_read(text: str, size: int) -> None:
    assert _host_memory.parse_cache_size(text) == size


SMAPS = """7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
AnonHugePages:      4096 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0
AnonHugePages:         0 kB
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
"""


@pytest.mark.parametrize(
    ("held", "huge"),
    [
        ([(0x7F0000000000, 4 * MIB)], 4 * MIB),
        ([(0x7F0000000000, 2 * MIB), (0x7F0000200000, 2 * MIB)], 4 * MIB),
        ([(0x7F0000400000, 2 * MIB)], 0),
        ([(0x7F0000400000, 2 * MIB), (0x7F0000800000, 2 * MIB)], 2 * MIB),
        ([(0x7F0000600000, 2 * MIB)], None),
    ],
)
def test_what_lies_in_huge_pages_is_counted_by_mapping(held: list[tuple[int, int]], huge: int | None) -> None:
    assert _host_memory.parse_huge_pages(SMAPS.splitlines(), held) == huge


def test_a_host_tells_which_share_of_what_it_holds_lies_in_huge_pages() -> None:
    device = HostDevice()
    before = dict(device.describe().identity)
    device.allocate(4 * MIB)
    held = dict(device.describe().identity).get("held_in_huge_pages", "0")
    device.close()
    assert "held_in_huge_pages" not in before
    assert 0 <= float(held) <= 1


def saved_run(targets: int = 1) -> Run:
    info = SimDevice(built_in("healthy", capacity=2 * MIB)).describe()
    result = Result(
        "stress",
        "?",
        info.name,
        Verdict.UNKNOWN,
        "why",
        Observation(),
        (),
        (),
        "2026-01-01T00:00:00+00:00",
        Quantity(1.0, Unit.SECOND),
    )
    absent = Absent(AbsenceKind.NOT_FOUND, "not asked")
    infos = tuple(dataclasses.replace(info, name=f"sim:{i}") for i in range(targets))
    return Run(
        SCHEMA_VERSION,
        "mats",
        "2026-01-01T00:00:00+00:00",
        Quantity(1.0, Unit.SECOND),
        HostInfo("h", "s", "p", "c", absent),
        ("mats",),
        infos,
        (result,),
    )


def test_a_replay_answers_what_was_seen_and_nothing_else() -> None:
    device = ReplayDevice(saved_run(), "file:run.json")
    assert device.recorded("stress") is not None
    assert device.recorded("health") is None
    assert device.describe().origin_kind == "sim"
    with pytest.raises(DeviceError, match="answers only what was measured"):
        device.allocate(1)


def test_a_saved_run_opens_as_a_target(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(run_to_json(saved_run()))
    assert open_device(Target("file", str(file))).describe().name == f"file:{file}"


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"schema_version": 1}', "\0\1\2"])
def test_what_is_no_saved_run_gets_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"run\.json"):
        open_device(Target("file", str(file)))


def test_a_cut_run_gets_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    text = run_to_json(saved_run())
    file.write_text(text[: len(text) // 2])
    with pytest.raises(UsageError, match=r"run\.json"):
        open_device(Target("file", str(file)))


def test_a_run_of_several_targets_points_to_judge(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(run_to_json(saved_run(targets=2)))
    with pytest.raises(UsageError, match="mats judge"):
        open_device(Target("file", str(file)))


def test_cached_files_of_a_container_count_as_free(tmp_path: Path) -> None:
    # given: a container of 100 MiB, of which 90 are used, 50 of them by files that are not in use
    folder = tmp_path / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{100 << 20}\n")
    (folder / "memory.current").write_text(f"{90 << 20}\n")
    (folder / "memory.stat").write_text(f"anon {40 << 20}\nfile {50 << 20}\ninactive_file {50 << 20}\n")
    # when
    state = HostDevice(root=tmp_path).memory()
    # then
    assert (state.total, state.free) == (100 << 20, 60 << 20)
