"""Lab 05: time a call, take attention apart, say what limits it, predict, change it, and measure again.

The lesson is `README.md` in the folder above, next to `hints.md` with the hints, and

    uv run lab check lab05

says which tasks are right and what is wrong in the others. Times are in seconds (`_s`), as in the source of this lab.

`profiling_lab.measuring` gives the functions that you need not write: checks of arguments (they raise TypeError or
ValueError), `leaves` of nested results, `with_room`, `meter`, `pinned`. Call the checks first: they
refuse bad input.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab import devices, measuring

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

# Between these parts the score of every pair of tokens goes through memory, unless one kernel does all three.
FUSIBLE = ("score_computation", "softmax", "weighted_sum")

# A part that reaches this share of its roof leaves little to gain. On an H200 the largest matrix
# products reach it, and not much more (capture roofline_ops, and the projections of this lab's captures).
CEILING_RATIO = 0.65

# What to do: for each finding, the moves that suit it.
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
    """Seconds per call of fn(*args): the mean over calls issued one after another (*throughput time*).

    First call `check_call` and `check_counts`. Then call fn `warmup` times, wait, read `time.perf_counter()`,
    call fn `iterations` times, wait, and read the clock again. Do not wait between the timed calls, and call fn no more
    often. `wait_for(args, result)` waits for all work that was issued, in PyTorch and in JAX.
    `refuse_lazy` refuses a result that has not been computed yet.

    Example: the host issues a call in 2 us, the device needs 10 us for it. A hundred calls in a row take about 1 ms,
    so the result is near 1e-5. With a wait after each call it would be 1.2e-5 and more.
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
    """Time each part of an attention layer alone, then the whole layer.

    There are no mask, bias or gradients; head_dim = d_model / num_heads. x is random, (batch, seq_len, d_model):
        qkv_projection     x @ W, W (d_model, 3 d_model), cut into Q, K, V of (batch, num_heads, seq_len, head_dim)
        score_computation  Q @ K.T / sqrt(head_dim)
        softmax            of each row of the scores
        weighted_sum       the softmax's result @ V
        output_projection  the heads concatenated, @ a (d_model, d_model) matrix
    `benchmark_function` times each part on the previous part's result; the whole (all five in one function) on the
    same x; and the floor: torch.relu of one element.

    Returns {"device": `device_name`, "dtype", "batch", "seq_len", "d_model", "num_heads", "components", "sum_s",
    "whole_s", "call_floor_s"}. "components", in this order: {"name", "time_s", "share": of sum_s, "flops", "bytes"}.
    flops: 2 m k n for a product, 5 w - 2 for a row of w in the softmax, 0 for the scale. bytes: each input is read
    once, each result written once.

    First call `check_layer`: it returns "dtype". Run all in `with_room`; its `what` names the four sizes.

    Example: with 10 tokens, d_model 8, 2 heads, float32 the scores have 2 x 10 x 10 elements, score_computation 1,600
    operations and 4 x (80 + 80 + 200) bytes.
    """
    raise NotImplementedError


def identify_bottleneck(
    profile_results: Profile, device: str | devices.Device | None = None
) -> dict[str, Any]:
    """The part that takes most time (the first of equal ones), its bound, and the evidence for it.

    profile_results: as `profile_attention_components` returns it; do not use "share" and "sum_s". `check_profile`
    returns its components. device: a `devices.Device` or its name; None: the profile's own.

    A part has three *least times*: its operations at the device's peak for the data type ("compute"), its bytes at the
    memory bandwidth ("memory"), and call_floor_s ("launch"). The largest is its *bound*.

    Returns {"component", "time_s", "share": of the sum, "bound", "least_s": the three least times, "margin_ratio":
    1 - second largest / largest of them, "intensity": operations per byte, "ridge": peak / bandwidth, "roof_ratio":
    the larger of compute and memory / time_s, "sum_to_whole_ratio": sum / whole_s, "recommendation"}. The recommendation
    is one of the moves in ADVICE for the bound, with two exceptions: "scores" for a memory-bound part of FUSIBLE, and
    "ceiling" for any other compute- or memory-bound part whose roof_ratio is at least CEILING_RATIO.

    Example: 8e9 operations at 1e12 per second need 8 ms, 1e9 bytes at 2e11 per second 5 ms, a call 0.01 ms. Bound:
    compute, margin_ratio 0.375. If the part took 10 ms, roof_ratio is 0.8 and the recommendation "none".
    """
    raise NotImplementedError


