"""Probes and options for tests of the command line, and the way to call it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mats.cli.main import main
from mats.cli.world import World
from mats.device import Device
from mats.model import AbsenceKind, Absent, Column, Observation, Table, Unit
from mats.probe import Context, Option, OptionKind, Probe

from .fakes import BROKEN, CLEAN, fake_world, probe, seen

HEALTHY = probe(CLEAN, "stress", aliases=("mem-pattern",))
SICK = probe(BROKEN, "stress", aliases=("mem-pattern",))
NOT_SEEN = probe(Observation((seen(Absent(AbsenceKind.NOT_SUPPORTED, "no counter")),)), "stress")


def do(tmp_path: Path, argv: str | Sequence[str], *probes: Probe, **planned: object) -> tuple[int, World]:
    world = fake_world(tmp_path, probes, **planned)  # type: ignore[arg-type]
    return main(argv.split() if isinstance(argv, str) else argv, world), world


GONE = Absent(AbsenceKind.NOT_FOUND, "gone")
TABLE = Table(
    "bad",
    "Bad",
    (Column("address"), Column("size", Unit.BYTE)),
    (("0x10", 4), (Absent(AbsenceKind.NOT_FOUND, "gone"), 8)),
)
WITH_TABLE = Observation(CLEAN.measurements, (TABLE,))
OPTIONS = (
    Option("size", OptionKind.MEBIBYTES, "How much."),
    Option("duration", OptionKind.SECONDS, "How long.", 60.0),
    Option("coverage", OptionKind.SHARE, "Which share.", "90%"),
    Option("passes", OptionKind.COUNT, "How often.", 2),
    Option("factor", OptionKind.NUMBER, "How much more.", 1.5),
    Option("pattern", OptionKind.TEXT, "Which.", "random"),
    Option("fast", OptionKind.FLAG, "Fast."),
    Option("force", OptionKind.FLAG, "Its own force."),
    Option("bad-ranges", OptionKind.FILE_OUT, "Where.", writes="bad"),
    Option("resume", OptionKind.RUN_IN, "Go on."),
)


class Keeping:
    """A measurement that keeps the options it was given."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def __call__(self, _device: Device, context: Context) -> Observation:
        self.options = dict(context.options)
        return WITH_TABLE


def raises(error: Exception) -> Probe:
    def measure(_device: Device, _context: Context) -> Observation:
        raise error

    return probe(measure, "failing")
