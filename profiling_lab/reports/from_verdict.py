"""From the engine's verdict on a run to a section of a report: what is wrong, where the time went, by name, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.analysis import kernel_page, spent
from profiling_lab.captures import Kind
from profiling_lab.diagnosis import advice, contributors, headline
from profiling_lab.findings import OVERLAP
from profiling_lab.reports import flame, kernel_pages, trace_lanes
from profiling_lab.reports.builder import section_from_capture
from profiling_lab.reports.model import CaptureSection, Gap, Place, Table, TimeShare
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.engine import Seen, Verdict

MOST_GAPS = 5000  # of a page; the rest is too short to be seen on it
LEAST_GAP_RATIO = 1e-5  # of the window: shorter ones are below a pixel
# How a class of `analysis.spent` looks: as what it is of on the timeline.
LOOKS = {
    spent.KERNELS_ALONE: "kernel",
    spent.BESIDE_COPIES: "beside",
    spent.COPIES_ALONE: "copy_in",
    spent.COMMUNICATION_ALONE: "collective",
    spent.MIGRATION: "copy_device",
    "issuing": "api",
    "waiting for results": "wait",
    "copy calls": "copy_out",
    "allocation": "memset",
    "input": "os",
    "own host code": "python",
    "compiling": "operator",
    "set-up": "idle",
    spent.PEER: "nvtx",
    spent.UNEXPLAINED: "other",
}


def sections(verdict: Verdict, run: Sequence[Part], first: int = 0) -> list[CaptureSection]:
    """The sections for the captures of a run that a verdict is of; first: the number of the first on its page.

    The verdict's words stand with the run; with its pages of kernels what was found in these, or all where there
    is no run.
    """
    out: list[CaptureSection] = []
    begin = 0
    for part in run:
        if part.kind == Kind.KERNELS:
            # `Verdict.kernels` holds the launches of all pages, in the order of the pages.
            count = len(kernel_page.read(part.path))
            judged = verdict.kernels[begin : begin + count]
            begin += count
            subjects = {f"kernel:{one.kernel.name}" for one in judged}
            found = [f for f in verdict.findings if f.subject in subjects]
            out.append(kernel_pages.section(part, judged, found, first + len(out)))
        elif part.kind == Kind.TIMELINE:
            out.append(_of_timeline(verdict, part))
        else:
            out.append(_of_traces(verdict, part))
        if part.kind != Kind.KERNELS:
            own = sorted(out[-1].tables, key=lambda table: table.topic != "Kernels")
            by_name = _by_name(verdict)
            kernels = sum(table.topic == "Kernels" for table in own)
            out[-1].tables = [*_time_tables(verdict), *own[:kernels], *by_name, *own[kernels:]]
    out[0].claim, out[0].first = headline.parts(verdict)
    out[0].begin_with = verdict.begin_with
    out[0].rests_on = [*out[0].rests_on, *verdict.rests_on]
    return out


def _of_timeline(verdict: Verdict, part: Part) -> CaptureSection:
    (seen,) = verdict.seen
    with captures.open(part.path) as capture:
        made = section_from_capture(
            capture,
            window_ns=seen.window_ns,
            findings=verdict.findings,
            busy=busy(seen),
            gaps=gaps(seen),
            where_the_time_went=shares(seen),
            shares_note=_note(seen),
            name=part.name,
        )
        made.flame = flame.of_stacks(capture, seen.window_ns)
    return made


def _of_traces(verdict: Verdict, part: Part) -> CaptureSection:
    traces = [seen.trace for seen in verdict.seen if seen.trace is not None]
    first = verdict.seen[0]
    made = trace_lanes.section(part, traces, [seen.window_ns for seen in verdict.seen])
    made.findings = verdict.findings
    if len(traces) == 1:
        made.flame = flame.of_trace(traces[0], made.window_ns)
        made.busy_ns, made.gaps = busy(first), gaps(first)
    made.where_the_time_went = shares(first)
    made.shares_note = _note(first, "rank 0" if len(traces) > 1 else "")
    return made


def busy(seen: Seen) -> dict[int, int]:
    """Per device, for how long something ran in the window."""
    return {
        one.device: one.length_ns - int((one.idle.ends_ns - one.idle.starts_ns).sum())
        for one in seen.spent
    }


def gaps(seen: Seen) -> list[Gap]:
    """When devices did nothing, the longest gaps first, with what most of each was spent on."""
    out = []
    for one in seen.spent:
        lengths = one.idle.ends_ns - one.idle.starts_ns
        rows = (-lengths).argsort(kind="stable")
        for row in rows[: MOST_GAPS // len(seen.spent)].tolist():
            if lengths[row] < LEAST_GAP_RATIO * one.length_ns:
                break
            cause = spent.IDLE[int(one.idle_parts[row].argmax())]
            out.append(
                Gap(int(one.idle.starts_ns[row]), int(one.idle.ends_ns[row]), one.device, cause)
            )
    return out


def shares(seen: Seen) -> list[TimeShare]:
    """Where the time of the device went that was idle for longest: all of its window."""
    one = _most_idle(seen)
    return [
        TimeShare(spent.in_words(name), ns, LOOKS[name]) for name, ns in one.classes.items() if ns
    ]


def _most_idle(seen: Seen) -> spent.Spent:
    return max(seen.spent, key=lambda one: (one.idle_ns, -one.device))


def _note(seen: Seen, rank: str = "") -> str:
    if len(seen.spent) == 1 and not rank:
        return ""
    where = ", ".join([*([rank] if rank else []), f"GPU {_most_idle(seen).device}"])
    return f"Of {where}; the table below has all."


def _time_tables(verdict: Verdict) -> list[Table]:
    """What would be saved; and where the time went, of several devices or ranks."""
    out = []
    first = verdict.seen[0]
    rows = [(name, ns, 100 * ns / first.judged_ns) for name, ns in advice.saved_rows(first)]
    if rows:
        columns = [("Without …", ""), ("The end would come earlier by", "ns"), ("Share", "pct")]
        note = "Each cause taken away alone, and the end computed anew; causes overlap and do not add up."
        if first.setup_ns:
            note += " Shares are of the window without set-up."
        out.append(Table("What would be saved", "Cause by cause", columns, rows, note))
    told = [
        (f"rank {number}, GPU {one.device}" if len(verdict.seen) > 1 else f"GPU {one.device}", one)
        for number, seen in enumerate(verdict.seen)
        for one in seen.spent
    ]
    if len(told) > 1:
        used = [name for name in spent.CLASSES if any(one.classes[name] for _, one in told)]
        out.append(
            Table(
                "Devices",
                "Where the time of each went",
                [("Class", ""), *((name, "pct") for name, _ in told)],
                [
                    (
                        spent.in_words(name),
                        *(100 * one.classes[name] / one.length_ns for _, one in told),
                    )
                    for name in used
                ],
            )
        )
    return out


def _by_name(verdict: Verdict) -> list[Table]:
    """Steps, operators, shapes, modules and ranges of the run, or of the first rank."""
    seen = verdict.seen[0]
    found = contributors.of(seen)
    of = " of rank 0" if len(verdict.seen) > 1 else ""
    out = []
    if steps := found["steps"]:
        out.append(_steps_table(steps, of))
    launched = (
        "Device time is that of what was launched inside, from the same thread; own: inside of nothing "
        "narrower."
    )
    for key, topic, first, title in (
        ("operators", "Operators", "Operator", "By the device time of their own launches"),
        ("modules", "Modules", "Module", "nn.Module, forward"),
        ("ranges", "Ranges", "Range", "By the device time of what was launched inside"),
    ):
        rows = [
            (
                row["name"],
                row["count"],
                row["own_device_ns"],
                row["device_ns"],
                100 * row["window_ratio"],
                row["device_ns"] / row["count"] if row["count"] else None,
                row["total_ns"],
            )
            for row in found[key]
        ]
        columns = [
            (first, ""), ("Count", "count"), ("Device, own", "ns"), ("Device, all", "ns"),
            ("Of the window", "pct"), ("Device, mean", "ns"), ("Host", "ns"),
        ]  # fmt: skip
        if rows:
            overlap = f" {OVERLAP}" if any(row["window_ratio"] > 1 for row in found[key]) else ""
            out.append(Table(topic, title + of, columns, rows, launched + overlap))
        shapes = [
            row for row in found["shapes"] if row.get("flops_per_s") or row.get("bytes_per_s")
        ]
        if key == "operators" and shapes:
            out.append(_shapes_table(shapes, of))
    if found["functions"]:
        columns = [("Function", ""), ("Count", "count"), ("Host, own", "ns"), ("Host, all", "ns")]
        rows = [
            (row["name"], row["count"], row["own_host_ns"], row["total_ns"])
            for row in found["functions"]
        ]
        out.append(Table("Functions", "By their own host time" + of, columns, rows))
    return out


def _steps_table(steps: dict[str, Any], of: str) -> Table:
    rows = steps["rows"]
    shown = sorted(rows, key=lambda row: -row["length_ns"])[: contributors.MOST]
    return Table(
        "Steps",
        f"The longest of {steps['count']} ({steps['name']}){of}",
        [("Step", ""), ("Length", "ns"), ("Busy", "ns"), ("Idle", "pct")],
        [
            (
                f"Step {row['number']}",
                row["length_ns"],
                row["busy_ns"],
                100 * (1 - row["busy_ns"] / row["length_ns"]) if row["length_ns"] else None,
            )
            for row in shown
        ],
        note=f"Mean {format_ns(steps['mean_ns'])}, standard deviation {format_ns(steps['stdev_ns'])}. "
        "A step is over when the next begins and the device is done with what it launched.",
        places=[Place("Show", row["start_ns"], row["start_ns"] + row["length_ns"]) for row in shown]
        if not of
        else (),
    )


def _shapes_table(shapes: Sequence[dict[str, Any]], of: str) -> Table:
    def share(value: float | None) -> float | None:
        return None if value is None else 100 * value

    return Table(
        "Operators",
        "By shape, with the roofs of the device" + of,
        [
            ("Operator and inputs", ""),
            ("Type", ""),
            ("Count", "count"),
            ("Device, own", "ns"),
            ("Mean", "ns"),
            ("TFLOP/s", "count"),
            ("Of the roof", "pct"),
            ("TB/s at least", "count"),
            ("Of the roof", "pct"),
        ],
        [
            (
                f"{row['name']} ({row['shape']})",
                row["dtype"],
                row["count"],
                row["own_device_ns"],
                row["mean_ns"],
                _scaled(row.get("flops_per_s"), 1e12),
                share(row.get("flops_ratio")),
                _scaled(row.get("bytes_per_s"), 1e12),
                share(row.get("bytes_ratio")),
            )
            for row in shapes
        ],
        "Operations and bytes are computed from the shapes: each input read once, the output written once. The "
        "roofs are the maker's (devices.toml).",
    )


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value / by
