"""Measuring from the command line: options to a plan, the plan to a run, the run to its outputs and exit code."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from mats import __version__, registry
from mats.cli.choose import Choice, choose
from mats.cli.exits import ExitCode, exit_code, unmeasured
from mats.cli.options import (
    COMMON,
    FOR_DEVICES,
    RUNNING,
    Values,
    evidence_files,
    evidence_option,
    fail_on,
    probe_values,
    quick_values,
    read_value,
    texts,
    was_given,
)
from mats.cli.outputs import Outputs, load_run, outputs, read_text, run_folder, table_files
from mats.cli.piped import saved_input
from mats.cli.progress import Watcher, meter
from mats.cli.world import World, forget_lost_terminal, host_info
from mats.model import Limit, Observation, Run, Severity, Verdict
from mats.probe import OptionKind, Probe, UsageError
from mats.runner import Outside, Plan, run
from mats.slot import Stop, Task, Terms

if TYPE_CHECKING:
    from mats.limits import Override

TOOL = f"mats {__version__}"


def measure_one(probe: Probe, given: Values, world: World, command: tuple[str, ...]) -> int:
    """Run one probe, with its options and the common ones."""
    wanted = outputs(given, world)
    wanted.tables += table_files(probe, given, world)
    values = probe_values(probe, given)
    for option in probe.options:
        if option.kind is OptionKind.RUN_IN and values[option.name] is not None:
            values[option.name] = load_run(str(values[option.name]), world)
    return _measure((Task(probe, values),), given, world, wanted, command, asked=True)


def measure_all(given: Values, world: World, command: tuple[str, ...]) -> int:
    """Run every probe that applies, passive ones first, into a folder of its own; of files those that read them."""
    required = texts(given.get("require"))
    probes = list(world.probes().values())
    of_files = bool(evidence_files(given, probes))
    if of_files:
        probes = [probe for probe in probes if evidence_option((probe,))]
    tasks = tuple(Task(probe, quick_values(probe), probe.name in required) for probe in probes)
    host = host_info(world.root).name
    wanted = outputs(given, world, run_folder(world, host))
    return _measure(tasks, given, world, wanted, command, asked=of_files)


def _measure(
    tasks: tuple[Task, ...], given: Values, world: World, wanted: Outputs, command: tuple[str, ...], asked: bool
) -> int:
    threshold = fail_on(given.get("fail-on"))
    terms = _terms(given, world)
    required = _required(given, world)
    probes = [task.probe for task in tasks]
    with saved_input(evidence_files(given, probes), world) as files:
        choice = choose(given, files, world, probes, asked)
        wanted.check()
        measured = any(target.kind != "file" for target in (*choice.targets, *choice.fabrics))
        notes: tuple[str, ...] = (f"seed {terms.seed}",) if measured else ()
        if asked:
            notes += unused(choice, probes, given)
        finished, told = _run(choice, Plan((), tasks, terms, required, command, notes, TOOL), world, wanted)
    code = conclude(finished, wanted, threshold, told)
    if code is ExitCode.UNKNOWN and not (asked or required):
        for sentence in _what_to_require(finished):
            world.tell(f"mats: {sentence}")
    return code


def _what_to_require(run: Run) -> Iterator[str]:
    """How to leave out what is not known, where something else is: that is for the user to decide, not for mats."""
    unknown = {result.probe for result in run.results if result.verdict is Verdict.UNKNOWN}
    known = dict.fromkeys(result.probe for result in run.results if result.probe not in unknown)
    if known:
        yield (
            f"exit code 3, since mats all asks for every probe that applies; --require {','.join(known)} "
            "asks for what is known here alone"
        )


def _run(choice: Choice, plan: Plan, world: World, wanted: Outputs) -> tuple[Run, list[str]]:
    """Run the plan on what was chosen; gives the run and what was told of exceptions that nobody foresaw."""
    notes = plan.notes
    if choice.note:
        (world.tell if wanted.json or wanted.quiet else world.say)(choice.note)
        notes = (choice.note, *notes)
    plan = dataclasses.replace(
        plan, targets=choice.targets, sources=choice.sources, fabrics=choice.fabrics, notes=notes
    )
    shown = meter(world, json=wanted.json, quiet=wanted.quiet)
    watcher = Watcher(world, shown, wanted.folder)
    outside = Outside(
        open_device=choice.open_device,
        open_source=world.open_source,
        open_fabric=choice.open_fabric,
        clock=world.clock,
        host=host_info(world.root),
        listener=watcher,
        save=wanted.save,
    )
    stop = Stop()
    try:
        with signals(stop):
            return run(plan, outside, stop), watcher.crashes
    finally:
        shown.close()


def unused(choice: Choice, probes: Sequence[Probe], given: Values) -> tuple[str, ...]:
    """What a note says of options that change how is measured, where a saved run is only shown again."""
    if not any(target.kind == "file" and not target.paths for target in choice.everything):
        return ()
    kinds = (OptionKind.FILE_OUT, OptionKind.EVIDENCE)
    options = [option for probe in probes for option in probe.options if option.kind not in kinds]
    options += [option for option in RUNNING if option.name in FOR_DEVICES]
    named = dict.fromkeys(f"--{option.name}" for option in options if was_given(option, given))
    if not named:
        return ()
    return (f"{' and '.join(named)} changed nothing: a saved run is judged again and not measured again",)


def conclude(finished: Run, wanted: Outputs, threshold: Severity, told: Sequence[str] = ()) -> ExitCode:
    """Write and show a run, say what went wrong on standard error, and give the exit code.

    ``told``: what standard error has heard already. Where nothing at all was seen, the reasons say it without a
    summary of nothing.
    """
    failed = wanted.write(finished)
    if wanted.json or any(result.observation != Observation() for result in finished.results):
        wanted.show(finished)
    world = wanted.world
    if wanted.folder is not None and not wanted.quiet:
        (world.tell if wanted.json else world.say)(f"Saved in {wanted.folder}")
    for sentence in failed:
        world.tell(f"mats: {sentence}")
    for result in finished.results:
        if result.verdict is Verdict.ERROR and not any(result.reason in text for text in told):
            world.tell(f"mats: {result.probe} on {result.target}: {result.reason}")
    code = exit_code(finished, threshold)
    if code is ExitCode.UNKNOWN:
        for sentence in unmeasured(finished, registry.report_module("_view").unknown_reasons(finished)):
            world.tell(f"mats: not known: {sentence}")
    return ExitCode.UNUSABLE if failed and code is not ExitCode.FINDINGS else code


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """While inside, Ctrl-C, SIGTERM and a lost terminal ask the run to stop; the second time they end it at once.

    SIGHUP that is ignored (``nohup``) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            forget_lost_terminal()
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        stop.request(f"stopped by {name}")

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    kept = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def load_overrides(given: Values, known: Mapping[str, Limit], world: World) -> tuple[Override, ...]:
    """The overrides of ``--limits``, or none. Raises UsageError."""
    name = given.get("limits")
    if not name:
        return ()
    from mats.limits import parse_overrides

    return parse_overrides(read_text(name, "limits", world), known, name)


def known_limits(world: World) -> dict[str, Limit]:
    """Every limit of every probe, by code."""
    return {code: owned.limit for code, owned in registry.limits(world.probes()).items()}


def _terms(given: Values, world: World) -> Terms:
    options = {option.name: option for option in COMMON}
    timeout = read_value(options["timeout"], given.get("timeout"))
    if timeout == 0:
        raise UsageError("--timeout: must be above 0")
    seed = read_value(options["seed"], given.get("seed"))
    chosen = world.seed() if seed is None else seed
    assert isinstance(timeout, float | None) and isinstance(chosen, int)
    overrides = load_overrides(given, known_limits(world), world)
    return Terms(overrides, timeout, bool(given.get("force")), chosen)


def _required(given: Values, world: World) -> tuple[str, ...]:
    required = texts(given.get("require"))
    known = world.probes()
    for name in required:
        if name not in known:
            raise UsageError(f"--require: there is no probe {name!r}; there are {', '.join(known)}")
    return required
