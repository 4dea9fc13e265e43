"""One run of the memory test: options, memory, the tester's proof, the tests; watches time and temperature."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mats.device import Device
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, Reading, Result, Unit
from mats.probe import Context, UsageError

from ._algorithms import ALGORITHMS, Algorithm, Draw, standard_tests
from ._earlier import Earlier, read_earlier
from ._errors import open_book
from ._limits import LIMITS
from ._results import Outcome, observe
from ._space import Chunk, Request, account, allocate_chunks, request, room
from ._tester import HAMMER_REPEATS, Stopped, Tester

ENOUGH_ERRORS = 1 << 20
"""Wrong words after which further tests would tell no more."""
ENOUGH_TESTS = 3
"""But first so many tests that have verified all: their different values tell a wrong address from a wrong line."""
PLANTED = ((5, 1 << 17), (4_099, 1 << 63 | 1), (250_001, 0xFF << 24))
"""Errors that the tester makes and must find: word of the first chunk, bits."""
SIMULATED_REPEATS = 2048
"""Reads of a pair of rows on a simulated card: above every threshold of its plans, and quick."""
SENSE_SECONDS = 1.0
_TIME_IS_UP = "the time given with --duration is up"
_BY_ITSELF = ("stopped at the first", "stopped after")
"""How the reasons begin for which the test ends itself; any other is not its own and leaves it partial."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, read. Sizes in bytes, durations in seconds. ``duration`` None: until ``passes`` are done."""

    algorithms: tuple[Algorithm, ...]
    pattern: int | None
    duration: float | None
    passes: int
    dwell: float
    max_temperature: float
    stop_on_error: bool
    force_errors: bool
    seed: int


