"""What the figures and plots of Day 1's lesson are computed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab import captures
from profiling_lab.analysis import intervals as sets
from scripts.lesson_sources.drawing import (
    BLUE,
    CALL,
    FAINT,
    GREEN,
    GREY,
    GRID,
    INK,
    LIGHT,
    NOTHING,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
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

HOST = {
    "make_batch": PURPLE,
    "copy_in": SKY,
    "forward": ORANGE,
    "copy_out": BLUE,
    "postprocess": GREEN,
}
KERNEL, H2D, D2H, BLOCKED = ORANGE, SKY, BLUE, VERMILION
PREDICTED, MEASURED, RECORDED = SKY, GREEN, GREY
IDLE = NOTHING

# The twins of `predicted_and_measured`: what is faulty, what cause is taken away, what was recorded
# without it. "bound": the fixed program changed more than this one cause.
TWINS = (
    ("training_item", "waits", "training_async", ""),
    ("alloc_every_step", "allocation", "alloc_cached", ""),
    ("host_preprocess", "host_code", "host_prefetch", ""),
    ("decode_eager", "launch_cost", "decode_graph", ""),
    ("cuda_pipeline_baseline", "copies", "cuda_pipeline_improved", "bound"),
    ("torch_inference_baseline", "copies", "torch_inference_improved", "bound"),
)


# -- what the lesson's text uses as well ------------------------------------------------------------


def span_ns(capture: str) -> int:
    """From the first to the last device operation of a capture."""
    start, end = captures.open(capture).span_ns
    return end - start


def copied(capture: str, kind: str) -> str:
    """The rate of all copies of one kind ("H2D") of a capture, bytes over their durations."""
    copies = captures.open(capture).copies
    copies = copies.filter(copies["kind"] == kind)
    rate = int(copies["bytes"].sum()) / int(copies["duration_ns"].sum())  # bytes a ns: GB/s
    return f"{rate:,.1f} GB/s"


def ranges_ns(capture: str, name: str) -> int:
    """The durations of all NVTX ranges of one name, added up."""
    ranges = captures.open(capture).nvtx_ranges
    return int(ranges.filter(ranges["name"] == name)["duration_ns"].sum())


def calls_ns(capture: str, name: str) -> int:
    """The durations of all calls of one name, added up."""
    calls = captures.open(capture).api_calls
    return int(calls.filter(calls["name"] == name)["duration_ns"].sum())


def gap_durations(capture: str, at_least_ns: int = 0) -> np.ndarray:
    """Lengths of the idle gaps of all devices."""
    gaps = reference("ex_30").idle_gaps(capture, min_gap_ns=at_least_ns)
    return np.array([gap["end_ns"] - gap["start_ns"] for gap in gaps])


def idle_while(capture: str, call: str) -> int:
    """Time in ns in which the device was idle and the host inside a call of one name."""
    gaps = reference("ex_30").idle_gaps(capture)
    calls = captures.open(capture).api_calls
    calls = calls.filter(calls["name"] == call)
    idle = sets.of((gap["start_ns"], gap["end_ns"]) for gap in gaps)
    inside = sets.of(calls.select("start_ns", "end_ns").iter_rows())
    return sets.total_ns(sets.intersection(inside, idle))


def one_launch() -> dict[str, int]:
    """One kernel of `decode_eager` from the middle of the recording, close to its neighbours, in ns.

    call_start_ns, call_end_ns, start_ns, end_ns, correlation, process.
    """
    with captures.open("decode_eager") as recording:
        kernels = recording.kernels.rows(named=True)
        calls = {(c["process"], c["correlation"]): c for c in recording.api_calls.rows(named=True)}
    middle = len(kernels) // 2
    for before, kernel, after in zip(
        kernels[middle - 1 :], kernels[middle:], kernels[middle + 1 :], strict=False
    ):
        call = calls.get((kernel["process"], kernel["correlation"]))
        near = after["start_ns"] - before["start_ns"] < 40_000
        if near and call and kernel["start_ns"] > call["end_ns"] and kernel["duration_ns"] > 2_000:
            return {
                "call_start_ns": call["start_ns"],
                "call_end_ns": call["end_ns"],
                "start_ns": kernel["start_ns"],
                "end_ns": kernel["end_ns"],
                "correlation": kernel["correlation"],
                "process": kernel["process"],
            }
    raise LookupError("no kernel of decode_eager was queued")


def item_gap() -> dict[str, int]:
    """A wait of `training_item` and the idle gap of the device that follows it, in ns.

    wait_start_ns, wait_end_ns: the longest cudaStreamSynchronize of the middle step.
    gap_start_ns, gap_end_ns: the longest gap of the device that starts in it and the next 2 ms.
    """
    name = "training_item"
    with captures.open(name) as recording:
        steps = [r for r in recording.nvtx_ranges.rows(named=True) if r["name"] == "step"]
        step = steps[len(steps) // 2]
        waits = [
            c
            for c in recording.api_calls.rows(named=True)
            if c["name"] == "cudaStreamSynchronize"
            and step["start_ns"] <= c["start_ns"]
            and c["end_ns"] <= step["end_ns"]
        ]
    # The last long wait of a step comes before the next step's sampling, on the host.
    wait = max(waits, key=lambda c: (c["duration_ns"] > 500_000, c["start_ns"]))
    gaps = [
        g
        for g in reference("ex_30").idle_gaps(name)
        if wait["start_ns"] <= g["start_ns"] <= wait["end_ns"] + 2_000_000
    ]
    gap = max(gaps, key=lambda g: g["end_ns"] - g["start_ns"])
    return {
        "wait_start_ns": wait["start_ns"],
        "wait_end_ns": wait["end_ns"],
        "gap_start_ns": gap["start_ns"],
        "gap_end_ns": gap["end_ns"],
    }


@cache
def twins() -> list[dict]:
    """Per pair of TWINS: faulty, cause, fixed, bound, before_ns, predicted_ns, measured_ns."""
    ex_30 = reference("ex_30")
    out = []
    for faulty, cause, fixed, bound in TWINS:
        start, end = ex_30.find_window(faulty)
        fixed_start, fixed_end = ex_30.find_window(fixed)
        out.append(
            {
                "faulty": faulty,
                "cause": cause,
                "fixed": fixed,
                "bound": bound,
                "before_ns": end - start,
                "predicted_ns": end - start - ex_30.recoverable_time(faulty)[cause],
                "measured_ns": fixed_end - fixed_start,
            }
        )
    return out


def twin(faulty: str) -> dict:
    """The pair of `twins` whose faulty program bears this name."""
    return next(pair for pair in twins() if pair["faulty"] == faulty)


# -- drawing ----------------------------------------------------------------------------------------


# The lane of kernels and a host that launches have the same colour on purpose: same cause.
PIPELINE = {
    "make_batch": HOST["make_batch"],
    "copy_in, H2D copy": HOST["copy_in"],
    "forward, kernels": HOST["forward"],
    "copy_out, D2H copy": HOST["copy_out"],
    "postprocess": HOST["postprocess"],
    "host inside a copy or wait call": BLOCKED,
}


def _pipeline_panel(axes: Axes, name: str, window: tuple[float, float]) -> None:
    with captures.open(name) as recording:
        ranges = recording.nvtx_ranges.rows(named=True)
        calls = recording.api_calls.rows(named=True)
        copies = recording.copies.rows(named=True)
        kernels = recording.kernels.rows(named=True)
    pixel = (window[1] - window[0]) / 700
    for stage, colour in HOST.items():
        found = intervals(r for r in ranges if r["name"] == stage)
        bars(axes, 3.12, found, window, height=0.46, color=colour)
    waiting = intervals(
        c
        for c in calls
        if ("Synchronize" in c["name"] or "Memcpy" in c["name"]) and c["duration_ns"] > 50_000
    )
    bars(axes, 2.72, waiting, window, height=0.2, color=BLOCKED)
    for kind, colour in (("H2D", H2D), ("D2H", D2H)):
        found = intervals(c for c in copies if c["kind"] == kind)
        bars(axes, 2, found, window, color=colour, join_ns=pixel)
    bars(axes, 1, intervals(kernels), window, color=KERNEL, join_ns=pixel)
    lanes(axes, ["host", "copies", "kernels"], window, 1e6, "")


def one_step() -> Figure:
    """One step of the baseline inference pipeline."""
    import matplotlib.pyplot as plt

    with captures.open("torch_inference_baseline") as recording:
        step = recording.nvtx_ranges.filter(name="step").row(3, named=True)
    figure, axes = plt.subplots(figsize=(8, 2.6))
    figure.subplots_adjust(left=0.09, right=0.98, top=0.97, bottom=0.4)
    _pipeline_panel(axes, "torch_inference_baseline", (step["start_ns"], step["end_ns"]))
    axes.set_xlabel("time in the step (ms)")
    legend(figure, PIPELINE, 3)
    return figure


def inference_before_after() -> Figure:
    """Baseline and improved inference pipeline on one scale, and the improved one closer."""
    import matplotlib.pyplot as plt

    def span(name: str) -> tuple[int, int]:
        with captures.open(name) as recording:
            return recording.span_ns

    before, after = span("torch_inference_baseline"), span("torch_inference_improved")
    length = 64e6
    figure, panels = plt.subplots(3, 1, figsize=(8, 6.4))
    figure.subplots_adjust(left=0.09, right=0.98, top=0.95, bottom=0.165, hspace=0.62)

    _pipeline_panel(panels[0], "torch_inference_baseline", (before[0], before[0] + length))
    panels[0].set_title("baseline: the first 64 ms")
    _pipeline_panel(panels[1], "torch_inference_improved", (after[0], after[0] + length))
    panels[1].set_title("improved, on the same scale")
    took_ms = (after[1] - after[0]) / 1e6
    panels[1].text(
        took_ms + 0.8, 2, f"all eight steps are done after {took_ms:.0f} ms", va="center"
    )
    middle = after[0] + (after[1] - after[0]) / 3
    _pipeline_panel(panels[2], "torch_inference_improved", (middle, middle + 8e6))
    panels[2].set_title("improved, eight times closer")
    panels[2].set_xlabel("time in the panel (ms)")
    legend(figure, PIPELINE, 3)
    return figure


def sum_and_union() -> Figure:
    """Concurrent kernels: the sum of their durations is longer than the time that passed."""
    import matplotlib.pyplot as plt

    with captures.open("two_streams") as recording:
        kernels = recording.kernels.rows(named=True)
        copies = recording.copies.rows(named=True)
        operations = recording.device_operations
        start, end = recording.span_ns
    window = (start, start + 0.8e6)
    streams = sorted({k["stream"] for k in kernels})
    names = [f"stream {s}, kernels" for s in streams]
    copy_stream = copies[0]["stream"]
    figure, axes = plt.subplots(figsize=(8, 2.9))
    figure.subplots_adjust(left=0.19, right=0.98, top=0.89, bottom=0.17)
    for lane, stream in enumerate(streams):
        found = intervals(k for k in kernels if k["stream"] == stream)
        bars(axes, 4 - lane, found, window, unit=1e3, color=KERNEL, edgecolor=PAPER, linewidth=0.8)
    bars(
        axes,
        2,
        intervals(copies),
        window,
        unit=1e3,
        color=H2D,
        edgecolor=PAPER,
        linewidth=0.8,
    )
    either = intervals(operations.rows(named=True))
    bars(axes, 1, either, window, unit=1e3, color=INK)
    lanes(
        axes,
        [*names, f"stream {copy_stream}, copies", "device busy"],
        window,
        1e3,
        "time since the first operation (µs)",
    )
    total_ms = int(operations["duration_ns"].sum()) / 1e6
    busy_ms = sum(reference("ex_30").busy_time("two_streams").values()) / 1e6
    axes.set_title(
        f"whole recording: durations add up to {total_ms:.1f} ms, "
        f"{(end - start) / 1e6:.1f} ms passed, busy {busy_ms:.1f} ms"
    )
    return figure


def launch_window() -> tuple[int, int]:
    """Of decode_eager, what the figure of one launch shows, in ns."""
    start_ns = one_launch()["call_start_ns"]
    return start_ns - 22_000, start_ns + 33_000


def launch_anatomy() -> Figure:
    """One kernel of decode_eager: its call, the queue, its execution, and its neighbours."""
    import matplotlib.pyplot as plt

    it = one_launch()
    with captures.open("decode_eager") as recording:
        calls = recording.api_calls.rows(named=True)
        kernels = recording.kernels.rows(named=True)
    window = launch_window()
    origin = window[0]
    launches = [c for c in calls if "Launch" in c["name"]]
    mine = [c for c in launches if c["correlation"] == it["correlation"]]
    figure, axes = plt.subplots(figsize=(8, 2.8))
    figure.subplots_adjust(left=0.18, right=0.98, top=0.88, bottom=0.18)
    bars(axes, 2, intervals(launches), window, height=0.5, unit=1e3, color=RECORDED)
    bars(axes, 1, intervals(kernels), window, height=0.5, unit=1e3, color=RECORDED)
    bars(axes, 2, intervals(mine), window, height=0.5, unit=1e3, color=D2H)
    bars(axes, 1, [(it["start_ns"], it["end_ns"])], window, height=0.5, unit=1e3, color=KERNEL)
    lanes(axes, ["host: launch calls", "device: kernels"], window, 1e3, "time in the figure (µs)")
    axes.set_ylim(0.3, 2.75)

    def span(a: int, b: int, y: float, text: str, colour: str, align: str = "center") -> None:
        left, right = (a - origin) / 1e3, (b - origin) / 1e3
        axes.annotate(
            "",
            (right, y),
            (left, y),
            arrowprops={"arrowstyle": "<->", "color": colour, "shrinkA": 0, "shrinkB": 0, "lw": 1},
        )
        place = {"center": (left + right) / 2, "left": right + 0.5}[align]
        axes.text(
            place,
            y + (0.08 if align == "center" else 0),
            text,
            ha=align,
            va="bottom" if align == "center" else "center",
            color=INK,
        )

    for moment in (it["call_end_ns"], it["start_ns"]):
        axes.axvline((moment - origin) / 1e3, ymax=0.85, color=GRID, linewidth=0.8, zorder=0)
    api = it["call_end_ns"] - it["call_start_ns"]
    queue = it["start_ns"] - it["call_end_ns"]
    run = it["end_ns"] - it["start_ns"]
    span(it["call_start_ns"], it["call_end_ns"], 2.38, f"call {api / 1e3:.1f} µs", D2H)
    span(it["call_end_ns"], it["start_ns"], 1.5, f"queue {queue / 1e3:.1f} µs", BLOCKED, "left")
    span(it["start_ns"], it["end_ns"], 0.62, f"execution {run / 1e3:.1f} µs", KERNEL, "left")
    axes.set_title("one kernel of decode_eager (coloured) and its neighbours")
    return figure


def gap_window() -> tuple[int, int]:
    """Of training_item, what the figure of the gap shows, in ns."""
    it = item_gap()
    return it["wait_start_ns"] - 350_000, it["gap_end_ns"] + 900_000


def gap_after_item() -> Figure:
    """The host waits while the device is busy; then the device waits while the host works."""
    import matplotlib.pyplot as plt

    it = item_gap()
    window = gap_window()
    origin = window[0]
    with captures.open("training_item") as recording:
        calls = recording.api_calls.rows(named=True)
        operations = recording.device_operations.rows(named=True)
        ranges = recording.nvtx_ranges.rows(named=True)
    figure, axes = plt.subplots(figsize=(8, 3.1))
    figure.subplots_adjust(left=0.17, right=0.98, top=0.88, bottom=0.26)
    pixel = (window[1] - window[0]) / 700
    axes.axvspan(
        (it["gap_start_ns"] - origin) / 1e6,
        (it["gap_end_ns"] - origin) / 1e6,
        color=IDLE,
        linewidth=0,
        zorder=0,
    )
    stages = ("sample", "forward", "backward", "optimizer", "log")
    shades = (PURPLE, YELLOW, FAINT, LIGHT, GREY)
    for stage, shade in zip(stages, shades, strict=True):
        found = [r for r in ranges if r["name"] == stage]
        bars(axes, 3, intervals(found), window, color=shade, edgecolor=PAPER, linewidth=0.6)
        for r in found:
            left, right = max(r["start_ns"], window[0]), min(r["end_ns"], window[1])
            if right - left > 0.075 * (window[1] - window[0]):
                axes.text(((left + right) / 2 - origin) / 1e6, 3, stage, ha="center", va="center")
    waits = [c for c in calls if "Synchronize" in c["name"]]
    launches = [c for c in calls if "Synchronize" not in c["name"]]
    bars(axes, 2, intervals(launches), window, color=CALL, join_ns=pixel)
    bars(axes, 2, intervals(waits), window, color=BLOCKED)
    bars(axes, 1, intervals(operations), window, color=KERNEL, join_ns=pixel)
    axes.text(
        ((it["gap_start_ns"] + it["gap_end_ns"]) / 2 - origin) / 1e6,
        1,
        f"idle {(it['gap_end_ns'] - it['gap_start_ns']) / 1e6:.2f} ms",
        ha="center",
        va="center",
    )
    lanes(
        axes, ["host: range", "host: CUDA calls", "device"], window, 1e6, "time in the figure (ms)"
    )
    axes.set_title("training_item: the waits at the end of a step, and the start of the next")
    legend(
        figure,
        {
            "waiting call (cudaStreamSynchronize, …)": BLOCKED,
            "other CUDA calls": CALL,
            "device operations": KERNEL,
        },
        3,
    )
    return figure


def predicted_and_measured() -> Figure:
    """What the replay predicts without one cause, and what the fixed twin took."""
    import matplotlib.pyplot as plt

    pairs = twins()
    figure, axes = plt.subplots(figsize=(8, 4.4))
    figure.subplots_adjust(left=0.27, right=0.98, top=0.98, bottom=0.17)
    for place, pair in enumerate(pairs):
        y = len(pairs) - place
        before = pair["before_ns"]
        axes.barh(y, 100, height=0.78, color=LIGHT, linewidth=0)
        for offset, key, colour in (
            (0.19, "predicted_ns", PREDICTED),
            (-0.19, "measured_ns", MEASURED),
        ):
            share = 100 * pair[key] / before
            hatch: dict[str, Any] = {"hatch": "///", "edgecolor": PAPER} if pair["bound"] else {}
            drawn = hatch if key == "predicted_ns" else {}
            axes.barh(y + offset, share, height=0.36, color=colour, linewidth=0, **drawn)
            axes.text(share + 1, y + offset, f"{pair[key] / 1e6:.1f} ms", va="center", fontsize=9)
        axes.text(99, y, f"of {before / 1e6:.1f} ms", ha="right", va="center", fontsize=9)
    axes.set_yticks(
        range(len(pairs), 0, -1),
        [f"{pair['faulty']}\nwithout {pair['cause']}" for pair in pairs],
    )
    axes.set_xlim(0, 100)
    axes.set_xlabel("time left, as a share of the recorded window (%)")
    legend(
        figure,
        {
            "predicted (hatched: a bound)": PREDICTED,
            "measured on the fixed twin": MEASURED,
        },
        2,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "one_step": one_step,
    "inference_before_after": inference_before_after,
    "sum_and_union": sum_and_union,
    "launch_anatomy": launch_anatomy,
    "gap_after_item": gap_after_item,
    "predicted_and_measured": predicted_and_measured,
}
