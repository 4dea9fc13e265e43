"""Limits of a GPU beside its memory: whether it answers, its log, clocks, heat and power, driver and machine."""

from __future__ import annotations

from mats.model import Severity, Unit

from ._health_sources import (
    DCGM,
    DEBUG,
    HONESTY,
    NVML,
    OWN,
    XIDS,
    least,
    most,
    none,
    peers,
)

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL
_POWER_CYCLE = (
    "Save nvidia-bug-report before the driver is unloaded, then power cycle the machine; check power and seating; "
    "service if it comes again. Other GPUs of the machine may be fine."
)


GPU = (
    least(
        "HLT-001",
        "gpu.answers",
        "a GPU does not answer",
        1,
        FAIL,
        NVML,
        "A GPU that is lost shows in no counter; a link that still reads full speed proves nothing "
        "(open-gpu-kernel-modules issue 1151).",
        _POWER_CYCLE,
        required=True,
    ),
    none(
        "HLT-040",
        "recovery.needed",
        "the driver wants the GPU reset or the machine restarted",
        FAIL,
        peers("cyclecloud: 1, 2, 4 are errors; DCGM since issue 263: reset, reboot, drain and reset fail"),
        "The driver's own verdict (NVML field 230): work on such a GPU fails although every counter may be 0.",
        "Do what the evidence names; save nvidia-bug-report first if the cause is to be found.",
    ),
    none(
        "HLT-041",
        "recovery.drain",
        "the driver wants work drained or a domain recovered",
        WARN,
        peers("cyclecloud and DCGM: drain peer-to-peer is a warning"),
        "The GPU itself works; what is named (peer-to-peer work, the IMEX domain) does not until it is recovered.",
        "Do what the evidence names.",
    ),
)

LOG = (
    none(
        "HLT-042",
        "log.serious",
        "a serious incident in the log, of late",
        FAIL,
        XIDS,
        "Incidents that ask for a reset, a restart or service count until the next start of the system, or as long as "
        "--log-window says: a week by convention (Azure looks back 2 hours, imbue at the whole log).",
        "Do what the evidence names; save the log and nvidia-bug-report first.",
    ),
    none(
        "HLT-044",
        "log.suspect",
        "an incident in the log that may come again",
        WARN,
        XIDS,
        "What asks for a look at cables or settings, a contained memory error, or a serious incident an hour ago on a "
        "GPU whose driver wants nothing done any more: work goes on, trust is less.",
        "Do what the evidence names, and see whether it comes again.",
    ),
    none(
        "HLT-046",
        "log.unclear",
        "an event in the log whose meaning is not known",
        UNKNOWN,
        HONESTY,
        "A number that is not in any table, or that cannot be decoded, is not known to be harmless.",
        "Ask the vendor, with the raw lines.",
    ),
    none(
        "HLT-047",
        "log.minor",
        "incidents in the log that need nothing of the GPU",
        NOTE,
        XIDS,
        "Programs' own mistakes (13, 31, 43), clean-up after another fault (45) and events that only inform.",
        "Look at the program that is named; hardware is suspected only if different programs fail on one GPU.",
    ),
    none(
        "HLT-048",
        "log.old",
        "older incidents in the log",
        NOTE,
        OWN,
        "The system or the driver was started again after them, or they are older than the window.",
        "Nothing to do if the GPU is in order now; they are its history.",
    ),
)

CLOCKS = (
    none(
        "HLT-050",
        "clocks.hardware",
        "the hardware holds the clocks down",
        FAIL,
        peers("cyclecloud: error; sichek: critical; gpud: after 6 minutes of 10; Azure: a warning"),
        "Hardware slowdown, thermal slowdown and power brake halve the clocks or worse: cooling or power is short.",
        "Look at fans, airflow, power cables and supplies; read again under load before the card is taken out.",
    ),
    none(
        "HLT-051",
        "clocks.thermal",
        "heat holds the clocks down",
        WARN,
        peers("cyclecloud: error; the driver lowers clocks itself before the hardware must"),
        "The driver keeps the GPU below its limit by lower clocks: it works, slower than it could.",
        "Improve the cooling if it lasts; right after heavy work it is usual.",
    ),
    most(
        "HLT-052",
        "clocks.held",
        "the hardware has held the clocks down",
        1.0,
        NOTE,
        peers("DCGM failed on 0.0 seconds of thermal violation (issue 242)"),
        "The total since the driver was loaded; it may be long ago, and a fraction of a second is noise.",
        "Compare with --baseline, or read again under load.",
        unit=Unit.SECOND,
    ),
    least(
        "HLT-053",
        "heat.to_slowdown",
        "the core is hotter than its own limit",
        0.0,
        FAIL,
        NVML,
        "Degrees left to the temperature at which this card is slowed down, as its driver tells it; no figure of ours.",
        "Look at fans, airflow and the room; stop the load until it has cooled.",
        unit=Unit.CELSIUS,
    ),
    least(
        "HLT-054",
        "heat.to_maximum",
        "the core is hotter than it should run",
        0.0,
        WARN,
        peers("gpud: above the card's own maximum is degraded; sichek: 75, cyclecloud: 93 degrees for every card"),
        "Degrees left to the highest temperature for work, where the driver tells one; no figure of ours.",
        "Improve the cooling if it lasts.",
        unit=Unit.CELSIUS,
    ),
    least(
        "HLT-055",
        "heat.memory_left",
        "the memory is hotter than it should run",
        0.0,
        WARN,
        peers("gpud: above the card's own maximum is degraded; sichek: 95 degrees for every card"),
        "Hot memory needs more refresh and errs more; the limit is that of this card, where the driver tells one.",
        "Improve the cooling; HBM and GDDR6X run hot before the core does.",
        unit=Unit.CELSIUS,
    ),
    none(
        "HLT-056",
        "power.unreadable",
        "the power could not be read",
        UNKNOWN,
        peers("DCGM: a warning; azhpc-diagnostics issue 77: ERR! once is transient"),
        "A failed reading may be momentary or the first sign of a card that goes: one reading cannot tell.",
        "Read again; if it stays, save nvidia-bug-report and reset the GPU.",
    ),
    none(
        "HLT-057",
        "power.lowered",
        "the power limit is below the card's default",
        NOTE,
        NVML,
        "Somebody or the machine has set it; the GPU is in order and slower than it could be.",
        "Set it back with nvidia-smi -pl if that is not meant.",
    ),
)

