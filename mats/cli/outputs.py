"""Where a run goes: files that are checked before anything is measured and written after it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mats.cli.options import Values, fail_on
from mats.cli.progress import crash_sentence
from mats.cli.world import World
from mats.model import Column, Quantity, Result, Run, Severity, Table
from mats.probe import Option, OptionKind, Probe, UsageError
from mats.registry import report_module
from mats.report import Report
from mats.saving import replace_file

FOLDER_FILES = {"json": "run.json", "html": "report.html", "junit": "junit.xml", "prometheus": "metrics.prom"}
"""What ``--out`` writes, by the report's name."""
RUN_FILE = FOLDER_FILES["json"]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file for one table of a probe's observation, as CSV."""

    path: Path
    option: Option
    probe: str


@dataclass(slots=True)
class Outputs:
    """Everything that is to be written of one run."""

    world: World
    json: bool = False
    quiet: bool = False
    files: list[tuple[str, Path]] = field(default_factory=list)
    tables: list[TableFile] = field(default_factory=list)
    folder: Path | None = None
    own_folder: bool = False
    """Whether the folder must be a new one: another name is taken where it exists."""
    fail_on: Severity = Severity.FAIL

    @property
    def all_files(self) -> list[tuple[str, Path]]:
        """Reports by name, those of the folder and those that were named."""
        if self.folder is None:
            return self.files
        available = self.world.reports()
        return [(name, self.folder / file) for name, file in FOLDER_FILES.items() if name in available] + self.files

    @property
    def run_file(self) -> Path | None:
        """The file that is saved while the run goes on."""
        return self.folder / RUN_FILE if self.folder else None

    def check(self) -> None:
        """Make the folder and see that every file can be written. Raises UsageError."""
        if self.folder is not None:
            hint = ": name another with --out" if self.own_folder else ""
            try:
                self.folder = _new_folder(self.folder) if self.own_folder else _folder(self.folder)
            except OSError as error:
                raise UsageError(f"--out: {self.folder} cannot be made: {_reason(error)}{hint}") from None
        writers: dict[Path, str] = {}
        files = self.all_files + [(table.option.name, table.path) for table in self.tables]
        for name, path in files:
            _check_file(path)
            if path.exists() and not path.is_file():
                continue  # several may go to one pipe
            if writers.setdefault(path.resolve(), name) != name:
                raise UsageError(f"{path} is named for two files: one would be written over the other")

    def save(self, run: Run) -> None:
        """Keep the run as it stands. Raises OSError."""
        if self.run_file is not None:
            from mats.codec import run_to_json

            replace_file(self.run_file, run_to_json(run))

    def write(self, run: Run) -> list[str]:
        """Write everything; one that fails does not hold up the others. Gives a sentence for each that failed."""
        failed = []
        files = self.all_files
        reports = self.world.reports() if files else {}  # to find them takes as long as a short look at the GPUs
        for name, path in files:
            if name not in reports:
                failed.append(f"{path} was not written: this mats has no report {name}")
                continue
            try:
                replace_file(path, self._text(reports[name], run))
            except OSError as error:
                failed.append(f"{path} could not be written: {_reason(error)}")
            except Exception:
                details = crash_sentence(traceback.format_exc(), self.world)
                failed.append(f"{path} was not written: the report {name} failed unexpectedly: {details}")
        for table_file in self.tables:
            failed += _write_table(table_file, run)
        return failed

    def _text(self, report: Report, run: Run) -> str:
        return report.render(run) if report.render_from is None else report.render_from(run, self.fail_on)

    def show(self, run: Run) -> None:
        """The summary on standard output: the console report, or JSON, or nothing."""
        if self.json:
            from mats.codec import run_to_json

            self.world.say(run_to_json(run))
        elif not self.quiet:
            self.world.say(_console_text(run, self.world))


def outputs(values: Values, world: World, default_folder: Path | None = None) -> Outputs:
    """The outputs that the values of the common options ask for; not checked yet."""
    threshold = fail_on(values.get("fail-on"))
    result = Outputs(world, json=bool(values.get("json")), quiet=bool(values.get("quiet")), fail_on=threshold)
    folder = values.get("out")
    if folder == "":
        raise UsageError("--out needs the name of a folder")
    for name in ("html", "junit", "prometheus"):
        if values.get(name) == "":
            raise UsageError(f"--{name} needs the name of a file")
        if values.get(name) == "-":
            raise UsageError(
                f"--{name} needs the name of a file; to standard output alone: --{name} /dev/stdout --quiet"
            )
    result.folder = world.path(folder) if folder else default_folder
    result.own_folder = not folder and default_folder is not None
    for name in ("html", "junit", "prometheus"):
        if values.get(name):
            result.files.append((name, world.path(values[name])))
    return result


