"""A falling bandwidth is held against the memory only where no clock explains it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from mats.device import Buffer, Conditions, OutOfMemory
from mats.devices import sim
from mats.devices._plans import MIB, built_in
from mats.devices.sim import SimDevice
from mats.model import Absent, Observation, Quantity, Unit

from .bench import STRESS, Bench, reading


def observe(change: Callable[[SimDevice, Conditions], Conditions]) -> Observation:
    """A card whose bandwidth falls and whose conditions are what ``change`` makes of them."""
    device = SimDevice(built_in("silent_retry", capacity=16 * MIB))
    conditions = device.conditions
    device.conditions = lambda: change(device, conditions())  # type: ignore[method-assign]
    try:
        return STRESS.measure(device, Bench())
    finally:
        device.close()


def test_idle_clocks_before_the_first_read_do_not_hide_a_fall() -> None:
    # given: a card that is seen idle once, before anything runs
    def idle_at_first(device: SimDevice, now: Conditions) -> Conditions:
        slow = Quantity(4e8, Unit.HERTZ)
        return dataclasses.replace(now, memory_clock=slow, core_clock=slow) if device.now() == 0.0 else now

    # when
    observation = observe(idle_at_first)
    # then
    assert isinstance(reading(observation, "memory.bandwidth_drop"), Quantity)
    assert [diagnosis.fault for diagnosis in observation.diagnoses] == ["silent_retry"]


def test_a_core_clock_that_fell_too_explains_the_fall() -> None:
    # given
    def throttled(device: SimDevice, now: Conditions) -> Conditions:
        return dataclasses.replace(now, core_clock=Quantity(1e9, Unit.HERTZ)) if device.now() > 0.4 else now

    # when
    observation = observe(throttled)
    # then
    fallen = reading(observation, "memory.bandwidth_drop")
    assert isinstance(fallen, Absent)
    assert "core clock" in fallen.reason
    assert observation.diagnoses == ()


def test_a_clock_that_sinks_while_the_card_waits_explains_nothing() -> None:
    # given: a card that idles in the dwell of bit_fade, which no launch interrupts
    last = [0.0]

    def idle_in_the_dwell(device: SimDevice, now: Conditions) -> Conditions:
        waited, last[0] = device.now() - last[0] > 0.9, device.now()
        return dataclasses.replace(now, core_clock=Quantity(3e8, Unit.HERTZ)) if waited else now

    # when
    observation = observe(idle_in_the_dwell)
    # then
    assert isinstance(reading(observation, "memory.bandwidth_drop"), Quantity)


def test_small_pieces_at_the_end_are_no_falling_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    # given: a fragmented card, whose last pieces are small, and launches that take long to start
    monkeypatch.setattr(sim, "LAUNCH_SECONDS", 2e-3)
    device = SimDevice(built_in("healthy", capacity=44 * MIB))
    allocate, pieces = device.allocate, [0]

    def fragmented(size: int) -> Buffer:
        if size < 2 * MIB:
            return allocate(size)
        pieces[0] += 1
        if pieces[0] > 8 and size > 2 * MIB:
            raise OutOfMemory("no piece of that size is left")
        return allocate(size)

    device.allocate = fragmented  # type: ignore[method-assign]
    # when
    observation = STRESS.measure(device, Bench({"tests": "own-address,checkerboard,random,mats-plus,march-c"}))
    device.close()
    # then
    fallen = reading(observation, "memory.bandwidth_drop")
    assert isinstance(fallen, Quantity) and fallen.value < 0.05
