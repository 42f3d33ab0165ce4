"""What the lesson on JAX of Lab 05 computes and draws."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GREY, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def jax_document(capture: str) -> dict[str, Any]:
    """What a program of JAX timed of itself."""
    return json.loads(captures.text(capture, "jax_timing.json"))


def jax_ns(capture: str, name: str) -> float:
    """The median of the samples of this name."""
    return statistics.median(jax_document(capture)["times"][name])


def padding_ns() -> float:
    """What a call of half the rows takes longer if it is padded to all rows."""
    return jax_ns("jax_jit", "waited_for_each") - jax_ns("jax_jit", "new_shape_again")


def calls_until_compiled_pays() -> int:
    """Calls of half the rows after which compiling for them costs less than padding them."""
    return math.ceil(jax_ns("jax_jit", "new_shape_first") / padding_ns())


def compiler_bytes(name: str, capture: str = "jax_jit") -> int:
    """What the compiler stated of memory."""
    return jax_document(capture)["compiler_memory"][f"{name}_bytes"]


@cache
def trace(capture: str) -> dict[str, Any]:
    """The summary of a trace."""
    return reference("lab05_jax").trace_summary(capture)


def per_step(capture: str, key: str) -> float:
    """A number of the summary by the number of steps."""
    return trace(capture)[key] / trace(capture)["step_count"]


def products_ns(capture: str) -> float:
    """The time of the kernels of matrix products in a step."""
    found = trace(capture)
    products = [kernel for kernel in found["kernels"] if kernel["name"].startswith("gemm")]
    return sum(kernel["total_ns"] for kernel in products) / found["step_count"]


def jax_one_step() -> Figure:
    """The device's work in a step of each trace, drawn to scale."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(8.4, 2.9))
    for axes, capture, title in zip(
        panels, ("jax_eager", "jax_jit"), ("operation by operation", "compiled"), strict=True
    ):
        events = json.loads(captures.text(capture, "jax_trace.json"))["traceEvents"]
        streams = {
            (event["pid"], event["tid"])
            for event in events
            if event.get("name") == "thread_name" and event["args"]["name"].startswith("Stream")
        }
        step = [event for event in events if "step_num" in event.get("args", {})][1]
        begin, spent = step["ts"], step["dur"]
        work = [
            ((event["ts"] - begin) / 1e3, event["dur"] / 1e3)
            for event in events
            if event.get("ph") == "X"
            and (event["pid"], event["tid"]) in streams
            and begin <= event["ts"] < begin + spent
        ]
        axes.broken_barh([(0, spent / 1e3)], (0, 1), color=GREY, alpha=0.35)
        axes.broken_barh(work, (0, 1), color=BLUE)
        axes.set_yticks([])
        axes.set_xlim(0, spent / 1e3)
        axes.set_title(f"{title}: {len(work)} kernels and copies")
        axes.set_xlabel("ms from the start of the step")
        axes.spines["bottom"].set_visible(True)
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"jax_one_step": jax_one_step}
