"""One run of the latency test: memory, passes over its regions, a second look at what stands out; never a verdict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from mats.device import Conditions, Device, OutOfMemory
from mats.model import AbsenceKind, Absent, Observation, TargetInfo
from mats.probe import Context, UsageError

from ._latency_chain import (
    LINE_WORDS,
    LINES,
    PAGE_WORDS,
    Flusher,
    Region,
    Track,
    Walk,
    draw_order,
    open_flusher,
    region_size,
    regions_of,
    units_of,
)
from ._latency_limits import LIMITS
from ._latency_map import Comparison, chance_alarms, compare
from ._latency_results import Outcome, nothing_timed, observe
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
    return _Session(device, context, settings, asked, flusher, info).measure(wanted)


@dataclass(slots=True)
class Survey:
    """The passes over one allocation."""

    regions: tuple[Region, ...]
    walks: list[list[Walk | None]] = field(default_factory=list)
    tried: int = 0
    landed: int = 0
    wrong: int = 0

    @property
    def comparison(self) -> Comparison | None:
        """None where no walk came to its end."""
        times = [[None if walk is None else walk.seconds for walk in one] for one in self.walks]
        return compare(times) if any(time is not None for one in times for time in one) else None


class _Session:
    """One measurement: holds what its steps share."""

    def __init__(
        self,
        device: Device,
        context: Context,
        settings: Settings,
        asked: Request,
        flusher: Flusher,
        info: TargetInfo,
    ) -> None:
        self._device, self._context, self._settings = device, context, settings
        self._asked, self._flusher, self._info = asked, flusher, info
        self._units = units_of(info)
        self._seen: list[tuple[float, Conditions]] = []
        self._start = device.now()
        self._partial = ""

    def measure(self, wanted: int) -> Observation:
        before = self._device.memory()
        chunks, refused = allocate_chunks(self._device, wanted)
        if not chunks:
            return nothing_timed(AbsenceKind.NOT_TESTED, refused or "the device gave no memory")
        tested = sum(chunk.buffer.size for chunk in chunks)
        self._warm(chunks)
        first = self._survey(chunks, region_size(tested), 0)
        second: Survey | Absent | None = None
        seen = first.comparison
        if seen is not None and seen.outstanding and not self._partial:
            second = self._again(chunks, region_size(tested))
        return observe(
            Outcome(
                info=self._info,
                total=before.total,
                untested=account(before, tested, self._asked),
                first=first,
                second=second,
                seen=tuple(self._seen),
                others=self._device.holders(),
                partial=self._partial,
                refused=refused,
                flushed_by_line=bool(self._flusher.by_line),
            )
        )

    def _warm(self, chunks: Sequence[Chunk]) -> None:
        """Keep the memory busy for a moment: an idle GPU's clocks rise only when it works."""
        self._sense()
        until = self._device.now() + WARM_SECONDS
        while self._info.kind == "cuda" and self._device.now() < until:
            self._device.launch("read_sweep", chunks[0].tiles, data=chunks[0].buffer, sink=self._flusher.sink)
        self._seen.clear()
        self._sense()

    def _sense(self) -> None:
        self._seen.append((self._device.now() - self._start, self._device.conditions()))

    def _survey(self, chunks: Sequence[Chunk], size: int, turn: int) -> Survey:
        """Passes over all regions, in another order each time; more of them while too many walks are disturbed."""
        draw = random.Random(f"latency {self._settings.seed} {turn}")
        lines = min(LINES, size // 8 // LINE_WORDS // 2)
        survey = Survey(regions_of(chunks, size))
        track = Track(self._device, self._flusher, survey.regions, draw_order(size, lines, draw))
        wanted = self._settings.passes
        try:
            while len(survey.walks) < wanted:
                self._partial = self._context.stopping()
                if self._partial:
                    break
                done = len(survey.walks)
                self._context.progress(done + turn * wanted, wanted * (1 + turn), _words(turn, len(survey.regions)))
                sequence = draw.sample(range(len(survey.regions)), len(survey.regions))
                survey.walks.append(track.walk_all(sequence, self._units[done % len(self._units)]))
                self._sense()
                if track.wrong:
                    break
                if done + 1 == wanted and wanted < MOST_PASSES * self._settings.passes and self._doubtful(survey):
                    wanted += self._settings.passes
        finally:
            survey.tried, survey.landed, survey.wrong = track.tried, track.landed, len(track.wrong)
            track.close()
        return survey

    def _doubtful(self, survey: Survey) -> bool:
        """Whether by chance alone a region may be late in most passes so far."""
        bound = next(limit.bound.value for limit in LIMITS if limit.measurement == "latency.chance_alarms")
        seen = survey.comparison
        return seen is not None and chance_alarms(seen.disturbed, len(survey.walks), len(survey.regions)) > bound

    def _again(self, chunks: Sequence[Chunk], size: int) -> Survey | Absent:
        """The same over a second allocation, which begins elsewhere; the pages that it held back come last."""
        wanted = sum(chunk.buffer.size for chunk in chunks)
        for chunk in chunks:
            self._device.free(chunk.buffer)
        shift = min(SHIFT, wanted // 8) // (2 << 20) * (2 << 20) or 2 << 20
        try:
            held = self._device.allocate(shift)
        except OutOfMemory as error:
            return Absent(AbsenceKind.INSUFFICIENT, f"no second allocation could be had: {error}")
        shifted, _ = allocate_chunks(self._device, wanted - shift)
        self._device.free(held)
        rest, _ = allocate_chunks(self._device, shift)
        again = (*shifted, *rest)
        if sum(chunk.buffer.size for chunk in again) < 0.9 * wanted:
            return Absent(AbsenceKind.INSUFFICIENT, "the second allocation is much smaller than the first")
        return self._survey(again, size, 1)


def _words(turn: int, regions: int) -> str:
    return f"{'second look: ' if turn else ''}walking {regions} regions"
