"""The typer application: a command for each probe, made of its data, and the helpers around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer
import typer.core

from mats.cli.arguments import HELP
from mats.cli.exits import ExitCode
from mats.cli.options import (
    COMMON,
    FOR_DEVICES,
    JUDGING,
    MORE_FILES,
    OUTPUTS,
    Argument,
    Values,
    command,
    evidence_option,
)
from mats.cli.world import World
from mats.probe import Option, OptionKind, Probe

HELPERS = ("all", "arch", "capture", "explain", "judge", "report", "smi", "targets")
Helper = tuple[str, Callable[[Values], int], tuple[Option, ...], tuple[Argument, ...], str]
"""Name, what it does, its options and arguments, and its help."""

ARCH_OPTIONS = (
    Option("gpu-id", OptionKind.TEXT, "GPUs to ask, by index, UUID or PCI address; without it and a name: all."),
    Option("target", OptionKind.TEXT, "The same as cuda:0, or a simulated machine, sim:PROFILE."),
    Option("list", OptionKind.FLAG, "List every GPU of the table."),
    Option("json", OptionKind.FLAG, "Print JSON."),
)
SMI_OPTIONS = (
    Option("gpu-id", OptionKind.TEXT, "GPUs to watch, by index, UUID or PCI address; without it: all."),
    Option("target", OptionKind.TEXT, "The same as cuda:0, or a simulated machine, sim:PROFILE."),
    Option("interval", OptionKind.SECONDS, "Time between two samples, e.g. 100ms, 5s.", "1"),
    Option("once", OptionKind.FLAG, "One sample, then end."),
    Option("count", OptionKind.COUNT, "Samples to take, then end."),
    Option("duration", OptionKind.SECONDS, "Time after which to end, e.g. 90, 5m, 2h."),
    Option("csv", OptionKind.FLAG, "Record as CSV: a line for each GPU and sample."),
    Option("json", OptionKind.FLAG, "Record as JSON lines: one for each GPU and sample."),
    Option("output", OptionKind.FILE_OUT, "File for the recording; without it, or as -: standard output."),
    Option("force", OptionKind.FLAG, "Write over a file that is there."),
)
CAPTURE_OPTIONS = (
    Option("output", OptionKind.FILE_OUT, "File to write, - for standard output; without it a name made of the time."),
    Option("redact", OptionKind.FLAG, "Replace names of machines, users and programs, UUIDs, serial and IP numbers."),
    Option("force", OptionKind.FLAG, "Write over a file that is there."),
    Option("gpu-id", OptionKind.TEXT, "GPUs to tell about, by index, UUID or PCI address; without it: all."),
    Option("target", OptionKind.TEXT, "The same as cuda:0, or a simulated machine, sim:PROFILE."),
    Option("timeout", OptionKind.SECONDS, "Time for reading the machine.", "30"),
)
GPU_NAME = Argument("name", "NAME", "A GPU, a chip, or a compute capability: RTX 4070, AD104, sm_89.", many=True)

ABOUT = "Can I trust this memory, and what it is connected to, with my work?"
EXITS = (
    "Exit code: 0 nothing found; 1 findings; 2 wrong usage, or mats could not work; "
    "3 nothing, or not all that was required, could be measured."
)


def application(world: World, probes: Mapping[str, Probe], argv: tuple[str, ...], invoked: str) -> typer.Typer:
    """The application for these probes; a command ends by raising typer's Exit with its code.

    ``invoked``: the first word, a command or a wish for help. Only the invoked command gets its options: those of
    all others are not looked at, and making them takes time.
    """
    app = typer.Typer(
        name="mats",
        help=f"{ABOUT}\n\n{EXITS}\n\nmats COMMAND --help shows the options of a command, mats --version the version.",
        # No options of its own, not even --help: to read them typer would load all of its validation, also when only
        # the help of a command is wanted.
        add_help_option=False,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def top(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            (world.say if invoked in HELP else world.tell)(context.get_help())
            raise typer.Exit(ExitCode.OK if invoked in HELP else ExitCode.UNUSABLE)

    for probe in probes.values():
        _add_probe(app, world, probe, argv, probe.name == invoked)
    _add_helpers(app, world, argv, invoked, evidence_option(probes.values()))
    return app


class _AsGiven:
    """What typer asks for the value of a parameter: the words as they were given."""

    def coerce(self, value: object, *, param: object = None, ctx: object = None) -> object:
        return list(value) if isinstance(value, tuple) else value


class TextCommand(typer.core.TyperCommand):
    """A command whose values stay the words that were given, since :mod:`mats.cli.options` reads them.

    typer would load all of its validation to make texts of texts, which takes a third of the time of a short command.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if hasattr(parameter, "get_runtime_param"):  # one without it loads no validation
                parameter.get_runtime_param = _AsGiven
                if parameter.param_type_name == "argument":
                    parameter.display_type = _no_type
        return parameters


