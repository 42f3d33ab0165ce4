"""What the lesson on the techniques of Lab 05 computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import (
    BLUE,
    GRID,
    INK,
    ORANGE,
    SKY,
    VERMILION,
    compared,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, NARROW = "techniques_wide", "techniques_narrow"
# what a row of a recording is called on paper
PRECISION = {"tf32": "tf32", "bf16 autocast": "bf16"}


def techniques() -> ModuleType:
    """The reference of the techniques."""
    return reference("lab05_techniques")


def number(value: float, digits: int = 1) -> str:
    """A number with so many decimals."""
    return f"{value:,.{digits}f}"


# -- precision ------------------------------------------------------------------------------------


@cache
def document(capture: str) -> dict[str, Any]:
    """The whole file of a recording of techniques."""
    return json.loads(captures.text(capture, "techniques.json"))


@cache
def gains(capture: str) -> dict[str, Any]:
    """What lower precision gained."""
    return techniques().autocast_gain(capture)


def noise(capture: str) -> float:
    """How far the baseline was from itself in the worst round."""
    return gains(capture)["noise_ratio"]


def gain(capture: str, name: str) -> dict[str, Any]:
    """One way of `gains`."""
    return next(way for way in gains(capture)["ways"] if way["name"] == name)


def predicted(capture: str, precision: str, device: str = "H200") -> dict[str, float]:
    """A step of a recording on paper."""
    return techniques().predict_autocast(document(capture)["operations"], device, precision)


def row(capture: str, experiment: str, name: str) -> dict[str, Any]:
    """One row of an experiment."""
    return next(found for found in document(capture)[experiment] if found["name"] == name)


def step_ns(capture: str, experiment: str, name: str) -> float:
    """The median of the samples of a row."""
    return statistics.median(row(capture, experiment, name)["step_time"])


def rounds_slower(capture: str, experiment: str, name: str | None = None) -> str:
    """In how many rounds a row was slower than the baseline, as text; without one, the baseline than
    its repetition.
    """
    base = document(capture)[experiment][0]
    again = row(capture, experiment, f"{base['name']} again")
    slow, fast = (row(capture, experiment, name), base) if name else (base, again)
    pairs = list(zip(slow["step_time"], fast["step_time"], strict=True))
    return f"{sum(a > b for a, b in pairs)} of {len(pairs)}"


def peak_ratio(device: str, dtype: str, base: str = "float32") -> str:
    """By how much a peak is higher than another one, as text; "none" if the device has no such unit."""
    found = devices.get(device)
    names = {devices.dtype(name).name for name in (dtype, base)}
    if not names <= found.peak_flops_per_s.keys():
        return "none"
    return f"{found.peak(dtype) / found.peak(base):.1f}×"


def peak_ratio_rows() -> str:
    """Rows of a table: what the narrow types are worth on the devices that lessons compare."""
    rows = []
    for name in compared():
        ratios = (("float16",), ("tf32",), ("float16", "tf32"))
        rows.append(f"| {name} | " + " | ".join(peak_ratio(name, *pair) for pair in ratios) + " |")
    return "\n".join(rows)


# -- checkpoints ----------------------------------------------------------------------------------


def paper(capture: str, segments: int) -> dict[str, float]:
    """The prediction for the model of a recording."""
    model = document(capture)["checkpoint_model"]
    return techniques().predict_checkpointing(
        model["layers"],
        segments,
        model["layer_input_bytes"],
        model["layer_inner_bytes"],
        model["layer_forward_flops"],
    )


def segments(capture: str, count: int) -> dict[str, Any]:
    """The row of so many segments."""
    return row(capture, "checkpoint", f"{count} segment" + ("s" if count > 1 else ""))


def slowdown(capture: str, count: int | str) -> float:
    """The median over the rounds of a row's sample by the baseline's."""
    base = segments(capture, 1)
    found = (
        row(capture, "checkpoint", count) if isinstance(count, str) else segments(capture, count)
    )
    pairs = zip(found["step_time"], base["step_time"], strict=True)
    return statistics.median(after / before for after, before in pairs)


def counts(capture: str) -> list[int]:
    """The numbers of segments of a recording."""
    return sorted({found["segment_count"] for found in document(capture)["checkpoint"]})


def least_kept(capture: str) -> int:
    """The number of segments of the recording that keeps least."""
    return min(counts(capture), key=lambda count: segments(capture, count)["kept_bytes"])


# -- layouts --------------------------------------------------------------------------------------


def layout_ns(name: str, capture: str = WIDE) -> float:
    """The median time of `.contiguous()` on a tensor."""
    return statistics.median(row(capture, "layouts", name)["device_time"])


def copy_rate(name: str, capture: str = WIDE) -> str:
    """Bytes read and written by a copy, a second, as text."""
    found = row(capture, "layouts", name)
    report = techniques().layout_report(found["shape"], found["strides"], found["element_bytes"])
    last = found["memory_format"] == "channels_last"
    moved = 2 * report["channels_last_copy_bytes" if last else "copy_bytes"]
    return f"{moved / layout_ns(name, capture):,.0f} GB/s"


# -- figures --------------------------------------------------------------------------------------


def _bare(axes: Any) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def precision_predicted() -> Figure:
    """Speedup over float32 on paper and in the recording, for both models."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.3))
    for axes, capture, title in (
        (panels[0], WIDE, "large matrix products"),
        (panels[1], NARROW, "small matrix products"),
    ):
        floor = noise(capture)
        axes.axhspan(1 - floor, 1 + floor, color=GRID, zorder=0)
        names = [*PRECISION]
        for place, name in enumerate(names):
            on_paper = predicted(capture, PRECISION[name])["speedup_ratio"]
            measured = gain(capture, name)["speedup_ratio"]
            for shift, value, colour in ((-0.19, on_paper, SKY), (0.19, measured, BLUE)):
                axes.bar(place + shift, value, 0.34, color=colour)
                axes.annotate(
                    f"{value:.1f}×", (place + shift, value), (0, 2), textcoords="offset points",
                    ha="center", va="bottom", fontsize=8.5,
                )  # fmt: skip
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(names)), names)
        axes.set_title(title)
        axes.set_ylabel("times as fast as fp32")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.08)
        _bare(axes)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in (SKY, BLUE, GRID)]
    figure.legend(
        handles, ["predicted", "measured", "fp32 against itself: the noise"],
        loc="lower center", ncols=3, frameon=False, fontsize=9,
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    return figure


def checkpoint_memory() -> Figure:
    """Bytes kept and time by number of segments, on paper and in the recording."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    found = counts(WIDE)
    places = range(len(found))
    left.plot(
        places, [paper(WIDE, n)["kept_bytes"] / 1e6 for n in found],
        color=SKY, linewidth=6, solid_capstyle="round", label="kept after forward, predicted",
    )  # fmt: skip
    for key, colour, name in (
        ("kept_bytes", BLUE, "kept after forward, measured"),
        ("peak_bytes", VERMILION, "most at any time, measured"),
    ):
        values = [segments(WIDE, n)[key] / 1e6 for n in found]
        left.plot(places, values, color=colour, marker="o", markersize=4, label=name)
    left.set_ylabel("MB beyond the weights")
    left.set_ylim(0)
    left.legend(frameon=False, fontsize=8.5)
    right.plot(
        places, [paper(WIDE, n)["flops_ratio"] for n in found],
        color=SKY, linewidth=6, solid_capstyle="round", label="operations, predicted",
    )  # fmt: skip
    for capture, colour, name in ((WIDE, BLUE, "time, wide"), (NARROW, ORANGE, "time, narrow")):
        right.plot(
            places, [slowdown(capture, n) for n in found],
            color=colour, marker="o", markersize=4, label=name,
        )  # fmt: skip
    right.set_ylabel("times the step of one segment")
    right.set_ylim(0)
    right.legend(frameon=False, fontsize=8.5)
    for axes in (left, right):
        axes.set_xticks(places, found)
        axes.set_xlabel("segments of 24 layers")
        _bare(axes)
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "precision_predicted": precision_predicted,
    "checkpoint_memory": checkpoint_memory,
}
