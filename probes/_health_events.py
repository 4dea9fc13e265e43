"""Checks of what the log tells and what other tools claim: incidents by grade and age, and claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mats.facts import (
    ClaimFacts,
    ClaimStatus,
    IncidentFacts,
    IncidentGrade,
    MachineFacts,
    PciDevice,
    RecoveryAction,
    pci_address,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_card import PORTS, Card, Labels, MachineCheck, Seen, check, not_chosen
from ._health_limits import WINDOW
from ._health_text import age, listed, plural

_SERIOUS = (IncidentGrade.LINK, IncidentGrade.RESET, IncidentGrade.REBOOT, IncidentGrade.SERVICE)
_SUSPECT = (IncidentGrade.CHECK,)
_CLASSES = ("serious", "suspect", "unclear", "minor", "old")
_TOGETHER = ("minor", "old")
"""Classes whose incidents of one GPU are told in one finding."""
_NOT_ASKED = "it is of a GPU that was not asked about"
_STRANGER = "no GPU that is listed has this address: the driver has lost it, or the log is of another machine"
_FRESH = 3600.0
"""Seconds within which the log has the word over a driver that wants nothing done; a convention."""
_SHORT, _VIEWS, _LATEST = 40, 6, 6
_LINES = 4
"""Lines of the log that stand in the evidence; the saved run's table has the rest."""


