"""Steers the fake driver from a test that runs on it: what it should fail at, and what it has seen."""

from __future__ import annotations

import ctypes

OUT_OF_MEMORY = 2
NO_DEVICE = 100
INSUFFICIENT_DRIVER = 35
ECC_UNCORRECTABLE = 214
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES = 701
LAUNCH_FAILED = 719
UNKNOWN = 999
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
        """Everything as at the start, but memory, events and modules that are still there."""
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
