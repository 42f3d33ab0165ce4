"""`lab diagnose`: captures in, findings out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.options import against_option, range_option, seconds_option
from profiling_lab.cli.printing import Busy, show_verdict, unexplained, why_not
from profiling_lab.cli.screen import LAB, note_while, wrap
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORIES, Finding, is_borderline
from profiling_lab.functions import FunctionUnavailable, functions_for
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.asking import Verdict
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis import Diagnosis
    from profiling_lab.nsys_export import NsysCapture
    from profiling_lab.reports.model import Lane


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@against_option
@click.option("--each", is_flag=True, help="Every FILE by itself, whatever belongs together.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of findings as JSON.")
@click.option(
    "--fail-on",
    "fail_on",
    metavar="CATEGORY",
    multiple=True,
    help="Exit with 1 if a finding, the main one or another, is of this category; repeat it, or "
    "separate by commas.",
)
@range_option
@seconds_option
def diagnose(
    files: tuple[str, ...],
    against: str | None,
    each: bool,
    as_json: bool,
    fail_on: tuple[str, ...],
    nvtx_range: str | None,
    seconds: str | None,
) -> int:
    """Name what is wrong with a program, from captures of it, with the functions you wrote.

    Prints the main finding with its evidence and where to look, the second one if there is one, where
    the time went, and what the captures cannot show. Functions that are still to do are named with
    their exercise; the others still answer.

    \b
    FILE is the name of a capture of the course, or one of these:
      Nsight Systems   .sqlite, or .nsys-rep where nsys is installed
      Nsight Compute   .csv of the raw page, or .ncu-rep where ncu or the
                       Python package ncu-report is installed
      PyTorch          .json, .json.gz; a folder with a trace of each rank

    Several files are one run, read together, if they are of the ranks of one job (traces that say so;
    timelines recorded at the same time that ran collectives), or a timeline (or trace) and pages of
    kernels: a kernel then counts by the time it takes in that run. All other files are diagnosed one
    after the other.

    \b
      uv run lab diagnose torch_inference_baseline --against solutions
      uv run lab diagnose my_run.nsys-rep my_kernels.ncu-rep
      uv run lab diagnose trace_rank0.json trace_rank1.json
      uv run lab diagnose my_run.sqlite --range "step 5"
      uv run lab diagnose long_run.sqlite --seconds 10:12.5
      uv run lab diagnose my_run.sqlite --json --fail-on sync_bound

    \b
    How to get FILE from your own program:
      nsys profile --trace=cuda,nvtx -o my_run python my_program.py
      nsys export --type sqlite my_run.nsys-rep        (makes my_run.sqlite)
      ncu --set full -k my_kernel -c 1 --page raw --csv ./my_program > my.csv
      torch.profiler's export_chrome_trace("my_run.json")

    A .nsys-rep is exported beside itself, as nsys stats does. SQLite may be of any size; a verdict takes
    about 1.5 GB of memory for every million events, and where that much is not free, the part around the
    middle is looked at, and said so. Other files hold at most 512 MiB of text.

    Exits with 0, healthy or not; with 1 on a --fail-on hit; with 2 if a FILE cannot be read.
    """
    from profiling_lab import cutting, inputs
    from profiling_lab.asking import ask_all

    unwanted = _categories(fail_on)
    with note_while("reading"):
        if each:
            parts = [part for file in dict.fromkeys(files) for part in inputs.read([file])]
        else:
            parts = inputs.read(files)
        parts, notes = cutting.to_look_at(parts, seconds)
    runs = [[part] for part in parts] if each else inputs.runs(parts)
    for note in notes:
        click.echo(wrap(note), err=True)
    _can_be_judged(runs, nvtx_range)
    found: list[tuple[str, Finding]] = []
    silent: list[tuple[str, str]] = []
    for number, run in enumerate(runs):
        title = " + ".join(part.name for part in run)
        with note_while(f"reading {title}"):
            verdict = ask_all(run, partial(functions_for, against=against), nvtx_range)
        found += [(title, finding) for finding in verdict.findings]
        silent += [] if verdict.findings else [(title, why_not(verdict))]
        if not as_json:
            if number:
                click.echo()
            _show(run, title, verdict, against)
    if as_json:
        if silent:
            raise LabError(f"{silent[0][0]}: no finding: {silent[0][1]}")
        rows = [
            finding.to_dict()
            | {"borderline": is_borderline(finding)}
            | ({"capture": title} if len(runs) > 1 else {})
            for title, finding in found
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    hits = [f"{title} is {f.category}" for title, f in found if f.category in unwanted]
    if hits:
        return complain(f"--fail-on: {', '.join(dict.fromkeys(hits))}", code=1)
    if unwanted and silent:
        return complain("--fail-on cannot judge: there is no finding")
    return 0


def _can_be_judged(runs: Sequence[Sequence[Part]], nvtx_range: str | None) -> None:
    """Raise LabError for captures that cannot be diagnosed, or not with these options."""
    from profiling_lab.asking import range_fits

    for run in runs:
        if run[0].kind == "counters":
            name = run[0].name
            raise LabError(f"{name}: counters for a roofline; draw it: {LAB} report {name}")
        range_fits(run, nvtx_range)


def _show(run: Sequence[Part], title: str, verdict: Verdict, against: str | None) -> None:
    from profiling_lab import limits

    given = shlex.join(name for part in run for name in part.given)
    places = _places(run[0], verdict, against)
    devices = _devices(run[0], verdict, against)
    unseen = _of_the_finding(run[0], verdict, devices) + limits.of_run(run)
    show_verdict(title, verdict, unseen, places, f"{LAB} report {given}", devices)


def _devices(part: Part, verdict: Verdict, against: str | None) -> list[Busy]:
    """For how long the devices of a run worked, as far as the functions say so."""
    from profiling_lab import captures

    if part.kind == "timeline":
        return [
            Busy(f"device {device}", busy_ns, diagnosis.length_ns)
            for diagnosis in verdict.diagnoses
            for device, busy_ns in (diagnosis.busy_ns or {}).items()
            if busy_ns <= diagnosis.length_ns
        ]
    if part.kind == "trace":
        files = {"": captures.file(part.path, "trace.json")}
    elif part.kind == "traces":
        files = {f"rank {rank}, ": file for rank, file in captures.rank_traces(part.path).items()}
    else:
        return []
    return [
        device
        for rank, file in files.items()
        for device in _devices_of_trace(rank, str(file), against)
    ]


def _devices_of_trace(rank: str, file: str, against: str | None) -> list[Busy]:
    steps = _asked(against, "step_breakdown", file)
    keys = ("device", "step_ns", "busy_ns")
    if not isinstance(steps, list) or not all(
        isinstance(step, dict)
        and all(type(step.get(key)) is int for key in keys)
        and 0 <= step["busy_ns"] <= step["step_ns"]
        for step in steps
    ):
        return []
    out = []
    for device in sorted({step["device"] for step in steps}):
        own = [step for step in steps if step["device"] == device]
        busy_ns, window_ns = (sum(step[key] for step in own) for key in ("busy_ns", "step_ns"))
        if window_ns:
            before_ns = min(_before_first(file, device, against), window_ns - busy_ns)
            out.append(Busy(f"{rank}device {device}", busy_ns, window_ns, len(own), before_ns))
    return out


def _before_first(file: str, device: int, against: str | None) -> int:
    """Time of a trace's window before a device's first operation; 0 where no function says so."""
    from profiling_lab.reports import traces

    trace = _asked(against, "read_trace", file)
    if trace is None or traces.problem(trace):
        return 0
    start, _ = traces.window_of(trace["events"])
    first = min(
        (
            event["start_ns"]
            for event in trace["events"]
            if event["kind"] in ("kernel", "copy", "memset") and event["device"] == device
        ),
        default=start,
    )
    return max(0, first - start)


def _asked(against: str | None, function: str, file: str) -> Any:
    """What a function of Day 3 says to a trace; None where it gives no answer."""
    try:
        return functions_for("ex_32", against=against).call(function, file)
    except (FunctionUnavailable, LabError):
        return None


def _of_the_finding(part: Part, verdict: Verdict, devices: Sequence[Busy]) -> list[str]:
    """What would have to be known to be sure of the main finding, and is not recorded."""
    if not verdict.findings:
        return []
    main = verdict.findings[0]
    if part.kind == "timeline":
        if not verdict.diagnoses:
            return []
        diagnosis = verdict.diagnoses[0]
        if main.category == "host_bound":
            return _waits_unseen(diagnosis.capture)
        if unexplained(main, devices):
            return _inside_graphs(diagnosis) or _waits_unseen(diagnosis.capture)
        return []
    name = main.subject.replace(":", " ")
    mine = [device for device in devices if device.device == name]
    slowed = part.kind == "trace" and main.category in ("launch_bound", "host_bound")
    return [_profilers_cost(main, mine[0])] if slowed and mine else []


def _waits_unseen(recording: NsysCapture) -> list[str]:
    """A host that waits for another thread looks, between its CUDA calls, like one that works."""
    from profiling_lab.dependencies import HOST_FUNCTION_CALLS

    if recording.os_calls.height:
        return []
    told = recording.api_calls["name"].is_in(list(HOST_FUNCTION_CALLS)).sum()
    device = (
        f" (its streams call functions of the host, {told:,} times: so a program can wait for the device "
        "without a CUDA call)"
        if told
        else ""
    )
    return [
        "whether the host worked in that time or waited, for another thread, a lock or a queue: that is "
        f"no CUDA call{device}; record with --trace=cuda,nvtx,osrt"
    ]


def _inside_graphs(diagnosis: Diagnosis) -> list[str]:
    """Idle time between two kernels of one graph launch, if that is most of a device's idle time."""
    import polars as pl

    ends = diagnosis.window_ns or diagnosis.span_ns
    nodes = diagnosis.capture.kernels.select(
        "device", "start_ns", "process", "correlation", node=pl.col("graph_node").is_not_null()
    )
    operations = (
        diagnosis.capture.device_operations.filter(
            (pl.col("start_ns") < ends[1]) & (pl.col("end_ns") > ends[0])
        )
        .join(nodes, on=["device", "start_ns", "process", "correlation"], how="left")
        .sort("device", "start_ns")
    )
    launch = pl.struct("process", "correlation")
    gaps = operations.with_columns(
        gap_ns=pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1).over("device"),
        same=(pl.col("node") & (launch == launch.shift(1))).over("device"),
    ).filter(pl.col("gap_ns") > 0)
    inside_ns = gaps.filter(pl.col("same"))["gap_ns"].sum()
    if 2 * inside_ns <= gaps["gap_ns"].sum():
        return []
    return [
        f"what kernels of one graph launch waited for, {format_ns(inside_ns)} in all: a function of the "
        "host or an event that is a node of the graph is not recorded"
    ]


