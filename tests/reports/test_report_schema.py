"""The JSON schema: fresh, and true of every saved run."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from mats.codec import run_to_json
from mats.reports._schema import FILE_NAME, run_schema, schema_text

from .example_runs import EXAMPLES, failing_sim

CHECKOUT = Path(__file__).resolve().parents[2] / "reports" / FILE_NAME


def committed() -> dict[str, Any]:
    text = resources.files("mats.reports").joinpath(FILE_NAME).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def test_the_committed_schema_is_fresh() -> None:
    if os.environ.get("MATS_REWRITE_GOLDEN"):
        CHECKOUT.write_text(schema_text(), encoding="utf-8")

    assert CHECKOUT.read_text(encoding="utf-8") == schema_text(), (
        f"{FILE_NAME} is stale: python -m mats.reports._schema reports/{FILE_NAME}"
    )


def test_the_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(run_schema())


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_saved_run_is_valid(example: str) -> None:
    text = run_to_json(EXAMPLES[example]())

    Draft202012Validator(committed()).validate(json.loads(text))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("duration",), 3.5),
        (("duration", "unit"), "min"),
        (("results", 0, "verdict"), "healthy"),
        (("results", 0, "observation", "measurements", 0, "reading"), None),
        (("results", 0, "observation", "tables", 0, "rows", 0, 0), None),
        (("targets", 0, "identity", 0), ["uuid"]),
        (("targets", 0, "simulated"), "yes"),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses_too(path: tuple[Any, ...], value: object) -> None:
    data: Any = json.loads(run_to_json(failing_sim()))
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value

    with pytest.raises(ValidationError):
        Draft202012Validator(committed()).validate(data)
