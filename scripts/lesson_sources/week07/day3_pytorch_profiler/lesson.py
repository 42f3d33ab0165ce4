"""What the figures and plots of Day 3's lesson are computed from."""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.analysis import intervals
from profiling_lab.captures import kineto, torch_memory, torch_trace
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    ROOT,
    SKY,
    VERMILION,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EAGER, GRAPH = "torch_infer_launch_bound", "torch_infer_graph"
# What is sick, the cause that is taken away, and what was recorded without it.
TWINS = (
    ("torch_train_sync", "waits", "torch_train_clean"),
    ("torch_infer_launch_bound", "launch_cost", "torch_infer_graph"),
    ("torch_compile_recompiles", "compilation", "torch_compile_fixed"),
)
WORK = ("kernel", "copy", "memset")


# -- what the lesson's text uses as well ------------------------------------------------------------


def ex() -> Any:
    """The reference of this day."""
    return reference("ex_32")


def unprofiled_ns(capture: str) -> float:
    """The length of a step as the program measured it while no profiler was on."""
    return told(capture, "step_ms_unprofiled") * 1e6


@cache
def trace(capture: str) -> dict[str, Any]:
    """The trace of a capture, read once."""
    return torch_trace.read_trace(capture)


def steps(capture: str) -> list[dict[str, Any]]:
    """The steps of device 0."""
    return [row for row in ex().step_breakdown(capture) if row["device"] == 0]


def step_ns(capture: str) -> float:
    """The mean length of a profiled step."""
    rows = steps(capture)
    return sum(row["step_ns"] for row in rows) / len(rows)


@cache
def pace_ns(capture: str) -> float:
    """Device time a step: from the first to the last operation that the steps issued, over the steps.

    Where the host runs ahead its own steps tell nothing of the pace: the device's work does.
    """
    events = trace(capture)["events"]
    work = [o for o in kineto.operations(events, torch_trace.window(capture)) if o.device >= 0]
    span = max(o.end_ns for o in work) - min(o.start_ns for o in work)
    return span / len(steps(capture))


def step_list(capture: str) -> str:
    """The lengths of the steps, in ms, one after the other."""
    return ", ".join(f"{row['step_ns'] / 1e6:.1f}" for row in steps(capture)) + " ms"


def busy_ns(capture: str) -> float:
    """The mean busy time of a step."""
    rows = steps(capture)
    return sum(row["busy_ns"] for row in rows) / len(rows)


def idle(capture: str) -> float:
    """The share of all steps in which the device did nothing."""
    return 1 - busy_ns(capture) / step_ns(capture)


def row(capture: str, name: str) -> dict[str, Any]:
    """A row of the operator table by its name."""
    return next(r for r in ex().operator_table(capture) if r["name"] == name)


def top(capture: str, column: str, place: int = 0) -> dict[str, Any]:
    """The operator (ranges left out) with the largest value in a column, or the next ones."""
    rows = [r for r in ex().operator_table(capture) if r["name"].startswith("aten::")]
    return sorted(rows, key=lambda r: (-r[column], r["name"]))[place]


def count_of(capture: str, kind: str) -> int:
    """How many events of a kind a trace holds."""
    return sum(event["kind"] == kind for event in trace(capture)["events"])


def waits(capture: str) -> list[dict[str, Any]]:
    """synchronizing_calls whose line is known."""
    return [r for r in ex().synchronizing_calls(capture) if r["where"]]


def after_call(capture: str) -> str:
    """How long after their calls the copies from ordinary host memory ended, as text."""
    events = trace(capture)["events"]
    ends_ns = {e["correlation"]: e["end_ns"] for e in events if e["kind"] == "call"}
    late_ns = [
        e["end_ns"] - ends_ns[e["correlation"]]
        for e in events
        if e["name"].startswith("Memcpy HtoD (Pageable")
    ]
    return f"{min(late_ns) / 1e3:.0f} to {max(late_ns) / 1e3:.0f} µs"


@cache
def saved(capture: str) -> dict[str, int]:
    """recoverable_time, kept."""
    return ex().recoverable_time(capture)


def window_ns(capture: str) -> int:
    """From the start of the first to the end of the last step."""
    start, end = torch_trace.window(capture)
    return end - start


def twin(sick: str) -> dict[str, float]:
    """A step of a sick capture, foretold without its cause, and as recorded in its twin."""
    cause, fixed = next((c, f) for s, c, f in TWINS if s == sick)
    count = len(steps(sick))
    return {
        "before_ns": pace_ns(sick),
        "predicted_ns": pace_ns(sick) - saved(sick)[cause] / count,
        "measured_ns": pace_ns(fixed),
    }


