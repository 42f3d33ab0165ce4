"""nsys stats: answers without a window.

You ask the command-line tool the right question, read what it prints, compute its sums yourself, and say
what can be known from sums, and what cannot. The lesson is `README.md` in this folder, hints are in
`hints.md`, and

    uv run lab check advanced_ex03

tells what is right and wrong. **Reports** are what `read_reports` gives: by name of a report the rows that
the tool printed, or None where it printed none. The tool's own words stand in
`captures/tool_help/nsys_stats.txt`.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# The reports that this exercise asks for; `nsys stats --help-reports` lists all.
REPORTS = (
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "nvtx_gpu_proj_sum",
    "nvtx_sum",
    "osrt_sum",
)

# Units of `--timeunit`, and how many ns each is.
UNITS_NS = {"nsec": 1, "usec": 1_000, "msec": 1_000_000, "sec": 1_000_000_000}

# What the tool writes behind a heading that holds times, and how many ns that is.
HEADING_NS = {"ns": 1, "us": 1_000, "μs": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

# Below this share of the window a cause is no finding.
FLOOR_RATIO = 0.1

# A program that launches more often than once in this time waits for launches; else for other host code.
LAUNCH_PERIOD_NS = 50_000


def stats_command(
    recording: str,
    reports: Sequence[str],
    nvtx_range: str | None = None,
    domain: str | None = None,
    instance: int = 0,
    unit: str = "nsec",
) -> list[str]:
    """The command that prints reports on a recording for a program to read, as a list of words.

    recording: the path of a .nsys-rep or an exported .sqlite, the last word. reports: of REPORTS, in the
    order in which they are printed. The command is `nsys stats` and

    - prints CSV on the standard output, all reports in one call;
    - in `unit`, one of UNITS_NS, which it names whether it is the tool's default or not;
    - if nvtx_range is given, only on what overlaps one range of that name: the instance-th, from 0, in
      the domain if one is given. The index is always written, so that a name with a slash in it is no riddle;
    - from a .nsys-rep exports anew. By default the tool takes an export that lies beside the report.

    `--quiet` is no help here: `read_reports` needs the lines that it leaves out.

    Raises ValueError for a report or unit that is not in the lists above or a recording that ends in
    neither .nsys-rep nor .sqlite, naming it, for no report, an instance below 0, or a domain without a range.
    """
    raise NotImplementedError


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    """What `nsys stats --format csv --output -` printed, as rows.

    text: its standard output. Ahead of each report stands a line

        Processing [FILE] with [REPORT](ARGUMENTS)...

    where (ARGUMENTS) is there only if a filter was given, and REPORT is a name, or the path of a script,
    whose name is what is left without folders and ".py". Then comes the table as CSV; or a line that begins
    with "SKIPPED" and says why; or nothing, where there is no such report (the error is on the other
    stream, and the exit code is 0). Blank lines follow. Cells may hold commas, quotes and line breaks.

    Returns the reports by name in their order: a list of dicts, heading → value, which is empty for a table
    without rows, or None without a table.
    Values are int or float where the whole cell is such a number, None where it is empty, else text.
    Whatever the unit, times come in ns: a heading with a unit of HEADING_NS in brackets at its end gets "(ns)"
    instead, and its numbers are multiplied; those that are whole ns then (to 1e-6) are int.

    Raises ValueError, quoting the first line, if it holds no such line: with `--quiet` the tool leaves them out, and
    then nobody knows which table is which.
    """
    raise NotImplementedError


def sum_report(capture: str, report: str) -> list[dict[str, Any]]:
    """What a sum report of the tool says, computed from the recording.

    report: "cuda_gpu_kern_sum" (kernels by demangled name), "cuda_api_sum" (CUDA calls by name, without
    version) or "nvtx_sum" (push/pop and start/end ranges of the default domain, whose number is 0, or NULL
    in some exports; the tool writes a colon in front of these names, this function does not). Returns a row
    for each name, largest total first, equal ones by name:

        "name"
        "time_pct"      its share of the total of **all rows**, in percent: not of the time that passed; 0.0 if
                        that total is 0
        "total_ns"      durations added up
        "count"         how many
        "avg_ns", "med_ns", "min_ns", "max_ns"
        "stddev_ns"     sample standard deviation (n − 1); 0.0 for one

    Not rounded; the tool rounds to one decimal. The median of an even number is the mean of the middle two.

    Raises ValueError for another report.
    """
    raise NotImplementedError


def busy_bounds(reports: Mapping[str, Any], name: str) -> dict[str, int]:
    """What sums say about how long the device was busy, and what they leave open.

    reports: with the rows of "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum" and "nvtx_sum"; the first two
    may be None. name: the range that is the window, in any domain: in the column "Range" the tool writes
    domain, colon, name (":step", "NCCL:reduce"), and a name may hold colons itself (":aten::linear"). It must
    have one instance, as the total of several is no window. One device; all its work lies in the range.
    Returns, in ns:

        "window_ns"   how long the range took
        "sum_ns"      all totals of kernels and memory operations added up
        "least_ns"    the device was busy at least so long: the longest single operation
        "most_ns"     and at most so long: the sum, or the window if that is shorter
        "overlap_ns"  at least so much of the sum ran beside something else: sum_ns minus most_ns

    Raises ValueError, naming it, if the range is not in the report or has not one instance.
    """
    raise NotImplementedError


def verdict(reports: Mapping[str, Any], name: str) -> Finding:
    """What the sum reports prove to be wrong, or that they prove nothing.

    reports: as in `busy_bounds`, and "cuda_api_sum". name: the window's range. idle_ns is the window minus
    most_ns of `busy_bounds`: the device was idle for at least so long. Calls are host time, "Total Time"
    of the rows of cuda_api_sum whose name holds:

        allocating: "Malloc", "Free" or "HostAlloc"; waiting: "Synchronize"; copying: "Memcpy";
        launching: "Launch"

    Bounds on what could be saved, in this order:

        "allocation_bound"   the smaller of allocating and idle_ns
        "sync_bound"         the smaller of waiting and idle_ns
        "transfer_bound"     the smaller of copying and idle_ns; or, if larger and if sum_ns is not more than
                             the window (there may be no overlap at all), the smaller of all kernels and all
                             memory operations whose row's name holds "memcpy"
        "launch_bound"       idle_ns minus allocating, waiting and copying, 0 if negative, if the window
                             over the number of launching calls is LAUNCH_PERIOD_NS or less
        "host_bound"         the same, if it is more, or if there is no launching call

    The largest is the finding, the earlier one if equal; below FLOOR_RATIO of the window it is "healthy"
    with the recommendation "none". subject: "range:" and the name. evidence: "recoverable_ns" (the bound),
    "window_ns", "idle_ns", "overlap_ns".

    Raises CaptureError if cuda_api_sum is missing or None; and, saying how to record, if it has a row whose
    name holds "cudaGraphLaunch" while there are not more kernels ("Instances" added up) than other launching
    calls: the kernels of graphs are then in no sum, and the device only seems idle.
    """
    raise NotImplementedError
