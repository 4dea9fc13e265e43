"""One run of the latency test: memory, passes over its regions, a second look at what stands out; never a verdict."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field

from mats.device import Conditions, Device, OutOfMemory
from mats.model import AbsenceKind, Absent, Observation, TargetInfo
from mats.probe import Context, UsageError

from ._latency_chain import (
    LINE_WORDS,
    LINES,
    PAGE_WORDS,
    Flusher,
    Garbled,
    Region,
    Track,
    Walk,
    draw_order,
    open_flusher,
    region_size,
    regions_of,
    units_of,
)
from ._latency_climb import Rung, climb
from ._latency_hops import sample_lines
from ._latency_host import HostMemory, measure_host, observe_host
from ._latency_limits import bound_of
from ._latency_line_results import is_slow
from ._latency_lines import Classes, classify
from ._latency_map import Comparison, chance_alarms, compare
from ._latency_results import Outcome, nothing_timed, observe
from ._latency_transfer import Transfers, measure_transfers
from ._latency_transfer_results import observe_transfers
from ._space import Chunk, Request, account, allocate_chunks, request, room

HOST_DEFAULT = 4 << 30
"""So much of a host is timed where nothing is said: enough for 128 regions, and quickly had."""
MOST_PASSES = 4
"""So many times the passes that were asked for, while single walks are disturbed too often."""
WARM_SECONDS = 1.0
"""A GPU reads so long before anything is timed, so that its clocks are those of work."""
SHIFT = 37 << 20
"""About so many bytes are held while the second allocation is made, so that it lies on other pages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, read; sizes in bytes."""

    size: int | None
    reserve: int | None
    passes: int
    seed: int


def read_settings(context: Context) -> Settings:
    """Raises UsageError."""
    options = context.options
    passes = int(str(options["passes"]))
    if passes < 1:
        raise UsageError("--passes must be at least 1")
    size, reserve = (None if options[name] is None else int(str(options[name])) for name in ("size", "reserve"))
    return Settings(size, reserve, passes, context.seed)


_UNFIT = {
    "MIG": "a MIG instance shares the memory's channels and caches with its neighbours",
    "vGPU": "a virtual GPU shares the memory with others, and its time is cut into slices",
    "WDDM": "under Windows' display driver model memory may be moved to the host while it is timed",
    "WSL": "under WSL memory may be moved to the host while it is timed",
    "integrated": "an integrated GPU has no memory of its own: the processor and its other devices share it",
}


def unfit(info: TargetInfo) -> str:
    """Why regions of this device cannot be compared, or nothing."""
    identity = dict(info.identity)
    kind = "MIG" if info.uuid.startswith("MIG-") else identity.get("placement", "")
    return _UNFIT.get(kind, "")


def test_latency(device: Device, context: Context) -> Observation:
    """Times the device's memory. Raises UsageError, DeviceError."""
    info, settings = device.describe(), read_settings(context)
    why = unfit(info)
    if why:
        return nothing_timed(AbsenceKind.NOT_SUPPORTED, why)
    flusher = open_flusher(device)
    state = device.memory()
    asked = request(info.kind, state, settings.size, None, settings.reserve)
    wanted = min(asked.wanted, room(info.kind, state, asked))
    if info.kind == "host" and settings.size is None:
        wanted = min(wanted, HOST_DEFAULT)
    if wanted < PAGE_WORDS * 8:
        return nothing_timed(AbsenceKind.NOT_TESTED, f"only {state.free >> 20} MiB are free beside the headroom")
    return _Session(device, context, settings, asked, flusher, info, units_of(info), device.now()).measure(wanted)


NOT_SAMPLED = Absent(AbsenceKind.NOT_TESTED, "no line was sampled")


