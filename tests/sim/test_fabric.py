"""Simulated cards that are joined: time by what a way carries, bytes that move, and what each built-in plan does."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mats.device import Buffer, DeviceError, DeviceLost
from mats.devices._fabric_plans import FABRIC_EXAMPLE, FABRICS, FabricPlan, WayFault
from mats.devices._plan_files import parse_plan
from mats.devices._plans import built_in
from mats.devices._sim_fabric import Member, SimFabric, open_fabric
from mats.devices._sim_link import HEALTHY_LINK
from mats.devices._sim_ways import HOST_STARTUP, NVLINK_HOP, SWITCH_HOP, seconds_of, way_between
from mats.fabric import Copy
from mats.facts import GpuFacts
from mats.model import Quantity, Unit
from mats.probe import UsageError
from mats.source import NothingThere
from mats.target import Target

MIB = 1 << 20
PAIR = FABRICS["links_healthy"][1]
SWITCH = FABRICS["link_switch8"][1]
ALONE = FABRICS["links_pcie"][1]


@contextmanager
def opened(name: str) -> Iterator[SimFabric]:
    fabric = open_fabric(Target("sim", name))
    try:
        yield fabric
    finally:
        fabric.close()


def connected(fabric: SimFabric, start: int, end: int) -> None:
    fabric.connect(start, end)
    fabric.connect(end, start)


def copy_of(fabric: SimFabric, start: int, end: int, size: int = 2 * MIB) -> Copy:
    members = fabric.members()
    return Copy(start, members[start].allocate(size), end, members[end].allocate(size))


def rate(fabric: SimFabric, start: int, end: int, size: int = 2 * MIB) -> float:
    """Bytes per second of a long copy that has its way to itself."""
    copy = copy_of(fabric, start, end, size)
    (seconds,) = fabric.exchange((copy,), 400, 60.0)
    for card, buffer in ((start, copy.source), (end, copy.destination)):
        fabric.members()[card].free(buffer)
    return 400 * size / seconds


def gpus(fabric: SimFabric) -> tuple[GpuFacts, ...]:
    found = fabric.facts().gpus
    assert isinstance(found, tuple)
    return found


def way(plan: FabricPlan, start: int, end: int, *, direct: bool = True) -> float:
    return way_between(plan, HEALTHY_LINK, start, end, direct=direct).bandwidth


def test_a_way_carries_what_its_links_do() -> None:
    assert way(PAIR, 0, 1) == pytest.approx(4 * 14.0625e9 * 0.84)
    assert way(SWITCH, 2, 7) == pytest.approx(18 * 25e9 * 0.85)
    assert way(PAIR, 0, 2) == pytest.approx(31.508e9 * 0.84, rel=1e-3)
    assert way(PAIR, 0, 1, direct=False) == pytest.approx(0.75 * way(PAIR, 0, 2))


def test_copies_to_one_card_share_its_link_and_both_ways_at_once_do_not() -> None:
    # given
    to_0 = [way_between(ALONE, HEALTHY_LINK, start, 0, direct=True) for start in (1, 2, 3)]
    both = [way_between(ALONE, HEALTHY_LINK, *ends, direct=True) for ends in ((0, 1), (1, 0))]
    # when
    (alone,) = seconds_of(to_0[:1], [64 * MIB], 1)
    # then
    assert seconds_of(to_0, [64 * MIB] * 3, 1) == pytest.approx((3 * alone,) * 3, rel=0.01)
    assert seconds_of(both, [64 * MIB] * 2, 1) == pytest.approx((alone, alone))


def test_what_a_short_copy_leaves_is_the_longer_ones() -> None:
    ways = [way_between(SWITCH, HEALTHY_LINK, start, 0, direct=True) for start in (1, 2)]
    short, long = seconds_of(ways, [32 * MIB, 96 * MIB], 1)
    full = ways[0].bandwidth
    assert short == pytest.approx(2 * 32 * MIB / full, rel=0.03)
    assert long == pytest.approx(128 * MIB / full, rel=0.03)


def test_a_connected_way_is_faster_and_the_bytes_arrive() -> None:
    with opened("links_healthy") as fabric:
        # given
        copy = copy_of(fabric, 0, 1)
        data = bytes(range(256)) * (2 * MIB // 256)
        fabric.members()[0].copy(copy.source, data)
        (staged,) = fabric.exchange((copy,), 20, 10.0)
        # when
        fabric.connect(0, 1)
        (direct,) = fabric.exchange((copy,), 20, 10.0)
        # then
        assert fabric.members()[1].fetch(copy.destination, 0, 2 * MIB) == data
        assert direct < 0.6 * staged
        fabric.disconnect(0, 1)
        assert fabric.exchange((copy,), 20, 10.0)[0] == pytest.approx(staged, rel=0.05)


def test_a_small_copy_shows_the_start_of_its_way() -> None:
    with opened("link_no_p2p") as fabric:
        copy = copy_of(fabric, 0, 3, 4096)
        (seconds,) = fabric.exchange((copy,), 100, 10.0)
    assert seconds / 100 == pytest.approx(HOST_STARTUP, rel=0.1)


def test_the_kernels_of_a_connected_card_reach_the_other_ones_memory() -> None:
    with opened("links_healthy") as fabric:
        # given
        first, second = fabric.members()[:2]
        buffer = second.allocate(16 * MIB)
        fabric.connect(0, 1)
        # when
        seconds = first.launch("pattern_write", 256, data=buffer, first=0, kind=0, a=7, b=0, mask=0, descending=0)
        # then
        assert second.fetch(buffer, 0, 8) == (7).to_bytes(8, "little")
        assert 16 * MIB / seconds == pytest.approx(way(PAIR, 0, 1), rel=0.1)


@pytest.mark.parametrize(("name", "hop"), [("links_healthy", NVLINK_HOP), ("link_switch8", SWITCH_HOP)])
def test_a_load_from_another_cards_memory_takes_the_time_of_its_way(name: str, hop: float) -> None:
    with opened(name) as fabric:
        # given: a ring of 16 lines in the memory of 1
        first, second = fabric.members()[:2]
        data, order, walk = second.allocate(2 * MIB), second.allocate(4096), first.allocate(4096)
        second.copy(order, struct.pack("<16Q", *(16 * line for line in range(1, 17))))
        second.launch("lay_chain", 1, data=data, stride_words=2 * MIB // 8, order=order, lines=16)
        fabric.connect(0, 1)
        first.copy(walk, bytes(4096))
        # when
        first.launch(
            "walk_chain", 1, data=data, mask=2 * MIB // 8 - 1, start=16, ahead=0, hops=64, pages=0, unit=0, near=0,
            walk=walk,
        )  # fmt: skip
        # then
        _claimed, _cycles, nanoseconds, end = struct.unpack("<4Q", first.fetch(walk, 0, 32))
        assert end == 16
        assert nanoseconds / 64 == pytest.approx(hop * 1e9, rel=0.05)


def test_a_card_that_uses_memory_it_is_not_connected_to_is_lost() -> None:
    with opened("links_healthy") as fabric:
        buffer = fabric.members()[1].allocate(2 * MIB)
        with pytest.raises(DeviceLost, match="is not connected"):
            fabric.members()[0].launch("pattern_write", 1, data=buffer, first=0, kind=0, a=7, b=0, mask=0, descending=0)
        with pytest.raises(DeviceLost):
            fabric.members()[0].allocate(4096)


def test_a_slow_way_is_slow_in_one_direction() -> None:
    with opened("link_slow") as fabric:
        connected(fabric, 0, 1)
        assert rate(fabric, 0, 1) == pytest.approx(0.5 * rate(fabric, 1, 0), rel=0.1)


def test_a_corrupt_way_damages_copies_and_what_kernels_store_and_load() -> None:
    with opened("link_corrupt") as fabric:
        # given
        connected(fabric, 2, 3)
        third, fourth = fabric.members()[2:]
        there, back = copy_of(fabric, 2, 3), copy_of(fabric, 3, 2)
        # when
        fabric.exchange((there, back), 1, 10.0)
        stored, kept = fourth.allocate(2 * MIB), third.allocate(2 * MIB)
        for device, buffer in ((third, stored), (third, kept), (fourth, kept)):
            device.launch("pattern_write", 32, data=buffer, first=0, kind=0, a=7, b=0, mask=0, descending=0)
        # then
        assert 4 <= bits_set(fourth.fetch(there.destination, 0, 2 * MIB)) <= 60
        assert bits_set(third.fetch(back.destination, 0, 2 * MIB)) == 0
        assert fourth.fetch(stored, 0, 2 * MIB) != third.fetch(kept, 0, 2 * MIB)
        fourth.launch("pattern_write", 32, data=stored, first=0, kind=0, a=7, b=0, mask=0, descending=0)
        assert fourth.fetch(stored, 0, 2 * MIB) == third.fetch(kept, 0, 2 * MIB)  # the way back is whole


def test_what_a_kernel_loads_over_a_corrupt_way_is_damaged_and_what_lies_there_is_not() -> None:
    with opened("link_corrupt") as fabric:
        # given
        connected(fabric, 2, 3)
        third, fourth = fabric.members()[2:]
        data = third.allocate(2 * MIB)
        report, pages, records = (fourth.allocate(1 << 16) for _ in range(3))
        same = {"first": 0, "kind": 2, "a": 0, "b": 0, "mask": 0, "descending": 0}
        # when
        for buffer in (report, pages, records):
            fourth.copy(buffer, bytes(1 << 16))
        fourth.launch("pattern_verify", 32, data=data, report=report, pages=pages, records=records, capacity=64, **same)
        # then
        assert int.from_bytes(fourth.fetch(report, 0, 8), "little") > 0
        assert bits_set(third.fetch(data, 0, 2 * MIB)) == 0


def bits_set(data: bytes) -> int:
    return int.from_bytes(data, "little").bit_count()


def test_links_that_are_down_are_told_and_missed() -> None:
    with opened("link_inactive") as fabric:
        links = gpus(fabric)[2].nvlink.links
        assert isinstance(links, tuple)
        assert [link.active for link in links] == [True, True, False, False]
        connected(fabric, 2, 3)
        connected(fabric, 0, 1)
        assert rate(fabric, 2, 3) == pytest.approx(0.5 * rate(fabric, 0, 1), rel=0.1)


def test_links_that_err_count_while_they_work_and_others_do_not() -> None:
    with opened("link_errors") as fabric:
        connected(fabric, 0, 1)
        connected(fabric, 2, 3)
        rate(fabric, 0, 1)
        rate(fabric, 2, 3)
        told = [dict(links[0].errors) for gpu in gpus(fabric) if isinstance(links := gpu.nvlink.links, tuple)]
    counted = [errors["replay errors"].value for errors in told if isinstance(errors["replay errors"], Quantity)]
    assert counted[0] == counted[1] > 0
    assert counted[2:] == [0, 0]


def test_a_silent_card_is_lost_within_the_time_and_the_others_go_on() -> None:
    with opened("link_silent") as fabric:
        copy, other = copy_of(fabric, 1, 2), copy_of(fabric, 0, 1)
        for _ in range(3):
            fabric.exchange((copy,), 1, 10.0)
        with pytest.raises(DeviceLost, match="card 2 of sim:link_silent has not answered within 10 s"):
            fabric.exchange((copy,), 1, 10.0)
        assert fabric.exchange((other,), 1, 10.0)
        assert [gpu.answers for gpu in gpus(fabric)] == [True, True, False, True]


def test_a_copy_that_takes_longer_than_it_may_loses_its_card() -> None:
    with opened("links_pcie") as fabric:
        copy = copy_of(fabric, 1, 2)
        with pytest.raises(DeviceLost, match=r"card 1 .* within 1 s"):
            fabric.exchange((copy,), 100_000, 1.0)


def test_a_narrow_slot_shows_and_slows_both_ways() -> None:
    with opened("link_narrow") as fabric:
        connected(fabric, 0, 1)
        connected(fabric, 2, 3)
        widths = [gpu.pcie.width for gpu in gpus(fabric)]
        assert [width.value for width in widths if isinstance(width, Quantity)] == [16, 4, 16, 16]
        assert rate(fabric, 1, 0) == pytest.approx(0.25 * rate(fabric, 2, 3), rel=0.1)


def test_a_detour_makes_the_direct_way_the_slower_one() -> None:
    with opened("link_p2p_slower") as fabric:
        staged = rate(fabric, 0, 1)
        fabric.connect(0, 1)
        assert rate(fabric, 0, 1) < 0.6 * staged


def test_without_peer_access_no_card_can_be_connected() -> None:
    with opened("link_no_p2p") as fabric:
        assert not fabric.reach(0, 1).direct
        with pytest.raises(DeviceError, match=r"card 0 .* cannot be connected to card 1 .*: the simulated driver"):
            fabric.connect(0, 1)


def test_links_to_the_host_rest_until_they_are_loaded() -> None:
    with opened("links_healthy") as fabric:
        rest, loaded = fabric.facts().gpus, fabric.facts(load=True).gpus
    assert isinstance(rest, tuple)
    assert isinstance(loaded, tuple)
    assert rest[0].pcie.generation == Quantity(1, Unit.COUNT)
    assert loaded[0].pcie.generation == Quantity(4, Unit.COUNT)
    assert loaded[0].pcie.idle_generation == Quantity(1, Unit.COUNT)


def test_pairs_and_members_are_told_by_the_same_numbers() -> None:
    with opened("links_healthy") as fabric:
        pairs = fabric.facts().pairs
        uuids = [member.describe().uuid for member in fabric.members()]
        assert isinstance(pairs, tuple)
        assert {(pair.first, pair.second): pair.connection for pair in pairs} == {
            (0, 1): "NV4",
            (0, 2): "SYS",
            (0, 3): "SYS",
            (1, 2): "SYS",
            (1, 3): "SYS",
            (2, 3): "NV4",
        }
        assert uuids == [gpu.uuid for gpu in gpus(fabric)]


def test_memory_of_another_card_or_too_much_of_it_is_refused() -> None:
    with opened("links_healthy") as fabric:
        copy = copy_of(fabric, 0, 1)
        with pytest.raises(DeviceError, match="is no memory of card 2"):
            fabric.exchange((dataclasses.replace(copy, start=2),), 1, 10.0)
        small = Buffer(copy.destination.address, 4096)
        with pytest.raises(DeviceError, match="do not fit"):
            fabric.exchange((dataclasses.replace(copy, destination=small),), 1, 10.0)
        with pytest.raises(DeviceError, match="0 times"):
            fabric.exchange((copy,), 0, 10.0)


def test_one_card_is_no_fabric() -> None:
    with pytest.raises(NothingThere, match="sim:healthy is one card"):
        open_fabric(Target("sim", "healthy"))
    with pytest.raises(NothingThere, match="has no memory"):
        open_fabric(Target("sim", "needs_reset"))


def test_a_fabric_of_the_users_own_is_read() -> None:
    text = '[fabric]\ncards = 2\nlinks = 12\nlink_gbps = 25\n[[fabric.fault]]\nkind = "slow"\nfrom = 1\nto = 0\n'
    fabric = parse_plan(text, "mine").fabric
    assert fabric == FabricPlan(
        cards=2, links=12, link_speed=25e9, told_speed=25e9, faults=(WayFault("slow", 1, 0, factor=0.5),)
    )


def test_the_example_is_a_plan_that_fits_a_terminal() -> None:
    fabric = parse_plan(FABRIC_EXAMPLE, "mine").fabric

    assert fabric == FabricPlan(faults=(WayFault("slow", 0, 1),), told_speed=14.0625e9)
    assert max(map(len, FABRIC_EXAMPLE.splitlines())) < 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fabric = 3", r"mine, \[fabric\]: must be a table"),
        ("[fabric]\ncard = 2", "unknown key 'card'"),
        ("[fabric]\ncards = 1", "cards must be a whole number from 2 to 16, not 1"),
        ("[fabric]\ncards = 3", "cards joined in pairs must be an even number, not 3"),
        ('[fabric]\njoined = "ring"', "joined must be one of pairs, switch, none, not 'ring'"),
        ("[fabric]\ncarried = 1.5", "carried must be a number above 0 and at most 1"),
        ("[fabric]\nlink_gbps = nan", "link_gbps must be a number above 0"),
        ("[fabric]\nfault = 1", r"its own \[\[fabric.fault\]\] table"),
        ('[fabric]\n[[fabric.fault]]\nkind = "lame"', "fault 1: kind must be one of slow"),
        ('[fabric]\n[[fabric.fault]]\nkind = "slow"\nfrom = 0', "slow needs two cards, from and to"),
        ('[fabric]\n[[fabric.fault]]\nkind = "slow"\nfrom = 0\nto = 0', "from and to must be two cards"),
        ('[fabric]\n[[fabric.fault]]\nkind = "silent"', "silent needs a card, from"),
        ('[fabric]\n[[fabric.fault]]\nkind = "detour"\nfrom = 4\nto = 0', "from must be a whole number from 0 to 3"),
        (
            '[fabric]\njoined = "none"\n[[fabric.fault]]\nkind = "inactive"\nfrom = 0\nto = 1',
            "have no links that could be down",
        ),
    ],
)
def test_a_wrong_fabric_is_one_clear_sentence(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_plan(text, "mine")


@pytest.mark.parametrize("name", FABRICS)
def test_a_card_of_a_plan_of_links_is_healthy(name: str) -> None:
    plan = built_in(name)
    assert plan.faults == ()
    assert plan.fabric == FABRICS[name][1]


def test_a_member_is_a_card_with_a_uuid_of_its_own() -> None:
    with opened("link_switch8") as fabric:
        members = fabric.members()
        assert all(isinstance(member, Member) for member in members)
        assert len({member.describe().uuid for member in members}) == 8
