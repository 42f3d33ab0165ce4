"""Reports: what a capture shows and what was found in it, as one HTML page or in a terminal.

    >>> section = section_from_capture(capture, window_ns=window, findings=[finding], busy=busy)
    >>> write_report("report.html", [section], title="The pipeline, once")

The page is one file and asks nothing of the network. Nothing here decides anything: busy time,
gaps, shares and findings come in as arguments, and the report draws and prints them.
"""

from __future__ import annotations

from profiling_lab.reports.builder import section_from_capture
from profiling_lab.reports.model import (
    CaptureSection,
    Comparison,
    ComparisonRow,
    Fact,
    Gap,
    Lane,
    MetricSeries,
    Place,
    Table,
    TimeShare,
)
from profiling_lab.reports.page import render_report, write_report

__all__ = [
    "CaptureSection",
    "Comparison",
    "ComparisonRow",
    "Fact",
    "Gap",
    "Lane",
    "MetricSeries",
    "Place",
    "Table",
    "TimeShare",
    "render_report",
    "section_from_capture",
    "write_report",
]
