"""What other tools concluded, in the words of the whole picture: evidence beside our own verdict, not in its place."""

from __future__ import annotations

from collections.abc import Iterator

from mats.facts import ClaimFacts, ClaimStatus
from mats.model import AbsenceKind, Absent, Quantity, Reading, Run, Unit, Verdict
from mats.sources._outside_logs import ControllerEvent, WindowsEvent
from mats.sources.dcgm import DcgmDiag, DcgmHealth, DcgmResult, DcgmSample, DcgmTest, Status

_WHOLE = Absent(AbsenceKind.NOT_FOUND, "GPU: the claim names none")
_DCGM = {
    Status.PASS: ClaimStatus.PASS,
    Status.WARN: ClaimStatus.WARN,
    Status.FAIL: ClaimStatus.FAIL,
    Status.SKIP: ClaimStatus.SKIP,
    Status.UNKNOWN: ClaimStatus.UNKNOWN,
}
_HEALTH = {"healthy": ClaimStatus.PASS, "warning": ClaimStatus.WARN, "failure": ClaimStatus.FAIL}
_VERDICTS = {
    Verdict.PASS: ClaimStatus.PASS,
    Verdict.WARN: ClaimStatus.WARN,
    Verdict.FAIL: ClaimStatus.FAIL,
    Verdict.UNKNOWN: ClaimStatus.UNKNOWN,
    Verdict.ERROR: ClaimStatus.UNKNOWN,
}
_WIDTH = 500


def diag_claims(diag: DcgmDiag) -> tuple[ClaimFacts, ...]:
    """One for each test and GPU; of a test whose results by GPU are not told, what it came to as a whole."""
    claims = [claim for test in diag.tests for claim in _test_claims(test)]
    if diag.error:
        claims.append(
            ClaimFacts("dcgmi diag", "the diagnostic itself", ClaimStatus.UNKNOWN, _WHOLE, diag.error[:_WIDTH])
        )
    return tuple(claims)


def _test_claims(test: DcgmTest) -> Iterator[ClaimFacts]:
    what = f"{test.name}, round {test.iteration + 1}" if test.iteration else test.name
    said = " ".join(message.text for message in test.warnings)
    for result in test.results:
        words = " ".join((*(message.text for message in result.warnings), *result.info))
        yield ClaimFacts("dcgmi diag", what, _DCGM[result.status], _entity(result), (words or said)[:_WIDTH])
    if not test.results:
        status = ClaimStatus.UNKNOWN if isinstance(test.summary, Absent) else _DCGM[test.summary]
        yield ClaimFacts("dcgmi diag", what, status, _WHOLE, said[:_WIDTH])


def _entity(result: DcgmResult) -> Reading:
    if isinstance(result.entity, Absent):
        return result.entity
    if result.group.upper() != "GPU":
        return Absent(AbsenceKind.NOT_FOUND, f"GPU: the test was of {result.group} {result.entity}")
    return Quantity(result.entity, Unit.COUNT)


def health_claims(health: DcgmHealth) -> tuple[ClaimFacts, ...]:
    """The word for the whole, and each watch that saw something. "Healthy" is what DCGM's watches saw, no more."""
    claims = []
    if not isinstance(health.overall, Absent):
        status = _HEALTH.get(health.overall.casefold(), ClaimStatus.UNKNOWN)
        claims.append(ClaimFacts("dcgmi health", "overall", status, _WHOLE, health.overall))
    for trouble in health.troubles:
        status = _HEALTH.get(trouble.word.casefold(), ClaimStatus.UNKNOWN)
        number = next(
            (place for name, place in zip(trouble.place, trouble.place[1:], strict=False) if name == "GPU"), ""
        )
        gpu = Quantity(int(number[:9]), Unit.COUNT) if number.isascii() and number.isdigit() else _WHOLE
        claims.append(ClaimFacts("dcgmi health", " ".join(trouble.place), status, gpu, trouble.word[:_WIDTH]))
    return tuple(claims)


def dmon_claims(samples: tuple[DcgmSample, ...]) -> tuple[ClaimFacts, ...]:
    """The last Xid of each GPU, of its last sample; 0 is none. Other columns are not of health and not taken."""
    latest = {sample.entity: sample for sample in samples}
    claims = []
    for entity, sample in latest.items():
        xid = sample.last_xid
        if isinstance(xid, Absent):
            continue
        kind, _, number = entity.rpartition(" ")
        gpu = Quantity(int(number), Unit.COUNT) if kind.upper() == "GPU" else _WHOLE
        status = ClaimStatus.WARN if xid else ClaimStatus.PASS
        claims.append(ClaimFacts("dcgmi dmon", "last Xid", status, gpu, f"Xid {xid}" if xid else "no Xid"))
    return tuple(claims)


def controller_claims(events: tuple[ControllerEvent, ...]) -> tuple[ClaimFacts, ...]:
    """Entries about PCI or a bus: they can be signs of the fault that hit a GPU, and name no card."""
    return tuple(
        ClaimFacts("management controller", event.sensor, _controller_status(event), _WHOLE, _controller_text(event))
        for event in events
        if event.about_bus
    )


def _controller_status(event: ControllerEvent) -> ClaimStatus:
    return ClaimStatus.PASS if event.asserted is False else ClaimStatus.WARN


def _controller_text(event: ControllerEvent) -> str:
    date = "at a time not told" if isinstance(event.wall, Absent) else f"{event.wall:%Y-%m-%d %H:%M:%S}"
    return f"{event.text}, {' '.join((date, event.zone)).strip()}; it names no card"[:_WIDTH]


def windows_claim(event: WindowsEvent) -> ClaimFacts:
    """An event of the Windows driver: it has no Xid, and its number does not tell the cause."""
    number = "" if isinstance(event.number, Absent) else f" {event.number}"
    device = "" if isinstance(event.device, Absent) else f", {event.device}"
    text = f"the driver reported an error{device}; Windows has no Xid: the cause is unknown"
    return ClaimFacts("Windows event log", f"nvlddmkm event{number}", ClaimStatus.WARN, _WHOLE, text, event.pci)


def run_claims(run: Run) -> tuple[ClaimFacts, ...]:
    """What an earlier run of mats came to, probe by probe."""
    claims = []
    for result in run.results:
        said = "; ".join(dict.fromkeys(f"{finding.code} {finding.title}" for finding in result.findings))
        what = f"{result.probe} on {result.target}"
        claims.append(ClaimFacts(run.tool, what, _VERDICTS[result.verdict], _WHOLE, (said or result.reason)[:_WIDTH]))
    return tuple(claims)
