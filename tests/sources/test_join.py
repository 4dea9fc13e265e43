"""Pictures of one machine as one, in whatever order they come: nothing is lost, nothing counted twice."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts import (
    UNASKED,
    CallFacts,
    ClaimFacts,
    ClaimStatus,
    GpuFacts,
    IncidentFacts,
    IncidentGrade,
    LogFacts,
    MachineFacts,
    PciDevice,
    PciLink,
    empty_device,
)
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._join import join_machines

from .machine import count, uuid

GONE = Absent(AbsenceKind.NOT_FOUND, "not shown in this file")
HEAT = Quantity(40, Unit.CELSIUS)
BY_INDEX = GpuFacts(index=count(0), temperature=HEAT)
BY_ADDRESS = GpuFacts(pci="0000:10:00.0", vbios="96.0")
BY_ALL = GpuFacts(index=count(0), pci="0000:10:00.0", uuid=uuid(0), name="NVIDIA H100")
OTHER = GpuFacts(index=count(1), pci="0000:11:00.0", uuid=uuid(1), name="NVIDIA H100")


def gpus(*pictures: GpuFacts) -> tuple[GpuFacts, ...]:
    joined = join_machines(MachineFacts(gpus=(each,)) for each in pictures).gpus
    assert not isinstance(joined, Absent)
    return joined


@pytest.mark.parametrize("order", list(itertools.permutations((BY_INDEX, BY_ADDRESS, BY_ALL, OTHER))))
def test_a_gpu_is_one_in_whatever_order_its_pictures_come(order: tuple[GpuFacts, ...]) -> None:
    first, second = sorted(gpus(*order), key=lambda gpu: str(gpu.uuid))

    assert (first.uuid, first.pci, first.index) == (uuid(0), "0000:10:00.0", count(0))
    assert (first.temperature, first.vbios, first.name) == (HEAT, "96.0", "NVIDIA H100")
    assert second == OTHER


def test_a_surer_sign_that_differs_keeps_two_gpus_apart() -> None:
    moved = GpuFacts(index=count(0), pci="0000:10:00.0", uuid=uuid(9))

    assert gpus(BY_ALL, moved) == (BY_ALL, moved)


def test_gpus_that_no_sign_joins_are_listed_side_by_side() -> None:
    assert gpus(BY_INDEX, BY_ADDRESS) == (BY_INDEX, BY_ADDRESS)


def test_what_is_known_wins_over_every_reason_and_a_reason_over_none() -> None:
    told, reason, unasked = (MachineFacts(driver=value) for value in ("580.1", GONE, UNASKED))

    for order in itertools.permutations((told, reason, unasked)):
        assert join_machines(order).driver == "580.1"
    assert join_machines((unasked, reason)).driver == join_machines((reason, unasked)).driver == GONE


def device(**more: object) -> PciDevice:
    return dataclasses.replace(empty_device("0000:10:00.0", GONE), **more)  # type: ignore[arg-type]


def test_a_device_in_two_sources_is_one_and_one_that_is_gone_in_either_is_gone() -> None:
    named = device(name="GH100", answers=False)
    linked = device(now=PciLink(Quantity(32e9, Unit.HERTZ), count(16)))
    port = empty_device("0000:00:01.0", GONE)

    joined = join_machines((MachineFacts(devices=(named,)), MachineFacts(devices=(linked, port)))).devices

    assert isinstance(joined, tuple)
    assert [each.address for each in joined] == ["0000:10:00.0", "0000:00:01.0"]
    assert (joined[0].name, joined[0].now.width, joined[0].answers) == ("GH100", count(16), False)


def test_what_every_source_adds_is_gathered_once() -> None:
    claim = ClaimFacts("dcgmi diag", "memory", ClaimStatus.PASS)
    slow = CallFacts("nvmlDeviceGetName", "0", 3.0, True)
    one = MachineFacts(claims=(claim,), notes=("a", "b"), slow_calls=(slow,), devices_assumed="x", partial="cut")
    two = MachineFacts(claims=(claim,), notes=("b", "c"), devices_assumed="y", partial="cut too")

    whole = join_machines((one, two))

    assert (whole.claims, whole.notes, whole.slow_calls) == ((claim,), ("a", "b", "c"), (slow,))
    assert (whole.devices_assumed, whole.partial) == ("x; y", "cut")


def incident(title: str) -> IncidentFacts:
    return IncidentFacts("memory", "0000:10:00.0", IncidentGrade.RESET, title, (title,), "Reset.", GONE)


def log(origin: str, *titles: str) -> MachineFacts:
    return MachineFacts(log=LogFacts(tuple(incident(each) for each in titles), origin, "10 lines", left_out=1))


def test_incidents_of_two_logs_are_gathered_and_shared_ones_counted_once() -> None:
    whole = join_machines((log("a", "one", "two", "two"), log("b", "two", "three"))).log

    assert isinstance(whole, LogFacts)
    assert [each.title for each in whole.incidents] == ["one", "two", "two", "three"]
    assert (whole.origin, whole.covers, whole.left_out) == ("a, b", "a: 10 lines; b: 10 lines", 2)


pictures = st.lists(
    st.builds(
        GpuFacts,
        index=st.sampled_from([UNASKED, count(0), count(1)]),
        pci=st.sampled_from([GONE, "0000:10:00.0", "0000:11:00.0"]),
        uuid=st.sampled_from([GONE, uuid(0), uuid(1)]),
        temperature=st.sampled_from([GONE, HEAT]),
    ),
    max_size=5,
)


@given(pictures)
def test_no_identity_is_lost_or_made_up(each: list[GpuFacts]) -> None:
    joined = gpus(*each) if each else ()

    for name in ("uuid", "pci", "index"):
        before = {getattr(gpu, name) for gpu in each if not isinstance(getattr(gpu, name), Absent)}
        after = [getattr(gpu, name) for gpu in joined if not isinstance(getattr(gpu, name), Absent)]
        assert set(after) <= before
        if name == "uuid":
            assert set(after) == before
    assert any(gpu.temperature == HEAT for gpu in joined) == any(gpu.temperature == HEAT for gpu in each)
