"""nsys stats: answers without a window.

You ask the command-line tool the right question, read its output, and compute its sums yourself. Then you
decide what can be concluded from sums, and what cannot. The lesson is `README.md` in this folder, hints are
in `hints.md`, and

    uv run lab check advanced_ex03

checks your solution. **Reports** are what `read_reports` returns: for each report name, the rows that the
tool printed, or None if it printed none. The tool's own help is in `captures/tool_help/nsys_stats.txt`.
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

# A cause that costs less than this share of the window is not a finding.
FLOOR_RATIO = 0.1

# If a program launches more often than once in this time, its device waits for launches, else for other
# host code.
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

    recording: the path of a .nsys-rep or an exported .sqlite; it is the last word.
    reports: names from REPORTS, in the order in which they are printed.
    The command is `nsys stats`, and it

    - prints CSV on the standard output, all reports in one call;
    - prints times in `unit`, one of UNITS_NS, and names the unit even if it is the tool's default;
    - if nvtx_range is given, reports only on what overlaps one range of that name: range number `instance`,
      from 0, in the domain if one is given. Always write the index; otherwise a name with a slash in it would be
      ambiguous;
    - exports a .nsys-rep again. By default the tool uses an export that is next to the report.

    Do not use `--quiet`: it omits lines that `read_reports` needs.

    Raises ValueError for a report or unit that is not in the lists above, or a recording that ends in neither
    .nsys-rep nor .sqlite; the message names the wrong value. Also raises it for no report, an instance below 0,
    or a domain without a range.
    """
    unknown = [name for name in reports if name not in REPORTS]
    if unknown or not reports:
        raise ValueError(f"reports {unknown or 'are missing'}: known are {', '.join(REPORTS)}")
    if unit not in UNITS_NS:
        raise ValueError(f"unit {unit!r} is none of {', '.join(UNITS_NS)}")
    if instance < 0 or (domain is not None and nvtx_range is None):
        raise ValueError("an instance is at least 0, and a domain needs a range")
    if not recording.endswith((".nsys-rep", ".sqlite")):
        raise ValueError(f"{recording}: neither a report (.nsys-rep) nor an export (.sqlite)")
    command = ["nsys", "stats", f"--report={','.join(reports)}", "--format=csv", "--output=-"]
    command.append(f"--timeunit={unit}")
    if nvtx_range is not None:
        place = nvtx_range if domain is None else f"{nvtx_range}@{domain}"
        command.append(f"--filter-nvtx={place}/{instance}")
    if recording.endswith(".nsys-rep"):
        command.append("--force-export=true")
    return [*command, recording]


def read_reports(text: str) -> dict[str, list[dict[str, Any]] | None]:
    """The output of `nsys stats --format csv --output -`, as rows.

    text: its standard output. Before each report there is a line

        Processing [FILE] with [REPORT](ARGUMENTS)...

    (ARGUMENTS) is there only if a filter was given. REPORT is a name or the path of a script; the script's name
    is the path without folders and ".py". After this line comes one of these:
    - the table as CSV;
    - a line that begins with "SKIPPED" and gives the reason;
    - nothing, if there is no such report (the error is on the standard error stream, and the exit code is 0).
    Blank lines follow. Cells may hold commas, quotes and line breaks.

    Returns the reports by name, in their order. A report is a list of dicts, heading → value. It is an empty list
    for a table without rows, and None if there is no table.
    Values are int or float if the whole cell is such a number, None if the cell is empty, else text. Times
    are in ns, whatever the unit: if a heading ends with a unit of HEADING_NS in brackets, replace this unit
    by "(ns)" and multiply the numbers. If a result is an integer number of ns (to 1e-6), it is an int.

    Raises ValueError, with the first line of the text in its message, if there is no "Processing" line: with
    `--quiet` the tool omits these lines, and the tables cannot be identified.
    """
    heads = r"^Processing \[[^\]]*\] with \[([^\]]*)\](?:\(.*\))?\.\.\. *$"
    parts = re.split(heads, text, flags=re.MULTILINE)
    if len(parts) == 1:
        first = text.partition("\n")[0]
        raise ValueError(f"no report in what the tool said: {first!r}")
    names = [one.rpartition("/")[2].removesuffix(".py") for one in parts[1::2]]
    return {name: _table(part.strip("\n")) for name, part in zip(names, parts[2::2], strict=True)}


def _table(part: str) -> list[dict[str, Any]] | None:
    if not part or part.startswith("SKIPPED"):
        return None
    rows = []
    for row in csv.DictReader(io.StringIO(part)):
        rows.append(dict(_cell(heading, value) for heading, value in row.items()))
    return rows


