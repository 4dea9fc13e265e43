"""The pytest plugin of the tests that run on the fake driver: the fixture that steers it and sees what it has seen."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

ANY = -1


class FakeCuda:
    """The fake driver of this process. Functions are named as in the driver's manual, without version suffix."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.fake_query.restype = ctypes.c_longlong

    def control(self, **commands: object) -> None:
        """Each ``name=value`` as one command, e.g. ``devices=8``; a point is written as two underscores."""
        for name, value in commands.items():
            text = f"{name.replace('__', '.')}={value}"
            if self._library.fake_control(text.encode()):
                raise ValueError(f"the fake driver does not know {text}")

    def reset(self) -> None:
        """Every setting as at the start; memory, events and modules stay."""
        self.control(reset="")

    def fail(
        self, function: str, code: int, *, skip: int = 0, times: int = 1, sticky: bool = False, device: int = ANY
    ) -> None:
        """``function`` gives ``code`` after ``skip`` good calls; sticky: its device then answers nothing else."""
        parts = [function, str(skip), str(times), str(code)]
        parts += ["sticky"] * sticky
        parts += [] if device == ANY else [str(device)]
        self.control(fail=":".join(parts))

    def query(self, name: str) -> int:
        answer = int(self._library.fake_query(name.encode()))
        if answer < 0:
            raise ValueError(f"the fake driver does not know {name}")
        return answer

    def used(self, device: int = 0) -> int:
        """Bytes of the device's memory that are allocated."""
        return self.query(f"used.{device}")

    def calls(self, function: str) -> int:
        return self.query(f"calls.{function}")


@pytest.fixture
def fake() -> Iterator[FakeCuda]:
    """The fake driver with eight devices of 1 GiB; a test may leave nothing on a device that works."""
    driver = FakeCuda()
    driver.control(restart="")
    driver.reset()
    driver.control(devices=8)
    yield driver
    lost = driver.query("stuck") or [index for index in range(8) if driver.query(f"sticky.{index}")]
    left = {what: driver.query(what) for what in ("allocations", "events", "streams")}
    driver.control(restart="")
    driver.reset()
    assert lost or not any(left.values()), f"something was left on a device: {left}"
