"""What the lesson on attention in one kernel computes and draws."""

from __future__ import annotations

import csv
import json
import sqlite3
import statistics
from collections.abc import Callable
from contextlib import closing
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
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAY, TIMELINE, COUNTERS = "attention_way", "attention_timeline", "ncu_attention"
COLOURS = {
    "materialised": GREY,
    "flash": ORANGE,
    "cudnn": VERMILION,
    "first": BLUE,
    "capped": GREEN,
}
LABELS = {
    "materialised": "materialised",
    "flash": "library: flash",
    "cudnn": "library: cuDNN",
    "first": "Triton: first version",
    "capped": "Triton: last version",
}


@cache
def measured() -> dict[str, Any]:
    """The table of the recording."""
    return json.loads(captures.text(WAY, "measurements.json"))


def row(name: str, causal: bool = False) -> dict[str, Any]:
    """A way at the shape of the steps."""
    return next(r for r in measured()["steps"] if (r["name"], r["causal"]) == (name, causal))


def flops(found: dict[str, Any]) -> float:
    """Operations of both products, half of them with causal."""
    all_of_it = 4 * found["batch"] * found["heads"] * found["tokens"] ** 2 * found["head"]
    return all_of_it / (2 if found["causal"] else 1)


def median_ns(name: str, causal: bool = False) -> float:
    """The median time of a way at the shape of the steps."""
    return statistics.median(row(name, causal)["device_time"])


def tflops(name: str, causal: bool = False) -> str:
    """Its rate, as text."""
    return f"{flops(row(name, causal)) / median_ns(name, causal) / 1e3:,.0f} TFLOP/s"


@cache
def kernels(way: str) -> list[tuple[str, int]]:
    """(name, duration in ns) of each kernel that a way launched on the timeline."""
    file = captures.path(TIMELINE).resolve().as_uri() + "?mode=ro"
    query = (
        "SELECT s.value, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k"
        " JOIN StringIds s ON s.id = k.shortName"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
        " JOIN NVTX_EVENTS n ON r.start BETWEEN n.start AND n.end"
        " LEFT JOIN StringIds t ON t.id = n.textId"
        " WHERE coalesce(n.text, t.value) = ? ORDER BY k.start"
    )
    with closing(sqlite3.connect(file, uri=True)) as connection:
        return connection.execute(query, (way,)).fetchall()


def read_bytes(kernel: int) -> float:
    """What a profiled launch, by its number, read from DRAM."""
    lines = captures.text(COUNTERS, "kernels.csv").splitlines()
    head, units, *rows = csv.reader(line for line in lines if line.startswith('"'))
    at = head.index("dram__bytes_read.sum")
    unit = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}[units[at]]
    return float(rows[kernel][at].replace(",", "")) * unit


def moved(key: str, causal: bool = False) -> int:
    """What `attention_bytes` says of one head of the recorded shape, in blocks of 64 by 64."""
    return reference("triton_ex06").attention_bytes(8192, 8192, 128, 64, 64, causal, 2)[key]


def intensity(key: str) -> float:
    """Operations a byte of one head of the recorded shape."""
    return 4 * 8192**2 * 128 / moved(key)


def ridge() -> float:
    """Operations a byte at which an H200's memory and tensor cores take as long."""
    device = devices.get("H200")
    return device.peak("bfloat16") / device.memory_bandwidth_bytes_per_s


def attention_ways() -> Figure:
    """Rates over lengths: materialised, by libraries, and by our kernels."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.7), sharey=True)
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.3, wspace=0.08)
    for axes, head in zip(panels, (64, 128), strict=True):
        for name, colour in COLOURS.items():
            rows = [r for r in measured()["sweep"] if (r["name"], r["head"]) == (name, head)]
            axes.plot(
                [r["tokens"] for r in rows],
                [flops(r) / statistics.median(r["device_time"]) / 1e3 for r in rows],
                color=colour,
                marker="o",
                markersize=3,
            )
        axes.set_xscale("log", base=2)
        axes.set(title=f"head {head}", xlabel="tokens")
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_ylim(0, 750)
    panels[0].set_ylabel("TFLOP/s", color=INK)
    legend(figure, {LABELS[name]: colour for name, colour in COLOURS.items()}, columns=5)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"attention_ways": attention_ways}
