"""Checks of `advanced_ex03`: the tool's own CSV beside the recordings, what it printed, made-up sums."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grading.checks import oracles, task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings, repeat_hint
from profiling_lab import captures
from profiling_lab.errors import CaptureError

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
SUMS = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum", "nvtx_sum")
FLOOR_RATIO = 0.1
LAUNCH_PERIOD_NS = 50_000
HELP = (captures.folder() / "tool_help" / "nsys_stats.txt").read_text(encoding="utf-8")


def number(text: str) -> Any:
    """A cell as int, float or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rows_of(text: str) -> list[dict[str, Any]]:
    return [{k: number(v) for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]


def tool_reports(capture: str) -> dict[str, Any]:
    """The tool's own sums beside a recording."""
    found: dict[str, Any] = {}
    for name in SUMS:
        try:
            found[name] = rows_of(captures.text(capture, f"stats/{name}.csv"))
        except CaptureError:
            found[name] = None
    return found


# -- stats_command ------------------------------------------------------------------------------------


def read_command(words: list[str]) -> tuple[dict[str, list[str]], str]:
    """Options by long name, and the recording."""
    short = {"-r": "--report", "-f": "--format", "-o": "--output", "-q": "--quiet"}
    options: dict[str, list[str]] = {}
    rest, place = [], 2
    while place < len(words):
        word = words[place]
        if word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            if not equals:
                flag = name in ("-q", "--quiet")
                value = "true" if flag else ""
                follows = words[place + 1] if place + 1 < len(words) and not flag else ""
                value, place = value or follows, place + (not flag)
            options.setdefault(short.get(name, name), []).append(value)
        else:
            rest.append(word)
        place += 1
    return options, " ".join(rest)


def judge_command(
    stub: Any,
    recording: str,
    reports: list[str],
    unit: str | None = None,
    nvtx_range: str | None = None,
    domain: str | None = None,
    instance: int | None = None,
) -> None:
    given: dict[str, Any] = {"unit": unit, "nvtx_range": nvtx_range}
    given |= {"domain": domain, "instance": instance}
    given = {key: value for key, value in given.items() if value is not None}
    got = stub.stats_command(recording, reports, **given)
    call = f"stats_command({recording!r}, {reports}{''.join(f', {k}={v!r}' for k, v in given.items())})"
    require(
        isinstance(got, list) and all(isinstance(word, str) for word in got),
        f"{call} returned {show(got)}, expected a list of words",
    )
    require(got[:2] == ["nsys", "stats"], f"{call} begins {show(got[:2])}, expected nsys stats")
    require(got[-1] == recording, f"{call} ends with {got[-1]!r}, expected the recording")
    options, rest = read_command(got)
    require(rest == recording, f"{call}: besides options there is {rest!r}")
    for name in options:
        require(
            re.search(rf"{re.escape(name)}\b", HELP) is not None,
            f"{call}: nsys stats has no option {name}",
        )
    want = {
        "--report": ",".join(reports),
        "--format": "csv",
        "--output": "-",
        "--timeunit": unit or "nsec",
    }
    why = {
        "--report": "the reports in this order",
        "--format": "a program reads CSV",
        "--output": "to the standard output, not into a file",
        "--timeunit": "whoever reads the numbers must know their unit",
        "--filter-nvtx": "one instance of the range: name, domain if any, and its index",
        "--force-export": "an export that lies beside the report may be of another run",
        "--quiet": "without the lines that it leaves out, one cannot tell which table is which",
    }
    if nvtx_range is not None:
        where = nvtx_range if domain is None else f"{nvtx_range}@{domain}"
        want["--filter-nvtx"] = f"{where}/{instance or 0}"
    if recording.endswith(".nsys-rep"):
        want["--force-export"] = "true"
    for name in sorted({*want, *options} - {"--force-overwrite"}):
        told = ",".join(options.get(name, []))
        if name == "--force-export" and name in options and told in ("", "true"):
            told = "true" if name in want else told
        require(
            told == want.get(name, ""),
            f"{call}: {name} is {told or 'not there'!r}, expected {want.get(name, 'not there')!r}: "
            f"{why.get(name, 'nobody asked for it')}",
        )


@task("advanced_ex03.stats_command")
def test_commands(stub: Any) -> None:
    judge_command(stub, "run.sqlite", ["cuda_gpu_kern_sum"])
    judge_command(stub, "out/run.nsys-rep", ["nvtx_sum", "cuda_api_sum", "osrt_sum"], "usec")
    judge_command(stub, "a b.sqlite", ["cuda_gpu_trace"], "sec", "step", None, 3)
    judge_command(stub, "run.nsys-rep", ["cuda_kern_exec_sum"], "msec", "ncclAllReduce", "NCCL", 12)
    judge_command(stub, "run.sqlite", ["nvtx_gpu_proj_sum"], None, "epoch 1/2")


@task("advanced_ex03.stats_command")
def test_what_cannot_be_asked(stub: Any) -> None:
    for recording, reports, more, word in (
        ("run.sqlite", ["cuda_kernel_sum"], {}, "cuda_kernel_sum"),
        ("run.sqlite", [], {}, "report"),
        ("run.sqlite", ["nvtx_sum"], {"unit": "minutes"}, "minutes"),
        ("run.sqlite", ["nvtx_sum"], {"nvtx_range": "step", "instance": -1}, ""),
        ("run.sqlite", ["nvtx_sum"], {"domain": "NCCL"}, ""),
        ("run.qdrep", ["nvtx_sum"], {}, "run.qdrep"),
    ):
        with stub.raises(
            ValueError, re.escape(word), why=f"{recording}, {reports}, {more} make no call"
        ):
            stub.stats_command(recording, reports, **more)


# -- read_reports -------------------------------------------------------------------------------------

HEAD = re.compile(r"Processing \[.*?\] with \[(.*?)\].*\.\.\. *")
IN_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def value_of(heading: str, text: str) -> tuple[str, Any]:
    """A heading and a value in ns."""
    unit = heading.rpartition("(")[2].removesuffix(")") if heading.endswith(")") else ""
    value = number(text) if text else None
    if unit in IN_NS:
        heading = heading.rpartition("(")[0] + "(ns)"
        if isinstance(value, int | float):
            value *= IN_NS[unit]
            value = round(value) if abs(value - round(value)) < 1e-6 else value
    return heading, value


def printed_reports(text: str) -> dict[str, Any]:
    """The reports of a transcript, read line by line."""
    found: dict[str, Any] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if head := HEAD.fullmatch(line):
            lines = found[Path(head[1]).name.removesuffix(".py")] = []
        elif line:
            lines.append(line)
    out: dict[str, Any] = {}
    for name, lines in found.items():
        if not lines or lines[0].startswith("SKIPPED"):
            out[name] = None
            continue
        rows = list(csv.reader(io.StringIO("\n".join(lines) + "\n")))
        out[name] = [
            dict(value_of(*cell) for cell in zip(rows[0], row, strict=True)) for row in rows[1:]
        ]
    return out


def judge_reports(stub: Any, text: str, what: str) -> None:
    got, want = stub.read_reports(text), printed_reports(text)
    call = f"read_reports({what})"
    require(
        isinstance(got, dict) and list(got) == list(want),
        f"{call}: reports {show(list(got) if isinstance(got, dict) else got)}, expected {list(want)}",
    )
    for name, rows in want.items():
        if rows is None:
            require(
                got[name] is None,
                f"{call}: {name} is {show(got[name])}, and the tool printed no table: None, as nothing "
                "recorded is not the same as nothing found",
            )
            continue
        require(
            isinstance(got[name], list) and len(got[name]) == len(rows),
            f"{call}: {name} has {show(got[name])}, expected {len(rows)} rows",
        )
        for one, other in zip(got[name], rows, strict=True):
            require(
                isinstance(one, dict) and one.keys() == other.keys(),
                f"{call}: a row of {name} has the headings {show(list(one))}, expected {list(other)}",
            )
            for heading, value in other.items():
                require(
                    agree(one[heading], value) and type(one[heading]) is type(value),
                    f"{call}: {heading} in {name} is {show(one[heading])}, expected {show(value)}: whole "
                    "cells, numbers as numbers, times in ns whatever the tool's unit was",
                )


@task("advanced_ex03.read_reports")
def test_reports_of_a_transcript(stub: Any) -> None:
    for recorded in ("reports_pipeline", "reports_training"):
        told = json.loads(captures.text(recorded, "transcripts.json"))["transcripts"]
        for one in told:
            if one["name"] not in ("quiet", "column", "old export"):
                judge_reports(stub, one["stdout"], f"{recorded}, {one['name']!r}")


@task("advanced_ex03.read_reports")
def test_units(stub: Any, seed: int) -> None:
    chance = random.Random(f"reports {seed}")
    for unit in ("ns", "us", "ms", "s"):
        text = io.StringIO()
        for name in ("cuda_gpu_kern_sum", "<nsys>/reports/cuda_api_sum.py", "./of mine.py"):
            text.write(f"Processing [a.sqlite] with [{name}](nvtx=a/0)... \n")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(["Time (%)", f"Total Time ({unit})", "Size (MB)", "Empty", "Name"])
            for _ in range(chance.randrange(1, 4)):
                total = chance.randrange(10**6, 10**9)
                cell = total if unit == "ns" else f"{total / IN_NS[unit]:.3f}"
                cell = f"{total / 7:.7f}" if chance.random() < 0.3 else cell
                word = "".join(chance.choices('ab,"<>() ', k=9)).strip() or "a"
                writer.writerow([12.5, cell, 3.25, "", f"x{word}, y"])
            text.write("\n")
        judge_reports(stub, text.getvalue(), f"made up, in {unit}")


@task("advanced_ex03.read_reports")
def test_cells_and_tables_that_are_rare(stub: Any) -> None:
    for unit in ("us", "\u00b5s", "\u03bcs"):  # two characters look like µ
        text = (
            "Processing [a.sqlite] with [nvtx_sum]... \n"
            f'Total Time ({unit}),Range\n1.5,"a\nb, ""c"""\n2,d\n\n'
            f"Processing [a.sqlite] with [osrt_sum]... \nTotal Time ({unit}),Name\n\n"
        )
        rows = [
            {"Total Time (ns)": 1_500, "Range": 'a\nb, "c"'},
            {"Total Time (ns)": 2_000, "Range": "d"},
        ]
        want = {"nvtx_sum": rows, "osrt_sum": []}
        got = stub.read_reports(text)
        require(
            agree(got, want),
            f"read_reports({text!r}) returned {show(got)}, expected {want}: quotes hold a line break "
            "together, µ is written with one of two characters, and a table without rows is an empty "
            "list, not None",
        )


@task("advanced_ex03.read_reports")
def test_what_is_no_report(stub: Any) -> None:
    told = json.loads(captures.text("reports_pipeline", "transcripts.json"))["transcripts"]
    quiet = next(one["stdout"] for one in told if one["name"] == "quiet")
    for text in (quiet, "", "nsys: command not found"):
        with stub.raises(ValueError, re.escape(text[:20]), why="no line says which report this is"):
            stub.read_reports(text)


# -- sum_report ---------------------------------------------------------------------------------------

COLUMNS = {
    "time_pct": "Time (%)",
    "total_ns": "Total Time (ns)",
    "count": "",
    "avg_ns": "Avg (ns)",
    "med_ns": "Med (ns)",
    "min_ns": "Min (ns)",
    "max_ns": "Max (ns)",
    "stddev_ns": "StdDev (ns)",
}
QUERIES = {
    "cuda_gpu_kern_sum": f'SELECT s.value, k."end" - k.start FROM {oracles.KERNEL} AS k '
    "JOIN StringIds AS s ON s.id = k.demangledName",
    "nvtx_sum": 'SELECT coalesce(n.text, s.value), n."end" - n.start FROM NVTX_EVENTS AS n '
    "LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType IN (59, 60) "
    "AND coalesce(n.domainId, 0) = 0",
}


def durations(capture: str, report: str) -> dict[str, list[int]]:
    """Durations by name, by plain SQL."""
    path = captures.path(capture)
    sql = QUERIES.get(
        report,
        f'SELECT s.value, r."end" - r.start FROM ({oracles.calls_query(path)}) AS r '
        "JOIN StringIds AS s ON s.id = r.nameId",
    )
    connection = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)
    found: dict[str, list[int]] = {}
    for name, ns in connection.execute(sql):
        name = re.sub(r"(_ptsz)?_v\d+(_ptsz)?$", "", name) if report == "cuda_api_sum" else name
        found.setdefault(name, []).append(ns)
    connection.close()
    return found


