"""On a real GPU: what NVML tells live is what ``nvidia-smi -q -x`` says in the same moment, field by field.

Without a GPU only the comparison itself is tested.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess

import pytest

from mats.facts import GpuFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources.nvidia_smi import parse
from mats.sources.nvml import read_machine

from .facts_compared import differences


@pytest.fixture(scope="module")
def both() -> tuple[MachineFacts, MachineFacts]:
    """The live picture and that of nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no GPU: nvidia-smi is not installed")
    live = read_machine()
    if isinstance(live.gpus, Absent):
        pytest.skip(f"no GPU: {live.gpus.reason}")
    done = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"no GPU: nvidia-smi fails with {done.returncode}: {done.stdout[-200:]}")
    return live, parse(done.stdout)


@pytest.mark.gpu
def test_every_field_that_nvidia_smi_tells_is_the_same_live(both: tuple[MachineFacts, MachineFacts]) -> None:
    live, told = both
    assert isinstance(live.gpus, tuple) and isinstance(told.gpus, tuple)
    by_uuid = {gpu.uuid: gpu for gpu in live.gpus}

    wrong = [f"{gpu.uuid}, {line}" for gpu in told.gpus for line in differences(by_uuid[gpu.uuid], gpu)]

    assert (live.driver, live.attached) == (told.driver, told.attached)
    assert not wrong, "\n".join(wrong)


@pytest.mark.gpu
def test_no_call_to_a_real_driver_is_slow_or_refused_for_its_form(both: tuple[MachineFacts, MachineFacts]) -> None:
    live, _ = both

    assert live.slow_calls == ()
    assert "nvidia-ml-py failed" not in repr(live)


def gpu(**changes: object) -> GpuFacts:
    base = GpuFacts(name="NVIDIA H200", temperature=Quantity(40, Unit.CELSIUS), uuid="GPU-1", persistence=True)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_what_moves_is_no_difference_and_what_stands_is() -> None:
    live = gpu(busy=Quantity(0.1, Unit.RATIO))

    assert differences(live, gpu(temperature=Quantity(42, Unit.CELSIUS), busy=Quantity(0.9, Unit.RATIO))) == []
    assert differences(live, gpu(temperature=Quantity(60, Unit.CELSIUS))) == [
        "temperature: nvidia-smi says 60 degC, live 40 degC"
    ]
    assert differences(live, gpu(persistence=False)) == ["persistence: nvidia-smi says False, live True"]


def test_what_only_nvidia_smi_tells_is_a_difference_and_what_it_hides_is_not() -> None:
    missing = Absent(AbsenceKind.MISSING_SYMBOL, "VBIOS version: too old")

    assert differences(gpu(vbios=missing), gpu(vbios="96.00")) == [
        "vbios: nvidia-smi says '96.00'; live: VBIOS version: too old"
    ]
    assert differences(gpu(vbios="96.00"), gpu(vbios=missing)) == []


def test_named_values_are_compared_by_name() -> None:
    def health(**words: str) -> GpuFacts:
        facts = gpu()
        return dataclasses.replace(facts, fabric=dataclasses.replace(facts.fabric, health=tuple(words.items())))

    assert differences(health(bandwidth="Full", more="x"), health(bandwidth="Full")) == []
    assert differences(health(bandwidth="Full"), health(bandwidth="Degraded")) == [
        "fabric.health: bandwidth: nvidia-smi says 'Degraded', live 'Full'"
    ]
