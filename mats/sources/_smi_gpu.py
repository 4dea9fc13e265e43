"""One GPU of nvidia-smi, from whichever of its formats: where each fact stands in XML, in ``-q`` text and in CSV.

Names in the paths are those of XML (DTD v9 to v13), then of text, then of ``--help-query-gpu``, in the one spelling of
:func:`mats.sources._smi_values.key`. Source: output of drivers 390 to 595 and the help texts of nvidia-smi.
"""

from __future__ import annotations

from mats.facts import (
    ClockFacts,
    EccCounts,
    EccFacts,
    FabricFacts,
    GpuFacts,
    HeatFacts,
    InforomFacts,
    MemoryFacts,
    NvlinkFacts,
    PcieFacts,
    PowerFacts,
    RecoveryAction,
    RecoveryFacts,
    RetirementFacts,
    Text,
    WindowFacts,
    pci_address,
)
from mats.model import AbsenceKind, Absent, Quantity, Reading, Unit
from mats.sources._smi_remap import read_remap
from mats.sources._smi_values import Fields, Section, add, key, unreadable
from mats.sources._smi_work import read_mig, read_processes, read_reasons, read_time_held

_ACTIONS = {
    "none": RecoveryAction.NONE,
    "reset": RecoveryAction.RESET,
    "gpu_reset": RecoveryAction.RESET,
    "gpu_reset_required": RecoveryAction.RESET,
    "reboot": RecoveryAction.REBOOT,
    "node_reboot": RecoveryAction.REBOOT,
    "node_reboot_required": RecoveryAction.REBOOT,
    "drain_p2p": RecoveryAction.DRAIN_P2P,
    "drain_and_reset": RecoveryAction.DRAIN_AND_RESET,
    "drain_reset": RecoveryAction.DRAIN_AND_RESET,
    "recover_imex": RecoveryAction.RECOVER_IMEX,
    "recover_imex_domain": RecoveryAction.RECOVER_IMEX,
    "imex_domain_recovery": RecoveryAction.RECOVER_IMEX,
    "bus_reset": RecoveryAction.BUS_RESET,
    "system_reboot": RecoveryAction.SYSTEM_REBOOT,
}
"""A word that is not here is never "none": it is shown and unknown."""


def read_gpu(section: Section, driver: Text, gone: str) -> GpuFacts:
    """The GPU of one block. ``gone``: why what the block does not hold is not known."""
    fields = Fields(section, gone)
    mig = read_mig(fields)
    if mig.enabled is True:
        fields = fields.because("N/A; with MIG on the driver does not tell it for the whole GPU")
    return GpuFacts(
        uuid=fields.text("UUID", "uuid gpu_uuid"),
        name=fields.text("name", "product_name name gpu_name"),
        driver=driver,
        temperature=fields.quantity("temperature", Unit.CELSIUS, _TEMPERATURE),
        power=_power(fields),
        performance_state=_performance_state(fields),
        clocks=_clocks(fields),
        ecc=_ecc(fields),
        remap=read_remap(fields),
        memory=read_memory(fields, "memory", "fb_memory_usage", "memory"),
        processes=read_processes(fields),
        index=fields.count("index", "index"),
        pci=_pci(fields),
        serial=fields.text("serial number", "serial serial_number gpu_serial"),
        vbios=fields.text("VBIOS version", "vbios_version"),
        architecture=fields.text("architecture", "product_architecture"),
        answers=_answers(fields),
        retired=_retired(fields),
        heat=_heat(fields),
        power_limits=_power_limits(fields),
        pcie=_pcie(fields),
        window=read_window(fields),
        fabric=_fabric(fields),
        inforom=_inforom(fields),
        recovery=_recovery(fields),
        mig=mig,
        persistence=fields.flag("persistence mode", "persistence_mode"),
        compute_mode=fields.text("compute mode", "compute_mode"),
        driver_model=fields.text("driver model", "driver_model/current_dm driver_model/current driver_model_current"),
        addressing=fields.text("addressing mode", "addressing_mode"),
        virtualisation=fields.text("virtualisation", "gpu_virtualization_mode/virtualization_mode"),
        gsp=fields.text("GSP firmware", "gsp_firmware_version gsp_firmware"),
        busy=fields.quantity("utilisation", Unit.RATIO, "utilization/gpu_util utilization/gpu utilization_gpu"),
        nvlink=NvlinkFacts(fields.missing("active NVLinks"), fields.missing("NVLinks")),
        numa=fields.missing("NUMA node"),
        cpus=fields.missing("processor affinity"),
    )


