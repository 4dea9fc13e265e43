"""The table of Xids holds every number of the catalogue once, and shows where its sources disagree."""

from __future__ import annotations

import pytest

from mats.sources._xid_table import CATALOGUE, HEADER, Action, conflicts, describe, describe_switch, table

IN_USE = frozenset(
    number
    for first, last in (
        *((8, 8), (11, 11), (13, 13), (25, 25), (31, 32), (37, 41), (43, 48), (54, 54), (60, 60), (62, 80)),
        *((82, 86), (88, 89), (92, 107), (109, 110), (119, 121), (126, 137), (139, 176)),
    )
    for number in range(first, last + 1)
)


def test_every_number_in_use_is_there() -> None:
    assert set(table()) == IN_USE


def test_every_other_number_of_the_catalogue_is_unknown_and_not_healthy() -> None:
    for number in set(range(1, 300)) - IN_USE:
        assert describe(number).action is Action.UNKNOWN, number


def test_every_row_is_whole() -> None:
    for info in table().values():
        assert info.mnemonic
        assert info.meaning
        assert info.source in (CATALOGUE, HEADER)
        assert (info.source == HEADER) is (info.number >= 173)


@pytest.mark.parametrize(
    ("number", "mnemonic", "action"),
    [
        (39, "CE0_ERROR", Action.APPLICATION),
        (126, "CE10_ERROR", Action.APPLICATION),
        (135, "CE19_ERROR", Action.APPLICATION),
        (98, "NVDEC7_ERROR", Action.APPLICATION),
        (105, "NVJPG7_ERROR", Action.APPLICATION),
        (139, "OFA1_ERROR", Action.APPLICATION),
        (142, "NVENC3_ERROR", Action.MONITOR),
        (79, "GPU_HAS_FALLEN_OFF_THE_BUS", Action.REBOOT),
        (137, "NVLINK_PRIV_ERR", Action.APPLICATION),
        (149, "NVLINK_NETIR_ERROR", Action.DECODE),
        (157, "RESOURCE_RETIREMENT_FAILURE", Action.SERVICE),
    ],
)
def test_rows_of_the_catalogue(number: int, mnemonic: str, action: Action) -> None:
    assert (describe(number).mnemonic, describe(number).action) == (mnemonic, action)


@pytest.mark.parametrize("number", [63, 64, 94, 109, 154])
def test_disputed_numbers_show_every_side(number: int) -> None:
    said = conflicts(number)

    assert any(line.startswith("NVIDIA: ") for line in said)
    assert len(said) >= 2


def test_numbers_all_agree_on_are_no_conflict() -> None:
    assert conflicts(79) == conflicts(119) == conflicts(48) == conflicts(8) == ()


def test_an_unused_number_that_the_kernel_still_names_says_both() -> None:
    assert "unused" in describe(58).meaning
    assert "framebuffer" in describe(58).meaning


def test_a_disputed_switch_event() -> None:
    assert "fatal" in describe_switch(12028).conflict
    assert "no meaning" in describe_switch(11001).meaning
