"""From words to an exit code. Whatever happens, the user gets a sentence, not a traceback."""

from __future__ import annotations

from collections.abc import Sequence

from mats import __version__
from mats.cli.exits import ExitCode
from mats.cli.world import World
from mats.device import DeviceError
from mats.probe import UsageError
from mats.registry import RegistryError


def dispatch(argv: Sequence[str], world: World) -> int:
    """Do what ``argv`` says (without the program's name) and give the exit code."""
    try:
        return _dispatch(tuple(argv), world)
    except (UsageError, DeviceError, RegistryError) as error:
        world.tell(f"mats: {error}")
    except OSError as error:
        world.tell(f"mats: {error.filename + ': ' if error.filename else ''}{error.strerror or error}")
    except KeyboardInterrupt:
        world.tell("mats: interrupted")
    except Exception as error:
        if not hasattr(error, "format_message"):
            import traceback

            from mats.cli.progress import crash_sentence

            world.tell(f"mats: failed unexpectedly: {crash_sentence(traceback.format_exc(), world)}")
        else:  # typer's own: an unknown option, a missing argument
            where = _command(argv, world)
            world.tell(f"mats: {error.format_message().rstrip('.')} (see mats {where + ' ' if where else ''}--help)")
    return ExitCode.UNUSABLE


def _command(argv: Sequence[str], world: World) -> str:
    """The command that ``argv`` names, in today's spelling, or nothing."""
    from mats.cli.app import HELPERS
    from mats.cli.arguments import modern

    probes = world.probes()
    aliases = {alias: probe.name for probe in probes.values() for alias in probe.aliases}
    first = next(iter(modern(argv, aliases, (*probes, *HELPERS))), "")
    return "" if first.startswith("-") else first


def _dispatch(argv: tuple[str, ...], world: World) -> int:
    if argv == ("--version",):
        world.say(f"mats {__version__}")
        return ExitCode.OK
    import typer.main

    from mats.cli.app import HELPERS, application
    from mats.cli.arguments import HELP, modern

    probes = world.probes()
    aliases = {alias: probe.name for probe in probes.values() for alias in probe.aliases}
    words = modern(argv, aliases, (*probes, *HELPERS))
    invoked = words[0] if words else ""
    command = typer.main.get_command(application(world, probes, ("mats", *argv), invoked))
    arguments = [] if invoked in HELP else words
    code = command.main(args=arguments, prog_name="mats", standalone_mode=False) or ExitCode.OK
    if code not in set(ExitCode):  # typer's code for Ctrl-C outside of a run
        raise KeyboardInterrupt
    return int(code)
