"""NVML through a child process: calls that hang, are slow or kill their process, and what is left of it afterwards."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mats.facts import GpuFacts, MachineFacts, RecoveryAction
from mats.model import AbsenceKind, Absent
from mats.sources import _nvml_process
from mats.sources.nvml import Library, Sampler, begin, read_machine

from .stand_in import celsius, count, library, why

ROOT = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> Library:
    path = folder / "own.profile"
    path.write_text(text)
    return library(path)


def read(
    own: Library, *, timeout: float = 60, call_timeout: float = 1.0, start_timeout: float = 20
) -> tuple[MachineFacts, float]:
    """The machine, and the seconds that it took."""
    started = time.monotonic()
    facts = read_machine(library=own, timeout=timeout, call_timeout=call_timeout, start_timeout=start_timeout)
    return facts, time.monotonic() - started


def gpus(facts: MachineFacts) -> tuple[GpuFacts, ...]:
    assert not isinstance(facts.gpus, Absent), facts.gpus
    return facts.gpus


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def children() -> list[int]:
    """Processes below this one, zombies too."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def is_gone(pid: int) -> bool:
    """Ended; a zombie that nobody takes the status of is gone only with its parent."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def test_a_call_that_hangs_costs_its_own_value_and_its_time_limit() -> None:
    facts, seconds = read(library("hanging_call"))

    (gpu,) = gpus(facts)
    assert why(gpu.temperature) is AbsenceKind.TIMED_OUT
    assert "nvmlDeviceGetTemperature did not return within 1.0 s" in str(gpu.temperature)
    assert gpu.heat.memory == celsius(39)
    assert (gpu.ecc.uncorrected, gpu.remap.pending, gpu.answers) == (count(0), count(0), True)
    (slow,) = facts.slow_calls
    assert (slow.call, slow.gpu, slow.answered) == ("nvmlDeviceGetTemperature", "0", False)
    assert 1.0 <= slow.seconds < 5
    assert seconds < 10


def test_a_gpu_on_which_two_calls_hang_is_not_asked_any_more_and_others_are() -> None:
    facts, _ = read(library("gsp_hangs"))

    stuck, fine = gpus(facts)
    assert [call.gpu for call in facts.slow_calls] == ["0", "0"]
    late = [value for value in (stuck.temperature, stuck.power, stuck.cpus) if isinstance(value, Absent)]
    assert [value.kind for value in late] == [AbsenceKind.TIMED_OUT] * len(late)
    assert any("has let other calls hang" in value.reason for value in late)
    assert (stuck.pci, stuck.recovery.action) == ("0000:1b:00.0", RecoveryAction.RESET)
    assert (stuck.ecc.uncorrected, stuck.remap.pending) == (count(0), count(0))
    assert (fine.temperature, fine.ecc.uncorrected, fine.answers) == (celsius(31), count(0), True)


def test_a_call_that_hangs_on_two_gpus_is_not_tried_on_all(tmp_path: Path) -> None:
    own = written(tmp_path, "[system]\nlike = h100x8\n[all]\npower = @3600 1\n")

    facts, _ = read(own)

    assert len(gpus(facts)) == 8
    assert [call.call for call in facts.slow_calls] == ["nvmlDeviceGetPowerUsage"] * 2
    assert {gpu.temperature for gpu in gpus(facts)} == {celsius(31)}


def test_the_time_for_all_is_kept_and_what_was_not_asked_says_so() -> None:
    facts, seconds = read(library("gsp_hangs"), timeout=1.2, call_timeout=60)

    assert seconds < 8
    assert facts.slow_calls
    late = [gpu.answers for gpu in gpus(facts)]
    assert late[0] is not False
    reasons = " ".join(str(value) for gpu in gpus(facts) for value in (gpu.temperature, gpu.uuid, gpu.cpus))
    assert "did not return" in reasons or "were over" in reasons


def test_a_start_that_hangs_is_given_up(tmp_path: Path) -> None:
    own = written(tmp_path, "[system]\ninit = @3600 0\ncount = 1\n")

    facts, seconds = read(own, start_timeout=2.0)

    assert seconds < 15
    assert "nvmlInit did not return within 2.0 s" in str(facts.nvml_failure)
    assert why(facts.gpus) is AbsenceKind.TIMED_OUT
    assert [call.call for call in facts.slow_calls] == ["nvmlInit"]


def test_a_gpu_whose_first_sight_hangs_is_left_alone(tmp_path: Path) -> None:
    own = written(tmp_path, "[system]\nlike = h100x8\ncount = 2\n[0]\nhandle = @3600 0\n")

    facts, seconds = read(own, start_timeout=2.0)

    stuck, fine = gpus(facts)
    assert why(stuck.answers) is why(stuck.temperature) is AbsenceKind.TIMED_OUT
    assert fine.temperature == celsius(31)
    assert seconds < 15


def test_a_call_that_is_slow_answers_and_is_named() -> None:
    facts, _ = read(library("slow_call"), call_timeout=15)

    assert gpus(facts)[0].ecc.corrected == count(54_700_000_000)
    assert [(call.call, call.answered) for call in facts.slow_calls] == [("nvmlDeviceGetTotalEccErrors", True)]
    assert facts.slow_calls[0].seconds > 1


def test_nothing_is_left_of_a_child_that_was_held_in_a_call() -> None:
    before = set(children())

    read(library("hanging_call"))

    assert soon(lambda: set(children()) <= before)


def test_a_child_that_was_killed_is_replaced_and_nothing_is_missing() -> None:
    with Sampler(library=library("h100x8")) as sampler:
        first = sampler.sample()
        killed = sampler.child
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        second = sampler.sample()

        assert second.gpus == first.gpus
        assert sampler.child not in (None, killed)


def test_a_call_that_kills_its_process_is_absent_and_the_rest_is_read(tmp_path: Path) -> None:
    facts, _ = read(written(tmp_path, "[system]\nlike = healthy\n[0]\nvbios = !crash\n"))

    (gpu,) = gpus(facts)
    assert why(gpu.vbios) is AbsenceKind.UNREADABLE
    assert "the process that asked nvmlDeviceGetVbiosVersion was ended by signal 6" in str(gpu.vbios)
    assert (gpu.name, gpu.ecc.uncorrected, gpu.nvlink.active) == ("NVIDIA H100 80GB HBM3", count(0), count(18))
    assert [(call.call, call.answered) for call in facts.slow_calls] == [("nvmlDeviceGetVbiosVersion", False)]


PARENT = """
import sys, time
from pathlib import Path
from mats.sources.nvml import Library, begin
library = Library(Path(sys.argv[1]), Path(sys.argv[2]))
reading = begin(library=library, call_timeout=60, timeout=600)
print(reading._nvml.child_number, flush=True)
reading.result()
"""


def parent(own: Library) -> tuple[subprocess.Popen[bytes], int]:
    """A process that reads a machine on which a call hangs, and its child."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(own.path), str(own.profile)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    time.sleep(0.6)  # until the child hangs in the call
    process.stdout.close()
    return process, child


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_tool_that_ends_leaves_no_process_even_if_that_hangs(how: signal.Signals) -> None:
    process, child = parent(library("hanging_call"))
    assert not is_gone(child)

    process.send_signal(how)

    assert process.wait(timeout=10) != 0
    assert soon(lambda: is_gone(child))


