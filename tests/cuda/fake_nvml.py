"""An nvml module of our own: answers what was planned, fails as NVML fails, and refuses any other question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """As nvidia-ml-py has it: the return code is ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML code {value}")
        self.value = value


class Code:
    """An answer that is a failure with this return code."""

    def __init__(self, value: int) -> None:
        self.value = value


HEALTHY: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlSystemGetDriverVersion": "580.65.06",
    "nvmlDeviceGetHandleByUUID": "handle",
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetVirtualizationMode": 0,
    "nvmlDeviceGetDriverModel": Code(3),
    "nvmlDeviceGetTemperature": 41,
    "nvmlDeviceGetPowerUsage": 123_456,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetClockInfo": {(1,): 1980, (2,): 3201},
    "nvmlDeviceGetMaxClockInfo": {(2,): 3201},
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetViolationStatus": {
        (0,): SimpleNamespace(referenceTime=1, violationTime=2_500_000_000),
        (1,): SimpleNamespace(referenceTime=1, violationTime=0),
    },
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": {(0, 0): 3, (1, 0): 0},
    "nvmlDeviceGetRemappedRows": (1, 0, 0, 0),
    "nvmlDeviceGetMemoryInfo": {
        (0x02000028,): SimpleNamespace(
            total=150_754_820_096, reserved=600_000_000, used=1_000_000, free=150_153_820_096
        )
    },
    "nvmlDeviceGetComputeRunningProcesses_v3": [],
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
}
"""What a data-centre GPU at rest answers. A dictionary: by the arguments after the handle."""


def process(pid: int, memory: int | None = 1 << 20) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


class FakeNvml:
    """The nvml module with planned answers; ``None`` in ``changes`` takes a function away, as an old package would."""

    NVMLError = NVMLError
    __file__ = "pynvml.py"
    nvmlMemory_v2 = 0x02000028  # noqa: N815
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_PSTATE_UNKNOWN = 32
    NVML_PERF_POLICY_POWER = 0
    NVML_PERF_POLICY_THERMAL = 1
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlDeviceGetRowRemapperHistogram = None  # noqa: N815

    def __init__(self, **changes: Any) -> None:
        self.answers = {**HEALTHY, **changes}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AssertionError(f"nobody planned the question {name}")

        def function(*arguments: Any) -> Any:
            self.asked.append(name)
            answer = self.answers[name]
            if isinstance(answer, dict):
                answer = answer[arguments[1:]]
            if callable(answer):
                answer = answer(*arguments)
            if isinstance(answer, Code):
                raise NVMLError(answer.value)
            return answer

        return function
