"""The lending side: another process measures, this one lends its GPU's memory and says how that went."""

from __future__ import annotations

from mats.fabric import Lender, Served
from mats.model import AbsenceKind, Absent, Measurement, Observation, Quantity, Reading
from mats.probe import Context

from ._nvlink_limits import LIMITS
from ._nvlink_seen import BYTE, COUNT, ONE, SECOND


def serve(lender: Lender, context: Context) -> Observation:
    """Lends until the borrower is done, gone or silent. Raises DeviceError."""
    context.progress(0, 1, "waiting for mats nvlink-test --mode client")
    return served(lender.serve(context.stopping, lambda text: context.progress(0, 1, text)), context.stopping())


def served(report: Served, stopped: str) -> Observation:
    """What a session of lending came to; the links are judged by the process that borrowed."""
    why = report.broken or ("" if report.borrower else stopped or "no other process has borrowed")
    done: Reading = Absent(AbsenceKind.INSUFFICIENT, why) if why else ONE
    who = (
        f"GPU {report.borrower} of another process measured the link; its own report has the figures and the verdict."
        if report.borrower
        else "No other process has borrowed: start mats nvlink-test --mode client while this one waits."
    )
    elsewhere = Absent(AbsenceKind.NOT_TESTED, "this process lent its memory: the one that borrowed has measured")
    others = dict.fromkeys(limit.measurement for limit in LIMITS if limit.measurement != "link.measured")
    return Observation(
        measurements=(
            *(Measurement(name, elsewhere) for name in others),
            Measurement("link.measured", done, (("what", "lending"),)),
            Measurement("link.lent_bytes", Quantity(report.lent, BYTE), statistic="at most at one moment"),
            Measurement("link.served_calls", Quantity(report.calls, COUNT)),
            Measurement("link.served_seconds", Quantity(report.seconds, SECOND)),
        ),
        notes=(who,),
        partial=stopped if stopped and not report.broken else "",
    )
