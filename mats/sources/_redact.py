"""A capture without what tells whose machine it is: names and numbers of identity, replaced by neutral ones.

The same thing has the same replacement everywhere, in the facts and in the raw texts, so that what belongs together
still does. PCI addresses, versions, times and figures stay. Names are found where tools write them; a name is then
replaced wherever it stands, except where it is also a word of the tools themselves.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mats.codec import from_data, to_data
from mats.facts import MachineFacts
from mats.model import Absent
from mats.sources.capture import Capture

UUID = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)
_MAC = re.compile(
    r"(?<![0-9A-Fa-f:.-])[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5}|(?:-[0-9A-Fa-f]{2}){5,7})(?![0-9A-Fa-f:.-])"
)
_ADDRESS = re.compile(
    r"(?<![\w.:-])(?:\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)|[0-9A-Fa-f]{0,4}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f.]{0,15}(?![\w:]))"
)
"""What may be a network address; whether it is one is another question."""
_FOUND: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("serial", re.compile(r"(?i)\bserial(?:[ _](?:number|num|no))?(?: is|\s*[:=>]|</\w+>)+\s*([\w-]{4,40})(?![\w-])")),
    ("serial", re.compile(r"(?i)<\w*serial\w*>([^<\s]{4,40})</")),
    ("host", re.compile(r"(?m)^\w{3} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? ([\w.-]+) (?:kernel|nvidia|systemd)[\[:]")),
    ("host", re.compile(r"(?m)^\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? ([\w.-]+) kernel:")),
    ("host", re.compile(r"(?m)^\d{9,11}\.\d{6} ([\w.-]+) kernel:")),
    ("host", re.compile(r"\bLinux ([\w.-]+) \d+\.\d+")),
    ("user", re.compile(r"/(?:home|Users)/([\w.-]+)")),
    ("process", re.compile(r"\bname=([^,\n<>]+)")),
    ("process", re.compile(r"<process_name>([^<\n]+)</process_name>")),
    ("process", re.compile(r"(?i)\b(?:comm|task|process)[:=] ?([^\s,;()]+)")),
    ("process", re.compile(r"\bprocess \d+ \(([^)\n]+)\)")),
)
"""Where tools write a name or a number of identity."""
_TELLS_NOTHING = re.compile(
    r"(?i)\W*(?:n/a|none|null|unknown|not|insufficient permissions|localhost|root|ubuntu|admin|user|nvidia|debian"
    r"|centos|opc|ec2-user|(?:.*/)?(?:nvidia|nv|dcgm)[-_][\w-]*|(?:.*/)?xorg|\W*)\W*"
)
"""What stands in the place of a name, and names that are those of thousands of machines."""
_OF_TOOLS = re.compile(
    r"action|bus|card|check|clock|count|cuda|dcgm|device|driver|ecc|error|fabric|fail|failed|fatal|file|firmware|gpus?"
    r"|gsp|health|host|idle|interrupt|kernel|limit|link|linux|list|log|machine|memory|mode|module|name|node|note|nvidia"
    r"|nvlink|nvml|nvrm|nvswitch|off|pcie|pending|pid|port|power|process|program|python|reset|row|sample|serial|service"
    r"|source|start|state|status|switch|system|table|task|temperature|test|text|thread|time|true|false|value|version"
    r"|warn|warning|watch|width|xid"
)
"""Words of the tools: a name that is one of them is replaced only where a name stands."""
_SHORTEST = {"serial": 8}
"""Characters from which on a name is replaced wherever it stands; of kinds that are not here 3."""


_NAMED = {"host": "host", "processes": "process"}
"""Fields below which ``name`` is that of a machine or of a program."""
_CLOSED = ("kind", "grade", "unit", "status", "action")
"""Fields that hold one of a few words, whatever a program may be called."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known beforehand to tell whose machine it is, beside what the texts show."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


