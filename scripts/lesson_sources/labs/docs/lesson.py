"""What the figures and plots of the chapter on profiling are computed from."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices, roofline
from profiling_lab.analysis import intervals as sets
from profiling_lab.course import manifest as course
from profiling_lab.errors import LabError
from scripts.lesson_sources import source
from scripts.lesson_sources.drawing import (
    BESIDE,
    BLUE,
    CALL,
    COPY_OUT,
    GREEN,
    GREY,
    GRID,
    KERNEL,
    LIGHT,
    NOTHING,
    ORANGE,
    PAPER,
    PURPLE,
    ROOT,
    VERMILION,
    YELLOW,
    bars,
    intervals,
    lanes,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

day1 = source("week07/day1_nsight_systems")
day2 = source("week07/day2_nsight_compute")
day3 = source("week07/day3_pytorch_profiler")
day4 = source("week07/day4_bottleneck_analysis")

# What is slow, and the same program without its cause.
PAIRS = (
    ("torch_inference_baseline", "torch_inference_improved"),
    ("decode_eager", "decode_graph"),
    ("training_item", "training_async"),
    ("host_preprocess", "host_prefetch"),
    ("alloc_every_step", "alloc_cached"),
)
CAUSES = {
    "copies": ("copies that nothing hides", BLUE),
    "launch_cost": ("launching", CALL),
    "waits": ("waiting calls", VERMILION),
    "host_code": ("the host's own code", PURPLE),
    "allocation": ("allocation by the driver", YELLOW),
}
STATES = {
    "kernels": ("a kernel runs", KERNEL),
    "both": ("a kernel and a copy", BESIDE),
    "copies": ("only a copy", COPY_OUT),
    "idle": ("nothing", LIGHT),
}


# -- what the text uses as well ---------------------------------------------------------------------


def exercise(identifier: str) -> str:
    """How many tasks and points an exercise's core has, and how long it may take: for the maps of folders."""
    found = course.load(ROOT).exercise(identifier)
    core = sum(task.core for task in found.tasks)
    return f"{core} tasks, {found.points} points, {found.minutes} minutes"


@cache
def states(capture: str) -> dict[str, int]:
    """What the device did from its first to its last operation, in ns.

    kernels: kernels or whole graphs and no copy; copies: copies and no kernel; both; idle: neither;
    window: all of it. (memsets count as kernels: they are work on the device.)
    """
    recording = captures.open(capture)
    rows = recording.device_operations.select("kind", "start_ns", "end_ns").rows()
    copies = sets.of((start, end) for kind, start, end in rows if kind == "copy")
    kernels = sets.of((start, end) for kind, start, end in rows if kind != "copy")
    start, end = recording.span_ns
    found = {
        "kernels": sets.total_ns(sets.difference(kernels, copies)),
        "copies": sets.total_ns(sets.difference(copies, kernels)),
        "both": sets.total_ns(sets.intersection(kernels, copies)),
    }
    return found | {"idle": end - start - sum(found.values()), "window": end - start}


def share(capture: str, *which: str) -> float:
    """The share of the window that the device spent in some of `states`."""
    found = states(capture)
    return sum(found[state] for state in which) / found["window"]


def saved(capture: str, cause: str) -> float:
    """The share of the window that would be saved without one cause (Day 1's replay)."""
    return reference("ex_30").recoverable_time(capture)[cause] / day1.span_ns(capture)


def sampled(capture: str, what: str) -> float:
    """The device in a capture with hardware samples: busy_ratio, sm_active_ratio or dram_ratio."""
    return reference("ex_30").busy_against_active(capture)[0][what]


def ridges(dtype: str) -> dict[str, float]:
    """Operations per byte at the ridge of each device that has a sure peak for a data type."""
    out = {}
    for name in devices.names():
        try:
            out[name] = roofline.roof(name, dtype).corner
        except LabError:
            continue
    return out


def ridges16() -> dict[str, float]:
    """Ridge points of 16-bit types: bfloat16, or float16 where a device has no other."""
    return ridges("float16") | ridges("bfloat16")


