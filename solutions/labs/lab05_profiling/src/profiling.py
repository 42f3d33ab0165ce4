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
    measuring.check_call(fn, args)
    measuring.check_counts(warmup=warmup, iterations=iterations)
    _warm_up(fn, args, warmup)
    return _time_calls(fn, args, iterations)


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
    name = measuring.check_layer(
        dtype, d_model, num_heads,
        seq_len=seq_len, batch=batch, warmup=warmup, iterations=iterations,
    )  # fmt: skip
    shape = f"batch {batch}, seq_len {seq_len}, d_model {d_model}, num_heads {num_heads}, {name}"
    times = measuring.with_room(
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
        "device": measuring.device_name(device),
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
    parts = measuring.check_profile(profile_results)
    known = measuring.known_device(profile_results, device)
    slowest = max(parts, key=lambda part: part["time_s"])
    least = _least_s(known, profile_results, slowest["flops"], slowest["bytes"])
    bound = max(least, key=lambda name: least[name])
    _, second, largest = sorted(least.values())
    roof_ratio = max(least["compute"], least["memory"]) / slowest["time_s"]
    sum_s = sum(part["time_s"] for part in parts)
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
        "ridge": known.peak(profile_results["dtype"]) / known.memory_bandwidth_bytes_per_s,
        "roof_ratio": roof_ratio,
        "sum_to_whole_ratio": sum_s / profile_results["whole_s"],
        "recommendation": ADVICE[found][0],
    }


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
    parts = {part["name"]: part for part in measuring.check_profile(profile_results)}
    known = measuring.known_device(profile_results, device)
    fused = [parts[name] for name in FUSIBLE]
    tokens = profile_results["batch"] * profile_results["seq_len"]
    tensor_bytes = (
        tokens * profile_results["d_model"] * devices.dtype(profile_results["dtype"]).bytes
    )
    flops = sum(part["flops"] for part in fused)
    fused_least_s = max(_least_s(known, profile_results, flops, 4 * tensor_bytes).values())
    whole_s = profile_results["whole_s"]
    share = sum(part["time_s"] for part in fused) / sum(p["time_s"] for p in parts.values())
    layer_least_s = min(whole_s * (1 - share) + fused_least_s, whole_s)
    return {
        "saved_bytes": sum(part["bytes"] for part in fused) - 4 * tensor_bytes,
        "fused_least_s": fused_least_s,
        "layer_least_s": layer_least_s,
        "speedup_at_most": whole_s / layer_least_s,
    }


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
    measuring.check_attention(Q, K, V, optimization_level)
    import torch

    if optimization_level == 0:
        return _materialised(Q, K, V)
    if optimization_level == 1:
        return _compiled()(Q, K, V)
    if optimization_level == 2:
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    backend = "FLASH_ATTENTION" if optimization_level == 3 else _fastest_backend(Q, K, V)
    return measuring.pinned(backend, Q, K, V)


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
    measuring.check_call(fn, args)
    if device is None:
        on_cuda = filter(measuring.on_cuda, measuring.leaves(args))
        device = next((str(tensor.device) for tensor in on_cuda), "cpu")
    with measuring.meter(device) as meter:
        result = measuring.with_room(functools.partial(fn, *args), f"the call on {device}")
        net_bytes = meter.allocated_bytes()
    del result
    return {"device": device, "peak_bytes": meter.peak_bytes, "net_bytes": net_bytes}


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
    measuring.check_call(fn, args)
    measuring.check_counts(warmup=warmup, samples=samples, calls_per_sample=calls_per_sample)
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
    measuring.check_call(fn, args)
    measuring.check_call(flush, ())
    measuring.check_counts(samples=samples)
    first = _time_calls(fn, args, 1)
    warm = [_time_calls(fn, args, 1) for _ in range(samples)]
    cold = []
    for _ in range(samples):
        measuring.wait_for(args, flush())
        cold.append(_time_calls(fn, args, 1))
    warm_s = statistics.median(warm)
    return {
        "first_s": first,
        "cold_s": statistics.median(cold),
        "warm_s": warm_s,
        "one_time_s": first - warm_s,
    }


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
    found = identify_bottleneck(profile_results, device)
    parts = measuring.check_profile(profile_results)
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