@dataclass(slots=True)
class Redactor:
    """Learns names and numbers from texts, then replaces them in any text."""

    _given: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def learn(self, kind: str, name: str) -> None:
        """``kind``: host, user, process or serial. What is no name, or a number where none belongs, is passed over."""
        name = _bare(name)
        if len(name) < 2 or _TELLS_NOTHING.fullmatch(name) or (kind != "serial" and not re.search(r"[^\W\d]", name)):
            return
        if kind == "host" and "." in name:
            self.learn(kind, name.split(".")[0])
        if kind == "process" and "/" in name:
            self.learn(kind, name.rstrip("/").split("/")[-1])
        self._replacement(kind, name)

    def learn_from(self, text: str) -> None:
        """Every name that stands where tools write names."""
        for kind, pattern in _FOUND:
            for found in pattern.finditer(text):
                self.learn(kind, found[1])

    def name(self, kind: str, text: str) -> str:
        """The replacement of a text that is nothing but a name."""
        return self._given.get((kind, _bare(text).casefold())) or self.redact(text)

    def redact(self, text: str) -> str:
        """The text with everything replaced that was learnt, and every UUID and network address."""
        for kind, pattern in _FOUND:
            text = pattern.sub(lambda found, kind=kind: self._at(found, kind), text)  # type: ignore[misc]
        text = self._everywhere(text)
        text = UUID.sub(lambda found: self._replacement("uuid", found[0]), text)
        text = _MAC.sub(lambda found: self._replacement("mac", found[0].replace("-", ":")), text)
        return _ADDRESS.sub(lambda found: self._network(found[0]), text)

    def _replacement(self, kind: str, name: str) -> str:
        key = kind, name.casefold()
        if key not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[key] = _neutral(kind, self._counts[kind])
        return self._given[key]

    def _at(self, found: re.Match[str], kind: str) -> str:
        """A name where names stand, also one that is a word of the tools."""
        neutral = self._given.get((kind, _bare(found[1]).casefold()))
        if neutral is None:
            return found[0]
        start, end = found.start(1) - found.start(), found.end(1) - found.start()
        return found[0][:start] + found[1].replace(_bare(found[1]), neutral) + found[0][end:]

    def _everywhere(self, text: str) -> str:
        """Names that mean nothing else, longest first, wherever they stand as a word; of hosts with their domain."""
        table = {
            name: (kind, neutral)
            for (kind, name), neutral in self._given.items()
            if kind in ("host", "user", "process", "serial")
            and not _OF_TOOLS.fullmatch(name)
            and len(name) >= _SHORTEST.get(kind, 3)
        }
        if not table:
            return text
        names = "|".join(re.escape(name) for name in sorted(table, key=len, reverse=True))
        pattern = re.compile(rf"(?<![\w-])({names})((?:\.[A-Za-z][\w-]*)*)(?![\w-])", re.IGNORECASE)

        def neutral(found: re.Match[str]) -> str:
            kind, word = table[found[1].casefold()]
            return word if kind == "host" else word + found[2]

        return pattern.sub(neutral, text)

    def _network(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text.rstrip("."))
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        return self._replacement("address", str(address)) + text[len(text.rstrip(".")) :]


def _bare(name: str) -> str:
    return name.strip().strip("'\"")


def _neutral(kind: str, number: int) -> str:
    """A replacement of the same form where readers look at the form."""
    if kind == "uuid":
        return f"00000000-0000-0000-0000-{number:012d}"
    return f"{number:013d}" if kind == "serial" else f"{kind}-{number}"


def redacted(capture: Capture, identity: Identity) -> Capture:
    """The capture without names and numbers of identity."""
    redactor = Redactor()
    for kind, names in (("host", identity.hosts), ("user", identity.users)):
        for name in names:
            redactor.learn(kind, name)
    for kind, name in _identities(capture.facts):
        redactor.learn(kind, name)
    facts = to_data(capture.facts)
    for text in (*_strings(facts), *(text for _, text in capture.raw)):
        redactor.learn_from(text)
    raw = tuple((name, redactor.redact(text)) for name, text in capture.raw)
    return replace(capture, facts=from_data(MachineFacts, _replaced(facts, redactor)), raw=raw, redacted=True)


def _identities(facts: MachineFacts) -> Iterator[tuple[str, str]]:
    if isinstance(facts.host.name, str):
        yield "host", facts.host.name
    for gpu in () if isinstance(facts.gpus, Absent) else facts.gpus:
        if isinstance(gpu.serial, str):
            yield "serial", gpu.serial
        for process in () if isinstance(gpu.processes, Absent) else gpu.processes:
            if isinstance(process.name, str):
                yield "process", process.name


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _strings(value)


def _replaced(data: Any, redactor: Redactor, named: str = "") -> Any:
    """``named``: of what kind the field ``name`` is, in what lies below; GPUs have one that tells their model."""
    if isinstance(data, str):
        return redactor.redact(data)
    if isinstance(data, list):
        return [_replaced(value, redactor, named) for value in data]
    if not isinstance(data, dict):
        return data
    kinds = {"serial": "serial", **({"name": named} if named else {})}
    new = {}
    for key, value in data.items():
        if key in kinds and isinstance(value, str):
            new[key] = redactor.name(kinds[key], value)
        elif key in _CLOSED and isinstance(value, str):
            new[key] = value
        else:
            new[key] = _replaced(value, redactor, _NAMED.get(key, ""))
    return new