def _profilers_cost(main: Finding, device: Busy) -> str:
    """From which length of a step on the finding is true of the program without the profiler."""
    floor = main.evidence["recoverable_ratio"] - main.evidence["margin_ratio"]
    step_ns, busy_ns = device.window_ns / device.steps, device.busy_ns / device.steps
    return (
        "how long a step takes without the profiler, which slows down the host and not the device: here "
        f"{format_ns(step_ns)}, of which {device.device} works {format_ns(busy_ns)}. Time it unprofiled: "
        f"unless it takes {format_ns(busy_ns / (1 - floor))} or longer, less than {floor:.0%} of it can "
        "be saved on the host"
    )


def _places(part: Part, verdict: Verdict, against: str | None) -> list[str]:
    """Where on the timeline the main finding can be seen, from the window's start."""
    from profiling_lab import captures
    from profiling_lab.cli.pages import section, section_without_timeline
    from profiling_lab.reports.places import places_of

    if part.kind == "kernels" or not verdict.findings or verdict.findings[0].category == "healthy":
        return []
    main = verdict.findings[0]
    if part.kind == "timeline":
        made = section(verdict.diagnoses[0])
    else:
        made, _ = section_without_timeline(part, against, [main], 0)
    out = []
    if part.kind == "trace" and main.category == "host_bound":
        out = _longest_host_code(str(captures.file(part.path, "trace.json")), against)
    places = places_of(made, main)
    for place in places:
        if (place.start_ns, place.end_ns) == tuple(made.window_ns):
            continue  # it is everywhere
        lane = "" if place.lane is None else f", on {_lane(made.lanes[place.lane], part)}"
        length = format_ns(place.end_ns - place.start_ns)
        start = format_ns(place.start_ns - made.window_ns[0])
        out.append(f"{place.label or main.subject}: {length} at {start}{lane}")
    if main.category == "allocation_bound" and places:
        once_ns = places[0].end_ns - places[0].start_ns
        if 2 * once_ns > main.evidence["recoverable_ns"]:
            out.append(
                "That one call takes most of it. Is it made once, at the start? Record after it then: what "
                "sets up once is no cost of a step"
            )
    return out


