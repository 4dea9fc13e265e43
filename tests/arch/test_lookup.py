"""From a name to what it may mean, never a guess."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mats.architectures import Elsewhere, Found, Near, find, of_driver, parse_capability, products
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.units import GIB

TABLE = products()
UNKNOWN = Absent(AbsenceKind.NOT_FOUND, "not asked")


def names(answer: object) -> list[str]:
    assert isinstance(answer, Found | Near)
    return [product.name for product in answer.products]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4090", ["GeForce RTX 4090", "GeForce RTX 4090 Laptop"]),
        ("rtx 4070 ti super", ["GeForce RTX 4070 Ti SUPER"]),
        ("RTX4070TiSUPER", ["GeForce RTX 4070 Ti SUPER"]),
        ("  nvidia   geforce rtx-4070  ", ["GeForce RTX 4070", "GeForce RTX 4070 Laptop"]),
        ("4070 desktop", ["GeForce RTX 4070"]),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", ["GeForce RTX 4060 Laptop"]),
        ("4060 mobile", ["GeForce RTX 4060 Laptop"]),
        ("4060 Ti", ["GeForce RTX 4060 Ti 16 GB", "GeForce RTX 4060 Ti 8 GB"]),
        ("4060 Ti 16G", ["GeForce RTX 4060 Ti 16 GB"]),
        ("5090D", ["GeForce RTX 5090 D"]),
        ("H100 SXM", ["H100 SXM5 80 GB", "H100 SXM5 96 GB"]),
        ("h100sxm80gb", ["H100 SXM5 80 GB"]),
        ("NVIDIA H100 80GB HBM3", ["H100 SXM5 80 GB"]),
        ("NVIDIA H100 PCIe", ["H100 PCIe 80 GB"]),
        ("A100-40G", ["A100 PCIe 40 GB", "A100 SXM4 40 GB"]),
        ("NVIDIA A100-SXM4-80GB", ["A100 SXM4 80 GB"]),
        ("NVIDIA A100 80GB PCIe", ["A100 PCIe 80 GB"]),
        ("Tesla V100-SXM2-16GB", ["Tesla V100 SXM2 16 GB"]),
        ("A10", ["A10 PCIe"]),
        ("a10g", ["A10G"]),
        ("H200", ["H200 NVL", "H200 SXM 141 GB"]),
        ("NVIDIA H200", ["H200 SXM 141 GB"]),
        ("RTX PRO 6000", ["RTX PRO 6000 Blackwell", "RTX PRO 6000 Blackwell Max-Q", "RTX PRO 6000 Blackwell Server"]),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", ["RTX PRO 6000 Blackwell"]),
        ("DGX Spark", ["DGX Spark GB10"]),
        ("GB300", ["B300 SXM, GB300 (one GPU)"]),
        ("titan rtx", ["TITAN RTX"]),
        ("L40S", ["L40S"]),
    ],
)
def test_a_name_gives_every_product_that_it_may_mean(text: str, found: list[str]) -> None:
    answer = find(text, TABLE)

    assert isinstance(answer, Found)
    assert names(answer) == found


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("gefroce rtx 4090", "GeForce RTX 4090"),
        ("RTX 4075", "GeForce RTX 4070"),
        ("4080 ti", "GeForce RTX 4080"),
        ("h1000", "H100 PCIe 80 GB"),
        ("RTX 6000", "RTX 6000 Ada Generation"),
        ("orin", "Jetson AGX Orin 32 GB"),
        ("RTX 4090 Max-Q", "GeForce RTX 4090"),
        ("RTX 4000 SFF Ada", "RTX 4000 Ada Generation"),
    ],
)
def test_a_name_that_is_none_gives_the_nearest_real_ones(text: str, nearest: str) -> None:
    answer = find(text, TABLE)

    assert isinstance(answer, Near)
    assert nearest in names(answer)


@pytest.mark.parametrize("text", ["", "   ", "NVIDIA", "rtx", "89", "x" * 100_000, "\x00", "()", "..", "🦊"])
def test_what_is_like_nothing_gives_no_name(text: str) -> None:
    answer = find(text, TABLE)

    assert answer == Near(())


@pytest.mark.parametrize(
    ("text", "maker"),
    [
        ("AI MAX 395", "AMD"),
        ("AI MAX+ 395", "AMD"),
        ("AMD Ryzen AI Max+ PRO 395", "AMD"),
        ("Radeon 8060S", "AMD"),
        ("MI300X", "AMD"),
        ("rx 7900 xtx", "AMD"),
        ("gfx1151", "AMD"),
        ("Intel Arc A770", "Intel"),
        ("arc b580", "Intel"),
        ("gaudi3", "Intel"),
        ("Apple M4 Max", "Apple"),
        ("hygon dcu", "Hygon"),
    ],
)
def test_a_device_of_another_maker_is_named_so(text: str, maker: str) -> None:
    answer = find(text, TABLE)

    assert isinstance(answer, Elsewhere)
    assert answer.maker == maker


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("8.9", "8.9"),
        ("sm_89", "8.9"),
        ("SM89", "8.9"),
        ("compute_120a", "12.0"),
        ("sm_100f", "10.0"),
        ("cc 9.0", "9.0"),
    ],
)
def test_a_compute_capability_gives_its_products(text: str, capability: str) -> None:
    answer = find(text, TABLE)

    assert isinstance(answer, Found)
    assert answer.architecture is not None and answer.architecture.capability == capability
    assert {product.capability for product in answer.products} == {capability}


def test_a_capability_without_products_is_known_all_the_same() -> None:
    answer = find("sm_72", TABLE)

    assert isinstance(answer, Found)
    assert answer.products == () and answer.architecture is not None


@pytest.mark.parametrize("text", ["hopper", "Hopper", "GH100"])
def test_an_architecture_and_a_chip_give_all_of_theirs(text: str) -> None:
    answer = find(text, TABLE)

    assert isinstance(answer, Found)
    assert set(names(answer)) == {product.name for product in TABLE if product.chip == "GH100"}


@pytest.mark.parametrize(
    ("name", "gibibytes", "found"),
    [
        ("NVIDIA GeForce RTX 4070", 12, ["GeForce RTX 4070"]),
        ("NVIDIA GeForce RTX 4060 Ti", 15.99, ["GeForce RTX 4060 Ti 16 GB"]),
        ("NVIDIA GeForce RTX 4060 Ti", 7.99, ["GeForce RTX 4060 Ti 8 GB"]),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, ["GeForce RTX 4090 Laptop"]),
        ("NVIDIA H200", 140.4, ["H200 SXM 141 GB"]),
        ("NVIDIA GH200 480GB", 95.6, ["GH200 96 GB (its GPU)"]),
        ("Tesla T4", 15, ["Tesla T4"]),
        ("NVIDIA GeForce RTX 9090", 48, []),
        ("", 1, []),
    ],
)
def test_a_drivers_name_and_its_memory_give_one_product_or_none(name: str, gibibytes: float, found: list[str]) -> None:
    matched = of_driver(name, TABLE, Quantity(gibibytes * GIB, Unit.BYTE))

    assert [product.name for product in matched] == found


def test_without_the_memory_a_drivers_name_may_leave_several() -> None:
    matched = of_driver("NVIDIA GeForce RTX 4060 Ti", TABLE, UNKNOWN)

    assert len(matched) == 2


TOKENS = st.sampled_from(
    [word for product in TABLE for word in product.name.split()] + ["nvidia", "gpu", "sm_", "-", "ti"]
)


@settings(max_examples=60)
@given(st.one_of(st.text(), st.lists(TOKENS, max_size=8).map(" ".join), st.lists(TOKENS, max_size=5).map("".join)))
@example("ﬁ½①Ⅷ")
@example("8." * 40)
def test_any_text_has_an_answer(text: str) -> None:
    answer = find(text, TABLE)

    if isinstance(answer, Found):
        assert answer.products or answer.architecture is not None
    assert isinstance(answer, Found | Near | Elsewhere)
    assert isinstance(of_driver(text, TABLE, UNKNOWN), tuple)


@given(st.text())
def test_any_text_is_a_capability_or_none(text: str) -> None:
    found = parse_capability(text)

    assert found is None or parse_capability(found) == found


def test_no_text_takes_long() -> None:
    started = time.process_time()

    for text in ("rtx" * 10_000, "a" * 100_000, "4 " * 50_000, "-" * 100_000, "max q " * 10_000):
        find(text, TABLE)

    assert time.process_time() - started < 2
