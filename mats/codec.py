"""A run as JSON text and back, without loss.

The layout follows the dataclasses of :mod:`mats.model` field by field: a quantity is ``{"value", "unit"}``, an
absent value ``{"kind", "reason"}``, an enum its value, a tuple a list. One writer and one reader are derived from
the annotations, so that a field added to the model is saved without a line here; a field that a file lacks takes
its default and one that is not known is passed over, as ``SCHEMA_VERSION`` rises only when a field changes its
meaning or goes.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import json
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TextIO, TypeVar

from mats.model import SCHEMA_VERSION, Run

T = TypeVar("T")
_Reader = Callable[[object], Any]

_LINE = 120
"""A list or object that fits on a line of this length stays on one line, so that a table's row is a line."""

_LONG = ("rows", "samples")

_HEAD = 4096
_LOOKED_AT = 64 << 20
"""Characters in which a run shows what it is."""

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


class SavedRunError(ValueError):
    """A text is not a saved run that this version can read; one sentence that says why."""


def run_to_json(run: Run) -> str:
    """JSON text of a run, a table's row on a line of its own, ending in a newline.

    The text is ASCII: file names that are not valid Unicode survive, too. Raises ValueError for a sample or a
    cell that is NaN or infinite, since JSON knows no such number and a measurement is either finite or absent.
    """
    return _laid_out(to_data(run), "") + "\n"


def looks_like_run(stream: TextIO) -> bool:
    """Whether a text is meant to be a saved run, also one that is cut off, damaged, or laid out anew by others."""
    head = stream.read(_HEAD)
    if not head.lstrip("\ufeff \t\r\n").startswith("{") or '"mats_capture"' in head:  # a capture tells of facts
        return False
    text = head + stream.read(_LOOKED_AT)
    return all(f'"{name}"' in text for name in ("schema_version", "tool"))


