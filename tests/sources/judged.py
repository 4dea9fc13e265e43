"""What ``mats health`` says of a source, for the tests of sources: its verdict and the limits that are broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mats.cli.options import probe_values
from mats.judge import judge
from mats.model import Observation, Result, TargetInfo, Verdict
from mats.registry import probes
from mats.source import Source

HEALTH = probes()["health"]
Said = tuple[Verdict, list[tuple[str, str]]]


@dataclass
class Asked:
    """The probe's context with the values that it has when nobody gives any."""

    options: Mapping[str, Any]
    seed: int = 1
    resumed: Result | None = None

    def stopping(self) -> str:
        return ""

    def progress(self, done: float, total: float, text: str) -> None:
        """Nobody looks."""

    def save(self, observation: Observation) -> None:
        """Nothing is kept."""


def said(source: Source, info: TargetInfo) -> Said:
    """The verdict, and each limit that was broken with the GPU."""
    observation = HEALTH.measure(source, Asked(probe_values(HEALTH, {})))
    verdict, _, findings = judge(observation, HEALTH.limits, "cuda", info.name)
    labels = [(finding.code, dict(finding.measurement.labels).get("gpu", "")) for finding in findings]
    return verdict, sorted(labels)
