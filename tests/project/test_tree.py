"""The shape of the tree: guards, sizes, docstrings, and nothing that belongs to one machine alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

LEAVES = ("probes", "kernels", "reports")
FUNCTION_LINES = 60
FILE_LINES = 400
TEST_FILE_LINES = 600
"""A file of tests is a list of cases, and reads well at some more length."""

# Longer than the rule says, and why it reads better whole. Empty is the goal.
LONG_FUNCTIONS: dict[str, str] = {
    "tests/reports/example_runs.py:failing_sim": "one example run, written out as data",
}
LONG_FILES: dict[str, str] = {}

SOURCE_SUFFIXES = (".py", ".cu", ".cuh", ".cpp", ".hpp", ".h")


def python_files(project_files: list[str], *folders: str) -> list[str]:
    return [name for name in project_files if name.endswith(".py") and (not folders or name.split("/")[0] in folders)]


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_refuses_its_bare_name(root: Path, leaf: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import {leaf}"

    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert outcome.returncode == 1
    assert f"import mats.{leaf}, not {leaf}: install the project first (pip install -e .)" in outcome.stderr


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_answers_to_its_full_name(leaf: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "-P", "-c", f"import mats.{leaf}"], capture_output=True, text=True, check=False
    )

    assert outcome.returncode == 0, outcome.stderr


def functions(tree: ast.Module) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its dotted name inside the module."""
    found: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((prefix + child.name, child))
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            walk(child, f"{prefix}{child.name}." if named else prefix)  # type: ignore[attr-defined]

    walk(tree, "")
    return found


def test_functions_fit_on_a_screen(root: Path, project_files: list[str]) -> None:
    too_long = {}
    for name in python_files(project_files):
        for function, node in functions(ast.parse((root / name).read_text(encoding="utf-8"))):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                too_long[f"{name}:{function}"] = lines

    assert {name: lines for name, lines in too_long.items() if name not in LONG_FUNCTIONS} == {}
    assert set(LONG_FUNCTIONS) <= set(too_long), "an exception that is no longer needed"


def test_files_are_read_in_one_go(root: Path, project_files: list[str]) -> None:
    lengths = {
        name: len((root / name).read_text(encoding="utf-8").splitlines())
        for name in project_files
        if name.endswith(SOURCE_SUFFIXES)
    }
    allowed = {name: TEST_FILE_LINES if name.startswith("tests/") else FILE_LINES for name in lengths}
    too_long = {name: lines for name, lines in lengths.items() if lines > allowed[name]}

    assert {name: lines for name, lines in too_long.items() if name not in LONG_FILES} == {}
    assert set(LONG_FILES) <= set(too_long), "an exception that is no longer needed"


def test_modules_and_public_functions_say_what_they_give(root: Path, project_files: list[str]) -> None:
    silent = []
    for name in python_files(project_files, "mats", *LEAVES):
        tree = ast.parse((root / name).read_text(encoding="utf-8"))
        if ast.get_docstring(tree) is None:
            silent.append(name)
        silent += [
            f"{name}:{node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not any(part.startswith("_") for part in (node.name, Path(name).name))
            and ast.get_docstring(node) is None
        ]

    assert silent == []


# Put together here, so that this file does not hold them itself.
FOREIGN = re.compile(
    "|".join(
        (
            r"(?<![\w.}*-])/" + r"work/\w",
            r"(?<![\w.}*-])/" + r"root/\w",
            r"\bpypi\." + "org",
            r"\bpython" + r"hosted\.org",
            r"\bregistry\.npm" + r"js\.org",
            r"\bdeb\." + r"debian\.org",
            r"\barchive\." + r"ubuntu\.com",
        )
    )
)


def test_nothing_belongs_to_one_machine_or_names_a_package_host(root: Path, project_files: list[str]) -> None:
    found = []
    for name in project_files:
        data = (root / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if FOREIGN.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")

    assert found == []


@pytest.mark.parametrize("line", ["open('/" + "work/main/x')", "see https://" + "pypi." + "org/project/x"])
def test_a_foreign_path_or_host_is_seen(line: str) -> None:
    assert FOREIGN.search(line)