def _cell(heading: str, text: str) -> tuple[str, Any]:
    unit = re.search(r"\((\w+)\)$", heading)
    factor = HEADING_NS.get(unit[1]) if unit else None
    heading = re.sub(r"\(\w+\)$", "(ns)", heading) if factor else heading
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if factor:
            value *= factor
            value = round(value) if abs(value - round(value)) < 1e-6 else value
        return heading, value
    return heading, text or None


def sum_report(capture: str, report: str) -> list[dict[str, Any]]:
    """A sum report of the tool, computed from the recording.

    report:
        "cuda_gpu_kern_sum": kernels by demangled name.
        "cuda_api_sum":      CUDA calls by name, without version.
        "nvtx_sum":          push/pop and start/end ranges of the default domain, whose number is 0, or NULL in
                             some exports; the tool writes a colon before these names, this function does not.
    Returns a row for each name, largest total first, equal totals by name:

        "name",
        "time_pct":     its share of the total of **all rows**, in percent, not of the elapsed time; 0.0 if
                        that total is 0.
        "total_ns":     sum of the durations.
        "count":        number of durations.
        "avg_ns", "med_ns", "min_ns", "max_ns",
        "stddev_ns":    sample standard deviation (n − 1); 0.0 for a single duration.

    Values are not rounded; the tool rounds to one decimal. The median of an even number of durations is the mean
    of the middle two.

    Raises ValueError for any other report.
    """
    with captures.open(capture) as recording:
        if report == "cuda_gpu_kern_sum":
            rows = recording.kernels.select(name=pl.col("demangled_name"), ns=pl.col("duration_ns"))
        elif report == "cuda_api_sum":
            rows = recording.api_calls.select("name", ns=pl.col("duration_ns"))
        elif report == "nvtx_sum":
            ranges = recording.nvtx_ranges.filter(pl.col("domain") == 0)
            rows = ranges.select("name", ns=pl.col("duration_ns"))
        else:
            raise ValueError(f"{report!r}: only sums of kernels, CUDA calls and ranges")
    times: dict[str, list[int]] = {}
    for name, ns in rows.iter_rows():
        times.setdefault(name, []).append(ns)
    whole = sum(map(sum, times.values()))
    found = [
        {
            "name": name,
            "time_pct": 100 * sum(one) / whole if whole else 0.0,
            "total_ns": sum(one),
            "count": len(one),
            "avg_ns": statistics.fmean(one),
            "med_ns": float(statistics.median(one)),
            "min_ns": min(one),
            "max_ns": max(one),
            "stddev_ns": statistics.stdev(one) if len(one) > 1 else 0.0,
        }
        for name, one in times.items()
    ]
    return sorted(found, key=lambda row: (-row["total_ns"], row["name"]))


def busy_bounds(reports: Mapping[str, Any], name: str) -> dict[str, int]:
    """What sums show about how long the device was busy, and what they leave open.

    reports: has the rows of "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum" and "nvtx_sum"; the first two may be
        None.
    name: the range that is the window, in any domain. In the column "Range" the tool writes domain, colon, name
        (":step", "NCCL:reduce"), and a name may contain colons itself (":aten::linear"). The range must have one
        instance, because the total time of several instances is not a window.
    There is one device, and all its work is inside the range. Returns, in ns:

        "window_ns":  duration of the range.
        "sum_ns":     sum of all totals of kernels and memory operations.
        "least_ns":   a lower bound of the busy time: the longest single operation.
        "most_ns":    an upper bound of the busy time: the sum, or the window if that is shorter.
        "overlap_ns": at least this part of the sum ran at the same time as something else: sum_ns minus most_ns.

    Raises ValueError, with the name in its message, if the range is not in the report or does not have
    exactly one instance.
    """
    rows = [row for row in reports.get("nvtx_sum") or [] if row["Range"].partition(":")[2] == name]
    if [row["Instances"] for row in rows] != [1]:
        raise ValueError(f"range {name!r}: one row with one instance is needed for a window")
    window = sum(row["Total Time (ns)"] for row in rows)
    work = [
        row
        for report in ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum")
        for row in reports.get(report) or []
    ]
    total = sum(row["Total Time (ns)"] for row in work)
    return {
        "window_ns": window,
        "sum_ns": total,
        "least_ns": max((row["Max (ns)"] for row in work), default=0),
        "most_ns": min(total, window),
        "overlap_ns": total - min(total, window),
    }


