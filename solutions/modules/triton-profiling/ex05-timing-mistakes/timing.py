"""Triton: timing, and how it goes wrong. Take samples that mean something, and judge those of others.

You write the loop that times a kernel, and find where warm-up ends. You compute how many repeats a claim
needs, and which errors no number of repeats removes. You recognize three mistakes from samples only, and
read the output of Triton's own tools. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check triton_ex05

checks your solution. **Samples** are the times of single calls, in ns, in the order in which they were
taken.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError

if TYPE_CHECKING:
    from triton.testing import Benchmark

# Half the width of a 95 % interval of a mean, in standard errors (normal distribution).
Z_95 = 1.96

# Samples below this share of the device's time were taken before the device had done the work.
SHORTEST_RATIO = 0.5

# Number of samples at the start that are examined, and how many times the rest one of them must be.
FIRST_COUNT = 3
START_RATIO = 2.0

# A mean whose 95 % interval reaches further than this share to either side rests on too few samples.
WIDE_RATIO = 0.01


class CudaDevice:
    """The current CUDA device, as `time_kernel` uses a device."""

    def event(self) -> Any:
        """A mark in the device's work, with `.record()` and `.elapsed_time(later)` (in ms)."""
        import torch

        return torch.cuda.Event(enable_timing=True)

    def synchronize(self) -> None:
        """The host waits until the device has finished all its work."""
        import torch

        torch.cuda.synchronize()


