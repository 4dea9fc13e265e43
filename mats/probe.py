"""What a probe is: one question about a target, in one file of ``probes/``.

A probe's module docstring is the page that ``mats explain NAME`` prints. The module ends with one ``PROBE``
value; the command, its help, the README's table and the reports follow from it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mats.model import Limit, Observation, Result


class UsageError(ValueError):
    """What the user asked for cannot be done; one sentence that names what was wrong and what to do."""


class OptionKind(enum.StrEnum):
    """How an option is read on the command line."""

    FLAG = "flag"
    TEXT = "text"
    COUNT = "count"
    """A whole number, not negative."""
    NUMBER = "number"
    """A number, not negative."""
    MEBIBYTES = "mebibytes"
    """A size: a bare number is MiB, or with a suffix such as 6GiB. The probe gets bytes."""
    SECONDS = "seconds"
    """A duration: a bare number is seconds, or with a suffix such as 5m, 2h."""
    SHARE = "share"
    """A share: 0.9 or 90%."""
    FILE_OUT = "file_out"
    """A file that is written by the caller from the run's tables; the probe does not see it."""
    RUN_IN = "run_in"
    """A saved run; the probe gets its :class:`mats.model.Result` for the same probe and target.

    Of a passive probe the target may have had another name: what is the same GPU is for the probe to tell.
    """
    EVIDENCE = "evidence"
    """Files that a passive probe reads instead of the live machine. Repeatable, and more files may follow without it.

    The probe does not see them: they become its source.
    """


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a probe. ``name`` is the long name without dashes; the probe reads ``options[name]``."""

    name: str
    kind: OptionKind
    help: str
    default: object = None
    writes: str = ""
    """For FILE_OUT: the name of the observation's table that is written there."""


class Context(Protocol):
    """What the runner gives a probe beside the device."""

    @property
    def options(self) -> Mapping[str, object]:
        """Values by option name, converted and checked for kind; every declared option is present."""
        ...

    @property
    def seed(self) -> int: ...

    @property
    def resumed(self) -> Result | None:
        """The earlier result of this probe on this target that is to be continued."""
        ...

    def stopping(self) -> str:
        """Empty while the probe may go on; otherwise why it must end now (Ctrl-C, time limit). Polled often."""
        ...

    def progress(self, done: float, total: float, text: str) -> None:
        """``done`` of ``total`` (any unit), with a short text of what is going on."""
        ...

    def save(self, observation: Observation) -> None:
        """Keep what has been seen so far, so that nothing measured is lost when the process dies."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """One question. ``measure`` never judges and never prints.

    ``kinds``: kinds of target it applies to. ``faults``: names of built-in plans of the simulator it must
    catch. ``order``: passive probes are low, loads are high. ``exclusive``: it needs the device to itself.
    """

    name: str
    question: str
    kinds: tuple[str, ...]
    order: int
    exclusive: bool
    limits: tuple[Limit, ...]
    faults: tuple[str, ...]
    options: tuple[Option, ...]
    measure: Callable[[Any, Context], Observation]
    """Given a :class:`mats.device.Device`, a :class:`mats.source.Source` where ``passive``, or a
    :class:`mats.fabric.Fabric` (:class:`mats.fabric.Lender` where its options ask to lend) where ``together``."""
    passive: bool = False
    """It only reads what is known of the machine from outside: live, from saved files, or simulated."""
    together: bool = False
    """It works on several devices at once and on the ways between them."""
    aliases: tuple[str, ...] = ()
    """Older spellings of the command, e.g. ``mem-pattern``."""
    quick: tuple[tuple[str, object], ...] = ()
    """Option values used by ``mats all``, where they differ from the defaults."""
