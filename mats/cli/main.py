"""The command ``mats``. It loads nothing of its own before Ctrl-C has a sentence to end with."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # as typing's, which takes a tenth of the start to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

    from mats.cli.world import World

INTERRUPTED = 2
"""The exit code of Ctrl-C before anything was measured; :class:`mats.cli.exits.ExitCode` is not loaded by then."""

GARBAGE = 100_000
"""Objects from which on Python looks for garbage: loading makes many that stay, and looking through them takes long."""


def run() -> NoReturn:
    """The installed command."""
    gc.set_threshold(GARBAGE)
    # Of a closed stream (mats >&-) Python makes None; what is written to it goes nowhere.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules are loaded
        sys.stderr.write("mats: interrupted\n")
        code = INTERRUPTED
    sys.stdout.flush()
    sys.stderr.flush()
    import threading

    if any(thread.daemon and thread.name.startswith("mats ") for thread in threading.enumerate()):
        os._exit(code)  # a probe that was given up still works in native code: tidying up under it would crash
    sys.exit(code)


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def main(argv: Sequence[str], world: World | None = None) -> int:
    """Do what ``argv`` says (without the program's name) and give the exit code."""
    from mats.cli.dispatch import dispatch
    from mats.cli.world import World

    return dispatch(argv, world or World())


if __name__ == "__main__":
    run()
