"""The user's own limits: what a file may say, and the sentence for each mistake."""

from __future__ import annotations

import pytest

from mats.limits import apply_overrides, parse_overrides
from mats.model import Quantity, Severity, Unit
from mats.probe import UsageError

from .fakes import count, limit

BANDWIDTH = limit("MEM-002", "memory.bandwidth", bound=Quantity(10**9, Unit.BYTE_PER_SECOND))
KNOWN = {"MEM-001": limit("MEM-001"), "MEM-002": BANDWIDTH}


def test_what_is_named_changes_and_is_marked() -> None:
    text = '[limits.MEM-001]\nbound = 3\nunit = "count"\nseverity = "warn"\nreason = "scrubbed weekly"\n'

    changed, other = apply_overrides(KNOWN.values(), parse_overrides(text, KNOWN, "my.toml"))

    assert (changed.bound, changed.severity, changed.reasoning) == (count(3), Severity.WARN, "scrubbed weekly")
    assert changed.overridden and not other.overridden
    assert "my.toml" in changed.source.title
    assert other is BANDWIDTH


def test_the_old_bound_is_kept_in_words() -> None:
    (override,) = parse_overrides('[limits.MEM-001]\nbound = 3\nunit = "count"\n', KNOWN)

    (changed, _other) = apply_overrides(KNOWN.values(), [override])

    assert "instead of bound 0 count" in changed.reasoning


def test_prefixed_units_are_converted() -> None:
    (override,) = parse_overrides('[limits.MEM-002]\nbound = 2.5\nunit = "GB/s"\n', KNOWN)

    assert override.bound == Quantity(2.5e9, Unit.BYTE_PER_SECOND)


def test_the_same_bound_is_no_override() -> None:
    (override,) = parse_overrides('[limits.MEM-001]\nbound = 0\nunit = "count"\n', KNOWN)

    assert not apply_overrides(KNOWN.values(), [override])[0].overridden


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[limits.MEM-001\n", "my.toml: this is not TOML"),
        ("", "my.toml: no limits found"),
        ("limits = 3", "my.toml: no limits found"),
        ("[limit.MEM-001]\nbound = 1", "my.toml: unknown section 'limit'"),
        ("[limits]\nMEM-001 = 3", "must be a table"),
        (
            '[limits.MEM-0O1]\nbound = 1\nunit = "count"',
            r"\[limits.MEM-0O1\]: there is no such limit \(did you mean 'MEM-001'\?\)",
        ),
        (
            '[limits.MEM-001]\nbuond = 1\nunit = "count"',
            r"\[limits.MEM-001\]: unknown key 'buond' \(did you mean 'bound'\?\)",
        ),
        ('[limits.MEM-001]\nbound = 1\nunit = "GB/s"', r"the unit must be count \(fake.errors\), not GB/s"),
        ('[limits.MEM-001]\nbound = 1\nunit = "furlong"', "the unit 'furlong' is not known"),
        ("[limits.MEM-001]\nbound = 1", 'a bound needs its unit: add unit = "count"'),
        ('[limits.MEM-001]\nunit = "count"\nseverity = "warn"', "a unit needs a bound"),
        ('[limits.MEM-001]\nbound = "1"\nunit = "count"', "bound must be a number"),
        ('[limits.MEM-001]\nbound = true\nunit = "count"', "bound must be a number"),
        ('[limits.MEM-001]\nbound = inf\nunit = "count"', "not a finite number"),
        ('[limits.MEM-001]\nseverity = "bad"', "unknown severity 'bad': use note, warn, unknown, fail"),
        ("[limits.MEM-001]\nreason = 'because'", "changes nothing"),
        ("[limits.MEM-001]\nseverity = 'warn'\nreason = 3", "reason must be text"),
    ],
)
def test_each_mistake_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        parse_overrides(text, KNOWN, "my.toml")

    assert "\n" not in str(caught.value)