_HEAT = "temperature/"
_TEMPERATURE = f"{_HEAT}gpu_temp {_HEAT}gpu_current_temp temperature_gpu"
_POWER = ("gpu_power_readings/", "power_readings/")
_LINK = "pci/pci_gpu_link_info/"
_LINK_TEXT = "pci/gpu_link_info/"


def _either(prefixes: tuple[str, ...], *names: str) -> str:
    return " ".join(prefix + name for name in names for prefix in prefixes)


def _pci(fields: Fields) -> Text:
    said = fields.text("PCI address", "pci/pci_bus_id pci/bus_id id pci_bus_id gpu_bus_id")
    return said if isinstance(said, Absent) else pci_address(said)


def _answers(fields: Fields) -> bool | Absent:
    """False where the tool says in place of any value that the GPU is lost."""
    places = [fields.section]
    while places:
        place = places.pop()
        if place.text.strip(" []").lower() == "gpu is lost":
            return False
        places += place.children
    return fields.missing("whether the GPU answers")


def _performance_state(fields: Fields) -> Reading:
    said = fields.text("performance state", "performance_state pstate")
    if isinstance(said, Absent):
        return said
    digits = said.removeprefix("P")
    if said.startswith("P") and digits.isascii() and digits.isdecimal() and len(digits) < 3:
        return Quantity(int(digits), Unit.COUNT)
    return unreadable("performance state", said)


def read_memory(fields: Fields, what: str, block: str, column: str = "-") -> MemoryFacts:
    """Bytes of a GPU or of an instance. What is reserved is told apart since driver 510."""

    def part(name: str) -> Reading:
        return fields.quantity(f"{what}, {name}", Unit.BYTE, f"{block}/{name} {column}_{name}")

    with_reserved = fields.missing(f"{what}, used with what is reserved")
    return MemoryFacts(part("total"), part("reserved"), part("used"), part("free"), with_reserved)


def read_window(fields: Fields) -> WindowFacts:
    """Bytes of BAR1 of a GPU or of an instance."""
    total, used, free = (
        fields.quantity(f"BAR1, {name}", Unit.BYTE, f"bar1_memory_usage/{name}") for name in ("total", "used", "free")
    )
    return WindowFacts(total, used, free)


def _clocks(fields: Fields) -> ClockFacts:
    def clock(what: str, paths: str) -> Reading:
        return fields.quantity(what, Unit.HERTZ, paths)

    return ClockFacts(
        core=clock("core clock", "clocks/sm_clock clocks/sm clocks_sm clocks_current_sm"),
        memory=clock("memory clock", "clocks/mem_clock clocks/memory clocks_mem clocks_current_memory"),
        memory_maximum=clock(
            "maximum memory clock", "max_clocks/mem_clock max_clocks/memory clocks_max_mem clocks_max_memory"
        ),
        reasons=read_reasons(fields),
        held=read_time_held(fields),
        core_maximum=clock("maximum core clock", "max_clocks/sm_clock max_clocks/sm clocks_max_sm"),
    )


def _ecc(fields: Fields) -> EccFacts:
    enabled = fields.flag("ECC mode", "ecc_mode/current_ecc ecc_mode/current ecc_mode_current")
    pending = fields.flag("ECC mode after a reset", "ecc_mode/pending_ecc ecc_mode/pending ecc_mode_pending")
    if enabled is False:
        fields = fields.because("N/A, since ECC is switched off")
    volatile, aggregate = _counts(fields, "volatile"), _counts(fields, "aggregate")
    sources = fields.find("ecc_errors/aggregate_uncorrectable_sram_sources")
    named = [] if sources is None else [(each.name.removeprefix("sram_"), each.name) for each in sources.children]
    below = "ecc_errors/aggregate_uncorrectable_sram_sources/"
    return EccFacts(
        enabled=enabled,
        pending=pending,
        corrected=_total(fields, "corrected", "single_bit", volatile.sram_corrected, volatile.dram_corrected),
        uncorrected=_total(fields, "uncorrected", "double_bit", volatile.sram_uncorrected, volatile.dram_uncorrected),
        volatile=volatile,
        aggregate=aggregate,
        sram_threshold_exceeded=fields.flag("SRAM threshold", "ecc_errors/aggregate/sram_threshold_exceeded"),
        sram_sources=tuple((name, fields.count(f"SRAM errors in {name}", below + path)) for name, path in named),
        channel_repair_pending=fields.flag("channel repair", "ecc_errors/channel_repair_pending"),
        tpc_repair_pending=fields.flag("TPC repair", "ecc_errors/tpc_repair_pending"),
        unrepairable_memory=fields.flag("unrepairable memory", "ecc_errors/unrepairable_memory"),
    )


