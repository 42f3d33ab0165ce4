"""What the lesson on the bonus challenges of Lab 05 computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.mine.functions import load_once
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    ROOT,
    VERMILION,
    compared,
    legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "labs/lab05_profiling/bonus"
CAPTURE_OF = {"prefill": "layer_prefill", "wide": "layer_few", "narrow": "layer_few"}
SIZES = ("batch", "tokens", "hidden", "heads", "ffn")


# -- what the lesson's text uses as well ------------------------------------------------------------


@cache
def challenge(name: str) -> ModuleType:
    """The reference of one challenge, by its file's name."""
    return load_once(ROOT / "solutions" / FOLDER / f"{name}.py", f"reference_bonus_{name}")


@cache
def case(name: str) -> dict[str, Any]:
    """A recorded layer: "prefill bfloat16", "wide float32", …"""
    capture = CAPTURE_OF[name.partition(" ")[0]]
    return challenge("transformer_layer").read_case(capture, name)


def costs(name: str) -> dict[str, dict[str, int]]:
    """What the parts of a recorded layer cost."""
    found = case(name)
    sizes = {key: found[key] for key in SIZES}
    return challenge("transformer_layer").layer_cost(**sizes, dtype=found["dtype"])


def parts(name: str, what: str = "inside") -> dict[str, float]:
    """Median times of the parts of a recorded layer, in ns."""
    return {part["name"]: statistics.median(part[what]) for part in case(name)["parts"]}


def whole(name: str, what: str) -> float:
    """Median time of a recorded layer, in ns."""
    return statistics.median(case(name)["whole"][what])


def finding(name: str) -> Any:
    """What holds up a recorded layer."""
    capture = CAPTURE_OF[name.partition(" ")[0]]
    return challenge("transformer_layer").layer_bottleneck(capture, name)


def held(name: str, part: str) -> dict[str, Any]:
    """A part's floor against its recorded time."""
    found = case(name)
    rows = challenge("other_hardware").held_against(
        costs(name), parts(name), found["dtype"], found["device"]
    )
    return next(row for row in rows if row["part"] == part)


def elsewhere(name: str, device: str) -> dict[str, Any]:
    """The prediction for a recorded layer on a device; "changed" against the H200."""
    names = [case(name)["device"], device]
    return challenge("other_hardware").predict_on(costs(name), case(name)["dtype"], names)[1]


def others() -> list[str]:
    """The devices to compare a recorded layer on: all that lessons compare but the H200, newest first."""
    return [device for device in reversed(compared()) if device != "H200"]


def floor_rows(name: str) -> str:
    """Rows of a table: what a recorded layer would compute in on each device, and how long at least."""
    found = [(device, elsewhere(name, device)) for device in ("H200", *others())]
    return "\n".join(
        f"| {device} | {it['dtype']} | {it['floor_ns'] / 1e6:,.2f} ms |" for device, it in found
    )


def speedup(name: str, device: str) -> dict[str, Any]:
    """How much faster a recorded layer would be on a device."""
    found = case(name)
    return challenge("other_hardware").speedup_interval(
        costs(name), parts(name), found["dtype"], found["device"], device
    )


def variant(dtype: str, size: str, name: str) -> dict[str, Any]:
    """A variant of the two frameworks, with medians: dtype "bf16" or "fp32"."""
    row = challenge("torch_and_jax").read_size(f"frameworks_{dtype}", size)[name]
    return row | {key: statistics.median(row[key]) for key in ("done", "issued")}


def version(framework: str) -> str:
    """The version of a framework in the recordings, without what a build adds to it."""
    table = json.loads(captures.text("frameworks_bf16", "frameworks.json"))
    return table[framework].partition("+")[0]


def verdict(dtype: str, size: str, first: str, second: str) -> dict[str, Any]:
    """Whether two variants differ."""
    return challenge("torch_and_jax").framework_verdict(f"frameworks_{dtype}", size, first, second)


@cache
def alive_bytes(length: int, how: str) -> int:
    """Bytes alive at once in attention of one head of 64, float32: "blocks" or "at once"."""
    import torch

    watcher = load_once(
        ROOT / "tests" / "labs" / "lab05_profiling" / "bonus" / "probes" / "allocations.py",
        "lesson_allocations",
    )
    # On the device "meta" tensors have sizes and no content, so nothing is computed.
    inputs = [torch.zeros(length, 64, device="meta") for _ in range(3)]
    watch = watcher.Watch(inputs)
    with torch.no_grad(), watch:
        if how == "blocks":
            challenge("memory_efficient_attention").blockwise_attention(*inputs, block_size=128)
        else:
            query, key, value = inputs
            torch.softmax(query @ key.T / 8, dim=-1) @ value
    return watch.peak_bytes


def interval(found: dict[str, Any], digits: int = 2) -> str:
    """A speed-up as text: "0.33 to 0.37"."""
    ends = found["low_speedup_ratio"], found["high_speedup_ratio"]
    return " to ".join(f"{end:.{digits}f}" for end in ends)


# -- the plots --------------------------------------------------------------------------------------

SHOWN = ("prefill bfloat16", "wide bfloat16", "narrow bfloat16")


