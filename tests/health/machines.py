"""Machines for the tests: a healthy one of which everything is known, and changes to one fact of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mats.facts import (
    AerFacts,
    BankHistogram,
    Bar,
    ClockFacts,
    EccCounts,
    EccFacts,
    FabricFacts,
    GpuFacts,
    HeatFacts,
    HostFacts,
    IncidentFacts,
    IncidentGrade,
    InforomFacts,
    LinkFacts,
    LogFacts,
    MachineFacts,
    MemoryFacts,
    MigFacts,
    NvlinkFacts,
    PciDevice,
    PcieFacts,
    PciLink,
    PowerFacts,
    RecoveryAction,
    RecoveryFacts,
    RemapFacts,
    RetirementFacts,
    WindowFacts,
)
from mats.model import AbsenceKind, Absent, Quantity, Unit

NOT_THERE = Absent(AbsenceKind.NOT_FOUND, "not told in this test")
NEVER = Absent(AbsenceKind.NOT_SUPPORTED, "not on this card")
GIBIBYTE = 1 << 30
NAME = "NVIDIA H100 80GB HBM3"


def count(value: int) -> Quantity:
    return Quantity(value, Unit.COUNT)


def degrees(value: float) -> Quantity:
    return Quantity(value, Unit.CELSIUS)


def watts(value: float) -> Quantity:
    return Quantity(value, Unit.WATT)


def size(value: int) -> Quantity:
    return Quantity(value, Unit.BYTE)


def address(index: int) -> str:
    return f"0000:{0x10 + index:02x}:00.0"


def gpu(index: int) -> GpuFacts:
    """An H100 in order, idle, of which everything is known."""
    none = EccCounts(*([count(0)] * 6))
    banks = BankHistogram(count(2560), count(0), count(0), count(0), count(0))
    return GpuFacts(
        uuid=f"GPU-{index:08d}-0000-0000-0000-000000000000",
        name=NAME,
        driver="575.57.08",
        temperature=degrees(31),
        power=watts(70),
        performance_state=count(0),
        clocks=ClockFacts(reasons=("idle",), held=(("hardware thermal slowdown", Quantity(0.0, Unit.SECOND)),)),
        ecc=EccFacts(
            enabled=True,
            pending=True,
            corrected=count(0),
            uncorrected=count(0),
            volatile=none,
            aggregate=none,
            sram_threshold_exceeded=False,
            channel_repair_pending=False,
            tpc_repair_pending=False,
            unrepairable_memory=False,
        ),
        remap=RemapFacts(count(0), count(0), count(0), count(0), banks=banks),
        memory=MemoryFacts(size(80 * GIBIBYTE), size(GIBIBYTE // 2), size(1 << 20), size(79 * GIBIBYTE)),
        processes=(),
        index=count(index),
        pci=address(index),
        serial=f"16500000000{index}",
        vbios="96.00.89.00.01",
        architecture="Hopper",
        answers=True,
        asleep=False,
        retired=RetirementFacts(NEVER, NEVER, NEVER),
        heat=HeatFacts(memory=degrees(40), slowdown=degrees(89), core_maximum=degrees(85), memory_maximum=degrees(95)),
        power_limits=PowerFacts(limit=watts(700), default_limit=watts(700)),
        pcie=PcieFacts(
            generation=count(5),
            width=count(16),
            generation_maximum=count(5),
            width_maximum=count(16),
            generation_device=count(5),
            generation_host=count(5),
            replays=count(0),
            replay_rollovers=count(0),
            loaded=False,
        ),
        window=WindowFacts(size(128 * GIBIBYTE), size(0), size(128 * GIBIBYTE)),
        nvlink=nvlink(18, 18),
        fabric=FabricFacts("Completed", "Success", "0", "c", (("summary", "Healthy"),)),
        inforom=InforomFacts(corrupted=False),
        recovery=RecoveryFacts(RecoveryAction.NONE, False, False),
        mig=MigFacts(False, False, ()),
        persistence=True,
        virtualisation="None",
        gsp="575.57.08",
        busy=Quantity(0.0, Unit.RATIO),
    )


def nvlink(up: int, of: int, errors: tuple[tuple[str, Quantity], ...] = (("replay errors", count(0)),)) -> NvlinkFacts:
    speed = Quantity(26.562e9, Unit.BYTE_PER_SECOND)
    links = tuple(
        LinkFacts(number, number < up, speed if number < up else NEVER, errors=errors if number == 0 else ())
        for number in range(of)
    )
    return NvlinkFacts(count(up), links)


def device(index: int) -> PciDevice:
    """The GPU's function on the bus, without a port above it."""
    link = PciLink(Quantity(32e9, Unit.HERTZ), count(16))
    bars = (Bar(0, 0x1000, 16 << 20, True), Bar(2, 0x10000, 128 * GIBIBYTE, True, True, True))
    quiet = (("TOTAL_ERR", count(0)),)
    return PciDevice(
        address(index),
        0x10DE,
        0x2330,
        0x0302,
        NAME,
        "nvidia",
        link,
        link,
        bars,
        (),
        AerFacts(quiet, quiet, quiet),
        count(0),
        "active",
        (),
    )