def benchmark_on_gpu(
    fn: Callable[..., Any], args: Sequence[Any], warmup: int, iterations: int
) -> dict[str, float]:
    """`benchmark_function` compared with CUDA events, on this machine's GPU.

    Warm up once for both. Then repeat five times, alternately: `benchmark_function`, then the same number of
    calls between two CUDA events.

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
    """Levels 0, 2, 3 and 4 of `optimize_attention` on this machine's GPU, timed alternately.

    Returns {"times_s", "fastest"}. "times_s" maps the level, as text, to the median of five measurements
    with `benchmark_function` (10 calls each). "fastest" is the level with the least time.
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


# -- time --  # reference only


def _warm_up(fn: Callable[..., Any], args: Sequence[Any], calls: int) -> None:
    for _ in range(calls):
        result = fn(*args)
        measuring.refuse_lazy(result)
        measuring.wait_for(args, result)


def _time_calls(fn: Callable[..., Any], args: Sequence[Any], calls: int) -> float:
    """Seconds per call, of `calls` calls in a row."""
    result = None
    measuring.wait_for(args, result)
    start = time.perf_counter()
    for _ in range(calls):
        result = fn(*args)
    measuring.wait_for(args, result)
    seconds = time.perf_counter() - start
    measuring.refuse_lazy(result)
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

    made = {"device": device, "dtype": getattr(torch, dtype)}
    x, one = torch.randn(batch, seq_len, d_model, **made), torch.randn((), **made)
    w_qkv = torch.nn.init.xavier_normal_(torch.empty(d_model, 3 * d_model, **made))
    w_out = torch.nn.init.xavier_normal_(torch.empty(d_model, d_model, **made))

    def qkv_projection(x: Tensor) -> tuple[Tensor, ...]:
        parts = (x @ w_qkv).view(batch, seq_len, 3, num_heads, d_model // num_heads)
        return parts.permute(2, 0, 3, 1, 4).unbind()

    def output_projection(summed: Tensor) -> Tensor:
        return summed.transpose(1, 2).flatten(2) @ w_out

    def whole(x: Tensor) -> Tensor:
        return output_projection(_materialised(*qkv_projection(x)))

    with torch.no_grad():
        q, k, v = qkv_projection(x)
        scores = _scores(q, k)
        weights = _probabilities(scores)
        summed = weights @ v
        calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
            "qkv_projection": (qkv_projection, (x,)),
            "score_computation": (_scores, (q, k)),
            "softmax": (_probabilities, (scores,)),
            "weighted_sum": (torch.matmul, (weights, v)),
            "output_projection": (output_projection, (summed,)),
            "whole": (whole, (x,)),
            "call_floor": (torch.relu, (one,)),
        }
        return {
            name: benchmark_function(fn, args, warmup, iterations)
            for name, (fn, args) in calls.items()
        }


# -- the bottleneck --  # reference only


def _least_s(
    known: devices.Device, profile: Profile, flops: float, size: float
) -> dict[str, float]:
    """The least times that operations, bytes and the floor of a call allow."""
    return {
        "compute": flops / known.peak(profile["dtype"]),
        "memory": size / known.memory_bandwidth_bytes_per_s,
        "launch": profile["call_floor_s"],
    }


# -- attention --  # reference only


def _scores(q: Tensor, k: Tensor) -> Tensor:
    # Scale Q, not the scores: unscaled scores may overflow.
    return (q * q.shape[-1] ** -0.5) @ k.mT


def _probabilities(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def _materialised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _probabilities(_scores(q, k)) @ v


@functools.cache
def _compiled() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    import torch

    return torch.compile(_materialised)


# (shape of Q, shape of K, data type, device) to the backend that was fastest.
_FASTEST: dict[tuple[Any, ...], str] = {}
_TRIALS = {"warmup": 3, "iterations": 5}


def _fastest_backend(q: Tensor, k: Tensor, v: Tensor) -> str:
    """The remembered fastest backend for such tensors; the first time, found by measurement."""
    import torch

    key = (q.shape, k.shape, q.dtype, q.device)
    if key not in _FASTEST:
        times = {}
        for backend in measuring.BACKENDS:
            call = functools.partial(measuring.pinned, backend)
            with torch.no_grad(), contextlib.suppress(RuntimeError):
                times[backend] = benchmark_function(call, (q, k, v), **_TRIALS)
        if not times:
            raise RuntimeError(f"no backend for {q.dtype} on {q.device}, {tuple(q.shape)}")
        _FASTEST[key] = min(times, key=lambda backend: times[backend])
    return _FASTEST[key]
