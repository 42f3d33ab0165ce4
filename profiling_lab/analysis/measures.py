"""What one run says about itself, as named numbers that can be set beside another run's.

A timeline gives window, busy and idle time, gaps, calls, copies, NVTX ranges and kernels; a trace what
of these it holds, and operators; a page of kernels each kernel's duration and main counters. Traces and
pages are read by the functions of the course (`read_trace`, `read_metrics`), which the caller brings.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiling_lab import captures
from profiling_lab.captures import Kind, Part, kineto
from profiling_lab.errors import EmptyCapture, LabError
from profiling_lab.mine.diagnosis import Diagnosis
from profiling_lab.mine.functions import Functions, FunctionUnavailable

if TYPE_CHECKING:
    import polars as pl

    from profiling_lab.findings import Finding

WINDOW = "Window"
STEP = "A step, mean"
# Groups whose entries are named by the program: one that a run lacks took no time there.
NAMED = ("gaps", "calls", "stages", "operators", "kernels")
# Counters of a kernel besides its duration: what people call them, and their units.
COUNTERS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM throughput", "pct"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (
        "Memory throughput",
        "pct",
    ),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM throughput", "pct"),
    "lts__t_sector_hit_rate.pct": ("L2 hit rate", "pct"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("Warps active", "pct"),
    "launch__registers_per_thread": ("Registers a thread", "count"),
    "dram__bytes_read.sum": ("DRAM read", "bytes"),
    "dram__bytes_write.sum": ("DRAM written", "bytes"),
    "gpc__cycles_elapsed.avg.per_second": ("SM clock", "hz"),
}
DURATION = "gpu__time_duration.sum"
# Options of a recording that change what it measures, and how they are spelled.
DECISIVE_OPTIONS = ("--clock-control", "--cache-control", "--replay-mode", "--cuda-graph-trace")

# What names of ranges and operators count up: it differs from step to step, and from run to run.
_SERIAL_NUMBERS = re.compile(
    r"(#\s*|\b(?:\w+_)?(?:id|seq)\s*[=:]\s*|\b(?:step|iter|iteration|batch)\s*[=:]?\s*|\b0x)[0-9][0-9a-f]*\b",
    re.IGNORECASE,
)

Key = tuple[str, str, str]  # group, what, unit


def without_serial_numbers(name: str) -> str:
    """A name under which what happened again and again can be added up ("ProfilerStep#5" → "ProfilerStep#…").

    Numbers after "#", "id =", "seq =", "step", "iteration", "batch", and addresses; others ("layer 3") stay.
    """
    return _SERIAL_NUMBERS.sub(r"\1…", name)


def device_label(device: int) -> str:
    """What follows the name of a measure of one device."""
    return f" (device {device})"


@dataclass
class Launches:
    """How often a kernel ran, and in which shapes ("(132, 1, 1) × (256, 1, 1)")."""

    count: int = 0
    shapes: frozenset[str] = frozenset()


@dataclass
class Run:
    """The numbers of one capture.

    measures: by group, name and unit; None where the run could not tell.
    launches: by kernel. conditions: what has to be equal for runs to be compared, by name.
    work: how much was done, by name: where it differs, times tell little. findings: by subject, or
    one by "" for the whole. unanswered: sentences on functions that gave no answer. devices: those
    that have measures of their own.
    """

    name: str
    kind: Kind
    measures: dict[Key, float | None] = field(default_factory=dict)
    launches: dict[str, Launches] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    diagnosis: Diagnosis | None = None
    devices: tuple[int, ...] = ()

    def put(self, group: str, what: str, value: float | None, unit: str = "ns") -> None:
        """Note a number."""
        self.measures[group, what, unit] = value

    def get(self, group: str, what: str, unit: str = "ns") -> float | None:
        """A number, None if there is none."""
        return self.measures.get((group, what, unit))


# -- timelines ------------------------------------------------------------------------------------


def of_timeline(diagnosis: Diagnosis) -> Run:
    """What a diagnosed timeline says, in its window."""
    import polars as pl

    run = Run(diagnosis.name, Kind.TIMELINE, diagnosis=diagnosis, devices=tuple(diagnosis.devices))
    run.put("time", WINDOW, diagnosis.length_ns)
    for device in diagnosis.devices:
        label = device_label(device)
        run.put("time", f"Busy{label}", (diagnosis.busy_ns or {}).get(device))
        run.put("time", f"Idle{label}", diagnosis.idle_ns(device))
        lengths = [
            gap["end_ns"] - gap["start_ns"]
            for gap in diagnosis.gaps or []
            if gap["device"] == device
        ]
        known = diagnosis.gaps is not None
        run.put("time", f"Longest gap{label}", max(lengths, default=0) if known else None)
        run.put("gaps", f"Gaps{label}", len(lengths) if known else None, "count")
    for name, ns in _gaps_by_neighbours(diagnosis).items():
        run.put("gaps", name, ns)
    blocking = diagnosis.blocking_ns
    run.put("host", "Host in blocking calls", None if blocking is None else sum(blocking.values()))
    run.put("host", "The profiler itself", diagnosis.overhead_ns)
    calls = _in_window(diagnosis, diagnosis.capture.api_calls)
    for name, ns in _totals(calls).items():
        run.put("calls", name, ns)
    _put_copies(run, _in_window(diagnosis, diagnosis.capture.copies))
    kernels = _in_window(diagnosis, diagnosis.capture.kernels)
    graphs = _in_window(diagnosis, diagnosis.capture.graph_launches)
    run.put("kernels", "Kernels", kernels.height, "count")
    if graphs.height:
        run.put("kernels", "CUDA graphs", graphs.height, "count")
        run.put("kernels", "CUDA graph", int(graphs["duration_ns"].sum()))
    for cause, ns in (diagnosis.recoverable_ns or {}).items():
        run.put("saved", cause, ns)
    grouped = kernels.group_by("name").agg(
        pl.col("duration_ns").sum(),
        pl.len().alias("count"),
        pl.struct("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z").unique(),
    )
    for name, ns, count, shapes in grouped.rows():
        name = name or "(no name)"
        run.put("kernels", name, ns)
        run.launches[name] = Launches(count, frozenset(_shape(*row.values()) for row in shapes))
    ranges = _in_window(diagnosis, diagnosis.capture.nvtx_ranges)
    ranges = ranges.with_columns(
        pl.col("name").map_elements(without_serial_numbers, return_dtype=pl.String)
    )
    for name, ns in _totals(ranges).items():
        run.put("stages", name, ns)
    if ranges.height:
        outer = ranges.filter(pl.col("depth") == 0)["name"].value_counts()
        run.work |= {f"range {name}": count for name, count in outer.rows()}
    for name, ns in _mean_steps(ranges).items():
        run.put("time", f"{STEP}, {name}", ns)
    if diagnosis.finding is not None:
        run.findings[""] = diagnosis.finding
    names = sorted({diagnosis.device_name(device) for device in diagnosis.devices} - {""})
    run.conditions["device"] = ", ".join(names)
    if graphs.height:
        run.conditions["CUDA graphs"] = "recorded as wholes, without their kernels"
    else:
        by_kernel = kernels["graph_node"].is_not_null().any()
        run.conditions["CUDA graphs"] = "recorded kernel by kernel" if by_kernel else "none"
    _add_provenance(run, diagnosis.capture.file)
    return run


def _shape(*sizes: int) -> str:
    return f"({sizes[0]}, {sizes[1]}, {sizes[2]}) × ({sizes[3]}, {sizes[4]}, {sizes[5]})"


def _in_window(diagnosis: Diagnosis, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that start inside the window."""
    import polars as pl

    start, end = diagnosis.window_ns or diagnosis.span_ns
    return frame.filter((pl.col("start_ns") >= start) & (pl.col("start_ns") < end))


