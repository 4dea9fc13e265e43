"""Profiles of simulated drivers: what is built in, what a user writes, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from mats.device import DeviceError
from mats.probe import UsageError
from mats.sources import _mock_profiles as profiles

PROMISED = {
    *("healthy", "h100x8", "a100_mig", "rtx4090", "rtx4060_laptop", "t4", "v100_retired", "gb10", "wsl", "b200"),
    *("needs_reset", "fallen_off_bus", "old_driver", "hanging_call"),
}


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.profile"
    path.write_text(text)
    return path


def test_the_promised_profiles_are_built_in_and_each_has_a_summary() -> None:
    summaries = dict(profiles.summaries())

    assert set(summaries) >= PROMISED
    assert all(text.endswith(".") and "read from" not in text for text in summaries.values())
    assert len(set(summaries.values())) == len(summaries)


def test_a_profile_takes_the_rest_from_the_one_it_is_like(tmp_path: Path) -> None:
    path = write(
        tmp_path, "# Hot.\n[system]\nlike = healthy\n[0]\ntemperature.0 = 88\n[log]\n| [ 1.0] first\n|  second\n"
    )

    found = profiles.find_profile(str(path))

    assert (found.name, found.summary) == ("mine", "Hot.")
    assert (found.value(0, "temperature.0"), found.value(0, "name")) == ("88", "NVIDIA H100 80GB HBM3")
    assert found.entries["system", "count"] == "1"
    assert found.log == "[ 1.0] first\n second"
    assert found.pci.startswith("1a:01.0 PCI bridge")


def test_a_profile_may_be_like_one_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "[system]\nlike = t4\n[0]\nserial = 7\n", "base")
    path = write(tmp_path, "[system]\nlike = base\n")

    found = profiles.find_profile(str(path))

    assert (found.value(0, "serial"), found.value(0, "name")) == ("7", "Tesla T4")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no section [system]"),
        ("[gpu]\n", ":1: a section is [system]"),
        ("[system]\ndriver 5\n", ":2: a line is 'key = value'"),
        ("driver = 5\n", ":1: a line is 'key = value' within a section"),
        ("[system]\ncount = 1\n[log]\nNVRM: Xid\n", ":4: a line of [log] begins with |"),
        ("[system]\nlike = nothing\n", "like a profile that is not there"),
        ("[system]\nlike = mine\n", "like too many"),
        ("[system]\nx = " + "y" * 5000, ":2: the line is too long"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)

    with pytest.raises(UsageError) as refused:
        profiles.find_profile(str(path))

    assert str(path) in str(refused.value)
    assert says in str(refused.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    binary = tmp_path / "binary.profile"
    binary.write_bytes(b"\xff\xfe\x00[system]")

    for path in (binary, tmp_path / "gone.profile", tmp_path):
        with pytest.raises(UsageError, match=r"cannot read the profile|no simulated driver"):
            profiles.find_profile(str(path))


def test_a_name_that_is_nearly_right_is_corrected() -> None:
    with pytest.raises(UsageError, match="did you mean 'needs_reset'"):
        profiles.find_profile("need_reset")


def test_a_profile_names_the_symbols_that_its_driver_lacks() -> None:
    try:
        library = profiles.find_profile("old_driver").library
    except DeviceError as error:
        pytest.skip(f"NOT TESTED: {error}")

    assert "nvmlDeviceGetRemappedRows" in library.hidden
