"""The JSON schema of a saved run, derived from the dataclasses, so that it cannot disagree with them.

``python -m mats.reports._schema FILE`` writes it; the copy beside this module is what other tools validate against,
and a test fails when it is stale. Objects may hold fields that the schema does not name, since a field may be added
without a new ``schema_version``.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

from mats.model import SCHEMA_VERSION, Run

FILE_NAME = "run.schema.json"

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}


def run_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12) of what :func:`mats.codec.run_to_json` writes."""
    definitions: dict[str, Any] = {}
    _schema_of(Run, definitions)
    run = definitions.pop("Run")
    run["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of mats",
        **run,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    return json.dumps(run_schema(), indent=2) + "\n"


def _schema_of(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, definitions)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema_of(arguments[0], definitions)}
        items = [_schema_of(argument, definitions) for argument in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if annotation is type(None):
        return {"type": "null"}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if not isinstance(annotation, type):
        raise TypeError(f"the schema has no form for {annotation!r}")
    if annotation.__name__ not in definitions:
        definitions[annotation.__name__] = {}
        definitions[annotation.__name__] = _definition(annotation, definitions)
    return {"$ref": f"#/$defs/{annotation.__name__}"}


def _union(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    """Plain types go into one list; a whole number is a number, too."""
    plain = [_PLAIN[argument] for argument in arguments if argument in _PLAIN]
    if "number" in plain:
        plain = [name for name in plain if name != "integer"]
    choices = [_schema_of(argument, definitions) for argument in arguments if argument not in _PLAIN]
    if not choices:
        return {"type": plain if len(plain) > 1 else plain[0]}
    return {"anyOf": [*([{"type": plain if len(plain) > 1 else plain[0]}] if plain else []), *choices]}


def _definition(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """An enum or a dataclass, with the first paragraph of its docstring."""
    described = _description(kind)
    if issubclass(kind, enum.Enum):
        return {**described, "enum": [member.value for member in kind]}
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return {
        **described,
        "type": "object",
        "properties": {field.name: _schema_of(hints[field.name], definitions) for field in fields},
        "required": required,
    }


def _description(kind: type) -> dict[str, str]:
    """The docstring's first paragraph; those that Python makes up for dataclasses and enums say nothing."""
    own = vars(kind).get("__doc__")
    if not own or own.startswith(f"{kind.__name__}("):
        return {}
    return {"description": " ".join(inspect.cleandoc(own).split("\n\n")[0].split())}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
