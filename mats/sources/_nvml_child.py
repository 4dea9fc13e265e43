"""The process that asks NVML in our place: a driver that hangs holds this process and not the tool.

It is started by its path, without the packages of this Python (``-I -S``), so that it is ready soon, and imports
nothing of ours. Requests come on stdin, answers go to stdout, both as a length of 4 bytes and a marshalled value. Each
answer is sent at once: the parent knows from those it has which call is being asked, and for how long. When the
parent is gone, however it went, stdin ends and so does this process, also in the middle of a call.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
import threading
import time
from _queue import SimpleQueue  # without all of queue, which takes longer than this whole module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes as long as ctypes
    from typing import Any

HANDLE = "nvmlDeviceGetHandleByIndex"
"""Asked of a GPU, it only makes sure that NVML knows it."""
STRUCT = "struct"
"""First of a pair: an empty structure of that name is passed, and is the answer."""
OTHER = "gpu"
"""First of a pair: the handle of the GPU of that index is passed."""
TOO_OLD = -1
"""Code of an answer: the Python package has no such call."""
BROKEN = -2
"""Code of an answer: the Python package failed in a way of its own."""
_NEEDED = ("nvmlMemory_v2", "nvmlDeviceGetRowRemapperHistogram")
_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of the union of a field value, by the number of its type."""


class Asker:
    """Asks one nvml module. A subject is None for the system, an index, a pair (GPU, MIG device), or has its handle."""

    def __init__(self, nvml: Any, handles: dict[Any, Any] | None = None) -> None:
        self._nvml = nvml
        self._handles: dict[Any, Any] = handles or {}

    def ask(self, subject: Any, call: str, arguments: tuple[Any, ...]) -> tuple[int, Any]:
        """NVML's return code, and the answer (or the error's text) as plain Python."""
        nvml = self._nvml
        try:
            before = () if subject is None else (self._handle(subject),)
            if call == HANDLE:
                return 0, None
            function = getattr(nvml, call, None)
            wanted = [each[1] for each in arguments if isinstance(each, tuple) and each[:1] == (STRUCT,)]
            if function is None or not all(hasattr(nvml, name) for name in wanted):
                return TOO_OLD, call
            given, structure = self._given(arguments)
            answer = function(*before, *given)
            return 0, plain(answer if structure is None else structure)
        except nvml.NVMLError as error:
            return int(error.value), str(error)
        except (AttributeError, TypeError, ValueError, UnicodeError) as error:
            return BROKEN, f"{type(error).__name__}: {error}"

    def _given(self, arguments: tuple[Any, ...]) -> tuple[list[Any], Any]:
        given, structure = [], None
        for argument in arguments:
            if isinstance(argument, tuple) and argument[:1] == (STRUCT,):
                structure = getattr(self._nvml, argument[1])()
                given.append(ctypes.byref(structure))
            elif isinstance(argument, tuple) and argument[:1] == (OTHER,):
                given.append(self._handle(argument[1]))
            else:
                given.append(argument)
        return given, structure

    def _handle(self, subject: Any) -> Any:
        found = self._handles.get(subject)
        if found is None:
            found = self._handles[subject] = self._find(subject)
        if isinstance(found, Exception):
            raise found
        return found

    def _find(self, subject: Any) -> Any:
        nvml = self._nvml
        try:
            if isinstance(subject, tuple):
                return nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle(subject[0]), subject[1])
            return nvml.nvmlDeviceGetHandleByIndex(subject)
        except nvml.NVMLError as error:  # it is not better the next time: a lost GPU is asked for once
            return error


def plain(value: Any) -> Any:
    """A value of ctypes or of nvidia-ml-py as numbers, texts, tuples and dictionaries.

    A field's value is (field, scope, return code, type, number).
    """
    kind = type(value)  # never isinstance: nvidia-ml-py watches every access to its structures, which takes long
    if value is None or kind in (int, str, float, bool):
        return value
    if kind is bytes:
        return value.decode(errors="replace")
    if issubclass(kind, list | tuple | ctypes.Array):
        return tuple([plain(each) for each in value])
    if issubclass(kind, ctypes.Structure):
        get = ctypes.Structure.__getattribute__
        if kind.__name__ != "c_nvmlFieldValue_t":
            return {field[0]: plain(get(value, field[0])) for field in kind._fields_}
        number, union = get(value, "valueType"), get(value, "value")
        held = getattr(union, _UNION[number]) if 0 <= number < len(_UNION) else 0
        return get(value, "fieldId"), get(value, "scopeId"), get(value, "nvmlReturn"), number, held
    if hasattr(value, "value"):
        return plain(value.value)
    return {name: plain(each) for name, each in vars(value).items()}


def outdated(nvml: Any) -> str:
    """Why a module named pynvml is not the one that is meant, or empty."""
    if all(hasattr(nvml, name) for name in _NEEDED):
        return ""
    where = getattr(nvml, "__file__", "an unknown place")
    return f"{where} is not a current nvidia-ml-py (uninstall packages named pynvml or nvidia-ml-py3)"


def write_frame(descriptor: int, value: Any) -> None:
    """Sends one value. Raises OSError when nobody reads any more."""
    content = marshal.dumps(value)
    data = len(content).to_bytes(4, "little") + content
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(descriptor: int) -> Any:
    """The next value. Raises EOFError when the other end is closed."""
    return marshal.loads(_read(descriptor, int.from_bytes(_read(descriptor, 4), "little")))


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


class _Util(ModuleType):
    """In the place of ctypes.util, until something of it is needed."""

    def find_library(self, name: str) -> str | None:
        import importlib

        found: str | None = importlib.import_module("ctypes.util").find_library(name)
        return found


def _open(library: str, hidden: tuple[str, ...]) -> Any:
    """A library without some of its symbols, as an older driver's is. Raises OSError."""

    class Library(ctypes.CDLL):
        def __getattr__(self, name: str) -> Any:
            if name in hidden:
                raise AttributeError(name)
            return super().__getattr__(name)

    return Library(library)


def _load(package: str, library: str, hidden: tuple[str, ...]) -> Any:
    """nvidia-ml-py from the folder ``package``. Raises ImportError, and OSError without the library."""
    sys.path.append(package)
    # nvidia-ml-py imports it and does not use it; it brings subprocess and tempfile, half of the time of the start.
    sys.modules["ctypes.util"] = _Util("ctypes.util")
    import pynvml

    del sys.modules["ctypes.util"]

    if outdated(pynvml):
        raise ImportError(outdated(pynvml))
    if library:
        pynvml.nvmlLib = _open(library, hidden)
    return pynvml


def _listen(requests: SimpleQueue[Any]) -> None:
    try:
        while True:
            requests.put(read_frame(0))
    except (EOFError, OSError):
        os.kill(os.getpid(), 9)  # at once, also from within a call that never returns


def main() -> None:
    """First frame in: (folder of the package, library or "", hidden symbols). First frame out: "" or why it fails.

    Then lists of (subject, call, arguments) come in; one by one, (seconds, code, answer) go out.
    """
    requests: SimpleQueue[Any] = SimpleQueue()
    package, library, hidden = read_frame(0)
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get among the answers
    try:
        asker = Asker(_load(package, library, hidden))
    except (ImportError, OSError) as error:
        write_frame(answers, str(error) or type(error).__name__)
        return
    write_frame(answers, "")
    while True:
        for subject, call, arguments in requests.get():
            started = time.perf_counter()
            code, answer = asker.ask(subject, call, arguments)
            write_frame(answers, (time.perf_counter() - started, code, answer))


if __name__ == "__main__":
    main()
