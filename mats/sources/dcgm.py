"""Reads what NVIDIA's DCGM says: ``dcgmi diag`` (JSON of versions 3 and 4, text), ``health``, ``nvlink``, ``dmon``.

What another tool concluded is evidence and not our verdict: a skipped test is not a passed one, a test whose result is
cut off is unknown, and "Healthy" means that the watches of DCGM saw nothing, not that nothing is wrong.
Layouts: NVIDIA/DCGM, testing/python3/dcgm_diag_schema.json (version 4) and dcgmi/ (version 3, text); none is promised.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mats.facts import GpuFacts, LinkFacts, MachineFacts, NvlinkFacts
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._json_cut import dict_of as _dict
from mats.sources._json_cut import is_int as _is_int
from mats.sources._json_cut import list_of as _list
from mats.sources._json_cut import loads
from mats.sources._json_cut import text_of as _text

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
LARGEST = 16 << 20
"""Characters of JSON that are read; a diagnostic of 16 GPUs is below 200 KiB."""
ROWS_AT_MOST = 10_000
CUT_TABLE = "the table ends without its closing line"
_SHOWN = Absent(AbsenceKind.NOT_FOUND, "not shown in this file")


class DcgmError(ValueError):
    """The text is no output of dcgmi, or one without any result; the sentence says which."""


class Status(enum.StrEnum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    """The test did not run there: nothing is known."""
    UNKNOWN = "unknown"
    """The text holds no word for it that is known."""


@dataclass(frozen=True, slots=True)
class DcgmMessage:
    """A warning of a test with DCGM's own numbers for it, where the format gives them."""

    text: str
    error: int | Absent = _SHOWN
    category: int | Absent = _SHOWN
    severity: int | Absent = _SHOWN


@dataclass(frozen=True, slots=True)
class DcgmResult:
    """One test on one entity. ``group``: GPU, CPU, Switch ...; ``entity``: DCGM's number, not always that of NVML."""

    group: str
    entity: int | Absent
    status: Status
    warnings: tuple[DcgmMessage, ...] = ()
    info: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DcgmTest:
    """One test of the diagnostic. ``iteration`` counts from 0."""

    category: str
    name: str
    results: tuple[DcgmResult, ...]
    summary: Status | Absent = _SHOWN
    """What DCGM says of the test as a whole, where it says so."""
    warnings: tuple[DcgmMessage, ...] = ()
    """Of the test as a whole."""
    iteration: int = 0

    def on(self, entity: int, group: str = "GPU") -> Status | Absent:
        """How it ended on one entity; absent when the file does not show that."""
        for result in self.results:
            if (result.group, result.entity) == (group, entity):
                return result.status
        return Absent(AbsenceKind.NOT_FOUND, f"{self.name} on {group} {entity}: not shown in this file")


@dataclass(frozen=True, slots=True)
class DcgmDiag:
    """One run of ``dcgmi diag``. ``cut``: why there is less than was run, or empty."""

    version: str | Absent
    driver: str | Absent
    tests: tuple[DcgmTest, ...]
    gpus: tuple[tuple[int, str], ...] = ()
    """DCGM's number and the PCI device number, in hexadecimal, of each GPU the file lists."""
    error: str = ""
    """Why the diagnostic itself could not run, in DCGM's words."""
    cut: str = ""

    def named(self, name: str) -> DcgmTest | Absent:
        """The first test of that name, whatever the case and whether blanks or underscores stand in it."""
        wanted = _plain(name)
        for test in self.tests:
            if _plain(test.name) == wanted:
                return test
        return Absent(AbsenceKind.NOT_FOUND, f"{name}: not shown in this file")

    def having(self, status: Status) -> tuple[tuple[str, DcgmResult], ...]:
        """Every result of that status with its test's name."""
        return tuple((test.name, result) for test in self.tests for result in test.results if result.status is status)


@dataclass(frozen=True, slots=True)
class DcgmTrouble:
    """What a watch of ``dcgmi health`` reports. ``place`` e.g. ("GPU", "0", "Memory"); ``word`` e.g. "Failure"."""

    place: tuple[str, ...]
    word: str


