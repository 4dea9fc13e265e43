"""A process that measures until it is told to stop, for tests that send it real signals.

Arguments: "polite" heeds the stop, "deaf" does not; then the folder to work in.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path

from mats.cli.main import main
from mats.device import Device
from mats.model import Observation
from mats.probe import Context

from .fakes import BROKEN, CLEAN, FakeDevice, fake_world, probe


class Telling(FakeDevice):
    """Writes down that it was closed."""

    def close(self) -> None:
        Path("closed").touch()


def measure(manner: str, context: Context) -> Observation:
    context.save(BROKEN if manner == "deaf" else CLEAN)
    Path("measuring").touch()
    while manner == "deaf" or not context.stopping():
        time.sleep(0.01)
    return dataclasses.replace(CLEAN, partial=context.stopping())


def act(manner: str) -> int:
    def planned(_device: Device, context: Context) -> Observation:
        return measure(manner, context)

    world = fake_world(Path.cwd(), (probe(planned, "stress"), probe(CLEAN, "later", order=20)), {"host": Telling()})
    world = dataclasses.replace(world, stdout=sys.stdout, stderr=sys.stderr)
    return main(["all", "--target", "host", "--out", "run"], world)


def start(manner: str) -> None:
    code = act(manner)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # as the command does where a probe was given up
