"""What the child makes of nvidia-ml-py: its structures as plain values, its errors as codes, its gaps as such."""

from __future__ import annotations

import ctypes
import os
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from mats.model import AbsenceKind, Absent
from mats.sources import nvml as source
from mats.sources._nvml_child import BROKEN, OTHER, STRUCT, TOO_OLD, Asker, outdated, plain, read_frame, write_frame


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


class Status(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), ("name", ctypes.c_char * 8), ("cluster", ctypes.c_uint8 * 2))


class Union(ctypes.Union):
    _fields_ = (("dVal", ctypes.c_double), ("uiVal", ctypes.c_uint), ("ullVal", ctypes.c_ulonglong))


class c_nvmlFieldValue_t(ctypes.Structure):  # noqa: N801
    """As nvidia-ml-py names it."""

    _fields_ = (
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", Union),
    )


def module(**calls: Any) -> Any:
    """An nvml module with the given calls; a handle is a text that says of what."""
    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlDeviceGetHandleByIndex=lambda index: f"gpu {index}",
        nvmlDeviceGetMigDeviceHandleByIndex=lambda parent, place: f"{parent} part {place}",
        **calls,
    )


def fails(code: int) -> Any:
    def call(*arguments: Any) -> Any:
        raise NVMLError(code)

    return call


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (7, 7),
        (0.5, 0.5),
        ("text", "text"),
        (b"caf\xe9", "caf\ufffd"),
        ([1, b"a"], (1, "a")),
        (ctypes.c_uint(3), 3),
        ((ctypes.c_ulonglong * 2)(1, 2), (1, 2)),
        (Status(2, b"abc", (ctypes.c_uint8 * 2)(9, 8)), {"version": 2, "name": "abc", "cluster": (9, 8)}),
        (SimpleNamespace(pid=4, usedGpuMemory=None), {"pid": 4, "usedGpuMemory": None}),
        (c_nvmlFieldValue_t(82, 1, 1, 0, Union(uiVal=39)), (82, 1, 0, 1, 39)),
        (c_nvmlFieldValue_t(9, 0, 0, 0, Union(dVal=1.5)), (9, 0, 0, 0, 1.5)),
        (c_nvmlFieldValue_t(9, 0, 99, 3, Union()), (9, 0, 3, 99, 0)),
    ],
)
def test_a_value_becomes_plain(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_a_call_is_given_the_handle_of_its_subject() -> None:
    seen: list[tuple[Any, ...]] = []
    asker = Asker(module(nvmlCall=lambda *given: seen.append(given)))

    for subject in (None, 2, (1, 3)):
        assert asker.ask(subject, "nvmlCall", (5, (OTHER, 0))) == (0, None)

    assert seen == [(5, "gpu 0"), ("gpu 2", 5, "gpu 0"), ("gpu 1 part 3", 5, "gpu 0")]


def test_a_structure_that_is_passed_is_the_answer() -> None:
    def fill(handle: str, status: Any) -> int:
        status._obj.version = 5
        return 0

    answer = Asker(module(nvmlFill=fill, Status=Status)).ask(0, "nvmlFill", ((STRUCT, "Status"),))

    assert answer == (0, {"version": 5, "name": "", "cluster": (0, 0)})


def test_failures_are_codes_and_the_handle_of_a_lost_gpu_is_asked_for_once() -> None:
    asked: list[int] = []

    def lost(index: int) -> str:
        asked.append(index)
        raise NVMLError(15)

    nvml = module(nvmlRefused=fails(3))
    asker = Asker(nvml)
    assert asker.ask(0, "nvmlRefused", ()) == (3, "code 3")
    nvml.nvmlDeviceGetHandleByIndex = lost
    assert [asker.ask(1, "nvmlRefused", ())[0] for _ in range(3)] == [15, 15, 15]
    assert asked == [1]


def test_what_an_old_package_lacks_is_too_old_and_what_it_does_wrong_is_broken() -> None:
    asker = Asker(module(nvmlFill=lambda *given: None, nvmlWrong=lambda handle: len(handle, 1)))  # type: ignore[call-arg]

    assert asker.ask(0, "nvmlNew", ())[0] == TOO_OLD
    assert asker.ask(0, "nvmlFill", ((STRUCT, "c_nvmlNew_v3_t"),))[0] == TOO_OLD
    code, text = asker.ask(0, "nvmlWrong", ())
    assert code == BROKEN and text.startswith("TypeError: ")


def test_frames_come_back_as_they_were_and_an_end_is_said() -> None:
    reading, writing = os.pipe()
    value = [(3, "name", (1, ("x", 2), None, 1.5)), {"a": b"b"}]

    write_frame(writing, value)
    os.close(writing)

    assert read_frame(reading) == value
    with pytest.raises(EOFError):
        read_frame(reading)
    os.close(reading)


def test_the_warning_of_a_package_that_leads_to_the_real_one_is_not_the_users_business() -> None:
    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlMemory_v2=1,
        nvmlDeviceGetRowRemapperHistogram=1,
        nvmlInit=lambda: None,
    )

    def load(name: str) -> Any:
        warnings.warn("the pynvml package is deprecated", FutureWarning, stacklevel=1)
        return nvml

    assert not outdated(nvml)
    assert source.start(load) is nvml


def test_an_outdated_package_is_refused_by_its_place() -> None:
    started = source.start(lambda name: SimpleNamespace(__file__="/old/pynvml.py"))

    assert isinstance(started, Absent) and started.kind is AbsenceKind.MISSING_SYMBOL
    assert "/old/pynvml.py is not a current nvidia-ml-py" in started.reason
