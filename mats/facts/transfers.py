"""What other tools measured of links and of memory, as they said it: one picture of each run of such a tool.

Nothing here is judged, and no figure of one tool is mixed with one of another: what is called bandwidth both ways is
the sum for one tool and one direction for another, and a latency may be that of a copy or of a load. Each says what it
is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mats.facts.gpu import UNASKED, Flag, Text
from mats.model import Absent, Reading, Unit


class Place(enum.StrEnum):
    """Where data come from or go to."""

    GPU = "gpu"
    HOST = "host"
    ALL_GPUS = "all gpus"
    """Every other GPU at once, as in a test of one to all."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a transfer. ``number``: of a GPU the tool's own, which may not be the driver's; of a host its node."""

    place: Place
    number: int | Absent = UNASKED

    @property
    def label(self) -> str:
        """A short name for labels and tables: ``0``, ``host``, ``host node 1``, ``all``."""
        if self.place is Place.ALL_GPUS:
            return "all"
        known = not isinstance(self.number, Absent)
        if self.place is Place.GPU:
            return str(self.number) if known else "?"
        return f"host node {self.number}" if known else "host"


class Figure(enum.StrEnum):
    """What a figure is of. The three delays are an order of magnitude apart and never compared."""

    BANDWIDTH = "bandwidth"
    COPY_LATENCY = "time of a small copy"
    """From the start of the copy on the GPU to its end, the launch included: microseconds."""
    COPY_ISSUE = "time to issue a small copy"
    """Seen by the processor, which does not wait for the copy: microseconds."""
    LOAD_LATENCY = "time of one load"
    """Of one dependent read by a kernel: hundreds of nanoseconds."""


class Ways(enum.StrEnum):
    """What else moved over the same link meanwhile, and what was counted."""

    ONE = "one way"
    ONE_OF_TWO = "one way, while the other is as busy"
    SUM = "both ways together"
    SHARED = "one of several at once"
    """Other GPUs moved their data at the same moment, as in a test of all to one: a share, and not what a link can."""
    SHARED_BOTH = "one of several at once, while the other way is as busy"


class Engine(enum.StrEnum):
    """What moved the data."""

    COPY_ENGINE = "copy engine"
    KERNELS = "kernels"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TransferFacts:
    """One figure of one way. Of a GPU to itself (``own_memory``) it is of its memory and of no link."""

    test: str
    """The tool's own name of the test or table."""
    start: End
    """Where the data come from; of a load, what waits for the data."""
    end: End
    figure: Figure
    reading: Reading
    """Bytes per second or seconds."""
    ways: Ways = Ways.ONE
    engine: Engine = Engine.UNKNOWN
    access: Flag = UNASKED
    """Whether it went without a stop in the host's memory; False also where the tool calls it on and it cannot be."""
    size: Reading = UNASKED
    """Bytes of one copy."""
    operation: Text = UNASKED
    """``read`` where the receiving GPU drives it, ``write`` where the sending one does."""
    pinned: Flag = UNASKED
    """Whether the host's memory was pinned."""
    near: Reading = UNASKED
    """The host's node that the program ran on, where the tool tells it."""

    @property
    def own_memory(self) -> bool:
        return self.start.place is Place.GPU and self.start == self.end


@dataclass(frozen=True, slots=True)
class WaivedFacts:
    """A test that the tool left out, which is no failure. ``test``: absent where the tool does not name it."""

    test: Text = UNASKED
    reason: Text = UNASKED


@dataclass(frozen=True, slots=True)
class MismatchFacts:
    """Data that came back other than they were sent. ``offset`` in bytes of the buffer; ``count``: how many values."""

    test: str
    text: str
    """The tool's own words."""
    address: Text = UNASKED
    """Virtual, in hexadecimal."""
    offset: Reading = UNASKED
    count: Reading = UNASKED


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """Whether one GPU can reach the memory of another without a stop in the host's, as the tool found it."""

    start: int
    end: int
    access: bool


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """One line of a test of collective operations: all ranks together, at one size.

    ``bus``: bytes per second scaled by the tool so that it can be held against a link (NCCL's busbw).
    """

    name: Text
    """all_reduce, all_gather ...; absent where the file does not tell."""
    size: Reading
    """Bytes."""
    time: Reading
    algorithm: Reading
    bus: Reading
    wrong: Reading
    """Values that were wrong, as a count; absent where they were not checked."""
    in_place: bool
    data_type: str = ""
    operation: str = ""


@dataclass(frozen=True, slots=True)
class CurveFacts:
    """One figure over the size of what was worked on. ``unit`` is that of every point's reading.

    Cycles are counts. ``points``: size in bytes and reading, in the order of the file.
    """

    test: str
    quantity: str
    """What the reading is: latency, bandwidth, time."""
    unit: Unit
    points: tuple[tuple[Reading, Reading], ...]
    over: str = "working set"
    """What the size is of: a working set or a transfer."""
    start: End = End(Place.GPU)
    end: End = End(Place.GPU)
    clock: Reading = UNASKED
    """Of the core while it was measured, in hertz."""
    pinned: Flag = UNASKED
    note: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredGpu:
    """A GPU as the tool lists it; its number is the tool's own."""

    number: int
    name: Text = UNASKED
    pci: Text = UNASKED


@dataclass(frozen=True, slots=True)
class TransferRun:
    """One run of one tool. ``ranks``: how many took part in a collective operation."""

    tool: str
    version: Text = UNASKED
    origin: str = ""
    """The file it stands in."""
    gpus: tuple[MeasuredGpu, ...] = ()
    transfers: tuple[TransferFacts, ...] = ()
    waived: tuple[WaivedFacts, ...] = ()
    mismatches: tuple[MismatchFacts, ...] = ()
    peers: tuple[PeerFacts, ...] = ()
    collectives: tuple[CollectiveFacts, ...] = ()
    curves: tuple[CurveFacts, ...] = ()
    ranks: Reading = UNASKED
    errors: tuple[str, ...] = ()
    """What the tool itself said went wrong, in its words; wrong data stand in ``mismatches``."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the figures."""
    cut: str = ""
    """Why there is less than was run, or empty."""

    def peer(self, start: int, end: int) -> PeerFacts | None:
        """What the tool found of the access from one GPU to another; None where it does not say."""
        return next((each for each in self.peers if (each.start, each.end) == (start, end)), None)
