"""Checks of NVLink in its context (MIG, bridges, neighbours of the same machine) and of the NVSwitch fabric."""

from __future__ import annotations

from collections.abc import Iterator

from mats.facts import LinkFacts, MachineFacts
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit

from ._health_card import NONE, Card, Seen, check, value_of
from ._health_text import listed, number

_BRIDGED = ("PCIE", "PCI-E", "A40", "A30", "A10", "A800", "RTX", "GEFORCE", "QUADRO", "TITAN", "NVL")
"""Words in names of cards that have NVLinks only with a bridge between two of them."""
_REPLAYS = ("replay", "recover")
_BAD = ("true", "yes")
_GOOD = ("none", "no", "false", "not supported", "n/a", "")
_DONE = ("completed", "complete")


def active_links(card: Card) -> Reading:
    """How many of its links are up, by the driver's count or by its list."""
    nvlink = card.gpu.nvlink
    if isinstance(nvlink.active, Quantity) or isinstance(nvlink.links, Absent):
        return nvlink.active
    states = [link.active for link in nvlink.links]
    if not states or any(isinstance(state, Absent) for state in states):
        return nvlink.active
    return Quantity(sum(state is True for state in states), Unit.COUNT)


def links(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Links that are down, judged by the GPU's other links and by its neighbours of the same model."""
    for card in cards:
        active = active_links(card)
        peers = [each for each in cards if each is not card and each.name == card.name]
        most = max((value_of(active_links(each)) or 0 for each in peers), default=0)
        yield from _down(card, active, int(most))
        yield from _errors(card)
        yield from _slow(card)


def _down(card: Card, active: Reading, most: int) -> Iterator[Seen]:
    down = _listed_down(card)
    why: Reading = active
    bridge: Reading = active
    lost: list[str] = []
    if card.sliced and not value_of(active):
        why = bridge = Absent(AbsenceKind.NOT_SUPPORTED, "NVLinks: with MIG on the driver says that all are down")
    elif isinstance(active, Quantity):
        up = int(active.value)
        if up == 0 and most and _has_bridges(card):
            why, bridge = NONE, Quantity(1, Unit.COUNT)
        elif up == 0 and most:
            why, bridge = Quantity(most, Unit.COUNT), NONE
            lost.append(f"{most} are up on other GPUs of this machine")
        elif up:
            missing = max(len(down), most - up)
            why, bridge = Quantity(missing, Unit.COUNT), NONE
            lost.append(f"{up} of its links are up")
            if most > up and len(down) < most - up:
                lost.append(f"{most} are up on other GPUs of the same model")
        elif "SXM" in card.name and (value_of(card.gpu.index) or 0) > 0:
            why, bridge = Quantity(max(1, len(down)), Unit.COUNT), NONE
            lost.append("it is a module of a board with several GPUs, which are joined by NVLink")
        else:
            why = bridge = NONE  # a single GPU without a partner has none up
    if down:
        lost.append(f"down: link {listed([str(each.link) for each in down], 18)}")
    some = "one of its NVLinks is" if value_of(why) == 1 else f"{number(why)} of its NVLinks are"
    says = "all its NVLinks are down" if not value_of(active) else f"{some} down"
    yield from card.check("nvlink.down", why, says, evidence=lost)
    yield from card.check(
        "nvlink.unbridged",
        bridge,
        f"it has no NVLink, {most} are up on other cards",
        evidence=["a bridge joins two cards"],
    )
    yield from card.check("nvlink.active", active)


def _listed_down(card: Card) -> list[LinkFacts]:
    listed_links = card.gpu.nvlink.links
    return [] if isinstance(listed_links, Absent) else [each for each in listed_links if each.active is False]


def _has_bridges(card: Card) -> bool:
    name = card.name.upper()
    return any(word in name for word in _BRIDGED) and "SXM" not in name and "HBM3" not in name


def _errors(card: Card) -> Iterator[Seen]:
    """Counters since the driver was loaded: replays and recoveries, and the rest that is corrected by sending again."""
    told = card.gpu.nvlink.links
    replays: list[tuple[str, Reading]] = []
    others: list[tuple[str, Reading]] = []
    for link in () if isinstance(told, Absent) else told:
        for name, count in link.errors:
            kind = replays if any(word in name for word in _REPLAYS) else others
            kind.append((f"link {link.link}, {name}", count))
    for what, counts, says in (
        ("nvlink.replays", replays, "replays or recoveries counted on its NVLinks"),
        (
            "nvlink.checksums",
            [each for each in others if "error" in each[0] or "crc" in each[0]],
            "errors counted on its NVLinks",
        ),
    ):
        known = [(name, count.value) for name, count in counts if isinstance(count, Quantity)]
        missing = Absent(AbsenceKind.NOT_FOUND, "NVLink error counters: not shown in this source")
        first: Reading = next((count for _, count in counts if isinstance(count, Absent)), missing)
        reading = Quantity(int(sum(value for _, value in known)), Unit.COUNT) if known else first
        hit = [f"{name}: {value:,g}" for name, value in known if value]
        yield from card.check(
            what,
            reading,
            f"{says} since the driver was loaded: {number(reading)}",
            evidence=[*hit[:8], "a total says nothing of when: a rate needs --baseline"],
        )


def _slow(card: Card) -> Iterator[Seen]:
    told = card.gpu.nvlink.links
    speeds = [
        (each.link, each.speed.value)
        for each in (() if isinstance(told, Absent) else told)
        if each.active is True and isinstance(each.speed, Quantity)
    ]
    if not speeds:
        missing: Reading = (
            told
            if isinstance(told, Absent)
            else Absent(AbsenceKind.NOT_FOUND, "speed of the NVLinks: not shown in this source")
        )
        yield from card.check("nvlink.slow", missing)
        return
    best = max(speed for _, speed in speeds)
    slow = [(link, speed) for link, speed in speeds if speed < 0.99 * best]
    yield from card.check(
        "nvlink.slow",
        Quantity(len(slow), Unit.COUNT),
        f"{len(slow)} of its NVLinks are slower than the fastest, {best / 1e9:.3f} GB/s",
        evidence=[f"link {link}: {speed / 1e9:.3f} GB/s" for link, speed in slow],
    )


def fabric(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    """Registration with the NVSwitch fabric, its health in the driver's words, and the service that must run."""
    for card in cards:
        yield from _registered(card, machine)
    yield from _manager(machine, cards)


def _registered(card: Card, machine: MachineFacts) -> Iterator[Seen]:
    facts = card.gpu.fabric
    state = facts.state
    if isinstance(state, Absent) or state.lower() in ("not supported", "n/a"):
        said = (
            state
            if isinstance(state, Absent)
            else Absent(AbsenceKind.NOT_SUPPORTED, "fabric: this GPU is not behind NVSwitch")
        )
        yield from card.check("fabric.failed", said)
        yield from card.check("fabric.limited", said)
        return
    failed, limited = [], []
    status = facts.status if isinstance(facts.status, str) else ""
    if state.lower() in _DONE:
        failed += [f"status: {status}"] if status and status.lower() not in ("success", "n/a") else []
    elif "progress" in state.lower():
        limited.append(f"state: {state}")
    else:
        failed.append(f"state: {state}")
    for name, word in facts.health:
        if isinstance(word, str):
            graver = _health(name.lower(), word.lower())
            failed += [f"{name.replace('_', ' ')}: {word}"] if graver == "failed" else []
            limited += [f"{name.replace('_', ' ')}: {word}"] if graver == "limited" else []
    service = machine.host.fabric_manager
    also = [f"fabric manager: {service}"] if isinstance(service, str) else []
    yield from card.check(
        "fabric.failed",
        Quantity(len(failed), Unit.COUNT),
        f"the fabric says {listed(failed)}",
        evidence=[f"state: {state}", *([f"status: {status}"] if status else []), *also],
    )
    yield from card.check(
        "fabric.limited", Quantity(len(limited), Unit.COUNT), f"the fabric says {listed(limited)}", evidence=also
    )


def _health(name: str, said: str) -> str:
    """What one word of the fabric's health means. Names differ by driver; partition and GFM are good when true."""
    if "summary" in name:
        return "" if said in ("healthy", "n/a", "not supported") else "limited" if "limit" in said else "failed"
    if "config" in name:
        return "" if said in _GOOD else "failed"
    if "unhealthy" in name and said in _BAD:
        return "failed"
    if any(word in name for word in ("bandwidth", "recover", "timeout")):
        return "limited" if said in _BAD or said == "degraded" else ""
    return ""


def _manager(machine: MachineFacts, cards: tuple[Card, ...]) -> Iterator[Seen]:
    host = machine.host
    states = [card.gpu.fabric.state for card in cards if isinstance(card.gpu.fabric.state, str)]
    needed = [state for state in states if state.lower() not in ("not supported", "n/a")]
    reading: Reading = NONE
    said: list[str] = []
    if isinstance(host.fabric_manager, Absent):
        reading = host.fabric_manager
    elif not needed:
        reading = Absent(AbsenceKind.NOT_SUPPORTED, "fabric manager: no GPU says that it is behind NVSwitch")
    else:
        if host.fabric_manager != "active" and any(state.lower() not in _DONE for state in needed):
            said.append(f"the service is {host.fabric_manager}")
        version, driver = host.fabric_manager_version, machine.driver
        if isinstance(version, str) and isinstance(driver, str) and version != driver:
            said.append(f"its version is {version}, that of the driver is {driver}")
        reading = Quantity(len(said), Unit.COUNT)
    yield from check("fabric.manager", reading, f"fabric manager: {listed(said)}")


CHECKS = (links, fabric)
