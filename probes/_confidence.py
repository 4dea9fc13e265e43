"""What a memory test's counts support: error bounds, the chance of a miss, and the sentence that says so.

No error in ``n`` trials bounds the rate by ``-ln(0.05) / n``, about ``3 / n``, with 95 % confidence; errors
give the exact Poisson interval of Garwood (Biometrika 28 (1936) 437-442). Both take errors as independent,
which a weak cell breaks: it fails each time. Failing words are therefore told beside the events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mats.model import Absent, Quantity, Reading, Unit

WEEK_HOURS = 168.0


def zero_error_bound(trials: float, confidence: float = 0.95) -> float:
    """Upper bound on the rate per trial after no error in ``trials`` trials (bytes, passes or hours)."""
    if trials <= 0:
        raise ValueError("without a trial there is no bound")
    _check(confidence)
    return -math.log1p(-confidence) / trials


def poisson_interval(events: int, confidence: float = 0.95) -> tuple[float, float]:
    """Bounds on the expected number of events after ``events`` were seen.

    For no event the bound is one-sided (0 to 3.00 at 95 %), otherwise the exact central interval.
    """
    if events < 0:
        raise ValueError("events cannot be negative")
    _check(confidence)
    if events == 0:
        return 0.0, -math.log1p(-confidence)
    tail = (1 - confidence) / 2
    return _gamma_quantile(events, tail), _gamma_quantile(events + 1, 1 - tail)


def error_rate(events: int, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Lower and upper bound on the rate per trial."""
    if trials <= 0:
        raise ValueError("without a trial there is no bound")
    low, high = poisson_interval(events, confidence)
    return low / trials, high / trials


def miss_probability(hours: float, mean_hours_between: float = WEEK_HOURS) -> float:
    """Chance that a fault which shows once in ``mean_hours_between`` hours did not show in ``hours``."""
    if hours < 0 or mean_hours_between <= 0:
        raise ValueError("hours must not be negative, the time between events must be positive")
    return math.exp(-hours / mean_hours_between)


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError("confidence lies between 0 and 1")


_EXACT_SHAPE = 1e6
"""Above this many events the Wilson-Hilferty form is closer to the quantile than 1e-9 of it."""


def _gamma_quantile(shape: float, probability: float) -> float:
    """The value below which a gamma variable of this shape lies with ``probability``."""
    z = _normal_quantile(probability)
    start = shape * max(1 - 1 / (9 * shape) + z / (3 * math.sqrt(shape)), 1e-3) ** 3
    if shape > _EXACT_SHAPE:
        return start
    low = high = start
    while regularised_gamma(shape, low) > probability:
        low /= 2
    while regularised_gamma(shape, high) < probability:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if regularised_gamma(shape, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def regularised_gamma(shape: float, value: float) -> float:
    """The regularised lower incomplete gamma function P(shape, value).

    Series below ``shape + 1``, Lentz's continued fraction above (Abramowitz and Stegun 6.5.29, 6.5.31).
    """
    if value <= 0:
        return 0.0
    scale = math.exp(shape * math.log(value) - value - math.lgamma(shape))
    if value < shape + 1:
        term = total = 1 / shape
        index = shape
        while abs(term) > 1e-16 * abs(total):
            index += 1
            term *= value / index
            total += term
        return min(1.0, total * scale)
    tiny = 1e-300
    b = value + 1 - shape
    c = 1 / tiny
    d = 1 / b
    fraction = d
    step = 0
    while True:
        step += 1
        a = -step * (step - shape)
        b += 2
        d = a * d + b
        d = 1 / (d if abs(d) > tiny else tiny)
        c = b + a / c
        c = c if abs(c) > tiny else tiny
        delta = c * d
        fraction *= delta
        if abs(delta - 1) < 1e-15 or step > 1_000_000:
            return max(0.0, 1 - scale * fraction)


def _normal_quantile(probability: float) -> float:
    """By bisection on the error function; only a starting value needs it."""
    low, high = -40.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        if 0.5 * math.erfc(-middle / math.sqrt(2)) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Account:
    """What a memory test did, for the sentence. Sizes in bytes, duration in seconds.

    ``untested``: bytes by reason; with ``tested`` they add up to ``total``. ``tests``: names of the tests
    that completed. ``passes``: complete sweeps that verified the whole tested part. ``memory_clocks`` and
    ``temperatures``: all readings over the run, absent ones among them. ``ecc``: "on", "off" or why it is
    not known. ``errors``: wrong words, each time they were seen; ``failing_words``: distinct ones, or absent.
    """

    total: int
    tested: int
    untested: tuple[tuple[str, int], ...]
    tests: tuple[str, ...]
    passes: int
    bytes_verified: int
    duration: float
    memory_clocks: tuple[Reading, ...]
    temperatures: tuple[Reading, ...]
    ecc: str
    errors: int
    failing_words: Reading
    cache_resident: bool = False


def sentence(account: Account) -> str:
    """Coverage, passes, conditions, the bound, and what the run cannot exclude, in one short paragraph."""
    if account.bytes_verified <= 0:
        return f"{_coverage(account)}; nothing was verified, so nothing can be said about this memory."
    parts = [f"{_coverage(account)}; {_work(account)} {_conditions(account)}.", _claims(account)]
    if account.cache_resident:
        parts.append("The tested part fits into the cache: this says more about the cache than about the memory.")
    hours = account.duration / 3600
    parts.append(f"A fault that shows once a week would be missed with {_probability(miss_probability(hours))}.")
    return " ".join(parts)


def _coverage(account: Account) -> str:
    share = 100 * account.tested / account.total if account.total > 0 else 0.0
    shown = f"{share:.1f}" if account.tested == account.total or share < 99.95 else f"{math.floor(share * 10) / 10:.1f}"
    text = f"{shown} % of {_mib(account.total)} MiB verified"
    if account.bytes_verified <= 0:
        text = f"{_mib(account.tested)} of {_mib(account.total)} MiB allocated"
    reasons = [(reason, size) for reason, size in account.untested if size > 0]
    if not reasons:
        return text
    listed = ", ".join(f"{reason} {_mib(size)}" for reason, size in reasons)
    return f"{text} ({_mib(sum(size for _, size in reasons))} MiB not tested: {listed})"


def _mib(size: int) -> str:
    value = size / 2**20
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}"


