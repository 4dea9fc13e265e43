"""Regular expressions that are compiled when they are first used: most of a log's patterns meet no line of theirs."""

from __future__ import annotations

import re
from collections.abc import Callable


class LatePattern:
    """In the place of :class:`re.Pattern`; what was compiled is kept in the instance: each later use is direct."""

    search: Callable[[str], re.Match[str] | None]
    match: Callable[[str], re.Match[str] | None]
    fullmatch: Callable[[str], re.Match[str] | None]
    sub: Callable[[str, str], str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> object:
        if name not in LatePattern.__annotations__:
            raise AttributeError(name)
        compiled = re.compile(self._pattern, self._flags)
        for method in LatePattern.__annotations__:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
