"""Leaves are found by looking in their folders; what is not made as it must be is said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mats import registry
from mats.device import DeviceError
from mats.probe import UsageError
from mats.registry import RegistryError
from mats.target import Target

from .fakes import CLEAN, limit, probe

PROBE_FILE = '''
"""The page of {name}."""
from mats.probe import Probe
from mats.model import Limit
PROBE = Probe("{name}", "Is it?", ("host",), {order}, False, (), (), (), None)
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "planned_leaves"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("planned_leaves")]:
        del sys.modules[name]


def test_probes_come_in_their_order_and_helpers_are_passed_over(package: Path) -> None:
    (package / "late.py").write_text(PROBE_FILE.format(name="late", order=20))
    (package / "early.py").write_text(PROBE_FILE.format(name="early", order=10))
    (package / "_helper.py").write_text("raise AssertionError('a helper is not looked at')")

    found = registry.probes("planned_leaves")

    assert list(found) == ["early", "late"]
    assert registry.page(found["late"], "planned_leaves") == "The page of late."


def test_a_file_without_probe_is_said(package: Path) -> None:
    (package / "empty.py").write_text("")

    with pytest.raises(RegistryError, match=r"planned_leaves\.empty has no PROBE"):
        registry.probes("planned_leaves")


def test_a_file_without_report_is_said(package: Path) -> None:
    (package / "empty.py").write_text("")

    with pytest.raises(RegistryError, match=r"planned_leaves\.empty has no REPORT"):
        registry.reports("planned_leaves")


def test_two_probes_of_one_name_are_said(package: Path) -> None:
    (package / "one.py").write_text(PROBE_FILE.format(name="same", order=1))
    (package / "two.py").write_text(PROBE_FILE.format(name="same", order=1))

    with pytest.raises(RegistryError, match="two probes are named same"):
        registry.probes("planned_leaves")


def test_a_code_used_twice_is_said() -> None:
    twice = {name: probe(CLEAN, name, limits=(limit("SAME-1"),)) for name in ("one", "two")}

    with pytest.raises(RegistryError, match="SAME-1 is declared by one and two"):
        registry.limits(twice)


def test_the_catalogue_is_collected_from_the_probes(package: Path) -> None:
    (package / "one.py").write_text(PROBE_FILE.format(name="one", order=1) + "CATALOGUE = {'stuck_bit': object()}")
    (package / "two.py").write_text(PROBE_FILE.format(name="two", order=1))

    assert list(registry.faults("planned_leaves")) == ["stuck_bit"]


def test_a_device_whose_library_is_missing_says_which(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    (package / "cuda.py").write_text("import a_library_nobody_has")
    monkeypatch.setattr(registry, "DEVICES", "planned_leaves")

    with pytest.raises(DeviceError, match="a_library_nobody_has, which is not installed"):
        registry.open_device(Target("cuda", "0"))


def test_a_kind_without_device_is_said(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    monkeypatch.setattr(registry, "DEVICES", "planned_leaves")

    with pytest.raises(UsageError, match="no device for host targets"):
        registry.open_device(Target("host"))


def test_file_targets_are_opened_by_replay(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    (package / "replay.py").write_text("def open_device(target): return target.argument")
    monkeypatch.setattr(registry, "DEVICES", "planned_leaves")

    assert registry.open_device(Target("file", "run.json")) == "run.json"  # type: ignore[comparison-overlap]


def test_every_leaf_of_this_project_is_made_as_it_must_be() -> None:
    probes = registry.probes()

    registry.limits(probes)
    registry.reports()
    assert all(registry.page(probe) for probe in probes.values())
