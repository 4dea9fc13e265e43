"""The table of products agrees with itself, with the formulas, and with what CUDA compiles for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from mats.architectures import (
    CUDA_NEWEST,
    EXTRAS,
    Architecture,
    Product,
    architecture,
    architectures,
    cuda_extra,
    find,
    gencode,
    parse_capability,
    products,
)
from mats.architectures.capabilities import version_of
from mats.architectures.lookup import Found
from mats.architectures.products import FORMS
from mats.model import Absent, Quantity

TABLE = products()
CHIPS = {"GP": "Pascal", "GV": "Volta", "TU": "Turing", "GA": "Ampere", "AD": "Ada", "GH": "Hopper", "GB": "Blackwell"}
ROUNDED = 0.006
"""Share by which a peak may differ from the published one: those are rounded to three digits."""


def named(name: str) -> Product:
    (found,) = [product for product in TABLE if product.name == name]
    return found


def test_every_product_is_of_a_known_architecture_and_has_a_source() -> None:
    for product in TABLE:
        known = architecture(product.capability)

        assert isinstance(known, Architecture), product.name
        assert product.chip.startswith("GR") or known.name.startswith(CHIPS[product.chip[:2]]), product.name
        assert product.form in FORMS, product.name
        assert product.source and product.confidence, product.name


def test_the_peak_by_formula_is_the_published_one() -> None:
    published = {product.name: product.published.value for product in TABLE if isinstance(product.published, Quantity)}
    peaks = {product.name: product.peak.value for product in TABLE if isinstance(product.peak, Quantity)}

    assert len(peaks) > 130
    assert peaks == pytest.approx(published, rel=ROUNDED)


@pytest.mark.parametrize("product", [p for p in TABLE if isinstance(p.nvlink, Quantity)], ids=lambda p: p.name)
def test_nvlink_carries_what_its_generation_does(product: Product) -> None:
    each_way = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9, 6: 50e9}  # GB/s; GA102 runs its links at 14.0625
    links, generation = product.nvlink_links, product.nvlink_generation

    assert isinstance(links, Quantity) and isinstance(generation, Quantity) and isinstance(product.nvlink, Quantity)
    expected = 14.0625e9 if product.chip == "GA102" else each_way[int(generation.value)]
    assert product.nvlink.value / links.value / 2 == expected


def test_no_two_products_have_one_name() -> None:
    names = Counter(name.casefold() for product in TABLE for name in product.names)

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("spelling", [str, str.lower, lambda name: "NVIDIA " + name.replace(" ", "-")])
def test_every_product_is_found_by_each_of_its_names(spelling: Callable[[str], str]) -> None:
    lost = []
    for product in TABLE:
        for name in product.names:
            answer = find(spelling(name), TABLE)
            if not isinstance(answer, Found) or product not in answer.products:
                lost.append(name)

    assert lost == []


def test_a_chip_has_one_compute_capability() -> None:
    capabilities: dict[str, set[str]] = {}
    for product in TABLE:
        capabilities.setdefault(product.chip, set()).add(product.capability)

    assert {chip: found for chip, found in capabilities.items() if len(found) > 1} == {}


def test_architectures_follow_one_another_and_so_do_their_versions_of_cuda() -> None:
    known = architectures()

    assert [each.order for each in known] == sorted(each.order for each in known)
    assert len({each.capability for each in known}) == len(known)
    for each in known:
        first = version_of(each.cuda_first)
        assert first <= version_of(each.cuda_last or CUDA_NEWEST)
        for later in (each.specific_first, each.family_first):
            assert not later or first <= version_of(later)


def test_an_older_architecture_is_not_dropped_after_a_newer_one() -> None:
    dropped = [version_of(each.cuda_last) if each.cuda_last else (99, 0) for each in architectures()]

    assert dropped == sorted(dropped)


@pytest.mark.parametrize("known", architectures(), ids=lambda known: known.capability)
def test_flags_name_the_capability_and_are_read_back(known: Architecture) -> None:
    machine, portable = gencode(known.capability)

    assert machine == f"-gencode arch=compute_{known.number},code=sm_{known.number}"
    assert portable == f"-gencode arch=compute_{known.number},code=compute_{known.number}"
    assert parse_capability(machine.rpartition("=")[2]) == known.capability
    assert parse_capability(portable.rpartition("=")[2]) == known.capability


@pytest.mark.parametrize(
    ("capability", "driver", "extra"),
    [
        ("6.1", "", "cuda12"),
        ("7.0", "13.0", "cuda12"),
        ("7.5", "", "cuda13"),
        ("8.9", "12.4", "cuda12"),
        ("9.0", "13.5", "cuda13"),
        ("9.0", "14.1", "cuda13"),
        ("11.0", "", "cuda13"),
        ("12.0", "12.8", "cuda12"),
    ],
)
def test_the_extra_is_of_the_newest_cuda_that_gpu_and_driver_have(capability: str, driver: str, extra: str) -> None:
    known = architecture(capability)
    assert isinstance(known, Architecture)

    assert cuda_extra(known, driver) == extra


@pytest.mark.parametrize(("capability", "driver"), [("11.0", "12.9"), ("8.6", "11.4"), ("10.7", "12.8")])
def test_where_no_cupy_fits_the_reason_is_said(capability: str, driver: str) -> None:
    known = architecture(capability)
    assert isinstance(known, Architecture)

    answer = cuda_extra(known, driver)

    assert isinstance(answer, Absent)
    assert driver in answer.reason


def test_every_extra_is_one_of_the_package() -> None:
    from importlib.metadata import metadata

    assert set(EXTRAS.values()) <= set(metadata("gpu-mats").get_all("Provides-Extra") or [])


@pytest.mark.parametrize(
    ("name", "capability", "chip"),
    [
        ("GeForce RTX 4070", "8.9", "AD104"),
        ("GeForce RTX 3070", "8.6", "GA104"),
        ("A100 SXM4 80 GB", "8.0", "GA100"),
        ("H100 SXM5 80 GB", "9.0", "GH100"),
        ("GeForce RTX 5090", "12.0", "GB202"),
        ("Jetson Thor T5000", "11.0", "GB10B"),
        ("DGX Spark GB10", "12.1", "GB20B"),
        ("Tesla T4", "7.5", "TU104"),
    ],
)
def test_what_people_get_wrong_stands_right(name: str, capability: str, chip: str) -> None:
    product = named(name)

    assert (product.capability, product.chip) == (capability, chip)