@dataclass(frozen=True, slots=True)
class DcgmHealth:
    """``overall`` as DCGM says it: "Healthy", "Warning", "Failure"."""

    overall: str | Absent
    troubles: tuple[DcgmTrouble, ...]
    cut: str = ""


@dataclass(frozen=True, slots=True)
class DcgmSample:
    """One line of ``dcgmi dmon``: an entity such as "GPU 6" and the text of each column."""

    entity: str
    values: tuple[tuple[str, str], ...]

    @property
    def last_xid(self) -> int | Absent:
        """Field 230 of DCGM: the last Xid, 0 for none. (Field 230 of NVML is another thing.)"""
        text = dict(self.values).get("XIDER")
        if text is None or not (text.isascii() and text.isdigit()):
            return Absent(AbsenceKind.NOT_FOUND, f"last Xid: {'not asked for' if text is None else text}")
        return int(text[:9])


def parse_diag(text: str) -> DcgmDiag:
    """``dcgmi diag`` with or without ``-j``, of versions 3 and 4. Raises DcgmError."""
    if "{" in text and any(f'"{root}"' in text for root in ROOTS):
        return _diag_json(text)
    return _diag_table(text)


def _diag_json(text: str) -> DcgmDiag:
    whole, cut = _load(text)
    root = next((whole[name] for name in ROOTS if isinstance(whole.get(name), dict)), None)
    if root is None:
        raise DcgmError("this JSON holds no DCGM diagnostic")
    metadata = _dict(root.get("metadata")) or root
    rounds = [_dict(each) for each in _list(root.get("iterations"))] or [root]
    tests = [
        test
        for number, each in enumerate(rounds)
        for category in _list(each.get("test_categories"))
        for test in _json_tests(_dict(category), number)
    ]
    error = _text(root.get("runtime_error"), "") or _text(whole.get("runtime_error"), "")
    if not tests and not error and not cut:
        raise DcgmError("this DCGM diagnostic lists no test")
    return DcgmDiag(
        version=_word(metadata, "version"),
        driver=_word(metadata, "Driver Version Detected"),
        tests=tuple(tests),
        gpus=_json_gpus(root),
        error=error,
        cut=cut,
    )


def _json_tests(category: dict[str, Any], iteration: int) -> Iterator[DcgmTest]:
    for entry in map(_dict, _list(category.get("tests"))):
        summary = _dict(entry.get("test_summary"))
        yield DcgmTest(
            category=_text(category.get("category"), ""),
            name=_text(entry.get("name"), "?"),
            results=tuple(result for each in _list(entry.get("results")) for result in _json_results(_dict(each))),
            summary=_status(summary["status"]) if "status" in summary else _SHOWN,
            warnings=_messages(summary.get("warnings")),
            iteration=iteration,
        )


def _json_results(entry: dict[str, Any]) -> Iterator[DcgmResult]:
    """One for each GPU: version 3 lists several in one string."""
    shared = DcgmResult(
        group=_text(entry.get("entity_group"), "GPU"),
        entity=_SHOWN,
        status=_status(entry.get("status")),
        warnings=_messages(entry.get("warnings")),
        info=tuple(_text(line, "") for line in _list(entry.get("info"))),
    )
    named = next((entry[key] for key in ("entity_id", "gpu_id", "gpu_ids") if key in entry), None)
    numbers = re.findall(r"\d{1,9}", str(named)) if isinstance(named, str | int) else []
    for number in numbers:
        yield replace(shared, entity=int(number))
    if not numbers:
        yield shared


