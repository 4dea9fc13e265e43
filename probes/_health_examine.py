"""From the facts of a machine to an observation: every check on every GPU, tables, sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mats.facts import MachineFacts
from mats.model import AbsenceKind, Absent, Diagnosis, Measurement, Observation, Quantity, Reading, Result, Unit
from mats.probe import UsageError

from . import (
    _health_bus,
    _health_errors,
    _health_events,
    _health_host,
    _health_links,
    _health_replacement,
    _health_work,
)
from ._health_baseline import cards_table, compare, moment
from ._health_card import NONE, ONE, PREFIX, Card, CardCheck, MachineCheck, Seen, cards_of, check
from ._health_limits import LIMITS, WINDOW
from ._health_tables import tables
from ._health_text import listed
from ._health_words import notes

CARD_CHECKS: tuple[CardCheck, ...] = (
    *_health_errors.CHECKS,
    *_health_replacement.CHECKS,
    *_health_work.CHECKS,
    *_health_bus.CHECKS,
)
MACHINE_CHECKS: tuple[MachineCheck, ...] = (
    *_health_host.CHECKS,
    *_health_links.CHECKS,
    *_health_events.CHECKS,
)
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "ecc": ("ecc.uncorrected",),
    "remap": ("remap.pending", "remap.failed"),
    "retired": ("retired.pending", "retired.pages"),
    "recovery": ("recovery.needed",),
    "log": ("log.incidents",),
    "clocks": ("clocks.hardware",),
    "heat": ("heat.to_slowdown",),
    "power": ("power.unreadable",),
    "memory": ("memory.share",),
    "processes": ("memory.leftover",),
    "pcie": ("pcie.width",),
    "load": ("pcie.loaded_share",),
    "bar": ("bar.unplaced",),
    "nvlink": ("nvlink.active",),
    "fabric": ("fabric.failed",),
    "inforom": ("inforom.corrupted",),
    "count": ("count.missing",),
    "driver": ("driver.mismatch",),
    "claims": ("claims.failed",),
}
"""What ``--must-see`` may name, and the measurements that have to be there for it."""


def asked_subjects(text: object) -> tuple[str, ...]:
    """The names of ``--must-see``. Raises UsageError for one that does not exist."""
    names = [name.strip().lower() for name in str(text or "").split(",") if name.strip()]
    for name in names:
        if name not in SUBJECTS:
            raise UsageError(f"--must-see: there is no subject {name!r}; it takes {listed(SUBJECTS, 32)}")
    return tuple(dict.fromkeys(names))


def examine(
    machine: MachineFacts, options: Mapping[str, object] | None = None, baseline: Result | None = None
) -> Observation:
    """What these facts come to: pure, the same for live and saved facts. Raises UsageError for a bad option."""
    wanted = asked_subjects((options or {}).get("must-see"))
    cards = cards_of(machine)
    window = (options or {}).get("log-window")
    seen: list[Seen] = [*_checked(machine, cards)]
    seen += _health_events.incidents(machine, cards, float(window) if isinstance(window, int | float) else WINDOW)
    measured = [part for part in seen if isinstance(part, Measurement)]
    changes = compare(machine, cards, measured, baseline)
    seen += changes.seen
    measured = [part for part in seen if isinstance(part, Measurement)]
    measured += _unanswered(machine, measured)
    measured += _asked(wanted, measured)
    diagnoses = tuple(part for part in seen if isinstance(part, Diagnosis))
    shown = [*tables(machine, cards), *([changes.table] if changes.table else [])]
    return Observation(
        measurements=tuple(measured),
        tables=(*shown, *cards_table(cards)),
        diagnoses=diagnoses,
        notes=(*notes(machine, cards, measured), *changes.notes),
    )


def _checked(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    for card in cards:
        for each in CARD_CHECKS:
            yield from each(card)
    for whole in MACHINE_CHECKS:
        yield from whole(machine, cards)
    cut: Reading = Quantity(1, Unit.COUNT) if machine.partial else NONE
    yield from check("source.cut", cut, f"the evidence is not whole: {machine.partial}")
    yield from check("taken", moment(machine))


def _unanswered(machine: MachineFacts, measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """Every limit has its measurement: what no GPU could be asked is absent, and not passed over."""
    why = machine.gpus if isinstance(machine.gpus, Absent) else None
    absent = why or Absent(AbsenceKind.NOT_FOUND, "GPUs: there is none in what was read")
    given = {measurement.name for measurement in measured}
    own = (f"{PREFIX}log.", f"{PREFIX}asked.")
    for name in dict.fromkeys(limit.measurement for limit in LIMITS):
        if name not in given and not name.startswith(own):
            yield Measurement(name, absent)


def _asked(wanted: Sequence[str], measured: Sequence[Measurement]) -> Iterator[Measurement]:
    """What the user wants to have seen: there, or absent with the reason, so that the verdict is unknown."""
    name = f"{PREFIX}asked.seen"
    if not wanted:
        yield Measurement(name, ONE, statistic="nothing beyond the core was asked for")
    for subject in wanted:
        for short in SUBJECTS[subject]:
            mine = [each for each in measured if each.name == f"{PREFIX}{short}"]
            for each in mine:
                there = ONE if isinstance(each.reading, Quantity) else each.reading
                yield Measurement(name, there, (*each.labels, ("subject", subject)))
            if not mine:
                missing = Absent(AbsenceKind.NOT_FOUND, f"{subject}: nothing of it was read")
                yield Measurement(name, missing, (("subject", subject),))