def verdict(reports: Mapping[str, Any], name: str) -> Finding:
    """The main problem that the sum reports prove, or "healthy" if they prove none.

    reports: as in `busy_bounds`, and "cuda_api_sum". name: the window's range. idle_ns is the window minus
    most_ns of `busy_bounds`: the device was idle for at least this time. Times of calls are host times: "Total
    Time" of the rows of cuda_api_sum whose name contains

        allocating: "Malloc", "Free" or "HostAlloc"; waiting: "Synchronize"; copying: "Memcpy";
        launching: "Launch"

    Upper bounds of the savings, in this order:

        "allocation_bound":  the smaller of allocating and idle_ns.
        "sync_bound":        the smaller of waiting and idle_ns.
        "transfer_bound":    the smaller of copying and idle_ns. If sum_ns is at most the window, there may be
                             no overlap at all; then the bound is the larger of this and a second one: the
                             smaller of the total of all kernels and that of all memory operations whose row's
                             name contains "memcpy".
        "launch_bound":      idle_ns minus allocating, waiting and copying, at least 0, if the window divided
                             by the number of launching calls is LAUNCH_PERIOD_NS or less.
        "host_bound":        the same, if that quotient is larger, or if there is no launching call.

    The finding is the largest, or the earlier one if equal. It is "healthy", with the recommendation "none",
    if the largest is below FLOOR_RATIO of the window. subject: "range:" and the name. evidence:
    "recoverable_ns" (the bound), "window_ns", "idle_ns", "overlap_ns".

    Raises CaptureError if cuda_api_sum is missing or None. Also raises it if a row's name contains
    "cudaGraphLaunch" and the number of kernels (sum of "Instances") is not above that of the other launching
    calls: then the kernels of graphs are in no sum, and the device only seems idle. This message says how to
    record.
    """
    calls = reports.get("cuda_api_sum")
    if calls is None:
        raise CaptureError("there is no cuda_api_sum: nothing is known of the host")
    bounds = busy_bounds(reports, name)
    window, idle = bounds["window_ns"], bounds["window_ns"] - bounds["most_ns"]
    launches = [row for row in calls if "Launch" in row["Name"]]
    graphs = [row for row in launches if "cudaGraphLaunch" in row["Name"]]
    kernels = reports.get("cuda_gpu_kern_sum") or []
    direct = sum(row["Num Calls"] for row in launches if row not in graphs)
    if graphs and sum(row["Instances"] for row in kernels) <= direct:
        raise CaptureError(
            "CUDA graphs were launched, and their kernels are in no sum: record with "
            "--cuda-graph-trace=node"
        )

    allocating = _spent(calls, "Malloc|Free|HostAlloc")
    waiting, copying = _spent(calls, "Synchronize"), _spent(calls, "Memcpy")
    computed = sum(row["Total Time (ns)"] for row in kernels)
    copied = sum(
        row["Total Time (ns)"]
        for row in reports.get("cuda_gpu_mem_time_sum") or []
        if "memcpy" in row["Operation"]
    )
    hidden = min(computed, copied) if bounds["sum_ns"] <= window else 0
    count = sum(row["Num Calls"] for row in launches)
    rest = "launch_bound" if count and window / count <= LAUNCH_PERIOD_NS else "host_bound"
    saved = {
        "allocation_bound": min(allocating, idle),
        "sync_bound": min(waiting, idle),
        "transfer_bound": max(min(copying, idle), hidden),
        rest: max(0, idle - allocating - waiting - copying),
    }
    cause = max(saved, key=lambda one: saved[one])
    category = cause if saved[cause] >= FLOOR_RATIO * window else "healthy"
    return Finding(
        category,
        f"range:{name}",
        {
            "recoverable_ns": saved[cause],
            "window_ns": window,
            "idle_ns": idle,
            "overlap_ns": bounds["overlap_ns"],
        },
        _RECOMMENDATIONS[category],
    )


def _spent(calls: Sequence[Mapping[str, Any]], pattern: str) -> int:
    return sum(row["Total Time (ns)"] for row in calls if re.search(pattern, row["Name"]))


_RECOMMENDATIONS = {
    "healthy": "none",
    "allocation_bound": "allocate once outside the loop; look at the timeline for who calls cudaMalloc",
    "sync_bound": "look at the timeline for what the host waits for, and whether it must",
    "transfer_bound": "look at the timeline for copies without kernels beside them, and at their memory",
    "launch_bound": "issue less: fuse operations, use larger batches, or replay a CUDA graph",
    "host_bound": "sample the host: it does something else while the device is idle",
}