def read_pattern(text: str) -> int:
    """A 64-bit word from ``0xdeadbeef`` or ``deadbeef``: shorter ones are repeated. Raises UsageError."""
    digits = text.strip().lower().removeprefix("0x")
    if not re.fullmatch(r"[0-9a-f]{1,16}", digits):
        raise UsageError(f"--pattern {text!r} is not a word of up to 64 bits in hexadecimal, such as 0xdeadbeef")
    width = next(width for width in (2, 4, 8, 16) if len(digits) <= width)
    return int(digits.zfill(width) * (16 // width), 16)


def choose_tests(text: str, pattern: int | None, kind: str) -> tuple[Algorithm, ...]:
    """The tests that ``--tests`` names, in their order of running. Raises UsageError."""
    default = set(standard_tests())
    if kind == "sim":  # a simulated card can be hammered without harm to anybody
        default.add("row_disturb")
    groups = {"default": default, "all": set(ALGORITHMS) - {"user_pattern"}}
    chosen: set[str] = set()
    for name in (part.strip().replace("-", "_") for part in text.split(",")):
        if name not in ALGORITHMS and name not in groups:
            raise UsageError(f"--tests: no test named {name!r}; there are default, all, {', '.join(ALGORITHMS)}")
        chosen |= groups.get(name, {name})
    if pattern is not None:
        chosen.add("user_pattern")
    elif "user_pattern" in chosen:
        raise UsageError("--tests user_pattern needs --pattern, such as --pattern 0xdeadbeef")
    return tuple(algorithm for name, algorithm in ALGORITHMS.items() if name in chosen)


def _settings(context: Context, kind: str) -> Settings:
    options = context.options
    given = options["pattern"]
    pattern = read_pattern(str(given)) if given is not None else None
    duration = options["duration"]
    passes = int(str(options["passes"]))
    if passes < 1:
        raise UsageError("--passes must be at least 1")
    if duration is not None and float(str(duration)) <= 0:
        raise UsageError("--duration must be above 0")
    return Settings(
        algorithms=choose_tests(str(options["tests"]), pattern, kind),
        pattern=pattern,
        duration=None if duration is None else float(str(duration)),
        passes=passes,
        dwell=float(str(options["dwell"])),
        max_temperature=float(str(options["max-temp"])),
        stop_on_error=bool(options["stop-on-error"]),
        force_errors=bool(options["force-errors"]),
        seed=context.seed,
    )


def _bytes(value: object) -> int | None:
    return None if value is None else int(str(value))


def test_memory(device: Device, context: Context) -> Observation:
    """Tests the device's memory. Raises UsageError, DeviceError."""
    info, state, options = device.describe(), device.memory(), context.options
    settings = _settings(context, info.kind)
    share = options["coverage"]
    asked = request(
        info.kind,
        state,
        _bytes(options["size"]),
        None if share is None else float(str(share)),
        _bytes(options["reserve"]),
    )
    if asked.wanted <= 0:
        reason = f"only {state.free >> 20} MiB are free and {asked.headroom >> 20} MiB stay free as headroom"
        return nothing_tested(reason)
    most = room(info.kind, state, asked)
    chunks, refused = allocate_chunks(device, min(asked.wanted, most), context.stopping)
    if why := context.stopping():
        return nothing_tested(f"{why} while memory was being had")
    if not chunks:
        return nothing_tested(refused or f"only {most >> 20} MiB can be had")
    session = _Session(device, context, settings, asked, state.total, chunks, account(state, _size(chunks), asked))
    return session.measure(refused)


def _size(chunks: tuple[Chunk, ...]) -> int:
    return sum(chunk.buffer.size for chunk in chunks)


def nothing_tested(reason: str) -> Observation:
    """An observation of a device of which nothing could be had."""
    absent = Absent(AbsenceKind.NOT_TESTED, reason)
    names = sorted({limit.measurement for limit in LIMITS})
    return Observation(tuple(Measurement(name, absent) for name in names), notes=(f"Nothing was tested: {reason}.",))


class _Session:
    """One measurement: holds what the tests share."""

    def __init__(
        self,
        device: Device,
        context: Context,
        settings: Settings,
        asked: Request,
        total: int,
        chunks: tuple[Chunk, ...],
        untested: tuple[tuple[str, int], ...],
    ) -> None:
        self._device, self._context, self._settings = device, context, settings
        self._asked, self._total, self._untested = asked, total, untested
        self._info = device.describe()
        cache = self._info.cache_size
        self._tester = Tester(
            device,
            chunks,
            open_book(device, max(chunk.buffer.size for chunk in chunks)),
            int(cache.value) if isinstance(cache, Quantity) else 64 << 20,
            self._tick,
            hammer_repeats=SIMULATED_REPEATS if self._info.kind == "sim" else HAMMER_REPEATS,
            evicts_lines=self._info.kind != "cuda",
        )
        self._earlier: Earlier = read_earlier(context.resumed)
        self._notes: list[str] = []
        self._partial, self._hot, self._left_out = "", False, 0
        self._missed: Reading = Absent(AbsenceKind.NOT_TESTED, "the test ended before its self-test")
        self._copies: tuple[float, ...] = ()
        self._moved, self._planned = 0.0, self._plan_bytes()
        self._name = "self-test"
        self._sensed = -SENSE_SECONDS

    def measure(self, refused: str) -> Observation:
        if refused:
            self._notes.append(f"The device refused more memory: {refused}.")
        if context_note := self._resumed_note(self._context.resumed):
            self._notes.append(context_note)
        tester = self._tester
        try:
            tester.sense()
            self._missed = self._prove()
            self._copies = tuple(tester.copy_bound())
            self._plant()
            self._run_tests()
        except Stopped as stopped:
            self._stopped(str(stopped))
        tester.sense()
        return self._observation()

    def _stopped(self, why: str) -> None:
        if why == _TIME_IS_UP:
            missing = [a.name for a in self._settings.algorithms if not self._passes_of(a.name)]
            self._left_out = len(missing)
            if missing:
                self._notes.append(f"The time given was too short for these tests: {', '.join(missing)}.")
        elif why.startswith(_BY_ITSELF):
            self._notes.append(f"The test {why}.")
        else:
            self._partial = why

    def _passes_of(self, name: str) -> int:
        done = self._tester.accounts.get(name)
        return (done.passes if done else 0) + (name in self._earlier.tests)

    def _resumed_note(self, resumed: Result | None) -> str:
        if resumed is None:
            return ""
        return (
            f"Resumed: the counts of the run of {resumed.started} are included; its tests "
            f"({', '.join(self._earlier.tests) or 'none complete'}) are not run again in the first pass. "
            "Which pages were tested then is not known now."
        )

    def _observation(self, *, final: bool = True) -> Observation:
        outcome = Outcome(
            self._tester,
            self._info,
            self._asked,
            self._total,
            self._untested,
            self._missed,
            self._copies,
            tuple(self._notes),
            self._partial,
            self._hot,
            self._left_out,
            self._earlier,
        )
        return observe(outcome, final=final)

    def _prove(self) -> Reading:
        """How many planted errors were missed, in the best of three places: the memory may itself be at fault."""
        words = self._tester.chunks[0].words
        found = []
        for turn in range(3):
            flips = [((word + turn * 8_192) % words, bits) for word, bits in PLANTED]
            missed = self._tester.prove(flips)
            if missed == []:
                return Quantity(0, Unit.COUNT)
            if missed is not None:
                found.append(len(missed))
        if not found:
            return Absent(AbsenceKind.INSUFFICIENT, "the memory's own errors outnumber what a report holds")
        return Quantity(min(found), Unit.COUNT)

    def _plant(self) -> None:
        if not self._settings.force_errors:
            return
        last = self._tester.tested // 8
        places = {(last // 8) * turn + 1_237 * turn + 11: 1 << (turn * 9 % 64) for turn in range(8)}
        self._tester.forced = dict(places)
        self._notes.append(f"{len(places)} errors were made on purpose (--force-errors): they must be found below.")

    def _run_tests(self) -> None:
        settings, tester = self._settings, self._tester
        turn = 0
        while settings.duration is not None or turn < settings.passes:
            for algorithm in settings.algorithms:
                if turn == 0 and algorithm.name in self._earlier.tests:
                    continue
                self._name = algorithm.name
                tester.run(algorithm, Draw(turn, settings.seed, settings.dwell, settings.pattern))
                tester.reference()
                self._sense()
                self._enough()
                self._context.save(self._observation(final=False))
            turn += 1

    def _enough(self) -> None:
        failed = self._tester.ledger.failed
        if failed and self._settings.stop_on_error:
            raise Stopped("stopped at the first test with errors (--stop-on-error)")
        told = sum(done.passes > 0 or done.full_verifies >= 1 for done in self._tester.accounts.values())
        if failed > ENOUGH_ERRORS and told >= ENOUGH_TESTS:
            raise Stopped(f"stopped after {failed:,} wrong words: further tests would tell no more")

    def _sense(self) -> None:
        self._sensed = self._device.now()
        temperature = self._tester.sense().temperature
        if isinstance(temperature, Quantity) and temperature.value >= self._settings.max_temperature:
            self._hot = True
            raise Stopped(
                f"the temperature reached {temperature.value:.0f} degrees Celsius, the limit of --max-temp is "
                f"{self._settings.max_temperature:.0f}"
            )

    def _tick(self, moved: float) -> None:
        """Called after each launch: progress, the wish to stop, the time limit, and the temperature once a second."""
        self._moved += moved
        if why := self._context.stopping():
            raise Stopped(why)
        elapsed, duration = self._tester.elapsed(), self._settings.duration
        failed = self._tester.ledger.failed
        text = f"{self._name}, {failed:,} errors" if failed else self._name
        if duration is None:
            self._context.progress(self._moved, self._planned, text)
        else:
            self._context.progress(min(elapsed, duration), duration, text)
            if elapsed >= duration:
                raise Stopped(_TIME_IS_UP)
        if self._device.now() - self._sensed >= SENSE_SECONDS:
            self._sense()
        if failed and self._settings.stop_on_error:
            raise Stopped("stopped at the first error (--stop-on-error)")
        if failed > 4 * ENOUGH_ERRORS:  # a test in which nearly every word fails is not run to its end
            self._enough()

    def _plan_bytes(self) -> float:
        settings, tested = self._settings, self._tester.tested
        total = 0.0
        for turn in range(settings.passes):
            draw = Draw(turn, settings.seed, settings.dwell, settings.pattern)
            total += sum(a.moved(draw) for a in settings.algorithms if turn or a.name not in self._earlier.tests)
        return total * tested
