"""Writing a file so that a reader never sees half of it, whatever happens to the writer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, content: str | bytes) -> None:
    """Write ``content`` beside ``path`` and put it in its place in one step. Raises OSError."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a pipe or /dev/stdout is written through, not replaced
        path.write_bytes(data)
        return
    import tempfile  # it is slow to load, and most runs write nothing

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    """The process's mask for new files: it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
