"""A GPU's passive state through NVML: each value by itself, absent with the reason when its own call fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mats.facts import GpuFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources import nvml as source

from .fake_nvml import HEALTHY, Code, FakeNvml, process

UUID = "GPU-1234"
CALLS = sorted(name for name in HEALTHY if name.startswith("nvmlDeviceGet") and "Handle" not in name)
TAKES: dict[str, set[str]] = {
    "nvmlDeviceGetName": {"name"},
    "nvmlDeviceGetTemperature": {"temperature"},
    "nvmlDeviceGetPowerUsage": {"power"},
    "nvmlDeviceGetPerformanceState": {"performance_state"},
    "nvmlDeviceGetClockInfo": {"clocks.core", "clocks.memory"},
    "nvmlDeviceGetMaxClockInfo": {"clocks.memory_maximum"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"clocks.reasons"},
    "nvmlDeviceGetViolationStatus": {"clocks.held"},
    "nvmlDeviceGetEccMode": {"ecc.enabled", "ecc.pending"},
    "nvmlDeviceGetTotalEccErrors": {"ecc.corrected", "ecc.uncorrected"},
    "nvmlDeviceGetRemappedRows": {"remap.correctable", "remap.uncorrectable", "remap.pending", "remap.failed"},
    "nvmlDeviceGetMemoryInfo": {
        "memory.total",
        "memory.reserved",
        "memory.used",
        "memory.free",
        "memory.used_with_reserved",
    },
    "nvmlDeviceGetComputeRunningProcesses_v3": {"processes"},
    "nvmlDeviceGetVirtualizationMode": set(),
    "nvmlDeviceGetDriverModel": set(),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": set(),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": set(),
}
"""Which values of the picture rest on a call."""


def read(nvml: FakeNvml) -> GpuFacts:
    gpu = source.find(nvml, UUID)
    assert isinstance(gpu, source.Gpu)
    return source.read_gpu(gpu)


def absent(value: object) -> Absent:
    assert isinstance(value, Absent)
    return value


def test_a_healthy_gpu_is_read_in_base_units() -> None:
    facts = read(FakeNvml())

    assert (facts.uuid, facts.name, facts.driver) == (UUID, "NVIDIA H200", "580.65.06")
    assert facts.temperature == Quantity(41, Unit.CELSIUS)
    assert facts.power == Quantity(123_456 * 1e-3, Unit.WATT)
    assert facts.performance_state == Quantity(0, Unit.COUNT)
    assert (facts.clocks.core, facts.clocks.memory_maximum) == (
        Quantity(1.98e9, Unit.HERTZ),
        Quantity(3.201e9, Unit.HERTZ),
    )
    assert facts.clocks.held == (("power", Quantity(2.5, Unit.SECOND)), ("thermal", Quantity(0.0, Unit.SECOND)))
    assert (facts.ecc.enabled, facts.ecc.corrected) == (True, Quantity(3, Unit.COUNT))
    assert facts.remap.correctable == Quantity(1, Unit.COUNT)
    assert facts.memory.reserved == Quantity(600_000_000, Unit.BYTE)
    assert facts.processes == ()


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Every value of a picture that may be absent, by its path."""
    if isinstance(value, Absent | Quantity) or not hasattr(value, "__dataclass_fields__"):
        return {path: value}
    found: dict[str, object] = {}
    for name in value.__dataclass_fields__:
        found.update(leaves(getattr(value, name), f"{path}.{name}".strip(".")))
    return found


@pytest.mark.parametrize("call", CALLS)
def test_one_failing_call_takes_only_its_own_values(call: str) -> None:
    whole = leaves(read(FakeNvml()))

    broken = leaves(read(FakeNvml(**{call: Code(999)})))

    assert {path for path in whole if broken[path] != whole[path]} == TAKES[call]
    assert all("code 999" in str(broken[path]) for path in TAKES[call])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, AbsenceKind.NOT_SUPPORTED),
        (4, AbsenceKind.NO_PERMISSION),
        (10, AbsenceKind.TIMED_OUT),
        (13, AbsenceKind.MISSING_SYMBOL),
        (15, AbsenceKind.DEVICE_LOST),
        (16, AbsenceKind.DEVICE_LOST),
        (22, AbsenceKind.NOT_SUPPORTED),
        (25, AbsenceKind.MISSING_SYMBOL),
        (999, AbsenceKind.UNREADABLE),
        (31415, AbsenceKind.UNREADABLE),
    ],
)
def test_a_failure_is_classified_by_its_own_code(code: int, kind: AbsenceKind) -> None:
    facts = read(FakeNvml(nvmlDeviceGetTemperature=Code(code)))

    temperature = absent(facts.temperature)
    assert temperature.kind is kind
    assert temperature.reason.startswith("temperature: ")


