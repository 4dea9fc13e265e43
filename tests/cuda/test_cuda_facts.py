"""What a GPU says of itself, who else uses it, and what CUDA's errors mean: pure functions, no GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest

from mats.device import DeviceError, DeviceLost, HeldBy, OutOfMemory
from mats.devices import _cuda_facts as facts
from mats.devices._cuda_errors import classify, unusable, version
from mats.model import AbsenceKind, Absent, Quantity, TargetInfo, Unit
from mats.sources import nvml as source

from .fake_nvml import Code, FakeNvml, process

PROPERTIES: dict[str, Any] = {"totalGlobalMem": 1000, "memoryBusWidth": 384, "memoryClockRate": 10_501_000}
NO_NVML = Absent(AbsenceKind.NOT_FOUND, "NVML: not here")
ME = os.getpid()


def gpu(**changes: Any) -> source.Gpu:
    return source.Gpu(FakeNvml(**changes), "handle", "GPU-1")


def running(*processes: Any) -> source.Gpu:
    return gpu(nvmlDeviceGetComputeRunningProcesses_v3=list(processes))


def test_the_peak_follows_from_the_highest_clock_that_nvml_tells() -> None:
    answers = {(2,): 2619}

    peak, formula = facts.peak_bandwidth({**PROPERTIES, "memoryBusWidth": 5120}, gpu(nvmlDeviceGetMaxClockInfo=answers))

    assert peak == Quantity(2 * 2619e6 * 5120 / 8, Unit.BYTE_PER_SECOND)
    assert formula == "2 x 2619 MHz (highest memory clock by NVML) x 5120 bit / 8"


@pytest.mark.parametrize("by_nvml", [NO_NVML, gpu(nvmlDeviceGetMaxClockInfo=Code(3)), gpu(nvmlDeviceGetMaxClockInfo=0)])
def test_the_peak_falls_back_on_what_cuda_tells(by_nvml: source.Gpu | Absent) -> None:
    peak, formula = facts.peak_bandwidth(PROPERTIES, by_nvml)

    assert peak == Quantity(2 * 10_501_000 * 1e3 * 384 / 8, Unit.BYTE_PER_SECOND)
    assert "10501 MHz (memory clock by CUDA)" in formula


@pytest.mark.parametrize("hidden", ["memoryBusWidth", "memoryClockRate"])
def test_a_device_that_hides_its_clock_or_bus_has_no_peak(hidden: str) -> None:
    peak, formula = facts.peak_bandwidth({**PROPERTIES, hidden: 0}, NO_NVML)

    assert isinstance(peak, Absent)
    assert formula == ""


def test_the_whole_memory_is_nvmls_figure_when_it_is_the_larger() -> None:
    whole = facts.memory_total(PROPERTIES, gpu())
    without = facts.memory_total(PROPERTIES, NO_NVML)

    assert (whole, without) == (Quantity(150_754_820_096, Unit.BYTE), Quantity(1000, Unit.BYTE))


@pytest.mark.parametrize(
    ("wanted", "address", "same"),
    [
        ("0000:01:00.0", "0000:01:00.0", True),
        ("01:00.0", "0000:01:00.0", True),
        ("01:00", "0008:01:00.0", True),
        ("00000000:0A:00.0", "0000:0a:00.0", True),
        ("0001:01:00.0", "0000:01:00.0", False),
        ("01:00.0", "0000:02:00.0", False),
        ("nonsense", "0000:02:00.0", False),
    ],
)
def test_pci_addresses_are_compared_by_place(wanted: str, address: str, same: bool) -> None:
    assert facts.same_pci(wanted, address) is same


def test_an_index_is_not_the_beginning_of_another() -> None:
    lost = Absent(AbsenceKind.DEVICE_LOST, "away")
    infos = [TargetInfo(f"cuda:{index}", "cuda", "x", lost, lost, lost, "") for index in range(12)]

    assert facts.select("1", infos) == 1


def test_a_slice_of_a_gpu_is_found_by_its_own_uuid() -> None:
    def answer(uuid: str) -> object:
        return "slice" if uuid.startswith("MIG-") else Code(6)

    found = facts.find_gpu(FakeNvml(nvmlDeviceGetHandleByUUID=answer), "1234")

    assert isinstance(found, source.Gpu)
    assert (found.handle, found.uuid) == ("slice", "MIG-1234")


def test_other_processes_are_listed_without_this_one() -> None:
    holders = facts.other_holders(running(process(ME), process(4_000_001, 5 << 20)), frozenset({ME}))

    assert holders == (HeldBy(4_000_001, "", Quantity(5 << 20, Unit.BYTE)),)


def test_this_process_alone_is_nobody_else() -> None:
    assert facts.other_holders(running(process(ME)), frozenset({ME})) == ()


def test_a_single_unknown_number_is_this_process() -> None:
    assert facts.other_holders(running(process(77)), frozenset()) == ()


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        (running(), "not even this one"),
        (running(process(7), process(8)), "does not tell which is this one"),
        (gpu(nvmlDeviceGetComputeRunningProcesses_v3=Code(4)), "permission"),
        (NO_NVML, "NVML: not here"),
    ],
)
def test_processes_that_cannot_be_known_are_said(listed: source.Gpu | Absent, says: str) -> None:
    assert says in str(facts.other_holders(listed, frozenset()))


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        (set(), {ME}, {ME}),
        ({7}, {7, ME, 9}, {ME}),
        ({7}, {7, 8}, {8}),
        ({7}, {7, 8, 9}, set()),
        ({7}, {7}, set()),
    ],
)
def test_under_which_number_this_process_is_listed(before: set[int], after: set[int], own: set[int]) -> None:
    assert facts.own_numbers(frozenset(before), frozenset(after)) == own


def test_memory_of_others_is_their_sum() -> None:
    held = tuple(HeldBy(pid, "", Quantity(size, Unit.BYTE)) for pid, size in ((1, 100), (2, 20)))

    assert facts.memory_of(held) == Quantity(120, Unit.BYTE)


@pytest.mark.parametrize("holders", ["nobody knows", (HeldBy(1, "", NO_NVML), HeldBy(2, "", Quantity(1, Unit.BYTE)))])
def test_memory_of_others_is_absent_when_one_of_them_is_unknown(holders: tuple[HeldBy, ...] | str) -> None:
    assert isinstance(facts.memory_of(holders), Absent)


def test_conditions_hold_counters_under_the_names_that_probes_know() -> None:
    conditions = facts.read_conditions(gpu(), ecc_by_cuda=False)

    assert conditions.ecc == "on"
    assert dict(conditions.counters)["ecc.corrected"] == Quantity(3, Unit.COUNT)
    assert tuple(name for name, _ in conditions.counters) == facts.COUNTERS


@pytest.mark.parametrize(("by_cuda", "ecc"), [(True, "on"), (False, "off")])
def test_without_nvml_conditions_are_absent_and_ecc_is_known_to_cuda(by_cuda: bool, ecc: str) -> None:
    conditions = facts.read_conditions(NO_NVML, by_cuda)

    assert (conditions.ecc, conditions.temperature, conditions.power) == (ecc, NO_NVML, NO_NVML)
    assert conditions.counters == tuple((name, NO_NVML) for name in facts.COUNTERS)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(2, OutOfMemory), (214, DeviceLost), (700, DeviceLost), (719, DeviceLost), (999, DeviceLost), (701, DeviceError)],
)
def test_an_error_has_its_class_and_one_sentence(status: int, kind: type[DeviceError]) -> None:
    error = classify(status, "cudaErrorX: some words", "cuda:3", "reading memory back")

    assert type(error) is kind
    assert str(error).startswith("cuda:3") and "reading memory back" in str(error)
    assert "\n" not in str(error)


def test_an_error_nobody_knows_keeps_cudas_own_words() -> None:
    assert "(cudaErrorFuture: new)" in str(classify(12345, "cudaErrorFuture: new", "cuda:0", "waiting"))


@pytest.mark.parametrize(("visible", "says"), [(None, "lspci"), ("", "CUDA_VISIBLE_DEVICES is ''")])
def test_no_gpu_names_what_hides_them(visible: str | None, says: str) -> None:
    assert says in str(unusable(100, "none", 13000, 13000, visible))


@pytest.mark.parametrize(("number", "text"), [(12040, "12.4"), (13000, "13.0"), (0, "0.0")])
def test_versions_are_written_as_people_do(number: int, text: str) -> None:
    assert version(number) == text


@pytest.mark.parametrize(
    ("uuid", "integrated", "release", "system", "expected"),
    [
        ("GPU-1", 0, "6.8.0-generic", "linux", ""),
        ("MIG-1", 0, "6.8.0-generic", "linux", "MIG"),
        ("GPU-1", 1, "6.8.0-tegra", "linux", "integrated"),
        ("GPU-1", 0, "5.15.167.4-microsoft-standard-WSL2", "linux", "WSL"),
        ("GPU-1", 0, "10", "win32", "WDDM"),
    ],
)
def test_memory_that_is_shared_or_may_be_moved_is_known(
    uuid: str, integrated: int, release: str, system: str, expected: str
) -> None:
    unknown = Absent(AbsenceKind.NOT_FOUND, "no NVML")
    assert facts.placement({"integrated": integrated}, unknown, uuid, release, system) == expected
