"""A clock that is read behind a load must wait for it: read from the machine code of every architecture, without a GPU.

Each instruction of these architectures has 128 bits; those from bit 105 on say which of six barriers a load will
signal and for which of them an instruction waits. The layout is known from public reverse engineering (Jia et al.,
Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018): where the code does not look as described
there, the test fails rather than passes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mats.kernel import kernel_source

OLDEST = 75
LOADS = (0x381, 0x981)
"""LDG, a load from global memory, by the two ways in which its address is given."""
SPECIAL = (0x805, 0x8CB, 0x919, 0x9C3)
"""CS2R, CS2UR, S2R and S2UR: reads of a special register."""
CLOCK = 0x50
"""The special register's number in bits 72 to 79."""
NO_BARRIER = 7

NAIVE = """
MATS_KERNEL(naive, u64 tiles, const u64* data, u64 hops, u64* times) {
  u64 at = 0;
  for (u64 i = 0; i < hops; ++i) {
    const u64 before = read_cycles();
    const u64 next = load_chained(data + at);
    times[i] = read_cycles() - before;
    at = next;
  }
  times[hops] = at;
}
MATS_KERNEL(joined_by_arithmetic, u64 tiles, const u64* data, u64 hops, u64* times) {
  u64 at = 0;
  for (u64 i = 0; i < hops; ++i) {
    const u64 before = read_cycles();
    const u64 next = load_chained(data + at);
    times[i] = read_cycles() + (next >> 63) - before;
    at = next;
  }
  times[hops] = at;
}
"""
"""Two timers as they are often written. Neither waits."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """``signals``: the barrier a load will signal; ``waits``: a bit for each barrier that is waited for."""

    opcode: int
    register: int
    signals: int
    waits: int

    @property
    def is_clock(self) -> bool:
        return self.opcode in SPECIAL and self.register == CLOCK


def decode(code: bytes) -> list[Instruction]:
    found = []
    for low, high in struct.iter_unpack("<QQ", code):
        control = high >> 41
        found.append(Instruction(low & 0xFFF, high >> 8 & 0xFF, control >> 5 & 7, control >> 11 & 0x3F))
    return found


def code_of(cubin: bytes) -> Iterator[tuple[str, list[Instruction]]]:
    """Each kernel of an ELF file with its instructions."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + index * size) for index in range(count)]
    text = sections[names][4]
    for name, _, _, _, start, length in sections:
        called = cubin[text + name : cubin.index(b"\0", text + name)].decode()
        if called.startswith(".text."):
            yield called.removeprefix(".text."), decode(cubin[start : start + length])


def early_clocks(code: list[Instruction]) -> tuple[int, int]:
    """How many clocks are read behind a load, and how many of them do not wait for the latest one."""
    behind = early = 0
    barrier = None
    waited = False
    for instruction in code:
        if barrier is not None and instruction.waits >> barrier & 1:
            waited = True
        if instruction.opcode in LOADS:
            assert instruction.signals != NO_BARRIER, "a load that signals nothing: the layout is not the known one"
            barrier, waited = instruction.signals, False
        elif instruction.is_clock and barrier is not None:
            behind += 1
            early += not waited
            barrier = None
    return behind, early


def find_nvrtc() -> Any:
    return pytest.importorskip("cupy.cuda", reason="NO CUPY: the timers' machine code was not read").nvrtc


def architectures() -> list[int]:
    try:
        return [one for one in find_nvrtc().getSupportedArchs() if one >= OLDEST]
    except pytest.skip.Exception:
        return []


def compile_chase(architecture: int) -> dict[str, list[Instruction]]:
    nvrtc = find_nvrtc()
    program = nvrtc.createProgram(kernel_source("chase") + NAIVE, "chase.cu", (), ())
    try:
        options = (f"--gpu-architecture=sm_{architecture}", "--std=c++17", "--diag-suppress=177")
        nvrtc.compileProgram(program, options)
        return dict(code_of(nvrtc.getCUBIN(program)))
    finally:
        nvrtc.destroyProgram(program)


def test_there_are_architectures_to_look_at() -> None:
    find_nvrtc()

    assert architectures()


@pytest.mark.parametrize("architecture", architectures())
def test_the_timers_wait_for_their_loads(architecture: int) -> None:
    code = compile_chase(architecture)

    seen = {name: early_clocks(code[name]) for name in ("walk_chain", "time_hops")}

    assert seen["walk_chain"][0] >= 4, "start and end of the walks with and without the nearest cache"
    assert seen["time_hops"][0] >= 2
    assert [early for _, early in seen.values()] == [0, 0]


@pytest.mark.parametrize("kernel", ["naive", "joined_by_arithmetic"])
@pytest.mark.parametrize("architecture", architectures())
def test_a_naive_timer_is_caught(architecture: int, kernel: str) -> None:
    behind, early = early_clocks(compile_chase(architecture)[kernel])

    assert behind >= 1
    assert early == behind


@pytest.mark.parametrize(
    ("waits_of_clock", "between", "expected"),
    [(0, 0, (1, 1)), (1 << 2, 0, (1, 0)), (0, 1 << 2, (1, 0)), (1 << 3, 1 << 4, (1, 1))],
)
def test_a_wait_counts_for_its_own_barrier_only(waits_of_clock: int, between: int, expected: tuple[int, int]) -> None:
    load = Instruction(LOADS[0], 0, 2, 0)
    other, clock = Instruction(0x20C, 0, NO_BARRIER, between), Instruction(0x805, CLOCK, NO_BARRIER, waits_of_clock)

    assert early_clocks([load, other, clock]) == expected
