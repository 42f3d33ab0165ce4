"""What the lesson on fast attention computes and draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GREEN, GREY, GRID, ORANGE, ROOT, legend, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAY, COUNTERS = "attention_way", "ncu_attention"
SHAPE, CLOCK_MHZ = (4, 32, 8192, 128), 1980.0
STEPS = ("first", "tiles", "pipelined", "exp2", "unmasked", "tma", "small", "capped")
LAUNCHES = ("scale", "scores", "softmax", "product", "flash", "cudnn", *STEPS)
PARTS = {
    "exp": "exponentials",
    "largest": "largest score",
    "sum": "sum of exponentials",
    "rescale": "rescaling",
    "loads": "new keys and values",
}


def least(key: str, head: int = 128) -> float:
    """A floor of `least_times_ns` for an H200 at its highest clock, full; as many rows for heads of 64."""
    shape = (*SHAPE[:3], head)
    return reference("triton_ex07").least_times_ns(shape, False, "H200", CLOCK_MHZ)[key]


@cache
def rates(causal: bool = False) -> dict[str, dict[str, Any]]:
    """The rows of `step_rates` by name."""
    return {row["name"]: row for row in reference("triton_ex07").step_rates(WAY, causal)}


def tflops(name: str, causal: bool = False) -> str:
    """A rate, as text."""
    return f"{rates(causal)[name]['tflops']:,.0f}"


def gain(name: str, causal: bool = False) -> str:
    """What a step gave over the one before, as text."""
    before = STEPS[STEPS.index(name) - 1]
    ratio = rates(causal)[name]["tflops"] / rates(causal)[before]["tflops"]
    return f"{ratio:.2f}×"


@cache
def counters() -> dict[str, dict[str, Any]]:
    """The rows of `programs_that_fit`, by what was launched."""
    rows = reference("triton_ex07").programs_that_fit(COUNTERS)
    return dict(zip(LAUNCHES, rows, strict=True))


def counter(name: str, key: str) -> str:
    """A counter of a launch, as text."""
    value = counters()[name][key]
    if key == "limited_by":
        return " and ".join(value)
    if key == "instructions_count":
        return f"{value / 1e6:,.0f} million"
    return f"{value:.0f} %" if key.endswith("_pct") else str(value)


def registers(name: str, causal: bool = False) -> int:
    """Registers of a thread, as Triton reported them."""
    rows = json.loads(captures.text(WAY, "measurements.json"))["steps"]
    return next(r["registers"] for r in rows if (r["name"], r["causal"]) == (name, causal))


@cache
def exposed(step: str) -> dict[str, Any]:
    """What `exposed_parts` says, its parts by name."""
    found = reference("triton_ex07").exposed_parts(WAY, step)
    return found | {"parts": {row["without"]: row for row in found["parts"]}}


def saving(step: str, part: str) -> str:
    """A saving and its verdict, as text."""
    row = exposed(step)["parts"][part]
    return f"{row['saving_ratio']:+.1%}, {row['verdict']}".replace("%", " %").replace("-", "−")


@cache
def tuned(**wanted: Any) -> float:
    """The best rate of the recorded tuning among rows with these entries, in TFLOP/s."""
    file = ROOT / "benchmarks/results/triton_attention_tuning.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return max(r["tflops"] for r in rows if all(r.get(k) == v for k, v in wanted.items()))


@cache
def benchmarked(case: str, key: str) -> str:
    """A ratio of the last run of benchmarks/triton_attention.py, as text."""
    file = ROOT / "benchmarks/results/triton_attention.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["runs"][-1]["rows"]
    return f"{next(row[key] for row in rows if row['case'] == case):.2f}"


def clock_fall(of: str = "parts") -> float:
    """By how much the clock fell while something was measured, as a share of its highest."""
    rows = json.loads(captures.text(WAY, "measurements.json"))["clocks_mhz"]
    clocks = next(row["sm"] for row in rows if row["of"] == of)
    return 1 - min(clocks) / max(clocks)


def attention_steps() -> Figure:
    """The rates of the steps, and what leaving a part out saves in two of them."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.1), width_ratios=(1.25, 1))
    figure.subplots_adjust(left=0.095, right=0.985, top=0.92, bottom=0.22, wspace=0.42)
    names = [*STEPS, "flash", "cudnn"]
    for shift, causal, colour in ((-0.2, False, BLUE), (0.2, True, ORANGE)):
        left.barh(
            [place + shift for place in range(len(names))],
            [rates(causal)[name]["tflops"] for name in names],
            height=0.38,
            color=colour,
        )
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set(title="Rate", xlabel="TFLOP/s")
    for shift, step, colour in ((-0.2, "tma", GREY), (0.2, "capped", GREEN)):
        right.barh(
            [place + shift for place in range(len(PARTS))],
            [exposed(step)["parts"][part]["saving_ratio"] * 100 for part in PARTS],
            height=0.38,
            color=colour,
        )
    right.set_yticks(range(len(PARTS)), list(PARTS.values()))
    right.invert_yaxis()
    right.set(title="Time saved without a part", xlabel="% of the whole step")
    for axes in (left, right):
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    colours = {"full": BLUE, "causal": ORANGE, "step tma, full": GREY, "step capped, full": GREEN}
    legend(figure, colours, columns=4)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"attention_steps": attention_steps}