def _total(fields: Fields, word: str, old: str, sram: Reading, dram: Reading) -> Reading:
    """Since the driver was loaded: as told, else SRAM and DRAM together."""
    paths = f"ecc_errors/volatile/{old}/total ecc_errors_{word}_volatile_total"
    told = fields.count(f"{word} ECC errors", paths)
    return told if fields.find(paths) is not None else add(f"{word} ECC errors", sram, dram)


def _counts(fields: Fields, span: str) -> EccCounts:
    """Errors of one span by location: of today's layout, of CSV, and of the older one with single and double bits."""
    block = f"ecc_errors/{span}/"

    def told(name: str, paths: str) -> Reading:
        return fields.count(f"{span} ECC errors, {name}", paths)

    def older(name: str, bits: str, device: bool) -> Reading:
        memory, total = (told(name, f"{block}{bits}/{row}") for row in ("device_memory", "total"))
        if device or isinstance(memory, Absent):
            return memory
        if isinstance(total, Absent):
            return total
        return Quantity(max(0, int(total.value) - int(memory.value)), Unit.COUNT)

    found: dict[str, Reading] = {}
    for word, name, bits in (
        ("corrected", "correctable", "single_bit"),
        ("uncorrected", "uncorrectable", "double_bit"),
    ):
        for place, column in (("sram", "sram"), ("dram", "dram")):
            paths = f"{block}{place}_{name} ecc_errors_{word}_{span}_{column}"
            what = f"{place.upper()} {word}"
            old = fields.find(block + bits) is not None and fields.find(paths) is None
            found[f"{place}_{word}"] = older(what, bits, place == "dram") if old else told(what, paths)
    parity = told("SRAM parity", f"{block}sram_uncorrectable_parity")
    secded = told("SRAM SEC-DED", f"{block}sram_uncorrectable_secded {block}sram_uncorrectable_sec_ded")
    if fields.find(f"{block}sram_uncorrectable_parity") is not None:
        found["sram_uncorrected"] = add(f"{span} ECC errors, SRAM", parity, secded)
    return EccCounts(sram_parity=parity, sram_secded=secded, **found)


def _retired(fields: Fields) -> RetirementFacts:
    block = "retired_pages/"
    return RetirementFacts(
        single_bit=fields.count(
            "pages retired for single-bit errors",
            f"{block}multiple_single_bit_retirement/retired_count {block}single_bit_ecc "
            "retired_pages_single_bit_ecc_count retired_pages_sbe",
        ),
        double_bit=fields.count(
            "pages retired for double-bit errors",
            f"{block}double_bit_retirement/retired_count {block}double_bit_ecc "
            "retired_pages_double_bit_count retired_pages_dbe",
        ),
        pending=fields.flag(
            "pages to be retired",
            f"{block}pending_retirement {block}pending_blacklist {block}pending_page_blacklist {block}pending "
            "retired_pages_pending",
        ),
    )


def _heat(fields: Fields) -> HeatFacts:
    def degrees(what: str, xml: str, text: str, column: str = "-") -> Reading:
        return fields.quantity(what, Unit.CELSIUS, f"{_HEAT}{xml} {_HEAT}{text} {column}")

    return HeatFacts(
        memory=degrees("memory temperature", "memory_temp", "memory_current_temp", "temperature_memory"),
        margin=degrees("temperature margin", "gpu_temp_tlimit", "gpu_t_limit_temp", "temperature_gpu_tlimit"),
        shutdown=degrees("shutdown temperature", "gpu_temp_max_threshold", "gpu_shutdown_temp"),
        slowdown=degrees("slowdown temperature", "gpu_temp_slow_threshold", "gpu_slowdown_temp"),
        core_maximum=degrees("highest core temperature", "gpu_temp_max_gpu_threshold", "gpu_max_operating_temp"),
        memory_maximum=degrees("highest memory temperature", "gpu_temp_max_mem_threshold", "memory_max_operating_temp"),
        target=degrees("target temperature", "gpu_target_temperature", "gpu_target_temperature"),
        shutdown_margin=degrees("shutdown margin", "gpu_temp_max_tlimit_threshold", "gpu_shutdown_t_limit_temp"),
        slowdown_margin=degrees("slowdown margin", "gpu_temp_slow_tlimit_threshold", "gpu_slowdown_t_limit_temp"),
        core_maximum_margin=degrees(
            "core margin", "gpu_temp_max_gpu_tlimit_threshold", "gpu_max_operating_t_limit_temp"
        ),
        memory_maximum_margin=degrees(
            "memory margin", "gpu_temp_max_mem_tlimit_threshold", "memory_max_operating_t_limit_temp"
        ),
    )