def extreme(found: dict[str, float], which: Callable[..., str]) -> tuple[str, float]:
    """The device with the least or the largest ridge: extreme(ridges16(), min)."""
    name = which(found, key=found.__getitem__)
    return name, found[name]


def intensity(name: str) -> float:
    """Operations per byte of a call of `roofline_ops`, each tensor of each kernel counted once."""
    cost = day4.ops(name)["cost"]
    return cost["flops"] / cost["bytes"]


def of_roof(name: str) -> float:
    """The share of the roof that a call of `roofline_ops` reached."""
    found = day4.ops(name)
    return found["predicted_ns"] / found["measured_ns"]


@cache
def _document(capture: str, file: str) -> dict[str, Any]:
    """What a program wrote down of itself."""
    return json.loads(captures.text(capture, file))


def pitfall(name: str, which: str) -> float:
    """The median of a mistake's samples in ns: "lie", or "honest" for its twin."""
    rows = _document("benchmark_pitfalls", "pitfalls.json")["pitfalls"]
    return statistics.median(next(row for row in rows if row["name"] == name)[f"{which}_ns"])


def series(first: int, last: int | None) -> float:
    """The median time in ns of some products of the series in `benchmark_pitfalls`, by place."""
    rows = _document("benchmark_pitfalls", "pitfalls.json")["series_ns"]
    return statistics.median(took for _, took in rows[first:last])


COMPONENTS = ("qkv_projection", "score_computation", "softmax", "weighted_sum", "output_projection")


def _attention_profile(dtype: str, batch: int, tokens: int, width: int) -> dict[str, Any]:
    profiles = _document(f"attention_components_{dtype}", "profiles.json")["profiles"]
    wanted = {"batch": batch, "seq_len": tokens, "d_model": width}
    return next(found for found in profiles if wanted.items() <= found.items())


def attention_row(dtype: str, batch: int, tokens: int, width: int) -> str:
    """The shares of the five components of an attention layer, as cells of a table; the longest bold."""
    profile = _attention_profile(dtype, batch, tokens, width)
    shares = {part["name"]: part["share"] for part in profile["components"]}
    longest = max(shares, key=shares.__getitem__)
    cells = [f"{100 * shares[name]:.0f} %" for name in COMPONENTS]
    return " | ".join(
        f"**{cell}**" if name == longest else cell
        for name, cell in zip(COMPONENTS, cells, strict=True)
    )


def jax_ns(which: str, capture: str = "jax_jit") -> float:
    """The median of the samples of one time in ns of a JAX capture: "first", "compile", …"""
    return statistics.median(_document(capture, "jax_timing.json")["times"][which])


def layout(name: str) -> dict[str, float]:
    """`.contiguous()` of a tensor of `techniques_wide`: its median time, and the least for its bytes."""
    rows = _document("techniques_wide", "techniques.json")["layouts"]
    found = next(row for row in rows if row["name"] == name)
    moved_bytes = 2 * math.prod(found["shape"]) * found["element_bytes"]
    least_ns = moved_bytes / devices.get("H200").memory_bandwidth_bytes_per_s * 1e9
    return {"measured_ns": statistics.median(found["device_time"]), "least_ns": least_ns}


def precision_ns(name: str, capture: str = "techniques_wide") -> float:
    """The median time in ns of a training step in one precision: "fp32", "bf16 autocast", …"""
    rows = _document(capture, "techniques.json")["precision"]
    return statistics.median(next(row for row in rows if row["name"] == name)["step_time"])


def recorded(capture: str, file: str, key: str) -> Any:
    """One entry of what a program wrote down."""
    return _document(capture, file)[key]


def most_mhz(capture: str) -> str:
    """The highest clock of the SMs that the driver allows, as text."""
    return f"{captures.provenance(capture)['clocks']['before'][0]['max_sm_mhz']} MHz"


def empty_call_ns(dtype: str, batch: int, tokens: int, width: int) -> float:
    """The time of a call that does next to nothing, measured beside an attention layer."""
    return _attention_profile(dtype, batch, tokens, width)["call_floor_s"] * 1e9


