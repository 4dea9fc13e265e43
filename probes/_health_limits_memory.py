"""Limits of a GPU's memory: its errors, what replaces bad cells, and how much of it there is."""

from __future__ import annotations

from mats.model import Severity, Unit

from ._health_sources import DCGM, HONESTY, MEMORY_ERRORS, NVML, OWN, RETIREMENT, least, most, none, peers

NOTE, WARN, UNKNOWN, FAIL = Severity.NOTE, Severity.WARN, Severity.UNKNOWN, Severity.FAIL
_RESET = "Drain the GPU and reset it (nvidia-smi --gpu-reset, or restart the machine); no service is needed for that."
_SERVICE = "Save nvidia-bug-report, run NVIDIA's field diagnostics and open a service case."

KNOWN = (
    least(
        "HLT-002",
        "known.errors",
        "whether memory errors happened is not known",
        1,
        UNKNOWN,
        HONESTY,
        "A GPU whose uncorrected errors nobody could read is not a healthy one: other checkers pass it.",
        "See the reason; add evidence with --from, e.g. nvidia-smi -q -x.",
        required=True,
    ),
    least(
        "HLT-003",
        "known.replacement",
        "whether memory waits to be replaced is not known",
        1,
        UNKNOWN,
        HONESTY,
        "A pending or failed replacement of rows or pages shows in no error counter, so it must be seen itself.",
        "See the reason; add evidence with --from, e.g. nvidia-smi -q -x.",
        required=True,
    ),
)

ERRORS = (
    none(
        "HLT-010",
        "ecc.uncorrected",
        "uncorrected memory errors since the driver was loaded",
        FAIL,
        peers(
            "any: DCGM fails, GCP, imbue, cyclecloud report errors, Azure drains on SRAM; gpud leaves it to the remap"
        ),
        "An uncorrected error is a wrong word that a program may have used; the counter starts again with a reset.",
        "Drain the GPU and reset it, then look whether a row is replaced; service if errors come again.",
    ),
    none(
        "HLT-011",
        "ecc.instance_uncorrected",
        "uncorrected memory errors in a MIG instance",
        FAIL,
        peers("any uncorrected error: DCGM fails; with MIG the driver tells them for each instance"),
        "With MIG the counters of the whole GPU are hidden, so those of its instances stand for them.",
        "Drain all instances of this GPU and reset it; service if errors come again.",
    ),
    none(
        "HLT-012",
        "ecc.sram_threshold",
        "too many uncorrected SRAM errors in the life of the card",
        FAIL,
        MEMORY_ERRORS,
        "NVIDIA's own flag for replacing the card: SRAM has no spare rows, so errors there do not go away.",
        _SERVICE,
    ),
    most(
        "HLT-013",
        "ecc.sram_lifetime",
        "more uncorrected SRAM errors in the card's life than is usual",
        4,
        WARN,
        peers(
            "sichek: above 4 is critical, replace; ml-engineering: above 4 is a return; NVIDIA: its own flag decides"
        ),
        "SRAM cannot be repaired by remapping; sources differ between this count and NVIDIA's threshold flag.",
        "Open a service case with nvidia-bug-report; use the GPU on if NVIDIA's threshold flag is not set.",
    ),
    none(
        "HLT-014",
        "ecc.lifetime",
        "uncorrected memory errors in the life of the card",
        NOTE,
        MEMORY_ERRORS,
        "Errors of the past were dealt with by resets and replaced rows; no checker alarms, but they are a history.",
        "Nothing to do now; compare with --baseline whether the number grows.",
    ),
    most(
        "HLT-015",
        "ecc.sram_corrected",
        "many corrected SRAM errors",
        10_000,
        NOTE,
        peers("Azure: SRAM above 10,000; sichek: above 10,000,000; DCGM: never"),
        "Corrected errors cost no data; the bounds of others differ a thousandfold, so the count is a note.",
        "Watch whether it grows (--baseline); Azure would drain the node, NVIDIA would not.",
    ),
    most(
        "HLT-016",
        "ecc.dram_corrected",
        "many corrected DRAM errors",
        20_000_000,
        NOTE,
        peers("Azure: DRAM above 20,000,000; DCGM: never, though 54.7e9 made its calls take 45 s (DCGM issue 313)"),
        "Corrected errors cost no data; an enormous number can slow the driver down, which is a check of its own.",
        "Watch whether it grows (--baseline); ask for service if the driver's answers become slow.",
    ),
    none(
        "HLT-017",
        "ecc.mode_pending",
        "the ECC mode will change with the next reset",
        WARN,
        peers("imbue: an error"),
        "Until the reset the card does not run in the mode somebody set, and the next restart changes its capacity.",
        "Reset the GPU to apply the mode, or set it back with nvidia-smi -e.",
    ),
    none(
        "HLT-018",
        "ecc.off",
        "ECC is switched off",
        NOTE,
        HONESTY,
        "With ECC off errors are neither corrected nor counted: no error seen means nothing. GeForce cards ship so.",
        "Switch it on with nvidia-smi -e 1 and a reset where errors matter; mats stress tests the memory itself.",
    ),
    none(
        "HLT-019",
        "ecc.repair_pending",
        "a repair of a memory channel or a TPC waits",
        WARN,
        MEMORY_ERRORS,
        "Blackwell repairs whole channels and processors at the next start; until then the weak part stays in use.",
        "Restart the machine when convenient: it activates the repair.",
    ),
    none(
        "HLT-020",
        "ecc.unrepairable",
        "memory that cannot be repaired",
        FAIL,
        DCGM,
        "The driver says that neither spare rows nor a spare channel are left for a bad place; DCGM fails on the flag.",
        _SERVICE,
    ),
)