def _json_gpus(root: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    found = []
    for group in map(_dict, _list(root.get("entity_groups"))):
        if group.get("entity_group") == "GPU":
            entities = [_dict(each) for each in _list(group.get("entities"))]
            found += [(e["entity_id"], _text(e.get("device_id"), "")) for e in entities if _is_int(e.get("entity_id"))]
    ids = _list(root.get("GPU Device IDs"))
    return tuple(found) or tuple((number, _text(each, "")) for number, each in enumerate(ids))


_RESULT = re.compile(r"(?P<status>Pass|Fail|Warn|Warning|Skip|Not Run)\b\s*(?:- (?P<where>.*))?", re.IGNORECASE)
_ENTITY = re.compile(r"(?P<group>[A-Za-z]+?)\s?(?P<number>\d{1,9}):\s*(?P<rest>.*)")
_BORDER = re.compile(r"\+[-+]{20,}\+")
_SECTION = re.compile(r"[|+]-{3,}\s+(?P<name>[\w /]+?)\s+-{2,}\+-+[|+]")
_METADATA = ("DCGM Version", "Driver Version Detected", "GPU Device IDs Detected")


def _diag_table(text: str) -> DcgmDiag:
    rows = list(itertools.islice(_table_rows(text), ROWS_AT_MOST + 1))
    if len(rows) > ROWS_AT_MOST:
        raise DcgmError(f"this table has more than {ROWS_AT_MOST} rows, which no output of dcgmi has")
    if not any(left == "Diagnostic" for _, left, _ in rows):
        raise DcgmError("this text holds no table of dcgmi diag")
    metadata = {left: right for _, left, right in rows if left in _METADATA}
    tests: list[DcgmTest] = []
    for category, left, right in rows:
        if left in ("Diagnostic", *_METADATA) or category == "Metadata":
            continue
        if left and (left.startswith(("Warning", "Info", "Error")) or not _RESULT.fullmatch(right)):
            tests[-1:] = [_with_message(test, left, right) for test in tests[-1:]]
        elif left:
            tests.append(_table_test(category, left, right))
        else:
            tests[-1:] = [_with_line(test, right) for test in tests[-1:]]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    closed = bool(lines) and _BORDER.fullmatch(lines[-1]) is not None and len(lines) > 3
    ids = metadata.get("GPU Device IDs Detected", "")
    return DcgmDiag(
        version=metadata.get("DCGM Version") or _SHOWN,
        driver=metadata.get("Driver Version Detected") or _SHOWN,
        tests=tuple(tests),
        gpus=tuple(enumerate(re.findall(r"[0-9a-fA-F]{4}", ids))),
        cut="" if closed else CUT_TABLE,
    )


def _table_rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Category, left and right cell of each row."""
    category = ""
    for line in map(str.strip, text.splitlines()):
        section = _SECTION.fullmatch(line) if len(line) < 500 else None
        if section:
            category = section["name"]
        elif line.startswith("|") and line.endswith("|") and line.count("|") >= 3:
            left, _, right = line[1:-1].partition("|")
            yield category, left.strip(), right.strip()


def _table_test(category: str, name: str, right: str) -> DcgmTest:
    """Version 3 says on which GPUs behind the word ("Fail - GPU: 0, 2"); version 4 in rows below."""
    found = _RESULT.fullmatch(right)
    status = _status(found["status"]) if found else Status.UNKNOWN
    numbers = re.findall(r"\d{1,9}", (found["where"] or "") if found else "")
    results = tuple(DcgmResult("GPU", int(number), status) for number in numbers)
    return DcgmTest(category, name, results, summary=status)


def _with_line(test: DcgmTest, right: str) -> DcgmTest:
    """A row below a test: an entity's own result, or a message that goes on."""
    found = _ENTITY.fullmatch(right)
    word = _RESULT.fullmatch(found["rest"]) if found else None
    if found is None or word is None:
        return _with_message(test, "", right)
    result = DcgmResult(found["group"], int(found["number"]), _status(word["status"]))
    return replace(test, results=(*test.results, result))


def _with_message(test: DcgmTest, left: str, right: str) -> DcgmTest:
    if not left and test.warnings:
        last = test.warnings[-1]
        return replace(test, warnings=(*test.warnings[:-1], replace(last, text=f"{last.text} {right}".strip())))
    return replace(test, warnings=(*test.warnings, DcgmMessage(f"{left}: {right}" if left else right)))


def parse_health(text: str) -> DcgmHealth:
    """``dcgmi health -c -j``. Raises DcgmError."""
    whole, cut = _load(text)
    body = _dict(whole.get("body"))
    if "Health Monitor Report" not in text and "Overall Health" not in text:
        raise DcgmError("this JSON holds no report of dcgmi health")
    overall = _text(_dict(body.get("Overall Health")).get("value"), "")
    rest = {key: value for key, value in body.items() if key != "Overall Health"}
    troubles = tuple(DcgmTrouble(place, word) for place, word in _words(rest, ()) if word.lower() != "healthy")
    return DcgmHealth(overall or _SHOWN, troubles, cut)


def _words(node: dict[str, Any], place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every ``value`` of the tree with its place; ``children`` are a layer of the format and no place."""
    for key, child in node.items():
        here = place if key == "children" else (*place, key)
        if isinstance(child, dict):
            if isinstance(child.get("value"), str):
                yield here, child["value"]
            yield from _words({name: each for name, each in child.items() if name != "value"}, here)
        elif isinstance(child, str):
            yield here, child


_LINKS = re.compile(r"^[ \t]*gpuId (\d{1,9}):[ \t]*\n((?:[ \t]+[UDX_](?: [UDX_])*[ \t]*\n?)+)", re.MULTILINE)
_LINK_WORDS: dict[str, bool | Absent] = {
    "U": True,
    "D": False,
    "X": Absent(AbsenceKind.NOT_TESTED, "NVLink: switched off by a setting"),
    "_": Absent(AbsenceKind.NOT_SUPPORTED, "NVLink: this GPU does not have the link"),
}


def parse_nvlink(text: str) -> MachineFacts:
    """``dcgmi nvlink --link-status``: each link up, down, switched off or not there, by DCGM's number.

    Raises DcgmError.
    """
    gpus = []
    for found in _LINKS.finditer(text):
        letters = found[2].split()
        links = tuple(LinkFacts(link=number, active=_LINK_WORDS[letter]) for number, letter in enumerate(letters))
        active = Quantity(letters.count("U"), Unit.COUNT)
        gpus.append(GpuFacts(index=Quantity(int(found[1]), Unit.COUNT), nvlink=NvlinkFacts(active, links)))
    if not gpus:
        raise DcgmError("this text lists no GPU of dcgmi nvlink")
    return MachineFacts(gpus=tuple(gpus), partial="" if "Key:" in text else "the list of links ends without its legend")


def parse_dmon(text: str) -> tuple[DcgmSample, ...]:
    """Lines of ``dcgmi dmon``: entity and the columns its head names. Raises DcgmError."""
    columns: list[str] = []
    samples = []
    for line in text.splitlines():
        if line.startswith("#Entity"):
            columns = line.split()[1:]
        found = re.match(r"\s*([A-Za-z][\w-]* \d{1,9})\s+(\S.*)", line)
        if found and columns:
            samples.append(DcgmSample(found[1], tuple(zip(columns, found[2].split(), strict=False))))
    if not samples:
        raise DcgmError("this text holds no sample of dcgmi dmon")
    return tuple(samples)


def _load(text: str) -> tuple[dict[str, Any], str]:
    """The first JSON object of the text, and why it is not whole, or empty."""
    if len(text) > LARGEST:
        raise DcgmError("this text is larger than any output of dcgmi")
    start = text.find("{")
    if start < 0:
        raise DcgmError("this text holds no JSON of dcgmi")
    try:
        whole, cut = loads(text[start:])
    except ValueError as error:
        raise DcgmError(f"this JSON of dcgmi cannot be read: {error}") from None
    return _dict(whole), cut


def _messages(entries: Any) -> tuple[DcgmMessage, ...]:
    """Warnings as objects with numbers, as plain text, or as one text."""
    found = []
    for entry in _list(entries):
        if isinstance(entry, dict):
            numbers = [entry.get(f"error_{name}") for name in ("id", "category", "severity")]
            shown = [_SHOWN if number is None or not _is_int(number) else int(number) for number in numbers]
            found.append(DcgmMessage(_text(entry.get("warning"), ""), *shown))
        elif isinstance(entry, str):
            found.append(DcgmMessage(entry))
    return tuple(found)


_STATUSES = {"pass": Status.PASS, "fail": Status.FAIL, "warn": Status.WARN, "warning": Status.WARN, "skip": Status.SKIP}


def _status(word: Any) -> Status:
    plain = word.strip().lower() if isinstance(word, str) else ""
    return Status.SKIP if plain in ("not run", "notrun", "skipped") else _STATUSES.get(plain, Status.UNKNOWN)


def _plain(name: str) -> str:
    return re.sub(r"[\s_/]+", "_", name.strip().lower())


def _word(entries: dict[str, Any], key: str) -> str | Absent:
    return _text(entries.get(key), "") or _SHOWN
