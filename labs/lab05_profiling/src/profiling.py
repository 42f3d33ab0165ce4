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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


def benchmark_on_gpu(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int, iterations: int
) -> dict[str, float]:
    """`benchmark_function` beside CUDA events, on this machine's GPU.

    Warms up once for both. Five times in turns: `benchmark_function`, then the same number of calls
    between two CUDA events.

    Returns {"benchmark_s": median of the five, seconds per call, "events_s": median by the events,
    "ratio": benchmark_s / events_s}.
    """
    raise NotImplementedError


def attention_levels_on_gpu(Q: Tensor, K: Tensor, V: Tensor) -> dict[str, Any]:  # noqa: N803
    """Levels 0, 2, 3 and 4 of `optimize_attention` on this machine's GPU, in turns.

    Returns {"times_s": level as text to the median of five measurements with `benchmark_function`
    (10 calls each), "fastest": the level with the least of these}.
    """
    raise NotImplementedError


def attention_memory_on_gpu(tokens: Sequence[int], level: int) -> list[int]:
    """peak_bytes of `optimize_attention` at a level on this machine's GPU, for each number of tokens.

    Q, K and V: random, bfloat16, shape (1, 8, tokens, 64).
    """
    raise NotImplementedError