REPLACEMENT = (
    none(
        "HLT-021",
        "remap.pending",
        "a row of memory waits to be replaced",
        FAIL,
        peers(
            "DCGM fails, gcm and sichek critical, Azure drains, gpud asks for a reboot; NVIDIA: Xid 63 itself IGNORE"
        ),
        "A row that gave an uncorrectable error stays in use until a reset; sources agree on that, not on the hurry.",
        _RESET,
    ),
    none(
        "HLT-022",
        "remap.pending_corrected",
        "a row with corrected errors waits to be replaced",
        WARN,
        MEMORY_ERRORS,
        "No data was lost and every error is still corrected; others fail here as for uncorrectable ones.",
        "Reset the GPU when convenient: it activates the replacement; no service is needed.",
    ),
    none(
        "HLT-023",
        "remap.failed",
        "a row of memory could not be replaced",
        FAIL,
        peers("DCGM, gcm fail; Azure drains; gpud: inspection; sichek: replace; NVSentinel: field diagnostics"),
        "The flag with a failing field diagnostic is NVIDIA's criterion for returning the card.",
        _SERVICE,
    ),
    most(
        "HLT-024",
        "remap.uncorrectable",
        "all replacement rows are used",
        511,
        FAIL,
        MEMORY_ERRORS,
        "512 remapped rows are the most a card can record (DCGM warns in its watch and fails in its diagnostic there).",
        _SERVICE,
    ),
    none(
        "HLT-025",
        "remap.rows",
        "rows of memory were replaced",
        NOTE,
        MEMORY_ERRORS,
        "Replaced rows work; they are the card's history, and a growing number is a trend that nobody else shows.",
        "Nothing to do; compare with --baseline whether the number grows.",
    ),
    none(
        "HLT-026",
        "remap.banks_without_spares",
        "banks of memory without a spare row",
        WARN,
        MEMORY_ERRORS,
        "The next uncorrectable error in such a bank makes its replacement fail; a public triage note calls it early "
        "warning, no checker judges it.",
        "Plan a replacement of the card; the memory works now.",
    ),
    none(
        "HLT-027",
        "remap.banks_low",
        "banks of memory with few spare rows",
        NOTE,
        MEMORY_ERRORS,
        "One spare that is used moves a bank from Max to High, several to Low: a trend and no fault.",
        "Nothing to do; compare with --baseline.",
    ),
    none(
        "HLT-028",
        "retired.pending",
        "a page with double-bit errors waits to be taken out of use",
        FAIL,
        peers("gcm critical, DCGM warns, NVIDIA: reset"),
        "The page that gave a wrong word stays in use until the driver is loaded again.",
        _RESET,
    ),
    none(
        "HLT-029",
        "retired.pending_single",
        "a page with corrected errors waits to be taken out of use",
        WARN,
        RETIREMENT,
        "Every error of that page was corrected; a reset takes it out of use (DCGM warns, gcm calls it critical).",
        "Reset the GPU or restart the machine when convenient: that is all it needs.",
    ),
    most(
        "HLT-030",
        "retired.pages",
        "the table of retired pages is full or nearly so",
        62,
        FAIL,
        DCGM,
        "The table holds 64 pages: DCGM fails from 63, Azure drains from 62, azhpc-diagnostics reports from 60.",
        _SERVICE,
    ),
    most(
        "HLT-031",
        "retired.double_bit",
        "many pages were retired for double-bit errors",
        15,
        NOTE,
        DCGM,
        "DCGM fails above 15 if more than one a week is added; the rate needs a baseline, so the count is a note.",
        "Compare with --baseline; open a service case if pages are still added.",
    ),
)

SIZES = (
    least(
        "HLT-032",
        "memory.share",
        "less memory than the model has",
        0.88,
        WARN,
        OWN,
        "ECC that takes its share of the memory leaves 93 % (A40: 46068 MiB of 48 GiB), firmware holds 0.5 GiB; "
        "what is below was lost (Xid 168), is sliced, or is another card.",
        "See the differences in the table; run mats stress on what is there.",
        unit=Unit.RATIO,
    ),
    most(
        "HLT-033",
        "memory.share",
        "more memory than the model has",
        1.05,
        NOTE,
        OWN,
        "A modified card or a false name: the memory may be real or not, and no counter or memory window tells.",
        "Run mats stress: its test page_ids finds capacity that does not exist.",
        unit=Unit.RATIO,
    ),
    most(
        "HLT-034",
        "memory.leftover",
        "memory is used and no process is seen that holds it",
        512 << 20,
        WARN,
        OWN,
        "Beside what the driver reserves, an idle GPU has some MiB in use; more is held by a process that is not seen.",
        "Find the holder with fuser -v /dev/nvidia*, also in other containers; end it, else reset the GPU.",
        unit=Unit.BYTE,
    ),
    none(
        "HLT-036",
        "memory.ghosts",
        "memory is held by a process that has ended or is not seen from here",
        NOTE,
        peers("gcm can kill holders and passes where the process is gone; nvtop issue 70: zombies without a name"),
        "The driver lists a process that this user cannot see: a zombie's memory is not given back, another user's is.",
        "Look for its parent or its container (fuser -v /dev/nvidia*); if there is none, reset the GPU.",
    ),
)

UNREADABLE = (
    none(
        "HLT-035",
        "recovery.unclear",
        "a recovery action this version does not know",
        UNKNOWN,
        NVML,
        "Drivers add actions (5 to 7 are newer than most checkers): one that is not known is not 'none'.",
        "Read the driver's own words in the evidence and do what they say; update mats.",
    ),
)

MEMORY_LIMITS = (*KNOWN, *ERRORS, *REPLACEMENT, *SIZES, *UNREADABLE)
