"""``mats smi``: a live table of the machine's GPUs, and recordings of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from mats.cli._smi_record import Recorder
from mats.cli._smi_sampling import Cost, Durations, Sample, Sampler, Stream
from mats.cli._smi_table import Frame, Line, answers, lines
from mats.cli.arch import source_target
from mats.cli.exits import ExitCode
from mats.cli.measure import signals
from mats.cli.options import Values
from mats.cli.outputs import coloured, columns
from mats.cli.world import World
from mats.facts import GpuFacts, MachineFacts
from mats.model import Absent, Quantity
from mats.probe import UsageError
from mats.slot import Stop
from mats.target import Target
from mats.units import parse_count, parse_duration

if TYPE_CHECKING:
    from rich.text import Text

SHORTEST = 0.01
"""Seconds between two samples at least: below it there is little else than sampling."""
_PATIENCE = 0.1
"""Seconds between two looks at whether the user wants to end."""
_CALL_SECONDS = 2.0
"""A call that takes longer is given up, so that the other GPUs are seen again."""
_NOTICED = 0.5
"""A driver that takes longer than this for a sample is said to be waited for."""
_STYLES = {"head": "bold", "bad": "bold red", "note": "yellow", "faint": "dim"}

OpenSampler = Callable[[Target], Sampler]


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. ``form``: csv or json, or empty for the table; ``file``: where the recording goes."""

    target: Target
    interval: float
    count: int | None
    duration: float | None
    form: str
    file: Path | None


def open_sampler(target: Target) -> Sampler:
    """Reads the driver of this machine, or of a simulated one. Raises UsageError or DeviceError."""
    from mats.sources import nvml

    library = None
    if target.kind == "sim":
        from mats.sources._mock_profiles import find_profile

        library = find_profile(target.argument).library
    return nvml.Sampler(target.selection, call_timeout=_CALL_SECONDS, library=library)


def smi(values: Values, world: World, open_sampler: OpenSampler = open_sampler) -> int:
    """Samples until it is told to end, shows them, and keeps them where that was asked for."""
    wish = parse_wish(values, world)
    stop = Stop()
    stream = Stream(open_sampler(wish.target), wish.interval, world.clock)
    with ExitStack() as stack:
        file = stack.enter_context(wish.file.open("w", encoding="utf-8", newline="")) if wish.file else None
        stack.enter_context(signals(stop))
        view = stack.enter_context(_view(wish, world))
        stack.callback(stream.stop)
        watch = _Watch(wish, world, stream, view, Recorder(wish.form, wish.target.kind == "sim"), file)
        stream.start()
        _follow(watch, stop)
    return _conclude(watch, stop)


def parse_wish(values: Values, world: World) -> Wish:
    """The options as they are meant. Raises UsageError."""
    interval = _read("interval", values, parse_duration, 1.0)
    duration = _read("duration", values, parse_duration, None)
    given = _read("count", values, parse_count, None)
    count = None if given is None else int(given)
    if interval is None or interval < SHORTEST:
        raise UsageError(f"--interval: {SHORTEST * 1e3:g} ms is the shortest")
    if count == 0 or duration == 0:
        raise UsageError(f"--{'count' if count == 0 else 'duration'}: must be above 0")
    if values.get("once"):
        if count not in (None, 1):
            raise UsageError("--once is --count 1: give one of them")
        count = 1
    if values.get("csv") and values.get("json"):
        raise UsageError("give --csv or --json, not both")
    name = values.get("output")
    if name == "":
        raise UsageError("--output needs the name of a file")
    file = world.path(name) if name and name != "-" else None
    if file and file.is_file() and not values.get("force"):
        raise UsageError(f"--output: {name} is there already: name another file, or write over it with --force")
    form = "csv" if values.get("csv") else "json" if values.get("json") else ""
    if name and not form:
        form = "csv" if file and file.suffix.lower() == ".csv" else "json"
    return Wish(source_target(values), interval, count, duration, form, file)


def _read(name: str, values: Values, reader: Callable[[str], float], default: float | None) -> float | None:
    text = values.get(name)
    if text is None:
        return default
    try:
        return reader(str(text))
    except ValueError as error:
        raise UsageError(f"--{name}: {error}") from None


class View(Protocol):
    """Where samples are shown."""

    def show(self, frame: Frame) -> bool:
        """False when nobody reads it any more."""
        ...

    def refresh(self, frame: Frame) -> None:
        """The same sample again, with what has changed around it."""
        ...


@dataclass(slots=True)
class _Watch:
    """What goes on from the first sample to the last."""

    wish: Wish
    world: World
    stream: Stream
    view: View
    recorder: Recorder
    file: IO[str] | None
    durations: Durations = field(default_factory=Durations)
    names: dict[int, str] = field(default_factory=dict)
    last: Sample | None = None
    unread: bool = False
    """Standard output was closed by who read it."""


