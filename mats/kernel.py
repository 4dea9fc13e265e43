"""The text and the parameters of the kernels in ``kernels/*.cu``.

The source is the one truth: names, order and types of a kernel's parameters are read from it, so that a launch with
a missing, unknown or ill-typed argument fails in Python, on every device, before anything runs.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mats.device import Buffer

_KERNEL = re.compile(r"MATS_KERNEL\(\s*(\w+)\s*,([^)]*)\)", re.S)
_INCLUDE = re.compile(r'^#include "((?:include/)?\w+\.cuh)"$', re.M)
_RANGES = {"u32": 1 << 32, "u64": 1 << 64}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel: ``type`` is u32 or u64, of the value or of what it points to."""

    name: str
    type: str
    pointer: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its name, the file it stands in (without suffix) and its parameters; the first is ``tiles``."""

    name: str
    file: str
    parameters: tuple[Parameter, ...]


def parse_kernels(file: str, text: str) -> tuple[Kernel, ...]:
    """The kernels of one source text, in order. Raises ValueError on a parameter it does not understand."""
    found = []
    for match in _KERNEL.finditer(text):
        parameters = []
        for part in match[2].split(","):
            declared = re.fullmatch(r"\s*(?:const\s+)?(u32|u64)(\s*\*\s*|\s+)(\w+)\s*", part)
            if declared is None:
                raise ValueError(f"kernel {match[1]} in {file}.cu: cannot read the parameter {part.strip()!r}")
            parameters.append(Parameter(declared[3], declared[1], "*" in declared[2]))
        found.append(Kernel(match[1], file, tuple(parameters)))
    return tuple(found)


def kernel_files() -> tuple[str, ...]:
    """Names of the source files, without suffix."""
    folder = importlib.resources.files("mats.kernels")
    return tuple(sorted(entry.name[:-3] for entry in folder.iterdir() if entry.name.endswith(".cu")))


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """Every kernel by name."""
    found: dict[str, Kernel] = {}
    folder = importlib.resources.files("mats.kernels")
    for file in kernel_files():
        for kernel in parse_kernels(file, (folder / f"{file}.cu").read_text()):
            found[kernel.name] = kernel
    return found


@functools.cache
def kernel_source(file: str) -> str:
    """The self-contained text of one source file: its ``.cuh`` files put in, each once; nothing else is included.

    NVRTC has no search path, therefore the text must stand alone. The CPU shim stays an include that only a CPU
    build reaches.
    """
    folder = importlib.resources.files("mats.kernels")
    seen: set[str] = set()

    def expand(text: str) -> str:
        def put_in(match: re.Match[str]) -> str:
            name = match[1].removeprefix("include/")
            if name in seen:
                return ""
            seen.add(name)
            return expand((folder / "include" / name).read_text())

        return _INCLUDE.sub(put_in, text)

    return expand((folder / f"{file}.cu").read_text())


def bind(kernel: Kernel, tiles: int, arguments: Mapping[str, Buffer | int]) -> tuple[tuple[Parameter, int], ...]:
    """The kernel's arguments in order, each with its parameter: a pointer as its address.

    Raises TypeError for a missing, unknown or ill-typed argument, and for a number outside of its type.
    """
    given = {"tiles": tiles, **arguments}
    names = [parameter.name for parameter in kernel.parameters]
    unknown = sorted(set(given) - set(names))
    missing = [name for name in names if name not in given]
    if unknown or missing:
        raise TypeError(f"kernel {kernel.name}: missing {missing}, unknown {unknown}")
    bound = []
    for parameter in kernel.parameters:
        value = given[parameter.name]
        if isinstance(value, Buffer) != parameter.pointer:
            raise TypeError(
                f"kernel {kernel.name}: {parameter.name} must be a {'buffer' if parameter.pointer else 'number'}"
            )
        number = value.address if isinstance(value, Buffer) else value
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"kernel {kernel.name}: {parameter.name} must be a whole number, not {number!r}")
        if not 0 <= number < (1 << 64 if parameter.pointer else _RANGES[parameter.type]):
            raise TypeError(f"kernel {kernel.name}: {parameter.name} = {number} does not fit {parameter.type}")
        bound.append((parameter, number))
    return tuple(bound)
