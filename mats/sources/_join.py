"""Pictures from several sources as one: of a GPU that stands in two files, or of a machine with many files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar

from mats.facts import UNASKED, GpuFacts, LinkFacts, MachineFacts, Text
from mats.model import Absent, Quantity

T = TypeVar("T")


def join(first: T, second: T) -> T:
    """Two pictures of one thing as one: the first has the word, the second fills what is absent there."""
    if isinstance(first, tuple) and not first:
        return second if isinstance(second, tuple) else first
    if isinstance(first, tuple) and isinstance(second, tuple) and all(isinstance(each, LinkFacts) for each in first):
        return _join_links(first, second)  # type: ignore[return-value]
    if isinstance(first, Absent):
        keeps = isinstance(second, Absent) and (second is UNASKED or first is not UNASKED)
        return first if keeps else second
    if isinstance(first, Quantity) or not dataclasses.is_dataclass(first) or type(first) is not type(second):
        return first
    names = [field.name for field in dataclasses.fields(first)]
    values = {name: join(getattr(first, name), getattr(second, name)) for name in names}
    joined: Any = type(first)
    return joined(**values)  # type: ignore[no-any-return]


def _join_links(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    links = {each.link: each for each in first}
    for each in second:
        links[each.link] = join(links[each.link], each) if each.link in links else each
    return tuple(links[number] for number in sorted(links))


def join_machines(machines: Iterable[MachineFacts]) -> MachineFacts:
    """Pictures of one machine as one; GPUs are matched by UUID, else by PCI address, else by index."""
    whole = MachineFacts()
    for machine in machines:
        mine, theirs = whole.gpus, machine.gpus
        whole = join(whole, machine)
        if not isinstance(mine, Absent) and not isinstance(theirs, Absent):
            whole = dataclasses.replace(whole, gpus=_join_gpus(mine, theirs))
        if machine.partial and not whole.partial:
            whole = dataclasses.replace(whole, partial=machine.partial)
    return whole


def _join_gpus(first: tuple[GpuFacts, ...], second: tuple[GpuFacts, ...]) -> tuple[GpuFacts, ...]:
    gpus = list(first)
    for other in second:
        place = next((place for place, gpu in enumerate(gpus) if _same(gpu, other)), None)
        if place is None:
            gpus.append(other)
        else:
            joined = join(gpus[place], other)
            gpus[place] = dataclasses.replace(joined, name=_whole_name(joined.name, other.name))
    return tuple(gpus)


def _same(first: GpuFacts, second: GpuFacts) -> bool:
    """Whether two pictures are of one GPU: the first word that both know of uuid, PCI address and index decides."""
    for name in ("uuid", "pci", "index"):
        mine, theirs = getattr(first, name), getattr(second, name)
        if not isinstance(mine, Absent) and not isinstance(theirs, Absent):
            return bool(mine == theirs)
    return False


def _whole_name(first: Text, second: Text) -> Text:
    """A table clips names (``Tesla V100-SXM2...``); another source has them whole."""
    clipped = isinstance(first, str) and first.endswith("...")
    return second if clipped and isinstance(second, str) and not second.endswith("...") else first
