"""What the user names: ``cuda:0``, ``cuda:all``, ``host``, ``sim:PLAN``, ``file:PATH``, parsed once into a value.

Parsing opens nothing: whether the device, the plan or the file exists is said by the device that opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from mats.probe import UsageError

KINDS = ("cuda", "host", "sim", "file")
ALL = "all"
FORMS = "cuda:0, cuda:all, host, sim:PLAN or file:PATH"
NAMED_FILES = 3
"""How many files a target is named by."""
LONG = 40
"""Characters of a relative path from which on only its last part names a target."""

_INDEX = r"[0-9]{1,4}"
_UUID = r"(?:GPU|MIG)-[0-9A-Za-z./-]{4,}"
_PCI = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
_NEXT = r",\s*(?=(?:cuda|host|sim|file)(?:[:,]|\s*$))"


@dataclass(frozen=True, slots=True)
class Target:
    """A named target. ``argument``: of cuda an index, a UUID, a PCI address or "all"; of sim a plan; of file a path.

    Of a source of several GPUs the argument holds all of them, with commas.
    """

    kind: str
    argument: str = ""
    paths: tuple[str, ...] = ()
    """Of saved evidence: its files, which together tell of one machine; the argument then names them for people."""
    shown: tuple[str, ...] = ()
    """The name of each of these files for people, as the user wrote it."""
    part: str = ""
    """Of a saved run with several targets: which of them."""

    @property
    def name(self) -> str:
        part = f"#{self.part}" if self.part else ""
        return f"{self.kind}:{self.argument}{part}" if self.argument else self.kind

    @property
    def selection(self) -> tuple[str, ...]:
        """The GPUs that a cuda target names; of all of them nothing."""
        return () if self.kind != "cuda" or self.is_group else tuple(self.argument.split(","))

    @property
    def is_group(self) -> bool:
        """Whether it stands for several devices, to be found before it can be opened."""
        return self.kind == "cuda" and self.argument == ALL


def parse_target(text: str) -> Target:
    """The one target that ``text`` names. Raises UsageError."""
    kind, colon, argument = text.strip().partition(":")
    if kind not in KINDS:
        raise UsageError(f"unknown target {text.strip()!r}: use {FORMS}")
    if kind == "host":
        if colon:
            raise UsageError(f"target {text.strip()!r}: host takes no argument")
        return Target(kind)
    if kind == "cuda":
        return _cuda(argument if colon else ALL)
    if not argument:
        wanted = "a plan, such as sim:healthy" if kind == "sim" else "a saved run, such as file:run.json"
        raise UsageError(f"target {text.strip()!r}: {kind} needs {wanted}")
    return Target(kind, argument)


def parse_targets(texts: Iterable[str]) -> tuple[Target, ...]:
    """Every target of repeated or comma-separated values, each once, in the order given. Raises UsageError.

    ``cuda:0,1`` names two devices. A comma within a plan's or a file's name is kept.
    """
    found: dict[Target, None] = {}
    for text in texts:
        for part in re.split(_NEXT, text):
            if part.strip().startswith("cuda:"):
                for argument in part.strip().removeprefix("cuda:").split(","):
                    found.setdefault(_cuda(argument.strip()))
            else:
                found.setdefault(parse_target(part))
    return tuple(found)


def parse_gpu_ids(texts: Iterable[str]) -> tuple[Target, ...]:
    """The cuda targets of ``--gpu-id`` values: indices, UUIDs or PCI addresses. Raises UsageError."""
    arguments = (part.strip() for text in texts for part in text.split(","))
    return tuple(dict.fromkeys(_cuda(argument.removeprefix("cuda:")) for argument in arguments))


def gpus_together(targets: Iterable[Target]) -> Target:
    """The source that several cuda targets name together; the host stands for all GPUs of the machine."""
    arguments = dict.fromkeys(target.argument for target in targets)
    everything = not arguments or any(argument in ("", ALL) for argument in arguments)
    return Target("cuda", ALL if everything else ",".join(arguments))


def evidence(paths: Sequence[str], shown: Sequence[str] = ()) -> Target:
    """Saved evidence of one machine. ``shown``: the paths as the user wrote them."""
    names = [name if _is_short(name) and len(paths) == 1 else PurePath(name).name or name for name in shown or paths]
    more = [f"+{len(names) - NAMED_FILES}"] if len(names) > NAMED_FILES else []
    return Target("file", ",".join(names[:NAMED_FILES] + more), tuple(paths), tuple(shown or paths))


def _is_short(name: str) -> bool:
    return len(name) < LONG and not PurePath(name).is_absolute()


def _cuda(argument: str) -> Target:
    if re.fullmatch(_INDEX, argument):
        return Target("cuda", str(int(argument)))
    if argument == ALL or re.fullmatch(_UUID, argument) or re.fullmatch(_PCI, argument):
        return Target("cuda", argument)
    raise UsageError(f"unknown GPU {argument!r}: use an index, a UUID (GPU-...), a PCI address or all")