def _longest_host_code(file: str, against: str | None) -> list[str]:
    """The longest time between CUDA calls of a thread, and what that thread was in meanwhile.

    That is the innermost operator, range or Python function that takes at least half of it.
    """
    from profiling_lab import kineto
    from profiling_lab.reports import traces

    trace = _asked(against, "read_trace", file)
    if trace is None or traces.problem(trace):
        return []
    window = traces.window_of(trace["events"])
    code = [o for o in kineto.operations(trace["events"], window) if o.kind == "host_code"]
    if not code:
        return []
    longest = max(code, key=lambda o: o.duration_ns)
    inside = [
        event
        for event in trace["events"]
        if event["kind"] in ("operator", "range", "python")
        and f"thread:{event['thread']}" == longest.where
        and 2 * (min(event["end_ns"], longest.end_ns) - max(event["start_ns"], longest.start_ns))
        >= longest.duration_ns
        and not kineto.STEP_RANGE.match(event["name"])
    ]
    innermost = min(inside, key=lambda event: event["end_ns"] - event["start_ns"], default=None)
    where = f", most of it in {innermost['name']}" if innermost else ""
    length, start = format_ns(longest.duration_ns), format_ns(longest.start_ns - window[0])
    return [f"Longest time between CUDA calls: {length} at {start}{where}"]


def _lane(lane: Lane, part: Part) -> str:
    return f"{lane.group}, {lane.label}" if part.kind == "traces" else lane.label


def _categories(fail_on: tuple[str, ...]) -> set[str]:
    import difflib

    names = {name.strip() for text in fail_on for name in text.split(",")} - {""}
    for name in sorted(names - set(CATEGORIES)):
        close = difflib.get_close_matches(name, CATEGORIES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(CATEGORIES)}"
        raise LabError(f"--fail-on {name}: no such category; {hint}")
    return names
