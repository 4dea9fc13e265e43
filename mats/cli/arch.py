"""``mats arch``: what a GPU is to a compiler, by its name or by asking its driver."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mats.architectures import (
    Architecture,
    Elsewhere,
    Found,
    Near,
    Product,
    architecture,
    find,
    notes,
    of_driver,
    products,
)
from mats.cli._lines import GAP, pairs, table, wrapped
from mats.cli._sheet import Entry, Subject, capability_of, compiling, entry_json, shared, sheet
from mats.cli.exits import ExitCode
from mats.cli.options import Values
from mats.cli.outputs import columns
from mats.cli.world import World
from mats.facts import GpuFacts, MachineFacts
from mats.model import Absent, Quantity
from mats.probe import UsageError
from mats.source import NothingThere
from mats.target import Target, gpus_together, parse_gpu_ids, parse_targets

TIMEOUT = 10.0
"""Seconds that a driver is given to tell about all GPUs."""

EXAMPLE = "mats arch RTX 4090"
WIDEST = 110
"""Longer lines are hard to read, however wide the terminal is."""


def arch(values: Values, world: World) -> int:
    """What ``mats arch`` was asked for: a name, a list of all, or the GPUs of this machine."""
    name = " ".join(values.get("name") or []).strip()
    chosen = values.get("gpu-id") or values.get("target")
    if sum(map(bool, (name, chosen, values.get("list")))) > 1 or (values.get("gpu-id") and values.get("target")):
        raise UsageError("give a name, --gpu-id, --target or --list, and only one of them")
    as_json, width = bool(values.get("json")), min(columns(world), WIDEST)
    if values.get("list"):
        return _list(products(), world, as_json, columns(world))
    if name:
        return _named(name, world, as_json, width)
    return _live(values, world, as_json, width)


def _named(name: str, world: World, as_json: bool, width: int) -> int:
    answer = find(name, products())
    if isinstance(answer, Found):
        subjects = [Subject(product) for product in answer.products]
        world.say(_json(name, subjects, answer) if as_json else "\n".join(_found_text(subjects, answer, width)))
        return ExitCode.OK
    if as_json:
        near = answer.products if isinstance(answer, Near) else ()
        maker = answer.maker if isinstance(answer, Elsewhere) else ""
        said = {"asked": name, "gpus": [], "nearest": [product.name for product in near], "maker": maker}
        world.say(json.dumps(said, indent=2, ensure_ascii=False))
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    if isinstance(answer, Elsewhere):
        world.tell(
            f"mats: {shown!r}: {answer.what}. It is no CUDA device and has no compute capability, neither 8.6 nor 8.9: "
            f"no -gencode flag fits it; {answer.advice}."
        )
        return ExitCode.UNKNOWN
    near_names = ", ".join(product.name for product in answer.products)
    hint = f"the nearest are {near_names}" if near_names else "a name is such as RTX 4090, a capability such as 8.9"
    world.tell(f"mats: no GPU of the table is named {shown!r}: {hint} (mats arch --list shows all)")
    return ExitCode.UNUSABLE


def _found_text(subjects: Sequence[Subject], answer: Found, width: int) -> list[str]:
    if answer.architecture is not None:
        return _capability_text(answer.architecture, answer.products, width)
    sheets = [sheet(subject) for subject in subjects]
    names = [_title(subject) for subject in subjects]
    if len(subjects) == 1:
        lines = [names[0], *pairs([(entry.label, entry.long) for entry in sheets[0]], width)]
        return lines + _notes_text(subjects, width)
    same, apart = shared(sheets)
    lines = [f"{len(subjects)} GPUs may be meant."]
    if same:
        lines += ["", "All of them:", *pairs([(entry.label, entry.long) for entry in same], width)]
    lines += ["", "Each of them:", *_differing(names, sheets, apart, width)]
    return lines + _notes_text(subjects, width)


def _differing(names: list[str], sheets: list[tuple[Entry, ...]], keys: list[str], width: int) -> list[str]:
    keys = [key for key in keys if key not in ("source", "gencode", "gencode_ptx")] or keys
    labels = {entry.key: entry.label for each in sheets for entry in each}
    rows = []
    for name, each in zip(names, sheets, strict=True):
        cells = {entry.key: entry.short for entry in each}
        rows.append([name, *(cells.get(key, "") for key in keys)])
    return table(["", *(labels[key] for key in keys)], rows, width)


def _capability_text(known: Architecture, found: tuple[Product, ...], width: int) -> list[str]:
    rows = [(entry.label, entry.long) for entry in compiling(known.capability)]
    rows.append(("GPUs", "; ".join(product.name for product in found) or "none in the table"))
    return [f"Compute capability {known.capability}", *pairs(rows, width), *_said(notes(known), width)]


def _notes_text(subjects: Sequence[Subject], width: int) -> list[str]:
    capabilities = dict.fromkeys(capability_of(subject) for subject in subjects)
    sentences: dict[str, None] = {}
    for capability in capabilities:
        known = capability if isinstance(capability, Absent) else architecture(capability)
        if not isinstance(known, Absent):
            sentences |= dict.fromkeys(notes(known))
    return _said(tuple(sentences), width)


def _said(sentences: tuple[str, ...], width: int) -> list[str]:
    if not sentences:
        return []
    return ["", "Good to know", *(line for text in sentences for line in wrapped(text, width, f"{GAP}- "))]


def _title(subject: Subject) -> str:
    facts = subject.facts
    if facts is not None and not isinstance(facts.name, Absent):
        return facts.name
    return subject.product.name if subject.product is not None else "a GPU that does not tell its name"


def _json(asked: str, subjects: Sequence[Subject], answer: Found | None) -> str:
    gpus = []
    for subject in subjects:
        product, facts = subject.product, subject.facts
        one: dict[str, object] = {"name": _title(subject)}
        if facts is not None:
            one |= {"index": _plain(facts.index), "uuid": _plain(facts.uuid), "listed_as": product and product.name}
        one |= {entry.key: entry_json(entry) for entry in sheet(subject)}
        gpus.append(one)
    capabilities = dict.fromkeys(capability_of(subject) for subject in subjects)
    if answer is not None and answer.architecture is not None:
        capabilities.setdefault(answer.architecture.capability)
    known = [architecture(each) for each in capabilities if not isinstance(each, Absent)]
    said = dict.fromkeys(text for each in known if not isinstance(each, Absent) for text in notes(each))
    whole: dict[str, object] = {"asked": asked, "gpus": gpus, "notes": list(said)}
    if answer is not None and answer.architecture is not None:
        entries = compiling(answer.architecture.capability)
        whole["compute_capability"] = {entry.key: entry_json(entry) for entry in entries}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, Absent):
        return {"absent": value.reason}
    return value.value if isinstance(value, Quantity) else value


def _list(found: tuple[Product, ...], world: World, as_json: bool, width: int) -> int:
    subjects = [Subject(product) for product in found]
    if as_json:
        world.say(_json("", subjects, None))
        return ExitCode.OK
    heads = ("GPU", "cc", "memory", "peak", "CUDA")
    rows = []
    for product, subject in zip(found, subjects, strict=True):
        cells = {entry.key: entry.short for entry in sheet(subject)}
        memory = f"{product.memory} {product.memory_type}"
        rows.append([product.name, product.capability, memory, cells["peak_bandwidth"], cells["cuda"]])
    world.say("\n".join(table(heads, rows, width)))
    return ExitCode.OK


def _live(values: Values, world: World, as_json: bool, width: int) -> int:
    """The GPUs of this machine, as their driver knows them."""
    try:
        machine = read_machine(source_target(values), world)
    except NothingThere as error:
        world.tell(f"mats: {str(error).rstrip('.')}; a name works without a GPU: {EXAMPLE}")
        return ExitCode.UNKNOWN
    gpus = () if isinstance(machine.gpus, Absent) else machine.gpus
    if not gpus:
        world.tell(f"mats: {_nothing(machine)}; a name works without a GPU: {EXAMPLE}")
        return ExitCode.UNKNOWN
    found = products()
    subjects = [_subject(gpu, machine, found) for gpu in gpus]
    world.say(_json("", subjects, None) if as_json else "\n".join(_live_text(subjects, machine, width)))
    unknown = any(isinstance(capability_of(subject), Absent) for subject in subjects)
    return ExitCode.UNKNOWN if unknown else ExitCode.OK


def source_target(values: Values) -> Target:
    """The one source that ``--gpu-id`` or ``--target`` names; all GPUs of the machine without either."""
    named = values.get("target") or []
    if not named:
        return gpus_together(parse_gpu_ids(values.get("gpu-id") or []))
    targets = parse_targets(named)
    if all(target.kind == "cuda" for target in targets):
        return gpus_together(targets)
    if len(targets) > 1 or targets[0].kind not in ("cuda", "sim"):
        raise UsageError(f"--target: {', '.join(target.name for target in targets)}: give GPUs, or one sim:PROFILE")
    return targets[0]


def read_machine(target: Target, world: World) -> MachineFacts:
    """Everything that is known of the GPUs at this moment. Raises SourceError."""
    source = world.open_source(target, TIMEOUT)
    try:
        return source.read()
    finally:
        source.close()


def _nothing(machine: MachineFacts) -> str:
    failure = machine.nvml_failure
    why = failure if isinstance(failure, str) else machine.gpus.reason if isinstance(machine.gpus, Absent) else ""
    return f"no NVIDIA GPU can be asked: {why}" if why else "there is no NVIDIA GPU here"


def _subject(gpu: GpuFacts, machine: MachineFacts, found: tuple[Product, ...]) -> Subject:
    """The GPU with the one product that it is; where its name leaves several, with none."""
    cuda = machine.cuda if isinstance(machine.cuda, str) else ""
    listed = of_driver(gpu.name, found, gpu.memory.total) if isinstance(gpu.name, str) else ()
    return Subject(listed[0] if len(listed) == 1 else None, gpu, cuda)


def _live_text(subjects: Sequence[Subject], machine: MachineFacts, width: int) -> list[str]:
    """Each GPU; those that are alike in everything are told of once."""
    alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for subject in subjects:
        rows = tuple((entry.label, _live_line(entry)) for entry in sheet(subject))
        index = subject.facts.index if subject.facts is not None else None
        shown = f"{index.value:g}" if isinstance(index, Quantity) else "?"
        alike.setdefault((_title(subject), rows), []).append(shown)
    lines: list[str] = []
    for (title, rows), indices in alike.items():
        lines += [f"GPU {', '.join(indices)}: {title}", *pairs(rows, width), ""]
    driver = machine.driver if isinstance(machine.driver, str) else "of unknown version"
    lines += wrapped(f"Asked of the driver, {driver}. What is marked (table) is from the table of products.", width)
    return lines + _notes_text(subjects, width)


def _live_line(entry: Entry) -> str:
    mark = " (table)" if entry.origin == "table" and entry.key not in ("source", "cuda", "architecture") else ""
    return entry.long + mark + (f"\n{entry.differs}" if entry.differs else "")