def _no_type(_context: object) -> None:
    """What help says of the type of an argument: all are words."""


def _add_probe(app: typer.Typer, world: World, probe: Probe, argv: tuple[str, ...], invoked: bool) -> None:
    def act(values: Values) -> int:
        from mats.cli.measure import measure_one

        return measure_one(probe, values, world, argv)

    left_out = {option.name for option in probe.options} | set(FOR_DEVICES if probe.passive else ())
    options = (*probe.options, *(option for option in COMMON if option.name not in left_out))
    page = f"mats explain {probe.name} tells the method, what it cannot see, the limits and their sources."
    arguments = (MORE_FILES,) if evidence_option((probe,)) else ()
    function = command(act, options, arguments) if invoked else command(act, ())
    about = f"{probe.question}\n\n{page}"
    app.command(probe.name, cls=TextCommand, help=about, short_help=probe.question)(function)


def _add_helpers(app: typer.Typer, world: World, argv: tuple[str, ...], invoked: str, evidence: Option | None) -> None:
    def act_all(values: Values) -> int:
        from mats.cli.measure import measure_all

        return measure_all(values, world, argv)

    def act_arch(values: Values) -> int:
        from mats.cli.arch import arch

        return arch(values, world)

    def act_capture(values: Values) -> int:
        from mats.cli.capture import capture

        return capture(values, world)

    def act_explain(values: Values) -> int:
        from mats.cli.explain import explain

        world.say(explain(values["topic"], world))
        return ExitCode.OK

    def act_judge(values: Values) -> int:
        from mats.cli.saved import judge_saved

        return judge_saved(values, world)

    def act_report(values: Values) -> int:
        from mats.cli.saved import report_saved

        return report_saved(values, world)

    def act_smi(values: Values) -> int:
        from mats.cli.smi import smi

        return smi(values, world)

    def act_targets(_values: Values) -> int:
        from mats.cli.saved import list_targets

        return list_targets(world)

    saved = (Argument("run", "RUN.json", "A saved run, or the folder of one."),)
    topic = (Argument("topic", "TOPIC", "A probe, the code of a limit, a fault, a plan of the simulator, or sim."),)
    views = tuple(option for option in OUTPUTS if option.name != "quiet")
    of_all, files = (COMMON, ()) if evidence is None else ((evidence, *COMMON), (MORE_FILES,))
    helpers: tuple[Helper, ...] = (
        ("all", act_all, of_all, files, "Run every probe that applies, into one report."),
        ("arch", act_arch, ARCH_OPTIONS, (GPU_NAME,), "Tell what a GPU is to a compiler, by its name or its driver."),
        ("capture", act_capture, CAPTURE_OPTIONS, (), "Save all that is known from outside, to be judged elsewhere."),
        ("explain", act_explain, (), topic, "Tell about a probe, a limit, a fault, or the simulator."),
        ("judge", act_judge, (*OUTPUTS, *JUDGING), saved, "Judge a saved run again, by other limits."),
        ("report", act_report, views, saved, "Write reports of a saved run."),
        ("smi", act_smi, SMI_OPTIONS, (), "Watch the GPUs of this machine, and record what is seen."),
        ("targets", act_targets, (), (), "List what can be tested on this machine."),
    )
    for name, act, options, arguments, text in helpers:
        function = command(act, options, arguments) if name == invoked else command(act, ())
        app.command(name, cls=TextCommand, help=text)(function)
