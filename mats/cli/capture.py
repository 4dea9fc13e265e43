"""``mats capture``: everything passive of this machine in one file, for a colleague to judge elsewhere."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mats import __version__
from mats.cli._lines import wrapped
from mats.cli.arch import WIDEST, source_target
from mats.cli.exits import ExitCode
from mats.cli.options import Values, read_value
from mats.cli.outputs import columns
from mats.cli.world import World
from mats.facts import LogFacts, MachineFacts
from mats.model import Absent
from mats.probe import Option, OptionKind, UsageError
from mats.saving import replace_file
from mats.source import NothingThere
from mats.target import Target

if TYPE_CHECKING:
    from mats.sources.capture import Capture

STANDARD_OUTPUT = "-"
_TIMEOUT = Option("timeout", OptionKind.SECONDS, "", "30")

Collect = Callable[[MachineFacts, float, Path], tuple[tuple[str, str], ...]]


def capture(values: Values, world: World, collect: Collect | None = None) -> int:
    """Read the machine, write the file, say what is in it."""
    from mats.sources.capture import Capture, capture_to_bytes
    from mats.sources.capture import collect as collect_here

    target = source_target(values)
    seconds = float(str(read_value(_TIMEOUT, values.get("timeout") or _TIMEOUT.default)))
    path = _output(values, world)
    facts, nothing = _read(target, seconds, world)
    raw = (collect or collect_here)(facts, seconds, world.root) if target.kind == "cuda" else ()
    whole = Capture(f"mats {__version__}", world.clock.now().isoformat(timespec="seconds"), facts, raw)
    if values.get("redact"):
        whole = _redacted(whole, world)
    data = capture_to_bytes(whole)
    if path is None:
        _write_out(data, world)
        return ExitCode.OK
    try:
        replace_file(path, data)
    except OSError as error:
        raise UsageError(f"--output: {path} cannot be written: {error.strerror or error}") from None
    name = values.get("output") or path.name
    world.say(_said(str(name), data, facts, nothing, redacted=whole.redacted, width=min(columns(world), WIDEST)))
    return ExitCode.OK


def _output(values: Values, world: World) -> Path | None:
    """Where to write; None for standard output. Looked at before anything is read. Raises UsageError."""
    name = values.get("output")
    if name == STANDARD_OUTPUT:
        if world.stdout.isatty():
            raise UsageError("--output -: a capture is packed and no text for a terminal; redirect it, or name a file")
        return None
    path = world.path(name or f"mats-capture-{world.clock.now():%Y%m%d-%H%M%S}.json.gz")
    if path.is_dir():
        raise UsageError(f"--output: {path} is a folder; name a file")
    if os.path.lexists(path) and not values.get("force"):
        raise UsageError(f"--output: {path} is there already; --force writes over it")
    if not path.parent.is_dir():
        raise UsageError(f"--output: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output: there is no permission to write into {path.parent}")
    return path


def _read(target: Target, seconds: float, world: World) -> tuple[MachineFacts, str]:
    """The facts, and why there is no GPU in them. Raises SourceError and UsageError."""
    try:
        source = world.open_source(target, seconds)
        try:
            return source.read(), ""
        finally:
            source.close()
    except NothingThere as error:
        if error.facts is None:
            raise
        return error.facts, str(error)


def _redacted(whole: Capture, world: World) -> Capture:
    from mats.sources._redact import Identity, redacted

    users = (world.environment.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER"))
    return redacted(whole, Identity(hosts=(platform.node(),), users=tuple(user for user in users if user)))


def _write_out(data: bytes, world: World) -> None:
    stream: IO[bytes] | None = getattr(world.stdout, "buffer", None)
    if stream is None:
        raise UsageError("--output -: standard output takes no packed file here; name a file")
    stream.write(data)
    stream.flush()


def _said(name: str, data: bytes, facts: MachineFacts, nothing: str, *, redacted: bool, width: int) -> str:
    gpus = 0 if isinstance(facts.gpus, Absent) else len(facts.gpus)
    what = "simulated GPU" if facts.simulated else "GPU"
    paragraphs = [f"{name}: {gpus} {what}{'' if gpus == 1 else 's'}, {len(data) / 1024:.0f} KiB."]
    if isinstance(facts.log, LogFacts):
        count = len(facts.log.incidents)
        paragraphs.append(f"Kernel log: {count} incident{'' if count == 1 else 's'} in it ({facts.log.covers}).")
    else:
        paragraphs.append(f"No kernel log: {facts.log.reason.removeprefix('kernel log: ')}.")
    if nothing:
        paragraphs.append(f"{nothing[:1].upper()}{nothing[1:]}.")
    if redacted:
        paragraphs.append(
            "Names and numbers of identity are replaced; look through it before you send it all the same."
        )
    lines = [line for paragraph in paragraphs for line in wrapped(paragraph, width)]
    return "\n".join([*lines, f"To judge it, here or elsewhere: mats health --from {name}"])
