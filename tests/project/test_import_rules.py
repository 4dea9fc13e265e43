"""Who may import whom, held by walking the syntax trees: arrows point inward, leaves are found and not named."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

LEAVES = ("mats.probes", "mats.kernels", "mats.reports")
OUTER = (*LEAVES, "mats.cli", "mats.devices", "mats.sources", "mats.flashmemory", "mats.agent")
"""What the core never imports by name; the registry finds it by its folder."""

# The first pattern that fits a file says what of ours it may import; None: everything but OUTER.
ROOMS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("mats/__init__.py", ()),
    ("mats/readings.py", ()),
    ("mats/model.py", ("mats.readings",)),
    ("mats/device.py", ("mats.model",)),
    ("mats/probe.py", ("mats.model", "mats.device", "mats.source")),
    ("mats/facts/*", ("mats.model", "mats.facts")),
    ("mats/source.py", ("mats.model", "mats.device", "mats.facts")),
    ("mats/fabric.py", ("mats.model", "mats.device", "mats.facts")),
    (
        "probes/*",
        ("mats.model", "mats.probe", "mats.device", "mats.fabric", "mats.source", "mats.facts", "mats.architectures"),
    ),
    ("reports/*", ("mats.model", "mats.codec", "mats.report")),
    ("kernels/*", ()),
    ("mats/*", None),
)

# Beyond its room: doors may use their own siblings and the sources; the command line may use every part but a leaf.
EXTRA: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mats/devices/*", ("mats.devices", "mats.sources")),
    ("mats/sources/*", ("mats.sources",)),
    ("mats/cli/*", ("mats.cli", "mats")),
    ("mats/__main__.py", ("mats.cli",)),
)

ONLY_IN: dict[str, tuple[str, ...]] = {
    "rich": ("reports/*", "mats/cli/*"),
    "jinja2": ("reports/*", "mats/cli/*"),
    "plotly": ("reports/*", "mats/cli/*"),
    "typer": ("mats/cli/*",),
    "click": ("mats/cli/*",),
    "cupy": ("mats/devices/*cuda*.py",),
    "pynvml": ("mats/sources/*",),
    "torch": ("mats/flashmemory/*", "mats/agent/*", "mats/devices/*"),
    "ray": ("mats/fleet/*", "mats/devices/*"),
}
TALKING = ("mats/cli/*",)
"""Where printing and exiting are at home."""

WHEN_NEEDED = ("numpy", "torch", "cupy", "pynvml", "plotly", "psutil", "ray")
"""Too slow to import for a tool whose --help must answer at once."""


@dataclass(frozen=True, slots=True)
class Import:
    module: str
    """With its dots for a relative import: ``._sibling``."""
    line: int
    at_start: bool
    """Executed when the module is imported: not within a function, nor for type checkers only."""


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import of a module, also those within functions and for type checkers only."""

    def walk(node: ast.AST, at_start: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_start)
        elif isinstance(node, ast.ImportFrom):
            dots, module = "." * node.level, node.module or ""
            if module not in ("", "mats"):
                yield Import(dots + module, node.lineno, at_start)
            else:
                for alias in node.names:  # the name may be a module itself: from mats import probes
                    name = f"{module}.{alias.name}" if module else alias.name
                    yield Import(dots + name, node.lineno, at_start)
        for field, value in ast.iter_fields(node):
            later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field == "body"
            types_only = isinstance(node, ast.If) and field == "body" and "TYPE_CHECKING" in ast.unparse(node.test)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, at_start and not (later or types_only))

    yield from walk(tree, True)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def breaks_room(where: str, module: str) -> str:
    """Why ``where`` may not import ``module`` of ours; empty when it may."""
    if module.startswith("."):
        if module.startswith(".."):
            return "reaches over its folder with a relative import"
        private = module[1:].startswith("_")
        return "" if private or where.startswith("mats/") else "imports a sibling that does not start with _"
    if module.split(".")[0] in ("probes", "kernels", "reports"):
        return f"imports {module} by its bare name"
    if not within(module, "mats"):
        return ""
    extra = next((names for pattern, names in EXTRA if fnmatch(where, pattern)), ())
    if any(within(module, leaf) for leaf in LEAVES):
        own = where.split("/")[0] == module.split(".")[1]
        return f"names {module}; " + ("import a sibling as ._name" if own else "leaves are found by the registry")
    if any(within(module, name) for name in extra):
        return ""
    allowed = next(names for pattern, names in ROOMS if fnmatch(where, pattern))
    if allowed is None:
        return f"imports {module}, which the core never names" if any(within(module, o) for o in OUTER) else ""
    return "" if any(within(module, name) for name in allowed) else f"may not import {module}"


def breaks_third_party(where: str, found: Import) -> str:
    package = found.module.split(".")[0]
    if package in ONLY_IN and not any(fnmatch(where, pattern) for pattern in ONLY_IN[package]):
        return f"imports {package}, which belongs into {' and '.join(ONLY_IN[package])} only"
    if package in WHEN_NEEDED and found.at_start:
        return f"imports {package} at start-up instead of when it is first needed"
    return ""


