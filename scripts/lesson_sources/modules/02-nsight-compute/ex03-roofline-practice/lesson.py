"""What the figures and plots of ncu_ex03's lesson are computed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import devices
from profiling_lab.findings import Finding
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GRID,
    INK,
    ORANGE,
    SKY,
    VERMILION,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTURE = "ncu_roofline"
LEVELS = {"dram": ("DRAM", BLUE), "l2": ("L2", SKY), "l1": ("L1", GREEN)}
FLAT = {"float32": ("float32", ORANGE), "float64": ("float64", VERMILION)}


@cache
def _kernels(capture: str) -> dict[str, dict[str, Any]]:
    return {
        kernel["name"].split("(")[0]: kernel for kernel in reference("ex_31").read_metrics(capture)
    }


def kernel(name: str, capture: str = CAPTURE) -> dict[str, Any]:
    """A recorded kernel with its counters in base units."""
    return _kernels(capture)[name]


def work(name: str, key: str, capture: str = CAPTURE) -> float:
    """Counted operations or bytes of a kernel."""
    return reference("ncu_ex03").counted_work(kernel(name, capture))[key]


def analytic(name: str, key: str = "flops", capture: str = CAPTURE) -> float:
    """What the program says that a kernel needs: flops or useful_bytes."""
    return told(capture, "kernels")[name][key]


def roof(name: str, which: str, capture: str = CAPTURE) -> float:
    """A roof of a launch, per second."""
    return reference("ncu_ex03").roofs_of(kernel(name, capture))[which]


def ridge(dtype: str, level: str, name: str = "poly_f32_8") -> float:
    """Where two roofs of a launch meet."""
    module = reference("ncu_ex03")
    return module.ridge_points(module.roofs_of(kernel(name)))[dtype][level]


def sheet_ridge(device: str, dtype: str = "float32") -> float:
    """The ridge of a device by its data sheet."""
    found = devices.get(device)
    return found.peak(dtype) / found.memory_bandwidth_bytes_per_s


def point(name: str, capture: str = CAPTURE) -> dict[str, Any]:
    """under_the_roofs of a kernel."""
    return reference("ncu_ex03").under_the_roofs(kernel(name, capture))


def duration(name: str, capture: str = CAPTURE) -> float:
    """The duration under the profiler, in ns."""
    return kernel(name, capture)["metrics"]["gpu__time_duration.sum"]


def elements() -> int:
    """Elements of the float arrays."""
    return told(CAPTURE, "mib") * 2**20 // 4


def forecast_ns(before: str, terms: int, terms_now: int) -> float:
    """What a polynomial with more terms is predicted to take, from one with fewer."""
    extra = 2.0 * (terms - terms_now) * elements()
    return reference("ncu_ex03").forecast(kernel(before), [extra])["durations_ns"][0]


def free_terms(name: str) -> float:
    """Multiply-adds an element that fit in for nothing."""
    return reference("ncu_ex03").forecast(kernel(name), [])["free_flops"] / 2 / elements()


def verdict(name: str, capture: str = CAPTURE) -> Finding:
    """What the reference says of a kernel."""
    return reference("ncu_ex03").roofline_verdict(kernel(name, capture))


def number(value: float, digits: int = 1) -> str:
    """A number without a unit."""
    return f"{value:,.{digits}f}"


# -- plots --------------------------------------------------------------------------------------------


def _roofs(axes: Axes, name: str, levels: tuple[str, ...], types: tuple[str, ...]) -> None:
    roofs = reference("ncu_ex03").roofs_of(kernel(name))
    top = max(roofs[one] for one in types)
    for level in levels:
        corner = top / roofs[level]
        axes.plot([1e-3, corner], [1e-3 * roofs[level], top], color=LEVELS[level][1], linewidth=1.8)
    for one in types:
        start = roofs[one] / max(roofs[level] for level in levels)
        axes.plot([start, 1e4], [roofs[one]] * 2, color=FLAT[one][1], linewidth=1.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_yticks([1e11, 1e12, 1e13, 6e13], ["0.1", "1", "10", "60"])
    axes.set_xlabel("operations per byte")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.minorticks_off()


def polynomials() -> Figure:
    """Polynomials of both types under DRAM's roof and their own."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.9))
    axes = figure.subplots()
    _roofs(axes, "poly_f32_8", ("dram",), ("float32", "float64"))
    for name in _kernels(CAPTURE):
        if name.startswith("poly"):
            at = point(name)
            x, y = at["intensity"]["dram"], at["flops_per_s"]
            axes.plot([x], [y], "o", color=FLAT[at["dtype"]][1], markersize=6)
            right = at["dtype"] == "float32"
            axes.annotate(
                name.split("_")[-1],
                (x, y),
                (8 if right else -8, -11 if right else 5),
                textcoords="offset points",
                fontsize=8.5,
                ha="left" if right else "right",
            )
    axes.set(xlim=(0.1, 120), ylim=(3e11, 1.1e14), ylabel="TFLOP/s")
    names = {"DRAM's roof": BLUE, "float32: roof and kernels": ORANGE}
    legend(figure, names | {"float64: roof and kernels": VERMILION}, 3)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.97, bottom=0.25)
    return figure


def levels() -> Figure:
    """Three kernels, each at its intensity of DRAM, L2 and L1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.9))
    panels = figure.subplots(1, 3, sharey=True)
    for axes, name in zip(panels, ("resident", "matmul_direct", "stencil_7"), strict=True):
        _roofs(axes, name, tuple(LEVELS), ("float32",))
        at = point(name)
        xs = [at["intensity"][level] for level in LEVELS]
        axes.plot([min(xs), max(xs)], [at["flops_per_s"]] * 2, color=INK, linewidth=0.8)
        for level, x, size in zip(LEVELS, xs, (8, 10.5, 6), strict=True):  # equal ones stay visible
            axes.plot([x], [at["flops_per_s"]], "o", color=LEVELS[level][1], markersize=size)
        axes.set(xlim=(0.05, 800), ylim=(3e11, 1.1e14), title=name)
    panels[0].set_ylabel("TFLOP/s")
    entries = {f"{label}: roof, and the kernel": colour for label, colour in LEVELS.values()}
    legend(figure, entries | {"float32": ORANGE}, 4)
    figure.subplots_adjust(left=0.07, right=0.99, top=0.92, bottom=0.25, wspace=0.08)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "roofline_polynomials": polynomials,
    "roofline_levels": levels,
}