@pytest.mark.parametrize(
    ("code", "says"),
    [(9, "driver is not loaded"), (12, "library is not installed"), (18, "different versions"), (4, "permission")],
)
def test_nvml_that_does_not_start_says_why(code: int, says: str) -> None:
    nvml = FakeNvml(nvmlInit=Code(code))

    started = source.start(lambda name: nvml)

    assert says in absent(started).reason


def test_an_unknown_uuid_is_not_found() -> None:
    nvml = FakeNvml(nvmlDeviceGetHandleByUUID=Code(6))

    assert absent(source.find(nvml, UUID)).kind is AbsenceKind.NOT_FOUND


def test_a_missing_package_is_said() -> None:
    def load(name: str) -> Any:
        raise ImportError(name)

    assert "nvidia-ml-py is not installed" in absent(source.start(load)).reason


def test_another_package_of_the_same_name_is_refused() -> None:
    other = SimpleNamespace(__file__="/old/pynvml.py")

    started = absent(source.start(lambda name: other))

    assert "/old/pynvml.py is not a current nvidia-ml-py" in started.reason


def test_an_older_driver_is_asked_by_the_older_names() -> None:
    nvml = FakeNvml(
        nvmlDeviceGetCurrentClocksEventReasons=Code(13),
        nvmlDeviceGetCurrentClocksThrottleReasons=0x4 | 0x40,
        nvmlDeviceGetComputeRunningProcesses_v3=Code(13),
        nvmlDeviceGetComputeRunningProcesses_v2=[process(7)],
    )

    facts = read(nvml)

    assert facts.clocks.reasons == ("software power cap", "hardware thermal slowdown")
    assert not isinstance(facts.processes, Absent)
    assert [known.pid for known in facts.processes] == [7]


def test_memory_of_an_older_driver_has_no_reserved_part() -> None:
    answers = {(0x02000028,): Code(13), (): SimpleNamespace(total=100, used=40, free=60)}

    memory = read(FakeNvml(nvmlDeviceGetMemoryInfo=answers)).memory

    assert (memory.total, memory.used) == (Quantity(100, Unit.BYTE), Quantity(40, Unit.BYTE))
    assert absent(memory.reserved).kind is AbsenceKind.MISSING_SYMBOL


def test_memory_of_zero_bytes_is_absent() -> None:
    answers = {(0x02000028,): SimpleNamespace(total=0, reserved=0, used=0, free=0)}

    memory = read(FakeNvml(nvmlDeviceGetMemoryInfo=answers)).memory

    assert [absent(value).kind for value in (memory.total, memory.reserved, memory.used)] == [
        AbsenceKind.UNREADABLE
    ] * 3


def test_an_unknown_performance_state_is_absent() -> None:
    facts = read(FakeNvml(nvmlDeviceGetPerformanceState=32))

    assert "unknown" in absent(facts.performance_state).reason


def test_a_reason_that_is_not_known_is_shown_as_its_bit() -> None:
    facts = read(FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=0x1001))

    assert facts.clocks.reasons == ("idle", "reason 0x1000")


def test_a_process_is_listed_once_and_its_memory_may_be_withheld() -> None:
    nvml = FakeNvml(
        nvmlDeviceGetComputeRunningProcesses_v3=[process(7, None)],
        nvmlDeviceGetGraphicsRunningProcesses_v3=[process(7), process(8)],
    )

    processes = read(nvml).processes

    assert not isinstance(processes, Absent)
    assert [(known.pid, known.draws_only) for known in processes] == [(7, False), (8, True)]
    assert isinstance(processes[0].memory, Absent)


def test_a_question_that_was_not_planned_is_refused() -> None:
    with pytest.raises(AssertionError, match="nobody planned"):
        FakeNvml().nvmlDeviceSetPowerManagementLimit(1)
