"""Replaced rows of memory in the output of nvidia-smi."""

from __future__ import annotations

from mats.facts import BankHistogram, Flag, RemapFacts
from mats.model import Absent, Quantity, Reading, Unit
from mats.sources._smi_values import Fields

_BLOCK = "remapped_rows/"
_BANKS = ("row_remapper_histogram/row_remapper_histogram_", "bank_remap_availability_histogram/")


def read_remap(fields: Fields) -> RemapFacts:
    """Rows of the whole GPU; N/A before Ampere, and with MIG instances."""

    def bank(name: str) -> Reading:
        paths = [f"{_BLOCK}{prefix}{name}" for prefix in _BANKS]
        return fields.count(f"banks of class {name}", " ".join([*paths, f"remapped_rows_histogram_{name}"]))

    def number(flag: Flag) -> Reading:
        return flag if isinstance(flag, Absent) else Quantity(int(flag), Unit.COUNT)

    pending = f"{_BLOCK}remapped_row_pending {_BLOCK}pending remapped_rows_pending"
    failed = f"{_BLOCK}remapped_row_failure {_BLOCK}remapping_failure_occurred remapped_rows_failure"
    return RemapFacts(
        correctable=fields.count(
            "rows remapped for correctable errors",
            f"{_BLOCK}remapped_row_corr {_BLOCK}correctable_error remapped_rows_correctable",
        ),
        uncorrectable=fields.count(
            "rows remapped for uncorrectable errors",
            f"{_BLOCK}remapped_row_unc {_BLOCK}uncorrectable_error remapped_rows_uncorrectable",
        ),
        pending=number(fields.flag("pending row remapping", pending)),
        failed=number(fields.flag("failed row remapping", failed)),
        banks=BankHistogram(bank("max"), bank("high"), bank("partial"), bank("low"), bank("none")),
    )
