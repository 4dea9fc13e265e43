"""What a GPU is connected to, through NVML: PCIe, NVLink and the NVSwitch fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mats.facts import FabricFacts, Flag, GpuFacts, LinkFacts, NvlinkFacts, PairFacts, PcieFacts, Text, pci_address
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._nvml_answers import Asked, Fields, count, flag, lacks, part, quantity, word
from mats.sources._nvml_child import OTHER, STRUCT

_LINK_COUNT, _LINK_SPEED, _ROLLOVERS = 91, 164, 95
_LINKS_AT_MOST = 36
_LINKS_UNTOLD = 18
"""Links that are asked for where the driver does not tell how many there are."""
_PCIE_COUNTERS = (
    ("l0 to recovery", 169),
    ("correctable errors", 173),
    ("naks received", 174),
    ("receiver errors", 175),
    ("bad tlp", 176),
    ("naks sent", 177),
    ("bad dllp", 178),
    ("non-fatal errors", 179),
    ("fatal errors", 180),
    ("unsupported requests", 181),
    ("lcrc errors", 182),
    ("lane errors", 183),
)
_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""The driver's numbers of NVLink versions."""
_FIFTH = 7
_COUNTERS = (("replay errors", 161, 0), ("recovery errors", 162, 1), ("crc errors", 163, 2))
"""Of NVLink before 5: the fields of newer drivers, and the numbers of ``nvmlDeviceGetNvLinkErrorCounter``."""
_FIFTH_COUNTERS = (
    ("malformed packet errors", 206),
    ("buffer overrun errors", 207),
    ("rx errors", 208),
    ("rx remote errors", 209),
    ("rx general errors", 210),
    ("local link integrity errors", 211),
    ("tx discards", 212),
    ("link recovery successful events", 213),
    ("link recovery failed events", 214),
    ("link recovery events", 215),
    ("effective errors", 219),
    ("symbol errors", 221),
)
_PACKETS = (("packets sent", 201), ("packets received", 203))
_FIFTH_RATES = (("effective ber", 220), ("symbol ber", 222))
"""Shares of bits in error, packed: mantissa in bits 8 to 11, negative exponent of ten in bits 0 to 7."""
_NO_PACKETS = Absent(AbsenceKind.NOT_SUPPORTED, "NVLink packets: counted by NVLink 5 and newer only")
_NO_ERROR = 15 << 8 | 255
"""The smallest share that can be packed stands for none."""
_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
_SUMMARIES = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
_CONFIGURATIONS = {
    1: "None",
    2: "Incorrect system GUID",
    3: "Incorrect chassis serial number",
    4: "No partition",
    5: "Insufficient NVLinks",
    6: "Incompatible GPU firmware",
    7: "Invalid location",
    8: "GPU state invalid",
}
_YES_NO = {1: "True", 2: "False"}
_HEALTH: tuple[tuple[str, int, int, dict[int, str]], ...] = (
    ("bandwidth", 0, 3, {1: "Degraded", 2: "Full"}),
    ("route_recovery_in_progress", 2, 3, _YES_NO),
    ("route_unhealthy", 4, 3, _YES_NO),
    ("access_timeout_recovery", 6, 3, _YES_NO),
    ("incorrect_configuration", 8, 15, _CONFIGURATIONS),
    ("partition_assigned", 12, 3, _YES_NO),
    ("fabric_manager_connected", 14, 3, _YES_NO),
)
"""Name, place and width of each field of the health mask, and its words. 0 is always: not supported."""
_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_SWITCH = 2


def read_pcie(gpu: Asked) -> PcieFacts:
    """The link now and at most; NVML's maximum is what card and slot can together."""
    fields = Fields(gpu, "PCIe counters", _ROLLOVERS, *(field for _, field in _PCIE_COUNTERS))
    errors = tuple((name, count(fields.get(f"PCIe {name}", field))) for name, field in _PCIE_COUNTERS)

    def told(what: str, call: str) -> Reading:
        value = gpu.ask(f"PCIe {what}", call)
        if value == 0 and "Replay" not in call:  # virtual GPUs and WSL
            return Absent(AbsenceKind.UNREADABLE, f"PCIe {what}: the driver says 0")
        return count(value)

    return PcieFacts(
        generation=told("generation now", "CurrPcieLinkGeneration"),
        width=told("width now", "CurrPcieLinkWidth"),
        generation_maximum=told("generation at most", "MaxPcieLinkGeneration"),
        width_maximum=told("width at most", "MaxPcieLinkWidth"),
        generation_device=told("generation of the card", "GpuMaxPcieLinkGeneration"),
        generation_host=Absent(AbsenceKind.NOT_FOUND, "PCIe generation of the slot: NVML does not tell it"),
        replays=told("replays", "PcieReplayCounter"),
        replay_rollovers=count(fields.get("PCIe replay rollovers", _ROLLOVERS)),
        errors=errors if any(isinstance(value, Quantity) for _, value in errors) else (),
    )


