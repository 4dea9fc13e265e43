"""JSON that may stop early: what is complete of it is kept, and that it was cut is said."""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_AT_MOST = 200
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<open>"(?:[^"\\]|\\.)*\\?\Z)|[\[\]{},:]|(?P<word>[^\s\[\]{},:"]+)', re.DOTALL
)


def loads(text: str) -> tuple[Any, str]:
    """The first JSON value of ``text``, and why it is not whole or empty; what follows the value is left alone.

    A text that ends within the value gives what was complete by then. Raises ValueError for anything else.
    """
    if _depth(text) > DEPTH_AT_MOST:
        raise ValueError("it is nested more deeply than any tool writes it")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
        return value, ""
    except json.JSONDecodeError as error:
        closed = _closed(text)
        if closed is None:
            raise ValueError(f"line {error.lineno}: {error.msg}") from None
    try:
        return json.loads(closed), "the JSON ends before it is complete"
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from None


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        deepest = max(deepest, depth)
    return deepest


def _closed(text: str) -> str | None:
    """The text up to its last complete value with every bracket closed; None when it is not merely cut."""
    stack: list[str] = []
    keep, closers, before = 0, "", ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token["open"] or (token["word"] and token.end() == len(text)):
            break  # a text or a number that ends with the file may have gone on
        if word in ("{", "["):
            stack.append("}" if word == "{" else "]")
        elif word in ("}", "]") and (not stack or stack.pop() != word):
            return None
        if not stack:
            return None
        is_key = stack[-1] == "}" and before in ("{", ",") and token["string"] is not None
        if word not in (",", ":") and not is_key:
            keep, closers = token.end(), "".join(reversed(stack))
        before = word
    return text[:keep] + closers if keep else None


def text_of(value: Any, missing: str) -> str:
    """A text as it is, another value as it is printed, ``missing`` for null."""
    return value if isinstance(value, str) else missing if value is None else str(value)


def dict_of(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """An array; a single object or text as an array of one; else an empty one."""
    return value if isinstance(value, list) else [value] if isinstance(value, str | dict) else []


def is_int(value: Any) -> bool:
    """A whole number, which true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)
