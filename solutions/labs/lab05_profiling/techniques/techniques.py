"""Lab 05, techniques: lower precision, gradient checkpointing, memory layout.

Each technique comes with a promise ("twice as fast", "half the memory"). Here you first predict its
gain for this model on this device, and then read the real gain from a recording. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check lab05_techniques

says which tasks are right and what is wrong in the others. Devices and data types come from `profiling_lab.devices`.

The recordings (`techniques_wide`, `techniques_narrow`) hold `techniques.json`: a list of rows for each
experiment ("precision", "checkpoint", "layouts"). In the first two experiments a row has "step_time",
samples in ns. The rows were timed alternately, in rounds: sample i of every row comes from round i. The first
row is the baseline. One more row repeats it; its name is the first row's name followed by " again".
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from operator import truediv
from typing import Any

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError

# The data type in which a matrix product runs. Everything else runs in float32.
PRODUCTS_IN = {"fp32": "float32", "tf32": "tfloat32", "bf16": "bfloat16", "fp16": "float16"}
EVERYTHING_ELSE_IN = "float32"


def experiment(capture: str, name: str, *columns: str) -> list[dict[str, Any]]:
    """The rows of one experiment of a capture (its name or path), in the file's order. Given.

    Raises CaptureError if there is no such experiment, if a row lacks one of `columns` or "name", if a row's
    "step_time" has no sample or not as many as the first row's, or if there is no row " again".
    """
    try:
        rows = json.loads(captures.text(capture, "techniques.json"))[name]
        needed = [[row[key] for key in ("name", *columns)] for row in rows]
        counts = {len(row["step_time"]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(
            f"{capture}: no experiment {name!r} that can be read ({error})"
        ) from None
    if len(counts) != 1 or 0 in counts:
        raise CaptureError(f"{capture}: the rows of {name!r} need one sample each in every round")
    again = f"{rows[0]['name']} again"
    if again not in [first for first, *_ in needed]:
        raise CaptureError(f"{capture}: no row {again!r}, so nothing tells the noise")
    return rows


def predict_autocast(
    operations: Sequence[dict[str, Any]], device: str, precision: str
) -> dict[str, float]:
    """The least time of a step on a device, with its matrix products in a lower precision.

    operations: a list of {"kind": "matmul" or "other", "flops" and "elements": those of one operation (elements of all
    tensors read and written), "count": how many there are}. device: a name that `devices.get` knows. precision: "fp32", "tf32", "bf16" or "fp16".

    As under `torch.autocast` (source: https://docs.pytorch.org/docs/stable/amp.html; leave out casts), the precision
    applies only to the products: it sets their peak and the size of their elements. All other operations stay in
    float32. An operation takes as long as its arithmetic at the peak or its bytes at the bandwidth, whichever is
    longer. Operations run one after the other.

    Returns {"predicted_ns": the total, "matmul_ns": the products' part of it, "speedup_ratio": the
    total in "fp32" on the same device, divided by predicted_ns}.

    Raises ValueError if there are no operations, or for an unknown kind or precision; DeviceError (of
    `devices`) for an unknown device, or one without a peak for the precision.

    Example: on an H200 a product of 2e12 operations and 5e7 elements takes 29.9 ms in fp32 and 2.02 ms in bf16:
    speedup_ratio 14.8.
    """
    if precision not in PRODUCTS_IN:
        raise ValueError(f"precision is {precision!r}; known: {', '.join(PRODUCTS_IN)}")
    kinds = {operation["kind"] for operation in operations}
    if not kinds or not kinds <= {"matmul", "other"}:
        raise ValueError(f"the kinds are {sorted(kinds)}: 'matmul' and 'other' are known")
    found = devices.get(device)

    def time_ns(operation: dict[str, Any], precision: str) -> float:
        product = operation["kind"] == "matmul"
        name = PRODUCTS_IN[precision] if product else EVERYTHING_ELSE_IN
        compute_s = operation["flops"] / found.peak(name)
        moved_bytes = operation["elements"] * devices.dtype(name).bytes
        memory_s = moved_bytes / found.memory_bandwidth_bytes_per_s
        return 1e9 * operation["count"] * max(compute_s, memory_s)

    whole = sum(time_ns(operation, precision) for operation in operations)
    products = [operation for operation in operations if operation["kind"] == "matmul"]
    return {
        "predicted_ns": whole,
        "matmul_ns": float(sum(time_ns(operation, precision) for operation in products)),
        "speedup_ratio": sum(time_ns(operation, "fp32") for operation in operations) / whole,
    }


def autocast_gain(capture: str) -> dict[str, Any]:
    """What lower precision gave in a recording: the experiment "precision" (see `experiment`).

    Returns {"noise_ratio", "ways"}. The *speedup* of a row in a round is the baseline's sample of
    that round divided by the row's. noise_ratio is how far the speedup of the row " again" was from 1 in
    the worst round. ways has, for each row except the baseline and its repetition, in the file's order:

    - "name", "step_ns": the median of its samples;
    - "speedup_ratio": the median of its speedups over the rounds;
    - "memory_ratio": its "peak_bytes" divided by the baseline's;
    - "verdict": "faster" if speedup_ratio is above 1 + noise_ratio, "slower" if it is below
      1 - noise_ratio, else "no difference".

    Raises CaptureError as `experiment` does, also if the column "peak_bytes" is missing.

    Example: the samples are 10, 20 for the baseline, 10, 16 for its repetition, and 5, 8 for a way: noise_ratio
    0.25, speedup_ratio 2.25, "faster".
    """
    base, *others = experiment(capture, "precision", "peak_bytes")
    speedups = {
        row["name"]: list(map(truediv, base["step_time"], row["step_time"])) for row in others
    }
    again = f"{base['name']} again"
    noise = max(abs(ratio - 1) for ratio in speedups[again])
    ways = []
    for row in others:
        if row["name"] == again:
            continue
        speedup = statistics.median(speedups[row["name"]])
        verdict = "no difference"
        if speedup > 1 + noise:
            verdict = "faster"
        elif speedup < 1 - noise:
            verdict = "slower"
        ways.append(
            {
                "name": row["name"],
                "step_ns": float(statistics.median(row["step_time"])),
                "speedup_ratio": speedup,
                "memory_ratio": row["peak_bytes"] / base["peak_bytes"],
                "verdict": verdict,
            }
        )
    return {"noise_ratio": noise, "ways": ways}


def segment_lengths(layer_count: int, segment_count: int) -> list[int]:
    """Lengths of consecutive segments, as equal as possible, longer ones first: 7, 3 → [3, 2, 2]. Given.

    Raises ValueError unless 1 <= segment_count <= layer_count, both integers.
    """
    if type(layer_count) is not int or type(segment_count) is not int:
        raise ValueError(
            f"{layer_count!r} layers in {segment_count!r} segments: whole numbers only"
        )
    if not 1 <= segment_count <= layer_count:
        raise ValueError(
            f"{segment_count} segments of {layer_count} layers: take 1 to {layer_count}"
        )
    short, longer = divmod(layer_count, segment_count)
    return [short + (index < longer) for index in range(segment_count)]


def predict_checkpointing(
    layer_count: int, segment_count: int, input_bytes: int, inner_bytes: int, forward_flops: int
) -> dict[str, float]:
    """What a chain of equal layers keeps and computes when it is cut into checkpointed segments.

    A normal layer keeps its input (input_bytes) and its intermediate results (inner_bytes) until its own
    backward pass. Its forward pass takes forward_flops operations, its backward pass twice as many.

    `segment_lengths` cuts the layers. The forward pass keeps only the input of each segment except the last, which runs
    normally. Then, from the last segment to the first: another forward pass computes the segment's
    missing results, its backward pass runs, and all that it kept is freed. Leave out gradients and
    weights.

    Returns {"kept_bytes": bytes at the end of the forward pass, "peak_bytes": the most bytes at any
    time, "recomputed_layers": number of layers whose forward pass ran twice, "flops": operations of
    the whole step, "flops_ratio": flops divided by those of the same step without checkpoints}.

    Raises ValueError as `segment_lengths` does, and if one of the other three arguments is below 1.

    Example: 4 layers, 2 segments, inputs of 1, inner of 3 bytes: kept_bytes 9, peak_bytes 9, recomputed_layers 2,
    flops_ratio 14 / 12.
    """
    lengths = segment_lengths(layer_count, segment_count)
    if min(input_bytes, inner_bytes, forward_flops) < 1:
        raise ValueError("input_bytes, inner_bytes and forward_flops must be at least 1")
    # During the backward pass of segment i, the inputs of the i segments before it are held too.
    held = [
        index * input_bytes + length * (input_bytes + inner_bytes)
        for index, length in enumerate(lengths)
    ]
    recomputed = layer_count - lengths[-1]
    plain_flops = 3 * layer_count * forward_flops
    flops = plain_flops + recomputed * forward_flops
    return {
        "kept_bytes": held[-1],
        "peak_bytes": max(held),
        "recomputed_layers": recomputed,
        "flops": flops,
        "flops_ratio": flops / plain_flops,
    }


def checkpoint_layers(layers: Sequence[Callable[[Any], Any]], x: Any, segment_count: int) -> Any:
    """Run layers one after the other on a tensor, as `predict_checkpointing` says; return the last result.

    layers: modules or plain functions, each of which takes and returns a tensor. x: a tensor, with or
    without requires_grad; do not change it. Between the forward and the backward pass, keep only the input of
    each segment except the last, and what the last segment keeps. A layer's forward pass runs once. If the layer is not
    in the last segment, it runs once more during the backward pass.

    The result and the gradients, of x (if it requires them) and of all parameters, are the same as
    without checkpoints, also if a layer draws random numbers (dropout).

    Raises ValueError as `segment_lengths` does.

    Example: 3 layers in 2 segments: the first two run twice, the last one once.
    """
    from torch.utils.checkpoint import checkpoint

    def run(part: Sequence[Callable[[Any], Any]], x: Any) -> Any:
        for layer in part:
            x = layer(x)
        return x

    start = 0
    *before, last = segment_lengths(len(layers), segment_count)
    for length in before:
        # The reentrant kind gives no gradients if x needs none itself.
        x = checkpoint(run, layers[start : start + length], x, use_reentrant=False)
        start += length
    return run(layers[-last:], x)


def choose_segments(capture: str, budget_bytes: int) -> dict[str, Any] | None:
    """The fastest number of segments that fits into memory: the experiment "checkpoint".

    A row fits if its "peak_bytes" are at most budget_bytes. Its slowdown is the median, over the rounds,
    of its sample divided by the baseline's of the same round. Of the rows that fit, except the row
    " again", choose the one with the least slowdown; if two are equal, the one with fewer segments.
    Differences within the noise count here, too.

    Returns the chosen row's {"segment_count", "peak_bytes", "step_ns", "slowdown_ratio"}; step_ns is the median of
    its samples. Returns None if no row fits.

    Raises CaptureError as `experiment` does, also if the column "peak_bytes" or "segment_count" is missing.

    Example: plain 10 GB, 4 segments 4 GB at 1.2 times the time, 12 segments 3 GB at 1.3 times. With 5 GB: 4 segments.
    """
    rows = experiment(capture, "checkpoint", "peak_bytes", "segment_count")
    base = rows[0]
    found = []
    for row in rows:
        if row["peak_bytes"] > budget_bytes or row["name"] == f"{base['name']} again":
            continue
        slowdowns = map(truediv, row["step_time"], base["step_time"])
        found.append(
            {
                "segment_count": row["segment_count"],
                "peak_bytes": row["peak_bytes"],
                "step_ns": float(statistics.median(row["step_time"])),
                "slowdown_ratio": statistics.median(slowdowns),
            }
        )
    return min(found, key=lambda row: (row["slowdown_ratio"], row["segment_count"]), default=None)


def layout_report(
    shape: Sequence[int], strides: Sequence[int], element_bytes: int
) -> dict[str, Any]:
    """What `.contiguous()` does to a tensor of this shape and these strides (in elements).

    A tensor is *contiguous* if its elements are in memory without gaps in the order of its
    dimensions, the last one changing fastest. A tensor of four dimensions (images, channels, height,
    width) is *channels last* if the same holds in the order images, height, width, channels. The stride
    of a dimension of size 1 does not matter, because it is never used. A tensor can be both. (Source:
    https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.memory_format)

    Returns {"contiguous", "channels_last", "copy_bytes", "channels_last_copy_bytes"}. The first two are
    bools. The other two are the bytes of new memory that `.contiguous()` and
    `.contiguous(memory_format=torch.channels_last)` fill, 0 if the tensor has that layout already.
    Without four dimensions, "channels_last" is False and "channels_last_copy_bytes" is None.

    Raises ValueError if there are not as many strides as sizes, if a size or element_bytes is below 1, or
    if a stride is below 0.
    """
    bad = any(size < 1 for size in shape) or any(stride < 0 for stride in strides)
    if bad or len(shape) != len(strides):
        raise ValueError(f"{list(shape)} with strides {list(strides)}: no layout of a tensor")
    if element_bytes < 1:
        raise ValueError(f"element_bytes is {element_bytes}: at least 1 is needed")

    def is_dense(order: Sequence[int]) -> bool:
        expected = 1
        for dimension in order:
            if shape[dimension] != 1 and strides[dimension] != expected:
                return False
            expected *= shape[dimension]
        return True

    whole = element_bytes
    for size in shape:
        whole *= size
    images = len(shape) == 4
    contiguous = is_dense(range(len(shape))[::-1])
    channels_last = images and is_dense((1, 3, 2, 0))
    return {
        "contiguous": contiguous,
        "channels_last": channels_last,
        "copy_bytes": 0 if contiguous else whole,
        "channels_last_copy_bytes": (0 if channels_last else whole) if images else None,
    }


def compare_on_gpu(
    before: Callable[[], Any], after: Callable[[], Any], rounds: int = 9
) -> dict[str, float]:
    """Two ways to do one step, on this machine's GPU: times taken alternately, and the peak of memory.

    before, after: functions without arguments. Each call does a whole step, forward and backward pass, may
    be repeated, and leaves nothing allocated. Call each twice to warm up. Then, in each round, run one
    step of before and one of after, each between two CUDA events of its own. At the end run one more
    step of each, by itself, to measure its memory.

    Returns {"before_ns", "after_ns": medians over the rounds, "speedup": median over the rounds of
    before's time / after's, "before_peak_bytes", "after_peak_bytes": the most that torch's allocator had
    in use during a step, beyond what was in use before it}.
    """
    import torch

    steps = {"before": before, "after": after}
    for step in (*steps.values(), *steps.values()):
        step()
    samples_ns: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step()
            end.record()
            end.synchronize()
            samples_ns[name].append(start.elapsed_time(end) * 1e6)
    found = {f"{name}_ns": statistics.median(values) for name, values in samples_ns.items()}
    found["speedup"] = statistics.median(map(truediv, *samples_ns.values()))
    for name, step in steps.items():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        found[f"{name}_peak_bytes"] = torch.cuda.max_memory_allocated() - held
    return found
