"""Options as data, the values users give them, and the typer parameters made of both.

Every value is read as text and converted here, so that each mistake gets one sentence that names the option.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mats.model import Severity
from mats.probe import Option, OptionKind, Probe, UsageError
from mats.units import MIB, parse_count, parse_duration, parse_number, parse_share, parse_size

METAVARS = {
    OptionKind.TEXT: "TEXT",
    OptionKind.COUNT: "N",
    OptionKind.NUMBER: "NUMBER",
    OptionKind.MEBIBYTES: "SIZE",
    OptionKind.SECONDS: "TIME",
    OptionKind.SHARE: "SHARE",
    OptionKind.FILE_OUT: "FILE",
    OptionKind.RUN_IN: "RUN.json",
    OptionKind.EVIDENCE: "FILE...",
}
READERS: Mapping[OptionKind, Callable[[str], object]] = {
    OptionKind.TEXT: str,
    OptionKind.COUNT: parse_count,
    OptionKind.NUMBER: parse_number,
    OptionKind.MEBIBYTES: parse_size,
    OptionKind.SECONDS: parse_duration,
    OptionKind.SHARE: parse_share,
    OptionKind.FILE_OUT: str,
    OptionKind.RUN_IN: str,
    OptionKind.EVIDENCE: lambda _text: None,  # what stands in them comes to the probe through its source
}

_BARE: Mapping[OptionKind, str] = {
    OptionKind.MEBIBYTES: "A bare number is MiB.",
    OptionKind.SECONDS: "A bare number is seconds.",
}

CHOICE = (
    Option("target", OptionKind.TEXT, "What to test: cuda:0, cuda:all, host, sim:PLAN or file:RUN.json. Repeatable."),
    Option("gpu-id", OptionKind.TEXT, "GPUs to test, by index, UUID or PCI address. Repeatable."),
)
OUTPUTS = (
    Option("json", OptionKind.FLAG, "Print the run as JSON instead of the summary."),
    Option("html", OptionKind.FILE_OUT, "Write the HTML report."),
    Option("junit", OptionKind.FILE_OUT, "Write the JUnit report."),
    Option("prometheus", OptionKind.FILE_OUT, "Write the metrics as a Prometheus text file."),
    Option("out", OptionKind.TEXT, "Write all of them into a folder: run.json, report.html, junit.xml, metrics.prom."),
    Option("quiet", OptionKind.FLAG, "Print nothing but errors."),
)
JUDGING = (
    Option("limits", OptionKind.TEXT, "Limits of your own, as TOML: see mats explain CODE for what there is."),
    Option("fail-on", OptionKind.TEXT, "Exit with 1 on findings from this severity: warn or fail.", "fail"),
)
RUNNING = (
    Option("timeout", OptionKind.SECONDS, "Time each probe may take, those that only look together, e.g. 90, 5m, 2h."),
    Option(
        "require", OptionKind.TEXT, "Probes without which the result is unknown; otherwise all that run. Repeatable."
    ),
    Option("seed", OptionKind.COUNT, "Seed of the random patterns, to repeat a run. Without it: a new one each time."),
    Option("force", OptionKind.FLAG, "Test even when other processes use the device."),
)
COMMON = (*CHOICE, *OUTPUTS, *JUDGING, *RUNNING)
FOR_DEVICES = ("seed", "force")
"""Common options that say nothing to a probe that only looks."""
REPEATABLE = ("target", "gpu-id", "require")
_OWN_METAVARS = {
    "out": "DIR",
    "limits": "FILE",
    "target": "TARGET",
    "gpu-id": "GPU",
    "require": "PROBE",
    "fail-on": "SEVERITY",
}

_SHORT = {"output": "-o"}

Values = dict[str, Any]
"""Values as typer gives them, by option name: text, a list of texts, a flag, or None when not given."""


def read_value(option: Option, text: object) -> object:
    """The value of an option from what the user gave, in base units. Raises UsageError naming the option."""
    if option.kind is OptionKind.FLAG or text is None:
        return bool(text) if option.kind is OptionKind.FLAG else None
    try:
        return READERS[option.kind](str(text))
    except ValueError as error:
        raise UsageError(f"--{option.name}: {error}") from None


def default_value(option: Option) -> object:
    """The value of an option that was not given: text is read as if it were given, other values are base units."""
    return read_value(option, option.default) if isinstance(option.default, str) else _plain(option)


def was_given(option: Option, given: Values) -> bool:
    """Whether the user gave an option; a flag is there in any case and counts where it is not as usual."""
    value = given.get(option.name)
    return bool(value) is not bool(option.default) if option.kind is OptionKind.FLAG else value is not None


def probe_values(probe: Probe, given: Values) -> Values:
    """Every option of a probe by name: what was given, else its default. Raises UsageError."""
    return {
        option.name: default_value(option) if given.get(option.name) is None else read_value(option, given[option.name])
        for option in probe.options
    }


def quick_values(probe: Probe) -> Values:
    """Every option of a probe as ``mats all`` uses it: its quick value, else its default."""
    quick = dict(probe.quick)
    values = probe_values(probe, {})
    for option in probe.options:
        if option.name in quick:
            value = quick[option.name]
            values[option.name] = read_value(option, value) if isinstance(value, str) else value
    return values


def texts(value: object) -> tuple[str, ...]:
    """The values of a repeatable option, commas taken apart."""
    given = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return tuple(part.strip() for text in given for part in str(text).split(",") if part.strip())


def fail_on(text: str | None) -> Severity:
    """The severity of ``--fail-on``. Raises UsageError."""
    if text not in (None, Severity.WARN.value, Severity.FAIL.value):
        raise UsageError(f"--fail-on: unknown severity {text!r}: use warn or fail")
    return Severity(text or "fail")


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of a command."""

    name: str
    metavar: str
    help: str
    many: bool = False
    """Any number of words, also none; the value is a list, or None."""