def nearest_float(place: int = 0) -> tuple[str, str]:
    """A time in µs as a trace has it, and the ns that a float of it would give, times 1000."""
    import json
    from decimal import Decimal

    raw = json.loads(captures.text(EAGER, "trace.json"), parse_float=Decimal)
    odd = [
        e["ts"]
        for e in raw["traceEvents"]
        if e.get("ph") == "X" and int(e["ts"] * 1000) != int(float(e["ts"]) * 1000)
    ]
    return str(odd[place]), str(int(float(odd[place]) * 1000) % 1_000)


def float_step_ns() -> str:
    """What the last binary digit of a float is worth for a time of nearest_float."""
    import math

    return f"{math.ulp(float(nearest_float()[0])) * 1e3:.2f} ns"


def _regions(capture: str) -> list[dict[str, Any]]:
    """The compiled regions inside the steps."""
    events = trace(capture)["events"]
    inside = [(start, end) for _, start, end in torch_trace.steps(capture)]
    return [
        e
        for e in events
        if e["name"].startswith("Torch-Compiled Region")
        and any(start <= e["start_ns"] < end for start, end in inside)
    ]


def regions_per_step(capture: str) -> float:
    """How many compiled regions a step runs."""
    return len(_regions(capture)) / len(steps(capture))


def waits_between_regions(capture: str) -> int:
    """Time blocked, over all steps, in waits inside the outermost compiled regions."""
    regions = _regions(capture)
    return sum(
        e["end_ns"] - e["start_ns"]
        for e in trace(capture)["events"]
        if e["kind"] == "call"
        and "Synchronize" in e["name"]
        and any(
            r["thread"] == e["thread"] and r["start_ns"] <= e["start_ns"] < r["end_ns"]
            for r in regions
        )
    )


def compiling_ratio(capture: str) -> float:
    """The share of the steps that compilations fill."""
    spent = sum(row["duration_ns"] for row in compiled(capture))
    return spent / sum(row["step_ns"] for row in steps(capture))


def slow_lines() -> str:
    """The two functions of model_slow.py that `optimized_model` is about, without their docstrings."""
    text = (ROOT / "week07/day3_pytorch_profiler/model_slow.py").read_text(encoding="utf-8")
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    shown = []
    for owner, name in (("SlowModel", "forward"), ("Layer", "attention")):
        body = next(one for one in classes if one.name == owner).body
        own = next(f for f in body if isinstance(f, ast.FunctionDef) and f.name == name)
        lines = text.splitlines()[own.lineno - 1 : own.end_lineno]
        del lines[1]  # the docstring
        shown.append(f"# of {owner}\n" + textwrap.dedent("\n".join(lines)))
    return "\n\n\n".join(shown)


def compiled(capture: str) -> list[dict[str, Any]]:
    """The compilations inside the steps."""
    return ex().recompilations(capture)


def peak_bytes(capture: str) -> int:
    """The peak of memory in use."""
    return max(torch_memory.bytes_in_use(capture))


def reserved_bytes(capture: str) -> int:
    """The most that the process held from CUDA."""
    return torch_memory.reserved_peak_bytes(capture)


def held(capture: str, place: int = 0) -> dict[str, Any]:
    """A line of held_at_peak."""
    return ex().held_at_peak(capture)[place]


def older_bytes(capture: str) -> int:
    """What was in use before the history began."""
    return torch_memory.bytes_in_use(capture)[0]


def ends(capture: str) -> list[int]:
    """What was allocated at the end of each step, in bytes."""
    return torch_memory.step_end_bytes(capture)


def growth_bytes(capture: str) -> int:
    """The least that a step adds."""
    found = ends(capture)
    return min(b - a for a, b in itertools.pairwise(found))


def steps_left(capture: str) -> int:
    """How many more steps fit into the memory of device 0."""
    total = next(d["totalGlobalMem"] for d in trace(capture)["devices"] if d["id"] == 0)
    return int(total - ends(capture)[-1]) // growth_bytes(capture)


# -- plots ----------------------------------------------------------------------------------------


def _bars(
    axes: Axes,
    lane: float,
    rows: list[tuple[int, int]],
    start: int,
    colour: str,
    height: float = 0.7,
) -> None:
    merged = intervals.union(intervals.of(rows)).pairs()  # nested bars look like their union
    spans = [((a - start) / 1e6, (b - a) / 1e6) for a, b in merged]
    axes.broken_barh(spans, (lane - height / 2, height), color=colour, linewidth=0)


def _inside(capture: str, kinds: tuple[str, ...], start: int, end: int) -> list[tuple[int, int]]:
    return [
        (max(e["start_ns"], start), min(e["end_ns"], end))
        for e in trace(capture)["events"]
        if e["kind"] in kinds and e["start_ns"] < end and e["end_ns"] > start
    ]


