"""``mats explain``: the pages of probes, limits, faults and simulator plans, from the text they are written in."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Sequence

from mats import registry
from mats.cli.world import World
from mats.device import DeviceError
from mats.model import Limit, Quantity, Relation, Source
from mats.probe import Probe, UsageError
from mats.registry import Fault, OwnedLimit

WIDTH = 100
_INDENT = 14


def explain(topic: str, world: World) -> str:
    """The page of a probe, a limit's code, a fault, a plan, or ``sim``. Raises UsageError for anything else."""
    probes = world.probes()
    by_name = {name: probe for probe in probes.values() for name in (probe.name, *probe.aliases)}
    limits, faults = registry.limits(probes), world.faults()
    if topic == "sim":
        return f"{plans_page(world.plans())}\n\n{_own_plan(registry.plan_example())}"
    if topic in by_name:
        return probe_page(by_name[topic], world.page(by_name[topic]))
    if topic.upper() in limits:
        return limit_page(limits[topic.upper()])
    if topic in faults:
        return fault_page(faults[topic], [probe for probe in probes.values() if topic in probe.faults])
    plans = _plans(world)
    if topic.removeprefix("sim:") in plans:
        name = topic.removeprefix("sim:")
        return plan_page(name, plans[name], [probe for probe in probes.values() if name in probe.faults])
    known = [*by_name, *limits, *faults, *plans, "sim"]
    near = difflib.get_close_matches(topic, known, n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UsageError(
        f"nothing is known of {topic!r}{hint}: give a probe ({', '.join(probes) or 'there is none'}), "
        "a limit's code, a fault's or a plan's name, or sim"
    )


def _plans(world: World) -> dict[str, str]:
    """The simulator's plans by name; none where it cannot be used."""
    try:
        return dict(world.plans())
    except DeviceError:
        return {}


def probe_page(probe: Probe, docstring: str) -> str:
    """A probe's docstring, its limits and the faults it must catch."""
    asked = [] if docstring.startswith(probe.question) else [probe.question, ""]
    lines = [probe.name, "=" * len(probe.name), "", *asked, docstring, ""]
    kinds = ", ".join(probe.kinds)
    if probe.passive:
        lines += [f"Looks at {kinds}; it reads and tests no memory.", ""]
    else:
        together = f"Works on {kinds}, all named devices together.", " Needs them to itself."
        on, alone = together if probe.together else (f"Works on {kinds}.", " Needs the device to itself.")
        lines += [on + (alone if probe.exclusive else ""), ""]
    lines += _heading("Limits")
    for limit in probe.limits:
        lines += [*_limit_lines(limit), ""]
    if not probe.limits:
        lines += ["None: it measures and does not judge.", ""]
    if probe.faults:
        lines += _heading("Faults it must catch")
        lines += [*_wrapped(", ".join(probe.faults)), "", "mats explain FAULT tells more of each."]
    return "\n".join(lines).rstrip()


def limit_page(owned: OwnedLimit) -> str:
    """Everything about one limit."""
    bound = owned.limit.bound
    lines = [
        *_limit_lines(owned.limit),
        "",
        f"mats explain {owned.probe.name} tells how it is measured. A bound of your own, in a file for --limits:",
        "",
        f"    [limits.{owned.limit.code}]",
        f"    bound = {bound.value:g}",
        f'    unit = "{bound.unit.value}"',
        f'    severity = "{owned.limit.severity.value}"',
        '    reason = "why"',
    ]
    return "\n".join(lines)


def fault_page(fault: Fault, probes: Iterable[Probe]) -> str:
    """One entry of the fault catalogue."""
    caught = ", ".join(probe.name for probe in probes)
    rows = [
        ("looks like", fault.signature),
        ("cause", fault.cause),
        ("advice", fault.advice),
        ("source", fault.source),
        ("caught by", caught),
        ("simulate", f"mats {caught.split(', ')[0]} --target sim:{fault.name}" if caught else ""),
    ]
    return "\n".join([f"{fault.name}  {fault.title}", *_rows(rows)])


def plan_page(name: str, summary: str, probes: Sequence[Probe]) -> str:
    """One plan of the simulator, and who must find what is wrong in it."""
    caught = ", ".join(probe.name for probe in probes)
    rows = [
        ("found by", caught),
        ("simulate", f"mats {probes[0].name if probes else 'all'} --target sim:{name}"),
    ]
    return "\n".join([*_wrapped(summary, f"sim:{name}  "), *_rows(rows)])


def plans_page(plans: Iterable[tuple[str, str]]) -> str:
    """The simulator's built-in plans."""
    plans = list(plans)
    width = max((len(name) for name, _summary in plans), default=0) + len("sim:")
    lines = ["Plans built into the simulator; a file of your own works too (sim:PATH.toml).", ""]
    for name, summary in plans:
        lines += _wrapped(summary, f"sim:{name}".ljust(width + 2))
    return "\n".join(lines)


def _own_plan(example: str) -> str:
    heading = "A plan of your own, as mine.toml, for --target sim:mine.toml:"
    return f"{heading}\n\n{textwrap.indent(example, '    ').rstrip()}"


def _limit_lines(limit: Limit) -> list[str]:
    relation = "at most" if limit.relation is Relation.AT_MOST else "at least"
    required = "yes: without it the result is unknown" if limit.required else "no"
    rows = [
        ("bound", f"{limit.measurement} {relation} {_quantity(limit.bound)}"),
        ("when broken", limit.severity.value),
        ("required", required),
        ("applies to", ", ".join(limit.kinds) or "every kind of target"),
        ("source", _source_text(limit.source)),
        ("reasoning", limit.reasoning),
        ("advice", limit.advice),
    ]
    return [f"{limit.code}  {limit.title}", *_rows(rows)]


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in rows if text for line in _wrapped(text, f"  {name}".ljust(_INDENT))]


def _source_text(source: Source) -> str:
    return f"{source.title}, {source.locator} ({source.kind.value}, read {source.read or 'on an unknown day'})"


def _quantity(quantity: Quantity) -> str:
    return f"{quantity.value:g} {quantity.unit.value}"


def _heading(text: str) -> list[str]:
    return [text, "-" * len(text), ""]


def _wrapped(text: str, first: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