def run_from_json(text: str) -> Run:
    """The run that was saved as ``text``; raises :class:`SavedRunError` and nothing else."""
    try:
        data = json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse_constant)
    except SavedRunError:
        raise
    except json.JSONDecodeError as error:
        if not text.strip():
            raise SavedRunError("the file is empty.") from None
        if text.lstrip("\ufeff \t\r\n").startswith("{") and (
            error.pos >= len(text.rstrip()) or not text.rstrip().endswith("}")
        ):
            raise SavedRunError(f"the file is cut off: its JSON ends unfinished in line {error.lineno}.") from None
        raise SavedRunError(f"this is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise SavedRunError("this is not a run saved by mats: its JSON is nested too deeply.") from None
    except ValueError:  # Python refuses to convert integers of thousands of digits
        raise SavedRunError("this is not a run saved by mats: it holds a number of thousands of digits.") from None
    _check_version(data)
    try:
        return from_data(Run, data)
    except RecursionError:
        raise SavedRunError("this is not a run saved by mats: its JSON is nested too deeply.") from None


def to_data(value: object) -> Any:
    """Dictionaries, lists and plain values of any value of the model; what :func:`from_data` reads."""
    kind: Any = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        assert isinstance(value, float)
        if not math.isfinite(value):
            raise ValueError(f"{value!r} cannot be saved: a number is finite or absent with a reason")
        return value
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str | int | float):  # of a library's own type, such as NumPy's float64
        return to_data(_plain(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_data(getattr(value, name)) for name in _field_names(kind)}
    raise TypeError(f"{kind.__name__} is not part of a run")


def _plain(value: str | int | float) -> str | int | float:
    return str(value) if isinstance(value, str) else int(value) if isinstance(value, int) else float(value)


def from_data(kind: type[T], data: object, what: str = "saved run") -> T:
    """A value of the model or of the facts, e.g. ``from_data(Result, data)``, from what :func:`to_data` gave.

    ``what`` it is a part of, for the sentence where it is damaged. Raises :class:`SavedRunError`.
    """
    annotation: Any = kind
    try:
        value = _reader(annotation)(data)
    except _Damage as damage:
        where = "".join(reversed(damage.path)).removeprefix(".") or "its top level"
        raise SavedRunError(f"this {what} is damaged: {where} {damage.problem}.") from None
    assert isinstance(value, kind)
    return value


class _Damage(Exception):
    """What is wrong within the data; ``path`` grows outwards while it is raised."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []


def _check_version(data: object) -> None:
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, bool) or not isinstance(version, int):
        raise SavedRunError("this is JSON, but not a run saved by mats: it has no schema_version.")
    if version > SCHEMA_VERSION:
        raise SavedRunError(
            f"this run was saved by a newer mats (layout {_shown(version)}, this one reads up to {SCHEMA_VERSION}): "
            "update mats to read it."
        )
    if version < 1:
        raise SavedRunError(f"this is not a run saved by mats: schema_version is {_shown(version)}.")


def _refuse_constant(name: str) -> NoReturn:
    raise SavedRunError(f"the file holds {name}, which is not JSON: a number is finite or absent with a reason.")


def _laid_out(data: Any, margin: str) -> str:
    """``data`` as JSON, broken over several lines only where it does not fit on one."""
    inner = margin + " "
    if isinstance(data, dict):
        parts = ((key, _rows(item, inner) if key in _LONG else _laid_out(item, inner)) for key, item in data.items())
        return _bracketed((f"{json.dumps(key)}: {text}" for key, text in parts), "{}", margin)
    if isinstance(data, list):
        return _bracketed((_laid_out(item, inner) for item in data), "[]", margin)
    return json.dumps(data)


def _rows(items: Any, margin: str) -> str:
    """A list with each item on one line, however long; the bulk of a file is written by the json module's C code."""
    if not any(isinstance(item, list | dict) for item in items):
        return json.dumps(items)
    return _bracketed((json.dumps(item) for item in items), "[]", margin)


def _bracketed(items: Iterable[str], brackets: str, margin: str) -> str:
    texts = list(items)
    length = len(margin) + sum(len(text) + 2 for text in texts)
    if length <= _LINE and not any("\n" in text for text in texts):
        return brackets[0] + ", ".join(texts) + brackets[1]
    inner = "\n" + margin + " "
    return brackets[0] + inner + ("," + inner).join(texts) + "\n" + margin + brackets[1]


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _shown(data: object) -> str:
    """``data`` short enough for a sentence."""
    try:
        text = json.dumps(data)
    except ValueError:  # an integer of more digits than Python prints
        return "a very long number"
    return text if len(text) <= 40 else text[:37] + "..."


def _kind_of(data: object) -> str:
    return _NAMES.get(type(data), "null")


@functools.cache
def _reader(annotation: Any) -> _Reader:
    """The function that reads what is annotated so; the annotations of the model are a small closed set."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(typing.get_args(annotation))
    if origin is tuple:
        return _tuple_reader(typing.get_args(annotation))
    if isinstance(annotation, type):
        if dataclasses.is_dataclass(annotation):
            return _dataclass_reader(annotation)
        if issubclass(annotation, enum.Enum):
            return _enum_reader(annotation)
        if annotation in (str, bool, int, float):
            return _plain_reader(annotation)
    raise TypeError(f"the saved run has no layout for {annotation!r}")


def _plain_reader(kind: type) -> _Reader:
    accepted = (int, float) if kind is float else (kind,)

    def read(data: object) -> object:
        if type(data) not in accepted:
            raise _Damage(f"is {_kind_of(data)} where {_NAMES[kind]} belongs")
        return _finite(data) if isinstance(data, float) else data

    return read


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise _Damage("is too large a number")
    return number


def _enum_reader(kind: type[enum.Enum]) -> _Reader:
    members = {member.value: member for member in kind}

    def read(data: object) -> object:
        member = members.get(data) if isinstance(data, str) else None
        if member is None:
            raise _Damage(f"is {_shown(data)}, which is none of {', '.join(members)}")
        return member

    return read


def _tuple_reader(arguments: tuple[Any, ...]) -> _Reader:
    """Reads a list of any length (``tuple[X, ...]``) or one with a reader for each entry."""
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _reader(arguments[0])
        return lambda data: _items(data, itertools.repeat(item))
    readers = tuple(_reader(argument) for argument in arguments)

    def read(data: object) -> object:
        if isinstance(data, list) and len(data) != len(readers):
            raise _Damage(f"has {len(data)} entries where {len(readers)} belong")
        return _items(data, readers)

    return read


def _items(data: object, readers: Iterable[_Reader]) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _Damage(f"is {_kind_of(data)} where a list belongs")
    values: list[Any] = []
    try:
        for item, reader in zip(data, readers, strict=False):
            values.append(reader(item))  # their count is the index of what is wrong
    except _Damage as damage:
        damage.path.append(f"[{len(values)}]")
        raise
    return tuple(values)


def _union_reader(arguments: tuple[Any, ...]) -> _Reader:
    """Objects are told apart by their required fields, other values by their type; None stands for null."""
    objects: list[Any] = [argument for argument in arguments if dataclasses.is_dataclass(argument)]
    enums: list[Any] = [
        argument for argument in arguments if isinstance(argument, type) and issubclass(argument, enum.Enum)
    ]
    plain = frozenset(argument for argument in arguments if argument in (str, bool, int, float))
    lists = [argument for argument in arguments if typing.get_origin(argument) is tuple]
    kinds = [(_required_names(kind), _reader(kind)) for kind in objects]
    of_enum = _reader(enums[0]) if enums else None
    of_list = _reader(lists[0]) if lists else None
    choices = [_NAMES[kind] for kind in arguments if kind in plain] + ["a list"] * bool(lists)
    choices += ["{" + ", ".join(_field_names(kind)) + "}" for kind in objects]

    def read(data: object) -> object:
        if type(data) in plain:
            return _finite(data) if isinstance(data, float) else data
        if isinstance(data, dict):
            for required, reader in kinds:
                if required <= data.keys():
                    return reader(data)
        elif of_list and isinstance(data, list):
            return of_list(data)
        elif data is None and type(None) in arguments:
            return None
        elif of_enum and isinstance(data, str):
            return of_enum(data)
        raise _Damage(f"is {_shown(data)} where {' or '.join(choices) or 'another value'} belongs")

    return read


def _required_names(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind) if not _has_default(field))


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _dataclass_reader(kind: Any) -> _Reader:
    hints = typing.get_type_hints(kind)
    readers: Mapping[str, _Reader] = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}
    required = _required_names(kind)

    def read(data: object) -> object:
        if not isinstance(data, dict):
            raise _Damage(f"is {_kind_of(data)} where an object belongs")
        missing = sorted(required - data.keys())
        if missing:
            raise _Damage(f"lacks {', '.join(missing)}")
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, reader in readers.items():
                if name in data:
                    values[name] = reader(data[name])
        except _Damage as damage:
            damage.path.append(f".{name}")
            raise
        try:
            return kind(**values)
        except (TypeError, ValueError, OverflowError) as error:
            raise _Damage(f"does not hold together ({error})") from None

    return read
