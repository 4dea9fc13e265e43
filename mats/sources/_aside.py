"""Several slow questions at once, each given up when its time is over: one that hangs does not hold the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import TypeVar

from mats.model import AbsenceKind, Absent

T = TypeVar("T")
THREAD = "mats source"
"""How the threads are called; one that still hangs at the end of the program is not waited for."""


def side_by_side(
    questions: Mapping[str, Callable[[], T]], seconds: float, clock: Callable[[], float] = time.monotonic
) -> dict[str, T | Absent]:
    """The answer to each question by its name, or absent: it was not ready in ``seconds``, or it failed."""
    answers: SimpleQueue[tuple[str, T | Absent]] = SimpleQueue()
    for name, ask in questions.items():
        threading.Thread(target=_ask, args=(name, ask, answers), name=f"{THREAD} {name}", daemon=True).start()
    late = Absent(AbsenceKind.TIMED_OUT, f"it did not answer within {seconds:.1f} s")
    found: dict[str, T | Absent] = {name: Absent(late.kind, f"{name}: {late.reason}") for name in questions}
    deadline = clock() + seconds
    for _ in questions:
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - clock()))
        except Empty:
            break
        found[name] = answer
    return found


def _ask(name: str, ask: Callable[[], T], answers: SimpleQueue[tuple[str, T | Absent]]) -> None:
    try:
        answers.put((name, ask()))
    except Exception as error:  # whatever it is, the other questions are not lost for it
        words = " ".join(str(error).split())[:200] or type(error).__name__
        answers.put((name, Absent(AbsenceKind.UNREADABLE, f"{name}: {words}")))