def read_nvlink(gpu: Asked) -> NvlinkFacts:
    """Each link that the GPU has. A link that the driver does not support is not there."""
    told = Fields(gpu, "number of NVLinks", _LINK_COUNT).get("number of NVLinks", _LINK_COUNT)
    if isinstance(told, Absent) and told.kind not in (AbsenceKind.NOT_SUPPORTED, AbsenceKind.MISSING_SYMBOL):
        return NvlinkFacts(told, told)
    number = _LINKS_UNTOLD if isinstance(told, Absent) else min(int(told), _LINKS_AT_MOST)
    links = []
    gpu.ahead("NvLinkState", ((link,) for link in range(number)))
    if not isinstance(told, Absent):
        gpu.ahead("NvLinkVersion", ((link,) for link in range(number)))
        gpu.ahead("NvLinkRemotePciInfo", ((link,) for link in range(number)))
    for link in range(number):
        state = gpu.ask(f"NVLink {link}", "NvLinkState", link)
        if isinstance(state, Absent) and state.kind in (AbsenceKind.NOT_SUPPORTED, AbsenceKind.MISSING_SYMBOL):
            if link == 0 and isinstance(told, Absent):
                return NvlinkFacts(state, state)  # neither links nor their number
            continue
        links.append(_link(gpu, link, flag(state)))
    if not links:
        none = Absent(AbsenceKind.NOT_SUPPORTED, "NVLinks: this GPU has none")
        return NvlinkFacts(none, none)
    unknown = [link.active for link in links if isinstance(link.active, Absent)]
    active = unknown[0] if unknown else Quantity(sum(link.active is True for link in links), Unit.COUNT)
    return NvlinkFacts(active, tuple(links))


def _link(gpu: Asked, link: int, active: Flag) -> LinkFacts:
    what = f"NVLink {link}"
    if active is not True:
        why = Absent(AbsenceKind.NOT_SUPPORTED, f"{what}: the link is down") if active is False else active
        assert isinstance(why, Absent)
        return LinkFacts(link, active, why, why, why, packets=why)
    version = gpu.ask(f"{what}, version", "NvLinkVersion", link)
    fifth = not isinstance(version, Absent) and version >= _FIFTH
    names = (*_FIFTH_COUNTERS, *_FIFTH_RATES) if fifth else tuple((name, field) for name, field, _ in _COUNTERS)
    packets = _PACKETS if fifth else ()
    fields = Fields(gpu, what, (_LINK_SPEED, link), *((field, link) for _, field in (*names, *packets)))
    told = {name: fields.get(f"{what}, {name}", field, link) for name, field in names}
    if not fifth:
        for name, _, counter in _COUNTERS:
            if isinstance(told[name], Absent):
                told[name] = gpu.ask(f"{what}, {name}", "NvLinkErrorCounter", link, counter)
    rates = dict(_FIFTH_RATES)
    errors = [(name, _rate(value) if name in rates else count(value)) for name, value in told.items()]
    remote = part(gpu.ask(f"{what}, other end", "NvLinkRemotePciInfo", link), "busId")
    return LinkFacts(
        link,
        active,
        speed=_speed(fields.get(f"{what}, speed", _LINK_SPEED, link), what),
        version=word(f"{what}, version", version, _VERSIONS),
        remote=remote if isinstance(remote, Absent) else pci_address(str(remote)),
        errors=tuple(errors),
        packets=_packets(fields, what, link) if fifth else _NO_PACKETS,
    )


