"""What the figures and plots of Day 4's lesson are computed from."""

from __future__ import annotations

import itertools
import json
import sqlite3
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices, roofline
from profiling_lab.diagnosis.kernels import ATTAINABLE  # noqa: F401 - the text uses it
from scripts.lesson_sources.docs.lesson import diagnosis
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
    compared,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEVICE_COLOURS = (VERMILION, GREEN, ORANGE, PURPLE, BLUE, GREY, SKY)
ROOF, ABOVE, IDLE = GREEN, ORANGE, VERMILION

# The block that `roofline_decode` runs, and the one of `roofline_decode_mha`.
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "ffn_matrices")


# -- what the lesson's text uses as well ------------------------------------------------------------


@cache
def rows(capture: str) -> dict[str, dict[str, Any]]:
    """The measurements of a capture by name, each with its prediction, cost and, if known, class."""
    ex_33 = reference("ex_33")
    found = {}
    predictions = {row["name"]: row for row in ex_33.prediction_error(capture)}
    device = json.loads(captures.text(capture, "measurements.json"))["device"]
    for row in ex_33.read_measurements(capture):
        cost = ex_33.cost_of(row, ex_33.all_costs())
        whole = row | predictions[row["name"]] | {"cost": cost, "finding": None}
        if whole["verdict"] == "holds":
            whole["finding"] = ex_33.classify_bound(
                row["name"], cost, row["dtype"], device, row["device_ns"], row["host_ns"]
            )
        found[row["name"]] = whole
    return found


def row(capture: str, name: str) -> dict[str, Any]:
    """One measurement with its prediction."""
    return rows(capture)[name]


def ops(name: str) -> dict[str, Any]:
    """One measurement of `roofline_ops`."""
    return row("roofline_ops", name)


def category(name: str) -> str:
    """What limits a call of `roofline_ops`."""
    return ops(name)["finding"].category


def part(name: str, which: str) -> float:
    """A part of the window of a call of `roofline_ops`: "roof", "above_roof" or "idle"."""
    evidence = ops(name)["finding"].evidence
    value = (
        evidence["window_ns"] - evidence["recoverable_ns"]
        if which == "roof"
        else evidence[f"{which}_ns"]
    )
    return value / evidence["window_ns"]


def counted(name: str, capture: str = "roofline_counters") -> dict[str, Any]:
    """One kernel of a capture of counters, as a point."""
    points = reference("ex_33").roofline_points(capture)
    return next(point for point in points if point["name"] == name)


def counter(name: str, metric: str, capture: str = "roofline_counters") -> float:
    """A counter of a kernel, as Nsight Compute gave it; instruction counters by their short name."""
    if "__" not in metric:
        metric = f"smsp__sass_thread_inst_executed_op_{metric}_pred_on.sum"
    kernels = json.loads(captures.text(capture, "counters.json"))["kernels"]
    return next(k for k in kernels if k["name"] == name)["metrics"][metric]["value"]


