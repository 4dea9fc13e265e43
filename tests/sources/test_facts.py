"""The picture itself: everything in it may be absent, addresses have one spelling, two pictures can be joined."""

from __future__ import annotations

import dataclasses

import pytest

from mats.facts import (
    UNASKED,
    EccFacts,
    GpuFacts,
    LinkFacts,
    MachineFacts,
    MemoryFacts,
    NvlinkFacts,
    Text,
    pci_address,
)
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._join import join, join_machines


def leaves(thing: object) -> list[object]:
    if isinstance(thing, Absent | Quantity) or not dataclasses.is_dataclass(thing):
        return [thing]
    return [leaf for field in dataclasses.fields(thing) for leaf in leaves(getattr(thing, field.name))]


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


@pytest.mark.parametrize("facts", [GpuFacts(), MachineFacts()])
def test_a_picture_that_nobody_filled_is_absent_everywhere(facts: object) -> None:
    told = [leaf for leaf in leaves(facts) if leaf not in (UNASKED, (), "")]

    assert told == ([False] if isinstance(facts, MachineFacts) else []), "only that it is not simulated"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000A2F1:00:00.0", "a2f1:00:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0000:9b:00", "0000:9b:00.0"),
        ("PCI:0000:db:00", "0000:db:00.0"),
        ("65:00.1", "0000:65:00.1"),
        (" 0F:01:00.0 ", None),
        ("GPU 0", None),
        ("", None),
    ],
)
def test_a_pci_address_has_one_spelling(text: str, address: str | None) -> None:
    found = pci_address(text)

    assert found == address if address else isinstance(found, Absent)


def test_the_first_picture_has_the_word_and_the_second_fills_its_gaps() -> None:
    gone = Absent(AbsenceKind.NOT_FOUND, "total: not shown in this file")
    first = GpuFacts(uuid="GPU-1", memory=MemoryFacts(total=gone, used=Quantity(1, Unit.BYTE)))
    second = GpuFacts(
        uuid="GPU-1", name="H100", memory=MemoryFacts(Quantity(9, Unit.BYTE), used=Quantity(2, Unit.BYTE))
    )

    joined = join(first, second)

    assert (joined.name, joined.memory.total, joined.memory.used) == (
        "H100",
        Quantity(9, Unit.BYTE),
        Quantity(1, Unit.BYTE),
    )


def test_a_reason_is_kept_over_nobody_having_asked() -> None:
    gone = Absent(AbsenceKind.NO_PERMISSION, "serial number: reading it needed more permission")

    assert join(GpuFacts(), GpuFacts(serial=gone)).serial is gone
    assert join(GpuFacts(serial=gone), GpuFacts()).serial is gone


def test_links_are_joined_one_by_one() -> None:
    up = GpuFacts(nvlink=NvlinkFacts(count(1), (LinkFacts(0, active=True), LinkFacts(2, active=False))))
    errors = GpuFacts(nvlink=NvlinkFacts(links=(LinkFacts(0, errors=(("crc errors", count(3)),)), LinkFacts(1))))

    links = join(up, errors).nvlink.links

    assert not isinstance(links, Absent)
    assert [(link.link, link.active is True, len(link.errors)) for link in links] == [
        (0, True, 1),
        (1, False, 0),
        (2, False, 0),
    ]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (GpuFacts(uuid="GPU-1", index=count(0)), GpuFacts(uuid="GPU-1", index=count(3)), True),
        (GpuFacts(uuid="GPU-1", index=count(0)), GpuFacts(uuid="GPU-2", index=count(0)), False),
        (GpuFacts(uuid="GPU-1", pci="0000:01:00.0"), GpuFacts(pci="0000:01:00.0", index=count(0)), True),
        (GpuFacts(pci="0000:01:00.0", index=count(0)), GpuFacts(pci="0000:02:00.0", index=count(0)), False),
        (GpuFacts(index=count(1)), GpuFacts(index=count(1)), True),
        (GpuFacts(), GpuFacts(), False),
    ],
)
def test_gpus_are_matched_by_uuid_then_address_then_index(first: GpuFacts, second: GpuFacts, same: bool) -> None:
    machine = join_machines([MachineFacts(gpus=(first,)), MachineFacts(gpus=(second,))])

    assert not isinstance(machine.gpus, Absent)
    assert len(machine.gpus) == (1 if same else 2)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("Tesla V100-SXM2...", "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB"),
        ("Tesla V100-SXM2...", UNASKED, "Tesla V100-SXM2..."),
    ],
)
def test_a_clipped_name_yields_to_a_whole_one(first: str, second: Text, name: str) -> None:
    pictures = [MachineFacts(gpus=(GpuFacts(index=count(0), name=each),)) for each in (first, second)]

    machine = join_machines(pictures)

    assert not isinstance(machine.gpus, Absent)
    assert machine.gpus[0].name == name


def test_a_cut_source_leaves_its_mark() -> None:
    machine = join_machines([MachineFacts(driver="1"), MachineFacts(partial="the XML is cut off")])

    assert (machine.driver, machine.partial) == ("1", "the XML is cut off")


def test_ecc_that_is_off_is_not_zero_errors() -> None:
    off = EccFacts(enabled=False, pending=False)

    assert isinstance(off.uncorrected, Absent)