def judge_sums(stub: Any, capture: str, report: str) -> list[dict[str, Any]]:
    got, times = stub.sum_report(capture, report), durations(capture, report)
    call = f"sum_report({Path(capture).name!r}, {report!r})"
    order = sorted(times, key=lambda name: (-sum(times[name]), name))
    require(
        isinstance(got, list) and [row.get("name") for row in got] == order,
        f"{call}: the names are {show([row.get('name', row) for row in got])}, expected {show(order)}: "
        f"largest total first{repeat_hint(capture)}",
    )
    whole = sum(map(sum, times.values()))
    for row in got:
        one = sorted(times[row["name"]])
        n, mean = len(one), sum(one) / len(one)
        middle = (one[(n - 1) // 2] + one[n // 2]) / 2
        spread = (sum((x - mean) ** 2 for x in one) / (n - 1)) ** 0.5 if n > 1 else 0.0
        want = {
            "name": row["name"],
            "time_pct": 100 * sum(one) / whole if whole else 0.0,
            "total_ns": sum(one),
            "count": n,
            "avg_ns": mean,
            "med_ns": middle,
            "min_ns": one[0],
            "max_ns": one[-1],
            "stddev_ns": spread,
        }
        why = {
            "time_pct": "It is the share of the total of all rows, in percent.",
            "med_ns": "The median of an even number is the mean of the middle two.",
            "stddev_ns": "It is the sample standard deviation, divided by n − 1.",
        }
        require(row.keys() == want.keys(), f"{call} has the keys {sorted(row)}")
        for key, value in want.items():
            right = (
                near(row[key], value, 1e-6, 1e-6) if isinstance(value, float) else row[key] == value
            )
            require(
                right,
                f"{call}: {key} of {row['name'][:60]!r} is {show(row[key])}, expected {show(value)} "
                f"(ns, %, count). {why.get(key, '')}{repeat_hint(capture)}",
            )
    return got


@task("advanced_ex03.sum_report")
@recordings("cuda_pipeline_baseline", "training_item", "two_streams")
def test_sums_of_a_recording(stub: Any, recording: str) -> None:
    for report in ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum"):
        judge_sums(stub, recording, report)


@task("advanced_ex03.sum_report")
def test_sums_agree_with_the_tool(stub: Any) -> None:
    for capture in ("cuda_pipeline_baseline", "training_item", "two_devices"):
        for report, counted in (
            ("cuda_gpu_kern_sum", "Instances"),
            ("cuda_api_sum", "Num Calls"),
            ("nvtx_sum", "Instances"),
        ):
            told = {
                re.sub(r"^:|_v\d+$", "", str(row.get("Name", row.get("Range")))): row
                for row in rows_of(captures.text(capture, f"stats/{report}.csv"))
            }
            for row in stub.sum_report(capture, report):
                said = told[row["name"]]
                for key, heading in COLUMNS.items():
                    heading = heading or counted
                    require(
                        near(row[key], said[heading], 0, 0.051),
                        f"sum_report({capture!r}, {report!r}): {key} of {row['name'][:60]!r} is "
                        f"{show(row[key])}; the tool's own report says {said[heading]} ({heading})",
                    )


@task("advanced_ex03.sum_report")
def test_sums_of_generated_captures(stub: Any, generated: Callable, draw: Callable) -> None:
    judge_sums(stub, str(generated("two_devices").path), "cuda_gpu_kern_sum")
    judge_sums(stub, str(generated("healthy").path), "cuda_api_sum")
    judge_sums(stub, str(generated("copies_and_kernels").path), "nvtx_sum")
    judge_sums(stub, "backtrace_masking", "nvtx_sum")  # a second domain
    timeline = draw()
    for start, end, kind in ((0, 100, "push_pop"), (5, 20, "start_end"), (0, 300, "push_pop")):
        timeline.nvtx("step" if end < 300 else "all", start, end, kind=kind)
    timeline.nvtx("mark", 5, None, kind="mark")
    timeline.kernel(0, 100)
    judge_sums(stub, timeline.save(), "nvtx_sum")
    timeline = draw()
    timeline.nvtx("nothing", 7, 7)
    judge_sums(stub, timeline.save(), "nvtx_sum")
    with stub.raises(ValueError, "osrt_sum", why="that report is not computed here"):
        stub.sum_report(timeline.save(), "osrt_sum")


# -- busy_bounds --------------------------------------------------------------------------------------


def bounds_of(reports: Mapping[str, Any], name: str) -> dict[str, int]:
    window = next(
        row["Total Time (ns)"]
        for row in reports["nvtx_sum"]
        if row["Range"].split(":", 1)[1] == name
    )
    work = (reports["cuda_gpu_kern_sum"] or []) + (reports["cuda_gpu_mem_time_sum"] or [])
    total = sum(row["Total Time (ns)"] for row in work)
    most = min(total, window)
    longest = max([row["Max (ns)"] for row in work], default=0)
    return {
        "window_ns": window,
        "sum_ns": total,
        "least_ns": longest,
        "most_ns": most,
        "overlap_ns": total - most,
    }


def judge_bounds(stub: Any, reports: Mapping[str, Any], name: str, what: str) -> dict[str, Any]:
    got = stub.busy_bounds(dict(reports), name)
    why = {
        "least_ns": "Everything may have run at the same time as the longest operation.",
        "most_ns": "No device is busy for longer than the window, however much the sums add up to.",
        "overlap_ns": "The part of the sum that exceeds the window ran at the same time as something else.",
    }
    judge(f"busy_bounds({what}, {name!r})", got, bounds_of(reports, name), "ns", why)
    return got


def window_range(reports: Mapping[str, Any]) -> str:
    """The range with one instance and the longest time."""
    rows = [row for row in reports["nvtx_sum"] if row["Instances"] == 1]
    return max(rows, key=lambda row: row["Total Time (ns)"])["Range"].partition(":")[2]


@task("advanced_ex03.busy_bounds")
@recordings("two_streams", "cuda_pipeline_baseline", holding="stats/nvtx_sum.csv")
def test_bounds_of_a_recording(stub: Any, recording: str) -> None:
    reports = tool_reports(recording)
    name = window_range(reports)
    got = judge_bounds(stub, reports, name, Path(recording).name)
    path = captures.path(recording)
    busy = oracles.busy_ns(path, oracles.nvtx_window(path, name))
    if len(busy) == 1:
        truth = next(iter(busy.values()))
        require(
            got["least_ns"] <= truth <= got["most_ns"],
            f"busy_bounds of {Path(recording).name}: the timeline says {truth} ns, outside of "
            f"{got['least_ns']} … {got['most_ns']} ns",
        )


def made_up(seed: int, scale: int = 1, **costs: int) -> dict[str, Any]:
    """Sums that nobody recorded; costs: total ns by kind of call."""
    chance = random.Random(f"sums {seed} {scale} {sorted(costs.items())}")
    window = chance.randrange(40_000_000, 90_000_000)

    def row(name: str, heading: str, total: int, count: int, counted: str) -> dict[str, Any]:
        return {
            "Total Time (ns)": total,
            counted: count,
            "Max (ns)": total // max(1, count) + chance.randrange(100),
            heading: name,
        }

    kernels = [
        row(f"kernel_{i}<int>", "Name", scale * chance.randrange(10**6, 10**7), 50, "Instances")
        for i in range(3)
    ]
    memory = [
        row("[CUDA memcpy Host-to-Device]", "Operation", costs.pop("h2d", 300_000), 9, "Count"),
        row("[CUDA memset]", "Operation", costs.pop("memset", 90_000), 12, "Count"),
    ]
    count = costs.pop("launches", 150)
    calls = [row("cudaLaunchKernel", "Name", 1_000_000, count, "Num Calls")] if count else []
    calls += [row(name, "Name", total, 20, "Num Calls") for name, total in costs.items()]
    ranges = [
        row(":whole", "Range", window, 1, "Instances"),
        row(":step", "Range", window - 1_000, 20, "Instances"),
        row("NCCL:reduce", "Range", 5_000, 1, "Instances"),
        row(":aten::linear", "Range", 7_000, 1, "Instances"),
    ]
    return {
        "cuda_gpu_kern_sum": kernels,
        "cuda_gpu_mem_time_sum": memory,
        "cuda_api_sum": calls,
        "nvtx_sum": ranges,
    }


@task("advanced_ex03.busy_bounds")
def test_bounds_of_made_up_sums(stub: Any, seed: int) -> None:
    for scale in (1, 40):
        judge_bounds(stub, made_up(seed, scale), "whole", "made-up sums")
    bare = made_up(seed) | {"cuda_gpu_kern_sum": None, "cuda_gpu_mem_time_sum": None}
    judge_bounds(stub, bare, "whole", "no device work")
    for name in ("reduce", "aten::linear"):
        judge_bounds(stub, made_up(seed, 2), name, "made-up sums")
    for name in ("step", "no such range", "linear"):
        with stub.raises(ValueError, name, why="a window is one range, once"):
            stub.busy_bounds(made_up(seed), name)


# -- verdict ------------------------------------------------------------------------------------------


def verdict_of(reports: Mapping[str, Any], name: str) -> tuple[str, dict[str, int], dict[str, int]]:
    """Category, evidence, and the bound on each cause."""
    bounds = bounds_of(reports, name)
    window, idle = bounds["window_ns"], bounds["window_ns"] - bounds["most_ns"]
    calls = reports["cuda_api_sum"]

    def time(*words: str) -> int:
        return sum(r["Total Time (ns)"] for r in calls if any(w in r["Name"] for w in words))

    allocating, waiting = time("Malloc", "Free", "HostAlloc"), time("Synchronize")
    copying = time("Memcpy")
    kernels = sum(r["Total Time (ns)"] for r in reports["cuda_gpu_kern_sum"] or [])
    moved = [r for r in reports["cuda_gpu_mem_time_sum"] or [] if "memcpy" in r["Operation"]]
    copies = sum(r["Total Time (ns)"] for r in moved)
    launches = sum(r["Num Calls"] for r in calls if "Launch" in r["Name"])
    often = launches > 0 and window <= LAUNCH_PERIOD_NS * launches
    saved = {
        "allocation_bound": min(allocating, idle),
        "sync_bound": min(waiting, idle),
        "transfer_bound": max(
            min(copying, idle), min(kernels, copies) if bounds["sum_ns"] <= window else 0
        ),
        "launch_bound" if often else "host_bound": max(0, idle - allocating - waiting - copying),
    }
    most = max(saved, key=lambda cause: saved[cause])
    evidence = {
        "recoverable_ns": saved[most],
        "window_ns": window,
        "idle_ns": idle,
        "overlap_ns": bounds["overlap_ns"],
    }
    return most if saved[most] >= FLOOR_RATIO * window else "healthy", evidence, saved


def judge_verdict(
    stub: Any, reports: Mapping[str, Any], name: str, what: str, sure: str = ""
) -> None:
    got = stub.verdict(dict(reports), name)
    want, evidence, saved = verdict_of(reports, name)
    assert not sure or want == sure, (what, want, sure)
    call = f"verdict({what}, {name!r})"
    told = ", ".join(f"{cause} {ns:,} ns" for cause, ns in saved.items())
    facts = (
        f"by the sums it is {want}. At most could be saved: {told}, of {evidence['window_ns']:,} ns; idle for "
        f"at least {evidence['idle_ns']:,} ns; the floor is {FLOOR_RATIO:.0%}"
    )
    why = {"recoverable_ns": told}
    judge_finding(call, got, want, f"range:{name}", evidence, facts, why=why)
    judge_recommendation(call, got, facts)


SURE = {
    "alloc_every_step": "allocation_bound",
    "decode_eager": "launch_bound",
    "host_preprocess": "host_bound",
    "training_item": "sync_bound",
    "torch_inference_baseline": "transfer_bound",
    "cuda_pipeline_improved": "healthy",
}


@task("advanced_ex03.verdict")
@recordings(*SURE, holding="stats/cuda_api_sum.csv")
def test_verdict_of_a_recording(stub: Any, recording: str) -> None:
    reports = tool_reports(recording)
    name = window_range(reports)
    judge_verdict(stub, reports, name, Path(recording).name, SURE.get(recording, ""))


@task("advanced_ex03.verdict")
def test_verdict_of_made_up_sums(stub: Any, seed: int) -> None:
    for sure, reports in (
        ("", made_up(seed)),
        ("sync_bound", made_up(seed, cudaStreamSynchronize=99_000_000)),
        (
            "allocation_bound",
            made_up(seed, cudaFreeHost=70_000_000, cuMemAllocHostAlloc=60_000_000),
        ),
        ("", made_up(seed, cudaHostAlloc=20_000_000)),
        ("transfer_bound", made_up(seed, cudaMemcpyAsync=99_000_000)),
        ("launch_bound", made_up(seed, launches=2_000)),
        ("host_bound", made_up(seed, launches=0)),
        ("healthy", made_up(seed, 40, cudaEventSynchronize=80_000_000)),
        ("", made_up(seed, 1, h2d=99_000_000, memset=99_000_000)),
    ):
        judge_verdict(stub, reports, "whole", "made-up sums", sure)
    for more in (0, 1, 1_000):  # kernels and copies fill the window, or do not fit into it
        reports = made_up(seed, 1, h2d=9_000_000)
        reports["cuda_api_sum"] = reports["cuda_api_sum"][:1]
        reports["nvtx_sum"][0]["Total Time (ns)"] = bounds_of(reports, "whole")["sum_ns"] - more
        judge_verdict(stub, reports, "whole", f"sums {more} ns longer than the window")
    for window in (1_000_000, 999_999, 1_000_001):  # a tenth of it, to the ns
        reports = made_up(seed) | {"cuda_gpu_mem_time_sum": None, "cuda_api_sum": []}
        reports["cuda_gpu_kern_sum"] = [
            {"Name": "k", "Total Time (ns)": 900_000, "Instances": 3, "Max (ns)": 9}
        ]
        reports["nvtx_sum"] = [{"Range": ":w", "Total Time (ns)": window, "Instances": 1}]
        judge_verdict(stub, reports, "w", f"a window of {window} ns")
    for launches in (20, 21):  # one in LAUNCH_PERIOD_NS, to the ns
        reports = made_up(seed) | {"cuda_gpu_mem_time_sum": None, "cuda_gpu_kern_sum": None}
        reports["cuda_api_sum"] = [
            {"Name": "cuLaunchKernel", "Total Time (ns)": 5, "Num Calls": launches, "Max (ns)": 1}
        ]
        for window in (20 * LAUNCH_PERIOD_NS, 20 * LAUNCH_PERIOD_NS + 1):
            reports["nvtx_sum"] = [{"Range": ":w", "Total Time (ns)": window, "Instances": 1}]
            judge_verdict(stub, reports, "w", f"{launches} launches in {window} ns")


@task("advanced_ex03.verdict")
def test_what_sums_cannot_judge(stub: Any, seed: int) -> None:
    blind = tool_reports("decode_graph")
    with stub.raises(
        CaptureError, "cuda-graph-trace", why="the kernels of its graphs are in no sum"
    ):
        stub.verdict(blind, window_range(blind))
    seen = tool_reports("decode_graph_nodes")
    judge_verdict(stub, seen, window_range(seen), "decode_graph_nodes")
    for reports in (made_up(seed) | {"cuda_api_sum": None},):
        with stub.raises(CaptureError, "cuda_api_sum", why="nothing is known of the host"):
            stub.verdict(reports, "whole")
    only = made_up(seed, cudaGraphLaunch=5_000) | {"cuda_gpu_kern_sum": None}
    with stub.raises(CaptureError, "cuda-graph-trace", why="no kernel was recorded at all"):
        stub.verdict(only, "whole")