def time_kernel(
    call: Callable[[], object],
    device: Any,
    warmup: int = 10,
    repeats: int = 30,
    flush: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """How long the device takes for one call: samples from events, their median and their spread.

    call: starts the work and returns at once.
    device: like `CudaDevice`. `device.event()` makes an event. `one.elapsed_time(other)` is the time from one to
        the other in **ms**; it raises an error unless the host has waited for both.
    flush: starts work that empties the cache and keeps the device busy while the host issues the next calls.

    First make the call `warmup` times (the first one compiles it), and let the host wait for the device. Then,
    `repeats` times: flush, if it is given; an event; one call; an event. When all of these are issued, the host
    waits once more; it does not wait in between. Otherwise the device would run out of work, and the events
    would time the launch as well. Read the times only after this wait.

    Returns {"median_ns": float, "iqr_ns": float, "samples_ns": list of floats in the order taken}.
    iqr_ns is the distance between the quartiles, `statistics.quantiles(…, n=4, method="inclusive")`.

    Raises TypeError if call or flush cannot be called, and ValueError for a warmup below 1 or repeats
    below 2. The message names the argument.
    """
    for name, given in (("call", call), ("flush", flush)):
        if not callable(given) and (name == "call" or given is not None):
            raise TypeError(f"{name} is {type(given).__name__}: something to call is needed")
    if warmup < 1 or repeats < 2:
        raise ValueError(f"warmup {warmup}, repeats {repeats}: at least 1 and 2 are needed")
    for _ in range(warmup):
        call()
    device.synchronize()
    pairs = [(device.event(), device.event()) for _ in range(repeats)]
    for start, end in pairs:
        if flush is not None:
            flush()
        start.record()
        call()
        end.record()
    device.synchronize()
    samples = [start.elapsed_time(end) * 1e6 for start, end in pairs]
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median_ns": median, "iqr_ns": high - low, "samples_ns": samples}


def _check(samples_ns: Sequence[float], least: int) -> None:
    """Samples must be enough, and times."""
    if len(samples_ns) < least or not all(sample > 0 for sample in samples_ns):
        raise ValueError(f"{len(samples_ns)} samples: at least {least} are needed, all above 0")


def steady_from(samples_ns: Sequence[float], window: int = 5, tolerance: float = 0.05) -> int:
    """Where warm-up ends: the position (from 0) of the first sample of the steady state.

    The level is the median of the second half of the samples (from position len // 2 on). The steady state begins
    at the first position from which `window` consecutive samples are all near the level: each differs from it by
    at most `tolerance` times the level. Later samples are not examined, because a later disturbance is not
    warm-up.

    Raises ValueError for fewer than 2 * window samples, a sample that is not above 0, a window below 1
    or a tolerance that is not above 0. Also raises it if there is no such position up to len // 2: the samples
    still drift, and more are needed.
    """
    if window < 1 or not tolerance > 0:
        raise ValueError(f"window {window}, tolerance {tolerance}: both must be above 0")
    _check(samples_ns, 2 * window)
    half = len(samples_ns) // 2
    level = statistics.median(samples_ns[half:])
    near = [abs(sample - level) <= tolerance * level for sample in samples_ns]
    for place in range(half + 1):
        if all(near[place : place + window]):
            return place
    raise ValueError("no steady state in the first half of the samples: take more of them")


def repeats_needed(samples_ns: Sequence[float], half_width_ratio: float) -> int:
    """How many samples the mean needs so that its 95 % interval is narrow enough.

    samples_ns: a first set, from the steady state.
    half_width_ratio: how far the interval may reach to either side, as a share of the mean (0.01 for ±1 %).
    By the normal approximation the interval reaches Z_95 * s / sqrt(count) to either side, where s is the sample
    standard deviation (`statistics.stdev`).

    Returns the smallest count, at least 2, for which this half width is at most half_width_ratio times the mean.

    Raises ValueError for fewer than 2 samples, or if a sample or the ratio is not above 0.
    """
    _check(samples_ns, 2)
    if not half_width_ratio > 0:
        raise ValueError(f"half_width_ratio is {half_width_ratio}: it must be above 0")
    wished = half_width_ratio * statistics.fmean(samples_ns)
    return max(2, math.ceil((Z_95 * statistics.stdev(samples_ns) / wished) ** 2))


def error_after(
    samples_ns: Sequence[float], reference_ns: float, repeats: int
) -> dict[str, float | str]:
    """The error of the mean of `repeats` such samples: the part that repeats reduce, and the part that remains.

    samples_ns: a first set, measured in the same way as the `repeats` samples would be.
    reference_ns: the true time, measured by a method that is trusted. Returns

        "half_width_ns": how far the 95 % interval of the mean of `repeats` samples reaches to either
                         side: Z_95 * s / sqrt(repeats), where s is the sample standard deviation.
        "bias_ns":       the mean of the samples minus the reference, with its sign.
        "limit":         "bias" if the absolute value of bias_ns is larger than half_width_ns, else "spread".

    Raises ValueError for fewer than 2 samples, a sample or reference that is not above 0, or repeats
    below 1.
    """
    _check(samples_ns, 2)
    if repeats < 1 or not reference_ns > 0:
        raise ValueError(f"repeats {repeats}, reference {reference_ns} ns: both must be above 0")
    half_width = Z_95 * statistics.stdev(samples_ns) / math.sqrt(repeats)
    bias = statistics.fmean(samples_ns) - reference_ns
    return {
        "half_width_ns": half_width,
        "bias_ns": bias,
        "limit": "bias" if abs(bias) > half_width else "spread",
    }


def timing_mistakes(samples_ns: Sequence[float], device_ns: float) -> list[str]:
    """Which mistakes somebody's samples of a call show, in this order:

        "not_synchronised": their median is less than SHORTEST_RATIO times device_ns: the clock was
                            read before the work was done.
        "no_warm_up":       the largest of the first FIRST_COUNT samples is more than START_RATIO times
                            the median of the others.
        "too_few":          the 95 % interval of the mean of the others reaches further to either side than
                            WIDE_RATIO times that mean. It reaches Z_95 * s / sqrt(their count), where s is the
                            sample standard deviation.

    device_ns: how long the device takes for the call, measured by a method that is trusted. An empty list does
    not prove that samples are good: a bias within a factor of two is not found.

    Raises ValueError for fewer than FIRST_COUNT + 2 samples, or a time that is not above 0.
    """
    _check(samples_ns, FIRST_COUNT + 2)
    if not device_ns > 0:
        raise ValueError(f"device_ns is {device_ns}: it must be above 0")
    first, others = samples_ns[:FIRST_COUNT], samples_ns[FIRST_COUNT:]
    half_width = Z_95 * statistics.stdev(others) / math.sqrt(len(others))
    found = {
        "not_synchronised": statistics.median(samples_ns) < SHORTEST_RATIO * device_ns,
        "no_warm_up": max(first) > START_RATIO * statistics.median(others),
        "too_few": half_width > WIDE_RATIO * statistics.fmean(others),
    }
    return [name for name, is_so in found.items() if is_so]


def do_bench_plan(estimate_ms: float, warmup: float = 25, rep: float = 100) -> dict[str, int]:
    """How often `triton.testing.do_bench(fn, warmup, rep)` calls fn.

    estimate_ms: do_bench's own estimate of the time of one call.
    warmup, rep: **milliseconds**, not numbers of calls.

    do_bench makes these calls of fn, in this order:
    1. one call;
    2. five calls for the estimate; the cache is cleared before each of them;
    3. as many calls as fit into warmup; the cache is not cleared;
    4. as many calls as fit into rep; the cache is cleared before each, and events time each of them.
    The number that fits is rounded down, and is at least one. (Source: triton 3.6 to 3.9,
    python/triton/testing.py, `do_bench`.)

    Returns {"warmup_count": calls of the warm-up, "timed_count": samples taken, "calls_count": all
    calls of fn, "cold_count": calls before which the cache was cleared}.

    Raises ValueError for an estimate that is not above 0, or a warmup or rep below 0.
    """
    if not estimate_ms > 0 or warmup < 0 or rep < 0:
        raise ValueError(f"estimate {estimate_ms} ms, warmup {warmup} ms, rep {rep} ms")
    warm, timed = max(1, int(warmup / estimate_ms)), max(1, int(rep / estimate_ms))
    return {
        "warmup_count": warm,
        "timed_count": timed,
        "calls_count": 1 + 5 + warm + timed,
        "cold_count": 5 + timed,
    }


def size_benchmark(exponents: Iterable[int], providers: dict[str, str]) -> Benchmark:
    """A `triton.testing.Benchmark` of a vector add over sizes, for `triton.testing.perf_report`.

    exponents: the sizes are 2**e elements, in this order.
    providers: the implementations to compare. Keys are the values that the timed function gets, values are the
        names in the plot.

    perf_report calls the timed function as `fn(n=…, provider=…)`. The x-axis is "n", logarithmic, and each
    "provider" is a line. The label of the y-axis is "GB/s", the plot is called "vector-add", and there are no
    further arguments.

    Raises ValueError if there are no exponents or no providers.
    """
    from triton.testing import Benchmark

    sizes = [2**exponent for exponent in exponents]
    if not sizes or not providers:
        raise ValueError("a benchmark needs sizes and providers")
    return Benchmark(
        x_names=["n"],
        x_vals=sizes,
        x_log=True,
        line_arg="provider",
        line_vals=list(providers),
        line_names=list(providers.values()),
        ylabel="GB/s",
        plot_name="vector-add",
        args={},
    )


def proton_rates(capture: str | Path) -> list[dict[str, Any]]:
    """The rates that each scope of a proton profile reached.

    capture: a capture with `proton.json`, the tree that proton writes for hatchet. It is a list whose first
    entry is the root. A node is {"frame": {"name": …, …}, "metrics": {…}, "children": [nodes]}. The profiled
    program reported the bytes and operations of a scope. They are metrics of the scope's own node: "bytes", and
    "flops16", "flops32" or others whose name begins with "flops". proton measured the kernels below the scope
    ("time (ns)" and "count" in their nodes).

    Returns a dict for each node whose own "bytes" is above 0, in the order of the file from the top, a
    node before those below it:

        "scope":       its name.
        "count":       launches of kernels: sum of "count" of the node and all nodes below it.
        "time_ns":     sum of "time (ns)" of the node and all nodes below it.
        "gb_s":        its bytes / time_ns, in GB/s.
        "gflop_s":     all its operations / time_ns, in GFLOP/s.

    A metric that a node does not have counts as 0. Scopes in which no time was spent are left out.

    Raises CaptureError if the file is not such a tree.
    """
    try:
        root = json.loads(captures.text(capture, "proton.json"))[0]
        return _rates(root)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CaptureError(f"{capture}: proton.json is no tree of proton: {error!r}") from None


def _rates(node: dict[str, Any]) -> list[dict[str, Any]]:
    metrics = node["metrics"]
    time_ns = _total(node, "time (ns)")
    out = []
    if metrics.get("bytes", 0) and time_ns:
        flops = sum(value for name, value in metrics.items() if name.startswith("flops"))
        out.append(
            {
                "scope": node["frame"]["name"],
                "count": _total(node, "count"),
                "time_ns": time_ns,
                "gb_s": metrics["bytes"] / time_ns,
                "gflop_s": flops / time_ns,
            }
        )
    for child in node["children"]:
        out += _rates(child)
    return out


def _total(node: dict[str, Any], metric: str) -> float:
    return node["metrics"].get(metric, 0) + sum(_total(c, metric) for c in node["children"])