def test_a_reading_that_is_not_awaited_can_be_ended() -> None:
    before = set(children())
    reading = begin(library=library("hanging_call"))

    reading.close()
    reading.close()

    assert soon(lambda: set(children()) <= before)


@pytest.mark.parametrize(
    ("name", "index"), [("2", 2), ("GPU-00000003-0000-0000-0000-000000000003", 3), ("0000:75:00.0", 6), ("84:00.0", 7)]
)
def test_a_gpu_is_chosen_by_index_uuid_and_address(name: str, index: int) -> None:
    facts = read_machine((name,), library=library("h100x8"))

    assert [gpu.index for gpu in gpus(facts)] == [count(index)]
    assert facts.attached == count(8)


def test_a_gpu_that_is_not_there_is_unknown_and_not_left_out() -> None:
    facts = read_machine(("0", "9", "GPU-ffffffff", "0000:ff:00.0"), library=library("h100x8"))

    here, ninth, nobody, nowhere = gpus(facts)
    assert here.answers is True
    for gpu in (ninth, nobody, nowhere):
        assert why(gpu.answers) is why(gpu.temperature) is AbsenceKind.NOT_FOUND
    assert (ninth.index, nobody.uuid, nowhere.pci) == (count(9), "GPU-ffffffff", "0000:ff:00.0")
    assert "lists 8" in str(ninth.answers)


def test_samples_come_from_one_child_and_hold_what_changes() -> None:
    with Sampler(library=library("thermal_slowdown")) as sampler:
        facts, child = sampler.sample(), sampler.child
        again = sampler.sample()

        assert (again.gpus, sampler.child) == (facts.gpus, child)
        assert 0 < sampler.seconds < 10
    (gpu,) = gpus(facts)
    assert (gpu.temperature, gpu.clocks.reasons) == (
        celsius(90),
        ("hardware slowdown", "software thermal slowdown", "hardware thermal slowdown"),
    )
    assert isinstance(gpu.processes, tuple) and gpu.processes[0].name == "python3"
    assert why(gpu.ecc.enabled) is AbsenceKind.NOT_TESTED
    assert sampler.child is None


def test_a_sample_that_hangs_is_bounded_and_the_next_goes_on() -> None:
    with Sampler(library=library("hanging_call"), timeout=6, call_timeout=1.0) as sampler:
        first = sampler.sample()
        spent = sampler.seconds
        second = sampler.sample()

        assert spent < 12
        assert sampler.seconds < spent
    assert why(gpus(first)[0].temperature) is why(gpus(second)[0].temperature) is AbsenceKind.TIMED_OUT
    assert second.slow_calls == ()


def test_a_package_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    facts = read_machine()

    assert facts.nvml_failure == "NVML: the Python package nvidia-ml-py is not installed"
    assert why(facts.gpus) is AbsenceKind.NOT_FOUND


def test_an_old_package_that_shadows_the_real_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("class NVMLError(Exception): pass\ndef nvmlInit(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    facts = read_machine()

    assert str(tmp_path) in str(facts.nvml_failure)
    assert "uninstall packages named pynvml or nvidia-ml-py3" in str(facts.nvml_failure)
    assert why(facts.gpus) is AbsenceKind.MISSING_SYMBOL


def test_a_package_that_cannot_be_imported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('half installed')")
    monkeypatch.syspath_prepend(tmp_path)

    assert "half installed" in str(read_machine().nvml_failure)


def test_a_child_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    assert "did not start" in str(read_machine().nvml_failure)


def test_a_child_that_dies_at_once_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nvml_process, "_PROGRAM", "raise SystemExit(3)")

    facts = read_machine()

    assert "ended with code 3" in str(facts.nvml_failure)