def talks(where: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Printing and exiting outside the command line."""
    if any(fnmatch(where, pattern) for pattern in TALKING):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit", "quit", "os._exit"):
            yield node.lineno, f"calls {ast.unparse(node.func)}"
        if isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc).startswith("SystemExit"):
            yield node.lineno, "raises SystemExit"


def broken_rules(where: str, text: str) -> list[str]:
    """Each broken rule of one file as ``file:line: what``; empty when all hold."""
    tree = ast.parse(text)
    broken: list[tuple[int, str]] = []
    for found in imports(tree):
        broken += [(found.line, why) for why in (breaks_room(where, found.module),) if why]
        broken += [(found.line, why) for why in (breaks_third_party(where, found),) if why]
    broken += talks(where, tree)
    return [f"{where}:{line}: {why}" for line, why in sorted(broken)]


def shipped(project_files: list[str]) -> list[str]:
    return [name for name in project_files if name.endswith(".py") and name.split("/")[0] in PRODUCT]


PRODUCT = ("mats", "probes", "kernels", "reports")


def test_every_module_keeps_the_import_rules(root: Path, project_files: list[str]) -> None:
    modules = shipped(project_files)

    broken = [line for name in modules for line in broken_rules(name, (root / name).read_text(encoding="utf-8"))]

    assert modules
    assert not broken, "\n".join(broken)


def test_every_imported_package_is_declared(root: Path, project_files: list[str]) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *(r for rs in project["optional-dependencies"].values() for r in rs)]
    declared = {r.split(";")[0].split("[")[0].split(">")[0].split("=")[0].strip().lower() for r in requirements}
    import_names = {"pynvml": "nvidia-ml-py", "cupy": "cupy-cuda13x", "click": "typer", "markupsafe": "jinja2"}

    undeclared = set()
    for name in shipped(project_files):
        for found in imports(ast.parse((root / name).read_text(encoding="utf-8"))):
            package = found.module.split(".")[0]
            if package and package not in sys.stdlib_module_names and package not in PRODUCT:
                requirement = import_names.get(package, package)
                undeclared |= set() if requirement in declared else {f"{name}: {package}"}

    assert not undeclared


@pytest.mark.parametrize(
    ("where", "text", "why"),
    [
        ("mats/model.py", "import mats.device", "may not import mats.device"),
        ("mats/device.py", "from mats.probe import Probe", "may not import mats.probe"),
        ("mats/judge.py", "import mats.probes.stress", "found by the registry"),
        ("mats/judge.py", "from mats import reports", "found by the registry"),
        ("mats/cli/main.py", "from mats.reports import console", "found by the registry"),
        ("mats/runner.py", "from mats.devices.cuda import open_device", "the core never names"),
        ("mats/runner.py", "def f():\n    import mats.cli.main", "the core never names"),
        ("mats/runner.py", "import probes", "bare name"),
        ("probes/stress.py", "from mats.registry import probes", "may not import mats.registry"),
        ("probes/stress.py", "from .latency import x", "does not start with _"),
        ("probes/stress.py", "from mats.probes._tests import TESTS", "import a sibling as ._name"),
        ("probes/stress.py", "from . import latency", "does not start with _"),
        ("probes/stress.py", "from ..devices import cuda", "over its folder"),
        ("probes/stress.py", "import rich", "rich"),
        ("probes/stress.py", "def f():\n    import cupy", "cupy"),
        ("probes/stress.py", "import time, numpy", "numpy at start-up"),
        ("probes/stress.py", "class A:\n    import numpy", "numpy at start-up"),
        ("probes/stress.py", "if True:\n    from numpy import array", "numpy at start-up"),
        ("reports/html.py", "import plotly.graph_objects", "plotly at start-up"),
        ("reports/html.py", "from mats.runner import run", "may not import mats.runner"),
        ("mats/devices/cuda.py", "import cupy", "cupy at start-up"),
        ("mats/devices/host.py", "def f():\n    import cupy", "cupy"),
        ("mats/devices/cuda.py", "def f():\n    import pynvml", "pynvml"),
        ("mats/runner.py", "print('done')", "calls print"),
        ("mats/runner.py", "import sys\nsys.exit(1)", "calls sys.exit"),
        ("reports/console.py", "raise SystemExit(2)", "raises SystemExit"),
        ("mats/limits.py", "import typer", "typer"),
    ],
)
def test_a_broken_rule_is_seen(where: str, text: str, why: str) -> None:
    broken = broken_rules(where, text)

    assert len(broken) == 1
    assert why in broken[0]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("probes/stress.py", "from mats.model import Limit\nfrom ._tests import TESTS\nfrom . import _tests"),
        ("probes/stress.py", "def f():\n    import numpy"),
        ("probes/stress.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy"),
        ("reports/html.py", "from mats.codec import run_to_json\ndef f():\n    import plotly"),
        ("mats/devices/cuda.py", "from mats.sources import nvml\ndef f():\n    import cupy"),
        ("mats/sources/nvml.py", "def f():\n    import pynvml"),
        ("mats/cli/main.py", "import typer, sys\nfrom mats.devices import cuda\nprint(1)\nsys.exit(0)"),
        ("mats/registry.py", "from mats.probe import Probe\nfrom mats.report import Report"),
    ],
)
def test_what_is_allowed_is_not_flagged(where: str, text: str) -> None:
    broken = broken_rules(where, text)

    assert broken == []