def predict_fused(
    profile_results: Profile, device: str | devices.Device | None = None
) -> dict[str, float]:
    """The least time of the layer if one kernel does all of FUSIBLE: what you can know before you fuse.

    profile_results, device: as in `identify_bottleneck`. The fused kernel does all operations of the three parts. It
    reads Q, K and V once and writes the result once; scores and probabilities never go through memory. Its least time
    is the largest of the three that `identify_bottleneck` defines. The other parts keep their share of whole_s.

    Returns {"saved_bytes": bytes that the three parts move and the fused kernel does not, "fused_least_s",
    "layer_least_s": the layer's least time, but at most whole_s, "speedup_at_most": whole_s / layer_least_s}.

    Raises what `identify_bottleneck` raises.

    Example: the whole layer takes 10 ms, the three parts 6 ms of it. The fused kernel needs at least 1 ms, so the
    layer needs 5 ms, and it gets at most twice as fast.
    """
    raise NotImplementedError


def optimize_attention(Q: Tensor, K: Tensor, V: Tensor, optimization_level: int) -> Tensor:  # noqa: N803
    """softmax(Q @ K.T / sqrt(head_dim)) @ V, in one of five ways, without mask and dropout.

    Q: (batch, heads, queries, head_dim); K, V: (batch, heads, keys, head_dim). The result has Q's shape, and all three
    get gradients. First call `check_attention`. In float16, nothing may overflow if the scaled scores fit.

    optimization_level:
        0  a product, torch.softmax, a product; scores and probabilities are tensors
        1  level 0 under `torch.compile`, called once, when level 1 is first used
        2  torch.nn.functional.scaled_dot_product_attention, which chooses a backend itself
        3  only the flash backend: `pinned` raises RuntimeError if it does not exist. No silent fallback
        4  the fastest backend here. At the first call with a combination of data type, device and shapes of Q and K,
           time all of BACKENDS that exist (with warm-up, without gradients), and remember the fastest. RuntimeError
           if none exists

    Example: for Q = K = V = ones of (1, 1, 3, 4) every level gives ones.
    """
    raise NotImplementedError


def measure_memory_usage(
    fn: Callable[..., Any], args: Sequence[Any], device: str | None = None
) -> dict[str, Any]:
    """Bytes of tensors that one call of fn(*args) needs: at its peak, and afterwards.

    device: "cuda", "cuda:1" …, or "cpu"; None: the device of the first CUDA tensor in args (anywhere in
    nested lists, tuples and dicts), else "cpu".

    Returns {"device", "peak_bytes", "net_bytes"}. Both count only bytes beyond those allocated before the call.
    "peak_bytes" is the most at any moment of the call. "net_bytes" is what is allocated when fn has returned and its
    result still exists; it is negative if the call freed more than it kept.

    First call `check_call`. `meter(device)` measures. The call runs in `with_room`; fn may measure other calls itself.

    Example: x * 2 + 1 on 1,000 floats. The product and the sum exist at the same moment, afterwards only the sum. So
    peak_bytes is 8,000 and net_bytes is 4,000.
    """
    raise NotImplementedError


