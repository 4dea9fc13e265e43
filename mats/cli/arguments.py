"""The older style of the command line, brought into today's before anything else reads it.

``mats --health --gpu-id 0`` is ``mats health --gpu-id 0``; ``mats mem-pattern`` is the command it is an alias of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mats.probe import UsageError

NAMED_BY_USERS = ("health", "stress", "mem-pattern", "latency-test", "flash-test", "all")
"""Commands that exist as flags in the older style, also before their probe does."""
HELP = ("--help", "-h")


def modern(argv: Sequence[str], aliases: Mapping[str, str], commands: Collection[str]) -> list[str]:
    """``argv`` with its command first, under its present name. Raises UsageError.

    ``aliases``: present names by older ones. ``commands``: names of commands that exist.
    """
    words = list(argv)
    if words and words[0].startswith("-") and words[0] not in HELP:
        flags = {f"--{name}": name for name in (*commands, *aliases, *NAMED_BY_USERS)}
        found = [word for word in words if word in flags]
        if len(set(found)) > 1:
            raise UsageError(f"{' and '.join(dict.fromkeys(found))} cannot be run together: name one, or use mats all")
        if not found:
            raise UsageError(f"{words[0]} stands before a command: write mats COMMAND {words[0]} ...")
        words = [flags[found[0]], *(word for word in words if word not in flags)]
    if words and words[0] in aliases:
        words[0] = aliases[words[0]]
    if words and not words[0].startswith("-") and words[0] not in commands:
        raise UsageError(f"there is no command {words[0]!r}; there are {', '.join(commands)}")
    return words