def step_before_after() -> Figure:
    """One step of the inference pair: operators, CUDA calls, and the device."""
    import matplotlib.pyplot as plt

    middle = {name: torch_trace.steps(name)[len(steps(name)) // 2] for name in (EAGER, GRAPH)}
    width = max(end - start for _, start, end in middle.values())
    figure, panels = plt.subplots(2, 1, figsize=(8.6, 4.2), sharex=True)
    for axes, name, title in zip(
        panels,
        (EAGER, GRAPH),
        (
            "torch_infer_launch_bound: every operator issues its kernels",
            "torch_infer_graph: one call replays all of them",
        ),
        strict=True,
    ):
        _, start, end = middle[name]
        waiting = {e["start_ns"] for e in trace(name)["events"] if "Synchronize" in e["name"]}
        calls = _inside(name, ("call",), start, end)
        _bars(axes, 2, _inside(name, ("operator",), start, end), start, SKY)
        _bars(axes, 1, [c for c in calls if c[0] not in waiting], start, PURPLE)
        _bars(axes, 1, [c for c in calls if c[0] in waiting], start, GREY)
        _bars(axes, 0, _inside(name, WORK, start, end), start, ORANGE)
        axes.axvline((end - start) / 1e6, color=INK, linewidth=0.8)
        axes.set_yticks([0, 1, 2], ["device", "CUDA calls", "operators"])
        axes.set_ylim(-0.6, 2.6)
        axes.set_xlim(0, width / 1e6 * 1.02)
        axes.set_title(title)
    panels[1].set_xlabel("ms since the start of the step (the line: its end)")
    figure.tight_layout()
    figure.subplots_adjust(bottom=0.22)
    entries = {"operators": SKY, "calls that issue": PURPLE, "calls that wait": GREY}
    legend(figure, {**entries, "kernels and copies": ORANGE}, 4)
    return figure


def _example() -> list[dict[str, Any]]:
    """One aten::linear of the eager capture with all that lies inside, from the outermost on."""
    events = trace(EAGER)["events"]
    _, start, end = torch_trace.steps(EAGER)[1]
    lengths = sorted(
        (e["end_ns"] - e["start_ns"], e["start_ns"])
        for e in events
        if e["name"] == "aten::linear" and start <= e["start_ns"] < end
    )
    begin = lengths[len(lengths) // 2][1]
    outer = next(e for e in events if e["start_ns"] == begin and e["name"] == "aten::linear")
    inside = [
        e
        for e in events
        if e["kind"] in ("operator", "call")
        and e["thread"] == outer["thread"]
        and outer["start_ns"] <= e["start_ns"] < outer["end_ns"]
    ]
    ids = {e["external_id"] for e in inside} - {None}
    return inside + [e for e in events if e["kind"] in WORK and e["external_id"] in ids]


def self_and_total() -> Figure:
    """One operator, what it is made of, and the kernel that it caused."""
    import matplotlib.pyplot as plt

    rows = _example()
    begin = rows[0]["start_ns"]
    figure, axes = plt.subplots(figsize=(8.6, 3.0))
    open_until: list[int] = []
    depths = []
    for event in rows:
        if event["kind"] in WORK:
            continue
        while open_until and event["start_ns"] >= open_until[-1]:
            open_until.pop()
        depths.append((event, len(open_until)))
        open_until.append(event["end_ns"])
    deepest = max(depth for _, depth in depths)
    for event, depth in depths:
        lane = deepest - depth + 1
        x, width = (event["start_ns"] - begin) / 1e3, (event["end_ns"] - event["start_ns"]) / 1e3
        axes.barh(
            lane, width, left=x, height=0.75, color=PURPLE if event["kind"] == "call" else SKY,
            edgecolor=PAPER, linewidth=0.6,
        )  # fmt: skip
        span = rows[0]["end_ns"] - rows[0]["start_ns"]
        if width * 1e3 > 0.12 * span:
            axes.text(x + width / 2, lane, event["name"], ha="center", va="center", fontsize=8)
    for event in rows:
        if event["kind"] in WORK:
            x, width = (
                (event["start_ns"] - begin) / 1e3,
                (event["end_ns"] - event["start_ns"]) / 1e3,
            )
            axes.barh(0, width, left=x, height=0.75, color=ORANGE, edgecolor=PAPER, linewidth=0.6)
    axes.set_yticks([0, deepest + 1], ["device", "host"])
    axes.set_xlabel("µs since aten::linear began")
    axes.set_xlim(left=-1)
    figure.tight_layout()
    figure.subplots_adjust(bottom=0.3)
    legend(figure, {"operators": SKY, "CUDA calls": PURPLE, "kernels": ORANGE}, 3)
    return figure


def compile_in_steps() -> Figure:
    """The steps of the compiled pair: compiling, and the rest."""
    import matplotlib.pyplot as plt

    names = ("torch_compile_recompiles", "torch_compile_fixed")
    figure, axes = plt.subplots(figsize=(8.6, 2.9))
    labels, place = [], 0
    for name in names:
        for row in steps(name):
            spent = sum(r["duration_ns"] for r in compiled(name) if r["step"] == row["step"])
            axes.barh(-place, spent / 1e6, color=VERMILION, height=0.7)
            axes.barh(
                -place, (row["step_ns"] - spent) / 1e6, left=spent / 1e6, color=GREY, height=0.7
            )
            labels.append(f"{name.removeprefix('torch_compile_')}, step {row['step']}")
            place += 1
    axes.set_yticks([-i for i in range(place)], labels)
    axes.set_xlabel("ms")
    figure.tight_layout()
    figure.subplots_adjust(bottom=0.3)
    legend(figure, {"compiling": VERMILION, "the rest of the step": GREY}, 2)
    return figure


def memory_over_steps() -> Figure:
    """Bytes in use over the profiled steps of the training pair."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.6, 3.0), sharey=True)
    for axes, name, title in zip(
        panels,
        ("torch_memory_peak", "torch_memory_checkpoint"),
        ("activations kept", "activations computed again"),
        strict=True,
    ):
        in_use = torch_memory.bytes_in_use(name)[1:]
        entries = torch_memory.load_snapshot(name)["device_traces"][0]
        # The profiled steps only: snapshot and trace are joined by absolute time.
        first, last = ((time + trace(name)["epoch_ns"]) / 1e3 for time in torch_trace.window(name))
        timed = [
            (entry["time_us"], held)
            for entry, held in zip(entries, in_use, strict=True)
            if first <= entry["time_us"] <= last
        ]
        # Some hundred points: the highest and the first of each stretch.
        size = max(1, len(timed) // 300)
        chosen = []
        for start in range(0, len(timed), size):
            part = timed[start : start + size]
            chosen += sorted({part[0], max(part, key=lambda moment: moment[1])})
        x = [(time - first) / 1e3 for time, _ in chosen]
        y = [held / 1e6 for _, held in chosen]
        axes.fill_between(x, y, step="post", color=SKY, alpha=0.6, linewidth=0)
        axes.plot(x, y, drawstyle="steps-post", color=BLUE, linewidth=0.7)
        axes.axhline(older_bytes(name) / 1e6, color=INK, linewidth=0.8, linestyle=":")
        when, most = max(timed, key=lambda moment: moment[1])
        axes.plot((when - first) / 1e3, most / 1e6, "o", color=VERMILION, markersize=5)
        axes.set_title(title)
        axes.set_xlabel("ms of the profiled steps")
    panels[0].set_ylabel("MB in use")
    figure.tight_layout()
    return figure


def growth_by_step() -> Figure:
    """What is allocated at the end of each step, of the evaluation pair."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.6, 2.6))
    names = ("torch_memory_growth", "torch_memory_detached")
    for offset, name, colour in zip((-0.2, 0.2), names, (VERMILION, GREEN), strict=True):
        sizes = ends(name)
        numbers = [r["step"] for r in steps(name)][-len(sizes) :]
        axes.bar(
            [n + offset for n in numbers],
            [size / 1e9 for size in sizes],
            width=0.38,
            color=colour,
            label=name,
        )
    axes.set_xticks(numbers, [f"step {n}" for n in numbers])
    axes.set_ylabel("GB at its end")
    axes.legend(frameon=False, fontsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    figure.tight_layout()
    return figure


def traces_predicted() -> Figure:
    """A step as recorded, foretold without its cause, and as its twin took."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(TWINS), figsize=(8.6, 2.8))
    for axes, (sick, cause, _) in zip(panels, TWINS, strict=True):
        found = twin(sick)
        values = [found[key] / 1e6 for key in ("before_ns", "predicted_ns", "measured_ns")]
        axes.bar(range(3), values, color=(GREY, SKY, GREEN), width=0.7)
        for place, value in enumerate(values):
            axes.text(place, value, f"{value:.1f}", ha="center", va="bottom", fontsize=8.5)
        axes.set_xticks(range(3), ["recorded", f"without\n{cause}", "twin"], fontsize=8.5)
        axes.set_title(sick.removeprefix("torch_"), fontsize=9)
        axes.set_ylim(0, max(values) * 1.15)
    panels[0].set_ylabel("ms a step")
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "step_before_after": step_before_after,
    "self_and_total": self_and_total,
    "compile_in_steps": compile_in_steps,
    "memory_over_steps": memory_over_steps,
    "growth_by_step": growth_by_step,
    "traces_predicted": traces_predicted,
}