def benchmark_distribution(
    fn: Callable[..., Any],
    args: Sequence[Any],
    warmup: int,
    samples: int,
    calls_per_sample: int = 1,
) -> dict[str, Any]:
    """Repeated measurements of fn(*args), and how much they vary.

    After `warmup` calls, take `samples` samples. For each sample, wait for everything issued before, read
    the clock, call fn `calls_per_sample` times, wait, and read the clock again. A sample is in seconds per
    call. With one call in a sample this is the latency of a call; with many it is the throughput time of
    `benchmark_function`. Use the same clock as that function, and wait as it does.

    Returns {"samples_s": a list in the order taken, "median_s", "q25_s", "q75_s", "iqr_s"}: quartiles
    with linear interpolation between the nearest samples (NumPy's default); iqr_s is their difference.

    Raises the errors of `benchmark_function`. Each of the three counts must be at least 1.
    """
    raise NotImplementedError


def cold_and_warm(
    fn: Callable[..., Any], args: Sequence[Any], flush: Callable[[], Any], samples: int
) -> dict[str, float]:
    """Three times of one call that are easily confused: the first, with cold caches, with warm caches.

    fn has not been called before. flush() issues work that removes everything else from the caches.
    Measure each call alone: wait, clock, one call, wait, clock (see `benchmark_distribution`).

    Returns {"first_s", "cold_s", "warm_s", "one_time_s"}:
        "first_s"     the very first call, with compilation and everything else that happens once
        "cold_s"      median of `samples` calls, each after its own flush, which ends before the clock starts
        "warm_s"      median of `samples` calls, each right after another call of fn
        "one_time_s"  first_s - warm_s

    Raises the errors of `benchmark_function`, and TypeError if flush cannot be called, before any call.
    """
    raise NotImplementedError


def component_report(profile_results: Profile, device: str | None = None) -> str:
    """The profile as a table with its finding.

    profile_results, device: as in `identify_bottleneck`, whose finding comes last. The lines:
        1  "Attention Component Profiling"
        2  the profile's own device, data type and shape, such as
           "NVIDIA H200, bfloat16, batch 4, seq_len 4096, d_model 4096, num_heads 32"
        3  the head of the table: Component, Time (ms), % Total
        then one line for each component, in the profile's order: its name, its time in ms with four
           decimals, its share of the components' sum with one decimal and "%";
        then "Total" with the sum and 100.0%, and "Whole layer" with whole_s in ms and its share of the
           sum, which shows how far the parts differ from the whole;
        then "Bottleneck: NAME (SHARE% of the sum, BOUND-bound, ROOF% of the roof)" with one decimal
           each, and "Recommendation: …".
    Lines of dashes and empty lines may come between these lines. Blanks separate the columns.

    Raises the errors of `identify_bottleneck`.
    """
    raise NotImplementedError


def benchmark_on_gpu(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int, iterations: int
) -> dict[str, float]:
    """`benchmark_function` compared with CUDA events, on this machine's GPU.

    Warm up once for both. Then repeat five times, alternately: `benchmark_function`, then the same number of
    calls between two CUDA events.

    Returns {"benchmark_s": median of the five, seconds per call, "events_s": median by the events,
    "ratio": benchmark_s / events_s}.
    """
    raise NotImplementedError


def attention_levels_on_gpu(Q: Tensor, K: Tensor, V: Tensor) -> dict[str, Any]:  # noqa: N803
    """Levels 0, 2, 3 and 4 of `optimize_attention` on this machine's GPU, timed alternately.

    Returns {"times_s", "fastest"}. "times_s" maps the level, as text, to the median of five measurements
    with `benchmark_function` (10 calls each). "fastest" is the level with the least time.
    """
    raise NotImplementedError


def attention_memory_on_gpu(tokens: Sequence[int], level: int) -> list[int]:
    """peak_bytes of `optimize_attention` at a level on this machine's GPU, for each number of tokens.

    Q, K and V: random, bfloat16, shape (1, 8, tokens, 64).
    """
    raise NotImplementedError