def _totals(frame: pl.DataFrame) -> dict[str, int]:
    """By name, the summed duration in ns."""
    import polars as pl

    summed = frame.group_by("name").agg(pl.col("duration_ns").sum())
    return {name or "(no name)": int(ns) for name, ns in summed.rows()}


def _mean_steps(ranges: pl.DataFrame) -> dict[str, float]:
    """The mean time from one start of a range to the next, of the outermost range that takes most time.

    Empty where no outermost range comes three times on a thread: a mean of one period says little.
    """
    import polars as pl

    times = (
        ranges.filter(pl.col("depth") == 0)
        .group_by("name", "process", "thread")
        .agg(
            pl.col("duration_ns").sum(),
            pl.len().alias("count"),
            ((pl.col("start_ns").max() - pl.col("start_ns").min()) / (pl.len() - 1)).alias("mean"),
        )
        .filter(pl.col("count") >= 3)
        .group_by("name")
        .agg(pl.col("duration_ns").sum(), pl.col("mean").mean())
        .sort("duration_ns", "name", descending=[True, False])
    )
    return {} if times.is_empty() else {times["name"][0]: times["mean"][0]}


def _put_copies(run: Run, copies: pl.DataFrame) -> None:
    import polars as pl

    host = pl.col("kind").is_in(["H2D", "D2H"])
    pageable = (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
    for kind in ("H2D", "D2H"):
        ns = copies.filter(pl.col("kind") == kind)["duration_ns"].sum()
        run.put("copies", f"Copies {kind}", int(ns))
    run.put("copies", "Other copies", int(copies.filter(~host)["duration_ns"].sum()))
    run.put("copies", "Bytes copied", int(copies["bytes"].sum()), "bytes")
    run.put(
        "copies",
        "of these pageable",
        int(copies.filter(host & pageable)["bytes"].sum()),
        "bytes",
    )
    run.work["bytes copied"] = int(copies["bytes"].sum())


def _gaps_by_neighbours(diagnosis: Diagnosis) -> dict[str, int]:
    """Idle time by what ran before a gap and what ran after it, in ns."""
    if not diagnosis.gaps:
        return {}
    import polars as pl

    gaps = pl.DataFrame(diagnosis.gaps).select(
        pl.col("device", "start_ns", "end_ns").cast(pl.Int64)
    )
    operations = diagnosis.capture.device_operations.select(
        "device", "start_ns", "end_ns", pl.col("name").fill_null("(no name)")
    )

    def beside(gap_edge: str, operation_edge: str, keep: Literal["first", "last"]) -> pl.DataFrame:
        """Of the operations that end or start where a gap does, one a gap."""
        edges = gaps.select("device", pl.col(gap_edge).alias(operation_edge))
        found = operations.join(edges, on=["device", operation_edge], how="semi")
        found = found.unique(["device", operation_edge], keep=keep, maintain_order=True)
        return found.select("device", pl.col(operation_edge).alias(gap_edge), "name")

    named = gaps.join(
        beside("start_ns", "end_ns", "last"), on=["device", "start_ns"], how="left"
    ).join(
        beside("end_ns", "start_ns", "first"), on=["device", "end_ns"], how="left", suffix="_after"
    )
    neighbours = pl.concat_str(
        pl.col("name").fill_null("(begin)"), pl.lit(" → "), pl.col("name_after").fill_null("(end)")
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    return dict(named.group_by(neighbours.alias("between")).agg(length.sum()).rows())


# -- traces of PyTorch ----------------------------------------------------------------------------

_TRACE_KEYS = ("kind", "name", "start_ns", "end_ns", "correlation")


def of_trace(part: Part, functions: Functions) -> Run:
    """What a trace says: of its steps (`profiler.step()`) if it has any, else of all of it.

    The window reaches from the first to the last device operation. Raises FunctionUnavailable if
    `read_trace` gave no answer, EmptyCapture if the trace holds no device operation.
    """
    path = str(part.path)
    run = Run(part.name, Kind.TRACE)
    trace = functions.call("read_trace", path)
    events = trace.get("events") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(
        isinstance(event, dict) and all(key in event for key in _TRACE_KEYS) for event in events
    ):
        task = functions.tasks.get("read_trace", "read_trace")
        raise FunctionUnavailable(f"read_trace returned no events to compare; lab check {task}")
    steps = [e for e in events if e["kind"] == "range" and kineto.STEP_RANGE.fullmatch(e["name"])]
    inside = _of_steps(events, steps) if steps else events
    work = [event for event in inside if event["kind"] in kineto.DEVICE_KINDS]
    if not work:
        raise EmptyCapture(f"{part.path}: holds no device operation")
    window_ns = max(e["end_ns"] for e in work) - min(e["start_ns"] for e in work)
    run.put("time", WINDOW, window_ns)
    if steps:
        run.put("time", STEP, window_ns / len(steps))
        run.work["steps"] = len(steps)
    by_kind = {"call": "calls", "range": "stages", "operator": "operators", "kernel": "kernels"}
    totals: Counter[tuple[str, str]] = Counter()
    copies = {"Copies H2D": 0, "Copies D2H": 0, "Other copies": 0}
    launches: Counter[str] = Counter()
    for event in inside:
        name, ns = event["name"], event["end_ns"] - event["start_ns"]
        if event["kind"] == "copy":
            what = f"Copies {kineto.copy_direction(name)}"
            copies[what if what in copies else "Other copies"] += ns
        elif event["kind"] in by_kind and event not in steps:
            group = by_kind[event["kind"]]
            counted_up = group in ("stages", "operators")
            totals[group, without_serial_numbers(name) if counted_up else name] += ns
        launches[name] += event["kind"] == "kernel"
    for what, ns in copies.items():
        run.put("copies", what, ns)
    run.put("kernels", "Kernels", sum(launches.values()), "count")
    for (group, name), ns in totals.items():
        run.put(group, name, ns)
    run.launches = {name: Launches(count) for name, count in launches.items() if count}
    saved = _ask(run, functions, "recoverable_time", path)
    for cause, ns in (saved if isinstance(saved, dict) else {}).items():
        run.put("saved", cause, ns)
    devices = trace.get("devices")
    names = {str(device.get("name", "")) for device in devices or [] if isinstance(device, dict)}
    run.conditions["device"] = ", ".join(sorted(names - {""}))
    _add_provenance(run, part.path)
    return run


def of_traces(part: Part, functions: Functions) -> Run:
    """What the traces of all ranks of a job say: times of the slowest rank, else sums over ranks.

    What would be saved is left out: ranks gain together, not each by itself.
    """
    files = captures.rank_traces(part.path).values()
    runs = [of_trace(Part(file.name, Kind.TRACE, file), functions) for file in files]
    out = Run(part.name, part.kind, conditions=runs[0].conditions, work=runs[0].work)
    out.conditions["ranks"] = str(len(runs))
    for key in dict.fromkeys(key for run in runs for key in run.measures if key[0] != "saved"):
        known = [value for run in runs if (value := run.measures.get(key)) is not None] or [0]
        together = max(known) if key[0] == "time" else sum(known)
        out.put(key[0], key[1], together, key[2])
    for run in runs:
        for name, launches in run.launches.items():
            count = launches.count + out.launches.get(name, Launches()).count
            out.launches[name] = Launches(count)
        out.unanswered += run.unanswered
    return out


def _of_steps(events: list[dict[str, Any]], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What began on the host between the first and the last step, and the device work of its calls.

    The device lags behind: in the time of the steps it may still run what was issued before them.
    """
    start, end = min(s["start_ns"] for s in steps), max(s["end_ns"] for s in steps)
    issued = {
        event["correlation"]
        for event in events
        if event["kind"] == "call" and start <= event["start_ns"] < end
    }
    return [
        event
        for event in events
        if (
            event["correlation"] in issued
            if event["kind"] in kineto.DEVICE_KINDS
            else start <= event["start_ns"] < end
        )
    ]


def _ask(run: Run, functions: Functions, name: str, *arguments: Any) -> Any:
    """What a function returns; None, with a sentence kept, if it gives no answer."""
    try:
        return functions.call(name, *arguments)
    except LabError as error:
        run.unanswered.append(str(error))
        return None


# -- pages of kernels -----------------------------------------------------------------------------


def of_kernels(part: Part, functions: Functions) -> Run:
    """What a page of kernels says. Raises FunctionUnavailable if `read_metrics` gave no answer.

    Launches of a kernel in the same shape count as one, with their mean.
    """
    path = str(part.path)
    run = Run(part.name, Kind.KERNELS)
    kernels = functions.call("read_metrics", path)
    if not isinstance(kernels, list) or not all(
        isinstance(kernel, dict) and isinstance(kernel.get("metrics"), dict) for kernel in kernels
    ):
        task = functions.tasks.get("read_metrics", "read_metrics")
        raise FunctionUnavailable(f"read_metrics returned no kernels; lab check {task}")
    findings = _ask(run, functions, "classify_kernels", path) or []
    by_shape: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, kernel in enumerate(kernels):
        shape = f"{kernel['grid']} × {kernel['block']}"
        by_shape[kernel["name"]][shape].append(number)
    for name, shapes in by_shape.items():
        for shape, numbers in shapes.items():
            label = name if len(shapes) == 1 else f"{name} {shape}"
            metrics = [kernels[number]["metrics"] for number in numbers]
            run.put("kernels", label, _mean(row.get(DURATION) for row in metrics))
            for counter, (what, unit) in COUNTERS.items():
                value = _mean(row.get(counter) for row in metrics)
                run.put("counters", f"{label}: {what}", value, unit)
            run.launches[label] = Launches(len(numbers), frozenset((shape,)))
            if len(findings) == len(kernels):
                run.findings[label] = findings[numbers[0]]
    run.conditions["compute capability"] = ", ".join(sorted({str(k.get("cc")) for k in kernels}))
    _add_provenance(run, part.path)
    return run


def _mean(values: Iterable[Any]) -> float | None:
    known = [value for value in values if type(value) in (int, float)]
    return sum(known) / len(known) if known else None


# -- how it was recorded --------------------------------------------------------------------------


def _add_provenance(run: Run, place: Path) -> None:
    """What the capture's provenance says of the machine and the tool, if it has one."""
    told: Mapping[str, Any] = captures.provenance_beside(place / "_" if place.is_dir() else place)
    if gpus := told.get("gpu"):
        names = {str(gpu.get("name", "")) for gpu in gpus if isinstance(gpu, dict)}
        run.conditions.setdefault("device", ", ".join(sorted(names - {""})))
    if driver := told.get("driver"):
        run.conditions["driver"] = str(driver)
    tool = told.get("tool")
    if isinstance(tool, dict) and tool.get("version"):
        run.conditions["profiler"] = f"{tool.get('name', '')} {tool['version']}".strip()
    clocks = told.get("clocks")
    after = clocks.get("after") if isinstance(clocks, dict) else None
    if after and isinstance(after[0], dict) and after[0].get("max_sm_mhz"):
        run.conditions["highest clock"] = f"{after[0]['max_sm_mhz']} MHz"
    command = str(told.get("command", ""))
    for option in DECISIVE_OPTIONS:
        found = re.search(rf"{option}[ =](\S+)", command)
        run.conditions[option] = found[1] if found else "default" if command else ""
