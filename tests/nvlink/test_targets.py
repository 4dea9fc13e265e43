"""What a link should carry: from the driver's figures, the bus or the product, and absent where none of them tells."""

from __future__ import annotations

import dataclasses

import pytest

from mats.facts import LinkFacts, MachineFacts, NvlinkFacts, PciDevice, empty_device
from mats.model import AbsenceKind, Absent, Quantity
from mats.probes._health_card import Card, cards_of
from mats.probes._nvlink_rates import LINK_RATES, fit_nvlink, fit_pcie, link_payload, pcie_link
from mats.probes._nvlink_ways import Kind, Way, way_between, way_to_host

from .bench import GB, gpu, link, machine, pcie


def way(facts: MachineFacts, first: int = 0, second: int = 1) -> Way:
    cards = {card.label: card for card in cards_of(facts)}
    return way_between(facts, cards.get(str(first)), cards.get(str(second)))


def bandwidth(found: Way) -> float:
    assert isinstance(found.target.bandwidth, Quantity), found.target.bandwidth
    return float(found.target.bandwidth.value) / GB


@pytest.mark.parametrize(
    ("told", "version", "payload"),
    [
        (25.781, "2.0", 25),
        (25.0, "3.0", 25),
        (14.062, "3.0", 14.0625),
        (26.562, "4.0", 25),
        (26.562, "", 25),
        (53.125, "5.0", 50),
        (53.125, "", 50),
        (106.25, "6.0", 100),
        (0, "5.0", 50),
        (0, "2.2", 25),
    ],
    ids=str,
)
def test_a_link_carries_what_its_coding_leaves(told: float, version: str, payload: float) -> None:
    found = link_payload(link(0, told, version))

    assert isinstance(found, Quantity)
    assert found.value / GB == pytest.approx(payload, rel=2e-3)


def test_a_link_of_a_generation_with_two_speeds_needs_its_speed() -> None:
    assert isinstance(link_payload(link(0, 0, "3.0")), Absent)


def test_every_link_rate_has_a_source() -> None:
    assert all("GB/s" in known.source and known.payload <= known.told for known in LINK_RATES)


def test_active_links_times_payload_is_the_target() -> None:
    links = [link(n, 14.062, "3.0") for n in range(4)]

    found = way(machine(gpu(0, links), gpu(1, links), pairs="NV4"))

    assert (found.kind, found.name) == (Kind.NVLINK, "NV4")
    assert bandwidth(found) == pytest.approx(56.25)
    assert found.target.formula == "4 active links x 14.1 GB/s"
    assert not found.target.at_most


def test_the_pair_counts_and_not_all_links_of_a_gpu() -> None:
    links = [link(n, 25.781, "2.0") for n in range(6)]

    assert bandwidth(way(machine(gpu(0, links), gpu(1, links), pairs="NV2"))) == pytest.approx(50)


def test_behind_a_switch_every_pair_has_all_links() -> None:
    links = [link(n, remote=f"0000:f{n % 4}:00.0") for n in range(18)]

    found = way(machine(gpu(0, links), gpu(1, links), gpu(2, links)))

    assert bandwidth(found) == pytest.approx(450)
    assert not found.target.at_most


def test_direct_links_are_counted_by_their_other_end() -> None:
    ends = ["0000:01:00.0"] * 2 + ["0000:02:00.0"] * 4
    mine = [link(n, 25.781, "2.0", end) for n, end in enumerate(ends)]
    others = [link(n, 25.781, "2.0", "0000:00:00.0") for n in range(4)]
    facts = machine(gpu(0, mine), gpu(1, others), gpu(2, others))

    assert bandwidth(way(facts)) == pytest.approx(50)
    assert bandwidth(way(facts, 0, 2)) == pytest.approx(100)


def test_without_the_other_ends_the_links_of_three_gpus_are_only_the_most_that_may_be() -> None:
    links = [link(n) for n in range(18)]

    found = way(machine(gpu(0, links), gpu(1, links), gpu(2, links)))

    assert bandwidth(found) == pytest.approx(450)
    assert "which GPU" in found.target.at_most


def test_of_two_gpus_alone_all_links_join_them() -> None:
    links = [link(n, 14.062, "3.0") for n in range(4)]

    assert not way(machine(gpu(0, links), gpu(1, links))).target.at_most


def test_links_that_are_all_down_leave_pcie() -> None:
    down = [link(n, up=False) for n in range(4)]
    facts = machine(gpu(0, down, pcie=pcie(4)), gpu(1, down, pcie=pcie(3)))

    found = way(facts)

    assert found.kind is Kind.PCIE
    assert bandwidth(found) == pytest.approx(15.754, abs=0.01)
    assert "Gen3 x16" in found.target.formula and "under load" in found.target.formula


def test_at_rest_the_best_of_the_link_is_the_target_and_not_gen1() -> None:
    facts = machine(gpu(0, pcie=pcie(4, loaded=False)), gpu(1, pcie=pcie(4, loaded=False)), pairs="PIX")

    found = way(facts)

    assert bandwidth(found) == pytest.approx(31.508, abs=0.01)
    assert "at its best" in found.target.formula


