"""The typer application: a command for each probe, made of its data, and the helpers around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from mats import __version__
from mats.cli.exits import ExitCode
from mats.cli.options import COMMON, JUDGING, OUTPUTS, Argument, Values, command
from mats.cli.world import World
from mats.probe import Probe

HELPERS = ("all", "explain", "judge", "report", "targets")
ABOUT = "Can I trust this memory, and what it is connected to, with my work?"
EXITS = (
    "Exit code: 0 nothing found; 1 findings; 2 wrong usage, or mats could not work; "
    "3 nothing, or not all that was required, could be measured."
)


def application(world: World, probes: Mapping[str, Probe], argv: tuple[str, ...], invoked: str) -> typer.Typer:
    """The application for these probes; a command ends by raising typer's Exit with its code.

    Only the ``invoked`` command gets its options: those of all others are not looked at, and making them takes time.
    """
    app = typer.Typer(
        name="mats",
        help=f"{ABOUT}\n\n{EXITS}",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def top(context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
        if version:
            world.say(f"mats {__version__}")
            raise typer.Exit(0)
        if context.invoked_subcommand is None:
            world.tell(context.get_help())
            raise typer.Exit(ExitCode.UNUSABLE)

    for probe in probes.values():
        _add_probe(app, world, probe, argv, probe.name == invoked)
    _add_helpers(app, world, argv)
    return app


def _add_probe(app: typer.Typer, world: World, probe: Probe, argv: tuple[str, ...], invoked: bool) -> None:
    def act(values: Values) -> int:
        from mats.cli.measure import measure_one

        return measure_one(probe, values, world, argv)

    own = {option.name for option in probe.options}
    options = (*probe.options, *(option for option in COMMON if option.name not in own))
    page = f"mats explain {probe.name} tells the method, what it cannot see, the limits and their sources."
    function = command(act, options if invoked else ())
    app.command(probe.name, help=f"{probe.question}\n\n{page}", short_help=probe.question)(function)


def _add_helpers(app: typer.Typer, world: World, argv: tuple[str, ...]) -> None:
    def act_all(values: Values) -> int:
        from mats.cli.measure import measure_all

        return measure_all(values, world, argv)

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

    def act_targets(_values: Values) -> int:
        from mats.cli.saved import list_targets

        return list_targets(world)

    saved = (Argument("run", "RUN.json", "A saved run, or the folder of one."),)
    topic = (Argument("topic", "TOPIC", "A probe, the code of a limit, a fault, or sim."),)
    report = tuple(option for option in OUTPUTS if option.name != "quiet")
    _helper(app, "all", command(act_all, COMMON), "Run every probe that applies, into one report.")
    _helper(app, "explain", command(act_explain, (), topic), "Tell about a probe, a limit, a fault, or the simulator.")
    _helper(app, "judge", command(act_judge, (*OUTPUTS, *JUDGING), saved), "Judge a saved run again, by other limits.")
    _helper(app, "report", command(act_report, report, saved), "Write reports of a saved run.")
    _helper(app, "targets", command(act_targets, ()), "List what can be tested on this machine.")


def _helper(app: typer.Typer, name: str, function: Callable[..., None], text: str) -> None:
    app.command(name, help=text)(function)
