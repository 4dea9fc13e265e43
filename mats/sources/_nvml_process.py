"""Asks NVML through a child process, each call under a time limit, so that a hanging driver cannot hang the tool.

A child whose call does not return is killed and not waited for, since a process within a driver may not end; another
one goes on with the rest. What hung is not asked again, nor a GPU on which two calls have hung.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from mats.facts import CallFacts
from mats.model import AbsenceKind, Absent
from mats.sources import _nvml_child as child
from mats.sources._nvml_answers import failure
from mats.sources._nvml_library import Library

Subject = int | tuple[int, int] | None
Question = tuple[Subject, str, tuple[Any, ...]]
"""A GPU, a MIG device of it (GPU, place) or None for the system; the call; what it is given beside the handle."""

CALL_SECONDS = 5.0
"""For one call. A healthy one takes microseconds to milliseconds; DCGM#313 tells of one that blocked for 45 s."""
START_SECONDS = 20.0
"""For NVML's start and the first sight of a GPU: without persistence mode the driver starts it then, in seconds."""
SLOW_SECONDS = 1.0
"""A call that takes longer is named."""
_HANGS_OF_A_GPU = 2
_GPUS_OF_A_CALL = 2
_SETTLE_SECONDS = 0.1
_STARTS = 12
"""Children at most: a driver in which everything hangs is not tried for ever."""
_READY: Question = (None, "the start of the process", ())
_INIT: Question = (None, "nvmlInit", ())
_WITHOUT_DRIVER = ("nvmlSystemGetNVMLVersion",)
_FOLDER = str(Path(child.__file__).resolve().parent)
_PROGRAM = f"import sys; sys.path.append({_FOLDER!r}); import _nvml_child; sys.path.pop(); _nvml_child.main()"
"""The child is imported and not run as a file, so that its compiled form is used."""
_ENDED = object()


