"""Plans of the simulator: built in, from files, and the layout they stand on."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from pathlib import Path

import pytest

from mats.devices import _plans as plans
from mats.devices._library import library
from mats.devices._plan_files import parse_plan
from mats.devices._sim_link import LINK_EXAMPLE, SimLink
from mats.devices.sim import PAGE, SimDevice, find_plan, plan_example
from mats.devices.sim import plans as listed
from mats.probe import UsageError

FAULT_MODEL = Path(__file__).parents[2] / "kernels" / "include" / "faults.hpp"


def test_the_kinds_of_fault_are_numbered_alike_in_both_languages() -> None:
    text = FAULT_MODEL.read_text()
    numbered = dict(re.findall(r"^  ([A-Z_]+) = (\d+),", text, re.M))
    assert {name.upper(): str(i) for i, name in enumerate(plans.FAULT_KINDS)} == numbered


@pytest.mark.parametrize("shape", plans.GEOMETRIES)
def test_a_sector_lies_at_the_same_place_in_both_languages(shape: str) -> None:
    # given
    device = SimDevice(plans.built_in("healthy", geometry=shape, capacity=8 << 20))
    model, layout, out = device._model, device.layout, (ctypes.c_ulonglong * 4)()
    # when
    differing = []
    for sector in range(0, 4 * 65536, 611):
        physical = layout.pages[sector >> 16] * PAGE + (sector & 0xFFFF) * 32
        library().mats_sim_place(model, physical, out)
        place = layout.place(sector)
        if list(out) != [place.channel, place.bank, place.row, place.column]:
            differing.append(sector)
    device.close()
    # then
    assert differing == []


@pytest.mark.parametrize("shape", plans.GEOMETRIES)
def test_channels_share_the_memory_evenly(shape: str) -> None:
    geometry = plans.GEOMETRIES[shape]
    layout = plans.layout(geometry, 32 << 20, 7)
    counts: dict[int, int] = {}
    for sector in range(0, 16 * 65536, 8):
        channel = layout.place(sector).channel
        counts[channel] = counts.get(channel, 0) + 1
    assert len(counts) == geometry.channels
    assert max(counts.values()) < 1.5 * min(counts.values())


@pytest.mark.parametrize("name", [name for name, _ in plans.plan_names()])
def test_every_built_in_plan_opens(name: str) -> None:
    device = SimDevice(find_plan(f"{name}@gddr6-384"))
    info = device.describe()
    device.close()
    assert info.simulated
    assert name in info.title


def test_the_list_for_explain_names_plans_and_geometries() -> None:
    names = [name for name, _ in listed()]
    assert "stuck_dq" in names
    assert "PLAN@hbm3-5" in names


def test_a_plan_of_the_users_own_is_read(tmp_path: Path) -> None:
    # given
    file = tmp_path / "mine.toml"
    file.write_text(
        'geometry = "gddr6-256"\ncapacity_mib = 8\nseed = 4\n'
        '[[fault]]\nkind = "stuck_bits"\nmask = 0x20\nvalue = 0x20\nchannel = 3\n'
    )
    # when
    plan = find_plan(str(file))
    # then
    assert plan.name == "mine"
    assert plan.capacity == 8 << 20
    assert plan.faults == (plans.SimFault("stuck_bits", 0x20, 0x20, channel=3),)


def test_a_whole_word_of_bits_can_be_written() -> None:
    plan = parse_plan(f'[[fault]]\nkind = "stuck_bits"\nmask = {plans.ALL:#x}\n', "mine")
    assert plan.faults[0].mask == plans.ALL


def test_a_plan_of_as_many_faults_as_are_allowed_reads_and_writes() -> None:
    # given: faults that all act on every sector and change nothing
    fault = plans.SimFault("flip_bits", mask=0, probability=0.5)
    healthy = plans.built_in("healthy", capacity=2 << 20)
    device = SimDevice(dataclasses.replace(healthy, faults=(fault,) * plans.MOST_FAULTS))
    buffer = device.allocate(2 << 20)
    # when
    device.launch("pattern_write", 1, data=buffer, first=0, kind=0, a=7, b=0, mask=0, descending=0)
    # then
    assert device.fetch(buffer, 8, 8) == (8).to_bytes(8, "little")
    device.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("capacity_mib = ", "is not a plan"),
        ("capacty_mib = 8", "unknown key 'capacty_mib'"),
        ('geometry = "hbm9"', "no geometry named 'hbm9'"),
        ("capacity_mib = 3", "even number"),
        ("capacity_mib = -8", "not negative"),
        ('capacity_mib = "8"', "must be a number"),
        ("spilled = 1", "true or false"),
        ("fault = 3", r"\[\[fault\]\]"),
        ('[[fault]]\nkind = "stuck"', "kind must be one of"),
        ('[[fault]]\nkind = "stuck_bits"\nmaks = 1', "unknown key 'maks'"),
        ('[[fault]]\nkind = "flip_bits"\nprobability = 2', "between 0 and 1"),
        ('[[fault]]\nkind = "stuck_bits"\nmask = 1.5', "whole number"),
        ('[[fault]]\nkind = "stuck_bits"\nmask = 0x10000000000000000', "whole number below 2"),
        ('[[fault]]\nkind = "alias"\nvalue = 8', "multiple of 32"),
        ('[[fault]]\nkind = "alias"', "an alias needs a value"),
        ('[[fault]]\nkind = "alias"\nvalue = 0x2000000', "below the capacity"),
        ('[[fault]]\nkind = "stuck_bits"\nchannel = 80', r"channel must be below 80 on this card \(hbm3-5, 32 MiB\)"),
        ('[[fault]]\nkind = "stuck_bits"\nbank = 4', "bank must be below 4"),
        ('[[fault]]\nkind = "stuck_bits"\ncolumn = 16', "column must be below 16"),
        ('[[fault]]\nkind = "stuck_bits"\nsector = 0x100000', "sector must be below 1048576"),
        ('[[fault]]\nkind = "stuck_bits"\nword = 4', "word must be below 4"),
        ('[[fault]]\nkind = "stuck_bits"\n' * 32, "at most 31"),
        ("geometry = []", "no geometry named"),
        ("capacity_mib = inf", "must be a number"),
        ("seed = nan", "must be a number"),
        (f"seed = {'9' * 400}", "too large"),
        ("peak_gbps = 0", "above 0"),
        ("slow_factor = 0.0", "above 0"),
        ("link = 3", r"as a table, \[link\]"),
        ("[link]\nlanes = 4", "unknown key 'lanes'"),
        ("[link]\ngeneration = 7", "from 1 to 6"),
        ("[link]\nwidth = 3", "width must be one of 1, 2, 4"),
        ("[link]\npayload = 1.5", "above 0 and at most 1"),
        ("[link]\nflips = -1", "not negative"),
        ("[link]\nwidth = 8\nreached_width = 16", "cannot reach more"),
    ],
)
def test_a_plan_with_a_mistake_gets_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        find_plan(str(file))
    assert "\n" not in str(caught.value) or "is not a plan" in str(caught.value)


def test_a_link_of_the_users_own_reaches_all_it_can_unless_it_says_otherwise() -> None:
    plan = parse_plan("[link]\ngeneration = 5\nwidth = 8\nflips = 0.5", "mine.toml")

    assert plan.link == SimLink(5, 8, 5, 8, flips=0.5)


def test_the_example_of_a_link_is_one() -> None:
    link = parse_plan(LINK_EXAMPLE, "mine.toml").link

    assert (link.generation, link.reached_generation, link.reached_width) == (5, 3, 8)


def test_the_example_of_a_plan_is_one() -> None:
    faults = parse_plan(plan_example(), "example").faults
    assert [(fault.kind, fault.mask) for fault in faults] == [("stuck_bits", 0x20), ("flip_bits", 0x1)]


def test_a_missing_plan_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read the plan nowhere\.toml"):
        find_plan("nowhere.toml")


def test_an_unknown_plan_points_to_the_list() -> None:
    with pytest.raises(UsageError, match="mats explain sim"):
        find_plan("stuck_dp")
    with pytest.raises(UsageError, match="did you mean 'stuck_dq'"):
        find_plan("stuck_dp")
