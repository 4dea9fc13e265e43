"""What is seen while a run goes on: a bar on a terminal, slow plain lines when redirected, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mats.cli.world import World
from mats.model import Result

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_EVERY = 15.0
"""Seconds between two plain lines about one probe."""


class Meter(Protocol):
    """Shows how far each probe is."""

    def show(self, target: str, probe: str, done: float, total: float, text: str) -> None: ...
    def end(self, target: str, probe: str) -> None: ...
    def line(self, text: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Shows nothing of the progress; lines only when they are asked for."""

    def __init__(self, world: World, quiet: bool) -> None:
        self._world = world
        self._quiet = quiet

    def show(self, target: str, probe: str, done: float, total: float, text: str) -> None:
        return

    def end(self, target: str, probe: str) -> None:
        return

    def line(self, text: str) -> None:
        if not self._quiet:
            self._world.tell(text)

    def close(self) -> None:
        return


class Lines:
    """A plain line on standard error now and then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._begun: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}

    def show(self, target: str, probe: str, done: float, total: float, text: str) -> None:
        now = self._world.clock.monotonic()
        begun = self._begun.setdefault((target, probe), now)
        if now - self._last.setdefault((target, probe), now) < LINE_EVERY:
            return
        self._last[target, probe] = now
        self._world.tell(f"{probe} on {target}: {progress_text(done, total, now - begun, text)}")

    def end(self, target: str, probe: str) -> None:
        self._begun.pop((target, probe), None)
        self._last.pop((target, probe), None)

    def line(self, text: str) -> None:
        self._world.tell(text)

    def close(self) -> None:
        return


class Bars:
    """A bar for each running probe, on a terminal, gone when it ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._progress: Progress | None = None
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def show(self, target: str, probe: str, done: float, total: float, text: str) -> None:
        progress = self._open()
        task = self._tasks.get((target, probe))
        if task is None:
            task = self._tasks[target, probe] = progress.add_task(f"{probe} on {target}", total=None, text="")
        progress.update(task, completed=done, total=total if total > 0 else None, text=text)

    def end(self, target: str, probe: str) -> None:
        task = self._tasks.pop((target, probe), None)
        if task is not None and self._progress is not None:
            self._progress.remove_task(task)

    def line(self, text: str) -> None:
        if self._progress is None:
            self._world.tell(text)
        else:
            self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _open(self) -> Progress:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[text]}", markup=False),
                console=Console(file=self._world.stderr),
                transient=True,
            )
            self._progress.start()
        return self._progress


def meter(world: World, *, json: bool, quiet: bool) -> Meter:
    """The meter that fits where standard error goes."""
    if quiet or (json and not world.stdout.isatty()):
        return Silent(world, quiet)
    terminal = world.stderr.isatty() and world.environment.get("TERM") != "dumb"
    return Bars(world) if terminal else Lines(world)


def progress_text(done: float, total: float, elapsed: float, text: str) -> str:
    """Share done, time left and what is going on, in words."""
    if total <= 0:
        return text
    share = min(max(done / total, 0.0), 1.0)
    parts = [f"{share:.0%}"]
    if share > 0 and elapsed > 0:
        parts.append(f"about {_time_text(elapsed * (1 - share) / share)} left")
    return ", ".join(parts) + (f": {text}" if text else "")


class Watcher:
    """The runner's listener: the meter, notes as they come, and a file for what nobody foresaw."""

    def __init__(self, world: World, meter: Meter, folder: Path | None) -> None:
        self._world = world
        self._meter = meter
        self._folder = folder
        self.crashes: list[str] = []
        """What was told of exceptions that nobody foresaw."""

    def started(self, target: str, probe: str) -> None:
        self._meter.show(target, probe, 0, 0, "")

    def progressed(self, target: str, probe: str, done: float, total: float, text: str) -> None:
        self._meter.show(target, probe, done, total, text)

    def finished(self, result: Result) -> None:
        self._meter.end(result.target, result.probe)

    def skipped(self, target: str, probe: str) -> None:
        self._meter.end(target, probe)

    def stopping(self, reason: str, killed: bool) -> None:
        self._meter.line(
            "ending at once"
            if killed
            else f"{reason}: waiting for the probe to end; the same again does not wait any longer"
        )

    def noted(self, text: str) -> None:
        self._meter.line(f"note: {text}")

    def crashed(self, where: str, details: str) -> None:
        self.crashes.append(crash_sentence(details, self._world, self._folder))
        self._world.tell(f"mats: {where} failed unexpectedly: {self.crashes[-1]}")


def crash_sentence(details: str, world: World, folder: Path | None = None) -> str:
    """The last line of a traceback and where all of it was written; all of it with MATS_DEBUG=1."""
    last = details.strip().splitlines()[-1]
    if world.environment.get("MATS_DEBUG") == "1":
        return f"{last}\n{details.rstrip()}"
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="mats-error-", suffix=".txt", dir=folder, delete=False, encoding="utf-8"
        ) as file:
            file.write(details)
    except OSError:
        return f"{last} (MATS_DEBUG=1 shows the details)"
    return f"{last} (details in {file.name})"


def _time_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
