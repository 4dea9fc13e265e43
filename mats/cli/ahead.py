"""What a passive probe looks at, opened while the rest of the program is still being loaded.

The driver is asked in a process of its own, which takes as long as the loading does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from mats.cli.options import Values, evidence_files
from mats.probe import Probe, UsageError
from mats.target import ALL, Target, gpus_together, parse_gpu_ids, parse_targets

if TYPE_CHECKING:
    from mats.cli.world import World
    from mats.source import Source


@contextmanager
def opened_ahead(probe: Probe, given: Values, world: World) -> Iterator[World]:
    """The world whose source is being opened already, where it is clear which one; otherwise the world as it is."""
    target = _target(probe, given)
    if target is None:
        yield world
        return
    ahead = Ahead(target, world)
    try:
        yield replace(world, open_source=ahead.open_source)
    finally:
        ahead.close()


class Ahead:
    """A source that is opened in a thread; whoever opens its target first gets it, or the error that it ended in."""

    def __init__(self, target: Target, world: World) -> None:
        self._target, self._open = target, world.open_source
        self._found: Source | None = None
        self._failed: BaseException | None = None
        self._taken = self._unwanted = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="mats source ahead", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            found = self._open(self._target, None)
        except BaseException as error:  # raised where it is waited for
            self._failed = error
            return
        with self._lock:
            self._found, unwanted = found, self._unwanted
        if unwanted:
            found.close()

    def open_source(self, target: Target, seconds: float | None) -> Source:
        """As the world's own; waits for what was begun."""
        with self._lock:
            mine = target == self._target and seconds is None and not self._taken
            self._taken = self._taken or mine
        if not mine:
            return self._open(target, seconds)
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        assert self._found is not None
        return self._found

    def close(self) -> None:
        """Closes what nobody took; what is still being opened then is closed by its thread."""
        with self._lock:
            self._unwanted = not self._taken
            found = self._found if self._unwanted else None
        if found is not None:
            found.close()


def _target(probe: Probe, given: Values) -> Target | None:
    """The one live or simulated machine that is named; none where there are files, several, a mistake or a limit."""
    named, gpus = given.get("target") or [], given.get("gpu-id") or []
    if not probe.passive or given.get("timeout") is not None or evidence_files(given, (probe,)) or (named and gpus):
        return None
    try:
        targets = parse_gpu_ids(gpus) if gpus else parse_targets(named) if named else (Target("cuda", ALL),)
    except UsageError:  # it is said where the targets are chosen
        return None
    if all(target.kind == "cuda" for target in targets):
        return gpus_together(targets)
    return targets[0] if len(targets) == 1 and targets[0].kind == "sim" else None
