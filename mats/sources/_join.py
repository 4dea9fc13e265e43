"""Pictures from several sources as one: of a GPU that stands in two files, or of a machine with many files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import reduce
from typing import Any, TypeVar

from mats.facts import UNASKED, GpuFacts, IncidentFacts, LinkFacts, LogFacts, MachineFacts, PciDevice, Text
from mats.model import Absent, Quantity

T = TypeVar("T")
_IDENTITY = ("uuid", "pci", "index")
"""What tells GPUs apart, the surest first."""


def join(first: T, second: T) -> T:
    """Two pictures of one thing as one: the first has the word, the second fills what is absent there."""
    if isinstance(first, tuple) and not first:
        return second if isinstance(second, tuple) else first
    if isinstance(first, tuple) and isinstance(second, tuple):
        return _join_lists(first, second)  # type: ignore[return-value]
    if isinstance(first, Absent):
        keeps = isinstance(second, Absent) and (second == UNASKED or first != UNASKED)
        return first if keeps else second
    if isinstance(first, PciDevice) and isinstance(second, PciDevice):
        answers = first.answers and second.answers
        return dataclasses.replace(_join_fields(first, second), answers=answers)
    if isinstance(first, Quantity) or not dataclasses.is_dataclass(first) or type(first) is not type(second):
        return first
    return _join_fields(first, second)


def _join_fields(first: T, second: T) -> T:
    assert dataclasses.is_dataclass(first)
    names = [field.name for field in dataclasses.fields(first)]
    values = {name: join(getattr(first, name), getattr(second, name)) for name in names}
    joined: Any = type(first)
    return joined(**values)  # type: ignore[no-any-return]


def _join_lists(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Links by their number and devices by their address; of other lists the first stands."""
    if all(isinstance(each, LinkFacts) for each in (*first, *second)):
        links = _by_key(first, second, "link")
        return tuple(links[number] for number in sorted(links))
    if all(isinstance(each, PciDevice) for each in (*first, *second)):
        return tuple(_by_key(first, second, "address").values())
    return first


def _by_key(first: tuple[Any, ...], second: tuple[Any, ...], name: str) -> dict[Any, Any]:
    known = {getattr(each, name): each for each in first}
    for each in second:
        key = getattr(each, name)
        known[key] = join(known[key], each) if key in known else each
    return known


def join_machines(machines: Iterable[MachineFacts]) -> MachineFacts:
    """Pictures of one machine as one; GPUs are matched by UUID, else by PCI address, else by index.

    The earlier picture has the word; claims, notes, runs of other tools and incidents of the log are gathered from all.
    """
    whole = MachineFacts()
    for machine in machines:
        whole = _joined(whole, machine)
    return whole


def _joined(first: MachineFacts, second: MachineFacts) -> MachineFacts:
    whole = join(first, second)
    if not isinstance(first.gpus, Absent) and not isinstance(second.gpus, Absent):
        whole = dataclasses.replace(whole, gpus=_join_gpus(first.gpus, second.gpus))
    if isinstance(first.log, LogFacts) and isinstance(second.log, LogFacts):
        whole = dataclasses.replace(whole, log=_join_logs(first.log, second.log))
    return dataclasses.replace(
        whole,
        claims=_gathered(first.claims, second.claims),
        slow_calls=_gathered(first.slow_calls, second.slow_calls),
        notes=_gathered(first.notes, second.notes),
        transfers=_gathered(first.transfers, second.transfers),
        caches=(*first.caches, *second.caches),
        partial=first.partial or second.partial,
        simulated=first.simulated or second.simulated,
        devices_assumed="; ".join(
            dict.fromkeys(each for each in (first.devices_assumed, second.devices_assumed) if each)
        ),
    )


def _gathered(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    """What every source adds, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def _join_gpus(first: tuple[GpuFacts, ...], second: tuple[GpuFacts, ...]) -> tuple[GpuFacts, ...]:
    gpus = list(first)
    for other in second:
        place = _place(gpus, other)
        if place is None:
            gpus.append(other)
            continue
        whole = _join_two(gpus[place], other)
        # What was known by its address alone and by its number alone may turn out to be one GPU.
        twins = [twin for twin in (*gpus[:place], *gpus[place + 1 :]) if _agree(whole, twin)]
        gpus[place] = reduce(_join_two, twins, whole)
        gpus = [gpu for gpu in gpus if not any(gpu is twin for twin in twins)]
    return tuple(gpus)


def _place(gpus: list[GpuFacts], other: GpuFacts) -> int | None:
    """Where the GPU stands that is the same, by the surest sign that both know."""
    for sign in _IDENTITY:
        for place, gpu in enumerate(gpus):
            if _sign(gpu, other) == sign and _agree(gpu, other):
                return place
    return None


def _sign(first: GpuFacts, second: GpuFacts) -> str:
    """The surest of uuid, PCI address and index that both pictures know, or nothing."""
    for name in _IDENTITY:
        if not isinstance(getattr(first, name), Absent) and not isinstance(getattr(second, name), Absent):
            return name
    return ""


def _agree(first: GpuFacts, second: GpuFacts) -> bool:
    """Whether two pictures are of one GPU."""
    sign = _sign(first, second)
    return bool(sign) and bool(getattr(first, sign) == getattr(second, sign))


def _join_two(first: GpuFacts, second: GpuFacts) -> GpuFacts:
    return dataclasses.replace(join(first, second), name=_whole_name(first.name, second.name))


def _whole_name(first: Text, second: Text) -> Text:
    """A table clips names (``Tesla V100-SXM2...``), and the bus has names of chips; another source has them whole."""
    if not isinstance(second, str):
        return first
    if isinstance(first, str) and first.endswith("...") and not second.endswith("..."):
        return second
    return second if isinstance(first, Absent) else first


def _join_logs(first: LogFacts, second: LogFacts) -> LogFacts:
    """An incident that both tell of is one; each log may hold several that read alike."""
    seen = [_told(incident) for incident in first.incidents]
    added = []
    for incident in second.incidents:
        if _told(incident) in seen:
            seen.remove(_told(incident))
        else:
            added.append(incident)
    return LogFacts(
        incidents=(*first.incidents, *added),
        origin=", ".join(dict.fromkeys((first.origin, second.origin))),
        covers=f"{first.origin}: {first.covers}; {second.origin}: {second.covers}",
        from_start=first.from_start or second.from_start,
        left_out=first.left_out + second.left_out,
        quoted=first.quoted + second.quoted,
    )


def _told(incident: IncidentFacts) -> tuple[object, ...]:
    return incident.kind, incident.pci, incident.xids, incident.explains
