"""What holds the bytes of a pool: equal frames that can be copied among each other and summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Integers = NDArray[numpy.integer[Any]]

WORD = 4
"""Bytes of a word of the checksum; a frame is made of whole ones."""


class PoolError(Exception):
    """A pool cannot do what it was asked for; nothing was changed. One sentence with the reason."""


class Frames(Protocol):
    """Storage of ``count`` frames of ``size`` bytes each, numbered from 0. Frames are given as arrays of numbers."""

    @property
    def count(self) -> int:
        """Frames there are."""
        ...

    @property
    def size(self) -> int:
        """Bytes of a frame, a multiple of 4."""
        ...

    def copy(self, sources: Integers, targets: Integers) -> None:
        """Frame ``sources[i]`` into ``targets[i]``, for all i; done when it returns, on a device as well.

        The two have the same length, no target occurs twice and none is a source. Neighbours come in runs where
        there are any: storage that copies runs at once may look for them. Raises PoolError where it cannot.
        """
        ...

    def checksums(self, frames: Integers) -> NDArray[numpy.uint64]:
        """One number a frame, equal for equal bytes; [len(frames)], unsigned 64-bit."""
        ...


def weights(words: int) -> NDArray[numpy.uint64]:
    """The odd 64-bit factors of the checksum's words (splitmix64 of their places); [words].

    The sum of factor times 32-bit word, modulo 2**64, is a multilinear hash: a change of one word always shows, and
    one of several, or an exchange of two, is missed only by factors that happen to cancel, about once in 2**32.
    """
    import numpy

    mixed = numpy.arange(1, words + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> numpy.uint64(31))) | numpy.uint64(1)


class ArrayFrames:
    """Frames in a numpy array of shape [frames, ...]: each element of the first axis is one frame.

    ``data`` is that array itself: an engine reads and writes its pages there. Raises ValueError for an array that is
    empty, does not lie in one piece, or whose frames are not whole words of 4 bytes.
    """

    __slots__ = ("_weights", "_words", "data")

    def __init__(self, data: NDArray[Any]) -> None:
        if data.ndim < 2 or not data.size or not data.flags.c_contiguous:
            raise ValueError("frames need an array of shape [frames, ...], not empty, contiguous in memory")
        size = data.nbytes // len(data)
        if size % WORD:
            raise ValueError(f"a frame of {size} bytes is not made of whole words of {WORD} bytes")
        self.data = data
        self._words = data.reshape(len(data), -1).view("uint32")
        self._weights = weights(size // WORD)

    @property
    def count(self) -> int:
        """Frames there are."""
        return len(self._words)

    @property
    def size(self) -> int:
        """Bytes of a frame."""
        return self._words.shape[1] * WORD

    def copy(self, sources: Integers, targets: Integers) -> None:
        """Frame ``sources[i]`` into ``targets[i]``, for all i; needs as many bytes again while it runs."""
        self._words[targets] = self._words[sources]

    def checksums(self, frames: Integers) -> NDArray[numpy.uint64]:
        """One number a frame; [len(frames)]. Whole batches at once: the interpreter is asked for little."""
        found: NDArray[numpy.uint64] = self._words[frames].astype("uint64") @ self._weights
        return found
