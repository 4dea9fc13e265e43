"""The machine's own caches and memory, beside a chase written in plain C that has nothing in common with the kernels.

A machine that others work on as well gives other figures from one moment to the next. So both measure in short turns,
and where the turns of either scatter by more than is allowed between the two nothing can be compared: the test says so.
"""

from __future__ import annotations

import importlib
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mats.devices.host import HostDevice
from mats.model import Quantity

climbing = importlib.import_module("mats.probes._latency_climb")
ladders = importlib.import_module("mats.probes._latency_ladder")
chains = importlib.import_module("mats.probes._latency_chain")

SOURCE = Path(__file__).with_name("chase.c")
AGREE = 0.15
TURNS = 15
HOPS, WALKS = 4096, 7
"""As climbing has them."""


@pytest.fixture(scope="module")
def chase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("NOT TESTED: there is no C compiler for the independent chase")
    made = tmp_path_factory.mktemp("chase") / "chase"
    subprocess.run([compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture
def host() -> Iterator[HostDevice]:
    device = HostDevice()
    yield device
    device.close()


def test_latency_rises_from_each_cache_to_the_next_and_to_the_memory(host: HostDevice) -> None:
    # given
    info = host.describe()
    caches = ladders.caches_of(info)
    if len(caches) < 2:
        pytest.skip("NOT TESTED: the system does not tell the sizes of its caches")
    # when
    rungs = climbing.climb(host, chains.open_flusher(host), info, 0, 1, lambda: "")
    # then
    assert isinstance(rungs, tuple), rungs
    found = ladders.name_levels([rung.size for rung in rungs], [rung.seconds for rung in rungs], caches)
    levels = {level.name: level.seconds for level in found}
    rising = [levels[name] for name in (*(name for name, _ in caches), "memory") if name in levels]
    assert len(rising) >= len(caches), levels  # a last cache that others fill may not show
    assert rising == sorted(rising), levels


def scatter(values: Sequence[float]) -> float:
    """Half of the values lie within this share of their median."""
    first, middle, last = statistics.quantiles(values, n=4)
    return (last - first) / middle


def test_memory_takes_what_an_independent_chase_takes(chase: Path, host: HostDevice) -> None:
    # given: a working set of four last caches for each
    info = host.describe()
    if not isinstance(info.cache_size, Quantity):
        pytest.skip("NOT TESTED: the system does not tell the sizes of its caches")
    cache = int(info.cache_size.value)
    size = 1 << (4 * cache - 1).bit_length()
    climber = climbing.Climber(host, chains.open_flusher(host), host.allocate(size), cache, 8, 0)
    ours, theirs = [], []
    # when: both in turns
    command = [str(word) for word in (chase, size, HOPS, WALKS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin and other.stdout
        for turn in range(TURNS):
            other.stdin.write("\n")
            other.stdin.flush()
            theirs.append(float(other.stdout.readline()))
            ours.append(climber.stand(size, turn).seconds * 1e9)
        other.stdin.close()
    # then
    figures = f"mats {[round(one) for one in ours]} ns, chase {[round(one) for one in theirs]} ns"
    unsteady = max(scatter(ours), scatter(theirs))
    if unsteady > AGREE:
        pytest.skip(f"NOT TESTED: this machine's own repeats scatter by {unsteady:.0%}: {figures}")
    assert statistics.median(ours) == pytest.approx(statistics.median(theirs), rel=AGREE), figures