def device(address: str, upstream: tuple[str, ...], generation: int, kind: int = 0x0604) -> PciDevice:
    made = empty_device(address, Absent(AbsenceKind.NOT_FOUND, "not told"))
    speed = pcie_link(generation, 16)
    return dataclasses.replace(made, upstream=upstream, now=speed, maximum=speed, class_code=kind, vendor=0x10DE)


def test_above_the_switch_that_joins_two_cards_nothing_limits_them() -> None:
    root, up, ports = "0000:80:00.0", "0000:81:00.0", ("0000:82:00.0", "0000:82:01.0")
    devices = (
        device(root, (), 3),
        device(up, (root,), 3),
        *(device(port, (up, root), 4) for port in ports),
        device("0000:00:00.0", (ports[0], up, root), 4, 0x0302),
        device("0000:01:00.0", (ports[1], up, root), 4, 0x0302),
    )
    cards = (gpu(0, pcie=pcie(4)), gpu(1, pcie=pcie(4)))

    below = way(machine(*cards, pairs="PIX", devices=devices))
    apart = way(machine(*cards, pairs="SYS", devices=(*devices[:2], *devices[4:], device(ports[0], (up, root), 3))))

    assert bandwidth(below) == pytest.approx(31.508, abs=0.01)
    assert bandwidth(apart) == pytest.approx(15.754, abs=0.01)


@pytest.mark.parametrize(("joined", "sure"), [("PIX", True), ("PHB", True), ("NODE", True), ("SYS", False)])
def test_between_sockets_the_pcie_links_are_only_the_most_that_may_be(joined: str, sure: bool) -> None:
    found = way(machine(gpu(0, pcie=pcie(4)), gpu(1, pcie=pcie(4)), pairs=joined))

    assert found.name == joined
    assert bool(found.target.at_most) is not sure


def test_a_card_without_links_is_held_against_the_pcie_link_it_is_sold_with() -> None:
    found = way(machine(gpu(0, name="NVIDIA L40S", nvlink=untold()), gpu(1, name="NVIDIA L40S", nvlink=untold())))

    assert found.kind is Kind.PCIE
    assert bandwidth(found) == pytest.approx(31.508, abs=0.01)
    assert "slot" in found.target.at_most


def test_a_module_is_held_against_the_links_it_is_sold_with() -> None:
    names = ("NVIDIA A100-SXM4-40GB",) * 2
    found = way(machine(*(gpu(place, name=name, nvlink=untold()) for place, name in enumerate(names))))

    assert found.kind is Kind.NVLINK
    assert bandwidth(found) == pytest.approx(300)
    assert "how many links are up" in found.target.at_most


def untold() -> NvlinkFacts:
    """Links of which nobody has told."""
    return NvlinkFacts()


@pytest.mark.parametrize("name", ["NVIDIA A40", "Some GPU of tomorrow", ""])
def test_where_nothing_tells_there_is_no_target(name: str) -> None:
    found = way(machine(gpu(0, name=name, nvlink=untold()), gpu(1, name=name, nvlink=untold())))

    assert found.kind is Kind.UNKNOWN
    assert isinstance(found.target.bandwidth, Absent)
    assert "--min-bandwidth-gbps" in found.target.bandwidth.reason


def test_gpus_nobody_knows_have_no_target() -> None:
    assert way(machine(), 0, 1).kind is Kind.UNKNOWN


def host(card: Card | None) -> Way:
    return way_to_host(card)


def test_beside_a_grace_processor_no_pcie_link_is_the_measure() -> None:
    (card,) = cards_of(machine(gpu(0, name="NVIDIA GH200 480GB", pcie=pcie(5))))

    found = host(card)

    assert found.kind is Kind.CHIP
    assert isinstance(found.target.bandwidth, Absent) and "NVLink-C2C" in found.target.bandwidth.reason


def test_the_way_to_the_host_is_the_pcie_link() -> None:
    (card,) = cards_of(machine(gpu(0, pcie=pcie(5))))

    assert bandwidth(host(card)) == pytest.approx(63.015, abs=0.01)
    assert host(None).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("rate", "names"),
    [(12.4, "Gen3 x16 or Gen4 x8 or Gen5 x4"), (26.2, "Gen4 x16 or Gen5 x8"), (55.0, "Gen5 x16")],
)
def test_a_rate_fits_the_least_pcie_link_that_could_carry_it(rate: float, names: str) -> None:
    found = fit_pcie(rate * GB)

    assert found is not None
    assert " or ".join(found.names) == names
    assert 0.78 <= found.share <= 0.9


@pytest.mark.parametrize(
    ("rate", "names", "share"),
    [
        (392, "18 links of NVLink 4", 0.87),
        (279, "12 links of NVLink 3", 0.93),
        (47.0, "4 links of NVLink 3", 0.84),
        (750, "18 links of NVLink 5", 0.83),
    ],
)
def test_a_rate_fits_the_least_bundle_of_links_that_could_carry_it(rate: float, names: str, share: float) -> None:
    found = fit_nvlink(rate * GB)

    assert found is not None
    assert names in found.names
    assert found.share == pytest.approx(share, abs=0.01)


def test_more_than_anything_carries_fits_nothing() -> None:
    assert fit_nvlink(5000 * GB) is None
    assert fit_pcie(0) is None


def test_a_link_without_a_word_is_absent() -> None:
    assert isinstance(link_payload(LinkFacts(0)), Absent)