def table_files(probe: Probe, given: Values, world: World) -> list[TableFile]:
    """The table files that a probe's FILE_OUT options ask for. Raises UsageError for one without a name."""
    for option in probe.options:
        if option.kind is OptionKind.FILE_OUT and given.get(option.name) in ("", "-"):
            raise UsageError(f"--{option.name} needs the name of a file")
    return [
        TableFile(world.path(str(given[option.name])), option, probe.name)
        for option in probe.options
        if option.kind is OptionKind.FILE_OUT and given.get(option.name)
    ]


def load_run(name: str, world: World) -> Run:
    """The saved run in a file, or in the folder of a run. Raises UsageError."""
    from mats.codec import SavedRunError, run_from_json

    path = world.path(name)
    if path.is_dir():
        path, name = path / RUN_FILE, os.path.join(name, RUN_FILE)
    try:
        return run_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} cannot be read: it is not text") from None
    except SavedRunError as error:
        raise UsageError(f"{name} cannot be read: {error}") from None


def read_text(name: str, option: str, world: World) -> str:
    """The text of a file the user named. Raises UsageError."""
    try:
        return world.path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--{option}: {name} cannot be read: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--{option}: {name} cannot be read: it is not text") from None


def run_folder(world: World, host: str) -> Path:
    """The folder of a run, by time and host: ``mats-runs/20250131-120000-name``."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in host)
    return world.folder / "mats-runs" / f"{world.clock.now():%Y%m%d-%H%M%S}-{safe}"


def joined(tables: Sequence[tuple[str, Table]]) -> Table:
    """Tables of one shape as one: with a column for the target when there are several."""
    if len(tables) == 1:
        return tables[0][1]
    first = tables[0][1]
    rows = tuple((target, *row) for target, table in tables for row in table.rows)
    return dataclasses.replace(first, columns=(Column("target"), *first.columns), rows=rows)


def _write_table(file: TableFile, run: Run) -> list[str]:
    results = [result for result in run.results if result.probe == file.probe]
    tables = [
        (result.target, table)
        for result in results
        for table in result.observation.tables
        if table.name == file.option.writes
    ]
    if not tables:
        if not any(_saw_something(result) for result in results):  # why nothing was seen is said anyway
            return []
        return [f"{file.path} was not written: {file.probe} gave no table {file.option.writes}"]
    try:
        replace_file(file.path, report_module("_csv").table_to_csv(joined(tables)))
    except OSError as error:
        return [f"{file.path} could not be written: {_reason(error)}"]
    return []


def _saw_something(result: Result) -> bool:
    return any(isinstance(measurement.reading, Quantity) for measurement in result.observation.measurements)


def _console_text(run: Run, world: World) -> str:
    render = report_module("console").render_console
    text: str = render(run, width=columns(world), colour=coloured(world), blocks=has_blocks(world))
    return text


_WITHOUT_BLOCKS = ("dumb", "linux")
"""Terminals whose fonts lack some of the block characters."""


def has_blocks(world: World) -> bool:
    """Whether standard output is a terminal that shows block characters; a file or a pipe gets plain letters."""
    unicode = (getattr(world.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return unicode and world.stdout.isatty() and world.environment.get("TERM") not in _WITHOUT_BLOCKS


def coloured(world: World) -> bool:
    """Whether standard output is a terminal that takes colours, and the user has not refused them."""
    return world.stdout.isatty() and "NO_COLOR" not in world.environment and world.environment.get("TERM") != "dumb"


def columns(world: World) -> int:
    """Columns to write for: the terminal's, or 100 when redirected."""
    given = world.environment.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    if not world.stdout.isatty():
        return 100
    try:
        return os.get_terminal_size(world.stdout.fileno()).columns or 80
    except OSError:
        return 80


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _new_folder(path: Path) -> Path:
    """Make the folder under this name or, where another run has taken it, the next free one. Raises OSError."""
    for number in itertools.count(1):
        chosen = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            chosen.mkdir(parents=True)
        except FileExistsError:
            if not os.path.lexists(chosen):  # it is the parent that exists and is no folder
                raise
            continue
        return chosen
    raise AssertionError("numbers do not end")


def _check_file(path: Path) -> None:
    """See that a file could be put there, without touching one that is there. Raises UsageError."""
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder")
    if path.exists() and not os.access(path, os.W_OK):
        raise UsageError(f"{path} cannot be written: it is write-protected")
    if path.exists() and not path.is_file():
        return
    import tempfile  # only for what is written

    try:
        with tempfile.TemporaryFile(dir=path.parent):
            return
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {path.parent}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