def component_ns(name: str, dtype: str, batch: int, tokens: int, width: int) -> float:
    """The time of one component of an attention layer."""
    parts = _attention_profile(dtype, batch, tokens, width)["components"]
    return next(part["time_s"] for part in parts if part["name"] == name) * 1e9


def checkpointed(segments: int, capture: str = "techniques_wide") -> dict[str, float]:
    """Peak bytes and median step time of a training whose layers are computed again in segments."""
    rows = _document(capture, "techniques.json")["checkpoint"]
    found = next(row for row in rows if row["segment_count"] == segments)
    return {"peak_bytes": found["peak_bytes"], "step_ns": statistics.median(found["step_time"])}


def own_rate(capture: str) -> float:
    """Steps a second by the program's own clock, while no profiler was on."""
    found = captures.provenance(capture)["reported_by_program"]
    return found["steps_per_s"] if "steps_per_s" in found else 1e3 / found["step_ms_unprofiled"]


def own_row(before: str, after: str) -> str:
    """Rates before and after, their ratio, and the ratio of the recorded times, as cells of a table."""
    if "steps_per_s" in captures.provenance(before)["reported_by_program"]:
        recorded_ratio = day1.span_ns(before) / day1.span_ns(after)
    else:
        recorded_ratio = day3.pace_ns(before) / day3.pace_ns(after)
    rates = own_rate(before), own_rate(after)
    cells = [f"{rate:,.0f}" for rate in rates]
    return " | ".join([*cells, f"{rates[1] / rates[0]:.2f}×", f"{recorded_ratio:.2f}×"])


def attention_ns(way: str, dtype: str = "bfloat16", shape: tuple[int, ...] = (4, 32, 4096, 128)):
    """The median time in ns of one way to compute attention in `attention_backends`."""
    return statistics.median(_attention(way, dtype, shape)["time_ns"])