def log_read(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """How many incidents the log holds, or why it could not be read."""
    log = machine.log
    reading: Reading = log if isinstance(log, Absent) else Quantity(len(log.incidents), Unit.COUNT)
    yield from check("log.incidents", reading, statistic="" if isinstance(log, Absent) else log.covers)


def incidents(machine: MachineFacts, cards: tuple[Card, ...], window: float = WINDOW) -> Iterator[Seen]:
    """Each incident under the limit of its grade; those that are over, as notes. ``window`` in seconds."""
    log = machine.log
    if isinstance(log, Absent):
        for name in _CLASSES:
            yield from check(f"log.{name}", log)
        return
    told: dict[tuple[str, Labels], list[_Told]] = {}
    for place, incident in enumerate(log.incidents):
        card = card_of(incident, cards)
        other = not_chosen(machine, incident.pci, cards)
        name = "minor" if other else _class(incident, window)
        if name == "serious" and _cured(incident, card):
            name = "suspect"
        apart = () if name in _TOGETHER else (("incident", str(place + 1)),)
        aside = _NOT_ASKED if other else _STRANGER if _is_stranger(incident, card, cards) else ""
        told.setdefault((name, (*_labels(incident, card), *apart)), []).append(_Told(incident, card, aside))
    for (name, labels), group in told.items():
        yield from _incidents(name, labels, group)
    for name in _CLASSES:
        hit = [set(labels) for other, labels in told if other == name]
        if not hit:
            yield from check(f"log.{name}", Quantity(0, Unit.COUNT))
        for card in cards if hit else ():
            if not any(set(card.labels) <= labels for labels in hit):
                yield from card.check(f"log.{name}", Quantity(0, Unit.COUNT))


def _is_stranger(incident: IncidentFacts, card: Card | None, cards: Sequence[Card]) -> bool:
    own = any(isinstance(each.gpu.pci, str) for each in cards)
    return card is None and own and isinstance(incident.pci, str) and incident.kind not in PORTS


@dataclass(frozen=True, slots=True)
class _Told:
    """An incident with the GPU it is of; ``aside``: why it is of none of those that are looked at, or empty."""

    incident: IncidentFacts
    card: Card | None
    aside: str

    @property
    def clause(self) -> str:
        return f"{title(self.incident, self.card)}, {_when(self.incident)}"


def _incidents(name: str, labels: Labels, group: list[_Told]) -> Iterator[Seen]:
    """One finding: of a grave incident alone, of those that only inform together."""
    last = group[-1]
    where = f"{last.card.title}: " if last.card else ""
    says = last.clause if len(group) == 1 else f"{plural(len(group), 'incident')}, the last: {last.clause}"
    evidence = [last.aside] if last.aside else []
    evidence += [f"{each.clause}: {listed(each.incident.explains[:1])}" for each in group[-_LATEST:-1]]
    yield from check(
        f"log.{name}",
        Quantity(len(group), Unit.COUNT),
        f"{where}{says}",
        evidence=[*evidence, *_evidence(last.incident, last.card)],
        advice=" ".join(dict.fromkeys(each.incident.advice for each in group[-_LATEST:])),
        labels=labels,
        fault=last.incident.kind,
    )


def title(incident: IncidentFacts, card: Card | None) -> str:
    """Without the address where the GPU is named already."""
    if card is None or isinstance(incident.pci, Absent):
        return incident.title
    return incident.title.replace(f" on {incident.pci}", "") if incident.pci == card.gpu.pci else incident.title


def _class(incident: IncidentFacts, window: float) -> str:
    """Under which limit it stands: what is over is only a note. One without a date counts as of now."""
    grade = incident.grade
    if incident.restarts_after or (isinstance(incident.age, Quantity) and incident.age.value > window):
        return "old"
    if grade in _SERIOUS:
        return "serious"
    if grade in _SUSPECT or (incident.kind == "memory" and grade is IncidentGrade.APPLICATION):
        return "suspect"  # a contained memory error is no mistake of the program that met it
    if grade is IncidentGrade.UNCLEAR:
        return "unclear"
    return "minor"


def _cured(incident: IncidentFacts, card: Card | None) -> bool:
    """The GPU answers, its driver wants nothing done, and that not only since a moment: it was reset since."""
    if card is None or isinstance(incident.age, Absent):
        return False
    fine = card.gpu.recovery.action is RecoveryAction.NONE and card.gpu.answers is True
    return fine and incident.age.value > _FRESH


def _when(incident: IncidentFacts) -> str:
    if isinstance(incident.age, Absent):
        return "at a time that the log does not tell"
    if "last line" not in incident.age_from:
        return age(incident.age)
    return age(incident.age, "before the log ends") if incident.age.value >= 1 else "at the end of the log"


def _evidence(incident: IncidentFacts, card: Card | None) -> list[str]:
    said = [*incident.explains]
    if incident.related:
        said.append(f"also hit by it: {listed(incident.related)}")
    said += _against(incident, card)
    if not incident.count_known and not any("how often" in line for line in said):
        said.append("the driver limits how often it prints this: the number of lines means nothing")
    return [*said, *(f"log: {line.strip()}" for line in incident.lines[:_LINES]), *_disputes(incident.conflicts)]


def _disputes(conflicts: tuple[str, ...]) -> list[str]:
    """One line for each event on which sources disagree: ``sources differ on Xid 94: NVIDIA: ..., DCGM: ...``."""
    by_event: dict[str, list[str]] = {}
    for conflict in conflicts:
        event, colon, view = conflict.partition(": ")
        known = bool(colon) and event.partition(" ")[0] in ("Xid", "SXid")
        by_event.setdefault(event if known else "", []).append(view if known else conflict)
    return [
        f"sources differ{f' on {event}' if event else ''}: {'; '.join(views[:_VIEWS])}"
        for event, views in by_event.items()
    ]


def _against(incident: IncidentFacts, card: Card | None) -> list[str]:
    """What the GPU itself says now, where that sounds otherwise."""
    if card is None or incident.grade not in _SERIOUS:
        return []
    action = card.gpu.recovery.action
    if action is RecoveryAction.NONE:
        return ["the driver's recovery action is 'none' now: the GPU may have been reset since, the log does not tell"]
    return []


def card_of(incident: IncidentFacts, cards: Sequence[Card]) -> Card | None:
    """The GPU an incident is of: by its address, or the one GPU below the port that is named."""
    if isinstance(incident.pci, Absent):
        return None
    address = pci_address(incident.pci)
    for card in cards:
        if card.gpu.pci == address:
            return card
    below = [card for card in cards if isinstance(card.device, PciDevice) and _below(card.device, address)]
    return below[0] if len(below) == 1 else None


def _below(device: PciDevice, port: str | Absent) -> bool:
    return not isinstance(device.upstream, Absent) and port in device.upstream


def _labels(incident: IncidentFacts, card: Card | None) -> Labels:
    if card is not None:
        return card.labels
    if isinstance(incident.pci, Absent):
        return ()
    return (("device" if incident.kind in PORTS else "gpu", incident.pci),)


def claims(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """What DCGM and others concluded: their failures count, their silence does not."""
    if not machine.claims:
        none = Absent(AbsenceKind.NOT_TESTED, "other tools' results: there are none in what was read")
        for name in ("failed", "warned", "skipped"):
            yield from check(f"claims.{name}", none)
        return
    for name, status in (("failed", ClaimStatus.FAIL), ("warned", ClaimStatus.WARN)):
        found = [claim for claim in machine.claims if claim.status is status]
        groups = dict.fromkeys(_claim_labels(claim, cards) for claim in found)
        for labels in groups:
            mine = [claim for claim in found if _claim_labels(claim, cards) == labels]
            tools = listed(claim.tool for claim in mine)
            yield from check(
                f"claims.{name}",
                Quantity(len(mine), Unit.COUNT),
                f"{_of(mine[0])}{tools} {'found a fault' if name == 'failed' else 'warns'}: "
                f"{listed(claim.what for claim in mine)}",
                evidence=[_claim(claim) for claim in mine],
                labels=labels,
            )
        if not found:
            yield from check(f"claims.{name}", Quantity(0, Unit.COUNT))
    yield from _skipped(machine)


def _skipped(machine: MachineFacts) -> Iterator[Seen]:
    left = [claim for claim in machine.claims if claim.status in (ClaimStatus.SKIP, ClaimStatus.UNKNOWN)]
    tests: dict[str, list[str]] = {}
    for claim in left:
        tests.setdefault(claim.what, []).append(_on(claim).removeprefix(" on GPU "))
    yield from check(
        "claims.skipped",
        Quantity(len(tests), Unit.COUNT),
        f"{plural(len(tests), 'test')} of other tools did not run or did not end: skipped is not passed",
        evidence=[listed((f"{what}{_gpus(on)}" for what, on in tests.items()), 16)],
    )


def _gpus(labels: list[str]) -> str:
    return f" (GPU {listed(labels, 16)})" if any(labels) else ""


def _claim_labels(claim: ClaimFacts, cards: Sequence[Card]) -> Labels:
    tool = ("tool", claim.tool)
    if isinstance(claim.gpu, Quantity):
        return (("gpu", str(int(claim.gpu.value))), tool)
    if isinstance(claim.pci, Absent):
        return (tool,)
    known = next((card.label for card in cards if card.gpu.pci == claim.pci), claim.pci)
    return (("gpu", known), tool)


def _of(claim: ClaimFacts) -> str:
    if isinstance(claim.gpu, Quantity):
        return f"GPU {int(claim.gpu.value)} (by {claim.tool}'s own number): "
    return f"{claim.pci}: " if isinstance(claim.pci, str) else ""


def _on(claim: ClaimFacts) -> str:
    return f" on GPU {int(claim.gpu.value)}" if isinstance(claim.gpu, Quantity) else ""


def _claim(claim: ClaimFacts) -> str:
    return f"{claim.tool}, {claim.what}: {claim.status.value}" + (f" ({claim.text})" if claim.text else "")


def praise(machine: MachineFacts) -> tuple[str, ...]:
    """Tools that found nothing: said, and never a reason for a verdict."""
    good: dict[tuple[str, str], list[str]] = {}
    for claim in machine.claims:
        if claim.status is ClaimStatus.PASS:
            said = claim.text if claim.text and len(claim.text) < _SHORT else "passed"
            good.setdefault((f"{claim.tool}, {claim.what}", said), []).append(_on(claim).removeprefix(" on GPU "))
    return tuple(f"{what}: {said}{_gpus(gpus)}" for (what, said), gpus in good.items())


CHECKS: tuple[MachineCheck, ...] = (log_read, claims)
