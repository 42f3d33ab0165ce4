"""What the lesson of Lab 05 computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    PURPLE,
    ROOT,
    SKY,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPONENTS = {"bf16": "attention_components_bf16", "fp32": "attention_components_fp32"}
LARGE, SMALL, WIDE = (4, 4096, 4096, 32), (1, 64, 256, 4), (16, 512, 8192, 64)
HEADS = (4, 32, 4096, 128)  # batch, heads, tokens, head_dim
ACCURACY = ROOT / "benchmarks/results/benchmark_function.json"
LONG_NS = 100_000  # the kernels that this benchmark holds against its targets take so long at least


@cache
def document(capture: str, file: str) -> dict[str, Any]:
    """A file of a capture."""
    return json.loads(captures.text(capture, file))


# -- the components -------------------------------------------------------------------------------


def shape(profile: dict[str, Any]) -> tuple[int, ...]:
    """Batch, tokens, width, heads."""
    return tuple(profile[key] for key in ("batch", "seq_len", "d_model", "num_heads"))


def profiles(dtype: str) -> list[dict[str, Any]]:
    """All profiles of a data type ("bf16", "fp32")."""
    return document(COMPONENTS[dtype], "profiles.json")["profiles"]


def profile(dtype: str, which: tuple[int, ...]) -> dict[str, Any]:
    """The profile of a shape."""
    return next(found for found in profiles(dtype) if shape(found) == which)


def part(dtype: str, which: tuple[int, ...], name: str) -> dict[str, Any]:
    """A component of a profile, with its times in ns, intensity and least times."""
    found = profile(dtype, which)
    component = next(it for it in found["components"] if it["name"] == name)
    only = {**found, "components": [component]}
    return {**component, "time_ns": component["time_s"] * 1e9, **_of(only)}


def bottleneck(dtype: str, which: tuple[int, ...]) -> dict[str, Any]:
    """What the reference says of a profile, with its time in ns."""
    return _of(profile(dtype, which))


def _of(found: dict[str, Any]) -> dict[str, Any]:
    said = reference("lab05").identify_bottleneck(found)
    least = {f"{name}_ns": value * 1e9 for name, value in said["least_s"].items()}
    return {**said, **least, "time_ns": said["time_s"] * 1e9}


def whole_ns(dtype: str, which: tuple[int, ...]) -> float:
    """Time of the whole layer."""
    return profile(dtype, which)["whole_s"] * 1e9


def fused(dtype: str, which: tuple[int, ...]) -> dict[str, float]:
    """What the reference predicts of a fused layer, with its times in ns."""
    said = reference("lab05").predict_fused(profile(dtype, which))
    return {
        **said,
        "fused_ns": said["fused_least_s"] * 1e9,
        "layer_ns": said["layer_least_s"] * 1e9,
        "three_ns": sum(part(dtype, which, name)["time_ns"] for name in reference("lab05").FUSIBLE),
    }


def number(value: float, digits: int = 1) -> str:
    """A number with so many decimals."""
    return f"{value:,.{digits}f}"


def sums() -> list[float]:
    """The sum of the parts over the whole, of all recorded profiles, sorted."""
    return sorted(
        _of(found)["sum_to_whole_ratio"] for kind in COMPONENTS for found in profiles(kind)
    )


def ridge(device: str, dtype: str) -> float:
    """Operations a byte at which the roofs of a device meet."""
    found = devices.get(device)
    return found.peak(dtype) / found.memory_bandwidth_bytes_per_s


# -- the ways to compute attention ----------------------------------------------------------------


def row(way: str, dtype: str = "bfloat16", which: tuple[int, ...] = HEADS) -> dict[str, Any]:
    """What was recorded of a way at a shape."""
    keys = ("batch", "heads", "tokens", "head_dim")
    for found in document("attention_backends", "backends.json")["rows"]:
        if (found["way"], found["dtype"], *(found[key] for key in keys)) == (way, dtype, *which):
            return found
    raise KeyError((way, dtype, which))


def way_ns(way: str, dtype: str = "bfloat16", which: tuple[int, ...] = HEADS) -> float:
    """Median time of a way."""
    return statistics.median(row(way, dtype, which)["time_ns"])


def way_tflops(way: str, dtype: str = "bfloat16", which: tuple[int, ...] = HEADS) -> str:
    """Its rate, as text."""
    return f"{row(way, dtype, which)['flops'] / way_ns(way, dtype, which) / 1e3:,.0f} TFLOP/s"


# -- ways to time a call --------------------------------------------------------------------------


def timed(name: str, how: str) -> float:
    """Median in ns of a call of `attention_timing`: "throughput", "latency", "device", "issue"."""
    rows = document("attention_timing", "timing.json")["rows"]
    return statistics.median(next(it for it in rows if it["name"] == name)[how])


def cold_warm(name: str) -> dict[str, float]:
    """first_ns, and the medians cold_ns and warm_ns."""
    rows = document("attention_timing", "timing.json")["cold_and_warm"]
    found = next(it for it in rows if it["name"] == name)
    return {
        "first_ns": found["first_ns"],
        "cold_ns": statistics.median(found["cold_ns"]),
        "warm_ns": statistics.median(found["warm_ns"]),
    }


@cache
def accuracy() -> dict[str, Any]:
    """The last run of benchmarks/benchmark_function.py: the reference beside other timers."""
    return json.loads(ACCURACY.read_text(encoding="utf-8"))["runs"][-1]


def farthest(other: str) -> float:
    """How far the reference is off "events", "graph" or "itself" at most, over all long kernels."""
    return accuracy()["verdicts"][f"function_to_{other}_ratio"]["largest_distance"]


def method_ns(kernel: str, method: str) -> float:
    """Median in ns of a kernel by a method of that run."""
    return accuracy()["kernels"][kernel]["median_ns"][method]


# -- plots ----------------------------------------------------------------------------------------

PART_COLOURS = {
    "qkv_projection": BLUE,
    "score_computation": SKY,
    "softmax": VERMILION,
    "weighted_sum": ORANGE,
    "output_projection": GREEN,
}
WAY_COLOURS = {
    "cudnn": BLUE,
    "flash": ORANGE,
    "efficient": GREEN,
    "compiled": PURPLE,
    "materialised": VERMILION,
    "math": GREY,
}


def attention_parts() -> Figure:
    """Shares of the components at all recorded shapes, with the bound of the largest."""
    import matplotlib.pyplot as plt

    counts = [len(profiles(kind)) for kind in COMPONENTS]
    figure, panels = plt.subplots(2, 1, figsize=(8, 5.4), height_ratios=counts, sharex=True)
    figure.subplots_adjust(left=0.2, right=0.77, top=0.94, bottom=0.17, hspace=0.24)
    for axes, kind in zip(panels, COMPONENTS, strict=True):
        found = profiles(kind)
        for place, it in enumerate(found):
            left, y = 0.0, len(found) - place
            for component in it["components"]:
                share = 100 * component["share"]
                colour = PART_COLOURS[component["name"]]
                axes.barh(y, share, left=left, height=0.7, color=colour, linewidth=0)
                left += share
            said = _of(it)
            axes.text(101, y, f"{1e3 * it['whole_s']:.2f} ms, {said['bound']}", va="center")
        labels = ["{} × {}, {}, {}".format(*shape(it)) for it in found]
        axes.set_yticks(range(len(found), 0, -1), labels)
        axes.set_xlim(0, 100)
        name = found[0]["dtype"]
        axes.set_title(
            f"{name}: batch × tokens, width, heads (right: whole layer, bound by the roofline)"
        )
    panels[1].set_xlabel("share of the components' sum (%)")
    words = {name.replace("_", " "): colour for name, colour in PART_COLOURS.items()}
    legend(figure, words, 5)
    return figure


def attention_ways() -> Figure:
    """Rates of the ways to compute attention, at the recorded shapes in bfloat16."""
    import matplotlib.pyplot as plt

    rows = [
        it
        for it in document("attention_backends", "backends.json")["rows"]
        if it["dtype"] == "bfloat16" and it["time_ns"]
    ]
    keys = ("batch", "heads", "tokens", "head_dim")
    shapes = list(dict.fromkeys(tuple(it[key] for key in keys) for it in rows))
    figure, axes = plt.subplots(figsize=(8, 4))
    figure.subplots_adjust(left=0.2, right=0.97, top=0.93, bottom=0.24)
    for place, which in enumerate(shapes):
        y = len(shapes) - place
        axes.plot([5, 1000], [y, y], color=GRID, linewidth=0.6, zorder=0)
        for it in rows:
            if tuple(it[key] for key in keys) == which and it["way"] in WAY_COLOURS:
                rate = it["flops"] / statistics.median(it["time_ns"]) / 1e3
                axes.plot(rate, y, "o", color=WAY_COLOURS[it["way"]], markersize=6.5)
    axes.set_yticks(range(len(shapes), 0, -1), [" × ".join(map(str, it)) for it in shapes])
    axes.set_xscale("log")
    axes.set_xlim(5, 1000)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("TFLOP/s on an H200, bfloat16")
    axes.set_title("attention_backends: batch × heads × tokens × head_dim")
    legend(figure, WAY_COLOURS, 6)
    return figure


HOW_COLOURS = {"issue": GREY, "device": ORANGE, "throughput": BLUE, "latency": VERMILION}


def four_times() -> Figure:
    """Four times of each call of `attention_timing`."""
    import matplotlib.pyplot as plt

    rows = document("attention_timing", "timing.json")["rows"]
    figure, axes = plt.subplots(figsize=(8, 3.7))
    figure.subplots_adjust(left=0.33, right=0.97, top=0.92, bottom=0.26)
    for place, it in enumerate(rows):
        y = len(rows) - place
        for offset, (how, colour) in enumerate(HOW_COLOURS.items()):
            value = statistics.median(it[how]) / 1e3
            axes.plot(value, y + 0.2 - 0.13 * offset, "o", color=colour, markersize=5.5)
    axes.set_yticks(range(len(rows), 0, -1), [it["name"] for it in rows])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("µs per call on an H200 (medians)")
    axes.set_title("attention_timing: four times of the same call", color=INK)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    legend(figure, HOW_COLOURS, 4)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "attention_parts": attention_parts,
    "attention_ways": attention_ways,
    "four_times": four_times,
}
