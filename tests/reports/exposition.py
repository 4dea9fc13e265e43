"""A strict reader of the Prometheus text format (version 0.0.4), which fails where a scraper would."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    help: str
    type: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def parse_exposition(text: str) -> dict[str, Family]:
    """Families by name. Raises AssertionError for whatever the format forbids: a stray line, a second HELP, a sample
    outside its family, a repeated label or series, a value that is no number; or where Prometheus' own client reads it
    in another way."""
    assert text.endswith("\n"), "the last line must end with a newline"
    assert "\r" not in text
    families: dict[str, Family] = {}
    current = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            current, help = line.removeprefix("# HELP ").split(" ", 1)
            assert NAME.fullmatch(current) and current not in families, line
            assert not re.search(r"\\(?![\\n])", help.replace("\\\\", "")), line
            families[current] = Family(help)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == current and kind == "gauge" and not families[name].samples, line
            families[name].type = kind
        else:
            name, labels, value = parse_sample(line)
            assert name == current and families[name].type, line
            assert labels not in families[name].samples, f"repeated series: {line}"
            families[name].samples[labels] = value
    assert all(family.samples for family in families.values())
    assert _as_values(families) == _as_the_client_reads(text)
    return families


Samples = dict[tuple[str, Labels], float]


def _as_values(families: dict[str, Family]) -> tuple[dict[str, tuple[str, str]], Samples]:
    """Help and kind of each family, and each sample, without escapes."""
    about = {name: (_unescaped(family.help), family.type) for name, family in families.items()}
    samples = {
        (name, tuple((key, _unescaped(text)) for key, text in labels)): value
        for name, family in families.items()
        for labels, value in family.samples.items()
    }
    return about, samples


def _as_the_client_reads(text: str) -> tuple[dict[str, tuple[str, str]], Samples]:
    read = list(text_string_to_metric_families(text))
    about = {family.name: (family.documentation, family.type) for family in read}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in read
        for sample in family.samples
    }
    assert len(samples) == sum(len(family.samples) for family in read)
    return about, samples


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def parse_sample(line: str) -> tuple[str, Labels, float]:
    match = re.fullmatch(rf"({NAME.pattern})(?:\{{(.*)\}})? (\S+)", line)
    assert match, line
    name, body, value = match.groups()
    assert NUMBER.fullmatch(value), line
    labels: list[tuple[str, str]] = []
    rest = body or ""
    while rest:
        label = LABEL.match(rest)
        assert label, line
        labels.append((label[1], label[2]))
        rest = rest[label.end() :]
        assert not rest or rest.startswith(","), line
        rest = rest.removeprefix(",")
    names = [key for key, _ in labels]
    assert len(set(names)) == len(names) and not any(key.startswith("__") for key in names), line
    return name, tuple(sorted(labels)), float(value)
