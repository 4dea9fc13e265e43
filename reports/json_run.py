"""The saved run: everything that was seen, as JSON. Every other report can be made from it again."""

from __future__ import annotations

from mats.codec import run_to_json
from mats.report import Report

REPORT = Report("json", "json", run_to_json)
