"""What a report is: a pure function from a run to text.

A report's module (one file of ``reports/``) ends with one ``REPORT`` value; the registry finds it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mats.model import Run, Severity


@dataclass(frozen=True, slots=True)
class Report:
    """One view of a run. ``extension`` is that of its usual file, without the dot."""

    name: str
    extension: str
    render: Callable[[Run], str]
    render_from: Callable[[Run, Severity], str] | None = None
    """Of a report that tells what fails: ``render`` with the severity from which a finding counts (``--fail-on``)."""