def _power(fields: Fields) -> Reading:
    names = ("power_draw", "instant_power_draw", "instantaneous_power_draw")
    return fields.quantity("power", Unit.WATT, _either(_POWER, *names) + " power_draw power_draw_instant")


def _power_limits(fields: Fields) -> PowerFacts:
    def watts(what: str, *names: str, columns: str) -> Reading:
        return fields.quantity(what, Unit.WATT, f"{_either(_POWER, *names)} {columns}")

    module = _either(("module_power_readings/",), "power_draw", "instant_power_draw", "instantaneous_power_draw")
    return PowerFacts(
        average=watts("average power", "average_power_draw", columns="power_draw_average"),
        limit=watts(
            "power limit",
            "current_power_limit",
            "enforced_power_limit",
            "power_limit",
            columns="enforced_power_limit power_limit",
        ),
        default_limit=watts("default power limit", "default_power_limit", columns="power_default_limit"),
        minimum_limit=watts("lowest power limit", "min_power_limit", columns="power_min_limit"),
        maximum_limit=watts("highest power limit", "max_power_limit", columns="power_max_limit"),
        module=fields.quantity("power of the module", Unit.WATT, module),
    )


def _pcie(fields: Fields) -> PcieFacts:
    def generation(what: str, xml: str, text: str, column: str) -> Reading:
        paths = f"{_LINK}pcie_gen/{xml} {_LINK_TEXT}pcie_generation/{text} pcie_link_gen_{column}"
        return fields.count(f"PCIe generation, {what}", paths)

    def width(what: str, xml: str, text: str) -> Reading:
        paths = f"{_LINK}link_widths/{xml} {_LINK_TEXT}link_width/{text} pcie_link_width_{text}"
        return fields.count(f"PCIe width, {what}", paths)

    return PcieFacts(
        generation=generation("now", "current_link_gen", "current", "current"),
        width=width("now", "current_link_width", "current"),
        generation_maximum=generation("at most", "max_link_gen", "max", "max"),
        width_maximum=width("at most", "max_link_width", "max"),
        generation_device=generation("of the card", "max_device_link_gen", "device_max", "gpumax"),
        generation_host=generation("of the slot", "max_host_link_gen", "host_max", "hostmax"),
        replays=fields.count("PCIe replays", "pci/replay_counter pci/replays_since_reset"),
        replay_rollovers=fields.count(
            "PCIe replay rollovers", "pci/replay_rollover_counter pci/replay_number_rollovers"
        ),
    )


def _fabric(fields: Fields) -> FabricFacts:
    health = fields.find("fabric/health")
    names = [] if health is None else [each.name for each in health.children]
    return FabricFacts(
        state=fields.text("fabric state", "fabric/state fabric_state"),
        status=fields.text("fabric status", "fabric/status fabric_status"),
        clique=fields.text("fabric clique", "fabric/cliqueid"),
        cluster=fields.text("fabric cluster", "fabric/clusteruuid"),
        health=tuple((name, fields.text(f"fabric {name}", f"fabric/health/{name}")) for name in names),
    )


def _inforom(fields: Fields) -> InforomFacts:
    block = "inforom_version/"
    return InforomFacts(
        image=fields.text("InfoROM image", f"{block}img_version {block}image_version inforom_img"),
        oem=fields.text("InfoROM OEM object", f"{block}oem_object inforom_oem"),
        ecc=fields.text("InfoROM ECC object", f"{block}ecc_object inforom_ecc"),
        power=fields.text("InfoROM power object", f"{block}pwr_object {block}power_management_object inforom_pwr"),
        corrupted=fields.missing("whether the InfoROM is intact"),
    )


def _recovery(fields: Fields) -> RecoveryFacts:
    said = fields.text("recovery action", "gpu_recovery_action")
    action: RecoveryAction | Absent
    if isinstance(said, Absent):
        action = said
    else:
        reason = f"recovery action: {said[:40]!r} is not known to this version"
        action = _ACTIONS.get(key(said)) or Absent(AbsenceKind.UNREADABLE, reason)
    block = "gpu_reset_status/"
    return RecoveryFacts(
        action=action,
        reset_required=fields.flag("reset required", f"{block}reset_required"),
        drain_and_reset=fields.flag("drain and reset recommended", f"{block}drain_and_reset_recommended"),
    )