def machine(gpus: int = 2) -> MachineFacts:
    """A healthy machine of which everything is known."""
    return MachineFacts(
        driver="575.57.08",
        cuda="12.9",
        kernel_module="575.57.08",
        library="575.57.08",
        nvml_failure=Absent(AbsenceKind.NOT_FOUND, "NVML did not fail"),
        virtualisation="None",
        attached=count(gpus),
        gpus=tuple(gpu(index) for index in range(gpus)),
        pairs=(),
        devices=tuple(device(index) for index in range(gpus)),
        log=LogFacts((), "/dev/kmsg", "1,204 lines, from the start of the system", True),
        host=HostFacts(
            wsl=False,
            container="none",
            nodes=tuple(f"nvidia{index}" for index in range(gpus)),
            modules=("nvidia", "nvidia_uvm"),
            fabric_manager="active",
            fabric_manager_version="575.57.08",
            persistence_daemon="active",
        ),
        taken="2026-11-30T20:00:00+00:00",
    )


def incident(
    grade: IncidentGrade,
    kind: str = "other",
    index: int = 0,
    age: float | None = 60.0,
    restarts: int = 0,
    xids: tuple[int, ...] = (79,),
) -> IncidentFacts:
    return IncidentFacts(
        kind,
        address(index),
        grade,
        f"a planned incident on {address(index)}",
        ("Xid 79: as planned",),
        "Do as planned.",
        NOT_THERE if age is None else Quantity(age, Unit.SECOND),
        "until the log was taken",
        xids,
        restarts,
        conflicts=("one says this", "another says that"),
        lines=("NVRM: Xid (PCI:0000:10:00): 79, planned",),
    )


def logged(*incidents: IncidentFacts) -> LogFacts:
    return LogFacts(incidents, "/dev/kmsg", "some lines", True)


def changed(facts: MachineFacts, path: str, value: Any) -> MachineFacts:
    """The machine with one fact changed: ``gpu.ecc.enabled`` is of the first GPU, ``device.bars`` of its device."""
    first, _, rest = path.partition(".")
    whole: Any = facts
    if first in ("gpu", "device"):
        every = getattr(whole, f"{first}s")
        whole = _with(whole, f"{first}s", (_with(every[0], rest, value), *every[1:]))
    else:
        whole = _with(whole, path, value)
    assert isinstance(whole, MachineFacts)
    return whole


def _with(facts: Any, path: str, value: Any) -> Any:
    first, _, rest = path.partition(".")
    inner = _with(getattr(facts, first), rest, value) if rest else value
    return dataclasses.replace(facts, **{first: inner})
