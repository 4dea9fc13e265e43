"""The door to passive state: what is known of a machine without touching its GPUs' memory.

A passive probe is given a source in the place of a device. A source reads and never loads, except that a link may be
warmed by a short copy when the user asked for it. It is opened by :func:`mats.registry.open_source`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mats.device import DeviceError

if TYPE_CHECKING:
    from mats.facts import MachineFacts
    from mats.model import TargetInfo


class SourceError(DeviceError):
    """The source could not be read; the text says what and what to do about it."""


class NothingThere(SourceError):
    """The source was read and there is no GPU it could tell about. ``facts``: what was seen all the same."""

    def __init__(self, text: str, facts: MachineFacts | None = None) -> None:
        super().__init__(text)
        self.facts = facts


class Source(Protocol):
    """Describe, read, close. Every call may raise :class:`SourceError`.

    The runner opens, describes, hands to the passive probes and closes it in one thread; it is closed from another one
    when it does not end in time.
    """

    def describe(self) -> TargetInfo:
        """Of a live source ``kind`` is cuda, of saved files file, of a simulated machine sim (and ``simulated``).

        The name is given by the runner. Raises :class:`NothingThere` where there is no NVIDIA GPU at all.
        """
        ...

    def read(self, *, load: bool = False) -> MachineFacts:
        """The whole picture of this moment, within the time the source was given.

        ``load``: keep the links to the GPUs busy with a copy while they are read; a GPU whose link could not be warmed
        says why in ``notes``.
        """
        ...

    def close(self) -> None:
        """Safe to call twice."""
        ...
