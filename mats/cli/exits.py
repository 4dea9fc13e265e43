"""Exit codes: one enum, one conversion."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from mats.model import Result, Run, Severity, Verdict

FAIL_ON = (Severity.WARN, Severity.FAIL)
"""What ``--fail-on`` may name, the milder first."""


class ExitCode(enum.IntEnum):
    OK = 0
    """Nothing at or above ``--fail-on``, and all that was required was measured."""
    FINDINGS = 1
    """A limit was broken at or above ``--fail-on``."""
    UNUSABLE = 2
    """Wrong usage, or the tool could not work."""
    UNKNOWN = 3
    """Nothing, or not all that was required, could be measured."""


def exit_code(run: Run, fail_on: Severity = Severity.FAIL) -> ExitCode:
    """What a run comes to: findings win over errors, errors over unknown."""
    counted = FAIL_ON[FAIL_ON.index(fail_on) :]
    if any(finding.severity in counted for result in run.results for finding in result.findings):
        return ExitCode.FINDINGS
    if any(result.verdict is Verdict.ERROR for result in run.results):
        return ExitCode.UNUSABLE
    if unmeasured(run):
        return ExitCode.UNKNOWN
    return ExitCode.OK


def unmeasured(run: Run, reasons: Mapping[tuple[str, str], str] | None = None) -> tuple[str, ...]:
    """What was required and is not known, a sentence each; empty when all is known.

    ``reasons``: by probe and target, what is told instead of the result's own reason.
    """
    if not run.results:
        return ("nothing was run",)
    told = reasons or {}
    missing = [f"{name} was not run" for name in run.required if all(result.probe != name for result in run.results)]
    missing += [
        f"{result.probe} on {result.target}: {told.get((result.probe, result.target)) or result.reason}"
        for result in run.results
        if result.verdict is Verdict.UNKNOWN and _required(result, run)
    ]
    if not missing and all(result.verdict in (Verdict.UNKNOWN, Verdict.ERROR) for result in run.results):
        missing = ["nothing could be measured"]
    return tuple(missing)


def _required(result: Result, run: Run) -> bool:
    return not run.required or result.probe in run.required