def _attention(way: str, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    names = ("batch", "heads", "tokens", "head_dim")
    wanted = {"way": way, "dtype": dtype, **dict(zip(names, shape, strict=True))}
    rows = _document("attention_backends", "backends.json")["rows"]
    return next(row for row in rows if wanted.items() <= row.items())


# -- plots ------------------------------------------------------------------------------------------


def _plain(axes: Axes) -> None:
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def what_busy_means() -> Figure:
    """Four answers to "how busy was the GPU?" for the two inference pipelines."""
    import matplotlib.pyplot as plt

    def answers(capture: str) -> list[float]:
        found = reference("ex_30").busy_against_active(capture)[0]
        anything = reference("ex_30").utilization(capture)[0]
        return [anything, found["busy_ratio"], found["sm_active_ratio"], found["dram_ratio"]]

    questions = (
        "any kernel or copy was running",
        "a kernel was running",
        "SMs had a warp (mean over SMs)",
        "of the DRAM's bandwidth was used",
    )
    figure, axes = plt.subplots(figsize=(8, 3.2))
    figure.subplots_adjust(left=0.34, right=0.95, top=0.91, bottom=0.27)
    for offset, capture, colour in (
        (0.19, "torch_inference_baseline", GREY),
        (-0.19, "torch_inference_improved", GREEN),
    ):
        for place, value in enumerate(answers(capture)):
            y = len(questions) - place + offset
            axes.barh(y, 100 * value, height=0.36, color=colour, linewidth=0)
            axes.text(100 * value + 1, y, f"{100 * value:.0f} %", va="center", fontsize=9)
    axes.set_yticks(range(len(questions), 0, -1), questions)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the time, or of the peak (%)")
    axes.set_title('four answers to "how busy was the GPU?"')
    _plain(axes)
    legend(figure, {"torch_inference_baseline": GREY, "torch_inference_improved": GREEN}, 2)
    return figure


def look_alikes() -> Figure:
    """Five slow programs: what their device does, and which cause would save how much."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.0), sharey=True)
    figure.subplots_adjust(left=0.235, right=0.97, top=0.92, bottom=0.3, wspace=0.09)
    for place, (capture, _) in enumerate(PAIRS):
        y, start = len(PAIRS) - place, 0.0
        for state, (_, colour) in STATES.items():
            part = 100 * share(capture, state)
            left.barh(y, part, left=start, height=0.66, color=colour, linewidth=0)
            start += part
        for offset, (cause, (_, colour)) in enumerate(CAUSES.items()):
            part = 100 * saved(capture, cause)
            right.barh(y + 0.3 - 0.15 * offset, part, height=0.15, color=colour, linewidth=0)
    left.set_yticks(range(len(PAIRS), 0, -1), [sick for sick, _ in PAIRS])
    for axes in (left, right):
        axes.set_xlim(0, 100)
        axes.set_ylim(0.4, len(PAIRS) + 0.6)
        _plain(axes)
    left.set_xlabel("what the device did (% of the window)")
    right.set_xlabel("saved without one cause (% of the window)")
    left.set_title("alike: gaps")
    right.set_title("and what they are made of")
    from matplotlib.patches import Patch

    for anchor, entries in ((0.26, STATES), (0.76, CAUSES)):
        figure.legend(
            handles=[Patch(color=colour, label=label) for label, colour in entries.values()],
            loc="lower center",
            bbox_to_anchor=(anchor, 0.0),
            ncols=2,
            frameon=False,
            fontsize=8.5,
            handlelength=1.2,
            columnspacing=1.0,
        )
    return figure


def _middle_token(capture: str) -> tuple[int, int]:
    """The NVTX range of a token in the middle of the recording."""
    tokens = [
        r for r in captures.open(capture).nvtx_ranges.rows(named=True) if r["name"] == "token"
    ]
    return tokens[len(tokens) // 2]["start_ns"], tokens[len(tokens) // 2]["end_ns"]


def launches_before_after() -> Figure:
    """The same stretch of time of the decoder: launched one by one, and as graphs."""
    import matplotlib.pyplot as plt

    start, end = _middle_token("decode_eager")
    begin, _ = captures.open("decode_graph").span_ns
    figure, panels = plt.subplots(2, 1, figsize=(8, 3.7), sharex=True)
    figure.subplots_adjust(left=0.17, right=0.98, top=0.92, bottom=0.25, hspace=0.45)
    for axes, capture, window, title in (
        (panels[0], "decode_eager", (start, end), "decode_eager: one token"),
        (
            panels[1],
            "decode_graph",
            (begin, begin + end - start),
            "decode_graph: as long a time, a graph a token",
        ),
    ):
        recording = captures.open(capture)
        launches = [c for c in recording.api_calls.rows(named=True) if "Launch" in c["name"]]
        bars(axes, 2, intervals(launches), window, unit=1e3, color=CALL)
        work = [r for r in recording.device_operations.rows(named=True) if r["kind"] != "copy"]
        edge: dict[str, Any] = (
            {"edgecolor": PAPER, "linewidth": 0.8} if capture == "decode_graph" else {}
        )
        bars(axes, 1, intervals(work), window, unit=1e3, color=ORANGE, **edge)
        lanes(axes, ["host: launch calls", "device"], window, 1e3, "")
        axes.set_title(title)
    panels[1].set_xlabel("time in the panel (µs)")
    legend(figure, {"inside a launch call": CALL, "a kernel, or a whole graph": ORANGE}, 2)
    return figure


LAYOUTS = (
    ("row_sums_by_thread", "row_sums_by_warp", "sums of rows"),
    ("drift_structs", "drift_arrays", "one field of many records"),
    ("gather_shuffled", "gather_ascending", "every second element"),
    ("transpose_direct", "transpose_tile33", "transpose"),
)


def layout_before_after() -> Figure:
    """Pairs of kernels with the same answer: bytes that answers need, bytes moved, and time."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
    figure.subplots_adjust(left=0.23, right=0.97, top=0.91, bottom=0.26, wspace=0.08)
    module = reference("ex_31")
    for place, (before, after, _) in enumerate(LAYOUTS):
        for offset, name, colour in ((0.19, before, GREY), (-0.19, after, GREEN)):
            y = len(LAYOUTS) - place + offset
            kernel = day2.kernel(name)
            used = 100 * module.sector_efficiency(kernel)["used_ratio"]
            time_us = day2.alone(name) / 1e3
            left.barh(y, used, height=0.36, color=colour, linewidth=0)
            left.text(used + 1.5, y, f"{used:.0f} %", va="center", fontsize=9)
            right.barh(y, time_us, height=0.36, color=colour, linewidth=0)
            right.text(time_us + 15, y, f"{time_us:,.0f} µs", va="center", fontsize=9)
        needed = day2.reported(before, "useful_bytes")
        least = needed / devices.get("H200").memory_bandwidth_bytes_per_s * 1e6
        y = len(LAYOUTS) - place
        right.plot([least, least], [y - 0.42, y + 0.42], color=VERMILION, linewidth=1.5)
    left.set_yticks(range(len(LAYOUTS), 0, -1), [label for *_, label in LAYOUTS])
    left.set_xlim(0, 118)
    left.set_xticks(range(0, 101, 25))
    right.set_xlim(0, 1220)
    left.set_xlabel("bytes used, of the bytes in all sectors (%)")
    right.set_xlabel("time alone in the program (µs)")
    left.set_title("what a request brought along")
    right.set_title("what it cost")
    for axes in (left, right):
        _plain(axes)
    legend(
        figure, {"before": GREY, "after": GREEN, "least time at the peak bandwidth": VERMILION}, 3
    )
    return figure


MOVES = (
    ("softmax fp32 16384x4096 in five", "softmax, five kernels", "before"),
    ("softmax fp32 16384x4096", "softmax, one", "after"),
    ("attention bf16 4x32x4096x4096x128 in three calls", "attention, three calls", "before"),
    ("attention bf16 4x32x4096x4096x128 flash", "attention, one call", "after"),
    ("chain fp32 67108864 eager", "chain, three kernels", "before"),
    ("chain fp32 67108864 fused", "chain, one", "after"),
    ("matmul bf16 1x8192x8192", "matmul, 1 row", "alone"),
    ("matmul bf16 8192x8192x8192", "matmul 8192³", "alone"),
)


def roofline_model() -> Figure:
    """The roofs of the H200 from the device table, and where fusing moves measured calls."""
    roofs = [roofline.roof("H200", dtype) for dtype in ("float32", "tfloat32", "bfloat16")]
    points = []
    for name, label, kind in MOVES:
        found = day4.ops(name)
        rate = found["cost"]["flops"] / found["measured_ns"] * 1e9
        points.append(roofline.Point(label, intensity(name), rate, kind))
    title = "H200: roofs from the device table, work counted on paper, times measured"
    figure = roofline.figure(roofs, points, title)
    axes = figure.axes[0]
    at = {point.name: (point.intensity, point.flops_per_s) for point in points}
    for (_, before, kind), (_, after, _) in itertools.pairwise(MOVES):
        if kind == "before":
            axes.annotate(
                "",
                at[after],
                at[before],
                arrowprops={
                    "arrowstyle": "->",
                    "connectionstyle": "arc3,rad=0.2",
                    "color": GREY,
                    "shrinkA": 6,
                    "shrinkB": 6,
                },
                zorder=1.5,  # below the labels
            )
    return figure


def power_drift() -> Figure:
    """The same product again and again after a pause: its times, and moments."""
    import matplotlib.pyplot as plt

    found = _document("benchmark_pitfalls", "pitfalls.json")
    figure, axes = plt.subplots(figsize=(8, 2.9))
    figure.subplots_adjust(left=0.1, right=0.97, top=0.89, bottom=0.19)
    moments = [moment / 1e9 for moment, _ in found["series_ns"]]
    axes.plot(
        moments, [took / 1e6 for _, took in found["series_ns"]], ".", color=BLUE, markersize=4
    )
    axes.set_xlim(-0.02, moments[-1] + 0.02)
    axes.set_ylim(0, 1.1 * max(took for _, took in found["series_ns"]) / 1e6)
    axes.set_xlabel("seconds since the first product")
    axes.set_ylabel("time of one product (ms)")
    axes.set_title(
        "the same product of 8192 by 8192 matrices in bf16, again and again after a pause"
    )
    axes.grid(color=GRID, linewidth=0.6)
    return figure


TIMES = (
    ("first", "first call"),
    ("lower", "tracing and lowering, once more"),
    ("compile", "compiling, once more"),
    ("new_shape_first", "first call with another shape"),
    ("waited_for_each", "later call, each waited for"),
    ("waited_for_at_the_end", "later calls in a row, each"),
    ("not_waited_for", "later call, nobody waits"),
)


def jax_calls() -> Figure:
    """First and later calls of a step in JAX, compiled and not."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.7))
    figure.subplots_adjust(left=0.3, right=0.95, top=0.91, bottom=0.24)
    for offset, capture, colour in ((0.19, "jax_jit", BLUE), (-0.19, "jax_eager", GREY)):
        for place, (which, _) in enumerate(TIMES):
            if capture == "jax_eager" and which in ("lower", "compile"):
                continue
            value = jax_ns(which, capture) / 1e6
            y = len(TIMES) - place + (offset if which not in ("lower", "compile") else 0)
            axes.plot(value, y, "o", color=colour, markersize=7)
            text = f"{value:,.0f} ms" if value >= 20 else f"{value:.2f} ms"
            axes.text(value * 1.2, y, text, va="center", fontsize=9)
    axes.set_yticks(range(len(TIMES), 0, -1), [label for _, label in TIMES])
    axes.set_xscale("log")
    axes.set_xlim(0.1, 20_000)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("time (ms)")
    axes.set_title("one step of a small network in JAX on an H200")
    axes.set_ylim(0.4, len(TIMES) + 0.6)
    _plain(axes)
    legend(figure, {"jax_jit": BLUE, "jax_eager (not compiled as a whole)": GREY}, 2)
    return figure


RULE = (5, 20)  # operations per byte: a rule of thumb that knows no device


def ridge_points() -> Figure:
    """Ridge points of the devices in the table, and two fixed numbers that know none of them."""
    import matplotlib.pyplot as plt

    kinds: tuple[tuple[str, dict[str, float], str], ...] = (
        ("float32", ridges("float32"), BLUE),
        ("16 bit", ridges16(), VERMILION),
    )
    names = [name for name in devices.names() if any(name in found for _, found, _ in kinds)]
    figure, axes = plt.subplots(figsize=(8, 0.27 * len(names) + 1.3))
    figure.subplots_adjust(left=0.21, right=0.97, top=0.93, bottom=0.19)
    axes.axvspan(*RULE, color=NOTHING, linewidth=0, zorder=0)
    for _, found, colour in kinds:
        for name, value in found.items():
            y = len(names) - names.index(name)
            axes.plot(value, y, "o", color=colour, markersize=6)
            axes.text(value * 1.08, y, f"{value:.0f}", va="center", fontsize=8.5, color=colour)
    axes.set_yticks(range(len(names), 0, -1), names)
    axes.set_xscale("log")
    values = [value for _, found, _ in kinds for value in found.values()]
    axes.set_xlim(min(4, 0.7 * min(values)), max(700, 1.6 * max(values)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("ridge point (operations per byte)")
    axes.set_title('shaded: where a rule of thumb says "mixed"')
    _plain(axes)
    entries = {f"ridge, {kind}": colour for kind, _, colour in kinds}
    legend(figure, entries, 2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "what_busy_means": what_busy_means,
    "look_alikes": look_alikes,
    "launches_before_after": launches_before_after,
    "power_drift": power_drift,
    "jax_calls": jax_calls,
    "layout_before_after": layout_before_after,
    "roofline_model": roofline_model,
    "ridge_points": ridge_points,
}