def layer_parts() -> Figure:
    """Floor and excess of each part of three recorded layers, and what a graph saves."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(8, 4.0), sharey=True)
    figure.subplots_adjust(left=0.115, right=0.985, top=0.86, bottom=0.22, wspace=0.1)
    for axes, name in zip(panels, SHOWN, strict=True):
        found, took = case(name), parts(name)
        rows = [*took, "launching"]
        for place, part in enumerate(rows):
            y = len(rows) - place
            if part == "launching":
                width = finding(name).evidence["launch_ns"] / 1e3
                axes.barh(y, width, height=0.66, color=VERMILION, linewidth=0)
                continue
            floor = min(held(name, part)["floor_ns"], took[part]) / 1e3
            axes.barh(y, floor, height=0.66, color=GREEN, linewidth=0)
            axes.barh(
                y, took[part] / 1e3 - floor, left=floor, height=0.66, color=ORANGE, linewidth=0
            )
        axes.set_yticks(range(len(rows), 0, -1), rows)
        axes.set_title(f"{name}\n{found['batch'] * found['tokens']:,} rows of {found['hidden']:,}")
        axes.set_xlabel("µs")
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "least time (roofline)": GREEN,
            "above it": ORANGE,
            "saved by issuing all at once": VERMILION,
        },
        3,
    )
    return figure


COMPARED = (
    ("bf16", "torch eager", "torch eager again"),
    ("bf16", "torch eager", "torch compiled"),
    ("bf16", "torch eager", "jax jit"),
    ("bf16", "torch eager", "jax jit, tanh gelu"),
    ("fp32", "torch eager", "torch eager again"),
    ("fp32", "torch eager", "jax jit, highest"),
    ("fp32", "torch eager, tf32", "jax jit"),
)


def frameworks() -> Figure:
    """Ratios of recorded variants with their intervals, and the noise beside them."""
    import matplotlib.pyplot as plt

    colours = {"first": BLUE, "second": ORANGE, "no difference": GREY}
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.5), sharey=True)
    figure.subplots_adjust(left=0.355, right=0.985, top=0.91, bottom=0.28, wspace=0.08)
    for axes, size in zip(panels, ("large", "small"), strict=True):
        for place, (dtype, first, second) in enumerate(COMPARED):
            y = len(COMPARED) - place
            found = verdict(dtype, size, first, second)
            noise = found["noise_ratio"]
            axes.barh(y, 2 * noise, left=1 - noise, height=0.8, color=GRID, linewidth=0)
            colour = colours[found["verdict"]]
            axes.plot([found["low_ratio"], found["high_ratio"]], [y, y], color=INK, linewidth=1.2)
            axes.plot(
                found["speedup_ratio"], y, "o", color=colour, markersize=6, markeredgecolor=INK
            )
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_title(size)
        axes.set_xlabel("time of the first over the second")
        axes.grid(axis="x", color=GRID, linewidth=0.5)
        axes.set_axisbelow(True)
    panels[0].set_yticks(
        range(len(COMPARED), 0, -1), [f"{d}: {one} / {other}" for d, one, other in COMPARED]
    )
    legend(
        figure,
        {
            "first is faster": BLUE,
            "second is faster": ORANGE,
            "no difference": GREY,
            "as far apart as the same twice": GRID,
        },
        4,
    )
    return figure


def other_devices() -> Figure:
    """Speed-up intervals of recorded layers on other devices, and the ratio of the roofs."""
    import matplotlib.pyplot as plt

    shown = others()
    figure, panels = plt.subplots(1, 3, figsize=(8, 3.1), sharey=True)
    figure.subplots_adjust(left=0.11, right=0.985, top=0.9, bottom=0.31, wspace=0.1)
    lowest, highest = 0.05, 1.4
    for axes, name in zip(panels, SHOWN, strict=True):
        own = challenge("other_hardware").predict_on(
            costs(name), case(name)["dtype"], [case(name)["device"]]
        )
        for place, device in enumerate(shown):
            y = len(shown) - place
            found = speedup(name, device)
            low, high = found["low_speedup_ratio"], found["high_speedup_ratio"]
            axes.plot([low, high], [y, y], color=BLUE, linewidth=5, solid_capstyle="butt")
            axes.plot([(low * high) ** 0.5], [y], "|", color=BLUE, markersize=12)
            roofs = own[0]["floor_ns"] / elsewhere(name, device)["floor_ns"]
            axes.plot(roofs, y, "x", color=INK)
            lowest, highest = (
                min(lowest, 0.8 * min(low, roofs)),
                max(highest, 1.2 * max(high, roofs)),
            )
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1], ["0.05", "0.1", "0.2", "0.5", "1"])
        axes.minorticks_off()
        axes.set_ylim(0.4, len(shown) + 0.6)
        axes.set_title(name)
        axes.set_xlabel("speed against the H200")
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    for axes in panels:
        axes.set_xlim(lowest, highest)
    panels[0].set_yticks(range(len(shown), 0, -1), shown)
    legend(figure, {"between these, by what is known": BLUE, "× the roofs alone": INK}, 2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "layer_parts": layer_parts,
    "frameworks": frameworks,
    "other_devices": other_devices,
}