def dram(name: str) -> float:
    """The share of its peak at which DRAM was while a kernel ran."""
    return counter(name, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed") / 100


def halved_ns() -> tuple[float, float]:
    """The fused chain in float32 with half its bytes: the two ends of what is predicted, without noise."""
    name = "chain fp32 67108864 fused"
    busy = dram(name)
    device_ns = ops(name)["measured_ns"]
    return device_ns / 2, device_ns * (1 - busy / 2)


def layer_norm_back_ns() -> tuple[float, float]:
    """What `predict_window` says of the bfloat16 layer norm with twice its bytes."""
    return _window_ns("layer_norm bf16 16384x4096", {"dram": 2.0})


def softmax_ns() -> tuple[float, float]:
    """What `predict_window` says of the float32 softmax with half its bytes."""
    return _window_ns("softmax fp32 16384x4096", {"dram": 0.5})


def _window_ns(name: str, change: dict[str, float]) -> tuple[float, float]:
    shares = {"dram": "gpu__dram_throughput", "sm": "sm__throughput"}
    busy = {
        unit: counter(name, f"{metric}.avg.pct_of_peak_sustained_elapsed") / 100
        for unit, metric in shares.items()
    }
    facts = {"device_ns": ops(name)["device_ns"], "host_ns": ops(name)["host_ns"], "busy": busy}
    return reference("ex_33").predict_window(facts, change)


def engine_says(kernel: str) -> str:
    """The lines of `lab diagnose` about a kernel of `roofline_counters`, as a block."""
    shown = diagnosis(str(ROOT / "captures/roofline_counters/kernels.csv.gz")).splitlines()
    return "\n".join(["", "```", *(line.strip() for line in shown if kernel in line), "```", ""])


def saved(before: str, after: str) -> float:
    """The share of a call's device time in `roofline_ops` that another one saves."""
    return 1 - ops(after)["device_ns"] / ops(before)["device_ns"]


def tensor_excess() -> float:
    """By what share the tensor pipe did more operations than the product of 8192³ needs."""
    name = "matmul bf16 8192x8192x8192"
    did = counter(name, "sm__ops_path_tensor_src_bf16_dst_fp32.sum")
    return did / ops(name)["cost"]["flops"] - 1


def training(capture: str, name: str) -> dict[str, Any]:
    """One training step."""
    found = reference("ex_33").model_flops_utilization(capture)
    return next(step for step in found if step["name"] == name)


def step_ns(capture: str, name: str) -> float:
    """The median time of a training step."""
    found = reference("ex_33").read_measurements(capture)
    return next(step["device_ns"] for step in found if step["name"] == name)


@cache
def model(capture: str = "roofline_decode") -> dict[str, int]:
    """The sizes of the block of a decode capture."""
    first = reference("ex_33").read_measurements(capture)[0]["arguments"]
    return {name: first[name] for name in SIZES}


def decode(batch: int, cached: int, capture: str = "roofline_decode") -> dict[str, Any]:
    """The decode step of a batch after so many tokens."""
    return row(capture, f"decode batch {batch} after {cached}")


def decode_part(which: str, batch: int, cached: int) -> float:
    """The median time in ns of the "linear" layers or the "attention" of a decode step alone."""
    document = json.loads(captures.text("roofline_decode", "measurements.json"))
    name = f"{which} of decode batch {batch} after {cached}"
    samples = next(part["device_time"] for part in document["parts"] if part["name"] == name)
    return statistics.median(samples) * reference("ex_33").NS_PER_UNIT[document["unit"]]


def cache_ns(batch: int, cached: int) -> float:
    """How long an H200 takes at least to read the KV cache of `roofline_decode`."""
    ex_33, sizes = reference("ex_33"), model()
    held = ex_33.kv_cache_bytes(
        sizes["layers"], sizes["kv_heads"], sizes["head_dim"], cached + 1, batch, "bfloat16"
    )
    return ex_33.predicted_time_ns([{"flops": 0, "bytes": held}], "H200", "bfloat16")


def pass_cost(batch: int, new: int, cached: int, capture: str = "roofline_decode") -> dict:
    """The cost of a forward pass of the block of a capture, in bfloat16."""
    return reference("ex_33").transformer_cost(
        **model(capture), batch=batch, new_tokens=new, cached_tokens=cached, dtype="bfloat16"
    )


def intensity(cost: dict[str, int], digits: int = 1) -> str:
    """Operations per byte of a cost, as text."""
    return f"{cost['flops'] / cost['bytes']:,.{digits}f}"


def number(value: float, digits: int = 1) -> str:
    """A number with so many decimals."""
    return f"{value:,.{digits}f}"


def rate(value: float) -> str:
    """Operations per second as text."""
    return roofline.format_flops_per_s(value)


def by_device(m: int, k: int, n: int, dtype: str) -> dict[str, dict[str, Any]]:
    """A product on the devices that lessons compare."""
    found = reference("ex_33").class_by_device(m, k, n, dtype, compared())
    return {entry["device"]: entry for entry in found}


def ridge_rows() -> str:
    """Rows of a table: the ridge points of the devices that lessons compare, float32 and 16 bit."""
    ridge = reference("ex_33").ridge_point
    return "\n".join(
        f"| {name} | {number(ridge(name, 'float32'))} | {number(ridge(name, 'float16'), 0)} |"
        for name in compared()
    )


def choice(name: str, changes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """What to do about a call of `roofline_ops`, with the share of its roof that the best call there reaches."""
    found = ops(name)
    return reference("ex_33").choose_optimization(
        found["cost"],
        found["dtype"],
        "H200",
        found["device_ns"],
        found["host_ns"],
        reachable(roof_of(name)),
        changes or [],
    )


def driver_memory_bytes() -> int:
    """What the driver of the recorded H200 offers, less than its maker states."""
    with sqlite3.connect(captures.path("decode_eager")) as connection:
        return connection.execute("SELECT totalMemory FROM TARGET_INFO_GPU").fetchone()[0]


def driver_fitting_batch(cached_tokens: int) -> int:
    """fitting_batch of decode_ridge_batch with the memory that the driver offers."""
    ex = reference("ex_33")
    stated = devices.get("H200").memory_bytes
    fitting = ex.decode_ridge_batch(model(), cached_tokens, "bf16", "H200")["fitting_batch"]
    kept = [model()[size] for size in ("layers", "kv_heads", "head_dim")]
    a_sequence = ex.kv_cache_bytes(*kept, cached_tokens + 1, 1, "bf16")
    one, two = (
        ex.transformer_cost(
            **model(), batch=batch, new_tokens=1, cached_tokens=cached_tokens, dtype="bf16"
        )["bytes"]
        for batch in (1, 2)
    )
    matrices = 2 * one - two
    assert (stated - matrices) // a_sequence == fitting
    return (driver_memory_bytes() - matrices) // a_sequence


def l2_bytes() -> int:
    """The L2 cache of the H200, from the device table."""
    found = devices.get("H200").l2_bytes
    assert found is not None
    return found


def gb_per_s(device: str) -> str:
    """The memory bandwidth of a device, as text."""
    return f"{devices.get(device).memory_bandwidth_bytes_per_s / 1e9:,.0f} GB/s"


def roof_of(name: str) -> str:
    """The roof that gives the least time of a call of `roofline_ops`: "memory" or "compute"."""
    found = ops(name)
    ridge = reference("ex_33").ridge_point("H200", found["dtype"])
    return "compute" if found["cost"]["flops"] > ridge * found["cost"]["bytes"] else "memory"


@cache
def reachable(roof: str = "memory") -> float:
    """The share of this roof that the best call of `roofline_ops` reaches with cold caches."""
    return max(
        found["predicted_ns"] / found["measured_ns"]
        for name, found in rows("roofline_ops").items()
        if found["cache"] == "cold" and found["predicted_ns"] and roof_of(name) == roof
    )


def to(name: str, action: str) -> dict[str, Any]:
    """Another call of `roofline_ops` as a change that one may make."""
    found = ops(name)
    host_ns = found["host_ns"]
    return {"action": action, "cost": found["cost"], "dtype": found["dtype"], "host_ns": host_ns}


def fusing() -> dict[str, Any]:
    """What is said about the chain in three kernels, and what the fused one then took."""
    said = choice("chain fp32 67108864 eager", [to("chain fp32 67108864 fused", "fuse")])
    before = ops("chain fp32 67108864 eager")["device_ns"]
    return said | {
        "before_ns": before,
        "predicted_ns": before - said["saved_ns"],
        "measured_ns": ops("chain fp32 67108864 fused")["device_ns"],
    }


# -- plots ----------------------------------------------------------------------------------------

SHORT = {
    "matmul fp32 4096x4096x4096": "matmul 4096³ fp32",
    "matmul bf16 256x256x256": "matmul 256³ bf16",
    "matmul bf16 8192x8192x8192": "matmul 8192³ bf16",
    "matmul bf16 1x8192x8192": "matmul, 1 row",
    "matmul bf16 64x8192x8192": "matmul, 64 rows",
    "chain fp32 67108864 fused": "fused chain fp32",
    "softmax fp32 16384x4096": "softmax",
    "attention bf16 4x32x4096x4096x128 flash": "flash attention",
}


# Where a point's operations come from, for the legend.
SOURCES = {"counters": "operations from counters", "analytic": "operations from the cost"}


def roofline_measured() -> Figure:
    """Kernels of `roofline_counters` under two roofs of the H200."""
    points = [
        roofline.Point(
            SHORT[point["name"]],
            point["intensity"],
            point["rate_flops_per_s"],
            SOURCES[point["flops_source"]],
        )
        for point in reference("ex_33").roofline_points("roofline_counters")
        if point["name"] in SHORT
    ]
    roofs = [roofline.roof("H200", dtype) for dtype in ("float32", "bfloat16")]
    return roofline.figure(roofs, points, "roofline_counters: DRAM bytes and times from counters")


BARS = (
    ("chain fp32 67108864 fused", "chain, fused, fp32"),
    ("chain fp32 67108864 eager", "chain, three kernels, fp32"),
    ("matmul bf16 8192x8192x8192", "matmul 8192³ bf16"),
    ("matmul bf16 1x8192x8192", "matmul, 1 row of 8192, bf16"),
    ("matmul fp32 4096x4096x4096", "matmul 4096³ fp32"),
    ("layer_norm fp32 16384x4096", "layer norm fp32"),
    ("layer_norm bf16 16384x4096", "layer norm bf16"),
    ("softmax bf16 16384x4096", "softmax bf16"),
    ("attention bf16 4x32x8192x8192x128 cudnn", "attention 8192, cuDNN"),
    ("attention bf16 4x32x8192x8192x128 flash", "attention 8192, flash"),
    ("attention bf16 4x32x4096x4096x128 in three calls", "attention 4096, three calls"),
    ("matmul bf16 1024x1024x1024", "matmul 1024³ bf16"),
    ("matmul bf16 256x256x256", "matmul 256³ bf16"),
    ("chain fp32 4096 eager", "chain of 4,096 elements"),
)


def predictions() -> Figure:
    """How many times longer than predicted operations of `roofline_ops` took."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.6))
    figure.subplots_adjust(left=0.29, right=0.95, top=0.92, bottom=0.12)
    for place, (name, label) in enumerate(BARS):
        found = ops(name)
        ratio = found["measured_ns"] / found["predicted_ns"]
        y = len(BARS) - place
        axes.barh(y, ratio - 1, left=1, height=0.62, color=ORANGE, linewidth=0)
        axes.text(ratio * 1.06, y, f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×", va="center")
        axes.text(0.97, y, label, ha="right", va="center")
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(1, 1000)
    axes.set_yticks([])
    axes.set_ylim(0.3, len(BARS) + 0.7)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter("{x:.0f}×")
    axes.set_xlabel("measured over predicted time (cold caches)")
    axes.set_title("roofline_ops: how much longer than predicted")
    return figure


PARTS = (
    ("matmul bf16 8192x8192x8192", "matmul 8192³ bf16"),
    ("chain bf16 67108864 fused", "chain, fused, bf16"),
    ("matmul bf16 1x8192x8192", "matmul, 1 row of 8192"),
    ("softmax bf16 16384x4096", "softmax bf16"),
    ("attention bf16 4x32x8192x8192x128 flash", "attention 8192, flash"),
    ("matmul bf16 1x4096x4096", "matmul, 1 row of 4096"),
    ("matmul fp32 1024x1024x1024", "matmul 1024³ fp32"),
    ("matmul bf16 256x256x256", "matmul 256³ bf16"),
    ("chain fp32 4096 eager", "chain of 4,096 elements"),
)


def parts_of_the_window() -> Figure:
    """Roof, above roof and idle of calls of `roofline_ops`, with the class that follows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.24, right=0.83, top=0.92, bottom=0.23)
    for place, (name, _) in enumerate(PARTS):
        y, left = len(PARTS) - place, 0.0
        for which, colour in (("roof", ROOF), ("above_roof", ABOVE), ("idle", IDLE)):
            share = 100 * part(name, which)
            axes.barh(y, share, left=left, height=0.66, color=colour, linewidth=0)
            left += share
        axes.text(102, y, category(name), va="center")
    axes.set_yticks(range(len(PARTS), 0, -1), [label for _, label in PARTS])
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the window (%)")
    axes.set_title("roofline_ops: what a call's time is made of")
    legend(
        figure,
        {
            "roof (least time)": ROOF,
            "device, above the roof": ABOVE,
            "device idle, waiting for the host": IDLE,
        },
        3,
    )
    return figure


def rows_and_ridges() -> Figure:
    """The intensity of x @ w with growing rows, and the ridge points of several devices."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.07, right=0.87, top=0.92, bottom=0.14)
    ridges = by_device(1, 8192, 8192, "float16")
    most = max(entry["rows_to_ridge"] or 1 for entry in ridges.values())
    powers = range(max(14, most.bit_length() + 1))
    counts = [2**power for power in powers]
    cost = reference("ex_33").matmul_cost
    for size, colour in ((8192, INK), (256, SKY)):
        costs = [cost(m, size, size, "float16") for m in counts]
        values = [c["flops"] / c["bytes"] for c in costs]
        axes.plot(counts, values, color=colour, linewidth=1.6)
        axes.text(counts[-1] * 1.15, values[-1], f"k = n = {size}", color=colour, va="center")
    coloured = [
        (name, ridges[name], colour)
        for name, colour in zip(compared(), itertools.cycle(DEVICE_COLOURS), strict=False)
        if ridges[name]["rows_to_ridge"] is not None
    ]
    coloured.sort(key=lambda it: it[1]["ridge"])
    for place, (name, entry, colour) in enumerate(coloured):
        axes.plot(
            [1, entry["rows_to_ridge"]], [entry["ridge"]] * 2, color=colour, linewidth=1, ls="--"
        )
        axes.plot(entry["rows_to_ridge"], entry["ridge"], "o", color=colour, markersize=5)
        axes.text(
            0.6,
            0.06 + 0.075 * place,
            f"{name}: ridge {entry['ridge']:.0f}, from {entry['rows_to_ridge']} rows",
            color=colour,
            transform=axes.transAxes,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(1, counts[-1])
    axes.set_xticks(counts[::2])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("rows m of x (m, k) @ w (k, n), float16")
    axes.set_title("operations per byte; dashed: ridge points, each up to the rows that reach it")
    axes.grid(color=GRID, linewidth=0.6)
    return figure


def decode_and_batch() -> Figure:
    """Tokens per second against batch: measured in `roofline_decode`, and the roof's."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
    figure.subplots_adjust(left=0.125, right=0.98, top=0.9, bottom=0.26, wspace=0.06)
    decode_ridge_batch = reference("ex_33").decode_ridge_batch
    for axes, cached in zip(panels, (256, 4096), strict=True):
        found = [
            (measured["arguments"]["batch"], measured)
            for measured in rows("roofline_decode").values()
            if measured["arguments"]["new_tokens"] == 1
            and measured["arguments"]["cached_tokens"] == cached
            and measured["host_ns"] is None
        ]
        found.sort(key=lambda pair: pair[0])
        for key, colour, marker in (("predicted_ns", GREY, ""), ("measured_ns", BLUE, "o")):
            axes.plot(
                [batch for batch, _ in found],
                [1e9 * batch / measured[key] for batch, measured in found],
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.6,
            )
        ridge = decode_ridge_batch(model(), cached, "bf16", "H200")["ridge_batch"]
        if ridge is not None:
            axes.axvline(ridge, color=VERMILION, linewidth=1, ls="--")
        words = "never reaches the ridge" if ridge is None else f"ridge at batch {ridge}"
        axes.text(0.03, 0.92, words, color=VERMILION, transform=axes.transAxes)
        axes.set_title(f"{cached} tokens in the cache")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([2**power for power in range(0, 10, 2)])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("batch")
        axes.grid(color=GRID, linewidth=0.6)
    panels[0].set_ylabel("tokens per second")
    legend(figure, {"roof (no faster than this)": GREY, "measured, in a CUDA graph": BLUE}, 2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "predictions": predictions,
    "roofline_measured": roofline_measured,
    "parts_of_the_window": parts_of_the_window,
    "rows_and_ridges": rows_and_ridges,
    "decode_and_batch": decode_and_batch,
}
