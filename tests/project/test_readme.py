"""The README holds: each command it shows exists, each file it names is there, its probe table is the registry's.

Rewrite the table with: MATS_REWRITE=1 pytest tests/project/test_readme.py
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mats import registry
from mats.probe import Probe

TABLE = re.compile(r"(?<=<!-- probes: generated, see tests/project/test_readme.py -->\n).*?(?=<!-- /probes -->)", re.S)
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.S | re.M)
PATH = re.compile(r"(?:^|[\s`(])((?:mats|probes|kernels|reports|tests|benchmarks)/[\w./-]*\w|CHANGELOG\.md|Makefile)")


def probe_table(probes: Mapping[str, Probe]) -> str:
    """The README's table, from the probes' own words."""
    rows = ["| command | question | targets | limits |", "| --- | --- | --- | --- |"]
    for probe in probes.values():
        codes = [limit.code for limit in probe.limits]
        limits = f"{len(codes)}: {codes[0]} to {codes[-1]}" if codes else "none"
        rows.append(f"| `mats {probe.name}` | {probe.question} | {', '.join(probe.kinds)} | {limits} |")
    return "\n".join(rows) + "\n"


def shown_commands(text: str) -> list[str]:
    """The command lines of the shell blocks; in a console block those after ``$``."""
    lines = []
    for block in BLOCK.findall(text):
        told = re.findall(r"^\$ (.*)$", block, re.M)
        lines += told or [line for line in block.splitlines() if line and not line.startswith("#")]
    return [line.partition("  #")[0].strip() for line in lines]


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


@functools.cache
def help_page(command: str) -> str:
    """What ``mats COMMAND --help`` prints; empty when there is no such command."""
    program = "from mats.cli.main import run; run()"
    asked = subprocess.run(
        [sys.executable, "-P", "-c", program, command, "--help"], capture_output=True, text=True, check=False
    )
    return asked.stdout if asked.returncode == 0 else ""


def why_not_runnable(line: str, makefile: str) -> str:
    """Empty when ``line`` names a command and options that exist."""
    program, *words = shlex.split(line)
    if program == "make":
        targets = [word for word in words if "=" not in word]
        missing = [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)]
        return f"no target {missing}" if missing else ""
    if program.rpartition("/")[2] != "mats":
        return "" if program in ("apt-get", "pip", ".venv/bin/python") else f"what is {program}?"
    page = help_page(words[0])
    if not page:
        return f"no command {words[0]}"
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    unknown = [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", page)]
    return f"no option {unknown}" if unknown else ""


def test_it_starts_with_the_two_commands(readme: str) -> None:
    first = shown_commands(readme)[:2]

    assert first == ["make run", "make test"]


def test_every_command_shown_exists(readme: str, root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")

    wrong = {line: why for line in shown_commands(readme) if (why := why_not_runnable(line, makefile))}

    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "why"), [("make rnu", "rnu"), ("mats all --no-such", "--no-such"), ("mtas all", "what is")]
)
def test_a_wrong_command_is_seen(line: str, why: str, root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")

    assert why in why_not_runnable(line, makefile)


def test_every_file_named_is_there(readme: str, root: Path) -> None:
    named = set(PATH.findall(readme)) | set(re.findall(r"\]\((?!http)([^)#]+)\)", readme))

    assert named
    assert sorted(name for name in named if "NAME" not in name and not (root / name).exists()) == []


def test_the_probe_table_is_the_registrys(readme: str, root: Path) -> None:
    made = probe_table(registry.probes())
    if os.environ.get("MATS_REWRITE"):
        (root / "README.md").write_text(TABLE.sub(lambda _: made, readme), encoding="utf-8")
        pytest.skip("rewrote the README's table")

    assert TABLE.findall(readme) == [made], "rewrite it with MATS_REWRITE=1"
