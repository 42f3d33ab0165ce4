"""Lab 05: measure, find the bottleneck of attention, and remove it.

You time functions so that the number means something, take attention apart, say with evidence what
limits its slowest part, compute it in five ways, and measure what it holds in memory. The lesson is
`README.md` in the folder above, hints are in `hints.md` beside it, and

    uv run lab check lab05

tells what is right and wrong. Times are in seconds (`_s`), as in the source of this lab.

Import torch inside the functions that need it: the others then work without it.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import statistics
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from profiling_lab import devices

if TYPE_CHECKING:
    from torch import Tensor

Profile = dict[str, Any]

# The parts of an attention layer, in the order in which they run.
COMPONENTS = (
    "qkv_projection",
    "score_computation",
    "softmax",
    "weighted_sum",
    "output_projection",
)

# Those between which the score of every pair of tokens goes through memory, unless they are fused.
FUSIBLE = ("score_computation", "softmax", "weighted_sum")

# From this share of a roof on there is little left to win. On an H200 the largest matrix products
# reach it, and not much more (capture roofline_ops, and the projections of this lab's captures).
CEILING_RATIO = 0.65

# What to do, by what was found: the moves that suit it.
ADVICE = {
    "compute": (
        "use a data type with a higher peak",
        "tune the product: its tiles, its layout, the shapes that it gets",
    ),
    "memory": ("move fewer bytes: use a smaller data type", "fuse it with its neighbours"),
    "scores": ("use fused attention: the scores then never go through memory",),
    "launch": (
        "issue fewer and larger calls: fuse or batch more",
        "replay the calls as a CUDA graph",
    ),
    "ceiling": ("none",),
}


def benchmark_function(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int, iterations: int
) -> float:
    """Seconds per call of fn(*args): the mean over calls issued one after another.

    This is *throughput time*: nothing waits between two calls, so launching one may hide behind the work
    of the one before. The *latency* of one call, from issuing it to its result, is another quantity and
    never smaller by more than noise (see `benchmark_distribution`).

    Calls fn `warmup` times (the first call may compile and allocate), waits, reads
    `time.perf_counter()`, calls fn `iterations` times, waits, and reads the clock again; no other calls.
    To wait means to wait for all work that was issued:
        PyTorch on CUDA: `torch.cuda.synchronize` of each device on which a tensor of the arguments
            or of the last result lies, and of the current device if this process has used CUDA at all
            (`torch.cuda.is_initialized()`);
        JAX: `block_until_ready()` of every array of the last result (anything that has this method);
        CPU tensors, NumPy and plain Python: nothing to wait for.
    Tensors and arrays may lie anywhere in nested lists, tuples and dicts.

    Raises TypeError if fn cannot be called, if args is no tuple or list (one tensor is no list of
    arguments), if fn does not take so many arguments, and if fn returns an iterator or an awaitable:
    a lazy result has not been computed yet. Raises ValueError, naming the argument, unless warmup and
    iterations are ints of at least 1 (neither 2.0 nor True is one). All but lazy results is refused
    before fn is called.
    """
    _check_call(fn, args)
    _check_counts(warmup=warmup, iterations=iterations)
    _warm_up(fn, args, warmup)
    return _time_calls(fn, args, iterations)


def benchmark_distribution(
    fn: Callable[..., Any],
    args: Sequence[Any],
    warmup: int,
    samples: int,
    calls_per_sample: int = 1,
) -> dict[str, Any]:
    """Repeated measurements of fn(*args), and how they spread.

    After `warmup` calls takes `samples` samples. Each sample waits for everything issued before, reads
    the clock, calls fn `calls_per_sample` times, waits, and reads the clock: seconds per call. With one
    call a sample this is the latency of a call; with many it is the throughput time of
    `benchmark_function`, whose ways to wait and clock are used here, too.

    Returns {"samples_s": a list in the order taken, "median_s", "q25_s", "q75_s", "iqr_s"}: quartiles
    with linear interpolation between the nearest samples (NumPy's default), iqr_s their difference.

    Raises as `benchmark_function`; each of the three counts is at least 1.
    """
    _check_call(fn, args)
    _check_counts(warmup=warmup, samples=samples, calls_per_sample=calls_per_sample)
    _warm_up(fn, args, warmup)
    times = [_time_calls(fn, args, calls_per_sample) for _ in range(samples)]
    low, middle, high = (float(value) for value in np.percentile(times, (25, 50, 75)))
    return {
        "samples_s": times,
        "median_s": middle,
        "q25_s": low,
        "q75_s": high,
        "iqr_s": high - low,
    }


def cold_and_warm(
    fn: Callable[..., Any], args: Sequence[Any], flush: Callable[[], Any], samples: int
) -> dict[str, float]:
    """Three times of one call that are easily mixed up: the first, with cold caches, with warm caches.

    fn has not been called before. flush() issues work that pushes everything out of the caches.
    Each call is measured alone: wait, clock, one call, wait, clock (see `benchmark_distribution`).

    Returns {"first_s": the first call of all, with compilation and whatever else happens once,
    "cold_s": median of `samples` calls, each after a flush of its own that is over when the clock
    starts, "warm_s": median of `samples` calls, each right after another call of fn, "one_time_s":
    first_s - warm_s}.

    Raises as `benchmark_function`, and TypeError if flush cannot be called, before it calls anything.
    """
    _check_call(fn, args)
    _check_call(flush, ())
    _check_counts(samples=samples)
    first = _time_calls(fn, args, 1)
    warm = [_time_calls(fn, args, 1) for _ in range(samples)]
    cold = []
    for _ in range(samples):
        _wait_for(args, flush())
        cold.append(_time_calls(fn, args, 1))
    warm_s = statistics.median(warm)
    return {
        "first_s": first,
        "cold_s": statistics.median(cold),
        "warm_s": warm_s,
        "one_time_s": first - warm_s,
    }


def profile_attention_components(
    seq_len: int,
    d_model: int,
    num_heads: int,
    *,
    batch: int = 1,
    dtype: str = "float32",
    device: str = "cpu",
    warmup: int = 3,
    iterations: int = 10,
) -> Profile:
    """Time each part of an attention layer by itself, then the whole layer.

    The layer, on random x of shape (batch, seq_len, d_model), without mask, biases and dropout, and
    without gradients; head_dim = d_model / num_heads:
        qkv_projection     x @ W, W of shape (d_model, 3 d_model), and its result as Q, K, V of shape
                           (batch, num_heads, seq_len, head_dim)
        score_computation  Q @ K.T / sqrt(head_dim), of every head
        softmax            over each row of the scores
        weighted_sum       softmax's result @ V
        output_projection  the heads side by side again, @ a matrix of shape (d_model, d_model)
    A component is timed with `benchmark_function` (with warmup and iterations), on inputs that were
    made before. The whole is all five in one function, timed the same way.

    dtype: a name or alias that `profiling_lab.devices.dtype` knows ("float32", "fp32", "bf16" …), of a
    floating-point type that torch has under the name found there ("tfloat32" it has not).
    device: what torch calls it ("cpu", "cuda").

    Returns {"device": "cpu", or what the driver calls the GPU, "dtype": torch's name of it, "batch",
    "seq_len", "d_model", "num_heads", "components", "sum_s": the sum of the components' times, "whole_s",
    "call_floor_s": the time of a call that works on one element, torch.relu say, measured the same way}.
    "components" is a list in the order above of {"name", "time_s", "share": of sum_s, "flops", "bytes"}.
    flops: 2 m k n for a product of (m, k) and (k, n); a row of softmax of width w takes 5 w - 2 (largest
    element, differences, exponentials, their sum, quotients); the scale is not counted. bytes: each
    input (x, W, Q, K …) is read once, each result written once, in the data type's size.

    Raises ValueError for a size or count that is no whole number of at least 1, num_heads that does not
    divide d_model, and a data type that torch does not have. If the device has too little memory
    (torch.OutOfMemoryError), raises MemoryError whose message holds the four sizes and what PyTorch said
    (what was asked for and what was free); no tensor made here is alive then.
    """
    _check_counts(
        seq_len=seq_len, d_model=d_model, num_heads=num_heads, batch=batch,
        warmup=warmup, iterations=iterations,
    )  # fmt: skip
    if d_model % num_heads:
        raise ValueError(f"d_model is {d_model}, which {num_heads} heads do not divide")
    import torch

    name = devices.dtype(dtype).name
    if not isinstance(getattr(torch, name, None), torch.dtype):
        raise ValueError(f"dtype is {dtype!r}, of which torch has no tensors")
    shape = f"batch {batch}, seq_len {seq_len}, d_model {d_model}, num_heads {num_heads}, {name}"
    times = _with_room(
        functools.partial(
            _layer_times, seq_len, d_model, num_heads, batch, name, device, warmup, iterations
        ),
        f"profiling attention with {shape} on {device}",
    )
    rows, pairs = batch * num_heads * seq_len, batch * num_heads * seq_len * seq_len
    inputs, product = batch * seq_len * d_model, 2 * batch * seq_len * seq_len * d_model
    counted = {
        "qkv_projection": (6 * inputs * d_model, 4 * inputs + 3 * d_model * d_model),
        "score_computation": (product, 2 * inputs + pairs),
        "softmax": (5 * pairs - 2 * rows, 2 * pairs),
        "weighted_sum": (product, 2 * inputs + pairs),
        "output_projection": (2 * inputs * d_model, 2 * inputs + d_model * d_model),
    }
    size = devices.dtype(name).bytes
    sum_s = sum(times[component] for component in COMPONENTS)
    return {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "dtype": name,
        "batch": batch,
        "seq_len": seq_len,
        "d_model": d_model,
        "num_heads": num_heads,
        "components": [
            {
                "name": component,
                "time_s": times[component],
                "share": times[component] / sum_s,
                "flops": counted[component][0],
                "bytes": counted[component][1] * size,
            }
            for component in COMPONENTS
        ],
        "sum_s": sum_s,
        "whole_s": times["whole"],
        "call_floor_s": times["call_floor"],
    }


def identify_bottleneck(profile_results: Profile, device: str | None = None) -> dict[str, Any]:
    """The component that takes most time, its bound, and the evidence for that.

    profile_results: as `profile_attention_components` returns it; further keys, "share" and "sum_s" are
    not read. device: hold it against this device of `profiling_lab.devices` instead of the profile's.

    The component's *least times*, each of which something forces on it:
        "compute"  its operations at the device's peak for the profile's data type
        "memory"   its bytes at the device's memory bandwidth
        "launch"   call_floor_s: a call takes that long however little it does
    The largest of the three is its bound (of equal ones the first in this order). Far below a roof
    (roof_ratio) something else is the limit, which counters show and this does not.

    Returns {
        "component", "time_s", "share": of the components' sum,
        "bound": "compute", "memory" or "launch",
        "least_s": {"compute", "memory", "launch"},
        "margin_ratio": 1 - the second largest least time / the largest; near 0 the bound is borderline,
        "intensity": the component's operations per byte,
        "ridge": the device's, peak over bandwidth, for this data type,
        "roof_ratio": the larger of the compute and memory least times over time_s; 1.0 is on the roof,
        "sum_to_whole_ratio": the components' sum over whole_s; far from 1 the parts do not explain the whole,
        "recommendation": one of the moves in ADVICE that suit what was found}.
    What was found is the bound, with two exceptions. A memory-bound component out of FUSIBLE is "scores":
    they need not go through memory at all, so fusing pays however close to its roof it is. Any other
    compute-bound or memory-bound one with a roof_ratio of at least CEILING_RATIO is "ceiling": there is little to win.
    Of equally long components the first is taken.

    Raises ValueError if a key that is needed is missing, if there are no components, and for a time,
    bytes or operations not above 0; DeviceError (a LabError) for an unknown device or data type.
    """
    parts = _checked_components(profile_results)
    known = devices.get(profile_results["device"] if device is None else device)
    peak = known.peak(profile_results["dtype"])
    bandwidth = known.memory_bandwidth_bytes_per_s
    sum_s = sum(part["time_s"] for part in parts)
    slowest = max(parts, key=lambda part: part["time_s"])
    least = {
        "compute": slowest["flops"] / peak,
        "memory": slowest["bytes"] / bandwidth,
        "launch": profile_results["call_floor_s"],
    }
    bound = max(least, key=lambda name: least[name])
    _, second, largest = sorted(least.values())
    roof_ratio = max(least["compute"], least["memory"]) / slowest["time_s"]
    found = bound
    if bound == "memory" and slowest["name"] in FUSIBLE:
        found = "scores"
    elif bound != "launch" and roof_ratio >= CEILING_RATIO:
        found = "ceiling"
    return {
        "component": slowest["name"],
        "time_s": slowest["time_s"],
        "share": slowest["time_s"] / sum_s,
        "bound": bound,
        "least_s": least,
        "margin_ratio": 1 - second / largest,
        "intensity": slowest["flops"] / slowest["bytes"],
        "ridge": peak / bandwidth,
        "roof_ratio": roof_ratio,
        "sum_to_whole_ratio": sum_s / profile_results["whole_s"],
        "recommendation": ADVICE[found][0],
    }


def component_report(profile_results: Profile, device: str | None = None) -> str:
    """The profile as a table that says what it is evidence of.

    profile_results, device: as in `identify_bottleneck`, whose finding stands at the end. The lines:
        1  "Attention Component Profiling"
        2  the profile's own device, data type and shape, such as
           "NVIDIA H200, bfloat16, batch 4, seq_len 4096, d_model 4096, num_heads 32"
        3  the head of the table: Component, Time (ms), % Total
        then one line for each component, in the profile's order: its name, its time in ms with four
           decimals, its share of the components' sum with one decimal and "%";
        then "Total" with the sum and 100.0%, and "Whole layer" with whole_s in ms and its share of the
           sum, which shows what the parts do not explain;
        then "Bottleneck: NAME (SHARE% of the sum, BOUND-bound, ROOF% of the roof)" with one decimal
           each, and "Recommendation: …".
    Lines of dashes and empty lines may stand between; columns are separated by blanks.

    Raises as `identify_bottleneck`.
    """
    found = identify_bottleneck(profile_results, device)
    parts = _checked_components(profile_results)
    sum_s = sum(part["time_s"] for part in parts)
    rule = "--------------------------------------------"
    rows = [(part["name"], part["time_s"]) for part in parts]
    rows += [("Total", sum_s), ("Whole layer", profile_results["whole_s"])]
    table = [f"{name:<20}{seconds * 1e3:>14.4f}{seconds / sum_s:>10.1%}" for name, seconds in rows]
    shape = ", ".join(
        f"{key} {profile_results[key]}" for key in ("batch", "seq_len", "d_model", "num_heads")
    )
    return "\n".join(
        [
            "Attention Component Profiling",
            f"{profile_results['device']}, {profile_results['dtype']}, {shape}",
            f"{'Component':<20}{'Time (ms)':>14}{'% Total':>10}",
            rule,
            *table[:-2],
            rule,
            *table[-2:],
            "",
            f"Bottleneck: {found['component']} ({found['share']:.1%} of the sum, "
            f"{found['bound']}-bound, {found['roof_ratio']:.1%} of the roof)",
            f"Recommendation: {found['recommendation']}",
        ]
    )


def optimize_attention(Q: Tensor, K: Tensor, V: Tensor, optimization_level: int) -> Tensor:  # noqa: N803
    """softmax(Q @ K.T / sqrt(head_dim)) @ V, in one of five ways.

    Q has shape (batch, heads, queries, head_dim), K and V (batch, heads, keys, head_dim); a result like
    Q, with gradients to all three. No mask, no dropout.

    optimization_level:
        0  materialised: a product, torch.softmax, a product; scores and probabilities are tensors
        1  the function of level 0 under `torch.compile`, which is called when this level is first
           asked for (not when this file is imported), and only once
        2  torch.nn.functional.scaled_dot_product_attention, which chooses a backend by itself
        3  the same with the flash backend pinned (`torch.nn.attention.sdpa_kernel`, in force during the
           call alone). Where that backend does not exist for these inputs: RuntimeError that says so
           and names data type, device and shape; there is no silent fallback
        4  the backend that is fastest here: of FLASH_ATTENTION, CUDNN_ATTENTION, EFFICIENT_ATTENTION and
           MATH those that exist for these inputs are timed (warmed up, several calls, without gradients)
           when this combination of the shapes of Q and K, data type and device comes for the first time;
           the winner is remembered for that combination and used at once from then on. RuntimeError if
           there is none
    In float16 a product of large Q and K overflows although its scaled value would not: all levels
    give finite results as long as the scaled scores are in the range of the data type.

    Raises TypeError for a level that is no int (True is none here), ValueError for one that is not 0 to 4
    and for tensors that do not have four dimensions, do not fit together as above, are not of one
    floating-point data type, or lie on different devices; the message names what differs.
    """
    if type(optimization_level) is not int:
        raise TypeError(f"optimization_level is {optimization_level!r}: a whole number is needed")
    if optimization_level not in range(5):
        raise ValueError(f"optimization_level is {optimization_level}: levels are 0 to 4")
    _check_attention(Q, K, V)
    import torch
    from torch.nn.attention import SDPBackend

    if optimization_level == 0:
        return _materialised(Q, K, V)
    if optimization_level == 1:
        return _compiled()(Q, K, V)
    if optimization_level == 2:
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    if optimization_level == 4:
        return _pinned(_fastest_backend(Q, K, V), Q, K, V)
    try:
        return _pinned(SDPBackend.FLASH_ATTENTION, Q, K, V)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise RuntimeError(
            f"no flash attention for {Q.dtype} on {Q.device}, shape {tuple(Q.shape)}: {error}"
        ) from error


def measure_memory_usage(
    fn: Callable[..., Any], args: Sequence[Any], device: str | None = None
) -> dict[str, Any]:
    """Bytes of tensors that one call of fn(*args) needs: at its peak, and what stays.

    device: "cuda", "cuda:1" …, or "cpu"; None: the device of the first CUDA tensor in args (anywhere in
    nested lists, tuples and dicts), else "cpu".

    Returns {"device", "peak_bytes": the most that was allocated at any moment of the call, beyond what
    was allocated before it; "net_bytes": what is allocated when fn has returned and its result is still
    held, beyond what was before; negative if the call freed more than it kept}.
        CUDA: from torch.cuda.memory_allocated, max_memory_allocated and reset_peak_memory_stats of that
            device, after waiting for it; so in the allocator's steps, and with what operators need
            on their way.
        CPU: the storages of all tensors that operators of PyTorch make during the call, each once, with
            its whole size, for as long as it lives; views and results in place have none of their own. What
            an operator needs on its way is not seen, nor what was allocated before and is freed.
    fn may call measure_memory_usage itself: neither call spoils the other's peak. A call that raises
    leaves nothing behind that changes later ones.

    Raises TypeError for fn and args as `benchmark_function`, ValueError for a device that is neither. If
    the device has too little memory for the call, raises MemoryError whose message holds what PyTorch
    said (what was asked for, and on CUDA what was free); nothing that fn had allocated is alive then.
    PyTorch raises torch.OutOfMemoryError on CUDA, and on the CPU a RuntimeError that names its
    "DefaultCPUAllocator"; any other error of fn is the caller's to see.
    """
    _check_call(fn, args)
    if device is None:
        device = next((str(t.device) for t in _leaves(args) if _on_cuda(t)), "cpu")
    if device != "cpu" and not device.startswith("cuda"):
        raise ValueError(f"device is {device!r}: 'cpu', 'cuda' or 'cuda:<number>' is needed")
    meter = _cpu_meter() if device == "cpu" else _CudaMeter(device)
    with meter:
        result = _with_room(functools.partial(fn, *args), f"the call on {device}")
        net = meter.allocated_bytes()
    del result
    return {"device": device, "peak_bytes": meter.peak_bytes, "net_bytes": net}


def benchmark_on_gpu(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int, iterations: int
) -> dict[str, float]:
    """`benchmark_function` beside CUDA events, on this machine's GPU.

    Warms up once for both. Five times in turns: `benchmark_function`, then the same number of calls
    between two CUDA events.

    Returns {"benchmark_s": median of the five, seconds per call, "events_s": median by the events,
    "ratio": benchmark_s / events_s}.
    """
    import torch

    found: dict[str, list[float]] = {"benchmark_s": [], "events_s": []}
    for _ in range(5):
        found["benchmark_s"].append(benchmark_function(fn, args, warmup, iterations))
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(iterations):
            fn(*args)
        end.record()
        end.synchronize()
        found["events_s"].append(start.elapsed_time(end) / 1e3 / iterations)
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {**medians, "ratio": medians["benchmark_s"] / medians["events_s"]}


def attention_levels_on_gpu(Q: Tensor, K: Tensor, V: Tensor) -> dict[str, Any]:  # noqa: N803
    """Levels 0, 2, 3 and 4 of `optimize_attention` on this machine's GPU, in turns.

    Returns {"times_s": level as text to the median of five measurements with `benchmark_function`
    (10 calls each), "fastest": the level with the least of these}.
    """
    levels = ("0", "2", "3", "4")
    found: dict[str, list[float]] = {level: [] for level in levels}
    for _ in range(5):
        for level in levels:
            found[level].append(
                benchmark_function(optimize_attention, (Q, K, V, int(level)), 2, 10)
            )
    times = {level: statistics.median(values) for level, values in found.items()}
    return {"times_s": times, "fastest": min(times, key=lambda level: times[level])}


def attention_memory_on_gpu(tokens: Sequence[int], level: int) -> list[int]:
    """peak_bytes of `optimize_attention` at a level on this machine's GPU, for each number of tokens.

    Q, K and V: random, bfloat16, shape (1, 8, tokens, 64).
    """
    import torch

    out = []
    for count in tokens:
        given = [torch.randn(1, 8, count, 64, device="cuda", dtype=torch.bfloat16) for _ in "QKV"]
        out.append(measure_memory_usage(optimize_attention, (*given, level))["peak_bytes"])
    return out


# -- bad input --  # reference only


def _check_counts(**counts: int) -> None:
    """ValueError, naming the argument, unless each count is an int of at least 1."""
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is {value!r}: a whole number of at least 1 is needed")


def _check_call(fn: Any, args: Any) -> None:
    """TypeError unless fn can be called with args."""
    if not callable(fn):
        raise TypeError(f"{fn!r} cannot be called: pass the function, not its result")
    if not isinstance(args, tuple | list):
        raise TypeError(f"args is a {type(args).__name__}: a tuple or list is needed, such as (x,)")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins do not tell
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        raise TypeError(f"fn{signature} does not take {len(args)} arguments: {error}") from None


def _checked_components(profile: Profile) -> list[dict[str, Any]]:
    """The components of a profile that has all that is needed, with sound numbers."""
    needed = ("device", "dtype", "batch", "seq_len", "d_model", "num_heads", "components")
    missing = [key for key in (*needed, "whole_s", "call_floor_s") if key not in profile]
    if missing:
        raise ValueError(f"the profile lacks {', '.join(missing)}")
    if not profile["components"]:
        raise ValueError("the profile has no components")
    numbers = [("the profile", key, profile[key]) for key in ("whole_s", "call_floor_s")]
    for part in profile["components"]:
        for key in ("name", "time_s", "flops", "bytes"):
            if key not in part:
                raise ValueError(f"component {part.get('name')!r} lacks {key}")
        numbers += [(part["name"], key, part[key]) for key in ("time_s", "flops", "bytes")]
    for owner, key, value in numbers:
        if not value > 0:
            raise ValueError(f"{owner}: {key} is {value!r}, which is not above 0")
    return profile["components"]


def _check_attention(q: Tensor, k: Tensor, v: Tensor) -> None:
    """ValueError unless the three fit together."""
    for name, tensor in (("Q", q), ("K", k), ("V", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}: (batch, heads, tokens, head_dim) is needed"
            )
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}, Q {q.dtype} on {q.device}"
            )
    if not q.is_floating_point():
        raise ValueError(f"Q, K and V are {q.dtype}: a floating-point type is needed")
    if k.shape != v.shape:
        raise ValueError(f"K has shape {tuple(k.shape)}, V {tuple(v.shape)}: they must agree")
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"Q has shape {tuple(q.shape)}, K {tuple(k.shape)}: only the tokens may differ"
        )


# -- time --  # reference only


def _leaves(value: Any) -> list[Any]:
    """What nested dicts, lists and tuples hold."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value]


def _on_cuda(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.is_cuda


def _wait_for(args: Sequence[Any], result: Any) -> None:
    """Wait for what was issued, see `benchmark_function`."""
    for leaf in _leaves(result):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    torch = sys.modules.get("torch")
    if torch is not None:
        used = {leaf.device for leaf in _leaves([args, result]) if _on_cuda(leaf)}
        for device in used:
            torch.cuda.synchronize(device)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()


def _warm_up(fn: Callable[..., Any], args: Sequence[Any], calls: int) -> None:
    for _ in range(calls):
        result = fn(*args)
        _refuse_lazy(result)
        _wait_for(args, result)


def _refuse_lazy(result: Any) -> None:
    """TypeError for a result that has not been computed yet."""
    if isinstance(result, collections.abc.Iterator | collections.abc.Awaitable):
        raise TypeError(
            f"fn returned a {type(result).__name__}, which has computed nothing yet: "
            "consume it inside fn"
        )


def _time_calls(fn: Callable[..., Any], args: Sequence[Any], calls: int) -> float:
    """Seconds per call, of so many calls in a row."""
    result = None
    _wait_for(args, result)
    start = time.perf_counter()
    for _ in range(calls):
        result = fn(*args)
    _wait_for(args, result)
    seconds = time.perf_counter() - start
    _refuse_lazy(result)
    return seconds / calls


def _layer_times(
    seq_len: int,
    d_model: int,
    num_heads: int,
    batch: int,
    dtype: str,
    device: str,
    warmup: int,
    iterations: int,
) -> dict[str, float]:
    """Seconds per call of each component, of the whole, and of a call that does next to nothing."""
    import torch

    heads_shape = (batch, seq_len, num_heads, d_model // num_heads)
    made = {"device": device, "dtype": getattr(torch, dtype)}
    x, one = torch.randn(batch, seq_len, d_model, **made), torch.randn((), **made)
    linear, random = torch.nn.functional.linear, torch.nn.init.xavier_normal_
    w_qkv = random(torch.empty(3 * d_model, d_model, **made))
    w_out = random(torch.empty(d_model, d_model, **made))

    def qkv_projection(x: Tensor) -> list[Tensor]:
        parts = linear(x, w_qkv).chunk(3, dim=-1)
        return [part.view(heads_shape).transpose(1, 2) for part in parts]

    def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def output_projection(summed: Tensor) -> Tensor:
        return linear(summed.transpose(1, 2).flatten(2), w_out)

    def whole(x: Tensor) -> Tensor:
        q, k, v = qkv_projection(x)
        return output_projection(weighted_sum(_probabilities(_scores(q, k)), v))

    with torch.no_grad():
        q, k, v = qkv_projection(x)
        scores = _scores(q, k)
        weights = _probabilities(scores)
        summed = weighted_sum(weights, v)
        calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
            "qkv_projection": (qkv_projection, (x,)),
            "score_computation": (_scores, (q, k)),
            "softmax": (_probabilities, (scores,)),
            "weighted_sum": (weighted_sum, (weights, v)),
            "output_projection": (output_projection, (summed,)),
            "whole": (whole, (x,)),
            "call_floor": (torch.relu, (one,)),
        }
        return {
            name: benchmark_function(fn, args, warmup, iterations)
            for name, (fn, args) in calls.items()
        }


# -- attention --  # reference only


def _scores(q: Tensor, k: Tensor) -> Tensor:
    # The scale goes to Q: scores that are scaled afterwards may have overflowed before.
    return (q * q.shape[-1] ** -0.5) @ k.mT


def _probabilities(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _materialised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _probabilities(_scores(q, k)) @ v


@functools.cache
def _compiled() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    import torch

    return torch.compile(_materialised)


def _pinned(backend: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v)


# (shape of Q, shape of K, data type, device) to the backend that was fastest.
_FASTEST: dict[tuple[Any, ...], Any] = {}
_TRIALS = {"warmup": 3, "samples": 5}


def _fastest_backend(q: Tensor, k: Tensor, v: Tensor) -> Any:
    """The remembered winner for such tensors, found by measurement the first time."""
    import torch
    from torch.nn.attention import SDPBackend

    key = (q.shape, k.shape, q.dtype, q.device)
    if key not in _FASTEST:
        names = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
        times = {}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backend that does not exist says why, at length
            for backend in (getattr(SDPBackend, name) for name in names):
                call = functools.partial(_pinned, backend)
                try:
                    times[backend] = benchmark_distribution(call, (q, k, v), **_TRIALS)["median_s"]
                except RuntimeError:
                    continue
        if not times:
            raise RuntimeError(f"no backend for {q.dtype} on {q.device}, {tuple(q.shape)}")
        _FASTEST[key] = min(times, key=lambda backend: times[backend])
    return _FASTEST[key]


# -- memory --  # reference only


def _with_room(call: Callable[[], Any], what: str) -> Any:
    """call(); MemoryError if the device has no room, with nothing of the call kept alive."""
    import torch

    try:
        return call()
    except RuntimeError as error:  # torch.OutOfMemoryError is one; the CPU's allocator has no own
        said = str(error)
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in said:
            raise
    # Raised out here: an exception raised above would hold the first one, whose traceback holds
    # the frames of the call and all of their tensors.
    torch.cuda.empty_cache()  # does nothing where CUDA was not used
    raise MemoryError(f"{what}: {said}")


class _CudaMeter:
    """What one call allocates on a CUDA device, of which the driver keeps one peak for all."""

    _open: ClassVar[list[_CudaMeter]] = []

    def __init__(self, device: str) -> None:
        self._device = device
        self._before = 0
        self._most = 0
        self.peak_bytes = 0

    def __enter__(self) -> _CudaMeter:
        import torch

        torch.cuda.synchronize(self._device)
        self._note_peak()
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = self._most = torch.cuda.memory_allocated(self._device)
        self._open.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        import torch

        torch.cuda.synchronize(self._device)
        self._note_peak()
        self._open.remove(self)
        self.peak_bytes = self._most - self._before

    def _note_peak(self) -> None:
        """Write the peak so far down for every call that is being measured, each of its own device."""
        import torch

        for meter in self._open:
            meter._most = max(meter._most, torch.cuda.max_memory_allocated(meter._device))

    def allocated_bytes(self) -> int:
        import torch

        return torch.cuda.memory_allocated(self._device) - self._before


def _cpu_meter() -> Any:
    """The same for the CPU: a mode that sees every operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class CpuMeter(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self._made: dict[int, weakref.ref[Any]] = {}
            self.peak_bytes = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return (
                False  # else the first operator imports all of torch.compile, which takes seconds
            )

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            given = {id(storage) for storage in _storages([args, kwargs])}
            result = func(*args, **kwargs)
            for storage in _storages(result):
                if id(storage) not in given:
                    self._made[id(storage)] = weakref.ref(storage)
            self.peak_bytes = max(self.peak_bytes, self.allocated_bytes())
            return result

        def allocated_bytes(self) -> int:
            alive = {key: ref() for key, ref in self._made.items()}
            self._made = {key: self._made[key] for key, it in alive.items() if it is not None}
            return sum(storage.nbytes() for storage in alive.values() if storage is not None)

    return CpuMeter()


def _storages(value: Any) -> list[Any]:
    import torch

    return [leaf.untyped_storage() for leaf in _leaves(value) if isinstance(leaf, torch.Tensor)]