HOST = (
    none(
        "HLT-080",
        "driver.mismatch",
        "kernel module and driver libraries have different versions",
        UNKNOWN,
        DEBUG,
        "After an update without a restart nothing can be asked: the state of the GPUs is unknown, not failed.",
        "Reload the kernel module or restart the machine.",
    ),
    none(
        "HLT-081",
        "driver.failure",
        "the driver could not be asked",
        UNKNOWN,
        NVML,
        "Without an answer of the driver nothing is known of the GPUs.",
        "See the reason, and dmesg for why the driver did not start.",
    ),
    most(
        "HLT-082",
        "driver.slow_call",
        "the driver answers slowly",
        1.0,
        WARN,
        peers("DCGM issue 313: calls took 45 s on a GPU that was called healthy"),
        "A question to the driver takes milliseconds; seconds mean firmware in trouble or an enormous error rate.",
        "Look at the log for GSP events and at the corrected errors; restart the machine if it stays.",
        unit=Unit.SECOND,
    ),
    none(
        "HLT-083",
        "driver.hanging",
        "the driver does not answer",
        FAIL,
        peers("DCGM issue 313, gpustack/runtime request 26: a wedged GSP passed as healthy"),
        "A question was given up after its time limit: programs will hang there, too.",
        "Save nvidia-bug-report (it may hang as well); reset the GPU, restart the machine if that fails.",
    ),
    none(
        "HLT-079",
        "driver.unanswered",
        "a question to the driver was given up after less than a second",
        UNKNOWN,
        HONESTY,
        "It may hang, or the time given was short for a busy machine: what it would have told is not known.",
        "Give more time with --timeout; if it still does not answer, the driver hangs.",
    ),
    none(
        "HLT-084",
        "driver.gsp",
        "the firmware on the GPU is not that of the driver",
        WARN,
        peers("imbue: an error"),
        "The driver loads its own GSP firmware; another version means a mixed installation.",
        "Install driver and firmware from one package and restart.",
    ),
    none(
        "HLT-085",
        "host.nouveau",
        "the nouveau driver is loaded",
        WARN,
        DCGM,
        "It holds the card, so that NVIDIA's driver cannot start on it.",
        "Blacklist nouveau, rebuild the initial RAM disk and restart.",
    ),
    none(
        "HLT-086",
        "count.missing",
        "GPUs on the bus that the driver does not list",
        FAIL,
        peers("Azure, GCP, gcm, cyclecloud compare counts of the bus, the device files and the driver"),
        "A GPU that fell off or did not start is missing from the driver's list and shows in no counter.",
        _POWER_CYCLE,
    ),
    none(
        "HLT-087",
        "count.nodes",
        "GPUs without a device file",
        WARN,
        peers("cyclecloud compares /dev with the driver"),
        "Programs open /dev/nvidiaN: without it a GPU cannot be used, and its file appears when the driver starts it.",
        "Run nvidia-modprobe -c N or nvidia-smi as root once.",
    ),
    none(
        "HLT-088",
        "count.forbidden",
        "device files that this user may not open",
        NOTE,
        HONESTY,
        "What is behind them is unknown to this user and may be fine.",
        "Ask for the group that owns /dev/nvidia*.",
    ),
    none(
        "HLT-089",
        "host.persistence",
        "persistence mode is off",
        NOTE,
        peers("DCGM: a warning; cyclecloud: an error; sichek: a warning"),
        "Without it the driver lets go of an idle GPU: first calls are slow and volatile counters are lost.",
        "Run nvidia-persistenced on a server; a desktop does not need it.",
    ),
)

MACHINE_LIMITS = (*GPU, *LOG, *CLOCKS, *HOST)