class Child:
    """One child process, with a thread that takes its answers and, when it has ended, its exit status."""

    def __init__(self, package: str, library: Library | None) -> None:
        environment = {**os.environ, **(library.environment if library is not None else {})}
        # A session of its own: Ctrl-C is for the tool, which then closes this process's stdin.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._output = self._process.stdin, self._process.stdout
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._take, name="NVML answers", daemon=True)
        self._thread.start()
        hidden = library.hidden if library is not None else ()
        self.send((package, str(library.path) if library is not None else "", hidden))

    def _take(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._answers.put(child.read_frame(self._output.fileno()))
        self._process.wait()
        self._output.close()
        self._answers.put(_ENDED)

    def send(self, value: Any) -> None:
        """A child that has ended takes nothing; that shows when its answer is waited for."""
        with contextlib.suppress(OSError):
            child.write_frame(self._requests.fileno(), value)

    def receive(self, seconds: float) -> Any:
        """The next answer. Raises TimeoutError, and EOFError when the child has ended."""
        try:
            answer = self._answers.get(timeout=max(0.0, seconds))
        except Empty:
            raise TimeoutError from None
        if answer is _ENDED:
            raise EOFError
        return answer

    def end(self) -> None:
        """Ends it without waiting: it may be held within the driver. Its thread takes its status when it has ended."""
        with contextlib.suppress(OSError):
            self._requests.close()
        self._process.kill()

    def settle(self) -> None:
        """Leaves a child that can end the moment in which it does, so that nothing of it is left behind."""
        self._thread.join(_SETTLE_SECONDS)

    @property
    def number(self) -> int:
        return self._process.pid

    def how_it_ended(self) -> str:
        code = self._process.returncode
        return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"


class Nvml:
    """A conversation with NVML. Answers are kept: what was asked once is not asked again until :meth:`forget`."""

    def __init__(
        self,
        library: Library | None = None,
        *,
        timeout: float,
        call_timeout: float = CALL_SECONDS,
        start_timeout: float = START_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library, self._clock = library, clock
        self._call_timeout, self._start_timeout, self._timeout = call_timeout, start_timeout, timeout
        self._deadline = clock() + timeout
        self._child: Child | None = None
        self._children = 0
        self._known: set[int] = set()  # GPUs whose handle the present child has
        self._waiting: deque[Question] = deque()  # in the order in which the child answers them
        self._answers: dict[Question, tuple[int, Any] | Absent] = {}
        self._hung: Counter[tuple[str, Any]] = Counter()
        self._refused: Absent | None = None
        self.slow_calls: list[CallFacts] = []
        self.asked: list[Question] = []

    def ask(self, subject: Subject, what: str, call: str, *arguments: Any) -> Any | Absent:
        """The answer as plain Python, or absent with ``what`` and why."""
        question = (subject, call, arguments)
        self.asked.append(question)
        if question not in self._answers:
            if question not in self._waiting:
                self.send([question])
            while question not in self._answers:
                self._step()
        answer = self._answers[question]
        if isinstance(answer, Absent):
            return Absent(answer.kind, f"{what}: {answer.reason}")
        code, value = answer
        return value if code == 0 else failure(what, code, str(value))

    def send(self, questions: Iterable[Question]) -> None:
        """Has questions answered while the caller does something else; :meth:`ask` takes the answers."""
        new = [each for each in dict.fromkeys(questions) if each not in self._answers and each not in self._waiting]
        if self._refused is not None:
            self._answers.update(dict.fromkeys(new, self._refused))
        elif self._child is None:
            self._waiting.extend(new)
            self._start()
        else:
            self._pass_on(new)

    def forget(self, timeout: float) -> None:
        """Answers are of the past: the next are new, and have this time altogether."""
        self._answers.clear()
        self._refused, self._children = None, 0
        self.slow_calls.clear()
        self.asked.clear()
        self._deadline, self._timeout = self._clock() + timeout, timeout

    @property
    def refused(self) -> Absent | None:
        """Why nothing is answered any more: NVML did not start, or the time is over."""
        return self._refused

    @property
    def child_number(self) -> int | None:
        """Process number of the child, where there is one."""
        return self._child.number if self._child is not None else None

    def close(self) -> None:
        """Ends the child. Safe to call twice."""
        if self._child is not None:
            self._child.end()
            self._child.settle()
            self._child = None
        self._waiting.clear()

    def _start(self) -> None:
        """A new child, which is given what still waits for an answer."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._known.clear()
        if self._children >= _STARTS:
            self._refuse(Absent(AbsenceKind.TIMED_OUT, f"given up after {_STARTS} calls that did not return"), waiting)
            return
        found = _package()
        if isinstance(found, Absent):
            self._refuse(found, waiting)
            return
        try:
            self._child = Child(found, self._library)
        except OSError as error:
            self._refuse(Absent(AbsenceKind.UNREADABLE, f"the process that asks NVML did not start: {error}"), waiting)
            return
        self._children += 1
        self._answers.pop(_INIT, None)
        self._waiting.append(_READY)
        self._pass_on([_INIT, *waiting])

    def _pass_on(self, questions: list[Question]) -> None:
        """To the child, each GPU's first question after that for its handle; what hung is not asked again."""
        batch: list[Question] = []
        for question in questions:
            skipped = self._skipped(question)
            if skipped is not None:
                self._answers[question] = skipped
                continue
            gpu = _gpu(question[0])
            if gpu is not None and gpu not in self._known:
                self._known.add(gpu)
                handle: Question = (gpu, child.HANDLE, ())
                self._answers.pop(handle, None)
                if handle != question:
                    batch.append(handle)
            batch.append(question)
        if batch and self._child is not None:
            self._waiting.extend(batch)
            self._child.send(batch)

    def _step(self) -> None:
        """Takes one answer, or acts when it does not come."""
        if self._child is None:
            raise AssertionError("nobody is asked")
        question = self._waiting[0]
        first = question in (_READY, _INIT) or question[1] == child.HANDLE
        limit = self._start_timeout if first else self._call_timeout
        started = self._clock()
        allowed = self._left(limit)
        try:
            answer = self._child.receive(allowed)
        except (TimeoutError, EOFError) as error:
            self._lost(question, error, self._clock() - started, out_of_time=allowed < limit)
            return
        self._waiting.popleft()
        if question == _READY:
            if answer:
                why = Absent(AbsenceKind.MISSING_SYMBOL, f"nvidia-ml-py cannot be used: {answer}")
                self._refuse(why, list(self._waiting))
            return
        seconds, code, value = answer
        self._answers[question] = (code, value)
        if seconds > SLOW_SECONDS:
            self.slow_calls.append(CallFacts(question[1], _label(question[0]), seconds, answered=True))
        if question == _INIT and code != 0:
            self._not_started(self._child, failure("NVML", code, str(value)))

    def _not_started(self, asked: Child, why: Absent) -> None:
        """Everything else is refused for this reason, but the library tells its own version without a driver."""
        while any(call in _WITHOUT_DRIVER for _, call, _ in self._waiting):
            try:
                _, code, value = asked.receive(self._left(self._call_timeout))
            except (TimeoutError, EOFError):
                break
            question = self._waiting.popleft()
            self._answers[question] = (code, value) if question[1] in _WITHOUT_DRIVER and code == 0 else why
        self._refuse(why, list(self._waiting))

    def _lost(self, question: Question, error: Exception, seconds: float, *, out_of_time: bool) -> None:
        """The child does not answer any more: another one goes on, or nobody when the time is over."""
        subject, call, _arguments = question
        broken = self._child
        assert broken is not None
        broken.end()
        self._child = None
        if isinstance(error, EOFError) and question not in (_READY, _INIT) and not self._hung[("died", question)]:
            self._hung[("died", question)] += 1  # it need not be the call's fault: it is asked once more
            self._start()
            return
        if isinstance(error, EOFError):
            why = Absent(AbsenceKind.UNREADABLE, f"the process that asked {call} {broken.how_it_ended()}")
        else:
            why = Absent(AbsenceKind.TIMED_OUT, f"{call} did not return within {seconds:.1f} s")
        self.slow_calls.append(CallFacts(call, _label(subject), seconds, answered=False))
        self._answers[question] = why
        self._waiting.popleft()
        waiting = list(self._waiting)
        if question in (_READY, _INIT):
            self._refuse(why, waiting)
        elif out_of_time:
            over = f"the {self._timeout:g} s for asking NVML were over, with {call} still unanswered"
            self._refuse(Absent(AbsenceKind.TIMED_OUT, over), waiting)
        else:
            gpu = _gpu(subject)
            self._hung[("call", call)] += 1
            self._hung[("gpu", gpu)] += 1 if call != child.HANDLE else _HANGS_OF_A_GPU
            self._hung[("both", (gpu, call))] += 1
            self._start()

    def _skipped(self, question: Question) -> Absent | None:
        subject, call, _arguments = question
        gpu = _gpu(subject)
        if self._hung[("both", (gpu, call))]:
            return Absent(AbsenceKind.TIMED_OUT, f"{call} did not return before, and is not asked again")
        if gpu is not None and self._hung[("gpu", gpu)] >= _HANGS_OF_A_GPU:
            return Absent(AbsenceKind.TIMED_OUT, "not asked, since this GPU has let other calls hang")
        if self._hung[("call", call)] >= _GPUS_OF_A_CALL:
            return Absent(AbsenceKind.TIMED_OUT, f"{call} is not asked, since it did not return on other GPUs")
        return None

    def _refuse(self, why: Absent, waiting: list[Question]) -> None:
        self._refused = why
        self.close()
        self._answers.update(dict.fromkeys(waiting, why))

    def _left(self, seconds: float) -> float:
        return min(seconds, self._deadline - self._clock())


def _package() -> str | Absent:
    """The folder of nvidia-ml-py, found without importing it, or absent when there is none."""
    try:
        found = importlib.util.find_spec("pynvml")
    except (ImportError, ValueError):  # something of that name is there and is no module of a file
        found = None
    if found is None or found.origin is None:
        return Absent(AbsenceKind.NOT_FOUND, "the Python package nvidia-ml-py is not installed")
    place = Path(found.origin)
    return str(place.parent.parent if place.name == "__init__.py" else place.parent)


def _gpu(subject: Subject) -> int | None:
    return subject[0] if isinstance(subject, tuple) else subject


def _label(subject: Subject) -> str:
    return "" if subject is None else str(_gpu(subject))