MORE_FILES = Argument("files", "FILE", "Files of saved evidence, as after --from.", many=True)


def evidence_option(probes: Iterable[Probe]) -> Option | None:
    """The option by which one of these probes takes saved evidence."""
    options = (option for probe in probes for option in probe.options)
    return next((option for option in options if option.kind is OptionKind.EVIDENCE), None)


def evidence_files(given: Values, probes: Iterable[Probe]) -> tuple[str, ...]:
    """The files that were named as evidence, as they were written."""
    option = evidence_option(probes)
    named = (given.get(option.name) or []) if option else []
    return (*named, *(given.get(MORE_FILES.name) or ()))


def command(
    act: Callable[[Values], int], options: tuple[Option, ...], arguments: tuple[Argument, ...] = ()
) -> Callable[..., None]:
    """A typer command function with these options that ends with the exit code that ``act`` gives for them."""
    names = {identifier(option.name): option.name for option in options} | {item.name: item.name for item in arguments}

    def run(**values: object) -> None:
        raise typer.Exit(act({names[key]: value for key, value in values.items()}))

    parameters = [_positional(item) for item in arguments]
    parameters += [_parameter(option) for option in options]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def identifier(name: str) -> str:
    """The name of an option as Python can use it."""
    return name.replace("-", "_") + "_" * keyword.iskeyword(name)


def default_text(option: Option) -> str:
    """A default as the help shows it, or nothing."""
    value = option.default
    if value is None or value is False or value == "":
        return ""
    if isinstance(value, str | bool):
        return str(value)
    assert isinstance(value, int | float)
    if option.kind is OptionKind.MEBIBYTES:
        return f"{value / MIB:g}MiB"
    if option.kind is OptionKind.SECONDS:
        return duration_text(value)
    if option.kind is OptionKind.SHARE:
        return f"{value:.4g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def duration_text(seconds: float) -> str:
    """A duration as a user gives it, in the largest suffix that leaves a whole number: ``7d``, ``90s``, ``0.5s``."""
    suffixes = ((86400, "d"), (3600, "h"), (60, "m"))
    return next((f"{seconds / size:g}{suffix}" for size, suffix in suffixes if seconds and not seconds % size), "") or (
        f"{seconds:g}s"
    )


def _positional(item: Argument) -> inspect.Parameter:
    kind: Any = list[str] | None if item.many else str
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if item.many else inspect.Parameter.empty,
        annotation=Annotated[kind, typer.Argument(metavar=item.metavar, help=item.help, show_default=False)],
    )


def _parameter(option: Option) -> inspect.Parameter:
    flag = f"--{option.name}"
    shown = default_text(option)
    kind: Any
    if option.kind is OptionKind.FLAG:
        on = bool(option.default)
        declaration = f"{flag}/--no-{option.name}" if on else flag
        kind, default = bool, on
        details = typer.Option(declaration, help=option.help, show_default=False)
    else:
        many = option.name in REPEATABLE or option.kind is OptionKind.EVIDENCE
        kind, default = (list[str] | None if many else str | None), None
        metavar = _OWN_METAVARS.get(option.name, METAVARS[option.kind])
        text = " ".join(filter(None, (option.help, _BARE.get(option.kind), f"[default: {shown}]" if shown else "")))
        short = (_SHORT[option.name],) if option.name in _SHORT else ()
        details = typer.Option(flag, *short, help=text, metavar=metavar, show_default=False)
    return inspect.Parameter(
        identifier(option.name),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, details],
    )


def _plain(option: Option) -> object:
    return bool(option.default) if option.kind is OptionKind.FLAG else option.default