def _follow(watch: _Watch, stop: Stop) -> None:
    clock = watch.world.clock
    cost = Cost(watch.world.root, clock)
    begun = clock.monotonic()
    while not stop.reason and not watch.unread:
        sample = watch.stream.next(_PATIENCE)
        if sample is not None:
            watch.durations.add(sample)
            watch.last = sample
            _take_names(watch.names, sample.facts)
            if sample.number == 1 and not _gpus(sample.facts):
                return
            _keep(watch, sample, cost)
            if watch.wish.count is not None and sample.number >= watch.wish.count:
                return
        elif watch.last is not None and watch.stream.waiting > _NOTICED:
            watch.view.refresh(_frame(watch, watch.last, cost))
        over = watch.wish.duration is not None and clock.monotonic() - begun >= watch.wish.duration
        if over and watch.last is not None:  # one sample at least, however long the driver takes to start
            return


def _keep(watch: _Watch, sample: Sample, cost: Cost) -> None:
    """To the file, or to standard output; the table too, where the recording does not go there."""
    if watch.file is not None:
        watch.file.write(watch.recorder.text(sample))
        watch.file.flush()
    elif watch.wish.form:
        watch.unread = not _say(watch.world, watch.recorder.text(sample))
        return
    watch.unread = not watch.view.show(_frame(watch, sample, cost))


def _frame(watch: _Watch, sample: Sample, cost: Cost) -> Frame:
    durations, target = watch.durations, watch.wish.target
    waiting = watch.stream.waiting
    return Frame(
        sample,
        watch.wish.interval if watch.wish.count != 1 else 0.0,
        durations.median,
        durations.longest,
        durations.left_out,
        cost.spent(watch.stream.child),
        waiting if waiting > _NOTICED else 0.0,
        tuple(watch.names.items()),
        target.name if target.kind == "sim" else "",
    )


def _take_names(names: dict[int, str], facts: MachineFacts) -> None:
    for gpu in _gpus(facts):
        if isinstance(gpu.name, str) and isinstance(gpu.index, Quantity):
            names[int(gpu.index.value)] = gpu.name


def _gpus(facts: MachineFacts) -> tuple[GpuFacts, ...]:
    return () if isinstance(facts.gpus, Absent) else facts.gpus


def _conclude(watch: _Watch, stop: Stop) -> ExitCode:
    """What is said at the end, and the exit code: all GPUs must have answered last."""
    world, sample = watch.world, watch.last
    if sample is None:
        world.tell(f"mats: no sample was taken: {stop.reason}")
        return ExitCode.UNKNOWN
    if watch.file is not None:
        ended = f", {stop.reason}" if stop.reason else ""
        left_out = f", {watch.durations.left_out:,} moments left out" if watch.durations.left_out else ""
        world.tell(f"{sample.number:,} samples in {watch.wish.file}{left_out}{ended}")
    gpus = _gpus(sample.facts)
    if not gpus:
        failure, listed = sample.facts.nvml_failure, sample.facts.gpus
        why = failure if isinstance(failure, str) else listed.reason if isinstance(listed, Absent) else ""
        world.tell(f"mats: no NVIDIA GPU can be watched{f': {why}' if why else ''}")
    return ExitCode.OK if gpus and all(answers(gpu) for gpu in gpus) else ExitCode.UNKNOWN


def _say(world: World, text: str) -> bool:
    """Writes to standard output as it is; False when who reads it has gone."""
    try:
        world.stdout.write(text)
        world.stdout.flush()
    except BrokenPipeError:
        world.say("")  # which lets all that follows go nowhere
        return False
    return True


class _Plain:
    """Where standard output is no terminal: each sample as lines of their own."""

    def __init__(self, world: World, shown: bool) -> None:
        self._world, self._shown, self._begun = world, shown, False

    def show(self, frame: Frame) -> bool:
        if not self._shown:
            return True
        text = "\n".join(line.text for line in lines(frame, columns(self._world)))
        between = "\n" if self._begun else ""
        self._begun = True
        return _say(self._world, f"{between}{text}\n")

    def refresh(self, frame: Frame) -> None:
        return


class _Screen:
    """A terminal: the table in one place. What it showed last stays when it ends."""

    def __init__(self, world: World) -> None:
        from rich.console import Console
        from rich.live import Live

        self._world = world
        self._console = Console(
            file=world.stdout, color_system="standard" if coloured(world) else None, no_color=not coloured(world)
        )
        self._live = Live(console=self._console, auto_refresh=False, screen=True)
        self._last: Frame | None = None

    def __enter__(self) -> _Screen:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()
        if self._last is not None:
            self._console.print(_styled(lines(self._last, self._console.width)))

    def show(self, frame: Frame) -> bool:
        self._last = frame
        self.refresh(frame)
        return True

    def refresh(self, frame: Frame) -> None:
        size = self._console.size
        self._live.update(_styled(lines(frame, size.width, size.height)), refresh=True)


def _styled(found: list[Line]) -> Text:
    from rich.text import Text

    return Text("\n").join(Text(line.text, _STYLES.get(line.style, "")) for line in found)


@contextmanager
def _view(wish: Wish, world: World) -> Iterator[View]:
    """Where the table goes: nowhere when standard output takes the recording or is no terminal beside a file."""
    recorded_there = bool(wish.form) and wish.file is None
    terminal = world.stdout.isatty() and world.environment.get("TERM") != "dumb"
    if terminal and not recorded_there and wish.count != 1:
        with _Screen(world) as screen:
            yield screen
    else:
        yield _Plain(world, shown=not wish.form)
