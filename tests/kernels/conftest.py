"""Builds the CPU flavours of the kernels under a sanitizer, and writes the scripts that exercise each kernel."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mats.kernel import Kernel

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("driver.cpp")

FLAGS = ("-std=c++17", "-O1", "-g", "-pthread", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror")
SANITIZERS = {
    "address,undefined": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}

TILES = 2
TILE_BYTES = 64 << 10
CAPACITY = 16
"""Fewer records than there are errors, so that running over their end would show."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A launch: ``workers`` CPU threads share ``blocks * threads`` CUDA threads."""

    blocks: int
    threads: int
    workers: int


GRID = Shape(blocks=2, threads=8, workers=16)
HOST = Shape(blocks=2, threads=1, workers=2)

BUFFERS = {
    "data": TILES * TILE_BYTES,
    "source": TILES * TILE_BYTES,
    "destination": TILES * TILE_BYTES,
    "report": 256 * 8,
    "pages": 8,
    "records": CAPACITY * 8 * 8,
    "sink": 8,
    "order": TILES * 8,
    "done": 8,
    "times": 4 * 8,
    "walk": 8 * 8,
    "open": 8,
}
"""What a pointer of this name points to, in bytes: as much as the kernel may touch and no byte more."""

NUMBERS: dict[str, tuple[int, ...]] = {
    "tiles": (TILES,),
    "kind": (0, 1, 2, 3, 4, 5),
    "descending": (0, 1),
    "reread": (0, 1),
    "step": (0, 1, 2, 3),
    "first": (5 << 18,),
    "a": (0xDEADBEEF00FF55AA,),
    "b": (7,),
    "mask": (0,),  # of a chain: it stays on its first word
    "new_a": (0x123456789ABCDEF0,),
    "new_b": (9,),
    "new_mask": ((1 << 64) - 1,),
    "capacity": (CAPACITY,),
    "word": (TILES * TILE_BYTES // 8 - 1,),
    "flips": (1 << 63 | 1,),
    "skip": (3,),
    "value": (0x5555555555555555,),
    "offset_words": (0,),
    "step_words": (64,),
    "distance_words": (TILES * TILE_BYTES // 16,),
    "repeats": (2,),
    "stride_words": (TILE_BYTES // 8,),
    "lines": (1,),
    "start": (0, TILE_BYTES // 8),
    "ahead": (0, 3),
    "hops": (4,),
    "pages": (0, 1),
    "unit": (0, 1, 7),
    "near": (0, 1),
    "nanoseconds": (0, 1000),  # the gate stays shut: the time ends it
}
"""The values tried for a number of this name; all combinations are run."""


def choices(kernel: Kernel) -> Iterator[tuple[str, ...]]:
    """The arguments of every launch of ``kernel``, as the driver reads them."""
    tried: list[Iterable[str]] = []
    for parameter in kernel.parameters:
        known: Iterable[str]
        if parameter.pointer and parameter.name in BUFFERS:
            known = (f"@{parameter.name}",)
        elif not parameter.pointer and parameter.name in NUMBERS:
            known = map(str, NUMBERS[parameter.name])
        else:
            raise AssertionError(f"say in {__file__} what {kernel.name} gets for {parameter.name}")
        tried.append(known)
    yield from itertools.product(*tried)


def launch(name: str, shape: Shape, arguments: Iterable[object]) -> str:
    return " ".join(map(str, ["launch", name, shape.blocks, shape.threads, shape.workers, *arguments]))


def exercise(kernels: Iterable[Kernel], shape: Shape) -> str:
    """A script that launches each kernel with every choice of its arguments."""
    lines = [f"buffer {name} {size}" for name, size in BUFFERS.items()]
    for kernel in kernels:
        if kernel.name == "recheck":  # looks at the addresses that a verify recorded, each once
            lines += [f"buffer data {BUFFERS['data']}", "buffer report 2048", f"buffer records {BUFFERS['records']}"]
            verify = [TILES, "@data", 0, 0, 1, 0, 0, 0, "@report", "@pages", "@records", CAPACITY]
            lines.append(launch("pattern_verify", shape, verify))
        for arguments in choices(kernel):
            if "@walk" in arguments:  # a walk is taken once until its report is cleared
                lines.append(f"buffer walk {BUFFERS['walk']}")
            lines.append(launch(kernel.name, shape, arguments))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    report: str


@dataclass(frozen=True, slots=True)
class Driver:
    """A built driver program."""

    program: Path

    def run(self, script: str) -> Outcome:
        """Feeds ``script``; gives the exit code and what the sanitizer or the driver said."""
        outcome = self._start([str(self.program)], script)
        if "unexpected memory mapping" in outcome.report and (setarch := shutil.which("setarch")):
            # Kernels that place mappings more randomly than this ThreadSanitizer knows.
            outcome = self._start([setarch, "-R", str(self.program)], script)
        return outcome

    def _start(self, command: list[str], script: str) -> Outcome:
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=300)
        return Outcome(done.returncode, done.stdout + done.stderr)


BuildDriver = Callable[[str, str, Path], Driver]


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")
    if found is None:
        pytest.skip("NO C++ COMPILER: the CPU flavours of the kernels were not checked (apt-get install g++)")
    return found


@pytest.fixture(scope="session")
def build_driver(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> BuildDriver:
    """Builds a driver once: (prefix of the entry points, sanitizer, source file of the flavour) -> program."""

    @functools.cache
    def build(prefix: str, sanitizer: str, source: Path) -> Driver:
        program = tmp_path_factory.mktemp(prefix) / "driver"
        entry = (f"-DMATS_FIND={prefix}_find", f"-DMATS_RUN={prefix}_run")
        objects = []
        for file, extra in ((DRIVER, entry), (source, ())):
            made = program.with_name(file.stem + ".o")
            run_compiler([compiler, *FLAGS, *SANITIZERS[sanitizer], *extra, "-c", "-o", str(made), str(file)])
            objects.append(str(made))
        run_compiler([compiler, *SANITIZERS[sanitizer], "-pthread", "-o", str(program), *objects])
        return Driver(program)

    return build


def run_compiler(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def kernel_folder() -> Path:
    return ROOT / "kernels"


@pytest.fixture(scope="session")
def exercise_script() -> Callable[[Iterable[Kernel], Shape], str]:
    return exercise


@pytest.fixture(scope="session")
def shapes() -> dict[str, Shape]:
    return {"grid": GRID, "host": HOST}