@dataclass(slots=True)
class Survey:
    """The passes over one allocation, and the lines that were sampled in it."""

    regions: tuple[Region, ...]
    walks: list[list[Walk | None]] = field(default_factory=list)
    tried: int = 0
    landed: int = 0
    wrong: int = 0
    unlaid: str = ""
    """Why there is no chain, or nothing."""
    lines: Classes | Absent = NOT_SAMPLED

    @property
    def comparison(self) -> Comparison | None:
        """None where no walk came to its end."""
        times = [[None if walk is None else walk.seconds for walk in one] for one in self.walks]
        return compare(times) if any(time is not None for one in times for time in one) else None

    @property
    def outstanding(self) -> tuple[int, ...]:
        """Regions that stand out of the map."""
        seen = self.comparison
        return seen.outstanding if seen else ()


@dataclass(slots=True)
class _Session:
    """One measurement: holds what its steps share."""

    device: Device
    context: Context
    settings: Settings
    asked: Request
    flusher: Flusher
    info: TargetInfo
    units: tuple[int, ...]
    start: float
    seen: list[tuple[float, Conditions]] = field(default_factory=list)
    chunks: tuple[Chunk, ...] = ()
    partial: str = ""

    def measure(self, wanted: int) -> Observation:
        before = self.device.memory()
        self.chunks, refused = allocate_chunks(self.device, wanted, self.context.stopping)
        if why := self.context.stopping():
            stopped = nothing_timed(AbsenceKind.NOT_TESTED, f"{why} while memory was being had")
            return dataclasses.replace(stopped, partial=why)
        if not self.chunks:
            return nothing_timed(AbsenceKind.NOT_TESTED, refused or "the device gave no memory")
        tested = sum(chunk.buffer.size for chunk in self.chunks)
        info = self.device.describe()  # a host tells of what is held in which pages
        self._warm()
        first = self._survey(0)
        self._sample(first, 0)
        second: Survey | Absent | None = None
        if (first.outstanding or is_slow(first.lines)) and not self.partial:
            second = self._again(first)
        others, ladder, transfers = self.device.holders(), self._climb(), self._transfer()
        host = self._host()
        return observe(
            Outcome(
                info=info,
                total=before.total,
                untested=account(before, tested, self.asked),
                first=first,
                second=second,
                seen=tuple(self.seen),
                others=others,
                partial=self.partial,
                refused=refused,
                ladder=ladder,
                parts=(observe_transfers(transfers), observe_host(host)),
            )
        )

    def _warm(self) -> None:
        """Keep the memory busy for a moment: an idle GPU's clocks rise only when it works."""
        self._sense()
        until = self.device.now() + WARM_SECONDS
        while self.info.kind == "cuda" and self.device.now() < until:
            self.device.launch("read_sweep", self.chunks[0].tiles, data=self.chunks[0].buffer, sink=self.flusher.sink)
        self.seen.clear()
        self._sense()

    def _sense(self) -> None:
        self.seen.append((self.device.now() - self.start, self.device.conditions()))

    def _survey(self, turn: int) -> Survey:
        """Passes over all regions, in another order each time.

        More of them in the first turn, while too many walks are disturbed; what the second one sees stood out already.
        """
        draw = random.Random(f"latency {self.settings.seed} {turn}")
        size = region_size(sum(chunk.buffer.size for chunk in self.chunks))
        lines = min(LINES, size // 8 // LINE_WORDS // 2)
        survey = Survey(regions_of(self.chunks, size))
        try:
            track = Track(self.device, self.flusher, survey.regions, draw_order(size, lines, draw))
        except Garbled as error:
            survey.unlaid = str(error)
            return survey
        wanted = self.settings.passes
        try:
            while len(survey.walks) < wanted:
                self.partial = self.context.stopping()
                if self.partial:
                    break
                done = len(survey.walks)
                self.context.progress(done + turn * wanted, wanted * (1 + turn) + 1, _words(turn, len(survey.regions)))
                sequence = draw.sample(range(len(survey.regions)), len(survey.regions))
                survey.walks.append(track.walk_all(sequence, self.units[done % len(self.units)]))
                self._sense()
                if track.wrong:
                    break
                more = turn == 0 and done + 1 == wanted < MOST_PASSES * self.settings.passes
                if more and self._doubtful(survey):
                    wanted += self.settings.passes
        finally:
            survey.tried, survey.landed, survey.wrong = track.tried, track.landed, len(track.wrong)
            track.close()
        return survey

    def _doubtful(self, survey: Survey) -> bool:
        """Whether by chance alone a region may be late in most passes so far."""
        bound, seen = bound_of("latency.chance_alarms"), survey.comparison
        return seen is not None and chance_alarms(seen.disturbed, len(survey.walks), len(survey.regions)) > bound

    def _sample(self, survey: Survey, turn: int) -> None:
        """Lines of the regions that do not stand out: what is late as a whole is not told by its lines."""
        if self.partial:
            survey.lines = Absent(AbsenceKind.NOT_TESTED, self.partial)
            return
        passes = len(survey.walks)
        self.context.progress(passes, passes + 1, "timing single lines")
        among = sorted(set(range(len(survey.regions))) - set(survey.outstanding))
        draw = random.Random(f"lines {self.settings.seed} {turn}")
        sample = sample_lines(
            self.device, self.flusher, survey.regions, among, self.units[0], draw, self.context.stopping
        )
        if isinstance(sample, Absent):
            survey.lines = sample
            self.partial = self.context.stopping()
            return
        survey.wrong += sample.wrong
        survey.lines = classify(sample.lines)
        self._sense()

    def _again(self, first: Survey) -> Survey | Absent:
        """A second look at what stood out, in an allocation that begins elsewhere; the pages that it held back come
        last."""
        wanted = sum(chunk.buffer.size for chunk in self.chunks)
        self._release()
        shift = min(SHIFT, wanted // 8) // (2 << 20) * (2 << 20) or 2 << 20
        try:
            held = self.device.allocate(shift)
        except OutOfMemory as error:
            return Absent(AbsenceKind.INSUFFICIENT, f"no second allocation could be had: {error}")
        shifted, _ = allocate_chunks(self.device, wanted - shift)
        self.device.free(held)
        rest, _ = allocate_chunks(self.device, shift)
        self.chunks = (*shifted, *rest)
        got = sum(chunk.buffer.size for chunk in self.chunks)
        if got < 0.9 * wanted:
            return Absent(AbsenceKind.INSUFFICIENT, "the second allocation is much smaller than the first")
        again = self._survey(1) if first.outstanding else Survey(regions_of(self.chunks, region_size(got)))
        if is_slow(first.lines):
            self._sample(again, 1)
        return again

    def _release(self) -> None:
        for chunk in self.chunks:
            self.device.free(chunk.buffer)
        self.chunks = ()

    def _climb(self) -> tuple[Rung, ...] | Absent:
        """The ladder, on memory of its own: what was timed before is given back first."""
        if self.partial:
            return Absent(AbsenceKind.NOT_TESTED, self.partial)
        self._release()
        self.context.progress(99, 100, "climbing the ladder of caches")
        ladder = climb(self.device, self.flusher, self.info, self.units[0], self.settings.seed, self.context.stopping)
        self.partial = self.context.stopping() if isinstance(ladder, Absent) else ""
        return ladder

    def _transfer(self) -> Transfers | Absent:
        """Copies between the device and the host, on memory of their own."""
        if self.partial:
            return Absent(AbsenceKind.NOT_TESTED, self.partial)
        self._release()
        transfers = measure_transfers(self.device, self.context.stopping, self._late)
        self.partial = "" if isinstance(transfers, Absent) else transfers.partial
        return transfers

    def _host(self) -> HostMemory | None:
        """What a host's own memory is like beside its latency."""
        if self.partial:
            return None
        self._release()
        seed, stopping = self.settings.seed, self.context.stopping
        host = measure_host(self.device, self.flusher, seed, stopping, self._late)
        self.partial = stopping()
        return host

    def _late(self, share: float, text: str) -> None:
        """Progress of what comes after the ladder: little beside it."""
        self.context.progress(99 + share / 2, 100, text)


def _words(turn: int, regions: int) -> str:
    return f"{'second look: ' if turn else ''}walking {regions} regions"