def _packets(fields: Fields, what: str, link: int) -> Reading:
    """The sum of both ways; absent where one of them is."""
    told = [count(fields.get(f"{what}, {name}", field, link)) for name, field in _PACKETS]
    absent = next((each for each in told if isinstance(each, Absent)), None)
    return absent or Quantity(sum(each.value for each in told if isinstance(each, Quantity)), Unit.COUNT)


def _speed(megabytes: Any | Absent, what: str) -> Reading:
    if megabytes == 0:
        return Absent(AbsenceKind.UNREADABLE, f"{what}, speed: the driver says 0")
    return quantity(megabytes, Unit.BYTE_PER_SECOND, 1e6)


def _rate(packed: Any | Absent) -> Reading:
    if isinstance(packed, Absent):
        return packed
    number = int(packed)
    return Quantity(0.0 if number == _NO_ERROR else (number >> 8 & 0xF) / 10 ** (number & 0xFF), Unit.RATIO)


def read_fabric(gpu: Asked) -> FabricFacts:
    """How the GPU is registered with the fabric. Hopper and newer beside an NVSwitch; else not supported."""
    what = "NVSwitch fabric"
    info = gpu.ask(what, "GpuFabricInfoV", (STRUCT, "c_nvmlGpuFabricInfo_v3_t"))
    if lacks(info):
        info = gpu.ask(what, "GpuFabricInfoV", (STRUCT, "c_nvmlGpuFabricInfo_v2_t"))
    if not isinstance(info, Absent) and info["state"] & 0xFF == 0:
        info = Absent(AbsenceKind.NOT_SUPPORTED, f"{what}: this GPU is not part of one")
    if isinstance(info, Absent):
        return FabricFacts(info, info, info, info)
    state = info["state"] & 0xFF  # a byte in the driver, a word in the package
    raw = bytes(info["clusterUuid"]).hex()
    return FabricFacts(
        state=word("fabric state", state, _STATES),
        status=_status(int(info["status"])),
        clique=str(info["cliqueId"]),
        cluster="-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:])),
        health=_health(int(info["healthMask"]), info.get("healthSummary")),
    )


def _status(code: int) -> Text:
    return "Success" if code == 0 else f"failed with NVML code {code}"


def _health(mask: int, summary: int | None) -> tuple[tuple[str, Text], ...]:
    """Each field of the mask by itself: a bit that is set does not mean that something is wrong."""
    told = [("summary", summary & 0xFF, _SUMMARIES)] if summary is not None else []
    told += [(name, mask >> shift & width, words) for name, shift, width, words in _HEALTH]
    health = []
    for name, value, words in told:
        untold = Absent(AbsenceKind.NOT_SUPPORTED, f"fabric {name}: not told for this GPU")
        health.append((name, untold if value == 0 else word(f"fabric {name}", value, words)))
    return tuple(health)


def read_pairs(gpus: Sequence[tuple[int, Asked, GpuFacts]]) -> tuple[PairFacts, ...]:
    """How each two GPUs reach each other: by so many NVLinks, else by the nearest common part of PCIe."""
    pairs = []
    for place, (first, asked, facts) in enumerate(gpus):
        for second, _other, others in gpus[place + 1 :]:
            links = _links_between(facts, others, asked)
            if links:
                pairs.append(PairFacts(first, second, f"NV{links}"))
                continue
            level = asked.ask("connection", "TopologyCommonAncestor", (OTHER, second))
            name = word("connection", level, _ANCESTORS)
            if isinstance(name, str):
                pairs.append(PairFacts(first, second, name))
    return tuple(pairs)


def _links_between(first: GpuFacts, second: GpuFacts, asked: Asked) -> int:
    """Direct ones; where both hang on a switch, as many as the one with fewer has."""
    own = [link for link in _links(first) if link.active is True]
    others = [link for link in _links(second) if link.active is True]
    direct = sum(isinstance(second.pci, str) and link.remote == second.pci for link in own)
    if direct or not own or not others:
        return direct
    switched = asked.ask("other end of an NVLink", "NvLinkRemoteDeviceType", own[0].link) == _SWITCH
    return min(len(own), len(others)) if switched else 0


def _links(gpu: GpuFacts) -> tuple[LinkFacts, ...]:
    return () if isinstance(gpu.nvlink.links, Absent) else gpu.nvlink.links