def _work(account: Account) -> str:
    tests, passes = len(account.tests), account.passes
    return (
        f"{tests} {'test' if tests == 1 else 'tests'}, {passes:,} {'pass' if passes == 1 else 'passes'}, "
        f"{_decimal_bytes(account.bytes_verified)} verified in {_time(account.duration)}"
    )


def _decimal_bytes(size: int) -> str:
    for prefix, factor in (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= 0.1 * factor:
            return f"{size / factor:.3g} {prefix}" if size < 1000 * factor else f"{size / factor:,.0f} {prefix}"
    return f"{size:,} bytes"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _conditions(account: Account) -> str:
    clock = _range(account.memory_clocks, Unit.HERTZ, 1e6, "MHz", "memory clock")
    heat = _range(account.temperatures, Unit.CELSIUS, 1, "°C", "temperature")
    return f"at {clock}, {heat}, ECC {account.ecc}"


def _range(readings: Sequence[Reading], unit: Unit, factor: float, symbol: str, what: str) -> str:
    values = [item.value / factor for item in readings if isinstance(item, Quantity) and item.unit is unit]
    if values:
        low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
        return f"{low} {symbol}" if low == high else f"{low} to {high} {symbol}"
    reasons = [item.reason for item in readings if isinstance(item, Absent)]
    return f"{what} not known ({reasons[0]})" if reasons else f"{what} not known"


_FINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "stuck bit",
        (
            "moving_inversions",
            "march_c",
            "mats_plus_plus",
            "checkerboard",
            "user_pattern",
            "bit_fade",
            "own_address",
            "rotated_address",
            "random",
        ),
    ),
    ("transition", ("moving_inversions", "march_c", "mats_plus_plus")),
    ("decoder fault", ("own_address", "rotated_address", "random")),
)
"""Which tests find every fault of a class that lies in the tested part, whatever the order of their accesses.

Each pass of these tests verifies every bit as 0 and as 1, and those of transitions verify it after both changes
(van de Goor 1991). Decoder faults are left to words that differ from address to address: March tests would find them
by their order, which a device that runs many blocks at once does not keep.
"""


def _claims(account: Account) -> str:
    if account.errors:
        return _error_claim(account)
    found = [fault for fault, tests in _FINDS if set(tests) & set(account.tests)]
    bound = zero_error_bound(account.bytes_verified)
    rate = f"for intermittent faults: < {_power(bound)} errors per byte verified (95 %)."
    if not found or account.passes < 1:
        return "It does not show every stuck bit, transition or decoder fault; " + rate
    listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"
    hidden = " (but single bits that ECC corrects, which its counters tell)" if account.ecc == "on" else ""
    return f"Finds every {listed} in the tested part{hidden}; {rate}"


def _error_claim(account: Account) -> str:
    low, high = error_rate(account.errors, account.bytes_verified)
    words = account.failing_words
    where = f" in {words.value:,} words" if isinstance(words, Quantity) else ""
    return (
        f"{account.errors:,} {'error' if account.errors == 1 else 'errors'}{where}: {_power(low)} to {_power(high)} "
        "errors per byte verified (95 %, if they were independent, which errors of one fault are not)."
    )


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def _probability(value: float) -> str:
    if value > 0.9999:
        return "p > 99.99 %"
    if value < 0.0001:
        return "p < 0.01 %"
    return f"p = {100 * value:.3g} %" if value < 0.99 else f"p = {100 * value:.2f} %"
