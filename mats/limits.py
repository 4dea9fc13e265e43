"""The user's own bounds: a TOML file of overrides, checked against the limits that exist.

    [limits.MEM-001]
    bound = 3
    unit = "count"
    severity = "warn"
    reason = "this pool is scrubbed every week"

Only what is named changes. A limit that was changed is marked as overridden, and its source is the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mats.model import Limit, Quantity, Severity, Source, SourceKind
from mats.probe import UsageError
from mats.units import quantity

_KEYS = ("bound", "unit", "severity", "reason")


@dataclass(frozen=True, slots=True)
class Override:
    """What one entry of a limits file changes; None leaves the limit's own value."""

    code: str
    bound: Quantity | None
    severity: Severity | None
    reason: str
    origin: str
    """The file's name, shown as the source of the bound."""


def parse_overrides(text: str, known: Mapping[str, Limit], origin: str = "limits file") -> tuple[Override, ...]:
    """The overrides in ``text`` (TOML), each checked against the limit of its code. Raises UsageError."""
    import tomllib  # a run without overrides is not to wait for it

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: this is not TOML: {error}") from None
    unknown = [key for key in data if key != "limits"]
    if unknown:
        raise UsageError(f"{origin}: unknown section {unknown[0]!r}: each entry is a table such as [limits.MEM-001]")
    entries = data.get("limits", {})
    if not isinstance(entries, dict) or not entries:
        raise UsageError(f"{origin}: no limits found: each entry is a table such as [limits.MEM-001]")
    return tuple(_override(code, entry, known, origin) for code, entry in entries.items())


def apply_overrides(limits: Iterable[Limit], overrides: Iterable[Override]) -> tuple[Limit, ...]:
    """The limits with the overrides of their codes; the others as they were."""
    by_code = {override.code: override for override in overrides}
    return tuple(_changed(limit, by_code[limit.code]) if limit.code in by_code else limit for limit in limits)


def _override(code: str, entry: object, known: Mapping[str, Limit], origin: str) -> Override:
    where = f"{origin}: [limits.{code}]"
    if code not in known:
        raise UsageError(f"{where}: there is no such limit{_nearest(code, known)}")
    if not isinstance(entry, dict):
        raise UsageError(f"{where} must be a table with bound, unit or severity")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{_nearest(key, _KEYS)}; the keys are {', '.join(_KEYS)}")
    if "bound" not in entry and "severity" not in entry:
        raise UsageError(f"{where} changes nothing: give a bound with its unit, or a severity")
    reason = entry.get("reason", "")
    if not isinstance(reason, str):
        raise UsageError(f"{where}: reason must be text")
    return Override(code, _bound(entry, known[code], where), _severity(entry, where), reason, origin)


def _bound(entry: Mapping[str, object], limit: Limit, where: str) -> Quantity | None:
    if "bound" not in entry:
        if "unit" in entry:
            raise UsageError(f"{where}: a unit needs a bound")
        return None
    bound, unit = entry["bound"], entry.get("unit")
    own = limit.bound.unit.value
    if unit is None:
        raise UsageError(f'{where}: a bound needs its unit: add unit = "{own}"')
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not isinstance(unit, str):
        raise UsageError(f'{where}: bound must be a number and unit a text, such as bound = 3, unit = "{own}"')
    try:
        given = quantity(bound, unit)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if given.unit is not limit.bound.unit:
        raise UsageError(f"{where}: the unit must be {own} ({limit.measurement}), not {unit}")
    return given


def _severity(entry: Mapping[str, object], where: str) -> Severity | None:
    given = entry.get("severity")
    if given is None:
        return None
    names = [severity.value for severity in Severity]
    if given not in names:
        raise UsageError(f"{where}: unknown severity {given!r}: use {', '.join(names)}")
    return Severity(str(given))


def _changed(limit: Limit, override: Override) -> Limit:
    bound = limit.bound if override.bound is None else override.bound
    severity = override.severity or limit.severity
    changes = []
    if bound != limit.bound:
        changes.append(f"bound {limit.bound.value:g} {limit.bound.unit.value}")
    if severity is not limit.severity:
        changes.append(f"severity {limit.severity.value}")
    if not changes:
        return limit
    reasoning = override.reason or f"Set by the user instead of {' and '.join(changes)}. {limit.reasoning}"
    source = Source(f"set by the user in {override.origin}", f"[limits.{limit.code}]", SourceKind.CONVENTION, "")
    return dataclasses.replace(
        limit, bound=bound, severity=severity, source=source, reasoning=reasoning, overridden=True
    )


def _nearest(given: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
